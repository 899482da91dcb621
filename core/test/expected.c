/*
 * core/test/expected.c
 *		A trail as text, one JSON object a record, in the layout that
 *		format/golden/README.md describes.
 *
 * It reads streams in the order of their numbers, and each from its first
 * segment on; data parts are kept until their record comes.
 */
#include "trail/decode.h"
#include "test/test.h"
#include "test/trail.h"

#define MAX_PARTS 100

typedef struct Part
{
	uint8_t		session[12];	/* start time and process id */
	uint64_t	seq;
	uint8_t		what;
	uint8_t    *bytes;
	uint64_t	len;
} Part;

static Part parts[MAX_PARTS];
static int	nparts;

/* ---- values as JSON ---- */

static void
put_hex(FILE *out, const uint8_t *p, uint64_t len)
{
	while (len-- > 0)
		fprintf(out, "%02x", *p++);
}

/* Printable ASCII as a string, anything else as {"hex":...}. */
static void
put_string(FILE *out, const uint8_t *p, uint64_t len)
{
	bool		plain = true;
	uint64_t	i;

	for (i = 0; i < len; i++)
		plain = plain && p[i] >= 0x20 && p[i] < 0x7f;
	if (!plain)
	{
		fprintf(out, "{\"hex\":\"");
		put_hex(out, p, len);
		fprintf(out, "\"}");
		return;
	}
	fputc('"', out);
	for (i = 0; i < len; i++)
	{
		if (p[i] == '"' || p[i] == '\\')
			fputc('\\', out);
		fputc(p[i], out);
	}
	fputc('"', out);
}

static void
put_number(FILE *out, const char *name, uint64_t v)
{
	fprintf(out, ",\"%s\":%llu", name, (unsigned long long) v);
}

static void
put_signed(FILE *out, const char *name, int64_t v)
{
	fprintf(out, ",\"%s\":%lld", name, (long long) v);
}

/* ---- parts ---- */

static void
keep_part(const StenoTrailRecord *r)
{
	Part	   *p = &parts[nparts++];

	CHECK(nparts <= MAX_PARTS);
	memcpy(p->session, r->session.p, sizeof(p->session));
	p->seq = r->seq;
	p->what = r->part;
	p->len = r->values.len;
	p->bytes = malloc(p->len + 1);
	memcpy(p->bytes, r->values.p, p->len);
}

/* The parts of one string, and then what stands in the record. */
static StenoBytes
join(const StenoTrailRecord *r, uint8_t what, StenoBytes own)
{
	static uint8_t buffers[STENO_PARTS][100 * 1024];
	StenoBytes	whole = {buffers[what], 0};
	int			i;

	for (i = 0; i < nparts; i++)
	{
		const Part *p = &parts[i];

		if (p->seq != r->seq || p->what != what || memcmp(p->session, r->session.p, 12) != 0)
			continue;
		memcpy(buffers[what] + whole.len, p->bytes, p->len);
		whole.len += p->len;
	}
	CHECK(whole.len == r->parts[what]);
	if (own.len > 0)
		memcpy(buffers[what] + whole.len, own.p, own.len);
	whole.len += own.len;
	return whole;
}

/* ---- pieces of a record ---- */

static void
put_session(FILE *out, StenoBytes in)
{
	StenoBytes	fixed;
	StenoBytes	value;
	const char *comma = "";

	CHECK(steno_take_bytes(&in, 12, &fixed));
	fprintf(out, ",\"session\":{\"start\":%lld,\"pid\":%u,\"facts\":{",
			(long long) steno_get_le(fixed.p, 8), (unsigned) steno_get_le(fixed.p + 8, 4));
	while (in.len > 0)
	{
		CHECK(steno_take_bytes(&in, 1, &fixed) && steno_take_string(&in, &value));
		fprintf(out, "%s\"%u\":", comma, fixed.p[0]);
		put_string(out, value.p, value.len);
		comma = ",";
	}
	fprintf(out, "}}");
}

static void
put_param(FILE *out, const char *comma, uint64_t type, uint8_t repr)
{
	fprintf(out, "%s{\"type\":%llu,\"repr\":%u", comma, (unsigned long long) type, repr);
}

