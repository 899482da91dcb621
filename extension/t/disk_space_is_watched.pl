
# The disk of the trail: an early warning, space that is left for others, and a command that is run on
# changes.  A library tells the server how full the disk is.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
my $base = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('main', start => 0, conf => qq{
steno.disk_warning = 75
steno.disk_reserve = 64
steno.alert_command = 'echo %e %s %d %m 100%% >>$base/alerts'
});
my ($start, $c);

sub disk
{
	my ($percent, $free) = @_;

	$faults->set('disk', "$percent $free\n");
	return;
}

sub alerts
{
	return -e "$base/alerts" ? slurp_file("$base/alerts") : '';
}

sub said
{
	my ($pattern) = @_;

	return scalar(() = slurp_file($node->logfile, $start) =~ /$pattern/g);
}

sub set_command
{
	my ($command) = @_;

	value($node, "ALTER SYSTEM SET steno.alert_command = '" . ($command =~ s/'/''/gr) . "'");
	value($node, 'SELECT pg_reload_conf()');
	flush($node);
	wait_until 'the writer has it', sub {
		return grep { $_->{extra}{name} eq 'steno.alert_command' && index($command, substr($_->{extra}{new}, 0, 20)) == 0 }
		  records($node, kind => 'setting');
	};
	return;
}

disk(10, 100_000);
$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
$start = -s $node->logfile;
$c = Steno::Client->new($node, application_name => 'disk');

# The warning is logged once, and ends some way below the limit.
wait_until 'the view has it', sub { value($node, 'SELECT round(disk_free_percent) FROM steno.writers') eq '90' };
disk(76, 30_000);
$node->wait_for_log(qr/WARNING:  file system of trail directory "pg_steno" is 76 percent full/, $start);
wait_until 'the view has it', sub { value($node, 'SELECT round(disk_free_percent) FROM steno.status') eq '24' };
foreach my $percent (74, 80)
{
	disk($percent, 30_000);
	wait_until 'it is seen', sub {
		value($node, 'SELECT round(disk_free_percent) FROM steno.writers') eq 100 - $percent;
	};
}
is(said(qr/WARNING:  file system/), 1, 'the log warns once');
is(said(qr/below "steno\.disk_warning" again/), 0, 'a little less is no change');
disk(70, 30_000);
$node->wait_for_log(qr/LOG:  file system of trail directory "pg_steno" is 70 percent full, below "steno\.disk_warning" again/, $start);
wait_until 'the command has run', sub { alerts() =~ /disk_ok/ };
is(alerts(), "disk_warning 0 pg_steno 76 percent full 100%\ndisk_ok 0 pg_steno 70 percent full 100%\n",
	'the command was run for each change');

# In the reserve, the disk counts as full.
disk(96, 63);
wait_until 'it is seen', sub { value($node, 'SELECT round(disk_free_percent) FROM steno.writers') eq '4' };
$c->query(q{SELECT 'in reserve'});
$node->wait_for_log(
	qr/WARNING:  steno writer 0 could not write the trail: no more than "steno.disk_reserve" is free for "pg_steno\/0": No space left on device/,
	$start);
is($c->query('SELECT state FROM steno.writers')->{rows}[0][0], 'failing', 'shown in the view');

# a little more is not enough
disk(95, 70);
my $errors = $c->query('SELECT errors FROM steno.writers')->{rows}[0][0];
wait_until 'it tries again', sub { $c->query('SELECT errors FROM steno.writers')->{rows}[0][0] >= $errors + 2 };
is(said(qr/can write the trail again/), 0, 'it does not go on for a little room');
disk(70, 200);
$node->wait_for_log(qr/LOG:  steno writer 0 can write the trail again/, $start);
flush($node);
is(scalar(statements($node, text => q{SELECT 'in reserve'})), 1, 'nothing is lost');
wait_until 'the command has run', sub { alerts() =~ /recovered/ };
like(
	alerts(),
	qr/^failure 0 pg_steno no more than "steno.disk_reserve" is free for "pg_steno\/0": No space left on device 100%\n(?:disk_ok .*\n)?recovered 0 pg_steno the trail is written again 100%$/m,
	'the command was run for both');

# On a small file system, the reserve is a twentieth.
disk(50, 20);
$c->query(q{SELECT 'on a small disk'});
flush($node);
is(scalar(statements($node, text => q{SELECT 'on a small disk'})), 1, 'a small disk is not full for that');
disk(10, 100_000);

# What is in a message is not read by the shell; variables have it, too.
set_command("printf '[%%s]' %m \"\$STENO_EVENT\" '%m' >$base/quoted");
$faults->set_times('write_fails', 1);
$c->query('SELECT 1');
flush($node);
wait_until 'it has run', sub { -e "$base/quoted" && slurp_file("$base/quoted") =~ /recovered/ };
is(slurp_file("$base/quoted"), '[the trail is written again][recovered]["$STENO_MESSAGE"]', 'quoting is safe');

# A command that fails is reported once; its output is in the log.
$start = -s $node->logfile;
set_command('echo output of the command; exit 3');
foreach (1 .. 2)
{
	$faults->set_times('write_fails', 1);
	$c->query('SELECT 1');
	flush($node);
}
wait_until 'all four have run', sub { said(qr/^output of the command$/m) == 4 };
$node->wait_for_log(qr/WARNING:  "steno.alert_command" failed: exit code 3/, $start);
foreach my $wrong ('echo %z', 'date +%', 'echo %e %%%M')
{
	my ($code, undef, $err) = $node->psql('postgres', "ALTER SYSTEM SET steno.alert_command = '$wrong'");

	isnt($code, 0, "a command with an unknown placeholder: $wrong");
	like($err, qr/unknown placeholder "%[zM]"|ends with an incomplete placeholder "%"/, 'and it says which');
}
is(said(qr/"steno.alert_command" failed/), 1, 'its failure is reported once');

# A command that does not end blocks nothing but later events.
set_command("[ %e = recovered ] || until [ -e $base/go ]; do sleep 0.1; done; echo %e >>$base/slow");
$faults->set_times('write_fails', 1);
$c->query(q{SELECT 'beside a slow command'});
flush($node);
is(scalar(statements($node, text => q{SELECT 'beside a slow command'})), 1, 'the writer does not wait for a command');
ok(!-e "$base/slow", 'which has not ended');
$faults->set('clock_of_all', 3600);
flush($node) foreach 1 .. 2;
is(said(qr/"steno.alert_command" failed: it took longer/), 0, 'its time is not up when the clock is set');
$faults->unset('clock_of_all');
append_to_file("$base/go", '');
wait_until 'both have run', sub { -e "$base/slow" && slurp_file("$base/slow") =~ /recovered/ };
is(slurp_file("$base/slow"), "failure\nrecovered\n", 'commands run in the order of the events');

# and a command that is still running does not prevent the server from stopping
set_command("echo \$\$ >$base/pid; sleep 1000");
$faults->set_times('write_fails', 1);
$c->query('SELECT 1');
flush($node);
wait_until 'it runs', sub { -s "$base/pid" };
$c->quit;
$node->stop;
my $left = slurp_file("$base/pid") + 0;
# killed, but its new parent may not have reaped it yet
ok( wait_until(
		'it is killed',
		sub { !kill(0, $left) || (eval { slurp_file("/proc/$left/stat") } // "") =~ /\) Z / }),
	'a command that is left at the end is killed');
verify_ok($node, 'the trail is whole');
done_testing();
