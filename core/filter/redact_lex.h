/*
 * core/filter/redact_lex.h
 *		Texts and their tokens, for redact.c, redact_lex.c and redact_check.c.
 */
#ifndef STENO_REDACT_LEX_H
#define STENO_REDACT_LEX_H

#include <string.h>

#include "defs.h"
#include "filter/redact.h"

typedef enum TokenType
{
	END,
	WORD,						/* also a number */
	NAME,						/* in double quotes */
	LITERAL,
	CHARACTER
} TokenType;

typedef struct Token
{
	TokenType	type;
	int			c;				/* CHARACTER */
	bool		closed;			/* LITERAL, NAME: has its closing quote */
	bool		attached;		/* LITERAL: a word goes on right behind it */
	uint8_t		quoting;		/* LITERAL */
	size_t		from;
	size_t		to;
	size_t		body;			/* LITERAL, NAME: between its quotes; WORD: all of it */
	size_t		body_end;
} Token;

/* What is the same for all texts in a text. */
typedef struct Search
{
	const char *text;
	size_t		len;
	bool		standard_strings;
	bool		thorough;		/* skip nothing */
	size_t		trigger;		/* the next one, for all places up to it */
	size_t		strings_trigger;	/* the same of those that have an effect in other languages than SQL */
	size_t		no_userinfo;	/* no URI that begins before has a user's password */
	size_t		at_sign;		/* the first at sign at this place or behind it; len: there is none */
	size_t		no_role;		/* CREATE and ALTER ROLE have been looked for up to there */
	uint64_t	work;			/* bytes, and single steps, that were looked at */
	uint64_t	pause;			/* work after which give_up is asked next */
	bool		given_up;
	size_t		searched;		/* up to there, all is known whatever follows */
	StenoSecretFound found;
	void	   *arg;
} Search;

/* How a text is read. */
typedef enum Language
{
	SQL,
	STRING,						/* connection string or prose */
	CODE						/* the same, of a function in another language */
} Language;

/* One text: the whole, or the contents of a literal. */
typedef struct Text
{
	Search	   *search;
	const char *text;			/* of search */
	Language	language;
	size_t		begin;
	size_t		at;
	size_t		end;
	int			before;			/* the character before at */

	/*
	 * Only blanks, and no comment of the form with a star, stand between an E''
	 * literal and this place; 0: there is no such place.  Behind the end of a line, a
	 * quote here continues that literal, backslashes included.
	 */
	size_t		escapes_until;
	bool		escapes_line;	/* and the end of a line is among them */
	int			depth;
	bool		escaped;		/* any layer has backslashes */
	int			layers;
	uint8_t		layer[STENO_REDACT_DEPTH + 1];

	/* the present statement */
	bool		altered;		/* the word before is CREATE or ALTER */
	bool		role_next;		/* ... ROLE, USER, GROUP */
	bool		roles;			/* and the statement is of these */
	bool		updates;		/* INSERT, UPDATE, MERGE */
	bool		sets;			/* SET, but not of those */
	bool		hide_rest;
	uint32_t	parentheses;	/* of a part that is skipped, in other languages than SQL, none count */
	uint32_t	call;			/* parentheses of a call whose literals are hidden; 0: none */
	uint32_t	options;		/* the same of OPTIONS */
	uint32_t	config;			/* the same of set_config */
	uint32_t	value;			/* parentheses, and 1, of an expression that a name is assigned; 0: none */
	uint32_t	cases;			/* CASE in it that are not ended */
	uint32_t	compares;		/* parentheses, and 1, of a part of it that is compared only; 0: none */

	/* what the next token means */
	bool		named;			/* after a name like password */
	bool		weakly;			/* after an option's name */
	bool		assigned;		/* and an = or TO */
	bool		program;		/* after PROGRAM */
	bool		opens_call;		/* a parenthesis would begin a call ... */
	bool		opens_options;
	bool		opens_config;
	bool		again;			/* after a hidden literal, which may go on */
	bool		config_secret;	/* the setting has a secret name */
	int			before_name;	/* the byte before the last word */
	bool		prefixed;		/* a function's: a literal before ended where a secret should begin */
} Text;

/* ---- redact_check.c ---- */

extern size_t steno_redact_trigger(const char *text, size_t len, size_t from, bool strings);
extern bool steno_redact_document(const char *text, size_t len, size_t from, size_t *end_at);
extern size_t steno_redact_password_end(const char *text, size_t at, size_t end);

/* ---- redact_lex.c ---- */

extern void steno_redact_next_token(Text *t, Token *token);
extern void steno_redact_skip_blanks(Text *t);
extern void steno_redact_read_quoted(Text *t, Token *token, int quote, bool backslashes, bool doubled);
extern void steno_redact_note_word(Text *t, size_t from, size_t to);
extern void steno_redact_end_statement(Text *t);
extern bool steno_redact_skip_quiet(Text *t);
extern bool steno_redact_must_stop(Text *t);

/*
 * Bytes that are looked at besides Search.work: those that are looked at and not passed, or compared.  They
 * are few for each one that is passed, but that is for tests to find out.
 */
#ifdef STENO_COUNT_WORK
extern uint64_t steno_redact_looked;
#define STENO_LOOKED(n) ((void) (steno_redact_looked += (n)))
#else
#define STENO_LOOKED(n) ((void) 0)
#endif

/* Is it word, which is written in small letters? */
static inline bool
steno_redact_same(const char *text, const char *word, size_t n)
{
	size_t		i;

	for (i = 0; i < n; i++)
	{
		STENO_LOOKED(1);
		if ((text[i] | 0x20) != (word[i] | 0x20))
			return false;
	}
	return true;
}

