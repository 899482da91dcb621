/*
 * extension/writer/branch.c
 *		Reports streams that are not as this server left them, in the log and in the
 *		trail.
 *
 * The first record of a stream that replaces such a stream has the event "branch".
 * It states the reason, and up to which block the other stream is this server's.
 * For streams that are no longer used by a writer, writer 0 records the differences
 * in its own stream.
 *
 * Besides, ring files of runs that had recorded in another trail than this one.
 */
#include "writer/writer.h"

#include "access/xlog.h"

static const char *const reason_names[] = {
	[STENO_BRANCH_NONE] = "",
	[STENO_BRANCH_UNKNOWN] = "unknown",
	[STENO_BRANCH_COPY] = "copy",
	[STENO_BRANCH_FOREIGN] = "foreign blocks",
	[STENO_BRANCH_CUT] = "cut off",
	[STENO_BRANCH_ALTERED] = "altered",
	[STENO_BRANCH_GONE] = "gone"
};

static void
format_hash(char *to, const uint8 *bytes)
{
	int			i;

	for (i = 0; i < STENO_HASH_SIZE; i++)
		snprintf(to + 2 * i, 3, "%02x", bytes[i]);
}

/* The detail message about how the other stream differs. */
static int
detail_difference(const StenoBranch *b)
{
	unsigned long long first = b->block + 1;
	unsigned long long last = b->found;

	if (b->found == b->block && b->reason >= STENO_BRANCH_FOREIGN && b->reason != STENO_BRANCH_ALTERED)
		return errdetail("An earlier start has recorded that stream %u, which counts up to block %llu, was not as this server had left it (%s).",
						 b->stream, last, reason_names[b->reason]);
	switch ((StenoBranchReason) b->reason)
	{
		case STENO_BRANCH_COPY:
			/* whether the copy, or this server before, has written the stream is not known */
			return errdetail("The data directory is a copy of \"%s\" on host \"%s\", or was restored from a backup. Stream %u remains as it is, up to block %llu.",
							 b->directory, b->host, b->stream, last);
		case STENO_BRANCH_FOREIGN:
			return errdetail("Blocks %llu to %llu of stream %u follow the last one that this server has written. They are left unchanged, and are not sealed.",
							 first, last, b->stream);
		case STENO_BRANCH_CUT:
			return errdetail("Stream %u ends with block %llu, but this server has written it up to block %llu.",
							 b->stream, last, first - 1);
		case STENO_BRANCH_ALTERED:
			return errdetail("Block %llu of stream %u is not the one that this server has written.",
							 first - 1, b->stream);
		case STENO_BRANCH_GONE:
			return errdetail("Stream %u, which this server has written up to block %llu, does not exist.",
							 b->stream, first - 1);
		case STENO_BRANCH_NONE:
		case STENO_BRANCH_UNKNOWN:
			break;
	}
	return errdetail("The data directory has no information about whether this server has written stream %u, or how far.",
					 b->stream);
}

static void
report_branch(const StenoWriter *w, const StenoBranch *b)
{
	if (w->stream.number == b->stream)
	{
		ereport(WARNING,
				(errmsg("stream %u of the trail begins anew", w->stream.number),
				 errdetail("This server has written it up to block %llu, and nothing of that is in \"%s\".",
						   (unsigned long long) b->block, steno_directory),
				 errhint("Unless you have changed \"steno.directory\", or moved the trail away, find out who has removed it.")));
		return;
	}
	ereport(b->reason == STENO_BRANCH_COPY ? LOG : WARNING,
			(errmsg("steno writer %d begins stream %u of the trail beside stream %u",
					w->number, w->stream.number, b->stream),
			 detail_difference(b),
			 b->reason == STENO_BRANCH_COPY ? 0 :
			 b->reason == STENO_BRANCH_GONE ?
			 errhint("Unless you have changed \"steno.directory\", or moved the trail away, find out who has removed it.") :
			 errhint("Run \"steno verify\", and find out who can write to \"%s\".", steno_directory)));
}

