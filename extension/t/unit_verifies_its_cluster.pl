
# What the unit steno-verify@ runs: the trail, keys and options are those of its cluster's configuration, so that
# damage makes exactly one unit fail.  systemd is not needed; scripts/test-packages tries the unit itself.

use strict;
use warnings;

use Cwd ();
use File::Basename qw(dirname);
use File::Path ();
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Test::More;

my $script = Cwd::abs_path('../packaging/steno-verify-cluster');
my ($major) = `pg_config --version` =~ /PostgreSQL (\d+)/ or die 'no version';
my $bindir = `pg_config --bindir`;
chomp $bindir;

# As on Debian: folders of configuration, apart from the data directories.
my $etc = PostgreSQL::Test::Utils::tempdir();
my $keys = PostgreSQL::Test::Utils::tempdir();
my $audit = PostgreSQL::Test::Utils::tempdir();

sub configured
{
	my ($node, $name) = @_;
	my $conf = "$etc/$major/$name";

	File::Path::make_path($conf);
	append_to_file("$conf/postgresql.conf", sprintf "data_directory = '%s'\ninclude '%s/postgresql.conf'\n", ($node->data_dir) x 2);
	return $conf;
}

# What the unit of an instance prints, and its exit code.  Only root's files in /etc/default are not tried.
sub unit
{
	my ($name, %environment) = @_;
	my $out;

	local %ENV = (%ENV, PG_CLUSTER_CONF_ROOT => $etc, STENO_PG_BINDIR => $bindir, PATH => dirname($ENV{STENO}) . ":$ENV{PATH}", %environment);
	delete @ENV{qw(PGDATA)};
	IPC::Run::run([ $script, "$major-$name" ], '<', \'', '>&', \$out);
	return ($? >> 8, $out);
}

my ($key) = keygen("$keys/2026.key");
my $main = new_node('main', conf => "steno.signing_key_file = '$key'\nsteno.seal_interval = 1s\n");
my $second = new_node('second', conf => "include_if_exists = 'more.conf'\n");
my $conf = configured($main, 'main');
configured($second, 'second');
# as an administrator may write it
append_to_file($second->data_dir . '/more.conf', "STENO.Directory '$audit/it''s' # of the second cluster\n");
$second->restart;
flush($_) foreach $main, $second;

my ($code, $out) = unit('main');
is($code, 0, 'the unit of an intact trail succeeds') or diag $out;
like($out, qr/^steno-verify\@$major-main: trail \Q${\ $main->data_dir}\E\/pg_steno$/m, 'it is that of its cluster');
like($out, qr/^pg_steno-anchor 1 system=/m, 'it prints anchors');
like($out, qr/^seals +stream 0/m, 'seals are checked with the public key beside the private one');
($code, $out) = unit('second');
is($code, 0, 'so does that of the second cluster') or diag $out;
like($out, qr/: trail \Q$audit\E\/it's$/m, 'whose directory is in an included file, with capitals and quotes');
unlike($out, qr/^seals +stream 0/m, 'which has no seals');

# Exceptions.
append_to_file("$conf/steno-verify.conf", qq(# of this cluster\nSTENO_VERIFY_OPTIONS="--format json"\n));
($code, $out) = unit('main');
like($out, qr/"problems"/, 'options are in a file of the cluster');
my $copy = PostgreSQL::Test::Utils::tempdir() . '/copy';
PostgreSQL::Test::RecursiveCopy::copypath(trail($main), $copy);
append_to_file("$conf/steno-verify.conf", "STENO_DIRECTORY=/nonexistent\n");
is((unit('main'))[0], 2, 'so is another directory');
($code, $out) = unit('main', STENO_DIRECTORY => $copy, STENO_VERIFY_OPTIONS => '--format text');
is($code, 0, 'but the environment, such as that of a drop-in, wins') or diag $out;
like($out, qr/^verdict /m, 'also for options');
unlink "$conf/steno-verify.conf" or die $!;
($code, $out) = unit('second', STENO_DIRECTORY => trail($main));
is($code, 3, 'the trail of another cluster is not verified in the place of its own');
like($out, qr/: the trail in .* is not that of cluster $major\/second: its system identifier is \d+, and not \d+$/m, 'which the unit says');
($code, $out) = unit('third');
is($code, 3, 'a cluster that does not exist is a failure');
like($out, qr/there is no cluster $major\/third: disable steno-verify\@$major-third\.timer/, 'which says what to do');
rename "$keys/2026.key.pub", "$audit/moved" or die $!;
($code, $out) = unit('main');
is($code, 0, 'without the public key, the trail is verified');
like($out, qr/seals are not checked: there is no public key/, 'and the unit says that seals are not checked');
rename "$audit/moved", "$keys/2026.key.pub" or die $!;

# A directory from the command line is in no file.
$main->stop;
PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', $main->data_dir, '-s', '-w', '-l', $main->logfile, '-o', "-c steno.directory=$audit/main", 'start');
wait_until('the server has recorded its settings', sub { (unit('main'))[1] =~ /: trail \Q$audit\E\/main$/m });
is((unit('main'))[0], 0, 'the server has recorded the directory that its command line names');
PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', $main->data_dir, '-s', '-w', 'stop');

# Damage of one is damage of one.
my $segment = "$audit/it's/0/0000000001.steno";
$second->stop;
open my $file, '+<', $segment or die "$segment: $!";
seek $file, 300, 0;
print $file 'X' x 64;
close $file or die $!;
($code, $out) = unit('second');
is($code, 1, 'damage makes the unit of its cluster fail');
like($out, qr/^verdict .*DAMAGED/m, 'the trail is verified although its seals cannot be exported, or only in part');
is((unit('main'))[0], 0, 'and not that of the other one');
done_testing();
