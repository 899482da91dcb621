
# Every account can write to the directory of rings.  Files there that have this server's names, but
# were not made by it, are neither read nor removed, and do not prevent a start: the server chooses
# another name for its own directory, and says so.  The test stands in for another account with what
# that could leave there: links, files, and directories that others can write to.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "restart_after_crash = on\n");
my $rings = rings_of($node);
my $elsewhere = PostgreSQL::Test::Utils::tempdir();
my ($file) = ring_files($node);
my ($folder) = $file =~ m{^(.*)/};
my ($prefix) = $file =~ m{([^/]*\.)[^.]*$};
my $start;

sub log_since { return slurp_file($node->logfile, $start) }

sub drained
{
	wait_until 'the ring of before is drained', sub { log_since() =~ /recovered \d+ records of an earlier run/ };
	return;
}

# A session whose records are in its ring only when the server is killed.
sub killed_with_a_record
{
	my ($name) = @_;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->query("SELECT 'begin'");
	flush($node);
	stop_process(writer_pid($node));
	$c->query("SELECT '$name'");
	kill_server($node);
	$start = -s $node->logfile;
	return;
}

sub is_recorded
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(scalar(statements($node, application => $name, text => "SELECT '$name'")), 1, "$name: what the ring had is recorded");
	return;
}

# ---- its own directory ----

like($folder, qr{/pg_steno\.$>\.[0-9a-f]{16}$}, 'the directory has the account and the server in its name');
is((stat $folder)[2] & 07777, 0700, 'it is for the owner only');
is((stat $file)[2] & 07777, 0600, 'and so is the file');
is(value($node, 'SELECT ring_file FROM steno.status'), $file, 'steno.status names the file');

# A directory that others could only read is closed to them, and used.
killed_with_a_record('readable');
chmod 0755, $folder or die;
$node->start;
drained();
is_recorded('readable');
is((stat $folder)[2] & 07777, 0700, 'a directory that others could read is closed');
$node->stop;
ok(!-e $folder, 'a clean stop removes the directory');

# ---- the name is taken ----

my @taken = (
	[ 'a symbolic link', sub { symlink $elsewhere, $folder or die }, qr/It is a symbolic link of user ID $>/ ],
	[ 'a dangling link', sub { symlink "$elsewhere/none", $folder or die }, qr/It is a symbolic link/ ],
	[ 'a file', sub { append_to_file($folder, 'x') }, qr/It is a file of user ID $>/ ],
	[
		'a directory that others can write', sub { mkdir $folder or die; chmod 01777, $folder or die },
		qr/It is a directory of user ID $>, mode 1777/
	]);

