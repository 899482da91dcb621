/*
 * extension/delivery/delivery.c
 *		Statements that wait for their records: for the disk, as steno.sync and
 *		rules with the action sync ask for, and what becomes of a wait, for the
 *		disk or for room in the ring (record.c), that is cancelled.
 *
 * 1. A statement of such a class has a start record, and starts when that is on
 *	  disk.  This is an ordinary wait: what ends it is an error of the statement.
 * 2. From then on STENO_START_SYNC is set, and the end of the transaction waits
 *	  until all that the session has recorded is on disk.  The transaction has
 *	  committed then, so nothing can be undone any more: as with synchronous
 *	  replication, a cancel only ends the wait, with a warning, and a terminated
 *	  session ends without an answer.  An abort waits for nothing.
 *
 * A transaction that may have to wait at its end, for the disk or for room, does so
 * when it has released its locks and sent its invalidations (finish_late): who
 * waits for its rows need not wait for our disk.  One that aborts does so, too, but for
 * the record of a statement that has failed: its client must not hear of the failure
 * before it is recorded, and hears of it before the abort.  While anybody waits here,
 * barriers of the server are absorbed where that is safe, so DROP DATABASE elsewhere
 * goes on.
 *
 * A wait for room can be in the middle of anything, so it raises no errors: it
 * ends, a short record takes the record's place (record.c), and
 * STENO_START_CANCELLED is set.  The hook at whose end the record was to be put
 * lets the statement fail instead, which then has one record, that of its failure.
 * That does not wait once more (STENO_START_HURRY), but is short if need be.
 * After a commit, there is a warning instead.
 *
 * All of this is in bits of steno_my.start_mask, above those of classes, which
 * every statement looks at anyway: who does not use it does not pay for it.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/procsignal.h"
#include "tcop/dest.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#include "delivery/delivery.h"
#include "capture/statement.h"

/* Longest sleep between two looks at interrupts, in milliseconds. */
#define SLEEP_MS 50

/*
 * After so many of them without any sync begun, the writer is asked once more: it may
 * be another one.  Who asks while it is being served has the disk synced once
 * more, for nobody.
 */
#define ASK_AGAIN 20

typedef struct Waiting
{
	int			turn;			/* sleeps so far */
	uint32		started;		/* syncs begun when it last looked */
} Waiting;

/* What start_mask is made of. */
static uint32 log_start_classes;	/* steno.log_start */
static uint32 sync_classes;		/* steno.sync */
static uint32 rule_classes;		/* a rule with the action sync may match */
static uint32 rule_all;			/* of these, whose statements all match it */

/* ---- which statements ---- */

static void
set_mask(void)
{
	steno_my.start_mask = (steno_my.start_mask & ~STENO_START_CLASSES) |
		((steno_my.start_mask & STENO_START_SHORT) ? STENO_START_CLASSES :
		 (log_start_classes | sync_classes | rule_classes) & STENO_START_CLASSES);
}

/* Whether statements that begin must look for the reserve of the ring first. */
STENO_COLD void
steno_delivery_short(bool is_short)
{
	if (is_short)
		steno_my.start_mask |= STENO_START_SHORT;
	else
		steno_my.start_mask &= ~STENO_START_SHORT;
	set_mask();
}

/* Settings have come into force. */
void
steno_delivery_adopt(const StenoWanted *wanted)
{
	log_start_classes = wanted->start_mask;
	sync_classes = wanted->sync_mask;
	set_mask();
}

/* The session's rules have been chosen: classes of which they sync some statements, and all. */
void
steno_delivery_rules(uint32 some, uint32 all)
{
	rule_classes = some;
	rule_all = all;
	set_mask();
}

static inline bool
is_synced(const StenoStatement *s)
{
	return ((sync_classes | rule_all) & (1u << s->class)) != 0 || (s->policy & STENO_S_SYNC);
}

/* A statement begins whose class is in start_mask: whether it has a start record. */
STENO_COLD bool
steno_delivery_starts(const StenoStatement *s)
{
	if (is_synced(s))
		steno_my.start_mask |= STENO_START_SYNC;
	else if (!(log_start_classes & (1u << s->class)))
		return false;
	return true;
}

