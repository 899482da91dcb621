/*
 * core/ring/chunk.c
 *		Claiming chunks.
 *
 * The rules are in chunk.h.
 */
#include "ring/chunk.h"

/*
 * A state has the position in units of 8 bytes, modulo 2^POSITION_BITS.  A chunk in use
 * is less than a ring's size ahead of the tail, so it never looks free.  A free chunk
 * would look used after its ring has passed on 2^48 bytes without any use of the chunk,
 * until as many more have followed.
 */
#define POSITION_BITS 46
#define POSITIONS (UINT64_C(1) << POSITION_BITS)

_Static_assert(STENO_RINGS_MAX < 1 << (64 - POSITION_BITS), "a state must hold the number of a ring");

/* A state is never 0, even of ring 0 at a multiple of 2^POSITION_BITS: rings are counted from 1. */
static inline uint64_t
state_of(uint32_t ring, uint64_t position)
{
	return (uint64_t) (ring + 1) << POSITION_BITS | (position / 8 & (POSITIONS - 1));
}

static inline uint32_t
ring_of(uint64_t state)
{
	return (uint32_t) (state >> POSITION_BITS) - 1;
}

static bool
is_free(const StenoRings *rings, uint64_t state)
{
	uint64_t	tail;

	if (state == 0)
		return true;
	if (state == STENO_CHUNK_CLAIMED || ring_of(state) >= rings->nrings)
		return false;
	/*
	 * Pairs with the release store in steno_ring_free: the consumer has read the chunk
	 * before we change it.
	 */
	tail = atomic_load_explicit(&steno_ring_at(rings, ring_of(state))->tail, memory_order_acquire);
	return ((tail / 8 - state) & (POSITIONS - 1)) < POSITIONS / 2;
}

bool
steno_chunk_is_free(const StenoRings *rings, uint32_t chunk)
{
	return is_free(rings, atomic_load_explicit(&rings->chunk_states[chunk], memory_order_relaxed));
}

uint32_t
steno_chunk_claim(const StenoRings *rings, uint32_t ring, uint32_t *used)
{
	uint32_t	chunk = STENO_CHUNK_NONE;
	uint64_t	found = 0;
	uint32_t	mine = 0;
	uint32_t	i;

	*used = 0;
	for (i = 0; i < rings->nchunks; i++)
	{
		uint64_t	state = atomic_load_explicit(&rings->chunk_states[i], memory_order_relaxed);

		if (!is_free(rings, state))
		{
			++*used;
			mine += state != STENO_CHUNK_CLAIMED && ring_of(state) == ring;
		}
		else if (chunk == STENO_CHUNK_NONE)
		{
			/* the first one: those that were used lately are in the processor's caches */
			chunk = i;
			found = state;
		}
	}
	if (chunk == STENO_CHUNK_NONE || mine >= rings->nchunks - *used)
		return STENO_CHUNK_NONE;
	for (i = chunk; i < rings->nchunks; i++)
	{
		if (i > chunk)
			found = atomic_load_explicit(&rings->chunk_states[i], memory_order_relaxed);

		/*
		 * Another producer may have claimed it since.  If it also published its message,
		 * the state is another one: positions do not recur.
		 */
		if (is_free(rings, found) &&
			atomic_compare_exchange_strong_explicit(&rings->chunk_states[i], &found, STENO_CHUNK_CLAIMED,
													memory_order_acquire, memory_order_relaxed))
			return i;
	}
	return STENO_CHUNK_NONE;
}

int
steno_chunks_used(const StenoRings *rings)
{
	uint32_t	used = 0;
	uint32_t	i;

	if (rings->nchunks == 0)
		return 0;
	for (i = 0; i < rings->nchunks; i++)
		used += !is_free(rings, atomic_load_explicit(&rings->chunk_states[i], memory_order_relaxed));
	return (int) ((used * 100 + rings->nchunks - 1) / rings->nchunks);
}

void
steno_chunk_keep(const StenoRings *rings, uint32_t chunk, uint32_t ring, uint64_t position)
{
	/* another producer compares it with the tail, which reaches position only after the message was read */
	atomic_store_explicit(&rings->chunk_states[chunk], state_of(ring, position), memory_order_release);
}
