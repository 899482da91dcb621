/*
 * extension/base/facts.h
 *		A record's facts, before they are encoded into the ring.
 */
#ifndef STENO_FACTS_H
#define STENO_FACTS_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

/*
 * A record, on the stack of the function that makes it.  It owns nothing: its strings are the
 * statement's, a copy's (delivery/copy.c) or in the memory for one record, which is reset when
 * the record is put or staged, after an error by the next one.
 */
typedef struct StenoRecord
{
	int			kind;
	TimestampTz time;
	uint64		duration;		/* microseconds; STENO_NONE64 */
	uint64		rows;			/* STENO_NONE64 */
	uint64		statement;
	uint32		substatement;
	uint16		depth;
	int			outcome;
	uint8		audited;		/* STENO_AUDITED_*; 0: by session alone */
	bool		may_fail;		/* of a success: its statement fails instead if the wait for space is canceled */
	uint64		xid;			/* with its epoch; 0: none */
	int			sqlerrcode;		/* 0: no error */
	const char *message;
	const uint8 *shape;
	uint32		shape_len;
	const char *text;			/* NULL: none */
	uint64		text_len;
	const struct StenoParams *params;	/* NULL: none */
	const uint8 *further;		/* relations and objects after those of the shape; NULL: none */
	uint64		further_len;
	int			extra_count;
	const uint8 *extra;
	uint32		extra_len;
	const StenoEnding *ending;	/* of a transaction; NULL: none */
	bool		timed;			/* it has times */
	StenoTimes	times;
} StenoRecord;

/*
 * What a shape has no space for: further relations and objects, which stand behind the values of the
 * record, and go ahead of it in data parts like these (format/FORMAT.md).  STENO_FURTHER_HEAD is the
 * space before each of them, for its kind and length.
 */
#define STENO_FURTHER_HEAD (1 + STENO_VARINT_MAX)

/* The bytes of one have been put at p + STENO_FURTHER_HEAD, up to end: put its kind and length before them. */
static inline uint8 *
steno_further_end(uint8 *p, uint8 kind, const uint8 *end)
{
	const uint8 *from = p + STENO_FURTHER_HEAD;
	uint32		len = end - from;

	*p++ = kind;
	p = steno_put_varint(p, len);
	memmove(p, from, len);
	return p + len;
}

static inline void
steno_record_init(StenoRecord *record, int kind)
{
	/* field by field: a memset of this size would be a slow string instruction */
	*record = (StenoRecord) {.kind = kind, .duration = STENO_NONE64, .rows = STENO_NONE64};
}

/* Give a record a shape that has nothing but a class. */
static inline void
steno_record_set_class(StenoRecord *record, int class)
{
	record->shape = steno_bare_shapes[class];
	record->shape_len = STENO_BARE_SHAPE;
}

#pragma GCC visibility pop

#endif							/* STENO_FACTS_H */
