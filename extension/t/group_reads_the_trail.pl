
# steno.file_mode lets the server's group read the trail, including its folders, and initdb -g lets the
# group reach it.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Retention;
use Test::More;

sub modes
{
	return join ' ', map { sprintf '%04o', (stat $_)[2] & 07777 } @_;
}

# By default nobody else reads it.
my $node = new_node('private');
my $trail = trail($node);
flush($node);
is(modes($trail, "$trail/0", glob "$trail/0/*.steno"), '0700 0700 0600', 'by default, the trail is the server\'s own');
$node->stop;

# A cluster with group access; the folders of before get what they lack.
$node = new_node('group', initdb => ['--allow-group-access'], conf => "steno.writers = 2\n");
$trail = trail($node);
flush($node);
is(modes("$trail/0", glob "$trail/0/*.steno"), '0700 0600', 'group access alone opens no segment');
$node->append_conf('postgresql.conf', 'steno.file_mode = 0640');
$node->restart;
value($node, 'SELECT steno.rotate()');
is(modes($trail, "$trail/0", "$trail/1", (sort glob "$trail/0/*.steno")[-1]),
	'2750 2750 2750 0640', 'with 0640, the group can look for segments and read them');
$node->append_conf('postgresql.conf', "steno.retention_size = 1MB\nsteno.compression = none");
$node->reload;
fill($node, 5);
wait_until 'segments are deleted', sub { -e "$trail/retention" };
is(modes("$trail/retention"), '0640', 'and which ones were deleted');
$node->stop;

# A directory of its own, for everybody.
my $other = PostgreSQL::Test::Utils::tempdir() . '/trail';
$node->append_conf('postgresql.conf', "steno.file_mode = 0644\nsteno.directory = '$other'");
$node->start;
# A writer makes its folder with its first block.  Which of the two writes first, and in which stream, is open.
flush($node);
my ($folder) = grep { -d } glob "$other/[01]";
is(modes($other, $folder, glob "$folder/*.steno"), '0755 0755 0644', 'with 0644, everybody');
$node->stop;

# A group of auditors, which the administrator gives a directory to: all files in it get that group, although the
# server creates them.  Only root could take a group that the server's account is not in; scripts/test-packages does.
SKIP:
{
	my ($group) = grep { $_ != $) + 0 } split ' ', $);
	skip 'this account is in one group only', 2 unless defined $group;
	my $parent = PostgreSQL::Test::Utils::tempdir();
	chown -1, $group, $parent or die $!;
	chmod 02750, $parent or die $!;
	my $audit = "$parent/trail";
	$node->append_conf('postgresql.conf', "steno.file_mode = 0640\nsteno.directory = '$audit'");
	$node->start;
	flush($node);
	my ($stream) = grep { -d } glob "$audit/[01]";
	my @made = ($audit, $stream, glob "$stream/*.steno");
	is(modes(@made), '2750 2750 0640', 'a directory that belongs to a group hands it on');
	is_deeply([ map { (stat $_)[5] } @made ], [ ($group) x 3 ], 'to all that the server creates');
	$node->stop;
}

# If the group may read the files, but cannot reach them, there is a warning.
$node = new_node('closed', conf => "steno.file_mode = 0640\n");
$node->stop;
like(slurp_file($node->logfile), qr/WARNING:  the group cannot read the trail in directory "pg_steno"/, 'a data directory without group access is warned of');
done_testing();
