/*
 * extension/writer/recover.c
 *		Drains the ring files of earlier runs of this server.
 *
 * 1. Intents: if the trail has the whole block that a dead writer was about to write,
 *	  its messages are freed; otherwise they have yet to be written.
 * 2. The messages of the rings are written, as by a living writer.
 * 3. The ends of sessions, which no process could record: for each ring with a running
 *	  statement a record with outcome "interrupted", for each ring with an owner a
 *	  disconnect record, and the gap records that ended sessions could not write.
 *	  Blocks of step 3 have an intent, too, which states the rings whose ends are in
 *	  them.  Then the file is removed.
 *
 * Recovery may be killed at any point; the next start repeats it from the intents.  The
 * processes of the earlier run have ended, so the file has no other reader or writer.
 *
 * The file may be damaged anywhere (core/ring/check.h).  A record that cannot be
 * read is replaced by a gap record, and so is everything that follows damage in a
 * ring.
 */
#include "writer/writer.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/ring_folder.h"
#include "delivery/record.h"
#include "ring/check.h"
#include "ring/left.h"

/* The intent of a ring file that recovery uses: the last one. */
#define RECOVERY_INTENT (STENO_MAX_WRITERS - 1)

/* How often to look for the files of earlier runs if that fails, and the pause in between. */
#define FIND_TRIES 10
#define FIND_PAUSE_US 100000

/* What could not be read of a damaged ring file. */
typedef struct Damage
{
	uint32		rings;			/* rings that were not read to their ends */
	uint64		bytes;			/* upper bound of the bytes that were not read */
	uint32		records;		/* single unreadable records */
	uint32		facts;			/* sessions whose facts are unreadable */
	uint32		gaps;			/* impossible counts of dropped records */
} Damage;

/*
 * Free the messages that the dead writer had written but not freed, and take the session's
 * facts and numbers from them, as the writer had.  Damage among them is left for step 2 to
 * find and report.  If an earlier recovery has reported it (its intent covers the ring up to
 * its head), the rest of the ring is freed, too.
 */
static void
skip_written(StenoRings *rings, uint32 i, bool by_recovery)
{
	StenoRing  *ring = steno_ring_at(rings, i);
	uint64		head = atomic_load(&ring->head);
	uint64		position = atomic_load(&ring->tail);
	bool		whole = steno_ring_check_positions(rings, i);

	ring->orphan_drops_recorded = ring->orphan_drops_pending;
	if (ring->gaps_pending <= atomic_load(&ring->gaps_left))
		atomic_store(&ring->gaps_recorded, ring->gaps_pending);
	while (whole && position < ring->pending && position < head)
	{
		const StenoMessage *m;

		whole = steno_ring_check_message(rings, i, position, ring->session_seq, &m) != STENO_RING_DAMAGED;
		if (!whole)
			break;
		if (m->kind == STENO_KIND_DEF_SESSION)
		{
			const StenoSessionMessage *session = (const StenoSessionMessage *) m;

			memcpy(ring->session, session + 1, session->body_len);
			ring->session_len = session->body_len;
			ring->session_seq = session->seq;
			ring->session_statement = session->statement;
		}
		else if (m->kind > 0 && m->kind < STENO_KIND_DATA)
			steno_message_advance(m, &ring->session_seq, &ring->session_statement);
		position += m->len;
	}
	if (!whole && by_recovery && ring->pending == head)
		position = head;
	steno_ring_free(ring, position);
}

/*
 * Whether the trail has the block of an intent.  Waits while that cannot be found out, for
 * example without descriptors: whatever was assumed, records would be lost or there twice.
 */
static bool
has_intended_block(StenoWriter *w, const StenoIntent *intent)
{
	StenoError	error;
	bool		has;

	for (;;)
	{
		has = steno_segment_has_block(steno_directory, intent->stream, intent->segment,
									  intent->offset, intent->block, intent->hash, &error);
		if (has || error.what[0] == '\0')
			break;
		steno_health_failed(w, STENO_WRITE, &error);
		if (!steno_health_wait_to_retry(w))
			steno_process_exit();
	}
	steno_health_succeeded(w, STENO_WRITE);
	return has;
}

/*
 * Step 1 for one intent.  Returns whether everything is in the trail, including the ends of
 * all sessions.
 */
