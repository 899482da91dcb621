/*
 * core/trail/decode.h
 *		The decoder: reads blocks back, for tests and recovery.
 *
 * It trusts nothing: whatever the bytes are, it reads only them, always ends,
 * and allocates no more than a small multiple of their number.  Everything that
 * it returns points into the payload that it was given.
 */
#ifndef STENO_DECODE_H
#define STENO_DECODE_H

#include "codec.h"
#include "crypto/crypt.h"

/* A record (kinds 1-63), or a data part (kind 64), of which only session, seq, part and values count. */
typedef struct StenoTrailRecord
{
	uint8_t		kind;
	uint32_t	mask;			/* presence; unknown bits left out */
	uint32_t	session_index;
	StenoBytes	session;		/* from the start time on */
	uint64_t	seq;
	uint64_t	statement;		/* 0 for kinds that have none */
	int64_t		time;
	StenoBytes	shape;
	uint64_t	nparams;		/* of the shape */
	StenoBytes	text;
	uint64_t	rows;
	uint64_t	duration;
	StenoBytes	nulls;
	StenoBytes	values;			/* of a part: its bytes */
	uint64_t	depth;
	uint64_t	substatement;
	uint8_t		outcome;
	StenoBytes	sqlstate;
	StenoBytes	message;
	uint64_t	xid;
	uint64_t	cut_len;
	StenoBytes	cut_hash;
	uint64_t	parts[3];
	uint8_t		audited;		/* 0: by session alone */
	uint64_t	extra_count;
	StenoBytes	extra;			/* pairs of strings */
	uint8_t		part;			/* what a part continues */
} StenoTrailRecord;

typedef struct StenoDefinition
{
	StenoBytes	body;
	uint64_t	a;				/* session: last sequence number; shape: parameters */
	uint64_t	b;				/* session: last finished statement */
} StenoDefinition;

typedef struct StenoDefinitions
{
	StenoDefinition *list;
	uint32_t	n;
	uint32_t	room;
} StenoDefinitions;

typedef struct StenoDecoder
{
	const uint8_t *start;
	const uint8_t *p;			/* next item */
	const uint8_t *end;
	int64_t		time;			/* of the record before */
	StenoDefinitions sessions;
	StenoDefinitions shapes;
	StenoDefinitions texts;
} StenoDecoder;

typedef enum
{
	STENO_DECODED_END,
	STENO_DECODED_RECORD,
	STENO_DECODED_BAD			/* malformed from d->p on, or out of memory */
} StenoDecoded;

extern void steno_decoder_begin(StenoDecoder *d, const uint8_t *payload, size_t len,
								int64_t first_time);

/* The next record or data part. */
extern StenoDecoded steno_decoder_next(StenoDecoder *d, StenoTrailRecord *record);
extern void steno_decoder_end(StenoDecoder *d);

/*
 * Check a block of len bytes and give its header and payload; *buffer is to be
 * freed.  False when the bytes are not exactly one whole block, or memory is
 * short.
 */
extern bool steno_block_open(const uint8_t *bytes, size_t len, StenoBlockHeader *header,
							 StenoBytes *payload, uint8_t **buffer);

/* The same of an encrypted block too, when there is the data key of its segment. */
extern bool steno_block_decrypt(const uint8_t *bytes, size_t len, const uint8_t *data_key,
								StenoBlockHeader *header, StenoBytes *payload, uint8_t **buffer);

#endif							/* STENO_DECODE_H */
