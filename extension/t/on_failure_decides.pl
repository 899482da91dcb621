
# What statements do while the trail cannot be written, for each value of steno.on_failure and each
# fault: a full disk, errors of writes and syncs, a stream that was removed or moved, permissions that
# were taken away.  When the fault ends, everything continues by itself, and the trail says what
# happened.

use strict;
use warnings;

use File::Path qw(rmtree);
use IO::Select;
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
steno.ring_size = 16kB
steno.compression = none
steno.mandatory = 'none'
steno.flush_interval = 20ms
steno.fsync_interval = 50ms
});
my $stream = trail($node) . '/0';
my ($watch, $numbers) = (undef, 0);
my %unanswered;    # numbers whose statements may have a record, or not

# A file in the folder's place keeps the writer from making it anew.
sub block
{
	append_to_file($stream, 'in the way');
	return;
}

sub set_mode
{
	my ($mode) = @_;

	chmod($mode, $stream) or die "could not change mode of $stream: $!";
	return;
}

sub last_segment
{
	my ($folder) = @_;

	return (sort glob "$folder/*.steno")[-1];
}

# The fault is removed, and what was moved is put back: the writer's next segment has another name.
sub put_back
{
	unlink $stream or die;
	wait_until 'it is there anew', sub { -d $stream };
	rename $_, "$stream/" . ($_ =~ s/.*\///r) or die foreach glob "$stream.away/*.steno";
	rmtree("$stream.away");
	return;
}

my %faults = (
	full => [
		sub { $faults->set('write_fails') }, sub { $faults->unset('write_fails') },
		qr/could not write segment ".*": No space left on device/
	],
	broken => [
		sub { $faults->set('write_breaks') }, sub { $faults->unset('write_breaks') },
		qr/could not write segment ".*": Input\/output error/
	],
	'not synced' => [
		sub { $faults->set('sync_fails') }, sub { $faults->unset('sync_fails') },
		qr/could not sync segment ".*": Input\/output error/
	],
	removed => [
		sub { rename $stream, "$stream.away" or die; unlink last_segment("$stream.away"); block() },
		\&put_back,
		qr/somebody has removed segment ".*": No such file or directory/,
		qr/Not a directory/
	],
	moved => [
		sub { rename $stream, "$stream.away" or die; block() },
		\&put_back,
		qr/somebody has moved segment ".*": No such file or directory/,
		qr/Not a directory/
	],
	closed => [
		sub { set_mode(0) }, sub { set_mode(0700) },
		qr/could not look for segment ".*": Permission denied/
	]);

# Sessions, one of a superuser that is not recorded.
sub begin
{
	$faults->start($node);
	open_watch();
	return;
}

sub open_watch
{
	$watch = Steno::Client->new($node, application_name => 'watch');
	$watch->query(q{SET steno.log = 'none'});
	return;
}

sub client
{
	return Steno::Client->new($node, user => 'app', application_name => 'numbers');
}

sub state
{
	return $watch->value('SELECT state FROM steno.status');
}

# With the setting and the fault, once the server has noticed the fault.
sub break
{
	my ($policy, $fault) = @_;
	my ($set, $unset, $message) = @{ $faults{$fault} };
	my $start = -s $node->logfile;

	$watch->value("ALTER SYSTEM SET steno.on_failure = '$policy'");
	$watch->value('SELECT pg_reload_conf()');
	wait_until 'the writer has it',
	  sub { $watch->value(q{SELECT setting FROM pg_settings WHERE name = 'steno.on_failure'}) eq $policy };
	$watch->value('SELECT steno.flush()');
	$set->();
	return $start if $policy eq 'shutdown';
	Steno::Client->new($node, user => 'app', application_name => 'numbers')->quit;
	wait_until 'it is failing', sub { state() eq 'failing' };
	return $start;
}

sub mend
{
	my ($fault) = @_;

	$faults{$fault}[1]->();
	wait_until 'it goes on by itself', sub { state() eq 'ok' };
	$watch->value('SELECT steno.flush()');
	return;
}

sub run_numbers
{
	my ($c, $n) = @_;

	foreach (1 .. $n)
	{
		my $answer = $c->query("SELECT 'number " . ++$numbers . "', '" . filler(300) . "'");

		die "number $numbers: $answer->{message}" if $answer->{sqlstate};
	}
	return;
}

# The last record of the server with this event.
sub event
{
	my ($event) = @_;

	return (grep { ($_->{extra}{event} // '') eq $event } records($node, kind => 'server'))[-1] // {};
}

# What the log and the trail say when it is over.
sub check_told
{
	my ($what, $fault, $start) = @_;
	my $message = $faults{$fault}[2];
	my $log = slurp_file($node->logfile, $start);

	is(scalar(() = $log =~ /WARNING:  steno writer 0 could not write the trail: $message/g),
		1, "$what: reported in the log once");
	is(scalar(() = $log =~ /LOG:  steno writer 0 can (?:write|sync) the trail again/g), 1, "$what: and that it is over");
	like(event('failure')->{extra}{reason}, $message, "$what: the trail says what was the matter");
	like(event('recovered')->{extra}{$_}, qr/^\d{4}-\d\d-\d\dT[\d:]{8}Z$/, "$what: $_ when") foreach qw(since until);
	return;
}

# All acknowledged statements are there once, except those that were dropped; none is there twice.
sub check_numbers
{
	my ($what, $dropped) = @_;
	my (%seen, @wrong);

	$watch->value('SELECT steno.flush()');
	/'number (\d+)'/ && $seen{$1}++ foreach lines($node, '--kind', 'statement');
	@wrong = grep { !$unanswered{$_} && ($seen{$_} // 0) != 1 } 1 .. $numbers;
	is(scalar(grep { ($seen{$_} // 0) > 1 } 1 .. $numbers), 0, "$what: nothing is there twice");
	is(scalar(@wrong), $dropped // 0, "$what: and nothing is missing") or diag("@wrong");
	return;
}

$node->start;
value($node, 'CREATE EXTENSION pg_steno; CREATE ROLE app LOGIN; CREATE TABLE t (n int); GRANT ALL ON t TO app;
CREATE TABLE fired (); GRANT ALL ON fired TO app;
CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 FROM fired; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER fire AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (new.n = 7) EXECUTE FUNCTION fire()');
$node->stop;
begin();

my $function = $watch->value(q{SELECT 'now()'::regprocedure::oid});
my @names = grep { $_ ne 'closed' || $> != 0 } sort keys %faults;
my $lost = 0;    # numbers that were dropped, on purpose

# error: statements of other users than superusers are refused, but running transactions can be ended.
foreach my $fault (@names)
{
	my $what = "error, $fault";
	my ($c, $open, $super) = (client(), client(), Steno::Client->new($node));
	my ($start, $answer, $refused, $late);

	run_numbers($c, 2);
	$open->query('BEGIN');
	$open->query('INSERT INTO t VALUES (1)');
	$refused = $watch->value('SELECT refused FROM steno.status');
	$start = break('error', $fault);

	foreach my $sql (q{SELECT 'refused'}, 'BEGIN', 'CREATE TABLE u ()', 'COPY t TO STDOUT')
	{
		$answer = $c->query($sql);
		is($answer->{sqlstate}, '58S01', "$what: $sql is refused");
	}
	is($answer->{message}, 'statement refused: the audit trail cannot be written', "$what: and says why");
	is($c->extended('SELECT $1::int', 1)->{sqlstate}, '58S01', "$what: also by the extended protocol");
	is($c->call($function)->{sqlstate}, '58S01', "$what: also a function call");
	$late = client();
	is($late->query('SELECT 1')->{sqlstate}, '58S01', "$what: as is who comes now");
	$late->quit;
	ok(!$super->query('SELECT 1')->{sqlstate}, "$what: superusers are not");
	is($open->query('COMMIT')->{tags}[0], 'COMMIT', "$what: a transaction can be committed");

	# any number of refusals does not keep others from ending
	$c->query("SELECT 'refused', '" . filler(400) . "'") foreach 1 .. 60;
	is($c->query('ROLLBACK')->{tags}[0], 'ROLLBACK', "$what: also by who was refused often");
	is($watch->value('SELECT refused FROM steno.status') - $refused, 67, "$what: refusals are counted");
	like($watch->value('SELECT failure FROM steno.writers'),
		$faults{$fault}[3] // $faults{$fault}[2],
		"$what: the view says what is the matter");

	mend($fault);
	run_numbers($c, 2);
	$_->quit foreach $c, $open, $super;
	check_told($what, $fault, $start);
	is(event('recovered')->{extra}{refused}, 67, "$what: the trail has their number");
	check_numbers($what, $lost);
	verify_ok($node, "$what: the trail is whole");
}

# error: a running statement continues, with its nested statements, up to its commit.
{
	my $c = client();
	my $number = $watch->value('SELECT count(*) FROM t');

	$watch->value('SELECT pg_advisory_lock(1)');
	$c->put('Q', "INSERT INTO t SELECT 7 FROM pg_advisory_lock_shared(1)\0")->send_all;
	wait_until 'it waits', sub { $watch->value("SELECT count(*) FROM pg_locks WHERE pid = $c->{pid} AND NOT granted") };
	break('error', 'full');
	$watch->value('SELECT pg_advisory_unlock(1)');
	is($c->finish->{tags}[0], 'INSERT 0 1', 'a statement that runs goes on, also in what fires at its commit');
	is($watch->value('SELECT count(*) FROM t') - $number, 1, 'and is committed');
	mend('full');
	is(scalar(statements($node, text => 'SELECT 1 FROM fired', pid => $c->{pid})), 1, 'that had queries of its own');
	$c->quit;
}

# wait: statements go on until their ring is full, then one waits.
foreach my $fault (@names)
{
	my $what = "wait, $fault";
	my $c = client();
	my ($start, $waits, $waiting);

	run_numbers($c, 2);
	$start = break('wait', $fault);
	$waits = $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}");
	# all of the others find space
	foreach (1 .. ($fault eq 'not synced' ? 20 : 1000))
	{
		$c->put('Q', "SELECT 'number " . ++$numbers . "', '" . filler(300) . "'\0")->send_all;
		wait_until 'it is answered, or waits', sub {
			return 1 if IO::Select->new($c->{socket})->can_read(0.01);
			$waiting = $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}") > $waits;
			return $waiting;
		};
		last if $waiting;
		$c->finish;
	}
	if ($fault eq 'not synced')
	{
		ok(!$waiting, "$what: nobody waits for a sync");
	}
	else
	{
		ok($waiting, "$what: a statement waits");
	}
	mend($fault);
	ok(!$c->finish->{sqlstate}, "$what: and goes on") if $waiting;
	$c->quit;
	check_told($what, $fault, $start);
	check_numbers($what, $lost);
	verify_ok($node, "$what: the trail is whole");
}

# continue: no statement waits, and dropped records are counted.
foreach my $fault (@names)
{
	my $what = "continue, $fault";
	my $c = client();
	my ($start, $drops, $named, @gaps) = (undef, undef, 0);

	run_numbers($c, 2);
	$start = break('continue', $fault);
	$drops = $watch->value("SELECT drops FROM steno.rings WHERE pid = $c->{pid}");
	run_numbers($c, $fault eq 'not synced' ? 20 : 60);
	$drops = $watch->value("SELECT drops FROM steno.rings WHERE pid = $c->{pid}") - $drops;
	if ($fault eq 'not synced')
	{
		is($drops, 0, "$what: nothing is dropped for a sync");
	}
	else
	{
		cmp_ok($drops, '>', 0, "$what: records are dropped");
	}
	mend($fault);
	$c->query('SELECT 1');
	$c->quit;
	check_told($what, $fault, $start);
	is(event('recovered')->{extra}{dropped}, $drops, "$what: the trail has their number");
	@gaps = records($node, kind => 'gap', pid => $c->{pid});
	$named += $_->{extra}{count} foreach @gaps;
	is($named, $drops, "$what: they are named by gap records");
	is(scalar(grep { $_->{extra}{reason} ne 'trail not writable' } @gaps), 0, "$what: which say why");
	$lost += $drops;
	check_numbers($what, $lost);
	verify_ok($node, "$what: the trail is whole");
}

# A change of the setting takes effect for sessions that already wait.
{
	my $c = client();

	break('wait', 'full');
	$c->query("SELECT 'filler', '" . filler(300) . "'") foreach 1 .. 10;
	$c->put('Q', "SELECT 'waiting', '" . 'x' x 15000 . "'\0")->send_all;
	wait_until 'it waits', sub { $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}") > 0 };
	$watch->value('ALTER SYSTEM SET steno.on_failure = continue');
	$watch->value('SELECT pg_reload_conf()');
	ok(!$c->finish->{sqlstate}, 'with continue instead of wait, who waits goes on');
	$c->quit;
	mend('full');
	verify_ok($node, 'the trail is whole');
}

# shutdown: the server stops, and the next start writes what was in the rings.
# Files that were removed are then lost, unless they can be restored.
$faults{removed} = [ sub { unlink last_segment($stream) or die }, sub { } ];
foreach my $fault (@names)
{
	my $what = "shutdown, $fault";
	my $c = client();
	my $start = break('shutdown', $fault);
	my $log;

	# their ring has room for all; the last may be told that the server stops
	foreach (1 .. 20)
	{
		my $answer = $c->query("SELECT 'number " . ++$numbers . "'");

		next if $answer && !$answer->{sqlstate};
		$unanswered{$numbers} = 1;
		last;
	}
	wait_until "$what: the server has stopped", sub { !-e $node->data_dir . '/postmaster.pid' };
	$node->{_pid} = undef;
	$log = slurp_file($node->logfile, $start);
	is(scalar(() = $log =~ /WARNING:  steno writer 0 requests a fast shutdown of the server/g), 1, "$what: reported in the log once");
	like($log, qr/HINT:  Start the server again when the cause is mended: /, "$what: and the way out");
	like($log, qr/received fast shutdown request.*database system is shut down/s, "$what: the server stops");
	if (-d "$stream.away")
	{
		unlink $stream or die;
		rename "$stream.away", $stream or die;
	}
	else
	{
		$faults{$fault}[1]->();
	}
	begin();
	check_numbers($what, $lost);
	verify_ok($node, "$what: the trail is whole");
}
$node->stop;
done_testing();
