/*
 * core/fuzz/record_fuzz.c
 *		Any bytes, as a recipe of records, brief ones and their templates included: sessions
 *		put them into a ring, a writer reads it into blocks, and the decoder must find there
 *		what was put in, both unencrypted and encrypted.
 *
 * Bytes beyond the end of a recipe are zeros, so that every recipe makes whole records.
 */
#include <stdlib.h>

#include "test/model.h"

int			steno_fuzz_records(const uint8_t *data, size_t size);

#define SOURCES 3
#define RING (64 * 1024)
#define LONGEST (RING / STENO_RING_SHARE)
#define MOST_RECORDS 400

/* ---- the recipe ---- */

typedef struct Recipe
{
	const uint8_t *p;
	const uint8_t *end;
	uint8_t		filler;			/* long strings repeat, as texts do */
} Recipe;

static uint8_t
byte(Recipe *r)
{
	return r->p < r->end ? *r->p++ : 0;
}

/* A number of up to eight bytes; the first byte determines how many. */
static uint64_t
number(Recipe *r)
{
	uint64_t	v = 0;
	int			n = byte(r) % 9;

	while (n-- > 0)
		v = v << 8 | byte(r);
	return v;
}

/*
 * A string of at most most bytes: the first 16 are copied from the recipe, and repeated
 * with the filler added.
 */
static uint32_t
string(Recipe *r, uint8_t *to, uint32_t most)
{
	uint32_t	len = byte(r);
	uint32_t	i;

	if (len >= 240)
		len = (len - 239) * 200;
	len = len > most ? most : len;
	for (i = 0; i < len; i++)
		to[i] = i < 16 ? byte(r) : (uint8_t) (to[i % 16] + r->filler);
	return len;
}

/* A whole shape definition, as specified in FORMAT.md. */
static uint32_t
shape(Recipe *r, uint8_t *to, uint32_t *nparams)
{
	uint8_t    *p = to;
	uint32_t	n = byte(r) % 4;
	uint32_t	len;

	p = steno_put_varint(p, number(r));
	p = steno_put_varint(p, number(r));
	len = byte(r) % 20;
	p = steno_put_varint(p, len);
	while (len-- > 0)
		*p++ = byte(r);
	p = steno_put_varint(p, n);
	while (n-- > 0)
	{
		*p++ = byte(r);
		p = steno_put_varint(p, number(r));
		len = byte(r) % 70;
		p = steno_put_varint(p, len);
		while (len-- > 0)
			*p++ = byte(r);
	}
	*nparams = byte(r) % 40;
	p = steno_put_varint(p, *nparams);
	for (n = 0; n < *nparams; n++)
	{
		p = steno_put_varint(p, number(r));
		*p++ = byte(r);
	}
	if (byte(r) & 1)
	{
		n = byte(r) % 3;
		p = steno_put_varint(p, n);
		while (n-- > 0)
		{
			int			i;

			*p++ = byte(r);
			for (i = 0; i < 3; i++)
			{
				len = byte(r) % 40;
				p = steno_put_varint(p, len);
				while (len-- > 0)
					*p++ = byte(r);
			}
		}
	}
	return (uint32_t) (p - to);
}

static uint32_t
extra(Recipe *r, uint8_t *to, uint8_t *count)
{
	uint8_t    *p = to;
	int			i;

	*count = (uint8_t) (byte(r) % 5);
	for (i = 0; i < 2 * *count; i++)
	{
		uint32_t	len = byte(r) % 50;

		p = steno_put_varint(p, len);
		while (len-- > 0)
			*p++ = byte(r);
	}
	return (uint32_t) (p - to);
}

/* Make one record at to, which has space for the longest message. */
static void
record(Recipe *r, void *to, uint64_t seq)
{
	static uint8_t text[4000];
	static uint8_t values[1000];
	uint8_t		shapes[1200];
	uint8_t		nulls[8];
	uint8_t		message[600];
	uint8_t		pairs[600];
	uint16_t	has = (uint16_t) (byte(r) | byte(r) << 8);
	StenoRecordMessage m = model_record((uint16_t) (1 + byte(r) % 63), seq, (int64_t) number(r));
	ModelStrings s = {0};
	StenoParts	parts;
	StenoCut	cut;
	uint32_t	nparams = 0;
	size_t		i;

