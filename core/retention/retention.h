/*
 * core/retention/retention.h
 *		Which segments of a trail are to be deleted by policy, and which were.
 *
 * The phases, in the caller's order (extension/writer/retention.c): list the trail,
 * load what was deleted before, plan, write the plan to the state file and the
 * trail, and only then delete the files.
 */
#ifndef STENO_RETENTION_H
#define STENO_RETENTION_H

#include "header.h"
#include "retention/slot.h"

/* The maximum number of writers; folders with higher numbers are ignored. */
#define STENO_RETENTION_STREAMS 64

#define STENO_RETENTION_FILE "retention"

/* ---- what is there ---- */

typedef struct StenoKeptSegment
{
	uint64_t	segment;
	uint64_t	bytes;
} StenoKeptSegment;

typedef struct StenoKeptStream
{
	bool		exists;
	uint32_t	count;
	uint32_t	room;
	StenoKeptSegment  *segments;		/* by number */
	uint64_t	open;			/* this segment and later ones may still be written */
} StenoKeptStream;

typedef struct StenoKeptTrail
{
	const char *path;
	StenoKeptStream streams[STENO_RETENTION_STREAMS];	/* by number */
} StenoKeptTrail;

/*
 * List the trail.  before is an earlier list or NULL; the lengths of segments that
 * were closed then are taken from it.
 */
extern bool steno_kept_list(const char *trail, const StenoKeptTrail *before, StenoKeptTrail *kept,
							StenoError *error);
extern void steno_kept_free(StenoKeptTrail *kept);

/* ---- what was deleted ---- */

typedef enum
{
	STENO_REASON_NONE,
	STENO_REASON_SIZE,
	STENO_REASON_AGE,
	STENO_REASON_SLOT_MAX_SIZE
} StenoReason;

/*
 * The contents of a stream's latest deletion record.  It deleted segments first to
 * last; all segments from since on were deleted in order.
 */
typedef struct StenoDeleted
{
	uint64_t	since;
	uint64_t	first;
	uint64_t	last;			/* 0: nothing was ever deleted */
	uint64_t	first_block;	/* of the last segments */
	uint64_t	last_block;
	uint64_t	first_record;
	uint64_t	last_record;
	uint64_t	bytes;
	uint64_t	total_records;	/* from since on */
	uint64_t	total_bytes;
	uint64_t	missing;		/* segments from since on that were missing before they were to be
								 * deleted */
	uint8_t		chain[STENO_HASH_SIZE]; /* of the last block */
	StenoReason reason;
	/* the block that contains the record */
	uint32_t	at_stream;
	uint64_t	at_segment;
	uint64_t	at_offset;
	uint64_t	at_block;
	uint8_t		at_chain[STENO_HASH_SIZE];	/* zeros: not known */
} StenoDeleted;

/* Names and values of a stream's deletion record; they point into buf. */
#define STENO_DELETED_PAIRS 15

typedef struct StenoDeletedPairs
{
	int			count;
	const char *pairs[2 * STENO_DELETED_PAIRS];
	char		text[1024];
} StenoDeletedPairs;

extern void steno_deleted_describe(uint32_t stream, const StenoDeleted *deleted, StenoDeletedPairs *out);

/*
 * Write the state file, with the mode of the segments: the current state of all streams and, in case its records
 * never reach the trail, the previous one (NULL: none).
 */
extern bool steno_deleted_store(const char *trail, mode_t mode, const StenoDeleted now[STENO_RETENTION_STREAMS],
								const StenoDeleted before[STENO_RETENTION_STREAMS], StenoError *error);

/*
 * Space for the state file and for a record of deletions, so that segments can be deleted
 * when the disk is full: the file that replaces the state file next exists already, and
 * is this long.  keep returns whether there is such a file, release whether there was.
 */
#define STENO_RETENTION_ROOM (128 * 1024)

extern bool steno_deleted_keep_room(const char *trail);
extern bool steno_deleted_release_room(const char *trail);

/*
 * Call found for each line of a state file, the latest of each stream first.  False
 * if it is not a state file.
 */
typedef void (*StenoDeletedFound) (void *arg, uint32_t stream, const StenoDeleted *deleted);
extern bool steno_deleted_parse(const char *text, size_t len, StenoDeletedFound found, void *arg);

/*
 * Read the state file, and accept the lines for which the trail has the record at
 * the stated position.  False if the file, or a segment with such a record, cannot be
 * read for another reason than what it is.
 */
extern bool steno_deleted_load(const char *trail, StenoDeleted deleted[STENO_RETENTION_STREAMS],
							   StenoError *error);

/* ---- what is to be deleted ---- */

typedef struct StenoLimits
{
	uint64_t	size;			/* bytes; 0: no limit */
	int64_t		age;			/* microseconds; 0: no limit */
	int64_t		slot_max_size;	/* bytes; negative: no limit */
	int64_t		now;
	uint32_t	most;			/* maximum number of files in one plan */
} StenoLimits;

typedef struct StenoPlan
{
	uint32_t	files;			/* number of files to delete */
	bool		more;			/* there are more files to delete */
	StenoDeleted next[STENO_RETENTION_STREAMS]; /* last is 0 if nothing of the stream is to be
												 * deleted */
	bool	   *lost;			/* slots that lose segments they need, by index */
	uint64_t	left;			/* bytes that remain */
	bool		kept_by_slots;	/* more would be deleted if no slot needed it */
} StenoPlan;

/* Whether a slot has lost a segment that it needs; it then keeps nothing any more. */
extern bool steno_slot_is_lost(const StenoSlot *slot, const StenoKeptTrail *kept,
							   const StenoDeleted deleted[STENO_RETENTION_STREAMS]);

/* Total size of the segments from the first one that a slot needs on. */
extern uint64_t steno_slot_bytes(const StenoSlot *slot, const StenoKeptTrail *kept);

/* Forget those segments of a list that were deleted by policy. */
extern void steno_kept_forget(StenoKeptTrail *kept, const StenoDeleted deleted[STENO_RETENTION_STREAMS]);

/* Total size of the segments of a stream from this one on. */
extern uint64_t steno_kept_bytes(const StenoKeptStream *stream, uint64_t from);

/*
 * Plan deletions.  All slots must be readable.  False if out of memory, or if a header
 * that decides could not be read for another reason than what the file is.
 */
extern bool steno_retention_plan(const StenoKeptTrail *kept,
								 const StenoDeleted deleted[STENO_RETENTION_STREAMS],
								 const StenoSlots *slots, const StenoLimits *limits, StenoPlan *plan,
								 StenoError *error);
extern void steno_plan_free(StenoPlan *plan);

/* All that limits delete: by one plan after the other, until there is nothing more to delete. */
typedef struct StenoForecast
{
	uint32_t	files;
	uint64_t	bytes;
} StenoForecast;

extern bool steno_retention_forecast(const StenoKeptTrail *kept,
									 const StenoDeleted deleted[STENO_RETENTION_STREAMS],
									 const StenoSlots *slots, const StenoLimits *limits,
									 StenoForecast *forecast, StenoError *error);

/*
 * Delete the existing files of a stream's segments from since to last, and sync the
 * folder if there was any.
 */
extern bool steno_deleted_finish(const StenoKeptTrail *kept, uint32_t stream,
								 const StenoDeleted *deleted, StenoError *error);

#endif							/* STENO_RETENTION_H */
