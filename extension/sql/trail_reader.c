/*
 * extension/sql/trail_reader.c
 *		Reads the files of the trail with the decoder of core/.
 *
 * Nothing of them is locked, and their writers notice nothing.  So while they are
 * read, the last segment of a stream grows, others are begun, and retention deletes
 * the first.  One segment after the other is opened, and its blocks are read one
 * after the other.  First the indexes of the segment say which blocks may have wanted
 * records; then the headers of all blocks are read, and the payloads of those that
 * may.  Only one block is in memory, and another one while the parts of a record that
 * stand in earlier blocks are looked for.
 *
 * The decoder allocates with malloc: steno_trail_read frees that in any case.  Files
 * are closed by the end of the transaction if an error occurs.
 */
#include "base/steno.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/qunique.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "header.h"
#include "sql/further.h"
#include "sql/show.h"
#include "sql/trail_reader.h"
#include "trail/file.h"
#include "trail/segment_walk.h"

/* How often to read a block again that may be being written, and the pause in between. */
#define LAST_TRIES 20
#define LAST_PAUSE_US 1000

/* Indexes of a segment that are looked at.  Only one whose server is started again and again has more. */
#define INDEXES 64

/* A block that is in memory. */
typedef struct Loaded
{
	uint8	   *stored;			/* as it is in the file; in the context, which outlives records */
	size_t		room;
	MemoryContext context;
	StenoBlockHeader header;
	StenoBytes	payload;
	uint8_t    *buffer;			/* malloc; NULL: none */
	StenoDecoder decoder;		/* malloc */
} Loaded;

/* A segment that is open. */
typedef struct Segment
{
	int			fd;
	uint64		size;
	uint64		begin;			/* where its blocks begin */
	bool		encrypted;
	bool		last;
	uint64		number;
	char		path[MAXPGPATH];
} Segment;

/* What an index says of its blocks. */
typedef struct Selected
{
	StenoIndexReader index;		/* without its lists */
	StenoGroups groups;
} Selected;

/* A data part in the block that is read. */
typedef struct Part
{
	const uint8 *session;		/* STENO_SESSION_FACTS bytes */
	uint64		seq;
	uint8		part;
	StenoBytes	bytes;
} Part;

typedef struct Reading
{
	const StenoWantedRecords *wanted;
	const char *trail;
	uint32		stream;
	char		folder[MAXPGPATH];	/* of the stream */
	uint64	   *segments;		/* their numbers */
	int			nsegments;
	int			segment;		/* the one that is read, of these */
	Loaded		block;
	Loaded		earlier;		/* in which parts are looked for */
	MemoryContext per_record;
	Part	   *parts;			/* of the block */
	int			nparts;
	int			parts_room;
	Selected   *selected;
	int			nselected;
} Reading;

/* ---- files ---- */

static int
compare_numbers(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

/* The number that is the name of a stream's folder; false: it is another file. */
static bool
stream_of_name(const char *name, uint64 *number)
{
	char		canonical[32];

	*number = strtoul(name, NULL, 10);
	snprintf(canonical, sizeof(canonical), UINT64_FORMAT, *number);
	return strcmp(canonical, name) == 0 && *number <= STENO_STREAM_MAX;
}

static bool
segment_of_name(const char *name, uint64 *number)
{
	*number = steno_segment_of_name(name);
	return *number > 0 && *number <= STENO_SEGMENT_MAX;
}

/* The numbers that names in a folder stand for, in ascending order; *n is their count. */
static uint64 *
list_numbers(const char *path, bool (*of_name) (const char *name, uint64 *number), bool may_be_missing, int *n)
{
	DIR		   *dir = AllocateDir(path);
	struct dirent *entry;
	int			room = 64;
	uint64	   *numbers = palloc(room * sizeof(uint64));

	*n = 0;
	if (dir == NULL && may_be_missing && (errno == ENOENT || errno == ENOTDIR))
		return numbers;
	while ((entry = ReadDir(dir, path)) != NULL)
	{
		uint64		number;

		CHECK_FOR_INTERRUPTS();
		if (!of_name(entry->d_name, &number))
			continue;
		if (*n == room)
		{
			room *= 2;
			numbers = repalloc_huge(numbers, room * sizeof(uint64));
		}
		numbers[(*n)++] = number;
	}
	FreeDir(dir);
	qsort(numbers, *n, sizeof(uint64), compare_numbers);
	*n = (int) qunique(numbers, *n, sizeof(uint64), compare_numbers);
	return numbers;
}

static void
warn_of_damage(const Segment *s, uint64 offset, uint64 end)
{
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("segment \"%s\" of the trail is damaged at offset %llu", s->path, (unsigned long long) offset),
			 errdetail("Records in %llu bytes from there on are missing from the result.", (unsigned long long) (end - offset)),
			 errhint("\"steno verify\" checks the whole trail.")));
}

