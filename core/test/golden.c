/*
 * core/test/golden.c
 *		Makes the golden trails: the same bytes every time.
 *
 * Each trail is for one part of the format.  The writer below is the real one,
 * builder and stream; only what it cannot write, because it belongs to a
 * later version, is put together by hand.
 */
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include "header.h"
#include "test/model.h"
#include "trail/seal_record.h"
#include "test/test.h"
#include "test/trail.h"

#define NOW INT64_C(815000000000000)
#define SERVER_VERSION 170002
#define ROOM 16384

/* One stream and one source; begin() starts both. */
typedef struct Maker
{
	char		trail[500];
	StenoStream stream;
	StenoBlock *block;
	StenoSource source;
	int			codec;
	int64_t		time;
	uint64_t	seq;
	uint64_t	statement;
	StenoCrypt *crypt;
	StenoIndex *index;			/* NULL: segments have none */
	uint32_t	pretended;		/* bytes that each block is said to have in addition, for the index */
	bool		has_ranges;		/* segment headers have the times of the segment before, as since 0.10.0 */
} Maker;

/* ---- the writer ---- */

static void
begin_crypt(Maker *w, const char *folder, const char *name, uint32_t stream, int codec,
			StenoCrypt *crypt)
{
	StenoFound	found;
	StenoError	error;

	memset(w, 0, sizeof(*w));
	snprintf(w->trail, sizeof(w->trail), "%s/%s", folder, name);
	w->codec = codec;
	w->time = NOW;
	w->block = steno_block_create(64 * 1024);
	w->crypt = crypt;
	steno_block_set_crypt(w->block, crypt);
	if (!steno_stream_open(&w->stream, w->trail, stream, TRAIL_SYSTEM, SERVER_VERSION, 0644,
						   crypt, NOW, 0, &found, &error))
	{
		fprintf(stderr, "%s: %s: %s\n", error.path, error.what, strerror(error.error));
		CHECK(!"golden trail can be made");
	}
}

static void
begin(Maker *w, const char *folder, const char *name, uint32_t stream, int codec)
{
	begin_crypt(w, folder, name, stream, codec, NULL);
}

static void
add(Maker *w, const void *message)
{
	CHECK(steno_block_add(w->block, &w->source, message));
}

static void
write_block(Maker *w)
{
	StenoError	error;
	uint8_t		chain[STENO_HASH_SIZE];
	const uint8_t *bytes;
	size_t		len;

	memcpy(chain, w->stream.chain, sizeof(chain));
	bytes = steno_block_finish(w->block, w->codec, w->stream.next_block, w->stream.next_record,
							   w->time, chain, &len);
	CHECK(steno_stream_append(&w->stream, bytes, len, steno_block_records(w->block), chain, &error));
	if (w->index != NULL)
		steno_index_commit(w->index, w->stream.segment, w->stream.next_block - 1, len + w->pretended);
	steno_block_reset(w->block);
}

static void
rotate(Maker *w)
{
	StenoError	error;

	if (!w->has_ranges)
		w->stream.times = (StenoTimeRange) {0};
	w->stream.last_start = w->has_ranges ? 1 : 0;
	CHECK(steno_stream_rotate(&w->stream, w->time, &error));
}

static void
end(Maker *w)
{
	if (steno_block_bytes(w->block) > 0)
		write_block(w);
	steno_stream_close(&w->stream);
	steno_block_destroy(w->block);
	steno_crypt_destroy(w->crypt);
	steno_index_destroy(w->index);
}

/* ---- sessions and records ---- */

static void
session(Maker *w, uint32_t pid, int n, const uint8_t *keys, const char *const *values)
{
	uint64_t	buffer[MODEL_SESSION_ROOM / 8];
	uint8_t		body[STENO_SESSION_MAX];

	model_encode_session(buffer, body, model_body(body, NOW - 1000000, pid, n, keys, values),
						 w->seq, w->statement);
	add(w, buffer);
}

static void
simple_session(Maker *w, uint32_t pid, const char *user, const char *role)
{
	const uint8_t keys[] = {STENO_SESSION_USER, STENO_SESSION_DATABASE, STENO_SESSION_ROLE};
	const char *values[3];

	values[0] = user;
	values[1] = "shop";
	values[2] = role;
	session(w, pid, role != NULL ? 3 : 2, keys, values);
}

/* The next record of the session; a millisecond later than the one before. */
static StenoRecordMessage
record(Maker *w, uint16_t kind)
{
	StenoRecordMessage r;

	w->time += 1000;
	r = model_record(kind, ++w->seq, w->time);
	if (kind <= STENO_KIND_START)
		r.statement = w->statement + 1;
	return r;
}

static void
put(Maker *w, const StenoRecordMessage *r, const ModelStrings *s)
{
	static uint64_t buffer[ROOM / 8];

	model_encode(buffer, r, s);
	if (r->m.kind == STENO_KIND_STATEMENT && r->depth == 0)
		w->statement = r->statement;
	add(w, buffer);
}

static void
set_text(ModelStrings *s, const char *text)
{
	s->text = text;
	s->text_len = (uint32_t) strlen(text);
}

/* A statement of one text, and nothing else. */
static void
statement(Maker *w, const char *text)
{
	StenoRecordMessage r = record(w, STENO_KIND_STATEMENT);
	ModelStrings s = {0};

	r.duration = 250;
	set_text(&s, text);
	put(w, &r, &s);
}

/* A shape; relations, parameters and objects are appended in the order of the format. */
typedef struct Shape
{
	uint8_t		bytes[1000];
	uint8_t    *p;
} Shape;

static void
shape_string(Shape *sh, const char *s)
{
	sh->p = steno_put_varint(sh->p, strlen(s));
	memcpy(sh->p, s, strlen(s));
	sh->p += strlen(s);
}

static void
shape_begin(Shape *sh, int class, uint64_t query_id, const char *tag, int nrelations)
{
	sh->p = steno_put_varint(sh->bytes, (uint64_t) class);
	sh->p = steno_put_varint(sh->p, query_id);
	shape_string(sh, tag);
	sh->p = steno_put_varint(sh->p, (uint64_t) nrelations);
}

static void
shape_relation(Shape *sh, int type, uint64_t access, const char *name)
{
	*sh->p++ = (uint8_t) type;
	sh->p = steno_put_varint(sh->p, access);
	shape_string(sh, name);
}

static void
shape_count(Shape *sh, int nparams)
{
	sh->p = steno_put_varint(sh->p, (uint64_t) nparams);
}

static void
shape_param(Shape *sh, uint32_t type, int repr)
{
	sh->p = steno_put_varint(sh->p, type);
	*sh->p++ = (uint8_t) repr;
}

static void
shape_object(Shape *sh, int action, const char *type, const char *name, const char *to)
{
	*sh->p++ = (uint8_t) action;
	shape_string(sh, type);
	shape_string(sh, name);
	shape_string(sh, to);
}

static void
use_shape(ModelStrings *s, const Shape *sh)
{
	s->shape = sh->bytes;
	s->shape_len = (uint32_t) (sh->p - sh->bytes);
}

/* Pairs of strings for EXTRA: name, value, ..., NULL. */
static void
use_extra(StenoRecordMessage *r, ModelStrings *s, const char *const *pairs)
{
	static uint8_t extra[500];
	uint8_t    *p = extra;

	for (; *pairs != NULL; pairs++)
	{
		p = steno_put_varint(p, strlen(*pairs));
		memcpy(p, *pairs, strlen(*pairs));
		p += strlen(*pairs);
		r->extra_count++;
	}
	r->extra_count /= 2;
	s->extra = extra;
	s->extra_len = (uint32_t) (p - extra);
}

static void
with_extra(Maker *w, uint16_t kind, const char *text, const char *const *pairs)
{
	StenoRecordMessage r = record(w, kind);
	ModelStrings s = {0};

	if (text != NULL)
		set_text(&s, text);
	if (pairs != NULL)
		use_extra(&r, &s, pairs);
	put(w, &r, &s);
}

/* ---- trails ---- */

