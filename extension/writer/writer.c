/*
 * extension/writer/writer.c
 *		The registration of the writers; the loop of a writer, its start and its end.
 *
 * Writers are static background workers, registered by the postmaster.
 *
 * A writer makes passes.  A pass reads the messages of its rings into a block,
 * writes the block, and only then frees the rings (output.c): whichever process
 * dies in between, the records are in the trail or still in the ring file.
 *
 * Between passes it sleeps for steno.flush_interval, or less if rings fill up
 * faster.  A backend does not wake it for a record, except when its ring is half
 * full, when it waits for space or for an answer, and when the writer has announced
 * a deep sleep, after a while without records.
 *
 * If the trail cannot be written, the writer logs that once, keeps the block and
 * tries again every second.  Rings fill up meanwhile, and statements wait, drop
 * their records or are refused, depending on steno.delivery and steno.on_failure
 * (health.c).  If the trail cannot be synced, blocks that may be lost are written
 * again before the next attempt (core/trail/segment.c).
 */
#include "writer/writer.h"

#include <dlfcn.h>
#include <time.h>

#include "access/twophase.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "postmaster/bgworker_internals.h"
#include "postmaster/interrupt.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "delivery/record.h"
#include "delivery/wait.h"
#include "policy/rules.h"
#include "ring/chunk.h"
#include "session/settings_in_force.h"

/* Time without records after which the writer begins deep sleeps. */
#define IDLE_MS 2000

/* Length of a deep sleep: limits the effect of a missed wake-up. */
#define DEEP_SLEEP_MS 1000

/* Shortest sleep between two passes of a busy writer. */
#define SHORTEST_NAP_MS 2

/* ---- registration ---- */

/*
 * The path that this library was loaded from, which may be outside the server's
 * library directory.
 */
static const char *
own_library(void)
{
	Dl_info		info;

	/* a longer path would be truncated: then the library must be in the usual place */
	if (dladdr((void *) steno_writer_register, &info) != 0 && info.dli_fname != NULL &&
		strlen(info.dli_fname) < sizeof(((BackgroundWorker *) NULL)->bgw_library_name))
		return info.dli_fname;
	return "pg_steno";
}

/*
 * Fail if a writer could not be registered.  Static workers get their slots before
 * any dynamic worker, and keep them.  RegisterBackgroundWorker only logs that there
 * is no free slot, and sessions of the missing writer would wait forever.
 */
void
steno_writer_check_registered(void)
{
	StenoWorkerIter iter;
	int			ours = 0;
	int			all = 0;

	STENO_FOREACH_WORKER(iter)
	{
		all++;
		if (strcmp(STENO_ITER_WORKER(iter)->rw_worker.bgw_function_name, "steno_writer_main") == 0)
			ours++;
	}
	if (ours == steno_writers)
		return;
	ereport(FATAL,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too few background worker slots for %d steno writers", steno_writers),
			 errdetail("\"max_worker_processes\" is %d, and %d of these slots have been taken by other workers.",
					   max_worker_processes, all - ours),
			 errhint("Set \"max_worker_processes\" to at least %d, and higher for parallel queries and logical replication, or lower \"steno.writers\".",
					 all - ours + steno_writers)));
}

void
steno_writer_register(void)
{
	const char *library = own_library();
	int			i;

	steno_alert_hook = steno_alert_at_once;
	for (i = 0; i < steno_writers; i++)
	{
		BackgroundWorker worker;

		memset(&worker, 0, sizeof(worker));
		worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
		worker.bgw_start_time = BgWorkerStart_PostmasterStart;
		worker.bgw_restart_time = 1;
		snprintf(worker.bgw_name, BGW_MAXLEN, "steno writer %d", i);
		snprintf(worker.bgw_type, BGW_MAXLEN, "steno writer");
		strlcpy(worker.bgw_library_name, library, sizeof(worker.bgw_library_name));
		snprintf(worker.bgw_function_name, BGW_MAXLEN, "steno_writer_main");
		worker.bgw_main_arg = Int32GetDatum(i);
		RegisterBackgroundWorker(&worker);
	}
}