static void
close_segment(Segment *s)
{
	CloseTransientFile(s->fd);
}

/*
 * Open a segment, by its number in the list.  False if there is nothing to read: it was deleted, it
 * has not been written yet, or it is no file.
 */
static bool
open_segment(const Reading *r, int i, Segment *s)
{
	struct stat st;
	uint8		bytes[STENO_SEGMENT_HEADER_ENCRYPTED] = {0};
	StenoSegmentHeader h;
	size_t		n;

	memset(s, 0, sizeof(*s));
	s->number = r->segments[i];
	s->last = i == r->nsegments - 1;
	steno_segment_path(s->path, sizeof(s->path), r->folder, s->number);
	s->fd = OpenTransientFile(s->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | PG_BINARY);
	if (s->fd < 0)
	{
		bool		deleted = errno == ENOENT;

		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not open segment \"%s\" of the trail: %m", s->path),
				 deleted ? errdetail("It was deleted while the trail was read.") :
				 errdetail("Its records are missing from the result.")));
		return false;
	}
	if (fstat(s->fd, &st) != 0 || !S_ISREG(st.st_mode))
	{
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("segment \"%s\" of the trail is not a regular file", s->path)));
		close_segment(s);
		return false;
	}
	s->size = (uint64) st.st_size;
	n = Min(s->size, sizeof(bytes));
	if (!steno_read_at(s->fd, bytes, n, 0))
		n = 0;
	if (n < STENO_SEGMENT_HEADER || (!steno_segment_header_read(bytes, &h) && bytes[0] == 0 && s->last))
	{
		/* it is being created */
		if (!s->last)
			warn_of_damage(s, 0, s->size);
		close_segment(s);
		return false;
	}
	if (!steno_segment_header_read(bytes, &h) || h.length != steno_segment_header_length(h.flags))
	{
		/* the walk reports the damage, and finds the first block */
		s->begin = 0;
		return true;
	}
	if (h.version != STENO_FORMAT_VERSION || (h.flags & ~STENO_SEGMENT_ENCRYPTED))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("segment \"%s\" of the trail has a newer format", s->path),
				 errhint("Read it with a newer \"steno\".")));
	s->begin = h.length;
	s->encrypted = (h.flags & STENO_SEGMENT_ENCRYPTED) != 0;
	return true;
}

/* ---- blocks ---- */

static void
unload(Loaded *b)
{
	steno_decoder_end(&b->decoder);
	free(b->buffer);
	b->buffer = NULL;
}

/* Read a block; false if it is not whole. */
static bool
load_bytes(Loaded *b, const Segment *s, uint64 offset, uint64 len)
{
	unload(b);
	if (len > STENO_BLOCK_HEADER + STENO_MAX_RAW + STENO_PAYLOAD_EXTRA)
		return false;
	if (b->room < len)
	{
		if (b->stored)
			pfree(b->stored);
		b->stored = NULL;
		b->room = 0;
		b->stored = MemoryContextAlloc(b->context, len);
		b->room = len;
	}
	if (!steno_read_at(s->fd, b->stored, len, offset) ||
		!steno_block_open(b->stored, len, &b->header, &b->payload, &b->buffer))
		return false;
	steno_decoder_begin(&b->decoder, b->payload.p, b->payload.len, b->header.first_time);
	return true;
}

/*
 * Read a block of which the header has been read.  In the last segment of a stream, it may be the
 * one that is being written, and then it is not whole for a moment.
 */
static bool
load_block(Reading *r, const Segment *s, const StenoSegmentReader *reader, uint64 offset)
{
	int			tries = s->last ? LAST_TRIES : 1;

	if (s->encrypted)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("segment \"%s\" of the trail is encrypted", s->path),
				 errdetail("It contains records of the requested time. Only the writers have the key."),
				 errhint("Read it with \"steno cat\".")));
	while (!load_bytes(&r->block, s, offset, reader->offset - offset))
	{
		CHECK_FOR_INTERRUPTS();
		if (--tries == 0)
		{
			warn_of_damage(s, offset, reader->offset);
			return false;
		}
		pg_usleep(LAST_PAUSE_US);
	}
	return true;
}

