
# Statements of the classes in steno.log_start have a record when they start.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $sessions = 0;
my $name;

$node->safe_psql('postgres', 'CREATE TABLE t (i int)');

# Kind, text and outcome of what a session with this steno.log_start runs, in order.
sub run
{
	my ($log_start, @sql) = @_;
	my $c;

	$name = 'session ' . ++$sessions;
	$c = Steno::Client->new(
		$node,
		application_name => $name,
		options => '-c steno.log_start=' . $log_start =~ s/ /\\ /gr);
	ref $_ ? $c->extended(@$_) : $c->query($_) foreach @sql;
	$c->quit;
	return [
		map { join ' ', $_->{kind}, $_->{outcome} // 'ok', $_->{text} // '' }
		  grep { $_->{kind} =~ /^(start|statement)$/ } ordered()
	];
}

sub ordered
{
	my @found = sort { $a->{seq} <=> $b->{seq} } records($node, application => $name);

	return @found;
}

is_deeply(run('none', 'SELECT 1', 'CREATE TABLE a ()'),
	[ 'statement ok SELECT 1', 'statement ok CREATE TABLE a ()' ], 'none');
is_deeply(
	run('ddl', 'SELECT 1', 'CREATE TABLE b ()', 'CREATE TABLE b ()'),
	[
		'statement ok SELECT 1',
		'start running CREATE TABLE b ()',
		'statement ok CREATE TABLE b ()',
		'start running CREATE TABLE b ()',
		'statement error CREATE TABLE b ()'
	],
	'a class of utility statements');
is_deeply(
	run('all, -read', 'SELECT 1', 'INSERT INTO t VALUES (1)', 'SET work_mem = 1000'),
	[
		'statement ok SELECT 1',
		'start running INSERT INTO t VALUES (1)',
		'statement ok INSERT INTO t VALUES (1)',
		'start running SET work_mem = 1000',
		'statement ok SET work_mem = 1000'
	],
	'a list with an exception');

# What it says.
is_deeply(
	run('read', [ 'SELECT i FROM t WHERE i = $1', 7 ]),
	[ 'start running SELECT i FROM t WHERE i = $1', 'statement ok SELECT i FROM t WHERE i = $1' ],
	'with a parameter');
{
	my ($start) = grep { $_->{kind} eq 'start' } ordered();
	my ($end) = grep { $_->{kind} eq 'statement' } ordered();

	is($start->{seq} + 1, $end->{seq}, 'it is numbered');
	is_deeply(
		[ @$start{qw(statement class command relations params user database time)} ],
		[ @$end{qw(statement class command relations params user database time)} ],
		'it says what the record of the end says');
	is($start->{params}[0], '7', 'parameters among it');
	is($start->{relations}[0]{name}, 'public.t', 'and relations');
	is_deeply([ @$start{qw(duration_us rows sqlstate)} ], [ undef, undef, undef ], 'but for the end');
}

# Nested statements, each inside the statement that runs it.
is_deeply(
	run('write, function', 'DO $$ BEGIN INSERT INTO t VALUES (1); PERFORM 1; END $$'),
	[
		'start running DO $$ BEGIN INSERT INTO t VALUES (1); PERFORM 1; END $$',
		'start running INSERT INTO t VALUES (1)',
		'statement ok INSERT INTO t VALUES (1)',
		'statement ok SELECT 1',
		'statement ok DO $$ BEGIN INSERT INTO t VALUES (1); PERFORM 1; END $$'
	],
	'nested statements');
is_deeply(
	[ map { [ $_->{kind}, $_->{statement}, $_->{depth} // 0, $_->{substatement} // 0 ] }
		  grep { defined $_->{statement} } ordered() ],
	[
		[ 'start', 1, 0, 0 ], [ 'start', 1, 1, 1 ], [ 'statement', 1, 1, 1 ],
		[ 'statement', 1, 1, 2 ], [ 'statement', 1, 0, 0 ]
	],
	'their numbers');

# Only what is recorded.
{
	my $c = Steno::Client->new(
		$node,
		application_name => $name = 'not recorded',
		options => '-c steno.log_start=all -c steno.log=ddl');

	$c->query('SELECT 1');
	$c->query('CREATE TABLE c ()');
	$c->quit;
	is_deeply(
		[ map { $_->{text} } grep { $_->{kind} eq 'start' } ordered() ],
		['CREATE TABLE c ()'], 'a class that is not recorded has no start records');
}

# A text that does not fit the ring at once.
{
	my $text = "SELECT '" . 'x' x 100_000 . "'";

	is_deeply(run('read', $text), [ "start running $text", "statement ok $text" ], 'a big text, twice');
}

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