static void
full_session(Maker *w)
{
	const uint8_t keys[] = {STENO_SESSION_BACKEND_TYPE, STENO_SESSION_USER, STENO_SESSION_DATABASE,
		STENO_SESSION_ROLE, STENO_SESSION_APPLICATION, STENO_SESSION_APP_USER, STENO_SESSION_CLIENT,
		STENO_SESSION_AUTH_METHOD, STENO_SESSION_IDENTITY, STENO_SESSION_APP_CONTEXT, 200};
	const char *const values[] = {"client backend", "alice", "shop", "auditor", "psql",
		"j\xc3\xb6rg", "[2001:db8::7]:50022", "scram-sha-256", "alice@EXAMPLE.ORG",
	"request \"4711\"", "a key of a later version"};

	session(w, 4242, 11, keys, values);
}

/* Every kind, as each is used. */
static void
make_kinds(const char *folder)
{
	static const char *const method[] = {"method", "scram-sha-256", NULL};
	static const char *const commit[] = {"event", "commit", "statements", "3", NULL};
	static const char *const setting[] = {"name", "steno.log", "old", "all", "new", "write", "source", "session", NULL};
	static const char *const gap[] = {"count", "7", "first_seq", "9", "last_seq", "15", "reason", "ring full", NULL};
	static const char *const torn[] = {"event", "torn", "version", "1.0", "bytes", "1234", NULL};
	Maker		w;
	StenoRecordMessage r;
	ModelStrings s = {0};

	begin(&w, folder, "kinds", 0, STENO_CODEC_NONE);
	full_session(&w);
	with_extra(&w, STENO_KIND_CONNECT, NULL, method);
	r = record(&w, STENO_KIND_START);
	set_text(&s, "SELECT 1");
	put(&w, &r, &s);
	statement(&w, "SELECT 1");
	r = record(&w, STENO_KIND_TRANSACTION);
	r.xid = 771;
	r.duration = 5000;
	s = (ModelStrings) {0};
	use_extra(&r, &s, commit);
	put(&w, &r, &s);
	with_extra(&w, STENO_KIND_SETTING, NULL, setting);
	with_extra(&w, STENO_KIND_NOTE, "ticket 17: \"four eyes\" \\ agreed", NULL);
	/* seven records were lost before the statement that would be number 16 */
	with_extra(&w, STENO_KIND_SERVER, NULL, torn);
	r = record(&w, STENO_KIND_AUTH_FAILED);
	memcpy(r.sqlstate, "28P01", 5);
	s = (ModelStrings) {0};
	s.message = "password authentication failed for user \"alice\"";
	s.message_len = (uint32_t) strlen(s.message);
	r.outcome = STENO_OUTCOME_ERROR;
	put(&w, &r, &s);
	w.seq = 15;
	with_extra(&w, STENO_KIND_GAP, NULL, gap);
	r = record(&w, STENO_KIND_DISCONNECT);
	r.duration = 1009000;
	s = (ModelStrings) {0};
	put(&w, &r, &s);
	end(&w);
}

/* All fields of a statement at once. */
static void
full_statement(Maker *w)
{
	static const char *const pairs[] = {"zz_later", "a name of a later version", "", "", NULL};
	StenoRecordMessage r = record(w, STENO_KIND_STATEMENT);
	ModelStrings s = {0};
	Shape		sh;
	StenoCut	cut;
	StenoParts	none = {{0}};
	const uint8_t nulls[] = {0x02, 0x01};
	const uint8_t values[] = {1, 0, 0, 0, 3, 'a', 'b', 'c', 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0};
	int			i;

	shape_begin(&sh, STENO_CLASS_WRITE, UINT64_MAX, "UPDATE", 2);
	shape_relation(&sh, STENO_RELTYPE_TABLE, STENO_ACCESS_SELECT | STENO_ACCESS_UPDATE, "public.orders");
	shape_relation(&sh, STENO_RELTYPE_VIEW, STENO_ACCESS_SELECT, "public.\"odd name\"");
	shape_count(&sh, 9);
	for (i = 0; i < 9; i++)
		shape_param(&sh, i == 2 ? 25 : 23, i == 2 ? STENO_REPR_TEXT : STENO_REPR_INT4);
	use_shape(&s, &sh);
	set_text(&s, "UPDATE orders SET ");
	r.rows = 3;
	r.duration = 123456;
	s.nulls = nulls;
	s.nulls_len = sizeof(nulls);
	s.values = values;
	s.values_len = sizeof(values);
	r.statement = w->statement + 5;
	r.seq = w->seq += 10;
	r.depth = 2;
	r.substatement = 300;
	r.outcome = STENO_OUTCOME_ERROR;
	memcpy(r.sqlstate, "23505", 5);
	s.message = "duplicate key value violates unique constraint \"orders_pkey\"";
	s.message_len = (uint32_t) strlen(s.message);
	r.xid = UINT32_MAX;
	cut.len = 100000;
	memset(cut.hash, 0xa5, sizeof(cut.hash));
	s.cut = &cut;
	s.parts = &none;
	use_extra(&r, &s, pairs);
	r.audited = STENO_AUDITED_SESSION | STENO_AUDITED_OBJECT | STENO_AUDITED_RULE;
	put(w, &r, &s);
}

/* Every field, each alone and all together; and the numbers that are expected. */
static void
make_fields(const char *folder)
{
	Maker		w;
	StenoRecordMessage r;
	ModelStrings s = {0};
	Shape		sh;

	begin(&w, folder, "fields", 0, STENO_CODEC_NONE);
	simple_session(&w, 1, "alice", NULL);
	full_statement(&w);
	/* nothing at all but what is expected, and at the same time as the one before */
	r = record(&w, STENO_KIND_STATEMENT);
	r.time = w.time -= 1000;
	put(&w, &r, &s);
	/* earlier than the first: the header's first time is this one's */
	r = record(&w, STENO_KIND_STATEMENT);
	r.time = NOW - 5000000;
	r.rows = 0;
	r.duration = 0;
	set_text(&s, "");
	put(&w, &r, &s);
	/* texts need not be in any encoding */
	set_text(&s, "SELECT '\xff\xfe'\n\t-- \xc3\xa4");
	r = record(&w, STENO_KIND_STATEMENT);
	r.rows = UINT64_MAX - 1;
	put(&w, &r, &s);
	/* nested statements come before the one that they belong to */
	set_text(&s, "INSERT INTO log VALUES (1)");
	r = record(&w, STENO_KIND_STATEMENT);
	r.depth = 1;
	r.substatement = 1;
	put(&w, &r, &s);
	statement(&w, "SELECT f()");
	/* numbers that are behind what is expected */
	r = record(&w, STENO_KIND_STATEMENT);
	r.seq = 3;
	r.statement = 1;
	put(&w, &r, &s);
	w.seq = 3;
	r = record(&w, STENO_KIND_STATEMENT);
	r.outcome = STENO_OUTCOME_INTERRUPTED;
	put(&w, &r, &s);
	r = record(&w, STENO_KIND_START);
	r.outcome = STENO_OUTCOME_RUNNING;
	put(&w, &r, &s);
	/* a start record without a number, which leaves the count as it is */
	r = record(&w, STENO_KIND_START);
	r.seq = 0;
	w.seq--;
	put(&w, &r, &s);
	/* a shape without tag, relations and parameters, and VALUES of length 0 */
	shape_begin(&sh, STENO_CLASS_MISC, 0, "", 0);
	shape_count(&sh, 0);
	use_shape(&s, &sh);
	s.values = "";
	r = record(&w, STENO_KIND_STATEMENT);
	put(&w, &r, &s);
	end(&w);
}

/* A statement of one shape. */
static void
of_shape(Maker *w, const Shape *sh, const char *text, uint8_t audited)
{
	StenoRecordMessage r = record(w, STENO_KIND_STATEMENT);
	ModelStrings s = {0};

	use_shape(&s, sh);
	set_text(&s, text);
	s.values = "";
	r.audited = audited;
	put(w, &r, &s);
}

