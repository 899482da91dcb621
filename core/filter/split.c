/*
 * core/filter/split.c
 *		Finds one statement in a string of several, with the lexer of
 *		redact_lex.h.
 *
 * A semicolon ends a statement unless it is in a literal, a name or a comment, which
 * are tokens or blanks to the lexer, in parentheses (CREATE RULE), or in the BEGIN ATOMIC
 * ... END body of a function.
 */
#include "filter/split.h"

#include "filter/redact_lex.h"

/* The last tokens of a statement, as far as they tell what the next one means. */
typedef struct StatementState
{
	bool		any;			/* there was a token */
	bool		creates;		/* the first one is CREATE */
	bool		labeled;		/* the last one is AS or a dot: any word may follow as a name */
	bool		begun;			/* the last one is BEGIN */
	bool		may_end;		/* the last one is ATOMIC, or a semicolon of a body: END ends a body here */
	uint32_t	bodies;			/* BEGIN ATOMIC without their END */
	uint32_t	parentheses;
} StatementState;

static void
note_statement_word(StatementState *s, const Text *t, const Token *token)
{
	bool		begun = s->begun;
	bool		may_end = s->may_end;

	s->begun = s->may_end = false;
	if (!s->any)
		s->creates = steno_token_is(t, token, "create");
	else if (s->labeled)
		s->labeled = false;
	else if (begun && steno_token_is(t, token, "atomic"))
	{
		s->bodies++;
		s->may_end = true;
	}
	else if (may_end && s->bodies > 0 && steno_token_is(t, token, "end"))
		s->bodies--;
	else if (steno_token_is(t, token, "as"))
		s->labeled = true;
	else
		s->begun = s->creates && steno_token_is(t, token, "begin");
}

/* Read the statement at t->at; returns where its semicolon is, or the end of the string. */
static size_t
statement_end(Text *t)
{
	StatementState s = {0};
	Token		token;

	for (;;)
	{
		steno_redact_next_token(t, &token);
		if (token.type == END)
			return t->end;
		if (token.type == WORD)
			note_statement_word(&s, t, &token);
		else
		{
			s.labeled = s.begun = s.may_end = false;
			if (token.type == CHARACTER)
				switch (token.c)
				{
					case '(':
						s.parentheses++;
						break;
					case ')':
						if (s.parentheses > 0)
							s.parentheses--;
						break;
					case '.':
						s.labeled = true;
						break;
					case ';':
						if (s.parentheses == 0 && s.bodies == 0)
							return token.from;
						s.may_end = s.bodies > 0;
						break;
					default:
						break;
				}
		}
		s.any = true;
	}
}

void
steno_split_at(const char *string, size_t len, bool standard_strings,
			   size_t from, size_t position, size_t *begin, size_t *end)
{
	Search		search = {.text = string, .len = len, .standard_strings = standard_strings};
	Text		t = {.search = &search, .text = string, .language = SQL, .end = len, .before = ' '};
	size_t		at = position < from ? 0 : from;

	for (;;)
	{
		while (at < len && (string[at] == ';' || steno_redact_is_space((unsigned char) string[at])))
			at++;
		*begin = t.at = at;
		at = statement_end(&t);
		if (at == len || position == STENO_SPLIT_FIRST || at >= position)
			break;
	}
	*end = at;
	if (*begin == len && *begin > 0)
	{
		/* nothing there: the whole string says more */
		*begin = 0;
		*end = len;
	}
	while (*end > *begin && steno_redact_is_space((unsigned char) string[*end - 1]))
		(*end)--;
}

/*
 * Whether a comment may end before this place, apart from blanks.  A comment with stars ends in a
 * slash.  The other form extends to the end of its line, so the line contains two dashes.
 */
static bool
may_follow_comment(const char *string, size_t at)
{
	bool		line = false;

	while (at > 0 && steno_redact_is_space((unsigned char) string[at - 1]))
		line |= steno_redact_ends_line(string[--at]);
	if (at > 1 && string[at - 1] == '/' && string[at - 2] == '*')
		return true;
	if (line)
		for (; at > 1 && !steno_redact_ends_line(string[at - 1]); at--)
			if (string[at - 1] == '-' && string[at - 2] == '-')
				return true;
	return false;
}

size_t
steno_split_begin(const char *string, bool standard_strings, size_t from, size_t token)
{
	Search		search = {.text = string, .len = token, .standard_strings = standard_strings};
	Text		t = {.search = &search, .text = string, .language = SQL, .end = token, .before = ' '};
	size_t		begin = from;

	if (!may_follow_comment(string, token))
		return token;
	for (;;)
	{
		while (begin < token && (string[begin] == ';' || steno_redact_is_space((unsigned char) string[begin])))
			begin++;
		t.at = begin;
		steno_redact_skip_blanks(&t);
		if (t.at == token)
			return begin;
		t.at = begin;
		begin = statement_end(&t);
		if (begin == token)
			return token;
	}
}
