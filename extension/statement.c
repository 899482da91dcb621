/*
 * extension/statement.c
 *		Statements: the executor and utility hooks, and one record for each
 *		statement when it ends.
 *
 * A query is open from ExecutorStart to ExecutorEnd; open queries are kept in an
 * array (a cursor stays open while other statements run).  A statement is
 * running while one of its hooks is on the C stack: a Level there links the
 * running statements, innermost first, and gives the nesting depth.
 *
 * A query that a utility statement runs as its own (COPY (query), CREATE TABLE
 * AS, EXPLAIN ANALYZE) has the utility's source text and is part of the
 * utility's record.  Those that EXECUTE and DECLARE CURSOR run have a record of
 * their own, one level down, whatever steno.log_nested says.
 *
 * Failures: a running statement's hook catches the error, records it with
 * SQLSTATE and message, and throws it on.  Statements that fail before the
 * executor sees them are left to failure.c at the top level; inside functions
 * an error context callback notes the error, and the hook or subtransaction
 * end that next gets to see it records it.
 */
#include "steno.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "commands/copy.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/scansup.h"
#include "postmaster/autovacuum.h"
#include "tcop/cmdtag.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/timestamp.h"

#include "compat.h"

/* Relations that fit a utility's level before memory is taken. */
#define FEW_RELATIONS 16
#define FIRST_OPEN 16

/* What is the same for queries and utility statements. */
typedef struct Statement
{
	TimestampTz time;
	int64		start;			/* monotonic */
	uint64		statement;
	uint32		substatement;
	uint16		depth;
	uint8		class;
	bool		recorded;		/* by class and nesting; failures by class error */
	bool		failures;		/* recorded if it fails */
	bool		top_level;		/* is in the in-flight slot */
	const char *source;
	int			location;
	int			length;
} Statement;

typedef struct Open
{
	Statement	s;
	QueryDesc  *query;
	Portal		portal;			/* NULL: not a portal's query */
	SubTransactionId subid;
	uint64		rows;
} Open;

typedef struct Level
{
	struct Level *outer;
	QueryDesc  *query;			/* NULL: a utility statement */
	Statement  *utility;
	const char *command;
	int			inside;			/* depth of statements that it runs */
	bool		forces;			/* their record does not depend on log_nested */
	bool		declares;		/* DECLARE CURSOR */
	int			relations_count;
	int			relations_room;
	StenoAccess *relations;
	StenoAccess few[FEW_RELATIONS];
	ErrorContextCallback callback;
} Level;

static Level *level;			/* innermost running statement */
static Open *open_queries;
static int	open_count;
static int	open_room;
static bool starting_own;		/* in ExecutorStart of a query with its own record */

static uint32 substatements;	/* of the current top-level statement */
static TimestampTz anchor_time; /* statement timestamp ... */
static int64 anchor_start;		/* ... and the monotonic clock then */

/* End of the last statement in its source, for failure.c. */
static const char *last_source;
static int	last_end;
static TimestampTz last_time;

/* The failure of the running top-level statement is recorded. */
static bool reported;

/* An error that was raised, and that no hook of ours has seen yet. */
static struct
{
	int			code;			/* 0: none */
	char	   *message;
	char	   *query;			/* text of a nested statement, if known */
}			raised;

static MemoryContext raised_context;

static ExecutorStart_hook_type previous_start;
static ExecutorRun_hook_type previous_run;
static ExecutorFinish_hook_type previous_finish;
static ExecutorEnd_hook_type previous_end;
static ExecutorCheckPerms_hook_type previous_check;
static ProcessUtility_hook_type previous_utility;

static inline bool
recording(void)
{
	return steno_log_mask != 0 && steno_active() && !steno_session.dead &&
		!steno_paused && !IsParallelWorker() && !IsAutoVacuumWorkerProcess();
}

/* ---- errors that were raised ---- */

static void
forget_raised(void)
{
	if (raised.code != 0)
	{
		raised.code = 0;
		MemoryContextReset(raised_context);
	}
}

