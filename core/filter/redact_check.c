/*
 * core/filter/redact_check.c
 *		Triggers: the words without which a text has no secret that redact.c would find.
 *
 * Every statement with a literal pays for this search, and most large texts pay for
 * nothing else.  Each trigger is found by a fragment of four characters, which is looked
 * for at 32 or 16 places at once where the processor can do so, and then compared whole:
 *
 *		password, passwd		assw
 *		passphrase				assp
 *		pwd						pwd and any
 *		secret					cret
 *		crypt					cryp
 *		options					opti
 *		program					ogra
 *		digest					iges
 *		hmac					hmac
 *		set_config				et_c
 *		:// (a URI)				:// and any
 *
 * A URI needs another colon, which may precede a password.  The lexer accepts names that
 * end like these words, so a word that continues is no trigger: random letters have hardly any.
 *
 * A JSON document may be full of names such as "password", but outside of SQL most names
 * have no effect, depending on what follows them.  So in documents, triggers are found by
 * their last three characters and the characters around these: neither such names nor the
 * text between them are examined any further.
 */
#include "filter/redact.h"

#include <string.h>

#include "filter/redact_lex.h"

/*
 * Blocks of 16 bytes are searched at once where the compiler may use SSE2, and of 32 where the processor
 * turns out to have AVX2.  A test defines the last two macros, to compare what all ways find.
 */
#if defined(__SSE2__) && !defined(STENO_TEST_NO_BLOCKS)
#define STENO_REDACT_BLOCKS
#if defined(__x86_64__) && !defined(STENO_TEST_NO_WIDE)
#define STENO_REDACT_WIDE
#include <immintrin.h>
#endif
#endif

/* Characters of a fragment. */
#define FRAGMENT 4

/* Characters at the end of a trigger by which it is found in a document. */
#define ENDING 3

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The tables do not straddle a line of the processor's cache. */
#define ALIGNED __attribute__((aligned(64)))

/* ---- tables ---- */

/*
 * The lower four bits of a byte are looked up in a table of 16 entries: 32 bytes by one instruction
 * where the processor has one.  There is a table for each character of a fragment.  An entry has a
 * bit for each of eight sets of fragments: whether one of the set may have such a character there.
 * Where the entries of all characters have a bit in common, a fragment may begin.  The lower bits
 * are the same for a small and a capital letter, and for a few other characters, so this finds every
 * fragment, and in random letters and digits something else about once in 1000 bytes, which
 * trigger_at() rejects.
 */
#define LOWER(n, c) ((n) == ((c) & 0x0f))
#define SET(n, set, c) (LOWER(n, c) << (set))
#define SET2(n, set, c, d) ((LOWER(n, c) | LOWER(n, d)) << (set))
#define ANY(set) (1 << (set))
#define TABLE(of) {of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7), \
	of(8), of(9), of(10), of(11), of(12), of(13), of(14), of(15)}

/*
 * The sets of fragments:
 *
 *		0	assw, assp		4	ogra
 *		1	pwd				5	iges
 *		2	cret, cryp		6	hmac, et_c
 *		3	opti			7	://
 */
#define FRAGMENT_1(n) SET(n, 0, 'a') | SET(n, 1, 'p') | SET(n, 2, 'c') | SET(n, 3, 'o') | \
	SET(n, 4, 'o') | SET(n, 5, 'i') | SET2(n, 6, 'h', 'e') | SET(n, 7, ':')
#define FRAGMENT_2(n) SET(n, 0, 's') | SET(n, 1, 'w') | SET(n, 2, 'r') | SET(n, 3, 'p') | \
	SET(n, 4, 'g') | SET(n, 5, 'g') | SET2(n, 6, 'm', 't') | SET(n, 7, '/')
#define FRAGMENT_3(n) SET(n, 0, 's') | SET(n, 1, 'd') | SET2(n, 2, 'e', 'y') | SET(n, 3, 't') | \
	SET(n, 4, 'r') | SET(n, 5, 'e') | SET2(n, 6, 'a', '_') | SET(n, 7, '/')
