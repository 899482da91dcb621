/*
 * extension/describe/param.c
 *		Collection of a statement's parameter values for its record.
 *
 * Values of common built-in types are taken in their in-memory representation, and
 * formatted by the reader of the trail.  Values of all other types go through the type's
 * output function, which may be user-defined: it may fail, read tables, wait for locks, or
 * be cancelled, and none of this may affect the statement.  So a value is taken in one of
 * three ways:
 *
 *		set_value, set_other	no code that can fail
 *		make_plainly			code that leaves only memory behind when it fails: its
 *								error is caught, no subtransaction is needed
 *		make_guarded			any other code, in a subtransaction
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

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/fmgrtab.h"
#include "utils/hsearch.h"
#include "utils/inet.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rangetypes.h"
#include "utils/resowner.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "describe/param.h"

/*
 * What an output function may do, which determines the protection that a call of it needs.
 * In ascending order: a type that contains others has the highest of their values.
 */
typedef enum OutputReach
{
	REACH_MEMORY,				/* reads only its argument: if it fails, it leaves
								 * only memory behind */
	REACH_CATALOGS,				/* a function of the server that reads catalogs */
	REACH_ANYTHING				/* any other function, or one that calls any */
} OutputReach;

/*
 * Output function of a type that has no binary representation here.  An entry lives as
 * long as the process.  A change of pg_type or pg_proc only marks it as invalid; it is
 * looked up again when it is needed.
 */
typedef struct Output
{
	Oid			type;			/* key */
	bool		valid;			/* the rest agrees with the catalogs */
	bool		varlena;
	OutputReach reach;
	FmgrInfo	function;
	MemoryContext context;		/* for data that the function caches in fn_extra;
								 * reset by each lookup */
} Output;

static HTAB *outputs;			/* NULL: none was needed yet */

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

/*
 * Callback for invalidations of pg_type and pg_proc.  It can be called wherever the server
 * accepts invalidation messages, so catalogs cannot be read here.  All entries are marked,
 * since an array's entry also depends on its element type.
 */
static void
forget_outputs(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS all;
	Output	   *o;

	hash_seq_init(&all, outputs);
	while ((o = hash_seq_search(&all)) != NULL)
		o->valid = false;
}

/*
 * The server's function at this address.  InvalidOid: it is not a function of the server,
 * or fmgr calls it through a wrapper (SECURITY DEFINER, SET).
 */
static Oid
builtin_at(PGFunction address)
{
	int			i;

	for (i = 0; i < fmgr_nbuiltins; i++)
		if (fmgr_builtins[i].func == address)
			return fmgr_builtins[i].foid;
	return InvalidOid;
}

static OutputReach reach_of_type(Oid type, MemoryContext context);

