/*
 * core/segment.c
 *		The files of a stream: append blocks, rotate, and go on after a crash.
 *
 * Opening looks at the last segment only.  It walks the block headers, then
 * checks the last block's payload, and tells two things apart.  Torn: the file
 * ends with what a write that a crash cut short leaves behind, a part of a
 * block or zeros; that was never durable, and is cut off.  Damaged: anything
 * else that is not a whole block; that is evidence, so the file is left as it
 * is and a new segment goes on from its last good block.  Zeros after the last
 * block are neither: they are room that was made for blocks to come.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/sha.h>

#include "header.h"
#include "segment.h"

#define SECTOR 512

/* How much room is made at once, and where it ends: a multiple of it. */
#define ROOM (256 * 1024)

/*
 * Fewer zeros than this at the end are taken for content: a payload ends with
 * one by chance often enough.
 */
#define ZEROS_MIN 16

/* What walking the blocks of a segment found. */
typedef struct Walk
{
	int			fd;
	uint64_t	size;			/* of the file */
	uint64_t	begin;			/* where the first block is */
	bool		anchored;		/* next_block and next_record are known */
	uint64_t	next_block;
	uint64_t	next_record;
	uint8_t		hash[STENO_HASH_SIZE];	/* chain hash of the last block */
	uint64_t	last;			/* offset of the last block; 0: none */
	StenoBlockHeader last_header;
	uint64_t	end;			/* after the last block */
	bool		damaged;
	uint64_t	damaged_offset;
} Walk;

/* ---- errors, paths, bytes ---- */

static bool
fail(StenoError *error, int number, const char *what, const char *path)
{
	error->error = number;
	snprintf(error->what, sizeof(error->what), "%s", what);
	snprintf(error->path, sizeof(error->path), "%s", path);
	return false;
}

static void
segment_path(char *path, size_t size, const char *directory, uint64_t segment)
{
	snprintf(path, size, "%s/%010llu.steno", directory, (unsigned long long) segment);
}

static bool
fail_segment(StenoError *error, int number, const char *what, const StenoStream *stream)
{
	char		path[1100];

	segment_path(path, sizeof(path), stream->directory, stream->segment);
	return fail(error, number, what, path);
}

static bool
write_at(int fd, const uint8_t *bytes, size_t len, uint64_t offset)
{
	while (len > 0)
	{
		ssize_t		n = pwrite(fd, bytes, len, (off_t) offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			if (n == 0)
				errno = ENOSPC;
			return false;
		}
		bytes += n;
		len -= (size_t) n;
		offset += (uint64_t) n;
	}
	return true;
}

/* Whether all of len bytes could be read. */
static bool
read_at(int fd, uint8_t *bytes, size_t len, uint64_t offset)
{
	while (len > 0)
	{
		ssize_t		n = pread(fd, bytes, len, (off_t) offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			if (n == 0)
				errno = 0;
			return false;
		}
		bytes += n;
		len -= (size_t) n;
		offset += (uint64_t) n;
	}
	return true;
}

static int
sync_directory(const char *path)
{
	int			fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int			result;

	if (fd < 0)
		return -1;
	result = fsync(fd);
	/* some file systems cannot sync a folder, and need not */
	if (result != 0 && (errno == EINVAL || errno == EBADF))
		result = 0;
	close(fd);
	return result;
}

static bool
all_zeros(const uint8_t *p, size_t len)
{
	size_t		i;

	for (i = 0; i < len; i++)
		if (p[i] != 0)
			return false;
	return true;
}

/* ---- torn or damaged ---- */

/*
 * Whether these bytes of the file have a part that was never written: zeros at
 * the end, or a sector of zeros.  after is the number of zeros that follow in the
 * file, as far as they count.
 */
static bool
has_hole(const uint8_t *bytes, uint64_t offset, uint64_t len, uint64_t after)
{
	uint64_t	at = 0;

	if (len >= ZEROS_MIN && all_zeros(bytes + len - ZEROS_MIN, ZEROS_MIN))
		return true;
	while (at < len)
	{
		uint64_t	n = SECTOR - (offset + at) % SECTOR;

		if (n >= len - at)
		{
			n = len - at;
			if (n + after >= ZEROS_MIN && all_zeros(bytes + at, n))
				return true;
		}
		else if (n >= ZEROS_MIN && all_zeros(bytes + at, n))
			return true;
		at += n;
	}
	return false;
}

/* The next whole block header, or size when there is none. */
static uint64_t
find_block(const Walk *w, uint64_t from)
{
	uint8_t		window[64 * 1024];
	StenoBlockHeader h;

	while (from + STENO_BLOCK_HEADER <= w->size)
	{
		uint64_t	n = w->size - from < sizeof(window) ? w->size - from : sizeof(window);
		uint64_t	i;

		if (!read_at(w->fd, window, n, from))
			break;
		for (i = 0; i + STENO_BLOCK_HEADER <= n; i++)
			if (memcmp(window + i, STENO_BLOCK_MAGIC, 4) == 0 &&
				steno_block_header_read(window + i, &h))
				return from + i;
		from += i;
	}
	return w->size;
}

