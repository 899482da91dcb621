/*
 * extension/describe/relation_cache.c
 *		What this process has looked up about relations, by their OIDs.
 *		Invalidation messages of the server are handled only here.
 */
#include "base/steno.h"

#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "describe/relation_cache.h"

/* When there are this many entries, those that the current statement has not used are removed. */
#define MOST_RELATIONS 4096

/* When names of columns take this many bytes, those that only earlier statements have used are freed. */
#define MOST_COLUMN_BYTES (1024 * 1024)

uint64		steno_relation_invalidations STENO_SESSION_DATA;

uint64		steno_relation_removals STENO_SESSION_DATA;

static HTAB *table STENO_SESSION_DATA;				/* NULL: the cache is empty */
static MemoryContext context STENO_SESSION_DATA;	/* of the table and the memory that entries point to */
static long most = MOST_RELATIONS;
static Size column_bytes STENO_SESSION_DATA;		/* of all names of columns */

/* Invalidate parts of one relation's entry, or of all entries if relid is InvalidOid. */
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

/* Discard what was made from names outside the entries. */
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
	invalidate_parts(relid, STENO_RELATION_NAME | STENO_RELATION_RULES | STENO_RELATION_GRANTS |
					 STENO_RELATION_COLUMNS | STENO_RELATION_VIEW);
}

/* The schema may have been renamed, which changes the qualified names of all its relations. */
static void
schema_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	forget_names(InvalidOid);
	invalidate_parts(InvalidOid, STENO_RELATION_NAME | STENO_RELATION_RULES);
}

static void
register_invalidation(void)
{
	static bool registered STENO_SESSION_DATA;

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

/* Whether only earlier statements have used an entry; the planner may use it before the statement has its number. */
static inline bool
is_unused(const StenoRelation *r)
{
	return r->used + 1 < steno_my.statement;
}

static void
free_names(StenoRelation *r)
{
	StenoColumnNames *names = r->names;

	r->valid &= ~STENO_RELATION_COLUMNS;
	r->names = NULL;
	if (names == NULL)
		return;
	column_bytes -= names->size;
	pfree(names);
}

/*
 * Replace the names of a relation's columns.  Other entries may lose theirs, but none that the
 * current statement uses: what the server keeps of these relations takes more memory.
 */
void
steno_relation_keep_columns(StenoRelation *r, StenoColumnNames *names)
{
	HASH_SEQ_STATUS all;
	StenoRelation *other;

	free_names(r);
	if (column_bytes + names->size > MOST_COLUMN_BYTES)
	{
		steno_relation_removals++;
		hash_seq_init(&all, table);
		while ((other = hash_seq_search(&all)) != NULL)
			if (is_unused(other))
				free_names(other);
	}
	r->names = names;
	column_bytes += names->size;
}

/* Free what is known of the relations in a view. */
void
steno_relation_forget_view(StenoRelation *r)
{
	StenoViewRelation *in_view = r->in_view;
	int			i;

	r->in_view = NULL;
	for (i = 0; i < r->in_view_count; i++)
		bms_free(in_view[i].columns);
	r->in_view_count = 0;
	if (in_view)
		pfree(in_view);
}

/*
 * Remove the entries that only earlier statements have used.  If one statement uses
 * most of them, all are removed, so that memory remains limited; the statement's
 * record may then have OIDs instead of names.
 */
static void
make_room_for_one(void)
{
	HASH_SEQ_STATUS all;
	StenoRelation *r;

	steno_relation_removals++;
	hash_seq_init(&all, table);
	while ((r = hash_seq_search(&all)) != NULL)
	{
		if (!is_unused(r))
			continue;
		free_matches(r);
		if (r->columns)
			pfree(r->columns);
		free_names(r);
		steno_relation_forget_view(r);
		(void) hash_search(table, &r->oid, HASH_REMOVE, NULL);
	}
	if (hash_get_num_entries(table) > MOST_RELATIONS / 2)
	{
		table = NULL;
		column_bytes = 0;
		MemoryContextReset(context);
	}
}

/*
 * Make room for count entries.  The caller is about to enter that many relations
 * and then reads them all, so none of them may be removed to make room for another:
 * a rule that names a relation of the statement could be missed.
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

/*
 * Create an entry; NULL if there is no memory for it.  Nothing but that can raise an error here, which
 * leaves the table as it is: the server's hash tables allocate before they change anything.
 */
STENO_COLD static StenoRelation *
create_entry(Oid relid)
{
	MemoryContext old = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	StenoRelation *volatile r = NULL;
	bool		found;

	PG_TRY();
	{
		if (table == NULL)
			start_table();
		r = hash_search(table, &relid, HASH_ENTER, &found);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		steno_forget_error();
		InterruptHoldoffCount = holdoff;	/* an error has set it to zero */
		return NULL;
	}
	PG_END_TRY();
	memset(r, 0, sizeof(*r));
	r->oid = relid;
	return r;
}

/*
 * Find or create the entry of a relation for the current statement; NULL if there is no memory for it.
 * Other entries may be removed.
 */
StenoRelation *
steno_relation_enter(Oid relid)
{
	StenoRelation *r = steno_relation_find(relid);

	if (r == NULL)
	{
		register_invalidation();
		if (table && hash_get_num_entries(table) >= most)
			make_room_for_one();
		r = create_entry(relid);
		if (r == NULL)
			return NULL;
	}
	r->used = steno_my.statement;
	return r;
}

/* The entry of a relation, whether or not its parts are valid; NULL if there is none. */
StenoRelation *
steno_relation_find(Oid relid)
{
	return table ? hash_search(table, &relid, HASH_FIND, NULL) : NULL;
}

/* Allocate memory that an entry points to; NULL if there is none. */
void *
steno_relation_alloc(Size size)
{
	return MemoryContextAllocExtended(context, size, MCXT_ALLOC_NO_OOM);
}

/* The session's rules have changed. */
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

/* steno.role, or its memberships, may have changed. */
void
steno_relations_forget_grants(void)
{
	invalidate_parts(InvalidOid, STENO_RELATION_GRANTS);
}
