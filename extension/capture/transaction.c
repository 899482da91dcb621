/*
 * extension/capture/transaction.c
 *		Records of transactions that have written: how and when they ended.
 *
 * A transaction with a transaction ID gets a record when it commits, aborts or is
 * prepared, and a prepared one gets another when it is finished.  The record is
 * made when the outcome is certain, before the client is told, and after the
 * records of the transaction's statements, except a statement that the transaction
 * ends inside of, such as CALL.  The record's time is that of the transaction's WAL
 * record.  One that is rolled back to a savepoint, or by a function, has a record of what
 * that takes back, if it had written.
 *
 * It is on the path of every writing transaction, so it is encoded by hand.
 * No end reads catalogs or allocates memory, because that is not possible in an
 * abort.
 */
#include "base/steno.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "capture/hooks.h"
#include "capture/statement_record.h"
#include "delivery/room.h"
#include "delivery/wait.h"
#include "value/output.h"

/* The name that PREPARE TRANSACTION gives the transaction that it will end. */
static char prepared_gid[GIDSIZE];

/* Room for the pairs of a subtransaction, with their lengths; that of a transaction's gid takes less. */
#define EXTRA_ROOM Max(8 + 9 + 8 + 15 + 18 + 4 * 20, 2 + 3 + GIDSIZE)

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

/* How a transaction ended; it has no commit in the WAL, or none that is known. */
static inline StenoEnding
ending_by(uint8 event, uint64 statements)
{
	StenoEnding ending = {.event = event, .statements = statements};

	return ending;
}

/* Add where the commit is in the WAL, and which timeline that is. */
static inline void
add_commit(StenoEnding *ending)
{
	/* a server that has written WAL stays on its timeline */
	if (unlikely(steno_private.commit_timeline == 0))
		steno_private.commit_timeline = steno_private.timeline();
	ending->lsn = steno_private.commit_lsn;
	ending->lsn_end = steno_private.commit_end;
	ending->timeline = steno_private.commit_timeline;
}

/*
 * Put a session message if a fact has changed.  Catalogs cannot be read.  An abort
 * has already reset the role, and resets the session user later, so the transaction
 * is attributed to the role of the last statement.
 */
static inline void
describe_session(XactEvent event)
{
	if (unlikely(!steno_is_described() || steno_my.application != *steno_private.application_name ||
				 (event != XACT_EVENT_ABORT && steno_my.user_id != steno_private.get_user_id())))
		steno_session_failing(event == XACT_EVENT_ABORT ? steno_my.user_id : InvalidOid);
}

/*
 * Put the record of a transaction.  extra is the buffer for the record's pairs,
 * which has pairs up to end already.
 */
static inline void
put_transaction(StenoRecord *record, uint8 *extra, uint8 *end, const char *gid)
{
	record->audited = steno_audit_reason(STENO_CLASS_TRANSACTION, STENO_AUDITED_RULE);
	if (unlikely(gid != NULL))
	{
		end = PUT_CONSTANT(end, "gid");
		end = put_string(end, gid, strlen(gid));
		record->extra_count++;
	}
	else if (record->ending && likely(record->ending->event == STENO_EVENT_COMMIT) && record->extra_count == 0 &&
			 steno_put_commit(record))
		return;
	steno_record_set_class(record, STENO_CLASS_TRANSACTION);
	record->extra = extra;
	record->extra_len = end - extra;
	steno_record_put(record, false);
}

/* Number of the client's statements since the end of the last transaction. */
static inline uint64
statements(void)
{
	return steno_my.statement - steno_my.transaction_base;
}

/*
 * Transactions of autovacuum have a record only if user code has run a statement in
 * them.
 */
STENO_COLD static bool
is_of_autovacuum(void)
{
	return MyBackendType == B_AUTOVAC_WORKER && statements() == 0;
}

/*
 * Whether the transaction has written, but of its statements we have only seen those that control it: a
 * hook that is called before ours has hidden what wrote.  What the planner has run, or a login trigger,
 * or the session's end, is no statement.
 */
static inline bool
is_unseen(void)
{
	return unlikely(statements() <= steno_my.controls) && steno_is_client() && steno_my.planned == 0 &&
		!proc_exit_inprogress && (*steno_private.client_query != NULL || steno_my.statement > 0);
}

