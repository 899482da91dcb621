/*
 * extension/delivery/record.c
 *		A record goes into this process's ring.
 *
 * The usual record takes one reservation, one pass of copying, and one publishing store.
 * One that is too big sends parts of it ahead (parts.c).  When no room is to be waited
 * for, a short record takes its place (short_record.c), or it is dropped and counted: a
 * gap record tells of those before the next record, or at the session's end, where the
 * writer makes it if the ring has no room.
 *
 * Nothing here raises an error, takes a lock or allocates.
 */
#include "delivery/record.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/duration.h"
#include "delivery/encode.h"
#include "delivery/refusal.h"
#include "delivery/room.h"
#include "delivery/wait.h"

/* The most bytes of the pair that says how many there are behind the values. */
#define FURTHER_PAIR 48

/* Number of the first record that was dropped since the last gap record. */
static uint64 dropped_first STENO_SESSION_DATA;

/* Number of the last record whose wait was cancelled. */
static uint64 cancelled_seq STENO_SESSION_DATA;

/* A record is not written: remember it for the gap record. */
STENO_COLD static void
drop_record(uint64 seq)
{
	StenoRing  *ring = steno_my.producer.ring;
	uint32		reason = steno_refusal_gap_reason(steno_my.dropped == 0);

	/* the number that a staged record implies is that after the ring's last one */
	if (steno_my.staged)
		steno_unstage();
	if (steno_my.dropped++ == 0)
		dropped_first = seq;
	atomic_fetch_add_explicit(&ring->drops, 1, memory_order_relaxed);
	/* should we die, recovery says it */
	if (!steno_ring_has_gap(ring))
		ring->gap_reason = reason;
	ring->own_first = dropped_first;
	ring->own_last = seq;
	ring->own_gap = steno_my.dropped;
}

/* The next number is that of a record which nobody will see. */
STENO_COLD void
steno_record_drop(void)
{
	drop_record(++steno_my.seq);
}

/* The last record that was dropped is not any more: its number is free again. */
STENO_COLD static void
undo_record_drop(void)
{
	StenoLocal *my = &steno_my;

	my->seq--;
	my->dropped--;
	my->producer.ring->own_last = my->seq;
	my->producer.ring->own_gap = my->dropped;
	atomic_fetch_sub_explicit(&my->producer.ring->drops, 1, memory_order_relaxed);
}

/*
 * The last record was dropped when its wait was cancelled: true, and its statement
 * is about to fail.  Its number is free again, unless parts of it were sent: then
 * that number is for the next record of the statement, if that comes next.
 */
STENO_COLD bool
steno_record_undo_cancelled(void)
{
	if (steno_my.dropped == 0 || cancelled_seq != steno_my.seq)
		return false;
	if (steno_parts_sent(steno_my.seq) == NULL)
		undo_record_drop();
	return true;
}

/* Whether this is the record that parts were sent for, and then found no room. */
static bool
resumes_parts(const StenoRecord *r)
{
	return cancelled_seq == steno_my.seq && r->kind == STENO_KIND_STATEMENT &&
		steno_parts_sent(steno_my.seq) != NULL && steno_parts_are_of(r);
}

/* One record into the ring; false when there was no room. */
STENO_HOT static bool
put_whole(const StenoRecord *r, uint64 seq, bool top_level)
{
	StenoRecordMessage *m;
	uint64		total = steno_record_size(r);
	StenoParts	parts = {{0, 0, 0}};
	bool		in_parts = unlikely(total > steno_my.producer.max_message || r->further_len > 0);

	if (in_parts && !steno_parts_send(r, seq, &total, &parts))
		return false;
	m = steno_room((uint32) total);
	if (unlikely(m == NULL))
		return false;
	steno_record_write(m, r, seq, in_parts ? &parts : NULL, NULL, top_level);
	return true;
}

/*
 * The same for one that has relations and objects behind its values: it says how many bytes these are.  False
 * also if there is no space for that; a short record then says how many are left out.
 */
