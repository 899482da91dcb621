
# steno review access: what it says of grants is what the server does without them.  Statements of several
# roles are recorded; then the script of REVOKE is run, and each grant is revoked by itself and in random
# combinations, and the same statements run again: what the dry run has predicted must be what fails.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $json = JSON::PP->new->utf8;
my $folder = PostgreSQL::Test::Utils::tempdir();
my $version = value($node, 'SHOW server_version_num');

$node->safe_psql('postgres', q{CREATE DATABASE shop});
$node->safe_psql(
	'shop', q{
CREATE ROLE own NOLOGIN; CREATE ROLE viewer NOLOGIN;
CREATE ROLE readers NOLOGIN; CREATE ROLE clerks NOLOGIN; CREATE ROLE "The Staff" NOLOGIN; CREATE ROLE idle_group NOLOGIN;
CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE cid LOGIN NOINHERIT; CREATE ROLE dora LOGIN; CREATE ROLE eve LOGIN;
CREATE ROLE sleepy LOGIN;
CREATE SCHEMA app AUTHORIZATION own; CREATE SCHEMA "Odd" AUTHORIZATION own; CREATE SCHEMA idle AUTHORIZATION own;
GRANT USAGE ON SCHEMA app TO viewer;
SET ROLE own;
CREATE TABLE app.customer (id serial PRIMARY KEY, name text, email text, "Credit" int);
CREATE TABLE app.orders (id int, customer int REFERENCES app.customer, item text);
CREATE TABLE app.log (at timestamptz, line text);
CREATE TABLE app.secret (id int, owner text);
CREATE TABLE app.wiped (id int);
CREATE TABLE app.keyed (k int PRIMARY KEY, v int);
CREATE TABLE app.parts (k int, v text) PARTITION BY LIST (k);
CREATE TABLE app.part1 PARTITION OF app.parts FOR VALUES IN (1);
CREATE TABLE "Odd"."T able" ("Select" int, b int);
CREATE SEQUENCE app.numbers;
CREATE VIEW app.names AS SELECT id, name FROM app.customer WHERE email IS NOT NULL;
CREATE VIEW app.mine WITH (security_invoker) AS SELECT id, "Credit" FROM app.customer;
CREATE VIEW app.twice AS SELECT id FROM app.names;
CREATE MATERIALIZED VIEW app.sums AS SELECT count(*) AS n FROM app.orders;
CREATE FUNCTION app.total() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN (SELECT count(*) FROM app.secret); END';
CREATE FUNCTION app.lines() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(line) FROM app.log); END';
CREATE FUNCTION app.inner_one() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION app.inner_two() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 2; END';
CREATE FUNCTION app.outer_one() RETURNS int LANGUAGE plpgsql AS 'DECLARE x int; BEGIN x := app.inner_one(); RETURN x; END';
CREATE PROCEDURE app.proc() LANGUAGE plpgsql AS 'BEGIN INSERT INTO app.log (line) VALUES (''p''); END';
CREATE FUNCTION app.never() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE TABLE app.shared (id int, owner name);
ALTER TABLE app.shared ENABLE ROW LEVEL SECURITY;
CREATE TABLE app.teams (member name, boss name);
CREATE POLICY mine ON app.shared USING (owner IN (SELECT member FROM app.teams));
CREATE VIEW app.shared_view AS SELECT id FROM app.shared;
CREATE TABLE app.ruled (id int);
CREATE TABLE app.ruled_log (id int);
CREATE RULE also AS ON INSERT TO app.ruled DO ALSO INSERT INTO app.ruled_log VALUES (NEW.id);
CREATE TABLE app.watched (id int, at int);
CREATE FUNCTION app.watch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE app.watched SET at = 1 WHERE id <> OLD.id; RETURN NULL; END';
CREATE TRIGGER w AFTER DELETE ON app.watched FOR EACH ROW EXECUTE FUNCTION app.watch();
CREATE FUNCTION app.plus(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
CREATE VIEW app.counted AS SELECT app.inner_two() AS n;
INSERT INTO app.customer (name, email) VALUES ('a', 'a@example.org'); INSERT INTO app.secret VALUES (1, 'ann');
RESET ROLE;
CREATE VIEW app.foreign_view AS SELECT name FROM app.customer; ALTER VIEW app.foreign_view OWNER TO viewer;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA app FROM PUBLIC; REVOKE EXECUTE ON ALL PROCEDURES IN SCHEMA app FROM PUBLIC;
REVOKE ALL ON DATABASE shop FROM PUBLIC;
});

