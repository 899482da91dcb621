/*
 * core/model/memory.pml
 *		The memory of the models: that of C11, not a sequentially consistent one, in which
 *		every thread sees each store at once.
 *
 * Each location keeps all values that were stored to it, in order (its history).  Each
 * thread has a view: for each location the oldest value that it may still
 * read.  A load reads any value from there on, so a thread can see stores late,
 * and those to different locations in any order, unless something forbids it:
 *
 *		A store carries a view along.  That of a release store is all that its thread
 *		knows; that of a relaxed one what the thread knew at its last release fence.
 *		An acquire load takes the view of what it reads over; a relaxed one keeps it
 *		for the next acquire fence.
 *		Sequentially consistent fences exchange views with one another, both ways.
 *		Accesses that are sequentially consistent are acquire and release, too; and such a load
 *		reads no older value than that of the last such store to the same location, or than
 *		the threads that have passed such a fence knew.
 *
 * This is the usual operational reading of C11 as repaired in 2017 ("RC11"):
 * store buffering and message passing fail as they do on hardware, and a
 * load never reads what is stored only later.  Where that matters, for the bytes that a
 * relaxed load and a later store of another thread could exchange, plain
 * memory is used: reading or writing it asserts that everything that another
 * thread did to it came before (no data race), as C11 asks.
 *
 * A store goes to the end of its location's history.
 *
 * A model defines THREADS, LOCATIONS, HISTORY, and CELLS if it has plain memory, then
 * includes this file.  Everything is 0 at first, and known to all.
 */
#define RELAXED 0
#define ACQUIRE 1
#define RELEASE 2
#define ACQ_REL 3
#define SEQ_CST 4

#ifndef CELLS
#define CELLS 0
#endif

/* A cell of plain memory is two places in a view: its last write and its last read. */
#define PLACES (LOCATIONS + 2 * CELLS)
#define WRITTEN(cell) (LOCATIONS + 2 * (cell))
#define READ(cell) (LOCATIONS + 2 * (cell) + 1)

typedef View
{
	byte at[PLACES]
};

typedef Message
{
	byte value;
	View with
};

typedef Location
{
	byte last;
	Message m[HISTORY]
};

Location memory[LOCATIONS];
View now[THREADS];				/* what a thread must know */
View later[THREADS];			/* will know after an acquire fence */
View fenced[THREADS];			/* knew at its last release fence */
View agreed;					/* what sequentially consistent fences have agreed on */

/* Within d_steps only: spin does not restore what is hidden. */
hidden byte k_;
hidden byte n_;
hidden byte at_;
hidden byte cut_;
/* 0 but in an atomic sequence */
byte pick_;
byte place_;

/*
 * Values of x that no thread may read any more go, and the rest moves down: so
 * loops without end have an end of different states.  A model says by
 * NEVER_LOADS which threads do not matter for that: fetch_add reads the last value
 * in any case.
 */
#ifndef NEVER_LOADS
#define NEVER_LOADS(thread, x) false
#endif

#define less_(n) \
	if \
	:: n > cut_ -> n = n - cut_ \
	:: else -> n = 0 \
	fi

#define clear_(message) \
	message.value = 0; \
	n_ = 0; \
	do \
	:: n_ < PLACES -> message.with.at[n_] = 0; n_++ \
	:: else -> break \
	od

#define copy_message_(to, from) \
	to.value = from.value; \
	n_ = 0; \
	do \
	:: n_ < PLACES -> to.with.at[n_] = from.with.at[n_]; n_++ \
	:: else -> break \
	od

#define forget_unreadable_(x) \
	cut_ = memory[x].last; \
	k_ = 0; \
	do \
	:: k_ < THREADS -> \
		if \
		:: now[k_].at[x] < cut_ && !(NEVER_LOADS(k_, x)) -> cut_ = now[k_].at[x] \
		:: else \
		fi; \
		k_++ \
	:: else -> break \
	od; \
	if \
	:: cut_ > 0 -> \
		k_ = 0; \
		do \
		:: k_ + cut_ <= memory[x].last -> copy_message_(memory[x].m[k_], memory[x].m[k_ + cut_]); k_++ \
		:: else -> break \
		od; \
		do \
		:: k_ <= memory[x].last -> clear_(memory[x].m[k_]); k_++ \
		:: else -> break \
		od; \
		memory[x].last = memory[x].last - cut_; \
		k_ = 0; \
		do \
		:: k_ < THREADS -> \
			less_(now[k_].at[x]); \
			less_(later[k_].at[x]); \
			less_(fenced[k_].at[x]); \
			k_++ \
		:: else -> break \
		od; \
		less_(agreed.at[x]); \
		k_ = 0; \
		do \
		:: k_ < LOCATIONS -> \
			n_ = 0; \
			do \
			:: n_ <= memory[k_].last -> less_(memory[k_].m[n_].with.at[x]); n_++ \
			:: else -> break \
			od; \
			k_++ \
		:: else -> break \
		od \
	:: else \
	fi; \
	cut_ = 0; n_ = 0

#define take_over(view, other) \
	k_ = 0; \
	do \
	:: k_ < PLACES -> \
		if \
		:: view.at[k_] < other.at[k_] -> view.at[k_] = other.at[k_] \
		:: else \
		fi; \
		k_++ \
	:: else -> break \
	od

#define copy_of(view, other) \
	k_ = 0; \
	do \
	:: k_ < PLACES -> view.at[k_] = other.at[k_]; k_++ \
	:: else -> break \
	od

/*
 * A thread that may be killed: what it has read by an acquire load was in memory before all
 * that it stores later, so who finds that (look_at_the_dead) finds this, too.
 */