#define FRAGMENT_4(n) SET2(n, 0, 'w', 'p') | ANY(1) | SET2(n, 2, 't', 'p') | SET(n, 3, 'i') | \
	SET(n, 4, 'a') | SET(n, 5, 's') | SET(n, 6, 'c') | ANY(7)

static const uint8_t fragment_tables[FRAGMENT][16] ALIGNED = {
	TABLE(FRAGMENT_1), TABLE(FRAGMENT_2), TABLE(FRAGMENT_3), TABLE(FRAGMENT_4)
};

/*
 * The same for the ends of triggers in documents: the character before, the last three, and the one
 * behind.  The sets:
 *
 *		0	word			4	nfig
 *		1	sswd, pwd		5	ions
 *		2	rase, rypt		6	gram, hmac
 *		3	cret, gest		7	://
 */
#define ENDING_BEFORE(n) SET(n, 0, 'w') | ANY(1) | SET(n, 2, 'r') | SET2(n, 3, 'c', 'g') | \
	SET(n, 4, 'n') | SET(n, 5, 'i') | SET2(n, 6, 'g', 'h') | ANY(7)
#define ENDING_1(n) SET(n, 0, 'o') | SET2(n, 1, 's', 'p') | SET2(n, 2, 'a', 'y') | SET2(n, 3, 'r', 'e') | \
	SET(n, 4, 'f') | SET(n, 5, 'o') | SET2(n, 6, 'r', 'm') | SET(n, 7, ':')
#define ENDING_2(n) SET(n, 0, 'r') | SET(n, 1, 'w') | SET2(n, 2, 's', 'p') | SET2(n, 3, 'e', 's') | \
	SET(n, 4, 'i') | SET(n, 5, 'n') | SET(n, 6, 'a') | SET(n, 7, '/')
#define ENDING_3(n) SET(n, 0, 'd') | SET(n, 1, 'd') | SET2(n, 2, 'e', 't') | SET(n, 3, 't') | \
	SET(n, 4, 'g') | SET(n, 5, 's') | SET2(n, 6, 'm', 'c') | SET(n, 7, '/')
/* what steno_redact_is_bare() knows: tab to carriage return, whose lower bits : = and \ share, blank and 0, ' ( % $ */
#define MAY_HAVE_EFFECT(n) (((n) >= '\t' && (n) <= '\r') || LOWER(n, ' ') || LOWER(n, '\'') || LOWER(n, '(') || \
	LOWER(n, '%') || LOWER(n, '$'))
#define ENDING_BEHIND(n) (MAY_HAVE_EFFECT(n) ? 0x7f : 0) | SET(n, 2, '_') | ANY(7)

static const uint8_t ending_tables[1 + ENDING + 1][16] ALIGNED = {
	TABLE(ENDING_BEFORE), TABLE(ENDING_1), TABLE(ENDING_2), TABLE(ENDING_3), TABLE(ENDING_BEHIND)
};

/* The entry of a table for a character. */
static inline uint8_t
entry(const uint8_t *table, char c)
{
	return table[c & 0x0f];
}

static inline bool
may_be_fragment(const char *p)
{
	return (entry(fragment_tables[0], p[0]) & entry(fragment_tables[1], p[1]) &
			entry(fragment_tables[2], p[2]) & entry(fragment_tables[3], p[3])) != 0;
}

/* One character before p is read, and one behind the last three. */
static inline bool
may_be_ending(const char *p)
{
	return (entry(ending_tables[1], p[0]) & entry(ending_tables[2], p[1]) & entry(ending_tables[3], p[2]) &
			entry(ending_tables[0], p[-1]) & entry(ending_tables[4], p[3])) != 0;
}

/* ---- triggers ---- */

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
 * literal's closing tag may follow.  So does a space that is not ASCII.  strings: and has the name an
 * effect in other languages than SQL?
 */
