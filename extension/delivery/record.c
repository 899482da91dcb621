/*
 * extension/delivery/record.c
 *		A record, encoded in place in this process's ring.
 *
 * The usual record takes one reservation, one pass of copying, and one
 * publishing store.  A record too big for that sends parts of its text,
 * parameters and message ahead (data messages), each as large as the ring
 * allows, and then itself.
 *
 * When the ring is full, steno.delivery says whether to wait or to drop.  A wait
 * that is cancelled ends in a short record: what is essential of the record, in a
 * part of the ring that nothing else uses, the reserve.  So whoever cancels cannot
 * keep a statement out of the trail.  delivery.c says what else becomes of it.
 *
 * The reserve has room for a short record of each statement that has begun and has
 * no record yet.  Once some of it is used, no statement begins before it is whole
 * again (STENO_START_SHORT): each begins with its record assured.  When more
 * statements are open than the reserve can be made for, each further one has a start
 * record, which tells of it instead.
 *
 * Nothing here raises an error, takes a lock or allocates.
 */
#include "base/steno.h"

#include <unistd.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "capture/statement.h"

/* How long a process that is to exit waits for room, in milliseconds. */
#define EXIT_PATIENCE 5000

/* Number of the first record that was dropped since the last gap record. */
static uint64 dropped_first;

/* Number of the last record whose wait was cancelled. */
static uint64 cancelled_seq;

/* The last record that has parts in the ring: its number, its statement, and how many bytes there are. */
static struct
{
	uint64		seq;
	uint64		statement;
	uint32		substatement;
	StenoParts	sent;
}			ahead;

/* The statement whose hook lets it fail when the wait for its record is cancelled. */
static uint64 failing_statement;
static uint32 failing_substatement;

/* How many statements the reserve is for. */
int			steno_record_covered;

/*
 * What the reserve has for a statement: its short record, a description of the session
 * and a gap record before it.  Where the ring begins anew, once, as much as the largest
 * of these can be lost.
 */
#define SHORT_LEAST 512
#define SHORT_MOST 1024
#define DESCRIPTION_ROOM ((sizeof(StenoSessionMessage) + STENO_SESSION_MAX + 7) & ~7u)
#define GAP_ROOM ((sizeof(StenoRecordMessage) + STENO_GAP_EXTRA + 7) & ~7u)
#define LOST_ROOM Max(SHORT_MOST, DESCRIPTION_ROOM)

static bool dying;				/* a FATAL error ends this process */

static uint64
waited(uint64 since)
{
	return steno_clock_us(&steno_my.clock, since, steno_clock_ticks(&steno_my.clock));
}

/*
 * Whether to wait no longer for room.  A process that is to exit is patient for a
 * while; a cancel, by whomever, or a timeout of the statement ends the wait at
 * once.  It stays pending: who can raises it (delivery.c).
 */
static bool
end_wait(uint64 start)
{
	static bool out_of_patience;	/* once for all records of a process that is to exit */

	if (proc_exit_inprogress || dying || !PostmasterIsAlive())
	{
		if (!out_of_patience && waited(start) <= EXIT_PATIENCE * UINT64CONST(1000))
			return false;

		/*
		 * Without a postmaster we would end at the next word of the client: end
		 * now, before it is told of a statement that has no record.  What recovery
		 * wants is in the ring file; nobody needs the rest.
		 */
		if (!proc_exit_inprogress && !PostmasterIsAlive())
			_exit(2);
		out_of_patience = true;
		return true;
	}
	if (!ProcDiePending && !QueryCancelPending)
		return false;
	steno_my.start_mask |= STENO_START_CANCELLED;
	return true;
}

/* A FATAL error is being reported: this process is to exit. */
void
steno_record_dying(void)
{
	dying = true;
}

/*
 * Ask the writer, and sleep for a little while; whether our latch was set, which the
 * caller sets again at the end of its wait so that nobody misses it.
 */
bool
steno_record_sleep(long *nap)
{
	int			events;

	steno_delivery_absorb_barriers();
	steno_writer_wake(steno_my.writer);
	if (proc_exit_inprogress || MyLatch == NULL)
	{
		pg_usleep(*nap * 1000L);
		*nap = Min(*nap * 2, 10);
		return false;
	}
	events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH,
					   *nap, steno_wait_events[STENO_WAIT_ROOM]);
	if (events & WL_POSTMASTER_DEATH)
		pg_usleep(*nap * 1000L); /* the writers are still there, for a while */
	*nap = Min(*nap * 2, 10);
	if (!(events & WL_LATCH_SET))
		return false;
	ResetLatch(MyLatch);
	return true;
}

/* Wait for the writer to free some of the ring. */
STENO_COLD static void *
wait_for_room(uint32 len)
{
	StenoProducer *p = &steno_my.producer;
	uint64		start = steno_clock_ticks(&steno_my.clock);
	bool		latch_was_set = false;
	long		nap = 1;
	void	   *m;

	if (steno_delivery_can_raise())
		steno_my.start_mask &= ~STENO_START_HURRY;
	else if (steno_my.start_mask & STENO_START_HURRY)
		return NULL;
	atomic_fetch_add_explicit(&p->ring->waits, 1, memory_order_relaxed);
	while ((m = steno_ring_reserve(p, len)) == NULL)
	{
		if (end_wait(start) || steno_refusal_drops())
			break;
		latch_was_set |= steno_record_sleep(&nap);
	}
	if (latch_was_set)
		SetLatch(MyLatch);
	atomic_fetch_add_explicit(&p->ring->wait_us, waited(start), memory_order_relaxed);
	return m;
}

/* Whether what finds no room is dropped, and not waited for. */
bool
steno_record_drops(void)
{
	return (steno_my.delivery == STENO_DELIVERY_DROP && !(steno_my.start_mask & STENO_START_SYNC)) ||
		steno_refusal_drops();
}

