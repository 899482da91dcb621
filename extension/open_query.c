/*
 * extension/open_query.c
 *		Queries between ExecutorStart and ExecutorEnd, and what becomes of those that
 *		never get to ExecutorEnd.
 *
 * The server ends a query without ExecutorEnd when its portal has failed: by an
 * error in a FETCH, which need not come from the executor, or by the abort of a
 * (sub)transaction.  It says so to nobody, and frees plan and parameters, then the
 * portal with query descriptor and text, at different times.  So:
 *
 * 1. While a query runs, one of our hooks is on the C stack, and all of it stands.
 * 2. When it is suspended, its portal holds it.  Before anything else can happen
 *	  to the portal, the query is parked: it gets a copy of its record (copy.c), and
 *	  its portal's memory a callback.  From then on we use nothing of the server's
 *	  but while the query runs again.  Cursors are parked when they are opened;
 *	  a client's portals, which as a rule end right after they have run, when the
 *	  next statement or a subtransaction begins.
 * 3. When the portal goes, the callback finds the query still open unless ExecutorEnd
 *	  was called, and records it: it ended well as far as it ran.  A FETCH that
 *	  fails, and lets its portal fail, fails the query as well.
 * 4. The abort of a (sub)transaction records the queries that began in it.  Those that
 *	  are not parked have run in no other statement, and their portals still stand.
 *
 * A query without a portal, such as one of a function, lives on the C stack only.
 */
#include "steno.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "statement.h"

/* ---- the array ---- */

STENO_COLD StenoOpen *
steno_more_open(QueryDesc *query)
{
	int			room = steno_my.open_room * 2;
	StenoOpen  *more = MemoryContextAllocExtended(TopMemoryContext,
												  room * sizeof(StenoOpen),
												  MCXT_ALLOC_NO_OOM);

	if (more == NULL)
		return NULL;
	memcpy(more, steno_my.open, steno_my.open_count * sizeof(StenoOpen));
	if (steno_my.open != steno_my.few_open)
		pfree(steno_my.open);
	steno_my.open = more;
	steno_my.open_room = room;
	return steno_add_open(query);
}

/* With cursors, or nested queries. */
StenoOpen *
steno_find_of_many(QueryDesc *query)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
		if (steno_my.open[i].query == query)
			return &steno_my.open[i];
	return NULL;
}

static bool
is_running(const StenoOpen *o)
{
	const StenoLevel *l;

	for (l = steno_my.level; l; l = l->outer)
		if (l->query == o->query)
			return true;
	return false;
}

/* ---- parked queries ---- */

/* The memory of a portal goes: its query is over, if it has not ended before. */
static void
portal_gone(void *arg)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoOpen  *o = &steno_my.open[i];

		if (!o->parked || o->portal != (Portal) arg)
			continue;
		steno_record_query(o, NULL, true);
		steno_forget_open(o);
		return;
	}
}

/* Have portal_gone called in time; false: memory is short. */
static bool
watch_portal(StenoOpen *o)
{
	MemoryContext context = o->portal->portalContext;
	MemoryContextCallback *c = MemoryContextAllocExtended(context, sizeof(*c), MCXT_ALLOC_NO_OOM);

	if (c == NULL)
		return false;
	o->parked = true;
	c->func = portal_gone;
	c->arg = o->portal;
	MemoryContextRegisterResetCallback(context, c);
	return true;
}

/*
 * A query of a portal is suspended, and its portal still stands: take what its
 * record needs.  When there is no memory for that, it is recorded as it is now.
 */
STENO_COLD void
steno_open_park(StenoOpen *o)
{
	if (o->s.recorded && o->copy == NULL)
		steno_copy_query(o);
	if ((o->s.recorded && o->copy == NULL) || (!o->parked && !watch_portal(o)))
	{
		steno_record_query(o, NULL, false);
		steno_forget_open(o);
	}
}

/* Park all that are not, and do not run. */
STENO_COLD void
steno_open_park_all(void)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoOpen  *o = &steno_my.open[i];

		if (o->portal && !o->parked && !is_running(o))
			steno_open_park(o);
	}
}

/* ---- the ends of others ---- */

/*
 * Something fails with an error, and with it portals that it has used.  Their queries
 * do not run any more.  Those that began in subtransaction from, or later, are left
 * to its abort, which makes all of its portals fail.
 */
STENO_COLD void
steno_open_failed(const ErrorData *edata, SubTransactionId from)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoOpen  *o = &steno_my.open[i];

		if (!o->parked || o->subid >= from || o->portal->status != PORTAL_FAILED || is_running(o))
			continue;
		steno_record_query(o, edata, true);
		steno_forget_open(o);
	}
}

/*
 * A (sub)transaction has ended, and with it the queries that it leaves open: their
 * executor is gone.  What has no portal had its record when it failed.
 */
STENO_COLD void
steno_open_close(SubTransactionId from)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
	{
		StenoOpen  *o = &steno_my.open[i];

		if (o->subid < from)
			continue;
		if (o->portal)
			steno_record_query(o, NULL, o->parked || o->plan_cached);
		steno_forget_open(o);
	}
}
