/*
 * core/file.h
 *		The files of a trail: their paths, how they are read, written and synced,
 *		and what is said when that fails.
 */
#ifndef STENO_FILE_H
#define STENO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

extern bool steno_sync_folder(const char *path, StenoError *error);

#endif							/* STENO_FILE_H */
