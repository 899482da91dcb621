/*
 * extension/base/ring_folder.h
 *		Where this server's ring files are.
 */
#ifndef STENO_RING_FOLDER_H
#define STENO_RING_FOLDER_H

/* A ring file that an earlier run has left, in an open folder. */
typedef struct StenoLeftFile
{
	int			folder;			/* index in the folders of StenoLeftFiles */
	char	   *name;
} StenoLeftFile;

typedef struct StenoLeftFolder
{
	int			fd;
	char	   *name;			/* in steno.ring_directory */
} StenoLeftFolder;

/* All of them, oldest first. */
typedef struct StenoLeftFiles
{
	int			parent;			/* steno.ring_directory */
	StenoLeftFolder *folders;
	int			nfolders;
	StenoLeftFile *files;
	int			nfiles;
	int			strangers;		/* entries with our names that are not to be trusted */
	char	   *stranger;		/* the first of them */
	char	   *why;
} StenoLeftFiles;

/* Palloc'd: what the names of this server's ring files begin with. */
extern char *steno_ring_prefix(void);

/*
 * For the postmaster: opens this server's folder, making it when there is none, and
 * writes its path.  An error of level FATAL when that is impossible.
 */
extern int	steno_ring_folder_open(char *path, size_t size);

/*
 * Find what earlier runs have left, but not the file of the present run.  Returns false
 * with errno and *failed, the path, when a folder could not be read to its end; what was
 * found until then is there.  Folders that are not needed any more go with _close.
 */
extern bool steno_ring_folders_find(StenoLeftFiles *found, const char *present, char **failed);
extern void steno_ring_folders_close(StenoLeftFiles *found);

/*
 * Give the memory of all that was left back, except what is still to be drained.  For the
 * postmaster, when it has no other processes.  Returns whether anything was left.
 */
extern bool steno_ring_folders_shrink(void);

#endif							/* STENO_RING_FOLDER_H */
