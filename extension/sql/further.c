/*
 * extension/sql/further.c
 *		Relations and objects that the shape of a record has no space for: they stand behind its
 *		values (format/FORMAT.md).  Once these are joined, the shape is made anew with all of them.
 */
#include "base/steno.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "sql/further.h"
#include "sql/show.h"

static void
put_number(StringInfo out, uint64 n)
{
	uint8		bytes[STENO_VARINT_MAX];

	appendBinaryStringInfo(out, (char *) bytes, steno_put_varint(bytes, n) - bytes);
}

static void
put_bytes(StringInfo out, const uint8 *from, const uint8 *to)
{
	if (to > from)
		appendBinaryStringInfo(out, (const char *) from, to - from);
}

static uint64
number_in(StenoBytes digits)
{
	uint64		n = 0;

	for (; digits.len > 0 && *digits.p >= '0' && *digits.p <= '9' && n < PG_UINT32_MAX; digits.p++, digits.len--)
		n = n * 10 + (*digits.p - '0');
	return n;
}

/* The value of the pair that says how many bytes behind the values these are; the others stay in *rest. */
static uint64
take_length(const StenoTrailRecord *r, StringInfo rest)
{
	StenoBytes	in = r->extra;
	StenoBytes	name;
	StenoBytes	value;
	const uint8 *from = in.p;
	uint64		n = 0;

	while (in.len > 0 && steno_take_string(&in, &name) && steno_take_string(&in, &value))
	{
		if (name.len == strlen(STENO_FURTHER_NAME) && memcmp(name.p, STENO_FURTHER_NAME, name.len) == 0)
			n = number_in(value);
		else
			put_bytes(rest, from, in.p);
		from = in.p;
	}
	return n;
}

bool
steno_further_follows(const StenoTrailRecord *r)
{
	StenoBytes	in = r->extra;
	StenoBytes	name;
	StenoBytes	value;

	while (in.len > 0 && steno_take_string(&in, &name) && steno_take_string(&in, &value))
		if (name.len == strlen(STENO_FURTHER_NAME) && memcmp(name.p, STENO_FURTHER_NAME, name.len) == 0)
			return true;
	return false;
}

/* What is behind the values, apart. */
typedef struct Further
{
	uint64		nrelations;
	uint64		nobjects;
	StringInfoData relations;
	StringInfoData columns;
	StringInfoData objects;
	StringInfoData views;		/* uint64: the number of a relation in the shape, and that of its view */
} Further;

static bool
take_all(StenoBytes in, Further *f)
{
	initStringInfo(&f->relations);
	initStringInfo(&f->columns);
	initStringInfo(&f->objects);
	initStringInfo(&f->views);
	while (in.len > 0)
	{
		StenoBytes	one;
		StenoBytes	skipped;
		uint64_t	access;
		uint8_t		kind;
		uint8_t		type;
		const uint8 *from;

		CHECK_FOR_INTERRUPTS();
		if (!steno_take_byte(&in, &kind) || !steno_take_string(&in, &one))
			return false;
		from = one.p;
		if (kind == STENO_FURTHER_RELATION)
		{
			if (!steno_take_relation(&one, &type, &access, &skipped))
				return false;
			put_bytes(&f->relations, from, one.p);
			put_bytes(&f->columns, one.p, one.p + one.len);
			f->nrelations++;
		}
		else if (kind == STENO_FURTHER_OBJECT)
		{
			if (!steno_take_object(&one, &type, &skipped, &skipped, &skipped))
				return false;
			put_bytes(&f->objects, from, one.p);
			f->nobjects++;
		}
		else if (kind == STENO_FURTHER_VIA)
		{
			uint64_t	pair[2];

			if (!steno_take_varint(&one, &pair[0]) || !steno_take_varint(&one, &pair[1]))
				return false;
			appendBinaryStringInfo(&f->views, (const char *) pair, sizeof(pair));
		}
	}
	return true;
}

/* The columns of the relations in the shape, some of which are reached through a view that is not there. */
static void
put_own_columns(StringInfo out, const StenoShownShape *shape, const Further *f)
{
	const uint64 *pair = (const uint64 *) f->views.data;
	const uint64 *end = (const uint64 *) (f->views.data + f->views.len);
	StenoBytes	in = shape->columns;
	StenoBytes	name;
	uint64_t	via;
	uint64_t	n;
	uint64_t	access;
	uint64		i;

	for (i = 1; i <= shape->nrelations && steno_take_varint(&in, &via); i++)
	{
		const uint8 *from = in.p;

		if (pair < end && pair[0] == i)
		{
			via = pair[1] <= shape->nrelations + f->nrelations ? pair[1] : 0;
			pair += 2;
		}
		if (!steno_take_varint(&in, &n))
			return;
		while (n-- > 0 && steno_take_varint(&in, &access) && steno_take_string(&in, &name))
			;
		put_number(out, via);
		put_bytes(out, from, in.p);
	}
}

