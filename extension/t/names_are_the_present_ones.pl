
# Names in records are those at the time of the statement, and a statement that resembles an earlier
# one still has a record of its own.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $c;

value($node, q{
CREATE SCHEMA s;
CREATE TABLE s.t (a int);
CREATE TABLE s.t2 (a int);
CREATE TABLE s.far (a int);
CREATE TABLE s.one (a int);
CREATE TABLE s.two (a int);
CREATE TABLE s.three (a int);
CREATE TABLE s.four (a int);
CREATE TABLE s.five (a int);
});

# What is recorded of each of these, in order: command, class, relations.
sub ran
{
	my @found = sort { $a->{seq} <=> $b->{seq} } statements($node, pid => $c->{pid}, @_);

	return [
		map {
			join ' ', $_->{command}, $_->{class},
			  map { "$_->{name}($_->{access})" } @{ $_->{relations} // [] }
		} @found
	];
}

sub client
{
	$c = Steno::Client->new($node, application_name => 'names', @_);
	return $c;
}

# All twice: the second time much of the record is that of the first time.
sub twice
{
	my ($name) = @_;

	$c->bind_values('', $name)->execute('')->sync->finish for 1, 2;
	return;
}

# ---- relations renamed by another session, and by this one ----
{
	my @names;

	client(options => '-c search_path=s,moved');
	$c->parse('p', 'SELECT /* p */ a FROM t')->sync->finish;
	$c->parse('far', 'SELECT /* far */ a FROM far')->sync->finish;
	$c->parse('join', "SELECT /* far */ 1 FROM far, one, two, three")->sync->finish;

	# t is used all the time, far lies behind others
	foreach my $rename (
		undef,
		sub { value($node, 'ALTER TABLE s.t RENAME TO u; ALTER TABLE s.far RENAME TO f; CREATE VIEW s.t AS SELECT a FROM s.u; CREATE VIEW s.far AS SELECT a FROM s.f') },
		sub { value($node, 'DROP VIEW s.t, s.far; ALTER TABLE s.u RENAME TO t; ALTER TABLE s.f RENAME TO far') },
		sub { value($node, 'ALTER SCHEMA s RENAME TO moved') },
		sub { $c->query('ALTER SCHEMA moved RENAME TO s') },
		sub { $c->query('BEGIN; ALTER SCHEMA s RENAME TO moved'); twice('p'); $c->query('ROLLBACK') })
	{
		$rename->() if $rename;
		twice('p');
		twice('far');
		twice('join');
		$c->query("SELECT a FROM $_") foreach qw(one two three four five);
	}
	$c->quit;
	is_deeply(
		ran(text => 'SELECT /* p */ a FROM t'),
		[
			('SELECT read s.t(select)') x 2,
			('SELECT read s.t(select) s.u(select)') x 2,
			('SELECT read s.t(select)') x 2,
			('SELECT read moved.t(select)') x 2,
			('SELECT read s.t(select)') x 2,
			('SELECT read moved.t(select)') x 2,
			('SELECT read s.t(select)') x 2,
		],
		'a prepared statement has the present names');
	is_deeply(
		ran(text => 'SELECT /* far */ a FROM far'),
		[
			('SELECT read s.far(select)') x 2,
			('SELECT read s.far(select) s.f(select)') x 2,
			('SELECT read s.far(select)') x 2,
			('SELECT read moved.far(select)') x 2,
			('SELECT read s.far(select)') x 4,
		],
		'so has one whose relation was not used lately');
	is_deeply(
		[ map { join ' ', sort grep { /far|\bf\b/ } split / / } @{ ran(text => 'SELECT /* far */ 1 FROM far, one, two, three') } ],
		[
			('s.far(select)') x 2, ('s.f(select) s.far(select)') x 2,
			('s.far(select)') x 2, ('moved.far(select)') x 2,
			('s.far(select)') x 4
		],
		'and one of many relations');
}

# ---- a name alone: the plan stays, the name does not ----
{
	client();
	$c->parse('p', 'SELECT a FROM s.one')->sync->finish;
	twice('p');
	$c->query('BEGIN; ALTER TABLE s.one RENAME TO uno');
	$c->query('SELECT a FROM s.uno') for 1, 2;
	$c->query('ROLLBACK');
	twice('p');
	$c->quit;
	is_deeply(ran(class => 'read'),
		[ ('SELECT read s.one(select)') x 2, ('SELECT read s.uno(select)') x 2, ('SELECT read s.one(select)') x 2 ],
		'a rename that is rolled back');
}

# ---- statements that differ in one thing alone ----
# alike(what, conf, statements, expected): each of them after each other one.
sub alike
{
	my ($what, $options, @cases) = @_;
	my (@sql, @expected);

	client(options => $options);
	foreach my $i (0 .. $#cases)
	{
		foreach my $j (0 .. $#cases)
		{
			foreach my $k ($i, $i, $j, $j)
			{
				my ($run, @expect) = @{ $cases[$k] };

				ref $run ? $run->() : $c->query($run);
				push @expected, @expect;
			}
		}
	}
	$c->quit;
	is_deeply(ran(), \@expected, $what);
	return;
}

alike(
	'other relations', '',
	[ 'SELECT a FROM s.t', 'SELECT read s.t(select)' ],
	[ 'SELECT a FROM s.t2', 'SELECT read s.t2(select)' ],
	[ 'SELECT t.a FROM s.t, s.t2', 'SELECT read s.t(select) s.t2(select)' ],
	[ 'SELECT t.a FROM s.t, s.one', 'SELECT read s.t(select) s.one(select)' ],
	[ 'SELECT 1', 'SELECT read' ]);
alike(
	'other access', '',
	[ 'SELECT a FROM s.t', 'SELECT read s.t(select)' ],
	[ 'SELECT a FROM s.t FOR UPDATE', 'SELECT read s.t(select,update)' ],
	[ 'SELECT t.a FROM s.t, s.t2', 'SELECT read s.t(select) s.t2(select)' ],
	[ 'SELECT t.a FROM s.t, s.t2 FOR UPDATE OF t2', 'SELECT read s.t(select) s.t2(select,update)' ]);
alike(
	'other commands', '',
	[ 'INSERT INTO s.t VALUES (1)', 'INSERT write s.t(insert)' ],
	[ 'WITH w AS (INSERT INTO s.t VALUES (1)) SELECT 1', 'SELECT write s.t(insert)' ]);
alike(
	'another class', '',
	[ 'SELECT a FROM s.two FOR UPDATE', 'SELECT read s.two(select,update)' ],
	[ 'WITH w AS (UPDATE s.two SET a = a) SELECT 1', 'SELECT write s.two(select,update)' ]);

# ---- query identifiers and parameters ----
{
	my (%ids, @found);

	client(options => '-c compute_query_id=on');
	foreach my $sql ('SELECT a FROM s.t', 'SELECT a, a FROM s.t')
	{
		my $id;

		$c->query($sql) for 1, 2;
		$id = $c->query("EXPLAIN (VERBOSE, FORMAT JSON) $sql")->{rows}[0][0];
		($ids{$sql}) = $id =~ /"Query Identifier": (-?\d+)/;
	}
	$c->query($_) foreach sort keys %ids;
	$c->quit;
	@found = grep { $ids{ $_->{text} } } statements($node, pid => $c->{pid});
	is(scalar @found, 6, 'statements with an identifier');
	is_deeply([ map { $_->{query_id} } @found ], [ map { $ids{ $_->{text} } } @found ], 'each has its own');
}
{
	my @wanted;

	client();
	foreach my $types ([23], [25], [], [1043], [ 23, 25 ], [ 25, 23 ], [20], [2950])
	{
		foreach my $other ([23], [25], [])
		{
			foreach my $t ($types, $types, $other, $types)
			{
				my @values = map { $_ == 2950 ? '01234567-89ab-cdef-0123-456789abcdef' : 11 } @$t;
				my $list = join ', ', 7, map { "\$$_" } 1 .. @$t;

				$c->parse('', "SELECT $list", @$t)->bind_values('', '', @values)->execute('')->sync->finish;
				push @wanted, [ "SELECT $list", @values ];
			}
		}
	}
	$c->query('SET steno.log_parameter = off');
	$c->parse('', 'SELECT $1', 23)->bind_values('', '', 5)->execute('')->sync->finish for 1, 2;
	$c->query('SET steno.log_parameter = on');
	$c->parse('', 'SELECT $1', 23)->bind_values('', '', 6)->execute('')->sync->finish for 1, 2;
	push @wanted, [ 'SELECT $1' ], [ 'SELECT $1' ], [ 'SELECT $1', 6 ], [ 'SELECT $1', 6 ];
	$c->quit;
	is_deeply(
		[
			map { [ $_->{text}, @{ $_->{params} // [] } ] } sort { $a->{seq} <=> $b->{seq} }
			  statements($node, pid => $c->{pid}, class => 'read')
		],
		\@wanted, 'parameters of other types');
}

# ---- roles ----
{
	value($node, 'CREATE ROLE before SUPERUSER; CREATE ROLE there SUPERUSER');
	client();
	$c->query($_) foreach 'SET ROLE before', 'SELECT 1', 'RESET ROLE', 'ALTER ROLE before RENAME TO later',
	  'SET ROLE later', 'SELECT 2', 'SET ROLE there', 'SELECT 3', 'RESET ROLE';
	value($node, 'ALTER ROLE there RENAME TO elsewhere');
	$c->query($_) foreach 'SET ROLE elsewhere', 'SELECT 4', 'SET ROLE later', 'SELECT 5';
	$c->quit;
	is_deeply(
		[ map { "$_->{text}: $_->{role}" } sort { $a->{seq} <=> $b->{seq} } statements($node, pid => $c->{pid}, class => 'read') ],
		[ 'SELECT 1: before', 'SELECT 2: later', 'SELECT 3: there', 'SELECT 4: elsewhere', 'SELECT 5: later' ],
		'roles that are renamed');
}

# Queries of a function, whose plans run again and again, while names and settings change.
value($node, q{
CREATE TABLE s.n (id int, a int);
INSERT INTO s.n SELECT i, i FROM generate_series(1, 9) i;
CREATE FUNCTION nested(first int, last int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE x int;
BEGIN
	FOR i IN first .. last LOOP
		SELECT n.id INTO x FROM s.n n WHERE n.id = i;
		UPDATE s.n SET a = x WHERE n.id < i;
	END LOOP;
END $$});
{
	my (@want, @got);
	my $round = 0;

	# Four rounds of both queries: their relations, parameters and rows, as they must be recorded.
	my $run = sub {
		my ($column, %without) = @_;
		my $first = $round + 1;

		$round += 4;
		$c->query("SELECT nested($first % 100, $round % 100)");
		foreach my $i ($first .. $round)
		{
			push @want, map { join '; ', @$_ } [
				$without{relations} ? '' : 's.n select id',
				$without{parameters} ? '' : $i, $without{rows} ? 'none' : $i <= 9 ? 1 : 0
			],
			  [
				$without{relations} ? '' : "s.n select id update $column",
				$without{parameters} ? '' : join(',', $i, $i <= 9 ? $i : ()),
				$without{rows} ? 'none' : $i <= 9 ? $i - 1 : 9
			  ];
		}
	};

	$c = Steno::Client->new($node);
	$run->('a') for 1 .. 2;
	$c->query('ALTER TABLE s.n RENAME a TO b; ALTER TABLE s.n RENAME b TO a');
	$run->('a');
	$c->query('SET steno.log_relation = off');
	$run->('', relations => 1);
	$c->query('SET steno.log_relation = on; SET steno.log_parameter = off');
	$run->('a', parameters => 1);
	$c->query('SET steno.log_parameter = on; SET steno.log_rows = off');
	$run->('a', rows => 1);
	$c->query('SET steno.log_rows = on');
	$run->('a');
	$c->quit;
	@got = map {
		my $r = $_;

		join '; ', join(
			' ',
			map {
				my $relation = $_;

				($relation->{name}, map { ($_, join ',', @{ $relation->{columns}{$_} }) } sort keys %{ $relation->{columns} // {} })
			} @{ $r->{relations} // [] }),
		  join(',', sort { $a <=> $b } map { defined $_ ? $_ : () } @{ $r->{params} // [] }), $r->{rows} // 'none'
	} sort { $a->{seq} <=> $b->{seq} } grep { $_->{depth} } statements($node, pid => $c->{pid});
	is_deeply(\@got, \@want, 'queries of a function that run again');
}

# A column that they do not name themselves is renamed.
value($node, q{
CREATE TABLE s.star (id int, a int);
CREATE FUNCTION star() RETURNS void LANGUAGE plpgsql AS 'BEGIN FOR i IN 1 .. 4 LOOP PERFORM * FROM s.star; END LOOP; END'});
{
	$c = Steno::Client->new($node);
	$c->query('SELECT star()');
	$c->query('ALTER TABLE s.star RENAME a TO b');
	$c->query('SELECT star()') for 1 .. 2;
	$c->quit;
	is_deeply(
		[
			map { join ',', @{ $_->{relations}[0]{columns}{select} } }
			  sort { $a->{seq} <=> $b->{seq} } grep { $_->{depth} } statements($node, pid => $c->{pid})
		],
		[ ('id,a') x 4, ('id,b') x 8 ],
		'columns of a query of a function that are renamed');
}

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
