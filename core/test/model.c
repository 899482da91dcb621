/*
 * core/test/model.c
 *		Random messages, and the comparison of model.h.
 */
#include "test/model.h"
#include "test/test.h"

StenoRecordMessage
model_record(uint16_t kind, uint64_t seq, int64_t time)
{
	StenoRecordMessage r;

	memset(&r, 0, sizeof(r));
	r.m.kind = kind;
	r.seq = seq;
	r.time = time;
	r.duration = STENO_NONE64;
	r.rows = STENO_NONE64;
	return r;
}

static uint8_t *
append(uint8_t *p, const void *bytes, size_t len)
{
	if (len > 0)
		memcpy(p, bytes, len);
	return p + len;
}

uint32_t
model_encode(void *to, const StenoRecordMessage *fixed, const ModelStrings *s)
{
	StenoRecordMessage *r = to;
	uint8_t    *p = (uint8_t *) (r + 1);

	*r = *fixed;
	r->m.flags = (s->parts ? STENO_MESSAGE_PARTS : 0) | (s->cut ? STENO_MESSAGE_CUT : 0) |
		(s->values ? STENO_MESSAGE_VALUES : 0) | (s->ending ? STENO_MESSAGE_ENDING : 0);
	r->shape_len = s->shape_len;
	r->text_len = s->text ? s->text_len : STENO_NONE32;
	r->nulls_len = s->nulls_len;
	r->values_len = s->values_len;
	r->message_len = s->message_len;
	r->extra_len = s->extra_len;
	p = append(p, s->parts, s->parts ? sizeof(StenoParts) : 0);
	p = append(p, s->cut, s->cut ? sizeof(StenoCut) : 0);
	p = append(p, s->ending, s->ending ? sizeof(StenoEnding) : 0);
	p = append(p, s->shape, s->shape_len);
	p = append(p, s->text, s->text ? s->text_len : 0);
	p = append(p, s->nulls, s->nulls_len);
	p = append(p, s->values, s->values_len);
	p = append(p, s->message, s->message_len);
	p = append(p, s->extra, s->extra_len);
	r->m.len = ((uint32_t) (p - (uint8_t *) to) + 7) & ~7u;
	if (s->times)
	{
		r->m.flags |= STENO_MESSAGE_TIMES;
		memcpy((uint8_t *) to + r->m.len, s->times, sizeof(StenoTimes));
		r->m.len += sizeof(StenoTimes);
	}
	return r->m.len;
}

void
model_append_brief(StenoBriefMessage *b, uint16_t flag, const void *bytes, uint32_t len)
{
	memcpy((uint8_t *) b + b->m.len, bytes, len);
	b->m.flags |= flag;
	b->m.len += len;
}

uint32_t
model_encode_data(void *to, uint64_t seq, uint32_t part, const void *bytes, uint32_t len)
{
	StenoDataMessage *d = to;

	d->m.len = ((uint32_t) sizeof(*d) + len + 7) & ~7u;
	d->m.kind = STENO_KIND_DATA;
	d->m.flags = 0;
	d->seq = seq;
	d->part = part;
	d->len = len;
	memcpy(d + 1, bytes, len);
	return d->m.len;
}

uint32_t
model_encode_session(void *to, const void *body, uint32_t len, uint64_t seq, uint64_t statement)
{
	StenoSessionMessage *s = to;

	s->m.len = ((uint32_t) sizeof(*s) + len + 7) & ~7u;
	s->m.kind = STENO_KIND_DEF_SESSION;
	s->m.flags = 0;
	s->body_len = len;
	s->pad = 0;
	s->seq = seq;
	s->statement = statement;
	memcpy(s + 1, body, len);
	return s->m.len;
}

uint32_t
model_body(uint8_t *to, int64_t start, uint32_t pid, int n,
		   const uint8_t *keys, const char *const *values)
{
	uint8_t    *p = to;
	int			i;

	p = steno_put_le(p, (uint64_t) start, 8);
	p = steno_put_le(p, pid, 4);
	for (i = 0; i < n; i++)
	{
		*p++ = keys[i];
		p = steno_put_varint(p, strlen(values[i]));
		p = append(p, values[i], strlen(values[i]));
	}
	return (uint32_t) (p - to);
}

/* ---- random ---- */

static uint32_t
random_bytes(uint8_t *to, uint32_t len, uint64_t *random)
{
	uint32_t	i;

	for (i = 0; i < len; i++)
		to[i] = (uint8_t) test_random(random);
	return len;
}

