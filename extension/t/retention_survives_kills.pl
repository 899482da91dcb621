
# If a process dies between the record of a deletion and the deletion itself, the next start completes
# the deletion from the same record.  A segment that cannot be deleted is reported once.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Faults;
use Steno::Retention;
use Test::More;

my $faults = Steno::Faults->new;
my $node = new_node('main', start => 0,
	conf => "steno.compression = none\nrestart_after_crash = off\nautovacuum = off\n");

sub killed
{
	wait_until 'the server is down after its writer was killed', sub { !-e $node->data_dir . '/postmaster.pid' };
	$node->{_pid} = undef;
	return;
}

sub start
{
	my (@settings) = @_;

	$node->append_conf('postgresql.conf', $_) foreach @settings;
	$faults->start($node);
	return;
}

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
fill($node, 6);

# between record and deletion
$faults->set_times('kill_before_unlink', 1);
set_and_reload($node, 'steno.retention_size', '1MB');
killed();
is_deeply([ segments($node) ], [ 1 .. 7 ], 'killed before the first segment went');
my @before = deletions($node);
is(scalar @before, 1, 'the record is there');
is($before[0]{last_segment}, 4, 'and says what was to go');
verify_ok($node, 'that is a whole trail');
start();
wait_until 'the deletion is finished', sub { (segments($node))[0] == 5 };
my @after = deletions($node);
is_deeply(\@after, \@before, 'without another record');
verify_ok($node, 'the trail is whole');

# the same, with all kept from then on
fill($node, 4);
wait_until 'more has gone', sub { (segments($node))[0] >= 9 };
set_and_reload($node, 'steno.retention_size', '0');
wait_until 'nothing is deleted any more', sub { value($node, 'SHOW steno.retention_size') eq '0' };
fill($node, 4);
my ($first) = segments($node);
$faults->set_times('kill_before_unlink', 1);
set_and_reload($node, 'steno.retention_size', '1MB');
killed();
is((segments($node))[0], $first, 'killed again');
start("steno.retention_size = 0\n");
wait_until 'what was recorded as deleted is deleted, even if all is kept now',
  sub { (segments($node))[0] >= $first + 4 };
verify_ok($node, 'the trail is whole');

# between the state file, the record, and what may be left of its block
foreach my $fault ('kill_before_write.0', 'kill_in_write.0', 'kill_after_write.0')
{
	set_and_reload($node, 'steno.retention_size', '0');
	wait_until 'nothing is deleted any more', sub { value($node, 'SHOW steno.retention_size') eq '0' };
	fill($node, 4);
	($first) = segments($node);
	$faults->set('after_state', $fault);
	set_and_reload($node, 'steno.retention_size', '1MB');
	killed();
	ok(!$faults->is_set('after_state'), "$fault: killed with the write of the record");
	is((segments($node))[0], $first, "$fault: nothing has gone yet");
	start();
	wait_until "$fault: they go after the restart", sub { (segments($node))[0] > $first };
	verify_ok($node, "$fault: the trail is whole");
	my @all = deletions($node);
	my %seen;
	is($all[-1]{since_segment}, 1, "$fault: what had gone before is not forgotten");
	is(scalar(grep { $seen{ $_->{first_segment} }++ } @all), 0, "$fault: no second record of the same deletion");
}

# what cannot be deleted
set_and_reload($node, 'steno.retention_size', '0');
wait_until 'nothing is deleted any more', sub { value($node, 'SHOW steno.retention_size') eq '0' };
fill($node, 4);
($first) = segments($node);
$faults->set('unlink_fails');
my $log = -s $node->logfile;
set_and_reload($node, 'steno.retention_size', '1MB');
wait_until 'the writer has said that it cannot', sub { slurp_file($node->logfile, $log) =~ /could not delete old segments of the trail/ };
fill($node, 3);
my $said = () = slurp_file($node->logfile, $log) =~ /could not delete old segments of the trail/g;
is($said, 1, 'once');
is((segments($node))[0], $first, 'the segments are there');
verify_ok($node, 'the trail is whole');
$faults->unset('unlink_fails');
fill($node, 1);
wait_until 'they go by themselves', sub { (segments($node))[0] > $first };
wait_until 'the writer says that it can again', sub { slurp_file($node->logfile, $log) =~ /can be deleted again/ };
verify_ok($node, 'the trail is whole');

$node->stop;
done_testing();
