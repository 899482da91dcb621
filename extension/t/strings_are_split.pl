
# Each statement of a string has its own part of the text.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno;
use Test::More;

# A statement that is one of several in a string, and fails before it runs, has its own text, whatever
# quotes, comments and bodies it contains.  If a string cannot be parsed, none of it runs, and all of it
# is recorded.
{
	my $node = new_node('strings_are_split');
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

	# With these, parsing fails in the statement that contains them, the second one.
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

	# Where backslashes are escapes in every literal, a quote behind one does not end it.  Since PostgreSQL 19,
	# they never are.
	if ($version < 190000)
	{
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
	}

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

	# The same for several statements by the extended protocol.
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
}

# A string of 10,000 statements is 10,000 small records, each with its own part of
# the text.
{
	my $count = 10_000;
	my $node = new_node('many_statements_in_one_string', conf => "steno.compression = none\n");
	my $c = Steno::Client->new($node, application_name => 'many');

	sub trail_bytes
	{
		my $bytes = 0;

		flush($node);
		$bytes += -s foreach glob trail($node) . '/*/*.steno';
		return $bytes;
	}

	# Texts of statements in their order.  Not decoded, but for line ends: that takes Perl long.
	sub texts
	{
		my (@args) = @_;
		my %texts;

		foreach my $line (lines($node, '--application', 'many', '--kind', 'statement', @args))
		{
			my ($seq, $text) = $line =~ /"seq":(\d+).*"text":"([^"]*)"/ or die "no text: $line";

			$texts{$seq} = $text =~ s/\\n/\n/gr;
		}
		return map { $texts{$_} } sort { $a <=> $b } keys %texts;
	}

	# run(what, string, expected): its records, and not much more of the trail than that.
	sub run
	{
		my ($what, $string, @expected) = @_;
		my $before = trail_bytes();
		my ($bytes, $answer, @texts, @wrong);

		$answer = $c->query($string);
		$bytes = trail_bytes() - $before;
		@texts = grep { /$what/ } texts();
		is(scalar @texts, scalar @expected, "$what: as many records as statements");
		@wrong = grep { ($texts[$_] // '') ne $expected[$_] } 0 .. $#expected;
		is_deeply([ map { $texts[$_] } @wrong[ 0 .. ($#wrong > 4 ? 4 : $#wrong) ] ], [], "$what: each with its own text");

		# the string itself once, and 100 bytes for all else that a record says
		cmp_ok($bytes, '<', length($string) + 100 * @expected, "$what: in a trail of that size");
		return $answer;
	}

	my @statements = map { "SELECT /* all run */ $_" } 1 .. $count;
	my $answer = run('all run', join(";\n", @statements), @statements);
	is(scalar @{ $answer->{tags} }, $count, 'all of them ran');

	# Utility statements, odd separators, and one in the middle that fails.
	@statements = map { $_ % 2 ? "SELECT /* half run */ $_" : "SET work_mem = '${_}kB' /* half run */" } 64 .. $count + 63;
	splice @statements, $count / 2, 0, 'SELECT /* half run */ 1/0';

	# a comment before a statement is part of it
	$answer = run(
		'half run', join(" ; -- ;\n", @statements),
		$statements[0], map { "-- ;\n$_" } @statements[ 1 .. $count / 2 ]);
	is($answer->{sqlstate}, '22012', 'one in the middle failed');
	is(scalar(my @failed = texts('--failed')), 1, 'which is one record');

	$c->quit;
	$node->stop;
	verify_ok($node, 'the trail is whole');
	gapless($node, 'no session has gaps');
}

# The planner runs a function of a cursor's LIMIT: its query's text is its own, not cut out at the place
# where the DECLARE stands.
{
	my $node = new_node('functions_in_a_cursors_limit', conf => q{steno.log_nested = on});

	$node->safe_psql(
		'postgres', q{
	CREATE FUNCTION few(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1 LIMIT 1';
	BEGIN;
	DECLARE c CURSOR FOR SELECT 'a long statement, longer than the function' LIMIT few(3);
	COMMIT;
	});
	my @texts = grep { !/^DECLARE/ } map { $_->{text} // '' } grep { ($_->{depth} // 0) > 0 } records($node, kind => 'statement');
	ok(scalar @texts > 0, 'the function has run');
	is_deeply([ grep { $_ ne 'SELECT $1 LIMIT 1' } @texts ], [], 'its text is its own');
	$node->stop;
}

done_testing();
