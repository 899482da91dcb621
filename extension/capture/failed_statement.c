/*
 * extension/capture/failed_statement.c
 *		Failures of statements, and statements that end with their (sub)transaction (transaction.c).
 *
 * Nested statements: the running statement's hook catches the error, records it
 * with SQLSTATE and message, and throws it again (steno_fail).  A client's own
 * statement needs no PG_TRY, whose cost all others would pay, because only the
 * server's main loop catches errors that leave it.  Its failure is recorded when
 * the error is reported (steno_statement_failed), or, if the server's settings
 * prevent that, when its transaction aborts.
 *
 * Statements that fail before the executor sees them are recorded by failure.c at
 * the top level.  Inside functions, an error context callback notes the error
 * (steno_note_raised), and the next hook or end of a subtransaction records it.
 *
 * In a background worker, functions run outside of any statement, for example triggers of a
 * table to which the changes of another server are applied.  There, that callback is always the
 * outermost one (steno_watch_background).
 */
#include "base/steno.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "capture/hooks.h"
#include "capture/statement_record.h"
#include "delivery/refusal.h"
#include "delivery/wait.h"
#include "error/origin.h"
#include "value/output.h"

/* Timestamp of the client's message whose failure was reported last. */
static TimestampTz reported STENO_SESSION_DATA;

/* An error is being reported: its record exists, or is made now. */
void
steno_failure_reported(void)
{
	reported = GetCurrentStatementStartTimestamp();
}

/* Whether the error that the main loop handles was reported, and therefore recorded. */
bool
steno_failure_is_reported(void)
{
	return reported == GetCurrentStatementStartTimestamp();
}

/*
 * Put the record of a statement that failed before any hook saw it, if it is wanted.  Secrets are
 * removed before anything else, because they can be found only in the original
 * text.
 */
STENO_COLD void
steno_record_put_failed(StenoRecord *record, const StenoWritten *written)
{
	steno_secret_hide(record);
	if (!steno_policy_failed(record, written, steno_my.level != NULL && !steno_nested_are_logged(STENO_CLASS_ERROR)))
		return;
	if (!steno_logs_text())
		record->text = NULL;
	if (unlikely(steno_refusal_omits_record(record)))
		steno_record_drop();
	else
		steno_record_put(record, false);
}

/* Whether this process has no client, and runs what functions do outside of any statement. */
static inline bool
is_in_background(void)
{
	return steno_my.level == NULL && MyProcPort == NULL;
}

/* Encode the shape of what was raised, with the relations that its text names, if there is one. */
STENO_COLD static void
encode_raised(StenoRecord *record, StenoWritten *written)
{
	MemoryContext old = MemoryContextSwitchTo(steno_raised.context);
	const char *text = steno_raised.query;

	if (text != NULL && steno_can_parse_again())
		steno_written_in_failed(written, text, strlen(text), true, steno_raised.at, steno_raised.by_grammar);
	else if (text != NULL && !steno_raised.by_grammar)
		written->omitted = 1;
	steno_encode_failed(record, "", written, steno_raised.user_id);
	MemoryContextSwitchTo(old);
}

/* Encode the shape of what failed before any hook saw it, with the relations that it names. */
STENO_COLD void
steno_encode_failed(StenoRecord *record, const char *command, const StenoWritten *written, Oid user)
{
	bool		named = steno_logs_relations() && written->count + written->omitted > 0;
	const StenoShape shape = {.class = STENO_CLASS_ERROR, .command = command, .written = named ? written : NULL};

	steno_encode_shape(record, &shape, NULL);
	/* in an aborted transaction, nothing was looked up, and SET LOCAL has been undone */
	if (named && !IsAbortedTransactionBlockState())
		steno_add_search_path(record, written, user);
}

/* Put the record of what was raised; without a text, it is the failure of a background process. */
STENO_COLD static void
put_raised(void)
{
	StenoRecord record;
	StenoWritten written = {0};

	steno_session_failing(steno_raised.user_id);
	steno_record_init(&record, STENO_KIND_STATEMENT);
	encode_raised(&record, &written);
	record.duration = 0;
	if (steno_my.level == NULL)
	{
		record.time = GetCurrentTimestamp();
		record.statement = ++steno_my.statement;
		steno_raised.recorded_code = steno_raised.code;
	}
	else
	{
		record.time = steno_wall(steno_clock_ticks(&steno_my.clock));
		steno_take_nested_number(&record.statement, &record.substatement);
		record.depth = steno_my.level->inside;
	}
	record.xid = steno_current_xid();
	if (steno_raised.query)
	{
		record.text = steno_raised.query;
		record.text_len = strlen(steno_raised.query);
	}
	record.outcome = STENO_OUTCOME_ERROR;
	record.sqlerrcode = steno_raised.code;
	record.message = steno_raised.message ? steno_raised.message : "missing error text";
	steno_record_put_failed(&record, &written);
}

