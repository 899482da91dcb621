/*
 * core/test/ring/left_rings_are_checked.c
 *		Rings that a dead server has left, damaged at random places: who reads them
 *		comes to an end, never looks beyond them, and writes nothing that readers of
 *		the trail do not understand.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "ring/check.h"
#include "test/model.h"
#include "test/test.h"

#define RINGS 2
#define SIZE STENO_RING_MIN
#define LONGEST (SIZE / STENO_RING_SHARE)
#define CHUNKS 2

/* Of a block, which has space for a chunk. */
#define BLOCK (2 * STENO_CHUNK)

/* ---- a ring file ---- */

static StenoRings rings;
static StenoRingFile *whole;	/* as it was before the damage */
static size_t total;
static uint64_t published[RINGS];	/* records */

/* On the heap, where a sanitizer knows its end. */
static void
make_rings(void)
{
	const char *what;
	char		path[300];

	snprintf(path, sizeof(path), "%s/rings", test_folder());
	CHECK(steno_rings_create(&rings, AT_FDCWD, path, RINGS, SIZE, CHUNKS, 1, 11, 12, &what));
	total = (size_t) steno_rings_total(RINGS, SIZE, CHUNKS);
	whole = aligned_alloc(STENO_PAGE, total);
	CHECK(whole != NULL && total % STENO_PAGE == 0);
	memcpy(whole, rings.file, total);
	steno_rings_close(&rings);
	CHECK(steno_rings_attach(&rings, whole, total, whole) == NULL);
}

/* A shape with parameters of the types int4, text, and one that nobody knows. */
static uint32_t
make_shape(uint8_t *to, const uint8_t *reprs, uint32_t nparams, bool objects)
{
	uint8_t    *p = to;
	uint32_t	i;

	*p++ = 1;
	*p++ = 0;
	*p++ = 6;
	memcpy(p, "SELECT", 6);
	p += 6;
	*p++ = 1;
	*p++ = 'r';
	*p++ = 1;
	*p++ = 8;
	memcpy(p, "public.t", 8);
	p += 8;
	*p++ = (uint8_t) nparams;
	for (i = 0; i < nparams; i++)
	{
		*p++ = 23;
		*p++ = reprs[i];
	}
	if (objects)
	{
		*p++ = 1;
		memcpy(p, "\1\5table\10public.t\0", 17);
		p += 17;
	}
	return (uint32_t) (p - to);
}

static uint32_t
random_record(void *to, uint64_t *random, uint64_t seq)
{
	static const uint8_t reprs[] = {STENO_REPR_INT4, STENO_REPR_TEXT, 200};
	static const uint16_t kinds[] = {
		STENO_KIND_STATEMENT, STENO_KIND_STATEMENT, STENO_KIND_STATEMENT, STENO_KIND_START, STENO_KIND_CONNECT,
		STENO_KIND_TRANSACTION, STENO_KIND_NOTE
	};
	StenoRecordMessage r = model_record(kinds[test_below(random, 7)], seq, INT64_C(800000000000000));
	uint8_t		shape[100];
	uint8_t		text[600];
	uint8_t		nulls = (uint8_t) (test_below(random, 2) * 2);
	ModelStrings s = {0};
	StenoCut	cut = {.len = 5000};
	StenoParts	parts = {{0, 40, 0}};

	memset(text, 'x', sizeof(text));
	s.shape = shape;
	s.shape_len = make_shape(shape, reprs, 3, test_below(random, 2));
	s.text = text;
	s.text_len = (uint32_t) test_below(random, sizeof(text));
	if (test_below(random, 3))
	{
		s.values = nulls ? "\1\2\3\4rest" : "\1\2\3\4\3abcrest";
		s.values_len = (uint32_t) strlen(s.values);
		s.nulls = &nulls;
		s.nulls_len = 1;
		if (test_below(random, 6) == 0)
			s.parts = &parts;
	}
	if (test_below(random, 4) == 0)
	{
		memcpy(r.sqlstate, "42P01", 5);
		r.outcome = STENO_OUTCOME_ERROR;
		s.message = "relation does not exist";
		s.message_len = 23;
	}
	if (test_below(random, 6) == 0)
		s.cut = &cut;
	if (test_below(random, 4) == 0)
	{
		s.extra = "\4name\5value\1a\1b";
		s.extra_len = 15;
		r.extra_count = 2;
	}
	r.duration = test_below(random, 3) ? 7 : STENO_NONE64;
	r.statement = r.m.kind <= STENO_KIND_START ? seq : 0;
	return model_encode(to, &r, &s);
}

