/*
 * extension/load/shmem.c
 *		The ring file and the control area.
 *
 * Every run of the server (a start, or a restart after a crash of one of its
 * processes) makes a ring file of its own, before it starts any process.  The
 * files of earlier runs stay until a writer has drained them (recover.c), so
 * that no process ever finds another run's data in its ring.  The mapping is
 * inherited by fork.  At a clean shutdown, when all is drained, the file goes.
 * After any other end it stays, even if it is empty: the next start's record that
 * it was recovered says that nothing was lost.
 *
 * The control area is ordinary shared memory of the server: latches, requests
 * and counters, nothing that must outlive a crash.
 */
#include "base/steno.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/last_stop.h"
#include "base/ring_folder.h"
#include "load/load.h"
#include "policy/rules.h"
#include "session/leader.h"
#include "session/session.h"
#include "session/settings_in_force.h"
#include "writer/writer.h"

static const char *const wait_names[STENO_WAITS] = {
	[STENO_WAIT_ROOM] = "StenoRingFull",
	[STENO_WAIT_SYNC] = "StenoSync",
	[STENO_WAIT_ANSWER] = "StenoAnswer",
	[STENO_WAIT_MAIN] = "StenoWriterMain",
	[STENO_WAIT_RETRY] = "StenoWriterRetry",
};

static char ring_folder[MAXPGPATH];
static bool writers_stopped;
static shmem_request_hook_type previous_request;
static shmem_startup_hook_type previous_startup;

/* Whether the trail's directory is that directory, or in it. */
static bool
trail_is_in(const char *trail, const char *directory)
{
	char		path[PATH_MAX];
	size_t		len;

	if (realpath(directory, path) == NULL)
		return false;
	len = strlen(path);
	return strncmp(trail, path, len) == 0 && (trail[len] == '/' || trail[len] == '\0');
}

/*
 * The trail must not be among the server's own files: some of these directories are emptied at a start
 * or left out of backups, and the directories of databases have numbers as names, like those of
 * streams.
 */
static void
check_own_directory(void)
{
	/* what initdb creates; the current directory is the data directory */
	static const char *const directories[] = {
		"base", "global", "pg_commit_ts", "pg_dynshmem", "pg_logical", "pg_multixact", "pg_notify", "pg_replslot",
		"pg_serial", "pg_snapshots", "pg_stat", "pg_stat_tmp", "pg_subtrans", "pg_tblspc", "pg_twophase", "pg_wal",
		"pg_xact"
	};
	char		trail[PATH_MAX];
	char		data[PATH_MAX];
	bool		inside;
	int			i;

	if (realpath(steno_directory, trail) == NULL)
		return;					/* the next check says why */
	inside = realpath(DataDir, data) != NULL && strcmp(trail, data) == 0;
	for (i = 0; i < lengthof(directories); i++)
		inside |= trail_is_in(trail, directories[i]);
	if (inside)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("trail directory \"%s\" contains files of the server itself, or is among them", steno_directory),
				 errhint("Set \"steno.directory\" to a directory of its own, preferably outside the data directory.")));
}

/* The trail's directory must be there, ours, and writable, or we do not start. */
static void
check_trail_directory(void)
{
	char		probe[MAXPGPATH];
	struct stat st;
	int			fd;

	if (steno_make_folder(steno_directory, steno_folder_mode((mode_t) steno_file_mode)) < 0 && errno != EEXIST)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not create trail directory \"%s\": %m",
						steno_directory),
				 errhint("Set \"steno.directory\" to a directory that the server can write.")));
	check_own_directory();
	snprintf(probe, sizeof(probe), "%s/.write_test", steno_directory);
	/* what is there already is nobody's, or a trap */
	unlink(probe);
	fd = open(probe, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not write to trail directory \"%s\": %m",
						steno_directory),
				 errhint("Set \"steno.directory\" to a directory that the server can write.")));
	close(fd);
	unlink(probe);
	if (stat(steno_directory, &st) == 0 &&
		((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & S_IWOTH) != 0))
		ereport(WARNING,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("other accounts can change trail directory \"%s\"", steno_directory),
				 errdetail("It belongs to user ID %u and has mode %04o.", (unsigned) st.st_uid, (unsigned) (st.st_mode & 07777)),
				 errhint("Change its owner to the server's account, and its permissions to u=rwx,go=.")));
	if (!is_absolute_path(steno_directory) && (steno_file_mode & 0040) && (data_directory_mode & 0050) != 0050)
		ereport(WARNING,
				(errmsg("the group cannot read the trail in directory \"%s\", although \"steno.file_mode\" is %04o",
						steno_directory, steno_file_mode),
				 errdetail("The data directory has no group access."),
				 errhint("Set \"steno.directory\" to a directory outside the data directory.")));
}