STENO_COLD static bool
put_with_further(const StenoRecord *r, uint64 seq, bool top_level)
{
	StenoRecord noted = *r;
	uint8		extra[512];
	char		number[24];
	uint8	   *p = extra + r->extra_len;

	if (r->extra_len + FURTHER_PAIR > sizeof(extra) || r->extra_count == PG_UINT8_MAX)
		return false;
	if (r->extra_len > 0)
		memcpy(extra, r->extra, r->extra_len);
	snprintf(number, sizeof(number), UINT64_FORMAT, r->further_len);
	p = steno_put_pair(p, "further_bytes", number);
	noted.extra = extra;
	noted.extra_len = p - extra;
	noted.extra_count++;
	return put_whole(&noted, seq, top_level);
}

static inline bool
put_numbered(const StenoRecord *r, uint64 seq, bool top_level)
{
	return unlikely(r->further_len > 0) ? put_with_further(r, seq, top_level) : put_whole(r, seq, top_level);
}

/*
 * There is no room for a record, and it is not waited for: put a short record into the ring
 * reserve, or drop the record.  It is also dropped if the statement is about to fail because
 * of this, since its failure has a record of its own.
 */
STENO_COLD static void
put_without_room(const StenoRecord *r, uint64 seq, bool top_level)
{
	bool		fails = r->may_fail && (steno_my.start_mask & STENO_START_CANCELLED) && steno_can_raise();

	if (fails || r->kind == STENO_KIND_START || r->kind == STENO_KIND_NOTE || steno_room_drops() ||
		!steno_short_put(r, r, seq, top_level))
		drop_record(seq);
}

/*
 * Call f, which makes one record, where an error would be a panic, such as after a commit:
 * false when it has raised one, out of memory at most.  The record is counted as
 * dropped.
 */
bool
steno_record_guarded(void (*f) (void))
{
	if (steno_call_guarded(f))
		return true;
	if (steno_my.state == STENO_READY)
		steno_record_drop();
	return false;
}

const char *
steno_gap_reason(uint32 reason)
{
	return reason == STENO_GAP_TRAIL ? "trail not writable" : "ring full";
}

/*
 * The extra pairs of a gap record; buf has room for STENO_GAP_EXTRA bytes.
 * Returns their length.
 */
uint32
steno_gap_extra(uint8 *buf, uint64 count, uint64 first, uint64 last, uint32 reason)
{
	const char *names[STENO_GAP_PAIRS] = {"count", "first_seq", "last_seq", "reason"};
	uint64		values[] = {count, first, last};
	uint8	   *p = buf;
	int			i;

	for (i = 0; i < STENO_GAP_PAIRS; i++)
	{
		char		number[32];
		const char *value = steno_gap_reason(reason);

		if (i < 3)
		{
			snprintf(number, sizeof(number), UINT64_FORMAT, values[i]);
			value = number;
		}
		p = steno_put_pair(p, names[i], value);
	}
	return p - buf;
}

/* The gap record takes the number after the last dropped one; next: the record that comes after it. */
static bool
put_gap_record(uint64 count, uint64 first, uint64 last, uint32 reason, const StenoRecord *next)
{
	StenoRecord gap;
	uint8		extra[STENO_GAP_EXTRA];

	steno_record_init(&gap, STENO_KIND_GAP);
	gap.time = GetCurrentTimestamp();
	gap.extra_len = steno_gap_extra(extra, count, first, last, reason);
	gap.extra = extra;
	gap.extra_count = STENO_GAP_PAIRS;
	return put_numbered(&gap, last + 1, false) || steno_short_put(&gap, next, last + 1, false);
}

/* Before the first record after dropped ones, next; NULL: none comes.  How many, and which. */
STENO_COLD static bool
put_gap(const StenoRecord *next)
{
	StenoLocal *my = &steno_my;

	if (!put_gap_record(my->dropped, dropped_first, my->seq, steno_refusal_gap_reason(false), next))
		return false;
	my->seq++;
	my->dropped = 0;
	my->producer.ring->own_gap = 0;
	return true;
}

/*
 * At the end of a session: drops without a gap record are left in the ring's header, where
 * the writer finds them.  end: the disconnect record, if it was the last one that was
 * dropped; then the writer makes that record, too.
 */