/* What DDL made, changed and removed, what was called, and what was audited and why. */
static void
make_objects(const char *folder)
{
	const uint8_t keys[] = {STENO_SESSION_USER, STENO_SESSION_APP_CONTEXT};
	const char *values[] = {"alice", "request 4711"};
	Shape		sh;
	Maker		w;

	begin(&w, folder, "objects", 0, STENO_CODEC_NONE);
	session(&w, 1, 2, keys, values);
	shape_begin(&sh, STENO_CLASS_DDL, 0, "CREATE TABLE", 0);
	shape_count(&sh, 0);
	shape_count(&sh, 2);
	shape_object(&sh, STENO_ACTION_CREATE, "table", "public.staff", "");
	shape_object(&sh, STENO_ACTION_CREATE, "index", "public.staff_pkey", "");
	of_shape(&w, &sh, "CREATE TABLE staff (id int PRIMARY KEY)", STENO_AUDITED_MANDATORY);
	shape_begin(&sh, STENO_CLASS_DDL, 0, "ALTER TABLE", 1);
	shape_relation(&sh, STENO_RELTYPE_TABLE, 0, "public.staff");
	shape_count(&sh, 0);
	shape_count(&sh, 2);
	shape_object(&sh, STENO_ACTION_RENAME, "table", "public.staff", "public.\"old staff\"");
	shape_object(&sh, STENO_ACTION_ALTER, "materialized view", "public.\"w\xc3\xa4hlen\"", "");
	of_shape(&w, &sh, "ALTER TABLE staff RENAME TO \"old staff\"", STENO_AUDITED_SESSION | STENO_AUDITED_MANDATORY);
	shape_begin(&sh, STENO_CLASS_DDL, 0, "DROP OWNED", 0);
	shape_count(&sh, 0);
	shape_count(&sh, 3);
	shape_object(&sh, STENO_ACTION_DROP, "table", "public.\"old staff\"", "");
	shape_object(&sh, STENO_ACTION_DROP, "event trigger", "guard", "");
	shape_object(&sh, STENO_ACTION_USE, "", "", "");
	of_shape(&w, &sh, "DROP OWNED BY alice", 0);
	/* objects after relations and parameters, and an action of a later version */
	shape_begin(&sh, STENO_CLASS_READ, 17, "SELECT", 2);
	shape_relation(&sh, STENO_RELTYPE_TABLE, STENO_ACCESS_SELECT | STENO_ACCESS_AUDITED, "public.salary");
	shape_relation(&sh, STENO_RELTYPE_VIEW, STENO_ACCESS_SELECT, "public.v");
	shape_count(&sh, 1);
	shape_param(&sh, 23, STENO_REPR_NONE);
	shape_count(&sh, 2);
	shape_object(&sh, STENO_ACTION_EXECUTE, "function", "public.raise", "");
	shape_object(&sh, 250, "thing", "public.t", "public.u");
	of_shape(&w, &sh, "SELECT raise($1) FROM salary, v", STENO_AUDITED_OBJECT);
	/* a list that is there and empty, and a reason of a later version */
	shape_begin(&sh, STENO_CLASS_FUNCTION, 0, "DO", 0);
	shape_count(&sh, 0);
	shape_count(&sh, 0);
	of_shape(&w, &sh, "DO ''", 0x80);
	end(&w);
}

/* Each representation with its type, and values at its limits. */
static void
make_values(const char *folder)
{
	static const struct
	{
		uint32_t	type;
		int			repr;
		uint32_t	len;
		const char *bytes;
	}			p[] =
	{
		{600, STENO_REPR_NONE, 0, ""},
		{16, STENO_REPR_BOOL, 1, "\1"},
		{21, STENO_REPR_INT2, 2, "\0\x80"},
		{23, STENO_REPR_INT4, 4, "\xff\xff\xff\x7f"},
		{20, STENO_REPR_INT8, 8, "\0\0\0\0\0\0\0\x80"},
		{700, STENO_REPR_FLOAT4, 4, "\0\0\xc0\x3f"},
		{701, STENO_REPR_FLOAT8, 8, "\0\0\0\0\0\0\xf8\x7f"},
		{26, STENO_REPR_OID, 4, "\xff\xff\xff\xff"},
		{25, STENO_REPR_TEXT, 7, "\6O'Hara"},
		{25, STENO_REPR_TEXT, 1, "\0"},
		{17, STENO_REPR_BYTEA, 5, "\4\0\xff\x5c\x7f"},
		/* 12345.678 in base 10000, the short form: scale 3, weight 1, digits 1, 2345, 6780 */
		{1700, STENO_REPR_NUMERIC, 9, "\x08\x81\x81\x01\x00\x29\x09\x7c\x1a"},
		{2950, STENO_REPR_UUID, 16, "\x12\x3e\x45\x67\xe8\x9b\x12\xd3\xa4\x56\x42\x66\x14\x17\x40\x00"},
		{1082, STENO_REPR_DATE, 4, "\xff\xff\xff\x7f"},
		{1083, STENO_REPR_TIME, 8, "\0\x60\xec\x1d\x14\0\0\0"},
		{1266, STENO_REPR_TIMETZ, 12, "\0\0\0\0\0\0\0\0\xf0\xf1\xff\xff"},
		{1114, STENO_REPR_TIMESTAMP, 8, "\0\x80\xc3\xde\x3f\xe5\x02\0"},
		{1184, STENO_REPR_TIMESTAMPTZ, 8, "\0\0\0\0\0\0\0\x80"},
		{1186, STENO_REPR_INTERVAL, 16, "\x40\x42\x0f\0\0\0\0\0\xff\xff\xff\xff\x0e\0\0\0"},
		{869, STENO_REPR_INET, 7, "\6\2\x20\x0a\0\0\1"},
		{650, STENO_REPR_CIDR, 19, "\x12\3\x20\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0"},
		{18, STENO_REPR_CHAR, 1, "x"},
	};
	const int	n = (int) (sizeof(p) / sizeof(p[0]));
	uint8_t		values[500];
	uint8_t		nulls[3] = {0xff, 0xff, 0x3f};
	uint32_t	len = 0;
	uint8_t		list[600];
	uint8_t	   *l = list;
	uint8_t		listed[600];
	Shape		sh;
	ModelStrings s = {0};
	StenoRecordMessage r;
	Maker		w;
	int			i;

	begin(&w, folder, "values", 0, STENO_CODEC_NONE);
	simple_session(&w, 1, "alice", NULL);
	shape_begin(&sh, STENO_CLASS_READ, 12345, "SELECT", 0);
	shape_count(&sh, n);
	for (i = 0; i < n; i++)
	{
		shape_param(&sh, p[i].type, p[i].repr);
		memcpy(values + len, p[i].bytes, p[i].len);
		len += p[i].len;
	}
	use_shape(&s, &sh);
	set_text(&s, "EXECUTE q");
	s.values = values;
	s.values_len = len;
	r = record(&w, STENO_KIND_STATEMENT);
	put(&w, &r, &s);
	/* all NULL: VALUES is there, and empty */
	s.values_len = 0;
	s.nulls = nulls;
	s.nulls_len = sizeof(nulls);
	r = record(&w, STENO_KIND_STATEMENT);
	put(&w, &r, &s);
	/* all but the second NULL */
	nulls[0] = 0xfd;
	s.values = "\0";
	s.values_len = 1;
	r = record(&w, STENO_KIND_STATEMENT);
	put(&w, &r, &s);
	/* the same in a list: each value, and a NULL of its type */
	l = steno_put_varint(l, 2 * n);
	for (i = 0; i < n; i++)
	{
		l = steno_put_varint(l, p[i].type);
		*l++ = (uint8_t) p[i].repr;
		memcpy(l, p[i].bytes, p[i].len);
		l += p[i].len;
		l = steno_put_varint(l, p[i].type);
		*l++ = (uint8_t) (p[i].repr | STENO_LISTED_NULL);
	}
	shape_begin(&sh, STENO_CLASS_READ, 12345, "SELECT", 0);
	shape_count(&sh, 1);
	shape_param(&sh, 0, STENO_REPR_LIST);
	memset(&s, 0, sizeof(s));
	use_shape(&s, &sh);
	set_text(&s, "EXECUTE many");
	len = (uint32_t) (l - list);
	l = steno_put_varint(listed, len);
	memcpy(l, list, len);
	s.values = listed;
	s.values_len = (uint32_t) (l - listed) + len;
	r = record(&w, STENO_KIND_STATEMENT);
	put(&w, &r, &s);
	/* no parameters in it */
	set_text(&s, "EXECUTE none");
	s.values = "\1\0";
	s.values_len = 2;
	r = record(&w, STENO_KIND_STATEMENT);
	put(&w, &r, &s);
	end(&w);
}

