/*
 * core/crypto/seal.h
 *		Seals: signatures of the current hash of a stream's chain.
 *
 * A seal covers the chain up to the block before the one that contains its record
 * (trail/seal_record.h).  The caller decides when to make seals, and with which
 * key.
 */
#ifndef STENO_SEAL_H
#define STENO_SEAL_H

#include <stdbool.h>

#include <openssl/evp.h>

#include "defs.h"

#define STENO_SEAL_KEY_SIZE 32		/* of a public key */
#define STENO_SEAL_KEY_ID 17			/* its ID in hexadecimal, with a terminating zero */
#define STENO_SIGNATURE_SIZE 64
#define STENO_SIGNATURE_DIGITS (2 * STENO_SIGNATURE_SIZE)
#define STENO_SEAL_SIZE 144		/* of what is signed */

typedef struct StenoSeal
{
	uint64_t	system_identifier;
	uint32_t	stream;
	uint32_t	interval;		/* seconds; 0: only at ends of segments */
	uint64_t	segment;		/* segment that contains the seal */
	uint64_t	block;			/* last block that the seal covers */
	uint64_t	record;			/* number of the last record up to the end of that block */
	uint64_t	first;			/* block that the one who seals has written
								 * itself */
	int64_t		time;
	uint8_t		hash[STENO_HASH_SIZE];	/* of the block */
	uint8_t		next_key[STENO_SEAL_KEY_SIZE];	/* zeros: none */
	const char *reason;			/* at most 8 characters */
} StenoSeal;

/* The bytes that are signed. */
extern void steno_seal_bytes(const StenoSeal *seal, uint8_t bytes[STENO_SEAL_SIZE]);

/* The public key of an Ed25519 key, which may be private or public. */
extern bool steno_key_public(const EVP_PKEY *key, uint8_t public_key[STENO_SEAL_KEY_SIZE]);
extern void steno_seal_key_id(const uint8_t public_key[STENO_SEAL_KEY_SIZE], char id[STENO_SEAL_KEY_ID]);

/*
 * A seal's signature in the format of its record, with a terminating zero.
 * Signatures are deterministic.
 */
extern bool steno_seal_signature(const StenoSeal *seal, EVP_PKEY *key,
								 char digits[STENO_SIGNATURE_DIGITS + 1]);

/* Sign with an Ed25519 key; false if OpenSSL fails. */
extern bool steno_seal_sign(const StenoSeal *seal, EVP_PKEY *key, uint8_t signature[STENO_SIGNATURE_SIZE]);

#endif							/* STENO_SEAL_H */
