/*
 * extension/capture/statement.h
 *		Statements that run: their numbers and beginnings (statement.c), the levels of nesting, and the
 *		queries that are open.  A statement is a StenoStatement (base/local.h).
 */
#ifndef STENO_STATEMENT_H
#define STENO_STATEMENT_H

#include "base/steno.h"

#include "base/duration.h"
#include "delivery/record.h"
#include "describe/object.h"
#include "describe/shape.h"
#include "policy/policy.h"
#include "session/role.h"
#include "session/session.h"
#include "session/settings_in_force.h"

#pragma GCC visibility push(hidden)

struct StenoCuts;

/*
 * The error that is noted (STENO_U_ERROR_NOTED): raised while a statement ran, and not recorded
 * yet.  Its strings are copies in context, which outlives transactions: the server's own are
 * gone once the error has been caught and raised again.  steno_forget_raised frees them.
 */
typedef struct StenoRaised
{
	int			code;			/* SQLSTATE; 0: none is noted */
	char	   *message;
	char	   *query;			/* text of a nested statement, if known */
	const char *filename;		/* of the server's source, a constant */
	Oid			user_id;		/* the role then: the abort of a subtransaction sets it back */
	bool		by_grammar;		/* it has refused the text */
	int			at;				/* position in that text, in characters; 0: not known */
	MemoryContext context;		/* of the strings */
	TimestampTz transaction;	/* outside of any statement: begin of the transaction in which it was raised; 0: none */
	int			recorded_code;	/* outside of any statement: that of the last error, if it has its record */
	bool		before_execution;	/* of a statement in a function, perhaps */
	bool		direct;			/* the statement that is failing raised it itself, and no other that it had run */
	bool		unnamed;		/* so perhaps another failed that it was about to run, of which nothing is known */
	bool		held;			/* interrupts were held: perhaps by a lightweight lock, which is held until the
								 * abort */
} StenoRaised;

extern StenoRaised steno_raised;

extern void steno_forget_raised(void);
extern uint32 steno_failure_begins(void);
extern void steno_failure_ends(uint32 hurry);
extern void steno_forget_lost_level(void);
extern void steno_take_nested_number(uint64 *statement, uint32 *substatement);
extern void steno_number_statement(StenoStatement *s, const char *source, int location, int length,
								   int class, int depth, bool forced);
extern StenoStatement *steno_statement_of_event(bool function);
extern void steno_note_raised(void *arg);
extern void steno_begin(StenoStatement *s, const char *source, int location, int length,
						int class, int depth, bool forced);
extern void steno_begin_audited(StenoStatement *s);
extern void steno_begin_also(StenoStatement *s, int class);
extern void steno_begin_further(StenoStatement *s, uint32 classes);
extern void steno_write_inflight(StenoStatement *s, const struct StenoCuts *cuts);
extern void steno_begin_prepared(StenoStatement *s, const QueryDesc *query,
								 const StenoPrepared *p, int class);

/* ---- whether, and as what, a statement is recorded ---- */

static inline bool
steno_recording(void)
{
	if (unlikely(steno_is_paused() || !steno_session_ready()))
		return false;
	if (unlikely(steno_settings_are_dirty()))
		steno_settings_record();
	steno_policy_check();
	return likely(steno_my.log_mask != 0) || steno_role_is_set();
}

/* Are statements that others run recorded, of this class?  What is mandatory cannot be left out so. */
static inline bool
steno_nested_are_logged(int class)
{
	return steno_my.log_nested || (steno_private.mandatory_mask & (1u << class)) != 0;
}

/*
 * May a statement be recorded that fails before a hook has judged it?  It is of class error, or a query, whose class is
 * found by parsing it again.
 */
static inline bool
steno_failures_may_be_logged(void)
{
	return steno_role_is_set() ||
		((steno_class_logged(STENO_CLASS_ERROR) || steno_class_logged(STENO_CLASS_READ) ||
		  steno_class_logged(STENO_CLASS_WRITE)) &&
		 (steno_my.level == NULL || steno_nested_are_logged(STENO_CLASS_ERROR)));
}

/* ---- the states of a statement ---- */

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

/* ---- levels: a client's statement, what it runs, and so on ---- */

#define steno_top_level (steno_private.top)

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

static inline void
steno_leave(StenoLevel *l)
{
	*steno_private.error_context = l->callback.previous;
	steno_my.level = l->outer;
}

/*
 * Whether nothing that is on the C stack leaves the level any more.  Whoever catches an error restores the server's
 * list of callbacks, and with it takes off the level's.
 */
static inline bool
steno_is_lost(const StenoLevel *l)
{
	const ErrorContextCallback *c = *steno_private.error_context;

	while (c != NULL && c != &l->callback)
		c = c->previous;
	return c == NULL;
}

/*
 * The level of a client's statement is in no frame that an error would leave.  Usually only the server's main loop
 * catches its errors.  But a hook of another library, which has called ours, may do so, and go on.
 */
static inline void
steno_check_level(void)
{
	if (unlikely(steno_my.level == &steno_top_level) && !steno_top_level.ending &&
		unlikely(steno_is_lost(&steno_top_level)))
		steno_forget_lost_level();
}

/* How many bytes of a portal's text are compared with that of the client's message. */
#define STENO_CLIENTS_TEXT 256

/*
 * Whether a portal with this text is the client's own.  The text of a portal of a function that the planner has
 * called, or of a trigger at commit, differs, usually at its beginning.
 */
static inline bool
steno_is_client_text(const char *source)
{
	const char *message = *steno_private.client_query;

	return !steno_is_planning_clients() &&
		(source == message || (message && strncmp(source, message, STENO_CLIENTS_TEXT) == 0));
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

/* The transaction has ended, and with it its block, but that AND CHAIN begins another. */
static inline void
steno_end_block(void)
{
	steno_top_level.explicit_block = false;
	steno_top_level.chained = steno_top_level.chains;
	steno_top_level.chains = false;
}

/* ---- open queries: those that have begun, and not ended, by the order of their beginnings ---- */

extern StenoStatement *steno_more_open(QueryDesc *query);
extern StenoStatement *steno_find_of_many(QueryDesc *query);

static inline StenoStatement *
steno_find_open(QueryDesc *query)
{
	if (likely(steno_my.open_count == 1))
		return likely(steno_my.open->query == query) ? steno_my.open : NULL;
	return steno_find_of_many(query);
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
	steno_my.open[steno_my.open_count].who = NULL;
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
	if (unlikely(s->who != NULL))
		steno_identity_release(&s->who);
	steno_my.open_count--;
	if (unlikely(i < steno_my.open_count))
		memmove(s, s + 1, (steno_my.open_count - i) * sizeof(StenoStatement));
}

/* The statement whose hook a level is of; NULL: a query that is recorded no more. */
static inline StenoStatement *
steno_statement_of_level(const StenoLevel *l)
{
	return l->utility ? l->utility : steno_find_open(l->query);
}

#pragma GCC visibility pop

#endif							/* STENO_STATEMENT_H */
