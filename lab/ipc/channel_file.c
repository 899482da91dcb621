/*
 * lab/ipc/channel_file.c
 *		Appending to one file, which a reader follows: by write(), and by io_uring.
 *
 * The kernel appends the data of each write() in one piece.  The file has no name, so that
 * it cannot be left behind.  The reader polls with naps in between, since one cannot wait
 * for a file to grow.
 *
 * io_uring is used as its designers intended: a sender collects messages and submits them
 * with one system call.  They are linked (IOSQE_IO_LINK), since they could be written out
 * of order otherwise.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ipc/ipc.h"

#define NAP_US 1000

/* Messages that a sender collects: this many, or this many bytes of them. */
#define ENTRIES 16
#define ENTRY_BYTES (1024 * 1024)

/* A larger file would measure the disk. */
#define FILE_MOST (UINT64_C(2) << 30)

/* ---- the file ---- */

static bool
file_open(LabLink *link, const char **what)
{
	char		path[4096];

	*what = "could not make a file";
	link->in = open(link->c->folder, O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
	if (link->in < 0)
	{
		/* for file systems without O_TMPFILE */
		snprintf(path, sizeof(path), "%s/steno-ipc-XXXXXX", link->c->folder);
		link->in = mkostemp(path, O_APPEND | O_CLOEXEC);
		if (link->in >= 0)
			unlink(path);
	}
	if (link->in >= 0)
		link->out = fcntl(link->in, F_DUPFD_CLOEXEC, 0);
	return link->out >= 0;
}

static uint64_t
file_bytes(const LabCase *c)
{
	uint64_t	once = (uint64_t) c->processes * c->size;

	return c->bytes > once ? c->bytes : once;
}

static const char *
file_refuses(const LabCase *c, char *reason)
{
	struct statvfs s;

	if ((uint64_t) c->processes * c->size > FILE_MOST)
		return "one message of each process makes a file of more than 2 GB";
	if (statvfs(c->folder, &s) != 0)
	{
		snprintf(reason, LAB_REASON, "cannot look at folder \"%.100s\": %s", c->folder, strerror(errno));
		return reason;
	}
	if ((uint64_t) s.f_bavail * s.f_frsize > file_bytes(c) + file_bytes(c) / 10)
		return NULL;
	snprintf(reason, LAB_REASON, "less than %llu MB free in the folder for files",
			 (unsigned long long) (file_bytes(c) / 1000000));
	return reason;
}

/* As another program would open it: with its own file position and lock. */
static void
file_begin(LabLink *link, uint32_t sender)
{
	char		path[40];
	int			fd;

	(void) sender;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", link->in);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		lab_fail("could not open the file again: %s", strerror(errno));
	close(link->in);
	link->in = fd;
}

static bool
file_send(LabLink *link, uint32_t sender, uint64_t seq)
{
	ssize_t		n;

	lab_fill(link->c, sender, seq, link->buffer);
	n = write(link->in, link->buffer, link->c->size);
	if (n != (ssize_t) link->c->size)
		lab_fail("could not append %u bytes: %s", link->c->size, n < 0 ? strerror(errno) : "disk full");
	return true;
}

typedef struct Follower
{
	LabLink    *link;
	off_t		at;
} Follower;

static ssize_t
follow(void *arg, uint8_t *to, size_t len)
{
	Follower   *f = arg;

	for (;;)
	{
		/* read before the file is: data of a sender that finishes later is read in the next pass */
		bool		done = atomic_load(&f->link->shared->done) != 0;
		ssize_t		n = pread(f->link->out, to, len, f->at);

		if (n > 0)
			f->at += n;
		if (n != 0 || done)
			return n;
		lab_nap(NAP_US);
	}
}

static void
file_receive(LabLink *link, LabReader *r)
{
	Follower	f = {link, 0};

	lab_receive_stream(r, follow, &f);
}

const LabChannel lab_file = {
	"file", file_refuses, file_open, file_begin, file_send, NULL, NULL, file_receive
};

/* ---- io_uring ---- */

/* Private to a sender: the queues that it shares with the kernel, and messages. */
typedef struct Uring
{
	int			fd;
	uint32_t   *sq_tail;
	uint32_t   *sq_mask;
	uint32_t   *sq_array;
	uint32_t   *cq_head;
	uint32_t   *cq_tail;
	uint32_t   *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	uint8_t    *messages;
	uint32_t	most;
	uint32_t	n;
} Uring;

static int
uring_setup(uint32_t entries, struct io_uring_params *p)
{
	memset(p, 0, sizeof(*p));
	return (int) syscall(SYS_io_uring_setup, entries, p);
}

static const char *
uring_refuses(const LabCase *c, char *reason)
{
	struct io_uring_params p;
	int			fd = uring_setup(1, &p);

	if (fd < 0)
	{
		snprintf(reason, LAB_REASON, "the kernel allows no io_uring here: %s", strerror(errno));
		return reason;
	}
	close(fd);
	return file_refuses(c, reason);
}

static void *
map_queue(int fd, size_t size, uint64_t what)
{
	void	   *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t) what);

	if (p == MAP_FAILED)
		lab_fail("could not map io_uring's queues: %s", strerror(errno));
	return p;
}

