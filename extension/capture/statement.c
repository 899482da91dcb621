/*
 * extension/capture/statement.c
 *		Statements, whatever their kind: how they begin, how they fail, and
 *		what the ends of transactions leave of them.
 *
 * A query is open from ExecutorStart to ExecutorEnd; open queries are kept in an
 * array (open_query.c), since a cursor stays open while other statements run.  A statement is
 * running while one of its hooks is on the C stack: a level there links the
 * running statements, innermost first, and gives the nesting depth.
 *
 * A query that a utility statement runs as its own (COPY (query), CREATE TABLE
 * AS, EXPLAIN ANALYZE) has the utility's source text and is part of the
 * utility's record.  Those that EXECUTE and DECLARE CURSOR run have a record of
 * their own, one level down, whatever steno.log_nested says.
 *
 * Failures of nested statements: the running statement's hook catches the error,
 * records it with SQLSTATE and message, and throws it on.  A client's own
 * statement needs no catching, which would cost the others: nothing but the
 * server's main loop catches what leaves it.  Its failure is recorded when the
 * error is reported (steno_statement_failed), or, when the server's settings
 * keep it from being reported, when its transaction aborts.
 *
 * Statements that fail before the executor sees them are left to failure.c at
 * the top level; inside functions an error context callback notes the error, and
 * the hook or subtransaction end that next gets to see it records it.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "filter/redact.h"
#include "capture/statement.h"

/* The message and query of the error in steno_my.raised_code. */
static char *raised_message;
static char *raised_query;		/* text of a nested statement, if known */
static MemoryContext raised_context;

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
STENO_COLD void
steno_note_raised(void *arg)
{
	int			code = geterrcode();
	MemoryContext old;
	ErrorData  *edata;

	/* in a critical section there is no memory to be had; an error there is a panic */
	if (arg != steno_my.level || steno_my.paused || ERRCODE_TO_CATEGORY(code) == ERRCODE_SUCCESSFUL_COMPLETION ||
		ERRCODE_TO_CATEGORY(code) == ERRCODE_WARNING || CritSectionCount > 0)
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

/* ---- beginning ---- */

static inline bool
is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
}

/* Find the statement's own text in its source. */
static pg_attribute_always_inline void
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
	/* nothing to do, as a rule */
	while (n > 0 && *text <= ' ' && is_blank(*text))
	{
		text++;
		n--;
	}
	while (n > 0 && text[n - 1] <= ';' && (is_blank(text[n - 1]) || text[n - 1] == ';'))
		n--;
	s->source = source;
	s->text = text;
	s->text_len = n;
}

/* The rules, and the switches for noise, have something to say. */
STENO_COLD static void
look_at_policy(StenoStatement *s)
{
	const StenoStatement *outer = NULL;

	if (steno_my.level)
	{
		StenoOpen  *o = steno_my.level->query ? steno_find_open(steno_my.level->query) : NULL;

		outer = o ? &o->s : steno_my.level->utility;
	}
	steno_policy_begin(s, outer);
}

/*
 * When the statement began.  Statements of one message share its timestamp; the
 * later ones add what the clock says.
 */
static pg_attribute_always_inline void
take_time(StenoStatement *s)
{
	TimestampTz message = steno_private.statement_start();

	s->start = steno_clock_ticks(&steno_my.clock);
	if (steno_my.anchor_time != message)
	{
		steno_my.anchor_time = message;
		steno_my.anchor_start = s->start;
		s->time = message;
	}
	else
		s->time = message + steno_clock_us(&steno_my.clock, steno_my.anchor_start, s->start);
}

/* The next statement of a client. */
static pg_attribute_always_inline void
take_number(StenoStatement *s)
{
	steno_my.reported = false;
	s->statement = ++steno_my.statement;
	s->substatement = 0;
	steno_my.substatements = 0;
}

