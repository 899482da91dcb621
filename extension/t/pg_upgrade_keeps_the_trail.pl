
# pg_upgrade: the trail of the old cluster is not deleted with its data directory.  The new cluster
# begins a trail of its own, in a directory of its own.
#
# Both clusters are of the installation under test, unless STENO_OLD_INSTALL names the folder of
# another one for the old cluster, as scripts/test-upgrade does.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $key = keygen("$folder/key");
my $conf = "steno.signing_key_file = '$key'\n";

# 18 has checksums by default, and pg_upgrade wants both clusters to be equal in that.
my @initdb = (initdb => ['--data-checksums']);
my $old = new_node('old', @initdb, conf => $conf, install_path => $ENV{STENO_OLD_INSTALL});
my $new = new_node('new', @initdb, conf => "${conf}steno.directory = '$folder/new'\n", start => 0);
my $inside = trail($old);

# It creates delete_old_cluster.sh in the current directory.
chdir $folder or die;

sub pg_upgrade
{
	my (@args) = @_;
	my ($out, $err);

	# it starts and stops servers with pg_ctl, which would give up after a minute
	local $ENV{PGCTLTIMEOUT} = $PostgreSQL::Test::Utils::timeout_default;
	my $ok = IPC::Run::run(
		[
			'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir,
			'-b', $old->config_data('--bindir'), '-B', $new->config_data('--bindir'),
			'-s', $new->host, '-p', $old->port, '-P', $new->port, @args
		],
		'>', \$out, '2>', \$err);

	# what it says, and the logs of the servers that it has started, unless it has deleted them
	return ($ok, join "\n", $out, $err, map { slurp_file($_) } glob $new->data_dir . '/pg_upgrade_output.d/*/log/*.log');
}

sub forget_logs
{
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $new->data_dir . '/pg_upgrade_output.d');
	return;
}

sub count
{
	my ($trail) = @_;

	return scalar(() = lines($trail));
}

my ($ok, $log, $before);

$old->safe_psql('postgres', 'CREATE TABLE t AS SELECT 1 AS a');
$old->safe_psql('postgres', "SELECT 'number $_'") foreach 1 .. 5;

# 17.12 keeps a version in the options of columns, which 18.6 refuses to restore.
if (defined $ENV{STENO_OLD_INSTALL})
{
	$old->safe_psql($_, q(SET allow_system_table_mods = on; UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '{pg_attver=%'))
	  foreach qw(postgres template1);
}
$old->stop;
$before = count($inside);

# In the data directory, where it is by default.
($ok, $log) = pg_upgrade('--check');
ok(!$ok, 'a trail in the old data directory: pg_upgrade --check fails');
like($log, qr/FATAL:  trail directory "pg_steno" is inside the data directory that pg_upgrade leaves behind/, 'the log says why');
like($log, qr/DETAIL:  The new cluster begins a trail of its own\. The script "delete_old_cluster\.sh" would delete this one\./, 'and what would be lost');
like($log, qr/HINT:  Move the directory out of the data directory, and set "steno\.directory" in the old cluster/, 'and the way out');
is(count($inside), $before, 'nothing was added to the trail');
forget_logs();
($ok, $log) = pg_upgrade('--check', '--old-options', '-c shared_preload_libraries=');
ok($ok, 'without the library in the old cluster, pg_upgrade --check passes') or diag($log);

# A link in the data directory is no trail in it.
rename $inside, "$folder/old" or die;
symlink "$folder/old", $inside or die;
($ok, $log) = pg_upgrade('--check');
unlike($log, qr/is inside the data directory/, 'a link to a trail elsewhere is accepted');
unlink $inside or die;
forget_logs();

# One directory for both.
$_->append_conf('postgresql.conf', "steno.directory = '$folder/old'") foreach $old, $new;
($ok, $log) = pg_upgrade('--check');
ok(!$ok, "the old cluster's trail as that of the new one: pg_upgrade --check fails");
like($log, qr/FATAL:  trail directory "\Q$folder\E\/old" belongs to another database cluster/, 'the log says why');
forget_logs();

# Each with its own; a check can be repeated, and the old cluster goes on after it.
$new->append_conf('postgresql.conf', "steno.directory = '$folder/new'");
foreach my $time (1, 2)
{
	($ok, $log) = pg_upgrade('--check');
	ok($ok, "a directory for each: pg_upgrade --check passes, time $time") or diag($log);
	$old->start;
	$old->safe_psql('postgres', "SELECT 'number @{[ 5 + $time ]}'");
	$old->stop;
}
$before = count("$folder/old");
my $anchors = "$folder/anchors";
append_to_file($anchors, seal_export("$folder/old"));

($ok, $log) = pg_upgrade();
ok($ok, 'pg_upgrade') or diag($log);
system_or_bail('sh', "$folder/delete_old_cluster.sh");
ok(!-e $old->data_dir . '/PG_VERSION', 'delete_old_cluster.sh deletes the old data directory');
cmp_ok(count("$folder/old"), '>', $before, 'the trail of the old cluster has all it had, and what pg_upgrade did there');
is_deeply([ map { /'number (\d+)'/ ? $1 : () } lines("$folder/old", '--kind', 'statement') ], [ 1 .. 7 ], 'with every statement once');
{
	my ($code, $report) = verified("$folder/old", '--key', "$key.pub", '--anchor', $anchors);

	is("$code @{[ map { $_->{what} } @{ $report->{problems} } ]}", '0 ', 'it is intact and sealed to its end');
}

# The new cluster.
$new->start;
is($new->safe_psql('postgres', 'SELECT a FROM t'), 1, 'the new cluster has the data');
is(value($new, 'SELECT state FROM steno.status'), 'ok', 'and the extension');
value($new, 'SELECT steno.flush()');
$new->stop;
is(scalar(grep { /"SELECT a FROM t"/ } lines("$folder/new", '--kind', 'statement')), 1, 'it records into its own trail');
{
	my ($code, $report) = verified("$folder/new", '--key', "$key.pub");

	is("$code @{[ map { $_->{what} } @{ $report->{problems} } ]}", '0 ', 'which is intact and sealed');
}
ok(!-e $new->data_dir . '/pg_steno', 'nothing is in the new data directory');
done_testing();
