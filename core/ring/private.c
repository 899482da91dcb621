/*
 * core/ring/private.c
 *		Opens files and folders, and checks whether another account can have created
 *		or changed them (private.h).
 *
 * All checks are made on an open descriptor, so that nobody can replace the file
 * between the check and its use.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "ring/private.h"

#define WRITABLE_BY_OTHERS (S_IWGRP | S_IWOTH)
#define OPEN_TO_OTHERS (S_IRWXG | S_IRWXO)

static const char *
type_name(mode_t mode)
{
	if (S_ISREG(mode))
		return "file";
	if (S_ISDIR(mode))
		return "directory";
	if (S_ISLNK(mode))
		return "symbolic link";
	return "special file";
}

static void
describe_entry(const struct stat *st, char *why, size_t size)
{
	snprintf(why, size, "%s of user ID %u, mode %04o, %lu links", type_name(st->st_mode),
			 (unsigned) st->st_uid, (unsigned) (st->st_mode & 07777), (unsigned long) st->st_nlink);
}

static bool
is_only_ours(const struct stat *st)
{
	return st->st_uid == geteuid() && (st->st_mode & WRITABLE_BY_OTHERS) == 0;
}

/*
 * Fail because the entry belongs to another account.  The description is for the
 * message only: the entry may have changed since the check.
 */
static int
refuse_entry(int parent, const char *name, char *why, size_t size)
{
	struct stat st;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		describe_entry(&st, why, size);
	else
		snprintf(why, size, "cannot be examined");
	errno = EPERM;
	return -1;
}

int
steno_private_open_folder(int parent, const char *name, char *why, size_t size)
{
	int			fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
	{
		/* a symbolic link, a file, or a directory that we may not read */
		if (errno == ELOOP || errno == EMLINK || errno == ENOTDIR || errno == EACCES)
			return refuse_entry(parent, name, why, size);
		return -1;
	}
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && is_only_ours(&st) &&
		((st.st_mode & OPEN_TO_OTHERS) == 0 || fchmod(fd, S_IRWXU) == 0))
		return fd;
	close(fd);
	return refuse_entry(parent, name, why, size);
}

bool
steno_private_file(const struct stat *st, char *why, size_t size)
{
	if (S_ISREG(st->st_mode) && is_only_ours(st) && st->st_nlink == 1)
		return true;
	describe_entry(st, why, size);
	return false;
}

bool
steno_private_is_exposed(int folder)
{
	struct stat st;

	if (fstat(folder, &st) != 0)
		return false;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return true;
	return (st.st_mode & WRITABLE_BY_OTHERS) != 0 && (st.st_mode & S_ISVTX) == 0;
}