/* The client's query that runs, whose statement a level below is part of; NULL: a utility statement's. */
static StenoOpen *
running_query(void)
{
	StenoLevel *l = steno_my.level;

	if (l == NULL)
		return NULL;
	while (l->outer)
		l = l->outer;
	return l->query ? steno_find_open(l->query) : NULL;
}

/*
 * A statement that another one runs: the one that is running, or being planned.
 * Where portals run in turns, that is not always the last one that began.
 */
static inline void
take_nested_number(uint64 *statement, uint32 *substatement)
{
	StenoOpen  *o;

	if (unlikely(steno_my.planning))
	{
		*statement = steno_my.statement + 1;
		*substatement = ++steno_my.planned;
		return;
	}
	o = running_query();
	if (o && o->s.top_level && o->s.statement != steno_my.statement)
	{
		*statement = o->s.statement;
		*substatement = ++o->s.substatement;
		return;
	}
	*statement = steno_my.statement;
	*substatement = ++steno_my.substatements;
	if (o && o->s.top_level)
		o->s.substatement = *substatement;
}

/* Are statements that others run recorded, of this class?  What is mandatory cannot be left out so. */
static inline bool
takes_nested(int class)
{
	return steno_my.log_nested || (steno_mandatory_mask & (1u << class)) != 0;
}

/* Number and time a statement, and decide whether it is recorded. */
static pg_attribute_always_inline void
number(StenoStatement *s, const char *source, int location, int length,
	   int class, int depth, bool forced)
{
	take_time(s);
	s->depth = depth;
	s->class = class;
	s->user_id = GetUserId();
	s->top_level = s->depth == 0;
	find_text(s, source, location, length);

	if (s->top_level)
	{
		if (unlikely(steno_my.raised_code != 0))
			forget_raised();
		take_number(s);
		if (unlikely(steno_my.planned != 0))
		{
			s->substatement = steno_my.substatements = steno_my.planned;
			steno_my.planned = 0;
		}
	}
	else
		take_nested_number(&s->statement, &s->substatement);
	forced |= s->top_level;
	s->failures = (forced || takes_nested(STENO_CLASS_ERROR)) && steno_class_logged(STENO_CLASS_ERROR);
	s->audited = 0;
	s->recorded = (forced || takes_nested(class)) && steno_class_logged(class);
	s->objects = NULL;
	if (unlikely(steno_my.objects_pending) && s->top_level)
		steno_objects_adopt(s);
	s->policy = 0;
	s->redact = 0;
	if (unlikely(steno_my.policy != 0))
		look_at_policy(s);
	/* a query that the parser has accepted has its secrets in literals */
	s->suspect = s->text_len >= STENO_REDACT_SHORTEST &&
		(class > STENO_CLASS_WRITE || unlikely(steno_redact_any_literal(s->text, s->text_len))) &&
		steno_redact_suspect(s->text, s->text_len);
}

/* A statement begins. */
STENO_HOT void
steno_begin(StenoStatement *s, const char *source, int location, int length,
			int class, int depth, bool forced)
{
	number(s, source, location, length, class, depth, forced);

	/*
	 * Whose statement it is must be known should it fail, when catalogs cannot
	 * be read: a function may run as its owner.
	 */
	if (s->recorded || s->failures)
		steno_describe(s->user_id);
}

/* One of which all but its numbers is known. */
STENO_HOT void
steno_begin_prepared(StenoStatement *s, const QueryDesc *query, const StenoPrepared *p, int class)
{
	const PlannedStmt *plan = query->plannedstmt;

	take_time(s);
	take_number(s);
	s->source = query->sourceText;
	s->text = query->sourceText + p->text_offset;
	s->text_len = p->text_len;
	s->end = plan->stmt_location >= 0 && plan->stmt_len > 0 ? plan->stmt_location + plan->stmt_len : -1;
	s->user_id = steno_my.user_id;
	s->depth = 0;
	s->class = class;
	s->policy = 0;
	s->redact = 0;
	s->audited = 0;
	s->recorded = true;
	s->failures = steno_class_logged(STENO_CLASS_ERROR);
	s->top_level = true;
	s->suspect = false;
	s->objects = NULL;
}