/* Room for a message, by steno.delivery; NULL when it is to be dropped, or the wait was cancelled. */
STENO_HOT void *
steno_record_room(uint32 len)
{
	void	   *m;

	if (unlikely(steno_my.staged != NULL))
		steno_record_unstage();
	m = steno_ring_reserve(&steno_my.producer, len);
	if (likely(m != NULL))
		return m;
	steno_writer_wake(steno_my.writer);
	if (steno_record_drops())
		return NULL;
	return wait_for_room(len);
}

/* ---- the reserve ---- */

static inline uint32
short_size(void)
{
	return Max(SHORT_LEAST, Min(SHORT_MOST, steno_my.producer.size / 32));
}

/* What the reserve has for one statement. */
static inline uint32
statement_share(void)
{
	return short_size() + DESCRIPTION_ROOM + GAP_ROOM;
}

/*
 * How many statements have begun, and have no record yet, at most.  One that has just
 * failed may be counted, or not: the reserve has a share more than statements.
 */
STENO_COLD int
steno_record_owed(void)
{
	int			owed = steno_my.open_count;
	const StenoLevel *l;

	for (l = steno_my.level; l; l = l->outer)
		owed += l->query == NULL;
	return owed;
}

/* The reserve is to be for so many statements; false: it cannot be made that large, half of the ring. */
STENO_COLD bool
steno_record_cover(int owed)
{
	StenoProducer *p = &steno_my.producer;
	int			most = (p->size / 2 - LOST_ROOM) / statement_share() - 1;

	if (owed > steno_record_covered && steno_record_covered < most)
	{
		steno_record_covered = Min(owed, most);
		p->limit = p->size - LOST_ROOM - (steno_record_covered + 1) * statement_share();
	}
	return owed <= steno_record_covered;
}

/* Whether all of it is there. */
STENO_COLD bool
steno_record_reserve_is_whole(void)
{
	StenoProducer *p = &steno_my.producer;

	/* pairs with the release store in steno_ring_free */
	p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
	return steno_ring_used(p) + (steno_my.staged ? steno_my.staged->m.len : 0) <= p->limit;
}

/*
 * Room for a message in the reserve, if what is left is enough for the statements that
 * have begun.
 */
STENO_COLD void *
steno_record_reserved(uint32 len)
{
	StenoProducer *p = &steno_my.producer;
	uint64		limit = p->limit;
	uint64		kept = (uint64) steno_record_owed() * statement_share();
	void	   *m;

	if (steno_record_drops() || kept > p->size - limit)
		return NULL;
	if (steno_my.staged != NULL)
		steno_record_unstage();
	p->limit = p->size - kept;
	m = steno_ring_reserve(p, len);
	p->limit = limit;
	if (m != NULL)
		steno_delivery_short(true);
	return m;
}

/* A record could not be taken down: remember it for the gap record. */
STENO_COLD static void
drop(uint64 seq)
{
	StenoRing  *ring = steno_my.producer.ring;
	uint32		reason = steno_refusal_gap_reason(steno_my.dropped == 0);

	if (steno_my.dropped++ == 0)
		dropped_first = seq;
	atomic_fetch_add_explicit(&ring->drops, 1, memory_order_relaxed);
	/* should we die, recovery says it */
	if (ring->gap == 0)
		ring->gap_reason = reason;
	ring->own_first = dropped_first;
	ring->own_last = seq;
	ring->own_gap = steno_my.dropped;
}

/* The next number is that of a record which nobody will see. */
STENO_COLD void
steno_record_drop(void)
{
	drop(++steno_my.seq);
}

/* The record of a statement comes, at the end of a hook that can still let it fail (delivery.c). */
STENO_COLD void
steno_record_may_fail(const StenoStatement *s)
{
	failing_statement = s->statement;
	failing_substatement = s->top_level ? 0 : s->substatement;
}

/* The last record that was dropped is not any more: its number is free again. */
STENO_COLD static void
undo_drop(void)
{
	StenoLocal *s = &steno_my;

	s->seq--;
	s->dropped--;
	s->producer.ring->own_last = s->seq;
	s->producer.ring->own_gap = s->dropped;
	atomic_fetch_sub_explicit(&s->producer.ring->drops, 1, memory_order_relaxed);
}

/*
 * The last record was dropped when its wait was cancelled: true, and its statement
 * is about to fail.  Its number is free again, unless parts of it were sent: then
 * that number is for the next record of the statement, if that comes next.
 */
STENO_COLD bool
steno_record_take_back(void)
{
	if (steno_my.dropped == 0 || cancelled_seq != steno_my.seq)
		return false;
	if (ahead.seq != steno_my.seq)
		undo_drop();
	return true;
}

/* Whether this is the record that parts were sent for, and then found no room. */
static bool
resumes(const StenoRecord *r)
{
	return ahead.seq == steno_my.seq && cancelled_seq == steno_my.seq && r->kind == STENO_KIND_STATEMENT &&
		ahead.statement == r->statement && ahead.substatement == r->substatement;
}

/* A stretch of messages that are sent ahead of a big record. */
typedef struct Ahead
{
	uint64		seq;
	uint32		part;
	StenoDataMessage *message;
	uint32		capacity;
} Ahead;

STENO_COLD static void
ahead_publish(Ahead *a)
{
	uint32		full = a->message->m.len;
	uint32		used = (sizeof(StenoDataMessage) + a->message->len + 7) & ~7u;

	/* give back what the last part did not need */
	Assert(used <= full);
	(void) full;
	a->message->m.len = used;
	ahead.sent.bytes[a->part] += a->message->len;
	ahead.seq = a->seq;
	steno_ring_publish(&steno_my.producer, a->message);
	a->message = NULL;
}

