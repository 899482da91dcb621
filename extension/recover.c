/*
 * extension/recover.c
 *		Drains the ring files of earlier runs of this server.
 *
 * 1. What a dead writer was about to write: if its block is whole in the trail,
 *	  its rings are taken to be freed up to there, else up to where they were.
 * 2. The rings' messages are written, as a living writer would have.
 * 3. What nobody could write any more, the ends of sessions: for each ring whose
 *	  statement was running, a record with outcome "interrupted", for each whose
 *	  process was there, a disconnect record, and gap records that ended
 *	  sessions left.  A block of these has an intent, too, that tells whose ends
 *	  it has.  Then the file goes.
 *
 * Recovery may die at any point, and is then done again from where it was.
 */
#include "writer.h"

#include <dirent.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* The last intent of a ring file is for those who recover it. */
#define RECOVERY_INTENT (STENO_MAX_WRITERS - 1)

/*
 * Take a ring's session from the messages that its dead writer had written but
 * not freed, and free them.
 */
static void
skip_written(StenoRings *rings, uint32 i)
{
	StenoRing  *ring = steno_ring_at(rings, i);
	uint8_t    *data = steno_ring_data(rings, i);
	uint64		position = atomic_load(&ring->tail);

	ring->told = ring->telling;

	while (position < ring->pending && position < atomic_load(&ring->head))
	{
		const StenoMessage *m = steno_ring_message(data, rings->file->size, position);

		if (m->len == 0)
			break;
		if (m->kind == STENO_KIND_DEF_SESSION)
		{
			const StenoSessionMessage *session = (const StenoSessionMessage *) m;

			if (session->body_len <= STENO_SESSION_MAX)
			{
				memcpy(ring->session, session + 1, session->body_len);
				ring->session_len = session->body_len;
			}
			ring->session_seq = session->seq;
			ring->session_statement = session->statement;
		}
		else if (m->kind > 0 && m->kind < STENO_KIND_DATA)
		{
			const StenoRecordMessage *record = (const StenoRecordMessage *) m;
			bool		nested = !(m->flags & STENO_MESSAGE_BRIEF) && record->depth != 0;

			ring->session_seq = record->seq;
			if (record->statement != 0 && m->kind == STENO_KIND_STATEMENT)
				ring->session_statement = nested ? record->statement - 1 : record->statement;
		}
		position += m->len;
	}
	steno_ring_free(ring, position);
}

/* The sessions of the first rings have their ends in the trail: nothing is left of them. */
void
steno_recover_ended(StenoRings *rings, uint32 count)
{
	uint32		i;

	for (i = 0; i < count; i++)
	{
		StenoRing  *ring = steno_ring_at(rings, i);

		ring->gap = 0;
		ring->own_gap = 0;
		ring->inflight.active = 0;
		atomic_store(&ring->owner, 0);
	}
}

/* Step 1; returns whether all is in the trail, the ends of all sessions, too. */
static bool
resolve_intents(StenoRings *rings)
{
	uint32		w;

	for (w = 0; w < STENO_MAX_WRITERS; w++)
	{
		StenoIntent *intent = &rings->file->intents[w];
		uint32		step = w == RECOVERY_INTENT ? 1 : rings->file->nwriters;
		uint32		ended = 0;
		uint32		i;

		if (intent->valid == 0)
			continue;
		if (steno_segment_has_block(steno_directory, intent->stream, intent->segment,
									intent->offset, intent->block, intent->hash))
		{
			if (intent->valid >= STENO_INTENT_ENDS)
				ended = intent->valid - STENO_INTENT_ENDS;
			if (ended >= rings->file->nrings)
				return true;
			steno_recover_ended(rings, ended);
			if (ended == 0)
				for (i = w == RECOVERY_INTENT ? 0 : w; i < rings->file->nrings; i += step)
					skip_written(rings, i);
		}
		intent->valid = 0;
	}
	return false;
}

/* Its record was staged: all that was known at its start. */
static void
add_staged(StenoWriter *w, StenoSource *source, const StenoRecordMessage *staged,
		   const StenoTemplate *templates)
{
	StenoWhole	room;
	const StenoRecordMessage *whole = steno_message_whole(&staged->m, templates, &room);
	StenoRecordMessage *m = palloc(whole->m.len);

	memcpy(m, whole, whole->m.len);
	m->seq = source->seq + 1;
	m->duration = STENO_NONE64;
	m->rows = STENO_NONE64;
	m->xid = 0;
	m->outcome = STENO_OUTCOME_INTERRUPTED;
	steno_writer_add(w, source, &m->m);
	pfree(m);
}

