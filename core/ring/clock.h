/*
 * core/ring/clock.h
 *		A clock for durations that takes a few nanoseconds to read.
 *
 * If the kernel keeps time by the processor's time stamp counter, it has verified
 * that the counter has a constant rate, is synchronized between processors and
 * never stops, so we read it directly: clock_gettime() would touch a page of code
 * and a page of data that are in no cache after a context switch.  Otherwise we use
 * clock_gettime().
 */
#ifndef STENO_CLOCK_H
#define STENO_CLOCK_H

#include <stdint.h>

#include "defs.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct StenoClock
{
	uint64_t	scale;			/* microseconds per tick, times 2^32; 0: ticks are nanoseconds of
								 * clock_gettime */
} StenoClock;

/* Choose the clock.  Takes 20 ms if the time stamp counter must be calibrated. */
extern void steno_clock_init(StenoClock *clock);

/* Nanoseconds of clock_gettime. */
extern uint64_t steno_clock_of_system(void);

static inline uint64_t
steno_clock_ticks(const StenoClock *clock)
{
#if defined(__x86_64__)
	if (!STENO_RARELY(clock->scale == 0))
		return __rdtsc();
#endif
	return steno_clock_of_system();
}

/* Microseconds between two readings; 0 if the second is the earlier one. */
static inline uint64_t
steno_clock_us(const StenoClock *clock, uint64_t from, uint64_t to)
{
	uint64_t	ticks = to > from ? to - from : 0;

#if defined(__x86_64__)
	if (!STENO_RARELY(clock->scale == 0))
		return (uint64_t) (((unsigned __int128) ticks * clock->scale) >> 32);
#endif
	return ticks / 1000;
}

#endif							/* STENO_CLOCK_H */
