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
#define WIDE_COUNTS __attribute__((target("avx2,popcnt,bmi")))
#define WIDE_BLOCK 32
#define WIDE_READ (WIDE_BLOCK + 2)

/*
 * A text of some megabytes is not in the processor's caches when it is searched, and what the
 * processor fetches ahead by itself ends with each page: to ask for the next page doubles the
 * speed.  What lies behind the text is not read by that.
 */
#define PREFETCH_NEXT_PAGE(p) __builtin_prefetch((p) + 4096)

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
 * The sets of pairs of letters, which are looked for together with the letter that follows, each in
 * a set of its own:
 *
 *		0	sw, sp	and o, d, h			4	hm	and a
 *		1	pw, pt	and d, i			5	nf	and i
 *		2	cr		and e, y			6	//	and anything
 *		3	og, ig	and r, e
 */
typedef struct Pairs
{
	__m256i		first_lower;
	__m256i		first_upper;
	__m256i		second_lower;
	__m256i		second_upper;
	__m256i		third_lower;
	__m256i		third_upper;
} Pairs;

static WIDE inline Pairs
load_pairs(void)
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
	Pairs		sets = {
		load_half(first.lower), load_half(first.upper), load_half(second.lower), load_half(second.upper),
		load_half(third.lower), load_half(third.upper)
	};

	return sets;
}

/* A bit for each byte of 32 with which no pair begins; 34 are read. */
static WIDE inline uint32_t
no_pairs(const char *p, Pairs sets)
{
	__m256i		both = _mm256_and_si256(in_sets(p, sets.first_lower, sets.first_upper),
										in_sets(p + 1, sets.second_lower, sets.second_upper));
	__m256i		any = _mm256_and_si256(both, in_sets(p + 2, sets.third_lower, sets.third_upper));

	return (uint32_t) _mm256_movemask_epi8(_mm256_cmpeq_epi8(any, _mm256_setzero_si256()));
}

/* As steno_redact_trigger(), up to where the last wide block ends. */
static WIDE size_t
wide_trigger(const char *text, size_t len, size_t from, bool strings, size_t *done)
{
	const Pairs sets = load_pairs();
	size_t		i;

	for (i = from; len - i >= WIDE_READ; i += WIDE_BLOCK)
	{
		uint32_t	none = no_pairs(text + i, sets);
		size_t		trigger;

		PREFETCH_NEXT_PAGE(text + i);
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

/* ---- documents ---- */

typedef enum Found
{
	NOTHING,
	DOCUMENT_ENDS,
	DOCUMENT_MATTERS			/* there is something that has an effect */
} Found;

/*
 * What stands at text + *at, a quote or a pair of letters, means for a document.  *at is moved to
 * its last byte; behind it, when the document ends.
 */
static inline Found
found_in_document(const char *text, size_t len, size_t from, size_t end, size_t *at)
{
	size_t		trigger;

	if (text[*at] != '\'')
	{
		trigger = trigger_at(text, len, *at, true);
		return trigger >= from && trigger < len ? DOCUMENT_MATTERS : NOTHING;
	}
	++*at;
	if (*at == end || text[*at] != '\'')
		return DOCUMENT_ENDS;
	return steno_redact_in_word((unsigned char) text[*at - 2]) ? NOTHING : DOCUMENT_MATTERS;
}

#ifdef STENO_REDACT_WIDE

/* How many bytes are looked through before what was found in them is looked at. */
#define DOCUMENT_WINDOW 1024
#define DOCUMENT_BLOCK (2 * WIDE_BLOCK)
#define DOCUMENT_READ (DOCUMENT_BLOCK + 2)

/* Each block writes as many places, and more only when it has them. */
#define USUAL_PLACES 4

/* A bit for each byte of 32 that is as in the other block. */
static WIDE inline uint32_t
bytes_like(const char *p, __m256i other)
{
	return (uint32_t) _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *) p), other));
}

static WIDE_COUNTS Found
wide_document(const char *text, size_t len, size_t from, size_t end, size_t *at)
{
	const Pairs sets = load_pairs();
	const		__m256i quotes = _mm256_set1_epi8('\'');
	uint16_t	places[DOCUMENT_WINDOW + USUAL_PLACES];
	size_t		done = from;	/* nothing before is looked at again */
	size_t		i = from;

	if (end - from < DOCUMENT_READ)
		return NOTHING;
	while (end - i > DOCUMENT_READ - DOCUMENT_BLOCK)
	{
		size_t		left = (end - i - (DOCUMENT_READ - DOCUMENT_BLOCK)) / DOCUMENT_BLOCK * DOCUMENT_BLOCK;
		uint32_t	window = left < DOCUMENT_WINDOW ? (uint32_t) left : DOCUMENT_WINDOW;
		uint32_t	count = 0;
		uint32_t	offset;
		uint32_t	k;

		if (window == 0)
		{
			/* the last block, some of it again */
			i = end - DOCUMENT_READ;
			window = DOCUMENT_BLOCK;
		}

		/* without a branch where something is found, which is so often that none would be foreseen */
		for (offset = 0; offset < window; offset += DOCUMENT_BLOCK)
		{
			const char *p = text + i + offset;
			uint32_t	low = ~no_pairs(p, sets) | bytes_like(p, quotes);
			uint32_t	high = ~no_pairs(p + WIDE_BLOCK, sets) | bytes_like(p + WIDE_BLOCK, quotes);
			uint64_t	found = low | (uint64_t) high << WIDE_BLOCK;
			uint32_t	here = (uint32_t) __builtin_popcountll(found);

			PREFETCH_NEXT_PAGE(p);
			for (k = 0; k < USUAL_PLACES; k++, found &= found - 1)
				places[count + k] = (uint16_t) (offset + (uint32_t) __builtin_ctzll(found | UINT64_C(1) << 63));
			for (; found != 0; k++, found &= found - 1)
				places[count + k] = (uint16_t) (offset + (uint32_t) __builtin_ctzll(found));
			count += here;
		}
		for (k = 0; k < count; k++)
		{
			Found		what;

			*at = i + places[k];
			if (*at < done)
				continue;		/* such as the second one of two quotes */
			what = found_in_document(text, len, from, end, at);
			if (what != NOTHING)
				return what;
			done = *at + 1;
		}
		i += window;
		done = i > done ? i : done;
	}
	*at = done;
	return NOTHING;
}

#endif

/*
 * Has nothing in a literal an effect that is a document such as JSON?  Its body begins at text +
 * from; *end_at, where it must end at the latest, is moved behind its closing quote.  False: a trigger
 * in it has one, or a quote in it is no apostrophe in a word, or it is not closed; *end_at is how
 * far was looked.
 */
bool
steno_redact_document(const char *text, size_t len, size_t from, size_t *end_at)
{
	const size_t end = *end_at;
	Found		what = NOTHING;
	size_t		at = from;

#ifdef STENO_REDACT_WIDE
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("bmi"))
		what = wide_document(text, len, from, end, &at);
#endif
	while (what == NOTHING && at < end)
	{
		if (text[at] == '\'' ||
			(at + 1 < len && is_pair((unsigned char) text[at], (unsigned char) text[at + 1])))
			what = found_in_document(text, len, from, end, &at);
		at += what == NOTHING;
	}
	*end_at = at;
	return what == DOCUMENT_ENDS;
}

bool
steno_redact_suspect(const char *text, size_t len)
{
	return steno_redact_trigger(text, len, 0, false) < len;
}