/*
 * A statement inside a function that failed before the executor saw it, such as
 * one with a syntax error in EXECUTE.
 */
STENO_COLD static void
record_raised(void)
{
	/* also needed if this is not recorded: the outer statements fail with the same message */
	if (steno_raised.query)
		(void) steno_secret_hide_message(steno_raised.query, strlen(steno_raised.query), steno_raised.message);
	/* a parallel worker's error is raised again in its leader, which records it */
	if (steno_raised.query == NULL || (steno_my.level == NULL && !is_in_background()) || !steno_session_ready() ||
		steno_is_worker() || !steno_failures_may_be_logged())
		return;
	put_raised();
}

/*
 * Find what a query names that has failed in the planner, also in the body of a function that was to be put into it.
 * Catalogs can no longer be read.
 */
STENO_COLD static void
find_unplanned(StenoWritten *written, const StenoUnplanned *q, const StenoStatement *s, const ErrorData *edata)
{
	steno_written_in_failed(written, s->text, s->text_len, s->depth > 0, 0, false);
	if (edata->internalquery && edata->internalquery != q->source)
		steno_written_in_failed(written, edata->internalquery, strlen(edata->internalquery), true, edata->internalpos,
							  steno_error_of_grammar(edata));
	steno_written_in_query(written, q->query);
}

/* Whether it is recorded. */
STENO_COLD static bool
judge_unplanned(StenoStatement *s, const StenoWritten *written)
{
	if (unlikely(steno_my.policy != 0 || steno_role_is_set()))
		steno_policy_judge_written(s, s->class, written);
	if (unlikely(steno_my.policy != 0) && !(s->policy & STENO_S_RULE))
	{
		if (s->recorded)
			steno_policy_judge(s, NULL, 0, true);
		if (!s->recorded)
			steno_policy_judge_failure(s, NULL, 0);
	}
	return s->recorded || s->failures;
}

/* A query has failed in the planner, before the executor saw it. */
STENO_COLD void
steno_record_unplanned(const StenoUnplanned *q)
{
	MemoryContext old = CurrentMemoryContext;
	StenoStatement s;
	StenoRecord record;
	StenoParams values;
	StenoEvent	event = {.kind = STENO_KIND_STATEMENT};
	StenoWritten written = {0};
	StenoShape	shape = {.command = q->command, .params = q->params, .failing = true};
	bool		before = steno_allow_barriers(true);
	uint32		hurry;

	HOLD_INTERRUPTS();
	hurry = steno_failure_begins();
	steno_forget_raised();
	if (q->depth == 0 && steno_my.open_count > 0)
		steno_open_finish_committed();
	steno_number_statement(&s, q->source, q->query->stmt_location, q->query->stmt_len, q->class, q->depth,
						   q->forced);
	if (steno_session_ready() && steno_failures_may_be_logged())
	{
		uint64		planning = steno_clock_us(&steno_my.clock, q->start, s.start);

		if (planning >= STENO_TOLD_APART)
			s.plan = steno_short_us(planning);
		/* a client's statement begins with its message, so what came before it has counted already */
		if (s.before == 0)
		{
			s.start = q->start;
			s.time -= planning;
		}
		MemoryContextSwitchTo(steno_raised.context);
		PG_TRY();
		{
			event.edata = steno_handled = CopyErrorData();
			find_unplanned(&written, q, &s, steno_handled);
			if (judge_unplanned(&s, &written))
			{
				steno_session_failing(s.user_id);
				if (steno_logs_relations() && written.count + written.omitted > 0)
					shape.written = &written;
				steno_make_record(&s, &event, &shape, &record, &values);
				if (shape.written)
					steno_add_search_path(&record, &written, s.user_id);
				steno_put_ended(&s, &record);
			}
		}
		PG_FINALLY();
		{
			steno_handled = NULL;
		}
		PG_END_TRY();
		MemoryContextSwitchTo(old);
		MemoryContextReset(steno_raised.context);
	}
	if (s.top_level)
		steno_failure_recorded();
	steno_remember_end(&s);
	if (s.objects)
		steno_objects_release(&s.objects);
	steno_failure_ends(hurry);
	RESUME_INTERRUPTS();
	(void) steno_allow_barriers(before);
}

