/*
 * extension/policy/secret.h
 *		Secrets that are kept out of what records say.
 */
#ifndef STENO_SECRET_H
#define STENO_SECRET_H

#include "base/facts.h"

#pragma GCC visibility push(hidden)

struct StenoCuts;

extern bool steno_secret_find(const char *text, uint64 len, struct StenoCuts *cuts);
extern void steno_secret_cut(const char *text, uint64 len, const struct StenoCuts *cuts, uint64 room,
							 const char **out, uint64 *out_len);
extern bool steno_secret_hide_text(const char *text, uint64 len, uint64 room, const char **out, uint64 *out_len);
extern const char *steno_secret_hide_message(const char *text, uint64 len, const char *message);
extern void steno_secret_hide(StenoRecord *record);
extern void steno_secret_hide_note(StenoRecord *record);
extern void steno_secret_hide_value(const char *value, char *out);

#pragma GCC visibility pop

#endif							/* STENO_SECRET_H */
