/*
 * lab/ipc/waken.c
 *		Waking sleepers: each by its own signal or eventfd, or all at once.
 *
 * In each round all sleepers fall asleep, one process wakes them all, and each stores the
 * time when it was awake.  Signals and eventfds are waited for like a server's latch, with
 * an epoll set that also reports the parent's death; the set is kept, or created for each
 * wait as PostgreSQL did up to 9.6.  The futex is core/ring/wake.h, used like in sessions
 * that wait for the disk.
 *
 * System calls are counted by the code that makes them.  Those that the C library and
 * core/ring/wake.c make are counted by the kernel where it permits that (a tracepoint,
 * read by perf_event_open); those of the laboratory's own bookkeeping are not counted.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "ipc/ipc.h"
#include "ring/ring.h"
#include "ring/wake.h"

#define STALE_NS (UINT64_C(60) * 1000000000)

const char *const lab_waker_names[LAB_WAKERS] = {"signal", "eventfd", "condvar", "futex"};

/* A sleeper's own cache line: when it was awake. */
typedef struct Bed
{
	_Alignas(LAB_CACHE_LINE) uint64_t awake_ns;
} Bed;

/* In shared memory.  The waker writes round, last and figures; sleepers add to asleep and awake. */
typedef struct Room
{
	_Alignas(LAB_CACHE_LINE) _Atomic uint32_t round;	/* sleepers of rounds up to this
														 * one may get up */
	_Atomic uint32_t last;		/* the round after which sleepers exit; 0: not known
								 * yet.  Set before that round's wake-up */
	_Alignas(LAB_CACHE_LINE) _Atomic uint32_t asleep;	/* rounds times sleepers */
	_Alignas(LAB_CACHE_LINE) _Atomic uint32_t awake;
	pthread_mutex_t mutex;
	pthread_cond_t condition;
	StenoWake	wake;
	LabWakeFigures figures;		/* the waker's */
	Bed			beds[];
} Room;

typedef struct Run
{
	LabWakeCase c;
	LabGroup	group;
	Room	   *room;
	size_t		room_size;
	StenoRing  *rings;			/* for LAB_FUTEX: one each */
	size_t		rings_size;
	int		   *events;			/* for LAB_EVENTFD: one each */
	int			death[2];		/* a pipe without writes, for the parent's death */
} Run;

/* ---- counting system calls ---- */

/* Open a counter of this process's system calls; -1 if that is not possible. */
static int
open_counter(void)
{
	struct perf_event_attr attributes = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attributes), .exclude_hv = 1
	};
	char		text[32];
	FILE	   *f = fopen("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", "re");

	if (f == NULL)
		return -1;
	if (fgets(text, sizeof(text), f) == NULL)
		text[0] = '\0';
	fclose(f);
	attributes.config = strtoull(text, NULL, 10);
	if (attributes.config == 0)
		return -1;
	return (int) syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* All calls so far, except those that this program makes to count them. */
static uint64_t
read_counter(int fd)
{
	uint64_t	n = 0;

	lab_own_calls++;
	if (fd < 0 || read(fd, &n, sizeof(n)) != sizeof(n))
		return 0;
	return n - lab_own_calls;
}

/* ---- a sleeper ---- */

/* State of a sleeper: what it waits on, and how often it called the kernel. */
typedef struct Sleeper
{
	Run		   *run;
	uint32_t	i;
	int			latch;			/* signalfd or eventfd */
	int			set;			/* epoll */
	uint64_t	calls;
} Sleeper;

static void
make_set(Sleeper *s)
{
	struct epoll_event latch = {.events = EPOLLIN, .data.fd = s->latch};
	struct epoll_event death = {.events = EPOLLIN, .data.fd = s->run->death[0]};

	s->set = epoll_create1(EPOLL_CLOEXEC);
	if (s->set < 0 || epoll_ctl(s->set, EPOLL_CTL_ADD, s->latch, &latch) != 0 ||
		epoll_ctl(s->set, EPOLL_CTL_ADD, s->run->death[0], &death) != 0)
		lab_fail("could not make an epoll set: %s", strerror(errno));
	s->calls += 3;
}

