/*
 * core/test/filter/rules_are_parsed.c
 *		The rules file: tokens, includes, columns, options, and errors that name
 *		the line and what is allowed.
 */
#include <string.h>

#include "test/rule_files.h"
#include "test/test.h"
#include "test/trail.h"

extern int	steno_fuzz_rules(const uint8_t *data, size_t size);

/* The rules of one file's text. */
static StenoRules *
parse(const char *text)
{
	MemoryFile	file = {"rules", text, strlen(text)};
	MemoryFiles m;

	memory_files(&m, &file, 1);
	return steno_rules_parse(&m.functions, "rules");
}

static StenoRules *
parse_files(const MemoryFile *files, int count)
{
	MemoryFiles m;

	memory_files(&m, files, count);
	return steno_rules_parse(&m.functions, files[0].name);
}

static bool
item_is(const StenoRule *rule, StenoRuleColumn column, uint32_t i, const char *text)
{
	return i < rule->columns[column].count && strcmp(rule->columns[column].items[i].text, text) == 0;
}

#define FILE_OF(name, text) {name, text, sizeof(text) - 1}

TEST(rules_have_columns_and_options)
{
	StenoRules *r = parse("# a comment\n"
						  "\n"
						  "record all all all all all all # another\n"
						  "  skip\talice, +staff,\"all\" db1,db2 \"my app\",psql* local,10.1.2.3/8,::1 read,write s.t,u* statement=\"SELECT * FROM x\"\n"
						  "sync \"a\"\"b\" all all host ddl \"My.T\".\"x*\" parameters=off text=off redact=a{3} sample=1/100\n"
						  "record \\\nall all \\\r\nall all all all");
	const StenoRule *rule;

	CHECK(r->error_count == 0 && r->count == 4);
	CHECK(r->rules[0].line == 3 && r->rules[0].columns[STENO_RULE_USER].all);
	CHECK(r->rules[0].action == STENO_RULE_RECORD && r->rules[0].classes == ~0u);
	rule = &r->rules[1];
	CHECK(rule->action == STENO_RULE_SKIP && rule->line == 4);
	CHECK(item_is(rule, STENO_RULE_USER, 0, "alice") && item_is(rule, STENO_RULE_USER, 1, "staff"));
	CHECK(!rule->columns[STENO_RULE_USER].items[0].group && rule->columns[STENO_RULE_USER].items[1].group);
	CHECK(item_is(rule, STENO_RULE_USER, 2, "all") && !rule->columns[STENO_RULE_USER].all);
	CHECK(item_is(rule, STENO_RULE_DATABASE, 1, "db2") && item_is(rule, STENO_RULE_APPLICATION, 0, "my app"));
	CHECK(rule->classes == (1u << STENO_CLASS_READ | 1u << STENO_CLASS_WRITE));
	CHECK(rule->columns[STENO_RULE_CLIENT].items[0].client.kind == STENO_CLIENT_LOCAL);
	CHECK(rule->columns[STENO_RULE_CLIENT].items[1].client.kind == STENO_CLIENT_IPV4);
	CHECK(rule->columns[STENO_RULE_CLIENT].items[1].client.address[1] == 0);	/* masked */
	CHECK(rule->columns[STENO_RULE_CLIENT].items[2].client.kind == STENO_CLIENT_IPV6);
	CHECK(strcmp(rule->columns[STENO_RULE_OBJECT].items[0].schema, "s") == 0);
	CHECK(rule->columns[STENO_RULE_OBJECT].items[1].schema == NULL);
	CHECK(strcmp(rule->statement, "SELECT * FROM x") == 0);
	rule = &r->rules[2];
	CHECK(rule->action == STENO_RULE_SYNC && item_is(rule, STENO_RULE_USER, 0, "a\"b"));
	CHECK(strcmp(rule->columns[STENO_RULE_OBJECT].items[0].schema, "My\\.T") == 0);
	CHECK(strcmp(rule->columns[STENO_RULE_OBJECT].items[0].pattern, "x\\*") == 0);
	CHECK(rule->no_parameters && rule->no_text && rule->sample == 100);
	CHECK(strcmp(rule->redact, "a{3}") == 0);
	CHECK(strcmp(rule->options, "parameters=off text=off redact=a{3} sample=1/100") == 0);
	CHECK(r->rules[3].line == 6);
	steno_rules_free(r);
}

