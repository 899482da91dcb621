/*
 * core/trail/segment_look.c
 *		Reading a trail without changing it: which cluster it belongs to, which
 *		streams it has, whether a stream has a block, and the blocks of a segment.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trail/segment_walk.h"

bool
steno_trail_is_of_other(const char *trail, uint32_t streams, uint64_t system_identifier,
						uint64_t *other, char *path, size_t size)
{
	StenoStream stream;
	StenoError	error;
	uint64_t	last;
	uint8_t		bytes[STENO_SEGMENT_HEADER];
	StenoSegmentHeader h;
	bool		found = false;
	int			fd;

	for (stream.number = 0; stream.number < streams && !found; stream.number++)
	{
		steno_stream_folder(stream.directory, sizeof(stream.directory), trail, stream.number);
		if (!steno_segment_find_last(&stream, UINT64_MAX, &last, &error) || last == 0)
			continue;
		steno_segment_path(path, size, stream.directory, last);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		found = steno_read_at(fd, bytes, sizeof(bytes), 0) &&
			steno_segment_header_read(bytes, &h) && h.system_identifier != system_identifier;
		close(fd);
	}
	if (found)
		*other = h.system_identifier;
	return found;
}

/* Find a block in one segment; *hash is unchanged if the segment does not have it. */
static bool
find_block(const StenoWalk *w, uint64_t block, uint8_t hash[STENO_HASH_SIZE])
{
	uint64_t	offset = w->begin;

	while (offset + STENO_BLOCK_HEADER <= w->size)
	{
		uint8_t		bytes[STENO_BLOCK_HEADER];
		StenoBlockHeader h;

		if (!steno_read_at(w->fd, bytes, sizeof(bytes), offset))
			return false;
		if (!steno_block_header_read(bytes, &h))
		{
			offset = steno_walk_find_block(w, offset + 1);
			continue;
		}
		if (h.block == block)
		{
			memcpy(hash, h.chain, STENO_HASH_SIZE);
			return true;
		}
		offset += STENO_BLOCK_HEADER + h.stored;
	}
	return false;
}

bool
steno_stream_has(const char *trail, uint32_t number, uint64_t system_identifier,
				 uint64_t block, const uint8_t hash[STENO_HASH_SIZE], bool *has,
				 StenoError *error)
{
	StenoStream stream = {.fd = -1, .number = number, .system_identifier = system_identifier};
	uint64_t	segment = UINT64_MAX;
	bool		before = false;
	struct stat st;

	*has = block == 0;
	if (*has)
		return true;
	steno_stream_folder(stream.directory, sizeof(stream.directory), trail, number);
	if (stat(stream.directory, &st) != 0 && errno == ENOENT)
		return true;
	for (;;)
	{
		uint8_t		found[STENO_HASH_SIZE];
		StenoSegmentHeader h;
		StenoHeaderState state;
		StenoWalk	w;
		bool		there;

		if (!steno_segment_find_last(&stream, segment, &segment, error))
			return false;
		if (segment == 0)
		{
			/* retention can have deleted the block if all segments that are left follow it */
			*has = before;
			return true;
		}
		stream.segment = segment;
		state = steno_segment_walk(&stream, segment, &w, &h, error);
		if (state == STENO_HEADER_FAILED)
			return false;
		there = state != STENO_HEADER_UNWRITTEN && find_block(&w, block, found);
		close(w.fd);
		/* the header of a segment has the hash of the block before it */
		if (!there && state == STENO_HEADER_GOOD && h.first_block == block + 1)
		{
			memcpy(found, h.previous, STENO_HASH_SIZE);
			there = true;
		}
		if (there || (state == STENO_HEADER_GOOD && h.first_block <= block))
		{
			*has = there && memcmp(found, hash, STENO_HASH_SIZE) == 0;
			return true;
		}
		before = state == STENO_HEADER_GOOD;
	}
}

bool
steno_trail_streams(const char *trail, uint32_t *next, bool *empty, StenoError *error)
{
	DIR		   *dir = opendir(trail);
	struct dirent *entry;
	bool		ok;

	*next = 0;
	*empty = true;
	if (dir == NULL)
		return errno == ENOENT || steno_failed(error, errno, "could not open folder", trail);
	errno = 0;
	while ((entry = readdir(dir)) != NULL)
	{
		StenoStream stream;
		StenoError	ignored;
		uint64_t	last;
		char	   *end;
		unsigned long n = strtoul(entry->d_name, &end, 10);

		if (*end != '\0' || entry->d_name[0] < '0' || entry->d_name[0] > '9' || n >= UINT32_MAX)
			continue;
		if (n >= *next && n <= STENO_STREAM_MAX)
			*next = (uint32_t) n + 1;
		steno_stream_folder(stream.directory, sizeof(stream.directory), trail, (uint32_t) n);
		if (!steno_segment_find_last(&stream, UINT64_MAX, &last, &ignored) || last > 0)
			*empty = false;
		errno = 0;
	}
	ok = errno == 0 || steno_failed(error, errno, "could not read folder", trail);
	closedir(dir);
	return ok;
}

uint32_t
steno_stream_free(const char *trail, uint32_t from)
{
	char		folder[1100];
	struct stat st;

	for (;; from++)
	{
		steno_stream_folder(folder, sizeof(folder), trail, from);
		if (from == UINT32_MAX || lstat(folder, &st) != 0)
			return from;
	}
}

