
# pgBadger counts the same queries, by user and database, in the server's own log and in the trail.

use strict;
use warnings;

use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $tmp = PostgreSQL::Test::Utils::tempdir();
my $node = new_node(
	'main', conf => q{
logging_collector = on
log_destination = 'csvlog'
log_directory = 'log'
log_filename = 'server.log'
log_rotation_age = 0
log_rotation_size = 0
log_min_duration_statement = 0
log_statement = none
log_connections = on
log_disconnections = on
});

value($node, 'CREATE ROLE alice SUPERUSER LOGIN; CREATE ROLE bob SUPERUSER LOGIN');
value($node, 'CREATE DATABASE shop');

# The work of a client, by both protocols.
sub work
{
	my ($user, $database, $times) = @_;
	my $c = Steno::Client->new($node, user => $user, database => $database, application_name => 'work');

	$c->query('CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY, b text)');
	foreach my $i (1 .. $times)
	{
		$c->query("INSERT INTO t VALUES ($i, 'it''s $i') ON CONFLICT DO NOTHING");
		$c->query("SELECT b FROM t WHERE a = $i");
		$c->extended('UPDATE t SET b = $2 WHERE a = $1', $i, "value $i");
		$c->extended('SELECT a FROM t WHERE b = $1', "value $i");
		$c->query("DELETE FROM t WHERE a = $i") if $i % 2;
	}
	$c->query('BEGIN');
	$c->query("SELECT count(*)\nFROM t -- \"quoted\", with a comma");
	$c->query('DECLARE c CURSOR FOR SELECT a FROM t');
	$c->query('FETCH 2 FROM c');
	$c->query('COMMIT');
	$c->query('COPY t TO STDOUT');
	$c->query('PREPARE p (int) AS SELECT b FROM t WHERE a = $1');
	$c->query('EXECUTE p (1)');
	$c->query('DO $$ BEGIN PERFORM a FROM t; DELETE FROM t; END $$');
	$c->query('SELECT 1/0');
	$c->query('SELEC 1');
	$c->query('SELECT a FROM missing');
	$c->query('TRUNCATE t');
	$c->quit;
	return;
}

work('alice', 'postgres', 10);
work('alice', 'shop', 3);
work('bob', 'shop', 7);
{
	my $c = Steno::Client->new($node, user => 'bob', application_name => 'differs');

	$c->query('SELECT 1 AS first; SELECT 2 AS second');
	$c->quit;
}
is(Steno::Client->new($node, user => 'nobody')->{greeting}{sqlstate}, '28000', 'a client is refused');
wait_until 'they have gone',
  sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name IN ('work', 'differs')}) eq '0' };
flush($node);
$node->stop;

# What pgBadger makes of a log, or of what one application did.
sub badger
{
	my ($log, $application) = @_;
	my @only = $application ? ('-N', $application) : ();

	command_ok([ 'pgbadger', '-q', '-f', 'csv', '-j', '1', '--pid-dir', $tmp, @only, '-x', 'json', '-o', "$tmp/out.json", $log ],
		"pgbadger reads $log");
	return JSON::PP->new->utf8->decode(slurp_file("$tmp/out.json"));
}

my ($code, $csv, $err) = steno_result('cat', '--format', 'csvlog', trail($node));
die "steno cat failed: $err" if $code != 0;
append_to_file("$tmp/trail.csv", $csv);
my %log = (server => $node->data_dir . '/log/server.csv', trail => "$tmp/trail.csv");

# Counts, without durations and times: by query and user, by user and database and
# kind of query, of errors by user, of connections.
sub counts
{
	my ($report) = @_;
	my $queries = $report->{normalyzed_info}{postgres} // {};
	my $errors = $report->{error_info}{postgres} // {};
	my %counts;

	foreach my $query (keys %$queries)
	{
		my $users = $queries->{$query}{users};

		$counts{queries}{$query} = { map { $_ => $users->{$_}{count} } keys %$users };
	}
	foreach my $by (qw(user database host application))
	{
		my $all = $report->{"${by}_info"}{postgres} // {};

		foreach my $name (keys %$all)
		{
			$counts{$by}{$name} = { map { $_ => $all->{$name}{$_} } grep { !/duration/ } keys %{ $all->{$name} } };
		}
	}
	$counts{errors} = { map { $_ => $errors->{$_}{count} } keys %$errors };
	return \%counts;
}

my $server = counts(badger($log{server}, 'work'));
my $trail = counts(badger($log{trail}, 'work'));

# that there is something to compare
is($trail->{user}{bob}{insert}, 7, 'inserts of one user');
is($trail->{database}{shop}{delete}, 6, 'deletes in one database');
is($trail->{queries}{'select b from t where a = ?;'}{alice}, 13, 'one query of one user');
is($trail->{errors}{'ERROR:  division by zero'}, 3, 'one error');
cmp_ok(scalar keys %{ $trail->{queries} }, '>', 12, 'queries');

foreach my $by (sort keys %$server)
{
	is_deeply($trail->{$by}, $server->{$by}, "counts by $by");
}
is_deeply([ sort keys %$trail ], [ sort keys %$server ], 'nothing else is counted');

# Connections, which have no application name yet: those of the whole log.
{
	my ($in_log, $in_trail) = map { badger($log{$_}) } qw(server trail);

	foreach my $by (qw(user database database_user host))
	{
		is_deeply(map({ $_->{connection_info}{postgres}{$by} } $in_trail, $in_log), "connections by $by");
	}
	foreach my $by (qw(user database))
	{
		is_deeply(
			map({ my $of = $_->{session_info}{postgres}{$by}; +{ map { $_ => $of->{$_}{count} } keys %$of } }
				$in_trail, $in_log),
			"sessions by $by");
	}
	cmp_ok($in_trail->{connection_info}{postgres}{user}{alice}, '==', 2, 'connections of one user');
}

# The difference, as docs/formats.md has it: the server logs a string of several
# statements as one.
is_deeply(
	[ map { counts(badger($log{$_}, 'differs'))->{queries} } qw(server trail) ],
	[
		{ 'select ? as first; select ? as second;' => { bob => 1 } },
		{
			'select ? as first;' => { bob => 1 },
			'select ? as second;' => { bob => 1 }
		}
	],
	'several statements in one message');
done_testing();
