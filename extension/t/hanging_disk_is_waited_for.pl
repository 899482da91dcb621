
# A disk that does not respond is not a failure before steno.stall_timeout, because it may still respond.  Until then,
# whatever steno.on_failure is, statements continue until their rings are full, and then wait or are dropped, as
# steno.delivery says.  The views show how far behind the writer is.

use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
my $node = new_node('main', start => 0, conf => "steno.ring_size = 16kB\nsteno.mandatory = 'none'\nsteno.fsync_interval = 0\nsteno.stall_timeout = 0\n");
my $numbers = 0;
my $watch;

# Statements until one waits, which is left running, or so many; whether one waits.
sub run_numbers
{
	my ($c, $most) = @_;
	my $waits = $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}");

	foreach (1 .. $most)
	{
		my $waiting;

		$c->put('Q', "SELECT 'number " . ++$numbers . "', '" . filler(500) . "'\0")->send_all;
		wait_until 'it is answered, or waits', sub {
			return 1 if IO::Select->new($c->{socket})->can_read(0.01);
			$waiting = $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}") > $waits;
			return $waiting;
		};
		return 1 if $waiting;
		die "number $numbers failed" if $c->finish->{sqlstate};
	}
	return 0;
}

sub missing
{
	my %seen;

	$watch->value('SELECT steno.flush()');
	/'number (\d+)'/ && $seen{$1}++ foreach lines($node, '--kind', 'statement');
	return grep { ($seen{$_} // 0) != 1 } 1 .. $numbers;
}

$node->start;
value($node, 'CREATE EXTENSION pg_steno; CREATE ROLE app LOGIN');
$node->stop;
$faults->start($node);
$watch = Steno::Client->new($node, application_name => 'watch');
$watch->query(q{SET steno.log = 'none'});

foreach my $policy (qw(wait error continue shutdown))
{
	$watch->value("ALTER SYSTEM SET steno.on_failure = '$policy'");
	$watch->value('SELECT pg_reload_conf()');
	wait_until 'the writer has it',
	  sub { $watch->value(q{SELECT setting FROM pg_settings WHERE name = 'steno.on_failure'}) eq $policy };
	$watch->value('SELECT steno.flush()');
	foreach my $hang (qw(hold_write hold_sync))
	{
		my $what = "$policy, $hang";
		my $c = Steno::Client->new($node, user => 'app', application_name => 'waits');
		my $d = Steno::Client->new($node, application_name => 'drops');
		my ($waiting, $lag, $named) = (0, 0, 0);

		$d->query(q{SET steno.delivery = 'drop'});
		$watch->value('SELECT steno.flush()');
		$faults->set($hang);
		$d->query(q{SELECT 'for a write'});
		wait_until 'the disk hangs', sub { $faults->is_set('holding.0') };
		ok(run_numbers($c, 100), "$what: a statement waits when its ring is full");
		ok(!$d->query("SELECT 'goes on', '" . filler(500) . "'")->{sqlstate}, "$what: with drop, none does") foreach 1 .. 40;
		cmp_ok($watch->value("SELECT drops FROM steno.rings WHERE pid = $d->{pid}"), '>', 0, "$what: but is dropped");
		like($watch->value('SELECT state FROM steno.status'), qr/^(ok|stalled)$/, "$what: it is no failure");
		is($watch->value('SELECT refused FROM steno.status'), 0, "$what: no statement is refused");
		cmp_ok($watch->value('SELECT lag_bytes FROM steno.writers'), '>', 10_000, "$what: the view shows what waits to be written");
		# the rest of so small a ring is the reserve for short records
		cmp_ok($watch->value('SELECT max(fill) FROM steno.rings'), '>', 0.4, "$what: and that a ring is full");
		$faults->unset($hang);
		ok(!$c->finish->{sqlstate}, "$what: when the disk answers, all goes on");
		$d->query(q{SELECT 'has room'});
		is_deeply([ missing() ], [], "$what: of those that waited, none is missing");
		$named += $_->{extra}{count} foreach records($node, kind => 'gap', pid => $d->{pid});
		is(scalar(records($node, kind => 'statement', pid => $d->{pid}, text => qr/^SELECT 'goes on'/)) + $named,
			40, "$what: gap records name the others");
		$_->quit foreach $c, $d;
	}
}
is(scalar(() = slurp_file($node->logfile) =~ /could not write the trail|requests a fast shutdown/g), 0, 'the log says nothing of it');

# A disk that hangs delays a fast shutdown, but not an immediate one.
{
	my $c = Steno::Client->new($node, application_name => 'stop');

	$faults->set('hold_write');
	$c->query(q{SELECT 'before the stop'});
	wait_until 'the disk hangs', sub { $faults->is_set('holding.0') };
	$node->stop('immediate');
	$faults->unset('hold_write');
	$faults->start($node);
	wait_until 'the rings of before are drained', sub { scalar(my @files = ring_files($node)) == 1 };
	is(scalar(statements($node, application => 'stop', text => q{SELECT 'before the stop'})), 1,
		'an immediate stop of a server whose disk hangs loses nothing');
	$node->stop;
}
verify_ok($node, 'the trail is whole');
done_testing();