/* Ends of transactions, with IDs of 64 bits. */
static void
make_transactions(const char *folder)
{
	static const char *const commit[] = {"event", "commit", "statements", "3", "commit_lsn", "1A/FFFFFFA0", "end_lsn",
	"1B/28", "timeline", "2", NULL};
	static const char *const prepare[] = {"event", "prepare", "statements", "2", "gid", "it's", NULL};
	static const char *const prepared[] = {"event", "commit prepared", "commit_lsn", "1B/100", "end_lsn", "1B/1C8",
	"timeline", "2", "gid", "it's", NULL};
	static const char *const undone[] = {"first_seq", "2", "last_seq", "2", "after_statement", "1",
	"after_substatement", "2", NULL};
	static const char *const *const ends[] = {undone, commit, prepare, prepared};
	Maker		w;
	int			i;

	begin(&w, folder, "transactions", 0, STENO_CODEC_NONE);
	simple_session(&w, 1, "alice", NULL);
	statement(&w, "SAVEPOINT s");
	for (i = 0; i < 4; i++)
	{
		StenoRecordMessage r = record(&w, STENO_KIND_STATEMENT);
		ModelStrings s = {0};

		set_text(&s, "INSERT INTO t VALUES (1)");
		r.xid = i < 2 ? UINT32_MAX : 3;
		r.xid_epoch = i < 2 ? 6 : 7;
		put(&w, &r, &s);
		r = record(&w, i == 0 ? STENO_KIND_SUBTRANSACTION : STENO_KIND_TRANSACTION);
		r.outcome = i == 0 ? STENO_OUTCOME_ERROR : STENO_OUTCOME_OK;
		s = (ModelStrings)
		{
			0
		};
		r.xid = i < 2 ? UINT32_MAX : 3;
		r.xid_epoch = i < 2 ? 6 : 7;
		use_extra(&r, &s, ends[i]);
		put(&w, &r, &s);
	}
	end(&w);
}

/* Ends of transactions with fields of their own, also in a second block. */
static void
make_endings(const char *folder)
{
	static const char *const gid[] = {"gid", "it's", NULL};
	const uint64_t high = UINT64_C(0x1b) << 32;
	const uint64_t none = STENO_NONE64;
	const StenoEnding endings[] = {
		{high - 0x60, high + 0x28, 3, 2, STENO_EVENT_COMMIT, {0}},
		{high + 0x100, high + 0x128, 1, 2, STENO_EVENT_COMMIT, {0}},
		{0, 0, UINT64_C(1) << 40, 0, STENO_EVENT_ABORT, {0}},
		{0, 0, 2, 0, STENO_EVENT_PREPARE, {0}},
		{0, 0, none, 0, STENO_EVENT_ROLLBACK_PREPARED, {0}},
		{high + 0x50, high + 0x90, none, 300, STENO_EVENT_COMMIT_PREPARED, {0}},
		/* an event of a later version, and positions that go around */
		{UINT64_MAX, 8, 0, UINT32_MAX, 200, {0}}
	};
	Maker		w;
	int			i;

	begin(&w, folder, "endings", 0, STENO_CODEC_NONE);
	simple_session(&w, 1, "alice", NULL);
	for (i = 0; i < (int) (sizeof(endings) / sizeof(endings[0])); i++)
	{
		StenoRecordMessage r = record(&w, STENO_KIND_TRANSACTION);
		ModelStrings s = {0};

		r.outcome = endings[i].lsn == 0 && i != 3 ? STENO_OUTCOME_ERROR : STENO_OUTCOME_OK;
		r.xid = 3;
		r.xid_epoch = 7;
		s.ending = &endings[i];
		if (i >= 3 && i < 6)
			use_extra(&r, &s, gid);
		put(&w, &r, &s);
		if (i == 1)
			write_block(&w);
	}
	end(&w);
}

/* Columns of relations, and views through which they are reached. */
static void
make_columns(const char *folder)
{
	static uint8_t list[300];
	Shape		columns;
	Shape		sh;
	ModelStrings s = {0};
	StenoRecordMessage r;
	Maker		w;
	int			round;

	begin(&w, folder, "columns", 0, STENO_CODEC_NONE);
	simple_session(&w, 1, "alice", NULL);
	for (round = 0; round < 2; round++)
	{
		shape_begin(&sh, STENO_CLASS_WRITE, 0, "UPDATE", 3);
		shape_relation(&sh, STENO_RELTYPE_VIEW, STENO_ACCESS_SELECT | STENO_ACCESS_UPDATE, "hr.staff_of_sales");
		shape_relation(&sh, STENO_RELTYPE_TABLE, STENO_ACCESS_SELECT | STENO_ACCESS_UPDATE, "hr.staff");
		shape_relation(&sh, STENO_RELTYPE_TABLE, STENO_ACCESS_DELETE, "hr.old");
		shape_count(&sh, 1);
		shape_param(&sh, 23, STENO_REPR_INT4);
		shape_count(&sh, round);
		if (round > 0)
			shape_object(&sh, STENO_ACTION_EXECUTE, "function", "hr.f", "");
		/* a list that is not known */
		if (round > 0)
		{
			sh.p = steno_put_varint(sh.p, 77);
			shape_string(&sh, "of a later version");
		}
		columns.p = list;
		shape_count(&columns, 0);
		shape_count(&columns, 1);
		shape_count(&columns, STENO_ACCESS_UPDATE);
		shape_string(&columns, "salary");
		shape_count(&columns, 1);
		shape_count(&columns, 5);
		shape_count(&columns, STENO_ACCESS_SELECT);
		shape_string(&columns, "*");
		shape_count(&columns, STENO_ACCESS_SELECT | STENO_ACCESS_UPDATE);
		shape_string(&columns, "\"*\"");
		shape_count(&columns, STENO_ACCESS_SELECT);
		shape_string(&columns, "ctid");
		shape_count(&columns, STENO_ACCESS_UPDATE);
		shape_string(&columns, "\"Geh\xc3\xa4lt\xe4r\"");
		shape_count(&columns, STENO_ACCESS_UPDATE);
		shape_string(&columns, "");
		shape_count(&columns, 0);
		shape_count(&columns, 0);
		sh.p = steno_put_varint(sh.p, STENO_LIST_COLUMNS);
		sh.p = steno_put_varint(sh.p, (uint64_t) (columns.p - list));
		memcpy(sh.p, list, (size_t) (columns.p - list));
		sh.p += columns.p - list;
		use_shape(&s, &sh);
		set_text(&s, "UPDATE staff_of_sales SET salary = $1");
		s.values = "\1\0\0\0";
		s.values_len = 4;
		r = record(&w, STENO_KIND_STATEMENT);
		put(&w, &r, &s);
	}
	end(&w);
}

/* Two streams of two segments; a role that changes, and changes back. */
static void
make_streams(const char *folder)
{
	uint32_t	stream;
	Maker		w;

	for (stream = 0; stream < 2; stream++)
	{
		begin(&w, folder, "streams", stream, STENO_CODEC_NONE);
		simple_session(&w, 100 + stream, "alice", NULL);
		statement(&w, "SELECT 1");
		simple_session(&w, 100 + stream, "alice", "owner");
		statement(&w, "DROP TABLE t");
		simple_session(&w, 100 + stream, "alice", NULL);
		statement(&w, "SELECT 1");
		write_block(&w);
		statement(&w, "SELECT 1");
		write_block(&w);
		rotate(&w);
		statement(&w, "SELECT 2");
		simple_session(&w, 100 + stream, "alice", "owner");
		statement(&w, "SELECT 2");
		end(&w);
	}
}

