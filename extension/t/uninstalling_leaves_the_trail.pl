
# A server continues without the library, with its settings still configured; the trail stays, and its
# stream is continued when the library is back.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', conf => "steno.retention_age = '400d'\n");
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
done_testing();