/* The statement that began is recorded after all. */
STENO_COLD static void
begin_recorded(StenoStatement *s)
{
	if (!s->recorded && !s->failures)
		steno_describe(s->user_id);
	s->recorded = true;
	steno_start_mask_late(s);
}

/*
 * It uses a privilege that steno.role has: it is recorded, whatever its class and
 * the rules say, unless it is noise that a switch leaves out.
 */
STENO_COLD void
steno_begin_audited(StenoStatement *s)
{
	if (s->policy & STENO_S_NOISE)
		return;
	s->audited |= STENO_AUDITED_OBJECT;
	if (steno_my.session_mask & (1u << s->class))
		s->audited |= STENO_AUDITED_SESSION;
	begin_recorded(s);
}

/* It does what another class is about, too: it is recorded if that is. */
STENO_COLD void
steno_begin_also(StenoStatement *s, int class)
{
	if (s->recorded || !steno_class_logged(class) || !(s->top_level || takes_nested(class)))
		return;
	s->policy |= STENO_S_ALSO;
	begin_recorded(s);
}

/*
 * A top-level statement that has no staged record: show it in the in-flight slot.  cuts:
 * where its text's secrets are, if that is known already.
 */
void
steno_show_cut(StenoStatement *s, const StenoCuts *cuts)
{
	const char *text = s->text;
	uint64		len = s->text_len;

	if (!s->top_level || !s->recorded)
		return;
	if ((s->policy & STENO_S_HIDDEN) || !steno_my.log_statement)
		len = 0;
	else if (cuts)
		steno_secret_cut(text, len, cuts, STENO_INFLIGHT_TEXT, &text, &len);
	else if (s->suspect)
		s->suspect = steno_secret_hide_text(text, len, STENO_INFLIGHT_TEXT, &text, &len);
	steno_my.inflight_version =
		steno_inflight_begin(&steno_my.producer.ring->inflight,
							 steno_my.inflight_version, s->statement,
							 s->time, text, (uint32) len);
}

void
steno_show(StenoStatement *s)
{
	steno_show_cut(s, NULL);
}

/* ---- objects ---- */

static inline bool
makes_table(const StenoLevel *l)
{
	return l->query && l->query->dest && l->query->dest->mydest == DestIntoRel &&
		l->outer && l->outer->utility;
}

/*
 * The statement whose record tells of what happens to objects now: the innermost
 * that runs, or, when steno.log_nested leaves it out, the one around it.  The table
 * of CREATE TABLE AS EXECUTE is made by that statement, though its query runs.
 * NULL: none.  function: one is called, for which a statement is recorded
 * whatever its own class.
 */
STENO_COLD StenoStatement *
steno_statement_of_event(bool function)
{
	StenoLevel *l;

	for (l = steno_my.level; l; l = l->outer)
	{
		StenoOpen  *o = l->utility ? NULL : steno_find_open(l->query);
		StenoStatement *s = l->utility ? l->utility : o ? &o->s : NULL;

		if (s == NULL || (!function && makes_table(l)))
			continue;
		if (function && !s->recorded && (s->top_level || takes_nested(STENO_CLASS_FUNCTION)) &&
			!(s->policy & (STENO_S_SKIPPED | STENO_S_NOISE)))
		{
			s->recorded = true;
			steno_describe(s->user_id);
			steno_start_mask_late(s);
		}
		if (s->recorded)
			return s;
		if (!function && !steno_class_logged(s->class))
			return NULL;
	}
	return NULL;
}

/* ---- failures ---- */

/*
 * Take down the record of a failure that no hook has seen begin.  Secrets go
 * first: they are found in the text as it was.
 */
