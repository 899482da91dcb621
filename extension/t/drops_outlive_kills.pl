
# With steno.delivery = drop, what a session has dropped and could not say any more is
# said by those who recover, whether it was killed or ended, and also when nothing at
# all of it had found room, its description included.  Of several such sessions that
# had one ring in turn, all but the first are counted only: by the writer, or, when
# that was killed, by those who recover.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
my $node = new_node(
	'main',
	start => 0,
	conf => q{
steno.ring_size = 16kB
steno.delivery = drop
restart_after_crash = on
});
$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');
my $writer = $watch->query('SELECT pid FROM steno.writers')->{rows}[0][0];

sub ring_of
{
	my ($client) = @_;

	return $watch->query("SELECT ring FROM steno.rings WHERE pid = $client->{pid}")->{rows}[0][0];
}

sub run_statements
{
	my ($client, $n) = @_;

	$client->query("SELECT '" . 'x' x 500 . "'") foreach 1 .. $n;
	return;
}

# first is described, fills its ring, and ends; second has that ring, and nothing of it
# finds room; third is described, and drops.
my $first = Steno::Client->new($node, application_name => 'first');
my $third = Steno::Client->new($node, application_name => 'third');
my $ring = ring_of($first);
my (@others, $second);

$watch->query('SELECT steno.flush()');
stop_process($writer);
run_statements($first, 60);
run_statements($third, 70);
$first->quit;
wait_until 'it has gone', sub { !kill 0, $first->{pid} };
do
{
	push @others, $second if $second;
	die 'no session has that ring' if @others > 50;
	$second = Steno::Client->new($node, application_name => 'second');
} while (ring_of($second) ne $ring);
run_statements($second, 50);
kill 'KILL', $third->{pid};
wait_until 'the rings of before are drained', sub {
	my $client = slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/
	  && eval { Steno::Client->new($node, application_name => 'steno_test_helper') };

	$client && !$client->{greeting}{sqlstate} && scalar(my @files = ring_files($node)) == 1;
};

# connection and statements, and of the first the end
foreach my $case ([ $first, 'first', 62 ], [ $second, 'second', 51 ], [ $third, 'third', 71 ])
{
	my ($client, $name, $records) = @$case;
	my @r = grep { $_->{pid} == $client->{pid} } records($node);
	my @gaps = grep { $_->{kind} eq 'gap' } @r;
	my $dropped = 0;

	$dropped += $_->{extra}{count} foreach @gaps;
	# what recovery adds: gap records, and the ends of the killed
	is(scalar(@r) - @gaps - ($name eq 'first' ? 0 : 1) + $dropped, $records, "$name: each record is there, or in a gap");
	cmp_ok($dropped, '>', 10, "$name: records were dropped");
	is(scalar(grep { $_->{kind} eq 'disconnect' && $_->{outcome} eq 'interrupted' } @r),
		$name eq 'first' ? 0 : 1, "$name: its end");
}

# ---- one ring, several sessions that find no room at all ----

# A session that gets that ring.
sub next_of
{
	my ($ring) = @_;
	my $client;

	do
	{
		push @others, $client if $client;
		die 'no session has that ring' if @others > 100;
		$client = Steno::Client->new($node, application_name => 'next');
	} while (ring_of($client) ne $ring);
	return $client;
}

