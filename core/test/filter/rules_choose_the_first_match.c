/*
 * core/test/filter/rules_choose_the_first_match.c
 *		Which rule decides for a session, a class, and a statement.
 */
#include <setjmp.h>
#include <string.h>

#include "test/rule_files.h"
#include "test/test.h"

static bool
member(void *arg, const char *group)
{
	return strcmp(group, arg) == 0;
}

static const StenoRuleSession nobody = {"alice", "db", "psql", {STENO_CLIENT_LOCAL, 0, {0}}, member, "staff"};

static StenoRules *
parse(const char *text)
{
	MemoryFile	file = {"rules", text, strlen(text)};
	MemoryFiles m;
	StenoRules *r;

	memory_files(&m, &file, 1);
	r = steno_rules_parse(&m.functions, "rules");
	CHECK(r->error_count == 0);
	return r;
}

/* Whether a rule with these first columns matches the session. */
static bool
matches(const char *four, const StenoRuleSession *session)
{
	char		line[300];
	StenoRules *r;
	StenoChoice choice;
	bool		result;

	snprintf(line, sizeof(line), "skip %s all all", four);
	r = parse(line);
	CHECK(steno_rules_choose(r, session, &choice));
	result = choice.skipped == ~0u;
	CHECK(result || choice.count == 0);
	steno_choice_free(&choice);
	steno_rules_free(r);
	return result;
}

TEST(rules_match_sessions)
{
	StenoRuleSession s = nobody;

	CHECK(matches("all all all all", &s));
	CHECK(matches("alice all all all", &s) && !matches("Alice all all all", &s));
	CHECK(matches("bob,alice all all all", &s) && !matches("\"+staff\" all all all", &s));
	CHECK(matches("+staff all all all", &s) && !matches("+others all all all", &s));
	CHECK(matches("all db all all", &s) && !matches("all d* all all", &s));
	CHECK(matches("all all psql all", &s) && matches("all all ps?l all", &s));
	CHECK(matches("all all p* all", &s) && !matches("all all \"p*\" all", &s));
	CHECK(!matches("all all \"\" all", &s));
	CHECK(matches("all all all local", &s) && !matches("all all all host", &s));
	CHECK(!matches("all all all 0.0.0.0/0", &s));
	s.application = "";
	CHECK(matches("all all \"\" all", &s));
	CHECK(steno_parse_address("10.1.2.3", &s.client));
	CHECK(!matches("all all all local", &s) && matches("all all all host", &s));
	CHECK(matches("all all all 10.0.0.0/8", &s) && matches("all all all 10.1.2.3", &s));
	CHECK(matches("all all all 10.1.2.0/30", &s) && !matches("all all all 10.1.2.4/30", &s));
	CHECK(matches("all all all 0.0.0.0/0", &s) && !matches("all all all ::/0", &s));
	CHECK(steno_parse_address("2001:db8::1", &s.client));
	CHECK(matches("all all all 2001:db8::/32", &s) && !matches("all all all 2001:db9::/32", &s));
	CHECK(matches("all all all host", &s));
	s = nobody;
	s.user = s.database = s.application = NULL;
	s.member = NULL;
	s.client.kind = STENO_CLIENT_NONE;
	CHECK(matches("all all all all", &s) && !matches("alice all all all", &s));
	CHECK(!matches("+staff all all all", &s) && !matches("all db all all", &s));
	CHECK(!matches("all all * all", &s) && !matches("all all all local,host", &s));
}

#define BIT(id) (1u << STENO_CLASS_##id)

static jmp_buf out;
static bool leaves;

static bool
member_or_not(void *arg, const char *group)
{
	(void) arg;
	(void) group;
	if (leaves)
		longjmp(out, 1);
	return true;
}

/* Whether a role is a member is looked up in catalogs, which an error or a cancel may end. */
TEST(a_choice_that_is_interrupted_is_empty)
{
	static const StenoRuleSession session = {"alice", "db", "psql", {STENO_CLIENT_LOCAL, 0, {0}}, member_or_not, NULL};
	static StenoRules *r;
	static StenoChoice c;

	r = parse("skip all all all all ddl all\n"
			  "record all all all all write secret.*\n"
			  "skip +staff all all all read all\n");
	leaves = true;
	if (setjmp(out) == 0)
	{
		steno_rules_choose(r, &session, &c);
		CHECK(!"it was not left");
	}
	CHECK(c.count == 0 && c.plain.count == 0 && c.skipped == 0 && c.looked_at == 0 && !c.objects);
	CHECK(steno_rules_first(&c, STENO_CLASS_DDL, NULL, 0, "x", 1) == NULL);
	steno_choice_free(&c);
	leaves = false;
	CHECK(steno_rules_choose(r, &session, &c));
	CHECK(c.count == 3 && c.plain.count == 2 && c.skipped == (BIT(DDL) | BIT(READ)));
	steno_choice_free(&c);
	steno_rules_free(r);
}

