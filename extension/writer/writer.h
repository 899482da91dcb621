/*
 * extension/writer/writer.h
 *		What the files of a writer share: its private state, and what each file does.
 *
 * A file uses only files above it in this list of sections.  What is below has to
 * follow a write is called through StenoWriter's functions.
 */
#ifndef STENO_WRITER_H
#define STENO_WRITER_H

#include "base/steno.h"

#include "base/compat.h"
#include "base/facts.h"

#pragma GCC visibility push(hidden)

#include "trail/block.h"
#include "trail/segment.h"

/* Time between attempts of what fails, and between two checks of what may fail. */
#define STENO_RETRY_MS 1000

/*
 * A block has room for the longest message of a ring and this much: the definitions
 * that it needs, or the other records that end a session.
 */
#define STENO_BLOCK_SPARE 8192

/*
 * Rings being drained: those of the running server, or of a ring file that a dead
 * server left.  positions: how far each ring has been read into blocks; it is ahead of
 * the ring's tail by what is not in a file yet.
 */
typedef struct StenoDrain
{
	StenoRings *rings;
	StenoIntent *intent;
	uint32		first;			/* rings first, first + step, ... */
	uint32		step;
	StenoSource *sources;
	uint64	   *positions;
	uint64	   *reported_drops; /* how much of each ring's orphan_drops has a record */
	uint32		ended;			/* recovery: the next block holds the ends of the
								 * sessions of the rings below this one */
} StenoDrain;

/*
 * What a valid intent is about: a block of messages, or, from STENO_INTENT_ENDS on,
 * one that ends the sessions of as many rings as it exceeds that by.
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
 * A time during which the trail could not be written, until the trail has a record of
 * it.  dropped, refused: the counts at its beginning.
 */
typedef struct StenoOutage
{
	TimestampTz since;			/* 0: none */
	TimestampTz over;			/* 0: not yet */
	uint64		attempts;		/* that failed */
	uint64		dropped;
	uint64		refused;
	char		reason[STENO_FAILURE_TEXT];
} StenoOutage;

typedef struct StenoWriter
{
	int			number;
	StenoWriterControl *control;
	StenoBlock *block;
	uint32		capacity;		/* of the block */
	StenoStream stream;
	StenoSource self;			/* for records of the writer's own */
	StenoDrain *drain;			/* whose messages the block holds */
	bool		failing[STENO_ACTIONS]; /* the last attempt failed, and was logged */
	TimestampTz retry_at[STENO_ACTIONS];	/* when failing */
	uint64		served_flush;
	uint64		served_rotate;
	bool		sync_requested; /* processes wait for the disk */
	bool		reload_pending; /* changes of settings are to be recorded */
	bool		restarted;		/* another process has been this writer in this run ... */
	TimestampTz gone_since;		/* ... and ended then */

	/* health.c */
	StenoOutage outage;
	TimestampTz checked;
	int64		disk_room;		/* bytes that may be written */
	int64		disk_reserve;	/* bytes that are left to others */
	bool		disk_warned;

	/*
	 * Set by writer.c, called by output.c: a block of so many bytes before compression
	 * was written, and the next one is empty; the stream goes on in another segment,
	 * which nobody has asked for, and the open block is finished again for it.
	 */
	void		(*block_written) (struct StenoWriter *writer, uint32 bytes);
	void		(*segment_replaced) (struct StenoWriter *writer);
} StenoWriter;

/* Add to a counter of the control area that only this process changes. */
static inline void
steno_writer_count(_Atomic uint64_t *counter, uint64 n)
{
	atomic_store_explicit(counter,
						  atomic_load_explicit(counter, memory_order_relaxed) + n,
						  memory_order_relaxed);
}

/* ---- process.c ---- */

extern void steno_writer_register(void);
extern void steno_writer_check_registered(void);
extern void steno_process_begin(StenoWriter *writer);
extern void steno_process_sleep(long ms, StenoWait wait);
extern bool steno_process_must_end(void);
extern bool steno_process_may_end(const StenoWriter *writer);
extern bool steno_process_run_ends(void);
pg_noreturn extern void steno_process_exit(void);
extern void steno_process_take_short_slices(void);
extern int	steno_process_start_command(const char *command, char *const *environment,
										int output, pid_t *pid);

/* ---- alert.c ---- */

extern void steno_alert(const char *event, int writer, const char *message);
extern void steno_alert_tick(void);
extern void steno_alert_finish(void);

/* ---- claim.c ---- */

extern void steno_trail_claim(void);
extern bool steno_trail_reclaim(StenoError *error);

/* ---- health.c ---- */

extern const char *steno_health_consequence(void);
extern void steno_health_failed(StenoWriter *writer, StenoAction action, const StenoError *error);
extern void steno_health_succeeded(StenoWriter *writer, StenoAction action);
extern bool steno_health_may_try(const StenoWriter *writer, StenoAction action, TimestampTz now);
extern bool steno_health_wait_to_retry(StenoWriter *writer);
extern bool steno_health_take_outage(StenoWriter *writer, StenoOutage *outage);
extern void steno_health_inherit(StenoWriter *writer);
extern void steno_health_set_problem(const StenoWriter *writer, StenoProblem problem, bool present);
extern bool steno_health_take_room(StenoWriter *writer, size_t len, StenoError *error);
extern bool steno_health_check(StenoWriter *writer);

/* ---- key.c ---- */

/* The postmaster, at its start: the command must give a key, or the server does not start. */
extern void steno_key_check(void);

/* This writer's keys; made by the first call. */
extern StenoCrypt *steno_key_crypt(void);

/* Ask for the key: this writer has started, or has reloaded the configuration. */
extern void steno_key_request(const StenoWriter *writer);

