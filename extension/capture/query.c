/*
 * extension/capture/query.c
 *		Queries: the executor's hooks, and the records of what they run.
 *
 * The record of a client's query is encoded at its start, in the ring, but not yet
 * published (steno_stage_record): its contents are in the caches then, and the
 * in-flight entry only needs to point to it.  At the end, a few numbers are filled
 * in.  If something else needs the ring meanwhile, such as the record of a
 * statement that a function runs, the record is made at the end instead, as are
 * those of nested queries, and of failures whose message does not fit.
 */
#include "base/steno.h"

#include "access/parallel.h"
#include "access/transam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/plancache.h"

#include "base/compat.h"
#include "capture/hooks.h"
#include "capture/statement_record.h"
#include "delivery/refusal.h"
#include "delivery/room.h"
#include "delivery/template.h"
#include "describe/relation_cache.h"
#include "filter/redact.h"
#include "kept/kept_shape.h"
#include "kept/nested.h"
#include "kept/prepared.h"
#include "policy/audit_role.h"
#include "similar.h"

/*
 * Cache the names of relations and columns while catalogs can be read: they cannot be
 * if the statement fails.
 */
STENO_COLD static void
cache_relation_names(PlannedStmt *plan)
{
	ListCell   *lc;

	foreach(lc, STENO_PLAN_PERMISSIONS(plan))
	{
		StenoPermission *p = (StenoPermission *) lfirst(lc);

		if (STENO_IS_PERMISSION(p))
		{
			steno_relation_cache_name(p->relid);
			steno_columns_cache(p);
		}
	}
}

/* Stage the record of a query whose shape is kept, and whose parameters are of its types. */
static inline bool
stage_usual(const StenoStatement *s, const StenoParams *values)
{
	StenoKept  *k = s->kept;

	return steno_stage_repeated(s, k, values) || steno_stage_query(s, steno_kept_shape(k), k->len, values);
}

/*
 * Stage the record of a query whose shape is kept; false if the record must be made
 * from scratch.  The types of its parameters must be the same.  searched: its text
 * must be searched for secrets in each execution, so it does not become one of the
 * prepared statements.
 */
STENO_HOT static pg_noinline bool
stage_kept(StenoStatement *s, bool searched)
{
	const StenoKept *k = s->kept;
	CachedPlan *plan;
	ParamListInfo params = s->query->params;
	uint8		types[1 + STENO_PREPARED_PARAMS * (STENO_VARINT_MAX + 1)];
	uint32		types_len;
	StenoParams values;
	MemoryContext old;

	/* an invalidation empties the kept shapes */
	if (unlikely(k == NULL || k->len == 0 || s->objects != NULL ||
				 s->policy != 0 || !steno_logs_text()))
		return false;
	if (params == NULL || params->numParams == 0 || !steno_logs_parameters())
	{
		if (k->params_len != 1 || !stage_usual(s, NULL))
			return false;
		plan = steno_kept_plan(s);
		if (unlikely(plan != NULL) && !searched)
			steno_remember_prepared(s, plan, NULL);
		return true;
	}
	if (unlikely(params->numParams > STENO_PREPARED_PARAMS))
		return false;
	old = *steno_private.current_context;
	*steno_private.current_context = steno_private.scratch;
	types_len = steno_params_collect(params, false, types, &values) - types;
	*steno_private.current_context = old;
	if (types_len != k->params_len ||
		!steno_is_same(types, steno_kept_shape(k) + k->params, types_len) ||
		!stage_usual(s, &values))
		return false;
	plan = steno_kept_plan(s);
	if (unlikely(plan != NULL) && !searched)
		steno_remember_prepared(s, plan, &values);
	return true;
}

/* The rows of a query that a rule has added are not counted. */
static inline uint64
nested_rows(const StenoStatement *s)
{
	return steno_logs_rows() && (s->portal != NULL || s->query->plannedstmt->canSetTag) ? s->rows : STENO_NONE64;
}

/* Put the record of a nested query that runs again and again as a brief one; false if it must be done the other way. */
static inline bool
put_nested(const StenoStatement *s)
{
	StenoNestedShape *n = steno_nested_place(s->query->plannedstmt);
	StenoParams values;
	const StenoParams *params;
	uint8		template;

	if (steno_find_nested_again(s) == NULL)
		return false;
	template = steno_nested_template(n, s);
	return template != 0 && steno_nested_params(s, n, &values, &params) &&
		steno_put_nested(s, template, params, nested_rows(s), steno_current_xid());
}

