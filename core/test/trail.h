/*
 * core/test/trail.h
 *		Small trails for tests, an independent check of whole streams, and the golden
 *		trails of format/golden.
 */
#ifndef STENO_TRAIL_H
#define STENO_TRAIL_H

#include <stdio.h>
#include <sys/resource.h>

#include "trail/segment.h"

#define TRAIL_SYSTEM 4711
#define TRAIL_NOW INT64_C(800000000000000)

/* A stream being written, by a writer with one source. */
typedef struct Trail
{
	StenoStream stream;
	StenoFound	found;
	StenoError	error;
	StenoBlock *block;
	StenoSource source;
	uint64_t	seq;
	StenoCrypt *crypt;			/* set before it is opened */
	uint64_t	durable;		/* the last block that is known to be on disk; set before it is opened */
} Trail;

/* Open, and fail the test if that fails. */
extern void trail_open(Trail *t, const char *trail);
extern bool trail_try_open(Trail *t, const char *trail);
extern void trail_close(Trail *t);

/* Append a block of n records (0: none), about 60 bytes each. */
extern bool trail_append(Trail *t, int n);
extern void trail_must_append(Trail *t, int n);

/*
 * Check a stream by FORMAT.md alone: checksums, numbers, and the SHA-256 chain
 * over all segments.  Returns the number of blocks, or -1 with a message.
 */
extern int	trail_verify(const char *trail, uint32_t stream, uint64_t *records);

/* Whether it accepts a segment header that does not know the times of the segment before. */
extern bool trail_ranges_may_be_unknown;

/* Whole files; of a folder all, of which there must be some. */
extern uint8_t *file_read(const char *path, size_t *len);
extern void each_file(const char *folder, void (*visit) (uint8_t *bytes, size_t len));
extern void file_write(const char *path, const void *bytes, size_t len);

/* A disk that is full: from here on no file grows beyond so many bytes. */
extern void limit_files(rlim_t bytes);

/* No file can be opened, until they are given back. */
extern void trail_use_up_descriptors(bool used_up);

extern void segment_name(char *path, size_t size, const char *trail, uint32_t stream, uint64_t segment);

/* Make all golden trails and their .expected files in this folder. */
extern void golden_make(const char *folder);

/* Write the contents of a trail, one record a line, in the format that format/golden/README.md describes. */
extern void expected_write(FILE *out, const char *trail);

#endif							/* STENO_TRAIL_H */
