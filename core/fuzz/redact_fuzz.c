/*
 * core/fuzz/redact_fuzz.c
 *		Any bytes, as a text: its secrets must be in order and inside it, and
 *		redact_check.c, which processes whole blocks, must suspect the same as a
 *		comparison byte by byte.  Text that the lexer skips must have no effect.  A
 *		search that is given up must have found what the whole search finds up to there.
 *		Also as a string of several statements, each of which must be found.
 *
 * The work for a byte must be bounded.  All bytes that are looked at are counted, so that no
 * clock is needed.  What takes more for each byte the longer a text is shows in long texts
 * only, which random changes hardly ever make.  So parts of the text are repeated, too.
 *
 * The first byte determines standard_conforming_strings, and how much of the end is used
 * as a message; it, the second and the last one, which parts are repeated.
 */
#include <stdlib.h>
#include <string.h>

#include "filter/redact_lex.h"
#include "filter/split.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Found
{
	size_t		len;
	size_t		end;			/* end of the last secret */
	size_t		count;
	uint64_t	sum;			/* checksum of all secrets */
} Found;

static void
found(void *arg, const StenoSecret *secret)
{
	Found	   *f = arg;

	if (secret->from < f->end || secret->to < secret->from || secret->to > f->len)
		abort();
	f->end = secret->to;
	f->count++;
	f->sum = (f->sum ^ secret->from) * 0x9e3779b97f4a7c15;
	f->sum = (f->sum ^ secret->to) * 0x9e3779b97f4a7c15;
	f->sum = (f->sum ^ (uint64_t) (secret->pieces + secret->layers * 2)) * 0x9e3779b97f4a7c15;
}

/* A copy of exactly this size, so that a sanitizer detects reads beyond it. */
static char *
copy(const void *data, size_t len)
{
	char	   *p = calloc(1, len > 0 ? len : 1);

	if (len > 0)
		memcpy(p, data, len);
	return p;
}

/* ---- a search that is given up ---- */

#define FIRST_SECRETS 64

/* The first secrets of a text. */
typedef struct First
{
	size_t		count;
	StenoSecret secret[FIRST_SECRETS];
} First;

static void
keep_first(void *arg, const StenoSecret *secret)
{
	First	   *f = arg;

	if (f->count < FIRST_SECRETS)
		f->secret[f->count] = *secret;
	f->count++;
}

static size_t pauses_left;

static bool
give_up(void)
{
	return pauses_left-- == 0;
}

static void
check_given_up(const char *text, size_t len, bool standard_strings, size_t pauses)
{
	First		whole = {0};
	First		part = {0};
	StenoCuts	cuts;
	bool		complete;
	char	   *out;
	size_t		i;

	steno_redact_find(text, len, standard_strings, keep_first, &whole);
	steno_redact_give_up = give_up;
	steno_redact_pause = 16;
	pauses_left = pauses;
	complete = steno_redact_find(text, len, standard_strings, keep_first, &part);
	pauses_left = pauses;
	steno_redact_measure(text, len, standard_strings, &cuts);
	pauses_left = pauses;
	out = calloc(1, cuts.len > 0 ? cuts.len : 1);
	if (steno_redact_write(text, len, standard_strings, &cuts, out, cuts.len) > cuts.len)
		abort();
	free(out);
	steno_redact_give_up = NULL;
	steno_redact_pause = STENO_REDACT_PAUSE;
	if (complete == cuts.given_up)
		abort();
	if (complete && part.count != whole.count)
		abort();
	for (i = 0; i < part.count && i < FIRST_SECRETS; i++)
	{
		const StenoSecret *s = &part.secret[i];
		bool		rest = !complete && i + 1 == part.count && s->to == len;

		if (!rest && (i >= whole.count || s->from != whole.secret[i].from || s->to != whole.secret[i].to))
			abort();
		/* all before it are known */
		if (rest && i < whole.count && i < FIRST_SECRETS && whole.secret[i].from < s->from)
			abort();
	}
}

/* ---- work ---- */

static void
ignore_secret(void *arg, const StenoSecret *secret)
{
	(void) arg;
	(void) secret;
}

static void
check_work(const char *text, size_t len, bool standard_strings)
{
	if (steno_redact_work(text, len, standard_strings, false, ignore_secret, NULL) > STENO_REDACT_WORK(len))
		abort();
}

#define REPEATED_LEN 30000
#define PART_MOST 40

/* Repeat a part as often as there is room, and return the length. */
static size_t
repeat_part(char *to, const char *part, size_t len, size_t room)
{
	size_t		at = 0;

	for (; len > 0 && at + len <= room; at += len)
		memcpy(to + at, part, len);
	return at;
}

/* A text of that length, in which two parts of the given one, each behind the other, are repeated. */
static void
check_repeated(const char *text, size_t len, bool standard_strings, size_t from, size_t first_len, size_t second_len)
{
	static char repeated[REPEATED_LEN];
	size_t		begin = from % len;
	size_t		first = len - begin < first_len ? len - begin : first_len;
	size_t		second = len - begin - first < second_len ? len - begin - first : second_len;
	size_t		end = len - begin - first - second;
	size_t		room = (REPEATED_LEN - begin - end) / 2;
	size_t		at = begin;

	if (len > REPEATED_LEN / 2)
		return;
	memcpy(repeated, text, begin);
	at += repeat_part(repeated + at, text + begin, first, room);
	at += repeat_part(repeated + at, text + begin + first, second, room);
	memcpy(repeated + at, text + len - end, end);
	check_work(repeated, at + end, standard_strings);
}

