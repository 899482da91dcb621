
# Statements that fail, at any point: one record with the SQLSTATE, the message and the statement's own
# text.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "deadlock_timeout = 10ms\n");
my $runs = 0;

$node->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY CHECK (id > 0), v int);
CREATE TABLE deferred (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO t VALUES (1, 1), (2, 2);
CREATE ROLE nobody_much LOGIN;
CREATE FUNCTION fails(i int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO t VALUES (-i); RETURN i; END $$;
});

sub client
{
	my (%o) = @_;
	my $name = 'run ' . ++$runs;

	return Steno::Client->new($node, application_name => $name, %o);
}

# Statement records of the last client: text, SQLSTATE, message, depth.
sub seen
{
	return [
		map {
			[ $_->{text}, $_->{sqlstate}, $_->{message}, $_->{depth} // 0 ]
		  }
		  sort { $a->{seq} <=> $b->{seq} }
		  statements($node, application => "run $runs")
	];
}

# Failures of one message.
foreach my $case (
	[ 'SELEC 1', '42601', 'syntax error at or near "SELEC"' ],
	[ 'SELECT * FROM missing', '42P01', 'relation "missing" does not exist' ],
	[ 'SELECT no_column FROM t', '42703', 'column "no_column" does not exist' ],
	[ 'SELECT 1/v FROM (VALUES (0)) x(v)', '22012', 'division by zero' ],
	[ 'SELECT 1/0', '22012', 'division by zero' ],
	[
		'INSERT INTO t VALUES (1)', '23505',
		'duplicate key value violates unique constraint "t_pkey"'
	],
	[
		'INSERT INTO t VALUES (-1)', '23514',
		'new row for relation "t" violates check constraint "t_id_check"'
	],
	[ 'INSERT INTO deferred VALUES (1), (1)', '23505',
		'duplicate key value violates unique constraint "deferred_id_key"', 'late' ],
	[ 'DROP TABLE missing', '42P01', 'table "missing" does not exist' ],
	[ 'CREATE TABLE t (a int)', '42P07', 'relation "t" already exists' ],
	[ q{SET work_mem = 'much'}, '22023',
		'invalid value for parameter "work_mem": "much"' ],
	[ 'EXECUTE missing', '26000', 'prepared statement "missing" does not exist' ],
	[ 'VACUUM missing', '42P01', 'relation "missing" does not exist' ],
	[ 'COPY missing TO STDOUT', '42P01', 'relation "missing" does not exist' ])
{
	my ($sql, $sqlstate, $message, $late) = @$case;
	my $c = client();
	my $answer = $c->query($sql);

	$c->quit;
	is($answer->{sqlstate}, $sqlstate, "fails: $sql");
	if ($late)
	{
		# the statement itself succeeded, its commit did not
		my @failed = grep { $_->[1] } @{ seen() };

		is_deeply(\@failed, [ [ $sql, $sqlstate, $message, 0 ] ],
			"recorded: $sql");
		next;
	}
	is_deeply(seen(), [ [ $sql, $sqlstate, $message, 0 ] ], "recorded: $sql");

	# and by the extended protocol
	$c = client();
	$answer = $c->extended($sql);
	$c->quit;
	is_deeply(
		seen(),
		[ [ $sql, $sqlstate, $message, 0 ] ],
		"recorded, extended protocol: $sql");
}

# Details of a failure's record.
{
	my $c = client();
	my $r;

	$c->query('INSERT INTO t VALUES (1)');
	$c->quit;
	($r) = statements($node, application => "run $runs");
	is_deeply(
		[ @$r{qw(class command outcome rows)}, $r->{relations}[0]{name} ],
		[ 'write', 'INSERT', 'error', undef, 'public.t' ],
		'a failure in the executor has the fields of a statement');
	$c = client();
	$c->query('SELEC 1');
	$c->quit;
	($r) = statements($node, application => "run $runs");
	is($r->{class}, 'error', 'one that never had a class is of class error');
}

# Parameters of a statement that fails.
{
	my $c = client();

	$c->extended('SELECT 10 / (id - $1::int) FROM t', 1);
	$c->extended('SELECT 10 / $1::int', 0);
	$c->quit;
	my @r = statements($node, application => "run $runs");
	is_deeply([ @{ $r[0] }{qw(sqlstate params)} ],
		[ '22012', ['1'] ], 'a failure keeps its parameters');
	is($r[1]{sqlstate}, '22012', 'a failure in the planner is recorded');
	is_deeply($r[1]{params}, ['0'], 'with its parameters');
}

# Wrong values of a protocol message: nothing was executed.
{
	my $c = client();

	$c->extended('SELECT $1::int', 'no number');
	$c->quit;
	is_deeply(
		seen(),
		[
			[
				'SELECT $1::int', '22P02',
				'invalid input syntax for type integer: "no number"', 0
			]
		],
		'a parameter that cannot be read');
}

# Permission.
{
	my $c = client(user => 'nobody_much');

	$c->query('SELECT v FROM t');
	$c->query('CREATE ROLE another');
	$c->query('SET steno.log = none');
	$c->quit;
	is_deeply(
		seen(),
		[
			[ 'SELECT v FROM t', '42501', 'permission denied for table t', 0 ],
			[
				'CREATE ROLE another', '42501',
				'permission denied to create role', 0
			],
			[
				'SET steno.log = none', '42501',
				'permission denied to set parameter "steno.log"', 0
			]
		],
		'refused for want of privileges');
}

# In an aborted transaction; commands that end it are not refused.
{
	my $c = client();

	$c->query($_) foreach ('BEGIN', 'SELECT 1/0', 'SELECT 2', 'COMMIT', 'SELECT 3');
	$c->quit;
	is_deeply(
		[ map { [ @$_[ 0, 1 ] ] } @{ seen() } ],
		[
			[ 'BEGIN', undef ],
			[ 'SELECT 1/0', '22012' ],
			[ 'SELECT 2', '25P02' ],
			[ 'COMMIT', undef ],
			[ 'SELECT 3', undef ]
		],
		'an aborted transaction');
}

# In the middle of a string: what comes after it never ran.
foreach my $case (
	[ 'SELECT 1; SELECT 2/0; SELECT 3', 'SELECT 1', 'SELECT 2/0', '22012' ],
	[ 'SELECT 1; SELECT * FROM missing; SELECT 3', 'SELECT 1', 'SELECT * FROM missing', '42P01' ],
	[ 'SELECT 1; INSERT INTO t VALUES (-1); SELECT 3', 'SELECT 1', 'INSERT INTO t VALUES (-1)', '23514' ],
	[ "SELECT ';'; -- ; \nSELECT ';' || missing; SELECT 3", "SELECT ';'", "SELECT ';' || missing", '42703' ],
	[ 'SELECT 1; DROP TABLE missing; SELECT 3', 'SELECT 1', 'DROP TABLE missing', '42P01' ])
{
	my ($sql, $first, $failed, $sqlstate) = @$case;
	my $c = client();
	my @seen;

	$c->query($sql);
	$c->quit;
	@seen = @{ seen() };
	is(scalar @seen, 2, "two records: $sql");
	is($seen[0][0], $first, 'the first succeeded');
	like($seen[1][0], qr/\Q$failed\E$/, 'the second has its text');
	unlike($seen[1][0], qr/SELECT 3/, 'and no other');
	is($seen[1][1], $sqlstate, 'and its SQLSTATE');
}
{
	my $c = client();

	$c->query('SELECT 1; SELEC 2; SELECT 3');
	$c->quit;
	is_deeply(
		[ map { [ @$_[ 0, 1 ] ] } @{ seen() } ],
		[ [ 'SELECT 1; SELEC 2; SELECT 3', '42601' ] ],
		'nothing of a string with a syntax error runs');
}

# Cancel, timeouts.
{
	my $c = client();

	$c->query(q{SET statement_timeout = '20ms'});
	$c->query('SELECT pg_sleep(100)');
	$c->quit;
	is_deeply(
		seen()->[1],
		[
			'SELECT pg_sleep(100)', '57014',
			'canceling statement due to statement timeout', 0
		],
		'statement_timeout');
	$c = client();
	$c->put('Q', "SELECT pg_sleep(1000)\0")->send_all;
	wait_until 'it runs',
	  sub {
		value($node, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(1000)' AND wait_event = 'PgSleep'");
	  };
	is($c->finish->{sqlstate}, '57014', 'canceled');
	$c->quit;
	is_deeply(
		seen(),
		[
			[
				'SELECT pg_sleep(1000)', '57014',
				'canceling statement due to user request', 0
			]
		],
		'cancel');
}

# lock_timeout, on a table that another session has locked.
{
	my $holder = client();
	my $c = client();

	$holder->query('BEGIN; LOCK TABLE t');
	$c->query(q{SET lock_timeout = '10ms'});
	is($c->query('SELECT count(*) FROM t')->{sqlstate}, '55P03', 'a table could not be locked');
	is($c->query('UPDATE t SET v = 2')->{sqlstate}, '55P03', 'nor written');
	$holder->query('ROLLBACK');
	$_->quit foreach $c, $holder;
	is_deeply(
		[ map { [ @$_[ 0 .. 3 ] ] } grep { defined $_->[1] } @{ seen() } ],
		[
			map { [ $_, '55P03', 'canceling statement due to lock timeout', 0 ] }
			  'SELECT count(*) FROM t', 'UPDATE t SET v = 2'
		],
		'lock_timeout');
}

# Deadlock: the victim's statement, and only that.
{
	my $a = client();
	my $b = client();
	my ($first, $second, @failed);

	foreach my $step ([ $a, 1 ], [ $b, 2 ])
	{
		$step->[0]->query('BEGIN');
		$step->[0]->query("UPDATE t SET v = 0 WHERE id = $step->[1]");
	}
	$a->put('Q', "UPDATE t SET v = 10 WHERE id = 2\0")->send_all;
	$b->put('Q', "UPDATE t SET v = 10 WHERE id = 1\0")->send_all;

	# when the victim is rolled back, the other goes on
	($first, $second) = ($a->finish, $b->finish);
	$_->query('ROLLBACK'), $_->quit foreach ($a, $b);
	@failed = statements($node, sqlstate => '40P01');
	is(scalar @failed, 1, 'deadlock: one statement failed');
	is($failed[0]{message}, 'deadlock detected', 'its message');
	like($failed[0]{text}, qr/^UPDATE t SET v = 10 WHERE id = [12]$/, 'its text');
	is( $failed[0]{text},
		'UPDATE t SET v = 10 WHERE id = ' . ($first->{sqlstate} ? 2 : 1),
		'of the victim');
}

# Inside functions, and caught there.
{
	my $c = client();

	$c->query('SELECT fails(3)');
	$c->quit;
	is_deeply(
		[ sort { $a->[3] <=> $b->[3] } @{ seen() } ],
		[
			[
				'SELECT fails(3)', '23514',
				'new row for relation "t" violates check constraint "t_id_check"', 0
			],
			[
				'INSERT INTO t VALUES (-i)', '23514',
				'new row for relation "t" violates check constraint "t_id_check"', 1
			]
		],
		'a statement of a function, and the one that called it');
}
foreach my $case (
	[ 'INSERT INTO t VALUES (-1)', '23514' ],
	[ 'SELECT 1/0', '22012' ],
	[ q{EXECUTE 'SELEC 1'}, '42601', 'SELEC 1' ],
	[ q{EXECUTE 'SELECT * FROM missing'}, '42P01', 'SELECT * FROM missing' ],
	[ q{EXECUTE 'DROP TABLE missing'}, '42P01', 'DROP TABLE missing' ])
{
	my ($sql, $sqlstate, $text) = @$case;
	my $c = client();
	my $perform = $sql =~ s/^SELECT/PERFORM/r;
	my $do = "DO \$\$ BEGIN BEGIN $perform; EXCEPTION WHEN others THEN NULL; END; PERFORM 'after'; END \$\$";
	my $answer = $c->query($do);
	my @seen;

	$c->quit;
	is($answer->{sqlstate}, undef, "caught: $sql");
	@seen = @{ seen() };
	is_deeply([ map { [ @$_[ 0, 1 ] ] } grep { !$_->[3] } @seen ],
		[ [ $do, undef ] ], 'the block has succeeded');
	is_deeply(
		[ map { [ @$_[ 0, 1, 3 ] ] } grep { $_->[3] } @seen ],
		[ [ $text // $sql, $sqlstate, 1 ], [ q{SELECT 'after'}, undef, 1 ] ],
		'the failure inside has its record');
}

# A savepoint that a failure rolls back to.
{
	my $c = client();

	$c->query($_)
	  foreach (
		'BEGIN', 'SAVEPOINT s', 'SELECT 1/0', 'ROLLBACK TO s', 'SELECT 4',
		'COMMIT');
	$c->quit;
	is_deeply(
		[ map { [ @$_[ 0, 1 ] ] } @{ seen() } ],
		[
			[ 'BEGIN', undef ],
			[ 'SAVEPOINT s', undef ],
			[ 'SELECT 1/0', '22012' ],
			[ 'ROLLBACK TO s', undef ],
			[ 'SELECT 4', undef ],
			[ 'COMMIT', undef ]
		],
		'savepoints');
}

# A session that is terminated in a statement.
{
	my $c = client();
	my ($end);

	$c->put('Q', "SELECT pg_sleep(2000)\0")->send_all;
	wait_until 'it runs',
	  sub {
		value($node, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(2000)' AND wait_event = 'PgSleep'");
	  };
	$c->finish;
	wait_until 'it is gone',
	  sub {
		value($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'run $runs'") eq 't';
	  };
	is_deeply(
		seen(),
		[
			[
				'SELECT pg_sleep(2000)', '57P01',
				'terminating connection due to administrator command', 0
			]
		],
		'terminated in a statement');
	$end = the_record($node, 'its disconnect', kind => 'disconnect', application => "run $runs");
	is($end->{sqlstate}, '57P01', 'disconnect says why');
}

# A failure's record does not depend on the statement's class.
{
	my $c = client();

	$c->query('SET steno.log = error');
	$c->query('SELECT 1');
	$c->query('SELECT 1/0');
	$c->query('INSERT INTO t VALUES (-1)');
	$c->quit;
	is_deeply(
		[ map { $_->[1] } grep { $_->[0] !~ /^SET/ } @{ seen() } ],
		[ '22012', '23514' ],
		'steno.log = error records failures of all classes, and nothing else');
}

# A message of many bytes is whole.
{
	my $c = client();
	my $long = 'x' x 20000;
	my @r;

	$c->query("DO \$\$ BEGIN RAISE EXCEPTION '%', repeat('x', 20000); END \$\$");
	$c->quit;
	@r = grep { !$_->[3] } @{ seen() };
	is($r[0][2], $long, 'a long message is whole');
	is($r[0][1], 'P0001', 'with its SQLSTATE');
}

verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
$node->stop;
done_testing();
