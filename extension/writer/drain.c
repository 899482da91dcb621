/*
 * extension/writer/drain.c
 *		Reads rings into blocks.
 *
 * A ring has one consumer: its writer, or the writer that recovers its file.
 * Reading frees nothing: a ring's tail moves when the block with its records is in
 * the trail (output.c).  Until then, the reader's position is ahead of it.
 */
#include "writer/writer.h"

#include "port/pg_bitutils.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "delivery/record.h"

/*
 * Write a block with so many bytes of large values even if it has space for more.  Each
 * of its bytes is read several times (compressed, hashed, written): that is cheaper while
 * they are in the processor's cache.  And what the values take in memory is free sooner.
 */
#define LARGE_BLOCK (128 * 1024)

#define LOOK_AT_ALL_MS 1000

/*
 * ---- which rings are looked at in each pass ----
 *
 * Most sessions of a large server are idle, and looking at a ring costs some misses in
 * the CPU's caches.  So once a second, a writer looks at all of its rings, and stops
 * watching those that have been empty since the last time.  It sets STENO_RING_UNWATCHED
 * there: a producer that sees the bit after publishing a message sets the ring's bit in
 * the control area (steno_ring_has_news), and the next pass watches the ring again.
 *
 * Producers have no fence between publishing a message and looking at the bit, so one
 * message can be missed when the writer stops watching.  It is found when all rings are
 * looked at, within a second.  A process that waits for the writer asks with a fence.
 *
 * What a pass does for each ring (intents, positions, start records) is done for watched
 * rings only.  An unwatched ring needs nothing: all of its messages are in the trail and
 * freed, its part of the intent says the same, and nothing is in flight.
 */
/* Positions of the writer's rings when it last looked at all of them. */
static uint64 *earlier;

/* Watch all rings of the drain. */
static void
watch_all(StenoDrain *drain)
{
	uint32		n = STENO_RING_WORDS(drain->rings->nrings);
	uint32		i;

	drain->watched = MemoryContextAllocZero(TopMemoryContext, n * sizeof(uint64));
	for (i = drain->first; i < drain->rings->nrings; i += drain->step)
		drain->watched[i / 64] |= UINT64CONST(1) << (i % 64);
}

static inline bool
is_watched(const StenoDrain *drain, uint32 i)
{
	return (drain->watched[i / 64] >> (i % 64)) & 1;
}

static void
watch(StenoDrain *drain, uint32 i)
{
	atomic_fetch_and(&steno_ring_at(drain->rings, i)->asleep, ~(uint32) STENO_RING_UNWATCHED);
	drain->watched[i / 64] |= UINT64CONST(1) << (i % 64);
}

/* Whether a ring has anything that a pass has to look at. */
static bool
has_something(const StenoDrain *drain, uint32 i)
{
	const StenoRing *ring = steno_ring_at(drain->rings, i);

	return steno_ring_published(ring) != drain->positions[i] ||
		atomic_load_explicit(&ring->orphan_drops, memory_order_relaxed) != drain->reported_drops[i] ||
		atomic_load_explicit(&ring->gaps_left, memory_order_relaxed) != drain->reported_gaps[i] ||
		STENO_LOAD(ring->inflight.active);
}

/* Whether the intent and the tail say that nothing is in the ring. */
static bool
is_settled(const StenoDrain *drain, uint32 i)
{
	const StenoRing *ring = steno_ring_at(drain->rings, i);

	return ring->pending == drain->positions[i] &&
		atomic_load_explicit(&ring->tail, memory_order_relaxed) == drain->positions[i] &&
		ring->orphan_drops_pending == drain->reported_drops[i] &&
		ring->orphan_drops_recorded == drain->reported_drops[i] &&
		ring->gaps_pending == drain->reported_gaps[i] &&
		atomic_load_explicit(&ring->gaps_recorded, memory_order_relaxed) == drain->reported_gaps[i];
}

