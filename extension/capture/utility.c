/*
 * extension/capture/utility.c
 *		Utility statements: their hook, and their records.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "commands/copy.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/cmdtag.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "capture/hooks.h"
#include "capture/statement_record.h"
#include "delivery/refusal.h"
#include "delivery/room.h"
#include "policy/audit_role.h"

/* Relations that fit a level before memory is taken. */
#define FEW_RELATIONS 16

/*
 * Whether a transaction may commit before the statement has ended, as those of CALL and VACUUM do.
 * If steno.sync covers the statement, that commit waits until the trail on disk says which statement
 * it was of, so there must be a start record.
 */
static bool
may_commit_inside(const StenoStatement *s)
{
	return s->class != STENO_CLASS_TRANSACTION && s->source != NULL && steno_is_synced(s) &&
		!steno_private.is_transaction_block();
}

STENO_COLD static void
put_utility_start(StenoLevel *l)
{
	const StenoEvent event = {.kind = STENO_KIND_START};
	StenoRecord record;
	StenoParams values;
	bool		covered = !(steno_my.start_mask & STENO_START_SHORT) || steno_cover_utility(l);

	if (!steno_start_mask_begin(l->utility) && covered && !may_commit_inside(l->utility))
		return;
	steno_make_utility_record(l, &event, &record, &values);
	steno_put_start_record(l->utility, steno_current_xid(), &record);
	steno_start_utility_wait(l);
}

/* ---- the hook ---- */

static inline void
call_utility(PlannedStmt *plan, const char *source, bool read_only_tree,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *environment, DestReceiver *dest,
			 QueryCompletion *completion)
{
	steno_private.previous_utility(plan, source, read_only_tree, context, params,
					 environment, dest, completion);
}

static inline uint64
utility_rows(const QueryCompletion *completion)
{
	switch (completion ? completion->commandTag : CMDTAG_UNKNOWN)
	{
		case CMDTAG_COPY:
		case CMDTAG_FETCH:
		case CMDTAG_MOVE:
		case CMDTAG_SELECT:
		case CMDTAG_REFRESH_MATERIALIZED_VIEW:
			return completion->nprocessed;
		default:
			return STENO_NONE64;
	}
}

/*
 * Note whether the next or current transaction is a block that BEGIN or AND CHAIN
 * has started.  The transaction of an aborted block has ended already, so no end of
 * a transaction comes before the chained one.
 */
static inline void
note_block(const TransactionStmt *statement)
{
	if (statement->kind == TRANS_STMT_BEGIN || statement->kind == TRANS_STMT_START)
		steno_top_level.explicit_block = true;
	else if (unlikely(statement->chain && steno_my.transaction == STENO_TRANSACTION_ABORTED))
		steno_top_level.chained = true;
	else
		steno_top_level.chains = statement->chain;
}

/* Statements that may change facts of the session. */
static inline bool
changes_session(Node *statement)
{
	if (IsA(statement, TransactionStmt))
		return ((TransactionStmt *) statement)->kind != TRANS_STMT_BEGIN;
	return IsA(statement, VariableSetStmt) || IsA(statement, DiscardStmt) || IsA(statement, DoStmt) ||
		IsA(statement, CallStmt);
}

static const char begin_command[] = "BEGIN";
static const char commit_command[] = "COMMIT";

/*
 * The command tag; those of the most frequent statements without the server's
 * table.  For COMMIT and PREPARE TRANSACTION of an aborted transaction, the server
 * reports ROLLBACK.
 */
static inline const char *
command_of(Node *statement)
{
	if (IsA(statement, TransactionStmt))
	{
		TransactionStmtKind kind = ((TransactionStmt *) statement)->kind;

		if (kind == TRANS_STMT_BEGIN)
			return begin_command;
		if ((kind == TRANS_STMT_COMMIT || kind == TRANS_STMT_PREPARE) && steno_private.is_aborted_block())
			return "ROLLBACK";
		if (kind == TRANS_STMT_COMMIT)
			return commit_command;
	}
	return GetCommandTagName(CreateCommandTag(statement));
}

/*
 * Stage the record of a client's transaction control statement, like those of
 * queries: everything but its numbers is known.  False if it must be made at the
 * end, like those of other utility statements: if the rules are applied then, or it
 * has functions that were called to plan a query that never ran.
 */
