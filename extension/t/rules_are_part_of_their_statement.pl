
# A statement that rules (CREATE RULE) have rewritten into several queries has one record of its own,
# with the row count that the client was told; queries that rules have added are nested in it.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');

$node->safe_psql(
	'postgres', q{
CREATE TABLE log (i int);
CREATE TABLE also (i int);
CREATE RULE on_insert AS ON INSERT TO also DO ALSO INSERT INTO log VALUES (new.i), (new.i);
CREATE RULE on_update AS ON UPDATE TO also DO ALSO INSERT INTO log VALUES (old.i);
CREATE TABLE instead (i int);
CREATE RULE on_insert AS ON INSERT TO instead DO INSTEAD INSERT INTO log VALUES (new.i);
CREATE RULE on_delete AS ON DELETE TO instead DO INSTEAD UPDATE log SET i = 0;
CREATE TABLE tells (i int);
CREATE RULE on_update AS ON UPDATE TO tells DO ALSO NOTIFY told;
CREATE VIEW pair AS SELECT * FROM also;
CREATE RULE on_insert AS ON INSERT TO pair DO INSTEAD (INSERT INTO log VALUES (new.i); INSERT INTO tells VALUES (new.i));
CREATE TABLE fails (i int);
INSERT INTO fails VALUES (1), (2);
CREATE RULE on_insert AS ON INSERT TO fails DO ALSO INSERT INTO log SELECT 1 / (i - 2) FROM fails WHERE i = new.i;
CREATE RULE on_update AS ON UPDATE TO fails DO ALSO INSERT INTO log VALUES (1 / (old.i - 2));
});

my $session = 0;

# The records of a client's statements: each statement's own record, followed by those nested in it.
sub recorded
{
	my ($settings, $do) = @_;
	my $name = 'session ' . ++$session;
	my $c = Steno::Client->new($node, application_name => $name);
	my (%of, @r);

	$c->query($_) foreach @$settings;
	$do->($c);
	$c->quit;
	wait_until 'the session is over', sub { !kill 0, $c->{pid} };
	foreach my $r (statements($node, application => $name))
	{
		push @{ $of{ $r->{statement} }{ $r->{depth} // 0 } }, $r if ($r->{command} // '') !~ /^(SET|BEGIN|COMMIT|ROLLBACK|SAVEPOINT)$/;
	}
	foreach my $n (sort { $a <=> $b } keys %of)
	{
		push @r, join ', ', map {
			my $r = $_;
			($r->{depth} ? 'nested ' : '') . join ' ', $r->{command} // '-', $r->{outcome}, $r->{sqlstate} // (), $r->{rows} // (),
			  map { "$_->{name}:$_->{access}" } @{ $r->{relations} // [] }
		} map { @{ $of{$n}{$_} // [] } } 0, 1;
	}
	return \@r;
}

my $from = 'public.also';

# From PostgreSQL 16 on, the privilege to read the table of a rule's condition is asked for, too.
my $reads = value($node, 'SHOW server_version_num') < 160000 ? '' : 'select,';
my %expected = (
	'INSERT INTO also SELECT generate_series(1, 3)' =>
	  "INSERT ok 3 $from:insert, nested INSERT ok $from:select,insert public.log:insert",
	'UPDATE also SET i = i + 1 WHERE false' =>
	  "UPDATE ok 0 $from:select,update, nested INSERT ok $from:select,update public.log:insert",
	'INSERT INTO instead VALUES (1)' => 'INSERT ok 1 public.instead:select,insert public.log:insert',
	'DELETE FROM instead' => "UPDATE ok 0 public.instead:${reads}delete public.log:update",
	'UPDATE tells SET i = 1 WHERE false' => 'UPDATE ok 0 public.tells:update, nested NOTIFY ok',
	'INSERT INTO pair VALUES (1)' =>
	  'INSERT ok 1 public.pair:select,insert public.tells:insert, nested INSERT ok public.pair:select,insert public.log:insert',
	'UPDATE fails SET i = 5' =>
	  'UPDATE error 22012 public.fails:update, nested INSERT error 22012 public.fails:select,update public.log:insert',
	'INSERT INTO fails SELECT 2' =>
	  'INSERT error 22012 public.fails:insert, nested INSERT error 22012 public.log:insert public.fails:select,insert',
);

foreach my $nested (qw(on off))
{
	my @s = ("SET steno.log_nested = $nested");

	foreach my $sql (sort keys %expected)
	{
		my $e = $expected{$sql};

		is_deeply(recorded(\@s, sub { $_[0]->query($sql) }), [$e], "$sql; log_nested $nested");
		is_deeply(recorded(\@s, sub { $_[0]->extended($sql) }), [$e], "$sql; extended protocol, log_nested $nested");
		is_deeply(recorded(\@s, sub { $_[0]->query('BEGIN'); $_[0]->query('SAVEPOINT s'); $_[0]->query($sql); $_[0]->query('ROLLBACK TO s'); $_[0]->query('COMMIT') }),
			[$e], "$sql; in a block, log_nested $nested");
	}
	is_deeply(
		recorded(\@s, sub {
				my ($c) = @_;
				$c->parse('p', (keys %expected)[0])->sync->finish;
				$c->bind_values('', 'p')->execute('')->sync->finish foreach 1 .. 8;
			}),
		[ ($expected{ (keys %expected)[0] }) x 8 ],
		"prepared, log_nested $nested");
	is_deeply(
		recorded(\@s, sub { $_[0]->query(join ';', 'SELECT 1', sort grep { !/fails/ } keys %expected) }),
		[ 'SELECT ok 1', map { $expected{$_} } sort grep { !/fails/ } keys %expected ],
		"all in one string, log_nested $nested");
}

$node->append_conf('postgresql.conf', 'log_min_messages = panic');
$node->reload;
foreach my $sql (grep { /fails/ } sort keys %expected)
{
	is_deeply(recorded(['SET steno.log_nested = on'], sub { $_[0]->query($sql) }), [ $expected{$sql} ], "$sql; not logged");
}

gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();
