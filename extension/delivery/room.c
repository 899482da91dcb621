/*
 * extension/delivery/room.c
 *		Room in this process's ring: waiting for it, and the reserve.
 *
 * When the ring is full, steno.delivery says whether to wait or to drop.  A wait for room
 * can be in the middle of anything, so it raises no errors: it ends, and
 * STENO_START_CANCELLED is set.  Then a short record (short_record.c) takes the record's
 * place, in a part of the ring that nothing else uses, the reserve.  So whoever cancels
 * cannot keep a statement out of the trail.
 *
 * The reserve has room for a short record of each statement that has begun and has
 * no record yet.  Once some of it is used, no statement begins before it is whole
 * again (STENO_START_SHORT): each begins with its record assured.  When more
 * statements are open than the reserve can be made for, each further one has a start
 * record, which tells of it instead.
 *
 * The ring's writer alone moves its tail, with a release store in steno_ring_free; the
 * acquire loads here pair with that.  All else that is changed here belongs to this process.
 */

#include "delivery/room.h"

#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "delivery/encode.h"
#include "delivery/record.h"
#include "delivery/refusal.h"
#include "delivery/wait.h"
#include "policy/policy.h"

/* How long a process that is to exit waits for room, in milliseconds. */
#define EXIT_PATIENCE 5000

/* How many statements the reserve is for. */
int			steno_reserve_covered STENO_SESSION_DATA;

/*
 * What the reserve has for a statement: its short record, a description of the session
 * and a gap record before it.  Where the ring begins anew, once, as much as the largest
 * of these can be lost.
 */
#define DESCRIPTION_ROOM ((sizeof(StenoSessionMessage) + STENO_SESSION_MAX + 7) & ~7u)
#define GAP_ROOM ((sizeof(StenoRecordMessage) + STENO_GAP_EXTRA + 7) & ~7u)
#define LOST_ROOM Max(STENO_SHORT_MOST, DESCRIPTION_ROOM)

static bool process_exits STENO_SESSION_DATA;				/* a FATAL error ends this process */

static uint64
waited_us(uint64 since)
{
	return steno_clock_us(&steno_my.clock, since, steno_clock_ticks(&steno_my.clock));
}

/*
 * Whether to wait no longer for room.  A process that is to exit is patient for a
 * while; a cancel, by whomever, or a timeout of the statement ends the wait at
 * once.  It stays pending: what can raise it does (wait.c).
 */
static bool
ends_room_wait(uint64 start)
{
	static bool out_of_patience;	/* once for all records of a process that is to exit */

	if (proc_exit_inprogress || process_exits || !PostmasterIsAlive())
	{
		if (!out_of_patience && waited_us(start) <= EXIT_PATIENCE * UINT64CONST(1000))
			return false;

		/*
		 * Without a postmaster we would end at the next word of the client: end
		 * now, before it is told of a statement that has no record.  What recovery
		 * wants is in the ring file; nobody needs the rest.
		 */
		if (!proc_exit_inprogress && !PostmasterIsAlive())
			_exit(2);
		out_of_patience = true;
		return true;
	}
	if (!ProcDiePending && !QueryCancelPending)
		return false;
	steno_my.start_mask |= STENO_START_CANCELLED;
	return true;
}

/* A FATAL error is being reported: this process is to exit. */
void
steno_room_process_exits(void)
{
	process_exits = true;
}

/* ---- waiting for room ---- */

/*
 * Ask the writer, and sleep for a little while; whether our latch was set, which the
 * caller sets again at the end of its wait so that nobody misses it.
 */
static bool
sleep_for_room(long *nap)
{
	int			events;

	steno_absorb_barriers();
	steno_ring_wake_writer();
	if (proc_exit_inprogress || MyLatch == NULL)
	{
		pg_usleep(*nap * 1000L);
		*nap = Min(*nap * 2, 10);
		return false;
	}
	events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH,
					   *nap, steno_wait_events[STENO_WAIT_ROOM]);
	if (events & WL_POSTMASTER_DEATH)
		pg_usleep(*nap * 1000L); /* the writers are still there, for a while */
	*nap = Min(*nap * 2, 10);
	if (!(events & WL_LATCH_SET))
		return false;
	ResetLatch(MyLatch);
	return true;
}

