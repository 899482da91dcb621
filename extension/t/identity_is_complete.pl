
# Who ran a statement: users and roles, the authenticated identity and its method, the client's
# address, the application, and the user that the application names.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "listen_addresses = '127.0.0.1'\npassword_encryption = 'scram-sha-256'\n");
my $superuser = getpwuid($>);
my $sessions = 0;
my $name;

$node->safe_psql(
	'postgres', q{
CREATE ROLE scram_role LOGIN PASSWORD 'pass';
SET password_encryption = 'md5';
CREATE ROLE md5_role LOGIN PASSWORD 'pass';
CREATE ROLE mapped LOGIN;
CREATE ROLE cert_role LOGIN;
CREATE ROLE worker;
CREATE ROLE owner;
CREATE ROLE boss SUPERUSER;
CREATE TABLE t (i int);
GRANT ALL ON t TO worker, owner, scram_role;
CREATE FUNCTION as_owner() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN INSERT INTO t VALUES (1); RETURN 1; END $$;
CREATE FUNCTION fails_as_owner() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN PERFORM 1 / 0; RETURN 1; END $$;
CREATE PROCEDURE calls_as_owner() LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO t VALUES (1); END $$;
CREATE TABLE late (i int);
GRANT INSERT ON late TO worker;
CREATE FUNCTION late_as_owner() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN PERFORM 14; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION late_as_owner();
ALTER FUNCTION late_as_owner() OWNER TO owner;
ALTER FUNCTION as_owner() OWNER TO owner;
ALTER PROCEDURE calls_as_owner() OWNER TO owner;
ALTER FUNCTION fails_as_owner() OWNER TO owner;
GRANT worker TO scram_role;
});

sub session
{
	my (%facts) = @_;

	$name = 'session ' . ++$sessions;
	return Steno::Client->new($node, application_name => $name, %facts);
}

# Records of the present session in their order.
sub ordered
{
	my (%filter) = @_;
	my @found = sort { $a->{seq} <=> $b->{seq} } records($node, %filter);

	return @found;
}

# The fields of a session's statements, by their texts.
sub shown
{
	my ($fields, @filter) = @_;

	return {
		map {
			my $r = $_;

			$r->{text} => [ map { $r->{$_} } @$fields ]
		} ordered(kind => 'statement', @filter)
	};
}

# ---- roles ----

{
	my $c = session();
	my $seen;

	$c->query($_)
	  foreach 'SELECT 1', 'SET ROLE worker', 'SELECT 2', 'SELECT as_owner()', 'SELECT fails_as_owner()', 'SELECT 3', 'SELEC 4',
	  'RESET ROLE', 'SELECT 5', 'SET SESSION AUTHORIZATION scram_role', 'SELECT 6', 'SET ROLE worker', 'SELECT 7', 'RESET SESSION AUTHORIZATION',
	  'SELECT 8', 'BEGIN', 'SET LOCAL ROLE owner', 'SELECT 9', 'ROLLBACK', 'SELECT 10';
	$c->quit;
	$seen = shown([qw(user role)], application => $name);
	is_deeply($seen->{"SELECT $_->[0]"}, $_->[1], "SELECT $_->[0]: @{[ map { $_ // '-' } @{ $_->[1] } ]}")
	  foreach (
		[ 1, [ $superuser, undef ] ],
		[ 2, [ $superuser, 'worker' ] ],
		[ 'as_owner()', [ $superuser, 'worker' ] ],
		[ 'fails_as_owner()', [ $superuser, 'worker' ] ],
		[ 3, [ $superuser, 'worker' ] ],
		[ 5, [ $superuser, undef ] ],
		[ 6, [ 'scram_role', undef ] ],
		[ 7, [ 'scram_role', 'worker' ] ],
		[ 8, [ $superuser, undef ] ],
		[ 9, [ $superuser, 'owner' ] ],
		[ 10, [ $superuser, undef ] ]);
	is_deeply($seen->{'INSERT INTO t VALUES (1)'}, [ $superuser, 'owner' ], 'inside SECURITY DEFINER: its owner');
	is_deeply($seen->{'SELECT 1 / 0'}, [ $superuser, 'owner' ], 'also of what fails in it');
	is_deeply($seen->{'SELEC 4'}, [ $superuser, 'worker' ], 'a syntax error: the role that has sent it');
}

