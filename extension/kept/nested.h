/*
 * extension/kept/nested.h
 *		Shapes and templates of the queries that functions run.
 *
 * Queries of functions are planned once for many executions, as prepared ones are.  Their shapes
 * are kept by the address of the plan, which only says where to look: what a shape was made from is
 * compared, as it is for those of clients' queries.  They have a place of their own, so that a
 * function with many queries does not take that of the clients'.  A plan whose shape is kept has
 * run before, so queries that are planned anew each time do not pay for this.
 *
 * A shape is valid for as long as nothing has been invalidated in, or removed from, the cache of
 * relations.  So the names of its relations are there, too, should the query fail.
 */
#ifndef STENO_NESTED_H
#define STENO_NESTED_H

#include "base/steno.h"
#include "delivery/template.h"
#include "value/param.h"
#include "describe/relation_cache.h"
#include "kept/kept_shape.h"
#include "similar.h"

#pragma GCC visibility push(hidden)

#define STENO_NESTED_SHAPES 64
#define STENO_NESTED_ROOM 512
#define STENO_NESTED_PARAMS 64

typedef struct StenoNestedShape
{
	const PlannedStmt *plan;	/* the last one that had this place: compared, never followed */
	uint64		version;		/* of the cache of relations */
	StenoKept	kept;			/* without its shape and far columns; len 0: nothing is kept */
	uint8		shape[STENO_NESTED_ROOM];
} StenoNestedShape;

extern StenoNestedShape steno_nested_shapes[STENO_NESTED_SHAPES];

/* Where the shape of a plan is kept. */
static inline StenoNestedShape *
steno_nested_place(const PlannedStmt *plan)
{
	return &steno_nested_shapes[((uintptr_t) plan * UINT64CONST(0x9e3779b97f4a7c15)) >> 58];
}

StaticAssertDecl(STENO_NESTED_SHAPES == 1 << (64 - 58), "as many places as steno_nested_place can return");

/* steno_shape_key for a nested query; false also for sets of columns that take more than a word. */
static inline bool
steno_nested_key(const StenoStatement *s, StenoShapeKey *key)
{
	int			i;

	if (!steno_shape_key(s, NULL, key))
		return false;
	for (i = 0; i < key->count; i++)
		if (unlikely(steno_has_wide_columns(key->relations[i])))
			return false;
	return true;
}

/* The kept shape of a nested query; NULL if there is none. */
static inline StenoKept *
steno_find_nested(const StenoStatement *s)
{
	StenoNestedShape *n = steno_nested_place(s->query->plannedstmt);
	StenoShapeKey	key;

	if (n->plan != s->query->plannedstmt || n->kept.len == 0 || n->version != steno_relation_cache_version() ||
		!steno_nested_key(s, &key) || !steno_kept_is(&n->kept, &key))
		return NULL;
	return &n->kept;
}

/* Take a template for a nested query whose shape is kept; false if there is none. */
STENO_COLD extern bool steno_nested_take_template(StenoNestedShape *n, const StenoStatement *s);

/*
 * The template of a nested query whose shape is kept; 0: it has none.  A plan at the same address, of
 * another function, can have the same shape, but hardly the same text.
 */
static inline uint8
steno_nested_template(StenoNestedShape *n, const StenoStatement *s)
{
	StenoKept  *k = &n->kept;

	if (k->template != 0)
	{
		const StenoTemplate *t = &steno_my.producer.templates[k->template];

		if (unlikely(t->text_len != s->text_len || !steno_is_same(t->bytes + k->len, s->text, s->text_len)))
			steno_template_release(&k->template);
	}
	if (unlikely(k->template == 0) && !steno_nested_take_template(n, s))
		return 0;
	steno_template_use(k->template);
	return k->template;
}

/*
 * steno_find_nested at the query's end: what it has run may have taken the place, or changed names.  If the
 * place is that of its plan, as it was at its start, what the shape was made from is the same, too: no
 * other plan can stand where one stands that is being executed.
 */
static inline StenoKept *
steno_find_nested_again(const StenoStatement *s)
{
	StenoNestedShape *n = steno_nested_place(s->query->plannedstmt);

	if (likely(s->kept == &n->kept && n->plan == s->query->plannedstmt && n->kept.len != 0 &&
			   n->version == steno_relation_cache_version() && !steno_role_is_set() && steno_logs_relations()))
		return &n->kept;
	return steno_find_nested(s);
}

/*
 * Collect the parameters of a nested query, if they have the types of its kept shape; else false.  *params is NULL if
 * there are none.
 */
static inline bool
steno_nested_params(const StenoStatement *s, const StenoNestedShape *n, StenoParams *values, const StenoParams **params)
{
	ParamListInfo list = s->query->params;
	uint8		types[STENO_VARINT_MAX + STENO_NESTED_PARAMS * (STENO_VARINT_MAX + 1)];
	MemoryContext old;
	uint8	   *end;

	*params = NULL;
	if (list == NULL || list->numParams == 0 || !steno_logs_parameters())
		return n->kept.params_len == 1;
	if (list->numParams > STENO_NESTED_PARAMS)
		return false;
	old = MemoryContextSwitchTo(steno_private.scratch);
	end = steno_params_collect(list, false, types, values);
	MemoryContextSwitchTo(old);
	*params = values;
	return end != NULL && end - types == n->kept.params_len &&
		steno_is_same(types, n->shape + n->kept.params, n->kept.params_len);
}

/* A nested query's record has been made: keep its shape if its plan has run before. */
extern void steno_keep_nested(const StenoStatement *s, const StenoRecord *record);

#pragma GCC visibility pop

#endif							/* STENO_NESTED_H */