/* The reach of a type's output function. */
static OutputReach
reach_of(Oid type, const FmgrInfo *function, MemoryContext context)
{
	Oid			inner;

	switch (builtin_at(function->fn_addr))
	{
		case F_BOOLOUT:
		case F_INT2OUT:
		case F_INT4OUT:
		case F_INT8OUT:
		case F_FLOAT4OUT:
		case F_FLOAT8OUT:
		case F_NUMERIC_OUT:
		case F_CASH_OUT:
		case F_OIDOUT:
		case F_XIDOUT:
		case F_XID8OUT:
		case F_CIDOUT:
		case F_TIDOUT:
		case F_PG_LSN_OUT:
		case F_PG_SNAPSHOT_OUT:
		case F_INT2VECTOROUT:
		case F_OIDVECTOROUT:
		case F_CHAROUT:
		case F_NAMEOUT:
		case F_TEXTOUT:
		case F_VARCHAROUT:
		case F_BPCHAROUT:
		case F_UNKNOWNOUT:
		case F_CSTRING_OUT:
		case F_BYTEAOUT:
		case F_BIT_OUT:
		case F_VARBIT_OUT:
		case F_JSON_OUT:
		case F_JSONB_OUT:
		case F_JSONPATH_OUT:
		case F_TSVECTOROUT:
		case F_TSQUERYOUT:
		case F_UUID_OUT:
		case F_DATE_OUT:
		case F_TIME_OUT:
		case F_TIMETZ_OUT:
		case F_TIMESTAMP_OUT:
		case F_TIMESTAMPTZ_OUT:
		case F_INTERVAL_OUT:
		case F_INET_OUT:
		case F_CIDR_OUT:
		case F_MACADDR_OUT:
		case F_MACADDR8_OUT:
		case F_POINT_OUT:
		case F_LSEG_OUT:
		case F_PATH_OUT:
		case F_BOX_OUT:
		case F_POLY_OUT:
		case F_LINE_OUT:
		case F_CIRCLE_OUT:
			return REACH_MEMORY;
		case F_ENUM_OUT:
		case F_REGCLASSOUT:
		case F_REGCOLLATIONOUT:
		case F_REGCONFIGOUT:
		case F_REGDICTIONARYOUT:
		case F_REGNAMESPACEOUT:
		case F_REGOPEROUT:
		case F_REGOPERATOROUT:
		case F_REGPROCOUT:
		case F_REGPROCEDUREOUT:
		case F_REGROLEOUT:
		case F_REGTYPEOUT:
			return REACH_CATALOGS;
		case F_ARRAY_OUT:
			inner = get_element_type(getBaseType(type));
			return OidIsValid(inner) ? reach_of_type(inner, context) : REACH_ANYTHING;
		case F_RANGE_OUT:
			inner = get_range_subtype(getBaseType(type));
			return OidIsValid(inner) ? Max(reach_of_type(inner, context), REACH_CATALOGS) : REACH_ANYTHING;
		case F_MULTIRANGE_OUT:
			inner = get_multirange_range(getBaseType(type));
			return OidIsValid(inner) ? reach_of_type(inner, context) : REACH_ANYTHING;
		default:
			/* composite types have columns of any type */
			return REACH_ANYTHING;
	}
}

static OutputReach
reach_of_type(Oid type, MemoryContext context)
{
	FmgrInfo	info;
	Oid			function;
	bool		varlena;

	getTypeOutputInfo(type, &function, &varlena);
	fmgr_info_cxt(function, &info, context);
	return reach_of(type, &info, context);
}

/* The entry of a type; unless it is valid, the caller must fill it in. */
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
		CacheRegisterSyscacheCallback(PROCOID, forget_outputs, (Datum) 0);
	}
	o = hash_search(outputs, &type, HASH_ENTER, &found);
	if (!found)
	{
		o->valid = false;
		o->context = NULL;
	}
	return o;
}

STENO_COLD static void
look_up_output(Output *o)
{
	Oid			function;

	if (o->context == NULL)
		o->context = AllocSetContextCreate(TopMemoryContext, "pg_steno output function",
										   ALLOCSET_SMALL_SIZES);
	MemoryContextReset(o->context);
	/* before the lookup, so that an invalidation during it is not overwritten */
	o->valid = true;
	getTypeOutputInfo(o->type, &function, &o->varlena);
	fmgr_info_cxt(function, &o->function, o->context);
	o->reach = reach_of(o->type, &o->function, o->context);
}

/* steno.log_parameter_max_size, for types of variable length. */
static inline bool
too_long(uint32 len)
{
	return unlikely(steno_my.log_parameter_max_size > 0) &&
		len > (uint32) steno_my.log_parameter_max_size;
}

/* ---- code that can fail ---- */

/* A value whose text or bytes are produced by code that can fail. */
typedef struct Making
{
	Output	   *output;			/* the function that makes the text; NULL: detoast */
	Datum		value;
	char	   *text;
	struct varlena *bytes;
} Making;

/* The subtransaction whose start callbacks are running; invalid if there is none. */
static SubTransactionId starting = InvalidSubTransactionId;

