/*
 * extension/writer/process.c
 *		A writer as a process: its signals, its end, and the shell commands that it
 *		starts.
 *
 * When a server stops, or its postmaster has died, its writers must outlive its
 * sessions: a writer exits only when no session of its rings is left.  A writer that is
 * terminated while the server runs exits at once, and the postmaster starts it
 * again.
 */
#include "writer/writer.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/pidfile.h"
#include "utils/timestamp.h"

#include "base/compat.h"

/* Time slice of a writer that statements wait for, in nanoseconds: the kernel's minimum. */
#define SLICE_NS 100000

/* At a stop: the time between two looks at sessions that may outlive the writers, and how long they are waited for. */
#define LINGER_US 10000
#define LINGER_MOST_US INT64CONST(10000000)

/* Set when a wait reports the postmaster's death. */
static volatile bool postmaster_dead;

/*
 * terminated: SIGTERM has arrived, and its reason has not been determined yet.
 * server_stops: the reason was that the server stops.  The postmaster writes its
 * state to postmaster.pid before it signals its children, so the file has the
 * reason.  The file is changed in place, and stays open while this process runs:
 * later, there may be no descriptor for it.  state_file -1: it could not be opened yet.
 */
static volatile sig_atomic_t terminated;
static bool server_stops;
static int	state_file = -1;

static StenoWriterControl *my_control;

/* ---- signals and waiting ---- */

static void
handle_terminate(SIGNAL_ARGS)
{
	int			save_errno = errno;

	terminated = true;
	ShutdownRequestPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/* This process does something: others can tell from that that it has not been stopped. */
void
steno_process_beat(void)
{
	steno_writer_count(&my_control->beats, 1);
	atomic_store_explicit(&my_control->beat_time, GetCurrentTimestamp(), memory_order_relaxed);
}

/* Sleep, until the timeout, a signal, or the postmaster's death. */
void
steno_process_sleep(long ms, StenoWait wait)
{
	steno_process_beat();
	/* a wait for the death of a postmaster that has died would return at once */
	if (postmaster_dead)
		pg_usleep(ms * 1000L);
	else if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH, ms,
					   steno_wait_events[wait]) & WL_POSTMASTER_DEATH)
		postmaster_dead = true;
	ResetLatch(MyLatch);
}

/* ---- the end ---- */

/* Open postmaster.pid, unless it is open; false with errno. */
static bool
open_state_file(void)
{
	if (state_file < 0)
		state_file = open("postmaster.pid", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return state_file >= 0;
}

/*
 * Whether the server stops, by postmaster.pid.  If that cannot be read, it does not:
 * this process then exits, and the postmaster starts another one or stops.  What
 * sessions that are still there record is in their rings, where the next process or
 * the next start finds it.
 */
static bool
postmaster_stops(void)
{
	char		bytes[LOCK_FILE_LINE_PM_STATUS * MAXPGPATH];
	const char *line = bytes;
	ssize_t		len = open_state_file() ? pread(state_file, bytes, sizeof(bytes) - 1, 0) : -1;
	int			n;

	if (len < 0)
	{
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("steno writer could not read file \"%s\": %m", "postmaster.pid"),
				 errdetail("It cannot find out whether the server stops, and assumes that it does not.")));
		return false;
	}
	bytes[len] = '\0';
	for (n = 1; n < LOCK_FILE_LINE_PM_STATUS && line != NULL; n++)
	{
		line = strchr(line, '\n');
		if (line != NULL)
			line++;
	}
	return line != NULL && strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

/* Whether the whole server is stopping, and not only this writer. */
bool
steno_process_run_ends(void)
{
	return server_stops || postmaster_dead;
}

/* Whether this process is to exit as soon as it may. */
bool
steno_process_must_end(void)
{
	if (terminated)
	{
		terminated = false;
		if (!server_stops)
			server_stops = postmaster_stops();
		if (!server_stops)
			ereport(LOG,
					(errmsg("terminating steno writer due to administrator command"),
					 errdetail("The server does not stop, so the postmaster starts the writer again."),
					 errhint("What sessions record until then stays in their rings.")));
	}
	return ShutdownRequestPending || postmaster_dead;
}

/* Whether a ring of this writer still has an owner that may write records. */
static bool
has_producers(const StenoWriter *w)
{
	uint32		i;

	for (i = w->number; i < steno_rings.nrings; i += steno_rings.nwriters)
	{
		StenoRing  *ring = steno_ring_at(&steno_rings, i);
		/* pairs with the release store in end_session */
		uint32		owner = atomic_load_explicit(&ring->owner, memory_order_acquire);

		if (owner != 0 && owner != (uint32) MyProcPid &&
			!(atomic_load(&ring->owner_flags) & STENO_OWNER_LINGERS) &&
			(kill(owner, 0) == 0 || errno != ESRCH))
			return true;
	}
	return false;
}

/* Whether a session that may outlive the writers runs a statement of which there will be a record. */
static bool
runs_statement(const StenoRing *ring)
{
	return atomic_load_explicit(&((StenoRing *) ring)->owner, memory_order_acquire) != 0 &&
		(atomic_load(&((StenoRing *) ring)->owner_flags) & STENO_OWNER_LINGERS) &&
		steno_inflight_runs(STENO_LOAD(ring->inflight.active)) && STENO_LOAD(ring->inflight.done) == 0;
}

/*
 * The server stops, and all other sessions have ended.  WAL senders run until after the shutdown checkpoint, and
 * those of logical replication can run statements: from now on, they are refused, and what runs is ended, as the
 * server will do when the checkpoint begins.  When this returns, what their clients have been told of is in their
 * rings.
 */
