
# Connections, refused connections, disconnections, and server processes that run statements.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', streaming => 'logical', conf => "listen_addresses = '127.0.0.1'\n");

$node->safe_psql(
	'postgres', q{
SET password_encryption = 'scram-sha-256';
CREATE ROLE scram_role LOGIN PASSWORD 'pass';
SET password_encryption = 'md5';
CREATE ROLE md5_role LOGIN PASSWORD 'pass';
CREATE ROLE shut_out LOGIN;
CREATE ROLE limited LOGIN CONNECTION LIMIT 0;
CREATE ROLE cannot_login;
CREATE ROLE plain LOGIN;
CREATE DATABASE closed ALLOW_CONNECTIONS false;
});
my $superuser = getpwuid($>);
unlink($node->data_dir . '/pg_hba.conf');
$node->append_conf(
	'pg_hba.conf', "
local postgres scram_role scram-sha-256
local postgres md5_role md5
local postgres shut_out reject
local all $superuser trust
local postgres limited trust
local postgres cannot_login trust
local postgres plain trust
local missing all trust
local replication $superuser trust
host postgres $superuser 127.0.0.1/32 trust
host postgres shut_out 127.0.0.1/32 reject
");
$node->reload;
wait_until 'the reload is done', sub { value($node, q{SELECT count(*) FROM pg_hba_file_rules WHERE 'md5_role' = ANY (user_name)}) eq '1' };

# connect_as(user, database, password): whether psql could run a statement.
my $names = 0;
my $name;

sub connect_as
{
	my ($user, $database, $password) = @_;

	$name = 'connection ' . ++$names;
	local $ENV{PGPASSWORD} = $password;
	return can_connect($node, $node->connstr($database) . " user=$user application_name='$name'");
}

sub ended
{
	my ($application) = @_;

	return the_record($node, "$application ended",
		kind => 'disconnect', application => $application)
	  if wait_until "$application has ended",
	  sub {
		scalar records($node, kind => 'disconnect', application => $application);
	  };
}

foreach my $case (
	[ $superuser, 'trust' ],
	[ 'scram_role', 'scram-sha-256', 'pass', 'scram_role' ],
	[ 'md5_role', 'md5', 'pass', 'md5_role' ])
{
	my ($user, $method, $password, $identity) = @$case;
	my ($connect, $disconnect, @all);

	ok(connect_as($user, 'postgres', $password), "$method: connected");
	$disconnect = ended($name);
	$connect = the_record($node, "$method: connect", kind => 'connect', application => $name);
	is_deeply(
		[
			@$connect{
				qw(user database client auth_method backend_type outcome class)}
		],
		[ $user, 'postgres', '[local]', $method, 'client backend', 'ok', 'connect' ],
		"$method: fields of connect");
	is($connect->{identity}, $identity, "$method: identity");
	is($connect->{seq}, 1, "$method: it is the session's first record");
	@all = sort { $a->{seq} <=> $b->{seq} } records($node, session => $connect->{session});
	is($all[-1]{kind}, 'disconnect', "$method: its last is the disconnect");
	cmp_ok($disconnect->{duration_us}, '>', $all[-2]{duration_us},
		"$method: session time is longer than the statement's");
	is($disconnect->{sqlstate}, undef, "$method: an ordinary end");
	like($disconnect->{outcome} // 'ok', qr/^ok$/, "$method: an ordinary outcome");
}

# Refused, each with what the server's log says.
foreach my $case (
	[ 'scram_role', 'postgres', 'wrong', '28P01', 'password authentication failed for user "scram_role"', 'scram-sha-256' ],
	[ 'md5_role', 'postgres', 'wrong', '28P01', 'password authentication failed for user "md5_role"', 'md5' ],
	[ 'shut_out', 'postgres', undef, '28000', qr/^pg_hba.conf rejects connection for host "\[local\]", user "shut_out", database "postgres"/ ],
	[ 'stranger', 'postgres', undef, '28000', qr/^no pg_hba.conf entry for host "\[local\]", user "stranger", database "postgres"/ ],
	[ 'unknown_role', 'missing', undef, '28000', 'role "unknown_role" does not exist', 'trust' ],
	[ $superuser, 'missing', undef, '3D000', 'database "missing" does not exist', 'trust' ],
	[ $superuser, 'closed', undef, '55000', 'database "closed" is not currently accepting connections', 'trust' ],
	[ 'limited', 'postgres', undef, '53300', 'too many connections for role "limited"', 'trust' ],
	[ 'cannot_login', 'postgres', undef, '28000', 'role "cannot_login" is not permitted to log in', 'trust' ])
{
	my ($user, $database, $password, $sqlstate, $message, $method) = @$case;
	my $what = "$user to $database";
	my $r;

	ok(!connect_as($user, $database, $password), "$what: refused");
	wait_until "$what is recorded", sub { scalar records($node, kind => 'auth_failed', user => $user, database => $database) };
	$r = the_record($node, $what, kind => 'auth_failed', user => $user, database => $database);
	is_deeply(
		[ @$r{qw(sqlstate outcome client)} ],
		[ $sqlstate, 'error', '[local]' ],
		"$what: fields");
	ref $message
	  ? like($r->{message}, $message, "$what: message")
	  : is($r->{message}, $message, "$what: message");
	is($r->{auth_method}, $method, "$what: method") if $method;
	is(scalar(statements($node, session => $r->{session})), 0, "$what: no statement");
}

# Refused for its options, once it is authenticated.
{
	my $c = Steno::Client->new($node, user => 'plain', application_name => 'quiet', options => '-c steno.log=none');
	my @r;

	is($c->{greeting}{sqlstate}, '42501', 'an option that it may not set');
	wait_until 'that is recorded', sub { scalar records($node, kind => 'auth_failed', user => 'plain') };
	@r = sort { $a->{seq} <=> $b->{seq} } records($node, user => 'plain');
	is_deeply(
		[ map { [ $_->{kind}, $_->{application}, $_->{message} ] } @r ],
		[ [ 'connect', 'quiet', undef ], [ 'auth_failed', 'quiet', 'permission denied to set parameter "steno.log"' ] ],
		'both records have its application');
}

# Over TCP, the client has an address and a port.
{
	my $c = Steno::Client->new($node, tcp => 1, application_name => 'tcp');
	my $port = $c->{socket}->sockport;
	my ($r, $refused, @r);

	is($c->query('SELECT inet_client_port()')->{rows}[0][0], $port, 'TCP: connected');
	$c->quit;
	ended('tcp');
	@r = records($node, application => 'tcp');
	is_deeply([ map { $_->{client} } @r ], [ ("127.0.0.1:$port") x 3 ], 'TCP: address and port in each record');

	foreach my $case ([ 'shut_out', 'pg_hba.conf rejects connection' ], [ 'scram_role', 'no pg_hba.conf entry' ])
	{
		my ($user, $message) = @$case;

		$c = Steno::Client->new($node, tcp => 1, user => $user);
		is($c->{greeting}{sqlstate}, '28000', "TCP: $user is refused");
		$port = $c->{socket}->sockport;
		wait_until 'that is recorded', sub { scalar records($node, kind => 'auth_failed', client => "127.0.0.1:$port") };
		$r = the_record($node, "TCP, $user", kind => 'auth_failed', client => "127.0.0.1:$port");
		like($r->{message}, qr/^$message for host "127\.0\.0\.1", user "$user", database "postgres"/, 'with the message');
		is($r->{user}, $user, 'and the user');
	}
}

# Ended by the server itself.
{
	my $c = Steno::Client->new($node, application_name => 'idle in transaction');
	my $r;

	$c->query(q{BEGIN; SELECT 'in a transaction'; SET LOCAL idle_in_transaction_session_timeout = '10ms'});
	$r = ended('idle in transaction');
	is_deeply(
		[ @$r{qw(outcome sqlstate message)} ],
		[ 'error', '25P03', 'terminating connection due to idle-in-transaction timeout' ],
		'a FATAL error of its own');
}

# Ended by another session, while idle.
{
	my $c = Steno::Client->new($node, application_name => 'idle');
	my $r;

	$c->query('SELECT 1');
	value($node, "SELECT pg_terminate_backend($c->{pid})");
	$r = ended('idle');
	is_deeply(
		[ @$r{qw(outcome sqlstate message)} ],
		[
			'error', '57P01',
			'terminating connection due to administrator command'
		],
		'terminated while idle');
	is(scalar(statements($node, session => $r->{session}, outcome => 'error')),
		0, 'no statement of it has failed');
}

# A client that closes its connection without a message.
{
	my $c = Steno::Client->new($node, application_name => 'vanished');

	$c->query('SELECT 1');
	close $c->{socket};
	ended('vanished');
}

# In a database without the extension.
{
	$node->safe_psql('postgres', 'CREATE DATABASE plain');
	$node->safe_psql('plain', "SELECT 'without extension'");
	is( scalar(statements($node, database => 'plain', text => "SELECT 'without extension'")),
		1, 'a database without the extension');
}

# A parallel query is one record.
{
	my $plan;

	$node->safe_psql('postgres', 'CREATE TABLE big AS SELECT i FROM generate_series(1, 100000) i');
	$node->safe_psql('postgres', 'ANALYZE big');
	$node->safe_psql(
		'postgres', q{
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT count(*) FROM big WHERE i % 2 = 0;
EXPLAIN (ANALYZE, COSTS off) SELECT count(*) FROM big WHERE i % 2 = 0;
});
	is(scalar(statements($node, text => 'SELECT count(*) FROM big WHERE i % 2 = 0')),
		1, 'a parallel query is one record');
	is( scalar(grep { ($_->{backend_type} // '') eq 'parallel worker' } records($node)),
		0, 'its workers have none');
}

# Autovacuum computes the expressions of indexes, whose functions run statements.
{
	my @nested;

	$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1s\n");
	$node->reload;
	$node->safe_psql(
		'postgres', q{
CREATE FUNCTION counts(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
$$ BEGIN RETURN (SELECT i + count(*) FROM (VALUES (1)) v); END $$;
CREATE TABLE indexed (a int) WITH (autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0);
CREATE INDEX ON indexed (counts(a));
ALTER TABLE indexed OWNER TO plain;
INSERT INTO indexed SELECT generate_series(1, 10);
});
	wait_until 'autovacuum has run the function',
	  sub { value($node, q{SELECT count(*) FROM pg_stats WHERE tablename LIKE 'indexed%idx'}) ne '0' };
	$node->append_conf('postgresql.conf', 'autovacuum = off');
	$node->reload;
	@nested = statements($node, text => qr/^\(SELECT i \+ count/, role => 'plain');
	cmp_ok(scalar @nested, '>=', 10, 'what the function has run is recorded');
	is($nested[0]{user}, $superuser, "the user of autovacuum's session");
	is($nested[0]{database}, 'postgres', 'its database');
	is(scalar(grep { $_->{kind} =~ /connect/ } records($node, session => $nested[0]{session})), 0, 'it has no connection');
	is( scalar(grep { $_->{extra}{statements} == 0 } records($node, kind => 'transaction', session => $nested[0]{session})),
		0, 'nor records of transactions in which no function ran a statement');
}

# Background workers that run statements: a subscription's, whose trigger does.
{
	my $subscriber = new_node('subscriber', streaming => 'logical');
	my $connstr = $node->connstr('postgres');
	my $r;

	$node->safe_psql('postgres', 'CREATE TABLE news (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE news');
	$subscriber->safe_psql(
		'postgres', q{
CREATE TABLE news (id int PRIMARY KEY);
CREATE TABLE seen (id int);
CREATE FUNCTION note_news() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO public.seen VALUES (new.id); RETURN new; END $$;
CREATE TRIGGER t AFTER INSERT ON news FOR EACH ROW EXECUTE FUNCTION note_news();
ALTER TABLE news ENABLE ALWAYS TRIGGER t;
});
	$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION \$\$$connstr\$\$ PUBLICATION p");
	$subscriber->wait_for_subscription_sync($node, 's');
	$node->safe_psql('postgres', 'INSERT INTO news VALUES (77)');
	wait_until 'it is there', sub { value($subscriber, 'SELECT count(*) FROM seen') eq '1' };
	$r = the_record($subscriber, 'a statement of a background worker',
		kind => 'statement', text => 'INSERT INTO public.seen VALUES (new.id)');
	is($r->{rows}, 1, 'its rows');
	is($r->{database}, 'postgres', 'its database');
	is($r->{user}, $superuser, 'its user');

	# the publisher's side: a replication connection
	wait_until 'the walsender is recorded',
	  sub { scalar records($node, kind => 'connect', application => 's') };
	$subscriber->stop;
	verify_ok($subscriber, 'the trail of the subscriber is whole');
	gapless($subscriber, 'none of its sessions has gaps');
}

# Start and stop of the server.  A WAL sender may outlive the writers: the next start records its end.
wait_for_walsenders($node);
$node->restart;
$node->stop;
{
	my @events = map { $_->{extra}{event} } records($node, kind => 'server');

	is_deeply(\@events, [qw(start stop start stop)], 'start and stop');
}
is_deeply([ ring_files($node) ], [], 'a clean stop leaves no ring file');
like(verify_ok($node, 'the trail is whole'), qr/^sessions  \d+, 0 of them open$/m, 'and every session has ended');
gapless($node, 'no session has gaps');
{
	my %refused = map { $_->{session} => 1 } records($node, kind => 'auth_failed');

	cmp_ok(scalar keys %refused, '>=', 8, 'clients that were refused');
	is(scalar(grep { $refused{ $_->{session} } } records($node, kind => 'disconnect')), 0,
		'and had no session that could end');
}
done_testing();
