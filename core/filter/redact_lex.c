/*
 * core/filter/redact_lex.c
 *		The lexer: tokens of SQL, of connection strings and of prose, in any layers of
 *		quoting; and what is skipped without looking at tokens.
 *
 * Between the places where a trigger stands (redact_check.c), and when nothing before is
 * waiting for its secret, all there is to know of a text is whether the next trigger is in
 * a literal or a comment, and what kind of statement it is in.  steno_redact_skip_quiet()
 * goes there faster than tokens would.
 */
#include "filter/redact_lex.h"

#include <string.h>

bool		(*steno_redact_give_up) (void);
uint64_t	steno_redact_pause = STENO_REDACT_PAUSE;

#ifdef STENO_COUNT_WORK
uint64_t	steno_redact_looked;
#endif

/* ---- characters ---- */

static int
escaped(int c)
{
	switch (c)
	{
		case 'n':
			return '\n';
		case 't':
			return '\t';
		case 'r':
			return '\r';
		case 'b':
			return '\b';
		case 'f':
			return '\f';
		default:
			return c;
	}
}

int
steno_redact_read(const char *text, size_t end, size_t *at, const uint8_t *layer, int layers)
{
	size_t		next;
	int			c;

	while (layers > 0 && layer[layers - 1] == STENO_PLAIN)
		layers--;
	STENO_LOOKED(1);
	if (layers == 0)
		return *at < end ? (unsigned char) text[(*at)++] : -1;
	c = steno_redact_read(text, end, at, layer, layers - 1);
	if (c == '\'')
	{
		next = *at;
		if (steno_redact_read(text, end, &next, layer, layers - 1) == '\'')
			*at = next;
	}
	else if (c == '\\' && layer[layers - 1] == STENO_ESCAPED)
	{
		c = steno_redact_read(text, end, at, layer, layers - 1);
		return c < 0 ? '\\' : escaped(c);
	}
	return c;
}

/*
 * So much work has been done that somebody may want to end the search.  Then the text has no more
 * characters, which ends whatever reads it, and that of the texts around it, too, once they are read again.
 */
bool
steno_redact_must_stop(Text *t)
{
	Search	   *s = t->search;

	if (!s->given_up)
	{
		s->pause = s->work + steno_redact_pause;
		s->given_up = steno_redact_give_up != NULL && steno_redact_give_up();
		if (!s->given_up)
			return false;
		s->pause = 0;
	}
	t->at = t->end;
	return true;
}

/* Where the first a or b is, or end. */
static size_t
find_either(Text *t, size_t at, size_t end, char a, char b)
{
	const char *text = t->text;
	size_t		from = at;

#ifdef __SSE2__
	__m128i		as;
	__m128i		bs;

	if (at < end && (text[at] == a || text[at] == b))
		return at;
	as = _mm_set1_epi8(a);
	bs = _mm_set1_epi8(b);
	while (end - at >= 16)
	{
		__m128i		v = _mm_loadu_si128((const __m128i *) (text + at));
		unsigned	found = (unsigned) _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, as), _mm_cmpeq_epi8(v, bs)));

		if (found != 0)
		{
			at += (size_t) __builtin_ctz(found);
			t->search->work += (at - from) / 16 + 1;
			return at;
		}
		at += 16;
		/* the C library's search takes wider blocks */
		if (a == b && at - from == 32)
		{
			const char *p = memchr(text + at, a, end - at);

			at = p != NULL ? (size_t) (p - text) : end;
			break;
		}
	}
#endif
	while (at < end && text[at] != a && text[at] != b)
		at++;
	t->search->work += (at - from) / 16 + 1;
	return at;
}

/* ---- blanks ---- */

/* Where the first end of a line or escape sequence is, or the end of the text. */
static size_t
find_line_end_or_escape(Text *t, size_t at)
{
	const char *text = t->text;
	size_t		from = at;

#ifdef __SSE2__
	while (t->end - at >= 16)
	{
		__m128i		v = _mm_loadu_si128((const __m128i *) (text + at));
		__m128i		ends = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\n')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\r')));
		unsigned	found = (unsigned) _mm_movemask_epi8(_mm_or_si128(ends, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));

		if (found != 0)
		{
			at += (size_t) __builtin_ctz(found);
			t->search->work += (at - from) / 16 + 1;
			return at;
		}
		at += 16;
	}
