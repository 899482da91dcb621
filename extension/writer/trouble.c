/*
 * extension/writer/trouble.c
 *		A trail that cannot be written, as steno.on_failure says.
 *
 * A writer whose write or sync fails, or whose segment is not in its place any
 * more, is failing, from then on until it succeeds again.  It says so once in the
 * server's log, shows it in the control area, tells steno.alert_command, and tries
 * again every second.  When it can write again, the trail gets what has
 * happened: records of the server, "failure" and "recovered".
 *
 * Meanwhile sessions of its rings do what steno.on_failure says (delivery/refusal.c).  The
 * writer decides which, by its own value of the setting, so that sessions that wait see
 * a change.  That statements are to be refused it puts where sessions look anyway
 * (steno_my.news); that bit is a hint, and the control area has the truth.
 *
 * A new segment that cannot be begun is no failure in this sense: records go on
 * into the present one.
 */
#include "writer/writer.h"

#include <signal.h>
#include <sys/statvfs.h>
#include <time.h>

#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "delivery/refusal.h"
#include "writer/alert.h"

/* Time between attempts to write when it fails, and between two looks at the disk. */
#define RETRY_MS 1000

/* The disk is full, or not so full any more, by so many points of percent. */
#define WARNING_MARGIN 2

/* ---- in the writer: what sessions see ---- */

static bool
is_failing(const StenoWriter *w)
{
	return w->failing[STENO_WRITE] || w->failing[STENO_SYNC];
}

static uint64
dropped_by_sessions(const StenoWriter *w)
{
	uint64		sum = 0;
	uint32		i;

	for (i = w->number; i < steno_rings.nrings; i += steno_rings.nwriters)
		sum += atomic_load_explicit(&steno_ring_at(&steno_rings, i)->drops, memory_order_relaxed);
	return sum;
}

static void
tell_sessions(const StenoWriter *w, bool refuse)
{
	uint32		i;

	for (i = w->number; i < steno_rings.nrings; i += steno_rings.nwriters)
	{
		StenoLocal *local = (StenoLocal *) steno_ring_at(&steno_rings, i)->own;

		if (refuse)
			atomic_fetch_or(&local->news, STENO_NEWS_FAILING);
		else
			atomic_fetch_and(&local->news, ~STENO_NEWS_FAILING);
	}
}

/* Once, for all writers: postmaster, stop, as pg_ctl does it. */
static void
ask_for_shutdown(const StenoWriter *w)
{
	if (ShutdownRequestPending || atomic_exchange(&steno_control->shutdown_asked, 1) != 0)
		return;
	ereport(LOG,
			(errmsg("steno writer %d asks for a fast shutdown of the server", w->number),
			 errdetail("The trail cannot be written, and \"steno.on_failure\" is \"shutdown\"."),
			 errhint("What is not in the trail is in the ring file, and gets there after the next start.")));
	if (kill(PostmasterPid, SIGINT) != 0)
		ereport(LOG,
				(errmsg("could not send signal to the postmaster: %m")));
}

/* What there is to know, in the control area; also when the setting has changed. */
static void
publish(StenoWriter *w)
{
	StenoTrouble *t = &w->control->trouble;
	int			policy = steno_on_failure;
	uint32		failing;

	/* what cannot be synced is taken all the same: a full ring is only slow */
	if (policy == STENO_ON_FAILURE_CONTINUE && !w->failing[STENO_WRITE])
		policy = STENO_ON_FAILURE_WAIT;
	failing = is_failing(w) ? (uint32) policy + 1 : 0;
	if (atomic_exchange(&t->failing, failing) == failing)
		return;
	tell_sessions(w, failing == STENO_ON_FAILURE_ERROR + 1);
	if (failing == STENO_ON_FAILURE_SHUTDOWN + 1)
		ask_for_shutdown(w);
}

static void
set_text(StenoWriter *w, const char *text)
{
	StenoTrouble *t = &w->control->trouble;
	char		cut[STENO_FAILURE_TEXT];

	/* a copy first: nothing but memory under the lock */
	memset(cut, 0, sizeof(cut));
	strlcpy(cut, text, sizeof(cut));
	SpinLockAcquire(&t->mutex);
	memcpy(t->text, cut, sizeof(cut));
	SpinLockRelease(&t->mutex);
}

/* ---- in the writer: failures and their ends ---- */

static void
describe(char *to, size_t size, const StenoError *error)
{
	if (error->error != 0)
		snprintf(to, size, "%s \"%s\": %s", error->what, error->path, strerror(error->error));
	else
		snprintf(to, size, "%s \"%s\"", error->what, error->path);
}

static const char *
consequence(StenoAction action)
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

