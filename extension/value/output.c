/*
 * extension/value/output.c
 *		Values through the output functions of their types, and values that are toasted.
 *
 * An output function may be user-defined: it may fail, read tables, wait for locks, or
 * be cancelled, and none of this may affect the statement.  So a value is taken in one of
 * two ways:
 *
 *		make_plainly			code that leaves only memory behind when it fails: its
 *								error is caught, no subtransaction is needed
 *		make_guarded			any other code, in a subtransaction
 *
 * Output functions run with the defaults of the settings that they follow
 * (value/defaults.h), not with those of the session.
 */
#include "base/steno.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/fmgroids.h"
#include "utils/fmgrtab.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rangetypes.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timeout.h"

#include "error/origin.h"
#include "value/defaults.h"
#include "value/output.h"

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

/* ---- code that can fail ---- */

/* A value whose text or bytes are produced by code that can fail. */
typedef struct Making
{
	StenoDefaults session;		/* its settings, while the function runs */
	Output	   *output;			/* the function that makes the text; NULL: detoast */
	Datum		value;
	char	   *text;
	struct varlena *bytes;
} Making;

/* The subtransaction whose start callbacks are running; invalid if there is none. */
static SubTransactionId starting = InvalidSubTransactionId;

/*
 * A subtransaction is about to begin; InvalidSubTransactionId: it has begun.  In between,
 * the server cannot begin another one, so no value can be made in one.
 */
void
steno_output_starting(SubTransactionId subid)
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

	steno_resume_recording();
	MemoryContextSwitchTo(context);
	edata = CopyErrorData();
	steno_forget_error();
	steno_pause_recording();
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
	if (edata->sqlerrcode == ERRCODE_QUERY_CANCELED && steno_error_interrupts(edata))
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
	steno_pause_recording();
	if (m->output)
		steno_defaults_begin(&m->session, false);
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
		ErrorData  *edata;

		if (m->output)
			steno_defaults_end(&m->session);
		edata = take_error(context);
		if (m->output)
			m->output->valid = false;
		swallow_error(edata, false);
	}
	PG_END_TRY();
	if (m->output)
		steno_defaults_end(&m->session);
	steno_resume_recording();
	/* also undoes HOLD_INTERRUPTS(); an error has reset both counters */
	InterruptHoldoffCount = holdoff;
	QueryCancelHoldoffCount = cancel_holdoff;
	return ok;
}

/*
 * The code may read tables, and a utility statement, or the end of a portal, may have no snapshot.  That of
 * the transaction is not taken: SET TRANSACTION must come before it.
 */
static bool
push_snapshot(void)
{
	if (ActiveSnapshotSet())
		return false;
	PushActiveSnapshot(GetCatalogSnapshot(RelationRelationId));
	return true;
}

/* Roll back the subtransaction of the code.  Should that fail, what the session does from then on is recorded. */
static void
roll_back(void)
{
	PG_TRY();
	{
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		steno_resume_recording();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* More than the beginning of a subtransaction takes, so that it finds what is given back here. */
#define SUBTRANSACTION_MEMORY (64 * 1024)

/*
 * Whether there is memory to begin a subtransaction.  An error while one begins leaves it in a state (SUBBEGIN) in
 * which a function that catches the error cannot go on: the server ends the session then.
 */
static bool
has_memory(void)
{
	void	   *room = MemoryContextAllocExtended(CurrentMemoryContext, SUBTRANSACTION_MEMORY, MCXT_ALLOC_NO_OOM);

	if (room == NULL)
		return false;
	pfree(room);
	return true;
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
	bool		pushed;

	if (!has_memory())
		return false;
	steno_my.scratch_used = true;
	steno_pause_recording();
	if (m->output)
		steno_defaults_begin(&m->session, !m->output->valid || m->output->reach > REACH_MEMORY);
	PG_TRY();
	{
		BeginInternalSubTransaction(NULL);
		begun = true;
		MemoryContextSwitchTo(context);
		pushed = push_snapshot();
		if (m->output && !m->output->valid)
			look_up_output(m->output);
		make(m);
		if (pushed)
			PopActiveSnapshot();
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

		if (m->output)
			steno_defaults_end(&m->session);
		if (!begun)
		{
			steno_resume_recording();
			PG_RE_THROW();
		}
		edata = take_error(context);
		roll_back();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (m->output)
			m->output->valid = false;
		swallow_error(edata, had_timeout);
	}
	PG_END_TRY();
	if (m->output)
		steno_defaults_end(&m->session);
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	steno_resume_recording();
	InterruptHoldoffCount = holdoff;
	QueryCancelHoldoffCount = cancel_holdoff;
	return ok;
}

/*
 * A value through its type's output function; NULL if that failed or could not be called.
 * *varlena: values of the type have variable length.
 */
STENO_COLD char *
steno_output_text(Oid type, Datum value, bool *varlena)
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
		return NULL;
	*varlena = o->varlena;
	return m.text;
}

/*
 * The bytes of a value that is compressed or stored out of line; NULL if they are not
 * available.  Decompression needs only memory, but reading a TOAST table takes locks and
 * can encounter corrupted data.
 */
STENO_COLD struct varlena *
steno_output_detoast(struct varlena *v)
{
	Making		m = {.value = PointerGetDatum(v)};

	if (!VARATT_IS_EXTERNAL_ONDISK(v))
		return make_plainly(&m) ? m.bytes : NULL;
	return can_begin_subtransaction() && make_guarded(&m) ? m.bytes : NULL;
}
