/*
 * core/test/crypto/segments_are_encrypted.c
 *		Encrypted segments: what is in them can be read with the key and with
 *		nothing else, no nonce is used twice, and a stream of them recovers and
 *		rotates like a plain one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "trail/decode.h"
#include "test/test.h"
#include "test/trail.h"

static char trail[300];
static Trail t;

static const uint8_t key_a[STENO_KEY_SIZE] = {1, 2, 3};
static const uint8_t key_b[STENO_KEY_SIZE] = {4, 5, 6};

static void
begin(const uint8_t *key)
{
	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	t.crypt = steno_crypt_create();
	CHECK(t.crypt != NULL && steno_crypt_set_key(t.crypt, key));
	trail_open(&t, trail);
}

static void
reopen(const uint8_t *key)
{
	trail_close(&t);
	CHECK(steno_crypt_set_key(t.crypt, key));
	trail_open(&t, trail);
}

static uint8_t *
segment_bytes(uint64_t segment, size_t *len)
{
	char		path[600];

	segment_name(path, sizeof(path), trail, 0, segment);
	return file_read(path, len);
}

/* The records of a segment, read with the key, or NULL: without; -1: cannot be read. */
static int
records_of(uint64_t segment, const uint8_t *key)
{
	size_t		len;
	uint8_t    *bytes = segment_bytes(segment, &len);
	uint8_t		data_key[STENO_KEY_SIZE];
	StenoSegmentHeader sh = {0};
	size_t		at;
	size_t		n;
	int			records = 0;

	CHECK(bytes != NULL && steno_segment_header_read(bytes, &sh));
	CHECK(sh.length == steno_segment_header_length(sh.flags));
	if (key != NULL && !steno_data_key_read(bytes, key, data_key))
		records = -1;
	for (at = sh.length; at < len && records >= 0; at += n)
	{
		StenoBlockHeader h;
		StenoBytes	payload;
		StenoDecoder d;
		StenoTrailRecord r;
		uint8_t    *buffer;

		n = STENO_BLOCK_HEADER + (size_t) steno_get_le(bytes + at + 8, 4);
		if (!steno_block_decrypt(bytes + at, n, key != NULL ? data_key : NULL, &h, &payload, &buffer))
		{
			records = -1;
			break;
		}
		steno_decoder_begin(&d, payload.p, payload.len, h.first_time);
		while (steno_decoder_next(&d, &r) == STENO_DECODED_RECORD)
		{
			CHECK(r.text.len > 7 && memcmp(r.text.p, "SELECT ", 7) == 0);
			records++;
		}
		CHECK(d.p == d.end);
		steno_decoder_end(&d);
		free(buffer);
	}
	free(bytes);
	return records;
}

/* ---- against vectors of another implementation ---- */

static uint8_t counted_next;

static bool
counted(uint8_t *bytes, size_t len)
{
	while (len-- > 0)
		*bytes++ = counted_next++;
	return true;
}

static bool
equals(const uint8_t *bytes, const char *hex)
{
	for (; *hex != '\0'; hex += 2, bytes++)
	{
		char		byte[3];

		snprintf(byte, sizeof(byte), "%02x", *bytes);
		if (memcmp(byte, hex, 2) != 0)
			return false;
	}
	return true;
}

/* The data key, nonces and results that "known answers" are for. */
static void
known(StenoCrypt *crypt, uint8_t *header, uint8_t *block, uint8_t *stored)
{
	StenoSegmentHeader sh = {
		.version = 1, .system_identifier = 4711, .stream = 3, .server_version = 150000,
		.segment = 5, .created = 6, .first_block = 7, .first_record = 8
	};
	StenoBlockHeader bh = {
		.codec = STENO_CODEC_LZ4, .flags = STENO_BLOCK_ENCRYPTED, .stored = 11 + STENO_PAYLOAD_EXTRA,
		.raw = 11, .records = 2, .block = 9, .first_record = 17, .first_time = TRAIL_NOW,
		.first_end = TRAIL_NOW + 1, .last_end = TRAIL_NOW + 2
	};
	uint8_t		key[STENO_KEY_SIZE];
	int			i;

	for (i = 0; i < STENO_KEY_SIZE; i++)
		key[i] = (uint8_t) i;
	counted_next = 0x40;
	steno_crypt_set_random(crypt, counted);
	CHECK(steno_crypt_set_key(crypt, key));
	steno_crypt_describe(crypt, &sh);
	steno_segment_header_write(header, &sh);
	CHECK(steno_crypt_begin(crypt, header));
	steno_crypt_begun(crypt);
	steno_block_header_write(block, &bh);
	CHECK(steno_crypt_payload(crypt, block, (const uint8_t *) "hello trail", 11, stored));
}

