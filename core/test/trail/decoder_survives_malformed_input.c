/*
 * core/test/trail/decoder_survives_malformed_input.c
 *		The corpus of the fuzz target, replayed, and random changes of real
 *		blocks; and what the decoder must accept and refuse.
 */
#include "test/model.h"
#include "test/test.h"
#include "test/trail.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
decode(uint8_t *bytes, size_t len)
{
	LLVMFuzzerTestOneInput(bytes, len);
}

TEST(decoder_survives_the_corpus)
{
	each_file(STENO_CORPUS "/decode", decode);
}

/* Records of a prepared statement, and statements with similar texts: runs, and variants. */
static void
add_similar(StenoBlock *block, StenoSource *source, uint64_t *random)
{
	static const char text[] = "SELECT name FROM staff WHERE id = 1";
	static StenoTemplate templates[STENO_TEMPLATES];
	uint64_t	buffer[64] = {0};
	StenoBriefMessage *b = (StenoBriefMessage *) buffer;
	ModelStrings s = {0};
	char		other[sizeof(text)];
	uint64_t	i;

	templates[0].version = 1;
	templates[0].text_len = sizeof(text) - 1;
	memcpy(templates[0].bytes, "\1\0\0\0\0\0", 6);
	templates[0].shape_len = 6;
	memcpy(templates[0].bytes + 6, text, sizeof(text) - 1);
	source->templates = templates;
	steno_brief_encode(b, STENO_MESSAGE_VALUES | STENO_MESSAGE_XID, 0, 0, 4);
	b->version = 1;
	b->m.len = steno_brief_len(4) + sizeof(uint64_t);
	for (i = 0; i < 5; i++)
	{
		b->time += (int64_t) test_below(random, 1000);
		b->rows = (uint32_t) test_below(random, 2);
		*(uint8_t *) &buffer[steno_brief_len(4) / 8] = (uint8_t) (1 + i);
		CHECK(steno_block_add(block, source, &b->m));
	}
	/* first without a shape, then with one, so in a run */
	for (i = 0; i < 8; i++)
	{
		StenoRecordMessage r = model_record(STENO_KIND_STATEMENT, source->seq + 1, b->time);

		if (i >= 3)
		{
			s.shape = templates[0].bytes;
			s.shape_len = 6;
		}
		memcpy(other, text, sizeof(text));
		other[test_below(random, sizeof(text) - 1)] = (char) ('0' + i);
		r.statement = source->statement + 1;
		s.text = other;
		s.text_len = sizeof(text) - 1;
		model_encode(buffer, &r, &s);
		CHECK(steno_block_add(block, source, (StenoMessage *) buffer));
		memset(buffer, 0, sizeof(buffer));
	}
}

/* A block of random records, as the fuzz target takes a payload. */
static uint32_t
random_payload(uint8_t *to, uint64_t *random)
{
	static StenoSource source;
	uint64_t	buffer[1024];
	uint64_t	statement = 1;
	uint64_t	seq = 0;
	uint8_t		body[100];
	uint8_t		chain[STENO_HASH_SIZE] = {0};
	size_t		len;
	const uint8_t *bytes;
	StenoBlock *block = steno_block_create(64 * 1024);

	memset(&source, 0, sizeof(source));
	model_encode_session(buffer, body, model_body(body, 5, 6, 0, NULL, NULL), 0, 0);
	steno_block_add(block, &source, (StenoMessage *) buffer);
	while (seq < 8)
	{
		model_random(buffer, sizeof(buffer), random, ++seq, &statement);
		CHECK(steno_block_add(block, &source, (StenoMessage *) buffer));
	}
	add_similar(block, &source, random);
	bytes = steno_block_finish(block, STENO_CODEC_NONE, 1, 1, 0, chain, &len);
	memcpy(to, bytes + 40, 8);
	memcpy(to + 8, bytes + STENO_BLOCK_HEADER, len - STENO_BLOCK_HEADER);
	steno_block_destroy(block);
	return (uint32_t) (len - STENO_BLOCK_HEADER + 8);
}

TEST(decoder_survives_random_changes)
{
	static uint8_t payload[65 * 1024];
	uint64_t	random = test_seed();
	uint64_t	n = test_parameter("CHANGES", 300);
	uint64_t	i;
	int			j;

	for (i = 0; i < n; i++)
	{
		uint32_t	len = random_payload(payload, &random);

		LLVMFuzzerTestOneInput(payload, len);
		for (j = 0; j < 100; j++)
		{
			uint8_t    *exact = malloc(len);
			uint32_t	k = (uint32_t) test_below(&random, 4) + 1;

			memcpy(exact, payload, len);
			while (k-- > 0)
				exact[test_below(&random, len)] = (uint8_t) test_random(&random);
			LLVMFuzzerTestOneInput(exact, test_below(&random, 2) ? len : test_below(&random, len));
			free(exact);
		}
	}
}

static StenoDecoded
decode_first(const uint8_t *payload, size_t len, StenoTrailRecord *r)
{
	StenoDecoder d;
	StenoDecoded result;

	steno_decoder_begin(&d, payload, len, 1000);
	result = steno_decoder_next(&d, r);
	steno_decoder_end(&d);
	return result;
}