/* Bytes of the client's message that a record of such a transaction has. */
#define UNSEEN_TEXT 1000

/* Put its record, with the client's message, if the transaction is that of this message. */
STENO_COLD static void
put_unseen_transaction(StenoRecord *record, const char *gid)
{
	uint8		extra[EXTRA_ROOM + 2 * STENO_VARINT_MAX + 6 + UNSEEN_TEXT];
	uint8	   *p = PUT_CONSTANT(extra, "unseen");
	const char *text = *steno_private.client_query;
	uint64		len = 0;

	/* rules might hide it, if we knew what it does */
	if (text != NULL && steno_my.controls == 0 && steno_logs_text() && !(steno_my.policy & STENO_POLICY_RULES))
	{
		len = strlen(text);
		(void) steno_secret_hide_text(text, len, true, UNSEEN_TEXT, &text, &len);
		if (len > UNSEEN_TEXT)
			len = pg_mbcliplen(text, (int) Min(len, (uint64) PG_INT32_MAX), UNSEEN_TEXT);
	}
	p = put_string(p, text, len);
	record->extra_count = 1;
	put_transaction(record, extra, p, gid);
}

/* Record the end of the current transaction, which has a transaction ID. */
STENO_HOT static void
record_transaction(XactEvent event)
{
	StenoRecord record;
	uint8		extra[EXTRA_ROOM];
	StenoEnding ending = ending_by(STENO_EVENT_COMMIT, statements());
	const char *gid = NULL;
	TimestampTz start = steno_private.transaction_start();

	if (unlikely(!steno_is_client()) && is_of_autovacuum())
		return;
	if (!steno_session_ready())
		return;
	describe_session(event);
	steno_record_init(&record, STENO_KIND_TRANSACTION);
	if (likely(event == XACT_EVENT_COMMIT))
		add_commit(&ending);
	else if (event == XACT_EVENT_ABORT)
	{
		ending.event = STENO_EVENT_ABORT;
		record.outcome = STENO_OUTCOME_ERROR;
	}
	else
	{
		ending.event = STENO_EVENT_PREPARE;
		gid = prepared_gid;
	}
	record.ending = &ending;
	record.time = steno_private.transaction_stop();
	record.duration = Max(record.time - start, 0);
	record.xid = steno_current_xid();
	if (is_unseen())
		put_unseen_transaction(&record, gid);
	else
		put_transaction(&record, extra, extra, gid);
}

/* ---- what a subtransaction that is rolled back takes back ---- */

/* Where a subtransaction has begun. */
typedef struct Subtransaction
{
	SubTransactionId subid;		/* of the first one that has begun here */
	uint32		substatement;	/* number of the last nested statement before it */
	uint64		statement;		/* number of the last statement of the client */
	uint64		seq;			/* number of the last record; SEQ_UNKNOWN: nothing of this is known */
} Subtransaction;

#define SEQ_UNKNOWN PG_UINT64_MAX

/*
 * Where subtransactions that have not ended have begun, outer ones first.  Those that begin with no
 * statement and no record between share the place of the first, so that blocks with an exception
 * handler in which nothing is recorded take no memory.  The array is in TopMemoryContext, and keeps
 * its size.
 */
static Subtransaction *begun;
static int	begun_count;
static int	begun_room;

/*
 * The outermost subtransaction for which there was no memory, if there is one; nothing is known of
 * it and those inside it.
 */
static SubTransactionId unknown_from = InvalidSubTransactionId;

/* Make room for one more.  An error here would abort the client's subtransaction. */
static bool
grow_begun(void)
{
	int			room = Max(16, begun_room * 2);
	Subtransaction *more = MemoryContextAllocExtended(TopMemoryContext, room * sizeof(Subtransaction),
													  MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);

	if (more == NULL)
		return false;
	if (begun)
	{
		memcpy(more, begun, begun_count * sizeof(Subtransaction));
		pfree(begun);
	}
	begun = more;
	begun_room = room;
	return true;
}

