/*
 * extension/sql/views.c
 *		The functions behind the views, and the other SQL functions.
 *
 * Views read the control area and the rings without a lock, except for the texts of problems.  So a row
 * may have some values from before a change and some from after it.
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

#include "delivery/record.h"
#include "delivery/refusal.h"
#include "delivery/wait.h"
#include "filter/rules.h"
#include "policy/policy.h"
#include "policy/rules.h"
#include "policy/secret.h"
#include "retention/retention.h"
#include "session/session.h"
#include "sql/show.h"

/* How long to wait for the answer of a writer that is not running. */
#define GONE_SECONDS 10

PG_FUNCTION_INFO_V1(steno_sql_status);
PG_FUNCTION_INFO_V1(steno_sql_slots);
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

/* ---- steno.status(), steno.writers ---- */

/* The states of a writer, the worst last. */
typedef enum WriterState
{
	WRITER_OK,
	WRITER_IMPAIRED,
	WRITER_NOT_ROTATING,
	WRITER_NOT_RUNNING,
	WRITER_STALLED,
	WRITER_FAILING
} WriterState;

static const char *const state_names[] = {"ok", "impaired", "not rotating", "not running", "stalled", "failing"};

/* text: STENO_FAILURE_TEXT bytes, what is the matter. */
static WriterState
writer_state(int number, char *text)
{
	StenoWriterControl *control = &steno_control->writers[number];
	int			i;

	if (steno_is_stalled(control, GetCurrentTimestamp()))
	{
		snprintf(text, STENO_FAILURE_TEXT, "writer %d has done nothing since %s", number,
				 timestamptz_to_str(atomic_load(&control->beat_time)));
		return WRITER_STALLED;
	}
	steno_health_text(&control->health, text);
	if (atomic_load(&control->health.failing) != 0)
		return WRITER_FAILING;
	if (!steno_writer_runs(control))
	{
		snprintf(text, STENO_FAILURE_TEXT, "writer %d is not running", number);
		return WRITER_NOT_RUNNING;
	}
	if (text[0] != '\0')
		return WRITER_NOT_ROTATING;
	for (i = 0; i < STENO_PROBLEMS; i++)
		if (atomic_load(&control->health.problems) & (1u << i))
		{
			strlcpy(text, steno_problem_texts[i], STENO_FAILURE_TEXT);
			/* without the key, a writer that starts has no segment, and writes nothing */
			return i == STENO_PROBLEM_ENCRYPTION && atomic_load(&control->segment) == 0 ?
				WRITER_FAILING : WRITER_IMPAIRED;
		}
	return WRITER_OK;
}

/* The columns of the health of a writer; returns the number of the next one. */
static int
put_health_columns(int number, Datum *values, bool *nulls, int n)
{
	StenoWriterControl *control = &steno_control->writers[number];
	StenoHealth *t = &control->health;
	char		text[STENO_FAILURE_TEXT];
	WriterState state = writer_state(number, text);
	uint32		disk_free = atomic_load(&t->disk_free);
	int64		since = atomic_load(state == WRITER_NOT_RUNNING ? &control->gone_since :
									state == WRITER_STALLED ? &control->beat_time : &t->since);

	values[n++] = CStringGetTextDatum(state_names[state]);
	nulls[n] = since == 0;
	values[n++] = TimestampTzGetDatum(since);
	nulls[n] = text[0] == '\0';
	values[n++] = CStringGetTextDatum(text);
	values[n++] = Int64GetDatum(atomic_load(&t->refused));
	nulls[n] = disk_free == 0;
	values[n++] = Float8GetDatum((disk_free - 1.0) / 100);
	return n;
}

/* One row: the state of the first writer with the worst state, and the sums over all writers. */
Datum
steno_sql_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char		worst[STENO_FAILURE_TEXT] = "";
	WriterState state = WRITER_OK;
	uint32		disk_free = 0;
	StenoLosses losses;
	Datum		values[8];
	bool		nulls[8] = {0};
	int			n = 0;
	uint32		i;

	steno_rows_begin(fcinfo, lengthof(values), NULL);
	for (i = 0; i < steno_rings.nwriters; i++)
	{
		StenoHealth *t = &steno_control->writers[i].health;
		char		text[STENO_FAILURE_TEXT];
		WriterState its = writer_state(i, text);

		if (disk_free == 0)
			disk_free = atomic_load(&t->disk_free);
		if (its > state)
		{
			state = its;
			memcpy(worst, text, sizeof(worst));
		}
	}
	steno_losses(&losses);
	values[n++] = CStringGetTextDatum(state_names[state]);
	nulls[n] = worst[0] == '\0';
	values[n++] = CStringGetTextDatum(worst);
	values[n++] = Int64GetDatum(losses.refused);
	values[n++] = Int64GetDatum(losses.dropped);
	values[n++] = Int64GetDatum(losses.lost);
	nulls[n] = disk_free == 0;
	values[n++] = Float8GetDatum((disk_free - 1.0) / 100);
	values[n++] = CStringGetTextDatum(steno_directory);
	values[n++] = CStringGetTextDatum(steno_ring_path);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return (Datum) 0;
}