TEST(rules_sum_up_in_masks)
{
	StenoRules *r = parse("record all all all all ddl all\n"
						  "skip all all all all ddl,read all\n"
						  "record all all all all write secret.*\n"
						  "skip all all all all write all\n"
						  "record all all all all function all parameters=off\n"
						  "skip all all all all connect,misc all statement=x\n"
						  "record all all all all transaction all text=off\n"
						  "record bob all all all role all\n");
	StenoChoice c;

	CHECK(steno_rules_choose(r, &nobody, &c));
	CHECK(c.forced == BIT(DDL));
	CHECK(c.skipped == BIT(READ));
	CHECK(c.looked_at == (BIT(WRITE) | BIT(FUNCTION) | BIT(MISC) | BIT(TRANSACTION)));
	CHECK(c.may_record == (BIT(WRITE) | BIT(FUNCTION) | BIT(TRANSACTION)));
	CHECK(c.hiding == BIT(TRANSACTION));
	CHECK(c.objects && c.count == 7);
	steno_choice_free(&c);
	steno_rules_free(r);
	r = parse("record all all all all all all\nskip all all all all all all\n");
	CHECK(steno_rules_choose(r, &nobody, &c));
	CHECK(c.forced == ~0u && c.skipped == 0 && c.count == 1 && !c.objects);
	steno_choice_free(&c);
	steno_rules_free(r);
}

/* The line of the rule that decides on a statement with these relations, 0: none. */
static int
decides(const char *text, int class, const char *statement, int n, const char *const *relations)
{
	StenoRules *r = parse(text);
	StenoChoice c;
	StenoRuleMatches matches[8];
	uint32_t	indexes[8][64];
	StenoRule  *rule;
	int			result;
	int			i;

	CHECK(steno_rules_choose(r, &nobody, &c));
	for (i = 0; i < n; i++)
	{
		matches[i].indexes = indexes[i];
		matches[i].count = steno_rules_of_object(&c, relations[i * 2], relations[i * 2 + 1], indexes[i]);
	}
	rule = steno_rules_first(&c, class, matches, (uint32_t) n, statement, strlen(statement));
	result = rule ? rule->line : 0;
	steno_choice_free(&c);
	steno_rules_free(r);
	return result;
}

TEST(rules_match_statements)
{
	static const char *const one[] = {"public", "t"};
	static const char *const two[] = {"public", "t", "secret", "s"};
	static const char *const odd[] = {"My.S", "a*b"};
	const char *text = "skip all all all all read public.*\n"
		"record all all all all read secret.* text=off\n"
		"record all all all all write secret.* sample=1/2\n"
		"record all all all all write *.t,u parameters=off\n"
		"skip all all all all all all statement=\"SELECT 1\"\n"
		"skip all all all all all all statement=\"select *;* ?\"\n"
		"skip all all all all write all";

	CHECK(decides(text, STENO_CLASS_READ, "x", 1, one) == 1);
	CHECK(decides(text, STENO_CLASS_READ, "x", 2, two) == 2);	/* skip: all of them */
	CHECK(decides(text, STENO_CLASS_READ, "x", 0, NULL) == 0);
	CHECK(decides(text, STENO_CLASS_READ, "SELECT 1", 0, NULL) == 5);
	CHECK(decides(text, STENO_CLASS_READ, "SELECT 12", 0, NULL) == 0);
	CHECK(decides(text, STENO_CLASS_READ, "select a;b ?", 0, NULL) == 6);
	CHECK(decides(text, STENO_CLASS_READ, "select a;b c", 0, NULL) == 0);
	CHECK(decides(text, STENO_CLASS_WRITE, "x", 2, two) == 4);	/* a sample: all */
	CHECK(decides(text, STENO_CLASS_WRITE, "x", 1, two + 2) == 3);
	CHECK(decides(text, STENO_CLASS_WRITE, "x", 1, odd) == 7);
	CHECK(decides("skip all all all all all \"My.S\".\"a*b\"", STENO_CLASS_READ, "x", 1, odd) == 1);
	CHECK(decides("skip all all all all all \"My.S\".a?b", STENO_CLASS_READ, "x", 1, odd) == 1);
	CHECK(decides("skip all all all all all M*.\"a?b\"", STENO_CLASS_READ, "x", 1, odd) == 0);
	CHECK(decides("skip all all all all all \"all\"", STENO_CLASS_READ, "x", 1, odd) == 0);
	CHECK(decides("skip all all all all all *", STENO_CLASS_READ, "x", 0, NULL) == 0);
	CHECK(decides("skip all all all all all *", STENO_CLASS_READ, "x", 1, odd) == 1);
}

