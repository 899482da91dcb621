/*
 * core/trail/seal_record.c
 *		Makes the record of a seal, as a message for the block builder.
 */
#include <stdio.h>

#include "codec.h"
#include "scan.h"
#include "trail/seal_record.h"

static uint8_t *
put_pair(uint8_t *p, StenoRecordMessage *r, const char *name, const char *value)
{
	r->extra_count++;
	return steno_put_pair(p, name, value);
}

static uint8_t *
put_pair_number(uint8_t *p, StenoRecordMessage *r, const char *name, uint64_t value)
{
	char		digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long) value);
	return put_pair(p, r, name, digits);
}

static uint8_t *
put_hex(uint8_t *p, StenoRecordMessage *r, const char *name, const uint8_t *bytes, size_t len)
{
	char		digits[2 * STENO_SIGNATURE_SIZE + 1];

	steno_put_hex(digits, bytes, len);
	return put_pair(p, r, name, digits);
}

const StenoMessage *
steno_seal_message(uint8_t buffer[STENO_SEAL_ROOM], const StenoSeal *seal,
				   EVP_PKEY *key, uint64_t seq)
{
	static const uint8_t none[STENO_SEAL_KEY_SIZE];
	StenoRecordMessage *r = (StenoRecordMessage *) buffer;
	uint8_t    *extra = buffer + sizeof(*r);
	uint8_t    *p = extra;
	uint8_t		signature[STENO_SIGNATURE_SIZE];
	uint8_t		public_key[STENO_SEAL_KEY_SIZE];
	char		id[STENO_SEAL_KEY_ID];

	if (!steno_key_public(key, public_key) || !steno_seal_sign(seal, key, signature))
		return NULL;
	steno_seal_key_id(public_key, id);
	memset(buffer, 0, STENO_SEAL_ROOM);
	steno_message_init(r, STENO_KIND_SEAL, seq, seal->time);
	p = put_pair(p, r, "reason", seal->reason);
	p = put_pair_number(p, r, "block", seal->block);
	p = put_pair_number(p, r, "record", seal->record);
	p = put_hex(p, r, "hash", seal->hash, STENO_HASH_SIZE);
	p = put_pair_number(p, r, "first", seal->first);
	p = put_pair_number(p, r, "interval", seal->interval);
	p = put_pair(p, r, "key", id);
	if (memcmp(seal->next_key, none, STENO_SEAL_KEY_SIZE) != 0)
		p = put_hex(p, r, "next_key", seal->next_key, STENO_SEAL_KEY_SIZE);
	p = put_hex(p, r, "signature", signature, STENO_SIGNATURE_SIZE);
	r->extra_len = (uint32_t) (p - extra);
	steno_message_end(r, p);
	return &r->m;
}
