/*
 * extension/writer/output.c
 *		The output of a writer to its stream: building, writing and syncing blocks,
 *		and the writer's own records.
 *
 * A block is written in five steps: check that the segment is where readers look
 * for it; finish the block; store an intent, which describes the write, in the ring
 * file; append the block; free the messages of the block from the rings.  If the
 * process dies after any step, the block's records are in the file or in the rings,
 * and the intent tells recovery (recover.c) in which of them.
 *
 * If a write fails, the block is kept and the write is repeated every second, until
 * it succeeds or this process is to exit.  If a sync fails, that is reported, and
 * the caller repeats it.
 */
#include "writer/writer.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

/* Capacity of a block that is written before the open one. */
#define ASIDE_CAPACITY (256 * 1024)

/* ---- the segment's place ---- */

static void
report_replaced_segment(const StenoWriter *w, StenoPlace place, uint64 segment)
{
	if (w->stream.segment == segment)
		ereport(WARNING,
				(errmsg("segment %llu of stream %u of the trail was removed, and has been restored",
						(unsigned long long) segment, w->stream.number),
				 errdetail("It was still open. Segments before it that were removed with it are gone."),
				 errhint("Run \"steno verify\".")));
	else
		ereport(WARNING,
				(errmsg("segment %llu of stream %u of the trail is not in its place any more",
						(unsigned long long) segment, w->stream.number),
				 place == STENO_PLACE_MOVED ?
				 errdetail("The stream goes on in segment %llu. Everything before it is where it was moved to.",
						   (unsigned long long) w->stream.segment) :
				 errdetail("The stream goes on in segment %llu. It was removed, and could not be read any more.",
						   (unsigned long long) w->stream.segment),
				 errhint("Put back what was moved, and run \"steno verify\".")));
}

/*
 * Before a block is written, and after a sync: make sure that the segment is where
 * readers look for it, because writes to a removed or moved file succeed.  If it is
 * not there, the segment is restored or a new one is begun.  check_lock: check the
 * trail's lock even if the segment is in place; success then also ends an outage
 * that this call has found.  Returns false if this process is to exit.
 */
bool
steno_writer_keep_place(StenoWriter *w, bool check_lock)
{
	StenoError	error;
	StenoPlace	place;
	bool		look_at_lock = check_lock;
	bool		failed = false;

	for (;;)
	{
		uint64		segment = w->stream.segment;

		if (look_at_lock && !steno_trail_reclaim(&error))
		{
			failed = true;
			steno_health_failed(w, STENO_WRITE, &error);
			if (!steno_health_wait_to_retry(w))
				return false;
			continue;
		}
		place = steno_stream_place(&w->stream, &error);
		if (place == STENO_PLACE_KEPT)
			break;
		if (!look_at_lock)
		{
			/* the directory that is there now may belong to another server */
			look_at_lock = true;
			continue;
		}
		failed = true;
		steno_health_failed(w, STENO_WRITE, &error);
		if (place != STENO_PLACE_UNKNOWN)
		{
			if (steno_stream_replace(&w->stream, steno_directory, place, GetCurrentTimestamp(), &error))
			{
				report_replaced_segment(w, place, segment);
				if (w->stream.segment != segment)
					w->segment_replaced(w);
				atomic_store(&w->control->segment, w->stream.segment);
				(void) steno_trail_reclaim(&error); /* the directory may have been created again */
				break;
			}
			steno_health_failed(w, STENO_WRITE, &error);
		}
		if (!steno_health_wait_to_retry(w))
			return false;
	}
	/* before a block, the write reports success */
	if (failed && check_lock)
		steno_health_succeeded(w, STENO_WRITE);
	return true;
}

/* ---- blocks ---- */

/*
 * Store the intent to write a block with this hash at the current end of the
 * stream, and then to free the messages of the block from each ring.
 */
static void
store_intent(const StenoWriter *w, StenoDrain *drain, const uint8 hash[STENO_HASH_SIZE])
{
	StenoIntent *intent = drain->intent;
	uint32		i;

	STENO_EACH_WATCHED(drain, i)
	{
		StenoRing  *ring = steno_ring_at(drain->rings, i);

		ring->pending = drain->positions[i];
		ring->orphan_drops_pending = drain->reported_drops[i];
		ring->gaps_pending = drain->reported_gaps[i];
	}
	intent->stream = w->stream.number;
	intent->segment = w->stream.segment;
	intent->offset = w->stream.offset;
	intent->block = w->stream.next_block;
	memcpy(intent->hash, hash, STENO_HASH_SIZE);

	/*
	 * The intent is read only after this process has ended, so all its stores are
	 * visible then.  The fence ensures that valid is not set before the rest, at
	 * whichever instruction this process is killed.
	 */
	atomic_thread_fence(memory_order_release);
	intent->valid = drain->ended > 0 ? STENO_INTENT_ENDS + drain->ended : STENO_INTENT_MESSAGES;
}

