/*
 * core/test/trail/stream_recovers_torn_tail.c
 *		A segment that a crash cut short, at any byte, is cut at its last whole
 *		block and continued; damage is not a torn tail, and is left as it is.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "header.h"
#include "test/test.h"
#include "test/trail.h"

static char trail[300];
static char path[600];
static Trail t;
static uint64_t offsets[10];	/* of the blocks, and of the end */
static uint8_t hashes[10][STENO_HASH_SIZE];	/* hashes[i]: the chain after i blocks */
static uint8_t *whole;
static size_t whole_len;

/* A trail of n blocks in segment 1, its bytes in whole. */
static void
make(int n)
{
	int			i;

	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	segment_name(path, sizeof(path), trail, 0, 1);
	trail_open(&t, trail);
	for (i = 0; i < n; i++)
	{
		offsets[i] = t.stream.offset;
		memcpy(hashes[i], t.stream.chain, STENO_HASH_SIZE);
		trail_must_append(&t, 4);
	}
	offsets[n] = t.stream.offset;
	memcpy(hashes[n], t.stream.chain, STENO_HASH_SIZE);
	trail_close(&t);
	whole = file_read(path, &whole_len);
	CHECK(whole_len == offsets[n]);
}

/* Open what is now there: n blocks must be left, and the stream must go on. */
static void
recovers(int n, uint64_t torn)
{
	struct stat st;

	trail_open(&t, trail);
	CHECK(!t.found.damaged);
	CHECK(t.found.torn_bytes == torn);
	CHECK(t.stream.segment == 1);
	CHECK(t.stream.offset == offsets[n]);
	CHECK(t.stream.next_block == (uint64_t) n + 1);
	CHECK(t.stream.next_record == (uint64_t) n * 4 + 1);
	CHECK(memcmp(t.stream.chain, hashes[n], STENO_HASH_SIZE) == 0);
	CHECK(stat(path, &st) == 0 && (uint64_t) st.st_size == offsets[n]);
	trail_must_append(&t, 1);
	trail_close(&t);
	CHECK(trail_verify(trail, 0, NULL) == n + 1);
}

/* What is cut off after n blocks of these bytes, but for room: all, or 16 zeros and more. */
static uint64_t
torn(const uint8_t *bytes, size_t len, int n)
{
	size_t		end = len;

	while (end > offsets[n] && bytes[end - 1] == 0)
		end--;
	return (end > offsets[n] && len - end < 16 ? len : end) - offsets[n];
}

TEST(stream_recovers_from_every_length_of_a_torn_block)
{
	uint64_t	len;

	make(3);
	for (len = offsets[2] + 1; len < offsets[3]; len++)
	{
		file_write(path, whole, len);
		recovers(2, torn(whole, len, 2));
	}
	file_write(path, whole, whole_len);
	recovers(3, 0);
}

TEST(stream_recovers_from_a_torn_first_block)
{
	uint64_t	len;

	make(1);
	for (len = offsets[0] + 1; len < offsets[1]; len += 7)
	{
		file_write(path, whole, len);
		recovers(0, torn(whole, len, 0));
	}
}

/* The file got its length, but its end was never written. */
TEST(stream_recovers_from_zeros_at_the_end)
{
	uint8_t    *bytes;
	uint64_t	from;

	make(3);
	bytes = malloc(whole_len);
	for (from = offsets[2]; from + 16 <= offsets[3]; from++)
	{
		memcpy(bytes, whole, whole_len);
		memset(bytes + from, 0, whole_len - from);
		file_write(path, bytes, whole_len);
		recovers(2, torn(bytes, whole_len, 2));
	}
	free(bytes);
}

/* The file's end was written, but not the sectors before it. */
TEST(stream_recovers_from_a_hole_where_the_last_block_begins)
{
	make(3);
	memset(whole + offsets[2], 0, STENO_BLOCK_HEADER);
	file_write(path, whole, whole_len);
	recovers(2, torn(whole, whole_len, 2));
}

