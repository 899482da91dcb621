/*
 * lab/ipc/channel_ring.c
 *		Shared memory: one ring for all senders, and one for each.
 *
 * One ring for each sender is core/ring/ring.h, of a server's default size, used as the
 * extension uses it: a message is encoded in place, and one that is too large for a
 * fraction of the ring is sent in parts; the reader naps, and is woken early by a ring
 * that is half full; senders that find no space sleep on core/ring/wake.h and are woken
 * together by one system call.
 *
 * One ring for all is the published many-to-one ring buffer (Agrona, ManyToOneRingBuffer):
 * senders move the head by compare-and-swap, copy, and then commit by storing the length;
 * the reader stops at the first length that is zero, and writes zeros over what it has
 * read.  A sender that is stopped between the two steps blocks all others.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/ipc.h"
#include "ring/ring.h"
#include "ring/wake.h"

/* Default of steno.ring_size. */
#define RING_BYTES (128 * 1024)

/* Size of the ring for all: this, or eight messages if that is more. */
#define SHARED_BYTES (4 * 1024 * 1024)

#define NAP_US 10000
#define ROOM_MS 100

/* The reader passes messages on and frees their space at least this often. */
#define OUT_BYTES (1024 * 1024)
#define PIECES 1024

/* Cache lines that a sender prefetches. */
#define PREFETCH 9

/* Kinds of messages in the rings; 0 is filler. */
#define WHOLE 1
#define PART 2

/* States of the bell: nothing to do, a sender has rung, the reader sleeps. */
enum
{
	QUIET,
	RUNG,
	NAPPING
};

/* State that senders and the reader of both channels share, besides the rings. */
typedef struct Common
{
	StenoWake	room;			/* senders wait here for space; the reader wakes them */
	_Alignas(LAB_CACHE_LINE) _Atomic uint32_t bell;	/* a futex.  Senders: RUNG; the
													 * reader: QUIET, NAPPING */
} Common;

/*
 * A sender requests a pass of the reader at once.  This needs a system call only if the
 * reader sleeps.
 */
static void
ring_bell(Common *common)
{
	if (atomic_load(&common->bell) != RUNG && atomic_exchange(&common->bell, RUNG) == NAPPING)
		lab_futex_wake(&common->bell, 1);
}

/*
 * The reader, after a pass: sleeps until the bell rings, or for NAP_US.  If it rang during
 * the pass, the exchange fails and the reader makes another pass.
 */
static void
nap(Common *common)
{
	uint32_t	quiet = QUIET;

	if (atomic_compare_exchange_strong(&common->bell, &quiet, NAPPING))
		lab_futex_wait(&common->bell, NAPPING, NAP_US);
}

/*
 * A sender waits, once, until half of the ring is free.  False: the case is over, and the
 * message has not begun; a message that has begun is completed.
 */
static bool
wait_for_room(LabLink *link, Common *common, StenoRing *ring, uint64_t head, uint32_t size, bool begun)
{
	if (!begun && atomic_load_explicit(&link->shared->stop, memory_order_relaxed) != 0)
		return false;
	ring_bell(common);
	(void) steno_wake_wait(&common->room, ring, head < size / 2 ? 0 : head - size / 2, ROOM_MS);
	return true;
}

/*
 * A batch: messages that the reader has taken but not passed on.  They are still in the
 * rings, whose space is freed only after the batch has been written.
 */
typedef struct Out
{
	struct iovec pieces[PIECES];
	int			n;
	size_t		bytes;
} Out;

static Out *
out_open(void)
{
	Out		   *out = calloc(1, sizeof(*out));

	if (out == NULL)
		lab_fail("out of memory");
	return out;
}

/* Whether the batch must end before another message. */
static bool
batch_ends(const LabReader *r, const Out *out)
{
	return out->n == PIECES || out->bytes >= OUT_BYTES || (r->c->batch > 0 && r->taken >= r->c->batch);
}

static void
out_add(Out *out, const void *bytes, uint32_t len)
{
	out->pieces[out->n].iov_base = (void *) bytes;
	out->pieces[out->n++].iov_len = len;
	out->bytes += len;
}

static void
out_pass_on(Out *out, LabReader *r)
{
	lab_pass_on(r, out->pieces, out->n);
	out->n = 0;
	out->bytes = 0;
}

/* ---- one ring for each sender ---- */