/*
 * How much of n bytes of a longer text to send: whole characters, for what went ahead is
 * where a short record's text is cut.
 */
static uint32
clip_text(const char *text, uint64 len, uint32 n)
{
	int			i;

	if (GetDatabaseEncoding() != PG_UTF8)
		return pg_mbcliplen(text, (int) Min(len, (uint64) PG_INT32_MAX), (int) n);
	for (i = 1; i < MAX_MULTIBYTE_CHAR_LEN && n > 1 && (text[n] & 0xC0) == 0x80; i++)
		n--;
	return n;
}

STENO_COLD static bool
ahead_put(Ahead *a, const void *bytes, uint64 len)
{
	const char *from = bytes;

	while (len > 0)
	{
		uint32		n;

		if (a->message == NULL)
		{
			a->message = steno_record_room(steno_my.producer.max_message);
			if (a->message == NULL)
				return false;
			a->capacity = steno_my.producer.max_message - sizeof(StenoDataMessage);
			a->message->m.kind = STENO_KIND_DATA;
			a->message->m.flags = 0;
			a->message->seq = a->seq;
			a->message->part = a->part;
			a->message->len = 0;
		}
		n = Min(len, a->capacity - a->message->len);
		if (n < len && a->part != STENO_PART_VALUES)
			n = clip_text(from, len, n);
		memcpy((char *) (a->message + 1) + a->message->len, from, n);
		a->message->len += n;
		from += n;
		len -= n;
		if (len > 0 || a->message->len == a->capacity)
			ahead_publish(a);
	}
	return true;
}

/* Send all of a part ahead. */
STENO_COLD static bool
send_bytes_ahead(uint64 seq, uint32 part, const void *bytes, uint64 len)
{
	Ahead		a = {seq, part, NULL, 0};

	if (!ahead_put(&a, bytes, len))
		return false;
	if (a.message != NULL)
		ahead_publish(&a);
	return true;
}

STENO_COLD static bool
send_values_ahead(uint64 seq, const StenoParams *params)
{
	Ahead		a = {seq, STENO_PART_VALUES, NULL, 0};
	int			i;

	for (i = 0; i < params->count; i++)
	{
		const StenoParam *v = &params->values[i];
		uint8		prefix[STENO_VARINT_MAX];

		if (v->data == NULL)
			continue;
		if (v->prefixed &&
			!ahead_put(&a, prefix, steno_put_varint(prefix, v->len) - prefix))
			return false;
		if (!ahead_put(&a, v->data, v->len))
			return false;
	}
	if (a.message != NULL)
		ahead_publish(&a);
	return true;
}

STENO_HOT static uint8 *
put_params(uint8 *p, const StenoParams *params, bool values)
{
	int			i;

	if (unlikely(params->nulls != NULL))
	{
		memcpy(p, params->nulls, params->nulls_len);
		p += params->nulls_len;
	}
	else if (params->nulls_len > 0)
	{
		memset(p, 0, params->nulls_len);
		for (i = 0; i < params->count; i++)
			if (params->values[i].data == NULL)
				p[i / 8] |= 1 << (i % 8);
		p += params->nulls_len;
	}
	if (!values)
		return p;
	for (i = 0; i < params->count; i++)
	{
		const StenoParam *v = &params->values[i];

		if (v->data == NULL)
			continue;
		if (v->prefixed)
			p = steno_put_varint(p, v->len);
		memcpy(p, v->data, v->len);
		p += v->len;
	}
	return p;
}

/* NULLs and values, as they are encoded. */
STENO_COLD uint8 *
steno_params_put(uint8 *p, const StenoParams *params)
{
	return put_params(p, params, true);
}

static inline uint8 *
put_bytes(uint8 *p, const void *bytes, uint32 len)
{
	if (len > 0)
		memcpy(p, bytes, len);
	return p + len;
}

/* Lengths of a record's strings that are in the ring with it, not ahead. */
static inline uint64
plain_size(const StenoRecord *r)
{
	return sizeof(StenoRecordMessage) + r->shape_len + (r->text ? r->text_len : 0) +
		(r->params ? r->params->nulls_len + r->params->values_len : 0) +
		(r->message ? strlen(r->message) : 0) + r->extra_len;
}

/* Write the record at m; what parts counts has gone ahead. */
static pg_attribute_always_inline void
encode(StenoRecordMessage *m, const StenoRecord *r, uint64 seq, const StenoParts *parts, const StenoCut *cut)
{
	bool		in_parts = parts != NULL;
	bool		text_ahead = in_parts && parts->bytes[STENO_PART_TEXT] > 0;
	bool		values_ahead = in_parts && parts->bytes[STENO_PART_VALUES] > 0;
	bool		message_ahead = in_parts && parts->bytes[STENO_PART_MESSAGE] > 0;
	uint8	   *p;

	m->m.kind = r->kind;
	m->m.flags = (in_parts ? STENO_MESSAGE_PARTS : 0) | (cut ? STENO_MESSAGE_CUT : 0) |
		(r->params ? STENO_MESSAGE_VALUES : 0);
	m->seq = seq;
	m->time = r->time;
	m->duration = r->duration;
	m->rows = r->rows;
	m->statement = r->statement;
	m->substatement = r->substatement;
	m->depth = r->depth;
	m->outcome = r->outcome;
	m->extra_count = r->extra_count;
	m->xid = r->xid;
	if (r->sqlerrcode != 0)
		memcpy(m->sqlstate, unpack_sql_state(r->sqlerrcode), 6);
	else
		m->sqlstate[0] = '\0';
	m->shape_len = r->shape_len;
	m->text_len = r->text == NULL ? STENO_NONE32 : text_ahead ? 0 : (uint32) r->text_len;
	m->nulls_len = r->params ? r->params->nulls_len : 0;
	m->values_len = r->params && !values_ahead ? (uint32) r->params->values_len : 0;
	m->message_len = r->message && !message_ahead ? strlen(r->message) : 0;
	m->extra_len = r->extra_len;
	m->audited = r->audited;

	p = (uint8 *) (m + 1);
	if (unlikely(in_parts))
		p = put_bytes(p, parts, sizeof(*parts));
	if (cut)
		p = put_bytes(p, cut, sizeof(*cut));
	p = put_bytes(p, r->shape, r->shape_len);
	if (m->text_len != STENO_NONE32)
		p = put_bytes(p, r->text, m->text_len);
	if (r->params)
		p = put_params(p, r->params, !values_ahead);
	p = put_bytes(p, r->message, m->message_len);
	p = put_bytes(p, r->extra, r->extra_len);
	Assert(p <= (uint8 *) m + m->m.len);
}

