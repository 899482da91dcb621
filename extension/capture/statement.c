/*
 * extension/capture/statement.c
 *		Statements of any kind: how they begin, and which are running and open.
 *
 * A query is open from ExecutorStart to ExecutorEnd; open queries are kept in an
 * array (open_query.c), since a cursor stays open while other statements run.  A statement is
 * running while one of its hooks is on the C stack: a level there links the
 * running statements, innermost first, and gives the nesting depth.
 *
 * A query that a utility statement runs as its own (COPY (query), CREATE TABLE AS,
 * EXPLAIN ANALYZE) has the utility statement's source text and is part of its
 * record.  Those of EXECUTE and DECLARE CURSOR have a record of their own, one
 * level deeper, even if steno.log_nested is off.
 */
#include "base/steno.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "capture/hooks.h"
#include "capture/statement.h"
#include "delivery/room.h"
#include "error/origin.h"
#include "filter/redact.h"
#include "filter/split.h"
#include "policy/policy.h"
#include "policy/secret.h"
#include "written/written.h"

StenoRaised steno_raised;

/* ---- errors that were raised ---- */

STENO_COLD void
steno_forget_raised(void)
{
	if (steno_error_is_noted())
	{
		steno_set_unusual(STENO_U_ERROR_NOTED, false);
		steno_raised.code = 0;
		steno_raised.query = NULL;
		MemoryContextReset(steno_raised.context);
	}
}

/*
 * A failure is recorded: that must not wait for room if the session may hold a lightweight lock, for which others
 * then wait, too.  Returns what steno_failure_ends gets.
 */
STENO_COLD uint32
steno_failure_begins(void)
{
	uint32		before = steno_my.start_mask & STENO_START_HURRY;

	if (steno_holds_lwlock(steno_raised.held))
		steno_my.start_mask |= STENO_START_HURRY;
	return before;
}

STENO_COLD void
steno_failure_ends(uint32 before)
{
	steno_my.start_mask = (steno_my.start_mask & ~STENO_START_HURRY) | before;
}

/*
 * Error context callback, called for every message that is raised while a statement
 * runs.  Inner callbacks have been called before, so the text of a nested statement
 * that failed in analysis is known.
 */
STENO_COLD void
steno_note_raised(void *arg)
{
	int			code = geterrcode();
	MemoryContext old;
	ErrorData  *edata;

	steno_raised.held = InterruptHoldoffCount > 0;
	/* memory cannot be allocated in a critical section, where an error is a PANIC */
	if (arg != steno_my.level || steno_is_paused() || ERRCODE_TO_CATEGORY(code) == ERRCODE_SUCCESSFUL_COMPLETION ||
		ERRCODE_TO_CATEGORY(code) == ERRCODE_WARNING || CritSectionCount > 0)
		return;
	steno_forget_raised();
	old = MemoryContextSwitchTo(steno_raised.context);
	edata = CopyErrorData();
	if (edata->elevel >= ERROR)
	{
		steno_set_unusual(STENO_U_ERROR_NOTED, true);
		steno_raised.code = edata->sqlerrcode;
		/* outside of any statement, a function may have caught the one before */
		if (arg == NULL)
		{
			steno_failure_forgotten();
			steno_raised.transaction = IsTransactionState() ? GetCurrentTransactionStartTimestamp() : 0;
		}
		steno_raised.recorded_code = 0;
		steno_raised.message = edata->message;
		steno_raised.query = edata->internalquery;
		steno_raised.by_grammar = steno_error_of_grammar(edata);
		steno_raised.before_execution = steno_error_before_execution(edata);
		steno_raised.at = edata->internalpos;
		steno_raised.filename = edata->filename;
		steno_raised.user_id = steno_private.get_user_id();
	}
	MemoryContextSwitchTo(old);
	if (!steno_error_is_noted())
		MemoryContextReset(steno_raised.context);
}

/* ---- open queries ---- */

STENO_COLD StenoStatement *
steno_more_open(QueryDesc *query)
{
	int			room = steno_my.open_room * 2;
	StenoStatement *more = MemoryContextAllocExtended(TopMemoryContext,
												  room * sizeof(StenoStatement),
												  MCXT_ALLOC_NO_OOM);

	if (more == NULL)
		return NULL;
	memcpy(more, steno_my.open, steno_my.open_count * sizeof(StenoStatement));
	if (steno_my.open != steno_my.few_open)
		pfree(steno_my.open);
	steno_my.open = more;
	steno_my.open_room = room;
	/* the reserve of the ring must grow with it, or statements must check it */
	(void) steno_reserve_cover(room);
	steno_start_mask_short(true);
	return steno_add_open(query);
}