STENO_COLD void
steno_record_put_failed(StenoRecord *record)
{
	steno_secret_hide(record);
	if (steno_my.policy != 0 && !steno_policy_failed(record))
		return;
	if (!steno_my.log_statement)
		record->text = NULL;
	if (unlikely(steno_refusal_spares(record)))
		steno_record_drop();
	else
		steno_record_put(record, false);
}

/*
 * A statement inside a function that failed before the executor saw it, such as
 * one with a syntax error in EXECUTE.
 */
STENO_COLD static void
record_raised(void)
{
	const StenoShape shape = {.class = STENO_CLASS_ERROR, .command = ""};
	StenoRecord record;

	/* the outer statements fail with the same message */
	if (raised_query)
		(void) steno_secret_hide_message(raised_query, strlen(raised_query), raised_message);
	/* a parallel worker's error is raised again in its leader, which records this one */
	if (raised_query == NULL || steno_my.level == NULL || steno_my.worker || !takes_nested(STENO_CLASS_ERROR) ||
		!steno_class_logged(STENO_CLASS_ERROR) || !steno_session_ready())
		return;
	steno_session_failing(InvalidOid);
	steno_record_init(&record, STENO_KIND_STATEMENT);
	steno_encode_shape(&record, &shape, NULL);
	record.time = steno_my.anchor_time +
		steno_clock_us(&steno_my.clock, steno_my.anchor_start,
					   steno_clock_ticks(&steno_my.clock));
	record.duration = 0;
	take_nested_number(&record.statement, &record.substatement);
	record.depth = steno_my.level->inside;
	record.xid = GetTopTransactionIdIfAny();
	record.text = raised_query;
	record.text_len = strlen(raised_query);
	record.outcome = STENO_OUTCOME_ERROR;
	record.sqlerrcode = steno_my.raised_code;
	record.message = raised_message ? raised_message : "missing error text";
	steno_record_put_failed(&record);
}

/*
 * A query has failed before the executor saw it, in the planner.  Catalogs cannot
 * be read any more: the relations stay unnamed.
 */
STENO_COLD void
steno_record_unplanned(const StenoUnplanned *q)
{
	MemoryContext old = CurrentMemoryContext;
	StenoStatement s;
	StenoRecord record;
	StenoParams values;
	ErrorData  *edata;
	bool		before = steno_allow_barriers(true);

	HOLD_INTERRUPTS();
	forget_raised();
	if (q->depth == 0 && steno_my.open_count > 0)
		steno_open_settle();
	number(&s, q->source, q->location, q->length, q->class, q->depth, q->forced);
	if (unlikely(steno_my.policy != 0))
	{
		steno_policy_judge(&s, NULL, 0, true);
		if (!s.recorded)
			steno_policy_judge_failure(&s, NULL, 0);
	}
	if (s.failures && steno_session_ready())
	{
		s.start = q->start;
		MemoryContextSwitchTo(raised_context);
		edata = CopyErrorData();
		steno_session_failing(s.user_id);
		steno_record_init(&record, STENO_KIND_STATEMENT);
		steno_add_shape(&record, &s, 0, q->command, NULL, 0, q->params, true, &values);
		steno_put_ended(&s, &record, edata);
		MemoryContextSwitchTo(old);
		MemoryContextReset(raised_context);
	}
	if (s.top_level)
		steno_my.reported = true;
	steno_remember_end(&s);
	if (s.objects)
		steno_objects_release(&s.objects);
	RESUME_INTERRUPTS();
	(void) steno_allow_barriers(before);
}

/*
 * The statement of this level has failed; nothing of it runs any more.  late: its
 * transaction has begun to abort, and portals have let go of cached plans.
 */
