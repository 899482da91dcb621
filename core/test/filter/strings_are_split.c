/*
 * core/test/filter/strings_are_split.c
 *		A statement of a string of several is found, whatever its quotes, comments and
 *		bodies.
 */
#include <string.h>

#include "filter/split.h"
#include "test/test.h"

static char *
copy_of(const char *text, size_t len)
{
	char	   *copy = malloc(len > 0 ? len : 1);

	memcpy(copy, text, len);
	return copy;
}

/* The statement at a position, of a string that ends where its memory ends. */
static bool
is_at(const char *string, bool standard_strings, size_t from, size_t position, const char *expected)
{
	size_t		len = strlen(string);
	char	   *copy = copy_of(string, len);
	size_t		begin;
	size_t		end;
	bool		same;

	steno_split_at(copy, len, standard_strings, from, position, &begin, &end);
	same = begin <= end && end <= len && end - begin == strlen(expected) &&
		memcmp(copy + begin, expected, end - begin) == 0;
	if (!same)
		fprintf(stderr, "string:   %s\nat:       %zu\nexpected: %s\nis:       %.*s\n", string, position, expected,
				begin <= end && end <= len ? (int) (end - begin) : 0, copy + begin);
	free(copy);
	return same;
}

/* One statement: behind another one, before another one, and both. */
static void
is_one_with(const char *statement, bool standard_strings)
{
	char		string[400];
	size_t		begin;
	size_t		position;

	snprintf(string, sizeof(string), "SELECT 1 ;\n %s ; SELECT 2", statement);
	begin = (size_t) (strstr(string, statement) - string);
	for (position = begin; position < begin + strlen(statement); position++)
		CHECK(is_at(string, standard_strings, 0, position, statement));
	CHECK(is_at(string, standard_strings, 0, STENO_SPLIT_FIRST, "SELECT 1"));
	CHECK(is_at(string, standard_strings, 8, STENO_SPLIT_FIRST, statement));
	CHECK(is_at(string, standard_strings, begin + strlen(statement), STENO_SPLIT_FIRST, "SELECT 2"));
	CHECK(is_at(string, standard_strings, begin, 2, "SELECT 1"));
}

static void
is_one(const char *statement)
{
	is_one_with(statement, true);
}

static void
are_two(const char *first, const char *second)
{
	char		string[400];

	snprintf(string, sizeof(string), "%s;%s", first, second);
	CHECK(is_at(string, true, 0, STENO_SPLIT_FIRST, first));
	CHECK(is_at(string, true, 0, strlen(string) - 1, second));
}

TEST(split_at_semicolons_outside_of_literals_and_names)
{
	is_one("SELECT ';', 'it''s; fine', '', '''; '''");
	is_one("SELECT E'it''s \\'; \\\\;', e'\\';', E'a''b\\';c'");
	is_one("SELECT 'a\\' || ';\\'");
	are_two("SELECT 'a\\'", "SELECT 'b'");
	is_one("SELECT \";\", \"a \"\";\"\" b\", \"a\\\"");
	is_one("SELECT U&'; \\0041', U&\"d;\\0061\" UESCAPE '\\'");
	are_two("SELECT U&'\\'", "SELECT 2");
	is_one("SELECT B'1;', x'1;', N'a;'");
	is_one("SELECT $$;$$, $tag$ ; $$ ; $other$ ; $tag$, $\xc3\xbc$ ; $\xc3\xbc$");
	is_one("SELECT $1, a$b$, a$$, $a1$;$a1$");
	are_two("SELECT $1", "SELECT $1");
	are_two("SELECT a$b$", "SELECT a$b$");
	are_two("SELECT me'x\\'", "SELECT 2");
}

/* What follows an E'' literal behind the end of a line is the same literal. */
TEST(split_continues_literals_over_lines)
{
	is_one("SELECT E'a'\n'b\\';'");
	is_one("SELECT E'a' -- ;'\n \t'b\\';'");
	is_one("SELECT E'a'\r'b'\n'c\\';'");
	are_two("SELECT 'a'\n'b\\'", "SELECT 2");
	are_two("SELECT E'a' 'b\\'", "SELECT 2");
	are_two("SELECT E'a' /*\n*/ 'b\\'", "SELECT 2");
	are_two("SELECT E'a'\n /* */\n 'b\\'", "SELECT 2");
	are_two("SELECT E'a'\n, 'b\\'", "SELECT 2");
	are_two("SELECT E'a'\n x 'b\\'", "SELECT 2");
	/* a new statement begins anew */
	are_two("SELECT E'a'", "\n'b\\'" + 1);
}

TEST(split_at_quotes_as_the_session_reads_them)
{
	is_one_with("SELECT 'a\\'; b'", false);
	is_one_with("SELECT N'a\\'; b', 'a'\n'\\'; b', \"a\\\"", false);
	is_one_with("SELECT 'a\\\\', B'1'", false);
	CHECK(is_at("SELECT 'a\\';b'; SELECT 2", true, 0, 0, "SELECT 'a\\'"));
	CHECK(is_at("SELECT 'a\\';b'; SELECT 2", false, 0, 0, "SELECT 'a\\';b'"));
}

