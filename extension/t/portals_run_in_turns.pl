
# Portals of one session that are open at the same time each get their own record,
# whichever of them runs, or ends, first.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => 'steno.log_parameter = on');
my $client = Steno::Client->new($node, application_name => 'portals');

# What was recorded since the last call, sorted: text, rows, outcome, parameters.
my $seen = 0;

sub recorded
{
	my @all = statements($node, application => 'portals');
	my @new = @all[ $seen .. $#all ];

	$seen = @all;
	return [
		sort { $a cmp $b } map {
			join ' ', $_->{text}, $_->{rows} // '-', $_->{outcome},
			  @{ $_->{params} // [] }
		} @new
	];
}

sub select_of
{
	my ($name) = @_;

	return "SELECT '$name', i FROM generate_series(1, \$1::int) i";
}

$client->query('BEGIN');
foreach my $name (qw(a b c))
{
	$client->parse($name, select_of($name));
}
$client->sync->finish;
recorded();

# b takes the ring from a, and ends; c is staged then, and a ends before c
$client->bind_values('a', 'a', 10)->execute('a', 2);
$client->bind_values('b', 'b', 20)->execute('b', 3)->put('C', "Pb\0");
$client->bind_values('c', 'c', 30)->execute('c', 4);
$client->execute('a', 0)->put('C', "Pa\0");
$client->execute('c', 1)->put('C', "Pc\0")->sync->finish;
is_deeply(
	recorded(),
	[
		select_of('a') . ' 10 ok 10',
		select_of('b') . ' 3 ok 20',
		select_of('c') . ' 5 ok 30',
	],
	'portals that end in another order than they began in');

# bound together before any of them runs
$client->bind_values($_, $_, 5) foreach qw(a b c);
$client->execute($_) foreach qw(c a b);
$client->put('C', "P$_\0") foreach qw(b c a);
$client->sync->finish;
is_deeply(
	recorded(),
	[ map { select_of($_) . ' 5 ok 5' } qw(a b c) ],
	'portals that are bound together');

# one fails while the others are open
$client->query('SAVEPOINT before');
recorded();
$client->parse('d', 'SELECT 1 / (3 - i) FROM generate_series(1, 5) i');
$client->bind_values('a', 'a', 10)->execute('a', 2);
$client->bind_values('b', 'b', 20)->execute('b', 3)->put('C', "Pb\0");
$client->bind_values('d', 'd')->execute('d', 1);
$client->bind_values('c', 'c', 30)->execute('c', 4);
$client->execute('d', 0)->sync->finish;
$client->query('ROLLBACK');
is_deeply(
	recorded(),
	[
		'ROLLBACK - ok',
		select_of('a') . ' 2 ok 10',
		select_of('b') . ' 3 ok 20',
		select_of('c') . ' 4 ok 30',
		'SELECT 1 / (3 - i) FROM generate_series(1, 5) i 1 error',
	],
	'a portal that fails while others are open');

# what a portal runs is that portal's, also when another one began after it
$node->safe_psql('postgres', q{CREATE FUNCTION says(t text) RETURNS text LANGUAGE plpgsql AS
$$BEGIN EXECUTE format('SELECT /* in %s */ 1', t); RETURN t; END$$});
$client->parse($_, "SELECT says('$_'), i FROM generate_series(1, 6) i") foreach qw(e f);
$client->bind_values($_, $_)->execute($_, 1) foreach qw(e f);
$client->execute($_, 1) foreach qw(e f e e f);
$client->put('C', "P$_\0") foreach qw(e f);
$client->sync->finish;
{
	my %of;

	foreach my $name (qw(e f))
	{
		my $portal = the_record($node, "portal $name", kind => 'statement', depth => undef, text => "SELECT says('$name'), i FROM generate_series(1, 6) i");
		my @nested = records($node, kind => 'statement', depth => 1, text => "SELECT /* in $name */ 1");

		is_deeply([ map { $_->{statement} } @nested ], [ ($portal->{statement}) x @nested ], "what portal $name ran has its number");
		is_deeply([ sort { $a <=> $b } map { $_->{substatement} } @nested ], [ 1 .. ($name eq 'e' ? 4 : 3) ], 'and numbers of its own');
	}
}

$client->quit;
gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
done_testing();
