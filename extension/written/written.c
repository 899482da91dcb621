/*
 * extension/written/written.c
 *		Relations that a statement names, as its raw parse tree has them.
 *
 * A statement that is refused in parse analysis, and a utility statement that is refused
 * before it has looked its objects up, have no relations but these.  Catalogs cannot be read
 * any more when a failure is recorded, so the names are as they are written.
 */
#include "base/steno.h"

#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"

#include "base/compat.h"
#include "written/written.h"

static void
add_written_name(StenoWritten *w, const char *schema, const char *name, uint32 access)
{
	int			i;

	for (i = 0; i < w->count; i++)
		if (strcmp(w->names[i].name, name) == 0 && strcmp(w->names[i].schema, schema ? schema : "") == 0)
		{
			w->names[i].access |= access;
			return;
		}
	if (w->count == STENO_WRITTEN_MOST)
		w->omitted++;
	else
		w->names[w->count++] = (StenoWrittenName) {schema ? schema : "", name, access | STENO_ACCESS_WRITTEN};
}

static void
add_range(StenoWritten *w, const RangeVar *relation, uint32 access)
{
	if (relation && relation->relname)
		add_written_name(w, relation->schemaname, relation->relname, access);
}

/* A name in parts, the last of which is that of something on the relation if part is set. */
static void
add_parts(StenoWritten *w, const List *parts, bool part)
{
	int			last = list_length(parts) - (part ? 2 : 1);
	Node	   *name = last >= 0 ? list_nth(parts, last) : NULL;
	Node	   *schema = last > 0 ? list_nth(parts, last - 1) : NULL;

	if (name && IsA(name, String))
		add_written_name(w, schema && IsA(schema, String) ? strVal(schema) : NULL, strVal(name), 0);
}

static void
add_ranges(StenoWritten *w, const List *relations, uint32 access)
{
	ListCell   *lc;

	foreach(lc, relations)
	{
		Node	   *node = lfirst(lc);

		if (IsA(node, VacuumRelation))
			node = (Node *) ((VacuumRelation *) node)->relation;
		if (node && IsA(node, RangeVar))
			add_range(w, (RangeVar *) node, access);
	}
}

/* ---- queries ---- */

/* Deeper parts of a query are not looked at, so that this cannot fail for lack of stack. */
#define DEEPEST 300

/* The names that a statement's WITH clause gives to queries: they are no relations. */
typedef struct StenoScope
{
	const WithClause *with;		/* NULL: none */
	int			visible;		/* how many of its queries can be named, the first ones */
	const struct StenoScope *outer;
} StenoScope;

static bool walk(Node *node, void *arg);

static bool
is_of_with(const StenoWritten *w, const RangeVar *relation)
{
	const StenoScope *scope;
	int			i;

	if (relation->schemaname != NULL || relation->relname == NULL)
		return false;
	for (scope = w->scope; scope; scope = scope->outer)
		for (i = 0; i < scope->visible; i++)
			if (strcmp(list_nth_node(CommonTableExpr, scope->with->ctes, i)->ctename, relation->relname) == 0)
				return true;
	return false;
}

/* The queries of the WITH clause itself: each can name those before it, or, if it is recursive, all. */
static void
walk_with(StenoWritten *w, const WithClause *with)
{
	StenoScope	scope = {.with = with, .outer = w->scope->outer};
	const StenoScope *before = w->scope;
	int			i;

	w->scope = &scope;
	for (i = 0; i < list_length(with->ctes); i++)
	{
		scope.visible = with->recursive ? list_length(with->ctes) : i;
		(void) raw_expression_tree_walker(list_nth(with->ctes, i), walk, w);
	}
	w->scope = before;
}

/* A statement but for its target, which the caller has taken out of it. */
static void
walk_statement(StenoWritten *w, Node *statement, const WithClause *with)
{
	StenoScope	scope = {.with = with, .visible = with ? list_length(with->ctes) : 0, .outer = w->scope};

	w->scope = &scope;
	(void) raw_expression_tree_walker(statement, walk, w);
	w->scope = scope.outer;
}

static uint32
merge_access(const List *clauses)
{
	uint32		access = 0;
	ListCell   *lc;

	foreach(lc, clauses)
		switch (lfirst_node(MergeWhenClause, lc)->commandType)
		{
			case CMD_INSERT:
				access |= STENO_ACCESS_INSERT;
				break;
			case CMD_UPDATE:
				access |= STENO_ACCESS_UPDATE;
				break;
			case CMD_DELETE:
				access |= STENO_ACCESS_DELETE;
				break;
			default:
				break;
		}
	return access;
}

