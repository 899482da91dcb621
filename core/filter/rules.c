/*
 * core/filter/rules.c
 *		Reads the rules file: lines, fields, tokens, includes, and what they mean.
 *
 * Everything that is read stays in an arena of the rules, in memory from malloc:
 * the postmaster's rules outlive any context, and are freed in one go.  When
 * there is no memory, the parser jumps out and frees all of it.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/rules.h"

#define CHUNK 65536

typedef struct StenoArenaChunk
{
	struct StenoArenaChunk *next;
	size_t		used;
	size_t		size;
} StenoArenaChunk;

/* A value, or what is written before and after commas, of a field. */
typedef struct Token
{
	const char *raw;
	const char *text;
	const char *pattern;
	bool		quoted;			/* begins with a quote */
} Token;

typedef struct Field
{
	Token	   *tokens;
	uint32_t	count;
	uint32_t	room;
} Field;

typedef struct Parser
{
	const StenoRuleFiles *files;
	StenoRules *rules;
	uint32_t	rules_room;
	uint32_t	errors_room;
	uint32_t	opened;
	char	   *pending;		/* memory of the caller's functions */
	jmp_buf		out_of_memory;

	/* the line that is being read */
	const char *file;
	int			line;
	bool		failed;			/* it has an error */
	Field	   *fields;
	uint32_t	field_count;
	uint32_t	field_room;
} Parser;

/* The names of classes. */
static const struct
{
	const char *name;
	uint32_t	mask;
}			classes[] =

{
#define STENO_CLASS(n, id, name, doc) {name, 1u << n},
#include "../format/records.def"
#undef STENO_CLASS
};

static const char *const actions[] = {"record", "skip", "sync"};

static const char *const columns[] = {
	"user", "database", "application", "client", "class", "object"
};

const char *
steno_rule_action(StenoRuleAction action)
{
	return actions[action];
}

/* ---- memory ---- */

static char *
arena_bytes(Parser *p, size_t size)
{
	StenoArenaChunk *chunk = p->rules->arena;
	char	   *result;

	if (chunk == NULL || chunk->used > chunk->size || chunk->size - chunk->used < size)
	{
		size_t		room = size > CHUNK ? size : CHUNK;

		chunk = malloc(sizeof(StenoArenaChunk) + 16 + room);
		if (chunk == NULL)
			longjmp(p->out_of_memory, 1);
		chunk->next = p->rules->arena;
		chunk->used = 0;
		chunk->size = room;
		p->rules->arena = chunk;
	}
	result = (char *) (((uintptr_t) (chunk + 1) + 15) & ~(uintptr_t) 15) + chunk->used;
	chunk->used += size;
	return result;
}

/* Memory for any type. */
static void *
arena_alloc(Parser *p, size_t size)
{
	StenoArenaChunk *chunk = p->rules->arena;

	if (chunk)
		chunk->used = (chunk->used + 15) & ~(size_t) 15;
	return arena_bytes(p, size);
}

static char *
arena_copy(Parser *p, const char *s, size_t len)
{
	char	   *result = arena_bytes(p, len + 1);

	if (len > 0)
		memcpy(result, s, len);
	result[len] = '\0';
	return result;
}

/* An array twice as large; the old one stays in the arena. */
static void *
grow_list(Parser *p, void *old, uint32_t count, uint32_t *room, size_t size)
{
	uint32_t	more = *room == 0 ? 8 : *room * 2;
	void	   *result = arena_alloc(p, more * size);

	if (count > 0)
		memcpy(result, old, count * size);
	*room = more;
	return result;
}

/* ---- errors ---- */

__attribute__((format(printf, 2, 3))) static void
complain(Parser *p, const char *format,...)
{
	StenoRules *rules = p->rules;
	char		message[1024];
	va_list		args;
	StenoRuleError *e;

	p->failed = true;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (rules->error_count == p->errors_room)
		rules->errors = grow_list(p, rules->errors, rules->error_count, &p->errors_room,
							 sizeof(StenoRuleError));
	e = &rules->errors[rules->error_count++];
	e->file = p->file;
	e->line = p->line;
	e->message = arena_copy(p, message, strlen(message));
	e->before = rules->count;
}

/* ---- tokens ---- */