foreach my $case (@taken)
{
	my ($what, $make, $detail) = @$case;
	my $end = sub { -d $folder && !-l $folder ? rmdir $folder : unlink $folder };
	my @other;

	$make->();
	$start = -s $node->logfile;
	$node->start;
	like(log_since(), qr/WARNING:  directory of ring files "\Q$folder\E" is not the server's own, and is not used/, "$what: the log says that the name is taken");
	like(log_since(), $detail, "$what: and by what");
	@other = ring_files($node);
	is(scalar @other, 1, "$what: there is a ring file");
	like($other[0], qr{^\Q$folder\E\.[0-9a-f]{16}/}, "$what: in a directory with another name");

	# a crash restart finds it again, and so does a start after a kill
	killed_with_a_record($what);
	$node->start;
	drained();
	is_recorded($what);
	is_deeply([ map { m{^(.*)/} } ring_files($node) ], [ $other[0] =~ m{^(.*)/} ], "$what: the directory is used again");

	# and when the name is free again, files under both names are found
	killed_with_a_record("$what again");
	$end->() or die;
	$node->start;
	drained();
	is_recorded("$what again");
	wait_until 'the other directory goes', sub { !-e $other[0] =~ s{/[^/]*$}{}r };
	is_deeply([ map { m{^(.*)/} } ring_files($node) ], [$folder], "$what: the usual name is used again");
	$node->stop;
	is_deeply([ glob "$rings/*" ], [], "$what: nothing is left");
}
is_deeply([ glob "$elsewhere/*" ], [], 'nothing was made where the link led');

# ---- files ----

# One of each kind is planted, each with a copy of a file that a server has left.  None is read.
$start = -s $node->logfile;
$node->start;
killed_with_a_record('planted');
($file) = ring_files($node);
my $bytes = slurp_file($file);
my $left = $file =~ s/[^.]*$//r;

append_to_file("$rings/${prefix}0000000000000001", $bytes);
mkdir "$folder.open" or die;
chmod 0777, "$folder.open" or die;
append_to_file("$folder.open/${prefix}0000000000000002", $bytes);
symlink $folder, "$folder.link" or die;
append_to_file("${left}0000000000000003", $bytes);
chmod 0666, "${left}0000000000000003" or die;
append_to_file("${left}0000000000000004", $bytes);
chmod 0600, "${left}0000000000000004" or die;
link "${left}0000000000000004", "$rings/twice" or die;
symlink $file, "${left}0000000000000005" or die;
append_to_file("${left}0000000000000006", substr($bytes, 0, 32) . pack('Q<', 1) . substr($bytes, 40));
mkdir "${left}0000000000000007" or die;
$node->start;
drained();
is_recorded('planted');
is(scalar(records($node, kind => 'server', extra => undef)), 0, 'servers say what they do');
is(scalar(() = log_since() =~ /recovered \d+ records of an earlier run/g), 1, 'one file is drained');
is(scalar(() = log_since() =~ /WARNING: .* ignored 3 entries of ring directory "\Q$rings\E" that have names of this server's and are not its own/g),
	1, 'what is not in the own directory has one message');
like(log_since(), qr/could not read ring file "[^"]*0000000000000003" of an earlier run: file of user ID $>, mode 0666, 1 links/, 'a file that others can write');
like(log_since(), qr/could not read ring file "[^"]*0000000000000004" of an earlier run: file of user ID $>, mode 0600, 2 links/, 'a file with two names');
like(log_since(), qr/could not read ring file "[^"]*0000000000000005" of an earlier run: could not open ring file: Too many levels/, 'a link');
like(log_since(), qr/could not read ring file "[^"]*0000000000000006" of an earlier run: ring file of another cluster/, 'the file of another cluster');
like(log_since(), qr/could not read ring file "[^"]*0000000000000007" of an earlier run: could not open ring file: Is a directory/, 'a directory');
is(slurp_file("$rings/${prefix}0000000000000001"), $bytes, 'what is ignored stays as it is');
is(slurp_file("$folder.open/${prefix}0000000000000002"), $bytes, 'all of it');
PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', "$rings/${prefix}0000000000000001", "$folder.open", "$folder.link", "$rings/twice", glob "${left}000000000000000?");

# ---- many files, and no look ----

# As many as a server leaves that was killed at each of its starts.
$node->stop('immediate');
($file) = ring_files($node);
$left = $file =~ s/[^.]*$//r;
append_to_file($left . sprintf('%016x', $_), '') foreach 1 .. 1500;
$node->start;
wait_until 'all files of before have gone', sub { scalar(my @files = ring_files($node)) == 1 };
pass('however many files there are, all are looked at');

SKIP:
{
	skip 'root can read every directory', 2 if $> == 0;

	killed_with_a_record('unlisted');
	chmod 0300, $rings or die;
	$node->start;
	wait_until 'it is said',
	  sub { log_since() =~ /WARNING:  could not read directory "\Q$rings\E" to look for ring files of earlier runs: Permission denied/ };
	is(value($node, 'SELECT 1'), 1, 'a directory that cannot be read keeps no server from running');
	$node->stop('immediate');
	chmod 0700, $rings or die;
	$start = -s $node->logfile;
	$node->start;
	drained();
	is_recorded('unlisted');
}

# Others could remove our directory.
$node->stop;
chmod 0777, $rings or die;
$start = -s $node->logfile;
$node->start;
like(log_since(), qr/WARNING:  other accounts can remove the ring files of this server/, 'a directory without sticky bit is warned of');
$node->stop;
chmod 01777, $rings or die;
$start = -s $node->logfile;
$node->start;
unlike(log_since(), qr/other accounts can remove/, 'one with it is not');
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