/* A statement is recorded that did not seem to be when it began. */
STENO_COLD void
steno_delivery_late(const StenoStatement *s)
{
	if ((steno_my.start_mask & (1u << s->class)) && is_synced(s))
		steno_my.start_mask |= STENO_START_SYNC;
}

/* A prepared transaction is finished, and what was in it is not known. */
STENO_COLD void
steno_delivery_prepared(void)
{
	if ((sync_classes | rule_classes) & STENO_START_CLASSES)
		steno_my.start_mask |= STENO_START_SYNC;
}

/* ---- where errors and barriers can be served ---- */

static bool
call_guarded(void (*f) (void))
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	uint32		interrupts = InterruptHoldoffCount;
	uint32		cancels = QueryCancelHoldoffCount;
	volatile bool done = true;

	PG_TRY();
	{
		f();
	}
	PG_CATCH();
	{
		/* the throw has set the counts to zero */
		InterruptHoldoffCount = interrupts;
		QueryCancelHoldoffCount = cancels;
		CurrentResourceOwner = owner;
		MemoryContextSwitchTo(context);
		FlushErrorState();
		done = false;
	}
	PG_END_TRY();
	return done;
}

/*
 * Call f, which makes one record, where an error would be a panic, such as after a commit:
 * false when it has raised one, out of memory at most.  The record is counted as
 * dropped.
 */
bool
steno_delivery_guard(void (*f) (void))
{
	if (call_guarded(f))
		return true;
	if (steno_my.state == STENO_READY)
		steno_record_drop();
	return false;
}

/* We are in a place of our own, with interrupts held, where nothing of the server's is under way. */
static bool barriers_allowed;

bool
steno_delivery_allow_barriers(bool allow)
{
	bool		before = barriers_allowed;

	barriers_allowed = allow;
	return before;
}

/*
 * In a wait: what other processes wait for that we do, such as letting go of the files
 * of a database that is dropped.  CHECK_FOR_INTERRUPTS would do it where interrupts
 * are not held.  Should it fail, it is tried again.
 */
void
steno_delivery_absorb_barriers(void)
{
	if (likely(!ProcSignalBarrierPending) || CritSectionCount != 0 || proc_exit_inprogress ||
		(InterruptHoldoffCount != 0 && !barriers_allowed))
		return;
	(void) call_guarded(ProcessProcSignalBarrier);
}

/* ---- waiting for the disk ---- */

/* Ask the writer, if that is due. */
static void
ask_writer(Waiting *waiting)
{
	StenoWake  *wake = &steno_my.writer->wake;
	uint32		started = atomic_load_explicit(&wake->started, memory_order_relaxed);

	if (waiting->turn == 0)
	{
		atomic_fetch_add_explicit(&wake->waits, 1, memory_order_relaxed);
		if (steno_wake_ask(wake))
			steno_writer_wake(steno_my.writer);
	}
	else if (waiting->turn % ASK_AGAIN != 0)
		return;
	else if (started == waiting->started)
	{
		steno_wake_ask(wake);
		steno_writer_wake(steno_my.writer);
	}
	waiting->started = started;
}

/*
 * One sleep, until all that this session has recorded is on disk, or for SLEEP_MS;
 * true when it is.
 */
static bool
sleep_once(Waiting *waiting)
{
	StenoRing  *ring = steno_my.producer.ring;
	StenoWake  *wake = &steno_my.writer->wake;
	uint64		position = atomic_load_explicit(&ring->head, memory_order_relaxed);
	bool		done;

	ask_writer(waiting);
	waiting->turn++;
	pgstat_report_wait_start(steno_wait_events[STENO_WAIT_SYNC]);
	done = steno_wake_wait(wake, ring, position, SLEEP_MS);
	pgstat_report_wait_end();
	return done;
}

static bool
is_on_disk(void)
{
	const StenoRing *ring = steno_my.producer.ring;

	return atomic_load_explicit(&ring->durable, memory_order_acquire) >=
		atomic_load_explicit(&ring->head, memory_order_relaxed);
}

