/*
 * extension/writer/writer.c
 *		The writers: background workers that turn rings into the trail.
 *
 * A writer makes passes.  A pass reads all that its rings hold into a block,
 * writes the block, and only then frees the rings: whatever dies in between,
 * the records are in the file or still in the ring file.  The intent that is
 * left before each write tells recovery (recover.c) which of the two.
 *
 * Between passes it sleeps for steno.flush_interval, or less when rings fill up
 * faster.  Nobody wakes it for a record; a backend does when its ring is half
 * full, when it waits for room or for an answer, and when the writer has said
 * that it sleeps deeply, after a while without records.
 *
 * When the trail cannot be written, the writer says so once, keeps the block and
 * tries again every second; rings fill up meanwhile, and statements wait, drop
 * their records or are refused, as steno.delivery and steno.on_failure say
 * (trouble.c).  When it cannot be synced, what is in doubt is written again before
 * the next try (core/trail/segment.c).
 */
#include "writer/writer.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker_internals.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/pidfile.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "base/compat.h"
#include "delivery/record.h"
#include "policy/rules.h"
#include "session/setting_change.h"
#include "delivery/wait.h"
#include "writer/alert.h"
#include "writer/key.h"

/* Without records for this long, the writer sleeps deeply. */
#define IDLE_MS 2000

/* A deep sleep's length: bounds what a missed wake-up costs. */
#define DEEP_SLEEP_MS 1000

/* Time between attempts to write when it fails. */
#define RETRY_MS 1000

/* Shortest sleep between two passes of a busy writer. */
#define SHORTEST_NAP_MS 2

/* Time slice of a writer that statements wait for, in nanoseconds; the kernel's least. */
#define SLICE_NS 100000

static StenoWriter *me;

static volatile bool postmaster_dead;

/*
 * SIGTERM has come, and was not looked at yet; that of a server that stops.  Before the
 * postmaster signals anybody, it writes into its file that it stops.  A writer that is
 * terminated by anybody else ends, too, but the postmaster starts it again.
 */
static volatile sig_atomic_t terminated;
static bool server_stops;

static void
handle_terminate(SIGNAL_ARGS)
{
	int			save_errno = errno;

	terminated = true;
	ShutdownRequestPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

static inline void
count(_Atomic uint64_t *counter, uint64 n)
{
	atomic_store_explicit(counter,
						  atomic_load_explicit(counter, memory_order_relaxed) + n,
						  memory_order_relaxed);
}

/* ---- rings being drained ---- */

/* The state of a ring's reader, as its last writer left it. */
void
steno_drain_load(StenoDrain *drain, uint32 i)
{
	StenoRing  *ring = steno_ring_at(drain->rings, i);
	StenoSource *source = &drain->sources[i];

	drain->positions[i] = atomic_load(&ring->tail);
	drain->told[i] = ring->told;
	memset(source, 0, sizeof(*source));
	source->generation = UINT64_MAX;	/* of no block */
	source->templates = steno_ring_templates(drain->rings, i);
	if (ring->session_len <= STENO_SESSION_MAX)
	{
		source->body_len = ring->session_len;
		memcpy(source->body, ring->session, ring->session_len);
	}
	source->seq = ring->session_seq;
	source->statement = ring->session_statement;
}

void
steno_drain_init(StenoDrain *drain, StenoRings *rings, int writer)
{
	uint32		n = rings->nrings;
	uint32		i;

	drain->rings = rings;
	drain->intent = &rings->file->intents[writer];
	drain->first = writer;
	drain->step = rings->nwriters;
	drain->ended = 0;
	drain->sources = MemoryContextAllocHuge(TopMemoryContext, n * sizeof(StenoSource));
	drain->positions = MemoryContextAlloc(TopMemoryContext, n * sizeof(uint64));
	drain->told = MemoryContextAlloc(TopMemoryContext, n * sizeof(uint64));
	for (i = 0; i < n; i++)
		steno_drain_load(drain, i);
}

void
steno_drain_free(StenoDrain *drain)
{
	pfree(drain->sources);
	pfree(drain->positions);
	pfree(drain->told);
}

/* ---- failures ---- */

/* Blocks that a failing disk has not kept: in the log, and in the trail. */
static void
report_lost(StenoWriter *w)
{
	StenoLost  *lost = &w->stream.lost;
	char		blocks[64];

	if (lost->count == 0)
		return;
	snprintf(blocks, sizeof(blocks), UINT64_FORMAT "-" UINT64_FORMAT, lost->first, lost->last);
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg_plural("stream %u of the trail has lost %llu block, of numbers %llu to %llu",
						   "stream %u of the trail has lost %llu blocks, of numbers %llu to %llu",
						   (unsigned long) lost->count, w->stream.number, (unsigned long long) lost->count,
						   (unsigned long long) lost->first, (unsigned long long) lost->last),
			 errdetail("They were written to segment %llu at offset %llu, could not be synced, and do not read any more as they were written.",
					   (unsigned long long) w->stream.segment, (unsigned long long) lost->offset),
			 errhint("Check the disk, and run \"steno verify\".")));
	lost->count = 0;
	steno_writer_event(w, "lost", "blocks", blocks);
}

