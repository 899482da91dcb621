/*
 * extension/delivery/delivery.h
 *		What delivery.c has for the hooks: see there.
 */
#ifndef STENO_DELIVERY_H
#define STENO_DELIVERY_H

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

extern void steno_delivery_adopt(const StenoWanted *wanted);
extern void steno_delivery_rules(uint32 some, uint32 all);
extern bool steno_delivery_starts(const StenoStatement *s);
extern void steno_delivery_late(const StenoStatement *s);
extern void steno_delivery_prepared(void);
extern void steno_delivery_cancel_query(StenoOpen *o);
extern void steno_delivery_hold_query(StenoOpen *o);
extern void steno_delivery_hold_utility(StenoLevel *l);
extern bool steno_delivery_can_raise(void);
extern void steno_delivery_raise(void);
extern void steno_delivery_short(bool is_short);
extern bool steno_delivery_cover_query(StenoOpen *o);
extern bool steno_delivery_cover_utility(StenoLevel *l);
extern void steno_delivery_end_query(StenoOpen *o);
extern bool steno_delivery_end_utility(StenoLevel *l);
extern void steno_delivery_transaction(XactEvent event);
extern void steno_delivery_worker_ends(void);
extern void steno_delivery_finish_late(void);
extern bool steno_delivery_can_end_late(void);
extern bool steno_delivery_abort_waits(void);
extern void steno_delivery_ended(XactEvent event);
extern bool steno_delivery_allow_barriers(bool allow);
extern void steno_delivery_absorb_barriers(void);
extern bool steno_delivery_guard(void (*f) (void));

/*
 * Room for what the end of a transaction may record: its record, a description of the
 * session, a gap record, and what is left over at the ring's end before each.
 */
#define STENO_ROOM_AT_END 6144

/* Whether a transaction that is about to end will surely find room; else it may. */
static inline bool
steno_delivery_room_at_end(void)
{
	const StenoProducer *p = &steno_my.producer;

	return p->head + (steno_my.staged ? steno_my.staged->m.len : 0) + STENO_ROOM_AT_END - p->tail <= p->limit;
}

#pragma GCC visibility pop

#endif							/* STENO_DELIVERY_H */
