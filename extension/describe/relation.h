/*
 * extension/describe/relation.h
 *		Relations: their names and types, and what statements do with them.
 */
#ifndef STENO_RELATION_H
#define STENO_RELATION_H

#include "base/steno.h"

#include "base/compat.h"

#pragma GCC visibility push(hidden)

/*
 * The sets of columns that a permission has: those that are read, inserted and updated.  The number
 * of a set is that of its bit of STENO_ACCESS.
 */
#define STENO_COLUMN_SETS 3

StaticAssertDecl(STENO_ACCESS_SELECT == 1 << 0 && STENO_ACCESS_INSERT == 1 << 1 &&
				 STENO_ACCESS_UPDATE == 1 << 2, "each set of columns has the bit of its access");

/*
 * What a statement does with a relation.  A plan has one for each of its permissions, whose sets of
 * columns it points to; several may be of the same relation, through the same view, and all but the
 * first of them are merged into that one.  Those of a utility statement own their sets.
 */
typedef struct StenoAccess
{
	Oid			relid;
	uint32		access;			/* STENO_ACCESS_*; of all that are merged */
	Oid			via;			/* the view through which the statement reaches it; InvalidOid: none */
	int			first;			/* index of the one that it is merged into; its own: it is that one */
	int			next;			/* index of the next one that is merged into the same; 0: none */
	const Bitmapset *columns[STENO_COLUMN_SETS];	/* as in permissions; NULL: none */
} StenoAccess;

extern void steno_relation_load_name(Oid relid);
extern uint32 steno_relations_size(const StenoAccess *relations, int *count, int *shown, uint32 limit);
extern uint8 *steno_relations_put(uint8 *p, const StenoAccess *relations, int count, int shown);

extern uint8 *steno_relation_put(uint8 *p, Oid relid, uint32 access);
extern uint32 steno_relation_size(Oid relid);
extern void steno_relations_put_tables_first(StenoAccess *to, int *moved, const StenoAccess *from, int count);

/* Whether a relation of a list is recorded. */
static inline bool
steno_relation_is_shown(const StenoAccess *relations, int i)
{
	return relations[i].first == i && (steno_logs_relations() || (relations[i].access & STENO_ACCESS_AUDITED));
}

/* ---- column.c ---- */

/*
 * Bytes that a relation takes at most in the list of columns if none of its columns fits: the number
 * of the view (as many as two million relations), that of the entries, and one entry, which says that
 * there are columns.
 */
#define STENO_COLUMNS_LEAST 6

extern void steno_columns_cache(const StenoPermission *p);
extern int	steno_accesses_of(List *permissions, StenoAccess *found, int room);
extern const Bitmapset *steno_columns_add(const Bitmapset *mine, const Bitmapset *more);
extern uint32 steno_columns_put(uint8 *p, const StenoAccess *relations, int count, uint32 limit, int *omitted);
extern uint64 steno_relations_further_size(const StenoAccess *relations, int from, int count);
extern uint8 *steno_relations_put_further(uint8 *p, const StenoAccess *relations, int from, int count);

/*
 * The columns of a permission, by the number of their set.  The server keeps some that it does not
 * check: those that an automatically updatable view reads are still there when the statement only
 * inserts.
 */
static inline const Bitmapset *
steno_columns_of(const StenoPermission *p, int set)
{
	static const AclMode needed[STENO_COLUMN_SETS] = {ACL_SELECT, ACL_INSERT, ACL_UPDATE};

	if (!(p->requiredPerms & needed[set]))
		return NULL;
	return set == 0 ? p->selectedCols : set == 1 ? p->insertedCols : p->updatedCols;
}

/* Convert the permissions that a plan requires to those of a record. */
static inline uint32
steno_access_of(AclMode mode)
{
	uint32		access = 0;

	if (mode & ACL_SELECT)
		access |= STENO_ACCESS_SELECT;
	if (mode & ACL_INSERT)
		access |= STENO_ACCESS_INSERT;
	if (mode & ACL_UPDATE)
		access |= STENO_ACCESS_UPDATE;
	if (mode & ACL_DELETE)
		access |= STENO_ACCESS_DELETE;
	if (mode & ACL_TRUNCATE)
		access |= STENO_ACCESS_TRUNCATE;
	if (mode & ACL_REFERENCES)
		access |= STENO_ACCESS_REFERENCES;
	return access;
}

/* Index of the relation's name in the state of the process; -1 if it is not there. */
static inline int
steno_relation_near(Oid relid)
{
	int			i;

	for (i = 0; i < STENO_NEAR_RELATIONS; i++)
		if (steno_my.near_relids[i] == relid)
			return i;
	return -1;
}

/* Make the relation's name available to steno_relations_put, while catalogs can be read. */
static inline void
steno_relation_cache_name(Oid relid)
{
	int			i = steno_relation_near(relid);

	if (unlikely(i < 0))
		steno_relation_load_name(relid);
	else
		__builtin_prefetch(&steno_near[i]);
}

#pragma GCC visibility pop

#endif							/* STENO_RELATION_H */
