
# A writer that encrypts is killed before, during and after the write of a block: recovery finds out,
# without any key, whether the block was written, and each record is in the trail once, in a new
# segment.  The trail is also sealed: the missing seal at the end of a killed run is no damage.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $command = 'printf %064d 7';
my $key = PostgreSQL::Test::Utils::tempdir() . '/key';
my $faults = Steno::Faults->new;
system_or_bail($ENV{STENO}, 'keygen', '--out', $key);
my $node = new_node(
	'main',
	start => 0,
	conf => qq{
restart_after_crash = on
steno.encryption_key_command = '$command'
steno.signing_key_file = '$key'
});
my @texts;

local $ENV{STENO_ENCRYPTION_KEY_COMMAND} = $command;

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
foreach my $fault (qw(kill_before_write kill_in_write kill_after_write))
{
	my $start = -s $node->logfile;
	my $c = Steno::Client->new($node, application_name => $fault);
	my ($segments, %seen);

	# a writer begins the first one with its first block
	flush($node);
	$segments = () = glob trail($node) . '/0/*.steno';
	$faults->set('hold_write');
	push @texts, map { "SELECT '$fault $_'" } 1 .. 6;
	$c->query($_) foreach @texts[ -6 .. -4 ];
	wait_until 'the writer is at it', sub { $faults->is_set('holding.0') };
	# in the ring alone
	$c->query($_) foreach @texts[ -3 .. -1 ];
	$faults->set_times("$fault.0", 1);
	$faults->unset('hold_write');
	$node->wait_for_log(qr/steno writer 0 recovered \d+ records/, $start);
	wait_until 'the rings of before are drained', sub {
		can_connect($node)
		  && scalar(my @files = ring_files($node)) == 1;
	};
	close $c->{socket};
	$seen{ $_->{text} }++ foreach statements($node, text => qr/^SELECT 'kill_/);
	is_deeply(\%seen, { map { $_ => 1 } @texts }, "$fault: each statement is there once");
	is(scalar(() = glob trail($node) . '/0/*.steno'), $segments + 1, "$fault: the stream goes on in a new segment");
	like(slurp_file($node->logfile, $start), qr/cut an unfinished block/, "$fault: what was unfinished is cut off")
	  if $fault eq 'kill_in_write';
	verify_ok($node, "$fault: the trail is whole");
}
is(scalar(grep { index(slurp_file($_), 'kill_') >= 0 } glob trail($node) . '/0/*.steno'), 0, 'and encrypted');
$node->stop;
verify_ok($node, 'the trail is whole in the end');
command_like([ $ENV{STENO}, 'verify', '--key', "$key.pub", trail($node) ], qr/number and seal is correct$/m, 'and every seal is right');
gapless($node, 'no session has gaps');
done_testing();
