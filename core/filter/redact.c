/*
 * core/filter/redact.c
 *		Where the secrets of a text are: the rules.
 *
 * A text is a sequence of tokens, and the contents of a literal are a text again: the
 * SQL of EXECUTE, a function's body, a connection string, or prose.  What looks
 * like SQL is read by SQL's lexical rules; anything else (STRING) by those of connection
 * strings, key = value, which also let prose pass.
 *
 * The rules look at what precedes a literal, not at whole statements, so that they apply
 * to statements with errors, too:
 *
 *		PASSWORD 'x', and any name that ends like it		is_strong
 *		that name = 'x', TO 'x', => 'x', := 'x', and
 *		literals of the expression behind =, but for those that CASE compares
 *		OPTIONS (name 'x'), with more names					is_weak
 *		PROGRAM 'x': what redact_command.c finds in it
 *		set_config('name', 'x')
 *		crypt('x', 'y') and the like: all literals			is_call
 *		a string's password=x and scheme://user:x@host
 *
 * A literal that ends where its secret should begin ('ALTER ROLE r PASSWORD ' || 'x';
 * format('password=%s', 'x')) leaves that to the literals behind it: all of
 * them, to the statement's end, are hidden; in a function's later statements, too, that
 * execute or put together a text.
 */
#include "filter/redact.h"

#include <string.h>

#include "filter/redact_lex.h"

/* No name is longer in PostgreSQL. */
#define NAME_MOST 63

/* ---- names ---- */

static inline bool
token_ends(const Text *t, const Token *token, const char *word)
{
	size_t		n = strlen(word);

	return token->body_end - token->body >= n && steno_redact_same(t->text + token->body_end - n, word, n);
}

static bool
is_one_of(const Text *t, const Token *token, const char *const *words)
{
	int			c = token->body_end > token->body ? t->text[token->body] | 0x20 : 0;

	STENO_LOOKED(1);
	for (; *words != NULL; words++)
		if (c == (*words)[0] && steno_token_is(t, token, *words))
			return true;
	return false;
}

/* In SQL, a name ends before spaces that are not ASCII, as in a pasted PASSWORD 'x'. */
static size_t
name_end(const Text *t, const Token *token)
{
	size_t		at = token->body;

	if (token->type != WORD || t->language != SQL || token->body_end - at > NAME_MOST)
		return token->body_end;
	while (at < token->body_end && steno_redact_pasted_space(t->text + at, token->body_end - at) == 0)
		at++;
	return at;
}

/* A name that means a secret wherever it stands. */
static bool
is_strong(const Text *t, const Token *whole)
{
	Token		named = *whole;
	const Token *token = &named;

	named.body_end = name_end(t, whole);
	if (token->body_end == token->body || token->body_end - token->body > NAME_MOST)
		return false;
	switch (t->text[token->body_end - 1] | 0x20)
	{
		case 'd':
			return token_ends(t, token, "password") || token_ends(t, token, "passwd") || token_ends(t, token, "pwd") ||
				token_ends(t, token, "passphrase_command");
		case 'e':
			return token_ends(t, token, "passphrase");
		case 't':
			return token_ends(t, token, "secret");
		default:
			return false;
	}
}

/* One that does so among the options of a server or a user mapping. */
static bool
is_weak(const Text *t, const Token *token)
{
	return token_ends(t, token, "token") || token_ends(t, token, "_key") || token_ends(t, token, "apikey") ||
		token_ends(t, token, "credential") || token_ends(t, token, "credentials") || steno_token_is(t, token, "key") ||
		steno_token_is(t, token, "pass") || steno_token_is(t, token, "passcode");
}

