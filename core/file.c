/*
 * core/file.c
 *		The files of a trail: paths, whole reads and writes, syncs of folders.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"

bool
steno_failed(StenoError *error, int number, const char *what, const char *path)
{
	error->error = number;
	snprintf(error->what, sizeof(error->what), "%s", what);
	snprintf(error->path, sizeof(error->path), "%s", path);
	return false;
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

	/* some file systems cannot sync a folder, and need not */
	if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL && errno != EBADF))
		ok = steno_failed(error, errno, "could not sync folder", path);
	if (fd >= 0)
		close(fd);
	return ok;
}
