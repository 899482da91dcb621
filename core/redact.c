/*
 * core/redact.c
 *		Where the secrets of a text are: a lexer for SQL, and the rules.
 *
 * A text is a sequence of tokens, and the contents of a literal are a text again: the
 * SQL of EXECUTE, a function's body, a connection string, or prose.  What looks
 * like SQL is read by SQL's lexical rules; anything else (STRING) by those of connection
 * strings, key = value, which also let prose pass.
 *
 * The rules look at what stands before a literal, not at whole statements, so that they
 * hold in statements with errors, too:
 *
 *		PASSWORD 'x', and any name that ends like it		is_strong
 *		that name = 'x', TO 'x', => 'x', := 'x'
 *		OPTIONS (name 'x'), with more names					is_weak
 *		PROGRAM 'x'
 *		set_config('name', 'x')
 *		crypt('x', 'y') and the like: all literals			is_call
 *		a string's password=x and scheme://user:x@host
 *
 * A literal that ends where its secret should begin ('ALTER ROLE r PASSWORD ' || 'x';
 * format('password=%s', 'x')) leaves that to the literals behind it: all of
 * them, to the statement's end, are hidden.
 */
#include "redact.h"

#include <string.h>

#define WORD_MAX 63

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
	size_t		body;			/* LITERAL, NAME: between its quotes */
	size_t		body_end;
	uint32_t	len;			/* of word */
	char		word[WORD_MAX + 1]; /* in small letters; of a long one, the end */
} Token;

/* What is the same for all texts in a text. */
typedef struct Search
{
	const char *text;
	bool		standard_strings;
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
	const Search *search;
	const char *text;			/* of search */
	Language	language;
	size_t		begin;
	size_t		at;
	size_t		end;
	int			before;			/* the character before at */
	int			depth;
	int			layers;
	uint8_t		layer[STENO_REDACT_DEPTH + 1];

	/* the present statement */
	uint32_t	tokens;
	uint32_t	altered;		/* tokens behind CREATE or ALTER; 0: none */
	bool		roles;			/* ... ROLE, USER, GROUP */
	bool		updates;		/* INSERT, UPDATE, MERGE */
	bool		sets;			/* SET, but not of those */
	bool		hide_rest;
	uint32_t	parentheses;
	uint32_t	call;			/* parentheses of a call whose literals are hidden; 0: none */
	uint32_t	options;		/* the same of OPTIONS */
	uint32_t	config;			/* the same of set_config */

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
} Text;

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

/* The character at *at, which moves behind it; most stand for themselves in any layer. */
static inline int
read_at(const Text *t, size_t *at)
{
	if (*at < t->end)
	{
		int			c = (unsigned char) t->text[*at];

		if ((c != '\'' && c != '\\') || t->layers == 0)
		{
			++*at;
			return c;
		}
	}
	return steno_redact_read(t->text, t->end, at, t->layer, t->layers);
}

