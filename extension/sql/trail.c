/*
 * extension/sql/trail.c
 *		steno.trail(): the records of the trail as rows.
 *
 * Rows go into a tuplestore, so that memory is bounded by work_mem, and nothing is
 * left open between two rows.
 */
#include "base/steno.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "sql/further.h"
#include "sql/show.h"
#include "sql/trail_reader.h"

PG_FUNCTION_INFO_V1(steno_sql_trail);

static const Oid columns[] = {
	TIMESTAMPTZOID, TEXTOID, INT8OID, TEXTOID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID,
	TEXTOID, TEXTOID, INT8OID, INT4OID, INT8OID, TEXTOID, TEXTOID, TEXTOID, INTERVALOID, INT8OID,
	RECORDARRAYOID, RECORDARRAYOID, TEXTOID, INT8OID, TEXTARRAYOID, XID8OID, TEXTARRAYOID, JSONBOID,
	INT4OID, INT8OID, INT8OID
};

#define COLUMN_RELATIONS 22
#define COLUMN_OBJECTS 23

/* Columns that a session definition fills, from its ID on. */
#define SESSION_COLUMNS 7
static const struct
{
	int			column;
	uint8		key;
	bool		is_shared;		/* the name of what all databases share */
}			session_columns[SESSION_COLUMNS] =

{
	{5, STENO_SESSION_USER, true}, {6, STENO_SESSION_ROLE, true}, {7, STENO_SESSION_DATABASE, true},
	{8, STENO_SESSION_APPLICATION}, {9, STENO_SESSION_CLIENT}, {10, STENO_SESSION_APP_USER},
	{11, STENO_SESSION_APP_CONTEXT}
};

/* A session definition of the block that is read. */
typedef struct Session
{
	bool		known;
	bool		wanted;
	int			encoding;
	int64		start;
	uint32		pid;
	Datum		id;
	Datum		values[SESSION_COLUMNS];
	bool		nulls[SESSION_COLUMNS];
} Session;

/* How many session definitions of a block are kept as they are shown; blocks rarely have more. */
#define SESSIONS 256

/* Whether the objects of a shape are wanted; shapes of a block are known by their addresses. */
#define VERDICTS 256

typedef struct Verdict
{
	const uint8 *shape;
	bool		wanted;
} Verdict;

/* Which records are looked for, by whether they say that something failed (has_failed). */
typedef enum Outcomes
{
	ANY_OUTCOME,
	FAILURES,
	NO_FAILURES
} Outcomes;

/* A value that is looked for; p is NULL if any will do. */
typedef struct Wanted
{
	StenoBytes	user;
	StenoBytes	database;
	StenoBytes	application;
	StenoBytes	object;
	StenoBytes	object_relation;	/* what is before the last dot; if it is a
									 * column, its relation */
	StenoBytes	contains;
	int			class;			/* 0: any */
	Outcomes	outcomes;
} Wanted;

typedef struct Trail
{
	ReturnSetInfo *rsinfo;
	Wanted		wanted;
	StenoShownTypes types;
	MemoryContext per_block;
	Session		sessions[SESSIONS];
	Session		other;			/* the last one with a higher number */
	uint32		other_index;
	MemoryContext per_other;
	Verdict		verdicts[VERDICTS];
} Trail;

/* ---- comparisons ---- */

static bool
is_ascii(StenoBytes s)
{
	uint64		i;

	for (i = 0; i < s.len; i++)
		if (IS_HIGHBIT_SET(s.p[i]))
			return false;
	return true;
}

static StenoBytes
bytes_of(Datum text)
{
	return (StenoBytes)
	{
		(const uint8 *) VARDATA_ANY(DatumGetPointer(text)), VARSIZE_ANY_EXHDR(DatumGetPointer(text))
	};
}