/* Before a statement starts: any interrupt is served, as anywhere. */
static void
wait_to_start(void)
{
	Waiting		waiting = {0};

	while (!is_on_disk())
	{
		CHECK_FOR_INTERRUPTS();
		steno_refuse_waiting_statement();
		if (!sleep_once(&waiting) && !PostmasterIsAlive())
			proc_exit(1);
	}
}

/*
 * The transaction has committed, and somebody wants no more waiting; false:
 * nobody does.  The client of a session that is to end hears nothing: it must not
 * believe what cannot be promised.
 */
static bool
end_of_patience(const char *awaited, const char *detail)
{
	if (ProcDiePending)
	{
		ereport(WARNING,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("canceling the wait for %s and terminating connection due to administrator command",
						awaited),
				 errdetail_internal("%s", detail)));
		whereToSendOutput = DestNone;
		return true;
	}
	if (QueryCancelPending)
	{
		QueryCancelPending = false;
		ereport(WARNING,
				(errmsg("canceling wait for %s due to user request", awaited),
				 errdetail_internal("%s", detail)));
		return true;
	}
	return false;
}

static void
wait_after_commit(void)
{
	Waiting		waiting = {0};

	while (!is_on_disk())
	{
		if (end_of_patience("the audit trail",
							"The transaction has already committed locally, but its audit records might not be on disk."))
			return;
		steno_delivery_absorb_barriers();
		if (!sleep_once(&waiting) && !PostmasterIsAlive())
		{
			ProcDiePending = true;
			InterruptPending = true;
			whereToSendOutput = DestNone;
			return;
		}
	}
}

/* ---- inside a statement ---- */

