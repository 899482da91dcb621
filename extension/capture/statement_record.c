/*
 * extension/capture/statement_record.c
 *		The record of a query or utility statement that has ended, and the relations
 *		that a utility statement collects for it while it runs.
 *
 * A statement that is a transaction of its own can still fail at its commit, so its
 * record waits for that (steno_open_defer_record), staged or, if it is too big, as
 * a copy.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"

#include "policy/audit_role.h"
#include "base/compat.h"
#include "capture/statement_record.h"
#include "describe/relation_cache.h"
#include "filter/redact.h"
#include "session/role.h"

/* ---- records that wait for the commit ---- */

/* Whether the commit must run cursors WITH HOLD to completion. */
STENO_COLD bool
steno_open_has_holdable_cursor(void)
{
	int			i;

	for (i = 0; i < steno_my.open_count; i++)
	{
		const Portal portal = steno_my.open[i].portal;

		if (portal && (portal->cursorOptions & CURSOR_OPT_HOLD) && portal->createSubid != InvalidSubTransactionId)
			return true;
	}
	return false;
}

/* Whether only white space and semicolons follow the statement in its source. */
static bool
is_last_of_source(const StenoStatement *s)
{
	const char *p = s->source + s->end;

	if (s->end < 0)
		return true;
	while (*p == ';' || *p == ' ' || *p == '\n' || *p == '\t' || *p == '\r' || *p == '\f')
		p++;
	return *p == '\0';
}

/*
 * Whether the commit comes next.  Outside of a transaction block, the statements of
 * one string are one transaction, which commits after the last of them.
 */
STENO_HOT bool
steno_open_commits_alone(const StenoStatement *s)
{
	if (unlikely(steno_private.top.more_queries))
		return steno_my.level == NULL;
	if (steno_private.is_transaction_block() &&
		likely(steno_private.top.explicit_block || steno_private.top.chained ||
			   (s->text == s->source && !STENO_IN_PIPELINE()) || !is_last_of_source(s)))
		return false;
	return steno_is_client() && steno_my.level == NULL && !steno_settings_are_dirty() &&
		!(steno_my.start_mask & STENO_START_CANCELLED);
}

/* When the commit began that a statement waits for; 0: it is not known yet. */
static uint64 commit_begun STENO_SESSION_DATA;

/*
 * A statement has ended, and its record waits for the commit.  With the simple protocol, that comes at once, or, if
 * the record was made only now, when there was room for it: to wait for that is no part of the commit.  With the
 * extended one, it comes with the client's Sync, for which nothing says when it has arrived.
 */
static inline void
begin_wait_for_commit(const StenoStatement *s, bool made)
{
	Portal		portal = *steno_private.active_portal;

	if (portal != NULL && portal->visible)
		commit_begun = 0;
	else
		commit_begun = unlikely(made) ? steno_clock_ticks(&steno_my.clock) : s->stopped;
}

/* The transaction is about to commit: what its deferred triggers run comes first, if they run anything. */
void
steno_commit_begins(void)
{
	if (commit_begun == 0)
		commit_begun = steno_clock_ticks(&steno_my.clock);
}

/* Note how long the commit has taken so far that a statement waits for, at least 1, if it is known when it began. */
void
steno_commit_measure(StenoStatement *s)
{
	if (commit_begun != 0)
		s->commit = Max(1, steno_short_us(steno_clock_us(&steno_my.clock, commit_begun,
														 steno_clock_ticks(&steno_my.clock))));
}

/*
 * A statement has ended, and commits next.  Its record is staged already, or is
 * passed as record and staged now, when there is room, or, if it is too big, copied.
 * False if there is none: the wait was canceled, which fails the statement, or it is
 * not waited for.
 */