STENO_HOT static bool
stage_transaction(const StenoLevel *l)
{
	const StenoStatement *s = l->utility;
	uint8		shape[32];
	size_t		len;

	if (s->class != STENO_CLASS_TRANSACTION || l != &steno_top_level || !s->recorded ||
		s->suspect || s->objects != NULL || steno_my.policy != 0 || !steno_logs_text())
		return false;
	if (likely(s->text_len <= UINT8_MAX && steno_audit_reason(s->class, 0) == 0))
	{
		if (l->command == begin_command)
			return steno_stage_control(s, STENO_BRIEF_BEGIN);
		if (l->command == commit_command)
			return steno_stage_control(s, STENO_BRIEF_COMMIT);
	}
	len = strlen(l->command);
	if (len > sizeof(shape) - 5)
		return false;
	shape[0] = STENO_CLASS_TRANSACTION;
	shape[1] = 0;				/* no query id */
	shape[2] = (uint8) len;
	memcpy(shape + 3, l->command, len);
	shape[3 + len] = 0;			/* no relations */
	shape[4 + len] = 0;			/* no parameters */
	return steno_stage_query(s, shape, (uint32) len + 5, NULL);
}

/* Whether it is EXECUTE, by itself or in EXPLAIN and CREATE TABLE AS. */
static bool
executes(Node *statement)
{
	for (;;)
	{
		if (IsA(statement, ExplainStmt))
			statement = ((ExplainStmt *) statement)->query;
		else if (IsA(statement, CreateTableAsStmt))
			statement = ((CreateTableAsStmt *) statement)->query;
		else if (IsA(statement, Query) && ((Query *) statement)->commandType == CMD_UTILITY)
			statement = ((Query *) statement)->utilityStmt;
		else
			return IsA(statement, ExecuteStmt);
	}
}

static inline void
enter(StenoLevel *l, StenoStatement *s, const char *command, StenoAccess *few)
{
	s->state = STENO_NOT_MADE;
	l->tree = NULL;
	steno_enter(l, NULL, s, s->depth);
	l->command = command;
	l->query_id = 0;
	l->prepared = NULL;
	l->portal = NULL;
	l->params = NULL;
	l->params_missing = 0;
	l->operation = CMD_UNKNOWN;
	l->relations_count = 0;
	l->relations_missing = 0;
	l->relations_room = FEW_RELATIONS;
	l->few = few;
	l->relations = few;
}

/* It may have further classes: those of the query that it contains. */
static inline void
begin_further(StenoStatement *s, Node *statement)
{
	uint32		further = steno_further_classes(statement, s->class);

	if (unlikely(further != 0))
		steno_begin_further(s, further);
}

/*
 * The query identifier.  A hook outside ours may have cleared it, as that of pg_stat_statements does for its own
 * purposes; the server still knows that of the client's statement.
 */
static uint64
query_id_of(const StenoStatement *s, const PlannedStmt *plan)
{
	if (plan->queryId != 0 || !s->top_level || !plan->canSetTag)
		return plan->queryId;
	return pgstat_get_my_query_id();
}

/*
 * Copies of the names of the client's prepared statement and portal: the record may be made while the portal,
 * which has them, goes.
 */
static inline void
keep_names(StenoLevel *l)
{
	static char prepared[2 * NAMEDATALEN];
	static char portal[2 * NAMEDATALEN];
	const char *name = steno_prepared_name(l->utility);

	if (unlikely(name != NULL))
	{
		strlcpy(prepared, name, sizeof(prepared));
		l->prepared = prepared;
	}
	name = steno_portal_name(l->utility);
	if (unlikely(name != NULL))
	{
		strlcpy(portal, name, sizeof(portal));
		l->portal = portal;
	}
}

/* Take its parameters while they are certainly there. */
STENO_COLD static void
take_params(StenoLevel *l, ParamListInfo params)
{
	const StenoStatement *s = l->utility;

	if (!steno_logs_parameters() ||
		!(s->recorded || s->failures || steno_class_logged(STENO_CLASS_FUNCTION) || steno_my.policy != 0 ||
		  steno_role_is_set()))
		return;
	l->params = steno_params_take(params, &l->params_missing);
	if (unlikely(steno_my.start_mask & STENO_START_CANCELLED))
		steno_raise_in_utility(l);
}

