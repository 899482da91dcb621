/*
 * extension/capture/open_query.c
 *		Queries between ExecutorStart and ExecutorEnd, and what becomes of those that
 *		never get to ExecutorEnd.
 *
 * The server ends a query without ExecutorEnd when its portal has failed: by an
 * error in a FETCH, which need not come from the executor, or by the abort of a
 * (sub)transaction.  It says so to nobody, and frees plan and parameters, then the
 * portal with query descriptor and text, at different times.  So:
 *
 * 1. While a query runs, one of our hooks is on the C stack, and all of it stands.
 * 2. When it is suspended, its portal holds it.  Before anything else can happen
 *	  to the portal, the query is parked: it gets a copy of its record (delivery/copy.c), and
 *	  its portal's memory a callback.  From then on we use nothing of the server's
 *	  but while the query runs again.  Cursors are parked when they are opened;
 *	  a client's portals, which as a rule end right after they have run, when the
 *	  next statement or a subtransaction begins.
 * 3. When the portal goes, the callback finds the query still open unless ExecutorEnd
 *	  was called, and records it: it ended well as far as it ran.  A FETCH that
 *	  fails, and lets its portal fail, fails the query as well.
 * 4. The abort of a (sub)transaction records the queries that began in it.  Those that
 *	  are not parked have run in no other statement, and their portals still stand.
 *
 * A query without a portal, such as one of a function, lives on the C stack only.
 *
 * A statement that is a transaction of its own can still fail at its commit: a
 * deferred constraint, a serialization failure, a cursor WITH HOLD.  The client is told of one
 * outcome, so its record, which is whole, waits for the commit as a staged one, or
 * as a copy when something else needs the ring.  It stays in the array meanwhile.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "capture/statement.h"

static bool
is_running(const StenoStatement *s)
{
	const StenoLevel *l;

	for (l = steno_my.level; l; l = l->outer)
		if (l->query == s->query)
			return true;
	return false;
}

/* ---- parked queries ---- */

/* The memory of a portal goes: its query is over, if it has not ended before. */
static void
portal_gone(void *arg)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoStatement *s = &steno_my.open[i];

		if (!s->portal_watched || s->portal != (Portal) arg)
			continue;
		steno_record_query(s, NULL, true);
		steno_forget_open(s);
		return;
	}
}

/* Have portal_gone called in time; false: memory is short. */
static bool
watch_portal(StenoStatement *s)
{
	MemoryContext context = s->portal->portalContext;
	MemoryContextCallback *c = MemoryContextAllocExtended(context, sizeof(*c), MCXT_ALLOC_NO_OOM);

	if (c == NULL)
		return false;
	s->portal_watched = true;
	c->func = portal_gone;
	c->arg = s->portal;
	MemoryContextRegisterResetCallback(context, c);
	return true;
}

/*
 * A query of a portal is suspended, and its portal still stands: take what its
 * record needs.  When there is no memory for that, it is recorded as it is now.
 */
STENO_COLD void
steno_open_park(StenoStatement *s)
{
	if (s->recorded && s->copy == NULL)
		steno_copy_query(s);
	if ((s->recorded && s->copy == NULL) || (!s->portal_watched && !watch_portal(s)))
	{
		steno_record_query(s, NULL, false);
		steno_forget_open(s);
	}
}

/* Park all that are not, and do not run. */
STENO_COLD void
steno_open_park_all(void)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoStatement *s = &steno_my.open[i];

		if (s->portal && !s->portal_watched && !is_running(s))
			steno_open_park(s);
	}
}

/* ---- the ends of others ---- */

/*
 * Something fails with an error, and with it portals that it has used.  Their queries
 * do not run any more.  Those that began in subtransaction from, or later, are left
 * to its abort, which makes all of its portals fail.
 */
STENO_COLD void
steno_open_failed(const ErrorData *edata, SubTransactionId from)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoStatement *s = &steno_my.open[i];

		if (!s->portal_watched || s->subid >= from || s->portal->status != PORTAL_FAILED || is_running(s))
			continue;
		steno_record_query(s, edata, true);
		steno_forget_open(s);
	}
}

static StenoStatement *closed;

static void
record_closed(void)
{
	steno_record_query(closed, NULL, closed->portal_watched || closed->plan_cached);
}

/*
 * A (sub)transaction has ended, and with it the queries that it leaves open: their
 * executor is gone.  What has no portal had its record when it failed.  No error
 * gets out of here: each query is guarded for itself, and forgotten in any case.
 */
STENO_COLD void
steno_open_close(SubTransactionId from)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoStatement *s = &steno_my.open[i];

		if (s->subid < from || steno_commits(s))
			continue;
		if (s->portal)
		{
			closed = s;
			(void) steno_record_guarded(record_closed);
		}
		steno_forget_open(s);
	}
}

/* ---- statements that end with their commit ---- */

/* What the statement failed with at its commit.  Its text may be gone. */
static const char *
commit_message(const StenoStatement *s, const ErrorData *edata)
{
	if (!s->suspect)
		return edata->message ? edata->message : "missing error text";
	if (debug_query_string != NULL && s->source == debug_query_string)
		return steno_failure_message(s, edata);
	return "<redacted>";
}