TEST(rules_errors_name_line_token_and_what_is_allowed)
{
	static const struct
	{
		const char *line;
		const char *message;
	}			cases[] =
	{
		{"recrod all all all all all all", "unrecognized action \"recrod\" (allowed: record, skip, sync;"},
		{"\"skip\" all all all all all all", "unrecognized action \"skip\""},
		{"record,skip all all all all all all", "unrecognized action \"a list\""},
		{"record all all all", "end of line before column \"client\""},
		{"record all all all all all", "end of line before column \"object\""},
		{"record + all all all all all", "invalid user \"+\" (allowed: all, a name, +role"},
		{"record all +db all all all all", "invalid database \"+db\" (allowed: all, a name;"},
		{"record all all all localhost all all", "invalid client \"localhost\" (allowed: all, local, host, an IP address"},
		{"record all all all 10.0.0.0/33 all all", "invalid client \"10.0.0.0/33\""},
		{"record all all all ::1/129 all all", "invalid client \"::1/129\""},
		{"record all all all 1.2.3.4/ all all", "invalid client \"1.2.3.4/\""},
		{"record all all all all reed all", "unrecognized class \"reed\" (allowed: all, read, write, function, role, ddl, misc, misc_set, connect, error, transaction, setting"},
		{"record all all all all all a.b.c", "invalid object \"a.b.c\" (allowed: all, or name or schema.name"},
		{"record all all all all all .b", "invalid object \".b\""},
		{"record all all all all all a.", "invalid object \"a.\""},
		{"record all all all all all all colour=red", "unrecognized option \"colour=red\" (allowed: parameters=off, text=off, redact=REGEX, sample=1/N, statement=PATTERN)"},
		{"record all all all all all all text", "unrecognized option \"text\""},
		{"record all all all all all all text=no", "invalid value of option \"text\": \"no\" (allowed: on, off)"},
		{"record all all all all all all sample=2/3", "invalid value of option \"sample\": \"2/3\" (allowed: 1/N"},
		{"record all all all all all all sample=1/0", "invalid value of option \"sample\""},
		{"record all all all all all all sample=1/4294967297", "invalid value of option \"sample\""},
		{"record all all all all all all redact=", "invalid value of option \"redact\": it is empty"},
		{"record all all all all all all redact=(a", "invalid value of option \"redact\": \"(a\": parentheses () not balanced"},
		{"record all all all all all all redact=a{1,2}", "option \"redact=a{1\" is a list; put a value with commas in quotes"},
		{"record all all all all all all text=off text=off", "option \"text\" is given twice"},
		{"skip all all all all all all sample=1/2", "option \"sample\" has no meaning for what is skipped"},
		{"record \"all all all all all all", "unterminated quoted string at: \"all all all"},
		{"record @nowhere all all all all all", "could not open file \"nowhere\": it does not exist"},
		{"record @unreadable all all all all all", "could not open file \"unreadable\": it is locked"},
		{"include nowhere", "could not open file \"nowhere\": it does not exist"},
		{"include_if_exists unreadable", "could not open file \"unreadable\": it is locked"},
		{"include_dir nowhere", "could not open directory \"nowhere\": it does not exist"},
		{"include a b", "\"include\" needs the name of one file"},
		{"include_dir", "\"include_dir\" needs the name of one directory"},
		{"include rules", "could not open file \"rules\": files are included more than 10 deep"},
	};
	size_t		i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		char		text[400];
		StenoRules *r;

		snprintf(text, sizeof(text), "skip all all all all all all\n\n%s\nsync all all all all all all\n", cases[i].line);
		r = parse(text);
		if (r->error_count == 0 ||
			strncmp(r->errors[0].message, cases[i].message, strlen(cases[i].message)) != 0)
			fprintf(stderr, "%s: %s\n", cases[i].line, r->error_count ? r->errors[0].message : "no error");
		CHECK(r->error_count > 0);
		CHECK(strncmp(r->errors[0].message, cases[i].message, strlen(cases[i].message)) == 0);
		CHECK(r->errors[0].line == 3 && strcmp(r->errors[0].file, "rules") == 0);
		CHECK(r->errors[0].before >= 1);
		CHECK(r->error_count > 1 || r->count >= 2);	/* the lines around are read */
		steno_rules_free(r);
	}
	{
		MemoryFile	file = FILE_OF("rules", "record all all all all \0 all\n");
		StenoRules *r = parse_files(&file, 1);

		CHECK(r->error_count == 1 && strstr(r->errors[0].message, "zero byte") != NULL);
		steno_rules_free(r);
	}
}

