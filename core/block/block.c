/*
 * core/block/block.c
 *		The block builder: its creation, and what it does with messages of any kind.
 *
 * A message is added only if an upper bound of its items fits into the block, so a
 * message that does not fit changes nothing.  Its session, shape and text are
 * looked up in the block's dictionaries, and defined there if they are new (definition.c).  The
 * item of the record follows, with their indexes and the values that differ from
 * those that a reader expects (record.c).
 *
 * What most servers execute most of the time are a few statements with different values.  For
 * those, items are shorter, and so is what is compressed and hashed, which costs more than
 * building it.  Records of a statement that its session executes more than once in the block refer to
 * a form and are put into runs (run.h, unprepared.c, brief.c); the texts of a form may differ in a part, such as a
 * constant.  Another text that is similar to one before is defined by the difference (definition.c).
 *
 * The payload is built behind space for the block
 * header, so that an uncompressed block is written from the buffer it was built in.
 */
#include <stdlib.h>

#include <lz4.h>

#include "block/record.h"

/* What an index takes in addition to its body: its length and kind. */
#define INDEX_HEAD 16

static uint32_t
power_of_two(uint32_t n)
{
	uint32_t	p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

static bool
allocate_builder(StenoBlock *block, uint32_t capacity)
{
	uint32_t	room = capacity > STENO_INDEX_MAX + INDEX_HEAD ? capacity : STENO_INDEX_MAX + INDEX_HEAD;
	size_t		packed = (size_t) LZ4_compressBound((int) room);

	block->capacity = capacity;
	block->room = room;
	block->buffer = malloc(STENO_BLOCK_HEADER + (size_t) room);
	block->packed = malloc(STENO_BLOCK_HEADER + packed + STENO_PAYLOAD_EXTRA);
	block->lz4 = malloc((size_t) LZ4_sizeofState());
	block->sha = EVP_MD_CTX_new();
	block->max_sessions = capacity / 64;
	block->max_forms = capacity / 64;
	block->expected = malloc(block->max_sessions * sizeof(StenoExpected));
	block->unprepared = calloc(STENO_UNPREPARED, sizeof(StenoUnprepared));
	/* all texts and shapes of at least 64 bytes fit; for shorter ones, see steno_dictionary_add() */
	return steno_dictionary_create(&block->sessions, power_of_two(capacity / 64)) &&
		steno_dictionary_create(&block->shapes, power_of_two(capacity / 128)) &&
		steno_dictionary_create(&block->texts, power_of_two(capacity / 64)) &&
		block->buffer != NULL && block->packed != NULL &&
		block->lz4 != NULL && block->expected != NULL && block->unprepared != NULL && block->sha != NULL &&
		EVP_DigestInit_ex(block->sha, EVP_sha256(), NULL) == 1;
}

StenoBlock *
steno_block_create(uint32_t capacity)
{
	StenoBlock *block;

	if (capacity < 64 * 1024)
		capacity = 64 * 1024;
	if (capacity > STENO_MAX_RAW)
		capacity = STENO_MAX_RAW;
	block = calloc(1, sizeof(StenoBlock));
	if (block == NULL)
		return NULL;
	if (!allocate_builder(block, capacity))
	{
		steno_block_destroy(block);
		return NULL;
	}
	block->payload = block->buffer + STENO_BLOCK_HEADER;
	block->next_acceleration[false] = block->next_acceleration[true] = 1;
	steno_block_reset(block);
	return block;
}

void
steno_block_destroy(StenoBlock *block)
{
	if (block == NULL)
		return;
	steno_dictionary_destroy(&block->sessions);
	steno_dictionary_destroy(&block->shapes);
	steno_dictionary_destroy(&block->texts);
	free(block->expected);
	free(block->unprepared);
	free(block->buffer);
	free(block->packed);
	free(block->lz4);
	EVP_MD_CTX_free(block->sha);
	free(block);
}

void
steno_block_reset(StenoBlock *block)
{
	if (block->index)
		steno_index_discard(block->index);
	steno_block_prepare_compression(block);
	block->used = 0;
	block->data_bytes = 0;
	block->records = 0;
	block->previous_lsn = 0;
	block->forms = 0;
	block->commit_shape = 0;
	block->run_end = UINT32_MAX;
	block->variants_bytes = 0;
	block->generation++;
	steno_dictionary_reset(&block->sessions);
	steno_dictionary_reset(&block->shapes);
	steno_dictionary_reset(&block->texts);
}

void
steno_block_set_crypt(StenoBlock *block, StenoCrypt *crypt)
{
	block->crypt = crypt;
}

void
steno_block_set_index(StenoBlock *block, StenoIndex *index)
{
	block->index = index;
}

bool
steno_block_replace(StenoBlock *block, const void *from, const void *to, size_t len)
{
	size_t		at;

	for (at = 0; at + len <= block->used; at++)
		if (memcmp(block->payload + at, from, len) == 0)
		{
			memcpy(block->payload + at, to, len);
			return true;
		}
	return false;
}

uint32_t
steno_block_records(const StenoBlock *block)
{
	return block->records;
}

uint32_t
steno_block_bytes(const StenoBlock *block)
{
	return block->used;
}

uint32_t
steno_block_data_bytes(const StenoBlock *block)
{
	return block->data_bytes;
}

/* ---- messages ---- */

/*
 * Remember the session definition; steno_block_intern_session writes it when a record needs it.
 * A body that does not fit into the source loses its facts, but not start time and
 * process ID, which identify the session.
 */
static void
set_session(StenoSource *source, const StenoSessionMessage *m)
{
	const uint8_t *body = (const uint8_t *) (m + 1);
	uint32_t	len = m->body_len <= STENO_SESSION_MAX ? m->body_len : STENO_SESSION_FACTS;

	source->seq = m->seq;
	source->statement = m->statement;
	if (len == source->body_len && memcmp(source->body, body, len) == 0)
		return;
	memcpy(source->body, body, len);
	source->body_len = len;
	source->generation = 0;
}

static void
add_data(StenoBlock *block, StenoSource *source, const StenoDataMessage *d)
{
	uint32_t	session = session_index(block, source);
	uint32_t	guess = 2 + steno_varint_size(session) + steno_varint_size(d->seq) + d->len;
	uint8_t    *p = begin_item(block, STENO_KIND_DATA, guess);
	const uint8_t *bytes = (const uint8_t *) (d + 1);

	if (d->m.flags & STENO_MESSAGE_CHUNK)
		bytes = source->chunks + (size_t) steno_data_chunk(d) * STENO_CHUNK;
	p = steno_put_varint(p, session);
	p = steno_put_varint(p, d->seq);
	*p++ = (uint8_t) d->part;
	end_item(block, guess, append_bytes(p, bytes, d->len));
	block->data_bytes += d->len;
}

bool
steno_block_add(StenoBlock *block, StenoSource *source, const StenoMessage *message)
{
	if (message->kind == STENO_KIND_DEF_SESSION)
	{
		set_session(source, (const StenoSessionMessage *) message);
		return true;
	}
	if (message->kind == 0 || message->kind > STENO_KIND_DATA)
		return true;
	if (source->body_len < STENO_SESSION_FACTS)
	{
		/* no session message has come: an anonymous session keeps the block valid */
		memset(source->body, 0, STENO_SESSION_FACTS);
		source->body_len = STENO_SESSION_FACTS;
		source->generation = 0;
	}
	if (message->flags & STENO_MESSAGE_BRIEF && message->kind < STENO_KIND_DATA)
	{
		if (!has_room(block, source, message->len + sizeof(StenoWhole)))
			return false;
		if (message->kind == STENO_KIND_TRANSACTION)
			steno_block_add_brief_commit(block, source, (const StenoCommitMessage *) message);
		else
			steno_block_add_one_brief(block, source, (const StenoBriefMessage *) message);
		return true;
	}
	if (message->kind == STENO_KIND_DATA)
	{
		const StenoDataMessage *data = (const StenoDataMessage *) message;

		/* its bytes may be in a chunk */
		if (!has_room(block, source, (uint32_t) sizeof(*data) + data->len))
			return false;
		add_data(block, source, data);
		return true;
	}
	if (!has_room(block, source, message->len))
		return false;
	steno_block_add_record(block, source, (const StenoRecordMessage *) message);
	return true;
}

void
steno_block_add_index(StenoBlock *block)
{
	uint32_t	guess = STENO_INDEX_MAX;
	uint8_t    *p = begin_item(block, STENO_KIND_DEF_INDEX, guess);

	end_item(block, guess, p + steno_index_take(block->index, p));
}
