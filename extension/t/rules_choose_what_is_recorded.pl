
# The rules file: each column and each option, and that the first rule that matches decides.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => q(
listen_addresses = '127.0.0.1'
steno.mandatory = 'connect, setting, role'
));
my $rules_file = $node->data_dir . '/pg_steno_rules.conf';

$node->append_conf('pg_hba.conf', 'host all all 127.0.0.1/32 trust');
$node->restart;
$node->safe_psql('postgres', q(
CREATE SCHEMA app;
CREATE SCHEMA secret;
CREATE TABLE app.t (a int);
CREATE TABLE app.u (a int);
CREATE TABLE secret.s (a int);
CREATE TABLE secret."T.x" (a int);
CREATE TABLE public.log (a int);
CREATE ROLE alice LOGIN SUPERUSER;
CREATE ROLE bob LOGIN SUPERUSER;
CREATE ROLE staff;
CREATE ROLE team;
GRANT staff TO team;
GRANT team TO bob;
CREATE DATABASE other;
));

# These rules, in force in every session.
sub rules
{
	my ($text) = @_;
	my $before = changes();

	unlink $rules_file;
	append_to_file($rules_file, $text);
	$node->reload;
	wait_until 'the rules have changed', sub { changes() > $before };
	return;
}

sub changes
{
	return scalar grep { $_->{extra}{name} eq 'steno.rules_file' } records($node, kind => 'setting');
}

