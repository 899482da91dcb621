/*
 * extension/capture/start_record.c
 *		What stands between a statement and its start: its start record, and waits for it.
 *
 * A session makes start records, numbered like its other records, for each statement of
 * the classes of steno.log_start, and of those that wait for the disk, as steno.sync and
 * rules with the action sync ask for.  Such a statement starts when its start record is
 * on disk.  One that begins while the reserve of the ring is not whole (delivery/room.c)
 * waits for that first.
 *
 * A wait for room that is cancelled raises no error by itself.  The hook at whose end the
 * record was to be put lets the statement fail instead, which then has one record, that
 * of its failure.  That does not wait once more (STENO_START_HURRY), but is short if
 * need be.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "capture/statement.h"

/* A statement starts that has a start record: it is put. */
STENO_COLD void
steno_put_start_record(const StenoStatement *s, StenoRecord *record)
{
	record->outcome = STENO_OUTCOME_RUNNING;
	record->xid = GetTopTransactionIdIfAny();
	if (s->top_level)
		STENO_STORE(steno_my.producer.ring->inflight.announced, s->statement);
	steno_record_put(record, false);
}

/* The statement of a query fails when f raises an error. */
static void
inside_query(const StenoStatement *s, void (*f) (void))
{
	QueryDesc  *query = s->query;
	StenoLevel	l;

	/* as the executor's hooks have it */
	if (steno_my.level == NULL && steno_my.client && s->top_level)
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

/* The same of a utility statement, which is the running one. */
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
 * A statement has ended, and the wait for room for its record, the last one, was
 * cancelled: whether it can fail instead.
 */
static bool
can_fail_instead(void)
{
	if (!steno_can_raise())
		return false;			/* the transaction's end sees to it */
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
	/* nobody has wanted it to fail after all */
	s = steno_find_open(query);
	if (s)
		steno_record_query(s, NULL, false);
}

/* The same of a utility statement, whose level has been left; true: it has not failed, and has no record yet. */
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
	return true;
}

/* It was cancelled while its parameters were collected. */
STENO_COLD void
steno_raise_in_query(StenoStatement *s)
{
	inside_query(s, steno_raise_cancelled);
}

/* Its start record was put. */
STENO_COLD void
steno_start_query_wait(StenoStatement *s)
{
	steno_write_inflight(s, NULL);
	inside_query(s, steno_raise_cancelled);
	if (steno_is_synced(s))
		inside_query(s, steno_wait_to_start);
}

/* What ends a transaction that has failed, or undoes it, must not depend on a disk. */
static bool
is_rollback(const StenoLevel *l)
{
	return IsAbortedTransactionBlockState() || strcmp(l->command, "ROLLBACK") == 0;
}

/*
 * The statement has looked for the reserve: whether that covers all that are open.  It may
 * not be whole, when there could be no wait for it.
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
 * A statement has begun that must look for the reserve: when it returns, there is room for
 * its short record.  False: it is to have a start record, for more are open than the
 * reserve is made for.
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
	if (steno_is_synced(l->utility) && !is_rollback(l))
		inside_utility(l, steno_wait_to_start);
}