/* A name or text as it is shown; it is converted only if necessary. */
static StenoBytes
as_shown(StenoBytes s, int encoding)
{
	return encoding == steno_shown_as() || is_ascii(s) ? s : bytes_of(steno_show_text(s, encoding));
}

static bool
same_bytes(StenoBytes a, StenoBytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static bool
contains(StenoBytes s, StenoBytes wanted)
{
	return wanted.len == 0 || (s.len >= wanted.len && memmem(s.p, s.len, wanted.p, wanted.len) != NULL);
}

/* A qualified name without its schema.  A dot in double quotes is part of a name, as are those in arguments. */
static StenoBytes
unqualified(StenoBytes name)
{
	bool		quoted = false;
	uint64		i;

	for (i = 0; i < name.len; i++)
	{
		if (name.p[i] == '"')
			quoted = !quoted;
		else if (name.p[i] == '(' && !quoted)
			break;
		else if (name.p[i] == '.' && !quoted)
			return (StenoBytes)
		{
			name.p + i + 1, name.len - i - 1
		};
	}
	return name;
}

/* Whether a name is this one, with its schema or without. */
static bool
is_named(StenoBytes name, StenoBytes wanted)
{
	return same_bytes(name, wanted) || same_bytes(unqualified(name), wanted);
}

/* What is before the last dot of a name; nothing if there is none. */
static StenoBytes
before_last_dot(StenoBytes name)
{
	StenoBytes	found = {NULL, 0};
	bool		quoted = false;
	uint64		i;

	for (i = 0; i < name.len; i++)
	{
		if (name.p[i] == '"')
			quoted = !quoted;
		else if (name.p[i] == '.' && !quoted)
			found = (StenoBytes)
		{
			name.p, i
		};
	}
	return found;
}

/*
 * Whether a column of a relation is the wanted one.  The whole row is each of them, and a name that is
 * empty stands for any that are left out.
 */
static bool
is_wanted_column(const Wanted *w, StenoBytes relation, StenoBytes column)
{
	static const uint8 whole_row[] = {'*'};
	StenoBytes	row = {whole_row, sizeof(whole_row)};
	StenoBytes	wanted;

	if (w->object_relation.p == NULL || !is_named(relation, w->object_relation))
		return false;
	if (column.len == 0 || same_bytes(column, row))
		return true;
	wanted.p = w->object_relation.p + w->object_relation.len + 1;
	wanted.len = w->object.len - w->object_relation.len - 1;
	return same_bytes(column, wanted);
}

/* ---- what is wanted ---- */

#define COLUMN_ACCESS (STENO_ACCESS_SELECT | STENO_ACCESS_INSERT | STENO_ACCESS_UPDATE)

/* Whether one of the columns of the next relation in the list is wanted. */
static bool
uses_column(const Wanted *w, StenoBytes *list, StenoBytes relation, int encoding)
{
	uint64_t	v;
	uint64_t	n;
	StenoBytes	column;
	bool		found = false;

	if (!steno_take_varint(list, &v) || !steno_take_varint(list, &n))
		return false;
	while (n-- > 0 && steno_take_varint(list, &v) && steno_take_string(list, &column))
		found |= is_wanted_column(w, relation, as_shown(column, encoding));
	return found;
}

/* Whether a statement with this shape uses the wanted object. */
static bool
uses_object(const Wanted *w, StenoBytes bytes, int encoding)
{
	StenoShownShape shape;
	StenoBytes	in;
	StenoBytes	list;
	StenoBytes	type;
	StenoBytes	name;
	StenoBytes	to;
	uint64_t	access;
	uint8_t		byte;
	uint64		i;
	StenoBytes	any_column = {NULL, 0};
	bool		found = false;

	if (!steno_shape_parse(bytes, &shape))
		return false;
	in = shape.relations;
	list = shape.columns;
	for (i = 0; i < shape.nrelations && steno_take_relation(&in, &byte, &access, &name); i++)
	{
		name = as_shown(name, encoding);
		found |= is_named(name, w->object);
		if (list.len > 0)
			found |= uses_column(w, &list, name, encoding);
		else if (access & COLUMN_ACCESS)
			found |= is_wanted_column(w, name, any_column);
	}
	in = shape.objects;
	for (i = 0; i < shape.nobjects && steno_take_object(&in, &byte, &type, &name, &to); i++)
		found |= is_named(as_shown(name, steno_name_encoding(type, name, encoding)), w->object) ||
			(to.len > 0 && is_named(as_shown(to, steno_name_encoding(type, to, encoding)), w->object));
	return found;
}

/*
 * Whether a record says that something failed, was refused or interrupted.  A transaction that was
 * rolled back has only failed if it has an SQLSTATE.
 */
static bool
has_failed(const StenoTrailRecord *r)
{
	if (r->outcome == STENO_OUTCOME_ERROR &&
		(r->kind == STENO_KIND_TRANSACTION || r->kind == STENO_KIND_SUBTRANSACTION))
		return (r->mask & STENO_FIELD_ERROR) != 0;
	return r->outcome == STENO_OUTCOME_ERROR || r->outcome == STENO_OUTCOME_INTERRUPTED ||
		r->kind == STENO_KIND_AUTH_FAILED;
}

/* A fact of a session definition; absent ones are empty. */
static StenoBytes
fact(StenoBytes session, uint8 wanted)
{
	StenoBytes	value = {NULL, 0};
	StenoBytes	one;
	uint8_t		key;

	session.p += STENO_SESSION_FACTS;
	session.len -= STENO_SESSION_FACTS;
	while (session.len > 0 && steno_take_byte(&session, &key) && steno_take_string(&session, &one))
		if (key == wanted)
			value = one;
	return value;
}

static bool
fact_is(const Session *s, int i, StenoBytes wanted)
{
	if (wanted.p == NULL)
		return true;
	return s->nulls[i] ? wanted.len == 0 : same_bytes(bytes_of(s->values[i]), wanted);
}

/* The session of a record, as it is shown. */
static const Session *
session_of(Trail *t, const StenoTrailRecord *r)
{
	const StenoBytes any_name = {(const uint8 *) "", 0};
	Session    *s;
	MemoryContext before;
	int			encoding;
	int			i;

	if (r->session_index < SESSIONS)
	{
		s = &t->sessions[r->session_index];
		before = t->per_block;
	}
	else
	{
		s = &t->other;
		before = t->per_other;
		if (t->other_index != r->session_index)
		{
			s->known = false;
			t->other_index = r->session_index;
			MemoryContextReset(t->per_other);
		}
	}
	if (s->known)
		return s;
	before = MemoryContextSwitchTo(before);
	s->encoding = steno_shown_encoding(fact(r->session, STENO_SESSION_ENCODING));
	memcpy(&s->start, r->session.p + STENO_SESSION_START, sizeof(s->start));
	memcpy(&s->pid, r->session.p + STENO_SESSION_PID, sizeof(s->pid));
	s->id = steno_show_session(s->start, s->pid);
	for (i = 0; i < SESSION_COLUMNS; i++)
	{
		StenoBytes	value = fact(r->session, session_columns[i].key);

		/* the role is the session user if the record does not say otherwise */
		if (value.len == 0 && session_columns[i].key == STENO_SESSION_ROLE)
			value = fact(r->session, STENO_SESSION_USER);
		s->nulls[i] = value.len == 0;
		encoding = session_columns[i].is_shared ? steno_name_encoding(any_name, value, s->encoding) : s->encoding;
		s->values[i] = s->nulls[i] ? (Datum) 0 : steno_show_text(value, encoding);
	}
	s->wanted = fact_is(s, 0, t->wanted.user) && fact_is(s, 2, t->wanted.database) &&
		fact_is(s, 3, t->wanted.application);
	s->known = true;
	MemoryContextSwitchTo(before);
	return s;
}

/* Whether the objects of a record's shape are wanted. */
static bool
shape_is_wanted(Trail *t, StenoBytes shape, int encoding)
{
	Verdict    *v = &t->verdicts[((uintptr_t) shape.p >> 3) % VERDICTS];
	MemoryContext before;

	if (v->shape == shape.p)
		return v->wanted;
	before = MemoryContextSwitchTo(t->per_block);
	v->wanted = uses_object(&t->wanted, shape, encoding);
	v->shape = shape.p;
	MemoryContextSwitchTo(before);
	return v->wanted;
}

static void
begin_block(void *of)
{
	Trail	   *t = of;

	MemoryContextReset(t->per_block);
	memset(t->sessions, 0, sizeof(t->sessions));
	t->other.known = false;
	memset(t->verdicts, 0, sizeof(t->verdicts));
}

/* Whether a record may be wanted, without its text and message. */
static bool
guess_record(void *of, const StenoTrailRecord *r)
{
	Trail	   *t = of;
	const Wanted *w = &t->wanted;
	const Session *s;

	if (w->outcomes != ANY_OUTCOME && has_failed(r) != (w->outcomes == FAILURES))
		return false;
	s = session_of(t, r);
	if (!s->wanted)
		return false;
	if (w->class != 0)
	{
		StenoBytes	shape = r->shape;
		uint64_t	class;

		if (!(r->mask & STENO_FIELD_SHAPE) || !steno_take_varint(&shape, &class) || class != (uint64) w->class)
			return false;
	}
	return w->object.p == NULL || ((r->mask & STENO_FIELD_SHAPE) &&
								   (shape_is_wanted(t, r->shape, s->encoding) || steno_further_follows(r)));
}

/* ---- indexes ---- */

static bool
term_is(void *of, StenoBytes term)
{
	/* in a database with another encoding, other bytes may be the same */
	return !is_ascii(term) || same_bytes(*(StenoBytes *) of, term);
}

static bool
class_is(void *of, StenoBytes term)
{
	uint64_t	class;

	return !steno_take_varint(&term, &class) || class == (uint64) *(int *) of;
}

static bool
result_is_failure(void *of, StenoBytes term)
{
	return term.len != 2 || term.p[1] == STENO_OUTCOME_ERROR || term.p[1] == STENO_OUTCOME_INTERRUPTED ||
		term.p[0] == STENO_KIND_AUTH_FAILED;
}

static bool
relation_is(void *of, StenoBytes term)
{
	uint64_t	access;

	return !steno_take_varint(&term, &access) || !is_ascii(term) || is_named(term, ((Wanted *) of)->object);
}

static bool
column_is(void *of, StenoBytes term)
{
	uint64_t	access;
	StenoBytes	relation;

	return !steno_take_varint(&term, &access) || !steno_take_string(&term, &relation) ||
		!is_ascii(relation) || !is_ascii(term) || is_wanted_column(of, relation, term);
}

static bool
object_is(void *of, StenoBytes term)
{
	uint8_t		action;

	return !steno_take_byte(&term, &action) || !is_ascii(term) || is_named(term, ((Wanted *) of)->object);
}

static void
intersect(StenoGroups groups, const StenoGroups others)
{
	size_t		i;

	for (i = 0; i < sizeof(StenoGroups); i++)
		groups[i] &= others[i];
}

static void
select_term(const StenoIndexReader *index, int list, StenoTermMatch match, void *of, StenoGroups groups)
{
	StenoGroups found = {0};

	steno_index_select(index, list, match, of, found);
	intersect(groups, found);
}

/* Remove the groups of an index that have no wanted record. */
static void
select_groups(void *of, const StenoIndexReader *index, StenoGroups groups)
{
	Wanted	   *w = &((Trail *) of)->wanted;
	StenoGroups found = {0};

	/* of facts that are absent, an index says nothing */
	if (w->user.len > 0)
		select_term(index, STENO_TERMS_USERS, term_is, &w->user, groups);
	if (w->database.len > 0)
		select_term(index, STENO_TERMS_DATABASES, term_is, &w->database, groups);
	if (w->application.len > 0)
		select_term(index, STENO_TERMS_APPLICATIONS, term_is, &w->application, groups);
	if (w->class != 0)
		select_term(index, STENO_TERMS_CLASSES, class_is, &w->class, groups);
	if (w->outcomes == FAILURES)
		select_term(index, STENO_TERMS_RESULTS, result_is_failure, NULL, groups);
	if (w->object.p)
	{
		steno_index_select(index, STENO_TERMS_RELATIONS, relation_is, w, found);
		steno_index_select(index, STENO_TERMS_COLUMNS, column_is, w, found);
		steno_index_select(index, STENO_TERMS_OBJECTS, object_is, w, found);
		intersect(groups, found);
	}

	/*
	 * Bytes that are no characters, or none of the database's encoding, are
	 * shown as question marks, or as U+FFFD, which is not ASCII.
	 */
	if (w->contains.len > 0 && memchr(w->contains.p, '?', w->contains.len) == NULL)
	{
		memset(found, 0, sizeof(found));
		steno_index_select_text(index, w->contains, found);
		intersect(groups, found);
	}
}

/* ---- rows ---- */

static void
add_json_pair(StringInfo out, StenoBytes name, StenoBytes value, int encoding)
{
	appendStringInfoChar(out, out->len > 0 ? ',' : '{');
	escape_json(out, TextDatumGetCString(steno_show_text(name, encoding)));
	appendStringInfoChar(out, ':');
	escape_json(out, TextDatumGetCString(steno_show_text(value, encoding)));
}

static void
add_json(StringInfo out, const char *name, const char *value)
{
	StenoBytes	name_bytes = {(const uint8 *) name, strlen(name)};
	StenoBytes	value_bytes = {(const uint8 *) value, strlen(value)};

	add_json_pair(out, name_bytes, value_bytes, PG_SQL_ASCII);
}

static void
add_lsn(StringInfo out, const char *name, uint64 lsn)
{
	add_json(out, name, psprintf("%X/%X", (uint32) (lsn >> 32), (uint32) lsn));
}

/* What a record says besides; false if that is nothing. */
static bool
show_extra(const StenoTrailRecord *r, int encoding, Datum *extra)
{
	StringInfoData out;
	StenoBytes	in = r->extra;
	StenoBytes	name;
	StenoBytes	value;

	initStringInfo(&out);
	if (r->mask & STENO_FIELD_EVENT)
	{
		const char *event = steno_event_name(r->event);

		add_json(&out, "event", event ? event : psprintf("%d", r->event));
	}
	if (r->mask & STENO_FIELD_STATEMENTS)
		add_json(&out, "statements", psprintf(UINT64_FORMAT, r->statements));
	if (r->mask & STENO_FIELD_COMMIT)
	{
		add_lsn(&out, "commit_lsn", r->lsn);
		add_lsn(&out, "end_lsn", r->lsn_end);
		add_json(&out, "timeline", psprintf(UINT64_FORMAT, r->timeline));
	}
	while (in.len > 0 && steno_take_string(&in, &name) && steno_take_string(&in, &value))
		add_json_pair(&out, name, value, encoding);
	if (out.len == 0)
		return false;
	appendStringInfoChar(&out, '}');
	*extra = DirectFunctionCall1(jsonb_in, CStringGetDatum(out.data));
	return true;
}

/* A text column; NULL if there is no value. */
static void
put_name(const char *name, int column, Datum *values, bool *nulls)
{
	nulls[column] = name == NULL;
	values[column] = name ? CStringGetTextDatum(name) : (Datum) 0;
}

static void
put_session(const Session *s, Datum *values, bool *nulls)
{
	int			i;

	values[1] = s->id;
	values[4] = Int32GetDatum(s->pid);
	for (i = 0; i < SESSION_COLUMNS; i++)
	{
		values[session_columns[i].column] = s->values[i];
		nulls[session_columns[i].column] = s->nulls[i];
	}
}

static void
put_shape(const Trail *t, const StenoTrailRecord *r, int encoding, Datum *values, bool *nulls)
{
	StenoShownShape shape;

	nulls[12] = nulls[13] = nulls[22] = nulls[23] = nulls[26] = true;
	if (!(r->mask & STENO_FIELD_SHAPE) || !steno_shape_parse(r->shape, &shape))
		return;
	put_name(steno_show_class_name(shape.class), 12, values, nulls);
	nulls[13] = shape.command.len == 0;
	values[13] = steno_show_text(shape.command, PG_SQL_ASCII);
	nulls[22] = nulls[23] = false;
	values[22] = steno_show_relations(&shape, &t->types, encoding);
	values[23] = steno_show_objects(&shape, &t->types, encoding);
	nulls[26] = !(r->mask & (STENO_FIELD_VALUES | STENO_FIELD_NULLS)) || shape.nparams == 0;
	if (!nulls[26])
		values[26] = steno_show_params(&shape, r->nulls, r->values, encoding);
}

/* The columns of what happened. */
static void
put_facts(const StenoTrailRecord *r, int encoding, Datum *values, bool *nulls)
{
	Interval   *duration = palloc0(sizeof(Interval));

	nulls[0] = !IS_VALID_TIMESTAMP(r->time);
	values[0] = TimestampTzGetDatum(r->time);
	nulls[2] = r->seq == 0;
	values[2] = Int64GetDatum(r->seq);
	put_name(steno_kind_name(r->kind), 3, values, nulls);
	nulls[14] = nulls[15] = r->statement == 0;
	values[14] = Int64GetDatum(r->statement);
	values[15] = Int32GetDatum((int32) Min(r->depth, PG_INT32_MAX));
	nulls[16] = r->substatement == 0;
	values[16] = Int64GetDatum(r->substatement);
	put_name(steno_outcome_name(r->outcome), 17, values, nulls);
	nulls[18] = nulls[19] = !(r->mask & STENO_FIELD_ERROR);
	if (!nulls[18])
	{
		values[18] = steno_show_text(r->sqlstate, PG_SQL_ASCII);
		values[19] = steno_show_text(r->message, encoding);
	}
	nulls[20] = !(r->mask & STENO_FIELD_DURATION) || r->duration > PG_INT64_MAX;
	duration->time = nulls[20] ? 0 : (int64) r->duration;
	values[20] = IntervalPGetDatum(duration);
	nulls[21] = !(r->mask & STENO_FIELD_ROWS);
	values[21] = Int64GetDatum(r->rows);
	nulls[24] = !(r->mask & STENO_FIELD_TEXT);
	if (!nulls[24])
		values[24] = steno_show_text(r->text, encoding);
	nulls[25] = nulls[24] && r->parts[STENO_PART_TEXT] == 0 && !(r->mask & STENO_FIELD_CUT);
	values[25] = Int64GetDatum(r->mask & STENO_FIELD_CUT ? r->cut_len : Max(r->text.len, r->parts[STENO_PART_TEXT]));
	nulls[27] = !(r->mask & STENO_FIELD_XID);
	values[27] = UInt64GetDatum(r->xid);
	values[28] = steno_show_audited(r->audited);
	nulls[29] = !show_extra(r, encoding, &values[29]);
}

static void
show_record(void *of, const StenoTrailRecord *r, const StenoRecordPlace *place)
{
	Trail	   *t = of;
	const Session *s = session_of(t, r);
	Datum		values[lengthof(columns)] = {0};
	bool		nulls[lengthof(columns)] = {0};

	/* its shape may have been made of data parts: that of the block is not looked at again */
	if (t->wanted.object.p && !uses_object(&t->wanted, r->shape, s->encoding))
		return;
	if (t->wanted.contains.p &&
		!((r->mask & STENO_FIELD_TEXT) && contains(as_shown(r->text, s->encoding), t->wanted.contains)) &&
		!((r->mask & STENO_FIELD_ERROR) && contains(as_shown(r->message, s->encoding), t->wanted.contains)))
		return;
	put_session(s, values, nulls);
	put_facts(r, s->encoding, values, nulls);
	put_shape(t, r, s->encoding, values, nulls);
	values[30] = Int32GetDatum(place->stream);
	values[31] = Int64GetDatum(place->segment);
	values[32] = Int64GetDatum(place->block);
	tuplestore_putvalues(t->rsinfo->setResult, t->rsinfo->setDesc, values, nulls);
}

/* ---- the function ---- */

static StenoBytes
text_argument(FunctionCallInfo fcinfo, int i)
{
	StenoBytes	value = {NULL, 0};

	if (!PG_ARGISNULL(i))
		value = bytes_of(PointerGetDatum(PG_GETARG_TEXT_PP(i)));
	return value;
}

static int
class_argument(StenoBytes name)
{
	int			class;
	const char *known;

	if (name.p == NULL)
		return 0;
	for (class = 1; (known = steno_show_class_name(class)) != NULL; class++)
		if (strlen(known) == name.len && pg_strncasecmp(known, (const char *) name.p, name.len) == 0)
			return class;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized class: \"%.*s\"", (int) name.len, (const char *) name.p),
			 errhint("Classes are those of \"steno.log\".")));
}

