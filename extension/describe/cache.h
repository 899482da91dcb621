/*
 * extension/describe/cache.h
 *		What this process has looked up of objects, by their OIDs.  An entry that was
 *		invalidated keeps what it says until the next statement that looks it up.
 */
#ifndef STENO_CACHE_H
#define STENO_CACHE_H

#include "utils/hsearch.h"

#pragma GCC visibility push(hidden)

/* What every entry begins with. */
typedef struct StenoCacheEntry
{
	Oid			oid;			/* key */
	bool		valid;
} StenoCacheEntry;

typedef struct StenoCache
{
	const char *name;			/* of its memory, too */
	Size		entry_size;
	long		most;			/* when there are more entries, it starts anew; 0: never */
	HTAB	   *table;			/* NULL: nothing is known */
	MemoryContext context;		/* of the table, and of what entries point to */
} StenoCache;

/* The entry of an object, all zeros when it is new. */
extern void *steno_cache_enter(StenoCache *cache, Oid oid);

/* Of one object, or, with InvalidOid, of all: what is known may be wrong. */
extern void steno_cache_invalidate(StenoCache *cache, Oid oid);

/* Nothing is known any more. */
extern void steno_cache_drop(StenoCache *cache);

/* The entry as it is, valid or not; NULL: there is none. */
static inline void *
steno_cache_find(const StenoCache *cache, Oid oid)
{
	return cache->table ? hash_search(cache->table, &oid, HASH_FIND, NULL) : NULL;
}

#pragma GCC visibility pop

#endif							/* STENO_CACHE_H */
