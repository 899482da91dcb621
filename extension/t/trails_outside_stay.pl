
# A trail outside the data directory is neither replaced nor lost when the data directory is: by pg_rewind, or by a
# backup that is restored over it.  A standby with the directory of its primary does not start on its machine.

use strict;
use warnings;

use File::Copy ();
use File::Path qw(rmtree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $key = keygen("$folder/key");
my $conf = "steno.signing_key_file = '$key'\nwal_log_hints = on\nwal_keep_size = 256MB\n";
my $primary = new_node('primary', streaming => 1, conf => "${conf}steno.directory = '$folder/primary'\n");
my $standby = PostgreSQL::Test::Cluster->new('standby');

# The marked statements in a trail, each with its number of records.
sub marks
{
	my ($trail) = @_;
	my %found;

	/"text":"SELECT 'mark ([^"']+)'"/ && $found{$1}++ foreach lines($trail, '--kind', 'statement');
	return join ', ', map { "$_: $found{$_}" } sort keys %found;
}

sub streams
{
	my ($trail) = @_;

	return join ' ', sort map { s{.*/}{}r } glob "$trail/*[0-9]";
}

sub whole
{
	my ($what, $trail) = @_;
	my ($code, $report) = verified($trail, '--key', "$key.pub");

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("$code @{[ map { $_->{what} } @{ $report->{problems} } ]}", '0 ', "$what: the trail is whole");
	return;
}

value($primary, "SELECT 'not marked'");
$primary->safe_psql('postgres', "SELECT 'mark 1'");
$primary->backup('backup');
ok(!-e $primary->backup_dir . '/backup/pg_steno', 'a base backup does not have the trail');

# A standby on the same machine.
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
Steno::configure($standby);
ok(!$standby->start(fail_ok => 1), 'a standby with the directory of its primary does not start');
like(slurp_file($standby->logfile), qr/FATAL:  trail directory "\Q$folder\E\/primary" is in use by another server/, 'and says why');
$standby->append_conf('postgresql.conf', "steno.directory = '$folder/standby'");
$standby->start;
$primary->wait_for_catchup($standby);
$standby->safe_psql('postgres', "SELECT 'mark standby'");

# It is promoted, and the old primary is rewound.
$standby->promote;
$primary->safe_psql('postgres', "SELECT 'mark 2'");
$standby->safe_psql('postgres', 'CREATE TABLE diverged AS SELECT 1 AS a; CHECKPOINT');
$primary->stop;
$standby->stop;
is(streams("$folder/standby"), '0', 'promotion: the standby goes on in its stream');
File::Copy::copy($primary->data_dir . '/postgresql.conf', "$folder/postgresql.conf") or die;
command_ok([ 'pg_rewind', '--source-pgdata', $standby->data_dir, '--target-pgdata', $primary->data_dir, '--no-sync', '--config-file', "$folder/postgresql.conf" ], 'pg_rewind runs');
File::Copy::move("$folder/postgresql.conf", $primary->data_dir . '/postgresql.conf') or die;
$primary->start;
$primary->safe_psql('postgres', "SELECT 'mark 3'");
$primary->stop;
is(marks("$folder/primary"), '1: 1, 2: 1, 3: 1', 'pg_rewind: the trail of the target has all that was in it');
is(streams("$folder/primary"), '0 1', 'pg_rewind: it goes on in a stream of its own');
like(slurp_file($primary->logfile), qr/DETAIL:  The data directory is a copy of .*\. Stream 0 remains as it is, up to block \d+\.\n/,
	'pg_rewind: the log does not claim that the source wrote the stream of the target');
whole('pg_rewind', "$folder/primary");
is(marks("$folder/standby"), 'standby: 1', 'pg_rewind: the trail of the source is as it was');
whole('source', "$folder/standby");

# A backup is restored over the server.
{
	my $saved = slurp_file($primary->data_dir . '/postgresql.conf');

	rmtree($primary->data_dir, { keep_root => 1 });
	system_or_bail('cp', '-R', glob($primary->backup_dir . '/backup/*'), $primary->data_dir);
	unlink $primary->data_dir . '/postgresql.conf';
	append_to_file($primary->data_dir . '/postgresql.conf', $saved);
	$primary->start;
	$primary->safe_psql('postgres', "SELECT 'mark 4'");
	$primary->stop;
	is(marks("$folder/primary"), '1: 1, 2: 1, 3: 1, 4: 1', 'restored backup: the trail has also what was recorded after the backup');
	is(streams("$folder/primary"), '0 1 2', 'restored backup: it goes on in a stream of its own');
	whole('restored backup', "$folder/primary");
}
done_testing();
