/*
 * extension/param.c
 *		Parameter values: common built-in types as they are in memory, to be
 *		rendered by whoever reads the trail; others through their output function.
 */
#include "steno.h"

#include <sys/socket.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/date.h"
#include "utils/hsearch.h"
#include "utils/inet.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "statement.h"

/* Output function of a type that has no binary representation here. */
typedef struct Output
{
	Oid			type;			/* key */
	bool		valid;
	bool		varlena;
	FmgrInfo	function;
	MemoryContext context;		/* of what the function keeps */
} Output;

static HTAB *outputs;

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

static void
forget_outputs(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS all;
	Output	   *o;

	hash_seq_init(&all, outputs);
	while ((o = hash_seq_search(&all)) != NULL)
		o->valid = false;
}

STENO_COLD static Output *
find_output(Oid type)
{
	Output	   *o;
	bool		found;

	if (outputs == NULL)
	{
		HASHCTL		info = {0};

		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(Output);
		outputs = hash_create("pg_steno output functions", 16, &info,
							  HASH_ELEM | HASH_BLOBS);
		CacheRegisterSyscacheCallback(TYPEOID, forget_outputs, (Datum) 0);
	}
	o = hash_search(outputs, &type, HASH_ENTER, &found);
	if (!found)
	{
		o->valid = false;
		o->context = NULL;
	}
	if (!o->valid)
	{
		Oid			function;

		if (o->context == NULL)
			o->context = AllocSetContextCreate(TopMemoryContext, "pg_steno output function",
											   ALLOCSET_SMALL_SIZES);
		MemoryContextReset(o->context);
		getTypeOutputInfo(type, &function, &o->varlena);
		fmgr_info_cxt(function, &o->function, o->context);
		o->valid = true;
	}
	return o;
}

/* steno.log_parameter_max_size, for types of variable length. */
static inline bool
too_long(uint32 len)
{
	return unlikely(steno_my.log_parameter_max_size > 0) &&
		len > (uint32) steno_my.log_parameter_max_size;
}

/*
 * A value through its type's output function.  That may be anybody's code: an
 * error of it must not become the statement's, so it is swallowed, and the
 * value recorded as one that could not be taken down.  A cancel waits until we
 * are through.
 */
STENO_COLD static bool
output_text(Oid type, Datum value, StenoParam *p)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	volatile bool ok = false;

	steno_my.scratch_used = true;
	HOLD_INTERRUPTS();
	steno_my.paused = true;		/* statements of the function are not ours to record */
	PG_TRY();
	{
		Output	   *o = find_output(type);
		char	   *text = OutputFunctionCall(&o->function, value);

		p->data = (uint8 *) text;
		p->len = strlen(text);
		p->prefixed = true;
		ok = !(o->varlena && too_long(p->len));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	steno_my.paused = false;
	InterruptHoldoffCount = holdoff;	/* an error has set it to zero */
	return ok;
}

/* Likewise for a value that is compressed or stored elsewhere. */
STENO_COLD static struct varlena *
detoast(struct varlena *v)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	struct varlena *volatile result = NULL;

	steno_my.scratch_used = true;
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		result = pg_detoast_datum_packed(v);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	InterruptHoldoffCount = holdoff;	/* an error has set it to zero */
	return result;
}

static inline void
set_bytes(StenoParam *p, const void *data, uint32 len, bool prefixed)
{
	p->data = data;
	p->len = len;
	p->prefixed = prefixed;
}

/* Whether a value's bytes are not its own.  VARATT_IS_SHORT is true of pointers, too. */
static inline bool
is_toasted(const struct varlena *v)
{
	return VARATT_IS_EXTERNAL(v) || VARATT_IS_COMPRESSED(v);
}

/* Header of the pieces that take no memory of their own. */
static bool
set_varlena(Datum value, bool failing, StenoParam *p)
{
	struct varlena *v = (struct varlena *) DatumGetPointer(value);

	if (is_toasted(v))
	{
		if (failing || (v = detoast(v)) == NULL)
			return false;		/* no table access now */
	}
	set_bytes(p, VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v), true);
	return !too_long(p->len);
}

/* PostgreSQL pads an interval and a timetz; the format does not. */
STENO_COLD static void
set_packed(StenoParam *p, const void *a, uint32 a_len, const void *b, uint32 b_len)
{
	uint8	   *bytes = palloc(a_len + b_len);

	steno_my.scratch_used = true;
	memcpy(bytes, a, a_len);
	memcpy(bytes + a_len, b, b_len);
	set_bytes(p, bytes, a_len + b_len, false);
}

/* inet: family, prefix length, address. */
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

/* Returns the representation that was taken. */
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
			ok = !failing && output_text(type, value, p);
			repr = STENO_REPR_TEXT;
			break;
	}
	if (ok)
		return repr;
	set_bytes(p, "", 0, false);
	return STENO_REPR_NONE;
}

/* The commonest here, without the tables of the switches. */
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

/* Many parameters are counted exactly, so that as many as possible fit. */
STENO_COLD static uint32
exact_shape_size(ParamListInfo params)
{
	uint32		size = 5;
	int			i;

	for (i = 0; i < params->numParams; i++)
		size += steno_varint_size(params->params[i].ptype) + 1;
	return size;
}

/* Room that the parameters need in the shape. */
STENO_HOT uint32
steno_params_shape_size(ParamListInfo params)
{
	if (unlikely(params->numParams > 64 && params->paramFetch == NULL))
		return exact_shape_size(params);
	return 5 + params->numParams * 6;
}

/*
 * Collect a statement's parameters: types into the shape, values into result,
 * which stands until the scratch context is reset.  failing: we are handling
 * an error, and can run no other code.  Returns the end of the shape, or NULL
 * when the values cannot be had.
 */
STENO_HOT uint8 *
steno_params_collect(ParamListInfo params, bool failing,
					 uint8 *shape, StenoParams *result)
{
	int			count = params->numParams;
	uint64	   *room = result->fixed;
	uint8	   *begin;
	int			i;

	if (failing && params->paramFetch != NULL)
		return NULL;
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
 * Collect the parameters of a statement with too many of them for a shape: their
 * types go with the values, so that they go in parts, as those do.  The shape has
 * one parameter, the list of all.  NULL: they cannot be had.
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
