
# A portal of the extended protocol that a client leaves open keeps relations, parameters and
# rows in its record, however it ends: by an abort, a disconnect, a timeout, a kill of its session.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.log_parameter = on\nsteno.log_nested = on\n");

$node->safe_psql(
	'postgres', q{
CREATE TABLE read_one (i int);
INSERT INTO read_one SELECT generate_series(1, 10);
CREATE FUNCTION reads() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT count(*) FROM pg_class); END$$;
});

sub gone
{
	my ($c) = @_;

	wait_until 'the session is over', sub { !kill 0, $c->{pid} };
	return;
}

# How the session ends; what ends it comes after the portal has run.
my %ends = (
	'ROLLBACK' => sub { $_[0]->query('ROLLBACK') },
	'ROLLBACK TO' => sub { $_[0]->query('ROLLBACK TO s'); $_[0]->query('COMMIT') },
	'a statement that fails' => sub { $_[0]->query('SELECT 1 / 0'); $_[0]->query('ROLLBACK') },
	'a statement that is no SQL' => sub { $_[0]->query('selec 1'); $_[0]->query('ROLLBACK') },
	'a Bind of its name' => sub { $_[0]->bind_values('portal', 'p', 2)->sync->finish; $_[0]->query('ROLLBACK') },
	'a disconnect' => sub { },
	'idle_in_transaction_session_timeout' => sub {
		$_[0]->query(q{SET idle_in_transaction_session_timeout = '10ms'});
		gone($_[0]);
	},
	'pg_terminate_backend' => sub {
		value($node, "SELECT pg_terminate_backend($_[0]->{pid})");
		gone($_[0]);
	},
);

# Texts, and how often the portal is executed.  A text with a function has nested statements; a long
# one does not fit the ring at once.  Prepared statements have a generic plan after some executions.
my %texts = (
	'a query' => 'SELECT i FROM read_one WHERE i > $1::int',
	'one with nested statements' => 'SELECT i FROM read_one WHERE i > $1::int AND reads() > 0',
	'a long one' => 'SELECT i FROM read_one WHERE i > $1::int AND $$' . ('some long text ' x 20000) . "\$\$ <> ''",
);
my $session = 0;

foreach my $what (sort keys %texts)
{
	foreach my $end (sort keys %ends)
	{
		foreach my $earlier (0, 8)
		{
			my $name = 'session ' . ++$session;
			my $c = Steno::Client->new($node, application_name => $name);

			$c->parse('p', $texts{$what})->sync->finish;
			$c->bind_values('', 'p', 100)->execute('', 0)->sync->finish foreach 1 .. $earlier;
			$c->query('BEGIN');
			$c->query('SAVEPOINT s');
			# a simple query would end the unnamed one
			my $portal = $end eq 'a disconnect' || $end eq 'pg_terminate_backend' ? '' : 'portal';
			$c->bind_values($portal, 'p', 2)->execute($portal, $earlier ? 0 : 3)->sync->finish;
			$ends{$end}->($c);
			$c->quit;
			gone($c);
			my @r = grep { ($_->{params} // [''])->[0] eq '2' } statements($node, application => $name);
			is_deeply(
				[ map { [ $_->{outcome}, $_->{rows}, map { $_->{name} } @{ $_->{relations} // [] } ] } @r ],
				[ [ 'ok', $earlier ? 8 : 3, 'public.read_one' ] ],
				"$what, after $earlier others, ended by $end");
			is($r[0]{text}, $texts{$what}, 'with its text');
		}
	}
}
gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();
