/*
 * core/ring/wake.c
 *		Sleeping until a round of the writer is on disk, and waking the sleepers.
 *
 * The protocol is in wake.h.
 */
#include <errno.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "ring/wake.h"

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a futex must be a plain word");

#define ALL_ROUNDS UINT32_MAX

static uint32_t
bit_of(uint32_t round)
{
	return UINT32_C(1) << (round % 32);
}

#ifdef __linux__

/*
 * The word is in memory that processes share, so FUTEX_PRIVATE_FLAG must not be
 * used.  A signal whose handler has run ends a wait that has a timeout with EINTR,
 * even under SA_RESTART (the kernel restarts a wait without one).  The timeout of
 * FUTEX_WAIT_BITSET is an absolute time.
 */
static void
sleep_on(_Atomic uint32_t *word, uint32_t value, uint32_t rounds, int timeout_ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L)
	{
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &until, NULL, rounds);
}

/* Wake all processes that sleep for one of these rounds; returns their number. */
static long
wake_all(_Atomic uint32_t *word, uint32_t rounds)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, rounds);
}

#else

static void
sleep_on(_Atomic uint32_t *word, uint32_t value, uint32_t rounds, int timeout_ms)
{
	struct timespec nap = {0, 500000};

	(void) rounds;
	(void) timeout_ms;
	if (atomic_load(word) == value)
		nanosleep(&nap, NULL);
}

static long
wake_all(_Atomic uint32_t *word, uint32_t rounds)
{
	(void) word;
	(void) rounds;
	return 0;
}

#endif

static bool
is_durable(const StenoRing *ring, uint64_t position)
{
	/* pairs with the release store in steno_ring_synced */
	return atomic_load_explicit(&ring->durable, memory_order_acquire) >= position;
}

bool
steno_wake_wait(StenoWake *w, const StenoRing *ring, uint64_t position, int timeout_ms)
{
	uint32_t	word;

	atomic_fetch_add(&w->waiters, 1);
	word = atomic_load(&w->word);
	if (!is_durable(ring, position))
	{
		/* load started before tail: see wake.h */
		uint32_t	started = atomic_load_explicit(&w->started, memory_order_acquire);
		uint32_t	rounds = bit_of(started + 1);

		if (atomic_load_explicit(&ring->tail, memory_order_acquire) >= position)
			rounds |= bit_of(started);
		sleep_on(&w->word, word, rounds, timeout_ms);
	}
	atomic_fetch_sub(&w->waiters, 1);
	return is_durable(ring, position);
}

void
steno_wake_start(StenoWake *w)
{
	/* pairs with the acquire load in steno_wake_wait */
	atomic_store_explicit(&w->started, atomic_load_explicit(&w->started, memory_order_relaxed) + 1,
						  memory_order_release);
}

void
steno_wake_finish(StenoWake *w)
{
	uint32_t	last = atomic_load_explicit(&w->started, memory_order_relaxed);
	uint32_t	rounds = 0;
	long		n;

	/* also wake the waiters of earlier rounds whose sync failed */
	if (last - w->finished >= 32)
		rounds = ALL_ROUNDS;
	else
		for (; w->finished != last; w->finished++)
			rounds |= bit_of(w->finished + 1);
	w->finished = last;
	atomic_fetch_add(&w->word, 1);
	if (rounds == 0 || atomic_load(&w->waiters) == 0)
		return;
	n = wake_all(&w->word, rounds);
	atomic_fetch_add_explicit(&w->wakes, 1, memory_order_relaxed);
	if (n > 0)
		atomic_fetch_add_explicit(&w->woken, (uint64_t) n, memory_order_relaxed);
}
