/*
 * core/test/ring/clock_measures_microseconds.c
 *		The cheap clock goes as fast as the system's.
 */
#include <time.h>

#include "ring/clock.h"
#include "test/test.h"

static uint64_t
system_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

/* The system's reading encloses ours, so however long we are not scheduled, it is no less. */
TEST(clock_agrees_with_the_system)
{
	struct timespec pause = {0, 300 * 1000 * 1000};
	StenoClock	clock;
	uint64_t	outer;
	uint64_t	inner;
	uint64_t	from;
	uint64_t	us;

	steno_clock_init(&clock);
	outer = system_us();
	from = steno_clock_ticks(&clock);
	inner = system_us();
	nanosleep(&pause, NULL);
	inner = system_us() - inner;
	us = steno_clock_us(&clock, from, steno_clock_ticks(&clock));
	outer = system_us() - outer;
	/* half a percent, for the calibration */
	CHECK(us >= inner - inner / 200 - 2);
	CHECK(us <= outer + outer / 200 + 2);
	CHECK(steno_clock_us(&clock, from + 1, from) == 0);
}
