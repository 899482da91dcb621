/*
 * core/trail/segment_walk.h
 *		The contents of a segment that was written earlier: its header, its blocks,
 *		and whether the rest is torn or damaged.
 *
 * Torn: the file ends with what a write that a crash interrupted has left, a part
 * of a block or zeros, which was never durable.  Damaged: anything else that is not
 * a whole block, which is evidence.  Zeros after the last block are neither, but
 * preallocated space.
 */
#ifndef STENO_SEGMENT_WALK_H
#define STENO_SEGMENT_WALK_H

#include "header.h"
#include "trail/segment.h"

/* What a walk of the blocks of a segment has found. */
typedef struct StenoWalk
{
	int			fd;
	uint64_t	size;			/* of the file */
	uint64_t	begin;			/* offset of the first block */
	uint64_t	first_block;	/* its number by the header; 0: not known */
	bool		anchored;		/* next_block and next_record are known */
	uint64_t	next_block;
	uint64_t	next_record;
	uint8_t		hash[STENO_HASH_SIZE];	/* chain hash of the last block */
	StenoTimeRange	times;			/* of the records in the blocks */
	uint64_t	last;			/* offset of the last block; 0: none */
	StenoBlockHeader last_header;
	uint64_t	end;			/* end of the last block; the rest is torn, or preallocated space */
	bool		damaged;
	uint64_t	damaged_offset;
	uint64_t	searched;		/* bytes of payloads that were hashed to find blocks inside others */
} StenoWalk;

typedef enum StenoHeaderState
{
	STENO_HEADER_GOOD,
	STENO_HEADER_UNWRITTEN,		/* shorter than a header, or all zeros */
	STENO_HEADER_DAMAGED,
	STENO_HEADER_FAILED			/* cannot be read, or not continued */
} StenoHeaderState;

/*
 * Read a segment of the stream into *w and *h.  w->fd remains open unless the
 * result is STENO_HEADER_FAILED.
 */
extern StenoHeaderState steno_segment_walk(const StenoStream *stream, uint64_t segment,
										   StenoWalk *w, StenoSegmentHeader *h,
										   StenoError *error);

/*
 * *last is the highest segment number in the stream's folder below limit, and at
 * most STENO_SEGMENT_MAX; 0 if there is none.
 */
extern bool steno_segment_find_last(const StenoStream *stream, uint64_t limit, uint64_t *last,
									StenoError *error);

/*
 * *end is where the written bytes after w->end are followed only by zeros; the end
 * of the file if these are so few that they may have been written.
 */
extern bool steno_walk_content_end(const StenoWalk *w, uint64_t *end);

/* The offset of the next valid block header, or w->size if there is none. */
extern uint64_t steno_walk_find_block(const StenoWalk *w, uint64_t from);

/*
 * The offset after the last block whose number is not above this one; w->begin if
 * there is none.
 */
extern uint64_t steno_walk_after(const StenoWalk *w, uint64_t block);

/* Whether the checksum of the payload of the block at offset, which has this header, is correct. */
extern bool steno_payload_is_good(int fd, uint64_t offset, const StenoBlockHeader *h);

/* ---- reading a segment that may be open ---- */

/*
 * Reads the headers of a segment's blocks, one after the other; the caller opens and closes the
 * file, and reads what it wants of the payloads.  The file may grow meanwhile.
 */
typedef struct StenoSegmentReader
{
	int			fd;
	uint64_t	size;			/* of the file when it was opened */
	bool		last;			/* no segment follows: a torn end may be a write that is going on */
	uint64_t	offset;			/* where the next block begins */
	uint64_t	block;			/* number of the block before; 0: not known */
	uint64_t	hashed;			/* bytes of payloads that were hashed to find blocks behind damage */
	uint64_t	base;			/* offset of window */
	uint32_t	filled;			/* bytes in window */
	uint8_t		window[4096];
} StenoSegmentReader;

typedef enum StenoNext
{
	STENO_NEXT_BLOCK,
	STENO_NEXT_DAMAGED,			/* between offset and reader->offset, no block can be read */
	STENO_NEXT_END
} StenoNext;

extern void steno_segment_read(StenoSegmentReader *reader, int fd, uint64_t size, uint64_t begin, bool last);
extern StenoNext steno_segment_next(StenoSegmentReader *reader, uint64_t *offset, StenoBlockHeader *h);

/* Whether bytes have a part that was never written, with after zeros that follow in the file. */
extern bool steno_has_hole(const uint8_t *bytes, uint64_t offset, uint64_t len, uint64_t after);

#endif							/* STENO_SEGMENT_WALK_H */