# What a utility statement runs as another role does not make it a statement of that role.
{
	my $c = session();
	my @statements = (
		'CALL calls_as_owner()',
		'DO $$ DECLARE i int := as_owner(); BEGIN END $$',
		'DO $$ BEGIN PERFORM 11; SET LOCAL ROLE owner; PERFORM 12; END $$',
		'CREATE TEMP TABLE made AS SELECT as_owner()',
		'EXPLAIN ANALYZE SELECT as_owner()',
		'FETCH c');
	my $seen;

	$c->query($_) foreach 'SET ROLE worker', @statements[ 0 .. 4 ], 'BEGIN', 'DECLARE c CURSOR FOR SELECT as_owner()',
	  $statements[5], 'COMMIT', 'SELECT 13';
	$c->quit;
	$seen = shown([qw(user role)], application => $name);
	is_deeply($seen->{$_}, [ $superuser, 'worker' ], "role of $_") foreach @statements, 'SELECT 11', 'SELECT 13';
	is_deeply($seen->{$_}, [ $superuser, 'owner' ], "in it: $_") foreach 'INSERT INTO t VALUES (1)', 'SELECT 12';
}

# Nor do deferred triggers that run at a commit, or a function that is called without a statement.
{
	my $c = session();
	my $oid = $c->query(q{SELECT 'as_owner'::regproc::oid})->{rows}[0][0];
	my ($seen, $call);

	$c->query($_) foreach 'SET ROLE worker', 'BEGIN', 'INSERT INTO late VALUES (1)', 'COMMIT';
	$c->call($oid);
	$c->quit;
	$seen = shown([qw(user role)], application => $name);
	is_deeply($seen->{COMMIT}, [ $superuser, 'worker' ], 'role of COMMIT');
	is_deeply($seen->{'SELECT 14'}, [ $superuser, 'owner' ], 'of what it ran');
	($call) = grep { $_->{command} eq 'FUNCTION CALL' } ordered(kind => 'statement', application => $name);
	is($call->{role}, 'worker', 'role of a function call');
}

# The end of a transaction or subtransaction, and no statement, sets the session user back.
{
	my $c = session();
	my $seen;

	$c->query($_)
	  foreach 'SELECT 1', 'BEGIN', 'SET LOCAL SESSION AUTHORIZATION scram_role', 'CREATE TEMP TABLE mine (a int)', 'ROLLBACK', 'SELECT 2',
	  'BEGIN', 'SET LOCAL SESSION AUTHORIZATION scram_role', 'CREATE TEMP TABLE mine_too (a int)', 'SELECT 3', 'COMMIT', 'SELECT 4',
	  'BEGIN', 'SAVEPOINT s', 'SET LOCAL SESSION AUTHORIZATION boss', "SET LOCAL ROLE $superuser", 'SELECT 5', 'ROLLBACK TO s',
	  'SELECT 6', 'COMMIT', 'BEGIN', 'SET LOCAL SESSION AUTHORIZATION boss', "SET LOCAL ROLE $superuser", 'SELECT 7', 'ROLLBACK', 'SELECT 8';
	$c->quit;
	$seen = shown([qw(user role)], application => $name);
	is_deeply($seen->{"SELECT $_->[0]"}, $_->[1], "set back: SELECT $_->[0]: @{[ map { $_ // '-' } @{ $_->[1] } ]}")
	  foreach (
		[ 1, [ $superuser, undef ] ],
		[ 2, [ $superuser, undef ] ],
		[ 3, [ 'scram_role', undef ] ],
		[ 4, [ $superuser, undef ] ],
		[ 5, [ 'boss', $superuser ] ],
		[ 6, [ $superuser, undef ] ],
		[ 7, [ 'boss', $superuser ] ],
		[ 8, [ $superuser, undef ] ]);
	# a third one removes the temporary table when the session ends
	is_deeply(
		[ map { [ $_->{user}, $_->{role} ] } (ordered(kind => 'transaction', application => $name))[ 0, 1 ] ],
		[ [ 'scram_role', undef ], [ 'scram_role', undef ] ],
		'the transactions, of who made them');
}