/* Go on with the request; whether it has its answer.  Never waits. */
extern bool steno_key_is_answered(const StenoWriter *writer);

/* Log with which key the segment is encrypted that this writer has begun. */
extern void steno_key_report(const StenoWriter *writer);

/* Why steno_block_finish has failed. */
extern void steno_key_block_error(const StenoWriter *writer, StenoError *error);

/* ---- state.c ---- */

/* Why a stream begins beside another one. */
typedef enum StenoBranchReason
{
	STENO_BRANCH_NONE,			/* it does not */
	STENO_BRANCH_UNKNOWN,		/* nothing is known of the other one */
	STENO_BRANCH_COPY,			/* it came with a copy of the data directory */
	STENO_BRANCH_FOREIGN,		/* it has blocks behind the last one of this server */
	STENO_BRANCH_CUT,			/* it lacks the last block of this server */
	STENO_BRANCH_ALTERED,		/* it has another one in its place */
	STENO_BRANCH_GONE			/* it is not there */
} StenoBranchReason;

#define STENO_RUN_LEN 40
#define STENO_HOST_LEN 72
#define STENO_DATA_DIRECTORY_LEN 152

/*
 * Another stream, up to which block it counts, and why this server does not go on with
 * it.  Part of the state file: its layout is fixed.
 */
typedef struct StenoBranch
{
	uint32		reason;			/* StenoBranchReason */
	uint32		stream;
	uint64		block;			/* up to which it counts */
	uint8		hash[STENO_HASH_SIZE];
	uint64		found;			/* with which it ended */
	char		run[STENO_RUN_LEN];
	char		host[STENO_HOST_LEN];
	char		directory[STENO_DATA_DIRECTORY_LEN];
} StenoBranch;

/* How a stream that no writer uses any more compares with what this server has written. */
typedef enum StenoUnused
{
	STENO_UNUSED_UNCHANGED,		/* nothing is to be recorded: none, as it was, or recorded before */
	STENO_UNUSED_DIFFERS,
	STENO_UNUSED_FAILED			/* it could not be compared */
} StenoUnused;

extern void steno_state_begin_run(uint64 ring_file, bool first);
extern bool steno_state_choose_stream(StenoWriter *writer, uint32 *stream, StenoError *error);
extern void steno_state_write_begins(const StenoWriter *writer, const uint8 hash[STENO_HASH_SIZE]);
extern void steno_state_synced(const StenoWriter *writer, bool rotated);
extern void steno_state_stopped(StenoWriter *writer);
extern const StenoBranch *steno_state_branch(void);
extern StenoUnused steno_state_compare_unused(int writer, StenoBranch *branch, StenoError *error);
extern bool steno_state_settle_unused(int writer, const StenoBranch *branch, StenoError *error);

#define STENO_IDENTITY_PAIRS 5
extern int	steno_state_identity(const char **pairs);

/* ---- output.c ---- */

extern bool steno_writer_keep_place(StenoWriter *writer, bool check_lock);
extern bool steno_writer_write(StenoWriter *writer);
extern bool steno_writer_fit(StenoWriter *writer, uint32 ring_size);
extern bool steno_writer_add(StenoWriter *writer, StenoSource *source,
							 const StenoMessage *message);
extern void steno_writer_describe_self(StenoWriter *writer);
extern bool steno_writer_record(StenoWriter *writer, int kind, int class,
								const char *const *pairs, int count);
extern void steno_writer_server(StenoWriter *writer, const char *const *pairs, int count);
extern void steno_writer_event(StenoWriter *writer, const char *event,
							   const char *name, const char *value);
extern void steno_writer_announce_synced(StenoWriter *writer);
extern bool steno_writer_sync(StenoWriter *writer);
extern bool steno_writer_sync_surely(StenoWriter *writer);
extern void steno_drain_clear_sessions(StenoRings *rings, uint32 count);

/* ---- drain.c ---- */

extern void steno_drain_init(StenoDrain *drain, StenoRings *rings, int writer);
extern void steno_drain_free(StenoDrain *drain);
extern bool steno_drain_ring(StenoWriter *writer, StenoDrain *drain, uint32 i);
extern bool steno_drain_record_drops(StenoWriter *writer, StenoDrain *drain, uint32 i);
extern bool steno_drain_rings(StenoWriter *writer, StenoDrain *drain);

/* ---- seal.c ---- */

extern void steno_seal_check_key(void);
extern bool steno_seal_start(StenoWriter *writer);
extern void steno_seal_block_written(StenoWriter *writer, uint32 bytes);
extern void steno_seal_if_due(StenoWriter *writer);
extern void steno_seal_segment_replaced(StenoWriter *writer);
extern bool steno_seal_segment(StenoWriter *writer);
extern bool steno_seal_reload(StenoWriter *writer);
extern bool steno_seal_stop(StenoWriter *writer);

/* ---- branch.c ---- */

extern bool steno_branch_record(StenoWriter *writer);
extern void steno_branch_record_unused(StenoWriter *writer);

/* ---- announce.c ---- */

#define STENO_ANNOUNCE_ROOM \
	(sizeof(StenoRecordMessage) + sizeof(StenoCut) + STENO_INFLIGHT_TEXT + 8)

extern bool steno_announce_long_statements(StenoWriter *writer, StenoDrain *drain);
extern StenoRecordMessage *steno_announce_message(void *buf, uint32 room, const StenoInFlight *f);

/* ---- recover.c ---- */

extern void steno_recover_rings(StenoWriter *writer);
extern void steno_recover_own_intent(StenoWriter *writer);

/* ---- retention.c ---- */

extern void steno_retention(StenoWriter *writer);

#pragma GCC visibility pop

/* The server finds it by name. */
extern PGDLLEXPORT void steno_writer_main(Datum main_arg);

#endif							/* STENO_WRITER_H */