TEST(encryption_gives_known_answers)
{
	StenoCrypt *crypt = steno_crypt_create();
	uint8_t		header[STENO_SEGMENT_HEADER_ENCRYPTED];
	uint8_t		block[STENO_BLOCK_HEADER];
	uint8_t		stored[11 + STENO_PAYLOAD_EXTRA];

	known(crypt, header, block, stored);
	CHECK(equals(header + 128, "66aab3d34a11fef5"));
	CHECK(equals(header + 136, "606162636465666768696a6b"));
	CHECK(equals(header + 148, "aa9ad916ff05c528345fb3603ec08f0c7624dbdad031648efbf8da3720afa957"));
	CHECK(equals(header + 180, "3d9bba2d2f7216fead0d654364df6d2d"));
	CHECK(equals(header + 196, "00000000"));
	CHECK(steno_segment_key_whole(header));
	CHECK(equals(stored, "6c6d6e6f707172737475767738" "76a89325195927b0e5fc65a60f955c04871e1765e0846de2b34d"));
	steno_crypt_destroy(crypt);
}

/* Each bit that was encrypted, or that the encryption is bound to. */
TEST(encryption_notices_each_changed_bit)
{
	StenoCrypt *crypt = steno_crypt_create();
	uint8_t		header[STENO_SEGMENT_HEADER_ENCRYPTED];
	uint8_t		block[STENO_BLOCK_HEADER];
	uint8_t		stored[11 + STENO_PAYLOAD_EXTRA];
	uint8_t		key[STENO_KEY_SIZE];
	uint8_t		data_key[STENO_KEY_SIZE];
	uint8_t		wrong[STENO_KEY_SIZE];
	uint8_t		out[11];
	size_t		bit;

	known(crypt, header, block, stored);
	for (bit = 0; bit < STENO_KEY_SIZE; bit++)
		key[bit] = (uint8_t) bit;
	CHECK(steno_data_key_read(header, key, data_key) && data_key[0] == 0x40 && data_key[31] == 0x5f);
	CHECK(steno_payload_decrypt(data_key, block, stored, sizeof(stored), out));
	CHECK(memcmp(out, "hello trail", 11) == 0);
	CHECK(!steno_payload_decrypt(key, block, stored, sizeof(stored), out));
	CHECK(!steno_payload_decrypt(data_key, block, stored, STENO_PAYLOAD_EXTRA - 1, out));
	CHECK(!steno_payload_decrypt(data_key, block, stored, sizeof(stored) - 1, out));
	for (bit = 0; bit < 8 * sizeof(header); bit++)
	{
		bool		bound = bit / 8 < 40 || (bit / 8 >= 136 && bit / 8 < 196);

		header[bit / 8] ^= 1 << bit % 8;
		CHECK(steno_data_key_read(header, key, wrong) == !bound);
		CHECK(bit / 8 >= 200 || !steno_segment_key_whole(header));
		header[bit / 8] ^= 1 << bit % 8;
	}
	for (bit = 0; bit < 8 * STENO_KEY_SIZE; bit++)
	{
		key[bit / 8] ^= 1 << bit % 8;
		CHECK(!steno_data_key_read(header, key, wrong));
		key[bit / 8] ^= 1 << bit % 8;
	}
	for (bit = 0; bit < 8 * sizeof(stored); bit++)
	{
		stored[bit / 8] ^= 1 << bit % 8;
		CHECK(!steno_payload_decrypt(data_key, block, stored, sizeof(stored), out));
		stored[bit / 8] ^= 1 << bit % 8;
	}
	for (bit = 0; bit < 8 * 64; bit++)
	{
		block[bit / 8] ^= 1 << bit % 8;
		CHECK(!steno_payload_decrypt(data_key, block, stored, sizeof(stored), out));
		block[bit / 8] ^= 1 << bit % 8;
	}
	CHECK(steno_payload_decrypt(data_key, block, stored, sizeof(stored), out));
	steno_crypt_destroy(crypt);
}

