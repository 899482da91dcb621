/*
 * lab/micro/bench.c
 *		The cost of a record: the producer in the backend, the builder in the writer,
 *		and a finished block.
 *
 * Every figure is measured several times, and shown with its spread.  It is processor
 * time, except for the one with two threads: on a busy machine, its minimum is the cost of
 * the code, while its maximum depends on other processes.  The text is that of repeated
 * statements: one of a few, with one parameter; or always the same but for a constant.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "block/block.h"
#include "filter/redact.h"
#include "trail/seal_record.h"
#include "test/large_texts.h"

#define RUNS 9
#define MESSAGE 200				/* bytes of a record in the ring, header
								 * included */
#define RING_SIZE (128 * 1024)
#define BLOCK_SIZE (1024 * 1024)
#define TEXT 60
#define SHAPE 36
#define VALUES 8

static const char text[TEXT + 1] = "SELECT abalance FROM pgbench_accounts WHERE aid = $1 -- 4711";
static StenoRings rings;
static uint64_t records;
static bool constants;			/* the text ends with another number each time */

static double
read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

/* This thread's processor time: other processes affect it only by the caches. */
static double
now(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return x < y ? -1 : x > y;
}

static void
report(const char *what, const char *unit, double (*run) (void))
{
	double		v[RUNS];
	int			i;

	for (i = 0; i < RUNS; i++)
		v[i] = run();
	qsort(v, RUNS, sizeof(v[0]), compare);
	printf("%-44s %9.1f %9.1f %9.1f  %s\n", what, v[0], v[RUNS / 2], v[RUNS - 1], unit);
	fflush(stdout);
}

/* ---- the producer ---- */

/* Encode in place, like the extension: all fields, then the strings. */
static inline bool
produce_one(StenoProducer *p, uint64_t i)
{
	StenoRecordMessage *r = steno_ring_reserve(p, MESSAGE);
	uint8_t    *s;

	if (r == NULL)
		return false;
	r->m.kind = STENO_KIND_STATEMENT;
	r->m.flags = STENO_MESSAGE_VALUES;
	r->seq = i;
	r->time = (int64_t) i * 90;
	r->duration = 70;
	r->rows = 1;
	r->statement = i;
	r->substatement = 0;
	r->depth = 0;
	r->outcome = STENO_OUTCOME_OK;
	r->extra_count = 0;
	r->xid = 0;
	r->sqlstate[0] = '\0';
	r->shape_len = SHAPE;
	r->text_len = TEXT;
	r->nulls_len = 0;
	r->values_len = VALUES;
	r->message_len = 0;
	r->extra_len = 0;
	s = (uint8_t *) (r + 1);
	memset(s, (int) (i & 3) + 1, SHAPE);
	memcpy(s + SHAPE, text, TEXT);
	if (constants)
	{
		uint32_t	n = (uint32_t) i * 2654435761u % 1000000;
		int			k;

		memset(s, 1, SHAPE);
		for (k = 1; k <= 6; k++, n /= 10)
			s[SHAPE + TEXT - k] = (uint8_t) ('0' + n % 10);
	}
	else
		s[SHAPE] = (uint8_t) (i & 15);
	memcpy(s + SHAPE + TEXT, &i, VALUES);
	steno_ring_publish(p, r);
	return true;
}

_Static_assert(sizeof(StenoRecordMessage) + SHAPE + TEXT + VALUES == MESSAGE,
			   "the record must be as long as the table says");

/* One thread: a quarter of the ring at a time, which the consumer then frees without reading it. */
static double
run_producer(void)
{
	StenoProducer p;
	uint64_t	n = 20000000;
	uint64_t	i = 0;
	double		start = now();

	steno_producer_init(&p, &rings, 0);
	while (i < n)
	{
		uint64_t	end = i + RING_SIZE / MESSAGE / 4;

		for (; i < end; i++)
			if (!produce_one(&p, i))
				abort();
		steno_ring_free(p.ring, p.head);
	}
	return (now() - start) / (double) i;
}

static void *
consume(void *unused)
{
	StenoRing  *ring = steno_ring_at(&rings, 0);
	const uint8_t *data = steno_ring_data(&rings, 0);
	uint64_t	position = atomic_load(&ring->tail);
	uint64_t	left = records;

	while (left > 0)
	{
		uint64_t	head = steno_ring_published(ring);

		if (head == position)
			sched_yield();
		while (position < head)
		{
			const StenoMessage *m = steno_ring_message(data, RING_SIZE, position);

			left -= m->kind != 0;
			position += m->len;
		}
		steno_ring_free(ring, position);
	}
	return unused;
}