/* Zeros alone are room for blocks: nothing was torn. */
TEST(stream_recovers_from_zeros_after_the_end)
{
	static uint8_t zeros[10000];
	uint8_t    *bytes;

	make(2);
	bytes = malloc(whole_len + sizeof(zeros));
	memcpy(bytes, whole, whole_len);
	memset(bytes + whole_len, 0, sizeof(zeros));
	file_write(path, bytes, whole_len + sizeof(zeros));
	recovers(2, 0);
	free(bytes);
}

/* When the machine went down, several blocks that were not synced can have holes. */
TEST(stream_recovers_from_holes_in_several_last_blocks)
{
	make(4);
	memset(whole + offsets[2] + STENO_BLOCK_HEADER, 0, offsets[3] - offsets[2] - STENO_BLOCK_HEADER);
	memset(whole + offsets[3] + STENO_BLOCK_HEADER, 0, offsets[4] - offsets[3] - STENO_BLOCK_HEADER);
	file_write(path, whole, whole_len);
	recovers(2, torn(whole, whole_len, 2));
}

/* The last segment's header did not get there: its place is known from the one before. */
TEST(stream_recovers_from_a_torn_segment_header)
{
	static uint8_t zeros[5000];
	char		second[600];
	uint64_t	len;

	make(3);
	trail_ranges_may_be_unknown = true;
	segment_name(second, sizeof(second), trail, 0, 2);
	for (len = 0; len <= STENO_SEGMENT_HEADER; len++)
	{
		/* at full length: a file of zeros */
		uint64_t	size = len < STENO_SEGMENT_HEADER ? len : sizeof(zeros);

		memcpy(zeros, STENO_SEGMENT_MAGIC, 8);
		if (len == STENO_SEGMENT_HEADER)
			memset(zeros, 0, 8);
		file_write(second, zeros, size);
		trail_open(&t, trail);
		CHECK(t.found.torn_bytes == size && !t.found.damaged);
		CHECK(t.stream.segment == 2 && t.stream.next_block == 4 && t.stream.next_record == 13);
		trail_must_append(&t, 1);
		trail_close(&t);
		CHECK(trail_verify(trail, 0, NULL) == 4);
	}
	/* in the first segment there is nothing before */
	CHECK(unlink(second) == 0);
	file_write(path, zeros, 50);
	trail_open(&t, trail);
	CHECK(t.stream.segment == 1 && t.stream.next_block == 1 && t.found.torn_bytes == 50);
	trail_must_append(&t, 1);
	CHECK(trail_verify(trail, 0, NULL) == 1);
}

TEST(stream_that_lost_its_place_is_refused)
{
	char		third[600];

	make(1);
	CHECK(unlink(path) == 0);
	segment_name(third, sizeof(third), trail, 0, 3);
	file_write(third, "", 0);
	CHECK(!trail_try_open(&t, trail));
	CHECK(t.error.error == 0 && strcmp(t.error.path, third) == 0);
}

/* ---- damage ---- */

/*
 * Open with segment 1 as it is in whole: it must stay so, and segment 2 go on
 * after block n, from whose hash it is chained.
 */
static void
keeps_damage(int n, uint64_t offset)
{
	char		second[600];
	StenoSegmentHeader h;
	size_t		len;
	uint8_t    *bytes;

	file_write(path, whole, whole_len);
	trail_open(&t, trail);
	CHECK(t.found.damaged);
	CHECK(t.found.damaged_offset == offset);
	CHECK(t.found.torn_bytes == 0);
	CHECK(t.stream.segment == 2);
	CHECK(t.stream.next_block == (uint64_t) n + 1);
	CHECK(t.stream.next_record == (uint64_t) n * 4 + 1);
	bytes = file_read(path, &len);
	CHECK(len == whole_len && memcmp(bytes, whole, len) == 0);
	free(bytes);
	segment_name(second, sizeof(second), trail, 0, 2);
	bytes = file_read(second, &len);
	CHECK(steno_segment_header_read(bytes, &h));
	CHECK(h.first_block == (uint64_t) n + 1 && h.segment == 2);
	CHECK(n == 0 || memcmp(h.previous, hashes[n], STENO_HASH_SIZE) == 0);
	CHECK(!steno_range_known(&h.before));
	free(bytes);
	trail_must_append(&t, 1);
	trail_close(&t);
	/* the damage is found once: the new segment is fine */
	trail_open(&t, trail);
	CHECK(!t.found.damaged && t.stream.segment == 2 && t.stream.next_block == (uint64_t) n + 2);
	trail_close(&t);
	CHECK(unlink(second) == 0);
}