/* A function whose literal arguments are hidden: those of pgcrypto. */
static bool
is_call(const Text *t, const Token *token)
{
	static const char *const functions[] = {
		"crypt", "digest", "hmac", "encrypt", "decrypt", "encrypt_iv", "decrypt_iv", NULL
	};
	size_t		len = token->body_end - token->body;
	size_t		i;

	if (is_one_of(t, token, functions))
		return true;
	if (len < 9 || len > NAME_MOST || !steno_redact_same(t->text + token->body, "pgp_", 4))
		return false;
	for (i = token->body + 4; i + 5 <= token->body_end; i++)
		if (steno_redact_same(t->text + i, "crypt", 5) && (i + 5 == token->body_end || t->text[i + 5] == '_'))
			return true;
	return false;
}

/* ---- texts ---- */

static bool search_text(Text *t);

/* Does the text begin as SQL does? */
static Language
language_of(Text t, uint8_t quoting)
{
	static const char *const begins[] = {
		"abort", "alter", "analyze", "begin", "call", "close", "comment", "commit", "copy", "create", "deallocate",
		"declare", "delete", "discard", "do", "drop", "end", "execute", "explain", "fetch", "grant", "if",
		"insert", "lock", "loop", "merge", "move", "notify", "perform", "prepare", "raise", "reassign", "reindex",
		"release", "reset", "return", "revoke", "rollback", "savepoint", "security", "select", "set", "show", "table",
		"truncate", "update", "vacuum", "values", "with", NULL
	};
	Token		token;
	int			c;

	t.language = SQL;
	steno_redact_skip_blanks(&t);
	c = peek(&t, 0);
	if (c == '(' || c == '#' || c == ';' || (c == '<' && peek(&t, 1) == '<'))
		return SQL;
	steno_redact_next_token(&t, &token);
	steno_redact_skip_blanks(&t);
	if (token.type == WORD && is_one_of(&t, &token, begins) && peek(&t, 0) != '=' && peek(&t, 0) != ':')
		return SQL;
	if (quoting != STENO_PLAIN || peek(&t, 0) == '=')
		return STRING;
	return CODE;
}

/* The contents of a literal, as a text. */
static Text
text_in(const Text *t, const Token *token)
{
	Text		inner = {
		.search = t->search, .text = t->text, .begin = token->body, .at = token->body,
		.end = token->body_end, .before = ' ', .escaped = t->escaped || token->quoting == STENO_ESCAPED,
		.depth = t->depth + 1, .layers = t->layers
	};

	memcpy(inner.layer, t->layer, sizeof(inner.layer));
	if (token->quoting != STENO_PLAIN && inner.layers <= STENO_REDACT_DEPTH)
		inner.layer[inner.layers++] = token->quoting;
	return inner;
}

/* Search the contents of a literal.  If a secret should begin at its end, the literals behind it are hidden. */
static void
search_literal(Text *t, const Token *token)
{
	Text		inner;

	if (trigger_from(t->search, token->body) >= token->body_end)
		return;					/* nearly all */
	inner = text_in(t, token);
	if (inner.depth > STENO_REDACT_DEPTH)
	{
		steno_redact_report(t, inner.at, inner.end, token->quoting, true);
		return;
	}
	if (token->quoting != STENO_PLAIN && steno_redact_begins_string(inner.text, inner.at, inner.end))
		inner.language = STRING;
	else
		inner.language = language_of(inner, token->quoting);
	if (search_text(&inner))
	{
		t->hide_rest = true;
		/* a variable may keep what it begins */
		t->prefixed |= t->depth > 0;
	}
}

/* A program's command line. */
static void
search_command_line(Text *t, const Token *token)
{
	Text		inner = text_in(t, token);

	inner.language = STRING;
	steno_redact_command(&inner);
	if (inner.hide_rest)
	{
		t->hide_rest = true;
		t->prefixed |= t->depth > 0;
	}
}

/* The first literal argument of set_config() is the name of a secret. */
static bool
names_secret(const Text *t, const Token *literal)
{
	return is_strong(t, literal);
}