/* The statement that was running when the ring's process died. */
static void
add_interrupted(StenoWriter *w, StenoSource *source, const StenoInFlight *f)
{
	union
	{
		uint64		aligned;
		uint8		bytes[STENO_RUNNING_ROOM];
	}			buf;
	StenoRecordMessage *m = steno_running_message(&buf, sizeof(buf), f);

	m->seq = source->seq + 1;
	m->outcome = STENO_OUTCOME_INTERRUPTED;
	steno_writer_add(w, source, &m->m);
}

static void
add_disconnect(StenoWriter *w, StenoSource *source)
{
	struct
	{
		StenoRecordMessage m;
		uint8		shape[8];
	}			buf;
	int64		start;

	memset(&buf, 0, sizeof(buf));
	memcpy(&start, source->body + STENO_SESSION_START, sizeof(start));
	buf.m.m.kind = STENO_KIND_DISCONNECT;
	buf.m.seq = source->seq + 1;
	buf.m.time = GetCurrentTimestamp();
	buf.m.duration = Max(buf.m.time - start, 0);
	buf.m.rows = STENO_NONE64;
	buf.m.outcome = STENO_OUTCOME_INTERRUPTED;
	buf.m.text_len = STENO_NONE32;
	buf.shape[0] = STENO_CLASS_CONNECT;
	buf.m.shape_len = 5;
	buf.m.m.len = sizeof(buf);
	steno_writer_add(w, source, &buf.m.m);
}

/* What a session dropped and could not say any more. */
static void
add_gap(StenoWriter *w, StenoSource *source, uint64 gap, uint64 first, uint64 last,
		uint32 reason)
{
	struct
	{
		StenoRecordMessage m;
		uint8		extra[STENO_GAP_EXTRA + 8];
	}			buf;

	memset(&buf, 0, sizeof(buf));
	buf.m.m.kind = STENO_KIND_GAP;
	buf.m.seq = last + 1;
	buf.m.time = GetCurrentTimestamp();
	buf.m.duration = STENO_NONE64;
	buf.m.rows = STENO_NONE64;
	buf.m.text_len = STENO_NONE32;
	buf.m.extra_count = STENO_GAP_PAIRS;
	buf.m.extra_len = steno_gap_extra(buf.extra, gap, first, last, reason);
	buf.m.m.len = (uint32) ((sizeof(buf.m) + buf.m.extra_len + 7) & ~7u);
	steno_writer_add(w, source, &buf.m.m);
}

/* A session of which no more is known: what described it was dropped, too. */
static StenoSource *
nameless(StenoSource *source, int64 start, uint32 pid)
{
	memset(source, 0, sizeof(*source));
	source->generation = UINT64_MAX;	/* of no block */
	source->body_len = STENO_SESSION_FACTS;
	memcpy(source->body + STENO_SESSION_START, &start, sizeof(start));
	memcpy(source->body + STENO_SESSION_PID, &pid, sizeof(pid));
	return source;
}

/* Whether the ring's last description is of this session. */
static bool
describes(const StenoSource *source, int64 start, uint32 pid)
{
	return source->body_len > 0 &&
		memcmp(source->body + STENO_SESSION_START, &start, sizeof(start)) == 0 &&
		memcmp(source->body + STENO_SESSION_PID, &pid, sizeof(pid)) == 0;
}

/* What the session before had dropped, and nobody could say yet. */
static void
add_left_gap(StenoWriter *w, StenoSource *source, const StenoRing *ring)
{
	StenoSource other;

	if (ring->gap_pid != 0 && !describes(source, ring->gap_start, ring->gap_pid))
		source = nameless(&other, ring->gap_start, ring->gap_pid);
	add_gap(w, source, ring->gap, ring->gap_first, ring->gap_last, ring->gap_reason);
}

/*
 * Step 3; returns the number of interrupted statements.  What one session needs
 * must not be spread over two blocks, or an intent would call it ended too early:
 * a block without room for all of it is written before.
 */
