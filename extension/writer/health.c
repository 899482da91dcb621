/*
 * extension/writer/health.c
 *		Whether a writer can write the trail: its failures, its problems, the free
 *		space on the disk, and what sessions and monitoring see of them.
 *
 * A writer whose write or sync fails, or whose segment is no longer in its place,
 * is failing until it succeeds again.  It logs that once, shows it in the control
 * area, runs steno.alert_command, and tries again every second.  The time until it
 * can write again is an outage, which is recorded as two events of the server,
 * "failure" and "recovered".
 *
 * Meanwhile, sessions of its rings act as steno.on_failure requires
 * (delivery/refusal.c).  The writer publishes the action by its own value of the
 * setting, so that waiting sessions notice a change.  If statements are to be
 * refused, it also sets a bit that each session tests anyway (steno_my.news); that
 * bit is only a hint, and the control area decides.
 *
 * A new segment that cannot be begun is not a failure in this sense: records are
 * still written to the current one.
 */
#include "writer/writer.h"

#include <signal.h>
#include <sys/statvfs.h>

#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "delivery/refusal.h"

/* The disk warning ends when usage is this many percentage points below the limit. */
#define WARNING_MARGIN 2

/* Another writer is reported if it has not been running for this long, in microseconds. */
#define ABSENCE (5 * USECS_PER_SEC)

/* ---- what sessions see ---- */

static bool
is_failing(const StenoWriter *w)
{
	return w->failing[STENO_WRITE] || w->failing[STENO_SYNC];
}

/* Request a fast shutdown by the same signal as pg_ctl.  Only one of the writers does so, once. */
static void
request_shutdown(const StenoWriter *w)
{
	if (ShutdownRequestPending || atomic_exchange(&steno_control->shutdown_asked, 1) != 0)
		return;
	ereport(WARNING,
			(errmsg("steno writer %d requests a fast shutdown of the server", w->number),
			 errdetail("The trail cannot be written, and \"steno.on_failure\" is \"shutdown\"."),
			 errhint("Records that are not in the trail yet are in the ring file. The next start writes them.")));
	if (kill(PostmasterPid, SIGINT) != 0)
		ereport(WARNING,
				(errmsg("could not send signal to the postmaster: %m")));
}

/* Publish what sessions must do; also called after the setting has changed. */
static void
publish_failing(StenoWriter *w)
{
	StenoHealth *t = &w->control->health;
	int			policy = steno_on_failure;
	uint32		failing;

	/* if only the sync fails, blocks are still written, so rings are drained and waits end */
	if (policy == STENO_ON_FAILURE_CONTINUE && !w->failing[STENO_WRITE])
		policy = STENO_ON_FAILURE_WAIT;
	failing = is_failing(w) ? (uint32) policy + 1 : 0;
	if (atomic_exchange(&t->failing, failing) == failing)
		return;
	steno_refusal_set_hints(w->number, failing == STENO_ON_FAILURE_ERROR + 1);
	if (failing == STENO_ON_FAILURE_SHUTDOWN + 1)
		request_shutdown(w);
}

static void
set_failure_text(StenoWriter *w, const char *text)
{
	StenoHealth *t = &w->control->health;
	char		cut[STENO_FAILURE_TEXT];

	/* make a copy first: the code under a spinlock must be short and must not fail */
	memset(cut, 0, sizeof(cut));
	strlcpy(cut, text, sizeof(cut));
	SpinLockAcquire(&t->mutex);
	memcpy(t->text, cut, sizeof(cut));
	SpinLockRelease(&t->mutex);
}

/* ---- failures and their ends ---- */

static void
describe_failure(char *to, size_t size, const StenoError *error)
{
	if (error->error != 0)
		snprintf(to, size, "%s \"%s\": %s", error->what, error->path, strerror(error->error));
	else
		snprintf(to, size, "%s \"%s\"", error->what, error->path);
}

