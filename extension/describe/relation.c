/*
 * extension/describe/relation.c
 *		Names and types of relations.
 *
 * Names are looked up when a statement starts.  When it ends, only the cache is
 * read (relation_cache.h), because it may have failed, and catalogs cannot be read
 * then.
 */
#include "base/steno.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "describe/relation.h"
#include "describe/relation_cache.h"
#include "value/defaults.h"

StenoNearRelation steno_near[STENO_NEAR_RELATIONS] STENO_SESSION_DATA __attribute__((aligned(STENO_CACHE_LINE)));

static int
relation_type(char relkind)
{
	switch (relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
			return STENO_RELTYPE_TABLE;
		case RELKIND_VIEW:
			return STENO_RELTYPE_VIEW;
		case RELKIND_MATVIEW:
			return STENO_RELTYPE_MATVIEW;
		case RELKIND_SEQUENCE:
			return STENO_RELTYPE_SEQUENCE;
		case RELKIND_FOREIGN_TABLE:
			return STENO_RELTYPE_FOREIGN_TABLE;
		case RELKIND_TOASTVALUE:
			return STENO_RELTYPE_TOAST;
		case RELKIND_INDEX:
		case RELKIND_PARTITIONED_INDEX:
			return STENO_RELTYPE_INDEX;
		case RELKIND_COMPOSITE_TYPE:
			return STENO_RELTYPE_TYPE;
		default:
			return STENO_RELTYPE_OTHER;
	}
}

/*
 * Name of a schema, or NULL.  Sessions with the usual search path have looked up schema public by
 * its name, so that a first statement does not have to read pg_namespace to find it by its OID.
 */
static char *
schema_name(Oid schema)
{
	if (schema == PG_PUBLIC_NAMESPACE &&
		GetSysCacheOid1(NAMESPACENAME, Anum_pg_namespace_oid, CStringGetDatum("public")) == schema)
		return pstrdup("public");
	return get_namespace_name(schema);
}

static void
look_up_name(StenoRelation *r)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(r->oid));

	r->type = STENO_RELTYPE_OTHER;
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);
		char	   *namespace = schema_name(class->relnamespace);
		char	   *name;

		name = steno_quote_qualified(namespace ? namespace : "?",
										  NameStr(class->relname));
		r->type = relation_type(class->relkind);
		r->name_len = strlen(name);
		if (r->name_len > STENO_RELATION_NAME_MAX)
			r->name_len = STENO_RELATION_NAME_MAX;
		memcpy(r->name, name, r->name_len);
		pfree(name);
		if (namespace)
			pfree(namespace);
		ReleaseSysCache(tuple);
	}
	else
		r->name_len = snprintf(r->name, STENO_RELATION_NAME_MAX, "%u", r->oid);
	r->valid |= STENO_RELATION_NAME;
}

/* Copy the name to the state of the process, where most statements find all names they need. */
static void
remember_name(const StenoRelation *r)
{
	StenoNearRelation *near = &steno_near[steno_my.near_next];

	if (r->name_len > STENO_NEAR_NAME)
		return;
	steno_my.near_relids[steno_my.near_next] = r->oid;
	steno_my.near_next = (steno_my.near_next + 1) % STENO_NEAR_RELATIONS;
	near->type = r->type;
	near->len = r->name_len;
	memcpy(near->name, r->name, r->name_len);
}

/*
 * Look the name up, unless it is in the cache, and copy it to the state of the process.  If there is no
 * memory for it, the relation is recorded by its OID.
 */
STENO_COLD void
steno_relation_load_name(Oid relid)
{
	StenoRelation *r = steno_relation_enter(relid);

	if (r == NULL)
		return;
	if (!(r->valid & STENO_RELATION_NAME))
		look_up_name(r);
	remember_name(r);
}

/*
 * The cache entry of a relation; NULL if there is none, or it has no name.  The
 * relation is then recorded by its OID.
 */
STENO_COLD static StenoRelation *
find_named(Oid relid)
{
	StenoRelation *r = steno_relation_find(relid);

	return r && r->name_len > 0 ? r : NULL;
}

/* Upper bound of the bytes that put_relation writes. */
static inline uint32
relation_size(Oid relid)
{
	int			i = steno_relation_near(relid);
	StenoRelation *r;

	if (likely(i >= 0))
		return steno_near[i].len + 8;
	r = find_named(relid);
	return (r ? r->name_len : 10) + 8;
}