static uint32_t
gap_record(void *to, uint64_t first, uint64_t last)
{
	StenoRecordMessage r = model_record(STENO_KIND_GAP, last + 1, 5);
	const char *names[] = {"count", "first_seq", "last_seq", "reason"};
	uint64_t	values[] = {last - first + 1, first, last};
	uint8_t		extra[200];
	uint8_t    *p = extra;
	ModelStrings s = {0};
	int			i;

	for (i = 0; i < 4; i++)
	{
		char		value[32] = "ring full";

		if (i < 3)
			snprintf(value, sizeof(value), "%llu", (unsigned long long) values[i]);
		*p++ = (uint8_t) strlen(names[i]);
		memcpy(p, names[i], strlen(names[i]));
		p += strlen(names[i]);
		*p++ = (uint8_t) strlen(value);
		memcpy(p, value, strlen(value));
		p += strlen(value);
	}
	r.extra_count = 4;
	s.extra = extra;
	s.extra_len = (uint32_t) (p - extra);
	return model_encode(to, &r, &s);
}

/* A data part, in the ring or in a chunk. */
static uint32_t
data_part(void *to, uint64_t *random, uint64_t seq, const void *bytes)
{
	StenoDataMessage *d = to;
	StenoChunkNumber *chunk = (StenoChunkNumber *) (d + 1);

	model_encode_data(to, seq, STENO_PART_VALUES, bytes, 40);
	if (test_below(random, 2) == 0)
		return d->m.len;
	d->m.len = sizeof(*d) + sizeof(*chunk);
	d->m.flags = STENO_MESSAGE_CHUNK;
	d->len = (uint32_t) test_below(random, STENO_CHUNK + 1);
	chunk->number = (uint32_t) test_below(random, CHUNKS);
	chunk->pad = 0;
	return d->m.len;
}

static uint32_t
brief_record(void *to, uint64_t *random, StenoTemplate *t)
{
	static const uint8_t reprs[] = {STENO_REPR_INT4};
	StenoBriefMessage *b = to;

	t->version = 3;
	t->shape_len = (uint16_t) make_shape(t->bytes, reprs, 1, false);
	memcpy(t->bytes + t->shape_len, "SELECT $1", 9);
	t->text_len = 9;
	memset(b, 0, 64);
	steno_brief_encode(b, STENO_MESSAGE_VALUES, INT64_C(800000000000001), 2, 4);
	b->m.len = steno_brief_len(4);
	b->version = 3;
	if (test_below(random, 4) == 0)
	{
		b->m.flags = STENO_MESSAGE_BRIEF;
		b->template = (uint8_t) (STENO_BRIEF_BEGIN + test_below(random, 2));
		memcpy(b->values, "END;", 4);
	}
	if (test_below(random, 3) == 0)
	{
		b->m.flags |= STENO_MESSAGE_XID;
		b->m.len += 8;
	}
	if (test_below(random, 3) == 0)
	{
		b->m.flags |= STENO_MESSAGE_NUMBERS;
		b->m.len += sizeof(StenoBriefNumbers);
	}
	if (b->template == 2 && test_below(random, 3) == 0)
	{
		StenoBriefNesting n = {7, (uint16_t) (1 + test_below(random, 3)), (uint16_t) test_below(random, 2)};

		/* a NULL and no value, or no NULL and a value */
		if (n.nulls_len > 0)
		{
			b->values_len = 1;
			b->values[0] = 1;
		}
		model_append_brief(b, STENO_MESSAGE_NESTED, &n, sizeof(n));
	}
	if (test_below(random, 3) == 0)
	{
		const StenoTimes times = {.plan = 1000, .elapsed = test_below(random, 2) ? 3000000 : STENO_NONE64};

		model_append_brief(b, STENO_MESSAGE_TIMES, &times, sizeof(times));
	}
	return b->m.len;
}

static uint32_t
brief_commit(void *to, uint64_t *random)
{
	StenoCommitMessage *c = to;

	memset(c, 0, sizeof(*c));
	c->m.len = sizeof(*c);
	c->m.kind = STENO_KIND_TRANSACTION;
	c->m.flags = STENO_MESSAGE_BRIEF;
	c->time = INT64_C(800000000000001);
	c->xid = test_random(random);
	c->lsn = test_below(random, 3) ? test_random(random) : 0;
	c->lsn_len = 40;
	c->timeline = 1;
	c->statements = 3;
	return c->m.len;
}

static bool
put(StenoProducer *p, const void *message)
{
	const StenoMessage *m = message;
	StenoMessage *to = steno_ring_reserve(p, m->len);

	if (to == NULL)
		return false;
	memcpy(to, m, m->len);
	steno_ring_publish(p, to);
	return true;
}

