/*
 * core/block/unprepared.c
 *		Forms of statements that are not prepared, whose records come with shape and text.
 *
 * The block remembers the last ones of these statements, by a hash of session, length of the shape and beginning
 * of the text.  Shape and text are compared where they are in the payload, without a dictionary.
 */
#include "block/record.h"
#include "similar.h"

static inline StenoUnprepared *
statement_of(StenoBlock *block, uint32_t session, const StenoParsed *m)
{
	uint64_t	where = session + m->r->shape_len * UINT64_C(64);
	uint64_t	hash = hash_of_begin(m->text) + where * UINT64_C(0x9e3779b97f4a7c15);

	return &block->unprepared[hash >> 55];
}
_Static_assert(STENO_UNPREPARED == 1 << (64 - 55), "the upper bits of the hash are a number of a statement");

static inline bool
is_same_statement(const StenoBlock *block, const StenoUnprepared *s, uint32_t session, const StenoParsed *m)
{
	return s->place.generation == block->generation && s->session == session && s->shape_len == m->r->shape_len &&
		memcmp(block->payload + s->shape, m->shape, s->shape_len) == 0;
}

/* Whether a text is that of the statement, or one that its form can have. */
static inline bool
has_same_text(const StenoBlock *block, const StenoUnprepared *s, const uint8_t *text, uint32_t len)
{
	const StenoFormPlace *k = &s->place;
	const uint8_t *other = block->payload + s->text;

	if (!k->varies)
		return len == s->text_len && memcmp(text, other, len) == 0;
	return len >= k->before + k->after && len - k->before - k->after <= STENO_VARIANT_DIFFERENT &&
		len <= STENO_VARIANTS_MAX - block->variants_bytes &&
		memcmp(text, other, k->before) == 0 &&
		memcmp(text + len - k->after, other + s->text_len - k->after, k->after) == 0;
}

/*
 * From now on, the statement's form has texts that vary, and this is one of them; unless
 * it is too different.  Words are not divided, so the next texts are likely to differ in the same
 * part.
 */
static void
vary_text(const StenoBlock *block, StenoUnprepared *s, const uint8_t *text, uint32_t len)
{
	const uint8_t *other = block->payload + s->text;
	uint32_t	least = len < s->text_len ? len : s->text_len;
	uint32_t	before = steno_common_begin(text, other, least);
	uint32_t	after = steno_common_end(text + len, other + s->text_len, least - before);

	while (before > 0 && steno_is_inside_word(other[before - 1]))
		before--;
	while (after > 0 && steno_is_inside_word(other[s->text_len - after]))
		after--;
	if (s->place.varies)
	{
		before = before < s->place.before ? before : s->place.before;
		after = after < s->place.after ? after : s->place.after;
	}
	if (len - before - after > STENO_VARIANT_DIFFERENT || before + after < len / 2)
		return;
	s->place.varies = true;
	s->place.before = before;
	s->place.after = after;
	s->place.form = 0;
}

void
steno_block_remember_unprepared(StenoBlock *block, uint32_t session, const StenoParsed *m, uint32_t shape,
								uint32_t text)
{
	const StenoVariantBase *base = &block->bases[hash_of_begin(m->text) >> 58];
	StenoUnprepared  *s = statement_of(block, session, m);
	const StenoDefinition *e = &block->shapes.entries[shape];

	if (is_same_statement(block, s, session, m))
	{
		/* else, it is other values or fields that the form does not have */
		if (!has_same_text(block, s, m->text, m->r->text_len))
			vary_text(block, s, m->text, m->r->text_len);
		return;
	}
	if (base->generation != block->generation || shape >= block->shapes.used || e->index != shape)
		return;
	begin_place(&s->place, block->generation, shape, base->index);
	s->place.used = true;
	s->session = session;
	s->shape = e->offset;
	s->shape_len = e->len;
	s->text = base->offset;
	s->text_len = base->len;
	if (base->index != text)
		vary_text(block, s, m->text, m->r->text_len);
}

bool
steno_block_add_unprepared(StenoBlock *block, uint32_t session, const StenoParsed *m, uint32_t mask, int64_t elapsed)
{
	const StenoRecordMessage *r = m->r;
	StenoUnprepared  *s = statement_of(block, session, m);
	StenoFormPlace *k = &s->place;
	StenoRunRecord	own = {.values = m->values, .elapsed = elapsed, .rows = r->rows, .duration = r->duration,
		.xid = steno_message_xid(r)};

	if (!is_same_statement(block, s, session, m) || !has_same_text(block, s, m->text, r->text_len) ||
		!has_form(block, k, session, mask | STENO_FIELD_TIME, r->rows, (uint8_t) r->values_len))
		return false;
	if (k->varies)
	{
		own.text = m->text + k->before;
		own.text_len = r->text_len - k->before - k->after;
		block->texts.defined++;
		block->variants_bytes += r->text_len;
		if (block->index)
			steno_block_index_variant(block, m->text, r->text_len, k->before, k->after);
	}
	add_to_run(block, k, &own);
	return true;
}
