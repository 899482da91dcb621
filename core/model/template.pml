/*
 * core/model/template.pml
 *		Templates (ring.h): the common part of the brief records of a prepared statement, which
 *		is stored beside the ring, and when the session may replace it.
 *
 * Prepared statements of successive sessions use one template by turns; the record of a
 * statement is brief if the template has its text, otherwise whole.  It is staged, and then
 * published or discarded; the prepared statement may be forgotten at any time, also while its
 * record is staged, and another one may need the template at once (define_template() in staged.c).
 *
 * Without DEATH the writer drains the ring and frees it (steno_writer_write), and between
 * looks at the in-flight entry and copies what is staged there (announce_statement in writer/announce.c).
 * With DEATH session and writer are killed somewhere, and recovery reads what is not
 * freed, and what is staged.  A valid brief record must find the template that it was made for.
 *
 * Stores that follow each other are one step, as in inflight.pml.
 *
 * Positions count records, and the ring has room for all: ring.pml is about that.  Which parts of
 * the entry belong together is in inflight.pml.
 */
#ifndef STATEMENTS
#define STATEMENTS 2
#endif
#define SESSION 0
#define WRITER 1
#define RECOVERY 2
#ifdef DEATH
#define THREADS 3
#else
#define THREADS 2
#endif

#define HEAD 0
#define TAIL 1
#define ACTIVE 2
#define STAGED 3				/* one more than the position; 0: not staged */
#define DONE 4
#define TEMPLATE_VERSION 5
#define TEMPLATE_TEXT 6
#define RECORD(position) (7 + (position))
#define VERSION (7 + STATEMENTS)	/* of the entry */
#define LOCATIONS (8 + STATEMENTS)
#define HISTORY 10

#ifdef DEATH
#define LOOKED_AT VERSION		/* recovery does not look at the entry's */
#define NEVER_LOADS(thread, x) false
#else
#define CELLS 1
#define TEMPLATE 0				/* the template's bytes: nobody reads them while they change */
#define NEVER_LOADS(thread, x) \
	(((thread) == SESSION && (x) != TAIL) || ((thread) == WRITER && (x) == TAIL))
#endif

#include "memory.pml"

#ifdef BREAK_PUBLISH_ORDER		/* steno_ring_publish */
#define PUBLISH RELAXED
#else
#define PUBLISH RELEASE
#endif
#ifdef BREAK_FREE_ORDER			/* steno_ring_free */
#define FREE RELAXED
#else
#define FREE RELEASE
#endif
#ifdef BREAK_DEFINE_ORDER		/* define's look at the tail */
#define DEFINE RELAXED
#else
#define DEFINE ACQUIRE
#endif
#ifdef BREAK_UNSTAGE_FENCE		/* steno_unstage's */
#define UNSTAGE_FENCE RELAXED
#else
#define UNSTAGE_FENCE RELEASE
#endif

/* A brief record says version and text, in truth; a whole one 0. */
#define BRIEF(version, text) ((version) * 16 + (text))
#define TEXT(record) ((record) % 16)

#ifdef DEATH
bool dead;
#define ALIVE unless { dead }
#else
#define ALIVE
#endif

/* steno_inflight_change */
inline change(position)
{
	version = version | 1;
	store(SESSION, VERSION, version, RELAXED);
	fence(SESSION, RELEASE);
	store(SESSION, DONE, 0, RELAXED);
	store(SESSION, STAGED, position, RELEASE);
	store(SESSION, ACTIVE, 1, RELEASE);
	version++;
	store(SESSION, VERSION, version, RELEASE)
}

inline define()
{
	load(SESSION, TAIL, DEFINE, tail);
	if
#ifdef BREAK_ANY_TIME
	:: true ->
#else
	:: tail >= needed_until ->
#endif
#ifndef BREAK_SAME_VERSION
		defined++;
#else
		defined = 1;
#endif
#ifndef DEATH
		put(SESSION, TEMPLATE, BRIEF(defined, text));
#endif
		store(SESSION, TEMPLATE_VERSION, defined, RELAXED);
		store(SESSION, TEMPLATE_TEXT, text, RELAXED);
		brief = defined
	:: else
	fi;
	tail = 0
}

/* steno_forget_prepared; another one has its place then */
inline forget()
{
	d_step {
		if
		:: brief ->
#ifdef BREAK_STAGED_FORGOTTEN
			needed_until = head
#else
			needed_until = head + staged
#endif
		:: else
		fi;
		brief = 0;
		text++
	}
}

/* become_producer: what was there before is not known any more */
inline begin_session()
{
	d_step {
#ifndef BREAK_SESSION
		needed_until = head;
#endif
		brief = 0;
		text++
	}
}

inline publish()
{
	head++;
	store(SESSION, HEAD, head, PUBLISH)
}

