/*
 * core/test/trail/block_round_trip.c
 *		What goes into a block comes out of it: every field, for several
 *		sessions at once, up to full blocks, with both codecs; and what repeats
 *		is stored once.
 */
#include <openssl/sha.h>

#include "test/model.h"
#include "test/test.h"

#define NSOURCES 4
#define ROOM 8192
#define MAX_KEPT 20000

/* A copy of what was added, and the session it was added for. */
typedef struct Kept
{
	StenoMessage *m;
	uint8_t    *body;
	uint32_t	body_len;
} Kept;

static Kept kept[MAX_KEPT];
static int	nkept;

static void
keep(const StenoMessage *m, const uint8_t *body, uint32_t body_len)
{
	Kept	   *k = &kept[nkept++];

	CHECK(nkept <= MAX_KEPT);
	k->m = malloc(m->len);
	memcpy(k->m, m, m->len);
	k->body = malloc(body_len);
	memcpy(k->body, body, body_len);
	k->body_len = body_len;
}

static void
forget(void)
{
	while (nkept > 0)
	{
		nkept--;
		free(kept[nkept].m);
		free(kept[nkept].body);
	}
}

/* The header's times, from the messages. */
static void
check_header(const StenoBlockHeader *h, uint64_t number)
{
	int64_t		first = INT64_MAX;
	int64_t		first_end = INT64_MAX;
	int64_t		last_end = INT64_MIN;
	uint32_t	records = 0;
	int			i;

	for (i = 0; i < nkept; i++)
	{
		const StenoRecordMessage *r = (const StenoRecordMessage *) kept[i].m;
		uint64_t	elapsed = steno_message_times(kept[i].m).elapsed;
		int64_t		end;

		if (r->m.kind == STENO_KIND_DATA)
			continue;
		records++;
		end = r->time;
		if (elapsed == STENO_NONE64)
			elapsed = r->duration;
		if (r->m.kind == STENO_KIND_STATEMENT && elapsed != STENO_NONE64 &&
			__builtin_add_overflow(r->time, (int64_t) elapsed, &end))
			end = INT64_MAX;
		first = r->time < first ? r->time : first;
		first_end = end < first_end ? end : first_end;
		last_end = end > last_end ? end : last_end;
	}
	CHECK(h->records == records);
	CHECK(h->block == number);
	CHECK(h->first_record == number * 10);
	CHECK(records == 0 || h->first_time == first);
	CHECK(records == 0 || h->first_end == first_end);
	CHECK(records == 0 || h->last_end == last_end);
}

/* Finish, decode, and compare with what was kept. */
static StenoBlockHeader
finish_and_compare(StenoBlock *block, int codec, uint64_t number, StenoDecoder *decoder)
{
	static uint8_t chain[STENO_HASH_SIZE];
	uint8_t		copy[STENO_HASH_SIZE + STENO_BLOCK_CHAINED];
	StenoBlockHeader h;
	StenoBytes	payload;
	StenoTrailRecord r;
	uint8_t    *buffer;
	size_t		len;
	const uint8_t *bytes;
	int			i;

	memcpy(copy, chain, STENO_HASH_SIZE);
	bytes = steno_block_finish(block, codec, number, number * 10, 77, chain, &len);
	CHECK(bytes != NULL);
	CHECK(steno_block_open(bytes, len, &h, &payload, &buffer));
	CHECK(memcmp(h.chain, chain, STENO_HASH_SIZE) == 0);
	CHECK(h.codec == STENO_CODEC_NONE ? h.stored == h.raw : h.codec == codec && h.stored < h.raw);
	check_header(&h, number);
	steno_decoder_begin(decoder, payload.p, payload.len, h.first_time);
	for (i = 0; i < nkept; i++)
	{
		CHECK(steno_decoder_next(decoder, &r) == STENO_DECODED_RECORD);
		CHECK(model_matches(kept[i].m, kept[i].body, kept[i].body_len, &r));
	}
	CHECK(steno_decoder_next(decoder, &r) == STENO_DECODED_END);
	free(buffer);
	forget();
	return h;
}

static uint32_t
random_session(uint8_t *body, uint64_t *random, int source)
{
	static const char *const names[] = {"alice", "bob", "", "a role with a long name and \"quotes\""};
	const uint8_t keys[] = {STENO_SESSION_USER, STENO_SESSION_ROLE};
	const char *values[2];

	values[0] = names[source];
	values[1] = names[test_below(random, 4)];
	return model_body(body, 1000 + source, (uint32_t) source, 2, keys, values);
}

/* Adds to the block, or finishes it and begins the next. */
static void
add(StenoBlock *block, StenoSource *source, const StenoMessage *m, uint64_t *number)
{
	StenoDecoder d;
	uint64_t	seq = source->seq;
	uint64_t	statement = source->statement;

	if (!steno_block_add(block, source, m))
	{
		uint32_t	used = steno_block_bytes(block);

		CHECK(!steno_block_add(block, source, m));
		CHECK(steno_block_bytes(block) == used);
		finish_and_compare(block, (int) (*number & 1), *number, &d);
		steno_decoder_end(&d);
		++*number;
		steno_block_reset(block);
		CHECK(steno_block_bytes(block) == 0 && steno_block_records(block) == 0);
		CHECK(steno_block_add(block, source, m));
	}
	if (m->kind != STENO_KIND_DEF_SESSION)
	{
		StenoWhole	room;
		const StenoRecordMessage *whole = steno_message_whole(m, source->templates, seq + 1, statement + 1, &room);

		if (m->kind != STENO_KIND_DATA)
		{
			steno_message_advance(m, &seq, &statement);
			CHECK(source->seq == seq && source->statement == statement);
		}
		keep(&whole->m, source->body, source->body_len);
	}
}

/* Now and then another template, which the next brief record refers to. */
static void
change_template(StenoTemplate *t, uint64_t *random)
{
	static const uint8_t shape[] = "\x01\x00\x06SELECT\x00\x01\x17\x03";
	uint32_t	room = STENO_TEMPLATE_ROOM - (sizeof(shape) - 1);
	uint32_t	i;

	if (t->version != 0 && test_below(random, 20) != 0)
		return;
	t->version++;
	t->shape_len = sizeof(shape) - 1;
	memcpy(t->bytes, shape, t->shape_len);
	t->bytes[1] = (uint8_t) test_below(random, 128);	/* the query id */
	t->text_len = (uint16_t) test_below(random, room + 1);
	for (i = 0; i < t->text_len; i++)
		t->bytes[t->shape_len + i] = (uint8_t) ('a' + test_below(random, 26));
	t->own_at = test_below(random, 2) ? (uint16_t) (1 + test_below(random, t->text_len + 1u)) : 0;
}

/* The values of a brief record: a part of its text, if that varies, and an integer. */
static void
brief_values(StenoBriefMessage *b, const StenoTemplate *t, uint64_t *random)
{
	uint32_t	own = (uint32_t) (test_below(random, 10) ? test_below(random, 8) : test_below(random, UINT8_MAX - 4));
	uint8_t    *p = b->values;
	uint32_t	i;

	if (steno_template_varies(t))
	{
		*p++ = (uint8_t) own;
		for (i = 0; i < own; i++)
			*p++ = (uint8_t) ('0' + test_below(random, 10));
	}
	memcpy(p, &b->time, 4);
	b->values_len = (uint8_t) (p + 4 - b->values);
	b->m.len = steno_brief_len(b->values_len);
}

