/*
 * core/crypto/crypt.c
 *		Encryption of segments, on libcrypto.
 *
 * libcrypto keeps expanded keys in its own memory.  So a cipher context is used for
 * one call only; libcrypto overwrites it when it is freed.  The cost of that is
 * small compared with encrypting a block.
 */
#include <sys/mman.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "crypto/crypt.h"

/*
 * Prefix of the key in the hash that is its key ID, so that no other use of the key
 * has the same input.
 */
#define KEY_ID_TAG "pg_steno key id"

/* The part of a segment header that its wrapped data key is bound to: up to the segment's number. */
#define HEADER_BOUND 40

struct StenoCrypt
{
	bool		has_key;		/* for segments that are begun from now on */
	uint8_t		key[STENO_KEY_SIZE];
	uint8_t		key_id[STENO_KEY_ID_SIZE];
	bool		active;			/* the open segment is encrypted */
	uint8_t		active_id[STENO_KEY_ID_SIZE];
	uint8_t		data_key[STENO_KEY_SIZE];
	uint8_t		next_data_key[STENO_KEY_SIZE];	/* data key of the segment that is being begun */
	StenoRandom random;
};

void
steno_cleanse(void *secret, size_t len)
{
	OPENSSL_cleanse(secret, len);
}

static bool
random_bytes(uint8_t *bytes, size_t len)
{
	return RAND_priv_bytes(bytes, (int) len) == 1;
}

/* ---- AES-256-GCM ---- */

static bool
gcm_encrypt(const uint8_t *key, const uint8_t *nonce, const uint8_t *bound, size_t bound_len,
			const uint8_t *in, size_t len, uint8_t *out, uint8_t *tag)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	int			n;
	bool		ok;

	ok = ctx != NULL &&
		EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
		EVP_EncryptUpdate(ctx, NULL, &n, bound, (int) bound_len) == 1 &&
		EVP_EncryptUpdate(ctx, out, &n, in, (int) len) == 1 &&
		EVP_EncryptFinal_ex(ctx, out + len, &n) == 1 &&
		EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, STENO_TAG_SIZE, tag) == 1;
	EVP_CIPHER_CTX_free(ctx);
	return ok;
}

static bool
gcm_decrypt(const uint8_t *key, const uint8_t *nonce, const uint8_t *bound, size_t bound_len,
			const uint8_t *in, size_t len, uint8_t *out, const uint8_t *tag)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t		copy[STENO_TAG_SIZE];
	int			n;
	bool		ok;

	memcpy(copy, tag, sizeof(copy));
	ok = ctx != NULL &&
		EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
		EVP_DecryptUpdate(ctx, NULL, &n, bound, (int) bound_len) == 1 &&
		EVP_DecryptUpdate(ctx, out, &n, in, (int) len) == 1 &&
		EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, STENO_TAG_SIZE, copy) == 1 &&
		EVP_DecryptFinal_ex(ctx, out + len, &n) == 1;
	EVP_CIPHER_CTX_free(ctx);
	if (!ok)
		steno_cleanse(out, len);
	return ok;
}

/* ---- keys ---- */

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool
steno_key_parse(const char *text, size_t len, uint8_t key[STENO_KEY_SIZE])
{
	size_t		i;

	while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL && text[len - 1] != '\0')
		len--;
	if (len != STENO_KEY_DIGITS)
		return false;
	for (i = 0; i < STENO_KEY_SIZE; i++)
	{
		int			high = hex_digit(text[2 * i]);
		int			low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
		{
			steno_cleanse(key, STENO_KEY_SIZE);
			return false;
		}
		key[i] = (uint8_t) (high << 4 | low);
	}
	return true;
}

bool
steno_key_id(const uint8_t key[STENO_KEY_SIZE], uint8_t id[STENO_KEY_ID_SIZE])
{
	uint8_t		bytes[sizeof(KEY_ID_TAG) + STENO_KEY_SIZE];
	uint8_t		hash[EVP_MAX_MD_SIZE];
	bool		ok;

	/* the tag with its terminating zero */
	memcpy(bytes, KEY_ID_TAG, sizeof(KEY_ID_TAG));
	memcpy(bytes + sizeof(KEY_ID_TAG), key, STENO_KEY_SIZE);
	ok = EVP_Digest(bytes, sizeof(bytes), hash, NULL, EVP_sha256(), NULL) == 1;
	if (ok)
		memcpy(id, hash, STENO_KEY_ID_SIZE);
	steno_cleanse(bytes, sizeof(bytes));
	return ok;
}

bool
steno_data_key_read(const uint8_t *header, const uint8_t key[STENO_KEY_SIZE],
					uint8_t data_key[STENO_KEY_SIZE])
{
	return gcm_decrypt(key, header + STENO_SEGMENT_NONCE, header, HEADER_BOUND,
					   header + STENO_SEGMENT_DATA_KEY, STENO_KEY_SIZE, data_key,
					   header + STENO_SEGMENT_TAG);
}

/* ---- a writer's keys ---- */

