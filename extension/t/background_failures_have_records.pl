
# Failures of functions that processes without a client run outside of any statement: the apply worker of a
# subscription, autovacuum.  Each has one record, as in a client's session.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', streaming => 'logical',
	conf => "max_worker_processes = 20\nwal_retrieve_retry_interval = 100ms\nlog_line_prefix = '%p %b '\n");
my $superuser = getpwuid($>);
my $connstr = $node->connstr('postgres');

$node->safe_psql(
	'postgres', q{
CREATE ROLE owner SUPERUSER LOGIN;
CREATE DATABASE sub;
CREATE TABLE test (id int PRIMARY KEY, data text);
CREATE PUBLICATION p FOR TABLE test;
SELECT pg_create_logical_replication_slot('s', 'pgoutput');
});
$node->safe_psql(
	'sub', qq{
CREATE TABLE test (id int PRIMARY KEY, data text);
CREATE TABLE twice (id int UNIQUE);
CREATE TABLE seen (session_role text, present_role text);
INSERT INTO twice VALUES (1);
CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	IF new.data = 'asks' THEN
		INSERT INTO public.seen VALUES (session_user, current_user);
	ELSIF new.data = 'caught' THEN
		BEGIN INSERT INTO nowhere VALUES (new.id); EXCEPTION WHEN undefined_table THEN NULL; END;
		BEGIN EXECUTE 'SELEC 1'; EXCEPTION WHEN OTHERS THEN NULL; END;
		BEGIN INSERT INTO public.twice VALUES (1); EXCEPTION WHEN OTHERS THEN NULL; END;
	ELSIF new.data = 'unknown' THEN
		INSERT INTO nosuch VALUES (new.id);
	ELSIF new.data = 'another' THEN
		BEGIN INSERT INTO not_handled VALUES (new.id); EXCEPTION WHEN division_by_zero THEN NULL; END;
	ELSIF new.data = 'executed' THEN
		UPDATE public.twice SET id = 1 / (id - 1);
	ELSIF new.data = 'raised' THEN
		RAISE EXCEPTION 'refused by trigger';
	END IF;
	RETURN new;
END \$\$;
CREATE TRIGGER t BEFORE INSERT ON test FOR EACH ROW EXECUTE FUNCTION trg();
ALTER TABLE test ENABLE ALWAYS TRIGGER t;
SET SESSION AUTHORIZATION owner;
CREATE SUBSCRIPTION s CONNECTION \$c\$$connstr\$c\$ PUBLICATION p
	WITH (create_slot = false, slot_name = 's', copy_data = off, disable_on_error = true);
});
my $id = 0;

# Apply a row; whether the subscription goes on.
sub apply
{
	my ($data) = @_;
	my $at = -s $node->logfile;
	my ($enabled, $lsn);

	$node->safe_psql('postgres', 'INSERT INTO test VALUES (' . ++$id . ", '$data')");
	wait_until "$data is applied, or fails", sub {
		$node->safe_psql('sub', "SELECT count(*) FROM test WHERE id = $id") eq '1'
		  || $node->safe_psql('sub', 'SELECT subenabled FROM pg_subscription') eq 'f';
	};
	return 1 if $node->safe_psql('sub', 'SELECT subenabled FROM pg_subscription') eq 't';
	# the worker may say only now that it skips the one before
	($lsn) = slurp_file($node->logfile, $at) =~ /message type "INSERT".*finished at ([0-9A-F\/]+)/;
	$node->safe_psql('sub', "ALTER SUBSCRIPTION s SKIP (lsn = '$lsn')");
	$node->safe_psql('sub', 'ALTER SUBSCRIPTION s ENABLE');
	return;
}

