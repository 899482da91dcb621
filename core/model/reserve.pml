/*
 * core/model/reserve.pml
 *		The reserve of a ring (room.c, short_record.c): whoever cancels the waits, each
 *		statement whose rows may have been read gets a record.
 *
 * One session runs statements, also inside each other.  Whenever a record finds no room,
 * the wait for it may be canceled; a statement that must wait before its first row may be
 * canceled as well.  The writer frees what is published, or does not.  In what order the
 * two see each other's positions is in ring.pml; here the session's view of the tail
 * may only be old.
 *
 * The unit is half of the longest short record, and all that comes with one (description,
 * gap record) is part of it.
 *
 * With OTHERS there are also short records of what has not begun, of a statement that was
 * canceled before its first row, and of statements that the reserve does not cover, which
 * have start records.  These take room that a covered statement may still need, and spin
 * finds that: see README.md.
 */
#ifndef STATEMENTS
#define STATEMENTS 9
#endif
#ifdef OTHERS
#define NESTED 4				/* more than the reserve can be for */
#else
#define NESTED MOST
#endif
#define SIZE 16
#define SHARE 2					/* statement_share() */
#ifdef BREAK_NO_LOST_ROOM
#define LOST 0
#else
#define LOST 1					/* LOST_ROOM: what a filler can take */
#endif
#ifdef BREAK_NO_SHARE_MORE
#define MORE 0
#else
#define MORE 1					/* a statement that has just failed may be counted still */
#endif
#define MOST 2					/* that half of the ring is enough for */
#define LONG 3					/* a usual record */

byte head;						/* what is published; positions count from the first byte */
byte tail;

byte seen;						/* the session's view of tail */
byte limit = SIZE;
byte covered;					/* steno_reserve_covered */
byte open;						/* steno_reserve_needed() */
byte staged;					/* units at the head for the innermost statement's record */
bool used;						/* STENO_START_SHORT: some of the reserve may have been used */
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
		limit = SIZE - LOST - (covered + MORE) * SHARE
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

/* steno_reserve_room: what others, which are open, need is kept */
inline put_short(others)
{
	staged = 0;
	kept = (others) * SHARE;
	if
	:: kept > SIZE - limit -> got = false
	:: else ->
		old = limit;
		limit = SIZE - kept;
		if
		:: units = 1
		:: units = SHARE
		fi;
		ring_reserve(units);
		limit = old;
		old = 0
	fi;
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

proctype Session()
{
	byte begun, left, need, units, kept, old;
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
				open--;
				started[open] = false;
#ifdef OTHERS
				put_short(open)
#else
				staged = 0
#endif
			fi;
			got = false; whole = false; left = 0; need = 0; units = 0; kept = 0
		}
	/* the innermost one ends */
	:: atomic { open > 0 ->
			open--;
			if
			:: staged -> need = staged; staged = 0; publish(); got = true
			:: else ->
				put_record();
				if
				:: got
				:: else ->
					if
					:: put_short(open)
					:: put_short(open + 1)	/* it is counted still */
					fi
				fi
			fi;
			/* the promise */
			assert(got || started[open]);
			started[open] = false;
			got = false; left = 0; need = 0; units = 0; kept = 0
		}
#ifdef OTHERS
	/* something that has not begun, such as a syntax error */
	:: atomic { begun < STATEMENTS ->
			begun++;
			put_record();
			if
			:: got
			:: else -> put_short(open)	/* or it is dropped */
			fi;
			got = false; left = 0; need = 0; units = 0; kept = 0
		}
#endif
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