static void
stop_watching(StenoDrain *drain, uint32 i)
{
	atomic_fetch_or(&steno_ring_at(drain->rings, i)->asleep, STENO_RING_UNWATCHED);
	/* pairs with the fence in steno_ring_watch: it sees the bit, or we see its messages */
	atomic_thread_fence(memory_order_seq_cst);
	if (has_something(drain, i))
		watch(drain, i);
	else
		drain->watched[i / 64] &= ~(UINT64CONST(1) << (i % 64));
}

/* Look at all rings: watch those that have something, and no longer those that had nothing for a while. */
static void
look_at_all(StenoDrain *drain)
{
	uint32		i;

	if (earlier == NULL)
		earlier = MemoryContextAllocZero(TopMemoryContext, drain->rings->nrings * sizeof(uint64));
	for (i = drain->first; i < drain->rings->nrings; i += drain->step)
	{
		if (has_something(drain, i))
			watch(drain, i);
		else if (is_watched(drain, i) && drain->positions[i] == earlier[i] && is_settled(drain, i))
			stop_watching(drain, i);
		earlier[i] = drain->positions[i];
	}
}

/* Those rings of a word that have news and are ours. */
static uint64
own_news(const StenoDrain *drain, uint32 word)
{
	uint64		bits = atomic_load(&steno_control->has_news[word]);
	uint64		own = 0;

	for (; bits != 0; bits &= bits - 1)
		if ((word * 64 + pg_rightmost_one_pos64(bits)) % drain->step == drain->first)
			own |= bits & -bits;
	return own;
}

/*
 * At the beginning of a pass over the rings of living sessions: watch the rings that
 * have news.  all: do not rely on what producers say.
 */
static void
watch_news(StenoDrain *drain, bool all)
{
	static TimestampTz last;
	TimestampTz now = GetCurrentTimestamp();
	uint32		n = STENO_RING_WORDS(drain->rings->nrings);
	uint32		word;

	for (word = 0; word < n; word++)
	{
		uint64		bits = own_news(drain, word);

		if (likely(bits == 0))
			continue;
		atomic_fetch_and(&steno_control->has_news[word], ~bits);
		for (; bits != 0; bits &= bits - 1)
			watch(drain, word * 64 + pg_rightmost_one_pos64(bits));
	}
	if (!all && now >= last && now - last < LOOK_AT_ALL_MS * INT64CONST(1000))
		return;
	last = now;
	look_at_all(drain);
}

/* Whether no ring has news: producers set their bit before they look whether the writer is asleep. */
bool
steno_watch_is_quiet(const StenoDrain *drain)
{
	uint32		n = STENO_RING_WORDS(drain->rings->nrings);
	uint32		word;

	for (word = 0; word < n; word++)
		if (own_news(drain, word) != 0)
			return false;
	return true;
}

/* ---- reading ---- */

/* Continue with the state in which the last consumer left the ring. */
static void
load_reader(StenoDrain *drain, uint32 i)
{
	StenoRing  *ring = steno_ring_at(drain->rings, i);
	StenoSource *source = &drain->sources[i];

	drain->positions[i] = atomic_load(&ring->tail);
	drain->reported_drops[i] = ring->orphan_drops_recorded;
	drain->reported_gaps[i] = atomic_load(&ring->gaps_recorded);
	memset(source, 0, sizeof(*source));
	source->generation = UINT64_MAX;	/* not defined in any block */
	source->templates = steno_ring_templates(drain->rings, i);
	source->chunks = drain->rings->chunks;
	if (ring->session_len <= STENO_SESSION_MAX)
	{
		source->body_len = ring->session_len;
		memcpy(source->body, ring->session, ring->session_len);
	}
	source->seq = ring->session_seq;
	source->statement = ring->session_statement;
}

