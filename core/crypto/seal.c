/*
 * core/crypto/seal.c
 *		Seals: what is signed, and the record that says it.
 */
#include <stdio.h>
#include <string.h>

#include <openssl/sha.h>

#include "trail/header.h"
#include "crypto/seal.h"

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
steno_key_public(const EVP_PKEY * key, uint8_t public_key[STENO_SEAL_KEY_SIZE])
{
	size_t		len = STENO_SEAL_KEY_SIZE;

	return EVP_PKEY_id(key) == EVP_PKEY_ED25519 &&
		EVP_PKEY_get_raw_public_key(key, public_key, &len) == 1 && len == STENO_SEAL_KEY_SIZE;
}

static void
hex(char *to, const uint8_t *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	size_t		i;

	for (i = 0; i < len; i++)
	{
		*to++ = digits[bytes[i] >> 4];
		*to++ = digits[bytes[i] & 15];
	}
	*to = '\0';
}

void
steno_seal_key_id(const uint8_t public_key[STENO_SEAL_KEY_SIZE], char id[STENO_SEAL_KEY_ID])
{
	uint8_t		hash[SHA256_DIGEST_LENGTH];

	SHA256(public_key, STENO_SEAL_KEY_SIZE, hash);
	hex(id, hash, (STENO_SEAL_KEY_ID - 1) / 2);
}

static bool
sign(const StenoSeal *seal, EVP_PKEY * key, uint8_t signature[STENO_SIGNATURE_SIZE])
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
steno_seal_signature(const StenoSeal *seal, EVP_PKEY * key, char digits[STENO_SIGNATURE_DIGITS + 1])
{
	uint8_t		signature[STENO_SIGNATURE_SIZE];

	if (!sign(seal, key, signature))
		return false;
	hex(digits, signature, sizeof(signature));
	return true;
}

static uint8_t *
put_pair(uint8_t *p, StenoRecordMessage *r, const char *name, const char *value)
{
	size_t		name_len = strlen(name);
	size_t		value_len = strlen(value);

	p = steno_put_varint(p, name_len);
	memcpy(p, name, name_len);
	p = steno_put_varint(p + name_len, value_len);
	memcpy(p, value, value_len);
	r->extra_count++;
	return p + value_len;
}

static uint8_t *
put_number(uint8_t *p, StenoRecordMessage *r, const char *name, uint64_t value)
{
	char		digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long) value);
	return put_pair(p, r, name, digits);
}

static uint8_t *
put_hex(uint8_t *p, StenoRecordMessage *r, const char *name, const uint8_t *bytes, size_t len)
{
	char		digits[2 * STENO_SIGNATURE_SIZE + 1];

	hex(digits, bytes, len);
	return put_pair(p, r, name, digits);
}

const StenoMessage *
steno_seal_message(uint8_t buffer[STENO_SEAL_ROOM], const StenoSeal *seal,
				   EVP_PKEY * key, uint64_t seq)
{
	static const uint8_t none[STENO_SEAL_KEY_SIZE];
	StenoRecordMessage *r = (StenoRecordMessage *) buffer;
	uint8_t    *extra = buffer + sizeof(*r);
	uint8_t    *p = extra;
	uint8_t		signature[STENO_SIGNATURE_SIZE];
	uint8_t		public_key[STENO_SEAL_KEY_SIZE];
	char		id[STENO_SEAL_KEY_ID];

	if (!steno_key_public(key, public_key) || !sign(seal, key, signature))
		return NULL;
	steno_seal_key_id(public_key, id);
	memset(buffer, 0, STENO_SEAL_ROOM);
	r->m.kind = STENO_KIND_SEAL;
	r->seq = seq;
	r->time = seal->time;
	r->duration = STENO_NONE64;
	r->rows = STENO_NONE64;
	r->text_len = STENO_NONE32;
	p = put_pair(p, r, "reason", seal->reason);
	p = put_number(p, r, "block", seal->block);
	p = put_number(p, r, "record", seal->record);
	p = put_hex(p, r, "hash", seal->hash, STENO_HASH_SIZE);
	p = put_number(p, r, "first", seal->first);
	p = put_number(p, r, "interval", seal->interval);
	p = put_pair(p, r, "key", id);
	if (memcmp(seal->next_key, none, STENO_SEAL_KEY_SIZE) != 0)
		p = put_hex(p, r, "next_key", seal->next_key, STENO_SEAL_KEY_SIZE);
	p = put_hex(p, r, "signature", signature, STENO_SIGNATURE_SIZE);
	r->extra_len = (uint32_t) (p - extra);
	r->m.len = (uint32_t) ((p - buffer + 7) & ~7);
	return &r->m;
}