foreach my $how ('the writer', 'recovery', 'kill_before_write.0', 'kill_after_write.0', 'the writer, before it ends')
{
	my (@r, @first, @gaps, $described, $counted, %known);

	$_->quit foreach splice @others;
	$watch = Steno::Client->new($node, application_name => 'steno_test_helper');
	$writer = $watch->query('SELECT pid FROM steno.writers')->{rows}[0][0];
	$first = Steno::Client->new($node, application_name => 'first');
	$ring = ring_of($first);
	$watch->query('SELECT steno.flush()');
	$known{"$_->{session} $_->{seq}"} = 1 foreach records($node, kind => 'gap');
	stop_process($writer);
	run_statements($first, 60);
	$first->quit;
	wait_until 'it has gone', sub { !kill 0, $first->{pid} };
	# each with its connection; the first of them finds a place for its numbers
	foreach my $n (3, 5, 7)
	{
		my $next = next_of($ring);

		run_statements($next, $n);
		$next->quit;
		wait_until 'it has gone', sub { !kill 0, $next->{pid} };
	}
	if ($how =~ /recovery|kill/)
	{
		my $start = -s $node->logfile;

		$faults->set_times($how, 1) if $how =~ /kill/;
		kill $how =~ /kill/ ? 'CONT' : 'KILL', $writer;
		$node->wait_for_log(qr/steno writer 0 recovered/, $start);
		wait_until 'one can connect', sub {
			my $client = eval { Steno::Client->new($node, application_name => 'steno_test_helper') };
			$client && !$client->{greeting}{sqlstate};
		};
	}
	else
	{
		continue_process($writer);
		$watch->query('SELECT steno.flush()') if $how eq 'the writer';
	}
	if ($how =~ /ends/)
	{
		# what is left is for the next start
		$node->stop;
		$faults->start($node);
	}
	elsif ($how eq 'the writer')
	{
		push @others, next_of($ring);    # which tells of the first of them
	}
	flush($node);
	@r = records($node);
	@gaps = grep { $_->{kind} eq 'gap' && !$known{"$_->{session} $_->{seq}"} } @r;
	@first = grep { $_->{pid} == $first->{pid} && $_->{kind} ne 'gap' } @r;
	cmp_ok(scalar @first, '>', 5, "$how: of the first session, something is there");
	$described += $_->{extra}{count} foreach grep { $_->{pid} == $first->{pid} } @gaps;
	is(@first + $described, 62, "$how: and all else of it is in gap records with its numbers");
	$counted += $_->{extra}{count} foreach grep { $_->{pid} != $first->{pid} } @gaps;
	is($counted, (1 + 3) + (1 + 5) + (1 + 7), "$how: those who found no room for anything are counted");
	cmp_ok(scalar(grep { !defined $_->{extra}{first_seq} } @gaps), '>', 0, "$how: and not by number");
	is(scalar(grep { $_->{extra}{reason} ne 'ring full' } @gaps), 0, "$how: with their reason");
}

# ---- the same, while the trail cannot be written: that is what they say ----

foreach my $how ('the writer', 'recovery')
{
	my (%known, %reasons, $counted);

	$_->quit foreach splice @others;
	$watch = Steno::Client->new($node, application_name => 'steno_test_helper');
	$first = Steno::Client->new($node, application_name => 'first');
	$ring = ring_of($first);
	$writer = $watch->query('SELECT pid FROM steno.writers')->{rows}[0][0];
	$watch->query('SELECT steno.flush()');
	$known{"$_->{session} $_->{seq}"} = 1 foreach records($node, kind => 'gap');
	my $start = -s $node->logfile;
	$faults->set('write_fails');
	run_statements($first, 60);
	$node->wait_for_log(qr/could not write segment/, $start);
	run_statements($first, 1);
	$first->quit;
	wait_until 'it has gone', sub { !kill 0, $first->{pid} };
	foreach my $n (3, 5)
	{
		my $next = next_of($ring);

		run_statements($next, $n);
		$next->quit;
		wait_until 'it has gone', sub { !kill 0, $next->{pid} };
	}
	kill 'KILL', $writer if $how eq 'recovery';
	$faults->unset('write_fails');
	if ($how eq 'recovery')
	{
		$node->wait_for_log(qr/steno writer 0 recovered/, $start);
		wait_until 'one can connect', sub {
			my $client = eval { Steno::Client->new($node, application_name => 'steno_test_helper') };
			$client && !$client->{greeting}{sqlstate};
		};
	}
	flush($node);
	foreach my $gap (grep { !$known{"$_->{session} $_->{seq}"} && !defined $_->{extra}{first_seq} } records($node, kind => 'gap'))
	{
		$reasons{ $gap->{extra}{reason} } = 1;
		$counted += $gap->{extra}{count};
	}
	cmp_ok($counted, '>', 0, "trail not writable, $how: drops are counted");
	is_deeply([ keys %reasons ], ['trail not writable'], 'with their reason');
}

$node->stop;
is_deeply([ ring_files($node) ], [], 'no ring file is left');
verify_ok($node, 'every number has a record, or is in a gap');
done_testing();