STENO_HOT bool
steno_open_defer_record(StenoStatement *s, const StenoRecord *record)
{
	if (unlikely(record != NULL))
	{
		StenoCopy  *copy = NULL;
		bool		staged;

		/* before a wait for room */
		if (s->stopped == 0)
			s->stopped = steno_my.ended_ticks;
		staged = steno_stage_ended(record);
		if (!staged)
		{
			copy = steno_record_is_big(record) ? steno_copy_record(record) : NULL;
			if (copy == NULL)
				return false;
		}
		/* the record may point into the old one */
		if (s->copy)
			steno_copy_release(&s->copy);
		s->copy = copy;
		s->state = staged ? STENO_COMMITS_STAGED : STENO_COMMITS_COPIED;
	}
	else
		s->state = STENO_COMMITS_STAGED;
	if (unlikely(s->objects != NULL))
		steno_objects_release(&s->objects);
	s->query = NULL;
	s->portal = NULL;
	s->portal_watched = false;
	if (s->stopped == 0)
		s->stopped = steno_my.ended_ticks;
	begin_wait_for_commit(s, record != NULL);
	return true;
}

/* ---- queries ---- */

/* Add to what a plan does with relations which of them are audited through steno.role. */
STENO_COLD static void
add_audited(List *permissions, StenoAccess *found, int count)
{
	ListCell   *lc;
	int			n = 0;

	foreach(lc, permissions)
	{
		const StenoPermission *p = (const StenoPermission *) lfirst(lc);

		if (!STENO_IS_PERMISSION(p))
			continue;
		if (n == count)
			break;
		if (steno_audit_known(p))
			found[found[n].first].access |= STENO_ACCESS_AUDITED;
		n++;
	}
}

/*
 * How many of the permissions, after the first ones, would be in the record.  Those of one relation are
 * not counted as one, which takes memory that is not there.
 */
STENO_COLD static int
count_missing(const List *permissions, int first)
{
	ListCell   *lc;
	int			n = 0;
	int			missing = 0;

	foreach(lc, permissions)
	{
		const StenoPermission *p = (const StenoPermission *) lfirst(lc);

		if (STENO_IS_PERMISSION(p) && n++ >= first &&
			(steno_logs_relations() || (steno_role_is_set() && steno_audit_known(p))))
			missing++;
	}
	return missing;
}

/*
 * What a plan does with relations, as far as there is room; *missing counts the others.  Returns the number
 * of entries.
 */
int
steno_plan_relations(const PlannedStmt *plan, StenoAccess *found, int room, int *missing)
{
	List	   *permissions = STENO_PLAN_PERMISSIONS(plan);

	*missing = unlikely(list_length(permissions) > room) ? count_missing(permissions, room) : 0;
	return steno_accesses_of(permissions, found, room);
}

/*
 * Add the failure of the statement to its record.  message has no secrets any more.  Without an error, its
 * process exits, for example because the postmaster has died.  An error of an extension may lack the code.
 */
static void
add_failure(const ErrorData *edata, const char *message, StenoRecord *record)
{
	bool		failed = edata->sqlerrcode != 0 || edata->message != NULL;

	record->outcome = failed ? STENO_OUTCOME_ERROR : STENO_OUTCOME_INTERRUPTED;
	record->sqlerrcode = edata->sqlerrcode;
	record->message = failed ? message : NULL;
}

/* Add the statement's text, without secrets.  of_ended: the statement has run. */
static inline void
add_text(StenoStatement *s, const StenoCuts *cuts, bool of_ended, StenoRecord *record)
{
	if (unlikely(!steno_logs_text()))
		return;
	record->text = s->text;
	record->text_len = s->text_len;
	if (unlikely(s->suspect) && record->text)
	{
		if (cuts)
			steno_secret_cut(s->text, s->text_len, cuts, PG_UINT64_MAX, &record->text, &record->text_len);
		else
			s->suspect = steno_secret_hide_text(s->text, s->text_len, of_ended, PG_UINT64_MAX,
												&record->text, &record->text_len);
	}
}

/*
 * Make the record of a statement, without the numbers of its end.  All records are
 * made here, and each step is done once: the statement is described, its secrets
 * are removed, and what the rules hide is removed.  The caller then encodes the
 * record (staged, copied or put), and it is never made again.  shape gets class and
 * objects from the statement.  values has room for parameters; NULL if the shape
 * has none.  The record points into the statement, values and the memory for one
 * record.
 */