/*
 * Called for every message that is raised while a statement runs.  The callbacks
 * of what runs inside have been called before, so the text of a nested
 * statement that failed in analysis is known.
 */
static void
note_raised(void *arg)
{
	int			code = geterrcode();
	MemoryContext old;
	ErrorData  *edata;
	Level	   *l = arg;

	if (l != level || ERRCODE_TO_CATEGORY(code) == ERRCODE_SUCCESSFUL_COMPLETION ||
		ERRCODE_TO_CATEGORY(code) == ERRCODE_WARNING)
		return;
	forget_raised();
	old = MemoryContextSwitchTo(raised_context);
	edata = CopyErrorData();
	if (edata->elevel >= ERROR)
	{
		raised.code = edata->sqlerrcode;
		raised.message = edata->message;
		raised.query = edata->internalquery;
	}
	MemoryContextSwitchTo(old);
	if (raised.code == 0)
		MemoryContextReset(raised_context);
}

/* ---- open queries ---- */

static inline Open *
find_open(QueryDesc *query)
{
	int			i;

	for (i = open_count - 1; i >= 0; i--)
		if (open_queries[i].query == query)
			return &open_queries[i];
	return NULL;
}

static void
forget_open(Open *o)
{
	int			i = o - open_queries;

	open_count--;
	if (i < open_count)
		memmove(o, o + 1, (open_count - i) * sizeof(Open));
}

static Open *
add_open(QueryDesc *query)
{
	if (unlikely(open_count == open_room))
	{
		int			room = open_room * 2;
		Open	   *more = MemoryContextAllocExtended(TopMemoryContext,
													  room * sizeof(Open),
													  MCXT_ALLOC_NO_OOM);

		if (more == NULL)
			return NULL;
		memcpy(more, open_queries, open_count * sizeof(Open));
		pfree(open_queries);
		open_queries = more;
		open_room = room;
	}
	open_queries[open_count].query = query;
	return &open_queries[open_count++];
}

/* ---- text ---- */

/* The statement's own text in its source. */
static const char *
own_text(const char *source, int location, int length, uint64 *len)
{
	const char *text;
	size_t		n;

	if (source == NULL)
		source = "";
	text = location > 0 ? source + location : source;
	n = location >= 0 && length > 0 ? (size_t) length : strlen(text);
	while (n > 0 && scanner_isspace(*text))
	{
		text++;
		n--;
	}
	while (n > 0 && (scanner_isspace(text[n - 1]) || text[n - 1] == ';'))
		n--;
	*len = n;
	return text;
}

/* ---- beginning ---- */

static void
begin_statement(Statement *s, const char *source, int location, int length,
				int class, bool forced)
{
	s->depth = level ? level->inside : 0;
	s->start = steno_monotonic();
	s->class = class;
	s->source = source;
	s->location = location;
	s->length = length;
	s->top_level = s->depth == 0;

	/*
	 * Statements of one message share its timestamp; the later ones add what
	 * the monotonic clock says.
	 */
	if (anchor_time != GetCurrentStatementStartTimestamp())
	{
		anchor_time = GetCurrentStatementStartTimestamp();
		anchor_start = s->start;
	}
	s->time = anchor_time + (s->start - anchor_start);

	if (s->top_level)
	{
		reported = false;
		forget_raised();
		s->statement = ++steno_session.statement;
		s->substatement = 0;
		substatements = 0;
	}
	else
	{
		s->statement = steno_session.statement;
		s->substatement = ++substatements;
	}
	s->failures = steno_class_logged(STENO_CLASS_ERROR) &&
		(s->depth == 0 || steno_log_nested || forced);
	s->recorded = steno_class_logged(class) &&
		(s->depth == 0 || steno_log_nested || forced);
	if (s->top_level && s->recorded && steno_session_ready())
	{
		uint64		len;
		const char *text = own_text(source, location, length, &len);

		steno_inflight_begin(&steno_session.producer.ring->inflight,
							 s->statement, s->time, text, (uint32) len);
	}
}

