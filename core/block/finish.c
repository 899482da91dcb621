/*
 * core/block/finish.c
 *		The finished block: its payload compressed and encrypted, its header, and its place in the chain.
 *
 * Compression that gains little is not tried for a while, and tried with less effort: see the
 * constants below.
 */
#include <lz4.h>

#include "block/builder.h"

/* Samples that tell whether a block of large values can be compressed (is_compressible). */
#define SAMPLES 4
#define SAMPLE_BYTES 4096
#define MIN_SAMPLED (4 * SAMPLES * SAMPLE_BYTES)

/*
 * After a block that compression has made smaller by less than a sixteenth, or by less than an eighth if most
 * of it are large values, eight times as many bytes are not compressed: trying costs the more of the writer's
 * time, the less there is to gain.
 */
#define MIN_SAVED(used, of_values) ((used) / ((of_values) ? 8 : 16))
#define NOT_TRIED(used) (8 * (uint64_t) (used))

/*
 * LZ4 looks at fewer places, the greater its acceleration.  If it saves little, most of what it saves is found
 * with few: of blocks of pgbench's transactions, 22 % with an acceleration of 1, and 15 % in 57 % of the time with 4;
 * of texts of random words, 24 %, and 12 % in 41 % of the time.  Blocks of large values are looked at by themselves.
 */
#define MIN_ACCELERATED (16 * 1024)
#define ACCELERATION(used, saved) ((saved) >= (used) / 2 ? 1 : (saved) >= (used) / 4 ? 2 : 4)

/* Whether most of the block are parts of large values. */
static bool
is_of_values(const StenoBlock *block)
{
	return block->data_bytes > 0 && block->data_bytes >= block->used / 2;
}

void
steno_block_prepare_compression(StenoBlock *block)
{
	uint64_t   *not_tried = &block->not_tried[is_of_values(block)];

	if (block->incompressible)
		*not_tried = NOT_TRIED(block->used);
	else
		*not_tried -= *not_tried < block->used ? *not_tried : block->used;
	block->incompressible = false;
	memcpy(block->acceleration, block->next_acceleration, sizeof(block->acceleration));
}

/*
 * Fill in the first record's time, in a varint of fixed length: it is relative to
 * the earliest time of the block, which was not known when the record was added.
 */
static void
patch_first_time(StenoBlock *block)
{
	uint64_t	v = steno_zigzag((int64_t) ((uint64_t) block->first_record_time -
											(uint64_t) block->first_time));
	uint8_t    *p = block->payload + block->first_record_at;
	int			i;

	for (i = 0; i < STENO_PADDED_TIME - 1; i++, v >>= 7)
		p[i] = (uint8_t) (v | 0x80);
	p[i] = (uint8_t) v;
}

/*
 * Whether compression is worth its time.  Large values are often compressed or encoded
 * already, and trying to compress them takes longer than writing them.  So compress
 * samples first: if these hardly become smaller, neither does the rest.
 */
static bool
is_compressible(StenoBlock *block, uint8_t *out)
{
	uint32_t	before = 0;
	uint32_t	after = 0;
	uint32_t	i;

	if (block->used < MIN_SAMPLED || !is_of_values(block))
		return true;
	for (i = 0; i < SAMPLES; i++)
	{
		/* from the middle of the i-th part */
		uint32_t	at = (uint32_t) ((uint64_t) block->used * (2 * i + 1) / (2 * SAMPLES));
		int			n = LZ4_compress_fast_extState(block->lz4, (const char *) block->payload + at,
												   (char *) out, SAMPLE_BYTES,
												   LZ4_compressBound(SAMPLE_BYTES), 1);

		before += SAMPLE_BYTES;
		after += n > 0 ? (uint32_t) n : SAMPLE_BYTES;
	}
	return after < before - before / 32;
}

