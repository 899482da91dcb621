
# Directories that pg_steno cannot work with are reported at the start: the server refuses to start,
# and its log says why and what to do.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Faults;
use Test::More;

my $node = new_node('main');
my $base = PostgreSQL::Test::Utils::tempdir();
my $file = "$base/file";
my $closed = "$base/closed";

$node->stop;
append_to_file($file, 'not a directory');
mkdir $closed;
chmod 0500, $closed or die;
symlink $node->data_dir, "$base/link" or die;

# A file in memory cannot be larger than the file system.
my ($shm_kb) = (split ' ', (split /\n/, `df -Pk @{[ rings_of($node) ]}`)[1])[1];
my $many = int($shm_kb / 65536) + 1;

foreach my $case (
	[
		'a trail directory without parent',
		"steno.directory = '$base/none/trail'",
		qr{FATAL:  could not create trail directory "$base/none/trail": No such file or directory},
		qr{HINT:  Set "steno.directory" to a directory that the server can write\.}
	],
	[
		'a trail directory that cannot be made',
		"steno.directory = '$closed/trail'",
		qr{FATAL:  could not create trail directory "$closed/trail": Permission denied},
		qr{HINT:  Set "steno.directory"}
	],
	[
		'a trail directory that cannot be written',
		"steno.directory = '$closed'",
		qr{FATAL:  could not write to trail directory "$closed": Permission denied},
		qr{HINT:  Set "steno.directory"}
	],
	[
		'a trail directory that is a file',
		"steno.directory = '$file'",
		qr{FATAL:  could not write to trail directory "$file": Not a directory},
		qr{HINT:  Set "steno.directory"}
	],
	(
		map {
			[
				"the trail directory $_ of the server itself",
				"steno.directory = '$_'",
				qr{FATAL:  trail directory "\Q$_\E" contains files of the server itself, or is among them},
				qr{HINT:  Set "steno.directory" to a directory of its own}
			]
		} '.', 'base', 'pg_wal/trail', "$base/link"),
	[
		'no ring directory',
		"steno.ring_directory = '$base/none'",
		qr{FATAL:  could not open ring directory "$base/none": No such file or directory},
		qr{HINT:  Set "steno.ring_directory" to a directory in memory that the server can write\.}
	],
	[
		'a ring directory that cannot be written',
		"steno.ring_directory = '$closed'",
		qr{FATAL:  could not create directory of ring files "$closed/pg_steno\.[^"]*": Permission denied},
		qr{HINT:  Set "steno.ring_directory" to a directory in memory that the server can write\.}
	],
	[
		'a ring directory that is too small',
		"steno.ring_size = 64MB\nmax_connections = " . ($many < 10 ? 10 : $many),
		qr{FATAL:  could not create ring file "[^"]*": .*No space left on device},
		qr{DETAIL:  \d+ rings need \d+ bytes\.},
		qr{HINT:  Free space in "[^"]*", set "steno.ring_directory" to another memory file system, or lower "steno.ring_size"}
	])
{
	my ($what, $conf, @messages) = @$case;

  SKIP:
	{
		skip "the ring directory has room for $many rings of 64 MB", 4
		  if $what =~ /too small/ && $many > 5000;
		refuses_to_start($node, $what, $conf, @messages);
	}
}
is_deeply([ ring_files($node) ], [], 'no ring file is left');

# One trail, one server: a second server does not start unless the first one has ended, in whatever
# way.
{
	my $second = new_node('second', start => 0, conf => "steno.directory = '@{[ trail($node) ]}'\n");
	my $directory = $node->data_dir;
	my ($start, $log);

	$node->append_conf('postgresql.conf', 'restart_after_crash = on');
	$node->start;
	ok(!$second->start(fail_ok => 1), 'a trail of a server that runs: the second does not start');
	$log = slurp_file($second->logfile);
	like($log, qr{FATAL:  trail directory "$directory/pg_steno" is in use by another server}, 'and says why');
	like($log, qr{DETAIL:  It is that of data directory "$directory", with PID $node->{_pid}\.}, 'and whose it is');
	like($log, qr{HINT:  Every server needs a trail of its own: set "steno.directory" to another directory\.}, 'and the way out');
	ok(-e $node->data_dir . '/postmaster.pid' && value($node, 'SELECT 1'), 'the first runs on');

	# after a crash of one of its processes, too
	$start = -s $node->logfile;
	kill 'KILL', writer_pid($node);
	$node->wait_for_log(qr/reinitializing.*ready to accept connections/s, $start);
	$start = -s $second->logfile;
	ok(!$second->start(fail_ok => 1), 'nor after a crash of the first, which restarts');
	like(slurp_file($second->logfile, $start), qr/FATAL:  trail directory "[^"]*" is in use/, 'for the same reason');
	$node->stop('immediate');
	$start = -s $second->logfile;
	ok(!$second->start(fail_ok => 1), 'a trail of another cluster: the server does not start');
	$log = slurp_file($second->logfile, $start);
	like($log, qr{FATAL:  trail directory "$directory/pg_steno" belongs to another database cluster}, 'and says why');
	like($log, qr{DETAIL:  The system identifier of segment "[^"]*/0000000001.steno" is \d+, that of this cluster is \d+\.},
		'and how it knows');
	like($log, qr{HINT:  Set "steno.directory" to another directory}, 'and the way out');
	$node->start;
	$node->stop;
	is_deeply([ ring_files($second) ], [], 'no ring file is left');
}