static void
put_value(FILE *out, StenoBytes *values, uint8_t repr)
{
	StenoBytes	value;

	CHECK(steno_take_value(values, repr, &value));
	fprintf(out, ",\"value\":\"");
	put_hex(out, value.p, value.len);
	fprintf(out, "\"");
}

/* What the only parameter of a shape stands for. */
static void
put_list(FILE *out, StenoBytes *values)
{
	StenoBytes	list;
	uint64_t	n;
	uint64_t	i;

	CHECK(steno_take_value(values, STENO_REPR_LIST, &list));
	CHECK(steno_take_list(&list, &n));
	for (i = 0; i < n; i++)
	{
		uint64_t	type;
		uint8_t		repr;
		bool		null;

		CHECK(steno_take_listed(&list, &type, &repr, &null));
		put_param(out, i > 0 ? "," : "", type, repr);
		if (null)
			fprintf(out, ",\"value\":null");
		else
			put_value(out, &list, repr);
		fprintf(out, "}");
	}
	CHECK(list.len == 0);
}

/* The rest of the shape is left in *shape. */
static void
put_params(FILE *out, const StenoTrailRecord *r, StenoBytes *shape, StenoBytes values)
{
	uint64_t	n;
	uint64_t	i;

	CHECK(steno_take_varint(shape, &n));
	fprintf(out, ",\"params\":[");
	for (i = 0; i < n; i++)
	{
		uint64_t	type;
		uint8_t		repr;

		CHECK(steno_take_param(shape, &type, &repr));
		if (repr == STENO_REPR_LIST)
		{
			CHECK(n == 1);
			put_list(out, &values);
			break;
		}
		put_param(out, i > 0 ? "," : "", type, repr);
		if (r->nulls.len > i / 8 && r->nulls.p[i / 8] & 1 << i % 8)
			fprintf(out, ",\"value\":null");
		else if (r->mask & STENO_FIELD_VALUES)
			put_value(out, &values, repr);
		fprintf(out, "}");
	}
	fprintf(out, "]");
	CHECK(values.len == 0);
}

static void
put_objects(FILE *out, StenoBytes shape)
{
	uint64_t	n = 0;
	uint64_t	i;

	CHECK(shape.len == 0 || steno_take_varint(&shape, &n));
	fprintf(out, ",\"objects\":[");
	for (i = 0; i < n; i++)
	{
		uint8_t		action;
		StenoBytes	type;
		StenoBytes	name;
		StenoBytes	to;

		CHECK(steno_take_object(&shape, &action, &type, &name, &to));
		fprintf(out, "%s{\"action\":%u,\"type\":", i > 0 ? "," : "", action);
		put_string(out, type.p, type.len);
		fprintf(out, ",\"name\":");
		put_string(out, name.p, name.len);
		fprintf(out, ",\"to\":");
		put_string(out, to.p, to.len);
		fprintf(out, "}");
	}
	fprintf(out, "]");
}

/* The columns of a shape, from after its relations on; empty if it has none. */
static StenoBytes
find_columns(StenoBytes shape)
{
	StenoBytes	s;
	uint64_t	n;
	uint64_t	type;
	uint8_t		byte;

	CHECK(steno_take_varint(&shape, &n));
	while (n-- > 0)
		CHECK(steno_take_param(&shape, &type, &byte));
	CHECK(shape.len == 0 || steno_take_varint(&shape, &n));
	while (shape.len > 0 && n-- > 0)
		CHECK(steno_take_object(&shape, &byte, &s, &s, &s));
	while (shape.len > 0 && steno_take_varint(&shape, &n) && steno_take_string(&shape, &s))
		if (n == STENO_LIST_COLUMNS)
			return s;
	s.p = NULL;
	s.len = 0;
	return s;
}

static void
put_columns(FILE *out, StenoBytes *columns)
{
	uint64_t	omitted = 0;
	uint64_t	via;
	uint64_t	n;
	uint64_t	i;

	CHECK(steno_take_varint(columns, &via) && steno_take_varint(columns, &n));
	fprintf(out, ",\"columns\":[");
	for (i = 0; i < n; i++)
	{
		uint64_t	access;
		StenoBytes	name;

		CHECK(steno_take_varint(columns, &access) && steno_take_string(columns, &name));
		if (name.len == 0)
		{
			omitted = access;
			continue;
		}
		fprintf(out, "%s{\"access\":%llu,\"name\":", i > 0 ? "," : "", (unsigned long long) access);
		put_string(out, name.p, name.len);
		fprintf(out, "}");
	}
	fprintf(out, "],\"omitted\":%llu,\"via\":%llu", (unsigned long long) omitted, (unsigned long long) via);
}

