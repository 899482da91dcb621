/*
 * core/filter/redact.h
 *		Secrets in SQL text: where they are, and the text without them.
 *
 * The text need not end with a zero byte, may be cut off anywhere, and need not be
 * SQL at all.  Nothing here fails, allocates, or reads outside of it; the time is
 * linear in its length, and who cannot wait for the end of a long search can end it
 * (steno_redact_give_up).
 *
 *		redact_check.c		triggers: may there be a secret at all? for every statement
 *		redact_lex.c		the lexer, and what it need not look at
 *		redact.c			the rules: where the secrets are
 *		redact_hide.c		how far they extend
 *		redact_command.c	the rules for command lines
 *		redact_write.c		the text, and messages that quote it, without them
 */
#ifndef STENO_REDACT_H
#define STENO_REDACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* What stands in the place of a secret. */
#define STENO_REDACTED "<redacted>"
#define STENO_REDACTED_LEN (sizeof(STENO_REDACTED) - 1)

/* Literals in literals are looked into this deep; deeper ones are hidden whole when they look suspicious. */
#define STENO_REDACT_DEPTH 8

/* How the characters of a literal are written. */
typedef enum StenoQuoting
{
	STENO_QUOTED,				/* a quote is doubled */
	STENO_ESCAPED,				/* that, and backslashes */
	STENO_PLAIN					/* as they are: dollar quotes */
} StenoQuoting;

/* A secret: bytes from up to to of the text. */
typedef struct StenoSecret
{
	size_t		from;
	size_t		to;
	bool		pieces;			/* a message may quote a part of it: a word, or
								 * what white space or quotes divide */
	uint8_t		layers;			/* of quoting around it, outermost first */
	uint8_t		layer[STENO_REDACT_DEPTH + 1];
} StenoSecret;

typedef void (*StenoSecretFound) (void *arg, const StenoSecret *secret);

/* A word of three letters and a literal that is not empty: nothing shorter has a secret. */
#define STENO_REDACT_SHORTEST 6

/* Whether a text may have secrets, by its words: false for nearly all. */
extern bool steno_redact_suspect(const char *text, size_t len);

/*
 * A search asks this after steno_redact_pause steps, and after as many more: true ends it, and all that has not
 * been searched by then is taken for a secret.  NULL: nobody ends it.
 */
extern bool (*steno_redact_give_up) (void);

#define STENO_REDACT_PAUSE (4 * 1024 * 1024)

extern uint64_t steno_redact_pause;	/* STENO_REDACT_PAUSE; tests make less of it */

/*
 * Calls found for each secret, in the order of the text; they do not overlap.
 * standard_strings is the session's standard_conforming_strings.  False: the search was given up.
 */
extern bool steno_redact_find(const char *text, size_t len, bool standard_strings,
							  StenoSecretFound found, void *arg);

/*
 * The same for tests.  thorough: every token is looked at, whether there is a trigger or
 * not, which finds the same.  Returns how much work it was: a unit is a step of the
 * lexer, or 16 bytes that are skipped.  Compiled with STENO_COUNT_WORK, it has all bytes that
 * were looked at: those, too, that the lexer looks at without passing them.
 */
#define STENO_REDACT_WORK(len) (1000 + 100 * (uint64_t) (len))

extern uint64_t steno_redact_work(const char *text, size_t len, bool standard_strings, bool thorough,
								  StenoSecretFound found, void *arg);

/* What is to be replaced; of more secrets than there is room for, only their number is known. */
#define STENO_CUTS_MOST 32

typedef struct StenoCuts
{
	size_t		len;			/* of the text without its secrets */
	size_t		secrets;
	bool		given_up;		/* the search: the last secret is what was not searched */
	struct
	{
		size_t		from;
		size_t		to;
	}			cut[STENO_CUTS_MOST];
} StenoCuts;

/* The length of the text without its secrets, and where these are. */
extern void steno_redact_measure(const char *text, size_t len, bool standard_strings, StenoCuts *cuts);

/*
 * Write what was measured, or as much as there is room for.  Returns the length of the whole, which is less than
 * was measured if a second search, for more secrets than there was room for, was given up.
 */
extern size_t steno_redact_write(const char *text, size_t len, bool standard_strings, const StenoCuts *cuts,
							   char *out, size_t room);

/*
 * The secrets of a text, to be looked for in the message of its failure.  With more
 * than there is room for, or when the search was given up, the message is hidden whole.
 */
#define STENO_SECRETS_MOST 64

typedef struct StenoSecrets
{
	const char *text;
	size_t		count;
	StenoSecret secret[STENO_SECRETS_MOST];
} StenoSecrets;

extern void steno_redact_collect(StenoSecrets *secrets, const char *text, size_t len,
								 bool standard_strings);

/*
 * The message without the secrets; out NULL only counts.  Returns the new length; *hidden
 * is how often something was replaced.
 */
extern size_t steno_redact_message(const StenoSecrets *secrets, const char *message, size_t len,
								   char *out, size_t *hidden);

/*
 * For redact_lex.c and redact_write.c: the character at *at of the text, taken out of
 * the given layers of quoting; *at moves behind it.  -1 at the end.
 */
extern int	steno_redact_read(const char *text, size_t end, size_t *at,
							  const uint8_t *layer, int layers);

static inline bool
steno_redact_is_word(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		c == '_' || c >= 0x80;
}

static inline bool
steno_redact_is_space(int c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A quote, or a dollar that is not that of a parameter. */
static inline bool
steno_redact_literal_at(const char *text, size_t len, size_t at)
{
	return text[at] == '\'' ||
		(text[at] == '$' && (at + 1 == len || text[at + 1] < '0' || text[at + 1] > '9'));
}

#ifdef __SSE2__

/* 16 times the same byte, without a constant in memory: its page would be one more to miss. */
static inline __m128i
steno_redact_fill(uint32_t four)
{
__asm__("":"+r"(four));
	return _mm_set1_epi32((int) four);
}

#endif

/*
 * Whether a text has a literal: most queries that clients send have none, and a query that
 * the server's parser has accepted has its secrets in literals.
 */
static inline bool
steno_redact_any_literal(const char *text, size_t len)
{
	size_t		i = 0;

#ifdef __SSE2__
	const __m128i quote = steno_redact_fill(0x27272727);
	const __m128i dollar = steno_redact_fill(0x24242424);

	while (i < len)
	{
		size_t		from = i;
		__m128i		v;
		unsigned	found;

		if (len < 16)
			break;
		if (len - i < 16)
			from = len - 16;	/* the last ones, some of them again */
		v = _mm_loadu_si128((const __m128i *) (text + from));
		found = (unsigned) _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, dollar)));
		for (; found != 0; found &= found - 1)
			if (steno_redact_literal_at(text, len, from + (size_t) __builtin_ctz(found)))
				return true;
		i = from + 16;
	}
#endif
	for (; i < len; i++)
		if (steno_redact_literal_at(text, len, i))
			return true;
	return false;
}

#endif							/* STENO_REDACT_H */
