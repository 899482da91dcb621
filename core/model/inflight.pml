/*
 * core/model/inflight.pml
 *		The in-flight entry (ring.h) and the record that is staged at the head of the
 *		ring (delivery/staged.c): what a live reader makes of them, and what recovery does.
 *
 * A producer runs statements.  Of each it either puts the text into the entry, or stages its
 * record in the ring; a staged record may be given up for another one, which then
 * overwrites it; or it gets the message of a failure where it stands
 * (steno_staged_fail).  Without DEATH a writer reads the entry meanwhile, for a start record
 * (steno_inflight_read, and start_message in writer/announce.c): a copy that it accepts
 * must be of one statement, and have nothing of its end.
 *
 * With DEATH the producer is killed somewhere.  Recovery finds some of its stores: the
 * compiler may have put relaxed ones earlier or later, as C11 lets it.  It must know
 * of every statement whose work was begun (EFFECT: whatever that does, it begins
 * with a call that no compiler moves), once: by its record in the ring, or as
 * interrupted, with its own text.
 *
 * Stores that follow each other are one step here, and loads that do so, too: a reader may
 * see any of the stores late as it is, so nothing is left out.
 */
#ifndef STATEMENTS
#define STATEMENTS 2
#endif
#define THREADS 2
#define PRODUCER 0
#define READER 1

#define ACTIVE 0
#define STAGED 1
#define HEAD 2
#define DONE 3
#define STATEMENT 4
#define TEXT 5
#define EFFECT 6
#define RECORD(s) (6 + (s))		/* what lies where statement s was staged */
#define FAILURE (7 + STATEMENTS)	/* the message of a failure, in the staged record */
#define VERSION (8 + STATEMENTS)
#define LOCATIONS (9 + STATEMENTS)
#define HISTORY 12

#define OTHER 99				/* a record of something else */

#ifdef DEATH
#define LOOKED_AT VERSION		/* recovery does not look at the version */
#else
#define NEVER_LOADS(thread, x) ((thread) == PRODUCER || (x) == HEAD || (x) == EFFECT)
#endif

#include "memory.pml"

#ifdef BREAK_CHANGE_FENCE		/* after the odd version */
#define CHANGE_FENCE RELAXED
#else
#define CHANGE_FENCE RELEASE
#endif
#ifdef BREAK_EVEN_ORDER			/* the even version */
#define EVEN RELAXED
#else
#define EVEN RELEASE
#endif
#ifdef BREAK_READ_ORDER			/* steno_inflight_read's first load */
#define READ_FIRST RELAXED
#else
#define READ_FIRST ACQUIRE
#endif
#ifdef BREAK_READ_FENCE
#define READ_FENCE RELAXED
#else
#define READ_FENCE ACQUIRE
#endif
#ifdef BREAK_COPY_FENCE			/* running_message's */
#define COPY_FENCE RELAXED
#else
#define COPY_FENCE ACQUIRE
#endif
#ifdef BREAK_STAGED_ORDER
#define STAGED_ORDER RELAXED
#else
#define STAGED_ORDER RELEASE
#endif
#ifdef BREAK_ACTIVE_ORDER
#define ACTIVE_ORDER RELAXED
#else
#define ACTIVE_ORDER RELEASE
#endif
#ifdef BREAK_END_ORDER			/* steno_inflight_end */
#define END_ORDER RELAXED
#else
#define END_ORDER RELEASE
#endif
#ifdef BREAK_UNSTAGE_FENCE		/* steno_unstage's */
#define UNSTAGE_FENCE RELAXED
#else
#define UNSTAGE_FENCE RELEASE
#endif

/* Whose own record ends at each position of the ring, in truth. */
byte own[2 * STATEMENTS + 2];

bool dead;

/* steno_inflight_change */
inline change(s, staged)
{
	atomic {
		version = version | 1;
		store(PRODUCER, VERSION, version, RELAXED);
		fence(PRODUCER, CHANGE_FENCE);
		store(PRODUCER, DONE, 0, RELAXED);
		store(PRODUCER, STATEMENT, s, RELAXED);
#ifdef BREAK_STAGED_FIRST
		store(PRODUCER, STAGED, staged, STAGED_ORDER);
#endif
		if
		:: staged
		:: else -> store(PRODUCER, TEXT, s, RELAXED)
		fi;
#ifndef BREAK_STAGED_FIRST
		store(PRODUCER, STAGED, staged, STAGED_ORDER);
#endif
		store(PRODUCER, ACTIVE, 1, ACTIVE_ORDER);
		version++;
		store(PRODUCER, VERSION, version, EVEN)
	}
}