/* In shared memory.  The rings are mapped from a file whose name has already been removed. */
typedef struct RingsLink
{
	Common		common;
	StenoRings	rings;			/* valid in every process: mapped before them */
} RingsLink;

/*
 * core/ring/ring.c creates a ring file with a name.  Until this process removes the name,
 * a second process waits for end of file on a pipe, which also occurs if this process is
 * killed, and removes the file then.
 */
static pid_t
janitor(const char *path, int *alive)
{
	int			fds[2];
	char		byte;
	pid_t		pid;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -1;
	pid = fork();
	if (pid == 0)
	{
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		close(fds[1]);
		while (read(fds[0], &byte, 1) < 0 && errno == EINTR)
			;
		unlink(path);
		_exit(0);
	}
	close(fds[0]);
	*alive = fds[1];
	if (pid < 0)
		close(fds[1]);
	return pid;
}

static const char *
rings_folder(const LabCase *c)
{
	return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : c->folder;
}

static const char *
rings_refuse(const LabCase *c, char *reason)
{
	uint64_t	need = steno_rings_total(c->processes, RING_BYTES, 0);
	struct statvfs s;

	if (statvfs(rings_folder(c), &s) == 0 && (uint64_t) s.f_bavail * s.f_frsize > need)
		return NULL;
	snprintf(reason, LAB_REASON, "less than %llu MB free in \"%.60s\" for the rings",
			 (unsigned long long) (need / 1000000), rings_folder(c));
	return reason;
}

static bool
rings_open(LabLink *link, const char **what)
{
	RingsLink  *own;
	char		path[4096];
	int			alive = -1;
	pid_t		pid;
	bool		ok;
	int			error;

	*what = "could not map shared memory";
	link->own_size = sizeof(RingsLink);
	own = link->own = lab_shared_memory(link->own_size);
	if (own == NULL)
		return false;
	snprintf(path, sizeof(path), "%s/steno-ipc-%d-%u", rings_folder(link->c), (int) getpid(), link->number);
	*what = "could not start a process";
	pid = janitor(path, &alive);
	if (pid < 0)
		return false;
	ok = steno_rings_create(&own->rings, AT_FDCWD, path, link->senders, RING_BYTES, 0, 1, 0, 0, what);
	error = errno;
	close(alive);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	errno = error;
	return ok;
}

static void
rings_begin(LabLink *link, uint32_t sender)
{
	RingsLink  *own = link->own;
	StenoProducer *p = calloc(1, sizeof(*p));

	if (p == NULL)
		lab_fail("out of memory");
	steno_producer_init(p, &own->rings, sender / link->c->readers);
	link->mine = p;
}

static StenoMessage *
rings_reserve(LabLink *link, uint32_t len, bool begun)
{
	RingsLink  *own = link->own;
	StenoProducer *p = link->mine;
	StenoMessage *m;

	while ((m = steno_ring_reserve(p, (uint32_t) sizeof(*m) + len)) == NULL)
		if (!wait_for_room(link, &own->common, p->ring, p->head, p->size, begun))
			return NULL;
	m->flags = 0;
	return m;
}

static void
rings_publish(LabLink *link, const StenoMessage *m)
{
	RingsLink  *own = link->own;
	StenoProducer *p = link->mine;

	steno_ring_publish(p, m);
	steno_ring_prefetch(p, PREFETCH);
	if (steno_ring_used(p) <= p->size / 2)
		return;
	/* pairs with the release store in steno_ring_free */
	p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
	if (steno_ring_used(p) > p->size / 2)
		ring_bell(&own->common);
}

static bool
rings_send_parts(LabLink *link, uint32_t sender, uint64_t seq)
{
	const StenoProducer *p = link->mine;
	uint32_t	share = p->max_message - (uint32_t) sizeof(StenoMessage);
	uint32_t	size = link->c->size;
	uint32_t	at;
	uint32_t	len;

	lab_fill(link->c, sender, seq, link->buffer);
	for (at = 0; at < size; at += len)
	{
		StenoMessage *m;

		len = size - at < share ? size - at : share;
		m = rings_reserve(link, len, at > 0);
		if (m == NULL)
			return false;
		m->kind = at + len < size ? PART : WHOLE;
		memcpy(m + 1, link->buffer + at, len);
		rings_publish(link, m);
	}
	return true;
}

