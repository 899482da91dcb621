/*
 * core/trail/seal_record.h
 *		The record of a seal, of kind STENO_KIND_SEAL.
 */
#ifndef STENO_SEAL_RECORD_H
#define STENO_SEAL_RECORD_H

#include "crypto/seal.h"
#include "ring/message.h"

#define STENO_SEAL_ROOM 1024	/* size of the buffer for the message */

/*
 * Sign a seal and write its record to buffer, which is aligned to 8 bytes.  NULL if
 * signing fails.
 */
extern const StenoMessage *steno_seal_message(uint8_t buffer[STENO_SEAL_ROOM], const StenoSeal *seal,
											  EVP_PKEY *key, uint64_t seq);

#endif							/* STENO_SEAL_RECORD_H */
