/*
 * lab/ipc/channel_stream.c
 *		Pipes and sockets, with and without a mutex around the write.
 *
 * A pipe writes at most PIPE_BUF bytes atomically, a stream socket of Linux about 32 kB;
 * larger messages of several processes would be interleaved.  They need the mutex, and
 * without it the case is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ipc/ipc.h"

/* The kernel queues a stream socket's bytes in buffers of this size. */
#define STREAM_PIECE 32768

/* A stream's reader has a buffer of this size, or for two messages. */
#define STREAM_ROOM (256 * 1024)
#define STREAM_MOST (8 * 1024 * 1024)

/* Datagrams received by one call where a batch is everything available. */
#define DATAGRAMS 64

/* Whether each channel has only one sender. */
static bool
has_one_sender(const LabCase *c)
{
	return c->processes <= c->readers;
}

/* ---- the reader of a stream ---- */

static size_t
room_for(const LabCase *c)
{
	uint64_t	room = c->batch > 0 ? (uint64_t) c->batch * c->size : STREAM_ROOM;

	if (c->batch == 0 && room < 2 * (uint64_t) c->size)
		room = 2 * (uint64_t) c->size;
	if (room > STREAM_MOST && room > c->size)
		room = STREAM_MOST > c->size ? STREAM_MOST / c->size * c->size : c->size;
	return (size_t) room;
}

void
lab_receive_stream(LabReader *r, LabRead more, void *arg)
{
	uint32_t	size = r->c->size;
	size_t		room = room_for(r->c);
	uint8_t    *buffer = malloc(room);
	size_t		have = 0;
	ssize_t		n;

	if (buffer == NULL)
		lab_fail("out of memory");
	while ((n = more(arg, buffer + have, room - have)) > 0)
	{
		struct iovec whole = {buffer, 0};
		size_t		at = 0;

		for (have += (size_t) n; have - at >= size; at += size)
			lab_take(r, buffer + at, size);
		whole.iov_len = at;
		lab_pass_on(r, &whole, at > 0);
		have -= at;
		if (at > 0 && have > 0)
			memmove(buffer, buffer + at, have);
	}
	if (n < 0)
		lab_fail("could not receive: %s", strerror(errno));
	if (have > 0)
		lab_fail("the stream ends within a message");
	free(buffer);
}

static ssize_t
read_end(void *arg, uint8_t *to, size_t len)
{
	return read(*(int *) arg, to, len);
}

static void
stream_receive(LabLink *link, LabReader *r)
{
	lab_receive_stream(r, read_end, &link->out);
}

/* ---- senders ---- */

static void
write_all(int fd, const uint8_t *bytes, size_t len)
{
	while (len > 0)
	{
		ssize_t		n = write(fd, bytes, len);

		if (n < 0)
			lab_fail("could not send: %s", strerror(errno));
		bytes += n;
		len -= (size_t) n;
	}
}

static bool
stream_send(LabLink *link, uint32_t sender, uint64_t seq)
{
	lab_fill(link->c, sender, seq, link->buffer);
	write_all(link->in, link->buffer, link->c->size);
	return true;
}

static bool
mutex_send(LabLink *link, uint32_t sender, uint64_t seq)
{
	pthread_mutex_t *mutex = link->own;
	bool		late;
	int			error;

	lab_fill(link->c, sender, seq, link->buffer);
	error = pthread_mutex_lock(mutex);
	if (error != 0)
		lab_fail("could not lock the mutex: %s", strerror(error));
	/* waiting for a thousand others takes some time */
	late = atomic_load_explicit(&link->shared->stop, memory_order_relaxed) != 0;
	if (!late)
		write_all(link->in, link->buffer, link->c->size);
	pthread_mutex_unlock(mutex);
	return !late;
}

/* ---- pipes ---- */

static bool
pipe_open(LabLink *link, const char **what)
{
	int			fds[2];

	*what = "could not make a pipe";
	if (pipe2(fds, O_CLOEXEC) != 0)
		return false;
	link->out = fds[0];
	link->in = fds[1];
	return true;
}

static const char *
pipe_refuses(const LabCase *c, char *reason)
{
	if (c->size <= PIPE_BUF || has_one_sender(c))
		return NULL;
	snprintf(reason, LAB_REASON, "a pipe takes no more than %d bytes in one piece: parts of several "
			 "processes' messages would be mixed without a mutex", PIPE_BUF);
	return reason;
}

/* Robust: if a process dies while holding it, the next owner is notified, and fails the case. */
static bool
make_mutex(LabLink *link, const char **what)
{
	pthread_mutexattr_t attributes;

	*what = "could not make a mutex";
	link->own_size = sizeof(pthread_mutex_t);
	link->own = lab_shared_memory(link->own_size);
	if (link->own == NULL)
		return false;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	errno = pthread_mutex_init(link->own, &attributes);
	return errno == 0;
}

static bool
pipe_mutex_open(LabLink *link, const char **what)
{
	return make_mutex(link, what) && pipe_open(link, what);
}

const LabChannel lab_pipe = {
	"pipe", pipe_refuses, pipe_open, NULL, stream_send, NULL, NULL, stream_receive
};

