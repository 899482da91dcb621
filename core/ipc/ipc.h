/*
 * core/ipc/ipc.h
 *		steno-ipc, the laboratory's comparison of ways to hand log messages to a
 *		reader, and of ways to wake sleepers.  The rings and the broadcast are the
 *		very code that the extension runs: core/ring/ring.h and core/ring/wake.c.
 *
 * A case is one combination: processes that send messages of one size through
 * one kind of channel.  With several readers each has a channel of its own (a
 * link), and the senders are spread over them.  The reader checks each message,
 * byte by byte, and passes what it has on to /dev/null, a batch in one write().
 *
 *		message.c			what a message says, and whether it came whole, in order
 *		process.c			processes that begin together, and what each has used
 *		send.c				a case from beginning to end
 *		channel_stream.c	pipes and sockets
 *		channel_file.c		appending to one file, by write() and by io_uring
 *		channel_ring.c		one ring for all, and one for each sender
 *		waken.c				the second part: waking sleepers
 *		main.c				the command line; results as one line of JSON
 */
#ifndef STENO_LAB_H
#define STENO_LAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define LAB_CACHE_LINE 64
#define LAB_REASON 160
#define LAB_MOST_PROCESSES 10000
#define LAB_MOST_READERS 64
#define LAB_SMALLEST 64
#define LAB_LARGEST (4 * 1024 * 1024)

/* Deliberate mistakes of sender 0, so that tests see them found. */
typedef enum LabFault
{
	LAB_NO_FAULT,
	LAB_FLIP,					/* a bit of the message is another */
	LAB_SKIP,					/* the message is not sent */
	LAB_REPEAT,					/* it is sent twice */
	LAB_DIE,					/* the sender is gone before it */
	LAB_LATE					/* no mistake: the sender waits before it, longer than a case should take */
} LabFault;

typedef struct LabChannel LabChannel;

typedef struct LabCase
{
	const LabChannel *channel;
	uint32_t	processes;
	uint32_t	readers;
	uint32_t	size;			/* of a message, its header included */
	uint32_t	batch;			/* messages that a reader takes at once; 0: all
								 * there are */
	bool		clock_each;		/* sender and reader read the clock for each
								 * message; else the reader once a batch, and
								 * the sender for a few, to see delays */
	uint32_t	milliseconds;	/* senders begin no message after that */
	uint64_t	bytes;			/* nor more than these together */
	uint64_t	messages;		/* nor more than these each; 0: any number */
	const char *folder;			/* for files, which have no name */
	LabFault	fault;
	uint64_t	fault_at;		/* number of the message */
} LabCase;

/*
 * What a process has used between the common beginning and its end.  The kernel
 * knows the processor time exactly, but how it divides into user and system time
 * only from samples at its ticks.  getrusage() scales the samples of each process
 * by itself, which is wrong for many short ones; so these are the samples as they
 * are, to be added up before they divide the time.
 */
typedef struct LabUsage
{
	uint64_t	cpu_ns;
	uint64_t	user_ticks;		/* in ns */
	uint64_t	all_ticks;
	uint64_t	voluntary;		/* context switches */
	uint64_t	involuntary;
} LabUsage;

/* Latencies: 16 steps for each doubling, up to 2^40 ns. */
#define LAB_STEPS 16
#define LAB_BUCKETS (41 * LAB_STEPS)

typedef struct LabHistogram
{
	uint64_t	counts[LAB_BUCKETS];
	uint64_t	all;
} LabHistogram;

/*
 * A process of the group in shared memory.  It alone writes here, and the parent reads
 * when the process is gone.
 */
typedef struct LabMember
{
	_Alignas(LAB_CACHE_LINE) pid_t pid;
	bool		gone;			/* the parent's */
	LabUsage	usage;
	uint64_t	count;			/* messages sent or received, wake-ups */
	uint64_t	calls;			/* waken.c: system calls */
	uint64_t	end_ns;			/* CLOCK_MONOTONIC */
	char		error[LAB_REASON];
} LabMember;

/*
 * Shared by all processes of a case.  go and stop are set by the parent, ready is
 * added to by each process.
 */