static bool
resolve_intent(StenoWriter *writer, StenoRings *rings, uint32 w)
{
	StenoIntent *intent = &rings->file->intents[w];
	uint32		step = w == RECOVERY_INTENT ? 1 : rings->nwriters;
	uint32		ended = 0;
	uint32		i;

	if (intent->valid == 0)
		return false;
	if (has_intended_block(writer, intent))
	{
		if (intent->valid >= STENO_INTENT_ENDS)
			ended = intent->valid - STENO_INTENT_ENDS;
		if (ended >= rings->nrings)
			return true;
		steno_drain_clear_sessions(rings, ended);
		if (ended == 0)
			for (i = w == RECOVERY_INTENT ? 0 : w; i < rings->nrings; i += step)
				skip_written(rings, i, w == RECOVERY_INTENT);
	}
	else
		memset(intent->hash, 0, STENO_HASH_SIZE);	/* it is not the last block that was written (branch.c) */
	intent->valid = 0;
	return false;
}

/* Step 1 for all intents, with the same result. */
static bool
resolve_intents(StenoWriter *writer, StenoRings *rings)
{
	uint32		w;

	for (w = 0; w < STENO_MAX_WRITERS; w++)
		if (resolve_intent(writer, rings, w))
			return true;
	return false;
}

/*
 * Step 1 for the rings of the current run, by a writer that was restarted: free
 * what the previous process had written.  That process has ended, and only the
 * consumer's side of the rings is changed, so their producers may continue
 * meanwhile.
 */
void
steno_recover_own_intent(StenoWriter *w)
{
	(void) resolve_intent(w, &steno_rings, w->number);
}

/*
 * What becomes of the statement of a dead session's in-flight entry.  One that ran was interrupted.
 * A portal that waited for its client did not run: the client had what it had asked for.
 */
static uint8
outcome_of(const StenoInFlight *f)
{
	return steno_inflight_runs(f->active) ? STENO_OUTCOME_INTERRUPTED : STENO_OUTCOME_OK;
}

/* Add the record of such a statement that was staged: it has everything that was known. */
static void
add_staged(StenoWriter *w, StenoSource *source, const StenoMessage *staged, const StenoInFlight *f,
		   const StenoTemplate *templates)
{
	StenoWhole	room;
	const StenoRecordMessage *whole = steno_message_whole(staged, templates, source->seq + 1, f->statement, &room);
	StenoRecordMessage *m = palloc(whole->m.len);

	memcpy(m, whole, whole->m.len);
	m->seq = source->seq + 1;
	if (f->active == STENO_INFLIGHT_COUNTED)
		m->outcome = STENO_OUTCOME_OK;
	else
		steno_message_begun(m, outcome_of(f));
	steno_writer_add(w, source, &m->m);
	pfree(m);
}

/* The same for one without a staged record, from the in-flight entry. */
static void
add_interrupted(StenoWriter *w, StenoSource *source, const StenoInFlight *f)
{
	union
	{
		uint64		aligned;
		uint8		bytes[STENO_ANNOUNCE_ROOM];
	}			buf;
	StenoRecordMessage *m = steno_announce_message(&buf, sizeof(buf), f);

	m->seq = source->seq + 1;
	m->outcome = outcome_of(f);
	steno_writer_add(w, source, &m->m);
}

/*
 * Add a gap record for damage: for one record (count 1), or an unknown number of
 * records in that many bytes (count 0).
 */
static bool
add_damage(StenoWriter *w, StenoSource *source, uint32 count, uint64 bytes)
{
	struct
	{
		StenoRecordMessage m;
		uint8		extra[64];
	}			buf;
	char		number[32];
	uint8	   *p;

	snprintf(number, sizeof(number), UINT64_FORMAT, count > 0 ? (uint64) count : bytes);
	steno_message_init(&buf.m, STENO_KIND_GAP, source->seq + 1, GetCurrentTimestamp());
	p = steno_put_pair(buf.extra, count > 0 ? "count" : "bytes", number);
	p = steno_put_pair(p, "reason", "ring damaged");
	buf.m.extra_count = 2;
	buf.m.extra_len = p - buf.extra;
	steno_message_end(&buf.m, p);
	return steno_writer_add(w, source, &buf.m.m);
}

/* Whether the gap of the ring, which may be in the trail by now, is that of its owner, which was ending. */
static bool
owner_has_left_gap(const StenoRing *ring)
{
	return atomic_load(&ring->gaps_left) != 0 && ring->gap_pid == atomic_load(&ring->owner) &&
		ring->gap_start == ring->owner_start;
}

