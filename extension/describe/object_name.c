/*
 * extension/describe/object_name.c
 *		Types and names of objects of all kinds, as in the server's own descriptions
 *		of objects.
 *
 * This code runs in the middle of a user's DDL statement.  An error in a lookup
 * must not fail that statement, so it is caught, its effects are undone, and the
 * object is recorded by its OID.  Errors that do not concern the object, such as
 * those of a failing disk, also fail the statement.
 */
#include "base/steno.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_publication_namespace.h"
#include "catalog/pg_publication_rel.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "base/defaults.h"
#include "describe/object.h"

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
 * recorded as the type.
 */
static bool
is_implied_relation(Oid oid)
{
	return get_rel_relkind(oid) == RELKIND_COMPOSITE_TYPE ||
		IsToastNamespace(get_rel_namespace(oid));
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
	if (object->classId == RelationRelationId && is_implied_relation(object->objectId))
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

/*
 * What an object is part of: the table, or view, of an index, a constraint, a trigger, a policy, a rule,
 * statistics, and a table's membership in a publication; the schema, of that of a schema.  False if it is part of
 * neither, or its catalog row is not visible.
 */
bool
steno_object_whole(const ObjectAddress *part, ObjectAddress *whole)
{
	static const struct
	{
		Oid			class;
		AttrNumber	oid;
		AttrNumber	whole;
		Oid			whole_class;
	}			kinds[] = {
		{ConstraintRelationId, Anum_pg_constraint_oid, Anum_pg_constraint_conrelid, RelationRelationId},
		{TriggerRelationId, Anum_pg_trigger_oid, Anum_pg_trigger_tgrelid, RelationRelationId},
		{PolicyRelationId, Anum_pg_policy_oid, Anum_pg_policy_polrelid, RelationRelationId},
		{RewriteRelationId, Anum_pg_rewrite_oid, Anum_pg_rewrite_ev_class, RelationRelationId},
		{StatisticExtRelationId, Anum_pg_statistic_ext_oid, Anum_pg_statistic_ext_stxrelid, RelationRelationId},
		{PublicationRelRelationId, Anum_pg_publication_rel_oid, Anum_pg_publication_rel_prrelid, RelationRelationId},
		{PublicationNamespaceRelationId, Anum_pg_publication_namespace_oid,
		Anum_pg_publication_namespace_pnnspid, NamespaceRelationId},
	};
	Relation	catalog;
	HeapTuple	tuple;
	bool		missing = true;
	int			i;

	ObjectAddressSet(*whole, RelationRelationId, InvalidOid);
	if (part->classId == RelationRelationId)
	{
		char		kind = get_rel_relkind(part->objectId);

		if (kind == RELKIND_INDEX || kind == RELKIND_PARTITIONED_INDEX)
			whole->objectId = IndexGetRelation(part->objectId, true);
		return OidIsValid(whole->objectId);
	}
	for (i = 0; i < lengthof(kinds) && kinds[i].class != part->classId; i++)
		;
	if (i == lengthof(kinds))
		return false;
	catalog = table_open(part->classId, AccessShareLock);
	tuple = get_catalog_object_by_oid(catalog, kinds[i].oid, part->objectId);
	if (HeapTupleIsValid(tuple))
		ObjectAddressSet(*whole, kinds[i].whole_class,
						 DatumGetObjectId(heap_getattr(tuple, kinds[i].whole, RelationGetDescr(catalog), &missing)));
	table_close(catalog, AccessShareLock);
	return !missing && OidIsValid(whole->objectId);
}
