/*
 * extension/delivery/refusal.h
 *		What sessions do while the trail cannot be written: steno.on_failure.
 */
#ifndef STENO_REFUSAL_H
#define STENO_REFUSAL_H

#include "base/facts.h"
#include "policy/policy.h"

#pragma GCC visibility push(hidden)

extern const char *const steno_problem_texts[STENO_PROBLEMS];

extern void steno_health_text(StenoHealth *t, char *to);
extern bool steno_refusal_drops(void);
extern uint32 steno_refusal_gap_reason(bool first);
extern bool steno_refusal_omits_record(const StenoRecord *record);
extern void steno_refusal_attached(void);
extern void steno_refuse_statement(const Node *utility);
extern void steno_refuse_waiting_statement(void);
extern void steno_refusal_set_hints(uint32 writer, bool refuse);

/* ---- writers that do nothing ---- */

/* A wait for this session's writer; zeros at its beginning. */
typedef struct StenoPatience
{
	uint64		start;			/* ticks; 0: not waited yet */
	uint64		beat;			/* ticks when the writer was last seen to do something */
	uint64		beats;
	bool		logged;
} StenoPatience;

/* A writer that has done nothing for this long is stalled, in seconds. */
#define STENO_STALL_SECONDS 5

extern void steno_patience_check(StenoPatience *patience, StenoWriterControl *writer, const char *awaited);
extern void steno_patience_end(const StenoPatience *patience, StenoWriterControl *writer);
extern bool steno_is_stalled(const StenoWriterControl *writer, TimestampTz now);
extern void steno_stall_report(StenoWriterControl *writer, TimestampTz since);
extern uint64 steno_dropped_by_sessions(uint32 writer);

/*
 * A statement begins, utility unless it is a query: an error when steno.on_failure
 * says so.
 */
static inline void
steno_refusal_check(const Node *utility)
{
	if (unlikely((atomic_load_explicit(&steno_my.news, memory_order_relaxed) & STENO_NEWS_FAILING) ||
				 (steno_my.policy & STENO_POLICY_FAR)))
		steno_refuse_statement(utility);
}

#pragma GCC visibility pop

#endif							/* STENO_REFUSAL_H */
