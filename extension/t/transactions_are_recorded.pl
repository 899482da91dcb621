
# Transactions that have written have a record of how they ended, whatever ended them.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "max_prepared_transactions = 5\n");
my $sessions = 0;
my $name;

sub session
{
	my (%facts) = @_;

	$name = 'session ' . ++$sessions;
	return Steno::Client->new($node, application_name => $name, %facts);
}

# The transaction records of the present session, in their order.  Where commits are in the WAL is for
# transactions_join_with_the_wal.pl.
sub transactions
{
	my @found = sort { $a->{seq} <=> $b->{seq} }
	  records($node, kind => 'transaction', application => $name);

	delete @{ $_->{extra} }{qw(commit_lsn end_lsn timeline)} foreach @found;
	return @found;
}

# Event and number of statements of each.
sub events
{
	return [ map { "$_->{extra}{event} $_->{extra}{statements}" } transactions() ];
}

sub run
{
	my @sql = @_;
	my $c = session();

	$c->query($_) foreach @sql;
	$c->quit;
	return events();
}

$node->safe_psql(
	'postgres', q{
CREATE TABLE t (i int);
CREATE TABLE parent (i int PRIMARY KEY);
CREATE TABLE child (i int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t VALUES (1);
	COMMIT;
	INSERT INTO t VALUES (2);
	INSERT INTO t VALUES (3);
	ROLLBACK;
	INSERT INTO t VALUES (4);
END $$;
CREATE FUNCTION traps() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t VALUES (1);
	BEGIN
		INSERT INTO t VALUES (2);
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
END $$;
});

# A statement of its own.
{
	my $c = session();
	my $r;
	my $xid = $c->query('INSERT INTO t VALUES (1) RETURNING pg_current_xact_id()')->{rows}[0][0];
	my $statement;

	$c->quit;
	$r = (transactions())[0];
	is_deeply(
		[ @$r{qw(xid class user database)}, $r->{outcome} // 'ok', $r->{extra} ],
		[ $xid, 'transaction', scalar getpwuid($>), 'postgres', 'ok', { event => 'commit', statements => 1 } ],
		'a statement of its own: fields');
	is(scalar(transactions()), 1, 'one transaction');
	ok(defined $r->{duration_us}, 'it has a duration');
	is($r->{text}, undef, 'and no text');
	$statement = the_record($node, 'its statement', kind => 'statement', application => $name);
	is($statement->{xid}, $xid, 'the statement has its id');
	is($r->{seq}, $statement->{seq} + 1, 'and comes before it');
}

is_deeply(run('SELECT count(*) FROM t', 'BEGIN', 'SELECT 1', 'COMMIT', 'SHOW port', 'BEGIN', 'ROLLBACK'),
	[], 'transactions that write nothing have none');
is_deeply(run('BEGIN', 'INSERT INTO t VALUES (1)', 'SELECT 1', 'INSERT INTO t VALUES (2)', 'COMMIT'),
	['commit 5'], 'a block, BEGIN and COMMIT among its statements');
is_deeply(run('BEGIN', 'INSERT INTO t VALUES (1)', 'ROLLBACK'), ['abort 3'], 'ROLLBACK');
is_deeply(run('INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)'),
	['commit 2'], 'two statements of one message are one transaction');
is_deeply(run('INSERT INTO t VALUES (1); SELECT 1 / 0'), ['abort 2'], 'which fails as one');
is_deeply(run('INSERT INTO t VALUES (1)', 'SELECT 1', 'INSERT INTO t VALUES (2)', 'CREATE TABLE new_table ()'),
	[ 'commit 1', 'commit 1', 'commit 1' ], 'one for each');
is_deeply(run('BEGIN', 'SAVEPOINT a', 'INSERT INTO t VALUES (1)', 'ROLLBACK TO a', 'COMMIT'),
	['commit 5'], 'savepoints are part of their transaction');
is_deeply(run('SELECT traps()'), ['commit 1'], 'so are the blocks of functions');
is_deeply(run('CALL steps()', 'SELECT 1', 'INSERT INTO t VALUES (5)'),
	[ 'commit 1', 'abort 1', 'commit 1', 'commit 1' ], 'a procedure that ends transactions');

# An error ends it; statements that are refused until the block ends do not belong to the next one.
is_deeply(
	run('BEGIN', 'INSERT INTO t VALUES (1)', 'SELECT 1 / 0', 'SELECT 1', 'SELECT 2', 'ROLLBACK', 'INSERT INTO t VALUES (2)'),
	[ 'abort 3', 'commit 1' ],
	'a failed block');
{
	my @all = sort { $a->{seq} <=> $b->{seq} } records($node, application => $name);
	my ($abort) = grep { $_->{kind} eq 'transaction' } @all;
	my ($failed) = grep { ($_->{text} // '') eq 'SELECT 1 / 0' } @all;

	is($abort->{outcome}, 'error', 'its outcome');
	is($abort->{seq}, $failed->{seq} + 1, 'it comes after the statement that failed');
	is(scalar(grep { ($_->{sqlstate} // '') eq '25P02' } @all), 2, 'refused statements are recorded');
}
# COMMIT of a failed block is answered with ROLLBACK, also when it wrote nothing.
run('BEGIN', 'SELECT 1 / 0', 'COMMIT', 'BEGIN', 'INSERT INTO t VALUES (1)', 'SELECT 1 / 0', "PREPARE TRANSACTION 'p'", 'BEGIN', 'COMMIT');
is_deeply(
	[ map { "$_->{command} $_->{text}" } grep { ($_->{text} // '') =~ /COMMIT|PREPARE/ } sort { $a->{seq} <=> $b->{seq} } records($node, kind => 'statement', application => $name) ],
	[ 'ROLLBACK COMMIT', "ROLLBACK PREPARE TRANSACTION 'p'", 'COMMIT COMMIT' ],
	'a COMMIT that rolls back has the command tag of its answer');
is_deeply(
	run('BEGIN', 'SAVEPOINT a', 'INSERT INTO t VALUES (1)', 'SELECT 1 / 0', 'ROLLBACK', 'INSERT INTO t VALUES (2)'),
	[ 'abort 5', 'commit 1' ],
	'an error in a savepoint ends no transaction, ROLLBACK does');
# A COMMIT ends with its transaction, whether that succeeds or not; statements run by the commit are nested.
sub commits
{
	return [
		map { [ @$_{qw(outcome sqlstate)}, $_->{depth} // 0 ] }
		  sort { $a->{seq} <=> $b->{seq} } statements($node, application => $name, text => qr/^COMMIT|FROM ONLY/)
	];
}

# since PostgreSQL 19, a foreign key looks for the row without a query
my @checks = $node->pg_version->major < 19 ? [ 'ok', undef, 1 ] : ();

is_deeply(run('BEGIN', 'INSERT INTO child VALUES (1)', 'COMMIT', 'INSERT INTO t VALUES (1)'),
	[ 'abort 3', 'commit 1' ], 'an error at COMMIT');
is_deeply(commits(), [ @checks, [ 'error', '23503', 0 ] ], 'is its own');
is_deeply(
	run('SET log_min_messages = panic', 'BEGIN', 'INSERT INTO child VALUES (1)', 'COMMIT', 'SELECT 1'),
	['abort 3'], 'an error at COMMIT that the log does not get');
is_deeply(commits(), [ @checks, [ 'error', '23503', 0 ] ], 'is recorded alike');
is_deeply(run('INSERT INTO parent VALUES (1)', 'BEGIN', 'INSERT INTO child VALUES (1)', 'COMMIT', 'COMMIT'),
	[ 'commit 1', 'commit 3' ], 'a COMMIT that checks');
is_deeply(commits(), [ @checks, [ 'ok', undef, 0 ], [ 'ok', undef, 0 ] ], 'and one without a block');
is_deeply(run('BEGIN', 'SELECT 1 / 0', 'COMMIT', 'COMMIT AND CHAIN'), [], 'COMMIT of a failed block');
is_deeply([ map { $_->[1] } @{ commits() } ], [ undef, '25P01' ], 'has ended');
# The commit of a statement that is a transaction of its own is a part of it.
is_deeply(run('INSERT INTO child VALUES (2)'), ['abort 1'], 'an error at the commit of a statement');

# A client that disconnects in the middle.
{
	my $c = session();

	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (1)');
	$c->quit;
	wait_until 'its session has ended', sub { scalar records($node, application => $name, kind => 'disconnect') };
	is_deeply(events(), ['abort 2'], 'a session that ends in the middle');
}

# Two-phase, finished by another session.
{
	my ($c, $xid, $r);

	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		my $gid = "it's \\ the " . lc $end;
		my $quoted = $gid =~ s/'/''/gr;

		$c = session();
		$c->query('BEGIN');
		$xid = $c->query('INSERT INTO t VALUES (1) RETURNING pg_current_xact_id()')->{rows}[0][0];
		$c->query("PREPARE TRANSACTION '$quoted'");
		$c->quit;
		$r = (transactions())[0];
		is_deeply(
			[ $r->{extra}, $r->{xid}, $r->{outcome} // 'ok' ],
			[ { event => 'prepare', statements => 3, gid => $gid }, $xid, 'ok' ],
			"$end: prepared");
		is(scalar(transactions()), 1, "$end: one record");

		$c = session();
		$c->query("$end PREPARED '$quoted'");
		$c->query("$end PREPARED '$quoted'");
		$c->quit;
		$r = (transactions())[0];
		is_deeply(
			[ $r->{extra}, $r->{xid}, $r->{outcome} // 'ok' ],
			[ { event => lc "$end prepared", gid => $gid }, $xid, $end eq 'COMMIT' ? 'ok' : 'error' ],
			"$end: finished, with the transaction's id");
		is(scalar(transactions()), 1, "$end: one record; none of an attempt that fails");
	}
}

# Its user and role are those at its end.
{
	my $c = session();
	my $r;

	$node->safe_psql('postgres', 'CREATE ROLE writer; GRANT INSERT ON t TO writer');
	$c->query('SET ROLE writer');
	$c->query('INSERT INTO t VALUES (1)');
	$c->query('RESET ROLE');
	$c->query('BEGIN');
	$c->query('SET LOCAL ROLE writer');
	$c->query('INSERT INTO t VALUES (2)');
	$c->query('COMMIT');
	$c->query('INSERT INTO t VALUES (3)');
	$c->quit;
	is_deeply([ map { $_->{role} } transactions() ], [ 'writer', 'writer', undef ], 'role');
}

# By class.
foreach my $case (
	[ 'none', 0, 0 ],
	[ 'write', 0, 1 ],
	[ 'transaction', 1, 0 ],
	[ 'all, -transaction', 0, 1 ])
{
	my ($log, $transactions, $statements) = @$case;
	my $c = session(options => '-c steno.log=' . $log =~ s/ /\\ /gr);

	$c->query('INSERT INTO t VALUES (1)');
	$c->query('INSERT INTO t VALUES (2)');
	$c->quit;
	wait_until 'its session has ended', sub { scalar records($node, application => $name, kind => 'disconnect') };
	is(scalar(transactions()), 2 * $transactions, "$log: transactions");
	is(scalar(records($node, kind => 'statement', application => $name)), 2 * $statements, "$log: statements");
}

# Mandatory: whatever steno.log says.
$node->append_conf('postgresql.conf', "steno.mandatory = 'transaction, connect, setting'\nsteno.log = 'none'\n");
$node->restart;
is_deeply(run('INSERT INTO t VALUES (1)'), ['commit 1'], 'mandatory');
is_deeply([ map { $_->{text} } statements($node, application => $name) ], [], 'and nothing else');

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