static bool
producers_left(StenoWriter *w)
{
	uint32		i;

	for (i = w->number; i < steno_rings.nrings; i += steno_rings.nwriters)
	{
		StenoRing  *ring = steno_ring_at(&steno_rings, i);
		/* pairs with the release store in session_end */
		uint32		owner = atomic_load_explicit(&ring->owner, memory_order_acquire);

		if (owner != 0 && owner != (uint32) MyProcPid &&
			!(atomic_load(&ring->owner_flags) & STENO_OWNER_LINGERS) &&
			(kill(owner, 0) == 0 || errno != ESRCH))
			return true;
	}
	return false;
}

/*
 * What the postmaster's file says.  One that cannot be read is taken to be of a server
 * that stops: then the writer stays until the sessions have gone.
 */
static bool
postmaster_stops(void)
{
	FILE	   *file = fopen("postmaster.pid", "r");
	char		line[MAXPGPATH];
	int			n = 0;

	if (file == NULL)
		return true;
	while (n < LOCK_FILE_LINE_PM_STATUS && fgets(line, sizeof(line), file) != NULL)
		n++;
	fclose(file);
	return n < LOCK_FILE_LINE_PM_STATUS || strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

static bool
leaving(void)
{
	if (terminated)
	{
		terminated = false;
		if (!server_stops)
			server_stops = postmaster_stops();
		if (!server_stops)
			ereport(LOG,
					(errmsg("terminating steno writer due to administrator command"),
					 errdetail("The server does not stop, so the postmaster starts the writer again."),
					 errhint("What sessions record until then stays in their rings.")));
	}
	return ShutdownRequestPending || postmaster_dead;
}

/* Whether there is nobody left whom we wait for before we leave. */
static bool
may_leave(StenoWriter *w)
{
	if (!leaving())
		return false;
	/* who is started again need not wait for the sessions */
	return (!server_stops && !postmaster_dead) || !producers_left(w);
}

/*
 * End this process.  The postmaster starts a writer again that has ended with 1, in a
 * second; one that ends with 0, never: that is for a server that stops.
 */
void
steno_writer_exit(void)
{
	proc_exit(server_stops ? 0 : 1);
}

/* However this process ends. */
static void
writer_ended(int code, Datum arg)
{
	StenoWriterControl *control = (StenoWriterControl *) DatumGetPointer(arg);

	control->latch = NULL;
	atomic_store(&control->gone_since, GetCurrentTimestamp());
	atomic_store(&control->pid, 0);
}

/* Sleep; notices signals and the postmaster's death. */
static void
nap(long ms, uint32 wait_event)
{
	/* a wait must watch the postmaster, and returns at once when that is gone */
	if (postmaster_dead)
		pg_usleep(ms * 1000L);
	else if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH, ms, wait_event) &
			 WL_POSTMASTER_DEATH)
		postmaster_dead = true;
	ResetLatch(MyLatch);
}

/*
 * After a failure: wait a little.  Returns false when there is nobody left to
 * wait for; what the rings hold is then for the next start.
 */
bool
steno_writer_wait(StenoWriter *w)
{
	uint64		start = steno_clock_ticks(&steno_my.clock);

	/* the time of day may be set back meanwhile */
	while (steno_clock_us(&steno_my.clock, start, steno_clock_ticks(&steno_my.clock)) <
		   RETRY_MS * UINT64CONST(1000))
	{
		if (may_leave(w))
			return false;
		steno_trouble_tick(w);
		nap(100, steno_wait_events[STENO_WAIT_RETRY]);
	}
	return true;
}

/* ---- writing ---- */

/*
 * The block's bytes, and the intent to write them where the stream now ends; NULL:
 * it could not be encrypted.
 */
static const uint8_t *
finish_block(StenoWriter *w, uint8 chain[STENO_HASH_SIZE], size_t *len)
{
	StenoDrain *drain = w->drain;
	StenoIntent *intent;
	const uint8_t *bytes;
	uint32		i;

	memcpy(chain, w->stream.chain, STENO_HASH_SIZE);
	bytes = steno_block_finish(w->block, steno_compression, w->stream.next_block,
							   w->stream.next_record, GetCurrentTimestamp(),
							   chain, len);
	if (bytes == NULL)
		return NULL;
	steno_state_block(w, chain);
	if (drain == NULL)
		return bytes;
	for (i = drain->first; i < drain->rings->nrings; i += drain->step)
	{
		StenoRing  *ring = steno_ring_at(drain->rings, i);

		ring->pending = drain->positions[i];
		ring->telling = drain->told[i];
	}
	intent = drain->intent;
	intent->stream = w->stream.number;
	intent->segment = w->stream.segment;
	intent->offset = w->stream.offset;
	intent->block = w->stream.next_block;
	memcpy(intent->hash, chain, STENO_HASH_SIZE);
	/* recovery must not see valid before the rest */
	atomic_thread_fence(memory_order_release);
	intent->valid = drain->ended > 0 ? STENO_INTENT_ENDS + drain->ended : STENO_INTENT_MESSAGES;
	return bytes;
}