/* Two threads: elapsed time, so it includes waiting for a consumer that is not scheduled. */
static double
run_two_threads(void)
{
	StenoProducer p;
	pthread_t	thread;
	uint64_t	i;
	double		start;

	records = 10000000;
	if (pthread_create(&thread, NULL, consume, NULL) != 0)
		abort();
	steno_producer_init(&p, &rings, 0);
	start = read_clock(CLOCK_MONOTONIC);
	for (i = 0; i < records; i++)
		while (!produce_one(&p, i))
			sched_yield();
	start = (read_clock(CLOCK_MONOTONIC) - start) / (double) records;
	pthread_join(thread, NULL);
	return start;
}

static double
run_inflight(void)
{
	StenoInFlight *f = &steno_ring_at(&rings, 0)->inflight;
	uint64_t	n = 10000000;
	uint64_t	i;
	uint32_t	version = 0;
	double		start = now();

	for (i = 0; i < n; i++)
	{
		version = steno_inflight_begin(f, version, i, (int64_t) i, text, TEXT);
		steno_inflight_done(f, i);
		steno_inflight_end(f);
	}
	return (now() - start) / (double) n;
}

/* ---- what a checksum of each message would cost; messages have none (ARCHITECTURE.md) ---- */

#if defined(__x86_64__)
#define NOINLINE __attribute__((noinline))
#define WITH_CRC32 __attribute__((target("sse4.2")))

static uint8_t message_bytes[512];
static size_t checksum_len;
static bool checksum_cold;		/* its code and constants are in no cache, as
								 * after other code has run */

