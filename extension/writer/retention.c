/*
 * extension/writer/retention.c
 *		Deletes old segments, as steno.retention_size and steno.retention_age say.
 *
 * Writer 0 does this for all streams, so that deletions have one order.  It finds
 * the open segments of other writers in the control area, where each writer
 * publishes the segment that it writes.  What core/retention/retention.c plans is
 * recorded first; the files are deleted when the record is on disk, was read
 * back, and is sealed.  After a crash or an error in between, the next check completes the work
 * from the same record.
 */
#include "writer/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "utils/timestamp.h"

#include "retention/retention.h"

/* Time between two checks of the trail, unless a segment was begun. */
#define LOOK_US (INT64CONST(60) * USECS_PER_SEC)

/* Shortest time between two checks, unless the last one has left something to delete. */
#define REST_US (USECS_PER_SEC / 10)

/* Time between two checks that space is kept for deletions. */
#define KEEP_ROOM_US (INT64CONST(10) * USECS_PER_SEC)

/*
 * Maximum number of files deleted in one pass, because statements may wait for the
 * writer meanwhile.
 */
#define FILES_AT_ONCE 32

/*
 * How often the lock of the slots may be unavailable, at intervals of a second,
 * before that is reported.
 */
#define LOCK_TRIES 10

/*
 * A slot that keeps this share of steno.slot_max_size is warned of, once; so many are known to be near it.  Others are
 * warned of when one of these has gone on.
 */
#define NEAR_PERCENT 80
#define NEAR_MOST 64

StaticAssertDecl(STENO_RETENTION_STREAMS == STENO_MAX_WRITERS, "a stream for each writer");

/*
 * All of this is state of writer 0.  "deleted" is what the trail's records state;
 * it is read from the trail at the first check, and replaced only by what is on
 * disk.
 */
static StenoDeleted deleted[STENO_RETENTION_STREAMS];
static bool loaded;

/* Records that were written, but are not known to be on disk; the chain hash is that of their block. */
static StenoDeleted pending[STENO_RETENTION_STREAMS];
static uint8 pending_chain[STENO_HASH_SIZE];
static bool is_pending;

/* The error that prevents deletions, as it was logged last; empty: there is none. */
static char obstacle[2400];

static bool look_again;			/* check again at the next opportunity, not after LOOK_US */
static bool behind;				/* the last check has left something to delete */
static StenoKeptTrail last_list;	/* the list of that check */
static bool aside;				/* the open block waits for space */
static bool slot_is_lost;		/* as the last check has found */

/* ---- messages ---- */

/* Log an error, unless it is the one that was logged last.  Returns false, for callers to return. */
static bool
report_obstacle(const StenoError *error, const char *consequence)
{
	char		now[sizeof(obstacle)];

	snprintf(now, sizeof(now), "%d %s %s", error->error, error->what, error->path);
	if (strcmp(now, obstacle) == 0)
		return false;
	strlcpy(obstacle, now, sizeof(obstacle));
	errno = error->error;
	if (error->error != 0)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not delete old segments of the trail: %s \"%s\": %m",
						error->what, error->path),
				 errdetail_internal("%s", consequence),
				 errhint("The writer tries again every minute and goes on by itself.")));
	else
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not delete old segments of the trail: %s \"%s\"",
						error->what, error->path),
				 errdetail_internal("%s", consequence),
				 errhint("The writer tries again every minute and goes on by itself.")));
	return false;
}

static void
report_recovery(void)
{
	if (obstacle[0] == '\0')
		return;
	obstacle[0] = '\0';
	ereport(LOG,
			(errmsg("old segments of the trail can be deleted again")));
}

static const char kept_all[] = "All segments are kept.";

/* ---- when ---- */

/*
 * A number that changes when a writer begins a segment.  Relaxed, because it does
 * not matter if a change is seen late.
 */
static uint64
segments_begun(void)
{
	uint64		sum = 0;
	uint32		i;

	for (i = 0; i < steno_rings.nwriters; i++)
		sum += atomic_load_explicit(&steno_control->writers[i].segment, memory_order_relaxed);
	return sum;
}

/* Whether any writer cannot write, perhaps for lack of space. */
static bool
cannot_write(void)
{
	uint32		i;

	for (i = 0; i < steno_rings.nwriters; i++)
		if (atomic_load_explicit(&steno_control->writers[i].health.failing, memory_order_relaxed) != 0)
			return true;
	return false;
}

