/*
 * core/block/block.h
 *		The block builder, which makes a block of the trail from the messages of
 *		rings.
 *
 * A writer owns one builder and one StenoSource for each of its rings.  It adds
 * messages until a block is full or due, finishes it, and hands it to the
 * stream (segment.h).  Nothing is allocated after creation.
 */
#ifndef STENO_BLOCK_H
#define STENO_BLOCK_H

#include "crypto/crypt.h"
#include "ring/message.h"
#include "block/index.h"

/*
 * Where the block of this generation has the shape and the text of a statement, and the form
 * of its records.
 */
typedef struct StenoFormPlace
{
	uint64_t	generation;
	uint32_t	shape;
	uint32_t	text;
	uint16_t	version;
	bool		used;			/* a record of this block has it */
	bool		own_rows;		/* records of the form have their own numbers of rows */
	uint8_t		values_len;		/* of the form */
	uint32_t	form;			/* its index, plus 1; 0: none */
	uint32_t	session;		/* of the form */
	uint32_t	mask;			/* of the form */
	uint64_t	rows;			/* of the form, unless records have their own */
	bool		varies;			/* records have texts of their own, which begin and end as text does ... */
	uint32_t	before;			/* ... with so many bytes ... */
	uint32_t	after;			/* ... and so many */
	uint64_t	control;		/* of BEGIN and COMMIT: the text, if it is as short as that; else 0 */
} StenoFormPlace;

/* The places of templates, then those of BEGIN and COMMIT. */
#define STENO_PLACES (STENO_TEMPLATES + 2)

/* What the writer knows about the producer of one ring. */
typedef struct StenoSource
{
	uint32_t	body_len;		/* 0: no session yet */
	uint32_t	index;			/* of its session definition in the block ... */
	uint64_t	generation;		/* ... of this generation */
	uint64_t	seq;			/* last sequence number added */
	uint64_t	statement;		/* last finished top-level statement */
	const StenoTemplate *templates; /* of the ring; NULL: none */
	const uint8_t *chunks;		/* of the ring file; NULL: no message refers to one */
	StenoFormPlace	places[STENO_PLACES];
	uint8_t		body[STENO_SESSION_MAX];
} StenoSource;

typedef struct StenoBlock StenoBlock;

/*
 * Create a builder for blocks of at most capacity bytes before compression (64 kB
 * to STENO_MAX_RAW); NULL if out of memory.
 */
extern StenoBlock *steno_block_create(uint32_t capacity);
extern void steno_block_destroy(StenoBlock *block);

/*
 * Add a message.  A session message changes only the source.  Returns false, with
 * nothing changed, if the message does not fit: the caller writes the block and
 * adds the message to an empty one.  An empty block has space for any message that
 * is 2 kB shorter than its capacity, so max_message of a ring must be that small, and
 * STENO_CHUNK if there are chunks.
 */
extern bool steno_block_add(StenoBlock *block, StenoSource *source,
							const StenoMessage *message);

/*
 * Add brief records, from a position of a ring to another one, for as long as each has a form in the
 * block already, as most of them have.  What it makes of them is the same as what steno_block_add
 * would, in less time.  Returns the position of the first message that is something else, or does
 * not fit: that goes to steno_block_add.
 */
extern uint64_t steno_block_add_brief(StenoBlock *block, StenoSource *source, const uint8_t *data, uint32_t size,
									  uint64_t position, uint64_t end);

/*
 * Overwrite the first occurrence of len bytes in the payload; false if they do not
 * occur.
 */
extern bool steno_block_replace(StenoBlock *block, const void *from, const void *to, size_t len);

/* Number of records (kinds 1-63), and of bytes of payload, added since the last reset. */
extern uint32_t steno_block_records(const StenoBlock *block);
extern uint32_t steno_block_bytes(const StenoBlock *block);

/* Number of these bytes that are data parts. */
extern uint32_t steno_block_data_bytes(const StenoBlock *block);

/*
 * Compress the payload, fill in the header and chain the block.  It is *bytes long,
 * at the returned address, until the next reset.  chain is the hash of the previous
 * block on entry, and this block's on return.  A block without records gets now as
 * its times.  A payload that compression does not make smaller is stored
 * uncompressed; so is one that is mostly data parts whose samples do not become
 * smaller.  Returns NULL, with chain unchanged, if hashing or encryption
 * fails.  The same block can be finished again, with the same previous hash.
 */
extern const uint8_t *steno_block_finish(StenoBlock *block, int codec,
										 uint64_t block_number,
										 uint64_t first_record, int64_t now,
										 uint8_t chain[STENO_HASH_SIZE],
										 size_t *bytes);

/*
 * Set the keys of the stream: blocks finished from now on are encrypted if its open
 * segment is.  NULL: they never are.
 */
extern void steno_block_set_crypt(StenoBlock *block, StenoCrypt *crypt);

/*
 * Set the index to which the contents of the open block are added; the block is empty.
 * NULL: none.  Emptying the builder discards what was added and not committed.
 */
extern void steno_block_set_index(StenoBlock *block, StenoIndex *index);

/* Make the index of the committed blocks the only item of an empty block. */
extern void steno_block_add_index(StenoBlock *block);

/* Empty the builder, dictionaries included. */
extern void steno_block_reset(StenoBlock *block);

#endif							/* STENO_BLOCK_H */
