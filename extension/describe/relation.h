/*
 * extension/describe/relation.h
 *		Relations: their names and types, and what statements do with them.
 */
#ifndef STENO_RELATION_H
#define STENO_RELATION_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

/* What a statement does with a relation.  It owns no memory but its own. */
typedef struct StenoAccess
{
	Oid			relid;
	uint32		access;			/* STENO_ACCESS_* */
} StenoAccess;

extern void steno_relation_load_name(Oid relid);
extern uint32 steno_relations_size(const StenoAccess *relations, int *count, int *shown, uint32 limit);
extern uint8 *steno_relations_put(uint8 *p, const StenoAccess *relations, int count, int shown);

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
		__builtin_prefetch(&steno_my.near[i]);
}

#pragma GCC visibility pop

#endif							/* STENO_RELATION_H */
