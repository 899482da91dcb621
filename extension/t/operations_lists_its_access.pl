
# The files that pg_steno uses are those that docs/operations.md lists for SELinux and AppArmor.  Landlock, the
# kernel's access control for a process that asks for it, lets a server have these and what PostgreSQL itself needs,
# and nothing else.

use strict;
use warnings;

use Fcntl qw(O_RDONLY);
use File::Basename;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Seals;
use Test::More;

# <linux/landlock.h>; a system call has the same number everywhere, except the oldest
my ($create_ruleset, $add_rule, $restrict_self) = (444, 445, 446);
my %prctl = (x86_64 => 157, aarch64 => 167);
my $no_new_privileges = 38;
my $machine = (POSIX::uname())[4];
my ($execute, $write_file, $read_file, $read_dir, $move, $truncate) = map { 1 << $_ } 0, 1, 2, 3, 13, 14;
my $version = $prctl{$machine} ? syscall($create_ruleset, 0, 0, 1) : 0;

plan skip_all => 'the kernel has no Landlock that can be used here' if $version < 1;

my $rights = $version >= 3 ? (1 << 15) - 1 : $version == 2 ? (1 << 14) - 1 : (1 << 13) - 1;
my $reading = $execute | $read_file | $read_dir;

sub rule
{
	my ($ruleset, $path, $allowed) = @_;
	my $what;

	$allowed &= $execute | $write_file | $read_file | $truncate if !-d $path;
	sysopen my $handle, $path, O_RDONLY or die "could not open $path: $!";
	$what = pack 'Q l', $allowed & $rights, fileno $handle;
	syscall($add_rule, $ruleset, 1, $what, 0) == 0 or die "could not allow $path: $!";
	close $handle;
	return;
}

# Start a server that has no more access than to these paths; the result is whether it has started.
sub start_restricted
{
	my ($node, $read, $write) = @_;
	my $handled = pack 'Q', $rights;
	my $pid = fork // die "could not fork: $!";

	if ($pid == 0)
	{
		my $ruleset = syscall($create_ruleset, $handled, length $handled, 0);

		eval {
			$ruleset >= 0 or die "could not create a ruleset: $!";
			rule($ruleset, $_, $reading) foreach grep { -r } @$read;
			rule($ruleset, $_, $rights) foreach @$write;
			syscall($prctl{$machine}, $no_new_privileges, 1, 0, 0, 0) == 0 or die "could not give up privileges: $!";
			syscall($restrict_self, $ruleset, 0) == 0 or die "could not restrict the process: $!";
			open STDIN, '<', '/dev/null';
			open STDOUT, '>', '/dev/null';
			exec 'pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile, 'start';
		};
		print STDERR $@;
		POSIX::_exit(127);
	}
	waitpid $pid, 0;
	die 'the server was not restricted' if $? >> 8 == 127;
	$node->_update_pid($? == 0 ? 1 : 0);
	return $? == 0;
}

my $base = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('main', start => 0);
my ($key) = keygen("$base/key");
my $trail = "$base/audit/trail";

mkdir "$base/$_" or die foreach qw(audit alerts);
$node->append_conf('postgresql.conf', qq{
restart_after_crash = on
dynamic_shared_memory_type = mmap
steno.directory = '$trail'
steno.signing_key_file = '$key'
steno.alert_command = 'echo %e >>$base/alerts/alerts'
});

# What PostgreSQL needs: programs, libraries and the configuration of the system, wherever they are, but neither
# devices, nor the kernel's files, nor what is beside our own; its data, which have its shared memory, too; its socket,
# and its log.
my ($beside) = $base =~ m{^(/[^/]+)};
my $installation = `pg_config --bindir`;
chomp $installation;
my @system = (dirname($installation), map({ chomp; $_ } map { `pg_config $_` } qw(--pkglibdir --sharedir --libdir)),
	grep { $_ ne $beside && $_ ne '/dev' && $_ ne '/sys' } glob '/*');
my @own = ($node->data_dir, $node->host, dirname($node->logfile), qw(/dev/null /dev/urandom));

# What the page lists.
my ($list) = slurp_file(dirname(__FILE__) . '/../../docs/operations.md') =~ /## SELinux and AppArmor\n(.*?)\n\*\*SELinux/s
  or die 'no list in docs/operations.md';
my @listed = $list =~ m{`(/[^`]+)`}g;
ok(scalar(grep { $_ eq '/etc/machine-id' } @listed), 'the page lists files');

ok(start_restricted($node, [ @system, @listed, $key ], [ @own, "$base/audit", "$base/alerts", rings_of($node) ]),
	'with the access that the page lists, the server starts');
SKIP:
{
	skip 'it does not', 1 if !$node->{_pid};
	my $c;
	my $start;

	value($node, 'CREATE EXTENSION pg_steno');
	$c = Steno::Client->new($node, application_name => 'restricted');
	$c->query(q{SELECT 'first'});
	value($node, 'SELECT steno.rotate()');
	$c->query(q{SELECT 'second'});
	$start = -s $node->logfile;
	kill 'TERM', writer_pid($node);
	$node->wait_for_log(qr/steno writer 0 is running again/, $start);
	wait_until 'the alert command has run', sub { -e "$base/alerts/alerts" };
	kill 'KILL', writer_pid($node);
	$node->wait_for_log(qr/reinitializing.*ready to accept connections/s, $start);
	value($node, q{SELECT steno.note('after the crash')});
	$node->stop;
	unlike(slurp_file($node->logfile), qr/Permission denied/, 'nothing is refused');
	is(scalar(grep { /"text":"SELECT '(?:first|second)'"/ } lines($trail, '--application', 'restricted')),
		2, 'all is recorded');
	verify_ok($trail, 'the trail is whole');
}

# The test can see what is refused.
foreach my $case (
	[ 'the trail', "$base/audit", qr/FATAL:  could not write to trail directory "[^"]*": Permission denied/ ],
	[ 'the rings', rings_of($node), qr/FATAL:  could not (?:open|create) [^\n]*: Permission denied/ ],
	[ 'the key', $key, qr/FATAL:  [^\n]*\Q$key\E[^\n]*: Permission denied/ ])
{
	my ($what, $path, $message) = @$case;
	my $start = -s $node->logfile;
	my @write = grep { $_ ne $path } "$base/audit", "$base/alerts", rings_of($node);

	ok(!start_restricted($node, [ @system, @listed, grep { $_ ne $path } $key ], [ @own, @write ]),
		"without access to $what, it does not start");
	like(slurp_file($node->logfile, $start), $message, 'and says why');
}

done_testing();