STENO_HOT static void
enter_utility(StenoLevel *l, StenoStatement *s, const PlannedStmt *plan, ParamListInfo params, StenoAccess *few)
{
	Node	   *statement = plan->utilityStmt;

	enter(l, s, command_of(statement), few);
	l->declares = IsA(statement, DeclareCursorStmt);
	l->changes = changes_session(statement);
	l->command_ends = IsA(statement, CallStmt) || IsA(statement, DoStmt);
	l->tree = l->command_ends || s->class == STENO_CLASS_TRANSACTION ? NULL : statement;
	l->forces = l->declares || (s->class != STENO_CLASS_TRANSACTION && executes(statement));
	if (IsA(statement, TransactionStmt))
		steno_transaction_statement((TransactionStmt *) statement);
	else
	{
		begin_further(s, statement);
		l->query_id = query_id_of(s, plan);
		if (s->top_level)
			keep_names(l);
		l->since = GetCurrentCommandId(false);
		if (unlikely(steno_objects_are_expected(statement)))
			steno_objects_expect_named(steno_objects_of(s), statement);
		if (unlikely(params != NULL && params->numParams > 0))
			take_params(l, params);
	}
	if (unlikely(steno_my.policy != 0))
		steno_policy_judge_early(s);
	if (steno_wants_start(s))
		put_utility_start(l);
	if (stage_transaction(l))
		s->state = STENO_STAGED;
	else
		steno_write_inflight(s, NULL);
	if (unlikely(s->suspect) && steno_secret_given_up())
		steno_raise_in_utility(l);
}

/*
 * The tree of a statement that has run; NULL if a procedure has ended its
 * transaction, which may have freed the tree.
 */
static inline Node *
tree_after(const StenoLevel *l, Node *statement)
{
	return l->command_ends ? NULL : statement;
}

static inline bool
ends_prepared(const TransactionStmt *statement)
{
	return statement->kind == TRANS_STMT_COMMIT_PREPARED || statement->kind == TRANS_STMT_ROLLBACK_PREPARED;
}

STENO_HOT static void
leave_utility(StenoLevel *l, Node *statement, const QueryCompletion *completion)
{
	StenoStatement *s = l->utility;

	steno_leave(l);
	if (unlikely(s->state != STENO_STAGED))
		s->may_fail = true;
	steno_record_utility(l, NULL, utility_rows(completion));
	if (unlikely(steno_my.start_mask & STENO_START_CANCELLED) && steno_fail_cancelled_utility(l))
		steno_record_utility(l, NULL, utility_rows(completion));
	if (statement && IsA(statement, TransactionStmt) && unlikely(ends_prepared((TransactionStmt *) statement)))
		steno_transaction_statement_done((TransactionStmt *) statement);
	if (l->changes && steno_session_ready() && steno_private.is_transaction_state())
		steno_session_check(InvalidOid);	/* now, because the next statement may fail */
	else
		steno_role_learn();		/* DO may have set another role */
	if (steno_settings_are_dirty())
		steno_settings_record();
	steno_remember_end(s);
	steno_forget_utility(l);
}

/*
 * COMMIT and PREPARE TRANSACTION only request the end of the transaction, which
 * comes after the hook, may take long, and can fail, for example because of a
 * deferred constraint.  So the statement is running until then, unless it turned
 * into a rollback.
 */
static inline bool
ends_later(Node *statement, const QueryCompletion *completion)
{
	TransactionStmtKind kind;

	if (!IsA(statement, TransactionStmt))
		return false;
	kind = ((TransactionStmt *) statement)->kind;
	return (kind == TRANS_STMT_COMMIT || kind == TRANS_STMT_PREPARE) &&
		completion && completion->commandTag != CMDTAG_ROLLBACK;
}

/*
 * ROLLBACK also ends later if its record may have to wait: it must not wait while
 * its transaction holds locks.
 */
static inline bool
rolls_back_later(const StenoLevel *l, Node *statement)
{
	return l->utility->state != STENO_STAGED && IsA(statement, TransactionStmt) &&
		((TransactionStmt *) statement)->kind == TRANS_STMT_ROLLBACK && steno_private.is_transaction_state();
}

/* What FETCH has delivered of a cursor's stored rows is not seen by the executor's hooks. */
static inline void
note_fetched(Node *statement, const QueryCompletion *completion)
{
	if (unlikely(IsA(statement, FetchStmt)) && !((FetchStmt *) statement)->ismove && completion)
		steno_held_cursor_fetched(((FetchStmt *) statement)->portalname, completion->nprocessed);
}

