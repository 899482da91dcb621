/*
 * core/redact_check.c
 *		Triggers: the words without which a text has no secret that redact.c would find.
 *
 * Every statement with a literal pays for this search, and most large texts pay for
 * nothing else.  Each word is found by a pair of adjacent letters, which is looked for in
 * blocks of 16 bytes where the processor can do so:
 *
 *		password, passwd		sw
 *		passphrase				sp
 *		pwd						pw
 *		secret, crypt			cr
 *		options					pt
 *		program					og
 *		digest					ig
 *		hmac					hm
 *		set_config				nf
 *		:// (a URI)				//
 *
 * Of a URI a colon must follow, behind which a password may be.
 * The lexer takes names that end like these words, so a word that goes on is no trigger:
 * random letters have hardly any.
 */
#include "redact.h"

#include <string.h>

#include "redact_lex.h"

/* Is it word, written in small letters, at text + at? */
static inline bool
word_at(const char *text, size_t len, size_t at, const char *word, size_t n)
{
	return len - at >= n && steno_redact_same(text + at, word, n);
}

/*
 * Is it word, and is that where a name may end?  A dollar ends it, too: that of a
 * literal's closing tag may follow.
 */
static inline bool
ends_at(const char *text, size_t len, size_t at, const char *word)
{
	size_t		n = strlen(word);

	return word_at(text, len, at, word, n) &&
		(at + n == len || !steno_redact_is_word((unsigned char) text[at + n]));
}

/* encrypt, encrypt_iv, pgp_sym_encrypt_bytea */
static bool
crypt_at(const char *text, size_t len, size_t at)
{
	return word_at(text, len, at, "crypt", 5) &&
		(at + 5 == len || text[at + 5] == '_' || !steno_redact_is_word((unsigned char) text[at + 5]));
}

/* Looked at behind :// before it is taken for a trigger. */
#define AUTHORITY_MOST 64

/* May a password follow :// at text + at?  Not before a colon. */
static bool
uri_at(const char *text, size_t len, size_t at)
{
	size_t		end = len - at > AUTHORITY_MOST ? at + AUTHORITY_MOST : len;

	for (; at < end; at++)
	{
		unsigned char c = (unsigned char) text[at];

		if (c == ':' || c == '\\')
			return true;
		if (c == '/' || c == '@' || c == '?' || c == '#' || c == '"' || c == '\'' || steno_redact_is_space(c))
			return false;
	}
	return at < len;
}

/* Where the trigger with a pair of letters at text + at begins; len: there is none. */
static size_t
trigger_at(const char *text, size_t len, size_t at)
{
	switch (text[at] | 0x20)
	{
		case 's':
			if (at >= 3 && (ends_at(text, len, at - 3, "password") || ends_at(text, len, at - 3, "passwd") ||
							ends_at(text, len, at - 3, "passphrase") ||
							ends_at(text, len, at - 3, "passphrase_command")))
				return at - 3;
			break;
		case 'p':
			if (ends_at(text, len, at, "pwd"))
				return at;
			if (at >= 1 && ends_at(text, len, at - 1, "options"))
				return at - 1;
			break;
		case 'c':
			if (at >= 2 && ends_at(text, len, at - 2, "secret"))
				return at - 2;
			if (crypt_at(text, len, at))
				return at;
			break;
		case 'o':
			if (at >= 2 && ends_at(text, len, at - 2, "program"))
				return at - 2;
			break;
		case 'i':
			if (at >= 1 && ends_at(text, len, at - 1, "digest"))
				return at - 1;
			break;
		case 'h':
			if (ends_at(text, len, at, "hmac"))
				return at;
			break;
		case 'n':
			if (at >= 6 && ends_at(text, len, at - 6, "set_config"))
				return at - 6;
			break;
		case '/':
			if (at >= 1 && text[at - 1] == ':' && text[at] == '/' && text[at + 1] == '/' &&
				uri_at(text, len, at + 2))
				return at - 1;
			break;
		default:
			break;
	}
	return len;
}

static bool
is_pair(int a, int b)
{
	a |= 0x20;
	b |= 0x20;
	switch (b)
	{
		case 'w':
			return a == 's' || a == 'p';
		case 'p':
			return a == 's';
		case 't':
			return a == 'p';
		case 'r':
			return a == 'c';
		case 'g':
			return a == 'o' || a == 'i';
		case 'm':
			return a == 'h';
		case 'f':
			return a == 'n';
		case '/':
			return a == '/';
		default:
			return false;
	}
}

#ifdef __SSE2__

static inline __m128i
load(const char *p)
{
	return _mm_loadu_si128((const __m128i *) p);
}

static inline __m128i
is(__m128i bytes, char c)
{
	return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c));
}

/* A bit for each byte of 16 with which a pair begins; 17 are read. */
static inline unsigned
pair_block(const char *p)
{
	const __m128i small = _mm_set1_epi8(0x20);
	__m128i		a = _mm_or_si128(load(p), small);
	__m128i		b = _mm_or_si128(load(p + 1), small);
	__m128i		w = is(b, 'w');
	__m128i		s_next = _mm_or_si128(w, is(b, 'p'));
	__m128i		p_next = _mm_or_si128(w, is(b, 't'));
	__m128i		g_first = _mm_or_si128(is(a, 'o'), is(a, 'i'));
	__m128i		any = _mm_or_si128(_mm_and_si128(is(a, 's'), s_next), _mm_and_si128(is(a, 'p'), p_next));

	any = _mm_or_si128(any, _mm_and_si128(g_first, is(b, 'g')));
	any = _mm_or_si128(any, _mm_and_si128(is(a, 'c'), is(b, 'r')));
	any = _mm_or_si128(any, _mm_and_si128(is(a, 'h'), is(b, 'm')));
	any = _mm_or_si128(any, _mm_and_si128(is(a, 'n'), is(b, 'f')));
	any = _mm_or_si128(any, _mm_and_si128(is(a, '/'), is(b, '/')));
	return (unsigned) _mm_movemask_epi8(any);
}

/* The first trigger that begins at from or later among those with a pair at p; len: none. */
static size_t
trigger_of(unsigned pairs, const char *text, size_t len, size_t at, size_t from)
{
	for (; pairs != 0; pairs &= pairs - 1)
	{
		size_t		trigger = trigger_at(text, len, at + (size_t) __builtin_ctz(pairs));

		if (trigger >= from && trigger < len)
			return trigger;
	}
	return len;
}

#endif

/*
 * Where the first trigger begins that begins at from or later; len: there is none.
 */
size_t
steno_redact_trigger(const char *text, size_t len, size_t from)
{
	size_t		i = from;

#ifdef __SSE2__
	while (len - i >= 17)
	{
		unsigned	pairs = pair_block(text + i);

		if (pairs != 0)
		{
			size_t		trigger = trigger_of(pairs, text, len, i, from);

			if (trigger < len)
				return trigger;
		}
		i += 16;
	}
	if (i > from && i < len)
		/* the last 17 bytes, some of them again */
		return trigger_of(pair_block(text + len - 17), text, len, len - 17, from);
#endif
	for (; i + 1 < len; i++)
	{
		size_t		trigger = len;

		if (is_pair((unsigned char) text[i], (unsigned char) text[i + 1]))
			trigger = trigger_at(text, len, i);
		if (trigger >= from && trigger < len)
			return trigger;
	}
	return len;
}

bool
steno_redact_suspect(const char *text, size_t len)
{
	return steno_redact_trigger(text, len, 0) < len;
}
