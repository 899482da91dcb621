/*
 * extension/delivery/encode.h
 *		A record, encoded in place in this process's ring.
 */
#ifndef STENO_ENCODE_H
#define STENO_ENCODE_H

#include "base/facts.h"
#include "value/param.h"


#pragma GCC visibility push(hidden)

static inline uint8 *
steno_put_bytes(uint8 *p, const void *bytes, uint32 len)
{
	if (len > 0)
		memcpy(p, bytes, len);
	return p + len;
}

/* Lengths of a record's strings that are in the ring with it, not ahead. */
static inline uint64
steno_record_size(const StenoRecord *r)
{
	return sizeof(StenoRecordMessage) + r->shape_len + (r->text ? r->text_len : 0) +
		(r->params ? r->params->nulls_len + r->params->values_len : 0) + r->further_len +
		(r->message ? strlen(r->message) : 0) + r->extra_len + (r->ending ? sizeof(StenoEnding) : 0) +
		(r->timed ? sizeof(StenoTimes) : 0);
}


/* Write the record at m; what parts counts has gone ahead. */
static pg_attribute_always_inline void
steno_record_encode(StenoRecordMessage *m, const StenoRecord *r, uint64 seq, const StenoParts *parts,
					const StenoCut *cut)
{
	bool		in_parts = parts != NULL;
	bool		text_ahead = in_parts && parts->bytes[STENO_PART_TEXT] > 0;
	bool		values_ahead = in_parts && parts->bytes[STENO_PART_VALUES] > 0;
	bool		message_ahead = in_parts && parts->bytes[STENO_PART_MESSAGE] > 0;
	uint8	   *p;

	m->m.kind = r->kind;
	m->m.flags = (in_parts ? STENO_MESSAGE_PARTS : 0) | (cut ? STENO_MESSAGE_CUT : 0) |
		(r->params || values_ahead ? STENO_MESSAGE_VALUES : 0) | (r->ending ? STENO_MESSAGE_ENDING : 0);
	m->seq = seq;
	m->time = r->time;
	m->duration = r->duration;
	m->rows = r->rows;
	m->statement = r->statement;
	m->substatement = r->substatement;
	m->depth = r->depth;
	m->outcome = r->outcome;
	m->extra_count = r->extra_count;
	m->xid = (uint32) r->xid;
	m->xid_epoch = (uint32) (r->xid >> 32);
	/* a message has a code in the trail, also one of an error without */
	if (r->sqlerrcode != 0 || r->message != NULL)
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
		p = steno_put_bytes(p, parts, sizeof(*parts));
	if (cut)
		p = steno_put_bytes(p, cut, sizeof(*cut));
	if (r->ending)
		p = steno_put_bytes(p, r->ending, sizeof(*r->ending));
	p = steno_put_bytes(p, r->shape, r->shape_len);
	if (r->text)
		p = steno_put_bytes(p, r->text, m->text_len);
	if (r->params)
		p = steno_put_params(p, r->params, !values_ahead);
	if (r->message)
		p = steno_put_bytes(p, r->message, m->message_len);
	p = steno_put_bytes(p, r->extra, r->extra_len);
	if (unlikely(r->timed))
	{
		/* the last bytes, of what is a multiple of 8 */
		m->m.flags |= STENO_MESSAGE_TIMES;
		p = steno_put_bytes((uint8 *) m + m->m.len - sizeof(r->times), &r->times, sizeof(r->times));
	}
	Assert(p <= (uint8 *) m + m->m.len);
}

/*
 * Publish a record.  top_level: it is that of the statement in the in-flight
 * entry.  Should the process die on the way, that entry shows how far it came.
 */
static inline void
steno_publish_message(StenoMessage *m, bool top_level)
{
	StenoProducer *p = &steno_my.producer;

	if (top_level)
		steno_inflight_done(&p->ring->inflight, steno_ring_after(p, m));
	steno_ring_publish(p, m);
	atomic_store_explicit(&p->ring->records,
						  atomic_load_explicit(&p->ring->records, memory_order_relaxed) + 1,
						  memory_order_relaxed);
}

/* Write the whole of a record, or what is left of it, and publish it. */
static pg_attribute_always_inline void
steno_record_write(StenoRecordMessage *m, const StenoRecord *r, uint64 seq, const StenoParts *parts,
				   const StenoCut *cut, bool top_level)
{
	uint64		last;

	steno_record_encode(m, r, seq, parts, cut);
	steno_message_advance(&m->m, &last, &steno_my.ring_statement);
	steno_publish_message(&m->m, top_level);
}

extern void steno_ring_has_news(void);

/*
 * After a record: tell the writer if it sleeps deeply, or does not watch this ring, and
 * wake it if the ring is half full.  No fence between publishing and reading "asleep":
 * a message that is missed because of reordering is found within a second, at the end
 * of the deep sleep, or when the writer looks at all of its rings.
 */
static inline void
steno_record_wake_writer(void)
{
	StenoProducer *p = &steno_my.producer;

	if (unlikely(atomic_load_explicit(&p->ring->asleep, memory_order_relaxed)))
		steno_ring_has_news();
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
steno_record_reset_scratch(void)
{
	if (unlikely(steno_my.scratch_used))
	{
		steno_my.scratch_used = false;
		MemoryContextReset(steno_private.scratch);
	}
}

/* ---- parts.c ---- */

extern bool steno_parts_send(const StenoRecord *r, uint64 seq, uint64 *total, StenoParts *parts);
extern const StenoParts *steno_parts_sent(uint64 seq);
extern bool steno_parts_are_of(const StenoRecord *r);

/* ---- short_record.c ---- */

extern bool steno_short_put(const StenoRecord *r, const StenoRecord *whose, uint64 seq, bool top_level);

#pragma GCC visibility pop

#endif							/* STENO_ENCODE_H */
