/*
 * core/ring/chunk.h
 *		Chunks: memory that all producers of a ring file share, for parts of records
 *		that are too large for a ring.
 *
 * A producer that has a large record claims a chunk, copies a part of the record into
 * it, and publishes a message in its own ring that refers to the chunk.  The consumer
 * of that ring reads the chunk where it reads the message.  A chunk has no owner to
 * free it: it is free once the tail of the ring has passed the message, which is when
 * the message is in the trail.  So a chunk is kept exactly as long as the bytes of the
 * message itself, and whatever dies in between, recovery finds both or needs neither.
 *
 * A state is 0 (never used), STENO_CHUNK_CLAIMED, or the number of a ring and the end
 * of the message in it.  Between claim and publish the producer only copies, so a
 * claimed chunk is not left behind unless the whole server dies.
 *
 * Large records must not keep others from using chunks: a producer may only claim one
 * while it has not more of them than are free.  One producer gets half of them, two
 * get a third each, and so on, and some always remain for the next one.
 */
#ifndef STENO_CHUNK_H
#define STENO_CHUNK_H

#include "ring/ring.h"

#define STENO_CHUNK_CLAIMED UINT64_MAX

/* The result if no chunk can be claimed. */
#define STENO_CHUNK_NONE UINT32_MAX

static inline uint8_t *
steno_chunk_bytes(const StenoRings *rings, uint32_t chunk)
{
	return rings->chunks + (size_t) chunk * STENO_CHUNK;
}

/*
 * Producer of a ring: claim a chunk, or STENO_CHUNK_NONE.  *used is the number of
 * chunks that were in use.
 */
extern uint32_t steno_chunk_claim(const StenoRings *rings, uint32_t ring, uint32_t *used);

/* Whether nothing needs a chunk any more; not if it is claimed. */
extern bool steno_chunk_is_free(const StenoRings *rings, uint32_t chunk);

/* How many of the chunks are in use, in percent, rounded up. */
extern int	steno_chunks_used(const StenoRings *rings);

/*
 * Producer of a ring, before it publishes the message that refers to the chunk: position
 * is the end of that message.
 */
extern void steno_chunk_keep(const StenoRings *rings, uint32_t chunk, uint32_t ring, uint64_t position);

#endif							/* STENO_CHUNK_H */