const LabChannel lab_pipe_mutex = {
	"pipe_mutex", NULL, pipe_mutex_open, NULL, mutex_send, NULL, NULL, stream_receive
};

/* ---- stream sockets ---- */

static bool
pair_open(LabLink *link, int type, const char **what)
{
	int			fds[2];

	*what = "could not make a pair of sockets";
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0)
		return false;
	link->out = fds[0];
	link->in = fds[1];
	return true;
}

static bool
stream_open(LabLink *link, const char **what)
{
	return pair_open(link, SOCK_STREAM, what);
}

static bool
stream_mutex_open(LabLink *link, const char **what)
{
	return make_mutex(link, what) && stream_open(link, what);
}

static const char *
stream_refuses(const LabCase *c, char *reason)
{
	if (c->size <= STREAM_PIECE || has_one_sender(c))
		return NULL;
	snprintf(reason, LAB_REASON, "a stream socket takes no more than %d bytes in one piece: parts of several "
			 "processes' messages would be mixed without a mutex", STREAM_PIECE);
	return reason;
}

const LabChannel lab_stream = {
	"stream", stream_refuses, stream_open, NULL, stream_send, NULL, NULL, stream_receive
};

const LabChannel lab_stream_mutex = {
	"stream_mutex", NULL, stream_mutex_open, NULL, mutex_send, NULL, NULL, stream_receive
};

/* ---- datagrams ---- */

/* Make space for two messages in the buffer, if the system allows that. */
static bool
datagram_open(LabLink *link, const char **what)
{
	int			have;
	int			want = (int) (2 * link->c->size);
	socklen_t	len = sizeof(have);

	if (!pair_open(link, SOCK_DGRAM, what))
		return false;
	*what = "could not set a socket's buffer";
	if (getsockopt(link->in, SOL_SOCKET, SO_SNDBUF, &have, &len) != 0)
		return false;
	return have >= want || setsockopt(link->in, SOL_SOCKET, SO_SNDBUF, &want, sizeof(want)) == 0;
}

/* Whether the kernel accepts such a datagram can be found out only by sending one. */
static const char *
datagram_refuses(const LabCase *c, char *reason)
{
	LabLink		link = {.c = c, .in = -1, .out = -1};
	const char *what = "";
	void	   *bytes = calloc(1, c->size);
	bool		ok = bytes != NULL && datagram_open(&link, &what) &&
		send(link.in, bytes, c->size, MSG_DONTWAIT) == (ssize_t) c->size;

	if (!ok)
		snprintf(reason, LAB_REASON, "the kernel takes no datagram of %u bytes here (%s); "
				 "net.core.wmem_max sets how large a socket's buffer may be", c->size, strerror(errno));
	free(bytes);
	if (link.in >= 0)
		close(link.in);
	if (link.out >= 0)
		close(link.out);
	return ok ? NULL : reason;
}

static bool
datagram_send(LabLink *link, uint32_t sender, uint64_t seq)
{
	lab_fill(link->c, sender, seq, link->buffer);
	if (send(link->in, link->buffer, link->c->size, 0) != (ssize_t) link->c->size)
		lab_fail("could not send a datagram: %s", strerror(errno));
	return true;
}

/* An empty datagram marks the end, because datagram sockets have no end of file. */
static void
datagram_finish(LabLink *link)
{
	while (send(link->in, "", 0, 0) < 0 && errno == EINTR)
		;
}

static uint32_t
datagrams_at_once(const LabCase *c)
{
	uint32_t	n = c->batch > 0 ? c->batch : DATAGRAMS;

	while (n > 1 && (uint64_t) n * c->size > STREAM_MOST)
		n /= 2;
	return n;
}

static void
datagram_receive(LabLink *link, LabReader *r)
{
	uint32_t	size = r->c->size;
	uint32_t	most = datagrams_at_once(r->c);
	uint8_t    *buffer = malloc((size_t) most * size);
	struct mmsghdr *headers = calloc(most, sizeof(*headers));
	struct iovec *pieces = calloc(most, sizeof(*pieces));
	bool		over = false;
	uint32_t	i;

	if (buffer == NULL || headers == NULL || pieces == NULL)
		lab_fail("out of memory");
	for (i = 0; i < most; i++)
	{
		pieces[i].iov_base = buffer + (size_t) i * size;
		pieces[i].iov_len = size;
		headers[i].msg_hdr.msg_iov = &pieces[i];
		headers[i].msg_hdr.msg_iovlen = 1;
	}
	while (!over)
	{
		int			n = recvmmsg(link->out, headers, most, MSG_WAITFORONE, NULL);

		if (n < 0)
			lab_fail("could not receive: %s", strerror(errno));
		for (i = 0; i < (uint32_t) n && headers[i].msg_len > 0; i++)
			lab_take(r, pieces[i].iov_base, headers[i].msg_len);
		over = i < (uint32_t) n;
		lab_pass_on(r, pieces, (int) i);
	}
	free(buffer);
	free(headers);
	free(pieces);
}

const LabChannel lab_datagram = {
	"datagram", datagram_refuses, datagram_open, NULL, datagram_send, NULL, datagram_finish, datagram_receive
};