static uint32_t
uring_entries(uint32_t size)
{
	uint32_t	n = ENTRY_BYTES / size;

	return n < 1 ? 1 : n > ENTRIES ? ENTRIES : n;
}

static void
uring_begin(LabLink *link, uint32_t sender)
{
	Uring	   *u = calloc(1, sizeof(*u));
	struct io_uring_params p;
	uint8_t    *sq;
	uint8_t    *cq;

	file_begin(link, sender);
	if (u == NULL)
		lab_fail("out of memory");
	u->most = uring_entries(link->c->size);
	u->messages = malloc((size_t) u->most * link->c->size);
	u->fd = uring_setup(ENTRIES, &p);
	if (u->fd < 0 || u->messages == NULL)
		lab_fail("could not set io_uring up: %s", strerror(errno));
	memset(u->messages, 1, (size_t) u->most * link->c->size);
	sq = map_queue(u->fd, p.sq_off.array + p.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
	cq = map_queue(u->fd, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	u->sqes = map_queue(u->fd, p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	u->sq_tail = (uint32_t *) (sq + p.sq_off.tail);
	u->sq_mask = (uint32_t *) (sq + p.sq_off.ring_mask);
	u->sq_array = (uint32_t *) (sq + p.sq_off.array);
	u->cq_head = (uint32_t *) (cq + p.cq_off.head);
	u->cq_tail = (uint32_t *) (cq + p.cq_off.tail);
	u->cq_mask = (uint32_t *) (cq + p.cq_off.ring_mask);
	u->cqes = (struct io_uring_cqe *) (cq + p.cq_off.cqes);
	link->mine = u;
}

static void
uring_queue(LabLink *link, Uring *u, uint32_t i)
{
	/* only this process moves the tail; the kernel reads it in the system call */
	uint32_t	tail = *u->sq_tail;
	uint32_t	entry = tail & *u->sq_mask;
	struct io_uring_sqe *e = &u->sqes[entry];

	memset(e, 0, sizeof(*e));
	e->opcode = IORING_OP_WRITE;
	e->flags = i + 1 < u->n ? IOSQE_IO_LINK : 0;
	e->fd = link->in;
	e->off = UINT64_MAX;		/* the file's position: the end */
	e->addr = (uint64_t) (uintptr_t) (u->messages + (size_t) i * link->c->size);
	e->len = link->c->size;
	u->sq_array[entry] = entry;
	__atomic_store_n(u->sq_tail, tail + 1, __ATOMIC_RELEASE);
}

/* Submits the collected messages, and waits until they are in the file. */
static void
uring_flush(LabLink *link, uint32_t sender)
{
	Uring	   *u = link->mine;
	uint32_t	submit = u->n;
	uint32_t	left = u->n;
	uint32_t	i;

	(void) sender;
	for (i = 0; i < u->n; i++)
		uring_queue(link, u, i);
	while (left > 0)
	{
		long		n = syscall(SYS_io_uring_enter, u->fd, submit, left, IORING_ENTER_GETEVENTS, NULL, 0);
		uint32_t	head = *u->cq_head;

		if (n < 0 && errno != EINTR)
			lab_fail("could not hand over to io_uring: %s", strerror(errno));
		if (n > 0)
			submit -= (uint32_t) n;
		/* pairs with the kernel's release store of the completions' tail */
		for (; head != __atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE); head++, left--)
		{
			int			res = u->cqes[head & *u->cq_mask].res;

			if (res != (int) link->c->size)
				lab_fail("could not append %u bytes: %s", link->c->size, res < 0 ? strerror(-res) : "disk full");
		}
		__atomic_store_n(u->cq_head, head, __ATOMIC_RELEASE);
	}
	u->n = 0;
}

static bool
uring_send(LabLink *link, uint32_t sender, uint64_t seq)
{
	Uring	   *u = link->mine;

	lab_fill(link->c, sender, seq, link->buffer);
	memcpy(u->messages + (size_t) u->n * link->c->size, link->buffer, link->c->size);
	if (++u->n == u->most)
		uring_flush(link, sender);
	return true;
}

const LabChannel lab_uring = {
	"io_uring", uring_refuses, file_open, uring_begin, uring_send, uring_flush, NULL, file_receive
};