/*
 * Correct the counts of what the ring's last sessions have dropped: reset
 * impossible ones, and those that are counted elsewhere, so that nothing is recorded
 * twice, whenever the sessions died (delivery/record.c).  Returns the number of
 * impossible counts.
 */
static int
settle_gaps(StenoRing *ring)
{
	bool		gap = steno_ring_has_gap(ring) && ring->gap != 0 &&
		!steno_ring_check_gap(&ring->gap, ring->gap_first, ring->gap_last);
	bool		own = ring->own_gap != 0 && !steno_ring_check_gap(&ring->own_gap, ring->own_first, ring->own_last);

	if (gap)
		atomic_store(&ring->gaps_recorded, atomic_load(&ring->gaps_left));
	/* the owner was ending, and has already moved own_gap to gap or orphan_drops */
	if (own || owner_has_left_gap(ring) ||
		(ring->orphan_drops_next != 0 && ring->orphan_drops_next == atomic_load(&ring->orphan_drops)))
		ring->own_gap = 0;
	return gap + own;
}

/*
 * Step 3; returns the number of interrupted statements.  The records of one session
 * must not be spread over two blocks, because the intent of the first one would
 * then mark the session as ended.  A block without space for all of them is
 * therefore written before.
 */
static int
add_finals(StenoWriter *w, StenoDrain *drain, Damage *damage)
{
	uint32		most = drain->rings->size / STENO_RING_SHARE + STENO_BLOCK_SPARE;
	uint32		i;
	int			interrupted = 0;

	for (i = 0; i < drain->rings->nrings; i++)
	{
		StenoRing  *ring = steno_ring_at(drain->rings, i);
		StenoInFlight *f = &ring->inflight;
		StenoSource *source = &drain->sources[i];
		StenoSource other;
		uint32		owner = atomic_load(&ring->owner);
		bool		running = f->active && !(f->done != 0 && atomic_load(&ring->head) >= f->done);

		damage->gaps += settle_gaps(ring);
		if (source->body_len == 0 && !steno_ring_has_gap(ring) && owner == 0)
			continue;
		if (steno_block_bytes(w->block) + most > w->capacity && !steno_writer_write(w))
			steno_process_exit();
		drain->ended = i + 1;
		if (steno_ring_has_gap(ring))
			(void) steno_drain_add_gap(w, source, ring);
		if (owner == 0)
			continue;
		if (ring->owner_start != 0 && !steno_drain_describes(source, ring->owner_start, owner))
		{
			/* the session has no record in the trail, and needs none */
			if (ring->own_gap == 0 && !running)
				continue;
			source = steno_drain_undescribed(&other, ring->owner_start, owner);
		}
		/* unless the session has already written the gap record itself */
		if (ring->own_gap != 0 && source->seq <= ring->own_last)
			(void) steno_drain_add_numbers(w, source, ring->own_gap, ring->own_first, ring->own_last, ring->gap_reason);
		if (running)
		{
			const StenoMessage *staged = steno_ring_check_staged(drain->rings, i);

			if (staged)
				add_staged(w, source, staged, f, steno_ring_templates(drain->rings, i));
			else
				add_interrupted(w, source, f);
			interrupted += steno_inflight_runs(f->active);
		}
		if (!steno_ring_owner_ended(ring) && !(owner_has_left_gap(ring) && ring->gap_ended != 0))
			(void) steno_drain_add_disconnect(w, source, STENO_OUTCOME_INTERRUPTED, 0, GetCurrentTimestamp());
	}
	return interrupted;
}

/* ---- step 2 ---- */

/*
 * Check the facts of the session at the ring's tail; if they are unreadable, only
 * start time and process ID are kept.
 */
static void
check_session(StenoDrain *drain, uint32 i, Damage *damage)
{
	StenoRing  *ring = steno_ring_at(drain->rings, i);
	StenoSource *source = &drain->sources[i];

	if (ring->session_len <= STENO_SESSION_MAX &&
		(source->body_len == 0 || steno_ring_check_session(source->body, source->body_len)))
		return;
	damage->facts++;
	source->body_len = 0;
	if (ring->session_len < STENO_SESSION_FACTS)
		return;
	source->body_len = STENO_SESSION_FACTS;
	memcpy(source->body, ring->session, STENO_SESSION_FACTS);
}

