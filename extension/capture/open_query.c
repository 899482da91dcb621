/*
 * extension/capture/open_query.c
 *		Queries between ExecutorStart and ExecutorEnd, and queries that never reach
 *		ExecutorEnd.
 *
 * The server ends a query without ExecutorEnd if its portal has failed: by an error
 * in a FETCH, which need not be raised by the executor, or by the abort of a
 * (sub)transaction.  No hook is called then, and the server frees plan and
 * parameters first, and the portal with query descriptor and text later.  So:
 *
 * 1. While a query runs, one of our hooks is on the C stack, and all its data is valid.
 * 2. When it is suspended, its portal holds it.  Before anything else can happen
 *	  to the portal, the query is parked: it gets a copy of its record (delivery/copy.c),
 *	  and its portal's memory a callback.  From then on, we use the server's data only
 *	  while the query is running again.  Cursors are parked when they are opened;
 *	  a client's portals, which usually end right after they have run, when the
 *	  next statement or a subtransaction begins.
 *	  A portal that has delivered rows then has a start record, because the in-flight
 *	  entry, from which recovery makes the record of a killed session, is that of another statement.
 * 3. When the portal is freed, and ExecutorEnd was not called, the callback finds the
 *	  query still open and records it: it succeeded as far as it ran.  So did one whose
 *	  portal cannot do what a FETCH asks for, which fails the FETCH, and closes the portal.
 *	  If what fails a FETCH is the query, it has failed, too.
 * 4. The abort of a (sub)transaction records the queries that began in it.  Those that
 *	  are not parked have run in no other statement, and their portals are still valid.
 *
 * A query without a portal, such as one of a function, exists only while its caller
 * is on the C stack.
 *
 * A statement that is a transaction of its own can still fail at its commit,
 * because of a deferred constraint, a serialization failure or a cursor WITH HOLD.
 * The client gets one outcome, so the record, which is complete otherwise, waits
 * for the commit: staged, or as a copy if something else needs the ring.  The
 * statement remains in the array meanwhile.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "capture/statement_record.h"
#include "error/origin.h"

static bool
is_running(const StenoStatement *s)
{
	const StenoLevel *l;

	for (l = steno_my.level; l; l = l->outer)
		if (l->query == s->query)
			return true;
	return false;
}

/*
 * ---- cursors WITH HOLD whose transaction has committed ----
 *
 * The commit runs the query to its end, stores the rows that nobody has fetched yet, and
 * ends the executor.  FETCH then reads the stored rows without it.  What the record says
 * of rows is how many were delivered, so it waits until the cursor is closed, or the
 * session ends.  Such a query is not among the open ones any more: no transaction ends it.
 */

/*
 * In TopMemoryContext, from the commit to the callback of the portal's memory.  s owns copy and shares who; its
 * portal is compared, never followed.
 */
typedef struct HeldCursor
{
	struct HeldCursor *next;
	uint64		xid;			/* of its own transaction */
	StenoStatement s;
} HeldCursor;

static HeldCursor *held STENO_SESSION_DATA;

static void
put_held(void)
{
	StenoStatement *s = &held->s;
	StenoRecord record;
	bool		described;

	if (!steno_session_ready())
		return;
	described = steno_identity_describe(s->who);
	steno_read_copied_record(s, NULL, NULL, &record);
	if (steno_logs_rows())
		record.rows = s->rows;
	steno_set_times(s, &record);
	record.xid = held->xid;
	steno_record_put(&record, false);
	if (described)
		steno_identity_described();
}

/* Record the first one, which is over. */
static void
end_first(void)
{
	HeldCursor *h = held;

	(void) steno_record_guarded(put_held);
	held = h->next;
	steno_copy_release(&h->s.copy);
	steno_identity_release(&h->s.who);
	pfree(h);
}

/* The session ends: its cursors end with it, and nothing says so. */
static void
end_all(int code, Datum arg)
{
	while (held != NULL)
		end_first();
}

/*
 * The executor has ended a query, in the commit of the transaction in which its cursor WITH HOLD was opened.
 * False: it is not such a one, or there is no memory, and it must be recorded now.
 */
bool
steno_hold_cursor(StenoStatement *s)
{
	static bool registered STENO_SESSION_DATA;
	HeldCursor *h;

	if (s->portal == NULL || !s->portal_watched || s->copy == NULL || s->portal->strategy != PORTAL_ONE_SELECT ||
		s->portal->holdStore == NULL)
		return false;
	h = MemoryContextAllocExtended(TopMemoryContext, sizeof(*h), MCXT_ALLOC_NO_OOM);
	if (h == NULL)
		return false;
	if (!registered)
		before_shmem_exit(end_all, (Datum) 0);
	registered = true;
	h->xid = steno_current_xid();
	h->s = *s;
	h->s.query = NULL;
	h->s.objects = NULL;
	h->next = held;
	held = h;
	s->copy = NULL;
	s->who = NULL;
	steno_forget_open(s);
	return true;
}

