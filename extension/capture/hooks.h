/*
 * extension/capture/hooks.h
 *		The files that have the server's hooks: how these are installed, and what the files call of each
 *		other.
 */
#ifndef STENO_HOOKS_H
#define STENO_HOOKS_H

#include "base/steno.h"

#include "tcop/pquery.h"

#pragma GCC visibility push(hidden)

/* Called once, when the library is loaded. */
extern void steno_statement_install(void);
extern void steno_planner_install(void);
extern void steno_query_install(void);
extern void steno_utility_install(void);
extern void steno_object_access_install(void);
extern void steno_transaction_install(void);
extern void steno_failure_install(void);

/* ---- failed_statement.c: processes without a client ---- */

extern void steno_watch_background(void);
extern bool steno_background_failed(const ErrorData *edata, Oid *user_id, uint64 *xid);

/* ---- planner.c ---- */

extern void steno_parse_logged(const ErrorData *edata);
extern void steno_add_parse(StenoStatement *s);
extern bool steno_failed_after_analysis(void);
extern void steno_told_apart(StenoStatement *s, const PlannedStmt *plan, Portal portal);

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

/* ---- utility.c ---- */

extern void steno_utility_call(Oid function);

/* ---- transaction.c ---- */

extern void steno_transaction_statement(const TransactionStmt *statement);
extern void steno_transaction_ends_prepared(const TransactionStmt *statement);
extern void steno_transaction_ended_prepared(void);
extern void steno_transaction_statement_done(const TransactionStmt *statement);

/* ---- object_access.c: functions that clients call by the FunctionCall message ---- */

/* A client's function call, where others have a command tag. */
#define STENO_CALL_COMMAND "FUNCTION CALL"

extern bool steno_fastpath_message(void);

#pragma GCC visibility pop

#endif							/* STENO_HOOKS_H */
