/*
 * extension/describe/object_named.c
 *		Objects for which the server calls no hook: they are looked up by the names
 *		in a utility statement once it has succeeded.
 *
 * The lookups must not wait for locks.  So they take none, unless the statement
 * itself holds a stronger lock on the object until its transaction ends.  Without a
 * lock, another session may drop or rename the object meanwhile: it is then
 * missing, or has its new name.
 */
#include "base/steno.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_language.h"
#include "catalog/pg_largeobject.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_parameter_acl.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_shdepend.h"
#include "catalog/pg_tablespace.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/proclang.h"
#include "commands/tablespace.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "parser/parse_type.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "describe/object.h"

/* Argument of add_all_named. */
typedef struct Named
{
	StenoObjects *list;
	Node	   *statement;
} Named;

static void
add_named_object(StenoObjects *list, Oid class, Oid oid, int action)
{
	ObjectAddress object;

	if (!OidIsValid(oid))
		return;
	ObjectAddressSet(object, class, oid);
	steno_object_redirect(&object);
	steno_objects_add(list, object.classId, object.objectId, 0, action);
}

static void
add_named_relation(StenoObjects *list, RangeVar *relation, int action)
{
	if (relation)
		add_named_object(list, RelationRelationId, RangeVarGetRelid(relation, NoLock, true), action);
}

static void
add_named_role(StenoObjects *list, RoleSpec *role, int action)
{
	if (role && role->roletype != ROLESPEC_PUBLIC)
		add_named_object(list, AuthIdRelationId, get_rolespec_oid(role, true), action);
}

/* ---- GRANT and REVOKE ---- */

/*
 * Catalog and OID of an object on which a privilege was granted; InvalidOid if it
 * no longer exists.
 */
static Oid
granted_on(ObjectType type, Node *object, Oid *class)
{
	char	   *name = IsA(object, String) ? strVal(object) : NULL;

	switch (type)
	{
		case OBJECT_TABLE:
		case OBJECT_SEQUENCE:
			*class = RelationRelationId;
			return RangeVarGetRelid((RangeVar *) object, NoLock, true);
		case OBJECT_FUNCTION:
		case OBJECT_PROCEDURE:
		case OBJECT_ROUTINE:
			*class = ProcedureRelationId;
			return LookupFuncWithArgs(type, (ObjectWithArgs *) object, true);
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
			*class = TypeRelationId;
			return LookupTypeNameOid(NULL, makeTypeNameFromNameList((List *) object), true);
		case OBJECT_LARGEOBJECT:
			*class = LargeObjectRelationId;
			return IsA(object, Float) ? strtoul(castNode(Float, object)->fval, NULL, 10) : (Oid) intVal(object);
		case OBJECT_SCHEMA:
			*class = NamespaceRelationId;
			return get_namespace_oid(name, true);
		case OBJECT_DATABASE:
			*class = DatabaseRelationId;
			return get_database_oid(name, true);
		case OBJECT_LANGUAGE:
			*class = LanguageRelationId;
			return get_language_oid(name, true);
		case OBJECT_TABLESPACE:
			*class = TableSpaceRelationId;
			return get_tablespace_oid(name, true);
		case OBJECT_FDW:
			*class = ForeignDataWrapperRelationId;
			return get_foreign_data_wrapper_oid(name, true);
		case OBJECT_FOREIGN_SERVER:
			*class = ForeignServerRelationId;
			return get_foreign_server_oid(name, true);
		case OBJECT_PARAMETER_ACL:
			*class = ParameterAclRelationId;
			return ParameterAclLookup(name, true);
		default:
			return InvalidOid;
	}
}

/* Whether GRANT ON ALL ... IN SCHEMA is about such a relation or function. */
static bool
is_granted_with_all(ObjectType type, Oid class, char kind)
{
	if (class == RelationRelationId)
		return type == OBJECT_SEQUENCE ? kind == RELKIND_SEQUENCE :
			kind == RELKIND_RELATION || kind == RELKIND_VIEW || kind == RELKIND_MATVIEW ||
			kind == RELKIND_FOREIGN_TABLE || kind == RELKIND_PARTITIONED_TABLE;
	return type == OBJECT_ROUTINE || (type == OBJECT_PROCEDURE) == (kind == PROKIND_PROCEDURE);
}

/*
 * GRANT ON ALL ... IN SCHEMA: the server has changed the row of each of these objects.  One whose row is
 * not of this transaction was created by another one since.
 */
