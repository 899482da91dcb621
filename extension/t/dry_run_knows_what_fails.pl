
# steno review access --dry-run: what it says of scripts that are hard to read, and of random ones, of all kinds of statements
# that revoke or drop, against psql and the server that run them.  A script is refused, or psql runs it without an error, and
# each statement of the period that fails after it is among those that fail or may fail.
#
# STENO_SEED and STENO_STEPS try other scripts than those that are tried always: a seed, and how many random scripts.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $scripts = $ENV{STENO_STEPS} // 30;
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('main', conf => "log_min_messages = panic\n");
srand($ENV{STENO_SEED} // 1); # a free port is looked for at random

my $roles = q{CREATE ROLE own; CREATE ROLE g; CREATE ROLE h; CREATE ROLE a LOGIN; CREATE ROLE b LOGIN; CREATE ROLE c LOGIN SUPERUSER; CREATE ROLE idle LOGIN;};
my $members = q{GRANT g TO a; GRANT h TO g; GRANT own TO b; GRANT h TO b WITH ADMIN OPTION; GRANT pg_read_all_data TO idle;};
my $inside = q{CREATE SCHEMA s AUTHORIZATION own; SET ROLE own;
CREATE TABLE s.t (x int, y int); CREATE TABLE s.u (x int, y int); CREATE TABLE s.k (x int, y int); CREATE SEQUENCE s.q; CREATE VIEW s.v AS SELECT x FROM s.k;
CREATE FUNCTION s.f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM s.u); END';
CREATE FUNCTION s.f(text) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE PROCEDURE s.p() LANGUAGE plpgsql AS 'BEGIN PERFORM 1; END';
CREATE TYPE s.ty AS ENUM ('1'); REVOKE USAGE ON TYPE s.ty FROM PUBLIC; REVOKE EXECUTE ON FUNCTION s.f(int) FROM PUBLIC; REVOKE EXECUTE ON PROCEDURE s.p() FROM PUBLIC;
GRANT USAGE ON SCHEMA s TO g, h; GRANT CREATE ON SCHEMA s TO g; GRANT SELECT ON s.t TO g WITH GRANT OPTION; GRANT SELECT (x), UPDATE (y) ON s.u TO h; GRANT SELECT ON s.v TO h;
GRANT USAGE ON SEQUENCE s.q TO a; GRANT EXECUTE ON FUNCTION s.f(int) TO g; GRANT EXECUTE ON PROCEDURE s.p() TO h; GRANT USAGE ON TYPE s.ty TO g;
SET ROLE g; GRANT SELECT ON s.t TO a, b; RESET ROLE;};
my @steps = map { [ split /: /, $_, 2 ] } (
	'a: SELECT x FROM s.t', 'a: SELECT x FROM s.u', 'a: UPDATE s.u SET y = 1 WHERE x = 1', 'a: TABLE s.v', q{a: SELECT nextval('s.q')}, 'a: SELECT s.f(1)', 'a: CALL s.p()',
	'a: CREATE TABLE s.new (x s.ty)', 'a: CREATE TEMP TABLE tmp (x int)', 'a: SELECT 1', 'a: SET LOCAL ROLE g; SELECT y FROM s.t', 'b: SELECT count(*) FROM s.t', 'b: DELETE FROM s.k',
	'b: ALTER TABLE s.k ADD z int', 'b: GRANT SELECT ON s.k TO idle', 'b: GRANT h TO idle', 'b: SELECT x FROM s.u', 'c: SELECT * FROM s.k', 'c: CHECKPOINT', q{c: SELECT s.f('x')}, 'c: SET LOCAL ROLE a; SELECT y FROM s.t');

