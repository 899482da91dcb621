/*
 * core/trail/segment_walk.h
 *		What a segment that was written earlier has: its header, its blocks, and
 *		whether what follows them is torn or damaged.
 *
 * Torn: the file ends with what a write that a crash cut short leaves behind, a
 * part of a block or zeros; that was never durable.  Damaged: anything else that
 * is not a whole block; that is evidence.  Zeros after the last block are neither:
 * they are room that was made for blocks to come.
 */
#ifndef STENO_SEGMENT_WALK_H
#define STENO_SEGMENT_WALK_H

#include "header.h"
#include "trail/segment.h"

/* What walking the blocks of a segment found. */
typedef struct StenoWalk
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
	uint64_t	end;			/* after the last block; the rest is torn, or room */
	bool		damaged;
	uint64_t	damaged_offset;
} StenoWalk;

typedef enum StenoHeaderState
{
	STENO_HEADER_GOOD,
	STENO_HEADER_UNWRITTEN,		/* shorter than a header, or all zeros */
	STENO_HEADER_DAMAGED,
	STENO_HEADER_FAILED			/* cannot be read, or must not be */
} StenoHeaderState;

/*
 * Read a segment of the stream into *w and *h.  w->fd stays open, but when the
 * result is STENO_HEADER_FAILED.
 */
extern StenoHeaderState steno_segment_walk(const StenoStream *stream, uint64_t segment,
										   StenoWalk *w, StenoSegmentHeader *h,
										   StenoError *error);

/*
 * The highest segment number in the stream's folder below limit, up to
 * STENO_SEGMENT_MAX; 0 when there is none.
 */
extern bool steno_segment_find_last(const StenoStream *stream, uint64_t limit, uint64_t *last,
									StenoError *error);

/*
 * Where what was written ends, behind w->end: before zeros, unless they are so few
 * that they can be of it.
 */
extern bool steno_walk_content_end(const StenoWalk *w, uint64_t *end);

/* The next whole block header, or w->size when there is none. */
extern uint64_t steno_walk_find_block(const StenoWalk *w, uint64_t from);

/* Whether the block at offset, with this header, has the payload that was written. */
extern bool steno_payload_is_good(int fd, uint64_t offset, const StenoBlockHeader *h);

#endif							/* STENO_SEGMENT_WALK_H */
