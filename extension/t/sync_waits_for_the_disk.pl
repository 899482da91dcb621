
# steno.sync: a statement starts when its start record is on disk (unless steno.sync_start is off), and its
# transaction is acknowledged when all its records are.  Whatever was acknowledged is in the trail after a power
# failure.

use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;
use Time::HiRes qw(usleep);

my $faults = Steno::Faults->new;
my $node = new_node(
	'main',
	start => 0,
	conf => q{
steno.fsync_interval = -1
max_prepared_transactions = 5
wal_level = replica
max_wal_senders = 1
synchronous_standby_names = 'nobody'
synchronous_commit = local
max_connections = 100
});
my $watch;

sub begin
{
	$faults->start($node);
	$watch = Steno::Client->new($node, application_name => 'watch');
	$watch->query(q{SET steno.log = 'none'});
	return;
}

sub session
{
	my ($name, $sync) = @_;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->query("SET steno.sync = '$sync'");
	return $c;
}

sub ask
{
	my ($c, $sql) = @_;

	$c->put('Q', "$sql\0")->send_all;
	return;
}

sub is_answered
{
	my ($c) = @_;

	return IO::Select->new($c->{socket})->can_read(0);
}

# Until it sleeps in a wait for records of pg_steno.
sub await_wait
{
	my (@clients) = @_;
	my $pids = join ',', map { $_->{pid} } @clients;

	wait_until 'it waits', sub {
		$watch->value("SELECT count(*) FROM pg_stat_activity WHERE pid IN ($pids) AND wait_event = 'StenoSync'") == @clients;
	};
	return;
}

sub await_lock
{
	my ($c) = @_;

	wait_until 'it waits for a lock',
	  sub { $watch->value("SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event = 'advisory'") };
	return;
}

$node->start;
value($node, 'CREATE EXTENSION pg_steno; CREATE TABLE t (i int); CREATE SEQUENCE s; CREATE TABLE ruled (i int)');
$node->stop;
begin();

# The statement has not begun; a sequence shows what a transaction would hide.
{
	my $c = session('start', 'write, ddl');
	my $r;

	$faults->set('hold_sync');
	ask($c, q{INSERT INTO t SELECT nextval('s')});
	await_wait($c);
	ok(!is_answered($c), 'a statement waits for its start record');
	is($watch->value('SELECT is_called FROM s'), 'f', 'it has not begun');
	$faults->unset('hold_sync');
	ok(!$c->finish->{sqlstate}, 'when that is on disk, it runs');
	is($watch->value('SELECT is_called FROM s'), 't', 'now it has');

	$faults->set('hold_sync');
	is($c->query('SELECT 1')->{rows}[0][0], '1', 'a statement of another class does not wait');
	ask($c, 'CREATE TABLE u ()');
	await_wait($c);
	is($watch->value("SELECT to_regclass('u') IS NULL"), 't', 'a utility statement does');
	$faults->unset('hold_sync');
	ok(!$c->finish->{sqlstate}, 'and runs then');
	ok($c->query('DROP TABLE u, nothing')->{sqlstate}, 'a statement that fails has waited, too');
	ok(!$c->query('DROP TABLE u')->{sqlstate}, 'which does no harm');
	$c->quit;
	$r = the_record($node, 'a start record', application => 'start', kind => 'start', text => 'CREATE TABLE u ()');
	is($r->{outcome}, 'running', 'without steno.log_start');
}

