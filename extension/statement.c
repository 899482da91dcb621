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

#include "access/xact.h"
#include "commands/copy.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/scansup.h"
#include "tcop/cmdtag.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"

/* Relations that fit a utility's level before memory is taken. */
#define FEW_RELATIONS 16

/* A statement that runs, on the stack of its hook. */
typedef struct StenoLevel
{
	struct StenoLevel *outer;
	QueryDesc  *query;			/* NULL: a utility statement */
	StenoStatement *utility;
	int			inside;			/* depth of statements that it runs */
	bool		forces;			/* their record does not depend on log_nested */
	bool		declares;		/* DECLARE CURSOR */
	ErrorContextCallback callback;

	/* utility statements only */
	const char *command;
	int			relations_count;
	int			relations_room;
	StenoAccess *relations;
	StenoAccess few[FEW_RELATIONS];
} StenoLevel;

/* The message and query of the error in steno_my.raised_code. */
static char *raised_message;
static char *raised_query;		/* text of a nested statement, if known */
static MemoryContext raised_context;

static inline bool
recording(void)
{
	return steno_my.log_mask != 0 && !steno_my.paused && steno_session_ready();
}

/*
 * Has a session fact changed since our session message?  user_id is the statement's
 * role.  A setting's new value has another address than its old one, which
 * stands at least to the end of the transaction; to rely on that, we must look
 * at the end of every statement.  The session user changes in utility
 * statements, which look for themselves.
 */
static inline void
describe_session(Oid user_id)
{
	if (unlikely(!steno_my.described || steno_my.log_mask != ~0u ||
				 steno_my.application != application_name ||
				 steno_my.user_id != user_id))
		steno_session_check(user_id);
}

/* ---- errors that were raised ---- */

STENO_COLD static void
forget_raised(void)
{
	if (steno_my.raised_code != 0)
	{
		steno_my.raised_code = 0;
		raised_query = NULL;
		MemoryContextReset(raised_context);
	}
}

/*
 * Called for every message that is raised while a statement runs.  The callbacks
 * of what runs inside have been called before, so the text of a nested
 * statement that failed in analysis is known.
 */
STENO_COLD static void
note_raised(void *arg)
{
	int			code = geterrcode();
	MemoryContext old;
	ErrorData  *edata;

	if (arg != steno_my.level || ERRCODE_TO_CATEGORY(code) == ERRCODE_SUCCESSFUL_COMPLETION ||
		ERRCODE_TO_CATEGORY(code) == ERRCODE_WARNING)
		return;
	forget_raised();
	old = MemoryContextSwitchTo(raised_context);
	edata = CopyErrorData();
	if (edata->elevel >= ERROR)
	{
		steno_my.raised_code = edata->sqlerrcode;
		raised_message = edata->message;
		raised_query = edata->internalquery;
	}
	MemoryContextSwitchTo(old);
	if (steno_my.raised_code == 0)
		MemoryContextReset(raised_context);
}

/* ---- open queries ---- */

static inline StenoOpen *
find_open(QueryDesc *query)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
		if (steno_my.open[i].query == query)
			return &steno_my.open[i];
	return NULL;
}

static inline void
forget_open(StenoOpen *o)
{
	int			i = o - steno_my.open;

	steno_my.open_count--;
	if (unlikely(i < steno_my.open_count))
		memmove(o, o + 1, (steno_my.open_count - i) * sizeof(StenoOpen));
}

STENO_COLD static bool
more_open(void)
{
	int			room = steno_my.open_room * 2;
	StenoOpen  *more = MemoryContextAllocExtended(TopMemoryContext,
												  room * sizeof(StenoOpen),
												  MCXT_ALLOC_NO_OOM);

	if (more == NULL)
		return false;
	memcpy(more, steno_my.open, steno_my.open_count * sizeof(StenoOpen));
	if (steno_my.open != steno_my.few_open)
		pfree(steno_my.open);
	steno_my.open = more;
	steno_my.open_room = room;
	return true;
}

static inline StenoOpen *
add_open(QueryDesc *query)
{
	if (unlikely(steno_my.open_count == steno_my.open_room) && !more_open())
		return NULL;
	steno_my.open[steno_my.open_count].query = query;
	return &steno_my.open[steno_my.open_count++];
}

/* ---- beginning ---- */

static inline bool
is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
}

