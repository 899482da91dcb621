/*
 * core/model/intent.pml
 *		Write, free, and recover (writer.c, recover.c): whichever process is killed, and at
 *		whatever point, the trail has each published record once, the end of each session
 *		once, and once the count of dropped records that no session could report.
 *
 * A server with two rings, one writer, and sessions that publish records; with DROPS the
 * first ring's have records dropped instead.  All of them are killed at some point.
 * Recovery then does what recover_file does, and is killed itself, up to KILLS times, and
 * begun again.  A write may be torn by the kill.
 *
 * Memory is sequentially consistent here, unlike in the other models: the writer's stores are ordered
 * by its fences and by the system calls between them, and recovery runs after the processes have died.
 */
#ifndef KILLS
#define KILLS 1
#endif
#define RINGS 2
#ifndef MESSAGES
#define MESSAGES 1				/* of each ring */
#endif
#define BLOCKS 12
#define INTENTS 2				/* the writer's, and recovery's */
#define NOT_VALID 0
#define VALID_MESSAGES 1		/* STENO_INTENT_MESSAGES */
#define VALID_ENDS 2			/* and more: STENO_INTENT_ENDS */

/* The ring file. */
byte head[RINGS], tail[RINGS], pending[RINGS];
bool owner[RINGS];
bool orphan_drops, drops_recorded, drops_pending;	/* first ring: drops of ended sessions; those with a gap record; with one to be */
byte valid[INTENTS], block[INTENTS], hash[INTENTS];
bool gone;

/* The trail: the hashes of its whole blocks, and what they hold. */
byte blocks, hash_of[BLOCKS];
bool torn;
byte records[RINGS * MESSAGES], ends[RINGS], gaps, told;	/* told: the recover record */

/* Whoever writes: where it has read to, and what the block holds of ends. */
byte position[RINGS], from[RINGS], ended;
bool ending[RINGS], telling, gap, reported;	/* a gap record; what drops_recorded will be */

byte kills, last_hash;
bool crashed, killed;

#define EACH_RING(statement) r = 0; do :: r < RINGS -> statement; r++ :: else -> break od; r = 0

/* steno_writer_write; mine: the intent */
inline write_block(mine)
{
	d_step { EACH_RING(from[r] = tail[r]); last_hash++ }
#ifdef BREAK_FREE_BEFORE_WRITE
	free_rings(mine);
#endif
#ifndef BREAK_NO_PENDING
	d_step { EACH_RING(pending[r] = position[r]) }
#endif
#ifndef BREAK_NOT_SAYING
	drops_pending = reported;
#endif
#ifdef BREAK_VALID_FIRST
	valid[mine] = (ended > 0 -> VALID_ENDS + ended : VALID_MESSAGES);
#endif
	d_step { block[mine] = blocks; hash[mine] = last_hash }
#if !defined(BREAK_NO_INTENT) && !defined(BREAK_INTENT_AFTER_WRITE)
	valid[mine] = (ended > 0 -> VALID_ENDS + ended : VALID_MESSAGES);
#endif
	/* write() */
	torn = true;
	d_step {
		torn = false;
		hash_of[blocks] = last_hash;
		blocks++;
		r = 0;
		do
		:: r < RINGS ->
			do
			:: from[r] < position[r] -> records[r * MESSAGES + from[r]]++; from[r]++
			:: else -> break
			od;
			ends[r] = ends[r] + ending[r];
			r++
		:: else -> break
		od;
		told = told + telling;
		gaps = gaps + gap;
		EACH_RING(from[r] = 0)
	}
#ifdef BREAK_INTENT_AFTER_WRITE
	valid[mine] = (ended > 0 -> VALID_ENDS + ended : VALID_MESSAGES);
#endif
#ifdef BREAK_CLEARED_EARLY
	valid[mine] = NOT_VALID;
#endif
#ifndef BREAK_FREE_BEFORE_WRITE
	free_rings(mine);
#endif
	end_rings(ended);
#ifdef BREAK_LAST_CLEARED
	valid[mine] = NOT_VALID;
#else
	if
	:: ended < RINGS -> valid[mine] = NOT_VALID
	:: else
	fi;
#endif
#ifdef BREAK_SAID_LATE
	drops_recorded = reported;
#endif
	d_step { EACH_RING(ending[r] = false); gap = false }
}

