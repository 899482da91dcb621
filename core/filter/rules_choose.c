/*
 * core/filter/rules_choose.c
 *		Which rule decides: for a session, for a class, for a statement.
 */
#include <stdlib.h>
#include <string.h>

#include "filter/rules.h"

/* Classes of events: no statement, no relations. */
#define EVENTS (1u << STENO_CLASS_CONNECT | 1u << STENO_CLASS_SETTING)

/* ---- patterns ---- */

/* The character after the one at text; UTF-8 is taken as such. */
static const char *
next_character(const char *text, const char *end)
{
	text++;
	while (text < end && ((unsigned char) *text & 0xC0) == 0x80)
		text++;
	return text;
}

/* * any bytes, ? (when it is one) one character, \ makes the next one ordinary. */
static bool
matches_pattern(const char *pattern, const char *text, size_t len, bool question)
{
	const char *end = text + len;
	const char *star = NULL;	/* behind the last * */
	const char *retry = NULL;	/* where what follows it was tried */

	for (;;)
	{
		if (*pattern == '*')
		{
			star = ++pattern;
			retry = text;
			continue;
		}
		if (text == end && *pattern == '\0')
			return true;
		if (text < end && *pattern == '?' && question)
		{
			pattern++;
			text = next_character(text, end);
			continue;
		}
		if (text < end && *pattern != '\0')
		{
			const char *p = pattern[0] == '\\' && pattern[1] != '\0' ? pattern + 1 : pattern;

			if (*p == *text)
			{
				pattern = p + 1;
				text++;
				continue;
			}
		}
		if (star == NULL || retry == end)
			return false;
		pattern = star;
		text = ++retry;
	}
}

/* ---- a session ---- */

static bool
client_matches(const StenoClient *range, const StenoClient *client)
{
	unsigned	whole = range->bits / 8;
	unsigned	rest = range->bits % 8;

	if (range->kind == STENO_CLIENT_HOST)
		return client->kind == STENO_CLIENT_IPV4 || client->kind == STENO_CLIENT_IPV6;
	if (range->kind != client->kind)
		return false;
	if (range->kind == STENO_CLIENT_LOCAL)
		return true;
	return memcmp(range->address, client->address, whole) == 0 &&
		(rest == 0 || ((range->address[whole] ^ client->address[whole]) >> (8 - rest)) == 0);
}

static bool
item_matches(const StenoRuleItem *item, StenoRuleColumn column, const StenoRuleSession *session)
{
	switch (column)
	{
		case STENO_RULE_USER:
			if (item->group)
				return session->member != NULL && session->member(session->arg, item->text);
			return session->user != NULL && strcmp(item->text, session->user) == 0;
		case STENO_RULE_DATABASE:
			return session->database != NULL && strcmp(item->text, session->database) == 0;
		case STENO_RULE_APPLICATION:
			return session->application != NULL &&
				matches_pattern(item->pattern, session->application, strlen(session->application), true);
		default:
			return client_matches(&item->client, &session->client);
	}
}

static bool
session_matches(const StenoRule *rule, const StenoRuleSession *session)
{
	int			column;

	for (column = STENO_RULE_USER; column <= STENO_RULE_CLIENT; column++)
	{
		const StenoRuleList *list = &rule->columns[column];
		uint32_t	i;

		if (list->all)
			continue;
		for (i = 0; i < list->count; i++)
			if (item_matches(&list->items[i], (StenoRuleColumn) column, session))
				break;
		if (i == list->count)
			return false;
	}
	return true;
}

/* ---- classes ---- */

static bool
has_objects(const StenoRule *rule)
{
	return !rule->columns[STENO_RULE_OBJECT].all;
}

static bool
is_conditional(const StenoRule *rule)
{
	return has_objects(rule) || rule->statement != NULL;
}

static bool
rule_hides_text(const StenoRule *rule)
{
	return rule->no_text || rule->redact != NULL;
}

static bool
has_effects(const StenoRule *rule)
{
	return rule_hides_text(rule) || rule->no_parameters || rule->sample > 1;
}

/* Add what the next matching rule says of the classes that no rule before has settled. */
static void
merge_rule(StenoChoice *choice, const StenoRule *rule, uint32_t *open)
{
	uint32_t	mask = rule->classes & *open;
	uint32_t	looked_at;

	/* an event has no relations and no text, and is one of its kind */
	if (is_conditional(rule))
	{
		mask &= ~EVENTS;
		looked_at = mask;
	}
	else
	{
		looked_at = has_effects(rule) ? mask & ~EVENTS : mask & choice->looked_at;
		*open &= ~mask;
		if (rule->action == STENO_RULE_SKIP)
			choice->skipped |= mask & ~looked_at;
		else
			choice->forced |= mask & ~looked_at;
		if (rule->action == STENO_RULE_SYNC)
			choice->synced |= mask & ~looked_at;
	}
	if (rule->action == STENO_RULE_SYNC)
		choice->syncing |= mask;
	choice->looked_at |= looked_at;
	if (rule->action != STENO_RULE_SKIP)
		choice->may_record |= looked_at;
	if (rule_hides_text(rule))
		choice->hiding |= looked_at;
	if (has_objects(rule) && looked_at != 0)
		choice->objects = true;
}

