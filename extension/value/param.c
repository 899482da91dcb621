/*
 * extension/value/param.c
 *		Collection of a statement's parameter values for its record.
 *
 * Values of common built-in types are taken in their in-memory representation, and
 * formatted by the reader of the trail.  Values of all other types go through the type's
 * output function, which may be user-defined: it may fail, read tables, wait for locks, or
 * be cancelled, and none of this may affect the statement.  So a value is taken in one of
 * two ways:
 *
 *		set_value, set_other	no code that can fail
 *		value/output.h			code that can fail
 *
 * While an error is being handled ("failing"), only the first way is possible: no other
 * code can run then, and no table can be read.
 *
 * The collected values are pointers: into the statement's own datums, into StenoParams,
 * and into the scratch context.  They are valid until that context is reset, which happens
 * after the record has been encoded.
 */
#include "base/steno.h"

#include <sys/socket.h>

#include "catalog/pg_type.h"
#include "utils/date.h"
#include "utils/inet.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "value/param.h"
#include "value/output.h"

static int
representation(Oid type)
{
	switch (type)
	{
		case BOOLOID:
			return STENO_REPR_BOOL;
		case INT2OID:
			return STENO_REPR_INT2;
		case INT4OID:
			return STENO_REPR_INT4;
		case INT8OID:
			return STENO_REPR_INT8;
		case FLOAT4OID:
			return STENO_REPR_FLOAT4;
		case FLOAT8OID:
			return STENO_REPR_FLOAT8;
		case OIDOID:
			return STENO_REPR_OID;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case JSONOID:
		case XMLOID:
		case UNKNOWNOID:
		case CSTRINGOID:
		case NAMEOID:
			return STENO_REPR_TEXT;
		case BYTEAOID:
			return STENO_REPR_BYTEA;
		case NUMERICOID:
			return STENO_REPR_NUMERIC;
		case UUIDOID:
			return STENO_REPR_UUID;
		case DATEOID:
			return STENO_REPR_DATE;
		case TIMEOID:
			return STENO_REPR_TIME;
		case TIMETZOID:
			return STENO_REPR_TIMETZ;
		case TIMESTAMPOID:
			return STENO_REPR_TIMESTAMP;
		case TIMESTAMPTZOID:
			return STENO_REPR_TIMESTAMPTZ;
		case INTERVALOID:
			return STENO_REPR_INTERVAL;
		case INETOID:
			return STENO_REPR_INET;
		case CIDROID:
			return STENO_REPR_CIDR;
		case CHAROID:
			return STENO_REPR_CHAR;
		default:
			return STENO_REPR_NONE;
	}
}

/* steno.log_parameter_max_size, for types of variable length. */
static inline bool
too_long(uint32 len)
{
	return unlikely(steno_my.log_parameter_max_size > 0) &&
		len > (uint32) steno_my.log_parameter_max_size;
}

static inline void
set_bytes(StenoParam *p, const void *data, uint32 len, bool prefixed)
{
	p->data = data;
	p->len = len;
	p->prefixed = prefixed;
}

/*
 * Whether a value must be fetched or decompressed first.  (VARATT_IS_SHORT does not
 * exclude that: it is also true for pointers to external values.)
 */
static inline bool
is_toasted(const struct varlena *v)
{
	return VARATT_IS_EXTERNAL(v) || VARATT_IS_COMPRESSED(v);
}

/* A value of variable length: its bytes in place, or a copy of them if it was toasted. */
static bool
set_varlena(Datum value, bool failing, StenoParam *p)
{
	struct varlena *v = (struct varlena *) DatumGetPointer(value);

	if (is_toasted(v))
	{
		if (failing || (v = steno_output_detoast(v)) == NULL)
			return false;		/* no table access now */
	}
	set_bytes(p, VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v), true);
	return !too_long(p->len);
}

/*
 * Two fields of a struct, without the padding that PostgreSQL has between them and the
 * format does not.
 */
STENO_COLD static void
set_packed(StenoParam *p, const void *a, uint32 a_len, const void *b, uint32 b_len)
{
	uint8	   *bytes = palloc(a_len + b_len);

	steno_my.scratch_used = true;
	memcpy(bytes, a, a_len);
	memcpy(bytes + a_len, b, b_len);
	set_bytes(p, bytes, a_len + b_len, false);
}

/* A value of a type that only its output function knows. */
STENO_COLD static bool
set_output(Oid type, Datum value, StenoParam *p)
{
	bool		varlena;
	char	   *text = steno_output_text(type, value, &varlena);

	if (text == NULL)
		return false;
	set_bytes(p, text, strlen(text), true);
	return !(varlena && too_long(p->len));
}

