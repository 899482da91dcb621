/*
 * core/crypto/seal.h
 *		Seals: signatures over the hash that a stream's chain has come to.
 *
 * A seal is about the block before the one that its record (trail/seal_record.h)
 * is in.  When seals are made, and with which key, is the caller's decision.
 */
#ifndef STENO_SEAL_H
#define STENO_SEAL_H

#include <stdbool.h>

#include <openssl/evp.h>

#include "defs.h"

#define STENO_SEAL_KEY_SIZE 32		/* of a public key */
#define STENO_SEAL_KEY_ID 17			/* its id in hexadecimal, with the zero */
#define STENO_SIGNATURE_SIZE 64
#define STENO_SIGNATURE_DIGITS (2 * STENO_SIGNATURE_SIZE)
#define STENO_SEAL_SIZE 144		/* of what is signed */

typedef struct StenoSeal
{
	uint64_t	system_identifier;
	uint32_t	stream;
	uint32_t	interval;		/* seconds; 0: only at ends of segments */
	uint64_t	segment;		/* that it stands in */
	uint64_t	block;			/* that is sealed */
	uint64_t	record;			/* the last one up to its end */
	uint64_t	first;			/* block that the one who seals has written
								 * itself */
	int64_t		time;
	uint8_t		hash[STENO_HASH_SIZE];	/* of the block */
	uint8_t		next_key[STENO_SEAL_KEY_SIZE];	/* zeros: none */
	const char *reason;			/* at most 8 characters */
} StenoSeal;

/* What the signature is over. */
extern void steno_seal_bytes(const StenoSeal *seal, uint8_t bytes[STENO_SEAL_SIZE]);

/* Of an Ed25519 key, private or public. */
extern bool steno_key_public(const EVP_PKEY * key, uint8_t public_key[STENO_SEAL_KEY_SIZE]);
extern void steno_seal_key_id(const uint8_t public_key[STENO_SEAL_KEY_SIZE], char id[STENO_SEAL_KEY_ID]);

/* A seal's signature, always the same, as it stands in its record, with a zero. */
extern bool steno_seal_signature(const StenoSeal *seal, EVP_PKEY * key,
								 char digits[STENO_SIGNATURE_DIGITS + 1]);

/* Sign with an Ed25519 key; false when OpenSSL cannot. */
extern bool steno_seal_sign(const StenoSeal *seal, EVP_PKEY * key, uint8_t signature[STENO_SIGNATURE_SIZE]);

#endif							/* STENO_SEAL_H */
