/*
 * core/ring/check.c
 *		The checks of check.h.
 *
 * A message is checked in three steps: first its length and the lengths of its
 * strings, which every message has; then its sequence number, which must follow
 * that of its predecessor; and, if it is a record, the strings that readers of the
 * trail parse.
 *
 * The producers are dead, so nothing changes while it is checked: the atomic loads
 * have no partner, and messages are read in place, without a copy.
 */
#include "ring/check.h"

#include "codec.h"

bool
steno_ring_check_positions(const StenoRings *rings, uint32_t i)
{
	StenoRing  *ring = steno_ring_at(rings, i);
	uint64_t	head = atomic_load(&ring->head);
	uint64_t	tail = atomic_load(&ring->tail);

	return head >= tail && head - tail <= rings->size && head % 8 == 0 && tail % 8 == 0;
}

/* ---- strings ---- */

bool
steno_ring_check_session(const uint8_t *body, uint32_t len)
{
	StenoBytes	in = {body, len};
	StenoBytes	skipped;

	if (!steno_take_bytes(&in, STENO_SESSION_FACTS, &skipped))
		return false;
	while (in.len > 0)
		if (!steno_take_bytes(&in, 1, &skipped) || !steno_take_string(&in, &skipped))
			return false;
	return true;
}

/*
 * The value of the pair with this name, in *v; false if there is no such pair, or
 * its value is not a number.
 */
static bool
pair_number(StenoBytes pairs, uint8_t count, const char *name, uint64_t *v)
{
	StenoBytes	key;
	StenoBytes	value;
	uint64_t	k;

	while (count-- > 0 && steno_take_string(&pairs, &key) && steno_take_string(&pairs, &value))
	{
		if (key.len != strlen(name) || memcmp(key.p, name, key.len) != 0)
			continue;
		*v = 0;
		for (k = 0; k < value.len && k < 20; k++)
		{
			if (value.p[k] < '0' || value.p[k] > '9')
				return false;
			*v = *v * 10 + (uint64_t) (value.p[k] - '0');
		}
		return value.len > 0 && k == value.len;
	}
	return false;
}

static bool
pairs_are_whole(StenoBytes pairs, uint8_t count)
{
	StenoBytes	skipped;

	if (count == 0)
		return true;
	while (count-- > 0)
		if (!steno_take_string(&pairs, &skipped) || !steno_take_string(&pairs, &skipped))
			return false;
	return pairs.len == 0;
}

/* Take a shape up to its number of parameters; *in then starts with the first of them. */
static bool
take_shape(StenoBytes *in, uint64_t *nparams)
{
	StenoBytes	s;
	uint64_t	v;
	uint64_t	n;
	uint8_t		byte;

	if (!steno_take_shape_head(in, &v, &v, &s, &n))
		return false;
	while (n-- > 0)
		if (!steno_take_relation(in, &byte, &v, &s))
			return false;
	return steno_take_varint(in, nparams);
}

static bool
objects_are_whole(StenoBytes in)
{
	StenoBytes	s;
	uint64_t	n;
	uint8_t		byte;

	if (in.len == 0)
		return true;
	if (!steno_take_varint(&in, &n))
		return false;
	while (n-- > 0)
		if (!steno_take_object(&in, &byte, &s, &s, &s))
			return false;
	return true;
}

/*
 * Whether a list of parameters can be parsed.  Nothing is checked from the first
 * value of an unknown representation on, because its length is unknown.
 */
static bool
list_is_whole(StenoBytes list)
{
	uint64_t	n;

	if (!steno_take_list(&list, &n))
		return false;
	while (n-- > 0)
	{
		uint64_t	type;
		uint8_t		repr;
		bool		null;
		StenoBytes	value;

		if (!steno_take_listed(&list, &type, &repr, &null))
			return false;
		if (null)
			continue;
		if (repr > STENO_REPR_LIST)
			return true;
		if (!steno_take_value(&list, repr, &value))
			return false;
	}
	return list.len == 0;
}

/*
 * Whether the shape can be parsed, and nulls and values match its parameters.
 * values is NULL if this message does not contain them.
 */
static bool
parameters_are_whole(StenoBytes shape, StenoBytes nulls, StenoBytes *values)
{
	uint64_t	nparams;
	uint64_t	i;

	if (shape.len == 0)
		return nulls.len == 0;
	if (!take_shape(&shape, &nparams) || (nulls.len > 0 && nulls.len != (nparams + 7) / 8))
		return false;
	for (i = 0; i < nparams; i++)
	{
		uint64_t	type;
		uint8_t		repr;
		StenoBytes	value;

		if (!steno_take_param(&shape, &type, &repr))
			return false;
		if (values == NULL || (nulls.len > 0 && (nulls.p[i / 8] & (1 << (i % 8)))))
			continue;

		/*
		 * The length of an unknown representation is not known, so nothing after it
		 * can be located.
		 */
		if (repr > STENO_REPR_LIST || (repr == STENO_REPR_LIST && nparams > 1))
			values = NULL;
		else if (!steno_take_value(values, repr, &value) ||
				 (repr == STENO_REPR_LIST && !list_is_whole(value)))
			return false;
	}
	return (nparams == 0 || values == NULL || values->len == 0) && objects_are_whole(shape);
}