/*
 * A subtransaction is about to begin; InvalidSubTransactionId: it has begun.  In between,
 * the server cannot begin another one, so make_guarded() must not be used.
 */
void
steno_params_starting(SubTransactionId subid)
{
	starting = subid;
}

/*
 * Whether a subtransaction can begin here.  Not while a cancel or a termination is
 * pending: the code in it would be interrupted at once.
 */
static bool
can_begin_subtransaction(void)
{
	return IsTransactionState() && !IsInParallelMode() && !IsParallelWorker() && CritSectionCount == 0 &&
		!(starting != InvalidSubTransactionId && starting == GetCurrentSubTransactionId()) &&
		!proc_exit_inprogress && !QueryCancelPending && !ProcDiePending;
}

/*
 * Take the error that code called by us has raised, and clear it.  "paused" is cleared
 * meanwhile: CopyErrorData() may run out of memory, and that error then propagates from
 * here, bypassing the callers that would resume recording.
 */
STENO_COLD static ErrorData *
take_error(MemoryContext context)
{
	ErrorData  *edata;

	steno_my.paused = false;
	MemoryContextSwitchTo(context);
	edata = CopyErrorData();
	FlushErrorState();
	steno_my.paused = true;
	return edata;
}

/*
 * Code called by us has consumed a cancel request that was meant for the statement.
 * Request it again: the statement is cancelled where it next checks for interrupts.
 */
STENO_COLD static void
renew_cancel(bool had_timeout)
{
	int			i;

	/*
	 * ProcessInterrupts() distinguishes statement_timeout from a user's request by the
	 * timeout's indicator, which has been reset by now: let the timeout fire again. The
	 * wait is bounded; if it does not fire, the cancel is reported as a user's.
	 */
	if (had_timeout && !get_timeout_active(STATEMENT_TIMEOUT))
	{
		HOLD_INTERRUPTS();
		enable_timeout_after(STATEMENT_TIMEOUT, 1);
		for (i = 0; i < 1000 && !get_timeout_indicator(STATEMENT_TIMEOUT, false); i++)
			pg_usleep(1000L);
		RESUME_INTERRUPTS();
	}
	QueryCancelPending = true;
	InterruptPending = true;
	steno_my.start_mask |= STENO_START_CANCELLED;
}

/*
 * Code called by us has failed.  That is not a failure of the statement, so the error is
 * not propagated, with two exceptions: a cancel is meant for the statement, and data
 * corruption is reported in the log.
 */
STENO_COLD static void
swallow_error(ErrorData *edata, bool had_timeout)
{
	if (edata->sqlerrcode == ERRCODE_QUERY_CANCELED && edata->funcname &&
		strcmp(edata->funcname, "ProcessInterrupts") == 0)
		renew_cancel(had_timeout);
	else if (edata->sqlerrcode == ERRCODE_DATA_CORRUPTED || edata->sqlerrcode == ERRCODE_INDEX_CORRUPTED)
		ereport(LOG,
				(errcode(edata->sqlerrcode),
				 errmsg("pg_steno could not record a parameter: %s", edata->message)));
	FreeErrorData(edata);
}

static void
make(Making *m)
{
	if (m->output == NULL)
		m->bytes = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(m->value));
	else
		m->text = OutputFunctionCall(&m->output->function, m->value);
}

/*
 * Make a value with code that leaves only memory behind when it fails.  Interrupts are
 * held, so it cannot be cancelled halfway; "paused" keeps statements and errors of this
 * code out of the trail.  An output function that turns out to need a subtransaction is
 * not called: returns false.
 */
