
# A pipe, a socket or a directory in place of a file of the server's does not block anything: neither
# the start of the server, nor a writer, nor the program.

use strict;
use warnings;

use IO::Socket::UNIX;
use JSON::PP ();
use POSIX qw(mkfifo);

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Retention;
use Test::More;

my $node = new_node('main', conf => "steno.compression = none\n");
my $trail = trail($node);
my $state = $node->data_dir . '/pg_steno.state';
my @sockets;

# What stands at a path instead of a file.
my %odd = (
	pipe => sub { mkfifo($_[0], 0600) or die "could not make $_[0]: $!" },
	socket => sub {
		# a path may be too long for a socket's name
		my ($folder, $name) = $_[0] =~ m{^(.*)/([^/]+)$};
		my $short = PostgreSQL::Test::Utils::tempdir_short() . "/$name";
		push @sockets, IO::Socket::UNIX->new(Local => $short, Listen => 1) || die "could not make $short: $!";
		rename $short, $_[0] or system('mv', $short, $_[0]) == 0 or die "could not move $short: $!";
	},
	directory => sub { mkdir $_[0] or die "could not make $_[0]: $!" },
	link => sub { symlink '/dev/zero', $_[0] or die "could not make $_[0]: $!" });

# the state file
fill($node, 1);
$node->stop;
rename $state, "$state.kept" or die;
foreach my $what (sort keys %odd)
{
	$odd{$what}->($state);
	refuses_to_start($node, "a $what for the state file", '',
		$what eq 'pipe' ? qr{FATAL:  state file "$state" of the trail is not a regular file} : qr{FATAL:  could not write state file "$state" of the trail: });
	-d $state && !-l $state ? rmdir $state : unlink $state;
}
rename "$state.kept", $state or die;
$node->start;

# slots
fill($node, 3);
foreach my $what (sort keys %odd)
{
	my ($code, $out, $err) = steno_result('slot', 'create', 'good', $trail);

	is("$err$code", '0', 'a slot');
	$odd{$what}->("$trail/slots/$what");
	($code, $out, $err) = steno_result('slot', 'list', $trail);
	is($code, 1, "a $what for a slot: the program says so");
	like($out, qr/^$what +unreadable /m, "a $what for a slot: it is unreadable");
	is(value($node, "SELECT state FROM steno.slots WHERE slot_name = '$what'"), 'unreadable', "a $what for a slot: for the view, too");
	($code, $out, $err) = steno_result('slot', 'advance', $what, '--to', '0/2', $trail);
	is($code, 3, "a $what for a slot: it is not advanced");
	($code, $out, $err) = steno_result('cat', '--slot', $what, $trail);
	is($code, 3, "a $what for a slot: nothing is read for it");
	($code, $out, $err) = steno_result('slot', 'drop', $what, $trail);
	is($code, $what eq 'directory' ? 3 : 0, "a $what for a slot: it is dropped, unless it is a directory");
	rmdir "$trail/slots/$what";
	steno_result('slot', 'drop', 'good', $trail);
}

# what is written beside the file that it replaces
# (the writer keeps one, with space for a full disk)
unlink "$trail/retention.new";
mkfifo("$trail/retention.new", 0600) or die;
set_and_reload($node, 'steno.retention_size', '1MB');
fill($node, 3);
wait_until 'with a pipe for the new file retention, old segments go', sub { (segments($node))[0] > 1 };
ok(-f "$trail/retention", 'the file retention is one');

# the folder of a stream
$node->stop;
rename "$trail/0", "$trail/kept" or die;
append_to_file("$trail/0", "in the way\n");
{
	my $from = -s $node->logfile;

	$node->start;
	wait_until 'a file for the folder of a stream: reported in the log', sub {
		slurp_file($node->logfile, $from) =~ m{WARNING:  steno writer 0 could not write the trail: .* "[^"]*/0": Not a directory\n.*DETAIL:  .*\n.*HINT:  A file is in the place of a directory of the trail\. Move it away};
	};
	is(value($node, 'SELECT stream IS NULL, state FROM steno.writers'), 't|failing', 'a file for the folder of a stream: the view shows it');
	unlink "$trail/0" or die;
	rename "$trail/kept", "$trail/0" or die;
	wait_until 'with the folder in its place, the writer goes on', sub { slurp_file($node->logfile, $from) =~ /steno writer 0 can write the trail again/ };
	flush($node);
	is(value($node, 'SELECT stream, state FROM steno.writers'), '0|ok', 'in the same stream');
}

$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