/* Find the statement's own text in its source. */
STENO_HOT static void
find_text(StenoStatement *s, const char *source, int location, int length)
{
	const char *text;
	size_t		n;

	if (source == NULL)
		source = "";
	text = location > 0 ? source + location : source;
	if (location >= 0 && length > 0)
	{
		n = length;
		s->end = location + length;
	}
	else
	{
		n = strlen(text);
		s->end = -1;
	}
	while (n > 0 && is_blank(*text))
	{
		text++;
		n--;
	}
	while (n > 0 && (is_blank(text[n - 1]) || text[n - 1] == ';'))
		n--;
	s->source = source;
	s->text = text;
	s->text_len = n;
}

STENO_HOT static void
begin_statement(StenoStatement *s, const char *source, int location, int length,
				int class, int depth, bool forced)
{
	TimestampTz message = GetCurrentStatementStartTimestamp();

	s->depth = depth;
	s->start = steno_clock_ticks(&steno_my.clock);
	s->class = class;
	s->user_id = GetUserId();
	s->top_level = s->depth == 0;
	find_text(s, source, location, length);

	/*
	 * Statements of one message share its timestamp; the later ones add what
	 * the clock says.
	 */
	if (steno_my.anchor_time != message)
	{
		steno_my.anchor_time = message;
		steno_my.anchor_start = s->start;
		s->time = message;
	}
	else
		s->time = message + steno_clock_us(&steno_my.clock, steno_my.anchor_start, s->start);

	if (s->top_level)
	{
		steno_my.reported = false;
		if (unlikely(steno_my.raised_code != 0))
			forget_raised();
		s->statement = ++steno_my.statement;
		s->substatement = 0;
		steno_my.substatements = 0;
	}
	else
	{
		s->statement = steno_my.statement;
		s->substatement = ++steno_my.substatements;
	}
	s->recorded = s->top_level || steno_my.log_nested || forced;
	s->failures = s->recorded && steno_class_logged(STENO_CLASS_ERROR);
	s->recorded = s->recorded && steno_class_logged(class);

	/* a function may run as its owner: the role must be known should it fail */
	if (!s->top_level && s->recorded)
		describe_session(s->user_id);
	if (s->top_level && s->recorded)
	{
		steno_ring_touch(&steno_my.producer);
		__builtin_prefetch(&application_name);
		/* should we die now, whose statement it is must be known */
		if (unlikely(!steno_my.described))
			steno_session_check(s->user_id);
		steno_my.inflight_version =
			steno_inflight_begin(&steno_my.producer.ring->inflight,
								 steno_my.inflight_version, s->statement,
								 s->time, s->text, (uint32) s->text_len);
		steno_ring_prefetch(&steno_my.producer);
	}
}

/* ---- records ---- */

/* Relations that a plan names, each once; returns their number. */
STENO_HOT static int
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

/* Memory for one record; NULL when there is none. */
STENO_COLD static void *
scratch(size_t size)
{
	steno_my.scratch_used = true;
	return MemoryContextAllocExtended(steno_my.scratch, size, MCXT_ALLOC_NO_OOM);
}

/*
 * The shape is the one part of a record that cannot go in parts: what does not
 * fit three quarters of a message is left out, and the record says how much.
 * Types of parameters come first, but leave room for a few relations.
 */
static inline uint32
shape_limit(void)
{
	return steno_my.producer.max_message / 4 * 3;
}

STENO_COLD static void
omit(StenoRecord *record, const char *name, int count)
{
	StringInfoData extra;
	MemoryContext old = MemoryContextSwitchTo(steno_my.scratch);
	char		number[16];

	steno_my.scratch_used = true;
	initStringInfo(&extra);
	if (record->extra)
		appendBinaryStringInfo(&extra, (const char *) record->extra, record->extra_len);
	snprintf(number, sizeof(number), "%d", count);
	steno_put_pair(&extra, name, number);
	record->extra = (uint8 *) extra.data;
	record->extra_len = extra.len;
	record->extra_count++;
	MemoryContextSwitchTo(old);
}

/*
 * Make the record's shape: all of it but the parameters, for which there is room
 * at the returned end.  command NULL is SELECT, which then is in the code: the
 * page of our constants is another one to miss.
 */
