/*
 * extension/delivery.h
 *		What delivery.c has for the hooks: see there.
 */
#ifndef STENO_DELIVERY_H
#define STENO_DELIVERY_H

#pragma GCC visibility push(hidden)

/* Bits of steno_my.start_mask that are no classes. */
#define STENO_START_SYNC (1u << 31)		/* the transaction's end waits for the disk */
#define STENO_START_CANCELLED (1u << 30)	/* so was a wait for room */
#define STENO_START_HURRY (1u << 29)	/* what cannot be cancelled does not wait for room */
#define STENO_START_CLASSES (STENO_START_HURRY - 1)

/* What a transaction's end looks at. */
#define STENO_START_AT_END \
	(STENO_START_SYNC | STENO_START_CANCELLED | STENO_START_HURRY | (1u << STENO_CLASS_TRANSACTION))

extern void steno_delivery_adopt(const StenoWanted *wanted);
extern void steno_delivery_rules(uint32 some, uint32 all);
extern bool steno_delivery_starts(const StenoStatement *s);
extern void steno_delivery_late(const StenoStatement *s);
extern void steno_delivery_prepared(void);
extern void steno_delivery_hold_query(StenoOpen *o);
extern void steno_delivery_hold_utility(StenoLevel *l);
extern bool steno_delivery_can_raise(void);
extern void steno_delivery_raise(void);
extern void steno_delivery_end_query(StenoOpen *o);
extern void steno_delivery_end_utility(StenoLevel *l);
extern void steno_delivery_transaction(XactEvent event);
extern void steno_delivery_worker_ends(void);

#pragma GCC visibility pop

#endif							/* STENO_DELIVERY_H */
