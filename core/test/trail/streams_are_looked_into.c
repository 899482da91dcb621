/*
 * core/test/trail/streams_are_looked_into.c
 *		Where a stream ends, and whether it has a block, without a change of it.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/test.h"
#include "test/trail.h"

static char trail[300];
static Trail t;
static uint8_t hashes[8][STENO_HASH_SIZE];	/* by block */

/* Blocks 1 and 2 in segment 1, 3 in segment 2, none in segment 3. */
static void
begin(void)
{
	int			i;

	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	trail_open(&t, trail);
	for (i = 1; i <= 3; i++)
	{
		trail_must_append(&t, i);
		memcpy(hashes[i], t.stream.chain, STENO_HASH_SIZE);
		if (i > 1)
			CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	}
}

static bool
has(uint64_t block, const uint8_t *hash)
{
	bool		there = false;

	CHECK(steno_stream_has(trail, 0, TRAIL_SYSTEM, block, hash, &there, &t.error));
	return there;
}

static StenoEnd
end(uint32_t stream)
{
	StenoEnd	e;

	CHECK(steno_stream_end(trail, stream, TRAIL_SYSTEM, &e, &t.error));
	return e;
}

TEST(end_of_a_stream_is_its_last_block)
{
	StenoEnd	e;

	begin();
	e = end(0);
	CHECK(e.segment == 3 && e.block == 3 && !e.damaged);
	CHECK(memcmp(e.hash, hashes[3], STENO_HASH_SIZE) == 0);
	e = end(1);
	CHECK(e.segment == 0 && e.block == 0);
}

TEST(end_of_a_stream_leaves_an_unfinished_block)
{
	struct stat before;
	struct stat after;
	char		path[600];
	StenoEnd	e;

	begin();
	segment_name(path, sizeof(path), trail, 0, 3);
	CHECK(truncate(path, STENO_SEGMENT_HEADER + 50) == 0 && stat(path, &before) == 0);
	e = end(0);
	CHECK(e.block == 3 && !e.damaged);
	CHECK(stat(path, &after) == 0 && after.st_size == before.st_size);
}

TEST(stream_has_its_blocks_in_whatever_segment)
{
	int			i;

	begin();
	for (i = 1; i <= 3; i++)
	{
		CHECK(has(i, hashes[i]));
		CHECK(!has(i, hashes[i % 3 + 1]));
	}
	CHECK(!has(4, hashes[3]));
	CHECK(has(0, hashes[0]));
}

/* What was deleted by policy is known by the header that follows it, or not at all. */
TEST(stream_has_what_was_deleted)
{
	char		path[600];

	begin();
	segment_name(path, sizeof(path), trail, 0, 1);
	CHECK(unlink(path) == 0);
	CHECK(has(2, hashes[2]) && !has(2, hashes[1]));
	CHECK(has(1, hashes[1]));
}

TEST(streams_are_counted)
{
	uint32_t	next;
	bool		empty;
	char		path[600];

	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	CHECK(steno_trail_streams(trail, &next, &empty, &t.error));
	CHECK(next == 0 && empty);
	begin();
	snprintf(path, sizeof(path), "%s/7", trail);
	CHECK(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/9x", trail);
	CHECK(mkdir(path, 0700) == 0);
	CHECK(steno_trail_streams(trail, &next, &empty, &t.error));
	CHECK(next == 8 && !empty);
}

/* Somebody could use up the numbers: two writers would come to write one stream. */
TEST(numbers_of_streams_are_not_used_up)
{
	uint32_t	next;
	bool		empty;
	char		path[600];

	begin();
	snprintf(path, sizeof(path), "%s/4294967294", trail);
	CHECK(mkdir(path, 0700) == 0);
	CHECK(steno_trail_streams(trail, &next, &empty, &t.error));
	CHECK(next == 1);
	CHECK(steno_stream_free(trail, next) == 1);
	snprintf(path, sizeof(path), "%s/%u", trail, STENO_STREAM_MAX);
	CHECK(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/%u", trail, STENO_STREAM_MAX + 1);
	CHECK(mkdir(path, 0700) == 0);
	CHECK(steno_trail_streams(trail, &next, &empty, &t.error));
	CHECK(next == STENO_STREAM_MAX + 1);
	CHECK(steno_stream_free(trail, next) == STENO_STREAM_MAX + 2);
}

/* A number of more than ten digits would be in no segment's name. */
TEST(numbers_of_segments_are_not_used_up)
{
	char		from[600];
	char		to[600];
	StenoEnd	e;

	begin();
	segment_name(from, sizeof(from), trail, 0, 1);
	snprintf(to, sizeof(to), "%s/0/9999999999.steno", trail);
	CHECK(link(from, to) == 0);
	e = end(0);
	CHECK(e.segment == 3 && e.block == 3 && !e.damaged);
	snprintf(to, sizeof(to), "%s/0/%u.steno", trail, STENO_SEGMENT_MAX);
	CHECK(link(from, to) == 0);
	e = end(0);
	CHECK(e.segment == STENO_SEGMENT_MAX && e.damaged);
}

/* Nobody could wait until so many zeros are read. */
TEST(sparse_segment_is_looked_into_at_once)
{
	char		path[600];
	StenoEnd	e;

	begin();
	segment_name(path, sizeof(path), trail, 0, 3);
	CHECK(truncate(path, (off_t) 1 << 43) == 0);
	e = end(0);
	CHECK(e.segment == 3 && e.block == 3 && !e.damaged);
	segment_name(path, sizeof(path), trail, 0, 4);
	CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0 && truncate(path, (off_t) 1 << 43) == 0);
	e = end(0);
	CHECK(e.segment == 4 && e.block == 3);
	CHECK(unlink(path) == 0);
	segment_name(path, sizeof(path), trail, 0, 3);
	CHECK(truncate(path, 64) == 0 && truncate(path, (off_t) 1 << 43) == 0);
	e = end(0);
	CHECK(e.damaged && e.block == 3);
}
