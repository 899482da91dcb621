/*
 * extension/delivery/template.h
 *		The ring's templates: what records of a statement that runs again and again have in
 *		common.
 *
 * Each entry of steno_my.prepared has the template of its own number.  The others are shared:
 * they belong to shapes that are kept, of clients' queries and of nested ones, whose
 * statements run often.
 */
#ifndef STENO_TEMPLATE_H
#define STENO_TEMPLATE_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

#define STENO_SHARED_TEMPLATES (STENO_TEMPLATES - STENO_PREPARED)

/* What a template is to have. */
typedef struct StenoTemplateParts
{
	const uint8 *shape;
	uint32		shape_len;
	const char *text;
	uint64		text_len;
	bool		varies;			/* texts of records differ ... */
	uint64		before;			/* ... but begin with so many bytes of text ... */
	uint64		after;			/* ... and end with so many */
} StenoTemplateParts;

extern bool steno_template_fits(const StenoTemplateParts *parts);
extern bool steno_template_is_free(int i);
extern void steno_template_define(int i, const StenoTemplateParts *parts);
extern bool steno_template_take(uint8 *owner, const StenoTemplateParts *parts);
extern void steno_template_release(uint8 *owner);
extern void steno_template_adapt(const StenoStatement *s, StenoKept *k);

/* A record is about to have a shared template. */
static inline void
steno_template_use(uint8 template)
{
	steno_my.template = template;
	steno_my.templates_used |= 1u << (template % STENO_TEMPLATES);
}

#pragma GCC visibility pop

#endif							/* STENO_TEMPLATE_H */
