/*
 * extension/capture/transaction.c
 *		Records of transactions that wrote: how they ended, and when.
 *
 * A transaction that has an id has a record when it commits, aborts or is
 * prepared, and a prepared one another when it is finished.  The record comes
 * when the outcome is certain, before the client hears of it, after the records
 * of the statements in it; only of a procedure's transactions, and others that
 * end inside a statement, the statement ends later.  The record's time is that
 * in the commit's own WAL record.
 *
 * Every writing transaction pays for it, so it is encoded here by hand.  Nothing
 * here looks at catalogs or allocates: an abort has neither.
 */
#include "base/steno.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "capture/statement.h"

/* What PREPARE TRANSACTION has named the transaction that it will end. */
static char prepared_gid[GIDSIZE];

/* Room for the pairs event, statements, gid, with their lengths. */
#define EXTRA_ROOM (8 * 3 + 5 + 17 + 10 + 20 + 3 + GIDSIZE)

static inline uint8 *
put_string(uint8 *p, const char *s, size_t len)
{
	p = steno_put_varint(p, len);
	memcpy(p, s, len);
	return p + len;
}

#define PUT_CONSTANT(p, s) put_string(p, s, sizeof(s) - 1)

static inline uint8 *
put_decimal(uint8 *p, uint64 n)
{
	char		digits[20];
	int			at = sizeof(digits);

	do
	{
		digits[--at] = '0' + n % 10;
		n /= 10;
	} while (n > 0);
	return put_string(p, digits + at, sizeof(digits) - at);
}

/*
 * Has a session fact changed?  In a failure, names must be known already.  An abort
 * has set the role back by now, and will set the session user back later: whose
 * transaction it was is what the last statement said.
 */
static inline void
describe_session(XactEvent event)
{
	if (unlikely(!steno_my.described || steno_my.application != application_name ||
				 (event != XACT_EVENT_ABORT && steno_my.user_id != GetUserId())))
		steno_session_failing(event == XACT_EVENT_ABORT ? steno_my.user_id : InvalidOid);
}

/* extra: room for the record's pairs, of which those up to end are there. */
static inline void
put_transaction(StenoRecord *record, uint8 *extra, uint8 *end, const char *gid)
{
	/* class; no query id, command tag, relations, parameters */
	static const uint8 shape[5] = {STENO_CLASS_TRANSACTION};

	if (unlikely(gid != NULL))
	{
		end = PUT_CONSTANT(end, "gid");
		end = put_string(end, gid, strlen(gid));
		record->extra_count++;
	}
	record->shape = shape;
	record->shape_len = sizeof(shape);
	record->audited = steno_audit_reason(STENO_CLASS_TRANSACTION, STENO_AUDITED_RULE);
	record->extra = extra;
	record->extra_len = end - extra;
	steno_record_put(record, false);
}

/* Statements of the client since the last transaction's end. */
static inline uint64
statements(void)
{
	return steno_my.statement - steno_my.transaction_base;
}

/*
 * Autovacuum's transactions have a record when user code has run a statement in
 * them.
 */
STENO_COLD static bool
is_of_autovacuum(void)
{
	return MyBackendType == B_AUTOVAC_WORKER && statements() == 0;
}

/* The present transaction, which has an id, has ended. */
STENO_HOT static void
record_transaction(XactEvent event)
{
	StenoRecord record;
	uint8		extra[EXTRA_ROOM];
	uint8	   *p = extra;
	const char *gid = NULL;
	TimestampTz start = GetCurrentTransactionStartTimestamp();

	if (unlikely(!steno_my.client) && is_of_autovacuum())
		return;
	if (!steno_session_ready())
		return;
	describe_session(event);
	steno_record_init(&record, STENO_KIND_TRANSACTION);
	p = PUT_CONSTANT(p, "event");
	if (likely(event == XACT_EVENT_COMMIT))
		p = PUT_CONSTANT(p, "commit");
	else if (event == XACT_EVENT_ABORT)
	{
		p = PUT_CONSTANT(p, "abort");
		record.outcome = STENO_OUTCOME_ERROR;
	}
	else
	{
		p = PUT_CONSTANT(p, "prepare");
		gid = prepared_gid;
	}
	p = PUT_CONSTANT(p, "statements");
	p = put_decimal(p, statements());
	record.extra_count = 2;
	record.time = GetCurrentTransactionStopTimestamp();
	record.duration = Max(record.time - start, 0);
	record.xid = GetTopTransactionIdIfAny();
	put_transaction(&record, extra, p, gid);
}

/*
 * A process that has no statements, such as one that applies changes of another
 * server, makes itself known while names can be looked up.
 */
