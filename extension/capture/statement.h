/*
 * extension/capture/statement.h
 *		What the files that record statements share, lowest first: a file calls those that
 *		stand above it here.  A statement is a StenoStatement (base/local.h); the way to its
 *		record is steno_make_record.
 */
#ifndef STENO_STATEMENT_H
#define STENO_STATEMENT_H

#include "base/steno.h"

#include "access/xact.h"
#include "tcop/pquery.h"

#include "base/facts.h"
#include "delivery/copy.h"
#include "delivery/record.h"
#include "delivery/refusal.h"
#include "delivery/room.h"
#include "delivery/staged.h"
#include "delivery/wait.h"
#include "describe/object.h"
#include "describe/param.h"
#include "describe/relation.h"
#include "describe/shape.h"
#include "policy/policy.h"
#include "policy/secret.h"
#include "policy/start_mask.h"
#include "session/session.h"
#include "session/setting_change.h"

#pragma GCC visibility push(hidden)

/* Relations that fit a utility's level before memory is taken. */
#define STENO_FEW_RELATIONS 16

#define steno_top_level (steno_private.top)

static inline bool
steno_recording(void)
{
	if (unlikely(steno_my.paused || !steno_session_ready()))
		return false;
	if (unlikely(steno_my.settings_dirty))
		steno_settings_record();
	steno_policy_check();
	return likely(steno_my.log_mask != 0) || steno_my.role_set;
}

/*
 * Has a session fact changed since our session message?  user_id is the statement's
 * role.  A setting's new value has another address than its old one, which
 * stands at least to the end of the transaction; to rely on that, we must look
 * at each statement.  The session user changes in utility statements, which look
 * for themselves.
 */
static inline void
steno_describe(Oid user_id)
{
	if (unlikely(!steno_my.described || steno_my.application != application_name ||
				 steno_my.user_id != user_id))
		steno_session_check(user_id);
}

/*
 * A query that the planner could not plan, in the PG_CATCH of the planner's hook, which owns it.
 * It points to the caller's query and parameters, which the hook's caller has yet to let go.
 */
typedef struct StenoUnplanned
{
	const char *source;
	int			location;
	int			length;
	int			class;
	const char *command;		/* NULL: SELECT */
	ParamListInfo params;
	int			depth;
	bool		forced;
	uint64		start;
} StenoUnplanned;

static inline int
steno_query_class(CmdType operation, bool modifying_cte)
{
	return operation == CMD_SELECT && !modifying_cte ? STENO_CLASS_READ : STENO_CLASS_WRITE;
}

/*
 * The command tag of a query.  NULL is SELECT, which then is in the code: the
 * page of our constants is another one to miss.
 */
static inline const char *
steno_query_command(CmdType operation)
{
	switch (operation)
	{
		case CMD_SELECT:
			return NULL;
		case CMD_INSERT:
			return "INSERT";
		case CMD_UPDATE:
			return "UPDATE";
		case CMD_DELETE:
			return "DELETE";
		case CMD_MERGE:
			return "MERGE";
		default:
			return "";
	}
}

/* ---- statement.c ---- */

/*
 * The error whose code is steno_my.raised_code: noted while a statement ran, and not recorded
 * yet.  Its strings are copies in context, which outlives transactions: the server's own are
 * gone once the error has been caught and raised again.  steno_forget_raised frees them.
 */
typedef struct StenoRaised
{
	char	   *message;
	char	   *query;			/* text of a nested statement, if known */
	MemoryContext context;		/* of both */
} StenoRaised;

extern StenoRaised steno_raised;

extern void steno_forget_raised(void);
extern StenoStatement *steno_more_open(QueryDesc *query);
extern StenoStatement *steno_find_of_many(QueryDesc *query);
extern void steno_take_nested_number(uint64 *statement, uint32 *substatement);
extern void steno_number_statement(StenoStatement *s, const char *source, int location, int length,
								   int class, int depth, bool forced);

/* Are statements that others run recorded, of this class?  What is mandatory cannot be left out so. */
static inline bool
steno_nested_are_logged(int class)
{
	return steno_my.log_nested || (steno_mandatory_mask & (1u << class)) != 0;
}