bool
steno_segment_has_block(const char *trail, uint32_t stream, uint64_t segment,
						uint64_t offset, uint64_t block,
						const uint8_t hash[STENO_HASH_SIZE], StenoError *error)
{
	char		directory[1024];
	char		path[1100];
	uint8_t		bytes[STENO_BLOCK_HEADER];
	StenoBlockHeader h;
	struct stat st;
	bool		has;
	int			fd;

	steno_stream_folder(directory, sizeof(directory), trail, stream);
	steno_segment_path(path, sizeof(path), directory, segment);
	memset(error, 0, sizeof(*error));
	errno = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	has = fd >= 0 &&
		fstat(fd, &st) == 0 &&
		offset <= (uint64_t) st.st_size &&
		steno_read_at(fd, bytes, sizeof(bytes), offset) &&
		steno_block_header_read(bytes, &h) &&
		h.block == block &&
		memcmp(h.chain, hash, STENO_HASH_SIZE) == 0 &&
		h.stored <= (uint64_t) st.st_size - offset - STENO_BLOCK_HEADER &&
		steno_payload_is_good(fd, offset, &h);
	if (!has && !steno_errno_is_about_file(errno))
		steno_failed(error, errno, "could not look for a block in segment", path);
	if (fd >= 0)
		close(fd);
	return has;
}

/* ---- the blocks of a segment that may be open ---- */

/*
 * Behind damage, payloads of this many times the size of the file are hashed at most to find the
 * next block: forged headers could say of the same bytes that they are the payload of each of them.
 */
#define HASHED_MOST 4

void
steno_segment_read(StenoSegmentReader *reader, int fd, uint64_t size, uint64_t begin, bool last)
{
	memset(reader, 0, sizeof(*reader));
	reader->fd = fd;
	reader->size = size;
	reader->offset = begin;
	reader->last = last;
}

/* The bytes of a header at an offset; NULL if they cannot be read.  Small blocks share a read. */
static const uint8_t *
header_bytes(StenoSegmentReader *r, uint64_t offset)
{
	uint64_t	n = r->size - offset < sizeof(r->window) ? r->size - offset : sizeof(r->window);

	if (offset < r->base || offset + STENO_BLOCK_HEADER > r->base + r->filled)
	{
		r->filled = 0;
		if (n < STENO_BLOCK_HEADER || !steno_read_at(r->fd, r->window, n, offset))
			return NULL;
		r->base = offset;
		r->filled = (uint32_t) n;
	}
	return r->window + (offset - r->base);
}

/*
 * Whether a header behind damage is that of a block.  It may stand in a text: so its number must be
 * one that can come there, each block that was lost having had a header at least, and another block
 * or the end must follow, or its payload must be whole.
 */
static bool
is_block(StenoSegmentReader *r, uint64_t from, uint64_t at, const StenoBlockHeader *h)
{
	uint64_t	end = at + STENO_BLOCK_HEADER + h->stored;
	uint8_t		bytes[STENO_BLOCK_HEADER];
	StenoBlockHeader next;

	if (h->stored > r->size - at - STENO_BLOCK_HEADER ||
		(r->block > 0 && (h->block <= r->block || h->block - r->block - 1 > (at - from) / STENO_BLOCK_HEADER)))
		return false;
	if (end == r->size || (r->size - end >= STENO_BLOCK_HEADER && steno_read_at(r->fd, bytes, sizeof(bytes), end) &&
						   steno_block_header_read(bytes, &next)))
		return true;
	if (h->stored > HASHED_MOST * r->size - r->hashed)
		return false;
	r->hashed += h->stored;
	return steno_payload_is_good(r->fd, at, h);
}

/* The next block at or after an offset; the end if there is none. */
static uint64_t
find_next_block(StenoSegmentReader *r, uint64_t from)
{
	StenoWalk	w = {.fd = r->fd, .size = r->size};
	uint64_t	at;

	for (at = steno_walk_find_block(&w, from); at < r->size; at = steno_walk_find_block(&w, at + 1))
	{
		uint8_t		bytes[STENO_BLOCK_HEADER];
		StenoBlockHeader h;

		if (steno_read_at(r->fd, bytes, sizeof(bytes), at) && steno_block_header_read(bytes, &h) &&
			is_block(r, from, at, &h))
			return at;
	}
	return r->size;
}

/* What stands at the end cannot be read. */
static StenoNext
end_badly(StenoSegmentReader *r, uint64_t *offset, bool torn)
{
	*offset = r->offset;
	r->offset = r->size;
	return torn ? STENO_NEXT_END : STENO_NEXT_DAMAGED;
}

StenoNext
steno_segment_next(StenoSegmentReader *r, uint64_t *offset, StenoBlockHeader *h)
{
	const uint8_t *bytes;
	uint64_t	next;
	bool		hole;

	if (r->offset >= r->size)
		return STENO_NEXT_END;
	bytes = header_bytes(r, r->offset);
	if (bytes == NULL)
		return end_badly(r, offset, r->last);
	if (steno_block_header_read(bytes, h))
	{
		if (h->stored > r->size - r->offset - STENO_BLOCK_HEADER)
			return end_badly(r, offset, r->last);
		*offset = r->offset;
		r->offset += STENO_BLOCK_HEADER + h->stored;
		r->block = h->block;
		return STENO_NEXT_BLOCK;
	}
	hole = steno_has_hole(bytes, r->offset, STENO_BLOCK_HEADER, 0);
	next = find_next_block(r, r->offset + 1);
	if (next == r->size)
		return end_badly(r, offset, r->last && hole);
	*offset = r->offset;
	r->offset = next;
	return STENO_NEXT_DAMAGED;
}