/* What happens to statements when the trail cannot be written, as a part of a sentence. */
const char *
steno_trouble_prospect(void)
{
	switch (steno_on_failure)
	{
		case STENO_ON_FAILURE_ERROR:
			return "new statements are refused, but those of superusers";
		case STENO_ON_FAILURE_CONTINUE:
			return "statements go on, and records that find no room in their rings are dropped and counted";
		case STENO_ON_FAILURE_SHUTDOWN:
			return "the server is stopped";
		default:
			return "statements wait once their rings are full, or their records are dropped, as \"steno.delivery\" says";
	}
}

static const char *
what_next(StenoAction action, const StenoError *error)
{
	if (action != STENO_ROTATE && steno_on_failure == STENO_ON_FAILURE_SHUTDOWN)
		return "Start the server again when the cause is mended: what is not in the trail is in the ring file.";
	if (error->error == ENOSPC || error->error == EDQUOT)
		return "Make room on the trail's file system, or let the server delete old segments with \"steno.retention_size\" or \"steno.retention_age\" and a reload. The writer tries again every second and goes on by itself.";
	return "The writer tries again every second and goes on by itself.";
}

static void
log_failure(const StenoWriter *w, StenoAction action, const StenoError *error)
{
	errno = error->error;
	if (error->error != 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("steno writer %d could not write the trail: %s \"%s\": %m",
						w->number, error->what, error->path),
				 errdetail_internal("%s", consequence(action)),
				 errhint("%s", what_next(action, error))));
	else
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("steno writer %d could not write the trail: %s \"%s\"",
						w->number, error->what, error->path),
				 errdetail_internal("%s", consequence(action)),
				 errhint("%s", what_next(action, error))));
}

/*
 * Something has failed.  It is said once, until the action succeeds: a trail that
 * takes blocks can still refuse to be synced, or to begin a segment.
 */
void
steno_trouble_failed(StenoWriter *w, StenoAction action, const StenoError *error)
{
	StenoEpisode *e = &w->episode;
	TimestampTz now = GetCurrentTimestamp();
	char		text[STENO_FAILURE_TEXT];
	bool		before = is_failing(w);

	atomic_fetch_add_explicit(&w->control->errors, 1, memory_order_relaxed);
	e->attempts++;
	w->retry_at[action] = TimestampTzPlusMilliseconds(now, RETRY_MS);
	describe(text, sizeof(text), error);
	set_text(w, text);
	if (w->failing[action])
		return;
	w->failing[action] = true;
	log_failure(w, action, error);
	if (is_failing(w))
		e->over = 0;			/* one that has not been told yet goes on */
	if (e->since == 0 && is_failing(w))
	{
		e->since = now;
		e->attempts = 1;
		e->dropped = dropped_by_sessions(w);
		e->refused = atomic_load(&w->control->trouble.refused);
		strlcpy(e->reason, text, sizeof(e->reason));
	}
	if (!before)
	{
		atomic_store(&w->control->trouble.since, now);
		if (is_failing(w))
			steno_alert("failure", w->number, text);
	}
	publish(w);
}

/* The action has succeeded. */
void
steno_trouble_over(StenoWriter *w, StenoAction action)
{
	static const char *const messages[] = {
		[STENO_WRITE] = "steno writer %d can write the trail again",
		[STENO_SYNC] = "steno writer %d can sync the trail again",
		[STENO_ROTATE] = "steno writer %d can begin segments of the trail again",
	};
	bool		before = is_failing(w);

	if (!w->failing[action])
		return;
	w->failing[action] = false;
	ereport(LOG,
			(errmsg(messages[action], w->number)));
	if (!w->failing[STENO_ROTATE] && !is_failing(w))
	{
		set_text(w, "");
		atomic_store(&w->control->trouble.since, 0);
	}
	publish(w);
	if (before && !is_failing(w))
	{
		w->episode.over = GetCurrentTimestamp();
		steno_alert("recovered", w->number, "the trail is written again");
	}
}

