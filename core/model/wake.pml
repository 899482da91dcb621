/*
 * core/model/wake.pml
 *		The writer's deep sleep, and how a producer ends it.
 *
 * The writer says that it sleeps (asleep), looks at the rings once more, and
 * waits for its latch.  A producer that has published a record looks at asleep; when
 * it is set, it clears it and sets the latch.
 *
 * Between "publish, look at asleep" and "set asleep, look at the head" stands no
 * fence in the producer: that would cost every statement.  So a wake-up can be
 * missed, and the sleep has a timeout.  With it, no record is left in a ring for longer than
 * one such sleep.  WAITS models a producer that does not accept that, because it
 * waits for the writer: it has the fence, the writer's sleep has no timeout, and
 * still no wake-up is missed.
 */
#ifndef RECORDS
#define RECORDS 3
#endif
#define THREADS 2
#define PRODUCER 0
#define WRITER 1

#define HEAD 0
#define ASLEEP 1
#define LATCH 2
#define SLEEPING 3				/* the latch's maybe_sleeping */
#define LOCATIONS 4
#define HISTORY 12

#define NEVER_LOADS(thread, x) \
	(((thread) == PRODUCER && (x) == HEAD) || ((thread) == WRITER && ((x) == ASLEEP || (x) == SLEEPING)))

#include "memory.pml"

#ifdef WAITS
#define PRODUCER_FENCE SEQ_CST
#define WRITER_FENCE SEQ_CST
#define TIMEOUT false
#else
#define PRODUCER_FENCE RELAXED
#define WRITER_FENCE RELAXED
#define TIMEOUT timeout
#endif
#ifdef BREAK_NO_TIMEOUT			/* without fences it is needed */
#undef TIMEOUT
#define TIMEOUT false
#endif
#ifdef BREAK_WAITS_PRODUCER_FENCE
#undef PRODUCER_FENCE
#define PRODUCER_FENCE RELAXED
#endif
#ifdef BREAK_WAITS_WRITER_FENCE
#undef WRITER_FENCE
#define WRITER_FENCE RELAXED
#endif

byte written;					/* records that the writer has read */
bool signalled;					/* the signal or pipe by which a latch ends poll() */

/* The server's latch.c. */
inline set_latch(me)
{
	fence(me, SEQ_CST);
	load(me, LATCH, RELAXED, flag);
	if
	:: flag
	:: else ->
		store(me, LATCH, 1, RELAXED);
		fence(me, SEQ_CST);
		load(me, SLEEPING, RELAXED, flag);
		if
		:: flag -> signalled = true
		:: else
		fi
	fi;
	flag = 0
}

inline wait_latch(me)
{
	late = false;
	store(me, SLEEPING, 1, RELAXED);
	fence(me, SEQ_CST);
	load(me, LATCH, RELAXED, flag);
	if
	:: flag
	:: else ->
		if
		:: atomic { signalled -> signalled = false }
		:: atomic {
				TIMEOUT -> late = true;
				/* a second is long enough for any store to be seen */
				fence(PRODUCER, SEQ_CST); fence(WRITER, SEQ_CST)
			}
		fi
	fi;
	store(me, SLEEPING, 0, RELAXED);
	flag = 0
}

inline reset_latch(me)
{
	store(me, LATCH, 0, RELAXED);
	fence(me, SEQ_CST)
}

proctype Producer()
{
	byte i, flag;

	do
	:: i < RECORDS ->
		i++;
		store(PRODUCER, HEAD, i, RELEASE);
		fence(PRODUCER, PRODUCER_FENCE);
		load(PRODUCER, ASLEEP, RELAXED, flag);
		if
		:: flag ->
#ifndef BREAK_NO_WAKE
#ifdef BREAK_CLEAR_AFTER_WAKE
			flag = 0;
			set_latch(PRODUCER);
			store(PRODUCER, ASLEEP, 0, RELAXED)
#else
			flag = 0;
			store(PRODUCER, ASLEEP, 0, RELAXED);
			set_latch(PRODUCER)
#endif
#else
			flag = 0
#endif
		:: else
		fi
	:: else -> break
	od
}

proctype Writer()
{
	byte head, flag;
	bool late;

	do
	:: written == RECORDS -> break
	:: else ->
		/* a pass */
		load(WRITER, HEAD, ACQUIRE, head);
		if
		:: head != written ->
			written = head; late = false
		:: else ->
			/* a missed wake-up costs one sleep, not more */
			assert(!late);
			store(WRITER, ASLEEP, 1, RELAXED);
			fence(WRITER, WRITER_FENCE);
#ifndef BREAK_LOOK_BEFORE_SLEEP
			load(WRITER, HEAD, ACQUIRE, head);
#endif
			if
			:: head == written -> wait_latch(WRITER)
			:: else
			fi;
			reset_latch(WRITER);
			store(WRITER, ASLEEP, 0, RELAXED)
		fi;
		head = 0
	od;
	late = false
}

init
{
	atomic {
		run Producer();
		run Writer()
	}
}
