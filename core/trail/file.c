/*
 * core/trail/file.c
 *		The files of a trail: their paths, complete reads and writes, and syncs of
 *		folders.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trail/file.h"

bool
steno_failed(StenoError *error, int number, const char *what, const char *path)
{
	error->error = number;
	snprintf(error->what, sizeof(error->what), "%s", what);
	snprintf(error->path, sizeof(error->path), "%s", path);
	return false;
}

bool
steno_errno_is_about_file(int number)
{
	switch (number)
	{
		case 0:
		case ENOENT:
		case ENOTDIR:
		case EISDIR:
		case ELOOP:
		case ENXIO:
		case ENODEV:
		case ENAMETOOLONG:
		case EIO:
			return true;
		default:
			return false;
	}
}

void
steno_stream_folder(char *path, size_t size, const char *trail, uint32_t stream)
{
	snprintf(path, size, "%s/%u", trail, stream);
}

void
steno_segment_path(char *path, size_t size, const char *folder, uint64_t segment)
{
	snprintf(path, size, "%s/%010llu.steno", folder, (unsigned long long) segment);
}

uint64_t
steno_segment_of_name(const char *name)
{
	if (strspn(name, "0123456789") != 10 || strcmp(name + 10, ".steno") != 0)
		return 0;
	return strtoull(name, NULL, 10);
}

bool
steno_read_at(int fd, void *bytes, size_t len, uint64_t offset)
{
	uint8_t    *to = bytes;

	while (len > 0)
	{
		ssize_t		n = pread(fd, to, len, (off_t) offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			if (n == 0)
				errno = 0;
			return false;
		}
		to += n;
		len -= (size_t) n;
		offset += (uint64_t) n;
	}
	return true;
}

uint64_t
steno_next_data(int fd, uint64_t from, uint64_t size)
{
#ifdef SEEK_DATA
	if (from < size)
	{
		off_t		data = lseek(fd, (off_t) from, SEEK_DATA);

		if (data >= 0)
			return (uint64_t) data < size ? (uint64_t) data : size;
		if (errno == ENXIO)
			return size;
	}
#endif
	return from < size ? from : size;
}

uint64_t
steno_written_bytes(int folder, const char *name, const struct stat *st)
{
	uint64_t	size = (uint64_t) st->st_size;
	uint64_t	written = size;

#ifdef SEEK_HOLE
	if (S_ISREG(st->st_mode) && (uint64_t) st->st_blocks * 512 < size)
	{
		int			fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		uint64_t	at = 0;

		if (fd < 0)
			return size;
		for (written = 0; (at = steno_next_data(fd, at, size)) < size;)
		{
			off_t		hole = lseek(fd, (off_t) at, SEEK_HOLE);
			uint64_t	end = hole < 0 || (uint64_t) hole > size ? size : (uint64_t) hole;

			written += end - at;
			at = end;
		}
		close(fd);
	}
#else
	(void) folder;
	(void) name;
#endif
	return S_ISREG(st->st_mode) ? written : 0;
}

bool
steno_write_at(int fd, const void *bytes, size_t len, uint64_t offset)
{
	const uint8_t *from = bytes;

	while (len > 0)
	{
		ssize_t		n = pwrite(fd, from, len, (off_t) offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			if (n == 0)
				errno = ENOSPC;
			return false;
		}
		from += n;
		len -= (size_t) n;
		offset += (uint64_t) n;
	}
	return true;
}

bool
steno_sync_folder(const char *path, StenoError *error)
{
	int			fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool		ok = true;

	/* some file systems cannot sync a folder, and do not need to */
	if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL && errno != EBADF))
		ok = steno_failed(error, errno, "could not sync folder", path);
	if (fd >= 0)
		close(fd);
	return ok;
}