my @who = qw(a b c g h own idle PUBLIC);
my @pool = (
	map({ ("REVOKE ALL ON s.$_ FROM W", "REVOKE ALL ON TABLE s.$_ FROM W CASCADE", "REVOKE SELECT ON s.$_ FROM W, W") } qw(t u v k)), 'REVOKE ALL ON s.q FROM W', 'REVOKE USAGE ON SEQUENCE s.q FROM W',
	'REVOKE SELECT (x) ON s.u FROM W', 'REVOKE UPDATE (y), SELECT (x) ON s.u FROM W', 'REVOKE GRANT OPTION FOR SELECT ON s.t FROM W CASCADE', 'REVOKE ALL ON ALL TABLES IN SCHEMA s FROM W CASCADE',
	'REVOKE ALL ON ALL TABLES IN SCHEMA s FROM W', 'REVOKE ALL ON ALL SEQUENCES IN SCHEMA s FROM W', 'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA s FROM W', 'REVOKE ALL ON ALL ROUTINES IN SCHEMA s FROM W',
	'REVOKE ALL ON ALL PROCEDURES IN SCHEMA s FROM W', 'REVOKE EXECUTE ON FUNCTION s.f(int) FROM W', 'REVOKE EXECUTE ON FUNCTION s.f(integer), s.f(text) FROM W', 'REVOKE EXECUTE ON ROUTINE s.p() FROM W',
	'REVOKE USAGE ON SCHEMA s FROM W', 'REVOKE ALL ON SCHEMA s FROM W CASCADE', 'REVOKE USAGE ON TYPE s.ty FROM W', 'REVOKE CONNECT ON DATABASE scripts FROM W', 'REVOKE ALL ON DATABASE scripts FROM W',
	'REVOKE g FROM W', 'REVOKE h FROM W CASCADE', 'REVOKE own FROM W', 'REVOKE ADMIN OPTION FOR h FROM W', 'REVOKE g, h FROM W, W', 'DROP OWNED BY W', 'DROP OWNED BY W; DROP ROLE W', 'DROP ROLE W', 'DROP ROLE IF EXISTS W',
	'ALTER ROLE W NOLOGIN', 'ALTER ROLE W NOINHERIT', 'ALTER ROLE W NOSUPERUSER', 'ALTER USER W WITH NOLOGIN NOINHERIT', 'ALTER ROLE W CONNECTION LIMIT 0', 'DROP TABLE s.k', 'DROP SCHEMA s CASCADE', 'DROP FUNCTION s.f(int)',
	'ALTER TABLE s.k OWNER TO W', 'REASSIGN OWNED BY own TO W', q{DO $x$BEGIN REVOKE ALL ON s.t FROM a, b; END$x$}, q{SELECT 'REVOKE ALL ON s.t FROM W' \\gexec}, 'SET ROLE W', 'SET SESSION AUTHORIZATION W', 'RESET ROLE',
	'SET LOCAL ROLE W', 'BEGIN', 'COMMIT', 'ROLLBACK', 'SET search_path = s; REVOKE ALL ON t FROM W', '/* /* */ REVOKE ALL ON s.t FROM W; */ SELECT 1', 'GRANT SELECT ON s.t TO W', 'GRANT g TO W', 'REVOKE SELECT ON s.t FROM "public"',
	'BEGIN; REVOKE ALL ON s.t FROM W CASCADE; ROLLBACK', 'BEGIN; SET LOCAL ROLE own; REVOKE ALL ON s.u FROM W; COMMIT', 'BEGIN; SET LOCAL ROLE g; REVOKE SELECT ON s.t FROM W; COMMIT', 'CREATE ROLE extra; GRANT h TO extra; GRANT extra TO W',
	'REVOKE ALL PRIVILEGES ON s.t, s.u FROM GROUP W CASCADE', '\\connect scripts', '\\set ON_ERROR_STOP on', 'REVOKE SELEC ON s.t FROM W', 'REVOKE SELECT ON s.missing FROM W', 'REVOKE USAGE ON LANGUAGE plpgsql FROM W');

sub any { return $_[ int rand @_ ]; }

sub run_file
{
	my ($name, $database, $text, @more) = @_;

	IPC::Run::run([ 'psql', '-XAtq', @more, '-d', $node->connstr($database), '-f', file_with("$folder/$name.sql", $text) ], '>', \my $out, '2>', \my $err);
	return ($? >> 8, $err);
}