/* Whether the trail's directory is in the data directory, not counting what is linked there. */
static bool
trail_is_in_data_directory(void)
{
	char		trail[PATH_MAX];

	return realpath(steno_directory, trail) != NULL && trail_is_in(trail, DataDir);
}

/*
 * Whether pg_upgrade has started this server as the old cluster.  It starts both clusters
 * with -b, and only the new one with -c fsync=off.
 */
static bool
is_old_cluster_of_upgrade(void)
{
	struct config_generic *fsync_setting;

	if (!IsBinaryUpgrade)
		return false;
	fsync_setting = steno_find_setting("fsync");
	return fsync_setting == NULL || fsync_setting->source != PGC_S_ARGV;
}

/*
 * The old cluster of a pg_upgrade must not have its trail in its data directory.  The
 * new cluster has another system identifier, and begins a trail of its own; the old data
 * directory is deleted by the script that pg_upgrade creates, which nobody would expect to
 * delete an audit trail.  "pg_upgrade --check" starts both servers, so it finds this, too.
 */
static void
check_upgrade(void)
{
	if (!is_old_cluster_of_upgrade() || !trail_is_in_data_directory())
		return;
	ereport(FATAL,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("trail directory \"%s\" is inside the data directory that pg_upgrade leaves behind", steno_directory),
			 errdetail("The new cluster begins a trail of its own. The script \"delete_old_cluster.sh\" would delete this one."),
			 errhint("Move the directory out of the data directory, and set \"steno.directory\" in the old cluster to its new path. To leave the trail behind, run pg_upgrade with --old-options='-c shared_preload_libraries='.")));
}

/* Whether every ring is drained, and nobody was in the middle of something. */
static bool
all_drained(void)
{
	uint32		i;

	for (i = 0; i < STENO_MAX_WRITERS; i++)
		if (steno_rings.file->intents[i].valid != 0)
			return false;
	for (i = 0; i < steno_rings.nrings; i++)
	{
		StenoRing  *ring = steno_ring_at(&steno_rings, i);

		if (atomic_load(&ring->head) != atomic_load(&ring->tail) ||
			ring->inflight.active || steno_ring_has_gap(ring) ||
			atomic_load(&ring->orphan_drops) != ring->orphan_drops_recorded || atomic_load(&ring->owner) != 0)
			return false;
	}
	return true;
}

/* Whether each writer that has run has ended with the server.  Of the control area, so while that is there. */
static void
note_writers_end(int code, Datum arg)
{
	writers_stopped = true;
	for (int i = 0; i < STENO_MAX_WRITERS; i++)
		if (atomic_load(&steno_control->writers[i].starts) != 0 && atomic_load(&steno_control->writers[i].stopped) == 0)
			writers_stopped = false;
}

/* The postmaster's last act: what is not drained waits for the next start. */
static void
remove_drained(int code, Datum arg)
{
	if (MyProcPid != PostmasterPid || !steno_active())
		return;
	if (writers_stopped && all_drained())
		unlink(steno_ring_path);
	/* unless something is left in it */
	rmdir(ring_folder);
}

/* Number of chunks that fit into steno.large_buffers. */
static uint32
large_chunks(void)
{
	return (uint32) (steno_large_buffers / (STENO_CHUNK / 1024));
}

/* Whether ring files of earlier runs, which the next writer 0 drains and removes, take space. */
static bool
has_left_ring_files(void)
{
	StenoLeftFiles found;
	char	   *failed;
	bool		result;

	(void) steno_ring_folders_find(&found, strrchr(steno_ring_path, '/') + 1, &failed);
	result = found.nfiles > 0;
	steno_ring_folders_close(&found);
	return result;
}

