/*
 * core/test/trail/stream_makes_room.c
 *		Zeros after the last block are room for the next: they are no damage and
 *		no unfinished write, and a finished segment has none.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "header.h"
#include "test/test.h"
#include "test/trail.h"

#define ROOM (256 * 1024)

static char trail[300];
static char path[600];
static Trail t;

static void
begin(void)
{
	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	segment_name(path, sizeof(path), trail, 0, 1);
	trail_open(&t, trail);
}

static uint64_t
size_of(const char *name)
{
	struct stat st;

	CHECK(stat(name, &st) == 0);
	return (uint64_t) st.st_size;
}

/* What is left of a writer that is killed now: the file as it is. */
static void
killed(void)
{
	close(t.stream.fd);
	t.stream.fd = -1;
	trail_close(&t);
}

TEST(stream_fills_its_room_before_it_makes_more)
{
	int			blocks = 0;

	begin();
	while (t.stream.offset < 3 * ROOM)
	{
		steno_stream_make_room(&t.stream, 20000);
		/* the room is a multiple, and has a place for the block */
		CHECK(size_of(path) % ROOM == 0 && size_of(path) >= t.stream.offset + 20000);
		CHECK(size_of(path) <= t.stream.offset + 20000 + ROOM);
		trail_must_append(&t, 300);
		blocks++;
		CHECK(size_of(path) % ROOM == 0);
		CHECK(steno_stream_sync(&t.stream, &t.error));
	}
	CHECK(size_of(path) > t.stream.offset);
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	trail_must_append(&t, 3);
	CHECK(trail_verify(trail, 0, NULL) == blocks + 1);
}

TEST(stream_that_is_closed_keeps_no_room)
{
	begin();
	steno_stream_make_room(&t.stream, 1000);
	trail_must_append(&t, 4);
	CHECK(size_of(path) == ROOM);
	trail_close(&t);
	CHECK(size_of(path) == t.stream.offset);
	CHECK(trail_verify(trail, 0, NULL) == 1);
}

TEST(stream_goes_on_where_its_room_begins)
{
	uint64_t	end;

	begin();
	trail_must_append(&t, 4);
	steno_stream_make_room(&t.stream, 1000);
	trail_must_append(&t, 4);
	end = t.stream.offset;
	killed();
	CHECK(size_of(path) == ROOM);
	trail_open(&t, trail);
	CHECK(!t.found.damaged && t.found.torn_bytes == 0);
	CHECK(t.stream.segment == 1 && t.stream.offset == end && size_of(path) == end);
	trail_must_append(&t, 4);
	CHECK(trail_verify(trail, 0, NULL) == 3);
}

/* Also of a segment without blocks. */
TEST(stream_goes_on_in_a_segment_of_nothing_but_room)
{
	begin();
	steno_stream_make_room(&t.stream, 1000);
	killed();
	CHECK(size_of(path) == ROOM);
	trail_open(&t, trail);
	CHECK(!t.found.damaged && t.found.torn_bytes == 0 && t.stream.offset == STENO_SEGMENT_HEADER);
	trail_must_append(&t, 4);
	CHECK(trail_verify(trail, 0, NULL) == 1);
}

