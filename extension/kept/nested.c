/*
 * extension/kept/nested.c
 *		Keeping the shapes of the queries that functions run.
 */
#include "base/steno.h"

#include "describe/shape.h"
#include "kept/nested.h"

StenoNestedShape steno_nested_shapes[STENO_NESTED_SHAPES];

bool
steno_nested_take_template(StenoNestedShape *n, const StenoStatement *s)
{
	const StenoTemplateParts parts = {
		.shape = n->shape, .shape_len = n->kept.len, .text = s->text, .text_len = s->text_len
	};

	return steno_template_take(&n->kept.template, &parts);
}

void
steno_keep_nested(const StenoStatement *s, const StenoRecord *record)
{
	StenoNestedShape *n = steno_nested_place(s->query->plannedstmt);
	StenoShapeKey	key;
	uint32		objects;
	uint32		others;

	n->kept.len = 0;
	steno_template_release(&n->kept.template);
	if (n->plan != s->query->plannedstmt)
	{
		n->plan = s->query->plannedstmt;
		return;
	}
	if (record->shape_len > STENO_NESTED_ROOM || record->extra_len > 0 || !steno_nested_key(s, &key) ||
		!steno_shape_find_objects(record->shape, record->shape_len, &objects, &others) ||
		!steno_keep_key(&n->kept, &key))
		return;
	memcpy(n->shape, record->shape, record->shape_len);
	n->version = steno_relation_cache_version();
	steno_keep_len(&n->kept, record, objects);
}
