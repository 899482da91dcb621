
# Two hundred sessions at the same time, and a thousand short ones: each has its connect record, its
# statements and its disconnect record.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node(
	'main', conf => q{
max_connections = 230
shared_buffers = 16MB
steno.ring_size = 16kB
});

# At once: all are connected before the first runs a statement, and all have
# sent theirs before the first reads an answer.
{
	my @sessions = map { Steno::Client->new($node, application_name => 'crowd') } 1 .. 200;
	my %texts;
	my %kinds;

	is(scalar(grep { defined } @sessions), 200, '200 sessions are connected');
	foreach my $round (1 .. 3)
	{
		$sessions[$_]->put('Q', "SELECT 'session $_ round $round'\0")->send_all
		  foreach 0 .. $#sessions;
		$_->finish foreach @sessions;
	}
	is(value($node, 'SELECT count(DISTINCT pid) >= 200 FROM steno.rings'),
		't', 'each has its ring');
	$_->quit foreach @sessions;
	wait_until 'all have gone',
	  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'crowd'") eq '0' };
	foreach my $r (records($node, application => 'crowd'))
	{
		$kinds{ $r->{kind} }++;
		$texts{ $r->{text} }++ if $r->{kind} eq 'statement';
	}
	is_deeply(
		\%kinds,
		{ connect => 200, statement => 600, disconnect => 200 },
		'all records of 200 sessions at once');
	is(scalar keys %texts, 600, 'of 600 different statements');
}

# One after the other: rings and process slots are used again and again.
{
	my (%sessions, @wrong);

	foreach my $i (1 .. 1000)
	{
		my $c = Steno::Client->new($node, application_name => 'short');

		$c->query("SELECT 'short $i'");
		$c->quit;
	}
	wait_until 'all have gone',
	  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'short'") eq '0' };
	foreach my $r (sort { $a->{seq} <=> $b->{seq} } records($node, application => 'short'))
	{
		push @{ $sessions{ $r->{session} } }, $r->{kind};
	}
	@wrong = grep { "@{$sessions{$_}}" ne 'connect statement disconnect' } keys %sessions;
	is(scalar keys %sessions, 1000, '1000 short sessions');
	is_deeply(\@wrong, [], 'each with connect, statement, disconnect');
}

is(value($node, 'SELECT sum(drops) FROM steno.rings'), '0', 'nothing was dropped');
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
