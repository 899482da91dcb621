/*
 * core/ring/wake.h
 *		Waiting for the disk: any number of processes wait until the records in
 *		their rings are on disk, and the writer wakes all processes that a sync has
 *		served with one system call.
 *
 * The writer works in rounds: it writes the contents of the rings, begins the
 * round's sync, and reports when that has succeeded.  Processes that begin to wait
 * during a sync are all served by the sync of the next round.
 *
 * A waiter sleeps on word, a futex, with a bit mask of the rounds that can serve it
 * (number mod 32), so that the end of another round does not wake it.  The mask
 * only saves wake-ups: a waiter that was woken checks by itself, and one that was
 * not woken wakes up after its timeout.
 */
#ifndef STENO_WAKE_H
#define STENO_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ring/ring.h"

/*
 * Shared by a writer and the processes that wait for it; initially zeros.
 *
 *		asked		set by waiters after they have published their records; the
 *					writer takes it (exchange) before it reads the rings.  Both
 *					are sequentially consistent, so the writer then reads the
 *					records of all waiters that had set it.
 *		waiters		number of processes that sleep or are about to: each waiter
 *					increments it before it sleeps, and decrements it after.
 *		started		number of the last round whose sync was begun.  The writer's
 *					release store, after it has moved the rings' tails past what
 *					the round has written, pairs with the acquire load that a
 *					waiter makes before it reads the tail.  So if the tail has
 *					not reached the waiter's records, they belong to a later
 *					round than started.
 *		word		incremented by the writer at the end of each round, after it
 *					has set the rings' durable positions (release; the waiter
 *					loads them with acquire).
 *
 * No wake-up is missed: the writer changes word, then reads waiters; a waiter
 * increments waiters, then reads word, then durable, and the kernel puts it to
 * sleep only while word has the value that it read.  These accesses to word and
 * waiters are sequentially consistent, so at least one side sees the other's
 * change: either the writer wakes the waiter, or the waiter reads the new word, and
 * then the new durable.
 *
 * Only the writer accesses finished.  Only the writer changes wakes and woken;
 * other processes may read them.
 */
typedef struct StenoWake
{
	_Alignas(STENO_CACHE_LINE) _Atomic uint32_t word;
	_Atomic uint32_t started;
	uint32_t	finished;		/* last round whose sync succeeded */
	_Atomic uint64_t wakes;		/* system calls */
	_Atomic uint64_t woken;		/* waiters that these calls have woken */

	_Alignas(STENO_CACHE_LINE) _Atomic uint32_t asked;
	_Atomic uint32_t waiters;
	_Atomic uint64_t waits;		/* number of waits that were begun; relaxed */
} StenoWake;

/*
 * Waiter: ask for a round.  True if the caller must wake the writer in case it
 * sleeps; false if another waiter has asked already.
 */
static inline bool
steno_wake_ask(StenoWake *w)
{
	return atomic_exchange(&w->asked, 1) == 0;
}

/* Writer, before it reads the rings: whether a waiter has asked for a round. */
static inline bool
steno_wake_take(StenoWake *w)
{
	return atomic_load_explicit(&w->asked, memory_order_relaxed) != 0 &&
		atomic_exchange(&w->asked, 0) != 0;
}

/*
 * Wait once, for at most timeout_ms, until the ring is durable up to position; true
 * if it is.  A signal ends the wait early, so that the caller can check for
 * interrupts.  On systems without futexes, this sleeps for a moment.
 */
extern bool steno_wake_wait(StenoWake *w, const StenoRing *ring, uint64_t position, int timeout_ms);

/* Writer, after it has moved the rings' tails and before it syncs. */
extern void steno_wake_start(StenoWake *w);

/* Writer, after the sync has succeeded and the rings' durable positions are set. */
extern void steno_wake_finish(StenoWake *w);

#endif							/* STENO_WAKE_H */
