
# The clock of the machine is set back by hours, and forward again: records have the time that the
# server was told, no duration is negative, periodic work is still done, and the trail is intact.  A
# library tells the server the time.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Steno::Seals;
use Test::More;

my $hour = 3600;
my $faults = Steno::Faults->new;
my $key = keygen(PostgreSQL::Test::Utils::tempdir() . '/key');
my $node = new_node(
	'main',
	start => 0,
	conf => qq{
steno.flush_interval = 20ms
steno.fsync_interval = 200ms
steno.rotation_age = 2h
steno.seal_interval = 1
steno.signing_key_file = '$key'
steno.compression = none
});
my $durable = "$faults->{folder}/durable";
my ($watch, $c);

sub set_clock
{
	my ($hours) = @_;

	$faults->set('clock_of_all', $hours * $hour);
	return;
}

sub clock_is_right
{
	$faults->unset('clock_of_all');
	return;
}

# What steno reads in those parts of the segments that are certainly on disk.
sub on_disk
{
	my $copy = PostgreSQL::Test::Utils::tempdir();

	mkdir "$copy/0" or die;
	foreach my $segment (glob trail($node) . '/0/*.steno')
	{
		my ($name) = $segment =~ m{([^/]*)$};

		next if !-e "$durable/0.$name";
		append_to_file("$copy/0/$name", substr slurp_file($segment), 0, slurp_file("$durable/0.$name"));
	}
	return (steno_result('cat', '--format', 'json', $copy))[1];
}

# The statement is recorded, and brought to disk, by the writer itself.
sub comes_to_disk
{
	my ($what, $text) = @_;

	ok(!$c->query("SELECT '$text'")->{sqlstate}, "$what: a statement runs");
	wait_until "$what: it is on disk", sub { index(on_disk(), "'$text'") >= 0 };
	pass("$what: it comes to disk");
	return;
}

sub segments
{
	return scalar(my @files = glob trail($node) . '/0/*.steno');
}

$node->start;
value($node, 'CREATE EXTENSION pg_steno; CREATE TABLE t (n int)');
$node->stop;
mkdir $durable or die;
$faults->start($node);
$watch = Steno::Client->new($node, application_name => 'watch');
$watch->query(q{SET steno.log = 'none'});
$c = Steno::Client->new($node, application_name => 'jumps');
comes_to_disk('the time is right', 'first');

# Set back, while a session, a transaction and a statement run.
{
	my $other = Steno::Client->new($node, application_name => 'jumps');
	my $running = Steno::Client->new($node, application_name => 'jumps');
	my @starts;

	$other->query('BEGIN');
	$other->query('INSERT INTO t VALUES (1)');
	$watch->value('SELECT pg_advisory_lock(1)');
	$running->put('Q', "SELECT pg_advisory_lock_shared(1)\0")->send_all;
	wait_until 'it waits', sub { $watch->value("SELECT count(*) FROM pg_locks WHERE pid = $running->{pid} AND NOT granted") };

	set_clock(-5);
	comes_to_disk('set back', 'set back');
	ok(!$other->query('COMMIT')->{sqlstate}, 'a transaction ends before it has begun');
	$other->quit;
	# a statement that, by this clock, has run for no time at all is announced nevertheless
	$watch->value(q{ALTER SYSTEM SET steno.start_after = '1s'});
	$watch->value('SELECT pg_reload_conf()');
	wait_until 'it is announced',
	  sub { @starts = records($node, kind => 'start', text => 'SELECT pg_advisory_lock_shared(1)') };
	is(scalar @starts, 1, 'a statement that runs is announced, once');
	$watch->value('ALTER SYSTEM RESET steno.start_after');
	$watch->value('SELECT pg_reload_conf()');
	$watch->value('SELECT pg_advisory_unlock(1)');
	ok(!$running->finish->{sqlstate}, 'so does a statement');
	$running->quit;
}

# Failures are tried again.
foreach my $fault (qw(write_fails sync_fails))
{
	clock_is_right();
	comes_to_disk("before $fault", "before $fault");
	$faults->set($fault);
	$c->query("SELECT 'during $fault'");
	wait_until 'it is failing', sub { $watch->value('SELECT state FROM steno.status') eq 'failing' };
	set_clock(-5);
	$faults->unset($fault);
	wait_until 'it goes on by itself', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };
	comes_to_disk("set back during $fault", "after $fault");
}

