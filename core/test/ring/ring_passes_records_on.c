/*
 * core/test/ring/ring_passes_records_on.c
 *		Two threads, and two processes: every record arrives once, whole and in
 *		order, whatever its size.
 *
 * Record i is len(i) bytes of a fixed random text, from an offset that depends
 * on i, so the consumer can compare all of it cheaply.  Records that are too big for a
 * message go in parts, as a backend sends them, in chunks as long as there are any.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/chunk.h"
#include "ring/message.h"
#include "test/test.h"

#define SIZE (32 * 1024)
#define OFFSETS 4096
#define LONGEST (5 * SIZE)
#define CHUNKS 3

static uint8_t content[OFFSETS + LONGEST];
static StenoRings rings;
static uint64_t count;

static const uint8_t *
bytes_of(uint64_t i)
{
	return content + i * 31 % OFFSETS;
}

/* Mostly statements; now and then as much as a message holds; seldom several rings. */
static uint32_t
len_of(uint64_t i)
{
	uint64_t	state = i;
	uint64_t	dice = test_below(&state, 20000);

	if (dice == 0)
		return (uint32_t) (1 + test_below(&state, LONGEST));
	if (dice < 100)
		return (uint32_t) (1 + test_below(&state, SIZE / STENO_RING_SHARE));
	return (uint32_t) (1 + test_below(&state, 160));
}

static void
prepare(uint64_t records)
{
	char		path[300];
	const char *what;
	uint64_t	random = test_seed();
	size_t		i;

	count = test_parameter("RING_RECORDS", records);
	for (i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t) test_random(&random);
	snprintf(path, sizeof(path), "%s/rings", test_folder());
	CHECK(steno_rings_create(&rings, AT_FDCWD, path, 1, SIZE, CHUNKS, 1, 1, 1, &what));
}

static void *
reserve(StenoProducer *p, uint32_t len)
{
	void	   *m;

	while ((m = steno_ring_reserve(p, len)) == NULL)
		sched_yield();
	return m;
}

static void
send_part(StenoProducer *p, uint16_t kind, uint64_t i, const uint8_t *bytes, uint32_t len)
{
	StenoDataMessage *d = reserve(p, (uint32_t) sizeof(StenoDataMessage) + len);

	d->m.kind = kind;
	d->m.flags = 0;
	d->seq = i;
	d->part = 0;
	d->len = len;
	memcpy(d + 1, bytes, len);
	steno_ring_publish(p, d);
}

static bool
send_in_chunk(StenoProducer *p, uint64_t i, const uint8_t *bytes, uint32_t len)
{
	StenoDataMessage *d = reserve(p, (uint32_t) (sizeof(StenoDataMessage) + sizeof(StenoChunkNumber)));
	StenoChunkNumber *number = (StenoChunkNumber *) (d + 1);
	uint32_t	used;
	uint32_t	chunk = steno_chunk_claim(&rings, 0, &used);

	if (chunk == STENO_CHUNK_NONE)
		return false;
	d->m.kind = STENO_KIND_DATA;
	d->m.flags = STENO_MESSAGE_CHUNK;
	d->seq = i;
	d->part = 0;
	d->len = len;
	number->number = chunk;
	number->pad = 0;
	memcpy(steno_chunk_bytes(&rings, chunk), bytes, len);
	steno_chunk_keep(&rings, chunk, 0, steno_ring_after(p, d));
	steno_ring_publish(p, d);
	return true;
}

static void *
produce(void *unused)
{
	StenoProducer p;
	uint32_t	most;
	uint64_t	i;

	steno_producer_init(&p, &rings, 0);
	most = p.max_message - (uint32_t) sizeof(StenoDataMessage);
	for (i = 0; i < count; i++)
	{
		const uint8_t *bytes = bytes_of(i);
		uint32_t	left = len_of(i);

		while (left > most)
		{
			uint32_t	n = left < STENO_CHUNK ? left : STENO_CHUNK;

			if (!send_in_chunk(&p, i, bytes, n))
			{
				n = most;
				send_part(&p, STENO_KIND_DATA, i, bytes, n);
			}
			left -= n;
			bytes += n;
		}
		send_part(&p, STENO_KIND_STATEMENT, i, bytes, left);
	}
	return unused;
}

/* Check one message; *got bytes of record *i have come before. */
static void
consume(const StenoMessage *m, uint64_t *i, uint32_t *got)
{
	const StenoDataMessage *d = (const StenoDataMessage *) m;

	if (m->kind == 0)
		return;
	CHECK(d->seq == *i);
	CHECK(*got + d->len <= len_of(*i));
	CHECK(memcmp(m->flags & STENO_MESSAGE_CHUNK ? steno_chunk_bytes(&rings, steno_data_chunk(d)) :
				 (const uint8_t *) (d + 1), bytes_of(*i) + *got, d->len) == 0);
	*got += d->len;
	if (m->kind == STENO_KIND_STATEMENT)
	{
		CHECK(*got == len_of(*i));
		*got = 0;
		++*i;
	}
}

static void
consume_all(void)
{
	StenoRing  *ring = steno_ring_at(&rings, 0);
	const uint8_t *data = steno_ring_data(&rings, 0);
	uint64_t	position = 0;
	uint64_t	i = 0;
	uint32_t	got = 0;

	while (i < count)
	{
		uint64_t	head = steno_ring_published(ring);

		if (head == position)
			sched_yield();
		while (position < head)
		{
			const StenoMessage *m = steno_ring_message(data, SIZE, position);

			CHECK(m->len >= sizeof(StenoMessage) && position + m->len <= head);
			consume(m, &i, &got);
			position += m->len;
		}
		steno_ring_free(ring, position);
	}
	CHECK(steno_ring_published(ring) == position);
}

THREADED_TEST(ring_passes_records_between_threads)
{
	pthread_t	thread;

	prepare(10000000);
	CHECK(pthread_create(&thread, NULL, produce, NULL) == 0);
	consume_all();
	CHECK(pthread_join(thread, NULL) == 0);
}

TEST(ring_passes_records_between_processes)
{
	pid_t		pid;
	int			status;

	prepare(10000000);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
	{
		/* do not wait for ever for a consumer that has failed */
		alarm(150);
		produce(NULL);
		_exit(0);
	}
	consume_all();
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* What a producer that was killed has published is there for whoever opens the file. */
TEST(ring_keeps_records_of_a_dead_producer)
{
	char		path[300];
	char		wrong[STENO_RING_WHAT];
	pid_t		pid;
	int			status;

	prepare(20);
	count = 20;
	pid = fork();
	if (pid == 0)
	{
		produce(NULL);
		abort();
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	steno_rings_close(&rings);
	snprintf(path, sizeof(path), "%s/rings", test_folder());
	CHECK(steno_rings_open(&rings, AT_FDCWD, path, 1, wrong) == STENO_RING_OPEN);
	consume_all();
}