static inline bool
separates_tokens(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/*
 * The next token of a line.  Blanks, and commas that follow a token's, are
 * skipped; # begins a comment.  comma: the token has one behind it, so that the
 * next one belongs to the same field.
 */
static bool
next_token(Parser *p, const char **line, Token *t, bool *comma)
{
	const char *from = *line;
	const char *c;
	char	   *text;
	char	   *pattern;
	bool		in_quotes = false;

	*comma = false;
	while (separates_tokens(*from) || *from == ',')
		from++;
	if (*from == '\0' || *from == '#')
	{
		*line = from + strlen(from);
		return false;
	}
	t->quoted = *from == '"';
	for (c = from; *c != '\0'; c++)
	{
		if (*c == '"')
			in_quotes = !in_quotes;
		else if (!in_quotes && (separates_tokens(*c) || *c == ',' || *c == '#'))
			break;
	}
	if (in_quotes)
	{
		complain(p, "unterminated quoted string at: %.60s", from);
		*line = c;
		return false;
	}
	*comma = *c == ',';
	*line = *comma ? c + 1 : c;
	t->raw = arena_copy(p, from, (size_t) (c - from));
	t->text = t->pattern = t->raw;
	if (memchr(from, '"', (size_t) (c - from)) == NULL)
		return true;
	t->text = text = arena_bytes(p, (size_t) (c - from) + 1);
	t->pattern = pattern = arena_bytes(p, (size_t) (c - from) * 2 + 1);
	for (; from < c; from++)
	{
		if (*from == '"')
		{
			/* two in quotes are one of the text */
			if (!(in_quotes && from + 1 < c && from[1] == '"'))
			{
				in_quotes = !in_quotes;
				continue;
			}
			from++;
		}
		if (in_quotes && strchr("*?.\\", *from) != NULL)
			*pattern++ = '\\';
		*pattern++ = *from;
		*text++ = *from;
	}
	*pattern = *text = '\0';
	return true;
}

static void
add_token(Parser *p, Field *field, const Token *t)
{
	if (field->count == field->room)
		field->tokens = grow_list(p, field->tokens, field->count, &field->room, sizeof(Token));
	field->tokens[field->count++] = *t;
}

/* ---- files ---- */

/* A name in a file is relative to the file's directory. */
static const char *
relative_path(Parser *p, const char *base, const char *name)
{
	const char *slash = strrchr(base, '/');
	size_t		n = slash ? (size_t) (slash - base) + 1 : 0;
	char	   *result;

	if (*name == '/' || n == 0)
		return name;
	result = arena_alloc(p, n + strlen(name) + 1);
	memcpy(result, base, n);
	strcpy(result + n, name);
	return result;
}

/* The file's content in the arena; NULL, with an error unless it may be absent. */
static char *
load_file(Parser *p, const char *path, bool may_be_absent, size_t *len)
{
	char		reason[STENO_RULES_REASON] = "";
	char	   *content = NULL;
	char	   *result;
	StenoRead	read;

	if (++p->opened > STENO_RULES_FILES)
	{
		complain(p, "could not open file \"%s\": more than %d files are included", path,
				 STENO_RULES_FILES);
		return NULL;
	}
	read = p->files->read(p->files->arg, path, &content, len, reason);
	if (read != STENO_READ_OK)
	{
		if (read == STENO_READ_FAILED || !may_be_absent)
			complain(p, "could not open file \"%s\": %s", path,
					 read == STENO_READ_ABSENT ? "it does not exist" : reason);
		return NULL;
	}
	p->pending = content;
	result = arena_copy(p, content, *len);
	p->pending = NULL;
	free(content);
	return result;
}

/*
 * Cut the next line off the content: lines that end with a backslash are joined
 * with the next.  Done in place.
 */
static char *
next_line(char **content, char *end, int *lines, bool *has_zero)
{
	char	   *start = *content;
	char	   *from = start;
	char	   *to = start;

	if (start >= end)
		return NULL;
	*lines = 0;
	*has_zero = false;
	while (from < end)
	{
		char	   *newline = memchr(from, '\n', (size_t) (end - from));
		char	   *stop = newline ? newline : end;
		size_t		n = (size_t) (stop - from);

		++*lines;
		if (memchr(from, '\0', n) != NULL)
			*has_zero = true;
		memmove(to, from, n);
		to += n;
		from = newline ? newline + 1 : end;
		if (to > start && to[-1] == '\r')
			to--;
		if (to > start && to[-1] == '\\' && newline)
			to--;
		else
			break;
	}
	*to = '\0';					/* there is room: the newline's, or the end's */
	*content = from;
	return start;
}

/* The tokens of a list's file, @name in a field. */
static void
add_file(Parser *p, Field *field, const char *base, const char *name, int depth)
{
	const char *path = relative_path(p, base, name);
	char	   *content;
	char	   *end;
	char	   *text;
	size_t		len;
	int			lines;
	bool		has_zero;

	if (depth > STENO_RULES_DEPTH)
	{
		complain(p, "could not open file \"%s\": files are included more than %d deep", path,
				 STENO_RULES_DEPTH);
		return;
	}
	content = load_file(p, path, false, &len);
	if (content == NULL)
		return;
	end = content + len;
	while (!p->failed && (text = next_line(&content, end, &lines, &has_zero)) != NULL)
	{
		const char *rest = text;
		Token		t;
		bool		comma;

		if (has_zero)
			complain(p, "file \"%s\" has a zero byte", path);
		while (!p->failed && next_token(p, &rest, &t, &comma))
		{
			if (t.text[0] == '@' && t.text[1] != '\0' && !t.quoted)
				add_file(p, field, path, t.text + 1, depth + 1);
			else
				add_token(p, field, &t);
		}
	}
}

/* Split a line into fields, and take in the lists of files. */
static void
split_line(Parser *p, const char *text)
{
	bool		comma = false;
	Token		t;

	p->field_count = 0;
	for (;;)
	{
		Field	   *field;
		bool		follows = comma;

		if (!next_token(p, &text, &t, &comma))
			return;
		if (!follows)
		{
			if (p->field_count == p->field_room)
				p->fields = grow_list(p, p->fields, p->field_count, &p->field_room, sizeof(Field));
			memset(&p->fields[p->field_count++], 0, sizeof(Field));
		}
		field = &p->fields[p->field_count - 1];
		if (t.text[0] == '@' && t.text[1] != '\0' && !t.quoted)
			add_file(p, field, p->file, t.text + 1, 1);
		else
			add_token(p, field, &t);
	}
}

/* ---- what the columns mean ---- */

static bool
token_is(const Token *t, const char *word)
{
	return !t->quoted && strcmp(t->text, word) == 0;
}

bool
steno_parse_address(const char *text, StenoClient *client)
{
	const char *slash = strchr(text, '/');
	size_t		n = slash ? (size_t) (slash - text) : strlen(text);
	char		address[INET6_ADDRSTRLEN];
	unsigned	most;
	unsigned	i;

	memset(client, 0, sizeof(*client));
	if (n >= sizeof(address))
		return false;
	memcpy(address, text, n);
	address[n] = '\0';
	if (inet_pton(AF_INET, address, client->address) == 1)
	{
		client->kind = STENO_CLIENT_IPV4;
		most = 32;
	}
	else if (inet_pton(AF_INET6, address, client->address) == 1)
	{
		client->kind = STENO_CLIENT_IPV6;
		most = 128;
	}
	else
		return false;
	client->bits = (uint8_t) most;
	if (slash)
	{
		unsigned long bits;
		char	   *end;

		if (!isdigit((unsigned char) slash[1]) || strlen(slash + 1) > 3)
			return false;
		bits = strtoul(slash + 1, &end, 10);
		if (*end != '\0' || bits > most)
			return false;
		client->bits = (uint8_t) bits;
	}
	for (i = client->bits; i < most; i++)
		client->address[i / 8] &= (uint8_t) ~(0x80u >> i % 8);
	return true;
}

static void
read_client(Parser *p, StenoRuleItem *item)
{
	if (strcmp(item->text, "local") == 0)
		item->client.kind = STENO_CLIENT_LOCAL;
	else if (strcmp(item->text, "host") == 0)
		item->client.kind = STENO_CLIENT_HOST;
	else if (!steno_parse_address(item->text, &item->client))
		complain(p, "invalid client \"%s\" (allowed: all, local, host, an IP address, "
				 "a range of them such as 10.0.0.0/8)", item->text);
}

static void
read_class(Parser *p, StenoRule *rule, const StenoRuleItem *item)
{
	char		names[512] = "all";
	size_t		i;

	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (strcmp(item->text, classes[i].name) == 0)
		{
			rule->classes |= classes[i].mask;
			return;
		}
	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), ", %s", classes[i].name);
	complain(p, "unrecognized class \"%s\" (allowed: %s)", item->text, names);
}

