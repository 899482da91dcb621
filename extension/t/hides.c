/*
 * extension/t/hides.c
 *		A library that executes COPY itself, and tells no hook that was there before.
 */
#include "postgres.h"

#include "fmgr.h"
#include "tcop/utility.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static ProcessUtility_hook_type previous;

static void
utility(PlannedStmt *plan, const char *source, bool read_only_tree, ProcessUtilityContext context, ParamListInfo params,
		QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	if (IsA(plan->utilityStmt, CopyStmt) || previous == NULL)
		standard_ProcessUtility(plan, source, read_only_tree, context, params, environment, dest, completion);
	else
		previous(plan, source, read_only_tree, context, params, environment, dest, completion);
}

void
_PG_init(void)
{
	previous = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}
