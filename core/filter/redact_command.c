/*
 * core/filter/redact_command.c
 *		The command line of COPY ... PROGRAM: it is evidence, and stays, but for its secrets.
 *
 * It is read by the rules of a shell, roughly: words, quotes, and what divides commands.  Secrets
 * are
 *
 *		--password=x, --password x, PGPASSWORD=x		and names like these, as is_secret_name()
 *		password=x and pass:x							in words, such as connection strings
 *		Authorization: x								headers, to the end of their quotes
 *		scheme://user:x@host
 *		-u user:x, --user user:x						-u of curl, also behind other letters: -su
 *		-px												of mysql and its like, and of sshpass; -p x of sshpass
 *
 * What is a variable or another command's output ($x, `x`) is no secret.  A place that format() fills is
 * none either, but one will come: in a literal behind this one, as where the command ends too early.
 */
#include "filter/redact_lex.h"

#include <string.h>

typedef enum Expected
{
	NOTHING,
	VALUE,						/* the next word is a secret */
	USER						/* the next word may be user:secret */
} Expected;

typedef enum Program
{
	OTHER,
	CURL,
	MYSQL,
	SSHPASS
} Program;

typedef struct Command
{
	Text	   *t;
	int			quote;			/* around the present place; 0: none */
	Expected	expected;
	Program		program;
} Command;

static bool
word_begins_with(const Text *t, size_t from, size_t to, const char *word)
{
	size_t		n = strlen(word);

	return to - from >= n && steno_redact_same(t->text + from, word, n);
}

static bool
word_ends_with(const Text *t, size_t from, size_t to, const char *word)
{
	size_t		n = strlen(word);

	return to - from >= n && steno_redact_same(t->text + to - n, word, n);
}

static bool
is_name(const Text *t, size_t from, size_t to, const char *word)
{
	return to - from == strlen(word) && word_begins_with(t, from, to, word);
}

static bool
is_secret_name(const Text *t, size_t from, size_t to)
{
	static const char *const endings[] = {
		"password", "passwd", "pwd", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "access_key",
		"access-key", "secret_key", "secret-key", "auth_key", "auth-key", "credential", "credentials",
		"authorization", "bearer", NULL
	};
	int			i;

	for (i = 0; endings[i] != NULL; i++)
		if (word_ends_with(t, from, to, endings[i]))
			return true;
	return is_name(t, from, to, "pass") || is_name(t, from, to, "cookie");
}

/* Does c end a word that is in no quotes, or in the given ones? */
static bool
ends_word(int c, int quote)
{
	if (c < 0 || c == quote || steno_redact_is_space(c))
		return true;
	return quote == 0 && c != 0 && strchr(";|&()<>", c) != NULL;
}

static void
report(Command *k, size_t from, size_t to, bool pieces)
{
	if (steno_redact_is_placeholder(k->t->text + from, to - from))
		k->t->hide_rest = true;
	else
		steno_redact_report(k->t, from, to, STENO_PLAIN, pieces);
}

/*
 * Hide the word at the place, or what is left of it.  header: hide up to the end of the quotes that
 * contain it.
 */
static void
hide_word(Command *k, bool header)
{
	Text	   *t = k->t;
	int			own = peek(t, 0);
	size_t		from;
	size_t		to;

	if (own == '$' || own == '`')
		return;
	if (own < 0)
		t->hide_rest = true;
	if ((own == '"' || own == '\'') && own != k->quote)
	{
		size_t		begin = t->at;
		int			before = t->before;

		take(t);
		if (own == '"' && (peek(t, 0) == '$' || peek(t, 0) == '`'))
		{
			t->at = begin;
			t->before = before;
			return;
		}
		from = to = t->at;
		while (peek(t, 0) >= 0 && peek(t, 0) != own)
		{
			if (take(t) == '\\' && own == '"')
				take(t);
			to = t->at;
		}
		if (to > from)
			report(k, from, to, false);
		else if (peek(t, 0) < 0)
			t->hide_rest = true;
		take(t);
		from = t->at;
	}
	else
		from = t->at;
	/* other quotes may follow, as in 'it'\''s' */
	for (;;)
	{
		int			c = peek(t, 0);

		if (header && k->quote != 0 ? c < 0 || c == k->quote : ends_word(c, k->quote))
			break;
		if (take(t) == '\\')
			take(t);
		else if ((c == '"' || c == '\'') && k->quote == 0)
			while (peek(t, 0) >= 0 && take(t) != c)
				;
	}
	if (t->at > from)
		report(k, from, t->at, true);
}

/* Hide what is behind the colon of user:secret; of 1000:1000 and +%H:%M nothing. */
static void
hide_user(Command *k)
{
	Text		ahead = *k->t;
	int			own = peek(&ahead, 0);
	bool		numeric = true;
	int			c;

	if (own == '+')
		return;
	if ((own == '"' || own == '\'') && own != k->quote)
	{
		take(&ahead);
		k->quote = own;
	}
	while (c = peek(&ahead, 0), !ends_word(c, k->quote) && c != ':')
	{
		numeric &= c >= '0' && c <= '9';
		take(&ahead);
	}
	if (c == ':')
	{
		Text		digits;

		take(&ahead);
		digits = ahead;
		while (c = peek(&digits, 0), c >= '0' && c <= '9')
			take(&digits);
		numeric &= ends_word(c, k->quote);
		*k->t = ahead;
		if (!numeric)
			hide_word(k, true);
		return;
	}
	if ((c < 0 && ahead.at == k->t->at) ||
		steno_redact_is_placeholder(ahead.text + k->t->at, ahead.at - k->t->at))
		ahead.hide_rest = true;
	*k->t = ahead;
}

