/*
 * extension/describe/class.c
 *		Classes of utility statements.
 *
 * The classes are pgaudit's, which follow the server's classification of commands
 * (GetCommandLogLevel): commands that change data are writes, those that define
 * something are DDL, and the others are miscellaneous, except for the statements in
 * the table here.  docs/records.md lists the differences from pgaudit.
 */
#include "base/steno.h"

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

STENO_HOT int
steno_class_of_utility(Node *statement)
{
	NodeTag		tag = nodeTag(statement);
	int			i;

	/* the most frequent ones, without a search of the table */
	if (likely(tag == T_TransactionStmt))
		return STENO_CLASS_TRANSACTION;
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