/* A ring in its second round, that sessions have filled. */
static void
fill(uint32_t i, uint64_t *random)
{
	StenoRing  *ring = steno_ring_at(&rings, i);
	StenoProducer p;
	uint64_t	buffer[LONGEST / 8];
	uint8_t		body[100];
	uint8_t		key = STENO_SESSION_USER;
	const char *user = "alice";
	uint64_t	seq = 0;
	uint32_t	pid = 100;
	uint64_t	start = SIZE + 8 * test_below(random, SIZE / 8);

	memset(ring, 0, sizeof(*ring));
	atomic_store(&ring->head, start);
	atomic_store(&ring->tail, start);
	steno_producer_init(&p, &rings, i);
	published[i] = 0;
	model_encode_session(buffer, body, model_body(body, 7, pid, 1, &key, &user), seq, 0);
	CHECK(put(&p, buffer));
	for (;;)
	{
		uint64_t	what = test_below(random, 11);
		uint64_t	next = seq;

		if (what == 0)
		{
			model_encode_session(buffer, body, model_body(body, 7, ++pid, 1, &key, &user), 0, 0);
			next = 0;
		}
		else if (what == 1)
		{
			next = seq + 3;
			gap_record(buffer, seq + 1, seq + 2);
		}
		else if (what == 2)
			data_part(buffer, random, seq + 1, body);
		else if (what < 6)
			{
			next++;
			brief_record(buffer, random, &p.templates[2]);
		}
		else if (what == 10)
		{
			next++;
			brief_commit(buffer, random);
		}
		else
			random_record(buffer, random, ++next);
		if (!put(&p, buffer))
			break;
		if (what > 2 || what == 1)
			published[i]++;
		seq = next;
	}
	/* and what was running */
	ring->inflight.active = 1;
	ring->inflight.staged = 1;
	ring->inflight.position = start;
	atomic_store(&ring->owner, pid);
}

/* ---- who recovers it ---- */

typedef struct Result
{
	uint64_t	records;
	uint64_t	unreadable;
	uint64_t	damaged;		/* rings */
} Result;

static void
decode(StenoBlock *block, uint64_t *records)
{
	uint8_t		chain[STENO_HASH_SIZE] = {0};
	StenoBlockHeader h;
	StenoBytes	payload;
	StenoDecoder d;
	StenoTrailRecord r;
	StenoDecoded found;
	uint8_t    *buffer;
	uint64_t	n = 0;
	size_t		len;
	const uint8_t *bytes = steno_block_finish(block, STENO_CODEC_NONE, 1, 1, 77, chain, &len);

	CHECK(bytes != NULL && steno_block_open(bytes, len, &h, &payload, &buffer));
	steno_decoder_begin(&d, payload.p, payload.len, h.first_time);
	while ((found = steno_decoder_next(&d, &r)) == STENO_DECODED_RECORD)
		n += r.kind != STENO_KIND_DATA;
	CHECK(found == STENO_DECODED_END && n == h.records);
	*records += n;
	steno_decoder_end(&d);
	free(buffer);
	steno_block_reset(block);
}

static void
add(StenoBlock *block, StenoSource *source, const StenoMessage *m, uint64_t *records)
{
	if (steno_block_add(block, source, m))
		return;
	decode(block, records);
	CHECK(steno_block_add(block, source, m));
}

/* As extension/writer/recover.c does. */
static Result
recover(StenoBlock *block)
{
	Result		result = {0};
	uint32_t	i;

	for (i = 0; i < RINGS; i++)
	{
		StenoRing  *ring = steno_ring_at(&rings, i);
		uint64_t	head = atomic_load(&ring->head);
		uint64_t	position = atomic_load(&ring->tail);
		uint64_t	before = 0;
		StenoSource source = {.generation = UINT64_MAX, .templates = steno_ring_templates(&rings, i),
			.chunks = rings.chunks};
		const StenoMessage *staged = steno_ring_check_staged(&rings, i);

		while (position != head)
		{
			const StenoMessage *m;
			StenoRingCheck found = STENO_RING_DAMAGED;

			if (steno_ring_check_positions(&rings, i))
				found = steno_ring_check_message(&rings, i, position, source.seq, &m);
			if (found == STENO_RING_DAMAGED)
			{
				result.damaged++;
				break;
			}
			if (found == STENO_RING_UNREADABLE)
			{
				result.unreadable++;
				source.seq++;
			}
			else
				add(block, &source, m, &result.records);
			position += m->len;
			before += m->len;
			CHECK(m->len >= sizeof(StenoMessage) && before <= SIZE);
		}
		if (staged != NULL)
		{
			static StenoWhole room;
			uint64_t	none = 0;

			add(block, &source, &steno_message_whole(staged, source.templates, source.seq + 1, 0, &room)->m, &none);
			result.records -= 1;
		}
	}
	decode(block, &result.records);
	return result;
}

