
# A session that waits at the end of its transaction, for the disk or for space in its ring, has
# released its locks; and wherever a session waits, databases can be dropped.

use strict;
use warnings;

use IO::Select;
use Socket qw(MSG_PEEK);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.ring_size = 16kB\nsteno.mandatory = 'none'\n");
my $watch = Steno::Client->new($node, application_name => 'watch');
my $databases = 0;

$watch->query(q{SET steno.log = 'none'});
$watch->query('CREATE TABLE t (n int)');
$watch->query(q{SET statement_timeout = '120s'});

my $writer = $watch->value('SELECT pid FROM steno.writers');

sub wait_event
{
	my ($c) = @_;

	return $watch->value("SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE pid = $c->{pid}") // '';
}

# Whether the server is ready for the next statement: warnings, and failures, come before.
sub is_answered
{
	my ($c) = @_;
	my $answer = '';

	return 0 if !IO::Select->new($c->{socket})->can_read(0.01);
	recv($c->{socket}, $answer, 65536, MSG_PEEK);
	return $answer =~ /Z\x00\x00\x00\x05.\z/s;
}

# Sends it repeatedly until the session waits; returns how often it was answered.
sub until_it_waits
{
	my ($c, $sql, $event) = @_;

	foreach my $n (0 .. 2000)
	{
		my $waits = 0;

		$c->put('Q', "$sql\0")->send_all;
		wait_until 'it is answered, or waits', sub {
			return 1 if is_answered($c);
			$waits = wait_event($c) eq $event;
			return $waits;
		};
		return $n if $waits;
		$c->finish;
	}
	die "never waits: $sql";
}

# The barrier that every process must absorb.
sub databases_are_dropped
{
	my ($what) = @_;
	my $name = 'other' . ++$databases;
	my $answer;

	$answer = $watch->query("CREATE DATABASE $name");
	die $answer->{message} if $answer->{sqlstate};
	$answer = $watch->query("DROP DATABASE $name");
	is($answer->{sqlstate}, undef, "$what: a database can be dropped") or diag($answer->{message});
	return;
}

sub locks_are_released
{
	my ($what, $c) = @_;

	is($watch->value("SELECT count(*) FROM pg_locks WHERE pid = $c->{pid}"), 0, "$what: it holds no locks");
	$watch->query('BEGIN');
	is($watch->query('LOCK TABLE t IN ACCESS EXCLUSIVE MODE NOWAIT')->{sqlstate}, undef, "$what: others can lock the table");
	$watch->query('COMMIT');
	return;
}

sub go_on
{
	my ($what, $c) = @_;
	my $answer;

	continue_process($writer);
	$answer = $c->finish;
	is($answer->{sqlstate}, undef, "$what: it goes on");
	$watch->value('SELECT steno.flush()');
	return;
}

# For the disk, after the commit.
foreach my $sql ('INSERT INTO t VALUES (1)', 'CREATE TABLE u (n int); DROP TABLE u')
{
	my $what = "for the disk: $sql";
	my $c = Steno::Client->new($node, application_name => 'disk');

	$c->query(q{SET steno.sync = 'transaction'});
	$watch->value('SELECT steno.flush()');
	stop_process($writer);
	until_it_waits($c, $sql, 'StenoSync');
	locks_are_released($what, $c);
	databases_are_dropped($what);
	go_on($what, $c);
	$c->quit;
}

# For room for the record of the transaction: what is committed is seen.
{
	my $what = 'for room, at a commit';
	my $c = Steno::Client->new($node, application_name => 'commit');
	my $rows = $watch->value('SELECT count(*) FROM t');
	my $answered;

	$c->query(q{SET steno.log = 'transaction'});
	$watch->value('SELECT steno.flush()');
	stop_process($writer);
	$answered = until_it_waits($c, 'INSERT INTO t VALUES (2)', 'StenoRingFull');
	is($watch->value('SELECT count(*) FROM t') - $rows, $answered + 1, "$what: it has committed");
	locks_are_released($what, $c);
	databases_are_dropped($what);
	go_on($what, $c);
	$c->quit;
	is( scalar(records($node, kind => 'transaction', application => 'commit')),
		$answered + 1,
		"$what: each transaction has its record");
}