/* inet: family, prefix length, address, as they are in memory. */
STENO_COLD static bool
set_inet(Datum value, bool failing, StenoParam *p)
{
	struct varlena *v = (struct varlena *) DatumGetPointer(value);
	inet_struct *i;

	if (is_toasted(v))
		return false;
	i = (inet_struct *) VARDATA_ANY(v);
	set_bytes(p, i, 2 + (i->family == PGSQL_AF_INET ? 4 : 16), true);
	return !too_long(p->len);
}

/*
 * Take a value.  room: storage for a value that is passed by value, because p only holds
 * pointers.  Returns the representation; STENO_REPR_NONE: no value.
 */
STENO_COLD static int
set_other(Oid type, Datum value, bool failing, StenoParam *p, uint64 *room)
{
	int			repr = representation(type);
	bool		ok = true;

	switch (repr)
	{
		case STENO_REPR_BOOL:
		case STENO_REPR_CHAR:
			*room = DatumGetUInt8(value);
			set_bytes(p, room, 1, false);
			break;
		case STENO_REPR_INT2:
			*room = DatumGetUInt16(value);
			set_bytes(p, room, 2, false);
			break;
		case STENO_REPR_INT4:
		case STENO_REPR_OID:
		case STENO_REPR_FLOAT4:
		case STENO_REPR_DATE:
			*room = DatumGetUInt32(value);
			set_bytes(p, room, 4, false);
			break;
		case STENO_REPR_INT8:
		case STENO_REPR_FLOAT8:
		case STENO_REPR_TIME:
		case STENO_REPR_TIMESTAMP:
		case STENO_REPR_TIMESTAMPTZ:
			*room = DatumGetInt64(value);
			set_bytes(p, room, 8, false);
			break;
		case STENO_REPR_UUID:
			set_bytes(p, DatumGetPointer(value), UUID_LEN, false);
			break;
		case STENO_REPR_TIMETZ:
			{
				TimeTzADT  *t = DatumGetTimeTzADTP(value);

				set_packed(p, &t->time, sizeof(t->time), &t->zone, sizeof(t->zone));
				break;
			}
		case STENO_REPR_INTERVAL:
			{
				Interval   *i = DatumGetIntervalP(value);

				set_packed(p, &i->time, sizeof(i->time), &i->day, 8);
				break;
			}
		case STENO_REPR_INET:
		case STENO_REPR_CIDR:
			ok = set_inet(value, failing, p);
			break;
		case STENO_REPR_TEXT:
			if (type == CSTRINGOID || type == UNKNOWNOID)
				set_bytes(p, DatumGetCString(value), strlen(DatumGetCString(value)), true);
			else if (type == NAMEOID)
				set_bytes(p, DatumGetPointer(value), strnlen(DatumGetPointer(value), NAMEDATALEN), true);
			else
				ok = set_varlena(value, failing, p);
			break;
		case STENO_REPR_BYTEA:
		case STENO_REPR_NUMERIC:
			ok = set_varlena(value, failing, p);
			break;
		default:
			ok = !failing && set_output(type, value, p);
			repr = STENO_REPR_TEXT;
			break;
	}
	if (ok)
		return repr;
	set_bytes(p, "", 0, false);
	return STENO_REPR_NONE;
}

/* The most frequent type is handled here, without the jump tables of two switches. */
static inline int
set_value(Oid type, Datum value, bool failing, StenoParam *p, uint64 *room)
{
	if (type == INT4OID)
	{
		*room = DatumGetUInt32(value);
		set_bytes(p, room, 4, false);
		return STENO_REPR_INT4;
	}
	return set_other(type, value, failing, p, room);
}

/* The sizes of many parameters are computed exactly, so that as many as possible fit. */
STENO_COLD uint32
steno_many_params_shape_size(ParamListInfo params)
{
	uint32		size = 5;
	int			i;

	for (i = 0; i < params->numParams; i++)
		size += steno_varint_size(params->params[i].ptype) + 1;
	return size;
}

/* ---- parameters that are taken at a statement's start ---- */

/*
 * A utility statement's record is made at its end, when the parameters may have gone: CALL can end the
 * transaction, an error frees the portal, and values that output functions made are not there any more.  So
 * they are collected at its start, and kept in one piece of memory of our own.  list stands for the others'
 * ParamListInfo; it has no entries, and is known by its paramFetch.
 */