/*
 * Write the block that is being built, and free what it holds from its rings.
 * Returns false, with the block kept, when we are to leave and cannot write.
 */
bool
steno_writer_write(StenoWriter *w)
{
	StenoDrain *drain = w->drain;
	StenoIntent *intent = drain ? drain->intent : NULL;
	uint32		records = steno_block_records(w->block);
	uint64		finished = 0;	/* no segment has this number */
	uint32		raw;
	uint8		chain[STENO_HASH_SIZE];
	const uint8_t *bytes = NULL;
	size_t		len = 0;
	uint32		i;
	StenoError	error;

	if (steno_block_bytes(w->block) == 0)
		return true;
	for (;;)
	{
		if (!steno_trouble_place(w, false))
			return false;
		/* in another segment, the chain goes on from another hash */
		if (w->stream.segment != finished)
		{
			finished = w->stream.segment;
			bytes = finish_block(w, chain, &len);
		}
		if (bytes == NULL)
		{
			finished = 0;
			steno_key_block_error(w, &error);
		}
		else if (steno_trouble_room(w, len, &error))
		{
			/* for the syncs to come */
			if (w->sync_asked)
				steno_stream_make_room(&w->stream, len);
			if (steno_stream_append(&w->stream, bytes, len, records, chain, &error))
				break;
		}
		steno_trouble_failed(w, STENO_WRITE, &error);
		if (!steno_writer_wait(w))
			return false;
	}
	steno_trouble_over(w, STENO_WRITE);
	if (drain)
	{
		for (i = drain->first; i < drain->rings->nrings; i += drain->step)
		{
			StenoRing  *ring = steno_ring_at(drain->rings, i);
			StenoSource *source = &drain->sources[i];

			ring->told = drain->told[i];
			if (drain->positions[i] == atomic_load_explicit(&ring->tail, memory_order_relaxed))
				continue;
			if (ring->session_len != source->body_len ||
				memcmp(ring->session, source->body, source->body_len) != 0)
			{
				memcpy(ring->session, source->body, source->body_len);
				ring->session_len = source->body_len;
			}
			ring->session_seq = source->seq;
			ring->session_statement = source->statement;
			steno_ring_free(ring, drain->positions[i]);
		}
		if (drain->ended > 0)
			steno_recover_ended(drain->rings, drain->ended);
		atomic_thread_fence(memory_order_release);
		/* that of a recovery's last block stands until the file has gone */
		if (drain->ended < drain->rings->nrings)
			intent->valid = 0;
	}
	count(&w->control->records, records);
	count(&w->control->blocks, 1);
	count(&w->control->raw_bytes, steno_block_bytes(w->block));
	count(&w->control->stored_bytes, len);
	atomic_store_explicit(&w->control->segment, w->stream.segment, memory_order_relaxed);
	atomic_store_explicit(&w->control->last_write, GetCurrentTimestamp(), memory_order_relaxed);
	raw = steno_block_bytes(w->block);
	steno_block_reset(w->block);
	steno_seal_written(w, raw);
	return true;
}

/* All that was written is on disk: tell who waits for that. */
static void
announce_synced(StenoWriter *w)
{
	uint32		i;

	for (i = w->number; i < steno_rings.nrings; i += steno_rings.nwriters)
		steno_ring_synced(steno_ring_at(&steno_rings, i));
	steno_wake_finish(&w->control->wake);
	w->sync_asked = false;
}

bool
steno_writer_sync(StenoWriter *w)
{
	StenoError	error;

	if (!w->stream.dirty)
		return true;
	steno_wake_start(&w->control->wake);
	if (!steno_stream_sync(&w->stream, &error))
	{
		steno_trouble_failed(w, STENO_SYNC, &error);
		return false;
	}
	/* a sync of a file that nobody finds is none */
	if (!steno_trouble_place(w, true))
		return false;
	steno_state_synced(w, false);
	/* who waits for it finds it in the views when it goes on */
	count(&w->control->syncs, 1);
	atomic_store_explicit(&w->control->last_sync, GetCurrentTimestamp(), memory_order_relaxed);
	announce_synced(w);
	steno_trouble_over(w, STENO_SYNC);
	report_lost(w);
	return true;
}