#endif
	while (at < t->end && !steno_redact_ends_line(text[at]) && text[at] != '\\')
		at++;
	t->search->work += (at - from) / 16 + 1;
	return at;
}

/*
 * t is at "--".  An escaped end of a line is one, too, so a search must not pass an escape sequence: the same
 * bytes would be searched again behind it.
 */
static void
skip_line(Text *t)
{
	int			c;

	do
	{
		t->at = t->escaped ? find_line_end_or_escape(t, t->at) : find_either(t, t->at, t->end, '\n', '\r');
		c = take(t);
	} while (c >= 0 && !steno_redact_ends_line(c));
}

/* Behind a comment whose opening is next; comments nest. */
static void
skip_nested_comment(Text *t)
{
	uint32_t	depth = 0;
	int			c;

	for (;;)
	{
		if (!t->escaped)
			t->at = find_either(t, t->at, t->end, '/', '*');
		c = take(t);
		if (c < 0)
			return;
		if (c == '/' && peek(t, 0) == '*')
		{
			take(t);
			depth++;
		}
		else if (c == '*' && peek(t, 0) == '/')
		{
			take(t);
			if (--depth == 0)
				return;
		}
	}
}

/* Is there the end of a line between from and to, where only spaces are? */
static bool
has_line_end(const Text *t, size_t from, size_t to)
{
	STENO_LOOKED((to - from) / 8);
	return memchr(t->text + from, '\n', to - from) != NULL || memchr(t->text + from, '\r', to - from) != NULL;
}

void
steno_redact_skip_blanks(Text *t)
{
	bool		after_escapes = t->escapes_until != 0 && t->escapes_until == t->at;

	for (;;)
	{
		size_t		at = t->at;
		int			c;

		while (at < t->end && steno_redact_is_space((unsigned char) t->text[at]))
			at++;
		if (at > t->at)
		{
			if (after_escapes && has_line_end(t, t->at, at))
				t->escapes_line = true;
			t->search->work += at - t->at;
			t->at = at;
			t->before = ' ';
		}
		if (at == t->end || (t->text[at] != '-' && t->text[at] != '/' && t->text[at] != '\\'))
			break;
		c = peek(t, 0);
		if (steno_redact_is_space(c))
		{
			take(t);
			t->escapes_line |= after_escapes && steno_redact_ends_line(c);
		}
		else if (t->language == SQL && c == '-' && peek(t, 1) == '-')
		{
			skip_line(t);
			t->escapes_line |= after_escapes && steno_redact_ends_line(t->before);
		}
		else if (t->language == SQL && c == '/' && peek(t, 1) == '*')
		{
			skip_nested_comment(t);
			after_escapes = false;
		}
		else
			break;
	}
	if (after_escapes)
		t->escapes_until = t->at;
}

/* ---- tokens ---- */

/* How often c stands at text + at, one after the other. */
static size_t
run_of(Text *t, size_t at, char c)
{
	const char *text = t->text;
	size_t		from = at;

#ifdef __SSE2__
	while (t->end - at >= 16)
	{
		__m128i		v = _mm_loadu_si128((const __m128i *) (text + at));
		unsigned	others = 0xffff ^ (unsigned) _mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(c)));

		if (others != 0)
		{
			at += (size_t) __builtin_ctz(others);
			t->search->work += (at - from) / 16 + 1;
			return at - from;
		}
		at += 16;
	}
#endif
	while (at < t->end && text[at] == c)
		at++;
	t->search->work += (at - from) / 16 + 1;
	return at - from;
}

typedef enum Run
{
	NO_RUN,						/* look at the characters */
	PASSED,
	CLOSED
} Run;

/*
 * In a literal, at a single quote: over a run of them, of which each layer doubles each.  An odd one
 * closes the literal.  Behind the run an escape sequence may be one more.
 */
static Run
pass_quotes(Text *t, Token *token)
{
	size_t		from = t->at;
	size_t		run = run_of(t, from, '\'');
	size_t		count;

	if (t->escaped && from + run < t->end && t->text[from + run] == '\\')
	{
		run = run >> (t->layers + 1) << (t->layers + 1);
		if (run == 0)
			return NO_RUN;
	}
	t->at = from + run;
	t->before = '\'';
	count = (run + ((size_t) 1 << t->layers) - 1) >> t->layers;
	if (count % 2 == 0)
		return PASSED;
	token->body_end = from + ((count - 1) << t->layers);
	return CLOSED;
}

