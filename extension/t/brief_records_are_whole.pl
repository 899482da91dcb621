
# Records of a prepared statement that runs repeatedly refer to its text, which is stored once, beside
# the ring.  They must stay readable when other statements take that place, and after the writer or
# the server has gone.

use strict;
use warnings;

use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "plan_cache_mode = force_generic_plan\nsteno.writers = 1\nsteno.start_after = 100ms\nsteno.log = 'all, -misc_set'");

$node->safe_psql('postgres',
	'CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account SELECT i, 0 FROM generate_series(1, 1000) i');

# more of them than there are templates
my @texts = ('UPDATE account SET balance = balance + 1 WHERE id = $1',
	map { "SELECT balance + $_ AS wanted_$_ FROM account WHERE id = \$1" } 2 .. 9);
my $client = Steno::Client->new($node, application_name => 'brief');
my (@told, $next);
my $statements = 0;
my $records = 1;    # the first is that of the connection

$client->parse("s$_", $texts[$_])->sync->finish foreach 0 .. $#texts;

# Runs the statement with that number, and notes what must be in the trail.
sub run
{
	my ($number, $id) = @_;
	my $result;

	$id //= ++$next;
	$result = $client->bind_values('', "s$number", $id)->execute('')->sync->finish or die 'the server has gone';
	die $result->{error}[1] if $result->{error};
	push @told, join(' ', ++$records, ++$statements, $texts[$number], $id);
	$records++ if $number == 0;    # the transaction has one, too
	return;
}

# A statement that has no record, so that the next one's number is not the one after the last record's.
sub run_unrecorded
{
	$client->query('SET geqo = on');
	$statements++;
	return;
}

# By turns, and some more often than others.
sub run_all
{
	my ($rounds) = @_;

	foreach my $round (1 .. $rounds)
	{
		run($_) foreach 0 .. $#texts;
		run_unrecorded() if $round == 2;
		run($round % 3) for 1 .. 4;
	}
	return;
}

sub found
{
	my ($where) = @_;

	return map { "$_->{seq} $_->{statement} $_->{text} $_->{params}[0]" } records($where, kind => 'statement', application => 'brief', outcome => 'ok');
}

# How often a text stands in the ring file.
sub in_ring_file
{
	my ($text) = @_;
	my ($file) = ring_files($node);
	my $bytes = slurp_file($file);

	return scalar(() = $bytes =~ /\Q$text\E/g);
}

# more statements than there are templates take turns, and what refers to those is drained now and then
foreach (1 .. 3)
{
	run_all(2);
	flush($node);
}
# a few run again and again
foreach (1 .. 3)
{
	run($_) foreach (0 .. 3) x 2;
	flush($node);
}
is_deeply([ found($node) ], \@told, 'what was drained');

# now nothing is drained, until the server dies
my $writer = writer_pid($node);
my @before;

stop_process($writer);
@before = map { in_ring_file($_) } @texts[ 0 .. 3 ];
run($_) foreach (0 .. 3) x 10;
run_unrecorded();
run($_) foreach (0 .. 3) x 2;
is_deeply([ map { in_ring_file($_) } @texts[ 0 .. 3 ] ], \@before, 'the text of brief records stands beside the ring');
# other statements take the places of their templates
run_all(3);

# one that runs when it dies
my $other = $node->background_psql('postgres');
$other->query_safe('BEGIN; SELECT FROM account FOR UPDATE');
$client->bind_values('', 's0', 77)->execute('')->sync->send_all;
wait_until 'the statement waits', sub {
	value($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'brief' AND wait_event_type = 'Lock'}) eq '1';
};
kill_server($node);

my $copy = recovered_copy($node);
is_deeply([ found($copy) ], \@told, 'what steno recover read from the ring');

$node->start;
wait_until 'the server has drained it', sub { scalar(my @files = ring_files($node)) == 1 };
is_deeply([ found($node) ], \@told, 'what the server drained');
foreach my $where ($copy, $node)
{
	my $r = the_record($where, 'what ran', kind => 'statement', application => 'brief', outcome => 'interrupted');

	is("$r->{text} $r->{params}[0]", "$texts[0] 77", 'what ran has its text and its parameter');
}
verify_ok($node, 'the trail is whole');

# sessions that get the ring of one that has left while its brief records are not drained
my $watch = Steno::Client->new($node);
my $ring;

$writer = writer_pid($node);
@told = ();
foreach my $session (0 .. 3)
{
	$client =
	  defined $ring ? Steno::Client->of_ring($node, $watch, $ring, application_name => 'brief heirs') :
	  Steno::Client->new($node, application_name => 'brief heirs');
	$ring //= $watch->query("SELECT ring FROM steno.rings WHERE pid = $client->{pid}")->{rows}[0][0];
	($statements, $records) = (0, 1);
	$client->parse("s$session", $texts[$session])->sync->finish;
	if ($session == 0)
	{
		# until its records refer to a template
		run(0) for 1 .. 5;
		flush($node);
		stop_process($writer);
	}
	run($session) for 1 .. 5;
	$client->quit;
}
$watch->quit;
continue_process($writer);
flush($node);
is_deeply(
	[ sort map { "$_->{seq} $_->{statement} $_->{text} $_->{params}[0]" } records($node, kind => 'statement', application => 'brief heirs') ],
	[ sort @told ], 'sessions with the same ring leave each other\'s templates alone');

# a start record of what runs for long is made from the template; so is that of a failure
$client = Steno::Client->new($node, application_name => 'late');
$client->parse('s0', $texts[0])->sync->finish;
foreach (1 .. 2)
{
	run(0) for 1 .. 3;
	flush($node);
}
$other = $node->background_psql('postgres');
$other->query_safe('BEGIN; SELECT FROM account FOR UPDATE');
$client->bind_values('', 's0', 78)->execute('')->sync->send_all;
# others may have been slow, too
my @starts;
wait_until 'it has a start record', sub {
	@starts = grep { $_->{params}[0] == 78 } records($node, kind => 'start', application => 'late');
};
is(join(', ', map { "$_->{text} $_->{params}[0]" } @starts), "$texts[0] 78", 'the start record');
value($node, q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'late'});
$client->finish;
my $failed = the_record($node, 'its failure', kind => 'statement', application => 'late', outcome => 'error');
is("$failed->{text} $failed->{params}[0] $failed->{sqlstate}", "$texts[0] 78 57014", 'the record of its failure');
$other->quit;

done_testing();