/* A statement fails whose level is there: record what was raised in it, and note whether another has no record. */
STENO_COLD static void
take_raised(void)
{
	steno_raised.direct = steno_error_is_noted() && steno_raised.query == NULL;
	steno_raised.unnamed = steno_raised.direct && steno_raised.before_execution;
	record_raised();
	steno_forget_raised();
}

/*
 * The statement of this level has failed, and nothing of it is running.  late: its
 * transaction has begun to abort, and portals have released cached plans.
 */
STENO_COLD static void
record_failed(StenoLevel *l, const ErrorData *edata, bool late)
{
	bool		top_level = false;

	steno_my.level = l->outer;
	if (l->query)
	{
		StenoStatement *s = steno_find_open(l->query);

		if (s)
		{
			top_level = s->top_level;
			(void) steno_failure_message(s, edata);	/* outer statements use the message even if
													 * this one is not recorded */
			steno_record_query(s, edata, late && s->plan_cached);
			steno_remember_end(s);
			steno_forget_open(s);
		}
	}
	else
	{
		top_level = l->utility->top_level;
		if (late)
			l->tree = NULL;		/* the abort may have freed it */
		(void) steno_failure_message(l->utility, edata);
		steno_record_utility(l, edata, 0);
		steno_remember_end(l->utility);
		steno_forget_utility(l);
	}
	steno_raised.direct = steno_raised.unnamed = false;
	if (!late && steno_my.open_count > 0)
		steno_open_failed(edata, PG_UINT32_MAX);
	if (top_level)
		steno_failure_recorded();
}

/*
 * In a hook's PG_CATCH: the statement of this level has failed.  PG_CATCH has
 * already restored error_context_stack.
 */