TEST(left_rings_that_are_whole_are_read_to_their_ends)
{
	StenoBlock *block = steno_block_create(BLOCK);
	uint64_t	random = test_seed();
	int			runs;

	make_rings();
	for (runs = 0; runs < 200; runs++)
	{
		Result		result;

		fill(0, &random);
		fill(1, &random);
		result = recover(block);
		CHECK(result.damaged == 0 && result.unreadable == 0);
		CHECK(result.records == published[0] + published[1]);
	}
	steno_block_destroy(block);
}

TEST(left_rings_with_damage_are_read_as_far_as_they_are_whole)
{
	StenoBlock *block = steno_block_create(BLOCK);
	uint64_t	random = test_seed();
	uint64_t	runs = test_parameter("LEFT_RUNS", 4000);
	uint64_t	noticed = 0;
	uint8_t    *copy;

	make_rings();
	fill(0, &random);
	fill(1, &random);
	copy = malloc(total);
	CHECK(copy != NULL);
	memcpy(copy, whole, total);
	for (; runs > 0; runs--)
	{
		uint64_t	flips = 1 + test_below(&random, 8);
		/* the header has a test of its own: ring_file_with_a_wrong_header_is_refused */
		uint64_t	from[] = {whole->rings_offset, whole->templates_offset, whole->data_offset, whole->data_offset};
		uint64_t	bytes[] = {256, STENO_TEMPLATES * sizeof(StenoTemplate), RINGS * SIZE, RINGS * SIZE};
		Result		result;

		memcpy(whole, copy, total);
		while (flips-- > 0)
		{
			uint64_t	where = test_below(&random, 4);
			uint8_t    *byte = (uint8_t *) whole + from[where] + test_below(&random, bytes[where]);

			if (test_below(&random, 4) == 0 && byte + 8 <= (uint8_t *) whole + total)
				memset(byte, (int) (test_below(&random, 2) * 255), 1 + test_below(&random, 8));
			else
				*byte ^= (uint8_t) (1 << test_below(&random, 8));
		}
		result = recover(block);
		noticed += result.damaged + result.unreadable > 0;
		CHECK(result.records + result.unreadable <= published[0] + published[1]);
	}
	CHECK(noticed > 100);
	free(copy);
	steno_block_destroy(block);
}

/* One message behind another, and what must not be taken for it. */
static StenoRingCheck
look_after(void (*change) (StenoMessage *))
{
	StenoProducer p;
	uint64_t	buffer[LONGEST / 8];
	uint64_t	random = 1;
	uint64_t	second;
	const StenoMessage *m;

	memset(steno_ring_at(&rings, 0), 0, sizeof(StenoRing));
	memset(steno_ring_data(&rings, 0), 0, SIZE);
	steno_producer_init(&p, &rings, 0);
	random_record(buffer, &random, 1);
	CHECK(put(&p, buffer));
	second = p.head;
	gap_record(buffer, 2, 4);
	CHECK(put(&p, buffer));
	random_record(buffer, &random, 6);
	CHECK(put(&p, buffer));
	change((StenoMessage *) (steno_ring_data(&rings, 0) + second));
	return steno_ring_check_message(&rings, 0, second, 1, &m);
}

static void
nothing(StenoMessage *m)
{
	(void) m;
}

#define CHANGE(name, statement) \
	static void name(StenoMessage *m) { statement; }

CHANGE(no_length, m->len = 0)
CHANGE(another_length, m->len += 8)
CHANGE(another_kind, m->kind = STENO_KIND_SERVER)
CHANGE(unknown_kind, m->kind = 33)
CHANGE(filler, m->kind = 0)
CHANGE(unknown_flag, m->flags |= 64)
CHANGE(another_number, ((StenoRecordMessage *) m)->seq++)
CHANGE(statement_with_that_number, m->kind = STENO_KIND_STATEMENT)
CHANGE(another_string, ((StenoRecordMessage *) m)->extra_len++)

