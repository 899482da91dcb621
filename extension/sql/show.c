/*
 * extension/sql/show.c
 *		What a record says, as values of SQL (show.h): texts, names, relations and
 *		objects.  show_param.c has the values of parameters.
 */
#include "base/steno.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "sql/show.h"

/* Bytes that are converted to another encoding at once. */
#define CONVERTED_AT_ONCE 8192

static const char *const kinds[] = {
#define STENO_KIND(n, id, name, doc) [n] = name,
#include "../format/records.def"
#undef STENO_KIND
};

static const char *const outcomes[] = {
#define STENO_OUTCOME(n, id, name, doc) [n] = name,
#include "../format/records.def"
#undef STENO_OUTCOME
};

static const char *const events[] = {
#define STENO_EVENT(n, id, name, doc) [n] = name,
#include "../format/records.def"
#undef STENO_EVENT
};

static const char *const classes[] = {
#define STENO_CLASS(n, id, name, doc) [n] = name,
#include "../format/records.def"
#undef STENO_CLASS
};

static const char *const relation_types[] = {
#define STENO_RELTYPE(n, id, name, doc) [n] = name,
#include "../format/records.def"
#undef STENO_RELTYPE
};

static const char *const actions[] = {
#define STENO_ACTION(n, id, name, doc) [n] = name,
#include "../format/records.def"
#undef STENO_ACTION
};

/* Of bits. */
static const char *const accesses[] = {
#define STENO_ACCESS(n, id, name, doc) [n] = name,
#include "../format/records.def"
#undef STENO_ACCESS
};

static const char *const reasons[] = {
#define STENO_AUDITED(n, id, name, doc) [n] = name,
#include "../format/records.def"
#undef STENO_AUDITED
};

/* ---- declarations ---- */

static void
refuse_declaration(FunctionCallInfo fcinfo)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("function \"%s\" was not created by this version of extension \"pg_steno\"",
					get_func_name(fcinfo->flinfo->fn_oid)),
			 errhint("Use DROP EXTENSION and CREATE EXTENSION in this database.")));
}

/* Whether a row has columns of these types; RECORDARRAYOID stands for an array of any composite type. */
static bool
row_is_of(TupleDesc row, int columns, const Oid *types)
{
	int			i;

	if (row->natts != columns)
		return false;
	for (i = 0; types && i < columns; i++)
	{
		Oid			type = TupleDescAttr(row, i)->atttypid;

		if (types[i] == RECORDARRAYOID)
			type = type_is_rowtype(get_element_type(type)) ? RECORDARRAYOID : InvalidOid;
		if (type != types[i])
			return false;
	}
	return true;
}

void
steno_rows_begin(FunctionCallInfo fcinfo, int columns, const Oid *types)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	steno_require_active();
	InitMaterializedSRF(fcinfo, 0);
	if (!row_is_of(rsinfo->setDesc, columns, types))
		refuse_declaration(fcinfo);
}

/* The composite type of the elements of a column, which must have columns of these types. */
static Oid
element_of(FunctionCallInfo fcinfo, TupleDesc row, int column, int columns, const Oid *types, TupleDesc *element)
{
	Oid			type = get_element_type(TupleDescAttr(row, column)->atttypid);

	*element = lookup_rowtype_tupdesc_copy(type, -1);
	if (!row_is_of(*element, columns, types))
		refuse_declaration(fcinfo);
	return type;
}

void
steno_shown_types(FunctionCallInfo fcinfo, int relations, int objects, StenoShownTypes *types)
{
	static const Oid relation[] = {TEXTOID, TEXTOID, TEXTARRAYOID, TEXTOID, RECORDARRAYOID};
	static const Oid column[] = {TEXTOID, TEXTARRAYOID};
	static const Oid object[] = {TEXTOID, TEXTOID, TEXTOID, TEXTOID};
	TupleDesc	row = ((ReturnSetInfo *) fcinfo->resultinfo)->setDesc;

	types->relation_type = element_of(fcinfo, row, relations, lengthof(relation), relation, &types->relation);
	types->column_type = element_of(fcinfo, types->relation, 4, lengthof(column), column, &types->column);
	types->object_type = element_of(fcinfo, row, objects, lengthof(object), object, &types->object);
}

