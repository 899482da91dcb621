/*
 * extension/sql/trail_reader.h
 *		Reads the trail of this server in a backend, block by block.
 */
#ifndef STENO_TRAIL_READER_H
#define STENO_TRAIL_READER_H

#include "base/steno.h"

#include "trail/decode.h"
#include "block/index.h"

#pragma GCC visibility push(hidden)

/* Where a record stands. */
typedef struct StenoRecordPlace
{
	uint32		stream;
	uint64		segment;
	uint64		block;
} StenoRecordPlace;

/*
 * Which records are wanted, and what becomes of them.
 *
 * select: remove the groups of an index from a set that have no wanted record; NULL: an
 * index is of no use.  guess: whether a record may be wanted of whose text, parameters and message
 * only the ends are there.  begin: the records that follow are those of another block, whose
 * definitions have the decoder's numbers.  take: a record; it is allocated in a memory context that is
 * reset after the call, as is all that take allocates in the current one.
 */
typedef struct StenoWantedRecords
{
	int64		since;			/* time of the earliest */
	int64		until;			/* they are before that */
	void		(*select) (void *of, const StenoIndexReader *index, StenoGroups groups);
	bool		(*guess) (void *of, const StenoTrailRecord *r);
	void		(*begin) (void *of);
	void		(*take) (void *of, const StenoTrailRecord *r, const StenoRecordPlace *place);
	void	   *of;
} StenoWantedRecords;

/*
 * Read the trail.  Records of a stream come in the order in which they were written, and streams
 * one after the other.  What is damaged is reported by warnings, and left out.
 */
extern void steno_trail_read(const char *trail, const StenoWantedRecords *wanted);

#pragma GCC visibility pop

#endif							/* STENO_TRAIL_READER_H */