/* A subtransaction begins. */
static void
remember_begin(SubTransactionId subid)
{
	const Subtransaction *last = begun_count > 0 ? &begun[begun_count - 1] : NULL;

	if (unknown_from != InvalidSubTransactionId)
		return;
	if (last && last->seq == steno_my.seq && last->statement == steno_my.statement &&
		last->substatement == steno_my.substatements)
		return;
	steno_my.subtransactions = true;
	if (begun_count == begun_room && unlikely(!grow_begun()))
	{
		unknown_from = subid;
		return;
	}
	begun[begun_count++] = (Subtransaction) {subid, steno_my.substatements, steno_my.statement, steno_my.seq};
}

/* A subtransaction ends: where it has begun.  Those inside it have ended before. */
static Subtransaction
forget_begin(SubTransactionId subid)
{
	Subtransaction last = {.seq = steno_my.seq};

	if (unlikely(unknown_from != InvalidSubTransactionId) && subid >= unknown_from)
	{
		if (subid == unknown_from)
			unknown_from = InvalidSubTransactionId;
		last.seq = SEQ_UNKNOWN;
		return last;
	}
	while (begun_count > 0 && begun[begun_count - 1].subid > subid)
		begun_count--;
	if (begun_count > 0)
	{
		last = begun[begun_count - 1];
		if (last.subid == subid)
			begun_count--;
	}
	return last;
}

/* The transaction has ended, in which there were some. */
STENO_COLD static void
forget_subtransactions(void)
{
	steno_my.subtransactions = false;
	begun_count = 0;
	unknown_from = InvalidSubTransactionId;
}

/* The client's statement that rolls the whole transaction back; 0: none. */
static uint64 rolling_back;

/*
 * A subtransaction has been rolled back in which records were put: if it had an ID, because it has
 * written, record which statements it takes back.  Nothing is known of it afterwards.  The end of
 * the whole transaction says it of all of them.
 */
STENO_COLD static void
record_rolled_back(const Subtransaction *first)
{
	StenoRecord record;
	uint8		extra[EXTRA_ROOM];
	uint8	   *p = extra;

	if (!TransactionIdIsValid(GetCurrentTransactionIdIfAny()) || rolling_back == steno_my.statement ||
		!steno_class_logged(STENO_CLASS_TRANSACTION) || !steno_session_ready())
		return;
	describe_session(XACT_EVENT_ABORT);
	steno_record_init(&record, STENO_KIND_SUBTRANSACTION);
	p = PUT_CONSTANT(p, "last_seq");
	p = put_decimal(p, steno_my.seq);
	record.extra_count = 1;
	if (likely(first->seq != SEQ_UNKNOWN))
	{
		p = PUT_CONSTANT(p, "first_seq");
		p = put_decimal(p, first->seq + 1);
		p = PUT_CONSTANT(p, "after_statement");
		p = put_decimal(p, first->statement);
		p = PUT_CONSTANT(p, "after_substatement");
		p = put_decimal(p, first->substatement);
		record.extra_count = 4;
	}
	record.outcome = STENO_OUTCOME_ERROR;
	record.time = GetCurrentTimestamp();
	record.xid = steno_current_xid();
	put_transaction(&record, extra, p, NULL);
}

STENO_COLD static void
subtransaction_end(SubXactEvent event, SubTransactionId mine,
				   SubTransactionId parent, void *arg)
{
	Subtransaction last;
	bool		before;
	int			i;

	steno_assert_phases();

	/*
	 * Subtransactions in which we call output functions, and those inside them,
	 * belong to no statement.
	 */
	if (steno_is_paused())
		return;
	switch (event)
	{
		case SUBXACT_EVENT_START_SUB:
			steno_role_learn();
			if (steno_my.open_count > 0)
			{
				steno_output_starting(mine);
				steno_open_park_all();
				steno_output_starting(InvalidSubTransactionId);
			}
			steno_my.subid = mine;
			remember_begin(mine);
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			before = steno_allow_barriers(true);
			steno_statement_rolled_back(mine, parent);
			last = forget_begin(mine);
			if (last.seq != steno_my.seq)
				record_rolled_back(&last);
			(void) steno_allow_barriers(before);
			steno_my.start_mask &= ~(STENO_START_CANCELLED | STENO_START_HURRY);
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			steno_my.subid = parent;
			(void) forget_begin(mine);
			for (i = 0; i < steno_my.open_count; i++)
				if (steno_my.open[i].subid == mine)
					steno_my.open[i].subid = parent;
			break;
		default:
			break;
	}
}

