/*
 * core/crypto/crypt.h
 *		Encryption of segments: keys, the key part of a segment header, payloads.
 *
 * The key comes from outside and is never written to a file.  Each segment has a
 * data key of its own, made of random bytes, which is stored in the segment's
 * header, encrypted with the key; the payloads of its blocks are encrypted with the
 * data key.  Both use AES-256-GCM with random nonces, which are stored next to what
 * they were used for, so that whatever is written again, after a failure or a
 * crash, gets a new nonce.  format/FORMAT.md has the layout.
 */
#ifndef STENO_CRYPT_H
#define STENO_CRYPT_H

#include "header.h"

#define STENO_KEY_SIZE 32
#define STENO_KEY_DIGITS (2 * STENO_KEY_SIZE)
#define STENO_NONCE_SIZE 12
#define STENO_TAG_SIZE 16

/* What encryption adds to a payload: nonce before it, tag after it. */
#define STENO_PAYLOAD_EXTRA (STENO_NONCE_SIZE + STENO_TAG_SIZE)

/* ---- a writer's keys ---- */

/*
 * A writer's key and the data key of its stream's open segment.  It is in a page of
 * its own, which is excluded from core dumps, locked in memory if possible, and not
 * inherited by child processes.
 */
typedef struct StenoCrypt StenoCrypt;

/* NULL if out of memory. */
extern StenoCrypt *steno_crypt_create(void);
extern void steno_crypt_destroy(StenoCrypt *crypt);

/*
 * Set the key of segments that are begun from now on; NULL: they are not encrypted.
 * If hashing fails, there is no key, and the result is false.
 */
extern bool steno_crypt_set_key(StenoCrypt *crypt, const uint8_t *key);

/* Whether segments that are begun now are encrypted. */
extern bool steno_crypt_has_key(const StenoCrypt *crypt);

/* The key's ID; may only be called if there is a key. */
extern const uint8_t *steno_crypt_key_id(const StenoCrypt *crypt);

/*
 * Whether the open segment has another key than segments that are begun now, or
 * only one of these is encrypted.
 */
extern bool steno_crypt_stale(const StenoCrypt *crypt);

/* Source of random bytes; tests pass their own. */
typedef bool (*StenoRandom) (uint8_t *bytes, size_t len);
extern void steno_crypt_set_random(StenoCrypt *crypt, StenoRandom random);

/*
 * To begin a segment, steno_crypt_describe fills in flags and length of its header.
 * Once the first part of the header is written, steno_crypt_begin adds the key part
 * with a new data key; false if that fails.  The data key is used from
 * steno_crypt_begun on, which is called when the segment exists.
 */
extern void steno_crypt_describe(const StenoCrypt *crypt, StenoSegmentHeader *header);
extern bool steno_crypt_begin(StenoCrypt *crypt, uint8_t *header);
extern void steno_crypt_begun(StenoCrypt *crypt);

/* Whether the blocks of the open segment are encrypted. */
extern bool steno_crypt_active(const StenoCrypt *crypt);

/* No segment is open, or only one that was begun without these keys. */
extern void steno_crypt_forget(StenoCrypt *crypt);

/*
 * Encrypt a payload of len bytes for the block with this header, whose first
 * STENO_BLOCK_BOUND bytes must be filled in.  Writes nonce, encrypted payload and
 * tag to out.  The payload may already be where its encrypted bytes go.
 */
extern bool steno_crypt_payload(StenoCrypt *crypt, const uint8_t *header, const uint8_t *payload,
								size_t len, uint8_t *out);

/* ---- parts ---- */

/*
 * Parse a key: 64 hexadecimal digits and trailing white space.  False for anything
 * else.
 */
extern bool steno_key_parse(const char *text, size_t len, uint8_t key[STENO_KEY_SIZE]);
extern bool steno_key_id(const uint8_t key[STENO_KEY_SIZE], uint8_t id[STENO_KEY_ID_SIZE]);

/* Decrypt the data key in a whole segment header; false if the key is wrong. */
extern bool steno_data_key_read(const uint8_t *header, const uint8_t key[STENO_KEY_SIZE],
								uint8_t data_key[STENO_KEY_SIZE]);

/*
 * Decrypt the stored payload of a block into out, which must have room for len -
 * STENO_PAYLOAD_EXTRA bytes; false if it was not encrypted with this data key for
 * this header.
 */
extern bool steno_payload_decrypt(const uint8_t data_key[STENO_KEY_SIZE], const uint8_t *header,
								  const uint8_t *stored, size_t len, uint8_t *out);

/* Overwrite secrets, in a way that the compiler cannot optimize away. */
extern void steno_cleanse(void *secret, size_t len);

#endif							/* STENO_CRYPT_H */
