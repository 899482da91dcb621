/*
 * extension/describe/relation_cache.h
 *		What this process has looked up of relations, by their OIDs.
 *
 * An entry has three parts, each looked up by its own file: the name, what rules have
 * to know (policy/policy.c), and what steno.role has been granted
 * (policy/audit_role.c).  A part that was invalidated keeps what it says until
 * the next statement that looks it up: statements that end or fail, when catalogs
 * cannot be read, read what is there.
 */
#ifndef STENO_RELATION_CACHE_H
#define STENO_RELATION_CACHE_H

#include "base/steno.h"
#include "filter/rules.h"

#pragma GCC visibility push(hidden)

/* Parts of an entry; bits of its valid. */
#define STENO_RELATION_NAME 1
#define STENO_RELATION_RULES 2
#define STENO_RELATION_GRANTS 4

/* Qualified and quoted, the longest name that PostgreSQL can make. */
#define STENO_RELATION_NAME_MAX (4 * NAMEDATALEN + 5)

/* A column on which the role has been granted a privilege. */
typedef struct StenoGrantedColumn
{
	int			member;			/* as in the sets of a permission */
	AclMode		mode;
} StenoGrantedColumn;

/* All zeros when it is new. */
typedef struct StenoRelation
{
	Oid			oid;			/* key */
	uint8		valid;			/* STENO_RELATION_* */
	uint8		type;			/* STENO_RELTYPE_* */
	bool		in_catalog;		/* rules: it is in pg_catalog */
	uint16		name_len;
	int			column_count;	/* grants: of columns */
	uint64		used;			/* by the top-level statement of this number, the last one */
	StenoRuleMatches matches;	/* rules: those of the session's choice that name it */
	AclMode		granted;		/* grants: on the relation as a whole */
	AclMode		granted_on_any; /* grants: on one column at least */
	StenoGrantedColumn *columns;	/* grants: allocated in the cache; NULL: none */
	char		name[STENO_RELATION_NAME_MAX];
} StenoRelation;

/* Counts invalidations: one may come while we read what it is about. */
extern uint64 steno_relation_invalidations;

extern void steno_relations_expect(int count);
extern StenoRelation *steno_relation_enter(Oid relid);
extern StenoRelation *steno_relation_find(Oid relid);
extern void *steno_relation_alloc(Size size);
extern void steno_relations_forget_rules(void);
extern void steno_relations_forget_grants(void);

#pragma GCC visibility pop

#endif							/* STENO_RELATION_CACHE_H */