/* The portal of a held cursor is gone; false if it is none. */
static bool
held_cursor_gone(const void *portal)
{
	HeldCursor **h;

	for (h = &held; *h != NULL; h = &(*h)->next)
		if ((*h)->s.portal == portal)
		{
			HeldCursor *gone = *h;

			*h = gone->next;
			gone->next = held;
			held = gone;
			end_first();
			return true;
		}
	return false;
}

/* ---- parked queries ---- */

/* Callback: the memory of a portal is freed, so its query is over if it has not ended before. */
static void
portal_gone(void *arg)
{
	int			i;

	if (held_cursor_gone(arg))
		return;
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

/* Register portal_gone as a callback of the portal's memory; false if out of memory. */
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
 * A query of a portal is suspended, and its portal is still valid: copy what its
 * record needs.  If there is no memory for that, it is recorded now.
 */
STENO_COLD void
steno_open_park(StenoStatement *s)
{
	if (s->recorded && s->copy == NULL)
		steno_copy_query(s);
	if (s->recorded && s->who == NULL)
		s->who = steno_identity_take();
	if ((s->recorded && s->copy == NULL) || (!s->portal_watched && !watch_portal(s)))
	{
		steno_record_query(s, NULL, false);
		steno_forget_open(s);
	}
}

/*
 * The same for a query without a portal that is left open by a function which returns a set.  If its caller does not
 * ask for more, the executor does not end it, but the (sub)transaction does.
 */
STENO_COLD void
steno_open_keep(StenoStatement *s)
{
	steno_copy_query(s);
	if (s->who == NULL)
		s->who = steno_identity_take();
	if (s->copy == NULL)
	{
		steno_record_query(s, NULL, false);
		steno_forget_open(s);
	}
}

/* Park all queries that are neither parked nor running. */
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

/*
 * Whether the process would take what is known of a statement with it, if it died while another one has the
 * in-flight entry: a client's portal has delivered rows, or a statement waits for its commit.  Not the query of
 * a cursor, whose FETCH has a record.
 */
static bool
needs_entry(const StenoStatement *s)
{
	return s->copy != NULL && !(s->policy & STENO_S_ANNOUNCED) &&
		(steno_commits(s) || (s->portal_watched && s->top_level && s->rows > 0 && !is_running(s)));
}

/*
 * A statement that has a copy of its record leaves the in-flight entry to another one.  Should the process die before
 * the statement ends, this start record tells of it, and of the rows that it has delivered so far.  xid: of its
 * transaction; 0: none.
 */
static void
announce_open(StenoStatement *s, uint64 xid)
{
	StenoRecord record;
	bool		described;

	if (!steno_session_ready())
		return;
	s->policy |= STENO_S_ANNOUNCED;
	described = s->who != NULL && steno_identity_describe(s->who);
	steno_read_copied_record(s, NULL, NULL, &record);
	record.kind = STENO_KIND_START;
	record.duration = STENO_NONE64;
	record.timed = false;
	if (!steno_commits(s))
		record.rows = steno_logs_rows() ? s->rows : STENO_NONE64;
	steno_put_start_record(s, xid, &record);
	if (described)
		steno_identity_described();
}

/*
 * The query of a cursor has delivered rows to a client's FETCH, whose record does not name its relations.  Its own
 * record comes when the cursor ends, so that it has a start record, too.
 */
STENO_COLD void
steno_open_fetched(QueryDesc *query)
{
	const StenoLevel *l = steno_my.level;
	StenoStatement *s;

	if (!steno_is_client() || l == NULL || l->outer != NULL || l->utility == NULL || l->tree == NULL ||
		!IsA(l->tree, FetchStmt))
		return;
	s = steno_find_open(query);
	if (s && s->copy != NULL && s->portal_watched && s->rows > 0 && !(s->policy & STENO_S_ANNOUNCED))
		announce_open(s, steno_current_xid());
}

/* FETCH has delivered rows of a cursor.  A held one has a start record from its first rows on, as others have. */
STENO_COLD void
steno_held_cursor_fetched(const char *name, uint64 rows)
{
	Portal		portal = held ? GetPortalByName(name) : NULL;
	HeldCursor *h;

	if (portal == NULL)
		return;
	for (h = held; h != NULL; h = h->next)
		if (h->s.portal == portal)
		{
			h->s.rows += rows;
			if (h->s.rows > 0 && !(h->s.policy & STENO_S_ANNOUNCED))
				announce_open(&h->s, h->xid);
		}
}

/* Another statement takes the in-flight entry: what needs it has a start record from now on. */
STENO_COLD void
steno_open_leave_entry(void)
{
	int			i;

	if (steno_my.staged != NULL)
		steno_unstage();
	steno_open_park_all();
	for (i = 0; i < steno_my.open_count; i++)
		if (needs_entry(&steno_my.open[i]))
			announce_open(&steno_my.open[i], steno_current_xid());
}

/* ---- ends without ExecutorEnd ---- */

/*
 * An error fails portals that were used by the code that raised it; their queries
 * are no longer running.  A portal that is refused a FETCH has failed, but its query has not:
 * it has delivered what was asked for before.  Queries that began in subtransaction from, or later, are
 * recorded by its abort, which fails all its portals.
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
		steno_record_query(s, steno_error_of_fetch(edata) ? NULL : edata, true);
		steno_forget_open(s);
	}
}

static StenoStatement *closed;

static void
record_closed(void)
{
	bool		gone = closed->portal_watched || closed->plan_cached || closed->portal == NULL;

	steno_record_query(closed, NULL, gone);
}

/*
 * A (sub)transaction has ended, and with it the queries that are still open: their
 * executor state no longer exists.  Queries without a portal were recorded when
 * they failed, except those that a function has left open.  Raises no error: each query is
 * guarded separately, and removed in any case.
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
		if (s->portal || s->copy)
		{
			closed = s;
			(void) steno_record_guarded(record_closed);
		}
		steno_forget_open(s);
	}
}

/* ---- statements that end with their commit ---- */

/*
 * The message of a failure at commit, without secrets of the statement, whose text
 * may have been freed.
 */
static const char *
commit_message(const StenoStatement *s, const ErrorData *edata)
{
	if (!s->suspect)
		return edata->message ? edata->message : "missing error text";
	if (debug_query_string != NULL && s->source == debug_query_string)
		return steno_failure_message(s, edata);
	return "<redacted>";
}

/*
 * Finish a statement that waits for its commit: its transaction has committed, or
 * will not; edata: it has failed.
 */
static void
finish_deferred(StenoStatement *s, const ErrorData *edata)
{
	uint64		rows = s->class == STENO_CLASS_READ && s->rows > 0 && steno_logs_rows() ? s->rows : STENO_NONE64;
	StenoRecord record;

	if (edata)
		steno_commit_measure(s);
	if (s->state == STENO_COMMITS_STAGED && steno_my.staged != NULL)
	{
		if (edata == NULL && likely(s->commit == 0))
			steno_staged_publish();
		else if (edata == NULL)
			steno_staged_commit(s);
		if (edata == NULL)
			return;
		if (s->redact == 0 && s->commit < STENO_TOLD_APART &&
			steno_staged_fail(s, rows, steno_current_xid(),
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
		record.rows = rows;
	steno_set_times(s, &record);
	steno_record_put(&record, steno_has_entry(s));
}

/* The transaction has committed, and has written. */
void
steno_open_committed(void)
{
	int			i;

	for (i = 0; i < steno_my.open_count; i++)
		if (steno_commits(&steno_my.open[i]))
			steno_commit_measure(&steno_my.open[i]);
}

/* The statement that waits for its commit has committed, or need not wait any more. */
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
	steno_open_leave_entry();
}

/*
 * Whether an error comes from the commit of the client's last statement, and not
 * from a later message.  A Bind of a statement that does not exist has no
 * debug_query_string either, but no snapshot.  Errors with an active snapshot, such
 * as those of deferred constraints, and serialization failures come from the
 * commit.
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
 * Whether an error is that of a client's query that waits in its portal.  A Bind
 * can fail after it has started the query.  An Execute checks for interrupts before
 * it runs the portal: debug_query_string is then a copy of the portal's text, but
 * NULL if statement_timeout expires between two messages.
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
	if (!steno_error_interrupts(edata))
		return false;
	if (debug_query_string)
		return strcmp(debug_query_string, portal->sourceText) == 0;
	return edata->elevel == ERROR && s->statement == steno_my.statement;
}

/* The same after its transaction, and with it its portal, has been aborted. */
static bool
has_waited(const StenoStatement *s, const ErrorData *edata)
{
	return s->top_level && s->portal && s->statement == steno_my.statement &&
		s->portal->status == PORTAL_FAILED && s->portal->atStart && !s->portal->atEnd &&
		edata->sqlerrcode == ERRCODE_QUERY_CANCELED && steno_error_interrupts(edata);
}

/*
 * The session is about to end with a FATAL error.  Returns whether that is the
 * error of a query that waits in its portal.
 */
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
 * The session is about to end with a FATAL error while the client's last statement
 * commits: it has failed.  Returns whether there was such a statement.  Once the
 * transaction has committed, it is no longer in progress, and while the session
 * waits for the client, there is neither a text nor a snapshot.
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
 * An error is raised while no statement is running.  It is that of the client's
 * last statement if this was about to commit, or if ExecutorEnd has failed, during
 * which no level of ours exists; or it is that of a statement that waits to be run.
 * reported: the transaction has not been aborted yet.
 */
STENO_COLD void
steno_open_fail_outside(const ErrorData *edata, bool reported)
{
	bool		commit = is_of_commit(edata, reported);
	bool		waiting = !commit && !steno_failure_is_recorded();	/* it is if the planner has failed */
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
			steno_failure_recorded();
		steno_forget_open(s);
	}
}
