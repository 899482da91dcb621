/*
 * core/block/builder.h
 *		The state of a block builder, and what all of its parts do: items, the numbers that a
 *		reader expects, and the time range of the block.
 *
 * Each part uses only those before it: dictionary.h; builder.h; definition.c (sessions, shapes, texts, forms);
 * run.h; unprepared.c and record.c (full records); brief.c (brief ones); finish.c, and block.c (creation, and
 * messages of any kind).  Functions that are called for each record are inline.
 */
#ifndef STENO_BUILDER_H
#define STENO_BUILDER_H

#include <openssl/evp.h>

#include "block/block.h"
#include "block/dictionary.h"
#include "header.h"

#pragma GCC visibility push(hidden)

/* The first record's time is known only when the block is finished. */
#define STENO_PADDED_TIME STENO_VARINT_MAX

/*
 * Texts are compared with one that began with the same STENO_VARIANT_BEGINS bytes, if it is among
 * the last ones.  A variant is defined if that saves at least half of the text.
 */
#define STENO_VARIANT_BASES 64
#define STENO_VARIANT_BEGINS 16
#define STENO_VARIANT_DIFFERENT 256	/* longest part of a text that differs */

/* Statements whose records may have a form although they are not prepared: the last ones, by a hash. */
#define STENO_UNPREPARED 512

/* The last numbers that a reader has seen for a session definition, after the items so far. */
typedef struct StenoExpected
{
	uint64_t	seq;
	uint64_t	statement;
	uint64_t	xid;			/* the last one */
} StenoExpected;

/* A text that others may be variants of; it is whole in the payload. */
typedef struct StenoVariantBase
{
	uint64_t	generation;
	uint32_t	offset;
	uint32_t	len;
	uint32_t	index;
} StenoVariantBase;

/*
 * A statement of a session that is not prepared, so that its records come with shape and
 * text.  Both are compared where they are in the payload, without a dictionary.
 */
typedef struct StenoUnprepared
{
	StenoFormPlace	place;
	uint32_t	session;
	uint32_t	shape;			/* offset in the payload, and length */
	uint32_t	shape_len;
	uint32_t	text;			/* likewise; the one that others are compared with */
	uint32_t	text_len;
} StenoUnprepared;

struct StenoBlock
{
	uint8_t    *buffer;			/* header, then payload */
	uint8_t    *payload;
	uint32_t	capacity;
	uint32_t	room;			/* bytes of payload that are allocated: for an index, more than capacity */
	uint32_t	used;
	uint32_t	data_bytes;		/* of used, in data parts */
	bool		incompressible;	/* this block has turned out to be */

	/* of blocks of large values (1: is_of_values), and of others (0) */
	uint64_t	not_tried[2];	/* bytes that are not to be compressed, from this block on */
	int			acceleration[2];	/* of this block's compression ... */
	int			next_acceleration[2];	/* ... and of the next one's, from how much smaller the last has become */
	uint32_t	records;
	uint64_t	generation;
	int64_t		previous_time;
	uint64_t	previous_lsn;	/* where the last commit's WAL record ended */
	int64_t		first_record_time;
	uint32_t	first_record_at;	/* offset of its time in the payload */
	int64_t		first_time;
	int64_t		first_end;
	int64_t		last_end;
	StenoDictionary sessions;
	StenoDictionary shapes;
	StenoDictionary texts;
	uint32_t	forms;			/* definitions in this block */
	uint32_t	max_forms;
	uint32_t	commit_shape;	/* that of brief commits, plus 1; 0: none yet */
	uint32_t	run_start;		/* of the run that was begun last */
	uint32_t	run_end;
	uint32_t	run_records;
	StenoVariantBase bases[STENO_VARIANT_BASES];
	StenoUnprepared *unprepared;	/* STENO_UNPREPARED of them */
	uint32_t	variants_bytes; /* bytes of all variants in this block, as a reader has them */
	StenoExpected *expected;	/* by session definition */
	uint32_t	max_sessions;
	uint8_t    *packed;			/* header, then compressed or encrypted payload */
	StenoCrypt *crypt;
	StenoIndex *index;			/* NULL: none */
	void	   *lz4;
	EVP_MD_CTX *sha;
};

/* The payload is forgotten, and the next block begins: what its compression has to know (finish.c). */
extern void steno_block_prepare_compression(StenoBlock *block);

/* ---- items ---- */

/*
 * Upper bound of what a message needs beyond its own bytes and its session
 * definition: the heads of its items, a form, and a record whose varints all have their full
 * length.
 */
#define OVERHEAD 384

/* Whether a message of this length surely fits. */
static inline bool
has_room(const StenoBlock *block, const StenoSource *source, uint32_t len)
{
	return (uint64_t) block->used + len + source->body_len + OVERHEAD <= block->capacity &&
		block->sessions.defined < block->max_sessions;
}

/*
 * An item's length precedes its body, but is known only once the body is written.
 * begin_item leaves space for the length of a body of about guess bytes; end_item
 * moves the body if its length has another size than that of the guess, and returns
 * by how many bytes.
 */
