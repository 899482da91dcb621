/*
 * core/ring/left.h
 *		What stands in the rings that a dead server has left.
 *
 * A living producer's messages are whole: they are published when they are.  A ring
 * file that lay about may be damaged anywhere, and has no checksums, so whoever
 * recovers it asks here before he goes on: whether a message can be what the
 * producer wrote behind the one before, and whether readers of the trail will
 * understand what it becomes.  internal/ring and internal/recovery ask the same.
 */
#ifndef STENO_LEFT_H
#define STENO_LEFT_H

#include "ring/message.h"

typedef enum StenoLeft
{
	STENO_LEFT_GOOD,
	STENO_LEFT_UNREADABLE,		/* one message; what follows it can be found */
	STENO_LEFT_DAMAGED			/* nothing from here on can be found */
} StenoLeft;

/* Whether head and tail of a ring can be. */
extern bool steno_left_positions(const StenoRings *rings, uint32_t i);

/*
 * The message at a position below the head; seq: of the ring's last record before it.
 * What is unreadable is a record, and has the next number.
 */
extern StenoLeft steno_left_look(const StenoRings *rings, uint32_t i, uint64_t position, uint64_t seq,
								 const StenoMessage **message);

/* The record of the statement that was running, NULL when none stands there. */
extern const StenoRecordMessage *steno_left_staged(const StenoRings *rings, uint32_t i);

/* Whether the body of a session definition can be read. */
extern bool steno_left_body(const uint8_t *body, uint32_t len);

/*
 * Whether so many records can have been dropped with these numbers.  Who died in the
 * middle of counting had counted one less or more: *count is right then.
 */
extern bool steno_left_gap(uint64_t *count, uint64_t first, uint64_t last);

#endif							/* STENO_LEFT_H */