STENO_HOT static uint8 *
make_shape(StenoRecord *record, int class, uint64 query_id, const char *command,
		   const StenoAccess *relations, int count, ParamListInfo params)
{
	uint32		command_len = command ? strlen(command) : strlen("SELECT");
	uint32		room = 3 * STENO_VARINT_MAX + command_len;
	uint8	   *p = steno_my.shape;
	int			i;

	if (params)
		room += steno_params_shape_size(params);
	for (i = 0; i < count; i++)
	{
		room += steno_relation_size(relations[i].relid);
		if (unlikely(room > shape_limit()))
		{
			omit(record, "relations_omitted", count - i);
			count = i;
			break;
		}
	}
	if (unlikely(room > STENO_SHAPE_ROOM))
	{
		p = scratch(room);
		if (p == NULL)
			return NULL;
	}
	record->shape = p;
	p = steno_put_varint(p, class);
	p = steno_put_varint(p, query_id);
	p = steno_put_varint(p, command_len);
	if (likely(command == NULL))
		memcpy(p, "SELECT", strlen("SELECT"));
	else
		memcpy(p, command, command_len);
	p += command_len;
	p = steno_put_varint(p, count);
	for (i = 0; i < count; i++)
		p = steno_relation_put(p, relations[i].relid, relations[i].access);
	return p;
}

/* Fill in what queries and utility statements have alike, and put the record. */
static inline void
put_statement(StenoStatement *s, StenoRecord *record, const ErrorData *edata)
{
	record->time = s->time;
	record->duration = steno_clock_us(&steno_my.clock, s->start,
									  steno_clock_ticks(&steno_my.clock));
	record->statement = s->statement;
	record->substatement = s->substatement;
	record->depth = s->depth;
	record->xid = GetTopTransactionIdIfAny();
	record->text = s->text;
	record->text_len = s->text_len;
	if (unlikely(edata != NULL))
	{
		record->outcome = STENO_OUTCOME_ERROR;
		record->sqlerrcode = edata->sqlerrcode;
		record->message = edata->message ? edata->message : "missing error text";
	}
	steno_record_put(record, s->top_level);
}

/* Where the statement ended in its source, for one that fails after it. */
static inline void
remember_end(const StenoStatement *s)
{
	if (s->top_level)
	{
		steno_my.last_source = s->source;
		steno_my.last_end = s->end;
		steno_my.last_time = steno_my.anchor_time;
	}
}