# What the grants were, again.
sub restore
{
	run_file('gone', 'postgres', join "\n", 'DROP DATABASE IF EXISTS scripts;', map { ("DROP OWNED BY $_;", "DROP ROLE $_;") } qw(a b c g h own idle extra));
	my ($code, $err) = run_file('made', 'postgres', "$roles $members CREATE DATABASE scripts;\n\\connect scripts\nCREATE EXTENSION pg_steno;\n$inside", '-v', 'ON_ERROR_STOP=1');
	die $err if $code != 0;
}

# The numbers of steps that failed.
sub run_steps
{
	my ($mark) = @_;
	my %failed;

	foreach my $who (qw(a b c))
	{
		my @mine = grep { $steps[$_][0] eq $who } 0 .. $#steps;
		my ($out, $text) = ('', '');

		foreach my $i (@mine)
		{
			$text .= "BEGIN;\n\\set failed false\n" . join('', map { "/* $mark $i */ $_;\n\\if :ERROR\n\\set failed true\n\\endif\n" } split /; /, $steps[$i][1]) . "ROLLBACK;\n\\echo step $i :failed\n";
		}
		IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('scripts') . " user=$who", '-f', file_with("$folder/$who.sql", $text =~ s/^BEGIN;\n\/\*[^\n]*CHECKPOINT/CHECKPOINT/mgr) ], '>', \$out, '2>', \my $err);
		$failed{$_} = 1 foreach @mine;
		delete $failed{$_} foreach $out =~ /^step (\d+) false$/mg;
	}
	return \%failed;
}

restore();
my $before = run_steps('first');
is_deeply([ sort keys %$before ], [], 'every step works');
flush($node);
my $until = value($node, q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
my ($code, $grants) = steno_result('review', 'grants', '--dsn', $node->connstr('scripts') . ' user=' . $node->safe_psql('postgres', 'SELECT current_user'));
is($code, 0, 'the grants are read');
my @of = ('--grants', file_with("$folder/grants.json", $grants), '--until', $until);

my (%step, %records);
foreach my $line (lines($node, '--database', 'scripts', '--until', $until))
{
	my ($session, $seq, $statement) = map { $line =~ /"$_":"?([^",}]*)/ ? $1 : '' } qw(session seq statement);

	push @{ $records{"$session/$statement"} }, "$session/$seq";
	$step{"$session/$statement"} = $1 if $line =~ m{"text":"/\* first (\d+) \*/};
}
%step = map { my $i = $step{$_}; map { $_ => $i } @{ $records{$_} } } keys %step;

