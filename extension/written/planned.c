/*
 * extension/written/planned.c
 *		Relations of a query that the planner has refused, or could not plan.
 *
 * Catalogs cannot be read in a failure, so a relation that the query uses has no name unless its text names it: one
 * that a view or a policy brings in has none.
 */
#include "base/steno.h"

#include "nodes/nodeFuncs.h"

#include "base/compat.h"
#include "written/written.h"

/* Relations of a query, each once. */
typedef struct Planned
{
	Oid			relids[STENO_WRITTEN_MOST];
	int			count;
	bool		more;			/* there may be others */
	int			depth;
} Planned;

#define DEEPEST 100

static void collect_planned(Planned *planned, const Query *query);

static void
add_planned(Planned *planned, Oid relid)
{
	int			i;

	for (i = 0; i < planned->count; i++)
		if (planned->relids[i] == relid)
			return;
	if (planned->count == STENO_WRITTEN_MOST)
		planned->more = true;
	else
		planned->relids[planned->count++] = relid;
}

static void
collect_of_planned(Planned *planned, const Query *query)
{
	ListCell   *lc;

	foreach(lc, STENO_QUERY_PERMISSIONS(query))
	{
		const StenoPermission *p = lfirst(lc);

		if (STENO_IS_PERMISSION(p))
			add_planned(planned, p->relid);
	}
	foreach(lc, query->rtable)
	{
		const RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_SUBQUERY && rte->subquery)
			collect_planned(planned, rte->subquery);
	}
	foreach(lc, query->cteList)
	{
		Node	   *part = lfirst_node(CommonTableExpr, lc)->ctequery;

		if (part && IsA(part, Query))
			collect_planned(planned, (Query *) part);
	}
}

/*
 * The planner has changed the query already, but each list is whole.  Its expressions may not be, so those in
 * subqueries of expressions are not looked for.
 */
static void
collect_planned(Planned *planned, const Query *query)
{
	planned->more |= query->hasSubLinks || planned->depth == DEEPEST;
	if (planned->depth == DEEPEST)
		return;
	planned->depth++;
	collect_of_planned(planned, query);
	planned->depth--;
}

/* Names that may be those of different relations. */
static int
count_names(const StenoWritten *w)
{
	int			different = 0;
	int			i;
	int			j;

	for (i = 0; i < w->count; i++)
	{
		for (j = 0; j < i && strcmp(w->names[j].name, w->names[i].name) != 0; j++)
			;
		different += j == i;
	}
	return different;
}

/* Count what a query uses that none of the names is, which are those of its text. */
void
steno_written_in_query(StenoWritten *w, const Query *query)
{
	Planned		planned = {.count = 0};
	int			named = count_names(w);

	collect_planned(&planned, query);
	if (planned.count > named)
		w->omitted += planned.count - named;
	else if (planned.more && w->omitted == 0)
		w->omitted = 1;
}
