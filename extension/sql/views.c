/*
 * extension/sql/views.c
 *		The SQL functions, and those behind the views.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"

#include "policy/start_mask.h"
#include "delivery/record.h"
#include "filter/rules.h"
#include "policy/rules.h"
#include "policy/secret.h"
#include "session/session.h"
#include "delivery/wait.h"
#include "sql/status.h"

/* Nobody waits longer for the answer of a writer that is not running. */
#define GONE_SECONDS 10

PG_FUNCTION_INFO_V1(steno_sql_writers);
PG_FUNCTION_INFO_V1(steno_sql_rings);
PG_FUNCTION_INFO_V1(steno_sql_rules);
PG_FUNCTION_INFO_V1(steno_sql_flush);
PG_FUNCTION_INFO_V1(steno_sql_rotate);
PG_FUNCTION_INFO_V1(steno_sql_note);
PG_FUNCTION_INFO_V1(steno_sql_version);

static Datum
timestamp_or_null(int64 t, bool *isnull)
{
	*isnull = t == 0;
	return TimestampTzGetDatum(t);
}

/* A row for each writer. */
Datum
steno_sql_writers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		i;

	steno_begin_rows(fcinfo, 22);
	for (i = 0; i < steno_rings.nwriters; i++)
	{
		StenoWriterControl *w = &steno_control->writers[i];
		Datum		values[22];
		bool		nulls[22] = {0};
		uint64		lag = 0;
		uint32		r;
		int			n = 0;
		uint32		pid = atomic_load(&w->pid);
		uint64		segment;

		for (r = i; r < steno_rings.nrings; r += steno_rings.nwriters)
		{
			StenoRing  *ring = steno_ring_at(&steno_rings, r);
			uint64		tail = atomic_load(&ring->tail);

			lag += atomic_load(&ring->head) - tail;
		}
		values[n++] = Int32GetDatum(i);
		nulls[n] = pid == 0;
		values[n++] = Int32GetDatum(pid);
		values[n++] = Int64GetDatum(atomic_load(&w->records));
		values[n++] = Int64GetDatum(atomic_load(&w->blocks));
		values[n++] = Int64GetDatum(atomic_load(&w->raw_bytes));
		values[n++] = Int64GetDatum(atomic_load(&w->stored_bytes));
		/* the writer sets stream before segment, so a segment has its stream */
		segment = atomic_load(&w->segment);
		nulls[n] = segment == 0;
		values[n++] = Int32GetDatum(atomic_load(&w->stream));
		values[n++] = Int64GetDatum(segment);
		values[n++] = Int64GetDatum(lag);
		values[n++] = Int64GetDatum(atomic_load(&w->passes));
		values[n++] = Int64GetDatum(atomic_load(&w->syncs));
		values[n++] = Int64GetDatum(atomic_load(&w->errors));
		values[n++] = Int64GetDatum(atomic_load(&w->wake.waits));
		values[n++] = Int64GetDatum(atomic_load(&w->wake.wakes));
		values[n++] = Int64GetDatum(atomic_load(&w->wake.woken));
		values[n] = timestamp_or_null(atomic_load(&w->last_write), &nulls[n]);
		n++;
		values[n] = timestamp_or_null(atomic_load(&w->last_sync), &nulls[n]);
		n++;
		n = steno_health_columns(i, values, nulls, n);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* A row for each ring that a process has or that holds records. */
Datum
steno_sql_rings(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		i;

	steno_begin_rows(fcinfo, 11);
	for (i = 0; i < steno_rings.nrings; i++)
	{
		StenoRing  *ring = steno_ring_at(&steno_rings, i);
		uint32		owner = atomic_load(&ring->owner);
		uint64		tail = atomic_load(&ring->tail);
		uint64		head = atomic_load(&ring->head);
		Datum		values[11];
		bool		nulls[11] = {0};
		int			n = 0;

		if (owner == 0 && head == 0)
			continue;
		values[n++] = Int32GetDatum(i);
		values[n++] = Int32GetDatum(i % steno_rings.nwriters);
		nulls[n] = owner == 0;
		values[n++] = Int32GetDatum(owner);
		values[n++] = Int64GetDatum(atomic_load(&ring->records));
		values[n++] = Int64GetDatum(head);
		values[n++] = Int64GetDatum(head - tail);
		values[n++] = Int64GetDatum(steno_rings.size);
		values[n++] = Float8GetDatum((double) (head - tail) / steno_rings.size);
		values[n++] = Int64GetDatum(atomic_load(&ring->waits));
		values[n++] = Float8GetDatum(atomic_load(&ring->wait_us) / 1000.0);
		values[n++] = Int64GetDatum(atomic_load(&ring->drops));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* The values of a rule's column, as they are written. */
static Datum
rule_list(const StenoRuleList *list)
{
	Datum	   *items = palloc(Max(list->count, 1) * sizeof(Datum));
	uint32		i;

	for (i = 0; i < list->count; i++)
		items[i] = CStringGetTextDatum(list->items[i].raw);
	return PointerGetDatum(construct_array(items, list->count, TEXTOID, -1, false, TYPALIGN_INT));
}

#define RULE_COLUMNS 12

static void
put_rule(ReturnSetInfo *rsinfo, const StenoRule *rule, int number)
{
	Datum		values[RULE_COLUMNS];
	bool		nulls[RULE_COLUMNS] = {0};
	int			n = 0;
	int			i;

	values[n++] = Int32GetDatum(number);
	values[n++] = CStringGetTextDatum(rule->file);
	values[n++] = Int32GetDatum(rule->line);
	values[n++] = CStringGetTextDatum(steno_rule_action(rule->action));
	for (i = 0; i < STENO_RULE_COLUMNS; i++)
		values[n++] = rule_list(&rule->columns[i]);
	nulls[n] = rule->options == NULL;
	values[n] = rule->options ? CStringGetTextDatum(rule->options) : (Datum) 0;
	nulls[n + 1] = true;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
put_rule_error(ReturnSetInfo *rsinfo, const StenoRuleError *e)
{
	Datum		values[RULE_COLUMNS];
	bool		nulls[RULE_COLUMNS];

	memset(nulls, true, sizeof(nulls));
	nulls[1] = nulls[2] = nulls[RULE_COLUMNS - 1] = false;
	values[1] = CStringGetTextDatum(e->file);
	values[2] = Int32GetDatum(e->line);
	values[RULE_COLUMNS - 1] = CStringGetTextDatum(e->message);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* A row for each rule and error of the rules file, as it is now. */
Datum
steno_sql_rules(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StenoRules *rules;

	steno_begin_rows(fcinfo, 12);
	rules = steno_rules_now();
	if (rules == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	PG_TRY();
	{
		uint32		e = 0;
		uint32		i;

		for (i = 0; i <= rules->count; i++)
		{
			for (; e < rules->error_count && rules->errors[e].before <= i; e++)
				put_rule_error(rsinfo, &rules->errors[e]);
			if (i < rules->count)
				put_rule(rsinfo, &rules->rules[i], i + 1);
		}
	}
	PG_FINALLY();
	{
		steno_rules_free(rules);
	}
	PG_END_TRY();
	return (Datum) 0;
}

/* A writer that is started again has an answer; one that cannot be started has none. */
static void
check_writer(uint32 i)
{
	int64		since = atomic_load(&steno_control->writers[i].gone_since);
	TimestampTz now = GetCurrentTimestamp();

	if (since == 0 || (now >= since && now - since < GONE_SECONDS * USECS_PER_SEC))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("steno writer %u is not running", i),
			 errhint("The server's log says why.")));
}

/*
 * Ask all writers for something, and wait until all have done it.  requested
 * and done are offsets in StenoWriterControl.
 */
static void
ask_writers(size_t requested, size_t done)
{
	uint64		tickets[STENO_MAX_WRITERS];
	uint32		n = steno_rings.nwriters;
	uint32		i;

#define FIELD(i, offset) ((_Atomic uint64_t *) ((char *) &steno_control->writers[i] + (offset)))
	for (i = 0; i < n; i++)
	{
		tickets[i] = atomic_fetch_add(FIELD(i, requested), 1) + 1;
		steno_writer_wake(&steno_control->writers[i]);
	}
	ConditionVariablePrepareToSleep(&steno_control->answered);
	for (i = 0; i < n; i++)
		while (atomic_load(FIELD(i, done)) < tickets[i])
			if (ConditionVariableTimedSleep(&steno_control->answered, 1000,
											steno_wait_events[STENO_WAIT_ANSWER]))
				check_writer(i);
	ConditionVariableCancelSleep();
#undef FIELD
}

/* All that was recorded before is on disk when this returns. */
Datum
steno_sql_flush(PG_FUNCTION_ARGS)
{
	steno_require_active();
	ask_writers(offsetof(StenoWriterControl, flush_requested),
				offsetof(StenoWriterControl, flush_done));
	PG_RETURN_VOID();
}

/* Every stream has begun a new segment when this returns, unless its segment was empty. */
Datum
steno_sql_rotate(PG_FUNCTION_ARGS)
{
	steno_require_active();
	ask_writers(offsetof(StenoWriterControl, rotate_requested),
				offsetof(StenoWriterControl, rotate_done));
	PG_RETURN_VOID();
}

/* A record with the caller's text. */
Datum
steno_sql_note(PG_FUNCTION_ARGS)
{
	text	   *note = PG_GETARG_TEXT_PP(0);
	StenoRecord record;

	steno_require_active();
	if (!steno_session_ready())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this process has no ring to record a note in")));
	steno_session_check(InvalidOid);
	steno_record_init(&record, STENO_KIND_NOTE);
	record.time = GetCurrentTimestamp();
	record.text = VARDATA_ANY(note);
	record.text_len = VARSIZE_ANY_EXHDR(note);
	record.xid = GetTopTransactionIdIfAny();
	steno_secret_hide(&record);
	steno_record_put(&record, false);
	steno_raise_cancelled();
	PG_RETURN_VOID();
}

/* After an upgrade of the files, the running server still has the library that it was started with. */
Datum
steno_sql_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(STENO_VERSION));
}