static void
take_literal(Text *t, Token *token)
{
	bool		hide = (t->named && (t->language == SQL || !t->assigned)) || t->weakly || t->again ||
		t->hide_rest || t->call != 0 || (t->config != 0 && t->config_secret) || (t->value != 0 && t->compares == 0);

	if (hide)
		steno_redact_hide_literal(t, token);
	else if (t->program)
		search_command_line(t, token);
	else
	{
		if (t->config != 0)
			t->config_secret = names_secret(t, token);
		search_literal(t, token);
	}
	t->named = t->weakly = t->assigned = t->program = false;
	t->again = hide;
}

/*
 * A word of an expression whose value is a secret, password = md5('x'): does it end, and are literals
 * behind it only compared, as in CASE WHEN a = 'x'?
 */
static void
take_value_word(Text *t, const Token *token)
{
	static const char *const ends_value[] = {
		"and", "as", "begin", "do", "end", "from", "group", "having", "in", "into", "is", "join", "limit", "loop",
		"on", "or", "order", "returning", "then", "union", "using", "values", "when", "where", NULL
	};
	static const char *const compares[] = {"case", "when", "where", NULL};
	static const char *const yields[] = {"then", "else", NULL};
	static const char *const next_select[] = {"union", "except", "intersect", "returning", NULL};

	if (steno_token_is(t, token, "case"))
		t->cases++;
	else if (t->cases == 0 && t->parentheses < t->value && is_one_of(t, token, ends_value))
	{
		t->value = 0;
		return;
	}
	else if (t->cases > 0 && steno_token_is(t, token, "end"))
	{
		t->cases--;
		t->compares = 0;
	}
	if (is_one_of(t, token, compares))
		t->compares = t->parentheses + 1;
	else if (is_one_of(t, token, yields) ||
			 (t->compares == t->parentheses + 1 && is_one_of(t, token, next_select)))
		t->compares = 0;
}

/* Is this word itself a secret: PASSWORD secret, SET x.password = secret? */
static bool
is_bare_secret(const Text *t, const Token *token)
{
	static const char *const others[] = {"null", "to", "default", "set", NULL};

	if (t->language != SQL || !t->named || (token->type == WORD && is_one_of(t, token, others)))
		return false;
	return t->assigned ? t->sets : t->roles;
}

/* Does the word have a trigger in it? */
static inline bool
is_special(const Text *t, const Token *token)
{
	return t->search->thorough || trigger_from(t->search, token->from) < token->to;
}

static void
take_word(Text *t, const Token *token)
{
	static const char *const continues[] = {"execute", "quote_literal", "quote_nullable", "format", "concat", NULL};
	bool		plain = token->type == WORD;
	bool		role_name = t->role_next;
	bool		secret = is_bare_secret(t, token);

	/* name TO 'x' */
	if (plain && t->named && steno_token_is(t, token, "to"))
	{
		t->assigned = true;
		t->altered = t->role_next = false;
		return;
	}
	t->named = t->weakly = t->assigned = t->program = t->again = false;
	t->opens_call = t->opens_options = t->opens_config = false;
	if (secret)
	{
		steno_redact_hide_bare(t, token);
		/* PASSWORD is 'x' */
		t->again = t->roles;
		t->altered = t->role_next = false;
		t->value = 0;
		return;
	}
	if (plain && t->value != 0)
		take_value_word(t, token);
	if (plain && t->prefixed && is_one_of(t, token, continues))
		t->hide_rest = true;
	if (plain && t->language == SQL)
		steno_redact_note_word(t, token->from, token->to);
	else
		t->altered = t->role_next = false;
	if (is_special(t, token))
	{
		/* a role may have the name */
		t->named = is_strong(t, token) && !role_name;
		t->program = plain && steno_token_is(t, token, "program");
		t->opens_call = is_call(t, token);
		t->opens_options = plain && steno_token_is(t, token, "options");
		t->opens_config = steno_token_is(t, token, "set_config");
		t->before_name = token->from > t->begin ? (unsigned char) t->text[token->from - 1] : ' ';
	}
	t->weakly = t->options != 0 && !t->named && is_weak(t, token);
}

