/*
 * core/test/ring/ring_keeps_order_and_limits.c
 *		The ring alone, in one thread: filler at the end, full and exactly full,
 *		and the tail that the producer has cached.
 */
#include <fcntl.h>
#include <unistd.h>

#include "ring/ring.h"
#include "test/test.h"

#define SIZE STENO_RING_MIN

static void
make(StenoRings *rings, StenoProducer *p)
{
	char		path[300];
	const char *what;

	snprintf(path, sizeof(path), "%s/rings", test_folder());
	CHECK(steno_rings_create(rings, AT_FDCWD, path, 2, SIZE, 0, 1, 7, 8, &what));
	steno_producer_init(p, rings, 1);
	CHECK(p->max_message == SIZE / STENO_RING_SHARE);
}

static bool
put(StenoProducer *p, uint32_t len, uint8_t fill)
{
	StenoMessage *m = steno_ring_reserve(p, len);
	uint64_t	after;

	if (m == NULL)
		return false;
	CHECK(((uintptr_t) m & 7) == 0);
	CHECK((uint8_t *) m >= p->data && (uint8_t *) m + len <= p->data + p->size);
	m->kind = 1;
	m->flags = 0;
	memset(m + 1, fill, len - sizeof(*m));
	after = steno_ring_after(p, m);
	steno_ring_publish(p, m);
	CHECK(after == p->head && steno_ring_published(p->ring) == after);
	return true;
}

/* The next real message at *at, which moves past it. */
static const StenoMessage *
take(StenoProducer *p, uint64_t *at)
{
	const StenoMessage *m;

	do
	{
		CHECK(*at < steno_ring_published(p->ring));
		m = steno_ring_message(p->data, p->size, *at);
		*at += m->len;
	} while (m->kind == 0);
	return m;
}

TEST(ring_hides_a_message_until_it_is_published)
{
	StenoRings	rings;
	StenoProducer p;
	StenoMessage *m;

	make(&rings, &p);
	m = steno_ring_reserve(&p, 100);
	CHECK(m != NULL && m->len == 104);
	CHECK(steno_ring_published(p.ring) == 0);
	m->kind = 1;
	steno_ring_publish(&p, m);
	CHECK(steno_ring_published(p.ring) == 104);
	steno_rings_close(&rings);
}

TEST(ring_can_be_filled_exactly)
{
	StenoRings	rings;
	StenoProducer p;
	int			i;

	make(&rings, &p);
	for (i = 0; i < STENO_RING_SHARE; i++)
		CHECK(put(&p, SIZE / STENO_RING_SHARE, (uint8_t) i));
	CHECK(steno_ring_used(&p) == SIZE);
	CHECK(!put(&p, 8, 0));
	CHECK(steno_ring_published(p.ring) == SIZE);
	/* one freed message is room for exactly one */
	steno_ring_free(p.ring, SIZE / STENO_RING_SHARE);
	CHECK(put(&p, SIZE / STENO_RING_SHARE, 9));
	CHECK(!put(&p, 8, 0));
	steno_rings_close(&rings);
}

TEST(ring_fills_the_rest_where_a_message_does_not_fit)
{
	StenoRings	rings;
	StenoProducer p;
	const StenoMessage *m;
	uint64_t	at = 0;
	int			i;

	make(&rings, &p);
	/* 1000 bytes do not divide the ring: sixteen fit, 384 bytes are left */
	for (i = 0; i < 16; i++)
		CHECK(put(&p, 1000, (uint8_t) i));
	CHECK(!put(&p, 1000, 16));
	/* the filler counts: 1000 bytes are free, but they do not lie together */
	for (i = 0; i < 1; i++)
		take(&p, &at);
	steno_ring_free(p.ring, at);
	/* the filler shows only together with what comes after it */
	CHECK(steno_ring_reserve(&p, 1000) != NULL);
	CHECK(steno_ring_published(p.ring) == 16000);
	CHECK(put(&p, 1000, 16));
	CHECK(p.head == SIZE + 1000);
	for (i = 1; i <= 16; i++)
	{
		m = take(&p, &at);
		CHECK(m->len == 1000 && ((const uint8_t *) (m + 1))[0] == i);
	}
	CHECK(at == steno_ring_published(p.ring));
	steno_rings_close(&rings);
}

/* A reservation that fails, or is given up, must not lose or show anything. */
TEST(ring_can_retry_a_reservation)
{
	StenoRings	rings;
	StenoProducer p;
	uint64_t	at = 0;
	int			i;

	make(&rings, &p);
	for (i = 0; i < 16; i++)
		CHECK(put(&p, 1000, (uint8_t) i));
	CHECK(!put(&p, 1000, 16) && !put(&p, 1000, 16));
	CHECK(put(&p, 384, 99));
	CHECK(!put(&p, 8, 0));
	for (i = 0; i < 16; i++)
		CHECK(((const uint8_t *) (take(&p, &at) + 1))[0] == i);
	steno_ring_free(p.ring, at);
	at = steno_ring_published(p.ring) - 384;
	CHECK(steno_ring_reserve(&p, 1000) != NULL);
	CHECK(steno_ring_published(p.ring) == at + 384);
	CHECK(put(&p, 500, 17));
	CHECK(((const uint8_t *) (take(&p, &at) + 1))[0] == 99);
	CHECK(((const uint8_t *) (take(&p, &at) + 1))[0] == 17);
	steno_rings_close(&rings);
}

TEST(ring_reads_the_tail_only_when_it_seems_full)
{
	StenoRings	rings;
	StenoProducer p;

	make(&rings, &p);
	CHECK(put(&p, 1000, 1));
	steno_ring_free(p.ring, 1000);
	CHECK(put(&p, 1000, 1));
	CHECK(p.tail == 0);
	while (put(&p, 1000, 1))
		;
	CHECK(p.tail == 1000);
	steno_rings_close(&rings);
}

TEST(ring_of_a_producer_goes_on_where_the_last_one_stopped)
{
	StenoRings	rings;
	StenoProducer p;
	StenoProducer q;

	make(&rings, &p);
	CHECK(put(&p, 1000, 1) && put(&p, 600, 2));
	steno_ring_free(p.ring, 1000);
	steno_producer_init(&q, &rings, 1);
	CHECK(q.head == 1600 && q.tail == 1000);
	CHECK(steno_ring_published(steno_ring_at(&rings, 0)) == 0);
	steno_rings_close(&rings);
}
