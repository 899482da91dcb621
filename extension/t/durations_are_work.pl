
# Durations are the time that the server worked for a statement: what log_duration says of its messages, never the
# client's pauses; and what is known of a statement that has ended while its session is idle.

use strict;
use warnings;

use File::Basename;
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno;
use Test::More;
use Time::HiRes qw(usleep);

# A pause, or work, that no delay of a busy machine looks like, in microseconds; and what such a delay may be.
my $long = 900_000;
my $delay = 450_000;

my $node = new_node('durations', conf => "restart_after_crash = on\nlog_min_duration_statement = 0\nlog_line_prefix = '%p '\nlog_error_verbosity = terse\n");
my $client = Steno::Client->new($node, application_name => 'work');

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (n int);
CREATE TABLE deferred (n int);
CREATE FUNCTION slow_trigger() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN PERFORM pg_sleep(0.9); RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION slow_trigger();
CREATE FUNCTION slow_to_plan() RETURNS int LANGUAGE plpgsql IMMUTABLE AS
	$$BEGIN PERFORM pg_sleep(0.9); RETURN 1; END$$;
SQL

sub idle
{
	usleep($long);
	return;
}

# Messages that have an answer before the client goes on.
sub flushed
{
	$client->put('H', '')->send_all;
	return;
}

# ---- what log_duration says ----

$client->query('BEGIN');
$client->extended('SELECT 1 /* unnamed */');
idle();
$client->parse('s', 'SELECT $1::int /* prepared */')->sync->finish;
$client->bind_values('', 's', 1)->execute('')->sync->finish;
idle();
$client->bind_values('', 's', 2)->execute('')->sync->finish;
idle();
$client->parse('', 'SELECT i FROM generate_series(1, 10) i /* in parts */')->bind_values('p', '')->execute('p', 3)->sync->finish;
idle();
$client->execute('p', 3)->sync->finish;
idle();
$client->put('C', "Pp\0")->sync->finish;
$client->parse('', 'SELECT pg_sleep(0.9) /* bound early */')->bind_values('', '');
flushed();
idle();
$client->execute('')->sync->finish;
$client->query('DECLARE c CURSOR FOR SELECT 1 /* cursor */');
idle();
$client->query('FETCH ALL FROM c /* fetch */');
idle();
$client->query('CLOSE c');
$client->query('COMMIT');
$client->query('SELECT pg_sleep(0.9) /* first */; SELECT 2 /* second */');
$client->parse('', 'INSERT INTO t VALUES (1) /* sync later */')->bind_values('', '')->execute('');
flushed();
idle();
$client->sync->finish;
$client->query('INSERT INTO deferred VALUES (1) /* deferred, simple */');
$client->extended('INSERT INTO deferred VALUES (1) /* deferred */');
$client->query('SELECT slow_to_plan() /* planned */');
$client->extended('SELECT slow_to_plan() /* planned in a bind */');
$client->extended('INSERT INTO t SELECT slow_to_plan() /* planned before it runs */');
$client->query(q(DO $$DECLARE r record; BEGIN FOR r IN SELECT /* loop */ 1 LOOP PERFORM pg_sleep(0.9); END LOOP; END$$));
$client->query(q(COPY (SELECT pg_sleep(0.9) /* copied */) TO '/dev/null'));

# What the log has, by the comment of the statement: the sum of its messages.
sub logged
{
	my %us;

	foreach my $line (split /\n/, slurp_file($node->logfile))
	{
		my ($pid, $ms, $text) = $line =~ /^(\d+) LOG:  duration: ([0-9.]+) ms  (?:parse|bind|execute|statement)[^:]*: (.*)/ or next;

		next if $pid != $client->{pid};
		foreach my $comment ($text =~ m{/\* ([^*]+) \*/}g)
		{
			$us{$comment} += $ms * 1000;
		}
	}
	return \%us;
}

my @all = statements($node, application => 'work');
my $log = logged();
my %sum;

