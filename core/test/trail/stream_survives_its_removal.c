/*
 * core/test/trail/stream_survives_its_removal.c
 *		A segment that is removed or moved while it is written to is noticed, and
 *		the stream goes on: restored from what is still open, or in the next one.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "header.h"
#include "test/test.h"
#include "test/trail.h"

static char trail[300];
static char folder[400];
static char path[600];
static char aside[600];
static Trail t;

/* Five blocks, two of them synced. */
static void
make(const char *name)
{
	int			i;

	snprintf(trail, sizeof(trail), "%s/%s", test_folder(), name);
	snprintf(folder, sizeof(folder), "%s/0", trail);
	snprintf(aside, sizeof(aside), "%s/%s.aside", test_folder(), name);
	segment_name(path, sizeof(path), trail, 0, 1);
	trail_open(&t, trail);
	for (i = 0; i < 5; i++)
	{
		trail_must_append(&t, 4);
		if (i == 1)
			CHECK(steno_stream_sync(&t.stream, &t.error));
	}
	CHECK(steno_stream_place(&t.stream, &t.error) == STENO_PLACE_KEPT);
}

static bool
replace(StenoPlace expected)
{
	StenoPlace	place = steno_stream_place(&t.stream, &t.error);

	CHECK(place == expected);
	CHECK(t.error.what[0] != '\0' && strcmp(t.error.path, path) == 0);
	return steno_stream_replace(&t.stream, trail, place, TRAIL_NOW, &t.error);
}

static bool
is_there(const char *name)
{
	char		file[700];

	snprintf(file, sizeof(file), "%s/%s", folder, name);
	return access(file, F_OK) == 0;
}

TEST(stream_restores_a_removed_segment)
{
	make("removed");
	CHECK(unlink(path) == 0);
	/* it takes blocks as ever, and syncs */
	trail_must_append(&t, 4);
	CHECK(replace(STENO_PLACE_REMOVED));
	CHECK(t.stream.segment == 1 && !t.stream.dirty);
	CHECK(!is_there(".restoring"));
	CHECK(trail_verify(trail, 0, NULL) == 6);
	trail_must_append(&t, 4);
	CHECK(steno_stream_place(&t.stream, &t.error) == STENO_PLACE_KEPT);
	trail_close(&t);
	CHECK(trail_verify(trail, 0, NULL) == 7);
}

TEST(stream_restores_a_segment_whose_folders_are_removed)
{
	uint8_t    *first;
	size_t		len;

	make("folders");
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	trail_must_append(&t, 4);
	first = file_read(path, &len);
	CHECK(unlink(path) == 0);
	segment_name(path, sizeof(path), trail, 0, 2);
	CHECK(unlink(path) == 0 && rmdir(folder) == 0 && rmdir(trail) == 0);
	CHECK(replace(STENO_PLACE_REMOVED));
	CHECK(t.stream.segment == 2);
	trail_must_append(&t, 4);
	trail_close(&t);

	/* all that is missing is the segment that was not open */
	segment_name(path, sizeof(path), trail, 0, 1);
	file_write(path, first, len);
	free(first);
	CHECK(trail_verify(trail, 0, NULL) == 7);
}

TEST(stream_goes_on_in_the_next_segment_when_one_is_moved)
{
	make("moved");
	CHECK(rename(folder, aside) == 0);
	trail_must_append(&t, 4);
	CHECK(replace(STENO_PLACE_MOVED));
	CHECK(t.stream.segment == 2 && t.stream.next_block == 7);
	trail_must_append(&t, 4);
	trail_close(&t);
	CHECK(access(path, F_OK) != 0);

	/* put back, it fits: nothing is missing */
	strcat(aside, "/0000000001.steno");
	CHECK(rename(aside, path) == 0);
	CHECK(trail_verify(trail, 0, NULL) == 7);
}

