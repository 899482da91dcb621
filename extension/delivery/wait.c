/*
 * extension/delivery/wait.c
 *		Waiting for the disk, and what each wait needs: the attention of the writer, and which
 *		interrupts and barriers of the server may be served meanwhile.
 *
 * Before a statement starts, a wait is an ordinary one: what ends it is an error of the
 * statement.  After a commit nothing can be undone any more: as with synchronous
 * replication, a cancel only ends the wait, with a warning, and a terminated session ends
 * without an answer.  An abort waits for nothing.
 *
 * A sync can be requested some time before its end is waited for.  That is what the
 * commit of a transaction does, so that the trail is synced while the server flushes its
 * WAL.
 */
#include "delivery/wait.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/procsignal.h"
#include "tcop/dest.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#include "delivery/encode.h"
#include "delivery/refusal.h"
#include "policy/secret.h"

/* Longest sleep between two looks at interrupts, in milliseconds. */
#define SLEEP_MS 50

/*
 * After so many sleeps without a new sync, the process asks the writer again, which may
 * have been replaced.  It does not ask sooner: a request that is made while a sync
 * serves the process would cause another sync, which nobody needs.
 */
#define ASK_AGAIN 20

typedef struct Waiting
{
	uint64		position;		/* waits until its ring is durable up to here */
	int			turn;			/* requests and sleeps so far */
	uint32		started;		/* syncs begun when it last looked */
	StenoPatience patience;
} Waiting;

/* The sync that was requested before the commit of the current transaction. */
static Waiting requested;

/* ---- where errors and barriers can be served ---- */

/*
 * Call f where an error must not get out: false when it has raised one, which is then
 * forgotten.
 */
bool
steno_call_guarded(void (*f) (void))
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
		steno_forget_error();
		done = false;
	}
	PG_END_TRY();
	return done;
}

/* We are in a place of our own, with interrupts held, where nothing of the server's is under way. */
static bool barriers_allowed;

bool
steno_allow_barriers(bool allow)
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
steno_absorb_barriers(void)
{
	if (likely(!ProcSignalBarrierPending) || CritSectionCount != 0 || proc_exit_inprogress ||
		(InterruptHoldoffCount != 0 && !barriers_allowed))
		return;
	(void) steno_call_guarded(ProcessProcSignalBarrier);
}

/* Whether an interrupt can be served here and now. */
bool
steno_can_raise(void)
{
	return InterruptHoldoffCount == 0 && QueryCancelHoldoffCount == 0 &&
		CritSectionCount == 0 && !proc_exit_inprogress;
}

/* What is recorded of the failure does not wait. */
void
steno_raise_cancel(void)
{
	steno_my.start_mask |= STENO_START_HURRY;
	CHECK_FOR_INTERRUPTS();
	steno_my.start_mask &= ~STENO_START_HURRY;
}

/*
 * A wait for room was cancelled, and nothing is left of the record but its number; or the search for secrets was given
 * up, and little is left of the text.
 */
STENO_COLD void
steno_raise_cancelled(void)
{
	if (unlikely(steno_secret_given_up()))
	{
		if (steno_can_raise())
			steno_raise_cancel();
		steno_secret_search_again();
	}
	if (!(steno_my.start_mask & STENO_START_CANCELLED) || !steno_can_raise())
		return;
	steno_my.start_mask &= ~STENO_START_CANCELLED;
	steno_raise_cancel();
}

/* ---- the writer's attention ---- */

/*
 * The writer sleeps deeply, or does not watch our ring, which has messages now.  If it
 * is just falling asleep, it sees the bit, or we see that it is asleep: it sets asleep
 * before it looks for bits.
 */
STENO_COLD void
steno_ring_has_news(void)
{
	uint32		number = steno_my.ring_number;
	uint32		bits = atomic_exchange(&steno_my.producer.ring->asleep, 0);

	if (bits & STENO_RING_UNWATCHED)
		atomic_fetch_or(&steno_control->has_news[number / 64], UINT64CONST(1) << (number % 64));
	if ((bits & STENO_RING_ASLEEP) || atomic_load(&steno_my.writer->asleep))
		steno_writer_wake(steno_my.writer);
}

/*
 * Make sure that the writer watches our ring, so that its next pass reads what has been
 * published.  The fence pairs with that in stop_watching (writer/drain.c).
 */
void
steno_ring_watch(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&steno_my.producer.ring->asleep, memory_order_relaxed))
		steno_ring_has_news();
}

