
# A session killed in the middle of a statement: the statement is recorded as
# interrupted, with its text, and so is the end of the session.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "restart_after_crash = on\n");
my $restarts = 0;

# Start sql in a session of that name, kill the session while it sleeps, and
# wait for the server to be back.
sub killed_in
{
	my ($name, $sql) = @_;
	my $c = Steno::Client->new($node, application_name => $name);
	my $start = -s $node->logfile;

	$c->query("SELECT 'before'");
	$c->put('Q', "$sql\0")->send_all;
	wait_until 'it sleeps',
	  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event = 'PgSleep'") eq '1' };
	kill 'KILL', $c->{pid};
	close $c->{socket};
	back($start);
	return;
}

sub back
{
	my ($start) = @_;

	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $start);
	wait_until 'the server is back',
	  sub { can_connect($node) };
	wait_until 'the rings of before are drained',
	  sub { scalar(my @files = ring_files($node)) == 1 };
	return;
}

{
	my ($r, $end, @all);

	killed_in('plain', 'SELECT pg_sleep(1000)');
	$r = the_record($node, 'killed in a statement',
		kind => 'statement', application => 'plain', outcome => 'interrupted');
	is_deeply(
		[ @$r{qw(text statement duration_us rows sqlstate)} ],
		[ 'SELECT pg_sleep(1000)', 2, undef, undef, undef ],
		'its fields');
	$end = the_record($node, 'end of the session',
		kind => 'disconnect', application => 'plain');
	is($end->{outcome}, 'interrupted', 'was an interruption');
	@all = sort { $a->{seq} <=> $b->{seq} } records($node, session => $r->{session});
	is_deeply(
		[ map { [ $_->{kind}, $_->{seq} ] } @all ],
		[
			[ 'connect', 1 ],
			[ 'statement', 2 ],
			[ 'statement', 3 ],
			[ 'disconnect', 4 ]
		],
		'the session is complete');
}

# The other sessions, which the server ended with it.
{
	my $idle = Steno::Client->new($node, application_name => 'idle');
	my ($end);

	$idle->query("SELECT 'idle'");
	killed_in('second', 'SELECT pg_sleep(1001)');
	$end = the_record($node, 'a session that was idle', kind => 'disconnect', application => 'idle');
	is($end->{outcome}, 'interrupted', 'ended with the server');
	is(scalar(statements($node, application => 'idle', outcome => 'interrupted')),
		0, 'it was running nothing');
	is(scalar(statements($node, application => 'idle')), 1, 'and its statement is there');
}

# Long text: its beginning and its length.
{
	my $text = "SELECT pg_sleep(1002), '" . 'x' x 100_000 . "'";
	my $r;

	killed_in('long', $text);
	$r = the_record($node, 'killed in a long statement',
		kind => 'statement', application => 'long', outcome => 'interrupted');
	is($r->{text_bytes}, length $text, 'length of the text');
	cmp_ok(length $r->{text}, '>=', 100, 'a part of the text');
	is($r->{text}, substr($text, 0, length $r->{text}), 'its beginning');
}

# Inside a function, it is the statement that the client sent.
{
	my $sql = 'DO $$ BEGIN PERFORM 1; PERFORM pg_sleep(1003); END $$';
	my $r;

	killed_in('nested', $sql);
	$r = the_record($node, 'killed in a function',
		kind => 'statement', application => 'nested', outcome => 'interrupted');
	is($r->{text}, $sql, 'the statement of the client');
	is(scalar(statements($node, application => 'nested', depth => 1, text => 'SELECT 1')),
		1, 'what had ended inside it is there');
}

# A query of the extended protocol ends when its portal is closed: by the next query that
# takes its place, or the end of the transaction.  What changes data has ended before.
{
	my $c = Steno::Client->new($node, application_name => 'portal');
	my $start = -s $node->logfile;

	$node->safe_psql('postgres', 'CREATE TABLE t (n int)');
	$c->query('BEGIN');
	is($c->extended('INSERT INTO t VALUES ($1)', 1)->{tags}[0], 'INSERT 0 1', 'a client was told of an insert');
	is($c->extended('SELECT $1::int', 2)->{rows}[0][0], '2', 'it has the rows of a query, in a transaction that is open');
	kill 'KILL', $c->{pid};
	close $c->{socket};
	back($start);
	is_deeply(
		[ map { "$_->{text}: $_->{outcome}" } statements($node, application => 'portal', text => qr/\$1/) ],
		[ 'INSERT INTO t VALUES ($1): ok', 'SELECT $1::int: interrupted' ],
		'the insert has ended, the query is interrupted');
}

# The whole server, killed with a statement running.
{
	my $c = Steno::Client->new($node, application_name => 'server');

	$c->put('Q', "SELECT pg_sleep(1004)\0")->send_all;
	wait_until 'it sleeps',
	  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event = 'PgSleep'") eq '1' };
	kill_server($node);
	$node->start;
	wait_until 'the rings of before are drained',
	  sub { scalar(my @files = ring_files($node)) == 1 };
	is( the_record($node, 'the server killed',
			kind => 'statement', application => 'server', outcome => 'interrupted')->{text},
		'SELECT pg_sleep(1004)',
		'what was running');
}

# An ordinary end interrupts nothing.
{
	my $c = Steno::Client->new($node, application_name => 'immediate');

	$c->query("SELECT 'done'");
	$node->stop('immediate');
	$node->start;
	wait_until 'the rings of before are drained',
	  sub { scalar(my @files = ring_files($node)) == 1 };
	is(scalar(statements($node, application => 'immediate', outcome => 'ok')), 1, 'immediate stop: what had ended is there');
	is(scalar(statements($node, application => 'immediate', outcome => 'interrupted')), 0, 'nothing was interrupted');
	$c = Steno::Client->new($node, application_name => 'fast');
	$c->query("SELECT 'done'");
	$node->stop('fast');
	is_deeply(
		[ map { $_->{outcome} // 'ok' } records($node, application => 'fast', kind => 'statement') ],
		['ok'], 'fast stop: the statement is there');
	is(scalar(records($node, application => 'fast', kind => 'disconnect')), 1, 'and the end of the session');
}

verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