static bool
is_lack_of_space(int error)
{
	return error == ENOSPC || error == EFBIG || error == ENOMEM;
}

/* Nothing of the new file is left.  size, nchunks: of the rings that were tried last. */
static void
refuse_without_rings(const char *what, uint32 size, uint32 nchunks)
{
	int			save_errno = errno;
	bool		full = is_lack_of_space(save_errno);
	bool		left = full && has_left_ring_files();
	unsigned long long bytes = steno_rings_total(MaxBackends, size, nchunks);

	rmdir(ring_folder);
	errno = save_errno;
	ereport(FATAL,
			(errcode_for_file_access(),
			 errmsg("could not create ring file \"%s\": %s: %m",
					steno_ring_path, what),
			 left ?
			 errdetail("%d rings of %u kB need %llu bytes, in addition to what an earlier run has left in its ring file.",
					   MaxBackends, size / 1024, bytes) :
			 errdetail("%d rings need %llu bytes.", MaxBackends, bytes),
			 left ?
			 errhint("Do not remove that file: it holds records that are not in the trail. Make \"%s\" larger, for example with \"mount -o remount\", or lower \"max_connections\" until the server has started.",
					 steno_ring_directory) :
			 full ?
			 errhint("Free space in \"%s\", set \"steno.ring_directory\" to another memory file system, or lower \"steno.ring_size\" or \"max_connections\".",
					 steno_ring_directory) :
			 errhint("Set \"steno.ring_directory\" to a directory in memory that the server can write.")));
}

/* Make the ring file of the run that begins now; false with errno and *what. */
static bool
create_ring_file(TimestampTz now, uint32 size, uint32 nchunks, const char **what)
{
	char	   *prefix = steno_ring_prefix();
	char	   *name = psprintf("%s%016llx", prefix, (unsigned long long) now);
	int			folder = steno_ring_folder_open(ring_folder, sizeof(ring_folder));
	bool		ok;
	int			error;

	snprintf(steno_ring_path, sizeof(steno_ring_path), "%s/%s", ring_folder, name);
	ok = steno_rings_create(&steno_rings, folder, name, MaxBackends, size, nchunks, steno_writers,
							GetSystemIdentifier(), now, what);
	error = errno;
	close(folder);
	pfree(name);
	pfree(prefix);
	errno = error;
	return ok;
}

/*
 * A run begins, after an earlier one that has left its ring file.  A writer removes it when
 * it has drained it, but there are no writers without rings.  So where the memory does not
 * suffice for both files, the old one gives back what it does not need; and if that is not
 * enough, because much is still to be drained, this run has smaller rings.
 */
static void
create_rings(void)
{
	TimestampTz now = GetCurrentTimestamp();
	uint32		wanted = (uint32) steno_ring_size * 1024;
	uint32		size = wanted;
	uint32		nchunks = large_chunks();
	const char *what;
	bool		first = steno_rings.file == NULL;
	bool		ok;
	int			error;

	if (!first)
		steno_rings_close(&steno_rings);
	/* while the ring files of earlier runs are there */
	steno_state_begin_run((uint64) now, first);
	ok = create_ring_file(now, size, nchunks, &what);
	error = errno;
	if (!ok && is_lack_of_space(error) && steno_ring_folders_shrink())
	{
		ok = create_ring_file(now, size, nchunks, &what);
		while (!ok && is_lack_of_space(errno) && size > STENO_RING_MIN)
		{
			size /= 2;
			nchunks /= 2;
			ok = create_ring_file(now, size, nchunks, &what);
		}
		error = errno;
	}
	errno = error;
	if (!ok)
		refuse_without_rings(what, size, nchunks);
	if (size < wanted)
		ereport(WARNING,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("rings have %u kB instead of the %u kB of \"steno.ring_size\", until the server is restarted",
						size / 1024, wanted / 1024),
				 errdetail("\"%s\" has no space for larger ones beside what an earlier run has left in its ring file.",
						   steno_ring_directory),
				 errhint("Make this file system larger (in a container, with an option such as \"--shm-size\"), and restart the server.")));
	if (first)
		steno_session_prepare_mapping();
	if (first)
		on_proc_exit(remove_drained, (Datum) 0);
}

static Size
control_size(void)
{
	return offsetof(StenoControl, has_news) + STENO_RING_WORDS(MaxBackends) * sizeof(uint64);
}