/* BEGIN or COMMIT, in one of a few ways. */
static void
control_record(StenoBriefMessage *b, uint64_t *random)
{
	static const char *const texts[] = {"BEGIN", "begin;", "COMMIT", "END", ""};
	const char *text = texts[test_below(random, 5)];
	uint64_t	xid = test_random(random);

	steno_brief_encode(b, 0, b->time, (uint8_t) (STENO_BRIEF_BEGIN + test_below(random, 2)), (uint8_t) strlen(text));
	memcpy(b->values, text, b->values_len);
	b->m.len = steno_brief_len(b->values_len);
	if (test_below(random, 2))
		return;
	model_append_brief(b, STENO_MESSAGE_XID, &xid, sizeof(xid));
}

static void
add_numbers(StenoBriefMessage *b, uint64_t *random, uint64_t statement)
{
	StenoBriefNumbers numbers = {.statement = statement};

	numbers.duration = test_below(random, 4) ? test_below(random, UINT64_C(1) << 50) : STENO_NONE64;
	numbers.rows = test_below(random, 4) ? test_random(random) : STENO_NONE64;
	model_append_brief(b, STENO_MESSAGE_NUMBERS, &numbers, sizeof(numbers));
}

/* Times come last, after whatever else is appended. */
static void
add_times(StenoBriefMessage *b, uint64_t *random)
{
	StenoTimes	times = {.plan = test_below(random, UINT64_C(1) << 40), .elapsed = STENO_NONE64};

	if (test_below(random, 2))
		times.elapsed = test_below(random, UINT64_C(1) << 50);
	model_append_brief(b, STENO_MESSAGE_TIMES, &times, sizeof(times));
}

static void
brief_record(void *to, StenoTemplate *templates, uint64_t *random, uint64_t statement)
{
	StenoBriefMessage *b = to;
	int64_t		time = (int64_t) test_below(random, UINT64_C(1) << 50);

	memset(b, 0, STENO_BRIEF_FIXED);
	b->duration = test_below(random, 4) ? (uint32_t) test_below(random, 1000000) : STENO_NONE32;
	b->rows = test_below(random, 4) ? (uint32_t) test_below(random, 1000) : STENO_NONE32;
	steno_brief_encode(b, STENO_MESSAGE_VALUES, time, (uint8_t) test_below(random, STENO_TEMPLATES), 0);
	if (test_below(random, 5) == 0)
	{
		control_record(b, random);
		return;
	}
	change_template(&templates[b->template], random);
	/* sometimes of one that is not there */
	b->version = (uint16_t) (templates[b->template].version + (test_below(random, 30) == 0));
	brief_values(b, &templates[b->template], random);
	if (test_below(random, 2))
	{
		uint64_t	xid = test_below(random, 2) ? test_random(random) : test_below(random, 1000);

		model_append_brief(b, STENO_MESSAGE_XID, &xid, sizeof(xid));
	}
	if (test_below(random, 4) == 0)
		add_numbers(b, random, statement);
}

/* Make it that of a function's statement. */
static void
nest(void *to, uint64_t *random)
{
	StenoBriefMessage *b = to;
	StenoBriefNesting nesting = {(uint32_t) test_below(random, 100), (uint16_t) (1 + test_below(random, 3)), 0};

	model_append_brief(b, STENO_MESSAGE_NESTED, &nesting, sizeof(nesting));
}

TEST(block_round_trip_of_random_records)
{
	static StenoSource sources[NSOURCES];
	uint64_t	random = test_seed();
	uint64_t	seq[NSOURCES] = {0};
	uint64_t	statement[NSOURCES] = {1, 1, 1, 1};
	uint64_t	number = 1;
	uint64_t	buffer[ROOM / 8];
	const StenoMessage *m = (StenoMessage *) buffer;
	uint8_t		body[STENO_SESSION_MAX];
	static StenoTemplate templates[NSOURCES][STENO_TEMPLATES];
	StenoBlock *block = steno_block_create(64 * 1024);
	StenoDecoder d;
	uint64_t	i;
	uint64_t	n = test_parameter("BLOCK_RECORDS", 200000);

	for (i = 0; i < NSOURCES; i++)
		sources[i].templates = templates[i];

	for (i = 0; i < n; i++)
	{
		int			s = (int) test_below(&random, NSOURCES);

		if (seq[s] == 0 || test_below(&random, 100) == 0)
		{
			model_encode_session(buffer, body, random_session(body, &random, s),
								 seq[s], statement[s] - 1);
			add(block, &sources[s], (StenoMessage *) buffer, &number);
		}
		if (test_below(&random, 50) == 0)
			seq[s] = test_random(&random);
		if (test_below(&random, 30) == 0)
			model_encode_data(buffer, seq[s] + 1, (uint32_t) test_below(&random, 3), body,
							  (uint32_t) test_below(&random, sizeof(body)));
		else if (test_below(&random, 3) == 0)
		{
			brief_record(buffer, templates[s], &random, statement[s]);
			if (test_below(&random, 4) == 0)
				nest(buffer, &random);
			if (test_below(&random, 10) == 0)
				add_times((StenoBriefMessage *) buffer, &random);
		}
		else
			model_random(buffer, ROOM, &random, ++seq[s], &statement[s]);
		CHECK(steno_message_is_whole(m, ROOM));
		add(block, &sources[s], m, &number);
		if (m->flags & STENO_MESSAGE_BRIEF)
		{
			/* it has had the numbers after those of the last one, whatever comes next */
			seq[s] = sources[s].seq;
			statement[s] = sources[s].statement + 1;
		}
	}
	CHECK(number > 100);
	finish_and_compare(block, STENO_CODEC_LZ4, number, &d);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

static void
announce(StenoBlock *block, StenoSource *source, uint32_t pid, uint64_t seq, uint64_t statement)
{
	uint64_t	buffer[MODEL_SESSION_ROOM / 8];
	uint8_t		body[STENO_SESSION_MAX];

	memset(source, 0, sizeof(*source));
	model_encode_session(buffer, body, model_body(body, 5, pid, 0, NULL, NULL), seq, statement);
	CHECK(steno_block_add(block, source, (StenoMessage *) buffer));
}

static bool
add_text(StenoBlock *block, StenoSource *source, uint64_t seq, const void *text, uint32_t len)
{
	uint64_t	buffer[64];
	StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, seq, (int64_t) seq);
	ModelStrings s = {0};

	r.statement = seq;
	s.text = text;
	s.text_len = len;
	model_encode(buffer, &r, &s);
	if (!steno_block_add(block, source, (StenoMessage *) buffer))
		return false;
	if (nkept < MAX_KEPT)
		keep((StenoMessage *) buffer, source->body, source->body_len);
	return true;
}