static bool
rings_send(LabLink *link, uint32_t sender, uint64_t seq)
{
	const StenoProducer *p = link->mine;
	StenoMessage *m;

	if (link->c->size + sizeof(*m) > p->max_message)
		return rings_send_parts(link, sender, seq);
	m = rings_reserve(link, link->c->size, false);
	if (m == NULL)
		return false;
	m->kind = WHOLE;
	lab_fill(link->c, sender, seq, (uint8_t *) (m + 1));
	rings_publish(link, m);
	return true;
}

static void
rings_finish(LabLink *link)
{
	ring_bell(link->own);
}

/* Private to the reader: its position in each ring, and up to where space is freed. */
typedef struct RingsReader
{
	LabLink    *link;
	LabReader  *r;
	RingsLink  *own;
	uint64_t   *positions;
	uint32_t	first;			/* rings from here on have bytes to be freed */
	Out		   *out;
} RingsReader;

/* Pass on what was taken; only then may it be overwritten. */
static void
rings_free(RingsReader *x, uint32_t last)
{
	out_pass_on(x->out, x->r);
	for (; x->first <= last; x->first++)
	{
		StenoRing  *ring = steno_ring_at(&x->own->rings, x->first);

		if (atomic_load_explicit(&ring->tail, memory_order_relaxed) == x->positions[x->first])
			continue;
		steno_ring_free(ring, x->positions[x->first]);
		steno_ring_synced(ring);
	}
	x->first = last;
}

static bool
rings_take(RingsReader *x, uint32_t i)
{
	const StenoRing *ring = steno_ring_at(&x->own->rings, i);
	const uint8_t *data = steno_ring_data(&x->own->rings, i);
	uint32_t	sender = i * x->link->c->readers + x->link->number;
	uint64_t	head = steno_ring_published(ring);
	bool		any = x->positions[i] < head;

	while (x->positions[i] < head)
	{
		const StenoMessage *m = steno_ring_message(data, RING_BYTES, x->positions[i]);

		if (m->kind != 0)
		{
			uint32_t	len = m->len - (uint32_t) sizeof(*m);

			if (batch_ends(x->r, x->out))
				rings_free(x, i);
			lab_take_piece(x->r, sender, (const uint8_t *) (m + 1), len);
			out_add(x->out, m + 1, len);
		}
		x->positions[i] += m->len;
	}
	return any;
}

/* One pass over all rings; false: they were empty. */
static bool
rings_pass(RingsReader *x)
{
	uint32_t	n = x->link->senders;
	bool		any = false;
	uint32_t	i;

	x->first = 0;
	for (i = 0; i < n; i++)
		any |= rings_take(x, i);
	if (!any)
		return false;
	/* like a writer's round: all that wait for space are woken by one system call */
	steno_wake_start(&x->own->common.room);
	rings_free(x, n - 1);
	steno_wake_finish(&x->own->common.room);
	return true;
}

static void
rings_receive(LabLink *link, LabReader *r)
{
	RingsReader x = {.link = link, .r = r, .own = link->own};

	x.positions = calloc(link->senders, sizeof(*x.positions));
	if (x.positions == NULL)
		lab_fail("out of memory");
	x.out = out_open();
	for (;;)
	{
		bool		done = atomic_load(&link->shared->done) != 0;

		atomic_store(&x.own->common.bell, QUIET);
		if (!rings_pass(&x) && done)
			break;
		if (!done)
			nap(&x.own->common);
	}
	free(x.positions);
	free(x.out);
}

const LabChannel lab_ring_each = {
	"ring_each", rings_refuse, rings_open, rings_begin, rings_send, NULL, rings_finish, rings_receive
};

/* ---- one ring for all ---- */

/* Of ring, only head, tail and durable are used; the data follow. */
typedef struct SharedLink
{
	Common		common;
	StenoRing	ring;
	uint32_t	size;
	uint8_t		data[];
} SharedLink;

static bool
shared_open(LabLink *link, const char **what)
{
	uint32_t	size = SHARED_BYTES;
	SharedLink *own;

	*what = "could not map shared memory";
	while (size < 8 * (uint64_t) link->c->size)
		size *= 2;
	link->own_size = offsetof(SharedLink, data) + size;
	own = link->own = lab_shared_memory(link->own_size);
	if (own == NULL)
		return false;
	own->size = size;
	/* allocates the pages now, not while the time is measured */
	memset(own->data, 0, size);
	return true;
}

/* A message's first 8 bytes: its length when it is committed, else 0. */
static _Atomic uint64_t *
length_at(SharedLink *own, uint64_t position)
{
	return (_Atomic uint64_t *) (void *) (own->data + (position & (own->size - 1)));
}