# COMMIT is not acknowledged; nor is a transaction without one, nor one that has
# written nothing.
{
	my $c = session('commit', 'write');
	my $n = $watch->value('SELECT count(*) FROM t');

	$c->query('BEGIN');
	ok(!$c->query('INSERT INTO t VALUES (1)')->{sqlstate}, 'in a transaction, the end of a statement does not wait');
	$faults->set('hold_sync');
	ask($c, 'COMMIT');
	await_wait($c);
	is($watch->value('SELECT count(*) FROM t'), $n + 1, 'it has committed');
	ok(!is_answered($c), 'and is not acknowledged');
	$faults->unset('hold_sync');
	is($c->finish->{tags}[0], 'COMMIT', 'when its records are on disk, it is');

	$watch->value('SELECT pg_advisory_lock(1)');
	ask($c, 'INSERT INTO t SELECT 2 FROM (SELECT pg_advisory_lock_shared(1)) x');
	await_lock($c);
	$faults->set('hold_sync');
	$watch->value('SELECT pg_advisory_unlock(1)');
	await_wait($c);
	is($watch->value('SELECT count(*) FROM t'), $n + 2, 'without BEGIN: it has committed');
	ok(!is_answered($c), 'and is not acknowledged');
	$faults->unset('hold_sync');
	is($c->finish->{tags}[0], 'INSERT 0 1', 'then it is');
	$c->query('SELECT pg_advisory_unlock_all()');

	$c->query(q{SET steno.sync = 'read'});
	$watch->value('SELECT pg_advisory_lock(1)');
	ask($c, 'SELECT pg_advisory_lock_shared(1)');
	await_lock($c);
	$faults->set('hold_sync');
	$watch->value('SELECT pg_advisory_unlock(1)');
	await_wait($c);
	$faults->unset('hold_sync');
	is($c->finish->{tags}[0], 'SELECT 1', 'a read, too');

	# without the class, in the same session
	$c->query(q{SET steno.sync = 'none'});
	$faults->set('hold_sync');
	ok(!$c->query('INSERT INTO t VALUES (3)')->{sqlstate}, 'steno.sync = none does not wait');
	$faults->unset('hold_sync');

	# the setting is taken back before the transaction ends
	$c->query(q{SET steno.sync = 'write'});
	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (4)');
	$c->query(q{SET steno.sync = 'none'});
	$faults->set('hold_sync');
	ask($c, 'COMMIT');
	await_wait($c);
	ok(!is_answered($c), 'what began under it waits under it');
	$faults->unset('hold_sync');
	is($c->finish->{tags}[0], 'COMMIT', 'then it is acknowledged');

	# the transaction's record alone
	$c->query(q{SET steno.sync = 'transaction'});
	$faults->set('hold_sync');
	is($c->query('SELECT 1')->{rows}[0][0], '1', 'class transaction: a read does not wait');
	ask($c, 'INSERT INTO t VALUES (5)');
	await_wait($c);
	is($watch->value('SELECT count(*) FROM t WHERE i = 5'), 1, 'the commit does');
	$faults->unset('hold_sync');
	is($c->finish->{tags}[0], 'INSERT 0 1', 'then it is acknowledged');
	$c->quit;
}

