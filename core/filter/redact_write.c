/*
 * core/filter/redact_write.c
 *		A text without its secrets, and a message that quotes the text without them.
 */
#include "filter/redact.h"

#include <string.h>

/* A secret of fewer bytes is looked for as a whole word only. */
#define LONG_ENOUGH 4

/* Bytes that are compared before a message is hidden whole: it is made to take long. */
#define PATIENCE (16 * 1024 * 1024)

/* ---- the text ---- */

typedef struct Output
{
	const char *text;
	size_t		done;			/* of text */
	char	   *out;			/* NULL: only count */
	size_t		room;
	size_t		len;			/* of what would be written with enough room */
	size_t		secrets;
} Output;

static void
put_output(Output *o, const char *bytes, size_t len)
{
	if (o->out != NULL && o->len < o->room && len > 0)
		memcpy(o->out + o->len, bytes, len < o->room - o->len ? len : o->room - o->len);
	o->len += len;
}

static void
put_redacted(void *arg, const StenoSecret *secret)
{
	Output	   *o = arg;

	put_output(o, o->text + o->done, secret->from - o->done);
	put_output(o, STENO_REDACTED, STENO_REDACTED_LEN);
	o->done = secret->to;
	o->secrets++;
}

static void
add_cut(void *arg, const StenoSecret *secret)
{
	StenoCuts  *cuts = arg;

	if (cuts->secrets < STENO_CUTS_MOST)
	{
		cuts->cut[cuts->secrets].from = secret->from;
		cuts->cut[cuts->secrets].to = secret->to;
	}
	cuts->secrets++;
	cuts->len -= secret->to - secret->from;
	cuts->len += STENO_REDACTED_LEN;
}

void
steno_redact_measure(const char *text, size_t len, bool standard_strings, StenoCuts *cuts)
{
	size_t		i;

	cuts->len = len;
	cuts->secrets = 0;
	cuts->given_up = !steno_redact_find(text, len, standard_strings, add_cut, cuts);
	if (cuts->given_up && cuts->secrets > STENO_CUTS_MOST)
	{
		/* the text is not searched again for the others: they are in the last one that is known */
		cuts->secrets = STENO_CUTS_MOST;
		cuts->cut[STENO_CUTS_MOST - 1].to = len;
		cuts->len = len;
		for (i = 0; i < STENO_CUTS_MOST; i++)
			cuts->len -= cuts->cut[i].to - cuts->cut[i].from - STENO_REDACTED_LEN;
	}
}

size_t
steno_redact_write(const char *text, size_t len, bool standard_strings, const StenoCuts *cuts,
				   char *out, size_t room)
{
	Output		o = {.text = text, .out = out, .room = room};
	size_t		i;

	if (cuts->secrets > STENO_CUTS_MOST)
		(void) steno_redact_find(text, len, standard_strings, put_redacted, &o);
	else
		for (i = 0; i < cuts->secrets && o.len < room; i++)
		{
			StenoSecret secret = {.from = cuts->cut[i].from, .to = cuts->cut[i].to};

			put_redacted(&o, &secret);
		}
	put_output(&o, text + o.done, len - o.done);
	return cuts->secrets > STENO_CUTS_MOST ? o.len : cuts->len;
}

/* ---- messages ---- */

static void
add_secret(StenoSecrets *s, const StenoSecret *secret)
{
	const char *value = s->text + secret->from;
	size_t		len = secret->to - secret->from;
	size_t		i;

	if (len == 0 || (len == STENO_REDACTED_LEN && memcmp(value, STENO_REDACTED, len) == 0))
		return;
	/* the same again: a password and its confirmation, say */
	for (i = 0; i < s->count && i < STENO_SECRETS_MOST; i++)
		if (s->secret[i].to - s->secret[i].from == len && memcmp(s->text + s->secret[i].from, value, len) == 0)
			return;
	if (s->count < STENO_SECRETS_MOST)
		s->secret[s->count] = *secret;
	s->count++;
}