/* ---- records ---- */

static StringInfoData shape;

static void
begin_shape(int class, uint64 query_id, const char *command)
{
	resetStringInfo(&shape);
	steno_put_number(&shape, class);
	steno_put_number(&shape, query_id);
	steno_put_string(&shape, command, strlen(command));
}

static void
put_relations(const StenoAccess *relations, int count)
{
	int			i;

	steno_put_number(&shape, count);
	for (i = 0; i < count; i++)
		steno_relation_put(&shape, relations[i].relid, relations[i].access);
}

/* Relations that a plan names, each once; returns their number. */
static int
plan_relations(PlannedStmt *plan, StenoAccess *found, int room)
{
	ListCell   *lc;
	int			count = 0;

	foreach(lc, STENO_PLAN_PERMISSIONS(plan))
	{
		StenoPermission *p = (StenoPermission *) lfirst(lc);
		int			i;

		if (!STENO_IS_PERMISSION(p))
			continue;
		for (i = 0; i < count; i++)
			if (found[i].relid == p->relid)
				break;
		if (i == room)
			break;
		if (i == count)
		{
			found[count].relid = p->relid;
			found[count++].access = 0;
		}
		found[i].access |= steno_access_of(p->requiredPerms);
	}
	return count;
}

static void
put_plan_relations(PlannedStmt *plan)
{
	StenoAccess few[64];
	StenoAccess *found = few;
	int			room = lengthof(few);
	int			most = list_length(STENO_PLAN_PERMISSIONS(plan));

	if (unlikely(most > room))
	{
		found = MemoryContextAllocExtended(steno_scratch, most * sizeof(StenoAccess),
										   MCXT_ALLOC_NO_OOM);
		if (found)
			room = most;
		else
			found = few;
	}
	put_relations(found, plan_relations(plan, found, room));
}

/* Fill in what queries and utility statements have alike, and put the record. */
static void
put_statement(Statement *s, StenoRecord *record, const ErrorData *edata)
{
	record->time = s->time;
	record->duration = steno_monotonic() - s->start;
	record->statement = s->statement;
	record->substatement = s->substatement;
	record->depth = s->depth;
	record->xid = GetTopTransactionIdIfAny();
	record->text = own_text(s->source, s->location, s->length, &record->text_len);
	record->shape = (uint8 *) shape.data;
	record->shape_len = shape.len;
	if (edata)
	{
		record->outcome = STENO_OUTCOME_ERROR;
		record->sqlerrcode = edata->sqlerrcode;
		record->message = edata->message ? edata->message : "missing error text";
	}
	steno_record_put(record, s->top_level);
}

/* Where the statement ended in its source, for one that fails after it. */
static inline void
remember_end(const Statement *s)
{
	if (s->top_level)
	{
		last_source = s->source;
		last_end = s->location >= 0 && s->length > 0 ? s->location + s->length : -1;
		last_time = anchor_time;
	}
}

static const char *
query_command(CmdType operation)
{
	switch (operation)
	{
		case CMD_SELECT:
			return "SELECT";
		case CMD_INSERT:
			return "INSERT";
		case CMD_UPDATE:
			return "UPDATE";
		case CMD_DELETE:
			return "DELETE";
		case CMD_MERGE:
			return "MERGE";
		default:
			return "";
	}
}

/* edata: it failed.  closed: its portal was closed by the end of a transaction. */
static void
record_query(Open *o, const ErrorData *edata, bool closed)
{
	QueryDesc  *query = o->query;
	StenoRecord record;
	StenoParams params;
	MemoryContext old;

	if (!(o->s.recorded || (edata && o->s.failures)) || !steno_session_ready())
		return;
	if (edata == NULL && !closed && steno_settings_dirty)
		steno_settings_record();
	old = MemoryContextSwitchTo(steno_scratch);
	steno_session_context();
	steno_record_init(&record, STENO_KIND_STATEMENT);
	if (!closed)
	{
		begin_shape(o->s.class, query->plannedstmt->queryId,
					query_command(query->operation));
		put_plan_relations(query->plannedstmt);
	}
	else
	{
		/* the plan may be gone with the transaction */
		begin_shape(o->s.class, 0, query_command(query->operation));
		put_relations(NULL, 0);
	}
	if (query->params && query->params->numParams > 0 && steno_log_parameter &&
		steno_params_collect(query->params, edata != NULL || closed, &shape, &params))
		record.params = &params;
	else
		steno_params_none(&shape);
	if (edata == NULL)
		record.rows = o->rows;
	put_statement(&o->s, &record, edata);
	MemoryContextSwitchTo(old);
	MemoryContextReset(steno_scratch);
}

