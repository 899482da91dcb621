/*
 * core/fuzz/rules_fuzz.c
 *		Any bytes, as rules files: the parser must terminate; its rules, written as
 *		one text, must parse to the same rules again, and decide the same.
 *
 * The input is the rules file; the byte 0x1e and a name, up to the end of the line, begin
 * another file.
 */
#include <stdlib.h>
#include <string.h>

#include "test/rule_files.h"

#define MOST_FILES 8

int			steno_fuzz_rules(const uint8_t *data, size_t size);

static bool
member(void *arg, const char *group)
{
	(void) arg;
	return strcmp(group, "staff") == 0;
}

/* A digest of the rules' decisions for a session and its statements. */
static uint64_t
verdicts(StenoRules *rules)
{
	StenoRuleSession session = {"alice", "db", "psql", {STENO_CLIENT_IPV4, 32, {10, 1, 2, 3}}, member, NULL};
	StenoChoice choice;
	uint64_t	sum;
	uint32_t   *indexes;
	int			class;

	if (!steno_rules_choose(rules, &session, &choice))
		abort();
	sum = choice.skipped * 31u + choice.forced * 7u + choice.looked_at * 3u + choice.hiding;
	if (choice.skipped & choice.forced || (choice.skipped | choice.forced) & choice.looked_at)
		abort();
	indexes = malloc((choice.count + 1) * sizeof(uint32_t));
	for (class = STENO_CLASS_READ; class <= STENO_CLASS_SETTING; class++)
	{
		StenoRuleMatches matches = {indexes, steno_rules_of_object(&choice, "public", "t1", indexes)};
		StenoRule  *rule = steno_rules_first(&choice, class, &matches, 1, "SELECT 1", 8);
		bool		event = class == STENO_CLASS_CONNECT || class == STENO_CLASS_SETTING;

		sum = sum * 1099511628211u + (rule ? (uint64_t) (rule - rules->rules) + 1 : 0);
		/* masks and the search must agree */
		if (!event && choice.skipped & 1u << class &&
			(rule == NULL || rule->action != STENO_RULE_SKIP))
			abort();
		if (!event && choice.forced & 1u << class &&
			(rule == NULL || rule->action == STENO_RULE_SKIP))
			abort();
		if (!event && rule != NULL && rule->action != STENO_RULE_SKIP &&
			!((choice.forced | choice.may_record) & 1u << class))
			abort();
	}
	free(indexes);
	steno_choice_free(&choice);
	return sum;
}

static void
check_again(StenoRules *rules)
{
	MemoryFile	file = {"again", NULL, 0};
	MemoryFiles m;
	StenoRules *again;
	size_t		len;
	size_t		len_again;
	char	   *text = steno_rules_write(rules, &len);
	char	   *text_again;

	file.content = text;
	file.len = len;
	memory_files(&m, &file, 1);
	again = steno_rules_parse(&m.functions, "again");
	if (again->error_count != 0 || again->count != rules->count)
		abort();
	text_again = steno_rules_write(again, &len_again);
	if (len != len_again || memcmp(text, text_again, len) != 0 ||
		verdicts(rules) != verdicts(again))
		abort();
	free(text_again);
	free(text);
	steno_rules_free(again);
}

int
steno_fuzz_rules(const uint8_t *data, size_t size)
{
	MemoryFile	files[MOST_FILES];
	MemoryFiles m;
	StenoRules *rules;
	char	   *bytes = malloc(size + 1);
	char	   *p = bytes;
	int			count = 0;

	memcpy(bytes, data, size);
	bytes[size] = '\0';
	while (count < MOST_FILES)
	{
		char	   *end = memchr(p, 0x1e, (size_t) (bytes + size - p));
		char	   *newline;

		if (end == NULL)
			end = bytes + size;
		files[count].name = "rules";
		if (count > 0)
		{
			newline = memchr(p, '\n', (size_t) (end - p));
			if (newline == NULL)
				break;
			*newline = '\0';
			files[count].name = p;
			p = newline + 1;
		}
		files[count].content = p;
		files[count++].len = (size_t) (end - p);
		if (end == bytes + size)
			break;
		p = end + 1;
	}
	memory_files(&m, files, count);
	rules = steno_rules_parse(&m.functions, "rules");
	check_again(rules);
	steno_rules_free(rules);
	free(bytes);
	return 0;
}

#ifdef STENO_FUZZER
int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return steno_fuzz_rules(data, size);
}
#endif
