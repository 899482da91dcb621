/*
 * core/test/filter/redaction_survives_any_text.c
 *		The corpus of the fuzz target, replayed, cut off everywhere, and with random
 *		changes.
 */
#include <string.h>

/* One program has only one of the name. */
#define LLVMFuzzerTestOneInput redact_fuzz_input
#include "fuzz/redact_fuzz.c"

#include "test/test.h"
#include "test/trail.h"

static void
cut_off(uint8_t *bytes, size_t len)
{
	size_t		n;

	for (n = 1; n <= len; n++)
		redact_fuzz_input(bytes, n);
}

static void
change(uint8_t *bytes, size_t len)
{
	static const char of[] = "'\"$\\;=%:/@(, -*\n";
	static uint64_t random;
	int			i;

	CHECK(len > 0);
	if (random == 0)
		random = test_seed();
	for (i = 0; i < 200; i++)
	{
		bytes[test_below(&random, len)] = (uint8_t) (i % 2 ? (int) test_below(&random, 256) :
													 of[test_below(&random, sizeof(of))]);
		redact_fuzz_input(bytes, len);
	}
}

TEST(redaction_survives_texts_that_are_cut_off)
{
	each_file(STENO_CORPUS "/redact", cut_off);
}

TEST(redaction_survives_texts_that_are_changed)
{
	each_file(STENO_CORPUS "/redact", change);
}
