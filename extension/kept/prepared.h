/*
 * extension/kept/prepared.h
 *		Plans of prepared statements that ran lately (StenoPrepared).
 */
#ifndef STENO_PREPARED_H
#define STENO_PREPARED_H

#include "base/steno.h"

#include "utils/plancache.h"

#include "delivery/record.h"

#pragma GCC visibility push(hidden)

/*
 * The plan of a query that was staged, if it is to be remembered.  A custom plan, which is
 * freed with its portal, has no reference but that of the portal.
 */
static inline CachedPlan *
steno_kept_plan(const StenoStatement *s)
{
	Portal		portal = *steno_private.active_portal;
	CachedPlan *plan = portal && portal->sourceText == s->source ? portal->cplan : NULL;

	return plan && plan->refcount > 1 ? plan : NULL;
}

/*
 * What is known about a query that begins; NULL if it is not a prepared statement
 * that ran lately, or if anything requires the general path.
 */
static pg_attribute_always_inline StenoPrepared *
steno_find_prepared(const QueryDesc *query)
{
	StenoPrepared *p = steno_my.prepared;
	ParamListInfo params = query->params;
	Portal		portal = *steno_private.active_portal;

	if (unlikely(!steno_all_usual()))
		return NULL;
	while (p->plan != query->plannedstmt)
		if (++p == steno_my.prepared + STENO_PREPARED)
			return NULL;
	if (unlikely(p->count != (params ? params->numParams : 0) ||
				 (params && params->paramFetch != NULL) ||
				 portal == NULL || portal->sourceText != query->sourceText || portal->name[0] != '\0' ||
				 !(steno_my.log_mask & steno_my.session_mask & ~steno_my.start_mask & (1u << p->class)) ||
				 steno_my.application != *steno_private.application_name))
		return NULL;
	return p;
}

/*
 * A query was staged with a kept shape: if its plan will be executed again, as the
 * generic plan of a prepared statement is, remember what its executions have in
 * common.
 */
STENO_COLD extern void steno_remember_prepared(const StenoStatement *s, CachedPlan *cached, const StenoParams *values);

#pragma GCC visibility pop

#endif							/* STENO_PREPARED_H */
