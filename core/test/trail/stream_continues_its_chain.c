/*
 * core/test/trail/stream_continues_its_chain.c
 *		A stream that is appended to, rotated, closed and opened again is one
 *		chain from its first block to its last.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "header.h"
#include "test/test.h"
#include "test/trail.h"

static char trail[300];
static Trail t;

static void
begin(void)
{
	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	trail_open(&t, trail);
}

static void
reopen(void)
{
	trail_close(&t);
	trail_open(&t, trail);
	CHECK(t.found.torn_bytes == 0 && !t.found.damaged);
}

TEST(stream_is_one_chain_over_segments_and_restarts)
{
	uint64_t	records;

	begin();
	CHECK(t.stream.segment == 1 && t.stream.offset == STENO_SEGMENT_HEADER);
	trail_must_append(&t, 3);
	trail_must_append(&t, 0);
	reopen();
	CHECK(t.stream.next_block == 3 && t.stream.next_record == 4);
	trail_must_append(&t, 2);
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW + 1, &t.error));
	CHECK(t.stream.segment == 2 && t.stream.created == TRAIL_NOW + 1);
	trail_must_append(&t, 5);
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW + 2, &t.error));
	reopen();
	CHECK(t.stream.segment == 3 && t.stream.created == TRAIL_NOW + 2);
	trail_must_append(&t, 1);
	reopen();
	trail_must_append(&t, 1);
	CHECK(steno_stream_sync(&t.stream, &t.error));
	CHECK(trail_verify(trail, 0, &records) == 6);
	CHECK(records == 12);
}

/* The hash in a header is a block's, even when there is no block to take it from at hand. */
TEST(stream_chain_passes_through_segments_without_blocks)
{
	begin();
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	trail_must_append(&t, 1);
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	reopen();
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	trail_must_append(&t, 1);
	CHECK(t.stream.segment == 5);
	CHECK(trail_verify(trail, 0, NULL) == 2);
}

TEST(stream_files_are_for_their_owner_only)
{
	struct stat st;
	char		path[600];

	begin();
	CHECK(stat(trail, &st) == 0 && (st.st_mode & 0777) == 0700);
	CHECK(stat(t.stream.directory, &st) == 0 && (st.st_mode & 0777) == 0700);
	segment_name(path, sizeof(path), trail, 0, 1);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
	CHECK(fcntl(t.stream.fd, F_GETFD) & FD_CLOEXEC);
}

TEST(stream_file_mode_is_what_was_asked_for)
{
	struct stat st;
	char		path[600];

	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	umask(077);
	CHECK(steno_stream_open(&t.stream, trail, 3, TRAIL_SYSTEM, 150000, 0640, NULL, TRAIL_NOW, 0, &t.found, &t.error));
	segment_name(path, sizeof(path), trail, 3, 1);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640);
	CHECK(stat(trail, &st) == 0 && (st.st_mode & 07777) == 02750);
	CHECK(stat(t.stream.directory, &st) == 0 && (st.st_mode & 07777) == 02750);
}

/* Write a changed header over segment 1's. */
static void
change_header(void (*change) (StenoSegmentHeader *))
{
	StenoSegmentHeader h;
	char		path[600];
	size_t		len;
	uint8_t    *bytes;

	segment_name(path, sizeof(path), trail, 0, 1);
	bytes = file_read(path, &len);
	CHECK(steno_segment_header_read(bytes, &h));
	change(&h);
	steno_segment_header_write(bytes, &h);
	file_write(path, bytes, len);
	free(bytes);
}

static void
foreign_system(StenoSegmentHeader *h)
{
	h->system_identifier++;
}

static void
newer_version(StenoSegmentHeader *h)
{
	h->version++;
}

static void
unknown_flag(StenoSegmentHeader *h)
{
	h->flags = 2;
}