foreach my $r (grep { !$_->{depth} } @all)
{
	my ($comment) = ($r->{text} // '') =~ m{/\* ([^*]+) \*/} or next;

	$sum{$comment} += $r->{duration_us} + ($r->{commit_us} // 0);
}
# the log has one time for both
$sum{first} += delete $sum{second};
delete $log->{second};
# the log does not have what a Sync does
$log->{deferred} += $long;
# its query has a record of its own
foreach my $comment (sort keys %sum)
{
	cmp_ok(abs($sum{$comment} - ($log->{$comment} // 0)), '<', $delay,
		"$comment: $sum{$comment} us, log_duration " . ($log->{$comment} // 'none'));
}
is_deeply([ sort keys %sum ], [ sort keys %$log ], 'all statements are in both');

sub one
{
	my ($what, %filter) = @_;

	return the_record($node, $what, kind => 'statement', application => 'work', %filter);
}

# ---- what is told apart ----

my $r = one('the query of a loop', text => qr{^SELECT /\* loop}, depth => 1);
cmp_ok($r->{duration_us}, '<', $delay, 'the body of a loop is not work of its query');
cmp_ok($r->{elapsed_us}, '>', $long - $delay, 'its end is that of its last work');
$r = one('a cursor', text => qr/cursor/, depth => 1);
cmp_ok($r->{duration_us}, '<', $delay, 'nor are pauses between fetches that of a cursor');
foreach my $simple ('deferred, simple', 'deferred')
{
	$r = one($simple, text => qr{/\* $simple \*/});
	cmp_ok($r->{commit_us}, '>', $long - $delay, "$simple: a deferred trigger is part of the commit");
	cmp_ok($r->{duration_us}, '<', $delay, 'and not of the statement');
}
$r = one('sync later', text => qr/sync later/);
ok($r->{commit_us} && $r->{commit_us} < $delay, 'the pause before a Sync is not part of the commit');
foreach my $planned ('planned', 'planned in a bind', 'planned before it runs')
{
	$r = one($planned, text => qr{/\* $planned \*/});
	cmp_ok($r->{plan_us} // 0, '>', $long - $delay, "$planned: a slow planner is told apart");
}
$r = one('second', text => qr/second/);
cmp_ok($r->{duration_us}, '<', $delay, 'each statement of a string has its own time');
my ($first) = grep { ($_->{text} // '') =~ /first/ } @all;
cmp_ok($r->{time}, 'gt', $first->{time}, 'and begins when the one before has ended');

$client->query('SELECT 1 / (slow_to_plan() - 1) /* failed in the planner */');
$r = one('failed in the planner', text => qr/failed in the planner/);
cmp_ok(abs($r->{duration_us} - $long), '<', $delay, 'the planning of a query that fails in it counts once');
cmp_ok($r->{plan_us} // 0, '>', $long - $delay, 'and is told apart');

# A long text takes long to parse, in a message of its own.
{
	my $text = 'SELECT 1 /* analyzed */ WHERE 1 IN (' . join(',', 1 .. 60_000) . ')';
	my $ms;

	$client->parse('', $text)->sync->finish;
	idle();
	$client->bind_values('', '')->execute('')->sync->finish;
	$ms = slurp_file($node->logfile) =~ /duration: ([0-9.]+) ms  parse <unnamed>: SELECT 1 .. analyzed/ ? $1 : 0;
	$r = one('a long text', text => qr/analyzed/);
	cmp_ok($r->{analysis_us} // 0, '>', $ms * 500, "its analysis is told apart (log_duration: $ms ms)");
	cmp_ok($r->{duration_us}, '>=', $r->{analysis_us}, 'it is part of the duration');
	cmp_ok($r->{elapsed_us} // $r->{duration_us}, '<', $delay + $ms * 1000, 'the pause before the Bind is not');
}

# ---- who executed it, and what it is while its session is idle ----

$client->query('BEGIN');
$client->query(q(SET LOCAL steno.app_user = 'alice'));
$client->parse('', q(SELECT i FROM generate_series(1, 5) i /* of alice */))->bind_values('p', '')->execute('p', 2)->sync->finish;
$client->query('DECLARE a CURSOR FOR SELECT 1 /* opened by alice */');
$client->extended('SELECT 7 /* read by alice */');
$client->query(q(SET LOCAL steno.app_user = 'bob'));
$client->put('C', "Pp\0")->sync->finish;
$client->query('FETCH 1 FROM a');
$client->query('CLOSE a');
$client->query('COMMIT /* by bob */');
foreach my $of ('of alice', 'opened by alice', 'read by alice', 'by bob')
{
	foreach my $one (statements($node, application => 'work', text => qr{/\* $of \*/}))
	{
		is($one->{app_user}, $of =~ /(alice|bob)/ ? $1 : '', "$one->{command} /* $of */: its identity is that of its execution");
	}
}

{
	my $idle = Steno::Client->new($node, application_name => 'idle');
	my $in_flight = "SELECT count(*) FROM steno.in_flight WHERE pid = $idle->{pid}";

	$idle->query('BEGIN');
	$idle->extended('SELECT 1 /* done */');
	is(value($node, $in_flight), '0', 'a query that has delivered its rows does not run');
	is(the_record($node, 'it', application => 'idle', text => qr/done/)->{outcome}, 'ok', 'it has its record');
	$idle->parse('', 'SELECT i FROM generate_series(1, 10) i /* half */')->bind_values('p', '')->execute('p', 4)->sync->finish;
	is(value($node, $in_flight), '0', 'nor does one whose portal waits for the client');
	my $at = -s $node->logfile;
	kill 'KILL', $idle->{pid};
	close $idle->{socket};
	server_is_back($node, $at);
	wait_until('the end of the session is recorded', sub { records($node, application => 'idle', kind => 'disconnect') });
	is_deeply(
		[ map { "$_->{outcome} " . ($_->{rows} // '-') } statements($node, application => 'idle', text => qr/done|half/) ],
		[ 'ok 1', 'ok 4' ], 'after a kill, both are known to have delivered what they had');
}
# What is not recorded leaves nothing in the in-flight entry, which recovery would take for a statement.
{
	my $quiet = Steno::Client->new($node, application_name => 'quiet', options => '-c steno.log=write');

	foreach my $sql ('SELECT 1 /* unrecorded */', 'INSERT INTO t VALUES (7) /* recorded */', 'SELECT 2 /* unrecorded */')
	{
		$quiet->query('BEGIN');
		$quiet->parse('', $sql)->bind_values('p', '');
		$quiet->execute('p', 1)->sync->finish;
		$quiet->query('COMMIT');
	}
	$quiet->query('BEGIN');
	$quiet->parse('', 'SELECT i FROM generate_series(1, 9) i /* unrecorded */')->bind_values('p', '')->execute('p', 1)->sync->finish;
	my $at = -s $node->logfile;
	kill 'KILL', $quiet->{pid};
	close $quiet->{socket};
	server_is_back($node, $at);
	is_deeply(
		[ map { "$_->{outcome} $_->{text}" } statements($node, application => 'quiet', class => qr/^(read|write|error)$/) ],
		[ 'ok INSERT INTO t VALUES (7) /* recorded */' ], 'statements that are not recorded leave nothing, also after a kill');
	is(scalar(grep { !defined $_->{text} } statements($node, application => 'quiet')), 0, 'and none is invented');
}
# A commit that fails took time, too.
{
	my $c = Steno::Client->new($node, application_name => 'fails late');

	$c->query(q{CREATE TABLE late (i int); CREATE FUNCTION fails_late() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN PERFORM pg_sleep(0.2); RAISE 'too late'; END$$;
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fails_late()});
	$c->query('INSERT INTO late VALUES (1) /* simple */');
	$c->extended('INSERT INTO late VALUES (1) /* extended */');
	foreach my $protocol (qw(simple extended))
	{
		my $r = the_record($node, "$protocol: it", application => 'fails late', outcome => 'error', text => qr/\* $protocol/, depth => undef);
		cmp_ok($r->{commit_us} // 0, '>', 150_000, 'a commit that fails took time');
		is($r->{message}, 'too late', 'its message');
	}
}
# A Parse waits for a lock of a table behind a view, after the analysis: that is part of its statement's time.
{
	my $c = Steno::Client->new($node, application_name => 'parse');
	my $locker = Steno::Client->new($node);

	$c->query('CREATE TABLE behind AS SELECT 1 AS i; CREATE VIEW in_front AS SELECT * FROM behind');
	foreach my $name ('', 'named')
	{
		$locker->query('BEGIN');
		$locker->query('LOCK TABLE behind');
		$locker->put('Q', "SELECT pg_sleep(0.3); COMMIT\0")->send_all;
		$c->parse($name, "SELECT count(*) FROM in_front /* '$name' */")->sync->finish;
		$locker->finish;
		$c->bind_values('', $name)->execute('', 0)->sync->finish;
		my $r = the_record($node, 'it', application => 'parse', text => qr{/\* '$name' \*/});
		cmp_ok($r->{duration_us}, '>', 250_000, "Parse of '$name': its duration has the wait");
		cmp_ok($r->{analysis_us} // 0, '>', 250_000, 'as a part of analysis');
		$c->bind_values('', $name)->execute('', 0)->sync->finish if $name;
		is(scalar(grep { $_->{duration_us} > 250_000 } statements($node, application => 'parse', text => qr{/\* '$name' \*/})), 1, 'once');
	}

	# Drivers that ask for the types of parameters first parse a text twice.
	my $parse_that_waits = sub
	{
		$locker->query('BEGIN');
		$locker->query('LOCK TABLE behind');
		$locker->put('Q', "SELECT pg_sleep(0.3); COMMIT\0")->send_all;
		$c->parse('', $_[0])->sync->finish;
		$locker->finish;
	};
	my $twice = 'SELECT count(*) FROM behind /* twice */';

	$parse_that_waits->($twice);
	$c->parse('', $twice)->bind_values('', '')->execute('', 0)->sync->finish foreach 1 .. 3;
	my @times = map { $_->{duration_us} > 250_000 ? 1 : 0 } statements($node, application => 'parse', text => qr/twice/);
	is("@times", '1 0 0', 'each Parse of a text counts for its next execution');

	$parse_that_waits->('EXPLAIN SELECT count(*) FROM behind /* explained */');
	$c->bind_values('', '')->execute('', 0)->sync->finish;
	cmp_ok(the_record($node, 'it', application => 'parse', text => qr/explained/)->{duration_us},
		'>', 250_000, 'the Parse of a utility statement is part of its duration');
}
# What a Bind does before it plans is part of a statement that begins in its Execute.
{
	my $c = Steno::Client->new($node, application_name => 'bind');

	$c->query(q{CREATE FUNCTION slow_check(text) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.3); RETURN true; END$$;
		CREATE DOMAIN slow AS text CHECK (slow_check(value)); CREATE TABLE bound (t slow)});
	$c->parse('', 'INSERT INTO bound VALUES ($1) /* bound */')->bind_values('', '', 'x')->sync->finish;
	idle();
	$c->parse('', 'INSERT INTO bound VALUES ($1) /* bound */')->bind_values('', '', 'x')->execute('', 0)->sync->finish;
	my $r = the_record($node, 'it', application => 'bind', text => qr/INSERT.*bound/);
	cmp_ok($r->{duration_us}, '>', 250_000, 'to read parameters takes time');
	cmp_ok($r->{duration_us}, '<', 600_000, 'which is that of one Bind');
	cmp_ok($r->{plan_us} // 0, '<', 250_000, 'and not planning');
}
# To make the record of a statement that has ended is no part of it, whatever it is.  Its parameters are printed then, if
# they are too big to be recorded at its start.
{
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $include = qx(pg_config --includedir-server);
	my $c = Steno::Client->new($node, application_name => 'prints');
	my %took;

	chomp $include;
	system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', "-I$include", '-o', "$folder/output.so", dirname(__FILE__) . '/output.c');
	$node->safe_psql('postgres', qq{
		CREATE TYPE act;
		CREATE FUNCTION act_in(cstring) RETURNS act IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
		CREATE FUNCTION act_out(act) RETURNS cstring STRICT LANGUAGE C AS '$folder/output.so';
		CREATE TYPE act (INPUT = act_in, OUTPUT = act_out, LIKE = int4);
		CREATE TABLE printed (t text)});
	$c->query('SET plan_cache_mode = force_generic_plan');
	foreach my $command ('SELECT', 'INSERT INTO printed SELECT')
	{
		$c->parse('', "$command left(\$2, 1) WHERE \$1::act IS NOT NULL")->bind_values('', '', 14, 'x' x 300_000)->execute('', 0)->sync->finish;
		my ($r) = statements($node, application => 'prints', text => qr/^$command left/);

		like($r->{params}[0], qr/act 14/, "$command: the parameter is printed");
		$took{$command} = $r->{duration_us};
	}
	cmp_ok(abs($took{SELECT} - $took{'INSERT INTO printed SELECT'}), '<', 200_000, 'the same is part of the duration of a read and a write');
}
verify_ok($node, 'the trail');

done_testing();