static void
note_damage(Walk *w, uint64_t offset)
{
	if (!w->damaged)
		w->damaged_offset = offset;
	w->damaged = true;
}

static bool
ends_with_zeros(const Walk *w)
{
	uint8_t		end[ZEROS_MIN];

	return read_at(w->fd, end, sizeof(end), w->size - sizeof(end)) &&
		all_zeros(end, sizeof(end));
}

/*
 * A block header that is none: returns where to go on.  Without any block after
 * it, it is the end of an unfinished write if it, or the end of the file, was
 * never written.
 */
static uint64_t
skip_bad_header(Walk *w, uint64_t offset, const uint8_t *bytes)
{
	uint64_t	next = find_block(w, offset + 1);

	if (next == w->size &&
		(has_hole(bytes, offset, STENO_BLOCK_HEADER, 0) || ends_with_zeros(w)))
		return next;
	note_damage(w, offset);
	return next;
}

static void
accept_block(Walk *w, uint64_t offset, const StenoBlockHeader *h)
{
	if (w->anchored && (h->block != w->next_block || h->first_record != w->next_record))
		note_damage(w, offset);
	/* a block that is out of place must not make numbers that are taken free */
	if (!w->anchored || h->block >= w->next_block)
	{
		w->next_block = h->block + 1;
		w->next_record = h->first_record + h->records;
		memcpy(w->hash, h->chain, STENO_HASH_SIZE);
	}
	w->anchored = true;
	w->last = offset;
	w->last_header = *h;
	w->end = offset + STENO_BLOCK_HEADER + h->stored;
}

/*
 * Walk the block headers up to limit; false when a read failed.  What is left
 * after w->end is torn.
 */
static bool
walk_blocks(Walk *w, uint64_t limit)
{
	uint64_t	offset = w->begin;
	uint8_t		bytes[STENO_BLOCK_HEADER];
	StenoBlockHeader h;

	w->last = 0;
	w->end = w->begin;
	while (offset < limit)
	{
		if (limit - offset < STENO_BLOCK_HEADER)
			break;
		if (!read_at(w->fd, bytes, sizeof(bytes), offset))
			return false;
		if (!steno_block_header_read(bytes, &h))
		{
			offset = skip_bad_header(w, offset, bytes);
			continue;
		}
		if (h.stored > limit - offset - STENO_BLOCK_HEADER)
			break;
		accept_block(w, offset, &h);
		offset = w->end;
	}
	return true;
}

typedef enum
{
	PAYLOAD_GOOD,
	PAYLOAD_TORN,
	PAYLOAD_DAMAGED,
	PAYLOAD_UNREADABLE
} PayloadState;

/* How many zeros stand at an offset, up to ZEROS_MIN; none, unless there is room for as many. */
static uint64_t
zeros_at(int fd, uint64_t offset)
{
	uint8_t		bytes[ZEROS_MIN];

	return read_at(fd, bytes, sizeof(bytes), offset) && all_zeros(bytes, sizeof(bytes)) ? ZEROS_MIN : 0;
}

static PayloadState
check_payload(int fd, uint64_t offset, const StenoBlockHeader *h)
{
	uint8_t    *payload = malloc((size_t) h->stored + 1);
	PayloadState state = PAYLOAD_DAMAGED;

	offset += STENO_BLOCK_HEADER;
	if (payload == NULL || !read_at(fd, payload, h->stored, offset))
		state = PAYLOAD_UNREADABLE;
	else if (XXH64(payload, h->stored, 0) == h->payload_sum)
		state = PAYLOAD_GOOD;
	else if (has_hole(payload, offset, h->stored, zeros_at(fd, offset + h->stored)))
		state = PAYLOAD_TORN;
	free(payload);
	return state;
}

/*
 * Walk, and cut unfinished blocks off the end until the last one is whole: when
 * the machine went down, several that were not yet synced can have holes.
 */
static bool
walk_segment(Walk *w, const Walk *start)
{
	uint64_t	limit = w->size;

	for (;;)
	{
		PayloadState state;

		w->anchored = start->anchored;
		w->next_block = start->next_block;
		w->next_record = start->next_record;
		memcpy(w->hash, start->hash, STENO_HASH_SIZE);
		w->damaged = start->damaged;
		w->damaged_offset = start->damaged_offset;
		if (!walk_blocks(w, limit))
			return false;
		if (w->last == 0)
			return true;
		state = check_payload(w->fd, w->last, &w->last_header);
		if (state == PAYLOAD_UNREADABLE)
			return false;
		if (state == PAYLOAD_DAMAGED)
			note_damage(w, w->last);
		if (state != PAYLOAD_TORN)
			return true;
		limit = w->last;
	}
}