/* Split schema.name where the dot is not quoted. */
static void
read_object(Parser *p, StenoRuleItem *item)
{
	const char *dot = NULL;
	const char *c;

	for (c = item->pattern; *c != '\0'; c++)
	{
		if (*c == '\\' && c[1] != '\0')
			c++;
		else if (*c == '.')
		{
			if (dot != NULL)
				break;
			dot = c;
		}
	}
	if (*c == '.' || item->pattern[0] == '\0' || dot == item->pattern ||
		(dot != NULL && dot[1] == '\0'))
	{
		complain(p, "invalid object \"%s\" (allowed: all, or name or schema.name, with * and ? in them)",
				 item->text);
		return;
	}
	if (dot != NULL)
	{
		item->schema = arena_copy(p, item->pattern, (size_t) (dot - item->pattern));
		item->pattern = dot + 1;
	}
}

static void
read_item(Parser *p, StenoRule *rule, StenoRuleColumn column, const Token *t,
		  StenoRuleItem *item)
{
	memset(item, 0, sizeof(*item));
	item->raw = t->raw;
	item->text = t->text;
	item->pattern = t->pattern;
	if (token_is(t, "all"))
	{
		item->all = true;
		rule->columns[column].all = true;
		if (column == STENO_RULE_CLASS)
			rule->classes = ~0u;
		return;
	}
	if (t->text[0] == '+' && !t->quoted &&
		(column == STENO_RULE_USER || column == STENO_RULE_DATABASE))
	{
		if (column == STENO_RULE_DATABASE)
			complain(p, "invalid database \"%s\" (allowed: all, a name; a name that begins with + in quotes)",
					 t->text);
		else if (t->text[1] == '\0')
			complain(p, "invalid user \"+\" (allowed: all, a name, +role for the members of a role)");
		item->group = true;
		item->text = t->text + 1;
		return;
	}
	if (column == STENO_RULE_CLIENT)
		read_client(p, item);
	else if (column == STENO_RULE_CLASS)
		read_class(p, rule, item);
	else if (column == STENO_RULE_OBJECT)
		read_object(p, item);
}