/*
 * Publish a record.  top_level: it is that of the statement in the in-flight
 * slot; should we die on the way, the slot tells how far we came.
 */
static inline void
publish(StenoRecordMessage *m, bool top_level)
{
	StenoProducer *p = &steno_my.producer;

	if (top_level)
		steno_inflight_done(&p->ring->inflight, steno_ring_after(p, m));
	steno_ring_publish(p, m);
	atomic_store_explicit(&p->ring->records,
						  atomic_load_explicit(&p->ring->records, memory_order_relaxed) + 1,
						  memory_order_relaxed);
}

/* Send the largest parts ahead, until the rest fits; false when there was no room. */
STENO_COLD static bool
send_ahead(const StenoRecord *r, uint64 seq, uint64 *total, StenoParts *parts)
{
	uint32		most = steno_my.producer.max_message;
	uint64		message_len = r->message ? strlen(r->message) : 0;

	ahead.statement = r->statement;
	ahead.substatement = r->substatement;
	memset(&ahead.sent, 0, sizeof(ahead.sent));
	*total += sizeof(StenoParts);
	if (r->text && r->text_len > 0)
	{
		if (!send_bytes_ahead(seq, STENO_PART_TEXT, r->text, r->text_len))
			return false;
		parts->bytes[STENO_PART_TEXT] = r->text_len;
		*total -= r->text_len;
	}
	if (*total > most && r->params && r->params->values_len > 0)
	{
		if (!send_values_ahead(seq, r->params))
			return false;
		parts->bytes[STENO_PART_VALUES] = r->params->values_len;
		*total -= r->params->values_len;
	}
	if (*total > most && message_len > 0)
	{
		if (!send_bytes_ahead(seq, STENO_PART_MESSAGE, r->message, message_len))
			return false;
		parts->bytes[STENO_PART_MESSAGE] = message_len;
		*total -= message_len;
	}
	return *total <= most;		/* not with thousands of relations in a small
								 * ring */
}

/* One record into the ring; false when there was no room. */
STENO_HOT static bool
put(const StenoRecord *r, uint64 seq, bool top_level)
{
	StenoRecordMessage *m;
	uint64		total = plain_size(r);
	StenoParts	parts = {{0, 0, 0}};
	bool		in_parts = unlikely(total > steno_my.producer.max_message);

	if (in_parts && !send_ahead(r, seq, &total, &parts))
		return false;
	m = steno_record_room((uint32) total);
	if (unlikely(m == NULL))
		return false;
	encode(m, r, seq, in_parts ? &parts : NULL, NULL);
	publish(m, top_level);
	return true;
}

/* ---- short records ---- */

/* A record that is cut to what a short one has room for. */
typedef struct Short
{
	StenoRecord r;
	StenoCut	cut;
	bool		text_is_cut;
	uint32		left;			/* room for strings */
	uint8		shape[SHORT_MOST];
	uint8		extra[SHORT_MOST];
	char		message[SHORT_MOST];
} Short;

static const uint8 *
skip_varint(const uint8 *p)
{
	while (*p & 0x80)
		p++;
	return p + 1;
}

static const uint8 *
get_number(const uint8 *p, uint64 *v)
{
	int			shift = 0;

	for (*v = 0; *p & 0x80; shift += 7)
		*v |= (uint64) (*p++ & 0x7f) << shift;
	*v |= (uint64) *p << shift;
	return p + 1;
}

static const uint8 *
skip_string(const uint8 *p)
{
	uint64		len;

	p = get_number(p, &len);
	return p + len;
}

static void
say_omitted(Short *s, const char *name, uint64 count)
{
	char		number[24];
	uint8	   *p = s->extra + s->r.extra_len;

	if (count == 0)
		return;
	snprintf(number, sizeof(number), UINT64_FORMAT, count);
	p = steno_put_string(p, name);
	p = steno_put_string(p, number);
	s->r.extra_len = p - s->extra;
	s->r.extra_count++;
}

/* How many parameters there are in a list, in as many pieces as there may be: length, number, types ... */
static uint64
count_of_list(const StenoParams *params)
{
	const uint8 *number = skip_varint(params->values[0].data);
	uint64		count;

	if (number == params->values[0].data + params->values[0].len)
		number = params->values[1].data;
	(void) get_number(number, &count);
	return count;
}

/*
 * The shape without objects, and without parameters, whose values are left out; with as
 * many relations as fit in room.  It is one that we have made, so it is whole.
 */
