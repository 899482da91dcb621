/*
 * core/block/definition.c
 *		Definitions of sessions, shapes, texts and forms, which records refer to by index.
 *
 * A key that the block's dictionary does not have is defined by an item.  A text that is similar to an earlier
 * one of the block is defined by the difference (define_variant).  What a definition says is added to the index
 * of the segment.
 */
#include "block/run.h"
#include "similar.h"

/* Define a key; returns where it is in the payload. */
static const uint8_t *
define_whole(StenoBlock *block, StenoDictionary *d, uint8_t kind, uint32_t hash, const uint8_t *key, uint32_t len)
{
	uint8_t    *p = begin_item(block, kind, len + 1);
	StenoDefinition e = {.hash = hash, .offset = (uint32_t) (p - block->payload), .len = len};

	steno_dictionary_add(d, &e);
	end_item(block, len + 1, append_bytes(p, key, len));
	d->defined++;
	return p;
}

uint32_t
steno_block_intern_shape(StenoBlock *block, const uint8_t *shape, uint32_t len)
{
	uint32_t	hash = (uint32_t) XXH3_64bits(shape, len);
	const StenoDefinition *e = find_entry(block->payload, &block->shapes, hash, shape, len);

	if (e != NULL)
		return e->index;
	shape = define_whole(block, &block->shapes, STENO_KIND_DEF_SHAPE, hash, shape, len);
	if (block->index)
		steno_index_shape(block->index, shape, len);
	return block->shapes.defined - 1;
}

/* ---- texts ---- */

void
steno_block_index_variant(StenoBlock *block, const uint8_t *text, uint32_t len, uint32_t before, uint32_t after)
{
	uint32_t	from = before < 2 ? 0 : before - 2;
	uint32_t	to = after < 2 ? len : len - after + 2;

	steno_index_text(block->index, text + from, to - from);
}

/* Define a text as a variant of the base, if it is similar enough. */
static bool
define_variant(StenoBlock *block, const StenoVariantBase *base, uint32_t hash, const uint8_t *text, uint32_t len)
{
	StenoDictionary *d = &block->texts;
	const uint8_t *other = block->payload + base->offset;
	uint32_t	least = len < base->len ? len : base->len;
	uint32_t	before = steno_common_begin(text, other, least);
	uint32_t	after = steno_common_end(text + len, other + base->len, least - before);
	uint32_t	different = len - before - after;
	uint32_t	guess = 5 + different;
	StenoDefinition e = {.hash = hash, .len = len, .before = before, .after = after,
		.base = base->offset, .base_end = base->offset + base->len};
	uint8_t    *p;

	if (different > STENO_VARIANT_DIFFERENT || different > len / 2 || len > STENO_VARIANTS_MAX - block->variants_bytes)
		return false;
	p = begin_item(block, STENO_KIND_DEF_VARIANT, guess);
	p = steno_put_varint(p, base->index);
	p = steno_put_varint(p, before);
	p = steno_put_varint(p, after);
	e.offset = (uint32_t) (p - block->payload);
	p = append_bytes(p, text + before, different);
	e.offset += (uint32_t) end_item(block, guess, p);
	steno_dictionary_add(d, &e);
	d->defined++;
	block->variants_bytes += len;
	if (block->index)
		steno_block_index_variant(block, text, len, before, after);
	return true;
}

static uint32_t
define_text(StenoBlock *block, uint32_t hash, const uint8_t *text, uint32_t len)
{
	StenoVariantBase *base = NULL;
	const uint8_t *p;

	if (len >= STENO_VARIANT_BEGINS)
	{
		base = &block->bases[hash_of_begin(text) >> 58];
		if (base->generation == block->generation && define_variant(block, base, hash, text, len))
			return block->texts.defined - 1;
	}
	p = define_whole(block, &block->texts, STENO_KIND_DEF_TEXT, hash, text, len);
	if (base)
		*base = (StenoVariantBase) {block->generation, (uint32_t) (p - block->payload), len, block->texts.defined - 1};
	if (block->index)
		steno_index_text(block->index, p, len);
	return block->texts.defined - 1;
}
_Static_assert(STENO_VARIANT_BASES == 1 << (64 - 58), "the upper bits of the product are a number of a base");

uint32_t
steno_block_intern_text(StenoBlock *block, const uint8_t *text, uint32_t len)
{
	uint32_t	hash = (uint32_t) XXH3_64bits(text, len);
	const StenoDefinition *e = find_entry(block->payload, &block->texts, hash, text, len);

	return e != NULL ? e->index : define_text(block, hash, text, len);
}

/* ---- sessions ---- */

uint32_t
steno_block_intern_session(StenoBlock *block, StenoSource *source)
{
	StenoDictionary *d = &block->sessions;
	uint32_t	len = source->body_len;
	uint32_t	hash = (uint32_t) XXH3_64bits(source->body, len);
	const StenoDefinition *e = find_entry(block->payload, d, hash, source->body, len);

	if (e != NULL)
		source->index = e->index;
	else
	{
		uint32_t	guess = len + 1 + steno_varint_size(source->seq) +
			steno_varint_size(source->statement);
		uint8_t    *p = begin_item(block, STENO_KIND_DEF_SESSION, guess);
		StenoDefinition new = {.hash = hash, .len = len};

		p = steno_put_varint(p, source->seq);
		p = steno_put_varint(p, source->statement);
		new.offset = (uint32_t) (p - block->payload);
		steno_dictionary_add(d, &new);
		end_item(block, guess, append_bytes(p, source->body, len));
		if (block->index)
			steno_index_session(block->index, source->body, len);
		block->expected[d->defined].seq = source->seq;
		block->expected[d->defined].statement = source->statement;
		block->expected[d->defined].xid = 0;
		source->index = d->defined++;
	}
	source->generation = block->generation;
	return source->index;
}

/* ---- forms ---- */

void
steno_block_define_form(StenoBlock *block, StenoFormPlace *k, uint32_t session, uint32_t mask, uint64_t rows,
						uint8_t values_len)
{
	uint32_t	guess = 20;
	uint8_t    *p = begin_item(block, STENO_KIND_DEF_FORM, guess);

	k->own_rows = k->form != 0 && k->session == session && k->mask == mask;
	k->session = session;
	k->mask = mask;
	k->rows = rows;
	k->values_len = values_len;
	p = steno_put_varint(p, session);
	p = steno_put_varint(p, mask);
	p = steno_put_varint(p, k->shape);
	p = steno_put_varint(p, k->text);
	if (mask & STENO_FIELD_ROWS)
		p = steno_put_varint(p, k->own_rows ? 0 : rows + 1);
	if (mask & STENO_FIELD_VALUES)
		p = steno_put_varint(p, values_len);
	if (k->varies)
		p = steno_put_varint(steno_put_varint(p, k->before), k->after);
	end_item(block, guess, p);
	k->form = ++block->forms;
}