static void
add_all_in_schema(StenoObjects *list, ObjectType type, Oid schema)
{
	bool		relations = type == OBJECT_TABLE || type == OBJECT_SEQUENCE;
	Oid			class = relations ? RelationRelationId : ProcedureRelationId;
	Relation	catalog;
	TableScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	if (!OidIsValid(schema))
		return;
	add_named_object(list, NamespaceRelationId, schema, STENO_ACTION_USE);
	ScanKeyInit(&key, relations ? Anum_pg_class_relnamespace : Anum_pg_proc_pronamespace, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(schema));
	catalog = table_open(class, AccessShareLock);
	scan = table_beginscan_catalog(catalog, 1, &key);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_class relation = (Form_pg_class) GETSTRUCT(tuple);
		Form_pg_proc function = (Form_pg_proc) GETSTRUCT(tuple);
		char		kind = relations ? relation->relkind : function->prokind;
		Oid			oid = relations ? relation->oid : function->oid;

		if (is_granted_with_all(type, class, kind) &&
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
			add_named_object(list, class, oid, STENO_ACTION_ALTER);
	}
	table_endscan(scan);
	table_close(catalog, AccessShareLock);
}

static void
add_granted(StenoObjects *list, GrantStmt *grant)
{
	ListCell   *lc;

	foreach(lc, grant->objects)
	{
		Oid			class = InvalidOid;
		Oid			oid;

		if (grant->targtype == ACL_TARGET_ALL_IN_SCHEMA)
			add_all_in_schema(list, grant->objtype, get_namespace_oid(strVal(lfirst(lc)), true));
		else if (grant->targtype == ACL_TARGET_OBJECT)
		{
			oid = granted_on(grant->objtype, lfirst(lc), &class);
			if (class == ParameterAclRelationId && !OidIsValid(oid))
				/* REVOKE has removed the row */
				steno_objects_add_written(list, "parameter ACL",
										  convert_GUC_name_for_parameter_acl(strVal(lfirst(lc))), STENO_ACTION_ALTER);
			add_named_object(list, class, oid, STENO_ACTION_ALTER);
		}
	}
}

/* GRANT role TO role: the first role is used, and the second one gets a membership. */
static void
add_memberships(StenoObjects *list, GrantRoleStmt *grant)
{
	ListCell   *lc;

	foreach(lc, grant->granted_roles)
		add_named_object(list, AuthIdRelationId,
			get_role_oid(lfirst_node(AccessPriv, lc)->priv_name, true), STENO_ACTION_USE);
	foreach(lc, grant->grantee_roles)
		add_named_role(list, lfirst(lc), STENO_ACTION_ALTER);
}

/* ---- DROP OWNED ---- */