/* What stands in quotes, whose opening one has been passed. */
void
steno_redact_read_quoted(Text *t, Token *token, int quote, bool backslashes, bool doubled)
{
	const char	stop = backslashes || t->escaped ? '\\' : (char) quote;

	token->body = t->at;
	token->closed = false;
	for (;;)
	{
		int			c;

		token->body_end = t->at = find_either(t, t->at, t->end, (char) quote, stop);
		if (t->at < t->end && quote == '\'' && doubled && t->text[t->at] == '\'')
		{
			Run			run = pass_quotes(t, token);

			token->closed = run == CLOSED;
			if (run == CLOSED)
				break;
			if (run == PASSED)
				continue;
		}
		else if (backslashes && !t->escaped && t->end - t->at > 1 &&
				 t->text[t->at] == '\\' && t->text[t->at + 1] == '\\')
		{
			t->at += run_of(t, t->at, '\\') & ~(size_t) 1;
			continue;
		}
		c = take(t);
		if (c < 0)
			break;
		if (c == '\\' && backslashes)
			take(t);
		else if (c == quote)
		{
			if (!doubled || peek(t, 0) != quote)
			{
				token->closed = true;
				break;
			}
			take(t);
		}
	}
	token->to = t->at;
}

static void
read_literal(Text *t, Token *token, bool backslashes)
{
	token->type = LITERAL;
	token->quoting = backslashes ? STENO_ESCAPED : STENO_QUOTED;
	/* a connection string has no doubled quotes, but what is SQL in disguise has */
	steno_redact_read_quoted(t, token, '\'', backslashes, true);
	token->attached = token->closed && steno_redact_is_word(peek(t, 0));
	if (backslashes && token->closed)
	{
		t->escapes_until = t->at;
		t->escapes_line = false;
	}
}

/* A dollar has been passed: is it that of a literal?  Then read it. */
static bool
read_dollar(Text *t, Token *token)
{
	const char *text = t->text;
	size_t		tag = t->at;
	size_t		at = tag;
	size_t		len;

	if (at < t->end && text[at] >= '0' && text[at] <= '9')
		return false;
	while (at < t->end && steno_redact_is_word((unsigned char) text[at]))
		at++;
	t->search->work += at - tag;
	if (at == t->end || text[at] != '$')
		return false;
	len = ++at - tag;			/* with the closing dollar, without the first */
	token->type = LITERAL;
	token->quoting = STENO_PLAIN;
	token->closed = false;
	token->attached = false;
	token->body = at;
	for (;;)
	{
		at = find_either(t, at, t->end, '$', '$');
		if (at == t->end)
		{
			token->body_end = t->at = t->end;
			break;
		}
		at++;
		STENO_LOOKED(1);		/* no dollar is in what memcmp finds equal, so it adds to the bytes up to the next */
		if (t->end - at >= len && memcmp(text + at, text + tag, len) == 0)
		{
			token->body_end = at - 1;
			token->closed = true;
			t->at = at + len;
			break;
		}
	}
	t->before = '$';
	token->to = t->at;
	return true;
}

/* A word, or a literal with a letter before its quote; the first character is next. */
static void
read_word(Text *t, Token *token)
{
	int			letter;
	size_t		at = t->at;

	token->type = WORD;
	while (word_continues(t, at))
		at++;
	t->search->work += at - t->at;
	t->before = (unsigned char) t->text[at - 1];
	token->body = t->at;
	token->to = token->body_end = t->at = at;
	if (t->language != SQL || token->to - token->from != 1)
		return;
	letter = t->before | 0x20;
	if (letter == 'u' && peek(t, 0) == '&' && (peek(t, 1) == '\'' || peek(t, 1) == '"'))
	{
		take(t);
		if (take(t) == '\'')
			read_literal(t, token, false);
		else
		{
			token->type = NAME;
			steno_redact_read_quoted(t, token, '"', false, true);
		}
	}
	else if (strchr("ebxn", letter) != NULL && peek(t, 0) == '\'')
	{
		take(t);
		read_literal(t, token, letter == 'e' || (letter == 'n' && !t->search->standard_strings));
	}
}

