/*
 * core/test/ring/staged_records_are_copied_whole.c
 *		What a living writer copies of a record that its session has staged is that
 *		statement's, whole, and nothing of its end, or is thrown away: the session
 *		publishes it, gives it the message of a failure, gives it up and writes others
 *		over it, whenever it likes.
 *
 * The writer's part is that of start_message in extension/writer/announce.c.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "ring/message.h"
#include "test/test.h"

#define SIZE (16 * 1024)
#define SHARE (SIZE / STENO_RING_SHARE)

static StenoRings rings;
static StenoProducer producer;
static _Atomic bool stop;

/* Copies of bytes that others change meanwhile: with atomics where the sanitizer looks. */
static void
write_shared(void *to, const void *from, uint32_t len)
{
	steno_copy_in((char *) to, (const char *) from, len);
}

static void
make_ring(void)
{
	size_t		total = (size_t) steno_rings_total(1, SIZE, 0);
	StenoRingFile *f = aligned_alloc(STENO_PAGE, total);

	CHECK(f != NULL);
	memset(f, 0, total);
	steno_rings_describe(f, 1, SIZE, 0, 1, 0, 0);
	CHECK(steno_rings_attach(&rings, f, total, f) == NULL);
	steno_producer_init(&producer, &rings, 0);
}

/* Length of statement n's text, of which every byte is n. */
static uint32_t
length_of(uint64_t n)
{
	return (uint32_t) (n * 37 % 1500);
}

static void *
reserve(uint32_t len)
{
	uint32_t	offset = (uint32_t) (producer.head & (SIZE - 1));
	StenoMessage filler = {SIZE - offset, 0, 0};
	uint8_t    *m;

	len = (len + 7) & ~UINT32_C(7);
	/* as steno_ring_reserve does, with stores that the sanitizer knows to be shared */
	if (len > SIZE - offset)
	{
		write_shared(producer.data + offset, &filler, sizeof(filler));
		producer.head += filler.len;
	}
	m = producer.data + (producer.head & (SIZE - 1));
	write_shared(m, &len, sizeof(len));
	return m;
}

static void
publish(uint32_t len)
{
	producer.head += (len + 7) & ~UINT32_C(7);
	atomic_store_explicit(&producer.ring->head, producer.head, memory_order_release);
	/* nobody reads what is published: it is free at once */
	steno_ring_free(producer.ring, producer.head);
	producer.tail = producer.head;
}

static bool
fails(uint64_t n)
{
	return n % 3 == 1;
}

/*
 * What steno_staged_fail in extension/delivery/staged.c does; returns the record's
 * length.
 */
static uint32_t
fail_in_place(StenoRecordMessage *m, uint32_t total)
{
	static const char message[] = "it has failed";
	uint32_t	more = (uint32_t) (total + sizeof(message) + 7) & ~UINT32_C(7);
	uint32_t	message_len = sizeof(message);

	if ((uint8_t *) m + more > producer.data + SIZE)
		return total;
	write_shared(&m->m.len, &more, sizeof(more));
	write_shared((uint8_t *) m + total, message, message_len);
	STENO_FENCE(memory_order_release);
	write_shared(&m->message_len, &message_len, sizeof(message_len));
	write_shared(m->sqlstate, "57014", 6);
	return more;
}

/* Something else than the statement's record takes its place. */
static void
overwrite(uint64_t n)
{
	static uint8_t noise[SHARE];
	uint32_t	len = (uint32_t) (64 + n % 1000);
	void	   *m;

	memset(noise, 0xff, sizeof(noise));
	m = reserve(len);
	write_shared((uint8_t *) m + sizeof(uint32_t), noise, len - sizeof(uint32_t));
	publish(len);
}

