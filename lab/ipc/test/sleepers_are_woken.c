/*
 * lab/ipc/test/sleepers_are_woken.c
 *		The laboratory's ways to wake (ipc/waken.c): all sleepers wake up in each
 *		round, and calls are counted.
 */
#include <string.h>

#include "ipc/ipc.h"
#include "test/test.h"

static LabWakeCase
base(LabWaker waker, uint32_t sleepers)
{
	return (LabWakeCase)
	{
		.waker = waker, .sleepers = sleepers, .milliseconds = 100000, .rounds = 4, .patience_ms = 100000
	};
}

static LabWakeFigures
run(const LabWakeCase *c)
{
	LabWakeFigures f;

	if (!lab_waken(c, &f))
	{
		fprintf(stderr, "%s, %u sleepers: %s\n", lab_waker_names[c->waker], c->sleepers, f.error);
		CHECK(false);
	}
	CHECK(f.skipped[0] == '\0');
	CHECK(f.rounds == c->rounds);
	CHECK(f.first_50 > 0 && f.first_50 <= f.middle_50 && f.middle_50 <= f.last_50);
	CHECK(f.waking_seconds > 0);
	return f;
}

/* A latch takes a call to wait and one to be emptied, and four more for a set of its own. */
TEST(sleepers_are_woken_one_by_one)
{
	static const LabWaker each[] = {LAB_SIGNAL, LAB_EVENTFD};
	int			i;

	for (i = 0; i < 2; i++)
	{
		LabWakeCase c = base(each[i], 9);
		LabWakeFigures f = run(&c);

		CHECK(f.waker_calls == UINT64_C(4) * 9);
		CHECK(f.sleeper_calls <= UINT64_C(4) * 9 * 2);
		c.recreate = true;
		f = run(&c);
		CHECK(f.waker_calls == UINT64_C(4) * 9);
		CHECK(f.sleeper_calls <= UINT64_C(4) * 9 * 6);
		c.sleepers = 1;
		run(&c);
	}
}

/* At most: who is slow to fall asleep needs no call. */
TEST(sleepers_are_woken_by_one_call)
{
	LabWakeCase c = base(LAB_FUTEX, 9);
	LabWakeFigures f = run(&c);

	CHECK(f.waker_calls <= 4);
	c = base(LAB_CONDVAR, 9);
	run(&c);
	c.sleepers = 1;
	run(&c);
	c.waker = LAB_FUTEX;
	run(&c);
}

TEST(sleepers_without_latches_need_no_set)
{
	LabWakeCase c = base(LAB_FUTEX, 2);
	LabWakeFigures f;

	c.recreate = true;
	CHECK(lab_waken(&c, &f));
	CHECK(strcmp(f.skipped, "no epoll set is needed") == 0);
}

/* Who is not woken is missed. */
TEST(sleepers_that_are_forgotten_are_noticed)
{
	int			i;

	for (i = 0; i < LAB_WAKERS; i++)
	{
		LabWakeCase c = base((LabWaker) i, 3);
		LabWakeFigures f;

		c.miss = true;
		c.patience_ms = 300;
		CHECK(!lab_waken(&c, &f));
		CHECK(strstr(f.error, "of 3 sleepers were not woken") != NULL ||
			  strstr(f.error, "not all sleepers sleep") != NULL);
	}
}