static bool
is_check_due(void)
{
	static TimestampTz last;
	static uint64 last_begun;
	static int	last_size;
	static int	last_age;
	static int	last_slot_max;
	TimestampTz now = GetCurrentTimestamp();
	uint64		begun = segments_begun();
	bool		changed = begun != last_begun || steno_retention_size != last_size ||
		steno_retention_age != last_age || steno_slot_max_size != last_slot_max || look_again ||
		cannot_write();

	/* if the clock was set back, check at once */
	if (!behind && last != 0 && now >= last && now - last < (changed ? REST_US : LOOK_US))
		return false;
	last = now;
	last_begun = begun;
	last_size = steno_retention_size;
	last_age = steno_retention_age;
	last_slot_max = steno_slot_max_size;
	look_again = false;
	return true;
}

/* ---- the segments that exist ---- */

/*
 * Lock the folder of the slots.  Programs that create or move a slot take the same
 * lock, so no slot can begin to need a segment between the plan and its deletion.
 * Returns the folder's descriptor, which holds the lock; -1 if the lock is not
 * available.  Never waits.
 */
static int
lock_slots(StenoError *error)
{
	int			fd;

	snprintf(error->path, sizeof(error->path), "%s/" STENO_SLOTS_FOLDER, steno_directory);
	strcpy(error->what, "could not lock folder");
	if (mkdir(error->path, pg_dir_create_mode) != 0 && errno != EEXIST &&
		!(errno == ENOSPC && steno_deleted_release_room(steno_directory) &&
		  mkdir(error->path, pg_dir_create_mode) == 0))
		strcpy(error->what, "could not create folder");
	else if ((fd = open(error->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0)
	{
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		error->error = errno;
		close(fd);
		return -1;
	}
	error->error = errno;
	return -1;
}

/*
 * Protect the open segments of all writers.  Nothing is deleted while a writer has
 * not opened a segment, because it is not known which stream it will write; unless it
 * fails to, perhaps for lack of space: the last segment of each stream is safe anyway.  A
 * writer stores its stream before its first segment (release), so a process that
 * sees the segment (acquire) also sees the stream.
 */
static void
protect_open_segments(StenoKeptTrail *kept)
{
	uint32		i;
	uint32		j;

	for (i = 0; i < steno_rings.nwriters; i++)
	{
		const StenoWriterControl *writer = &steno_control->writers[i];
		uint64		segment = atomic_load_explicit(&writer->segment, memory_order_acquire);
		uint32		stream = atomic_load(&writer->stream);

		if (segment == 0 && atomic_load(&((StenoWriterControl *) writer)->health.failing) != 0)
			continue;
		if (segment == 0)
			for (j = 0; j < STENO_RETENTION_STREAMS; j++)
				kept->streams[j].open = 0;
		else if (stream < STENO_RETENTION_STREAMS)
			kept->streams[stream].open = Min(kept->streams[stream].open, segment);
	}
}

/*
 * Segments before the first one are missing, and no record states that they were
 * deleted by policy.  This is reported once; no record is made of it, because the
 * server did not delete them.
 */
static void
report_missing_before(const StenoKeptTrail *kept)
{
	uint32		i;

	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
	{
		const StenoKeptStream *s = &kept->streams[i];

		if (s->count > 0 && s->segments[0].segment > deleted[i].last + 1)
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("segments of stream %u of the trail before segment %llu are gone, and were not deleted by policy",
							i, (unsigned long long) s->segments[0].segment),
					 errhint("Run \"steno verify\".")));
	}
}

/* ---- deleting ---- */

/* Delete the files of segments whose deletion is recorded. */
static bool
delete_recorded(const StenoKeptTrail *kept, StenoError *error)
{
	bool		ok = true;
	uint32		i;

	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		if (deleted[i].last > 0 && !steno_deleted_finish(kept, i, &deleted[i], error))
			ok = report_obstacle(error, "What has been recorded as deleted is still there.");
	return ok;
}

static bool
sync_records(StenoWriter *w, StenoError *error)
{
	/* while the open block waits, nothing else may */
	if (!aside)
		return steno_writer_sync(w);	/* which reports a failure */
	if (!steno_stream_sync(&w->stream, error))
		return report_obstacle(error, kept_all);
	steno_state_synced(w, false);
	return true;
}

/*
 * Sync, and read the records back; only then do they take effect.  False if they
 * are not certain to be on disk.
 */
