/*
 * core/trail/block.h
 *		The block builder: messages in, one block of the trail out.
 *
 * A writer owns one builder and one StenoSource for each of its rings.  It adds
 * messages until a block is full or due, finishes it, and hands it to the
 * stream (segment.h).  Nothing is allocated after creation.
 */
#ifndef STENO_BLOCK_H
#define STENO_BLOCK_H

#include "crypto/crypt.h"
#include "ring/message.h"

/* Where a template of a ring stands in the block of a generation. */
typedef struct StenoTemplatePlace
{
	uint64_t	generation;
	uint32_t	shape;
	uint32_t	text;
	uint16_t	version;
} StenoTemplatePlace;

/* What the writer knows of the producer of one ring. */
typedef struct StenoSource
{
	uint32_t	body_len;		/* 0: no session yet */
	uint32_t	index;			/* of its definition in the block ... */
	uint64_t	generation;		/* ... of this generation */
	uint64_t	seq;			/* last sequence number added */
	uint64_t	statement;		/* last finished top-level statement */
	const StenoTemplate *templates; /* of the ring; NULL: none */
	StenoTemplatePlace	places[STENO_TEMPLATES];
	uint8_t		body[STENO_SESSION_MAX];
} StenoSource;

typedef struct StenoBlock StenoBlock;

/*
 * A builder for blocks of at most capacity bytes before compression (64 kB to
 * STENO_MAX_RAW); NULL when memory is short.
 */
extern StenoBlock *steno_block_create(uint32_t capacity);
extern void steno_block_destroy(StenoBlock *block);

/*
 * Add a message.  A session message changes the source only.  Returns false,
 * with nothing changed, when the block has no room: write it and add again.
 * An empty block has room for any message that is 2 kB shorter than its
 * capacity, so a ring's max_message must be.
 */
extern bool steno_block_add(StenoBlock *block, StenoSource *source,
							const StenoMessage *message);

/*
 * Put other bytes in the place of some that were added, where they stand first; false
 * when they are not there.
 */
extern bool steno_block_replace(StenoBlock *block, const void *from, const void *to, size_t len);

/* Records (kinds 1-63), and bytes of payload, added since the last reset. */
extern uint32_t steno_block_records(const StenoBlock *block);
extern uint32_t steno_block_bytes(const StenoBlock *block);

/*
 * Compress, fill in the header and chain: the block is then *bytes long at the
 * returned address until the next reset.  chain is the previous hash on entry
 * and this block's on return.  now is used as the times of a block without
 * records.  A payload that compression does not make smaller is stored as it
 * is.  NULL, with chain as it was, should hashing or encryption fail.  To finish
 * the same block again, give it the same previous hash again.
 */
extern const uint8_t *steno_block_finish(StenoBlock *block, int codec,
										 uint64_t block_number,
										 uint64_t first_record, int64_t now,
										 uint8_t chain[STENO_HASH_SIZE],
										 size_t *bytes);

/*
 * Encrypt the blocks that are finished from now on while the open segment of
 * these keys' stream is encrypted.  NULL: never.
 */
extern void steno_block_set_crypt(StenoBlock *block, StenoCrypt *crypt);

/* Empty the builder, dictionaries included. */
extern void steno_block_reset(StenoBlock *block);

#endif							/* STENO_BLOCK_H */