/* Expect a change of all objects of this database, and shared ones, on which a role has privileges. */
static void
expect_revoked_from(StenoObjects *list, Oid role)
{
	Relation	catalog = table_open(SharedDependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_shdepend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(AuthIdRelationId));
	ScanKeyInit(&keys[1], Anum_pg_shdepend_refobjid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(role));
	scan = systable_beginscan(catalog, SharedDependReferenceIndexId, true, NULL, 2, keys);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		const FormData_pg_shdepend *d = (Form_pg_shdepend) GETSTRUCT(tuple);

		if (d->deptype == SHARED_DEPENDENCY_ACL && (d->dbid == MyDatabaseId || d->dbid == InvalidOid))
			steno_objects_expect(list, d->classid, d->objid, STENO_ACTION_ALTER);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

static void
expect_all_revoked(StenoObjects *list, DropOwnedStmt *statement)
{
	ListCell   *lc;

	foreach(lc, statement->roles)
	{
		RoleSpec   *spec = lfirst(lc);
		Oid			role = spec->roletype == ROLESPEC_PUBLIC ? InvalidOid : get_rolespec_oid(spec, true);

		if (OidIsValid(role))
			expect_revoked_from(list, role);
	}
}

/* ---- LIKE ---- */

/* Expect the use of what CREATE TABLE copies the definition of. */
static void
expect_liked(StenoObjects *list, CreateStmt *create)
{
	ListCell   *lc;

	foreach(lc, create->tableElts)
	{
		ObjectAddress object;

		if (!IsA(lfirst(lc), TableLikeClause))
			continue;
		ObjectAddressSet(object, RelationRelationId,
						 RangeVarGetRelid(((TableLikeClause *) lfirst(lc))->relation, NoLock, true));
		steno_object_redirect(&object);
		if (OidIsValid(object.objectId))
			steno_objects_expect(list, object.classId, object.objectId, STENO_ACTION_USE);
	}
}

/* ---- what cannot be found at the end ---- */

static void
expect_all(void *arg)
{
	StenoObjects *list = ((Named *) arg)->list;
	Node	   *statement = ((Named *) arg)->statement;
	ListCell   *lc;

	if (IsA(statement, DropOwnedStmt))
		expect_all_revoked(list, (DropOwnedStmt *) statement);
	else if (IsA(statement, CreateSchemaStmt))
	{
		foreach(lc, ((CreateSchemaStmt *) statement)->schemaElts)
			if (IsA(lfirst(lc), CreateStmt))
				expect_liked(list, lfirst(lc));
	}
	else
		expect_liked(list, (CreateStmt *) statement);
}

/* Whether a statement of this kind may have such objects. */
bool
steno_objects_are_expected(Node *statement)
{
	return IsA(statement, DropOwnedStmt) || IsA(statement, CreateStmt) || IsA(statement, CreateForeignTableStmt) ||
		IsA(statement, CreateSchemaStmt);
}

/*
 * A statement begins: look up what cannot be found when it has succeeded.  DROP OWNED tells nobody on which objects it
 * only revokes privileges, and nothing says afterwards which these were; and LIKE is replaced by the columns that it
 * stands for.
 */
void
steno_objects_expect_named(StenoObjects *list, Node *statement)
{
	Named		named = {list, statement};

	if (list != NULL)
		(void) steno_object_guarded(expect_all, &named);
}

/* ---- COMMENT, SECURITY LABEL, ALTER EXTENSION, DEPENDS ON EXTENSION ---- */

/* The lookup does not wait for its lock, because the statement holds a stronger one. */
static void
add_object(StenoObjects *list, ObjectType type, RangeVar *table, Node *object, int action)
{
	Relation	relation = NULL;
	ObjectAddress address = get_object_address_rv(type, table, (List *) object, &relation, AccessShareLock, true);

	if (relation)
		relation_close(relation, NoLock);
	if (!OidIsValid(address.objectId))
		return;
	steno_object_redirect(&address);
	steno_objects_add(list, address.classId, address.objectId, address.objectSubId, action);
}

static void
add_described(StenoObjects *list, ObjectType type, Node *object)
{
	add_object(list, type, NULL, object, STENO_ACTION_ALTER);
}

/* The server has put the name of the table before that of its trigger. */
static void
add_depending(StenoObjects *list, AlterObjectDependsStmt *alter)
{
	Node	   *object = alter->object;

	if (alter->relation != NULL && object != NULL && IsA(object, List))
		object = (Node *) list_make1(llast((List *) object));
	add_object(list, alter->objectType, alter->relation, object, STENO_ACTION_ALTER);
	add_named_object(list, ExtensionRelationId, get_extension_oid(strVal(alter->extname), true), STENO_ACTION_USE);
}

/* ---- all statements ---- */

static void
add_named_relations(StenoObjects *list, List *relations, int action)
{
	ListCell   *lc;

	foreach(lc, relations)
	{
		Node	   *node = lfirst(lc);

		if (IsA(node, VacuumRelation))
			node = (Node *) ((VacuumRelation *) node)->relation;
		add_named_relation(list, (RangeVar *) node, action);
	}
}

static void
add_named_roles(StenoObjects *list, List *roles)
{
	ListCell   *lc;

	foreach(lc, roles)
		add_named_role(list, lfirst(lc), STENO_ACTION_USE);
}

static void
add_reindexed(StenoObjects *list, ReindexStmt *reindex)
{
	if (reindex->relation)
		add_named_relation(list, reindex->relation, STENO_ACTION_USE);
	else if (reindex->kind == REINDEX_OBJECT_SCHEMA && reindex->name)
		add_named_object(list, NamespaceRelationId, get_namespace_oid(reindex->name, true), STENO_ACTION_USE);
	else
		add_named_object(list, DatabaseRelationId, MyDatabaseId, STENO_ACTION_USE);
}

/* The tables of a publication, and the schemas all of whose tables it has. */
static void
add_published(StenoObjects *list, List *published)
{
	ListCell   *lc;

	foreach(lc, published)
	{
		const PublicationObjSpec *p = lfirst_node(PublicationObjSpec, lc);

		if (p->pubtable)
			add_named_relation(list, p->pubtable->relation, STENO_ACTION_USE);
		else if (p->name)
			add_named_object(list, NamespaceRelationId, get_namespace_oid(p->name, true), STENO_ACTION_USE);
	}
}

/* The other table of ALTER TABLE, or index of ALTER INDEX: for that of INHERIT, the server calls the hook. */
static void
add_attached(StenoObjects *list, List *commands)
{
	ListCell   *lc;

	foreach(lc, commands)
	{
		Node	   *definition = lfirst_node(AlterTableCmd, lc)->def;

		if (definition && IsA(definition, PartitionCmd))
			add_named_relation(list, ((PartitionCmd *) definition)->name, STENO_ACTION_USE);
	}
}

/* Tables that a query is defined with, in its subqueries, too. */
static bool
add_queried(Node *node, void *list)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		if (((RangeTblEntry *) node)->rtekind == RTE_RELATION)
			add_named_object(list, RelationRelationId, ((RangeTblEntry *) node)->relid, STENO_ACTION_USE);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, add_queried, list, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, add_queried, list);
}