static const char *
consequence_of_failure(StenoAction action)
{
	if (action == STENO_ROTATE)
		return "Records go on into the present segment.";
	if (action == STENO_SYNC && (steno_on_failure == STENO_ON_FAILURE_WAIT ||
								 steno_on_failure == STENO_ON_FAILURE_CONTINUE))
		return "What was written since the last sync may not be on disk; it will be written again.";
	switch (steno_on_failure)
	{
		case STENO_ON_FAILURE_ERROR:
			return "New statements are refused, as \"steno.on_failure\" says.";
		case STENO_ON_FAILURE_CONTINUE:
			return "Records stay in the rings; when these are full, records are dropped, as \"steno.on_failure\" says.";
		case STENO_ON_FAILURE_SHUTDOWN:
			return "The server is to stop, as \"steno.on_failure\" says.";
		default:
			return "Records stay in the rings; when these are full, statements wait or records are dropped, as \"steno.delivery\" says.";
	}
}

/* What happens to statements while the trail cannot be written, as part of a sentence. */
const char *
steno_health_consequence(void)
{
	switch (steno_on_failure)
	{
		case STENO_ON_FAILURE_ERROR:
			return "new statements are refused, except those of superusers";
		case STENO_ON_FAILURE_CONTINUE:
			return "statements go on, and records that find no room in their rings are dropped and counted";
		case STENO_ON_FAILURE_SHUTDOWN:
			return "the server is stopped";
		default:
			return "statements wait once their rings are full, or their records are dropped, as \"steno.delivery\" says";
	}
}

static const char *
advice_after_failure(StenoAction action, const StenoError *error)
{
	if (action != STENO_ROTATE && steno_on_failure == STENO_ON_FAILURE_SHUTDOWN)
		return "Start the server again when the cause is mended: what is not in the trail is in the ring file.";
	if (error->error == ENOSPC || error->error == EDQUOT)
		return "Make room on the trail's file system, or let the server delete old segments with \"steno.retention_size\" or \"steno.retention_age\" and a reload. The writer tries again every second and goes on by itself.";
	if (error->error == ENOTDIR)
		return "A file is in the place of a directory of the trail. Move it away, and put back what it has replaced. The writer tries again every second and goes on by itself.";
	return "The writer tries again every second and goes on by itself.";
}

static void
log_failure(const StenoWriter *w, StenoAction action, const StenoError *error)
{
	errno = error->error;
	if (error->error != 0)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("steno writer %d could not write the trail: %s \"%s\": %m",
						w->number, error->what, error->path),
				 errdetail_internal("%s", consequence_of_failure(action)),
				 errhint("%s", advice_after_failure(action, error))));
	else
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("steno writer %d could not write the trail: %s \"%s\"",
						w->number, error->what, error->path),
				 errdetail_internal("%s", consequence_of_failure(action)),
				 errhint("%s", advice_after_failure(action, error))));
}

/*
 * An action has failed.  That is logged once until the action succeeds.  Each
 * action is tracked separately, because a trail that can be written may not be
 * synced, or a new segment may not be begun.
 */
void
steno_health_failed(StenoWriter *w, StenoAction action, const StenoError *error)
{
	StenoOutage *o = &w->outage;
	TimestampTz now = GetCurrentTimestamp();
	char		text[STENO_FAILURE_TEXT];
	bool		before = is_failing(w);

	atomic_fetch_add_explicit(&w->control->errors, 1, memory_order_relaxed);
	o->attempts++;
	w->retry_at[action] = TimestampTzPlusMilliseconds(now, STENO_RETRY_MS);
	describe_failure(text, sizeof(text), error);
	set_failure_text(w, text);
	if (action == STENO_WRITE)
		w->disk_full = error->error == ENOSPC || error->error == EDQUOT;
	if (w->failing[action])
		return;
	w->failing[action] = true;
	log_failure(w, action, error);
	if (is_failing(w))
		o->over = 0;			/* an outage that has not been recorded yet continues */
	if (o->since == 0 && is_failing(w))
	{
		o->since = now;
		o->attempts = 1;
		o->dropped = steno_dropped_by_sessions(w->number);
		o->refused = atomic_load(&w->control->health.refused);
		strlcpy(o->reason, text, sizeof(o->reason));
	}
	if (!before)
	{
		atomic_store(&w->control->health.since, now);
		if (is_failing(w))
			steno_alert("failure", w->number, text);
	}
	publish_failing(w);
}

