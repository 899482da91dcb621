/*
 * extension/describe/object_name.c
 *		Types and names of objects of all kinds, as in the server's own descriptions
 *		of objects; the tables to which they belong, and those that they depend on.
 *
 * This code runs in the middle of a user's DDL statement.  An error in a lookup
 * must not fail that statement, so it is caught, its effects are undone, and the
 * object is recorded by its OID.  Errors that do not concern the object, such as
 * those of a failing disk, also fail the statement.
 */
#include "base/steno.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_publication_namespace.h"
#include "catalog/pg_publication_rel.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_subscription.h"
#include "catalog/pg_subscription_rel.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "describe/object.h"
#include "value/defaults.h"

static MemoryContext context;

static bool
may_swallow_error(int code)
{
	switch (ERRCODE_TO_CATEGORY(code))
	{
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
			return false;
		default:
			return code != ERRCODE_DATA_CORRUPTED && code != ERRCODE_INDEX_CORRUPTED;
	}
}

static void
release_resources(ResourceOwner owner, ResourceOwner outer, bool ok)
{
	CurrentResourceOwner = owner;
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, ok, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, ok, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, ok, false);
	CurrentResourceOwner = outer;
	ResourceOwnerDelete(owner);
}

/*
 * Call a function that reads catalogs, in a memory context that is reset
 * afterwards; returns whether it succeeded.  Interrupts are held until it returns,
 * and its errors are not reported.
 */
bool
steno_object_guarded(void (*work) (void *arg), void *arg)
{
	MemoryContext old = CurrentMemoryContext;
	ErrorContextCallback *callbacks = error_context_stack;
	ResourceOwner outer = CurrentResourceOwner;
	ResourceOwner owner;
	uint32		holdoff = InterruptHoldoffCount;
	volatile bool ok = false;

	if (!IsTransactionState() || outer == NULL)
		return false;

	/* calls can be nested, and then use the same memory context */
	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "pg_steno object names",
										ALLOCSET_SMALL_SIZES);
	owner = ResourceOwnerCreate(outer, "pg_steno");
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		error_context_stack = NULL;
		CurrentResourceOwner = owner;
		MemoryContextSwitchTo(context);
		work(arg);
		ok = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		error_context_stack = callbacks;
		/* while another error is being reported, none must get out */
		if (steno_handled == NULL && !may_swallow_error(geterrcode()))
		{
			CurrentResourceOwner = outer;
			PG_RE_THROW();
		}
		steno_forget_error();
	}
	PG_END_TRY();
	error_context_stack = callbacks;
	MemoryContextSwitchTo(old);
	release_resources(owner, outer, ok);
	if (old != context)
		MemoryContextReset(context);
	InterruptHoldoffCount = holdoff;	/* the error has set it to zero */
	return ok;
}

/* ---- parts of other objects ---- */

/*
 * Row types, array types and multirange types are created and dropped with another
 * object, which may have been dropped already by the same DROP: the element type of
 * an array, or the relation of a composite type.  The latter is a type that users
 * name.
 */
static bool
is_implied_type(Oid oid)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(oid));
	Form_pg_type type;
	Oid			array;
	char		relkind;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	type = (Form_pg_type) GETSTRUCT(tuple);
	if (OidIsValid(type->typrelid))
	{
		relkind = get_rel_relkind(type->typrelid);
		result = relkind != RELKIND_COMPOSITE_TYPE && relkind != '\0';
	}
	else if (IsTrueArrayType(type))
	{
		array = get_array_type(type->typelem);
		result = array == oid || !OidIsValid(array);
	}
	else
		result = type->typtype == TYPTYPE_MULTIRANGE;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * TOAST tables and their indexes; the relation of a composite type, which is
 * recorded as the type, but not its columns.
 */
static bool
is_implied_relation(const ObjectAddress *object)
{
	return IsToastNamespace(get_rel_namespace(object->objectId)) ||
		(object->objectSubId == 0 && get_rel_relkind(object->objectId) == RELKIND_COMPOSITE_TYPE);
}

/* A session's schemas for temporary tables, which the server creates with the first of them. */
static bool
is_implied_schema(Oid oid)
{
	return isAnyTempNamespace(oid);
}

static bool
begins_with(const char *s, const char *beginning)
{
	return strncmp(s, beginning, strlen(beginning)) == 0;
}

/*
 * Replace an object by the one that users know it as: the relation of a composite
 * type by the type.
 */
void
steno_object_redirect(ObjectAddress *object)
{
	if (object->classId == RelationRelationId && object->objectSubId == 0 &&
		get_rel_relkind(object->objectId) == RELKIND_COMPOSITE_TYPE)
		ObjectAddressSet(*object, TypeRelationId, get_rel_type_id(object->objectId));
}

