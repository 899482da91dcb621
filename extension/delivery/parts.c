/*
 * extension/delivery/parts.c
 *		Records too big for one message: their text, parameter values and error message go
 *		ahead of them, in data messages.
 *
 * Large parts are copied to chunks (core/ring/chunk.h), so that neither this process nor
 * others wait for the writer because of them.  If no chunk can be claimed, parts go through
 * the ring, each as large as the ring allows.
 */
#include "delivery/encode.h"

#include "mb/pg_wchar.h"

#include "delivery/room.h"
#include "delivery/wait.h"
#include "ring/chunk.h"

/* The last record that has parts in the ring: its number, its statement, and how many bytes there are. */
static struct
{
	uint64		seq;
	uint64		statement;
	uint32		substatement;
	StenoParts	sent;
}			ahead;

/* Fewer bytes are not worth a chunk. */
#define LEAST_IN_CHUNK (STENO_CHUNK / 4)

/* A stretch of messages that are sent ahead of a big record. */
typedef struct Ahead
{
	uint64		seq;
	uint32		part;
	StenoDataMessage *message;
	uint32		chunk;			/* that has the message's bytes, or STENO_CHUNK_NONE */
	char	   *bytes;			/* where they go */
	uint32		capacity;
} Ahead;

STENO_COLD static void
ahead_publish(Ahead *a)
{
	uint32		full = a->message->m.len;
	uint32		used = (sizeof(StenoDataMessage) + a->message->len + 7) & ~7u;

	if (a->chunk != STENO_CHUNK_NONE)
		steno_chunk_keep(&steno_rings, a->chunk, steno_my.ring_number,
						 steno_ring_after(&steno_my.producer, a->message));
	else
	{
		/* give back what the last part did not need */
		Assert(used <= full);
		(void) full;
		a->message->m.len = used;
	}
	ahead.sent.bytes[a->part] += a->message->len;
	ahead.seq = a->seq;
	steno_ring_publish(&steno_my.producer, a->message);
	a->message = NULL;
}

/*
 * How much of n bytes of a longer text to send: whole characters, for what went ahead is
 * where a short record's text is cut.
 */
static uint32
clip_text(const char *text, uint64 len, uint32 n)
{
	int			i;

	if (GetDatabaseEncoding() != PG_UTF8)
		return pg_mbcliplen(text, (int) Min(len, (uint64) PG_INT32_MAX), (int) n);
	for (i = 1; i < MAX_MULTIBYTE_CHAR_LEN && n > 1 && (text[n] & 0xC0) == 0x80; i++)
		n--;
	return n;
}

/*
 * Begin a message that refers to a chunk; false if there is no space for the message, or
 * no chunk.  The message comes first: between claiming the chunk and publishing the message,
 * nothing is waited for, and nothing fails.
 */
static bool
begin_in_chunk(Ahead *a)
{
	StenoDataMessage *m;
	uint32		used;

	if (steno_rings.nchunks == 0)
		return false;
	m = steno_room(sizeof(StenoDataMessage) + sizeof(StenoChunkNumber));
	if (m == NULL)
		return false;
	a->chunk = steno_chunk_claim(&steno_rings, steno_my.ring_number, &used);
	/* the writer must begin before they are all used */
	if (used >= steno_rings.nchunks / 4)
		steno_ring_wake_writer();
	if (a->chunk == STENO_CHUNK_NONE)
		return false;
	((StenoChunkNumber *) (m + 1))->number = a->chunk;
	((StenoChunkNumber *) (m + 1))->pad = 0;
	m->m.flags = STENO_MESSAGE_CHUNK;
	a->message = m;
	a->bytes = (char *) steno_chunk_bytes(&steno_rings, a->chunk);
	a->capacity = STENO_CHUNK;
	return true;
}

static bool
begin_in_ring(Ahead *a)
{
	StenoDataMessage *m = steno_room(steno_my.producer.max_message);

	if (m == NULL)
		return false;
	m->m.flags = 0;
	a->message = m;
	a->chunk = STENO_CHUNK_NONE;
	a->bytes = (char *) (m + 1);
	a->capacity = steno_my.producer.max_message - sizeof(StenoDataMessage);
	return true;
}