/* The same, however often it takes.  Returns false when we are to leave and cannot. */
bool
steno_writer_sync_surely(StenoWriter *w)
{
	while (!steno_writer_sync(w))
		if (!steno_writer_wait(w))
			return false;
	return true;
}

/*
 * See to it that a block can hold whatever stands in rings of this size, also when
 * steno.block_size says less.  Returns false when we are to leave and cannot write.
 */
bool
steno_writer_fit(StenoWriter *w, uint32 ring_size)
{
	uint32		capacity = Max((uint32) steno_block_size * 1024,
							   ring_size / STENO_RING_SHARE + 2 * STENO_BESIDE);

	if (capacity <= w->capacity)
		return true;
	if (w->block != NULL)
	{
		if (!steno_writer_write(w))
			return false;
		steno_block_destroy(w->block);
	}
	w->block = steno_block_create(capacity);
	if (w->block == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	steno_block_set_crypt(w->block, steno_key_crypt());
	w->capacity = capacity;
	w->self.generation = UINT64_MAX;	/* it has no definition of us */
	return true;
}

/* Add a message to the block; writes the block when that is full. */
bool
steno_writer_add(StenoWriter *w, StenoSource *source, const StenoMessage *message)
{
	if (steno_block_add(w->block, source, message))
		return true;
	if (!steno_writer_write(w))
		return false;
	if (!steno_block_add(w->block, source, message))
		elog(PANIC, "message of %u bytes does not fit a block", message->len);
	return true;
}

/*
 * Read into blocks what a ring holds now.  Returns false when we are to leave and
 * cannot write.
 */
bool
steno_writer_drain_ring(StenoWriter *w, StenoDrain *drain, uint32 i)
{
	uint64		head = steno_ring_published(steno_ring_at(drain->rings, i));
	uint32		size = drain->rings->size;
	uint8_t    *data;

	if (head == drain->positions[i])
		return true;
	data = steno_ring_data(drain->rings, i);
	while (drain->positions[i] != head)
	{
		const StenoMessage *m = steno_ring_message(data, size, drain->positions[i]);

		if (m->kind != 0 && !steno_writer_add(w, &drain->sources[i], m))
			return false;
		drain->positions[i] += m->len;
	}
	return true;
}

/* ---- the writer's own records ---- */

/* A record of this writer with a few pairs of extra facts; false as with steno_writer_add. */
static bool
put_own(StenoWriter *w, int kind, int class, const char *const *pairs, int count)
{
	union
	{
		StenoRecordMessage m;
		uint8		bytes[16384];
	}			buf;
	uint8	   *p = (uint8 *) (&buf.m + 1);
	uint8	   *extra;
	int			i;

	memset(&buf.m, 0, sizeof(buf.m));
	buf.m.m.kind = kind;
	buf.m.seq = w->self.seq + 1;
	buf.m.time = GetCurrentTimestamp();
	buf.m.duration = STENO_NONE64;
	buf.m.rows = STENO_NONE64;
	buf.m.text_len = STENO_NONE32;
	if (class != 0)
	{
		*p++ = class;
		memset(p, 0, 4);		/* no query id, command tag, relations, parameters */
		p += 4;
		buf.m.shape_len = 5;
	}
	extra = p;
	for (i = 0; i < count * 2; i++)
		p = steno_put_string(p, pairs[i]);
	buf.m.extra_count = count;
	buf.m.extra_len = p - extra;
	buf.m.m.len = (uint32) ((p - buf.bytes + 7) & ~7);
	return steno_writer_add(w, &w->self, &buf.m.m);
}

void
steno_writer_event(StenoWriter *w, const char *event, const char *name, const char *value)
{
	const char *pairs[] = {"event", event, "version", PG_VERSION, name, value};

	put_own(w, STENO_KIND_SERVER, 0, pairs, name ? 3 : 2);
}

/* One with any pairs. */
void
steno_writer_server(StenoWriter *w, const char *const *pairs, int count)
{
	put_own(w, STENO_KIND_SERVER, 0, pairs, count);
}

/* The server has started: which one, which run of it, with which settings. */
static void
put_start(StenoWriter *w)
{
	const char *pairs[2 * (2 + STENO_STATE_PAIRS + STENO_SETTINGS_MOST)] = {"event", "start", "version", PG_VERSION};
	int			n = 2;

	n += steno_state_describe(pairs + 2 * n);
	n += steno_settings_configured(pairs + 2 * n);
	put_own(w, STENO_KIND_SERVER, 0, pairs, n);
}

static void
setting_reloaded(const char *name, const char *from, const char *to)
{
	const char *pairs[] = {"name", name, "old", from, "new", to, "source", "server"};

	put_own(me, STENO_KIND_SETTING, STENO_CLASS_SETTING, pairs, 4);
}

/* In the trail before it takes effect. */
static void
rules_changed(const char *from, const char *to, const char *errors, const char *hash)
{
	const char *pairs[] = {
		"name", "steno.rules_file", "old", from, "new", to, "source", "server",
		"errors", errors, "sha256", hash
	};

	put_own(me, STENO_KIND_SETTING, STENO_CLASS_SETTING, pairs, lengthof(pairs) / 2);
	steno_writer_write(me);
}

/* ---- all rings ---- */

/*
 * Records that sessions of a ring have dropped, and for which nobody else could speak:
 * how many.
 */
bool
steno_writer_tell_dropped(StenoWriter *w, StenoDrain *drain, uint32 i)
{
	StenoRing  *ring = steno_ring_at(drain->rings, i);
	uint64		untold = atomic_load_explicit(&ring->untold, memory_order_acquire);
	uint32		reason = atomic_load_explicit(&ring->untold_reason, memory_order_relaxed);
	char		number[32];
	const char *pairs[] = {"count", number, "reason", steno_gap_reason(reason)};

	if (likely(untold <= drain->told[i]))
		return true;
	snprintf(number, sizeof(number), UINT64_FORMAT, untold - drain->told[i]);
	if (!put_own(w, STENO_KIND_GAP, 0, pairs, lengthof(pairs) / 2))
		return false;
	drain->told[i] = untold;
	return true;
}

/* steno_writer_drain_ring, of all rings, and what was dropped of them. */
bool
steno_writer_drain(StenoWriter *w, StenoDrain *drain)
{
	uint32		i;

	w->drain = drain;
	for (i = drain->first; i < drain->rings->nrings; i += drain->step)
		if (!steno_writer_drain_ring(w, drain, i) || !steno_writer_tell_dropped(w, drain, i))
			return false;
	return true;
}

/* ---- start ---- */

static void
describe_self(StenoWriter *w)
{
	uint8	   *p = w->self.body;
	int64		start = MyStartTimestamp;
	uint32		pid = MyProcPid;

	memcpy(p, &start, sizeof(start));
	memcpy(p + STENO_SESSION_PID, &pid, sizeof(pid));
	p += STENO_SESSION_FACTS;
	*p++ = STENO_SESSION_BACKEND_TYPE;
	p = steno_put_string(p, "steno writer");
	w->self.body_len = p - w->self.body;
	w->self.generation = UINT64_MAX;
}

static void
open_stream(StenoWriter *w)
{
	StenoFound	found;
	StenoError	error;
	uint32		stream;

	/* without the key, nothing is written: it would be plain */
	while (!steno_key_answered(w))
	{
		if (may_leave(w))
			steno_writer_exit();
		nap(20, steno_wait_events[STENO_WAIT_RETRY]);
	}
	while (!steno_trail_hold(&error) ||
		   !steno_state_stream(w, &stream, &error) ||
		   !steno_stream_open(&w->stream, steno_directory, stream,
							  GetSystemIdentifier(), PG_VERSION_NUM,
							  (mode_t) steno_file_mode, steno_key_crypt(),
							  GetCurrentTimestamp(), &found, &error))
	{
		steno_trouble_failed(w, STENO_WRITE, &error);
		if (!steno_writer_wait(w))
			steno_writer_exit();
	}
	steno_trouble_over(w, STENO_WRITE);
	/* first of all: who looks for the end of the run before finds this one's beginning */
	if (!steno_seal_start(w) || !steno_state_tell(w))
		steno_writer_exit();
	if (steno_crypt_active(w->stream.crypt))
		steno_key_report(w);
	if (found.torn_bytes > 0)
	{
		char		bytes[32];

		snprintf(bytes, sizeof(bytes), UINT64_FORMAT, found.torn_bytes);
		ereport(LOG,
				(errmsg("steno writer %d cut an unfinished block of %s bytes off stream %u",
						w->number, bytes, w->stream.number)));
		steno_writer_event(w, "torn", "bytes", bytes);
	}
	if (found.damaged)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("last segment of stream %u of the trail is damaged at offset %llu",
						w->stream.number, (unsigned long long) found.damaged_offset),
				 errdetail("It is left as it is; the stream goes on in a new segment."),
				 errhint("Run \"steno verify\".")));
	atomic_store(&w->control->stream, w->stream.number);
	atomic_store(&w->control->segment, w->stream.segment);
}