void
steno_gap_save(const StenoRecord *end)
{
	StenoLocal *my = &steno_my;
	StenoRing  *ring = my->producer.ring;

	if (my->dropped == 0 || (steno_is_described() && end == NULL && put_gap(NULL)))
		return;
	if (steno_ring_has_gap(ring))
	{
		/* the place is taken by the gap of an earlier session: the writer records how many, and why */
		uint64		before = atomic_load_explicit(&ring->orphan_drops, memory_order_relaxed);
		uint32		reason = steno_refusal_gap_reason(false);

		if (reason == STENO_GAP_TRAIL || before == __atomic_load_n(&ring->orphan_drops_recorded, __ATOMIC_RELAXED))
			atomic_store_explicit(&ring->orphan_drops_reason, reason, memory_order_relaxed);
		ring->orphan_drops_next = before + my->dropped;
		atomic_store_explicit(&ring->orphan_drops, ring->orphan_drops_next, memory_order_release);
	}
	else
	{
		uint32		reason = steno_refusal_gap_reason(false);

		if (end)
			undo_record_drop();
		ring->gap = my->dropped;
		ring->gap_first = dropped_first;
		ring->gap_last = my->seq;
		ring->gap_reason = reason;
		ring->gap_start = MyStartTimestamp;
		ring->gap_pid = MyProcPid;
		ring->gap_ended = end ? end->time : 0;
		ring->gap_sqlstate = end ? (uint32) end->sqlerrcode : 0;
		/* pairs with the acquire load in steno_ring_has_gap */
		atomic_fetch_add_explicit(&ring->gaps_left, 1, memory_order_release);
	}
	/* last: should we die before, recovery sees that both are of us */
	__atomic_store_n(&ring->own_gap, 0, __ATOMIC_RELEASE);
}

/* What the session's next record needs before it, and has found no room yet. */
static struct
{
	uint32		len;			/* 0: none */
	uint8		body[STENO_SESSION_MAX];
}			description STENO_SESSION_DATA;

static void
publish_description(StenoSessionMessage *m, const uint8 *body, uint32 len)
{
	m->m.kind = STENO_KIND_DEF_SESSION;
	m->m.flags = 0;
	m->body_len = len;
	m->pad = 0;
	m->seq = steno_my.seq;
	m->statement = steno_my.statement;
	steno_my.ring_statement = steno_my.statement;
	memcpy(m + 1, body, len);
	steno_ring_publish(&steno_my.producer, m);
	steno_session_described();
}

/*
 * Describe the session that the records which come next are of.  When the wait for room is
 * cancelled, and the shares in the reserve are all needed, it goes with the next record,
 * which may have one.
 */
void
steno_record_describe(const uint8 *body, uint32 len)
{
	StenoSessionMessage *m;

	steno_session_undescribed();
	description.len = 0;
	m = steno_room(sizeof(StenoSessionMessage) + len);
	if (m == NULL)
		m = steno_reserve_room(sizeof(StenoSessionMessage) + len, NULL);
	if (m != NULL)
		publish_description(m, body, len);
	else
	{
		memcpy(description.body, body, len);
		description.len = len;
	}
}

/* The description that has found no room, before the record that comes next. */
STENO_COLD static bool
put_description(const StenoRecord *next)
{
	StenoSessionMessage *m;

	if (description.len == 0)
		return false;
	m = steno_reserve_room(sizeof(StenoSessionMessage) + description.len, next);
	if (m == NULL)
		return false;
	publish_description(m, description.body, description.len);
	description.len = 0;
	return true;
}

/*
 * Put a record into the ring.  The caller has seen to it that the session is ready.
 * top_level: it is the record of the statement in the in-flight entry.
 */
STENO_HOT void
steno_record_put(StenoRecord *record, bool top_level)
{
	StenoLocal *my = &steno_my;

	if (unlikely(my->dropped > 0) && resumes_parts(record))
	{
		undo_record_drop();
		my->seq++;
		if (!steno_short_put(record, record, my->seq, top_level))
			drop_record(my->seq);
	}
	else if ((unlikely(!steno_is_described()) && !put_description(record)) ||
			 (unlikely(my->dropped > 0) && !put_gap(record)))
		drop_record(++my->seq);
	else
	{
		my->seq++;
		if (unlikely(!put_numbered(record, my->seq, top_level)))
			put_without_room(record, my->seq, top_level);
	}
	if (unlikely(my->dropped > 0) && (steno_my.start_mask & STENO_START_CANCELLED))
		cancelled_seq = my->seq;
	if (top_level)
		steno_inflight_end(&my->producer.ring->inflight);
	steno_record_reset_scratch();
	steno_record_wake_writer();
}