/* Make a record of the event "branch". */
static void
record_branch(StenoWriter *w, const StenoBranch *b, bool unused)
{
	const char *pairs[2 * 18] = {"event", "branch", "version", PG_VERSION};
	char		stream[16];
	char		block[24];
	char		found[24];
	char		hash[2 * STENO_HASH_SIZE + 1];
	int			n = 4;

	snprintf(stream, sizeof(stream), "%u", b->stream);
	snprintf(block, sizeof(block), UINT64_FORMAT, b->block);
	snprintf(found, sizeof(found), UINT64_FORMAT, b->found);
	format_hash(hash, b->hash);
	pairs[n++] = "reason";
	pairs[n++] = reason_names[b->reason];
	pairs[n++] = "stream";
	pairs[n++] = stream;
	pairs[n++] = "block";
	pairs[n++] = block;
	pairs[n++] = "hash";
	pairs[n++] = hash;
	pairs[n++] = "found";
	pairs[n++] = found;
	if (unused)
	{
		pairs[n++] = "unused";
		pairs[n++] = "true";
	}
	n += 2 * steno_state_identity(pairs + n);
	if (b->reason == STENO_BRANCH_COPY)
	{
		pairs[n++] = "from_run";
		pairs[n++] = b->run;
		pairs[n++] = "from_host";
		pairs[n++] = b->host;
		pairs[n++] = "from_directory";
		pairs[n++] = b->directory;
	}
	steno_writer_server(w, pairs, n / 2);
}

/*
 * The stream was opened: if it was begun because another one differs, record that.
 * Returns false if this process is to exit.
 */
bool
steno_branch_record(StenoWriter *w)
{
	const StenoBranch *b = steno_state_branch();

	if (b->reason == STENO_BRANCH_NONE || w->stream.next_block > 1)
		return true;
	report_branch(w, b);
	record_branch(w, b, false);
	return steno_writer_write(w);
}

/* Report and record how a stream that is no longer used differs. */
static bool
record_unused(StenoWriter *w, int writer, const StenoBranch *b, StenoError *error)
{
	ereport(WARNING,
			(errmsg("stream %u of the trail, which no writer uses any more, is not as this server has left it", b->stream),
			 detail_difference(b),
			 errhint("Unless you have changed \"steno.directory\", or moved the trail away, run \"steno verify\", and find out who can write to \"%s\".",
					 steno_directory)));
	record_branch(w, b, true);
	if (!steno_writer_write(w))
		steno_process_exit();	/* the next start finds the difference again */
	return steno_state_settle_unused(writer, b, error);
}

/*
 * Writer 0, once in a run: compare the streams of writers that no longer exist
 * because steno.writers was reduced.  If one cannot be read, that is reported and
 * the next start tries again.
 */
void
steno_branch_record_unused(StenoWriter *w)
{
	int			i;

	for (i = steno_writers; i < STENO_MAX_WRITERS; i++)
	{
		StenoError	error = {0};
		StenoBranch branch;
		StenoLost	lost;
		StenoUnused unused = steno_state_compare_unused(i, &branch, &lost, &error);

		steno_writer_report_lost(w, branch.stream, &lost);
		if (unused == STENO_UNUSED_UNCHANGED ||
			(unused == STENO_UNUSED_DIFFERS && record_unused(w, i, &branch, &error)))
			continue;
		errno = error.error;
		ereport(WARNING,
				(errcode_for_file_access(),
				 error.error != 0 ?
				 errmsg("could not compare stream %u of the trail, which no writer uses any more: %s \"%s\": %m",
						branch.stream, error.what, error.path) :
				 errmsg("could not compare stream %u of the trail, which no writer uses any more: %s \"%s\"",
						branch.stream, error.what, error.path),
				 errhint("The next start tries again. Run \"steno verify\".")));
	}
}

/* ---- ring files of another trail ---- */

/*
 * A server that has crashed leaves its ring file behind, which is drained into whatever
 * trail the next start finds: pg_rewind or a restored backup can have replaced it together
 * with the data directory, and steno.directory can have been changed.  The first records of
 * sessions that are in the ring file are missing then, and nothing was altered.  The trail
 * says so before it has the rest: records of the event "other_trail" (format/FORMAT.md).
 *
 * It can only be another trail if the state file says that the directory, or the data
 * directory, is not the one of the run (steno_state_was_elsewhere).  Otherwise, blocks of the
 * server's own trail were removed, which nothing may explain.  Whether it is another trail is
 * then what the trail itself shows.  The intent of each writer has the last block that it
 * wrote, or was about to write (ring/ring.h).  If the stream of that block does not end as
 * the server left it, no writer goes on with it, so that its end is still where it was at the
 * start.
 */

