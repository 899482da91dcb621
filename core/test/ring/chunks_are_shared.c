/*
 * core/test/ring/chunks_are_shared.c
 *		Chunks: each is claimed by one producer at a time, kept until the message that
 *		refers to it has been freed, and never all taken by one producer.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "ring/chunk.h"
#include "ring/message.h"
#include "test/test.h"

#define RINGS 3
#define SIZE STENO_RING_MIN
#define MESSAGE (sizeof(StenoDataMessage) + sizeof(StenoChunkNumber))

static StenoRings rings;

static void
make_rings(uint32_t chunks)
{
	char		path[300];
	const char *what;

	snprintf(path, sizeof(path), "%s/rings", test_folder());
	CHECK(steno_rings_create(&rings, AT_FDCWD, path, RINGS, SIZE, chunks, 1, 1, 1, &what));
}

/* Claim a chunk for a message that ends at position. */
static uint32_t
take(uint32_t ring, uint64_t position)
{
	uint32_t	used;
	uint32_t	chunk = steno_chunk_claim(&rings, ring, &used);

	if (chunk != STENO_CHUNK_NONE)
		steno_chunk_keep(&rings, chunk, ring, position);
	return chunk;
}

TEST(chunks_are_kept_until_their_message_is_freed)
{
	StenoRing  *ring;
	uint32_t	used;

	make_rings(4);
	ring = steno_ring_at(&rings, 1);
	atomic_store(&ring->tail, UINT64_C(1) << 48);	/* positions wrap in a state */
	CHECK(take(1, (UINT64_C(1) << 48) + 32) == 0);
	CHECK(take(1, (UINT64_C(1) << 48) + 64) == 1);
	CHECK(steno_chunks_used(&rings) == 50);
	steno_ring_free(ring, (UINT64_C(1) << 48) + 24);
	CHECK(take(2, 32) == 2);
	steno_ring_free(ring, (UINT64_C(1) << 48) + 32);
	CHECK(take(2, 64) == 0);
	steno_ring_free(ring, (UINT64_C(1) << 48) + 64);
	steno_ring_free(steno_ring_at(&rings, 2), 64);
	CHECK(steno_chunks_used(&rings) == 0);
	/* a claimed chunk is nobody else's, whatever is freed */
	CHECK(steno_chunk_claim(&rings, 0, &used) == 0 && used == 0);
	CHECK(steno_chunk_claim(&rings, 1, &used) == 1 && used == 1);
}

TEST(chunks_of_the_first_ring_are_kept_at_its_beginning)
{
	make_rings(2);
	CHECK(take(0, 32) == 0);
	CHECK(take(1, 32) == 1);
	CHECK(take(2, 32) == STENO_CHUNK_NONE);
	steno_ring_free(steno_ring_at(&rings, 0), 32);
	CHECK(take(2, 32) == 0);
}

TEST(chunks_remain_for_others)
{
	uint32_t	taken[RINGS] = {0};
	uint32_t	i;

	make_rings(60);
	for (i = 0; i < RINGS; i++)
		while (take(i, 32) != STENO_CHUNK_NONE)
			taken[i]++;
	/* half; half of the rest, and so on */
	CHECK(taken[0] == 30 && taken[1] == 15 && taken[2] == 8);
	CHECK(take(0, 32) == STENO_CHUNK_NONE);
}

TEST(chunks_may_be_missing)
{
	uint32_t	used;

	make_rings(0);
	CHECK(steno_chunk_claim(&rings, 0, &used) == STENO_CHUNK_NONE && used == 0);
	CHECK(steno_chunks_used(&rings) == 0);
}

/* ---- producers at the same time ---- */

#define CHUNKS 4
#define PRODUCERS 2

static uint64_t count;
static _Atomic uint64_t in_chunks;

/* What the chunk of a message has: a word, everywhere. */
static uint64_t
word_of(uint32_t ring, uint64_t i)
{
	return (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ ring;
}

static void *
produce(void *number)
{
	uint32_t	ring = *(uint32_t *) number;
	StenoProducer p;
	uint64_t	i;

	steno_producer_init(&p, &rings, ring);
	for (i = 0; i < count; i++)
	{
		StenoDataMessage *d;
		uint64_t	word = word_of(ring, i);
		uint32_t	used;
		uint32_t	chunk;
		uint8_t    *to;
		int			k;

		while ((d = steno_ring_reserve(&p, (uint32_t) MESSAGE)) == NULL)
			sched_yield();
		chunk = steno_chunk_claim(&rings, ring, &used);
		d->m.kind = STENO_KIND_DATA;
		d->m.flags = chunk != STENO_CHUNK_NONE ? STENO_MESSAGE_CHUNK : 0;
		d->seq = i;
		d->len = chunk != STENO_CHUNK_NONE ? 64 : 0;
		((StenoChunkNumber *) (d + 1))->number = chunk;
		if (chunk != STENO_CHUNK_NONE)
		{
			to = steno_chunk_bytes(&rings, chunk);
			for (k = 0; k < 64; k += 8)
				memcpy(to + k, &word, 8);
			steno_chunk_keep(&rings, chunk, ring, steno_ring_after(&p, d));
			atomic_fetch_add_explicit(&in_chunks, 1, memory_order_relaxed);
		}
		steno_ring_publish(&p, d);
	}
	return NULL;
}

static void
check_chunk(uint32_t ring, const StenoDataMessage *d)
{
	const uint8_t *bytes;
	uint64_t	word = word_of(ring, d->seq);
	int			k;

	if (!(d->m.flags & STENO_MESSAGE_CHUNK))
		return;
	bytes = steno_chunk_bytes(&rings, steno_data_chunk(d));
	for (k = 0; k < 64; k += 8)
		CHECK(memcmp(bytes + k, &word, 8) == 0);
}

THREADED_TEST(chunks_are_never_of_two_producers)
{
	pthread_t	threads[PRODUCERS];
	uint32_t	numbers[PRODUCERS];
	uint64_t	positions[PRODUCERS] = {0};
	uint64_t	seqs[PRODUCERS] = {0};
	bool		done = false;
	uint32_t	i;

	make_rings(CHUNKS);
	count = test_parameter("CHUNK_RECORDS", 300000);
	for (i = 0; i < PRODUCERS; i++)
	{
		numbers[i] = i;
		CHECK(pthread_create(&threads[i], NULL, produce, &numbers[i]) == 0);
	}
	while (!done)
	{
		done = true;
		for (i = 0; i < PRODUCERS; i++)
		{
			StenoRing  *ring = steno_ring_at(&rings, i);
			uint64_t	head = steno_ring_published(ring);

			for (; positions[i] < head;)
			{
				const StenoMessage *m = steno_ring_message(steno_ring_data(&rings, i), SIZE, positions[i]);

				if (m->kind != 0)
				{
					CHECK(((const StenoDataMessage *) m)->seq == seqs[i]++);
					check_chunk(i, (const StenoDataMessage *) m);
				}
				positions[i] += m->len;
			}
			steno_ring_free(ring, positions[i]);
			done &= seqs[i] == count;
		}
		sched_yield();
	}
	for (i = 0; i < PRODUCERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(atomic_load(&in_chunks) > 0);
}