static void
take_parenthesis(Text *t, bool opens)
{
	if (opens)
	{
		t->parentheses++;
		if (t->opens_call && t->call == 0)
			t->call = t->parentheses;
		if (t->opens_options && t->options == 0)
			t->options = t->parentheses;
		if (t->opens_config && t->config == 0)
		{
			t->config = t->parentheses;
			t->config_secret = false;
		}
		return;
	}
	if (t->call == t->parentheses)
		t->call = 0;
	if (t->options == t->parentheses)
		t->options = 0;
	if (t->config == t->parentheses)
		t->config = 0;
	if (t->parentheses > 0)
		t->parentheses--;
	if (t->parentheses + 1 < t->value)
		t->value = 0;
	if (t->parentheses + 1 < t->compares)
		t->compares = 0;
}

/* Behind a name, what keeps waiting for its value: = := => and %s */
static bool
take_assignment(Text *t, int c)
{
	if (c == '=' && t->language != SQL)
	{
		if (peek(t, 0) == '>' || peek(t, 0) == '=')
			return true;
		steno_redact_hide_value(t, t->before_name == '?' || t->before_name == '&');
		return false;
	}
	if (c == '%' && t->depth > 0)
		t->hide_rest = true;
	t->assigned |= c == '=';
	return c == '=' || c == ':' || (c == '>' && t->assigned);
}

static void
take_character(Text *t, const Token *token)
{
	int			c = token->c;
	bool		parenthesised = c == '(' && t->roles && t->language == SQL;	/* PASSWORD ('x') */

	t->weakly = t->program = false;
	/* PASSWORD 'x' || 'y' is a mistake that is easy to make */
	t->again = t->again && t->roles && c == '|';
	if (t->named && t->roles && !t->assigned && t->language == SQL && c != 0 && !steno_redact_is_any_of(c, ";,():=%$"))
	{
		steno_redact_hide_bare(t, token);
		t->named = false;
	}
	else if (t->named && !parenthesised)
		t->named = take_assignment(t, c);
	if (t->named && c == '=' && t->language == SQL)
	{
		t->value = t->parentheses + 1;
		t->cases = 0;
		t->compares = 0;
	}
	else if (c == ',' && t->parentheses < t->value)
		t->value = 0;
	else if (c == '|' && t->prefixed)
		t->hide_rest = true;
	if (!t->named)
		t->assigned = false;
	if (c == '(' || c == ')')
		take_parenthesis(t, c == '(');
	else if (c == ';')
		steno_redact_end_statement(t);
	else if (c == ':' && t->language != SQL && peek(t, 0) == '/' && peek(t, 1) == '/')
	{
		take(t);
		take(t);
		steno_redact_hide_userinfo(t);
	}
	if (c == ';' || (c == '(' && !parenthesised) || c == ')')
		t->named = false;
	t->opens_call = t->opens_options = t->opens_config = false;
}

/* Is no secret expected, whatever comes next? */
static inline bool
expects_nothing(const Text *t)
{
	return !(t->named | t->weakly | t->program | t->again | t->hide_rest | t->prefixed |
			 t->opens_call | t->opens_options | t->opens_config) &&
		(t->call | t->options | t->config | t->value) == 0;
}

/*
 * A string ends with a name like password: does CREATE or ALTER ROLE stand closely before?  Of
 * a string, unlike SQL, the words before are skipped.
 */
static bool
alters_role(const Text *t)
{
	const size_t most = 256;
	size_t		at = t->end - t->begin > most ? t->end - most : t->begin;
	Text		seen = {.text = t->text};

	STENO_LOOKED(t->end - at);
	while (at < t->end && !seen.roles)
	{
		size_t		from = at;

		while (word_continues(t, at))
			at++;
		if (at > from)
			steno_redact_note_word(&seen, from, at);
		else
			at++;
	}
	return seen.roles;
}