static pg_attribute_always_inline void
make_record(StenoStatement *s, const StenoEvent *event, StenoShape *shape, StenoRecord *record, StenoParams *values)
{
	steno_record_init(record, event->kind);
	shape->class = s->class;
	shape->objects = s->objects;
	if (unlikely(s->policy & STENO_S_NO_PARAMETERS))
		shape->params = NULL;
	steno_encode_shape(record, shape, values);
	record->time = s->time;
	record->statement = s->statement;
	record->substatement = s->top_level ? 0 : s->substatement;
	record->depth = s->depth;
	add_text(s, event->cuts, event->kind == STENO_KIND_STATEMENT, record);
	if (unlikely(event->edata != NULL))
		add_failure(event->edata, steno_failure_message(s, event->edata), record);
	steno_policy_apply(s, record);
}

/* The same for a statement that failed before a hook saw it. */
STENO_COLD void
steno_make_record(StenoStatement *s, const StenoEvent *event, StenoShape *shape, StenoRecord *record,
				  StenoParams *values)
{
	make_record(s, event, shape, record, values);
}

/*
 * Read the record from the statement's copy, whose text is as make_record left it.
 * edata: the statement has failed.  The record points into the copy, which is freed
 * with the statement.
 */
void
steno_read_copied_record(StenoStatement *s, const ErrorData *edata, const char *message, StenoRecord *record)
{
	steno_copy_read(s->copy, s->objects, record);
	if (edata == NULL)
		return;
	add_failure(edata, message, record);
	if (unlikely(s->redact != 0))
		steno_policy_redact_message(s, record);
}

/* The statement has ended: put its record, which has been made. */
static inline void
put_ended(const StenoStatement *s, StenoRecord *record, bool has_entry)
{
	steno_set_times(s, record);
	record->xid = steno_current_xid();
	record->may_fail = s->may_fail && record->outcome == STENO_OUTCOME_OK;
	steno_record_put(record, has_entry);
}

/* The same for one that has perhaps never had the in-flight entry: a query that could not be planned has not. */
STENO_COLD void
steno_put_ended(const StenoStatement *s, StenoRecord *record)
{
	put_ended(s, record, s->top_level && steno_my.producer.ring->inflight.statement == s->statement);
}

/* Put the start record of a statement; xid: of its transaction, 0: none. */
STENO_COLD void
steno_put_start_record(const StenoStatement *s, uint64 xid, StenoRecord *record)
{
	record->outcome = STENO_OUTCOME_RUNNING;
	record->xid = xid;
	if (s->top_level)
		STENO_STORE(steno_my.producer.ring->inflight.announced, s->statement);
	steno_record_put(record, false);
}

/*
 * Make the record of a query.  closed: its portal was closed by the end of a
 * transaction, and its plan may be gone.
 */
void
steno_make_query_record(StenoStatement *s, const StenoEvent *event, bool closed, StenoRecord *record,
						StenoParams *values)
{
	QueryDesc  *query = s->query;
	StenoAccess few[32];
	StenoAccess *relations = few;
	int			room = lengthof(few);
	int			count = 0;
	StenoShape	shape;
	bool		known = event->edata == NULL && !closed;	/* its portal has not gone */
	const char *portal_name = known ? steno_portal_name(s) : NULL;

	shape.missing = 0;
	shape.written = NULL;

	if (!closed)
	{
		int			most = list_length(STENO_PLAN_PERMISSIONS(query->plannedstmt));

		if (unlikely(most > room))
		{
			relations = steno_scratch(most * sizeof(StenoAccess));
			if (relations)
				room = most;
			else
				relations = few;
		}
		count = steno_plan_relations(query->plannedstmt, relations, room, &shape.missing);
		if (unlikely(s->audited & STENO_AUDITED_OBJECT))
			add_audited(STENO_PLAN_PERMISSIONS(query->plannedstmt), relations, count);
	}
	shape.query_command = NULL;
	shape.prepared = known && s->top_level ? steno_prepared_name(s) : NULL;
	shape.query_id = closed ? 0 : query->plannedstmt->queryId;
	shape.command = steno_query_command(query->operation);
	shape.relations = relations;
	shape.count = count;
	shape.params = query->params;
	shape.failing = event->edata != NULL || closed;
	make_record(s, event, &shape, record, values);
	if (unlikely(portal_name != NULL))
		steno_record_add_extra(record, "portal", portal_name);
}

/* Rows that a query has returned before it failed, if it was run more than once. */
static inline uint64
failed_rows(const StenoStatement *s)
{
	return s->rows > 0 && steno_logs_rows() ? s->rows : STENO_NONE64;
}

