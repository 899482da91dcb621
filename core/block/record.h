/*
 * core/block/record.h
 *		Records, full and brief ones: from a message in the ring to an item of the block, or to a record in a run.
 */
#ifndef STENO_BLOCK_RECORD_H
#define STENO_BLOCK_RECORD_H

#include "block/run.h"

#pragma GCC visibility push(hidden)

/* A record message taken apart. */
typedef struct StenoParsed
{
	const StenoRecordMessage *r;
	const uint8_t *parts;
	const uint8_t *cut;
	StenoEnding ending;			/* zeros: none */
	StenoTimes	times;
	const uint8_t *shape;
	const uint8_t *text;
	const uint8_t *nulls;
	const uint8_t *values;
	const uint8_t *message;
	const uint8_t *extra;
} StenoParsed;

/* Add a record; there is room for it. */
extern void steno_block_add_record(StenoBlock *block, StenoSource *source, const StenoRecordMessage *r);

/* ---- brief records (brief.c) ---- */

/*
 * Add a brief record.  What it says is the same as what steno_block_add_record would make of its full form;
 * the item is shorter if the record has a form.
 */
extern void steno_block_add_one_brief(StenoBlock *block, StenoSource *source, const StenoBriefMessage *b);

/*
 * Add the brief record of a commit.  The first one of the block is added in its full form, and so are those with
 * unexpected numbers; what they say is the same.
 */
extern void steno_block_add_brief_commit(StenoBlock *block, StenoSource *source, const StenoCommitMessage *c);

/* ---- statements that are not prepared (unprepared.c) ---- */

/* The fields that records of a form may have. */
#define FORM_FIELDS (STENO_FIELD_SHAPE | STENO_FIELD_TEXT | STENO_FIELD_ROWS | STENO_FIELD_TIME | \
					 STENO_FIELD_DURATION | STENO_FIELD_VALUES | STENO_FIELD_XID)

/* Whether a record could be in a run, by itself: the others of its session and statement decide. */
static inline bool
may_have_form(const StenoBlock *block, const StenoRecordMessage *r, uint32_t mask, int64_t seq, int64_t statement)
{
	return (mask & ~(uint32_t) FORM_FIELDS) == 0 && (seq | statement) == 0 && r->m.kind == STENO_KIND_STATEMENT &&
		mask & STENO_FIELD_SHAPE && mask & STENO_FIELD_TEXT && r->text_len >= STENO_VARIANT_BEGINS &&
		r->values_len <= UINT8_MAX && block->records > 0;
}

/* Put a record into a run that may have a form; false if it has none. */
extern bool steno_block_add_unprepared(StenoBlock *block, uint32_t session, const StenoParsed *m, uint32_t mask,
									   int64_t elapsed);

/*
 * A record that has no form although it may have one was added, with these indexes of shape
 * and text: the next ones of its statement may be similar.
 */
extern void steno_block_remember_unprepared(StenoBlock *block, uint32_t session, const StenoParsed *m, uint32_t shape,
											uint32_t text);

#pragma GCC visibility pop

#endif							/* STENO_BLOCK_RECORD_H */
