/*
 * extension/sql/show_param.c
 *		The values of parameters, as the output functions of their types print them with
 *		default settings (show.h).
 *
 * Those functions trust their argument, and values of a trail are not trusted: each
 * is checked to be one that the server itself could have made.
 */
#include "base/steno.h"

#include <sys/socket.h>

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/inet.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "sql/show.h"
#include "value/defaults.h"

#define NOT_RECORDED "<not recorded>"
#define DAMAGED "<damaged value>"

/* A numeric that would be printed with more zeros than this is shown with an exponent. */
#define MAX_ZEROS 400

/* The header word of a packed numeric, which is the server's own business (utils/adt/numeric.c). */
#define NUMERIC_SIGN_BITS 0xC000
#define NUMERIC_SPECIAL_VALUE 0xC000
#define NUMERIC_SHORT_FORMAT 0x8000
#define NUMERIC_IS_NEGATIVE 0x4000

static uint64
integer_of(StenoBytes value, int width)
{
	uint64		n = 0;

	memcpy(&n, value.p, width);	/* little-endian, as this machine */
	return n;
}

static int32
int32_at(const uint8 *p)
{
	int32		n;

	memcpy(&n, p, sizeof(n));
	return n;
}

static int64
int64_at(const uint8 *p)
{
	int64		n;

	memcpy(&n, p, sizeof(n));
	return n;
}

static char *
call(PGFunction function, Datum value)
{
	return DatumGetCString(DirectFunctionCall1(function, value));
}

/* A varlena of a header and these bytes. */
static Datum
varlena_of(StenoBytes value)
{
	return PointerGetDatum(cstring_to_text_with_len((const char *) value.p, (int) value.len));
}

/* ---- numeric ---- */

/* The digits to the base 10000 as an integer, with a power of ten. */
static char *
scientific(const uint8 *digits, int n, bool negative, int weight)
{
	StringInfoData out;
	char	   *first;
	int			exponent = 4 * (weight + 1 - n);
	int			i;

	initStringInfo(&out);
	for (i = 0; i < n; i++)
		appendStringInfo(&out, "%04d", (int) (digits[2 * i] | digits[2 * i + 1] << 8));
	while (out.len > 0 && out.data[out.len - 1] == '0')
	{
		out.data[--out.len] = '\0';
		exponent++;
	}
	first = out.data + strspn(out.data, "0");
	if (*first == '\0')
		return pstrdup("0");
	return exponent == 0 ? psprintf("%s%s", negative ? "-" : "", first) :
		psprintf("%s%se%d", negative ? "-" : "", first, exponent);
}

static char *
show_numeric(StenoBytes value)
{
	uint16		head;
	const uint8 *digits;
	int			weight;
	int			scale;
	int			n;
	int			zeros;
	int			i;
	bool		negative;

	if (value.len < 2 || value.len % 2 != 0 || value.len > STENO_SHOWN_MAX / 8)
		return pstrdup(DAMAGED);
	head = (uint16) integer_of(value, 2);
	if ((head & NUMERIC_SIGN_BITS) == NUMERIC_SPECIAL_VALUE)
		return pstrdup((head & 0xF000) == 0xD000 ? "Infinity" : (head & 0xF000) == 0xF000 ? "-Infinity" : "NaN");
	if ((head & NUMERIC_SIGN_BITS) == NUMERIC_SHORT_FORMAT)
	{
		negative = (head & 0x2000) != 0;
		scale = (head >> 7) & 0x3F;
		weight = (head & 0x3F) - (head & 0x40 ? 64 : 0);
		digits = value.p + 2;
	}
	else
	{
		if (value.len < 4)
			return pstrdup(DAMAGED);
		negative = (head & NUMERIC_SIGN_BITS) == NUMERIC_IS_NEGATIVE;
		scale = head & 0x3FFF;
		weight = (int16) (value.p[2] | value.p[3] << 8);
		digits = value.p + 4;
	}
	n = (int) ((value.p + value.len - digits) / 2);
	for (i = 0; i < n; i++)
		if ((digits[2 * i] | digits[2 * i + 1] << 8) > 9999)
			return pstrdup(DAMAGED);
	/* zeros that it is printed with and does not have */
	zeros = 4 * Max(0, Max(0, weight + 1) - n) + (weight < 0 ? Min(scale, 4 * (-weight - 1)) : 0) +
		Max(0, scale - 4 * Max(0, n - weight - 1));
	if (zeros > MAX_ZEROS)
		return scientific(digits, n, negative, weight);
	return call(numeric_out, varlena_of(value));
}