static const char *
query_command(CmdType operation)
{
	switch (operation)
	{
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

/* The parameters of a query go into its shape and the record. */
STENO_HOT static uint8 *
add_params(StenoRecord *record, ParamListInfo params, bool failing,
		   uint8 *shape, StenoParams *values)
{
	MemoryContext old = MemoryContextSwitchTo(steno_my.scratch);
	uint8	   *end = steno_params_collect(params, failing, shape, values);

	MemoryContextSwitchTo(old);
	if (end == NULL)
		return NULL;
	record->params = values;
	return end;
}

/* edata: it failed.  closed: its portal was closed by the end of a transaction. */
STENO_HOT static void
record_query(StenoOpen *o, const ErrorData *edata, bool closed)
{
	QueryDesc  *query = o->query;
	ParamListInfo params = steno_my.log_parameter ? query->params : NULL;
	StenoRecord record;
	StenoParams values;
	StenoAccess few[32];
	StenoAccess *relations = few;
	int			room = lengthof(few);
	int			count = 0;
	uint8	   *end;

	if (!(o->s.recorded || (edata && o->s.failures)) || !steno_session_ready())
		return;
	if (unlikely(steno_my.settings_dirty) && edata == NULL && !closed)
		steno_settings_record();
	if (edata == NULL && !closed)
		describe_session(o->s.user_id);
	else
		steno_session_failing(o->s.user_id);

	steno_record_init(&record, STENO_KIND_STATEMENT);
	if (params && params->numParams == 0)
		params = NULL;
	if (unlikely(params && steno_params_shape_size(params) > shape_limit() / 8 * 7))
	{
		omit(&record, "parameters_omitted", params->numParams);
		params = NULL;
	}
	if (!closed)				/* then the plan may be gone with its transaction */
	{
		int			most = list_length(STENO_PLAN_PERMISSIONS(query->plannedstmt));

		if (unlikely(most > room))
		{
			relations = scratch(most * sizeof(StenoAccess));
			if (relations)
				room = most;
			else
				relations = few;
		}
		count = plan_relations(query->plannedstmt, relations, room);
	}
	end = make_shape(&record, o->s.class, closed ? 0 : query->plannedstmt->queryId,
					 query->operation == CMD_SELECT ? NULL : query_command(query->operation),
					 relations, count, params);
	if (end != NULL)
	{
		uint8	   *after = NULL;

		if (params)
			after = add_params(&record, params, edata != NULL || closed, end, &values);
		if (after == NULL)
			after = steno_put_varint(end, 0);
		record.shape_len = after - record.shape;
	}
	if (edata == NULL)
		record.rows = o->rows;
	put_statement(&o->s, &record, edata);
}

static void
record_utility(StenoLevel *l, const ErrorData *edata, uint64 rows)
{
	StenoStatement *s = l->utility;
	StenoRecord record;
	uint8	   *end;

	if (!(s->recorded || (edata && s->failures)) || !steno_session_ready())
		return;
	if (edata)
		steno_session_failing(s->user_id);
	steno_record_init(&record, STENO_KIND_STATEMENT);
	end = make_shape(&record, s->class, 0, l->command, l->relations,
					 l->relations_count, NULL);
	if (end)
		record.shape_len = steno_put_varint(end, 0) - record.shape;
	if (edata == NULL)
		record.rows = rows;
	put_statement(s, &record, edata);
}

/*
 * A statement inside a function that failed before the executor saw it, such as
 * one with a syntax error in EXECUTE.
 */
STENO_COLD static void
record_raised(void)
{
	StenoRecord record;
	uint8	   *end;

	if (raised_query && steno_my.level && steno_my.log_nested &&
		steno_class_logged(STENO_CLASS_ERROR) && steno_session_ready())
	{
		steno_session_failing(InvalidOid);
		steno_record_init(&record, STENO_KIND_STATEMENT);
		end = make_shape(&record, STENO_CLASS_ERROR, 0, "", NULL, 0, NULL);
		record.shape_len = steno_put_varint(end, 0) - record.shape;
		record.time = steno_my.anchor_time +
			steno_clock_us(&steno_my.clock, steno_my.anchor_start,
						   steno_clock_ticks(&steno_my.clock));
		record.duration = 0;
		record.statement = steno_my.statement;
		record.substatement = ++steno_my.substatements;
		record.depth = steno_my.level->inside;
		record.xid = GetTopTransactionIdIfAny();
		record.text = raised_query;
		record.text_len = strlen(raised_query);
		record.outcome = STENO_OUTCOME_ERROR;
		record.sqlerrcode = steno_my.raised_code;
		record.message = raised_message ? raised_message : "missing error text";
		steno_record_put(&record, false);
	}
	forget_raised();
}

/* ---- levels ---- */

static inline void
enter(StenoLevel *l, QueryDesc *query, StenoStatement *utility, int depth)
{
	l->outer = steno_my.level;
	l->query = query;
	l->utility = utility;
	l->inside = depth + 1;
	l->forces = false;
	l->declares = false;
	l->callback.callback = note_raised;
	l->callback.arg = l;
	l->callback.previous = error_context_stack;
	error_context_stack = &l->callback;
	steno_my.level = l;
}

static inline void
leave(StenoLevel *l)
{
	error_context_stack = l->callback.previous;
	steno_my.level = l->outer;
}

STENO_COLD static void
free_relations(StenoLevel *l)
{
	if (l->relations != l->few)
		pfree(l->relations);
	l->relations = l->few;
}

/*
 * In a hook's PG_CATCH: the statement of this level has failed.  The server's
 * handler has put error_context_stack back already.
 */
STENO_COLD static void
fail(StenoLevel *l)
{
	MemoryContext old = CurrentMemoryContext;
	ErrorData  *edata;
	bool		top_level = false;

	record_raised();

	MemoryContextSwitchTo(raised_context);
	edata = CopyErrorData();
	steno_my.level = l->outer;
	if (l->query)
	{
		StenoOpen  *o = find_open(l->query);

		if (o)
		{
			top_level = o->s.top_level;
			record_query(o, edata, false);
			remember_end(&o->s);
			forget_open(o);
		}
	}
	else
	{
		top_level = l->utility->top_level;
		record_utility(l, edata, 0);
		remember_end(l->utility);
		free_relations(l);
	}
	if (top_level)
		steno_my.reported = true;
	MemoryContextSwitchTo(old);
	MemoryContextReset(raised_context);
}

/*
 * The process is about to exit with a FATAL error: nothing unwinds, so all that
 * runs is recorded now.  Returns whether a statement was running.
 */
STENO_COLD bool
steno_statement_fatal(const ErrorData *edata)
{
	bool		any = steno_my.level != NULL;

	while (steno_my.level)
	{
		StenoLevel *l = steno_my.level;

		steno_my.level = l->outer;
		if (l->query == NULL)
			record_utility(l, edata, 0);
		else
		{
			StenoOpen  *o = find_open(l->query);

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
	bool		result = steno_my.reported;

	steno_my.reported = false;
	return result;
}

/*
 * Where the statements of the current message have got to: source and end of the
 * last one that ran; returns the time of the message.
 */
TimestampTz
steno_statement_source(const char **source, int *end)
{
	*source = steno_my.last_source;
	*end = steno_my.last_end;
	return steno_my.last_time;
}

/* ---- executor hooks ---- */

static inline int
query_class(QueryDesc *query)
{
	if (query->operation == CMD_SELECT && !query->plannedstmt->hasModifyingCTE)
		return STENO_CLASS_READ;
	return STENO_CLASS_WRITE;
}

STENO_HOT static void
executor_start(QueryDesc *query, int eflags)
{
	StenoLevel *outer = steno_my.level;
	PlannedStmt *plan = query->plannedstmt;
	StenoOpen  *o;
	StenoLevel	l;
	bool		saved_own = steno_my.starting_own;
	bool		of_portal;
	int			depth;
	ListCell   *lc;

	if (!recording() ||
		(outer && outer->utility && outer->utility->source == query->sourceText &&
		 !outer->forces) ||
		(o = add_open(query)) == NULL)
	{
		/* part of the utility's record, or of none */
		steno_my.starting_own = false;
		steno_my.previous_start(query, eflags);
		steno_my.starting_own = saved_own;
		return;
	}

	/*
	 * A client's query that has no portal is no statement of its own: a
	 * function that the planner has called, a constraint checked at commit.
	 */
	of_portal = ActivePortal && ActivePortal->sourceText == query->sourceText;
	o->portal = of_portal && ActivePortal->status == PORTAL_DEFINED ? ActivePortal : NULL;
	depth = outer ? outer->inside : !of_portal && MyBackendType == B_BACKEND;

	/* a cursor's plan does not know where in the source the DECLARE stands */
	if (unlikely(outer && outer->declares))
		begin_statement(&o->s, query->sourceText,
						outer->utility->text - outer->utility->source,
						(int) outer->utility->text_len, query_class(query), depth, true);
	else
		begin_statement(&o->s, query->sourceText, plan->stmt_location,
						plan->stmt_len, query_class(query), depth,
						outer && outer->forces);
	o->subid = steno_my.subid;
	o->rows = 0;

	/* names while catalogs can be read: not at the end, which may be a failure */
	foreach(lc, STENO_PLAN_PERMISSIONS(plan))
	{
		StenoPermission *p = (StenoPermission *) lfirst(lc);

		if (STENO_IS_PERMISSION(p))
			steno_relation_know(p->relid);
	}

	enter(&l, query, NULL, o->s.depth);
	steno_my.starting_own = true;
	PG_TRY();
	{
		steno_my.previous_start(query, eflags);
	}
	PG_CATCH();
	{
		steno_my.starting_own = saved_own;
		fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	steno_my.starting_own = saved_own;
	leave(&l);
}

STENO_HOT static void
executor_run(STENO_RUN_ARGS)
{
	StenoOpen  *o = find_open(query);
	StenoLevel	l;

	if (o == NULL)
	{
		steno_my.previous_run(STENO_RUN_PASS);
		return;
	}
	enter(&l, query, NULL, o->s.depth);
	PG_TRY();
	{
		steno_my.previous_run(STENO_RUN_PASS);
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

STENO_HOT static void
executor_finish(QueryDesc *query)
{
	StenoOpen  *o = NULL;
	StenoLevel	l;

	/* a query that writes nothing runs nothing at its end */
	if (query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE)
		o = find_open(query);
	if (o == NULL)
	{
		steno_my.previous_finish(query);
		return;
	}
	enter(&l, query, NULL, o->s.depth);
	PG_TRY();
	{
		steno_my.previous_finish(query);
	}
	PG_CATCH();
	{
		fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	leave(&l);
}

STENO_HOT static void
executor_end(QueryDesc *query)
{
	StenoOpen  *o = find_open(query);

	if (o)
	{
		record_query(o, NULL, false);
		remember_end(&o->s);
		forget_open(o);
	}
	steno_my.previous_end(query);
}

/* Permissions of relations that a utility statement, such as COPY, checks. */
STENO_COLD static void
add_relations(StenoLevel *level, List *permissions)
{
	ListCell   *lc;

	foreach(lc, permissions)
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

STENO_HOT static bool
check_perms(STENO_CHECK_PERMS_ARGS)
{
	if (!steno_my.starting_own && steno_my.level && steno_my.level->utility)
		add_relations(steno_my.level, STENO_PERMISSIONS_LIST);
	if (steno_my.previous_check)
		return steno_my.previous_check(STENO_CHECK_PERMS_PASS);
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
	if (steno_my.previous_utility)
		steno_my.previous_utility(plan, source, read_only_tree, context, params,
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
	StenoStatement s;
	StenoLevel	l;
	bool		changes_context;
	uint64		rows = STENO_NONE64;

	/* subcommands, such as those of CREATE SCHEMA, are the statement itself */
	if (!recording() || context == PROCESS_UTILITY_SUBCOMMAND)
	{
		call_utility(plan, source, read_only_tree, context, params,
					 environment, dest, completion);
		if (steno_my.settings_dirty && steno_my.level == NULL && !steno_my.paused)
			steno_settings_record();	/* recording may have been switched on */
		return;
	}

	begin_statement(&s, source, plan->stmt_location, plan->stmt_len,
					utility_class(statement),
					steno_my.level ? steno_my.level->inside : 0,
					steno_my.level && steno_my.level->forces);
	l.command = GetCommandTagName(CreateCommandTag(statement));
	changes_context = IsA(statement, VariableSetStmt) ||
		IsA(statement, DiscardStmt) || IsA(statement, TransactionStmt);
	if (changes_context && s.recorded)
		describe_session(s.user_id);	/* SET ROLE was run by the role before */

	enter(&l, NULL, &s, s.depth);
	l.declares = IsA(statement, DeclareCursorStmt);
	l.forces = l.declares || IsA(statement, ExecuteStmt);
	l.relations_count = 0;
	l.relations_room = FEW_RELATIONS;
	l.relations = l.few;
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
		describe_session(s.user_id);
	record_utility(&l, NULL, rows);
	if (changes_context && s.recorded && steno_session_ready() && IsTransactionState())
		steno_session_check(InvalidOid);	/* should the next statement fail */
	if (steno_my.settings_dirty)
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
STENO_COLD static void
close_open(SubTransactionId from)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoOpen  *o = &steno_my.open[i];

		if (o->subid < from)
			continue;
		if (o->portal && PortalIsValid(o->portal))
			record_query(o, NULL, true);
		forget_open(o);
	}
}

STENO_HOT static void
transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_ABORT:
			steno_my.subid = TopSubTransactionId;
			close_open(InvalidSubTransactionId);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			steno_my.subid = TopSubTransactionId;
			if (steno_my.level == NULL)
				steno_my.open_count = 0;
			break;
		default:
			break;
	}
}

STENO_COLD static void
subtransaction_end(SubXactEvent event, SubTransactionId mine,
				   SubTransactionId parent, void *arg)
{
	int			i;

	switch (event)
	{
		case SUBXACT_EVENT_START_SUB:
			steno_my.subid = mine;
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			steno_my.subid = parent;
			close_open(mine);
			if (steno_my.raised_code != 0)
				record_raised();
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			steno_my.subid = parent;
			for (i = 0; i < steno_my.open_count; i++)
				if (steno_my.open[i].subid == mine)
					steno_my.open[i].subid = parent;
			break;
		default:
			break;
	}
}

void
steno_statement_install(void)
{
	raised_context = AllocSetContextCreate(TopMemoryContext, "pg_steno error",
										   ALLOCSET_SMALL_SIZES);
	steno_my.subid = TopSubTransactionId;
	steno_my.open = steno_my.few_open;
	steno_my.open_room = STENO_FEW_OPEN;

	steno_my.previous_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = executor_start;
	steno_my.previous_run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = executor_run;
	steno_my.previous_finish = ExecutorFinish_hook ? ExecutorFinish_hook : standard_ExecutorFinish;
	ExecutorFinish_hook = executor_finish;
	steno_my.previous_end = ExecutorEnd_hook ? ExecutorEnd_hook : standard_ExecutorEnd;
	ExecutorEnd_hook = executor_end;
	steno_my.previous_check = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_perms;
	steno_my.previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	RegisterXactCallback(transaction_end, NULL);
	RegisterSubXactCallback(subtransaction_end, NULL);
}