/* Segment headers that have the times of the segment before: of several blocks, of none, of blocks without records. */
static void
make_ranges(const char *folder)
{
	Maker		w;
	int			i;

	begin(&w, folder, "ranges", 0, STENO_CODEC_NONE);
	w.has_ranges = true;
	simple_session(&w, 100, "alice", NULL);
	for (i = 0; i < 3; i++)
	{
		w.time = NOW + (i == 1 ? -5000000 : i * 1000000);
		statement(&w, "SELECT 1");
		write_block(&w);
	}
	rotate(&w);
	rotate(&w);
	write_block(&w);
	rotate(&w);
	statement(&w, "SELECT 2");
	write_block(&w);
	rotate(&w);
	end(&w);
}

/* LZ4, and a block that LZ4 would not make smaller. */
static void
make_lz4(const char *folder)
{
	Maker		w;
	int			i;
	char		text[60];

	begin(&w, folder, "lz4", 0, STENO_CODEC_LZ4);
	simple_session(&w, 1, "alice", NULL);
	for (i = 0; i < 40; i++)
	{
		snprintf(text, sizeof(text), "SELECT name FROM customer WHERE id = %d", i % 20);
		statement(&w, text);
	}
	write_block(&w);
	statement(&w, "SELECT 1");
	end(&w);
}

static uint8_t random_next;

/* The same bytes every time: for golden files alone. */
static bool
not_random(uint8_t *bytes, size_t len)
{
	while (len-- > 0)
		*bytes++ = random_next += 37;
	return true;
}

/*
 * Plain and encrypted segments in one stream, with two keys, which encrypted.keys
 * has as text.
 */
static void
make_encrypted(const char *folder)
{
	StenoCrypt *crypt = steno_crypt_create();
	uint8_t		keys[2][STENO_KEY_SIZE];
	char		path[600];
	FILE	   *f;
	Maker		w;
	int			i;

	snprintf(path, sizeof(path), "%s/encrypted.keys", folder);
	f = fopen(path, "w");
	CHECK(f != NULL);
	for (i = 0; i < 2 * STENO_KEY_SIZE; i++)
	{
		keys[i / STENO_KEY_SIZE][i % STENO_KEY_SIZE] = (uint8_t) (i * 5 + 1);
		fprintf(f, "%02x%s", (i * 5 + 1) & 255, i % STENO_KEY_SIZE == STENO_KEY_SIZE - 1 ? "\n" : "");
	}
	CHECK(fclose(f) == 0);

	random_next = 0;
	CHECK(crypt != NULL);
	steno_crypt_set_random(crypt, not_random);
	begin_crypt(&w, folder, "encrypted", 0, STENO_CODEC_NONE, crypt);
	simple_session(&w, 1, "alice", NULL);
	statement(&w, "SELECT 'plain'");
	write_block(&w);
	for (i = 0; i < 2; i++)
	{
		CHECK(steno_crypt_set_key(crypt, keys[i]));
		rotate(&w);
		statement(&w, "SELECT 'secret'");
		statement(&w, "SELECT 'secret'");
		write_block(&w);
		statement(&w, "DROP TABLE secret");
		write_block(&w);
	}
	CHECK(steno_crypt_set_key(crypt, NULL));
	rotate(&w);
	statement(&w, "SELECT 'plain'");
	end(&w);
}

static void
part(Maker *w, uint32_t what, const char *bytes)
{
	uint64_t	buffer[200];

	model_encode_data(buffer, w->seq + 1, what, bytes, (uint32_t) strlen(bytes));
	add(w, buffer);
}

/* Big records: their parts are in the block before, the same block, and another stream. */
static void
make_parts(const char *folder)
{
	Maker		w;
	StenoRecordMessage r;
	ModelStrings s = {0};
	StenoParts	parts = {{0}};
	Shape		sh;

	begin(&w, folder, "parts", 0, STENO_CODEC_NONE);
	simple_session(&w, 1, "alice", NULL);
	statement(&w, "SELECT 'before'");
	part(&w, STENO_PART_TEXT, "INSERT INTO blob ");
	part(&w, STENO_PART_TEXT, "VALUES ($1)");
	write_block(&w);
	part(&w, STENO_PART_TEXT, " RETURNING");
	part(&w, STENO_PART_VALUES, "\x14" "0123456789");
	part(&w, STENO_PART_MESSAGE, "value too ");
	shape_begin(&sh, STENO_CLASS_WRITE, 9, "INSERT", 0);
	shape_count(&sh, 1);
	shape_param(&sh, 25, STENO_REPR_TEXT);
	use_shape(&s, &sh);
	set_text(&s, " id");
	s.values = "abcdefghij";
	s.values_len = 10;
	s.message = "long";
	s.message_len = 4;
	parts.bytes[STENO_PART_TEXT] = 38;
	parts.bytes[STENO_PART_VALUES] = 11;
	parts.bytes[STENO_PART_MESSAGE] = 10;
	s.parts = &parts;
	r = record(&w, STENO_KIND_STATEMENT);
	r.outcome = STENO_OUTCOME_ERROR;
	memcpy(r.sqlstate, "22001", 5);
	put(&w, &r, &s);
	/* all of the text in parts: the record has none of its own */
	part(&w, STENO_PART_TEXT, "SELECT 'all in parts'");
	s = (ModelStrings) {0};
	memset(&parts, 0, sizeof(parts));
	parts.bytes[STENO_PART_TEXT] = 21;
	s.parts = &parts;
	r = record(&w, STENO_KIND_STATEMENT);
	put(&w, &r, &s);
	/* the record of these is in stream 1 */
	part(&w, STENO_PART_TEXT, "SELECT 'across ");
	end(&w);

	begin(&w, folder, "parts", 1, STENO_CODEC_NONE);
	w.seq = 3;
	w.statement = 3;
	simple_session(&w, 1, "alice", NULL);
	set_text(&s, "streams'");
	parts.bytes[STENO_PART_TEXT] = 15;
	r = record(&w, STENO_KIND_STATEMENT);
	put(&w, &r, &s);
	/* a statement that was interrupted: no record follows */
	part(&w, STENO_PART_TEXT, "SELECT 'never finis");
	end(&w);
}

/* A statement with a shape of one relation that has one column, and one parameter. */
static void
indexed_statement(Maker *w, int class, const char *tag, const char *relation, const char *column, int repr,
				  const char *text, const char *sqlstate)
{
	StenoRecordMessage r = record(w, STENO_KIND_STATEMENT);
	ModelStrings s = {0};
	Shape		columns;
	Shape		sh;

	shape_begin(&sh, class, 0, tag, 1);
	shape_relation(&sh, STENO_RELTYPE_TABLE, STENO_ACCESS_SELECT, relation);
	shape_count(&sh, 1);
	shape_param(&sh, 0, repr);
	shape_count(&sh, 1);
	shape_object(&sh, STENO_ACTION_RENAME, "table", "public.before", "public.after");
	columns.p = columns.bytes;
	shape_count(&columns, 0);
	shape_count(&columns, 2);
	shape_count(&columns, STENO_ACCESS_SELECT);
	shape_string(&columns, column);
	shape_count(&columns, STENO_ACCESS_SELECT);
	shape_string(&columns, "");
	sh.p = steno_put_varint(sh.p, STENO_LIST_COLUMNS);
	sh.p = steno_put_varint(sh.p, (uint64_t) (columns.p - columns.bytes));
	memcpy(sh.p, columns.bytes, (size_t) (columns.p - columns.bytes));
	sh.p += columns.p - columns.bytes;
	use_shape(&s, &sh);
	set_text(&s, text);
	s.nulls = "\1";
	s.nulls_len = 1;
	if (sqlstate != NULL)
	{
		r.outcome = STENO_OUTCOME_ERROR;
		memcpy(r.sqlstate, sqlstate, 5);
		s.message = "relation does not exist";
		s.message_len = 23;
	}
	put(w, &r, &s);
}

/*
 * A segment with two indexes, as after a stop: one with a group for each block, one
 * with a single group; some of what the blocks contain is omitted.  The next segment
 * has none.
 */