/* Compress the payload to out if that makes it smaller; returns the codec that was used. */
static int
compress_payload(StenoBlock *block, int codec, uint8_t *out, uint32_t *stored)
{
	bool		of_values = is_of_values(block);
	int			n = 0;

	*stored = block->used;
	if (codec == STENO_CODEC_LZ4 && block->used > block->not_tried[of_values] && is_compressible(block, out))
	{
		n = LZ4_compress_fast_extState(block->lz4, (const char *) block->payload,
									   (char *) out, (int) block->used,
									   LZ4_compressBound((int) block->room),
									   block->used < MIN_ACCELERATED ? 1 : block->acceleration[of_values]);
		if (n > 0 && (uint32_t) n < block->used && block->used >= MIN_ACCELERATED)
			block->next_acceleration[of_values] = ACCELERATION(block->used, block->used - (uint32_t) n);
		block->incompressible = n <= 0 || (uint32_t) n > block->used - MIN_SAVED(block->used, of_values);
	}
	if (n <= 0 || (uint32_t) n >= block->used)
		return STENO_CODEC_NONE;
	*stored = (uint32_t) n;
	return STENO_CODEC_LZ4;
}

/*
 * Encrypt the payload.  A compressed one is encrypted in place; one that
 * compression did not make smaller is still in block->payload.
 */
static bool
encrypt_payload(StenoBlock *block, StenoBlockHeader *h)
{
	uint8_t    *out = block->packed + STENO_BLOCK_HEADER;
	uint32_t	len = h->stored;

	h->flags |= STENO_BLOCK_ENCRYPTED;
	h->stored = len + STENO_PAYLOAD_EXTRA;
	steno_block_header_write(block->packed, h);
	return steno_crypt_payload(block->crypt, block->packed,
							   h->codec == STENO_CODEC_NONE ? block->payload : out + STENO_NONCE_SIZE,
							   len, out);
}

static bool
chain_block(EVP_MD_CTX *sha, const uint8_t *bytes, uint32_t stored,
			uint8_t chain[STENO_HASH_SIZE])
{
	/* without a type, the context keeps the one of its creation and allocates nothing */
	return EVP_DigestInit_ex(sha, NULL, NULL) == 1 &&
		EVP_DigestUpdate(sha, chain, STENO_HASH_SIZE) == 1 &&
		EVP_DigestUpdate(sha, bytes, STENO_BLOCK_CHAINED) == 1 &&
		EVP_DigestUpdate(sha, bytes + STENO_BLOCK_HEADER, stored) == 1 &&
		EVP_DigestFinal_ex(sha, chain, NULL) == 1;
}

const uint8_t *
steno_block_finish(StenoBlock *block, int codec, uint64_t block_number,
				   uint64_t first_record, int64_t now,
				   uint8_t chain[STENO_HASH_SIZE], size_t *bytes)
{
	StenoBlockHeader h = {0};
	bool		encrypted = steno_crypt_active(block->crypt);
	uint8_t    *packed = block->packed + STENO_BLOCK_HEADER;
	uint8_t    *out;

	if (block->records > 0)
		patch_first_time(block);
	h.codec = (uint8_t) compress_payload(block, codec, encrypted ? packed + STENO_NONCE_SIZE : packed,
										 &h.stored);
	out = h.codec == STENO_CODEC_NONE && !encrypted ? block->buffer : block->packed;
	h.raw = block->used;
	h.records = block->records;
	h.block = block_number;
	h.first_record = first_record;
	h.first_time = block->records > 0 ? block->first_time : now;
	h.first_end = block->records > 0 ? block->first_end : now;
	h.last_end = block->records > 0 ? block->last_end : now;
	if (encrypted && !encrypt_payload(block, &h))
		return NULL;
	h.payload_sum = XXH64(out + STENO_BLOCK_HEADER, h.stored, 0);
	steno_block_header_write(out, &h);
	if (!chain_block(block->sha, out, h.stored, chain))
		return NULL;
	steno_block_header_seal(out, chain);
	*bytes = STENO_BLOCK_HEADER + (size_t) h.stored;
	return out;
}