/* Begin a message, of which len bytes are at hand. */
STENO_COLD static bool
ahead_begin(Ahead *a, uint64 len)
{
	if (!(len >= LEAST_IN_CHUNK && begin_in_chunk(a)) && !begin_in_ring(a))
		return false;
	a->message->m.kind = STENO_KIND_DATA;
	a->message->seq = a->seq;
	a->message->part = a->part;
	a->message->len = 0;
	return true;
}

STENO_COLD static bool
ahead_put(Ahead *a, const void *bytes, uint64 len)
{
	const char *from = bytes;

	while (len > 0)
	{
		uint32		n;

		if (a->message == NULL && !ahead_begin(a, len))
			return false;
		n = Min(len, a->capacity - a->message->len);
		if (n < len && a->part != STENO_PART_VALUES)
			n = clip_text(from, len, n);
		memcpy(a->bytes + a->message->len, from, n);
		a->message->len += n;
		from += n;
		len -= n;
		if (len > 0 || a->message->len == a->capacity)
			ahead_publish(a);
	}
	return true;
}

/* Send all of a part ahead. */
STENO_COLD static bool
send_bytes_ahead(uint64 seq, uint32 part, const void *bytes, uint64 len)
{
	Ahead		a = {.seq = seq, .part = part};

	if (!ahead_put(&a, bytes, len))
		return false;
	if (a.message != NULL)
		ahead_publish(&a);
	return true;
}

/* Relations and objects that follow those of the shape stand after the values. */
static bool
send_further(Ahead *a, const StenoRecord *r)
{
	if (r->further_len > 0 && !ahead_put(a, r->further, r->further_len))
		return false;
	if (a->message != NULL)
		ahead_publish(a);
	return true;
}

STENO_COLD static bool
send_values_ahead(uint64 seq, const StenoRecord *r)
{
	const StenoParams *params = r->params;
	Ahead		a = {.seq = seq, .part = STENO_PART_VALUES};
	int			i;

	for (i = 0; params && i < params->count; i++)
	{
		const StenoParam *v = &params->values[i];
		uint8		prefix[STENO_VARINT_MAX];

		if (v->data == NULL)
			continue;
		if (v->prefixed &&
			!ahead_put(&a, prefix, steno_put_varint(prefix, v->len) - prefix))
			return false;
		if (!ahead_put(&a, v->data, v->len))
			return false;
	}
	return send_further(&a, r);
}

/* Send the largest parts ahead, until the rest fits; false when there was no room. */
STENO_COLD bool
steno_parts_send(const StenoRecord *r, uint64 seq, uint64 *total, StenoParts *parts)
{
	uint32		most = steno_my.producer.max_message;
	uint64		message_len = r->message ? strlen(r->message) : 0;
	uint64		values_len = (r->params ? r->params->values_len : 0) + r->further_len;

	ahead.statement = r->statement;
	ahead.substatement = r->substatement;
	memset(&ahead.sent, 0, sizeof(ahead.sent));
	*total += sizeof(StenoParts);
	if (*total - r->further_len > most && r->text && r->text_len > 0)
	{
		if (!send_bytes_ahead(seq, STENO_PART_TEXT, r->text, r->text_len))
			return false;
		parts->bytes[STENO_PART_TEXT] = r->text_len;
		*total -= r->text_len;
	}
	if (r->further_len > 0 || (*total > most && values_len > 0))
	{
		if (!send_values_ahead(seq, r))
			return false;
		parts->bytes[STENO_PART_VALUES] = values_len;
		*total -= values_len;
	}
	if (*total > most && message_len > 0)
	{
		if (!send_bytes_ahead(seq, STENO_PART_MESSAGE, r->message, message_len))
			return false;
		parts->bytes[STENO_PART_MESSAGE] = message_len;
		*total -= message_len;
	}
	return *total <= most;		/* not with thousands of relations in a small
								 * ring */
}

/* What went ahead of the record of this number; NULL: nothing. */
STENO_COLD const StenoParts *
steno_parts_sent(uint64 seq)
{
	return ahead.seq == seq ? &ahead.sent : NULL;
}

/* Whether the last parts were sent for a record of the same statement. */
STENO_COLD bool
steno_parts_are_of(const StenoRecord *r)
{
	return ahead.statement == r->statement && ahead.substatement == r->substatement;
}