static void
cut_shape(Short *s, uint32 room)
{
	const uint8 *from = s->r.shape;
	const uint8 *end = from + s->r.shape_len;
	const uint8 *relations = skip_string(skip_varint(skip_varint(from)));
	const uint8 *q;
	uint8	   *p;
	uint64		count;
	uint64		kept;
	uint64		params;
	uint64		objects = 0;
	uint64		i;
	const uint8 *last;

	q = last = get_number(relations, &count);
	for (i = kept = 0; i < count; i++)
	{
		q = skip_string(skip_varint(q + 1));
		if (kept == i && (q - from) + STENO_VARINT_MAX <= room)
		{
			kept++;
			last = q;
		}
	}
	q = get_number(q, &params);
	for (i = 0; i < params; i++)
	{
		q = skip_varint(q) + 1;
		if (q[-1] == STENO_REPR_LIST && s->r.params)
		{
			params = count_of_list(s->r.params);
			break;
		}
	}
	if (q < end)
		(void) get_number(q, &objects);

	p = put_bytes(s->shape, from, relations - from);
	p = steno_put_varint(p, kept);
	q = get_number(relations, &i);
	p = put_bytes(p, q, last - q);
	p = steno_put_varint(p, 0);
	s->r.shape = s->shape;
	s->r.shape_len = p - s->shape;
	say_omitted(s, "relations_omitted", count - kept);
	say_omitted(s, "parameters_omitted", params);
	say_omitted(s, "objects_omitted", objects);
}

/* What of the record's text is sent ahead already, or else the beginning of it. */
static void
cut_text(Short *s, uint64 sent)
{
	StenoRecord *r = &s->r;
	uint64		kept = sent > 0 ? sent : Min(r->text_len, s->left);

	if (kept == r->text_len)
		return;
	if (sent == 0)
		kept = pg_mbcliplen(r->text, (int) Min(r->text_len, (uint64) PG_INT32_MAX), (int) kept);
	s->cut.len = r->text_len;
	s->text_is_cut = true;
	r->text_len = kept;
}

/*
 * What is essential of a record: all but its strings, and as much of these as fits.
 * sent: what went ahead of it.
 */
static void
shorten(Short *s, const StenoRecord *r, const StenoParts *sent)
{
	uint32		fixed = sizeof(StenoRecordMessage) + sizeof(StenoParts) + sizeof(StenoCut);
	uint32		message_len;

	s->r = *r;
	s->r.extra = s->extra;
	s->cut = (StenoCut) {0};
	s->text_is_cut = false;
	s->left = short_size() - fixed;
	s->r.extra_len = 0;
	s->r.extra_count = 0;
	if (r->extra_len > 0 && r->extra_len <= s->left / 4)
	{
		memcpy(s->extra, r->extra, r->extra_len);
		s->r.extra_len = r->extra_len;
		s->r.extra_count = r->extra_count;
	}
	if (r->shape_len > 0)
		cut_shape(s, s->left / 2);
	s->r.params = NULL;
	s->left -= s->r.shape_len + s->r.extra_len;
	if (r->message)
	{
		message_len = Min(strlen(r->message), s->left / 2);
		message_len = pg_mbcliplen(r->message, strlen(r->message), message_len);
		memcpy(s->message, r->message, message_len);
		s->message[message_len] = '\0';
		s->r.message = s->message;
		s->left -= message_len;
	}
	if (r->text)
		cut_text(s, sent ? sent->bytes[STENO_PART_TEXT] : 0);
}

/* A short record into the reserve; false when there is no room. */
STENO_COLD static bool
put_short(const StenoRecord *r, uint64 seq, bool top_level)
{
	const StenoParts *sent = ahead.seq == seq ? &ahead.sent : NULL;
	StenoRecordMessage *m;
	Short		s;
	uint64		total;

	if (sent == NULL && plain_size(r) <= short_size())
	{
		m = steno_record_reserved((uint32) plain_size(r));
		if (m == NULL)
			return false;
		encode(m, r, seq, NULL, NULL);
		publish(m, top_level);
		return true;
	}
	shorten(&s, r, sent);
	total = plain_size(&s.r) + (sent ? sizeof(StenoParts) : 0) + (s.text_is_cut ? sizeof(StenoCut) : 0);
	if (sent && sent->bytes[STENO_PART_TEXT] > 0)
		total -= s.r.text_len;
	if (sent && sent->bytes[STENO_PART_MESSAGE] > 0)
		total -= strlen(s.r.message);
	Assert(total <= short_size());
	m = steno_record_reserved((uint32) total);
	if (m == NULL)
		return false;
	encode(m, &s.r, seq, sent, s.text_is_cut ? &s.cut : NULL);
	publish(m, top_level);
	return true;
}

/*
 * There was no room for a record, and none will be waited for.  What a hook may still
 * let fail has its record then; a statement that has not begun, and a note, fail
 * without.
 */
STENO_COLD static void
put_otherwise(const StenoRecord *r, uint64 seq, bool top_level)
{
	bool		fails = r->kind == STENO_KIND_STATEMENT && r->outcome == STENO_OUTCOME_OK &&
	r->statement == failing_statement && r->substatement == failing_substatement &&
	(steno_my.start_mask & STENO_START_CANCELLED) && steno_delivery_can_raise();

	if (fails || r->kind == STENO_KIND_START || r->kind == STENO_KIND_NOTE || steno_record_drops() ||
		!put_short(r, seq, top_level))
		drop(seq);
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
		p = steno_put_varint(p, strlen(names[i]));
		p = put_bytes(p, names[i], strlen(names[i]));
		p = steno_put_varint(p, strlen(value));
		p = put_bytes(p, value, strlen(value));
	}
	return p - buf;
}

/* The gap record takes the number after the last dropped one. */
static bool
put_gap_record(uint64 count, uint64 first, uint64 last, uint32 reason)
{
	StenoRecord gap;
	uint8		extra[STENO_GAP_EXTRA];

	steno_record_init(&gap, STENO_KIND_GAP);
	gap.time = GetCurrentTimestamp();
	gap.extra_len = steno_gap_extra(extra, count, first, last, reason);
	gap.extra = extra;
	gap.extra_count = STENO_GAP_PAIRS;
	return put(&gap, last + 1, false) || put_short(&gap, last + 1, false);
}