/* ---- records ---- */

static StenoBytes
take_string(const uint8_t **p, uint32_t len)
{
	StenoBytes	taken = {*p, len};

	*p += len;
	return taken;
}

/*
 * Whether the end of a statement is a valid time.  Readers add the duration to the
 * time and compare the sums, so the addition must not overflow.
 */
static bool
duration_is_possible(const StenoMessage *m, int64_t time, uint64_t duration)
{
	uint64_t	elapsed = steno_message_times(m).elapsed;
	uint64_t	most = elapsed == STENO_NONE64 ? 0 : elapsed;

	if (m->kind != STENO_KIND_STATEMENT)
		return true;
	if (duration != STENO_NONE64 && duration > most)
		most = duration;
	return most <= (uint64_t) INT64_MAX && (time <= 0 || most <= (uint64_t) (INT64_MAX - time));
}

static bool
brief_is_readable(const StenoBriefMessage *b, const StenoTemplate *templates)
{
	const StenoTemplate *t = steno_brief_template(b, templates);
	uint32_t	nulls_len = steno_brief_nesting(b).nulls_len;
	StenoBriefValues v;
	StenoBytes	nulls;
	StenoBytes	values;
	StenoBytes	shape;

	if (!duration_is_possible(&b->m, b->time, steno_brief_numbers(b, 0).duration))
		return false;
	if (t == NULL)
		return true;
	v = steno_brief_values(b, steno_template_varies(t));
	if (nulls_len > v.values_len)
		return false;
	nulls = (StenoBytes) {v.values, nulls_len};
	values = (StenoBytes) {v.values + nulls_len, v.values_len - nulls_len};
	shape = (StenoBytes) {t->bytes, t->shape_len};
	return parameters_are_whole(shape, nulls, b->m.flags & STENO_MESSAGE_VALUES ? &values : NULL);
}

/* Whether readers can parse the strings of a record that is not brief. */
static bool
record_is_readable(const StenoRecordMessage *r)
{
	const uint8_t *p = (const uint8_t *) (r + 1);
	StenoParts	parts = {{0}};
	bool		has_values = (r->m.flags & STENO_MESSAGE_VALUES) || r->nulls_len > 0;
	StenoBytes	shape;
	StenoBytes	nulls;
	StenoBytes	values;

	if (r->m.flags & STENO_MESSAGE_PARTS)
	{
		memcpy(&parts, p, sizeof(parts));
		p += sizeof(parts);
	}
	if (r->m.flags & STENO_MESSAGE_CUT)
		p += sizeof(StenoCut);
	if (r->m.flags & STENO_MESSAGE_ENDING)
		p += sizeof(StenoEnding);
	shape = take_string(&p, r->shape_len);
	if (r->text_len != STENO_NONE32)
		p += r->text_len;
	nulls = take_string(&p, r->nulls_len);
	values = take_string(&p, r->values_len);
	p += r->message_len;
	/* only statement and start records have a statement number */
	if (r->m.kind > STENO_KIND_START && r->statement != 0)
		return false;
	return duration_is_possible(&r->m, r->time, r->duration) &&
		pairs_are_whole(take_string(&p, r->extra_len), r->extra_count) &&
		parameters_are_whole(shape, nulls,
							 has_values && parts.bytes[STENO_PART_VALUES] == 0 ? &values : NULL);
}

bool
steno_ring_check_gap(uint64_t *count, uint64_t first, uint64_t last)
{
	uint64_t	counted = *count;

	*count = last - first + 1;
	return first > 0 && last < UINT64_MAX - 1 && last + 1 >= first &&
		counted <= *count + 1 && *count <= counted + 1;
}

bool
steno_ring_check_orphan_drops(const StenoRing *ring)
{
	uint64_t	orphan_drops = atomic_load(&ring->orphan_drops);

	return ring->orphan_drops_recorded == orphan_drops ||
		(ring->orphan_drops_recorded < orphan_drops && orphan_drops <= atomic_load(&ring->drops));
}

/* A gap record has the sequence number after those that it reports as dropped. */
static bool
gap_follows(const StenoRecordMessage *r, uint64_t seq)
{
	const uint8_t *end = (const uint8_t *) r + r->m.len;
	StenoBytes	pairs;
	uint64_t	count;
	uint64_t	said;
	uint64_t	first;
	uint64_t	last;

	pairs.p = (const uint8_t *) (r + 1) + r->shape_len + (r->text_len != STENO_NONE32 ? r->text_len : 0) +
		r->nulls_len + r->values_len + r->message_len;
	pairs.len = r->extra_len;
	return !(r->m.flags & (STENO_MESSAGE_PARTS | STENO_MESSAGE_CUT | STENO_MESSAGE_ENDING)) &&
		pairs.p + pairs.len <= end &&
		pair_number(pairs, r->extra_count, "count", &said) &&
		pair_number(pairs, r->extra_count, "first_seq", &first) &&
		pair_number(pairs, r->extra_count, "last_seq", &last) &&
		(count = said, steno_ring_check_gap(&count, first, last)) && count == said &&
		first <= seq + 1 && r->seq == last + 1;
}