/* ---- indexes ---- */

/* The body of an index, if that is the only item of a block. */
static bool
index_body(StenoBytes payload, StenoBytes *body)
{
	uint8_t		kind;

	return steno_take_string(&payload, body) && payload.len == 0 &&
		steno_take_byte(body, &kind) && kind == STENO_KIND_DEF_INDEX;
}

/* What the indexes of a segment say.  An index that cannot be read is as good as none. */
static void
read_indexes(Reading *r, const Segment *s)
{
	StenoSegmentReader reader;
	StenoBlockHeader h;
	StenoNext	next;
	uint64_t	offset;

	r->nselected = 0;
	if (r->wanted->select == NULL)
		return;
	steno_segment_read(&reader, s->fd, s->size, s->begin, s->last);
	while ((next = steno_segment_next(&reader, &offset, &h)) != STENO_NEXT_END && r->nselected < INDEXES)
	{
		Selected   *one = &r->selected[r->nselected];
		StenoBytes	body;

		CHECK_FOR_INTERRUPTS();
		if (next != STENO_NEXT_BLOCK || h.records > 0 || h.raw == 0 || h.raw > STENO_INDEX_MAX + 16 ||
			!load_bytes(&r->block, s, offset, reader.offset - offset) || !index_body(r->block.payload, &body) ||
			!steno_index_open(&one->index, body) || one->index.first + one->index.blocks > h.block)
			continue;
		memset(one->groups, 0xff, sizeof(one->groups));
		r->wanted->select(r->wanted->of, &one->index, one->groups);
		one->index.lists.len = 0;
		r->nselected++;
	}
	unload(&r->block);
}

/* Whether a block may have a wanted record. */
static bool
is_wanted(const Reading *r, const StenoBlockHeader *h)
{
	int			i;

	if (h->records == 0 || h->last_end < r->wanted->since || h->first_time >= r->wanted->until)
		return false;
	for (i = 0; i < r->nselected; i++)
		if (!steno_index_may_have(&r->selected[i].index, r->selected[i].groups, h->block))
			return false;
	return true;
}

/* ---- records with data parts ---- */

/* The pieces of a record's strings, the last first, and how many bytes are still missing. */
typedef struct Pieces
{
	uint64		need[STENO_PARTS];
	uint64		found[STENO_PARTS];
	List	   *list[STENO_PARTS];	/* of StenoBytes */
} Pieces;

/* Take the end of a piece, as far as it is needed.  No string is longer than can be shown. */
static void
take_piece(Pieces *p, int part, StenoBytes piece)
{
	StenoBytes *copy;

	if (piece.len > p->need[part])
	{
		piece.p += piece.len - p->need[part];
		piece.len = p->need[part];
	}
	if (piece.len == 0)
		return;
	p->need[part] -= piece.len;
	p->found[part] += piece.len;
	copy = palloc(sizeof(StenoBytes) + piece.len);
	memcpy(copy + 1, piece.p, piece.len);
	copy->p = (uint8 *) (copy + 1);
	copy->len = piece.len;
	p->list[part] = lappend(p->list[part], copy);
}

static bool
is_complete(const Pieces *p)
{
	return p->need[0] == 0 && p->need[1] == 0 && p->need[2] == 0;
}

/* Take pieces from the parts of a record in an earlier block; true if none can be before that block. */
static bool
take_from_block(Reading *r, const StenoTrailRecord *record, Pieces *p)
{
	Loaded	   *b = &r->earlier;
	StenoTrailRecord one;
	StringInfoData bytes[STENO_PARTS];
	bool		preceded = false;
	int			i;

	for (i = 0; i < STENO_PARTS; i++)
		initStringInfo(&bytes[i]);
	while (steno_decoder_next(&b->decoder, &one) == STENO_DECODED_RECORD)
	{
		CHECK_FOR_INTERRUPTS();
		if (memcmp(one.session.p, record->session.p, STENO_SESSION_FACTS) != 0)
			continue;
		if (one.kind == STENO_KIND_DATA && one.seq == record->seq && one.part < STENO_PARTS)
			appendBinaryStringInfo(&bytes[one.part], (const char *) one.values.p, (int) one.values.len);
		preceded |= one.seq != 0 && one.seq < record->seq;
	}
	for (i = 0; i < STENO_PARTS; i++)
	{
		StenoBytes	piece = {(const uint8 *) bytes[i].data, bytes[i].len};

		take_piece(p, i, piece);
		pfree(bytes[i].data);
	}
	return preceded || is_complete(p);
}

