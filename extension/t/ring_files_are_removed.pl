
# A ring file that is removed while the server runs, and files that an unfinished start has left.

use strict;
use warnings;

use File::Path qw(rmtree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno;
use Test::More;

# The ring file, or its whole directory, is removed under a running server: the server continues with
# its mapping, and loses nothing when it stops.  If it crashes, only records that were in the rings are
# lost.
{
	my $node = new_node('ring_file_is_removed', conf => "restart_after_crash = on\nsteno.ring_size = 16kB\n");
	my $rings = rings_of($node);

	sub texts
	{
		my ($application) = @_;

		return [ map { $_->{text} } grep { ($_->{text} // '') =~ /^SELECT '/ }
			  records($node, application => $application, kind => 'statement') ];
	}

	# It continues, for much more than a ring holds, and stops.
	{
		my $c = Steno::Client->new($node, application_name => 'on');
		my @told;

		unlink ring_files($node) or die;
		foreach my $i (1 .. 200)
		{
			my $text = "SELECT 'number $i', '" . filler(300) . "'";

			push @told, $text if !$c->query($text)->{sqlstate};
		}
		$c->quit;
		is_deeply(texts('on'), \@told, 'the ring file removed: all is recorded');
		is(scalar @told, 200, 'and nothing fails');
		$node->stop;
		$node->start;
		is(scalar(records($node, application => 'on', kind => 'disconnect')), 1, 'a clean stop loses nothing');
		verify_ok($node, 'the trail is whole');
		gapless($node, 'no session has gaps');
	}

	# A crash: records in the trail are there, those that were only in the rings are not.
	foreach my $how ('a process is killed', 'an immediate stop')
	{
		my $c = Steno::Client->new($node, application_name => $how);
		my $start = -s $node->logfile;
		my ($writer, @r);

		$c->query(q{SELECT 'in the trail'});
		flush($node);
		$writer = writer_pid($node);
		stop_process($writer);
		$c->query(q{SELECT 'in the ring'});
		unlink ring_files($node) or die;
		if ($how eq 'an immediate stop')
		{
			# which waits for the writer, and kills it then
			$node->stop('immediate');
			$node->start;
		}
		else
		{
			# the writer itself
			kill 'KILL', $writer;
			$node->wait_for_log(qr/reinitializing.*ready to accept connections/s, $start);
		}
		$c = Steno::Client->new($node, application_name => "after $how");
		$c->query(q{SELECT 'after'});
		$c->quit;
		is_deeply(texts($how), [q{SELECT 'in the trail'}], "$how: what the rings alone had is lost");
		@r = records($node, application => $how);
		is(scalar(grep { $_->{kind} eq 'disconnect' } @r), 0, "$how: so is the end of the session, which shows it");
		is_deeply(texts("after $how"), [q{SELECT 'after'}], "$how: the server goes on, with a new file");
		is(scalar(my @files = ring_files($node)), 1, "$how: of its own");
		is(scalar(grep { ($_->{extra}{event} // '') eq 'start' } records($node, kind => 'server')) > 1,
			1, "$how: the trail has the start");
		verify_ok($node, "$how: the trail is whole");
	}

	# The directory: the server cannot start again without it, and says so.
	{
		my $c = Steno::Client->new($node, application_name => 'no directory');
		my $start;

		rmtree($rings);
		$c->query(q{SELECT 'without'});
		$c->quit;
		is_deeply(texts('no directory'), [q{SELECT 'without'}], 'the directory removed: all is recorded');
		$node->stop;
		$start = -s $node->logfile;
		ok(!$node->start(fail_ok => 1), 'the server does not start without it');
		like(slurp_file($node->logfile, $start), qr/FATAL:  could not open ring directory .*No such file or directory/, 'and says why');
		mkdir $rings or die;
		$node->start;
		is(scalar(records($node, application => 'no directory', kind => 'disconnect')), 1, 'nothing is lost');
		$node->stop;
	}
}

# A server that is killed while it makes its ring file leaves one that holds nothing:
# the next start removes it.  A file that is not of that kind is left, and said.
{
	my $node = new_node('unfinished_ring_files_go');
	my $start;

	# a ring file's name tells the cluster; that of a killed postmaster stays, even if it is drained
	kill_server($node);
	my ($left) = ring_files($node);
	my $name = $left =~ s/[^.]*$//r;

	append_to_file("${name}0000000000000001", '');
	append_to_file("${name}0000000000000002", "\0" x 100_000);
	append_to_file("${name}0000000000000003", 'x' x 100_000);
	$start = -s $node->logfile;
	$node->start;
	wait_until 'the ring of the last run is drained', sub { !-e $left };
	wait_until 'an empty file is removed', sub { !-e "${name}0000000000000001" };
	wait_until 'a file of zeros is removed', sub { !-e "${name}0000000000000002" };
	wait_until 'the other is said', sub { slurp_file($node->logfile, $start) =~ /not a ring file/ };
	ok(-e "${name}0000000000000003", 'another is left');
	is_deeply(
		[ slurp_file($node->logfile, $start) =~ /could not read ring file "[^"]*(\d)" of an earlier run: not a ring file/g ],
		[3], 'and that one is said');
	unlink "${name}0000000000000003";
	$node->stop;
	is_deeply([ ring_files($node) ], [], 'a clean stop leaves no ring file');
	verify_ok($node, 'the trail is whole');
}

# An immediate stop while nothing is left to be drained: the file stays, so that the next start can say that all was
# recovered.
{
	my $node = new_node('empty_ring_file_stays');

	$node->safe_psql('postgres', q{SELECT 'before'});
	wait_until 'the ends of all sessions are in the trail', sub {
		my %sessions;

		$sessions{ $_->{pid} } += $_->{kind} eq 'connect' ? 1 : -1
		  foreach grep { $_->{kind} =~ /connect/ } records(trail($node));
		return %sessions && !grep { $_ != 0 } values %sessions;
	};
	$node->stop('immediate');
	is(scalar(my @left = ring_files($node)), 1, 'an immediate stop leaves the ring file');
	$node->start;
	wait_until 'the ring file of the last run is drained', sub { !-e $left[0] };
	my @recovered = grep { ($_->{extra}{event} // '') eq 'recover' } records($node, kind => 'server');
	is(scalar @recovered, 1, 'the next start says that it was recovered');
	is($recovered[0]{extra}{records}, '0', 'and that it held nothing');
	$node->stop;
	is_deeply([ ring_files($node) ], [], 'a clean stop leaves none');
}

done_testing();
