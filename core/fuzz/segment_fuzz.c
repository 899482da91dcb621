/*
 * core/fuzz/segment_fuzz.c
 *		Any bytes, as the last segment of a stream: opening it to continue the stream
 *		must terminate, and must leave a segment that can be opened again unchanged.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trail/segment.h"
#include "trail/segment_walk.h"

int			steno_fuzz_segment(const uint8_t *data, size_t size);

static char folder[100];

static void
must(bool right)
{
	if (!right)
		abort();
}

static void
remove_segments(void)
{
	char		path[200];
	int			i;

	for (i = 1; i <= 9; i++)
	{
		snprintf(path, sizeof(path), "%s/0/%010d.steno", folder, i);
		unlink(path);
		snprintf(path, sizeof(path), "%s/0/%010d.steno.new", folder, i);
		unlink(path);
	}
}

static void
remove_folder(void)
{
	char		path[200];

	remove_segments();
	snprintf(path, sizeof(path), "%s/0", folder);
	rmdir(path);
	rmdir(folder);
}

static void
make_folder(void)
{
	char		path[200];

	snprintf(folder, sizeof(folder), "%s/steno_fuzz.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	must(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/0", folder);
	must(mkdir(path, 0700) == 0 && atexit(remove_folder) == 0);
}

static void
check_walk(void)
{
	StenoStream stream = {.fd = -1, .number = 0};
	StenoError	error;
	StenoWalk	w;
	StenoSegmentHeader h;
	StenoHeaderState state;
	uint64_t	end;

	snprintf(stream.directory, sizeof(stream.directory), "%s/0", folder);
	state = steno_segment_walk(&stream, 1, &w, &h, &error);
	if (state == STENO_HEADER_FAILED)
		return;
	must(w.end <= w.size && w.last <= w.end && w.begin <= w.size + STENO_SEGMENT_HEADER_ENCRYPTED);
	if (w.last > 0)
	{
		must(w.last + STENO_BLOCK_HEADER + w.last_header.stored == w.end);
		/* the last block before damage may have only a valid header */
		must(state != STENO_HEADER_GOOD || w.damaged ||
			 steno_segment_has_block(folder, 0, 1, w.last, w.last_header.block, w.last_header.chain, &error));
	}
	must(steno_walk_find_block(&w, w.begin) <= w.size);
	must(!steno_walk_content_end(&w, &end) || (end >= w.end && end <= w.size));
	close(w.fd);
}

/* A segment that was opened once must be opened again without a change. */
static void
check_open(uint64_t system_identifier)
{
	StenoFound	found;
	StenoFound	again;
	StenoError	error;
	StenoStream stream;
	uint64_t	segment;
	uint64_t	offset;
	uint64_t	block;

	if (!steno_stream_open(&stream, folder, 0, system_identifier, 150018, 0600, NULL, 77, 0, &found, &error))
		return;
	segment = stream.segment;
	offset = stream.offset;
	block = stream.next_block;
	steno_stream_close(&stream);
	must(steno_stream_open(&stream, folder, 0, system_identifier, 150018, 0600, NULL, 78, UINT64_MAX, &again, &error));
	must(stream.segment == segment && stream.offset == offset && stream.next_block == block);
	must(again.torn_bytes == 0 && !again.damaged);
	steno_stream_close(&stream);
}

/* Correct the checksums; otherwise random inputs would never get past them. */
static void
repair(uint8_t *p, size_t size)
{
	size_t		at = STENO_SEGMENT_HEADER;

	if (size < at)
		return;
	steno_put_le(p + STENO_SEGMENT_SUM, XXH64(p, STENO_SEGMENT_SUM, 0), 8);
	while (size - at >= STENO_BLOCK_HEADER && memcmp(p + at, STENO_BLOCK_MAGIC, 4) == 0)
	{
		uint64_t	stored = steno_get_le(p + at + 8, 4);

		if (stored <= size - at - STENO_BLOCK_HEADER)
			steno_put_le(p + at + 64, XXH64(p + at + STENO_BLOCK_HEADER, stored, 0), 8);
		steno_put_le(p + at + STENO_BLOCK_SUM, XXH64(p + at, STENO_BLOCK_SUM, 0), 8);
		if (stored > size - at - STENO_BLOCK_HEADER)
			return;
		at += STENO_BLOCK_HEADER + stored;
	}
}

static void
check_segment(const uint8_t *data, size_t size)
{
	char		path[200];
	uint64_t	system_identifier = 0;
	int			fd;

	remove_segments();
	snprintf(path, sizeof(path), "%s/0/%010d.steno", folder, 1);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	must(fd >= 0 && write(fd, data, size) == (ssize_t) size && close(fd) == 0);
	/* the segment's checksum, so that the input is not rejected for it */
	if (size >= 24)
		memcpy(&system_identifier, data + 16, 8);
	check_walk();
	check_open(system_identifier);
}

int
steno_fuzz_segment(const uint8_t *data, size_t size)
{
	uint8_t    *repaired = malloc(size > 0 ? size : 1);

	if (folder[0] == '\0')
		make_folder();
	check_segment(data, size);
	if (size > 0)
		memcpy(repaired, data, size);
	repair(repaired, size);
	check_segment(repaired, size);
	free(repaired);
	return 0;
}

#ifdef STENO_FUZZER
int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return steno_fuzz_segment(data, size);
}
#endif
