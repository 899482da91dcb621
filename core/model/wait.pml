/*
 * core/model/wait.pml
 *		Waiting for the disk (wake.h, wake.c): sessions that wait until their records are
 *		on disk, and the writer, which wakes all sessions whose records a sync has covered.
 *
 * Each session asks once, and sleeps without a timeout: a session that is not woken sleeps for
 * ever, which spin reports as an invalid end state.  The writer looks when it is asked, by
 * its latch; wake.pml is about that.
 *
 * Without ROUNDS there are two waiters, and any round wakes them.  With ROUNDS there is one
 * waiter, whose bits say which rounds can serve it; other sessions have rounds of their own, and a
 * sync may fail, and is repeated.
 */
#ifdef ROUNDS
#define WAITERS 1
#define FAILURES 1
#define OTHERS 2				/* rounds for others */
#else
#define WAITERS 2
#define FAILURES 0
#define OTHERS 0
#endif
#define THREADS (WAITERS + 1)
#define WRITER WAITERS

/* Each waiter has a ring of one record: published, on disk, freed. */
#define HEAD(i) (i)
#define DURABLE(i) (WAITERS + (i))
#define ASKED (2 * WAITERS)
#define COUNT (2 * WAITERS + 1)	/* who is about to sleep: waiters */
#define WORD (2 * WAITERS + 2)
#ifdef ROUNDS
#define STARTED (2 * WAITERS + 3)
#define TAIL(i) (2 * WAITERS + 4 + (i))
#define LOCATIONS (3 * WAITERS + 4)
#define OF_ROUNDS(thread, x) ((x) == TAIL(thread) || (x) == STARTED)
#else
#define LOCATIONS (2 * WAITERS + 3)
#define OF_ROUNDS(thread, x) false
#endif
#define HISTORY 10

/* The writer loads heads, asked and the count; a waiter what is about its own ring, and the writer's words. */
#define NEVER_LOADS(thread, x) \
	(((thread) == WRITER && (x) >= DURABLE(0) && (x) != ASKED && (x) != COUNT) || \
	 ((thread) != WRITER && (x) != DURABLE(thread) && (x) != WORD && !OF_ROUNDS(thread, x)))

#include "memory.pml"

#ifdef BREAK_ASK_ORDER			/* asked could be seen before the record */
#define ASK RELAXED
#else
#define ASK SEQ_CST
#endif
#ifdef BREAK_TAKE_ORDER
#define TAKE RELAXED
#else
#define TAKE SEQ_CST
#endif
#ifdef BREAK_WAITER_WORD_ORDER
#define WAITER_WORD RELAXED
#else
#define WAITER_WORD SEQ_CST
#endif
#ifdef BREAK_WRITER_WORD_ORDER
#define WRITER_WORD ACQ_REL
#else
#define WRITER_WORD SEQ_CST
#endif
#ifdef BREAK_WRITER_COUNT_ORDER
#define WRITER_COUNT ACQUIRE
#else
#define WRITER_COUNT SEQ_CST
#endif
#ifdef BREAK_STARTED_ORDER
#define STARTED_ORDER RELAXED
#else
#define STARTED_ORDER RELEASE
#endif

/* Rounds by their bits: fewer than in truth, so that they come round. */
#define BITS 4
#define BIT(round) (1 << ((round) % BITS))
#define ALL_ROUNDS ((1 << BITS) - 1)

bool disk[WAITERS];				/* whose record has been synced, in truth */
bool sleeps[WAITERS];			/* in futex_wait */
byte rounds_of[WAITERS];
byte done;

/*
 * FUTEX_WAIT_BITSET: the kernel's look at the word and its queueing are one
 * step under its lock, and it begins with a full barrier; so does FUTEX_WAKE_BITSET.
 */
inline futex_wait(me, w, rounds)
{
	atomic {
		fence(me, SEQ_CST);
		load(me, WORD, RELAXED, seen);
		if
		:: seen == w -> sleeps[me] = true; rounds_of[me] = rounds
		:: else
		fi;
		seen = 0
	}
	atomic { !sleeps[me] -> rounds_of[me] = 0 }
}

/* steno_wake_wait */
inline wait_once(me)
{
	fetch_add(me, COUNT, 1, SEQ_CST);
#ifndef BREAK_WORD_AFTER_DURABLE
	load(me, WORD, WAITER_WORD, w);
#endif
	atomic {
#ifndef BREAK_NO_LOOK
		load(me, DURABLE(me), ACQUIRE, durable);
#endif
#ifdef BREAK_WORD_AFTER_DURABLE
	}
	load(me, WORD, WAITER_WORD, w);
	atomic {
#endif
		if
		:: durable
		:: else ->
#ifdef ROUNDS
#ifdef BREAK_TAIL_BEFORE_STARTED
			load(me, TAIL(me), ACQUIRE, tail);
#endif
			load(me, STARTED, ACQUIRE, started);
#ifndef BREAK_TAIL_BEFORE_STARTED
			load(me, TAIL(me), ACQUIRE, tail);
#endif
#ifdef BREAK_NEXT_ROUND_ONLY
			tail = 0;
#endif
			rounds = BIT(started + 1) | (tail -> BIT(started) : 0);
			started = 0; tail = 0
#else
			rounds = ALL_ROUNDS
#endif
		fi
	};
	if
	:: rounds -> futex_wait(me, w, rounds)
	:: else
	fi
}

