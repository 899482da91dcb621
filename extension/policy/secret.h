/*
 * extension/policy/secret.h
 *		Secrets that are kept out of what records say.
 */
#ifndef STENO_SECRET_H
#define STENO_SECRET_H

#include "base/facts.h"
#include "error/origin.h"

#pragma GCC visibility push(hidden)

struct StenoCuts;

extern void steno_secret_install(void);
extern bool steno_secret_find(const char *text, uint64 len, bool of_ended, struct StenoCuts *cuts);
extern void steno_secret_cut(const char *text, uint64 len, const struct StenoCuts *cuts, uint64 room,
							 const char **out, uint64 *out_len);
extern bool steno_secret_hide_text(const char *text, uint64 len, bool of_ended, uint64 room,
									const char **out, uint64 *out_len);
extern const char *steno_secret_hide_message(const char *text, uint64 len, const char *message);
extern void steno_secret_hide(StenoRecord *record);
extern void steno_secret_hide_note(StenoRecord *record);
extern bool steno_secret_setting(const char *name);
extern void steno_secret_hide_value(const char *value, char *out);
extern bool steno_secret_given_up(void);
extern void steno_secret_search_again(void);
extern void steno_secret_process_exits(void);

/* Whether its message quotes nothing of a statement: no text need be searched. */
static inline bool
steno_secret_quotes_nothing(const ErrorData *edata)
{
	return edata->message && steno_error_interrupts(edata);
}

#pragma GCC visibility pop

#endif							/* STENO_SECRET_H */