StenoCrypt *
steno_crypt_create(void)
{
	StenoCrypt *crypt = mmap(NULL, sizeof(StenoCrypt), PROT_READ | PROT_WRITE,
							 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (crypt == MAP_FAILED)
		return NULL;
	/* these only harden the page, so failures are ignored */
	(void) madvise(crypt, sizeof(StenoCrypt), MADV_DONTDUMP);
	(void) madvise(crypt, sizeof(StenoCrypt), MADV_DONTFORK);
	(void) mlock(crypt, sizeof(StenoCrypt));
	crypt->random = random_bytes;
	return crypt;
}

void
steno_crypt_destroy(StenoCrypt *crypt)
{
	if (crypt == NULL)
		return;
	steno_cleanse(crypt, sizeof(StenoCrypt));
	munmap(crypt, sizeof(StenoCrypt));
}

bool
steno_crypt_set_key(StenoCrypt *crypt, const uint8_t *key)
{
	crypt->has_key = false;
	steno_cleanse(crypt->key, sizeof(crypt->key));
	if (key == NULL)
		return true;
	if (!steno_key_id(key, crypt->key_id))
		return false;
	memcpy(crypt->key, key, STENO_KEY_SIZE);
	crypt->has_key = true;
	return true;
}

bool
steno_crypt_has_key(const StenoCrypt *crypt)
{
	return crypt != NULL && crypt->has_key;
}

const uint8_t *
steno_crypt_key_id(const StenoCrypt *crypt)
{
	return crypt->key_id;
}

bool
steno_crypt_active(const StenoCrypt *crypt)
{
	return crypt != NULL && crypt->active;
}

void
steno_crypt_forget(StenoCrypt *crypt)
{
	if (crypt == NULL)
		return;
	crypt->active = false;
	steno_cleanse(crypt->data_key, sizeof(crypt->data_key));
}

bool
steno_crypt_stale(const StenoCrypt *crypt)
{
	if (crypt == NULL)
		return false;
	if (crypt->active != crypt->has_key)
		return true;
	return crypt->active && memcmp(crypt->active_id, crypt->key_id, STENO_KEY_ID_SIZE) != 0;
}

void
steno_crypt_set_random(StenoCrypt *crypt, StenoRandom random)
{
	crypt->random = random;
}

/* ---- segments and blocks ---- */

void
steno_crypt_describe(const StenoCrypt *crypt, StenoSegmentHeader *header)
{
	header->flags = steno_crypt_has_key(crypt) ? STENO_SEGMENT_ENCRYPTED : 0;
	header->length = steno_segment_header_length(header->flags);
}

bool
steno_crypt_begin(StenoCrypt *crypt, uint8_t *header)
{
	uint8_t    *nonce = header + STENO_SEGMENT_NONCE;

	if (!steno_crypt_has_key(crypt))
		return true;
	memset(header + STENO_SEGMENT_HEADER, 0, STENO_SEGMENT_HEADER_ENCRYPTED - STENO_SEGMENT_HEADER);
	memcpy(header + STENO_SEGMENT_KEY_ID, crypt->key_id, STENO_KEY_ID_SIZE);
	if (!crypt->random(crypt->next_data_key, STENO_KEY_SIZE) ||
		!crypt->random(nonce, STENO_NONCE_SIZE) ||
		!gcm_encrypt(crypt->key, nonce, header, HEADER_BOUND, crypt->next_data_key, STENO_KEY_SIZE,
					 header + STENO_SEGMENT_DATA_KEY, header + STENO_SEGMENT_TAG))
		return false;
	steno_put_le(header + STENO_SEGMENT_KEY_SUM, XXH64(header, STENO_SEGMENT_KEY_SUM, 0), 8);
	return true;
}

void
steno_crypt_begun(StenoCrypt *crypt)
{
	if (crypt == NULL)
		return;
	crypt->active = crypt->has_key;
	memcpy(crypt->active_id, crypt->key_id, STENO_KEY_ID_SIZE);
	memcpy(crypt->data_key, crypt->next_data_key, STENO_KEY_SIZE);
	steno_cleanse(crypt->next_data_key, STENO_KEY_SIZE);
}

bool
steno_crypt_payload(StenoCrypt *crypt, const uint8_t *header, const uint8_t *payload,
					size_t len, uint8_t *out)
{
	uint8_t    *bytes = out + STENO_NONCE_SIZE;

	return crypt->random(out, STENO_NONCE_SIZE) &&
		gcm_encrypt(crypt->data_key, out, header, STENO_BLOCK_BOUND, payload, len,
					bytes, bytes + len);
}

bool
steno_payload_decrypt(const uint8_t data_key[STENO_KEY_SIZE], const uint8_t *header,
					  const uint8_t *stored, size_t len, uint8_t *out)
{
	if (len < STENO_PAYLOAD_EXTRA)
		return false;
	len -= STENO_PAYLOAD_EXTRA;
	return gcm_decrypt(data_key, stored, header, STENO_BLOCK_BOUND, stored + STENO_NONCE_SIZE, len, out,
					   stored + STENO_NONCE_SIZE + len);
}
