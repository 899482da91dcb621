/*
 * extension/delivery/short_record.c
 *		What is essential of a record, in the reserve of the ring: all but its strings, and as
 *		much of these as fits.  Neither waits nor raises errors.
 */
#include "base/steno.h"

#include "mb/pg_wchar.h"

#include "delivery/encode.h"
#include "delivery/room.h"

/* A record that is cut to what a short one has room for. */
typedef struct Short
{
	StenoRecord r;
	StenoCut	cut;
	bool		text_is_cut;
	uint32		left;			/* room for strings */
	uint8		shape[STENO_SHORT_MOST];
	uint8		extra[STENO_SHORT_MOST];
	char		message[STENO_SHORT_MOST];
} Short;

static const uint8 *
skip_shape_number(const uint8 *p)
{
	while (*p & 0x80)
		p++;
	return p + 1;
}

static const uint8 *
shape_number(const uint8 *p, uint64 *v)
{
	int			shift = 0;

	for (*v = 0; *p & 0x80; shift += 7)
		*v |= (uint64) (*p++ & 0x7f) << shift;
	*v |= (uint64) *p << shift;
	return p + 1;
}

static const uint8 *
skip_shape_string(const uint8 *p)
{
	uint64		len;

	p = shape_number(p, &len);
	return p + len;
}

static void
add_omitted(Short *s, const char *name, uint64 count)
{
	char		number[24];
	uint8	   *p = s->extra + s->r.extra_len;

	if (count == 0)
		return;
	snprintf(number, sizeof(number), UINT64_FORMAT, count);
	p = steno_put_pair(p, name, number);
	s->r.extra_len = p - s->extra;
	s->r.extra_count++;
}

/* How many parameters there are in a list, in as many pieces as there may be: length, number, types ... */
static uint64
listed_params(const StenoParams *params)
{
	const uint8 *number = skip_shape_number(params->values[0].data);
	uint64		count;

	if (number == params->values[0].data + params->values[0].len)
		number = params->values[1].data;
	(void) shape_number(number, &count);
	return count;
}

/*
 * The shape without objects and columns, and without parameters, whose values are left out; with as
 * many relations as fit in room.  It is one that we have made, so it is whole.
 */
static void
cut_shape(Short *s, uint32 room)
{
	const uint8 *from = s->r.shape;
	const uint8 *end = from + s->r.shape_len;
	const uint8 *relations = skip_shape_string(skip_shape_number(skip_shape_number(from)));
	const uint8 *q;
	uint8	   *p;
	uint64		count;
	uint64		kept;
	uint64		params;
	uint64		objects = 0;
	uint64		i;
	const uint8 *last;

	q = last = shape_number(relations, &count);
	for (i = kept = 0; i < count; i++)
	{
		q = skip_shape_string(skip_shape_number(q + 1));
		if (kept == i && (q - from) + STENO_VARINT_MAX <= room)
		{
			kept++;
			last = q;
		}
	}
	q = shape_number(q, &params);
	for (i = 0; i < params; i++)
	{
		q = skip_shape_number(q) + 1;
		if (q[-1] == STENO_REPR_LIST && s->r.params)
		{
			params = listed_params(s->r.params);
			break;
		}
	}
	if (q < end)
		(void) shape_number(q, &objects);

	p = steno_put_bytes(s->shape, from, relations - from);
	p = steno_put_varint(p, kept);
	q = shape_number(relations, &i);
	p = steno_put_bytes(p, q, last - q);
	p = steno_put_varint(p, 0);
	s->r.shape = s->shape;
	s->r.shape_len = p - s->shape;
	add_omitted(s, "relations_omitted", count - kept);
	add_omitted(s, "parameters_omitted", params);
	add_omitted(s, "objects_omitted", objects);
}