# A server has ended for pg_ctl once postmaster.pid is gone.  Its process may still be there then, for a while.
{
	my $faults = Steno::Faults->new;
	my $pid;

	$faults->start($node);
	$pid = $node->{_pid};
	$faults->set('hold_exit');
	$node->stop;
	wait_until 'its process is at its end', sub { $faults->is_set('holding.exit') };
	ok($node->start(fail_ok => 1), 'a server starts while the process of the one before is still there');
	ok(kill(0, $pid), 'it was there');
	$faults->unset('hold_exit');
	$node->stop if $node->{_pid};
}

# One trail, one server, also in a directory that was removed while its server runs, and has been made again:
# the lock that went with it is taken anew.
{
	my $second = new_node('third', start => 0, conf => "steno.directory = '@{[ trail($node) ]}'\n");
	my $trail = trail($node);
	my $state = sub { value($node, 'SELECT state FROM steno.status') };
	my $refused = sub {
		my ($what) = @_;
		my $start = -s $second->logfile;

		ok(!$second->start(fail_ok => 1), "$what: no second server starts");
		like(slurp_file($second->logfile, $start // 0), qr/FATAL:  trail directory "[^"]*" is in use by another server/, "$what: it says why");
	};
	my ($start, $writer);

	$node->start;
	foreach my $what ('the directory was removed', 'its lock file was removed')
	{
		$start = -s $node->logfile;
		PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $what =~ /file/ ? "$trail/.lock" : $trail);
		$node->wait_for_log(qr/LOG:  trail directory "pg_steno" has been locked again/, $start);
		$refused->($what);
	}
	$start = -s $node->logfile;
	kill 'KILL', writer_pid($node);
	$node->wait_for_log(qr/ready to accept connections/, $start);
	$node->wait_for_log(qr/has been locked again/, $start);
	$refused->('after a crash, too');

	# another server was faster
	$writer = writer_pid($node);
	kill 'STOP', $writer;
	wait_until 'it has stopped', sub { slurp_file("/proc/$writer/stat") =~ /\) T / };
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $trail);
	$second->start;
	$start = -s $node->logfile;
	kill 'CONT', $writer;
	$node->wait_for_log(qr/could not write the trail: another server uses trail directory "pg_steno"/, $start);
	is($state->(), 'failing', 'a trail that another server has taken is not written to');
	$second->stop;
	$start = -s $node->logfile;
	wait_until 'the next reason', sub { value($node, 'SELECT failure FROM steno.status') =~ /the directory has a segment of another database cluster/ };
	is($state->(), 'failing', 'nor when that has gone');
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $trail);
	wait_until 'it is written again', sub { $state->() eq 'ok' };
	$node->stop;
	is_deeply([ ring_files($second) ], [], 'no ring file is left');
}