/*
 * A client's statement begins while that of its last message seems to be running,
 * because we did not see its end.
 */
static inline void
leave_last(void)
{
	if (unlikely(steno_my.level == &steno_top_level && steno_top_level.ending))
		steno_utility_ended(&steno_top_level);
	steno_my.level = NULL;
}

/* ---- function calls ---- */

/* Stage the record of a function call: everything but its numbers is known. */
static bool
stage_call(const StenoLevel *l)
{
	StenoStatement *s = l->utility;
	const StenoEvent event = {.kind = STENO_KIND_STATEMENT};
	StenoRecord record;
	StenoParams values;

	/* the message of a failure may have to be redacted, so the record is made at the end */
	if (!s->recorded || s->redact != 0)
		return false;
	steno_make_utility_record(l, &event, &record, &values);
	return steno_stage_record(&record);
}

/* A client's FunctionCall message begins (object_access.c): a statement without text. */
STENO_COLD void
steno_utility_call(Oid function)
{
	static StenoAccess few[FEW_RELATIONS];
	StenoLevel *l = &steno_top_level;
	StenoStatement *s = &steno_my.top_utility;

	steno_check_level();
	if (steno_my.level != NULL && !steno_top_level.ending)
		return;
	leave_last();
	if (unlikely(steno_my.open_count > 0))
		steno_open_begin();
	steno_begin(s, NULL, 0, 0, STENO_CLASS_FUNCTION, 0, false);
	s->text = NULL;
	enter(l, s, STENO_CALL_COMMAND, few);
	l->ending = true;
	if (s->recorded || s->failures)
		steno_objects_called(steno_objects_of(s), function);
	if (unlikely(steno_my.policy != 0))
		steno_policy_judge(s, NULL, 0, false);
	if (steno_wants_start(s))
		put_utility_start(l);
	if (stage_call(l))
		s->state = STENO_STAGED;
	else
		steno_write_inflight(s, NULL);
}

/* ---- the hook, and whose statement it is ---- */

#define UTILITY_ARGS PlannedStmt *plan, const char *source, bool read_only_tree, \
	ProcessUtilityContext context, ParamListInfo params, \
	QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion
#define UTILITY_PASS plan, source, read_only_tree, context, params, environment, \
	dest, completion

/* A client's statement: only the server's main loop catches its errors. */
STENO_HOT static void
client_utility(UTILITY_ARGS)
{
	static StenoAccess few[FEW_RELATIONS];
	StenoStatement *s = &steno_my.top_utility;
	Node	   *statement = plan->utilityStmt;

	leave_last();
	if (unlikely(steno_my.open_count > 0))
		steno_open_begin();
	steno_begin(s, source, plan->stmt_location, plan->stmt_len,
				steno_class_of_utility(statement), 0, false);
	if (unlikely(steno_private.ahead.waiting > 0))
		steno_add_parse(s);
	enter_utility(&steno_top_level, s, plan, params, few);
	if (IsA(statement, TransactionStmt) && unlikely(ends_prepared((TransactionStmt *) statement)))
	{
		steno_transaction_ends_prepared((TransactionStmt *) statement);
		call_utility(UTILITY_PASS);
		steno_transaction_ended_prepared();
	}
	else
		call_utility(UTILITY_PASS);
	if (IsA(statement, TransactionStmt))
		note_block((TransactionStmt *) statement);
	if (ends_later(statement, completion) || unlikely(rolls_back_later(&steno_top_level, statement)))
	{
		const char *message = *steno_private.client_query;

		if (((TransactionStmt *) statement)->kind == TRANS_STMT_ROLLBACK)
			steno_objects_finish(s, statement);
		*steno_private.error_context = steno_top_level.callback.previous;
		steno_top_level.ending = true;

		/*
		 * Its source is freed with its portal, before its record is made, so use
		 * the server's copy.
		 */
		if (s->source != message && message && strcmp(s->source, message) == 0)
		{
			s->text = message + (s->text - s->source);
			s->source = message;
		}
		return;
	}
	note_fetched(statement, completion);
	statement = tree_after(&steno_top_level, statement);
	/* transaction control names no objects */
	if (s->objects != NULL || statement == NULL || !IsA(statement, TransactionStmt))
		steno_objects_finish(s, statement);
	leave_utility(&steno_top_level, statement, completion);
}