/* Copy what the record of the query needs. */
STENO_COLD void
steno_copy_query(StenoStatement *s)
{
	StenoObjects *objects = s->objects;
	const StenoEvent event = {.kind = STENO_KIND_STATEMENT};
	StenoRecord record;
	StenoParams values;

	if (steno_is_staged(s))
	{
		steno_unstage();
		if (s->copy)
			return;
	}
	/* objects may still be added, so the copy does not have them */
	s->objects = NULL;
	steno_make_query_record(s, &event, false, &record, &values);
	s->objects = objects;
	s->copy = steno_copy_record(&record);
	if (s->copy)
		s->state = STENO_COPIED;
}

/* Record a query that has ended; edata: it has failed; closed: see steno_make_query_record. */
void
steno_record_query(StenoStatement *s, const ErrorData *edata, bool closed)
{
	const StenoEvent event = {.kind = STENO_KIND_STATEMENT, .edata = edata};
	bool		described = false;
	StenoRecord record;
	StenoParams values;

	if (steno_is_staged(s))
	{
		if (edata == NULL)
		{
			/* its record needs but the numbers of its end */
			steno_staged_finish(s, steno_logs_rows() ? s->rows : STENO_NONE64,
								steno_current_xid());
			return;
		}
		if (s->redact == 0 && !steno_raised.unnamed &&
			steno_staged_fail(s, failed_rows(s), steno_current_xid(),
									   edata->sqlerrcode, steno_failure_message(s, edata)))
			return;
		steno_unstage();
	}
	if (unlikely(steno_my.policy != 0) && edata && !s->recorded)
	{
		if (closed)
			steno_policy_judge_failure(s, NULL, 0);
		else
			steno_policy_judge_plan(s, s->query->plannedstmt, true);
	}
	if (unlikely(edata != NULL) && steno_raised.unnamed && !s->recorded)
		steno_policy_judge_unnamed(s);
	if (!(s->recorded || (edata && s->failures)) || !steno_session_ready())
		return;
	if (s->who != NULL)
		described = steno_identity_describe(s->who);
	else if (edata == NULL && !closed)
		steno_describe(s->user_id);
	else
		steno_session_failing(s->user_id);
	if (s->copy != NULL)
		steno_read_copied_record(s, edata, edata ? steno_failure_message(s, edata) : NULL, &record);
	else
	{
		steno_work_ends(s, s->top_level && s->query->params != NULL);
		steno_make_query_record(s, &event, closed, &record, &values);
	}
	if (unlikely(edata != NULL) && steno_raised.unnamed)
		steno_record_add_omitted(&record, "relations_omitted", 1);
	record.rows = edata ? failed_rows(s) : steno_logs_rows() ? s->rows : STENO_NONE64;
	/* the rows of a query that a rule has added are not counted */
	if (s->copy == NULL && s->portal == NULL && s->depth > 0 && !s->query->plannedstmt->canSetTag)
		record.rows = STENO_NONE64;
	put_ended(s, &record, steno_has_entry(s));
	if (described)
		steno_identity_described();
}

/* ---- relations of utility statements ---- */

/*
 * The utility statement runs a query that is part of its record, as CREATE TABLE AS
 * and EXPLAIN ANALYZE do, or a subcommand, as CREATE SCHEMA does: it is also
 * recorded if the class of these is.  operation: of the query; CMD_UTILITY: a subcommand.
 */
STENO_COLD void
steno_utility_queries(StenoLevel *l, int class, CmdType operation)
{
	bool		shown = l->utility->recorded;

	if (l->operation == CMD_UNKNOWN)
		l->operation = operation;
	steno_begin_also(l->utility, class);
	if (!shown)
		steno_write_inflight(l->utility, NULL);
}

/* Free the sets of columns of the relations, and then their list. */
static void
free_relations(StenoLevel *l)
{
	int			i;
	int			set;

	for (i = 0; i < l->relations_count; i++)
		for (set = 0; set < STENO_COLUMN_SETS; set++)
			if (l->relations[i].columns[set])
				pfree(unconstify(Bitmapset *, l->relations[i].columns[set]));
	l->relations_count = 0;
	if (l->relations != l->few)
		pfree(l->relations);
	l->relations = l->few;
}

