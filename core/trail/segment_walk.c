/*
 * core/trail/segment_walk.c
 *		Reads a segment when its stream is opened: the headers of all blocks, then
 *		the payload of the last one, and the end of the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trail/segment_walk.h"

#define SECTOR 512

/*
 * Fewer zeros than this at the end of a payload may be content: a payload often
 * ends with a zero byte by chance.
 */
#define ZEROS_MIN 16

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

/* Zeros at the end, or a sector of zeros.  after is counted up to ZEROS_MIN. */
bool
steno_has_hole(const uint8_t *bytes, uint64_t offset, uint64_t len, uint64_t after)
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

uint64_t
steno_walk_find_block(const StenoWalk *w, uint64_t from)
{
	uint8_t		window[64 * 1024];
	uint64_t	room = 512;		/* grows: the next block is often close, and this may be called for
								 * many blocks */
	StenoBlockHeader h;

	/* a header begins with letters, so holes cannot contain it */
	while ((from = steno_next_data(w->fd, from, w->size)) + STENO_BLOCK_HEADER <= w->size)
	{
		uint64_t	n = w->size - from < room ? w->size - from : room;
		uint64_t	i;

		if (!steno_read_at(w->fd, window, n, from))
			break;
		for (i = 0; i + STENO_BLOCK_HEADER <= n; i++)
			if (memcmp(window + i, STENO_BLOCK_MAGIC, 4) == 0 &&
				steno_block_header_read(window + i, &h))
				return from + i;
		from += i;
		if (room < sizeof(window))
			room *= 2;
	}
	return w->size;
}

uint64_t
steno_walk_after(const StenoWalk *w, uint64_t block)
{
	uint64_t	after = w->begin;
	uint64_t	offset = w->begin;

	while (offset < w->end && w->end - offset >= STENO_BLOCK_HEADER)
	{
		uint8_t		bytes[STENO_BLOCK_HEADER];
		StenoBlockHeader h;

		/* what cannot be read is not known to be on disk */
		if (!steno_read_at(w->fd, bytes, sizeof(bytes), offset))
			break;
		if (!steno_block_header_read(bytes, &h))
		{
			offset = steno_walk_find_block(w, offset + 1);
			continue;
		}
		offset += STENO_BLOCK_HEADER + h.stored;
		if (h.block <= block)
			after = offset;
	}
	return after < w->end ? after : w->end;
}

static void
note_damage(StenoWalk *w, uint64_t offset)
{
	if (!w->damaged)
		w->damaged_offset = offset;
	w->damaged = true;
}

static bool
ends_with_zeros(const StenoWalk *w)
{
	uint8_t		end[ZEROS_MIN];

	return steno_read_at(w->fd, end, sizeof(end), w->size - sizeof(end)) &&
		all_zeros(end, sizeof(end));
}

/*
 * Handle bytes that should be a block header but are not; returns the offset to
 * continue at.  If no block follows, and part of these bytes or the end of the file
 * was never written, they are left from an unfinished write.  Otherwise they are
 * damage.
 */
static uint64_t
skip_bad_header(StenoWalk *w, uint64_t offset, const uint8_t *bytes)
{
	uint64_t	next = steno_walk_find_block(w, offset + 1);

	if (next == w->size &&
		(steno_has_hole(bytes, offset, STENO_BLOCK_HEADER, 0) || ends_with_zeros(w)))
		return next;
	note_damage(w, offset);
	return next;
}

static void
accept_block(StenoWalk *w, uint64_t offset, const StenoBlockHeader *h)
{
	if (w->anchored && (h->block != w->next_block || h->first_record != w->next_record))
		note_damage(w, offset);
	/* a block that is out of order must not make used numbers available again */
	if (!w->anchored || h->block >= w->next_block)
	{
		w->next_block = h->block + 1;
		w->next_record = h->first_record + h->records;
		memcpy(w->hash, h->chain, STENO_HASH_SIZE);
	}
	w->anchored = true;
	steno_range_add(&w->times, h);
	w->last = offset;
	w->last_header = *h;
	w->end = offset + STENO_BLOCK_HEADER + h->stored;
}

typedef enum
{
	PAYLOAD_GOOD,
	PAYLOAD_TORN,
	PAYLOAD_DAMAGED,
	PAYLOAD_UNREADABLE
} PayloadState;

