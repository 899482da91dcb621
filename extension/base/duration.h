/*
 * extension/base/duration.h
 *		How long the server works for a statement.
 *
 * A statement's duration is the time that the server has worked for it: from the
 * beginning of the message that starts it, or from the end of the statement before it
 * in the same message, to its end, without the time in which its portal waited for the
 * client or for who reads a cursor.  What the server did for it in earlier messages
 * (parse analysis of a Parse, planning of a Bind) is added.
 *
 * The clock of durations is that of core/ring/clock.h, whose ticks are nothing that a
 * message's timestamp could be compared with.  So the time on the wall at some ticks is
 * kept, and is read again after a tenth of a second: until then, both clocks differ by a
 * few microseconds.
 */
#ifndef STENO_DURATION_H
#define STENO_DURATION_H

#include "base/steno.h"

#pragma GCC visibility push(hidden)

/* From so many microseconds on, parts of a duration are told apart. */
#define STENO_TOLD_APART 1000

/* The wall's time is good for so many microseconds, and this is the part of them that is less than that. */
#define STENO_WALL_US 100000
#define STENO_FEW_PARTS 128
StaticAssertDecl(STENO_WALL_US / STENO_FEW_PARTS < STENO_TOLD_APART, "few ticks are not told apart");

extern void steno_wall_read(uint64 ticks);

/* The time on the wall at some ticks, which are those of now. */
static inline TimestampTz
steno_wall(uint64 ticks)
{
	if (unlikely(ticks - steno_my.wall_ticks > steno_my.wall_limit))
		steno_wall_read(ticks);
	return steno_my.wall_time + (TimestampTz) steno_clock_us(&steno_my.clock, steno_my.wall_ticks, ticks);
}

/*
 * Microseconds from a message to some ticks, which are those of now; 0 if the clock was set back meanwhile.  What
 * looks like a long time may be a clock that was set after the wall's time was read.
 */
static inline uint64
steno_us_since(TimestampTz message, uint64 ticks)
{
	uint64		us = (uint64) (steno_wall(ticks) - message);

	if (unlikely(us > STENO_WALL_US))
	{
		steno_wall_read(ticks);
		us = (uint64) Max(steno_wall(ticks) - message, 0);
	}
	return us;
}

/* Whether so many ticks are certainly too few to be told apart.  A limit is known from the first statement on. */
static inline bool
steno_are_few(uint64 ticks)
{
	return likely(ticks < steno_my.wall_limit / STENO_FEW_PARTS);
}

static inline uint32
steno_short_us(uint64 us)
{
	return (uint32) Min(us, PG_UINT32_MAX);
}

/* The server stops working for a statement, which has not ended. */
static inline void
steno_work_stops(StenoStatement *s)
{
	s->stopped = steno_clock_ticks(&steno_my.clock);
}

/*
 * The statement ends, and its record is made now, which takes time if it has big parameters: that is no work for it.
 * Without parameters, others may follow in the same message, which would begin now.
 */
static inline void
steno_work_ends(StenoStatement *s, bool has_params)
{
	if (has_params && s->stopped == 0)
		steno_work_stops(s);
}

/* It works for the statement again. */
static inline void
steno_work_goes_on(StenoStatement *s)
{
	if (s->stopped == 0)
		return;
	s->paused += steno_clock_ticks(&steno_my.clock) - s->stopped;
	s->stopped = 0;
}

/* Microseconds that the server has worked for a statement. */
static inline uint64
steno_duration(const StenoStatement *s)
{
	uint64		end = s->stopped != 0 ? s->stopped : steno_clock_ticks(&steno_my.clock);

	/* a portal may be closed long after its query has stopped */
	if (likely(end > steno_my.ended_ticks))
	{
		steno_my.ended_ticks = end;
		steno_my.ended_message = steno_my.begun_message;
	}
	return (uint64) s->before + s->ahead + steno_clock_us(&steno_my.clock, s->start + s->paused, end);
}

/*
 * Whether something may be said apart of a statement's duration; false: certainly nothing.  Duration and elapsed time
 * differ by the pauses and by what was done ahead.
 */
static inline bool
steno_may_have_times(const StenoStatement *s)
{
	return !likely((s->analysis | s->plan | s->commit) == 0 && steno_are_few(s->paused) && s->ahead < STENO_TOLD_APART);
}

/* What is said apart of a duration that steno_duration has just returned; false: nothing. */
static inline bool
steno_times_of(const StenoStatement *s, uint64 duration, StenoTimes *times)
{
	uint64		end;
	uint64		elapsed;
	bool		differs;

	if (!steno_may_have_times(s))
		return false;
	end = s->stopped != 0 ? s->stopped : steno_my.ended_ticks;
	elapsed = s->before + steno_clock_us(&steno_my.clock, s->start, end);
	differs = elapsed + STENO_TOLD_APART - duration > 2 * STENO_TOLD_APART;
	if (!differs && (s->analysis | s->plan | s->commit) == 0)
		return false;
	times->analysis = s->analysis;
	times->plan = s->plan;
	times->commit = s->commit;
	times->elapsed = differs ? elapsed : STENO_NONE64;
	return true;
}

#pragma GCC visibility pop

#endif							/* STENO_DURATION_H */