static void
read_column(Parser *p, StenoRule *rule, StenoRuleColumn column, const Field *field)
{
	StenoRuleList *list = &rule->columns[column];
	uint32_t	i;

	if (field->count == 0)
	{
		complain(p, "list of column \"%s\" is empty", columns[column]);
		return;
	}
	list->items = arena_alloc(p, field->count * sizeof(StenoRuleItem));
	list->count = field->count;
	for (i = 0; i < field->count && !p->failed; i++)
		read_item(p, rule, column, &field->tokens[i], &list->items[i]);
}

/* ---- options ---- */

static bool
read_off(Parser *p, const char *name, const char *value)
{
	if (strcmp(value, "off") == 0)
		return true;
	if (strcmp(value, "on") != 0)
		complain(p, "invalid value of option \"%s\": \"%s\" (allowed: on, off)", name, value);
	return false;
}

static uint32_t
read_sample(Parser *p, const char *value)
{
	unsigned long n = 0;
	char	   *end = NULL;

	if (strncmp(value, "1/", 2) == 0 && isdigit((unsigned char) value[2]) && strlen(value) <= 12)
		n = strtoul(value + 2, &end, 10);
	if (end == NULL || *end != '\0' || n < 1 || n > 1000000000)
	{
		complain(p, "invalid value of option \"sample\": \"%s\" (allowed: 1/N, with N from 1 to 1000000000)",
				 value);
		return 1;
	}
	return (uint32_t) n;
}

static const char *
read_redact(Parser *p, const char *value)
{
	char		reason[STENO_RULES_REASON] = "";

	if (*value == '\0')
		complain(p, "invalid value of option \"redact\": it is empty (allowed: a regular expression)");
	else if (p->files->check_regex &&
			 !p->files->check_regex(p->files->arg, value, reason))
		complain(p, "invalid value of option \"redact\": \"%s\": %s", value, reason);
	return value;
}