/* ZEROS_MIN if there are that many zeros at the offset, otherwise 0. */
static uint64_t
zeros_at(int fd, uint64_t offset)
{
	uint8_t		bytes[ZEROS_MIN];

	return steno_read_at(fd, bytes, sizeof(bytes), offset) && all_zeros(bytes, sizeof(bytes)) ? ZEROS_MIN : 0;
}

static PayloadState
check_payload(int fd, uint64_t offset, const StenoBlockHeader *h)
{
	uint8_t    *payload = malloc((size_t) h->stored + 1);
	PayloadState state = PAYLOAD_DAMAGED;

	offset += STENO_BLOCK_HEADER;
	if (payload == NULL || !steno_read_at(fd, payload, h->stored, offset))
		state = PAYLOAD_UNREADABLE;
	else if (XXH64(payload, h->stored, 0) == h->payload_sum)
		state = PAYLOAD_GOOD;
	else if (steno_has_hole(payload, offset, h->stored, zeros_at(fd, offset + h->stored)))
		state = PAYLOAD_TORN;
	free(payload);
	return state;
}

bool
steno_payload_is_good(int fd, uint64_t offset, const StenoBlockHeader *h)
{
	return check_payload(fd, offset, h) == PAYLOAD_GOOD;
}

/* How much is hashed to find blocks inside shortened ones, in sizes of the file: forgeries must not slow a start. */
#define SEARCH_MOST 4

/*
 * If bytes are missing from a block, the next one begins before it seems to end: where one with the next number and a
 * good payload begins, between two offsets; w->size if there is none.
 */
static uint64_t
find_inner(StenoWalk *w, uint64_t from, uint64_t to, uint64_t number)
{
	uint8_t		bytes[STENO_BLOCK_HEADER];
	StenoBlockHeader h;

	while ((from = steno_walk_find_block(w, from + 1)) < to)
	{
		if (!steno_read_at(w->fd, bytes, sizeof(bytes), from) || !steno_block_header_read(bytes, &h) ||
			h.block != number || h.stored > w->size - from - STENO_BLOCK_HEADER)
			continue;
		w->searched += h.stored;
		if (w->searched > SEARCH_MOST * w->size)
			break;
		if (steno_payload_is_good(w->fd, from, &h))
			return from;
	}
	return w->size;
}

/*
 * The last block that was accepted has been shortened if its payload is not good, and the next one begins inside it:
 * then it is damaged, and the walk continues at that one.
 */
static bool
is_shortened(StenoWalk *w, uint64_t *offset)
{
	uint64_t	inner;

	if (w->last == 0 || w->end != *offset || steno_payload_is_good(w->fd, w->last, &w->last_header))
		return false;
	inner = find_inner(w, w->last, w->end, w->last_header.block + 1);
	if (inner == w->size)
		return false;
	note_damage(w, w->last);
	*offset = inner;
	return true;
}

/*
 * The offsets of every stride-th block that a walk has accepted.  stride grows with
 * the number of blocks, so that any number of them fits.
 */
#define MARKS 1024

typedef struct Marks
{
	uint64_t	offsets[MARKS];
	uint32_t	count;
	uint64_t	stride;
	uint64_t	blocks;			/* accepted so far */
} Marks;

static void
add_mark(Marks *m, uint64_t offset)
{
	uint32_t	i;

	if (m->blocks++ % m->stride != 0)
		return;
	if (m->count == MARKS)
	{
		/* drop every other one; the number of the new one is a multiple of both strides */
		for (i = 0; i < MARKS / 2; i++)
			m->offsets[i] = m->offsets[2 * i];
		m->count = MARKS / 2;
		m->stride *= 2;
	}
	m->offsets[m->count++] = offset;
}

/*
 * Walk the block headers up to limit, and mark the blocks; false if a read fails.
 * The bytes after w->end are torn.
 */
