/*
 * extension/capture/statement_record.h
 *		The records of statements: made and put (statement_record.c), at the start (start_record.c), of what
 *		has failed (failed_statement.c), and of queries that stay open beyond their hook (open_query.c).
 *		The way to a record is steno_make_record.
 */
#ifndef STENO_STATEMENT_RECORD_H
#define STENO_STATEMENT_RECORD_H

#include "storage/ipc.h"

#include "capture/statement.h"
#include "delivery/record.h"
#include "value/param.h"
#include "describe/relation.h"
#include "describe/shape.h"
#include "error/origin.h"
#include "policy/secret.h"
#include "written/written.h"

#pragma GCC visibility push(hidden)

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

/*
 * The portal of a statement, if it has one that certainly exists: the one that runs, or that of a query that
 * is open.
 */
static inline Portal
steno_portal_of(const StenoStatement *s)
{
	Portal		portal = *steno_private.active_portal;

	if (portal && portal->sourceText == s->source)
		return portal;
	return s->query ? s->portal : NULL;
}

/* The name of its prepared statement, as the client knows it; NULL: none. */
static inline const char *
steno_prepared_name(const StenoStatement *s)
{
	Portal		portal = steno_portal_of(s);

	return portal ? portal->prepStmtName : NULL;
}

/* The name of its portal; NULL: it has none, or one that nobody has given it. */
static inline const char *
steno_portal_name(const StenoStatement *s)
{
	Portal		portal = steno_portal_of(s);

	return likely(portal == NULL || portal->name[0] == '\0' || portal->name[0] == '<') ? NULL : portal->name;
}

extern void steno_make_record(StenoStatement *s, const StenoEvent *event, StenoShape *shape, StenoRecord *record,
							  StenoParams *values);
extern void steno_make_query_record(StenoStatement *s, const StenoEvent *event, bool closed, StenoRecord *record,
									StenoParams *values);
extern void steno_add_search_path(StenoRecord *record, const StenoWritten *written, Oid user);
extern void steno_make_utility_record(const StenoLevel *l, const StenoEvent *event, StenoRecord *record,
									  StenoParams *values);
extern void steno_read_copied_record(StenoStatement *s, const ErrorData *edata, const char *message,
									 StenoRecord *record);
extern void steno_put_start_record(const StenoStatement *s, uint64 xid, StenoRecord *record);
extern void steno_put_ended(const StenoStatement *s, StenoRecord *record);
extern void steno_record_query(StenoStatement *s, const ErrorData *edata, bool closed);
extern void steno_record_utility(StenoLevel *l, const ErrorData *edata, uint64 rows);
extern void steno_utility_ended(StenoLevel *l);
extern void steno_copy_query(StenoStatement *s);
extern int	steno_plan_relations(const PlannedStmt *plan, StenoAccess *found, int room, int *missing);
extern bool steno_open_has_holdable_cursor(void);
extern bool steno_open_commits_alone(const StenoStatement *s);
extern bool steno_open_defer_record(StenoStatement *s, const StenoRecord *record);
extern void steno_commit_begins(void);
extern void steno_commit_measure(StenoStatement *s);
extern void steno_utility_queries(StenoLevel *l, int class, CmdType operation);
extern void steno_add_relations(StenoLevel *level, List *permissions);
extern void steno_statement_add_relation(Oid relid, uint32 access);
extern void steno_forget_utility(StenoLevel *l);

/* The record of a statement that has ended gets the time that it took. */
static inline void
steno_set_times(const StenoStatement *s, StenoRecord *record)
{
	record->duration = steno_duration(s);
	record->timed = steno_times_of(s, record->duration, &record->times);
}

/*
 * Whether the in-flight entry is that of a statement which ends.  Only one that has a copy of its record can have left
 * it to another.
 */
static inline bool
steno_has_entry(const StenoStatement *s)
{
	return s->top_level &&
		(likely(s->copy == NULL) || steno_my.producer.ring->inflight.statement == s->statement);
}

/* What a statement failed with, without its secrets. */
static inline const char *
steno_failure_message(const StenoStatement *s, const ErrorData *edata)
{
	if (steno_secret_quotes_nothing(edata))
		return edata->message;
	return steno_secret_hide_message(s->text, s->text_len,
									 edata->message ? edata->message : "missing error text");
}

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

