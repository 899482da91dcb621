/*
 * extension/describe/relation_cache.h
 *		What this process has looked up about relations, by their OIDs.
 *
 * An entry has five parts, which are looked up by files of their own: the name, the
 * names of the columns and, for a view, the relations in it (column.c), what rules
 * need (policy/policy.c), and what steno.role has been granted (policy/audit_role.c).
 * An invalidated part keeps its value until a statement
 * looks it up again, because statements that end or fail when catalogs cannot be
 * read use the value that is there.
 */
#ifndef STENO_RELATION_CACHE_H
#define STENO_RELATION_CACHE_H

#include "base/steno.h"
#include "filter/rules.h"

#pragma GCC visibility push(hidden)

/* Parts of an entry: bits of valid. */
#define STENO_RELATION_NAME 1
#define STENO_RELATION_RULES 2
#define STENO_RELATION_GRANTS 4
#define STENO_RELATION_COLUMNS 8
#define STENO_RELATION_VIEW 16

/* Length of the longest name that PostgreSQL can make, qualified and quoted. */
#define STENO_RELATION_NAME_MAX (4 * NAMEDATALEN + 5)

/* A column on which steno.role has been granted privileges. */
typedef struct StenoGrantedColumn
{
	int			member;			/* attribute number, offset as in the column sets of a permission */
	AclMode		mode;
} StenoGrantedColumn;

/*
 * The names of a relation's columns, quoted where SQL would need it.  The name of column n is at
 * ends[n - 1] to ends[n]; that of a dropped one is empty.
 */
typedef struct StenoColumnNames
{
	Size		size;			/* bytes that it takes */
	int			count;
	uint32		ends[FLEXIBLE_ARRAY_MEMBER];	/* count + 1; the names follow */
} StenoColumnNames;

/* A relation in the query of a view. */
typedef struct StenoViewRelation
{
	Oid			relid;
	Oid			user_id;		/* who must have the permission; InvalidOid: the user of the view */
	Bitmapset  *columns;		/* that the view reads; allocated in the cache */
} StenoViewRelation;

/* A new entry is all zeros, apart from its key. */
typedef struct StenoRelation
{
	Oid			oid;			/* key */
	uint8		valid;			/* STENO_RELATION_* */
	uint8		type;			/* STENO_RELTYPE_* */
	bool		in_catalog;		/* rules: whether it is in pg_catalog */
	bool		any_column;		/* grants: there was no memory for columns; any of them may be meant */
	uint16		name_len;
	int			column_count;	/* grants: length of columns */
	uint64		used;			/* number of the last top-level statement that used it */
	StenoRuleMatches matches;	/* rules: those of the session's rules that name it */
	AclMode		granted;		/* grants: on the relation as a whole */
	AclMode		granted_on_any; /* grants: on one column at least */
	StenoGrantedColumn *columns;	/* grants: allocated in the cache; NULL: none */
	StenoColumnNames *names;	/* columns: allocated in the cache; NULL: none */
	int			in_view_count;	/* view: length of in_view */
	StenoViewRelation *in_view; /* view: allocated in the cache; NULL: none */
	char		name[STENO_RELATION_NAME_MAX];
} StenoRelation;

/*
 * Number of invalidations so far.  A lookup compares it before and after: an
 * invalidation may arrive while it reads the catalogs.
 */
extern uint64 steno_relation_invalidations;

/* Number of times that something was removed although it was valid. */
extern uint64 steno_relation_removals;

/* Differs once anything has been invalidated or removed: what was valid before may be so no more. */
static inline uint64
steno_relation_cache_version(void)
{
	return steno_relation_invalidations + steno_relation_removals;
}

extern void steno_relations_expect(int count);
extern StenoRelation *steno_relation_enter(Oid relid);
extern StenoRelation *steno_relation_find(Oid relid);
extern void *steno_relation_alloc(Size size);
extern void steno_relation_keep_columns(StenoRelation *r, StenoColumnNames *names);
extern void steno_relation_forget_view(StenoRelation *r);
extern void steno_relations_forget_rules(void);
extern void steno_relations_forget_grants(void);

#pragma GCC visibility pop

#endif							/* STENO_RELATION_CACHE_H */