/* The trailing list of a shape, which may be there and empty. */
static uint8_t *
random_objects(uint8_t *p, uint64_t *state)
{
	uint64_t	n = test_below(state, 4);

	p = steno_put_varint(p, n);
	while (n-- > 0)
	{
		uint32_t	i;

		*p++ = (uint8_t) test_random(state);
		for (i = 0; i < 3; i++)
		{
			uint32_t	len = (uint32_t) test_below(state, 30);

			p = steno_put_varint(p, len);
			p += random_bytes(p, len, state);
		}
	}
	return p;
}

/* One of a few shapes, or with luck one of many. */
static uint32_t
random_shape(uint8_t *to, uint64_t *random, uint32_t *nparams)
{
	uint64_t	which = test_below(random, test_below(random, 10) ? 5 : 5000);
	uint64_t	state = which;
	uint64_t	n = test_below(&state, 3);
	uint8_t    *p = to;

	*nparams = (uint32_t) test_below(&state, 20);
	p = steno_put_varint(p, which % 12);
	p = steno_put_varint(p, test_random(&state));
	p = steno_put_varint(p, 6);
	p = append(p, "SELECT", 6);
	p = steno_put_varint(p, n);
	while (n-- > 0)
	{
		*p++ = 1;
		p = steno_put_varint(p, 1);
		p = steno_put_varint(p, 8);
		p = append(p, "public.t", 8);
	}
	p = steno_put_varint(p, *nparams);
	for (n = 0; n < *nparams; n++)
	{
		p = steno_put_varint(p, test_below(&state, 5000));
		*p++ = (uint8_t) test_below(&state, 21);
	}
	if (test_below(&state, 2))
		p = random_objects(p, &state);
	return (uint32_t) (p - to);
}

static uint32_t
random_text(uint8_t *to, uint32_t max, uint64_t *random)
{
	uint64_t	state = test_below(random, test_below(random, 4) ? 20 : 1000000);
	uint64_t	len = test_below(&state, test_below(&state, 10) ? 200 : max);

	return random_bytes(to, (uint32_t) len, &state);
}

static uint64_t
random_number(uint64_t *random)
{
	return test_random(random) >> test_below(random, 64);
}

static int64_t
random_time(uint64_t *random)
{
	if (test_below(random, 50) == 0)
		return (int64_t) test_random(random) >> 2;
	return INT64_C(800000000000000) + (int64_t) test_below(random, 2000000);
}

static uint32_t
random_extra(uint8_t *to, uint64_t *random, uint8_t *count)
{
	uint8_t    *p = to;
	int			i;

	*count = (uint8_t) (1 + test_below(random, 3));
	for (i = 0; i < 2 * *count; i++)
	{
		uint32_t	len = (uint32_t) test_below(random, 40);

		p = steno_put_varint(p, len);
		p += random_bytes(p, len, random);
	}
	return (uint32_t) (p - to);
}

static uint16_t
random_kind(uint64_t *random)
{
	if (test_below(random, 4))
		return STENO_KIND_STATEMENT;
	return (uint16_t) (1 + test_below(random, test_below(random, 4) ? 10 : 63));
}

