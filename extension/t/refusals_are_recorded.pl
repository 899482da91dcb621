
# Refused statements are recorded; refused connections for which nothing can be recorded are counted.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno;
use Test::More;

# A statement that is refused for lack of privileges has a record that says who ran it, what it was,
# its class, and that it was refused.
{
	my $node = new_node('refusals_are_recorded');

	$node->safe_psql(
		'postgres', q{
	CREATE ROLE curious LOGIN;
	CREATE ROLE other;
	CREATE TABLE t (a int, b int);
	CREATE SCHEMA closed;
	CREATE TABLE closed.t (a int);
	CREATE SEQUENCE s;
	CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1';
	REVOKE ALL ON FUNCTION f() FROM PUBLIC;
	CREATE TABLE rows (owner text);
	ALTER TABLE rows ENABLE ROW LEVEL SECURITY;
	GRANT ALL ON rows TO curious;
	GRANT SELECT (a) ON t TO curious;
	});

	# Class => statements that are refused.
	my @refused = (
		read => 'SELECT b FROM t',
		error => 'SELECT a FROM closed.t',	# is refused before it has a class
		read => 'SELECT rolpassword FROM pg_authid',
		read => 'SELECT f()',
		read => q{SELECT pg_read_file('postgresql.conf')},
		read => q{SELECT set_config('steno.log', 'none', false)},
		read => q{SELECT nextval('s')},
		read => 'COPY t TO STDOUT',
		read => 'SELECT a FROM t FOR UPDATE',
		write => 'INSERT INTO t VALUES (1)',
		write => 'UPDATE t SET a = 1',
		write => 'DELETE FROM t',
		write => 'TRUNCATE t',
		write => q{INSERT INTO rows VALUES ('another')},
		role => 'CREATE ROLE one_more',
		role => 'ALTER ROLE curious SUPERUSER',
		role => 'DROP ROLE other',
		role => 'GRANT SELECT ON t TO curious',
		role => 'GRANT other TO curious',
		role => 'REVOKE ALL ON t FROM other',
		ddl => 'CREATE TABLE closed.mine (a int)',
		ddl => 'ALTER TABLE t ADD COLUMN c int',
		ddl => 'DROP TABLE t',
		ddl => 'DROP SCHEMA closed',
		ddl => 'CREATE DATABASE mine',
		ddl => 'ALTER SYSTEM SET work_mem = 64',
		misc_set => 'SET steno.log = none',
		misc_set => 'SET ROLE other',
		misc_set => 'SET SESSION AUTHORIZATION other');

	# Run them all in one session; the fields of its records.
	sub run
	{
		my ($name) = @_;
		my $c = Steno::Client->new($node, application_name => $name, user => 'curious');

		for (my $i = 1; $i < @refused; $i += 2)
		{
			is($c->query($refused[$i])->{sqlstate}, '42501', "$name: refused: $refused[$i]");
		}
		$c->quit;
		return [
			map { [ @$_{qw(class text user outcome sqlstate)} ] }
			  sort { $a->{seq} <=> $b->{seq} } statements($node, application => $name)
		];
	}

	# What is expected of those of some classes.
	sub expected
	{
		my %in = map { $_ => 1 } @_;

		return [
			map { $in{ $refused[ 2 * $_ ] } ? [ @refused[ 2 * $_, 2 * $_ + 1 ], 'curious', 'error', '42501' ] : () }
			  0 .. @refused / 2 - 1
		];
	}

	is_deeply(run('everything'), expected(qw(read error write role ddl misc_set)), 'each has a record of its class');
	$node->safe_psql('postgres', q{ALTER ROLE curious SET steno.log = 'error'});
	is_deeply(run('errors'), expected(qw(read error write role ddl misc_set)), 'with class error alone');
	$node->safe_psql('postgres', q{ALTER ROLE curious SET steno.log = 'none'});
	is_deeply(run('mandatory'), expected(qw(role ddl)), 'with none: those of mandatory classes');
	$node->stop;
	verify_ok($node, 'the trail is whole');
}

# A client that is refused before it has a process slot of the server has no ring: nothing can be
# recorded about it, but it is counted.
{
	my $node = new_node('what_nobody_could_record_is_counted', conf => "max_connections = 5\nsuperuser_reserved_connections = 0\n");
	my @clients;

	is(value($node, 'SELECT lost FROM steno.status'), 0, 'nothing is lost so far');
	foreach (1 .. 5)
	{
		push @clients, Steno::Client->new($node, application_name => 'there');

		# one that has just gone may still have its slot
		wait_until 'it is let in', sub {
			return 1 if !$clients[-1]{greeting}{sqlstate};
			$clients[-1] = Steno::Client->new($node, application_name => 'there');
			return 0;
		};
	}
	my $before = $clients[0]->query('SELECT lost FROM steno.status')->{rows}[0][0];
	is(Steno::Client->new($node)->{greeting}{sqlstate}, '53300', 'one too many is refused') for 1 .. 3;
	is($clients[0]->query('SELECT lost FROM steno.status')->{rows}[0][0] - $before, 3, 'and counted');
	is($clients[0]->query('SELECT state, failure, refused, dropped FROM steno.status')->{rows}[0][0],
		'ok', 'which is no failure of the trail');
	$_->quit foreach @clients;
	$node->stop;
}

done_testing();
