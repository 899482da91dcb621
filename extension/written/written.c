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

static bool walk(Node *node, void *arg);

/* Names of WITH are no relations. */
static void
forget_ctes(StenoWritten *w, const WithClause *with)
{
	ListCell   *lc;
	int			i;

	foreach(lc, with ? with->ctes : NIL)
		for (i = 0; i < w->count; i++)
			if (w->names[i].schema[0] == '\0' && w->names[i].access == (STENO_ACCESS_SELECT | STENO_ACCESS_WRITTEN) &&
				strcmp(w->names[i].name, lfirst_node(CommonTableExpr, lc)->ctename) == 0)
				w->names[i--] = w->names[--w->count];
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

static bool
walk_node(Node *node, void *arg)
{
	StenoWritten *w = arg;
	const WithClause *with = NULL;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_RangeVar:
			add_range(w, (RangeVar *) node, STENO_ACCESS_SELECT);
			return false;
		case T_InsertStmt:
			add_range(w, ((InsertStmt *) node)->relation, STENO_ACCESS_INSERT);
			(void) walk(((InsertStmt *) node)->selectStmt, w);
			with = ((InsertStmt *) node)->withClause;
			(void) raw_expression_tree_walker((Node *) with, walk, w);
			break;
		case T_UpdateStmt:
			add_range(w, ((UpdateStmt *) node)->relation, STENO_ACCESS_UPDATE);
			(void) raw_expression_tree_walker((Node *) ((UpdateStmt *) node)->fromClause, walk, w);
			(void) walk(((UpdateStmt *) node)->whereClause, w);
			(void) raw_expression_tree_walker((Node *) ((UpdateStmt *) node)->targetList, walk, w);
			with = ((UpdateStmt *) node)->withClause;
			(void) raw_expression_tree_walker((Node *) with, walk, w);
			break;
		case T_DeleteStmt:
			add_range(w, ((DeleteStmt *) node)->relation, STENO_ACCESS_DELETE);
			(void) raw_expression_tree_walker((Node *) ((DeleteStmt *) node)->usingClause, walk, w);
			(void) walk(((DeleteStmt *) node)->whereClause, w);
			with = ((DeleteStmt *) node)->withClause;
			(void) raw_expression_tree_walker((Node *) with, walk, w);
			break;
		case T_MergeStmt:
			add_range(w, ((MergeStmt *) node)->relation, merge_access(((MergeStmt *) node)->mergeWhenClauses));
			(void) walk(((MergeStmt *) node)->sourceRelation, w);
			(void) walk(((MergeStmt *) node)->joinCondition, w);
			(void) raw_expression_tree_walker((Node *) ((MergeStmt *) node)->mergeWhenClauses, walk, w);
			with = ((MergeStmt *) node)->withClause;
			(void) raw_expression_tree_walker((Node *) with, walk, w);
			break;
		case T_SelectStmt:
			(void) raw_expression_tree_walker(node, walk, w);
			with = ((SelectStmt *) node)->withClause;
			break;
		default:
			return raw_expression_tree_walker(node, walk, w);
	}
	forget_ctes(w, with);
	return false;
}

static bool
walk(Node *node, void *arg)
{
	StenoWritten *w = arg;

	if (w->depth >= DEEPEST || stack_is_too_deep())
	{
		w->omitted++;
		return false;
	}
	w->depth++;
	(void) walk_node(node, arg);
	w->depth--;
	return false;
}

/* A query that has not been analyzed; what else may stand in its place is left out. */
static void
add_query(StenoWritten *w, Node *query)
{
	if (query && (IsA(query, SelectStmt) || IsA(query, InsertStmt) || IsA(query, UpdateStmt) ||
				  IsA(query, DeleteStmt) || IsA(query, MergeStmt)))
		(void) walk(query, w);
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
		add_range(w, ((Constraint *) element)->pktable, STENO_ACCESS_REFERENCES);
	else if (IsA(element, PartitionCmd))
		add_range(w, ((PartitionCmd *) element)->name, 0);
	else if (IsA(element, RangeVar))
		add_range(w, (RangeVar *) element, 0);
	else if (IsA(element, ColumnDef))
		foreach(lc, ((ColumnDef *) element)->constraints)
			add_named_by(w, lfirst(lc));
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

static void
add_copied(StenoWritten *w, const CopyStmt *copy)
{
	add_range(w, copy->relation, copy->is_from ? STENO_ACCESS_INSERT : STENO_ACCESS_SELECT);
	add_query(w, copy->query);
}

void
steno_written_find(StenoWritten *w, Node *statement)
{
	w->count = 0;
	w->omitted = 0;
	if (statement != NULL)
		steno_written_add(w, statement);
}

/* Find them, and add them to those that are found already. */
void
steno_written_add(StenoWritten *w, Node *statement)
{
	w->depth = 0;
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
			break;
		case T_CreateTrigStmt:
			add_range(w, ((CreateTrigStmt *) statement)->relation, 0);
			add_range(w, ((CreateTrigStmt *) statement)->constrrel, STENO_ACCESS_REFERENCES);
			break;
		case T_RuleStmt:
			add_range(w, ((RuleStmt *) statement)->relation, 0);
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
			break;
		case T_AlterPolicyStmt:
			add_range(w, ((AlterPolicyStmt *) statement)->table, 0);
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
			break;
		case T_AlterSeqStmt:
			add_range(w, ((AlterSeqStmt *) statement)->sequence, 0);
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
			add_query(w, ((ExplainStmt *) statement)->query);
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
			add_query(w, statement);
			break;
	}
}
