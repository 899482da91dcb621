
# The text of a statement is what the client sent, including the comments before it, in which drivers
# name the origin of a statement.  In a string of several statements, a comment belongs to the
# statement that follows it.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $c = Steno::Client->new($node, application_name => 'comments');
my $number = 0;

# Texts of the client's statements since the last call, in their order.
sub texts
{
	my @r = sort { $a->{statement} <=> $b->{statement} }
	  grep { $_->{statement} > $number && !$_->{substatement} } statements($node, pid => $c->{pid});

	$number = $r[-1]{statement} if @r;
	return map { $_->{text} } @r;
}

value($node, 'CREATE TABLE t (a int)');

my @comments = ('/* user=alice */ ', "/*a*//*b*/", "-- route=/cart\n", "\n  /* a; /* b; */ ; */\t-- c;\n  ", "--\r", '/* -- */ ');
my %statements = (
	'a query' => [ 'SELECT 1', undef ],
	'a query that the planner cannot plan' => [ 'SELECT 1/0', '22012' ],
	'a query that fails in the executor' => [ "SELECT 1/relpages FROM pg_class WHERE relname = 't'", '22012' ],
	'a query that the parser refuses' => [ 'SELECT FROM WHERE', '42601' ],
	'a query of what is not there' => [ 'SELECT nosuch', '42703' ],
	'a change' => [ 'INSERT INTO t VALUES (1)', undef ],
	'a utility statement' => [ 'COMMENT ON TABLE t IS NULL', undef ],
	'a utility statement that fails' => [ 'DROP TABLE nosuch', '42P01' ],
	'the query of a utility statement' => [ 'EXPLAIN ANALYZE /* inside */ SELECT 1', undef ],
	'a copy' => [ 'COPY (/* inside */ SELECT 1) TO STDOUT', undef ]);

foreach my $what (sort keys %statements)
{
	my ($sql, $sqlstate) = @{ $statements{$what} };
	my (@texts, @wanted);

	foreach my $comment (@comments)
	{
		is($c->query($comment . $sql)->{sqlstate}, $sqlstate, "$what: its outcome");
		(my $text = $comment . $sql) =~ s/^\s+//;
		push @wanted, $text;
		next if $sql =~ /^COPY/;
		is($c->extended($comment . $sql)->{sqlstate}, $sqlstate, "$what: its outcome in the extended protocol");
		push @wanted, $text;
	}
	is_deeply([ texts() ], \@wanted, "$what: has its comments");
}

# ---- prepared statements, again and again ----
{
	my @wanted;

	foreach my $comment (@comments)
	{
		$c->parse('p', "${comment}SELECT \$1 + 1", 23);
		foreach (1 .. 8)
		{
			$c->bind_values('', 'p', $_);
			$c->execute('');
			$c->sync->finish;
			push @wanted, "${comment}SELECT \$1 + 1" =~ s/^\s+//r;
		}
		$c->query('DEALLOCATE p');
		push @wanted, 'DEALLOCATE p';
	}
	is_deeply([ texts() ], \@wanted, 'prepared statements have their comments');
}

# ---- transactions ----
{
	my @strings = ('/* a */ BEGIN', "-- b\nSAVEPOINT s", "/* c */ ROLLBACK TO s", "/* d */ COMMIT", '/* e */ BEGIN', "-- f\nROLLBACK");

	$c->query($_) foreach @strings;
	is_deeply([ texts() ], \@strings, 'transaction control has its comments');
}

# ---- strings of several ----
{
	my @parts = (
		'/* 1; */ SELECT 1',
		"-- 2; 'a\nSET work_mem = '1MB' /* inside */",
		"SELECT ';--' /* ;\n */ AS \"--;\"",
		"/* 4 */ INSERT INTO t VALUES (4)",
		'SELECT 5',
		"-- 6\n/* 6 */ SELECT 1 -- inside\n",
		"/* 7 */ BEGIN",
		"-- 8\n COMMIT",
		"--9\nSELECT \$\$;--\$\$");

	foreach my $separator (';', "; ", ";\n", " ;\n\n; \n")
	{
		my @wanted = map { s/\s+\z//r } @parts;

		is($c->query(join $separator, @parts)->{sqlstate}, undef, 'a string of several statements');
		is_deeply([ texts() ], \@wanted, 'each has the comments before it');
	}
	foreach my $fails ('SELECT 1/0', "SELECT 1/relpages FROM pg_class WHERE relname = 't'", 'SELECT nosuch', 'DROP TABLE nosuch')
	{
		my @some = ('/* 1 */ SELECT 1', "-- 2;\n-- 2\n$fails", '/* 3 */ SELECT 3');

		ok($c->query(join ";\n", @some)->{sqlstate}, "$fails fails");
		is_deeply([ texts() ], [ @some[ 0, 1 ] ], 'and has the comments before it');
	}
	$c->query("/* the last */ SELECT 1 /* goes */ -- on\n");
	is_deeply([ texts() ], ['/* the last */ SELECT 1 /* goes */ -- on'], 'what follows the last statement is a part of it');
}

# ---- statements of functions ----
{
	my ($outer, @nested);

	$c->query(q{SET steno.log_nested = on});
	$c->query(q{CREATE FUNCTION f() RETURNS int LANGUAGE sql VOLATILE AS
$$ -- first;
INSERT INTO t VALUES (1); /* second */ INSERT INTO t VALUES (2); INSERT INTO t VALUES (3); -- 'fourth;
 SELECT 4 $$});
	texts();
	$c->query('SELECT f() FROM t LIMIT 1');
	flush($node);
	@nested = sort { $a->{substatement} <=> $b->{substatement} } grep { $_->{statement} > $number } statements($node, pid => $c->{pid});
	is_deeply(
		[ map { $_->{text} } grep { $_->{substatement} } @nested ],
		[ "-- first;\nINSERT INTO t VALUES (1)", '/* second */ INSERT INTO t VALUES (2)', 'INSERT INTO t VALUES (3)', "-- 'fourth;\n SELECT 4" ],
		'statements of functions have their comments');
}

$c->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