TEST(stream_leaves_alone_what_has_taken_its_place)
{
	size_t		len;
	uint8_t    *found;

	make("taken");
	CHECK(unlink(path) == 0);
	file_write(path, "evidence", 8);
	CHECK(replace(STENO_PLACE_MOVED));
	CHECK(t.error.error == EEXIST);
	CHECK(t.stream.segment == 2);
	found = file_read(path, &len);
	CHECK(len == 8 && memcmp(found, "evidence", 8) == 0);
	free(found);
	trail_close(&t);
}

TEST(stream_goes_on_when_a_removed_segment_cannot_be_read)
{
	size_t		len;
	uint8_t    *first;
	int			blind;

	make("unreadable");
	first = file_read(path, &len);
	blind = open(path, O_WRONLY);
	CHECK(blind >= 0 && unlink(path) == 0);
	close(t.stream.fd);
	t.stream.fd = blind;
	CHECK(replace(STENO_PLACE_REMOVED));
	CHECK(t.stream.segment == 2);
	CHECK(!is_there(".restoring"));
	trail_must_append(&t, 4);
	trail_close(&t);
	file_write(path, first, len);
	free(first);
	CHECK(trail_verify(trail, 0, NULL) == 6);
}

TEST(stream_that_cannot_be_replaced_can_be_tried_again)
{
	StenoStream before;

	make("again");
	before = t.stream;
	CHECK(unlink(path) == 0);
	limit_files(200);
	CHECK(!replace(STENO_PLACE_REMOVED));
	CHECK(t.error.error == EFBIG);
	CHECK(memcmp(&before, &t.stream, sizeof(before)) == 0);
	CHECK(!is_there(".restoring"));
	limit_files(RLIM_INFINITY);
	CHECK(rmdir(folder) == 0 && rmdir(trail) == 0);

	/* a file in the folder's place */
	file_write(trail, "x", 1);
	CHECK(!replace(STENO_PLACE_REMOVED));
	CHECK(memcmp(&before, &t.stream, sizeof(before)) == 0);

	/* a place that cannot be looked for */
	CHECK(unlink(trail) == 0 && symlink(trail, trail) == 0);
	CHECK(steno_stream_place(&t.stream, &t.error) == STENO_PLACE_UNKNOWN);
	CHECK(t.error.error == ELOOP);
	CHECK(unlink(trail) == 0);

	CHECK(replace(STENO_PLACE_REMOVED));
	CHECK(trail_verify(trail, 0, NULL) == 5);
	trail_close(&t);
}

TEST(stream_restored_in_doubt_is_still_in_doubt)
{
	int			pipes[2];
	int			segment;

	make("doubt");
	CHECK(pipe(pipes) == 0);
	segment = t.stream.fd;
	t.stream.fd = pipes[1];
	CHECK(!steno_stream_sync(&t.stream, &t.error));
	t.stream.fd = segment;
	CHECK(unlink(path) == 0);
	CHECK(replace(STENO_PLACE_REMOVED));
	CHECK(t.stream.dirty && t.stream.doubtful);
	CHECK(steno_stream_sync(&t.stream, &t.error));
	CHECK(t.stream.lost.count == 0 && !t.stream.dirty);
	CHECK(trail_verify(trail, 0, NULL) == 5);
	trail_close(&t);
}

TEST(trail_of_another_cluster_is_told)
{
	uint64_t	other = 0;

	make("cluster");
	trail_close(&t);
	CHECK(!steno_trail_is_of_other(trail, 64, TRAIL_SYSTEM, &other, path, sizeof(path)));
	CHECK(steno_trail_is_of_other(trail, 64, TRAIL_SYSTEM + 1, &other, path, sizeof(path)));
	CHECK(other == TRAIL_SYSTEM && strstr(path, "/0/0000000001.steno") != NULL);
	CHECK(!steno_trail_is_of_other(aside, 64, TRAIL_SYSTEM + 1, &other, path, sizeof(path)));
}