STENO_COLD void
steno_fail(StenoLevel *l)
{
	MemoryContext old = CurrentMemoryContext;
	bool		before = steno_allow_barriers(true);
	uint32		hurry;

	HOLD_INTERRUPTS();
	hurry = steno_failure_begins();
	take_raised();
	MemoryContextSwitchTo(steno_raised.context);
	PG_TRY();
	{
		steno_handled = CopyErrorData();
		record_failed(l, steno_handled, false);
	}
	PG_FINALLY();
	{
		steno_handled = NULL;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	MemoryContextReset(steno_raised.context);
	steno_failure_ends(hurry);
	RESUME_INTERRUPTS();
	(void) steno_allow_barriers(before);
}

/* The client's message in which a statement lost its level, the query that it was, and the error of a failed one. */
static TimestampTz lost_in STENO_SESSION_DATA;
static QueryDesc *lost_query STENO_SESSION_DATA;
static int	lost_code STENO_SESSION_DATA;	/* 0: none */

static void
record_lost_utility(void)
{
	const ErrorData edata = {.elevel = ERROR, .sqlerrcode = steno_raised.code, .message = steno_raised.message};

	record_raised();
	record_failed(&steno_top_level, &edata, true);
	steno_forget_raised();
}

/*
 * Somebody has caught the error with which a client's statement ended, so its level was not left.  A utility statement
 * has failed, with the error that our callback has noted.  A query may go on: its portal, or whoever else has it, ends
 * it.  Should the error be thrown again after this, it is that of the query.  Raises no error.
 */
STENO_COLD void
steno_forget_lost_level(void)
{
	steno_start_ends(false);
	lost_in = GetCurrentStatementStartTimestamp();
	lost_query = steno_top_level.query;
	if (lost_query == NULL)
	{
		lost_code = steno_raised.code;
		(void) steno_record_guarded(record_lost_utility);
		steno_failure_forgotten();	/* perhaps nobody reports it */
	}
	steno_my.level = NULL;
}

/* The error of a query that lost its level is reported after all. */
static void
find_lost_query(void)
{
	if (steno_my.level == NULL && lost_query != NULL && lost_in == GetCurrentStatementStartTimestamp() &&
		steno_top_level.query == lost_query && steno_find_open(lost_query) != NULL)
		steno_my.level = &steno_top_level;
	lost_query = NULL;
}

/* An error is being reported while a client's statement is running, which has failed with it. */
STENO_COLD void
steno_statement_failed(const ErrorData *edata)
{
	steno_start_ends(false);
	if (unlikely(lost_query != NULL))
		find_lost_query();
	if (steno_my.level == NULL)
	{
		if (steno_my.open_count > 0)
			steno_open_fail_outside(edata, true);
		steno_rewritten_failed(edata);
	}
	if (steno_my.level == &steno_top_level)
	{
		take_raised();
		record_failed(&steno_top_level, edata, false);
	}
	steno_rewritten_forget();
}

/*
 * The process is about to exit with a FATAL error.  The stack is not unwound, so
 * all running statements are recorded now.  Returns whether a statement was
 * running.
 */
STENO_COLD bool
steno_statement_fatal(const ErrorData *edata)
{
	bool		any = steno_my.level != NULL;

	while (steno_my.level)
		record_failed(steno_my.level, edata, false);
	/* a statement starts, and the output function of a user's type prints its parameters */
	if (!any && steno_is_paused() && steno_my.open_count > 0)
		steno_open_fail_outside(edata, true);
	else if (!any && steno_my.open_count > 0)
		any = steno_open_fail_committing(edata) ||
			(debug_query_string != NULL && steno_open_fail_waiting(edata));
	return any;
}

/* Timestamp of the client's message in which a subtransaction was aborted last. */
static TimestampTz caught STENO_SESSION_DATA;

/*
 * The error that the server's main loop handles, when the transaction has aborted.
 * Code that catches errors and throws them again, such as PL/pgSQL, may have kept
 * some of its strings in memory that has been freed by then (ReThrowError copies
 * the others), so CopyErrorData must not be called.  In that case, only what our
 * callback has noted is known, or only the SQLSTATE.
 */
static ErrorData *
error_of_main_loop(ErrorData *noted)
{
	noted->elevel = ERROR;
	noted->sqlerrcode = geterrcode();
	if (noted->sqlerrcode == steno_raised.code)
	{
		noted->message = steno_raised.message;
		return noted;
	}
	if (caught == GetCurrentStatementStartTimestamp())
		return noted;
	MemoryContextSwitchTo(steno_raised.context);
	return CopyErrorData();
}

/*
 * The transaction aborts, and a client's statement is still running.  If the
 * process exits, or the server's main loop handles an error, the statement has
 * failed, and we did not see the report; otherwise it is a procedure that rolls
 * back.  The main loop still has the error, which may have been raised without
 * calling any of our callbacks.  At exit, what the statement ran no longer exists.
 */
STENO_COLD static void
fail_unreported(void)
{
	ErrorData	noted = {.elevel = FATAL, .sqlerrcode = steno_raised.code};
	ErrorData  *edata = &noted;
	MemoryContext old = CurrentMemoryContext;

	if (steno_my.level == NULL && (steno_my.open_count > 0 || steno_rewritten_waits()) &&
		!proc_exit_inprogress && steno_main_loop_handles_error() && !steno_failure_is_reported())
	{
		edata = error_of_main_loop(&noted);
		if (steno_my.open_count > 0)
			steno_open_fail_outside(edata, false);
		steno_rewritten_failed(edata);
		MemoryContextSwitchTo(old);
		MemoryContextReset(steno_raised.context);
		steno_failure_forgotten();
	}
	if (steno_my.level == NULL || !(proc_exit_inprogress || steno_main_loop_handles_error()))
		return;
	steno_start_ends(false);
	while (steno_my.level && steno_my.level != &steno_top_level)
		steno_my.level = steno_my.level->outer;
	if (proc_exit_inprogress)
		noted.message = steno_error_is_noted() ? steno_raised.message : NULL;
	else
	{
		edata = error_of_main_loop(&noted);
		record_raised();
	}
	if (steno_my.level)
		record_failed(steno_my.level, edata, true);
	MemoryContextSwitchTo(old);
	steno_forget_raised();
	MemoryContextReset(steno_raised.context);
	steno_failure_forgotten();	/* the error is not reported later, so nothing would reset it */
}

/* Whether the top-level failure has been recorded, be it that of a statement that lost its level; resets that. */
bool
steno_statement_take_reported(const ErrorData *edata)
{
	bool		result = steno_failure_is_recorded() ||
		(unlikely(lost_code != 0) && lost_code == edata->sqlerrcode && lost_in == GetCurrentStatementStartTimestamp());

	lost_code = 0;
	steno_failure_forgotten();
	return result;
}

/*
 * Source and end of the last statement that ran; returns the timestamp of its
 * message.
 */
TimestampTz
steno_statement_source(const char **source, int *end)
{
	*source = steno_my.last_source;
	*end = steno_my.last_end;
	return steno_my.last_time;
}

/* ---- processes without a client ---- */

/*
 * Called in each transaction of a background process: an error that a function raises outside of any
 * statement must be noted, because the function may catch it.  The server's loops that
 * handle errors empty the list of callbacks.
 */
STENO_COLD void
steno_watch_background(void)
{
	static ErrorContextCallback outermost = {.callback = steno_note_raised};
	ErrorContextCallback **end = &error_context_stack;

	if (MyProcPort != NULL || IsParallelWorker() || !OidIsValid(MyDatabaseId))
		return;
	while (*end != NULL && *end != &outermost)
		end = &(*end)->previous;
	*end = &outermost;
}

/*
 * When the last transaction of a background process began, if it was aborted by an error of which nothing is
 * recorded; and the one whose error was reported before its abort.
 */
static TimestampTz aborted;
static uint64 aborted_xid;
static TimestampTz told;

/* An error that is reported is that of a background process's statement, or of what it does by itself for its users. */
static inline bool
is_of_users(const char *query)
{
	return query != NULL || MyBackendType != B_AUTOVAC_WORKER;
}

/*
 * A transaction of a background process aborts with an error that was not reported.  Some workers, such as those of a
 * subscription, report it only now, outside of the transaction; others never.  An error that a
 * function has caught and raised again is known only when it is reported.
 */
STENO_COLD static void
background_aborted(void)
{
	TimestampTz transaction = GetCurrentTransactionStartTimestamp();

	aborted = 0;
	if (told == transaction || proc_exit_inprogress)
		return;
	if (!steno_error_is_noted())
	{
		aborted = transaction;
		aborted_xid = steno_current_xid();
	}
	else if (steno_raised.transaction == transaction && is_of_users(steno_raised.query) &&
			 steno_failures_may_be_logged() && steno_session_ready())
		(void) steno_record_guarded(put_raised);
	steno_forget_raised();
}

/*
 * An error that ends a transaction of a background process, or its present command, is being reported, and no
 * hook has recorded it.  Whether it is that of a statement, whose text is then known, or of what
 * the process does by itself for its users, such as applying a change.  The transaction may have been
 * aborted before: who it was and its ID are then as they were in it.
 */
STENO_COLD bool
steno_background_failed(const ErrorData *edata, Oid *user_id, uint64 *xid)
{
	bool		running = IsTransactionState();

	if (MyProcPort != NULL || edata->elevel != ERROR || !OidIsValid(MyDatabaseId) ||
		!(running || (aborted != 0 && aborted == GetCurrentTransactionStartTimestamp())))
		return false;
	steno_forget_raised();
	if (running)
		told = GetCurrentTransactionStartTimestamp();
	else
	{
		*user_id = steno_raised.user_id;
		*xid = aborted_xid;
	}
	aborted = 0;
	/* a block of a function has caught it, and raised it again */
	if (steno_raised.recorded_code == edata->sqlerrcode)
		return false;
	return is_of_users(edata->internalquery);
}

/* ---- transactions ---- */

/* fail_unreported, for callers that must not raise an error. */
static void
fail_unreported_safely(void)
{
	if (!steno_record_guarded(fail_unreported) && (steno_main_loop_handles_error() || proc_exit_inprogress))
		steno_my.level = NULL;
}

/* A transaction has aborted.  Raises no error. */
STENO_COLD void
steno_statement_aborted(void)
{
	fail_unreported_safely();
	if (unlikely(MyProcPort == NULL) && is_in_background() && !steno_is_worker())
		background_aborted();
	if (steno_my.level == NULL && steno_my.open_count > 0)
		steno_open_finish_committed();
	steno_my.subid = TopSubTransactionId;
	steno_rewritten_forget();
	steno_end_block();
	steno_open_close(InvalidSubTransactionId);
	steno_objects_forget_pending();
}

static SubTransactionId aborted_subid STENO_SESSION_DATA;

/* A function catches an error with which cursors of the enclosing transaction have failed. */
STENO_COLD static void
fail_open_cursors(void)
{
	ErrorData	edata = {.elevel = ERROR, .sqlerrcode = steno_raised.code, .message = steno_raised.message,
		.filename = steno_raised.filename
	};

	if (steno_error_is_noted() && steno_my.open_count > 0)
		steno_open_failed(&edata, aborted_subid);
}

/* A subtransaction has aborted.  Raises no error, which would be a PANIC here. */
STENO_COLD void
steno_statement_rolled_back(SubTransactionId mine, SubTransactionId parent)
{
	/* after a savepoint, the transaction continues although a client's statement has failed */
	fail_unreported_safely();
	steno_check_level();
	caught = GetCurrentStatementStartTimestamp();
	aborted_subid = mine;
	(void) steno_record_guarded(fail_open_cursors);
	steno_my.subid = parent;
	steno_open_close(mine);
	steno_objects_forget_pending();
	if (steno_error_is_noted())
	{
		(void) steno_record_guarded(record_raised);
		steno_forget_raised();
	}
}