/* Of relations whose columns the shape does not list, any column may be used. */
static void
put_any_columns(StringInfo out, const StenoShownShape *shape)
{
	StenoBytes	in = shape->relations;
	StenoBytes	name;
	uint64_t	access;
	uint64		i;
	uint8_t		type;

	for (i = 0; i < shape->nrelations && steno_take_relation(&in, &type, &access, &name); i++)
	{
		access &= STENO_ACCESS_SELECT | STENO_ACCESS_INSERT | STENO_ACCESS_UPDATE;
		put_number(out, 0);
		put_number(out, access != 0 ? 1 : 0);
		if (access != 0)
		{
			put_number(out, access);
			put_number(out, 0);
		}
	}
}

/* Where the bytes of a shape's relations, parameters and objects end. */
static const uint8 *
end_of_relations(const StenoShownShape *shape)
{
	StenoBytes	in = shape->relations;
	StenoBytes	name;
	uint64_t	access;
	uint64		i;
	uint8_t		type;

	for (i = 0; i < shape->nrelations && steno_take_relation(&in, &type, &access, &name); i++)
		;
	return in.p;
}

static const uint8 *
end_of_params(const StenoShownShape *shape)
{
	StenoBytes	in = shape->params;
	uint64_t	type;
	uint64		i;
	uint8_t		repr;

	for (i = 0; i < shape->nparams && steno_take_param(&in, &type, &repr); i++)
		;
	return in.p;
}

static const uint8 *
end_of_objects(const StenoShownShape *shape)
{
	StenoBytes	in = shape->objects;
	StenoBytes	skipped;
	uint64		i;
	uint8_t		action;

	for (i = 0; i < shape->nobjects && steno_take_object(&in, &action, &skipped, &skipped, &skipped); i++)
		;
	return in.p;
}

static StenoBytes
whole_shape(const StenoTrailRecord *r, const StenoShownShape *shape, const Further *f)
{
	StringInfoData out;
	StringInfoData columns;
	StenoBytes	in = r->shape;
	StenoBytes	whole;
	StenoBytes	skipped;
	uint64_t	class;
	uint64_t	query_id;
	uint64_t	n;

	(void) steno_take_shape_head(&in, &class, &query_id, &skipped, &n);
	initStringInfo(&out);
	put_number(&out, class);
	put_number(&out, query_id);
	put_number(&out, shape->command.len);
	put_bytes(&out, shape->command.p, shape->command.p + shape->command.len);
	put_number(&out, shape->nrelations + f->nrelations);
	put_bytes(&out, shape->relations.p, end_of_relations(shape));
	appendBinaryStringInfo(&out, f->relations.data, f->relations.len);
	put_number(&out, shape->nparams);
	put_bytes(&out, shape->params.p, end_of_params(shape));
	put_number(&out, shape->nobjects + f->nobjects);
	if (shape->nobjects > 0)
		put_bytes(&out, shape->objects.p, end_of_objects(shape));
	appendBinaryStringInfo(&out, f->objects.data, f->objects.len);
	initStringInfo(&columns);
	if (shape->columns.len > 0)
		put_own_columns(&columns, shape, f);
	else
		put_any_columns(&columns, shape);
	appendBinaryStringInfo(&columns, f->columns.data, f->columns.len);
	put_number(&out, STENO_LIST_COLUMNS);
	put_number(&out, columns.len);
	appendBinaryStringInfo(&out, columns.data, columns.len);
	whole.p = (const uint8 *) out.data;
	whole.len = out.len;
	return whole;
}

void
steno_further_take(StenoTrailRecord *r)
{
	StenoShownShape shape;
	StringInfoData rest;
	Further		f = {0};
	StenoBytes	all;
	uint64		n;

	if (!(r->mask & STENO_FIELD_SHAPE) || !steno_further_follows(r) || !steno_shape_parse(r->shape, &shape))
		return;
	initStringInfo(&rest);
	n = take_length(r, &rest);
	if (n == 0 || n > r->values.len)
		return;
	all.p = r->values.p + r->values.len - n;
	all.len = n;
	if (!take_all(all, &f))
		return;
	r->shape = whole_shape(r, &shape, &f);
	r->values.len -= n;
	if (shape.nparams == 0)
		r->mask &= ~STENO_FIELD_VALUES;
	r->extra.p = (const uint8 *) rest.data;
	r->extra.len = rest.len;
	if (--r->extra_count == 0)
		r->mask &= ~STENO_FIELD_EXTRA;
}
