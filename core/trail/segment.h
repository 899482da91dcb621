/*
 * core/trail/segment.h
 *		A stream of segments: appending blocks, rotating, and continuing after a
 *		crash.
 */
#ifndef STENO_SEGMENT_H
#define STENO_SEGMENT_H

#include <sys/types.h>

#include "header.h"
#include "block/block.h"
#include "crypto/crypt.h"
#include "trail/file.h"

/* Blocks that were written and then lost by a failed sync. */
typedef struct StenoLost
{
	uint64_t	count;
	uint64_t	first;			/* number of the first */
	uint64_t	last;
	uint64_t	segment;		/* where the first lost block was written */
	uint64_t	offset;
} StenoLost;

typedef struct StenoStream
{
	int			fd;				/* of the open segment; -1: none */
	uint32_t	number;
	uint64_t	segment;		/* number of the open segment */
	uint64_t	offset;			/* end of its blocks */
	uint64_t	room;			/* its length: preallocated space, all zeros, begins at offset */
	uint16_t	header;			/* length of its header */
	int64_t		created;		/* when it was created */
	StenoTimeRange times;		/* of its records */
	uint64_t	last_start;		/* for headers: segment with the last start of the server; 0: not known */
	uint64_t	next_block;
	uint64_t	next_record;
	uint8_t		chain[STENO_HASH_SIZE];	/* what the next block is chained to */
	uint64_t	system_identifier;
	uint32_t	server_version;
	mode_t		file_mode;
	bool		dirty;			/* written since the last sync */
	bool		doubtful;		/* the last sync has failed */
	uint64_t	synced;			/* everything before this offset is known to be on disk ... */
	uint64_t	synced_block;	/* ... and that is every block before this one */
	uint64_t	begun;			/* the kernel has begun to write everything before this offset to disk */
	StenoLost	lost;			/* set by open and sync; the caller resets count */
	StenoCrypt *crypt;			/* NULL: segments are never encrypted */
	char		directory[1024];	/* of the stream */
} StenoStream;

/* What open found. */
typedef struct StenoFound
{
	uint64_t	torn_bytes;		/* cut off the end of the last segment, without preallocated space */
	bool		damaged;		/* the last segment is damaged, and a new one was begun */
	uint64_t	damaged_offset;
} StenoFound;


/*
 * The mode of folders for files with this mode: accounts that may read the files may
 * also search the folder.  Where only a group may, its files get that group (S_ISGID).
 */
extern mode_t steno_folder_mode(mode_t file_mode);

/*
 * mkdir() with exactly these permissions, whatever the umask is.  A folder in one with
 * S_ISGID inherits that, and its group.  chmod() afterwards would take S_ISGID off again if
 * we are not a member of that group, as the server's account often is not.
 */
extern int	steno_make_folder(const char *path, mode_t mode);

/*
 * Open a stream for appending; creates its folder and first segment if there are
 * none.  A torn last segment is cut after its last whole block.  Fails if the last
 * segment has another system identifier or a newer format.
 *
 * An encrypted segment is never continued, nor is an unencrypted one if crypt has a
 * key: the stream then continues in a new segment.  crypt may be NULL.
 *
 * durable is the number of the last block that a sync is known to have brought to
 * disk.  What follows it in the last segment is written again and synced, because a
 * sync of an earlier process may have failed, and the kernel reports that only once.
 * Blocks that can no longer be read back are reported in stream->lost.
 */
extern bool steno_stream_open(StenoStream *stream, const char *trail,
							  uint32_t number, uint64_t system_identifier,
							  uint32_t server_version, mode_t file_mode,
							  StenoCrypt *crypt, int64_t now, uint64_t durable,
							  StenoFound *found, StenoError *error);

/*
 * Bring the blocks of a stream that no process writes any more to disk, as open
 * does, without changing it otherwise.
 */
extern bool steno_stream_settle(const char *trail, uint32_t number, uint64_t system_identifier,
								uint64_t durable, StenoLost *lost, StenoError *error);

/*
 * Append one finished block, whose number must be next_block, with one write()
 * unless the kernel writes only a part.  On failure, the file is cut back to its
 * previous end, and the call can be repeated.  Updates chain, next_block,
 * next_record and offset.
 */
