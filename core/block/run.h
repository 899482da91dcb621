/*
 * core/block/run.h
 *		Forms and runs: the short items of records of a statement that its session executes more than
 *		once in a block.
 *
 * A form says what these records have in common: session, fields, shape, text, and usually the number of
 * rows.  A record in a run has the number of its form, and the values that the form does not have.  The
 * texts of a form may differ in a part, such as a constant, which is then another value of the record.
 */
#ifndef STENO_RUN_H
#define STENO_RUN_H

#include "block/builder.h"

#pragma GCC visibility push(hidden)

/*
 * A run begins with its length, its kind, and the number of its records.  Length and number grow with each
 * record, so they are varints of two bytes.
 */
#define RUN_HEAD 5
#define RUN_MAX ((1 << 14) - 1)

/* A record in a run without its values and its part of a text: six varints. */
#define RUN_RECORD_MAX (6 * STENO_VARINT_MAX)

/* What a record in a run has of its own. */
typedef struct StenoRunRecord
{
	const uint8_t *text;		/* if the texts of its form vary: what is between their common parts */
	uint32_t	text_len;
	const uint8_t *values;
	int64_t		elapsed;
	uint64_t	rows;
	uint64_t	duration;
	uint64_t	xid;
} StenoRunRecord;

/*
 * Define the form of records with the place's shape and text.  The rows of a form are those of
 * the record that it is defined for; when a record has another number, the next form leaves them
 * to its records.
 */
extern void steno_block_define_form(StenoBlock *block, StenoFormPlace *k, uint32_t session, uint32_t mask,
									uint64_t rows, uint8_t values_len);

static inline void
begin_place(StenoFormPlace *k, uint64_t generation, uint32_t shape, uint32_t text)
{
	k->generation = generation;
	k->shape = shape;
	k->text = text;
	k->used = false;
	k->form = 0;
	k->varies = false;
}

/*
 * Whether the record can be put into a run.  A form is not worth its definition until the second
 * record of the block that has it.
 */
static inline bool
has_form(StenoBlock *block, StenoFormPlace *k, uint32_t session, uint32_t mask, uint64_t rows,
		 uint8_t values_len)
{
	if (k->form != 0 && k->session == session && k->mask == mask && k->values_len == values_len &&
		(k->own_rows || k->rows == rows))
		return true;
	if (!k->used || block->forms >= block->max_forms)
	{
		k->used = true;
		return false;
	}
	/* one that sometimes has another mask or other values keeps the form that it has */
	if (k->form != 0 && k->session == session && (k->mask != mask || k->values_len != values_len))
		return false;
	steno_block_define_form(block, k, session, mask, rows, values_len);
	return true;
}

/* A varint of two bytes, even if one is enough. */
static inline uint8_t *
put_two_bytes(uint8_t *p, uint32_t v)
{
	*p++ = (uint8_t) (v | 0x80);
	*p++ = (uint8_t) (v >> 7);
	return p;
}

/* Put the length of the last run, and how many records it has, in front of it. */
static inline void
complete_run(StenoBlock *block)
{
	uint8_t    *p = put_two_bytes(block->payload + block->run_start, block->used - block->run_start - 2);

	*p++ = STENO_KIND_RUN;
	put_two_bytes(p, block->run_records);
}

/*
 * Add a record to the run at the end of the payload, or begin one.  complete_run must follow before anything
 * else is done with the payload, but for another record of the same run.
 */
static inline void
extend_run(StenoBlock *block, const StenoFormPlace *k, const StenoRunRecord *r)
{
	StenoExpected   *e = &block->expected[k->session];
	uint8_t    *p;

	if (block->run_end != block->used ||
		block->used - block->run_start + RUN_RECORD_MAX + k->values_len + r->text_len > RUN_MAX)
	{
		if (block->run_end == block->used)
			complete_run(block);
		block->run_start = block->used;
		block->run_records = 0;
		block->used += RUN_HEAD;
	}
	p = block->payload + block->used;
	p = steno_put_varint(p, k->form - 1);
	if (k->varies)
		p = append_string(p, r->text, r->text_len);
	if (k->own_rows && k->mask & STENO_FIELD_ROWS)
		p = steno_put_varint(p, r->rows);
	p = steno_put_varint(p, steno_zigzag(r->elapsed));
	if (k->mask & STENO_FIELD_DURATION)
		p = steno_put_varint(p, r->duration);
	if (k->mask & STENO_FIELD_VALUES)
		p = append_bytes(p, r->values, k->values_len);
	if (k->mask & STENO_FIELD_XID)
	{
		p = steno_put_varint(p, steno_zigzag((int64_t) (r->xid - e->xid)));
		e->xid = r->xid;
	}
	block->used = (uint32_t) (p - block->payload);
	block->run_end = block->used;
	block->run_records++;
}

static inline void
add_to_run(StenoBlock *block, const StenoFormPlace *k, const StenoRunRecord *r)
{
	extend_run(block, k, r);
	complete_run(block);
}

#pragma GCC visibility pop

#endif							/* STENO_RUN_H */