static void
walk_insert(StenoWritten *w, const InsertStmt *insert)
{
	InsertStmt	rest = *insert;
	bool		updates = insert->onConflictClause && insert->onConflictClause->action == ONCONFLICT_UPDATE;

	add_range(w, insert->relation, STENO_ACCESS_INSERT | (updates ? STENO_ACCESS_UPDATE : 0));
	rest.relation = NULL;
	walk_statement(w, (Node *) &rest, insert->withClause);
}

static void
walk_update(StenoWritten *w, const UpdateStmt *update)
{
	UpdateStmt	rest = *update;

	add_range(w, update->relation, STENO_ACCESS_UPDATE);
	rest.relation = NULL;
	walk_statement(w, (Node *) &rest, update->withClause);
}

static void
walk_delete(StenoWritten *w, const DeleteStmt *delete)
{
	DeleteStmt	rest = *delete;

	add_range(w, delete->relation, STENO_ACCESS_DELETE);
	rest.relation = NULL;
	walk_statement(w, (Node *) &rest, delete->withClause);
}

static void
walk_merge(StenoWritten *w, const MergeStmt *merge)
{
	MergeStmt	rest = *merge;

	add_range(w, merge->relation, merge_access(merge->mergeWhenClauses));
	rest.relation = NULL;
	walk_statement(w, (Node *) &rest, merge->withClause);
}

static void
walk_node(StenoWritten *w, Node *node)
{
	switch (nodeTag(node))
	{
		case T_RangeVar:
			if (!is_of_with(w, (RangeVar *) node))
				add_range(w, (RangeVar *) node, STENO_ACCESS_SELECT);
			break;
		case T_IntoClause:
			add_range(w, ((IntoClause *) node)->rel, 0);
			break;
		case T_LockingClause:
			/* FOR UPDATE OF: names of what is in FROM, which may be aliases */
			break;
		case T_WithClause:
			walk_with(w, (WithClause *) node);
			break;
		case T_ReturnStmt:
			(void) walk(((ReturnStmt *) node)->returnval, w);
			break;
		case T_InsertStmt:
			w->writes = true;
			walk_insert(w, (InsertStmt *) node);
			break;
		case T_UpdateStmt:
			w->writes = true;
			walk_update(w, (UpdateStmt *) node);
			break;
		case T_DeleteStmt:
			w->writes = true;
			walk_delete(w, (DeleteStmt *) node);
			break;
		case T_MergeStmt:
			w->writes = true;
			walk_merge(w, (MergeStmt *) node);
			break;
		case T_SelectStmt:
			walk_statement(w, node, ((SelectStmt *) node)->withClause);
			break;
		default:
			(void) raw_expression_tree_walker(node, walk, w);
			break;
	}
}

static bool
walk(Node *node, void *arg)
{
	StenoWritten *w = arg;

	if (node == NULL)
		return false;
	if (w->depth >= DEEPEST || stack_is_too_deep())
	{
		w->omitted++;
		return false;
	}
	w->depth++;
	walk_node(w, node);
	w->depth--;
	return false;
}

/* Queries that have not been analyzed, or lists of them; what else may stand in their place is left out. */
static void
add_query(StenoWritten *w, Node *query)
{
	ListCell   *lc;

	if (query == NULL)
		return;
	switch (nodeTag(query))
	{
		case T_List:
			foreach(lc, (List *) query)
				add_query(w, lfirst(lc));
			break;
		case T_SelectStmt:
		case T_InsertStmt:
		case T_UpdateStmt:
		case T_DeleteStmt:
		case T_MergeStmt:
		case T_ReturnStmt:
			(void) walk(query, w);
			break;
		default:
			break;
	}
}

/* ---- utility statements ---- */

static void
add_described_by(StenoWritten *w, ObjectType type, Node *object)
{
	bool		part = type == OBJECT_TRIGGER || type == OBJECT_RULE || type == OBJECT_POLICY ||
		type == OBJECT_COLUMN || type == OBJECT_TABCONSTRAINT;

	switch (type)
	{
		case OBJECT_TABLE:
		case OBJECT_VIEW:
		case OBJECT_MATVIEW:
		case OBJECT_SEQUENCE:
		case OBJECT_FOREIGN_TABLE:
		case OBJECT_INDEX:
		case OBJECT_TRIGGER:
		case OBJECT_RULE:
		case OBJECT_POLICY:
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
			if (object && IsA(object, List))
				add_parts(w, (List *) object, part);
			break;
		default:
			break;
	}
}

static void
add_granted_on(StenoWritten *w, const GrantStmt *grant)
{
	if (grant->targtype == ACL_TARGET_OBJECT && (grant->objtype == OBJECT_TABLE || grant->objtype == OBJECT_SEQUENCE))
		add_ranges(w, grant->objects, 0);
}