/* A function of its own, as the code would be that is not on the usual path yet. */
static NOINLINE uint64_t
checksum_xxh3(const uint8_t *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

static NOINLINE WITH_CRC32 uint64_t
checksum_crc32c(const uint8_t *bytes, size_t len)
{
	uint64_t	crc = UINT32_MAX;
	size_t		i;

	/* messages are multiples of 8 bytes long */
	for (i = 0; i < len; i += 8)
	{
		uint64_t	word;

		memcpy(&word, bytes + i, 8);
		crc = __builtin_ia32_crc32di(crc, word);
	}
	return crc;
}

/* Time by the time stamp counter, with nothing else in the processor's pipeline. */
static inline uint64_t
ticks(void)
{
	uint64_t	t;

	__builtin_ia32_lfence();
	t = __builtin_ia32_rdtsc();
	__builtin_ia32_lfence();
	return t;
}

static void
flush(const void *p, size_t len)
{
	size_t		i;

	for (i = 0; i < len; i += STENO_CACHE_LINE)
		__builtin_ia32_clflush((const uint8_t *) p + i);
	__builtin_ia32_mfence();
}

/* Median of single calls, without the clock's own cost. */
static double
time_checksum(uint64_t (*checksum) (const uint8_t *, size_t), const void *constants, size_t constants_len)
{
	enum
	{
		CALLS = 2001
	};
	static double v[CALLS];
	static volatile uint64_t sink __attribute__((unused));
	double		empty;
	double		start = read_clock(CLOCK_MONOTONIC);
	uint64_t	start_ticks = ticks();
	double		ns;
	int			pass;
	int			i;

	while (read_clock(CLOCK_MONOTONIC) < start + 1e7)
		;
	ns = (read_clock(CLOCK_MONOTONIC) - start) / (double) (ticks() - start_ticks);
	for (pass = 0, empty = 0;; pass++)
	{
		for (i = 0; i < CALLS; i++)
		{
			uint64_t	t;

			message_bytes[i & 63]++;
			if (checksum_cold)
			{
				flush((const void *) checksum, 1024);
				flush(constants, constants_len);
			}
			t = ticks();
			if (pass == 1)
				sink = checksum(message_bytes, checksum_len);
			v[i] = (double) (ticks() - t) * ns;
		}
		qsort(v, CALLS, sizeof(v[0]), compare);
		if (pass == 1)
			return v[CALLS / 2] - empty;
		empty = v[CALLS / 2];
	}
}

static double
run_xxh3(void)
{
	return time_checksum(checksum_xxh3, XXH3_kSecret, sizeof(XXH3_kSecret));
}

static double
run_crc32c(void)
{
	return time_checksum(checksum_crc32c, message_bytes, 0);
}

static void
report_checksums(void)
{
	static const size_t lengths[] = {72, 200, 296};
	size_t		i;
	char		what[64];

	if (!__builtin_cpu_supports("sse4.2"))
		return;
	for (i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++)
	{
		checksum_cold = i % 2 == 1;
		checksum_len = lengths[i / 2];
		snprintf(what, sizeof(what), "checksum: XXH3 of %zu bytes%s", checksum_len, checksum_cold ? ", cold code" : "");
		report(what, "ns/record", run_xxh3);
		snprintf(what, sizeof(what), "checksum: CRC-32C of %zu bytes%s", checksum_len, checksum_cold ? ", cold code" : "");
		report(what, "ns/record", run_crc32c);
	}
}
#else
static void
report_checksums(void)
{
}
#endif

/* ---- secrets ---- */

static const char plain_query[] =
"UPDATE pgbench_accounts SET abalance = abalance + 4711 WHERE aid = 1234567 /* no literal in it, 100 */ ";
static const char literal_query[] =
"SELECT abalance, filler FROM pgbench_accounts WHERE aid = 1234567 AND filler <> 'some text' LIMIT 100000";
static const char secret_query[] =
"CREATE ROLE somebody LOGIN PASSWORD 'some secret or other' VALID UNTIL '2030-01-01' CONNECTION LIMIT 4711";

_Static_assert(sizeof(plain_query) > 100 && sizeof(plain_query) < 110 &&
			   sizeof(literal_query) > 100 && sizeof(literal_query) < 110 &&
			   sizeof(secret_query) > 100 && sizeof(secret_query) < 110, "as long as the table says");

/* Cost for a query before it starts. */
static double
run_check(const char *query, size_t len)
{
	uint64_t	n = 20000000;
	uint64_t	found = 0;
	uint64_t	i;
	double		start = now();

	for (i = 0; i < n; i++)
	{
		/* the compiler must not reuse the last result */
		__asm__ volatile ("":"+r" (query)::"memory");

		found += steno_redact_any_literal(query, len) && steno_redact_suspect(query, len);
	}
	if (found != 0)
		abort();
	return (now() - start) / (double) n;
}

static double
run_check_plain(void)
{
	return run_check(plain_query, sizeof(plain_query) - 1);
}

static double
run_check_literal(void)
{
	return run_check(literal_query, sizeof(literal_query) - 1);
}

/* Cost for a statement with a secret, for each of its two texts. */
static double
run_hide(void)
{
	char		out[200];
	uint64_t	n = 200000;
	uint64_t	i;
	StenoCuts	cuts;
	double		start = now();

	for (i = 0; i < n; i++)
	{
		steno_redact_measure(secret_query, sizeof(secret_query) - 1, true, &cuts);
		if (cuts.len > sizeof(out) || cuts.secrets != 1)
			abort();
		steno_redact_write(secret_query, sizeof(secret_query) - 1, true, &cuts, out, sizeof(out));
	}
	return (now() - start) / (double) n;
}

/* Cost for a statement with a large text: whether it may contain secrets, and where they are. */
static double
time_large(const char *large, size_t len)
{
	size_t		n = 4 * 1000 * 1000 / len + 1;
	size_t		i;
	StenoCuts	cuts;
	double		start = now();

	for (i = 0; i < n; i++)
		if (steno_redact_any_literal(large, len) && steno_redact_suspect(large, len))
			steno_redact_measure(large, len, true, &cuts);
	return (now() - start) / (double) n / (double) len;
}

static void
report_large(void)
{
	static const size_t lengths[] = {1000, 20 * 1000, 200 * 1000, 10 * 1000 * 1000};
	size_t		i;
	size_t		k;

	printf("\n%-44s %9s %9s %9s %9s\n", "secrets in large texts: best of 3", "1 kB", "20 kB", "200 kB", "10 MB");
	for (i = 0; i < LARGE_TEXTS; i++)
	{
		printf("%-44s", large_texts[i].what);
		for (k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++)
		{
			char	   *large = make_large(&large_texts[i], lengths[k]);
			double		best = time_large(large, lengths[k]);
			int			run;

			for (run = 1; run < 3; run++)
			{
				double		time = time_large(large, lengths[k]);

				best = time < best ? time : best;
			}
			printf(" %9.3f", best);
			free(large);
		}
		printf("  ns/byte\n");
		fflush(stdout);
	}
	printf("\n");
}

/* ---- the writer ---- */

static StenoSource source;
static StenoCrypt *crypt_of_blocks; /* NULL: not encrypted */
static double finish_time;
static uint64_t finished;
static uint64_t stored;
static uint64_t added;

static void
announce(StenoBlock *block)
{
	uint64_t	buffer[16] = {0};
	StenoSessionMessage *s = (StenoSessionMessage *) buffer;

	memset(&source, 0, sizeof(source));
	s->m.len = sizeof(*s) + 64;
	s->m.kind = STENO_KIND_DEF_SESSION;
	s->body_len = 64;
	steno_block_add(block, &source, &s->m);
}

static void
finish(StenoBlock *block, int codec)
{
	static uint8_t chain[STENO_HASH_SIZE];
	double		start = now();
	size_t		len;

	if (steno_block_finish(block, codec, 1, 1, 0, chain, &len) == NULL)
		abort();
	steno_block_reset(block);
	finish_time += now() - start;
	finished++;
	stored += len;
}

static double
run_writer(int codec)
{
	StenoBlock *block = steno_block_create(BLOCK_SIZE);
	StenoProducer p;
	uint64_t	position;
	uint64_t	i = 0;
	double		spent = 0;

	announce(block);
	steno_block_set_crypt(block, crypt_of_blocks);
	finish_time = 0;
	finished = stored = added = 0;
	steno_producer_init(&p, &rings, 0);
	position = p.head;
	while (i < 3000000)
	{
		uint64_t	end = i + RING_SIZE / MESSAGE / 4;
		double		start;
		double		before = finish_time;

		for (; i < end; i++)
			produce_one(&p, i);
		start = now();
		while (position < p.head)
		{
			const StenoMessage *m = steno_ring_message(p.data, p.size, position);

			if (!steno_block_add(block, &source, m))
				finish(block, codec);
			else
				position += m->len;
		}
		spent += now() - start - (finish_time - before);
		steno_ring_free(p.ring, position);
	}
	added = i;
	steno_block_destroy(block);
	return spent / (double) i;
}

static double
run_add(void)
{
	return run_writer(STENO_CODEC_NONE);
}

/*
 * ---- brief records ----
 *
 * Those of sessions that execute prepared statements: of pgbench -S, and of the transactions of
 * pgbench's other workload, with BEGIN, END and the commit's own record.
 */
#define BRIEF_SESSIONS 16
#define BRIEF_BATCH (64 * 1024) /* bytes that each session leaves between two passes of the writer */

static StenoSource brief_sources[BRIEF_SESSIONS];
static StenoTemplate brief_templates[STENO_TEMPLATES];
static uint8_t brief_batch[BRIEF_SESSIONS][BRIEF_BATCH + 1024];
static uint32_t brief_end[BRIEF_SESSIONS];
static uint32_t brief_records[BRIEF_SESSIONS];

static uint8_t *
put_brief(uint8_t *to, uint8_t template, const char *control, uint32_t values_len, uint64_t xid)
{
	static int64_t time;
	StenoBriefMessage *b = (StenoBriefMessage *) to;
	uint32_t	i;

	memset(b, 0, STENO_BRIEF_FIXED);
	if (control)
		values_len = (uint32_t) strlen(control);
	time += 70 + (int64_t) ((uint64_t) random() % 60);
	steno_brief_encode(b, control ? 0 : STENO_MESSAGE_VALUES, time, template, (uint8_t) values_len);
	b->duration = 20 + (uint32_t) random() % 100;
	b->rows = control ? STENO_NONE32 : 1;
	b->version = 1;
	if (control)
		memcpy(b->values, control, values_len);
	else
		for (i = 0; i < values_len; i += 4)
		{
			uint32_t	v = (uint32_t) random() % 1000000;

			memcpy(b->values + i, &v, 4);
		}
	b->m.len = steno_brief_len(values_len);
	if (xid != 0)
	{
		memcpy(to + b->m.len, &xid, sizeof(xid));
		b->m.flags |= STENO_MESSAGE_XID;
		b->m.len += sizeof(xid);
	}
	return to + b->m.len;
}

static uint8_t *
put_brief_transaction(uint8_t *p)
{
	static uint64_t xid = 1000;
	static uint64_t lsn = 100000;
	StenoCommitMessage *c;
	uint8_t		i;

	xid++;
	p = put_brief(p, STENO_BRIEF_BEGIN, "BEGIN;", 0, 0);
	p = put_brief(p, 0, NULL, 8, xid);
	p = put_brief(p, 1, NULL, 4, xid);
	for (i = 2; i < 4; i++)
		p = put_brief(p, i, NULL, 8, xid);
	p = put_brief(p, 4, NULL, 16, xid);
	p = put_brief(p, STENO_BRIEF_COMMIT, "END;", 0, xid);
	c = (StenoCommitMessage *) p;
	memset(c, 0, sizeof(*c));
	c->m.len = sizeof(*c);
	c->m.kind = STENO_KIND_TRANSACTION;
	c->m.flags = STENO_MESSAGE_BRIEF;
	c->time = ((StenoBriefMessage *) (p - 40))->time;
	c->xid = xid;
	c->lsn = lsn += (uint64_t) random() % 2000;
	c->lsn_len = 48;
	c->timeline = 1;
	c->duration = 900 + (uint32_t) random() % 1000;
	c->statements = 7;
	return p + c->m.len;
}

/* Time for a record without that for finished blocks, which is in finish_time. */
static double
run_briefs(bool transactions)
{
	StenoBlock *block = steno_block_create(BLOCK_SIZE);
	double		spent = 0;
	int			pass;
	int			i;

	finish_time = 0;
	finished = 0;
	stored = 0;
	added = 0;
	for (i = 0; i < STENO_TEMPLATES; i++)
	{
		StenoTemplate *t = &brief_templates[i];

		t->version = 1;
		t->shape_len = SHAPE;
		memset(t->bytes, 0, SHAPE);
		t->bytes[1] = (uint8_t) i;
		t->text_len = TEXT;
		memcpy(t->bytes + SHAPE, text, TEXT);
	}
	for (i = 0; i < BRIEF_SESSIONS; i++)
	{
		uint8_t    *p = brief_batch[i];

		memset(&brief_sources[i], 0, sizeof(brief_sources[i]));
		brief_sources[i].templates = brief_templates;
		brief_sources[i].body_len = 100;
		brief_sources[i].body[STENO_SESSION_PID] = (uint8_t) i;
		for (brief_records[i] = 0; p < brief_batch[i] + BRIEF_BATCH; brief_records[i] += transactions ? 8 : 1)
			p = transactions ? put_brief_transaction(p) : put_brief(p, 0, NULL, 4, 0);
		brief_end[i] = (uint32_t) (p - brief_batch[i]);
	}
	for (pass = 0; pass < 40; pass++)
		for (i = 0; i < BRIEF_SESSIONS; i++)
		{
			double		start = now();
			double		before = finish_time;
			uint32_t	at = 0;

			while (at < brief_end[i])
			{
				const StenoMessage *m;

				at = (uint32_t) steno_block_add_brief(block, &brief_sources[i], brief_batch[i], 1u << 31, at,
													  brief_end[i]);
				if (at == brief_end[i])
					break;
				m = (const StenoMessage *) (brief_batch[i] + at);
				if (!steno_block_add(block, &brief_sources[i], m))
					finish(block, STENO_CODEC_LZ4);
				else
					at += m->len;
			}
			spent += now() - start - (finish_time - before);
			added += brief_records[i];
		}
	steno_block_destroy(block);
	return spent / (double) added;
}

static double
run_add_prepared(void)
{
	return run_briefs(false);
}

static double
run_add_transactions(void)
{
	return run_briefs(true);
}

static double
run_all_prepared(void)
{
	double		add = run_briefs(false);

	return add + finish_time / (double) added;
}

static double
run_all_transactions(void)
{
	double		add = run_briefs(true);

	return add + finish_time / (double) added;
}

static double
run_bytes_transactions(void)
{
	run_briefs(true);
	return (double) stored / (double) added;
}

static void
report_briefs(void)
{
	report("builder: add, prepared", "ns/record", run_add_prepared);
	report("builder: add and LZ4, prepared", "ns/record", run_all_prepared);
	report("builder: add, transactions", "ns/record", run_add_transactions);
	report("builder: add and LZ4, transactions", "ns/record", run_all_transactions);
}

static double
with_constants(double (*run) (void))
{
	double		result;

	constants = true;
	result = run();
	constants = false;
	return result;
}

static double
run_add_constants(void)
{
	return with_constants(run_add);
}

static double
run_finish_none(void)
{
	run_writer(STENO_CODEC_NONE);
	return finish_time / (double) finished / 1000;
}

static double
run_finish_lz4(void)
{
	run_writer(STENO_CODEC_LZ4);
	return finish_time / (double) finished / 1000;
}

/* The same, encrypted. */
static double
run_encrypted(double (*run) (void))
{
	static const uint8_t key[STENO_KEY_SIZE];
	uint8_t		header[STENO_SEGMENT_HEADER_ENCRYPTED] = {0};
	double		result;

	crypt_of_blocks = steno_crypt_create();
	if (crypt_of_blocks == NULL || !steno_crypt_set_key(crypt_of_blocks, key) ||
		!steno_crypt_begin(crypt_of_blocks, header))
		abort();
	steno_crypt_begun(crypt_of_blocks);
	result = run();
	steno_crypt_destroy(crypt_of_blocks);
	crypt_of_blocks = NULL;
	return result;
}

static double
run_finish_none_encrypted(void)
{
	return run_encrypted(run_finish_none);
}

static double
run_finish_lz4_encrypted(void)
{
	return run_encrypted(run_finish_lz4);
}

/* Done by each writer every steno.seal_interval. */
static double
run_seal(void)
{
	static const uint8_t private_key[32] = {1};
	EVP_PKEY   *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key, sizeof(private_key));
	uint64_t	buffer[STENO_SEAL_ROOM / 8];
	StenoSeal	seal = {.system_identifier = 1,.interval = 60,.reason = "interval"};
	uint64_t	n = 5000;
	uint64_t	i;
	double		start = now();

	for (i = 0; i < n; i++)
	{
		seal.block = i;
		if (steno_seal_message((uint8_t *) buffer, &seal, key, i) == NULL)
			abort();
	}
	start = (now() - start) / (double) n / 1000;
	EVP_PKEY_free(key);
	return start;
}

