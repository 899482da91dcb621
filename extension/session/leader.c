/*
 * extension/session/leader.c
 *		Parallel workers and their leaders.
 *
 * A parallel worker executes a part of its leader's statement, which only the
 * leader records.  Statements that functions run in the worker are recorded by the
 * worker, as nested ones, in a session of its own that names the leader's session.
 * They have the statement number of the leader, and their depth counts from the
 * leader's statement.
 *
 * The server restores the leader's settings and roles in its workers, but not the
 * client's address and how it was authenticated.  Each session writes these to
 * shared memory when it begins.  A leader waits for its workers before its
 * statement ends, so what they read of its state does not change meanwhile, and no
 * lock is needed.
 *
 * Names of roles that were dropped are known to the sessions alone that have these roles.  They
 * write them to shared memory, too, whenever they change: for their workers, and for whoever looks at running
 * statements.
 */
#include "base/steno.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "base/compat.h"
#include "session/leader.h"

/*
 * In shared memory, one for each ring.  Written only by the ring's owner, when it
 * attaches and again when its client has been authenticated; read by the parallel
 * workers of its statements, which start later.  So no lock is needed.
 */
static StenoClientFacts *shared;

/*
 * Another such array, which its owners change at any time.  version is odd meanwhile: a copy counts only if it is even
 * before it, and the same after it.
 */
static struct SharedNames
{
	_Atomic uint32_t version;
	StenoNames	names;
}		   *shared_names;

static Size
shared_size(void)
{
	return mul_size(MaxBackends, sizeof(StenoClientFacts));
}

static Size
names_size(void)
{
	return mul_size(MaxBackends, sizeof(*shared_names));
}

void
steno_leader_request_shmem(void)
{
	RequestAddinShmemSpace(add_size(shared_size(), names_size()));
}

void
steno_leader_create_shmem(void)
{
	bool		found;

	shared = ShmemInitStruct("pg_steno clients", shared_size(), &found);
	if (!found)
		memset(shared, 0, shared_size());
	shared_names = ShmemInitStruct("pg_steno names", names_size(), &found);
	if (!found)
		memset(shared_names, 0, names_size());
}

/* Publish the facts of this session's client, for its parallel workers. */
void
steno_leader_publish(const StenoClientFacts *facts)
{
	shared[STENO_MY_RING] = *facts;
}

/* Publish who this session is. */
void
steno_leader_publish_names(const StenoNames *names)
{
	struct SharedNames *s = &shared_names[STENO_MY_RING];
	uint32		version = atomic_load_explicit(&s->version, memory_order_relaxed) & ~1U;

	/* a process before us may have died in the middle of a change */
	atomic_store_explicit(&s->version, version + 1, memory_order_relaxed);
	/* pairs with the acquire fence in steno_session_names: who sees a new name sees the odd version */
	atomic_thread_fence(memory_order_release);
	s->names = *names;
	atomic_store_explicit(&s->version, version + 2, memory_order_release);
}

/* Who the session of a ring is; false if that is not known, or is changing. */
bool
steno_session_names(uint32 ring_number, StenoNames *names)
{
	struct SharedNames *s = &shared_names[ring_number];
	uint32		version = atomic_load_explicit(&s->version, memory_order_acquire);

	*names = s->names;
	/* pairs with the release fence in steno_leader_publish_names: the copy is complete before the load */
	atomic_thread_fence(memory_order_acquire);
	if ((version & 1) || atomic_load_explicit(&s->version, memory_order_relaxed) != version ||
		!OidIsValid(names->user_id))
	{
		memset(names, 0, sizeof(*names));
		return false;
	}
	return true;
}

/*
 * In a parallel worker: find its leader and the leader's client.  leader->start is
 * 0 if the leader does not record.  What is read here does not change: the leader's
 * statement does not end before its workers.
 */
void
steno_leader_find(StenoLeader *leader, StenoClientFacts *facts, StenoNames *names)
{
	PGPROC	   *process = MyProc->lockGroupLeader;
	const StenoRing *ring;
	const StenoLocal *local;
	uint32		ring_number;

	memset(leader, 0, sizeof(*leader));
	memset(facts, 0, sizeof(*facts));
	memset(names, 0, sizeof(*names));
	if (process == NULL || process == MyProc)
		return;
	ring_number = STENO_RING_OF(process);
	if (ring_number >= steno_rings.file->nrings)
		return;
	ring = steno_ring_at(&steno_rings, ring_number);
	if (atomic_load_explicit(&ring->owner, memory_order_acquire) != (uint32) process->pid)
		return;
	*facts = shared[ring_number];
	(void) steno_session_names(ring_number, names);
	leader->pid = process->pid;
	leader->start = ring->owner_start;

	/* the leader's own state is in the ring's page if it could be mapped there (become_producer) */
	local = (const StenoLocal *) ring->own;
	if (STENO_LOAD(local->mapped))
	{
		leader->statement = STENO_LOAD(local->statement) + (STENO_LOAD(local->planning) == STENO_PLANNING_CLIENTS);
		leader->substatement = STENO_LOAD(local->launch.substatement);
		leader->depth = STENO_LOAD(local->launch.depth);
	}
	else if (STENO_LOAD(ring->inflight.active))
		leader->statement = STENO_LOAD(ring->inflight.statement);
}
