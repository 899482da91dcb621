/*
 * core/filter/redact_check.c
 *		Triggers: the words without which a text has no secret that redact.c would find.
 *
 * Every statement with a literal pays for this search, and most large texts pay for
 * nothing else.  Each word is found by a pair of adjacent letters, which is looked for in
 * blocks of 32 or 16 bytes where the processor can do so:
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
 * random letters have hardly any.  In other languages than SQL most names have no effect:
 * those of a JSON document are passed without a look at what stands between them.
 */
#include "filter/redact.h"

#include <string.h>

#include "filter/redact_lex.h"

/* On x86 wider blocks are looked at where the processor can do so. */
#if defined(__x86_64__) && defined(__SSE2__)
#define STENO_REDACT_WIDE
#include <immintrin.h>
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Two, four or eight bytes as a number, letters as small ones. */
static ALWAYS_INLINE uint64_t
small_letters(const char *p, size_t n)
{
	uint16_t	two;
	uint32_t	four;
	uint64_t	eight;

	if (n == 2)
	{
		memcpy(&two, p, 2);
		return two | 0x2020;
	}
	if (n == 4)
	{
		memcpy(&four, p, 4);
		return four | 0x20202020;
	}
	memcpy(&eight, p, 8);
	return eight | UINT64_C(0x2020202020202020);
}

/* Is it word, which is a constant written in small letters, at text + at? */
static ALWAYS_INLINE bool
word_at(const char *text, size_t len, size_t at, const char *word, size_t n)
{
	const char *p = text + at;
	const size_t part = n >= 8 ? 8 : n >= 4 ? 4 : 2;

	/* parts that overlap */
	return len - at >= n && small_letters(p, part) == small_letters(word, part) &&
		small_letters(p + n - part, part) == small_letters(word + n - part, part) &&
		(n <= 16 || small_letters(p + 8, 8) == small_letters(word + 8, 8));
}

/*
 * Is it word, and is that where a name may end?  A dollar ends it, too: that of a
 * literal's closing tag may follow.  strings: and has the name an effect in other languages than SQL?
 */
static ALWAYS_INLINE bool
ends_at(const char *text, size_t len, size_t at, const char *word, bool strings)
{
	size_t		n = strlen(word);

	return word_at(text, len, at, word, n) &&
		(at + n == len || !steno_redact_is_word((unsigned char) text[at + n])) &&
		!(strings && steno_redact_is_bare(text, len, at + n));
}

/* encrypt, encrypt_iv, pgp_sym_encrypt_bytea */
static ALWAYS_INLINE bool
crypt_at(const char *text, size_t len, size_t at, bool strings)
{
	return ends_at(text, len, at, "crypt", strings) || word_at(text, len, at, "crypt_", 6);
}

/* Looked at behind :// before it is taken for a trigger. */
#define AUTHORITY_MOST 64

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

static inline __m128i
is_space(__m128i bytes)
{
	__m128i		from_tab = _mm_sub_epi8(bytes, _mm_set1_epi8('\t'));

	return _mm_or_si128(is(bytes, ' '), _mm_cmpeq_epi8(_mm_min_epu8(from_tab, _mm_set1_epi8('\r' - '\t')), from_tab));
}

#endif