static bool
confirm_on_disk(StenoWriter *w)
{
	StenoError	error = {0};
	StenoDeleted before[STENO_RETENTION_STREAMS];
	const StenoDeleted *new = NULL;
	bool		there;
	uint32		i;

	if (!sync_records(w, &error))
		return false;
	is_pending = false;
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		if (pending[i].last > 0 && memcmp(pending[i].at_chain, pending_chain, STENO_HASH_SIZE) == 0)
			new = &pending[i];
	there = new != NULL &&
		steno_segment_has_block(steno_directory, new->at_stream, new->at_segment, new->at_offset,
								new->at_block, pending_chain, &error);
	if (!there && error.what[0] != '\0')
	{
		/* they may be there */
		is_pending = true;
		return report_obstacle(&error, kept_all);
	}
	if (!there)
		return false;			/* the disk has lost them: plan again */
	memcpy(before, deleted, sizeof(before));
	memcpy(deleted, pending, sizeof(deleted));
	if (!steno_deleted_store(steno_directory, (mode_t) steno_file_mode, deleted, NULL, &error))
	{
		/* not fatal: the file that record_plan stored also leads to the records */
		report_obstacle(&error, kept_all);
	}
	return true;
}

static void
record_deletion(StenoWriter *w, uint32 stream, const StenoDeleted *d, bool repeated)
{
	StenoDeletedPairs described;
	const char *pairs[2 * (STENO_DELETED_PAIRS + 3)] = {"event", "deleted", "version", PG_VERSION};
	int			n = 2;

	steno_deleted_describe(stream, d, &described);
	memcpy(&pairs[2 * n], described.pairs, 2 * described.count * sizeof(char *));
	n += described.count;
	if (repeated)
	{
		pairs[2 * n] = "repeated";
		pairs[2 * n++ + 1] = "true";
	}
	steno_writer_server(w, pairs, n);
}

/* Streams whose latest record is repeated, and those that have a new one. */
static bool again[STENO_RETENTION_STREAMS];
static bool anew[STENO_RETENTION_STREAMS];

static void
put_records(StenoWriter *w)
{
	uint32		i;

	if (aside)
		steno_seal_put_aside(w);
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		if (anew[i] || again[i])
			record_deletion(w, i, &pending[i], again[i]);
}

/* Write the records: now, even if only the reserve of the disk has space. */
static bool
write_records(StenoWriter *w)
{
	StenoError	error = {0};

	if (!aside)
	{
		put_records(w);
		w->use_reserve = true;
		return steno_writer_write(w);
	}
	if (!steno_writer_write_aside(w, put_records, &error))
		return report_obstacle(&error, kept_all);
	steno_seal_block_inserted(w);
	return true;
}

/*
 * Write the records of a plan, in a block of their own, but for a seal.  The latest record of
 * another stream is repeated if the segment that has it is deleted by this plan.
 */
static bool
record_plan(StenoWriter *w, const StenoPlan *plan)
{
	StenoError	error = {0};
	uint32		i;

	memcpy(pending, deleted, sizeof(pending));
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
	{
		anew[i] = plan->next[i].last > 0;
		again[i] = !anew[i] && deleted[i].last > 0 &&
			deleted[i].at_segment <= plan->next[deleted[i].at_stream].last;
		if (!anew[i] && !again[i])
			continue;
		if (anew[i])
			pending[i] = plan->next[i];
		pending[i].at_stream = w->stream.number;
		pending[i].at_segment = w->stream.segment;
		pending[i].at_offset = w->stream.offset;
		pending[i].at_block = w->stream.next_block;
		memset(pending[i].at_chain, 0, STENO_HASH_SIZE);
	}
	/*
	 * Retention's state file is stored first, and names the new records as well as
	 * the previous ones: a crash may lose the new records, but not the way to the
	 * latest that are on disk.
	 */
	if (!steno_deleted_store(steno_directory, (mode_t) steno_file_mode, pending, deleted, &error))
		return report_obstacle(&error, kept_all);
	if (!write_records(w))
		return false;
	memcpy(pending_chain, w->stream.chain, STENO_HASH_SIZE);
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		if (anew[i] || again[i])
			memcpy(pending[i].at_chain, pending_chain, STENO_HASH_SIZE);
	is_pending = true;
	return true;
}

/*
 * Seal the records before the files go, so that no reader misses segments whose deletion
 * nothing proves yet.  While the open block waits for space, its seal comes with it.
 */
