/*
 * extension/capture/planner.c
 *		What the server does for a query before its execution: parse analysis and planning.
 *
 * A query can fail in the planner: a function or operator that it evaluates in advance
 * raises an error, or the body of a function is invalid.  Such a query never reaches the
 * executor's hooks, but its statement and parameters are known here.
 *
 * What both take is part of the query's duration.  With the simple protocol, and in a Bind,
 * they belong to the message that begins the statement, whose time counts anyway.  Planning
 * in a Bind whose query begins in a later Execute, and the analysis of a Parse, are kept
 * until the query begins, and are added then.  If either takes long, the record tells it
 * apart.  What is kept is found by the query's text, never by following a pointer: the text
 * of a Parse is gone when its query begins.
 */
#include "base/steno.h"

#include "optimizer/planner.h"
#include "parser/analyze.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "capture/hooks.h"
#include "capture/statement_record.h"
#include "delivery/refusal.h"
#include "session/role.h"

/* ---- what was done before a query begins ---- */

/*
 * Texts of the last Parse messages whose statement has not begun, and what their analysis took, if that was so long
 * that it matters.  A text that is parsed again, as it is by a driver that first asks for the types of its
 * parameters, has one entry, with the sum.
 */
#define ANALYZED 16
#define WORTH_US 20

static struct
{
	uint64		hash;			/* of the text; 0: none */
	uint32		us;
}			analyzed[ANALYZED];

static int	last_analyzed STENO_SESSION_DATA;

