/*
 * core/test/trail/corpora_are_replayed.c
 *		The corpora of fuzz/ring_fuzz.c (rings that dead servers have left), fuzz/segment_fuzz.c
 *		and fuzz/record_fuzz.c (recipes of records, which go through rings and blocks to the
 *		decoder), and random recipes.  No input makes a reader of rings or segments use much
 *		memory.
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "test/test.h"
#include "test/trail.h"

int			steno_fuzz_ring(const uint8_t *data, size_t size);
int			steno_fuzz_segment(const uint8_t *data, size_t size);
int			steno_fuzz_records(const uint8_t *data, size_t size);

/* ---- rings and segments ---- */

/* In kB: a sanitizer takes its share. */
#define MOST_MEMORY (256 * 1024)

static void
check_memory(void)
{
	struct rusage usage;

	CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss < MOST_MEMORY);
}

static void
ring(uint8_t *bytes, size_t len)
{
	steno_fuzz_ring(bytes, len);
	check_memory();
}

static void
segment(uint8_t *bytes, size_t len)
{
	steno_fuzz_segment(bytes, len);
	check_memory();
}

/* The input, each of its beginnings of some lengths, and each with a byte changed. */
static void
vary(uint8_t *bytes, size_t len, void (*take) (uint8_t *bytes, size_t len))
{
	uint64_t	random = 1;
	int			i;

	take(bytes, len);
	for (i = 0; i < 8 && len > 0; i++)
	{
		uint8_t    *byte = &bytes[test_below(&random, len)];
		uint8_t		was = *byte;

		take(bytes, test_below(&random, len));
		*byte ^= (uint8_t) (1 << test_below(&random, 8));
		take(bytes, len);
		*byte = was;
	}
}

static void
vary_ring(uint8_t *bytes, size_t len)
{
	vary(bytes, len, ring);
}

static void
vary_segment(uint8_t *bytes, size_t len)
{
	vary(bytes, len, segment);
}

TEST(left_rings_of_the_corpus_are_read_to_an_end)
{
	each_file(STENO_CORPUS "/ring", vary_ring);
}

TEST(segments_of_the_corpus_are_gone_on_with)
{
	each_file(STENO_CORPUS "/segment", vary_segment);
}

/* ---- records ---- */

TEST(records_come_out_of_blocks_as_they_went_into_rings)
{
	uint64_t	random = test_seed();
	uint64_t	runs = test_parameter("RECORD_RUNS", 300);
	static uint8_t recipe[20000];

	for (; runs > 0; runs--)
	{
		size_t		len = test_below(&random, runs % 10 == 0 ? sizeof(recipe) : 500);
		size_t		i;

		for (i = 0; i < len; i++)
			recipe[i] = (uint8_t) (test_random(&random) >> test_below(&random, 8));
		steno_fuzz_records(recipe, len);
	}
}

static void
round_trip(uint8_t *bytes, size_t len)
{
	steno_fuzz_records(bytes, len);
}

TEST(records_of_the_corpus_come_out_as_they_went_in)
{
	each_file(STENO_CORPUS "/record", round_trip);
}