static void
open_latch(Sleeper *s)
{
	sigset_t	signals;

	if (s->run->c.waker == LAB_EVENTFD)
		s->latch = s->run->events[s->i];
	else
	{
		sigemptyset(&signals);
		sigaddset(&signals, SIGURG);
		if (sigprocmask(SIG_BLOCK, &signals, NULL) != 0 ||
			(s->latch = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
			lab_fail("could not make a signalfd: %s", strerror(errno));
	}
	if (!s->run->c.recreate)
		make_set(s);
	s->calls = 0;
}

static bool
may_get_up(const Room *room, uint32_t round)
{
	return atomic_load_explicit(&room->round, memory_order_acquire) >= round;
}

/* Like WaitLatch: wait for the set, empty the latch, check again. */
static void
wait_for_latch(Sleeper *s, uint32_t round)
{
	struct epoll_event event;
	struct signalfd_siginfo info;

	while (!may_get_up(s->run->room, round))
	{
		if (s->run->c.recreate)
			make_set(s);
		s->calls += 2;
		if (epoll_wait(s->set, &event, 1, -1) < 0 && errno != EINTR)
			lab_fail("could not wait: %s", strerror(errno));
		if (read(s->latch, &info, s->run->c.waker == LAB_EVENTFD ? sizeof(uint64_t) : sizeof(info)) < 0 &&
			errno != EAGAIN)
			lab_fail("could not read from a latch: %s", strerror(errno));
		if (s->run->c.recreate)
		{
			s->calls++;
			close(s->set);
		}
	}
}

static void
wait_for_condition(Sleeper *s, uint32_t round)
{
	Room	   *room = s->run->room;

	pthread_mutex_lock(&room->mutex);
	while (!may_get_up(room, round))
	{
		s->calls++;
		pthread_cond_wait(&room->condition, &room->mutex);
	}
	pthread_mutex_unlock(&room->mutex);
}

/* Sleep like a session that waits until its record, at this position, is on disk. */
static void
wait_for_disk(Sleeper *s)
{
	StenoRing  *ring = &s->run->rings[s->i];
	uint64_t	position = atomic_load_explicit(&ring->head, memory_order_relaxed);

	do
		s->calls++;
	while (!steno_wake_wait(&s->run->room->wake, ring, position, 60000));
}

static void
sleep_once(Sleeper *s, uint32_t round)
{
	Room	   *room = s->run->room;

	if (s->run->c.waker == LAB_FUTEX)
	{
		StenoRing  *ring = &s->run->rings[s->i];

		atomic_store_explicit(&ring->head, round * UINT64_C(8), memory_order_release);
		(void) steno_wake_ask(&room->wake);
	}
	atomic_fetch_add(&room->asleep, 1);
	if (s->run->c.waker == LAB_CONDVAR)
		wait_for_condition(s, round);
	else if (s->run->c.waker == LAB_FUTEX)
		wait_for_disk(s);
	else
		wait_for_latch(s, round);
	room->beds[s->i].awake_ns = lab_now();
	if (atomic_fetch_add(&room->awake, 1) + 1 == s->run->c.sleepers * round)
		lab_futex_wake(&room->awake, 1);
}

static void
sleeper_body(void *arg, uint32_t i)
{
	Run		   *run = arg;
	LabMember  *member = &run->group.shared->members[i];
	Sleeper		s = {.run = run, .i = i, .latch = -1, .set = -1};
	int			counter = open_counter();
	uint64_t	calls;
	uint64_t	all;
	LabUsage	begin;
	uint32_t	round;
	uint32_t	last;

	if (run->c.waker == LAB_SIGNAL || run->c.waker == LAB_EVENTFD)
		open_latch(&s);
	lab_begin(run->group.shared, &begin);
	calls = read_counter(counter);
	for (round = 1; (last = atomic_load(&run->room->last)) == 0 || round <= last; round++)
		sleep_once(&s, round);
	all = read_counter(counter) - calls;
	lab_end(member, &begin);
	member->count = round - 1;
	member->calls = s.calls;
	if (counter >= 0 && (run->c.waker == LAB_CONDVAR || run->c.waker == LAB_FUTEX))
		member->calls = all;
}

/* ---- the waker ---- */

/* Wakes all; returns the number of system calls that it makes itself. */
static uint64_t
wake_each(Run *run, uint32_t round)
{
	const LabMember *members = run->group.shared->members;
	uint64_t	one = 1;
	uint32_t	i;

	atomic_store_explicit(&run->room->round, round, memory_order_release);
	for (i = run->c.miss; i < run->c.sleepers; i++)
		if (run->c.waker == LAB_SIGNAL ? kill(members[i].pid, SIGURG) != 0 :
			write(run->events[i], &one, sizeof(one)) != sizeof(one))
			lab_fail("could not wake a process: %s", strerror(errno));
	return run->c.sleepers - run->c.miss;
}

static uint64_t
wake_by_condition(Run *run, uint32_t round)
{
	pthread_mutex_lock(&run->room->mutex);
	atomic_store_explicit(&run->room->round, round, memory_order_release);
	pthread_mutex_unlock(&run->room->mutex);
	if (run->c.miss)
		pthread_cond_signal(&run->room->condition);
	else
		pthread_cond_broadcast(&run->room->condition);
	return 1;
}

/* Wake like a writer at the end of a pass. */
static uint64_t
wake_by_round(Run *run, uint32_t round)
{
	StenoWake  *wake = &run->room->wake;
	uint64_t	wakes = atomic_load(&wake->wakes);
	uint32_t	i;

	(void) steno_wake_take(wake);
	for (i = 0; i < run->c.sleepers; i++)
		steno_ring_free(&run->rings[i], round * UINT64_C(8));
	steno_wake_start(wake);
	for (i = run->c.miss; i < run->c.sleepers; i++)
		steno_ring_synced(&run->rings[i]);
	steno_wake_finish(wake);
	return atomic_load(&wake->wakes) - wakes;
}

static uint64_t
wake_all(Run *run, uint32_t round)
{
	if (run->c.waker == LAB_CONDVAR)
		return wake_by_condition(run, round);
	if (run->c.waker == LAB_FUTEX)
		return wake_by_round(run, round);
	return wake_each(run, round);
}

static uint64_t
cpu_now(void)
{
	struct timespec t;

	lab_own_calls++;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

/* Wait until all sleepers have announced that they go to sleep, and had time to do so. */
static void
await_sleep(Run *run, uint32_t round, uint64_t give_up)
{
	uint32_t	due = run->c.sleepers * round;

	while (atomic_load(&run->room->asleep) != due)
	{
		if (lab_now() > give_up)
			lab_fail("not all sleepers sleep");
		lab_nap(100);
	}
	lab_nap(200 + 2 * run->c.sleepers);
}

static void
await_awake(Run *run, uint32_t round, uint64_t give_up)
{
	uint32_t	due = run->c.sleepers * round;
	uint32_t	awake;

	while ((awake = atomic_load(&run->room->awake)) != due)
	{
		if (lab_now() > give_up)
			lab_fail("%u of %u sleepers were not woken", due - awake, run->c.sleepers);
		lab_futex_wait(&run->room->awake, awake, 20000);
	}
}

static int
compare(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

/* The waker's measurements of all rounds. */
typedef struct Notes
{
	LabHistogram first;
	LabHistogram middle;
	LabHistogram last;
	uint64_t   *times;			/* of one round */
} Notes;

static void
take_notes(Run *run, Notes *notes, uint64_t began)
{
	uint32_t	n = run->c.sleepers;
	uint32_t	i;

	for (i = 0; i < n; i++)
		notes->times[i] = run->room->beds[i].awake_ns > began ? run->room->beds[i].awake_ns - began : 0;
	qsort(notes->times, n, sizeof(notes->times[0]), compare);
	lab_histogram_add(&notes->first, notes->times[0]);
	lab_histogram_add(&notes->middle, notes->times[n / 2]);
	lab_histogram_add(&notes->last, notes->times[n - 1]);
	run->room->figures.waking_seconds += (double) notes->times[n - 1] / 1e9;
}

static void
wake_once(Run *run, Notes *notes, uint32_t round)
{
	LabWakeFigures *f = &run->room->figures;
	uint64_t	give_up = lab_now() + run->c.patience_ms * UINT64_C(1000000);
	uint64_t	cpu;
	uint64_t	began;

	await_sleep(run, round, give_up);
	cpu = cpu_now();
	began = lab_now();
	f->waker_calls += wake_all(run, round);
	f->waker_cpu_ns += cpu_now() - cpu;
	await_awake(run, round, give_up);
	take_notes(run, notes, began);
	f->rounds++;
}

static void
waker_body(void *arg, uint32_t i)
{
	Run		   *run = arg;
	LabWakeFigures *f = &run->room->figures;
	Notes	   *notes = calloc(1, sizeof(*notes));
	int			counter = open_counter();
	bool		last = false;
	uint64_t	calls;
	uint64_t	end;
	LabUsage	begin;

	if (notes == NULL || (notes->times = calloc(run->c.sleepers, sizeof(uint64_t))) == NULL)
		lab_fail("out of memory");
	/* makes the C library allocate its memory for qsort before calls are counted */
	qsort(notes->times, run->c.sleepers, sizeof(notes->times[0]), compare);
	lab_begin(run->group.shared, &begin);
	calls = read_counter(counter);
	end = lab_now() + run->c.milliseconds * UINT64_C(1000000);
	while (!last)
	{
		last = lab_now() >= end || (run->c.rounds > 0 && f->rounds + 1 >= run->c.rounds);
		if (last)
			atomic_store(&run->room->last, (uint32_t) f->rounds + 1);
		wake_once(run, notes, (uint32_t) f->rounds + 1);
	}
	calls = read_counter(counter) - calls;
	f->counted = counter >= 0;
	if (f->counted && (run->c.waker == LAB_CONDVAR || run->c.waker == LAB_FUTEX))
		f->waker_calls = calls;
	f->first_50 = lab_histogram_at(&notes->first, 0.5);
	f->middle_50 = lab_histogram_at(&notes->middle, 0.5);
	f->last_50 = lab_histogram_at(&notes->last, 0.5);
	f->last_99 = lab_histogram_at(&notes->last, 0.99);
	lab_end(&run->group.shared->members[i], &begin);
}

/* ---- the parent ---- */

static bool
make_condition(Room *room)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t condition;

	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&condition);
	pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
	return pthread_mutex_init(&room->mutex, &mutex) == 0 &&
		pthread_cond_init(&room->condition, &condition) == 0;
}

/* Raise the limit of open files as far as permitted: eventfds are open in every process. */
static bool
make_events(Run *run, char *skipped)
{
	struct rlimit limit;
	uint32_t	i;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max)
	{
		limit.rlim_cur = limit.rlim_max;
		(void) setrlimit(RLIMIT_NOFILE, &limit);
	}
	run->events = malloc(run->c.sleepers * sizeof(int));
	for (i = 0; run->events != NULL && i < run->c.sleepers; i++)
		run->events[i] = -1;
	for (i = 0; run->events != NULL && i < run->c.sleepers; i++)
		if ((run->events[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
			break;
	if (run->events != NULL && i == run->c.sleepers)
		return true;
	snprintf(skipped, LAB_REASON, "the system allows no %u eventfds: %s", run->c.sleepers, strerror(errno));
	return false;
}

static bool
prepare(Run *run, LabWakeFigures *f)
{
	uint32_t	n = run->c.sleepers;

	run->room_size = sizeof(Room) + n * sizeof(Bed);
	run->room = lab_shared_memory(run->room_size);
	run->rings_size = n * sizeof(StenoRing);
	run->rings = lab_shared_memory(run->rings_size);
	if (run->room == NULL || run->rings == NULL || !make_condition(run->room) ||
		pipe2(run->death, O_CLOEXEC) != 0)
	{
		snprintf(f->error, LAB_REASON, "could not make room for %u sleepers: %s", n, strerror(errno));
		return false;
	}
	return lab_group_open(&run->group, n + 1, f->error);
}

static bool
measure(Run *run, LabWakeFigures *f)
{
	uint32_t	n = run->c.sleepers;
	uint64_t	give_up;
	uint32_t	i;

	for (i = 0; i < n; i++)
		if (!lab_group_start(&run->group, i, sleeper_body, run, f->error))
			return false;
	if (!lab_group_start(&run->group, n, waker_body, run, f->error) || !lab_group_go(&run->group, f->error))
		return false;
	give_up = lab_now() + run->c.milliseconds * UINT64_C(1000000) + STALE_NS;
	while (lab_group_running(&run->group, 0, n + 1) > 0)
	{
		if (!lab_group_look(&run->group, f->error))
			return false;
		if (lab_now() > give_up)
		{
			snprintf(f->error, LAB_REASON, "sleepers have not come to their end");
			return false;
		}
		lab_nap(1000);
	}
	return true;
}

static bool
add_up(Run *run, LabWakeFigures *f)
{
	uint32_t	i;

	*f = run->room->figures;
	for (i = 0; i < run->c.sleepers; i++)
	{
		const LabMember *member = &run->group.shared->members[i];

		f->sleeper_calls += member->calls;
		lab_usage_add(&f->sleepers, &member->usage);
		if (member->count == f->rounds)
			continue;
		snprintf(f->error, LAB_REASON, "sleeper %u woke up %llu times in %llu rounds", i,
				 (unsigned long long) member->count, (unsigned long long) f->rounds);
		return false;
	}
	return true;
}

static void
clean_up(Run *run)
{
	uint32_t	i;

	lab_group_close(&run->group);
	for (i = 0; run->events != NULL && i < run->c.sleepers && run->events[i] >= 0; i++)
		close(run->events[i]);
	free(run->events);
	for (i = 0; i < 2; i++)
		if (run->death[i] >= 0)
			close(run->death[i]);
	if (run->room != NULL)
		munmap(run->room, run->room_size);
	if (run->rings != NULL)
		munmap(run->rings, run->rings_size);
}

bool
lab_waken(const LabWakeCase *c, LabWakeFigures *figures)
{
	Run			run = {.c = *c, .death = {-1, -1}};
	bool		ok;

	memset(figures, 0, sizeof(*figures));
	if (c->recreate && c->waker != LAB_SIGNAL && c->waker != LAB_EVENTFD)
	{
		snprintf(figures->skipped, LAB_REASON, "no epoll set is needed");
		return true;
	}
	if (c->waker == LAB_EVENTFD && !make_events(&run, figures->skipped))
	{
		clean_up(&run);
		return true;
	}
	ok = prepare(&run, figures) && measure(&run, figures) && add_up(&run, figures);
	if (run.group.refused)
	{
		memcpy(figures->skipped, figures->error, LAB_REASON);
		figures->error[0] = '\0';
		ok = true;
	}
	clean_up(&run);
	return ok;
}