inline publish(whose)
{
	head++;
	own[head] = whose;
	store(PRODUCER, HEAD, head, RELEASE)
}

proctype Producer()
{
	byte s, version, head;

	{
		do
		:: s < STATEMENTS ->
			s++;
			if
			:: change(s, 0); fence(PRODUCER, RELEASE); store(PRODUCER, EFFECT, s, RELAXED)
			:: store(PRODUCER, RECORD(s), s, RELAXED);
				change(s, 1);
				fence(PRODUCER, RELEASE);
				store(PRODUCER, EFFECT, s, RELAXED);
				if
				:: true ->
#ifdef BREAK_UNSTAGE_LATE
					store(PRODUCER, RECORD(s), OTHER, RELAXED);
					change(s, 0);
#else
					change(s, 0);
					fence(PRODUCER, UNSTAGE_FENCE);
					store(PRODUCER, RECORD(s), OTHER, RELAXED);
#endif
					publish(0)
				:: store(PRODUCER, FAILURE, s, RELAXED)
				:: true
				fi
			fi;
#ifdef BREAK_END_FIRST
			store(PRODUCER, ACTIVE, 0, END_ORDER);
#endif
#ifdef BREAK_NO_DONE
			skip;
#else
			store(PRODUCER, DONE, head + 1, RELAXED);
#endif
			publish(s);
#ifndef BREAK_END_FIRST
			store(PRODUCER, ACTIVE, 0, END_ORDER)
#endif
		:: else -> break
		od
	} unless { dead }
}

#ifdef DEATH
proctype Recovery()
{
	byte s, i, interrupted;
	bool there;

	atomic {
		dead = true;
		look_at_the_dead(READER);
		if
		:: found(READER, ACTIVE) && !(found(READER, DONE) != 0 && found(READER, HEAD) >= found(READER, DONE)) ->
			interrupted = found(READER, STATEMENT);
			if
			:: found(READER, STAGED) -> assert(found(READER, RECORD(interrupted)) == interrupted)
			:: else -> assert(found(READER, TEXT) == interrupted)
			fi
		:: else
		fi;
		s = 1;
		do
		:: s <= STATEMENTS ->
			there = false;
			i = 1;
			do
			:: i <= found(READER, HEAD) -> there = there || own[i] == s; i++
			:: else -> break
			od;
			/* once at most, and once if it has begun */
			assert(!(there && interrupted == s));
			assert(there || interrupted == s || found(READER, EFFECT) < s);
			s++
		:: else -> break
		od;
		s = 0; i = 0; there = false; interrupted = 0
	}
}
#else
proctype Reader()
{
	byte version, again, statement, text, staged, record, failure, act;

	/* one look is enough: what it may see, it may see at any time later, too */
	atomic {
		load(READER, VERSION, READ_FIRST, version);
		if
#ifdef BREAK_ODD
		:: true ->
#else
		:: version % 2 == 0 ->
#endif
			load(READER, ACTIVE, RELAXED, act);
			load(READER, STATEMENT, RELAXED, statement);
			load(READER, STAGED, RELAXED, staged);
			load(READER, TEXT, RELAXED, text);
			fence(READER, READ_FENCE);
			load(READER, VERSION, RELAXED, again);
			if
#ifdef BREAK_NO_LAST_LOOK
			:: act ->
#else
			:: again == version && act ->
#endif
				if
				:: staged ->
					load(READER, RECORD(statement), RELAXED, record);
					load(READER, FAILURE, RELAXED, failure);
					fence(READER, COPY_FENCE);
					load(READER, VERSION, RELAXED, again);
#ifndef BREAK_FAILURE_KEPT
					/* steno_message_begun */
					failure = 0;
#endif
					assert(again != version || (record == statement && failure != statement))
				:: else ->
					assert(text == statement)
				fi
			:: else
			fi
		:: else
		fi;
		version = 0; again = 0; statement = 0; text = 0; staged = 0; record = 0; failure = 0; act = 0
	}
}
#endif

init
{
	atomic {
		run Producer();
#ifdef DEATH
		run Recovery()
#else
		run Reader()
#endif
	}
}
