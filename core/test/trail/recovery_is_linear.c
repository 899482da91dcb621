/*
 * core/test/trail/recovery_is_linear.c
 *		A segment with any number of torn blocks is walked in time that is
 *		proportional to its size: a server that starts waits for it.  What is counted is
 *		what this process reads, by Linux's own count.
 */
#include <stdlib.h>
#include <unistd.h>

#include "header.h"
#include "test/test.h"
#include "test/trail.h"

#define BLOCKS 5000
#define PAYLOAD 16

static char trail[300];
static char path[600];
static Trail t;
static uint8_t *bytes;
static size_t len;
static size_t room;

/* A trail of one segment with n good blocks of 4 records, its bytes with room for more. */
static void
make(int n, size_t more)
{
	uint8_t    *whole;

	snprintf(trail, sizeof(trail), "%s/trail", test_folder());
	segment_name(path, sizeof(path), trail, 0, 1);
	trail_open(&t, trail);
	while (n-- > 0)
		trail_must_append(&t, 4);
	trail_close(&t);
	whole = file_read(path, &len);
	room = len + more;
	bytes = calloc(1, room);
	memcpy(bytes, whole, len);
	free(whole);
}

/* Put a block behind the others, of which all is right but the payload, which is zeros: torn. */
static void
put_torn(uint64_t number, uint64_t first_record)
{
	StenoBlockHeader h = {0};
	uint8_t		chain[STENO_HASH_SIZE] = {1};

	h.stored = PAYLOAD;
	h.raw = PAYLOAD;
	h.records = 1;
	h.block = number;
	h.first_record = first_record;
	h.payload_sum = 1;
	CHECK(len + STENO_BLOCK_HEADER + PAYLOAD <= room);
	steno_block_header_write(bytes + len, &h);
	steno_block_header_seal(bytes + len, chain);
	memset(bytes + len + STENO_BLOCK_HEADER, 0, PAYLOAD);
	len += STENO_BLOCK_HEADER + PAYLOAD;
}

/* What this process has read, in bytes and calls; false where the kernel does not count it. */
static bool
count_reads(uint64_t *read, uint64_t *calls)
{
	FILE	   *io = fopen("/proc/self/io", "r");
	unsigned long long r = 0;
	unsigned long long c = 0;
	bool		counted;

	if (io == NULL)
		return false;
	counted = fscanf(io, "rchar: %llu wchar: %*u syscr: %llu", &r, &c) == 2;
	fclose(io);
	*read = r;
	*calls = c;
	return counted;
}

/* Open what is in bytes, and check how much is read for it. */
static void
open_cheaply(int blocks)
{
	uint64_t	read = 0;
	uint64_t	calls = 0;
	uint64_t	read_then;
	uint64_t	calls_then;
	bool		counted;

	file_write(path, bytes, len);
	counted = count_reads(&read, &calls);
	trail_open(&t, trail);
	if (counted && count_reads(&read_then, &calls_then))
	{
		CHECK(read_then - read < 20 * len + 1024 * 1024);
		CHECK(calls_then - calls < 12 * (uint64_t) blocks + 1000);
	}
}

/* Opened, the segment ends after its good blocks, at an offset. */
static void
expect_end(uint64_t offset, int good, uint64_t torn)
{
	CHECK(!t.found.damaged);
	CHECK(t.found.torn_bytes == torn);
	CHECK(t.stream.segment == 1 && t.stream.offset == offset);
	CHECK(t.stream.next_block == (uint64_t) good + 1 && t.stream.next_record == (uint64_t) good * 4 + 1);
	trail_must_append(&t, 1);
	trail_close(&t);
	CHECK(trail_verify(trail, 0, NULL) == good + 1);
	free(bytes);
}

TEST(recovery_from_many_torn_blocks_is_linear)
{
	size_t		good;
	int			i;

	make(3, BLOCKS * (STENO_BLOCK_HEADER + PAYLOAD));
	good = len;
	for (i = 0; i < BLOCKS; i++)
		put_torn((uint64_t) i + 4, (uint64_t) i + 13);
	open_cheaply(BLOCKS);
	/* the zeros at the end are room */
	expect_end(good, 3, len - PAYLOAD - good);
}

/* The good block before the torn ones is found wherever it stands. */
TEST(recovery_finds_the_last_good_block_among_many)
{
	static const int torn[] = {1, 2, 3, 1023, 1024, 1025, 1500};
	size_t		i;
	int			n;

	for (i = 0; i < sizeof(torn) / sizeof(torn[0]); i++)
	{
		size_t		good;

		make(1500, (size_t) torn[i] * (STENO_BLOCK_HEADER + PAYLOAD));
		good = len;
		for (n = 0; n < torn[i]; n++)
			put_torn((uint64_t) n + 1501, (uint64_t) n + 6001);
		open_cheaply(1500 + torn[i]);
		expect_end(good, 1500, len - PAYLOAD - good);
		CHECK(unlink(path) == 0);
	}
}

/* Between the blocks is what is no block: each time the next one is searched. */
TEST(recovery_from_torn_blocks_with_gaps_is_linear)
{
	size_t		good;
	int			i;

	make(1, BLOCKS * (STENO_BLOCK_HEADER + PAYLOAD + 1));
	good = len;
	for (i = 0; i < BLOCKS; i++)
	{
		bytes[len++] = 'x';
		put_torn((uint64_t) i + 2, (uint64_t) i + 5);
	}
	open_cheaply(2 * BLOCKS);
	expect_end(good, 1, len - PAYLOAD - good);
}

/*
 * Blocks that look shortened: inside each, headers have the next number, and say that most of the file is their
 * payload.  Somebody who can write to the trail must not be able to make a start slow.
 */
TEST(recovery_from_forged_shortened_blocks_is_linear)
{
	enum
	{
		OUTERS = 100, INNERS = 8, TAIL = 1024 * 1024
	};
	StenoBlockHeader h = {0};
	uint8_t		chain[STENO_HASH_SIZE] = {1};
	uint64_t	number;
	int			i;

	make(2, OUTERS * ((INNERS + 1) * STENO_BLOCK_HEADER + 16) + TAIL);
	for (number = 3; number < 3 + OUTERS; number++)
	{
		h = (StenoBlockHeader) {.stored = INNERS * STENO_BLOCK_HEADER, .raw = 1, .records = 1, .block = number,
			.first_record = number + 6, .payload_sum = 1};
		steno_block_header_write(bytes + len, &h);
		steno_block_header_seal(bytes + len, chain);
		len += STENO_BLOCK_HEADER;
		h.stored = TAIL;
		h.block = number + 1;
		for (i = 0; i < INNERS; i++)
		{
			steno_block_header_write(bytes + len, &h);
			steno_block_header_seal(bytes + len, chain);
			len += STENO_BLOCK_HEADER;
		}
		memset(bytes + len, 'x', 16);
		len += 16;
	}
	memset(bytes + len, 'y', TAIL);
	len += TAIL;
	open_cheaply(OUTERS * (INNERS + 2));
	CHECK(t.found.damaged);
	trail_close(&t);
	free(bytes);
}