/* The statement of a query fails when f raises an error. */
static void
inside_query(const StenoOpen *o, void (*f) (void))
{
	QueryDesc  *query = o->query;
	StenoLevel	l;

	/* as the executor's hooks have it */
	if (steno_my.level == NULL && steno_my.client && o->s.top_level)
	{
		steno_enter_top(query);
		f();
		steno_leave(&steno_top_level);
		return;
	}
	steno_enter(&l, query, NULL, o->s.depth);
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

/* ---- waits for room that were cancelled ---- */

/* Whether an interrupt can be served here and now. */
bool
steno_delivery_can_raise(void)
{
	return InterruptHoldoffCount == 0 && QueryCancelHoldoffCount == 0 &&
		CritSectionCount == 0 && !proc_exit_inprogress;
}

/* What is recorded of the failure does not wait. */
static void
raise_cancel(void)
{
	steno_my.start_mask |= STENO_START_HURRY;
	CHECK_FOR_INTERRUPTS();
	steno_my.start_mask &= ~STENO_START_HURRY;
}

/* A wait for room was cancelled, and nothing is left of the record but its number. */
STENO_COLD void
steno_delivery_raise(void)
{
	if (!(steno_my.start_mask & STENO_START_CANCELLED) || !steno_delivery_can_raise())
		return;
	steno_my.start_mask &= ~STENO_START_CANCELLED;
	raise_cancel();
}

/*
 * A statement has ended, and the wait for room for its record, the last one, was
 * cancelled: whether it can fail instead.
 */
static bool
can_fail(void)
{
	if (!steno_delivery_can_raise())
		return false;			/* the transaction's end sees to it */
	steno_my.start_mask &= ~STENO_START_CANCELLED;
	return steno_record_take_back();
}

STENO_COLD void
steno_delivery_end_query(StenoOpen *o)
{
	QueryDesc  *query = o->query;

	if (!can_fail())
		return;
	inside_query(o, raise_cancel);
	/* nobody has wanted it to fail after all */
	o = steno_find_open(query);
	if (o)
		steno_record_query(o, NULL, false);
}

/* The same of a utility statement, whose level has been left; true: it has not failed, and has no record yet. */
STENO_COLD bool
steno_delivery_end_utility(StenoLevel *l)
{
	if (!can_fail())
		return false;
	l->callback.previous = error_context_stack;
	error_context_stack = &l->callback;
	steno_my.level = l;
	inside_utility(l, raise_cancel);
	steno_leave(l);
	return true;
}

/* ---- a statement starts ---- */

/* It was cancelled while its parameters were taken down. */
STENO_COLD void
steno_delivery_cancel_query(StenoOpen *o)
{
	inside_query(o, steno_delivery_raise);
}

/* Its start record was put. */
STENO_COLD void
steno_delivery_hold_query(StenoOpen *o)
{
	steno_show(&o->s);
	inside_query(o, steno_delivery_raise);
	if (is_synced(&o->s))
		inside_query(o, wait_to_start);
}

/* What ends a transaction that has failed, or undoes it, must not depend on a disk. */
static bool
is_rollback(const StenoLevel *l)
{
	return IsAbortedTransactionBlockState() || strcmp(l->command, "ROLLBACK") == 0;
}

/*
 * A statement has begun, and none of its rows has been read: go on when the ring has room
 * for a short record of each statement that is open (record.c).  Where no error can be
 * raised, nobody can cancel the wait for its record either.
 */
static void
wait_for_reserve(void)
{
	StenoRing  *ring = steno_my.producer.ring;
	uint64		start = steno_clock_ticks(&steno_my.clock);
	bool		latch_was_set = false;
	long		nap = 1;

	if (steno_record_reserve_is_whole() || steno_record_drops() || !steno_delivery_can_raise())
		return;
	atomic_fetch_add_explicit(&ring->waits, 1, memory_order_relaxed);
	while (!steno_record_reserve_is_whole() && !steno_record_drops() && steno_delivery_can_raise())
	{
		raise_cancel();
		steno_refuse_waiting_statement();
		if (!PostmasterIsAlive())
			proc_exit(1);
		latch_was_set |= steno_record_sleep(&nap);
	}
	if (latch_was_set)
		SetLatch(MyLatch);
	atomic_fetch_add_explicit(&ring->wait_us,
							  steno_clock_us(&steno_my.clock, start, steno_clock_ticks(&steno_my.clock)),
							  memory_order_relaxed);
}

/* Whether all that is open is covered; looks for the reserve end when nothing asks for them any more. */
static bool
is_covered(void)
{
	if (steno_record_reserve_is_whole() && steno_record_cover(steno_my.open_room))
		steno_delivery_short(false);
	return steno_record_cover(steno_record_owed());
}

/*
 * A statement has begun that must look for the reserve: when it returns, there is room for
 * its short record.  False: it is to have a start record, for more are open than the
 * reserve is made for.
 */
STENO_COLD bool
steno_delivery_cover_query(StenoOpen *o)
{
	(void) steno_record_cover(steno_record_owed());
	inside_query(o, wait_for_reserve);
	return is_covered();
}

STENO_COLD bool
steno_delivery_cover_utility(StenoLevel *l)
{
	(void) steno_record_cover(steno_record_owed());
	if (!is_rollback(l))
		inside_utility(l, wait_for_reserve);
	return is_covered();
}

STENO_COLD void
steno_delivery_hold_utility(StenoLevel *l)
{
	steno_show(l->utility);
	inside_utility(l, steno_delivery_raise);
	if (is_synced(l->utility) && !is_rollback(l))
		inside_utility(l, wait_to_start);
}

/* ---- a transaction ends ---- */

/* One that runs now, such as a procedure, waits at the end of its next transaction, too. */
static bool
any_running(void)
{
	const StenoLevel *l;

	for (l = steno_my.level; l; l = l->outer)
	{
		const StenoOpen *o = l->utility ? NULL : steno_find_open(l->query);
		const StenoStatement *s = l->utility ? l->utility : o ? &o->s : NULL;

		if (s && s->recorded && is_synced(s))
			return true;
	}
	return false;
}

/* It has its records. */
STENO_COLD void
steno_delivery_transaction(XactEvent event)
{
	uint32		mask = steno_my.start_mask;
	bool		sync = (mask & STENO_START_SYNC) != 0;

	steno_my.start_mask &= ~(STENO_START_SYNC | STENO_START_CANCELLED | STENO_START_HURRY);
	if (steno_my.state == STENO_READY && event != XACT_EVENT_ABORT)
	{
		if (((sync_classes | rule_all) & (1u << STENO_CLASS_TRANSACTION)) &&
			TransactionIdIsValid(GetTopTransactionIdIfAny()))
			sync = true;
		if (!((mask & STENO_START_CANCELLED) &&
			  end_of_patience("room for audit records",
							  "The transaction has already committed locally, but its last audit records may have been cut, or dropped.")) &&
			sync)
			wait_after_commit();
	}
	else if ((mask & STENO_START_CANCELLED) && !ProcDiePending)
		(void) end_of_patience("room for audit records",
							   "The transaction was rolled back, and its last audit records were dropped.");
	if (any_running())
		steno_my.start_mask |= STENO_START_SYNC;
}

/*
 * A parallel worker is through with its part.  Its leader, which waits for that,
 * knows nothing of the worker's records: so the worker waits for the disk.  A
 * worker that is to end has a leader that has failed.
 */
STENO_COLD void
steno_delivery_worker_ends(void)
{
	Waiting		waiting = {0};
	bool		sync = (steno_my.start_mask & STENO_START_SYNC) != 0;
	bool		before;

	steno_my.start_mask &= ~(STENO_START_SYNC | STENO_START_CANCELLED | STENO_START_HURRY);
	if (!sync || steno_my.state != STENO_READY)
		return;
	before = steno_delivery_allow_barriers(true);
	while (!is_on_disk() && !ProcDiePending)
	{
		steno_delivery_absorb_barriers();
		if (!sleep_once(&waiting) && !PostmasterIsAlive())
			break;
	}
	(void) steno_delivery_allow_barriers(before);
}

/*
 * ---- after the locks are released ----
 *
 * The server has no hook for what comes after a transaction's cleanup and before its
 * client is answered, but calls back when resources are released, the last time after
 * the locks.  Sessions that never have to wait at the end of a transaction do not
 * register that callback, and do not pay for it.
 */

static bool is_late;			/* a transaction has ended ... */
static XactEvent late_event;	/* ... so */
static bool registered;			/* the callback is */

static void
resources_released(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	bool		before;

	if (likely(!is_late) || phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level)
		return;
	is_late = false;
	before = steno_delivery_allow_barriers(true);
	steno_transaction_finish_late(late_event);
	(void) steno_delivery_allow_barriers(before);
}

static void
register_callback(void)
{
	if (!registered)
		RegisterResourceReleaseCallback(resources_released, NULL);
	registered = true;
}

static void
look_for_room(void)
{
	StenoProducer *p = &steno_my.producer;

	/* pairs with the release store in steno_ring_free */
	p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
}

/* Whether what a transaction that has ended leaves to be recorded can come when its locks are released. */
STENO_COLD bool
steno_delivery_can_end_late(void)
{
	return steno_my.state == STENO_READY && (registered || call_guarded(register_callback));
}

/*
 * A transaction has aborted: whether what is left to be recorded may have to wait, so
 * that it comes when the locks are released.  Without memory for that, it waits now.
 */
STENO_COLD bool
steno_delivery_abort_waits(void)
{
	if (steno_my.state != STENO_READY || steno_delivery_room_at_end())
		return false;
	look_for_room();
	return !steno_delivery_room_at_end() && steno_delivery_can_end_late();
}

/*
 * A transaction is about to commit, and may have to wait when it has: it does when it has
 * released its locks.  What needs memory for that, is done now, when it can still
 * fail.
 */
STENO_COLD void
steno_delivery_finish_late(void)
{
	if (steno_my.state != STENO_READY)
		return;
	look_for_room();
	if (!(steno_my.start_mask & STENO_START_AT_END) && steno_end_is_staged() && steno_delivery_room_at_end())
		return;
	register_callback();
	steno_my.start_mask |= STENO_START_LATE;
}

/* It has committed, or aborted. */
STENO_COLD void
steno_delivery_ended(XactEvent event)
{
	steno_my.start_mask &= ~STENO_START_LATE;
	is_late = true;
	late_event = event;
}
