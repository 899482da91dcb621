/*
 * extension/capture/split.c
 *		Finds one statement in a string of several, by the lexical rules of SQL
 *		alone: it must not fail, whatever the string, and not allocate.
 *
 * A semicolon ends a statement outside of quotes, comments, parentheses and the
 * BEGIN ATOMIC ... END body of a function.
 */
#include "base/steno.h"

#include "parser/scansup.h"

#include "capture/statement.h"

static inline bool
is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		(c >= '0' && c <= '9') || c == '_' || c == '$' || IS_HIGHBIT_SET(c);
}

/* After a quoted string that begins at p. */
static const char *
skip_quoted(const char *p, char quote, bool escapes)
{
	for (p++; *p; p++)
	{
		if (escapes && *p == '\\' && p[1])
			p++;
		else if (*p == quote)
		{
			if (p[1] != quote)
				return p + 1;
			p++;
		}
	}
	return p;
}

/* After a comment that begins at p; comments nest. */
static const char *
skip_comment(const char *p)
{
	int			depth = 0;

	while (*p)
	{
		if (p[0] == '/' && p[1] == '*')
		{
			depth++;
			p += 2;
		}
		else if (p[0] == '*' && p[1] == '/')
		{
			p += 2;
			if (--depth == 0)
				return p;
		}
		else
			p++;
	}
	return p;
}

/* After a dollar-quoted string that begins at p, or after the dollar. */
static const char *
skip_dollar(const char *p)
{
	const char *tag_end = p + 1;
	size_t		tag_len;

	if (*tag_end >= '0' && *tag_end <= '9')
		return p + 1;			/* a parameter */
	while (is_word(*tag_end) && *tag_end != '$')
		tag_end++;
	if (*tag_end != '$')
		return p + 1;
	tag_len = tag_end - p + 1;
	for (tag_end++; *tag_end; tag_end++)
		if (*tag_end == '$' && strncmp(tag_end, p, tag_len) == 0)
			return tag_end + tag_len;
	return tag_end;
}

static bool
word_is(const char *p, size_t len, const char *word)
{
	return len == strlen(word) && pg_strncasecmp(p, word, len) == 0;
}

/* The semicolon or null byte that ends the statement at p. */
static const char *
statement_end(const char *p)
{
	int			parentheses = 0;
	int			blocks = 0;		/* BEGIN ATOMIC and CASE, ended by END */
	bool		after_begin = false;

	while (*p)
	{
		if (*p == '\'')
			p = skip_quoted(p, '\'', false);
		else if (*p == '"')
			p = skip_quoted(p, '"', false);
		else if (p[0] == '-' && p[1] == '-')
			p += strcspn(p, "\n");
		else if (p[0] == '/' && p[1] == '*')
			p = skip_comment(p);
		else if (*p == '$')
			p = skip_dollar(p);
		else if (is_word(*p))
		{
			const char *word = p;
			size_t		len;

			while (is_word(*p))
				p++;
			len = p - word;
			if (len == 1 && (*word == 'e' || *word == 'E') && *p == '\'')
				p = skip_quoted(p, '\'', true);
			else if (after_begin && word_is(word, len, "atomic"))
				blocks++;
			else if (blocks > 0 && word_is(word, len, "case"))
				blocks++;
			else if (blocks > 0 && word_is(word, len, "end"))
				blocks--;
			after_begin = word_is(word, len, "begin");
		}
		else
		{
			if (*p == '(')
				parentheses++;
			else if (*p == ')' && parentheses > 0)
				parentheses--;
			else if (*p == ';' && parentheses == 0 && blocks == 0)
				return p;
			p++;
		}
	}
	return p;
}

/*
 * The statement of source that contains position, or, when that is negative,
 * the first one at or after from.  Without blanks around it.
 */
void
steno_split_at(const char *source, int from, int position,
			   const char **text, int *len)
{
	const char *begin = source + (position >= 0 && position < from ? 0 : from);
	const char *end;

	for (;;)
	{
		while (*begin == ';' || scanner_isspace(*begin))
			begin++;
		end = statement_end(begin);
		if (*end == '\0' || position < 0 || end >= source + position)
			break;
		begin = end;
	}
	if (*begin == '\0' && begin > source)
	{
		/* nothing there: the whole string says more */
		begin = source;
		end = source + strlen(source);
	}
	while (end > begin && scanner_isspace(end[-1]))
		end--;
	*text = begin;
	*len = end - begin;
}
