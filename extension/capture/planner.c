/*
 * extension/capture/planner.c
 *		Queries that fail in the planner: a function or operator that it evaluates
 *		in advance raises an error, or the body of a function is invalid.
 *
 * Such a query never reaches the executor's hooks, but its statement and parameters
 * are known here.
 */
#include "base/steno.h"

#include "optimizer/planner.h"
#include "tcop/tcopprot.h"

#include "base/compat.h"
#include "capture/hooks.h"
#include "capture/statement_record.h"
#include "delivery/refusal.h"

/* PG_TRY uses these two; see StenoPrivate. */
#define PG_exception_stack (*steno_private.exception_stack)
#define error_context_stack (*steno_private.error_context)

static PlannedStmt *
call_planner(STENO_PLAN_ARGS)
{
	return steno_private.previous_planner(STENO_PLAN_PASS);
}

/* Cache lines that the record of a usual query takes. */
#define PLANNED_LINES 2

/* Those of a template. */
#define TEMPLATE_LINES 3

/*
 * The record of a query goes there at its start, and is compared with the template: until then, the lines
 * come while the server plans.
 */
static inline void
prefetch_record(void)
{
	const StenoTemplate *t = &steno_my.producer.templates[steno_my.template];
	int			i;

	steno_ring_prefetch(&steno_my.producer, PLANNED_LINES);
	if (steno_my.template != 0)
		for (i = 0; i < TEMPLATE_LINES; i++)
			__builtin_prefetch((const uint8 *) t + i * STENO_CACHE_LINE);
}

/*
 * Whether a query outside of any statement is the client's own.  If not, it belongs
 * to a trigger that runs at commit.
 */
static bool
is_of_client(const char *source)
{
	return steno_my.client ? source == *steno_private.client_query : !steno_my.worker;
}

STENO_HOT static PlannedStmt *
plan_query(STENO_PLAN_ARGS)
{
	const StenoLevel *outer = steno_my.level;
	int			before = steno_private.planning;
	bool		of_client;
	uint64		start;
	PlannedStmt *result = NULL;

	steno_prefetch_state();
	/* the query of a utility statement, such as COPY, is part of that statement */
	if (!steno_recording() ||
		(outer && outer->utility && outer->utility->source == source && !outer->forces))
		return call_planner(STENO_PLAN_PASS);

	steno_refusal_check(NULL);
	prefetch_record();
	start = steno_clock_ticks(&steno_my.clock);
	of_client = outer == NULL && before == 0 && steno_my.client && is_of_client(source);
	steno_private.planning = before + 1;
	/* what the planner runs belongs to the statement that will get the next number */
	steno_my.planning |= of_client;
	PG_TRY();
	{
		result = call_planner(STENO_PLAN_PASS);
	}
	PG_CATCH();
	{
		StenoUnplanned unplanned = {
			.source = source,
			.location = query->stmt_location,
			.length = query->stmt_len,
			.class = steno_query_class(query->commandType, query->hasModifyingCTE),
			.command = steno_query_command(query->commandType),
			.params = params,
			.depth = outer ? outer->inside : before > 0 || !is_of_client(source) ? steno_my.outside : 0,
			.forced = outer && outer->forces,
			.start = start,
		};

		steno_private.planning = before;
		if (of_client)
			steno_my.planning = false;
		steno_record_unplanned(&unplanned);
		PG_RE_THROW();
	}
	PG_END_TRY();
	steno_private.planning = before;
	if (of_client)
		steno_my.planning = false;
	return result;
}

void
steno_planner_install(void)
{
	steno_private.previous_planner = planner_hook ? planner_hook : standard_planner;
	planner_hook = plan_query;
}
