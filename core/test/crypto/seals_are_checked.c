/*
 * core/test/crypto/seals_are_checked.c
 *		A seal's signature is over all that it says, and right for its key only.
 */
#include <string.h>

#include "trail/seal_record.h"
#include "test/test.h"

static EVP_PKEY *
key(uint8_t byte)
{
	uint8_t		bytes[32];

	memset(bytes, byte, sizeof(bytes));
	return EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, bytes, sizeof(bytes));
}

static StenoSeal
example(void)
{
	StenoSeal	s = {.system_identifier = 1,.stream = 2,.interval = 3,.segment = 4,.block = 5,.record = 6,
	.first = 7,.time = -8,.reason = "interval"};

	memset(s.hash, 9, sizeof(s.hash));
	memset(s.next_key, 10, sizeof(s.next_key));
	return s;
}

/* The value of a pair in a seal's message. */
static const char *
value(const StenoMessage *m, const char *name, size_t *len)
{
	const uint8_t *p = (const uint8_t *) ((const StenoRecordMessage *) m + 1);
	const uint8_t *end = p + ((const StenoRecordMessage *) m)->extra_len;

	while (p < end)
	{
		size_t		name_len = *p++;
		const uint8_t *at = p;

		p += name_len;
		*len = *p++;
		if (*len >= 0x80)
			*len += ((size_t) *p++ << 7) - 0x80;
		if (name_len == strlen(name) && memcmp(at, name, name_len) == 0)
			return (const char *) p;
		p += *len;
	}
	return NULL;
}

static bool
verify(const StenoSeal *s, const StenoMessage *m, EVP_PKEY *by)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	uint8_t		bytes[STENO_SEAL_SIZE];
	uint8_t		signature[STENO_SIGNATURE_SIZE];
	size_t		len;
	const char *digits = value(m, "signature", &len);
	bool		ok;
	size_t		i;

	CHECK(digits != NULL && len == 2 * sizeof(signature));
	for (i = 0; i < sizeof(signature); i++)
	{
		unsigned	byte;

		CHECK(sscanf(digits + 2 * i, "%2x", &byte) == 1);
		signature[i] = (uint8_t) byte;
	}
	steno_seal_bytes(s, bytes);
	ok = EVP_DigestVerifyInit(context, NULL, NULL, NULL, by) == 1 &&
		EVP_DigestVerify(context, signature, sizeof(signature), bytes, sizeof(bytes)) == 1;
	EVP_MD_CTX_free(context);
	return ok;
}

TEST(seal_is_right_for_what_it_says_and_its_key_only)
{
	uint64_t	buffer[STENO_SEAL_ROOM / 8];
	EVP_PKEY   *one = key(1);
	EVP_PKEY   *two = key(2);
	StenoSeal	s = example();
	const StenoMessage *m = steno_seal_message((uint8_t *) buffer, &s, one, 11);
	size_t		i;

	CHECK(m != NULL && steno_message_is_whole(m, STENO_SEAL_ROOM));
	CHECK(m->kind == STENO_KIND_SEAL);
	CHECK(verify(&s, m, one));
	CHECK(!verify(&s, m, two));

	/* a change of any byte of any field */
	for (i = 0; i < offsetof(StenoSeal, reason); i++)
	{
		StenoSeal	other = s;
		uint8_t		bytes[STENO_SEAL_SIZE];
		uint8_t		same[STENO_SEAL_SIZE];

		((uint8_t *) &other)[i] ^= 1;
		steno_seal_bytes(&other, bytes);
		steno_seal_bytes(&s, same);
		CHECK(memcmp(bytes, same, sizeof(bytes)) != 0);
		CHECK(!verify(&other, m, one));
	}
	s.reason = "interva";
	CHECK(!verify(&s, m, one));
	EVP_PKEY_free(one);
	EVP_PKEY_free(two);
}

TEST(seal_needs_an_ed25519_key)
{
	uint64_t	buffer[STENO_SEAL_ROOM / 8];
	EVP_PKEY   *other = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
	StenoSeal	s = example();

	CHECK(other != NULL);
	CHECK(steno_seal_message((uint8_t *) buffer, &s, other, 1) == NULL);
	EVP_PKEY_free(other);
}