/* The next character, which is passed. */
static inline int
take(Text *t)
{
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
starts_word(int c)
{
	return steno_redact_is_word(c);
}

static inline bool
continues_word(int c)
{
	return steno_redact_is_word(c) || c == '$';
}

/* ---- the lexer ---- */

static void
skip_line(Text *t)
{
	int			c;

	do
		c = take(t);
	while (c >= 0 && c != '\n' && c != '\r');
}

/* Behind a comment whose opening is next; comments nest. */
static void
skip_comment(Text *t)
{
	uint32_t	depth = 0;
	int			c;

	while ((c = take(t)) >= 0)
	{
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

static void
skip_blanks(Text *t)
{
	for (;;)
	{
		int			c = peek(t, 0);

		if (steno_redact_is_space(c))
			take(t);
		else if (t->language == SQL && c == '-' && peek(t, 1) == '-')
			skip_line(t);
		else if (t->language == SQL && c == '/' && peek(t, 1) == '*')
			skip_comment(t);
		else
			return;
	}
}

static void
add_to_word(Token *token, int c)
{
	if (token->len == WORD_MAX)
	{
		/* names that count are shorter than half of it */
		memmove(token->word, token->word + WORD_MAX / 2, WORD_MAX - WORD_MAX / 2);
		token->len = WORD_MAX - WORD_MAX / 2;
	}
	token->word[token->len++] = (char) (c >= 'A' && c <= 'Z' ? c | 0x20 : c);
	token->word[token->len] = '\0';
}

/* What stands in quotes, whose opening one has been passed. */
static void
read_quoted(Text *t, Token *token, int quote, bool backslashes, bool doubled)
{
	token->body = t->at;
	token->closed = false;
	for (;;)
	{
		int			c;

		token->body_end = t->at;
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
		else if (token->type == NAME)
			add_to_word(token, c);
	}
	token->to = t->at;
}

static void
read_literal(Text *t, Token *token, bool backslashes)
{
	token->type = LITERAL;
	token->quoting = backslashes ? STENO_ESCAPED : STENO_QUOTED;
	/* a connection string has no doubled quotes, but what is SQL in disguise has */
	read_quoted(t, token, '\'', backslashes, true);
	token->attached = token->closed && starts_word(peek(t, 0));
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
		const char *dollar = memchr(text + at, '$', t->end - at);

		if (dollar == NULL)
		{
			token->body_end = t->at = t->end;
			break;
		}
		at = (size_t) (dollar - text) + 1;
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
	char		letter;

	token->type = WORD;
	while (continues_word(peek(t, 0)))
		add_to_word(token, take(t));
	token->to = t->at;
	if (t->language != SQL || token->len != 1)
		return;
	letter = token->word[0];
	if (letter == 'u' && peek(t, 0) == '&' && (peek(t, 1) == '\'' || peek(t, 1) == '"'))
	{
		take(t);
		if (take(t) == '\'')
			read_literal(t, token, false);
		else
		{
			token->type = NAME;
			token->len = 0;
			read_quoted(t, token, '"', false, true);
		}
	}
	else if (strchr("ebxn", letter) != NULL && peek(t, 0) == '\'')
	{
		take(t);
		read_literal(t, token, letter == 'e' || (letter == 'n' && !t->search->standard_strings));
	}
}

static void
next_token(Text *t, Token *token)
{
	int			before;
	int			c;

	skip_blanks(t);
	before = t->before;
	token->from = t->at;
	token->len = 0;
	token->word[0] = '\0';
	c = peek(t, 0);
	if (starts_word(c))
	{
		read_word(t, token);
		return;
	}
	token->type = c < 0 ? END : CHARACTER;
	token->c = take(t);
	token->to = t->at;
	/* the apostrophe in a word of prose opens nothing */
	if (c == '\'' && (t->language == SQL || !continues_word(before)))
		read_literal(t, token, t->language != SQL || !t->search->standard_strings);
	else if (c == '"' && t->language == SQL)
	{
		token->type = NAME;
		read_quoted(t, token, '"', false, true);
	}
	else if (c == '$' && t->language == SQL)
		read_dollar(t, token);
}

/* ---- names ---- */

static inline bool
is(const Token *token, const char *word)
{
	return token->word[0] == word[0] && strcmp(token->word, word) == 0;
}

static bool
ends(const Token *token, const char *word)
{
	size_t		n = strlen(word);

	return token->len >= n && memcmp(token->word + token->len - n, word, n) == 0;
}

static bool
is_one_of(const Token *token, const char *const *words)
{
	for (; *words != NULL; words++)
		if (is(token, *words))
			return true;
	return false;
}

/* A name that means a secret wherever it stands. */
static bool
is_strong(const Token *token)
{
	switch (token->len > 0 ? token->word[token->len - 1] : 0)
	{
		case 'd':
			return ends(token, "password") || ends(token, "passwd") || ends(token, "pwd") ||
				ends(token, "passphrase_command");
		case 'e':
			return ends(token, "passphrase");
		case 't':
			return ends(token, "secret");
		default:
			return false;
	}
}

/* One that does so among the options of a server or a user mapping. */
static bool
is_weak(const Token *token)
{
	return ends(token, "token") || ends(token, "_key") || ends(token, "apikey") || ends(token, "credential") ||
		ends(token, "credentials") || is(token, "key") || is(token, "pass") || is(token, "passcode");
}

/* A function whose literal arguments are hidden: those of pgcrypto. */
static bool
is_call(const Token *token)
{
	static const char *const functions[] = {
		"crypt", "digest", "hmac", "encrypt", "decrypt", "encrypt_iv", "decrypt_iv", NULL
	};

	if (strchr("cdehp", token->word[0]) == NULL)
		return false;
	return is_one_of(token, functions) ||
		(strncmp(token->word, "pgp_", 4) == 0 && strstr(token->word, "crypt") != NULL);
}

/* ---- what is found ---- */

static void
report(const Text *t, size_t from, size_t to, int quoting, bool pieces)
{
	StenoSecret secret = {.from = from, .to = to, .pieces = pieces, .layers = (uint8_t) t->layers};

	memcpy(secret.layer, t->layer, sizeof(secret.layer));
	if (quoting != STENO_PLAIN && secret.layers <= STENO_REDACT_DEPTH)
		secret.layer[secret.layers++] = (uint8_t) quoting;
	t->search->found(t->search->arg, &secret);
}

/* A place that format() or RAISE fills, %s or %1$L: no secret, but one will come. */
static bool
is_placeholder(const char *p, size_t len)
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
		int			c = peek(t, 0);

		if (c < 0 || steno_redact_is_space(c) || (c != 0 && c < 0x80 && strchr(ends_too, c) != NULL))
			return t->at;
		take(t);
	}
}

/*
 * Hide a literal.  With a quote too few or too many in it, the rest of the secret
 * may stand behind it.
 */
static void
hide_literal(Text *t, const Token *token)
{
	const char *text = t->text;

	if (is_placeholder(text + token->body, token->body_end - token->body))
		t->hide_rest = true;
	else
		report(t, token->body, token->body_end, token->quoting, false);
	if (!token->closed && t->depth > 0)
		t->hide_rest = true;
	if (token->attached && t->call == 0)
	{
		size_t		from = t->at;
		size_t		to = bare_end(t, ",;()'");

		if (to > from)
			report(t, from, to, STENO_PLAIN, true);
	}
}

/* A secret without quotes; its first character has been read as a part of token. */
static void
hide_bare(Text *t, const Token *token)
{
	size_t		to = bare_end(t, t->parentheses > 0 ? ",;()" : ";");

	report(t, token->from, to, STENO_PLAIN, true);
}

/* ---- connection strings ---- */

/* Is what comes next, behind white space, the key of another pair, or the end? */
static bool
at_key(Text t)
{
	bool		word = false;

	skip_blanks(&t);
	while (steno_redact_is_word(peek(&t, 0)))
	{
		take(&t);
		word = true;
	}
	skip_blanks(&t);
	return peek(&t, 0) == (word ? '=' : -1);
}

/*
 * The value of password=; in_uri: of a URI's query.  What stands behind white space
 * without being a pair is taken for a part of a secret that lacks its quotes.
 */
static void
hide_value(Text *t, bool in_uri)
{
	const char *text = t->text;
	bool		pieces = false;
	bool		closed = true;
	size_t		from;
	size_t		to;

	if (!in_uri)
		skip_blanks(t);
	from = to = t->at;
	if (!in_uri && peek(t, 0) == '\'')
	{
		Token		quoted = {.type = LITERAL};

		take(t);
		read_quoted(t, &quoted, '\'', true, false);
		to = quoted.to;
		closed = quoted.closed;
		if (is_placeholder(text + quoted.body, quoted.body_end - quoted.body))
		{
			t->hide_rest = true;
			return;
		}
	}
	if (in_uri)
		to = bare_end(t, "&#");
	else if (t->language == CODE)
		to = bare_end(t, "\"'),;");
	else if (closed)
	{
		to = bare_end(t, "");
		while (!at_key(*t))
		{
			pieces = true;
			skip_blanks(t);
			to = bare_end(t, "");
		}
	}
	if (to == from || is_placeholder(text + from, to - from))
		t->hide_rest = true;
	else
		report(t, from, to, STENO_PLAIN, pieces);
	if (!closed)
		t->hide_rest = true;
}

/* The password of a URI; :// has been passed. */
static void
hide_userinfo(Text *t)
{
	Text		ahead = *t;
	bool		in_user = true;
	size_t		from = 0;
	size_t		to = 0;

	for (;;)
	{
		size_t		at = ahead.at;
		int			c = take(&ahead);

		if (c < 0 || steno_redact_is_space(c) || c == '/' || c == '?' || c == '#' || c == '"' || c == '\'')
			break;
		if (c == '@')
		{
			to = at;
			if (in_user)
				return;
		}
		else if (c == ':' && in_user)
		{
			from = ahead.at;
			in_user = false;
		}
	}
	if (to <= from)
		return;
	if (is_placeholder(t->text + from, to - from))
		t->hide_rest = true;
	else
		report(t, from, to, STENO_PLAIN, false);
	t->at = to;
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
	skip_blanks(&t);
	c = peek(&t, 0);
	if (c == '(' || c == '#' || c == ';' || (c == '<' && peek(&t, 1) == '<'))
		return SQL;
	next_token(&t, &token);
	skip_blanks(&t);
	if (token.type == WORD && is_one_of(&token, begins) && peek(&t, 0) != '=' && peek(&t, 0) != ':')
		return SQL;
	if (quoting != STENO_PLAIN || peek(&t, 0) == '=')
		return STRING;
	return CODE;
}

/* Look into a literal; what it leaves open, the literals behind it continue. */
static void
look_into(Text *t, const Token *token)
{
	Text		inner = {
		.search = t->search, .text = t->text, .begin = token->body, .at = token->body,
		.end = token->body_end, .before = ' ',
		.depth = t->depth + 1, .layers = t->layers
	};

	if (!steno_redact_suspect(t->text + inner.at, inner.end - inner.at))
		return;					/* nearly all */
	if (inner.depth > STENO_REDACT_DEPTH)
	{
		report(t, inner.at, inner.end, token->quoting, true);
		return;
	}
	memcpy(inner.layer, t->layer, sizeof(inner.layer));
	if (token->quoting != STENO_PLAIN)
		inner.layer[inner.layers++] = token->quoting;
	inner.language = language_of(inner, token->quoting);
	if (search_text(&inner))
		t->hide_rest = true;
}

/* The first literal argument of set_config() is the name of a secret. */
static bool
names_secret(const Text *t, const Token *literal)
{
	Token		name = {.type = NAME};
	size_t		at;

	for (at = literal->body; at < literal->body_end; at++)
		add_to_word(&name, (unsigned char) t->text[at]);
	return is_strong(&name);
}

static void
take_literal(Text *t, Token *token)
{
	bool		hide = (t->named && (t->language == SQL || !t->assigned)) || t->weakly || t->program || t->again ||
		t->hide_rest || t->call != 0 || (t->config != 0 && t->config_secret);

	if (hide)
		hide_literal(t, token);
	else
	{
		if (t->config != 0)
			t->config_secret = names_secret(t, token);
		look_into(t, token);
	}
	t->named = t->weakly = t->assigned = t->program = false;
	t->again = hide;
}

/* Is this word itself a secret: PASSWORD secret, SET x.password = secret? */
static bool
is_bare_secret(const Text *t, const Token *token)
{
	static const char *const others[] = {"null", "to", "default", "set", NULL};

	if (t->language != SQL || !t->named || (token->type == WORD && is_one_of(token, others)))
		return false;
	return t->assigned ? t->sets : t->roles;
}

static void
take_word(Text *t, const Token *token)
{
	static const char *const roles[] = {"role", "user", "group", NULL};
	static const char *const updates[] = {"insert", "update", "merge", NULL};
	uint32_t	index = t->tokens++;
	bool		plain = token->type == WORD;
	bool		strong;
	bool		secret = is_bare_secret(t, token);

	/* name TO 'x' */
	if (plain && t->named && is(token, "to"))
	{
		t->assigned = true;
		return;
	}
	t->named = t->weakly = t->assigned = t->program = t->again = false;
	if (secret)
	{
		hide_bare(t, token);
		return;
	}
	if (plain && (is(token, "create") || is(token, "alter")))
		t->altered = index + 1;
	else if (plain && t->altered > 0 && index == t->altered && is_one_of(token, roles))
		t->roles = true;
	else if (plain && is_one_of(token, updates))
		t->updates = true;
	else if (plain && is(token, "set"))
		t->sets = !t->updates;
	strong = is_strong(token);
	/* a role may have the name */
	t->named = strong && !(t->roles && index == t->altered + 1);
	t->weakly = t->options != 0 && !strong && is_weak(token);
	t->program = plain && is(token, "program");
	t->opens_call = is_call(token);
	t->opens_options = plain && is(token, "options");
	t->opens_config = is(token, "set_config");
	t->before_name = token->from > t->begin ? (unsigned char) t->text[token->from - 1] : ' ';
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
}

static void
end_statement(Text *t)
{
	t->tokens = t->altered = t->parentheses = t->call = t->options = t->config = 0;
	t->roles = t->updates = t->sets = t->hide_rest = false;
}

/* Behind a name, what keeps waiting for its value: = := => and %s */
static bool
take_assignment(Text *t, int c)
{
	if (c == '=' && t->language != SQL)
	{
		if (peek(t, 0) == '>' || peek(t, 0) == '=')
			return true;
		hide_value(t, t->before_name == '?' || t->before_name == '&');
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

	t->weakly = t->program = t->again = false;
	if (t->named && t->roles && !t->assigned && t->language == SQL && c != 0 && strchr(";,():=%$", c) == NULL)
	{
		hide_bare(t, token);
		t->named = false;
	}
	else if (t->named)
		t->named = take_assignment(t, c);
	if (!t->named)
		t->assigned = false;
	if (c == '(' || c == ')')
		take_parenthesis(t, c == '(');
	else if (c == ';')
		end_statement(t);
	else if (c == ':' && t->language != SQL && peek(t, 0) == '/' && peek(t, 1) == '/')
	{
		take(t);
		take(t);
		hide_userinfo(t);
	}
	if (c == ';' || c == '(' || c == ')')
		t->named = false;
	t->opens_call = t->opens_options = t->opens_config = false;
}

/* Find the secrets of a text; true: it ends where one should begin. */
static bool
search_text(Text *t)
{
	Token		token;

	for (;;)
	{
		next_token(t, &token);
		switch (token.type)
		{
			case END:
				return t->hide_rest || (t->named && (t->assigned || t->roles));
			case LITERAL:
				t->opens_call = t->opens_options = t->opens_config = false;
				t->tokens++;
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

void
steno_redact_find(const char *text, size_t len, bool standard_strings,
				  StenoSecretFound found, void *arg)
{
	Search		search = {text, standard_strings, found, arg};
	Text		t = {.search = &search, .text = text, .language = SQL, .end = len, .before = ' '};

	search_text(&t);
}
