/*
 * core/ring/private.h
 *		Files and folders that only this process's user can have created or changed.
 *
 * In a folder such as /dev/shm, every account can create entries of any name, and
 * because of the sticky bit we cannot remove them.  A name therefore proves
 * nothing: what was opened is checked on its descriptor, never by its path.
 */
#ifndef STENO_PRIVATE_H
#define STENO_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * Open the folder of this name in parent.  Symbolic links are not followed.
 * Returns a descriptor, or -1 with errno: ENOENT if there is no entry of this name,
 * EPERM if there is one that cannot be trusted; why, a buffer of size bytes, then
 * describes it.  Permissions of other accounts on a folder of ours are removed.
 */
extern int	steno_private_open_folder(int parent, const char *name, char *why, size_t size);

/*
 * Whether an opened file is ours: a regular file that we own, with a single link,
 * and that no other account can write to.  If not, why describes it.
 */
extern bool steno_private_file(const struct stat *st, char *why, size_t size);

/* Whether other accounts can remove or rename our entries in this folder. */
extern bool steno_private_is_exposed(int folder);

#endif							/* STENO_PRIVATE_H */