/* More unique texts than the dictionary can remember: all must still be right. */
static void
unique_texts(uint32_t capacity, uint32_t n)
{
	StenoBlock *block = steno_block_create(capacity);
	static StenoSource source;
	StenoDecoder d;
	StenoBlockHeader h;
	StenoBytes	payload;
	StenoTrailRecord r;
	uint8_t		chain[STENO_HASH_SIZE] = {0};
	uint8_t    *buffer;
	size_t		len;
	const uint8_t *bytes;
	uint32_t	i;
	uint32_t	seen = 0;

	announce(block, &source, 1, 0, 0);
	for (i = 0; i < n && add_text(block, &source, i + 1, &i, sizeof(i)); i++)
		forget();
	n = i;
	CHECK(n > 30000);
	bytes = steno_block_finish(block, STENO_CODEC_NONE, 1, 1, 0, chain, &len);
	CHECK(steno_block_open(bytes, len, &h, &payload, &buffer));
	steno_decoder_begin(&d, payload.p, payload.len, h.first_time);
	while (steno_decoder_next(&d, &r) == STENO_DECODED_RECORD)
	{
		CHECK(r.text.len == sizeof(seen) && memcmp(r.text.p, &seen, sizeof(seen)) == 0);
		seen++;
	}
	CHECK(seen == n);
	CHECK(d.ntexts == n);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

TEST(block_holds_unique_texts_beyond_its_dictionary)
{
	unique_texts(1024 * 1024, 100000);
	unique_texts(8 * 1024 * 1024, 100000);
}

/* The dictionary grows several times: what was defined before must be found after. */
/*
 * Texts that are made from a few by changing some bytes of them, at their ends, too: each must
 * still be right, and found again.
 */
TEST(block_defines_similar_texts_as_variants)
{
	static const char *const patterns[] = {
		"SELECT a, b, c FROM things WHERE a = 1 AND b = 2",
		"SELECT a, b, c FROM things WHERE a = 1",
		"SELECT a, b, c F",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"INSERT INTO things VALUES ('............................................................................................"
		"..........................................................................................................................')",
	};
	StenoBlock *block = steno_block_create(1024 * 1024);
	static StenoSource source;
	uint64_t	random = test_seed();
	StenoDecoder d;
	char		texts[2000][300];
	uint32_t	lens[2000];
	uint32_t	i;
	uint32_t	j;

	announce(block, &source, 1, 0, 0);
	for (i = 0; i < 2000; i++)
	{
		const char *pattern = patterns[test_below(&random, 5)];
		uint32_t	len = (uint32_t) strlen(pattern);
		uint32_t	from = (uint32_t) test_below(&random, len + 1);
		uint32_t	changed = (uint32_t) test_below(&random, 4);
		uint32_t	kept = len - from - (uint32_t) test_below(&random, len - from + 1);

		memcpy(texts[i], pattern, from);
		for (j = 0; j < changed; j++)
			texts[i][from + j] = (char) ('a' + test_below(&random, 3));
		memcpy(texts[i] + from + changed, pattern + len - kept, kept);
		lens[i] = from + changed + kept;
		CHECK(add_text(block, &source, i + 1, texts[i], lens[i]));
	}
	for (i = 0; i < 2000; i++)
		CHECK(add_text(block, &source, 2001 + i, texts[i], lens[i]));
	finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(d.variants_bytes > 1000);
	/* none is defined twice */
	for (i = 0; i < d.ntexts; i++)
		for (j = 0; j < i; j++)
			CHECK(d.texts[i].len != d.texts[j].len ||
				  memcmp(d.texts[i].p, d.texts[j].p, d.texts[i].len) != 0);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/* What a reader puts together of a few bytes each is bounded, so further texts are not variants. */
TEST(block_defines_no_more_variants_than_a_reader_accepts)
{
	StenoBlock *block = steno_block_create(1024 * 1024);
	static StenoSource source;
	static char text[400];
	StenoDecoder d;
	StenoBlockHeader h;
	StenoBytes	payload;
	StenoTrailRecord r;
	uint8_t		chain[STENO_HASH_SIZE] = {0};
	uint8_t    *buffer;
	const uint8_t *bytes;
	size_t		len;
	uint32_t	n = 0;
	uint32_t	seen = 0;

	memset(text, 'x', sizeof(text));
	announce(block, &source, 1, 0, 0);
	do
	{
		memcpy(text + 200, &n, sizeof(n));
		n++;
		forget();
	} while (add_text(block, &source, n, text, sizeof(text)));
	n--;
	CHECK(n > STENO_VARIANTS_MAX / sizeof(text));
	bytes = steno_block_finish(block, STENO_CODEC_NONE, 1, 1, 0, chain, &len);
	CHECK(steno_block_open(bytes, len, &h, &payload, &buffer));
	steno_decoder_begin(&d, payload.p, payload.len, h.first_time);
	while (steno_decoder_next(&d, &r) == STENO_DECODED_RECORD)
	{
		memcpy(text + 200, &seen, sizeof(seen));
		CHECK(r.text.len == sizeof(text) && memcmp(r.text.p, text, sizeof(text)) == 0);
		seen++;
	}
	CHECK(seen == n && d.variants_bytes <= STENO_VARIANTS_MAX);
	CHECK(d.variants_bytes > STENO_VARIANTS_MAX - sizeof(text));
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/*
 * Sessions that execute prepared statements again and again: their records are in runs, and
 * take few bytes.
 */
TEST(block_puts_records_of_prepared_statements_into_runs)
{
	static StenoSource sources[NSOURCES];
	static StenoTemplate templates[STENO_TEMPLATES];
	StenoBlock *block = steno_block_create(1024 * 1024);
	uint64_t	random = test_seed();
	uint64_t	buffer[ROOM / 8];
	StenoBriefMessage *b = (StenoBriefMessage *) buffer;
	int64_t		time = 1000;
	StenoDecoder d;
	uint32_t	s;
	uint32_t	i;

	forget();
	for (i = 0; i < STENO_TEMPLATES; i++)
		do
			change_template(&templates[i], &random);
		while (templates[i].text_len == 0 || steno_template_varies(&templates[i]));
	for (s = 0; s < NSOURCES; s++)
	{
		announce(block, &sources[s], s + 1, 0, 0);
		sources[s].templates = templates;
	}
	for (i = 0; i < 20000; i++)
	{
		s = i / 2500 % NSOURCES;
		memset(b, 0, STENO_BRIEF_FIXED);
		time += 1 + (int64_t) test_below(&random, 60);
		b->duration = (uint32_t) test_below(&random, 100);
		steno_brief_encode(b, STENO_MESSAGE_VALUES, time, (uint8_t) test_below(&random, STENO_TEMPLATES), 4);
		b->rows = b->template < STENO_TEMPLATES / 2 ? 1 : (uint32_t) test_below(&random, 100);
		b->version = templates[b->template].version;
		memcpy(b->values, &random, 4);
		b->m.len = steno_brief_len(4);
		CHECK(steno_block_add(block, &sources[s], &b->m));
	}
	/* number of the form, time, duration, rows of some, four bytes of values */
	CHECK(steno_block_bytes(block) < 20000 * 8 + STENO_TEMPLATES * STENO_TEMPLATE_ROOM);
	CHECK(steno_block_records(block) == 20000);
	forget();
	{
		StenoBlockHeader h;
		StenoBytes	payload;
		StenoTrailRecord r;
		uint8_t		chain[STENO_HASH_SIZE] = {0};
		uint8_t    *unpacked;
		size_t		len;
		const uint8_t *bytes = steno_block_finish(block, STENO_CODEC_LZ4, 1, 1, 0, chain, &len);

		CHECK(steno_block_open(bytes, len, &h, &payload, &unpacked));
		steno_decoder_begin(&d, payload.p, payload.len, h.first_time);
		for (i = 0; steno_decoder_next(&d, &r) == STENO_DECODED_RECORD; i++)
			CHECK(r.session_index == i / 2500 % NSOURCES && r.text.len > 0 && r.values.len == 4);
		CHECK(i == 20000 && r.time == time && d.nforms > NSOURCES * STENO_TEMPLATES);
		steno_decoder_end(&d);
		free(unpacked);
	}
	steno_block_destroy(block);
}

/* ---- brief records in a row ---- */

#define ROW_SIZE (1024 * 1024)

/* What a session is likely to leave in its ring: a few statements again and again, and now and then anything else. */
static uint32_t
fill_row(uint8_t *data, StenoTemplate *templates, uint64_t *random, uint64_t statement)
{
	static int64_t time = 1000;
	uint8_t    *p = data;
	int			i;

	/* none of them changes while a record refers to it */
	for (i = 0; i < 4; i++)
		change_template(&templates[i], random);
	while (p < data + ROW_SIZE - ROOM)
	{
		StenoBriefMessage *b = (StenoBriefMessage *) p;

		if (test_below(random, 8) == 0)
		{
			StenoCommitMessage *c = (StenoCommitMessage *) p;

			memset(c, 0, sizeof(*c));
			c->m = (StenoMessage) {sizeof(*c), STENO_KIND_TRANSACTION, STENO_MESSAGE_BRIEF};
			c->time = time += (int64_t) test_below(random, 100);
			c->xid = test_below(random, 10) ? 1000 + test_below(random, 1000) : 0;
			c->lsn = test_below(random, 10) ? test_random(random) >> 8 : 0;
			c->lsn_len = (uint32_t) test_below(random, 1000);
			c->timeline = 1;
			c->duration = (uint32_t) test_below(random, 100000);
			c->statements = (uint32_t) test_below(random, 10);
		}
		else
		{
			memset(b, 0, STENO_BRIEF_FIXED);
			time += (int64_t) test_below(random, 100);
			b->duration = test_below(random, 50) ? (uint32_t) test_below(random, 1000) : STENO_NONE32;
			b->rows = test_below(random, 50) ? 1 : test_below(random, 2) ? 7 : STENO_NONE32;
			steno_brief_encode(b, STENO_MESSAGE_VALUES, time, (uint8_t) test_below(random, 4), 0);
			if (test_below(random, 4) == 0)
				control_record(b, random);
			else
			{
				b->version = (uint16_t) (templates[b->template].version + (test_below(random, 200) == 0));
				brief_values(b, &templates[b->template], random);
			}
			if (test_below(random, 200) == 0)
				add_numbers(b, random, statement);
			if (test_below(random, 200) == 0 && b->template < STENO_BRIEF_BEGIN)
				nest(p, random);
		}
		CHECK(steno_message_is_whole(&b->m, ROOM));
		p += b->m.len;
	}
	return (uint32_t) (p - data);
}

/* A finished block of the one builder is the same as that of the other. */
static void
compare_blocks(StenoBlock *one, StenoBlock *other)
{
	static uint8_t copy[128 * 1024];
	uint8_t		chain[2][STENO_HASH_SIZE] = {{0}};
	size_t		len[2];
	const uint8_t *bytes = steno_block_finish(one, STENO_CODEC_NONE, 1, 1, 0, chain[0], &len[0]);

	CHECK(bytes != NULL && len[0] <= sizeof(copy));
	memcpy(copy, bytes, len[0]);
	bytes = steno_block_finish(other, STENO_CODEC_NONE, 1, 1, 0, chain[1], &len[1]);
	CHECK(bytes != NULL && len[0] == len[1] && memcmp(copy, bytes, len[0]) == 0);
}

/* Add all messages up to an end, as a writer does. */
static void
add_row(StenoBlock *block, StenoSource *source, const uint8_t *data, uint32_t end, uint64_t *brief)
{
	uint64_t	at = 0;

	while (at < end)
	{
		uint64_t	next = steno_block_add_brief(block, source, data, ROW_SIZE, at, end);
		const StenoMessage *m = (const StenoMessage *) (data + next);

		*brief += next - at;
		at = next;
		if (at == end)
			return;
		CHECK(steno_block_add(block, source, m));
		at += m->len;
	}
}

/* It makes no difference whether brief records are added in a row or one by one, and what is read is what was added. */
TEST(block_takes_brief_records_in_a_row)
{
	static uint8_t data[ROW_SIZE] __attribute__((aligned(8)));
	static StenoTemplate templates[NSOURCES][STENO_TEMPLATES];
	static StenoSource sources[2][NSOURCES];
	StenoBlock *blocks[2] = {steno_block_create(128 * 1024), steno_block_create(128 * 1024)};
	StenoIndex *indexes[2] = {steno_index_create(), steno_index_create()};
	static uint8_t bodies[2][STENO_INDEX_MAX];
	uint64_t	random = test_seed();
	uint64_t	number = 1;
	uint64_t	brief = 0;
	uint64_t	all = 0;
	StenoDecoder d;
	uint32_t	lens[2];
	int			round;
	uint32_t	i;
	int			k;

	forget();
	for (k = 0; k < 2; k++)
	{
		steno_block_set_index(blocks[k], indexes[k]);
		for (i = 0; i < NSOURCES; i++)
		{
			announce(blocks[k], &sources[k][i], i + 1, 0, 0);
			sources[k][i].templates = templates[i];
		}
	}
	for (round = 0; round < 40; round++)
	{
		uint32_t	s = (uint32_t) test_below(&random, NSOURCES);
		uint32_t	end = fill_row(data, templates[s], &random, sources[0][s].statement + 1);
		uint32_t	from = 0;
		uint32_t	at;

		all += end;
		/* one by one, until the block is full; then the same messages in a row */
		for (at = 0; at < end;)
		{
			const StenoMessage *m = (const StenoMessage *) (data + at);
			StenoWhole	room;
			uint64_t	seq = sources[0][s].seq;
			uint64_t	statement = sources[0][s].statement;

			if (steno_block_add(blocks[0], &sources[0][s], m))
			{
				keep(&steno_message_whole(m, templates[s], seq + 1, statement + 1, &room)->m, sources[0][s].body,
					 sources[0][s].body_len);
				at += m->len;
				if (at < end)
					continue;
			}
			add_row(blocks[1], &sources[1][s], data + from, at - from, &brief);
			CHECK(sources[0][s].seq == sources[1][s].seq && sources[0][s].statement == sources[1][s].statement);
			CHECK(steno_block_bytes(blocks[0]) == steno_block_bytes(blocks[1]));
			from = at;
			compare_blocks(blocks[0], blocks[1]);
			finish_and_compare(blocks[1], (int) (number & 1), number, &d);
			steno_decoder_end(&d);
			number++;
			for (k = 0; k < 2; k++)
			{
				steno_index_commit(indexes[k], 1, number, 1000);
				steno_block_reset(blocks[k]);
			}
		}
	}
	CHECK(number > 40 && brief > all / 2);
	for (k = 0; k < 2; k++)
		lens[k] = steno_index_take(indexes[k], bodies[k]);
	CHECK(lens[0] == lens[1] && memcmp(bodies[0], bodies[1], lens[0]) == 0);
	for (k = 0; k < 2; k++)
	{
		steno_block_destroy(blocks[k]);
		steno_index_destroy(indexes[k]);
	}
}

/* A statement of a session whose text has a constant; values: NULL if it has no parameter. */
static void
encode_statement(uint64_t *buffer, const StenoSource *source, uint8_t class, const char *text, uint64_t rows,
				 const char *values, uint32_t values_len)
{
	uint8_t		shape[] = {class, 0, 6, 'S', 'E', 'L', 'E', 'C', 'T', 0, values != NULL, 23, 3};
	StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, source->seq + 1, (int64_t) source->seq * 50);
	ModelStrings s = {.shape = shape, .shape_len = values ? 13 : 11, .text = text, .text_len = (uint32_t) strlen(text)};

	r.statement = source->statement + 1;
	r.rows = rows;
	r.duration = source->seq % 100;
	s.values = values;
	s.values_len = values_len;
	model_encode(buffer, &r, &s);
}

static void
add_statement(StenoBlock *block, StenoSource *source, uint8_t class, const char *text, uint64_t rows, bool values)
{
	uint64_t	buffer[200];

	encode_statement(buffer, source, class, text, rows, values ? "four" : NULL, values ? 4 : 0);
	CHECK(steno_block_add(block, source, (StenoMessage *) buffer));
	keep((StenoMessage *) buffer, source->body, source->body_len);
}

/* Statements that are not prepared: with the same text, with constants that differ, and among others. */
TEST(block_puts_records_of_similar_statements_into_runs)
{
	static StenoSource sources[NSOURCES];
	StenoBlock *block = steno_block_create(1024 * 1024);
	uint64_t	random = test_seed();
	StenoDecoder d;
	char		text[400];
	uint32_t	i;

	for (i = 0; i < NSOURCES; i++)
		announce(block, &sources[i], i + 1, 0, 0);
	for (i = 0; i < 9000; i++)
	{
		StenoSource *s = &sources[i % NSOURCES];
		uint32_t	n = (uint32_t) test_below(&random, 100000);

		snprintf(text, sizeof(text), "SELECT balance FROM accounts WHERE id = %u;", n);
		add_statement(block, s, 1, text, 1, false);
	}
	/* number of the form, a constant of up to five digits and its length, time, duration */
	CHECK(steno_block_bytes(block) < 9000 * 12);
	for (i = 0; i < 3000; i++)
		add_statement(block, &sources[i % NSOURCES], 1, "SELECT balance FROM accounts WHERE id = $1", 1, true);
	CHECK(steno_block_bytes(block) < 9000 * 12 + 3000 * 10);
	finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(d.nforms > 0 && d.nforms < 10 * NSOURCES);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/* Texts that are at first similar and then not, at both ends, and whose shapes, rows and values differ. */
TEST(block_puts_records_of_changing_statements_into_runs)
{
	static StenoSource sources[NSOURCES];
	StenoBlock *block = steno_block_create(1024 * 1024);
	uint64_t	random = test_seed();
	StenoDecoder d;
	char		text[400];
	uint32_t	i;

	for (i = 0; i < NSOURCES; i++)
		announce(block, &sources[i], i + 1, 0, 0);
	for (i = 0; i < 10000; i++)
	{
		StenoSource *s = &sources[test_below(&random, NSOURCES)];
		uint32_t	kind = (uint32_t) test_below(&random, 8);
		uint32_t	n = (uint32_t) test_below(&random, 1000);

		if (kind < 3)
			snprintf(text, sizeof(text), "SELECT balance FROM accounts WHERE id = %u", n);
		else if (kind < 5)
			snprintf(text, sizeof(text), "SELECT balance FROM accounts WHERE name = '%.*s' AND id = %u", (int) n % 300,
					 "a name with spaces that becomes longer and longer and longer and longer and longer and longer and longer "
					 "and longer and longer and longer and longer and longer and longer and longer and longer and longer", n % 7);
		else if (kind < 6)
			snprintf(text, sizeof(text), "SELECT balance F%.*s", (int) n % 5, "ROM x");
		else if (kind < 7)
			snprintf(text, sizeof(text), "SELECT balance FROM accounts WHERE id = %u ORDER BY %u DESC", n % 3, n);
		else
			snprintf(text, sizeof(text), "%.*s", (int) n % 30, "SELECT something else altogether");
		add_statement(block, s, (uint8_t) (1 + n % 2), text, kind < 2 ? 1 : n % 3, kind == 6);
	}
	finish_and_compare(block, STENO_CODEC_LZ4, 1, &d);
	CHECK(d.nforms > NSOURCES);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/* A reader that bounds its memory must have enough of it for whatever fits. */
TEST(block_of_short_similar_texts_is_readable)
{
	uint32_t	capacity;

	for (capacity = 64 * 1024; capacity <= STENO_MAX_RAW; capacity *= 2)
	{
		static StenoSource source;
		uint8_t		chain[STENO_HASH_SIZE] = {0};
		StenoBlock *block = steno_block_create(capacity);
		uint64_t	buffer[40];
		StenoTrailRecord r;
		StenoBlockHeader h;
		StenoDecoder d;
		StenoBytes	payload;
		uint8_t    *unpacked;
		const uint8_t *bytes;
		size_t		len;
		char		text[32];
		uint32_t	n = 0;
		uint32_t	i;

		announce(block, &source, 1, 0, 0);
		do
		{
			snprintf(text, sizeof(text), "SELECT 'a cat', %u", n++ % 10);
			encode_statement(buffer, &source, 1, text, 1, NULL, 0);
		}
		while (steno_block_add(block, &source, (StenoMessage *) buffer));
		bytes = steno_block_finish(block, STENO_CODEC_LZ4, 1, 1, 77, chain, &len);
		CHECK(steno_block_open(bytes, len, &h, &payload, &unpacked));
		steno_decoder_begin(&d, payload.p, payload.len, h.first_time);
		for (i = 0; i < n - 1; i++)
		{
			snprintf(text, sizeof(text), "SELECT 'a cat', %u", i % 10);
			CHECK(steno_decoder_next(&d, &r) == STENO_DECODED_RECORD);
			CHECK(r.text.len == strlen(text) && memcmp(r.text.p, text, r.text.len) == 0);
		}
		CHECK(steno_decoder_next(&d, &r) == STENO_DECODED_END);
		steno_decoder_end(&d);
		free(unpacked);
		steno_block_destroy(block);
	}
}

/* The text of a statement is the same, and its parameters have other lengths each time: it keeps its form. */
TEST(block_keeps_the_form_of_a_text_with_other_values)
{
	static StenoSource source;
	StenoBlock *block = steno_block_create(1024 * 1024);
	uint64_t	buffer[40];
	StenoDecoder d;
	uint32_t	i;

	announce(block, &source, 1, 0, 0);
	for (i = 0; i < 5000; i++)
	{
		encode_statement(buffer, &source, 1, "SELECT balance FROM accounts WHERE name = $1 AND is_open", 1,
						 "a name that is long", i % 20);
		CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
		keep((StenoMessage *) buffer, source.body, source.body_len);
	}
	CHECK(steno_block_bytes(block) < 5000 * 22);
	finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(d.nforms < 10);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

TEST(block_defines_many_texts_once)
{
	StenoBlock *block = steno_block_create(4 * 1024 * 1024);
	static StenoSource source;
	StenoDecoder d;
	uint32_t	i;

	announce(block, &source, 1, 0, 0);
	for (i = 0; i < 19000; i++)
	{
		uint32_t	text = i % 9000;

		CHECK(add_text(block, &source, i + 1, &text, sizeof(text)));
	}
	finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(d.ntexts == 9000);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

TEST(block_defines_what_repeats_once)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	StenoDecoder d;
	uint64_t	buffer[MODEL_SESSION_ROOM / 8];
	uint64_t	i;

	announce(block, &source, 1, 0, 0);
	for (i = 1; i <= 100; i++)
		CHECK(add_text(block, &source, i, "SELECT 1", 8));
	/* the same session again, also from a writer that forgot it */
	model_encode_session(buffer, source.body, source.body_len, 100, 100);
	CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	CHECK(add_text(block, &source, 101, "SELECT 1", 8));
	announce(block, &source, 1, 101, 101);
	CHECK(add_text(block, &source, 102, "SELECT 1", 8));
	/* 102 records of kind, session, mask, text, time; and three definitions */
	CHECK(steno_block_bytes(block) < 102 * 6 + 60);
	finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(d.sessions.n == 1);
	CHECK(d.ntexts == 1);
	steno_decoder_end(&d);

	/* the next block knows nothing of this one's definitions */
	steno_block_reset(block);
	CHECK(add_text(block, &source, 103, "SELECT 1", 8));
	finish_and_compare(block, STENO_CODEC_NONE, 2, &d);
	CHECK(d.sessions.n == 1);
	CHECK(d.ntexts == 1);
	CHECK(d.sessions.list[0].a == 103);
	CHECK(source.seq == 103 && source.statement == 103);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/* Records without a number leave the session's count as it was, across blocks too. */
TEST(block_counts_past_records_without_a_number)
{
	static const uint64_t numbers[] = {41, 0, 0, 42, 0};
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	StenoDecoder d;
	uint32_t	numbered;
	size_t		i;

	announce(block, &source, 1, 40, 7);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
	{
		uint64_t	buffer[64];
		StenoRecordMessage r = model_record(numbers[i] ? STENO_KIND_NOTE : STENO_KIND_START,
											numbers[i], 5);
		ModelStrings s = {0};

		r.statement = 8;
		model_encode(buffer, &r, &s);
		CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
		keep((StenoMessage *) buffer, source.body, source.body_len);
	}
	CHECK(source.seq == 42 && source.statement == 7);
	finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(d.sessions.n == 1 && d.sessions.list[0].a == 42);
	steno_decoder_end(&d);

	/* the next number is the expected one: it takes no bytes */
	steno_block_reset(block);
	CHECK(add_text(block, &source, 43, "", 0));
	numbered = steno_block_bytes(block);
	finish_and_compare(block, STENO_CODEC_NONE, 2, &d);
	steno_decoder_end(&d);
	steno_block_reset(block);
	CHECK(add_text(block, &source, 99, "", 0));
	CHECK(steno_block_bytes(block) > numbered);
	forget();
	steno_block_destroy(block);
}

/* A damaged ring file's template is beyond the source's: no shape and no text. */
TEST(block_survives_a_template_that_cannot_be)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoTemplate templates[STENO_TEMPLATES];
	static StenoSource source;
	uint64_t	buffer[ROOM / 8];
	uint64_t	random = test_seed();
	uint64_t	number = 1;
	StenoBriefMessage *b = (StenoBriefMessage *) buffer;
	StenoDecoder d;

	announce(block, &source, 1, 0, 0);
	source.templates = templates;
	brief_record(buffer, templates, &random, 1);
	add(block, &source, &b->m, &number);
	brief_record(buffer, templates, &random, 2);
	b->template = STENO_TEMPLATES;
	CHECK(!steno_message_is_whole(&b->m, ROOM));
	add(block, &source, &b->m, &number);
	CHECK(source.seq == 2 && source.statement == 2);
	finish_and_compare(block, STENO_CODEC_NONE, number, &d);
	CHECK(d.ntexts <= 1);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

TEST(block_returns_to_an_earlier_role_without_defining_it_again)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	const uint8_t key = STENO_SESSION_ROLE;
	const char *roles[] = {"a", "b"};
	uint64_t	buffer[MODEL_SESSION_ROOM / 8];
	uint8_t		body[STENO_SESSION_MAX];
	StenoRecordMessage r;
	ModelStrings s = {0};
	StenoDecoder d;
	uint64_t	i;

	for (i = 0; i < 10; i++)
	{
		model_encode_session(buffer, body, model_body(body, 5, 1, 1, &key, &roles[i & 1]), i, i);
		CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
		CHECK(add_text(block, &source, i + 1, "x", 1));
	}
	/* a record without a number does not take the count back to when it had that role before */
	model_encode_session(buffer, body, model_body(body, 5, 1, 1, &key, &roles[0]), i, i);
	CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	r = model_record(STENO_KIND_START, 0, 5);
	r.statement = i + 1;
	model_encode(buffer, &r, &s);
	CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	keep((StenoMessage *) buffer, source.body, source.body_len);
	CHECK(source.seq == i && source.statement == i);
	finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(d.sessions.n == 2);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

TEST(block_first_time_is_the_earliest)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	uint64_t	buffer[64];
	const int64_t times[] = {500, -100, 700, INT64_MAX / 2};
	ModelStrings s = {0};
	StenoDecoder d;
	StenoBlockHeader h;
	int			i;

	announce(block, &source, 1, 0, 0);
	for (i = 0; i < 4; i++)
	{
		StenoRecordMessage r = model_record(STENO_KIND_NOTE, (uint64_t) i + 1, times[i]);

		model_encode(buffer, &r, &s);
		CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
		keep((StenoMessage *) buffer, source.body, source.body_len);
	}
	h = finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(h.first_time == -100);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

TEST(block_without_records_has_the_time_of_its_creation)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	StenoDecoder d;
	StenoBlockHeader h = finish_and_compare(block, STENO_CODEC_LZ4, 1, &d);

	CHECK(h.records == 0 && h.raw == 0 && h.stored == 0 && h.codec == STENO_CODEC_NONE);
	CHECK(h.first_time == 77 && h.first_end == 77 && h.last_end == 77);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/* Until the reset the block can be finished again, say with another number. */
TEST(block_can_be_finished_again)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	uint8_t		zero[STENO_HASH_SIZE] = {0};
	uint8_t		one[STENO_HASH_SIZE];
	uint8_t		two[STENO_HASH_SIZE];
	size_t		len;
	uint64_t	i;

	announce(block, &source, 1, 0, 0);
	for (i = 1; i < 100; i++)
		CHECK(add_text(block, &source, i, "SELECT 1", 8));
	memcpy(one, zero, sizeof(one));
	memcpy(two, zero, sizeof(two));
	steno_block_finish(block, STENO_CODEC_LZ4, 1, 1, 0, one, &len);
	steno_block_finish(block, STENO_CODEC_LZ4, 1, 1, 0, two, &len);
	CHECK(memcmp(one, two, sizeof(one)) == 0);
	forget();
	steno_block_destroy(block);
}

TEST(block_that_does_not_shrink_is_stored_as_it_is)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	static uint64_t buffer[2 * 1024];
	uint64_t	random = test_seed();
	uint64_t	bytes[1500];
	StenoDecoder d;
	StenoBlockHeader h;
	size_t		i;

	announce(block, &source, 1, 0, 0);
	for (i = 0; i < sizeof(bytes) / 8; i++)
		bytes[i] = test_random(&random);
	model_encode_data(buffer, 1, 0, bytes, sizeof(bytes));
	CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	keep((StenoMessage *) buffer, source.body, source.body_len);
	h = finish_and_compare(block, STENO_CODEC_LZ4, 1, &d);
	CHECK(h.codec == STENO_CODEC_NONE && h.records == 0);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/*
 * Build and finish a block with LZ4 of one data part of 8-byte words, which are random or all the same.
 * Whether it became smaller.
 */
static bool
words_shrink(StenoBlock *block, int words, uint64_t *random)
{
	static uint64_t buffer[2 * 1024];
	uint64_t	bytes[1500];
	uint8_t		chain[STENO_HASH_SIZE] = {0};
	StenoSource source = {.generation = UINT64_MAX};
	StenoBlockHeader h;
	size_t		len;
	int			i;

	for (i = 0; i < words; i++)
		bytes[i] = random ? test_random(random) : 7;
	model_encode_data(buffer, 1, 0, bytes, (uint32_t) words * 8);
	CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	CHECK(steno_block_header_read(steno_block_finish(block, STENO_CODEC_LZ4, 1, 1, 5, chain, &len), &h));
	steno_block_reset(block);
	return h.stored < h.raw - h.raw / 16;
}

/* What does not become smaller is tried again after eight times as many bytes, or with a larger block. */
TEST(block_after_one_that_does_not_shrink_is_not_compressed)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	uint64_t	random = test_seed();
	int			skipped = 0;

	CHECK(words_shrink(block, 100, NULL));
	CHECK(!words_shrink(block, 100, &random));
	while (!words_shrink(block, 100, NULL))
		skipped++;
	CHECK(skipped == 8);
	CHECK(words_shrink(block, 100, NULL));
	CHECK(!words_shrink(block, 100, &random));
	CHECK(words_shrink(block, 1000, NULL));
	steno_block_destroy(block);
}

/* Build and finish a block with LZ4 of one data part: a chunk whose bytes are at the given address. */
static StenoBlockHeader
finish_large(StenoBlock *block, const uint8_t *chunk)
{
	struct
	{
		StenoDataMessage d;
		StenoChunkNumber number;
	}			m = {.d = {.m = {sizeof(m), STENO_KIND_DATA, STENO_MESSAGE_CHUNK}, .seq = 1, .len = STENO_CHUNK}};
	uint8_t		chain[STENO_HASH_SIZE] = {0};
	StenoSource source = {.generation = UINT64_MAX, .chunks = chunk};
	StenoBlockHeader h;
	size_t		len;
	const uint8_t *bytes;

	steno_block_reset(block);
	CHECK(steno_block_add(block, &source, &m.d.m));
	CHECK(steno_block_data_bytes(block) == STENO_CHUNK && steno_block_bytes(block) > STENO_CHUNK);
	bytes = steno_block_finish(block, STENO_CODEC_LZ4, 1, 1, 5, chain, &len);
	CHECK(bytes != NULL && steno_block_header_read(bytes, &h));
	return h;
}

/*
 * Samples tell whether large values are compressed: bytes that become smaller only
 * together, because a second half repeats the first, which is random, are not.
 */
TEST(block_of_large_values_is_compressed_if_its_samples_are)
{
	static uint8_t chunk[STENO_CHUNK];
	StenoBlock *block = steno_block_create(2 * STENO_CHUNK);
	uint64_t	random = test_seed();
	StenoBlockHeader h;
	size_t		i;

	for (i = 0; i < STENO_CHUNK; i++)
		chunk[i] = (uint8_t) ("0123456789 many words"[i % 21]);
	h = finish_large(block, chunk);
	CHECK(h.codec == STENO_CODEC_LZ4 && h.stored < STENO_CHUNK / 10);
	for (i = 0; i < STENO_CHUNK / 2; i++)
		chunk[i] = chunk[i + STENO_CHUNK / 2] = (uint8_t) test_random(&random);
	h = finish_large(block, chunk);
	CHECK(h.codec == STENO_CODEC_NONE && h.stored == h.raw);
	steno_block_destroy(block);
}

/* Bytes of which the first of every 256 are zeros, and the others random. */
static void
partly_random(uint8_t *chunk, size_t zeros, uint64_t *random)
{
	size_t		i;

	for (i = 0; i < STENO_CHUNK; i++)
		chunk[i] = i % 256 < zeros ? 0 : (uint8_t) test_random(random);
}

/* Large values that hardly become smaller are tried again after eight times as many bytes of such values. */
TEST(block_of_large_values_must_shrink_by_an_eighth)
{
	static uint8_t chunk[STENO_CHUNK];
	StenoBlock *block = steno_block_create(2 * STENO_CHUNK);
	uint64_t	random = test_seed();
	int			skipped = 0;

	partly_random(chunk, 60, &random);
	CHECK(finish_large(block, chunk).codec == STENO_CODEC_LZ4);
	CHECK(finish_large(block, chunk).codec == STENO_CODEC_LZ4);
	partly_random(chunk, 32, &random);
	CHECK(finish_large(block, chunk).codec == STENO_CODEC_LZ4);
	partly_random(chunk, 60, &random);
	while (finish_large(block, chunk).codec == STENO_CODEC_NONE)
		skipped++;
	CHECK(skipped == 8);
	steno_block_destroy(block);
}

/* Build and finish a block with LZ4 of records with texts that are alike; the codec that it has. */
static int
finish_records(StenoBlock *block)
{
	static StenoSource source;
	uint8_t		chain[STENO_HASH_SIZE] = {0};
	StenoBlockHeader h;
	size_t		len;
	uint64_t	seq;

	steno_block_reset(block);
	announce(block, &source, 1, 0, 0);
	for (seq = 1; seq <= 100; seq++)
	{
		StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, seq, 1000);
		ModelStrings s = {.text = "SELECT a_long_name, another_long_name, and_a_third_one FROM a_table"};
		uint64_t	buffer[128];

		model_encode(buffer, &r, &s);
		CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	}
	CHECK(steno_block_header_read(steno_block_finish(block, STENO_CODEC_LZ4, 1, 1, 5, chain, &len), &h));
	return h.codec;
}

/* Records that come after large values that cannot be compressed are compressed, and do not end the others' time. */
TEST(block_of_records_is_compressed_after_large_values)
{
	static uint8_t chunk[STENO_CHUNK];
	StenoBlock *block = steno_block_create(2 * STENO_CHUNK);
	uint64_t	random = test_seed();
	int			i;

	partly_random(chunk, 32, &random);
	CHECK(finish_large(block, chunk).codec == STENO_CODEC_LZ4);
	for (i = 0; i < 8; i++)
	{
		CHECK(finish_records(block) == STENO_CODEC_LZ4);
		CHECK(finish_large(block, chunk).codec == STENO_CODEC_NONE);
	}
	CHECK(finish_large(block, chunk).codec == STENO_CODEC_LZ4);
	steno_block_destroy(block);
}

/* After large values that have saved less than a quarter, LZ4 looks at fewer places of the next ones. */
TEST(block_of_large_values_has_its_own_acceleration)
{
	static uint8_t chunk[STENO_CHUNK];
	StenoBlock *block = steno_block_create(2 * STENO_CHUNK);
	uint64_t	random = test_seed();
	StenoBlockHeader first;
	StenoBlockHeader second;
	size_t		i;
	int			j;

	/* words of four letters, most of which are far from their last copy */
	memset(chunk, ' ', sizeof(chunk));
	for (i = 0; i + 5 <= STENO_CHUNK; i += 5)
	{
		uint32_t	word = (uint32_t) (test_random(&random) % 2000) * 2654435761U;

		for (j = 0; j < 4; j++, word /= 26)
			chunk[i + j] = (uint8_t) ('a' + word % 26);
	}
	first = finish_large(block, chunk);
	second = finish_large(block, chunk);
	CHECK(first.codec == STENO_CODEC_LZ4 && second.codec == STENO_CODEC_LZ4 && second.stored > first.stored);
	steno_block_destroy(block);
}

/* The end of a statement that lasts beyond what a time can say is the last time there is. */
TEST(block_last_end_does_not_overflow)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	uint64_t	buffer[64];
	StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, 1, 1000);
	ModelStrings s = {0};
	StenoDecoder d;
	StenoBlockHeader h;

	announce(block, &source, 1, 0, 0);
	r.statement = 1;
	r.duration = INT64_MAX;
	model_encode(buffer, &r, &s);
	CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	keep((StenoMessage *) buffer, source.body, source.body_len);
	h = finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(h.last_end == INT64_MAX && h.first_end == INT64_MAX);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/* A record without strings, all of whose numbers take their full length. */
static void
widest_record(uint64_t *buffer, uint64_t seq)
{
	StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, seq << 32, seq & 1 ? INT64_MIN : INT64_MAX);
	StenoParts	parts = {{UINT64_MAX, UINT64_MAX, UINT64_MAX}};
	StenoCut	cut = {UINT64_MAX, {1}};
	ModelStrings s = {0};

	r.rows = r.duration = UINT64_MAX - 1;
	r.statement = seq & 1 ? UINT64_C(1) << 63 : 1;
	r.substatement = r.xid = r.xid_epoch = UINT32_MAX;
	r.depth = UINT16_MAX;
	r.outcome = 1;
	r.extra_count = 1;
	memcpy(r.sqlstate, "XX000", 5);
	s.parts = &parts;
	s.cut = &cut;
	s.values = "";
	s.extra = "\0";
	s.extra_len = 2;
	model_encode(buffer, &r, &s);
}

/* From every distance to the end, with records that grow the most, each of a session of its own. */
TEST(block_never_grows_beyond_its_capacity)
{
	const uint32_t capacity = 64 * 1024;
	StenoBlock *block = steno_block_create(capacity);
	static StenoSource source;
	static uint64_t buffer[2 * 1024];
	static uint8_t filler[STENO_SESSION_MAX + 64 * 8];
	uint8_t		body[STENO_SESSION_MAX];
	uint32_t	distance;
	uint32_t	most = 0;
	uint64_t	seq;

	memset(body, 0, sizeof(body));
	for (distance = 0; distance < 1400; distance += 3)
	{
		steno_block_reset(block);
		announce(block, &source, 1, 0, 0);
		while (steno_block_bytes(block) < capacity - 4000 - distance)
		{
			model_encode_data(buffer, 1, 0, filler, distance % 300 + 200);
			CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
		}
		for (seq = 1;; seq++)
		{
			memcpy(body, &seq, sizeof(seq));
			model_encode_session(buffer, body, sizeof(body), UINT64_MAX, UINT64_MAX);
			CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
			widest_record(buffer, seq);
			if (!steno_block_add(block, &source, (StenoMessage *) buffer))
				break;
			CHECK(steno_block_bytes(block) <= capacity);
			most = steno_block_bytes(block) > most ? steno_block_bytes(block) : most;
		}
	}
	/* the bound is not too careful, either */
	CHECK(most > capacity - 400);
	steno_block_destroy(block);
}

TEST(block_of_many_sessions_is_full_when_it_cannot_follow_more)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	uint64_t	buffer[64];
	uint32_t	n = 0;
	StenoDecoder d;

	for (;; n++)
	{
		StenoRecordMessage r = model_record(STENO_KIND_CONNECT, 1, 1);
		ModelStrings s = {0};

		announce(block, &source, n, 0, 0);
		model_encode(buffer, &r, &s);
		if (!steno_block_add(block, &source, (StenoMessage *) buffer))
			break;
		keep((StenoMessage *) buffer, source.body, source.body_len);
	}
	CHECK(n == 1024 && steno_block_bytes(block) < 60 * 1024);
	finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(d.sessions.n == n);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/*
 * Pairs of texts (the number's eight bytes) that the dictionary cannot tell
 * apart by what it keeps of their hash: its low 32 bits, and the entry, one of
 * 1024 in a block of 64 kB.
 */
static const uint64_t twins[][2] = {
	{886833, 3196663}, {1869083, 3787962}, {2061740, 3143592},
	{351496, 2583249}, {344636, 3342139}, {239898, 1359672},
};

TEST(block_tells_texts_of_the_same_hash_apart)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	StenoDecoder d;
	uint64_t	seq = 0;
	size_t		i;

	announce(block, &source, 1, 0, 0);
	for (i = 0; i < sizeof(twins) / sizeof(twins[0]); i++)
	{
		uint64_t	one = XXH3_64bits(&twins[i][0], 8);
		uint64_t	two = XXH3_64bits(&twins[i][1], 8);

		CHECK(((one ^ two) & UINT64_C(0x3ffffffffff)) == 0);
		CHECK(add_text(block, &source, ++seq, &twins[i][0], 8));
		CHECK(add_text(block, &source, ++seq, &twins[i][1], 8));
	}
	finish_and_compare(block, STENO_CODEC_NONE, 1, &d);
	CHECK(d.ntexts == seq);
	steno_decoder_end(&d);
	steno_block_destroy(block);
}