STENO_COLD static bool
make_plainly(Making *m)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	uint32		cancel_holdoff = QueryCancelHoldoffCount;
	volatile bool ok = false;

	steno_my.scratch_used = true;
	HOLD_INTERRUPTS();
	steno_my.paused = true;
	PG_TRY();
	{
		if (m->output && !m->output->valid)
			look_up_output(m->output);
		if (m->output == NULL || m->output->reach == REACH_MEMORY)
		{
			make(m);
			ok = true;
		}
	}
	PG_CATCH();
	{
		ErrorData  *edata = take_error(context);

		if (m->output)
			m->output->valid = false;
		swallow_error(edata, false);
	}
	PG_END_TRY();
	steno_my.paused = false;
	/* also undoes HOLD_INTERRUPTS(); an error has reset both counters */
	InterruptHoldoffCount = holdoff;
	QueryCancelHoldoffCount = cancel_holdoff;
	return ok;
}

/*
 * Make a value with any code, in a subtransaction.  It is rolled back, because the
 * statement has not requested the effects of this code.  The code may wait for locks, so
 * interrupts are not held; swallow_error() passes a cancel on to the statement.
 *
 * Only an error of BeginInternalSubTransaction() itself propagates from here, since there
 * is no subtransaction yet that could be rolled back.
 */
STENO_COLD static bool
make_guarded(Making *m)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	uint32		holdoff = InterruptHoldoffCount;
	uint32		cancel_holdoff = QueryCancelHoldoffCount;
	bool		had_timeout = get_timeout_active(STATEMENT_TIMEOUT);
	volatile bool begun = false;
	volatile bool ok = false;

	steno_my.scratch_used = true;
	steno_my.paused = true;
	PG_TRY();
	{
		BeginInternalSubTransaction(NULL);
		begun = true;
		MemoryContextSwitchTo(context);
		if (m->output && !m->output->valid)
			look_up_output(m->output);
		make(m);
		MemoryContextSwitchTo(context);
		/* the function may have returned memory that is freed with the subtransaction */
		if (m->text)
			m->text = pstrdup(m->text);
		if (m->output && m->output->reach == REACH_ANYTHING)
			RollbackAndReleaseCurrentSubTransaction();
		else
			ReleaseCurrentSubTransaction();
		begun = false;
		ok = true;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		if (!begun)
		{
			steno_my.paused = false;
			PG_RE_THROW();
		}
		edata = take_error(context);
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (m->output)
			m->output->valid = false;
		swallow_error(edata, had_timeout);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	steno_my.paused = false;
	InterruptHoldoffCount = holdoff;
	QueryCancelHoldoffCount = cancel_holdoff;
	return ok;
}

/*
 * A value through its type's output function.  Returns false if that failed or could not
 * be called; the value is then recorded as one that is not available.
 */
STENO_COLD static bool
output_text(Oid type, Datum value, StenoParam *p)
{
	Making		m = {.output = find_output(type), .value = value};
	Output	   *o = m.output;
	bool		possible = can_begin_subtransaction();
	bool		guard;

	/*
	 * The lookup reads catalogs, which needs a subtransaction to be safe.  Where none can
	 * begin, only built-in types are looked up.
	 */
	if (!o->valid)
		guard = possible || type >= FirstNormalObjectId;
	else
		guard = o->reach > REACH_MEMORY ||
			(o->varlena && VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)));
	if (guard ? !possible || !make_guarded(&m) : !make_plainly(&m))
		return false;
	p->data = (uint8 *) m.text;
	p->len = strlen(m.text);
	p->prefixed = true;
	return !(o->varlena && too_long(p->len));
}

/*
 * The bytes of a value that is compressed or stored out of line; NULL if they are not
 * available.  Decompression needs only memory, but reading a TOAST table takes locks and
 * can encounter corrupted data.
 */
STENO_COLD static struct varlena *
detoast(struct varlena *v)
{
	Making		m = {.value = PointerGetDatum(v)};

	if (!VARATT_IS_EXTERNAL_ONDISK(v))
		return make_plainly(&m) ? m.bytes : NULL;
	return can_begin_subtransaction() && make_guarded(&m) ? m.bytes : NULL;
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
		if (failing || (v = detoast(v)) == NULL)
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
			ok = !failing && output_text(type, value, p);
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