void
steno_process_end_lingering(const StenoWriter *w)
{
	uint64		start = steno_clock_ticks(&steno_my.clock);
	uint32		i;
	bool		any = false;

	atomic_store(&w->control->ended, 1);
	for (i = w->number; i < steno_rings.nrings; i += steno_rings.nwriters)
	{
		StenoRing  *ring = steno_ring_at(&steno_rings, i);

		if (atomic_load(&ring->owner) == 0 || !(atomic_load(&ring->owner_flags) & STENO_OWNER_LINGERS))
			continue;
		any = true;
		atomic_fetch_or(&((StenoLocal *) ring->own)->news, STENO_NEWS_FAILING);
	}
	if (!any)
		return;
	do
	{
		any = false;
		/* a statement that had begun before is seen after that */
		pg_usleep(LINGER_US);
		for (i = w->number; i < steno_rings.nrings; i += steno_rings.nwriters)
		{
			StenoRing  *ring = steno_ring_at(&steno_rings, i);
			uint32		owner = atomic_load_explicit(&ring->owner, memory_order_acquire);

			if (runs_statement(ring) && kill(owner, SIGTERM) == 0)
				any = true;
		}
	} while (any && steno_clock_us(&steno_my.clock, start, steno_clock_ticks(&steno_my.clock)) < LINGER_MOST_US);
}

/* Whether this process is to exit, and need not wait for sessions any more. */
bool
steno_process_may_end(const StenoWriter *w)
{
	if (!steno_process_must_end())
		return false;
	/* if only this writer exits, the next process finds later records in the rings */
	return !steno_process_run_ends() || !has_producers(w);
}

/*
 * Exit.  The postmaster restarts a worker that exits with 1 after its restart time;
 * one that exits with 0 is not restarted, which is for a server that stops.
 */
void
steno_process_exit(void)
{
	proc_exit(server_stops ? 0 : 1);
}

/* At exit, whatever the reason. */
static void
release_control(int code, Datum arg)
{
	StenoWriterControl *control = (StenoWriterControl *) DatumGetPointer(arg);

	control->latch = NULL;
	atomic_store(&control->gone_since, GetCurrentTimestamp());
	atomic_store(&control->pid, 0);
}

/* ---- the beginning ---- */

/*
 * Show the process in pg_stat_activity, with its wait events.  That requires a
 * PGPROC entry and one among the receivers of invalidations.  It processes no
 * invalidations, because it has no caches and no relation files, and does not
 * participate in barriers, so no process ever waits for a writer that waits for its
 * disk.
 */
static void
show_in_activity(void)
{
	STENO_ENTER_PROC_ARRAY();
	InitializeSessionUserIdStandalone();
	pgstat_beinit();
	STENO_PGSTAT_BESTART();
}

/*
 * Take over this writer's part of the control area.  The postmaster starts a writer
 * only after it has reaped the previous process, so only one process at a time uses
 * that part.
 */
void
steno_process_begin(StenoWriter *w)
{
	StenoWriterControl *control = w->control;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, handle_terminate);
	pqsignal(SIGINT, PG_SIG_IGN);
	BackgroundWorkerUnblockSignals();

	my_control = control;
	steno_process_beat();
	on_shmem_exit(release_control, PointerGetDatum(control));
	control->latch = MyLatch;
	w->gone_since = atomic_load(&control->gone_since);
	w->restarted = atomic_fetch_add(&control->starts, 1) > 0;
	atomic_store(&control->pid, (uint32) MyProcPid);
	atomic_store(&control->gone_since, 0);
	(void) open_state_file();
	show_in_activity();
}

/*
 * Statements wait for this process now: with short time slices, the kernel
 * schedules it sooner after a wake-up (Linux 6.12 and later).  Its share of the
 * processor does not change.
 */
void
steno_process_take_short_slices(void)
{
#if defined(__linux__) && defined(SYS_sched_setattr)
	struct
	{
		uint32		size;
		uint32		policy;
		uint64		flags;
		int32		nice;
		uint32		priority;
		uint64		runtime;
		uint64		deadline;
		uint64		period;
	}			attributes = {0};

	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0 ||
		attributes.policy != 0)
		return;
	attributes.size = sizeof(attributes);
	attributes.runtime = SLICE_NS;
	(void) syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

/* ---- shell commands ---- */

/*
 * Start a shell command with this descriptor as its standard output, and the
 * server's standard error.  It gets a process group of its own, so that it can be
 * killed with all processes that it has started, and does not get signals to the
 * server's group.  Returns 0 or an errno value; *pid is 0 if it failed.
 */
int
steno_process_start_command(const char *command, char *const *environment, int output, pid_t *pid)
{
	char	   *arguments[] = {"sh", "-c", unconstify(char *, command), NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t	signals;
	int			result = ENOMEM;

	*pid = 0;
	if (posix_spawn_file_actions_init(&actions) != 0)
		return result;
	if (posix_spawnattr_init(&attributes) == 0)
	{
		posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
								 POSIX_SPAWN_SETSIGDEF);
		posix_spawnattr_setpgroup(&attributes, 0);
		sigemptyset(&signals);
		posix_spawnattr_setsigmask(&attributes, &signals);
		sigfillset(&signals);
		sigdelset(&signals, SIGKILL);
		sigdelset(&signals, SIGSTOP);
		posix_spawnattr_setsigdefault(&attributes, &signals);
		posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
		posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
		/* the command must not inherit descriptors of the server that are not close-on-exec */
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
		posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
#endif
		result = posix_spawn(pid, "/bin/sh", &actions, &attributes, arguments, environment);
		if (result != 0)
			*pid = 0;
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return result;
}
