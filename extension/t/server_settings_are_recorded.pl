
# Changes of all settings of the server, by a reload or a restart, are recorded: name, values, and the
# place in the configuration files, as pg_settings has them before and after.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main');
my $known = 0;

# The truth: name, value, file, and line of all settings that can be in a file.
sub settings
{
	my %s;

	foreach my $line (split /\n/, value($node,
			q{SELECT name, current_setting(name), sourcefile, sourceline FROM pg_settings
			  WHERE context <> 'internal' AND source NOT IN ('client', 'session', 'override')}))
	{
		my ($name, $value, $file, $number) = split /\|/, $line, -1;

		$s{$name} = { value => $value, file => $file, line => $number };
	}
	return \%s;
}

# The records since the last call, as a text for each.
sub recorded
{
	my @r = map {
		my $e = $_->{extra};
		join ' ', $e->{name}, "'$e->{old}'", "'$e->{new}'", $e->{source}, $e->{file} // '', $e->{line} // ''
	} records($node, kind => 'setting');

	splice @r, 0, $known;
	$known += @r;
	return [ sort @r ];
}

# What differs between two states, in the same form.
sub differences
{
	my ($old, $new) = @_;

	return [
		sort map { join ' ', $_, "'$old->{$_}{value}'", "'$new->{$_}{value}'", 'server', $new->{$_}{file}, $new->{$_}{line} }
		  grep { $new->{$_}{value} ne $old->{$_}{value} } keys %$old
	];
}

# What a change does, which takes effect when $apply is called.
sub check
{
	my ($what, $apply) = @_;
	my $before = settings();
	my ($now, $differ);

	$apply->();
	$now = settings();
	$differ = differences($before, $now);
	cmp_ok(scalar @$differ, '>', 0, "$what: settings differ");
	is_deeply(recorded(), $differ, "$what: each difference has its record, and nothing else");
	return;
}

sub reload
{
	my $start = -s $node->logfile;

	$node->reload;
	$node->wait_for_log(qr/received SIGHUP/, $start);
	wait_until 'writer 0 has reloaded', sub { records($node, kind => 'setting') > $known };
	return;
}

is_deeply(recorded(), [], 'the first start has nothing to compare with');
check(
	'a reload',
	sub {
		$node->append_conf('postgresql.conf',
			"work_mem = 5MB\nlog_min_duration_statement = 3s\nsteno.flush_interval = 150ms\nrestore_command = 'cp /archive/%f %p'\nlog_line_prefix = '%m [%p] %a '\n");
		reload();
	});
check('ALTER SYSTEM', sub { value($node, 'ALTER SYSTEM SET work_mem = 7168'); reload(); });
check('ALTER SYSTEM RESET', sub { value($node, 'ALTER SYSTEM RESET work_mem'); reload(); });
check(
	'a line that is removed',
	sub {
		my $file = $node->data_dir . '/postgresql.conf';
		my $text = slurp_file($file);

		$text =~ s/^log_min_duration_statement.*\n//mg;
		unlink $file;
		append_to_file($file, $text);
		reload();
	});
check(
	'a restart',
	sub {
		$node->append_conf('postgresql.conf', "max_connections = 42\nmaintenance_work_mem = 20MB\nwork_mem = 6MB\nsteno.ring_size = 32kB\n");
		$node->restart;
		flush($node);
	});
check(
	'changed while stopped, after a kill',
	sub {
		kill_server($node);
		$node->append_conf('postgresql.conf', "max_wal_size = 2GB\n");
		$node->start;
		flush($node);
	});

# Nothing has changed.
$node->restart;
flush($node);
is_deeply(recorded(), [], 'a restart without changes has no such record');

# Secrets are not shown, and a change of one is noticed.
foreach my $password ('first', 'second')
{
	$node->append_conf('postgresql.conf', "primary_conninfo = 'host=a user=b password=$password'\n");
	reload();
	my ($r) = @{ recorded() };

	like($r, qr/^primary_conninfo /, 'a change of a secret is recorded');
	unlike($r, qr/first|second/, 'and the secret is not');
}

# Nor where the name of the setting says that the value is one.
foreach my $command ('echo first', 'echo second')
{
	$node->append_conf('postgresql.conf', "ssl_passphrase_command = '$command'\n");
	reload();
	like(join('; ', @{ recorded() }), qr/^ssl_passphrase_command '(?:<redacted>)?' '<redacted>'/, 'a setting whose name says that it is a secret');
}
unlike(slurp_file($node->data_dir . '/pg_steno.settings'), qr/echo (first|second)|password=(first|second)/, 'nor are they in the file of the values');

# Neither class is recorded.
$node->append_conf('postgresql.conf', "steno.log = 'all, -setting'\nsteno.mandatory = 'role'\n");
$node->restart;
flush($node);
recorded();
$node->append_conf('postgresql.conf', "work_mem = 9MB\n");
$node->reload;
wait_until 'it is reloaded', sub { value($node, 'SHOW work_mem') eq '9MB' };
$node->stop;
is_deeply(recorded(), [], 'without the class "setting", there is none');
verify_ok($node, 'the trail is whole');
done_testing();
