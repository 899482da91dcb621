/*
 * core/test/trail/stream_survives_failing_disk.c
 *		A write that fails halfway leaves the segment as it was, and can be repeated
 *		when there is room.  After a sync that failed, what was written since the last
 *		good one is written again before it counts as synced, and what is gone is told;
 *		also when another process continues the stream.
 *
 * The limit on the size of files stands in for a full disk: the kernel then takes a
 * part of the write, and refuses the rest.  A pipe in the place of the segment's file
 * stands in for a disk with errors: it cannot be synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "header.h"
#include "test/test.h"
#include "test/trail.h"

static char trail[300];
static char path[600];
static Trail t;

TEST(stream_append_that_fails_can_be_repeated)
{
	struct stat st;
	StenoStream before;
	uint64_t	room;

	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	trail_open(&t, trail);
	trail_must_append(&t, 5);
	before = t.stream;
	for (room = 0; room < 200; room += 30)
	{
		limit_files(before.offset + room);
		CHECK(!trail_append(&t, 20));
		CHECK(t.error.error == EFBIG && t.error.what[0] != '\0');
		CHECK(memcmp(&before, &t.stream, sizeof(before)) == 0);
		segment_name(path, sizeof(path), trail, 0, 1);
		CHECK(strcmp(path, t.error.path) == 0);
		CHECK(stat(path, &st) == 0 && (uint64_t) st.st_size == before.offset);
	}
	limit_files(RLIM_INFINITY);
	trail_must_append(&t, 20);
	CHECK(trail_verify(trail, 0, NULL) == 2);
}

TEST(stream_rotation_that_fails_can_be_repeated)
{
	StenoStream before;

	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	trail_open(&t, trail);
	trail_must_append(&t, 5);
	CHECK(steno_stream_sync(&t.stream, &t.error));
	before = t.stream;
	limit_files(100);
	CHECK(!steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	CHECK(memcmp(&before, &t.stream, sizeof(before)) == 0);
	segment_name(path, sizeof(path), trail, 0, 2);
	CHECK(access(path, F_OK) != 0);
	limit_files(RLIM_INFINITY);
	trail_must_append(&t, 5);
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	trail_must_append(&t, 5);
	CHECK(trail_verify(trail, 0, NULL) == 3);
}

TEST(stream_open_that_fails_leaves_no_segment)
{
	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	limit_files(100);
	CHECK(!trail_try_open(&t, trail));
	CHECK(t.error.error == EFBIG);
	segment_name(path, sizeof(path), trail, 0, 1);
	CHECK(access(path, F_OK) != 0);
	limit_files(RLIM_INFINITY);
	trail_open(&t, trail);
	trail_must_append(&t, 1);
	CHECK(trail_verify(trail, 0, NULL) == 1);
}

/* ---- syncs ---- */

static uint64_t offsets[8];		/* of the blocks 1 to 7, and of the end */

static int	trails;

/* Seven blocks in a new trail, two of them synced before a sync failed. */
static void
make(void)
{
	int			pipes[2];
	int			segment;
	int			i;

	snprintf(trail, sizeof(trail), "%s/trail%d", test_folder(), ++trails);
	segment_name(path, sizeof(path), trail, 0, 1);
	trail_open(&t, trail);
	for (i = 0; i < 7; i++)
	{
		offsets[i] = t.stream.offset;
		trail_must_append(&t, 4);
		if (i == 1)
			CHECK(steno_stream_sync(&t.stream, &t.error) && !t.stream.dirty);
	}
	offsets[7] = t.stream.offset;
	CHECK(pipe(pipes) == 0);
	segment = t.stream.fd;
	t.stream.fd = pipes[1];
	CHECK(!steno_stream_sync(&t.stream, &t.error));
	CHECK(strstr(t.error.what, "sync") != NULL && strcmp(t.error.path, path) == 0);
	CHECK(t.stream.dirty);
	t.stream.fd = segment;
	close(pipes[0]);
	close(pipes[1]);
}

/* Zeros where blocks first to last are. */
static void
lose(int first, int last)
{
	static const uint8_t zeros[4096];
	size_t		len = offsets[last] - offsets[first - 1];

	CHECK(len <= sizeof(zeros));
	CHECK(pwrite(t.stream.fd, zeros, len, (off_t) offsets[first - 1]) == (ssize_t) len);
}

static void
must_sync(void)
{
	CHECK(steno_stream_sync(&t.stream, &t.error));
	CHECK(!t.stream.dirty);
}

TEST(stream_that_could_not_be_synced_is_written_again)
{
	int			segment;

	make();

	/* a file that can be synced, but not written: a mere sync would succeed */
	segment = t.stream.fd;
	t.stream.fd = open(path, O_RDONLY);
	CHECK(t.stream.fd >= 0);
	CHECK(fdatasync(t.stream.fd) == 0);
	CHECK(!steno_stream_sync(&t.stream, &t.error));
	CHECK(strstr(t.error.what, "write") != NULL);
	CHECK(t.stream.dirty);
	close(t.stream.fd);
	t.stream.fd = segment;
	must_sync();
	CHECK(t.stream.lost.count == 0);
	trail_must_append(&t, 4);
	must_sync();
	trail_close(&t);
	CHECK(trail_verify(trail, 0, NULL) == 8);
}