void
steno_drain_init(StenoDrain *drain, StenoRings *rings, int writer, uint32 step)
{
	uint32		n = rings->nrings;
	uint32		i;

	drain->rings = rings;
	drain->intent = &rings->file->intents[writer];
	drain->first = writer;
	drain->step = step;
	drain->ended = 0;
	drain->sources = MemoryContextAllocHuge(TopMemoryContext, n * sizeof(StenoSource));
	drain->positions = MemoryContextAlloc(TopMemoryContext, n * sizeof(uint64));
	drain->reported_drops = MemoryContextAlloc(TopMemoryContext, n * sizeof(uint64));
	drain->reported_gaps = MemoryContextAlloc(TopMemoryContext, n * sizeof(uint64));
	for (i = 0; i < n; i++)
		load_reader(drain, i);
	watch_all(drain);
}

void
steno_drain_free(StenoDrain *drain)
{
	pfree(drain->sources);
	pfree(drain->positions);
	pfree(drain->reported_drops);
	pfree(drain->reported_gaps);
	pfree(drain->watched);
}

/*
 * Read the messages that a ring has now into blocks.  Returns false if this process
 * is to exit and cannot write.
 */
bool
steno_drain_ring(StenoWriter *w, StenoDrain *drain, uint32 i)
{
	uint64		head = steno_ring_published(steno_ring_at(drain->rings, i));
	uint32		size = drain->rings->size;
	uint8_t    *data;

	if (head == drain->positions[i])
		return true;
	data = steno_ring_data(drain->rings, i);
	while (drain->positions[i] != head)
	{
		const StenoMessage *m;

		drain->positions[i] = steno_block_add_brief(w->block, &drain->sources[i], data, size,
													drain->positions[i], head);
		if (drain->positions[i] == head)
			break;
		m = steno_ring_message(data, size, drain->positions[i]);
		if (m->kind != 0 && !steno_writer_add(w, &drain->sources[i], m))
			return false;
		drain->positions[i] += m->len;
		/* after positions[i] has passed the message: the block's intent says that it has it */
		if (steno_block_data_bytes(w->block) >= LARGE_BLOCK && !steno_writer_write(w))
			return false;
	}
	return true;
}

/* ---- what ended sessions could not record ---- */

/* Whether the last session message of the ring is that of this session. */
bool
steno_drain_describes(const StenoSource *source, int64 start, uint32 pid)
{
	return source->body_len > 0 &&
		memcmp(source->body + STENO_SESSION_START, &start, sizeof(start)) == 0 &&
		memcmp(source->body + STENO_SESSION_PID, &pid, sizeof(pid)) == 0;
}

/*
 * Describe a session by start time and process ID only, because its session message
 * was dropped, too, or is no longer the last one.
 */
StenoSource *
steno_drain_undescribed(StenoSource *source, int64 start, uint32 pid)
{
	memset(source, 0, sizeof(*source));
	source->generation = UINT64_MAX;	/* defined in no block */
	source->body_len = STENO_SESSION_FACTS;
	memcpy(source->body + STENO_SESSION_START, &start, sizeof(start));
	memcpy(source->body + STENO_SESSION_PID, &pid, sizeof(pid));
	return source;
}

/* Add a gap record that a session could not write itself; false as steno_writer_add. */
bool
steno_drain_add_numbers(StenoWriter *w, StenoSource *source, uint64 gap, uint64 first, uint64 last, uint32 reason)
{
	struct
	{
		StenoRecordMessage m;
		uint8		extra[STENO_GAP_EXTRA + 8];
	}			buf;

	steno_message_init(&buf.m, STENO_KIND_GAP, last + 1, GetCurrentTimestamp());
	buf.m.extra_count = STENO_GAP_PAIRS;
	buf.m.extra_len = steno_gap_extra(buf.extra, gap, first, last, reason);
	steno_message_end(&buf.m, buf.extra + buf.m.extra_len);
	return steno_writer_add(w, source, &buf.m.m);
}