typedef struct LabShared
{
	_Alignas(LAB_CACHE_LINE) _Atomic uint32_t go;
	_Atomic uint32_t stop;		/* begin no more messages */
	_Atomic uint32_t done;		/* all senders have ended */
	_Alignas(LAB_CACHE_LINE) _Atomic uint32_t ready;
	LabMember	members[];		/* readers first */
} LabShared;

typedef struct LabGroup
{
	LabShared  *shared;
	size_t		mapped;
	uint32_t	n;
	pid_t		parent;
	uint64_t	began_ns;		/* when all were let go */
	bool		refused;		/* the system allows no more processes */
} LabGroup;

/* A reader's own state; next and at are for each sender. */
typedef struct LabReader
{
	const LabCase *c;
	LabMember  *member;
	LabShared  *shared;
	uint64_t   *next;			/* number of the message that is due */
	uint32_t   *at;				/* bytes that came of it, when it comes in pieces */
	uint64_t	now;			/* as the batch began */
	uint32_t	taken;			/* messages of the present batch */
	int			sink;
	LabHistogram delays;
} LabReader;

/* One channel with its reader. */
typedef struct LabLink
{
	const LabCase *c;
	LabShared  *shared;
	uint32_t	number;
	uint32_t	senders;		/* those whose number mod readers is this one's */
	int			in;				/* the sender's end; -1 none */
	int			out;			/* the reader's */
	uint8_t    *buffer;			/* a sender's: one message */
	void	   *own;			/* the channel's, made before the processes */
	size_t		own_size;
	void	   *mine;			/* a sender's own */
} LabLink;

struct LabChannel
{
	const char *name;
	/* why the case cannot be run, or NULL; may be NULL */
	const char *(*refuses) (const LabCase *c, char *reason);
	/* makes a link before the processes; false with errno set */
	bool		(*open) (LabLink *link, const char **what);
	/* in a sender, before the beginning; may be NULL */
	void		(*begin) (LabLink *link, uint32_t sender);
	/* false: it was not sent because it was time to stop */
	bool		(*send) (LabLink *link, uint32_t sender, uint64_t seq);
	/* in a sender: what is still held back; may be NULL */
	void		(*flush) (LabLink *link, uint32_t sender);
	/* in the parent, when all senders have ended; may be NULL */
	void		(*finish) (LabLink *link);
	/* in the reader: everything up to the end */
	void		(*receive) (LabLink *link, LabReader *reader);
};

/* What became of a case. */
typedef struct LabFigures
{
	char		skipped[LAB_REASON];	/* why it was not run */
	char		error[LAB_REASON];	/* why it failed */
	uint64_t	messages;
	double		seconds;		/* until the last reader had all */
	LabUsage	senders;
	LabUsage	readers;
	uint64_t	looks;			/* at states of sending processes */
	uint64_t	uninterruptible;	/* how many of them were in state D */
	double		delay_50;		/* ns from a message's time to its reader's */
	double		delay_99;
	double		own_ns;			/* a message's cost without any channel */
} LabFigures;

/* ---- message.c ---- */

extern void lab_messages_init(void);
extern void lab_fill(const LabCase *c, uint32_t sender, uint64_t seq, uint8_t *to);

/* The reader's look at a message; what is wrong ends the process. */
extern void lab_take(LabReader *r, const uint8_t *bytes, uint32_t len);

/* The same of a piece of a sender's message; pieces are multiples of 8 bytes. */
extern void lab_take_piece(LabReader *r, uint32_t sender, const uint8_t *bytes, uint32_t len);

/* The reader passes on what it has taken. */
extern double lab_own_cost(const LabCase *c);

struct iovec;
extern void lab_pass_on(LabReader *r, const struct iovec *pieces, int n);

extern void lab_histogram_add(LabHistogram *h, uint64_t ns);
extern double lab_histogram_at(const LabHistogram *h, double share);

/* ---- process.c ---- */

/* System calls that the next three, and others of the laboratory's own, have made. */
extern uint64_t lab_own_calls;

