/*
 * extension/policy/rules.h
 *		The rules file, and the rules in force.
 */
#ifndef STENO_POLICY_RULES_H
#define STENO_POLICY_RULES_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

struct StenoRules;
struct StenoChoice;

/* Called before a change of the rules takes effect, with the argument that came with it. */
typedef void (*StenoRulesChange) (void *arg, const char *from, const char *to, const char *errors,
								  const char *hash);

extern struct StenoRules *steno_rules;	/* in force in this process; NULL: none */

extern void steno_rules_load(void);
extern bool steno_rules_renew(void (*drop) (void));
extern void steno_rules_started(StenoRulesChange change, void *arg);
extern void steno_rules_reload(StenoRulesChange change, void *arg);
extern struct StenoRules *steno_rules_now(void);
extern void steno_rules_prepare(struct StenoChoice *choice);
extern char *steno_rules_redact(uint32 tag, const char *text, size_t len);

#pragma GCC visibility pop

#endif							/* STENO_POLICY_RULES_H */
