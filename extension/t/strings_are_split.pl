
# A statement of a string of several that cannot be parsed has its own text, whatever
# quotes, comments and bodies stand in it and before it.

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
	'(1; 2)', '((1; 2); 3)', "/* ; */ 1", '/* ; /* ; */ ; */ 1', "1 -- ; ' \" /* \$\$\n", "/* ' */ 1 /* \" */",
	'1 * 2', '1 / 2', '1 - 2', 'case when true then 1 end', 'end', 'atomic');

sub text_of
{
	my ($string) = @_;
	my ($answer, @found);

	$answer = $c->query($string);
	@found = statements($node, pid => $c->{pid}, statement => ++$main::statements);
	# of a string that cannot be parsed nothing runs, and one record tells of it
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

# The third of four cannot be parsed.
foreach my $piece (@pieces)
{
	my $wrong = "SELEC $piece, 3";
	my $right = is_wrong($piece) ? '1' : $piece;

	is_deeply(
		text_of("SELECT 1 ; SELECT $right; $wrong ; SELECT $piece"),
		{ text => $wrong, sqlstate => '42601', count => 1, answer => '42601' }, $piece);
}

# Behind these it goes wrong in the statement that they stand in.
foreach my $piece (@pieces)
{
	my $wrong = "SELECT $piece, SELEC 3 ! FROM FROM";

	next if is_wrong($piece);
	is_deeply(
		text_of("SELECT 1; $wrong; SELECT 3"),
		{ text => $wrong, sqlstate => '42601', count => 1, answer => '42601' }, "before the mistake: $piece");
}

# A parameter is no dollar quote.
is(text_of('SELECT 1; SELECT $1$; SELECT 2 $1$; SELECT 3')->{text}, 'SELECT $1$', 'a parameter and a dollar');
is(text_of('SELECT 1; SELECT $1 FROM FROM; SELECT $1')->{text}, 'SELECT $1 FROM FROM', 'a parameter');

# Bodies of functions.
my $function = 'CREATE FUNCTION f() RETURNS int';
foreach my $body (
	'BEGIN ATOMIC SELECT 1; SELEC 2; END',
	'begin atomic SELECT 1; SELEC 2; end',
	'BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELEC 2; SELECT 3; END',
	"BEGIN /* ; */ ATOMIC SELECT 'END'; SELEC \"END\"; END",
	'BEGIN ATOMIC SELEC 1; SELECT 2; END')
{
  SKIP:
	{
		skip 'before PostgreSQL 14', 1 if $version < 140000;
		is(text_of("SELECT 1; $function $body; SELECT 4")->{text}, "$function $body", $body);
	}
}
is(text_of('BEGIN; SELECT atomic; SELEC 2; END; SELECT 3')->{text}, 'SELEC 2', 'BEGIN is no body');
is(text_of('CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELEC 2); SELECT 3')->{text},
	'CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELEC 2)', 'a rule of several statements');

# What never ends goes to the end of the string.
foreach my $open ("'open; ", '"open; ', '$x$ open; $y$', '/* open; /* ; */ ', "E'open\\'; ")
{
	is(text_of("SELECT 1; SELECT $open SELECT 3")->{text}, "SELECT $open SELECT 3", "without end: $open");
}
$c->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