/*
 * Be in pg_stat_activity, with our waits.  That takes an entry among the processes and
 * one among the receivers of invalidations, of which we are none: we have no caches,
 * no files of relations, and take no part in barriers, so nobody ever waits for a
 * writer that waits for its disk.
 */
static void
show_in_activity(void)
{
	STENO_ENTER_PROC_ARRAY();
	InitializeSessionUserIdStandalone();
	pgstat_beinit();
	STENO_PGSTAT_BESTART();
}

static StenoWriter *
start(int number)
{
	StenoWriter *w = MemoryContextAllocZero(TopMemoryContext, sizeof(StenoWriter));

	w->number = number;
	w->control = &steno_control->writers[number];
	on_shmem_exit(writer_ended, PointerGetDatum(w->control));
	w->control->latch = MyLatch;
	w->gone_since = atomic_load(&w->control->gone_since);
	w->restarted = atomic_fetch_add(&w->control->starts, 1) > 0;
	atomic_store(&w->control->pid, (uint32) MyProcPid);
	atomic_store(&w->control->gone_since, 0);
	show_in_activity();
	(void) steno_writer_fit(w, steno_rings.size);
	steno_key_ask(w);
	describe_self(w);
	if (w->restarted)
		steno_trouble_inherit(w);
	open_stream(w);
	return w;
}

