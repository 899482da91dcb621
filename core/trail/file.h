/*
 * core/trail/file.h
 *		The files of a trail: their paths, reading, writing and syncing them, and
 *		the error when that fails.
 */
#ifndef STENO_FILE_H
#define STENO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The highest numbers.  A segment or stream with a higher one was not made by a
 * server and is ignored: otherwise somebody could use up all numbers by creating a
 * single file.
 */
#define STENO_SEGMENT_MAX 4294967295u
#define STENO_STREAM_MAX 65535u

/* Why a call failed: errno, what was being done, and to which file. */
typedef struct StenoError
{
	int			error;			/* errno; 0: not a system error, only what explains it */
	char		what[256];
	char		path[1100];
} StenoError;

/* Fill in *error.  Always returns false, for the caller to return. */
extern bool steno_failed(StenoError *error, int number, const char *what, const char *path);

/*
 * Whether an errno value of an attempt to open or read a file says what the file is, as
 * opposed to what this process lacks at the moment, such as descriptors, memory or
 * permissions.  Only the former may be taken for the contents of the file: the latter
 * says nothing about them.  0, a file that ends too early, is about the file.
 */
extern bool steno_errno_is_about_file(int number);

/* <trail>/<stream> and <folder of the stream>/<segment>.steno */
extern void steno_stream_folder(char *path, size_t size, const char *trail, uint32_t stream);
extern void steno_segment_path(char *path, size_t size, const char *folder, uint64_t segment);

/* The number of the segment whose file has this name; 0 if it is not the name of a segment. */
extern uint64_t steno_segment_of_name(const char *name);

/*
 * Read or write all of len bytes.  On failure, errno gives the reason; it is 0 if
 * the file ends too early.
 */
extern bool steno_read_at(int fd, void *bytes, size_t len, uint64_t offset);
extern bool steno_write_at(int fd, const void *bytes, size_t len, uint64_t offset);

/*
 * The next offset from which the file may contain anything but zeros; size if there
 * is none.  A search for the end of zeros skips holes with it: a sparse file can be
 * so long that reading it would never end.
 */
extern uint64_t steno_next_data(int fd, uint64_t from, uint64_t size);

/*
 * The length of a file without its holes.  Retention uses it, so that a sparse
 * file, which takes little space on disk, does not cause the deletion of other
 * segments.
 */
struct stat;
extern uint64_t steno_written_bytes(int folder, const char *name, const struct stat *st);

extern bool steno_sync_folder(const char *path, StenoError *error);

#endif							/* STENO_FILE_H */