extern uint64_t lab_now(void);
extern void lab_nap(uint64_t us);
extern void lab_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t us);
extern long lab_futex_wake(_Atomic uint32_t *word, int n);

/* Ends this process of a case; the parent reports the reason. */
extern void lab_fail(const char *format,...) __attribute__((format(printf, 1, 2), noreturn));

extern void *lab_shared_memory(size_t size);

extern bool lab_group_open(LabGroup *g, uint32_t n, char *error);
extern void lab_group_close(LabGroup *g);

/* Starts process i; body ends with the process. */
extern bool lab_group_start(LabGroup *g, uint32_t i, void (*body) (void *arg, uint32_t i), void *arg,
							char *error);

/* Waits until all are ready, and lets them go; false when one has failed. */
extern bool lab_group_go(LabGroup *g, char *error);

/* Takes leave of those that have ended; false when one has failed. */
extern bool lab_group_look(LabGroup *g, char *error);

/* How many of these have not ended. */
extern uint32_t lab_group_running(const LabGroup *g, uint32_t from, uint32_t to);

/* In a process: ready; waits for the beginning. */
extern void lab_begin(LabShared *shared, LabUsage *usage);

/* In a process: what was used since then. */
extern void lab_end(LabMember *member, const LabUsage *begin);

extern void lab_usage_add(LabUsage *sum, const LabUsage *usage);

/* D, R, S ... of a process; 0 when it is gone. */
extern char lab_state(pid_t pid);

/* ---- send.c, channel_*.c ---- */

extern const LabChannel lab_pipe;
extern const LabChannel lab_pipe_mutex;
extern const LabChannel lab_stream;
extern const LabChannel lab_stream_mutex;
extern const LabChannel lab_datagram;
extern const LabChannel lab_file;
extern const LabChannel lab_uring;
extern const LabChannel lab_shared_ring;
extern const LabChannel lab_ring_each;

extern const LabChannel *lab_channel(const char *name);

/* Runs a case; false when it failed, with figures->error. */
extern bool lab_send(const LabCase *c, LabFigures *figures);

/* A stream's reader: whole messages out of bytes as they come. */
typedef ssize_t (*LabRead) (void *arg, uint8_t *to, size_t len);
extern void lab_receive_stream(LabReader *reader, LabRead more, void *arg);

/* ---- waken.c ---- */

typedef enum LabWaker
{
	LAB_SIGNAL,					/* a signal each, as latches have it */
	LAB_EVENTFD,				/* an eventfd each */
	LAB_CONDVAR,				/* a process-shared condition variable, broadcast */
	LAB_FUTEX					/* one futex for all: core/ring/wake.c */
} LabWaker;

typedef struct LabWakeCase
{
	LabWaker	waker;
	uint32_t	sleepers;
	bool		recreate;		/* sleepers make an epoll set for each wait */
	uint32_t	milliseconds;
	uint32_t	rounds;			/* at most; 0: any number */
	bool		miss;			/* a fault for tests: sleeper 0 is not woken */
	uint32_t	patience_ms;	/* for a round, before it fails */
} LabWakeCase;

typedef struct LabWakeFigures
{
	char		skipped[LAB_REASON];
	char		error[LAB_REASON];
	bool		counted;		/* the kernel has counted system calls that the
								 * C library makes, else they are at least so
								 * many */
	uint64_t	rounds;
	uint64_t	waker_calls;	/* system calls to wake all, of all rounds */
	uint64_t	sleeper_calls;	/* to wait and to be woken, of all sleepers */
	double		waking_seconds; /* from wake-up to the last one awake, summed */
	double		first_50;		/* ns to the first, the median and the last
								 * sleeper awake: medians of the rounds */
	double		middle_50;
	double		last_50;
	double		last_99;
	uint64_t	waker_cpu_ns;	/* in waking alone */
	LabUsage	sleepers;
} LabWakeFigures;

#define LAB_WAKERS 4

extern const char *const lab_waker_names[LAB_WAKERS];
extern bool lab_waken(const LabWakeCase *c, LabWakeFigures *figures);

#endif							/* STENO_LAB_H */