static TimestampTz
time_argument(FunctionCallInfo fcinfo, int i, TimestampTz otherwise)
{
	return PG_ARGISNULL(i) ? otherwise : PG_GETARG_TIMESTAMPTZ(i);
}

/* A row for each record that the arguments select. */
Datum
steno_sql_trail(PG_FUNCTION_ARGS)
{
	Trail	   *t = palloc0(sizeof(Trail));
	Wanted	   *w = &t->wanted;
	StenoWantedRecords wanted = {.begin = begin_block,.guess = guess_record,.take = show_record,.of = t};

	if (PG_NARGS() != 9)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("function \"%s\" was not created by this version of extension \"pg_steno\"", "trail")));
	steno_rows_begin(fcinfo, lengthof(columns), columns);
	wanted.since = time_argument(fcinfo, 0, PG_INT64_MIN);
	wanted.until = time_argument(fcinfo, 1, PG_INT64_MAX);
	if (wanted.until <= wanted.since)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"until\" must be later than \"since\"")));
	w->user = text_argument(fcinfo, 2);
	w->database = text_argument(fcinfo, 3);
	w->application = text_argument(fcinfo, 4);
	w->class = class_argument(text_argument(fcinfo, 5));
	w->object = text_argument(fcinfo, 6);
	w->object_relation = before_last_dot(w->object);
	w->outcomes = PG_ARGISNULL(7) ? ANY_OUTCOME : PG_GETARG_BOOL(7) ? FAILURES : NO_FAILURES;
	w->contains = text_argument(fcinfo, 8);
	if (w->user.len + w->database.len + w->application.len + w->contains.len > 0 || w->class != 0 || w->object.p ||
		w->outcomes == FAILURES)
		wanted.select = select_groups;

	t->rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	steno_shown_types(fcinfo, COLUMN_RELATIONS, COLUMN_OBJECTS, &t->types);
	t->per_block = AllocSetContextCreate(CurrentMemoryContext, "pg_steno block of the trail", ALLOCSET_DEFAULT_SIZES);
	t->per_other = AllocSetContextCreate(CurrentMemoryContext, "pg_steno session of the trail", ALLOCSET_SMALL_SIZES);
	steno_trail_read(steno_directory, &wanted);
	return (Datum) 0;
}