/*
 * Make the record of a nested query with its kept shape; false if it has none, or its parameters have other types.
 */
static bool
make_with_kept(StenoStatement *s, StenoRecord *record, StenoParams *values)
{
	StenoNestedShape *n = steno_nested_place(s->query->plannedstmt);
	const StenoParams *params;

	if (steno_find_nested_again(s) == NULL || !steno_nested_params(s, n, values, &params))
		return false;
	steno_record_init(record, STENO_KIND_STATEMENT);
	record->params = params;
	record->shape = n->shape;
	record->shape_len = n->kept.len;
	record->time = s->time;
	record->statement = s->statement;
	record->substatement = s->substatement;
	record->depth = s->depth;
	record->text = s->text;
	record->text_len = s->text_len;
	steno_policy_apply(s, record);
	return true;
}

/* Put the record of a nested query whole, and keep its shape if its plan runs again. */
static pg_noinline void
put_nested_whole(StenoStatement *s)
{
	const StenoEvent event = {.kind = STENO_KIND_STATEMENT};
	StenoRecord record;
	StenoParams values;

	if (s->kept != NULL && steno_find_nested_again(s) == NULL)
		cache_relation_names(s->query->plannedstmt);
	if (!make_with_kept(s, &record, &values))
	{
		steno_make_query_record(s, &event, false, &record, &values);
		steno_keep_nested(s, &record);
	}
	record.rows = nested_rows(s);
	steno_put_ended(s, &record);
}

/* Record a nested query that has succeeded; false if it has to be done the general way. */
static bool
record_nested(StenoStatement *s)
{
	if (s->top_level || !s->recorded || s->state != STENO_NOT_MADE || s->copy != NULL || s->objects != NULL ||
		s->policy != 0 || s->suspect || !steno_logs_text() || !steno_session_ready())
		return false;
	steno_describe(s->user_id);
	if (!put_nested(s))
		put_nested_whole(s);
	return true;
}

/* Make and stage a record.  cuts: where the text's secrets are, if that is known already. */
STENO_COLD static void
stage_anew(StenoStatement *s, const StenoCuts *cuts)
{
	const StenoEvent event = {.kind = STENO_KIND_STATEMENT, .cuts = cuts};
	StenoRecord record;
	StenoParams values;
	StenoShapeKey	key;

	cache_relation_names(s->query->plannedstmt);
	if (s->text_len > steno_my.producer.max_message && steno_logs_text())
	{
		/* it would not fit, and encoding it twice would be a waste */
		steno_write_inflight(s, cuts);
		return;
	}
	steno_make_query_record(s, &event, false, &record, &values);
	if (s->objects == NULL && !(s->policy & STENO_S_NO_PARAMETERS) &&
		steno_shape_key(s, s->top_level ? steno_prepared_name(s) : NULL, &key))
		steno_keep_shape(&key, &record);
	if (steno_stage_record(&record))
		s->state = STENO_STAGED;
	else
		steno_write_inflight(s, cuts);
}

/*
 * At the start of a client's query whose text may have secrets.  Most have none,
 * and are then staged like any other.
 */
STENO_COLD static void
stage_suspect(StenoStatement *s)
{
	StenoCuts	cuts;

	if (!steno_logs_text())
		stage_anew(s, NULL);
	else if (steno_secret_find(s->text, s->text_len, false, &cuts))
	{
		stage_anew(s, &cuts);
		if (unlikely(cuts.given_up))
			steno_raise_in_query(s);
	}
	else
	{
		s->suspect = false;
		if (steno_portal_name(s) == NULL && stage_kept(s, true))
			s->state = STENO_STAGED;
		else
			stage_anew(s, NULL);
	}
}

/* So many statements make a session one that maps its ring's data (steno_session_map_data). */
#define SHORT_SESSION 8