/*
 * The trail has the ends of the sessions of the first count rings: reset what
 * remains of them, so that they are not recorded again.
 */
void
steno_drain_clear_sessions(StenoRings *rings, uint32 count)
{
	uint32		i;

	for (i = 0; i < count; i++)
	{
		StenoRing  *ring = steno_ring_at(rings, i);

		atomic_store(&ring->gaps_recorded, atomic_load(&ring->gaps_left));
		ring->own_gap = 0;
		ring->inflight.active = 0;
		atomic_store(&ring->owner, 0);
	}
}

/* The block is in the file: free its messages from the rings, and withdraw the intent. */
static void
free_rings(StenoDrain *drain)
{
	uint32		i;

	STENO_EACH_WATCHED(drain, i)
	{
		StenoRing  *ring = steno_ring_at(drain->rings, i);
		StenoSource *source = &drain->sources[i];

		ring->orphan_drops_recorded = drain->reported_drops[i];
		/* pairs with the acquire load in steno_ring_has_gap: the fields have been read */
		if (atomic_load_explicit(&ring->gaps_recorded, memory_order_relaxed) != drain->reported_gaps[i])
			atomic_store_explicit(&ring->gaps_recorded, drain->reported_gaps[i], memory_order_release);
		if (drain->positions[i] == atomic_load_explicit(&ring->tail, memory_order_relaxed))
			continue;
		/* the session at the new tail, for a process that begins to read there */
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
		steno_drain_clear_sessions(drain->rings, drain->ended);
	/* as in store_intent: valid must not be cleared before the rings are freed */
	atomic_thread_fence(memory_order_release);
	/* the intent of a recovery's last block remains until the file is removed */
	if (drain->ended < drain->rings->nrings)
		drain->intent->valid = 0;
}

/*
 * Finish the block, store the intent to write it, and note it in the state file.
 * Returns its bytes; NULL if it could not be encrypted.
 */
static const uint8_t *
finish_block(StenoWriter *w, uint8 chain[STENO_HASH_SIZE], size_t *len)
{
	const uint8_t *bytes;

	memcpy(chain, w->stream.chain, STENO_HASH_SIZE);
	bytes = steno_block_finish(w->block, steno_compression, w->stream.next_block,
							   w->stream.next_record, GetCurrentTimestamp(),
							   chain, len);
	if (bytes == NULL)
		return NULL;
	steno_state_write_begins(w, chain);
	if (w->drain != NULL)
		store_intent(w, w->drain, chain);
	return bytes;
}

/*
 * Write the open block, and free its messages from the rings.  Returns false, with
 * the block kept, if this process is to exit and cannot write.
 */
bool
steno_writer_write(StenoWriter *w)
{
	uint32		records = steno_block_records(w->block);
	uint32		raw = steno_block_bytes(w->block);
	uint64		finished = 0;	/* segment that the block was finished for; no segment has number 0 */
	uint64		number = 0;		/* and its number */
	uint8		chain[STENO_HASH_SIZE];
	const uint8_t *bytes = NULL;
	size_t		len = 0;
	StenoError	error;

	if (raw == 0)
		return true;
	for (;;)
	{
		if (!steno_writer_keep_place(w, false))
			return false;
		/*
		 * A block is finished again for another segment, or behind another block, where it
		 * is chained to another hash.
		 */
		if (w->stream.segment != finished || w->stream.next_block != number)
		{
			finished = w->stream.segment;
			number = w->stream.next_block;
			bytes = finish_block(w, chain, &len);
		}
		if (bytes == NULL)
		{
			finished = 0;
			steno_key_block_error(w, &error);
		}
		else if (steno_health_take_room(w, len, &error))
		{
			/*
			 * Statements wait for the disk, and a sync is cheaper if the file's
			 * length does not change.
			 */
			if (w->sync_requested)
				steno_stream_make_room(&w->stream, len);
			if (steno_stream_append(&w->stream, bytes, len, records, chain, &error))
				break;
		}
		steno_health_failed(w, STENO_WRITE, &error);
		if (!steno_health_wait_to_retry(w))
			return false;
	}
	w->use_reserve = false;
	steno_health_succeeded(w, STENO_WRITE);
	steno_index_commit(w->index, w->stream.segment, w->stream.next_block - 1, len);
	if (w->drain != NULL)
		free_rings(w->drain);
	steno_writer_count(&w->control->records, records);
	steno_writer_count(&w->control->blocks, 1);
	steno_writer_count(&w->control->raw_bytes, raw);
	steno_writer_count(&w->control->stored_bytes, len);
	atomic_store_explicit(&w->control->segment, w->stream.segment, memory_order_relaxed);
	atomic_store_explicit(&w->control->last_write, GetCurrentTimestamp(), memory_order_relaxed);
	steno_process_beat();
	steno_block_reset(w->block);
	w->block_written(w, raw);
	return true;
}

/*
 * Write a block that put fills, before the open one, which waits for space and is then
 * finished again behind it.  It may use the reserve.  It is not part of the segment's
 * index, which then covers what follows.  Never waits.
 */
bool
steno_writer_write_aside(StenoWriter *w, void (*put) (StenoWriter *writer), StenoError *error)
{
	StenoBlock *open = w->block;
	StenoSource self = w->self;
	uint32		records;
	uint8		chain[STENO_HASH_SIZE];
	const uint8_t *bytes;
	size_t		len = 0;
	bool		ok = false;

	if (w->aside == NULL)
	{
		w->aside = steno_block_create(ASIDE_CAPACITY);
		if (w->aside == NULL)
			return steno_failed(error, ENOMEM, "could not make a block for", w->stream.directory);
		steno_block_set_crypt(w->aside, steno_key_crypt());
	}
	w->block = w->aside;
	w->self.generation = UINT64_MAX;
	put(w);
	records = steno_block_records(w->aside);
	memcpy(chain, w->stream.chain, STENO_HASH_SIZE);
	bytes = steno_block_finish(w->aside, steno_compression, w->stream.next_block, w->stream.next_record,
							   GetCurrentTimestamp(), chain, &len);
	if (bytes == NULL)
		steno_key_block_error(w, error);
	else
	{
		/* the intent of the open block stays: it is not in the file, whatever happens */
		steno_state_write_begins(w, chain);
		ok = steno_stream_append(&w->stream, bytes, len, records, chain, error);
	}
	self.seq = ok ? w->self.seq : self.seq;
	w->self = self;
	w->block = open;
	steno_block_reset(w->aside);
	if (!ok)
		return false;
	steno_writer_count(&w->control->records, records);
	steno_writer_count(&w->control->blocks, 1);
	steno_writer_count(&w->control->stored_bytes, len);
	return true;
}

/*
 * Write the index of the blocks that this process has written to the open segment, if
 * there are enough of them.  The segment is finished next, or the run ends.  A segment
 * that a killed writer leaves has no index of its blocks: readers read them.  Returns
 * false if this process is to exit and cannot write.
 */
bool
steno_writer_index(StenoWriter *w)
{
	/* a block that contains an index contains nothing else; each write may open another one, of a seal */
	while (steno_block_bytes(w->block) > 0)
		if (!steno_writer_write(w))
			return false;
	if (!steno_index_is_due(w->index, w->stream.segment))
		return true;
	steno_block_add_index(w->block);
	return steno_writer_write(w);
}

/*
 * Make sure that a block can hold any message of these rings, and any chunk, even if
 * steno.block_size is smaller.  Returns false if this process is to exit and cannot
 * write.
 */
bool
steno_writer_fit(StenoWriter *w, const StenoRings *rings)
{
	uint32		longest = Max(rings->size / STENO_RING_SHARE, rings->nchunks > 0 ? STENO_CHUNK : 0);
	uint32		capacity = Max((uint32) steno_block_size * 1024, longest + 2 * STENO_BLOCK_SPARE);

	if (capacity <= w->capacity)
		return true;
	if (w->block != NULL)
	{
		if (!steno_writer_write(w))
			return false;
		steno_block_destroy(w->block);
	}
	if (w->index == NULL)
		w->index = steno_index_create();
	w->block = steno_block_create(capacity);
	if (w->index == NULL || w->block == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	steno_block_set_crypt(w->block, steno_key_crypt());
	steno_block_set_index(w->block, w->index);
	w->capacity = capacity;
	w->self.generation = UINT64_MAX;	/* the new block has no definition of this writer */
	return true;
}

/* Add a message to the block; writes the block first if the message does not fit. */
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

/* ---- the writer's own records ---- */

/* Describe this writer as a session, for its own records. */
void
steno_writer_describe_self(StenoWriter *w)
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

/*
 * Add a record of this writer, with pairs of a name and a value.  class 0 is no
 * class.  Returns false as steno_writer_add does.
 */
bool
steno_writer_record(StenoWriter *w, int kind, int class, const char *const *pairs, int count)
{
	union
	{
		StenoRecordMessage m;
		uint8		bytes[16384];
	}			buf;
	uint8	   *p = (uint8 *) (&buf.m + 1);
	uint8	   *extra;
	int			i;

	steno_message_init(&buf.m, kind, w->self.seq + 1, GetCurrentTimestamp());
	if (class != 0)
		p = steno_message_put_class(&buf.m, p, class);
	extra = p;
	for (i = 0; i < count * 2; i++)
	{
		/* all are shorter; but what is too long is cut rather than written behind the buffer */
		size_t		left = sizeof(buf.bytes) - (size_t) (p - buf.bytes) - (size_t) (count * 2 - i) * STENO_VARINT_MAX;
		size_t		len = strnlen(pairs[i], left);

		p = steno_put_varint(p, len);
		memcpy(p, pairs[i], len);
		p += len;
	}
	buf.m.extra_count = count;
	buf.m.extra_len = p - extra;
	steno_message_end(&buf.m, p);
	return steno_writer_add(w, &w->self, &buf.m.m);
}

/* Add a record of an event of the server, with these pairs. */
void
steno_writer_server(StenoWriter *w, const char *const *pairs, int count)
{
	steno_writer_record(w, STENO_KIND_SERVER, 0, pairs, count);
}

/* Format a time for a record: UTC, whole seconds. */
void
steno_format_utc(char *to, size_t size, TimestampTz t)
{
	time_t		seconds = (time_t) timestamptz_to_time_t(t);
	struct tm	utc;

	gmtime_r(&seconds, &utc);
	strftime(to, size, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* The same with microseconds. */
void
steno_format_utc_us(char *to, size_t size, TimestampTz t)
{
	size_t		len;

	steno_format_utc(to, size, t);
	len = strlen(to) - 1;
	snprintf(to + len, size - len, ".%06dZ", (int) (t % USECS_PER_SEC));
}

/* The same with the event's name and at most one other pair (none if name is NULL). */
void
steno_writer_event(StenoWriter *w, const char *event, const char *name, const char *value)
{
	const char *pairs[] = {"event", event, "version", PG_VERSION, name, value};

	steno_writer_server(w, pairs, name ? 3 : 2);
}

/* ---- the disk ---- */

/* Report blocks of a stream that a failing disk has lost, in the log and in the trail. */
void
steno_writer_report_lost(StenoWriter *w, uint32 stream, StenoLost *lost)
{
	char		blocks[64];
	char		of_stream[16];
	const char *pairs[] = {"event", "lost", "version", PG_VERSION, "blocks", blocks, "stream", of_stream};

	if (lost->count == 0)
		return;
	snprintf(blocks, sizeof(blocks), UINT64_FORMAT "-" UINT64_FORMAT, lost->first, lost->last);
	snprintf(of_stream, sizeof(of_stream), "%u", stream);
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg_plural("stream %u of the trail has lost %llu block, of numbers %llu to %llu",
						   "stream %u of the trail has lost %llu blocks, of numbers %llu to %llu",
						   (unsigned long) lost->count, stream, (unsigned long long) lost->count,
						   (unsigned long long) lost->first, (unsigned long long) lost->last),
			 errdetail("They were written to segment %llu at offset %llu, could not be synced, and can no longer be read back as they were written.",
					   (unsigned long long) lost->segment, (unsigned long long) lost->offset),
			 errhint("Check the disk, and run \"steno verify\".")));
	lost->count = 0;
	steno_writer_server(w, pairs, lengthof(pairs) / 2);
}

/* Everything that was written is on disk: wake the processes that wait for it. */
void
steno_writer_announce_synced(StenoWriter *w)
{
	uint32		i;

	/* a process that waits has its ring watched; the others learn it when they do */
	if (w->drain != NULL && w->drain->rings == &steno_rings)
		STENO_EACH_WATCHED(w->drain, i)
			steno_ring_synced(steno_ring_at(&steno_rings, i));
	else
		for (i = w->number; i < steno_rings.nrings; i += steno_rings.nwriters)
			steno_ring_synced(steno_ring_at(&steno_rings, i));
	steno_wake_finish(&w->control->wake);
	w->sync_requested = false;
}

/* Sync everything that was written.  Returns false if that fails, which is reported. */
bool
steno_writer_sync(StenoWriter *w)
{
	StenoError	error;

	if (!w->stream.dirty)
		return true;
	steno_wake_start(&w->control->wake);
	if (!steno_stream_sync(&w->stream, &error))
	{
		steno_health_failed(w, STENO_SYNC, &error);
		return false;
	}
	/* a sync of a file that readers do not find is worth nothing */
	if (!steno_writer_keep_place(w, true))
		return false;
	steno_state_synced(w, false);
	/* before the wake-up, so that the views include the sync when a waiting process continues */
	steno_writer_count(&w->control->syncs, 1);
	atomic_store_explicit(&w->control->last_sync, GetCurrentTimestamp(), memory_order_relaxed);
	steno_writer_announce_synced(w);
	steno_health_succeeded(w, STENO_SYNC);
	steno_writer_report_lost(w, w->stream.number, &w->stream.lost);
	return true;
}

/* Sync, and repeat that until it succeeds; false if this process is to exit before that. */
bool
steno_writer_sync_surely(StenoWriter *w)
{
	while (!steno_writer_sync(w))
		if (!steno_health_wait_to_retry(w))
			return false;
	return true;
}
