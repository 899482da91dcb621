/*
 * core/retention/retention.h
 *		Which segments of a trail are deleted by policy, and what was.
 *
 * The phases, as the caller goes through them (extension/writer/retention.c): list the
 * trail, load what was deleted before, plan, write what is planned into the
 * trail and into the state file, and only then delete the files.
 */
#ifndef STENO_RETENTION_H
#define STENO_RETENTION_H

#include "header.h"
#include "retention/slot.h"

/* As many as a server has writers; folders of other numbers are left alone. */
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
 * before: an earlier list, or NULL; the lengths of segments that were closed then
 * are taken from it.
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
 * What the latest deletion record of a stream says.  Its last segments are first
 * to last; everything from segment since on has gone in its turn.
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
	uint64_t	missing;		/* segments that had gone before their turn, from since on */
	uint8_t		chain[STENO_HASH_SIZE]; /* of the last block */
	StenoReason reason;
	/* the block of the trail that has the record */
	uint32_t	at_stream;
	uint64_t	at_segment;
	uint64_t	at_offset;
	uint64_t	at_block;
	uint8_t		at_chain[STENO_HASH_SIZE];	/* zeros: not known */
} StenoDeleted;

/* The names and values of a stream's deletion record, to be kept while buf is. */
#define STENO_DELETED_PAIRS 15

typedef struct StenoDeletedPairs
{
	int			count;
	const char *pairs[2 * STENO_DELETED_PAIRS];
	char		text[1024];
} StenoDeletedPairs;

extern void steno_deleted_describe(uint32_t stream, const StenoDeleted *deleted, StenoDeletedPairs *out);

/*
 * The state file: the present state of all streams, and, for when its records
 * never got into the trail, the one before (NULL: none).
 */
extern bool steno_deleted_store(const char *trail, const StenoDeleted now[STENO_RETENTION_STREAMS],
								const StenoDeleted before[STENO_RETENTION_STREAMS], StenoError *error);

/* Call found for each line of a state file, the latest of each stream first.  False: it is none. */
typedef void (*StenoDeletedFound) (void *arg, uint32_t stream, const StenoDeleted *deleted);
extern bool steno_deleted_parse(const char *text, size_t len, StenoDeletedFound found, void *arg);

/*
 * Read the state file, and take those of its lines for which the trail has the record in the
 * place that the line says.  False when the file cannot be read.
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
	uint32_t	most;			/* files in one go */
} StenoLimits;

typedef struct StenoPlan
{
	uint32_t	files;			/* to be deleted */
	bool		more;			/* there is more than these */
	StenoDeleted next[STENO_RETENTION_STREAMS]; /* last is 0: nothing of this stream */
	bool	   *lost;			/* slots that lose what they want, by index */
} StenoPlan;

/* A slot of which a segment is gone that it wants; it holds nothing any more. */
extern bool steno_slot_is_lost(const StenoSlot *slot, const StenoKeptTrail *kept,
							   const StenoDeleted deleted[STENO_RETENTION_STREAMS]);

/* Bytes of the segments of a stream from this one on. */
extern uint64_t steno_kept_bytes(const StenoKeptStream *stream, uint64_t from);

/*
 * All slots must be readable.  False when memory is short.
 */
extern bool steno_retention_plan(const StenoKeptTrail *kept,
								 const StenoDeleted deleted[STENO_RETENTION_STREAMS],
								 const StenoSlots *slots, const StenoLimits *limits, StenoPlan *plan);
extern void steno_plan_free(StenoPlan *plan);

/*
 * Delete the files of a stream's segments since to last that are still there.
 * The folder is synced when any was.
 */
extern bool steno_deleted_finish(const StenoKeptTrail *kept, uint32_t stream,
								 const StenoDeleted *deleted, StenoError *error);

#endif							/* STENO_RETENTION_H */