/* At the start of a client's query. */
STENO_HOT static pg_noinline void
stage(StenoStatement *s)
{
	if (unlikely(!steno_my.settled) && s->statement > SHORT_SESSION)
		steno_session_map_data();
	if (unlikely(s->suspect))
		stage_suspect(s);
	else if (likely(steno_portal_name(s) == NULL && stage_kept(s, false)))
		s->state = STENO_STAGED;
	else
		stage_anew(s, NULL);
	if (unlikely(steno_my.start_mask & (STENO_START_CANCELLED | STENO_START_SHORT)))
	{
		steno_raise_in_query(s);

		/*
		 * A query that is recorded only because it has called a function has not
		 * checked the reserve yet.
		 */
		if (steno_my.start_mask & STENO_START_SHORT)
			(void) steno_cover_query(s);
	}
}

/* Put the start record of a query: what its record will contain, without its end. */
STENO_COLD static void
put_query_start(StenoStatement *s)
{
	const StenoEvent event = {.kind = STENO_KIND_START};
	StenoRecord record;
	StenoParams values;
	bool		covered = !(steno_my.start_mask & STENO_START_SHORT) || steno_cover_query(s);

	if (!steno_start_mask_begin(s) && covered)
		return;
	steno_make_query_record(s, &event, false, &record, &values);
	steno_put_start_record(s, steno_current_xid(), &record);
	steno_start_query_wait(s);
}

/* A nested query begins for which the reserve may be too small. */
STENO_COLD static void
start_deep(StenoStatement *s)
{
	if (steno_wants_start(s))
	{
		if (steno_my.start_mask & STENO_START_SHORT)
			return;				/* it has checked the reserve */
		if (steno_start_mask_begin(s))
		{
			s->policy |= STENO_S_UNCOVERED; /* it has a start record instead */
			return;
		}
	}
	steno_start_mask_short(true);
	put_query_start(s);
}

/* ---- hooks ---- */

/* Whether the query of a portal outside of any statement is the client's own. */
static inline bool
is_client_query(const char *source)
{
	return steno_is_client() ? steno_is_client_text(source) : !steno_is_worker();
}

/* Whether the query is a parallel worker's part of the leader's query, which the leader records. */
STENO_COLD static bool
is_leader_query(const QueryDesc *query)
{
	return IsParallelWorker() && query->dest && query->dest->mydest == DestTupleQueue;
}

/* Whether a query may have a record: by itself, if it fails, or for the functions that it calls. */
static inline bool
may_be_recorded(const StenoStatement *s)
{
	return s->recorded || s->failures || steno_class_logged(STENO_CLASS_FUNCTION) || steno_my.policy != 0 ||
		steno_role_is_set();
}

/*
 * Whether all that the server did for a client's query before its beginning is a part of the message, whose time
 * counts anyway, and none of it took so long that it is told apart.
 */
static inline bool
all_is_in_message(const StenoStatement *s)
{
	const StenoAhead *a = &steno_private.ahead;

	return likely(s->top_level && steno_is_client() && a->waiting == 0 && s->before < STENO_TOLD_APART &&
				  (a->source == NULL || (a->message == steno_my.begun_message && steno_are_few(a->end - a->begin))));
}

/*
 * Begin a query's statement; NULL if it is part of a utility statement's record, or
 * not recorded by itself.
 */