static void
put_shape(FILE *out, const StenoTrailRecord *r, StenoBytes values)
{
	StenoBytes	columns = {NULL, 0};
	StenoBytes	rest;
	StenoBytes	shape = r->shape;
	StenoBytes	s;
	uint64_t	class;
	uint64_t	query_id;
	uint64_t	n;
	uint64_t	i;

	CHECK(steno_take_shape_head(&shape, &class, &query_id, &s, &n));
	put_number(out, "class", class);
	put_number(out, "query_id", query_id);
	fprintf(out, ",\"tag\":");
	put_string(out, s.p, s.len);
	rest = shape;
	for (i = 0; i < n; i++)
	{
		uint8_t		type;

		CHECK(steno_take_relation(&rest, &type, &query_id, &s));
	}
	columns = find_columns(rest);
	fprintf(out, ",\"relations\":[");
	for (i = 0; i < n; i++)
	{
		uint8_t		type;
		uint64_t	access;

		CHECK(steno_take_relation(&shape, &type, &access, &s));
		fprintf(out, "%s{\"type\":%u,\"access\":%llu,\"name\":", i > 0 ? "," : "", type,
				(unsigned long long) access);
		put_string(out, s.p, s.len);
		if (columns.p)
			put_columns(out, &columns);
		fprintf(out, "}");
	}
	fprintf(out, "]");
	put_params(out, r, &shape, values);
	put_objects(out, shape);
}

static void
put_extra(FILE *out, StenoBytes in)
{
	StenoBytes	name;
	StenoBytes	value;
	const char *comma = "";

	fprintf(out, ",\"extra\":[");
	while (in.len > 0)
	{
		CHECK(steno_take_string(&in, &name) && steno_take_string(&in, &value));
		fprintf(out, "%s[", comma);
		put_string(out, name.p, name.len);
		fprintf(out, ",");
		put_string(out, value.p, value.len);
		fprintf(out, "]");
		comma = ",";
	}
	fprintf(out, "]");
}

static void
put_rest(FILE *out, const StenoTrailRecord *r)
{
	uint32_t	mask = r->mask;

	if (mask & STENO_FIELD_ROWS)
		put_number(out, "rows", r->rows);
	if (mask & STENO_FIELD_DURATION)
		put_number(out, "duration_us", r->duration);
	if (mask & STENO_FIELD_NESTING)
	{
		put_number(out, "depth", r->depth);
		put_number(out, "substatement", r->substatement);
	}
	put_number(out, "outcome", r->outcome);
	if (mask & STENO_FIELD_ERROR)
	{
		StenoBytes	message = join(r, STENO_PART_MESSAGE, r->message);

		fprintf(out, ",\"sqlstate\":\"%.5s\",\"message\":", (const char *) r->sqlstate.p);
		put_string(out, message.p, message.len);
	}
	if (mask & STENO_FIELD_XID)
		put_number(out, "xid", r->xid);
	if (mask & STENO_FIELD_CUT)
	{
		put_number(out, "text_bytes", r->cut_len);
		fprintf(out, ",\"text_sha256\":\"");
		put_hex(out, r->cut_hash.p, STENO_HASH_SIZE);
		fprintf(out, "\"");
	}
	if (mask & STENO_FIELD_PARTS)
		fprintf(out, ",\"parts\":[%llu,%llu,%llu]", (unsigned long long) r->parts[0],
				(unsigned long long) r->parts[1], (unsigned long long) r->parts[2]);
	if (mask & STENO_FIELD_EXTRA)
		put_extra(out, r->extra);
	if (mask & STENO_FIELD_AUDITED)
		put_number(out, "audited", r->audited);
	if (mask & STENO_FIELD_EVENT)
		put_number(out, "event", r->event);
	if (mask & STENO_FIELD_STATEMENTS)
		put_number(out, "statements", r->statements);
	if (mask & STENO_FIELD_COMMIT)
	{
		put_number(out, "lsn", r->lsn);
		put_number(out, "lsn_end", r->lsn_end);
		put_number(out, "timeline", r->timeline);
	}
}

