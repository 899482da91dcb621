/*
 * core/crypto/seal.c
 *		Seals: what is signed, and how.
 */
#include <string.h>

#include <openssl/sha.h>

#include "crypto/seal.h"
#include "header.h"
#include "scan.h"

#define DOMAIN "pg_steno seal v1"
#define REASON 8

_Static_assert(sizeof(DOMAIN) - 1 + 8 + 4 + 4 + 5 * 8 + STENO_HASH_SIZE + STENO_SEAL_KEY_SIZE +
			   REASON == STENO_SEAL_SIZE,
			   "the fields fill what is signed");

void
steno_seal_bytes(const StenoSeal *seal, uint8_t bytes[STENO_SEAL_SIZE])
{
	uint8_t    *p = bytes;

	memcpy(p, DOMAIN, sizeof(DOMAIN) - 1);
	p = steno_put_le(p + sizeof(DOMAIN) - 1, seal->system_identifier, 8);
	p = steno_put_le(p, seal->stream, 4);
	p = steno_put_le(p, seal->interval, 4);
	p = steno_put_le(p, seal->segment, 8);
	p = steno_put_le(p, seal->block, 8);
	p = steno_put_le(p, seal->record, 8);
	p = steno_put_le(p, seal->first, 8);
	p = steno_put_le(p, (uint64_t) seal->time, 8);
	memcpy(p, seal->hash, STENO_HASH_SIZE);
	p += STENO_HASH_SIZE;
	memcpy(p, seal->next_key, STENO_SEAL_KEY_SIZE);
	p += STENO_SEAL_KEY_SIZE;
	memset(p, 0, REASON);
	memcpy(p, seal->reason, strnlen(seal->reason, REASON));
}

bool
steno_key_public(const EVP_PKEY *key, uint8_t public_key[STENO_SEAL_KEY_SIZE])
{
	size_t		len = STENO_SEAL_KEY_SIZE;

	return EVP_PKEY_id(key) == EVP_PKEY_ED25519 &&
		EVP_PKEY_get_raw_public_key(key, public_key, &len) == 1 && len == STENO_SEAL_KEY_SIZE;
}

void
steno_seal_key_id(const uint8_t public_key[STENO_SEAL_KEY_SIZE], char id[STENO_SEAL_KEY_ID])
{
	uint8_t		hash[SHA256_DIGEST_LENGTH];

	SHA256(public_key, STENO_SEAL_KEY_SIZE, hash);
	steno_put_hex(id, hash, (STENO_SEAL_KEY_ID - 1) / 2);
}

bool
steno_seal_sign(const StenoSeal *seal, EVP_PKEY *key, uint8_t signature[STENO_SIGNATURE_SIZE])
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	uint8_t		bytes[STENO_SEAL_SIZE];
	size_t		len = STENO_SIGNATURE_SIZE;
	bool		ok;

	steno_seal_bytes(seal, bytes);
	ok = context != NULL &&
		EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
		EVP_DigestSign(context, signature, &len, bytes, sizeof(bytes)) == 1 &&
		len == STENO_SIGNATURE_SIZE;
	EVP_MD_CTX_free(context);
	return ok;
}

bool
steno_seal_signature(const StenoSeal *seal, EVP_PKEY *key, char digits[STENO_SIGNATURE_DIGITS + 1])
{
	uint8_t		signature[STENO_SIGNATURE_SIZE];

	if (!steno_seal_sign(seal, key, signature))
		return false;
	steno_put_hex(digits, signature, sizeof(signature));
	return true;
}
