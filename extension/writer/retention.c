/*
 * extension/writer/retention.c
 *		Deletes old segments, as steno.retention_size and steno.retention_age say.
 *
 * Writer 0 does this for all streams, so that there is one order.  It knows the other
 * writers' open segments from the control area, where each writer says which segment it
 * writes.  What core/retention/retention.c plans is recorded first; when the record is on
 * disk, and was read back, the files are deleted.  If a crash or an error comes in between,
 * the next look finishes the work from the same record.
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

/* Time between two looks at the trail, unless a segment was begun. */
#define LOOK_US (INT64CONST(60) * USECS_PER_SEC)

/* Shortest time between two looks. */
#define REST_US USECS_PER_SEC

/* Files deleted in one go: statements may wait for the writer meanwhile. */
#define FILES_AT_ONCE 32

/* How often the slots' lock may be refused, a second apart, before that is reported. */
#define LOCK_TRIES 10

StaticAssertDecl(STENO_RETENTION_STREAMS == STENO_MAX_WRITERS, "a stream for each writer");

/*
 * All of this is writer 0's own.  "deleted" is what the trail's records say, read from the
 * trail at the first look, and replaced only by what is on disk.
 */
static StenoDeleted deleted[STENO_RETENTION_STREAMS];
static bool loaded;

/* Records that were written, but are not known to be on disk; the chain hash is that of their block. */
static StenoDeleted pending[STENO_RETENTION_STREAMS];
static uint8 pending_chain[STENO_HASH_SIZE];
static bool is_pending;

/* The error that prevents deletions, as it was logged last; empty: there is none. */
static char obstacle[2400];

static bool look_again;			/* at the next opportunity, not in a minute */

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
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not delete old segments of the trail: %s \"%s\": %m",
						error->what, error->path),
				 errdetail_internal("%s", consequence),
				 errhint("The writer tries again every minute and goes on by itself.")));
	else
		ereport(LOG,
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

/* A number that changes when a writer begins a segment.  Relaxed: a late look is soon enough. */
static uint64
segments_begun(void)
{
	uint64		sum = 0;
	uint32		i;

	for (i = 0; i < steno_rings.nwriters; i++)
		sum += atomic_load_explicit(&steno_control->writers[i].segment, memory_order_relaxed);
	return sum;
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
		steno_retention_age != last_age || steno_slot_max_size != last_slot_max || look_again;

	/* when the clock was set back, look at once */
	if (last != 0 && now >= last && now - last < (changed ? REST_US : LOOK_US))
		return false;
	last = now;
	last_begun = begun;
	last_size = steno_retention_size;
	last_age = steno_retention_age;
	last_slot_max = steno_slot_max_size;
	look_again = false;
	return true;
}

/* ---- what is there ---- */

/*
 * Lock the folder of the slots.  Whoever creates or moves a slot takes the same lock, so no
 * slot can begin to want a segment between the plan and its deletion.  Returns the folder's
 * descriptor, which holds the lock; -1: not now.  Never waits.
 */
static int
lock_slots(StenoError *error)
{
	int			fd;

	snprintf(error->path, sizeof(error->path), "%s/" STENO_SLOTS_FOLDER, steno_directory);
	strcpy(error->what, "could not lock folder");
	if (mkdir(error->path, pg_dir_create_mode) != 0 && errno != EEXIST)
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
 * No writer's open segment is deleted.  While a writer has not opened one yet, nothing is:
 * it is not known which stream it will write.  A writer stores its stream before its first
 * segment, so whoever sees a segment (acquire) sees its stream, too.
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

		if (segment == 0)
			for (j = 0; j < STENO_RETENTION_STREAMS; j++)
				kept->streams[j].open = 0;
		else if (stream < STENO_RETENTION_STREAMS)
			kept->streams[stream].open = Min(kept->streams[stream].open, segment);
	}
}

/*
 * Segments before the first one are missing, and no record says that they were deleted by
 * policy.  This is reported once, and not made up for: somebody else has removed them.
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

/*
 * Sync, and read the records back; what they say is in force only then.  False: they are not
 * certain to be on disk.
 */