/* A write into the room that stops at any byte where a writer can be killed in it. */
TEST(stream_cuts_a_block_that_its_room_has_a_part_of)
{
	uint64_t	begun = 0;
	uint64_t	from;
	uint64_t	at;
	uint64_t	torn;
	uint8_t    *whole;
	uint8_t    *bytes;
	size_t		len;
	int			cuts = 0;

	begin();
	steno_stream_make_room(&t.stream, 100000);
	/* a block of which a sector has a few bytes only */
	while (begun == 0 || t.stream.offset % 512 == 0 || t.stream.offset % 512 > 12)
	{
		begun = t.stream.offset;
		trail_must_append(&t, 20);
	}
	whole = file_read(path, &len);
	bytes = malloc(len);
	at = t.stream.offset;
	killed();
	for (from = begun; from < at; from++)
	{
		uint64_t	left = at - from;

		/* fewer bytes than that are missing only where a sector begins */
		if (left < 16 && from % 512 != 0)
			continue;
		memcpy(bytes, whole, len);
		memset(bytes + from, 0, left);
		file_write(path, bytes, len);
		trail_open(&t, trail);
		for (torn = from; torn > begun && bytes[torn - 1] == 0;)
			torn--;
		CHECK(!t.found.damaged && t.found.torn_bytes == torn - begun);
		CHECK(t.stream.offset == begun && size_of(path) == begun);
		trail_close(&t);
		cuts += left < 16;
	}
	CHECK(cuts == 1);
	/* a byte that was changed is damage, also before room */
	memcpy(bytes, whole, len);
	bytes[at - 1] ^= 0x55;
	file_write(path, bytes, len);
	trail_open(&t, trail);
	CHECK(t.found.damaged && t.found.damaged_offset == begun);
	trail_close(&t);
	free(whole);
	free(bytes);
}

TEST(stream_needs_no_room)
{
	struct rlimit limit;

	begin();
	trail_must_append(&t, 4);
	signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	limit.rlim_cur = t.stream.offset + 5000;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	steno_stream_make_room(&t.stream, 1000);
	CHECK(size_of(path) == t.stream.offset);
	trail_must_append(&t, 4);
	CHECK(steno_stream_sync(&t.stream, &t.error));
	CHECK(trail_verify(trail, 0, NULL) == 2);
}

/* After a failed sync nobody knows what the disk has of the room. */
TEST(stream_trusts_no_room_after_a_failed_sync)
{
	int			pipes[2];
	int			segment;

	begin();
	steno_stream_make_room(&t.stream, 1000);
	trail_must_append(&t, 4);
	CHECK(pipe(pipes) == 0);
	segment = t.stream.fd;
	t.stream.fd = pipes[1];
	CHECK(!steno_stream_sync(&t.stream, &t.error));
	t.stream.fd = segment;
	steno_stream_make_room(&t.stream, 2 * ROOM);
	CHECK(size_of(path) == ROOM);
	CHECK(steno_stream_sync(&t.stream, &t.error));
	CHECK(size_of(path) == t.stream.offset);
	steno_stream_make_room(&t.stream, 1000);
	CHECK(size_of(path) == ROOM);
}

/* A segment that was removed is restored without, one that was moved keeps none. */
TEST(stream_takes_no_room_along)
{
	char		moved[700];
	char		second[600];
	uint64_t	end;

	begin();
	steno_stream_make_room(&t.stream, 1000);
	trail_must_append(&t, 4);
	CHECK(unlink(path) == 0);
	CHECK(steno_stream_place(&t.stream, &t.error) == STENO_PLACE_REMOVED);
	CHECK(steno_stream_replace(&t.stream, trail, STENO_PLACE_REMOVED, TRAIL_NOW, &t.error));
	CHECK(size_of(path) == t.stream.offset);
	steno_stream_make_room(&t.stream, 1000);
	CHECK(size_of(path) == ROOM);
	trail_must_append(&t, 4);
	end = t.stream.offset;
	snprintf(moved, sizeof(moved), "%s.moved", path);
	CHECK(rename(path, moved) == 0);
	CHECK(steno_stream_place(&t.stream, &t.error) == STENO_PLACE_MOVED);
	CHECK(steno_stream_replace(&t.stream, trail, STENO_PLACE_MOVED, TRAIL_NOW, &t.error));
	CHECK(size_of(moved) == end);
	trail_must_append(&t, 4);
	CHECK(rename(moved, path) == 0);
	segment_name(second, sizeof(second), trail, 0, 2);
	CHECK(size_of(second) == t.stream.offset);
	CHECK(trail_verify(trail, 0, NULL) == 3);
}