static void
record_utility(Level *l, const ErrorData *edata, uint64 rows)
{
	Statement  *s = l->utility;
	StenoRecord record;
	MemoryContext old;

	if (!(s->recorded || (edata && s->failures)) || !steno_session_ready())
		return;
	old = MemoryContextSwitchTo(steno_scratch);
	steno_record_init(&record, STENO_KIND_STATEMENT);
	begin_shape(s->class, 0, l->command);
	put_relations(l->relations, l->relations_count);
	steno_params_none(&shape);
	if (edata == NULL)
		record.rows = rows;
	put_statement(s, &record, edata);
	MemoryContextSwitchTo(old);
	MemoryContextReset(steno_scratch);
}

/*
 * A statement inside a function that failed before the executor saw it, such as
 * one with a syntax error in EXECUTE.
 */
static void
record_raised(void)
{
	StenoRecord record;
	MemoryContext old;

	if (raised.code == 0)
		return;
	if (raised.query && level && steno_log_nested &&
		steno_class_logged(STENO_CLASS_ERROR) && steno_session_ready())
	{
		old = MemoryContextSwitchTo(steno_scratch);
		steno_record_init(&record, STENO_KIND_STATEMENT);
		begin_shape(STENO_CLASS_ERROR, 0, "");
		put_relations(NULL, 0);
		steno_params_none(&shape);
		record.time = anchor_time + (steno_monotonic() - anchor_start);
		record.duration = 0;
		record.statement = steno_session.statement;
		record.substatement = ++substatements;
		record.depth = level->inside;
		record.xid = GetTopTransactionIdIfAny();
		record.text = raised.query;
		record.text_len = strlen(raised.query);
		record.shape = (uint8 *) shape.data;
		record.shape_len = shape.len;
		record.outcome = STENO_OUTCOME_ERROR;
		record.sqlerrcode = raised.code;
		record.message = raised.message ? raised.message : "missing error text";
		steno_record_put(&record, false);
		MemoryContextSwitchTo(old);
		MemoryContextReset(steno_scratch);
	}
	forget_raised();
}

/* ---- levels ---- */

static inline void
enter(Level *l, QueryDesc *query, Statement *utility, int depth, bool forces)
{
	l->outer = level;
	l->query = query;
	l->utility = utility;
	l->inside = depth + 1;
	l->forces = forces;
	l->declares = false;
	l->relations_count = 0;
	l->relations_room = FEW_RELATIONS;
	l->relations = l->few;
	l->callback.callback = note_raised;
	l->callback.arg = l;
	l->callback.previous = error_context_stack;
	error_context_stack = &l->callback;
	level = l;
}

static inline void
leave(Level *l)
{
	error_context_stack = l->callback.previous;
	level = l->outer;
}

static void
free_relations(Level *l)
{
	if (l->relations != l->few)
		pfree(l->relations);
	l->relations = l->few;
}

/*
 * In a hook's PG_CATCH: the statement of this level has failed.  The server's
 * handler has put error_context_stack back already.
 */