/* Release what the statement has collected: it has its record. */
STENO_HOT void
steno_forget_utility(StenoLevel *l)
{
	free_relations(l);
	if (unlikely(l->params != NULL))
	{
		steno_params_release(l->params);
		l->params = NULL;
	}
	if (l->utility->objects)
		steno_objects_release(&l->utility->objects);
}

/*
 * Add what a utility statement does with a relation; p: a permission that is checked, or NULL.
 */
STENO_COLD static void
add_touched_relation(StenoLevel *level, const StenoAccess *access, const StenoPermission *p, bool audited)
{
	StenoStatement *s = level->utility;
	StenoAccess *r;
	int			set;
	int			i;

	if (audited)
	{
		bool		shown = s->recorded;

		steno_begin_audited(s);
		if (!shown)
			steno_write_inflight(s, NULL);
	}
	for (i = 0; i < level->relations_count; i++)
		if (level->relations[i].relid == access->relid && level->relations[i].via == access->via)
			break;
	if (i == level->relations_room)
	{
		int			room = level->relations_room * 2;
		StenoAccess *more = MemoryContextAllocExtended(TopMemoryContext,
													   room * sizeof(StenoAccess),
													   MCXT_ALLOC_NO_OOM);

		if (more == NULL)
		{
			level->relations_missing++;	/* once for each of its accesses */
			return;
		}
		memcpy(more, level->relations, level->relations_count * sizeof(StenoAccess));
		if (level->relations != level->few)
			pfree(level->relations);
		level->relations = more;
		level->relations_room = room;
	}
	r = &level->relations[i];
	if (i == level->relations_count)
	{
		steno_relation_cache_name(access->relid);
		if (unlikely(steno_my.policy != 0))
			steno_policy_cache_relation(access->relid);
		*r = (StenoAccess) {.relid = access->relid, .via = access->via, .first = i};
		level->relations_count++;
	}
	r->access |= steno_access_of(p ? p->requiredPerms : 0) | (p ? 0 : access->access) |
		(audited ? STENO_ACCESS_AUDITED : 0);
	for (set = 0; p && set < STENO_COLUMN_SETS; set++)
		r->columns[set] = steno_columns_add(r->columns[set], steno_columns_of(p, set));
}

/* Add the relations whose permissions a utility statement, such as COPY, checks. */
STENO_COLD void
steno_add_relations(StenoLevel *level, List *permissions)
{
	StenoAccess few[8];
	StenoAccess *found = few;
	int			room = lengthof(few);
	int			count;
	int			n = 0;
	ListCell   *lc;

	foreach(lc, permissions)
	{
		const StenoPermission *p = (const StenoPermission *) lfirst(lc);

		if (STENO_IS_PERMISSION(p))
			steno_columns_cache(p);
	}
	if (list_length(permissions) > room)
	{
		found = palloc_extended(list_length(permissions) * sizeof(StenoAccess), MCXT_ALLOC_NO_OOM);
		if (found)
			room = list_length(permissions);
		else
			found = few;
	}
	if (unlikely(list_length(permissions) > room))
		level->relations_missing += count_missing(permissions, room);
	count = steno_accesses_of(permissions, found, room);
	foreach(lc, permissions)
	{
		const StenoPermission *p = (const StenoPermission *) lfirst(lc);

		if (!STENO_IS_PERMISSION(p) || n == count)
			continue;
		add_touched_relation(level, &found[n++], p, steno_role_is_set() && steno_audit_permission(p));
	}
	if (found != few)
		pfree(found);
}

/* Add a relation that the running utility statement uses without such a check. */
void
steno_statement_add_relation(Oid relid, uint32 access)
{
	const StenoAccess touched = {.relid = relid, .access = access};

	if (steno_my.level && steno_my.level->utility)
		add_touched_relation(steno_my.level, &touched, NULL,
							 steno_role_is_set() && (access & STENO_ACCESS_TRUNCATE) &&
							 steno_audit_relation(relid, ACL_TRUNCATE));
}

/* ---- utility statements ---- */

/*
 * Names as they are written: where those without a schema were looked for, by the role with this number.  A name of a
 * role that nobody can have means that it is not known.
 */
