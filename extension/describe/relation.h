/*
 * extension/describe/relation.h
 *		Relations: their names and types, and what statements do with them.
 */
#ifndef STENO_RELATION_H
#define STENO_RELATION_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

/* What a statement does with a relation: two numbers, which belong to whoever has the array of them. */
typedef struct StenoAccess
{
	Oid			relid;
	uint32		access;			/* STENO_ACCESS_* */
} StenoAccess;

extern void steno_relation_learn(Oid relid);
extern uint32 steno_relations_size(const StenoAccess *relations, int *count, int *shown, uint32 limit);
extern uint8 *steno_relations_put(uint8 *p, const StenoAccess *relations, int count, int shown);

/* Permissions that a plan asks for, as a record has them. */
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

/* Where the relation's name is at hand; -1: nowhere. */
static inline int
steno_relation_near(Oid relid)
{
	int			i;

	for (i = 0; i < STENO_NEAR_RELATIONS; i++)
		if (steno_my.near_relids[i] == relid)
			return i;
	return -1;
}

/* Have the relation's name ready for steno_relations_put. */
static inline void
steno_relation_know(Oid relid)
{
	int			i = steno_relation_near(relid);

	if (unlikely(i < 0))
		steno_relation_learn(relid);
	else
		__builtin_prefetch(&steno_my.near[i]);
}

#pragma GCC visibility pop

#endif							/* STENO_RELATION_H */