/* Its transaction has committed, or will not; edata: it has failed. */
static void
finish_deferred(StenoStatement *s, const ErrorData *edata)
{
	uint64		rows = s->class == STENO_CLASS_READ && s->rows > 0 && steno_my.log_rows ? s->rows : STENO_NONE64;
	StenoRecord record;

	if (s->state == STENO_COMMITS_STAGED && steno_my.staged != NULL)
	{
		if (edata == NULL)
		{
			steno_staged_publish();
			return;
		}
		if (s->redact == 0 &&
			steno_staged_fail(steno_duration(s), rows, GetTopTransactionIdIfAny(),
									   edata->sqlerrcode, commit_message(s, edata)))
			return;
		steno_unstage();
	}
	if (s->copy == NULL)
	{
		steno_record_drop();
		return;
	}
	steno_session_failing(s->user_id);
	steno_read_copied_record(s, edata, edata ? commit_message(s, edata) : NULL, &record);
	if (edata)
	{
		record.rows = rows;
		record.duration = steno_duration(s);
	}
	steno_record_put(&record, true);
}

/* The statement that waits for its commit has committed, or did not have to. */
STENO_HOT void
steno_open_finish_committed(void)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoStatement *s = &steno_my.open[i];

		if (!steno_commits(s))
			continue;
		finish_deferred(s, NULL);
		steno_forget_open(s);
	}
}

/* A client's statement begins. */
STENO_COLD void
steno_open_begin(void)
{
	steno_open_finish_committed();
	steno_open_park_all();
}

/*
 * Whether an error comes from the commit of the client's last statement, and not from
 * another message of the client that followed it: a Bind of a statement that is not
 * there has no text at hand either, but it has no snapshot, and what has one, such as
 * deferred constraints, or fails to serialize, does so at commit.
 */
static bool
is_of_commit(const ErrorData *edata, bool reported)
{
	if (steno_top_level.more_queries)
		return true;
	return !IsTransactionBlock() &&
		(steno_my.last_time == GetCurrentStatementStartTimestamp() ||
		 (reported && debug_query_string == NULL &&
		  (ActiveSnapshotSet() ||
		   ERRCODE_TO_CATEGORY(edata->sqlerrcode) == ERRCODE_TRANSACTION_ROLLBACK)));
}

/*
 * Whether an error is that of a client's query which waits in its portal.  A Bind can
 * fail after it has started the query.  An Execute looks for interrupts before it runs
 * the portal: the server has a copy of the portal's text at hand then, but none when
 * statement_timeout strikes between two messages.
 */
static bool
is_of_waiting(const StenoStatement *s, const ErrorData *edata)
{
	const Portal portal = s->portal;

	if (!s->top_level || portal == NULL || portal->status != PORTAL_READY || portal->atEnd ||
		portal->queryDesc != s->query)
		return false;
	if (debug_query_string && s->time == GetCurrentStatementStartTimestamp())
		return true;
	if (edata->funcname == NULL || strcmp(edata->funcname, "ProcessInterrupts") != 0)
		return false;
	if (debug_query_string)
		return strcmp(debug_query_string, portal->sourceText) == 0;
	return edata->elevel == ERROR && s->statement == steno_my.statement;
}

/* The same when its transaction has been aborted, and with it its portal. */
static bool
has_waited(const StenoStatement *s, const ErrorData *edata)
{
	return s->top_level && s->portal && s->statement == steno_my.statement &&
		s->portal->status == PORTAL_FAILED && s->portal->atStart && !s->portal->atEnd &&
		edata->sqlerrcode == ERRCODE_QUERY_CANCELED &&
		edata->funcname && strcmp(edata->funcname, "ProcessInterrupts") == 0;
}

/* The session is about to end with a FATAL error; whether it is that of a query which waits. */
STENO_COLD bool
steno_open_fail_waiting(const ErrorData *edata)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoStatement *s = &steno_my.open[i];

		if (steno_commits(s) || !is_of_waiting(s, edata))
			continue;
		steno_record_query(s, edata, false);
		steno_forget_open(s);
		return true;
	}
	return false;
}

/*
 * The session is about to end with a FATAL error, while the client's last statement
 * commits: it has failed.  Whether there was such a statement.  When the transaction has
 * committed it is not in progress any more, and when the session waits for the client it
 * has neither a text nor a snapshot.
 */
STENO_COLD bool
steno_open_fail_committing(const ErrorData *edata)
{
	bool		any = false;
	int			i;

	if (!IsTransactionState() || !(debug_query_string != NULL || ActiveSnapshotSet()) ||
		!is_of_commit(edata, true))
		return false;
	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoStatement *s = &steno_my.open[i];

		if (!steno_commits(s))
			continue;
		finish_deferred(s, edata);
		steno_forget_open(s);
		any = true;
	}
	return any;
}

/*
 * An error comes when no statement runs.  It is that of the client's last one, when this
 * was about to commit, or when the executor's end has failed, in which none of our
 * hooks is, or that of one which waits to be run.  reported: the transaction has not been
 * aborted yet.
 */
STENO_COLD void
steno_open_fail_outside(const ErrorData *edata, bool reported)
{
	bool		commit = is_of_commit(edata, reported);
	bool		waiting = !commit && !steno_my.reported;	/* unless the planner has failed */
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoStatement *s = &steno_my.open[i];

		if (steno_commits(s))
			finish_deferred(s, commit ? edata : NULL);
		else if (reported && s->top_level && s->statement == steno_my.statement &&
				 (commit || s->portal == NULL || s->portal->queryDesc != s->query))
		{
			steno_record_query(s, edata, false);
			steno_remember_end(s);
		}
		else if (waiting && (reported ? is_of_waiting(s, edata) : has_waited(s, edata)))
		{
			waiting = false;
			steno_record_query(s, edata, !reported && s->plan_cached);
		}
		else
			continue;
		if (commit || !steno_commits(s))
			steno_my.reported = true;
		steno_forget_open(s);
	}
}
