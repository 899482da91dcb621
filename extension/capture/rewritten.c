/*
 * extension/capture/rewritten.c
 *		Statements that rules (CREATE RULE) have rewritten to several queries.
 *
 * A client's portal runs these queries one after the other.  One of them is the
 * statement itself: the one whose command tag and rows the server reports to the
 * client, or the first one if there is none.  It has the statement's record.  The
 * others, which rules have added, are nested in it, with its number.  They are
 * recorded even if steno.log_nested is off, because no other record has the
 * relations that they touch.
 *
 * Queries of rules can run before the statement's own one.  The statement then
 * begins with the first of them, so that they have its number, and its record is
 * made here if one of them fails.  If some run after it, its record waits for the
 * last one (steno_top_level.more_queries).
 */
#include "base/steno.h"

#include "access/xact.h"

#include "base/compat.h"
#include "capture/hooks.h"
#include "capture/statement_record.h"

/*
 * The statement that has begun with a query of a rule, and has not run its own
 * query yet.  own and params belong to the portal, and are used only while it runs:
 * steno_rewritten_failed is called when an error is reported, before the portal is
 * freed, and steno_rewritten_forget, at an abort, uses neither.  The statement's
 * objects are passed on to its query when that begins, or released by either of
 * these functions.
 */
static struct
{
	bool		begun;
	const PlannedStmt *own;
	ParamListInfo params;
	StenoStatement s;
}			waiting;

/* The query that is the statement itself. */
static PlannedStmt *
own_query(const List *queries)
{
	ListCell   *lc;

	foreach(lc, queries)
		if (lfirst_node(PlannedStmt, lc)->canSetTag)
			return lfirst_node(PlannedStmt, lc);
	return linitial_node(PlannedStmt, queries);
}

/* Whether a rule has added this query of the portal that runs. */
bool
steno_rewritten_added(const PlannedStmt *plan)
{
	return plan != own_query(ActivePortal->stmts);
}

static void
begin_waiting(const PlannedStmt *own)
{
	waiting.own = own;
	waiting.params = ActivePortal->portalParams;
	if (own->commandType == CMD_UTILITY)
		return;					/* it is only NOTIFY, which has its own record */
	steno_begin(&waiting.s, ActivePortal->sourceText, own->stmt_location, own->stmt_len,
				steno_query_class(own->commandType, own->hasModifyingCTE), 0, false);
	waiting.begun = true;
}

/* A query that a rule has added begins. */
void
steno_rewritten_begin(const PlannedStmt *plan)
{
	const List *queries = ActivePortal->stmts;
	const PlannedStmt *own = own_query(queries);
	ListCell   *lc;

	if (waiting.begun && waiting.own == own)
		return;
	foreach(lc, queries)
	{
		if (lfirst(lc) == own)
			return;				/* the statement's own query has run */
		if (lfirst(lc) == plan)
			break;
	}
	if (steno_my.open_count > 0)
		steno_open_begin();
	begin_waiting(own);
}

/* The statement's own query begins; true if the statement has begun before it. */
bool
steno_rewritten_own(const PlannedStmt *plan, StenoStatement *s)
{
	steno_top_level.more_queries = llast(ActivePortal->stmts) != plan;
	if (!waiting.begun || waiting.own != plan)
		return false;
	waiting.begun = false;
	waiting.s.query = s->query;
	waiting.s.portal = s->portal;
	waiting.s.subid = s->subid;
	waiting.s.plan_cached = s->plan_cached;
	*s = waiting.s;
	return true;
}

/* A query that a rule has added has ended. */
void
steno_rewritten_ended(const PlannedStmt *plan)
{
	if (!steno_top_level.more_queries || ActivePortal == NULL || llast(ActivePortal->stmts) != plan)
		return;
	steno_top_level.more_queries = false;
	if (IsTransactionBlock() && steno_my.open_count > 0)
		steno_open_finish_committed();
}

/* Whether a statement has begun with a query of a rule, and has not run its own query yet. */
bool
steno_rewritten_waits(void)
{
	return waiting.begun;
}

/* The statement has failed, or the transaction has ended. */
void
steno_rewritten_forget(void)
{
	steno_top_level.more_queries = false;
	if (waiting.begun && waiting.s.objects)
		steno_objects_release(&waiting.s.objects);
	waiting.begun = false;
}

/* An error is reported: the statement has failed before its own query began. */
void
steno_rewritten_failed(const ErrorData *edata)
{
	StenoRecord record;
	StenoParams values;
	StenoAccess relations[32];
	StenoStatement *s = &waiting.s;
	int			count;
	int			missing;

	if (!waiting.begun)
		return;
	waiting.begun = false;
	steno_failure_recorded();
	steno_remember_end(s);
	count = steno_plan_relations(waiting.own, relations, lengthof(relations), &missing);
	if (unlikely(steno_my.policy != 0) && !s->recorded)
		steno_policy_judge_failure(s, relations, count);
	if ((s->recorded || s->failures) && steno_session_ready())
	{
		const StenoEvent event = {.kind = STENO_KIND_STATEMENT, .edata = edata};
		StenoShape	shape = {
			.query_id = waiting.own->queryId,
			.command = steno_query_command(waiting.own->commandType),
			.relations = relations,
			.count = count,
			.missing = missing,
			.params = waiting.params,
			.failing = true
		};

		steno_session_failing(s->user_id);
		steno_make_record(s, &event, &shape, &record, &values);
		steno_put_ended(s, &record);
	}
	if (s->objects)
		steno_objects_release(&s->objects);
}