	if (has & 1)
	{
		s.shape = shapes;
		s.shape_len = shape(r, shapes, &nparams);
	}
	if (has & 2)
	{
		s.text = text;
		s.text_len = string(r, text, sizeof(text));
	}
	if (has & 4 && nparams > 0)
	{
		s.nulls = nulls;
		s.nulls_len = (nparams + 7) / 8;
		for (i = 0; i < s.nulls_len; i++)
			nulls[i] = byte(r);
	}
	if (has & 8)
	{
		s.values = values;
		s.values_len = string(r, values, sizeof(values));
	}
	if (has & 16)
	{
		s.message = message;
		s.message_len = string(r, message, sizeof(message));
		for (i = 0; i < 5; i++)
			m.sqlstate[i] = (char) ('0' + byte(r) % 43);
	}
	if (has & 32)
	{
		s.extra = pairs;
		s.extra_len = extra(r, pairs, &m.extra_count);
	}
	if (has & 64)
	{
		for (i = 0; i < STENO_PARTS; i++)
			parts.bytes[i] = number(r);
		s.parts = &parts;
	}
	if (has & 128)
	{
		cut.len = number(r);
		for (i = 0; i < sizeof(cut.hash); i++)
			cut.hash[i] = byte(r);
		s.cut = &cut;
	}
	if (has & 256)
		m.rows = number(r) >> 1;
	if (has & 512)
		m.duration = number(r) >> 1;
	if (has & 1024)
	{
		m.depth = (uint16_t) number(r);
		m.substatement = (uint32_t) number(r);
	}
	if (has & 2048)
		m.outcome = byte(r);
	if (has & 4096)
	{
		uint64_t	xid = number(r);

		m.xid = (uint32_t) xid;
		m.xid_epoch = (uint32_t) (xid >> 32);
	}
	if (has & 8192)
		m.audited = byte(r);
	if (m.m.kind <= STENO_KIND_START)
		m.statement = number(r);
	r->filler = byte(r);
	model_encode(to, &m, &s);
}

/* ---- ring and block ---- */

typedef struct Session
{
	StenoRings	rings;			/* of one ring */
	StenoProducer producer;
	StenoSource source;			/* read by the writer */
	uint64_t	position;
	uint64_t	seq;
	uint64_t	read_seq;		/* what the messages before position say */
	uint64_t	read_statement;
	uint32_t	nparams[STENO_TEMPLATES];
} Session;

/* The expected contents of the block: a copy of each message, and its session. */
typedef struct Kept
{
	uint64_t	bytes[LONGEST / 8];
	uint8_t		body[STENO_SESSION_MAX];
	uint32_t	body_len;
} Kept;

typedef struct Bench
{
	Session		sessions[SOURCES];
	StenoBlock *block;
	StenoIndex *index;			/* of the blocks, which no writer writes */
	StenoCrypt *crypt;
	uint8_t		data_key[STENO_KEY_SIZE];
	uint64_t	blocks;
	Kept		kept[MOST_RECORDS];
	int			nkept;
} Bench;

static void
must(bool right)
{
	if (!right)
		abort();
}

/* A ring file of one ring, in the state of a new one. */
static void
make_rings(StenoRings *rings)
{
	size_t		total = (size_t) steno_rings_total(1, RING, 0);
	StenoRingFile *f = rings->file;

	if (f == NULL)
	{
		f = aligned_alloc(STENO_PAGE, total);
		must(f != NULL);
		memset(f, 0, total);
		steno_rings_describe(f, 1, RING, 0, 1, 0, 0);
		must(steno_rings_attach(rings, f, total, f) == NULL);
	}
	memset(steno_ring_at(rings, 0), 0, sizeof(StenoRing));
	memset(steno_ring_templates(rings, 0), 0, STENO_TEMPLATES * sizeof(StenoTemplate));
}

/* Like a stream that begins an encrypted segment. */
static void
begin_encryption(Bench *b)
{
	const uint8_t key[STENO_KEY_SIZE] = {7};
	StenoSegmentHeader sh = {.version = STENO_FORMAT_VERSION, .segment = 1, .first_block = 1, .first_record = 1};
	uint8_t		header[1024] = {0};

	b->crypt = steno_crypt_create();
	must(b->crypt != NULL && steno_crypt_set_key(b->crypt, key));
	steno_crypt_describe(b->crypt, &sh);
	steno_segment_header_write(header, &sh);
	must(steno_crypt_begin(b->crypt, header));
	steno_crypt_begun(b->crypt);
	must(steno_data_key_read(header, key, b->data_key));
}