/* ---- times and addresses ---- */

static char *
show_interval(StenoBytes value)
{
	Interval	interval;

	interval.time = int64_at(value.p);
	interval.day = int32_at(value.p + 8);
	interval.month = int32_at(value.p + 12);
	return call(interval_out, IntervalPGetDatum(&interval));
}

static char *
show_timetz(StenoBytes value)
{
	TimeTzADT	time;

	time.time = int64_at(value.p);
	time.zone = int32_at(value.p + 8);
	if (time.time < 0 || time.time > USECS_PER_DAY || abs(time.zone / 2) > SECS_PER_DAY)
		return pstrdup(DAMAGED);
	return call(timetz_out, TimeTzADTPGetDatum(&time));
}

static char *
show_time(int64 time)
{
	return time < 0 || time > USECS_PER_DAY ? pstrdup(DAMAGED) : call(time_out, TimeADTGetDatum(time));
}

static char *
show_date(int32 date)
{
	return DATE_NOT_FINITE(date) || IS_VALID_DATE(date) ? call(date_out, DateADTGetDatum(date)) : pstrdup(DAMAGED);
}

static char *
show_timestamp(int64 time, PGFunction function)
{
	return TIMESTAMP_NOT_FINITE(time) || IS_VALID_TIMESTAMP(time) ?
		call(function, TimestampTzGetDatum(time)) : pstrdup(DAMAGED);
}

static char *
show_inet(StenoBytes value, PGFunction function)
{
	if (value.len < 2 || !((value.p[0] == PGSQL_AF_INET && value.len == 6 && value.p[1] <= 32) ||
						   (value.p[0] == PGSQL_AF_INET6 && value.len == 18 && value.p[1] <= 128)))
		return pstrdup(DAMAGED);
	return call(function, varlena_of(value));
}

static char *
show_uuid(StenoBytes value)
{
	pg_uuid_t	uuid;

	memcpy(uuid.data, value.p, UUID_LEN);
	return call(uuid_out, UUIDPGetDatum(&uuid));
}

static char *
show_float4(StenoBytes value)
{
	float4		f;

	memcpy(&f, value.p, sizeof(f));
	return call(float4out, Float4GetDatum(f));
}

static char *
show_float8(StenoBytes value)
{
	float8		f;

	memcpy(&f, value.p, sizeof(f));
	return call(float8out, Float8GetDatum(f));
}

/* ---- parameters ---- */

