/*
 * lab/ipc/main.c
 *		steno-ipc: runs one case, and prints its figures as one line of JSON.
 *
 * usage: steno-ipc send --channel=pipe --processes=50 --size=512 ...
 *		  steno-ipc wake --waker=futex --sleepers=256 ...
 *
 * steno bench ipc runs it for each case; it can also be run by hand.  A case that
 * cannot be run prints {"skipped": "reason"}.  Exit codes: 0 success or skipped; 1 a
 * message was lost, damaged or out of order, or a system call failed; 2 wrong usage.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "ipc/ipc.h"

static const char usage[] =
"usage: steno-ipc send [OPTION]...    messages of processes to a reader\n"
"       steno-ipc wake [OPTION]...    processes that sleep, and are woken\n"
"\n"
"send:\n"
"  --channel=NAME        pipe, pipe_mutex, stream, stream_mutex, datagram, file,\n"
"                        io_uring, shared_ring, ring_each (default pipe)\n"
"  --processes=N         senders (default 50)\n"
"  --size=BYTES          of a message, a multiple of 8 from 64 to 4194304 (default 512)\n"
"  --readers=N           each with a channel of its own (default 1)\n"
"  --batch=N             messages that a reader takes at once; 0: all there are (default)\n"
"  --clock=WHEN          message or pass (default pass)\n"
"  --bytes=N             send no more than about these together (default 1073741824)\n"
"  --messages=N          send no more than these each; 0: any number (default)\n"
"  --folder=PATH         for files without a name (default $TMPDIR, else /tmp)\n"
"\n"
"wake:\n"
"  --waker=NAME          signal, eventfd, condvar, futex (default futex)\n"
"  --sleepers=N          (default 256)\n"
"  --epoll=WHAT          keep or recreate (default keep)\n"
"  --rounds=N            no more than these; 0: any number (default)\n"
"\n"
"both:\n"
"  --milliseconds=N      how long to go on (default 250)\n";

static void
usage_error(const char *what, const char *value)
{
	fprintf(stderr, "steno-ipc: %s \"%s\"\n", what, value);
	exit(2);
}

static uint64_t
number(const char *what, const char *text, uint64_t least, uint64_t most)
{
	char	   *end;
	uint64_t	n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || n < least || n > most)
	{
		fprintf(stderr, "steno-ipc: --%s takes a number from %llu to %llu, not \"%s\"\n", what,
				(unsigned long long) least, (unsigned long long) most, text);
		exit(2);
	}
	return n;
}

static bool
one_of(const char *what, const char *text, const char *no, const char *yes)
{
	if (strcmp(text, yes) != 0 && strcmp(text, no) != 0)
		usage_error(what, text);
	return strcmp(text, yes) == 0;
}

/* ---- JSON ---- */

static void
print_string(const char *name, const char *text)
{
	printf("{\"%s\":\"", name);
	for (; *text != '\0'; text++)
	{
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if ((unsigned char) *text >= ' ')
			putchar(*text);
	}
	printf("\"}\n");
}

static void
print_usage(const char *who, const LabUsage *u)
{
	printf(",\"%s\":{\"cpu_ns\":%llu,\"user_ticks_ns\":%llu,\"all_ticks_ns\":%llu,"
		   "\"voluntary\":%llu,\"involuntary\":%llu}", who, (unsigned long long) u->cpu_ns,
		   (unsigned long long) u->user_ticks, (unsigned long long) u->all_ticks,
		   (unsigned long long) u->voluntary, (unsigned long long) u->involuntary);
}

static void
print_send(const LabCase *c, const LabFigures *f)
{
	printf("{\"messages\":%llu,\"bytes\":%llu,\"seconds\":%.9f", (unsigned long long) f->messages,
		   (unsigned long long) (f->messages * c->size), f->seconds);
	print_usage("senders", &f->senders);
	print_usage("readers", &f->readers);
	printf(",\"looks\":%llu,\"uninterruptible\":%llu,\"delay_50_ns\":%.0f,\"delay_99_ns\":%.0f,"
		   "\"own_ns\":%.1f}\n",
		   (unsigned long long) f->looks, (unsigned long long) f->uninterruptible, f->delay_50, f->delay_99,
		   f->own_ns);
}