/* name=value */
static void
read_option(Parser *p, StenoRule *rule, const Token *t, uint32_t *seen)
{
	static const char *const names[] = {"parameters", "text", "redact", "sample", "statement"};
	const char *equals = strchr(t->text, '=');
	size_t		n = equals ? (size_t) (equals - t->text) : strlen(t->text);
	uint32_t	i;

	for (i = 0; i < 5; i++)
		if (strlen(names[i]) == n && memcmp(names[i], t->text, n) == 0)
			break;
	if (i == 5 || equals == NULL)
	{
		complain(p, "unrecognized option \"%s\" (allowed: parameters=off, text=off, redact=REGEX, sample=1/N, statement=PATTERN)",
				 t->text);
		return;
	}
	if (*seen & 1u << i)
	{
		complain(p, "option \"%s\" is given twice", names[i]);
		return;
	}
	*seen |= 1u << i;
	if (rule->action == STENO_RULE_SKIP && i < 4)
	{
		complain(p, "option \"%s\" has no meaning for what is skipped (allowed: statement=PATTERN)",
				 names[i]);
		return;
	}
	switch (i)
	{
		case 0:
			rule->no_parameters = read_off(p, names[i], equals + 1);
			break;
		case 1:
			rule->no_text = read_off(p, names[i], equals + 1);
			break;
		case 2:
			rule->redact = read_redact(p, equals + 1);
			break;
		case 3:
			rule->sample = read_sample(p, equals + 1);
			break;
		default:
			rule->statement = equals + 1;
			if (*rule->statement == '\0')
				complain(p, "invalid value of option \"statement\": it is empty (allowed: a statement, * stands for any text)");
	}
}

static void
read_options(Parser *p, StenoRule *rule)
{
	uint32_t	seen = 0;
	uint32_t	i;
	size_t		len = 0;
	char	   *to;

	for (i = 1 + STENO_RULE_COLUMNS; i < p->field_count && !p->failed; i++)
	{
		Field	   *field = &p->fields[i];

		if (field->count != 1)
		{
			complain(p, "option \"%s\" is a list; put a value with commas in quotes",
					 field->count ? field->tokens[0].text : "");
			return;
		}
		read_option(p, rule, &field->tokens[0], &seen);
		len += strlen(field->tokens[0].raw) + 1;
	}
	if (p->failed || len == 0)
		return;
	rule->options = to = arena_alloc(p, len);
	for (i = 1 + STENO_RULE_COLUMNS; i < p->field_count; i++)
	{
		size_t		n = strlen(p->fields[i].tokens[0].raw);

		memcpy(to, p->fields[i].tokens[0].raw, n);
		to += n;
		*to++ = ' ';
	}
	to[-1] = '\0';
}

/* ---- lines ---- */

static void
read_rule(Parser *p)
{
	StenoRule	rule;
	StenoRules *rules = p->rules;
	const Token *action = p->fields[0].count > 0 ? &p->fields[0].tokens[0] : NULL;
	int			i;

	memset(&rule, 0, sizeof(rule));
	rule.file = p->file;
	rule.line = p->line;
	rule.sample = 1;
	for (i = 0; i < 3; i++)
		if (action != NULL && p->fields[0].count == 1 && token_is(action, actions[i]))
			break;
	if (i == 3)
	{
		complain(p, "unrecognized action \"%s\" (allowed: record, skip, sync; include, include_if_exists, include_dir)",
				 action == NULL ? "" : p->fields[0].count == 1 ? action->text : "a list");
		return;
	}
	rule.action = (StenoRuleAction) i;
	for (i = 0; i < STENO_RULE_COLUMNS && !p->failed; i++)
	{
		if (1 + (uint32_t) i >= p->field_count)
			complain(p, "end of line before column \"%s\" (a line is: action user database application client class object [option=value ...])",
					 columns[i]);
		else
			read_column(p, &rule, (StenoRuleColumn) i, &p->fields[1 + i]);
	}
	if (!p->failed)
		read_options(p, &rule);
	if (p->failed)
		return;
	if (rules->count == STENO_RULES_MOST)
	{
		complain(p, "there are more than %d rules", STENO_RULES_MOST);
		return;
	}
	if (rules->count == p->rules_room)
		rules->rules = grow_list(p, rules->rules, rules->count, &p->rules_room, sizeof(StenoRule));
	rules->rules[rules->count++] = rule;
}

static void read_rules_file(Parser *p, const char *path, bool may_be_absent, int depth);

static void
read_directory(Parser *p, const char *path, int depth)
{
	char		reason[STENO_RULES_REASON] = "";
	char	   *names = NULL;
	char	   *kept;
	const char *name;
	size_t		len = 0;

	if (p->files->list(p->files->arg, path, &names, reason) != STENO_READ_OK)
	{
		complain(p, "could not open directory \"%s\": %s", path,
				 reason[0] ? reason : "it does not exist");
		return;
	}
	while (names[len] != '\0' || (len > 0 && names[len - 1] != '\0'))
		len++;
	p->pending = names;
	kept = arena_copy(p, names, len);
	p->pending = NULL;
	free(names);
	for (name = kept; *name != '\0'; name += strlen(name) + 1)
	{
		char	   *full = arena_alloc(p, strlen(path) + strlen(name) + 2);

		sprintf(full, "%s/%s", path, name);
		read_rules_file(p, full, false, depth);
	}
}

