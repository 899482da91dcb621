/*
 * core/model/reserve.pml
 *		The reserve of a ring (room.c, short_record.c): whichever waits are canceled, each
 *		statement whose rows may have been read has a record.
 *
 * One session has several open statements, nested or, as cursors, independent, so that they end
 * in any order, and more of them than the reserve can cover.  Whenever a record finds no space,
 * the wait for space may be canceled; a statement that must wait before its first row may be
 * canceled as well.  There are also records of failures outside of statements, such as a syntax
 * error.  The writer may free what is published at any time.  ring.pml is about the order in which
 * the two see each other's positions; here the session's view of the tail may only be old.
 *
 * The unit is half of the longest short record, including what may accompany it (description,
 * gap record).  The code's reserve has one share more than this one, for records outside of
 * statements; the promise does not depend on that share.
 */
#ifndef STATEMENTS
#define STATEMENTS 12
#endif
#define NESTED 4				/* open at once: more than the reserve can be for */
#define NONE NESTED
#define SIZE 16
#define SHARE 2					/* statement_share() */
#define LOST 1					/* LOST_ROOM: what a filler can take */
#define MOST 2					/* that half of the ring is enough for */
#define LONG 3					/* a usual record */

byte head;						/* what is published; positions count from the first byte */
byte tail;

byte seen;						/* the session's view of tail */
byte limit = SIZE;
byte covered;					/* steno_reserve_covered */
byte open;						/* steno_reserve_needed() */
byte staged;					/* units at the head for the last statement's record */
bool used;						/* STENO_START_SHORT: some of the reserve may have been used */
bool assured[NESTED];			/* not STENO_S_UNCOVERED: there is a share for it */
bool started[NESTED];			/* has a start record */

/* steno_ring_reserve: got, and what it needs with a filler */
inline ring_reserve(units)
{
	left = SIZE - head % SIZE;
	need = (units <= left -> units : left + units);
	if
	:: head + need - seen > limit -> seen = tail
	:: else
	fi;
	got = head + need - seen <= limit
}

inline publish()
{
	head = head + need;
	assert(head - tail <= SIZE)
}

/* steno_reserve_cover */
inline cover(owed)
{
	if
	:: owed > covered && covered < MOST ->
		covered = (owed < MOST -> owed : MOST);
#ifdef BREAK_NO_LOST_ROOM
		limit = SIZE - covered * SHARE
#else
		limit = SIZE - LOST - covered * SHARE
#endif
	:: else
	fi
}

/* steno_reserve_is_whole */
inline look_whole()
{
	seen = tail;
#ifdef BREAK_STAGED_UNCOUNTED
	whole = head - seen <= limit
#else
	whole = head - seen + staged <= limit
#endif
}

/* shares_kept: those of the others, when the record is that of a statement */
inline count_kept(own)
{
	kept = 0;
	i = 0;
	do
	:: i < open ->
		if
#ifdef BREAK_OWN_SHARE_KEPT
		:: assured[i] -> kept = kept + SHARE
#else
		:: assured[i] && i != own -> kept = kept + SHARE
#endif
		:: else
#ifdef BREAK_UNCOVERED_COUNTED
			-> kept = (i != own -> kept + SHARE : kept)
#endif
		fi;
		i++
	:: else -> break
	od;
#ifdef BREAK_NOTHING_KEPT
	kept = 0;
#endif
	i = 0
}

/* steno_reserve_room, for the record of a statement, or of something else: NONE */
inline put_short(own)
{
	staged = 0;
	seen = tail;
	count_kept(own);
	if
	:: units = 1
	:: units = SHARE
	fi;
	left = SIZE - head % SIZE;
	need = (units <= left -> units : left + units);
#ifndef BREAK_FILLER_FORGOTTEN
	/* the ring begins anew in what is left: a filler may come */
	if
	:: (head + need) % SIZE > head + need - seen -> kept = kept + LOST
	:: else
	fi;
#endif
	got = head + need - seen + kept <= SIZE;
	if
	:: got ->
		publish();
#ifndef BREAK_NOT_SAID
		used = true
#endif
	:: else
	fi
}

/* A record of the usual size: there is room, or it waits for room, or the wait is canceled. */
inline put_record()
{
	staged = 0;
	ring_reserve(LONG);
	if
	:: got -> publish()
	:: else ->
		if
		:: true						/* canceled */
		:: tail = head; ring_reserve(LONG); assert(got); publish()
		fi
	fi
}

/* A statement is not open any more. */
inline forget(n)
{
	i = n;
	open--;
	do
	:: i < open ->
		assured[i] = assured[i + 1];
		started[i] = started[i + 1];
		i++
	:: else -> break
	od;
	assured[open] = false;
	started[open] = false;
	i = 0
}

proctype Session()
{
	byte begun, left, need, units, kept, i, n;
	bool got, whole;

	do
	:: atomic { begun == STATEMENTS && open == 0 -> break }
	/* a statement begins: steno_cover_query */
	:: atomic { begun < STATEMENTS && open < NESTED ->
			begun++;
			open++;
			staged = 0;
			if
			:: ring_reserve(LONG); staged = (got -> need : 0)
			:: true
			fi;
			got = true;
			assured[open - 1] = true;
			if
			:: used || open > covered ->
				used = true;
				cover(open);
				do
				:: look_whole();
					if
#ifdef BREAK_NO_WAIT
					:: true -> break
#else
					:: whole -> break
					:: !whole -> tail = head	/* waits for the writer */
					:: !whole -> got = false; break	/* canceled: it fails, and has read nothing */
#endif
					fi
				od;
				if
#ifdef BREAK_NO_WAIT
				:: true -> used = false
#else
				:: whole -> used = false
#endif
				:: else
				fi;
#ifndef BREAK_ALL_ASSURED
				assured[open - 1] = got && open <= covered;
#endif
				if
				:: got && open > covered ->
					put_record();
					started[open - 1] = got
				:: else
				fi
			:: else
			fi;
			if
			:: got
			:: else ->
				put_short(open - 1);	/* or there is no room: it is dropped */
				forget(open - 1)
			fi;
			got = false; whole = false; left = 0; need = 0; units = 0; kept = 0
		}
	/* one of them ends */
	:: atomic { open > 0 ->
			n = open - 1;
			do
			:: n > 0 -> n--
			:: true -> break
			od;
			if
			:: staged && n == open - 1 -> need = staged; staged = 0; publish(); got = true
			:: else ->
				put_record();
				if
				:: got
				:: else -> put_short(n)
				fi
			fi;
			/* the promise */
			assert(got || started[n] && !assured[n]);
			forget(n);
			got = false; left = 0; need = 0; units = 0; kept = 0; n = 0
		}
	/* something that has not begun, such as a syntax error */
	:: atomic { begun < STATEMENTS ->
			begun++;
			put_record();
			if
			:: got
			:: else -> put_short(NONE)	/* or it is dropped */
			fi;
			got = false; left = 0; need = 0; units = 0; kept = 0
		}
	od
}

proctype Writer()
{
end:
	do
	:: atomic { head != tail -> tail = head }
	od
}

init
{
	atomic {
		run Session();
		run Writer()
	}
}