TEST(rules_come_from_several_files)
{
	static const MemoryFile files[] = {
		FILE_OF("/etc/rules",
				"record @users,eve all all all all all\n"
				"include more/one\n"
				"include_if_exists nowhere\n"
				"include_dir more\n"
				"skip all all all all all all\n"),
		FILE_OF("/etc/users", "alice, bob # two\n@\"more users\"\n\n"),
		FILE_OF("/etc/more users", "\"@carol\"\n"),
		FILE_OF("/etc/more/one", "\nsync one all all all all all\nwrong\n"),
		FILE_OF("/etc/more/two", "sync two all all all all all"),
	};
	StenoRules *r = parse_files(files, 5);

	CHECK(r->count == 5 && r->error_count == 2);
	CHECK(r->rules[0].columns[STENO_RULE_USER].count == 4);
	CHECK(item_is(&r->rules[0], STENO_RULE_USER, 1, "bob"));
	CHECK(item_is(&r->rules[0], STENO_RULE_USER, 2, "@carol"));
	CHECK(item_is(&r->rules[0], STENO_RULE_USER, 3, "eve"));
	CHECK(r->rules[1].line == 2 && strcmp(r->rules[1].file, "/etc/more/one") == 0);
	CHECK(item_is(&r->rules[2], STENO_RULE_USER, 0, "one"));
	CHECK(item_is(&r->rules[3], STENO_RULE_USER, 0, "two"));
	CHECK(r->rules[4].line == 5 && strcmp(r->rules[4].file, "/etc/rules") == 0);
	CHECK(r->errors[0].line == 3 && strcmp(r->errors[0].file, "/etc/more/one") == 0);
	CHECK(r->errors[0].before == 2);
	steno_rules_free(r);
	r = parse_files(files, 0);	/* no file, no rules */
	CHECK(r->count == 0 && r->error_count == 0);
	steno_rules_free(r);
}

/* So many that work which grows with their square would not end. */
TEST(rules_of_many_lines_load_at_once)
{
	uint64_t	n = test_parameter("RULES", 100000);
	size_t		room = n * 120;
	char	   *text = malloc(room);
	size_t		len = 0;
	unsigned	i;
	StenoRules *r;

	for (i = 0; i < n; i++)
		len += (size_t) snprintf(text + len, room - len,
								 "record user%u,+group%u all app%u* 10.%u.0.0/16 read,write s%u.t* sample=1/%u\n",
								 i, i, i, i % 256, i, i + 1);
	r = parse(text);
	CHECK(r->count == n && r->error_count == 0);
	steno_rules_free(r);
	free(text);
}

static void
change(uint8_t *bytes, size_t len)
{
	static const char special[] = " \t\n\r\\\"#,.*?+@/=all\x1e";
	static uint64_t random;
	int			i;

	if (random == 0)
		random = test_seed();
	steno_fuzz_rules(bytes, len);
	for (i = 0; i < 200 && len > 0; i++)
	{
		bytes[test_below(&random, len)] = (uint8_t) special[test_below(&random, sizeof(special))];
		steno_fuzz_rules(bytes, len);
	}
}

TEST(rules_parser_survives_the_corpus)
{
	each_file(STENO_CORPUS "/rules", change);
}