# The sync of a transaction's records does not follow the flush of the WAL, but begins before it: a commit that
# waits for a standby, which is part of that, has its statements on disk.
{
	my $c = session('overlap', 'write');
	my $waits_for_standby = sub {
		return $watch->value("SELECT wait_event FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event = 'SyncRep'");
	};

	# the checkpointer tells sessions that there are standbys to wait for
	$c->query('SET synchronous_commit = on');
	wait_until 'a commit waits for a standby', sub {
		$c->query('BEGIN');
		$c->query('INSERT INTO t VALUES (6)');
		ask($c, 'COMMIT');
		wait_until 'it waits or ends', sub { $waits_for_standby->() || is_answered($c) };
		return 1 if !is_answered($c);
		$c->finish;
		return 0;
	};
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	$c->finish;
	foreach my $how ('COMMIT', "PREPARE TRANSACTION 'overlap'")
	{
		my ($syncs, $waits);

		$c->query('BEGIN');
		$c->query('INSERT INTO t VALUES (6)');
		($syncs, $waits) = @{ $watch->query('SELECT syncs, sync_waits FROM steno.writers')->{rows}[0] };
		ask($c, $how);
		wait_until 'it waits for the standby', $waits_for_standby;
		wait_until 'the trail has been synced', sub { $watch->value('SELECT syncs FROM steno.writers') > $syncs };
		ok(!is_answered($c), "$how: the trail is synced while the WAL is");
		$faults->set('hold_sync');
		$watch->value("SELECT pg_cancel_backend($c->{pid})");
		is($c->finish->{tags}[0], $how =~ s/ '.*//r, 'and nothing else is waited for');
		$faults->unset('hold_sync');
		is($watch->value('SELECT sync_waits FROM steno.writers') - $waits, 1, 'the sync was requested once');
	}
	$c->query('SET synchronous_commit = local');
	$c->query("ROLLBACK PREPARED 'overlap'");

	# with the record of the transaction, which is made when it has committed
	$c->query(q{SET steno.sync = 'write, transaction'});
	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (7)');
	$faults->set('hold_sync');
	ask($c, 'COMMIT');
	await_wait($c);
	is($watch->value('SELECT count(*) FROM t WHERE i = 7'), 0, 'class transaction: COMMIT waits to start');
	$faults->unset('hold_sync');
	is($c->finish->{tags}[0], 'COMMIT', 'then it is acknowledged');
	$c->quit;
}

# A start that is cancelled, that takes too long, or whose session is terminated.
{
	my $c = session('cancelled start', 'write');
	my $start = -s $node->logfile;
	my $before;

	$faults->set('hold_sync');
	$before = $watch->value('SELECT last_value FROM s');
	ask($c, q{INSERT INTO t SELECT nextval('s') -- cancelled});
	await_wait($c);
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	is($c->finish->{sqlstate}, '57014', 'a start is cancelled');
	$c->query(q{SET statement_timeout = '50ms'});
	is($c->query(q{INSERT INTO t SELECT nextval('s') -- timeout})->{sqlstate}, '57014', 'a start takes too long');
	$c->query('SET statement_timeout = 0');
	ask($c, q{DO $$ BEGIN INSERT INTO t SELECT nextval('s') /* nested */;
		EXCEPTION WHEN query_canceled THEN RAISE WARNING 'caught'; END $$});
	await_wait($c);
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	$node->wait_for_log(qr/WARNING:  caught/, $start);
	$faults->unset('hold_sync');
	is($c->finish->{notices}[0], 'caught', 'that of a nested statement is an error like any other');
	$faults->set('hold_sync');
	ask($c, q{INSERT INTO t SELECT nextval('s') -- terminated});
	await_wait($c);
	$watch->value("SELECT pg_terminate_backend($c->{pid})");
	is($c->finish->{sqlstate}, '57P01', 'a session is terminated');
	is($watch->value('SELECT last_value FROM s'), $before, 'nothing has begun');
	$faults->unset('hold_sync');
	foreach my $how (qw(cancelled timeout terminated nested))
	{
		my $code = $how eq 'terminated' ? '57P01' : '57014';
		my $r = the_record($node, $how, application => 'cancelled start', kind => 'statement',
			class => 'write', text => qr/$how/);

		is($r->{outcome}, 'error', "$how: the record says that it failed");
		is($r->{sqlstate}, $code, "$how: and of what");
		the_record($node, "$how, at the start", application => 'cancelled start', kind => 'start', text => $r->{text});
	}
}

# A function call without a statement.
{
	my $c = session('call', 'function');
	my $before = $watch->value('SELECT last_value FROM s');

	$faults->set('hold_sync');
	$c->put_call($watch->value(q{SELECT 'nextval(regclass)'::regprocedure::oid}), 's')->send_all;
	await_wait($c);
	is($watch->value(q{SELECT last_value FROM s}), $before, 'a function call waits for its start record');
	$faults->unset('hold_sync');
	is($c->finish->{value}, $before + 1, 'and begins then');
	$c->quit;
}

# The same after the commit.
{
	my $c = session('cancelled commit', 'write');
	my $answer;

	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (100)');
	$faults->set('hold_sync');
	ask($c, 'COMMIT');
	await_wait($c);
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	$answer = $c->finish;
	is($answer->{notices}[0], 'canceling wait for the audit trail due to user request', 'a wait of COMMIT is cancelled');
	is($answer->{tags}[0], 'COMMIT', 'it stays committed');
	$faults->unset('hold_sync');
	is($watch->value('SELECT count(*) FROM t WHERE i = 100'), 1, 'it is');
	ok(!$c->query('INSERT INTO t VALUES (101)')->{sqlstate}, 'and the session goes on');

	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (102)');
	$faults->set('hold_sync');
	ask($c, 'COMMIT');
	await_wait($c);
	$watch->value("SELECT pg_terminate_backend($c->{pid})");
	$answer = $c->finish;
	ok(!$answer || !@{ $answer->{tags} }, 'terminated in COMMIT: it is not acknowledged');
	$faults->unset('hold_sync');
	is($watch->value('SELECT count(*) FROM t WHERE i = 102'), 1, 'but committed');
	is(scalar(records($node, application => 'cancelled commit', kind => 'transaction')), 3, 'all have their record');
}

# A failed statement does not wait.
{
	my $c = session('rollback', 'all');

	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (200)');
	$faults->set('hold_sync');
	is($c->query('ROLLBACK')->{tags}[0], 'ROLLBACK', 'ROLLBACK does not wait');
	$faults->unset('hold_sync');
	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (200)');
	$c->query('SELECT 1/0');
	$faults->set('hold_sync');
	is($c->query('COMMIT')->{tags}[0], 'ROLLBACK', 'COMMIT of a failed transaction does not, either');
	$faults->unset('hold_sync');
	$c->quit;
}

# Rules, for classes that are mandatory, too.
{
	my $rules = $node->data_dir . '/pg_steno_rules.conf';
	my $start = -s $node->logfile;
	my $c;

	append_to_file($rules, "sync all all ruled all write ruled\nsync all all \"ruled ddl\" all ddl all\n");
	$node->reload;
	wait_until 'they are loaded', sub { scalar records($node, kind => 'setting', application => undef) };
	$c = session('ruled', 'none');
	$faults->set('hold_sync');
	ok(!$c->query('INSERT INTO t VALUES (300)')->{sqlstate}, 'a rule with action sync: another table does not wait');
	ok(!$c->query('SELECT * FROM ruled')->{sqlstate}, 'nor another class');
	ask($c, 'INSERT INTO ruled VALUES (1)');
	await_wait($c);
	ok(!is_answered($c), 'its table does');
	$faults->unset('hold_sync');
	ok(!$c->finish->{sqlstate}, 'then it goes on');
	$faults->set('hold_sync');
	ask($c, 'COPY ruled FROM PROGRAM $$echo 1$$');
	await_wait($c);
	$faults->unset('hold_sync');
	ok(!$c->finish->{sqlstate}, 'so does a utility statement');
	$c->query('SET steno.sync_start = off');
	$faults->set('hold_sync');
	$c->query('BEGIN');
	ok(!$c->query('INSERT INTO ruled VALUES (2)')->{sqlstate}, 'with steno.sync_start = off, it does not wait to start');
	ask($c, 'COMMIT');
	await_wait($c);
	ok(!is_answered($c), 'but the end of its transaction waits');
	$faults->unset('hold_sync');
	is($c->finish->{tags}[0], 'COMMIT', 'then it is acknowledged');
	$c->quit;
	$c = session('ruled ddl', 'none');
	$faults->set('hold_sync');
	ask($c, 'CREATE TABLE v ()');
	await_wait($c);
	$faults->unset('hold_sync');
	ok(!$c->finish->{sqlstate}, 'and a statement of a mandatory class');
	$c->quit;
	unlink $rules;
	$node->reload;
}

# Statements that end transactions in other ways.
{
	my $c = session('kinds', 'all');
	my $before = $watch->value('SELECT sync_waits FROM steno.writers');

	$c->query('CREATE PROCEDURE p() LANGUAGE plpgsql AS $$
		BEGIN FOR i IN 1..3 LOOP INSERT INTO t VALUES (i); IF i = 2 THEN ROLLBACK; ELSE COMMIT; END IF; END LOOP; END $$');
	foreach my $sql (
		'CALL p()', 'VACUUM t, ruled', 'CREATE INDEX CONCURRENTLY ON t (i)', 'REINDEX TABLE CONCURRENTLY t',
		'BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t; FETCH 1 FROM c; COMMIT', 'CLOSE c',
		'BEGIN; SAVEPOINT a; INSERT INTO t VALUES (1); ROLLBACK TO a; COMMIT',
		"BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'g'", "COMMIT PREPARED 'g'",
		'CREATE DATABASE d', 'DROP DATABASE d',
		'COPY (SELECT * FROM t) TO PROGRAM $$cat >/dev/null$$', 'SET work_mem = 1000', 'SELECT 1; SELECT 2; INSERT INTO t VALUES (1)')
	{
		my $answer = $c->query($sql);

		ok(!$answer->{sqlstate}, "$sql runs") or diag($answer->{message});
	}
	ok(!$c->extended('INSERT INTO t VALUES ($1)', 1)->{sqlstate}, 'a statement with parameters runs');
	cmp_ok($watch->value('SELECT sync_waits FROM steno.writers'), '>', $before + 20, 'they have waited');

	# the last statement of a procedure
	$watch->value('SELECT pg_advisory_lock(1)');
	$c->query('CREATE PROCEDURE q() LANGUAGE plpgsql AS $$ BEGIN COMMIT; PERFORM pg_advisory_lock(1); END $$');
	$c->query(q{SET steno.sync = 'function'});
	ask($c, 'CALL q()');
	await_lock($c);
	$faults->set('hold_sync');
	$watch->value('SELECT pg_advisory_unlock(1)');
	await_wait($c);
	ok(!is_answered($c), 'a procedure that has committed waits at its end, too');
	$faults->unset('hold_sync');
	ok(!$c->finish->{sqlstate}, 'then it is acknowledged');
	$c->quit;
}

# steno.sync_start = off: only the end of a transaction waits, and only what commits inside has a start record.
{
	my $c = session('end only', 'write');
	my $before = $watch->value('SELECT last_value FROM s');
	my ($n, $waits);

	$c->query('SET steno.sync_start = off');
	$n = $watch->value('SELECT count(*) FROM t');
	$waits = $watch->value('SELECT sync_waits FROM steno.writers');
	$faults->set('hold_sync');
	$c->query('BEGIN');
	ok(!$c->query(q{INSERT INTO t SELECT nextval('s') -- block})->{sqlstate}, 'without waits at the start, a statement runs at once');
	is($watch->value('SELECT last_value FROM s'), $before + 1, 'it has run');
	ask($c, 'COMMIT');
	await_wait($c);
	is($watch->value('SELECT count(*) FROM t'), $n + 1, 'it has committed');
	ok(!is_answered($c), 'and is not acknowledged');
	$faults->unset('hold_sync');
	is($c->finish->{tags}[0], 'COMMIT', 'when its records are on disk, it is');
	is($watch->value('SELECT sync_waits FROM steno.writers') - $waits, 1, 'that is the only wait');

	foreach my $how ('simple', 'extended')
	{
		my $sql = "INSERT INTO t SELECT 2 FROM (SELECT pg_advisory_lock_shared(1)) x -- $how";

		$watch->value('SELECT pg_advisory_lock(1)');
		if ($how eq 'simple')
		{
			ask($c, $sql);
		}
		else
		{
			$c->parse('', $sql)->bind_values('', '')->execute('')->sync->send_all;
		}
		await_lock($c);
		$n = $watch->value('SELECT count(*) FROM t');
		$faults->set('hold_sync');
		$watch->value('SELECT pg_advisory_unlock(1)');
		await_wait($c);
		is($watch->value('SELECT count(*) FROM t'), $n + 1, "$how, without BEGIN: it has committed");
		ok(!is_answered($c), 'and is not acknowledged');
		$faults->unset('hold_sync');
		is($c->finish->{tags}[0], 'INSERT 0 1', 'then it is');
		$c->query('SELECT pg_advisory_unlock_all()');
	}

	$faults->set('hold_sync');
	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (1)');
	is($c->query('ROLLBACK')->{tags}[0], 'ROLLBACK', 'ROLLBACK does not wait');
	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (1)');
	ask($c, "PREPARE TRANSACTION 'end only'");
	await_wait($c);
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	is($c->finish->{tags}[0], 'PREPARE TRANSACTION', 'PREPARE TRANSACTION does, and a cancel ends that');
	ask($c, "COMMIT PREPARED 'end only'");
	await_wait($c);
	$faults->unset('hold_sync');
	is($c->finish->{tags}[0], 'COMMIT PREPARED', 'and so does COMMIT PREPARED');

	# one that commits inside
	$c->query(q{SET steno.sync = 'function, write'});
	$c->query('CREATE PROCEDURE r() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (1); COMMIT; PERFORM pg_advisory_lock(1); END $$');
	$watch->value('SELECT pg_advisory_lock(1)');
	$faults->set('hold_sync');
	ask($c, 'CALL r()');
	await_wait($c);
	is($watch->value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = $c->{pid}"), 0,
		'a procedure waits at its COMMIT');
	$faults->unset('hold_sync');
	await_lock($c);
	is(scalar(records($node, application => 'end only', kind => 'start', text => 'CALL r()')), 1, 'the trail on disk has its start record');
	$faults->set('hold_sync');
	$watch->value('SELECT pg_advisory_unlock(1)');
	await_wait($c);
	$faults->unset('hold_sync');
	ok(!$c->finish->{sqlstate}, 'and waits at its end');
	is(scalar(records($node, application => 'end only', kind => 'start', class => 'write')), 0, 'no other statement has a start record');

	# back to waits at starts
	$c->query(q{SET steno.sync = 'write'});
	$c->query('SET steno.sync_start = on');
	$faults->set('hold_sync');
	$before = $watch->value('SELECT last_value FROM s');
	ask($c, q{INSERT INTO t SELECT nextval('s')});
	await_wait($c);
	is($watch->value('SELECT last_value FROM s'), $before, 'the setting can be changed back');
	$faults->unset('hold_sync');
	$c->finish;
	$c->quit;
}

# However a client writes, it is not answered before the trail is on disk.
{
	my $c = session('ways', 'write');
	my $recursive = 'CREATE OR REPLACE FUNCTION recursive(n int) RETURNS int LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO t VALUES (n); RETURN CASE WHEN n > 0 THEN recursive(n - 1) END; END $$';

	$c->query('SET steno.sync_start = off');
	foreach my $way (
		[ 'several statements', 'INSERT INTO t VALUES (1); SELECT 1' ],
		[ 'WITH', 'WITH x AS (INSERT INTO t VALUES (1) RETURNING i) SELECT * FROM x' ],
		[ 'COPY FROM', 'COPY t FROM PROGRAM $$echo 1$$' ],
		[ 'COPY of a query', 'COPY (INSERT INTO t VALUES (1) RETURNING i) TO STDOUT' ],
		[ 'EXPLAIN ANALYZE', 'EXPLAIN ANALYZE INSERT INTO t VALUES (1)' ],
		[ 'EXECUTE', 'EXECUTE inserts', 'PREPARE inserts AS INSERT INTO t VALUES (1)' ],
		[ 'DO', 'DO $$ BEGIN INSERT INTO t VALUES (1); END $$' ],
		[ 'a function', 'SELECT recursive(0)', $recursive ],
		[ 'functions in functions', 'SELECT recursive(40)', $recursive ],
		[ 'COMMIT AND CHAIN', 'COMMIT AND CHAIN', 'BEGIN', 'INSERT INTO t VALUES (1)' ],
		[ 'SET LOCAL', 'COMMIT', 'SET steno.sync = none', 'BEGIN', 'SET LOCAL steno.sync = write', 'INSERT INTO t VALUES (1)' ],
		[ 'a subtransaction', 'COMMIT', 'SET steno.sync = write', 'BEGIN', 'SAVEPOINT a', 'INSERT INTO t VALUES (1)', 'RELEASE a' ],
		[ 'a cursor beside', 'COMMIT', 'BEGIN', 'DECLARE d CURSOR WITH HOLD FOR SELECT 1', 'INSERT INTO t VALUES (1)' ])
	{
		my ($what, $sql, @before) = @$way;

		foreach my $before (@before)
		{
			my $answer = $c->query($before);

			is($answer->{sqlstate}, undef, "$what: $before") if $answer->{sqlstate};
		}
		$faults->set('hold_sync');
		ask($c, $sql);
		await_wait($c);
		ok(!is_answered($c), "$what: it waits");
		$faults->unset('hold_sync');
		is($c->finish->{sqlstate}, undef, "$what: then it is acknowledged");
		$c->query('ROLLBACK') if $what eq 'COMMIT AND CHAIN';
	}

	# a pipeline
	$c->parse('', 'INSERT INTO t VALUES (1)')->bind_values('', '')->execute('')->bind_values('', '')->execute('')->sync->send_all;
	$c->finish;
	$faults->set('hold_sync');
	$c->parse('', 'INSERT INTO t VALUES (1)')->bind_values('', '')->execute('')->bind_values('', '')->execute('')->sync->send_all;
	await_wait($c);
	ok(!is_answered($c), 'a pipeline: it waits');
	$faults->unset('hold_sync');
	is_deeply($c->finish->{tags}, [ 'INSERT 0 1', 'INSERT 0 1' ], 'then it is acknowledged');
	$c->quit;
}

# One sync and one system call for all who wait.
{
	my @clients = map { session("many $_", 'write') } 0 .. 64;
	my ($first, @others) = @clients;
	my ($syncs, $wakes, $woken);

	$_->query('BEGIN') foreach @clients;
	($syncs, $wakes, $woken) = @{ $watch->query('SELECT syncs, wakes, woken FROM steno.writers')->{rows}[0] };
	$faults->set('hold_sync');
	ask($first, 'INSERT INTO t VALUES (0)');
	wait_until 'the disk is busy', sub { $faults->is_set('holding.0') };
	ask($_, 'INSERT INTO t VALUES (1)') foreach @others;
	await_wait(@clients);
	$faults->unset('hold_sync');
	ok(!(grep { $_->finish->{sqlstate} } @clients), 'one, and then 64');
	is($watch->value('SELECT syncs FROM steno.writers') - $syncs, 2, 'are two syncs');
	cmp_ok($watch->value('SELECT wakes FROM steno.writers') - $wakes, '<=', 2, 'and at most two system calls');
	note('woken: ' . ($watch->value('SELECT woken FROM steno.writers') - $woken));
	$_->quit foreach @clients;
}

# A disk that fails: the wait goes on until it has succeeded.
{
	my $c = session('failing', 'write');

	$faults->set('sync_fails');
	ask($c, q{INSERT INTO t VALUES (400)});
	wait_until 'it has failed twice', sub { $watch->value('SELECT errors FROM steno.writers') >= 2 };
	ok(!is_answered($c), 'a sync that fails is not taken for one');
	$faults->unset('sync_fails');
	ok(!$c->finish->{sqlstate}, 'a later one is');
	ok(!$faults->is_set('lied'), 'which has synced it');
	$c->quit;
}
$watch->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');

# A power failure: only what was synced is left of the trail, and nothing of the rings.  (The server's
# own data do not matter here.)
my $folder = PostgreSQL::Test::Utils::tempdir();
my @all_acknowledged;

sub load
{
	my ($name, $start) = @_;
	my $n = 0;
	my $c = session('load', 'write');

	$c->query("SET steno.sync_start = $start");

	open my $acknowledged, '>', "$folder/$name" or die;
	$acknowledged->autoflush(1);
	while (1)
	{
		my $text = "$name." . ++$n;
		my $in_block = $n % 3 == 0;
		my $answer;

		$c->query('BEGIN') or last if $in_block;
		$answer = $c->query("INSERT INTO t SELECT length('$text')");
		$answer = $c->query('COMMIT') if $in_block && $answer && !$answer->{sqlstate};
		last if !$answer || $answer->{sqlstate};
		print $acknowledged "$text\n";
	}
	return;
}

sub lose_power
{
	my ($trail) = @_;
	my $lost = 0;

	foreach my $path (glob "$trail/*/*.steno")
	{
		my ($stream, $segment) = $path =~ m{(\d+)/(\d+)\.steno$};
		my $note = "$faults->{folder}/durable/$stream.$segment.steno";
		my $len = -e $note ? 0 + slurp_file($note) : undef;

		next if !defined $len;    # of an earlier start
		$lost += (-s $path) - $len;
		truncate $path, $len or die "could not truncate $path: $!";
	}
	unlink ring_files($node);
	return $lost;
}

append_to_file($node->data_dir . '/postgresql.conf', "steno.writers = 2\nsteno.flush_interval = 10ms\n");
mkdir "$faults->{folder}/durable" or die "mkdir: $!";
foreach my $round (1 .. 3)
{
	my (@pids, $plain, %there);

	begin();
	foreach my $i (1 .. 6)
	{
		my $pid = fork // die "fork: $!";

		if (!$pid)
		{
			load("$round.$i", $i % 2 ? 'on' : 'off');
			POSIX::_exit(0);
		}
		push @pids, $pid;
	}
	wait_until 'there is load',
	  sub { 150 < map { split /\n/, slurp_file($_) } grep { -e } map { "$folder/$round.$_" } 1 .. 6 };
	kill_server($node);
	waitpid $_, 0 foreach @pids;
	lose_power(trail($node));
	push @all_acknowledged, map { split /\n/, slurp_file("$folder/$round.$_") } 1 .. 6;
	begin();
	flush($node);
	/"outcome":"ok"/ && /'(\d+\.\d+\.\d+)'/ && $there{$1}++
	  foreach lines($node, '--kind', 'statement', '--application', 'load');
	is_deeply([ grep { ($there{$_} // 0) != 1 } @all_acknowledged ],
		[], "loss of power $round: all that was acknowledged is there, once");

	# records that were not synced are lost: this is a power failure
	$plain = session("plain $round", 'none');
	$watch->value('SELECT steno.flush()');
	$plain->query("INSERT INTO t VALUES ($round)");
	wait_until 'it is written', sub { $watch->value('SELECT sum(lag_bytes) FROM steno.writers') == 0 };
	kill_server($node);
	cmp_ok(lose_power(trail($node)), '>', 0, 'something is lost');
	begin();
	is(scalar(statements($node, application => "plain $round", class => 'write')),
		0, 'that of a session without steno.sync is gone');
	$watch->quit;
	$node->stop;
	verify_ok($node, 'the trail is whole');
}
done_testing();