TEST(stream_keeps_a_damaged_block_header_in_the_middle)
{
	int			i;

	make(4);
	for (i = 0; i < STENO_BLOCK_HEADER; i += 3)
	{
		whole[offsets[1] + i] ^= 0x10;
		keeps_damage(4, offsets[1]);
		whole[offsets[1] + i] ^= 0x10;
	}
}

TEST(stream_keeps_zeros_in_the_middle)
{
	make(4);
	memset(whole + offsets[1], 0, offsets[2] - offsets[1]);
	keeps_damage(4, offsets[1]);
}

TEST(stream_keeps_a_damaged_last_block)
{
	make(3);
	whole[offsets[2] + 80] ^= 1;
	keeps_damage(2, offsets[2]);
	whole[offsets[2] + 80] ^= 1;
	/* its header still tells its number and hash */
	whole[offsets[3] - 20] ^= 1;
	keeps_damage(3, offsets[2]);
}

TEST(stream_keeps_a_removed_block)
{
	make(4);
	memmove(whole + offsets[1], whole + offsets[2], whole_len - offsets[2]);
	whole_len -= offsets[2] - offsets[1];
	keeps_damage(4, offsets[1]);
}

/* Bytes are missing from a block: the next one, which begins before it seems to end, is not cut off. */
TEST(stream_keeps_a_block_behind_a_shortened_one)
{
	static const size_t room[] = {0, 5, 4000};
	uint8_t    *copy;
	size_t		len;
	size_t		r;
	int			cut;
	int			from;

	make(4);
	len = whole_len;
	copy = malloc(len);
	memcpy(copy, whole, len);
	whole = realloc(whole, len + 4000);
	for (r = 0; r < sizeof(room) / sizeof(room[0]); r++)
		for (cut = 1; cut <= 150; cut += cut < 4 ? 1 : 17)
			for (from = 0; from + cut <= (int) (offsets[3] - offsets[2]); from += 37)
			{
				size_t		at = offsets[2] + from;

				memcpy(whole, copy, at);
				memcpy(whole + at, copy + at + cut, len - at - cut);
				memset(whole + len - cut, 0, room[r]);
				whole_len = len - cut + room[r];
				keeps_damage(4, offsets[2]);
			}
	free(copy);
}

TEST(stream_keeps_blocks_in_the_wrong_order)
{
	uint8_t    *copy;

	make(3);
	copy = malloc(whole_len);
	memcpy(copy, whole, whole_len);
	memcpy(whole + offsets[1], copy + offsets[2], offsets[3] - offsets[2]);
	memcpy(whole + offsets[1] + offsets[3] - offsets[2], copy + offsets[1], offsets[2] - offsets[1]);
	free(copy);
	/* no number is given twice */
	keeps_damage(3, offsets[1]);
}

TEST(stream_keeps_a_damaged_segment_header)
{
	make(3);
	whole[20] ^= 1;
	keeps_damage(3, 0);
	whole[20] ^= 1;
	whole[0] ^= 1;
	keeps_damage(3, 0);
	/* without any block to tell, the stream begins anew */
	whole_len = STENO_SEGMENT_HEADER;
	keeps_damage(0, 0);
}

TEST(stream_keeps_a_segment_of_another_place)
{
	StenoSegmentHeader h;

	make(3);
	CHECK(steno_segment_header_read(whole, &h));
	h.segment = 7;
	steno_segment_header_write(whole, &h);
	keeps_damage(3, 0);
	h.segment = 1;
	h.stream = 1;
	steno_segment_header_write(whole, &h);
	keeps_damage(3, 0);
	h.stream = 0;
	h.first_block = 2;
	steno_segment_header_write(whole, &h);
	keeps_damage(3, offsets[0]);
	h.first_block = 1;
	h.first_record = 2;
	steno_segment_header_write(whole, &h);
	keeps_damage(3, offsets[0]);
}
