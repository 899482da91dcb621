/*
 * core/header.h
 *		Segment and block headers as C values: written, read and checked here
 *		and nowhere else in core/.
 *
 * Integers are little-endian in the files on all machines.
 */
#ifndef STENO_HEADER_H
#define STENO_HEADER_H

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "defs.h"

static inline uint8_t *
steno_put_le(uint8_t *p, uint64_t v, int bytes)
{
	int			i;

	for (i = 0; i < bytes; i++)
		p[i] = (uint8_t) (v >> (8 * i));
	return p + bytes;
}

static inline uint64_t
steno_get_le(const uint8_t *p, int bytes)
{
	uint64_t	v = 0;
	int			i;

	for (i = 0; i < bytes; i++)
		v |= (uint64_t) p[i] << (8 * i);
	return v;
}

/* ---- segment header ---- */

#define STENO_SEGMENT_PREVIOUS 64	/* offset of the previous chain hash */
#define STENO_SEGMENT_SUM 120

/* Flags. */
#define STENO_SEGMENT_ENCRYPTED 1u

/* The key part, after the first 128 bytes of an encrypted segment's header. */
#define STENO_SEGMENT_KEY_ID 128
#define STENO_SEGMENT_NONCE 136
#define STENO_SEGMENT_DATA_KEY 148
#define STENO_SEGMENT_TAG 180
#define STENO_SEGMENT_KEY_SUM 200

#define STENO_KEY_ID_SIZE 8

/* The length of the header of a segment with these flags. */
static inline uint16_t
steno_segment_header_length(uint32_t flags)
{
	return flags & STENO_SEGMENT_ENCRYPTED ? STENO_SEGMENT_HEADER_ENCRYPTED : STENO_SEGMENT_HEADER;
}

/*
 * The times of the records in a segment's blocks: the earliest at which one began, and the latest at which one ended.
 * Both are 0 if they are not known; without records, the first is above the last.
 */
typedef struct StenoTimeRange
{
	int64_t		first;
	int64_t		last_end;
} StenoTimeRange;

#define STENO_RANGE_NONE ((StenoTimeRange) {INT64_MAX, INT64_MIN})

static inline bool
steno_range_known(const StenoTimeRange *t)
{
	return t->first != 0 || t->last_end != 0;
}

typedef struct StenoSegmentHeader
{
	uint16_t	version;
	uint16_t	length;
	uint32_t	flags;
	uint64_t	system_identifier;
	uint32_t	stream;
	uint32_t	server_version;
	uint64_t	segment;
	int64_t		created;
	uint64_t	first_block;
	uint64_t	first_record;
	uint8_t		previous[STENO_HASH_SIZE];
	StenoTimeRange before;		/* of the segment before this one */
	uint64_t	last_start;		/* segment with the last start of the server; 0: not known */
} StenoSegmentHeader;

/* Write the first 128 bytes; core/crypto/crypt.c writes the key part. */
static inline void
steno_segment_header_write(uint8_t *p, const StenoSegmentHeader *h)
{
	memset(p, 0, STENO_SEGMENT_HEADER);
	memcpy(p, STENO_SEGMENT_MAGIC, 8);
	steno_put_le(p + 8, h->version, 2);
	steno_put_le(p + 10, h->length, 2);
	steno_put_le(p + 12, h->flags, 4);
	steno_put_le(p + 16, h->system_identifier, 8);
	steno_put_le(p + 24, h->stream, 4);
	steno_put_le(p + 28, h->server_version, 4);
	steno_put_le(p + 32, h->segment, 8);
	steno_put_le(p + 40, (uint64_t) h->created, 8);
	steno_put_le(p + 48, h->first_block, 8);
	steno_put_le(p + 56, h->first_record, 8);
	memcpy(p + STENO_SEGMENT_PREVIOUS, h->previous, STENO_HASH_SIZE);
	steno_put_le(p + 96, (uint64_t) h->before.first, 8);
	steno_put_le(p + 104, (uint64_t) h->before.last_end, 8);
	steno_put_le(p + 112, h->last_start, 8);
	steno_put_le(p + STENO_SEGMENT_SUM, XXH64(p, STENO_SEGMENT_SUM, 0), 8);
}

/* Whether magic and checksum are right; fills in *h in any case. */
static inline bool
steno_segment_header_read(const uint8_t *p, StenoSegmentHeader *h)
{
	h->version = (uint16_t) steno_get_le(p + 8, 2);
	h->length = (uint16_t) steno_get_le(p + 10, 2);
	h->flags = (uint32_t) steno_get_le(p + 12, 4);
	h->system_identifier = steno_get_le(p + 16, 8);
	h->stream = (uint32_t) steno_get_le(p + 24, 4);
	h->server_version = (uint32_t) steno_get_le(p + 28, 4);
	h->segment = steno_get_le(p + 32, 8);
	h->created = (int64_t) steno_get_le(p + 40, 8);
	h->first_block = steno_get_le(p + 48, 8);
	h->first_record = steno_get_le(p + 56, 8);
	memcpy(h->previous, p + STENO_SEGMENT_PREVIOUS, STENO_HASH_SIZE);
	h->before.first = (int64_t) steno_get_le(p + 96, 8);
	h->before.last_end = (int64_t) steno_get_le(p + 104, 8);
	h->last_start = steno_get_le(p + 112, 8);
	return memcmp(p, STENO_SEGMENT_MAGIC, 8) == 0 &&
		steno_get_le(p + STENO_SEGMENT_SUM, 8) == XXH64(p, STENO_SEGMENT_SUM, 0);
}