/* Find an open query when there are several, because of cursors or nested queries. */
StenoStatement *
steno_find_of_many(QueryDesc *query)
{
	int			i;

	for (i = steno_my.open_count - 1; i >= 0; i--)
		if (steno_my.open[i].query == query)
			return &steno_my.open[i];
	return NULL;
}

/* ---- the clock on the wall ---- */

STENO_COLD void
steno_wall_read(uint64 ticks)
{
	if (steno_my.wall_limit == 0)
		steno_my.wall_limit = steno_my.clock.scale == 0 ? UINT64CONST(1000) * STENO_WALL_US :
			(uint64) STENO_WALL_US * ((UINT64CONST(1) << 32) * 1.0 / steno_my.clock.scale);
	steno_my.wall_time = GetCurrentTimestamp();
	steno_my.wall_ticks = ticks;
}

/* ---- beginning ---- */

static inline bool
is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
}

#if STENO_LOCATION_IS_TOKEN
/*
 * Where the text of a statement with its first token at location begins, including
 * the comments before it.  The search starts at the end of the previous statement
 * of the same message, if there is one.
 */
static pg_noinline int
with_comments(const StenoStatement *s, const char *source, int location)
{
	int			from = 0;

	if (s->top_level && steno_my.last_source == source && steno_my.last_time == steno_my.anchor_time &&
		steno_my.last_end > 0 && steno_my.last_end < location && source[steno_my.last_end] == ';')
		from = steno_my.last_end;
	return (int) steno_split_begin(source, STENO_STANDARD_STRINGS, from, location);
}
#endif

/* Find the statement's own text in its source. */
static pg_attribute_always_inline void
find_text(StenoStatement *s, const char *source, int location, int length)
{
	const char *text;
	size_t		n;

	if (source == NULL)
		source = "";
	text = location > 0 ? source + location : source;
#if STENO_LOCATION_IS_TOKEN
	if (unlikely(location > 0))
	{
		int			begin = with_comments(s, source, location);

		text = source + begin;
		if (length > 0)
			length += location - begin;
		location = begin;
	}
#endif
	if (location >= 0 && length > 0)
	{
		n = length;
		s->end = location + length;
	}
	else
	{
		n = strlen(text);
		s->end = -1;
	}
	/* usually there is nothing to strip */
	while (n > 0 && *text <= ' ' && is_blank(*text))
	{
		text++;
		n--;
	}
	while (n > 0 && text[n - 1] <= ';' && (is_blank(text[n - 1]) || text[n - 1] == ';'))
		n--;
	s->source = source;
	s->text = text;
	s->text_len = n;
}

/* Apply the rules, and the settings that leave noise out. */
STENO_COLD static void
check_policy(StenoStatement *s)
{
	const StenoStatement *outer = NULL;

	if (steno_my.level)
		outer = steno_statement_of_level(steno_my.level);
	steno_policy_begin(s, outer);
}

/*
 * Determine when the statement began: that of a client with its message, or when the one
 * before it in the same message had ended.
 */
static pg_attribute_always_inline void
take_time(StenoStatement *s, bool of_client)
{
	TimestampTz message = steno_private.statement_start();

	s->start = steno_clock_ticks(&steno_my.clock);
	s->stopped = 0;
	s->paused = 0;
	s->before = 0;
	s->ahead = 0;
	s->analysis = 0;
	s->plan = 0;
	s->commit = 0;
	s->pauses = false;
	s->may_fail = false;
	steno_my.anchor_time = message;
	if (likely(of_client && steno_my.begun_message != message))
	{
		steno_my.begun_message = message;
		s->time = message;
		s->before = steno_short_us(steno_us_since(message, s->start));
		return;
	}
	if (of_client && steno_my.ended_message == message)
		s->before = steno_short_us(steno_clock_us(&steno_my.clock, steno_my.ended_ticks, s->start));
	s->time = Max(steno_wall(s->start) - s->before, message);
}

/* Number the next statement of a client. */
static pg_attribute_always_inline void
take_number(StenoStatement *s)
{
	steno_assert_may_run();
	Assert(!steno_is_paused() && !steno_is_planning_clients());
	steno_failure_forgotten();
	s->statement = ++steno_my.statement;
	s->substatement = 0;
	steno_my.substatements = 0;
}

