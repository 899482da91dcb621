/*
 * core/crypto/crypt.h
 *		Encryption of segments: keys, the key part of a segment header, payloads.
 *
 * The key comes from outside and never reaches a file.  Each segment has a data
 * key of its own, made of random bytes, which stands in the segment's header,
 * encrypted with the key; the payloads of its blocks are encrypted with the data
 * key.  Both by AES-256-GCM, and with nonces of random bytes that stand beside
 * what they are for: whatever is written again, after a failure or a crash, has
 * a nonce of its own.  format/FORMAT.md has the layout.
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
 * A writer's key and the data key of its stream's open segment.  It lies in a
 * page of its own, which core dumps leave out, which is not swapped where that
 * can be had, and which a child process does not get.
 */
typedef struct StenoCrypt StenoCrypt;

/* NULL when memory is short. */
extern StenoCrypt *steno_crypt_create(void);
extern void steno_crypt_destroy(StenoCrypt *crypt);

/* The key of the segments that are begun from now on; NULL: they are plain.  False, with none, should hashing fail. */
extern bool steno_crypt_set_key(StenoCrypt *crypt, const uint8_t *key);

/* Whether segments that are begun now are encrypted. */
extern bool steno_crypt_has_key(const StenoCrypt *crypt);

/* The key's id; only when there is a key. */
extern const uint8_t *steno_crypt_key_id(const StenoCrypt *crypt);

/* Whether the open segment has another key than those that are begun now, or only one of them is encrypted. */
extern bool steno_crypt_stale(const StenoCrypt *crypt);

/* Where random bytes come from; tests give their own. */
typedef bool (*StenoRandom) (uint8_t *bytes, size_t len);
extern void steno_crypt_set_random(StenoCrypt *crypt, StenoRandom random);

/*
 * Flags and length of the header of a segment that is begun now, and, once its
 * first part is written, the key part with a new data key; false when that
 * cannot be made.  The data key is used from steno_crypt_begun on, when the
 * segment is there.
 */
extern void steno_crypt_describe(const StenoCrypt *crypt, StenoSegmentHeader *header);
extern bool steno_crypt_begin(StenoCrypt *crypt, uint8_t *header);
extern void steno_crypt_begun(StenoCrypt *crypt);

/* Whether the blocks of the open segment are encrypted. */
extern bool steno_crypt_active(const StenoCrypt *crypt);

/* No segment is open, or one that was begun without these keys. */
extern void steno_crypt_forget(StenoCrypt *crypt);

/*
 * Encrypt a payload of len bytes for the block with this header, of which the
 * first STENO_BLOCK_BOUND bytes are written: nonce, encrypted payload and tag
 * are put to out.  The payload may stand where its encrypted bytes will.
 */
extern bool steno_crypt_payload(StenoCrypt *crypt, const uint8_t *header, const uint8_t *payload,
								size_t len, uint8_t *out);

/* ---- pieces ---- */

/*
 * The key in text: 64 hexadecimal digits, white space at the end.  False for
 * anything else.
 */
extern bool steno_key_parse(const char *text, size_t len, uint8_t key[STENO_KEY_SIZE]);
extern bool steno_key_id(const uint8_t key[STENO_KEY_SIZE], uint8_t id[STENO_KEY_ID_SIZE]);

/* The data key in a segment header that is whole; false when the key is not the right one. */
extern bool steno_data_key_read(const uint8_t *header, const uint8_t key[STENO_KEY_SIZE],
								uint8_t data_key[STENO_KEY_SIZE]);

/*
 * Decrypt the stored payload of a block into out, which has room for
 * STENO_PAYLOAD_EXTRA bytes less; false when it is not what was encrypted with
 * this data key for this header.
 */
extern bool steno_payload_decrypt(const uint8_t data_key[STENO_KEY_SIZE], const uint8_t *header,
								  const uint8_t *stored, size_t len, uint8_t *out);

/* Overwrite secrets, whatever the compiler thinks of it. */
extern void steno_cleanse(void *secret, size_t len);

#endif							/* STENO_CRYPT_H */