STENO_COLD static void
record_failed(StenoLevel *l, const ErrorData *edata, bool late)
{
	bool		top_level = false;

	steno_my.level = l->outer;
	if (l->query)
	{
		StenoOpen  *o = steno_find_open(l->query);

		if (o)
		{
			top_level = o->s.top_level;
			(void) steno_failure_message(&o->s, edata);	/* known to outer statements, if not recorded */
			steno_record_query(o, edata, late && o->plan_cached);
			steno_remember_end(&o->s);
			steno_forget_open(o);
		}
	}
	else
	{
		top_level = l->utility->top_level;
		(void) steno_failure_message(l->utility, edata);
		steno_record_utility(l, edata, 0);
		steno_remember_end(l->utility);
		steno_forget_utility(l);
	}
	if (!late && steno_my.open_count > 0)
		steno_open_failed(edata, PG_UINT32_MAX);
	if (top_level)
		steno_my.reported = true;
}

/*
 * In a hook's PG_CATCH: the statement of this level has failed.  The server's
 * handler has put error_context_stack back already.
 */
STENO_COLD void
steno_fail(StenoLevel *l)
{
	MemoryContext old = CurrentMemoryContext;
	bool		before = steno_allow_barriers(true);

	HOLD_INTERRUPTS();
	record_raised();
	forget_raised();
	MemoryContextSwitchTo(raised_context);
	record_failed(l, CopyErrorData(), false);
	MemoryContextSwitchTo(old);
	MemoryContextReset(raised_context);
	RESUME_INTERRUPTS();
	(void) steno_allow_barriers(before);
}

/* An error is reported, and a client's statement is running: it is its failure. */
STENO_COLD void
steno_statement_failed(const ErrorData *edata)
{
	steno_my.starting_own = false;
	if (steno_my.level == NULL)
	{
		if (steno_my.open_count > 0)
			steno_open_fail_outside(edata, true);
		steno_rewritten_failed(edata);
	}
	if (steno_my.level == &steno_top_level)
	{
		record_raised();
		forget_raised();
		record_failed(&steno_top_level, edata, false);
	}
	steno_rewritten_forget();
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
		record_failed(steno_my.level, edata, false);
	/* a statement starts, and somebody's code prints its parameters */
	if (!any && steno_my.paused && steno_my.open_count > 0)
		steno_open_fail_outside(edata, true);
	else if (!any && steno_my.open_count > 0 && debug_query_string != NULL)
		any = steno_open_fail_waiting(edata);
	return any;
}

/* Message of the client in which a subtransaction was aborted last. */
static TimestampTz caught;

/*
 * The error that the server's main loop handles, when the transaction has aborted.  What has
 * caught it and raised it again, such as plpgsql, kept a part of its strings in memory that
 * is gone by then (ReThrowError copies the others), so CopyErrorData must not be called: then
 * we know what our callback has noted, or the code alone.
 */
static ErrorData *
handled_error(ErrorData *noted)
{
	noted->elevel = ERROR;
	noted->sqlerrcode = geterrcode();
	if (noted->sqlerrcode == steno_my.raised_code)
	{
		noted->message = raised_message;
		return noted;
	}
	if (caught == GetCurrentStatementStartTimestamp())
		return noted;
	MemoryContextSwitchTo(raised_context);
	return CopyErrorData();
}

/* The main loop handles an error: it has dropped these two by then, and nobody else does. */
static inline bool
in_main_handler(void)
{
	return error_context_stack == NULL && debug_query_string == NULL;
}

/*
 * The transaction aborts, and a client's statement is still running.  When the
 * process exits, or the server's main loop is at work, it has failed, and the
 * report was kept from us; else it is a procedure that rolls back.  The main
 * loop still has the error at hand, which may have got there in ways that call
 * none of our callbacks.  At an exit, nothing is left of what the statement runs.
 */