static bool
seal_records(StenoWriter *w)
{
	bool		ok;

	if (aside)
	{
		steno_seal_request();
		return true;
	}
	w->use_reserve = true;
	ok = steno_seal_at_once(w);
	w->use_reserve = false;		/* there may have been nothing to write */
	return ok;
}

static void
warn_of_lost_slots(StenoWriter *w, const StenoSlots *slots, const StenoPlan *plan)
{
	char		message[STENO_FAILURE_TEXT];
	uint32		i;

	for (i = 0; i < slots->count; i++)
	{
		if (!plan->lost[i])
			continue;
		snprintf(message, sizeof(message),
				 "slot \"%s\" of the trail is lost: it wanted more than \"steno.slot_max_size\"", slots->list[i].name);
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg_internal("%s", message),
				 errdetail("Segments that it had not read yet are deleted."),
				 errhint("Use \"steno slot advance --force\" to go on from what is left, or \"steno slot drop\".")));
		steno_alert("slot_lost", w->number, message);
	}
}

/*
 * Whether a slot is lost is in the status until none is, so it is looked for at each check.  If the slots cannot be
 * read, nothing new is known.
 */
static void
look_for_lost_slots(StenoWriter *w, const StenoKeptTrail *kept)
{
	StenoError	error = {0};
	StenoSlots	slots;
	uint32		i;

	if (steno_slots_read(steno_directory, &slots, &error))
	{
		slot_is_lost = false;
		for (i = 0; i < slots.count; i++)
			slot_is_lost |= steno_slot_is_lost(&slots.list[i], kept, deleted);
		steno_health_set_problem(w, STENO_PROBLEM_SLOT, slot_is_lost);
	}
	steno_slots_free(&slots);
}

/* The slots that are near their limit, and were warned of; empty: none. */
static char near_limit[NEAR_MOST][STENO_SLOT_NAME];

/* Where a name is among them; NULL: nowhere. */
static char *
find_near(const char *name)
{
	int			i;

	for (i = 0; i < NEAR_MOST; i++)
		if (strcmp(near_limit[i], name) == 0)
			return near_limit[i];
	return NULL;
}

static void
warn_of_near_slot(StenoWriter *w, const char *name, uint64 bytes, uint64 most)
{
	char		message[STENO_FAILURE_TEXT];

	snprintf(message, sizeof(message), "slot \"%s\" of the trail keeps %llu MB, %llu percent of \"steno.slot_max_size\"",
			 name, (unsigned long long) bytes / (1024 * 1024), (unsigned long long) (bytes * 100 / most));
	ereport(WARNING,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg_internal("%s", message),
			 errdetail("If it keeps more than that, segments that it has not read are deleted when other limits of the trail require it, and it is lost."),
			 errhint("Let its reader go on, raise \"steno.slot_max_size\", or use \"steno slot drop\".")));
	steno_alert("slot_warning", w->number, message);
}

/* Say once of each slot that it is near steno.slot_max_size, which is "most"; 0 or less: there is no limit. */
static void
warn_of_near_slots(StenoWriter *w, const StenoKeptTrail *kept, const StenoSlots *slots, int64 most)
{
	uint32		i;
	int			k;

	for (k = 0; k < NEAR_MOST; k++)
	{
		for (i = 0; i < slots->count && strcmp(slots->list[i].name, near_limit[k]) != 0; i++)
			;
		if (i == slots->count)
			near_limit[k][0] = '\0';	/* it was dropped */
	}
	for (i = 0; i < slots->count; i++)
	{
		const StenoSlot *slot = &slots->list[i];
		uint64		bytes = steno_slot_bytes(slot, kept);
		bool		is_near = most > 0 && bytes >= (uint64) most / 100 * NEAR_PERCENT &&
			!steno_slot_is_lost(slot, kept, deleted);
		char	   *known = find_near(slot->name);
		char	   *room = find_near("");

		if (!is_near && known)
			known[0] = '\0';
		else if (is_near && !known && room)
		{
			strlcpy(room, slot->name, STENO_SLOT_NAME);
			warn_of_near_slot(w, slot->name, bytes, (uint64) most);
		}
	}
}