static bool
confirm_on_disk(StenoWriter *w)
{
	StenoError	error = {0};
	StenoDeleted before[STENO_RETENTION_STREAMS];
	const StenoDeleted *new = NULL;
	bool		there;
	uint32		i;

	if (!steno_writer_sync(w))
		return false;			/* which it has reported */
	is_pending = false;
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		if (pending[i].last > 0 && memcmp(pending[i].at_chain, pending_chain, STENO_HASH_SIZE) == 0)
			new = &pending[i];
	there = new != NULL &&
		steno_segment_has_block(steno_directory, new->at_stream, new->at_segment, new->at_offset,
								new->at_block, pending_chain);
	if (!there)
		return false;			/* the disk has lost them: plan again */
	memcpy(before, deleted, sizeof(before));
	memcpy(deleted, pending, sizeof(deleted));
	if (!steno_deleted_store(steno_directory, deleted, NULL, &error))
	{
		/* not fatal: the file that record_plan stored leads to the records, too */
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

/*
 * Write the records of a plan, in a block of their own.  The latest record of another stream
 * is repeated if the segment that has it is deleted by this plan.
 */
static bool
record_plan(StenoWriter *w, const StenoPlan *plan)
{
	StenoError	error = {0};
	bool		again[STENO_RETENTION_STREAMS];
	uint32		i;

	/* write what is open, so that the place of the records' block is known now */
	if (!steno_writer_write(w))
		return false;
	memcpy(pending, deleted, sizeof(pending));
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
	{
		again[i] = plan->next[i].last == 0 && deleted[i].last > 0 &&
			deleted[i].at_segment <= plan->next[deleted[i].at_stream].last;
		if (plan->next[i].last == 0 && !again[i])
			continue;
		if (!again[i])
			pending[i] = plan->next[i];
		pending[i].at_stream = w->stream.number;
		pending[i].at_segment = w->stream.segment;
		pending[i].at_offset = w->stream.offset;
		pending[i].at_block = w->stream.next_block;
		memset(pending[i].at_chain, 0, STENO_HASH_SIZE);
	}
	/*
	 * The state file comes first, and names both the records to come and those before: a
	 * crash may lose the new records, but never the way to the latest ones.
	 */
	if (!steno_deleted_store(steno_directory, pending, deleted, &error))
		return report_obstacle(&error, kept_all);
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		if (plan->next[i].last > 0 || again[i])
			record_deletion(w, i, &pending[i], again[i]);
	if (!steno_writer_write(w))
		return false;
	memcpy(pending_chain, w->stream.chain, STENO_HASH_SIZE);
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		if (plan->next[i].last > 0 || again[i])
			memcpy(pending[i].at_chain, pending_chain, STENO_HASH_SIZE);
	is_pending = true;
	return true;
}

static void
warn_of_lost_slots(const StenoSlots *slots, const StenoPlan *plan)
{
	uint32		i;

	for (i = 0; i < slots->count; i++)
		if (plan->lost[i])
			ereport(WARNING,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("slot \"%s\" of the trail is lost: it wanted more than \"steno.slot_max_size\"",
							slots->list[i].name),
					 errdetail("Segments that it had not read yet are deleted."),
					 errhint("Use \"steno slot advance --force\" to go on from what is left, or \"steno slot drop\".")));
}

static bool
plan_and_record(StenoWriter *w, const StenoKeptTrail *kept)
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
	else if (!steno_retention_plan(kept, deleted, &slots, &limits, &plan))
	{
		error = (StenoError) {.error = ENOMEM, .what = "out of memory for"};
		strlcpy(error.path, steno_directory, sizeof(error.path));
		report_obstacle(&error, kept_all);
	}
	else
	{
		recorded = plan.files > 0 && record_plan(w, &plan);
		if (recorded)
			warn_of_lost_slots(&slots, &plan);
		look_again = plan.more;
		if (plan.files == 0)
			report_recovery();
		steno_plan_free(&plan);
	}
	steno_slots_free(&slots);
	return recorded;
}

static void
apply_limits(StenoWriter *w, StenoKeptTrail *kept)
{
	StenoError	error = {0};

	if (!loaded)
	{
		if (!steno_deleted_load(steno_directory, deleted, &error))
		{
			report_obstacle(&error, kept_all);
			return;
		}
		loaded = true;
		report_missing_before(kept);
	}
	if (is_pending && !confirm_on_disk(w))
		return;
	if (!delete_recorded(kept, &error))
		return;
	if (steno_retention_size == 0 && steno_retention_age == 0)
	{
		report_recovery();
		return;
	}
	protect_open_segments(kept);
	if (!plan_and_record(w, kept) || !confirm_on_disk(w))
		return;
	if (delete_recorded(kept, &error))
		report_recovery();
}

/* Whether there can be anything to do: without limits, only what an earlier run has not finished. */
static bool
has_work(void)
{
	static bool first = true;
	char		path[MAXPGPATH];

	if (steno_retention_size > 0 || steno_retention_age > 0 || is_pending || look_again ||
		obstacle[0] != '\0')
		return true;
	if (!first)
		return false;
	first = false;
	snprintf(path, sizeof(path), "%s/" STENO_RETENTION_FILE, steno_directory);
	return access(path, F_OK) == 0;
}

/* Called in each pass of writer 0. */
void
steno_retention(StenoWriter *w)
{
	static int	refused;
	static StenoKeptTrail before;
	StenoError	error = {0};
	StenoKeptTrail kept;
	int			lock;

	if (!has_work() || !is_check_due())
		return;
	lock = lock_slots(&error);
	if (lock < 0)
	{
		/* the lock is held only for moments: try again soon, and report it only if that fails often */
		look_again = error.error == EWOULDBLOCK && ++refused < LOCK_TRIES;
		if (!look_again)
			report_obstacle(&error, kept_all);
		steno_health_set_problem(w, STENO_PROBLEM_RETENTION, obstacle[0] != '\0');
		return;
	}
	refused = 0;
	/* list only under the lock, so that the list and the slots belong together */
	if (!steno_kept_list(steno_directory, &before, &kept, &error))
		report_obstacle(&error, kept_all);
	else
	{
		apply_limits(w, &kept);
		steno_kept_free(&before);
		before = kept;
	}
	close(lock);
	steno_health_set_problem(w, STENO_PROBLEM_RETENTION, obstacle[0] != '\0');
}
