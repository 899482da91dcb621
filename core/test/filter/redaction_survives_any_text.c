/*
 * core/test/filter/redaction_survives_any_text.c
 *		The corpus of the fuzz target, replayed, cut off everywhere, and with random
 *		changes.  The work for a byte of a large text is bounded, whatever the text, and
 *		small for usual ones: steps are counted, not time.
 */
#include <string.h>

/* One program has only one of the name. */
#define LLVMFuzzerTestOneInput redact_fuzz_input
#include "fuzz/redact_fuzz.c"

#include "test/large_texts.h"
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

/* ---- work ---- */

static void
ignore(void *arg, const StenoSecret *secret)
{
	(void) arg;
	(void) secret;
}

static double
work_of(const LargeText *t, size_t len)
{
	char	   *large = make_large(t, len);
	uint64_t	work;

	CHECK(large != NULL);
	work = steno_redact_work(large, len, true, false, ignore, NULL);
	free(large);
	return (double) work / (double) len;
}

static const LargeText *
find_text(const char *what)
{
	size_t		i;

	for (i = 0; i < LARGE_TEXTS; i++)
		if (strcmp(large_texts[i].what, what) == 0)
			return &large_texts[i];
	CHECK(!"no such text");
	return NULL;
}

/* A text that is longer takes no more work for each byte. */
TEST(work_for_each_byte_is_bounded)
{
	size_t		i;

	for (i = 0; i < LARGE_TEXTS; i++)
	{
		double		small = work_of(&large_texts[i], 20 * 1000);
		double		large = work_of(&large_texts[i], 2 * 1000 * 1000);

		if (large > 8 || large > small * 1.1 + 1)
			fprintf(stderr, "%s: %.2f steps for each byte of 20 kB, %.2f of 2 MB\n", large_texts[i].what, small, large);
		CHECK(large <= 8);
		CHECK(large <= small * 1.1 + 1);
	}
}

/* Whether digits are a port depends on what follows them, and may be asked behind each later word. */
TEST(digits_of_uris_are_read_once)
{
	const size_t digits = 100 * 1000;
	static char text[3 * 100 * 1000];
	size_t		len = (size_t) snprintf(text, sizeof(text), "SELECT f('postgres://u:");
	uint64_t	work;

	memset(text + len, '1', digits);
	len += digits;
	text[len++] = 'x';
	memset(text + len, ' ', digits);
	len += digits;
	len += (size_t) snprintf(text + len, sizeof(text) - len, "@')");
	work = steno_redact_work(text, len, true, false, ignore, NULL);
	CHECK(work <= 8 * len);
}

/* ---- any parts, repeated ---- */

static const char *const motifs[] = {
	"'", "''", "E'", "N'", "U&'", "\\", "\\\\", "\\n", "\\'", "--", "\n", "/*", "*/", "-", "/", "$", "$$", "$a$", "\"", "(", ")", ";", ",",
	" ", "=", ":", "@", "?", "%s", "||", "{", "[", "}", "0", "1", "x", "\302\240", "://", "://u:", "postgres://", "postgres://u:",
	"password ", "pwd=", "secret '", "passphrase", "options (", "program '", "crypt(", "set_config('", "digest", "hmac",
	"curl ", "mysql ", "sshpass ", "-p", "-u ", "--user ", "--password=", "key ", "CREATE ROLE ", "ALTER USER ", "SET ",
	"EXECUTE '", "DO $a$", "CASE WHEN ", "END "
};

#define MOTIFS (sizeof(motifs) / sizeof(motifs[0]))

/* Texts begin so that what follows has an effect, except for the last one. */
static const char *const beginnings[] = {
	"SELECT E'pwd ", "DO $$ BEGIN EXECUTE 'pwd", "SELECT 'postgres://u:", "SELECT '://u:", "COPY t TO PROGRAM 'curl ", "ALTER ROLE r PASSWORD ",
	"CREATE SERVER s OPTIONS (", "SELECT 'password=", "SELECT crypt(", "UPDATE t SET password = ", "SELECT N'' pwd", ""
};