# A commit whose wait is canceled, and one whose session is terminated.
foreach my $how ('cancel', 'terminate')
{
	my $what = "for room, at a commit, $how";
	my $c = Steno::Client->new($node, application_name => $what);
	my $rows = $watch->value('SELECT count(*) FROM t');
	my ($answered, $answer);

	$c->query(q{SET steno.log = 'transaction'});
	$watch->value('SELECT steno.flush()');
	stop_process($writer);
	$answered = until_it_waits($c, 'INSERT INTO t VALUES (3)', 'StenoRingFull');
	$watch->value("SELECT pg_${how}_backend($c->{pid})");
	$answer = $c->finish;
	if ($how eq 'cancel')
	{
		is($answer->{sqlstate}, undef, "$what: it is told of the commit");
		is($answer->{tags}[0], 'INSERT 0 1', "$what: as ever");
	}
	else
	{
		is($answer->{tags}[0], undef, "$what: it is not told of the commit");
	}
	is($watch->value('SELECT count(*) FROM t') - $rows, $answered + 1, "$what: it has committed");
	continue_process($writer);
	$watch->value('SELECT steno.flush()');
	$c->quit if $how eq 'cancel';
}

# For room for the records of a transaction that is rolled back, by its client and by an error.
foreach my $case (
	[ 'ROLLBACK', 'INSERT INTO t VALUES (4); ROLLBACK', 2 ],
	[ 'ROLLBACK of a procedure', 'DO $$BEGIN INSERT INTO t VALUES (4); ROLLBACK; END$$', 1 ],
	[ 'abort', 'INSERT INTO t SELECT 1 / (2 - i) FROM generate_series(1, 2) i', 1 ])
{
	my ($name, $sql, $each) = @$case;
	my $what = "for room, at the $name";
	my $c = Steno::Client->new($node, application_name => $name);
	my $rows = $watch->value('SELECT count(*) FROM t');
	my ($answered, @r);

	$c->query(q{SET steno.log = 'transaction'});
	$watch->value('SELECT steno.flush()');
	stop_process($writer);
	$answered = until_it_waits($c, $sql, 'StenoRingFull');
	locks_are_released($what, $c);
	databases_are_dropped($what);
	continue_process($writer);
	$c->finish;
	$watch->value('SELECT steno.flush()');
	$c->quit;
	is($watch->value('SELECT count(*) FROM t'), $rows, "$what: nothing is left of it");
	@r = grep { $_->{class} eq 'transaction' } records($node, application => $name);
	is(scalar(grep { $_->{kind} eq 'transaction' && $_->{extra}{event} eq 'abort' } @r), $answered + 1, "$what: each transaction has its record");
	is(scalar @r, $each * ($answered + 1), "$what: and each statement");
}

# For room, at the end of a statement, and for the record of a failure.
foreach my $case (
	[ 'at the end of a statement', 'read', q{SELECT 'reads some constant', 'of a certain length'} ],
	[ 'in a function', 'read', q{DO $$BEGIN PERFORM 'reads', count(*) FROM t; END$$} ],
	[ 'at a failure', 'error', q{SELECT 1 / 0} ],
	[ 'at a failure in a block', 'error', q{DO $$BEGIN PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END$$} ])
{
	my ($what, $class, $sql) = @$case;
	my $c = Steno::Client->new($node, application_name => $what);

	$c->query("SET steno.log = '$class'");
	$watch->value('SELECT steno.flush()');
	stop_process($writer);
	until_it_waits($c, $sql, 'StenoRingFull');
	databases_are_dropped($what);
	continue_process($writer);
	$c->finish;
	$c->quit;
}

$watch->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