/*
 * A nested statement.  added: it is part of a client's statement, such as one that
 * a rule adds to it.
 */
static void
nested_utility(bool added, UTILITY_ARGS)
{
	Node	   *statement = plan->utilityStmt;
	StenoStatement s;
	StenoAccess few[FEW_RELATIONS];
	StenoLaunch before = steno_my.launch;
	StenoLevel	l;

	steno_begin(&s, source, plan->stmt_location, plan->stmt_len,
				steno_class_of_utility(statement),
				steno_my.level ? steno_my.level->inside : added ? 1 : steno_my.outside,
				added || (steno_my.level && steno_my.level->forces));
	if (STENO_KEY_WITHOUT_QUERY && InNoForceRLSOperation())
		s.policy |= STENO_S_IN_CHECK;	/* what it asks for itself is not that of a foreign key */
	if (unlikely(steno_my.open_count + s.depth + 1 > steno_reserve_covered) && s.recorded)
		steno_start_mask_short(true);
	enter_utility(&l, &s, plan, params, few);
	steno_may_launch(&s);
	PG_TRY();
	{
		call_utility(UTILITY_PASS);
		note_fetched(statement, completion);
		/* before the level is left, so that a disk error fails the statement */
		steno_objects_finish(&s, tree_after(&l, statement));
	}
	PG_CATCH();
	{
		steno_my.launch = before;
		steno_fail(&l);
		PG_RE_THROW();
	}
	PG_END_TRY();
	steno_my.launch = before;
	leave_utility(&l, tree_after(&l, statement), completion);
}

/*
 * Whether the server's main loop runs the statement: a portal with the client's text, while no statement is running.
 * Other libraries pass PROCESS_UTILITY_TOPLEVEL, too, wherever they are.  A statement that is ending can be followed
 * by the next one only in another message: in its own one, it has ended with its transaction before.
 */
static inline bool
is_client_utility(const char *source)
{
	const Portal portal = *steno_private.active_portal;

	if (unlikely(steno_my.level != NULL) &&
		(steno_my.level != &steno_top_level || !steno_top_level.ending ||
		 steno_my.anchor_time == steno_private.statement_start()))
		return false;
	return steno_is_client() && portal != NULL && portal->sourceText == source && steno_is_client_text(source);
}

STENO_HOT static void
process_utility(UTILITY_ARGS)
{
	bool		recording;

	steno_assert_may_run();
	steno_prefetch_state();
	steno_ring_prefetch(&steno_my.producer, 3);
	recording = steno_recording();
	steno_check_level();

	/*
	 * Subcommands, such as those of CREATE SCHEMA, except GRANT, are part of the
	 * statement itself.
	 */
	if (!recording || context == PROCESS_UTILITY_SUBCOMMAND)
	{
		int			class = steno_class_of_utility(plan->utilityStmt);
		StenoLevel *outer = recording && steno_my.level && steno_my.level->utility ? steno_my.level : NULL;

		if (outer)
			steno_utility_queries(outer, class, CMD_UTILITY);
		if (outer && class == STENO_CLASS_ROLE && outer->utility->class != STENO_CLASS_ROLE)
			nested_utility(true, UTILITY_PASS);
		else
			call_utility(UTILITY_PASS);
		if (steno_settings_are_dirty() && steno_my.level == NULL && !steno_is_paused())
			steno_settings_record();	/* recording may have been switched on */
	}
	else if (context == PROCESS_UTILITY_TOPLEVEL && likely(is_client_utility(source)))
	{
		steno_refusal_check(plan->utilityStmt);
		if (unlikely(!plan->canSetTag) && steno_my.level == NULL && *steno_private.active_portal &&
			steno_is_rewritten() && steno_rewritten_added(plan))
		{
			/* NOTIFY, by a rule */
			steno_rewritten_begin(plan);
			nested_utility(true, UTILITY_PASS);
			steno_rewritten_ended(plan);
		}
		else
			client_utility(UTILITY_PASS);
	}
	else
		nested_utility(false, UTILITY_PASS);
}

void
steno_utility_install(void)
{
	steno_private.is_transaction_state = IsTransactionState;
	steno_private.is_aborted_block = IsAbortedTransactionBlockState;
	steno_private.previous_utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = process_utility;
}