static void *
produce(void *unused)
{
	static uint64_t buffer[SHARE / 8];
	StenoRecordMessage *r = (StenoRecordMessage *) buffer;
	StenoInFlight *f = &producer.ring->inflight;
	uint32_t	version = 0;
	uint64_t	n = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed))
	{
		uint32_t	len = length_of(++n);
		uint32_t	total = (uint32_t) sizeof(*r) + len;
		void	   *m = reserve(total);

		memset(r, 0, sizeof(*r));
		r->m.len = (total + 7) & ~UINT32_C(7);
		r->m.kind = STENO_KIND_STATEMENT;
		r->statement = n;
		r->time = (int64_t) n * 3;
		r->text_len = len;
		memset(r + 1, (int) (n & 0x7f), len);
		write_shared(m, r, total);
		version = steno_inflight_stage(f, version, n, r->time, producer.head);
		if (n % 3 == 0)
		{
			/* unstaged: the text moves to the entry, and the ring to others */
			version = steno_inflight_begin(f, version, n, r->time, (const char *) (r + 1), len);
			STENO_FENCE(memory_order_release);
			overwrite(n);
		}
		else
		{
			if (fails(n))
				total = fail_in_place(m, total);
			steno_inflight_done(f, producer.head + ((total + 7) & ~UINT32_C(7)));
			publish(total);
		}
		if (n % 7 != 0)
			steno_inflight_end(f);
	}
	return unused;
}

typedef enum Copied
{
	COPIED,						/* the record of the entry's statement */
	CHANGED,					/* the entry has changed */
	NOT_STAGED
} Copied;

static Copied
copy_staged(const StenoInFlight *f, uint8_t *copied)
{
	const StenoInFlight *entry = &producer.ring->inflight;
	uint32_t	offset = (uint32_t) (f->position & (SIZE - 1));
	uint32_t	n = SIZE - offset < SHARE ? SIZE - offset : SHARE;
	StenoInFlight of_copy;
	const StenoRecordMessage *r;
	uint32_t	i;

	if (!f->staged)
		return NOT_STAGED;
	steno_copy_out((char *) copied, (const char *) producer.data + offset, n);
	STENO_FENCE(memory_order_acquire);
	if (atomic_load_explicit(&entry->version, memory_order_relaxed) !=
		atomic_load_explicit(&f->version, memory_order_relaxed))
		return CHANGED;
	memcpy(&of_copy, f, offsetof(StenoInFlight, text));
	of_copy.position = 0;
	r = (const StenoRecordMessage *) steno_inflight_record(&of_copy, copied, n);
	if (r == NULL)
	{
		/* the length of a message, and not yet its record's */
		CHECK(fails(f->statement));
		return CHANGED;
	}
	steno_message_begun((StenoRecordMessage *) copied, 0);
	CHECK(r->message_len == 0 && r->sqlstate[0] == '\0' && r->duration == STENO_NONE64);
	CHECK(r->statement == f->statement && r->time == (int64_t) f->statement * 3);
	CHECK(r->text_len == length_of(f->statement));
	for (i = 0; i < r->text_len; i++)
		CHECK(((const uint8_t *) (r + 1))[i] == (f->statement & 0x7f));
	return COPIED;
}

THREADED_TEST(staged_records_are_copied_whole)
{
	static uint64_t copied[SHARE / 8];
	uint64_t	wanted = test_parameter("INFLIGHT_READS", 1000000) / 10;
	uint64_t	whole = 0;
	uint64_t	given_up = 0;
	uint64_t	changed = 0;
	time_t		end = time(NULL) + 20;
	StenoInFlight copy = {0};
	pthread_t	thread;

	make_ring();
	CHECK(pthread_create(&thread, NULL, produce, NULL) == 0);
	while ((whole < wanted || given_up == 0 || changed == 0) && time(NULL) < end)
	{
		if (!steno_inflight_read(&producer.ring->inflight, &copy) || !copy.active)
			continue;
		switch (copy_staged(&copy, (uint8_t *) copied))
		{
			case COPIED:
				whole++;
				break;
			case CHANGED:
				changed++;
				break;
			case NOT_STAGED:
				given_up++;
				CHECK(copy.text_len == length_of(copy.statement));
				CHECK(copy.text_kept == 0 || copy.text[0] == (char) (copy.statement & 0x7f));
		}
	}
	atomic_store(&stop, true);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(whole > 0 && given_up > 0);
	free(rings.file);
}