#ifdef DEATH
#define acquired_(me, view) take_over(fenced[me], view)
#else
#define acquired_(me, view) skip
#endif

/* var = atomic_load_explicit(x, how) */
inline load(me, x, how, var)
{
	atomic {
		pick_ = now[me].at[x];
		if
		:: how == SEQ_CST && pick_ < agreed.at[x] -> pick_ = agreed.at[x]
		:: else
		fi;
		do
		:: pick_ < memory[x].last -> pick_++
		:: break
		od;
		skip;
		d_step {
			at_ = pick_;
			now[me].at[x] = at_;
			var = memory[x].m[at_].value;
			take_over(later[me], memory[x].m[at_].with);
			if
			:: later[me].at[x] < at_ -> later[me].at[x] = at_
			:: else
			fi;
			if
			:: how == ACQUIRE || how == SEQ_CST ->
				take_over(now[me], memory[x].m[at_].with);
				acquired_(me, memory[x].m[at_].with)
			:: else
			fi;
			forget_unreadable_(x);
			k_ = 0; at_ = 0; pick_ = 0
		}
	}
}

/* Within d_step: append to x's history, with the view that its order says. */
#define append_(me, x, val, how) \
	assert(memory[x].last + 1 < HISTORY); \
	memory[x].last++; \
	at_ = memory[x].last; \
	now[me].at[x] = at_; \
	if \
	:: later[me].at[x] < at_ -> later[me].at[x] = at_ \
	:: else \
	fi; \
	memory[x].m[at_].value = val; \
	if \
	:: how == RELEASE || how == ACQ_REL || how == SEQ_CST -> copy_of(memory[x].m[at_].with, now[me]) \
	:: else -> copy_of(memory[x].m[at_].with, fenced[me]); memory[x].m[at_].with.at[x] = at_ \
	fi; \
	if \
	:: how == SEQ_CST -> agreed.at[x] = at_ \
	:: else \
	fi

/* atomic_store_explicit(x, val, how) */
inline store(me, x, val, how)
{
	d_step {
		append_(me, x, val, how);
		forget_unreadable_(x);
		k_ = 0; at_ = 0
	}
}

/*
 * atomic_fetch_add_explicit(x, n, how).  It reads the last value, and what it
 * stores carries the view of that along, too (a release sequence).
 */
inline fetch_add(me, x, n, how)
{
	d_step {
		at_ = memory[x].last;
		now[me].at[x] = at_;
		take_over(later[me], memory[x].m[at_].with);
		if
		:: how == ACQUIRE || how == ACQ_REL || how == SEQ_CST -> take_over(now[me], memory[x].m[at_].with)
		:: else
		fi;
		append_(me, x, memory[x].m[at_ - 1].value + n, how);
		take_over(memory[x].m[at_].with, memory[x].m[at_ - 1].with);
		forget_unreadable_(x);
		k_ = 0; at_ = 0
	}
}

/* atomic_thread_fence(how) */
inline fence(me, how)
{
	d_step {
		if
		:: how != RELEASE && how != RELAXED -> copy_of(now[me], later[me])
		:: else
		fi;
		if
		:: how == SEQ_CST ->
			take_over(agreed, now[me]);
			copy_of(now[me], agreed);
			copy_of(later[me], agreed)
		:: else
		fi;
		if
		:: how != ACQUIRE && how != RELAXED -> copy_of(fenced[me], now[me])
		:: else
		fi;
		k_ = 0
	}
}

/*
 * What the last store to x has stored: for assertions, and to wait for news instead of
 * polling, since stores are seen some day.
 */
#define last_value(x) (memory[x].m[memory[x].last].value)

#if CELLS > 0
typedef Cell
{
	byte value;
	byte writes;
	byte reads
};

Cell plain[CELLS];

/* var = *cell */
inline get(me, cell, var)
{
	d_step {
		assert(now[me].at[WRITTEN(cell)] == plain[cell].writes);
		plain[cell].reads++;
		now[me].at[READ(cell)] = plain[cell].reads;
		later[me].at[READ(cell)] = plain[cell].reads;
		var = plain[cell].value
	}
}

/* *cell = val */
inline put(me, cell, val)
{
	d_step {
		assert(now[me].at[WRITTEN(cell)] == plain[cell].writes);
		assert(now[me].at[READ(cell)] == plain[cell].reads);
		plain[cell].writes++;
		now[me].at[WRITTEN(cell)] = plain[cell].writes;
		later[me].at[WRITTEN(cell)] = plain[cell].writes;
		plain[cell].value = val
	}
}
#endif

/*
 * What somebody finds who looks after a thread was killed: of its stores those
 * that a compiler may have put before the point of its death.  From any choice of last
 * stores follow the ones that cannot be missing then.  After it, a load of each
 * location by `me` gives that one value: found(me, x).  LOOKED_AT: locations that matter.
 */
#ifndef LOOKED_AT
#define LOOKED_AT LOCATIONS
#endif

inline look_at_the_dead(me)
{
	atomic {
		do
		:: place_ < LOOKED_AT ->
			pick_ = now[me].at[place_];
			do
			:: pick_ < memory[place_].last -> pick_++
			:: break
			od;
			skip;
			d_step {
				if
				:: now[me].at[place_] < pick_ -> now[me].at[place_] = pick_
				:: else
				fi;
				take_over(now[me], memory[place_].m[now[me].at[place_]].with);
				place_++; pick_ = 0; k_ = 0
			}
		:: else -> break
		od;
		place_ = 0; pick_ = 0
	}
}

#define found(me, x) (memory[x].m[now[me].at[x]].value)