static bool
walk_blocks(StenoWalk *w, uint64_t limit, Marks *marks)
{
	uint64_t	offset = w->begin;
	uint8_t		bytes[STENO_BLOCK_HEADER];
	StenoBlockHeader h;

	marks->count = 0;
	marks->stride = 1;
	marks->blocks = 0;
	w->last = 0;
	w->end = w->begin;
	for (;;)
	{
		if (offset > limit || limit - offset < STENO_BLOCK_HEADER)
		{
			if (is_shortened(w, &offset))
				continue;
			break;
		}
		if (!steno_read_at(w->fd, bytes, sizeof(bytes), offset))
			return false;
		if (!steno_block_header_read(bytes, &h))
		{
			if (!is_shortened(w, &offset))
				offset = skip_bad_header(w, offset, bytes);
			continue;
		}
		if (h.stored > limit - offset - STENO_BLOCK_HEADER)
		{
			uint64_t	inner = find_inner(w, offset, limit, h.block + 1);

			if (inner == w->size)
				break;
			note_damage(w, offset);
			offset = inner;
			continue;
		}
		accept_block(w, offset, &h);
		add_mark(marks, offset);
		offset = w->end;
	}
	return true;
}

/*
 * Check the payloads of the blocks between two offsets, which are block boundaries.
 * *torn is where the run of torn blocks after them begins; if that run begins in
 * these blocks, *torn is set to its beginning.  Returns true if one of the blocks
 * is not torn, so that the run cannot begin before it.
 */
static bool
find_torn_run(const StenoWalk *w, uint64_t from, uint64_t to, uint64_t *torn)
{
	uint64_t	after = *torn;	/* the run that begins after these blocks */
	bool		found = false;
	bool		in_run = false;
	uint8_t		bytes[STENO_BLOCK_HEADER];
	StenoBlockHeader h;

	while (from < to && to - from >= STENO_BLOCK_HEADER)
	{
		/* the walk that follows reports the read error */
		if (!steno_read_at(w->fd, bytes, sizeof(bytes), from))
			return true;
		if (!steno_block_header_read(bytes, &h))
		{
			from = steno_walk_find_block(w, from + 1);
			continue;
		}
		if (h.stored > to - from - STENO_BLOCK_HEADER)
			break;
		if (check_payload(w->fd, from, &h) != PAYLOAD_TORN)
		{
			found = true;
			in_run = false;
			*torn = after;
		}
		else if (!in_run)
		{
			in_run = true;
			*torn = from;
		}
		from += STENO_BLOCK_HEADER + h.stored;
	}
	return found;
}

/*
 * Where the run of torn blocks at the end of a segment begins; w->last is the last
 * of them.  The search goes back from mark to mark, so that each header and payload
 * is read once, however many blocks are torn.
 */
static uint64_t
find_torn_end(const StenoWalk *w, const Marks *marks)
{
	uint64_t	torn = w->last;
	uint64_t	to = w->last;
	uint32_t	i = marks->count;

	while (i-- > 0)
	{
		if (find_torn_run(w, marks->offsets[i], to, &torn))
			break;
		to = marks->offsets[i];
	}
	return torn;
}

/*
 * Walk the blocks, and leave out torn ones at the end until the last one is whole:
 * after a crash of the machine, several blocks that had not been synced can have
 * holes.  The work must be proportional to the size of the file, whatever it
 * contains, because the start of the server waits for it.
 */
static bool
walk_segment(StenoWalk *w, const StenoWalk *start)
{
	uint64_t	limit = w->size;
	Marks		marks;

	for (;;)
	{
		PayloadState state;

		w->anchored = start->anchored;
		w->next_block = start->next_block;
		w->next_record = start->next_record;
		memcpy(w->hash, start->hash, STENO_HASH_SIZE);
		w->times = STENO_RANGE_NONE;
		w->damaged = start->damaged;
		w->damaged_offset = start->damaged_offset;
		if (!walk_blocks(w, limit, &marks))
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
		/* the next walk is the last one, unless the file changes meanwhile */
		limit = find_torn_end(w, &marks);
	}
}

bool
steno_walk_content_end(const StenoWalk *w, uint64_t *end)
{
	uint8_t		window[64 * 1024];
	uint64_t	at;

	*end = w->end;
	for (at = steno_next_data(w->fd, w->end, w->size); at < w->size; at = steno_next_data(w->fd, at, w->size))
	{
		uint64_t	n = w->size - at < sizeof(window) ? w->size - at : sizeof(window);
		uint64_t	i = n;

		if (!steno_read_at(w->fd, window, n, at))
			return false;
		while (i > 0 && window[i - 1] == 0)
			i--;
		if (i > 0)
			*end = at + i;
		at += n;
	}
	if (*end > w->end && w->size - *end < ZEROS_MIN)
		*end = w->size;
	return true;
}

/* ---- header and blocks ---- */