/* ---- records of the server ---- */

#define LAST_STOP_PAIRS 2

/*
 * If the server was not run since the last stop that is in the trail, the position of that stop in the WAL, and
 * when it had shut down: pairs in static memory; returns their number.
 */
static int
compare_last_stop(const char **pairs)
{
	static char wal[24];
	static char time[32];
	StenoStop	stop;
	TimestampTz shut_down;

	if (!steno_state_take_stop(&stop) || !steno_not_run_since(&stop, &shut_down))
		return 0;
	snprintf(wal, sizeof(wal), "%X/%X", LSN_FORMAT_ARGS((XLogRecPtr) stop.wal));
	steno_format_utc(time, sizeof(time), shut_down);
	pairs[0] = "not_run_since_wal";
	pairs[1] = wal;
	pairs[2] = "shut_down";
	pairs[3] = time;
	return 2;
}

/* Record the start of the server, with its identity, run and settings. */
static void
record_server_start(StenoWriter *w)
{
	char		prepared[12];
	char		began[40];
	const char *pairs[2 * (6 + STENO_IDENTITY_PAIRS + LAST_STOP_PAIRS + STENO_SETTINGS_MOST)] =
	{"event", "start", "version", PG_VERSION, "began", began, "max_prepared_transactions", prepared,
	"log_min_messages_of_sessions", "recorded", "log_min_messages"};
	int			n = 6;

	/* sessions may have recorded already, with these settings */
	steno_format_utc_us(began, sizeof(began), steno_rings.file->created);
	/* which decides whether failures are seen: see warn_of_log_min_messages, and session/log_level.c */
	pairs[11] = GetConfigOption("log_min_messages", false, false);
	snprintf(prepared, sizeof(prepared), "%d", max_prepared_xacts);
	n += steno_state_identity(pairs + 2 * n);
	n += compare_last_stop(pairs + 2 * n);
	n += steno_settings_configured(pairs + 2 * n);
	steno_writer_server(w, pairs, n);
}

/* Record the stop of the server, when no session is left. */
static void
record_server_stop(StenoWriter *w, StenoStop *stop)
{
	char		wal[24];
	const char *pairs[] = {"event", "stop", "version", PG_VERSION, "wal", wal};

	steno_last_stop_now(stop);
	snprintf(wal, sizeof(wal), "%X/%X", LSN_FORMAT_ARGS((XLogRecPtr) stop->wal));
	steno_writer_server(w, pairs, stop->wal == 0 ? 2 : 3);
}

/* Record the change of a setting, with the place of its new value in the configuration files, if it has one. */
static void
record_server_setting(void *writer, const char *name, const char *from, const char *to, const char *file, int number)
{
	char		line[16];
	const char *pairs[] = {"name", name, "old", from, "new", to, "source", "server", "file", file, "line", line};

	snprintf(line, sizeof(line), "%d", number);
	steno_writer_record(writer, STENO_KIND_SETTING, STENO_CLASS_SETTING, pairs, file == NULL ? 4 : 6);
}

static void
record_reloaded_setting(void *writer, const char *name, const char *from, const char *to)
{
	const struct config_generic *setting = steno_find_setting(name);

	bool		in_file = setting && setting->source == PGC_S_FILE;

	record_server_setting(writer, name, from, to, in_file ? setting->sourcefile : NULL,
						  in_file ? setting->sourceline : 0);
}

/* Record which settings of the server have changed.  Returns false if this process is to exit and cannot write. */
static bool
record_server_settings(StenoWriter *w, bool ours)
{
	if (!steno_server_settings_compare(ours, record_server_setting, w))
		return true;
	if (!steno_writer_write(w))
		return false;
	/* otherwise, the next comparison finds the changes again */
	if (steno_writer_sync(w))
		steno_server_settings_save();
	return true;
}

