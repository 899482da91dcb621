/*
 * extension/record.c
 *		A record, encoded in place in this process's ring.
 *
 * The usual record takes one reservation, one pass of copying, and one
 * publishing store.  A record too big for that sends parts of its text,
 * parameters and message ahead (data messages), each as large as the ring
 * allows, and then itself.
 *
 * When the ring is full, steno.delivery says whether to wait or to drop.  A wait
 * that is cancelled ends in a drop, too; delivery.c says what becomes of that.
 * Nothing here raises an error, takes a lock or allocates.
 */
#include "steno.h"

#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* How long a process that is to exit waits for room, in milliseconds. */
#define EXIT_PATIENCE 5000

/* Numbers of the last record whose wait was cancelled, and of the last that has parts in the ring. */
static uint64 cancelled_seq;
static uint64 ahead_seq;

static bool dying;				/* a FATAL error ends this process */

static void
put_number(StringInfo buf, uint64 v)
{
	enlargeStringInfo(buf, STENO_VARINT_MAX);
	buf->len = (char *) steno_put_varint((uint8 *) buf->data + buf->len, v) - buf->data;
}

static void
put_string(StringInfo buf, const char *s)
{
	put_number(buf, strlen(s));
	appendBinaryStringInfo(buf, s, strlen(s));
}

/* A pair of a record's extra facts. */
void
steno_put_pair(StringInfo buf, const char *name, const char *value)
{
	put_string(buf, name);
	put_string(buf, value);
}

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
 * Wait for the writer to free some of the ring.  Our latch may be set for other
 * reasons meanwhile; it is set again at the end so that nobody misses it.
 */
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
		int			events;

		if (end_wait(start) || steno_trouble_drops())
			break;
		steno_delivery_absorb_barriers();
		steno_writer_wake(steno_my.writer);
		if (proc_exit_inprogress || MyLatch == NULL)
		{
			pg_usleep(nap * 1000L);
			nap = Min(nap * 2, 10);
			continue;
		}
		events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH,
						   nap, steno_wait_events[STENO_WAIT_ROOM]);
		if (events & WL_POSTMASTER_DEATH)
			pg_usleep(nap * 1000L); /* the writers are still there, for a
									 * while */
		nap = Min(nap * 2, 10);
		if (events & WL_LATCH_SET)
		{
			latch_was_set = true;
			ResetLatch(MyLatch);
		}
	}
	if (latch_was_set)
		SetLatch(MyLatch);
	atomic_fetch_add_explicit(&p->ring->wait_us, waited(start), memory_order_relaxed);
	return m;
}

/* Room for a message, by steno.delivery; NULL when it is to be dropped. */
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
	if ((steno_my.delivery == STENO_DELIVERY_DROP && !(steno_my.start_mask & STENO_START_SYNC)) ||
		steno_trouble_drops())
		return NULL;
	return wait_for_room(len);
}

/* A record could not be taken down: remember it for the gap record. */
STENO_COLD static void
drop(uint64 seq)
{
	StenoRing  *ring = steno_my.producer.ring;
	uint32		reason = steno_trouble_reason(steno_my.dropped == 0);

	if (steno_my.dropped++ == 0)
		steno_my.dropped_first = seq;
	atomic_fetch_add_explicit(&ring->drops, 1, memory_order_relaxed);
	/* should we die, recovery says it */
	if (ring->gap == 0)
		ring->gap_reason = reason;
	ring->own_first = steno_my.dropped_first;
	ring->own_last = seq;
	ring->own_gap = steno_my.dropped;
}

/* The next number is that of a record which nobody will see. */
STENO_COLD void
steno_record_drop(void)
{
	drop(++steno_my.seq);
}

/*
 * The last record was dropped when its wait was cancelled: true, and its statement
 * is about to fail.  Its number is free again, unless parts of it were sent:
 * taken_back.
 */
STENO_COLD bool
steno_record_take_back(bool *taken_back)
{
	StenoLocal *s = &steno_my;

	if (s->dropped == 0 || cancelled_seq != s->seq)
		return false;
	*taken_back = ahead_seq != s->seq;
	if (*taken_back)
	{
		s->seq--;
		s->dropped--;
		s->producer.ring->own_last = s->seq;
		s->producer.ring->own_gap = s->dropped;
		atomic_fetch_sub_explicit(&s->producer.ring->drops, 1, memory_order_relaxed);
	}
	return true;
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
	ahead_seq = a->seq;
	steno_ring_publish(&steno_my.producer, a->message);
	a->message = NULL;
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
		memcpy((char *) (a->message + 1) + a->message->len, from, n);
		a->message->len += n;
		from += n;
		len -= n;
		if (a->message->len == a->capacity)
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
static inline void
encode(StenoRecordMessage *m, const StenoRecord *r, uint64 seq, const StenoParts *parts)
{
	bool		ahead = parts != NULL;
	bool		text_ahead = ahead && parts->bytes[STENO_PART_TEXT] > 0;
	bool		values_ahead = ahead && parts->bytes[STENO_PART_VALUES] > 0;
	bool		message_ahead = ahead && parts->bytes[STENO_PART_MESSAGE] > 0;
	uint8	   *p;

	m->m.kind = r->kind;
	m->m.flags = (ahead ? STENO_MESSAGE_PARTS : 0) |
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
	if (unlikely(ahead))
		p = put_bytes(p, parts, sizeof(*parts));
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
	bool		ahead = unlikely(total > steno_my.producer.max_message);

	if (ahead && !send_ahead(r, seq, &total, &parts))
		return false;
	m = steno_record_room((uint32) total);
	if (unlikely(m == NULL))
		return false;
	encode(m, r, seq, ahead ? &parts : NULL);
	publish(m, top_level);
	return true;
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
	return put(&gap, last + 1, false);
}

/* Before the first record after dropped ones: how many, and which. */
STENO_COLD static bool
put_gap(void)
{
	StenoLocal *s = &steno_my;

	if (!put_gap_record(s->dropped, s->dropped_first, s->seq, steno_trouble_reason(false)))
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
		uint32		reason = steno_trouble_reason(false);

		if (reason == STENO_GAP_TRAIL || untold == __atomic_load_n(&ring->told, __ATOMIC_RELAXED))
			atomic_store_explicit(&ring->untold_reason, reason, memory_order_relaxed);
		ring->leaving = untold + s->dropped;
		atomic_store_explicit(&ring->untold, ring->leaving, memory_order_release);
	}
	else
	{
		ring->gap_first = s->dropped_first;
		ring->gap_last = s->seq;
		ring->gap_reason = steno_trouble_reason(false);
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
	if (unlikely(steno_ring_used(p) > p->size / 2))
	{
		/* pairs with the release store in steno_ring_free */
		p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
		if (steno_ring_used(p) > p->size / 2)
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

	if (unlikely(!s->described) || (unlikely(s->dropped > 0) && !put_gap()))
		drop(++s->seq);
	else
	{
		s->seq++;
		if (unlikely(!put(record, s->seq, top_level)))
			drop(s->seq);
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
	if (unlikely(steno_trouble_spares(record)))
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
	encode(m, record, 0, NULL);
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
		p->head + total - atomic_load_explicit(&p->ring->tail, memory_order_acquire) > p->size)
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