static pg_attribute_always_inline uint8 *
put_named(uint8 *p, uint8 type, uint32 access, const char *name, uint32 len)
{
	*p++ = type;
	p = steno_put_varint(p, access);
	p = steno_put_varint(p, len);
	memcpy(p, name, len);
	return p + len;
}

/* Put a relation whose name is not in the state of the process. */
STENO_COLD static uint8 *
put_cached_relation(uint8 *p, Oid relid, uint32 access)
{
	const StenoRelation *r = find_named(relid);
	char		number[16];

	if (r)
		return put_named(p, r->type, access, r->name, r->name_len);
	return put_named(p, STENO_RELTYPE_OTHER, access, number, snprintf(number, sizeof(number), "%u", relid));
}

/* Type, access and name of a relation. */
static inline uint8 *
put_relation(uint8 *p, Oid relid, uint32 access)
{
	int			i = steno_relation_near(relid);

	if (likely(i >= 0))
		return put_named(p, steno_near[i].type, access, steno_near[i].name, steno_near[i].len);
	return put_cached_relation(p, relid, access);
}

/* The same for one that is put alone; steno_relation_size is what it takes at most. */
STENO_COLD uint8 *
steno_relation_put(uint8 *p, Oid relid, uint32 access)
{
	return put_relation(p, relid, access);
}

STENO_COLD uint32
steno_relation_size(Oid relid)
{
	return relation_size(relid);
}

/* The order of relations when there are too many. */
typedef enum Rank
{
	RANK_DATA,
	RANK_SHOWS_DATA,			/* views and the like */
	RANK_PART,					/* of what has data */
	RANK_MERGED					/* with another entry of the list */
} Rank;

static Rank
rank_of_relation(const StenoAccess *access)
{
	int			near = steno_relation_near(access->relid);
	const StenoRelation *r = near < 0 ? find_named(access->relid) : NULL;

	switch (near >= 0 ? steno_near[near].type : r ? r->type : STENO_RELTYPE_OTHER)
	{
		case STENO_RELTYPE_TABLE:
		case STENO_RELTYPE_FOREIGN_TABLE:
		case STENO_RELTYPE_MATVIEW:
			return RANK_DATA;
		case STENO_RELTYPE_INDEX:
		case STENO_RELTYPE_TOAST:
			return RANK_PART;
		default:
			return RANK_SHOWS_DATA;
	}
}

/*
 * The shape has no space for all relations: put tables first, so that nobody hides one behind many views
 * from those who see the beginning only.  Those that are merged into others come last.
 */
STENO_COLD void
steno_relations_put_tables_first(StenoAccess *to, int *moved, const StenoAccess *from, int count)
{
	int			n = 0;
	Rank		rank;
	int			i;

	for (rank = RANK_DATA; rank <= RANK_MERGED; rank++)
		for (i = 0; i < count; i++)
			if (rank == (from[i].first != i ? RANK_MERGED : rank_of_relation(&from[i])))
			{
				moved[i] = n;
				to[n++] = from[i];
			}
	for (i = 0; i < count; i++)
	{
		to[i].first = moved[to[i].first];
		if (to[i].next != 0)
			to[i].next = moved[to[i].next];
	}
}

/*
 * Upper bound of the bytes that steno_relations_put writes for the relations that
 * are shown; *shown is their number.  If the bound would exceed limit, together with what
 * their columns need at least, *count is reduced, and the relations from there on are omitted.
 */
STENO_HOT uint32
steno_relations_size(const StenoAccess *relations, int *count, int *shown, uint32 limit)
{
	uint32		size = 0;
	int			n = 0;
	int			i;

	for (i = 0; i < *count; i++)
	{
		uint32		more;

		if (unlikely(!steno_relation_is_shown(relations, i)))
			continue;
		more = relation_size(relations[i].relid);
		if (unlikely(size + more + (n + 1) * STENO_COLUMNS_LEAST > limit))
		{
			*count = i;
			break;
		}
		size += more;
		n++;
	}
	*shown = n;
	return size;
}

/* Encode relations as a part of a shape. */
STENO_HOT uint8 *
steno_relations_put(uint8 *p, const StenoAccess *relations, int count, int shown)
{
	int			i;

	p = steno_put_varint(p, shown);
	for (i = 0; i < count; i++)
		if (likely(steno_relation_is_shown(relations, i)))
			p = put_relation(p, relations[i].relid, relations[i].access);
	return p;
}
