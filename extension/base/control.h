/*
 * extension/base/control.h
 *		What the processes of one run of the server share: the control area, in the
 *		server's shared memory, and the ring file.
 *
 * The postmaster creates both (load/shmem.c), and every process inherits the
 * pointers.  Nothing in the control area has to outlive a crash: rings and the
 * trail have what must.
 */
#ifndef STENO_CONTROL_H
#define STENO_CONTROL_H

#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/spin.h"

#include "base/settings.h"
#include "ring/ring.h"
#include "ring/wake.h"

#pragma GCC visibility push(hidden)

/* Settings that can change while the server runs, and room for the value of each. */
#define STENO_SETTINGS_MOST 64
#define STENO_SETTING_VALUE 160

#define STENO_FAILURE_TEXT 512

/* Problems of a writer that do not prevent it from writing the trail. */
typedef enum StenoProblem
{
	STENO_PROBLEM_ENCRYPTION,	/* no answer of steno.encryption_key_command */
	STENO_PROBLEM_SIGNING,		/* steno.signing_key_file cannot be used */
	STENO_PROBLEM_SEAL,			/* the last seal could not be made */
	STENO_PROBLEM_RETENTION,	/* segments that are to go cannot be deleted */
	STENO_PROBLEM_SLOT			/* segments were deleted that a slot wants */
} StenoProblem;

#define STENO_PROBLEMS 5

/*
 * The part of a writer's control area that says what prevents it from writing the
 * trail.  The writer sets all fields but refused, to which sessions add, and those about
 * a writer that does nothing any more, which whoever notices it sets, and the writer
 * resets (delivery/refusal.c); any process reads them.
 *
 * failing: 0 while the trail can be written, else what sessions have to do: a
 * StenoOnFailure plus one.  disk_free: free space of the trail's file system in
 * hundredths of a percent, plus one; 0 if it is not known.  problems: a bit for each
 * StenoProblem.  since: when the failure began.  mutex protects text, the description
 * of the failure, which is empty if there is none.  stalled_since: when the writer was
 * last seen to do something; 0: it does.  stall_dropped, stall_refused: what its sessions
 * had dropped, and how many of their statements had been refused, before.  wait_logged:
 * when a session last logged that it waits; 0: not lately.
 */
typedef struct StenoHealth
{
	_Atomic int64_t stalled_since;
	_Atomic uint64_t stall_dropped;
	_Atomic uint64_t stall_refused;
	_Atomic int64_t wait_logged;
	_Atomic uint32_t failing;
	_Atomic uint32_t disk_free;
	_Atomic uint32_t problems;
	_Atomic uint64_t refused;
	_Atomic int64_t since;
	slock_t		mutex;
	char		text[STENO_FAILURE_TEXT];
} StenoHealth;

/*
 * One writer's part of the control area.  The writer sets all fields, except that
 * any backend adds to flush_requested and rotate_requested, and another writer sets
 * absence_reported.  Each field is read by itself: a reader may see counters that
 * belong to slightly different times.
 *
 * latch, pid: set when the writer starts; NULL and 0 while it is not running.
 * starts: number of processes that have been this writer in this run of the server.
 * begun: one of them has completed what is done once in a run.  gone_since: when the
 * last one ended, or the run began; 0 while the writer is running.
 * absence_reported: another writer has logged that this one is not running.
 * ended: the server stops, and the writer is about to write its last block.
 * stopped: all that it had to write, the record of the stop included, is in the trail.
 * flush_done, rotate_done: the request up to which the writer has completed all.
 * asleep: the writer is in a deep sleep, and must be woken for the first message of a ring
 * that it does not watch.  The others have STENO_RING_ASLEEP.
 */
typedef struct StenoWriterControl
{
	Latch	   *latch;
	_Atomic uint32_t pid;
	_Atomic uint32_t starts;
	_Atomic uint32_t begun;
	_Atomic uint32_t absence_reported;
	_Atomic int64_t gone_since;
	_Atomic uint32_t asleep;
	_Atomic uint32_t ended;
	_Atomic uint32_t stopped;
	_Atomic uint64_t flush_requested;
	_Atomic uint64_t flush_done;
	_Atomic uint64_t rotate_requested;
	_Atomic uint64_t rotate_done;
	_Atomic uint64_t records;
	_Atomic uint64_t blocks;
	_Atomic uint64_t raw_bytes;
	_Atomic uint64_t stored_bytes;
	_Atomic uint64_t segment;	/* that it writes; 0: none yet */
	_Atomic uint32_t stream;	/* set before segment */
	_Atomic uint64_t start_segment; /* with the record of the server's start; 0: not yet, or of another writer */
	_Atomic uint64_t passes;
	_Atomic uint64_t beats;		/* counts whatever the writer does, also while it waits to retry */
	_Atomic int64_t beat_time;	/* of the last one; 0: none yet */
	_Atomic uint64_t syncs;
	_Atomic uint64_t errors;
	_Atomic int64_t last_write;
	_Atomic int64_t last_sync;
	StenoWake	wake;			/* see wake.h */
	StenoHealth health;
} StenoWriterControl;