static void
add_operator_family(StenoObjects *list, AlterOpFamilyStmt *alter)
{
	Oid			method = get_am_oid(alter->amname, true);

	if (OidIsValid(method))
		add_named_object(list, OperatorFamilyRelationId, get_opfamily_oid(method, alter->opfamilyname, true),
			STENO_ACTION_ALTER);
}

static void
add_all_named(void *arg)
{
	StenoObjects *list = ((Named *) arg)->list;
	Node	   *statement = ((Named *) arg)->statement;

	switch (nodeTag(statement))
	{
		case T_AlterTableStmt:
			add_named_relation(list, ((AlterTableStmt *) statement)->relation, STENO_ACTION_ALTER);
			add_attached(list, ((AlterTableStmt *) statement)->cmds);
			break;
		case T_AlterObjectDependsStmt:
			add_depending(list, (AlterObjectDependsStmt *) statement);
			break;
		case T_AlterExtensionContentsStmt:
			add_object(list, ((AlterExtensionContentsStmt *) statement)->objtype, NULL,
					   ((AlterExtensionContentsStmt *) statement)->object, STENO_ACTION_USE);
			break;
		case T_ViewStmt:		/* OR REPLACE alters an existing view */
			add_named_relation(list, ((ViewStmt *) statement)->view, STENO_ACTION_ALTER);
			break;
		case T_CreateTableAsStmt:	/* WITH NO DATA: the query does not run */
			if (((CreateTableAsStmt *) statement)->into->skipData)
				(void) add_queried(((CreateTableAsStmt *) statement)->query, list);
			break;
		case T_RefreshMatViewStmt:
			add_named_relation(list, ((RefreshMatViewStmt *) statement)->relation, STENO_ACTION_ALTER);
			break;
		case T_AlterOpFamilyStmt:
			add_operator_family(list, (AlterOpFamilyStmt *) statement);
			break;
		case T_GrantStmt:
			add_granted(list, (GrantStmt *) statement);
			break;
		case T_GrantRoleStmt:
			add_memberships(list, (GrantRoleStmt *) statement);
			break;
		case T_CommentStmt:
			add_described(list, ((CommentStmt *) statement)->objtype, ((CommentStmt *) statement)->object);
			break;
		case T_SecLabelStmt:
			add_described(list, ((SecLabelStmt *) statement)->objtype, ((SecLabelStmt *) statement)->object);
			break;
		case T_LockStmt:
			add_named_relations(list, ((LockStmt *) statement)->relations, STENO_ACTION_USE);
			break;
		case T_VacuumStmt:
			add_named_relations(list, ((VacuumStmt *) statement)->rels, STENO_ACTION_USE);
			break;
		case STENO_T_REPACK:
			add_named_relation(list, STENO_REPACKED(statement), STENO_ACTION_USE);
			break;
		case T_ReindexStmt:
			add_reindexed(list, (ReindexStmt *) statement);
			break;
		case T_CreatePublicationStmt:
			add_published(list, ((CreatePublicationStmt *) statement)->pubobjects);
			break;
		case T_AlterPublicationStmt:
			add_published(list, ((AlterPublicationStmt *) statement)->pubobjects);
			break;
		case T_DropOwnedStmt:
			add_named_roles(list, ((DropOwnedStmt *) statement)->roles);
			break;
		case T_ReassignOwnedStmt:
			add_named_roles(list, ((ReassignOwnedStmt *) statement)->roles);
			add_named_role(list, ((ReassignOwnedStmt *) statement)->newrole, STENO_ACTION_USE);
			break;
		default:
			break;
	}
}

/* Whether a statement of this kind names objects for which no hook is called. */
bool
steno_objects_are_named(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_AlterExtensionContentsStmt:
		case T_AlterObjectDependsStmt:
		case T_AlterOpFamilyStmt:
		case T_AlterTableStmt:
		case T_ViewStmt:
		case T_RefreshMatViewStmt:
		case T_GrantStmt:
		case T_GrantRoleStmt:
		case T_CommentStmt:
		case T_SecLabelStmt:
		case T_LockStmt:
		case T_VacuumStmt:
		case STENO_T_REPACK:
		case T_ReindexStmt:
		case T_CreatePublicationStmt:
		case T_AlterPublicationStmt:
		case T_DropOwnedStmt:
		case T_ReassignOwnedStmt:
			return true;
		case T_CreateTableAsStmt:
			return ((CreateTableAsStmt *) statement)->into->skipData;
		default:
			return false;
	}
}

/* Add these objects.  One that cannot be looked up is omitted: the statement's text names it. */
void
steno_objects_add_named(StenoObjects *list, Node *statement)
{
	Named		named = {list, statement};

	(void) steno_object_guarded(add_all_named, &named);
}
