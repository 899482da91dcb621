# Rings whose messages can be longer than steno.block_size says: blocks are then larger.
# And what ends one session, whose record may take most of a block, stands in one: when
# those who recover it are killed after a block, nothing of a session is missing or twice.

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
max_connections = 20
restart_after_crash = on
steno.ring_size = 1MB
steno.block_size = 64kB
});

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');

# ---- longer than a block was to be ----
{
	my $c = Steno::Client->new($node, application_name => 'long');
	my @texts = map { "SELECT length('" . "$_." x $_ . "')" } 20_000, 33_000, 64_000;

	is($c->query($_)->{sqlstate}, undef, length($_) . ' bytes') foreach @texts;
	$c->quit;
	is_deeply([ map { $_->{text} } statements($node, application => 'long') ], \@texts, 'the records are whole');
}

# ---- ends of sessions ----
{
	my $start = -s $node->logfile;
	my @sizes = (20_000, 45_000, 120_000, 30_000, 45_000, 20_000, 45_000);
	my @texts = map { "SELECT pg_sleep(1000), '" . "$_" x ($sizes[$_] / length $_) . "'" } 0 .. $#sizes;
	my @sessions = map { Steno::Client->new($node, application_name => "running $_") } 0 .. $#sizes;
	my $kills = 3;

	$sessions[$_]->put('Q', "$texts[$_]\0")->send_all foreach 0 .. $#sizes;
	wait_until 'all are running',
	  sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) == @sizes };
	flush($node);
	$faults->set_times('kill_after_write.0', $kills);
	kill 'KILL', $sessions[0]{pid};
	wait_until 'all is recovered', sub {
		!$faults->is_set('kill_after_write.0')
		  && can_connect($node)
		  && scalar(my @files = ring_files($node)) == 1;
	};
	cmp_ok(scalar(() = slurp_file($node->logfile, $start) =~ /all server processes terminated; reinitializing/g),
		'>=', $kills + 1, 'recovery was killed, too');
	foreach my $i (0 .. $#sizes)
	{
		is_deeply([ map { $_->{text} eq $texts[$i] } statements($node, application => "running $i", outcome => 'interrupted') ],
			[1], "session $i: its statement, once");
		is(scalar(records($node, application => "running $i", kind => 'disconnect')), 1, "session $i: its end, once");
	}
}
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