/* Check that the block contains what was put in. */
static void
check(Bench *b, StenoCrypt *crypt)
{
	StenoBlockHeader h;
	StenoBytes	payload;
	StenoDecoder d;
	StenoTrailRecord r;
	uint8_t		chain[STENO_HASH_SIZE] = {0};
	uint8_t    *buffer;
	size_t		len;
	const uint8_t *bytes;
	int			i;

	steno_block_set_crypt(b->block, crypt);
	bytes = steno_block_finish(b->block, b->blocks & 1 ? STENO_CODEC_LZ4 : STENO_CODEC_NONE,
							   b->blocks + 1, 1, 77, chain, &len);
	must(bytes != NULL);
	must(steno_block_decrypt(bytes, len, crypt ? b->data_key : NULL, &h, &payload, &buffer));
	must(((h.flags & STENO_BLOCK_ENCRYPTED) != 0) == (crypt != NULL));
	steno_decoder_begin(&d, payload.p, payload.len, h.first_time);
	for (i = 0; i < b->nkept; i++)
	{
		const Kept *k = &b->kept[i];

		must(steno_decoder_next(&d, &r) == STENO_DECODED_RECORD);
		must(model_matches((const StenoMessage *) k->bytes, k->body, k->body_len, &r));
	}
	must(steno_decoder_next(&d, &r) == STENO_DECODED_END);
	steno_decoder_end(&d);
	free(buffer);
}

/* The block is full, or everything has been put in. */
static void
finish(Bench *b)
{
	check(b, NULL);
	check(b, b->crypt);
	b->blocks++;
	b->nkept = 0;
	steno_index_commit(b->index, 1, b->blocks, 20000);
	steno_block_reset(b->block);
}

/* The block has the message: that is what it must be decoded to, a brief one in its full form. */
static void
keep(Bench *b, Session *s, const StenoMessage *m)
{
	Kept	   *k = &b->kept[b->nkept];
	StenoWhole	room;
	const StenoMessage *whole = m;

	if (m->kind != STENO_KIND_DATA)
	{
		whole = &steno_message_whole(m, s->source.templates, s->read_seq + 1, s->read_statement + 1, &room)->m;
		steno_message_advance(m, &s->read_seq, &s->read_statement);
	}
	memcpy(k->bytes, whole, whole->len);
	memcpy(k->body, s->source.body, s->source.body_len);
	k->body_len = s->source.body_len;
	b->nkept++;
}

/* Brief records that the block takes in a row. */
static void
drain_row(Bench *b, Session *s, uint64_t head)
{
	const uint8_t *data = steno_ring_data(&s->rings, 0);
	uint64_t	end = s->position;
	int			n;

	for (n = b->nkept; n < MOST_RECORDS && end != head; n++)
		end += steno_ring_message(data, RING, end)->len;
	end = steno_block_add_brief(b->block, &s->source, data, RING, s->position, end);
	while (s->position != end)
	{
		const StenoMessage *m = steno_ring_message(data, RING, s->position);

		keep(b, s, m);
		s->position += m->len;
	}
}

/* The writer's part: read everything that is published. */
static void
drain(Bench *b, Session *s)
{
	StenoRing  *ring = steno_ring_at(&s->rings, 0);
	uint64_t	head = steno_ring_published(ring);

	while (drain_row(b, s, head), s->position != head)
	{
		const StenoMessage *m = steno_ring_message(steno_ring_data(&s->rings, 0), RING, s->position);

		must(steno_message_is_whole(m, head - s->position) || m->kind == 0);
		if (m->kind != 0)
		{
			if (b->nkept == MOST_RECORDS)
				finish(b);
			if (!steno_block_add(b->block, &s->source, m))
			{
				finish(b);
				must(steno_block_add(b->block, &s->source, m));
			}
			if (m->kind != STENO_KIND_DEF_SESSION)
				keep(b, s, m);
			else
			{
				s->read_seq = ((const StenoSessionMessage *) m)->seq;
				s->read_statement = ((const StenoSessionMessage *) m)->statement;
			}
			if (m->kind != STENO_KIND_DATA)
				must(s->source.seq == s->read_seq && s->source.statement == s->read_statement);
		}
		s->position += m->len;
	}
	steno_ring_free(ring, s->position);
}