TEST(key_is_64_hexadecimal_digits)
{
	const char *digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1C1D1E1F\r\n \t\n";
	char		text[100];
	uint8_t		key[STENO_KEY_SIZE];
	size_t		i;

	snprintf(text, sizeof(text), "%s", digits);
	for (i = STENO_KEY_DIGITS; i <= strlen(digits); i++)
		CHECK(steno_key_parse(text, i, key) && key[0] == 0 && key[31] == 31);
	for (i = 0; i < STENO_KEY_DIGITS; i++)
	{
		CHECK(!steno_key_parse(text, i, key));
		text[i] = 'g';
		CHECK(!steno_key_parse(text, STENO_KEY_DIGITS, key));
		text[i] = digits[i];
	}
	CHECK(!steno_key_parse("", 0, key));
	text[STENO_KEY_DIGITS] = '0';
	CHECK(!steno_key_parse(text, STENO_KEY_DIGITS + 1, key));
	CHECK(!steno_key_parse(digits, STENO_KEY_DIGITS + 1, key) || digits[STENO_KEY_DIGITS] == '\r');
	text[STENO_KEY_DIGITS] = '\0';
	CHECK(!steno_key_parse(text, STENO_KEY_DIGITS + 1, key));
}

/* ---- streams ---- */

TEST(stream_mixes_plain_and_encrypted_segments)
{
	uint64_t	records;

	begin(NULL);
	trail_must_append(&t, 3);
	CHECK(!steno_crypt_stale(t.crypt) && !steno_crypt_active(t.crypt));
	CHECK(steno_crypt_set_key(t.crypt, key_a) && steno_crypt_stale(t.crypt));
	trail_must_append(&t, 1);	/* still the plain one */
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error) && !steno_crypt_stale(t.crypt));
	trail_must_append(&t, 50);
	trail_must_append(&t, 0);
	trail_must_append(&t, 2);
	CHECK(steno_crypt_set_key(t.crypt, key_b) && steno_crypt_stale(t.crypt));
	trail_must_append(&t, 1);	/* still with key a */
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error) && !steno_crypt_stale(t.crypt));
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	trail_must_append(&t, 5);
	CHECK(steno_crypt_set_key(t.crypt, NULL) && steno_crypt_stale(t.crypt));
	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	trail_must_append(&t, 7);
	CHECK(t.stream.segment == 5);
	CHECK(trail_verify(trail, 0, &records) == 8 && records == 69);
	CHECK(records_of(1, NULL) == 4 && records_of(2, NULL) == -1 && records_of(5, NULL) == 7);
	CHECK(records_of(2, key_a) == 53 && records_of(2, key_b) == -1);
	CHECK(records_of(3, key_b) == 0 && records_of(3, key_a) == -1);
	CHECK(records_of(4, key_b) == 5 && records_of(4, key_a) == -1);
}

TEST(encrypted_segment_shows_no_text)
{
	size_t		len;
	uint8_t    *bytes;

	begin(key_a);
	trail_must_append(&t, 100);
	trail_must_append(&t, 1);	/* LZ4 does not make it smaller: stored as it is, but for the key */
	bytes = segment_bytes(1, &len);
	CHECK(len > 1000 && memmem(bytes, len, "SELECT", 6) == NULL && memmem(bytes, len, "alice", 5) == NULL);
	CHECK(memmem(bytes, len, key_a, sizeof(key_a)) == NULL);
	free(bytes);
}

/* An open segment has its data key in memory alone: who opens the stream begins another. */
TEST(stream_never_continues_an_encrypted_segment)
{
	begin(key_a);
	trail_must_append(&t, 2);
	reopen(key_a);
	CHECK(t.stream.segment == 2 && t.found.torn_bytes == 0);
	trail_must_append(&t, 2);
	reopen(NULL);
	CHECK(t.stream.segment == 3 && t.stream.offset == STENO_SEGMENT_HEADER);
	trail_must_append(&t, 2);
	reopen(NULL);
	CHECK(t.stream.segment == 3);
	trail_must_append(&t, 2);
	reopen(key_b);
	CHECK(t.stream.segment == 4 && t.stream.offset == STENO_SEGMENT_HEADER_ENCRYPTED);
	trail_must_append(&t, 2);
	CHECK(trail_verify(trail, 0, NULL) == 5);
	CHECK(records_of(1, key_a) == 2 && records_of(2, key_a) == 2 && records_of(3, NULL) == 4 &&
		  records_of(4, key_b) == 2);
}