/* Before the first record after dropped ones: how many, and which. */
STENO_COLD static bool
put_gap(void)
{
	StenoLocal *s = &steno_my;

	if (!put_gap_record(s->dropped, dropped_first, s->seq, steno_refusal_gap_reason(false)))
		return false;
	s->seq++;
	s->dropped = 0;
	s->producer.ring->own_gap = 0;
	return true;
}

/* At the end of a session: what it could not say, somebody else will. */
void
steno_record_leave(void)
{
	StenoLocal *s = &steno_my;
	StenoRing  *ring = s->producer.ring;

	if (s->dropped == 0 || (s->described && put_gap()))
		return;
	if (ring->gap != 0)
	{
		/* that of the session before could not be said yet: the writer tells how many, and why */
		uint64		untold = atomic_load_explicit(&ring->untold, memory_order_relaxed);
		uint32		reason = steno_refusal_gap_reason(false);

		if (reason == STENO_GAP_TRAIL || untold == __atomic_load_n(&ring->told, __ATOMIC_RELAXED))
			atomic_store_explicit(&ring->untold_reason, reason, memory_order_relaxed);
		ring->leaving = untold + s->dropped;
		atomic_store_explicit(&ring->untold, ring->leaving, memory_order_release);
	}
	else
	{
		ring->gap_first = dropped_first;
		ring->gap_last = s->seq;
		ring->gap_reason = steno_refusal_gap_reason(false);
		ring->gap_start = MyStartTimestamp;
		ring->gap_pid = MyProcPid;
		ring->gap_described = s->described;
		__atomic_store_n(&ring->gap, s->dropped, __ATOMIC_RELEASE);
	}
	/* last: should we die before, recovery sees that both are of us */
	__atomic_store_n(&ring->own_gap, 0, __ATOMIC_RELEASE);
}

/* At the beginning of a session: say what the one before could not. */
void
steno_record_take_over(void)
{
	StenoRing  *ring = steno_my.producer.ring;
	bool		described = ring->gap_described || ring->gap_pid == 0;

	if (likely(ring->gap == 0))
		return;
	/* from here on, others are described */
	ring->gap_described = false;
	if ((described || steno_session_name(ring->gap_start, ring->gap_pid, ring->gap_last)) &&
		put_gap_record(ring->gap, ring->gap_first, ring->gap_last, ring->gap_reason))
		ring->gap = 0;
}

/*
 * In a writer, when the server stops and a ring has no owner: the same in the place of
 * the session that does not come.  Nothing waits for room, which only we could make.
 */
void
steno_record_tell_left_gap(uint32 i, StenoWriterControl *writer)
{
	StenoLocal *s = &steno_my;

	steno_producer_init(&s->producer, &steno_rings, i);
	s->writer = writer;
	s->delivery = STENO_DELIVERY_DROP;
	s->start_mask &= ~STENO_START_SYNC;
	steno_record_take_over();
}

/*
 * After a record: wake the writer when it sleeps deeply, or when the ring is half
 * full.  No fence between publishing and reading "asleep": a wake-up missed by
 * reordering costs one period of the writer's deep sleep, a second.
 */
static inline void
wake_writer(void)
{
	StenoProducer *p = &steno_my.producer;

	if (unlikely(atomic_load_explicit(&p->ring->asleep, memory_order_relaxed)))
	{
		atomic_store_explicit(&p->ring->asleep, 0, memory_order_relaxed);
		steno_writer_wake(steno_my.writer);
	}
	if (unlikely(steno_ring_used(p) > p->limit / 2))
	{
		/* pairs with the release store in steno_ring_free */
		p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
		if (steno_ring_used(p) > p->limit / 2)
			steno_writer_wake(steno_my.writer);
	}
}

/* What was taken for one record is free again. */
static inline void
reset_scratch(void)
{
	if (unlikely(steno_my.scratch_used))
	{
		steno_my.scratch_used = false;
		MemoryContextReset(steno_my.scratch);
	}
}

/*
 * Take a record down.  The caller has seen to it that the session is ready.
 * top_level: it is the record of the statement in the in-flight slot.
 */
STENO_HOT void
steno_record_put(StenoRecord *record, bool top_level)
{
	StenoLocal *s = &steno_my;

	if (unlikely(s->dropped > 0) && resumes(record))
	{
		undo_drop();
		s->seq++;
		if (!put_short(record, s->seq, top_level))
			drop(s->seq);
	}
	else if (unlikely(!s->described) || (unlikely(s->dropped > 0) && !put_gap()))
		drop(++s->seq);
	else
	{
		s->seq++;
		if (unlikely(!put(record, s->seq, top_level)))
			put_otherwise(record, s->seq, top_level);
	}
	if (unlikely(s->dropped > 0) && (steno_my.start_mask & STENO_START_CANCELLED))
		cancelled_seq = s->seq;
	if (top_level)
		steno_inflight_end(&s->producer.ring->inflight);
	reset_scratch();
	wake_writer();
}

/*
 * Take down the record of a failure that no hook has seen begin.  Secrets go
 * first: they are found in the text as it was.
 */
STENO_COLD void
steno_record_put_failed(StenoRecord *record)
{
	steno_secret_hide(record);
	if (steno_my.policy != 0 && !steno_policy_failed(record))
		return;
	if (!steno_my.log_statement)
		record->text = NULL;
	if (unlikely(steno_refusal_spares(record)))
		drop(++steno_my.seq);
	else
		steno_record_put(record, false);
}

/* ---- the staged record ---- */