STENO_COLD static void
describe_process(void)
{
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()) && !is_of_autovacuum() && steno_session_ready() &&
		steno_class_logged(STENO_CLASS_TRANSACTION))
		steno_session_check(InvalidOid);
}

/* BEGIN, COMMIT, PREPARE TRANSACTION ... begins. */
STENO_HOT void
steno_transaction_statement(const TransactionStmt *statement)
{
	if (statement->kind == TRANS_STMT_PREPARE)
		strlcpy(prepared_gid, statement->gid, sizeof(prepared_gid));
	if (!IsAbortedTransactionBlockState())
		steno_my.transaction_over = false;
	else if (steno_my.transaction_over)
		/* this ends the block of a transaction that has its record: count anew */
		steno_my.transaction_base = steno_my.statement;
}

/* COMMIT PREPARED or ROLLBACK PREPARED has ended well, and has its record. */
STENO_COLD void
steno_transaction_statement_done(const TransactionStmt *statement)
{
	StenoRecord record;
	uint8		extra[EXTRA_ROOM];
	uint8	   *p = extra;
	bool		commit = statement->kind == TRANS_STMT_COMMIT_PREPARED;

	if (!steno_class_logged(STENO_CLASS_TRANSACTION) || !steno_session_ready())
		return;
	describe_session(XACT_EVENT_COMMIT);
	steno_record_init(&record, STENO_KIND_TRANSACTION);
	p = PUT_CONSTANT(p, "event");
	p = commit ? PUT_CONSTANT(p, "commit prepared") : PUT_CONSTANT(p, "rollback prepared");
	record.extra_count = 1;
	record.outcome = commit ? STENO_OUTCOME_OK : STENO_OUTCOME_ERROR;
	record.time = GetCurrentTimestamp();
	put_transaction(&record, extra, p, statement->gid);
	steno_start_mask_prepared();
}

/* ---- what a transaction waits for at its end ---- */

/* One that runs now, such as a procedure, waits at the end of its next transaction, too. */
static bool
any_running(void)
{
	const StenoLevel *l;

	for (l = steno_my.level; l; l = l->outer)
	{
		const StenoStatement *s = steno_statement_of_level(l);

		if (s && s->recorded && steno_is_synced(s))
			return true;
	}
	return false;
}

/* It has its records. */
STENO_COLD static void
wait_at_end(XactEvent event)
{
	uint32		mask = steno_my.start_mask;
	bool		sync = (mask & STENO_START_SYNC) != 0;

	steno_my.start_mask &= ~(STENO_START_SYNC | STENO_START_CANCELLED | STENO_START_HURRY);
	if (steno_my.state == STENO_READY && event != XACT_EVENT_ABORT)
	{
		if (steno_transactions_are_synced() && TransactionIdIsValid(GetTopTransactionIdIfAny()))
			sync = true;
		if (!((mask & STENO_START_CANCELLED) &&
			  steno_wait_is_ended("room for audit records",
							  "The transaction has already committed locally, but its last audit records may have been cut, or dropped.")) &&
			sync)
			steno_wait_after_commit();
	}
	else if ((mask & STENO_START_CANCELLED) && !ProcDiePending)
		(void) steno_wait_is_ended("room for audit records",
							   "The transaction was rolled back, and its last audit records were dropped.");
	if (any_running())
		steno_my.start_mask |= STENO_START_SYNC;
}

/* ---- a transaction has ended ---- */

/* The end of any transaction: statements are counted anew. */
static inline void
reset_statement_count(XactEvent event)
{
	steno_my.transaction_over = event == XACT_EVENT_ABORT;
	/* a statement that is running goes on in the next transaction */
	steno_my.transaction_base = steno_my.statement - (steno_my.level != NULL);
}

/* COMMIT, PREPARE TRANSACTION or ROLLBACK is the client's statement that runs: it has ended with the transaction. */
static void
end_statement(void)
{
	if (steno_my.level == &steno_top_level && steno_top_level.ending)
		steno_utility_ended(&steno_top_level);
}

/* A transaction has ended well, but not as most do. */
static pg_noinline void
transaction_closed(void)
{
	steno_open_finish_committed();
	if (steno_my.level != NULL)
		(void) steno_record_guarded(end_statement);
	if (unlikely(steno_my.objects_pending))
		steno_objects_forget_pending();
	if (steno_my.level == NULL && unlikely(steno_my.open_count > 0))
	{
		steno_open_close(InvalidSubTransactionId);
		steno_objects_release_all();
	}
}

/* A transaction has ended: what is to be recorded of it, and what is waited for then. */
STENO_HOT static inline void
finish_transaction(XactEvent event)
{
	if (steno_class_logged(STENO_CLASS_TRANSACTION) &&
		TransactionIdIsValid(steno_private.transaction_id()))
	{
		steno_ring_prefetch(&steno_my.producer, 3);
		record_transaction(event);
	}
	if (unlikely(steno_my.start_mask & STENO_START_AT_END))
		wait_at_end(event);
	reset_statement_count(event);
}

