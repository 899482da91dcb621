/*
 * core/trail/segment.h
 *		A stream of segments: append blocks, rotate, and go on after a crash.
 */
#ifndef STENO_SEGMENT_H
#define STENO_SEGMENT_H

#include <sys/types.h>

#include "trail/block.h"
#include "crypto/crypt.h"
#include "trail/file.h"

/* Blocks that were written and are gone, since a sync failed. */
typedef struct StenoLost
{
	uint64_t	count;
	uint64_t	first;			/* number of the first */
	uint64_t	last;
	uint64_t	offset;			/* of the first */
} StenoLost;

typedef struct StenoStream
{
	int			fd;				/* of the open segment; -1: none */
	uint32_t	number;
	uint64_t	segment;		/* number of the open segment */
	uint64_t	offset;			/* where its blocks end */
	uint64_t	room;			/* its length: zeros from offset on */
	uint16_t	header;			/* the length of its header */
	int64_t		created;		/* its time of creation */
	uint64_t	next_block;
	uint64_t	next_record;
	uint8_t		chain[STENO_HASH_SIZE];	/* previous hash of the next block */
	uint64_t	system_identifier;
	uint32_t	server_version;
	mode_t		file_mode;
	bool		dirty;			/* written since the last sync */
	bool		doubtful;		/* a sync has failed since the last one that did not */
	uint64_t	synced;			/* what is known to be on disk ends here ... */
	uint64_t	synced_block;	/* ... with the block before this one */
	StenoLost	lost;			/* found by a sync; the caller resets count */
	StenoCrypt *crypt;			/* NULL: segments are never encrypted */
	char		directory[1024];	/* of the stream */
} StenoStream;

/* What open found. */
typedef struct StenoFound
{
	uint64_t	torn_bytes;		/* cut off the end of the last segment, but for room */
	bool		damaged;		/* the last segment is damaged: left as it is, a new one begun */
	uint64_t	damaged_offset;
} StenoFound;


/*
 * Open a stream for appending; makes its folder and first segment when there is
 * none.  A torn last segment is cut at its last whole block.  A segment of
 * another system identifier or a newer format is refused.
 * number, system_identifier, server_version and file_mode are taken from the
 * arguments.
 *
 * With keys (crypt, or NULL), an encrypted segment is never continued, and none is
 * after a plain one when there is a key: the stream goes on in a new one.
 */
extern bool steno_stream_open(StenoStream *stream, const char *trail,
							  uint32_t number, uint64_t system_identifier,
							  uint32_t server_version, mode_t file_mode,
							  StenoCrypt *crypt, int64_t now,
							  StenoFound *found, StenoError *error);

/*
 * Append one finished block (its block number must be next_block), with one
 * write() where the kernel takes it whole.  On failure the file is cut back to
 * where it was, and the call can be repeated.  Updates chain, next_block,
 * next_record, offset.
 */
extern bool steno_stream_append(StenoStream *stream, const uint8_t *bytes,
								size_t len, uint32_t records,
								const uint8_t chain[STENO_HASH_SIZE],
								StenoError *error);

/*
 * Make room for a block of len bytes and for more: zeros, which blocks then take
 * the place of.  A sync is cheaper when the file's length has not changed.  A disk
 * without that room is no failure.
 */
extern void steno_stream_make_room(StenoStream *stream, size_t len);

/*
 * Make what was written durable (fdatasync).  After a failure the call can be
 * repeated: it first writes once more what the failed one may have dropped.
 * What cannot be read back any more is told in stream->lost once a call has
 * succeeded.
 */
extern bool steno_stream_sync(StenoStream *stream, StenoError *error);

/* Sync and close the segment, begin the next one. */
extern bool steno_stream_rotate(StenoStream *stream, int64_t now,
								StenoError *error);

/* The chain hash of the last block, also when the open segment has none yet. */
extern bool steno_stream_last_hash(const StenoStream *stream, uint8_t hash[STENO_HASH_SIZE]);

extern void steno_stream_close(StenoStream *stream);

/* Where the open segment is: a file that is not in its place takes writes as ever. */
typedef enum StenoPlace
{
	STENO_PLACE_KEPT,
	STENO_PLACE_REMOVED,		/* nothing but our descriptor has it */
	STENO_PLACE_MOVED,			/* it is somewhere else */
	STENO_PLACE_UNKNOWN			/* it could not be looked for */
} StenoPlace;

/* Unless it is kept, *error says what is the matter. */
extern StenoPlace steno_stream_place(const StenoStream *stream, StenoError *error);

/*
 * Go on after the segment was removed or moved; makes the folders anew.  A removed
 * segment is restored, byte for byte, as long as it can be read.  Else the next
 * number begins, and continues the chain: stream->segment tells.  On failure the
 * old segment is still open, and the call can be repeated.
 */
extern bool steno_stream_replace(StenoStream *stream, const char *trail, StenoPlace place,
								 int64_t now, StenoError *error);

/*
 * Whether a stream of this trail ends with a segment of another database cluster;
 * if so, which (*other) and where (path).
 */
extern bool steno_trail_is_of_other(const char *trail, uint32_t streams,
									uint64_t system_identifier, uint64_t *other,
									char *path, size_t size);

/* Where a stream ends. */
typedef struct StenoEnd
{
	uint64_t	segment;		/* the last one; 0: there is none */
	bool		damaged;		/* that one */
	uint64_t	block;			/* the last whole one; 0: none */
	uint8_t		hash[STENO_HASH_SIZE];	/* of it */
} StenoEnd;

/* Look where a stream ends.  Nothing is changed. */
extern bool steno_stream_end(const char *trail, uint32_t number, uint64_t system_identifier,
							 StenoEnd *end, StenoError *error);

/*
 * Whether a stream has, anywhere, the block with this number and chain hash, or a segment
 * that follows it.  Every stream has block 0, and those before its first segment.
 */
extern bool steno_stream_has(const char *trail, uint32_t number, uint64_t system_identifier,
							 uint64_t block, const uint8_t hash[STENO_HASH_SIZE],
							 bool *has, StenoError *error);

/*
 * The number after those of all streams up to STENO_STREAM_MAX, and whether no stream
 * has a segment.
 */
extern bool steno_trail_streams(const char *trail, uint32_t *next, bool *empty, StenoError *error);

/* The first number from this one on for which there is no folder. */
extern uint32_t steno_stream_free(const char *trail, uint32_t from);

/*
 * Whether the file has, at this place, the whole block with this number and
 * chain hash: how recovery learns if an intended write happened.
 */
extern bool steno_segment_has_block(const char *trail, uint32_t stream,
									uint64_t segment, uint64_t offset,
									uint64_t block,
									const uint8_t hash[STENO_HASH_SIZE]);

#endif							/* STENO_SEGMENT_H */
