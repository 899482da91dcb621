/*
 * core/test/ring/left_rings_give_memory_back.c
 *		The file of a dead server gives back the memory of what its writers had freed,
 *		and keeps every byte that recovery reads.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/chunk.h"
#include "ring/left.h"
#include "ring/message.h"
#include "test/test.h"

#define RINGS 40
#define SIZE (64 * 1024)
#define CHUNKS 8

static StenoRings rings;
static char path[300];
static StenoRingFile *before;	/* a copy of the whole file */

/* A file that a server has used for long: no byte of it is zero. */
static void
make_rings(void)
{
	const char *what;
	uint32_t	i;

	snprintf(path, sizeof(path), "%s/rings", test_folder());
	unlink(path);
	CHECK(steno_rings_create(&rings, AT_FDCWD, path, RINGS, SIZE, CHUNKS, 1, 11, 12, &what));
	memset(rings.templates, 1, (size_t) RINGS * STENO_TEMPLATES * sizeof(StenoTemplate));
	memset(rings.data, 2, (size_t) RINGS * SIZE);
	memset(rings.chunks, 3, (size_t) CHUNKS * STENO_CHUNK);
	for (i = 0; i < RINGS; i++)
	{
		atomic_store(&steno_ring_at(&rings, i)->head, 10 * SIZE);
		atomic_store(&steno_ring_at(&rings, i)->tail, 10 * SIZE);
	}
}

static uint64_t
stored(void)
{
	struct stat st;

	CHECK(stat(path, &st) == 0 && (uint64_t) st.st_size == rings.mapped);
	return (uint64_t) st.st_blocks * 512;
}

static void
shrink(void)
{
	before = malloc(rings.mapped);
	CHECK(before != NULL);
	memcpy(before, rings.file, rings.mapped);
	steno_rings_shrink(&rings);
}

static bool
is_kept(const void *p, size_t len)
{
	size_t		at = (size_t) ((const uint8_t *) p - (const uint8_t *) rings.file);

	return memcmp(p, (const uint8_t *) before + at, len) == 0;
}

static bool
is_gone(const uint8_t *p, size_t len)
{
	return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

static bool
headers_are_kept(void)
{
	return is_kept(rings.file, sizeof(*rings.file)) && is_kept(rings.headers, RINGS * sizeof(StenoRing)) &&
		is_kept((void *) rings.chunk_states, CHUNKS * sizeof(uint64_t));
}

/* Some file systems cannot give a part of a file back. */
static bool
can_give_back(void)
{
	void	   *p = rings.chunks + (CHUNKS - 1) * STENO_CHUNK;

	if (madvise(p, STENO_CHUNK, MADV_REMOVE) == 0)
		return true;
	fprintf(stderr, "the file system of %s cannot give a part of a file back\n", path);
	return false;
}

static void
end(void)
{
	free(before);
	steno_rings_close(&rings);
}

TEST(left_rings_that_are_drained_give_all_but_their_headers_back)
{
	make_rings();
	if (can_give_back())
	{
		shrink();
		CHECK(headers_are_kept());
		CHECK(stored() <= steno_rings_shrunk(RINGS));
		CHECK(is_gone(steno_ring_data(&rings, 0), (size_t) RINGS * SIZE));
		CHECK(is_gone((uint8_t *) rings.templates, (size_t) RINGS * STENO_TEMPLATES * sizeof(StenoTemplate)));
		CHECK(is_gone(rings.chunks, (size_t) CHUNKS * STENO_CHUNK));
		end();
	}
}

/* Messages between these positions, which may pass the ring's end. */
TEST(left_rings_keep_what_was_not_drained)
{
	static const uint32_t cases[][2] = {{0, 8}, {8, 4096}, {4096, 4096}, {SIZE - 8, 16}, {SIZE - 5000, 9000},
	{12, SIZE}, {100, SIZE - 8}, {0, SIZE}};
	size_t		i;
	uint32_t	j;

	make_rings();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		StenoRing  *ring = steno_ring_at(&rings, (uint32_t) i);

		atomic_store(&ring->tail, 10 * SIZE + (cases[i][0] & ~7u));
		atomic_store(&ring->head, 10 * SIZE + (cases[i][0] & ~7u) + cases[i][1]);
	}
	shrink();
	CHECK(headers_are_kept());
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const uint8_t *data = steno_ring_data(&rings, (uint32_t) i);

		CHECK(is_kept(steno_ring_templates(&rings, (uint32_t) i), STENO_TEMPLATES * sizeof(StenoTemplate)));
		for (j = 0; j < cases[i][1]; j++)
			CHECK(data[(cases[i][0] - cases[i][0] % 8 + j) % SIZE] == 2);
	}
	end();
}