/* Called before changed rules take effect, so that their record precedes their effects. */
static void
record_changed_rules(void *writer, const char *from, const char *to, const char *errors, const char *hash)
{
	const char *pairs[] = {
		"name", "steno.rules_file", "old", from, "new", to, "source", "server",
		"errors", errors, "sha256", hash
	};

	steno_writer_record(writer, STENO_KIND_SETTING, STENO_CLASS_SETTING, pairs, lengthof(pairs) / 2);
	steno_writer_write(writer);
}

/* Record an outage that is over, between two blocks. */
static void
record_outage(StenoWriter *w)
{
	StenoOutage o;
	char		since[32];
	char		until[32];
	char		attempts[32];
	char		dropped[32];
	char		refused[32];
	const char *failure[] = {"event", "failure", "version", PG_VERSION,
	"since", since, "reason", o.reason};
	const char *recovered[] = {"event", "recovered", "version", PG_VERSION,
		"since", since, "until", until, "reason", o.reason,
	"attempts", attempts, "dropped", dropped, "refused", refused};

	if (!steno_health_take_outage(w, &o))
		return;
	steno_format_utc(since, sizeof(since), o.since);
	steno_format_utc(until, sizeof(until), o.over);
	snprintf(attempts, sizeof(attempts), UINT64_FORMAT, o.attempts);
	snprintf(dropped, sizeof(dropped), UINT64_FORMAT, o.dropped);
	snprintf(refused, sizeof(refused), UINT64_FORMAT, o.refused);
	steno_writer_server(w, failure, lengthof(failure) / 2);
	steno_writer_server(w, recovered, lengthof(recovered) / 2);
}

/* ---- start ---- */

static void
open_stream(StenoWriter *w)
{
	StenoFound	found;
	StenoError	error;
	uint32		stream;
	uint64		durable;

	/* nothing is written without the key: it would not be encrypted */
	while (!steno_key_is_answered(w))
	{
		if (steno_process_may_end(w))
			steno_process_exit();
		steno_process_sleep(20, STENO_WAIT_RETRY);
	}
	while (!steno_trail_reclaim(&error) ||
		   !steno_state_choose_stream(w, &stream, &durable, &error) ||
		   !steno_stream_open(&w->stream, steno_directory, stream,
							  GetSystemIdentifier(), PG_VERSION_NUM,
							  (mode_t) steno_file_mode, steno_key_crypt(),
							  GetCurrentTimestamp(), durable, &found, &error))
	{
		steno_health_failed(w, STENO_WRITE, &error);
		if (!steno_health_wait_to_retry(w))
			steno_process_exit();
	}
	steno_health_succeeded(w, STENO_WRITE);
	atomic_store(&w->control->stream, w->stream.number);
	atomic_store(&w->control->segment, w->stream.segment);
	/* the seal is first: readers expect it right after the end of the previous run */
	if (!steno_seal_start(w) || !steno_branch_record(w))
		steno_process_exit();
	if (steno_crypt_active(w->stream.crypt))
		steno_key_report(w);
	if (found.torn_bytes > 0)
	{
		char		bytes[32];

		snprintf(bytes, sizeof(bytes), UINT64_FORMAT, found.torn_bytes);
		ereport(LOG,
				(errmsg("steno writer %d cut an unfinished block of %s bytes off stream %u",
						w->number, bytes, w->stream.number)));
		steno_writer_event(w, "torn", "bytes", bytes);
	}
	if (found.damaged)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("last segment of stream %u of the trail is damaged at offset %llu",
						w->stream.number, (unsigned long long) found.damaged_offset),
				 errdetail("It is left as it is; the stream goes on in a new segment."),
				 errhint("Run \"steno verify\".")));
	steno_writer_report_lost(w, w->stream.number, &w->stream.lost);
	steno_seal_begin_stream(w);
}

