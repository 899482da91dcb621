/*
 * extension/capture/start_record.c
 *		What a statement may have to do before it starts: its start record, and
 *		waits.
 *
 * A session makes start records, numbered like its other records, for statements of
 * the classes of steno.log_start, and for those that wait for the disk because of
 * steno.sync or a rule with the action sync.  The latter start when their start
 * record is on disk; with steno.sync_start = off, they start at once, and only those
 * have a start record that may commit before they end (utility.c).  A statement that
 * begins while the reserve of the ring is not free (delivery/room.c) waits for that
 * first.
 *
 * There is a third reason: the portal of a statement has delivered rows and waits for its client, and another
 * statement takes the in-flight entry (open_query.c).
 *
 * A canceled wait for space raises no error by itself.  The hook that was to put
 * the record fails the statement instead, which then has one record, that of its
 * failure.  That record does not wait again (STENO_START_HURRY), but is a short
 * record if necessary.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "capture/statement_record.h"
#include "delivery/room.h"
#include "delivery/wait.h"

/* Call f so that an error that it raises fails the query's statement. */
static void
inside_query(const StenoStatement *s, void (*f) (void))
{
	QueryDesc  *query = s->query;
	StenoLevel	l;

	/* as in the executor's hooks */
	if (steno_my.level == NULL && steno_is_client() && s->top_level)
	{
		steno_enter_top(query);
		f();
		steno_leave(&steno_top_level);
		return;
	}
	steno_enter(&l, query, NULL, s->depth);
	PG_TRY();
	{
		f();
	}
	PG_CATCH();
	{
		steno_fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	steno_leave(&l);
}

/* The same for the running utility statement. */
static void
inside_utility(StenoLevel *l, void (*f) (void))
{
	if (l == &steno_top_level)
	{
		f();
		return;
	}
	PG_TRY();
	{
		f();
	}
	PG_CATCH();
	{
		steno_fail(l);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * A statement has ended, and the wait for space for its record was canceled;
 * whether the statement can fail instead, with that record undone.
 */
static bool
can_fail_instead(void)
{
	if (!steno_can_raise())
		return false;			/* the end of the transaction handles it */
	steno_my.start_mask &= ~STENO_START_CANCELLED;
	return steno_record_undo_cancelled();
}

STENO_COLD void
steno_fail_cancelled_query(StenoStatement *s)
{
	QueryDesc  *query = s->query;

	if (!can_fail_instead())
		return;
	inside_query(s, steno_raise_cancel);
	/* the statement does not fail after all */
	s = steno_find_open(query);
	if (s)
	{
		s->may_fail = false;
		steno_record_query(s, NULL, false);
	}
}

/*
 * The same for a utility statement, whose level has been left; true if it has not
 * failed and has no record yet.
 */
STENO_COLD bool
steno_fail_cancelled_utility(StenoLevel *l)
{
	if (!can_fail_instead())
		return false;
	l->callback.previous = error_context_stack;
	error_context_stack = &l->callback;
	steno_my.level = l;
	inside_utility(l, steno_raise_cancel);
	steno_leave(l);
	l->utility->may_fail = false;
	return true;
}

/*
 * Raise the error of a cancel that arrived while the query's parameters were collected, or while its text was searched
 * for secrets.
 */
STENO_COLD void
steno_raise_in_query(StenoStatement *s)
{
	inside_query(s, steno_raise_cancelled);
}

/* The same for a utility statement. */
STENO_COLD void
steno_raise_in_utility(StenoLevel *l)
{
	inside_utility(l, steno_raise_cancelled);
}

/* The query's start record was put: wait for the disk if required. */
STENO_COLD void
steno_start_query_wait(StenoStatement *s)
{
	steno_write_inflight(s, NULL);
	inside_query(s, steno_raise_cancelled);
	if (steno_waits_to_start(s))
		inside_query(s, steno_wait_to_start);
}

/* Whether this is a rollback, which must not depend on the disk. */
static bool
is_rollback(const StenoLevel *l)
{
	return IsAbortedTransactionBlockState() || strcmp(l->command, "ROLLBACK") == 0;
}

/*
 * The statement has checked the reserve; returns whether it covers all open
 * statements.  It may still be in use if the statement could not wait for it.
 */
static bool
is_covered(StenoStatement *s)
{
	bool		covered = steno_reserve_covers_all();

	if (covered && steno_reserve_is_whole())
		s->policy &= ~STENO_S_UNCOVERED;
	else
		s->policy |= STENO_S_UNCOVERED;
	return covered;
}

/*
 * A statement has begun that must check the reserve: on return, there is space for
 * its short record.  False if it must have a start record, because more statements
 * are open than the reserve is made for.
 */
STENO_COLD bool
steno_cover_query(StenoStatement *s)
{
	(void) steno_reserve_cover(steno_reserve_needed());
	inside_query(s, steno_reserve_wait);
	return is_covered(s);
}

STENO_COLD bool
steno_cover_utility(StenoLevel *l)
{
	(void) steno_reserve_cover(steno_reserve_needed());
	if (!is_rollback(l))
		inside_utility(l, steno_reserve_wait);
	return is_covered(l->utility);
}

STENO_COLD void
steno_start_utility_wait(StenoLevel *l)
{
	steno_write_inflight(l->utility, NULL);
	inside_utility(l, steno_raise_cancelled);
	if (steno_waits_to_start(l->utility) && !is_rollback(l))
		inside_utility(l, steno_wait_to_start);
}
