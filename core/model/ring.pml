/*
 * core/model/ring.pml
 *		The ring (ring.h): reserve, encode, publish; read, free.
 *
 * A ring of four units, messages of one or two: each run wraps, fills the ring, and
 * needs fillers.  Both sides cache the other's position.  The ring's bytes are plain
 * memory: besides the order of messages it is checked that no byte is touched by both
 * sides without an order between them.
 */
#ifndef MESSAGES
#define MESSAGES 6
#endif
#define SIZE 4
#define THREADS 2
#define PRODUCER 0
#define CONSUMER 1

#define HEAD 0
#define TAIL 1
#define LOCATIONS 2
#define HISTORY 10
#define CELLS SIZE

#define NEVER_LOADS(thread, x) (((thread) == PRODUCER) == ((x) == HEAD))

#include "memory.pml"

#ifdef BREAK_PUBLISH_ORDER		/* steno_ring_publish */
#define PUBLISH RELAXED
#else
#define PUBLISH RELEASE
#endif
#ifdef BREAK_PUBLISHED_ORDER	/* steno_ring_published */
#define PUBLISHED RELAXED
#else
#define PUBLISHED ACQUIRE
#endif
#ifdef BREAK_FREE_ORDER			/* steno_ring_free */
#define FREE RELAXED
#else
#define FREE RELEASE
#endif
#ifdef BREAK_RESERVE_ORDER		/* steno_ring_reserve */
#define RESERVE RELAXED
#else
#define RESERVE ACQUIRE
#endif
#ifdef BREAK_ROOM				/* one unit too many */
#define ROOM (SIZE + 1)
#else
#define ROOM SIZE
#endif

/* What a unit holds: a message's number, and in its first unit its length. */
#define FIRST(number, units) ((number) * 8 + (units))
#define REST(number) ((number) * 8 + 7)
#define LEN(unit) ((unit) % 8)
#define NUMBER(unit) ((unit) / 8)
#define FILLER 0				/* its number */

byte published;					/* messages whose publishing store has been done */

inline reserve()
{
	if
	:: units <= left -> need = units
	:: else ->
#ifdef BREAK_FILLER_UNCOUNTED
		need = units
#else
		need = left + units
#endif
	fi;
	do
	:: head + need - tail <= ROOM -> break
	:: else ->
#ifdef BREAK_RESERVE_BLINDLY
		tail = last_value(TAIL);
		break
#else
		/* wait_for_room: tries again when something has been freed */
		last_value(TAIL) != tail;
		load(PRODUCER, TAIL, RESERVE, tail)
#endif
	od
}

proctype Producer()
{
	byte i, head, tail, units, left, need;

	do
	:: i < MESSAGES ->
		i++;
		if
		:: units = 1
		:: units = 2
		fi;
		left = SIZE - head % SIZE;
		reserve();
#ifndef BREAK_NO_FILLER
		if
		:: units > left ->
			put(PRODUCER, head % SIZE, FIRST(FILLER, left));
			head = head + left
		:: else
		fi;
#endif
#ifdef BREAK_PUBLISH_EARLY
		store(PRODUCER, HEAD, head + units, PUBLISH);
#endif
		/* steno_staged_fail: the message of a failure makes it grow where it stands */
		if
		:: units == 1 && left >= 2 ->
#ifndef BREAK_GROW_BLINDLY
			load(PRODUCER, TAIL, RESERVE, tail);
			if
			:: head + 2 - tail <= ROOM -> units = 2
			:: else
			fi
#else
			units = 2
#endif
		:: true
		fi;
		/* encode */
		put(PRODUCER, head % SIZE, FIRST(i, units));
		if
		:: units == 2 -> put(PRODUCER, (head + 1) % SIZE, REST(i))
		:: else
		fi;
		head = head + units;
		published++;
#ifndef BREAK_PUBLISH_EARLY
		store(PRODUCER, HEAD, head, PUBLISH)
#endif
	:: else -> break
	od
}

proctype Consumer()
{
	byte head, position, unit, got, n;

	do
	:: got == MESSAGES -> break
	:: else ->
		last_value(HEAD) != position;
		load(CONSUMER, HEAD, PUBLISHED, head);
#ifdef BREAK_FREE_EARLY
		if
		:: head != position -> store(CONSUMER, TAIL, head, FREE)
		:: else
		fi;
#endif
		n = position;
		do
		:: n != head ->
			get(CONSUMER, n % SIZE, unit);
			/* it lies in one piece, within what is published */
			assert(LEN(unit) > 0 && n % SIZE + LEN(unit) <= SIZE && n + LEN(unit) <= head);
			if
			:: NUMBER(unit) == FILLER -> n = n + LEN(unit)
			:: else ->
				got++;
				assert(NUMBER(unit) == got && got <= published);
				if
				:: LEN(unit) == 2 ->
					get(CONSUMER, (n + 1) % SIZE, unit);
					assert(unit == REST(got));
					n = n + 2
				:: else -> n++
				fi
			fi
		:: else -> break
		od;
		unit = 0;
		/* the block is written */
#ifndef BREAK_FREE_EARLY
		if
		:: n != position -> store(CONSUMER, TAIL, n, FREE)
		:: else
		fi;
#endif
		position = n; n = 0; head = 0
	od
}

init
{
	atomic {
		run Producer();
		run Consumer()
	}
}