# Forward, and back again: one new segment because of its age.
{
	my $before;

	clock_is_right();
	comes_to_disk('right again', 'right again');
	$watch->value('SELECT steno.flush()');
	$before = segments();
	set_clock(+3);
	comes_to_disk('ahead', 'ahead');
	wait_until 'it is old enough', sub { segments() == $before + 1 };
	comes_to_disk('ahead, once more', 'once more');
	clock_is_right();
	comes_to_disk('back from ahead', 'back from ahead');
	# a session keeps the time for a moment, and must not take what the clock was set back for a duration
	$c->query(q{SELECT 'a moment before'});
	set_clock(-1000);
	comes_to_disk('far back', 'far back');
	is(segments(), $before + 1, 'set back, none is too old');
	clock_is_right();
}

# A slow command for a key, and the clock is set while it runs.
{
	my $go = PostgreSQL::Test::Utils::tempdir() . '/go';
	my $start = -s $node->logfile;

	$node->append_conf('postgresql.conf',
		"steno.encryption_key_command = 'echo asked >&2; until [ -e $go ]; do sleep 0.1; done; printf %064d 7'");
	$node->reload;
	$node->wait_for_log(qr/^asked$/m, $start);
	set_clock(+3);
	$watch->value('SELECT steno.flush()') foreach 1 .. 2;
	unlike(slurp_file($node->logfile, $start), qr/could not get the encryption key/, 'its time is not up when the clock is set');
	clock_is_right();
	append_to_file($go, '');
	$node->wait_for_log(qr/steno writer 0 encrypts the trail with key/, $start);
	pass('and its key is taken');
	$node->append_conf('postgresql.conf', q{steno.encryption_key_command = ''});
	$node->reload;
	$node->wait_for_log(qr/steno writer 0 does not encrypt the trail any more/, $start);
}
$_->quit foreach $c, $watch;

# The server ends with one clock, and begins with another.
foreach my $how (qw(fast immediate))
{
	set_clock(+5);
	$c = Steno::Client->new($node, application_name => 'jumps');
	comes_to_disk("$how stop, ahead", "before $how");
	$c->quit if $how eq 'fast';
	$node->stop($how);
	clock_is_right();
	$faults->start($node);
	close $c->{socket} if $how eq 'immediate';
	$c = Steno::Client->new($node, application_name => 'jumps');
	comes_to_disk("a start with a clock that was set back, after $how stop", "after $how");
	$c->quit;
}
wait_until 'the rings of before are drained', sub { scalar(my @files = ring_files($node)) == 1 };
$node->stop;

local $ENV{STENO_ENCRYPTION_KEY_COMMAND} = 'printf %064d 7';
my @r = map { JSON::PP->new->utf8->decode($_) } lines($node);
is_deeply([ grep { defined $_->{duration_us} && $_->{duration_us} < 0 } @r ], [], 'no duration is negative');
my @long = grep { defined $_->{duration_us} && $_->{duration_us} > 30 * 60 * 1e6 && $_->{kind} eq 'statement' } @r;
is_deeply(\@long, [], 'no statement has taken an hour') or diag(explain(\@long));
my %at = map { ($_->{text} // '') =~ /^SELECT '(.*)'$/ ? ($1 => $_->{time}) : () } grep { $_->{kind} eq 'statement' } @r;
cmp_ok($at{'set back'}, 'lt', $at{'first'}, 'times are those of the clock: back');
cmp_ok($at{'ahead'}, 'gt', $at{'right again'}, 'and forth');
my ($transaction) = grep { $_->{kind} eq 'transaction' && $_->{application} eq 'jumps' } @r;
is($transaction->{duration_us}, 0, 'a transaction that ended before it began took no time');
verify_ok($node, 'the trail is whole');
is((verified($node, '--key', "$key.pub"))[0], 0, 'and sealed');
gapless($node, 'no session has gaps');
done_testing();