/*
 * Put the record of a commit that says nothing unusual, and for which there is space, as a
 * brief one.  False if it must be put like any other.
 */
STENO_HOT bool
steno_put_commit(const StenoRecord *record)
{
	StenoLocal *my = &steno_my;
	const StenoEnding *ending = record->ending;
	uint64		len = ending->lsn_end - ending->lsn;
	StenoCommitMessage *m;

	if (unlikely(!steno_is_described() || my->dropped > 0 || my->staged || record->audited != 0 ||
				 ((record->duration | len | ending->statements) >> 32) != 0))
		return false;
	m = steno_ring_reserve(&my->producer, sizeof(*m));
	if (unlikely(m == NULL))
		return false;
	m->m.kind = STENO_KIND_TRANSACTION;
	m->m.flags = STENO_MESSAGE_BRIEF;
	m->time = record->time;
	m->xid = record->xid;
	m->lsn = ending->lsn;
	m->lsn_len = (uint32) len;
	m->timeline = ending->timeline;
	m->duration = (uint32) record->duration;
	m->statements = (uint32) ending->statements;
	my->seq++;
	steno_publish_message(&m->m, false);
	steno_record_reset_scratch();
	steno_record_wake_writer();
	return true;
}

/*
 * Put the record of a nested statement that has succeeded as a brief one, if it says nothing unusual, and
 * there is space.  The template has its shape and text.  False if it must be put like any other.
 */
STENO_HOT bool
steno_put_nested(const StenoStatement *s, uint8 template, const StenoParams *params, uint64 rows, uint64 xid)
{
	StenoLocal *my = &steno_my;
	uint64		duration = steno_duration(s);
	StenoTimes	times;
	uint32		nulls_len = params ? params->nulls_len : 0;
	uint64		values_len = params ? nulls_len + params->values_len : 0;
	StenoBriefNesting nesting = {s->substatement, s->depth, (uint16) nulls_len};
	uint32		len = steno_brief_len((uint32) values_len);
	StenoBriefMessage *b;
	uint8	   *end;

	if (unlikely(!steno_is_described() || my->dropped > 0 || my->staged || s->audited != 0 ||
				 steno_audit_reason(s->class, 0) != 0 || values_len > PG_UINT8_MAX ||
				 s->statement != my->ring_statement + 1 || (((duration + 1) | (rows + 1)) >> 32) != 0 ||
				 steno_times_of(s, duration, &times)))
		return false;
	b = steno_ring_reserve(&my->producer, len + sizeof(xid) + sizeof(nesting));
	if (unlikely(b == NULL))
		return false;
	end = (uint8 *) b + len;
	steno_brief_encode(b, STENO_MESSAGE_NESTED | (params ? STENO_MESSAGE_VALUES : 0), s->time, template,
					   (uint8) values_len);
	b->version = my->producer.templates[template].version;
	b->duration = (uint32) duration;
	b->rows = (uint32) rows;
	if (params)
		(void) steno_put_params(b->values, params, true);
	if (xid != 0)
	{
		memcpy(end, &xid, sizeof(xid));
		end += sizeof(xid);
		b->m.flags |= STENO_MESSAGE_XID;
	}
	memcpy(end, &nesting, sizeof(nesting));
	b->m.len = end + sizeof(nesting) - (uint8 *) b;
	my->seq++;
	steno_publish_message(&b->m, false);
	steno_record_reset_scratch();
	steno_record_wake_writer();
	return true;
}

/*
 * Stage a record (steno_stage_record) at the statement's end, which waits for room as steno.delivery says.
 * False also when that wait was cancelled.
 */
STENO_COLD bool
steno_stage_ended(const StenoRecord *record)
{
	const StenoLocal *my = &steno_my;
	uint64		most = steno_record_size(record) + sizeof(StenoTimes);

	if (steno_stage_record(record))
		return true;
	if (!steno_is_described() || my->dropped > 0 || my->staged || record->further_len > 0 ||
		most > my->producer.max_message || steno_room_when_full((uint32) most) == NULL)
		return false;
	return steno_stage_record(record);
}

/* Whether a record goes into the ring in several parts. */
bool
steno_record_is_big(const StenoRecord *record)
{
	return record->further_len > 0 || steno_record_size(record) > steno_my.producer.max_message;
}