extern void steno_statement_install(void);
extern StenoStatement *steno_statement_of_event(bool function);
extern void steno_note_raised(void *arg);
extern void steno_begin(StenoStatement *s, const char *source, int location, int length,
						int class, int depth, bool forced);
extern void steno_begin_audited(StenoStatement *s);
extern void steno_begin_also(StenoStatement *s, int class);
extern void steno_write_inflight(StenoStatement *s, const struct StenoCuts *cuts);
extern void steno_begin_prepared(StenoStatement *s, const QueryDesc *query,
								 const StenoPrepared *p, int class);

/* ---- statement_record.c ---- */

/*
 * What a hook knows of a statement when its record is made.  It lives on the hook's stack
 * for as long as the record does, owns nothing, and may point to what the server frees at
 * the end of the statement: nobody keeps it.
 */
typedef struct StenoEvent
{
	int			kind;			/* STENO_KIND_STATEMENT, STENO_KIND_START */
	const ErrorData *edata;		/* it has failed; NULL: it has not */
	const struct StenoCuts *cuts;	/* where its text's secrets are; NULL: not known yet */
} StenoEvent;

extern void steno_make_record(StenoStatement *s, const StenoEvent *event, StenoShape *shape, StenoRecord *record,
							  StenoParams *values);
extern void steno_make_query_record(StenoStatement *s, const StenoEvent *event, bool closed, StenoRecord *record,
									StenoParams *values);
extern void steno_make_utility_record(const StenoLevel *l, const StenoEvent *event, StenoRecord *record);
extern void steno_read_copied_record(StenoStatement *s, const ErrorData *edata, const char *message,
									 StenoRecord *record);
extern void steno_put_ended(const StenoStatement *s, StenoRecord *record);
extern void steno_record_query(StenoStatement *s, const ErrorData *edata, bool closed);
extern void steno_record_utility(StenoLevel *l, const ErrorData *edata, uint64 rows);
extern void steno_utility_ended(StenoLevel *l);
extern void steno_copy_query(StenoStatement *s);
extern int	steno_plan_relations(const PlannedStmt *plan, StenoAccess *found, int room);
extern bool steno_open_has_holdable_cursor(void);
extern bool steno_open_commits_alone(const StenoStatement *s);
extern bool steno_open_defer_record(StenoStatement *s, const StenoRecord *record);
extern void steno_utility_queries(StenoLevel *l, int class);
extern void steno_add_relations(StenoLevel *level, List *permissions);
extern void steno_statement_add_relation(Oid relid, uint32 access);
extern void steno_forget_utility(StenoLevel *l);

/* Whether the record of a statement that has not ended is staged. */
static inline bool
steno_is_staged(const StenoStatement *s)
{
	return s->state == STENO_STAGED && steno_my.staged != NULL;
}

/* Whether the statement has ended, and its record waits for the commit. */
static inline bool
steno_commits(const StenoStatement *s)
{
	return s->state >= STENO_COMMITS_STAGED;
}

/* ---- failed_statement.c ---- */

extern void steno_failed_statement_install(void);
extern void steno_record_put_failed(StenoRecord *record);
extern void steno_fail(StenoLevel *l);
extern void steno_record_unplanned(const StenoUnplanned *q);
extern void steno_statement_failed(const ErrorData *edata);
extern bool steno_statement_fatal(const ErrorData *edata);
extern void steno_statement_aborted(void);
extern bool steno_statement_take_reported(void);
extern TimestampTz steno_statement_source(const char **source, int *end);
extern void steno_failure_reported(void);
extern bool steno_failure_is_reported(void);

/* ---- open_query.c ---- */

extern void steno_open_park(StenoStatement *s);
extern void steno_open_park_all(void);
extern void steno_open_failed(const ErrorData *edata, SubTransactionId from);
extern void steno_open_close(SubTransactionId from);
extern void steno_open_finish_committed(void);
extern void steno_open_begin(void);
extern bool steno_open_fail_waiting(const ErrorData *edata);
extern bool steno_open_fail_committing(const ErrorData *edata);
extern void steno_open_fail_outside(const ErrorData *edata, bool reported);

/*
 * Whether COMMIT is the statement that runs, nothing else is open, and its record is
 * staged with all that it will say but its numbers.  To publish it takes no room and no
 * memory, and raises no error.
 */