static void
put_record(FILE *out, const StenoTrailRecord *r)
{
	put_number(out, "kind", r->kind);
	put_session(out, r->session);
	put_number(out, "seq", r->seq);
	if (r->kind == STENO_KIND_STATEMENT || r->kind == STENO_KIND_START)
		put_number(out, "statement", r->statement);
	put_signed(out, "time", r->time);
	if (r->mask & STENO_FIELD_SHAPE)
		put_shape(out, r, join(r, STENO_PART_VALUES, r->values));
	if ((r->mask & STENO_FIELD_TEXT) || r->parts[STENO_PART_TEXT] > 0)
	{
		StenoBytes	text = join(r, STENO_PART_TEXT, r->text);

		fprintf(out, ",\"text\":");
		put_string(out, text.p, text.len);
	}
	put_rest(out, r);
}

/* ---- files ---- */

/* The data key of an encrypted segment, by one of the keys in <trail>.keys. */
static const uint8_t *
find_data_key(const char *trail, const uint8_t *segment, uint8_t data_key[STENO_KEY_SIZE])
{
	char		path[700];
	size_t		len;
	size_t		at;
	uint8_t    *text;
	uint8_t		key[STENO_KEY_SIZE];
	uint8_t		id[STENO_KEY_ID_SIZE];
	bool		found = false;

	if (steno_get_le(segment + 12, 4) == 0)
		return NULL;
	snprintf(path, sizeof(path), "%s.keys", trail);
	text = file_read(path, &len);
	CHECK(text != NULL);
	for (at = 0; at + STENO_KEY_DIGITS <= len && !found; at += STENO_KEY_DIGITS + 1)
	{
		CHECK(steno_key_parse((char *) text + at, STENO_KEY_DIGITS, key) && steno_key_id(key, id));
		if (memcmp(segment + STENO_SEGMENT_KEY_ID, id, sizeof(id)) == 0)
			found = steno_data_key_read(segment, key, data_key);
	}
	CHECK(found);
	free(text);
	return data_key;
}

static void
put_block(FILE *out, const char *place, const uint8_t *bytes, size_t len, const uint8_t *data_key)
{
	StenoBlockHeader h;
	StenoBytes	payload;
	StenoDecoder d;
	StenoTrailRecord r;
	uint8_t    *buffer;
	uint64_t	number;

	CHECK(steno_block_decrypt(bytes, len, data_key, &h, &payload, &buffer));
	number = h.first_record;
	steno_decoder_begin(&d, payload.p, payload.len, h.first_time);
	while (steno_decoder_next(&d, &r) == STENO_DECODED_RECORD)
	{
		if (r.kind == STENO_KIND_DATA)
		{
			keep_part(&r);
			continue;
		}
		fprintf(out, "{%s,\"block\":%llu,\"record\":%llu", place,
				(unsigned long long) h.block, (unsigned long long) number++);
		put_record(out, &r);
		fprintf(out, "}\n");
	}
	CHECK(d.p == d.end && number == h.first_record + h.records);
	steno_decoder_end(&d);
	free(buffer);
}

static bool
put_segment(FILE *out, const char *trail, uint32_t stream, uint64_t segment)
{
	char		path[700];
	char		place[100];
	size_t		len;
	size_t		at;
	size_t		n;
	uint8_t    *bytes;
	uint8_t		room[STENO_KEY_SIZE];
	const uint8_t *data_key;

	segment_name(path, sizeof(path), trail, stream, segment);
	bytes = file_read(path, &len);
	if (bytes == NULL)
		return false;
	data_key = find_data_key(trail, bytes, room);
	snprintf(place, sizeof(place), "\"stream\":%u,\"segment\":%llu", stream, (unsigned long long) segment);
	for (at = steno_get_le(bytes + 10, 2); at < len; at += n)
	{
		n = STENO_BLOCK_HEADER + (size_t) steno_get_le(bytes + at + 8, 4);
		put_block(out, place, bytes + at, n, data_key);
	}
	free(bytes);
	return true;
}

void
expected_write(FILE *out, const char *trail)
{
	uint32_t	stream = 0;
	uint64_t	segment;

	for (;; stream++)
	{
		segment = 1;
		while (put_segment(out, trail, stream, segment))
			segment++;
		if (segment == 1)
			break;
	}
	while (nparts > 0)
		free(parts[--nparts].bytes);
}