STENO_COLD void
steno_add_search_path(StenoRecord *record, const StenoWritten *written, Oid user)
{
	char		name[NAMEDATALEN];

	steno_role_name_failing(name, user, "role");
	steno_written_add_path(record, written, strncmp(name, "pg_unknown ", 11) == 0 ? NULL : name);
}

/* Whether a name is that of a relation which was found, with all that it is said to be used for. */
static bool
is_found(const StenoWrittenName *n, const StenoAccess *relations, int count)
{
	char		name[STENO_RELATION_NAME_MAX];
	uint8	   *p = (uint8 *) name;
	int			i;

	if (n->schema[0] != '\0')
		p = steno_put_identifier(p, n->schema);
	*p++ = '.';
	p = steno_put_identifier(p, n->name);
	for (i = 0; i < count; i++)
	{
		const StenoRelation *r = steno_relation_find(relations[i].relid);
		int			len = (char *) p - name;
		int			before = r ? r->name_len - len : -1;	/* the schema, if none is written */

		if (before < 0 || (before > 0 && n->schema[0] != '\0') || memcmp(r->name + before, name, len) != 0)
			continue;
		if ((n->access & ~(STENO_ACCESS_WRITTEN | relations[i].access)) == 0)
			return true;
	}
	return false;
}

/* What a utility statement that has failed names, besides the relations that it has looked up. */
STENO_COLD static void
names_of_failed(StenoWritten *written, const StenoLevel *l, const ErrorData *edata)
{
	const StenoStatement *s = l->utility;
	MemoryContext old;
	bool		parsed = false;
	int			i;

	written->count = 0;
	written->omitted = 0;
	written->class = 0;
	written->executes = false;
	if (s->class == STENO_CLASS_TRANSACTION || s->text == NULL)
		return;
	if (edata->elevel == ERROR && steno_can_parse_again())
	{
		old = MemoryContextSwitchTo(steno_raised.context);
		parsed = steno_written_in_text(written, s->text, s->text_len, s->depth > 0, 0);
		MemoryContextSwitchTo(old);
	}
	/* the server may have changed the tree, or have parsed the text when its strings ended elsewhere */
	if (l->tree && edata->sqlerrcode != ERRCODE_STATEMENT_TOO_COMPLEX &&
		(!parsed || memchr(s->text, '\\', s->text_len) != NULL))
		steno_written_in_tree(written, l->tree);
	else if (!parsed)
		written->omitted = 1;
	if (steno_raised.unnamed ||
		(steno_raised.direct && written->executes && edata->sqlerrcode != ERRCODE_UNDEFINED_PSTATEMENT))
		written->omitted++;
	for (i = 0; i < written->count; i++)
		if (is_found(&written->names[i], l->relations, l->relations_count))
			written->names[i--] = written->names[--written->count];
}

/*
 * Make the record of a utility statement.  written: what it names, if it has failed; NULL: nothing.  values has room
 * for its parameters.
 */
static void
make_utility_record(const StenoLevel *l, const StenoEvent *event, const StenoWritten *written, StenoRecord *record,
					StenoParams *values)
{
	StenoShape	shape = {
		.query_id = l->query_id,
		.prepared = l->prepared,
		.params = l->params,
		.command = l->command,
		.query_command = steno_changes_rows(l->operation) ? steno_query_command(l->operation) : NULL,
		.relations = l->relations,
		.count = l->relations_count,
		.missing = l->relations_missing
	};

	if (unlikely(written != NULL) && steno_logs_relations() && written->count + written->omitted > 0)
		shape.written = written;
	make_record(l->utility, event, &shape, record, values);
	if (unlikely(shape.written != NULL))
		steno_add_search_path(record, shape.written, l->utility->user_id);
	if (unlikely(l->portal != NULL))
		steno_record_add_extra(record, "portal", l->portal);
	if (unlikely(l->params_missing > 0))
		steno_record_add_omitted(record, "parameters_omitted", l->params_missing);
}

/* The same for one that runs. */
void
steno_make_utility_record(const StenoLevel *l, const StenoEvent *event, StenoRecord *record, StenoParams *values)
{
	make_utility_record(l, event, NULL, record, values);
}

/*
 * The client's statement has succeeded: let its record wait for the commit if that
 * comes next; returns whether it waits.
 */