static StenoWriter *
start_writer(int number)
{
	StenoWriter *w = MemoryContextAllocZero(TopMemoryContext, sizeof(StenoWriter));

	w->number = number;
	w->control = &steno_control->writers[number];
	w->block_written = steno_seal_block_written;
	w->segment_replaced = steno_seal_segment_replaced;
	w->make_space = steno_retention_make_space;
	steno_process_begin(w);
	(void) steno_writer_fit(w, &steno_rings);
	steno_key_request(w);
	steno_writer_describe_self(w);
	if (w->restarted)
		steno_health_inherit(w);
	open_stream(w);
	return w;
}

/*
 * An earlier process was this writer in the same run of the server.  The postmaster
 * has reaped it before it started this one, so the rings have only one consumer.
 * They are in the same state as after a crash: the intent tells whether the last
 * block was written.
 */
static void
continue_run(StenoWriter *w)
{
	char		number[16];
	char		since[32];
	char		message[128];
	const char *pairs[] = {"event", "restart", "version", PG_VERSION, "writer", number, "since", since};
	long		seconds;
	int			microseconds;

	steno_recover_own_intent(w);
	TimestampDifference(w->gone_since, GetCurrentTimestamp(), &seconds, &microseconds);
	snprintf(number, sizeof(number), "%d", w->number);
	steno_format_utc(since, sizeof(since), w->gone_since);
	snprintf(message, sizeof(message), "writer %d was not running for %ld.%03d s", w->number,
			 seconds, microseconds / 1000);
	ereport(LOG,
			(errmsg("steno writer %d is running again after %ld.%03d s", w->number,
					seconds, microseconds / 1000),
			 errdetail("What its sessions recorded meanwhile is in their rings, and is written now.")));
	steno_alert("restart", w->number, message);
	steno_writer_server(w, pairs, lengthof(pairs) / 2);
	atomic_store(&w->control->absence_reported, 0);
	/* the configuration may have been reloaded since the previous process ended */
	if (w->number == 0)
		steno_rules_renew(NULL);
	w->reload_pending = true;
}

/* Once in a run of the server: done by the first process of writer 0. */
static void
begin_run(StenoWriter *w)
{
	steno_recover_rings(w);
	if (!record_server_settings(w, true))
		steno_process_exit();
	record_server_start(w);
	steno_branch_record_unused(w);
	steno_rules_started(record_changed_rules, w);
	if (!steno_writer_write(w))
		steno_process_exit();
	atomic_store(&w->control->start_segment, w->stream.segment);
	atomic_store(&w->control->begun, 1);
}

/* ---- the main loop ---- */

/* Begin a new segment if that is due or requested; false if it failed. */
static bool
rotate_if_due(StenoWriter *w, bool requested)
{
	StenoError	error;
	TimestampTz now = GetCurrentTimestamp();
	bool		due = w->stream.offset >= (uint64) steno_segment_size * 1024 * 1024;
	bool		stale = steno_crypt_stale(w->stream.crypt);

	if (steno_rotation_age > 0 &&
		now - w->stream.created >= (int64) steno_rotation_age * SECS_PER_MINUTE * USECS_PER_SEC)
		due = true;
	if (!stale && (w->stream.offset <= w->stream.header || !(due || requested)))
		return true;
	/* check before: once the segment is closed, it can no longer be restored */
	if (!steno_health_may_try(w, STENO_ROTATE, now) || !steno_writer_keep_place(w, true))
		return false;
	if (!steno_writer_index(w) || !steno_seal_segment(w))
		return false;
	w->stream.last_start = atomic_load(&w->control->start_segment);
	if (!steno_stream_rotate(&w->stream, now, &error))
	{
		steno_health_failed(w, STENO_ROTATE, &error);
		return false;
	}
	steno_health_succeeded(w, STENO_ROTATE);
	steno_state_synced(w, true);
	if (stale)
		steno_key_report(w);
	atomic_store(&w->control->segment, w->stream.segment);
	return true;
}

/*
 * Answer requests that were made before the pass, for which steno.flush() and
 * steno.rotate() wait.
 */
static void
answer_request(uint64 *served, uint64 request, _Atomic uint64_t *done)
{
	if (*served == request)
		return;
	*served = request;
	atomic_store(done, request);
	ConditionVariableBroadcast(&steno_control->answered);
}