static ALWAYS_INLINE bool
ends_at(const char *text, size_t len, size_t at, const char *word, bool strings)
{
	size_t		n = strlen(word);

	return word_at(text, len, at, word, n) &&
		(at + n == len || !steno_redact_is_word((unsigned char) text[at + n]) ||
		 steno_redact_pasted_space(text + at + n, len - at - n) > 0) &&
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

#ifdef STENO_REDACT_BLOCKS

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

#ifdef STENO_REDACT_BLOCKS
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
#ifdef STENO_REDACT_BLOCKS
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

/* Does a URI with a password perhaps begin with a colon at text + at? */
static inline bool
uri_begins(const char *text, size_t len, size_t at)
{
	return len - at >= 3 && text[at] == ':' && text[at + 1] == '/' && text[at + 2] == '/' && uri_at(text, len, at + 3);
}

/*
 * Where the trigger begins that has its fragment at text + at; len: there is none.  strings: and
 * has the name an effect in other languages than SQL?
 */
static size_t
trigger_at(const char *text, size_t len, size_t at, bool strings)
{
	switch (text[at] | 0x20)
	{
		case 'a':
			if (at >= 1 && (ends_at(text, len, at - 1, "password", strings) || ends_at(text, len, at - 1, "passwd", strings) ||
							ends_at(text, len, at - 1, "passphrase", strings) ||
							ends_at(text, len, at - 1, "passphrase_command", strings)))
				return at - 1;
			break;
		case 'p':
			if (ends_at(text, len, at, "pwd", strings))
				return at;
			break;
		case 'c':
			if (at >= 2 && ends_at(text, len, at - 2, "secret", strings))
				return at - 2;
			if (crypt_at(text, len, at, strings))
				return at;
			break;
		case 'o':
			if (ends_at(text, len, at, "options", strings))
				return at;
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
		case 'e':
			if (at >= 1 && ends_at(text, len, at - 1, "set_config", strings))
				return at - 1;
			break;
		case ':':
			if (uri_begins(text, len, at))
				return at;
			break;
		default:
			break;
	}
	return len;
}

/*
 * The first trigger that begins at from or later among those whose fragments are at text + at and a
 * bit of places; len: none.  Triggers do not overlap, so that they are in the order of their fragments.
 */
static inline size_t
trigger_of(uint64_t places, const char *text, size_t len, size_t at, size_t from, bool strings)
{
	for (; places != 0; places &= places - 1)
	{
		size_t		trigger = trigger_at(text, len, at + (size_t) __builtin_ctzll(places), strings);

		if (trigger >= from && trigger < len)
			return trigger;
	}
	return len;
}

#ifdef STENO_REDACT_BLOCKS

#define BLOCK 16
#define BLOCK_READ (BLOCK + FRAGMENT - 1)

/* A bit for each byte of 16 at which a fragment may begin. */
static inline uint32_t
fragments_in_block(const char *p)
{
	const __m128i small = _mm_set1_epi8(0x20);
	__m128i		a = _mm_or_si128(load(p), small);
	__m128i		b = _mm_or_si128(load(p + 1), small);
	__m128i		c = _mm_or_si128(load(p + 2), small);
	__m128i		d = _mm_or_si128(load(p + 3), small);
	__m128i		any = _mm_and_si128(is(c, 's'), _mm_or_si128(is(d, 'w'), is(d, 'p')));	/* assw, assp */

	any = _mm_or_si128(any, _mm_and_si128(is(a, 'p'), is(b, 'w')));
	any = _mm_or_si128(any, _mm_and_si128(is(a, 'c'), is(b, 'r')));
	any = _mm_or_si128(any, _mm_and_si128(is(b, 'p'), is(c, 't'))); /* opti */
	any = _mm_or_si128(any, _mm_and_si128(is(b, 'g'), _mm_or_si128(is(a, 'o'), is(a, 'i'))));
	any = _mm_or_si128(any, _mm_and_si128(is(a, 'h'), is(b, 'm')));
	any = _mm_or_si128(any, _mm_and_si128(is(c, '_' | 0x20), is(d, 'c')));	/* et_c */
	any = _mm_or_si128(any, _mm_and_si128(is(a, ':'), is(b, '/')));
	return (uint32_t) _mm_movemask_epi8(any);
}

#endif

#ifdef STENO_REDACT_WIDE

#define WIDE __attribute__((target("avx2")))

/* For a loop that calls nothing: a call would overwrite the tables, which are kept in registers. */
#define WIDE_LOOP __attribute__((target("avx2"), noinline))

#define WIDE_BLOCK 32
#define WIDE_READ (WIDE_BLOCK + FRAGMENT - 1)

/*
 * A text of some megabytes is not in the processor's caches when it is searched, and what the
 * processor fetches ahead by itself ends with each page: to ask for the next page doubles the
 * speed.  What lies behind the text is not read by that.
 */
#define PREFETCH_NEXT_PAGE(p) __builtin_prefetch((p) + 4096)

static WIDE inline __m256i
load_table(const uint8_t *table)
{
	return _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *) table));
}

