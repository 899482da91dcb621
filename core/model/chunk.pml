/*
 * core/model/chunk.pml
 *		A chunk (ring/chunk.h): claimed by one of two producers, filled, referred to by a message
 *		in its ring; read by the consumer of both rings, and free once it has freed the message.
 *
 * That messages arrive is shown by ring.pml: here a ring is only head and tail, which count messages,
 * and the messages are not modelled memory.  The chunk is plain memory: nobody may touch it without
 * an order to what others did to it.  If it is changed although a message that is not free refers to
 * it, recovery would find other bytes: that is asserted, too.
 */
#ifndef MESSAGES
#define MESSAGES 3				/* of each producer */
#endif
#define THREADS 3
#define PRODUCERS 2
#define CONSUMER 2

#define HEAD(ring) (ring)
#define TAIL(ring) (2 + (ring))
#define STATE 4
#define LOCATIONS 5
#define HISTORY 16
#define CELLS 1
#define CHUNK 0

#define NEVER_LOADS(thread, x) (((thread) == CONSUMER) != ((x) < 2))

#include "memory.pml"

#ifdef BREAK_TAIL_ORDER			/* is_free */
#define TAIL_LOAD RELAXED
#else
#define TAIL_LOAD ACQUIRE
#endif
#ifdef BREAK_FREE_ORDER			/* steno_ring_free */
#define FREE RELAXED
#else
#define FREE RELEASE
#endif
#ifdef BREAK_PUBLISH_ORDER		/* steno_ring_publish */
#define PUBLISH RELAXED
#else
#define PUBLISH RELEASE
#endif

#define NEVER_USED 0
#define CLAIMED 255
#define STATE_OF(ring, position) (1 + (ring) * 16 + (position))
#define RING_OF(state) (((state) - 1) / 16)
#define POSITION_OF(state) (((state) - 1) % 16)

/* What a producer puts into the chunk for a message. */
#define CONTENT(ring, i) (1 + (ring) * 16 + (i))

typedef Ring
{
	bool in_chunk[MESSAGES]
};

Ring rings[PRODUCERS];

/* No message that recovery would read refers to the chunk. */
inline assert_unused()
{
	d_step {
		r = 0;
		do
		:: r < PRODUCERS ->
			m = last_value(TAIL(r));
			do
			:: m < last_value(HEAD(r)) -> assert(!rings[r].in_chunk[m]); m++
			:: else -> break
			od;
			r++
		:: else -> break
		od;
		r = 0; m = 0
	}
}

/* is_free */
inline look_at_state()
{
	load(me, STATE, RELAXED, found_state);
	if
	:: found_state == NEVER_USED -> free = true
	:: found_state == CLAIMED -> free = false
	:: else ->
		load(me, TAIL(RING_OF(found_state)), TAIL_LOAD, tail);
		free = tail >= POSITION_OF(found_state);
#ifdef BREAK_FREE_TOO_EARLY
		free = tail + 1 >= POSITION_OF(found_state)
#endif
	fi
}

/* The compare-and-swap of steno_chunk_claim. */
inline swap()
{
	atomic {
		if
#ifndef BREAK_NO_COMPARE
		:: last_value(STATE) != found_state -> free = false
#endif
		:: else ->
			old = last_value(STATE);
			fetch_add(me, STATE, CLAIMED - old, ACQUIRE)
		fi;
		old = 0
	}
}

proctype Producer(byte me)
{
	byte i, found_state, tail, old, r, m;
	bool free;

	do
	:: i < MESSAGES ->
		look_at_state();
		if
		:: free -> swap()
		:: else
		fi;
		if
		:: free ->
			assert_unused();
			put(me, CHUNK, CONTENT(me, i));
			rings[me].in_chunk[i] = true;
			/* steno_chunk_keep */
			store(me, STATE, STATE_OF(me, i + 1), RELEASE)
		:: else
			/* the bytes go through the ring */
		fi;
		i++;
		store(me, HEAD(me), i, PUBLISH);
		free = false; found_state = 0; tail = 0
	:: else -> break
	od
}

proctype Consumer()
{
	byte head, content, ring;
	byte position[PRODUCERS];

	do
	:: position[0] == MESSAGES && position[1] == MESSAGES -> break
	:: else ->
		/* one of the rings in which there is something */
		if
		:: last_value(HEAD(0)) != position[0] -> ring = 0
		:: last_value(HEAD(1)) != position[1] -> ring = 1
		fi;
		load(CONSUMER, HEAD(ring), ACQUIRE, head);
		/* an old value: nothing to read yet */
		if
		:: head == position[ring] -> goto again
		:: else
		fi;
#ifdef BREAK_FREE_BEFORE_READING
		store(CONSUMER, TAIL(ring), head, FREE);
#endif
		do
		:: position[ring] < head ->
			if
			:: rings[ring].in_chunk[position[ring]] ->
				get(CONSUMER, CHUNK, content);
				assert(content == CONTENT(ring, position[ring]))
			:: else
			fi;
			position[ring]++
		:: else -> break
		od;
		/* the block is written */
#ifndef BREAK_FREE_BEFORE_READING
		store(CONSUMER, TAIL(ring), head, FREE);
#endif
again:
		head = 0; content = 0; ring = 0
	od
}

init
{
	atomic {
		run Producer(0);
		run Producer(1);
		run Consumer()
	}
}
