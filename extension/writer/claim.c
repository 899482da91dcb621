/*
 * extension/writer/claim.c
 *		Ensures that only one server at a time, and only one cluster, uses the
 *		trail's directory.
 *
 * The postmaster holds a lock on <trail>/.lock, and releases it before it removes
 * postmaster.pid; the kernel releases it when the postmaster ends in another way.
 * Only the lock counts, not the existence of the file.  A lock of fcntl() belongs
 * to one process, so no child of the postmaster keeps it.
 *
 * If the directory is removed or moved while the server runs, the lock goes with
 * it.  The first writer that does not find our lock in the directory takes a new
 * one, and holds it.
 *
 * Also what distinguishes a directory, a file and a machine from another one: the state
 * file (state.c) belongs to one of each.
 */
#include "writer/writer.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/ipc.h"

/*
 * The lock file that the postmaster has locked.  Inherited by its children, which
 * compare it with the one that is there now.
 */
static dev_t held_device;
static ino_t held_inode;

/* Read the lock holder's data directory from the lock file. */
static void
read_holder(int fd, char *directory, size_t size)
{
	ssize_t		n = pread(fd, directory, size - 1, 0);

	directory[Max(n, 0)] = '\0';
	directory[strcspn(directory, "\n")] = '\0';
}

static void
refuse_claim(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char		directory[MAXPGPATH];

	read_holder(fd, directory, sizeof(directory));
	if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
		lock.l_pid = 0;
	ereport(FATAL,
			(errcode(ERRCODE_LOCK_FILE_EXISTS),
			 errmsg("trail directory \"%s\" is in use by another server", steno_directory),
			 lock.l_pid > 0 ?
			 errdetail("It is that of data directory \"%s\", with PID %d.", directory, (int) lock.l_pid) :
			 errdetail("It is that of data directory \"%s\".", directory),
			 errhint("Every server needs a trail of its own: set \"steno.directory\" to another directory.")));
}

/* Write our data directory to the lock file, for the error message of another server. */
static void
write_holder(int fd, const char *path)
{
	if (ftruncate(fd, 0) != 0 || pwrite(fd, DataDir, strlen(DataDir), 0) < 0 ||
		pwrite(fd, "\n", 1, strlen(DataDir)) < 0)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not write lock file \"%s\": %m", path)));
}

/*
 * At the end of the postmaster, when its children have ended.  It is called before the
 * callback that removes postmaster.pid, because that is older.  Whoever waits for that
 * file to go, such as pg_ctl restart, may start a server while the kernel still takes
 * this process apart, and would find the lock.
 */
static void
release_claim(int code, Datum fd)
{
	close(DatumGetInt32(fd));
}

/* Lock the directory, which exists and can be written, or fail the start of the server. */
void
steno_trail_claim(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char		path[MAXPGPATH];
	struct stat st;
	uint64		other;
	int			fd;

	snprintf(path, sizeof(path), "%s/.lock", steno_directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not open lock file \"%s\": %m", path),
				 errhint("It must be a file that the server can write.")));
	if (fcntl(fd, F_SETLK, &lock) != 0)
	{
		if (errno == EACCES || errno == EAGAIN)
			refuse_claim(fd);
		/* the file system does not support locks */
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not lock file \"%s\": %m", path),
				 errdetail("A second server with this trail directory would not be refused.")));
	}
	write_holder(fd, path);
	/* until then, fd stays open, and with it the lock */
	on_proc_exit(release_claim, Int32GetDatum(fd));
	if (fstat(fd, &st) == 0)
	{
		held_device = st.st_dev;
		held_inode = st.st_ino;
	}
	if (steno_trail_is_of_other(steno_directory, STENO_MAX_WRITERS, GetSystemIdentifier(),
								&other, path, sizeof(path)))
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("trail directory \"%s\" belongs to another database cluster", steno_directory),
				 errdetail("The system identifier of segment \"%s\" is %llu, that of this cluster is %llu.",
						   path, (unsigned long long) other, (unsigned long long) GetSystemIdentifier()),
				 errhint("Set \"steno.directory\" to another directory, or move the old trail away.")));
}

/* ---- what is what ---- */