/* May a password follow :// at text + at?  Not before a colon. */
static bool
uri_at(const char *text, size_t len, size_t at)
{
	size_t		end = len - at > AUTHORITY_MOST ? at + AUTHORITY_MOST : len;

#ifdef __SSE2__
	for (; end - at >= 16; at += 16)
	{
		__m128i		v = load(text + at);
		__m128i		colon = _mm_or_si128(is(v, ':'), is(v, '\\'));
		__m128i		ends = _mm_or_si128(_mm_or_si128(is(v, '/'), is(v, '@')), _mm_or_si128(is(v, '?'), is(v, '#')));
		__m128i		quotes = _mm_or_si128(is(v, '"'), is(v, '\''));
		__m128i		any = _mm_or_si128(_mm_or_si128(colon, ends), _mm_or_si128(quotes, is_space(v)));
		unsigned	found = (unsigned) _mm_movemask_epi8(any);

		if (found != 0)
			return ((unsigned) _mm_movemask_epi8(colon) & found & (0 - found)) != 0;
	}
#endif
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

/*
 * Where the password of a URI may end, at text + at or later: at an at sign, a quote, a backslash
 * or white space.
 */
size_t
steno_redact_password_end(const char *text, size_t at, size_t end)
{
#ifdef __SSE2__
	for (; end - at >= 16; at += 16)
	{
		__m128i		v = load(text + at);
		__m128i		quotes = _mm_or_si128(is(v, '"'), is(v, '\''));
		__m128i		any = _mm_or_si128(_mm_or_si128(is(v, '@'), is(v, '\\')), _mm_or_si128(quotes, is_space(v)));
		unsigned	found = (unsigned) _mm_movemask_epi8(any);

		if (found != 0)
			return at + (size_t) __builtin_ctz(found);
	}
#endif
	while (at < end && text[at] != '@' && text[at] != '\\' && text[at] != '"' && text[at] != '\'' &&
		   !steno_redact_is_space((unsigned char) text[at]))
		at++;
	return at;
}

/* Where the trigger with a pair of letters at text + at begins; len: there is none. */
static size_t
trigger_at(const char *text, size_t len, size_t at, bool strings)
{
	switch (text[at] | 0x20)
	{
		case 's':
			if (at >= 3 && (ends_at(text, len, at - 3, "password", strings) || ends_at(text, len, at - 3, "passwd", strings) ||
							ends_at(text, len, at - 3, "passphrase", strings) ||
							ends_at(text, len, at - 3, "passphrase_command", strings)))
				return at - 3;
			break;
		case 'p':
			if (ends_at(text, len, at, "pwd", strings))
				return at;
			if (at >= 1 && ends_at(text, len, at - 1, "options", strings))
				return at - 1;
			break;
		case 'c':
			if (at >= 2 && ends_at(text, len, at - 2, "secret", strings))
				return at - 2;
			if (crypt_at(text, len, at, strings))
				return at;
			break;
		case 'o':
			if (at >= 2 && ends_at(text, len, at - 2, "program", strings))
				return at - 2;
			break;
		case 'i':
			if (at >= 1 && ends_at(text, len, at - 1, "digest", strings))
				return at - 1;
			break;
		case 'h':
			if (ends_at(text, len, at, "hmac", strings))
				return at;
			break;
		case 'n':
			if (at >= 6 && ends_at(text, len, at - 6, "set_config", strings))
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

/* A bit for each byte of 16 with which a pair begins; 17 are read. */
static inline uint32_t
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
	return (uint32_t) _mm_movemask_epi8(any);
}

#endif

/* The first trigger that begins at from or later among those with these pairs; len: none. */
static inline size_t
trigger_of(uint32_t pairs, const char *text, size_t len, size_t at, size_t from, bool strings)
{
	for (; pairs != 0; pairs &= pairs - 1)
	{
		size_t		trigger = trigger_at(text, len, at + (size_t) __builtin_ctz(pairs), strings);

		if (trigger >= from && trigger < len)
			return trigger;
	}
	return len;
}

#ifdef STENO_REDACT_WIDE

#define WIDE __attribute__((target("avx2")))
#define WIDE_BLOCK 32
#define WIDE_READ (WIDE_BLOCK + 2)

/* Sets of characters: a bit for each of eight sets, by the lower and the upper half of a character. */
typedef struct Sets
{
	uint8_t		lower[16];
	uint8_t		upper[16];
} Sets;

static WIDE inline __m256i
load_half(const uint8_t *bytes)
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) bytes));
}

static WIDE inline __m256i
in_sets(const char *p, __m256i lower, __m256i upper)
{
	const __m256i half = _mm256_set1_epi8(0x0f);
	__m256i		v = _mm256_loadu_si256((const __m256i *) p);
	__m256i		v_upper = _mm256_and_si256(_mm256_srli_epi16(v, 4), half);

	return _mm256_and_si256(_mm256_shuffle_epi8(lower, _mm256_and_si256(v, half)),
							_mm256_shuffle_epi8(upper, v_upper));
}