/*
 * The last time that names can be looked up in this transaction.  Put the session message of a process that has
 * no statements, such as one that applies changes of another server.
 */
STENO_COLD static void
describe_process(void)
{
	static bool hooks_checked STENO_SESSION_DATA;

	steno_session_learn();
	/* at the end of the transaction in which the session begins: the next statement may fail, and not be seen */
	if (steno_log_level_is_due())
		steno_settings_record();
	steno_watch_background();
	/* in the first transaction after the libraries of the session have been loaded */
	if (!hooks_checked && IsNormalProcessingMode() && steno_active() && IsUnderPostmaster)
	{
		hooks_checked = true;
		if (steno_is_client())
			steno_outermost_check();
	}
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()) && !is_of_autovacuum() && steno_session_ready() &&
		steno_class_logged(STENO_CLASS_TRANSACTION))
		steno_session_check(InvalidOid);
	if (steno_is_described() && OidIsValid(steno_my.user_id) && hooks_checked)
		steno_session_introduced();
}

/* BEGIN, COMMIT, PREPARE TRANSACTION ... begins. */
STENO_HOT void
steno_transaction_statement(const TransactionStmt *statement)
{
	steno_my.controls++;
	if (statement->kind == TRANS_STMT_ROLLBACK)
		rolling_back = steno_my.statement;
	if (statement->kind == TRANS_STMT_PREPARE)
		strlcpy(prepared_gid, statement->gid, sizeof(prepared_gid));
	if (!IsAbortedTransactionBlockState())
		steno_transaction_goes_on();
	else if (steno_my.transaction == STENO_TRANSACTION_ABORTED)
	{
		/* this ends the block of a transaction that has its record, so count from here */
		steno_my.transaction_base = steno_my.statement;
		steno_my.controls = 0;
	}
}

/* ---- prepared transactions ---- */

/* The transaction that COMMIT PREPARED or ROLLBACK PREPARED is about to end; 0: not known. */
static TransactionId ending_prepared;

/* The name of the transaction to look up. */
static const char *ending_gid;

/*
 * Look up the transaction with this name.  The server shows it in pg_prepared_xacts alone, whose
 * function returns one row per call.
 */
static void
find_prepared_transaction(void)
{
	LOCAL_FCINFO(call, 0);
	FmgrInfo	function;
	ReturnSetInfo rows = {.type = T_ReturnSetInfo, .allowedModes = SFRM_ValuePerCall, .returnMode = SFRM_ValuePerCall};

	rows.econtext = CreateStandaloneExprContext();
	fmgr_info(F_PG_PREPARED_XACT, &function);
	InitFunctionCallInfoData(*call, &function, 0, InvalidOid, NULL, (Node *) &rows);
	for (;;)
	{
		Datum		row;
		bool		isnull;

		call->isnull = false;
		rows.isDone = ExprSingleResult;
		row = FunctionCallInvoke(call);
		if (rows.isDone != ExprMultipleResult)
			break;
		if (!TransactionIdIsValid(ending_prepared) &&
			strcmp(text_to_cstring(DatumGetTextPP(GetAttributeByNum(DatumGetHeapTupleHeader(row), 2, &isnull))),
				   ending_gid) == 0)
			ending_prepared = DatumGetTransactionId(GetAttributeByNum(DatumGetHeapTupleHeader(row), 1, &isnull));
	}
	FreeExprContext(rows.econtext, true);
}

/* COMMIT PREPARED or ROLLBACK PREPARED begins: afterwards, nothing knows which transaction it has ended. */
STENO_COLD void
steno_transaction_ends_prepared(const TransactionStmt *statement)
{
	ending_prepared = InvalidTransactionId;
	if (!steno_class_logged(STENO_CLASS_TRANSACTION) || !IsTransactionState())
		return;
	ending_gid = statement->gid;
	/* without memory, the record has no ID; the function allocates with this lock, and takes no other */
	if (!steno_call_guarded(find_prepared_transaction) && LWLockHeldByMe(TwoPhaseStateLock))
		LWLockRelease(TwoPhaseStateLock);
}

