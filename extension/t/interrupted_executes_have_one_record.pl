
# A query of the extended protocol that is canceled between its Bind and its first row, or between two
# of its Executes, has one record: the error.  So has a query whose Bind fails late.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

# An Execute looks for interrupts after the server has logged it, with parameters: printing
# these for the log is when the session is canceled here.
my $node = new_node('main', conf => "log_statement = all\nsteno.log_nested = off\n");
my $folder = PostgreSQL::Test::Utils::tempdir();
my $include = qx(pg_config --includedir-server);

chomp $include;
system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', "-I$include", '-o', "$folder/output.so",
	dirname(__FILE__) . '/output.c');
value($node, qq{
CREATE TABLE read_one (i int);
INSERT INTO read_one SELECT generate_series(1, 10);
CREATE TYPE act;
CREATE FUNCTION act_in(cstring) RETURNS act IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
CREATE FUNCTION act_out(act) RETURNS cstring STRICT LANGUAGE C AS '$folder/output.so';
CREATE TYPE act (INPUT = act_in, OUTPUT = act_out, LIKE = int4);
CREATE FUNCTION sleeps(i int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS \$\$BEGIN PERFORM pg_sleep(60 * i); RETURN true; END\$\$;
});

my ($canceled, $canceled_later, $terminated) = (11, 12, 13);
my $read = 'SELECT i FROM read_one WHERE $1::act IS NOT NULL';
my $session = 0;

# What a client does in a session, and its records, in the order of their beginnings, but for transaction control and settings.
sub recorded
{
	my ($do) = @_;
	my $name = 'session ' . ++$session;
	my $c = Steno::Client->new($node, application_name => $name);

	$do->($c);
	$c->quit;
	wait_until 'the session is over', sub { !kill 0, $c->{pid} };
	return [
		map {
			join ' ', $_->{command} // '-', $_->{outcome}, $_->{sqlstate} // '-', $_->{rows} // '-',
			  join(',', map { $_->{name} } @{ $_->{relations} // [] }), join(',', @{ $_->{params} // [] }), $_->{text} // '-'
		  }
		  grep { ($_->{class} // '') =~ /^(read|write|error)$/ } statements($node, application => $name)
	];
}

# The query's record: its outcome, rows, parameter.
sub query { return "SELECT $_[0] $_[1] public.read_one act $_[2] $read" }

my $select_1 = 'SELECT ok - 1   SELECT 1';

foreach my $earlier (0, 8)
{
	is_deeply(
		recorded(sub {
				my ($c) = @_;
				$c->parse('p', $read)->sync->finish;
				$c->bind_values('', 'p', 99)->execute('')->sync->finish foreach 1 .. $earlier;
				is($c->bind_values('', 'p', $canceled)->execute('')->sync->finish->{sqlstate}, '57014', 'canceled');
				$c->query('SELECT 1');
			}),
		[ (query('ok -', 10, 99)) x $earlier, query('error 57014', '-', $canceled), $select_1 ],
		"before its first row, after $earlier others");
}
is_deeply(
	recorded(sub {
			my ($c) = @_;
			$c->query('BEGIN');
			$c->parse('p', $read)->bind_values('a', 'p', 99)->bind_values('b', 'p', $canceled)->execute('a', 3)->sync->finish;
			is($c->execute('b')->sync->finish->{sqlstate}, '57014', 'canceled');
			$c->query('ROLLBACK');
		}),
	[ query('ok -', 3, 99), query('error 57014', '-', $canceled) ],
	'while another portal of the statement is suspended');
foreach my $between (0, 1)
{
	is_deeply(
		recorded(sub {
				my ($c) = @_;
				$c->query('BEGIN');
				$c->parse('p', $read)->bind_values('a', 'p', $canceled_later)->execute('a', 3)->sync->finish;
				$c->query('SELECT 1') if $between;
				is($c->execute('a', 3)->sync->finish->{sqlstate}, '57014', 'canceled');
				$c->query('ROLLBACK');
			}),
		[ query('error 57014', 3, $canceled_later), ($select_1) x $between ],
		'at its second Execute' . ($between ? ', after another statement' : ''));
}
is_deeply(
	recorded(sub {
			my ($c) = @_;
			is($c->parse('', $read)->bind_values('', '', $terminated)->execute('')->sync->finish->{sqlstate}, '57P01', 'terminated');
		}),
	[ query('error 57P01', '-', $terminated) ],
	'terminated instead of canceled');
is_deeply(
	recorded(sub {
			my ($c) = @_;
			my $bind = pack('Z* Z* n n N a* n n n', '', '', 0, 1, 2, '99', 2, 0, 0);
			is($c->parse('', $read)->put('B', $bind)->execute('')->sync->finish->{sqlstate}, '08P01', 'refused');
		}),
	[ query('error 08P01', '-', 99) ],
	'a Bind with formats of columns that are not there');

# statement_timeout runs from the Parse on; it is served when the Execute has been read
is_deeply(
	recorded(sub {
			my ($c) = @_;
			$c->query(q{SET statement_timeout = '500ms'});
			$c->parse('', $read)->bind_values('', '', 99)->put('H', '')->send_all;
			$c->receive foreach 1 .. 2;
			sleep 1;
			is($c->execute('')->sync->finish->{sqlstate}, '57014', 'timed out');
		}),
	[ query('error 57014', '-', 99) ],
	'a timeout between Bind and Execute');

# not the errors of these: failures in another message, also one with the same text
is_deeply(
	recorded(sub {
			my ($c) = @_;
			$c->query('BEGIN');
			$c->parse('p', $read)->bind_values('a', 'p', 99)->execute('a', 3)->bind_values('a', 'p', 98);
			is($c->sync->finish->{sqlstate}, '42P03', 'there already');
			$c->query('ROLLBACK');
		}),
	[ query('ok -', 3, 99), "- error 42P03 - read_one  $read" ],
	'a Bind of the same portal');
is_deeply(
	recorded(sub {
			my ($c) = @_;
			$c->query('BEGIN');
			$c->parse('p', $read)->bind_values('a', 'p', 99)->execute('a');
			$c->parse('q', 'SELECT i FROM read_one WHERE i > 0 AND $1::act IS NOT NULL')->bind_values('', 'q', $canceled)->execute('');
			is($c->sync->finish->{sqlstate}, '57014', 'canceled');
			$c->query('ROLLBACK');
		}),
	[ query('ok -', 10, 99), "SELECT error 57014 - public.read_one act $canceled SELECT i FROM read_one WHERE i > 0 AND \$1::act IS NOT NULL" ],
	'an Execute of another statement');

is_deeply(
	recorded(sub {
			my ($c) = @_;
			my $slow = 'SELECT i FROM read_one WHERE i > $1::int AND sleeps($1)';
			$c->query('BEGIN');
			$c->query(q{SET LOCAL statement_timeout = '1s'});
			$c->parse('p', $slow)->bind_values('a', 'p', 0)->execute('a', 3)->bind_values('', 'p', 1);
			is($c->sync->finish->{sqlstate}, '57014', 'timed out');
			$c->query('ROLLBACK');
		}),
	[ map { "SELECT $_ SELECT i FROM read_one WHERE i > \$1::int AND sleeps(\$1)" } 'ok - 3 public.read_one 0', 'error 57014 - read_one 1' ],
	'a Bind of the same statement whose planning is canceled');

# failures that the server's log does not get
$node->append_conf('postgresql.conf', 'log_min_messages = log');
$node->reload;
wait_until 'errors are not logged', sub { $node->safe_psql('postgres', 'SHOW log_min_messages') eq 'log' };
is_deeply(
	recorded(sub {
			my ($c) = @_;
			is($c->parse('', $read)->bind_values('', '', $canceled)->execute('')->sync->finish->{sqlstate}, '57014', 'canceled');
		}),
	[ query('error 57014', '-', $canceled) ],
	'a failure that is not logged');

gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();