static void
fail(Level *l)
{
	MemoryContext old = CurrentMemoryContext;
	ErrorData  *edata;

	if (raised.query)
		record_raised();
	else
		forget_raised();

	MemoryContextSwitchTo(raised_context);
	edata = CopyErrorData();
	level = l->outer;
	if (l->query)
	{
		Open	   *o = find_open(l->query);

		if (o)
		{
			record_query(o, edata, false);
			remember_end(&o->s);
			forget_open(o);
		}
	}
	else
	{
		record_utility(l, edata, 0);
		remember_end(l->utility);
		free_relations(l);
	}
	if (l->outer == NULL)
		reported = true;
	MemoryContextSwitchTo(old);
	MemoryContextReset(raised_context);
}

/*
 * The process is about to exit with a FATAL error: nothing unwinds, so all that
 * runs is recorded now.  Returns whether a statement was running.
 */
bool
steno_statement_fatal(const ErrorData *edata)
{
	bool		any = level != NULL;

	while (level)
	{
		Level	   *l = level;

		level = l->outer;
		if (l->query == NULL)
			record_utility(l, edata, 0);
		else
		{
			Open	   *o = find_open(l->query);

			if (o)
			{
				record_query(o, edata, false);
				forget_open(o);
			}
		}
	}
	return any;
}

/* Whether the top-level failure has its record; asked once. */
bool
steno_statement_take_reported(void)
{
	bool		result = reported;

	reported = false;
	return result;
}

/*
 * Where the statements of the current message have got to: source and end of the
 * last one that ran; returns the time of the message.
 */
TimestampTz
steno_statement_source(const char **source, int *end)
{
	*source = last_source;
	*end = last_end;
	return last_time;
}

/* ---- executor hooks ---- */

static inline int
query_class(QueryDesc *query)
{
	if (query->operation == CMD_SELECT && !query->plannedstmt->hasModifyingCTE)
		return STENO_CLASS_READ;
	return STENO_CLASS_WRITE;
}

