/*
 * extension/t/faults.c
 *		A disk that fails, and a writer that dies, as tests ask for it.
 *
 * A library for LD_PRELOAD, between the server and the C library.  It looks at
 * segments of a trail (*.steno) alone, and only at blocks, which come after a
 * segment's header.  Files in the folder STENO_FAULTS say what happens.  An empty
 * one holds while it is there; one of n bytes holds n times, and goes.
 *
 *		write_fails			pwrite: ENOSPC, nothing is written
 *		write_stops			pwrite: half is written, then ENOSPC
 *		write_breaks		pwrite: EIO, nothing is written
 *		hold_write			pwrite waits, while the file is there
 *		kill_before_write.N	pwrite of stream N: SIGKILL, nothing is written
 *		kill_in_write.N		half is written, then SIGKILL
 *		kill_after_write.N	all is written, then SIGKILL
 *		sync_fails			fdatasync: EIO; nothing more of it is known to be on disk
 *		sync_loses			the same, and what was written since the last one is gone
 *		hold_sync			fdatasync waits, while the file is there
 *		begin_fails			fsync, of a segment that is begun or opened: EIO
 *		disk				statvfs: percent of the file system in use, and megabytes free, as it says
 *		ring_room			posix_fallocate of a ring file: ENOSPC, unless what the files of its folder
 *							have then is no more than so many bytes
 *		kill_before_unlink	unlink of a segment: SIGKILL, it stays
 *		unlink_fails		unlink of a segment: EIO
 *		after_state			when retention has written its state file, the fault that this
 *							file names is set, once: for the write of the record
 *		kill_before_begin.N	fsync of a segment that is begun or opened: SIGKILL before it
 *		kill_after_begin.N	SIGKILL after it
 *		clock				gettimeofday is as many seconds ahead as it says, in writers
 *		clock_of_all		the same, in all processes; time, too, so that pg_ctl recognizes a server that it starts
 *		hold_rmdir			rmdir waits, while the file is there, and "holding.rmdir" says so
 *		hold_exit			a program that was started with the library waits at the end of its exit(), while
 *							the file is there, and "holding.exit" says so; its children do not
 *
 * The disk remembers: for each segment, a file of the folder "memory" says of each byte whether it
 * is on disk, waits for a sync, or is lost because a sync has failed since it was written.  Each
 * process that writes the segment takes it over, as it takes over the kernel's cache.  In a folder
 * "survives", if there is one, it keeps <stream>/<segment>: what would be there after a power failure.
 *
 * In a folder "durable", if there is one, it notes for each segment, in a file
 * <stream>.<name of the segment>, how many of its bytes a sync has brought to disk so far.
 *
 * Zeros that are written are room for blocks (core/trail/segment.c): no fault meets them, and
 * they count for nothing.
 *
 * It answers there, too: "holding.N" while something of stream N waits; "lied" when a sync has
 * succeeded though bytes that an earlier one, of whichever process, had failed to sync were not
 * written again: the disk does not have them.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SEGMENT_HEADER 128

/* What the disk remembers is mapped in units of so many bytes. */
#define MEMORY_UNIT (1024 * 1024)

/* The state of a byte of a segment. */
enum
{
	ON_DISK,					/* or never written */
	WAITING,
	LOST
};

/* Of the one segment that this process, a writer, writes. */
static bool is_writer;
static char *memory;			/* the state of each byte; shared with the processes that follow */
static off_t remembered;		/* bytes of it that are mapped */
static off_t settled;			/* before this, all bytes are on disk */
static off_t written_from;		/* what this process has written since the last sync lies between these */
static off_t written_to;
static off_t content;			/* of the segment: what follows is room */
static bool full;				/* the rest of a write that stops */
static char stream[16];			/* its number */
static char segment[32];		/* its file's name */

static bool
path_of(char *path, size_t size, const char *name)
{
	const char *folder = getenv("STENO_FAULTS");

	return folder != NULL && snprintf(path, size, "%s/%s", folder, name) < (int) size;
}

static bool
is_there(const char *name)
{
	char		path[4096];

	return path_of(path, sizeof(path), name) && access(path, F_OK) == 0;
}

static void
touch(const char *name)
{
	char		path[4096];
	int			fd;

	if (path_of(path, sizeof(path), name) &&
		(fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) >= 0)
		close(fd);
}

static bool
fires(const char *name)
{
	char		path[4096];
	struct stat st;

	if (!path_of(path, sizeof(path), name) || stat(path, &st) != 0)
		return false;
	if (st.st_size == 1)
		unlink(path);
	else if (st.st_size > 1 && truncate(path, st.st_size - 1) != 0)
		abort();
	return true;
}