typedef struct Taken
{
	uint8	   *types;			/* as in the shape, with their number */
	StenoParams params;			/* its values are in the same piece of memory */
	ParamListInfoData list;
} Taken;

/* The server does not get the list; who asks nevertheless is told that there is no value. */
static ParamExternData *
fetch_taken(ParamListInfo params, int number, bool speculative, ParamExternData *room)
{
	memset(room, 0, sizeof(*room));
	room->isnull = true;
	return room;
}

static inline Taken *
taken_of(ParamListInfo params)
{
	return (Taken *) ((char *) params - offsetof(Taken, list));
}

/* Whether any of them is used: PL/pgSQL passes all variables of a function. */
static bool
any_used(const uint8 *types, const StenoParams *params)
{
	const uint8 *p = types + steno_varint_size(params->count);

	while (p < types + params->shape_len)
		if (*p++ != 0)
			return true;
	return false;
}

/* Put the values, and what else the collected parameters point to, behind the struct. */
static void
keep_taken(Taken *t, const uint8 *types, const StenoParams *params)
{
	uint8	   *p = (uint8 *) (t + 1);
	int			i;

	t->params = *params;
	t->params.values = (StenoParam *) p;
	p += params->count * sizeof(StenoParam);
	for (i = 0; i < params->count; i++)
	{
		StenoParam *v = &t->params.values[i];

		*v = params->values[i];
		if (v->data == NULL)
			continue;
		memcpy(p, v->data, v->len);
		v->data = p;
		p += v->len;
	}
	t->types = memcpy(p, types, params->shape_len);
	memset(&t->list, 0, sizeof(t->list));
	t->list.paramFetch = fetch_taken;
	t->list.numParams = params->count;
}