TEST(decoder_reads_what_it_does_not_know)
{
	StenoTrailRecord r;
	/* unknown kinds 0, 100 and 200 are skipped; a record of kind 63 has the fields of all */
	const uint8_t kinds[] = {1, 0, 3, 100, 9, 9, 2, 200, 1, 15, 128, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0,
		4, 63, 0, 4, 42};
	/* field bit 20, and bytes of it at the end of the item */
	const uint8_t fields[] = {15, 128, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0,
		9, 1, 0, 0x84, 0x80, 0x40, 42, 9, 9, 9};

	CHECK(decode_first(kinds, sizeof(kinds), &r) == STENO_DECODED_RECORD);
	CHECK(r.kind == 63 && r.rows == 42 && r.seq == 5 && r.time == 1000 && r.statement == 0);
	CHECK(decode_first(fields, sizeof(fields), &r) == STENO_DECODED_RECORD);
	CHECK(r.kind == 1 && r.rows == 42 && r.mask == STENO_FIELD_ROWS && r.statement == 3);
}

TEST(decoder_refuses_what_cannot_be)
{
	StenoTrailRecord r;
	const uint8_t empty_item[] = {0};
	const uint8_t long_item[] = {200, 1, 1};
	const uint8_t endless_varint[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01};
	const uint8_t no_session[] = {3, 1, 0, 0};
	const uint8_t no_text[] = {15, 128, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 4, 1, 0, 2, 0};
	const uint8_t no_room[] = {15, 128, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 5, 1, 0, 64, 2, 1};
	const uint8_t short_session[] = {14, 128, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0};
	const uint8_t short_shape[] = {3, 129, 0, 0};
	const uint8_t no_object[] = {7, 129, 0, 0, 0, 0, 0, 1};
	const uint8_t form_of_no_text[] = {15, 128, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 5, 132, 0, 8, 0, 0};
	const uint8_t form_of_more_text[] = {15, 128, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 3, 130, 'a', 'b',
		6, 132, 0, 2, 0, 2, 1};
	const uint8_t run_without_text[] = {15, 128, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 3, 130, 'a', 'b',
		6, 132, 0, 2, 0, 1, 1, 5, 65, 1, 0, 2, 'x'};
	const uint8_t short_object[] = {10, 129, 0, 0, 0, 0, 0, 1, 1, 0, 0};

	CHECK(decode_first(empty_item, sizeof(empty_item), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(long_item, sizeof(long_item), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(endless_varint, sizeof(endless_varint), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(no_session, sizeof(no_session), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(no_text, sizeof(no_text), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(no_room, sizeof(no_room), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(short_session, sizeof(short_session), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(short_shape, sizeof(short_shape), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(no_object, sizeof(no_object), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(short_object, sizeof(short_object), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(form_of_no_text, sizeof(form_of_no_text), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(form_of_more_text, sizeof(form_of_more_text), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(run_without_text, sizeof(run_without_text), &r) == STENO_DECODED_BAD);
	CHECK(decode_first(empty_item, 0, &r) == STENO_DECODED_END);
}

TEST(decoder_takes_varints_of_64_bits_and_not_more)
{
	const uint8_t most[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
	const uint8_t more[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
	const uint8_t padded[] = {0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
	StenoBytes	in = {most, sizeof(most)};
	uint64_t	v;

	CHECK(steno_take_varint(&in, &v) && v == UINT64_MAX && in.len == 0);
	in = (StenoBytes) {more, sizeof(more)};
	CHECK(!steno_take_varint(&in, &v));
	in = (StenoBytes) {padded, sizeof(padded)};
	CHECK(steno_take_varint(&in, &v) && v == 5 && in.len == 0);
	in = (StenoBytes) {padded, sizeof(padded) - 1};
	CHECK(!steno_take_varint(&in, &v));
}

/* Every single bit of a block is covered by one of its two checksums. */
TEST(decoder_refuses_a_block_with_any_bit_flipped)
{
	static uint8_t payload[65 * 1024];
	uint64_t	random = test_seed();
	StenoBlockHeader h;
	StenoBytes	p;
	uint8_t    *buffer;
	uint32_t	len = random_payload(payload + 200, &random) - 8;
	uint8_t    *bytes = payload + 208 - STENO_BLOCK_HEADER;
	const uint8_t chain[STENO_HASH_SIZE] = {0};
	uint32_t	bit;

	memset(&h, 0, sizeof(h));
	len = len < 500 ? len : 500;
	h.stored = len;
	h.raw = len;
	h.payload_sum = XXH64(payload + 208, len, 0);
	steno_block_header_write(bytes, &h);
	steno_block_header_seal(bytes, chain);
	CHECK(steno_block_open(bytes, STENO_BLOCK_HEADER + len, &h, &p, &buffer));
	CHECK(!steno_block_open(bytes, STENO_BLOCK_HEADER + len - 1, &h, &p, &buffer));
	CHECK(!steno_block_open(bytes, STENO_BLOCK_HEADER + len + 1, &h, &p, &buffer));
	for (bit = 0; bit < 8 * (STENO_BLOCK_HEADER + len); bit++)
	{
		bytes[bit / 8] ^= (uint8_t) (1 << bit % 8);
		CHECK(!steno_block_open(bytes, STENO_BLOCK_HEADER + len, &h, &p, &buffer));
		bytes[bit / 8] ^= (uint8_t) (1 << bit % 8);
	}
}
