/*
 * extension/t/hooks.c
 *		A library that uses the server's hooks in every order, for hooks_in_any_order.pl,
 *		long_searches_can_be_ended.pl, and failures_under_locks_do_not_wait.pl.
 *
 * It is compiled twice: LIBRARY is hooks_inner, which pg_steno's hooks call, or hooks_outer, which calls them.  A
 * client's message that begins with the comment "act" is acted on once, as the library's setting LIBRARY.act says:
 * WHERE WHEN WHAT, such as "run before utility".
 */
#include "postgres.h"

/* its headers are not where the compiler looks for them */
#undef ENABLE_GSS

#include "access/xact.h"
#include "base/compat.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "parser/parser.h"
#include "storage/lwlock.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static char *act;
static char where[32];
static char when[32];
static char what[32];
static TimestampTz acted;		/* timestamp of the message that was acted on */

static ExecutorStart_hook_type next_start;
static ExecutorRun_hook_type next_run;
static ExecutorFinish_hook_type next_finish;
static ExecutorEnd_hook_type next_end;
static ProcessUtility_hook_type next_utility;
static planner_hook_type next_planner;
static object_access_hook_type next_access;
static emit_log_hook_type next_log;

/* ---- what is done ---- */

static void
run_utility(const char *sql, const char *source, ProcessUtilityContext context)
{
	PlannedStmt *plan = makeNode(PlannedStmt);

	plan->commandType = CMD_UTILITY;
	plan->canSetTag = true;
	plan->utilityStmt = linitial_node(RawStmt, raw_parser(sql, RAW_PARSE_DEFAULT))->stmt;
	ProcessUtility(plan, source, false, context, NULL, NULL, None_Receiver, NULL);
}

static void
run_query(const char *sql)
{
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	SPI_execute(sql, false, 0);
	SPI_finish();
	PopActiveSnapshot();
}

/* A portal that runs as if the main loop ran it. */
static void
run_portal(const char *sql)
{
	Portal		portal = CreatePortal("of a hook", true, true);
	List	   *queries = pg_parse_query(sql);
	RawStmt    *raw = linitial_node(RawStmt, queries);
	QueryCompletion completion;

	PushActiveSnapshot(GetTransactionSnapshot());
	queries = pg_analyze_and_rewrite_fixedparams(raw, sql, NULL, 0, NULL);
	queries = pg_plan_queries(queries, sql, 0, NULL);
	PopActiveSnapshot();
	PortalDefineQuery(portal, NULL, sql, CreateCommandTag(raw->stmt), queries, NULL);
	PortalStart(portal, NULL, 0, InvalidSnapshot);
	STENO_PORTAL_RUN(portal, None_Receiver, &completion);
	PortalDrop(portal, false);
}

/* Call f in a subtransaction, which is rolled back if it fails; throw: then throw the error again, after a query. */
static void
in_subtransaction(void (*f) (void *), void *arg, bool throw)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile edata = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		f(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (edata && throw)
	{
		run_query("SELECT 'in a handler'");
		ReThrowError(edata);
	}
}

static void
fail(void *arg)
{
	run_utility("DROP TABLE no_such_table_of_a_hook", "DROP TABLE no_such_table_of_a_hook", PROCESS_UTILITY_TOPLEVEL);
}

static void
do_what(void)
{
	static const char setting[] = "SET LOCAL geqo_seed = 0.5 /* of a hook */";
	static const char block[] = "DO $$BEGIN PERFORM 'in a block of a hook'; END$$";

	if (strcmp(what, "utility") == 0)
		run_utility(setting, setting, PROCESS_UTILITY_TOPLEVEL);
	else if (strcmp(what, "same_text") == 0)
		run_utility(setting, debug_query_string, PROCESS_UTILITY_TOPLEVEL);
	else if (strcmp(what, "utility_query") == 0)
		run_utility(setting, setting, PROCESS_UTILITY_QUERY);
	else if (strcmp(what, "subcommand") == 0)
		run_utility(setting, setting, PROCESS_UTILITY_SUBCOMMAND);
	else if (strcmp(what, "block") == 0)
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		run_utility(block, block, PROCESS_UTILITY_TOPLEVEL);
		PopActiveSnapshot();
	}
	else if (strcmp(what, "failure") == 0)
		in_subtransaction(fail, NULL, false);
	else if (strcmp(what, "query") == 0)
		run_query("SELECT 'of a hook'");
	else if (strcmp(what, "portal") == 0)
		run_portal("SELECT 'of a portal of a hook'");
	else if (strcmp(what, "access") == 0 && object_access_hook)
		object_access_hook(OAT_FUNCTION_EXECUTE, ProcedureRelationId, 31, 0, NULL);
	else if (strcmp(what, "error") == 0)
		ereport(ERROR, (errcode(ERRCODE_RAISE_EXCEPTION), errmsg("error of a hook")));
	else if (strcmp(what, "locked_error") == 0)
	{
		LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
		ereport(ERROR, (errcode(ERRCODE_RAISE_EXCEPTION), errmsg("error under a lock")));
	}
	else if (strcmp(what, "sleep") == 0)
		pg_usleep(300000);
	else if (strcmp(what, "cancel") == 0)
	{
		/* as a signal does, at a place that is certain */
		InterruptPending = true;
		QueryCancelPending = true;
	}
}

