
# A server on which nothing was configured except the library: at its start it logs what it will do; if
# the trail cannot be written, statements continue; the log says what happens and what to do, and the
# trail names what is missing.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
my $node = new_node('main', start => 0);
$node->adjust_conf('postgresql.conf', $_, undef) foreach qw(steno.on_failure steno.disk_warning);
$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');

my $log = slurp_file($node->logfile);
my $trail = trail($node);
like($log, qr/LOG:  pg_steno records into trail directory "\Q$trail\E"/, 'the log says that the server records, and where to');
like($log, qr/DETAIL:  Segments are kept until somebody deletes them /, 'what it keeps');
like($log, qr/less than 1024 MB of its file system are free .*, statements go on, and records that find no room in their rings are dropped/,
	'what happens when the disk is full');
like($log, qr/HINT:  Put the trail on a file system of its own /, 'and what to configure');

# The disk is full.
my $c = Steno::Client->new($node, application_name => 'numbers');
my $watch = Steno::Client->new($node, application_name => 'watch');
my ($answered, $dropped, $named) = (0, 0, 0);

$watch->query(q{SET steno.log = 'none'});
$faults->set('write_fails');
$c->query('SELECT 1');
wait_until 'it is failing', sub { $watch->value('SELECT state FROM steno.status') eq 'failing' };
foreach my $n (1 .. 600)
{
	my $answer = $c->query("SELECT 'number $n', '" . filler(500) . "'");

	die "number $n: $answer->{message}" if $answer->{sqlstate};
	$answered++;
}
is($answered, 600, 'with a full disk, statements go on beyond the room in their ring');
$dropped = $watch->value('SELECT dropped FROM steno.status');
cmp_ok($dropped, '>', 0, 'records are dropped, and counted');
like($watch->value('SELECT failure FROM steno.status'), qr/No space left on device/, 'the status says what is the matter');
$log = slurp_file($node->logfile);
like($log, qr/could not write the trail: .*No space left on device/, 'and so does the log');
like($log, qr/DETAIL:  Records stay in the rings; when these are full, records are dropped/, 'what happens now');
like($log, qr/HINT:  Make room on the trail's file system, or let the server delete old segments/, 'and what to do');
$faults->unset('write_fails');
wait_until 'it goes on by itself', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };
$c->query("SELECT 'after'");
$_->quit foreach $c, $watch;
$named += $_->{extra}{count} foreach records($node, kind => 'gap');
is($named, $dropped, 'what is missing is named');
verify_ok($node, 'the trail is whole');

# With limits, the log has no such hint.
my $start = -s $node->logfile;
$node->stop;
$node->append_conf('postgresql.conf', "steno.retention_age = '30d'\nsteno.retention_size = '10GB'\nsteno.on_failure = error");
$faults->start($node);
$log = slurp_file($node->logfile, $start);
like($log, qr/DETAIL:  Segments are deleted 43200 minutes after they were closed, or when the trail is larger than 10240 MB /,
	'limits are told');
like($log, qr/, new statements are refused, except those of superusers /, 'and another policy');
unlike($log, qr/HINT:  Put the trail on a file system of its own/, 'then nothing is asked for');
$node->stop;
done_testing();