/*
 * Where what was written ends, behind from: before zeros, unless they are so few that
 * they can be of it.
 */
static bool
find_content_end(const Walk *w, uint64_t from, uint64_t *end)
{
	uint8_t		window[64 * 1024];

	for (*end = w->size; *end > from;)
	{
		uint64_t	n = *end - from < sizeof(window) ? *end - from : sizeof(window);

		if (!read_at(w->fd, window, n, *end - n))
			return false;
		while (n > 0 && window[n - 1] == 0)
		{
			n--;
			(*end)--;
		}
		if (n > 0)
			break;
	}
	if (*end > from && w->size - *end < ZEROS_MIN)
		*end = w->size;
	return true;
}

/* ---- the last segment ---- */

typedef enum
{
	HEADER_GOOD,
	HEADER_UNWRITTEN,			/* shorter than a header, or all zeros */
	HEADER_DAMAGED,
	HEADER_FAILED				/* cannot be read, or must not be */
} HeaderState;

static bool
file_is_zeros(int fd, uint64_t size)
{
	uint8_t		window[64 * 1024];
	uint64_t	at;

	for (at = 0; at < size; at += sizeof(window))
	{
		uint64_t	n = size - at < sizeof(window) ? size - at : sizeof(window);

		if (!read_at(fd, window, n, at) || !all_zeros(window, n))
			return false;
	}
	return true;
}

/* Segments that this code must not touch, whatever their state. */
static bool
refuse(const StenoStream *stream, const uint8_t *bytes, const StenoSegmentHeader *h,
	   bool whole, const char *path, StenoError *error)
{
	if (memcmp(bytes, STENO_SEGMENT_MAGIC, 8) != 0)
		return true;
	if (h->version > STENO_FORMAT_VERSION && (whole || h->length != STENO_SEGMENT_HEADER))
		return fail(error, 0, "segment has a newer format version", path);
	if (!whole)
		return true;
	if (h->flags & ~STENO_SEGMENT_ENCRYPTED)
		return fail(error, 0, "segment has unknown flags", path);
	if (h->system_identifier != stream->system_identifier)
		return fail(error, 0, "segment belongs to another database cluster", path);
	return true;
}

static HeaderState
read_header(const StenoStream *stream, uint64_t segment, int fd, uint64_t size,
			StenoSegmentHeader *h, const char *path, StenoError *error)
{
	uint8_t		bytes[STENO_SEGMENT_HEADER_ENCRYPTED];
	bool		whole;

	if (size < STENO_SEGMENT_HEADER || file_is_zeros(fd, size))
		return HEADER_UNWRITTEN;
	if (!read_at(fd, bytes, size < sizeof(bytes) ? size : sizeof(bytes), 0))
	{
		fail(error, errno, "could not read segment", path);
		return HEADER_FAILED;
	}
	whole = steno_segment_header_read(bytes, h);
	if (!refuse(stream, bytes, h, whole, path, error))
		return HEADER_FAILED;
	if (!whole || h->version != STENO_FORMAT_VERSION ||
		h->length != steno_segment_header_length(h->flags) ||
		h->stream != stream->number || h->segment != segment)
		return HEADER_DAMAGED;
	if (size < h->length)
		return HEADER_UNWRITTEN;
	if (h->length > STENO_SEGMENT_HEADER && !steno_segment_key_whole(bytes))
		return HEADER_DAMAGED;
	return HEADER_GOOD;
}

/*
 * Read a segment into *w and *h.  w->fd stays open, but when the result is
 * HEADER_FAILED.
 */
static HeaderState
read_segment(const StenoStream *stream, uint64_t segment, Walk *w,
			 StenoSegmentHeader *h, StenoError *error)
{
	char		path[1100];
	struct stat st;
	HeaderState state = HEADER_FAILED;
	Walk		start = {0};

	memset(w, 0, sizeof(*w));
	memset(h, 0, sizeof(*h));
	segment_path(path, sizeof(path), stream->directory, segment);
	w->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (w->fd < 0)
	{
		fail(error, errno, "could not open segment", path);
		return HEADER_FAILED;
	}
	if (fstat(w->fd, &st) != 0)
		fail(error, errno, "could not examine segment", path);
	else
	{
		w->size = (uint64_t) st.st_size;
		state = read_header(stream, segment, w->fd, w->size, h, path, error);
	}
	w->begin = state == HEADER_GOOD ? h->length : STENO_SEGMENT_HEADER;
	if (state == HEADER_GOOD)
	{
		start.anchored = true;
		start.next_block = h->first_block;
		start.next_record = h->first_record;
		memcpy(start.hash, h->previous, STENO_HASH_SIZE);
	}
	start.damaged = state == HEADER_DAMAGED;
	if ((state == HEADER_GOOD || state == HEADER_DAMAGED) && !walk_segment(w, &start))
	{
		fail(error, errno, "could not read segment", path);
		state = HEADER_FAILED;
	}
	if (state == HEADER_FAILED)
		close(w->fd);
	return state;
}

