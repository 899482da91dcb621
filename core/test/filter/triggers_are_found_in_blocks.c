/*
 * core/test/filter/triggers_are_found_in_blocks.c
 *		redact_check.c searches blocks of 32 bytes, of 16, or single bytes, by what the
 *		processor can do.  All three find what a plain comparison of words finds, wherever
 *		it stands in a block, and in documents, too.
 */
#include <string.h>

#include "filter/redact_lex.h"
#include "test/test.h"

/* redact_check.c compiled without AVX2, and without SSE2: the Makefile renames its functions */
extern size_t blocks_trigger(const char *text, size_t len, size_t from, bool strings);
extern size_t bytes_trigger(const char *text, size_t len, size_t from, bool strings);
extern bool blocks_document(const char *text, size_t len, size_t from, size_t *end_at);
extern bool bytes_document(const char *text, size_t len, size_t from, size_t *end_at);

static const char *const words[] = {
	"password", "passwd", "passphrase", "passphrase_command", "pwd", "secret", "crypt", "crypt_", "options", "program",
	"digest", "hmac", "set_config"
};

#define WORDS (sizeof(words) / sizeof(words[0]))

/* ---- by comparison ---- */

static bool
is_trigger(const char *text, size_t len, size_t at, bool strings)
{
	size_t		i;

	for (i = 0; i < WORDS; i++)
	{
		size_t		n = strlen(words[i]);

		if (len - at < n || !steno_redact_same(text + at, words[i], n))
			continue;
		if (words[i][n - 1] == '_')
			return true;
		if (at + n < len && steno_redact_is_word((unsigned char) text[at + n]) &&
			steno_redact_pasted_space(text + at + n, len - at - n) == 0)
			continue;
		if (!strings || !steno_redact_is_bare(text, len, at + n))
			return true;
	}
	if (len - at < 3 || memcmp(text + at, "://", 3) != 0)
		return false;
	for (i = at + 3; i < len && i < at + 3 + 64; i++)
	{
		if (text[i] == ':' || text[i] == '\\')
			return true;
		if (text[i] != 0 && strchr("/@?#\"' \t\n\v\f\r", text[i]) != NULL)
			return false;
	}
	return i < len;
}

static size_t
expected_trigger(const char *text, size_t len, size_t from, bool strings)
{
	while (from < len && !is_trigger(text, len, from, strings))
		from++;
	return from;
}

/* Where a document without effect ends that begins at from; 0: it has one, or does not end. */
static size_t
expected_end(const char *text, size_t len, size_t from, size_t end)
{
	size_t		at;

	for (at = from; at < end; at++)
	{
		if (is_trigger(text, len, at, true))
			return 0;
		if (text[at] != '\'')
			continue;
		if (at + 1 == end || text[at + 1] != '\'')
			return at + 1;
		if (!steno_redact_in_word((unsigned char) text[at - 1]))
			return 0;
		at++;
	}
	return 0;
}

/* ---- comparisons of all ways ---- */

static void
check_triggers(const char *text, size_t len, size_t from)
{
	int			strings;

	for (strings = 0; strings <= 1; strings++)
	{
		size_t		expected = expected_trigger(text, len, from, strings);

		CHECK(steno_redact_trigger(text, len, from, strings) == expected);
		CHECK(blocks_trigger(text, len, from, strings) == expected);
		CHECK(bytes_trigger(text, len, from, strings) == expected);
	}
}

typedef bool (*FindDocument) (const char *text, size_t len, size_t from, size_t *end_at);

static void
check_document(const char *text, size_t len, size_t from, size_t end)
{
	static const FindDocument ways[] = {steno_redact_document, blocks_document, bytes_document};
	size_t		expected = expected_end(text, len, from, end);
	int			i;

	for (i = 0; i < 3; i++)
	{
		size_t		end_at = end;

		CHECK(ways[i] (text, len, from, &end_at) == (expected > 0));
		if (expected > 0)
			CHECK(end_at == expected);
	}
}

/* The text in memory of its own, so that a sanitizer notices if anything outside of it is read. */
static void
check(const char *text, size_t len, size_t from, bool document)
{
	char	   *copy = malloc(len > 0 ? len : 1);

	memcpy(copy, text, len);
	if (document)
		check_document(copy, len, from, len);
	else
		check_triggers(copy, len, from);
	free(copy);
}

/* ---- tests ---- */

/* 150 bytes are two wide blocks and more. */
TEST(triggers_are_found_in_all_places_of_blocks)
{
	static char text[256];
	size_t		w;
	size_t		at;

	for (w = 0; w <= WORDS; w++)
	{
		const char *word = w < WORDS ? words[w] : "://";
		size_t		n = strlen(word);

		for (at = 0; at + n <= 150; at++)
		{
			memset(text, 'x', sizeof(text));
			memcpy(text + at, word, n);
			check(text, at + n, 0, false);
			text[at + n] = ' ';
			check(text, 150, 0, false);
			check(text, 150, at, false);
			check(text, 150, at + 1, false);
			text[at + n] = ':';
			check(text, 150, 0, false);
			/* the same in a document */
			if (at == 0)
				continue;
			text[0] = '{';
			text[at + n + 1] = '\'';
			check(text, at + n + 2, 0, true);
			check(text, 200, 0, true);
			text[at + n] = '"';
			check(text, 200, 0, true);
		}
	}
}

TEST(triggers_are_found_between_any_bytes)
{
	static char text[100];
	size_t		w;
	int			c;

	for (w = 0; w <= WORDS; w++)
		for (c = 0; c < 256; c++)
		{
			const char *word = w < WORDS ? words[w] : "://";
			size_t		n = strlen(word);

			memset(text, 'x', sizeof(text));
			text[0] = '{';
			text[sizeof(text) - 1] = '\'';
			memcpy(text + 40, word, n);
			text[40 + n] = (char) c;
			check(text, sizeof(text), 0, false);
			check(text, sizeof(text), 0, true);
			text[40 + n + 1] = ':';
			text[39] = (char) (255 - c);
			check(text, sizeof(text), 0, false);
			check(text, sizeof(text), 0, true);
		}
}

/* Words, and what is nearly one. */
TEST(triggers_are_found_in_random_texts)
{
	static const char *const others[] = {
		"'", "''", "\"", "\": ", " ", "=", "_", "://", "u:p@h", "e''s ", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "\n", "\\", "\xc3\xa9"
	};
	const size_t all = WORDS + sizeof(others) / sizeof(others[0]);
	static char text[4200];
	uint64_t	random = test_seed();
	int			run;

	for (run = 0; run < 5000; run++)
	{
		size_t		wanted = run % 50 == 0 ? 4000 : test_below(&random, 300);
		size_t		words_in_100 = test_below(&random, 100);
		bool		document = run % 2 != 0;
		size_t		len = 0;

		text[len++] = '{';
		while (len < wanted)
		{
			size_t		which = test_below(&random, all);
			const char *piece = which < WORDS ? words[which] : others[which - WORDS];
			size_t		n = strlen(piece);

			if (test_below(&random, 100) >= words_in_100)
			{
				text[len++] = (char) ('!' + test_below(&random, 90));
				continue;
			}
			memcpy(text + len, piece, n);
			if (test_below(&random, 4) == 0)
				text[len + test_below(&random, n)] ^= (char) (1 << test_below(&random, 8));
			len += n;
		}
		check(text, len, document ? 0 : test_below(&random, len), document);
	}
}