static void
make_index(const char *folder)
{
	static char long_name[STENO_INDEX_TERM_MAX + 1];
	const uint8_t keys[] = {STENO_SESSION_USER, STENO_SESSION_APPLICATION, STENO_SESSION_APP_USER,
	STENO_SESSION_ENCODING};
	const char *values[] = {"carol", "caf\xe9", "j\xf6rg", "SQL_ASCII"};
	StenoParts	parts = {{0}};
	StenoRecordMessage r;
	ModelStrings s = {0};
	Maker		w;
	int			i;

	begin(&w, folder, "index", 0, STENO_CODEC_NONE);
	w.index = steno_index_create();
	steno_index_set_newest(w.index, STENO_TERMS_TRIGRAMS);
	w.pretended = 32 * 1024;
	steno_block_set_index(w.block, w.index);

	simple_session(&w, 1, "alice", NULL);
	indexed_statement(&w, STENO_CLASS_READ, "SELECT", "public.orders", "id", STENO_REPR_INT4,
					  "SELECT id FROM orders WHERE id = $1", NULL);
	/* the same beginning and end as before */
	indexed_statement(&w, STENO_CLASS_READ, "SELECT", "public.orders", "total", STENO_REPR_INT4,
					  "SELECT id FROM orders WHERE total * 2 > 7 AND id = $1", NULL);
	write_block(&w);
	simple_session(&w, 1, "bob", "owner");
	indexed_statement(&w, STENO_CLASS_DDL, "ALTER TABLE", "public.\"K\xc3\xa4ufer\"", "na\xc3\xafve", STENO_REPR_TEXT,
					  "alter table k\xc3\xa4ufer rename to after\n\tcascade", "42P01");
	write_block(&w);
	/* what the builder discards is in no block */
	statement(&w, "SELECT 'discarded'");
	w.seq--;
	w.statement--;
	w.source.seq--;
	w.source.statement--;
	steno_block_reset(w.block);
	w.seq = 0;
	w.statement = 0;
	session(&w, 2, 4, keys, values);
	with_extra(&w, STENO_KIND_CONNECT, NULL, NULL);
	r = record(&w, STENO_KIND_TRANSACTION);
	r.outcome = STENO_OUTCOME_ERROR;
	put(&w, &r, &s);
	with_extra(&w, STENO_KIND_DISCONNECT, NULL, NULL);
	write_block(&w);
	/* texts in data parts, and a relation whose name is too long: neither is in the index */
	w.seq = 0;
	w.statement = 0;
	simple_session(&w, 3, "alice", NULL);
	memset(long_name, 'x', STENO_INDEX_TERM_MAX);
	indexed_statement(&w, STENO_CLASS_WRITE, "INSERT", long_name, "id", STENO_REPR_INT8, "INSERT", NULL);
	part(&w, STENO_PART_TEXT, "SELECT 'all in parts'");
	parts.bytes[STENO_PART_TEXT] = 21;
	s.parts = &parts;
	r = record(&w, STENO_KIND_STATEMENT);
	put(&w, &r, &s);
	write_block(&w);
	steno_block_add_index(w.block);
	write_block(&w);

	w.pretended = 0;
	for (i = 0; i < 3; i++)
	{
		simple_session(&w, 3, i == 1 ? "dave" : "alice", NULL);
		statement(&w, i == 1 ? "SELECT 'a rare text'" : "SELECT 1");
		write_block(&w);
	}
	steno_block_add_index(w.block);
	write_block(&w);
	rotate(&w);
	statement(&w, "SELECT 'in no index'");
	end(&w);
}

/* ---- runs and variants ---- */

static void
brief(Maker *w, uint8_t template, const void *values, uint8_t len, uint32_t rows, uint64_t xid)
{
	uint64_t	buffer[16] = {0};
	StenoBriefMessage *b = (StenoBriefMessage *) buffer;

	w->time += 40;
	steno_brief_encode(b, template < STENO_TEMPLATES ? STENO_MESSAGE_VALUES : 0, w->time, template, len);
	b->duration = 10 + rows;
	b->rows = rows;
	b->version = 1;
	memcpy(b->values, values, len);
	b->m.len = steno_brief_len(len);
	if (xid != 0)
	{
		model_append_brief(b, STENO_MESSAGE_XID, &xid, sizeof(xid));
	}
	add(w, b);
	w->seq = w->source.seq;
	w->statement = w->source.statement;
}

static void
set_template(StenoTemplate *t, int class, const char *tag, const char *text)
{
	Shape		sh;

	shape_begin(&sh, class, 5, tag, 1);
	shape_relation(&sh, STENO_RELTYPE_TABLE, STENO_ACCESS_SELECT, "public.accounts");
	shape_count(&sh, 1);
	shape_param(&sh, 23, STENO_REPR_INT4);
	t->version = 1;
	t->shape_len = (uint16_t) (sh.p - sh.bytes);
	t->text_len = (uint16_t) strlen(text);
	memcpy(t->bytes, sh.bytes, t->shape_len);
	memcpy(t->bytes + t->shape_len, text, t->text_len);
}

/*
 * Records of prepared statements: a form with rows, and one without; transaction IDs that go
 * forward and backward; runs that other items interrupt.  Texts that differ from an earlier
 * one at the beginning, in the middle, at the end, or only in length.
 */
static void
make_runs(const char *folder)
{
	static StenoTemplate templates[STENO_TEMPLATES];
	const uint64_t xids[] = {0, UINT64_C(4294967300), UINT64_C(4294967300), 4294967295, 0};
	Maker		w;
	size_t		i;

	begin(&w, folder, "runs", 0, STENO_CODEC_NONE);
	set_template(&templates[0], STENO_CLASS_READ, "SELECT", "SELECT balance FROM accounts WHERE id = $1");
	set_template(&templates[1], STENO_CLASS_WRITE, "UPDATE", "UPDATE accounts SET balance = 0 WHERE id = $1");
	simple_session(&w, 1, "alice", NULL);
	w.source.templates = templates;
	statement(&w, "SELECT 'the first record has a time of its own'");
	for (i = 0; i < 4; i++)
		brief(&w, 0, "\1\0\0", 4, 1, 0);
	/* another number of rows */
	for (i = 0; i < 3; i++)
		brief(&w, 0, "\0\1\2\3", 4, (uint32_t) i, 0);
	for (i = 0; i < 5; i++)
	{
		brief(&w, STENO_BRIEF_BEGIN, i < 4 ? "BEGIN" : "begin work", i < 4 ? 5 : 10, STENO_NONE32, 0);
		brief(&w, 1, "\5\0\0", 4, 1, xids[i]);
		brief(&w, STENO_BRIEF_COMMIT, "COMMIT", 6, STENO_NONE32, xids[i]);
	}
	/* a sequence number is left out, and the session has another role */
	w.seq += 2;
	statement(&w, "SELECT 'the first record has a time of its own', after all");
	brief(&w, 0, "\7\0\0", 4, 0, 0);
	simple_session(&w, 1, "alice", "bob");
	for (i = 0; i < 3; i++)
		brief(&w, 0, "\7\0\0", 4, 0, 0);
	write_block(&w);

	statement(&w, "SELECT name FROM staff WHERE id = 1 ORDER BY name");
	statement(&w, "SELECT name FROM staff WHERE id = 23 ORDER BY name");
	statement(&w, "SELECT name FROM staff WHERE id = 1 ORDER BY name DESC");
	statement(&w, "SELECT name FROM staff WHERE id = 1");
	statement(&w, "SELECT name FROM staff WHERE id = 111 ORDER BY name");
	statement(&w, "SELECT name FROM staff WHERE id = 23 ORDER BY name");
	statement(&w, "SELECT name FROM nobody");
	end(&w);
}

/* A statement that is not prepared, of a session that executes it again and again. */
static void
similar(Maker *w, const char *text, uint64_t rows, bool value)
{
	StenoRecordMessage r = record(w, STENO_KIND_STATEMENT);
	ModelStrings s = {0};
	Shape		sh;

	shape_begin(&sh, STENO_CLASS_READ, 5, "SELECT", 1);
	shape_relation(&sh, STENO_RELTYPE_TABLE, STENO_ACCESS_SELECT, "public.staff");
	shape_count(&sh, value);
	if (value)
	{
		shape_param(&sh, 23, STENO_REPR_INT4);
		s.values = "\7\0\0";
		s.values_len = 4;
	}
	s.shape = sh.bytes;
	s.shape_len = (uint32_t) (sh.p - sh.bytes);
	set_text(&s, text);
	r.rows = rows;
	r.duration = 30;
	put(w, &r, &s);
}