uint32_t
model_random(void *to, uint32_t room, uint64_t *random, uint64_t seq, uint64_t *statement)
{
	StenoRecordMessage r = model_record(random_kind(random), seq, random_time(random));
	ModelStrings s = {0};
	StenoParts	parts;
	StenoCut	cut;
	StenoEnding ending = {0};
	StenoTimes	times;
	static uint8_t text[1 << 20];
	uint8_t		shape[1000];
	uint8_t		values[600];
	uint8_t		nulls[8];
	uint8_t		message[300];
	uint8_t		extra[300];
	uint32_t	nparams = 0;

	if (test_below(random, 8))
	{
		s.shape = shape;
		s.shape_len = random_shape(shape, random, &nparams);
	}
	if (test_below(random, 8))
	{
		s.text = text;
		s.text_len = random_text(text, room - 3232, random);
	}
	if (nparams > 0 && test_below(random, 3) == 0)
	{
		s.nulls = nulls;
		s.nulls_len = random_bytes(nulls, (nparams + 7) / 8, random);
	}
	if (test_below(random, 2))
	{
		uint64_t	most = test_below(random, 4) ? 40 : sizeof(values);

		s.values = values;
		s.values_len = random_bytes(values, (uint32_t) test_below(random, most), random);
	}
	if (test_below(random, 8) == 0)
	{
		s.message = message;
		s.message_len = random_bytes(message, (uint32_t) test_below(random, sizeof(message)), random);
		memcpy(r.sqlstate, "42P01", 5);
	}
	if (test_below(random, 8) == 0)
	{
		s.extra = extra;
		s.extra_len = random_extra(extra, random, &r.extra_count);
	}
	if (test_below(random, 8) == 0)
	{
		parts.bytes[0] = random_number(random);
		parts.bytes[1] = random_number(random);
		parts.bytes[2] = random_number(random);
		s.parts = &parts;
	}
	if (test_below(random, 8) == 0)
	{
		cut.len = random_number(random);
		random_bytes(cut.hash, sizeof(cut.hash), random);
		s.cut = &cut;
	}
	if (test_below(random, 8) == 0)
	{
		ending.event = (uint8_t) test_below(random, 7);
		ending.statements = test_below(random, 3) ? random_number(random) : STENO_NONE64;
		ending.lsn = test_below(random, 3) ? random_number(random) : 0;
		ending.lsn_end = ending.lsn + test_below(random, 100);
		ending.timeline = (uint32_t) random_number(random);
		s.ending = &ending;
	}
	if (test_below(random, 8) == 0)
	{
		times.analysis = test_below(random, 2) ? random_number(random) : 0;
		times.plan = test_below(random, 2) ? random_number(random) : 0;
		times.commit = test_below(random, 2) ? random_number(random) : 0;
		times.elapsed = test_below(random, 2) ? random_number(random) >> 1 : STENO_NONE64;
		s.times = &times;
	}
	if (test_below(random, 2))
		r.rows = random_number(random) >> 1;
	if (test_below(random, 2))
		r.duration = random_number(random) >> 1;
	if (test_below(random, 4) == 0)
	{
		r.depth = (uint16_t) test_random(random);
		r.substatement = (uint32_t) random_number(random);
	}
	if (test_below(random, 4) == 0)
		r.outcome = (uint8_t) test_random(random);
	if (test_below(random, 4) == 0)
	{
		r.xid = (uint32_t) random_number(random);
		r.xid_epoch = test_below(random, 2) ? (uint32_t) random_number(random) : 0;
	}
	if (test_below(random, 4) == 0)
		r.audited = (uint8_t) test_random(random);
	if (r.m.kind <= STENO_KIND_START)
	{
		if (test_below(random, 10) == 0)
			*statement = random_number(random);
		r.statement = *statement;
		if (r.m.kind == STENO_KIND_STATEMENT && r.depth == 0)
			++*statement;
	}
	return model_encode(to, &r, &s);
}

/* ---- comparison ---- */

static bool
same(StenoBytes b, bool present, const uint8_t **p, uint32_t len)
{
	bool		ok = b.len == (present ? len : 0) &&
		(b.len == 0 || memcmp(b.p, *p, len) == 0);

	*p += len;
	return ok;
}

