/*
 * extension/policy/policy.h
 *		Applies rules, and the settings that exclude noise, to this session's statements;
 *		which of these have start records, and which wait for the disk.
 */
#ifndef STENO_POLICY_H
#define STENO_POLICY_H

#include "base/facts.h"
#include "describe/relation.h"
#include "describe/shape.h"

#pragma GCC visibility push(hidden)

/* Why statements must be looked at; bits of steno_my.policy. */
#define STENO_POLICY_STALE 1	/* the session's rules are to be chosen */
#define STENO_POLICY_RULES 2	/* there are rules */
#define STENO_POLICY_FAR 4		/* our state is not where writer 0 leaves news */
#define STENO_POLICY_CATALOG 8	/* steno.log_catalog is off */
#define STENO_POLICY_REFERENTIAL 16 /* steno.log_referential_checks is off */
#define STENO_POLICY_SCRIPTS 32 /* steno.log_extension_scripts is off */

/* What was found of a statement; bits of its policy. */
#define STENO_S_RULE 1			/* a rule records it */
#define STENO_S_SKIPPED 2		/* a rule leaves it out */
#define STENO_S_NOISE 4			/* a switch leaves it out, unless a rule records it */
#define STENO_S_NO_TEXT 8
#define STENO_S_NO_PARAMETERS 16
#define STENO_S_HIDDEN 32		/* its text may have to be hidden: not in the in-flight entry */
#define STENO_S_IN_CHECK 64		/* a foreign key runs it, or what runs it */
#define STENO_S_ALSO 128		/* recorded for another class that it has besides */
#define STENO_S_SYNC 256		/* a rule wants it on disk */
#define STENO_S_UNCOVERED 512	/* the ring's reserve has no share for it */
#define STENO_S_READ 1024		/* it has this class, too */
#define STENO_S_DDL 2048
#define STENO_S_MISC 4096
#define STENO_S_ANNOUNCED 8192	/* a start record says that its portal has delivered rows */

/* The classes of a statement, a bit for each: its own, and those of the query that it runs as a part of itself. */
static inline uint32
steno_classes_of(const StenoStatement *s)
{
	uint32		classes = 1u << s->class;

	if (likely(!(s->policy & (STENO_S_READ | STENO_S_DDL | STENO_S_MISC))))
		return classes;
	return classes | (s->policy & STENO_S_READ ? 1u << STENO_CLASS_READ : 0) |
		(s->policy & STENO_S_DDL ? 1u << STENO_CLASS_DDL : 0) |
		(s->policy & STENO_S_MISC ? 1u << STENO_CLASS_MISC : 0);
}

extern void steno_policy_masks(void);
extern void steno_policy_switch(uint32 flag, bool on);
extern void steno_policy_refresh(void);
extern void steno_policy_begin(StenoStatement *s, const StenoStatement *outer);

/* To be called before a statement's class is looked at. */
static inline void
steno_policy_check(void)
{
	if (unlikely((steno_my.policy |
				  atomic_load_explicit(&steno_my.news, memory_order_relaxed)) != 0))
		steno_policy_refresh();
}

/* Why a record of this class is written, when it is not by steno.log alone. */
static inline uint8
steno_audit_reason(int class, uint8 otherwise)
{
	if (steno_my.session_mask & (1u << class))
		return 0;
	return (steno_private.mandatory_mask & (1u << class)) ? STENO_AUDITED_MANDATORY : otherwise;
}

extern void steno_policy_cache_relation(Oid relid);
extern void steno_policy_judge(StenoStatement *s, const StenoAccess *relations, int count,
							   bool failing);
extern void steno_policy_judge_early(StenoStatement *s);
extern void steno_policy_judge_failure(StenoStatement *s, const StenoAccess *relations, int count);
extern void steno_policy_judge_plan(StenoStatement *s, PlannedStmt *plan, bool failed);
extern void steno_policy_apply_rules(const StenoStatement *s, StenoRecord *record);
extern void steno_policy_redact_message(const StenoStatement *s, StenoRecord *record);
extern void steno_policy_judge_written(StenoStatement *s, int class, const StenoWritten *written);
extern void steno_policy_judge_unnamed(StenoStatement *s);
extern bool steno_policy_failed(StenoRecord *record, const StenoWritten *written, bool nested);

/* A statement's record is made: why there is one, and what the rules hide of it. */
static inline void
steno_policy_apply(const StenoStatement *s, StenoRecord *record)
{
	record->audited = steno_audit_reason(s->class, 0) | s->audited;
	if (unlikely(s->policy != 0))
		steno_policy_apply_rules(s, record);
}

/* ---- start records, and waits for the disk ---- */

extern void steno_start_mask_adopt(const StenoWanted *wanted);
extern void steno_start_mask_short(bool is_short);
extern bool steno_start_mask_begin(const StenoStatement *s);
extern void steno_start_mask_late(const StenoStatement *s);
extern void steno_start_mask_prepared(void);
extern bool steno_is_synced(const StenoStatement *s);
extern bool steno_waits_to_start(const StenoStatement *s);
extern bool steno_transactions_are_synced(void);

#pragma GCC visibility pop

#endif							/* STENO_POLICY_H */
