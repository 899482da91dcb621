
# kill -9 of a backend, of a writer, and of the whole server, under load: each statement whose success
# a client was told is in the trail once.

use strict;
use warnings;

use File::Temp ();
use IO::Handle;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node(
	'main', conf => q{
restart_after_crash = on
steno.writers = 2
steno.ring_size = 32kB
});
my $folder = PostgreSQL::Test::Utils::tempdir();

$node->safe_psql('postgres', 'CREATE TABLE t (a int)');

# Clients that number their statements, and write down which were answered.  One
# that loses its server connects again, until it is told to stop.
my @clients;
my $generation = 0;

sub start_load
{
	$generation++;
	unlink "$folder/stop";
	foreach my $i (1 .. 6)
	{
		my $pid = fork // die "fork: $!";

		if (!$pid)
		{
			load($i);
			POSIX::_exit(0);
		}
		push @clients, $pid;
	}
	return;
}

sub load
{
	my ($i) = @_;
	my $n = 0;

	open my $answered, '>', "$folder/answered.$generation.$i" or die;
	$answered->autoflush(1);
	while (!-e "$folder/stop")
	{
		my $c = eval { Steno::Client->new($node, application_name => 'load') };

		if (!$c || $c->{greeting}{sqlstate})
		{
			usleep(20_000);
			next;
		}
		while (!-e "$folder/stop")
		{
			my $text = "load $generation.$i." . ++$n;
			my $answer =
			  $n % 3
			  ? $c->query("SELECT '$text'")
			  : $c->extended("INSERT INTO t SELECT length('$text')");

			last if !$answer || $answer->{sqlstate};
			print $answered "$text\n";
		}
		close $c->{socket};
	}
	return;
}

sub stop_load
{
	append_to_file("$folder/stop", '');
	waitpid $_, 0 foreach splice @clients;
	return;
}

# How many statements the clients have seen succeed.
sub answered
{
	my @texts = map { split /\n/, slurp_file($_) } glob "$folder/answered.*";

	return @texts;
}

sub wait_for_load
{
	my $before = answered();

	wait_until 'the load goes on', sub { answered() > $before + 600 };
	return;
}

# What clients saw, and what the trail says.
sub compare
{
	my ($what) = @_;
	my %count;
	my (@missing, @twice);

	foreach my $line (lines($node, '--kind', 'statement', '--application', 'load'))
	{
		next if $line !~ /"outcome":"ok"/;
		$count{$1}++ if $line =~ /"text":"[^"]*'(load [\d.]+)'[^"]*"/;
	}
	@missing = grep { !$count{$_} } answered();
	@twice = grep { $count{$_} > 1 } keys %count;
	cmp_ok(scalar answered(), '>', 600, "$what: there was load");
	is_deeply([ @missing[ 0 .. ($#missing > 9 ? 9 : $#missing) ] ],
		[], "$what: no statement that a client saw succeed is missing");
	is_deeply([ @twice[ 0 .. ($#twice > 9 ? 9 : $#twice) ] ],
		[], "$what: none is there twice");
	return;
}

# A backend.  The server restarts all its processes then.
start_load();
wait_for_load();
{
	my $pid = value($node, "SELECT pid FROM pg_stat_activity WHERE application_name = 'load' LIMIT 1");

	kill 'KILL', $pid;
	wait_until 'the server has noticed',
	  sub { slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/ };
	wait_until 'it is back', sub { can_connect($node) };
}
wait_for_load();
stop_load();
flush($node);
compare('a backend killed');

# A writer.  It uses shared memory, so the server restarts all processes here, too.
foreach my $i (0, 1)
{
	my $pid = writer_pid($node, $i);
	my $start;

	start_load();
	wait_for_load();
	$start = -s $node->logfile;
	kill 'KILL', $pid;

	# before that, a session could begin that the restart ends
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $start);
	wait_until 'another has taken over',
	  sub { can_connect($node) && (writer_pid($node, $i) || $pid) ne $pid };
	wait_for_load();
	stop_load();
	flush($node);
	compare("writer $i killed");
}

# Postmaster first, then its children, and all at once.
foreach my $order ('postmaster first', 'children first', 'postmaster only')
{
	my $postmaster = $node->{_pid};
	my @children;

	start_load();
	wait_for_load();
	@children = split ' ', `ps -o pid= --ppid $postmaster`;
	if ($order eq 'postmaster first')
	{
		kill 'KILL', $postmaster, @children;
	}
	elsif ($order eq 'children first')
	{
		# stopped, it cannot restart what dies
		kill 'STOP', $postmaster;
		kill 'KILL', @children, $postmaster;
	}
	else
	{
		kill 'KILL', $postmaster;
	}
	stop_load();
	server_gone($node, $postmaster, @children);
	$node->start;
	wait_until 'earlier rings are drained',
	  sub { scalar(my @files = ring_files($node)) == 1 };
	flush($node);
	compare("the server killed, $order");
}

# The server's own crash recovery was not disturbed.
is($node->safe_psql('postgres', 'SELECT count(*) > 0 FROM t'), 't', 'the table has rows');
my @recoveries = records($node, kind => 'server');
cmp_ok(scalar(grep { $_->{extra}{event} eq 'recover' } @recoveries),
	'>=', 4, 'recoveries are recorded');
is(scalar(grep { $_->{extra}{event} eq 'other_trail' } @recoveries), 0, 'each recovery finds the trail that the run had recorded in');
$node->stop;
is_deeply([ ring_files($node) ], [], 'a clean stop leaves no ring file');
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
