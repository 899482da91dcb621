/*
 * extension/sql/status.c
 *		steno.status(), and the columns of steno.writers that show the health of a writer.
 *
 * Both read the control area alone, without a lock but that of the text: what writers
 * change meanwhile may be seen in part.
 */
#include "base/steno.h"

#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "delivery/refusal.h"
#include "sql/status.h"

PG_FUNCTION_INFO_V1(steno_sql_status);

/* The states of a writer, the worst last. */
typedef enum WriterState
{
	WRITER_OK,
	WRITER_IMPAIRED,
	WRITER_NOT_ROTATING,
	WRITER_NOT_RUNNING,
	WRITER_FAILING
} WriterState;

static const char *const state_names[] = {"ok", "impaired", "not rotating", "not running", "failing"};

/* text: STENO_FAILURE_TEXT bytes, what is the matter. */
static WriterState
writer_state(int number, char *text)
{
	StenoWriterControl *control = &steno_control->writers[number];
	int			i;

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
int
steno_health_columns(int number, Datum *values, bool *nulls, int n)
{
	StenoWriterControl *control = &steno_control->writers[number];
	StenoHealth *t = &control->health;
	char		text[STENO_FAILURE_TEXT];
	WriterState state = writer_state(number, text);
	uint32		disk_free = atomic_load(&t->disk_free);
	int64		since = atomic_load(state == WRITER_NOT_RUNNING ? &control->gone_since : &t->since);

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

/*
 * A function that returns rows begins.  The database's declaration of it must be that of
 * this library: values are passed by position, and one of another type in its place would
 * be taken for a pointer.
 */
void
steno_begin_rows(FunctionCallInfo fcinfo, int columns)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	steno_require_active();
	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != columns)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("function \"%s\" was not created by this version of extension \"pg_steno\"",
						get_func_name(fcinfo->flinfo->fn_oid)),
				 errhint("Use DROP EXTENSION and CREATE EXTENSION in this database.")));
}

/* One row: the first of the writers that are worst off, and the sums of all. */
Datum
steno_sql_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char		worst[STENO_FAILURE_TEXT] = "";
	WriterState state = WRITER_OK;
	uint32		disk_free = 0;
	uint64		refused = 0;
	uint64		dropped = 0;
	Datum		values[8];
	bool		nulls[8] = {0};
	int			n = 0;
	uint32		i;

	steno_begin_rows(fcinfo, lengthof(values));
	for (i = 0; i < steno_rings.nwriters; i++)
	{
		StenoHealth *t = &steno_control->writers[i].health;
		char		text[STENO_FAILURE_TEXT];
		WriterState its = writer_state(i, text);

		refused += atomic_load(&t->refused);
		if (disk_free == 0)
			disk_free = atomic_load(&t->disk_free);
		if (its > state)
		{
			state = its;
			memcpy(worst, text, sizeof(worst));
		}
	}
	for (i = 0; i < steno_rings.nrings; i++)
		dropped += atomic_load(&steno_ring_at(&steno_rings, i)->drops);
	values[n++] = CStringGetTextDatum(state_names[state]);
	nulls[n] = worst[0] == '\0';
	values[n++] = CStringGetTextDatum(worst);
	values[n++] = Int64GetDatum(refused);
	values[n++] = Int64GetDatum(dropped);
	values[n++] = Int64GetDatum(atomic_load(&steno_control->lost));
	nulls[n] = disk_free == 0;
	values[n++] = Float8GetDatum((disk_free - 1.0) / 100);
	values[n++] = CStringGetTextDatum(steno_directory);
	values[n++] = CStringGetTextDatum(steno_ring_path);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return (Datum) 0;
}