#define FILLER (UINT64_C(1) << 63)

/* Bytes to be skipped because a message does not fit before the end of the data. */
static uint64_t
filler_before(const SharedLink *own, uint64_t head, uint64_t need)
{
	uint64_t	left = own->size - (head & (own->size - 1));

	return need > left ? left : 0;
}

/* A stale head may be behind the tail; the compare-and-swap fails then. */
static bool
is_full(SharedLink *own, uint64_t head)
{
	/* pairs with the release store in steno_ring_free */
	return (int64_t) (head - atomic_load_explicit(&own->ring.tail, memory_order_acquire)) >
		(int64_t) own->size;
}

static bool
shared_send(LabLink *link, uint32_t sender, uint64_t seq)
{
	SharedLink *own = link->own;
	StenoRing  *ring = &own->ring;
	uint64_t	need = sizeof(uint64_t) + link->c->size;
	uint64_t	head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint64_t	filler;

	do
	{
		filler = filler_before(own, head, need);
		while (is_full(own, head + filler + need))
		{
			if (!wait_for_room(link, &own->common, ring, head, own->size, false))
				return false;
			head = atomic_load_explicit(&ring->head, memory_order_relaxed);
			filler = filler_before(own, head, need);
		}
	}
	while (!atomic_compare_exchange_weak_explicit(&ring->head, &head, head + filler + need,
												  memory_order_relaxed, memory_order_relaxed));
	if (filler > 0)
		atomic_store_explicit(length_at(own, head), filler | FILLER, memory_order_release);
	head += filler;
	lab_fill(link->c, sender, seq, (uint8_t *) length_at(own, head) + sizeof(uint64_t));
	/* pairs with the reader's acquire load of the length */
	atomic_store_explicit(length_at(own, head), need, memory_order_release);
	if (head + need - atomic_load_explicit(&ring->tail, memory_order_relaxed) > own->size / 2)
		ring_bell(&own->common);
	return true;
}

/* Zeros, so that no old bytes are mistaken for a length. */
static void
shared_free(SharedLink *own, LabReader *r, Out *out, uint64_t position)
{
	uint64_t	tail = atomic_load_explicit(&own->ring.tail, memory_order_relaxed);
	uint64_t	from = tail & (own->size - 1);
	uint64_t	len = position - tail;

	out_pass_on(out, r);
	if (from + len > own->size)
	{
		memset(own->data + from, 0, own->size - from);
		len -= own->size - from;
		from = 0;
	}
	memset(own->data + from, 0, len);
	steno_ring_free(&own->ring, position);
	steno_ring_synced(&own->ring);
}

static bool
shared_pass(SharedLink *own, LabReader *r, Out *out)
{
	uint64_t	begin = atomic_load_explicit(&own->ring.tail, memory_order_relaxed);
	uint64_t	position = begin;
	uint64_t	length;

	/* at most one ring: senders wait for the end of the pass */
	while (position - begin < own->size &&
		   (length = atomic_load_explicit(length_at(own, position), memory_order_acquire)) != 0)
	{
		if ((length & FILLER) == 0)
		{
			const uint8_t *bytes = (const uint8_t *) length_at(own, position) + sizeof(uint64_t);
			uint32_t	len = (uint32_t) (length - sizeof(uint64_t));

			if (batch_ends(r, out))
				shared_free(own, r, out, position);
			lab_take(r, bytes, len);
			out_add(out, bytes, len);
		}
		position += length & ~FILLER;
	}
	if (position == atomic_load_explicit(&own->ring.tail, memory_order_relaxed))
		return false;
	steno_wake_start(&own->common.room);
	shared_free(own, r, out, position);
	steno_wake_finish(&own->common.room);
	return true;
}

static void
shared_receive(LabLink *link, LabReader *r)
{
	SharedLink *own = link->own;
	Out		   *out = out_open();

	for (;;)
	{
		bool		done = atomic_load(&link->shared->done) != 0;

		atomic_store(&own->common.bell, QUIET);
		if (!shared_pass(own, r, out) && done)
			break;
		if (!done)
			nap(&own->common);
	}
	free(out);
}

static void
shared_finish(LabLink *link)
{
	ring_bell(link->own);
}

const LabChannel lab_shared_ring = {
	"shared_ring", NULL, shared_open, NULL, shared_send, NULL, shared_finish, shared_receive
};