#define AGREE(condition) \
	do \
	{ \
		if (!(condition)) \
		{ \
			fprintf(stderr, "record %llu: %s\n", (unsigned long long) r->seq, #condition); \
			return false; \
		} \
	} while (0)

static bool
matches_data(const StenoDataMessage *d, const StenoTrailRecord *r)
{
	const uint8_t *p = (const uint8_t *) (d + 1);

	AGREE(r->seq == d->seq);
	AGREE(r->part == d->part);
	AGREE(same(r->values, true, &p, d->len));
	return true;
}

static bool
matches_fixed(const StenoRecordMessage *m, const StenoTrailRecord *r)
{
	bool		numbered = m->m.kind <= STENO_KIND_START;
	StenoTimes	times = steno_message_times(&m->m);

	AGREE(r->seq == m->seq);
	AGREE(r->time == m->time);
	AGREE(r->statement == (numbered ? m->statement : 0));
	AGREE(((r->mask & STENO_FIELD_ROWS) != 0) == (m->rows != STENO_NONE64));
	AGREE(m->rows == STENO_NONE64 || r->rows == m->rows);
	AGREE(((r->mask & STENO_FIELD_DURATION) != 0) == (m->duration != STENO_NONE64));
	AGREE(m->duration == STENO_NONE64 || r->duration == m->duration);
	AGREE(r->depth == m->depth);
	AGREE(r->substatement == m->substatement);
	AGREE(r->outcome == m->outcome);
	AGREE(r->xid == steno_message_xid(m));
	AGREE(((r->mask & STENO_FIELD_AUDITED) != 0) == (m->audited != 0));
	AGREE(r->audited == m->audited);
	AGREE(r->extra_count == m->extra_count);
	AGREE(r->times.analysis == times.analysis && r->times.plan == times.plan && r->times.commit == times.commit &&
		  r->times.elapsed == times.elapsed);
	return true;
}

static bool
matches_ending(const StenoEnding *e, const StenoTrailRecord *r)
{
	bool		committed = e->lsn != 0;

	AGREE(((r->mask & STENO_FIELD_EVENT) != 0) == (e->event != 0));
	AGREE(r->event == e->event);
	AGREE(((r->mask & STENO_FIELD_STATEMENTS) != 0) == (e->statements != STENO_NONE64));
	AGREE(r->statements == (e->statements != STENO_NONE64 ? e->statements : 0));
	AGREE(((r->mask & STENO_FIELD_COMMIT) != 0) == committed);
	AGREE(r->lsn == e->lsn);
	AGREE(r->lsn_end == (committed ? e->lsn_end : 0) && r->timeline == (committed ? e->timeline : 0));
	return true;
}

static bool
matches_strings(const StenoRecordMessage *m, const StenoTrailRecord *r)
{
	const uint8_t *p = (const uint8_t *) (m + 1);
	bool		error = m->sqlstate[0] != '\0';
	StenoParts	parts = {{0}};
	StenoCut	cut = {0};
	StenoEnding ending = {.statements = STENO_NONE64};

	if (m->m.flags & STENO_MESSAGE_PARTS)
	{
		memcpy(&parts, p, sizeof(parts));
		p += sizeof(parts);
	}
	if (m->m.flags & STENO_MESSAGE_CUT)
	{
		memcpy(&cut, p, sizeof(cut));
		p += sizeof(cut);
		AGREE(r->cut_hash.len == STENO_HASH_SIZE && memcmp(r->cut_hash.p, cut.hash, STENO_HASH_SIZE) == 0);
	}
	if (m->m.flags & STENO_MESSAGE_ENDING)
	{
		memcpy(&ending, p, sizeof(ending));
		p += sizeof(ending);
	}
	AGREE(matches_ending(&ending, r));
	AGREE(((r->mask & STENO_FIELD_CUT) != 0) == ((m->m.flags & STENO_MESSAGE_CUT) != 0));
	AGREE(((r->mask & STENO_FIELD_PARTS) != 0) == ((m->m.flags & STENO_MESSAGE_PARTS) != 0));
	AGREE(r->cut_len == cut.len);
	AGREE(memcmp(r->parts, parts.bytes, sizeof(parts.bytes)) == 0);
	AGREE(same(r->shape, true, &p, m->shape_len));
	AGREE(((r->mask & STENO_FIELD_TEXT) != 0) == (m->text_len != STENO_NONE32));
	AGREE(same(r->text, m->text_len != STENO_NONE32, &p, m->text_len != STENO_NONE32 ? m->text_len : 0));
	AGREE(same(r->nulls, true, &p, m->nulls_len));
	AGREE(((r->mask & STENO_FIELD_VALUES) != 0) == ((m->m.flags & STENO_MESSAGE_VALUES) != 0));
	AGREE(same(r->values, true, &p, m->values_len));
	AGREE(!error || (r->sqlstate.len == 5 && memcmp(r->sqlstate.p, m->sqlstate, 5) == 0));
	AGREE(((r->mask & STENO_FIELD_ERROR) != 0) == error);
	AGREE(same(r->message, error, &p, m->message_len));
	AGREE(same(r->extra, true, &p, m->extra_len));
	return true;
}

bool
model_matches(const StenoMessage *m, const void *body, uint32_t body_len, const StenoTrailRecord *r)
{
	AGREE(r->kind == m->kind);
	AGREE(r->session.len == body_len && memcmp(r->session.p, body, body_len) == 0);
	if (m->kind == STENO_KIND_DATA)
		return matches_data((const StenoDataMessage *) m, r);
	return matches_fixed((const StenoRecordMessage *) m, r) &&
		matches_strings((const StenoRecordMessage *) m, r);
}