/*
 * The running query of the client, which nested statements belong to; NULL if it is
 * a utility statement.
 */
static StenoStatement *
running_query(void)
{
	StenoLevel *l = steno_my.level;

	if (l == NULL)
		return NULL;
	while (l->outer)
		l = l->outer;
	return l->query ? steno_find_open(l->query) : NULL;
}

/*
 * Number a nested statement after the client's statement that is running or being
 * planned.  If portals run alternately, that is not always the last one that began.
 */
void
steno_take_nested_number(uint64 *statement, uint32 *substatement)
{
	StenoStatement *s;

	if (unlikely(steno_is_planning_clients()))
	{
		*statement = steno_my.statement + 1;
		*substatement = ++steno_my.planned;
		return;
	}
	s = running_query();
	if (s && s->top_level && s->statement != steno_my.statement)
	{
		*statement = s->statement;
		*substatement = ++s->substatement;
		return;
	}
	*statement = steno_my.statement;
	*substatement = ++steno_my.substatements;
	if (s && s->top_level)
		s->substatement = *substatement;
}

/* Number and time a statement, and decide whether it is recorded. */
static pg_attribute_always_inline void
number(StenoStatement *s, const char *source, int location, int length,
	   int class, int depth, bool forced)
{
	take_time(s, depth == 0 && steno_is_client());
	s->depth = depth;
	s->class = class;
	s->user_id = steno_private.get_user_id();
	s->top_level = s->depth == 0;
	find_text(s, source, location, length);

	if (s->top_level)
	{
		if (unlikely(steno_error_is_noted()))
			steno_forget_raised();
		take_number(s);
		if (unlikely(steno_my.planned != 0))
		{
			s->substatement = steno_my.substatements = steno_my.planned;
			steno_my.planned = 0;
		}
	}
	else
		steno_take_nested_number(&s->statement, &s->substatement);
	forced |= s->top_level;
	s->failures = (forced || steno_nested_are_logged(STENO_CLASS_ERROR)) && steno_class_logged(STENO_CLASS_ERROR);
	s->audited = 0;
	s->recorded = (forced || steno_nested_are_logged(class)) && steno_class_logged(class);
	s->objects = NULL;
	if (unlikely(steno_objects_are_pending()) && s->top_level)
		steno_objects_adopt(s);
	s->policy = 0;
	s->redact = 0;
	if (unlikely(steno_my.policy != 0))
		check_policy(s);
	/* in a query that the parser has accepted, secrets can only be in literals */
	s->suspect = s->text_len >= STENO_REDACT_SHORTEST &&
		(class > STENO_CLASS_WRITE || unlikely(steno_redact_any_literal(s->text, s->text_len))) &&
		steno_redact_suspect(s->text, s->text_len);
}

/* A statement begins. */
STENO_HOT void
steno_begin(StenoStatement *s, const char *source, int location, int length,
			int class, int depth, bool forced)
{
	number(s, source, location, length, class, depth, forced);

	/*
	 * The role must be known before the statement can fail, because catalogs cannot
	 * be read then: a function may run as its owner.
	 */
	if (s->recorded || s->failures)
		steno_describe(s->user_id);
}

/* The same for a statement that has failed before it could begin. */
STENO_COLD void
steno_number_statement(StenoStatement *s, const char *source, int location, int length,
					   int class, int depth, bool forced)
{
	number(s, source, location, length, class, depth, forced);
}

/* A statement begins of which everything but its numbers is known. */
STENO_HOT void
steno_begin_prepared(StenoStatement *s, const QueryDesc *query, const StenoPrepared *p, int class)
{
	const PlannedStmt *plan = query->plannedstmt;

	take_time(s, true);
	take_number(s);
	s->source = query->sourceText;
	s->text = query->sourceText + p->text_offset;
	s->text_len = p->text_len;
	s->end = plan->stmt_location >= 0 && plan->stmt_len > 0 ? plan->stmt_location + plan->stmt_len : -1;
	s->user_id = steno_my.user_id;
	s->depth = 0;
	s->class = class;
	s->policy = 0;
	s->redact = 0;
	s->audited = 0;
	s->recorded = true;
	s->failures = steno_class_logged(STENO_CLASS_ERROR);
	s->top_level = true;
	s->suspect = false;
	s->objects = NULL;
}