/* The offsets of the blocks of a segment before an offset. */
static uint64 *
list_offsets(const Segment *s, uint64 before, int *n)
{
	StenoSegmentReader reader;
	StenoBlockHeader h;
	StenoNext	next;
	uint64_t	offset;
	int			room = 1024;
	uint64	   *offsets = palloc(room * sizeof(uint64));

	*n = 0;
	steno_segment_read(&reader, s->fd, Min(s->size, before), s->begin, true);
	while ((next = steno_segment_next(&reader, &offset, &h)) != STENO_NEXT_END)
	{
		CHECK_FOR_INTERRUPTS();
		if (next != STENO_NEXT_BLOCK)
			continue;
		if (*n == room)
		{
			room *= 2;
			offsets = repalloc_huge(offsets, room * sizeof(uint64));
		}
		offsets[(*n)++] = offset;
	}
	return offsets;
}

/* Look for the parts of a record in the blocks before it, the nearest first. */
static void
find_pieces(Reading *r, const StenoTrailRecord *record, uint64 before, Pieces *p)
{
	bool		done = false;
	int			i;

	for (i = r->segment; i >= 0 && !done; i--)
	{
		Segment		s;
		uint64	   *offsets;
		int			n;

		if (!open_segment(r, i, &s))
			break;
		offsets = list_offsets(&s, i == r->segment ? before : UINT64_MAX, &n);
		while (n-- > 0 && !done)
		{
			uint8		bytes[STENO_BLOCK_HEADER];
			StenoBlockHeader h;

			done = steno_read_at(s.fd, bytes, sizeof(bytes), offsets[n]) && steno_block_header_read(bytes, &h) &&
				load_bytes(&r->earlier, &s, offsets[n], STENO_BLOCK_HEADER + h.stored) && take_from_block(r, record, p);
		}
		pfree(offsets);
		close_segment(&s);
	}
	unload(&r->earlier);
}

/* A string of its pieces and its own end. */
static StenoBytes
join_pieces(Pieces *p, int part, StenoBytes end)
{
	uint8	   *all = palloc(Max(p->found[part] + end.len, 1));
	uint8	   *to = all;
	int			i;

	for (i = list_length(p->list[part]) - 1; i >= 0; i--)
	{
		StenoBytes *piece = list_nth(p->list[part], i);

		memcpy(to, piece->p, piece->len);
		to += piece->len;
		pfree(piece);
	}
	if (end.len > 0)
		memcpy(to, end.p, end.len);
	return (StenoBytes)
	{
		all, p->found[part] + end.len
	};
}

/* Whether there is too much of a string of a record to show it. */
static bool
is_too_long(const StenoTrailRecord *record, int part)
{
	return record->parts[part] > STENO_SHOWN_MAX;
}

/*
 * Complete a record whose parts are in this block and in earlier ones of its stream.  (If the server was
 * restarted with fewer writers while it was recorded, they are in another stream, and not found here.)
 */
static void
join_parts(Reading *r, StenoTrailRecord *record, const Segment *s, uint64 offset)
{
	Pieces		p = {0};
	uint64		missing;
	int			i;

	for (i = 0; i < STENO_PARTS; i++)
		p.need[i] = is_too_long(record, i) ? 0 : record->parts[i];
	for (i = r->nparts - 1; i >= 0; i--)
		if (r->parts[i].seq == record->seq &&
			memcmp(r->parts[i].session, record->session.p, STENO_SESSION_FACTS) == 0)
			take_piece(&p, r->parts[i].part, r->parts[i].bytes);
	if (!is_complete(&p))
		find_pieces(r, record, offset, &p);
	missing = p.need[0] + p.need[1] + p.need[2];
	if (missing > 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a record in segment \"%s\" of the trail, at offset %llu, lacks %llu bytes", s->path,
						(unsigned long long) offset, (unsigned long long) missing),
				 errdetail("They are in blocks that are damaged, or were deleted.")));
	if (is_too_long(record, STENO_PART_TEXT))
		record->mask &= ~STENO_FIELD_TEXT;
	else if (record->parts[STENO_PART_TEXT] > 0)
	{
		record->mask |= STENO_FIELD_TEXT;
		record->text = join_pieces(&p, STENO_PART_TEXT, record->text);
	}
	if (record->parts[STENO_PART_MESSAGE] > 0 && !is_too_long(record, STENO_PART_MESSAGE))
		record->message = join_pieces(&p, STENO_PART_MESSAGE, record->message);
	if (record->parts[STENO_PART_VALUES] == 0)
		return;
	if (p.need[STENO_PART_VALUES] > 0 || is_too_long(record, STENO_PART_VALUES))
	{
		/* without all values, it is not known where the ones that are left begin */
		record->mask &= ~(STENO_FIELD_VALUES | STENO_FIELD_NULLS);
		return;
	}
	record->values = join_pieces(&p, STENO_PART_VALUES, record->values);
	record->mask |= STENO_FIELD_VALUES;
}