/* Whether the block of an intent was surely written: recovery takes the hash of others away. */
static bool
was_written(const StenoIntent *intent)
{
	static const uint8 none[STENO_HASH_SIZE];

	return intent->valid == 0 && memcmp(intent->hash, none, STENO_HASH_SIZE) != 0;
}

/* Whether the trail has what a writer wrote by its intent.  If that cannot be found out, it is believed to. */
static bool
has_what_was_written(const StenoIntent *intent)
{
	uint64		system = GetSystemIdentifier();
	StenoError	error;
	StenoEnd	end;
	bool		has;

	if (intent->block == 0)
		return true;
	if (steno_segment_has_block(steno_directory, intent->stream, intent->segment,
								intent->offset, intent->block, intent->hash, &error))
		return true;
	if (error.what[0] != '\0')
		return true;
	if (was_written(intent))
		return !steno_stream_has(steno_directory, intent->stream, system, intent->block, intent->hash, &has,
								 &error) || has;

	/* the block itself may not have been written, but all before it were */
	return !steno_stream_end(steno_directory, intent->stream, system, &end, &error) ||
		end.damaged || end.block + 1 >= intent->block;
}

/* Say which records of the session at the ring's tail were written before: all up to that tail. */
static void
record_session(StenoWriter *w, const char *since, const StenoRing *ring)
{
	char		session[STENO_SESSION_ID];
	char		last[32];
	const char *pairs[] = {"event", "other_trail", "version", PG_VERSION, "since", since, "session", session, "last_seq", last};
	TimestampTz start;
	uint32		pid;

	if (ring->session_len < STENO_SESSION_FACTS || ring->session_len > STENO_SESSION_MAX || ring->session_seq == 0)
		return;
	memcpy(&start, ring->session + STENO_SESSION_START, sizeof(start));
	memcpy(&pid, ring->session + STENO_SESSION_PID, sizeof(pid));
	steno_session_id(session, start, pid);
	snprintf(last, sizeof(last), UINT64_FORMAT, ring->session_seq);
	steno_writer_server(w, pairs, lengthof(pairs) / 2);
}

/* Say which stream of the other trail had what, at least, and warn. */
static void
record_stream(StenoWriter *w, const char *since, const StenoIntent *intent)
{
	char		stream[16];
	char		block[32];
	char		chain[2 * STENO_HASH_SIZE + 1];
	const char *pairs[] = {"event", "other_trail", "version", PG_VERSION, "since", since, "stream", stream, "block", block, "chain", chain};
	bool		known = was_written(intent);

	snprintf(stream, sizeof(stream), "%u", intent->stream);
	snprintf(block, sizeof(block), UINT64_FORMAT, known ? intent->block : intent->block - 1);
	format_hash(chain, intent->hash);
	steno_writer_server(w, pairs, lengthof(pairs) / 2 - (known ? 0 : 1));
	ereport(WARNING,
			(errmsg("the run of the server that began at %s and did not stop had recorded in another trail", since),
			 errdetail("Its stream %s had block %s, which \"%s\" does not have.", stream, block, steno_directory),
			 errhint("pg_rewind or a restored backup may have replaced the trail, or \"steno.directory\" was changed. What that run has left in its ring file is recovered into this trail.")));
}

/*
 * Before the intents of a ring file are resolved: whether its run had recorded in another trail,
 * which is then recorded.  The file is not changed.
 */
void
steno_other_trail_record(StenoWriter *w, const StenoRings *rings)
{
	bool		lacks[STENO_MAX_WRITERS];
	bool		any = false;
	char		since[64];
	uint32		i;

	if (!steno_state_was_elsewhere(rings->file->created))
		return;
	steno_format_utc_us(since, sizeof(since), rings->file->created);
	for (i = 0; i < STENO_MAX_WRITERS; i++)
	{
		lacks[i] = !has_what_was_written(&rings->file->intents[i]);
		if (lacks[i])
			record_stream(w, since, &rings->file->intents[i]);
		any |= lacks[i];
	}
	if (!any)
		return;
	for (i = 0; i < rings->nrings; i++)
		if (lacks[i % rings->nwriters] || lacks[STENO_MAX_WRITERS - 1])
			record_session(w, since, steno_ring_at(rings, i));
}
