/*
 * core/redact_check.c
 *		Whether a text may have a secret: what every statement with a literal pays.
 *
 * A text without any of a few words has none that redact.c would find.  The words are
 * found in one pass, by a pair of adjacent letters each, which is looked for in
 * blocks of 16 bytes where the processor can do so:
 *
 *		pass (password, passwd, passphrase)		ss
 *		pwd										pw
 *		crypt (encrypt, pgp_sym_decrypt ...)	pt
 *		options									pt
 *		secret									cr
 *		program									og
 *		digest									ig
 *		hmac									hm
 *		:// (a URI may have a password)			//
 */
#include "redact.h"

#include <string.h>

/* Is it word, written in small letters, at text + at - before? */
static bool
word_at(const char *text, size_t len, size_t at, size_t before, const char *word)
{
	size_t		n = strlen(word);
	size_t		i;

	if (at < before || len - (at - before) < n)
		return false;
	text += at - before;
	for (i = 0; i < n; i++)
		if ((text[i] | 0x20) != word[i])
			return false;
	return true;
}

/* A pair of letters begins at text + at: is it part of a word that counts? */
static bool
trigger_at(const char *text, size_t len, size_t at)
{
	switch (text[at] | 0x20)
	{
		case 's':
			return word_at(text, len, at, 2, "pass");
		case 'p':
			return word_at(text, len, at, 0, "pwd") || word_at(text, len, at, 3, "crypt") ||
				word_at(text, len, at, 1, "options");
		case 'c':
			return word_at(text, len, at, 2, "secret");
		case 'o':
			return word_at(text, len, at, 2, "program");
		case 'i':
			return word_at(text, len, at, 1, "digest");
		case 'h':
			return word_at(text, len, at, 0, "hmac");
		case '/':
			return word_at(text, len, at, 1, "://");
		default:
			return false;
	}
}

static bool
is_pair(int a, int b)
{
	a |= 0x20;
	b |= 0x20;
	switch (b)
	{
		case 's':
			return a == 's';
		case 'w':
		case 't':
			return a == 'p';
		case 'r':
			return a == 'c';
		case 'g':
			return a == 'o' || a == 'i';
		case 'm':
			return a == 'h';
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
both(__m128i a, char first, __m128i b, char second)
{
	return _mm_and_si128(_mm_cmpeq_epi8(a, _mm_set1_epi8(first)),
						 _mm_cmpeq_epi8(b, _mm_set1_epi8(second)));
}

/* A bit for each byte of 16 with which a pair begins; 17 are read. */
static inline unsigned
pair_block(const char *p)
{
	const __m128i small = _mm_set1_epi8(0x20);
	__m128i		a = _mm_or_si128(load(p), small);
	__m128i		b = _mm_or_si128(load(p + 1), small);
	__m128i		p_first = _mm_cmpeq_epi8(a, _mm_set1_epi8('p'));
	__m128i		p_second = _mm_or_si128(_mm_cmpeq_epi8(b, _mm_set1_epi8('t')),
										_mm_cmpeq_epi8(b, _mm_set1_epi8('w')));
	__m128i		g_first = _mm_or_si128(_mm_cmpeq_epi8(a, _mm_set1_epi8('o')),
									   _mm_cmpeq_epi8(a, _mm_set1_epi8('i')));
	__m128i		g_second = _mm_cmpeq_epi8(b, _mm_set1_epi8('g'));
	__m128i		any = _mm_or_si128(_mm_and_si128(p_first, p_second),
								   _mm_and_si128(g_first, g_second));

	any = _mm_or_si128(any, both(a, 's', b, 's'));
	any = _mm_or_si128(any, both(a, 'c', b, 'r'));
	any = _mm_or_si128(any, both(a, 'h', b, 'm'));
	any = _mm_or_si128(any, both(a, '/', b, '/'));
	return (unsigned) _mm_movemask_epi8(any);
}

#endif

bool
steno_redact_suspect(const char *text, size_t len)
{
	size_t		i = 0;

#ifdef __SSE2__
	while (len - i >= 17)
	{
		unsigned	found = pair_block(text + i);

		for (; found != 0; found &= found - 1)
			if (trigger_at(text, len, i + (size_t) __builtin_ctz(found)))
				return true;
		i += 16;
	}
	if (i > 0 && i < len)
	{
		/* the last 17 bytes, some of them again */
		unsigned	found = pair_block(text + len - 17);

		for (; found != 0; found &= found - 1)
			if (trigger_at(text, len, len - 17 + (size_t) __builtin_ctz(found)))
				return true;
		return false;
	}
#endif
	for (; i + 1 < len; i++)
		if (is_pair((unsigned char) text[i], (unsigned char) text[i + 1]) && trigger_at(text, len, i))
			return true;
	return false;
}
