/*
 * extension/delivery/room.h
 *		Room in this process's ring.
 */
#ifndef STENO_ROOM_H
#define STENO_ROOM_H

#include "delivery/record.h"


#pragma GCC visibility push(hidden)

#define STENO_SHORT_LEAST 512
#define STENO_SHORT_MOST 1024

extern int	steno_reserve_covered;	/* how many statements the reserve is for */

extern void *steno_room_when_full(uint32 len);
extern bool steno_room_drops(void);
extern void steno_room_process_exits(void);
extern void steno_room_refresh_tail(void);
extern int	steno_reserve_needed(void);
extern bool steno_reserve_cover(int statements);
extern bool steno_reserve_is_whole(void);
extern void *steno_reserve_room(uint32 len, const StenoRecord *r);
extern void steno_reserve_wait(void);
extern bool steno_reserve_covers_all(void);

/* Room for a message, by steno.delivery; NULL when it is to be dropped, or the wait was cancelled. */
static inline void *
steno_room(uint32 len)
{
	void	   *m;

	if (unlikely(steno_my.staged != NULL))
		steno_unstage();
	m = steno_ring_reserve(&steno_my.producer, len);
	return likely(m != NULL) ? m : steno_room_when_full(len);
}

/* The largest short record. */
static inline uint32
steno_short_size(void)
{
	return Max(STENO_SHORT_LEAST, Min(STENO_SHORT_MOST, steno_my.producer.size / 32));
}


/*
 * Room for what the end of a transaction may record: its record, a description of the
 * session, a gap record, and what is left over at the ring's end before each.
 */
#define STENO_ROOM_AT_END 6144

/* Whether a transaction that is about to end will surely find room; else it may. */
static inline bool
steno_room_at_end(void)
{
	const StenoProducer *p = &steno_my.producer;

	return p->head + (steno_my.staged ? steno_my.staged->len : 0) + STENO_ROOM_AT_END - p->tail <= p->limit;
}

#pragma GCC visibility pop

#endif							/* STENO_ROOM_H */