/* It has succeeded, and nothing else has written WAL yet. */
STENO_COLD void
steno_transaction_ended_prepared(void)
{
	steno_private.commit_lsn = ProcLastRecPtr;
	steno_private.commit_end = XactLastRecEnd;
}

/* The 64-bit ID of a transaction that is not older than all that are still known. */
static uint64
with_epoch(TransactionId xid)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	uint64		full = (next & ~(uint64) PG_UINT32_MAX) | xid;

	return full >= next ? full - ((uint64) 1 << 32) : full;
}

/*
 * COMMIT PREPARED or ROLLBACK PREPARED has succeeded and has its record: record the
 * end of the prepared transaction.
 */
STENO_COLD void
steno_transaction_statement_done(const TransactionStmt *statement)
{
	StenoRecord record;
	uint8		extra[EXTRA_ROOM];
	bool		commit = statement->kind == TRANS_STMT_COMMIT_PREPARED;
	StenoEnding ending = ending_by(commit ? STENO_EVENT_COMMIT_PREPARED : STENO_EVENT_ROLLBACK_PREPARED, STENO_NONE64);

	if (!steno_class_logged(STENO_CLASS_TRANSACTION) || !steno_session_ready())
		return;
	describe_session(XACT_EVENT_COMMIT);
	steno_record_init(&record, STENO_KIND_TRANSACTION);
	if (commit)
		add_commit(&ending);
	record.ending = &ending;
	/* should another one of the same name have been prepared meanwhile, its ID is not known */
	if (TransactionIdIsValid(ending_prepared) &&
		(commit ? TransactionIdDidCommit(ending_prepared) : TransactionIdDidAbort(ending_prepared)))
		record.xid = with_epoch(ending_prepared);
	record.outcome = commit ? STENO_OUTCOME_OK : STENO_OUTCOME_ERROR;
	record.time = GetCurrentTimestamp();
	put_transaction(&record, extra, extra, statement->gid);
	steno_start_mask_prepared();
}

/* ---- waits at the end of a transaction ---- */

/*
 * Whether a statement is running whose record waits for the disk, such as CALL: it also
 * waits at the end of its next transaction.
 */
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

/*
 * A transaction is about to commit that has to wait at its end.  If the records of all
 * statements that it waits for are in the ring already, their sync is requested now, so
 * that it takes place while the server flushes its WAL.  The records of COMMIT and of
 * the transaction follow when it has committed; they are only waited for if class
 * transaction is in steno.sync.
 *
 * From here on, STENO_START_SYNC is set again only by a statement that still begins,
 * such as one of another library's callback.
 */
static void
request_sync(void)
{
	if (!(steno_my.start_mask & STENO_START_SYNC) || steno_my.open_count > 0 || any_running() ||
		steno_transactions_are_synced())
		return;
	steno_wait_request();
	steno_my.start_mask ^= STENO_START_SYNC | STENO_START_ASKED;
}

/* Wait at the end of a transaction that has its records. */
STENO_COLD static void
wait_at_end(XactEvent event)
{
	uint32		mask = steno_my.start_mask;
	bool		sync = (mask & STENO_START_SYNC) != 0;

	steno_my.start_mask &= ~(STENO_START_SYNCED | STENO_START_CANCELLED | STENO_START_HURRY);
	if (steno_my.state == STENO_READY && event != XACT_EVENT_ABORT)
	{
		if (steno_transactions_are_synced() && TransactionIdIsValid(GetTopTransactionIdIfAny()))
			sync = true;
		if ((mask & STENO_START_CANCELLED) &&
			steno_wait_is_ended("room for audit records",
								"The transaction has already committed locally, but its last audit records may have been cut, or dropped."))
			 /* nobody waits any more */ ;
		else if (sync)
			steno_wait_after_commit();
		else if (mask & STENO_START_ASKED)
			steno_wait_for_request();
	}
	else if ((mask & STENO_START_CANCELLED) && !ProcDiePending)
		(void) steno_wait_is_ended("room for audit records",
							   "The transaction was rolled back, and its last audit records were dropped.");
	if (any_running())
		steno_my.start_mask |= STENO_START_SYNC;
}