static void
refused(void (*change) (StenoSegmentHeader *), const char *why)
{
	char		path[600];
	size_t		before;
	size_t		after;

	begin();
	trail_must_append(&t, 2);
	trail_close(&t);
	change_header(change);
	segment_name(path, sizeof(path), trail, 0, 1);
	free(file_read(path, &before));
	CHECK(!trail_try_open(&t, trail));
	CHECK(t.error.error == 0 && strstr(t.error.what, why) != NULL && strcmp(t.error.path, path) == 0);
	free(file_read(path, &after));
	CHECK(before == after);
	segment_name(path, sizeof(path), trail, 0, 2);
	CHECK(access(path, F_OK) != 0);
}

TEST(stream_of_another_cluster_is_refused)
{
	refused(foreign_system, "another database cluster");
}

TEST(stream_of_a_newer_format_is_refused)
{
	refused(newer_version, "newer format");
}

TEST(stream_with_unknown_flags_is_refused)
{
	refused(unknown_flag, "unknown flags");
}

TEST(stream_ignores_files_that_are_no_segments)
{
	char		path[600];

	begin();
	trail_must_append(&t, 1);
	snprintf(path, sizeof(path), "%s/0/0000000009.steno.tmp", trail);
	file_write(path, "x", 1);
	snprintf(path, sizeof(path), "%s/0/9.steno", trail);
	file_write(path, "x", 1);
	reopen();
	CHECK(t.stream.segment == 1);
}

TEST(stream_whose_folder_cannot_be_made_says_so)
{
	snprintf(trail, sizeof(trail), "%s/no/such", test_folder());
	CHECK(!trail_try_open(&t, trail));
	CHECK(t.error.error == ENOENT && strcmp(t.error.path, trail) == 0 && t.error.what[0] != '\0');
}

TEST(segment_has_block_is_exact)
{
	uint64_t	offset;
	uint8_t		hash[STENO_HASH_SIZE];
	uint8_t		other[STENO_HASH_SIZE];
	char		path[600];
	uint8_t    *bytes;
	size_t		len;

	begin();
	trail_must_append(&t, 2);
	offset = t.stream.offset;
	trail_must_append(&t, 2);
	memcpy(hash, t.stream.chain, sizeof(hash));
	memcpy(other, hash, sizeof(other));
	other[31] ^= 1;
	CHECK(steno_segment_has_block(trail, 0, 1, offset, 2, hash, &t.error));
	trail_use_up_descriptors(true);
	CHECK(!steno_segment_has_block(trail, 0, 1, offset, 2, hash, &t.error) && t.error.error == EMFILE);
	trail_use_up_descriptors(false);
	CHECK(!steno_segment_has_block(trail, 0, 1, offset, 2, other, &t.error));
	CHECK(!steno_segment_has_block(trail, 0, 1, offset, 1, hash, &t.error));
	CHECK(!steno_segment_has_block(trail, 0, 1, offset - 1, 2, hash, &t.error));
	CHECK(!steno_segment_has_block(trail, 0, 1, t.stream.offset, 2, hash, &t.error));
	CHECK(!steno_segment_has_block(trail, 0, 1, t.stream.offset + 1000, 2, hash, &t.error));
	CHECK(!steno_segment_has_block(trail, 0, 2, offset, 2, hash, &t.error));
	CHECK(!steno_segment_has_block(trail, 1, 1, offset, 2, hash, &t.error));
	CHECK(t.error.what[0] == '\0');

	/* the last byte missing, and the last byte wrong */
	segment_name(path, sizeof(path), trail, 0, 1);
	bytes = file_read(path, &len);
	file_write(path, bytes, len - 1);
	CHECK(!steno_segment_has_block(trail, 0, 1, offset, 2, hash, &t.error));
	bytes[len - 1] ^= 1;
	file_write(path, bytes, len);
	CHECK(!steno_segment_has_block(trail, 0, 1, offset, 2, hash, &t.error));
	free(bytes);
}