static bool
file_is_zeros(int fd, uint64_t size)
{
	uint8_t		window[64 * 1024];
	uint64_t	at;

	for (at = steno_next_data(fd, 0, size); at < size; at = steno_next_data(fd, at + sizeof(window), size))
	{
		uint64_t	n = size - at < sizeof(window) ? size - at : sizeof(window);

		if (!steno_read_at(fd, window, n, at) || !all_zeros(window, n))
			return false;
	}
	return true;
}

/*
 * Whether this stream may continue after a segment with this header; if not,
 * opening the stream fails and the file is left unchanged.
 */
static bool
is_our_segment(const StenoStream *stream, const uint8_t *bytes, const StenoSegmentHeader *h,
	   bool whole, const char *path, StenoError *error)
{
	if (memcmp(bytes, STENO_SEGMENT_MAGIC, 8) != 0)
		return true;
	if (h->version > STENO_FORMAT_VERSION && (whole || h->length != STENO_SEGMENT_HEADER))
		return steno_failed(error, 0, "segment has a newer format version", path);
	if (!whole)
		return true;
	if (h->flags & ~STENO_SEGMENT_ENCRYPTED)
		return steno_failed(error, 0, "segment has unknown flags", path);
	if (h->system_identifier != stream->system_identifier)
		return steno_failed(error, 0, "segment belongs to another database cluster", path);
	return true;
}

static StenoHeaderState
check_segment_header(const StenoStream *stream, uint64_t segment, int fd, uint64_t size,
			StenoSegmentHeader *h, const char *path, StenoError *error)
{
	uint8_t		bytes[STENO_SEGMENT_HEADER_ENCRYPTED];
	bool		whole;

	if (size < STENO_SEGMENT_HEADER || file_is_zeros(fd, size))
		return STENO_HEADER_UNWRITTEN;
	if (!steno_read_at(fd, bytes, size < sizeof(bytes) ? size : sizeof(bytes), 0))
	{
		steno_failed(error, errno, "could not read segment", path);
		return STENO_HEADER_FAILED;
	}
	whole = steno_segment_header_read(bytes, h);
	if (!is_our_segment(stream, bytes, h, whole, path, error))
		return STENO_HEADER_FAILED;
	if (!whole || h->version != STENO_FORMAT_VERSION ||
		h->length != steno_segment_header_length(h->flags) ||
		h->stream != stream->number || h->segment != segment)
		return STENO_HEADER_DAMAGED;
	if (size < h->length)
		return STENO_HEADER_UNWRITTEN;
	if (h->length > STENO_SEGMENT_HEADER && !steno_segment_key_whole(bytes))
		return STENO_HEADER_DAMAGED;
	return STENO_HEADER_GOOD;
}

StenoHeaderState
steno_segment_walk(const StenoStream *stream, uint64_t segment, StenoWalk *w,
				   StenoSegmentHeader *h, StenoError *error)
{
	char		path[1100];
	struct stat st;
	StenoHeaderState state = STENO_HEADER_FAILED;
	StenoWalk		start = {0};

	memset(w, 0, sizeof(*w));
	memset(h, 0, sizeof(*h));
	steno_segment_path(path, sizeof(path), stream->directory, segment);
	w->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (w->fd < 0)
	{
		steno_failed(error, errno, "could not open segment", path);
		return STENO_HEADER_FAILED;
	}
	if (fstat(w->fd, &st) != 0)
		steno_failed(error, errno, "could not examine segment", path);
	else
	{
		w->size = (uint64_t) st.st_size;
		state = check_segment_header(stream, segment, w->fd, w->size, h, path, error);
	}
	w->begin = state == STENO_HEADER_GOOD ? h->length : STENO_SEGMENT_HEADER;
	if (state == STENO_HEADER_GOOD)
	{
		start.anchored = true;
		start.next_block = w->first_block = h->first_block;
		start.next_record = h->first_record;
		memcpy(start.hash, h->previous, STENO_HASH_SIZE);
	}
	start.damaged = state == STENO_HEADER_DAMAGED;
	if ((state == STENO_HEADER_GOOD || state == STENO_HEADER_DAMAGED) && !walk_segment(w, &start))
	{
		steno_failed(error, errno, "could not read segment", path);
		state = STENO_HEADER_FAILED;
	}
	if (state == STENO_HEADER_FAILED)
		close(w->fd);
	return state;
}
