/*
 * core/model/wait.pml
 *		The durable wait: sessions that wait until their records are on disk, and the
 *		writer that wakes all of them with one broadcast.
 *
 * Nobody has a timeout here: whoever sleeps and is not woken sleeps for ever, which
 * spin reports as an invalid end state.
 *
 * A waiter publishes its record (the head of its ring), asks (request), has the writer
 * woken (wake.pml), and then loops:
 *
 *		durable >= wanted?  done
 *		w = word					before the second look at durable
 *		waiters += 1
 *		fence, seq_cst				pairs with the writer's
 *		durable >= wanted?  done
 *		futex_wait(word, w)
 *		waiters -= 1
 *
 * The writer looks at the requests, then drains the rings, writes, syncs, and says so:
 *
 *		durable = what was drained	release
 *		fence, seq_cst				pairs with the waiter's
 *		waiters > 0?  word += 1, futex_wake(word, all)
 *
 * With the two fences, word needs no order of its own: its accesses are relaxed here.
 */
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef ASKS
#define ASKS 1
#endif
#define THREADS (WAITERS + 1)
#define WRITER WAITERS

/* Each waiter has a ring: its head, and up to where it is on disk. */
#define HEAD(i) (i)
#define DURABLE(i) (WAITERS + (i))
#define REQUEST (2 * WAITERS)
#define COUNT (2 * WAITERS + 1)
#define WORD (2 * WAITERS + 2)
#define LOCATIONS (2 * WAITERS + 3)
#define HISTORY 10

/* The writer loads heads, requests and the count; a waiter its own durable, and the word. */
#define NEVER_LOADS(thread, x) \
	(((thread) == WRITER && (((x) >= DURABLE(0) && (x) < REQUEST) || (x) == WORD)) || \
	 ((thread) != WRITER && (x) != DURABLE(thread) && (x) != WORD))

#include "memory.pml"

#ifdef BREAK_WAITER_FENCE		/* fetch_add(seq_cst) alone is no fence */
#define WAITER_FENCE RELAXED
#else
#define WAITER_FENCE SEQ_CST
#endif
#ifdef BREAK_WRITER_FENCE
#define WRITER_FENCE RELAXED
#else
#define WRITER_FENCE SEQ_CST
#endif
#ifdef BREAK_REQUEST_ORDER		/* the request could be seen before the record */
#define REQUEST_ORDER RELAXED
#else
#define REQUEST_ORDER RELEASE
#endif
#ifdef BREAK_WRITER_REQUEST_ORDER
#define WRITER_REQUEST_ORDER RELAXED
#else
#define WRITER_REQUEST_ORDER ACQUIRE
#endif

byte disk[WAITERS];				/* how far each ring has been synced, in truth */
bool sleeps[WAITERS];			/* in futex_wait */
byte done;

/*
 * futex_wait(WORD, w): the kernel's look at the word and its queueing are one
 * step under its lock, and it begins with a full barrier; so does futex_wake.
 */
inline futex_wait(me, w)
{
	atomic {
		fence(me, SEQ_CST);
		load(me, WORD, RELAXED, seen);
		if
		:: seen == w -> sleeps[me] = true
		:: else
		fi;
		seen = 0
	}
	!sleeps[me]
}

inline wake_waiters()
{
	fence(WRITER, WRITER_FENCE);
	load(WRITER, COUNT, RELAXED, waiters);
	if
	:: waiters > 0 ->
#if !defined(BREAK_WORD_STAYS) && !defined(BREAK_WORD_AFTER_WAKE)
		fetch_add(WRITER, WORD, 1, RELAXED);
#endif
		atomic {
			fence(WRITER, SEQ_CST);
			i = 0;
			do
			:: i < WAITERS ->
#ifdef BREAK_WAKE_ONE
				if
				:: sleeps[i] -> sleeps[i] = false; break
				:: else
				fi;
#endif
				sleeps[i] = false; i++
			:: else -> break
			od;
			i = 0
		}
#ifdef BREAK_WORD_AFTER_WAKE
		fetch_add(WRITER, WORD, 1, RELAXED);
#endif
	:: else
	fi;
	waiters = 0
}

inline say_durable()
{
	atomic {
		do
		:: i < WAITERS ->
			if
			:: heads[i] != durable[i] ->
				durable[i] = heads[i];
				store(WRITER, DURABLE(i), heads[i], RELEASE)
			:: else
			fi;
			i++
		:: else -> i = 0; break
		od
	}
}

inline write_and_sync()
{
	d_step {
		i = 0;
		do
		:: i < WAITERS -> disk[i] = heads[i]; i++
		:: else -> break
		od;
		i = 0
	}
}

proctype Waiter(byte me)
{
	byte wanted, durable, w, seen;

	do
	:: wanted < ASKS ->
		atomic {
			wanted++;
			store(me, HEAD(me), wanted, RELEASE);
			fetch_add(me, REQUEST, 1, REQUEST_ORDER)
		}
		do
		:: true ->
			load(me, DURABLE(me), ACQUIRE, durable);
			if
			:: durable >= wanted -> break
			:: else -> durable = 0
			fi;
#ifndef BREAK_WORD_AFTER_RECHECK
			load(me, WORD, RELAXED, w);
#endif
			fetch_add(me, COUNT, 1, RELAXED);
			fence(me, WAITER_FENCE);
#ifndef BREAK_NO_RECHECK
			load(me, DURABLE(me), ACQUIRE, durable);
#endif
#ifdef BREAK_WORD_AFTER_RECHECK
			load(me, WORD, RELAXED, w);
#endif
			if
			:: durable >= wanted
			:: else -> futex_wait(me, w)
			fi;
			w = 0; durable = 0;
			fetch_add(me, COUNT, -1, RELAXED)
		od;
		durable = 0;
		/* the promise */
		assert(disk[me] >= wanted)
	:: else -> break
	od;
	done++
}

proctype Writer()
{
	byte i, request, served, waiters;
	byte heads[WAITERS], durable[WAITERS];

	do
	:: done == WAITERS -> break
	:: last_value(REQUEST) != served ->
#ifndef BREAK_REQUEST_AFTER_DRAIN
		load(WRITER, REQUEST, WRITER_REQUEST_ORDER, request);
#endif
		atomic {
			do
			:: i < WAITERS -> load(WRITER, HEAD(i), ACQUIRE, heads[i]); i++
			:: else -> i = 0; break
			od
		}
#ifdef BREAK_REQUEST_AFTER_DRAIN
		load(WRITER, REQUEST, WRITER_REQUEST_ORDER, request);
#endif
		if
		:: request != served ->
			served = request;
#ifdef BREAK_DURABLE_BEFORE_SYNC
			say_durable();
#endif
			write_and_sync();
#ifdef BREAK_WAKE_BEFORE_DURABLE
			wake_waiters();
			say_durable()
#else
			say_durable();
			wake_waiters()
#endif
		:: else
		fi
	od
}

init
{
	atomic {
		byte n;

		run Writer();
		do
		:: n < WAITERS -> run Waiter(n); n++
		:: else -> break
		od
	}
}