# Each line is a grant that is revoked by itself, too.
my @grants = split /\n/, q{GRANT USAGE ON SCHEMA app TO readers
GRANT USAGE ON SCHEMA app TO clerks
GRANT USAGE ON SCHEMA app TO dora
GRANT USAGE ON SCHEMA "Odd" TO PUBLIC
GRANT USAGE ON SCHEMA idle TO ann
GRANT CREATE ON SCHEMA app TO dora
GRANT TEMPORARY ON DATABASE shop TO bob
GRANT CREATE ON DATABASE shop TO bob
GRANT SELECT ON app.customer TO readers
GRANT SELECT (id, name) ON app.customer TO dora
GRANT SELECT (name) ON app.customer TO viewer
GRANT UPDATE (name) ON app.customer TO dora
GRANT UPDATE ON app.customer TO readers
GRANT INSERT ON app.customer TO clerks
GRANT USAGE ON SEQUENCE app.customer_id_seq TO clerks
GRANT USAGE ON SEQUENCE app.numbers TO clerks
GRANT UPDATE ON SEQUENCE app.numbers TO clerks
GRANT SELECT ON SEQUENCE app.numbers TO ann
GRANT INSERT, DELETE ON app.orders TO clerks
GRANT SELECT ON app.orders TO clerks
GRANT TRUNCATE ON app.wiped TO clerks
GRANT DELETE ON app.wiped TO clerks
GRANT REFERENCES ON app.keyed TO dora
GRANT INSERT, SELECT, UPDATE ON app.keyed TO clerks
GRANT TRIGGER ON app.keyed TO clerks
GRANT SELECT ON app.names TO readers
GRANT UPDATE ON app.names TO readers
GRANT SELECT ON app.mine TO readers
GRANT SELECT ON app.twice TO dora
GRANT SELECT ON app.sums TO dora
GRANT SELECT ON app.foreign_view TO dora
GRANT SELECT, INSERT ON app.parts TO clerks
GRANT SELECT ON app.log TO clerks
GRANT INSERT (line) ON app.log TO clerks
GRANT SELECT ("Select") ON "Odd"."T able" TO PUBLIC
GRANT INSERT ON "Odd"."T able" TO PUBLIC
GRANT EXECUTE ON FUNCTION app.total() TO dora
GRANT EXECUTE ON FUNCTION app.lines() TO clerks
GRANT EXECUTE ON FUNCTION app.inner_one() TO clerks
GRANT EXECUTE ON FUNCTION app.outer_one() TO clerks
GRANT EXECUTE ON FUNCTION app.never() TO clerks
GRANT EXECUTE ON PROCEDURE app.proc() TO clerks
GRANT SELECT ON app.shared TO ann
GRANT SELECT ON app.teams TO ann
GRANT SELECT ON app.shared_view TO clerks
GRANT INSERT ON app.ruled TO clerks
GRANT SELECT, DELETE ON app.watched TO clerks
GRANT UPDATE (at) ON app.watched TO clerks
GRANT EXECUTE ON FUNCTION app.plus(int) TO clerks
GRANT EXECUTE ON FUNCTION app.inner_two() TO dora
GRANT SELECT ON app.counted TO dora
GRANT readers TO ann
GRANT readers TO "The Staff"
GRANT clerks TO bob
GRANT clerks TO cid
GRANT "The Staff" TO eve
GRANT idle_group TO ann
GRANT pg_read_all_data TO eve
GRANT SELECT ON app.secret TO idle_group};
my $always = q{GRANT CONNECT ON DATABASE shop TO PUBLIC};
# From PostgreSQL 16 on, memberships have options. gus can do nothing with one of his, and hank only administers.
my @with_options = $version < 160000 ? () : split /\n/, q{GRANT clerks TO fay WITH INHERIT FALSE
GRANT readers TO gus WITH SET FALSE
GRANT "The Staff" TO gus WITH INHERIT FALSE, SET FALSE};
push @grants, @with_options;
$node->safe_psql('shop', q{CREATE ROLE fay LOGIN; CREATE ROLE gus LOGIN; CREATE ROLE hank LOGIN CREATEROLE; CREATE ROLE hanks;
GRANT hanks TO hank WITH ADMIN TRUE, INHERIT FALSE, SET FALSE}) if @with_options;