/* steno_wake_ask, and steno_wake_take: an exchange */
inline exchange_asked(me, what, how)
{
	atomic {
		old = last_value(ASKED);
		fetch_add(me, ASKED, what - old, how);
		old = 0
	}
}

proctype Waiter(byte me)
{
	byte durable, w, seen, rounds, started, tail, old;

	/* the waiters are all alike: they begin in their order */
	atomic {
		me == 0 || last_value(HEAD(me - 1));
#ifdef BREAK_ASK_BEFORE_PUBLISH
		exchange_asked(me, 1, ASK)
	};
	atomic {
#endif
		store(me, HEAD(me), 1, RELEASE);
#ifndef BREAK_ASK_BEFORE_PUBLISH
		exchange_asked(me, 1, ASK)
#endif
	};
	do
	:: true ->
		wait_once(me);
		atomic {
			w = 0; durable = 0; rounds = 0;
			fetch_add(me, COUNT, -1, SEQ_CST);
			load(me, DURABLE(me), ACQUIRE, durable);
			if
			:: durable -> durable = 0; break
			:: else
			fi
		}
	od;
	/* the promise */
	assert(disk[me]);
	done++
}

/* steno_ring_synced, of all rings */
inline say_durable()
{
	atomic {
		do
		:: i < WAITERS ->
			if
			:: tails[i] && !durable[i] ->
				durable[i] = true;
				store(WRITER, DURABLE(i), 1, RELEASE)
			:: else
			fi;
			i++
		:: else -> i = 0; break
		od
	}
}

/* steno_wake_start */
inline start()
{
	last++;
#ifdef ROUNDS
	store(WRITER, STARTED, last, STARTED_ORDER)
#endif
}

/* steno_wake_finish */
inline finish()
{
	d_step {
#ifdef BREAK_LAST_ROUND_ONLY
		finished = last - 1;
#endif
		if
		:: last - finished >= BITS -> rounds = ALL_ROUNDS; finished = last
		:: else
		fi;
		do
		:: finished < last -> finished++; rounds = rounds | BIT(finished)
		:: else -> break
		od
	}
#if !defined(BREAK_WORD_STAYS) && !defined(BREAK_WORD_AFTER_WAKE)
	fetch_add(WRITER, WORD, 1, WRITER_WORD);
#endif
	load(WRITER, COUNT, WRITER_COUNT, waiters);
	if
	:: waiters > 0 ->
		atomic {
			fence(WRITER, SEQ_CST);
			do
			:: i < WAITERS ->
				if
				:: sleeps[i] && (rounds_of[i] & rounds) ->
					sleeps[i] = false;
#ifdef BREAK_WAKE_ONE
					break
#endif
				:: else
				fi;
				i++
			:: else -> break
			od;
			i = 0
		}
	:: else
	fi;
#ifdef BREAK_WORD_AFTER_WAKE
	fetch_add(WRITER, WORD, 1, WRITER_WORD);
#endif
	waiters = 0; rounds = 0
}

inline take()
{
	load(WRITER, ASKED, RELAXED, asked);
	if
	:: asked ->
		exchange_asked(WRITER, 0, TAKE);
		sync_asked = true
	:: else
	fi;
	asked = 0
}

/* steno_writer_drain, _write: what is new is written, and freed */
inline drain()
{
	do
	:: i < WAITERS ->
		if
		:: !tails[i] ->
			load(WRITER, HEAD(i), ACQUIRE, head);
			if
			:: head ->
				tails[i] = true;
				dirty = true;
#ifdef ROUNDS
				store(WRITER, TAIL(i), 1, RELEASE)
#endif
			:: else
			fi;
			head = 0
		:: else
		fi;
		i++
	:: else -> i = 0; break
	od
}

inline sync()
{
	d_step {
		do
		:: i < WAITERS -> disk[i] = tails[i]; i++
		:: else -> break
		od;
		i = 0;
		dirty = false
	}
}

/* pass */
proctype Writer()
{
	byte i, head, asked, waiters, rounds, last, finished, failures, others, old;
	bool tails[WAITERS], durable[WAITERS];
	bool sync_asked, dirty, synced;

end:
	do
	:: done == WAITERS -> break
	:: atomic {
			if
			:: last_value(ASKED) || sync_asked
			:: others < OTHERS -> others++; sync_asked = true
			fi;
#ifdef BREAK_TAKE_AFTER_DRAIN
			drain()
		};
		atomic {
			take()
		};
#else
			take()
#ifdef BREAK_START_BEFORE_DRAIN
			;
			if
			:: sync_asked -> start()
			:: else
			fi
#endif
		};
		atomic {
			drain()
		};
#endif
		atomic {
			if
			:: sync_asked ->
#ifndef BREAK_START_BEFORE_DRAIN
				start();
#endif
				if
				:: dirty && failures < FAILURES -> failures++
				:: true ->
					/* announce_synced */
					sync_asked = false;
#ifndef BREAK_DURABLE_BEFORE_SYNC
					sync();
#endif
#ifndef BREAK_WAKE_BEFORE_DURABLE
					say_durable();
#endif
					synced = true
				fi
			:: else
			fi
		};
		if
		:: synced ->
			synced = false;
			finish();
#ifdef BREAK_WAKE_BEFORE_DURABLE
			say_durable();
#endif
#ifdef BREAK_DURABLE_BEFORE_SYNC
			sync();
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
