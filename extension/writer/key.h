/*
 * extension/writer/key.h
 *		The encryption key of the trail, as steno.encryption_key_command gives it.
 */
#ifndef STENO_EXTENSION_KEY_H
#define STENO_EXTENSION_KEY_H

#include "writer/writer.h"

#pragma GCC visibility push(hidden)

/* The postmaster, at its start: the command must give a key, or we do not start. */
extern void steno_key_check(void);

/* A writer's keys; made by the first call. */
extern StenoCrypt *steno_key_crypt(void);

/* A writer has started, or has reloaded the configuration: ask for the key. */
extern void steno_key_ask(const StenoWriter *writer);

/* Go on with asking; whether there is an answer. Never waits. */
extern bool steno_key_answered(const StenoWriter *writer);

/* The writer has begun a segment, the first or with another key than before: say so. */
extern void steno_key_report(const StenoWriter *writer);

/* Why steno_block_finish has failed. */
extern void steno_key_block_error(const StenoWriter *writer, StenoError *error);

#pragma GCC visibility pop

#endif							/* STENO_EXTENSION_KEY_H */