/* A message in the data, such that it is the staged record of an in-flight entry of zeros. */
static void
put_staged(uint8_t *at)
{
	StenoBriefMessage *b = (StenoBriefMessage *) at;

	memset(b, 0, 64);
	steno_brief_encode(b, 0, 0, STENO_BRIEF_BEGIN, 4);
	b->m.len = steno_brief_len(4);
	memcpy(b->values, "END;", 4);
}

/* A statement was running: its record is behind the head, at once or at the beginning of the data. */
TEST(left_rings_keep_what_was_staged)
{
	static const uint32_t cases[][2] = {{0, 0}, {5000, 5000}, {4096, 8192}, {SIZE - 64, 0}};
	size_t		i;

	make_rings();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		StenoRing  *ring = steno_ring_at(&rings, (uint32_t) i);
		uint8_t    *data = steno_ring_data(&rings, (uint32_t) i);

		put_staged(data + cases[i][1]);
		atomic_store(&ring->tail, 10 * SIZE + cases[i][0]);
		atomic_store(&ring->head, 10 * SIZE + cases[i][0]);
		ring->inflight.active = 1;
		ring->inflight.staged = 1;
		ring->inflight.position = 10 * SIZE + cases[i][1] + (cases[i][1] < cases[i][0] ? SIZE : 0);
	}
	shrink();
	CHECK(headers_are_kept());
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		CHECK(is_kept(steno_ring_data(&rings, (uint32_t) i) + cases[i][1], steno_brief_len(4)));
		CHECK(is_kept(steno_ring_templates(&rings, (uint32_t) i), STENO_TEMPLATES * sizeof(StenoTemplate)));
	}
	end();
}

/* The last statement of a session has ended: its entry still points to its record, which was published. */
TEST(left_rings_keep_no_more_than_was_published)
{
	uint8_t    *data;
	StenoRing  *ring;

	make_rings();
	data = steno_ring_data(&rings, 0);
	ring = steno_ring_at(&rings, 0);
	if (can_give_back())
	{
		uint32_t	len = steno_brief_len(4);

		put_staged(data);
		atomic_store(&ring->tail, 10 * SIZE);
		atomic_store(&ring->head, 10 * SIZE + len);
		ring->inflight.active = 1;
		ring->inflight.staged = 1;
		ring->inflight.done = 10 * SIZE + len;
		ring->inflight.position = 10 * SIZE;
		shrink();
		CHECK(is_kept(data, len));
		CHECK(is_gone(data + STENO_PAGE, SIZE - STENO_PAGE));
		end();
	}
}

TEST(left_rings_keep_damage_and_chunks_in_use)
{
	uint32_t	used;

	make_rings();
	/* impossible positions */
	atomic_store(&steno_ring_at(&rings, 0)->head, 1);
	CHECK(steno_chunk_claim(&rings, 1, &used) == 0);
	CHECK(steno_chunk_claim(&rings, 2, &used) == 1);
	steno_chunk_keep(&rings, 1, 2, 10 * SIZE + 64);
	shrink();
	CHECK(headers_are_kept());
	CHECK(is_kept(steno_ring_data(&rings, 0), SIZE));
	CHECK(is_kept(steno_chunk_bytes(&rings, 0), 2 * STENO_CHUNK));
	end();
}