/*
 * As steno_redact_trigger(), up to where the last wide block ends.  Pairs are looked for together
 * with the letter that follows, each in a set of its own:
 *
 *		0	sw, sp	and o, d, h			4	hm	and a
 *		1	pw, pt	and d, i			5	nf	and i
 *		2	cr		and e, y			6	//	and anything
 *		3	og, ig	and r, e
 */
static WIDE size_t
wide_trigger(const char *text, size_t len, size_t from, bool strings, size_t *done)
{
	static const Sets first = {
		{2, 0, 0, 5, 0, 0, 0, 0, 16, 8, 0, 0, 0, 0, 32, 72},
		{0, 0, 64, 0, 60, 3, 60, 3, 0, 0, 0, 0, 0, 0, 0, 0}
	};
	static const Sets second = {
		{1, 0, 4, 0, 2, 0, 32, 11, 0, 0, 0, 0, 0, 16, 0, 64},
		{0, 0, 64, 0, 56, 7, 56, 7, 0, 0, 0, 0, 0, 0, 0, 0}
	};
	static const Sets third = {
		{64, 80, 72, 64, 67, 76, 64, 64, 65, 102, 64, 64, 64, 64, 64, 65},
		{64, 64, 64, 64, 127, 76, 127, 76, 64, 64, 64, 64, 64, 64, 64, 64}
	};
	const		__m256i first_lower = load_half(first.lower);
	const		__m256i first_upper = load_half(first.upper);
	const		__m256i second_lower = load_half(second.lower);
	const		__m256i second_upper = load_half(second.upper);
	const		__m256i third_lower = load_half(third.lower);
	const		__m256i third_upper = load_half(third.upper);
	size_t		i;

	for (i = from; len - i >= WIDE_READ; i += WIDE_BLOCK)
	{
		__m256i		both = _mm256_and_si256(in_sets(text + i, first_lower, first_upper),
											in_sets(text + i + 1, second_lower, second_upper));
		__m256i		any = _mm256_and_si256(both, in_sets(text + i + 2, third_lower, third_upper));
		uint32_t	none = (uint32_t) _mm256_movemask_epi8(_mm256_cmpeq_epi8(any, _mm256_setzero_si256()));
		size_t		trigger;

		if (none == UINT32_MAX)
			continue;
		trigger = trigger_of(~none, text, len, i, from, strings);
		if (trigger < len)
			return trigger;
	}
	*done = i;
	return len;
}

#endif

/*
 * Where the first trigger begins that begins at from or later; len: there is none.  strings: one
 * that has an effect in other languages than SQL.
 */
size_t
steno_redact_trigger(const char *text, size_t len, size_t from, bool strings)
{
	size_t		i = from;

#ifdef STENO_REDACT_WIDE
	if (len - i >= WIDE_READ && __builtin_cpu_supports("avx2"))
	{
		size_t		trigger = wide_trigger(text, len, from, strings, &i);

		if (trigger < len)
			return trigger;
	}
#endif
#ifdef __SSE2__
	while (len - i >= 17)
	{
		uint32_t	pairs = pair_block(text + i);

		if (pairs != 0)
		{
			size_t		trigger = trigger_of(pairs, text, len, i, from, strings);

			if (trigger < len)
				return trigger;
		}
		i += 16;
	}
	if (i > from && i < len)
		/* the last 17 bytes, some of them again */
		return trigger_of(pair_block(text + len - 17), text, len, len - 17, from, strings);
#endif
	for (; i + 1 < len; i++)
	{
		size_t		trigger = len;

		if (is_pair((unsigned char) text[i], (unsigned char) text[i + 1]))
			trigger = trigger_at(text, len, i, strings);
		if (trigger >= from && trigger < len)
			return trigger;
	}
	return len;
}

bool
steno_redact_suspect(const char *text, size_t len)
{
	return steno_redact_trigger(text, len, 0, false) < len;
}