/*
 * Another process was this writer before us, in the same run of the server, and has
 * ended.  The postmaster starts us only when it has waited for that one, so the rings
 * have one consumer, and what it left in them is as after a crash: the intent
 * tells whether the last block was written.
 */
static void
go_on(StenoWriter *w)
{
	char		number[16];
	char		since[32];
	char		message[128];
	const char *pairs[] = {"event", "restart", "version", PG_VERSION, "writer", number, "since", since};
	long		seconds;
	int			microseconds;

	steno_recover_own(w);
	TimestampDifference(w->gone_since, GetCurrentTimestamp(), &seconds, &microseconds);
	snprintf(number, sizeof(number), "%d", w->number);
	steno_format_time(since, sizeof(since), w->gone_since);
	snprintf(message, sizeof(message), "writer %d was not running for %ld.%03d s", w->number,
			 seconds, microseconds / 1000);
	ereport(LOG,
			(errmsg("steno writer %d is running again after %ld.%03d s", w->number,
					seconds, microseconds / 1000),
			 errdetail("What its sessions recorded meanwhile is in their rings, and is written now.")));
	steno_alert("restart", w->number, message);
	steno_writer_server(w, pairs, lengthof(pairs) / 2);
	atomic_store(&w->control->absence_reported, 0);
	/* the configuration may have been reloaded meanwhile */
	if (w->number == 0)
		steno_rules_renew(NULL);
	w->reload_later = true;
}

/* The first process of writer 0 does what is done once in a run of the server. */
static void
begin_run(StenoWriter *w)
{
	steno_recover_rings(w);
	put_start(w);
	steno_state_compare_unused(w);
	steno_rules_started(rules_changed);
	if (!steno_writer_write(w))
		steno_writer_exit();
	atomic_store(&w->control->begun, 1);
}

/*
 * Statements wait for us now: with short time slices, the kernel lets us run sooner
 * when we wake up (Linux 6.12 and later).  Our share of the processor stays.
 */
static void
take_short_slices(void)
{
#if defined(__linux__) && defined(SYS_sched_setattr)
	struct
	{
		uint32		size;
		uint32		policy;
		uint64		flags;
		int32		nice;
		uint32		priority;
		uint64		runtime;
		uint64		deadline;
		uint64		period;
	}			attributes = {0};

	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0 ||
		attributes.policy != 0)
		return;
	attributes.size = sizeof(attributes);
	attributes.runtime = SLICE_NS;
	(void) syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

/* ---- the main loop ---- */

/* Whether it is worth trying, after a failure of it; also after the clock was set back. */
static bool
may_try(const StenoWriter *w, StenoAction action, TimestampTz now)
{
	return !w->failing[action] || now >= w->retry_at[action] ||
		now < w->retry_at[action] - RETRY_MS * INT64CONST(1000);
}

/* Returns false when a new segment was wanted and could not be begun. */
static bool
rotate_if_due(StenoWriter *w, bool requested)
{
	StenoError	error;
	TimestampTz now = GetCurrentTimestamp();
	bool		due = w->stream.offset >= (uint64) steno_segment_size * 1024 * 1024;
	bool		stale = steno_crypt_stale(w->stream.crypt);

	if (steno_rotation_age > 0 &&
		now - w->stream.created >= (int64) steno_rotation_age * SECS_PER_MINUTE * USECS_PER_SEC)
		due = true;
	if (!stale && (w->stream.offset <= w->stream.header || !(due || requested)))
		return true;
	/* what is closed cannot be restored any more */
	if (!may_try(w, STENO_ROTATE, now) || !steno_trouble_place(w, true))
		return false;
	if (!steno_seal_segment(w))
		return false;
	if (!steno_stream_rotate(&w->stream, now, &error))
	{
		steno_trouble_failed(w, STENO_ROTATE, &error);
		return false;
	}
	steno_trouble_over(w, STENO_ROTATE);
	steno_state_synced(w, true);
	if (stale)
		steno_key_report(w);
	atomic_store(&w->control->segment, w->stream.segment);
	return true;
}