void
steno_redact_next_token(Text *t, Token *token)
{
	bool		escapes;
	int			before;
	int			c;

	steno_redact_skip_blanks(t);
	escapes = t->language != SQL || !t->search->standard_strings ||
		(t->escapes_line && t->escapes_until != 0 && t->escapes_until == t->at);
	before = t->before;
	token->from = t->at;
	if (t->at < t->end && steno_redact_is_word((unsigned char) t->text[t->at]))
	{
		read_word(t, token);
		return;
	}
	c = peek(t, 0);
	token->type = c < 0 ? END : CHARACTER;
	token->c = take(t);
	token->to = t->at;
	/* the apostrophe in a word of prose opens nothing */
	if (c == '\'' && (t->language == SQL || !continues_word(before)))
		read_literal(t, token, escapes);
	else if (c == '"' && t->language == SQL)
	{
		token->type = NAME;
		steno_redact_read_quoted(t, token, '"', false, true);
	}
	else if (c == '$' && t->language == SQL)
		read_dollar(t, token);
}

/* ---- statements ---- */

/* What kind of statement is this?  A word that is no name of a secret stands at text + from. */
void
steno_redact_note_word(Text *t, size_t from, size_t to)
{
	const char *word = t->text + from;
	size_t		len = to - from;
	bool		altered = t->altered;

#define IS(keyword) (len == sizeof(keyword) - 1 && steno_redact_same(word, keyword, sizeof(keyword) - 1))
	t->altered = t->role_next = false;
	if (len < 3 || len > 6)
		return;
	switch (word[0] | 0x20)
	{
		case 'a':
			t->altered = IS("alter");
			break;
		case 'c':
			t->altered = IS("create");
			break;
		case 'g':
			t->role_next = altered && IS("group");
			break;
		case 'i':
			t->updates |= IS("insert");
			break;
		case 'm':
			t->updates |= IS("merge");
			break;
		case 'r':
			t->role_next = altered && IS("role");
			break;
		case 's':
			if (IS("set"))
				t->sets = !t->updates;
			break;
		case 'u':
			t->role_next = altered && IS("user");
			t->updates |= IS("update");
			break;
		default:
			break;
	}
	t->roles |= t->role_next;
#undef IS
}

void
steno_redact_end_statement(Text *t)
{
	t->parentheses = t->call = t->options = t->config = t->value = t->cases = t->compares = 0;
	t->altered = t->role_next = t->roles = t->updates = t->sets = t->hide_rest = false;
}

/* ---- what is skipped ---- */

/* The end of the word at text + at, which is of SQL. */
static inline size_t
word_end(const char *text, size_t at, size_t end)
{
	do
		at++;
	while (at < end && steno_redact_in_word((unsigned char) text[at]));
	return at;
}

/* The end of a literal in single quotes whose opening one is at text + at; end: it is not closed. */
static size_t
literal_end(Text *t, size_t at, size_t end)
{
	for (;;)
	{
		at = find_either(t, at + 1, end, '\'', '\'');
		if (at + 1 >= end)
			return end;
		if (t->text[++at] != '\'')
			return at;
	}
}

/*
 * The end of a literal whose triggers have no effect, such as a JSON document; its opening quote is
 * at text + at.  0: it is to be looked into.  Quotes in it must be apostrophes in words: any other
 * begins a literal of its own, which may be SQL.
 */
static size_t
harmless_end(Text *t, size_t at)
{
	size_t		end = t->end;
	bool		harmless;

	if (t->depth >= STENO_REDACT_DEPTH || !steno_redact_begins_string(t->text, at + 1, end))
		return 0;
	harmless = steno_redact_document(t->text, t->search->len, at + 1, &end);
	t->search->work += (end - at) / 16 + 1;
	return harmless ? end : 0;
}

/* So many bytes are skipped at once: then it is time to see whether the search is to be given up. */
#define QUIET_MOST (1024 * 1024)

/*
 * In SQL: over what ends before the given trigger, up to what the lexer should look at.  Keywords
 * are noted, nothing else has an effect while nothing is pending.  False: there is no trigger any
 * more.
 */