static void
add_dropped(StenoWritten *w, const DropStmt *drop)
{
	ListCell   *lc;

	foreach(lc, drop->objects)
		add_described_by(w, drop->removeType, lfirst(lc));
}

static void
add_written_published(StenoWritten *w, const List *objects)
{
	ListCell   *lc;

	foreach(lc, objects)
		if (lfirst_node(PublicationObjSpec, lc)->pubtable)
			add_range(w, lfirst_node(PublicationObjSpec, lc)->pubtable->relation, 0);
}

/* Tables that columns and constraints of a table name. */
static void
add_named_by(StenoWritten *w, Node *element)
{
	ListCell   *lc;

	if (element == NULL)
		return;
	if (IsA(element, TableLikeClause))
		add_range(w, ((TableLikeClause *) element)->relation, STENO_ACCESS_SELECT);
	else if (IsA(element, Constraint))
	{
		add_range(w, ((Constraint *) element)->pktable, STENO_ACCESS_REFERENCES);
		(void) walk(((Constraint *) element)->raw_expr, w);
	}
	else if (IsA(element, PartitionCmd))
		add_range(w, ((PartitionCmd *) element)->name, 0);
	else if (IsA(element, RangeVar))
		add_range(w, (RangeVar *) element, 0);
	else if (IsA(element, ColumnDef))
	{
		/* the expression of USING, or a default */
		(void) walk(((ColumnDef *) element)->raw_default, w);
		foreach(lc, ((ColumnDef *) element)->constraints)
			add_named_by(w, lfirst(lc));
	}
}

static void
add_created(StenoWritten *w, const CreateStmt *create)
{
	ListCell   *lc;

	add_range(w, create->relation, 0);
	add_ranges(w, create->inhRelations, 0);
	foreach(lc, create->tableElts)
		add_named_by(w, lfirst(lc));
}

static void
add_altered(StenoWritten *w, const AlterTableStmt *alter)
{
	ListCell   *lc;

	add_range(w, alter->relation, 0);
	foreach(lc, alter->cmds)
		add_named_by(w, lfirst_node(AlterTableCmd, lc)->def);
}

/* The column that a sequence belongs to. */
static void
add_owner(StenoWritten *w, const List *options)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		const DefElem *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "owned_by") == 0 && option->arg && IsA(option->arg, List) &&
			list_length((List *) option->arg) > 1)
			add_parts(w, (List *) option->arg, true);
	}
}

static void
add_copied(StenoWritten *w, const CopyStmt *copy)
{
	add_range(w, copy->relation, copy->is_from ? STENO_ACCESS_INSERT : STENO_ACCESS_SELECT);
	add_query(w, copy->query);
	(void) walk(copy->whereClause, w);
}