/* Room for it; NULL: it is too big, finds none, or must not be staged. */
static pg_attribute_always_inline StenoRecordMessage *
reserve_staged(uint64 total)
{
	StenoLocal *s = &steno_my;

	if (unlikely(!s->described || s->dropped > 0 || s->staged ||
				 total > s->producer.max_message))
		return NULL;
	return steno_ring_reserve(&s->producer, (uint32) total);
}

/* It is whole: show it in the in-flight slot. */
static pg_attribute_always_inline void
show_staged(StenoRecordMessage *m, uint64 statement, TimestampTz time)
{
	StenoLocal *s = &steno_my;

	s->inflight_version =
		steno_inflight_stage(&s->producer.ring->inflight, s->inflight_version,
							 statement, time, s->producer.head);
	s->staged = m;
}

/*
 * At the start of a statement: write its record at the head of the ring, without
 * publishing it, and show it in the in-flight slot.  What is known at the end
 * only is filled in then.  False when it must be done the other way: what is
 * too big, or finds no room, waits at the end if it has to.
 */
bool
steno_record_stage(const StenoRecord *record)
{
	StenoRecordMessage *m = reserve_staged(plain_size(record));

	if (unlikely(m == NULL))
		return false;
	encode(m, record, 0, NULL, NULL);
	show_staged(m, record->statement, record->time);
	reset_scratch();
	return true;
}

/*
 * Room for the record of a usual query, with all that is written at its start but
 * shape, text and values; NULL: it must be done the other way.
 */
static pg_attribute_always_inline StenoRecordMessage *
begin_usual(const StenoStatement *q, uint32 shape_len, uint32 nulls_len, uint32 values_len,
			bool params)
{
	StenoRecordMessage *m = reserve_staged(sizeof(StenoRecordMessage) + shape_len + q->text_len +
										   nulls_len + values_len);

	if (unlikely(m == NULL))
		return NULL;
	m->m.kind = STENO_KIND_STATEMENT;
	m->m.flags = params ? STENO_MESSAGE_VALUES : 0;
	m->time = q->time;
	m->statement = q->statement;
	m->substatement = 0;
	m->depth = 0;
	m->outcome = STENO_OUTCOME_OK;
	m->extra_count = 0;
	m->sqlstate[0] = '\0';
	m->shape_len = shape_len;
	m->text_len = (uint32) q->text_len;
	m->nulls_len = nulls_len;
	m->values_len = values_len;
	m->message_len = 0;
	m->extra_len = 0;
	return m;
}

/*
 * The same for the usual query, whose shape is at hand and whose text goes as it
 * is: without a StenoRecord between.
 */
STENO_HOT bool
steno_record_stage_usual(const StenoStatement *q, const uint8 *shape, uint32 shape_len,
						 const StenoParams *params)
{
	StenoRecordMessage *m = begin_usual(q, shape_len, params ? params->nulls_len : 0,
										params ? (uint32) params->values_len : 0, params != NULL);
	uint8	   *p = (uint8 *) (m + 1);

	if (unlikely(m == NULL))
		return false;
	m->audited = steno_audit_reason(q->class, 0);
	p = put_bytes(p, shape, shape_len);
	p = put_bytes(p, q->text, q->text_len);
	if (params)
		(void) put_params(p, params, true);
	show_staged(m, q->statement, q->time);
	reset_scratch();
	return true;
}

/*
 * Have brief records of a prepared statement from now on, if no record in the ring
 * needs the template that they will refer to.
 */
STENO_COLD static void
define(const StenoStatement *q, StenoPrepared *prepared)
{
	int			i = prepared - steno_my.prepared;
	const StenoKept *k = &steno_my.kept[prepared->kept];
	StenoProducer *p = &steno_my.producer;
	StenoTemplate *t = &p->templates[i];

	if (prepared->brief == STENO_BRIEF_NEVER)
		return;
	if (k->len + q->text_len > STENO_TEMPLATE_ROOM)
	{
		prepared->brief = STENO_BRIEF_NEVER;
		return;
	}
	/* pairs with the release store in steno_ring_free: the writer has read the last record that needs it */
	p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
	if (p->tail < t->needed_until)
		return;
	t->version++;
	t->shape_len = k->len;
	t->text_len = (uint16) q->text_len;
	memcpy(t->bytes, k->shape, k->len);
	memcpy(t->bytes + k->len, q->text, q->text_len);
	prepared->version = t->version;
	prepared->brief = STENO_BRIEF_YES;
}

/* Room for a brief record, with all but its values; NULL: it must be done the other way. */
static pg_attribute_always_inline StenoBriefMessage *
begin_brief(const StenoStatement *q, const StenoPrepared *prepared)
{
	StenoBriefMessage *b = (StenoBriefMessage *) reserve_staged(STENO_BRIEF_FIXED + prepared->values_len);

	if (unlikely(b == NULL))
		return NULL;
	b->m.kind = STENO_KIND_STATEMENT;
	b->m.flags = prepared->count > 0 ? STENO_MESSAGE_BRIEF | STENO_MESSAGE_VALUES : STENO_MESSAGE_BRIEF;
	b->time = q->time;
	b->statement = q->statement;
	b->version = prepared->version;
	b->template = prepared - steno_my.prepared;
	b->values_len = prepared->values_len;
	return b;
}

/* The same for one whose template is to come, whole: where its values go. */
STENO_COLD static StenoRecordMessage *
begin_whole(const StenoStatement *q, const StenoPrepared *prepared, uint8 **values)
{
	const StenoKept *k = &steno_my.kept[prepared->kept];
	StenoRecordMessage *m = begin_usual(q, k->len, 0, prepared->values_len, prepared->count > 0);

	if (m == NULL)
		return NULL;
	m->audited = 0;
	*values = put_bytes((uint8 *) (m + 1), k->shape, k->len);
	*values = put_bytes(*values, q->text, q->text_len);
	return m;
}

