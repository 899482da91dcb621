
# Functions that clients call by a protocol message of its own, without a statement: libpq's PQfn(),
# and all its functions for large objects.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.mandatory = 'none'\nrestart_after_crash = on\n");
my $sessions = 0;
my %oid;

$node->safe_psql(
	'postgres', q{
CREATE ROLE nobody LOGIN;
CREATE TABLE t (n int CHECK (n < 100));
CREATE TABLE parent (n int PRIMARY KEY);
CREATE TABLE child (n int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE SCHEMA "closed";
CREATE FUNCTION "closed".f() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION refused() RETURNS int LANGUAGE sql AS 'SELECT 1';
REVOKE ALL ON FUNCTION refused() FROM PUBLIC;
CREATE FUNCTION "Adds"(int) RETURNS int LANGUAGE plpgsql AS $$BEGIN INSERT INTO t VALUES ($1); RETURN $1 + 1; END$$;
CREATE FUNCTION raises(text) RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE '%', $1; END$$;
CREATE FUNCTION catches() RETURNS int LANGUAGE plpgsql AS $$
	BEGIN INSERT INTO t VALUES (1000); RETURN 1; EXCEPTION WHEN OTHERS THEN EXECUTE 'nonsense'; END$$;
CREATE FUNCTION caught() RETURNS int LANGUAGE plpgsql AS $$
	BEGIN RETURN catches(); EXCEPTION WHEN OTHERS THEN RETURN 2; END$$;
CREATE FUNCTION orphan(int) RETURNS int LANGUAGE plpgsql AS $$BEGIN INSERT INTO child VALUES ($1); RETURN $1; END$$;
CREATE FUNCTION takes(small) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION many() RETURNS SETOF int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION makes() RETURNS void LANGUAGE plpgsql AS $$BEGIN CREATE TABLE made (n int); END$$;
CREATE FUNCTION checks() RETURNS trigger LANGUAGE plpgsql AS
	$$DECLARE n int; s small; BEGIN n := pg_catalog.abs(new.n); n := public."Adds"(n); s := n; RETURN NULL; END$$;
CREATE TABLE later (n int);
CREATE CONSTRAINT TRIGGER checks AFTER INSERT ON later DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION checks();
});

%oid = map { split /\|/ } split /\n/, $node->safe_psql(
	'postgres', q{SELECT proname, oid FROM pg_proc WHERE proname IN
	('lo_create', 'lo_open', 'loread', 'lo_close', 'lo_unlink', 'pg_sleep', 'f', 'refused', 'Adds', 'raises', 'catches',
	'caught', 'orphan', 'takes', 'many', 'makes', 'pg_current_xact_id') OR oid IN
	('set_config(text,text,bool)'::regprocedure, 'abs(int)'::regprocedure)});
$oid{none} = 4_000_000_000;

# The records of a new session, as lines: depth, class, command or text, objects, outcome.
sub recorded
{
	my ($send, %facts) = @_;
	my $name = 'session ' . ++$sessions;
	my $c = Steno::Client->new($node, application_name => $name, %facts);

	$send->($c);
	$c->quit;
	return lines_of($name);
}

sub lines_of
{
	my ($name) = @_;

	return [
		map {
			my $r = $_;

			my $objects = join ', ', map { "$_->{action} $_->{name}" } @{ $r->{objects} // [] };

			join ' ', $r->{depth} // 0, $r->{class}, $r->{text} // "$r->{command} $objects", $r->{sqlstate} // $r->{outcome}
		} statements($node, application => $name)
	];
}

# Alone, in its own transaction: all of its fields.
{
	my $c = Steno::Client->new($node, application_name => 'alone');
	my ($large, $xid, $r, $other);

	$large = $c->call($oid{lo_create}, 0)->{value};
	is($c->call($oid{'Adds'}, 7)->{value}, 8, 'a function has its result');
	$r = the_record($node, 'a call', application => 'alone', command => 'FUNCTION CALL', statement => 1);
	is_deeply(
		[ @$r{qw(kind class outcome text depth rows sqlstate params relations database)} ],
		[ 'statement', 'function', 'ok', (undef) x 6, 'postgres' ],
		'its fields');
	is_deeply(
		$r->{objects},
		[
			{ type => 'function', name => 'pg_catalog.lo_create', action => 'execute' },
			{ type => 'large object', name => $large, action => 'create' }
		],
		'the function, and what it made');
	ok(defined $r->{duration_us}, 'its duration');
	$other = the_record($node, 'its transaction', application => 'alone', kind => 'transaction', xid => $r->{xid});
	is_deeply([ @{ $other->{extra} }{qw(event statements)} ], [ 'commit', 1 ], 'has committed');
	is($other->{seq}, $r->{seq} + 1, 'after it');
	$r = the_record($node, 'the other', application => 'alone', command => 'FUNCTION CALL', statement => 2);
	is_deeply($r->{objects}, [ { type => 'function', name => 'public."Adds"', action => 'execute' } ], 'a name in quotes');
	$other = the_record($node, 'what it runs', application => 'alone', text => 'INSERT INTO t VALUES ($1)');
	is_deeply(
		[ @$other{qw(depth statement substatement xid)}, $other->{params}[0] ],
		[ 1, 2, 1, $r->{xid}, '7' ], 'is nested in it');
	$c->quit;
}

# In a block: each call has its record before the client hears of its end.
{
	my $name = 'block';
	my $c = Steno::Client->new($node, application_name => $name);
	my ($large, $fd, @found);

	$c->query('BEGIN');
	$large = $c->call($oid{lo_create}, 0)->{value};
	is_deeply(
		lines_of($name),
		[ '0 transaction BEGIN ok', "0 function FUNCTION CALL execute pg_catalog.lo_create, create $large ok" ],
		'in a block: the record is there when the call has ended');
	$fd = $c->call($oid{lo_open}, $large, 0x40000)->{value};
	is($c->call($oid{loread}, $fd, 10)->{value}, '\x', 'a large object is read');
	$c->call($oid{lo_close}, $fd);
	is($c->query('SELECT 1/0')->{sqlstate}, '22012', 'a statement fails after it');
	is($c->call($oid{lo_open}, $large, 0x40000)->{sqlstate}, '25P02', 'then a call is refused');
	$c->query('ROLLBACK');
	is($c->call($oid{lo_open}, $large, 0x40000)->{sqlstate}, '42704', 'and has nothing to open');
	$c->query('SELECT 2');
	$c->quit;
	is_deeply(
		lines_of($name),
		[
			'0 transaction BEGIN ok',
			"0 function FUNCTION CALL execute pg_catalog.lo_create, create $large ok",
			(map { "0 function FUNCTION CALL execute pg_catalog.$_ ok" } qw(lo_open loread lo_close)),
			'0 read SELECT 1/0 22012',
			'0 error FUNCTION CALL  25P02',
			'0 transaction ROLLBACK ok',
			'0 function FUNCTION CALL execute pg_catalog.lo_open 42704',
			'0 read SELECT 2 ok'
		],
		'several calls in a block');
	@found = statements($node, application => $name);
	is_deeply([ map { $_->{statement} } @found ], [ 1 .. 10 ], 'each is a statement');
	is($found[8]{message}, "large object $large does not exist", 'with the message of its failure');
	is_deeply(
		[ map { $_->{extra}{statements} } records($node, application => $name, kind => 'transaction') ],
		[6], 'the transaction has counted them');
}

# What a call runs whose foreign key is checked at its commit: since PostgreSQL 19 without a query.
my @orphan = (
	'1 write INSERT INTO child VALUES ($1) ok',
	$node->pg_version->major >= 19 ? () : '1 read SELECT 1 FROM ONLY "public"."parent" x WHERE "n" OPERATOR(pg_catalog.=) $1 FOR KEY SHARE OF x ok');

# Calls that fail: before the function runs, in it, and after it.
is_deeply(
	recorded(
		sub {
			my ($c) = @_;

			is($c->call($oid{refused})->{sqlstate}, '42501', 'a function is refused');
			is($c->call($oid{f})->{sqlstate}, '42501', 'its schema is');
			is($c->call($oid{none})->{sqlstate}, '42883', 'there is none');
			is($c->call($oid{many})->{sqlstate}, '0A000', 'it returns a set');
		},
		user => 'nobody'),
	[ map { "0 error FUNCTION CALL  $_" } qw(42501 42501 42883 0A000) ],
	'calls that are refused');
is_deeply(
	recorded(
		sub {
			my ($c) = @_;

			is($c->call($oid{takes}, 'x')->{sqlstate}, '22P02', 'an argument cannot be read');
			is($c->call($oid{takes}, 11)->{sqlstate}, '23514', 'an argument is not allowed');
			is($c->call($oid{takes})->{sqlstate}, '08P01', 'an argument is missing');
			is($c->call($oid{raises}, 'on purpose')->{sqlstate}, 'P0001', 'the function fails');
			is($c->call($oid{orphan}, 1)->{sqlstate}, '23503', 'the commit fails');
			$c->query('SELECT 1');
		}),
	[
		'0 function FUNCTION CALL execute public.takes 22P02',
		'0 function FUNCTION CALL execute public.takes 23514',
		'0 function FUNCTION CALL execute public.takes 08P01',
		'0 function FUNCTION CALL execute public.raises P0001',
		'0 function FUNCTION CALL execute public.orphan 23503',
		@orphan,
		'0 read SELECT 1 ok'
	],
	'calls that fail');
is(the_record($node, 'a message', message => 'on purpose', depth => undef)->{outcome},
	'error', 'of a call that failed');

# Where the log hides what the client is told.
is_deeply(
	recorded(
		sub {
			my ($c) = @_;

			$c->query($_) foreach 'SET log_min_messages = panic', 'BEGIN', 'SAVEPOINT s';
			$c->call($oid{raises}, 1);
			$c->query($_) foreach 'ROLLBACK TO s';
			$c->call($oid{lo_close}, -1);
			$c->query($_) foreach 'COMMIT';
			$c->call($oid{orphan}, 1);
			$c->call($oid{raises}, 2);
			$c->call($oid{abs}, -1);
		}),
	[
		'0 misc_set SET log_min_messages = panic ok',
		'0 transaction BEGIN ok',
		'0 transaction SAVEPOINT s ok',
		'0 function FUNCTION CALL execute public.raises P0001',
		'0 transaction ROLLBACK TO s ok',
		'0 function FUNCTION CALL execute pg_catalog.lo_close 42704',
		'0 transaction COMMIT ok',
		'0 function FUNCTION CALL execute public.orphan 23503',
		@orphan,
		'0 function FUNCTION CALL execute public.raises P0001',
		'0 function FUNCTION CALL execute pg_catalog.abs ok'
	],
	'failures that the log hides');

# What the functions run.
is_deeply(
	recorded(
		sub {
			my ($c) = @_;

			is($c->call($oid{caught})->{value}, 2, 'a function catches');
			$c->call($oid{makes});
		}),
	[
		'0 function FUNCTION CALL execute public.caught, execute public.catches ok',
		'1 write INSERT INTO t VALUES (1000) 23514',
		'1 error nonsense 42601',
		'0 function FUNCTION CALL execute public.makes ok',
		'1 ddl CREATE TABLE made (n int) ok'
	],
	'nested statements');
$node->safe_psql('postgres', 'DROP TABLE made');

# What is recorded of them.
foreach my $case (
	[ 'none', [] ],
	[ 'error', ['0 function FUNCTION CALL execute public.raises P0001'] ],
	[
		'all, -function',
		[ '0 function FUNCTION CALL execute public.raises P0001', '1 write INSERT INTO t VALUES ($1) ok' ]
	],
	[
		'function',
		[
			'0 function FUNCTION CALL execute public."Adds" ok',
			'0 function FUNCTION CALL execute pg_catalog.abs ok',
			'0 function FUNCTION CALL execute public.raises P0001'
		]
	])
{
	my ($log, $want) = @$case;

	is_deeply(
		[
			sort @{
				recorded(
					sub {
						my ($c) = @_;

						$c->call($oid{Adds}, 1);
						$c->call($oid{abs}, -1);
						$c->call($oid{raises}, 1);
					},
					options => '-c steno.log=' . $log =~ s/ /\\ /gr)
			}
		],
		[ sort @$want ],
		"steno.log = $log");
}
is_deeply(
	recorded(sub { $_[0]->call($oid{makes}) }, options => '-c steno.log_nested=off'),
	['0 function FUNCTION CALL execute public.makes, create public.made ok'],
	'steno.log_nested = off');
$node->safe_psql('postgres', 'DROP TABLE made');
is_deeply(
	[
		map { $_->{kind} . ' ' . ($_->{command} // $_->{extra}{name}) . ' ' . ($_->{outcome} // '') }
		grep { $_->{kind} ne 'connect' && $_->{kind} ne 'disconnect' } sort { $a->{seq} <=> $b->{seq} } do
		{
			recorded(
				sub {
					my ($c) = @_;

					$c->call($oid{set_config}, 'steno.log_start', 'function', 'f');
					is(scalar(records($node, application => "session $sessions", kind => 'setting')),
						1, 'a setting is changed by one');
					$c->call($oid{abs}, -1);
				});
			records($node, application => "session $sessions");
		}
	],
	[
		'statement FUNCTION CALL ok',
		'setting steno.log_start ',
		'start FUNCTION CALL running',
		'statement FUNCTION CALL ok'
	],
	'and the next has a start record');
is_deeply(
	the_record($node, 'a start record', application => "session $sessions", kind => 'start')->{objects},
	[ { type => 'function', name => 'pg_catalog.abs', action => 'execute' } ],
	'that names the function');

# With track_activities off, the server does not say what it does: what has begun is
# recorded all the same, and nothing is taken for a call that is none.
foreach my $track ('on', 'off')
{
	my @calls;

	is_deeply(
		recorded(
			sub {
				my ($c) = @_;

				$c->call($oid{abs}, -1);
				$c->call($oid{Adds}, 2);
				$c->call($oid{raises}, 'it');
				$c->query('BEGIN');
				$c->call($oid{abs}, -1);
				$c->query('COMMIT');
			},
			options => "-c track_activities=$track"),
		[
			'0 function FUNCTION CALL execute pg_catalog.abs ok',
			'0 function FUNCTION CALL execute public."Adds" ok',
			'1 write INSERT INTO t VALUES ($1) ok',
			'0 function FUNCTION CALL execute public.raises P0001',
			'0 transaction BEGIN ok',
			'0 function FUNCTION CALL execute pg_catalog.abs ok',
			'0 transaction COMMIT ok'
		],
		"track_activities = $track");
	@calls = grep { /FUNCTION CALL/ } @{
		recorded(
			sub {
				my ($c) = @_;

				# triggers that fire at a Sync, a cursor that outlives its transaction
				$c->extended('INSERT INTO later VALUES ($1)', $_) foreach 1, 20;
				$c->extended('SELECT public."Adds"(abs($1::small))', 3);
				$c->parse('hold', 'DECLARE c CURSOR WITH HOLD FOR SELECT public."Adds"(n) FROM generate_series(1, 3) n')
				  ->bind_values('', 'hold')->execute('')->sync->finish;
				# a statement that is analyzed anew when it is only described
				$c->parse('s', q{SELECT '{1,2}'::public.small[], abs(n) FROM public.t})->sync->finish;
				$c->query('ALTER TABLE t ADD COLUMN added int');
				$c->put('D', "Ss\0")->put('D', "Snone\0")->sync->finish;
				$c->query('ALTER TABLE t DROP COLUMN added');
				$c->put('C', "Ss\0")->sync->finish;
			},
			options => "-c track_activities=$track")
	};
	is_deeply(\@calls, [], "track_activities = $track: nothing else is a call");
}

# libpq itself.
{
	my $file = $node->basedir . '/large';
	my $large;

	append_to_file($file, 'x' x 20_000);
	local $ENV{PGAPPNAME} = 'libpq';
	$node->safe_psql('postgres', "\\lo_import '$file'\n\\lo_export :LASTOID '$file.out'\n\\lo_unlink :LASTOID\n");
	is(-s "$file.out", 20_000, 'psql has written and read a large object');
	my @lines = @{ lines_of('libpq') };
	my @calls = map { /FUNCTION CALL (.*) ok$/ ? $1 : () } @lines;

	is(scalar(@calls), scalar(grep { !/transaction|^0 read select/i } @lines), 'each call was well');
	is_deeply(
		[
			map { my $f = $_; scalar grep { /^execute pg_catalog\.$f\b/ } @calls }
			  qw(lo_creat lo_open lowrite loread lo_close lo_unlink)
		],
		[ 1, 2, 3, 4, 2, 1 ], 'calls of libpq');
	is(scalar(grep { /, create \d+$/ } @calls), 1, 'a large object was made');
	is(scalar(grep { /, drop \d+$/ } @calls), 1, 'and removed');
}

# Canceled, terminated, killed.
sub in_its_sleep
{
	my ($name, $do) = @_;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->query('SELECT 1');
	$c->put_call($oid{pg_sleep}, 1000)->send_all;
	wait_until 'it sleeps',
	  sub { value($node, "SELECT wait_event FROM pg_stat_activity WHERE pid = $c->{pid}") eq 'PgSleep' };
	$do->($c->{pid});
	return $c;
}

in_its_sleep('canceled', sub { value($node, "SELECT pg_cancel_backend($_[0])") })->finish;
in_its_sleep('terminated', sub { value($node, "SELECT pg_terminate_backend($_[0], 180000)") });
{
	my $start = -s $node->logfile;

	in_its_sleep('killed', sub { kill 'KILL', $_[0] });
	server_is_back($node, $start);
}
foreach my $case ([ 'canceled', '57014' ], [ 'terminated', '57P01' ], [ 'killed', 'interrupted' ])
{
	my ($name, $end) = @$case;

	is_deeply(lines_of($name),
		[ '0 read SELECT 1 ok', "0 function FUNCTION CALL execute pg_catalog.pg_sleep $end" ], $name);
}

# Rules.
append_to_file($node->data_dir . '/pg_steno_rules.conf', q{
skip all all all all function all statement=*
skip all all skipped all function all
record all all redacted all all all redact="\d{4}"
});
$node->restart;
foreach my $case (
	[ 'skipped', [ '1 write INSERT INTO t VALUES ($1)', '0 function public.raises P0001 card 1234' ] ],
	[
		'redacted',
		[
			'0 function public."Adds"',
			'1 write INSERT INTO t VALUES ($1)',
			'0 function public.raises P0001 card <redacted>'
		]
	])
{
	my ($name, $want) = @$case;
	my $c = Steno::Client->new($node, application_name => $name);
	my @found;

	$c->call($oid{Adds}, 1);
	$c->call($oid{raises}, 'card 1234');
	$c->quit;
	@found = map {
		join ' ', grep { defined } $_->{depth} // 0, $_->{class}, $_->{text} // $_->{objects}[0]{name},
		  @$_{qw(sqlstate message)}
	} statements($node, application => $name);
	is_deeply(\@found, $want, "rules: $name");
}

# A class that nobody may leave out.
$node->append_conf('postgresql.conf', "steno.mandatory = 'function'\n");
$node->restart;
is_deeply(
	recorded(
		sub {
			my ($c) = @_;

			$c->call($oid{Adds}, 1);
			$c->call($oid{abs}, -1);
		},
		options => '-c steno.log=none'),
	[ '0 function FUNCTION CALL execute public."Adds" ok', '0 function FUNCTION CALL execute pg_catalog.abs ok' ],
	'steno.mandatory');
is_deeply(
	[ map { "@{$_->{audited}}" } statements($node, application => "session $sessions") ],
	[ 'mandatory', 'mandatory' ], 'says so');

gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
done_testing();