proctype Session()
{
	byte s, head, tail, version, needed_until, defined, brief, record;
	byte text = 1;
	bool staged;

	{
		do
		:: s < STATEMENTS ->
			atomic {
				s++;
				if
				:: s > 1 -> forget()
				:: s > 1 -> begin_session()
				:: true
				fi;
				/* steno_stage_prepared */
				if
				:: brief == 0 -> define()
				:: else
				fi;
				record = (brief > 0 -> BRIEF(brief, text) : 0);
				store(SESSION, RECORD(head), record, RELAXED);
				record = 0;
				change(head + 1);
				staged = true
			}
			/* it runs; what else runs meanwhile may want the template, too */
			if
			:: atomic { forget(); define() }
			:: forget()
			:: true
			fi;
			atomic {
				if
				:: store(SESSION, DONE, head + 1, RELAXED);
					publish()
				:: change(0);
					fence(SESSION, UNSTAGE_FENCE);
					if
					:: store(SESSION, RECORD(head), 0, RELAXED);
						publish()
					:: true			/* what needed the room was dropped */
					fi
				fi;
				staged = false;
				store(SESSION, ACTIVE, 0, RELEASE)
			}
		:: else -> break
		od
	} ALIVE
}

/* announce, after it has drained the ring: nothing is freed until it has copied all */
inline look()
{
	atomic {
		load(WRITER, VERSION, ACQUIRE, version);
		if
		:: version % 2 == 0 ->
			load(WRITER, ACTIVE, RELAXED, act);
			load(WRITER, DONE, RELAXED, done);
			load(WRITER, STAGED, RELAXED, staged);
			fence(WRITER, ACQUIRE);
			load(WRITER, VERSION, RELAXED, again)
		:: else -> act = false
		fi;
#ifdef BREAK_DONE_UNSEEN
		done = 0;
#endif
		act = act && again == version && staged > 0 && done == 0;
		again = 0; done = 0
	}
#ifdef BREAK_FREED_MEANWHILE
	load(WRITER, HEAD, ACQUIRE, head);
	store(WRITER, TAIL, head, FREE);
#endif
	if
	:: act ->
		atomic {
			/* running_message */
			load(WRITER, RECORD(staged - 1), RELAXED, record);
			load(WRITER, TEMPLATE_VERSION, RELAXED, known);
			load(WRITER, TEMPLATE_TEXT, RELAXED, known_text);
			fence(WRITER, ACQUIRE);
			load(WRITER, VERSION, RELAXED, again);
			assert(again != version || record == 0 || BRIEF(known, known_text) == record)
		}
	:: else
	fi;
	version = 0; again = 0; staged = 0; act = false; record = 0; known = 0; known_text = 0
}

proctype Writer()
{
	byte position, head, n, record, known, known_text;
	byte version, again, staged, done, bytes;
	bool act;

	{
end:	do
		:: atomic {
				last_value(HEAD) != position ->
				/* steno_writer_drain_ring */
				load(WRITER, HEAD, ACQUIRE, head)
			};
#ifdef BREAK_FREE_EARLY
			store(WRITER, TAIL, head, FREE);
#endif
#ifndef DEATH
			atomic {
				n = position;
				do
				:: n < head ->
					load(WRITER, RECORD(n), RELAXED, record);
					if
					:: record > 0 ->
						/* know: the version tells what was read of it before */
						if
						:: known != record / 16 ->
							get(WRITER, TEMPLATE, bytes);
							known = bytes / 16;
							known_text = TEXT(bytes)
						:: else
						fi;
						assert(known == record / 16 && known_text == TEXT(record))
					:: else
					fi;
					n++
				:: else -> break
				od;
				n = 0; record = 0; bytes = 0
			}
#endif
#ifndef BREAK_FREE_EARLY
			/* the block is written */
			if
			:: head > position -> store(WRITER, TAIL, head, FREE)
			:: else
			fi;
#endif
			position = head; head = 0
#ifndef DEATH
		:: look(); break		/* one is enough: what it may see, it may see at any time later, too */
#endif
		od
	} ALIVE
}

#ifdef DEATH
/* What a brief record that counts is made of. */
#define check(record) \
	assert(record == 0 || \
		   BRIEF(found(RECOVERY, TEMPLATE_VERSION), found(RECOVERY, TEMPLATE_TEXT)) == record)

proctype Recovery()
{
	byte n;

	atomic {
		dead = true;
		look_at_the_dead(RECOVERY);
		n = found(RECOVERY, TAIL);
		do
		:: n < found(RECOVERY, HEAD) -> check(found(RECOVERY, RECORD(n))); n++
		:: else -> break
		od;
		if
		:: found(RECOVERY, ACTIVE) && found(RECOVERY, STAGED) > 0 &&
		   !(found(RECOVERY, DONE) != 0 && found(RECOVERY, HEAD) >= found(RECOVERY, DONE)) ->
			n = found(RECOVERY, STAGED) - 1;
			check(found(RECOVERY, RECORD(n)))
		:: else
		fi;
		n = 0
	}
}
#endif

init
{
	atomic {
		run Session();
		run Writer();
#ifdef DEATH
		run Recovery()
#endif
	}
}
