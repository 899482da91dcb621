/*
 * extension/policy/start_mask.h
 *		Which statements have start records, and which wait for the disk.
 */
#ifndef STENO_START_MASK_H
#define STENO_START_MASK_H

#include "base/steno.h"


#pragma GCC visibility push(hidden)

/* Bits of steno_my.start_mask that are no classes. */
#define STENO_START_SYNC (1u << 31)		/* the transaction's end waits for the disk */
#define STENO_START_CANCELLED (1u << 30)	/* so was a wait for room */
#define STENO_START_HURRY (1u << 29)	/* what cannot be cancelled does not wait for room */
#define STENO_START_LATE (1u << 28)		/* the transaction that commits is finished when its locks are released */
#define STENO_START_SHORT (1u << 27)	/* a statement must look for the reserve first; with it, all classes are set */
#define STENO_START_CLASSES (STENO_START_SHORT - 1)

/* What a transaction's end looks at. */
#define STENO_START_AT_END \
	(STENO_START_SYNC | STENO_START_CANCELLED | STENO_START_HURRY | (1u << STENO_CLASS_TRANSACTION))

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
