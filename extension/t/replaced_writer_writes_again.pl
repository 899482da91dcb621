
# The disk fails to sync, and then another process takes over: what the kernel has dropped is written
# again before anybody is told that it is on disk.

use strict;
use warnings;

use File::Path ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
my $node = new_node(
	'main',
	start => 0,
	conf => q{
restart_after_crash = on
steno.writers = 2
steno.sync = 'write'
steno.mandatory = ''
});
my $watch;

mkdir "$faults->{folder}/survives" or die;
begin();
value($node, 'CREATE TABLE t (what text)');

sub begin
{
	$faults->start($node) if !$node->{_pid};
	value($node, 'CREATE EXTENSION IF NOT EXISTS pg_steno');
	wait_until 'the writers run', sub { value($node, 'SELECT bool_and(pid IS NOT NULL) FROM steno.writers') eq 't' };
	$watch = Steno::Client->new($node, application_name => 'steno_test_helper');
	$watch->query(q{SET steno.sync = 'none'});
	return;
}

# A client whose ring is that of the writer with this number.
sub client_of
{
	my ($writer) = @_;
	my @sessions = Steno::Client->of_both_writers($node, $watch, application_name => 'client');
	my ($pid) = @{ $watch->query("SELECT min(pid) FROM steno.rings WHERE writer = $writer AND pid IN ("
			  . join(',', map { $_->{pid} } @sessions) . ')')->{rows}[0] };
	my ($found) = grep { $_->{pid} == $pid } @sessions;

	$_->quit foreach grep { $_ != $found } @sessions;
	return $found;
}

sub asks
{
	my ($c, $sql) = @_;

	$c->put('Q', "$sql\0")->send_all;
	return;
}

# The records of what is on disk after a power failure.
sub survivors
{
	my ($text) = @_;
	my ($code, $out, $err) = steno_result('cat', '--format', 'json', '--grep', $text, "$faults->{folder}/survives");

	diag $err if $err ne '';
	return scalar(my @lines = split /\n/, $out);
}

# A writer: its statement waits while no sync succeeds; then another process takes over by $replace,
# and the disk works again.
sub check
{
	my ($what, $writer, $replace) = @_;
	my $c = client_of($writer);
	my $failures = $watch->value('SELECT sum(errors) FROM steno.writers');

	$watch->value('SELECT steno.flush()');
	$faults->set('sync_fails');
	asks($c, "INSERT INTO t VALUES ('$what')");
	wait_until "$what: syncs fail", sub { $watch->value('SELECT sum(errors) FROM steno.writers') > $failures + 1 };
	is(survivors($what), 0, "$what: its record is not on disk");
	$replace->();
	flush($node);
	ok(!$faults->is_set('lied'), "$what: nothing is called synced that the disk does not have");
	is(survivors($what) > 0, 1, "$what: the record is on disk");
	return $c;
}

foreach my $writer (0, 1)
{
	my $what = "writer $writer terminated";
	my $pid = writer_pid($watch, $writer);
	my $c = check(
		$what, $writer,
		sub {
			kill TERM => $pid;
			wait_until 'it has ended', sub { !kill 0, $pid };
			$faults->unset('sync_fails');
		});

	ok(!$c->finish->{sqlstate}, "$what: the statement has ended");
	is(survivors("INSERT INTO t VALUES ..$what") > 0, 1, "$what: with its record on disk");
	$c->quit;

	$what = "writer $writer killed";
	$pid = writer_pid($watch, $writer);
	check(
		$what, $writer,
		sub {
			kill KILL => $pid;
			wait_until 'the server restarts', sub { !kill 0, $watch->{pid} };
			$faults->unset('sync_fails');
			wait_until 'the server is back', sub { can_connect($node) };
			begin();
		});

	$what = "server of writer $writer stopped";
	check(
		$what, $writer,
		sub {
			$node->stop('immediate');
			$faults->unset('sync_fails');
			begin();
		});
}

# A writer that the next run does not have.
check(
	'writer left out', 1,
	sub {
		$node->stop('immediate');
		$faults->unset('sync_fails');
		$node->append_conf('postgresql.conf', 'steno.writers = 1');
		begin();
		wait_until 'the ring of the last run is drained', sub { scalar(my @files = ring_files($node)) == 1 };
	});

$watch->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
is((steno_result('verify', "$faults->{folder}/survives"))[0], 0, 'and the disk has all of it');
done_testing();
