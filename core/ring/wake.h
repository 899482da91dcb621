/*
 * core/ring/wake.h
 *		Waiting for the disk: any number of processes wait until what they have
 *		put into their rings is on disk; one system call of the writer wakes all
 *		whom a sync has served.
 *
 * The writer works in rounds: it writes what the rings hold, begins the round's
 * sync, and, when that has succeeded, says so.  Who comes while a sync is under
 * way is served by the next round: one sync for all of them.
 *
 * A waiter sleeps on word, a futex.  It names the round that can serve it by a
 * bit (number mod 32), so that the end of another round does not wake it.  That
 * is an economy only: a waiter that is woken looks for itself, and one that is
 * not wakes up after its timeout.
 */
#ifndef STENO_WAKE_H
#define STENO_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ring/ring.h"

/*
 * Shared by a writer and those who wait for it; zeros at first.
 *
 *		asked		waiters set it, after their records are published; the writer
 *					takes it (exchange) before it reads the rings.  Both are
 *					sequentially consistent, so whoever's mark is taken has its
 *					records read.
 *		waiters		who is about to sleep, or sleeps: added to by each, and
 *					subtracted from when it is awake.
 *		started		number of the last round whose sync was begun.  Writer: release,
 *					after the rings' tails have moved over what the round has
 *					written; pairs with the waiter's acquire load, before it
 *					looks at the tail.  So if the tail has not come to the waiter's
 *					records, their round is a later one than started.
 *		word		counted up by the writer at the end of each round, after the
 *					rings' durable positions (release; the waiter's acquire load).
 *
 * No wake-up is missed: the writer changes word, then looks at waiters; a waiter
 * adds itself to waiters, then reads word, then durable, and the kernel puts it to
 * sleep only while word is what it has read.  Of the first two, one sees the
 * other (sequentially consistent): either the writer wakes, or the waiter reads the
 * new word, and with it the new durable.
 *
 * finished, wakes and woken are the writer's alone; the last two others may read.
 */
typedef struct StenoWake
{
	_Alignas(STENO_CACHE_LINE) _Atomic uint32_t word;
	_Atomic uint32_t started;
	uint32_t	finished;		/* last round that has ended well */
	_Atomic uint64_t wakes;		/* system calls */
	_Atomic uint64_t woken;		/* waiters that they have woken */

	_Alignas(STENO_CACHE_LINE) _Atomic uint32_t asked;
	_Atomic uint32_t waiters;
	_Atomic uint64_t waits;		/* begun; relaxed */
} StenoWake;

/* Waiter: have a round done; true when the writer has to be told, should it sleep. */
static inline bool
steno_wake_ask(StenoWake *w)
{
	return atomic_exchange(&w->asked, 1) == 0;
}

/* Writer, before it reads the rings: whether a round is asked for. */
static inline bool
steno_wake_take(StenoWake *w)
{
	return atomic_load_explicit(&w->asked, memory_order_relaxed) != 0 &&
		atomic_exchange(&w->asked, 0) != 0;
}

/*
 * Wait once, for at most timeout_ms, until the ring is durable up to position; true
 * when it is.  A signal handler ends the wait early, as the caller's own checks
 * want it.  Without a futex this sleeps for a moment.
 */
extern bool steno_wake_wait(StenoWake *w, const StenoRing *ring, uint64_t position, int timeout_ms);

/* Writer: what the rings' tails have passed is being synced now. */
extern void steno_wake_start(StenoWake *w);

/* Writer, when the sync has succeeded and the rings say how far. */
extern void steno_wake_finish(StenoWake *w);

#endif							/* STENO_WAKE_H */