/*
 * Records of statements that are not prepared: the same text again and again; texts with
 * another constant each time, in the middle, at the end, empty, in no encoding; one that makes
 * both parts that are the same shorter; and others between them.
 */
static void
make_similar(const char *folder)
{
	Maker		w;
	int			i;

	begin(&w, folder, "similar", 0, STENO_CODEC_NONE);
	simple_session(&w, 1, "alice", NULL);
	statement(&w, "SELECT 'the first record has a time of its own'");
	for (i = 0; i < 4; i++)
		similar(&w, "SELECT name FROM staff WHERE id = $1", 1, true);
	for (i = 0; i < 3; i++)
		similar(&w, "SELECT name FROM staff WHERE id = $1", (uint64_t) i, true);
	similar(&w, "SELECT name FROM staff WHERE id = 1 ORDER BY name", 1, false);
	similar(&w, "SELECT name FROM staff WHERE id = 23 ORDER BY name", 1, false);
	similar(&w, "SELECT name FROM staff WHERE id = 456 ORDER BY name", 1, false);
	similar(&w, "SELECT name FROM staff WHERE id = 23 ORDER BY name", 1, false);
	similar(&w, "SELECT name FROM staff WHERE id =  ORDER BY name", 1, false);
	similar(&w, "SELECT name FROM staff WHERE id = \xff\xfe ORDER BY name", 1, false);
	statement(&w, "SELECT name FROM staff WHERE id = 7 ORDER BY name");
	similar(&w, "SELECT name FROM staff WHERE name = 'x' ORDER BY id", 1, false);
	similar(&w, "SELECT name FROM staff WHERE name = 'y' ORDER BY id", 1, false);
	similar(&w, "SELECT name FROM staff WHERE name = 'z'", 1, false);
	similar(&w, "SELECT name FROM staff", 1, false);
	simple_session(&w, 1, "alice", "bob");
	for (i = 0; i < 3; i++)
		similar(&w, "SELECT name FROM staff WHERE id = 1 ORDER BY name", 1, false);
	write_block(&w);
	similar(&w, "SELECT name FROM staff WHERE id = 1 ORDER BY name", 1, false);
	end(&w);
}

/* A block put together by hand. */
static void
craft(Maker *w, const uint8_t *payload, size_t len, uint32_t records)
{
	uint8_t		bytes[2000];
	uint8_t		hashed[2000];
	uint8_t		chain[STENO_HASH_SIZE];
	StenoBlockHeader h = {0};
	StenoError	error;

	h.stored = h.raw = (uint32_t) len;
	h.records = records;
	h.block = w->stream.next_block;
	h.first_record = w->stream.next_record;
	h.first_time = h.first_end = h.last_end = NOW;
	h.payload_sum = XXH64(payload, len, 0);
	steno_block_header_write(bytes, &h);
	memcpy(bytes + STENO_BLOCK_HEADER, payload, len);
	memcpy(hashed, w->stream.chain, STENO_HASH_SIZE);
	memcpy(hashed + STENO_HASH_SIZE, bytes, STENO_BLOCK_CHAINED);
	memcpy(hashed + STENO_HASH_SIZE + STENO_BLOCK_CHAINED, payload, len);
	SHA256(hashed, STENO_HASH_SIZE + STENO_BLOCK_CHAINED + len, chain);
	steno_block_header_seal(bytes, chain);
	CHECK(steno_stream_append(&w->stream, bytes, STENO_BLOCK_HEADER + len, records, chain, &error));
}

/* What a later version may write, in the limits that it must keep. */
static void
make_later(const char *folder)
{
	static const uint8_t payload[] = {
		/* unknown definition, unknown part, kind 0 */
		3, 255, 1, 2,
		5, 127, 0, 1, 2, 3,
		1, 0,
		/* a session with key 99 */
		22, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 2, 1, 'u', 99, 2, 'o', 'k',
		/* a text */
		9, 130, 'S', 'E', 'L', 'E', 'C', 'T', ' ', '1',
		/* kind 42, with text and rows */
		5, 42, 0, 6, 0, 17,
		/* a statement with an unknown field, bit 20, after rows */
		12, 1, 0, 0x86, 0x80, 0x40, 0, 18, 'w', 'h', 'a', 't', '?',
		/* a statement whose mask has 63 bits, all of them unknown but rows */
		13, 1, 0, 0x84, 0x80, 0xc0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 19, 0,
		/* class, access, relation type, and outcome that are unknown, and a shape that goes on after its objects */
		24, 129, 99, 0, 1, 'X', 1, 77, 0x80, 0x80, 0x01, 3, 'a', '.', 'b', 0, 1, 9, 1, 't', 0, 0, 'm', 'o', 'r',
		6, 1, 0, 0x81, 0x08, 0, 99,
		/* varints that are longer than they need be */
		0x87, 0, 1, 0x80, 0, 4, 0x94, 0x80, 0,
	};
	Maker		w;

	begin(&w, folder, "later", 0, STENO_CODEC_NONE);
	craft(&w, payload, sizeof(payload), 5);
	simple_session(&w, 1, "alice", NULL);
	statement(&w, "SELECT 1");
	end(&w);
}

/* Blocks and segments with nothing in them. */
static void
make_empty(const char *folder)
{
	Maker		w;

	begin(&w, folder, "empty", 0, STENO_CODEC_NONE);
	write_block(&w);
	rotate(&w);
	rotate(&w);
	simple_session(&w, 1, "alice", NULL);
	statement(&w, "SELECT 1");
	write_block(&w);
	write_block(&w);
	rotate(&w);
	end(&w);
}

/* A key that is no secret: its bytes are first, first + 1, ... */
static EVP_PKEY *
seal_key(uint8_t first)
{
	uint8_t		bytes[32];
	int			i;

	for (i = 0; i < 32; i++)
		bytes[i] = (uint8_t) (first + i);
	return EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, bytes, sizeof(bytes));
}

/* A seal of the last block; the writer's session is the one of the trail. */
static void
seal(Maker *w, EVP_PKEY *key, const char *reason, EVP_PKEY *next)
{
	uint64_t	buffer[STENO_SEAL_ROOM / 8];
	StenoSeal	s = {.system_identifier = TRAIL_SYSTEM,.stream = w->stream.number,.interval = 60,
		.segment = w->stream.segment,.block = w->stream.next_block - 1,.record = w->stream.next_record - 1,
	.first = 1,.reason = reason};

	w->time += 1000;
	s.time = w->time;
	CHECK(steno_stream_last_hash(&w->stream, s.hash));
	if (next != NULL)
		CHECK(steno_key_public(next, s.next_key));
	add(w, steno_seal_message((uint8_t *) buffer, &s, key, ++w->seq));
}

/* Seals for each reason, by two keys; seals.pub has the first one. */
static void
make_seals(const char *folder)
{
	EVP_PKEY   *one = seal_key(1);
	EVP_PKEY   *two = seal_key(101);
	char		path[700];
	FILE	   *f;
	Maker		w;

	begin(&w, folder, "seals", 0, STENO_CODEC_NONE);
	simple_session(&w, 1, "alice", NULL);
	statement(&w, "SELECT 1");
	write_block(&w);
	seal(&w, one, "start", NULL);
	statement(&w, "SELECT 2");
	write_block(&w);
	seal(&w, one, "interval", NULL);
	write_block(&w);
	statement(&w, "SELECT 3");
	write_block(&w);
	seal(&w, one, "segment", NULL);
	write_block(&w);
	rotate(&w);
	seal(&w, one, "key", two);
	seal(&w, two, "start", NULL);
	statement(&w, "SELECT 4");
	write_block(&w);
	seal(&w, two, "stop", NULL);
	end(&w);

	snprintf(path, sizeof(path), "%s/seals.pub", folder);
	f = fopen(path, "w");
	CHECK(f != NULL && PEM_write_PUBKEY(f, one) == 1);
	CHECK(fclose(f) == 0);
	EVP_PKEY_free(one);
	EVP_PKEY_free(two);
}