/* Recovery asks before it hands on what others have left. */
TEST(message_whose_strings_reach_beyond_it_is_not_whole)
{
	static uint64_t buffer[2 * 1024];
	StenoMessage *m = (StenoMessage *) buffer;
	uint64_t	random = test_seed();
	uint64_t	statement = 1;
	uint8_t		body[100] = {0};
	uint32_t	len;
	int			i;

	for (i = 0; i < 2000; i++)
	{
		if (i % 10 == 0)
			model_encode_session(buffer, body, (uint32_t) (12 + test_below(&random, 80)), 1, 1);
		else if (i % 10 == 1)
			model_encode_data(buffer, 1, 0, body, (uint32_t) test_below(&random, 100));
		else
			model_random(buffer, ROOM, &random, 1, &statement);
		len = m->len;
		CHECK(steno_message_is_whole(m, len));
		CHECK(steno_message_is_whole(m, len + 8));
		CHECK(!steno_message_is_whole(m, len - 8));
		CHECK(!steno_message_is_whole(m, 0));
		m->len = len - 8;
		CHECK(!steno_message_is_whole(m, len));
		m->len = 8;
		CHECK(!steno_message_is_whole(m, len));
		m->len = len + 1;
		CHECK(!steno_message_is_whole(m, len + 8));
	}
}

TEST(block_keeps_the_identity_of_a_session_whose_facts_are_too_long)
{
	StenoBlock *block = steno_block_create(64 * 1024);
	static StenoSource source;
	uint64_t	buffer[400];
	uint8_t		body[3000];

	memset(body, 3, sizeof(body));
	model_encode_session(buffer, body, 3000, 0, 0);
	CHECK(!steno_message_is_whole((StenoMessage *) buffer, sizeof(buffer)));
	CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	CHECK(source.body_len == STENO_SESSION_FACTS && memcmp(source.body, body, STENO_SESSION_FACTS) == 0);
	steno_block_destroy(block);
}
