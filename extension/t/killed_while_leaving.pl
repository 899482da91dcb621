
# A session that has dropped records, and is killed while it leaves them to others: what
# it had counted for those who recover is then also where they, or the writer, look for
# what ended sessions have left.  It is told once.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

# Offsets of format/RING.md.
use constant {
	RINGS => 48,
	DROPS => 24,
	GAP => 48,
	GAP_PID => 80,
	OWN_GAP => 88,
	OWN_FIRST => 96,
	OWN_LAST => 104,
	OWNER => 192,
	UNTOLD => 200,
	LEAVING => 208
};

my $node = new_node(
	'main', conf => q{
steno.ring_size = 16kB
steno.delivery = drop
steno.mandatory = ''
restart_after_crash = off
});

# The number at an offset of a ring's header, and another in its place.
sub number
{
	my ($header, $at, $new) = @_;
	my ($len, $form) = $at == GAP_PID || $at == OWNER ? (4, 'L<') : (8, 'Q<');
	my $is = unpack $form, substr($$header, $at, $len);

	substr($$header, $at, $len) = pack $form, $new if defined $new;
	return $is;
}

foreach my $where ('gap', 'untold')
{
	my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');
	my $writer = $watch->query('SELECT pid FROM steno.writers')->{rows}[0][0];
	my ($postmaster, @processes, @others, $file, $bytes, $ring, $at, $header, $dropped, $counted, %known, $c);
	my $ring_of = sub { $watch->query("SELECT ring FROM steno.rings WHERE pid = $_[0]{pid}")->{rows}[0][0] };
	my $leave = sub {
		my ($session) = @_;

		$session->query("SELECT '" . 'x' x 500 . "'") foreach 1 .. 60;
		$session->quit;
		wait_until 'it has gone', sub { !kill 0, $session->{pid} };
	};

	$watch->query(q{SET steno.log = 'none'});
	$c = Steno::Client->new($node, application_name => 'first');
	$ring = $ring_of->($c);
	$watch->query('SELECT steno.flush()');
	$known{"$_->{session} $_->{seq}"} = 1 foreach records($node, kind => 'gap');
	kill 'STOP', $writer or die;
	$leave->($c);
	if ($where eq 'untold')
	{
		# one that finds no room at all, and the place of the first
		do
		{
			push @others, $c = Steno::Client->new($node, application_name => 'second');
			die 'no session has that ring' if @others > 50;
		} while ($ring_of->($c) ne $ring);
		$leave->($c);
	}
	$postmaster = $node->{_pid};
	@processes = split ' ', `ps -o pid= --ppid $postmaster`;
	kill 'STOP', $postmaster;
	kill 'KILL', @processes, $postmaster;
	wait_until 'all are gone', sub { !grep { kill 0, $_ } $postmaster, @processes };
	$node->{_pid} = undef;
	unlink $node->data_dir . '/postmaster.pid';

	# as if it had been killed a moment sooner
	($file) = ring_files($node);
	$bytes = slurp_file($file);
	$at = unpack('Q<', substr $bytes, RINGS, 8) + 4096 * $ring;
	$header = substr $bytes, $at, 4096;
	is(number(\$header, OWNER), 0, "$where: the session has ended");
	is(number(\$header, OWN_GAP), 0, "$where: and has left what it dropped");
	$dropped = number(\$header, OWN_LAST) - number(\$header, OWN_FIRST) + 1;
	if ($where eq 'gap')
	{
		is(number(\$header, GAP), $dropped, "$where: so many");
		is(number(\$header, GAP_PID), $c->{pid}, "$where: of this session");
	}
	else
	{
		is(number(\$header, UNTOLD), $dropped, "$where: so many");
		is(number(\$header, LEAVING), $dropped, "$where: as it was about to say");
	}
	number(\$header, OWN_GAP, $dropped);
	number(\$header, OWNER, $c->{pid});
	substr($bytes, $at, 4096) = $header;
	unlink $file;
	append_to_file($file, $bytes);

	# all that this ring has seen
	$dropped = number(\$header, DROPS);
	$node->start;
	wait_until 'the rings of before are drained', sub { !-e $file };
	$counted += $_->{extra}{count} foreach grep { !$known{"$_->{session} $_->{seq}"} } records($node, kind => 'gap');
	is($counted, $dropped, "$where: each record is counted once");
	close $_->{socket} foreach @others, $watch;
}
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
