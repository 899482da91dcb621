/*
 * extension/kept/kept_shape.h
 *		Shapes of clients' queries that ran lately (StenoKept): found by what they were made from.
 *
 * What each query runs through is inline here; what few do, in kept_shape.c.
 */
#ifndef STENO_KEPT_SHAPE_H
#define STENO_KEPT_SHAPE_H

#include "base/steno.h"
#include "base/compat.h"
#include "delivery/record.h"
#include "describe/relation.h"

#pragma GCC visibility push(hidden)

/* The input of a shape, except its parameters. */
typedef struct StenoShapeKey
{
	const StenoPermission *relations[STENO_KEPT_RELATIONS];
	const char *prepared;		/* name of its prepared statement; NULL: none */
	int			count;			/* of relations */
	uint64		query_id;
	CmdType		operation;
	int			class;
} StenoShapeKey;

/*
 * What the shape of a query is made from; false if it is too big to be kept.  prepared: the name of its prepared
 * statement, NULL: none.
 */
static inline bool
steno_shape_key(const StenoStatement *s, const char *prepared, StenoShapeKey *key)
{
	PlannedStmt *plan = s->query->plannedstmt;
	ListCell   *lc;
	int			n = 0;

	if (unlikely(steno_role_is_set() || !steno_logs_relations()))
		return false;
	foreach(lc, STENO_PLAN_PERMISSIONS(plan))
	{
		const StenoPermission *p = (const StenoPermission *) lfirst(lc);

		if (!STENO_IS_PERMISSION(p))
			continue;
		if (unlikely(n == STENO_KEPT_RELATIONS || p->requiredPerms > PG_UINT32_MAX))
			return false;
		key->relations[n++] = p;
	}
	key->count = n;
	key->prepared = prepared;
	key->query_id = plan->queryId;
	key->operation = s->query->operation;
	key->class = s->class;
	return true;
}

/* A word of a set of columns. */
static inline uint64
steno_columns_word(const Bitmapset *columns, int word)
{
	return columns && word < columns->nwords ? columns->words[word] : 0;
}

/* Whether a set of columns has more than one word. */
static inline bool
steno_columns_are_wide(const Bitmapset *columns)
{
	return columns && columns->nwords > 1;
}

/* Whether any set of columns of a permission has. */
static inline bool
steno_has_wide_columns(const StenoPermission *p)
{
	return steno_columns_are_wide(p->selectedCols) || steno_columns_are_wide(p->insertedCols) ||
		steno_columns_are_wide(p->updatedCols);
}

/* Whether all but the first words of the sets of columns of a relation are those of a kept shape. */
STENO_COLD extern bool steno_kept_has_far_columns(const StenoKept *k, int relation, const StenoPermission *p);

/* Whether a permission, with its columns, is that of a kept shape. */
static inline bool
steno_is_kept_relation(const StenoKept *k, int relation, const StenoPermission *p)
{
	return k->relids[relation] == p->relid && k->permissions[relation] == p->requiredPerms &&
		k->columns[relation][0] == steno_columns_word(p->selectedCols, 0) &&
		k->columns[relation][1] == steno_columns_word(p->insertedCols, 0) &&
		k->columns[relation][2] == steno_columns_word(p->updatedCols, 0) &&
		(likely(!k->wide && !steno_has_wide_columns(p)) || steno_kept_has_far_columns(k, relation, p));
}

/* Whether the name of a prepared statement, NULL: none, is that of a kept shape. */
static inline bool
steno_is_kept_name(const StenoKept *k, const char *prepared)
{
	if (likely(prepared == NULL))
		return k->name_len == 0;
	return strlen(prepared) == k->name_len &&
		memcmp(steno_kept_shape(k) + k->len - k->name_len, prepared, k->name_len) == 0;
}

/* Whether a kept shape was made from this. */
static pg_attribute_always_inline bool
steno_kept_is(const StenoKept *k, const StenoShapeKey *key)
{
	int			i;

	if (k->query_id != key->query_id || k->operation != key->operation ||
		k->class != key->class || k->count != key->count || k->len == 0)
		return false;
	for (i = 0; i < key->count; i++)
		if (!steno_is_kept_relation(k, i, key->relations[i]))
			return false;
	return steno_is_kept_name(k, key->prepared);
}

/* The kept shape of a client's query; NULL: none. */
static inline StenoKept *
steno_kept_find(const StenoStatement *s, const char *prepared)
{
	StenoShapeKey	key;
	StenoKept  *k;

	if (!steno_shape_key(s, prepared, &key))
		return NULL;
	for (k = steno_my.kept; k < steno_my.kept + STENO_KEPT_SHAPES; k++)
		if (steno_kept_is(k, &key))
			return k;
	return NULL;
}

/* Keep what a shape was made from; false if that is too much. */
extern bool steno_keep_key(StenoKept *k, const StenoShapeKey *key);

/* Keep how long a shape is, and where its parameters are.  objects: where they end. */
extern void steno_keep_len(StenoKept *k, const StenoRecord *record, uint32 objects);

/* Keep the shape of a client's query, of which a record has been made. */
STENO_COLD extern void steno_keep_shape(const StenoShapeKey *key, const StenoRecord *record);

#pragma GCC visibility pop

#endif							/* STENO_KEPT_SHAPE_H */
