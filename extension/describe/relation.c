/*
 * extension/describe/relation.c
 *		Names and types of relations, from a cache of this process that is
 *		invalidated as the server's own caches are.
 *
 * A name is looked up when a statement starts; when it ends, which may be a
 * failure, the cache alone is read.  An invalidated entry keeps its name until
 * the next statement that starts with it.
 */
#include "base/steno.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "describe/cache.h"
#include "describe/relation.h"

/* Qualified and quoted, the longest name that PostgreSQL can make. */
#define NAME_MAX_LEN (4 * NAMEDATALEN + 5)

/* Known relations; when there are more, the cache starts anew. */
#define MOST_RELATIONS 10000

typedef struct Known
{
	StenoCacheEntry known;
	uint8		type;
	uint16		len;
	char	   *name;
} Known;

static StenoCache cache = {
	.name = "pg_steno relations", .entry_size = sizeof(Known), .most = MOST_RELATIONS
};

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

static void
invalidate(Datum arg, Oid relid)
{
	int			i;

	steno_forget_shapes();
	for (i = 0; i < STENO_NEAR_RELATIONS; i++)
		if (!OidIsValid(relid) || steno_my.near_relids[i] == relid)
			steno_my.near_relids[i] = InvalidOid;
	steno_cache_invalidate(&cache, relid);
}

/* A schema was renamed, perhaps: all names are in doubt. */
static void
invalidate_all(Datum arg, int cacheid, uint32 hashvalue)
{
	invalidate(arg, InvalidOid);
}

static void
register_callbacks(void)
{
	static bool registered;

	if (registered)
		return;
	CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, invalidate_all, (Datum) 0);
	registered = true;
}

static void
look_up(Known *k)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(k->known.oid));

	k->type = STENO_RELTYPE_OTHER;
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);
		char	   *namespace = get_namespace_name(class->relnamespace);
		char	   *name;

		name = quote_qualified_identifier(namespace ? namespace : "?",
										  NameStr(class->relname));
		k->type = relation_type(class->relkind);
		k->len = strlen(name);
		if (k->len > NAME_MAX_LEN)
			k->len = NAME_MAX_LEN;
		memcpy(k->name, name, k->len);
		pfree(name);
		if (namespace)
			pfree(namespace);
		ReleaseSysCache(tuple);
	}
	else
		k->len = snprintf(k->name, NAME_MAX_LEN, "%u", k->known.oid);
	k->known.valid = true;
}

/* Keep the name at hand: most statements need no more. */
static void
keep_near(const Known *k)
{
	StenoNearRelation *near = &steno_my.near[steno_my.near_next];

	if (k->len > STENO_NEAR_NAME)
		return;
	steno_my.near_relids[steno_my.near_next] = k->known.oid;
	steno_my.near_next = (steno_my.near_next + 1) % STENO_NEAR_RELATIONS;
	near->type = k->type;
	near->len = k->len;
	memcpy(near->name, k->name, k->len);
}

/* Look the name up, if the cache has it not. */
STENO_COLD void
steno_relation_learn(Oid relid)
{
	Known	   *k;

	register_callbacks();
	k = steno_cache_enter(&cache, relid);
	if (k->name == NULL)
		k->name = MemoryContextAlloc(cache.context, NAME_MAX_LEN);
	if (!k->known.valid)
		look_up(k);
	keep_near(k);
}

STENO_COLD static Known *
find_known(Oid relid)
{
	return steno_cache_find(&cache, relid);
}

/* Room that steno_relation_put needs. */
STENO_HOT uint32
steno_relation_size(Oid relid)
{
	int			i = steno_relation_near(relid);
	Known	   *k;

	if (likely(i >= 0))
		return steno_my.near[i].len + 8;
	k = find_known(relid);
	return (k ? k->len : 10) + 8;
}

/* Put type, access and name of a relation, as a shape has them. */
STENO_HOT uint8 *
steno_relation_put(uint8 *p, Oid relid, uint32 access)
{
	int			i = steno_relation_near(relid);
	Known	   *k = i >= 0 ? NULL : find_known(relid);
	char		number[16];
	const char *name = number;
	uint32		len;
	uint8		type = STENO_RELTYPE_OTHER;

	if (i >= 0)
	{
		name = steno_my.near[i].name;
		len = steno_my.near[i].len;
		type = steno_my.near[i].type;
	}
	else if (k)
	{
		name = k->name;
		len = k->len;
		type = k->type;
	}
	else
		len = snprintf(number, sizeof(number), "%u", relid);
	*p++ = type;
	p = steno_put_varint(p, access);
	p = steno_put_varint(p, len);
	memcpy(p, name, len);
	return p + len;
}

STENO_HOT uint32
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
