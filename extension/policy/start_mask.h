/*
 * extension/policy/start_mask.h
 *		Which statements have start records, and which wait for the disk.
 */
#ifndef STENO_START_MASK_H
#define STENO_START_MASK_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

extern void steno_start_mask_adopt(const StenoWanted *wanted);
extern void steno_start_mask_rules(uint32 some, uint32 all);
extern void steno_start_mask_short(bool is_short);
extern bool steno_start_mask_begin(const StenoStatement *s);
extern void steno_start_mask_late(const StenoStatement *s);
extern void steno_start_mask_prepared(void);
extern bool steno_is_synced(const StenoStatement *s);
extern bool steno_transactions_are_synced(void);

#pragma GCC visibility pop

#endif							/* STENO_START_MASK_H */
