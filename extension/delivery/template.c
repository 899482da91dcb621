/*
 * extension/delivery/template.c
 *		The ring's templates: which are free, and what they have.
 *
 * A template changes only while no record in the ring refers to it.  A shared one belongs to the
 * shape that took it, until it has not been used for a while and another one wants it.
 */
#include "delivery/template.h"

#include "similar.h"

/* A shared template may be taken if it was not used for between so many records and twice as many. */
#define PATIENCE 1024

StaticAssertDecl(STENO_TEMPLATES <= 32, "steno_my.templates_used has a bit for each template");

/* Where each owner keeps the number of its template; NULL: it has none. */
static uint8 *owners[STENO_SHARED_TEMPLATES];

/* Whether there is room for what a template is to have. */
bool
steno_template_fits(const StenoTemplateParts *parts)
{
	uint64		text = parts->varies ? parts->before + parts->after : parts->text_len;

	return text <= STENO_TEMPLATE_ROOM && parts->shape_len + text <= STENO_TEMPLATE_ROOM;
}

/*
 * Whether no record in the ring needs a template.  Unread records of the ring's previous session
 * may refer to its templates, up to where this session began.
 */
STENO_COLD bool
steno_template_is_free(int i)
{
	StenoProducer *p = &steno_my.producer;

	/* pairs with the release store in steno_ring_free: the writer has read the last record that needs it */
	p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
	return p->tail >= steno_my.attached && p->tail >= p->templates[i].needed_until;
}

/* Define a template that is free. */
STENO_COLD void
steno_template_define(int i, const StenoTemplateParts *parts)
{
	StenoTemplate *t = &steno_my.producer.templates[i];
	uint64		before = parts->varies ? parts->before : parts->text_len;
	uint64		after = parts->varies ? parts->after : 0;
	uint8	   *p = t->bytes;

	t->version++;
	t->shape_len = (uint16) parts->shape_len;
	t->text_len = (uint16) (before + after);
	t->own_at = parts->varies ? (uint16) (before + 1) : 0;
	memcpy(p, parts->shape, parts->shape_len);
	p += parts->shape_len;
	memcpy(p, parts->text, before);
	memcpy(p + before, parts->text + parts->text_len - after, after);
}

/* No record that is made from now on has the owner's template. */
STENO_COLD void
steno_template_release(uint8 *owner)
{
	uint8		template = *owner;

	*owner = 0;
	/* the owner may be in memory that other processes can write */
	if (template < STENO_PREPARED || template >= STENO_TEMPLATES)
		return;
	/* what is staged may refer to it */
	steno_my.producer.templates[template].needed_until = steno_my.producer.head +
		(steno_my.staged ? steno_my.staged->len : 0);
	owners[template - STENO_PREPARED] = NULL;
}

/* Release those that have not been used since the last time. */
static void
release_unused(void)
{
	static uint64 last;
	int			i;

	if (steno_my.seq - last < PATIENCE)
		return;
	last = steno_my.seq;
	for (i = 0; i < STENO_SHARED_TEMPLATES; i++)
		if (owners[i] != NULL && !(steno_my.templates_used & (1u << (STENO_PREPARED + i))))
			steno_template_release(owners[i]);
	steno_my.templates_used = 0;
}

/* Take a shared template, and define it.  False if each is used, or a record in the ring needs it. */
STENO_COLD bool
steno_template_take(uint8 *owner, const StenoTemplateParts *parts)
{
	int			i;

	steno_template_release(owner);
	if (!steno_template_fits(parts))
		return false;
	release_unused();
	for (i = 0; i < STENO_SHARED_TEMPLATES; i++)
	{
		if (owners[i] != NULL || !steno_template_is_free(STENO_PREPARED + i))
			continue;
		steno_template_define(STENO_PREPARED + i, parts);
		owners[i] = owner;
		*owner = (uint8) (STENO_PREPARED + i);
		steno_template_use(*owner);
		return true;
	}
	return false;
}

/*
 * ---- texts that a client sends again and again ----
 *
 * They are often the same, or differ in a constant.  The shape of such queries then has a template with the
 * text, or with what the texts have in common.
 */

/* Longest part of a text that a brief record has. */
#define OWN_TEXT 200

/*
 * Find what a text has in common with those of a template.  Words are not divided, so the next texts are
 * likely to differ in the same part.  False if that is less than half of it.
 */
static bool
find_common(const StenoTemplate *t, StenoTemplateParts *parts)
{
	const uint8 *other = t->bytes + t->shape_len;
	const uint8 *other_end = other + t->text_len;
	const uint8 *text = (const uint8 *) parts->text;
	uint32		len = (uint32) parts->text_len;
	uint32		first = steno_template_varies(t) ? t->own_at - 1u : t->text_len;
	uint32		last = steno_template_varies(t) ? t->text_len - first : t->text_len;
	uint32		before;
	uint32		after;

	if (parts->text_len > STENO_TEMPLATE_ROOM + OWN_TEXT)
		return false;
	before = steno_common_begin(text, other, Min(first, len));
	while (before > 0 && steno_is_inside_word(other[before - 1]))
		before--;
	after = steno_common_end(text + len, other_end, Min(Min(last, t->text_len - before), len - before));
	while (after > 0 && steno_is_inside_word(other_end[-(int) after]))
		after--;
	parts->varies = true;
	parts->before = before;
	parts->after = after;
	return before + after >= len / 2 && len - before - after <= OWN_TEXT && t->text_len - before - after <= OWN_TEXT;
}

/*
 * The text of a query is none of those that the template of its shape is for, or there is no template
 * yet: let the next ones have one.  The more often that happens, the longer it takes until the next time.
 */
STENO_COLD void
steno_template_adapt(const StenoStatement *s, StenoKept *k)
{
	StenoTemplateParts parts = {
		.shape = steno_kept_shape(k), .shape_len = k->len, .text = s->text, .text_len = s->text_len
	};

	if (++k->misses < k->patience)
		return;
	k->misses = 0;
	k->patience = k->patience < 64 ? 2 * k->patience + 1 : 127;
	if (k->template != 0 && !find_common(&steno_my.producer.templates[k->template], &parts))
		parts.varies = false;
	if (steno_template_fits(&parts))
		(void) steno_template_take(&k->template, &parts);
}