void
steno_written_add(StenoWritten *w, Node *statement)
{
	ListCell   *lc;

	w->depth = 0;
	w->scope = NULL;
	switch (nodeTag(statement))
	{
		case T_DropStmt:
			add_dropped(w, (DropStmt *) statement);
			break;
		case T_CopyStmt:
			add_copied(w, (CopyStmt *) statement);
			break;
		case T_GrantStmt:
			add_granted_on(w, (GrantStmt *) statement);
			break;
		case T_AlterTableStmt:
			add_altered(w, (AlterTableStmt *) statement);
			break;
		case T_RenameStmt:
			add_range(w, ((RenameStmt *) statement)->relation, 0);
			break;
		case T_AlterOwnerStmt:
			add_range(w, ((AlterOwnerStmt *) statement)->relation, 0);
			break;
		case T_AlterObjectDependsStmt:
			add_range(w, ((AlterObjectDependsStmt *) statement)->relation, 0);
			break;
		case T_AlterExtensionContentsStmt:
			add_described_by(w, ((AlterExtensionContentsStmt *) statement)->objtype,
							 ((AlterExtensionContentsStmt *) statement)->object);
			break;
		case T_AlterObjectSchemaStmt:
			add_range(w, ((AlterObjectSchemaStmt *) statement)->relation, 0);
			break;
		case T_TruncateStmt:
			add_ranges(w, ((TruncateStmt *) statement)->relations, STENO_ACCESS_TRUNCATE);
			break;
		case T_LockStmt:
			add_ranges(w, ((LockStmt *) statement)->relations, 0);
			break;
		case T_VacuumStmt:
			add_ranges(w, ((VacuumStmt *) statement)->rels, 0);
			break;
		case T_IndexStmt:
			add_range(w, ((IndexStmt *) statement)->relation, 0);
			(void) walk((Node *) ((IndexStmt *) statement)->indexParams, w);
			(void) walk(((IndexStmt *) statement)->whereClause, w);
			break;
		case T_CreateTrigStmt:
			add_range(w, ((CreateTrigStmt *) statement)->relation, 0);
			add_range(w, ((CreateTrigStmt *) statement)->constrrel, STENO_ACCESS_REFERENCES);
			(void) walk(((CreateTrigStmt *) statement)->whenClause, w);
			break;
		case T_RuleStmt:
			add_range(w, ((RuleStmt *) statement)->relation, 0);
			add_query(w, (Node *) ((RuleStmt *) statement)->actions);
			(void) walk(((RuleStmt *) statement)->whereClause, w);
			break;
		case T_CreateSchemaStmt:
			foreach(lc, ((CreateSchemaStmt *) statement)->schemaElts)
				steno_written_add(w, lfirst(lc));
			break;
		case T_CreateFunctionStmt:
			add_query(w, ((CreateFunctionStmt *) statement)->sql_body);
			break;
		case T_CallStmt:
			(void) walk((Node *) ((CallStmt *) statement)->funccall, w);
			break;
		case T_ExecuteStmt:
			w->executes = true;
			(void) walk((Node *) ((ExecuteStmt *) statement)->params, w);
			break;
		case T_CreatePublicationStmt:
			add_written_published(w, ((CreatePublicationStmt *) statement)->pubobjects);
			break;
		case T_AlterPublicationStmt:
			add_written_published(w, ((AlterPublicationStmt *) statement)->pubobjects);
			break;
		case STENO_T_REPACK:
			add_range(w, STENO_REPACKED(statement), 0);
			break;
		case T_SecLabelStmt:
			add_described_by(w, ((SecLabelStmt *) statement)->objtype, ((SecLabelStmt *) statement)->object);
			break;
		case T_CreatePolicyStmt:
			add_range(w, ((CreatePolicyStmt *) statement)->table, 0);
			(void) walk(((CreatePolicyStmt *) statement)->qual, w);
			(void) walk(((CreatePolicyStmt *) statement)->with_check, w);
			break;
		case T_AlterPolicyStmt:
			add_range(w, ((AlterPolicyStmt *) statement)->table, 0);
			(void) walk(((AlterPolicyStmt *) statement)->qual, w);
			(void) walk(((AlterPolicyStmt *) statement)->with_check, w);
			break;
		case T_CreateStatsStmt:
			add_ranges(w, ((CreateStatsStmt *) statement)->relations, 0);
			break;
		case T_CreateStmt:
		case T_CreateForeignTableStmt:
			add_created(w, (CreateStmt *) statement);
			break;
		case T_CreateSeqStmt:
			add_range(w, ((CreateSeqStmt *) statement)->sequence, 0);
			add_owner(w, ((CreateSeqStmt *) statement)->options);
			break;
		case T_AlterSeqStmt:
			add_range(w, ((AlterSeqStmt *) statement)->sequence, 0);
			add_owner(w, ((AlterSeqStmt *) statement)->options);
			break;
		case T_ViewStmt:
			add_range(w, ((ViewStmt *) statement)->view, 0);
			add_query(w, ((ViewStmt *) statement)->query);
			break;
		case T_RefreshMatViewStmt:
			add_range(w, ((RefreshMatViewStmt *) statement)->relation, 0);
			break;
		case T_ReindexStmt:
			add_range(w, ((ReindexStmt *) statement)->relation, 0);
			break;
		case T_CommentStmt:
			add_described_by(w, ((CommentStmt *) statement)->objtype, ((CommentStmt *) statement)->object);
			break;
		case T_PLAssignStmt:
			add_query(w, (Node *) ((PLAssignStmt *) statement)->val);
			break;
		case T_PrepareStmt:
			add_query(w, ((PrepareStmt *) statement)->query);
			break;
		case T_ExplainStmt:
			steno_written_add(w, ((ExplainStmt *) statement)->query);
			break;
		case T_DeclareCursorStmt:
			add_query(w, ((DeclareCursorStmt *) statement)->query);
			break;
		case T_CreateTableAsStmt:
			if (((CreateTableAsStmt *) statement)->into)
				add_range(w, ((CreateTableAsStmt *) statement)->into->rel, 0);
			add_query(w, ((CreateTableAsStmt *) statement)->query);
			break;
		default:
			w->writes = false;
			add_query(w, statement);
			if (w->writes)
				w->class = STENO_CLASS_WRITE;
			else if (IsA(statement, SelectStmt) && ((SelectStmt *) statement)->intoClause == NULL)
				w->class = STENO_CLASS_READ;
			break;
	}
}
