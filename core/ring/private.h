/*
 * core/ring/private.h
 *		Files and folders that nobody but this process's user can have made or
 *		changed.
 *
 * A folder such as /dev/shm lets every account make entries of any name, and the
 * sticky bit keeps them there.  So a name proves nothing: what is opened is checked
 * on its descriptor, and never by its path.
 */
#ifndef STENO_PRIVATE_H
#define STENO_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * Open the folder of that name in another one.  Symbolic links are not followed.
 * Returns a descriptor, or -1 with errno: ENOENT when there is no entry of that name,
 * EPERM when there is one that is not to be trusted; then why, of so many bytes, says
 * what it is.  A folder of ours that others can read is closed to them.
 */
extern int	steno_private_open_folder(int parent, const char *name, char *why, size_t size);

/*
 * Whether an opened file is of ours: a regular file that we own, under one name, and
 * that no other account can write to.  Otherwise why says what it is.
 */
extern bool steno_private_file(const struct stat *st, char *why, size_t size);

/* Whether other accounts can remove or rename our entries of this folder. */
extern bool steno_private_is_exposed(int folder);

#endif							/* STENO_PRIVATE_H */
