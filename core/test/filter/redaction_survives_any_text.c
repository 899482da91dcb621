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

/* ---- documents ---- */

/* Most have no effect in a JSON document; the last nine may have. */
static const char *const of_documents[] = {
	"\"password\": ", "\"secret\",", "''", "it''s ", " ", "\n", "\"url\": \"https://example.com/a\"", "x", "{", "[1,2]",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\"pwd\"", "hmac", "program", "//",
	"://u:p@h", "password=x", "secret ", "'", "crypt('x')", "options ", "set_config('password','b')", "'); SELECT '{", "\\"
};

/*
 * A literal that is a JSON document is passed in wide blocks, some of which overlap: what matters in
 * it is found in any place of any block, and quotes pair across blocks.
 */
TEST(documents_are_passed_only_without_effect)
{
	const size_t harmless = 15;
	const size_t matter = sizeof(of_documents) / sizeof(of_documents[0]) - harmless;
	uint64_t	random = test_seed();
	static uint8_t text[8192];
	int			run;

	for (run = 0; run < 10000; run++)
	{
		size_t		wanted = run % 20 == 0 ? 4000 : test_below(&random, 400);
		size_t		len = (size_t) snprintf((char *) text, sizeof(text), "1SELECT '{");
		size_t		matters = test_below(&random, 2 * wanted + 1);

		while (len < wanted)
		{
			bool		now = len > matters;
			size_t		which = now ? harmless + test_below(&random, matter) : test_below(&random, harmless);
			const char *piece = of_documents[which];

			matters = now ? SIZE_MAX : matters;
			len += (size_t) snprintf((char *) text + len, sizeof(text) - len, "%s", piece);
		}
		len += (size_t) snprintf((char *) text + len, sizeof(text) - len, "%s", run % 3 == 0 ? "" : "}', password = 'y'");
		redact_fuzz_input(text, len);
	}
}