static double
run_bytes_none(void)
{
	run_writer(STENO_CODEC_NONE);
	return (double) stored / (double) added;
}

static double
run_bytes_lz4(void)
{
	run_writer(STENO_CODEC_LZ4);
	return (double) stored / (double) added;
}

static double
run_all_lz4_constants(void)
{
	double		add;

	constants = true;
	add = run_writer(STENO_CODEC_LZ4);
	constants = false;
	return add + finish_time / (double) added;
}

static double
run_bytes_lz4_constants(void)
{
	return with_constants(run_bytes_lz4);
}

int
main(int argc, char **argv)
{
	const char *path = "/dev/shm/steno-bench-rings";
	const char *what;

	unlink(path);
	if (!steno_rings_create(&rings, AT_FDCWD, path, 1, RING_SIZE, 0, 1, 1, 1, &what))
	{
		perror(what);
		return 1;
	}
	unlink(path);
	if (argc > 1 && strcmp(argv[1], "checksum") == 0)
	{
		report_checksums();
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "large") == 0)
	{
		report_large();
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "brief") == 0)
	{
		report_briefs();
		return 0;
	}
	printf("%d runs each; record of %d bytes, ring of %d kB, blocks of %d kB\n\n",
		   RUNS, MESSAGE, RING_SIZE / 1024, BLOCK_SIZE / 1024);
	printf("%-44s %9s %9s %9s\n", "", "min", "median", "max");
	report("producer: encode in place and publish", "ns/record", run_producer);
	report("producer: consumer in a thread, elapsed", "ns/record", run_two_threads);
	report("producer: in-flight entry, begin to end", "ns/record", run_inflight);
	report_checksums();
	report("secrets: 100 bytes without a literal", "ns/statement", run_check_plain);
	report("secrets: 100 bytes with one", "ns/statement", run_check_literal);
	report("secrets: hide one in 100 bytes", "ns/statement", run_hide);
	report_large();
	report("builder: add", "ns/record", run_add);
	report("builder: add, constants differ", "ns/record", run_add_constants);
	report("builder: add and LZ4, constants differ", "ns/record", run_all_lz4_constants);
	report_briefs();
	report("builder: finish, not compressed", "us/block", run_finish_none);
	report("builder: finish, LZ4", "us/block", run_finish_lz4);
	report("builder: finish, not compressed, encrypted", "us/block", run_finish_none_encrypted);
	report("builder: finish, LZ4, encrypted", "us/block", run_finish_lz4_encrypted);
	report("seal: sign, and encode its record", "us/seal", run_seal);
	report("trail, not compressed", "bytes/record", run_bytes_none);
	report("trail, LZ4", "bytes/record", run_bytes_lz4);
	report("trail, LZ4, constants differ", "bytes/record", run_bytes_lz4_constants);
	report("trail, LZ4, transactions", "bytes/record", run_bytes_transactions);
	return 0;
}