/* Its qualified name, as the server's defaults quote it. */
static char *
identity_of(const ObjectAddress *object)
{
	StenoDefaults session;
	char	   *name;

	steno_defaults_begin(&session, false);
	PG_TRY();
	{
		name = getObjectIdentity(object, true);
	}
	PG_FINALLY();
	{
		steno_defaults_end(&session);
	}
	PG_END_TRY();
	return name;
}

/*
 * Type and qualified name of an object, in the current memory context; false if
 * users do not name such an object, or it no longer exists.
 */
bool
steno_object_identify(const ObjectAddress *object, char **type, char **name)
{
	if (object->classId == TypeRelationId && is_implied_type(object->objectId))
		return false;
	if (object->classId == RelationRelationId && is_implied_relation(object))
		return false;
	if (object->classId == NamespaceRelationId && is_implied_schema(object->objectId))
		return false;
	*name = identity_of(object);
	if (*name == NULL)
		return false;
	if (object->classId == RewriteRelationId && begins_with(*name, "\"_RETURN\" on "))
		return false;			/* the rule that is a view's query */
	if (object->classId == TriggerRelationId &&
		begins_with(*name, "\"RI_ConstraintTrigger_"))
		return false;			/* an internal trigger, such as that of a foreign key */
	*type = getObjectTypeDescription(object, true);
	return *type != NULL;
}

/*
 * A constraint's table, and the one that a foreign key references; false if the
 * constraint no longer exists.
 */
bool
steno_object_constraint(Oid constraint, Oid *table, Oid *references)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	Form_pg_constraint c;

	if (!HeapTupleIsValid(tuple))
		return false;
	c = (Form_pg_constraint) GETSTRUCT(tuple);
	*table = c->conrelid;
	*references = c->contype == CONSTRAINT_FOREIGN ? c->confrelid : InvalidOid;
	ReleaseSysCache(tuple);
	return true;
}

/* ---- tables that objects belong to ---- */

static void
add_found(Oid class, Oid oid, StenoFoundObject found, void *arg)
{
	ObjectAddress object;

	ObjectAddressSet(object, class, oid);
	if (OidIsValid(oid))
		found(&object, arg);
}

/* The row with this number of a catalog, as it is before the change that is being made; NULL: there is none. */
static HeapTuple
catalog_row(Relation catalog, Oid index, Oid oid, SysScanDesc *scan)
{
	ScanKeyData key;

	/* the number is the first column of these catalogs, and of pg_index */
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	*scan = systable_beginscan(catalog, index, true, NULL, 1, &key);
	return systable_getnext(*scan);
}

/*
 * Calls found for what an object is part of: the table, or view, of an index, a constraint, a trigger, a policy, a
 * rule, statistics, a default value, and a table's membership in a publication; the schema, of that of a schema.  A
 * foreign key is a part of both tables.  Nothing, if the object is no such part, or its catalog row is not visible.
 */