/* Is the text that of a literal behind an operator ||? */
static bool
is_appended(const Text *t)
{
	const size_t most = 64;
	size_t		least = t->begin > most ? t->begin - most : 0;
	size_t		at = t->begin;

	/* its quotes, in any layer, a letter before them, or a dollar quote's tag */
	STENO_LOOKED(t->begin - least);
	while (at > least && (t->text[at - 1] == '\'' || t->text[at - 1] == '\\' || t->text[at - 1] == '&' ||
						  continues_word((unsigned char) t->text[at - 1])))
		at--;
	while (at > least && steno_redact_is_space((unsigned char) t->text[at - 1]))
		at--;
	return at > least && t->text[at - 1] == '|';
}

/*
 * Whether the preceding literals of a concatenation have the words CREATE ROLE or ALTER ROLE, as in
 * 'ALTER ROLE ' || name || ' PASSWORD '.  No word is examined twice, so that the time is linear.
 */
static bool
appends_to_role(const Text *t)
{
	const size_t most = 256;
	Search	   *s = t->search;
	size_t		at = t->begin > most ? t->begin - most : 0;
	Text		seen = {.text = t->text};

	if (!is_appended(t))
		return false;
	if (at < s->no_role)
		at = s->no_role;
	s->work += t->begin - at;
	while (at < t->begin)
	{
		size_t		from = at;

		/* a dollar is that of a tag */
		while (at < t->begin && steno_redact_is_word((unsigned char) t->text[at]))
			at++;
		if (at > from)
			steno_redact_note_word(&seen, from, at);
		else if (t->text[at++] == ';')
			seen.altered = seen.roles = false;
	}
	/* where there was one, the rest of the statement is hidden */
	s->no_role = t->begin;
	return seen.roles;
}

/* Find the secrets of a text; true: it ends where one should begin. */
static bool
search_text(Text *t)
{
	Token		token;

	for (;;)
	{
		Search	   *s = t->search;

		if (s->work >= s->pause && steno_redact_must_stop(t))
			return false;
		if (t->at > s->searched)
			s->searched = t->at;
		if (expects_nothing(t) && !s->thorough && !steno_redact_skip_quiet(t))
			return false;
		steno_redact_next_token(t, &token);
		switch (token.type)
		{
			case END:
				return t->hide_rest ||
					(t->named && (t->assigned || t->roles || (t->language != SQL && alters_role(t)) ||
								  (t->depth > 0 && appends_to_role(t))));
			case LITERAL:
				t->opens_call = t->opens_options = t->opens_config = false;
				t->altered = t->role_next = false;
				take_literal(t, &token);
				break;
			case WORD:
			case NAME:
				take_word(t, &token);
				break;
			case CHARACTER:
				take_character(t, &token);
				break;
		}
	}
}

static uint64_t
search(const char *text, size_t len, bool standard_strings, bool thorough, StenoSecretFound found, void *arg,
	   bool *given_up)
{
	Search		s = {
		.text = text, .len = len, .standard_strings = standard_strings, .thorough = thorough,
		.pause = steno_redact_pause, .found = found, .arg = arg
	};
	Text		t = {.search = &s, .text = text, .language = SQL, .end = len, .before = ' '};

	s.trigger = steno_redact_trigger(text, len, 0, false);
	s.work = s.trigger / 16 + 1;
	search_text(&t);
	*given_up = s.given_up;
	if (s.given_up && s.searched < len)
	{
		StenoSecret rest = {.from = s.searched, .to = len, .pieces = true};

		found(arg, &rest);
	}
	return s.work;
}

bool
steno_redact_find(const char *text, size_t len, bool standard_strings,
				  StenoSecretFound found, void *arg)
{
	bool		given_up;

	search(text, len, standard_strings, false, found, arg, &given_up);
	return !given_up;
}

uint64_t
steno_redact_work(const char *text, size_t len, bool standard_strings, bool thorough,
				  StenoSecretFound found, void *arg)
{
	bool		given_up;
	uint64_t	work;

#ifdef STENO_COUNT_WORK
	steno_redact_looked = 0;
#endif
	work = search(text, len, standard_strings, thorough, found, arg, &given_up);
#ifdef STENO_COUNT_WORK
	work += steno_redact_looked;
#endif
	return work;
}