/* A data part is kept for its record. */
static void
keep_part(Reading *r, const StenoTrailRecord *part)
{
	if (part->part >= STENO_PARTS)
		return;
	if (r->nparts == r->parts_room)
	{
		r->parts_room *= 2;
		r->parts = repalloc_huge(r->parts, r->parts_room * sizeof(Part));
	}
	r->parts[r->nparts++] = (Part)
	{
		part->session.p, part->seq, part->part, part->values
	};
}

/* ---- the trail ---- */

static void
read_block(Reading *r, const Segment *s, uint64 offset, uint64 end)
{
	StenoRecordPlace place = {r->stream, s->number, r->block.header.block};
	StenoTrailRecord record;
	StenoDecoded result;

	r->nparts = 0;
	r->wanted->begin(r->wanted->of);
	while ((result = steno_decoder_next(&r->block.decoder, &record)) == STENO_DECODED_RECORD)
	{
		MemoryContext before;

		CHECK_FOR_INTERRUPTS();
		if (record.kind == STENO_KIND_DATA)
		{
			keep_part(r, &record);
			continue;
		}
		if (record.time < r->wanted->since || record.time >= r->wanted->until ||
			!r->wanted->guess(r->wanted->of, &record))
			continue;
		before = MemoryContextSwitchTo(r->per_record);
		if (record.mask & STENO_FIELD_PARTS)
			join_parts(r, &record, s, offset);
		steno_further_take(&record);
		r->wanted->take(r->wanted->of, &record, &place);
		MemoryContextSwitchTo(before);
		MemoryContextReset(r->per_record);
	}
	if (result == STENO_DECODED_BAD)
		warn_of_damage(s, offset, end);
}

static void
read_segment(Reading *r, int i)
{
	StenoSegmentReader reader;
	StenoBlockHeader h;
	StenoNext	next;
	uint64_t	offset;
	Segment		s;

	r->segment = i;
	if (!open_segment(r, i, &s))
		return;
	read_indexes(r, &s);
	steno_segment_read(&reader, s.fd, s.size, s.begin, s.last);
	while ((next = steno_segment_next(&reader, &offset, &h)) != STENO_NEXT_END)
	{
		CHECK_FOR_INTERRUPTS();
		if (next == STENO_NEXT_DAMAGED)
			warn_of_damage(&s, offset, reader.offset);
		else if (is_wanted(r, &h) && load_block(r, &s, &reader, offset))
			read_block(r, &s, offset, reader.offset);
	}
	unload(&r->block);
	close_segment(&s);
}

static void
read_stream(Reading *r)
{
	int			i;

	steno_stream_folder(r->folder, sizeof(r->folder), r->trail, r->stream);
	r->segments = list_numbers(r->folder, segment_of_name, true, &r->nsegments);
	for (i = 0; i < r->nsegments; i++)
		read_segment(r, i);
	pfree(r->segments);
}

void
steno_trail_read(const char *trail, const StenoWantedRecords *wanted)
{
	Reading    *r = palloc0(sizeof(Reading));
	uint64	   *streams;
	int			n;
	int			i;

	r->wanted = wanted;
	r->trail = trail;
	r->block.context = r->earlier.context = CurrentMemoryContext;
	r->parts_room = 64;
	r->parts = palloc(r->parts_room * sizeof(Part));
	r->selected = palloc(INDEXES * sizeof(Selected));
	r->per_record = AllocSetContextCreate(CurrentMemoryContext, "pg_steno record of the trail",
										  ALLOCSET_DEFAULT_SIZES);
	streams = list_numbers(trail, stream_of_name, false, &n);
	PG_TRY();
	{
		for (i = 0; i < n; i++)
		{
			r->stream = (uint32) streams[i];
			read_stream(r);
		}
	}
	PG_FINALLY();
	{
		unload(&r->block);
		unload(&r->earlier);
	}
	PG_END_TRY();
	MemoryContextDelete(r->per_record);
}