void
steno_object_wholes(const ObjectAddress *part, StenoFoundObject found, void *arg)
{
	static const struct
	{
		Oid			class;
		Oid			index;
		AttrNumber	whole[2];
		Oid			whole_class;
	}			kinds[] = {
		{ConstraintRelationId, ConstraintOidIndexId,
		{Anum_pg_constraint_conrelid, Anum_pg_constraint_confrelid}, RelationRelationId},
		{TriggerRelationId, TriggerOidIndexId, {Anum_pg_trigger_tgrelid}, RelationRelationId},
		{PolicyRelationId, PolicyOidIndexId, {Anum_pg_policy_polrelid}, RelationRelationId},
		{RewriteRelationId, RewriteOidIndexId, {Anum_pg_rewrite_ev_class}, RelationRelationId},
		{StatisticExtRelationId, StatisticExtOidIndexId, {Anum_pg_statistic_ext_stxrelid}, RelationRelationId},
		{AttrDefaultRelationId, AttrDefaultOidIndexId, {Anum_pg_attrdef_adrelid}, RelationRelationId},
		{PublicationRelRelationId, PublicationRelObjectIndexId,
		{Anum_pg_publication_rel_prrelid}, RelationRelationId},
		{PublicationNamespaceRelationId, PublicationNamespaceObjectIndexId,
		{Anum_pg_publication_namespace_pnnspid}, NamespaceRelationId},
	};
	Relation	catalog;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			i;
	int			k;

	if (part->classId == RelationRelationId)
	{
		char		kind = get_rel_relkind(part->objectId);

		if (kind == RELKIND_INDEX || kind == RELKIND_PARTITIONED_INDEX)
			add_found(RelationRelationId, IndexGetRelation(part->objectId, true), found, arg);
		return;
	}
	for (k = 0; k < lengthof(kinds) && kinds[k].class != part->classId; k++)
		;
	if (k == lengthof(kinds))
		return;
	catalog = table_open(part->classId, AccessShareLock);
	tuple = catalog_row(catalog, kinds[k].index, part->objectId, &scan);
	if (HeapTupleIsValid(tuple))
	{
		int			natts = RelationGetNumberOfAttributes(catalog);
		Datum	   *values = palloc(natts * sizeof(Datum));
		bool	   *nulls = palloc(natts * sizeof(bool));

		/* heap_getattr is inline and calls what earlier minor releases lack: the library would not load there */
		heap_deform_tuple(tuple, RelationGetDescr(catalog), values, nulls);
		for (i = 0; i < lengthof(kinds[k].whole) && kinds[k].whole[i] != 0; i++)
			if (!nulls[kinds[k].whole[i] - 1])
				add_found(kinds[k].whole_class, DatumGetObjectId(values[kinds[k].whole[i] - 1]), found, arg);
		pfree(values);
		pfree(nulls);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* ---- tables that objects depend on ---- */

/* The table whose rows, or arrays of them, a type has; InvalidOid: it has others. */
static Oid
table_of_type(Oid type)
{
	Oid			element = get_element_type(type);

	return get_typ_typrelid(OidIsValid(element) ? element : type);
}

/* A table, view or sequence, also as the type of a row; an index counts as its table. */
static void
found_reference(Oid class, Oid oid, StenoFoundObject found, void *arg)
{
	if (class == TypeRelationId)
		oid = table_of_type(oid);
	else if (class != RelationRelationId)
		return;
	switch (get_rel_relkind(oid))
	{
		case RELKIND_INDEX:
		case RELKIND_PARTITIONED_INDEX:
			oid = IndexGetRelation(oid, true);
			break;
		case RELKIND_COMPOSITE_TYPE:
		case RELKIND_TOASTVALUE:
		case '\0':
			return;
		default:
			break;
	}
	add_found(RelationRelationId, oid, found, arg);
}

/* Whether a row was inserted or deleted by the command with this number, or a later one, of this transaction. */
static bool
is_changed_since(HeapTupleHeader row, CommandId since)
{
	if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row)) && HeapTupleHeaderGetCmin(row) >= since)
		return true;
	return !(row->t_infomask & HEAP_XMAX_INVALID) && !HEAP_XMAX_IS_LOCKED_ONLY(row->t_infomask) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(row)) && HeapTupleHeaderGetCmax(row) >= since;
}

/* Whether the command that is running has changed the row of an index, which its hook is called for in any case. */
bool
steno_object_index_changes(Oid index)
{
	Relation	catalog = table_open(IndexRelationId, AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple = catalog_row(catalog, IndexRelidIndexId, index, &scan);
	bool		result = HeapTupleIsValid(tuple) && is_changed_since(tuple->t_data, GetCurrentCommandId(false));

	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result;
}

/* The tables of a subscription have no entries in pg_depend, and no index. */
static void
find_subscribed(Oid subscription, const CommandId *since, StenoFoundObject found, void *arg)
{
	Relation	catalog = table_open(SubscriptionRelRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_subscription_rel_srsubid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(subscription));
	scan = systable_beginscan(catalog, InvalidOid, false, since ? SnapshotAny : NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (since == NULL || is_changed_since(tuple->t_data, *since))
			add_found(RelationRelationId, ((Form_pg_subscription_rel) GETSTRUCT(tuple))->srrelid, found, arg);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/*
 * Calls found for the tables, views and sequences that an object depends on.  since: only where that has changed with
 * this command of the transaction, or a later one: what it depends on now, and no longer.  NULL: all, as they are now.
 */
void
steno_object_references(const ObjectAddress *object, const CommandId *since, StenoFoundObject found, void *arg)
{
	Relation	catalog;
	SysScanDesc scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;

	if (object->classId == SubscriptionRelationId)
		find_subscribed(object->objectId, since, found, arg);
	if (object->classId == TypeRelationId && is_implied_type(object->objectId))
		return;
	catalog = table_open(DependRelationId, AccessShareLock);
	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object->classId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object->objectId));
	scan = systable_beginscan(catalog, DependDependerIndexId, true, since ? SnapshotAny : NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend d = (Form_pg_depend) GETSTRUCT(tuple);

		if (since == NULL || is_changed_since(tuple->t_data, *since))
			found_reference(d->refclassid, d->refobjid, found, arg);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* ---- functions ---- */

/*
 * Names and kinds of functions that statements call, from a cache of this process that invalidation messages of the
 * server keep correct.  Functions of pg_catalog are omitted: they include those of operators and casts, which nearly
 * every statement uses.
 */

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