extern bool steno_stream_append(StenoStream *stream, const uint8_t *bytes,
								size_t len, uint32_t records,
								const uint8_t chain[STENO_HASH_SIZE],
								StenoError *error);

/*
 * Preallocate space for a block of len bytes and more: zeros that later blocks
 * overwrite.  A sync is cheaper if the file's length has not changed.  It is no
 * error if the disk does not have the space.
 */
extern void steno_stream_make_room(StenoStream *stream, size_t len);

/*
 * Make everything written so far durable (fdatasync).  After a failure, the call
 * can be repeated: it first writes again what the failed sync may have dropped.
 * Blocks that can no longer be read back are reported in stream->lost once a call
 * has succeeded.
 */
extern bool steno_stream_sync(StenoStream *stream, StenoError *error);

/* Sync and close the segment, and begin the next one. */
extern bool steno_stream_rotate(StenoStream *stream, int64_t now,
								StenoError *error);

/* The chain hash of the last block, even if the open segment has no block yet. */
extern bool steno_stream_last_hash(const StenoStream *stream, uint8_t hash[STENO_HASH_SIZE]);

extern void steno_stream_close(StenoStream *stream);

/*
 * Whether the open segment still has its path.  Writes to a file that was removed
 * or renamed succeed as before, so this must be checked.
 */
typedef enum StenoPlace
{
	STENO_PLACE_KEPT,
	STENO_PLACE_REMOVED,		/* it has no link any more, only our descriptor */
	STENO_PLACE_MOVED,			/* it has another path */
	STENO_PLACE_UNKNOWN			/* the check failed */
} StenoPlace;

/* Check that.  Unless the result is STENO_PLACE_KEPT, *error gives the reason. */
extern StenoPlace steno_stream_place(const StenoStream *stream, StenoError *error);

/*
 * Continue after the open segment was removed or moved; creates the folders again
 * if necessary.  A removed segment is restored, byte for byte, if it can be read.
 * Otherwise the stream continues in a new segment, with the same chain;
 * stream->segment has its number.  On failure, the old segment is still open, and
 * the call can be repeated.
 */
extern bool steno_stream_replace(StenoStream *stream, const char *trail, StenoPlace place,
								 int64_t now, StenoError *error);

/*
 * Whether the last segment of any of these streams belongs to another database
 * cluster; if so, *other is that cluster's system identifier, and path that of the
 * segment.
 */
extern bool steno_trail_is_of_other(const char *trail, uint32_t streams,
									uint64_t system_identifier, uint64_t *other,
									char *path, size_t size);

/* Where a stream ends. */
typedef struct StenoEnd
{
	uint64_t	segment;		/* the last one; 0: there is none */
	bool		damaged;		/* whether that one is damaged */
	uint64_t	block;			/* number of the last whole block; 0: there is none */
	uint8_t		hash[STENO_HASH_SIZE];	/* its chain hash */
} StenoEnd;

/* Find out where a stream ends, without changing it. */
extern bool steno_stream_end(const char *trail, uint32_t number, uint64_t system_identifier,
							 StenoEnd *end, StenoError *error);

/*
 * Whether any segment of a stream has the block with this number and chain hash, or
 * continues its chain.  *has is also true for block 0, and for blocks before the
 * first segment, which retention has deleted.
 */
extern bool steno_stream_has(const char *trail, uint32_t number, uint64_t system_identifier,
							 uint64_t block, const uint8_t hash[STENO_HASH_SIZE],
							 bool *has, StenoError *error);

/*
 * *next is the number after the highest of all streams up to STENO_STREAM_MAX;
 * *empty is whether no stream has a segment.
 */
extern bool steno_trail_streams(const char *trail, uint32_t *next, bool *empty, StenoError *error);

/* The first number not below from for which there is no folder. */
extern uint32_t steno_stream_free(const char *trail, uint32_t from);

/*
 * Whether the segment has the whole block with this number and chain hash at this
 * offset.  Recovery determines with it whether an intended write happened.  False if
 * that cannot be found out, and error->what then says why; otherwise, it is empty.
 */
extern bool steno_segment_has_block(const char *trail, uint32_t stream,
									uint64_t segment, uint64_t offset,
									uint64_t block,
									const uint8_t hash[STENO_HASH_SIZE],
									StenoError *error);

#endif							/* STENO_SEGMENT_H */