static int
add_finals(StenoWriter *w, StenoDrain *drain)
{
	uint32		most = drain->rings->file->size / STENO_RING_SHARE + STENO_BESIDE;
	uint32		i;
	int			interrupted = 0;

	for (i = 0; i < drain->rings->file->nrings; i++)
	{
		StenoRing  *ring = steno_ring_at(drain->rings, i);
		StenoInFlight *f = &ring->inflight;
		StenoSource *source = &drain->sources[i];
		StenoSource other;
		uint32		owner = atomic_load(&ring->owner);
		bool		running = f->active && !(f->done != 0 && atomic_load(&ring->head) >= f->done);

		if (source->body_len == 0 && ring->gap == 0 && owner == 0)
			continue;
		if (steno_block_bytes(w->block) + most > w->capacity && !steno_writer_write(w))
			proc_exit(0);
		drain->ended = i + 1;
		if (ring->gap != 0)
			add_left_gap(w, source, ring);
		if (owner == 0)
			continue;
		if (ring->owner_start != 0 && !describes(source, ring->owner_start, owner))
		{
			/* nothing of it is in the trail, and nothing was to be */
			if (ring->own_gap == 0 && !running)
				continue;
			source = nameless(&other, ring->owner_start, owner);
		}
		/* unless it has just said so itself */
		if (ring->own_gap != 0 && source->seq <= ring->own_last)
			add_gap(w, source, ring->own_gap, ring->own_first, ring->own_last, ring->gap_reason);
		if (running)
		{
			const StenoRecordMessage *staged =
				steno_inflight_record(f, steno_ring_data(drain->rings, i), drain->rings->file->size);

			if (staged)
				add_staged(w, source, staged, steno_ring_templates(drain->rings, i));
			else
				add_interrupted(w, source, f);
			interrupted++;
		}
		add_disconnect(w, source);
	}
	return interrupted;
}

static void
recover_file(StenoWriter *w, const char *path)
{
	StenoRings	rings;
	StenoDrain	drain;
	const char *what;
	uint64		before = atomic_load(&w->control->records);
	int			interrupted;
	char		number[32];

	if (!steno_rings_open(&rings, path, &what))
	{
		int			save_errno = errno;

		if (steno_rings_unfinished(path))
		{
			unlink(path);		/* its server was killed at its start */
			return;
		}
		errno = save_errno;
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not read ring file \"%s\" of an earlier run: %s: %m", path, what),
				 errdetail("Records that it holds are not in the trail."),
				 errhint("It is left as it is.")));
		return;
	}
	if (resolve_intents(&rings))
	{
		unlink(path);
		steno_rings_close(&rings);
		return;
	}
	steno_drain_init(&drain, &rings, 0);
	drain.intent = &rings.file->intents[RECOVERY_INTENT];
	drain.first = 0;
	drain.step = 1;
	if (!steno_writer_fit(w, rings.file->size) || !steno_writer_drain(w, &drain) ||
		!steno_writer_write(w))
		proc_exit(0);			/* shutting down, and the trail cannot be written */

	interrupted = add_finals(w, &drain);
	drain.ended = rings.file->nrings;
	snprintf(number, sizeof(number), UINT64_FORMAT,
			 atomic_load(&w->control->records) - before + steno_block_records(w->block));
	steno_writer_event(w, "recover", "records", number);
	ereport(LOG,
			(errmsg("steno writer %d recovered %s records of an earlier run, %d of them of interrupted statements",
					w->number, number, interrupted)));
	/* only when the server stops: a worker that exits so is not started again */
	if (!steno_writer_write(w) || !steno_writer_sync_surely(w))
		proc_exit(0);
	unlink(path);
	w->drain = NULL;
	steno_drain_free(&drain);
	steno_rings_close(&rings);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* All ring files of this server but the present one, oldest first. */
void
steno_recover_rings(StenoWriter *w)
{
	char	   *prefix = steno_ring_prefix();
	char	   *base = strrchr(prefix, '/') + 1;
	const char *own = strrchr(steno_ring_path(), '/') + 1;
	DIR		   *dir = AllocateDir(steno_ring_directory);
	struct dirent *entry;
	char	   *names[1000];
	int			count = 0;
	int			i;

	while (dir && count < (int) lengthof(names) &&
		   (entry = ReadDirExtended(dir, steno_ring_directory, LOG)) != NULL)
		if (strncmp(entry->d_name, base, strlen(base)) == 0 &&
			strcmp(entry->d_name, own) != 0)
			names[count++] = pstrdup(entry->d_name);
	FreeDir(dir);
	qsort(names, count, sizeof(names[0]), compare_names);
	for (i = 0; i < count; i++)
		recover_file(w, psprintf("%s/%s", steno_ring_directory, names[i]));
	pfree(prefix);
}
