/*
 * core/test/trail/stream_survives_full_disk.c
 *		A write that fails halfway leaves the segment as it was, and can be
 *		repeated when there is room.
 *
 * The limit on the size of files stands in for a full disk: the kernel then
 * takes a part of the write, and refuses the rest.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

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