/* Roles that were renamed, as many as are kept. */
#define STENO_ROLE_CHANGES 64

typedef struct StenoRoleChange
{
	Oid			role;
	char		name[NAMEDATALEN];	/* the new one; empty: it is not certain */
} StenoRoleChange;

/* Counters of roles by a hash, which different ones may share. */
#define STENO_ROLE_COUNTERS 2048

/*
 * What happened to names of roles since the server's start (session/role.c).  The session that commits a
 * change adds it; rename n is in last[n % STENO_ROLE_CHANGES].  mutex protects last and the change of count, which
 * is read without it, as are the others.
 */
typedef struct StenoRoleChanges
{
	slock_t		mutex;
	_Atomic uint64_t version;	/* number of transactions that have changed anything here */
	_Atomic uint64_t count;		/* of renames */
	StenoRoleChange last[STENO_ROLE_CHANGES];
	_Atomic uint32_t given[STENO_ROLE_COUNTERS];	/* by name: how often a role has got it */
	_Atomic uint32_t dropped[STENO_ROLE_COUNTERS];	/* by number: how often a role was dropped */
} StenoRoleChanges;

/* What is not in the trail, and nothing else may tell of: steno.status. */
typedef struct StenoLosses
{
	uint64		refused;		/* statements */
	uint64		dropped;		/* records, by sessions */
	uint64		lost;			/* records of processes without a ring */
} StenoLosses;

/*
 * What all processes of the server share, beside the rings: in PostgreSQL's shared memory,
 * created by the postmaster, and made anew when it restarts its processes after a crash.
 */
typedef struct StenoControl
{
	ConditionVariable answered; /* a writer has changed one of its done */
	_Atomic uint64_t lost;		/* records for which there was no ring */
	StenoLosses losses_before;	/* in earlier runs of the server: set by the postmaster */
	_Atomic uint64_t written;	/* blocks of all writers, except those of seals alone */
	_Atomic uint32_t hooks_told;	/* a bit for each hook of another library of which the log says so */
	_Atomic uint32_t shutdown_asked;	/* by a writer: steno.on_failure */
	_Atomic uint64_t rules_generation;	/* counted up by writer 0 when rules change */

	/*
	 * The server's own values of the settings that can change while it runs:
	 * set by the postmaster, then by writer 0 when a reload has its records in
	 * the trail: wanted, settings, generation, in this order.  A reader takes
	 * settings before wanted; if it sees half a change, it finds the other
	 * half by comparing.
	 */
	_Atomic uint32_t settings_generation;

	/*
	 * Which values a new process has inherited that are those of a generation: set by the
	 * postmaster, and after a reload by the first session that finds them equal
	 * (session/settings_in_force.c).
	 */
	_Atomic uint64_t inherited_values;
	StenoWanted wanted;
	char		settings[STENO_SETTINGS_MOST][STENO_SETTING_VALUE];
	StenoWriterControl writers[STENO_MAX_WRITERS];
	StenoRoleChanges roles;

	/*
	 * One bit for each ring: it has messages, although its writer does not watch it.
	 * Set by the ring's producer, taken by its writer.
	 */
	_Atomic uint64_t has_news[FLEXIBLE_ARRAY_MEMBER];
} StenoControl;

extern StenoControl *steno_control;

/* 64-bit words that have a bit for each of so many rings. */
#define STENO_RING_WORDS(nrings) (((nrings) + 63) / 64)

static inline bool
steno_writer_runs(const StenoWriterControl *control)
{
	return atomic_load(&((StenoWriterControl *) control)->pid) != 0;
}

extern StenoRings steno_rings;

extern void steno_losses(StenoLosses *losses);

/*
 * Run steno.alert_command in a process that is not a writer; set by writer/alert.c in the
 * postmaster, and inherited.
 */
extern void (*steno_alert_hook) (const char *event, int writer, const char *message);

/* Our waits, as pg_stat_activity shows them (docs/operations.md). */
typedef enum StenoWait
{
	STENO_WAIT_ROOM,			/* a statement, for room in its ring */
	STENO_WAIT_SYNC,			/* a statement or a commit, for the disk */
	STENO_WAIT_ANSWER,			/* steno.flush(), steno.rotate() */
	STENO_WAIT_MAIN,			/* a writer, for records */
	STENO_WAIT_RETRY			/* a writer, to try again what has failed */
} StenoWait;

#define STENO_WAITS 5

extern uint32 steno_wait_events[STENO_WAITS];

extern char steno_ring_path[MAXPGPATH];	/* of the ring file; set by the postmaster */

/* Whether this server records at all: not in single-user or bootstrap mode. */
static inline bool
steno_active(void)
{
	return steno_rings.file != NULL;
}

/* For SQL functions: an error if it does not. */
extern void steno_require_active(void);

/* Wake a writer, if it is running. */
extern void steno_writer_wake(StenoWriterControl *writer);

#pragma GCC visibility pop

#endif							/* STENO_CONTROL_H */