/* For a byte of 128 or more, which is in no trigger, the instruction yields 0. */
static WIDE inline __m256i
look_up(__m256i table, const char *p)
{
	return _mm256_shuffle_epi8(table, _mm256_loadu_si256((const __m256i *) p));
}

/* The same where any byte is allowed. */
static WIDE inline __m256i
look_up_any(__m256i table, const char *p)
{
	__m256i		v = _mm256_loadu_si256((const __m256i *) p);

	return _mm256_shuffle_epi8(table, _mm256_and_si256(v, _mm256_set1_epi8(0x0f)));
}

/* A bit for each byte that is not zero. */
static WIDE inline uint32_t
nonzero(__m256i v)
{
	return ~(uint32_t) _mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_setzero_si256()));
}

typedef struct Fragments
{
	__m256i		first;
	__m256i		second;
	__m256i		third;
	__m256i		fourth;
} Fragments;

static WIDE inline Fragments
load_fragments(void)
{
	Fragments	f = {
		load_table(fragment_tables[0]), load_table(fragment_tables[1]),
		load_table(fragment_tables[2]), load_table(fragment_tables[3])
	};

	return f;
}

/* A byte that is not zero for each of 32 at which a fragment may begin; 35 are read. */
static WIDE inline __m256i
fragments_in(const char *p, Fragments f)
{
	return _mm256_and_si256(_mm256_and_si256(look_up(f.first, p), look_up(f.second, p + 1)),
							_mm256_and_si256(look_up(f.third, p + 2), look_up_any(f.fourth, p + 3)));
}

/*
 * A bit for each byte of 32 that may begin a fragment: not white space, digits and most punctuation.
 * The lower bits of " '$", which precede each hash in a list of bcrypt's, are those of pwd.
 */
static WIDE inline uint32_t
begins_fragment(const char *p)
{
	__m256i		v = _mm256_loadu_si256((const __m256i *) p);

	return (uint32_t) _mm256_movemask_epi8(_mm256_cmpgt_epi8(v, _mm256_set1_epi8(':' - 1)));
}

/*
 * Move *at to the next 64 bytes in which fragments may begin, and return a bit for each of these
 * places.  0: there are none up to *at, behind which fewer than 64 bytes can be looked at.
 */
static WIDE_LOOP uint64_t
next_fragments(const char *text, size_t len, size_t *at)
{
	const Fragments f = load_fragments();
	size_t		i;

	for (i = *at; len - i >= WIDE_BLOCK + WIDE_READ; i += 2 * WIDE_BLOCK)
	{
		const char *p = text + i;
		__m256i		low = fragments_in(p, f);
		__m256i		high = fragments_in(p + WIDE_BLOCK, f);
		__m256i		any = _mm256_or_si256(low, high);
		uint64_t	found;

		PREFETCH_NEXT_PAGE(p);
		if (_mm256_testz_si256(any, any))
			continue;
		found = nonzero(high) & begins_fragment(p + WIDE_BLOCK);
		found = found << WIDE_BLOCK | (nonzero(low) & begins_fragment(p));
		if (found != 0)
		{
			*at = i;
			return found;
		}
	}
	*at = i;
	return 0;
}