/* A row for each writer. */
Datum
steno_sql_writers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		i;

	steno_rows_begin(fcinfo, 22, NULL);
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
		n = put_health_columns(i, values, nulls, n);
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

	steno_rows_begin(fcinfo, 11, NULL);
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

	steno_rows_begin(fcinfo, 12, NULL);
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

/* ---- steno.slots ---- */

#define SLOT_COLUMNS 7

static void
put_row(ReturnSetInfo *rsinfo, const StenoSlot *slot, const char *state, uint32 stream,
		const StenoKeptStream *kept)
{
	uint64		wants = steno_slot_wants(slot, stream);
	Datum		values[SLOT_COLUMNS] = {0};
	bool		nulls[SLOT_COLUMNS] = {0};
	uint64		block = 1;
	uint64		segments = 0;
	uint32		i;

	values[0] = CStringGetTextDatum(slot->name);
	values[1] = CStringGetTextDatum(state);
	memset(&nulls[2], kept == NULL, SLOT_COLUMNS - 2);
	if (kept != NULL)
	{
		for (i = 0; i < slot->count; i++)
			if (slot->positions[i].stream == stream)
				block = slot->positions[i].block;
		for (i = 0; i < kept->count; i++)
			segments += kept->segments[i].segment >= wants;
		values[2] = Int32GetDatum((int32) stream);
		values[3] = Int64GetDatum((int64) wants);
		values[4] = Int64GetDatum((int64) block);
		values[5] = Int64GetDatum((int64) segments);
		values[6] = Int64GetDatum((int64) steno_kept_bytes(kept, wants));
	}
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
put_slot(ReturnSetInfo *rsinfo, const StenoSlot *slot, const StenoKeptTrail *kept)
{
	static const StenoDeleted nothing[STENO_RETENTION_STREAMS];
	const char *state = "active";
	uint32		i;

	if (!slot->readable)
	{
		put_row(rsinfo, slot, "unreadable", 0, NULL);
		return;
	}
	if (steno_slot_is_lost(slot, kept, nothing))
		state = "lost";
	for (i = 0; i < STENO_RETENTION_STREAMS; i++)
		if (kept->streams[i].exists)
			put_row(rsinfo, slot, state, i, &kept->streams[i]);
}

/* A row for each slot and stream; one for a slot that cannot be read. */
Datum
steno_sql_slots(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StenoKeptTrail kept;
	StenoSlots	slots = {0};
	StenoError	error = {0};

	steno_rows_begin(fcinfo, SLOT_COLUMNS, NULL);
	/* the trail first: a slot that moves on meanwhile must not look lost */
	if (!steno_kept_list(steno_directory, NULL, &kept, &error) ||
		!steno_slots_read(steno_directory, &slots, &error))
	{
		steno_kept_free(&kept);
		steno_slots_free(&slots);
		errno = error.error;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read the slots of the trail: %s \"%s\": %m",
						error.what, error.path)));
	}
	PG_TRY();
	{
		uint32		i;

		for (i = 0; i < slots.count; i++)
			put_slot(rsinfo, &slots.list[i], &kept);
	}
	PG_FINALLY();
	{
		steno_kept_free(&kept);
		steno_slots_free(&slots);
	}
	PG_END_TRY();
	return (Datum) 0;
}

/* ---- functions ---- */

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
	{
		StenoPatience patience = {0};

		while (atomic_load(FIELD(i, done)) < tickets[i])
		{
			steno_patience_check(&patience, &steno_control->writers[i], "the answer of a writer");
			if (ConditionVariableTimedSleep(&steno_control->answered, 1000,
											steno_wait_events[STENO_WAIT_ANSWER]))
				check_writer(i);
		}
		steno_patience_end(&patience, &steno_control->writers[i]);
	}
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
	record.xid = steno_current_xid();
	steno_secret_hide_note(&record);
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