/* A value in the representation that it was taken with, so that its length is right. */
static Datum
show_value(uint8 repr, StenoBytes value, int encoding)
{
	char	   *shown;

	switch (repr)
	{
		case STENO_REPR_BOOL:
			shown = value.p[0] ? "t" : "f";
			break;
		case STENO_REPR_INT2:
			shown = psprintf("%d", (int16) integer_of(value, 2));
			break;
		case STENO_REPR_INT4:
			shown = psprintf("%d", (int32) integer_of(value, 4));
			break;
		case STENO_REPR_INT8:
			shown = psprintf(INT64_FORMAT, (int64) integer_of(value, 8));
			break;
		case STENO_REPR_OID:
			shown = psprintf("%u", (uint32) integer_of(value, 4));
			break;
		case STENO_REPR_FLOAT4:
			shown = show_float4(value);
			break;
		case STENO_REPR_FLOAT8:
			shown = show_float8(value);
			break;
		case STENO_REPR_TEXT:
			return steno_show_text(value, encoding);
		case STENO_REPR_CHAR:
			/* in PostgreSQL 15, charout() would print any byte */
			shown = IS_HIGHBIT_SET(value.p[0]) ? psprintf("\\%03o", value.p[0]) : psprintf("%c", value.p[0]);
			break;
		case STENO_REPR_BYTEA:
			if (value.len > STENO_SHOWN_MAX / 4)
				value.len = STENO_SHOWN_MAX / 4;
			shown = call(byteaout, varlena_of(value));
			break;
		case STENO_REPR_NUMERIC:
			shown = show_numeric(value);
			break;
		case STENO_REPR_UUID:
			shown = show_uuid(value);
			break;
		case STENO_REPR_DATE:
			shown = show_date((int32) integer_of(value, 4));
			break;
		case STENO_REPR_TIME:
			shown = show_time((int64) integer_of(value, 8));
			break;
		case STENO_REPR_TIMETZ:
			shown = show_timetz(value);
			break;
		case STENO_REPR_TIMESTAMP:
			shown = show_timestamp((int64) integer_of(value, 8), timestamp_out);
			break;
		case STENO_REPR_TIMESTAMPTZ:
			shown = show_timestamp((int64) integer_of(value, 8), timestamptz_out);
			break;
		case STENO_REPR_INTERVAL:
			shown = show_interval(value);
			break;
		case STENO_REPR_INET:
			shown = show_inet(value, inet_out);
			break;
		case STENO_REPR_CIDR:
			shown = show_inet(value, cidr_out);
			break;
		default:
			shown = NOT_RECORDED;
			break;
	}
	return CStringGetTextDatum(shown);
}

/* Parameters that were shown so far. */
typedef struct Shown
{
	ArrayBuildState *all;
	uint64		bytes;
} Shown;

/* Add a parameter; false if there is no space for more. */
static bool
add_param(Shown *shown, Datum value, bool null)
{
	if (!null)
		shown->bytes += VARSIZE_ANY(DatumGetPointer(value));
	if (shown->bytes > STENO_SHOWN_MAX)
		return false;
	shown->all = accumArrayResult(shown->all, value, null, TEXTOID, CurrentMemoryContext);
	return true;
}

/* All parameters of a statement with very many, with their types. */
static void
show_list(Shown *shown, StenoBytes list, int encoding)
{
	uint64_t	n;
	uint64_t	type;
	uint8_t		repr;
	bool		null;
	StenoBytes	value;

	if (!steno_take_list(&list, &n))
		return;
	while (n-- > 0 && steno_take_listed(&list, &type, &repr, &null))
	{
		if (!null && !steno_take_value(&list, repr, &value))
			break;
		CHECK_FOR_INTERRUPTS();
		if (!add_param(shown, null ? (Datum) 0 : show_value(repr, value, encoding), null))
			break;
	}
}

static void
show_params(Shown *shown, const StenoShownShape *shape, StenoBytes nulls, StenoBytes values, int encoding)
{
	StenoBytes	params = shape->params;
	uint64		i;

	for (i = 0; i < shape->nparams; i++)
	{
		uint64_t	type;
		uint8_t		repr;
		StenoBytes	value;
		bool		null = nulls.len > i / 8 && (nulls.p[i / 8] & (1 << (i % 8)));

		CHECK_FOR_INTERRUPTS();
		if (!steno_take_param(&params, &type, &repr) || (!null && !steno_take_value(&values, repr, &value)))
			break;
		if (!null && repr == STENO_REPR_LIST)
			show_list(shown, value, encoding);
		else if (!add_param(shown, null ? (Datum) 0 : show_value(repr, value, encoding), null))
			break;
	}
}

Datum
steno_show_params(const StenoShownShape *shape, StenoBytes nulls, StenoBytes values, int encoding)
{
	Shown		shown = {initArrayResult(TEXTOID, CurrentMemoryContext, false), 0};
	StenoDefaults session;

	steno_defaults_begin(&session, false);
	PG_TRY();
	{
		show_params(&shown, shape, nulls, values, encoding);
	}
	PG_FINALLY();
	{
		steno_defaults_end(&session);
	}
	PG_END_TRY();
	return makeArrayResult(shown.all, CurrentMemoryContext);
}
