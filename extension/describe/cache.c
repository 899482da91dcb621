/*
 * extension/describe/cache.c
 *		What this process has looked up of objects, by their OIDs.
 */
#include "base/steno.h"

#include "utils/memutils.h"

#include "describe/cache.h"

static void
start(StenoCache *cache)
{
	HASHCTL		info = {0};

	steno_cache_drop(cache);
	if (cache->context == NULL)
	{
		cache->context = AllocSetContextCreate(TopMemoryContext, "pg_steno cache", ALLOCSET_DEFAULT_SIZES);
		MemoryContextSetIdentifier(cache->context, cache->name);
	}
	info.keysize = sizeof(Oid);
	info.entrysize = cache->entry_size;
	info.hcxt = cache->context;
	cache->table = hash_create(cache->name, 128, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void *
steno_cache_enter(StenoCache *cache, Oid oid)
{
	StenoCacheEntry *entry;
	bool		found;

	if (cache->table == NULL || (cache->most > 0 && hash_get_num_entries(cache->table) >= cache->most))
		start(cache);
	entry = hash_search(cache->table, &oid, HASH_ENTER, &found);
	if (!found)
	{
		memset(entry, 0, cache->entry_size);
		entry->oid = oid;
	}
	return entry;
}

void
steno_cache_invalidate(StenoCache *cache, Oid oid)
{
	HASH_SEQ_STATUS all;
	StenoCacheEntry *entry;

	if (cache->table == NULL)
		return;
	if (OidIsValid(oid))
	{
		entry = steno_cache_find(cache, oid);
		if (entry)
			entry->valid = false;
		return;
	}
	hash_seq_init(&all, cache->table);
	while ((entry = hash_seq_search(&all)) != NULL)
		entry->valid = false;
}

void
steno_cache_drop(StenoCache *cache)
{
	cache->table = NULL;
	if (cache->context)
		MemoryContextReset(cache->context);
}