TEST(stream_tells_which_blocks_a_failed_sync_lost)
{
	static const int cases[][3] = {{3, 3, 1}, {4, 5, 2}, {7, 7, 1}, {3, 7, 5}};
	size_t		i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		make();
		lose(cases[i][0], cases[i][1]);
		must_sync();
		CHECK(t.stream.lost.count == (uint64_t) cases[i][2]);
		CHECK(t.stream.lost.first == (uint64_t) cases[i][0]);
		CHECK(t.stream.lost.last == (uint64_t) cases[i][1]);
		CHECK(t.stream.lost.offset == offsets[cases[i][0] - 1]);
		trail_close(&t);
	}

	/* two holes: from the first to the last, and how many */
	make();
	lose(3, 3);
	lose(6, 6);
	must_sync();
	CHECK(t.stream.lost.count == 2);
	CHECK(t.stream.lost.first == 3 && t.stream.lost.last == 6);

	/* what was synced before is not looked at, and nothing is told twice */
	t.stream.lost.count = 0;
	trail_must_append(&t, 4);
	lose(1, 2);
	must_sync();
	CHECK(t.stream.lost.count == 0);
	trail_close(&t);
}

/* ---- another process ---- */

/* Open the stream, as a process that knows up to which block a sync has succeeded. */
static bool
open_again(uint64_t durable)
{
	trail_close(&t);
	t.durable = durable;
	return trail_try_open(&t, trail);
}

/* A limit lets no write pass that reaches the last block, and a sync does. */
TEST(stream_of_an_ended_process_is_written_again)
{
	uint64_t	durable;

	make();
	for (durable = 0; durable < 7; durable++)
	{
		limit_files(offsets[7] - 1);
		CHECK(!open_again(durable));
		CHECK(t.error.error == EFBIG && strstr(t.error.what, "write") != NULL);
		limit_files(RLIM_INFINITY);
	}
	limit_files(offsets[7] - 1);
	CHECK(open_again(7) && open_again(UINT64_MAX));
	limit_files(RLIM_INFINITY);
	for (durable = 0; durable < 9; durable++)
	{
		CHECK(open_again(durable));
		CHECK(!t.stream.dirty && t.stream.lost.count == 0 && t.stream.next_block == 8);
	}
	trail_must_append(&t, 4);
	must_sync();
	trail_close(&t);
	CHECK(trail_verify(trail, 0, NULL) == 8);
}

TEST(stream_of_an_ended_process_may_lack_its_header)
{
	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	trail_open(&t, trail);
	trail_must_append(&t, 4);
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	limit_files(100);
	CHECK(!open_again(1));
	CHECK(t.error.error == EFBIG && strstr(t.error.what, "write") != NULL);
	limit_files(RLIM_INFINITY);
	CHECK(open_again(1) && t.stream.lost.count == 0);
	trail_must_append(&t, 4);
	trail_close(&t);
	CHECK(trail_verify(trail, 0, NULL) == 2);
}

/* What is not known to be synced can be in segments before. */
TEST(stream_of_an_ended_process_is_written_again_from_its_last_segment_on)
{
	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	trail_open(&t, trail);
	trail_must_append(&t, 4);
	trail_must_append(&t, 4);
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	trail_must_append(&t, 4);
	CHECK(open_again(0) && t.stream.lost.count == 0);
	trail_close(&t);
}

TEST(stream_tells_which_blocks_an_ended_process_lost)
{
	static const int cases[][3] = {{3, 3, 1}, {4, 5, 2}, {3, 6, 4}};
	size_t		i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		make();
		lose(cases[i][0], cases[i][1]);
		CHECK(open_again(2));
		CHECK(t.found.damaged && t.stream.segment == 2);
		CHECK(t.stream.lost.count == (uint64_t) cases[i][2]);
		CHECK(t.stream.lost.first == (uint64_t) cases[i][0]);
		CHECK(t.stream.lost.last == (uint64_t) cases[i][1]);
		CHECK(t.stream.lost.segment == 1);
		CHECK(t.stream.lost.offset == offsets[cases[i][0] - 1]);
		trail_close(&t);
	}

	/* what is left of a damaged segment is written again, too */
	make();
	lose(3, 3);
	limit_files(offsets[7] - 1);
	CHECK(!open_again(2) && t.error.error == EFBIG);
	limit_files(RLIM_INFINITY);
	CHECK(open_again(2));
	trail_close(&t);
}

TEST(stream_without_a_writer_is_written_again)
{
	StenoLost	lost;
	StenoError	error = {0};

	make();
	limit_files(offsets[7] - 1);
	CHECK(!steno_stream_settle(trail, 0, TRAIL_SYSTEM, 2, &lost, &error));
	CHECK(error.error == EFBIG && strstr(error.what, "write") != NULL);
	CHECK(steno_stream_settle(trail, 0, TRAIL_SYSTEM, 7, &lost, &error) && lost.count == 0);
	limit_files(RLIM_INFINITY);
	CHECK(steno_stream_settle(trail, 0, TRAIL_SYSTEM, 2, &lost, &error) && lost.count == 0);
	lose(4, 5);
	CHECK(steno_stream_settle(trail, 0, TRAIL_SYSTEM, 2, &lost, &error));
	CHECK(lost.count == 2 && lost.first == 4 && lost.last == 5 && lost.segment == 1);
	CHECK(!steno_stream_settle(trail, 0, TRAIL_SYSTEM + 1, 2, &lost, &error));
	trail_close(&t);
}