/* Wake the writer for what has been published. */
STENO_COLD void
steno_ring_wake_writer(void)
{
	steno_ring_watch();
	steno_writer_wake(steno_my.writer);
}

/* ---- waiting for the disk ---- */

/* Wait for all records that are in the ring now. */
static inline Waiting
wait_for_head(void)
{
	Waiting		waiting = {
		.position = atomic_load_explicit(&steno_my.producer.ring->head, memory_order_relaxed)
	};

	return waiting;
}

/* Request a sync from the writer, if that is due. */
static void
ask_writer(Waiting *waiting)
{
	StenoWake  *wake = &steno_my.writer->wake;
	uint32		started = atomic_load_explicit(&wake->started, memory_order_relaxed);

	if (waiting->turn == 0)
	{
		atomic_fetch_add_explicit(&wake->waits, 1, memory_order_relaxed);
		/* before the request: the pass that takes it reads this ring */
		steno_ring_watch();
		if (steno_wake_ask(wake))
			steno_writer_wake(steno_my.writer);
	}
	else if (waiting->turn % ASK_AGAIN != 0)
		return;
	else if (started == waiting->started)
	{
		steno_ring_watch();
		steno_wake_ask(wake);
		steno_writer_wake(steno_my.writer);
	}
	waiting->started = started;
}

/* One sleep, until the awaited records are on disk, or for SLEEP_MS; true if they are. */
static bool
sleep_once(Waiting *waiting)
{
	StenoRing  *ring = steno_my.producer.ring;
	StenoWake  *wake = &steno_my.writer->wake;
	bool		done;

	ask_writer(waiting);
	waiting->turn++;
	pgstat_report_wait_start(steno_wait_events[STENO_WAIT_SYNC]);
	done = steno_wake_wait(wake, ring, waiting->position, SLEEP_MS);
	pgstat_report_wait_end();
	if (done)
		steno_patience_end(&waiting->patience, steno_my.writer);
	else
		steno_patience_check(&waiting->patience, steno_my.writer, "the audit trail to be on disk");
	return done;
}

static bool
is_on_disk(const Waiting *waiting)
{
	return atomic_load_explicit(&steno_my.producer.ring->durable, memory_order_acquire) >= waiting->position;
}

/* Before a statement starts: any interrupt is served, as anywhere. */
void
steno_wait_to_start(void)
{
	Waiting		waiting = wait_for_head();

	while (!is_on_disk(&waiting))
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
bool
steno_wait_is_ended(const char *awaited, const char *detail)
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

/*
 * A transaction is about to commit: request the sync of what it has recorded, which
 * steno_wait_for_request awaits.
 */
void
steno_wait_request(void)
{
	requested = wait_for_head();
	if (is_on_disk(&requested))
		return;
	ask_writer(&requested);
	requested.turn = 1;
}

/* Wait until the awaited records are on disk, after the transaction has committed. */
static void
wait_after_commit(Waiting *waiting)
{
	while (!is_on_disk(waiting))
	{
		if (steno_wait_is_ended("the audit trail",
							"The transaction has already committed locally, but its audit records might not be on disk."))
			return;
		steno_absorb_barriers();
		if (!sleep_once(waiting) && !PostmasterIsAlive())
		{
			ProcDiePending = true;
			InterruptPending = true;
			whereToSendOutput = DestNone;
			return;
		}
	}
}

/* The transaction has committed: wait for all of its records. */
void
steno_wait_after_commit(void)
{
	Waiting		waiting = wait_for_head();

	wait_after_commit(&waiting);
}

/* The transaction has committed: wait for those that it had when the sync was requested. */
void
steno_wait_for_request(void)
{
	wait_after_commit(&requested);
}

/*
 * A parallel worker is through with its part.  Its leader, which waits for that,
 * knows nothing of the worker's records: so the worker waits for the disk.  A
 * worker that is to end has a leader that has failed.
 */
STENO_COLD void
steno_wait_at_workers_end(void)
{
	Waiting		waiting;
	bool		sync = (steno_my.start_mask & STENO_START_SYNC) != 0;
	bool		before;

	steno_my.start_mask &= ~(STENO_START_SYNC | STENO_START_CANCELLED | STENO_START_HURRY);
	if (!sync || steno_my.state != STENO_READY)
		return;
	waiting = wait_for_head();
	before = steno_allow_barriers(true);
	while (!is_on_disk(&waiting) && !ProcDiePending)
	{
		steno_absorb_barriers();
		if (!sleep_once(&waiting) && !PostmasterIsAlive())
			break;
	}
	(void) steno_allow_barriers(before);
}
