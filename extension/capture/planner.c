/*
 * extension/capture/planner.c
 *		Queries that the planner cannot plan: a function or operator fails that it
 *		evaluates in advance, a function's body is not what it should be.
 *
 * Such a query never gets to the executor's hooks, but its statement and its
 * parameters are known here.
 */
#include "base/steno.h"

#include "optimizer/planner.h"
#include "tcop/tcopprot.h"

#include "capture/statement.h"

static planner_hook_type previous_planner;

/* How many queries are being planned: a function that the planner calls plans, too. */
static int	planning;

static PlannedStmt *
call_planner(Query *query, const char *source, int options, ParamListInfo params)
{
	if (previous_planner)
		return previous_planner(query, source, options, params);
	return standard_planner(query, source, options, params);
}

/*
 * Whether a query that no statement runs is the client's own.  If not, it is that of
 * a trigger which a commit runs.
 */
static bool
is_of_client(const char *source)
{
	return steno_my.client ? source == debug_query_string : !steno_my.worker;
}

static PlannedStmt *
plan_query(Query *query, const char *source, int options, ParamListInfo params)
{
	const StenoLevel *outer = steno_my.level;
	int			before = planning;
	bool		of_client;
	uint64		start;
	PlannedStmt *result = NULL;

	/* the query of a utility statement, such as COPY, is part of that */
	if (!steno_recording() ||
		(outer && outer->utility && outer->utility->source == source && !outer->forces))
		return call_planner(query, source, options, params);

	steno_refusal_check(NULL);
	start = steno_clock_ticks(&steno_my.clock);
	of_client = outer == NULL && before == 0 && steno_my.client && is_of_client(source);
	planning = before + 1;
	/* what runs meanwhile, runs for a statement whose number is the next one */
	steno_my.planning |= of_client;
	PG_TRY();
	{
		result = call_planner(query, source, options, params);
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

		planning = before;
		if (of_client)
			steno_my.planning = false;
		steno_record_unplanned(&unplanned);
		PG_RE_THROW();
	}
	PG_END_TRY();
	planning = before;
	if (of_client)
		steno_my.planning = false;
	return result;
}

void
steno_planner_install(void)
{
	previous_planner = planner_hook;
	planner_hook = plan_query;
}