/* A copy of the collected parameters; NULL: there is no memory. */
static Taken *
copy_taken(const uint8 *types, const StenoParams *params)
{
	Size		size = sizeof(Taken) + params->count * sizeof(StenoParam) + params->shape_len;
	Taken	   *t;
	int			i;

	for (i = 0; i < params->count; i++)
		size += params->values[i].len;
	t = MemoryContextAllocExtended(TopMemoryContext, size, MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	if (t)
		keep_taken(t, types, params);
	return t;
}

/*
 * Collect a statement's parameters for a record that is made later.  The result stands for them in what this
 * file has, until steno_params_release.  NULL: none is used, or there is no memory, and *missing says for how
 * many.
 */
STENO_COLD ParamListInfo
steno_params_take(ParamListInfo params, int *missing)
{
	bool		clean = !steno_my.scratch_used;
	uint8	   *types = steno_scratch(steno_params_shape_size(params));
	MemoryContext old = MemoryContextSwitchTo(steno_private.scratch);
	StenoParams collected;
	bool		used = true;
	Taken	   *t = NULL;

	if (types != NULL && steno_params_collect(params, false, types, &collected) != NULL)
	{
		used = any_used(types, &collected);
		if (used)
			t = copy_taken(types, &collected);
	}
	*missing = used && t == NULL ? params->numParams : 0;
	MemoryContextSwitchTo(old);
	if (clean)
	{
		steno_my.scratch_used = false;
		MemoryContextReset(steno_private.scratch);
	}
	return t ? &t->list : NULL;
}

void
steno_params_release(ParamListInfo taken)
{
	pfree(taken_of(taken));
}

/* What steno_params_collect returns for them.  The values stay where they are. */
STENO_COLD static uint8 *
collect_taken(const Taken *t, uint8 *shape, StenoParams *result)
{
	*result = t->params;
	memcpy(shape, t->types, t->params.shape_len);
	return shape + t->params.shape_len;
}

/* ---- parameters ---- */

/*
 * Collect a statement's parameters: types into the shape, values into result, which is
 * valid until the scratch context is reset.  failing: an error is being handled, and no
 * other code can run.  Returns the end of the shape, or NULL if the values are not
 * available because memory is exhausted or the caller's function (paramFetch) would have
 * to run.
 */
STENO_HOT uint8 *
steno_params_collect(ParamListInfo params, bool failing,
					 uint8 *shape, StenoParams *result)
{
	int			count = params->numParams;
	uint64	   *room = result->fixed;
	uint8	   *begin;
	int			i;

	if (unlikely(params->paramFetch != NULL))
	{
		if (params->paramFetch == fetch_taken)
			return collect_taken(taken_of(params), shape, result);
		if (failing)
			return NULL;
	}
	result->count = count;
	result->nulls_len = 0;
	result->values_len = 0;
	result->nulls = NULL;
	result->values = result->few;
	if (unlikely(count > STENO_FEW_PARAMS))
	{
		result->values = steno_scratch(count * sizeof(StenoParam));
		room = steno_scratch(count * sizeof(uint64));
		if (result->values == NULL || room == NULL)
			return NULL;
	}

	begin = shape;
	shape = steno_put_varint(shape, count);
	for (i = 0; i < count; i++)
	{
		StenoParam *p = &result->values[i];
		ParamExternData *external = &params->params[i];
		ParamExternData fetched;
		int			repr = STENO_REPR_NONE;

		if (params->paramFetch != NULL)
			external = params->paramFetch(params, i + 1, true, &fetched);
		if (external->isnull || !OidIsValid(external->ptype))
		{
			p->data = NULL;
			p->len = 0;
			p->prefixed = false;
			result->nulls_len = (count + 7) / 8;
			repr = representation(external->ptype);
			if (repr == STENO_REPR_NONE && OidIsValid(external->ptype))
				repr = STENO_REPR_TEXT;
		}
		else
		{
			repr = set_value(external->ptype, external->value, failing, p, &room[i]);
			result->values_len += p->len + (p->prefixed ? steno_varint_size(p->len) : 0);
		}
		shape = steno_put_varint(shape, external->ptype);
		*shape++ = repr;
	}
	result->shape_len = shape - begin;
	return shape;
}

/*
 * The same for a statement with too many parameters for a shape.  A shape must fit into
 * one message, but values can be sent in parts: so the types are stored with the values,
 * and the shape has a single parameter, the list.
 */
STENO_COLD uint8 *
steno_params_collect_list(ParamListInfo params, bool failing, uint8 *shape, StenoParams *result)
{
	int			count = params->numParams;
	uint8	   *prefix = steno_scratch(STENO_VARINT_MAX + steno_params_shape_size(params));
	uint8	   *types = prefix + STENO_VARINT_MAX;
	StenoParam *list = steno_scratch((2 + 2 * (Size) count) * sizeof(StenoParam));
	StenoParam *p = list;
	const uint8 *begin = shape;
	uint8	   *end;
	uint64		len;
	int			i;

	if (prefix == NULL || list == NULL)
		return NULL;
	end = steno_params_collect(params, failing, types, result);
	if (end == NULL)
		return NULL;

	len = (end - types) + result->values_len;
	set_bytes(p++, prefix, steno_put_varint(prefix, len) - prefix, false);
	set_bytes(p++, types, steno_varint_size(count), false);
	types += steno_varint_size(count);
	for (i = 0; i < count; i++)
	{
		uint8	   *type = types;

		while (*types & 0x80)
			types++;
		types += 2;				/* the type's last byte, and the representation */
		set_bytes(p++, type, types - type, false);
		if (result->values[i].data == NULL)
			types[-1] |= STENO_LISTED_NULL;
		else
			*p++ = result->values[i];
	}
	Assert(types == end);
	result->values = list;
	result->count = p - list;
	result->values_len = list[0].len + len;
	result->nulls_len = 0;

	shape = steno_put_varint(shape, 1);
	shape = steno_put_varint(shape, InvalidOid);
	*shape++ = STENO_REPR_LIST;
	result->shape_len = shape - begin;
	Assert(result->shape_len == STENO_LIST_SHAPE);
	return shape;
}

/* Write the NULLs and, if requested, the values into a record.  Returns their end. */
STENO_HOT uint8 *
steno_put_params(uint8 *p, const StenoParams *params, bool values)
{
	int			i;

	if (unlikely(params->nulls != NULL))
	{
		memcpy(p, params->nulls, params->nulls_len);
		p += params->nulls_len;
	}
	else if (params->nulls_len > 0)
	{
		uint8		bits = 0;

		for (i = 0; i < params->count; i++)
		{
			if (params->values[i].data == NULL)
				bits |= 1 << (i % 8);
			if (i % 8 == 7)
			{
				*p++ = bits;
				bits = 0;
			}
		}
		if (i % 8 != 0)
			*p++ = bits;
	}
	if (!values)
		return p;
	for (i = 0; i < params->count; i++)
	{
		const StenoParam *v = &params->values[i];

		if (v->data == NULL)
			continue;
		if (v->prefixed)
			p = steno_put_varint(p, v->len);
		memcpy(p, v->data, v->len);
		p += v->len;
	}
	return p;
}