#define BEGINNINGS (sizeof(beginnings) / sizeof(beginnings[0]))

static size_t
put_motifs(char *to, uint64_t *random, size_t most)
{
	size_t		n = 0;
	size_t		count = test_below(random, most + 1);

	while (count-- > 0)
	{
		const char *motif = motifs[test_below(random, MOTIFS)];

		memcpy(to + n, motif, strlen(motif));
		n += strlen(motif);
	}
	return n;
}

/* The work is counted for texts that are long enough to show what takes more for each byte of a longer one. */
TEST(work_for_repeated_motifs_is_bounded)
{
	enum
	{
		LEN = 200000, MOST = 4
	};
	uint64_t	random = test_seed();
	static char text[LEN + 8 * MOST * 16];
	char		motif[MOST * 16];
	int			run;

	for (run = 0; run < 1000; run++)
	{
		bool		standard_strings = test_below(&random, 4) > 0;
		const char *beginning = beginnings[test_below(&random, BEGINNINGS)];
		size_t		len = strlen(beginning);
		int			part;
		uint64_t	work;

		memcpy(text, beginning, len);
		len += put_motifs(text + len, &random, MOST);
		for (part = 0; part < 3; part++)
		{
			size_t		n = put_motifs(motif, &random, MOST);

			len += repeat_part(text + len, motif, n, LEN / 3);
			len += put_motifs(text + len, &random, MOST);
		}
		work = steno_redact_work(text, len, standard_strings, false, ignore, NULL);
		if (work > STENO_REDACT_WORK(len))
			fprintf(stderr, "%zu bytes take %zu steps: %.300s ...\n", len, (size_t) work, text);
		CHECK(work <= STENO_REDACT_WORK(len));
	}
}

/* Of usual texts, most is skipped. */
TEST(usual_texts_are_skipped)
{
	CHECK(work_of(find_text("random letters and digits"), 200 * 1000) < 0.25);
	CHECK(work_of(find_text("base64"), 200 * 1000) < 0.25);
	CHECK(work_of(find_text("JSON"), 200 * 1000) < 0.25);
	CHECK(work_of(find_text("JSON, each document a literal"), 200 * 1000) < 0.25);
	CHECK(work_of(find_text("prose with apostrophes"), 200 * 1000) < 1);
}

/* Runs of quotes and of backslashes are passed at once, in any layer. */
TEST(runs_of_quotes_are_skipped)
{
	CHECK(work_of(find_text("quotes"), 200 * 1000) < 0.5);
	CHECK(work_of(find_text("quotes in layers"), 200 * 1000) < 0.5);
	CHECK(work_of(find_text("backslashes"), 200 * 1000) < 0.5);
}

/* Nesting costs a look for each level, of which there are few. */
TEST(work_for_nested_texts_is_bounded)
{
	static char text[2][1000 * 1000];
	size_t		len = 100;
	uint64_t	work;
	int			depth;

	memset(text[0], '\'', len);
	memcpy(text[0], "pwd ", 4);
	for (depth = 0; len * 2 + 10 < sizeof(text[0]); depth++)
	{
		const char *from = text[depth % 2];
		char	   *to = text[(depth + 1) % 2];
		size_t		n = 0;
		size_t		i;

		memcpy(to, "EXECUTE '", 9);
		for (i = 0, n = 9; i < len; i++)
		{
			if (from[i] == '\'')
				to[n++] = '\'';
			to[n++] = from[i];
		}
		to[n++] = '\'';
		len = n;
		work = steno_redact_work(to, len, true, false, ignore, NULL);
		if (work > STENO_REDACT_WORK(len))
			fprintf(stderr, "depth %d, %zu bytes: %zu steps\n", depth, len, (size_t) work);
		CHECK(work <= STENO_REDACT_WORK(len));
	}
}