static bool
defer_utility_record(const StenoStatement *s, StenoRecord *record)
{
	uint64		xid = steno_current_xid();
	StenoStatement *deferred;

	if (!steno_private.is_transaction_state() || !steno_ends_at_commit(s, xid, 0))
		return false;
	deferred = steno_add_open(NULL);
	if (deferred == NULL)
		return false;
	*deferred = *s;
	deferred->query = NULL;
	deferred->objects = NULL;			/* the record has them */
	deferred->rows = 0;
	deferred->portal = NULL;
	deferred->copy = NULL;
	deferred->who = NULL;
	deferred->subid = steno_my.subid;
	deferred->state = STENO_NOT_MADE;
	deferred->plan_cached = false;
	deferred->portal_watched = false;
	deferred->kept = NULL;
	steno_set_times(s, record);
	record->xid = xid;
	if (steno_open_defer_record(deferred, record))
		return true;
	steno_forget_open(deferred);
	return false;
}

/* A utility statement has failed. */
STENO_COLD static void
record_failed_utility(StenoLevel *l, const ErrorData *edata)
{
	StenoStatement *s = l->utility;
	const StenoEvent event = {.kind = STENO_KIND_STATEMENT, .edata = edata};
	StenoRecord record;
	StenoParams values;
	StenoWritten written;

	if (steno_is_staged(s))
	{
		if (l->relations_count == 0 && s->audited == 0 &&
			steno_staged_fail(s, STENO_NONE64, steno_current_xid(), edata->sqlerrcode, steno_failure_message(s, edata)))
			return;
		steno_unstage();
	}
	if (!steno_session_ready())
		return;
	if (unlikely(steno_my.policy != 0))
	{
		steno_policy_judge(s, l->relations, l->relations_count, true);
		if (!s->recorded)
			steno_policy_judge_failure(s, l->relations, l->relations_count);
	}
	names_of_failed(&written, l, edata);
	if (steno_my.policy != 0 || steno_role_is_set())
		steno_policy_judge_written(s, s->class, &written);
	if (steno_raised.unnamed && !s->recorded)
		steno_policy_judge_unnamed(s);
	if (!s->recorded && !s->failures)
		return;
	/* nested statements may have run as another role */
	steno_session_failing(s->user_id);
	steno_work_ends(s, s->top_level && l->params != NULL);
	make_utility_record(l, &event, &written, &record, &values);
	put_ended(s, &record, s->top_level);
}

STENO_HOT void
steno_record_utility(StenoLevel *l, const ErrorData *edata, uint64 rows)
{
	StenoStatement *s = l->utility;
	const StenoEvent event = {.kind = STENO_KIND_STATEMENT};
	StenoRecord record;
	StenoParams values;

	if (unlikely(edata != NULL))
	{
		record_failed_utility(l, edata);
		return;
	}
	if (steno_is_staged(s))
	{
		/*
		 * Relations added since it was staged are not in the staged record; an
		 * added object unstages it.
		 */
		if (likely(l->relations_count == 0 && s->audited == 0))
		{
			steno_staged_finish(s, STENO_NONE64, steno_current_xid());
			return;
		}
		steno_unstage();
	}
	if (unlikely(steno_my.policy != 0))
		steno_policy_judge(s, l->relations, l->relations_count, false);
	if (!s->recorded || !steno_session_ready())
		return;
	/* nested statements may have run as another role, and catalogs cannot be read at commit */
	if (unlikely(steno_my.user_id != s->user_id))
	{
		if (IsTransactionState())
			steno_session_check(s->user_id);
		else
			steno_session_failing(s->user_id);
	}
	steno_work_ends(s, s->top_level && l->params != NULL);
	make_utility_record(l, &event, NULL, &record, &values);
	if (steno_logs_rows())
		record.rows = rows;
	if (l == &steno_top_level && !l->ending && defer_utility_record(s, &record))
		return;
	put_ended(s, &record, s->top_level);
}

/* The transaction of a COMMIT or ROLLBACK statement has ended, and with it the statement. */
STENO_HOT void
steno_utility_ended(StenoLevel *l)
{
	steno_my.level = l->outer;
	steno_record_utility(l, NULL, STENO_NONE64);
	steno_remember_end(l->utility);
	steno_forget_utility(l);
}