static bool
fires_here(const char *name)
{
	char		with_stream[64];

	snprintf(with_stream, sizeof(with_stream), "%s.%s", name, stream);
	return fires(with_stream);
}

static void
hold(const char *name)
{
	char		holding[64];
	char		path[4096];
	struct timespec nap = {0, 5 * 1000 * 1000};

	if (!is_there(name))
		return;
	snprintf(holding, sizeof(holding), "holding.%s", stream);
	touch(holding);
	while (is_there(name))
		nanosleep(&nap, NULL);
	if (path_of(path, sizeof(path), holding))
		unlink(path);
}

static bool
is_segment(int fd)
{
	char		link[64];
	char		path[4096];
	ssize_t		n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 6 || memcmp(path + n - 6, ".steno", 6) != 0)
		return false;
	is_writer = true;
	/* .../<stream>/<segment>.steno */
	path[n] = '\0';
	snprintf(segment, sizeof(segment), "%.31s", strrchr(path, '/') + 1);
	*strrchr(path, '/') = '\0';
	snprintf(stream, sizeof(stream), "%.15s", strrchr(path, '/') + 1);
	return true;
}

static off_t
size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_size : 0;
}

static ssize_t
write_through(int fd, const void *bytes, size_t len, off_t offset)
{
	static ssize_t (*next) (int, const void *, size_t, off_t);

	if (next == NULL)
		next = (ssize_t (*) (int, const void *, size_t, off_t)) dlsym(RTLD_NEXT, "pwrite");
	return next(fd, bytes, len, offset);
}