/* Say once that the limit is exceeded because of slots. */
static void
report_excess(const StenoPlan *plan)
{
	static bool reported;
	uint64		limit = (uint64) steno_retention_size * 1024 * 1024;
	bool		exceeded = limit > 0 && plan->left > limit && plan->kept_by_slots;

	if (plan->more)
		return;
	if (exceeded && !reported)
		ereport(WARNING,
				(errmsg("the trail takes %llu MB, which is more than \"steno.retention_size\"",
						(unsigned long long) (plan->left / (1024 * 1024))),
				 errdetail("Slots need segments that would be deleted otherwise."),
				 errhint("See \"steno.slots\". A program that no longer reads the trail should not have a slot; \"steno.slot_max_size\" limits what one can keep.")));
	reported = exceeded;
}

/*
 * The limits are new, since the start or a reload: say how much will be deleted, before
 * anything is.  A value without a unit may not be what somebody thought.
 */
static void
announce_limits(const StenoKeptTrail *kept, const StenoSlots *slots, const StenoLimits *limits)
{
	static StenoLimits announced;
	static bool first = true;
	StenoForecast forecast;
	StenoError	error = {0};
	uint64		before = 0;
	uint32		i;

	if (announced.size == limits->size && announced.age == limits->age &&
		announced.slot_max_size == limits->slot_max_size)
		return;
	/* if it fails, the plan that follows says why */
	if (!steno_retention_forecast(kept, deleted, slots, limits, &forecast, &error))
		return;
	announced = *limits;
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		before += steno_kept_bytes(&kept->streams[i], deleted[i].last + 1);
	/* a start says the limits themselves */
	if (forecast.files > 0 || !first)
		ereport(LOG,
				(errmsg_plural("%u segment with %llu kB of the trail's %llu kB will be deleted now",
							   "%u segments with %llu kB of the trail's %llu kB will be deleted now",
							   forecast.files, forecast.files, (unsigned long long) forecast.bytes / 1024,
							   (unsigned long long) before / 1024),
				 errdetail("\"steno.retention_age\" is %lld minutes, which are %.1f days, and \"steno.retention_size\" is %llu MB; 0 is no limit.",
						   (long long) (limits->age / USECS_PER_SEC / SECS_PER_MINUTE),
						   (double) limits->age / USECS_PER_DAY, (unsigned long long) limits->size / (1024 * 1024))));
	first = false;
}

static bool
plan_and_record(StenoWriter *w, const StenoKeptTrail *kept, bool *more)
{
	StenoError	error = {0};
	StenoSlots	slots;
	StenoPlan	plan;
	StenoLimits limits = {
		.size = (uint64) steno_retention_size * 1024 * 1024,
		.age = (int64) steno_retention_age * SECS_PER_MINUTE * USECS_PER_SEC,
		.slot_max_size = steno_slot_max_size < 0 ? -1 : (int64) steno_slot_max_size * 1024 * 1024,
		.now = GetCurrentTimestamp(),
		.most = FILES_AT_ONCE
	};
	bool		recorded = false;

	if (!steno_slots_read(steno_directory, &slots, &error) || error.what[0] != '\0')
		report_obstacle(&error, "All segments are kept, since it is not known which of them the slot wants.");
	else if (!steno_retention_plan(kept, deleted, &slots, &limits, &plan, &error))
		report_obstacle(&error, kept_all);
	else
	{
		announce_limits(kept, &slots, &limits);
		recorded = plan.files > 0 && record_plan(w, &plan);
		if (recorded)
			warn_of_lost_slots(w, &slots, &plan);
		else
			warn_of_near_slots(w, kept, &slots, limits.slot_max_size);
		*more = plan.more;
		report_excess(&plan);
		if (plan.files == 0)
			report_recovery();
		steno_plan_free(&plan);
	}
	steno_slots_free(&slots);
	return recorded;
}

/* Returns whether segments were deleted. */
static bool
apply_limits(StenoWriter *w, StenoKeptTrail *kept)
{
	StenoError	error = {0};
	bool		more = false;

	behind = false;
	if (!loaded)
	{
		if (!steno_deleted_load(steno_directory, deleted, &error))
			return report_obstacle(&error, kept_all);
		loaded = true;
		report_missing_before(kept);
	}
	if ((is_pending && (!confirm_on_disk(w) || !seal_records(w))) || !delete_recorded(kept, &error))
		return false;
	if (steno_retention_size == 0 && steno_retention_age == 0)
	{
		report_recovery();
		return false;
	}
	protect_open_segments(kept);
	if (!plan_and_record(w, kept, &more) || !confirm_on_disk(w) || !seal_records(w) ||
		!delete_recorded(kept, &error))
		return false;
	report_recovery();
	behind = more;
	return true;
}