/* None of the relations and objects behind the values is in the record, of which they are kept as a whole only. */
static void
cut_further(Short *s)
{
	const uint8 *p = s->r.further;
	const uint8 *end = p + s->r.further_len;
	uint64		counts[STENO_FURTHER_KINDS] = {0};

	while (p < end)
	{
		counts[*p]++;
		p = skip_shape_string(p + 1);
	}
	add_omitted(s, "relations_omitted", counts[STENO_FURTHER_RELATION]);
	add_omitted(s, "objects_omitted", counts[STENO_FURTHER_OBJECT]);
	s->r.further = NULL;
	s->r.further_len = 0;
}

/* What of the record's text is sent ahead already, or else the beginning of it. */
static void
cut_text(Short *s, uint64 sent)
{
	StenoRecord *r = &s->r;
	uint64		kept = sent > 0 ? sent : Min(r->text_len, s->left);

	if (kept == r->text_len)
		return;
	if (sent == 0)
		kept = pg_mbcliplen(r->text, (int) Min(r->text_len, (uint64) PG_INT32_MAX), (int) kept);
	s->cut.len = r->text_len;
	s->text_is_cut = true;
	r->text_len = kept;
}

/*
 * What is essential of a record: all but its strings, and as much of these as fits.
 * sent: what went ahead of it.
 */
static void
shorten(Short *s, const StenoRecord *r, const StenoParts *sent)
{
	uint32		fixed = sizeof(StenoRecordMessage) + sizeof(StenoParts) + sizeof(StenoCut) +
	(r->ending ? sizeof(StenoEnding) : 0) + (r->timed ? sizeof(StenoTimes) : 0);
	uint32		message_len;

	s->r = *r;
	s->r.extra = s->extra;
	s->cut = (StenoCut) {0};
	s->text_is_cut = false;
	s->left = steno_short_size() - fixed;
	s->r.extra_len = 0;
	s->r.extra_count = 0;
	if (r->extra_len > 0 && r->extra_len <= s->left / 4)
	{
		memcpy(s->extra, r->extra, r->extra_len);
		s->r.extra_len = r->extra_len;
		s->r.extra_count = r->extra_count;
	}
	if (r->shape_len > 0)
		cut_shape(s, s->left / 2);
	if (r->further_len > 0)
		cut_further(s);
	s->r.params = NULL;
	s->left -= s->r.shape_len + s->r.extra_len;
	if (r->message)
	{
		message_len = Min(strlen(r->message), s->left / 2);
		message_len = pg_mbcliplen(r->message, strlen(r->message), message_len);
		memcpy(s->message, r->message, message_len);
		s->message[message_len] = '\0';
		s->r.message = s->message;
		s->left -= message_len;
	}
	if (r->text)
		cut_text(s, sent ? sent->bytes[STENO_PART_TEXT] : 0);
}

/*
 * A short record into the reserve; false when there is no room.  whose: the record that may
 * take a share, itself or one that must come after it (steno_reserve_room).
 */
STENO_COLD bool
steno_short_put(const StenoRecord *r, const StenoRecord *whose, uint64 seq, bool top_level)
{
	const StenoParts *sent = steno_parts_sent(seq);
	StenoRecordMessage *m;
	Short		s;
	uint64		total;

	if (sent == NULL && r->further_len == 0 && steno_record_size(r) <= steno_short_size())
	{
		m = steno_reserve_room((uint32) steno_record_size(r), whose);
		if (m == NULL)
			return false;
		steno_record_write(m, r, seq, NULL, NULL, top_level);
		return true;
	}
	shorten(&s, r, sent);
	total = steno_record_size(&s.r) + (sent ? sizeof(StenoParts) : 0) + (s.text_is_cut ? sizeof(StenoCut) : 0);
	if (sent && sent->bytes[STENO_PART_TEXT] > 0)
		total -= s.r.text_len;
	if (sent && sent->bytes[STENO_PART_MESSAGE] > 0)
		total -= strlen(s.r.message);
	Assert(total <= steno_short_size());
	m = steno_reserve_room((uint32) total, whose);
	if (m == NULL)
		return false;
	steno_record_write(m, &s.r, seq, sent, s.text_is_cut ? &s.cut : NULL, top_level);
	return true;
}
