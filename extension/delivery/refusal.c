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
 * A writer that does nothing at all, because it was stopped or its disk does not answer, can
 * decide nothing.  Sessions that wait for it notice that its beats stand still, say so, and
 * set its part of the control area in its place after steno.stall_timeout.
 *
 * STENO_NEWS_FAILING in steno_my.news only says that a session must look there: it may be
 * set when there is nothing to refuse, and is then taken back.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "delivery/refusal.h"

/* Class 58: errors external to PostgreSQL. */
#define ERRCODE_NOT_RECORDED MAKE_SQLSTATE('5', '8', 'S', '0', '1')

/* A StenoProblem, as the views and steno.alert_command show it. */
const char *const steno_problem_texts[STENO_PROBLEMS] = {
	[STENO_PROBLEM_ENCRYPTION] = "could not get the encryption key of the trail from \"steno.encryption_key_command\"",
	[STENO_PROBLEM_SIGNING] = "could not use the signing key in \"steno.signing_key_file\"",
	[STENO_PROBLEM_SEAL] = "could not seal the trail",
	[STENO_PROBLEM_RETENTION] = "could not delete old segments of the trail",
	[STENO_PROBLEM_SLOT] = "a slot of the trail is lost",
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

/* Tell all sessions of a writer whether statements may have to be refused. */
void
steno_refusal_set_hints(uint32 writer, bool refuse)
{
	uint32		i;

	for (i = writer; i < steno_rings.nrings; i += steno_rings.nwriters)
	{
		StenoLocal *local = (StenoLocal *) steno_ring_at(&steno_rings, i)->own;

		if (refuse)
			atomic_fetch_or(&local->news, STENO_NEWS_FAILING);
		else
			atomic_fetch_and(&local->news, ~STENO_NEWS_FAILING);
	}
}

/* ---- writers that do nothing ---- */

/* Time between two messages of the sessions of a writer that wait, in seconds. */
#define LOG_SECONDS 60

static uint32
number_of(const StenoWriterControl *writer)
{
	return (uint32) (writer - steno_control->writers);
}

uint64
steno_dropped_by_sessions(uint32 writer)
{
	uint64		sum = 0;
	uint32		i;

	for (i = writer; i < steno_rings.nrings; i += steno_rings.nwriters)
		sum += atomic_load_explicit(&steno_ring_at(&steno_rings, i)->drops, memory_order_relaxed);
	return sum;
}

/* Whether a writer that runs has done nothing for a while, or somebody has found that. */
bool
steno_is_stalled(const StenoWriterControl *writer, TimestampTz now)
{
	StenoWriterControl *w = (StenoWriterControl *) writer;
	int64		last = atomic_load(&w->beat_time);

	if (!steno_writer_runs(w))
		return false;
	return atomic_load(&w->health.stalled_since) != 0 ||
		(last != 0 && now - last > STENO_STALL_SECONDS * USECS_PER_SEC + steno_flush_interval * INT64CONST(1000));
}

/* A writer has done nothing since: say so once, until it does something again. */
void
steno_stall_report(StenoWriterControl *writer, TimestampTz since)
{
	StenoHealth *t = &writer->health;
	int64		none = 0;
	char		message[96];

	if (!steno_writer_runs(writer) || !atomic_compare_exchange_strong(&t->stalled_since, &none, since))
		return;
	atomic_store(&t->stall_dropped, steno_dropped_by_sessions(number_of(writer)));
	atomic_store(&t->stall_refused, atomic_load(&t->refused));
	snprintf(message, sizeof(message), "writer %u has done nothing for %d seconds", number_of(writer),
			 (int) Max((GetCurrentTimestamp() - since) / USECS_PER_SEC, 0));
	ereport(LOG_SERVER_ONLY,
			(errmsg("steno %s", message),
			 errdetail("It is process %u. It has been stopped, or the disk of trail directory \"%s\" does not answer.",
					   atomic_load(&writer->pid), steno_directory),
			 errhint("Its sessions go on until their rings are full, and then wait or drop records, as \"steno.delivery\" says; after \"steno.stall_timeout\", \"steno.on_failure\" applies if it is \"continue\" or \"error\".")));
	if (steno_alert_hook)
		steno_alert_hook("stalled", number_of(writer), message);
}

/* Apply steno.on_failure in the place of the writer, which takes it back when it does something. */
static void
apply_on_failure(StenoWriterControl *writer)
{
	StenoHealth *t = &writer->health;
	uint32		none = 0;
	char		text[STENO_FAILURE_TEXT] = {0};

	if (steno_on_failure != STENO_ON_FAILURE_CONTINUE && steno_on_failure != STENO_ON_FAILURE_ERROR)
		return;
	if (!atomic_compare_exchange_strong(&t->failing, &none, (uint32) steno_on_failure + 1))
		return;
	snprintf(text, sizeof(text), "writer %u has done nothing for longer than \"steno.stall_timeout\"", number_of(writer));
	SpinLockAcquire(&t->mutex);
	memcpy(t->text, text, sizeof(text));
	SpinLockRelease(&t->mutex);
	atomic_store(&t->since, GetCurrentTimestamp());
	if (steno_on_failure == STENO_ON_FAILURE_ERROR)
		steno_refusal_set_hints(number_of(writer), true);
	ereport(LOG_SERVER_ONLY,
			(errmsg("steno %s", text),
			 steno_on_failure == STENO_ON_FAILURE_ERROR ?
			 errdetail("New statements of its sessions are refused, as \"steno.on_failure\" says.") :
			 errdetail("Records of its sessions that find no room are dropped, as \"steno.on_failure\" says.")));
}

static void
log_wait(StenoWriterControl *writer, const char *awaited, int seconds, int silent)
{
	char		text[STENO_FAILURE_TEXT];

	steno_health_text(&writer->health, text);
	ereport(LOG_SERVER_ONLY,
			(errmsg("process %d has been waiting for %s for %d seconds", MyProcPid, awaited, seconds),
			 !steno_writer_runs(writer) ?
			 errdetail("steno writer %u is not running.", number_of(writer)) :
			 silent >= STENO_STALL_SECONDS ?
			 errdetail("steno writer %u has done nothing for %d seconds.", number_of(writer), silent) :
			 text[0] != '\0' ?
			 errdetail("steno writer %u cannot write the trail: %s.", number_of(writer), text) :
			 errdetail("steno writer %u is at work.", number_of(writer)),
			 errhint("Other sessions of this writer may wait, too: see \"steno.rings\", and wait events StenoRingFull and StenoSync.")));
}

/*
 * A process waits for its writer, again and again: say so after some seconds, and then once
 * a minute for all sessions of the writer; and notice a writer that does nothing, because it
 * cannot say so itself.  Raises no error.
 */
STENO_COLD void
steno_patience_check(StenoPatience *p, StenoWriterControl *writer, const char *awaited)
{
	uint64		now = steno_clock_ticks(&steno_my.clock);
	uint64		beats = atomic_load_explicit(&writer->beats, memory_order_relaxed);
	int			seconds;
	int			silent;
	TimestampTz time;
	int64		logged;

	if (p->start == 0)
		p->start = now;
	if (p->beat == 0 || beats != p->beats)
	{
		p->beats = beats;
		p->beat = now;
	}
	seconds = (int) (steno_clock_us(&steno_my.clock, p->start, now) / USECS_PER_SEC);
	if (likely(seconds < STENO_STALL_SECONDS))
		return;
	silent = (int) (steno_clock_us(&steno_my.clock, p->beat, now) / USECS_PER_SEC);
	time = GetCurrentTimestamp();
	if (silent >= STENO_STALL_SECONDS)
		steno_stall_report(writer, time - silent * USECS_PER_SEC);
	logged = atomic_load(&writer->health.wait_logged);
	if ((logged == 0 || time < logged || time - logged >= LOG_SECONDS * USECS_PER_SEC) &&
		atomic_compare_exchange_strong(&writer->health.wait_logged, &logged, time))
	{
		p->logged = true;
		log_wait(writer, awaited, seconds, silent);
	}
	if (steno_stall_timeout > 0 && silent >= Max(steno_stall_timeout, STENO_STALL_SECONDS))
		apply_on_failure(writer);
}

/* The wait is over: others that go on waiting, or wait next, need not keep silent for a minute. */
void
steno_patience_end(const StenoPatience *p, StenoWriterControl *writer)
{
	if (unlikely(p->logged))
		atomic_store(&writer->health.wait_logged, 0);
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
	return steno_is_client() && steno_my.level == NULL && !steno_is_paused() &&
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
 * The server stops, and the writers have ended.  Of all sessions, only WAL senders still run, until the shutdown
 * checkpoint; the server ends those that run statements when that begins.
 */
static void
refuse_after_stop(void)
{
	ereport(FATAL,
			(errcode(ERRCODE_ADMIN_SHUTDOWN),
			 errmsg("terminating connection because the server stops"),
			 errdetail("The audit trail has ended, so no statement can be recorded.")));
}

/*
 * A statement begins, and may have to be refused.  utility: what it is, unless it
 * is a query.
 */
STENO_COLD void
steno_refuse_statement(const Node *utility)
{
	StenoHealth *t = my_health();

	if (atomic_load(&steno_my.writer->ended) && !proc_exit_inprogress)
		refuse_after_stop();
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

	if (is_failing_by(t, STENO_ON_FAILURE_ERROR) && steno_is_client() && IsTransactionState() &&
		!user_may_go_on())
		refuse_unrecorded(t);
}