/* The session's part. */
static void
put(Bench *b, Session *s, const StenoMessage *m)
{
	uint32_t	total;
	StenoMessage *to = steno_ring_reserve(&s->producer, m->len);

	if (to == NULL)
	{
		drain(b, s);
		to = steno_ring_reserve(&s->producer, m->len);
		must(to != NULL);
	}
	total = to->len;
	memcpy(to, m, m->len);
	to->len = total;
	steno_ring_publish(&s->producer, to);
}

static void
describe(Bench *b, Session *s, Recipe *r, void *buffer)
{
	uint8_t		body[STENO_SESSION_MAX];
	uint8_t		keys[2];
	char		values[2][200];
	const char *list[2] = {values[0], values[1]};
	int			i;

	for (i = 0; i < 2; i++)
	{
		uint32_t	len = string(r, (uint8_t *) values[i], sizeof(values[i]) - 1);

		values[i][len] = '\0';
		keys[i] = byte(r);
	}
	model_encode_session(buffer, body,
						 model_body(body, (int64_t) number(r), (uint32_t) number(r), byte(r) % 3, keys, list),
						 s->seq, number(r));
	put(b, s, buffer);
}

/* ---- brief records ---- */

/* Define a template of the session's ring, which no record there needs any more. */
static void
define(Bench *b, Session *s, Recipe *r)
{
	uint8_t		shapes[1200];
	uint32_t	i = byte(r) % STENO_TEMPLATES;
	StenoTemplate *t = &steno_ring_templates(&s->rings, 0)[i];

	drain(b, s);
	t->version++;
	t->shape_len = (uint16_t) shape(r, shapes, &s->nparams[i]);
	if (t->shape_len > STENO_TEMPLATE_ROOM)
	{
		t->shape_len = STENO_BARE_SHAPE;
		s->nparams[i] = 0;
		memcpy(shapes, steno_bare_shapes[0], STENO_BARE_SHAPE);
	}
	memcpy(t->bytes, shapes, t->shape_len);
	t->text_len = (uint16_t) string(r, t->bytes + t->shape_len, STENO_TEMPLATE_ROOM - t->shape_len);
	t->own_at = byte(r) & 1 ? (uint16_t) (1 + number(r) % (t->text_len + 1u)) : 0;
}

/* The record of a commit at to. */
static void
commit(Recipe *r, void *to)
{
	StenoCommitMessage c = {{sizeof(c), STENO_KIND_TRANSACTION, STENO_MESSAGE_BRIEF}, .time = (int64_t) number(r)};

	c.xid = number(r);
	c.lsn = number(r);
	c.lsn_len = (uint32_t) number(r);
	c.timeline = byte(r);
	c.duration = (uint32_t) number(r);
	c.statements = byte(r);
	memcpy(to, &c, sizeof(c));
}

static uint8_t *
append(StenoBriefMessage *m, uint8_t *p, uint16_t flag, const void *bytes, size_t len)
{
	m->m.flags |= flag;
	memcpy(p, bytes, len);
	return p + len;
}

