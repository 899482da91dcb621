/*
 * lab/ipc/ipc.h
 *		steno-ipc, the laboratory's comparison of ways to hand log messages to a
 *		reader, and of ways to wake sleepers.  The rings and the broadcast are the
 *		extension's own code: core/ring/ring.h and core/ring/wake.c.
 *
 * A case is one combination: processes that send messages of one size through one kind of
 * channel.  With several readers, each has its own channel (a link), and the senders are
 * distributed over them.  The reader checks every byte of each message, and passes
 * messages on to /dev/null, a batch in one write().
 *
 *		message.c			contents of a message, and checks that it arrived intact, in order
 *		process.c			processes that begin together, and the resources that each has used
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

/* Deliberate faults of sender 0, with which tests check that faults are detected. */
typedef enum LabFault
{
	LAB_NO_FAULT,
	LAB_FLIP,					/* a bit of the message is inverted */
	LAB_SKIP,					/* the message is not sent */
	LAB_REPEAT,					/* it is sent twice */
	LAB_DIE,					/* the sender exits before it */
	LAB_LATE					/* no mistake: the sender waits before it, longer than a case should take */
} LabFault;

typedef struct LabChannel LabChannel;

typedef struct LabCase
{
	const LabChannel *channel;
	uint32_t	processes;
	uint32_t	readers;
	uint32_t	size;			/* of a message, including its header */
	uint32_t	batch;			/* messages that a reader takes at once; 0: all
								 * there are */
	bool		clock_each;		/* sender and reader read the clock for each
								 * message; else the reader once a batch, and
								 * the sender for a few, to see delays */
	uint32_t	milliseconds;	/* senders begin no message after that */
	uint64_t	bytes;			/* or after this many in total */
	uint64_t	messages;		/* or after this many of each; 0: no limit */
	const char *folder;			/* for files without a name */
	LabFault	fault;
	uint64_t	fault_at;		/* number of the message */
} LabCase;

/*
 * Resources that a process has used between the common beginning and its end.  The kernel
 * accounts the processor time exactly, but its division into user and system time only by
 * sampling at ticks.  getrusage() scales the samples of each process separately, which is
 * inaccurate for many short processes; so these are the raw samples, to be summed up
 * before the time is divided.
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
 * A process of the group in shared memory.  Only that process writes here, and the parent
 * reads after it has exited.
 */
typedef struct LabMember
{
	_Alignas(LAB_CACHE_LINE) pid_t pid;
	bool		gone;			/* set by the parent */
	LabUsage	usage;
	uint64_t	count;			/* messages sent or received, wake-ups */
	uint64_t	calls;			/* waken.c: system calls */
	uint64_t	end_ns;			/* CLOCK_MONOTONIC */
	char		error[LAB_REASON];
} LabMember;

/*
 * Shared by all processes of a case.  go and stop are set by the parent; each process
 * increments ready.
 */
typedef struct LabShared
{
	_Alignas(LAB_CACHE_LINE) _Atomic uint32_t go;
	_Atomic uint32_t stop;		/* begin no more messages */
	_Atomic uint32_t done;		/* all senders have finished */
	_Alignas(LAB_CACHE_LINE) _Atomic uint32_t ready;
	LabMember	members[];		/* readers first */
} LabShared;

typedef struct LabGroup
{
	LabShared  *shared;
	size_t		mapped;
	uint32_t	n;
	pid_t		parent;
	uint64_t	began_ns;		/* when all were started */
	bool		refused;		/* the system allows no more processes */
} LabGroup;

/* State of a reader; next and at have an element for each sender. */
typedef struct LabReader
{
	const LabCase *c;
	LabMember  *member;
	LabShared  *shared;
	uint64_t   *next;			/* number of the next message */
	uint32_t   *at;				/* bytes of it that have arrived, if it comes in parts */
	uint64_t	now;			/* when the batch began */
	uint32_t	taken;			/* messages of the current batch */
	int			sink;
	LabHistogram delays;
} LabReader;

/* One channel with its reader. */
typedef struct LabLink
{
	const LabCase *c;
	LabShared  *shared;
	uint32_t	number;
	uint32_t	senders;		/* number of senders with number mod readers equal to this link's */
	int			in;				/* the sender's end; -1 none */
	int			out;			/* the reader's */
	uint8_t    *buffer;			/* a sender's: one message */
	void	   *own;			/* the channel's, created before the processes */
	size_t		own_size;
	void	   *mine;			/* private to a sender */
} LabLink;

struct LabChannel
{
	const char *name;
	/* returns why the case cannot be run, or NULL; may be NULL */
	const char *(*refuses) (const LabCase *c, char *reason);
	/* creates a link before the processes start; false with errno set */
	bool		(*open) (LabLink *link, const char **what);
	/* in a sender, before the case begins; may be NULL */
	void		(*begin) (LabLink *link, uint32_t sender);
	/* false: not sent, because it was time to stop */
	bool		(*send) (LabLink *link, uint32_t sender, uint64_t seq);
	/* in a sender: sends messages that are still held back; may be NULL */
	void		(*flush) (LabLink *link, uint32_t sender);
	/* in the parent, when all senders have ended; may be NULL */
	void		(*finish) (LabLink *link);
	/* in the reader: receives everything up to the end */
	void		(*receive) (LabLink *link, LabReader *reader);
};