/* The highest segment number in the stream's folder below limit; 0 when there is none. */
static bool
find_last_segment(const StenoStream *stream, uint64_t limit, uint64_t *last, StenoError *error)
{
	DIR		   *dir = opendir(stream->directory);
	struct dirent *entry;

	*last = 0;
	if (dir == NULL)
		return fail(error, errno, "could not open folder", stream->directory);
	errno = 0;
	while ((entry = readdir(dir)) != NULL)
	{
		const char *name = entry->d_name;
		uint64_t	n;

		if (strspn(name, "0123456789") != 10 ||
			strcmp(name + 10, ".steno") != 0)
			continue;
		n = strtoull(name, NULL, 10);
		if (n > *last && n < limit)
			*last = n;
	}
	if (errno != 0)
	{
		fail(error, errno, "could not read folder", stream->directory);
		closedir(dir);
		return false;
	}
	closedir(dir);
	return true;
}

/* Take where the stream stands from a walk, if the walk knows. */
static bool
take_state(StenoStream *stream, const Walk *w)
{
	if (!w->anchored)
		return false;
	stream->next_block = w->next_block;
	stream->next_record = w->next_record;
	memcpy(stream->chain, w->hash, STENO_HASH_SIZE);
	return true;
}

/*
 * Where the stream stands before a segment that does not tell: the end of the
 * nearest one before it that does.
 */
static bool
state_before(StenoStream *stream, uint64_t segment, StenoError *error)
{
	Walk		w;
	StenoSegmentHeader h;
	bool		known = false;

	while (!known && segment > 1)
	{
		uint64_t	before;

		if (!find_last_segment(stream, segment, &before, error))
			return false;
		if (before == 0)
			return fail_segment(error, 0, "no segment before it tells where the stream stands", stream);
		if (read_segment(stream, before, &w, &h, error) == HEADER_FAILED)
			return false;
		known = take_state(stream, &w);
		close(w.fd);
		segment = before;
	}
	if (known)
		return true;
	stream->next_block = 1;
	stream->next_record = 1;
	memset(stream->chain, 0, STENO_HASH_SIZE);
	return true;
}

/* ---- beginning a segment ---- */

static void
mark_synced(StenoStream *stream)
{
	stream->dirty = false;
	stream->doubtful = false;
	stream->synced = stream->offset;
	stream->synced_block = stream->next_block;
}

/*
 * Write the header of stream->segment into stream->fd, an empty file; the chain
 * then goes on from the header.  stream->chain is the last block's hash.
 */
static bool
write_header(StenoStream *stream, int64_t now, StenoError *error)
{
	StenoSegmentHeader h = {0};
	uint8_t		bytes[STENO_SEGMENT_HEADER_ENCRYPTED];

	h.version = STENO_FORMAT_VERSION;
	steno_crypt_describe(stream->crypt, &h);
	h.system_identifier = stream->system_identifier;
	h.stream = stream->number;
	h.server_version = stream->server_version;
	h.segment = stream->segment;
	h.created = now;
	h.first_block = stream->next_block;
	h.first_record = stream->next_record;
	memcpy(h.previous, stream->chain, STENO_HASH_SIZE);
	steno_segment_header_write(bytes, &h);
	if (!steno_crypt_begin(stream->crypt, bytes))
		return fail_segment(error, 0, "could not make a data key for segment", stream);
	if (!write_at(stream->fd, bytes, h.length, 0))
		return fail_segment(error, errno, "could not write segment", stream);
	if (fsync(stream->fd) != 0)
		return fail_segment(error, errno, "could not sync segment", stream);
	if (sync_directory(stream->directory) != 0)
		return fail(error, errno, "could not sync folder", stream->directory);
	SHA256(bytes, h.length, stream->chain);
	steno_crypt_begun(stream->crypt);
	stream->created = now;
	stream->header = h.length;
	stream->offset = h.length;
	stream->room = h.length;
	mark_synced(stream);
	return true;
}

/* Make stream->segment; on failure there is no such file. */
static bool
begin_segment(StenoStream *stream, int64_t now, StenoError *error)
{
	char		path[1100];

	segment_path(path, sizeof(path), stream->directory, stream->segment);
	stream->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, stream->file_mode);
	if (stream->fd < 0)
		return fail(error, errno, "could not create segment", path);
	/* the umask must not narrow what was asked for, such as group access */
	if (fchmod(stream->fd, stream->file_mode) != 0)
		fail(error, errno, "could not set mode of segment", path);
	else if (write_header(stream, now, error))
		return true;
	close(stream->fd);
	stream->fd = -1;
	unlink(path);
	return false;
}

