/*
 * core/block/index.h
 *		The index of a segment: which of the blocks that a writer has written to it
 *		contain which users, relations, SQLSTATEs and so on.
 *
 * A writer owns one index and sets it in its block builder, which adds to it what
 * the open block contains.  Once the block is in the file, the writer commits that.
 * Before the segment is finished, or the server stops, it writes the index as a
 * block of its own.
 *
 * An index never hides anything: what does not fit is marked as omitted from its
 * blocks, and a reader reads these.  So memory is bounded, and nothing is allocated
 * after creation.
 */
#ifndef STENO_INDEX_H
#define STENO_INDEX_H

#include "ring/message.h"

/* The blocks of an index are counted in at most this many groups of the same number of blocks. */
#define STENO_INDEX_GROUPS 1024

/* A term that is longer is omitted. */
#define STENO_INDEX_TERM_MAX 512

/* Bytes of a group's filter for trigrams: a power of two. */
#define STENO_INDEX_FILTER 512

/* Longest body of an index: see write_index(). */
#define STENO_INDEX_MAX (2 * 1024 * 1024)

/* Reading less than this takes no longer than reading an index. */
#define STENO_INDEX_MIN_BYTES (64 * 1024)

typedef struct StenoIndex StenoIndex;

/* NULL if out of memory. */
extern StenoIndex *steno_index_create(void);
extern void steno_index_destroy(StenoIndex *index);

/* Write no lists above this number, as earlier writers did: for tests with their trails. */
extern void steno_index_set_newest(StenoIndex *index, uint32_t list);

/* Add what the open block contains: bodies of definitions, and a record with its message. */
extern void steno_index_session(StenoIndex *index, const uint8_t *body, uint32_t len);
extern void steno_index_shape(StenoIndex *index, const uint8_t *body, uint32_t len);
extern void steno_index_record(StenoIndex *index, const StenoRecordMessage *r, const uint8_t *message,
							   const uint8_t *extra);

/* The same for a text, or the part of it that differs from another one in the block, with two bytes on each side. */
extern void steno_index_text(StenoIndex *index, const uint8_t *text, uint32_t len);

/* The open block is empty again, and was not written. */
extern void steno_index_discard(StenoIndex *index);

/*
 * The open block was written as the block with this number of this segment, and takes
 * so many bytes of the file.  An index covers consecutive blocks of one segment: if
 * this block does not follow the one before, all that was committed is forgotten.
 */
extern void steno_index_commit(StenoIndex *index, uint64_t segment, uint64_t block, size_t bytes);

/* Whether enough blocks of this segment are committed for an index to be worth its space. */
extern bool steno_index_is_due(const StenoIndex *index, uint64_t segment);

/*
 * Write the body of the index of the committed blocks to a buffer of STENO_INDEX_MAX
 * bytes, and forget them.  Returns its length.
 */
extern uint32_t steno_index_take(StenoIndex *index, uint8_t *to);

/* ---- reading ---- */

/* An index of a trail.  Its lists are those bytes of its body that were checked. */
typedef struct StenoIndexReader
{
	uint64_t	first;			/* number of the first block that it covers */
	uint64_t	blocks;			/* how many, one after the other */
	uint64_t	group;			/* blocks in a group */
	StenoBytes	lists;
} StenoIndexReader;

/* A set of an index's groups. */
typedef uint8_t StenoGroups[STENO_INDEX_GROUPS / 8];

/* Whether a term is one that is looked for. */
typedef bool (*StenoTermMatch) (void *of, StenoBytes term);

/* Read the body of an index, which is not trusted; false if it is not one. */
extern bool steno_index_open(StenoIndexReader *index, StenoBytes body);

/* Add the groups to a set that may contain such a term of a list. */
extern void steno_index_select(const StenoIndexReader *index, int list, StenoTermMatch match, void *of,
							   StenoGroups groups);

/* Add the groups to a set whose texts and messages may contain these bytes, in upper or lower case. */
extern void steno_index_select_text(const StenoIndexReader *index, StenoBytes text, StenoGroups groups);

/* Whether a set has the group of a block; also true if the index says nothing about the block. */
extern bool steno_index_may_have(const StenoIndexReader *index, const StenoGroups groups, uint64_t block);

#endif							/* STENO_INDEX_H */