/* ---- names ---- */

static const char *
name_of(const char *const *names, size_t n, uint64 number)
{
	return number < n ? names[number] : NULL;
}

const char *
steno_kind_name(uint64 kind)
{
	return name_of(kinds, lengthof(kinds), kind);
}

const char *
steno_outcome_name(uint64 outcome)
{
	return name_of(outcomes, lengthof(outcomes), outcome);
}

const char *
steno_event_name(uint64 event)
{
	return name_of(events, lengthof(events), event);
}

const char *
steno_show_class_name(uint64 class)
{
	return name_of(classes, lengthof(classes), class);
}

static Datum
text_array(Datum *items, int n)
{
	return PointerGetDatum(construct_array(items, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* The names of the bits that are set. */
static Datum
names_of_bits(const char *const *names, size_t n, uint64 bits)
{
	Datum		items[16];
	int			found = 0;
	size_t		i;

	for (i = 0; i < n && i < lengthof(items); i++)
		if (bits & (UINT64CONST(1) << i))
			items[found++] = CStringGetTextDatum(names[i]);
	return text_array(items, found);
}

Datum
steno_show_audited(uint8 audited)
{
	return names_of_bits(reasons, lengthof(reasons), audited ? audited : STENO_AUDITED_SESSION);
}

Datum
steno_show_session(int64 start, uint32 pid)
{
	char		id[STENO_SESSION_ID];

	steno_session_id(id, start, pid);
	return CStringGetTextDatum(id);
}

/* ---- texts ---- */

int
steno_shown_encoding(StenoBytes name)
{
	char		encoding[NAMEDATALEN];
	int			number;

	if (name.len == 0)
		return PG_UTF8;
	if (name.len >= sizeof(encoding))
		return PG_SQL_ASCII;
	memcpy(encoding, name.p, name.len);
	encoding[name.len] = '\0';
	number = pg_char_to_encoding(encoding);
	return PG_VALID_BE_ENCODING(number) ? number : PG_SQL_ASCII;
}

static bool
is_plain(const uint8 *p, uint64 len)
{
	uint64		i;

	for (i = 0; i < len; i++)
		if (p[i] == 0 || IS_HIGHBIT_SET(p[i]))
			return false;
	return true;
}

/* Append bytes without those that are not valid in an encoding: U+FFFD or a question mark stands for each. */
static void
append_valid(StringInfo out, int encoding, const uint8 *p, uint64 len)
{
	while (len > 0)
	{
		int			valid = pg_encoding_verifymbstr(encoding, (const char *) p, (int) len);

		appendBinaryStringInfo(out, (const char *) p, valid);
		p += valid;
		len -= valid;
		if (len == 0)
			break;
		appendStringInfoString(out, encoding == PG_UTF8 ? "\xEF\xBF\xBD" : "?");
		p++;
		len--;
	}
}

/* Append valid text of another encoding; characters that the database's does not have become question marks. */
static void
append_converted(StringInfo out, int encoding, int to, char *p, int len)
{
	Oid			conversion = FindDefaultConversionProc(encoding, to);
	int			size = CONVERTED_AT_ONCE * MAX_CONVERSION_GROWTH + 1;
	char	   *room = palloc(size);

	while (len > 0)
	{
		int			n = Min(len, CONVERTED_AT_ONCE);
		int			done = 0;

		CHECK_FOR_INTERRUPTS();
		/* not in the middle of a character */
		n = pg_encoding_mbcliplen(encoding, p, len, n);
		if (OidIsValid(conversion))
		{
			done = pg_do_encoding_conversion_buf(conversion, encoding, to, (unsigned char *) p, n,
												 (unsigned char *) room, size, true);
			appendStringInfoString(out, room);
		}
		if (done < n)
		{
			int			skipped = Min(pg_encoding_mblen(encoding, p + done), len - done);

			/* without a conversion, ASCII is the same */
			appendStringInfoChar(out, IS_HIGHBIT_SET(p[done]) ? '?' : p[done]);
			done += Max(skipped, 1);
		}
		p += done;
		len -= done;
	}
	pfree(room);
}

int
steno_name_encoding(StenoBytes type, StenoBytes name, int encoding)
{
	static const char *const shared[] = {"", "role", "database", "tablespace", "subscription"};
	int			i;

	for (i = 0; i < (int) lengthof(shared); i++)
		if (strlen(shared[i]) == type.len && memcmp(shared[i], type.p, type.len) == 0)
			return pg_encoding_verifymbstr(PG_UTF8, (const char *) name.p, (int) name.len) == (int) name.len ?
				PG_UTF8 : encoding;
	return encoding;
}

/*
 * What the client of a database without an encoding is sent, must be valid in its own: the server converts
 * nothing then, but refuses the whole answer otherwise.
 */
int
steno_shown_as(void)
{
	int			encoding = GetDatabaseEncoding();

	return encoding == PG_SQL_ASCII ? pg_get_client_encoding() : encoding;
}

Datum
steno_show_text(StenoBytes text, int encoding)
{
	int			to = steno_shown_as();
	StringInfoData out;
	Datum		shown;

	if (text.len > STENO_SHOWN_MAX)
		text.len = STENO_SHOWN_MAX;
	if (is_plain(text.p, text.len))
		return PointerGetDatum(cstring_to_text_with_len((const char *) text.p, (int) text.len));
	initStringInfo(&out);
	if (encoding == to || encoding == PG_SQL_ASCII || to == PG_SQL_ASCII)
		append_valid(&out, to, text.p, text.len);
	else
	{
		StringInfoData valid;

		initStringInfo(&valid);
		append_valid(&valid, encoding, text.p, text.len);
		append_converted(&out, encoding, to, valid.data, valid.len);
		pfree(valid.data);
	}
	shown = PointerGetDatum(cstring_to_text_with_len(out.data, out.len));
	pfree(out.data);
	return shown;
}

/* ---- shapes ---- */

bool
steno_shape_parse(StenoBytes shape, StenoShownShape *s)
{
	StenoBytes	skipped;
	uint64_t	v;
	uint64_t	i;
	uint8_t		byte;

	memset(s, 0, sizeof(*s));
	if (!steno_take_shape_head(&shape, &s->class, &v, &s->command, &s->nrelations))
		return false;
	s->relations = shape;
	for (i = 0; i < s->nrelations; i++)
		if (!steno_take_relation(&shape, &byte, &v, &skipped))
			return false;
	if (!steno_take_varint(&shape, &s->nparams) || s->nparams > STENO_MAX_PARAMS)
		return false;
	s->params = shape;
	for (i = 0; i < s->nparams; i++)
		if (!steno_take_param(&shape, &v, &byte))
			return false;
	if (shape.len == 0)
		return true;
	if (!steno_take_varint(&shape, &s->nobjects))
		return false;
	s->objects = shape;
	for (i = 0; i < s->nobjects; i++)
		if (!steno_take_object(&shape, &byte, &skipped, &skipped, &skipped))
			return false;
	while (shape.len > 0 && steno_take_varint(&shape, &v) && steno_take_string(&shape, &skipped))
		if (v == STENO_LIST_COLUMNS)
			s->columns = skipped;
	return true;
}

/* Take the view of the next relation from the list of columns, and the number of its columns. */
static bool
take_columns(StenoBytes *columns, uint64_t *via, uint64_t *n)
{
	return steno_take_varint(columns, via) && steno_take_varint(columns, n);
}

static Datum
show_columns(StenoBytes *columns, uint64 n, const StenoShownTypes *types, int encoding)
{
	ArrayBuildState *all = initArrayResult(types->column_type, CurrentMemoryContext, false);
	uint64		i;

	for (i = 0; i < n; i++)
	{
		uint64_t	access;
		StenoBytes	name;
		Datum		values[2];
		bool		nulls[2] = {0};

		if (!steno_take_varint(columns, &access) || !steno_take_string(columns, &name))
		{
			columns->len = 0;
			break;
		}
		/* further columns that are left out have no name */
		nulls[0] = name.len == 0;
		values[0] = nulls[0] ? (Datum) 0 : steno_show_text(name, encoding);
		values[1] = names_of_bits(accesses, lengthof(accesses), access);
		all = accumArrayResult(all, HeapTupleGetDatum(heap_form_tuple(types->column, values, nulls)), false,
							   types->column_type, CurrentMemoryContext);
	}
	return makeArrayResult(all, CurrentMemoryContext);
}

/* The name of a relation of a shape, by its number. */
static bool
relation_name(const StenoShownShape *shape, uint64 number, StenoBytes *name)
{
	StenoBytes	in = shape->relations;
	uint64_t	access;
	uint8_t		type;
	uint64		i;

	if (number >= shape->nrelations)
		return false;
	for (i = 0; i <= number; i++)
		if (!steno_take_relation(&in, &type, &access, name))
			return false;
	return true;
}

Datum
steno_show_relations(const StenoShownShape *shape, const StenoShownTypes *types, int encoding)
{
	ArrayBuildState *all = initArrayResult(types->relation_type, CurrentMemoryContext, false);
	StenoBytes	in = shape->relations;
	StenoBytes	columns = shape->columns;
	uint64		i;

	for (i = 0; i < shape->nrelations; i++)
	{
		StenoBytes	name;
		StenoBytes	view;
		uint64_t	access;
		uint64_t	via;
		uint64_t	n;
		uint8_t		type;
		const char *type_name;
		Datum		values[5] = {0};
		bool		nulls[5] = {0};

		CHECK_FOR_INTERRUPTS();
		if (!steno_take_relation(&in, &type, &access, &name))
			break;
		type_name = name_of(relation_types, lengthof(relation_types), type);
		values[0] = steno_show_text(name, encoding);
		values[1] = CStringGetTextDatum(type_name ? type_name : relation_types[STENO_RELTYPE_OTHER]);
		values[2] = names_of_bits(accesses, lengthof(accesses), access);
		nulls[3] = nulls[4] = true;
		if (columns.len > 0 && take_columns(&columns, &via, &n))
		{
			if (via > 0 && relation_name(shape, via - 1, &view))
			{
				nulls[3] = false;
				values[3] = steno_show_text(view, encoding);
			}
			nulls[4] = false;
			values[4] = show_columns(&columns, n, types, encoding);
		}
		all = accumArrayResult(all, HeapTupleGetDatum(heap_form_tuple(types->relation, values, nulls)), false,
							   types->relation_type, CurrentMemoryContext);
	}
	return makeArrayResult(all, CurrentMemoryContext);
}

Datum
steno_show_objects(const StenoShownShape *shape, const StenoShownTypes *types, int encoding)
{
	ArrayBuildState *all = initArrayResult(types->object_type, CurrentMemoryContext, false);
	StenoBytes	in = shape->objects;
	uint64		i;

	for (i = 0; i < shape->nobjects; i++)
	{
		StenoBytes	type;
		StenoBytes	name;
		StenoBytes	to;
		uint8_t		action;
		const char *action_name;
		Datum		values[4];
		bool		nulls[4] = {0};

		CHECK_FOR_INTERRUPTS();
		if (!steno_take_object(&in, &action, &type, &name, &to))
			break;
		action_name = name_of(actions, lengthof(actions), action);
		nulls[0] = action_name == NULL;
		values[0] = nulls[0] ? (Datum) 0 : CStringGetTextDatum(action_name);
		values[1] = steno_show_text(type, encoding);
		values[2] = steno_show_text(name, steno_name_encoding(type, name, encoding));
		nulls[3] = to.len == 0;
		values[3] = nulls[3] ? (Datum) 0 : steno_show_text(to, steno_name_encoding(type, to, encoding));
		all = accumArrayResult(all, HeapTupleGetDatum(heap_form_tuple(types->object, values, nulls)), false,
							   types->object_type, CurrentMemoryContext);
	}
	return makeArrayResult(all, CurrentMemoryContext);
}