# ---- the application and its user ----

{
	my $c = session(options => '-c steno.app_user=from\ options');
	my ($seen, @fields);

	$c->query($_) foreach (
		'SELECT 1',
		q{SET steno.app_user = 'alice'}, 'SELECT 2',
		q{SET steno.app_context = 'request 1'}, 'SELECT 3', 'SELEC 3',
		'BEGIN', q{SET LOCAL steno.app_user = 'bob'}, q{SET LOCAL steno.app_context = 'request 2'}, 'SELECT 4', 'COMMIT', 'SELECT 5',
		'BEGIN', q{SET steno.app_user = 'carol'}, 'SELECT 6', 'INSERT INTO t VALUES (6)', 'ROLLBACK', 'SELECT 7',
		q{SELECT set_config('steno.app_user', 'dave', false)}, 'SELECT 8',
		q{DO $$ BEGIN PERFORM set_config('steno.app_user', 'erin', true); PERFORM 9; END $$}, 'SELECT 10',
		q{SET steno.app_user = E'new\nline "\\\\'}, 'SELECT 11',
		q{SET steno.app_user = '}.'x' x 127 . q{'}, q{SET steno.app_context = '}.'y' x 127 . q{'}, 'SELECT 12',
		'RESET steno.app_context', 'RESET steno.app_user', 'SELECT 13',
		q{SET steno.app_user = ''}, 'SELECT 14',
		q{SET application_name = 'another name'}, 'SELECT 15');
	like($c->query(q{SET steno.app_user = '} . 'x' x 128 . q{'})->{message},
		qr/^invalid value for parameter "steno.app_user"/, 'a value that is too long is refused');
	$c->quit;
	@fields = qw(app_user app_context application);
	$seen = shown(\@fields, session => (records($node, text => 'SELECT 15'))[0]{session});
	foreach my $case (
		[ 1, 'from options', undef ],
		[ 2, 'alice', undef ],
		[ 3, 'alice', 'request 1' ],
		[ 4, 'bob', 'request 2' ],
		[ 5, 'alice', 'request 1' ],
		[ 6, 'carol', 'request 1' ],
		[ 7, 'alice', 'request 1' ],
		[ 8, 'dave', 'request 1' ],
		[ 9, 'erin', 'request 1' ],
		[ 10, 'dave', 'request 1' ],
		[ 11, "new\nline \"\\", 'request 1' ],
		[ 12, 'x' x 127, 'y' x 127 ],
		[ 13, 'from options', undef ],
		[ 14, undef, undef ])
	{
		my ($n, @expected) = @$case;

		is_deeply($seen->{"SELECT $n"}, [ @expected, $name ], "SELECT $n: " . join ', ', map { $_ // '-' } @expected);
	}
	is_deeply($seen->{'SELEC 3'}, [ 'alice', 'request 1', $name ], 'a syntax error');
	is_deeply($seen->{'SELECT 15'}, [ undef, undef, 'another name' ], 'the name of the application');
	is(the_record($node, 'a transaction', kind => 'transaction', application => $name)->{app_user},
		'carol', 'a transaction that has failed, of the user that it was for');
}

# Anyone may.
{
	my $c = session();

	$c->query('SET SESSION AUTHORIZATION scram_role');
	is($c->query(q{SET steno.app_user = 'zoe'})->{sqlstate}, undef, 'a role without rights may set it');
	$c->quit;
}

# ---- clients and their authentication ----

my $ssl = -1;
my $data = $node->data_dir;

# A certificate authority's key is the server's own: it has signed itself.
sub make_certificates
{
	return 0 if value($node, 'SHOW ssl_library') ne 'OpenSSL';
	foreach my $command (
		[ 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=server', '-keyout', "$data/server.key", '-out', "$data/server.crt" ],
		[ 'req', '-newkey', 'rsa:2048', '-nodes', '-subj', '/O=Steno/CN=cert_role', '-keyout', "$data/client.key", '-out', "$data/client.csr" ],
		[ 'x509', '-req', '-in', "$data/client.csr", '-CA', "$data/server.crt", '-CAkey', "$data/server.key", '-set_serial', '1', '-days', '2', '-out', "$data/client.crt" ])
	{
		my ($out, $err);
		my $done = eval { IPC::Run::run([ 'openssl', @$command ], '<', \undef, '>', \$out, '2>', \$err) };

		return 0 if !$done;
	}
	chmod 0600, "$data/server.key", "$data/client.key";
	return 1;
}

$ssl = make_certificates();
$node->append_conf('postgresql.conf', "ssl = on\nssl_ca_file = 'server.crt'\n") if $ssl;
unlink("$data/pg_hba.conf");
$node->append_conf('pg_ident.conf', "people $superuser mapped\n");
$node->append_conf(
	'pg_hba.conf', ($ssl ? "hostssl all cert_role 127.0.0.1/32 cert\n" : '') . "
local all mapped peer map=people
local all all trust
host all scram_role 127.0.0.1/32 scram-sha-256
host all md5_role 127.0.0.1/32 md5
");
$node->restart;

# Connect, and check what the session's records say of it.
sub connected
{
	my ($what, $connstr, $expected) = @_;
	my @all;

	$name = 'connection ' . ++$sessions;
	local $ENV{PGPASSWORD} = 'pass';
	is( $node->psql(
			'postgres', 'SELECT 1',
			connstr => "dbname=postgres application_name='$name' port=" . $node->port . " $connstr"),
		0,
		"$what: connected");
	wait_until 'the session has ended', sub { scalar records($node, application => $name, kind => 'disconnect') };
	@all = ordered(application => $name);
	is_deeply([ map { $_->{kind} } @all ], [qw(connect statement disconnect)], "$what: records");
	is_deeply([ @{ $all[0] }{qw(user auth_method identity)} ], $expected, "$what: user, method, identity");
	is_deeply([ map { $_->{client} } @all ], [ ($all[0]{client}) x 3 ], "$what: client in each record");
	return $all[0]{client};
}

my $tcp = 'host=127.0.0.1 sslmode=disable';
my $socket = 'host=' . $node->host;

like(connected('scram by TCP', "$tcp user=scram_role", [ 'scram_role', 'scram-sha-256', 'scram_role' ]),
	qr/^127\.0\.0\.1:\d+$/, 'address and port');
connected('md5 by TCP', "$tcp user=md5_role", [ 'md5_role', 'md5', 'md5_role' ]);
is(connected('peer with a map', "$socket user=mapped", [ 'mapped', 'peer', $superuser ]),
	'[local]', 'a Unix socket');
connected('trust', "$socket user=scram_role", [ 'scram_role', 'trust', undef ]);
SKIP:
{
	skip 'no SSL, or no openssl program', 5 if !$ssl;
	connected(
		'a certificate',
		"host=127.0.0.1 sslmode=require sslcert=$data/client.crt sslkey=$data/client.key sslrootcert=$data/server.crt user=cert_role",
		[ 'cert_role', 'cert', 'CN=cert_role,O=Steno' ]);
}

# The method is known when connections are not recorded.
{
	my $r;

	$node->append_conf('postgresql.conf', "steno.log = 'all, -connect'\nsteno.mandatory = 'none'\n");
	$node->restart;
	local $ENV{PGPASSWORD} = 'pass';
	$name = 'without connect';
	$node->safe_psql('postgres', 'SELECT 1',
		connstr => "dbname=postgres application_name='$name' port=" . $node->port . " $tcp user=scram_role");
	$r = the_record($node, 'no connect record', application => $name);
	like($r->{client}, qr/^127\.0\.0\.1:\d+$/, 'the address is in the statement');
}

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