/* An action has succeeded: it is no longer failing. */
void
steno_health_succeeded(StenoWriter *w, StenoAction action)
{
	static const char *const messages[] = {
		[STENO_WRITE] = "steno writer %d can write the trail again",
		[STENO_SYNC] = "steno writer %d can sync the trail again",
		[STENO_ROTATE] = "steno writer %d can begin segments of the trail again",
	};
	bool		before = is_failing(w);

	if (action == STENO_WRITE)
		w->disk_full = false;
	if (!w->failing[action])
		return;
	w->failing[action] = false;
	ereport(LOG,
			(errmsg(messages[action], w->number)));
	if (!w->failing[STENO_ROTATE] && !is_failing(w))
	{
		set_failure_text(w, "");
		atomic_store(&w->control->health.since, 0);
	}
	publish_failing(w);
	if (before && !is_failing(w))
	{
		w->outage.over = GetCurrentTimestamp();
		steno_alert("recovered", w->number, "the trail is written again");
	}
}

/*
 * This writer does something, and others have found that it did not: it was stopped, or its
 * disk has not answered.  That was an outage, too.
 */
static void
end_stall(StenoWriter *w)
{
	StenoHealth *t = &w->control->health;
	StenoOutage *o = &w->outage;
	TimestampTz since = atomic_exchange(&t->stalled_since, 0);
	TimestampTz now = GetCurrentTimestamp();
	int			seconds = (int) Max((now - since) / USECS_PER_SEC, 0);

	if (since == 0)
		return;
	ereport(LOG,
			(errmsg("steno writer %d is at work again after %d seconds", w->number, seconds)));
	if (o->since == 0)
	{
		o->since = since;
		o->dropped = atomic_load(&t->stall_dropped);
		o->refused = atomic_load(&t->stall_refused);
		snprintf(o->reason, sizeof(o->reason), "writer %d did nothing for %d seconds", w->number, seconds);
	}
	if (is_failing(w))
		return;
	o->over = now;
	set_failure_text(w, "");
	atomic_store(&t->since, 0);
	steno_alert("recovered", w->number, "the writer is at work again");
}

/*
 * If an outage is over and not recorded yet, copy it to *outage, with the numbers
 * of records dropped and statements refused during it, and return true.
 */
bool
steno_health_take_outage(StenoWriter *w, StenoOutage *outage)
{
	if (w->outage.over == 0 || is_failing(w))
		return false;
	*outage = w->outage;
	outage->dropped = steno_dropped_by_sessions(w->number) - outage->dropped;
	outage->refused = atomic_load(&w->control->health.refused) - outage->refused;
	memset(&w->outage, 0, sizeof(w->outage));
	return true;
}

/*
 * A restarted writer: if its stream could not be written when the previous process
 * ended, it is failing until it can write.
 */
void
steno_health_inherit(StenoWriter *w)
{
	StenoHealth *t = &w->control->health;
	StenoOutage *o = &w->outage;
	bool		stalled;

	/* this process sets them again if they still exist */
	atomic_store(&t->problems, 0);
	stalled = atomic_exchange(&t->stalled_since, 0) != 0;
	atomic_store(&w->control->segment, 0);
	if (atomic_load(&t->failing) == 0)
	{
		set_failure_text(w, "");
		atomic_store(&t->since, 0);
		return;
	}
	w->failing[STENO_WRITE] = true;
	o->since = atomic_load(&t->since);
	o->dropped = stalled ? atomic_load(&t->stall_dropped) : steno_dropped_by_sessions(w->number);
	o->refused = stalled ? atomic_load(&t->stall_refused) : atomic_load(&t->refused);
	steno_health_text(t, o->reason);
}