static inline bool
steno_commit_is_staged(void)
{
	const StenoLevel *l = &steno_top_level;

	return steno_my.level == l &&
		likely(l->ending && steno_is_staged(&steno_my.top_utility) && l->relations_count == 0 &&
			   steno_my.top_utility.audited == 0 && steno_my.open_count == 0);
}

/* Whether the end of a transaction has no statement to record but one whose record is in the ring already. */
static inline bool
steno_end_is_staged(void)
{
	if (steno_my.level != NULL)
		return steno_commit_is_staged();
	return steno_my.open_count == 0 ||
		(steno_my.open_count == 1 && steno_commits(steno_my.open) && steno_my.staged != NULL);
}

/* The transaction has ended, and with it its block, but that AND CHAIN begins another. */
static inline void
steno_end_block(void)
{
	steno_top_level.explicit_block = false;
	steno_top_level.chained = steno_top_level.chains;
	steno_top_level.chains = false;
}

/*
 * A client's statement has ended: whether the commit that comes next is a part of it,
 * and may fail.  What has written nothing commits, but in a serializable transaction, or
 * when it leaves a cursor WITH HOLD among the queries that are open besides its own.
 */
static inline bool
steno_ends_at_commit(const StenoStatement *s, TransactionId xid, int own)
{
	if (steno_top_level.explicit_block && likely(!steno_top_level.more_queries))
		return false;
	return (TransactionIdIsValid(xid) ||
			unlikely(XactIsoLevel == XACT_SERIALIZABLE || steno_top_level.more_queries ||
					 (steno_my.open_count > own && s->top_level && steno_open_has_holdable_cursor()))) &&
		s->top_level && steno_open_commits_alone(s);
}

static inline StenoStatement *
steno_find_open(QueryDesc *query)
{
	if (likely(steno_my.open_count == 1))
		return likely(steno_my.open->query == query) ? steno_my.open : NULL;
	return steno_find_of_many(query);
}

/* The statement whose hook a level is of; NULL: a query that is recorded no more. */
static inline StenoStatement *
steno_statement_of_level(const StenoLevel *l)
{
	return l->utility ? l->utility : steno_find_open(l->query);
}

static inline StenoStatement *
steno_add_open(QueryDesc *query)
{
	if (unlikely(steno_my.open_count == steno_my.open_room))
		return steno_more_open(query);
	steno_my.open[steno_my.open_count].query = query;
	steno_my.open[steno_my.open_count].state = STENO_NOT_MADE;
	steno_my.open[steno_my.open_count].portal_watched = false;
	steno_my.open[steno_my.open_count].copy = NULL;
	return &steno_my.open[steno_my.open_count++];
}

static inline void
steno_forget_open(StenoStatement *s)
{
	int			i = s - steno_my.open;

	if (unlikely(s->objects != NULL))
		steno_objects_release(&s->objects);
	if (unlikely(s->copy != NULL))
		steno_copy_release(&s->copy);
	steno_my.open_count--;
	if (unlikely(i < steno_my.open_count))
		memmove(s, s + 1, (steno_my.open_count - i) * sizeof(StenoStatement));
}

static inline void
steno_enter(StenoLevel *l, QueryDesc *query, StenoStatement *utility, int depth)
{
	l->outer = steno_my.level;
	l->query = query;
	l->utility = utility;
	l->inside = depth + 1;
	l->forces = false;
	l->declares = false;
	l->ending = false;
	l->callback.callback = steno_note_raised;
	l->callback.arg = l;
	l->callback.previous = *steno_private.error_context;
	*steno_private.error_context = &l->callback;
	steno_my.level = l;
}

/* A client's query, when nothing else runs. */
static inline void
steno_enter_top(QueryDesc *query)
{
	steno_enter(&steno_top_level, query, NULL, 0);
}

/*
 * A nested statement runs that may launch parallel workers, unless it runs in the
 * leader of others, which may ask at any time.
 */
static inline void
steno_may_launch(const StenoStatement *s)
{
	if (!IsInParallelMode())
		steno_my.launch = (StenoLaunch) {s->substatement, s->depth};
}