void
steno_format_time(char *to, size_t size, TimestampTz t)
{
	time_t		seconds = (time_t) timestamptz_to_time_t(t);
	struct tm	utc;

	gmtime_r(&seconds, &utc);
	strftime(to, size, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/*
 * A writer that was started again: its stream could not be written when the process
 * before it ended.  It is failing until it can.
 */
void
steno_trouble_inherit(StenoWriter *w)
{
	StenoTrouble *t = &w->control->trouble;
	StenoEpisode *e = &w->episode;

	/* it finds out for itself */
	atomic_store(&t->problems, 0);
	atomic_store(&w->control->segment, 0);
	if (atomic_load(&t->failing) == 0)
	{
		set_text(w, "");
		atomic_store(&t->since, 0);
		return;
	}
	w->failing[STENO_WRITE] = true;
	e->since = atomic_load(&t->since);
	e->dropped = dropped_by_sessions(w);
	e->refused = atomic_load(&t->refused);
	steno_trouble_text(t, e->reason);
}

/*
 * A problem is there, or is not any more.  Its owner has said so in the log; this is for
 * those who watch the state, and for steno.alert_command.
 */
void
steno_trouble_problem(const StenoWriter *w, StenoProblem problem, bool there)
{
	uint32		bit = 1u << problem;
	uint32		before = atomic_load(&w->control->trouble.problems);

	if (((before & bit) != 0) == there)
		return;
	atomic_store(&w->control->trouble.problems, there ? before | bit : before & ~bit);
	steno_alert(there ? "problem" : "problem_over", w->number, steno_problem_texts[problem]);
}

/* Between two blocks: what has been the matter goes into the trail. */
void
steno_trouble_tell(StenoWriter *w)
{
	StenoEpisode e = w->episode;
	char		since[32];
	char		until[32];
	char		attempts[32];
	char		dropped[32];
	char		refused[32];
	const char *failure[] = {"event", "failure", "version", PG_VERSION,
	"since", since, "reason", e.reason};
	const char *recovered[] = {"event", "recovered", "version", PG_VERSION,
		"since", since, "until", until, "reason", e.reason,
	"attempts", attempts, "dropped", dropped, "refused", refused};

	if (e.over == 0 || is_failing(w))
		return;
	memset(&w->episode, 0, sizeof(w->episode));
	steno_format_time(since, sizeof(since), e.since);
	steno_format_time(until, sizeof(until), e.over);
	snprintf(attempts, sizeof(attempts), UINT64_FORMAT, e.attempts);
	snprintf(dropped, sizeof(dropped), UINT64_FORMAT, dropped_by_sessions(w) - e.dropped);
	snprintf(refused, sizeof(refused), UINT64_FORMAT,
			 atomic_load(&w->control->trouble.refused) - e.refused);
	steno_writer_server(w, failure, lengthof(failure) / 2);
	steno_writer_server(w, recovered, lengthof(recovered) / 2);
}

/* ---- the segment's place ---- */

static void
log_replaced(const StenoWriter *w, StenoPlace place, uint64 segment)
{
	if (w->stream.segment == segment)
		ereport(WARNING,
				(errmsg("segment %llu of stream %u of the trail was removed, and has been restored",
						(unsigned long long) segment, w->stream.number),
				 errdetail("It was still open. Segments before it that were removed with it are gone."),
				 errhint("Run \"steno verify\".")));
	else
		ereport(WARNING,
				(errmsg("segment %llu of stream %u of the trail is not in its place any more",
						(unsigned long long) segment, w->stream.number),
				 place == STENO_PLACE_MOVED ?
				 errdetail("The stream goes on in segment %llu. All before it is where it was moved to.",
						   (unsigned long long) w->stream.segment) :
				 errdetail("The stream goes on in segment %llu. It was removed, and could not be read any more.",
						   (unsigned long long) w->stream.segment),
				 errhint("Put back what was moved, and run \"steno verify\".")));
}

/*
 * Before a block is written, and after a sync: the segment must be where readers
 * look for it.  A file that was removed or moved takes all that is written.  Goes
 * on in its place if it is not.  Returns false when we are to leave.
 */
bool
steno_trouble_place(StenoWriter *w, bool idle)
{
	StenoError	error;
	StenoPlace	place;
	bool		hold = idle;
	bool		any = false;

	for (;;)
	{
		uint64		segment = w->stream.segment;

		if (hold && !steno_trail_hold(&error))
		{
			any = true;
			steno_trouble_failed(w, STENO_WRITE, &error);
			if (!steno_writer_wait(w))
				return false;
			continue;
		}
		place = steno_stream_place(&w->stream, &error);
		if (place == STENO_PLACE_KEPT)
			break;
		if (!hold)
		{
			/* then what is there now may be another's */
			hold = true;
			continue;
		}
		any = true;
		steno_trouble_failed(w, STENO_WRITE, &error);
		if (place != STENO_PLACE_UNKNOWN)
		{
			if (steno_stream_replace(&w->stream, steno_directory, place, GetCurrentTimestamp(), &error))
			{
				log_replaced(w, place, segment);
				if (w->stream.segment != segment)
					steno_seal_moved(w);
				atomic_store(&w->control->segment, w->stream.segment);
				(void) steno_trail_hold(&error);	/* the directory may be new */
				break;
			}
			steno_trouble_failed(w, STENO_WRITE, &error);
		}
		if (!steno_writer_wait(w))
			return false;
	}
	/* else the write will tell */
	if (any && idle)
		steno_trouble_over(w, STENO_WRITE);
	return true;
}

/* ---- room on the disk ---- */

/* One of the writers watches how full it is: they share it, as a rule. */
static void
watch_disk(StenoWriter *w, int used)
{
	char		text[STENO_FAILURE_TEXT];

	if (w->number != 0)
		return;
	if (!w->disk_warned && steno_disk_warning > 0 && used >= steno_disk_warning)
	{
		w->disk_warned = true;
		ereport(WARNING,
				(errmsg("file system of trail directory \"%s\" is %d percent full", steno_directory, used),
				 errdetail("\"steno.disk_warning\" is %d. When less than %lld MB are free, the trail cannot be written: then %s (\"steno.on_failure\").",
						   steno_disk_warning, (long long) (w->disk_reserve / (1024 * 1024)), steno_trouble_prospect()),
				 errhint("Make room, move the trail to a larger file system, or let the server delete old segments with \"steno.retention_size\" or \"steno.retention_age\".")));
		snprintf(text, sizeof(text), "%d percent full", used);
		steno_alert("disk_warning", w->number, text);
	}
	else if (w->disk_warned && (steno_disk_warning == 0 || used < steno_disk_warning - WARNING_MARGIN))
	{
		w->disk_warned = false;
		ereport(LOG,
				(errmsg("file system of trail directory \"%s\" is %d percent full, which is no reason for a warning any more",
						steno_directory, used)));
		snprintf(text, sizeof(text), "%d percent full", used);
		steno_alert("disk_ok", w->number, text);
	}
}

/*
 * How full the file system is: percent as df has it, and the room that
 * steno.disk_reserve leaves.  A reserve is at most a twentieth of a small one.
 */
static void
look_at_disk(StenoWriter *w)
{
	struct statvfs fs;
	double		all;
	double		used;
	int64		reserve = (int64) steno_disk_reserve * 1024 * 1024;

	if (statvfs(steno_directory, &fs) != 0)
		return;					/* it is gone, or closed to us: writing tells */
	used = (double) fs.f_blocks - (double) fs.f_bfree;
	all = used + (double) fs.f_bavail;
	if (all <= 0)
		return;
	atomic_store(&w->control->trouble.disk_free,
				 1 + (uint32) ((double) fs.f_bavail * 10000 / all));
	reserve = Min(reserve, (int64) (fs.f_blocks * (uint64) fs.f_frsize / 20));
	w->disk_reserve = reserve;
	w->disk_room = (int64) (fs.f_bavail * (uint64) fs.f_frsize) - reserve;
	/* when it was full: some more, lest it begin anew with every block */
	if (w->failing[STENO_WRITE])
		w->disk_room -= reserve / 8;
	watch_disk(w, (int) (used * 100 / all));
}

/* Whether a block may be written; it then is taken to be. */
bool
steno_trouble_room(StenoWriter *w, size_t len, StenoError *error)
{
	if (steno_disk_reserve == 0)
		return true;
	if (w->disk_room < (int64) len)
		look_at_disk(w);
	if (w->disk_room < (int64) len)
	{
		error->error = ENOSPC;
		strlcpy(error->what, "no more than \"steno.disk_reserve\" is free for", sizeof(error->what));
		strlcpy(error->path, w->stream.directory, sizeof(error->path));
		return false;
	}
	w->disk_room -= (int64) len;
	return true;
}

/* ---- now and then ---- */

/*
 * Called while we wait for the trail to be writable: what cannot wait for that.
 * The records of changed settings do.
 */
void
steno_trouble_tick(StenoWriter *w)
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		w->reload_later = true;
	}
	publish(w);
	steno_alert_tick();
}

/* Other writers that are not running for so long are reported, in microseconds. */
#define ABSENCE (5 * USECS_PER_SEC)

/*
 * A writer that cannot be started cannot say so.  The first one that runs says it for
 * all; when it runs again, a writer says so itself.
 */
static void
look_for_writers(StenoWriter *w, TimestampTz now)
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
		if (steno_writer_runs(other))
		{
			if (i < w->number)
				return;			/* it looks */
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

/* In every pass; does something once a second.  Returns false when we are to leave. */
bool
steno_trouble_look(StenoWriter *w)
{
	TimestampTz now = GetCurrentTimestamp();

	steno_alert_tick();
	steno_trouble_tell(w);
	if (now >= w->looked && now - w->looked < RETRY_MS * INT64CONST(1000))
		return true;
	w->looked = now;
	publish(w);
	look_at_disk(w);
	look_for_writers(w, now);
	return steno_trouble_place(w, true);
}