/* The result of a case. */
typedef struct LabFigures
{
	char		skipped[LAB_REASON];	/* why it was not run */
	char		error[LAB_REASON];	/* why it failed */
	uint64_t	messages;
	double		seconds;		/* until the last reader had everything */
	LabUsage	senders;
	LabUsage	readers;
	uint64_t	looks;			/* samples of the states of sending processes */
	uint64_t	uninterruptible;	/* how many of these were in state D */
	double		delay_50;		/* ns from a message's time to the reader's */
	double		delay_99;
	double		own_ns;			/* cost of a message without any channel */
} LabFigures;

/* ---- message.c ---- */

extern void lab_messages_init(void);
extern void lab_fill(const LabCase *c, uint32_t sender, uint64_t seq, uint8_t *to);

/* The reader checks a message; an error ends the process. */
extern void lab_take(LabReader *r, const uint8_t *bytes, uint32_t len);

/* The same for a part of a sender's message; parts are multiples of 8 bytes. */
extern void lab_take_piece(LabReader *r, uint32_t sender, const uint8_t *bytes, uint32_t len);

extern double lab_own_cost(const LabCase *c);

struct iovec;

/* The reader passes on the messages that it has taken. */
extern void lab_pass_on(LabReader *r, const struct iovec *pieces, int n);

extern void lab_histogram_add(LabHistogram *h, uint64_t ns);
extern double lab_histogram_at(const LabHistogram *h, double share);

/* ---- process.c ---- */

/* System calls made by the next functions, and by others of the laboratory itself. */
extern uint64_t lab_own_calls;

extern uint64_t lab_now(void);
extern void lab_nap(uint64_t us);
extern void lab_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t us);
extern long lab_futex_wake(_Atomic uint32_t *word, int n);

/* Ends this process of a case with an error; the parent reports the reason. */
extern void lab_fail(const char *format,...) __attribute__((format(printf, 1, 2), noreturn));

extern void *lab_shared_memory(size_t size);

extern bool lab_group_open(LabGroup *g, uint32_t n, char *error);
extern void lab_group_close(LabGroup *g);

/* Starts process i; the process exits when body returns. */
extern bool lab_group_start(LabGroup *g, uint32_t i, void (*body) (void *arg, uint32_t i), void *arg,
							char *error);

/* Waits until all are ready, and starts them together; false if one has failed. */
extern bool lab_group_go(LabGroup *g, char *error);

/* Reaps those that have ended; false if one has failed. */
extern bool lab_group_look(LabGroup *g, char *error);

/* How many of these have not exited. */
extern uint32_t lab_group_running(const LabGroup *g, uint32_t from, uint32_t to);

/* In a process: reports that it is ready, and waits for the start. */
extern void lab_begin(LabShared *shared, LabUsage *usage);

/* In a process: stores the resources that were used since then. */
extern void lab_end(LabMember *member, const LabUsage *begin);

extern void lab_usage_add(LabUsage *sum, const LabUsage *usage);

/* State (D, R, S ...) of a process; 0 if it has exited. */
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

/* Runs a case; false if it failed, with figures->error set. */
extern bool lab_send(const LabCase *c, LabFigures *figures);

/* A stream's reader: assembles whole messages from the bytes as they arrive. */
typedef ssize_t (*LabRead) (void *arg, uint8_t *to, size_t len);
extern void lab_receive_stream(LabReader *reader, LabRead more, void *arg);

/* ---- waken.c ---- */

typedef enum LabWaker
{
	LAB_SIGNAL,					/* one signal each, like latches */
	LAB_EVENTFD,				/* one eventfd each */
	LAB_CONDVAR,				/* a process-shared condition variable, broadcast */
	LAB_FUTEX					/* one futex for all: core/ring/wake.c */
} LabWaker;

typedef struct LabWakeCase
{
	LabWaker	waker;
	uint32_t	sleepers;
	bool		recreate;		/* sleepers create an epoll set for each wait */
	uint32_t	milliseconds;
	uint32_t	rounds;			/* maximum; 0: no limit */
	bool		miss;			/* a fault for tests: sleeper 0 is not woken */
	uint32_t	patience_ms;	/* for a round, until it fails */
} LabWakeCase;

typedef struct LabWakeFigures
{
	char		skipped[LAB_REASON];
	char		error[LAB_REASON];
	bool		counted;		/* the kernel has counted the system calls of the
								 * C library, too; else these are lower bounds */
	uint64_t	rounds;
	uint64_t	waker_calls;	/* system calls to wake all, of all rounds */
	uint64_t	sleeper_calls;	/* to wait and to be woken, by all sleepers */
	double		waking_seconds; /* from wake-up to the last one awake, summed */
	double		first_50;		/* ns to the first, the median and the last
								 * sleeper awake: medians of the rounds */
	double		middle_50;
	double		last_50;
	double		last_99;
	uint64_t	waker_cpu_ns;	/* only for waking */
	LabUsage	sleepers;
} LabWakeFigures;

#define LAB_WAKERS 4

extern const char *const lab_waker_names[LAB_WAKERS];
extern bool lab_waken(const LabWakeCase *c, LabWakeFigures *figures);

#endif							/* STENO_LAB_H */