static inline void
steno_leave(StenoLevel *l)
{
	*steno_private.error_context = l->callback.previous;
	steno_my.level = l->outer;
}

static inline uint64
steno_duration(const StenoStatement *s)
{
	return steno_clock_us(&steno_my.clock, s->start, steno_clock_ticks(&steno_my.clock));
}

/* Its record needs but the numbers of its end. */
static inline void
steno_finish_staged(const StenoStatement *s)
{
	steno_staged_finish(steno_duration(s), steno_my.log_rows ? s->rows : STENO_NONE64,
						steno_private.transaction_id());
}

/* The list of a statement's objects, to add to.  A record that is staged would not have what is added. */
static inline StenoObjects *
steno_objects_of(StenoStatement *s)
{
	if (s->top_level && steno_my.staged)
		steno_unstage();
	if (s->objects == NULL)
		s->objects = steno_objects_new();
	return s->objects;
}

/* What a statement failed with, without its secrets. */
static inline const char *
steno_failure_message(const StenoStatement *s, const ErrorData *edata)
{
	return steno_secret_hide_message(s->text, s->text_len,
									 edata->message ? edata->message : "missing error text");
}

/* Where the statement ended in its source, for one that fails after it. */
static inline void
steno_remember_end(const StenoStatement *s)
{
	if (s->top_level)
	{
		steno_my.last_source = s->source;
		steno_my.last_end = s->end;
		steno_my.last_time = steno_my.anchor_time;
	}
}

/* ---- query.c ---- */

extern void steno_query_install(void);

/* ---- rewritten.c ---- */

extern bool steno_rewritten_added(const PlannedStmt *plan);
extern void steno_rewritten_begin(const PlannedStmt *plan);
extern bool steno_rewritten_own(const PlannedStmt *plan, StenoStatement *s);
extern void steno_rewritten_ended(const PlannedStmt *plan);
extern bool steno_rewritten_waits(void);
extern void steno_rewritten_forget(void);
extern void steno_rewritten_failed(const ErrorData *edata);

/* Whether the portal that runs has several queries. */
static inline bool
steno_is_rewritten(void)
{
	return unlikely(list_length(ActivePortal->stmts) > 1);
}

/* ---- planner.c ---- */

extern void steno_planner_install(void);

/* ---- utility.c ---- */

extern void steno_utility_install(void);
extern void steno_utility_call(Oid function);

/*
 * A statement has succeeded: give its objects the names that they have now.
 * utility NULL: a query, which has functions, mostly.
 */
static inline void
steno_objects_finish(StenoStatement *s, Node *utility)
{
	if (utility && s->top_level && steno_my.staged && steno_objects_are_named(utility))
		steno_unstage();
	steno_objects_name(s, utility, steno_statement_add_relation);
}

/* ---- object_access.c ---- */

extern void steno_object_access_install(void);

/* ---- transaction.c ---- */

extern void steno_transaction_install(void);
extern void steno_transaction_statement(const TransactionStmt *statement);
extern void steno_transaction_statement_done(const TransactionStmt *statement);

/* ---- start_record.c ---- */

extern void steno_put_start_record(const StenoStatement *s, StenoRecord *record);
extern void steno_raise_in_query(StenoStatement *s);
extern void steno_start_query_wait(StenoStatement *s);
extern void steno_start_utility_wait(StenoLevel *l);
extern bool steno_cover_query(StenoStatement *s);
extern bool steno_cover_utility(StenoLevel *l);
extern void steno_fail_cancelled_query(StenoStatement *s);
extern bool steno_fail_cancelled_utility(StenoLevel *l);

/* Whether a statement that begins has a start record by its class. */
static inline bool
steno_wants_start(const StenoStatement *s)
{
	return unlikely((steno_my.start_mask & (1u << s->class)) != 0) && s->recorded;
}

/* ---- fastpath.c ---- */

/* A client's function call, where others have a command tag. */
#define STENO_CALL_COMMAND "FUNCTION CALL"

extern bool steno_fastpath_message(void);
extern bool steno_fastpath_expected(void);
extern void steno_fastpath_call(Oid function);

/* ---- failure.c ---- */

extern void steno_failure_install(void);

#pragma GCC visibility pop

#endif							/* STENO_STATEMENT_H */
