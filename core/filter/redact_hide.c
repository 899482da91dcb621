/*
 * core/filter/redact_hide.c
 *		What of a text is a secret, once the rules (redact.c, redact_command.c) have found where one is: how
 *		far a literal, a word, the value of a connection string or the password of a URI extends.
 */
#include "filter/redact.h"

#include <string.h>

#include "filter/redact_lex.h"

void
steno_redact_report(const Text *t, size_t from, size_t to, int quoting, bool pieces)
{
	StenoSecret secret = {.from = from, .to = to, .pieces = pieces, .layers = (uint8_t) t->layers};

	if (t->search->given_up)
		return;					/* it is in what was not searched */
	t->search->searched = to;
	memcpy(secret.layer, t->layer, sizeof(secret.layer));
	if (quoting != STENO_PLAIN && secret.layers <= STENO_REDACT_DEPTH)
		secret.layer[secret.layers++] = (uint8_t) quoting;
	t->search->found(t->search->arg, &secret);
}

/* A place that format() or RAISE fills, %s or %1$L: no secret, but one will come. */
bool
steno_redact_is_placeholder(const char *p, size_t len)
{
	size_t		i = 1;

	if (len < 1 || len > 12 || p[0] != '%')
		return false;
	while (i < len && ((p[i] >= '0' && p[i] <= '9') || p[i] == '$' || p[i] == '-'))
		i++;
	return i == len || (i == len - 1 && strchr("sIL", p[i]) != NULL);
}

/* Up to white space or what ends a value in SQL or in code; t is moved there. */
static size_t
bare_end(Text *t, const char *ends_too)
{
	for (;;)
	{
		size_t		at = t->at;
		int			c;

		while (word_continues(t, at))
			at++;
		if (at > t->at)
		{
			t->search->work += at - t->at;
			t->before = (unsigned char) t->text[at - 1];
			t->at = at;
		}
		c = peek(t, 0);
		if (c < 0 || steno_redact_is_space(c) || steno_redact_is_any_of(c, ends_too))
			return t->at;
		take(t);
	}
}

/*
 * Hide a literal.  If it has a quote too few or too many, the rest of the secret may
 * follow it.
 */
void
steno_redact_hide_literal(Text *t, const Token *token)
{
	const char *text = t->text;

	if (steno_redact_is_placeholder(text + token->body, token->body_end - token->body))
		t->hide_rest = true;
	else
		steno_redact_report(t, token->body, token->body_end, token->quoting, false);
	if (!token->closed && t->depth > 0)
		t->hide_rest = true;
	if (token->attached && t->call == 0)
	{
		size_t		from = t->at;
		size_t		to = bare_end(t, ",;()'");

		if (to > from)
			steno_redact_report(t, from, to, STENO_PLAIN, true);
	}
}

/* A secret without quotes; its first character has been read as a part of token. */
void
steno_redact_hide_bare(Text *t, const Token *token)
{
	size_t		to = bare_end(t, t->parentheses > 0 ? ",;()" : ";");

	steno_redact_report(t, token->from, to, STENO_PLAIN, true);
}

/* ---- connection strings ---- */

/* Is what comes next, behind white space, the key of another pair, or the end? */
static bool
pair_or_end_follows(Text t)
{
	bool		word = false;

	steno_redact_skip_blanks(&t);
	while (steno_redact_is_word(peek(&t, 0)))
	{
		take(&t);
		word = true;
	}
	steno_redact_skip_blanks(&t);
	return peek(&t, 0) == (word ? '=' : -1);
}

/*
 * The value of password=; in_uri: in the query of a URI.  Words after white space that
 * are not a name and a value are taken for a part of a secret that lacks its quotes.
 */
