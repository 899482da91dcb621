/*
 * extension/delivery/refusal.c
 *		What sessions do while the trail cannot be written, as steno.on_failure says.
 *
 * Their writer decides (writer/health.c) and sets its part of the control area
 * (StenoHealth), which sessions read:
 *
 *		wait		nothing else than with a writer that is slow
 *		error		a client's new statement is refused (steno_refuse_statement)
 *		continue	a record that finds no room is dropped, and counted
 *		shutdown	the server stops; a session that ends does not wait for room
 *
 * STENO_NEWS_FAILING in steno_my.news only says that a session must look there: it may be
 * set when there is nothing to refuse, and is then taken back.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/fmgrprotos.h"

#include "delivery/refusal.h"

/* Class 58: errors external to PostgreSQL. */
#define ERRCODE_NOT_RECORDED MAKE_SQLSTATE('5', '8', 'S', '0', '1')

/* A StenoProblem, as the views and steno.alert_command show it. */
const char *const steno_problem_texts[STENO_PROBLEMS] = {
	[STENO_PROBLEM_ENCRYPTION] = "could not get the encryption key of the trail from \"steno.encryption_key_command\"",
	[STENO_PROBLEM_SIGNING] = "could not use the signing key in \"steno.signing_key_file\"",
	[STENO_PROBLEM_SEAL] = "could not seal the trail",
	[STENO_PROBLEM_RETENTION] = "could not delete old segments of the trail",
};

/* The part of the control area that this session's writer sets. */
static StenoHealth *
my_health(void)
{
	return &steno_my.writer->health;
}

static bool
is_failing_by(const StenoHealth *t, StenoOnFailure policy)
{
	return atomic_load(&((StenoHealth *) t)->failing) == policy + 1;
}

/* What is the matter; to: STENO_FAILURE_TEXT bytes. */
void
steno_health_text(StenoHealth *t, char *to)
{
	SpinLockAcquire(&t->mutex);
	memcpy(to, t->text, STENO_FAILURE_TEXT);
	SpinLockRelease(&t->mutex);
}

/*
 * Whether a record that finds no room is dropped, whatever steno.delivery says.  What
 * steno.sync has promised is kept: its statements wait.
 */
STENO_COLD bool
steno_refusal_drops(void)
{
	const StenoHealth *t = my_health();

	if (is_failing_by(t, STENO_ON_FAILURE_CONTINUE))
		return (steno_my.start_mask & STENO_START_SYNCED) == 0;
	/* the server is to stop, and nobody will make room */
	return is_failing_by(t, STENO_ON_FAILURE_SHUTDOWN) && (ProcDiePending || proc_exit_inprogress);
}

/* Why this session drops records now, and has dropped others before. */
STENO_COLD uint32
steno_refusal_gap_reason(bool first)
{
	static uint32 reason;

	if (first)
		reason = STENO_GAP_FULL;
	if (atomic_load(&my_health()->failing) != 0)
		reason = STENO_GAP_TRAIL;
	return reason;
}

/*
 * Whether the record of a refusal must be omitted and counted instead: refusals
 * must not fill the ring, because the ends of transactions need its space.
 */
STENO_COLD bool
steno_refusal_omits_record(const StenoRecord *record)
{
	return record->sqlerrcode == ERRCODE_NOT_RECORDED &&
		steno_ring_used(&steno_my.producer) > steno_my.producer.limit / 2;
}

/* This session has a ring now: what its writer has told others before. */
void
steno_refusal_attached(void)
{
	if (is_failing_by(my_health(), STENO_ON_FAILURE_ERROR))
		atomic_fetch_or(&steno_my.news, STENO_NEWS_FAILING);
}

/* The ends of transactions, without which nothing that runs could end. */
static bool
ends_transaction(const Node *utility)
{
	if (!IsA(utility, TransactionStmt))
		return false;
	switch (((const TransactionStmt *) utility)->kind)
	{
		case TRANS_STMT_COMMIT:
		case TRANS_STMT_ROLLBACK:
		case TRANS_STMT_ROLLBACK_TO:
		case TRANS_STMT_RELEASE:
		case TRANS_STMT_PREPARE:
		case TRANS_STMT_COMMIT_PREPARED:
		case TRANS_STMT_ROLLBACK_PREPARED:
			return true;
		default:
			return false;
	}
}

/* Whether what begins is a client's statement: no function's, no trigger's at a commit. */
static bool
begins_for_client(void)
{
	return steno_my.client && steno_my.level == NULL && !steno_my.paused &&
		DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0)) == 0;
}

/* Somebody must be able to mend it. */
static bool
user_may_go_on(void)
{
	return superuser() || superuser_arg(GetSessionUserId());
}

static void
refuse_unrecorded(StenoHealth *t)
{
	char		text[STENO_FAILURE_TEXT];

	atomic_fetch_add(&t->refused, 1);
	steno_health_text(t, text);
	ereport(ERROR,
			(errcode(ERRCODE_NOT_RECORDED),
			 errmsg("statement refused: the audit trail cannot be written"),
			 errdetail("%s.", text),
			 errhint("Statements are accepted again as soon as the trail can be written. Until then, only superusers may run them, and all may end their transactions.")));
}

/*
 * A statement begins, and may have to be refused.  utility: what it is, unless it
 * is a query.
 */
STENO_COLD void
steno_refuse_statement(const Node *utility)
{
	StenoHealth *t = my_health();

	if (!is_failing_by(t, STENO_ON_FAILURE_ERROR))
	{
		atomic_fetch_and(&steno_my.news, ~STENO_NEWS_FAILING);
		steno_refusal_attached();	/* should it have failed again just now */
		return;
	}
	if (!begins_for_client() || (utility && ends_transaction(utility)) || !IsTransactionState() ||
		user_may_go_on())
		return;
	refuse_unrecorded(t);
}

/*
 * A statement waits for its start record to be on disk, which may take long: it has
 * not begun, so it is refused like a new one.
 */
STENO_COLD void
steno_refuse_waiting_statement(void)
{
	StenoHealth *t = my_health();

	if (is_failing_by(t, STENO_ON_FAILURE_ERROR) && steno_my.client && IsTransactionState() &&
		!user_may_go_on())
		refuse_unrecorded(t);
}