# User, and what he does in a session of its own.
my @steps = (
	[ ann => q{SELECT id, name FROM app.customer} ],
	[ ann => q{SELECT count(*) FROM app.customer} ],
	[ ann => q{SELECT c FROM app.customer c} ],
	[ ann => q{UPDATE app.customer SET email = 'x'} ],
	[ ann => q{UPDATE app.customer SET email = 'x' WHERE id = 1 RETURNING name} ],
	[ ann => q{SELECT name FROM app.customer FOR UPDATE} ],
	[ ann => q{SELECT name FROM app.names} ],
	[ ann => q{UPDATE app.names SET name = 'n'} ],
	[ ann => q{SELECT id FROM app.mine} ],
	[ ann => q{SELECT "Select" FROM "Odd"."T able"} ],
	[ ann => q{DO $$BEGIN PERFORM name, email FROM app.customer; END$$} ],
	[ ann => q{SELECT relname FROM pg_class LIMIT 1} ],
	[ ann => q{SELECT table_name FROM information_schema.tables LIMIT 1} ],
	[ bob => q{INSERT INTO app.customer (name) VALUES ('b')} ],
	[ bob => q{INSERT INTO app.customer (id, name, email) SELECT -count(*), 'c', 'd' FROM app.orders HAVING false} ],
	[ bob => q{INSERT INTO app.orders VALUES (1, 1, 'i')} ],
	[ bob => q{DELETE FROM app.orders WHERE id = 1} ],
	[ bob => q{DELETE FROM app.wiped} ],
	[ bob => q{TRUNCATE app.wiped} ],
	[ bob => q{INSERT INTO app.keyed VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET v = app.keyed.v + 1} ],
	[ bob => q{MERGE INTO app.keyed t USING (SELECT 1 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 2} ],
	[ bob => q{INSERT INTO app.parts VALUES (1, 'x')} ],
	[ bob => q{SELECT v FROM app.parts WHERE k = 1} ],
	[ bob => q{SELECT app.lines()} ],
	[ bob => q{SELECT app.outer_one()} ],
	[ bob => q{CALL app.proc()} ],
	[ bob => q{SELECT nextval('app.numbers')} ],
	[ bob => q{SELECT setval('app.numbers', 5)} ],
	[ bob => q{CREATE TEMP TABLE t AS SELECT item FROM app.orders} ],
	[ bob => q{CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'} ],
	[ bob => q{CREATE SCHEMA bobs; DROP SCHEMA bobs} ],
	[ bob => q{COPY app.orders (id, item) TO STDOUT} ],
	[ bob => q{BEGIN; DECLARE c CURSOR FOR SELECT line FROM app.log; FETCH 1 FROM c; COMMIT} ],
	[ bob => q{PREPARE p AS SELECT customer FROM app.orders WHERE id = $1; EXECUTE p (1)} ],
	[ bob => q{INSERT INTO "Odd"."T able" VALUES (1, 2)} ],
	[ ann => q{SELECT id FROM app.shared} ],
	[ bob => q{SELECT id FROM app.shared_view} ],
	[ bob => q{INSERT INTO app.ruled VALUES (1)} ],
	[ bob => q{DELETE FROM app.watched WHERE id = 1} ],
	[ dora => q{SELECT n FROM app.counted} ],
	[ cid => q{SET ROLE clerks; SELECT id, item FROM app.orders} ],
	[ dora => q{SELECT name FROM app.customer} ],
	[ dora => q{SELECT id, name FROM app.customer WHERE id > 0} ],
	[ dora => q{UPDATE app.customer SET name = 'd' WHERE id = 7} ],
	[ dora => q{SELECT id FROM app.twice} ],
	[ dora => q{SELECT n FROM app.sums} ],
	[ dora => q{SELECT name FROM app.foreign_view} ],
	[ dora => q{SELECT app.total()} ],
	[ dora => q{CREATE TABLE app.doras (a int); DROP TABLE app.doras} ],
	[ dora => q{CREATE TABLE app.referring (k int REFERENCES app.keyed (k)); DROP TABLE app.referring} ],
	[ eve => q{SELECT owner FROM app.secret} ],
	[ eve => q{UPDATE app.customer SET "Credit" = 1} ],
);
push @steps,
	[ fay => q{SET ROLE clerks; SELECT id, item FROM app.orders} ],
	[ gus => q{SELECT id, name FROM app.customer} ],
	[ hank => q{ALTER ROLE hanks CONNECTION LIMIT 5} ]
  if @with_options;

# Runs all steps, and returns the ones that failed.  A step is a session, which its application_name
# identifies.
sub run_steps
{
	my ($mark) = @_;
	my $script = '';

	foreach my $i (0 .. $#steps)
	{
		my ($user, $sql) = @{ $steps[$i] };

		$script .= qq{\\connect "} . $node->connstr('shop') . qq{ user=$user application_name=$mark$i"\n\\set failed false\n};
		$script .= "$_;\n\\if :ERROR\n\\set failed true\n\\endif\n" foreach split_statements($sql);
		$script .= "\\echo step $i :failed\n";
	}
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('shop') ], '<', \$script, '>', \$out, '2>', \$err);
	my %failed = $out =~ /^step (\d+) (true|false)$/mg;
	is(scalar(keys %failed), scalar(@steps), "$mark: all steps were run") or diag($err);
	diag($err) if $mark eq 'first' && $err ne '';
	return sort { $a <=> $b } grep { $failed{$_} eq 'true' } keys %failed;
}

sub split_statements
{
	my ($sql) = @_;

	return $sql if $sql =~ /\$\$/;
	return split /;\s*/, $sql;
}

# What psql says of statements. They are in a file, because a psql that is refused does not read its standard input, and
# whoever writes there fails.
sub run_file
{
	my ($connection, $sql) = @_;
	my ($stdout, $stderr) = ('', '');

	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $connection, '-f', file_with("$folder/statements.sql", "$sql;\n") ], '>', \$stdout, '2>', \$stderr);
	return $stderr;
}

sub inverse
{
	my ($grant) = @_;

	$grant =~ s/^GRANT/REVOKE/;
	$grant =~ s/ WITH .*//;
	$grant =~ s/ TO (?=[^ ]+$|"The Staff"$)/ FROM /;
	return $grant;
}

sub steps_text
{
	return join "\n", map { "$_: @{ $steps[$_] }" } @_;
}

sub grant_all
{
	# what a step has left that could not drop it
	$node->safe_psql('shop', join ";\n", 'INSERT INTO app.watched VALUES (1)', 'SET client_min_messages = error', 'DROP TABLE IF EXISTS app.doras, app.referring', 'DROP SCHEMA IF EXISTS bobs', $always, @grants);
	return;
}

grant_all();
is_deeply([ run_steps('first') ], [], 'all steps work with all grants');
flush($node);

# The steps of the sessions.
my %step_of;
foreach my $line (lines($node, '--kind', 'connect'))
{
	my $r = $json->decode($line);
	$step_of{ $r->{session} } = $1 if ($r->{application} // '') =~ /^first(\d+)$/;
}
my $until = value($node, q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});

my ($code, $out, $err) = steno_result('review', 'grants', '--dsn', $node->connstr('shop') . ' user=' . $node->safe_psql('shop', 'SELECT current_user'));
is($code, 0, 'the grants are read') or diag($err);
my $grants = file_with("$folder/grants.json", $out);
my $revoke = "$folder/revoke.sql";