TEST(rules_samples_go_by_count)
{
	StenoRules *r = parse("record all all all all all all sample=1/3");
	int			i;

	for (i = 0; i < 9; i++)
		CHECK(steno_rule_sampled(&r->rules[0]) == (i % 3 == 0));
	steno_rules_free(r);
}

/* What the search for the first rule must find, found rule by rule. */
static int
slow_first(StenoChoice *c, int class, const char *const *relations, int n)
{
	uint32_t	i;

	for (i = 0; i < c->count; i++)
	{
		StenoRule  *rule = c->rules[i];
		uint32_t	indexes[200];
		uint32_t	with = 0;
		int			k;

		if (!(rule->classes & 1u << class))
			continue;
		for (k = 0; k < n; k++)
		{
			uint32_t	count = steno_rules_of_object(c, relations[k * 2], relations[k * 2 + 1], indexes);
			uint32_t	j;

			for (j = 0; j < count; j++)
				with += indexes[j] == i;
		}
		if (rule->columns[STENO_RULE_OBJECT].all || with == (uint32_t) n * (n > 0))
		{
			if (rule->columns[STENO_RULE_OBJECT].all || n > 0)
				return rule->line;
		}
		else if (with > 0 && rule->action != STENO_RULE_SKIP && rule->sample <= 1)
			return rule->line;
	}
	return 0;
}

TEST(rules_search_agrees_with_one_by_one)
{
	static const char *const names[] = {"a", "b", "*", "a.*", "a.b", "b.b", "*.a", "all"};
	static const char *const class_lists[] = {"read", "write", "read,write", "all"};
	uint64_t	random = test_seed();
	int			run;

	for (run = 0; run < 300; run++)
	{
		char		text[10000];
		size_t		len = 0;
		StenoRules *r;
		StenoChoice c;
		int			i;

		for (i = 0; i < 40; i++)
			len += (size_t) snprintf(text + len, sizeof(text) - len, "%s all all all all %s %s%s\n",
									 test_below(&random, 2) ? "skip" : "record",
									 class_lists[test_below(&random, 4)], names[test_below(&random, 8)], "");
		r = parse(text);
		CHECK(steno_rules_choose(r, &nobody, &c));
		for (i = 0; i < 20; i++)
		{
			const char *relations[6];
			StenoRuleMatches matches[3];
			uint32_t	indexes[3][64];
			int			n = (int) test_below(&random, 4);
			int			class = test_below(&random, 2) ? STENO_CLASS_READ : STENO_CLASS_WRITE;
			StenoRule  *rule;
			int			k;

			for (k = 0; k < n; k++)
			{
				relations[k * 2] = test_below(&random, 2) ? "a" : "b";
				relations[k * 2 + 1] = test_below(&random, 2) ? "a" : "b";
				matches[k].indexes = indexes[k];
				matches[k].count = steno_rules_of_object(&c, relations[k * 2], relations[k * 2 + 1], indexes[k]);
			}
			rule = steno_rules_first(&c, class, matches, (uint32_t) n, "", 0);
			CHECK((rule ? rule->line : 0) == slow_first(&c, class, relations, n));
		}
		steno_choice_free(&c);
		steno_rules_free(r);
	}
}

/* Ten thousand patterns: a relation is compared with them once, a statement with none. */
TEST(rules_of_ten_thousand_patterns_are_searched_by_relation)
{
	size_t		room = 10000 * 80;
	char	   *text = malloc(room);
	uint32_t   *indexes = malloc(10000 * sizeof(uint32_t));
	size_t		len = 0;
	StenoRules *r;
	StenoChoice c;
	StenoRuleMatches m;
	int			i;

	for (i = 0; i < 10000; i++)
		len += (size_t) snprintf(text + len, room - len, "skip all all all all read s.t%d\n", i);
	r = parse(text);
	CHECK(steno_rules_choose(r, &nobody, &c));
	CHECK(c.count == 10000 && c.plain.count == 0);
	m.indexes = indexes;
	m.count = steno_rules_of_object(&c, "s", "t9999", indexes);
	CHECK(m.count == 1 && indexes[0] == 9999);
	for (i = 0; i < 1000000; i++)
		CHECK(steno_rules_first(&c, STENO_CLASS_READ, &m, 1, "x", 1)->line == 10000);
	steno_choice_free(&c);
	steno_rules_free(r);
	free(indexes);
	free(text);
}
