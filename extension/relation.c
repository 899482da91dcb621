/*
 * extension/relation.c
 *		Names and types of relations, from a cache of this process that is
 *		invalidated as the server's own caches are.
 *
 * A name is looked up when a statement starts; when it ends, which may be a
 * failure, the cache alone is read.  An invalidated entry keeps its name until
 * the next statement that starts with it.
 */
#include "steno.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* Qualified and quoted, the longest name that PostgreSQL can make. */
#define NAME_MAX_LEN (4 * NAMEDATALEN + 5)

/* Known relations; when there are more, the cache starts anew. */
#define MOST_RELATIONS 10000

typedef struct Known
{
	Oid			relid;			/* key */
	bool		valid;
	uint8		type;
	uint16		len;
	char	   *name;
} Known;

static HTAB *cache;
static MemoryContext cache_context;

/* The two relations asked for last: most statements need no search. */
static Known *recent[2];

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
	HASH_SEQ_STATUS all;
	Known	   *k;

	if (cache == NULL)
		return;
	if (OidIsValid(relid))
	{
		k = hash_search(cache, &relid, HASH_FIND, NULL);
		if (k)
			k->valid = false;
		return;
	}
	hash_seq_init(&all, cache);
	while ((k = hash_seq_search(&all)) != NULL)
		k->valid = false;
}

/* A schema was renamed, perhaps: all names are in doubt. */
static void
invalidate_all(Datum arg, int cacheid, uint32 hashvalue)
{
	invalidate(arg, InvalidOid);
}

static void
start_cache(void)
{
	HASHCTL		info = {0};
	static bool registered;

	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(TopMemoryContext, "pg_steno relations",
											  ALLOCSET_DEFAULT_SIZES);
	else
		MemoryContextReset(cache_context);
	cache = NULL;
	recent[0] = recent[1] = NULL;
	info.keysize = sizeof(Oid);
	info.entrysize = sizeof(Known);
	info.hcxt = cache_context;
	cache = hash_create("pg_steno relations", 128, &info,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	if (!registered)
	{
		CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
		CacheRegisterSyscacheCallback(NAMESPACEOID, invalidate_all, (Datum) 0);
		registered = true;
	}
}

static void
look_up(Known *k)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(k->relid));

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
		k->len = snprintf(k->name, NAME_MAX_LEN, "%u", k->relid);
	k->valid = true;
}

/* Have the relation's name ready for steno_relation_put. */
void
steno_relation_know(Oid relid)
{
	Known	   *k;
	bool		found;

	if (recent[0] && recent[0]->relid == relid && recent[0]->valid)
		return;
	if (recent[1] && recent[1]->relid == relid && recent[1]->valid)
		return;
	if (cache == NULL || hash_get_num_entries(cache) >= MOST_RELATIONS)
		start_cache();
	k = hash_search(cache, &relid, HASH_ENTER, &found);
	if (!found)
	{
		k->valid = false;
		k->len = 0;
		k->name = NULL;
	}
	if (k->name == NULL)
		k->name = MemoryContextAlloc(cache_context, NAME_MAX_LEN);
	if (!k->valid)
		look_up(k);
	recent[1] = recent[0];
	recent[0] = k;
}

/* Put type, access and name of a relation, as a shape has them. */
void
steno_relation_put(StringInfo shape, Oid relid, uint32 access)
{
	Known	   *k = NULL;

	if (recent[0] && recent[0]->relid == relid)
		k = recent[0];
	else if (recent[1] && recent[1]->relid == relid)
		k = recent[1];
	else if (cache)
		k = hash_search(cache, &relid, HASH_FIND, NULL);
	appendStringInfoCharMacro(shape, k ? k->type : STENO_RELTYPE_OTHER);
	steno_put_number(shape, access);
	if (k)
		steno_put_string(shape, k->name, k->len);
	else
	{
		char		number[16];

		steno_put_string(shape, number, snprintf(number, sizeof(number), "%u", relid));
	}
}

uint32
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