static bool
make_folder(const char *path, const char *parent, StenoError *error)
{
	if (mkdir(path, 0700) != 0)
	{
		if (errno == EEXIST)
			return true;
		return fail(error, errno, "could not create folder", path);
	}
	if (sync_directory(parent) != 0)
		return fail(error, errno, "could not sync folder", parent);
	return true;
}

static bool
make_folders(const char *trail, const char *directory, StenoError *error)
{
	char		parent[1024];
	char	   *slash;

	snprintf(parent, sizeof(parent), "%s", trail);
	slash = strrchr(parent, '/');
	if (slash == NULL)
		strcpy(parent, ".");
	else
		slash[slash == parent ? 1 : 0] = '\0';
	return make_folder(trail, parent, error) && make_folder(directory, trail, error);
}

/* ---- opening ---- */

/* Go on in a segment whose blocks are whole up to w->end. */
static bool
continue_segment(StenoStream *stream, const Walk *w, const StenoSegmentHeader *h,
				 StenoFound *found, StenoError *error)
{
	uint8_t		bytes[STENO_SEGMENT_HEADER_ENCRYPTED];

	stream->fd = w->fd;
	stream->header = h->length;
	stream->offset = w->end;
	stream->room = w->end;
	stream->created = h->created;
	take_state(stream, w);
	if (w->last == 0)
	{
		if (!read_at(stream->fd, bytes, h->length, 0))
			return fail_segment(error, errno, "could not read segment", stream);
		SHA256(bytes, h->length, stream->chain);
	}
	if (w->size > w->end)
	{
		uint64_t	torn;

		if (!find_content_end(w, w->end, &torn))
			return fail_segment(error, errno, "could not read segment", stream);
		found->torn_bytes = torn - w->end;
		if (ftruncate(stream->fd, (off_t) w->end) != 0)
			return fail_segment(error, errno, "could not truncate segment", stream);
	}
	/* what is built upon must be there after the next crash */
	if (fsync(stream->fd) != 0)
		return fail_segment(error, errno, "could not sync segment", stream);
	mark_synced(stream);
	return true;
}

/* The header never reached the disk: nothing can stand behind it. */
static bool
restart_segment(StenoStream *stream, const Walk *w, int64_t now, StenoFound *found, StenoError *error)
{
	stream->fd = w->fd;
	found->torn_bytes = w->size;
	if (!state_before(stream, stream->segment, error))
		return false;
	if (ftruncate(stream->fd, 0) != 0)
		return fail_segment(error, errno, "could not truncate segment", stream);
	return write_header(stream, now, error);
}

static bool
leave_damaged(StenoStream *stream, const Walk *w, int64_t now, StenoFound *found, StenoError *error)
{
	close(w->fd);
	found->damaged = true;
	found->damaged_offset = w->damaged_offset;
	if (!take_state(stream, w) && !state_before(stream, stream->segment, error))
		return false;
	stream->segment++;
	return begin_segment(stream, now, error);
}

static bool
open_last(StenoStream *stream, int64_t now, StenoFound *found, StenoError *error)
{
	Walk		w;
	StenoSegmentHeader h;
	bool		ok = false;

	switch (read_segment(stream, stream->segment, &w, &h, error))
	{
		case HEADER_FAILED:
			return false;
		case HEADER_UNWRITTEN:
			ok = restart_segment(stream, &w, now, found, error);
			break;
		case HEADER_DAMAGED:
			return leave_damaged(stream, &w, now, found, error);
		case HEADER_GOOD:
			if (w.damaged)
				return leave_damaged(stream, &w, now, found, error);
			ok = continue_segment(stream, &w, &h, found, error);
			if (ok && (h.flags & STENO_SEGMENT_ENCRYPTED || steno_crypt_has_key(stream->crypt)))
				ok = steno_stream_rotate(stream, now, error);
			break;
	}
	if (!ok)
	{
		close(w.fd);
		stream->fd = -1;
	}
	return ok;
}

bool
steno_stream_open(StenoStream *stream, const char *trail, uint32_t number,
				  uint64_t system_identifier, uint32_t server_version,
				  mode_t file_mode, int64_t now, StenoFound *found,
				  StenoError *error)
{
	return steno_stream_open_crypt(stream, trail, number, system_identifier, server_version,
								   file_mode, NULL, now, found, error);
}

