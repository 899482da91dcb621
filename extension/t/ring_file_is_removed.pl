
# The ring file, or its whole directory, is removed under a running server: that goes
# on with what it has mapped, and loses nothing when it stops.  What the rings hold
# when it crashes is lost, and no more.

use strict;
use warnings;

use File::Path qw(rmtree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "restart_after_crash = on\nsteno.ring_size = 16kB\n");
my $rings = rings_of($node);

sub texts
{
	my ($application) = @_;

	return [ map { $_->{text} } grep { ($_->{text} // '') =~ /^SELECT '/ }
		  records($node, application => $application, kind => 'statement') ];
}

# It goes on, for much more than a ring holds, and stops.
{
	my $c = Steno::Client->new($node, application_name => 'on');
	my @told;

	unlink ring_files($node) or die;
	foreach my $i (1 .. 200)
	{
		my $text = "SELECT 'number $i', '" . 'x' x 300 . "'";

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

# A crash: what was in the trail is there, what was in the rings alone is not.
foreach my $how ('a process is killed', 'an immediate stop')
{
	my $c = Steno::Client->new($node, application_name => $how);
	my $start = -s $node->logfile;
	my ($writer, @r);

	$c->query(q{SELECT 'in the trail'});
	flush($node);
	$writer = value($node, 'SELECT pid FROM steno.writers');
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
done_testing();