static void
announce_sleep(StenoWriter *w, const StenoDrain *drain, bool asleep)
{
	uint32		i;

	atomic_store(&w->control->asleep, asleep);
	STENO_EACH_WATCHED(drain, i)
		atomic_store(&steno_ring_at(drain->rings, i)->asleep, asleep ? STENO_RING_ASLEEP : 0);
}

/* Fill level of the fullest ring of this writer, in percent. */
static int
fullest_ring(const StenoDrain *drain)
{
	uint64		most = 0;
	uint32		i;

	STENO_EACH_WATCHED(drain, i)
	{
		StenoRing  *ring = steno_ring_at(drain->rings, i);
		uint64		used = steno_ring_published(ring) - atomic_load(&ring->tail);

		most = Max(most, used);
	}
	return (int) ((most * 100 + drain->rings->size - 1) / drain->rings->size);
}

/*
 * Once a second: check for failures that nothing else would notice.  Returns false
 * if this process is to exit.
 */
static bool
check_health(StenoWriter *w)
{
	steno_alert_check();
	record_outage(w);
	return !steno_health_check(w) || steno_writer_keep_place(w, true);
}

/* Result of a pass. */
typedef enum Pass
{
	PASS_IDLE,					/* there was nothing to write */
	PASS_BUSY,
	PASS_FAILED					/* this process is to exit, and cannot write */
} Pass;

static Pass
make_pass(StenoWriter *w, StenoDrain *live)
{
	uint64		flush = atomic_load(&w->control->flush_requested);
	uint64		rotate = atomic_load(&w->control->rotate_requested);
	uint64		blocks = atomic_load(&w->control->blocks);
	static TimestampTz last_sync;
	TimestampTz now;
	bool		sync;

	steno_writer_count(&w->control->passes, 1);
	steno_process_beat();
	if (!check_health(w))
		return PASS_FAILED;
	if (steno_wake_take(&w->control->wake))
	{
		static bool first = true;

		if (first)
			steno_process_take_short_slices();
		first = false;
		w->sync_requested = true;
	}
	steno_seal_if_due(w);
	if (!steno_drain_rings(w, live, flush != w->served_flush || steno_process_must_end()) ||
		!steno_announce_long_statements(w, live) || !steno_writer_write(w))
		return PASS_FAILED;

	now = GetCurrentTimestamp();
	sync = w->sync_requested || flush != w->served_flush || steno_fsync_interval == 0 ||
		(steno_fsync_interval > 0 &&
		 (now < last_sync ||	/* the clock was set back */
		  now - last_sync >= steno_fsync_interval * INT64CONST(1000))) || steno_process_must_end();
	if (sync && w->stream.dirty && steno_health_may_try(w, STENO_SYNC, now) && steno_writer_sync(w))
		last_sync = now;
	/* if the sync or the rotation fails, later passes try again */
	if (rotate_if_due(w, rotate != w->served_rotate))
		answer_request(&w->served_rotate, rotate, &w->control->rotate_done);
	if (w->sync_requested && !w->stream.dirty)
	{
		/* a new segment, which syncs, or nothing to sync */
		steno_wake_start(&w->control->wake);
		steno_writer_announce_synced(w);
	}
	if (!w->stream.dirty)
		answer_request(&w->served_flush, flush, &w->control->flush_done);
	if (w->number == 0 && !steno_process_must_end())
	{
		steno_retention(w);
		steno_state_losses(now);
	}
	return atomic_load(&w->control->blocks) != blocks ? PASS_BUSY : PASS_IDLE;
}