# PostgreSQL refuses invalid values itself: it warns, and uses the default, as for every extension.
{
	my $saved = slurp_file($node->data_dir . '/postgresql.conf');
	my $start = -s $node->logfile;
	my $log;

	$node->append_conf(
		'postgresql.conf', q{
steno.directory = ''
steno.ring_size = 100kB
steno.file_mode = 0666
steno.writers = 33
steno.log = 'read, everything'
steno.on_failure = panic
steno.disk_warning = 101
steno.unknown = 1
});
	ok($node->start(fail_ok => 1), 'with what it needs, it starts');
	$log = slurp_file($node->logfile, $start);
	like($log, $_, "warning: $_") foreach (
		qr/WARNING:  invalid value for parameter "steno.directory": ""\n.*DETAIL:  The path is empty\./,
		qr/WARNING:  invalid value for parameter "steno.ring_size": 100\n.*DETAIL:  "steno.ring_size" must be a power of two, in kilobytes\./,
		qr/WARNING:  invalid value for parameter "steno.file_mode": 438\n.*DETAIL:  "steno.file_mode" must be 0600, 0640, or 0644\./,
		qr/WARNING:  33 is outside the valid range for parameter "steno.writers" \(1 \.\. 32\)/,
		qr/WARNING:  invalid value for parameter "steno.log": "read, everything"\n.*DETAIL:  Unrecognized class: "everything"\./,
		qr/WARNING:  invalid value for parameter "steno.on_failure": "panic"\n.*HINT:  Available values: wait, error, continue, shutdown\./,
		qr/WARNING:  101 is outside the valid range for parameter "steno.disk_warning" \(0 \.\. 100\)/,
		qr/WARNING:  invalid configuration parameter name "steno.unknown"/);
	is( value($node, q{SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings
WHERE name IN ('steno.directory', 'steno.ring_size', 'steno.file_mode', 'steno.writers', 'steno.log')}),
		'pg_steno 0600 all 128 1', 'the defaults hold');
	$node->stop;
	open my $handle, '>', $node->data_dir . '/postgresql.conf' or die;
	print $handle $saved;
	close $handle;
}

# Errors that the log does not get are kept from us as well.  From PostgreSQL 19 on, each type of
# process has its level.
my @levels = qw(log fatal panic);

push @levels, map { "'error,$_:fatal'" } qw(backend walsender bgworker) if $node->pg_version->major >= 19;
foreach my $level (@levels)
{
	my $start = -s $node->logfile;

	$node->append_conf('postgresql.conf', "log_min_messages = $level");
	$node->start;
	like(slurp_file($node->logfile, $start),
		qr/WARNING:  statements that fail before they are planned will not be recorded/,
		"log_min_messages = $level is warned of");
	$node->stop;
	$node->append_conf('postgresql.conf', 'log_min_messages = warning');
}
if ($node->pg_version->major >= 19)
{
	my $start = -s $node->logfile;

	$node->append_conf('postgresql.conf', "log_min_messages = 'fatal,backend:error,walsender:error,bgworker:error'");
	$node->start;
	unlike(slurp_file($node->logfile, $start), qr/will not be recorded/, 'processes without statements may hide errors');
	$node->stop;
	$node->append_conf('postgresql.conf', 'log_min_messages = warning');
}

# Files are the server's alone, or as wide as asked for.
{
	my ($segment) = glob trail($node) . '/0/*.steno';

	is((stat $segment)[2] & 07777, 0600, 'segments are for the owner only');
	is((stat trail($node))[2] & 07777, 0700, 'so is the directory');
	$node->append_conf('postgresql.conf', "steno.directory = 'elsewhere'\nsteno.file_mode = 0640");
	$node->start;
	flush($node);
	my ($ring) = ring_files($node);
	is((stat $ring)[2] & 07777, 0600, 'the ring file is for the owner only');
	($segment) = glob $node->data_dir . '/elsewhere/0/*.steno';
	is((stat $segment)[2] & 07777, 0640, 'steno.file_mode');
	is(value($node, 'SHOW steno.file_mode'), '0640', 'which is shown in octal');
	$node->stop;
}

# Accounts that can write to the trail's directory could put links there.
{
	my $start = -s $node->logfile;
	my $directory = $node->data_dir . '/elsewhere';
	my $other = "$base/other";

	append_to_file($other, 'as it was');
	symlink $other, "$directory/.write_test" or die;
	chmod 0777, $directory or die;
	$node->start;
	$node->stop;
	is(slurp_file($other), 'as it was', 'a link in the directory is not followed');
	ok(!-e "$directory/.write_test", 'and is gone');
	like(slurp_file($node->logfile, $start), qr/WARNING:  other accounts can change trail directory "elsewhere"/, 'a directory that others can write is warned of');
	chmod 0700, $directory or die;
	$start = -s $node->logfile;
	$node->start;
	$node->stop;
	unlike(slurp_file($node->logfile, $start), qr/other accounts can change/, 'another is not');
}

# What the server knows of its trail has to be kept.
{
	my $state = $node->data_dir . '/pg_steno.state';

	rename $state, "$state.kept" or die;
	mkdir $state or die;
	refuses_to_start($node, 'a state file that cannot be written', '', qr{FATAL:  could not write state file "\Q$state\E" of the trail: Is a directory});
	rmdir $state or die;
	rename "$state.kept", $state or die;
}

chmod 0700, $closed;
done_testing();