/* A request that was seen before the pass is served. */
static void
answer(uint64 *served, uint64 request, _Atomic uint64_t *done)
{
	if (*served == request)
		return;
	*served = request;
	atomic_store(done, request);
	ConditionVariableBroadcast(&steno_control->answered);
}

static void
set_asleep(const StenoDrain *drain, uint32 asleep)
{
	uint32		i;

	for (i = drain->first; i < drain->rings->nrings; i += drain->step)
		atomic_store(&steno_ring_at(drain->rings, i)->asleep, asleep);
}

/* How full the fullest of our rings is, in percent. */
static int
fullest(StenoWriter *w, const StenoDrain *drain)
{
	uint64		most = 0;
	uint32		i;

	for (i = drain->first; i < drain->rings->nrings; i += drain->step)
	{
		StenoRing  *ring = steno_ring_at(drain->rings, i);
		uint64		used = steno_ring_published(ring) - atomic_load(&ring->tail);

		most = Max(most, used);
	}
	return (int) ((most * 100 + drain->rings->size - 1) / drain->rings->size);
}

/* One pass; returns whether there was anything to write, -1: we cannot write. */
static int
pass(StenoWriter *w, StenoDrain *live)
{
	uint64		flush = atomic_load(&w->control->flush_requested);
	uint64		rotate = atomic_load(&w->control->rotate_requested);
	uint64		blocks = atomic_load(&w->control->blocks);
	static TimestampTz last_sync;
	TimestampTz now;
	bool		sync;

	count(&w->control->passes, 1);
	if (!steno_trouble_look(w))
		return -1;
	if (steno_wake_take(&w->control->wake))
	{
		static bool first = true;

		if (first)
			take_short_slices();
		first = false;
		w->sync_asked = true;
	}
	steno_seal_if_due(w);
	if (!steno_writer_drain(w, live) || !steno_running_announce(w, live) ||
		!steno_writer_write(w))
		return -1;

	now = GetCurrentTimestamp();
	sync = w->sync_asked || flush != w->served_flush || steno_fsync_interval == 0 ||
		(steno_fsync_interval > 0 &&
		 (now < last_sync ||	/* the clock was set back */
		  now - last_sync >= steno_fsync_interval * INT64CONST(1000))) || leaving();
	if (sync && w->stream.dirty && may_try(w, STENO_SYNC, now) && steno_writer_sync(w))
		last_sync = now;
	/* each is retried in later passes until it has succeeded itself */
	if (rotate_if_due(w, rotate != w->served_rotate))
		answer(&w->served_rotate, rotate, &w->control->rotate_done);
	if (w->sync_asked && !w->stream.dirty)
	{
		/* a new segment, or nothing new */
		steno_wake_start(&w->control->wake);
		announce_synced(w);
	}
	if (!w->stream.dirty)
		answer(&w->served_flush, flush, &w->control->flush_done);
	if (w->number == 0 && !leaving())
		steno_retention(w);
	return atomic_load(&w->control->blocks) != blocks;
}

static void
run(StenoWriter *w, StenoDrain *live)
{
	long		interval = steno_flush_interval;
	uint64		last_busy = steno_clock_ticks(&steno_my.clock);

	for (;;)
	{
		int			fill = fullest(w, live);
		int			busy;

		(void) steno_key_answered(w);
		busy = pass(w, live);

		if (busy < 0)
			return;
		if (busy)
			last_busy = steno_clock_ticks(&steno_my.clock);
		if (ConfigReloadPending || w->reload_later)
		{
			ConfigReloadPending = false;
			w->reload_later = false;
			ProcessConfigFile(PGC_SIGHUP);
			if (w->number == 0)
			{
				/* sessions wait for the records of the changes to be in the trail */
				if (steno_settings_reloaded(setting_reloaded))
				{
					if (!steno_writer_write(w))
						return;
					steno_settings_publish();
				}
				steno_rules_reload(rules_changed);
			}
			if (!steno_seal_reload(w))
				return;
			steno_key_ask(w);
			interval = steno_flush_interval;
			continue;
		}
		if (leaving())
		{
			if (may_leave(w))
				return;
			nap(10, steno_wait_events[STENO_WAIT_MAIN]);
			continue;
		}

		/* who came while we were at it waits for the next pass */
		if (atomic_load(&w->control->wake.asked) != 0 && !w->failing[STENO_SYNC])
			continue;

		/* aim at rings a third full */
		if (fill > 50)
			interval = Max(interval / 2, SHORTEST_NAP_MS);
		else if (fill < 20)
			interval = Min(interval + interval / 4 + 1, steno_flush_interval);
		interval = Min(interval, steno_flush_interval);
		if (!w->stream.dirty &&
			steno_clock_us(&steno_my.clock, last_busy,
						   steno_clock_ticks(&steno_my.clock)) > IDLE_MS * UINT64CONST(1000))
		{
			set_asleep(live, 1);
			/* what was published before a backend could see that */
			if (fullest(w, live) == 0)
				nap(DEEP_SLEEP_MS, steno_wait_events[STENO_WAIT_MAIN]);
			set_asleep(live, 0);
		}
		else
			nap(interval, steno_wait_events[STENO_WAIT_MAIN]);
	}
}