static StenoStatement *
begin_query(QueryDesc *query)
{
	StenoLevel *outer;
	PlannedStmt *plan = query->plannedstmt;
	Portal		portal = *steno_private.active_portal;
	StenoStatement *s;
	bool		of_portal;
	bool		rewritten;
	bool		added;
	int			depth;
	int			class;

	if (unlikely(!steno_is_client()) && is_leader_query(query))
		return NULL;
	if (!steno_recording())
		return NULL;
	steno_refusal_check(NULL);
	steno_check_level();
	outer = steno_my.level;
	if (outer && outer->utility && outer->utility->source == query->sourceText &&
		!outer->forces)
	{
		steno_utility_queries(outer, steno_query_class(query->operation, query->plannedstmt->hasModifyingCTE),
							  query->operation);
		return NULL;
	}

	/*
	 * A query outside of any statement that has no portal is not a client's
	 * statement: it belongs to a function that the planner has called, or to a
	 * constraint checked at commit.
	 */
	of_portal = portal && portal->sourceText == query->sourceText;
	rewritten = of_portal && outer == NULL && steno_is_rewritten();
	added = rewritten && steno_rewritten_added(plan);
	if (unlikely(added))
		steno_rewritten_begin(plan);
	if (unlikely(outer == NULL && steno_my.open_count > 0))
	{
		if (of_portal && !added)
			steno_open_begin();
		else
		{
			steno_commit_begins();
			steno_open_park_all();
		}
	}
	s = steno_add_open(query);
	if (s == NULL)
		return NULL;
	s->portal = of_portal && portal->status == PORTAL_DEFINED ? portal : NULL;
	s->plan_cached = of_portal && portal->cplan != NULL;
	s->subid = steno_my.subid;
	s->rows = 0;
	depth = outer ? outer->inside : added ? 1 : of_portal && is_client_query(query->sourceText) ? 0 : steno_my.outside;
	class = steno_query_class(query->operation, plan->hasModifyingCTE);

	/*
	 * A cursor's plan does not have the position of DECLARE in the source.  A query
	 * of a function that is called during its planning has another source.
	 */
	if (unlikely(outer && outer->declares) && strcmp(query->sourceText, outer->utility->source) == 0)
		steno_begin(s, query->sourceText,
					outer->utility->text - outer->utility->source,
					(int) outer->utility->text_len, class, depth, true);
	else if (likely(!rewritten) || added || !steno_rewritten_own(plan, s))
		steno_begin(s, query->sourceText, plan->stmt_location, plan->stmt_len,
					class, depth, added || (outer && outer->forces));

	s->pauses = s->portal != NULL && s->portal->visible;
	if (!all_is_in_message(s))
		steno_told_apart(s, plan, portal);
	steno_private.ahead.source = NULL;

	/* WITH with data-modifying parts, which also reads */
	if (unlikely(plan->hasModifyingCTE) && query->operation == CMD_SELECT)
		steno_begin_also(s, STENO_CLASS_READ);

	s->kept = s->top_level ? steno_kept_find(s, steno_prepared_name(s)) : steno_find_nested(s);
	if (unlikely(s->kept == NULL) && may_be_recorded(s))
		cache_relation_names(plan);
	if (unlikely(steno_my.policy != 0))
		steno_policy_judge_plan(s, plan, false);
	if (unlikely(steno_role_is_set()) && steno_audit_permissions(STENO_PLAN_PERMISSIONS(plan)))
		steno_begin_audited(s);
	if (steno_wants_start(s))
		put_query_start(s);
	return s;
}

/* Whether a statement is that of the in-flight entry, which only one that is recorded has. */
static inline bool
is_in_flight(const StenoStatement *s, const StenoInFlight *f)
{
	return f->statement == s->statement && f->active != 0;
}

/*
 * A client's query has begun that waits in its portal for the message that runs it.  Its record has been staged, which
 * takes time at a session's first statements, or if there is no room: as in the simple protocol, that counts.
 */
static inline void
waits_to_run(StenoStatement *s)
{
	StenoInFlight *f = &steno_my.producer.ring->inflight;

	steno_work_stops(s);
	if (likely(is_in_flight(s, f)))
		steno_inflight_wait(f, false);
}

