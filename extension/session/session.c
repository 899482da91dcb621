/*
 * extension/session/session.c
 *		This process as a session: its ring, and the records of its beginning and end.
 *
 * A process attaches to its ring with its first record.  The ring is the one of its
 * PGPROC, so no other process can have it: from before ring->owner is set until end_session
 * clears it, the producer's side belongs to this process alone.
 */
#include "base/steno.h"

#include <sys/mman.h>
#include <unistd.h>

#include "access/parallel.h"
#include "libpq/auth.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/timestamp.h"

#include "base/client.h"
#include "base/compat.h"
#include "delivery/record.h"
#include "delivery/refusal.h"
#include "delivery/room.h"
#include "policy/policy.h"
#include "policy/secret.h"
#include "session/leader.h"
#include "session/role.h"
#include "session/session.h"
#include "session/settings_in_force.h"

static ClientAuthentication_hook_type previous_authentication;

/* The FATAL error that ends the session, for its disconnect record; 0: none. */
static int	death_code STENO_SESSION_DATA;
static char death_message[512];

/*
 * Put the last record of the session.  A process that is killed after it, but before it
 * has released its ring, must not get a disconnect record from recovery, too.
 */
static void
put_last_record(StenoRecord *record)
{
	StenoRing  *ring = steno_my.producer.ring;
	bool		idle = !ring->inflight.active;

	/* if a statement is still running, recovery needs its in-flight entry */
	if (idle)
		steno_ring_owner_ends(ring);
	steno_record_put(record, idle);
}

/*
 * The last access of a session to its ring.  The owner is released after everything
 * else: from then on, the ring may belong to another process.
 */
static void
end_session(int code, Datum arg)
{
	StenoRing  *ring = steno_my.producer.ring;
	StenoRecord record;
	bool		end_dropped = false;

	if (unlikely(steno_log_level_assigned))
		steno_settings_record_failing();
	/* if nothing of it has found room, not even its description, the disconnection is counted with the rest */
	if (MyProcPort != NULL && steno_class_logged(STENO_CLASS_CONNECT) && steno_my.state != STENO_DEAD &&
		(steno_is_described() || steno_my.dropped > 0))
	{
		steno_record_init(&record, STENO_KIND_DISCONNECT);
		record.time = GetCurrentTimestamp();
		record.duration = record.time - MyStartTimestamp;
		steno_record_set_class(&record, STENO_CLASS_CONNECT);
		if (death_code != 0)
		{
			record.outcome = STENO_OUTCOME_ERROR;
			record.sqlerrcode = death_code;
			record.message = death_message;
		}
		put_last_record(&record);
		/* a record that finds room is put after the gap record of those before it */
		end_dropped = steno_my.dropped > 0;
	}
	steno_gap_save(end_dropped ? &record : NULL);
	steno_process_done();
	steno_inflight_end(&ring->inflight);
	/* release: a process that sees the cleared owner (acquire) also sees its last message */
	atomic_store_explicit(&ring->owner, 0, memory_order_release);
}

