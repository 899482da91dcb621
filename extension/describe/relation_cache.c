/*
 * extension/describe/relation_cache.c
 *		What this process has looked up of relations, by their OIDs; the one place
 *		where the server's invalidation messages make it invalid.
 */
#include "base/steno.h"

#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "describe/relation_cache.h"

/* With so many entries, those that the present statement has not used go. */
#define MOST_RELATIONS 10000

uint64		steno_relation_invalidations;

static HTAB *table;				/* NULL: it is empty */
static MemoryContext context;	/* of the table, and of what entries point to */
static long most = MOST_RELATIONS;

/* Parts of one relation, or, with InvalidOid, of all, may be wrong. */
static void
invalidate_parts(Oid relid, uint8 parts)
{
	HASH_SEQ_STATUS all;
	StenoRelation *r;

	steno_relation_invalidations++;
	if (table == NULL)
		return;
	if (OidIsValid(relid))
	{
		r = steno_relation_find(relid);
		if (r)
			r->valid &= ~parts;
		return;
	}
	hash_seq_init(&all, table);
	while ((r = hash_seq_search(&all)) != NULL)
		r->valid &= ~parts;
}

/* What was made from names, and has no entry of its own, is forgotten at once. */
static void
forget_names(Oid relid)
{
	int			i;

	steno_forget_shapes();
	for (i = 0; i < STENO_NEAR_RELATIONS; i++)
		if (!OidIsValid(relid) || steno_my.near_relids[i] == relid)
			steno_my.near_relids[i] = InvalidOid;
}

static void
relation_changed(Datum arg, Oid relid)
{
	forget_names(relid);
	invalidate_parts(relid, STENO_RELATION_NAME | STENO_RELATION_RULES | STENO_RELATION_GRANTS);
}

/* It may have another name now, and with it all of its relations. */
static void
schema_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	forget_names(InvalidOid);
	invalidate_parts(InvalidOid, STENO_RELATION_NAME | STENO_RELATION_RULES);
}

static void
register_invalidation(void)
{
	static bool registered;

	if (registered)
		return;
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, (Datum) 0);
	registered = true;
}

static void
start_table(void)
{
	HASHCTL		info = {0};

	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "pg_steno relations", ALLOCSET_DEFAULT_SIZES);
	info.keysize = sizeof(Oid);
	info.entrysize = sizeof(StenoRelation);
	info.hcxt = context;
	table = hash_create("pg_steno relations", 128, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
free_matches(StenoRelation *r)
{
	if (r->matches.indexes)
		pfree(unconstify(uint32_t *, r->matches.indexes));
	r->matches = (StenoRuleMatches) {NULL, 0};
}

/*
 * Remove the entries that older statements have used.  When one statement uses most of
 * them, all are removed: memory stays limited, and the statement's record may have
 * OIDs for names.
 */
static void
make_room_for_one(void)
{
	HASH_SEQ_STATUS all;
	StenoRelation *r;

	hash_seq_init(&all, table);
	while ((r = hash_seq_search(&all)) != NULL)
	{
		/* planning may have used it before the statement got its number */
		if (r->used + 1 >= steno_my.statement)
			continue;
		free_matches(r);
		if (r->columns)
			pfree(r->columns);
		(void) hash_search(table, &r->oid, HASH_REMOVE, NULL);
	}
	if (hash_get_num_entries(table) > MOST_RELATIONS / 2)
	{
		table = NULL;
		MemoryContextReset(context);
	}
}

/*
 * The caller enters so many relations next, and then reads them all: none of them may be
 * removed to make room for another.  Without this, a rule that names a relation of a
 * statement could be missed.
 */
void
steno_relations_expect(int count)
{
	long		entries = table ? hash_get_num_entries(table) : 0;

	if (entries + count > MOST_RELATIONS && entries > 0)
	{
		make_room_for_one();
		entries = table ? hash_get_num_entries(table) : 0;
	}
	most = Max(MOST_RELATIONS, entries + count);
}

/* The entry of a relation, for the present statement.  Others may be gone. */
StenoRelation *
steno_relation_enter(Oid relid)
{
	StenoRelation *r = steno_relation_find(relid);
	bool		found;

	if (r == NULL)
	{
		register_invalidation();
		if (table && hash_get_num_entries(table) >= most)
			make_room_for_one();
		if (table == NULL)
			start_table();
		r = hash_search(table, &relid, HASH_ENTER, &found);
		memset(r, 0, sizeof(*r));
		r->oid = relid;
	}
	r->used = steno_my.statement;
	return r;
}

/* The entry as it is, its parts valid or not; NULL: there is none. */
StenoRelation *
steno_relation_find(Oid relid)
{
	return table ? hash_search(table, &relid, HASH_FIND, NULL) : NULL;
}

/* Memory for what an entry points to. */
void *
steno_relation_alloc(Size size)
{
	return MemoryContextAlloc(context, size);
}

/* Other rules hold for this session. */
void
steno_relations_forget_rules(void)
{
	HASH_SEQ_STATUS all;
	StenoRelation *r;

	if (table == NULL)
		return;
	hash_seq_init(&all, table);
	while ((r = hash_seq_search(&all)) != NULL)
	{
		r->valid &= ~STENO_RELATION_RULES;
		r->in_catalog = false;
		free_matches(r);
	}
}

/* The role, or what it is a member of, may be another one. */
void
steno_relations_forget_grants(void)
{
	invalidate_parts(InvalidOid, STENO_RELATION_GRANTS);
}