TEST(left_message_must_follow_from_the_one_before)
{
	make_rings();
	CHECK(look_after(nothing) == STENO_RING_GOOD);
	CHECK(look_after(no_length) == STENO_RING_DAMAGED);
	CHECK(look_after(another_kind) == STENO_RING_DAMAGED);
	CHECK(look_after(unknown_kind) == STENO_RING_DAMAGED);
	CHECK(look_after(filler) == STENO_RING_DAMAGED);
	CHECK(look_after(unknown_flag) == STENO_RING_DAMAGED);
	CHECK(look_after(another_number) == STENO_RING_DAMAGED);
	CHECK(look_after(statement_with_that_number) == STENO_RING_DAMAGED);
	CHECK(look_after(another_string) == STENO_RING_DAMAGED);
	/* its strings are whole: the next message is none */
	CHECK(look_after(another_length) == STENO_RING_GOOD);
}

static uint64_t
dropped(uint64_t count, uint64_t first, uint64_t last)
{
	return steno_ring_check_gap(&count, first, last) ? count : 99;
}

TEST(left_drops_are_no_more_than_were_dropped)
{
	static const struct
	{
		uint64_t	orphans,
					recorded,
					drops;
		bool		can_be;
	}			cases[] = {
		{0, 0, 0, true}, {2, 0, 2, true}, {2, 1, 7, true}, {2, 2, 2, true}, {9, 9, 2, true},
		{3, 0, 2, false}, {1, 2, 7, false}, {UINT64_C(1) << 49, 0, 2, false},
	};
	static StenoRing ring;
	size_t		i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		atomic_store(&ring.orphan_drops, cases[i].orphans);
		ring.orphan_drops_recorded = cases[i].recorded;
		atomic_store(&ring.drops, cases[i].drops);
		CHECK(steno_ring_check_orphan_drops(&ring) == cases[i].can_be);
	}
}

TEST(left_gaps_have_as_many_numbers_as_they_count)
{
	CHECK(dropped(3, 5, 7) == 3);
	/* he died between the two */
	CHECK(dropped(2, 5, 7) == 3 && dropped(4, 5, 7) == 3 && dropped(1, 5, 4) == 0);
	CHECK(dropped(1, 5, 7) == 99 && dropped(5, 5, 7) == 99);
	CHECK(dropped(2, 5, 3) == 99);
	CHECK(dropped(3, 0, 2) == 99);
	CHECK(dropped(UINT64_MAX, 1, UINT64_MAX) == 99);
}

/* A record whose parameters are in a list, the value. */
static StenoRingCheck
look_at_list(const void *value, uint32_t len)
{
	static const uint8_t reprs[] = {STENO_REPR_LIST};
	StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, 1, 5);
	StenoProducer p;
	uint64_t	buffer[LONGEST / 8];
	uint8_t		shape[100];
	ModelStrings s = {0};
	const StenoMessage *m;

	memset(steno_ring_at(&rings, 0), 0, sizeof(StenoRing));
	memset(steno_ring_data(&rings, 0), 0, SIZE);
	steno_producer_init(&p, &rings, 0);
	s.shape = shape;
	s.shape_len = make_shape(shape, reprs, 1, false);
	s.values = value;
	s.values_len = len;
	r.statement = 1;
	model_encode(buffer, &r, &s);
	CHECK(put(&p, buffer));
	return steno_ring_check_message(&rings, 0, 0, 0, &m);
}

TEST(left_lists_of_parameters_must_be_whole)
{
	make_rings();
	/* int4, a NULL, a text */
	CHECK(look_at_list("\x0e\3\27\3\1\2\3\4\27\x83\31\10\2hi", 15) == STENO_RING_GOOD);
	CHECK(look_at_list("\1\0", 2) == STENO_RING_GOOD);
	/* of a representation that nobody knows, nobody knows the end */
	CHECK(look_at_list("\6\1\27\143\1\2\3", 7) == STENO_RING_GOOD);
	/* fewer than it says, more than it says, more than there is room for */
	CHECK(look_at_list("\7\2\27\3\1\2\3\4", 8) == STENO_RING_UNREADABLE);
	CHECK(look_at_list("\x08\1\27\3\1\2\3\4\5", 9) == STENO_RING_UNREADABLE);
	CHECK(look_at_list("\7\xff\xff\3\27\3\1\2", 8) == STENO_RING_UNREADABLE);
	/* a value that is too short, a list in a list, bytes behind it */
	CHECK(look_at_list("\5\1\27\3\1\2", 6) == STENO_RING_UNREADABLE);
	CHECK(look_at_list("\4\1\0\25\0", 5) == STENO_RING_UNREADABLE);
	CHECK(look_at_list("\1\0\0", 3) == STENO_RING_UNREADABLE);
	CHECK(look_at_list("", 0) == STENO_RING_UNREADABLE);
}
