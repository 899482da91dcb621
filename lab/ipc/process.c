/*
 * lab/ipc/process.c
 *		Processes that begin together, report the resources they have used, and never
 *		outlive the program: each asks the kernel to be killed when its parent exits.
 */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ipc/ipc.h"

/* This process's entry, for its error. */
static LabMember *me;

uint64_t	lab_own_calls;

uint64_t
lab_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

void
lab_nap(uint64_t us)
{
	struct timespec t = {(time_t) (us / 1000000), (long) (us % 1000000 * 1000)};

	lab_own_calls++;
	nanosleep(&t, NULL);
}

/* Sleep for at most us microseconds; shared between processes. */
void
lab_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t us)
{
	struct timespec t = {(time_t) (us / 1000000), (long) (us % 1000000 * 1000)};

	lab_own_calls++;
	syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

long
lab_futex_wake(_Atomic uint32_t *word, int n)
{
	lab_own_calls++;
	return syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

void
lab_fail(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	if (me != NULL)
		vsnprintf(me->error, sizeof(me->error), format, args);
	else
		vfprintf(stderr, format, args);
	va_end(args);
	_exit(1);
}

/* Shared memory, zeroed, which is freed with the last process; NULL: not available. */
void *
lab_shared_memory(size_t size)
{
	void	   *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

bool
lab_group_open(LabGroup *g, uint32_t n, char *error)
{
	g->mapped = sizeof(LabShared) + n * sizeof(LabMember);
	g->shared = lab_shared_memory(g->mapped);
	g->n = n;
	g->parent = getpid();
	if (g->shared != NULL)
		return true;
	snprintf(error, LAB_REASON, "could not map shared memory: %s", strerror(errno));
	return false;
}

/* Kill those that are still running. */
void
lab_group_close(LabGroup *g)
{
	uint32_t	i;

	if (g->shared == NULL)
		return;
	for (i = 0; i < g->n; i++)
		if (g->shared->members[i].pid > 0 && !g->shared->members[i].gone)
			kill(g->shared->members[i].pid, SIGKILL);
	for (i = 0; i < g->n; i++)
		if (g->shared->members[i].pid > 0 && !g->shared->members[i].gone)
			while (waitpid(g->shared->members[i].pid, NULL, 0) < 0 && errno == EINTR)
				;
	munmap(g->shared, g->mapped);
	g->shared = NULL;
}

bool
lab_group_start(LabGroup *g, uint32_t i, void (*body) (void *arg, uint32_t i), void *arg, char *error)
{
	pid_t		pid = fork();

	if (pid < 0)
	{
		g->refused = errno == EAGAIN || errno == ENOMEM;
		snprintf(error, LAB_REASON, "could not start process %u of %u: %s", i + 1, g->n, strerror(errno));
		return false;
	}
	if (pid > 0)
	{
		g->shared->members[i].pid = pid;
		return true;
	}
	/* the parent may have exited before the signal was requested */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != g->parent)
		_exit(1);
	me = &g->shared->members[i];
	body(arg, i);
	_exit(0);
}

/* A process's error; other processes may have failed only because that one has exited. */
static bool
reported(const LabGroup *g, char *error)
{
	uint32_t	i;

	for (i = 0; i < g->n && g->shared->members[i].error[0] == '\0'; i++)
		;
	if (i < g->n)
		snprintf(error, LAB_REASON, "%s", g->shared->members[i].error);
	return i < g->n;
}

/* A process has exited, with this status of waitpid(). */
static bool
ended(LabGroup *g, pid_t pid, int status, char *error)
{
	uint32_t	i;

	for (i = 0; i < g->n && g->shared->members[i].pid != pid; i++)
		;
	if (i == g->n)
		return true;
	g->shared->members[i].gone = true;
	if (status == 0)
		return true;
	if (reported(g, error))
		return false;
	if (WIFSIGNALED(status))
		snprintf(error, LAB_REASON, "a process was killed by signal %d", WTERMSIG(status));
	else
		snprintf(error, LAB_REASON, "a process ended with status %d", WEXITSTATUS(status));
	return false;
}

bool
lab_group_look(LabGroup *g, char *error)
{
	pid_t		pid;
	int			status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (!ended(g, pid, status, error))
			return false;
	return true;
}

uint32_t
lab_group_running(const LabGroup *g, uint32_t from, uint32_t to)
{
	uint32_t	n = 0;

	for (; from < to; from++)
		n += !g->shared->members[from].gone;
	return n;
}

bool
lab_group_go(LabGroup *g, char *error)
{
	while (atomic_load(&g->shared->ready) < g->n)
	{
		if (!lab_group_look(g, error))
			return false;
		lab_nap(500);
	}
	g->began_ns = lab_now();
	atomic_store(&g->shared->go, 1);
	lab_futex_wake(&g->shared->go, INT32_MAX);
	return true;
}

/*
 * The kernel's CPU clocks of a process: all ticks, those in user mode, and the exact time
 * (MAKE_PROCESS_CPUCLOCK of the kernel, for the calling process).
 */
#define ALL_TICKS ((clockid_t) -8)
#define USER_TICKS ((clockid_t) -7)

static uint64_t
read_clock(clockid_t clock)
{
	struct timespec t = {0, 0};

	clock_gettime(clock, &t);
	return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

static void
read_usage(LabUsage *usage)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	usage->voluntary = (uint64_t) r.ru_nvcsw;
	usage->involuntary = (uint64_t) r.ru_nivcsw;
	usage->all_ticks = read_clock(ALL_TICKS);
	usage->user_ticks = read_clock(USER_TICKS);
	usage->cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void
lab_begin(LabShared *shared, LabUsage *usage)
{
	atomic_fetch_add(&shared->ready, 1);
	while (atomic_load(&shared->go) == 0)
		lab_futex_wait(&shared->go, 0, 1000000);
	read_usage(usage);
}

void
lab_end(LabMember *member, const LabUsage *begin)
{
	LabUsage	end;

	read_usage(&end);
	member->usage.cpu_ns = end.cpu_ns - begin->cpu_ns;
	member->usage.user_ticks = end.user_ticks - begin->user_ticks;
	member->usage.all_ticks = end.all_ticks - begin->all_ticks;
	member->usage.voluntary = end.voluntary - begin->voluntary;
	member->usage.involuntary = end.involuntary - begin->involuntary;
	member->end_ns = lab_now();
}

void
lab_usage_add(LabUsage *sum, const LabUsage *usage)
{
	sum->cpu_ns += usage->cpu_ns;
	sum->user_ticks += usage->user_ticks;
	sum->all_ticks += usage->all_ticks;
	sum->voluntary += usage->voluntary;
	sum->involuntary += usage->involuntary;
}

char
lab_state(pid_t pid)
{
	char		path[40];
	char		text[200];
	const char *name_end = NULL;
	FILE	   *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fgets(text, sizeof(text), f) != NULL)
		name_end = strrchr(text, ')');
	fclose(f);
	return name_end != NULL && name_end[1] == ' ' ? name_end[2] : 0;
}