static inline uint8_t *
begin_item(StenoBlock *block, uint8_t kind, uint32_t guess)
{
	uint8_t    *p = block->payload + block->used + steno_varint_size(guess);

	*p++ = kind;
	return p;
}

static inline int
end_item(StenoBlock *block, uint32_t guess, uint8_t *end)
{
	uint8_t    *start = block->payload + block->used;
	uint8_t    *body = start + steno_varint_size(guess);
	uint32_t	len = (uint32_t) (end - body);
	int			moved = (int) steno_varint_size(len) - (int) steno_varint_size(guess);

	if (moved != 0)
		memmove(body + moved, body, len);
	steno_put_varint(start, len);
	block->used += (uint32_t) (end + moved - start);
	return moved;
}

static inline uint8_t *
append_bytes(uint8_t *p, const uint8_t *bytes, uint32_t len)
{
	memcpy(p, bytes, len);
	return p + len;
}

static inline uint8_t *
append_string(uint8_t *p, const uint8_t *bytes, uint32_t len)
{
	return append_bytes(steno_put_varint(p, len), bytes, len);
}

/* ---- definitions (definition.c) ---- */

/* The index of a shape or text, which is defined now if it has not been. */
extern uint32_t steno_block_intern_shape(StenoBlock *block, const uint8_t *shape, uint32_t len);
extern uint32_t steno_block_intern_text(StenoBlock *block, const uint8_t *text, uint32_t len);

/*
 * The index of the source's session definition.  If the block has had this
 * definition already, and another one since, its expected numbers are still those
 * after its own last record, as they are for a reader.
 */
extern uint32_t steno_block_intern_session(StenoBlock *block, StenoSource *source);

/*
 * Add the trigrams of a text to the index of the segment that the text which it is a variant of does not have:
 * those that contain at least one byte of what differs.
 */
extern void steno_block_index_variant(StenoBlock *block, const uint8_t *text, uint32_t len, uint32_t before,
									  uint32_t after);

/* A number for how a text begins that has at least STENO_VARIANT_BEGINS bytes. */
static inline uint64_t
hash_of_begin(const uint8_t *text)
{
	uint64_t	begin[STENO_VARIANT_BEGINS / 8];

	memcpy(begin, text, sizeof(begin));
	return (begin[0] ^ begin[1] * 3) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint32_t
session_index(StenoBlock *block, StenoSource *source)
{
	if (source->generation == block->generation)
		return source->index;
	return steno_block_intern_session(block, source);
}

/* ---- numbers and times ---- */

/*
 * The difference between the record's number and the one that a reader expects;
 * also updates what it expects next.
 */
static inline int64_t
advance_seq(StenoExpected *e, uint64_t seq)
{
	int64_t		difference = (int64_t) (seq - (e->seq + 1));

	/* 0 means not numbered: the next record is expected to follow the one before */
	if (seq != 0)
		e->seq = seq;
	return difference;
}

/* The same for the statement number.  last: no other record has this number. */
static inline int64_t
advance_statement(StenoExpected *e, uint64_t statement, bool last)
{
	int64_t		difference = (int64_t) (statement - (e->statement + 1));

	e->statement = last ? statement : statement - 1;
	return difference;
}

/* Put where a commit is in the WAL.  Differences that do not fit the type wrap around, and so do a reader's sums. */
static inline uint8_t *
put_commit(StenoBlock *block, uint8_t *p, uint64_t lsn, uint64_t lsn_end, uint32_t timeline)
{
	p = steno_put_varint(p, steno_zigzag((int64_t) (lsn - block->previous_lsn)));
	p = steno_put_varint(p, lsn_end - lsn);
	p = steno_put_varint(p, timeline);
	block->previous_lsn = lsn_end;
	return p;
}

/* When a statement ended, for the times of the block header. */
static inline int64_t
end_time(int64_t time, uint64_t duration)
{
	if (duration == STENO_NONE64)
		return time;
	if (duration > (uint64_t) INT64_MAX - (uint64_t) (time > 0 ? time : 0))
		return INT64_MAX;
	return time + (int64_t) duration;
}

static inline void
widen_time_range(StenoBlock *block, int64_t time, int64_t end)
{
	if (block->records++ == 0)
	{
		block->first_time = time;
		block->first_end = end;
		block->last_end = end;
		block->first_record_time = time;
	}
	else
	{
		if (time < block->first_time)
			block->first_time = time;
		if (end < block->first_end)
			block->first_end = end;
		if (end > block->last_end)
			block->last_end = end;
	}
	block->previous_time = time;
}

/*
 * The difference to the time of the record before.  It wraps around if it does not
 * fit into the type, and so does a reader's sum, which then yields the time again.
 */
static inline int64_t
elapsed_since(const StenoBlock *block, int64_t time)
{
	return (int64_t) ((uint64_t) time - (uint64_t) block->previous_time);
}

#pragma GCC visibility pop

#endif							/* STENO_BUILDER_H */