static bool
skip_sql(Text *t, size_t trigger)
{
	const char *text = t->text;
	size_t		at = t->at;
	size_t		from = at;

	while (at < trigger && at - from < QUIET_MOST)
	{
		unsigned char c = (unsigned char) text[at];
		size_t		next;

		if (steno_redact_in_word(c) && c != '$')
		{
			next = word_end(text, at, t->end);
			if (next > trigger)
				break;
			/* a literal may have a letter before its quote; in any layer */
			if (next == at + 1 && next < t->end && strchr("'&\\", text[next]) != NULL)
				break;
			if (c > '9')
				steno_redact_note_word(t, at, next);
			else
				t->altered = t->role_next = false;
			at = next;
			continue;
		}
		switch (c)
		{
			case '\'':
				if (t->layers > 0 || !t->search->standard_strings)
					goto done;
				next = literal_end(t, at, trigger);
				if (next >= trigger)
				{
					next = harmless_end(t, at);
					if (next == 0)
						goto done;
					trigger = trigger_from(t->search, next);
					if (trigger >= t->end)
						return false;
				}
				t->altered = t->role_next = false;
				at = next;
				continue;
			case '"':
			case '$':
			case '\\':
				goto done;
			case '-':
				if (!t->escaped && at + 1 < t->end && text[at + 1] == '-')
				{
					next = find_either(t, at, trigger, '\n', '\r');
					if (next >= trigger)
						goto done;
					at = next;
					break;
				}
				__attribute__((fallthrough));
			case '/':
				if (at + 1 == t->end || strchr("-*'\\", text[at + 1]) != NULL)
					goto done;
				break;
			case '(':
				t->parentheses++;
				break;
			case ')':
				if (t->parentheses > 0)
					t->parentheses--;
				break;
			case ';':
				steno_redact_end_statement(t);
				break;
			default:
				break;
		}
		at++;
	}
done:
	t->search->work += at - from;
	if (at > from)
		t->before = (unsigned char) text[at - 1];
	t->at = at;
	return true;
}

/*
 * In another language: over a quote or an escape sequence.  False: the lexer should look at what
 * it begins.
 */
static bool
skip_special(Text *t)
{
	int			c;
	Token		token;
	size_t		from = t->at;
	int			before = t->before;

	if (t->layers == 1 && t->text[from] == '\\')
	{
		t->at += run_of(t, from, '\\') & ~(size_t) 1;
		if (t->at > from)
		{
			t->before = '\\';
			return true;
		}
	}
	c = peek(t, 0);
	if (c == ':')
		return false;			/* of a URI, perhaps */
	take(t);
	if (c != '\'' || continues_word(before))
		return true;
	steno_redact_read_quoted(t, &token, '\'', true, true);
	if (t->at <= trigger_from(t->search, from))
		return true;
	t->at = from;
	t->before = before;
	return false;
}

/*
 * In another language: to the trigger's word, or to a literal with one.  False: there is no trigger
 * any more.  A bare name has an effect in a literal only, which may be SQL.
 */
static bool
skip_other_language(Text *t)
{
	const char *text = t->text;
	const char	escape = t->escaped ? '\\' : '\'';
	size_t		trigger;
	size_t		begin;

	for (;;)
	{
		size_t		stop;
		size_t		at;
		size_t		end;

		if (t->search->trigger >= t->end)
			return false;
		trigger = strings_trigger_from(t->search, t->at);
		stop = trigger < t->end ? trigger : t->end;
		at = find_either(t, t->at, stop, '\'', escape);
		if (at > t->at)
			t->before = (unsigned char) text[at - 1];
		if (at < stop)
		{
			t->at = at;
			if (!skip_special(t))
				return true;
			continue;
		}
		if (stop == t->end)
			return false;
		for (end = at; word_continues(t, end);)
			end++;
		t->search->work += end - at;
		if (end == at || !steno_redact_is_bare(text, t->end, end))
			break;
		t->before = (unsigned char) text[end - 1];
		t->at = end;
	}
	begin = trigger;
	while (begin > t->at && continues_word((unsigned char) text[begin - 1]))
		begin--;
	t->search->work += trigger - begin;
	/* no word begins with a dollar */
	while (begin < trigger && text[begin] == '$')
		begin++;
	if (begin > t->at)
		t->before = (unsigned char) text[begin - 1];
	t->at = begin;
	return true;
}

/*
 * Nothing is pending: skip text that has no effect.  False if the rest of the text has none.
 */
bool
steno_redact_skip_quiet(Text *t)
{
	size_t		trigger = trigger_from(t->search, t->at);

	if (trigger >= t->end)
		return false;
	if (t->language != SQL)
		return skip_other_language(t);
	/* what comes next may continue an E'' literal */
	if (t->escapes_until != 0 && t->escapes_until == t->at)
		return true;
	return skip_sql(t, trigger);
}