static void
call_start(QueryDesc *query, int eflags)
{
	if (previous_start)
		previous_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

static void
executor_start(QueryDesc *query, int eflags)
{
	Open	   *o;
	Level		l;
	bool		saved_own = starting_own;
	ListCell   *lc;

	if (!recording() ||
		(level && level->utility && level->utility->source == query->sourceText &&
		 !level->forces))
	{
		/* part of the utility's record, or of none */
		starting_own = false;
		call_start(query, eflags);
		starting_own = saved_own;
		return;
	}

	o = add_open(query);
	if (o == NULL)
	{
		call_start(query, eflags);
		return;
	}
	begin_statement(&o->s, query->sourceText, query->plannedstmt->stmt_location,
					query->plannedstmt->stmt_len, query_class(query),
					level && level->forces);
	if (level && level->declares)
	{
		/* its plan does not know where in the source the DECLARE stands */
		o->s.location = level->utility->location;
		o->s.length = level->utility->length;
	}
	o->subid = GetCurrentSubTransactionId();
	o->rows = 0;
	o->portal = ActivePortal && ActivePortal->status == PORTAL_DEFINED &&
		ActivePortal->sourceText == query->sourceText ? ActivePortal : NULL;

	/* names while catalogs can be read: not at the end, which may be a failure */
	foreach(lc, STENO_PLAN_PERMISSIONS(query->plannedstmt))
	{
		StenoPermission *p = (StenoPermission *) lfirst(lc);

		if (STENO_IS_PERMISSION(p))
			steno_relation_know(p->relid);
	}

	enter(&l, query, NULL, o->s.depth, false);
	starting_own = true;
	PG_TRY();
	{
		call_start(query, eflags);
	}
	PG_CATCH();
	{
		starting_own = saved_own;
		fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	starting_own = saved_own;
	leave(&l);
}

static void
call_run(STENO_RUN_ARGS)
{
	if (previous_run)
		previous_run(STENO_RUN_PASS);
	else
		standard_ExecutorRun(STENO_RUN_PASS);
}

static void
executor_run(STENO_RUN_ARGS)
{
	Open	   *o = open_count > 0 ? find_open(query) : NULL;
	Level		l;

	if (o == NULL)
	{
		call_run(STENO_RUN_PASS);
		return;
	}
	enter(&l, query, NULL, o->s.depth, false);
	PG_TRY();
	{
		call_run(STENO_RUN_PASS);
	}
	PG_CATCH();
	{
		fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	leave(&l);
	o = find_open(query);		/* the array may have moved */
	if (o)
		o->rows += query->estate->es_processed;
}

static void
call_finish(QueryDesc *query)
{
	if (previous_finish)
		previous_finish(query);
	else
		standard_ExecutorFinish(query);
}

static void
executor_finish(QueryDesc *query)
{
	Open	   *o = open_count > 0 ? find_open(query) : NULL;
	Level		l;

	if (o == NULL)
	{
		call_finish(query);
		return;
	}
	enter(&l, query, NULL, o->s.depth, false);
	PG_TRY();
	{
		call_finish(query);
	}
	PG_CATCH();
	{
		fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	leave(&l);
}

static void
executor_end(QueryDesc *query)
{
	Open	   *o = open_count > 0 ? find_open(query) : NULL;

	if (o)
	{
		record_query(o, NULL, false);
		remember_end(&o->s);
		forget_open(o);
	}
	if (previous_end)
		previous_end(query);
	else
		standard_ExecutorEnd(query);
}

/* Permissions of relations that a utility statement, such as COPY, checks. */
static bool
check_perms(STENO_CHECK_PERMS_ARGS)
{
	if (!starting_own && level && level->utility && level->inside == level->utility->depth + 1)
	{
		ListCell   *lc;

		foreach(lc, STENO_PERMISSIONS_LIST)
		{
			StenoPermission *p = (StenoPermission *) lfirst(lc);
			int			i;

			if (!STENO_IS_PERMISSION(p))
				continue;
			for (i = 0; i < level->relations_count; i++)
				if (level->relations[i].relid == p->relid)
					break;
			if (i == level->relations_room)
			{
				int			room = level->relations_room * 2;
				StenoAccess *more = MemoryContextAllocExtended(TopMemoryContext,
															   room * sizeof(StenoAccess),
															   MCXT_ALLOC_NO_OOM);

				if (more == NULL)
					break;
				memcpy(more, level->relations, level->relations_count * sizeof(StenoAccess));
				free_relations(level);
				level->relations = more;
				level->relations_room = room;
			}
			if (i == level->relations_count)
			{
				steno_relation_know(p->relid);
				level->relations[i].relid = p->relid;
				level->relations[i].access = 0;
				level->relations_count++;
			}
			level->relations[i].access |= steno_access_of(p->requiredPerms);
		}
	}
	if (previous_check)
		return previous_check(STENO_CHECK_PERMS_PASS);
	return true;
}

/* ---- utility hook ---- */

static int
utility_class(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_CopyStmt:
			return ((CopyStmt *) statement)->is_from ? STENO_CLASS_WRITE : STENO_CLASS_READ;
		case T_TruncateStmt:
			return STENO_CLASS_WRITE;
		case T_DoStmt:
			return STENO_CLASS_FUNCTION;
		case T_GrantStmt:
		case T_GrantRoleStmt:
		case T_CreateRoleStmt:
		case T_AlterRoleStmt:
		case T_AlterRoleSetStmt:
		case T_DropRoleStmt:
		case T_AlterDefaultPrivilegesStmt:
		case T_ReassignOwnedStmt:
		case T_DropOwnedStmt:
			return STENO_CLASS_ROLE;
		case T_VariableSetStmt:
		case T_AlterSystemStmt:
			return STENO_CLASS_MISC_SET;
		case T_TransactionStmt:
			return STENO_CLASS_TRANSACTION;
		default:
			if (GetCommandLogLevel(statement) == LOGSTMT_DDL)
				return STENO_CLASS_DDL;
			return STENO_CLASS_MISC;
	}
}

static void
call_utility(PlannedStmt *plan, const char *source, bool read_only_tree,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *environment, DestReceiver *dest,
			 QueryCompletion *completion)
{
	if (previous_utility)
		previous_utility(plan, source, read_only_tree, context, params,
						 environment, dest, completion);
	else
		standard_ProcessUtility(plan, source, read_only_tree, context, params,
								environment, dest, completion);
}

static void
process_utility(PlannedStmt *plan, const char *source, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest,
				QueryCompletion *completion)
{
	Node	   *statement = plan->utilityStmt;
	Statement	s;
	Level		l;
	bool		changes_context;
	uint64		rows = STENO_NONE64;

	/* subcommands, such as those of CREATE SCHEMA, are the statement itself */
	if (!recording() || context == PROCESS_UTILITY_SUBCOMMAND)
	{
		call_utility(plan, source, read_only_tree, context, params,
					 environment, dest, completion);
		if (steno_settings_dirty && level == NULL)
			steno_settings_record();	/* recording may have been switched on */
		return;
	}

	begin_statement(&s, source, plan->stmt_location, plan->stmt_len,
					utility_class(statement), level && level->forces);
	l.command = GetCommandTagName(CreateCommandTag(statement));
	changes_context = IsA(statement, VariableSetStmt) ||
		IsA(statement, DiscardStmt) || IsA(statement, TransactionStmt);
	if (changes_context && s.recorded && steno_session_ready())
		steno_session_context();	/* SET ROLE was run by the role before */

	enter(&l, NULL, &s, s.depth,
		  IsA(statement, ExecuteStmt) || IsA(statement, DeclareCursorStmt));
	l.declares = IsA(statement, DeclareCursorStmt);
	PG_TRY();
	{
		call_utility(plan, source, read_only_tree, context, params,
					 environment, dest, completion);
	}
	PG_CATCH();
	{
		fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	leave(&l);

	if (completion && (completion->commandTag == CMDTAG_COPY ||
					   completion->commandTag == CMDTAG_FETCH ||
					   completion->commandTag == CMDTAG_MOVE ||
					   completion->commandTag == CMDTAG_SELECT ||
					   completion->commandTag == CMDTAG_REFRESH_MATERIALIZED_VIEW))
		rows = completion->nprocessed;
	if (!changes_context && s.recorded && steno_session_ready())
		steno_session_context();
	record_utility(&l, NULL, rows);
	if (steno_settings_dirty)
		steno_settings_record();
	remember_end(&s);
	free_relations(&l);
}

/* ---- transactions ---- */

/*
 * Queries that a (sub)transaction leaves open when it aborts: their executor is
 * gone.  A portal's text and plan still stand until the portal is dropped, a
 * little later; of others nothing is left, and the statement that ran them has
 * its own record.
 */
static void
close_open(SubTransactionId from)
{
	int			i;

	for (i = open_count - 1; i >= 0; i--)
	{
		Open	   *o = &open_queries[i];

		if (o->subid < from)
			continue;
		if (o->portal && PortalIsValid(o->portal))
			record_query(o, NULL, true);
		forget_open(o);
	}
}

static void
transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_ABORT:
			close_open(InvalidSubTransactionId);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			if (level == NULL)
				open_count = 0;
			break;
		default:
			break;
	}
}

static void
subtransaction_end(SubXactEvent event, SubTransactionId mine,
				   SubTransactionId parent, void *arg)
{
	int			i;

	switch (event)
	{
		case SUBXACT_EVENT_ABORT_SUB:
			close_open(mine);
			record_raised();
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			for (i = 0; i < open_count; i++)
				if (open_queries[i].subid == mine)
					open_queries[i].subid = parent;
			break;
		default:
			break;
	}
}

void
steno_statement_install(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	initStringInfo(&shape);
	MemoryContextSwitchTo(old);
	raised_context = AllocSetContextCreate(TopMemoryContext, "pg_steno error",
										   ALLOCSET_SMALL_SIZES);
	open_room = FIRST_OPEN;
	open_queries = MemoryContextAlloc(TopMemoryContext, open_room * sizeof(Open));

	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	previous_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	previous_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
	previous_check = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_perms;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	RegisterXactCallback(transaction_end, NULL);
	RegisterSubXactCallback(subtransaction_end, NULL);
}