/* The record of a statement, at to, that has a template, or is BEGIN or COMMIT. */
static void
brief(Session *s, Recipe *r, void *to)
{
	StenoBriefMessage *m = to;
	uint8_t		has = byte(r);
	uint8_t		i = byte(r) % (STENO_TEMPLATES + 2);
	bool		control = i >= STENO_TEMPLATES;
	const StenoTemplate *t = control ? NULL : &steno_ring_templates(&s->rings, 0)[i];
	uint8_t    *p = m->values;
	uint32_t	nulls_len = 0;

	memset(m, 0, STENO_BRIEF_FIXED);
	steno_brief_encode(m, has & 1 && !control ? STENO_MESSAGE_VALUES : 0, (int64_t) number(r),
					   control ? (uint8_t) (i - STENO_TEMPLATES + STENO_BRIEF_BEGIN) : i, 0);
	m->duration = has & 2 ? (uint32_t) number(r) : STENO_NONE32;
	m->rows = has & 4 ? (uint32_t) number(r) : STENO_NONE32;
	m->version = control ? 0 : (uint16_t) (t->version + (has >= 250));
	if (t != NULL && steno_template_varies(t))
	{
		m->values[0] = (uint8_t) string(r, m->values + 1, 200);
		p += 1 + m->values[0];
	}
	if ((has & 9) == 9 && t != NULL && s->nparams[i] > 0)
	{
		nulls_len = (s->nparams[i] + 7) / 8;
		memset(p, byte(r), nulls_len);
		p += nulls_len;
	}
	if (has & 1)
		p += string(r, p, (uint32_t) (UINT8_MAX - (p - m->values)));
	m->values_len = (uint8_t) (p - m->values);
	p = (uint8_t *) m + steno_brief_len(m->values_len);
	if (has & 16)
	{
		uint64_t	xid = number(r);

		p = append(m, p, STENO_MESSAGE_XID, &xid, sizeof(xid));
	}
	if (has & 32)
	{
		StenoBriefNumbers n;

		n.statement = number(r);
		n.duration = number(r) >> 1;
		n.rows = number(r) >> 1;
		p = append(m, p, STENO_MESSAGE_NUMBERS, &n, sizeof(n));
	}
	if (nulls_len > 0 || has & 64)
	{
		StenoBriefNesting n = {.nulls_len = (uint16_t) nulls_len};

		n.substatement = byte(r);
		n.depth = (uint16_t) (1 + byte(r) % 3);
		p = append(m, p, STENO_MESSAGE_NESTED, &n, sizeof(n));
	}
	m->m.len = (uint32_t) (p - (uint8_t *) m);
	r->filler = byte(r);
}

/* ---- recipes ---- */

static void
one(Bench *b, Recipe *r)
{
	static uint64_t buffer[LONGEST / 8];
	uint8_t		what = byte(r);
	Session    *s = &b->sessions[what % SOURCES];
	uint8_t		bytes[2000];

	/* a session begins with its session message */
	if (s->source.body_len == 0 && s->producer.head == 0)
		describe(b, s, r, buffer);
	switch (what / SOURCES % 16)
	{
		case 0:
			describe(b, s, r, buffer);
			return;
		case 1:
			model_encode_data(buffer, number(r), byte(r) % STENO_PARTS, bytes, string(r, bytes, sizeof(bytes)));
			break;
		case 2:
			s->seq = number(r) >> 1;
			record(r, buffer, s->seq);
			break;
		case 3:
			record(r, buffer, 0);	/* message of a writer */
			break;
		case 4:
			drain(b, s);
			return;
		case 8:
			define(b, s, r);
			return;
		case 9:
			commit(r, buffer);
			s->seq++;
			break;
		case 10:
		case 11:
		case 12:
		case 13:
			brief(s, r, buffer);
			s->seq++;
			break;
		default:
			record(r, buffer, ++s->seq);
			break;
	}
	put(b, s, (StenoMessage *) buffer);
}

static uint8_t indexed[STENO_INDEX_MAX];

int
steno_fuzz_records(const uint8_t *data, size_t size)
{
	static Bench b;
	Recipe		r = {data, data + size, 0};
	int			i;

	if (b.block == NULL)
	{
		b.block = steno_block_create(64 * 1024);
		b.index = steno_index_create();
		must(b.block != NULL && b.index != NULL);
		steno_block_set_index(b.block, b.index);
		begin_encryption(&b);
	}
	steno_block_reset(b.block);
	b.blocks = 0;
	for (i = 0; i < SOURCES; i++)
	{
		Session    *s = &b.sessions[i];

		make_rings(&s->rings);
		steno_producer_init(&s->producer, &s->rings, 0);
		memset(&s->source, 0, sizeof(s->source));
		s->source.generation = UINT64_MAX;
		s->source.templates = steno_ring_templates(&s->rings, 0);
		s->position = 0;
		s->seq = 0;
		s->read_seq = 0;
		s->read_statement = 0;
		memset(s->nparams, 0, sizeof(s->nparams));
	}
	while (r.p < r.end)
		one(&b, &r);
	for (i = 0; i < SOURCES; i++)
		drain(&b, &b.sessions[i]);
	finish(&b);
	must(steno_index_take(b.index, indexed) <= sizeof(indexed));
	return 0;
}

#ifdef STENO_FUZZER
int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return steno_fuzz_records(data, size);
}
#endif