/* Inode and creation time of an open file: those of a copy differ. */
void
steno_identify_file(int fd, uint64 *inode, int64 *born)
{
#ifdef STATX_BTIME
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &x) == 0)
	{
		*inode = x.stx_ino;
		*born = x.stx_mask & STATX_BTIME ? x.stx_btime.tv_sec * INT64CONST(1000000000) + x.stx_btime.tv_nsec : 0;
		return;
	}
#endif
	{
		struct stat st;

		*inode = fstat(fd, &st) == 0 ? st.st_ino : 0;
		*born = 0;
	}
}

/* The machine's ID, which its clones should not have; empty in most containers. */
void
steno_identify_machine(char machine[STENO_MACHINE_LEN])
{
	int			fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t		n = fd < 0 ? 0 : read(fd, machine, STENO_MACHINE_LEN - 1);

	if (fd >= 0)
		close(fd);
	machine[Max(n, 0)] = '\0';
	machine[strcspn(machine, "\n")] = '\0';
}

/*
 * Whether it is a regular file: whatever has the name of one of ours could be a pipe
 * or a device.
 */
bool
steno_is_regular_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Where the trail's directory really is; hash 0: that cannot be found out. */
void
steno_place_of_trail(StenoTrailPlace *place)
{
	char		path[PATH_MAX];

	memset(place, 0, sizeof(*place));
	if (realpath(steno_directory, path) == NULL)
		return;
	place->hash = Max(XXH64(path, strlen(path), 0), 1);
	if (strlen(path) < sizeof(place->path))
		strcpy(place->path, path);
}

/* Whether there is no trail any more. */
bool
steno_place_is_empty(const StenoTrailPlace *place)
{
	StenoError	error = {0};
	uint32		next;
	bool		empty;

	if (place->path[0] == '\0')
		return false;			/* its path is too long to be known */
	if (access(place->path, F_OK) != 0)
		return errno == ENOENT || errno == ENOTDIR;
	return steno_trail_streams(place->path, &next, &empty, &error) && empty;
}

/* ---- writers ---- */

static bool
is_server_process(pid_t pid)
{
	uint32		i;

	for (i = 0; i < steno_rings.nwriters; i++)
		if (atomic_load(&steno_control->writers[i].pid) == (uint32) pid)
			return true;
	return pid == PostmasterPid;
}

static bool
fail_reclaim(StenoError *error, const char *what, const char *path)
{
	error->error = 0;
	strlcpy(error->what, what, sizeof(error->what));
	strlcpy(error->path, path, sizeof(error->path));
	return false;
}

/*
 * In a writer: whether the directory that is there now is ours; locks it if no
 * server has.  Returns true if it cannot be checked: writing reports that error.
 */
bool
steno_trail_reclaim(StenoError *error)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	static int	held = -1;		/* a lock file that this process holds */
	struct stat st;
	struct stat mine;
	char		path[MAXPGPATH];
	uint64		other;
	int			fd;

	snprintf(path, sizeof(path), "%s/.lock", steno_directory);
	if (stat(path, &st) == 0)
	{
		if (st.st_dev == held_device && st.st_ino == held_inode)
			return true;
		/* closing any descriptor of a file that we have locked would release the lock */
		if (held >= 0 && fstat(held, &mine) == 0 && st.st_dev == mine.st_dev && st.st_ino == mine.st_ino)
			return true;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return true;
	if (fcntl(fd, F_SETLK, &lock) != 0)
	{
		bool		ours = (errno != EACCES && errno != EAGAIN) ||
			fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK || is_server_process(lock.l_pid);

		close(fd);
		return ours || fail_reclaim(error, "another server uses trail directory", steno_directory);
	}
	if (steno_trail_is_of_other(steno_directory, STENO_MAX_WRITERS, GetSystemIdentifier(),
								&other, path, sizeof(path)))
	{
		close(fd);
		return fail_reclaim(error, "the directory has a segment of another database cluster,", path);
	}
	if (held >= 0)
		close(held);
	held = fd;
	write_holder(fd, path);
	ereport(LOG,
			(errmsg("trail directory \"%s\" has been locked again", steno_directory),
			 errdetail("The lock of this server went with the directory, or with its file \".lock\".")));
	return true;
}
