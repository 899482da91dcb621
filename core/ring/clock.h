/*
 * core/ring/clock.h
 *		A clock for durations that costs a few nanoseconds.
 *
 * Where the kernel itself keeps time by the processor's time stamp counter, it has
 * found it constant, synchronous and unstoppable, so we read the counter
 * directly: clock_gettime() would touch a page of code and a page of data that
 * are in no cache after a context switch.  Elsewhere it is clock_gettime().
 */
#ifndef STENO_CLOCK_H
#define STENO_CLOCK_H

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct StenoClock
{
	uint64_t	scale;			/* microseconds a tick, times 2^32; 0: ticks are
								 * nanoseconds of clock_gettime */
} StenoClock;

/* Find out which clock there is; takes 20 ms where it has to be calibrated. */
extern void steno_clock_init(StenoClock *clock);

static inline uint64_t
steno_clock_ticks(const StenoClock *clock)
{
	struct timespec ts;

#if defined(__x86_64__)
	if (clock->scale != 0)
		return __rdtsc();
#endif
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

/* Microseconds between two readings; 0 should the second be the earlier. */
static inline uint64_t
steno_clock_us(const StenoClock *clock, uint64_t from, uint64_t to)
{
	uint64_t	ticks = to > from ? to - from : 0;

#if defined(__x86_64__)
	if (clock->scale != 0)
		return (uint64_t) (((unsigned __int128) ticks * clock->scale) >> 32);
#endif
	return ticks / 1000;
}

#endif							/* STENO_CLOCK_H */
