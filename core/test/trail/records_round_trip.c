/*
 * core/test/trail/records_round_trip.c
 *		Random recipes of records, and those of the fuzzer's corpus, through rings
 *		and blocks to the decoder: fuzz/record_fuzz.c.
 */
#include <stdlib.h>

#include "test/test.h"
#include "test/trail.h"

int			steno_fuzz_records(const uint8_t *data, size_t size);

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