/* A block that was cut off, one that is finished again, one of another segment: each has a nonce of its own. */
TEST(encryption_uses_no_nonce_twice)
{
	uint8_t		nonces[200][STENO_NONCE_SIZE];
	uint8_t		data_keys[100][STENO_KEY_SIZE];
	int			nonce = 0;
	int			segments = 0;
	int			i;
	int			j;
	uint8_t		chain[STENO_HASH_SIZE];
	const uint8_t *bytes;
	size_t		len;

	begin(key_a);
	for (i = 0; i < 20; i++)
	{
		uint8_t    *segment;

		trail_must_append(&t, 1);
		/* the same block again, as after a write that failed */
		for (j = 0; j < 3; j++)
		{
			memcpy(chain, t.stream.chain, sizeof(chain));
			bytes = steno_block_finish(t.block, STENO_CODEC_LZ4, t.stream.next_block,
									   t.stream.next_record, TRAIL_NOW, chain, &len);
			CHECK(bytes != NULL);
			memcpy(nonces[nonce++], bytes + STENO_BLOCK_HEADER, STENO_NONCE_SIZE);
		}
		/* half of it, as in a crash */
		CHECK(pwrite(t.stream.fd, bytes, len / 2, (off_t) t.stream.offset) > 0);
		segment = segment_bytes(t.stream.segment, &len);
		memcpy(nonces[nonce++], segment + STENO_SEGMENT_NONCE, STENO_NONCE_SIZE);
		CHECK(steno_data_key_read(segment, key_a, data_keys[segments++]));
		free(segment);
		reopen(key_a);
		CHECK(t.found.torn_bytes > 0);
	}
	for (i = 0; i < nonce; i++)
		for (j = 0; j < i; j++)
			CHECK(memcmp(nonces[i], nonces[j], STENO_NONCE_SIZE) != 0);
	for (i = 0; i < segments; i++)
		for (j = 0; j < i; j++)
			CHECK(memcmp(data_keys[i], data_keys[j], STENO_KEY_SIZE) != 0);
	CHECK(trail_verify(trail, 0, NULL) == 20);
}

/* Recovery needs no key: it goes by what is stored. */
TEST(encrypted_stream_recovers_torn_tail)
{
	uint64_t	offset;
	uint8_t		hash[STENO_HASH_SIZE];
	char		path[600];
	char		next[600];
	uint8_t    *bytes;
	size_t		len;
	size_t		cut;

	begin(key_a);
	trail_must_append(&t, 2);
	offset = t.stream.offset;
	trail_must_append(&t, 3);
	memcpy(hash, t.stream.chain, sizeof(hash));
	CHECK(steno_segment_has_block(trail, 0, 1, offset, 2, hash, &t.error));
	segment_name(path, sizeof(path), trail, 0, 1);
	segment_name(next, sizeof(next), trail, 0, 2);
	bytes = file_read(path, &len);
	for (cut = 0; cut < len; cut += cut < 220 ? 1 : 13)
	{
		bool		key = cut % 2 == 0;
		size_t		end = cut;	/* but for 16 zeros and more */

		while (end > STENO_SEGMENT_HEADER_ENCRYPTED && end != offset && bytes[end - 1] == 0)
			end--;
		if (cut - end < 16)
			end = cut;
		file_write(path, bytes, cut);
		CHECK(!steno_segment_has_block(trail, 0, 1, offset, 2, hash, &t.error));
		reopen(key ? key_a : NULL);
		CHECK(!t.found.damaged);
		/* without its header, the segment itself is begun again */
		if (cut < STENO_SEGMENT_HEADER_ENCRYPTED)
			CHECK(t.found.torn_bytes == cut && t.stream.segment == 1 && t.stream.next_block == 1);
		else if (cut < offset)
			CHECK(t.stream.segment == 2 && t.stream.next_block == 1 &&
				  t.found.torn_bytes == end - STENO_SEGMENT_HEADER_ENCRYPTED);
		else
			CHECK(t.stream.segment == 2 && t.stream.next_block == 2 && t.found.torn_bytes == end - offset);
		trail_must_append(&t, 1);
		CHECK(trail_verify(trail, 0, NULL) == (cut < offset ? 1 : 2));
		CHECK(records_of(t.stream.segment, key ? key_a : NULL) == 1);
		CHECK(unlink(next) == 0 || cut < STENO_SEGMENT_HEADER_ENCRYPTED);
	}
	free(bytes);
}

TEST(encrypted_segment_with_a_damaged_key_part_is_left)
{
	char		path[600];
	uint8_t    *bytes;
	size_t		len;
	size_t		at;

	begin(key_a);
	trail_must_append(&t, 2);
	segment_name(path, sizeof(path), trail, 0, 1);
	bytes = file_read(path, &len);
	for (at = STENO_SEGMENT_HEADER; at < STENO_SEGMENT_HEADER_ENCRYPTED; at += 5)
	{
		char		next[600];

		bytes[at] ^= 4;
		file_write(path, bytes, len);
		reopen(key_a);
		CHECK(t.found.damaged && t.stream.segment == 2 && t.stream.next_block == 2);
		segment_name(next, sizeof(next), trail, 0, 2);
		CHECK(unlink(next) == 0);
		bytes[at] ^= 4;
	}
	free(bytes);
}