/* All of the segment up to there is on disk. */
static void
note_durable(off_t size)
{
	char		name[64];
	char		path[4096];
	int			fd;

	snprintf(name, sizeof(name), "durable/%s.%s", stream, segment);
	if (!path_of(path, sizeof(path), name) ||
		(fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0)
		return;
	/* of the same length always, so that it is whole at any time */
	if (dprintf(fd, "%020lld\n", (long long) size) != 21)
		abort();
	close(fd);
}

static bool
is_room(const char *bytes, size_t len)
{
	return len > 0 && bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
}

/*
 * Take over what the disk remembers of the segment, of at least so many bytes.  False if there
 * is nothing to remember it in.
 */
static bool
remember(off_t size)
{
	static char of[64];
	char		name[64];
	char		path[4096];
	int			fd;
	off_t		room = (size / MEMORY_UNIT + 1) * MEMORY_UNIT;

	snprintf(name, sizeof(name), "memory/%s.%s", stream, segment);
	if (memory != NULL && strcmp(of, name) == 0 && size <= remembered)
		return true;
	if (memory != NULL)
		munmap(memory, remembered);
	memory = NULL;
	if (!path_of(path, sizeof(path), name) || (fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0)
		return false;
	if (size_of(fd) > room)
		room = size_of(fd);
	if (ftruncate(fd, room) != 0 ||
		(memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
		abort();
	close(fd);
	remembered = room;
	if (strcmp(of, name) != 0)
		settled = 0;
	strcpy(of, name);
	return true;
}

static void
note_written(off_t from, off_t to)
{
	if (to > content)
		content = to;
	if (written_from >= written_to || from < written_from)
		written_from = from;
	if (to > written_to)
		written_to = to;
	if (remember(to))
		memset(memory + from, WAITING, to - from);
	if (from < settled)
		settled = from;
}

/* The file got shorter: what was there is of no interest any more. */
static void
note_size(off_t size)
{
	if (remember(size))
		memset(memory + size, ON_DISK, remembered - size);
}

static void
not_synced(int fd)
{
	off_t		size = size_of(fd);
	off_t		i;

	note_size(size);
	for (i = settled; memory != NULL && i < size; i++)
		if (memory[i] == WAITING)
			memory[i] = LOST;
}

/* Put a part of the segment where the disk's contents are kept. */
static void
store(int fd, off_t from, off_t to)
{
	char		name[64];
	char		path[4096];
	char		bytes[65536];
	int			disk;

	snprintf(name, sizeof(name), "survives/%s", stream);
	if (!is_there("survives") || !path_of(path, sizeof(path), name))
		return;
	(void) mkdir(path, 0700);
	snprintf(name, sizeof(name), "survives/%s/%s", stream, segment);
	if (!path_of(path, sizeof(path), name) || (disk = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0)
		abort();
	while (from < to)
	{
		ssize_t		n = pread(fd, bytes, to - from < (off_t) sizeof(bytes) ? to - from : (off_t) sizeof(bytes), from);

		if (n <= 0 || write_through(disk, bytes, n, from) != n)
			abort();
		from += n;
	}
	/* the length is as durable as the contents */
	if (ftruncate(disk, size_of(fd)) != 0)
		abort();
	close(disk);
}

static void
synced(int fd)
{
	off_t		size = size_of(fd);
	off_t		from;
	off_t		i;

	note_size(size);
	for (i = settled; memory != NULL && i < size; i++)
	{
		if (memory[i] == LOST)
			touch("lied");
		if (memory[i] != WAITING)
			continue;
		for (from = i; i < size && memory[i] == WAITING; i++)
			memory[i] = ON_DISK;
		store(fd, from, i--);
	}
	store(fd, 0, 0);
	settled = size;
	written_from = written_to = 0;
}

ssize_t
pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
	ssize_t		n;

	if (!is_segment(fd) || is_room(bytes, len))
		return write_through(fd, bytes, len, offset);
	if (offset < SEGMENT_HEADER)
	{
		content = 0;
		n = write_through(fd, bytes, len, offset);
		if (n > 0)
			note_written(offset, offset + n);
		return n;
	}
	hold("hold_write");
	if (full || fires("write_fails"))
	{
		full = false;
		errno = ENOSPC;
		return -1;
	}
	if (fires("write_breaks"))
	{
		errno = EIO;
		return -1;
	}
	if (fires_here("kill_before_write"))
		kill(getpid(), SIGKILL);
	if (fires_here("kill_in_write"))
	{
		if (write_through(fd, bytes, len / 2, offset) > 0)
			kill(getpid(), SIGKILL);
		abort();
	}
	full = fires("write_stops");
	n = write_through(fd, bytes, full ? len / 2 : len, offset);
	if (n > 0)
		note_written(offset, offset + n);
	if (fires_here("kill_after_write"))
		kill(getpid(), SIGKILL);
	return n;
}

ssize_t
pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
	return pwrite(fd, bytes, len, offset);
}

int
fdatasync(int fd)
{
	static int	(*next) (int);
	off_t		size;
	int			result;

	if (next == NULL)
		next = (int (*) (int)) dlsym(RTLD_NEXT, "fdatasync");
	if (!is_segment(fd))
		return next(fd);
	/* a write that has failed was cut off again */
	size = size_of(fd);
	if (content > 0 && content < size)
		size = content;
	hold("hold_sync");
	if (fires("sync_fails"))
	{
		not_synced(fd);
		errno = EIO;
		return -1;
	}
	if (fires("sync_loses"))
	{
		/* a hole reads as zeros: the space is there, its contents are not */
		if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  written_from, written_to - written_from) != 0)
			abort();
		if (remember(written_to))
			memset(memory + written_from, ON_DISK, written_to - written_from);
		errno = EIO;
		return -1;
	}
	result = next(fd);
	if (result == 0)
	{
		synced(fd);
		note_durable(size);
	}
	return result;
}

int
fsync(int fd)
{
	static int	(*next) (int);
	off_t		size;
	int			result;

	if (next == NULL)
		next = (int (*) (int)) dlsym(RTLD_NEXT, "fsync");
	if (!is_segment(fd))
		return next(fd);
	if (fires("begin_fails"))
	{
		not_synced(fd);
		errno = EIO;
		return -1;
	}
	if (fires_here("kill_before_begin"))
		kill(getpid(), SIGKILL);
	size = size_of(fd);
	result = next(fd);
	if (result == 0)
	{
		content = size;
		synced(fd);
		note_durable(size);
	}
	if (fires_here("kill_after_begin"))
		kill(getpid(), SIGKILL);
	return result;
}

int
statvfs(const char *restrict name, struct statvfs *restrict fs)
{
	static int	(*next) (const char *restrict, struct statvfs *restrict);
	char		path[4096];
	unsigned	used;
	unsigned	megabytes;
	int			result;
	FILE	   *file;

	if (next == NULL)
		next = (int (*) (const char *restrict, struct statvfs *restrict)) dlsym(RTLD_NEXT, "statvfs");
	result = next(name, fs);
	if (result == 0 && path_of(path, sizeof(path), "disk") && (file = fopen(path, "re")) != NULL)
	{
		if (fscanf(file, "%u %u", &used, &megabytes) == 2 && used < 100)
		{
			fs->f_frsize = 1024 * 1024;
			fs->f_bavail = fs->f_bfree = megabytes;
			fs->f_blocks = (fsblkcnt_t) megabytes * 100 / (100 - used);
		}
		fclose(file);
	}
	return result;
}

/* The folder of an open ring file; false if it is none. */
static bool
ring_folder_of(int fd, char *path, size_t size)
{
	char		link[64];
	ssize_t		n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, size - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	if (strstr(path, "/pg_steno.") == NULL)
		return false;
	*strrchr(path, '/') = '\0';
	return true;
}

static long long
bytes_of_folder(const char *path)
{
	DIR		   *dir = opendir(path);
	struct dirent *entry;
	struct stat st;
	long long	bytes = 0;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
			bytes += st.st_blocks * 512LL;
	if (dir != NULL)
		closedir(dir);
	return bytes;
}

int
posix_fallocate(int fd, off_t offset, off_t len)
{
	static int	(*next) (int, off_t, off_t);
	char		path[4096];
	char		folder[4096];
	long long	room = -1;
	struct stat st;
	FILE	   *file;

	if (next == NULL)
		next = (int (*) (int, off_t, off_t)) dlsym(RTLD_NEXT, "posix_fallocate");
	if (path_of(path, sizeof(path), "ring_room") && (file = fopen(path, "re")) != NULL)
	{
		if (fscanf(file, "%lld", &room) != 1)
			room = -1;
		fclose(file);
	}
	if (room >= 0 && ring_folder_of(fd, folder, sizeof(folder)) && fstat(fd, &st) == 0 && len > st.st_blocks * 512LL &&
		bytes_of_folder(folder) + len - st.st_blocks * 512LL > room)
		return ENOSPC;
	return next(fd, offset, len);
}

int
posix_fallocate64(int fd, off_t offset, off_t len)
{
	return posix_fallocate(fd, offset, len);
}

int
unlink(const char *path)
{
	static int	(*next) (const char *);
	size_t		len = strlen(path);

	if (next == NULL)
		next = (int (*) (const char *)) dlsym(RTLD_NEXT, "unlink");
	if (len > 6 && memcmp(path + len - 6, ".steno", 6) == 0)
	{
		if (fires("kill_before_unlink"))
			kill(getpid(), SIGKILL);
		if (fires("unlink_fails"))
		{
			errno = EIO;
			return -1;
		}
	}
	return next(path);
}

int
rename(const char *from, const char *to)
{
	static int	(*next) (const char *, const char *);
	char		path[4096];
	char		fault[64] = "";
	char		armed[4096];
	size_t		len = strlen(to);
	int			result;
	FILE	   *file;

	if (next == NULL)
		next = (int (*) (const char *, const char *)) dlsym(RTLD_NEXT, "rename");
	result = next(from, to);
	if (result != 0 || len < 10 || memcmp(to + len - 10, "/retention", 10) != 0 ||
		!path_of(path, sizeof(path), "after_state") || (file = fopen(path, "re")) == NULL)
		return result;
	if (fscanf(file, "%63s", fault) == 1 && path_of(armed, sizeof(armed), fault) &&
		truncate(path, 1) == 0)
		next(path, armed);
	fclose(file);
	return result;
}

int
rmdir(const char *path)
{
	static int	(*next) (const char *);
	struct timespec nap = {0, 5 * 1000 * 1000};

	if (next == NULL)
		next = (int (*) (const char *)) dlsym(RTLD_NEXT, "rmdir");
	if (is_there("hold_rmdir"))
		touch("holding.rmdir");
	while (is_there("hold_rmdir"))
		nanosleep(&nap, NULL);
	return next(path);
}

static pid_t loaded_in;

__attribute__((constructor)) static void
note_program(void)
{
	loaded_in = getpid();
}

__attribute__((destructor)) static void
end_program(void)
{
	struct timespec nap = {0, 5 * 1000 * 1000};

	if (getpid() != loaded_in)
		return;
	if (is_there("hold_exit"))
		touch("holding.exit");
	while (is_there("hold_exit"))
		nanosleep(&nap, NULL);
}

/* What a file says, in seconds; 0 without one.  For signal handlers, too. */
static long
seconds_of(const char *name)
{
	char		path[4096];
	char		text[32];
	int			save_errno = errno;
	int			fd;
	ssize_t		n = 0;

	if (path_of(path, sizeof(path), name) && (fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0)
	{
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	errno = save_errno;
	return strtol(text, NULL, 10);
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	static int	(*next) (struct timeval *restrict, void *restrict);
	int			result;

	if (next == NULL)
		next = (int (*) (struct timeval *restrict, void *restrict)) dlsym(RTLD_NEXT, "gettimeofday");
	result = next(now, zone);
	now->tv_sec += seconds_of("clock_of_all") + (is_writer ? seconds_of("clock") : 0);
	return result;
}

time_t
time(time_t *result)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	now.tv_sec += seconds_of("clock_of_all");
	if (result != NULL)
		*result = now.tv_sec;
	return now.tv_sec;
}
