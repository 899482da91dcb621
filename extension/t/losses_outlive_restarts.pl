
# steno.status says what was lost in all runs of a server: also after stops and kills, and with another directory of the
# trail, but not what the server has lost whose copy it is.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $node = new_node(
	'main', streaming => 1, conf => q{
steno.ring_size = 16kB
restart_after_crash = on
});

# Clients that came while the server was not ready count in another column.
sub losses
{
	my ($of) = @_;

	return Steno::Client->new($of)->value('SELECT dropped FROM steno.status');
}

# Drops records until there are more than so many.
sub drop_until
{
	my ($c, $more) = @_;

	foreach (1 .. 1000)
	{
		$c->value("SELECT '" . 'x' x 500 . "'");
		return if $c->value('SELECT dropped FROM steno.status') > $more;
	}
	die 'nothing is dropped';
}

# Drops some records; returns how many in all runs.
sub drop
{
	my $writer = writer_pid($node);
	my $c = Steno::Client->new($node);
	my ($before, $dropped);

	$c->query(q{SET steno.delivery = 'drop'});
	$before = $c->value('SELECT dropped FROM steno.status');
	stop_process($writer);
	drop_until($c, $before + 10);
	continue_process($writer);
	$c->query(q{SET steno.delivery = 'wait'});
	$c->value('SELECT steno.flush()');
	$dropped = $c->value('SELECT dropped FROM steno.status');
	cmp_ok($dropped, '>', $before + 10, 'records are dropped');
	$c->quit;
	return $dropped;
}

# Waits until the state file, whose last sector but one it is, has this number of dropped records.
sub is_kept
{
	my ($dropped, $of) = @_;

	return wait_until 'it is kept',
	  sub { (unpack 'x8 Q Q', substr slurp_file(($of // $node)->data_dir . '/pg_steno.state'), -1024)[1] == $dropped };
}

is(losses($node), 0, 'a new server has lost nothing');
my $n = drop();
$node->restart;
is(losses($node), $n, 'after a stop, it has lost what it had');
$n = drop();
$node->stop('immediate');
$node->start;
cmp_ok(losses($node), '<=', $n, 'after an immediate stop, at most what it had');

$n = drop();
is_kept($n);
kill_server($node);
$node->start;
is(losses($node), $n, 'after a kill, it has lost what it had');
$n = drop();
is_kept($n);
my $backend = Steno::Client->new($node);
kill 'KILL', $backend->{pid};
server_is_back($node);
is(losses($node), $n, 'so it has after a crash of a session');

$node->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'copy');
$copy->start;
is(losses($copy), 0, 'a copy of it has lost nothing');
$copy->stop;

my $other = PostgreSQL::Test::Utils::tempdir() . '/trail';
$node->append_conf('postgresql.conf', "steno.directory = '$other'");
$node->restart;
is(losses($node), $n, 'and with another directory of the trail, the server has lost what it had');
$n = drop();
$node->append_conf('postgresql.conf', "steno.directory = 'pg_steno'");
$node->restart;
is(losses($node), $n, 'and back in the former directory, what it lost in the other one, too');
$node->stop;

# A counter that cannot be read is not taken for 0 in silence.
{
	my $file = $node->data_dir . '/pg_steno.state';

	open my $handle, '+<:raw', $file or die;
	seek $handle, -1012, 2;
	print $handle "\xff" x 4;
	close $handle;
	$node->start;
	is(losses($node), 0, 'losses that cannot be read are not counted');
	like(slurp_file($node->logfile), qr/WARNING:  file "pg_steno.state" is damaged where it has what the server has lost in earlier runs/, 'which is logged');
	$node->stop;
}

# While the trail cannot be written, more is lost than ever.
my $faults = Steno::Faults->new;
my $failing = new_node('failing', start => 0, conf => "steno.ring_size = 16kB\n");

$faults->start($failing);
value($failing, 'CREATE EXTENSION pg_steno');
my $c = Steno::Client->new($failing);
$c->query(q{SET steno.delivery = 'drop'});
$faults->set('write_fails');
drop_until($c, 10);
$c->query(q{SET steno.log = 'none'});
$n = $c->value('SELECT dropped FROM steno.status');
is_kept($n, $failing);
is($c->value('SELECT state FROM steno.status'), 'failing', 'it is kept while the trail cannot be written');
kill_server($failing);
$faults->unset('write_fails');
$faults->start($failing);
is(losses($failing), $n, 'and known after a kill');
$failing->stop;
done_testing();
