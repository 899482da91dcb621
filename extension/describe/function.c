/*
 * extension/describe/function.c
 *		Names and kinds of functions that statements call, from a cache of this
 *		process that invalidation messages of the server keep correct.
 *
 * Functions of pg_catalog are omitted: they include those of operators and casts,
 * which nearly every statement uses.
 */
#include "base/steno.h"

#include "access/htup_details.h"
#include "catalog/catalog.h"
#include "catalog/pg_proc.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/defaults.h"
#include "describe/object.h"

/*
 * Size of the longest name that PostgreSQL can make, qualified and quoted, with its
 * terminating zero.
 */
#define NAME_ROOM (4 * NAMEDATALEN + 6)

/* Maximum number of entries; when it is exceeded, the cache is emptied. */
#define MOST_FUNCTIONS 10000

typedef struct Known
{
	Oid			function;		/* key */
	uint32		hash;			/* of its entry in the server's cache */
	bool		valid;
	bool		left_out;
	const char *kind;
	char	   *name;
} Known;

static HTAB *cache;
static MemoryContext cache_context;

/* Invalidate the function with this hash, or all if it is 0. */
static void
forget_functions(Datum arg, int cacheid, uint32 hash)
{
	HASH_SEQ_STATUS all;
	Known	   *k;

	if (cache == NULL)
		return;
	if (cacheid != PROCOID)
		hash = 0;				/* a schema may have been renamed */
	hash_seq_init(&all, cache);
	while ((k = hash_seq_search(&all)) != NULL)
		if (hash == 0 || k->hash == hash)
			k->valid = false;
}

static void
start_function_cache(void)
{
	HASHCTL		info = {0};
	static bool registered;

	cache = NULL;
	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(TopMemoryContext, "pg_steno functions",
											  ALLOCSET_DEFAULT_SIZES);
	else
		MemoryContextReset(cache_context);
	info.keysize = sizeof(Oid);
	info.entrysize = sizeof(Known);
	info.hcxt = cache_context;
	cache = hash_create("pg_steno functions", 64, &info,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	if (!registered)
	{
		CacheRegisterSyscacheCallback(PROCOID, forget_functions, (Datum) 0);
		CacheRegisterSyscacheCallback(NAMESPACEOID, forget_functions, (Datum) 0);
		registered = true;
	}
}

static const char *
function_kind_name(char kind)
{
	switch (kind)
	{
		case PROKIND_AGGREGATE:
			return "aggregate";
		case PROKIND_PROCEDURE:
			return "procedure";
		default:
			return "function";
	}
}

static void
look_up_function(Known *k)
{
	HeapTuple	tuple;
	Form_pg_proc proc;
	char	   *namespace;
	char	   *name;

	/* set before the lookup, during which an invalidation can arrive */
	k->valid = true;
	k->left_out = false;
	k->kind = "function";
	snprintf(k->name, NAME_ROOM, "%u", k->function);
	k->hash = GetSysCacheHashValue1(PROCOID, ObjectIdGetDatum(k->function));
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(k->function));
	if (!HeapTupleIsValid(tuple))
		return;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	k->left_out = IsCatalogNamespace(proc->pronamespace);
	k->kind = function_kind_name(proc->prokind);
	namespace = get_namespace_name(proc->pronamespace);
	name = steno_quote_qualified(namespace ? namespace : "?", NameStr(proc->proname));
	strlcpy(k->name, name, NAME_ROOM);
	pfree(name);
	if (namespace)
		pfree(namespace);
	ReleaseSysCache(tuple);
}

/*
 * A function's qualified name and its kind; NULL for a function of pg_catalog,
 * unless catalog is true.
 */
const char *
steno_function_name(Oid function, bool catalog, const char **kind)
{
	Known	   *k;
	bool		found;

	if (cache == NULL || hash_get_num_entries(cache) >= MOST_FUNCTIONS)
		start_function_cache();
	k = hash_search(cache, &function, HASH_ENTER, &found);
	if (!found)
	{
		k->valid = false;
		k->name = NULL;
	}
	if (k->name == NULL)
		k->name = MemoryContextAlloc(cache_context, NAME_ROOM);
	if (!k->valid)
		look_up_function(k);
	*kind = k->kind;
	return k->left_out && !catalog ? NULL : k->name;
}