/*
 * A client's statement has ended: whether the commit that comes next is a part of it,
 * and may fail.  What has written nothing commits, but in a serializable transaction, or
 * when it leaves a cursor WITH HOLD among the queries that are open besides its own.
 */
static inline bool
steno_ends_at_commit(const StenoStatement *s, uint64 xid, int own)
{
	if (steno_top_level.explicit_block && likely(!steno_top_level.more_queries))
		return false;
	return (xid != 0 ||
			unlikely(*steno_private.isolation_level == XACT_SERIALIZABLE || steno_top_level.more_queries ||
					 (steno_my.open_count > own && s->top_level && steno_open_has_holdable_cursor()))) &&
		s->top_level && steno_open_commits_alone(s);
}

/* ---- start_record.c ---- */

extern void steno_raise_in_query(StenoStatement *s);
extern void steno_raise_in_utility(StenoLevel *l);
extern void steno_start_query_wait(StenoStatement *s);
extern void steno_start_utility_wait(StenoLevel *l);
extern bool steno_cover_query(StenoStatement *s);
extern bool steno_cover_utility(StenoLevel *l);
extern void steno_fail_cancelled_query(StenoStatement *s);
extern bool steno_fail_cancelled_utility(StenoLevel *l);

/* Whether a statement that begins has a start record by its classes. */
static inline bool
steno_wants_start(const StenoStatement *s)
{
	return unlikely((steno_my.start_mask & steno_classes_of(s)) != 0) && s->recorded;
}

/* ---- failed_statement.c ---- */

/*
 * Whether a text that has failed can be parsed again.  When the main loop aborts the transaction, the error that it
 * handles would have to be copied (see error_of_main_loop).  When the process exits, an error would be FATAL.
 */
static inline bool
steno_can_parse_again(void)
{
	return !steno_main_loop_handles_error() && !proc_exit_inprogress;
}

/*
 * A query that the planner could not plan, in the PG_CATCH of the planner's hook, which owns it.
 * It points to the caller's query and parameters, which the hook's caller has yet to let go.
 */
typedef struct StenoUnplanned
{
	const Query *query;
	const char *source;
	int			class;
	const char *command;		/* NULL: SELECT */
	ParamListInfo params;
	int			depth;
	bool		forced;
	uint64		start;
} StenoUnplanned;

extern void steno_record_put_failed(StenoRecord *record, const StenoWritten *written);
extern void steno_encode_failed(StenoRecord *record, const char *command, const StenoWritten *written, Oid user);
extern void steno_fail(StenoLevel *l);
extern void steno_record_unplanned(const StenoUnplanned *q);
extern void steno_statement_failed(const ErrorData *edata);
extern bool steno_statement_fatal(const ErrorData *edata);
extern void steno_statement_aborted(void);
extern void steno_statement_rolled_back(SubTransactionId mine, SubTransactionId parent);
extern bool steno_statement_take_reported(const ErrorData *edata);
extern TimestampTz steno_statement_source(const char **source, int *end);
extern void steno_failure_reported(void);
extern bool steno_failure_is_reported(void);

/* ---- open_query.c ---- */

extern bool steno_hold_cursor(StenoStatement *s);
extern void steno_held_cursor_fetched(const char *name, uint64 rows);
extern void steno_open_park(StenoStatement *s);
extern void steno_open_park_all(void);
extern void steno_open_failed(const ErrorData *edata, SubTransactionId from);
extern void steno_open_close(SubTransactionId from);
extern void steno_open_finish_committed(void);
extern void steno_open_begin(void);
extern void steno_open_leave_entry(void);
extern void steno_open_fetched(QueryDesc *query);
extern void steno_open_keep(StenoStatement *s);
extern void steno_open_committed(void);
extern bool steno_open_fail_waiting(const ErrorData *edata);
extern bool steno_open_fail_committing(const ErrorData *edata);
extern void steno_open_fail_outside(const ErrorData *edata, bool reported);

#pragma GCC visibility pop

#endif							/* STENO_STATEMENT_RECORD_H */