static bool
is_here(const char *hook, const char *moment)
{
	return act && debug_query_string && strcmp(where, hook) == 0 && strcmp(when, moment) == 0 &&
		strncmp(debug_query_string, "/* act", 6) == 0 && acted != GetCurrentStatementStartTimestamp() &&
		IsTransactionState();
}

static void
here(const char *hook, const char *moment)
{
	if (!is_here(hook, moment))
		return;
	acted = GetCurrentStatementStartTimestamp();
	do_what();
}

/* ---- hooks ---- */

/* The next hook's arguments, to call it in a subtransaction. */
typedef struct Call
{
	QueryDesc  *query;
	ScanDirection direction;
	uint64		count;
	PlannedStmt *plan;
	const char *source;
	bool		read_only_tree;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *environment;
	DestReceiver *dest;
	QueryCompletion *completion;
} Call;

static void
call_run(void *arg)
{
	Call	   *c = arg;
	QueryDesc  *query = c->query;
	ScanDirection direction = c->direction;
	uint64		count = c->count;
	bool		execute_once PG_USED_FOR_ASSERTS_ONLY = true;

	next_run(STENO_RUN_PASS);
}

static void
call_utility(void *arg)
{
	Call	   *c = arg;

	next_utility(c->plan, c->source, c->read_only_tree, c->context, c->params, c->environment, c->dest, c->completion);
}

/* Catch the error and go on as if nothing had happened, or throw it again after a query. */
static void
around(const char *hook, void (*f) (void *), Call *c)
{
	if (!is_here(hook, "around"))
	{
		f(c);
		return;
	}
	acted = GetCurrentStatementStartTimestamp();
	in_subtransaction(f, c, strcmp(what, "throw") == 0);
}

static void
start(QueryDesc *query, int eflags)
{
	here("start", "before");
	next_start(query, eflags);
	here("start", "after");
}

static void
run(STENO_RUN_ARGS)
{
	Call		c = {.query = query, .direction = direction, .count = count};

	here("run", "before");
	around("run", call_run, &c);
	here("run", "after");
}

static void
finish(QueryDesc *query)
{
	here("finish", "before");
	next_finish(query);
	here("finish", "after");
}

static void
end(QueryDesc *query)
{
	here("end", "before");
	next_end(query);
	here("end", "after");
}

static void
utility(PlannedStmt *plan, const char *source, bool read_only_tree, ProcessUtilityContext context,
		ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	Call		c = {.plan = plan, .source = source, .read_only_tree = read_only_tree, .context = context,
		.params = params, .environment = environment, .dest = dest, .completion = completion};

	here("utility", "before");
	around("utility", call_utility, &c);
	here("utility", "after");
}

static PlannedStmt *
plan(STENO_PLAN_ARGS)
{
	PlannedStmt *result;

	here("planner", "before");
	result = next_planner(STENO_PLAN_PASS);
	here("planner", "after");
	return result;
}

static void
accessed(ObjectAccessType event, Oid class, Oid oid, int sub, void *arg)
{
	here("access", "before");
	if (next_access)
		next_access(event, class, oid, sub, arg);
	here("access", "after");
}

static void
transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT)
		here("commit", "before");
}

static void
assigned(const char *value, void *extra)
{
	where[0] = when[0] = what[0] = '\0';
	if (value)
		sscanf(value, "%31s %31s %31s", where, when, what);
}

static void
logged(ErrorData *edata)
{
	if (edata->elevel == LOG)
		here("log", "before");
	if (next_log)
		next_log(edata);
}

void
_PG_init(void)
{
	DefineCustomStringVariable(LIBRARY ".act", "WHERE WHEN WHAT", NULL, &act, "", PGC_USERSET, 0, NULL, assigned, NULL);
	next_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = start;
	next_run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = run;
	next_finish = ExecutorFinish_hook ? ExecutorFinish_hook : standard_ExecutorFinish;
	ExecutorFinish_hook = finish;
	next_end = ExecutorEnd_hook ? ExecutorEnd_hook : standard_ExecutorEnd;
	ExecutorEnd_hook = end;
	next_utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = utility;
	next_planner = planner_hook ? planner_hook : standard_planner;
	planner_hook = plan;
	next_access = object_access_hook;
	object_access_hook = accessed;
	next_log = emit_log_hook;
	emit_log_hook = logged;
	RegisterXactCallback(transaction, NULL);
}