TEST(split_takes_comments_for_blanks)
{
	is_one("SELECT /* ; */ 1");
	is_one("SELECT /* ; /* ; */ ; */ 1");
	is_one("SELECT /* ' */ 1 /* \" */");
	is_one("SELECT 1 -- ; ' \" /* $$\n + 2");
	is_one("SELECT 1 -- ; ' \" /* $$\r + 2");
	is_one("SELECT 1 +-- ;\n 2 */* ; */ 3");
	is_one("SELECT 1 * 2, 1 / 2, 1 - 2");
	are_two("SELECT 1 /* /* */ ; */", "SELECT 2");
}

/*
 * The text that belongs to the first token "2" of a string, which ends where its memory ends.
 * It is found from the beginning, and from the semicolon before it.
 */
static bool
begins_with(const char *string, const char *expected)
{
	size_t		token = (size_t) (strrchr(string, '2') - string);
	size_t		begin = strlen(string) - strlen(expected);
	char	   *copy = copy_of(string, strlen(string));
	size_t		found = steno_split_begin(copy, true, 0, token);
	bool		same = found == begin;

	if (!same)
		fprintf(stderr, "string: %s\nbegins at %zu instead of %zu\n", string, found, begin);
	for (; same && begin > 0; begin--)
		if (string[begin - 1] == ';')
		{
			same = steno_split_begin(copy, true, begin - 1, token) == found;
			break;
		}
	free(copy);
	return same;
}

TEST(split_gives_comments_to_the_statement_behind_them)
{
	CHECK(begins_with("2", "2"));
	CHECK(begins_with(" \n2", "2"));
	CHECK(begins_with("/* a */ 2", "/* a */ 2"));
	CHECK(begins_with("\n /* a; /* b */ */\t-- c\n2", "/* a; /* b */ */\t-- c\n2"));
	CHECK(begins_with("-- a\r2", "-- a\r2"));
	CHECK(begins_with("--\n2", "--\n2"));
	CHECK(begins_with("1; 2", "2"));
	CHECK(begins_with("1;2", "2"));
	CHECK(begins_with("1;;\n; 2", "2"));
	CHECK(begins_with("1; /* a */ 2", "/* a */ 2"));
	CHECK(begins_with("1; /* a */ ; /* b */ 2", "/* b */ 2"));
	CHECK(begins_with("1; -- a\n2", "-- a\n2"));
	CHECK(begins_with("1 -- a;\n; 2", "2"));
	CHECK(begins_with("1 -- a\n; -- b;\n2", "-- b;\n2"));
	CHECK(begins_with("1; -- a; b\n\n 2", "-- a; b\n\n 2"));
	CHECK(begins_with("'; -- x' ;\n /* a */ 2", "/* a */ 2"));
	CHECK(begins_with("'-- x';\n2", "2"));
	CHECK(begins_with("'/*'; /* a */ 2", "/* a */ 2"));
	CHECK(begins_with("$$;$$; /* $$ ; */ 2", "/* $$ ; */ 2"));
	/* a statement in another one has no more than its own */
	CHECK(begins_with("DECLARE c CURSOR FOR 2", "2"));
	CHECK(begins_with("DECLARE c CURSOR FOR /* a */ 2", "2"));
	CHECK(begins_with("/* a */ DECLARE c CURSOR FOR -- b\n2", "2"));
	CHECK(begins_with("1; /* a */ EXPLAIN /* b */ 2", "2"));
	CHECK(begins_with("EXPLAIN (COSTS off)\n2", "2"));
}

TEST(split_keeps_rules_and_bodies_whole)
{
	is_one("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)");
	is_one("SELECT ((1; 2); 3)");
	are_two("SELECT 1)", "SELECT 2");
	is_one("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END");
	is_one("create function f() returns int begin atomic SELECT 1; SELECT 2; end");
	is_one("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END");
	is_one("CREATE FUNCTION f() RETURNS int BEGIN /* ; */ ATOMIC SELECT 'END'; SELECT \"END\"; END");
	is_one("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 AS end; SELECT t.end FROM t; SELECT 1 end; END");
	is_one("CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC END");
	/* these are names */
	are_two("SELECT begin atomic", "SELECT 2");
	are_two("CREATE VIEW v AS SELECT 1 AS begin, atomic", "SELECT 2");
	are_two("CREATE VIEW v AS SELECT t.begin atomic", "SELECT 2");
	are_two("BEGIN", "SELECT 2");
	are_two("SELECT CASE WHEN true THEN 1 END", "END");
}

TEST(split_of_what_is_not_closed_is_the_rest)
{
	static const char *const open[] = {"'open; ", "\"open; ", "$x$ open; $y$", "/* open; /* ; */ ", "E'open\\'; ", "(open; ",
	"E'open'\n '\\'; "};
	size_t		i;

	for (i = 0; i < sizeof(open) / sizeof(open[0]); i++)
	{
		char		string[100];
		char		rest[80];

		snprintf(rest, sizeof(rest), "SELECT %s SELECT 3", open[i]);
		snprintf(string, sizeof(string), "SELECT 1; %s", rest);
		CHECK(is_at(string, true, 0, strlen(string) - 1, rest));
	}
}

TEST(split_of_nothing_is_the_whole_string)
{
	CHECK(is_at("", true, 0, STENO_SPLIT_FIRST, ""));
	CHECK(is_at(" ;\n", true, 0, STENO_SPLIT_FIRST, " ;"));
	CHECK(is_at("SELECT 1 ; ", true, 8, STENO_SPLIT_FIRST, "SELECT 1 ;"));
	CHECK(is_at("SELECT 1 ; ", true, 0, 1000, "SELECT 1 ;"));
}