/* Map the pages at "from" a second time, at "to", replacing what was mapped there. */
static bool
map_second_time(void *from, size_t size, void *to)
{
	/* with an old size of 0, mremap() keeps the old mapping */
	return mremap(from, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

/*
 * In the postmaster: make the page that sessions map the ring's header over a mapping by itself.
 * They would otherwise divide the one around it, which costs each of them more than the fork
 * that copies the parts.  That it is left out of core dumps is of no consequence: a
 * session's is never used.
 */
void
steno_session_prepare_mapping(void)
{
	(void) madvise(&steno_area.page, STENO_PAGE, MADV_DONTDUMP);
}

/*
 * Map the page with the ring's header over the page of steno_area, with our state in it, so that a
 * statement touches few pages (ARCHITECTURE.md).  Until then, nothing is written to either
 * page: the former is thrown away, and the latter has other entries in the page table at its
 * original address.  A leader's workers look at mapped, which says that the state is ours,
 * only while the ring is owned.
 */
static bool
map_header(StenoRing *ring)
{
	StenoLocal	state;

	if (sysconf(_SC_PAGESIZE) != STENO_PAGE)
		return false;
	memcpy(&state, &steno_my, sizeof(state));
	if (!map_second_time(ring, STENO_PAGE, &steno_area.page))
		return false;
	memcpy(&steno_my, &state, sizeof(state));
	return true;
}

/*
 * Map the ring's templates and data next to its header, too, if there is space.  A session does this only
 * when it has run some statements: those of a short session would gain less by it than the mapping
 * costs.  What is staged stays where it is; only its address changes.
 */
STENO_COLD void
steno_session_map_data(void)
{
	StenoProducer *producer = &steno_my.producer;

	steno_my.settled = true;
	if (sysconf(_SC_PAGESIZE) != STENO_PAGE)
		return;
	if (map_second_time(producer->templates, sizeof(steno_area.templates), steno_area.templates))
		producer->templates = steno_area.templates;
	if (producer->size > STENO_NEAR_DATA || !map_second_time(producer->data, producer->size, steno_area.data))
		return;
	if (steno_my.staged)
		steno_my.staged = (StenoMessage *) (steno_area.data + ((uint8 *) steno_my.staged - producer->data));
	producer->data = steno_area.data;
}

/*
 * Become the producer of a ring.  If its header cannot be mapped next to our data, it
 * is used at its original address, which is only slower.
 */
static void
become_producer(uint32 ring_number)
{
	StenoRing  *ring = steno_ring_at(&steno_rings, ring_number);
	StenoProducer *producer = &steno_my.producer;
	bool		mapped = map_header(ring);

	steno_producer_init(producer, &steno_rings, ring_number);
	if (mapped)
		producer->ring = &steno_area.page;
	else
		STENO_STORE(((StenoLocal *) ring->own)->mapped, false);
	steno_my.mapped = mapped;
	steno_my.ring_number = ring_number;
	steno_my.attached = producer->head;
}

/*
 * A parallel worker takes the statement and the client from its leader.  If the
 * leader does not record, the worker's records do not refer to a leader.
 */
STENO_COLD static void
join_leader(void)
{
	StenoLeader leader;
	StenoNames	names;

	steno_leader_find(&leader, &steno_client, &names);
	steno_role_inherit(names.user_id, names.user);
	steno_role_inherit(names.role_id, names.role);
	steno_set_unusual(STENO_U_WORKER, true);
	steno_my.statement = leader.statement;
	steno_my.outside = leader.depth + 1;
	if (leader.start != 0)
		steno_facts_set_leader(&leader);
}

/*
 * Attach to the ring of this process: with the first record, or before
 * authentication for a client that is refused.  False if this process cannot
 * record, or not at this time.
 */
bool
steno_session_attach(void)
{
	StenoRing  *ring;
	uint32		ring_number;

	if (MyProc == NULL || proc_exit_inprogress)
		return false;
	if (!steno_active() || !IsUnderPostmaster)
	{
		steno_process_done();
		return false;
	}
	ring_number = STENO_MY_RING;
	if (ring_number >= steno_rings.nrings)
	{
		steno_process_done();	/* an auxiliary process */
		return false;
	}
	become_producer(ring_number);
	(void) steno_reserve_cover(STENO_FEW_OPEN);
	steno_set_unusual(STENO_U_NOT_CLIENT, MyBackendType != B_BACKEND);
	steno_my.outside = steno_is_client();
	ring = steno_my.producer.ring;
	steno_my.inflight_version = atomic_load(&ring->inflight.version);
	STENO_STORE(ring->inflight.announced, 0);
	steno_my.writer = &steno_control->writers[ring_number % steno_rings.nwriters];
	atomic_store(&ring->owner_flags, am_walsender ? STENO_OWNER_LINGERS : 0);
	ring->own_gap = 0;
	ring->orphan_drops_next = 0;
	ring->owner_start = MyStartTimestamp;
	atomic_store(&ring->owner, (uint32) MyProcPid);
	steno_settings_baseline();
	if (IsParallelWorker())
	{
		join_leader();
		steno_settings_inherit();
	}
	else
	{
		steno_facts_set_client();
		steno_leader_publish(&steno_client);
		steno_facts_publish_names();
	}
	/*
	 * runs before ProcKill(), which was registered earlier and releases PGPROC, and
	 * with it the ring
	 */
	on_shmem_exit(end_session, (Datum) 0);
	steno_process_attached();
	/* a session before us may have used the ring's reserve */
	if (!steno_reserve_is_whole())
		steno_start_mask_short(true);
	steno_refusal_attached();
	return true;
}

/*
 * Record the settings that have changed in this session since the last call, and
 * put them in force.
 */
void
steno_settings_record(void)
{
	if (steno_session_ready())
		steno_setting_changes_record(false);
	else if (steno_my.state == STENO_DEAD)
		steno_settings_become(STENO_SETTINGS_SAME);
}

/* The same in a failure. */
void
steno_settings_record_failing(void)
{
	if (steno_session_ready())
		steno_setting_changes_record(true);
}

static void
record_connect(int kind, const ErrorData *edata)
{
	StenoRecord record;

	if (edata)
		steno_session_failing(InvalidOid);
	else
		steno_session_check(InvalidOid);
	steno_record_init(&record, kind);
	record.time = GetCurrentTimestamp();
	steno_record_set_class(&record, STENO_CLASS_CONNECT);
	if (edata)
	{
		record.outcome = STENO_OUTCOME_ERROR;
		record.sqlerrcode = edata->sqlerrcode;
		record.message = edata->message ? edata->message : "missing error text";
		put_last_record(&record);
	}
	else
		steno_record_put(&record, false);
}

/* A client is refused, or its session cannot begin. */
void
steno_session_failed(const ErrorData *edata)
{
	/* first, because attaching also puts the settings in force */
	if (!steno_session_ready())
	{
		if (steno_active() && steno_class_logged(STENO_CLASS_CONNECT))
			atomic_fetch_add(&steno_control->lost, 1);
		return;
	}
	if (!steno_class_logged(STENO_CLASS_CONNECT))
		return;
	steno_facts_set_authentication();
	record_connect(STENO_KIND_AUTH_FAILED, edata);
	steno_session_undescribed();	/* it gets no disconnect record */
	steno_process_done();
}

/* The message that ends this session, for the disconnect record. */
void
steno_session_died(const ErrorData *edata)
{
	const char *text = steno_secret_quotes_nothing(edata) ? NULL : debug_query_string;
	const char *message = edata->message ? edata->message : "";

	death_code = edata->sqlerrcode;
	message = steno_secret_hide_message(text, text ? strlen(text) : 0, message);
	strlcpy(death_message, message, pg_mbcliplen(message, strlen(message), sizeof(death_message) - 1) + 1);
}

static void
client_authenticated(Port *port, int status)
{
	if (previous_authentication)
		previous_authentication(port, status);
	if (status != STATUS_OK || !steno_session_ready())
		return;
	/* for all records of the session; the information is not available later */
	steno_facts_set_authentication();
	steno_facts_find_encoding();
	steno_policy_check();
	if (steno_class_logged(STENO_CLASS_CONNECT))
		record_connect(STENO_KIND_CONNECT, NULL);
}

void
steno_session_install(void)
{
	previous_authentication = ClientAuthentication_hook;
	ClientAuthentication_hook = client_authenticated;
}
