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
	uint64		xid;			/* with its epoch; 0: none */
	int			sqlerrcode;		/* 0: no error */
	const char *message;
	const uint8 *shape;
	uint32		shape_len;
	const char *text;			/* NULL: none */
	uint64		text_len;
	const struct StenoParams *params;	/* NULL: none */
	int			extra_count;
	const uint8 *extra;
	uint32		extra_len;
	const StenoEnding *ending;	/* of a transaction; NULL: none */
	bool		timed;			/* it has times */
	StenoTimes	times;
} StenoRecord;

static inline void
steno_record_init(StenoRecord *record, int kind)
{
	/* field by field: a memset of this size would be a slow string instruction */
	*record = (StenoRecord) {.kind = kind, .duration = STENO_NONE64, .rows = STENO_NONE64};
}

#pragma GCC visibility pop

#endif							/* STENO_FACTS_H */
