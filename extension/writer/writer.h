/*
 * extension/writer/writer.h
 *		What the files of a writer share: its private state, and what each file does.
 *
 * A file uses only files above it in this list of sections.  Functions of files
 * below that must follow a write are called through pointers in StenoWriter.
 */
#ifndef STENO_WRITER_H
#define STENO_WRITER_H

#include "base/steno.h"

#include "port/pg_bitutils.h"

#include "base/compat.h"
#include "base/facts.h"
#include "base/last_stop.h"

#pragma GCC visibility push(hidden)

#include "block/block.h"
#include "trail/segment.h"

/*
 * Time between two attempts of an action that fails, and between two checks for
 * failures, in milliseconds.
 */
#define STENO_RETRY_MS 1000

/*
 * Space of a block in addition to the longest message of a ring: for the
 * definitions that it needs, or the other records at the end of a session.
 */
#define STENO_BLOCK_SPARE 8192

/*
 * Rings that are being drained: those of the running server, or of a ring file that
 * a dead server has left.  positions has how far each ring has been read into
 * blocks; it is ahead of the ring's tail while the open block is not in the file
 * yet.
 */
typedef struct StenoDrain
{
	StenoRings *rings;
	StenoIntent *intent;
	uint32		first;			/* rings first, first + step, ... */
	uint32		step;
	StenoSource *sources;
	uint64	   *positions;
	uint64	   *reported_drops; /* for each ring, how many of its orphan_drops have a gap record */
	uint64	   *reported_gaps;	/* for each ring, how many of its gaps_left have their records */
	uint64	   *watched;		/* a bit for each ring that is looked at in every pass (drain.c) */
	uint32		ended;			/* recovery: the next block has the ends of the sessions of all
								 * rings below this one */
} StenoDrain;

/*
 * The values of a valid intent: a block of messages, or, if it is at least
 * STENO_INTENT_ENDS, a block that ends the sessions of the first (value -
 * STENO_INTENT_ENDS) rings.
 */
#define STENO_INTENT_MESSAGES 1
#define STENO_INTENT_ENDS 2

/* Actions that can fail independently of each other. */
typedef enum StenoAction
{
	STENO_WRITE,
	STENO_SYNC,
	STENO_ROTATE
} StenoAction;

#define STENO_ACTIONS 3

/*
 * A time during which the trail could not be written, kept until it has been
 * recorded.  dropped and refused are the counts at its beginning.
 */
typedef struct StenoOutage
{
	TimestampTz since;			/* 0: none */
	TimestampTz over;			/* 0: it is not over yet */
	uint64		attempts;		/* failed attempts */
	uint64		dropped;
	uint64		refused;
	char		reason[STENO_FAILURE_TEXT];
} StenoOutage;