/* Whether the checksum of the key part of an encrypted segment's header is right. */
static inline bool
steno_segment_key_whole(const uint8_t *p)
{
	return steno_get_le(p + STENO_SEGMENT_KEY_SUM, 8) == XXH64(p, STENO_SEGMENT_KEY_SUM, 0);
}

/* ---- block header ---- */

#define STENO_BLOCK_FLAGS 7		/* offset of the flags */
#define STENO_BLOCK_CHAINED 72	/* header bytes that the chain hash covers */
#define STENO_BLOCK_SUM 104

/* Header bytes that an encrypted payload is bound to: those known before it is encrypted. */
#define STENO_BLOCK_BOUND 64

/* Flags. */
#define STENO_BLOCK_ENCRYPTED 1

typedef struct StenoBlockHeader
{
	uint8_t		codec;
	uint8_t		flags;
	uint32_t	stored;
	uint32_t	raw;
	uint32_t	records;
	uint64_t	block;
	uint64_t	first_record;
	int64_t		first_time;
	int64_t		first_end;
	int64_t		last_end;
	uint64_t	payload_sum;
	uint8_t		chain[STENO_HASH_SIZE];
} StenoBlockHeader;

/* Write everything but the chain hash and the checksum, which cover it. */
static inline void
steno_block_header_write(uint8_t *p, const StenoBlockHeader *h)
{
	memcpy(p, STENO_BLOCK_MAGIC, 4);
	steno_put_le(p + 4, STENO_BLOCK_HEADER, 2);
	p[6] = h->codec;
	p[7] = h->flags;
	steno_put_le(p + 8, h->stored, 4);
	steno_put_le(p + 12, h->raw, 4);
	steno_put_le(p + 16, h->records, 4);
	steno_put_le(p + 20, 0, 4);
	steno_put_le(p + 24, h->block, 8);
	steno_put_le(p + 32, h->first_record, 8);
	steno_put_le(p + 40, (uint64_t) h->first_time, 8);
	steno_put_le(p + 48, (uint64_t) h->first_end, 8);
	steno_put_le(p + 56, (uint64_t) h->last_end, 8);
	steno_put_le(p + 64, h->payload_sum, 8);
}

static inline void
steno_block_header_seal(uint8_t *p, const uint8_t chain[STENO_HASH_SIZE])
{
	memcpy(p + STENO_BLOCK_CHAINED, chain, STENO_HASH_SIZE);
	steno_put_le(p + STENO_BLOCK_SUM, XXH64(p, STENO_BLOCK_SUM, 0), 8);
}

/* Whether the header is whole and its lengths are possible. */
static inline bool
steno_block_header_read(const uint8_t *p, StenoBlockHeader *h)
{
	h->codec = p[6];
	h->flags = p[7];
	h->stored = (uint32_t) steno_get_le(p + 8, 4);
	h->raw = (uint32_t) steno_get_le(p + 12, 4);
	h->records = (uint32_t) steno_get_le(p + 16, 4);
	h->block = steno_get_le(p + 24, 8);
	h->first_record = steno_get_le(p + 32, 8);
	h->first_time = (int64_t) steno_get_le(p + 40, 8);
	h->first_end = (int64_t) steno_get_le(p + 48, 8);
	h->last_end = (int64_t) steno_get_le(p + 56, 8);
	h->payload_sum = steno_get_le(p + 64, 8);
	memcpy(h->chain, p + STENO_BLOCK_CHAINED, STENO_HASH_SIZE);
	return memcmp(p, STENO_BLOCK_MAGIC, 4) == 0 &&
		steno_get_le(p + 4, 2) == STENO_BLOCK_HEADER &&
		steno_get_le(p + STENO_BLOCK_SUM, 8) == XXH64(p, STENO_BLOCK_SUM, 0) &&
		h->raw <= STENO_MAX_RAW;
}

/* Add the times of a block to those of its segment, if they are known. */
static inline void
steno_range_add(StenoTimeRange *t, const StenoBlockHeader *h)
{
	if (h->records == 0 || !steno_range_known(t))
		return;
	if (h->first_time < t->first)
		t->first = h->first_time;
	if (h->last_end > t->last_end)
		t->last_end = h->last_end;
}

#endif							/* STENO_HEADER_H */
