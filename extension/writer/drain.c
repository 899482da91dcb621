/*
 * extension/writer/drain.c
 *		Reads rings into blocks.
 *
 * A ring has one consumer: its writer, or the writer that recovers its file.
 * Reading frees nothing: a ring's tail moves when the block with its records is in
 * the trail (output.c).  Until then, the reader's position is ahead of it.
 */
#include "writer/writer.h"

#include "utils/memutils.h"

#include "delivery/record.h"

/*
 * Write a block with so many bytes of large values even if it has space for more.  Each
 * of its bytes is read several times (compressed, hashed, written): that is cheaper while
 * they are in the processor's cache.  And what the values take in memory is free sooner.
 */
#define LARGE_BLOCK (128 * 1024)

/* Continue with the state in which the last consumer left the ring. */
static void
load_reader(StenoDrain *drain, uint32 i)
{
	StenoRing  *ring = steno_ring_at(drain->rings, i);
	StenoSource *source = &drain->sources[i];

	drain->positions[i] = atomic_load(&ring->tail);
	drain->reported_drops[i] = ring->orphan_drops_recorded;
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
steno_drain_init(StenoDrain *drain, StenoRings *rings, int writer)
{
	uint32		n = rings->nrings;
	uint32		i;

	drain->rings = rings;
	drain->intent = &rings->file->intents[writer];
	drain->first = writer;
	drain->step = rings->nwriters;
	drain->ended = 0;
	drain->sources = MemoryContextAllocHuge(TopMemoryContext, n * sizeof(StenoSource));
	drain->positions = MemoryContextAlloc(TopMemoryContext, n * sizeof(uint64));
	drain->reported_drops = MemoryContextAlloc(TopMemoryContext, n * sizeof(uint64));
	for (i = 0; i < n; i++)
		load_reader(drain, i);
}

void
steno_drain_free(StenoDrain *drain)
{
	pfree(drain->sources);
	pfree(drain->positions);
	pfree(drain->reported_drops);
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
		const StenoMessage *m = steno_ring_message(data, size, drain->positions[i]);

		if (m->kind != 0 && !steno_writer_add(w, &drain->sources[i], m))
			return false;
		drain->positions[i] += m->len;
		/* after positions[i] has passed the message: the block's intent says that it has it */
		if (steno_block_data_bytes(w->block) >= LARGE_BLOCK && !steno_writer_write(w))
			return false;
	}
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

/* Read all rings into blocks, and record what their sessions have dropped. */
bool
steno_drain_rings(StenoWriter *w, StenoDrain *drain)
{
	uint32		i;

	w->drain = drain;
	for (i = drain->first; i < drain->rings->nrings; i += drain->step)
		if (!steno_drain_ring(w, drain, i) || !steno_drain_record_drops(w, drain, i))
			return false;
	return true;
}