STENO_HOT static pg_noinline void
start_query(QueryDesc *query, int eflags)
{
	StenoStatement *s = begin_query(query);
	StenoLevel	l;
	bool		outer_own = steno_start_begins(s != NULL);
	bool		pauses;

	if (s == NULL)
	{
		steno_private.previous_start(query, eflags);
		steno_start_ends(outer_own);
		return;
	}
	if (s->top_level && steno_is_client() && steno_my.level == NULL)
	{
		steno_enter_top(query);
		steno_private.previous_start(query, eflags);
		steno_leave(&steno_top_level);
		steno_start_ends(outer_own);
		/* find it again: the executor may have called functions, and the array may have moved */
		s = steno_find_open(query);
		if (s == NULL)
			return;
		pauses = s->pauses;
		if (s->recorded)
			stage(s);
		/* it may be over already: a canceled wait fails it, and the array may have moved */
		if (pauses && (s = steno_find_open(query)) != NULL)
			waits_to_run(s);
		return;
	}
	if (unlikely(steno_my.open_count + s->depth > steno_reserve_covered) && s->recorded)
		start_deep(s);
	steno_write_inflight(s, NULL);
	steno_enter(&l, query, NULL, s->depth);
	PG_TRY();
	{
		steno_private.previous_start(query, eflags);
	}
	PG_CATCH();
	{
		steno_start_ends(outer_own);
		steno_fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	steno_start_ends(outer_own);
	steno_leave(&l);
	s = steno_find_open(query);
	if (s && s->pauses)
		steno_work_stops(s);
	/* a cursor, unlike a query of EXECUTE, which ends with that */
	if (s && s->portal && !(steno_my.level && steno_my.level->forces && !steno_my.level->declares))
		steno_open_park(s);
}

/*
 * Start a client's query of which everything but the numbers is known, while
 * nothing else is open.
 */
static inline void
start_prepared(QueryDesc *query, int eflags, StenoPrepared *p)
{
	StenoStatement *s = steno_my.open;
	Portal		portal = *steno_private.active_portal;
	bool		outer_own;
	bool		pauses;

	steno_my.open_count = 1;
	s->query = query;
	s->state = STENO_NOT_MADE;
	s->portal_watched = false;
	s->copy = NULL;
	s->who = NULL;
	s->portal = portal->status == PORTAL_DEFINED ? portal : NULL;
	s->plan_cached = true;
	s->subid = steno_my.subid;
	s->rows = 0;
	s->kept = &steno_my.kept[p->kept];
	steno_begin_prepared(s, query, p, p->class);
	s->pauses = s->portal != NULL && portal->visible;
	outer_own = steno_start_begins(true);
	steno_enter_top(query);
	steno_private.previous_start(query, eflags);
	steno_leave(&steno_top_level);
	steno_start_ends(outer_own);
	s = steno_find_open(query);
	if (unlikely(s == NULL))
		return;
	pauses = s->pauses;
	if (likely(s->objects == NULL && p->plan == query->plannedstmt &&
			   steno_stage_prepared(s, p, query->params)))
		s->state = STENO_STAGED;
	else
	{
		stage(s);
		s = steno_find_open(query);
	}
	if (pauses && s)
		waits_to_run(s);
}

/* The same if the statement before may be of the same string, in the same transaction, and so has no commit. */
STENO_COLD static StenoPrepared *
find_prepared_after_another(const QueryDesc *query)
{
	Portal		portal = *steno_private.active_portal;

	if (!steno_commits(steno_my.open) || portal == NULL || steno_top_level.more_queries)
		return NULL;
	if (portal->sourceText == query->sourceText)
		steno_open_finish_committed();
	return steno_find_prepared(query);
}

STENO_HOT static void
executor_start(QueryDesc *query, int eflags)
{
	StenoPrepared *p;

	steno_assert_may_run();

	/*
	 * At the very beginning, so that the cache misses below overlap: with this one, too, which the processor
	 * need not wait for.  The query of a function finds all of it there.
	 */
	if (likely(steno_my.level == NULL))
		steno_prefetch_state();
	steno_ring_prefetch(&steno_my.producer, 2);
	p = steno_find_prepared(query);
	if (p == NULL && steno_my.open_count == 1)
		p = find_prepared_after_another(query);
	if (likely(p != NULL && steno_my.user_id == steno_private.get_user_id()))
		start_prepared(query, eflags, p);
	else
		start_query(query, eflags);
}

/* Whether the query runs as a client's statement, whose errors need not be caught. */
static inline bool
runs_at_top(const StenoStatement *s)
{
	if (!s->top_level || !steno_is_client())
		return false;
	steno_check_level();
	return likely(steno_my.level == NULL);
}

static void
run_nested(StenoStatement *s, STENO_RUN_ARGS)
{
	StenoLaunch before = steno_my.launch;
	StenoLevel	l;

	steno_enter(&l, query, NULL, s->depth);
	steno_may_launch(s);
	PG_TRY();
	{
		steno_private.previous_run(STENO_RUN_PASS);
	}
	PG_CATCH();
	{
		steno_my.launch = before;
		steno_fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	steno_my.launch = before;
	steno_leave(&l);
}

/*
 * A portal's query whose record is not staged has been run, and may be run again.
 * The plan of a client's portal may be returned to the plan cache before an abort
 * reaches us.
 */
STENO_COLD static void
suspended(StenoStatement *s)
{
	if (s->portal_watched ? s->recorded && s->copy == NULL : s->top_level && s->plan_cached)
		steno_open_park(s);
}

/* The query has succeeded and commits next: let its record wait.  False if it must be put now. */
static bool
defer_query_record(StenoStatement *s, uint64 xid)
{
	uint64		rows = steno_logs_rows() ? s->rows : STENO_NONE64;
	const StenoEvent event = {.kind = STENO_KIND_STATEMENT};
	StenoRecord record;
	StenoParams values;

	if (likely(steno_is_staged(s)))
	{
		steno_staged_end(s, rows, xid);
		return steno_open_defer_record(s, NULL);
	}
	if (!s->recorded || !steno_session_ready())
		return false;
	steno_describe(s->user_id);
	if (s->copy)
		steno_read_copied_record(s, NULL, NULL, &record);
	else
	{
		steno_work_ends(s, s->query->params != NULL);
		steno_make_query_record(s, &event, false, &record, &values);
	}
	record.rows = rows;
	steno_set_times(s, &record);
	record.xid = xid;
	return steno_open_defer_record(s, &record);
}

/*
 * Whether the client has already been told that the query succeeded, which nothing
 * will undo: its portal is closed by a later message.  Without debug_query_string,
 * this is a commit, which can still fail, or the end of a portal in a transaction
 * block.
 */
static bool
is_acknowledged(const StenoStatement *s)
{
	if (debug_query_string == NULL)
		return IsTransactionBlock();
	return s->time < GetCurrentStatementStartTimestamp();
}

/*
 * The query has succeeded.  Put its record, which is not staged and may have to
 * wait for space, and remove s.
 */
STENO_COLD static void
record_end(StenoStatement *s, bool acknowledged)
{
	QueryDesc  *query = s->query;

	if (!acknowledged)
		s->may_fail = true;
	if (!record_nested(s))
		steno_record_query(s, NULL, false);
	if (unlikely(steno_my.start_mask & STENO_START_CANCELLED))
	{
		steno_fail_cancelled_query(s);
		s = steno_find_open(query);
	}
	if (s)
		steno_forget_open(s);
}

/* A query that a rule has added has ended; the statement's record still waits. */
STENO_COLD static void
end_added(StenoStatement *s, const PlannedStmt *plan)
{
	record_end(s, is_acknowledged(s));
	steno_rewritten_ended(plan);
}

/*
 * A query has succeeded, and was found among the open ones: its record is published, or waits for the
 * commit that comes next.  acknowledged: the client has been told so.
 */
static pg_attribute_always_inline void
end_query(StenoStatement *s, QueryDesc *query, bool closed)
{
	uint64		xid;

	if (unlikely(s->objects != NULL) && !closed)
		steno_objects_finish(s, NULL);
	xid = steno_current_xid();
	if (unlikely(steno_top_level.more_queries) && steno_my.level == NULL && !s->top_level)
	{
		end_added(s, query->plannedstmt);
		return;
	}
	if (steno_ends_at_commit(s, xid, 1) && defer_query_record(s, xid))
	{
		steno_remember_end(s);
		return;
	}
	if (likely(steno_is_staged(s)))
	{
		steno_staged_finish(s, steno_logs_rows() ? s->rows : STENO_NONE64, xid);
		steno_remember_end(s);
		steno_forget_open(s);
	}
	else
	{
		steno_remember_end(s);
		record_end(s, closed && is_acknowledged(s));
	}
	if (unlikely(steno_settings_are_dirty()))
		steno_settings_record();
}

/*
 * The rows that a run of a query has delivered, unless the client's message itself runs it.  Nobody gets those that
 * MOVE passes over, nor FETCH ABSOLUTE and FETCH RELATIVE on their way, be it in a cursor or in a portal of the
 * protocol; nor those that the commit of a cursor WITH HOLD stores: they are delivered by what fetches them later.
 */
static inline uint64
delivered_nested(const StenoStatement *s, const QueryDesc *query)
{
	if (unlikely(s->portal != NULL && query->operation == CMD_SELECT) &&
		(query->dest->mydest == DestNone || s->portal->holdStore != NULL))
		return 0;
	return query->estate->es_processed;
}

/* Whether a client's query has delivered its last row: its portal can only go forward. */
static inline bool
is_exhausted(const StenoStatement *s, const QueryDesc *query, ScanDirection direction, uint64 count)
{
	return direction == ForwardScanDirection && (count == 0 || query->estate->es_processed < count) &&
		(s->portal->cursorOptions & (CURSOR_OPT_NO_SCROLL | CURSOR_OPT_HOLD)) == CURSOR_OPT_NO_SCROLL;
}

/* A client's query has been run in part, and waits for the message that runs it again. */
STENO_COLD static void
waits_for_client(StenoStatement *s)
{
	StenoInFlight *f = &steno_my.producer.ring->inflight;

	if (steno_is_staged(s))
		steno_staged_wait(s, steno_logs_rows() ? s->rows : STENO_NONE64);
	else if (is_in_flight(s, f))
		steno_inflight_wait(f, false);
}

/*
 * The same after another statement, which has taken the in-flight entry.  A writer makes no start record of a
 * statement that has one.
 */
STENO_COLD static void
takes_entry_back(StenoStatement *s)
{
	QueryDesc  *query = s->query;

	if (!s->recorded)
		return;
	if (steno_my.open_count > 1)
	{
		steno_open_leave_entry();
		s = steno_find_open(query);	/* the array may have moved */
		if (s == NULL)
			return;
	}
	if (s->policy & STENO_S_ANNOUNCED)
		STENO_STORE(steno_my.producer.ring->inflight.announced, s->statement);
	steno_write_inflight(s, NULL);
}

/* A client's query runs that waited for a message. */
static inline void
runs_again(StenoStatement *s)
{
	StenoInFlight *f = &steno_my.producer.ring->inflight;

	steno_work_goes_on(s);
	if (likely(is_in_flight(s, f)))
		steno_inflight_run(f);
	else
		takes_entry_back(s);
}

/*
 * A client's query has been run at the top level, in a portal that may wait for the client.  If it has
 * delivered all rows, it has ended, whenever the portal is closed: what then releases its resources is
 * not worth a record that nobody sees until the client sends another message.
 */
STENO_HOT static void
ran_in_portal(StenoStatement *s, QueryDesc *query, ScanDirection direction, uint64 count)
{
	steno_work_stops(s);
	if (likely(is_exhausted(s, query, direction, count)))
		end_query(s, query, false);
	else
	{
		if (unlikely(s->state != STENO_STAGED))
		{
			suspended(s);
			s = steno_find_open(query);
		}
		if (s)
			waits_for_client(s);
	}
}

/*
 * A query of a function that returns a set has delivered a row, and will be asked for the next one when its caller is:
 * perhaps after pauses of the client, and perhaps never.
 */
STENO_COLD static void
left_open(StenoStatement *s)
{
	s->pauses = true;
	steno_work_stops(s);
	if (s->recorded)
		steno_open_keep(s);
}

STENO_HOT static void
executor_run(STENO_RUN_ARGS)
{
	StenoStatement *s = steno_find_open(query);

	steno_assert_may_run();
	if (s == NULL)
	{
		steno_private.previous_run(STENO_RUN_PASS);
		return;
	}
	if (runs_at_top(s))
	{
		bool		pauses = s->pauses;

		if (pauses)
			runs_again(s);
		steno_enter_top(query);
		steno_private.previous_run(STENO_RUN_PASS);
		/* others may have run while it waited for a lock */
		if (query->operation != CMD_SELECT)
		{
			steno_prefetch_state();
			STENO_PREFETCH_WRITE(steno_my.staged);
		}
		steno_leave(&steno_top_level);
		s = steno_find_open(query);	/* find it again: the array may have moved */
		if (s)
			s->rows += query->estate->es_processed;
		if (s && pauses)
		{
			ran_in_portal(s, query, direction, count);
			return;
		}
	}
	else
	{
		if (s->pauses)
			steno_work_goes_on(s);
		run_nested(s, STENO_RUN_PASS);
		s = steno_find_open(query);
		if (s && s->pauses)
			steno_work_stops(s);
		if (s)
			s->rows += delivered_nested(s, query);
		if (s && unlikely(count != 0 && STENO_RUNS_AGAIN(query) && s->portal == NULL && !s->pauses &&
						  query->estate->es_processed == count))
			left_open(s);
	}
	if (s && unlikely(s->state != STENO_STAGED) && s->portal)
	{
		suspended(s);
		steno_open_fetched(query);
	}
}

static void
finish_nested(StenoStatement *s, QueryDesc *query)
{
	StenoLevel	l;

	steno_enter(&l, query, NULL, s->depth);
	PG_TRY();
	{
		steno_private.previous_finish(query);
	}
	PG_CATCH();
	{
		steno_fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	steno_leave(&l);
}

STENO_HOT static void
executor_finish(QueryDesc *query)
{
	StenoStatement *s = NULL;

	steno_assert_may_run();
	/* a query that writes nothing runs no triggers at its end */
	if (query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE)
		s = steno_find_open(query);
	if (s == NULL)
		steno_private.previous_finish(query);
	else if (runs_at_top(s))
	{
		steno_enter_top(query);
		steno_private.previous_finish(query);
		steno_leave(&steno_top_level);
	}
	else
		finish_nested(s, query);
}

static void
end_nested(StenoStatement *s, QueryDesc *query)
{
	StenoLevel	l;

	steno_enter(&l, query, NULL, s->depth);
	PG_TRY();
	{
		steno_private.previous_end(query);
	}
	PG_CATCH();
	{
		steno_fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	steno_leave(&l);
}

/*
 * An error in ExecutorEnd is that of the query; at the top level,
 * steno_open_fail_outside records it.
 */
STENO_HOT static void
executor_end(QueryDesc *query)
{
	StenoStatement *s = steno_find_open(query);

	steno_assert_may_run();
	if (s == NULL)
	{
		steno_private.previous_end(query);
		return;
	}
	if (unlikely(s->objects != NULL))
	{
		steno_objects_finish(s, NULL);
		steno_role_learn();		/* a function may have set another one */
	}
	if (runs_at_top(s))
		steno_private.previous_end(query);
	else
	{
		end_nested(s, query);
		steno_role_learn();
	}
	s = steno_find_open(query);
	if (unlikely(s == NULL) || (unlikely(s->portal_watched) && steno_hold_cursor(s)))
		return;
	end_query(s, query, true);
}

/*
 * Whether it is a foreign key that checks permissions, without a query.  That is no access of the utility statement in
 * which its trigger runs, such as COMMIT or COPY, as it is none of an INSERT.
 */
static inline bool
is_of_key(const StenoStatement *utility)
{
	return STENO_KEY_WITHOUT_QUERY && InNoForceRLSOperation() && !(utility->policy & STENO_S_IN_CHECK);
}

STENO_HOT static bool
check_perms(STENO_CHECK_PERMS_ARGS)
{
	steno_assert_may_run();
	if (unlikely(!steno_my.starting_own))
	{
		steno_check_level();
		if (steno_my.level && steno_my.level->utility && !is_of_key(steno_my.level->utility))
			steno_add_relations(steno_my.level, STENO_PERMISSIONS_LIST);
	}
	if (steno_private.previous_check)
		return steno_private.previous_check(STENO_CHECK_PERMS_PASS);
	return true;
}

void
steno_query_install(void)
{
	steno_private.active_portal = &ActivePortal;
	steno_private.application_name = &application_name;
	steno_private.client_query = &debug_query_string;
	steno_private.isolation_level = &XactIsoLevel;
	steno_private.error_context = &error_context_stack;
	steno_private.get_user_id = GetUserId;
	steno_private.statement_start = GetCurrentStatementStartTimestamp;
	steno_private.transaction_id = GetTopFullTransactionIdIfAny;
	steno_private.is_transaction_block = IsTransactionBlock;
	steno_private.current_context = &CurrentMemoryContext;
	steno_private.previous_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = executor_start;
	steno_private.previous_run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = executor_run;
	steno_private.previous_finish = ExecutorFinish_hook ? ExecutorFinish_hook : standard_ExecutorFinish;
	ExecutorFinish_hook = executor_finish;
	steno_private.previous_end = ExecutorEnd_hook ? ExecutorEnd_hook : standard_ExecutorEnd;
	ExecutorEnd_hook = executor_end;
	steno_private.previous_check = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_perms;
}
