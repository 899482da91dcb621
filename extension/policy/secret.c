/*
 * extension/policy/secret.c
 *		Secrets are kept out: a record's text and message without them, before it goes
 *		into the ring.  core/filter/redact.h says what a secret is.
 *
 * An error inside a function is recorded for each statement that it ends, and its message
 * may quote a secret that only the innermost one's text has.  So the last message that had
 * a secret is remembered together with what was left of it, and the same message gets
 * the same replacement in the records of the outer statements.
 */
#include "base/steno.h"

#include "miscadmin.h"

#include "base/compat.h"
#include "filter/redact.h"
#include "policy/secret.h"
#include "utils/memutils.h"

/* Longest message that is remembered; of a longer one nothing is kept then. */
#define REMEMBERED_MAX 1024

static char remembered[REMEMBERED_MAX]; /* a message that had a secret; empty: none */
static uint64 remembered_len;
static char remembered_hidden[REMEMBERED_MAX];	/* what was left of it */

/* Memory for one record, or less; NULL when there is none. */
static char *
scratch(uint64 size)
{
	steno_my.scratch_used = true;
	return MemoryContextAllocExtended(steno_private.scratch, size,
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
}

/* ---- searches that are given up ---- */

/*
 * A search takes some nanoseconds for each byte, and a text may have a gigabyte.  So a long search may be given
 * up, and what was not searched is hidden (steno_redact_give_up):
 *
 * - when the session is about to end: a stop of the server, say, does not wait for it;
 * - when a cancel request is pending and the statement has not run.  The hook then raises that (steno_raise_cancelled),
 *	 so that the statement never runs.
 *
 * The text of a statement that has run is evidence.  A cancel request does not end that search.
 */
static bool ended;				/* the search is for a statement that has run */
static bool dying STENO_SESSION_DATA;	/* this process is about to exit */

/* The text of a statement that has not run, and that the failure of this statement does not search again. */
static struct
{
	const char *text;			/* compared only */
	uint64		len;
	uint64		statement;		/* 0: there is none */
}			given_up;

static inline bool
was_given_up(const char *text, uint64 len)
{
	return unlikely(given_up.statement != 0) && given_up.statement == steno_my.statement &&
		given_up.text == text && given_up.len == len;
}

static bool searching_again;	/* the text whose search was given up */

static bool
must_give_up(void)
{
	return dying || ProcDiePending || searching_again || (QueryCancelPending && !ended);
}

static void
begin_search(const char *text, uint64 len, bool of_ended)
{
	ended = of_ended;
	searching_again = was_given_up(text, len);
}

/* The search for the secrets of a statement that begins was given up: it is to fail. */
bool
steno_secret_given_up(void)
{
	return unlikely(given_up.statement != 0) && given_up.statement == steno_my.statement;
}

/* It cannot fail here: it runs, and its text is searched at its end. */
void
steno_secret_search_again(void)
{
	given_up.statement = 0;
}

/* This process is about to exit. */
void
steno_secret_process_exits(void)
{
	dying = true;
}

/* ---- texts ---- */

/*
 * Where the text's secrets are; false: it has none.  of_ended: the text is that of a statement that has run.
 */
STENO_COLD bool
steno_secret_find(const char *text, uint64 len, bool of_ended, StenoCuts *cuts)
{
	begin_search(text, len, of_ended);
	steno_redact_measure(text, len, STENO_STANDARD_STRINGS, cuts);
	if (unlikely(cuts->given_up) && !of_ended)
	{
		given_up.text = text;
		given_up.len = len;
		given_up.statement = steno_my.statement;
	}
	return cuts->secrets > 0;
}

/*
 * The text without the secrets that were found, or as much of it as there is room for; it stands until
 * the next record is put.  When there is no memory for it, nothing is left of it.  *out_len
 * is the length of all of it.
 */
STENO_COLD void
steno_secret_cut(const char *text, uint64 len, const StenoCuts *cuts, uint64 room,
				 const char **out, uint64 *out_len)
{
	char	   *p;

	room = Min(room, cuts->len);
	p = scratch(room);
	if (p == NULL)
	{
		*out = STENO_REDACTED;
		*out_len = STENO_REDACTED_LEN;
		return;
	}
	*out_len = steno_redact_write(text, len, STENO_STANDARD_STRINGS, cuts, p, room);
	*out = p;
}

/* Both at once.  False: the text has no secrets, and is *out as it is. */
STENO_COLD bool
steno_secret_hide_text(const char *text, uint64 len, bool of_ended, uint64 room, const char **out, uint64 *out_len)
{
	StenoCuts	cuts;

	*out = text;
	*out_len = len;
	if (!steno_secret_find(text, len, of_ended, &cuts))
		return false;
	steno_secret_cut(text, len, &cuts, room, out, out_len);
	return true;
}

static void
remember_hidden_text(const char *message, const char *hidden)
{
	remembered_len = strlen(message);
	strlcpy(remembered, message, sizeof(remembered));
	strlcpy(remembered_hidden, strlen(hidden) < REMEMBERED_MAX ? hidden : STENO_REDACTED,
			sizeof(remembered_hidden));
}

/*
 * The message of the text's failure without the text's secrets.  Either may be
 * NULL; the result stands at least until the next record is put.
 */
STENO_COLD const char *
steno_secret_hide_message(const char *text, uint64 len, const char *message)
{
	StenoSecrets secrets;
	const char *original = message;
	size_t		hidden;
	size_t		needed;
	char	   *p;

	if (message == NULL)
		return NULL;
	if (remembered_len > 0 && strlen(message) == remembered_len &&
		strncmp(message, remembered, sizeof(remembered) - 1) == 0)
		message = remembered_hidden;
	if (text == NULL || !steno_redact_suspect(text, len))
		return message;
	begin_search(text, len, true);
	steno_redact_collect(&secrets, text, len, STENO_STANDARD_STRINGS);
	needed = steno_redact_message(&secrets, message, strlen(message), NULL, &hidden);
	if (hidden == 0)
		return message;
	p = scratch(needed + 1);
	if (p == NULL)
		return STENO_REDACTED;
	steno_redact_message(&secrets, message, strlen(message), p, &hidden);
	p[needed] = '\0';
	remember_hidden_text(original, p);
	return p;
}

/* Hide the secrets of a record that is about to be put, and whose statement has not run. */
STENO_COLD void
steno_secret_hide(StenoRecord *record)
{
	const char *text = record->text;
	uint64		len = record->text_len;

	if (text && steno_redact_suspect(text, len))
		steno_secret_hide_text(text, len, false, PG_UINT64_MAX, &record->text, &record->text_len);
	/* after the text: if that search was given up, this one is, too */
	if (record->message)
		record->message = steno_secret_hide_message(text, len, record->message);
}

/* The text as a literal; the result is not terminated. */
static uint64
put_quoted(const char *text, uint64 len, char *out)
{
	char	   *p = out;
	uint64		i;

	*p++ = '\'';
	for (i = 0; i < len; i++)
	{
		if (text[i] == '\'')
			*p++ = '\'';
		*p++ = text[i];
	}
	*p++ = '\'';
	return p - out;
}

/* What the literal contains, put where it is. */
static uint64
take_quoted(char *literal, uint64 len)
{
	uint64		i;
	uint64		n = 0;

	for (i = 1; i + 1 < len; i++)
	{
		literal[n++] = literal[i];
		if (literal[i] == '\'' && literal[i + 1] == '\'' && i + 2 < len)
			i++;
	}
	return n;
}

/*
 * Hide the secrets of a note.  It may be SQL, or anything else that a literal may contain, such as a
 * connection string; the statement that writes it usually has the same text in a literal.
 */
STENO_COLD void
steno_secret_hide_note(StenoRecord *record)
{
	StenoCuts	cuts;
	char	   *literal;
	char	   *hidden;
	uint64		len;

	steno_secret_hide(record);
	if (!steno_redact_suspect(record->text, record->text_len))
		return;
	literal = scratch(2 * record->text_len + 2);
	if (literal != NULL)
	{
		len = put_quoted(record->text, record->text_len, literal);
		begin_search(literal, len, true);
		steno_redact_measure(literal, len, true, &cuts);
		if (cuts.secrets == 0)
			return;
		hidden = scratch(cuts.len);
		if (hidden != NULL)
		{
			len = steno_redact_write(literal, len, true, &cuts, hidden, cuts.len);
			record->text_len = take_quoted(hidden, len);
			record->text = hidden;
			return;
		}
	}
	record->text = STENO_REDACTED;
	record->text_len = STENO_REDACTED_LEN;
}

/* Whether a setting's value is a secret by its name, as in a statement that sets it. */
STENO_COLD bool
steno_secret_setting(const char *name)
{
	char		text[NAMEDATALEN + 16];
	const char *hidden;
	uint64		hidden_len;
	int			len = snprintf(text, sizeof(text), "SET %s = 'x'", name);

	if (len >= (int) sizeof(text))
		return true;
	return steno_redact_suspect(text, (size_t) len) &&
		steno_secret_hide_text(text, (uint64) len, true, PG_UINT64_MAX, &hidden, &hidden_len);
}

/*
 * The value of a setting, such as a shell command, without its secrets; out has room for
 * STENO_SETTING_VALUE bytes.  It is looked at as a literal's contents are.
 */
STENO_COLD void
steno_secret_hide_value(const char *value, char *out)
{
	static const char quote[] = "$value$";
	const uint64 quote_len = sizeof(quote) - 1;
	uint64		len = strlen(value);
	char	   *literal;
	const char *hidden;
	uint64		hidden_len;

	strlcpy(out, value, STENO_SETTING_VALUE);
	if (!steno_redact_suspect(value, len))
		return;
	strlcpy(out, STENO_REDACTED, STENO_SETTING_VALUE);
	literal = scratch(len + 2 * quote_len + 1);
	if (literal == NULL)
		return;
	snprintf(literal, len + 2 * quote_len + 1, "%s%s%s", quote, value, quote);
	steno_secret_hide_text(literal, len + 2 * quote_len, true, PG_UINT64_MAX, &hidden, &hidden_len);
	if (hidden_len >= 2 * quote_len)
		strlcpy(out, hidden + quote_len, Min(hidden_len - 2 * quote_len + 1, STENO_SETTING_VALUE));
}

void
steno_secret_install(void)
{
	steno_redact_give_up = must_give_up;
}
