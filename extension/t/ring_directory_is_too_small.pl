
# A ring directory with room for the ring file of this run, and for no second one.  After a
# crash, the server needs both: that of the run that crashed is drained only when the new one
# is there.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $warning = qr/WARNING:  "[^"]*" has no space for a second ring file, without which the server will not restart after a crash/;

# A start warns of it.  A library tells the server how full the file system is.
{
	my $faults = Steno::Faults->new;
	my $node = new_node('warned', start => 0, conf => "steno.disk_reserve = 0\n");

	# A clean stop waits for the writer, which warns before it records the start.
	my $log_of_run = sub {
		my $start = -e $node->logfile ? -s $node->logfile : 0;

		$faults->start($node);
		$node->stop;
		return slurp_file($node->logfile, $start);
	};

	$faults->set('disk', "10 100000\n");
	unlike($log_of_run->(), $warning, 'with room, there is no warning');
	$faults->set('disk', "90 1\n");
	my $log = $log_of_run->();
	like($log, $warning, 'without room for a second ring file, the start warns');
	like($log, qr/DETAIL:  The file takes \d+ bytes, and 1048576 bytes are free\./, 'and says how much is missing');
	like($log, qr/HINT:  Make this file system larger .*--shm-size.*"steno\.ring_size"/, 'and what to do');
}

# If it happens, the server says that the file of the earlier run must stay.  Smaller
# rings are a way out, and nothing is lost.
{
	my $node = new_node('crashed', conf => "restart_after_crash = off\nsteno.ring_size = 128kB\n");
	my ($shm_kb) = (split ' ', (split /\n/, `df -Pk @{[ rings_of($node) ]}`)[1])[1];
	my $many = int($shm_kb / 65536) + 1;
	my $c = Steno::Client->new($node, application_name => 'crash');
	my @left;

	flush($node);
	stop_process(writer_pid($node));
	$c->query(q{SELECT 'in the ring'});
	$node->stop('immediate');
	@left = ring_files($node);
	is(scalar @left, 1, 'the run that crashed leaves its ring file');

  SKIP:
	{
		skip "the ring directory has room for $many rings of 64 MB", 4 if $many > 5000;
		refuses_to_start(
			$node,
			'no space beside it',
			"steno.ring_size = 64MB\nmax_connections = " . ($many < 10 ? 10 : $many),
			qr/FATAL:  could not create ring file "[^"]*": .*No space left on device/,
			qr/DETAIL:  \d+ rings need \d+ bytes, in addition to what an earlier run has left in its ring file\./,
			qr/HINT:  Do not remove that file: it holds records that are not in the trail\. Make "[^"]*" larger, .*lower "steno\.ring_size"/);
	}
	is_deeply([ ring_files($node) ], \@left, 'the file is still there, and no other');
	$node->append_conf('postgresql.conf', 'steno.ring_size = 16kB');
	$node->start;
	is( scalar(grep { ($_->{text} // '') eq q{SELECT 'in the ring'} } records($node, application => 'crash', kind => 'statement')),
		1, 'with smaller rings, the server starts, and what was in the larger ones is recorded');
	is(scalar(my @files = ring_files($node)), 1, 'the file is removed when it is drained');
	ok(!-e $left[0], 'the one that was left');
	$node->stop;
	verify_ok($node, 'the trail is whole');
}

done_testing();