/* Returns false when the line is no include. */
static bool
read_include(Parser *p, int depth)
{
	static const char *const words[] = {"include", "include_if_exists", "include_dir"};
	const Token *word;
	const char *path;
	int			i;

	if (p->fields[0].count != 1)
		return false;
	word = &p->fields[0].tokens[0];
	for (i = 0; i < 3; i++)
		if (token_is(word, words[i]))
			break;
	if (i == 3)
		return false;
	if (p->field_count != 2 || p->fields[1].count != 1 || p->fields[1].tokens[0].text[0] == '\0')
	{
		complain(p, "\"%s\" needs the name of one %s", words[i], i == 2 ? "directory" : "file");
		return true;
	}
	path = relative_path(p, p->file, p->fields[1].tokens[0].text);
	if (depth > STENO_RULES_DEPTH)
		complain(p, "could not open file \"%s\": files are included more than %d deep", path,
				 STENO_RULES_DEPTH);
	else if (i == 2)
		read_directory(p, path, depth);
	else
		read_rules_file(p, path, i == 1, depth);
	return true;
}

static void
read_rules_file(Parser *p, const char *path, bool may_be_absent, int depth)
{
	const char *outer_file = p->file;
	int			outer_line = p->line;
	size_t		len = 0;
	char	   *content;
	char	   *end;
	char	   *text;
	int			lines;
	int			line = 1;
	bool		has_zero;

	content = load_file(p, path, may_be_absent, &len);
	if (content == NULL)
		return;
	end = content + len;
	while ((text = next_line(&content, end, &lines, &has_zero)) != NULL)
	{
		p->file = path;
		p->line = line;
		line += lines;
		p->failed = false;
		if (has_zero)
			complain(p, "the line has a zero byte");
		else
			split_line(p, text);
		if (p->failed || p->field_count == 0)
			continue;
		if (!read_include(p, depth + 1))
			read_rule(p);
		if (p->rules->error_count > 1000)
			break;				/* this is no rules file */
	}
	p->file = outer_file;
	p->line = outer_line;
}

StenoRules *
steno_rules_parse(const StenoRuleFiles *files, const char *path)
{
	Parser	   *p = calloc(1, sizeof(Parser));

	if (p == NULL)
		return NULL;
	p->files = files;
	p->rules = calloc(1, sizeof(StenoRules));
	if (p->rules == NULL)
	{
		free(p);
		return NULL;
	}
	if (setjmp(p->out_of_memory) == 0)
	{
		StenoRules *rules;

		path = arena_copy(p, path, strlen(path));
		p->file = path;
		read_rules_file(p, path, true, 0);
		rules = p->rules;
		free(p);
		return rules;
	}
	free(p->pending);
	steno_rules_free(p->rules);
	free(p);
	return NULL;
}

void
steno_rules_free(StenoRules *rules)
{
	StenoArenaChunk *chunk;

	if (rules == NULL)
		return;
	while ((chunk = rules->arena) != NULL)
	{
		rules->arena = chunk->next;
		free(chunk);
	}
	free(rules);
}

/* ---- writing ---- */

char	   *
steno_rules_write(const StenoRules *rules, size_t *len)
{
	FILE	   *f;
	char	   *result = NULL;
	uint32_t	i;
	uint32_t	j;
	int			column;

	f = open_memstream(&result, len);
	if (f == NULL)
		return NULL;
	for (i = 0; i < rules->count; i++)
	{
		const StenoRule *rule = &rules->rules[i];

		fputs(actions[rule->action], f);
		for (column = 0; column < STENO_RULE_COLUMNS; column++)
			for (j = 0; j < rule->columns[column].count; j++)
				fprintf(f, "%c%s", j == 0 ? ' ' : ',', rule->columns[column].items[j].raw);
		if (rule->options)
			fprintf(f, " %s", rule->options);
		fputs(" \n", f);		/* a backslash at the end is none of the
								 * line's */
	}
	if (ferror(f) | (fclose(f) != 0))
	{
		free(result);
		return NULL;
	}
	return result;
}
