/*
 * extension/base/ring_folder.c
 *		Where this server's ring files are: in a folder of its own in
 *		steno.ring_directory.
 *
 * Every account may make entries in a directory such as /dev/shm, and others cannot
 * remove them.  So nothing that stands directly in it is trusted.  The folder is called
 * pg_steno.<uid>.<id> and has mode 0700; owner and mode are checked on its descriptor
 * (core/ring/private.c), and all files are opened through that.
 *
 * Another account may have taken the name: the id is no secret.  Then the folder gets a
 * random end, which nobody can know before it is made.  The next start finds it by its
 * owner: of all entries with such names those are used that are ours.
 */
#include "base/steno.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "ring/left.h"
#include "ring/private.h"
#include "base/ring_folder.h"

/* What is wrong with an entry, in a few words. */
#define WHY 120

/* To open what is in a folder, one need not be able to list it. */
#ifdef O_PATH
#define OPEN_PARENT (O_PATH | O_DIRECTORY | O_CLOEXEC)
#else
#define OPEN_PARENT (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#endif

/* A cluster and its data directory tell servers of one machine apart. */
static uint64
server_id(void)
{
	char		real[PATH_MAX];

	if (realpath(DataDir, real) == NULL)
		strlcpy(real, DataDir, sizeof(real));
	return XXH64(real, strlen(real), GetSystemIdentifier());
}

char *
steno_ring_prefix(void)
{
	return psprintf("pg_steno.%016llx.", (unsigned long long) server_id());
}

static char *
folder_name(void)
{
	return psprintf("pg_steno.%u.%016llx", (unsigned) geteuid(), (unsigned long long) server_id());
}

/* ---- lists of names ---- */

typedef struct Names
{
	char	  **names;
	int			count;
	int			room;
} Names;

static void
add_name(Names *names, const char *name)
{
	if (names->count == names->room)
	{
		names->room = Max(names->room * 2, 64);
		names->names = names->names == NULL ? palloc(names->room * sizeof(char *)) :
			repalloc_huge(names->names, names->room * sizeof(char *));
	}
	names->names[names->count++] = pstrdup(name);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* The entries of an open folder whose names begin with prefix; false with errno. */
static bool
list_entries(int folder, const char *prefix, Names *names)
{
	int			fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR		   *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int			error;

	if (dir == NULL)
	{
		error = errno;
		if (fd >= 0)
			close(fd);
		errno = error;
		return false;
	}
	while (errno = 0, (entry = readdir(dir)) != NULL)
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			add_name(names, entry->d_name);
	error = errno;
	closedir(dir);
	if (names->count > 0)
		qsort(names->names, names->count, sizeof(char *), compare_names);
	errno = error;
	return error == 0;
}

/* Whether a name is the folder's, with or without a random end. */
static bool
is_folder_name(const char *name, const char *folder)
{
	size_t		len = strlen(folder);

	return strncmp(name, folder, len) == 0 && (name[len] == '\0' || name[len] == '.');
}

/* ---- the present run's ---- */

static void
refuse_ring_folder(const char *what, const char *name)
{
	ereport(FATAL,
			(errcode_for_file_access(),
			 errmsg("could not %s \"%s/%s\": %m", what, steno_ring_directory, name),
			 errhint("Set \"steno.ring_directory\" to a directory in memory that the server can write.")));
}

/* A folder of that name, made unless it is there; -1 with errno EPERM: it is not ours. */
static int
make_ring_folder(int parent, const char *name, char why[WHY])
{
	if (mkdirat(parent, name, S_IRWXU) < 0 && errno != EEXIST)
		refuse_ring_folder("create directory of ring files", name);
	return steno_private_open_folder(parent, name, why, WHY);
}

/* The name is somebody else's: a folder of ours that an earlier run has made, or a new one. */
static int
open_other_folder(int parent, const char *name, char **other)
{
	Names		names = {0};
	char		why[WHY];
	int			fd;
	int			i;

	/* one that we cannot find is drained by nobody, but does no harm */
	(void) list_entries(parent, name, &names);
	for (i = 0; i < names.count; i++)
		if (names.names[i][strlen(name)] == '.' &&
			(fd = steno_private_open_folder(parent, names.names[i], why, sizeof(why))) >= 0)
		{
			*other = names.names[i];
			return fd;
		}
	for (i = 0; i < 10; i++)
	{
		uint64		random;

		if (!pg_strong_random(&random, sizeof(random)))
			random = (uint64) GetCurrentTimestamp() + i;
		*other = psprintf("%s.%016llx", name, (unsigned long long) random);
		if ((fd = make_ring_folder(parent, *other, why)) >= 0)
			return fd;
		if (errno != EPERM)
			break;
	}
	refuse_ring_folder("open directory of ring files", *other);
	return -1;
}

int
steno_ring_folder_open(char *path, size_t size)
{
	static bool warned = false;
	char	   *name = folder_name();
	int			parent = open(steno_ring_directory, OPEN_PARENT);
	char		why[WHY];
	int			fd;

	if (parent < 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not open ring directory \"%s\": %m", steno_ring_directory),
				 errhint("Set \"steno.ring_directory\" to a directory in memory that the server can write.")));
	if (!warned && steno_private_is_exposed(parent))
		ereport(WARNING,
				(errmsg("other accounts can remove the ring files of this server"),
				 errdetail("Ring directory \"%s\" belongs to another account, or is writable by others and has no sticky bit.",
						   steno_ring_directory),
				 errhint("Set \"steno.ring_directory\" to a directory of the server's user, or to one with the sticky bit, such as /dev/shm.")));
	warned = true;
	fd = make_ring_folder(parent, name, why);
	if (fd < 0)
	{
		char	   *other;

		if (errno != EPERM)
			refuse_ring_folder("open directory of ring files", name);
		fd = open_other_folder(parent, name, &other);
		ereport(WARNING,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("directory of ring files \"%s/%s\" is not the server's own, and is not used",
						steno_ring_directory, name),
				 errdetail("It is a %s. The ring file is in \"%s/%s\" instead.", why, steno_ring_directory, other),
				 errhint("Find out who created it, and remove it.")));
		name = other;
	}
	snprintf(path, size, "%s/%s", steno_ring_directory, name);
	close(parent);
	return fd;
}

