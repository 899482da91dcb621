/*
 * core/ring/check.h
 *		Checks of the rings that a dead server left behind.
 *
 * A living producer publishes only whole messages, so its consumer need not check
 * them.  A ring file that was left behind may be damaged anywhere and has no
 * checksums.  Recovery therefore asks two things of each message: can the
 * producer have written it after the one before, and will readers of the trail
 * understand the record that it becomes?  internal/ring and internal/recovery make
 * the same checks.
 */
#ifndef STENO_RING_CHECK_H
#define STENO_RING_CHECK_H

#include "ring/message.h"

typedef enum StenoRingCheck
{
	STENO_RING_GOOD,
	STENO_RING_UNREADABLE,		/* this message; the next one can be found */
	STENO_RING_DAMAGED			/* nothing from here on can be found */
} StenoRingCheck;

/* Whether a ring's head and tail are possible. */
extern bool steno_ring_check_positions(const StenoRings *rings, uint32_t i);

/*
 * Check the message at a position below the head.  seq is the number of the ring's
 * last record before it.  An unreadable message is a record, and has the next number.
 */
extern StenoRingCheck steno_ring_check_message(const StenoRings *rings, uint32_t i, uint64_t position,
											   uint64_t seq, const StenoMessage **message);

/* The staged record of the statement that was running; NULL when there is none. */
extern const StenoRecordMessage *steno_ring_check_staged(const StenoRings *rings, uint32_t i);

/* Whether the body of a session definition can be read. */
extern bool steno_ring_check_session(const uint8_t *body, uint32_t len);

/*
 * Whether *count dropped records can have had the numbers first to last.  A process
 * that died while it counted may be off by one: *count is corrected then.
 */
extern bool steno_ring_check_gap(uint64_t *count, uint64_t first, uint64_t last);

/*
 * Whether a ring can have dropped as many records of ended sessions as orphan_drops says: no
 * fewer than have a gap record, and no more than were dropped at all.
 */
extern bool steno_ring_check_orphan_drops(const StenoRing *ring);

#endif							/* STENO_RING_CHECK_H */
