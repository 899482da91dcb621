/*
 * core/test/ring/inflight_detects_torn_copies.c
 *		A live reader of the in-flight entry never takes a mix of two statements
 *		for one.
 */
#include <pthread.h>
#include <time.h>

#include "ring/message.h"
#include "test/test.h"

static StenoInFlight entry;
static _Atomic bool stop;

/* Statement n is n everywhere: length, time, and every byte of the text. */
static void *
produce(void *unused)
{
	char		text[400];
	uint64_t	n = 0;
	uint32_t	version = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed))
	{
		n++;
		memset(text, (int) (n & 0x7f), sizeof(text));
		version = steno_inflight_begin(&entry, version, n, (int64_t) n * 3, text, (uint32_t) (n % sizeof(text)));
	}
	return unused;
}

static void
check(const StenoInFlight *copy)
{
	uint32_t	i;

	CHECK(copy->time == (int64_t) copy->statement * 3);
	CHECK(copy->text_len == copy->statement % 400);
	CHECK(copy->text_kept == (copy->text_len < STENO_INFLIGHT_TEXT ? copy->text_len : STENO_INFLIGHT_TEXT));
	for (i = 0; i < copy->text_kept; i++)
		CHECK(copy->text[i] == (char) (copy->statement & 0x7f));
}

THREADED_TEST(inflight_torn_copies_are_detected)
{
	uint64_t	wanted = test_parameter("INFLIGHT_READS", 1000000);
	uint64_t	good = 0;
	uint64_t	torn = 0;
	time_t		end = time(NULL) + 20;
	StenoInFlight copy = {0};
	pthread_t	thread;

	CHECK(pthread_create(&thread, NULL, produce, NULL) == 0);
	while ((good < wanted || torn == 0) && time(NULL) < end)
	{
		if (steno_inflight_read(&entry, &copy))
		{
			check(&copy);
			good++;
		}
		else
			torn++;
	}
	atomic_store(&stop, true);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(good > 0);			/* torn copies come only if both threads run at the same time */
}

TEST(inflight_of_a_producer_that_died_halfway_is_not_read)
{
	StenoInFlight copy;

	steno_inflight_begin(&entry, entry.version, 1, 3, "SELECT 1", 8);
	CHECK(steno_inflight_read(&entry, &copy));
	CHECK(copy.active == 1 && copy.done == 0 && memcmp(copy.text, "SELECT 1", 8) == 0);
	atomic_fetch_add(&entry.version, 1);
	CHECK(!steno_inflight_read(&entry, &copy));
	/* the next producer of the entry puts it right */
	CHECK(steno_inflight_begin(&entry, entry.version, 2, 3, "SELECT 2", 8) % 2 == 0);
	CHECK(steno_inflight_read(&entry, &copy) && copy.statement == 2);
}

TEST(inflight_points_to_a_staged_record)
{
	uint8_t		data[1024] = {0};
	StenoRecordMessage *r = (StenoRecordMessage *) (data + 512);
	StenoInFlight f = {0};

	r->m.len = sizeof(*r);
	r->m.kind = STENO_KIND_STATEMENT;
	r->statement = 7;
	r->time = 3;
	r->text_len = STENO_NONE32;
	steno_inflight_stage(&f, 0, 7, 3, 3 * sizeof(data) + 512);
	CHECK(f.active && steno_inflight_record(&f, data, sizeof(data)) == &r->m);
	/* it must be that statement's, whole, and inside the ring */
	r->statement = 8;
	CHECK(steno_inflight_record(&f, data, sizeof(data)) == NULL);
	r->statement = 7;
	r->m.len = 520;
	CHECK(steno_inflight_record(&f, data, sizeof(data)) == NULL);
	r->m.len = sizeof(*r) - 8;
	CHECK(steno_inflight_record(&f, data, sizeof(data)) == NULL);
	r->m.len = sizeof(*r);
	steno_inflight_stage(&f, f.version, 7, 3, 516);
	CHECK(steno_inflight_record(&f, data, sizeof(data)) == NULL);
	/* given up: the text stands in the entry */
	steno_inflight_stage(&f, f.version, 7, 3, 512);
	CHECK(steno_inflight_record(&f, data, sizeof(data)) == &r->m);
	steno_inflight_begin(&f, f.version, 7, 3, "SELECT 7", 8);
	CHECK(steno_inflight_record(&f, data, sizeof(data)) == NULL && f.text_kept == 8);
}

TEST(inflight_tells_when_the_statement_is_recorded)
{
	StenoInFlight copy;

	steno_inflight_begin(&entry, entry.version, 1, 3, "SELECT 1", 8);
	steno_inflight_done(&entry, 4711);
	CHECK(steno_inflight_read(&entry, &copy) && copy.done == 4711 && copy.active == 1);
	steno_inflight_end(&entry);
	CHECK(steno_inflight_read(&entry, &copy) && copy.active == 0);
	steno_inflight_begin(&entry, entry.version, 2, 6, "", 0);
	CHECK(steno_inflight_read(&entry, &copy) && copy.done == 0 && copy.statement == 2);
}
