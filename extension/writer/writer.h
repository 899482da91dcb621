/*
 * extension/writer/writer.h
 *		A writer's private state, shared by writer.c and recover.c.
 */
#ifndef STENO_WRITER_H
#define STENO_WRITER_H

#include "base/facts.h"
#include "base/steno.h"

#pragma GCC visibility push(hidden)

#include "trail/block.h"
#include "trail/segment.h"

/*
 * Rings being drained: those of the running server, or a ring file that a dead
 * server left.  positions: how far each ring has been read into blocks; it is
 * ahead of the ring's tail by what is not in a file yet.
 */
typedef struct StenoDrain
{
	StenoRings *rings;
	StenoIntent *intent;
	uint32		first;			/* rings first, first + step, ... */
	uint32		step;
	StenoSource *sources;
	uint64	   *positions;
	uint64	   *told;			/* of each ring's untold drops */
	uint32		ended;			/* recovery: rings below this have their ends in
								 * the block that is written next */
} StenoDrain;

/*
 * What a valid intent is about: a block of messages, or, from STENO_INTENT_ENDS on,
 * one that ends the sessions of as many rings as it is more than that.
 */
#define STENO_INTENT_MESSAGES 1
#define STENO_INTENT_ENDS 2

/* What can fail, each by itself. */
typedef enum StenoAction
{
	STENO_WRITE,
	STENO_SYNC,
	STENO_ROTATE
} StenoAction;

#define STENO_ACTIONS 3

/*
 * A time during which the trail could not be written, until the trail knows of it.
 * dropped, refused: the counts at its beginning.
 */
typedef struct StenoEpisode
{
	TimestampTz since;			/* 0: none */
	TimestampTz over;			/* 0: not yet */
	uint64		attempts;		/* that failed */
	uint64		dropped;
	uint64		refused;
	char		reason[STENO_FAILURE_TEXT];
} StenoEpisode;

/*
 * A block has room for the longest message of a ring and this much: the definitions
 * that it needs, or whatever else ends a session.
 */
#define STENO_BESIDE 8192

typedef struct StenoWriter
{
	int			number;
	StenoWriterControl *control;
	StenoBlock *block;
	uint32		capacity;		/* of the block */
	StenoStream stream;
	StenoSource self;			/* for records of the writer's own */
	StenoDrain *drain;			/* whose messages the block holds */
	bool		failing[STENO_ACTIONS]; /* the last try failed, and was logged */
	TimestampTz retry_at[STENO_ACTIONS];	/* when failing */
	uint64		served_flush;
	uint64		served_rotate;
	bool		sync_asked;		/* somebody waits for the disk */
	bool		reload_later;	/* changes of settings are to be recorded */
	bool		restarted;		/* another process has been this writer in this run ... */
	TimestampTz gone_since;		/* ... and ended then */

	/* trouble.c */
	StenoEpisode episode;
	TimestampTz looked;			/* at the disk, and at the segment's place */
	int64		disk_room;		/* bytes that may be written */
	int64		disk_reserve;	/* bytes that are left to others */
	bool		disk_warned;
} StenoWriter;

extern void steno_drain_init(StenoDrain *drain, StenoRings *rings, int writer);
extern void steno_drain_free(StenoDrain *drain);
extern void steno_drain_load(StenoDrain *drain, uint32 i);

extern bool steno_writer_drain_ring(StenoWriter *writer, StenoDrain *drain, uint32 i);
extern bool steno_writer_tell_dropped(StenoWriter *writer, StenoDrain *drain, uint32 i);
extern void steno_recover_ended(StenoRings *rings, uint32 count);
extern void steno_recover_own(StenoWriter *writer);
extern void steno_writer_exit(void) pg_attribute_noreturn();

extern bool steno_writer_drain(StenoWriter *writer, StenoDrain *drain);
extern bool steno_writer_write(StenoWriter *writer);
extern bool steno_writer_sync(StenoWriter *writer);
extern bool steno_writer_sync_surely(StenoWriter *writer);
extern void steno_writer_event(StenoWriter *writer, const char *event,
							   const char *name, const char *value);
extern void steno_writer_server(StenoWriter *writer, const char *const *pairs, int count);
extern bool steno_writer_add(StenoWriter *writer, StenoSource *source,
							 const StenoMessage *message);
extern bool steno_writer_wait(StenoWriter *writer);
extern bool steno_writer_fit(StenoWriter *writer, uint32 ring_size);

/* ---- writer.c ---- */

extern void steno_writer_register(void);
extern void steno_writer_check_registered(void);

/* ---- recover.c ---- */

extern void steno_recover_rings(StenoWriter *writer);

/* ---- trouble.c ---- */

extern const char *steno_trouble_prospect(void);
extern void steno_trouble_failed(StenoWriter *writer, StenoAction action, const StenoError *error);
extern void steno_trouble_over(StenoWriter *writer, StenoAction action);
extern bool steno_trouble_place(StenoWriter *writer, bool idle);
extern bool steno_trouble_room(StenoWriter *writer, size_t len, StenoError *error);
extern bool steno_trouble_look(StenoWriter *writer);
extern void steno_trouble_tick(StenoWriter *writer);
extern void steno_trouble_tell(StenoWriter *writer);
extern void steno_trouble_problem(const StenoWriter *writer, StenoProblem problem, bool there);
extern void steno_trouble_inherit(StenoWriter *writer);
extern void steno_format_time(char *to, size_t size, TimestampTz t);

/* ---- claim.c ---- */

extern void steno_trail_claim(void);
extern bool steno_trail_hold(StenoError *error);

/* ---- state.c ---- */

extern void steno_state_begin(uint64 ring_file, bool first);
extern bool steno_state_stream(StenoWriter *writer, uint32 *stream, StenoError *error);
extern void steno_state_block(const StenoWriter *writer, const uint8 hash[STENO_HASH_SIZE]);
extern void steno_state_synced(const StenoWriter *writer, bool rotated);
extern void steno_state_stop(StenoWriter *writer);
extern bool steno_state_tell(StenoWriter *writer);
extern void steno_state_compare_unused(StenoWriter *writer);

#define STENO_STATE_PAIRS 5
extern int	steno_state_describe(const char **pairs);

/* ---- seal.c ---- */

extern void steno_seal_check_key(void);
extern bool steno_seal_start(StenoWriter *writer);
extern void steno_seal_written(StenoWriter *writer, uint32 bytes);
extern void steno_seal_if_due(StenoWriter *writer);
extern void steno_seal_moved(StenoWriter *writer);
extern bool steno_seal_segment(StenoWriter *writer);
extern bool steno_seal_reload(StenoWriter *writer);
extern bool steno_seal_stop(StenoWriter *writer);

/* ---- announce.c ---- */

#define STENO_RUNNING_ROOM \
	(sizeof(StenoRecordMessage) + sizeof(StenoCut) + STENO_INFLIGHT_TEXT + 8)

extern bool steno_running_announce(StenoWriter *writer, StenoDrain *drain);
extern StenoRecordMessage *steno_running_message(void *buf, uint32 room, const StenoInFlight *f);

/* ---- retention.c ---- */

extern void steno_retention(StenoWriter *writer);

#pragma GCC visibility pop

/* The server finds it by name. */
extern PGDLLEXPORT void steno_writer_main(Datum main_arg);

#endif							/* STENO_WRITER_H */