void
steno_redact_hide_value(Text *t, bool in_uri)
{
	const char *text = t->text;
	bool		pieces = false;
	bool		closed = true;
	size_t		from;
	size_t		to;

	if (!in_uri)
		steno_redact_skip_blanks(t);
	from = to = t->at;
	if (!in_uri && peek(t, 0) == '\'')
	{
		Token		quoted = {.type = LITERAL};

		pieces = true;
		take(t);
		steno_redact_read_quoted(t, &quoted, '\'', true, false);
		to = quoted.to;
		closed = quoted.closed;
		if (steno_redact_is_placeholder(text + quoted.body, quoted.body_end - quoted.body))
		{
			t->hide_rest = true;
			return;
		}
	}
	if (in_uri)
		to = bare_end(t, "&\"");
	else if (t->language == CODE)
		to = bare_end(t, "\"'),;");
	else if (closed)
	{
		to = bare_end(t, "");
		while (!pair_or_end_follows(*t))
		{
			pieces = true;
			steno_redact_skip_blanks(t);
			to = bare_end(t, "");
		}
	}
	if (to == from || steno_redact_is_placeholder(text + from, to - from))
		t->hide_rest = true;
	else
		steno_redact_report(t, from, to, STENO_PLAIN, pieces);
	if (!closed)
		t->hide_rest = true;
}

/*
 * A port follows the first colon of a URI, which is at from, up to a character that begins a path; a
 * list of hosts has several ports.  Returns up to where it can be one: before or at the returned place.
 */
static size_t
port_until(Text *t, size_t from)
{
	size_t		at = from;

	while (at < t->end && t->text[at] >= '0' && t->text[at] <= '9')
		at++;
	t->search->work += at - from;
	return at < t->end && t->text[at] == ',' ? t->end : at;
}

/*
 * Is what begins at this text's beginning, and :// at its place, a URI of PostgreSQL?  Then the text is
 * nothing else, as in a connection string: libpq allows blanks and quotes in its password.
 */
static bool
is_whole_uri(const Text *t)
{
	size_t		len = t->at - t->begin;

	return (len == 11 && steno_redact_same(t->text + t->begin, "postgres", 8)) ||
		(len == 13 && steno_redact_same(t->text + t->begin, "postgresql", 10));
}

/*
 * The literal ends with scheme://user: and its password may be in the literals behind it.  If it is
 * a port instead, there is no at sign.
 */
static bool
at_sign_follows(const Text *t)
{
	const size_t most = 256;
	Search	   *s = t->search;

	if (s->at_sign < t->end)
	{
		const char *p = memchr(s->text + t->end, '@', s->len - t->end);
		size_t		at = p != NULL ? (size_t) (p - s->text) : s->len;

		s->work += (at - t->end) / 16 + 1;
		s->at_sign = at;
	}
	return s->at_sign < s->len && s->at_sign - t->end <= most;
}

/*
 * The password of a URI; :// has been passed.  One that has not been encoded may have the
 * characters that otherwise begin a path.
 */
void
steno_redact_hide_userinfo(Text *t)
{
	Text		ahead = *t;
	bool		in_user = true;
	bool		in_password = false;
	bool		whole = is_whole_uri(t);
	size_t		from = 0;
	size_t		to = 0;
	size_t		port = 0;		/* what extends from the colon up to here at most is a port */

	if (t->at < t->search->no_userinfo || peek(t, 0) == '[')
		return;
	for (;;)
	{
		size_t		at;
		int			c;

		if (in_password)
		{
			at = steno_redact_password_end(ahead.text, ahead.at, ahead.end);
			t->search->work += (at - ahead.at) / 16;
			ahead.at = at;
		}
		at = ahead.at;
		c = take(&ahead);
		if (c >= 0 && whole && !in_user && to == 0 && (steno_redact_is_space(c) || c == '"' || c == '\''))
		{
			if (at > from && at <= port)
				break;
		}
		else if (c < 0 || steno_redact_is_space(c) || c == '"' || c == '\'')
		{
			if (c < 0 && !in_user && from == at && at_sign_follows(t))
				t->hide_rest = true;
			if (to == 0)
				t->search->no_userinfo = at;
			break;
		}
		if (c == '/' || c == '?' || c == '#')
		{
			if (in_user || to > 0 || at <= port)
				break;
			/* nor is it a port up to any later place: only an at sign, or the end, matters */
			in_password = true;
		}
		else if (c == '@')
		{
			to = at;
			in_password = false;
			if (in_user)
				return;
		}
		else if (c == ':' && in_user)
		{
			from = ahead.at;
			port = port_until(t, from);
			in_user = false;
		}
	}
	if (to <= from)
		return;
	if (steno_redact_is_placeholder(t->text + from, to - from))
		t->hide_rest = true;
	else
		steno_redact_report(t, from, to, STENO_PLAIN, true);
	t->at = to;
}