sub review
{
	my (@args) = @_;
	my ($status, $stdout, $stderr) = steno_result('review', 'access', '--until', $until, '--format', 'json', '--grants', @args, trail($node));
	is($status, 0, "review access @args") or diag($stderr);
	return $json->decode($stdout);
}

# What the dry run says of a script: steps that fail, steps that may.
sub predicted
{
	my ($script, @more) = @_;
	my (%fails, %may);

	foreach my $row (@{ review($more[0] // $grants, '--dry-run', $script)->{dry_run} })
	{
		foreach my $record (@{ $row->{records} })
		{
			my ($session) = $record =~ m{^(.*)/};
			my $step = $step_of{$session};
			next if !defined $step;
			$row->{verdict} eq 'fails' ? $fails{$step} = $row->{reason} : ($may{$step} = $row->{reason});
		}
	}
	delete @may{ keys %fails };
	return (\%fails, \%may);
}

# ---- what was not used ----

my $answer = review($grants, '--script', $revoke);
my %unused = map { join(' ', $_->{role}, $_->{privilege}, $_->{object}, $_->{column} // ()) => 1 } @{ $answer->{unused} };
foreach my $expected ('ann USAGE idle', 'ann SELECT app.numbers', 'clerks TRIGGER app.keyed', 'clerks EXECUTE app.never()', 'idle_group SELECT app.secret')
{
	ok($unused{$expected} || (grep { "$_->{role} $_->{privilege} $_->{object}" eq $expected } @{ $answer->{undecided} }), "not used: $expected");
}
foreach my $needed ('readers SELECT app.customer', 'dora SELECT app.customer name', 'viewer SELECT app.customer name', 'clerks EXECUTE app.inner_one()', 'PUBLIC USAGE Odd', 'own USAGE app')
{
	ok(!$unused{$needed}, "used: $needed");
}
my $members_of = sub { [ sort map { "$_->{member} in $_->{role}" } @{ $_[0]{memberships} } ] };
is_deeply($members_of->($answer), [ 'ann in idle_group', @with_options ? 'gus in The Staff' : () ], 'members that never used a group') or diag(explain $answer->{limits});
ok((grep { $_->{role} eq 'sleepy' } @{ $answer->{dormant} }), 'a dormant role');
ok(!(grep { $_->{role} eq 'ann' } @{ $answer->{dormant} }), 'a role with sessions is not dormant');
my ($narrow) = grep { $_->{role} eq 'readers' && $_->{object} eq 'app.mine' } @{ $answer->{columns} };
is_deeply($narrow->{columns_never_used}, ['"Credit"'], 'columns that were not used');

# A dump of the server says the same.
my ($dumped) = run_command([ 'pg_dumpall', '--roles-only', '-d', $node->connstr('shop') ]);
my ($inside) = run_command([ 'pg_dump', '--schema-only', '--create', '-d', $node->connstr('shop') ]);
my $dump = file_with("$folder/dump.sql", "$dumped\n$inside");
my $from_dump = review($dump);
is_deeply(
	[ sort map { "$_->{role} $_->{privilege} $_->{object}" } grep { $_->{role} ne 'PUBLIC' } @{ $from_dump->{unused} } ],
	[ sort map { "$_->{role} $_->{privilege} $_->{object}" } grep { $_->{role} ne 'PUBLIC' } @{ $answer->{unused} } ],
	'a dump says the same as the server');
is_deeply($members_of->($from_dump), [], 'but not what is not reviewed, to which memberships may lead');
is((grep { $_->{role} eq 'idle_group' } @{ $from_dump->{undecided_memberships} })[0]{reason},
	'the grants are those of dumps, which do not say who has privileges that are not reviewed: take them with "steno review grants"', 'which is said');

# Its own script refuses nothing, neither in the dry run nor on the server.
my ($fails, $may) = predicted($revoke);
is_deeply($fails, {}, 'the dry run of the script: nothing fails');
is_deeply($may, {}, 'the dry run of the script: nothing may fail');
$node->safe_psql('shop', PostgreSQL::Test::Utils::slurp_file($revoke) =~ s/^\\connect.*$//mgr);
is_deeply([ run_steps('script') ], [], 'after the script, all steps work');
ok($node->safe_psql('shop', q{SELECT has_function_privilege('bob', 'app.never()', 'EXECUTE')}) eq 'f', 'the script has revoked something');
grant_all();

# ---- the dry run against the server ----

srand 16;
my @rounds = map { [$_] } @grants;
push @rounds, [ grep { rand() < 0.12 } @grants ] foreach 1 .. 12;
# Scripts, and what takes back what granting everything does not.
my @scripts = map { [ join('; ', map { inverse($_) } @$_), '' ] } grep { @$_ } @rounds;
push @scripts,
  (
	[ 'REVOKE INHERIT OPTION FOR readers FROM ann, gus', 'GRANT readers TO ann, gus WITH INHERIT TRUE' ],
	[ 'REVOKE SET OPTION FOR clerks FROM fay, bob', 'GRANT clerks TO fay, bob WITH SET TRUE' ],
	[ 'GRANT readers TO gus WITH INHERIT FALSE, SET TRUE', 'GRANT readers TO gus WITH INHERIT TRUE' ],
	[ 'GRANT clerks TO fay WITH INHERIT TRUE, SET FALSE', 'GRANT clerks TO fay WITH INHERIT FALSE, SET TRUE' ])
  if @with_options;
my %maybes;
foreach my $one (@scripts)
{
	my ($script, $undo) = @$one;
	my ($predicted, $unsure) = predicted(file_with("$folder/some.sql", $script));

	$node->safe_psql('shop', $script);
	my @failed = run_steps('again');
	$node->safe_psql('shop', $undo);
	grant_all();
	my %failed = map { $_ => 1 } @failed;
	my @extra = grep { !$failed{$_} } sort { $a <=> $b } keys %$predicted;
	my @missed = grep { !$predicted->{$_} && !$unsure->{$_} } @failed;
	is_deeply(\@extra, [], "predicted, but did not fail, after: $script") or diag(steps_text(@extra), "\n", explain $predicted);
	is_deeply(\@missed, [], "failed, but was not predicted, after: $script") or diag(steps_text(@missed));
	$maybes{ $steps[$_][1] } = 1 foreach grep { $unsure->{$_} !~ /: (records|functions|indexes) |^may need |^records / } keys %$unsure;
}
is_deeply([ keys %maybes ], [ grep { /HAVING false/ } map { $_->[1] } @steps ], 'the dry run is unsure only of an INSERT that names a column with a default, and of what records do not name');

# ---- what records do not name ----

# Each statement needs a privilege that its record does not have: the review must not call it unused.
my $odd = 'hidden=shop';
$node->safe_psql('postgres', qq{CREATE DATABASE "$odd"});
my $connect = $node->connstr('postgres') =~ s/dbname=\S+/dbname='$odd'/r;
my @hidden = (
	q{SELECT app.definer()},
	q{SELECT app.definer_calls()},
	q{INSERT INTO app.t VALUES (1)},
	q{SELECT app.sum_of(x) FROM generate_series(1, 3) x},
	q{SELECT 'a'::types.mood},
	q{SELECT 'named.t'::regclass},
	q{SELECT 1 / count(*) FROM app.policed_view},
	q{BEGIN; CREATE TABLE mine.l (LIKE read.src); ROLLBACK},
	q{BEGIN; CREATE VIEW mine.v AS SELECT a FROM viewed.t; ROLLBACK},
	q{BEGIN; CREATE TRIGGER x BEFORE INSERT ON mine.t FOR EACH ROW EXECUTE FUNCTION app.fire(); ROLLBACK},
	q{BEGIN; ALTER TABLE mine.t SET SCHEMA target; ROLLBACK},
	q{BEGIN; ALTER SCHEMA mine RENAME TO yours; ROLLBACK},
	q{BEGIN; CREATE MATERIALIZED VIEW mine.m AS SELECT 1 AS a; CREATE UNIQUE INDEX ON mine.m (a); COMMIT},
	q{REFRESH MATERIALIZED VIEW CONCURRENTLY mine.m},
	q{DROP MATERIALIZED VIEW mine.m});
my $setup = q{
CREATE ROLE hal LOGIN; CREATE ROLE definer; CREATE ROLE helpers; CREATE ROLE insiders; GRANT helpers TO definer; GRANT insiders TO definer;
CREATE SCHEMA app; CREATE SCHEMA helping; CREATE SCHEMA types; CREATE SCHEMA named; CREATE SCHEMA read; CREATE SCHEMA viewed; CREATE SCHEMA target;
CREATE SCHEMA unused; CREATE SCHEMA mine AUTHORIZATION hal;
REVOKE ALL ON DATABASE "hidden=shop" FROM PUBLIC; GRANT CONNECT, CREATE, TEMPORARY ON DATABASE "hidden=shop" TO hal;
GRANT USAGE ON SCHEMA app TO hal, definer; GRANT USAGE ON SCHEMA types, named, read, viewed, target, unused TO hal; GRANT CREATE ON SCHEMA target TO hal;
GRANT USAGE ON SCHEMA helping TO helpers;
CREATE SEQUENCE helping.numbers; GRANT USAGE ON SEQUENCE helping.numbers TO helpers;
CREATE FUNCTION helping.one() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION helping.add(int, int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1 + $2; END';
CREATE FUNCTION app.definer() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN nextval(''helping.numbers''); END';
CREATE FUNCTION app.definer_calls() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN helping.one(); END';
CREATE FUNCTION app.number() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN NEW.a := nextval(''helping.numbers''); RETURN NEW; END';
CREATE FUNCTION app.fire() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE app.t (a int); CREATE TRIGGER n BEFORE INSERT ON app.t FOR EACH ROW EXECUTE FUNCTION app.number(); GRANT INSERT ON app.t TO hal;
CREATE AGGREGATE app.sum_of(int) (sfunc = helping.add, stype = int, initcond = 0);
ALTER FUNCTION app.definer OWNER TO definer; ALTER FUNCTION app.definer_calls OWNER TO definer; ALTER FUNCTION app.number OWNER TO definer; ALTER AGGREGATE app.sum_of(int) OWNER TO definer;
REVOKE EXECUTE ON FUNCTION helping.one, helping.add, app.fire FROM PUBLIC; GRANT EXECUTE ON FUNCTION helping.one, helping.add TO helpers; GRANT EXECUTE ON FUNCTION app.fire TO hal;
CREATE TYPE types.mood AS ENUM ('a'); CREATE TABLE named.t (a int); CREATE TABLE read.src (a int); GRANT SELECT ON read.src TO hal;
CREATE TABLE viewed.t (a int); CREATE TABLE mine.t (a int); ALTER TABLE mine.t OWNER TO hal; CREATE TABLE unused.t (a int); GRANT SELECT ON unused.t TO hal;
CREATE TABLE app.policed (a int); INSERT INTO app.policed VALUES (1); ALTER TABLE app.policed ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON app.policed TO insiders USING (true); GRANT SELECT ON app.policed TO definer;
CREATE VIEW app.policed_view AS SELECT a FROM app.policed; ALTER VIEW app.policed_view OWNER TO definer; GRANT SELECT ON app.policed_view TO hal;
};
my $run = sub {
	my ($who, $sql) = @_;
	return run_file("$connect user=$who", $sql);
};
my $admin = $node->safe_psql('postgres', 'SELECT current_user');
$node->safe_psql('shop', 'SELECT count(*) FROM app.secret'); # of which the review below has no grants
is($run->($admin, $setup), '', 'what is used without a record is made');
$run->($admin, q{CREATE AGGREGATE app.median(float8 ORDER BY anyelement) (sfunc = ordered_set_transition, stype = internal, finalfunc = percentile_disc_final, finalfunc_extra);
CREATE FUNCTION app."f(x)"(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'; CREATE ROLE idler; GRANT EXECUTE ON FUNCTION app."f(x)" TO idler});
is($run->('hal', $_), '', "before the script: $_") foreach @hidden;
my (undef, $odd_grants) = steno_result('review', 'grants', '--dsn', "$connect user=$admin");
flush($node);
my (undef, $odd_answer) = steno_result('review', 'access', '--since', $until, '--format', 'json', '--grants', file_with("$folder/hidden.json", $odd_grants), '--script', "$folder/hidden.sql", trail($node));
$odd_answer = $json->decode($odd_answer);
my %odd_unused = map { ("$_->{role} $_->{privilege} $_->{object}" => 1) } @{ $odd_answer->{unused} };
ok($odd_unused{'hal SELECT unused.t'} && $odd_unused{'hal USAGE unused'}, 'what is not used is found nevertheless');
ok($odd_unused{'PUBLIC EXECUTE app.median(double precision, anyelement)'} && $odd_unused{'idler EXECUTE app."f(x)"(integer)'}, 'functions are named as REVOKE does');
is_deeply($odd_answer->{memberships}, [], 'memberships that another database may have used');
ok((grep { /^Memberships are not reviewed, .*: shop/ } @{ $odd_answer->{limits} }), 'which is said');
IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', "$folder/hidden.sql" ], '>', \my $done, '2>', \my $wrong);
is($wrong, '', 'the script runs as it is, with a database whose name looks like a connection string');
is($run->('hal', $_), '', "after the script: $_") foreach @hidden;

# ---- what has another name now, and what was there before the period ----

# Everything is used under the name that it had. A script that revokes what has no use under its present name
# would break what used it.
$node->safe_psql('postgres', 'CREATE DATABASE moved');
my $moved = sub {
	my ($who, $sql) = @_;
	return run_file($node->connstr('moved') . " user=$who", $sql);
};
is($moved->($admin, q{
REVOKE ALL ON DATABASE moved FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE ROLE ivy LOGIN; CREATE ROLE jan LOGIN; CREATE ROLE kim LOGIN; CREATE ROLE leo LOGIN; CREATE ROLE idle_one LOGIN;
GRANT CONNECT ON DATABASE moved TO ivy, jan, kim, leo, idle_one;
CREATE SCHEMA a; CREATE SCHEMA old; CREATE SCHEMA named; GRANT USAGE ON SCHEMA a, old, named TO ivy; GRANT USAGE ON SCHEMA a TO jan, kim, idle_one;
CREATE TABLE a.old (x int); GRANT SELECT ON a.old TO ivy, idle_one;
CREATE TABLE a.gone (x int); GRANT SELECT ON a.gone TO idle_one;
CREATE TABLE a.swapped (x int); CREATE TABLE a.swapped_new (x int); GRANT SELECT ON a.swapped, a.swapped_new TO ivy;
CREATE TABLE a.cols (x int, y int); GRANT SELECT (x) ON a.cols TO ivy;
CREATE TABLE old.t (x int); GRANT SELECT ON old.t TO ivy;
CREATE FUNCTION a.f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'; REVOKE EXECUTE ON FUNCTION a.f FROM PUBLIC; GRANT EXECUTE ON FUNCTION a.f TO ivy;
CREATE TABLE a.jans (x int); GRANT SELECT ON a.jans TO jan;
CREATE TABLE a.kims (x int); GRANT SELECT ON a.kims TO kim;
CREATE TABLE named.t (x int)}), '', 'what will have another name is made');
my $early = Steno::Client->new($node, user => 'leo', database => 'moved');
ok(!$early->query('SELECT 1')->{sqlstate}, 'a session that is there before the period');
$moved->('leo', 'SELECT 2'); # until here, its login is in the trail
# A setting that leaves something out, in a session that has ended when the period begins.
is($moved->($admin, 'SET steno.log_referential_checks = off; SELECT 1'), '', 'a setting before the period');
my $now = sub { value($node, q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')}) };
my $start = $now->();
my @before = (
	[ ivy => q{SELECT x FROM a.old} ], [ ivy => q{SELECT x FROM a.swapped} ], [ ivy => q{SELECT x FROM a.cols} ],
	[ ivy => q{SELECT x FROM old.t} ], [ ivy => q{SELECT a.f()} ], [ jan => q{SELECT x FROM a.jans} ], [ kim => q{SELECT x FROM a.kims} ]);
is($moved->(@$_), '', "before: $_->[1]") foreach @before;
ok(!$early->query('SELECT 3')->{sqlstate}, 'a statement of the early session');
my $parameter = Steno::Client->new($node, user => 'ivy', database => 'moved');
ok(!$parameter->extended('SELECT $1::regclass', 'named.t')->{sqlstate}, 'a name in a parameter');
$parameter->quit;
my $unrenamed = $now->();
is($moved->($admin, q{
ALTER TABLE a.old RENAME TO new; ALTER TABLE a.swapped RENAME TO swapped_old; ALTER TABLE a.swapped_new RENAME TO swapped;
ALTER TABLE a.cols RENAME x TO z; ALTER SCHEMA old RENAME TO newer; ALTER TABLE newer.t RENAME TO u; ALTER FUNCTION a.f RENAME TO g;
ALTER TABLE a.jans SET SCHEMA newer; GRANT USAGE ON SCHEMA newer TO jan; ALTER ROLE kim RENAME TO kimberley}), '', 'names are changed');
my @after = (
	[ ivy => q{SELECT x FROM a.new} ], [ ivy => q{SELECT x FROM a.swapped} ], [ ivy => q{SELECT z FROM a.cols} ],
	[ ivy => q{SELECT x FROM newer.u} ], [ ivy => q{SELECT a.g()} ], [ jan => q{SELECT x FROM newer.jans} ], [ kimberley => q{SELECT x FROM a.kims} ],
	[ leo => 'SELECT 1' ]);
is($moved->(@$_), '', "after: $_->[1]") foreach @after;
flush($node);
my (undef, $moved_grants) = steno_result('review', 'grants', '--dsn', $node->connstr('moved') . " user=$admin");
file_with("$folder/moved.json", $moved_grants);

sub moved_review
{
	my (@args) = @_;
	my ($status, $stdout, $stderr) = steno_result('review', 'access', '--since', $start, '--until', $unrenamed, '--format', 'json', '--grants', "$folder/moved.json", @args, trail($node));

	is($status, 0, "review of what was renamed: @args") or diag($stderr);
	return $json->decode($stdout);
}

# Until then, no record says what was renamed: nothing is known of what may be meant.
my $unsure = moved_review();
my $text_of = sub { join(' ', @{ $_[0] }{qw(role privilege object)}) };
my %unsure = map { ($text_of->($_) => 1) } @{ $unsure->{undecided} };
ok($unsure{$_}, "undecided: $_") foreach ('ivy SELECT a.new', 'ivy SELECT newer.u', 'ivy EXECUTE a.g()', 'ivy USAGE newer', 'jan SELECT newer.jans', 'kimberley SELECT a.kims');
ok((grep { $text_of->($_) eq 'idle_one SELECT a.new' } @{ $unsure->{unused} }), 'a role that used nothing has no use for it');
ok((grep { /not among the grants.*: kim$/ } @{ $unsure->{limits} }), 'a role without a record that says why');
ok(!(grep { $_->{role} eq 'leo' && $_->{privilege} eq 'CONNECT' } @{ $unsure->{unused} }), 'a login before the period');
ok(!(grep { $_->{object} eq 'named' } @{ $unsure->{unused} }), 'a schema that a parameter names');

my ($unseen) = grep { $_->{text} eq 'SELECT 3' } @{ moved_review('--dry-run', file_with("$folder/leo.sql", "\\connect moved\nREVOKE CONNECT ON DATABASE moved FROM leo;\n"))->{dry_run} };
is($unseen->{verdict}, 'may fail', 'a session from before the period would not log in again');
$early->quit;

# With the records of the renaming, it is known.
$unrenamed = $now->();
my $known = moved_review('--script', "$folder/moved.sql");
is_deeply([ grep { /kimberley|ivy|jan|leo/ && !/swapped/ } map { $text_of->($_) } @{ $known->{unused} } ], [], 'no privilege is unused because of a new name') or diag(explain $known->{unused});
ok(!(grep { $_->{role} =~ /^kim/ } @{ $known->{dormant} }), 'a role with a new name is not dormant');
ok((grep { $text_of->($_) eq 'idle_one SELECT a.new' } @{ $known->{unused} }), 'what is not used is found nevertheless');
$moved->($admin, 'ALTER ROLE ivy SET search_path = a'); # nothing of which the review depends
$moved->($admin, 'DROP TABLE a.gone');
IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', "$folder/moved.sql" ], '>', \$done, '2>', \$wrong);
is($? >> 8, 3, 'a REVOKE that no longer applies is an error of the script');
is(scalar(() = $wrong =~ /ERROR:/g), 2, 'the only one') or diag($wrong);
like($wrong, qr/relation "a.gone" does not exist.*some of the statements failed, see the errors above; all others were executed/s, 'which it says');
is($moved->('idle_one', 'SELECT 1') =~ /permission denied for database/ ? 'refused' : 'allowed', 'refused', 'it has revoked something');
is($moved->(@$_), '', "after the script: $_->[1]") foreach @after;

# So does the dry run.
my ($dry) = moved_review('--dry-run', file_with("$folder/fewer.sql", q{\connect moved
REVOKE SELECT ON a.new FROM ivy; REVOKE SELECT (z) ON a.cols FROM ivy; REVOKE EXECUTE ON FUNCTION a.g() FROM ivy;
REVOKE SELECT ON a.kims FROM kimberley;
}))->{dry_run};
my %dry = map { ($_->{text} => $_->{verdict}) } grep { $_->{database} eq 'moved' } @$dry;
is($dry{$_}, 'fails', "the dry run knows its new name: $_") foreach ('SELECT x FROM a.old', 'SELECT x FROM a.cols', 'SELECT a.f()', 'SELECT x FROM a.kims');

# What was not recorded makes a script that does nothing before somebody has read why.
is($moved->($admin, q{ALTER ROLE jan SET steno.log_referential_checks = off}), '', 'a setting that leaves something out');
is($moved->('jan', 'SELECT x FROM newer.jans'), '', 'and a session with it');
flush($node);
$unrenamed = $now->();
moved_review('--script', "$folder/lacking.sql");
IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', "$folder/lacking.sql" ], '>', \$done, '2>', \$wrong);
like($wrong, qr/nothing was revoked: the trail lacks part of the period/, 'a script of an incomplete period stops');
like(PostgreSQL::Test::Utils::slurp_file("$folder/lacking.sql"), qr/^--   .*steno\.log_referential_checks/m, 'and says why');

# ---- a dossier from a note on ----

$node->safe_psql('postgres', q{SELECT 'before'; SELECT steno.note('INC-7 repair'); BEGIN; CREATE TABLE repaired (id int); ROLLBACK; SELECT 'after'});
$node->safe_psql('postgres', q{SELECT steno.note('INC-70 another'); SELECT 'no'});
flush($node);
($code, $out, $err) = steno_result('review', 'person', '--note', 'INC-7', '--format', 'json', trail($node));
is($code, 0, 'review person') or diag($err);
my $dossier = $json->decode($out);
is_deeply([ map { $_->{text} } @{ $dossier->{notes} } ], ['INC-7 repair'], 'the note, and not one that begins like it');
is_deeply([ map { "$_->{text}: $_->{outcome}" } @{ $dossier->{changes} } ], ['CREATE TABLE repaired (id int): rolled back'], 'what was done, and that it was rolled back');
is(scalar(@{ $dossier->{sessions} }), 1, 'its session');
is($dossier->{sessions}[0]{end}, 'ok', 'and how it ended');
my ($selects) = grep { $_->{command} eq 'SELECT' } @{ $dossier->{commands} };
is($selects->{statements}, 2, 'nothing from before the note');

# ---- who became somebody else ----

$node->safe_psql('moved', q{SET SESSION AUTHORIZATION ivy; SELECT 'as ivy', x FROM a.new; RESET SESSION AUTHORIZATION; SELECT 'as admin'});
flush($node);
(undef, $out) = steno_result('review', 'person', '--user', $admin, '--since', $unrenamed, '--format', 'json', trail($node));
$dossier = $json->decode($out);
ok((grep { $_->{object} eq 'a.new' } @{ $dossier->{objects} }), 'what somebody did after SET SESSION AUTHORIZATION is in the dossier');
ok((grep { $_->{role} eq 'ivy' } @{ $dossier->{roles} }), 'with the role');
(undef, $out) = steno_result('review', 'person', '--user', 'ivy', '--since', $unrenamed, '--format', 'json', trail($node));
$dossier = $json->decode($out);
ok((grep { /^1 sessions have no record of a login as this user: / } @{ $dossier->{limits} }), 'whom somebody became did not do it');
(undef, $out) = steno_result('review', 'person', '--user', 'jan', '--since', $start, '--format', 'json', trail($node));
ok(!(grep { /no record of a login/ } @{ $json->decode($out)->{limits} }), 'which is not said of others');

# ---- what has not ended ----

$node->append_conf('postgresql.conf', 'steno.start_after = 1ms');
$node->reload;
wait_until('the setting is there', sub { value($node, 'SHOW steno.start_after') eq '1ms' });
my $running = Steno::Client->new($node, user => 'leo', database => 'moved');
$running->query('SELECT 470001, pg_sleep(0.1)');
$running->put('Q', "SELECT 470002, pg_sleep(1000)\0")->send_all;
wait_until('it is announced', sub { grep { /470002/ } lines($node, '--kind', 'start') });
(undef, $out) = steno_result('review', 'subject', '--value', '470001', '--value', '470002', '--format', 'json', trail($node));
is_deeply([ map { "$_->{text}: $_->{outcome}" } @{ $json->decode($out)->{found} } ],
	[ 'SELECT 470001, pg_sleep(0.1): ok', 'SELECT 470002, pg_sleep(1000): no end is recorded' ], 'a value in a statement that runs');
(undef, $out) = steno_result('review', 'person', '--user', 'leo', '--format', 'json', trail($node));
is_deeply([ map { $_->{text} } @{ $json->decode($out)->{running} } ], ['SELECT 470002, pg_sleep(1000)'], 'what somebody runs');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($running->{pid})");
flush($node);
(undef, $out) = steno_result('review', 'person', '--user', 'leo', '--format', 'json', trail($node));
is_deeply($json->decode($out)->{running}, [], 'it has ended');

done_testing();