/*
 * The length of a space that is not ASCII at p, which is what word processors and web pages have
 * instead of a blank: U+00A0, U+2000 to U+200F, U+202F, U+3000, and 0xA0 of LATIN1.  0: there is none.
 * To the server's lexer it is a part of the word before.
 */
static inline size_t
steno_redact_pasted_space(const char *p, size_t len)
{
	const unsigned char *c = (const unsigned char *) p;

	if (len >= 1 && c[0] == 0xa0)
		return 1;
	if (len >= 2 && c[0] == 0xc2 && c[1] == 0xa0)
		return 2;
	if (len >= 3 && c[0] == 0xe2 && c[1] == 0x80 && ((c[2] >= 0x80 && c[2] <= 0x8f) || c[2] == 0xaf))
		return 3;
	if (len >= 3 && c[0] == 0xe3 && c[1] == 0x80 && c[2] == 0x80)
		return 3;
	return 0;
}

/* Is the token's body word, which is written in small letters? */
static inline bool
steno_token_is(const Text *t, const Token *token, const char *word)
{
	size_t		n = strlen(word);

	return token->body_end - token->body == n && steno_redact_same(t->text + token->body, word, n);
}

/*
 * Has a name no effect in another language than SQL, when it ends at text + at?  Nothing is
 * assigned or called.
 */
static inline bool
steno_redact_is_bare(const char *text, size_t end, size_t at)
{
	if (at >= end || steno_redact_is_space((unsigned char) text[at]))
		return false;
	switch (text[at])
	{
		case '=':
		case ':':
		case '\'':
		case '(':
		case '%':
		case '\\':
		case '$':
		case '\0':
			return false;
		default:
			return true;
	}
}

/*
 * Is a literal with this body surely no SQL?  It begins as JSON or a number does, and has no
 * dollar quotes.
 */
static inline bool
steno_redact_begins_string(const char *text, size_t at, size_t end)
{
	while (at < end && steno_redact_is_space((unsigned char) text[at]))
		at++;
	return at < end && (text[at] == '{' || text[at] == '[' || (text[at] >= '0' && text[at] <= '9'));
}

static inline bool
steno_redact_is_any_of(int c, const char *characters)
{
	while (*characters != '\0' && *characters != c)
		characters++;
	return *characters != '\0';
}

/* ---- redact_hide.c ---- */

extern void steno_redact_report(const Text *t, size_t from, size_t to, int quoting, bool pieces);
extern void steno_redact_hide_literal(Text *t, const Token *token);
extern void steno_redact_hide_bare(Text *t, const Token *token);
extern void steno_redact_hide_value(Text *t, bool in_uri);
extern void steno_redact_hide_userinfo(Text *t);
extern bool steno_redact_is_placeholder(const char *p, size_t len);

/* ---- redact_command.c ---- */

/* Hides the secrets of a command line; hide_rest is set if it ends where one should begin. */
extern void steno_redact_command(Text *t);

/* The next trigger that begins at the given place or later; places must not go back. */
static inline size_t
trigger_from(Search *s, size_t at)
{
	if (s->trigger < at)
	{
		s->trigger = steno_redact_trigger(s->text, s->len, at, false);
		s->work += (s->trigger - at) / 16 + 1;
	}
	return s->trigger;
}

/* The same of triggers that have an effect in other languages than SQL. */
static inline size_t
strings_trigger_from(Search *s, size_t at)
{
	if (s->strings_trigger < at)
	{
		size_t		from = s->trigger > at ? s->trigger : at;

		/* a URI always has one */
		if (s->trigger >= at && s->trigger < s->len && s->text[s->trigger] == ':')
			return s->strings_trigger = s->trigger;
		s->strings_trigger = steno_redact_trigger(s->text, s->len, from, true);
		s->work += (s->strings_trigger - from) / 16 + 1;
	}
	return s->strings_trigger;
}

/* The character at *at, which moves behind it; most stand for themselves in any layer. */
static inline int
read_at(const Text *t, size_t *at)
{
	if (*at < t->end)
	{
		const char *p = t->text + *at;
		int			c = (unsigned char) *p;

		STENO_LOOKED(1);
		++*at;
		if ((c != '\'' && c != '\\') || t->layers == 0)
			return c;
		if (t->layers == 1 && !t->escaped)
		{
			*at += c == '\'' && *at < t->end && p[1] == '\'';
			return c;
		}
		--*at;
	}
	return steno_redact_read(t->text, t->end, at, t->layer, t->layers);
}

/* The next character, which is passed.  A search that is given up is at the end of its text. */
static inline int
take(Text *t)
{
	if (STENO_RARELY(++t->search->work >= t->search->pause) && steno_redact_must_stop(t))
		return t->before = -1;
	return t->before = read_at(t, &t->at);
}

/* The next character but n. */
static inline int
peek(const Text *t, int n)
{
	size_t		at = t->at;
	int			c;

	do
		c = read_at(t, &at);
	while (n-- > 0);
	return c;
}

static inline bool
steno_redact_ends_line(int c)
{
	return c == '\n' || c == '\r';
}

static inline bool
continues_word(int c)
{
	return steno_redact_is_word(c) || c == '$';
}

/* The same, without branches. */
static inline bool
steno_redact_in_word(unsigned char c)
{
	static const uint64_t bits[4] = {0x03ff001000000000, 0x07fffffe87fffffe, UINT64_MAX, UINT64_MAX};

	return (bits[c >> 6] >> (c & 63)) & 1;
}

/*
 * Does a word go on at text + at?  An escape sequence ends it: a trigger is looked for
 * in the bytes as they are.
 */
static inline bool
word_continues(const Text *t, size_t at)
{
	return at < t->end && steno_redact_in_word((unsigned char) t->text[at]);
}

#endif							/* STENO_REDACT_LEX_H */