/* The statement that began is recorded after all. */
STENO_COLD static void
begin_recorded(StenoStatement *s)
{
	if (!s->recorded && !s->failures)
		steno_describe(s->user_id);
	/* it has begun without checking the reserve */
	if (!s->recorded && (steno_my.start_mask & STENO_START_SHORT))
		s->policy |= STENO_S_UNCOVERED;
	s->recorded = true;
	steno_start_mask_late(s);
}

/*
 * The statement uses a privilege that steno.role has: it is recorded regardless of
 * its class and the rules, unless a setting leaves it out as noise.
 */
STENO_COLD void
steno_begin_audited(StenoStatement *s)
{
	if (s->policy & STENO_S_NOISE)
		return;
	s->audited |= STENO_AUDITED_OBJECT;
	if (steno_my.session_mask & (1u << s->class))
		s->audited |= STENO_AUDITED_SESSION;
	begin_recorded(s);
}

/* The statement also belongs to another class: it is recorded if that class is. */
STENO_COLD void
steno_begin_also(StenoStatement *s, int class)
{
	if (s->recorded || !steno_class_logged(class) || !(s->top_level || steno_nested_are_logged(class)))
		return;
	s->policy |= STENO_S_ALSO;
	begin_recorded(s);
}

/* A utility statement begins that has these classes, too. */
STENO_COLD void
steno_begin_further(StenoStatement *s, uint32 classes)
{
	static const struct
	{
		int			class;
		uint16		flag;
	}			possible[] = {
		{STENO_CLASS_READ, STENO_S_READ}, {STENO_CLASS_DDL, STENO_S_DDL}, {STENO_CLASS_MISC, STENO_S_MISC}
	};
	int			i;

	if (steno_my.session_mask & classes)
		s->policy |= STENO_S_ALSO;
	for (i = 0; i < (int) lengthof(possible); i++)
		if (classes & (1u << possible[i].class))
			s->policy |= possible[i].flag;
	for (i = 0; i < (int) lengthof(possible); i++)
		if (classes & (1u << possible[i].class))
			steno_begin_also(s, possible[i].class);
}

/*
 * Write a top-level statement without a staged record to the in-flight entry.
 * cuts: where its text's secrets are, if that is known already.
 */
void
steno_write_inflight(StenoStatement *s, const StenoCuts *cuts)
{
	const char *text = s->text;
	uint64		len = s->text_len;

	if (!s->top_level || !s->recorded)
		return;
	if ((s->policy & STENO_S_HIDDEN) || !steno_logs_text())
		len = 0;
	else if (cuts)
		steno_secret_cut(text, len, cuts, STENO_INFLIGHT_TEXT, &text, &len);
	else if (s->suspect)
		s->suspect = steno_secret_hide_text(text, len, false, STENO_INFLIGHT_TEXT, &text, &len);
	steno_inflight_text(s->statement, s->time, text, (uint32) len);
}

/* ---- objects ---- */

static inline bool
makes_table(const StenoLevel *l)
{
	return l->query && l->query->dest && l->query->dest->mydest == DestIntoRel &&
		l->outer && l->outer->utility;
}

/*
 * The statement whose record gets the current change of an object: the innermost
 * running one, or the one around it if steno.log_nested leaves the inner one out.
 * The table of CREATE TABLE AS EXECUTE is created by that statement, even while its
 * query runs.  NULL if there is none.  function: the event is the call of a
 * function, for which a statement is recorded regardless of its own class.
 */
STENO_COLD StenoStatement *
steno_statement_of_event(bool function)
{
	StenoLevel *l;

	for (l = steno_my.level; l; l = l->outer)
	{
		StenoStatement *s = steno_statement_of_level(l);

		if (s == NULL || (!function && makes_table(l)))
			continue;
		if (function && !s->recorded && (s->top_level || steno_nested_are_logged(STENO_CLASS_FUNCTION)) &&
			!(s->policy & (STENO_S_SKIPPED | STENO_S_NOISE)))
		{
			s->recorded = true;
			steno_describe(s->user_id);
			steno_start_mask_late(s);
		}
		if (s->recorded)
			return s;
		if (!function && !steno_class_logged(s->class))
			return NULL;
	}
	return NULL;
}

void
steno_statement_install(void)
{
	steno_raised.context = AllocSetContextCreate(TopMemoryContext, "pg_steno error",
										   ALLOCSET_SMALL_SIZES);
	steno_my.subid = TopSubTransactionId;
	steno_my.open = steno_my.few_open;
	steno_my.open_room = STENO_FEW_OPEN;
}