static bool
divides(unsigned char c)
{
	return steno_redact_is_space(c) || c == '\'' || c == '"';
}

/* What divides tokens of SQL, and the parts of a URI: a message may quote just one of them. */
static bool
divides_words(unsigned char c)
{
	return !steno_redact_is_word(c);
}

static void
add_pieces(StenoSecrets *s, const StenoSecret *secret, bool (*is_divider) (unsigned char))
{
	StenoSecret piece = *secret;
	size_t		at = secret->from;

	while (at < secret->to && s->count <= STENO_SECRETS_MOST)
	{
		while (at < secret->to && is_divider((unsigned char) s->text[at]))
			at++;
		piece.from = at;
		while (at < secret->to && !is_divider((unsigned char) s->text[at]))
			at++;
		piece.to = at;
		if (piece.to - piece.from >= LONG_ENOUGH)
			add_secret(s, &piece);
	}
}

static void
collect(void *arg, const StenoSecret *secret)
{
	StenoSecrets *s = arg;

	if (s->count > STENO_SECRETS_MOST)
		return;					/* too many: no need to know which */
	add_secret(s, secret);
	if (secret->pieces)
	{
		add_pieces(s, secret, divides);
		add_pieces(s, secret, divides_words);
	}
}

void
steno_redact_collect(StenoSecrets *secrets, const char *text, size_t len, bool standard_strings)
{
	secrets->text = text;
	secrets->count = 0;
	if (!steno_redact_find(text, len, standard_strings, collect, secrets))
		secrets->count = STENO_SECRETS_MOST + 1;
}

/*
 * How much of the message at begin is the secret, written with the given layers of its
 * quoting taken off; 0: it is not.
 */
static size_t
match(const StenoSecrets *s, const StenoSecret *secret, int layers, const char *message, size_t len, size_t begin,
	  size_t *compared)
{
	size_t		from = secret->from;
	size_t		at = begin;
	int			c;

	for (;;)
	{
		size_t		before = from;

		c = steno_redact_read(s->text, secret->to, &from, secret->layer, layers);
		*compared += from - before + 1;
		if (c < 0)
			break;
		if (at == len || (unsigned char) message[at] != c)
			return 0;
		at++;
	}
	if (at - begin < LONG_ENOUGH &&
		((begin > 0 && steno_redact_is_word((unsigned char) message[begin - 1])) ||
		 (at < len && steno_redact_is_word((unsigned char) message[at]))))
		return 0;
	return at - begin;
}

/* The longest secret that the message has there. */
static size_t
longest_match(const StenoSecrets *s, const char *message, size_t len, size_t begin, size_t *compared)
{
	size_t		longest = 0;
	size_t		i;

	for (i = 0; i < s->count; i++)
	{
		const StenoSecret *secret = &s->secret[i];
		int			layers;

		for (layers = 0; layers <= secret->layers; layers++)
		{
			size_t		n = match(s, secret, layers, message, len, begin, compared);

			if (n > longest)
				longest = n;
		}
	}
	return longest;
}

static size_t
hide_message(char *out, size_t *hidden)
{
	if (out != NULL)
		memcpy(out, STENO_REDACTED, STENO_REDACTED_LEN);
	*hidden = 1;
	return STENO_REDACTED_LEN;
}

size_t
steno_redact_message(const StenoSecrets *secrets, const char *message, size_t len, char *out, size_t *hidden)
{
	Output		o = {.text = message, .out = out, .room = SIZE_MAX};
	size_t		compared = 0;
	size_t		at = 0;

	if (secrets->count > STENO_SECRETS_MOST)
		return hide_message(out, hidden);
	while (at < len)
	{
		size_t		n = longest_match(secrets, message, len, at, &compared);

		if (compared > PATIENCE)
			return hide_message(out, hidden);
		if (n > 0)
		{
			StenoSecret secret = {.from = at, .to = at + n};

			put_redacted(&o, &secret);
			at += n;
		}
		else
			at++;
	}
	put_output(&o, message + o.done, len - o.done);
	*hidden = o.secrets;
	return o.len;
}