static char *
redact(const char *text, size_t len, bool standard_strings, size_t *out_len)
{
	StenoCuts	cuts;
	char	   *out;

	steno_redact_measure(text, len, standard_strings, &cuts);
	*out_len = cuts.len;
	out = calloc(1, cuts.len > 0 ? cuts.len : 1);
	steno_redact_write(text, len, standard_strings, &cuts, out, cuts.len);
	return out;
}

static void
check_message(const char *text, size_t len, bool standard_strings, size_t message_len)
{
	char	   *message = copy(text + len - message_len, message_len);
	StenoSecrets secrets;
	size_t		hidden;
	size_t		n;
	char	   *out;

	steno_redact_collect(&secrets, text, len, standard_strings);
	n = steno_redact_message(&secrets, message, message_len, NULL, &hidden);
	out = calloc(1, n > 0 ? n : 1);
	if (steno_redact_message(&secrets, message, message_len, out, &hidden) != n)
		abort();
	if (hidden == 0 && (n != message_len || memcmp(out, message, n) != 0))
		abort();
	free(out);
	free(message);
}

static bool
is_word(const char *text, size_t len, size_t at)
{
	return at < len && steno_redact_is_word((unsigned char) text[at]);
}

/* Is there ://, followed by a colon that may precede a password? */
static bool
is_uri(const char *text, size_t len, size_t at)
{
	size_t		i;

	if (text[at] != ':' || text[at + 1] != '/' || text[at + 2] != '/')
		return false;
	for (i = at + 3; i < len && i < at + 3 + 64; i++)
	{
		if (text[i] == ':' || text[i] == '\\')
			return true;
		if (strchr("/@?#\"' \t\n\v\f\r", text[i]) != NULL && text[i] != 0)
			return false;
	}
	return i < len;
}

/* Does byte by byte what redact_check.c does with whole blocks. */
static bool
has_trigger(const char *text, size_t len)
{
	static const char *const words[] = {
		"password", "passwd", "passphrase", "passphrase_command", "pwd", "secret", "crypt", "options", "program",
		"digest", "hmac", "set_config", "://"
	};
	size_t		i;
	size_t		w;
	size_t		k;

	for (i = 0; i < len; i++)
		for (w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		{
			for (k = 0; words[w][k] != 0 && i + k < len && (text[i + k] | 0x20) == (words[w][k] | 0x20); k++)
				;
			if (words[w][k] != 0)
				continue;
			if (words[w][0] == ':' && !is_uri(text, len, i))
				continue;
			if (words[w][0] == ':' || !is_word(text, len, i + k) ||
				steno_redact_pasted_space(text + i + k, len - i - k) > 0 ||
				(strcmp(words[w], "crypt") == 0 && text[i + k] == '_'))
				return true;
		}
	return false;
}

static bool
has_literal(const char *text, size_t len)
{
	size_t		i;

	for (i = 0; i < len; i++)
		if (text[i] == '\'' || (text[i] == '$' && !(i + 1 < len && text[i + 1] >= '0' && text[i + 1] <= '9')))
			return true;
	return false;
}

/*
 * Statements follow each other; each of them must be a single statement by itself, and
 * must be found again from its middle.
 */
static void
check_split(const char *text, size_t len, bool standard_strings)
{
	size_t		from = 0;
	size_t		begin;
	size_t		end;
	size_t		again_begin;
	size_t		again_end;

	for (;;)
	{
		char	   *statement;

		steno_split_at(text, len, standard_strings, from, STENO_SPLIT_FIRST, &begin, &end);
		if (begin > end || end > len)
			abort();
		if (begin < from || begin == end)
			break;				/* only blanks and semicolons follow */
		steno_split_at(text, len, standard_strings, from, begin + (end - begin) / 2, &again_begin, &again_end);
		if (again_begin != begin || again_end != end)
			abort();
		statement = copy(text + begin, end - begin);
		steno_split_at(statement, end - begin, standard_strings, 0, STENO_SPLIT_FIRST, &again_begin, &again_end);
		if (again_begin != 0 || again_end != end - begin)
			abort();
		free(statement);
		from = end;
		while (from < len && text[from] != ';')
			from++;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool		standard_strings;
	size_t		message_len;
	Found		f = {0};
	Found		thorough = {0};
	char	   *text;
	char	   *out;
	char	   *again;
	size_t		out_len;
	size_t		again_len;

	if (size == 0)
		return 0;
	standard_strings = data[0] & 1;
	message_len = (size_t) (data[0] >> 1) % size;
	text = copy(data + 1, --size);
	f.len = thorough.len = size;
	if (steno_redact_work(text, size, standard_strings, false, found, &f) > STENO_REDACT_WORK(size))
		abort();
	if (size > 0)
		check_repeated(text, size, standard_strings, data[0] >> 1, 1 + data[1] % PART_MOST, data[size] % PART_MOST);
	check_given_up(text, size, standard_strings, data[0] >> 3);
	/* text that is skipped must have no effect */
	steno_redact_work(text, size, standard_strings, true, found, &thorough);
	if (f.sum != thorough.sum || f.count != thorough.count)
		abort();
	if (steno_redact_suspect(text, size) != has_trigger(text, size))
		abort();
	if (steno_redact_any_literal(text, size) != has_literal(text, size))
		abort();
	if (f.count > 0 && !has_trigger(text, size))
		abort();
	out = redact(text, size, standard_strings, &out_len);
	if (f.count == 0 && (out_len != size || memcmp(out, text, size) != 0))
		abort();
	/*
	 * The result is not compared: if quotes are not paired, hiding a secret can pair them
	 * differently, so that more is hidden the second time.
	 */
	again = redact(out, out_len, standard_strings, &again_len);
	check_message(text, size, standard_strings, message_len);
	if (size < 4096)
		check_split(text, size, standard_strings);
	free(text);
	free(out);
	free(again);
	return 0;
}