static WIDE_LOOP uint32_t
fragments_in_wide_block(const char *p)
{
	return nonzero(fragments_in(p, load_fragments()));
}

/* steno_redact_trigger() for fragments of four characters, in a text of WIDE_READ bytes or more. */
static size_t
wide_trigger(const char *text, size_t len, size_t from, bool strings)
{
	size_t		i = from;
	size_t		trigger;
	uint64_t	found;

	while ((found = next_fragments(text, len, &i)) != 0)
	{
		trigger = trigger_of(found, text, len, i, from, strings);
		if (trigger < len)
			return trigger;
		i += 2 * WIDE_BLOCK;
	}

	/*
	 * the last blocks end with the text, so that some bytes are looked at
	 * twice
	 */
	for (; len - i >= FRAGMENT; i += WIDE_BLOCK)
	{
		if (len - i < WIDE_READ)
			i = len - WIDE_READ;
		trigger = trigger_of(fragments_in_wide_block(text + i), text, len, i, from, strings);
		if (trigger < len)
			return trigger;
	}
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
	size_t		trigger;

#ifdef STENO_REDACT_WIDE
	if (len - i >= WIDE_READ && __builtin_cpu_supports("avx2"))
	{
		trigger = wide_trigger(text, len, from, strings);
		if (trigger < len)
			return trigger;
		i = len - FRAGMENT + 1;
	}
#endif
#ifdef STENO_REDACT_BLOCKS
	if (len - i >= BLOCK_READ)
	{
		for (; len - i >= FRAGMENT; i += BLOCK)
		{
			if (len - i < BLOCK_READ)
				i = len - BLOCK_READ;
			trigger = trigger_of(fragments_in_block(text + i), text, len, i, from, strings);
			if (trigger < len)
				return trigger;
		}
	}
#endif
	for (; i + 2 < len; i++)
	{
		/* pwd at the end has no fourth character */
		if (i + 3 < len && !may_be_fragment(text + i))
			continue;
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
 * The last three characters of a trigger are at text + at, or those before the underscore of crypt_ and
 * passphrase_command: where is its fragment?
 */
static inline size_t
fragment_of_ending(const char *text, size_t at)
{
	switch (text[at] | 0x20)
	{
		case 'o':				/* password, options */
			return at - 4;
		case 's':				/* passwd */
		case 'y':				/* crypt */
		case 'e':				/* digest */
			return at - 2;
		case 'a':				/* passphrase */
		case 'f':				/* set_config */
			return at - 6;
		case 'r':				/* secret, program */
			return (text[at + 1] | 0x20) == 'e' ? at - 1 : at - 2;
		case 'm':				/* hmac */
			return at - 1;
		default:				/* pwd, :// */
			return at;
	}
}

/*
 * What stands at text + *at, a quote or the last three characters of a trigger, means for a
 * document.  *at is moved to its last byte; behind it, when the document ends.
 */
static inline Found
found_in_document(const char *text, size_t len, size_t from, size_t end, size_t *at)
{
	size_t		trigger;

	if (text[*at] == ':')
		return uri_begins(text, len, *at) ? DOCUMENT_MATTERS : NOTHING;
	if (text[*at] != '\'')
	{
		size_t		behind = *at + ENDING;
		size_t		fragment = fragment_of_ending(text, *at);

		/* | 0x20 as in comparisons of words, which take a DEL for an underscore */
		if (behind < len && (text[behind] | 0x20) != ('_' | 0x20) && steno_redact_is_bare(text, len, behind))
			return NOTHING;

		/*
		 * it would begin before the document; before the text, the number
		 * wraps around
		 */
		if (fragment < from || fragment > *at)
			return NOTHING;
		trigger = trigger_at(text, len, fragment, true);
		return trigger >= from && trigger < len ? DOCUMENT_MATTERS : NOTHING;
	}
	++*at;
	if (*at == end || text[*at] != '\'')
		return DOCUMENT_ENDS;
	return steno_redact_in_word((unsigned char) text[*at - 2]) ? NOTHING : DOCUMENT_MATTERS;
}

#ifdef STENO_REDACT_BLOCKS

/*
 * Bytes that are searched before what was found in them is examined: few at first, because a document
 * may be short, and what follows it is not of interest.
 */
#define DOCUMENT_WINDOW 1024
#define DOCUMENT_WINDOW_FIRST 128
#define DOCUMENT_BLOCK 64

/* A block and the bytes behind it that are read; so is the one before. */
#define DOCUMENT_READ (DOCUMENT_BLOCK + ENDING)

/* What was found in a block: a bit for each byte. */
typedef struct FoundBits
{
	uint64_t	bits;
	size_t		at;
} FoundBits;

/*
 * What is found in the blocks from text + at up to end; returns in how many blocks.  Apostrophes and
 * URIs are so frequent that a branch would often be mispredicted, so there is none.
 */
typedef uint32_t (*SearchWindow) (const char *text, size_t at, size_t end, FoundBits *found);

/*
 * A bit for each byte of 16 that is a quote, or at which the last three characters of a trigger may
 * begin, behind which no double quote stands.
 */
static inline uint32_t
found_in_block(const char *p)
{
	const __m128i small = _mm_set1_epi8(0x20);
	__m128i		a = _mm_or_si128(load(p), small);
	__m128i		b = _mm_or_si128(load(p + 1), small);
	__m128i		c = _mm_or_si128(load(p + 2), small);
	__m128i		any = _mm_and_si128(is(b, 'w'), is(c, 'd'));	/* swd, pwd */

	any = _mm_or_si128(any, _mm_and_si128(is(a, 'o'), _mm_or_si128(is(b, 'r'), is(b, 'n'))));	/* ord, ons */
	any = _mm_or_si128(any, _mm_and_si128(_mm_or_si128(is(a, 'r'), is(a, 'y')), is(c, 't')));	/* ret, ypt */
	any = _mm_or_si128(any, _mm_and_si128(is(a, 'e'), _mm_and_si128(is(b, 's'), is(c, 't'))));
	any = _mm_or_si128(any, _mm_and_si128(is(a, 'a'), _mm_and_si128(is(b, 's'), is(c, 'e'))));
	any = _mm_or_si128(any, _mm_and_si128(is(b, 'a'), _mm_or_si128(is(c, 'm'), is(c, 'c'))));	/* ram, mac */
	any = _mm_or_si128(any, _mm_and_si128(is(a, 'f'), _mm_and_si128(is(b, 'i'), is(c, 'g'))));
	any = _mm_or_si128(any, _mm_and_si128(is(a, ':'), is(b, '/')));
	/* behind :// is anything */
	any = _mm_andnot_si128(_mm_andnot_si128(is(a, ':'), is(load(p + 3), '"')), any);
	return (uint32_t) _mm_movemask_epi8(_mm_or_si128(any, is(load(p), '\'')));
}

static uint32_t
search_window(const char *text, size_t at, size_t end, FoundBits *found)
{
	uint32_t	count = 0;

	for (; at < end; at += DOCUMENT_BLOCK)
	{
		uint64_t	bits = 0;
		int			i;

		for (i = 0; i < DOCUMENT_BLOCK; i += BLOCK)
			bits |= (uint64_t) found_in_block(text + at + i) << i;
		found[count].bits = bits;
		found[count].at = at;
		count += bits != 0;
	}
	return count;
}

#ifdef STENO_REDACT_WIDE

typedef struct Endings
{
	__m256i		before;
	__m256i		first;
	__m256i		second;
	__m256i		third;
	__m256i		behind;
	__m256i		quote;
} Endings;

static WIDE inline Endings
load_endings(void)
{
	Endings		e = {
		load_table(ending_tables[0]), load_table(ending_tables[1]), load_table(ending_tables[2]),
		load_table(ending_tables[3]), load_table(ending_tables[4]), _mm256_set1_epi8('\'')
	};

	return e;
}

/* A bit for each byte of 32 that is a quote, or at which the end of a trigger may begin. */
static WIDE inline uint32_t
found_in_wide_block(const char *p, Endings e)
{
	__m256i		ends = _mm256_and_si256(_mm256_and_si256(look_up(e.first, p), look_up(e.second, p + 1)),
										_mm256_and_si256(look_up(e.third, p + 2), look_up_any(e.behind, p + 3)));
	__m256i		quotes = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *) p), e.quote);

	ends = _mm256_and_si256(ends, look_up_any(e.before, p - 1));
	return nonzero(_mm256_or_si256(ends, quotes));
}

