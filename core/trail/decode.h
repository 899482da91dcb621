/*
 * core/trail/decode.h
 *		The decoder: reads blocks back, for tests and recovery.
 *
 * Its input is not trusted: whatever the bytes are, it reads nothing beyond them,
 * terminates, and allocates at most a small multiple of their number, and STENO_VARIANTS_MAX for
 * texts.  All strings that it returns point into the payload that it was given, or, like
 * some texts, into memory that steno_decoder_end frees.
 */
#ifndef STENO_DECODE_H
#define STENO_DECODE_H

#include "codec.h"
#include "crypto/crypt.h"
#include "ring/message.h"

/*
 * A record (kinds 1-63) or a data part (kind 64).  A data part has only session,
 * seq, part and values.
 */
typedef struct StenoTrailRecord
{
	uint8_t		kind;
	uint32_t	mask;			/* fields that are present; without unknown bits */
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
	StenoBytes	values;			/* a data part's bytes */
	uint64_t	depth;
	uint64_t	substatement;
	uint8_t		outcome;
	StenoBytes	sqlstate;
	StenoBytes	message;
	uint64_t	xid;
	uint64_t	cut_len;
	StenoBytes	cut_hash;
	uint64_t	parts[3];
	uint8_t		audited;		/* STENO_AUDITED_*; 0: only by the session's settings */
	uint64_t	extra_count;
	StenoBytes	extra;			/* pairs of strings */
	uint8_t		event;			/* STENO_EVENT_* */
	uint64_t	statements;
	uint64_t	lsn;			/* where the WAL record of a commit begins, and ends */
	uint64_t	lsn_end;
	uint64_t	timeline;
	StenoTimes	times;			/* zeros and STENO_NONE64: not said */
	uint8_t		part;			/* the string that a data part belongs to */
} StenoTrailRecord;

typedef struct StenoDefinition
{
	StenoBytes	body;
	uint64_t	a;				/* session: last sequence number; shape: parameters */
	uint64_t	b;				/* session: last finished statement */
	uint64_t	c;				/* session: last transaction ID */
} StenoDefinition;

/* What records of one statement of a session have in common. */
typedef struct StenoForm
{
	uint32_t	session;
	uint32_t	mask;
	uint64_t	shape;			/* indexes, if the mask has these fields */
	uint64_t	text;
	uint64_t	rows;			/* plus 1; 0: each record has its own number */
	uint64_t	values_len;
	bool		varies;			/* each record has a text of its own, which begins and ends as text does ... */
	uint64_t	before;			/* ... with so many bytes ... */
	uint64_t	after;			/* ... and so many */
} StenoForm;

/* Memory for texts that are not in the payload as a whole. */
typedef struct StenoTexts
{
	struct StenoTexts *before;
	size_t		used;
	size_t		room;
	uint8_t		bytes[];
} StenoTexts;

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
	int64_t		time;			/* time of the record before */
	uint64_t	lsn;			/* where the WAL record of the last commit before ended */
	StenoTimes	times;			/* of the next record ... */
	bool		timed;			/* ... if it has any */
	uint64_t	memory;			/* bytes that definitions may still take: FORMAT.md */
	StenoDefinitions sessions;
	StenoDefinitions shapes;
	StenoBytes *texts;
	uint32_t	ntexts;
	uint32_t	texts_room;
	StenoForm  *forms;
	uint32_t	nforms;
	uint32_t	forms_room;
	StenoBytes	run;			/* records of the last item that have not been taken ... */
	uint64_t	run_left;		/* ... how many these are ... */
	const uint8_t *run_start;	/* ... and where that item begins */
	StenoTexts *variants;
	uint64_t	variants_bytes;
} StenoDecoder;

typedef enum
{
	STENO_DECODED_END,
	STENO_DECODED_RECORD,
	STENO_DECODED_BAD			/* malformed item at d->p, or out of memory; of a run, records may have been returned */
} StenoDecoded;

extern void steno_decoder_begin(StenoDecoder *d, const uint8_t *payload, size_t len,
								int64_t first_time);

/* Take the next record or data part. */
extern StenoDecoded steno_decoder_next(StenoDecoder *d, StenoTrailRecord *record);
extern void steno_decoder_end(StenoDecoder *d);

/*
 * Check a block of len bytes and return its header and payload; the caller frees
 * *buffer.  False if the bytes are not exactly one whole block, or out of memory.
 */
extern bool steno_block_open(const uint8_t *bytes, size_t len, StenoBlockHeader *header,
							 StenoBytes *payload, uint8_t **buffer);

/*
 * The same for a block of an encrypted segment; data_key is the segment's, or NULL
 * if it is not encrypted.
 */
extern bool steno_block_decrypt(const uint8_t *bytes, size_t len, const uint8_t *data_key,
								StenoBlockHeader *header, StenoBytes *payload, uint8_t **buffer);

#endif							/* STENO_DECODE_H */
