/*
 * extension/claim.c
 *		The trail's directory belongs to one server at a time, and to one cluster.
 *
 * The postmaster holds a lock on <trail>/.lock, which the kernel gives back when
 * the postmaster is gone, however it went: of the file itself, nothing but the lock
 * counts.  A lock of fcntl() is the process's alone, so no child keeps it.
 */
#include "steno.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"

#include "segment.h"

/* Who has the lock, as the file says. */
static void
read_holder(int fd, char *directory, size_t size)
{
	ssize_t		n = pread(fd, directory, size - 1, 0);

	directory[Max(n, 0)] = '\0';
	directory[strcspn(directory, "\n")] = '\0';
}

static void
refuse(int fd)
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

/* Take the directory, which is there and can be written, or do not start. */
void
steno_trail_claim(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char		path[MAXPGPATH];
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
			refuse(fd);
		/* a file system without locks */
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not lock file \"%s\": %m", path),
				 errdetail("A second server that is pointed at this trail would not be refused.")));
	}
	if (ftruncate(fd, 0) != 0 || pwrite(fd, DataDir, strlen(DataDir), 0) < 0 ||
		pwrite(fd, "\n", 1, strlen(DataDir)) < 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write lock file \"%s\": %m", path)));
	/* fd stays open, and with it the lock */
	if (steno_trail_is_of_other(steno_directory, STENO_MAX_WRITERS, GetSystemIdentifier(),
								&other, path, sizeof(path)))
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("trail directory \"%s\" belongs to another database cluster", steno_directory),
				 errdetail("The system identifier of segment \"%s\" is %llu, that of this cluster is %llu.",
						   path, (unsigned long long) other, (unsigned long long) GetSystemIdentifier()),
				 errhint("Set \"steno.directory\" to another directory, or move the old trail away.")));
}