# Texts of the statements that are recorded of a new session.
sub run
{
	my ($facts, @sql) = @_;
	my $c = Steno::Client->new($node, application_name => 'run', %$facts);
	my $pid = $c->{pid};

	$c->query($_) foreach @sql;
	$c->quit;
	return [
		map { $_->{text} // '(none)' }
		  sort { $a->{seq} <=> $b->{seq} } statements($node, pid => $pid)
	];
}

sub psql_over_tcp
{
	my ($sql) = @_;

	$node->safe_psql('postgres', $sql,
		connstr => 'host=127.0.0.1 port=' . $node->port . ' dbname=postgres application_name=tcp');
	return scalar statements($node, text => $sql);
}

# ---- users, databases ----
rules(<<'RULES');
record alice all all all read app.t
skip alice all all all all all
skip +staff all all all read all
skip all other all all write,read all
RULES
is_deeply(run({ user => 'alice' }, 'SELECT a FROM app.t', 'SELECT a FROM app.u', 'DISCARD PLANS'),
	['SELECT a FROM app.t'], 'a user, and the first match');
is_deeply(run({}, 'SELECT a FROM app.u'), ['SELECT a FROM app.u'], 'another user');
is_deeply(run({ user => 'bob' }, 'SELECT 1', 'DISCARD PLANS'), ['DISCARD PLANS'],
	'a member of a role, through another one');
is_deeply(run({ database => 'other' }, 'SELECT 1', 'DISCARD PLANS'), ['DISCARD PLANS'], 'a database');
is_deeply(run({}, 'SET SESSION AUTHORIZATION bob', 'SELECT 1', 'RESET SESSION AUTHORIZATION', 'SELECT 2'),
	[ 'SET SESSION AUTHORIZATION bob', 'RESET SESSION AUTHORIZATION', 'SELECT 2' ],
	'the session user changes');
is_deeply(run({}, 'SET ROLE bob', 'SELECT 1'), [ 'SET ROLE bob', 'SELECT 1' ], 'SET ROLE does not change it');
{
	my $c = Steno::Client->new($node, user => 'bob', application_name => 'revoked');

	$c->query('SELECT 1');
	value($node, 'REVOKE team FROM bob');
	$c->query('SELECT 2');
	value($node, 'GRANT team TO bob');
	$c->query('SELECT 3');
	$c->quit;
	is_deeply([ map { $_->{text} } statements($node, application => 'revoked') ],
		['SELECT 2'], 'membership is that of the moment');
}

# ---- applications, clients ----
rules(<<'RULES');
skip all all "psql*",tool all read all
skip all all tcp 127.0.0.0/30 all all statement="SELECT 'range'"
skip all all tcp 127.0.0.1 all all statement="SELECT 'address'"
skip all all tcp host all all statement="SELECT 'host'"
skip all all tcp local,::1,10.0.0.0/8 all all
skip all all here local read all
RULES
is_deeply(run({ application_name => 'tool' }, 'SELECT 1'), [], 'an application');
is_deeply(run({ application_name => 'psql 16' }, 'SELECT 1'), ['SELECT 1'],
	'a quoted * is no wildcard');
is_deeply(run({ application_name => 'here' }, 'SELECT 1'), [], 'a local client');
is_deeply(
	run({}, 'SELECT 1', 'SET application_name = tool', 'SELECT 2', 'BEGIN',
		'SET LOCAL application_name = x', 'SELECT 3', 'ROLLBACK', 'SELECT 4', 'RESET application_name', 'SELECT 5'),
	[ 'SELECT 1', 'SET application_name = tool', 'BEGIN', 'SET LOCAL application_name = x', 'SELECT 3',
		'ROLLBACK', 'RESET application_name', 'SELECT 5' ],
	'the application name changes');
is(psql_over_tcp(q{SELECT 'other'}), 1, 'a client of another address');
is(psql_over_tcp(q{SELECT 'range'}), 0, 'a range of addresses');
is(psql_over_tcp(q{SELECT 'address'}), 0, 'an address');
is(psql_over_tcp(q{SELECT 'host'}), 0, 'any address');

# ---- objects ----
rules(<<'RULES');
skip all all run all read,write app.*
record all all run all read secret.s text=off
skip all all run all all secret."T.x",lo?
RULES
is_deeply(
	run({}, 'SELECT a FROM app.t', 'INSERT INTO app.u VALUES (1)', 'SELECT t.a FROM app.t, app.u',
		'SELECT t.a FROM app.t, public.log', 'SELECT a FROM log', 'SELECT a FROM secret."T.x"',
		'SELECT count(*) FROM secret.s, app.t', 'COPY app.t TO STDOUT', 'SELECT 1'),
	[ 'SELECT t.a FROM app.t, public.log', '(none)', 'SELECT 1' ],
	'object patterns: skip takes all relations, record any');
{
	my $c = Steno::Client->new($node, application_name => 'run');

	$c->query($_) foreach 'SELECT a FROM app.t -- before', 'ALTER TABLE app.t RENAME TO t2',
	  'ALTER TABLE app.t2 SET SCHEMA public', 'SELECT a FROM t2 -- moved',
	  'ALTER TABLE t2 SET SCHEMA app', 'SELECT a FROM app.t2 -- back', 'ALTER TABLE app.t2 RENAME TO t',
	  'ALTER SCHEMA app RENAME TO app2', 'SELECT a FROM app2.t -- renamed', 'ALTER SCHEMA app2 RENAME TO app';
	$c->quit;
	is_deeply([ sort map { $_->{text} } statements($node, text => qr/-- (before|moved|back|renamed)$/) ],
		[ 'SELECT a FROM app2.t -- renamed', 'SELECT a FROM t2 -- moved' ],
		'a relation is judged by its present name');
}

# ---- options ----
rules(<<'RULES');
record all all hide all read all text=off statement="SELECT 'text*"
record all all hide all read all parameters=off statement="SELECT $1*off*"
record all all hide all all all redact="\d{4}-\d{4}|s[e3]cret"
record all all sample all read all sample=1/3
RULES
{
	my $c = Steno::Client->new($node, application_name => 'hide');
	my @r;

	$c->query(q{SELECT 'text'});
	$c->extended('SELECT $1::text -- off', 'hidden');
	$c->extended('SELECT $1::text -- on', 'shown');
	$c->query(q{SELECT 'card 1234-5678, s3cret and 99'});
	$c->query(q{SELECT 'secret'::int});
	$c->query(q{SELEC 'secret'});
	$c->quit;
	@r = sort { $a->{seq} <=> $b->{seq} } statements($node, application => 'hide');
	is($r[0]{text}, undef, 'text=off');
	ok(!defined $r[0]{text_bytes}, 'and nothing of it');
	is_deeply([ map { [ $_->{text}, $_->{params} ] } @r[ 1, 2 ] ],
		[ [ 'SELECT $1::text -- off', undef ], [ 'SELECT $1::text -- on', ['shown'] ] ], 'parameters=off')
	  or diag explain \@r;
	is($r[3]{text}, q{SELECT 'card <redacted>, <redacted> and 99'}, 'redact');
	is($r[4]{text}, q{SELECT '<redacted>'::int}, 'of a statement that fails');
	is($r[4]{message}, q{invalid input syntax for type integer: "<redacted>"}, 'and of its message');
	is($r[5]{text}, q{SELEC '<redacted>'}, 'and of one with a syntax error');
	is(scalar @r, 6, 'no more');
	is_deeply($r[0]{audited}, [qw(session rule)], 'audited by a rule');
}
foreach (1 .. 2)
{
	my $c = Steno::Client->new($node, application_name => 'sample');

	$c->query("SELECT $_ AS n") foreach 1 .. 10;
	$c->query('SELECT 1/0');
	$c->query('DISCARD PLANS');
	$c->quit;
}
is_deeply(
	[ map { $_->{text} } sort { $a->{session} cmp $b->{session} || $a->{seq} <=> $b->{seq} }
		  statements($node, application => 'sample') ],
	[ ((map { "SELECT $_ AS n" } 1, 4, 7, 10), 'SELECT 1/0', 'DISCARD PLANS') x 2 ],
	'a sample goes by count, session by session; failures are not of its class');

# ---- mandatory classes, and settings ----
rules(<<'RULES');
record all all forced all write all
skip all all all all all all
RULES
is_deeply(run({}, 'ALTER ROLE staff NOLOGIN', 'SELECT 1', 'SELEC', 'BEGIN', 'COMMIT'),
	['ALTER ROLE staff NOLOGIN'], 'mandatory classes are recorded whatever the rules say');
is_deeply([ map { $_->{kind} } grep { $_->{kind} ne 'statement' } sort { $a->{seq} <=> $b->{seq} }
	  records($node, application => 'run', session => (records($node, text => 'ALTER ROLE staff NOLOGIN'))[0]{session}) ],
	[ 'connect', 'disconnect' ], 'connections, too');
{
	my $c = Steno::Client->new($node, application_name => 'forced');
	my @r;

	$c->query('SET steno.log = none');
	$c->query('INSERT INTO app.t VALUES (1)');
	$c->query('SELECT 1');
	$c->quit;
	@r = statements($node, application => 'forced');
	is_deeply([ map { $_->{text} } @r ], ['INSERT INTO app.t VALUES (1)'], 'a rule records what steno.log does not');
	is_deeply($r[0]{audited}, ['rule'], 'and the record says so');
}

# A rule cannot remove parts of mandatory records.
rules(<<'RULES');
record all all all all all all text=off redact=. sample=1/1000 parameters=off
RULES
is_deeply(run({}, 'SELECT 1', 'SELECT 2', 'ALTER ROLE staff NOLOGIN', 'ALTER ROLE staff LOGIN'),
	[ '(none)', 'ALTER ROLE staff NOLOGIN', 'ALTER ROLE staff LOGIN' ],
	'nor does it hide what is mandatory');

# ---- start records ----
rules(<<'RULES');
record all all starts all read,misc all text=off statement="*hidden*"
record all all starts all read all redact=secret
skip all all starts all all all statement="*skipped*"
RULES
{
	my $c = Steno::Client->new($node, application_name => 'starts');

	$c->query(q{SET steno.log_start = 'all'});
	$c->query($_) foreach q{SELECT 'hidden'}, q{SELECT 'a secret'}, q{SELECT 'skipped' AS misc}, 'DISCARD PLANS -- hidden',
	  'DISCARD PLANS -- skipped', 'DISCARD PLANS', 'TRUNCATE app.t -- skipped', 'TRUNCATE app.t';
	$c->quit;
	foreach my $kind (qw(start statement))
	{
		is_deeply(
			[ grep { !defined $_ || !/^SET/ } map { $_->{text} } sort { $a->{seq} <=> $b->{seq} }
				  records($node, application => 'starts', kind => $kind) ],
			[
				undef, q{SELECT 'a <redacted>'}, q{SELECT 'skipped' AS misc}, undef,
			 'DISCARD PLANS', 'TRUNCATE app.t'
			],
			"kind $kind: rules hold for it");
	}
}

# ---- a statement that is cut short by a crash ----
rules(<<'RULES');
record all all hidden all read all text=off
skip all all skipped all read all
RULES
{
	my @c = map { Steno::Client->new($node, application_name => $_) } qw(hidden skipped);

	$_->query('SELECT 1') foreach @c;
	$c[0]->put(Q => "SELECT pg_sleep(1000), 'hidden'\0")->send_all;
	wait_until 'it runs', sub {
		value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) eq '1';
	};
	$node->stop('immediate');
	$node->start;
	is_deeply([ map { $_->{text} } statements($node, application => 'hidden', outcome => 'interrupted') ],
		[undef], 'an interrupted statement has no text either');
	is_deeply([ statements($node, application => 'skipped') ], [], 'one that was left out, and ended, is not interrupted');
}

verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
$node->stop;

# ---- a statement that reads many relations ----

# The cache of relations has a limit, and does not remove what a statement has just looked up.
{
	# more than the cache has room for
	my $most = 4_150;

	my $node = new_node('many', conf => q(
	steno.log = 'none'
	steno.mandatory = 'connect, setting, role'
	max_locks_per_transaction = 512
	));

	$node->safe_psql('postgres', qq(
	CREATE TABLE secret (a int);
	CREATE TABLE plain (a int);
	DO \$\$
	BEGIN
		FOR i IN 1 .. $most LOOP
			EXECUTE format('CREATE VIEW v%s AS SELECT 1 AS one', i);
			IF i % 1000 = 0 THEN COMMIT; END IF;
		END LOOP;
	END \$\$;
	));
	append_to_file($node->data_dir . '/pg_steno_rules.conf', "# type database user address application class object action\n"
		  . "record all all all all read public.secret\n");
	$node->restart;

	my $c = Steno::Client->new($node, application_name => 'many');
	my $others = join ', ', map { "(SELECT one FROM v$_)" } 1 .. $most;

	foreach my $table ('secret', 'plain')
	{
		my $r = $c->query("SELECT array_length(ARRAY[(SELECT a FROM $table), $others], 1)");

		is_deeply([ $r->{sqlstate}, $r->{rows}[0][0] ], [ undef, $most + 1 ], "so many relations in one statement, with $table");
	}
	$c->quit;
	is_deeply([ map { substr $_->{text} // '', 0, 50 } records($node, application => 'many', kind => 'statement') ],
		[ substr "SELECT array_length(ARRAY[(SELECT a FROM secret), $others", 0, 50 ],
		'the one that reads the relation of the rule is recorded, the other is not');
	verify_ok($node, 'many relations: the trail is whole');
	$node->stop;
}

done_testing();