/* ---- earlier runs' ---- */

static int
compare_files(const void *a, const void *b)
{
	return strcmp(((const StenoLeftFile *) a)->name, ((const StenoLeftFile *) b)->name);
}

static void
add_folder(StenoLeftFiles *found, int fd, char *name)
{
	Size		bytes = (found->nfolders + 1) * sizeof(StenoLeftFolder);

	found->folders = found->folders == NULL ? palloc(bytes) : repalloc(found->folders, bytes);
	found->folders[found->nfolders].fd = fd;
	found->folders[found->nfolders++].name = name;
}

/* The ring files of the folder that was added last. */
static bool
find_files(StenoLeftFiles *found, const char *prefix, const char *present)
{
	StenoLeftFolder *folder = &found->folders[found->nfolders - 1];
	Names		names = {0};
	bool		whole = list_entries(folder->fd, prefix, &names);
	int			error = errno;
	int			i;

	if (names.count > 0)
	{
		Size		bytes = (found->nfiles + names.count) * sizeof(StenoLeftFile);

		found->files = found->files == NULL ? palloc_extended(bytes, MCXT_ALLOC_HUGE) :
			repalloc_huge(found->files, bytes);
	}
	for (i = 0; i < names.count; i++)
	{
		/* the run is its start's time, so no other has the name, whatever the folder */
		if (strcmp(names.names[i], present) == 0)
			continue;
		found->files[found->nfiles].folder = found->nfolders - 1;
		found->files[found->nfiles++].name = names.names[i];
	}
	errno = error;
	return whole;
}

/* The entries of steno.ring_directory that have our names: our folders, and others. */
static bool
find_folders(StenoLeftFiles *found, const char *prefix, const char *present, char **failed)
{
	char	   *folder = folder_name();
	Names		names = {0};
	bool		whole = list_entries(found->parent, "pg_steno.", &names);
	int			error = errno;
	int			i;

	*failed = whole ? NULL : pstrdup(steno_ring_directory);
	for (i = 0; i < names.count; i++)
	{
		char		why[WHY];
		int			fd = -1;

		if (is_folder_name(names.names[i], folder))
			fd = steno_private_open_folder(found->parent, names.names[i], why, sizeof(why));
		else if (strncmp(names.names[i], prefix, strlen(prefix)) == 0)
		{
			/* where earlier versions had their files */
			strlcpy(why, "a name of earlier versions, which anybody can have made", sizeof(why));
			errno = EPERM;
		}
		else
			continue;
		if (fd >= 0)
		{
			add_folder(found, fd, names.names[i]);
			if (find_files(found, prefix, present))
				continue;
		}
		else if (errno == EPERM)
		{
			/* the start has said so of the folder's own name */
			if (strcmp(names.names[i], folder) == 0)
				continue;
			if (found->strangers++ == 0)
			{
				found->stranger = names.names[i];
				found->why = pstrdup(why);
			}
			continue;
		}
		else if (errno == ENOENT)
			continue;
		if (whole)
		{
			error = errno;
			*failed = psprintf("%s/%s", steno_ring_directory, names.names[i]);
		}
		whole = false;
	}
	errno = error;
	return whole;
}

bool
steno_ring_folders_find(StenoLeftFiles *found, const char *present, char **failed)
{
	char	   *prefix = steno_ring_prefix();
	bool		whole;
	int			error;

	memset(found, 0, sizeof(*found));
	found->parent = open(steno_ring_directory, OPEN_PARENT);
	if (found->parent < 0)
	{
		*failed = pstrdup(steno_ring_directory);
		return false;
	}
	whole = find_folders(found, prefix, present, failed);
	error = errno;
	if (found->nfiles > 0)
		qsort(found->files, found->nfiles, sizeof(StenoLeftFile), compare_files);
	errno = error;
	return whole;
}

void
steno_ring_folders_close(StenoLeftFiles *found)
{
	int			i;

	for (i = 0; i < found->nfolders; i++)
	{
		close(found->folders[i].fd);
		/* the present run's is not empty */
		unlinkat(found->parent, found->folders[i].name, AT_REMOVEDIR);
	}
	if (found->parent >= 0)
		close(found->parent);
}

bool
steno_ring_folders_shrink(void)
{
	StenoLeftFiles found;
	char	   *failed;
	bool		any;
	int			i;

	(void) steno_ring_folders_find(&found, "", &failed);
	for (i = 0; i < found.nfiles; i++)
	{
		StenoRings	rings;
		char		what[STENO_RING_WHAT];

		if (steno_rings_open(&rings, found.folders[found.files[i].folder].fd, found.files[i].name,
							 GetSystemIdentifier(), what) != STENO_RING_OPEN)
			continue;
		steno_rings_shrink(&rings);
		steno_rings_close(&rings);
	}
	any = found.nfiles > 0;
	steno_ring_folders_close(&found);
	return any;
}
