
# pg_steno works only from shared_preload_libraries, and says so.  A server that recorded goes on without it.

use strict;
use warnings;

use File::Temp;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

chomp(my $libraries = `pg_config --pkglibdir`);

my $node = PostgreSQL::Test::Cluster->new('main');
my $message =
  qr/ERROR:  pg_steno must be loaded by "shared_preload_libraries"\nHINT:  Add "pg_steno" to "shared_preload_libraries" in postgresql\.conf and restart the server\./;
my ($status, $out, $err);

$node->init;
$node->start;

foreach my $sql (
	q{LOAD 'pg_steno'},
	q{CREATE EXTENSION pg_steno})
{
	($status, $out, $err) = $node->psql('postgres', $sql);
	isnt($status, 0, "refused: $sql");
	like($err, $message, 'with the reason');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name LIKE 'steno.%'}),
	0, 'no setting was defined');
is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the session can go on');

# For a session of its own it is refused, too, and the server stays.
($status, $out, $err) = $node->psql(
	'postgres', 'SELECT 1',
	connstr => $node->connstr('postgres') . " options='-c session_preload_libraries=pg_steno'");
isnt($status, 0, 'refused: session_preload_libraries');
like($err, qr/pg_steno must be loaded by "shared_preload_libraries"/, 'with the reason');

# Made with the library loaded, its functions are called without.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_steno'");
$node->restart;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_steno; SELECT steno.flush()');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
($status, $out, $err) = $node->psql('postgres', 'SELECT steno.flush()');
like($err, $message, 'functions are refused without the library');
is($node->safe_psql('postgres', 'DROP EXTENSION pg_steno; SELECT 1'),
	1, 'the extension can be dropped without the library');

# Without a postmaster there are no writers, and nothing to record for.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_steno'");
$node->stop;
command_like(
	[
		'sh', '-c',
		'echo "SELECT 40 + 2 AS answer" | postgres --single -D "$0" postgres 2>/dev/null',
		$node->data_dir
	],
	qr/answer = "42"/,
	'single-user mode works, without recording');
ok($node->start(fail_ok => 1), 'the server starts after it');
$node->stop;

# Loaded by a path, it is found by its writers by that path.
my $folder = File::Temp->newdir;
chmod 0755, "$folder";
symlink "$libraries/pg_steno.so", "$folder/pg_steno.so" or die "could not make a link: $!";
$node->append_conf('postgresql.conf', "shared_preload_libraries = '$folder/pg_steno.so'\ndynamic_library_path = '/nowhere'");
$node->start;
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type LIKE 'steno writer%'"),
	'the writer of a library that was loaded by its path');
$node->stop;

# A server continues without the library, with its settings still configured; the trail stays, and its
# stream is continued when the library is back.
{
	my $node = new_node('uninstalled', conf => "steno.retention_age = '400d'\n");
	my $file = $node->data_dir . '/postgresql.conf';
	my $trail = trail($node);
	my $conf = slurp_file($file);
	my $without = $conf =~ s/^shared_preload_libraries = 'pg_steno'$//mr;
	my $start;

	sub configure_with
	{
		my ($text) = @_;

		open my $handle, '>', $file or die "could not write $file: $!";
		print $handle $text;
		close $handle;
		$node->restart;
		return;
	}

	isnt($without, $conf, 'the library is in the configuration');
	$node->safe_psql('postgres', q{ALTER DATABASE postgres SET steno.log_start = 'ddl'});
	$node->safe_psql('postgres', q{SELECT 'mark 1'});
	$node->safe_psql('postgres', 'DROP EXTENSION pg_steno; DROP SCHEMA steno');

	configure_with($without);
	is_deeply([ ring_files($node) ], [], 'no ring file is left');
	$node->safe_psql('postgres', q{SELECT 'mark 2'});
	is($node->safe_psql('postgres', 'SHOW steno.retention_age; SHOW steno.log_start'), "400d\nddl", 'settings that are left do no harm');
	verify_ok($trail, 'the trail is whole');

	$start = -s $node->logfile;
	configure_with($conf);
	$node->safe_psql('postgres', q{SELECT 'mark 3'});
	$node->stop;
	unlike(slurp_file($node->logfile, $start), qr/WARNING|begins/, 'the library is back: the log has no warning');
	is(join(' ', map { s{.*/}{}r } glob "$trail/*[0-9]"), '0', 'the stream goes on');
	is_deeply([ map { /"text":"SELECT '(mark \d)'"/ ? $1 : () } lines($trail, '--kind', 'statement') ], [ 'mark 1', 'mark 3' ],
		'what ran without the library is not in it');
	verify_ok($trail, 'and it is whole');
}

done_testing();