/*
 * The server stops: gap records of sessions that ended before there was room for them,
 * which otherwise the next session with the ring would write.  They go through the
 * ring, like that one's, so that a crash meanwhile neither loses nor doubles them.
 */
static void
tell_left_gaps(StenoWriter *w, StenoDrain *live)
{
	bool		drained = false;
	uint32		i;

	for (i = live->first; i < live->rings->nrings; i += live->step)
	{
		StenoRing  *ring = steno_ring_at(live->rings, i);

		/* pairs with the release store in session_end */
		if (atomic_load_explicit(&ring->owner, memory_order_acquire) != 0 || ring->gap == 0)
			continue;
		/* so that there is room */
		if (!drained && (!steno_writer_drain(w, live) || !steno_writer_write(w)))
			return;
		drained = true;
		steno_record_tell_left_gap(i, w->control);
	}
}

/*
 * We end, and the trail does not say so.  An intent of no block keeps the ring file,
 * even with empty rings, and the next start says that it found one.
 */
static void
leave_word(StenoDrain *drain)
{
	memset(drain->intent->hash, 0, STENO_HASH_SIZE);
	atomic_thread_fence(memory_order_release);
	drain->intent->valid = STENO_INTENT_MESSAGES;
}

void
steno_writer_main(Datum main_arg)
{
	StenoDrain	live;
	StenoWriter *w;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, handle_terminate);
	pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();

	w = me = start(DatumGetInt32(main_arg));
	if (w->restarted)
		go_on(w);
	if (w->number == 0 && atomic_load(&w->control->begun) == 0)
		begin_run(w);
	steno_drain_init(&live, &steno_rings, w->number);
	run(w, &live);

	if (server_stops || postmaster_dead)
		tell_left_gaps(w, &live);
	steno_trouble_tell(w);
	if (w->number == 0 && (server_stops || postmaster_dead))
		steno_writer_event(w, "stop", NULL, NULL);
	if (!steno_writer_drain(w, &live) || !steno_writer_write(w))
		leave_word(&live);
	else if (steno_seal_stop(w) && steno_writer_sync(w))
		steno_state_stop(w);
	steno_stream_close(&w->stream);
	steno_alert_finish();
	steno_writer_exit();
}

/*
 * The library as it was loaded, which may be by a path outside the server's folder
 * of libraries.
 */
static const char *
own_library(void)
{
	Dl_info		info;

	/* a longer path would be cut off: then it must be where libraries are */
	if (dladdr((void *) steno_writer_register, &info) != 0 && info.dli_fname != NULL &&
		strlen(info.dli_fname) < sizeof(((BackgroundWorker *) NULL)->bgw_library_name))
		return info.dli_fname;
	return "pg_steno";
}

/*
 * Static workers have their slots before any other worker can take one, and keep
 * them.  RegisterBackgroundWorker only logs that there is none left; sessions of a
 * writer that is not there would wait for ever.
 */
void
steno_writer_check_registered(void)
{
	StenoWorkerIter iter;
	int			ours = 0;
	int			all = 0;

	STENO_FOREACH_WORKER(iter)
	{
		all++;
		if (strcmp(STENO_ITER_WORKER(iter)->rw_worker.bgw_function_name, "steno_writer_main") == 0)
			ours++;
	}
	if (ours == steno_writers)
		return;
	ereport(FATAL,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too few background worker slots for %d steno writers", steno_writers),
			 errdetail("\"max_worker_processes\" is %d, and %d of these slots have been taken by other workers.",
					   max_worker_processes, all - ours),
			 errhint("Set \"max_worker_processes\" to at least %d, and higher for parallel queries and logical replication, or lower \"steno.writers\".",
					 all - ours + steno_writers)));
}

void
steno_writer_register(void)
{
	const char *library = own_library();
	int			i;

	for (i = 0; i < steno_writers; i++)
	{
		BackgroundWorker worker;

		memset(&worker, 0, sizeof(worker));
		worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
		worker.bgw_start_time = BgWorkerStart_PostmasterStart;
		worker.bgw_restart_time = 1;
		snprintf(worker.bgw_name, BGW_MAXLEN, "steno writer %d", i);
		snprintf(worker.bgw_type, BGW_MAXLEN, "steno writer");
		strlcpy(worker.bgw_library_name, library, sizeof(worker.bgw_library_name));
		snprintf(worker.bgw_function_name, BGW_MAXLEN, "steno_writer_main");
		worker.bgw_main_arg = Int32GetDatum(i);
		RegisterBackgroundWorker(&worker);
	}
}
