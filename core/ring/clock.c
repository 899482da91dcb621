/*
 * core/ring/clock.c
 *		Determines whether the time stamp counter can be used, and its frequency.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ring/clock.h"

#if defined(__x86_64__)

/* Whether the kernel's clock source is the time stamp counter. */
static int
kernel_trusts_tsc(void)
{
	char		name[32] = "";
	FILE	   *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");

	if (f == NULL)
		return 0;
	if (fgets(name, sizeof(name), f) == NULL)
		name[0] = '\0';
	fclose(f);
	return strcmp(name, "tsc\n") == 0;
}

/*
 * Read the counter and the monotonic clock at the same time, as nearly as possible:
 * of ten attempts, take the one with the least time between the two reads of the
 * counter.
 */
static void
read_both(uint64_t *tsc, uint64_t *ns)
{
	uint64_t	best = UINT64_MAX;
	int			i;

	for (i = 0; i < 10; i++)
	{
		struct timespec ts;
		uint64_t	before = __rdtsc();
		uint64_t	after;

		clock_gettime(CLOCK_MONOTONIC, &ts);
		after = __rdtsc();
		if (after - before < best)
		{
			best = after - before;
			*tsc = before + (after - before) / 2;
			*ns = (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
		}
	}
}

#endif

uint64_t
steno_clock_of_system(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

void
steno_clock_init(StenoClock *clock)
{
	clock->scale = 0;
#if defined(__x86_64__)
	if (kernel_trusts_tsc())
	{
		struct timespec pause = {0, 20 * 1000 * 1000};
		uint64_t	tsc0 = 0,
					tsc1 = 0,
					ns0 = 0,
					ns1 = 0;

		read_both(&tsc0, &ns0);
		nanosleep(&pause, NULL);
		read_both(&tsc1, &ns1);
		if (tsc1 > tsc0 && ns1 > ns0)
			clock->scale = (uint64_t) ((double) (ns1 - ns0) / 1000 / (double) (tsc1 - tsc0) *
									   4294967296.0);
	}
#endif
}