/*
 * The server ends statement_timeout with each Execute message, but records of portals that
 * are not finished come later, before the commit: a wait for their room ends when the
 * timeout would have.  Returns whether it was started again; the caller stops it.
 */
static bool
start_statement_timeout(void)
{
	int64		passed;

	if (StatementTimeout <= 0 || !steno_is_client() || !steno_can_raise() || !IsTransactionState() ||
		get_timeout_active(STATEMENT_TIMEOUT))
		return false;
	passed = (GetCurrentTimestamp() - GetCurrentStatementStartTimestamp()) / 1000;
	enable_timeout_after(STATEMENT_TIMEOUT, (int) Max(StatementTimeout - Max(passed, 0), 1));
	return true;
}

static void
stop_statement_timeout(bool started)
{
	/* if it has fired, the error that follows must name it */
	if (started)
		disable_timeout(STATEMENT_TIMEOUT, true);
}

/* Wait for the writer to free some of the ring. */
STENO_COLD static void *
wait_for_room(uint32 len)
{
	StenoProducer *p = &steno_my.producer;
	uint64		start = steno_clock_ticks(&steno_my.clock);
	bool		latch_was_set = false;
	long		nap = 1;
	void	   *m;
	StenoPatience patience = {0};
	bool		timed;

	if (steno_can_raise())
		steno_my.start_mask &= ~STENO_START_HURRY;
	else if (steno_my.start_mask & STENO_START_HURRY)
		return NULL;
	atomic_fetch_add_explicit(&p->ring->waits, 1, memory_order_relaxed);
	timed = start_statement_timeout();
	while ((m = steno_ring_reserve(p, len)) == NULL)
	{
		steno_patience_check(&patience, steno_my.writer, "room in its ring");
		if (ends_room_wait(start) || steno_refusal_drops())
			break;
		latch_was_set |= sleep_for_room(&nap);
	}
	stop_statement_timeout(timed);
	/* the next statement of the message has not begun before */
	if (steno_my.ended_message == steno_my.begun_message)
		steno_my.ended_ticks = steno_clock_ticks(&steno_my.clock);
	steno_patience_end(&patience, steno_my.writer);
	if (latch_was_set)
		SetLatch(MyLatch);
	atomic_fetch_add_explicit(&p->ring->wait_us, waited_us(start), memory_order_relaxed);
	return m;
}

/* Whether what finds no room is dropped, and not waited for. */
bool
steno_room_drops(void)
{
	return (steno_my.delivery == STENO_DELIVERY_DROP && !(steno_my.start_mask & STENO_START_SYNCED)) ||
		steno_refusal_drops();
}

/*
 * There is no room for a message now: wait for it, as steno.delivery says.  NULL when
 * the message is to be dropped, or the wait was canceled.
 */
STENO_COLD void *
steno_room_when_full(uint32 len)
{
	steno_ring_wake_writer();
	if (steno_room_drops())
		return NULL;
	return wait_for_room(len);
}

/* Load the ring's tail again, to use what the writer has freed meanwhile. */
void
steno_room_refresh_tail(void)
{
	StenoProducer *p = &steno_my.producer;

	/* pairs with the release store in steno_ring_free */
	p->tail = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
}

/* ---- the reserve ---- */

/* What the reserve has for one statement.  It is made a share larger, for records of what has not begun. */
static inline uint32
statement_share(void)
{
	return steno_short_size() + DESCRIPTION_ROOM + GAP_ROOM;
}

/* How many statements have begun, and have no record yet, at most. */
STENO_COLD int
steno_reserve_needed(void)
{
	int			statements = steno_my.open_count;
	const StenoLevel *l;

	for (l = steno_my.level; l; l = l->outer)
		statements += l->query == NULL;
	return statements;
}

/* The reserve is to be for so many statements; false: it cannot be made that large, half of the ring. */
STENO_COLD bool
steno_reserve_cover(int statements)
{
	StenoProducer *p = &steno_my.producer;
	int			most = (p->size / 2 - LOST_ROOM) / statement_share() - 1;

	if (statements > steno_reserve_covered && steno_reserve_covered < most)
	{
		steno_reserve_covered = Min(statements, most);
		p->limit = p->size - LOST_ROOM - (steno_reserve_covered + 1) * statement_share();
	}
	return statements <= steno_reserve_covered;
}