/* Make passes until this process is to exit and may do so. */
static void
make_passes(StenoWriter *w, StenoDrain *live)
{
	long		interval = steno_flush_interval;
	uint64		last_busy = steno_clock_ticks(&steno_my.clock);

	for (;;)
	{
		int			fill = Max(fullest_ring(live), steno_chunks_used(live->rings));
		Pass		pass;

		(void) steno_key_is_answered(w);
		pass = make_pass(w, live);
		if (pass == PASS_FAILED)
			return;
		if (pass == PASS_BUSY)
			last_busy = steno_clock_ticks(&steno_my.clock);
		if (ConfigReloadPending || w->reload_pending)
		{
			ConfigReloadPending = false;
			w->reload_pending = false;
			ProcessConfigFile(PGC_SIGHUP);
			if (w->number == 0)
			{
				/* sessions keep the old values until the records of the changes are in the trail */
				if (steno_settings_reloaded(record_reloaded_setting, w))
				{
					if (!steno_writer_write(w))
						return;
					steno_settings_publish();
				}
				if (!record_server_settings(w, false))
					return;
				steno_rules_reload(record_changed_rules, w);
			}
			if (!steno_seal_reload(w))
				return;
			steno_seal_begin_stream(w);
			steno_key_request(w);
			interval = steno_flush_interval;
			continue;
		}
		if (steno_process_must_end())
		{
			if (steno_process_may_end(w))
				return;
			steno_process_sleep(10, STENO_WAIT_MAIN);
			continue;
		}

		/* deletions go on at once, and records in between */
		if (w->number == 0 && steno_retention_is_behind())
			continue;
		/* requests that arrived during this pass are served by the next one */
		if (atomic_load(&w->control->wake.asked) != 0 && !w->failing[STENO_SYNC])
			continue;

		/* choose the interval so that rings get about a third full */
		if (fill > 50)
			interval = Max(interval / 2, SHORTEST_NAP_MS);
		else if (fill < 20)
			interval = Min(interval + interval / 4 + 1, steno_flush_interval);
		interval = Min(interval, steno_flush_interval);
		if (!w->stream.dirty &&
			steno_clock_us(&steno_my.clock, last_busy,
						   steno_clock_ticks(&steno_my.clock)) > IDLE_MS * UINT64CONST(1000))
		{
			announce_sleep(w, live, true);

			/*
			 * Check for records that were published before their backend could see
			 * the announcement.
			 */
			if (fullest_ring(live) == 0 && steno_watch_is_quiet(live))
				steno_process_sleep(DEEP_SLEEP_MS, STENO_WAIT_MAIN);
			announce_sleep(w, live, false);
		}
		else
			steno_process_sleep(interval, STENO_WAIT_MAIN);
	}
}

/*
 * This process exits, and some records are not in the trail.  An intent without a
 * block keeps the ring file, even if its rings are empty, and the next start
 * records that it found one.
 */
static void
keep_ring_file(StenoDrain *drain)
{
	memset(drain->intent->hash, 0, STENO_HASH_SIZE);
	/* as in store_intent: valid must not be set before the rest */
	atomic_thread_fence(memory_order_release);
	drain->intent->valid = STENO_INTENT_MESSAGES;
}

void
steno_writer_main(Datum main_arg)
{
	StenoDrain	live;
	StenoWriter *w;
	StenoStop	stop = {0};

	w = start_writer(DatumGetInt32(main_arg));
	if (w->restarted)
		continue_run(w);
	if (w->number == 0 && atomic_load(&w->control->begun) == 0)
		begin_run(w);
	steno_drain_init(&live, &steno_rings, w->number, steno_rings.nwriters);
	make_passes(w, &live);

	record_outage(w);
	if (w->number == 0)
		steno_state_losses(0);
	if (steno_process_run_ends())
		steno_process_end_lingering(w);
	if (w->number == 0 && steno_process_run_ends())
		record_server_stop(w, &stop);
	if (!steno_drain_rings(w, &live, true) || !steno_writer_write(w))
		keep_ring_file(&live);
	else
	{
		if (steno_process_run_ends())
			atomic_store(&w->control->stopped, 1);
		if (steno_writer_index(w) && steno_seal_stop(w) && steno_writer_sync(w))
		{
			steno_state_stopped(w);
			if (w->number == 0)
				steno_state_stop(&stop);
		}
	}
	steno_stream_close(&w->stream);
	steno_alert_finish();
	steno_process_exit();
}