/* ---- messages ---- */

/* Whether producers write messages of this kind with these flags. */
static bool
kind_is_possible(const StenoMessage *m)
{
	uint16_t	known = STENO_MESSAGE_PARTS | STENO_MESSAGE_CUT | STENO_MESSAGE_VALUES | STENO_MESSAGE_ENDING |
	STENO_MESSAGE_TIMES;

	if (m->kind == STENO_KIND_DATA)
		return (m->flags & ~STENO_MESSAGE_CHUNK) == 0;
	if (m->kind == 0 || m->kind == STENO_KIND_DEF_SESSION)
		return m->flags == 0;
	if ((m->flags & STENO_MESSAGE_BRIEF) && m->kind == STENO_KIND_TRANSACTION)
		known = STENO_MESSAGE_BRIEF;
	else if (m->flags & STENO_MESSAGE_BRIEF)
	{
		known = STENO_MESSAGE_BRIEF | STENO_MESSAGE_XID | STENO_MESSAGE_NUMBERS | STENO_MESSAGE_NESTED |
			STENO_MESSAGE_TIMES;
		if (((const StenoBriefMessage *) m)->template < STENO_TEMPLATES)
			known |= STENO_MESSAGE_VALUES;
	}
	/* writers add records of the server, and seals, to the trail directly */
	return (m->kind <= STENO_KIND_GAP || m->kind == STENO_KIND_SUBTRANSACTION) && (m->flags & ~known) == 0;
}

StenoRingCheck
steno_ring_check_message(const StenoRings *rings, uint32_t i, uint64_t position, uint64_t seq,
				const StenoMessage **message)
{
	uint32_t	size = rings->size;
	uint64_t	left = size - (position & (size - 1));
	uint64_t	published = atomic_load(&steno_ring_at(rings, i)->head) - position;
	const StenoMessage *m = steno_ring_message(steno_ring_data(rings, i), size, position);

	*message = m;
	if (!steno_message_is_whole(m, left < published ? left : published) ||
		m->len > size / STENO_RING_SHARE || !kind_is_possible(m))
		return STENO_RING_DAMAGED;
	if (m->kind == 0)
		return m->len == left ? STENO_RING_GOOD : STENO_RING_DAMAGED;
	if (m->kind == STENO_KIND_DEF_SESSION)
	{
		const StenoSessionMessage *s = (const StenoSessionMessage *) m;

		return steno_ring_check_session((const uint8_t *) (s + 1), s->body_len) ? STENO_RING_GOOD : STENO_RING_DAMAGED;
	}
	if (m->kind == STENO_KIND_DATA)
	{
		const StenoDataMessage *d = (const StenoDataMessage *) m;

		if ((m->flags & STENO_MESSAGE_CHUNK) && steno_data_chunk(d) >= rings->nchunks)
			return STENO_RING_DAMAGED;
		return d->seq == seq + 1 && d->part < STENO_PARTS ? STENO_RING_GOOD : STENO_RING_DAMAGED;
	}
	/* a brief record has the next number, whatever stands before it */
	if ((m->flags & STENO_MESSAGE_BRIEF) && m->kind == STENO_KIND_TRANSACTION)
		return STENO_RING_GOOD;
	if (m->flags & STENO_MESSAGE_BRIEF)
		return brief_is_readable((const StenoBriefMessage *) m, steno_ring_templates(rings, i)) ?
			STENO_RING_GOOD : STENO_RING_UNREADABLE;
	if (m->kind == STENO_KIND_GAP ? !gap_follows((const StenoRecordMessage *) m, seq) :
		((const StenoRecordMessage *) m)->seq != seq + 1)
		return STENO_RING_DAMAGED;
	return record_is_readable((const StenoRecordMessage *) m) ? STENO_RING_GOOD : STENO_RING_UNREADABLE;
}

const StenoMessage *
steno_ring_check_staged(const StenoRings *rings, uint32_t i)
{
	uint32_t	size = rings->size;
	const StenoMessage *m =
		steno_inflight_record(&steno_ring_at(rings, i)->inflight, steno_ring_data(rings, i), size);

	if (m == NULL || m->len > size / STENO_RING_SHARE || !kind_is_possible(m))
		return NULL;
	if (m->flags & STENO_MESSAGE_BRIEF)
		return brief_is_readable((const StenoBriefMessage *) m, steno_ring_templates(rings, i)) ? m : NULL;
	return record_is_readable((const StenoRecordMessage *) m) ? m : NULL;
}