bool
steno_stream_open_crypt(StenoStream *stream, const char *trail, uint32_t number,
						uint64_t system_identifier, uint32_t server_version,
						mode_t file_mode, StenoCrypt *crypt, int64_t now,
						StenoFound *found, StenoError *error)
{
	int			n;

	memset(stream, 0, sizeof(*stream));
	memset(found, 0, sizeof(*found));
	memset(error, 0, sizeof(*error));
	stream->fd = -1;
	stream->number = number;
	stream->system_identifier = system_identifier;
	stream->server_version = server_version;
	stream->file_mode = file_mode;
	stream->crypt = crypt;
	steno_crypt_forget(crypt);
	n = snprintf(stream->directory, sizeof(stream->directory), "%s/%u", trail, number);
	if (n < 0 || (size_t) n >= sizeof(stream->directory))
		return fail(error, ENAMETOOLONG, "could not open stream", trail);
	if (!make_folders(trail, stream->directory, error) ||
		!find_last_segment(stream, UINT64_MAX, &stream->segment, error))
		return false;
	if (stream->segment > 0)
		return open_last(stream, now, found, error);
	stream->segment = 1;
	stream->next_block = 1;
	stream->next_record = 1;
	return begin_segment(stream, now, error);
}

/* ---- writing ---- */

/* The file ends where the blocks do. */
static bool
cut_room(StenoStream *stream)
{
	while (ftruncate(stream->fd, (off_t) stream->offset) != 0)
		if (errno != EINTR)
			return false;
	stream->room = stream->offset;
	return true;
}

void
steno_stream_make_room(StenoStream *stream, size_t len)
{
	static const uint8_t zeros[64 * 1024];
	uint64_t	end = stream->offset + len;

	/* after a failed sync, nobody knows what the disk has of it */
	if (end <= stream->room || stream->doubtful)
		return;
	end += ROOM - end % ROOM;
	while (stream->room < end)
	{
		uint64_t	n = end - stream->room < sizeof(zeros) ? end - stream->room : sizeof(zeros);

		if (!write_at(stream->fd, zeros, n, stream->room))
		{
			/* the block may still fit; else its write says what is the matter */
			(void) cut_room(stream);
			return;
		}
		stream->room += n;
	}
	stream->dirty = true;
}

bool
steno_stream_append(StenoStream *stream, const uint8_t *bytes, size_t len,
					uint32_t records, const uint8_t chain[STENO_HASH_SIZE],
					StenoError *error)
{
	if (((bytes[STENO_BLOCK_FLAGS] & STENO_BLOCK_ENCRYPTED) != 0) != steno_crypt_active(stream->crypt))
		return fail_segment(error, 0, "block and segment are not both encrypted: segment", stream);
	if (!write_at(stream->fd, bytes, len, stream->offset))
	{
		int			number = errno;

		/*
		 * Readers follow the file: they should not find half a block.  If
		 * this fails too, the repeated call writes over it.
		 */
		cut_room(stream);
		return fail_segment(error, number, "could not write segment", stream);
	}
	stream->offset += len;
	if (stream->room < stream->offset)
		stream->room = stream->offset;
	stream->next_block++;
	stream->next_record += records;
	memcpy(stream->chain, chain, STENO_HASH_SIZE);
	stream->dirty = true;
	return true;
}

/* One whole block, written again as it reads now. */
static bool
write_block_again(const StenoStream *stream, uint64_t offset, size_t len, StenoError *error)
{
	uint8_t    *bytes = malloc(len);
	bool		ok = false;

	if (bytes == NULL)
		fail_segment(error, ENOMEM, "could not read segment", stream);
	else if (!read_at(stream->fd, bytes, len, offset))
		fail_segment(error, errno, "could not read segment", stream);
	else if (!write_at(stream->fd, bytes, len, offset))
		fail_segment(error, errno, "could not write segment", stream);
	else
		ok = true;
	free(bytes);
	return ok;
}

/*
 * After a sync that failed, the kernel may call pages clean that the disk does not
 * have; it reports that once, so that another sync alone would succeed and mean
 * nothing.  Write what is in doubt again, as the file reads now: that makes its
 * pages dirty.  Blocks that do not read as they were written are lost.
 */