static bool
trail_has(const char *name)
{
	char		path[MAXPGPATH];

	snprintf(path, sizeof(path), "%s/%s", steno_directory, name);
	return access(path, F_OK) == 0 || errno != ENOENT;
}

/*
 * Whether there can be anything to do: without limits, only what an earlier run has
 * not completed, and slots that it has left lost.
 */
static bool
has_work(void)
{
	static bool first = true;

	if (steno_retention_size > 0 || steno_retention_age > 0 || is_pending || look_again ||
		obstacle[0] != '\0' || slot_is_lost)
		return true;
	if (!first)
		return false;
	first = false;
	return trail_has(STENO_RETENTION_FILE) || trail_has(STENO_SLOTS_FOLDER);
}

/*
 * The segments that exist.  While there is more to delete than at once, the list of the
 * last check is used again: what was added since is not to be deleted.
 */
static bool
list_segments(StenoKeptTrail *kept, StenoError *error)
{
	if (behind && last_list.path != NULL)
	{
		*kept = last_list;
		memset(&last_list, 0, sizeof(last_list));
		return true;
	}
	if (!steno_kept_list(steno_directory, &last_list, kept, error))
		return report_obstacle(error, kept_all);
	steno_kept_free(&last_list);
	return true;
}

/* Look for what is to be deleted, and delete it; returns whether anything was. */
static bool
check_trail(StenoWriter *w)
{
	static int	refused;
	StenoError	error = {0};
	StenoKeptTrail kept;
	bool		done = false;
	int			lock = lock_slots(&error);

	if (lock < 0)
	{
		/*
		 * Others hold the lock only briefly: try again soon, and report it only if
		 * that fails often.
		 */
		behind = false;
		look_again = error.error == EWOULDBLOCK && ++refused < LOCK_TRIES;
		if (!look_again)
			report_obstacle(&error, kept_all);
		steno_health_set_problem(w, STENO_PROBLEM_RETENTION, obstacle[0] != '\0');
		return false;
	}
	refused = 0;
	/* list only under the lock, so that the list and the slots belong together */
	if (list_segments(&kept, &error))
	{
		done = apply_limits(w, &kept);
		look_for_lost_slots(w, &kept);
		steno_kept_forget(&kept, deleted);
		last_list = kept;
	}
	else
		behind = false;
	close(lock);
	steno_health_set_problem(w, STENO_PROBLEM_RETENTION, obstacle[0] != '\0');
	return done;
}

/* Keep space for the records of deletions, while there is enough. */
static void
keep_room(const StenoWriter *w)
{
	static TimestampTz last;
	TimestampTz now = GetCurrentTimestamp();

	if (last != 0 && now >= last && now - last < KEEP_ROOM_US)
		return;
	last = now;
	if (steno_disk_reserve == 0 || w->disk_room > STENO_RETENTION_ROOM)
		(void) steno_deleted_keep_room(steno_directory);
}

/* A check is under way, which may wait for space itself. */
static bool checking;

/* Called in each pass of writer 0. */
void
steno_retention(StenoWriter *w)
{
	keep_room(w);
	/* the open block comes first, so that the position of the records' block is known */
	if (!has_work() || !is_check_due() || !steno_writer_write(w))
		return;
	checking = true;
	(void) check_trail(w);
	checking = false;
}

/* Whether a check is due at once, because the last one has left something to delete. */
bool
steno_retention_is_behind(void)
{
	return behind;
}

/*
 * There is no space for the open block: delete what the limits, which may have been
 * lowered just now, do not keep.  The records of that are written before the open block,
 * into the reserve, or where the file was that keeps space for them.  Returns whether
 * there may be space now.  Never waits.
 */
bool
steno_retention_make_space(StenoWriter *w)
{
	bool		done;

	if (w->number != 0)
		return false;
	/* it is the block of a record of a deletion, or of its seal, that waits */
	if (checking)
		return steno_deleted_release_room(steno_directory);
	/* nothing can be recorded without a segment, but one may fit now */
	if (w->stream.fd < 0)
		return steno_deleted_release_room(steno_directory);
	if (!has_work())
		return false;

	/* nothing may come before the first seal of a run, and rarely before another one: it is written */
	if (steno_seal_is_alone(w) || !steno_seal_may_follow(w))
	{
		if (w->use_reserve)
			return false;
		w->use_reserve = true;
		(void) steno_deleted_release_room(steno_directory);
		return true;
	}
	checking = aside = true;
	done = check_trail(w);
	checking = aside = false;
	return done;
}
