/*
 * extension/writer/announce.c
 *		Start records of long-running statements.
 *
 * If a statement has no start record from its session (capture/start_record.c) and
 * runs longer than steno.start_after, the writer of its ring makes one from the
 * in-flight entry of the ring.  That record has no sequence number, because only
 * the session may assign these.
 */
#include "writer/writer.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* Time between two checks of the in-flight entries, in milliseconds. */
#define LOOK_MS 200

/* For each ring, the version of the in-flight entry when we last made a start record of it. */
static uint32 *announced;

/* Copy of a message in a ring. */
static uint8 *copied;
static uint32 copied_room;

static void
prepare_announcing(const StenoDrain *drain)
{
	uint32		n = drain->rings->nrings;

	announced = MemoryContextAllocZero(TopMemoryContext, n * sizeof(uint32));
	copied_room = drain->rings->size / STENO_RING_SHARE;
	copied = MemoryContextAllocZero(TopMemoryContext, copied_room);
}

/*
 * Make the start record of the statement in an in-flight entry, of at most
 * copied_room or room bytes; NULL if the entry has changed since it was read.
 */
static StenoRecordMessage *
start_message(const StenoDrain *drain, uint32 i, const StenoInFlight *f, void *buf, uint32 room)
{
	const StenoRing *ring = steno_ring_at(drain->rings, i);
	uint32		size = drain->rings->size;
	uint32		offset = (uint32) (f->position & (size - 1));
	uint32		n = Min(size - offset, copied_room);
	StenoInFlight of_copy;
	StenoTemplate templates[STENO_TEMPLATES];
	const StenoMessage *staged;
	const StenoRecordMessage *whole;
	StenoWhole	expanded;

	if (!f->staged)
		return steno_announce_message(buf, room, f);
	/* the text is in the record that the session has staged in its ring, or in its template */
	memcpy(copied, steno_ring_data(drain->rings, i) + offset, n);
	memcpy(templates, steno_ring_templates(drain->rings, i), sizeof(templates));

	/*
	 * Pairs with the release fence in steno_inflight_change: the copy is complete
	 * before this load.
	 */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&ring->inflight.version, memory_order_relaxed) !=
		atomic_load_explicit(&f->version, memory_order_relaxed))
		return NULL;
	memcpy(&of_copy, f, offsetof(StenoInFlight, text));
	of_copy.position = 0;
	staged = steno_inflight_record(&of_copy, copied, n);
	if (staged == NULL)
		return NULL;
	whole = steno_message_whole(staged, templates, 0, f->statement, &expanded);
	if (whole == &expanded.m)
		memcpy(copied, whole, whole->m.len);
	return (StenoRecordMessage *) copied;
}

/*
 * Whether a statement that began at time has run for long enough.  If that is in
 * the future, because the clock was set back, it has.
 */
static bool
has_run_for_long(TimestampTz now, TimestampTz time)
{
	int64		limit = steno_start_after * INT64CONST(1000);

	return now - time >= limit || time - now > Max(limit, USECS_PER_SEC);
}

/*
 * Whether the statement in a ring's in-flight entry has run for long enough and has
 * no start record.
 */
static bool
is_announcement_due(const StenoDrain *drain, uint32 i, TimestampTz now, StenoInFlight *f)
{
	const StenoInFlight *entry = &steno_ring_at(drain->rings, i)->inflight;

	if (!steno_inflight_runs(STENO_LOAD(entry->active)) || !has_run_for_long(now, STENO_LOAD(entry->time)))
		return false;
	if (!steno_inflight_read(entry, f) || !steno_inflight_runs(f->active) || f->done != 0 ||
		f->announced == f->statement || !has_run_for_long(now, f->time))
		return false;
	return announced[i] != atomic_load_explicit(&f->version, memory_order_relaxed);
}

static bool
announce_statement(StenoWriter *w, StenoDrain *drain, uint32 i, TimestampTz now)
{
	union
	{
		uint64		aligned;
		uint8		bytes[STENO_ANNOUNCE_ROOM];
	}			buf;
	StenoInFlight before;
	StenoInFlight f;
	StenoRecordMessage *m;

	if (!is_announcement_due(drain, i, now, &before))
		return true;
	/* drain the ring first, so that the session message before the statement has been read */
	if (!steno_drain_ring(w, drain, i))
		return false;
	if (!is_announcement_due(drain, i, now, &f) || f.statement != before.statement ||
		atomic_load_explicit(&f.version, memory_order_relaxed) !=
		atomic_load_explicit(&before.version, memory_order_relaxed))
		return true;			/* the statement has just ended, or is handled at the next check */
	m = start_message(drain, i, &f, &buf, sizeof(buf));
	if (m == NULL)
		return true;
	m->m.kind = STENO_KIND_START;
	m->seq = 0;
	steno_message_begun(m, STENO_OUTCOME_RUNNING);
	announced[i] = atomic_load_explicit(&f.version, memory_order_relaxed);
	return steno_writer_add(w, &drain->sources[i], &m->m);
}

/*
 * In a pass: write start records of long-running statements.  Returns false if the
 * writer is to exit and cannot write.
 */
bool
steno_announce_long_statements(StenoWriter *w, StenoDrain *drain)
{
	static TimestampTz last;
	TimestampTz now;
	uint32		i;

	if (steno_start_after < 0)
		return true;
	now = GetCurrentTimestamp();
	if (now >= last && now - last < LOOK_MS * INT64CONST(1000))
		return true;
	last = now;
	if (announced == NULL)
		prepare_announcing(drain);
	STENO_EACH_WATCHED(drain, i)
		if (!announce_statement(w, drain, i, now))
			return false;
	return true;
}

/*
 * Make the record of a statement from nothing but its in-flight entry; room is at
 * least STENO_ANNOUNCE_ROOM.
 */
StenoRecordMessage *
steno_announce_message(void *buf, uint32 room, const StenoInFlight *f)
{
	StenoRecordMessage *m = buf;
	uint8	   *p = (uint8 *) (m + 1);
	uint32		kept = Min(f->text_kept, STENO_INFLIGHT_TEXT);

	Assert(room >= STENO_ANNOUNCE_ROOM);
	steno_message_init(m, STENO_KIND_STATEMENT, 0, f->time);
	m->statement = f->statement;
	m->text_len = kept;
	if (f->text_len > kept)
	{
		StenoCut	cut = {.len = f->text_len}; /* no hash: the rest of the text is not available */

		m->m.flags = STENO_MESSAGE_CUT;
		memcpy(p, &cut, sizeof(cut));
		p += sizeof(cut);
	}
	memcpy(p, f->text, kept);
	steno_message_end(m, p + kept);
	return m;
}