static bool
write_again(StenoStream *stream, StenoError *error)
{
	Walk		w = {.fd = stream->fd, .size = stream->offset};
	StenoLost	lost = {0};
	uint64_t	offset = stream->synced;
	uint64_t	block = stream->synced_block;

	if (stream->room > stream->offset && !cut_room(stream))
		return fail_segment(error, errno, "could not truncate segment", stream);
	while (offset < stream->offset)
	{
		uint8_t		bytes[STENO_BLOCK_HEADER];
		StenoBlockHeader h;

		if (stream->offset - offset >= STENO_BLOCK_HEADER &&
			read_at(stream->fd, bytes, sizeof(bytes), offset) &&
			steno_block_header_read(bytes, &h) && h.block >= block &&
			h.stored <= stream->offset - offset - STENO_BLOCK_HEADER &&
			check_payload(stream->fd, offset, &h) == PAYLOAD_GOOD)
		{
			if (!write_block_again(stream, offset, STENO_BLOCK_HEADER + h.stored, error))
				return false;
			lost.count += h.block - block;
			if (h.block > block)
				lost.last = h.block - 1;
			block = h.block + 1;
			offset += STENO_BLOCK_HEADER + h.stored;
			continue;
		}
		if (lost.first == 0)
		{
			lost.first = block;
			lost.offset = offset;
		}
		offset = find_block(&w, offset + 1);
	}
	if (block < stream->next_block)
	{
		lost.count += stream->next_block - block;
		lost.last = stream->next_block - 1;
	}
	stream->lost = lost;
	return true;
}

bool
steno_stream_sync(StenoStream *stream, StenoError *error)
{
	if (!stream->dirty)
		return true;
	if (stream->doubtful && !write_again(stream, error))
		return false;
	while (fdatasync(stream->fd) != 0)
	{
		if (errno == EINTR)
			continue;
		stream->doubtful = true;
		return fail_segment(error, errno, "could not sync segment", stream);
	}
	mark_synced(stream);
	return true;
}

/*
 * The hash of the last block.  A segment without blocks has only its header's
 * hash in stream->chain, and the block's in the header itself.
 */
bool
steno_stream_last_hash(const StenoStream *stream, uint8_t hash[STENO_HASH_SIZE])
{
	if (stream->offset > stream->header)
		memcpy(hash, stream->chain, STENO_HASH_SIZE);
	else if (!read_at(stream->fd, hash, STENO_HASH_SIZE, STENO_SEGMENT_PREVIOUS))
		return false;
	return true;
}

/* Nothing but whole blocks, and on disk: so it must be where another segment follows. */
static bool
finish_file(StenoStream *stream, StenoError *error)
{
	if (stream->room > stream->offset)
	{
		if (!cut_room(stream))
			return fail_segment(error, errno, "could not truncate segment", stream);
		stream->dirty = true;
	}
	return steno_stream_sync(stream, error);
}

/* On failure the old segment is still open, and the call can be repeated. */
bool
steno_stream_rotate(StenoStream *stream, int64_t now, StenoError *error)
{
	StenoStream next;

	if (!finish_file(stream, error))
		return false;
	next = *stream;
	if (!steno_stream_last_hash(stream, next.chain))
		return fail_segment(error, errno, "could not read segment", stream);
	next.segment++;
	if (!begin_segment(&next, now, error))
		return false;
	close(stream->fd);
	*stream = next;
	return true;
}

/* ---- a segment that is not in its place ---- */

/*
 * Whether it is where it should be, without a look at its times: who asks for
 * these has the next write change them, and the sync after that write them, too.
 */
static bool
is_kept(const StenoStream *stream, const char *path)
{
#ifdef STATX_INO
	struct statx ours;
	struct statx there;

	return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO, &there) == 0 &&
		statx(stream->fd, "", AT_EMPTY_PATH, STATX_INO, &ours) == 0 &&
		ours.stx_ino == there.stx_ino && ours.stx_dev_major == there.stx_dev_major &&
		ours.stx_dev_minor == there.stx_dev_minor;
#else
	(void) stream;
	(void) path;
	return false;
#endif
}

StenoPlace
steno_stream_place(const StenoStream *stream, StenoError *error)
{
	char		path[1100];
	struct stat ours;
	struct stat there;
	bool		found;

	segment_path(path, sizeof(path), stream->directory, stream->segment);
	if (is_kept(stream, path))
		return STENO_PLACE_KEPT;
	found = lstat(path, &there) == 0;
	if (!found && errno != ENOENT && errno != ENOTDIR)
	{
		fail(error, errno, "could not look for segment", path);
		return STENO_PLACE_UNKNOWN;
	}
	if (fstat(stream->fd, &ours) != 0)
	{
		fail(error, errno, "could not examine segment", path);
		return STENO_PLACE_UNKNOWN;
	}
	if (found && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)
		return STENO_PLACE_KEPT;
	if (found)
		fail(error, EEXIST, "another file has taken the place of segment", path);
	else if (ours.st_nlink == 0)
		fail(error, ENOENT, "somebody has removed segment", path);
	else
		fail(error, ENOENT, "somebody has moved segment", path);
	return ours.st_nlink == 0 && !found ? STENO_PLACE_REMOVED : STENO_PLACE_MOVED;
}

