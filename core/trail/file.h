/*
 * core/trail/file.h
 *		The files of a trail: their paths, how they are read, written and synced,
 *		and what is said when that fails.
 */
#ifndef STENO_FILE_H
#define STENO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A file or folder with a higher number is not of a server, and none goes on behind
 * it: somebody could use the numbers up.
 */
#define STENO_SEGMENT_MAX 4294967295u
#define STENO_STREAM_MAX 65535u

/* Why a call failed: errno and what was being done, to which file. */
typedef struct StenoError
{
	int			error;			/* errno; 0: not a system error, see what */
	char		what[256];
	char		path[1100];
} StenoError;

/* Fills *error; always false, for the caller to return. */
extern bool steno_failed(StenoError *error, int number, const char *what, const char *path);

/* <trail>/<stream> and <folder of the stream>/<segment>.steno */
extern void steno_stream_folder(char *path, size_t size, const char *trail, uint32_t stream);
extern void steno_segment_path(char *path, size_t size, const char *folder, uint64_t segment);

/* The number of the segment whose file has this name; 0: it is no segment's. */
extern uint64_t steno_segment_of_name(const char *name);

/* All of len bytes; else errno says why, and is 0 where the file ends before. */
extern bool steno_read_at(int fd, void *bytes, size_t len, uint64_t offset);
extern bool steno_write_at(int fd, const void *bytes, size_t len, uint64_t offset);

/*
 * Where a file of this size may have something else than zeros, from an offset on;
 * size: nowhere.  Whoever looks for the end of the zeros leaves out what was never
 * written: a sparse file can be longer than anybody can read.
 */
extern uint64_t steno_next_data(int fd, uint64_t from, uint64_t size);

/*
 * How long a file of a folder is, but for what was never written: what makes a file
 * long without any room on the disk must not have others deleted.
 */
struct stat;
extern uint64_t steno_written_bytes(int folder, const char *name, const struct stat *st);

extern bool steno_sync_folder(const char *path, StenoError *error);

#endif							/* STENO_FILE_H */