STENO_COLD static void
fail_unreported(void)
{
	ErrorData	noted = {.elevel = FATAL, .sqlerrcode = steno_my.raised_code};
	ErrorData  *edata = &noted;
	MemoryContext old = CurrentMemoryContext;

	if (steno_my.level == NULL && (steno_my.open_count > 0 || steno_rewritten_waits()) &&
		!proc_exit_inprogress && in_main_handler() && !steno_failure_is_reported())
	{
		edata = handled_error(&noted);
		if (steno_my.open_count > 0)
			steno_open_fail_outside(edata, false);
		steno_rewritten_failed(edata);
		MemoryContextSwitchTo(old);
		MemoryContextReset(raised_context);
		steno_my.reported = false;
	}
	if (steno_my.level == NULL || !(proc_exit_inprogress || in_main_handler()))
		return;
	steno_my.starting_own = false;
	while (steno_my.level && steno_my.level != &steno_top_level)
		steno_my.level = steno_my.level->outer;
	if (proc_exit_inprogress)
		noted.message = steno_my.raised_code != 0 ? raised_message : NULL;
	else
	{
		edata = handled_error(&noted);
		record_raised();
	}
	if (steno_my.level)
		record_failed(steno_my.level, edata, true);
	MemoryContextSwitchTo(old);
	forget_raised();
	MemoryContextReset(raised_context);
	steno_my.reported = false;	/* nobody will ask */
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

/* ---- transactions ---- */

/* The same, where no error may get out. */
static void
fail_unreported_safely(void)
{
	if (!steno_record_guarded(fail_unreported) && (in_main_handler() || proc_exit_inprogress))
		steno_my.level = NULL;
}

/* A transaction has aborted.  No error gets out of here. */
STENO_COLD void
steno_statement_aborted(void)
{
	fail_unreported_safely();
	if (steno_my.level == NULL && steno_my.open_count > 0)
		steno_open_settle();
	steno_my.subid = TopSubTransactionId;
	steno_rewritten_forget();
	steno_end_block();
	steno_open_close(InvalidSubTransactionId);
	steno_objects_forget_pending();
}

static SubTransactionId aborted_subid;

/* A function catches an error, with which cursors of the transaction around it have failed. */
STENO_COLD static void
fail_cursors(void)
{
	ErrorData	edata = {.elevel = ERROR, .sqlerrcode = steno_my.raised_code, .message = raised_message};

	if (steno_my.raised_code != 0 && steno_my.open_count > 0)
		steno_open_failed(&edata, aborted_subid);
}

/* An error here would end in a panic. */
static void
subtransaction_aborted(SubTransactionId mine, SubTransactionId parent)
{
	/* after a savepoint, the transaction goes on when a client's statement has failed */
	fail_unreported_safely();
	caught = GetCurrentStatementStartTimestamp();
	aborted_subid = mine;
	(void) steno_record_guarded(fail_cursors);
	steno_my.subid = parent;
	steno_open_close(mine);
	steno_objects_forget_pending();
	if (steno_my.raised_code != 0)
	{
		(void) steno_record_guarded(record_raised);
		forget_raised();
	}
}

STENO_COLD static void
subtransaction_end(SubXactEvent event, SubTransactionId mine,
				   SubTransactionId parent, void *arg)
{
	bool		before;
	int			i;

	/* that in which a value is printed, and those of what does it, are no statement's */
	if (steno_my.paused)
		return;
	switch (event)
	{
		case SUBXACT_EVENT_START_SUB:
			if (steno_my.open_count > 0)
			{
				steno_params_starting(mine);
				steno_open_park_all();
				steno_params_starting(InvalidSubTransactionId);
			}
			steno_my.subid = mine;
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			before = steno_allow_barriers(true);
			subtransaction_aborted(mine, parent);
			(void) steno_allow_barriers(before);
			steno_my.start_mask &= ~(STENO_START_CANCELLED | STENO_START_HURRY);
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
	steno_copy_install();
	steno_planner_install();
	steno_query_install();
	steno_utility_install();
	RegisterSubXactCallback(subtransaction_end, NULL);
}
