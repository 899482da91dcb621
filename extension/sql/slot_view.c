/*
 * extension/sql/slot_view.c
 *		The function behind the view of slots.
 */
#include "base/steno.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "retention/retention.h"
#include "sql/status.h"

PG_FUNCTION_INFO_V1(steno_sql_slots);

#define COLUMNS 7

static void
put_row(ReturnSetInfo *rsinfo, const StenoSlot *slot, const char *state, uint32 stream,
		const StenoKeptStream *kept)
{
	uint64		wants = steno_slot_wants(slot, stream);
	Datum		values[COLUMNS] = {0};
	bool		nulls[COLUMNS] = {0};
	uint64		block = 1;
	uint64		segments = 0;
	uint32		i;

	values[0] = CStringGetTextDatum(slot->name);
	values[1] = CStringGetTextDatum(state);
	memset(&nulls[2], kept == NULL, COLUMNS - 2);
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

	steno_begin_rows(fcinfo, 7);
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