# What is recorded of the worker's failures.
sub failures
{
	return [
		map { join ' | ', map { $_ // '-' } @$_{qw(user role database depth text message)} }
		  sort { $a->{seq} <=> $b->{seq} }
		  statements($node, database => 'sub', outcome => 'error', application => undef, @_) ];
}

# Since PostgreSQL 16, the worker runs as the owner of the table: its triggers see that.  Another worker is asked than
# those that fail.
my $seen = $node->pg_version->major < 16 ? 'owner' : $superuser;
my $who = 'owner | ' . ($seen eq 'owner' ? '-' : $seen) . ' | sub | -';

ok(apply('asks'), 'whose rights the worker has');
is($node->safe_psql('sub', 'SELECT * FROM seen'), "owner|$seen", 'as far as its triggers are concerned');
$node->safe_psql('sub', 'ALTER SUBSCRIPTION s DISABLE');
wait_until 'the worker has ended', sub {
	$node->safe_psql('sub', 'SELECT count(pid) FROM pg_stat_subscription') eq '0';
};
$node->safe_psql('sub', 'ALTER SUBSCRIPTION s ENABLE');

ok(apply('caught'), 'errors that are caught');
is_deeply(
	failures(),
	[
		qq{$who | INSERT INTO nowhere VALUES (new.id) | relation "nowhere" does not exist},
		"$who | SELEC 1 | syntax error at or near \"SELEC\"",
		"$who | INSERT INTO public.twice VALUES (1) | duplicate key value violates unique constraint \"twice_id_key\""
	],
	'each has a record');
foreach my $case (
	[ 'unknown', 'INSERT INTO nosuch VALUES (new.id)', 'relation "nosuch" does not exist' ],
	[ 'another', 'INSERT INTO not_handled VALUES (new.id)', 'relation "not_handled" does not exist' ],
	[ 'executed', 'UPDATE public.twice SET id = 1 / (id - 1)', 'division by zero' ],
	[ 'raised', '-', 'refused by trigger' ])
{
	my ($data, $text, $message) = @$case;

	ok(!apply($data), "$data: an error that is not caught");
	is_deeply(failures(message => $message), ["$who | $text | $message"], 'has one record');
}
ok(apply('good'), 'the worker goes on');
$node->safe_psql('sub', 'ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s');

# Autovacuum: a function of an index.
$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1s\n");
$node->reload;
$node->safe_psql(
	'sub', q{
CREATE FUNCTION fails(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_setting('application_name') = 'psql' OR current_setting('steno.app_user', true) = 'create' THEN RETURN i; END IF;
	BEGIN EXECUTE 'SELEC of_autovacuum'; EXCEPTION WHEN OTHERS THEN NULL; END;
	EXECUTE 'SELECT * FROM of_autovacuum';
	RETURN i;
END $$;
SET steno.app_user = 'create';
CREATE TABLE indexed (a int) WITH (autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0);
CREATE INDEX ON indexed (fails(a));
INSERT INTO indexed SELECT generate_series(1, 10);
});
wait_until 'autovacuum has failed', sub {
	scalar(grep { ($_->{text} // '') eq 'SELECT * FROM of_autovacuum' } statements($node, database => 'sub', outcome => 'error'))
	  && slurp_file($node->logfile) =~ /relation "of_autovacuum" does not exist/;
};
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->reload;
{
	my %found = map { $_ => 1 } @{ failures(text => qr/of_autovacuum/) };

	is_deeply(
		\%found,
		{
			"$superuser | - | sub | - | SELEC of_autovacuum | syntax error at or near \"SELEC\"" => 1,
			"$superuser | - | sub | - | SELECT * FROM of_autovacuum | relation \"of_autovacuum\" does not exist" => 1
		},
		'failures in autovacuum');
}

# The server's log has as many failures of background processes as the trail, beside those that were caught.
$node->stop;
{
	my @logged = slurp_file($node->logfile) =~ /^\d+ (?:logical replication (?:apply )?worker|autovacuum worker) ERROR:  (.*?)(?: at character \d+)?$/mg;
	my @recorded = grep { $_->{message} !~ /nowhere|SELEC|twice_id_key/ }
	  grep { !defined $_->{application} } statements($node, database => 'sub', outcome => 'error');

	is_deeply([ sort map { $_->{message} } @recorded ], [ sort @logged ], 'the failures of the log');
}
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