/*
 * Put the messages of a ring into blocks.  Returns false if the writer is to exit and cannot
 * write.
 */
static bool
drain_left(StenoWriter *w, StenoDrain *drain, uint32 i, Damage *damage)
{
	uint64		head = atomic_load(&steno_ring_at(drain->rings, i)->head);
	StenoSource *source = &drain->sources[i];
	uint64	   *position = &drain->positions[i];

	if (*position == head)
		return true;
	while (steno_ring_check_positions(drain->rings, i) && *position != head)
	{
		const StenoMessage *m;
		StenoRingCheck found = steno_ring_check_message(drain->rings, i, *position, source->seq, &m);

		if (found == STENO_RING_DAMAGED)
			break;
		if (found == STENO_RING_UNREADABLE)
		{
			uint64		seq = source->seq;
			uint64		statement = source->statement;

			/* brief records that follow count from this one's numbers */
			steno_message_advance(m, &seq, &statement);
			damage->records++;
			if (!add_damage(w, source, 1, 0))
				return false;
			source->statement = statement;
		}
		else if (m->kind != 0 && !steno_writer_add(w, source, m))
			return false;
		*position += m->len;
	}
	if (*position == head)
		return true;

	/* the rest is freed in the same block that has the gap record */
	if (!add_damage(w, source, 0, Min(head - *position, drain->rings->size)))
		return false;
	damage->rings++;
	damage->bytes += Min(head - *position, drain->rings->size);
	*position = head;
	return true;
}

/*
 * Add a gap record for what ended sessions of a ring have dropped.  If the count is
 * impossible, the gap record has none.
 */
static bool
record_left_drops(StenoWriter *w, StenoDrain *drain, uint32 i, Damage *damage)
{
	const StenoRing *ring = steno_ring_at(drain->rings, i);
	const char *pairs[] = {"reason", "ring damaged"};

	if (steno_ring_check_orphan_drops(ring))
		return steno_drain_record_drops(w, drain, i);
	if (!steno_writer_record(w, STENO_KIND_GAP, 0, pairs, lengthof(pairs) / 2))
		return false;
	damage->gaps++;
	drain->reported_drops[i] = atomic_load(&ring->orphan_drops);
	return true;
}

static bool
drain_file(StenoWriter *w, StenoDrain *drain, Damage *damage)
{
	uint32		i;

	w->drain = drain;
	for (i = 0; i < drain->rings->nrings; i++)
	{
		check_session(drain, i, damage);
		if (!drain_left(w, drain, i, damage) || !record_left_drops(w, drain, i, damage))
			return false;
	}
	return true;
}

static void
report_damage(const char *path, const StenoRings *rings, const Damage *damage)
{
	if (damage->rings + damage->records + damage->facts + damage->gaps == 0)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("ring file \"%s\" of an earlier run is damaged", path),
			 errdetail("Of its %u rings, %u could not be read to their ends, which hold %llu bytes. Besides, %u records, the facts of %u sessions and %u counts of dropped records could not be read.",
					   rings->nrings, damage->rings, (unsigned long long) damage->bytes,
					   damage->records, damage->facts, damage->gaps),
			 errhint("Gap records in the trail stand where records are missing. Find out who can write to \"%s\", and check the memory of the machine.",
					 steno_ring_directory)));
}