static WIDE_LOOP uint32_t
search_window_wide(const char *text, size_t at, size_t end, FoundBits *found)
{
	const Endings e = load_endings();
	uint32_t	count = 0;

	for (; at < end; at += DOCUMENT_BLOCK)
	{
		uint32_t	low = found_in_wide_block(text + at, e);
		uint32_t	high = found_in_wide_block(text + at + WIDE_BLOCK, e);

		PREFETCH_NEXT_PAGE(text + at);
		found[count].bits = low | (uint64_t) high << WIDE_BLOCK;
		found[count].at = at;
		count += found[count].bits != 0;
	}
	return count;
}

#endif

static Found
search_document(SearchWindow search, const char *text, size_t len, size_t from, size_t end, size_t *at)
{
	FoundBits	found[DOCUMENT_WINDOW / DOCUMENT_BLOCK];
	size_t		i = from + 1;	/* a document begins with neither a quote nor
								 * a trigger */
	size_t		done = i;		/* nothing before is looked at again */
	size_t		most = DOCUMENT_WINDOW_FIRST;

	if (end - from < 1 + DOCUMENT_READ)
		return NOTHING;
	while (end - i > ENDING)
	{
		size_t		left = (end - i - ENDING) / DOCUMENT_BLOCK * DOCUMENT_BLOCK;
		size_t		window = left < most ? left : most;
		uint32_t	count;
		uint32_t	k;

		most = most < DOCUMENT_WINDOW ? 2 * most : most;
		if (window == 0)
		{
			/* the last block ends with the text */
			i = end - DOCUMENT_READ;
			window = DOCUMENT_BLOCK;
		}
		count = search(text, i, i + window, found);
		for (k = 0; k < count; k++)
		{
			uint64_t	bits = found[k].bits;

			for (; bits != 0; bits &= bits - 1)
			{
				Found		what;

				*at = found[k].at + (size_t) __builtin_ctzll(bits);
				if (*at < done)
					continue;	/* such as the second one of two quotes */
				what = found_in_document(text, len, from, end, at);
				if (what != NOTHING)
					return what;
				done = *at + 1;
			}
		}
		i += window;
		done = i > done ? i : done;
	}
	*at = done;
	return NOTHING;
}

#endif

/*
 * Whether a literal that is a document, such as JSON, contains nothing that has an effect.  Its body
 * begins at text + from, as for steno_redact_begins_string().  *end_at is the last place where it may
 * end, and is set to the place after its closing quote.  False if a trigger in it has an effect, a
 * quote in it is not an apostrophe in a word, or it is not closed: *end_at is then how far the search
 * went.
 */
bool
steno_redact_document(const char *text, size_t len, size_t from, size_t *end_at)
{
	const size_t end = *end_at;
	Found		what = NOTHING;
	size_t		at = from;

#ifdef STENO_REDACT_BLOCKS
	SearchWindow search = search_window;

#ifdef STENO_REDACT_WIDE
	if (__builtin_cpu_supports("avx2"))
		search = search_window_wide;
#endif
	what = search_document(search, text, len, from, end, &at);
#endif
	while (what == NOTHING && at < end)
	{
		if (text[at] == '\'' || (at > from && end - at > ENDING && may_be_ending(text + at)))
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