/* Whether all of it is there. */
STENO_COLD bool
steno_reserve_is_whole(void)
{
	StenoProducer *p = &steno_my.producer;

	steno_room_refresh_tail();
	return steno_ring_used(p) + (steno_my.staged ? steno_my.staged->len : 0) <= p->limit;
}

/* Whether the reserve has a share for a statement that is open, and the record is not its own. */
static bool
has_share(const StenoStatement *s, const StenoRecord *r)
{
	if (!s->recorded || (s->policy & STENO_S_UNCOVERED))
		return false;
	return r == NULL || r->kind != STENO_KIND_STATEMENT || r->statement != s->statement ||
		r->substatement != (s->top_level ? 0 : s->substatement);
}

/* How many statements have shares in the reserve, without the one that the record is of. */
static uint32
shares_of_others(const StenoRecord *r)
{
	const StenoLevel *l;
	uint32		shares = 0;
	int			i;

	for (i = 0; i < steno_my.open_count; i++)
		shares += has_share(&steno_my.open[i], r);
	for (l = steno_my.level; l; l = l->outer)
		if (l->query == NULL)
			shares += has_share(l->utility, r);
	return shares;
}

/*
 * Room for a message in the reserve, if the shares of the statements that have begun stay
 * free.  r: the record that the message is, or is put for, whose statement's share it may
 * take; NULL: none.  So a statement that has a share finds room for its record, whatever
 * others have put meanwhile (core/model/reserve.pml).
 */
STENO_COLD void *
steno_reserve_room(uint32 len, const StenoRecord *r)
{
	StenoProducer *p = &steno_my.producer;
	uint64		limit = p->limit;
	uint32		left;
	uint64		used;
	uint64		kept;
	void	   *m;

	if (steno_room_drops())
		return NULL;
	if (steno_my.staged != NULL)
		steno_unstage();
	steno_room_refresh_tail();
	len = (len + 7) & ~7u;
	left = p->size - (uint32) (p->head & (p->size - 1));
	used = steno_ring_used(p) + (len <= left ? len : left + len);
	kept = (uint64) shares_of_others(r) * statement_share();
	/* where the ring begins anew in what stays free, some of that may be lost */
	if (((p->tail + used) & (p->size - 1)) > used)
		kept += LOST_ROOM;
	if (used + kept > p->size)
		return NULL;
	p->limit = p->size;
	m = steno_ring_reserve(p, len);
	p->limit = limit;
	steno_start_mask_short(true);
	return m;
}

/*
 * A statement has begun, and none of its rows has been read: go on when the ring has room
 * for a short record of each statement that is open.  Where no error can be
 * raised, nobody can cancel the wait for its record either.
 */
void
steno_reserve_wait(void)
{
	StenoRing  *ring = steno_my.producer.ring;
	uint64		start = steno_clock_ticks(&steno_my.clock);
	bool		latch_was_set = false;
	long		nap = 1;
	StenoPatience patience = {0};

	if (steno_reserve_is_whole() || steno_room_drops() || !steno_can_raise())
		return;
	atomic_fetch_add_explicit(&ring->waits, 1, memory_order_relaxed);
	while (!steno_reserve_is_whole() && !steno_room_drops() && steno_can_raise())
	{
		steno_raise_cancel();
		steno_refuse_waiting_statement();
		if (!PostmasterIsAlive())
			proc_exit(1);
		steno_patience_check(&patience, steno_my.writer, "room in its ring");
		latch_was_set |= sleep_for_room(&nap);
	}
	steno_patience_end(&patience, steno_my.writer);
	if (latch_was_set)
		SetLatch(MyLatch);
	atomic_fetch_add_explicit(&ring->wait_us,
							  steno_clock_us(&steno_my.clock, start, steno_clock_ticks(&steno_my.clock)),
							  memory_order_relaxed);
}

/* Whether all that is open is covered; looks for the reserve end when nothing asks for them any more. */
bool
steno_reserve_covers_all(void)
{
	if (steno_reserve_is_whole() && steno_reserve_cover(steno_my.open_room))
		steno_start_mask_short(false);
	return steno_reserve_cover(steno_reserve_needed());
}