/*
 * A problem has appeared or disappeared.  The caller has logged it; this is for the
 * views and for steno.alert_command.
 */
void
steno_health_set_problem(const StenoWriter *w, StenoProblem problem, bool present)
{
	uint32		bit = 1u << problem;
	/* only this writer stores it */
	uint32		before = atomic_load(&w->control->health.problems);

	if (((before & bit) != 0) == present)
		return;
	atomic_store(&w->control->health.problems, present ? before | bit : before & ~bit);
	steno_alert(present ? "problem" : "problem_over", w->number, steno_problem_texts[problem]);
}

/* ---- space on the disk ---- */

/* Only one of the writers warns about a full disk, because they usually share it. */
static void
warn_of_full_disk(StenoWriter *w, int used)
{
	char		text[STENO_FAILURE_TEXT];

	if (w->number != 0)
		return;
	if (!w->disk_warned && steno_disk_warning > 0 && used >= steno_disk_warning)
	{
		w->disk_warned = true;
		ereport(WARNING,
				(errmsg("file system of trail directory \"%s\" is %d percent full", steno_directory, used),
				 w->disk_reserve > 0 ?
				 errdetail("\"steno.disk_warning\" is %d. When less than %lld MB are free, the trail cannot be written: then %s (\"steno.on_failure\").",
						   steno_disk_warning, (long long) (w->disk_reserve / (1024 * 1024)),
						   steno_health_consequence()) :
				 errdetail("\"steno.disk_warning\" is %d. When nothing is free, the trail cannot be written: then %s (\"steno.on_failure\").",
						   steno_disk_warning, steno_health_consequence()),
				 errhint("Make room, move the trail to a larger file system, or let the server delete old segments with \"steno.retention_size\" or \"steno.retention_age\".")));
		snprintf(text, sizeof(text), "%d percent full", used);
		steno_alert("disk_warning", w->number, text);
	}
	else if (w->disk_warned && (steno_disk_warning == 0 || used < steno_disk_warning - WARNING_MARGIN))
	{
		w->disk_warned = false;
		ereport(LOG,
				(errmsg("file system of trail directory \"%s\" is %d percent full, below \"steno.disk_warning\" again",
						steno_directory, used)));
		snprintf(text, sizeof(text), "%d percent full", used);
		steno_alert("disk_ok", w->number, text);
	}
}

/*
 * Determine how full the file system is, in percent as reported by df, and the
 * space that steno.disk_reserve leaves.  On a small file system, the reserve is at
 * most a twentieth of it.
 */
static void
measure_disk(StenoWriter *w)
{
	struct statvfs fs;
	double		all;
	double		used;
	int64		reserve = (int64) steno_disk_reserve * 1024 * 1024;

	if (statvfs(steno_directory, &fs) != 0)
		return;					/* writing reports a directory that cannot be used */
	used = (double) fs.f_blocks - (double) fs.f_bfree;
	all = used + (double) fs.f_bavail;
	if (all <= 0)
		return;
	atomic_store(&w->control->health.disk_free,
				 1 + (uint32) ((double) fs.f_bavail * 10000 / all));
	reserve = Min(reserve, (int64) (fs.f_blocks * (uint64) fs.f_frsize / 20));
	w->disk_reserve = reserve;
	w->disk_room = (int64) (fs.f_bavail * (uint64) fs.f_frsize) - reserve;
	/* after a failure, require more space, so that the next block does not fail again */
	if (w->failing[STENO_WRITE])
		w->disk_room -= reserve / 8;
	warn_of_full_disk(w, (int) (used * 100 / all));
}