/* ---- damaged trails ---- */

static uint64_t offsets[4];		/* of the blocks of segment 1 of the trail made last */

/* Stream 0 with these many segments of three blocks. */
static void
make_base(const char *folder, const char *name, int segments)
{
	Maker		w;
	int			i;
	int			j;

	begin(&w, folder, name, 0, STENO_CODEC_NONE);
	simple_session(&w, 1, "alice", NULL);
	for (i = 0; i < segments; i++)
	{
		if (i > 0)
			rotate(&w);
		for (j = 0; j < 3; j++)
		{
			if (i == 0)
				offsets[j] = w.stream.offset;
			statement(&w, "SELECT 1");
			statement(&w, "SELECT 2");
			write_block(&w);
		}
		if (i == 0)
			offsets[3] = w.stream.offset;
	}
	end(&w);
}

static void
expect(const char *folder, const char *name, const char *line)
{
	char		path[700];
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%s.expected", folder, name);
	f = fopen(path, "w");
	CHECK(f != NULL);
	fprintf(f, "%s\n", line);
	CHECK(fclose(f) == 0);
}

static void
fault(const char *folder, const char *name, const char *what, int segment, uint64_t offset)
{
	char		line[200];

	snprintf(line, sizeof(line), "{\"fault\":\"%s\",\"stream\":0,\"segment\":%d,\"offset\":%llu}",
			 what, segment, (unsigned long long) offset);
	expect(folder, name, line);
}

static void
flip(const char *folder, const char *name, uint64_t offset)
{
	char		path[700];
	char		trail[600];
	size_t		len;
	uint8_t    *bytes;

	snprintf(trail, sizeof(trail), "%s/%s", folder, name);
	segment_name(path, sizeof(path), trail, 0, 1);
	bytes = file_read(path, &len);
	bytes[offset] ^= 0x10;
	file_write(path, bytes, len);
	free(bytes);
}

static void
make_torn(const char *folder)
{
	char		path[700];

	make_base(folder, "torn_payload", 1);
	snprintf(path, sizeof(path), "%s/torn_payload/0/0000000001.steno", folder);
	CHECK(truncate(path, (off_t) offsets[3] - 5) == 0);
	fault(folder, "torn_payload", "torn", 1, offsets[2]);

	make_base(folder, "torn_header", 1);
	snprintf(path, sizeof(path), "%s/torn_header/0/0000000001.steno", folder);
	CHECK(truncate(path, (off_t) offsets[2] + 50) == 0);
	fault(folder, "torn_header", "torn", 1, offsets[2]);

	make_base(folder, "torn_segment_header", 2);
	snprintf(path, sizeof(path), "%s/torn_segment_header/0/0000000002.steno", folder);
	CHECK(truncate(path, 50) == 0);
	fault(folder, "torn_segment_header", "torn", 2, 0);
}

static void
make_flipped(const char *folder)
{
	make_base(folder, "payload_bit", 1);
	flip(folder, "payload_bit", offsets[1] + STENO_BLOCK_HEADER + 3);
	fault(folder, "payload_bit", "damaged", 1, offsets[1]);

	make_base(folder, "header_bit", 1);
	flip(folder, "header_bit", offsets[1] + 25);
	fault(folder, "header_bit", "damaged", 1, offsets[1]);

	make_base(folder, "segment_header_bit", 2);
	flip(folder, "segment_header_bit", 17);
	fault(folder, "segment_header_bit", "damaged", 1, 0);
}

/*
 * A block whose payload was changed, and its checksums with it: only the chain
 * tells.
 */
static void
make_forged(const char *folder)
{
	char		path[700];
	size_t		len;
	uint8_t    *bytes;
	uint8_t    *block;
	uint8_t		chain[STENO_HASH_SIZE];
	uint32_t	stored;

	make_base(folder, "forged_payload", 1);
	snprintf(path, sizeof(path), "%s/forged_payload/0/0000000001.steno", folder);
	bytes = file_read(path, &len);
	block = bytes + offsets[1];
	stored = (uint32_t) steno_get_le(block + 8, 4);
	block[STENO_BLOCK_HEADER + stored - 1] ^= 1;
	steno_put_le(block + 64, XXH64(block + STENO_BLOCK_HEADER, stored, 0), 8);
	memcpy(chain, block + STENO_BLOCK_CHAINED, sizeof(chain));
	steno_block_header_seal(block, chain);
	file_write(path, bytes, len);
	free(bytes);
	fault(folder, "forged_payload", "chain", 1, offsets[1]);
}

static void
make_removed(const char *folder)
{
	char		path[700];
	char		other[700];
	char		third[700];
	size_t		len;
	uint8_t    *bytes;

	make_base(folder, "removed_block", 1);
	snprintf(path, sizeof(path), "%s/removed_block/0/0000000001.steno", folder);
	bytes = file_read(path, &len);
	memmove(bytes + offsets[1], bytes + offsets[2], len - offsets[2]);
	file_write(path, bytes, len - (offsets[2] - offsets[1]));
	free(bytes);
	fault(folder, "removed_block", "number", 1, offsets[1]);

	make_base(folder, "removed_segment", 3);
	snprintf(path, sizeof(path), "%s/removed_segment/0/0000000002.steno", folder);
	CHECK(unlink(path) == 0);
	fault(folder, "removed_segment", "missing", 2, 0);

	make_base(folder, "swapped_segments", 3);
	snprintf(path, sizeof(path), "%s/swapped_segments/0/0000000001.steno", folder);
	snprintf(other, sizeof(other), "%s/swapped_segments/0/0000000002.steno", folder);
	snprintf(third, sizeof(third), "%s/swapped_segments/0/tmp", folder);
	CHECK(rename(path, third) == 0 && rename(other, path) == 0 && rename(third, other) == 0);
	fault(folder, "swapped_segments", "number", 1, 0);
}

static void
make_foreign(const char *folder)
{
	char		path[700];

	make_base(folder, "foreign_file", 2);
	snprintf(path, sizeof(path), "%s/foreign_file/0/0000000002.steno", folder);
	file_write(path, "This is not a segment, whatever its name says.  It is long enough to hold a header, "
			   "and then some more, but it begins with other bytes than a segment does.\n", 156);
	fault(folder, "foreign_file", "damaged", 2, 0);

	make_base(folder, "empty_file", 2);
	snprintf(path, sizeof(path), "%s/empty_file/0/0000000002.steno", folder);
	file_write(path, "", 0);
	fault(folder, "empty_file", "torn", 2, 0);
}

void
golden_make(const char *folder)
{
	static const struct
	{
		const char *name;
		void		(*make) (const char *);
	}			trails[] =
	{
		{"kinds", make_kinds}, {"fields", make_fields}, {"values", make_values}, {"objects", make_objects}, {"columns", make_columns}, {"transactions", make_transactions}, {"endings", make_endings},
		{"index", make_index}, {"runs", make_runs}, {"similar", make_similar},
		{"streams", make_streams}, {"ranges", make_ranges}, {"lz4", make_lz4}, {"parts", make_parts},
		{"later", make_later}, {"empty", make_empty}, {"seals", make_seals}, {"encrypted", make_encrypted},
	};
	char		path[600];
	char		trail[600];
	size_t		i;

	for (i = 0; i < sizeof(trails) / sizeof(trails[0]); i++)
	{
		FILE	   *f;

		trails[i].make(folder);
		snprintf(path, sizeof(path), "%s/%s.expected", folder, trails[i].name);
		snprintf(trail, sizeof(trail), "%s/%s", folder, trails[i].name);
		f = fopen(path, "w");
		CHECK(f != NULL);
		expected_write(f, trail);
		CHECK(fclose(f) == 0);
	}
	snprintf(path, sizeof(path), "%s/damaged", folder);
	CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
	make_torn(path);
	make_flipped(path);
	make_forged(path);
	make_removed(path);
	make_foreign(path);
}
