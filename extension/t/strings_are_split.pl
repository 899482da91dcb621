
# A statement of a string of several that fails before it runs has its own text,
# whatever quotes, comments and bodies stand in it.  Of a string that cannot be
# parsed nothing runs, and all of it is recorded.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $version = value($node, 'SHOW server_version_num');
my $c = Steno::Client->new($node, application_name => 'strings');

# Pieces of a statement, with semicolons that end none.
my @pieces = (
	"';'", "'it''s; fine'", "E'it''s \\'; \\\\;'", "e'\\';'", "E'a''b\\';c'", "'backslash\\'", "''", "'''; '''",
	'";"', '"a "";"" b"', "U&'; \\0041'",
	'$$;$$', '$tag$ ; $$ ; $other$ ; $tag$', '$ü$ ; $ü$', 'a$b$', 'a$$',
	"E'a'\n'b\\';'", "E'a' -- ; '\n \t'b\\';'", "E'a'\r'b'\n'c\\';'", "'a'\n'b\\'", "1 -- ; ' \r", 'begin atomic',
	'(1; 2)', '((1; 2); 3)', "/* ; */ 1", '/* ; /* ; */ ; */ 1', "1 -- ; ' \" /* \$\$\n", "/* ' */ 1 /* \" */",
	'1 * 2', '1 / 2', '1 - 2', 'case when true then 1 end', 'end', 'atomic');

sub text_of
{
	my ($string) = @_;
	my ($answer, @found);

	$answer = $c->query($string);
	@found = statements($node, pid => $c->{pid}, statement => ++$main::statements);
	utf8::encode($found[0]{text});
	return { text => $found[0]{text}, sqlstate => $found[0]{sqlstate}, count => scalar @found, answer => $answer->{sqlstate} };
}
our $statements = 0;

# Pieces that the parser does not take.
sub is_wrong
{
	my ($piece) = @_;

	return $piece =~ /^(end$|\()/;
}

# Behind these it goes wrong in the statement that they stand in, the second one.
foreach my $piece (@pieces)
{
	my $wrong = "SELECT nosuch, $piece";

	next if is_wrong($piece);
	$statements++;
	is_deeply(
		text_of("SELECT 1 ; $wrong ; SELECT $piece"),
		{ text => $wrong =~ s/\s+\z//r, sqlstate => '42703', count => 1, answer => '42703' }, "in a statement: $piece");
}

# The same, and bodies of functions, when a transaction that has failed refuses them.
$c->query($_) foreach 'BEGIN', 'SELECT 1/0';
$statements += 2;
my $function = 'CREATE FUNCTION f() RETURNS int';
my @bodies = (
	'BEGIN ATOMIC SELECT 1; SELECT 2; END',
	'begin atomic SELECT 1; SELECT 2; end',
	'BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; SELECT 3; END',
	"BEGIN /* ; */ ATOMIC SELECT 'END'; SELECT \"END\"; END",
	'BEGIN ATOMIC SELECT 1 AS end; SELECT 2; END', 'BEGIN ATOMIC SELECT 1 end; SELECT f.case FROM f; END', 'BEGIN ATOMIC END');
foreach my $first ((map { "SELECT $_" } grep { !is_wrong($_) } @pieces), ($version < 140000 ? () : map { "$function $_" } @bodies),
	'CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)')
{
	is_deeply(text_of("$first; SELECT 3"), { text => $first =~ s/\s+\z//r, sqlstate => '25P02', count => 1, answer => '25P02' }, "refused: $first");
}
is(text_of('SELECT $1$; SELECT 2 $1$; SELECT 3')->{text}, 'SELECT $1$; SELECT 2 $1$; SELECT 3', 'a parameter and a dollar');
is(text_of('SELECT $1; SELECT $1')->{text}, 'SELECT $1', 'a parameter is no dollar quote');
$c->query('ROLLBACK');
$statements++;

# Where backslashes escape in every literal, a quote behind one ends none.
$c->query('SET standard_conforming_strings = off');
$statements++;
foreach my $piece ("'a\\'; b'", "'a\\\\'", "N'a\\'; b'", "'a'\n'\\'; b'", "E'a\\'; b'", "B'1'")
{
	my $wrong = "SELECT nosuch, $piece";

	$statements++;
	is_deeply(text_of("SELECT 1 ; $wrong ; SELECT $piece"),
		{ text => $wrong, sqlstate => '42703', count => 1, answer => '42703' }, "with escapes: $piece");
}
$c->query('RESET standard_conforming_strings');
$statements++;

# Of a string that cannot be parsed nothing runs: all of it is in one record.
$c->query('CREATE TABLE stays (a int)');
$statements++;
foreach my $string (
	(map { "SELECT 1 ; SELEC $_, 3; SELECT 2" } @pieces),
	'DROP TABLE stays; SELEC 1', 'SELEC 1; DROP TABLE stays', "DROP TABLE stays;\n SELECT 1 FROM FROM; \n",
	"SELECT 1; $function BEGIN ATOMIC SELEC 1; SELECT 2; END",
	(map { "SELECT 1; SELECT $_ SELECT 3" } "'open; ", '"open; ', '$x$ open; $y$', '/* open; /* ; */ ', "E'open\\'; "))
{
	my $whole = $string =~ s/[\s;]+\z//r;

	is_deeply(text_of($string), { text => $whole, sqlstate => '42601', count => 1, answer => '42601' }, "not parsed: $string");
}
foreach my $escape ("E'\\xff'", "U&'\\D800'", "E'\\uD800'", "E'\\u0'")
{
	my $answer = text_of("SELECT 1; SELECT $escape; DROP TABLE stays");

	like($answer->{answer}, qr/^(22021|22025|42601)$/, "not decoded: $escape");
	is($answer->{text}, "SELECT 1; SELECT $escape; DROP TABLE stays", 'the whole string');
}

# So it is with several statements by the extended protocol.
foreach my $string ('DROP TABLE stays; SELECT 1', "SELECT ';' ; SELECT 2; DROP TABLE stays ;\n")
{
	my $answer = $c->parse('', $string)->sync->finish;
	my @found = statements($node, pid => $c->{pid}, statement => ++$statements);

	is_deeply([ $answer->{sqlstate}, map { @$_{qw(sqlstate text)} } @found ],
		[ '42601', '42601', $string =~ s/[\s;]+\z//r ], "refused: $string");
}
is($c->query('SELECT count(*) FROM stays')->{sqlstate}, undef, 'nothing of it has run');

# Secrets in any of its statements are kept out.
$statements++;
is(text_of("ALTER ROLE nosuch PASSWORD 'hush'; SELEC 1; ALTER ROLE nosuch PASSWORD 'hush'")->{text},
	"ALTER ROLE nosuch PASSWORD '<redacted>'; SELEC 1; ALTER ROLE nosuch PASSWORD '<redacted>'", 'secrets');
$c->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
