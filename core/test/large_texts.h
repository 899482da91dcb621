/*
 * core/test/large_texts.h
 *		Large texts for the search for secrets: usual ones, and such as are made to take
 *		long.  For tests and the benchmark.
 *
 * Each is a beginning, a part that is repeated, each time with other random characters
 * for its # (letters and digits) and 0 (digits), and an end.
 */
#ifndef STENO_LARGE_TEXTS_H
#define STENO_LARGE_TEXTS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct LargeText
{
	const char *what;
	const char *begin;
	const char *part;
	const char *end;
} LargeText;

static const LargeText large_texts[] = {
	{"random letters and digits", "SELECT length('", "################", "')"},
	{"base64", "SELECT length('", "######/####+######/#########", "')"},
	{"JSON", "INSERT INTO t VALUES ('[",
		"{\"id\": 000000, \"user\": \"######\", \"password\": \"##########\", \"token\": \"################\", "
	"\"tags\": [\"a\", \"b\"], \"url\": \"https://example.com/#####\", \"note\": \"it''s secret, ##### ######\"},", "]')"},
	{"JSON, each document a literal", "INSERT INTO t VALUES (1, '{}')",
	",\n(000000, '{\"user\": \"######\", \"password\": \"##########\", \"key\": \"################\"}', '0000-00-00')", ""},
	{"SQL dump", "INSERT INTO users (id, name, password) VALUES (0)",
	",\n(000000, 'name ####', '$2a$00$######################', NULL, 0.000, 'https://example.com/####')", ";"},
	{"numbers", "SELECT 'password' WHERE a IN (", "000000, ", "'secret')"},
	{"a function's body", "DO $$BEGIN ",
	"UPDATE t SET a = a + 0000, b = 'some text' WHERE c = d AND password <> 'none'; -- a comment\n", "END$$"},
	{"prose with apostrophes", "SELECT length('", "it''s fine, I''m sure ", "secret')"},
	{"connection strings", "SELECT length('", "host=h password=###### ", "')"},
	{"URIs", "SELECT length('", "http://u:####@h/## ", "')"},
	{"secrets of roles", "", "ALTER ROLE r PASSWORD '########';", ""},
	/* made to take long */
	{"trigger words in a literal", "SELECT length('", "password options secret crypt pwd ", "')"},
	{"trigger words in SQL", "SELECT 1", ", password, options, secret, crypt, pwd", ", 'x'"},
	{"parts of trigger words", "SELECT length('", "swspcrogigptnf//", "')"},
	{"one word of trigger words", "SELECT length('", "pwdpwdpwdpwdpwdpwd_crypt", " pwd')"},
	{"URIs without an end", "SELECT length('", "://u:", "')"},
	{"URIs of at signs", "SELECT length('", "://u:@", "')"},
	{"literals, each with a trigger", "SELECT length('x')", ",'pwd ##'", ""},
	{"names that are appended", "SELECT f('x'", "|| 'change the pwd '", ")"},
	{"roles whose names are appended", "DO $$BEGIN EXECUTE ''", "||'ALTER ROLE '||'pwd';", "END$$"},
	{"users of URIs", "SELECT f('x'", ",'://u:'", ")"},
	{"URIs of PostgreSQL", "SELECT f('x'", ",'postgres://u: '' ##'", ")"},
	{"quotes", "SELECT length('", "''''''''''''''''", " pwd ')"},
	{"quotes in layers", "DO 'EXECUTE ''EXECUTE ''''EXECUTE ''''''''", "''''''''''''''''", " pwd '''''''''''''''"},
	{"backslashes", "SELECT length(E'", "\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\", " pwd ')"},
	{"comments", "SELECT 'x', pwd ", "/*/*a*/*/--\n", ", pwd"},
	{"comments that are not closed", "SELECT 'x', pwd ", "/*/*pwd", ", pwd"},
	{"dollars", "SELECT 'x', pwd ", "$", ", pwd"},
	{"dollar quotes", "SELECT 'x', pwd ", " $a$ $$ $b$ pwd", ", pwd"},
	{"one tag", "SELECT pwd $aaaaaaaaaaaaaaaa$ ", "$aaaaaaaaaaaaaaab", ", pwd"},
	{"dollars before a trigger", "SELECT length('", "$$$$$$$$$$$$$$$$", "pwd')"},
	{"parentheses", "SELECT crypt(", "(((())))", "'pwd')"},
	{"literals that are all hidden", "SELECT crypt(", "'a',b,", "'pwd')"},
	{"words behind a password", "SELECT f('password=", "a b ''c'' \" ", "')"},
	{"names", "SELECT 'x', pwd", ",\"a\"\"b\"", " pwd"},
	{"escapes in a line", "SELECT length(E'pwd --", "\\\\\\\\", "')"},
	{"escaped ends of lines", "SELECT length(E'pwd ", "\\n--\\\\", "')"},
	{"comments of escaped lines", "SELECT length(E'''", "\\n--pwd ", "')"},
};

#define LARGE_TEXTS (sizeof(large_texts) / sizeof(large_texts[0]))

static inline size_t
put_part(char *to, const char *part, size_t room, uint64_t *random)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t		n;

	for (n = 0; part[n] != '\0' && n < room; n++)
	{
		*random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		if (part[n] == '#')
			to[n] = letters[(*random >> 33) % 62];
		else if (part[n] == '0')
			to[n] = (char) ('0' + (*random >> 33) % 10);
		else
			to[n] = part[n];
	}
	return n;
}

/* A text of that length, in memory of its own; NULL: there is none. */
static inline char *
make_large(const LargeText *t, size_t len)
{
	char	   *large = malloc(len);
	size_t		end = len - strlen(t->end);
	size_t		at;
	uint64_t	random = 1;

	if (large == NULL)
		return NULL;
	for (at = put_part(large, t->begin, len, &random); at < end;)
		at += put_part(large + at, t->part, end - at, &random);
	memcpy(large + end, t->end, strlen(t->end));
	return large;
}

#endif							/* STENO_LARGE_TEXTS_H */