/* Drain and remove one ring file.  A file that is not this server's own is left unchanged. */
static void
recover_file(StenoWriter *w, int folder, const char *name, const char *path)
{
	StenoRings	rings;
	StenoDrain	drain;
	Damage		damage = {0};
	char		what[STENO_RING_WHAT];
	uint64		before = atomic_load(&w->control->records);
	int			interrupted;
	char		number[32];
	char		since[64];
	const char *pairs[] = {"event", "recover", "version", PG_VERSION, "since", since, "records", number};

	switch (steno_rings_open(&rings, folder, name, GetSystemIdentifier(), what))
	{
		case STENO_RING_OPEN:
			break;
		case STENO_RING_UNFINISHED:
			unlinkat(folder, name, 0);	/* its server was killed while it created the file */
			return;
		case STENO_RING_FAILED:
			ereport(WARNING,
					(errcode_for_file_access(),
					 errmsg("could not read ring file \"%s\" of an earlier run: %s: %m", path, what),
					 errdetail("Records that it holds are not in the trail."),
					 errhint("It is left unchanged, and examined again at each start. Read it with \"steno recover --rings\", and remove it when it is no longer needed.")));
			return;
	}
	steno_other_trail_record(w, &rings);
	if (resolve_intents(w, &rings))
	{
		unlinkat(folder, name, 0);
		steno_rings_close(&rings);
		return;
	}
	steno_drain_init(&drain, &rings, 0, 1);
	drain.intent = &rings.file->intents[RECOVERY_INTENT];
	if (!steno_writer_fit(w, &rings) || !drain_file(w, &drain, &damage) ||
		!steno_writer_write(w))
		steno_process_exit();	/* the writer is to exit, and the trail cannot be written */

	interrupted = add_finals(w, &drain, &damage);
	drain.ended = rings.nrings;
	snprintf(number, sizeof(number), UINT64_FORMAT,
			 atomic_load(&w->control->records) - before + steno_block_records(w->block));
	steno_format_utc_us(since, sizeof(since), rings.file->created);
	steno_writer_server(w, pairs, lengthof(pairs) / 2);
	report_damage(path, &rings, &damage);
	ereport(LOG,
			(errmsg("steno writer %d recovered %s records of an earlier run, %d of them of interrupted statements",
					w->number, number, interrupted)));
	if (!steno_writer_write(w) || !steno_writer_sync_surely(w))
		steno_process_exit();
	unlinkat(folder, name, 0);
	w->drain = NULL;
	steno_drain_free(&drain);
	steno_rings_close(&rings);
}

/*
 * After a crash, the server makes another ring file while that of the run that crashed is still
 * to be drained (load/shmem.c).  Warn if there is not even space for what a drained file keeps.
 * This is called when all earlier files are drained: what is free now is what a crash would find.
 */
static void
warn_of_small_ring_directory(void)
{
	struct statvfs fs;
	uint64		free_bytes;
	uint64		least = steno_rings_shrunk(steno_rings.nrings);

	if (statvfs(steno_ring_directory, &fs) != 0)
		return;
	free_bytes = (uint64) fs.f_bavail * fs.f_frsize;
	if (free_bytes >= least)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_DISK_FULL),
			 errmsg("\"%s\" has little space for a second ring file, so that rings will be smaller after a crash",
					steno_ring_directory),
			 errdetail("At least %llu bytes are needed, and %llu bytes are free.",
					   (unsigned long long) least, (unsigned long long) free_bytes),
			 errhint("Make this file system larger (in a container, with an option such as \"--shm-size\"), set \"steno.ring_directory\" to another memory file system, or lower \"steno.ring_size\" or \"max_connections\".")));
}

/* Recover all ring files of this server except that of the current run, oldest first. */
void
steno_recover_rings(StenoWriter *w)
{
	const char *present = strrchr(steno_ring_path, '/') + 1;
	StenoLeftFiles found;
	char	   *failed;
	int			tries = 1;
	int			i;

	/* a lack of descriptors or memory may be temporary */
	while (!steno_ring_folders_find(&found, present, &failed))
	{
		if (tries++ == FIND_TRIES)
		{
			ereport(WARNING,
					(errcode_for_file_access(),
					 errmsg("could not read directory \"%s\" to look for ring files of earlier runs: %m", failed),
					 errdetail("What such files hold is not in the trail."),
					 errhint("They are left as they are, and looked for again at the next start.")));
			break;
		}
		steno_ring_folders_close(&found);
		pg_usleep(FIND_PAUSE_US);
	}
	if (found.strangers > 0)
		ereport(WARNING,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg_plural("ignored %d entry of ring directory \"%s\" that has a name of this server's and is not its own",
							   "ignored %d entries of ring directory \"%s\" that have names of this server's and are not its own",
							   found.strangers, found.strangers, steno_ring_directory),
				 errdetail("The first is \"%s\": %s.", found.stranger, found.why),
				 errhint("Find out who created it, and remove it. \"steno recover --rings\" reads a ring file of an earlier version.")));
	for (i = 0; i < found.nfiles; i++)
	{
		const StenoLeftFolder *folder = &found.folders[found.files[i].folder];

		recover_file(w, folder->fd, found.files[i].name,
					 psprintf("%s/%s/%s", steno_ring_directory, folder->name, found.files[i].name));
	}
	steno_ring_folders_close(&found);
	warn_of_small_ring_directory();
}