/* Whether a block of this length may be written; if so, its length is deducted from the space. */
bool
steno_health_take_room(StenoWriter *w, size_t len, StenoError *error)
{
	if (steno_disk_reserve == 0 || w->use_reserve)
		return true;
	if (w->disk_room < (int64) len)
		measure_disk(w);
	if (w->disk_room < (int64) len)
		return steno_failed(error, ENOSPC, "no more than \"steno.disk_reserve\" is free for", w->stream.directory);
	w->disk_room -= (int64) len;
	return true;
}

/* ---- periodic checks ---- */

/*
 * A writer that cannot be started cannot report that.  The first one that runs
 * reports it for all others.  A writer that runs again reports that itself.
 */
static void
report_absent_writers(StenoWriter *w, TimestampTz now)
{
	int			n = steno_rings.nwriters;
	char		message[64];
	int			i;

	for (i = 0; i < n; i++)
	{
		StenoWriterControl *other = &steno_control->writers[i];
		TimestampTz since = atomic_load(&other->gone_since);

		if (i == w->number)
			continue;
		if (steno_is_stalled(other, now))
			steno_stall_report(other, atomic_load(&other->beat_time));
		if (steno_writer_runs(other))
		{
			if (i < w->number)
				return;			/* that writer reports them */
			continue;
		}
		if (since == 0 || (now >= since && now - since < ABSENCE) || ShutdownRequestPending ||
			atomic_exchange(&other->absence_reported, 1) != 0)
			continue;
		snprintf(message, sizeof(message), "writer %d is not running", i);
		ereport(WARNING,
				(errmsg("steno %s", message),
				 errdetail("Its sessions go on until their rings are full, and then wait or drop records, as \"steno.delivery\" says."),
				 errhint("The postmaster starts it again every second; messages before this one say why it ends.")));
		steno_alert("writer_gone", i, message);
	}
}

/* Called in every pass; checks once a second, and returns whether it did. */
bool
steno_health_check(StenoWriter *w)
{
	TimestampTz now = GetCurrentTimestamp();

	/* a clock that was set back also makes the check due */
	if (now >= w->checked && now - w->checked < STENO_RETRY_MS * INT64CONST(1000))
		return false;
	w->checked = now;
	end_stall(w);
	publish_failing(w);
	measure_disk(w);
	report_absent_writers(w, now);
	return true;
}

/*
 * While the trail cannot be written: do what cannot wait until it can.  Records of
 * changed settings can wait.
 */
static void
serve_while_failing(StenoWriter *w)
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		w->reload_pending = true;
	}
	end_stall(w);
	publish_failing(w);
	steno_alert_check();
	if (w->number == 0)
		steno_state_losses(GetCurrentTimestamp());
}

/*
 * After a failure: wait until the next attempt is due.  Returns false if this
 * process may exit; the next one then reads the rings.
 */
bool
steno_health_wait_to_retry(StenoWriter *w)
{
	uint64		start = steno_clock_ticks(&steno_my.clock);

	/* what can be deleted goes first: the limits may have been set just for that */
	if (w->disk_full && w->make_space(w))
		return !steno_process_may_end(w);
	/* not measured by the time of day, which may be set back meanwhile */
	while (steno_clock_us(&steno_my.clock, start, steno_clock_ticks(&steno_my.clock)) <
		   STENO_RETRY_MS * UINT64CONST(1000))
	{
		if (steno_process_may_end(w))
			return false;
		serve_while_failing(w);
		steno_process_sleep(100, STENO_WAIT_RETRY);
	}
	return true;
}

/*
 * Whether an action may be tried: if it has failed, a second later, or when the
 * clock was set back.
 */
bool
steno_health_may_try(const StenoWriter *w, StenoAction action, TimestampTz now)
{
	return !w->failing[action] || now >= w->retry_at[action] ||
		now < w->retry_at[action] - STENO_RETRY_MS * INT64CONST(1000);
}