/* A rotation that fails leaves the open segment its data key. */
TEST(failed_rotation_keeps_the_data_key)
{
	char		next[600];
	struct rlimit limit;

	begin(key_a);
	trail_must_append(&t, 2);
	segment_name(next, sizeof(next), trail, 0, 2);
	file_write(next, "", 0);
	CHECK(steno_crypt_set_key(t.crypt, key_b));
	CHECK(!steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error) && t.error.error == EEXIST);
	CHECK(steno_crypt_stale(t.crypt));
	trail_must_append(&t, 2);
	CHECK(unlink(next) == 0);

	/* in the middle of the header, when the next data key is made already */
	signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	limit.rlim_cur = 150;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(!steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error) && t.error.error == EFBIG);
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(access(next, F_OK) != 0 && steno_crypt_stale(t.crypt));
	trail_must_append(&t, 2);

	CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	trail_must_append(&t, 2);
	CHECK(records_of(1, key_a) == 6 && records_of(2, key_b) == 2);
	CHECK(trail_verify(trail, 0, NULL) == 4);
}

/* Whoever builds blocks and forgets the keys is not let write them. */
TEST(plain_block_is_refused_by_an_encrypted_segment)
{
	begin(key_a);
	trail_must_append(&t, 2);
	steno_block_set_crypt(t.block, NULL);
	CHECK(!trail_append(&t, 2));
	CHECK(t.error.error == 0 && strstr(t.error.what, "not both encrypted") != NULL);
	steno_block_set_crypt(t.block, t.crypt);
	trail_must_append(&t, 2);
	CHECK(trail_verify(trail, 0, NULL) == 2 && records_of(1, key_a) == 4);
}

static bool
exhausted(uint8_t *bytes, size_t len)
{
	(void) bytes;
	(void) len;
	return false;
}

/* Nothing is written with bytes that are not random. */
TEST(encryption_without_random_bytes_fails)
{
	uint8_t		chain[STENO_HASH_SIZE];
	char		next[600];
	size_t		len;

	begin(key_a);
	trail_must_append(&t, 2);
	steno_crypt_set_random(t.crypt, exhausted);
	memcpy(chain, t.stream.chain, sizeof(chain));
	CHECK(steno_block_finish(t.block, STENO_CODEC_LZ4, 2, 3, TRAIL_NOW, chain, &len) == NULL);
	CHECK(memcmp(chain, t.stream.chain, sizeof(chain)) == 0);
	CHECK(!steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
	CHECK(t.error.error == 0 && strstr(t.error.what, "data key") != NULL);
	segment_name(next, sizeof(next), trail, 0, 2);
	CHECK(access(next, F_OK) != 0 && errno == ENOENT);
	CHECK(trail_verify(trail, 0, NULL) == 1);
}

/* Blocks of other segments, encrypted or plain, do not pass for a segment's own. */
TEST(encrypted_segment_takes_only_its_own_blocks)
{
	uint8_t		data_key[2][STENO_KEY_SIZE];
	uint8_t    *bytes[3];
	size_t		len[3];
	StenoBlockHeader h;
	StenoBytes	payload;
	uint8_t    *buffer;
	int			i;

	begin(key_a);
	for (i = 0; i < 3; i++)
	{
		trail_must_append(&t, 2);
		CHECK(steno_crypt_set_key(t.crypt, i == 0 ? key_a : NULL));
		CHECK(steno_stream_rotate(&t.stream, TRAIL_NOW, &t.error));
		bytes[i] = segment_bytes((uint64_t) i + 1, &len[i]);
		CHECK(i == 2 || steno_data_key_read(bytes[i], key_a, data_key[i]));
	}
#define OPEN(i, key) \
	steno_block_decrypt(bytes[i] + (i == 2 ? 128 : 208), len[i] - (i == 2 ? 128 : 208), key, &h, &payload, &buffer)
	CHECK(OPEN(0, data_key[0]));
	free(buffer);
	CHECK(OPEN(1, data_key[1]));
	free(buffer);
	CHECK(!OPEN(1, data_key[0]) && !OPEN(0, data_key[1]) && !OPEN(0, NULL));
	CHECK(OPEN(2, NULL) && buffer != NULL);
	free(buffer);
	CHECK(!OPEN(2, data_key[0]));
	for (i = 0; i < 3; i++)
		free(bytes[i]);
}
