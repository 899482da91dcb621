/*
 * extension/describe/class.c
 *		Classes of utility statements.
 *
 * The classes are pgaudit's, which follow the server's classification of commands
 * (GetCommandLogLevel): commands that change data are writes, those that define
 * something are DDL, and the others are miscellaneous, except for the statements in
 * the table here, and for those that run a query which changes data: they are writes,
 * however they begin.  docs/records.md lists the differences from pgaudit.
 *
 * A statement may have further classes: those of the query that it runs as a part of
 * itself.  It is recorded, has a start record, and waits for the disk, if any of its
 * classes does.
 */
#include "base/steno.h"

#include "commands/defrem.h"
#include "nodes/parsenodes.h"
#include "tcop/cmdtag.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"

#include "base/compat.h"
#include "describe/shape.h"

/* Statements whose class does not follow from their log level. */
static const struct
{
	NodeTag		tag;
	int			class;
}			classes[] =
{
	{T_AlterDefaultPrivilegesStmt, STENO_CLASS_ROLE},
	{T_AlterRoleSetStmt, STENO_CLASS_ROLE},
	{T_AlterRoleStmt, STENO_CLASS_ROLE},
	{T_AlterUserMappingStmt, STENO_CLASS_USER_MAPPING},
	{T_CallStmt, STENO_CLASS_FUNCTION},
	{T_CreateRoleStmt, STENO_CLASS_ROLE},
	{T_CreateUserMappingStmt, STENO_CLASS_USER_MAPPING},
	{T_DoStmt, STENO_CLASS_FUNCTION},
	{T_DropRoleStmt, STENO_CLASS_ROLE},
	{T_ExecuteStmt, STENO_CLASS_MISC},	/* the executed statement has a record of its own */
	{T_GrantRoleStmt, STENO_CLASS_ROLE},
	{T_GrantStmt, STENO_CLASS_ROLE},
	{T_VariableSetStmt, STENO_CLASS_MISC_SET},
};

/* Statements that only read data. */
static bool
only_reads(Node *statement)
{
	return IsA(statement, CopyStmt) || IsA(statement, DeclareCursorStmt) ||
		IsA(statement, PrepareStmt);
}

/* Whether a query changes data: one that has been analyzed, or, in COPY, only parsed. */
static bool
changes_data(Node *query)
{
	const SelectStmt *select;
	const Query *analyzed;
	ListCell   *lc;

	switch (nodeTag(query))
	{
		case T_RawStmt:
			return changes_data(((RawStmt *) query)->stmt);
		case T_Query:
			analyzed = (Query *) query;
			if (analyzed->commandType == CMD_UTILITY)
				return steno_class_of_utility(analyzed->utilityStmt) == STENO_CLASS_WRITE;
			return steno_query_class(analyzed->commandType, analyzed->hasModifyingCTE) == STENO_CLASS_WRITE;
		case T_SelectStmt:
			select = (SelectStmt *) query;
			/* elsewhere than here, the server does not permit that WITH changes data */
			if (select->withClause)
				foreach(lc, select->withClause->ctes)
				{
					if (!IsA(((CommonTableExpr *) lfirst(lc))->ctequery, SelectStmt))
						return true;
				}
			return false;
		default:
			return true;		/* INSERT, UPDATE, DELETE, MERGE */
	}
}

/* The query that a utility statement runs as a part of itself; NULL: none. */
static Node *
query_of(Node *statement)
{
	bool		analyze = false;
	ListCell   *lc;

	switch (nodeTag(statement))
	{
		case T_CopyStmt:
			return ((CopyStmt *) statement)->query;
		case T_CreateTableAsStmt:
			return ((CreateTableAsStmt *) statement)->query;
		case T_ExplainStmt:
			foreach(lc, ((ExplainStmt *) statement)->options)
			{
				DefElem    *option = (DefElem *) lfirst(lc);

				if (strcmp(option->defname, "analyze") == 0)
					analyze = defGetBoolean(option);
			}
			return analyze ? ((ExplainStmt *) statement)->query : NULL;
		default:
			return NULL;
	}
}

/* The class of a statement by itself, whatever the query that it contains. */
static int
own_class(Node *statement)
{
	NodeTag		tag = nodeTag(statement);
	int			i;

	for (i = 0; i < (int) lengthof(classes); i++)
		if (classes[i].tag == tag)
			return classes[i].class;

	/* ALTER ROLE ... RENAME is a RenameStmt, as for other objects */
	if (tag == T_RenameStmt && ((RenameStmt *) statement)->renameType == OBJECT_ROLE)
		return STENO_CLASS_ROLE;
	switch (GetCommandLogLevel(statement))
	{
		case LOGSTMT_DDL:
			return STENO_CLASS_DDL;
		case LOGSTMT_MOD:
			return STENO_CLASS_WRITE;
		default:
			return only_reads(statement) ? STENO_CLASS_READ : STENO_CLASS_MISC;
	}
}

STENO_HOT int
steno_class_of_utility(Node *statement)
{
	Node	   *query;

	/* the most frequent ones, without a search of the table */
	if (likely(IsA(statement, TransactionStmt)))
		return STENO_CLASS_TRANSACTION;
	query = query_of(statement);
	return query && changes_data(query) ? STENO_CLASS_WRITE : own_class(statement);
}

/*
 * The classes that a utility statement has besides the one that steno_class_of_utility has returned,
 * a bit for each.
 */
uint32
steno_further_classes(Node *statement, int class)
{
	Node	   *query = query_of(statement);
	uint32		further = 0;

	if (IsA(statement, RefreshMatViewStmt))
		return 1u << STENO_CLASS_READ;
	if (query == NULL)
		return 0;
	if (class == STENO_CLASS_WRITE)
		further |= 1u << own_class(statement);
	if (!IsA(query, Query) || ((Query *) query)->commandType != CMD_UTILITY ||
		IsA(((Query *) query)->utilityStmt, DeclareCursorStmt))
		further |= 1u << STENO_CLASS_READ;
	else
		/* EXECUTE, whose query has a record of its own, or CREATE TABLE AS in EXPLAIN */
		further |= steno_further_classes(((Query *) query)->utilityStmt, class);
	return further & ~(1u << class);
}