/* A hash of a text's length, beginning and end. */
static uint64
hash_of(const char *text)
{
	size_t		len = strlen(text);
	const char *end = text + len;
	uint64		hash = len;
	uint64		word = 0;
	int			i;

	if (len < 8)
		memcpy(&word, text, len);
	for (i = 0; len >= 8 && i < 8 && (size_t) i * 8 + 8 <= len; i++)
	{
		memcpy(&word, text + i * 8, 8);
		hash = (hash ^ word) * UINT64CONST(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
		memcpy(&word, end - i * 8 - 8, 8);
		hash = (hash ^ word) * UINT64CONST(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	return ((hash ^ word) * UINT64CONST(0x9e3779b97f4a7c15)) | 1;
}

/* A Parse that has had its text analyzed, and when that message came. */
static struct
{
	const char *text;			/* that of the message, in whose memory it is; NULL: there is none */
	TimestampTz time;
	uint64		took;			/* until its duration was logged; STENO_NONE64: it was not */
}			parse STENO_SESSION_DATA;

/* The entry of a text; -1: none. */
static int
find_analyzed(uint64 hash)
{
	int			i;

	for (i = 0; i < ANALYZED; i++)
		if (analyzed[i].hash == hash)
			return i;
	return -1;
}

/* Microseconds since the Parse has come. */
static inline uint64
since_parse(void)
{
	return steno_us_since(parse.time, steno_clock_ticks(&steno_my.clock));
}

/*
 * Callback: the main loop is about to free what the message has used, and waits for the next one.  Only now it is known
 * what a Parse took: after the analysis, rules and views were put in, which can wait for locks.
 */
STENO_HOT static void
parse_ended(void *arg)
{
	uint64		us = parse.took != STENO_NONE64 ? parse.took : since_parse();
	const char *text = parse.text;
	uint64		hash;
	int			i;

	parse.text = NULL;
	if (us < WORTH_US && steno_private.ahead.waiting == 0)
		return;
	hash = hash_of(text);
	i = find_analyzed(hash);
	if (i >= 0)
		analyzed[i].us = steno_short_us((uint64) analyzed[i].us + us);
	if (i >= 0 || us < WORTH_US)
		return;
	last_analyzed = (last_analyzed + 1) % ANALYZED;
	steno_private.ahead.waiting += analyzed[last_analyzed].hash == 0;
	analyzed[last_analyzed].hash = hash;
	analyzed[last_analyzed].us = steno_short_us(us);
}

/*
 * A message goes to the server's log.  The duration of a Parse is logged when it has ended: to write that line, and to
 * wait for the process that writes the log, is no work for the statement.
 */
void
steno_parse_logged(const ErrorData *edata)
{
	if (unlikely(parse.text != NULL) && edata->elevel == LOG && edata->message_id != NULL &&
		strncmp(edata->message_id, "duration: ", strlen("duration: ")) == 0)
		parse.took = since_parse();
}

static MemoryContextCallback parse_callback = {.func = parse_ended};

/* The text of a Parse has been analyzed. */
STENO_HOT static void
analyzed_parse(const char *text)
{
	/* other libraries may have a text of their own analyzed so */
	if (!steno_is_client() || steno_my.level != NULL || steno_is_planning_clients() || steno_my.state != STENO_READY ||
		text == NULL || text != *steno_private.client_query)
		return;
	if (parse.text == NULL)
		MemoryContextRegisterResetCallback(MessageContext, &parse_callback);
	parse.text = text;
	parse.time = steno_private.statement_start();
	parse.took = STENO_NONE64;
}

/*
 * Hook: a query has been analyzed.  Only a Parse leaves its parameters' types open; any other analysis belongs to
 * the message, or to the statement, in which its query begins: of these, nothing is noted.
 */
STENO_HOT static void
analyzed_query(ParseState *state, Query *query, StenoJumble *jumble)
{
	steno_prefetch_state();		/* the query is planned next */
	if (steno_private.ahead.previous_analyze)
		steno_private.ahead.previous_analyze(state, query, jumble);
	if (unlikely(!steno_is_client()) && !steno_is_paused())
		steno_role_learn();		/* an apply worker sets that of the table before its triggers run */
	if (state->p_paramref_hook != NULL)
		analyzed_parse(state->p_sourcetext);
	else if (steno_my.level == NULL)
		steno_private.ahead.analyzed = (uint32) steno_my.statement + 1;
}

/* Whether a client's statement that has failed before it could begin was analyzed: views were being put in. */
bool
steno_failed_after_analysis(void)
{
	return parse.text != NULL || steno_private.ahead.analyzed == (uint32) steno_my.statement + 1;
}

/* A query has been planned: begin is when that began. */
static void
query_planned(const char *source, const Query *query, uint64 begin)
{
	steno_private.ahead.source = source;
	steno_private.ahead.query_id = query->queryId;
	steno_private.ahead.location = query->stmt_location;
	steno_private.ahead.len = query->stmt_len;
	steno_private.ahead.message = steno_private.statement_start();
	steno_private.ahead.begin = begin;
	steno_private.ahead.end = steno_clock_ticks(&steno_my.clock);
}

/* Whether the query that begins is the one that was planned last.  A Bind gives its portal a copy of the text. */
static inline bool
is_planned(const StenoStatement *s, const PlannedStmt *plan, Portal portal)
{
	const StenoAhead *a = &steno_private.ahead;

	return a->source != NULL && a->location == plan->stmt_location && a->len == plan->stmt_len &&
		a->query_id == plan->queryId && (a->source == s->source ||
		 (s->top_level && portal && portal->visible));
}

/* The query that begins was planned just before.  Returns what that took. */
static uint64
add_planning(StenoStatement *s)
{
	uint64		took = steno_clock_us(&steno_my.clock, steno_private.ahead.begin, steno_private.ahead.end);

	if (!s->top_level)
	{
		/* it runs in a function, which has it planned when it comes to it */
		s->before = steno_short_us(took);
		s->time -= took;
	}
	else if (steno_private.ahead.message != steno_my.begun_message)
	{
		/* in a Bind, which has read the parameters before */
		int64		us = (int64) steno_us_since(steno_private.ahead.message, s->start);

		us -= (int64) steno_clock_us(&steno_my.clock, steno_private.ahead.end, s->start);
		s->ahead = steno_short_us(Max(us, 0));
	}
	if (took >= STENO_TOLD_APART)
		s->plan = steno_short_us(took);
	return took;
}

/* The text of a client's statement that begins was perhaps analyzed by a Parse. */
STENO_COLD static void
add_parse(StenoStatement *s)
{
	int			i = find_analyzed(hash_of(s->source));

	if (i < 0)
		return;
	analyzed[i].hash = 0;
	steno_private.ahead.waiting--;
	s->ahead = steno_short_us((uint64) s->ahead + analyzed[i].us);
	if (analyzed[i].us >= STENO_TOLD_APART)
		s->analysis = analyzed[i].us;
}

/* A client's utility statement begins.  Its text may have been analyzed by a Parse, as that of CALL is. */
STENO_COLD void
steno_add_parse(StenoStatement *s)
{
	const Portal portal = *steno_private.active_portal;

	if (portal != NULL && portal->visible)
		add_parse(s);
}

/* A query begins: add what was done for it before, if that is not a part of the message in which it begins. */
void
steno_told_apart(StenoStatement *s, const PlannedStmt *plan, Portal portal)
{
	uint64		planning = 0;

	if (is_planned(s, plan, portal))
		planning = add_planning(s);
	if (!s->top_level || !steno_is_client() || portal == NULL)
		return;
	if (portal->visible)
	{
		if (steno_private.ahead.waiting > 0)
			add_parse(s);
	}
	else if (unlikely(s->before >= planning + STENO_TOLD_APART))
		s->analysis = steno_short_us(s->before - planning);
}

/* ---- the planner ---- */

static PlannedStmt *
call_planner(STENO_PLAN_ARGS)
{
	return steno_private.previous_planner(STENO_PLAN_PASS);
}

/* Cache lines that the record of a usual query takes. */
#define PLANNED_LINES 2

/* Those of a template. */
#define TEMPLATE_LINES 3

/*
 * The record of a query goes there at its start, and is compared with the template: until then, the lines
 * come while the server plans.
 */
static inline void
prefetch_record(void)
{
	const StenoTemplate *t = &steno_my.producer.templates[steno_my.template];
	int			i;

	steno_ring_prefetch(&steno_my.producer, PLANNED_LINES);
	if (steno_my.template != 0)
		for (i = 0; i < TEMPLATE_LINES; i++)
			__builtin_prefetch((const uint8 *) t + i * STENO_CACHE_LINE);
}

/*
 * Whether a query outside of any statement is the client's own.  If not, it belongs
 * to a trigger that runs at commit.
 */
static bool
is_of_client(const char *source)
{
	return steno_is_client() ? source == *steno_private.client_query : !steno_is_worker();
}

STENO_HOT static PlannedStmt *
plan_query(STENO_PLAN_ARGS)
{
	const StenoLevel *outer;
	StenoPlanningPhase before;
	bool		of_client;
	uint64		start;
	PlannedStmt *result = NULL;

	steno_prefetch_state();
	steno_assert_may_run();
	steno_check_level();
	outer = steno_my.level;
	/* the query of a utility statement, such as COPY, is part of that statement */
	if (!steno_recording() ||
		(outer && outer->utility && outer->utility->source == source && !outer->forces))
		return call_planner(STENO_PLAN_PASS);

	steno_refusal_check(NULL);
	prefetch_record();
	start = steno_clock_ticks(&steno_my.clock);
	of_client = outer == NULL && steno_my.planning == STENO_PLANNING_NOTHING && steno_is_client() &&
		is_of_client(source);
	/* what the planner runs for a client belongs to the statement that will get the next number */
	before = steno_planning_begins(of_client);
	PG_TRY();
	{
		result = call_planner(STENO_PLAN_PASS);
	}
	PG_CATCH();
	{
		StenoUnplanned unplanned = {
			.query = query,
			.source = source,
			.class = steno_query_class(query->commandType, query->hasModifyingCTE),
			.command = steno_query_command(query->commandType),
			.params = params,
			.depth = outer ? outer->inside : before != STENO_PLANNING_NOTHING || !is_of_client(source) ?
				steno_my.outside : 0,
			.forced = outer && outer->forces,
			.start = start,
		};

		steno_planning_ends(before);
		steno_record_unplanned(&unplanned);
		PG_RE_THROW();
	}
	PG_END_TRY();
	steno_planning_ends(before);
	query_planned(source, query, start);
	return result;
}

void
steno_planner_install(void)
{
	steno_private.previous_planner = planner_hook ? planner_hook : standard_planner;
	planner_hook = plan_query;
	steno_private.ahead.previous_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = analyzed_query;
}