/* ---- a transaction has ended ---- */

/* At the end of any transaction: start counting statements again. */
static inline void
reset_statement_count(XactEvent event)
{
	if (unlikely(steno_my.subtransactions))
		forget_subtransactions();
	steno_transaction_ends(event == XACT_EVENT_ABORT);
	/* a running statement continues in the next transaction */
	steno_my.transaction_base = steno_my.statement - (steno_my.level != NULL);
	steno_my.controls = 0;
}

/*
 * If the client's running statement is COMMIT, PREPARE TRANSACTION or ROLLBACK, it
 * has ended with the transaction.
 */
static void
end_statement(void)
{
	if (steno_my.level == &steno_top_level && steno_top_level.ending)
		steno_utility_ended(&steno_top_level);
}

/* A transaction has ended with a statement still running, queries open or objects pending. */
static pg_noinline void
transaction_closed(void)
{
	steno_open_finish_committed();
	if (steno_my.level != NULL)
		(void) steno_record_guarded(end_statement);
	if (unlikely(steno_objects_are_pending()))
		steno_objects_forget_pending();
	if (steno_my.level == NULL && unlikely(steno_my.open_count > 0))
	{
		steno_open_close(InvalidSubTransactionId);
		steno_objects_release_all();
	}
}

static inline void
record_end_of_transaction(XactEvent event)
{
	if (steno_class_logged(STENO_CLASS_TRANSACTION) &&
		steno_current_xid() != 0)
	{
		steno_ring_prefetch(&steno_my.producer, 3);
		record_transaction(event);
	}
}

/* A transaction has ended: record it, and then wait if required. */
STENO_HOT static inline void
finish_transaction(XactEvent event)
{
	record_end_of_transaction(event);
	if (unlikely(steno_my.start_mask & STENO_START_AT_END))
		wait_at_end(event);
	reset_statement_count(event);
}

static XactEvent finished_event;

static void
record_late_event(void)
{
	record_end_of_transaction(finished_event);
}

static void
wait_at_late_end(void)
{
	wait_at_end(finished_event);
}

/*
 * The same after the transaction has released its locks.  An error would be a
 * PANIC, so each step is guarded separately.
 */
STENO_COLD static void
finish_transaction_late(XactEvent event)
{
	if (event == XACT_EVENT_ABORT)
		(void) steno_record_guarded(end_statement);
	else if (steno_my.level != NULL || steno_my.open_count > 0 || steno_objects_are_pending())
		transaction_closed();
	finished_event = event;
	(void) steno_record_guarded(record_late_event);
	/* also if there was no memory for that record: others may not be on disk */
	if (steno_my.start_mask & STENO_START_AT_END)
		(void) steno_call_guarded(wait_at_late_end);
	reset_statement_count(event);
}

/*
 * ---- after the locks are released ----
 *
 * The server has no hook between a transaction's cleanup and the answer to its
 * client, but resource release callbacks are called, the last time after the locks
 * are released.  Sessions that never have to wait at the end of a transaction do
 * not register the callback, and do not pay for it.
 */

static XactEvent late_event;	/* how the transaction has ended that is recorded when its locks are released */
static bool registered;			/* whether the callback is registered */