/* Copy the open segment; *readable: it is not its fault if that fails. */
static bool
copy_segment(const StenoStream *stream, int to, bool *readable, const char *path, StenoError *error)
{
	uint8_t		window[64 * 1024];
	uint64_t	at;
	uint64_t	n;

	for (at = 0; at < stream->offset; at += n)
	{
		n = stream->offset - at < sizeof(window) ? stream->offset - at : sizeof(window);
		*readable = read_at(stream->fd, window, n, at);
		if (!*readable)
			return fail_segment(error, errno, "could not read removed segment", stream);
		if (!write_at(to, window, n, at))
			return fail(error, errno, "could not write segment", path);
	}
	if (fsync(to) != 0)
		return fail(error, errno, "could not sync segment", path);
	return true;
}

/* Put the removed segment back: nobody sees a part of it. */
static bool
restore_segment(StenoStream *stream, bool *readable, StenoError *error)
{
	char		path[1100];
	char		copy[1100];
	int			fd;

	*readable = true;
	segment_path(path, sizeof(path), stream->directory, stream->segment);
	snprintf(copy, sizeof(copy), "%s/.restoring", stream->directory);
	fd = open(copy, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, stream->file_mode);
	if (fd < 0)
		return fail(error, errno, "could not create segment", copy);
	if (fchmod(fd, stream->file_mode) != 0)
		fail(error, errno, "could not set mode of segment", copy);
	else if (copy_segment(stream, fd, readable, copy, error))
	{
		if (rename(copy, path) != 0)
			fail(error, errno, "could not create segment", path);
		else if (sync_directory(stream->directory) != 0)
			fail(error, errno, "could not sync folder", stream->directory);
		else
		{
			close(stream->fd);
			stream->fd = fd;
			stream->room = stream->offset;
			/* what a failed sync has put in doubt is still to be checked */
			if (!stream->doubtful)
				mark_synced(stream);
			return true;
		}
	}
	close(fd);
	unlink(copy);
	return false;
}

/* Leave the open segment where it is, and begin the next. */
static bool
begin_elsewhere(StenoStream *stream, int64_t now, StenoError *error)
{
	StenoStream next;
	uint64_t	last;

	/* what cannot be helped is no reason to wait */
	(void) finish_file(stream, error);
	next = *stream;
	if (!steno_stream_last_hash(stream, next.chain))
		return fail_segment(error, errno, "could not read segment", stream);
	if (!find_last_segment(stream, UINT64_MAX, &last, error))
		return false;
	next.segment = (last > stream->segment ? last : stream->segment) + 1;
	if (!begin_segment(&next, now, error))
		return false;
	close(stream->fd);
	*stream = next;
	return true;
}

bool
steno_stream_replace(StenoStream *stream, const char *trail, StenoPlace place,
					 int64_t now, StenoError *error)
{
	bool		readable;

	if (!make_folders(trail, stream->directory, error))
		return false;
	if (place == STENO_PLACE_REMOVED)
	{
		if (restore_segment(stream, &readable, error))
			return true;
		if (readable)
			return false;
	}
	return begin_elsewhere(stream, now, error);
}

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
		snprintf(stream.directory, sizeof(stream.directory), "%s/%u", trail, stream.number);
		if (!find_last_segment(&stream, UINT64_MAX, &last, &error) || last == 0)
			continue;
		segment_path(path, size, stream.directory, last);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0)
			continue;
		found = read_at(fd, bytes, sizeof(bytes), 0) &&
			steno_segment_header_read(bytes, &h) && h.system_identifier != system_identifier;
		close(fd);
	}
	if (found)
		*other = h.system_identifier;
	return found;
}

void
steno_stream_close(StenoStream *stream)
{
	if (stream->fd >= 0)
	{
		/* for the looks of it: zeros mean nothing */
		if (stream->room > stream->offset)
			(void) cut_room(stream);
		close(stream->fd);
	}
	stream->fd = -1;
}

/* ---- recovery ---- */

bool
steno_segment_has_block(const char *trail, uint32_t stream, uint64_t segment,
						uint64_t offset, uint64_t block,
						const uint8_t hash[STENO_HASH_SIZE])
{
	char		directory[1024];
	char		path[1100];
	uint8_t		bytes[STENO_BLOCK_HEADER];
	StenoBlockHeader h;
	struct stat st;
	bool		has;
	int			fd;

	snprintf(directory, sizeof(directory), "%s/%u", trail, stream);
	segment_path(path, sizeof(path), directory, segment);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	has = fstat(fd, &st) == 0 &&
		offset <= (uint64_t) st.st_size &&
		read_at(fd, bytes, sizeof(bytes), offset) &&
		steno_block_header_read(bytes, &h) &&
		h.block == block &&
		memcmp(h.chain, hash, STENO_HASH_SIZE) == 0 &&
		h.stored <= (uint64_t) st.st_size - offset - STENO_BLOCK_HEADER &&
		check_payload(fd, offset, &h) == PAYLOAD_GOOD;
	close(fd);
	return has;
}