# What stands between a REVOKE and the GRANT that makes up for it: it may have psql or the server read something else than what
# is to be seen, end the script or its transaction, or be refused.  true: it is not refused.
my @between = (
	[ '' => 1 ], [ '-- nothing' => 1 ], [ '/* ; */ -- \'' => 1 ], [ "\\echo done" => 1 ], [ 'BEGIN; COMMIT;' => 1 ], [ '\set ON_ERROR_STOP on' => 1 ], [ q{COMMENT ON TABLE s.t IS 'a;b:c';} => 1 ],
	[ q{COMMENT ON VIEW s.v IS NULL; COMMENT ON ROLE a IS $x$'$x$;} => 1 ], [ q{SET lock_timeout = '5s'; SET application_name = 'x';} => 1 ], [ 'BEGIN; REVOKE h FROM g; ROLLBACK;' => 1 ],
	[ "-- x\rSET ROLE a;" => 0 ], [ "BEGIN; SET LOCAL ROLE own; COMMIT; -- x\r/*\rREVOKE ALL ON s.u FROM h; */" => 1 ], [ "\\connect \"scripts\"" => 1 ], [ '\quit' => 1 ], [ 'BEGIN; \echo x' => 1 ], [ 'BEGIN;' => 1 ], [ "-- x\rREVOKE ALL ON s.u FROM h; \\quit" => 1 ],
	[ "SELECT steno.note('x');" => 1 ],
	map({ [ $_ => $node->pg_version >= 16 ? 1 : 0 ] } 'GRANT h TO idle WITH SET FALSE;', 'REVOKE INHERIT OPTION FOR h FROM g;'),
	map { [ $_ => 0 ] } (
		"-- x\rDO \$\$BEGIN RAISE 'x'; END\$\$;", "-- x\r\\i other.sql",
		'\set x \'s.u FROM h; REVOKE ALL ON s.u\'' . "\nREVOKE ALL ON :x FROM h;", "COMMENT ON TABLE s.t IS :'USER';", 'COMMENT ON TABLE s.t IS :USER;', 'SET application_name = :"USER";', 'SET application_name = :USER;',
		'\set SINGLELINE on', '\set AUTOCOMMIT off', "\\set ON_ERROR_ROLLBACK on", '\echo x \\\\ REVOKE ALL ON s.u FROM h;', "\\echo x \\i other.sql", '\echo `echo x`', '\if false', '\connect scripts a', '\! true', '\gset', '\bind',
		q{SELECT 'REVOKE ALL ON s.u FROM h' \gexec}, q{BEGIN; SELECT 'COMMIT' \gexec} . "\nROLLBACK;", 'BEGIN; DO $$BEGIN RAISE $x$a$x$; END$$; ROLLBACK;', 'BEGIN; CALL s.p(); ROLLBACK;',
		q{BEGIN; REVOKE ALL ON s.u FROM h; PREPARE TRANSACTION 'x';}, q{PREPARE TRANSACTION 'x';}, 'BEGIN READ ONLY;', 'BEGIN ISOLATION LEVEL SERIALIZABLE;', 'START TRANSACTION READ ONLY;', 'COMMIT AND CHAIN;', 'COMMIT WORK WORK;',
		q{BEGIN; COMMENT ON TABLE s.missing IS 'x';}, q{COMMENT ON TABLE s.v IS 'x';}, q{COMMENT ON ROLE missing IS 'x';}, q{SET lock_timeout = 'soon';}, 'SET lock_timeout = 5s;', 'SET statement_timeout = 1;', q{SET client_min_messages = 'loud';},
		'SAVEPOINT x;', 'RELEASE x;', 'ROLLBACK TO x;', 'SET ROLE DEFAULT;', 'SET ROLE user;', 'SET SESSION AUTHORIZATION missing;', 'REVOKE USAGE ON s.u FROM h;', 'REVOKE USAGE ON TABLE s.t FROM h;', 'GRANT SELECT ON s.u TO PUBLIC WITH GRANT OPTION;',
		'ALTER ROLE h NOLOGIN LOGIN;', 'ALTER ROLE h NOLOGIN NOLOGIN;', 'CREATE ROLE x INHERIT INHERIT;', 'CREATE ROLE pg_x;', 'CREATE ROLE "none";', 'CREATE ROLE user;', "COMMENT ON TABLE s.t IS 'x'", 'SET application_name = \'x\'', 'REVOKE ALL ON s.u FROM idle',
		'BEGIN', 'RESET ROLE', "COMMENT ON TABLE s.t IS 'x;", 'COMMENT ON TABLE s.t IS $x$;', '/* ;', '/* /* */', 'REVOKE ALL ON s.u FROM "idle;', "REVOKE ALL ON s.u FROM 'idle';", 'REVOKE ALL ON s.q, FROM idle;', 'GRANT SELECT, ALL ON s.u TO idle;',
		'GRANT ALL, SELECT ON s.u TO idle;', 'GRANT GROUP g TO idle;', 'REVOKE EXECUTE ON FUNCTION s.p() FROM idle;', 'REVOKE EXECUTE ON PROCEDURE s.f(int) FROM idle;', 'REVOKE EXECUTE ON FUNCTION s.f(inte ger) FROM idle;',
		q{REVOKE EXECUTE ON FUNCTION s.f('int') FROM idle;}, 'REVOKE EXECUTE ON FUNCTION s.f("int") FROM idle;', 'REVOKE SELECT (y) ON s.v FROM idle;', 'REVOKE SELECT (last_value) ON s.q FROM idle;', 'DROP ROLE idle, idle;', 'DROP ROLE pg_monitor;', 'GRANT pg_database_owner TO idle;',
		'GRANT idle TO pg_database_owner;', 'REVOKE ALL ON s.u FROM idle GRANTED BY own;', 'SET ROLE a; GRANT USAGE ON SCHEMA s TO b;', 'ALTER ROLE pg_monitor LOGIN;', "REVOKE ALL ON s.u FROM \\x61;",
		'GRANT SELECT ON pg_class2 TO idle;', "SELECT steno.note('x'; ", "SELECT steno.note(E'x');", 'GRANT USAGE ON TYPE s.missing TO idle;', 'DROP OWNED BY ' . $node->safe_psql('postgres', 'SELECT current_user') . ';'));

# What is put into random scripts, in the place of a blank.
my @noise = (map({ ($_, $_, $_) } "\r", "\n", ' /* x */ ', ' -- x' . "\r", " -- '\n", "\t"), ' /* ', ' -- ', "'", '"', '$x$', ';', ' :x ', ' :: ', '\\', ' ( ', ' ) ', ' , ', ' BEGIN; ', ' ROLLBACK; ', " '\\' ", " E'", ' U&', ' CASCADE ', ' user ', ' ON ', "\x{b}");

# Compares what a dry run says of a script with what it does.  Says whether it was refused.
my ($tried, $refused, $broken) = (0, 0, 0);
sub try_script
{
	my ($name, $text) = @_;
	my ($code, $out, $err) = steno_result('review', 'access', '--format', 'json', @of, '--dry-run', file_with("$folder/script.sql", $text), trail($node));

	if ($code != 0)
	{
		$refused++;
		like($err, qr/script\.sql: /, "$name is refused");
		return 1;
	}
	my (%told, $login);
	foreach my $row (@{ JSON::PP->new->utf8->decode($out)->{dry_run} })
	{
		$told{ $step{$_} } = 1 foreach grep { defined $step{$_} } @{ $row->{records} };
		$told{"login $row->{user}"} = 1 if $row->{reason} =~ /log in|does not exist|for database .*CONNECT/;
	}
	($code, $err) = run_file('applied', 'scripts', $text, '-v', 'ON_ERROR_STOP=1');
	# what may fail is told as if it did not, and nothing that gives may follow
	ok($code == 0 || $text =~ /\b(DROP|TYPE|LANGUAGE)\b/, "$name: psql runs it") or diag("$text\n$err");
	my $failed = run_steps('again');
	my @missed = grep { !$told{$_} && !$told{"login $steps[$_][0]"} } sort { $a <=> $b } keys %$failed;
	$tried++;
	$broken += keys %$failed;
	is_deeply([ map { "@{ $steps[$_] }" } @missed ], [], "$name: what fails was predicted") or diag($text);
	restore();
	return 0;
}

foreach my $i (0 .. $#between)
{
	my ($part, $read) = @{ $between[$i] };

	is(try_script("script \"" . $part =~ s/[^ -~]/?/gr . '"', "REVOKE SELECT ON s.t FROM g, a CASCADE;\n$part\nGRANT SELECT ON s.t TO g WITH GRANT OPTION;\nGRANT SELECT ON s.t TO a, b;\n") ? 0 : 1, $read, '... which is expected');
}

foreach my $n (1 .. $scripts)
{
	my $text = join '', map { (any(@pool) =~ s/\bW\b/any(@who)/ger) =~ s/(?<!gexec|scripts| on)$/;/r . "\n" } 1 .. 1 + int rand 3;
	my $noise = rand() < 0.5 ? 0.1 : 0;

	$text =~ s/ /rand() < $noise ? any(@noise) : ' '/ge;
	try_script("script $n", $text);
}
note("$tried scripts were tried and $refused refused; $broken statements failed");
ok($tried && $broken, 'some scripts break something');

done_testing();