typedef struct StenoWriter
{
	int			number;
	StenoWriterControl *control;
	StenoBlock *block;
	StenoBlock *aside;			/* for what must be written while the open block waits; NULL: not
								 * needed yet */
	StenoIndex *index;			/* of the open segment, as far as this process has written it */
	uint32		capacity;		/* of the block */
	StenoStream stream;
	StenoSource self;			/* for the writer's own records */
	StenoDrain *drain;			/* the rings whose messages the block has */
	bool		failing[STENO_ACTIONS]; /* the last attempt failed, and was logged */
	TimestampTz retry_at[STENO_ACTIONS];	/* if failing */
	uint64		served_flush;
	uint64		served_rotate;
	bool		sync_requested; /* processes wait for the disk */
	bool		reload_pending; /* changes of settings have yet to be recorded */
	bool		restarted;		/* another process was this writer earlier in this run ... */
	TimestampTz gone_since;		/* ... and ended at this time */

	/* health.c */
	StenoOutage outage;
	TimestampTz checked;
	int64		disk_room;		/* bytes that may be written */
	int64		disk_reserve;	/* bytes to leave free */
	bool		disk_full;		/* the last attempt to write has failed for lack of space */
	bool		use_reserve;	/* the next block may use the reserve, because deletions depend on it */
	bool		disk_warned;

	/*
	 * Set by writer.c, called by output.c.  block_written: a block of this many
	 * bytes before compression was written, and the next one is empty.
	 * segment_replaced: the stream continues in another segment without a planned
	 * rotation, and the open block will be finished again for it.  make_space: called
	 * once a second while there is no space for the open block; returns whether it has
	 * made some.
	 */
	void		(*block_written) (struct StenoWriter *writer, uint32 bytes);
	void		(*segment_replaced) (struct StenoWriter *writer);
	bool		(*make_space) (struct StenoWriter *writer);
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

extern void steno_process_begin(StenoWriter *writer);
extern void steno_process_beat(void);
extern void steno_process_sleep(long ms, StenoWait wait);
extern bool steno_process_must_end(void);
extern void steno_process_end_lingering(const StenoWriter *writer);
extern bool steno_process_may_end(const StenoWriter *writer);
extern bool steno_process_run_ends(void);
pg_noreturn extern void steno_process_exit(void);
extern void steno_process_take_short_slices(void);
extern int	steno_process_start_command(const char *command, char *const *environment,
										int output, pid_t *pid);

/* ---- alert.c ---- */

extern void steno_alert(const char *event, int writer, const char *message);
extern void steno_alert_at_once(const char *event, int writer, const char *message);
extern void steno_alert_check(void);
extern void steno_alert_finish(void);

/* ---- claim.c ---- */

extern void steno_trail_claim(void);
extern bool steno_trail_reclaim(StenoError *error);

/* Where a trail's directory really is.  Part of the state file, so its layout is fixed. */
typedef struct StenoTrailPlace
{
	uint64		hash;			/* of the path; 0: not known */
	char		path[480];		/* empty: it is longer */
} StenoTrailPlace;

extern void steno_place_of_trail(StenoTrailPlace *place);
extern bool steno_place_is_empty(const StenoTrailPlace *place);

#define STENO_MACHINE_LEN 40
extern void steno_identify_file(int fd, uint64 *inode, int64 *born);
extern void steno_identify_machine(char machine[STENO_MACHINE_LEN]);
extern bool steno_is_regular_file(int fd);

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

/* In the postmaster, at its start: fail the start of the server unless the command prints a key. */
extern void steno_key_check(void);

/* This writer's keys; created by the first call. */
extern StenoCrypt *steno_key_crypt(void);

/* Ask for the key, because this writer has started or reloaded the configuration. */
extern void steno_key_request(const StenoWriter *writer);

/* Continue the request; returns whether it has been answered.  Never waits. */
extern bool steno_key_is_answered(const StenoWriter *writer);

/* Log the key of the segment that this writer has begun. */
extern void steno_key_report(const StenoWriter *writer);

/* The reason why steno_block_finish has failed. */
extern void steno_key_block_error(const StenoWriter *writer, StenoError *error);

/* ---- state.c ---- */

/* Why a stream replaces another one. */
typedef enum StenoBranchReason
{
	STENO_BRANCH_NONE,			/* it replaces none */
	STENO_BRANCH_UNKNOWN,		/* nothing is known about the other one */
	STENO_BRANCH_COPY,			/* the other one came with a copy of the data directory */
	STENO_BRANCH_FOREIGN,		/* the other one has blocks after the last one of this server */
	STENO_BRANCH_CUT,			/* the other one lacks the last block of this server */
	STENO_BRANCH_ALTERED,		/* the other one has a different block instead of it */
	STENO_BRANCH_GONE			/* the other one does not exist */
} StenoBranchReason;

#define STENO_RUN_LEN 40
#define STENO_HOST_LEN 72
#define STENO_DATA_DIRECTORY_LEN 152

/*
 * A stream that this server does not continue: the reason, and up to which block it
 * is this server's.  Part of the state file, so its layout is fixed.
 */
typedef struct StenoBranch
{
	uint32		reason;			/* StenoBranchReason */
	uint32		stream;
	uint64		block;			/* last block that is this server's */
	uint8		hash[STENO_HASH_SIZE];
	uint64		found;			/* last block that it has */
	char		run[STENO_RUN_LEN];
	char		host[STENO_HOST_LEN];
	char		directory[STENO_DATA_DIRECTORY_LEN];
} StenoBranch;

/* Result of comparing a stream that is no longer used with what this server has written. */
typedef enum StenoUnused
{
	STENO_UNUSED_UNCHANGED,		/* nothing to record: there is no stream, it is unchanged, or the
								 * difference is recorded already */
	STENO_UNUSED_DIFFERS,
	STENO_UNUSED_FAILED			/* it could not be compared */
} StenoUnused;

extern void steno_state_begin_run(uint64 ring_file, bool first);
extern bool steno_state_choose_stream(StenoWriter *writer, uint32 *stream, uint64 *durable, StenoError *error);
extern void steno_state_write_begins(const StenoWriter *writer, const uint8 hash[STENO_HASH_SIZE]);
extern void steno_state_synced(const StenoWriter *writer, bool rotated);
extern void steno_state_stopped(StenoWriter *writer);
extern const StenoBranch *steno_state_branch(void);
extern StenoUnused steno_state_compare_unused(int writer, StenoBranch *branch, StenoLost *lost, StenoError *error);
extern bool steno_state_settle_unused(int writer, const StenoBranch *branch, StenoError *error);
extern bool steno_state_was_elsewhere(int64 ring_file);

#define STENO_IDENTITY_PAIRS 6
extern int	steno_state_identity(const char **pairs);

extern void steno_state_losses(TimestampTz now);
extern void steno_state_stop(const StenoStop *stop);
extern bool steno_state_take_stop(StenoStop *stop);

/* ---- output.c ---- */

extern bool steno_writer_keep_place(StenoWriter *writer, bool check_lock);
extern bool steno_writer_write(StenoWriter *writer);
extern bool steno_writer_write_aside(StenoWriter *writer, void (*put) (StenoWriter *writer), StenoError *error);
extern bool steno_writer_index(StenoWriter *writer);
extern bool steno_writer_fit(StenoWriter *writer, const StenoRings *rings);
extern bool steno_writer_add(StenoWriter *writer, StenoSource *source,
							 const StenoMessage *message);
extern void steno_writer_describe_self(StenoWriter *writer);
extern bool steno_writer_record(StenoWriter *writer, int kind, int class,
								const char *const *pairs, int count);
extern void steno_writer_server(StenoWriter *writer, const char *const *pairs, int count);
extern void steno_writer_report_lost(StenoWriter *writer, uint32 stream, StenoLost *lost);
extern void steno_format_utc(char *to, size_t size, TimestampTz t);
extern void steno_format_utc_us(char *to, size_t size, TimestampTz t);
extern void steno_writer_event(StenoWriter *writer, const char *event,
							   const char *name, const char *value);
extern void steno_writer_announce_synced(StenoWriter *writer);
extern bool steno_writer_sync(StenoWriter *writer);
extern bool steno_writer_sync_surely(StenoWriter *writer);
extern void steno_drain_clear_sessions(StenoRings *rings, uint32 count);

/* ---- drain.c ---- */

extern void steno_drain_init(StenoDrain *drain, StenoRings *rings, int writer, uint32 step);
extern void steno_drain_free(StenoDrain *drain);
extern bool steno_drain_ring(StenoWriter *writer, StenoDrain *drain, uint32 i);
extern bool steno_drain_record_drops(StenoWriter *writer, StenoDrain *drain, uint32 i);
extern bool steno_drain_rings(StenoWriter *writer, StenoDrain *drain, bool all);
extern bool steno_drain_describes(const StenoSource *source, int64 start, uint32 pid);
extern StenoSource *steno_drain_undescribed(StenoSource *source, int64 start, uint32 pid);
extern bool steno_drain_add_numbers(StenoWriter *writer, StenoSource *source, uint64 gap, uint64 first, uint64 last,
									uint32 reason);
extern bool steno_drain_add_disconnect(StenoWriter *writer, StenoSource *source, int outcome, uint32 sqlstate,
									   TimestampTz time);
extern bool steno_drain_add_gap(StenoWriter *writer, StenoSource *source, const StenoRing *ring);

extern bool steno_watch_is_quiet(const StenoDrain *drain);

/* The first watched ring from number i on; nrings if there is none. */
static inline uint32
steno_watched_from(const StenoDrain *drain, uint32 i)
{
	uint32		n = STENO_RING_WORDS(drain->rings->nrings);
	uint32		word = i / 64;
	uint64		bits;

	if (word >= n)
		return drain->rings->nrings;
	bits = drain->watched[word] & (~UINT64CONST(0) << (i % 64));
	while (bits == 0)
	{
		if (++word >= n)
			return drain->rings->nrings;
		bits = drain->watched[word];
	}
	return word * 64 + pg_rightmost_one_pos64(bits);
}

/* For each ring of the drain that is watched. */
#define STENO_EACH_WATCHED(drain, i) \
	for (i = steno_watched_from(drain, 0); i < (drain)->rings->nrings; i = steno_watched_from(drain, (i) + 1))

/* ---- seal.c ---- */

extern void steno_seal_check_key(void);
extern bool steno_seal_start(StenoWriter *writer);
extern void steno_seal_begin_stream(StenoWriter *writer);
extern void steno_seal_block_written(StenoWriter *writer, uint32 bytes);
extern void steno_seal_if_due(StenoWriter *writer);
extern void steno_seal_segment_replaced(StenoWriter *writer);
extern bool steno_seal_is_alone(const StenoWriter *writer);
extern bool steno_seal_may_follow(StenoWriter *writer);
extern void steno_seal_put_aside(StenoWriter *writer);
extern void steno_seal_block_inserted(StenoWriter *writer);
extern bool steno_seal_at_once(StenoWriter *writer);
extern void steno_seal_request(void);
extern bool steno_seal_segment(StenoWriter *writer);
extern bool steno_seal_reload(StenoWriter *writer);
extern bool steno_seal_stop(StenoWriter *writer);

/* ---- branch.c ---- */

extern bool steno_branch_record(StenoWriter *writer);
extern void steno_branch_record_unused(StenoWriter *writer);
extern void steno_other_trail_record(StenoWriter *writer, const StenoRings *rings);

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
extern bool steno_retention_is_behind(void);
extern bool steno_retention_make_space(StenoWriter *writer);

/* ---- writer.c ---- */

extern void steno_writer_register(void);
extern void steno_writer_check_registered(void);

#pragma GCC visibility pop

/* Exported, because the server finds it by its name. */
extern PGDLLEXPORT void steno_writer_main(Datum main_arg);

#endif							/* STENO_WRITER_H */