STENO_HOT static void
resources_released(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	bool		before;

	steno_assert_phases();
	if (likely(steno_my.transaction != STENO_TRANSACTION_LATE) || phase != RESOURCE_RELEASE_AFTER_LOCKS ||
		!is_top_level)
		return;
	steno_transaction_is_released();
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

/* Whether the records of an ended transaction can be made when its locks are released. */
STENO_COLD static bool
can_finish_late(void)
{
	return steno_my.state == STENO_READY && (registered || steno_call_guarded(register_release_callback));
}

/*
 * A transaction has aborted: whether its remaining records may have to wait for
 * space, so that they are made when the locks are released.  If there is no memory
 * to register the callback, they wait now.
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
 * Whether COMMIT is the statement that runs, nothing else is open, and its record is
 * staged with all that it will say but its numbers.  To publish it takes no room and no
 * memory, and raises no error.
 */
static inline bool
commit_is_staged(void)
{
	const StenoLevel *l = &steno_top_level;

	return steno_my.level == l &&
		likely(l->ending && steno_is_staged(&steno_my.top_utility) && l->relations_count == 0 &&
			   steno_my.top_utility.audited == 0 && steno_my.open_count == 0);
}

/* Whether the end of a transaction has no statement to record but one whose record is in the ring already. */
static inline bool
end_is_staged(void)
{
	if (steno_my.level != NULL)
		return commit_is_staged();
	return steno_my.open_count == 0 ||
		(steno_my.open_count == 1 && steno_commits(steno_my.open) && steno_my.staged != NULL);
}

/*
 * A transaction is about to commit, and may have to wait after it has released its
 * locks.  Allocations for that are made now, while the transaction can still fail.
 */
STENO_COLD static void
prepare_to_finish_late(void)
{
	if (steno_my.state != STENO_READY)
		return;
	steno_room_refresh_tail();
	if (!(steno_my.start_mask & STENO_START_AT_END) && end_is_staged() && steno_room_at_end())
		return;
	register_release_callback();
	request_sync();
	steno_transaction_commits_late();
}

/* The transaction has committed or aborted: finish it when its locks are released. */
STENO_COLD static void
finish_at_release(XactEvent event)
{
	steno_transaction_is_late();
	late_event = event;
}

/* ---- the callback ---- */

/*
 * The transaction has aborted.  This raises no error, and processes that wait for
 * barriers need not wait for this one.  Statements that it has ended are recorded
 * here, where the names of their relations are still known; other records that may
 * have to wait for space are made later.
 */
STENO_COLD static void
transaction_aborted(XactEvent event)
{
	(void) steno_allow_barriers(true);
	steno_transaction_aborts();
	steno_watch_background();
	steno_statement_aborted();
	/* not in a parallel worker, whose transaction is that of its leader */
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
	steno_assert_phases();
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			steno_assert_may_run();
			Assert(steno_my.transaction != STENO_TRANSACTION_COMMITS_LATE);
			steno_check_level();
			if (unlikely(steno_my.session != STENO_SESSION_INTRODUCED))
				describe_process();
			/* this is the last time that objects created by deferred triggers can be named */
			if (steno_my.level == &steno_top_level && steno_top_level.ending &&
				unlikely(steno_my.top_utility.objects != NULL))
				steno_objects_finish(&steno_my.top_utility, NULL);
			if (steno_my.level == NULL && steno_my.open_count > 0)
				steno_commit_begins();
			if (unlikely((steno_my.start_mask & STENO_START_AT_END) ||
						 !end_is_staged() || !steno_room_at_end()))
				prepare_to_finish_late();
			return;
		case XACT_EVENT_COMMIT:
			/* one that writes nothing touches no other pages of the server's and ours */
			if (steno_current_xid() != 0)
			{
				/* others have run while the WAL was flushed */
				steno_prefetch_state();
				steno_private.commit_lsn = *steno_private.last_record;
				steno_private.commit_end = *steno_private.last_commit_end;
				if (steno_my.level == NULL && steno_my.open_count > 0)
					steno_open_committed();
			}
			__attribute__((fallthrough));
		case XACT_EVENT_PREPARE:
			steno_my.subid = TopSubTransactionId;
			steno_end_block();
			if (unlikely(steno_my.transaction == STENO_TRANSACTION_COMMITS_LATE))
			{
				finish_at_release(event);
				return;
			}
			if (commit_is_staged())
				steno_utility_ended(&steno_top_level);
			else if (unlikely(!end_is_staged()) && can_finish_late())
			{
				/* a callback of another library may have caused records since */
				finish_at_release(event);
				return;
			}
			if (unlikely(steno_my.level != NULL || steno_my.open_count > 0 || steno_objects_are_pending()))
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
	steno_private.last_record = &ProcLastRecPtr;
	steno_private.last_commit_end = &XactLastCommitEnd;
	steno_private.timeline = GetWALInsertionTimeLine;
	steno_private.transaction_start = GetCurrentTransactionStartTimestamp;
	steno_private.transaction_stop = GetCurrentTransactionStopTimestamp;
	RegisterXactCallback(transaction_end, NULL);
	RegisterSubXactCallback(subtransaction_end, NULL);
}
