/*
 * core/codec.c
 *		The reading functions of codec.h, and the shapes that it declares.
 *
 * A function takes bytes off the front of a StenoBytes and fails if it has too few,
 * so that callers need not check any bound.  After a failure, the position of *in
 * is undefined, but within the bytes: callers must stop reading.
 */
#include "codec.h"

const uint8_t steno_bare_shapes[STENO_CLASSES][STENO_BARE_SHAPE] = {
#define STENO_CLASS(n, id, name, doc) [n] = {n},
#include "../format/records.def"
#undef STENO_CLASS
};

bool
steno_take_varint(StenoBytes *in, uint64_t *v)
{
	uint64_t	value = 0;
	int			i;

	for (i = 0; i < STENO_VARINT_MAX && (uint64_t) i < in->len; i++)
	{
		uint8_t		byte = in->p[i];

		/* the tenth byte has room for one bit */
		if (i == STENO_VARINT_MAX - 1 && byte > 1)
			return false;
		value |= (uint64_t) (byte & 0x7f) << (7 * i);
		if (byte < 0x80)
		{
			in->p += i + 1;
			in->len -= (uint64_t) i + 1;
			*v = value;
			return true;
		}
	}
	return false;
}

bool
steno_take_bytes(StenoBytes *in, uint64_t len, StenoBytes *out)
{
	if (len > in->len)
		return false;
	out->p = in->p;
	out->len = len;
	/* the address of an empty string may be NULL */
	if (len > 0)
		in->p += len;
	in->len -= len;
	return true;
}

bool
steno_take_string(StenoBytes *in, StenoBytes *out)
{
	uint64_t	len;

	return steno_take_varint(in, &len) && steno_take_bytes(in, len, out);
}

bool
steno_take_byte(StenoBytes *in, uint8_t *byte)
{
	StenoBytes	b;

	if (!steno_take_bytes(in, 1, &b))
		return false;
	*byte = *b.p;
	return true;
}

bool
steno_take_signed(StenoBytes *in, int64_t *v)
{
	uint64_t	u;

	if (!steno_take_varint(in, &u))
		return false;
	*v = (int64_t) ((u >> 1) ^ (~(u & 1) + 1));
	return true;
}

bool
steno_take_shape_head(StenoBytes *in, uint64_t *class, uint64_t *query_id,
					  StenoBytes *tag, uint64_t *nrelations)
{
	return steno_take_varint(in, class) && steno_take_varint(in, query_id) &&
		steno_take_string(in, tag) && steno_take_varint(in, nrelations);
}

bool
steno_take_relation(StenoBytes *in, uint8_t *type, uint64_t *access, StenoBytes *name)
{
	return steno_take_byte(in, type) && steno_take_varint(in, access) &&
		steno_take_string(in, name);
}

bool
steno_take_param(StenoBytes *in, uint64_t *type, uint8_t *repr)
{
	return steno_take_varint(in, type) && steno_take_byte(in, repr);
}

bool
steno_take_object(StenoBytes *in, uint8_t *action, StenoBytes *type, StenoBytes *name, StenoBytes *to)
{
	return steno_take_byte(in, action) && steno_take_string(in, type) &&
		steno_take_string(in, name) && steno_take_string(in, to);
}

bool
steno_take_value(StenoBytes *in, uint8_t repr, StenoBytes *value)
{
	switch (repr)
	{
		case STENO_REPR_NONE:
			return steno_take_bytes(in, 0, value);
		case STENO_REPR_BOOL:
		case STENO_REPR_CHAR:
			return steno_take_bytes(in, 1, value);
		case STENO_REPR_INT2:
			return steno_take_bytes(in, 2, value);
		case STENO_REPR_INT4:
		case STENO_REPR_FLOAT4:
		case STENO_REPR_OID:
		case STENO_REPR_DATE:
			return steno_take_bytes(in, 4, value);
		case STENO_REPR_INT8:
		case STENO_REPR_FLOAT8:
		case STENO_REPR_TIME:
		case STENO_REPR_TIMESTAMP:
		case STENO_REPR_TIMESTAMPTZ:
			return steno_take_bytes(in, 8, value);
		case STENO_REPR_TIMETZ:
			return steno_take_bytes(in, 12, value);
		case STENO_REPR_UUID:
		case STENO_REPR_INTERVAL:
			return steno_take_bytes(in, 16, value);
		case STENO_REPR_TEXT:
		case STENO_REPR_BYTEA:
		case STENO_REPR_NUMERIC:
		case STENO_REPR_INET:
		case STENO_REPR_CIDR:
		case STENO_REPR_LIST:
			return steno_take_string(in, value);
		default:
			return false;
	}
}

/* A parameter takes at least two bytes, which limits the number that a list can claim. */
bool
steno_take_list(StenoBytes *in, uint64_t *n)
{
	return steno_take_varint(in, n) && *n <= STENO_MAX_PARAMS && *n <= in->len / 2;
}

bool
steno_take_listed(StenoBytes *in, uint64_t *type, uint8_t *repr, bool *null)
{
	if (!steno_take_param(in, type, repr))
		return false;
	*null = (*repr & STENO_LISTED_NULL) != 0;
	*repr &= (uint8_t) ~STENO_LISTED_NULL;
	return *repr != STENO_REPR_LIST;
}
