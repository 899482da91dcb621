/*
 * core/test/filter/redaction_is_linear.c
 *		The work for a byte of a large text is bounded, whatever the text, and small for
 *		usual ones.  Steps are counted, not time.
 */
#include "test/large_texts.h"
#include "filter/redact.h"
#include "test/test.h"

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

		if (large > 2.5 || large > small * 1.1 + 1)
			fprintf(stderr, "%s: %.2f steps for each byte of 20 kB, %.2f of 2 MB\n", large_texts[i].what, small, large);
		CHECK(large <= 2.5);
		CHECK(large <= small * 1.1 + 1);
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