/* Add the record of the end of a session, which came at this time; sqlstate 0: none. */
bool
steno_drain_add_disconnect(StenoWriter *w, StenoSource *source, int outcome, uint32 sqlstate, TimestampTz time)
{
	struct
	{
		StenoRecordMessage m;
		uint8		shape[8];
	}			buf;
	int64		start;

	memcpy(&start, source->body + STENO_SESSION_START, sizeof(start));
	steno_message_init(&buf.m, STENO_KIND_DISCONNECT, source->seq + 1, time);
	buf.m.duration = Max(time - start, 0);
	buf.m.outcome = outcome;
	if (sqlstate != 0)
		memcpy(buf.m.sqlstate, unpack_sql_state((int) sqlstate), sizeof(buf.m.sqlstate));
	steno_message_end(&buf.m, steno_message_put_class(&buf.m, buf.shape, STENO_CLASS_CONNECT));
	return steno_writer_add(w, source, &buf.m.m);
}

/*
 * Add the records that the gap of a ring tells of: that of the session's dropped records, and that of
 * its end.  They must come into one block, which the caller sees to.  False as steno_writer_add.
 */
bool
steno_drain_add_gap(StenoWriter *w, StenoSource *source, const StenoRing *ring)
{
	StenoSource other;

	if (ring->gap_pid != 0 && !steno_drain_describes(source, ring->gap_start, ring->gap_pid))
		source = steno_drain_undescribed(&other, ring->gap_start, ring->gap_pid);
	if (ring->gap != 0 &&
		!steno_drain_add_numbers(w, source, ring->gap, ring->gap_first, ring->gap_last, ring->gap_reason))
		return false;
	source->seq = Max(source->seq, ring->gap_last);
	return ring->gap_ended == 0 ||
		steno_drain_add_disconnect(w, source, ring->gap_sqlstate != 0 ? STENO_OUTCOME_ERROR : STENO_OUTCOME_OK,
								   ring->gap_sqlstate, ring->gap_ended);
}

/*
 * Record the gap that an ended session has left in the ring's header.  number: gaps_left, read before the
 * messages of the ring were, so that all of that session's are in blocks.
 */
static bool
record_left_gap(StenoWriter *w, StenoDrain *drain, uint32 i, uint64 number)
{
	if (likely(number == drain->reported_gaps[i]))
		return true;
	if (steno_block_bytes(w->block) + STENO_BLOCK_SPARE > w->capacity && !steno_writer_write(w))
		return false;
	if (!steno_drain_add_gap(w, &drain->sources[i], steno_ring_at(drain->rings, i)))
		return false;
	drain->reported_gaps[i] = number;
	return true;
}

/*
 * Make a gap record for dropped records of a ring's ended sessions, for which no
 * session can make one.
 */
bool
steno_drain_record_drops(StenoWriter *w, StenoDrain *drain, uint32 i)
{
	StenoRing  *ring = steno_ring_at(drain->rings, i);
	/* pairs with the owner's release store of orphan_drops, after orphan_drops_reason */
	uint64		orphan_drops = atomic_load_explicit(&ring->orphan_drops, memory_order_acquire);
	uint32		reason = atomic_load_explicit(&ring->orphan_drops_reason, memory_order_relaxed);
	char		number[32];
	const char *pairs[] = {"count", number, "reason", steno_gap_reason(reason)};

	if (likely(orphan_drops <= drain->reported_drops[i]))
		return true;
	snprintf(number, sizeof(number), UINT64_FORMAT, orphan_drops - drain->reported_drops[i]);
	if (!steno_writer_record(w, STENO_KIND_GAP, 0, pairs, lengthof(pairs) / 2))
		return false;
	drain->reported_drops[i] = orphan_drops;
	return true;
}

/*
 * Read the rings of living sessions into blocks, and record what ended ones have dropped.
 * all: also messages that producers have not told of.
 */
bool
steno_drain_rings(StenoWriter *w, StenoDrain *drain, bool all)
{
	uint32		i;

	w->drain = drain;
	watch_news(drain, all);
	STENO_EACH_WATCHED(drain, i)
	{
		/* pairs with the release in steno_gap_save: what the session had put before is there */
		uint64		gaps = atomic_load_explicit(&steno_ring_at(drain->rings, i)->gaps_left, memory_order_acquire);

		if (!steno_drain_ring(w, drain, i) || !record_left_gap(w, drain, i, gaps) ||
			!steno_drain_record_drops(w, drain, i))
			return false;
	}
	return true;
}