/*
 * And for one that is prepared, whose parameters are of the widths that its plan
 * says.  False, too, when one of them is NULL.
 */
STENO_HOT bool
steno_record_stage_prepared(const StenoStatement *q, StenoPrepared *prepared, ParamListInfo params)
{
	uint32		widths = prepared->widths;
	int			count = prepared->count;
	StenoRecordMessage *m;
	uint8	   *p;
	int			i;

	for (i = 0; i < count; i++)
		if (unlikely(params->params[i].isnull))
			return false;
	if (unlikely(prepared->brief != STENO_BRIEF_YES))
		define(q, prepared);
	if (likely(prepared->brief == STENO_BRIEF_YES))
	{
		StenoBriefMessage *b = begin_brief(q, prepared);

		m = (StenoRecordMessage *) b;
		p = b ? b->values : NULL;
	}
	else
		m = begin_whole(q, prepared, &p);
	if (unlikely(m == NULL))
		return false;
	for (i = 0; i < count; i++, widths >>= 2)
	{
		/* a datum by value is a number of the whole word */
		uint64		value = params->params[i].value;

		if (likely((widths & 3) == 2))
			memcpy(p, &value, 4);
		else if ((widths & 3) == 3)
			memcpy(p, &value, 8);
		else
		{
			p[0] = (uint8) value;
			if (widths & 3)
				p[1] = (uint8) (value >> 8);
		}
		p += 1 << (widths & 3);
	}
	Assert(p <= (uint8 *) m + m->m.len);
	show_staged(m, q->statement, q->time);
	return true;
}

/*
 * Something else needs the ring: the staged record is given up.  Its query keeps a
 * copy, and the in-flight slot gets the beginning of the text.
 */
STENO_COLD void
steno_record_unstage(void)
{
	StenoLocal *s = &steno_my;
	StenoWhole	room;
	const StenoRecordMessage *m = steno_message_whole(&s->staged->m, s->producer.templates, &room);
	const char *text = (const char *) (m + 1) + m->shape_len;
	int			i;

	s->staged = NULL;
	/* the next one that is staged is another query's */
	for (i = 0; i < s->open_count; i++)
	{
		StenoOpen  *o = &s->open[i];

		if (o->staged && o->copy == NULL)
			o->copy = steno_copy_message(m, o->s.objects);
		o->staged = false;
	}
	s->top.staged = false;
	s->inflight_version =
		steno_inflight_begin(&s->producer.ring->inflight, s->inflight_version,
							 m->statement, m->time, text,
							 m->text_len == STENO_NONE32 ? 0 : m->text_len);
	/* the next message overwrites the record: recovery must then see that it is staged no more */
	atomic_thread_fence(memory_order_release);
}

/* Publish the staged record, which has its numbers. */
static pg_attribute_always_inline void
publish_staged(void)
{
	StenoLocal *s = &steno_my;
	StenoRecordMessage *m = s->staged;

	s->staged = NULL;
	m->seq = ++s->seq;
	publish(m, true);
	steno_inflight_end(&s->producer.ring->inflight);
	wake_writer();
}

STENO_HOT void
steno_record_publish(void)
{
	publish_staged();
}

/* The statement of the staged record has ended: its numbers. */
STENO_HOT void
steno_record_end_staged(uint64 duration, uint64 rows, TransactionId xid)
{
	StenoRecordMessage *m = steno_my.staged;

	m->duration = duration;
	m->rows = rows;
	m->xid = xid;
}

/* Publish the staged record. */
STENO_HOT void
steno_record_finish(uint64 duration, uint64 rows, TransactionId xid)
{
	StenoRecordMessage *m = steno_my.staged;

	m->duration = duration;
	m->rows = rows;
	m->xid = xid;
	publish_staged();
}

/* Whether a record goes into the ring in several parts. */
bool
steno_record_is_big(const StenoRecord *record)
{
	return plain_size(record) > steno_my.producer.max_message;
}

/*
 * Publish the staged record as that of a statement that has failed.  False when
 * there is no room behind it for the message: then it is still staged.
 */
STENO_COLD bool
steno_record_finish_failed(uint64 duration, uint64 rows, TransactionId xid, int sqlerrcode,
						   const char *message)
{
	StenoLocal *s = &steno_my;
	StenoProducer *p = &s->producer;
	StenoRecordMessage *m = s->staged;
	StenoWhole	room;
	const StenoRecordMessage *whole = steno_message_whole(&m->m, p->templates, &room);
	uint64		body = sizeof(StenoRecordMessage) + whole->shape_len +
	(whole->text_len == STENO_NONE32 ? 0 : whole->text_len) + whole->nulls_len + whole->values_len;
	uint64		total = (body + strlen(message) + 7) & ~UINT64CONST(7);

	if (whole->extra_len > 0 || total > p->max_message ||
		(uint8 *) m + total > p->data + p->size ||
		p->head + total - atomic_load_explicit(&p->ring->tail, memory_order_acquire) > p->limit)
		return false;
	if (whole != m)
	{
		/* recovery must not take it for staged while it changes */
		steno_record_unstage();
		memcpy(m, whole, body);
		s->staged = m;
	}
	m->m.len = (uint32) total;
	memcpy((uint8 *) m + body, message, strlen(message));
	/* should we die here, recovery reads the record as it is: bytes before their length */
	atomic_thread_fence(memory_order_release);
	m->message_len = strlen(message);
	m->outcome = STENO_OUTCOME_ERROR;
	memcpy(m->sqlstate, unpack_sql_state(sqlerrcode), 6);
	steno_record_finish(duration, rows, xid);
	return true;
}