/* tell_dropped */
inline tell_dropped()
{
	d_step {
		if
		:: orphan_drops != reported -> gap = true; reported = orphan_drops
		:: else
		fi
	}
}

inline free_rings(mine)
{
#ifdef BREAK_CLEARED_WHILE_FREEING
	tail[0] = position[0];
	valid[mine] = NOT_VALID;
	tail[1] = position[1]
#else
#ifndef BREAK_SAID_LATE
	drops_recorded = reported;
#endif
	EACH_RING(tail[r] = position[r])
#endif
}

/* steno_recover_ended */
inline end_rings(count)
{
	r = 0;
	do
	:: r < count -> owner[r] = false; r++
	:: else -> break
	od;
	r = 0
}

proctype Sessions()
{
	do
#ifdef DROPS
	:: atomic { !crashed && !orphan_drops -> orphan_drops = true }
#else
	:: atomic { !crashed && head[0] < MESSAGES -> head[0]++ }
#endif
	:: atomic { !crashed && head[1] < MESSAGES -> head[1]++ }
	:: crashed -> break
	od
}

proctype Writer()
{
	byte r;

	{
		do
		:: head[0] > position[0] || head[1] > position[1] || orphan_drops != reported ->
			d_step {
				position[0] = head[0];
				position[1] = head[1]
			};
			tell_dropped();
			write_block(0)
		od
	} unless { crashed }
}

/* resolve_intents, skip_written */
inline resolve(i)
{
	if
	:: valid[i] == NOT_VALID
	:: valid[i] != NOT_VALID && block[i] < blocks && hash_of[block[i]] == hash[i] ->
		if
		:: valid[i] == VALID_MESSAGES ->
#ifndef BREAK_SAID_FORGOTTEN
			drops_recorded = drops_pending;
#endif
			EACH_RING(tail[r] = (pending[r] > tail[r] -> pending[r] : tail[r]))
#ifndef BREAK_NO_EARLY_RETURN
		:: valid[i] == VALID_ENDS + RINGS -> gone = true
#endif
		:: else -> end_rings(valid[i] - VALID_ENDS)
		fi
	:: else
	fi;
	if
	:: gone
	:: else -> valid[i] = NOT_VALID
	fi
}

proctype Recovery()
{
	byte r, i;

	crashed;
	do
	:: gone -> break
	:: else ->
		{
			/* a new writer: opening the stream cuts what is torn */
			d_step {
				torn = false; ended = 0; telling = false; gap = false; reported = drops_recorded;
				EACH_RING(from[r] = 0; ending[r] = false)
			}
			i = 0;
#ifdef BREAK_NOT_RESOLVED
			i = INTENTS;
#endif
			do
			:: i < INTENTS && !gone -> resolve(i); i++
			:: else -> break
			od;
			if
			:: gone
			:: else ->
				/* all records; a full block may be written on the way */
				d_step { EACH_RING(position[r] = tail[r]); position[0] = head[0]; reported = drops_recorded }
				if
				:: write_block(1)
				:: skip
				fi;
				tell_dropped();
				position[1] = head[1];
				if
				:: position[0] > tail[0] || position[1] > tail[1] || gap -> write_block(1)
				:: else
				fi;
				/* add_finals; the same */
				i = 0;
				do
				:: i < RINGS ->
					if
					:: write_block(1)
					:: skip
					fi;
					ended = i + 1;
					ending[i] = owner[i];
					i++
				:: else -> break
				od;
				ended = RINGS;
				telling = true;
				write_block(1);
				gone = true
			fi
		} unless { killed -> killed = false }
	od;
	/* the promise */
	i = 0;
	do
	:: i < RINGS * MESSAGES ->
		assert(records[i] == (head[i / MESSAGES] > i % MESSAGES -> 1 : 0));
		i++
	:: else -> break
	od;
	assert(told == 1);
	assert(gaps == orphan_drops);
	assert(ends[0] == 1 && ends[1] == 1)
}

proctype Killer()
{
	crashed = true;
	do
	:: kills < KILLS -> atomic { kills++; killed = true }; !killed || gone
	:: break
	od
}

init
{
	atomic {
		owner[0] = true;
		owner[1] = true;
		run Sessions();
		run Writer();
		run Recovery();
		run Killer()
	}
}
