/*
 * core/ring/check.h
 *		Checks of the rings that a dead server has left behind.
 *
 * A living producer publishes only whole messages, so its consumer need not check
 * them.  A ring file that was left behind may be damaged anywhere and has no
 * checksums.  Recovery therefore checks for each message that the producer can have
 * written it after its predecessor, and that readers of the trail can parse the
 * record that it becomes.  internal/ring and internal/recovery make the same
 * checks.
 */
#ifndef STENO_RING_CHECK_H
#define STENO_RING_CHECK_H

#include "ring/message.h"

typedef enum StenoRingCheck
{
	STENO_RING_GOOD,
	STENO_RING_UNREADABLE,		/* this message is not valid, but the next one can be found */
	STENO_RING_DAMAGED			/* neither this message nor any after it can be found */
} StenoRingCheck;

/* Whether a ring's head and tail are possible. */
extern bool steno_ring_check_positions(const StenoRings *rings, uint32_t i);

/*
 * Check the message at a position below the head.  seq is the last sequence number
 * before it.  An unreadable message is a record and has the next sequence number.
 */
extern StenoRingCheck steno_ring_check_message(const StenoRings *rings, uint32_t i, uint64_t position,
											   uint64_t seq, const StenoMessage **message);

/* The staged record of the statement that was running; NULL if there is none or it is not valid. */
extern const StenoMessage *steno_ring_check_staged(const StenoRings *rings, uint32_t i);

/* Whether the body of a session definition can be parsed. */
extern bool steno_ring_check_session(const uint8_t *body, uint32_t len);

/*
 * Whether *count dropped records can have had the sequence numbers first to last.
 * The count of a process that died between its updates of count and range is off by
 * one: *count is then corrected.
 */
extern bool steno_ring_check_gap(uint64_t *count, uint64_t first, uint64_t last);

/*
 * Whether the ring's orphan_drops is possible: at least the number that gap records
 * account for, and at most the number of all dropped records.
 */
extern bool steno_ring_check_orphan_drops(const StenoRing *ring);

#endif							/* STENO_RING_CHECK_H */