static void
print_wake(const LabWakeFigures *f)
{
	printf("{\"rounds\":%llu,\"waker_calls\":%llu,\"sleeper_calls\":%llu,\"counted\":%s,"
		   "\"waking_seconds\":%.9f,\"waker_cpu_ns\":%llu,\"first_50_ns\":%.0f,\"middle_50_ns\":%.0f,"
		   "\"last_50_ns\":%.0f,\"last_99_ns\":%.0f",
		   (unsigned long long) f->rounds, (unsigned long long) f->waker_calls,
		   (unsigned long long) f->sleeper_calls, f->counted ? "true" : "false", f->waking_seconds,
		   (unsigned long long) f->waker_cpu_ns, f->first_50, f->middle_50, f->last_50, f->last_99);
	print_usage("sleepers", &f->sleepers);
	printf("}\n");
}

static int
finish(bool ok, const char *skipped, const char *error)
{
	if (!ok)
		fprintf(stderr, "steno-ipc: %s\n", error);
	else if (skipped[0] != '\0')
		print_string("skipped", skipped);
	return ok ? 0 : 1;
}

/* ---- the command line ---- */

enum
{
	CHANNEL = 1, PROCESSES, SIZE, READERS, BATCH, CLOCK, BYTES, MESSAGES, FOLDER, FAULT,
	WAKER, SLEEPERS, EPOLL, ROUNDS, MISS, MILLISECONDS, HELP
};

static const struct option send_options[] = {
	{"channel", required_argument, NULL, CHANNEL},
	{"processes", required_argument, NULL, PROCESSES},
	{"size", required_argument, NULL, SIZE},
	{"readers", required_argument, NULL, READERS},
	{"batch", required_argument, NULL, BATCH},
	{"clock", required_argument, NULL, CLOCK},
	{"bytes", required_argument, NULL, BYTES},
	{"messages", required_argument, NULL, MESSAGES},
	{"folder", required_argument, NULL, FOLDER},
	{"fault", required_argument, NULL, FAULT},
	{"milliseconds", required_argument, NULL, MILLISECONDS},
	{"help", no_argument, NULL, HELP},
	{NULL, 0, NULL, 0}
};

static const struct option wake_options[] = {
	{"waker", required_argument, NULL, WAKER},
	{"sleepers", required_argument, NULL, SLEEPERS},
	{"epoll", required_argument, NULL, EPOLL},
	{"rounds", required_argument, NULL, ROUNDS},
	{"miss", no_argument, NULL, MISS},
	{"milliseconds", required_argument, NULL, MILLISECONDS},
	{"help", no_argument, NULL, HELP},
	{NULL, 0, NULL, 0}
};

/* For tests: flip, skip, repeat, die or late, for the message of this number of sender 0. */
static void
set_fault(LabCase *c, const char *text)
{
	static const char *const names[] = {"flip:", "skip:", "repeat:", "die:", "late:"};
	uint32_t	i;

	for (i = 0; i < 5 && strncmp(text, names[i], strlen(names[i])) != 0; i++)
		;
	if (i == 5)
		usage_error("no fault", text);
	c->fault = (LabFault) (LAB_FLIP + i);
	c->fault_at = number("fault", text + strlen(names[i]), 0, UINT64_MAX);
}