static XactEvent finished_event;

static void
finish_late_event(void)
{
	finish_transaction(finished_event);
}

/*
 * It has released its locks by now.  An error would be a panic: each thing that is
 * recorded is guarded for itself.
 */
STENO_COLD static void
finish_transaction_late(XactEvent event)
{
	if (event == XACT_EVENT_ABORT)
		(void) steno_record_guarded(end_statement);
	else if (steno_my.level != NULL || steno_my.open_count > 0 || steno_my.objects_pending)
		transaction_closed();
	finished_event = event;
	if (!steno_record_guarded(finish_late_event))
		reset_statement_count(event);
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
	before = steno_allow_barriers(true);
	finish_transaction_late(late_event);
	(void) steno_allow_barriers(before);
}

static void
register_release_callback(void)
{
	if (!registered)
		RegisterResourceReleaseCallback(resources_released, NULL);
	registered = true;
}

/* Whether what a transaction that has ended leaves to be recorded can come when its locks are released. */
STENO_COLD static bool
can_finish_late(void)
{
	return steno_my.state == STENO_READY && (registered || steno_call_guarded(register_release_callback));
}

/*
 * A transaction has aborted: whether what is left to be recorded may have to wait, so
 * that it comes when the locks are released.  Without memory for that, it waits now.
 */
STENO_COLD static bool
abort_may_wait(void)
{
	if (steno_my.state != STENO_READY || steno_room_at_end())
		return false;
	steno_room_refresh_tail();
	return !steno_room_at_end() && can_finish_late();
}

/*
 * A transaction is about to commit, and may have to wait when it has: it does when it has
 * released its locks.  What needs memory for that, is done now, when it can still
 * fail.
 */
STENO_COLD static void
prepare_to_finish_late(void)
{
	if (steno_my.state != STENO_READY)
		return;
	steno_room_refresh_tail();
	if (!(steno_my.start_mask & STENO_START_AT_END) && steno_end_is_staged() && steno_room_at_end())
		return;
	register_release_callback();
	steno_my.start_mask |= STENO_START_LATE;
}

/* It has committed, or aborted. */
STENO_COLD static void
finish_at_release(XactEvent event)
{
	steno_my.start_mask &= ~STENO_START_LATE;
	is_late = true;
	late_event = event;
}

/* ---- the callback ---- */

/*
 * It has aborted: no error may get out of here, and whoever waits for barriers need not
 * wait for us.  Statements that it has ended are recorded here, where the names of their
 * relations are still known; what else may have to wait comes later.
 */
STENO_COLD static void
transaction_aborted(XactEvent event)
{
	(void) steno_allow_barriers(true);
	steno_my.start_mask &= ~STENO_START_LATE;
	steno_statement_aborted();
	/* that of a parallel worker is its leader's */
	if (event == XACT_EVENT_ABORT)
	{
		if (abort_may_wait())
			finish_at_release(event);
		else
			finish_transaction_late(event);
	}
	(void) steno_allow_barriers(false);
}

STENO_HOT static void
transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (unlikely(!steno_my.described))
				describe_process();
			/* what deferred triggers have made can be named for the last time */
			if (steno_my.level == &steno_top_level && steno_top_level.ending &&
				unlikely(steno_my.top_utility.objects != NULL))
				steno_objects_finish(&steno_my.top_utility, NULL);
			if (unlikely((steno_my.start_mask & STENO_START_AT_END) ||
						 !steno_end_is_staged() || !steno_room_at_end()))
				prepare_to_finish_late();
			return;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			steno_my.subid = TopSubTransactionId;
			steno_end_block();
			if (unlikely(steno_my.start_mask & STENO_START_LATE))
			{
				finish_at_release(event);
				return;
			}
			if (steno_commit_is_staged())
				steno_utility_ended(&steno_top_level);
			else if (unlikely(!steno_end_is_staged()) && can_finish_late())
			{
				/* a callback of another library has had something recorded since */
				finish_at_release(event);
				return;
			}
			if (unlikely(steno_my.level != NULL || steno_my.open_count > 0 || steno_my.objects_pending))
				transaction_closed();
			finish_transaction(event);
			return;
		case XACT_EVENT_ABORT:
			transaction_aborted(event);
			return;
		case XACT_EVENT_PARALLEL_COMMIT:
			steno_wait_at_workers_end();
			return;
		case XACT_EVENT_PARALLEL_ABORT:
			transaction_aborted(event);
			return;
		default:
			return;
	}
}

void
steno_transaction_install(void)
{
	RegisterXactCallback(transaction_end, NULL);
}