/*
 * Where the user begins after curl's option -u, which may be combined with other letters, or after
 * -U, for a proxy; 0 if this is neither.
 */
static size_t
curl_user(const Text *t, size_t name, size_t to)
{
	/* letters whose argument is the rest of the word, or the next one */
	static const char takes_argument[] = "AbcCdDeEFhHKmoPQrtTwxXyYz";

	for (; name < to && strchr(takes_argument, t->text[name]) == NULL; name++)
		if (t->text[name] == 'u' || t->text[name] == 'U')
			return name + 1;
	return 0;
}

/* Take a name, which may be that of an option; begins: it is at the beginning of a word. */
static void
take_name(Command *k, bool begins)
{
	Text	   *t = k->t;
	size_t		from = t->at;
	size_t		name;
	size_t		to;
	size_t		user = 0;
	int			c;

	to = from;
	while (to < t->end && (continues_word((unsigned char) t->text[to]) || t->text[to] == '-'))
		to++;
	for (name = from; name < to && t->text[name] == '-'; name++)
		;
	t->search->work += to - from;
	t->at = to;
	t->before = (unsigned char) t->text[to - 1];
	c = peek(t, 0);
	if (begins && name == from + 1 && name < to && t->text[name] == 'p' &&
		(k->program == MYSQL || k->program == SSHPASS))
	{
		if (k->program == SSHPASS && (c < 0 || steno_redact_is_space(c)) && to == name + 1)
			k->expected = VALUE;
		else
		{
			t->at = name + 1;
			t->before = 'p';
			if (k->program == SSHPASS || peek(t, 0) >= 0)
				hide_word(k, false);
		}
		if (k->program == SSHPASS)
			k->program = OTHER; /* another one follows */
		return;
	}
	if (begins && name == from + 1 && k->program == CURL)
		user = curl_user(t, name, to);
	if (name == from)
	{
		if (is_name(t, from, to, "curl"))
			k->program = CURL;
		else if (word_begins_with(t, from, to, "mysql") || word_begins_with(t, from, to, "mariadb"))
			k->program = MYSQL;
		else if (is_name(t, from, to, "sshpass"))
			k->program = SSHPASS;
	}
	if (c == ':' && peek(t, 1) == '/' && peek(t, 2) == '/')
	{
		take(t);
		take(t);
		take(t);
		steno_redact_hide_userinfo(t);
	}
	else if (is_secret_name(t, name, to))
	{
		if (c == '=')
		{
			take(t);
			hide_word(k, false);
		}
		else if (c == ':')
		{
			take(t);
			while (k->quote != 0 && peek(t, 0) == ' ')
				take(t);
			hide_word(k, true);
		}
		/* behind -pass of openssl is pass:x, or file:x */
		else if (name > from && steno_redact_is_space(c) && !(name == from + 1 && is_name(t, name, to, "pass")))
			k->expected = VALUE;
	}
	else if (user > 0 && (user < to || !steno_redact_is_space(c)))
	{
		t->at = user;
		t->before = (unsigned char) t->text[user - 1];
		hide_user(k);
	}
	else if (user > 0 ||
			 (begins && name > from && (is_name(t, name, to, "user") || is_name(t, name, to, "proxy-user"))))
	{
		if (c == '=')
		{
			take(t);
			hide_user(k);
		}
		else
			k->expected = USER;
	}
}

/* Hide the secrets of a command line. */
void
steno_redact_command(Text *t)
{
	Command		k = {.t = t};
	bool		begins = true;
	int			c;

	while ((c = peek(t, 0)) >= 0)
	{
		if (steno_redact_is_space(c))
		{
			take(t);
			begins = true;
			continue;
		}
		if (k.quote == 0 && c != 0 && strchr(";|&()<>\n", c) != NULL)
		{
			take(t);
			k.expected = NOTHING;
			k.program = OTHER;
			begins = true;
			continue;
		}
		if (begins && k.expected != NOTHING && c != '-')
		{
			size_t		at = t->at;

			if (k.expected == VALUE)
				hide_word(&k, false);
			else
				hide_user(&k);
			k.expected = NOTHING;
			if (t->at > at)
			{
				begins = false;
				continue;
			}
		}
		k.expected = NOTHING;
		if (t->at < t->end && (c == '-' || steno_redact_is_word((unsigned char) t->text[t->at])))
		{
			if (t->text[t->at] != '-' && !steno_redact_is_word((unsigned char) t->text[t->at]))
				take(t);
			else
				take_name(&k, begins);
			begins = false;
			continue;
		}
		take(t);
		if (c == '\\')
			take(t);
		else if (c == k.quote)
			k.quote = 0;
		else if ((c == '"' || c == '\'') && k.quote == 0)
		{
			/* a word, or a command in a command */
			k.quote = c;
			begins = true;
			continue;
		}
		begins = false;
	}
	if (k.expected != NOTHING)
		t->hide_rest = true;
}