/*
 * What session->member raises leaves through here.  So all memory is taken before, and the
 * choice stays empty until it is whole.
 */
bool
steno_rules_choose(StenoRules *rules, const StenoRuleSession *session, StenoChoice *choice)
{
	StenoChoice made = {0};
	uint32_t	open = ~0u;
	uint32_t	i;

	memset(choice, 0, sizeof(*choice));
	if (rules->count == 0)
		return true;
	choice->rules = malloc(rules->count * sizeof(StenoRule *));
	choice->indexes = malloc(rules->count * sizeof(uint32_t));
	if (choice->rules == NULL || choice->indexes == NULL)
	{
		steno_choice_free(choice);
		return false;
	}
	made.rules = choice->rules;
	made.indexes = choice->indexes;
	made.plain.indexes = choice->indexes;
	for (i = 0; i < rules->count && open != 0; i++)
	{
		StenoRule  *rule = &rules->rules[i];

		if ((rule->classes & open) == 0 || !session_matches(rule, session))
			continue;
		if (!has_objects(rule))
			made.indexes[made.plain.count++] = made.count;
		made.rules[made.count++] = rule;
		merge_rule(&made, rule, &open);
	}
	*choice = made;
	return true;
}

void
steno_choice_free(StenoChoice *choice)
{
	free(choice->rules);
	free(choice->indexes);
	memset(choice, 0, sizeof(*choice));
}

/* ---- a statement ---- */

/*
 * What leaves statements out must hold for all of their relations: a query is
 * not to hide behind a second table.  What records them, for any.
 */
static bool
needs_all(const StenoRule *rule)
{
	return rule->action == STENO_RULE_SKIP || rule->sample > 1;
}

static bool
object_matches(const StenoRule *rule, const char *schema, const char *name)
{
	const StenoRuleList *list = &rule->columns[STENO_RULE_OBJECT];
	uint32_t	i;

	for (i = 0; i < list->count; i++)
	{
		const StenoRuleItem *item = &list->items[i];

		if ((item->schema == NULL ||
			 (schema ? matches_pattern(item->schema, schema, strlen(schema), true) : !needs_all(rule))) &&
			matches_pattern(item->pattern, name, strlen(name), true))
			return true;
	}
	return false;
}

uint32_t
steno_rules_of_object(const StenoChoice *choice, const char *schema, const char *name,
					  uint32_t *indexes)
{
	uint32_t	n = 0;
	uint32_t	i;

	for (i = 0; i < choice->count; i++)
		if (has_objects(choice->rules[i]) && object_matches(choice->rules[i], schema, name))
			indexes[n++] = i;
	return n;
}

/* The first index of the list that is not below from; UINT32_MAX: none. */
static uint32_t
index_from(const StenoRuleMatches *list, uint32_t from)
{
	uint32_t	low = 0;
	uint32_t	high = list->count;

	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (list->indexes[middle] < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list->count ? list->indexes[low] : UINT32_MAX;
}

static bool
statement_matches(const StenoRule *rule, const StenoRuleMatches *relations, uint32_t count,
				  uint32_t index, const char *text, size_t text_len)
{
	uint32_t	with = 0;
	uint32_t	r;

	if (has_objects(rule))
	{
		for (r = 0; r < count; r++)
			if (index_from(&relations[r], index) == index)
				with++;
		if (with < count && needs_all(rule))
			return false;
	}
	return rule->statement == NULL ||
		(text != NULL && matches_pattern(rule->statement, text, text_len, false));
}

StenoRule *
steno_rules_first(const StenoChoice *choice, int class, const StenoRuleMatches *relations,
				  uint32_t count, const char *text, size_t text_len)
{
	uint32_t	from = 0;

	for (;;)
	{
		uint32_t	next = index_from(&choice->plain, from);
		uint32_t	r;

		for (r = 0; r < count; r++)
		{
			uint32_t	i = index_from(&relations[r], from);

			if (i < next)
				next = i;
		}
		if (next == UINT32_MAX)
			return NULL;
		if (choice->rules[next]->classes & 1u << class &&
			statement_matches(choice->rules[next], relations, count, next, text, text_len))
			return choice->rules[next];
		from = next + 1;
	}
}