static void
request_shmem(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(MAXALIGN(control_size()));
	steno_leader_request_shmem();
}

/*
 * Some failures are seen only where the server reports them to its log.  A high
 * log_min_messages for a process that runs statements prevents that.  That of the
 * postmaster would also keep this warning from the log.
 */
static void
warn_of_log_min_messages(void)
{
	static const BackendType types[] = {B_BACKEND, B_WAL_SENDER, B_BG_WORKER};
	int			level = STENO_LOG_MIN_MESSAGES(MyBackendType);
	bool		hides = false;

	for (int i = 0; i < (int) lengthof(types); i++)
		hides |= steno_hides_errors(STENO_LOG_MIN_MESSAGES(types[i]));
	if (!hides)
		return;
	STENO_LOG_MIN_MESSAGES(MyBackendType) = WARNING;
	ereport(WARNING,
			(errmsg("statements that fail before they are planned will not be recorded"),
			 errdetail("pg_steno sees them only if the server reports errors to its log, which \"log_min_messages\" prevents."),
			 errhint("Set \"log_min_messages\" to \"error\" or lower.")));
	STENO_LOG_MIN_MESSAGES(MyBackendType) = level;
}

/* At the server's start: that recording is on, where to, what is kept, and what can stop it. */
static void
report_start(void)
{
	char		kept[160] = "Segments are kept until somebody deletes them";
	bool		limited = steno_retention_age > 0 || steno_retention_size > 0;

	if (limited)
	{
		char		age[64] = "";
		char		size[64] = "";

		if (steno_retention_age > 0)
			snprintf(age, sizeof(age), " %d minutes after they were closed", steno_retention_age);
		if (steno_retention_size > 0)
			snprintf(size, sizeof(size), " when the trail is larger than %d MB", steno_retention_size);
		snprintf(kept, sizeof(kept), "Segments are deleted%s%s%s", age, age[0] && size[0] ? ", or" : "", size);
	}
	ereport(LOG,
			(errmsg("pg_steno records into trail directory \"%s%s%s\"",
					is_absolute_path(steno_directory) ? "" : DataDir,
					is_absolute_path(steno_directory) ? "" : "/", steno_directory),
			 errdetail("%s (\"steno.retention_age\", \"steno.retention_size\"). When the trail cannot be written, such as when less than %d MB of its file system are free (\"steno.disk_reserve\"), %s (\"steno.on_failure\").",
					   kept, steno_disk_reserve, steno_health_consequence()),
			 !limited && !is_absolute_path(steno_directory) ?
			 errhint("Put the trail on a file system of its own with \"steno.directory\", and limit it with \"steno.retention_age\" or \"steno.retention_size\".") : 0));
}

static void
startup_shmem(void)
{
	bool		first = steno_rings.file == NULL;

	bool		found;
	int			i;

	if (previous_startup)
		previous_startup();
	if (!IsPostmasterEnvironment)
		return;

	steno_control = ShmemInitStruct("pg_steno", control_size(), &found);
	if (!found)
	{
		memset(steno_control, 0, control_size());
		ConditionVariableInit(&steno_control->answered);
		SpinLockInit(&steno_control->roles.mutex);
		for (i = 0; i < STENO_MAX_WRITERS; i++)
		{
			SpinLockInit(&steno_control->writers[i].health.mutex);
			atomic_store(&steno_control->writers[i].gone_since, GetCurrentTimestamp());
		}
	}
	for (i = 0; i < STENO_WAITS; i++)
		steno_wait_events[i] = steno_new_wait_event(wait_names[i]);
	steno_leader_create_shmem();
	steno_settings_publish();
	steno_rules_load();
	if (first)
	{
		steno_writer_check_registered();
		check_trail_directory();
		check_upgrade();
		steno_trail_claim();
		steno_seal_check_key();
		steno_key_check();
		warn_of_log_min_messages();
	}
	create_rings();
	on_shmem_exit(note_writers_end, (Datum) 0);
	steno_last_stop_begin_run();
	if (first)
	{
		report_start();
		steno_outermost_check();
	}
}

void
steno_shmem_install(void)
{
	previous_request = shmem_request_hook;
	shmem_request_hook = request_shmem;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}