static void
set_send(LabCase *c, int option)
{
	switch (option)
	{
		case CHANNEL:
			c->channel = lab_channel(optarg);
			if (c->channel == NULL)
				usage_error("no channel", optarg);
			break;
		case PROCESSES:
			c->processes = (uint32_t) number("processes", optarg, 1, LAB_MOST_PROCESSES);
			break;
		case SIZE:
			c->size = (uint32_t) number("size", optarg, LAB_SMALLEST, LAB_LARGEST);
			if (c->size % 8 != 0)
				usage_error("--size takes a multiple of 8, not", optarg);
			break;
		case READERS:
			c->readers = (uint32_t) number("readers", optarg, 1, LAB_MOST_READERS);
			break;
		case BATCH:
			c->batch = (uint32_t) number("batch", optarg, 0, 1024);
			break;
		case CLOCK:
			c->clock_each = one_of("--clock is message or pass, not", optarg, "pass", "message");
			break;
		case BYTES:
			c->bytes = number("bytes", optarg, 1, UINT64_MAX);
			break;
		case MESSAGES:
			c->messages = number("messages", optarg, 0, UINT64_MAX);
			break;
		case FOLDER:
			c->folder = optarg;
			break;
		case FAULT:
			set_fault(c, optarg);
			break;
		case MILLISECONDS:
			c->milliseconds = (uint32_t) number("milliseconds", optarg, 1, 3600000);
			break;
	}
}

static void
set_wake(LabWakeCase *c, int option)
{
	uint32_t	i;

	switch (option)
	{
		case WAKER:
			for (i = 0; i < LAB_WAKERS && strcmp(lab_waker_names[i], optarg) != 0; i++)
				;
			if (i == LAB_WAKERS)
				usage_error("no way to wake", optarg);
			c->waker = (LabWaker) i;
			break;
		case SLEEPERS:
			c->sleepers = (uint32_t) number("sleepers", optarg, 1, LAB_MOST_PROCESSES);
			break;
		case EPOLL:
			c->recreate = one_of("--epoll is keep or recreate, not", optarg, "keep", "recreate");
			break;
		case ROUNDS:
			c->rounds = (uint32_t) number("rounds", optarg, 0, 1000000);
			break;
		case MISS:
			c->miss = true;
			break;
		case MILLISECONDS:
			c->milliseconds = (uint32_t) number("milliseconds", optarg, 1, 3600000);
			break;
	}
}

/* The next option; -1 after the last. */
static int
next_option(int argc, char **argv, const struct option *options)
{
	int			option = getopt_long(argc, argv, "", options, NULL);

	if (option == '?')
		exit(2);
	if (option == HELP)
	{
		fputs(usage, stdout);
		exit(0);
	}
	if (option == -1 && optind < argc)
		usage_error("unexpected argument", argv[optind]);
	return option;
}

static int
run_send(int argc, char **argv)
{
	const char *folder = getenv("TMPDIR");
	LabCase		c = {
		.channel = &lab_pipe, .processes = 50, .readers = 1, .size = 512, .clock_each = false,
		.milliseconds = 250, .bytes = UINT64_C(1) << 30, .folder = folder != NULL ? folder : "/tmp"
	};
	LabFigures	f;
	int			option;
	bool		ok;

	while ((option = next_option(argc, argv, send_options)) != -1)
		set_send(&c, option);
	ok = lab_send(&c, &f);
	if (ok && f.skipped[0] == '\0')
		print_send(&c, &f);
	return finish(ok, f.skipped, f.error);
}

static int
run_wake(int argc, char **argv)
{
	LabWakeCase c = {.waker = LAB_FUTEX, .sleepers = 256, .milliseconds = 250, .patience_ms = 20000};
	LabWakeFigures f;
	int			option;
	bool		ok;

	while ((option = next_option(argc, argv, wake_options)) != -1)
		set_wake(&c, option);
	ok = lab_waken(&c, &f);
	if (ok && f.skipped[0] == '\0')
		print_wake(&f);
	return finish(ok, f.skipped, f.error);
}

int
main(int argc, char **argv)
{
	pid_t		parent = getppid();

	/* all processes must exit when steno is killed */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		return 1;
	signal(SIGPIPE, SIG_IGN);
	if (argc >= 2 && strcmp(argv[1], "send") == 0)
		return run_send(argc - 1, argv + 1);
	if (argc >= 2 && strcmp(argv[1], "wake") == 0)
		return run_wake(argc - 1, argv + 1);
	if (argc >= 2 && strcmp(argv[1], "--help") == 0)
	{
		fputs(usage, stdout);
		return 0;
	}
	fputs(usage, stderr);
	return 2;
}
