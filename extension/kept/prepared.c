/*
 * extension/kept/prepared.c
 *		Remembering the plans of prepared statements, for as long as they exist.
 */
#include "base/steno.h"

#include "port/pg_bitutils.h"
#include "utils/plancache.h"

#include "kept/prepared.h"
#include "session/session.h"

/* Callback: the memory context of a plan is freed. */
static void
plan_gone(void *plan)
{
	int			i;

	for (i = 0; i < STENO_PREPARED; i++)
		if (steno_my.prepared[i].plan == plan)
			steno_forget_prepared(i);
}

/* Register plan_gone as a callback of the plan's memory; false if out of memory. */
static bool
watch_plan(MemoryContext context, const PlannedStmt *plan)
{
	MemoryContextCallback *c;

	for (c = context->reset_cbs; c; c = c->next)
		if (c->func == plan_gone && c->arg == plan)
			return true;
	c = MemoryContextAllocExtended(context, sizeof(*c), MCXT_ALLOC_NO_OOM);
	if (c == NULL)
		return false;
	c->func = plan_gone;
	c->arg = unconstify(PlannedStmt *, plan);
	MemoryContextRegisterResetCallback(context, c);
	return true;
}

/* Widths of the parameter values; false if any is not of fixed width. */
static bool
widths_of(const StenoParams *values, StenoPrepared *p)
{
	int			i;

	if (values->count > STENO_PREPARED_PARAMS || values->nulls_len > 0)
		return false;
	for (i = 0; i < values->count; i++)
	{
		const StenoParam *v = &values->values[i];

		if (v->data != (const uint8 *) &values->fixed[i] || !(v->len == 1 || v->len == 2 || v->len == 4 || v->len == 8))
			return false;
		p->widths |= pg_leftmost_one_pos32(v->len) << (2 * i);
	}
	p->count = values->count;
	p->values_len = values->values_len;
	return true;
}

void
steno_remember_prepared(const StenoStatement *s, CachedPlan *cached, const StenoParams *values)
{
	const PlannedStmt *plan = s->query->plannedstmt;
	StenoPrepared p = {.plan = plan, .class = s->class};
	uint64		offset = s->text - s->source;
	int			i;

	if (!cached->is_saved || list_length(cached->stmt_list) != 1 ||
		!list_member_ptr(cached->stmt_list, plan) ||
		!steno_logs_parameters() || offset > PG_UINT32_MAX || s->text_len > PG_UINT32_MAX)
		return;
	if ((values && !widths_of(values, &p)) || !watch_plan(cached->context, plan))
		return;
	p.text_offset = (uint32) offset;
	p.text_len = (uint32) s->text_len;
	p.kept = s->kept - steno_my.kept;
	for (i = 0; i < STENO_PREPARED; i++)
	{
		const StenoPrepared *q = &steno_my.prepared[i];

		if (q->plan != plan)
			continue;
		if (q->text_offset == p.text_offset && q->text_len == p.text_len && q->widths == p.widths &&
			q->count == p.count && q->values_len == p.values_len && q->kept == p.kept)
			return;				/* it is known already, but could not be staged as a prepared one
								 * this time */
		break;
	}
	if (i == STENO_PREPARED)
	{
		i = steno_my.prepared_next;
		steno_my.prepared_next = (i + 1) % STENO_PREPARED;
	}
	steno_forget_prepared(i);
	steno_my.prepared[i] = p;
	if (unlikely(!steno_my.settled))
		steno_session_map_data();
}
