/*
 * core/test/ring/waiters_are_woken_at_once.c
 *		Whoever waits for the disk is served by one sync with all others, woken by
 *		one system call, and never forgotten.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "test/test.h"
#include "ring/wake.h"

#define MOST 64

static StenoWake wake;
static StenoRing rings[MOST];
static _Atomic int woken;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void
nap(long us)
{
	struct timespec t = {0, us * 1000};

	nanosleep(&t, NULL);
}

/* What a writer's pass does: read and write, sync, tell. */
static void
write_all(int n)
{
	int			i;

	for (i = 0; i < n; i++)
		steno_ring_free(&rings[i], steno_ring_published(&rings[i]));
}

static void
finish(int n)
{
	int			i;

	for (i = 0; i < n; i++)
		steno_ring_synced(&rings[i]);
	steno_wake_finish(&wake);
}

static void
publish(StenoRing *ring)
{
	atomic_store_explicit(&ring->head, atomic_load(&ring->head) + 8, memory_order_release);
}

/* ---- all at once ---- */

/* With a timeout that no test waits for. */
static void *
wait_long(void *arg)
{
	StenoRing  *ring = arg;

	while (!steno_wake_wait(&wake, ring, atomic_load(&ring->head), 1000000))
		;
	atomic_fetch_add(&woken, 1);
	return NULL;
}

/* All are in the kernel, or as good as. */
static void
await_sleepers(uint32_t n)
{
	while (atomic_load(&wake.waiters) != n)
		nap(1000);
	nap(100000);
}

THREADED_TEST(wake_of_64_waiters_is_one_system_call)
{
	pthread_t	threads[MOST];
	int			i;

	for (i = 0; i < MOST; i++)
	{
		publish(&rings[i]);
		(void) steno_wake_ask(&wake);
		CHECK(pthread_create(&threads[i], NULL, wait_long, &rings[i]) == 0);
	}
	await_sleepers(MOST);
	CHECK(steno_wake_take(&wake));
	CHECK(!steno_wake_take(&wake));
	write_all(MOST);
	steno_wake_start(&wake);
	CHECK(atomic_load(&woken) == 0);
	finish(MOST);
	for (i = 0; i < MOST; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(atomic_load(&wake.waiters) == 0);
#ifdef __linux__
	CHECK(atomic_load(&wake.wakes) == 1);
	CHECK(atomic_load(&wake.woken) == MOST);
#endif
	/* nobody waits: no system call */
	steno_wake_start(&wake);
	finish(MOST);
#ifdef __linux__
	CHECK(atomic_load(&wake.wakes) == 1);
#endif
}

/* Who comes while a sync is under way is left alone by its end. */
THREADED_TEST(wake_is_for_those_whom_the_round_serves)
{
	pthread_t	first;
	pthread_t	second;

	publish(&rings[0]);
	CHECK(pthread_create(&first, NULL, wait_long, &rings[0]) == 0);
	await_sleepers(1);
	write_all(2);
	steno_wake_start(&wake);
	publish(&rings[1]);
	CHECK(pthread_create(&second, NULL, wait_long, &rings[1]) == 0);
	await_sleepers(2);
	finish(2);
	CHECK(pthread_join(first, NULL) == 0);
#ifdef __linux__
	CHECK(atomic_load(&wake.woken) == 1);
#endif
	CHECK(atomic_load(&wake.waiters) == 1);
	write_all(2);
	steno_wake_start(&wake);
	finish(2);
	CHECK(pthread_join(second, NULL) == 0);
}

/* A round whose sync has failed is made good by the next one. */
THREADED_TEST(wake_after_a_failed_round_is_for_both)
{
	pthread_t	first;
	pthread_t	second;
	int			i;

	publish(&rings[0]);
	CHECK(pthread_create(&first, NULL, wait_long, &rings[0]) == 0);
	await_sleepers(1);
	write_all(2);
	steno_wake_start(&wake);
	publish(&rings[1]);
	CHECK(pthread_create(&second, NULL, wait_long, &rings[1]) == 0);
	await_sleepers(2);
	for (i = 0; i < 40; i++)
	{
		write_all(2);
		steno_wake_start(&wake);
	}
	finish(2);
	CHECK(pthread_join(first, NULL) == 0);
	CHECK(pthread_join(second, NULL) == 0);
}

/* A record that was written before its session began to wait, and is being synced. */
THREADED_TEST(wake_serves_what_is_being_synced)
{
	pthread_t	thread;

	publish(&rings[0]);
	write_all(1);
	steno_wake_start(&wake);
	CHECK(pthread_create(&thread, NULL, wait_long, &rings[0]) == 0);
	await_sleepers(1);
	finish(1);
	CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- in any order ---- */

static _Atomic bool stop;

/* As sessions do; who is forgotten, waits longer than a test may last. */
static void *
sessions(void *arg)
{
	StenoRing  *ring = arg;
	uint64_t	n = test_parameter("WAKE_ROUNDS", 5000);
	uint64_t	i;

	for (i = 0; i < n; i++)
	{
		publish(ring);
		(void) steno_wake_ask(&wake);
		while (!steno_wake_wait(&wake, ring, atomic_load(&ring->head), 1000000))
			;
		CHECK(atomic_load(&ring->durable) == atomic_load(&ring->head));
	}
	return NULL;
}

static void *
writer(void *unused)
{
	uint64_t	random = test_seed();

	while (!atomic_load(&stop))
	{
		if (!steno_wake_take(&wake))
		{
			nap(20);
			continue;
		}
		write_all(8);
		steno_wake_start(&wake);
		/* the disk takes its time, and fails now and then */
		if (test_below(&random, 4) == 0)
			nap((long) test_below(&random, 100));
		if (test_below(&random, 16) == 0)
		{
			write_all(8);
			steno_wake_start(&wake);
		}
		finish(8);
	}
	return unused;
}

THREADED_TEST(wake_forgets_nobody)
{
	pthread_t	threads[8];
	pthread_t	w;
	int			i;

	CHECK(pthread_create(&w, NULL, writer, NULL) == 0);
	for (i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, sessions, &rings[i]) == 0);
	for (i = 0; i < 8; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	atomic_store(&stop, true);
	CHECK(pthread_join(w, NULL) == 0);
	CHECK(atomic_load(&wake.waiters) == 0);
}

/* ---- ends of a wait ---- */

TEST(wake_wait_ends_after_its_timeout)
{
	double		began = now();

	publish(&rings[0]);
	CHECK(!steno_wake_wait(&wake, &rings[0], 8, 30));
#ifdef __linux__
	CHECK(now() - began >= 0.029);
#endif
	CHECK(steno_wake_wait(&wake, &rings[0], 0, 30));
	CHECK(atomic_load(&wake.waiters) == 0);
}

static void
handle(int signal_number)
{
	(void) signal_number;
}

/* Also of a handler that asks for system calls to be restarted. */
TEST(wake_wait_ends_with_a_signal)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	struct itimerval timer = {.it_value = {.tv_usec = 50000}};
	double		began = now();

	publish(&rings[0]);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	CHECK(!steno_wake_wait(&wake, &rings[0], 8, 60000));
	CHECK(now() - began < 30);
}
