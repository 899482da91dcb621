
# steno review access: its script revokes nothing that is in use.  Random roles, memberships, grants and statements: the
# script is run on the server, then the same statements again, and none may fail that did not fail before.  Then random
# grants and memberships are revoked: what fails then, the dry run must have predicted.  And what a restored dump of the
# server says of privileges that are not used must be what the server says of them.
#
# STENO_SEED and STENO_STEPS try others than those that are tried always: seeds, and how many graphs each has.  STENO_GRAPHS
# is how many graphs are tried in all, in such batches, with a server and a seed each: STENO_GRAPHS=10000 tries 10,000, with
# the seeds from STENO_SEED on.  The output names what each batch had, so that a failure can be repeated with its seed alone.

use strict;
use warnings;

use JSON::PP;
use POSIX 'ceil';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my @seeds = split /,/, $ENV{STENO_SEED} // '1';
my $graphs = $ENV{STENO_STEPS} // 50;
@seeds = $seeds[0] .. $seeds[0] + ceil($ENV{STENO_GRAPHS} / $graphs) - 1 if $ENV{STENO_GRAPHS};
my $json = JSON::PP->new->utf8;
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node;

# What records do not show, and is reached through groups.
my @predefined = qw(pg_monitor pg_read_server_files pg_checkpoint pg_read_all_settings pg_stat_scan_tables pg_read_all_data pg_write_all_data);
my @parameters = qw(log_duration log_statement log_executor_stats);

my @privileges = (
	'USAGE ON SCHEMA S', 'CREATE ON SCHEMA S', 'SELECT ON S.t0', 'SELECT (a) ON S.t0', 'INSERT ON S.t0', 'SELECT ON S.t1', 'UPDATE ON S.t1', 'UPDATE (b) ON S.t1',
	'SELECT, DELETE, TRUNCATE ON S.t2', 'INSERT ON S.ser', 'USAGE ON SEQUENCE S.ser_a_seq', 'SELECT ON S.v0', 'SELECT ON S.vi', 'INSERT ON S.trg', 'USAGE ON SEQUENCE S.q',
	'INSERT ON S.words', 'SELECT ON S.policed', 'SELECT ON S.listing', 'REFERENCES ON S.t1', 'EXECUTE ON FUNCTION S.f0()', 'EXECUTE ON FUNCTION S.f1(int)', 'EXECUTE ON FUNCTION S.fd()', 'EXECUTE ON FUNCTION S.fq()',
	'EXECUTE ON PROCEDURE S.p()', 'USAGE ON TYPE S.ty', 'USAGE ON LANGUAGE S_lang', 'CREATE ON TABLESPACE S_space', 'USAGE ON FOREIGN SERVER S_server', 'SELECT ON LARGE OBJECT LO',
	'UPDATE ON LARGE OBJECT LO', 'CREATE ON SCHEMA S', 'CREATE ON SCHEMA S_gs', 'USAGE ON SCHEMA S_gs', 'SELECT ON S.gv', 'ALL ON S.gt', 'SELECT, INSERT, UPDATE ON S.child', 'INSERT ON S.gtrg', 'USAGE ON SEQUENCE S.gt_a_seq',
	'DELETE ON S.t1', 'INSERT ON S.t0', 'EXECUTE ON FUNCTION S.gf()', 'EXECUTE ON FUNCTION S.gd()', 'EXECUTE ON FUNCTION S.gadd(int, int)', 'EXECUTE ON FUNCTION S.gtf()', 'EXECUTE ON FUNCTION S.ga(int)', 'USAGE ON TYPE S.gty', 'USAGE ON FOREIGN DATA WRAPPER nowhere', 'TEMPORARY ON DATABASE graphs', 'CREATE ON DATABASE graphs', 'EXECUTE ON FUNCTION pg_catalog.pg_read_file(text)', 'SELECT ON pg_catalog.pg_authid',
	map { "SET ON PARAMETER $_" } @parameters);

# What owners may do, and what is done with the rights of an owner other than that of the schema.
my @of_owners = (
	(map { "ALTER $_ OWNER TO R" } 'TABLE S.gt', 'VIEW S.gv', 'FUNCTION S.gf()', 'SEQUENCE S.gq', 'TYPE S.gty', 'DOMAIN S.gd', 'LARGE OBJECT GLO', 'SERVER S_gserver', 'PUBLICATION S_gpub', 'SCHEMA S_gs', 'STATISTICS S.gst', 'COLLATION S.gc', 'OPERATOR S.@@ (int, int)'),
	'ALTER TABLE S.gt OWNER TO CURRENT_USER', 'ALTER TABLE S.gt ADD c int, OWNER TO R', 'DO $$BEGIN EXECUTE concat(\'ALTER TABLE S.gt OWNER TO \', \'R\'); END$$',
	(map { "ALTER $_ SET SCHEMA S_gs" } 'TABLE S.gt', 'VIEW S.gv', 'FUNCTION S.gf()', 'TYPE S.gty', 'COLLATION S.gc'),
	'ALTER TABLE S_gs.x SET SCHEMA S', 'REASSIGN OWNED BY R TO S_g0', 'REASSIGN OWNED BY S_g2 TO R', 'DROP OWNED BY R CASCADE', 'ALTER TABLE S.gt SET TABLESPACE S_space', 'ALTER SCHEMA S_gs RENAME TO S_renamed', 'ALTER TABLE S.gt RENAME TO other',
	'CREATE SCHEMA AUTHORIZATION R', 'CREATE SCHEMA S_new AUTHORIZATION R CREATE TABLE x (a int REFERENCES S.t1) CREATE VIEW y AS SELECT a FROM S.t0',
	'ALTER DEFAULT PRIVILEGES FOR ROLE R IN SCHEMA S GRANT SELECT ON TABLES TO S_u0', 'ALTER DEFAULT PRIVILEGES FOR ROLE S_g2 REVOKE SELECT ON TABLES FROM S_u0', 'GRANT SELECT ON S.gt TO S_u0 GRANTED BY CURRENT_USER', 'GRANT R TO S_u0 GRANTED BY CURRENT_USER',
	'TABLE S.gv', 'SELECT S.gf()', 'SELECT S.gd()', 'INSERT INTO S.gt VALUES (9, 2)', 'INSERT INTO S.gt (b) VALUES (1)', 'UPDATE S.gt SET b = 2', 'DELETE FROM S.gt', 'INSERT INTO S.child VALUES (1, 1)', 'DELETE FROM S.t1 WHERE a = 1', 'UPDATE S.child SET a = 1', 'INSERT INTO S.gtrg VALUES (1)',
	'ALTER TABLE S.child ADD FOREIGN KEY (b) REFERENCES S.gt', 'CREATE TABLE S.new (a int REFERENCES S.gt)', 'CREATE TABLE S.new (LIKE S.gt)', 'CREATE TABLE S.new () INHERITS (S.gt)', 'CREATE TRIGGER y BEFORE INSERT ON S.gt FOR EACH ROW EXECUTE FUNCTION S.ft()', 'CREATE INDEX ON S.gt ((S.f1(b)))',
	'CREATE POLICY p ON S.gt TO R USING (a > 0)', 'CREATE RULE r AS ON INSERT TO S.gt DO ALSO SELECT S.f0()', 'CREATE STATISTICS S.nst ON a, b FROM S.gt', 'CREATE PUBLICATION S_pub FOR TABLE S.gt', 'ALTER PUBLICATION S_gpub ADD TABLE S.t0', 'CREATE DOMAIN S.nd AS S.ty',
	'CREATE AGGREGATE S.na (int) (sfunc = S.gadd, stype = int)', 'CREATE OPERATOR S.@ (leftarg = int, rightarg = int, function = S.gadd)', 'SELECT S.ga(a) FROM S.t0', 'SELECT 1 OPERATOR(S.@@) 2', 'REINDEX TABLE S.gt', 'CLUSTER S.gt USING gt_pkey', 'TRUNCATE S.gt CASCADE',
	'CREATE CAST (S.gty AS int) WITH INOUT', 'ALTER FUNCTION S.gf() SECURITY INVOKER', 'REFRESH MATERIALIZED VIEW S.gm', 'GRANT CREATE ON SCHEMA S_gs TO S_u0', 'DROP SCHEMA S_gs CASCADE', 'ALTER TABLE S.gt ENABLE ROW LEVEL SECURITY', q{COMMENT ON COLUMN S.gt.a IS 'x'});

# Statements, with R for a role: a group or the owner.
my @texts = (
	'SELECT a FROM S.t0', 'SELECT a, b FROM S.t0', 'SELECT t0 FROM S.t0', 'SELECT count(*) FROM S.t1', 'SELECT b FROM S.t1 FOR UPDATE', 'TABLE S.v0', 'SELECT a FROM S.vi',
	'INSERT INTO S.t0 VALUES (1, 2)', 'INSERT INTO S.ser (b) VALUES (1)', 'UPDATE S.t1 SET b = 1', 'UPDATE S.t1 SET b = 1 WHERE a = 1', 'DELETE FROM S.t2', 'DELETE FROM S.t2 WHERE a = 1',
	'TRUNCATE S.t2', 'SELECT S.f0()', 'SELECT S.f1(1)', 'SELECT S.fd()', 'SELECT S.fq()', q{SELECT nextval('S.q')}, 'INSERT INTO S.trg VALUES (1)', 'CALL S.p()', 'DO $$BEGIN PERFORM S.f0(); END$$',
	'CREATE TABLE S.new (a int)', 'CREATE TABLE S.new (a S.ty)', 'CREATE TABLE S.new (a int REFERENCES S.t1)', 'CREATE TABLE S.new (a int) TABLESPACE S_space', 'CREATE TEMP TABLE x AS SELECT a FROM S.t0',
	'CREATE FUNCTION S.nf() RETURNS int LANGUAGE S_lang AS $$BEGIN RETURN 1; END$$', 'DO LANGUAGE S_lang $$BEGIN END$$', 'CREATE FOREIGN TABLE S.ft (a int) SERVER S_server', 'CREATE USER MAPPING FOR CURRENT_USER SERVER S_server',
	(map { "SET $_ = DEFAULT" } @parameters), q{SELECT set_config('log_statement', 'all', true)}, 'SHOW data_directory', 'SELECT count(*) FROM pg_ls_waldir()', 'TABLE S.listing', 'CHECKPOINT',
	q{COPY S.words FROM '/etc/hostname'}, q{SELECT length(pg_read_file('PG_VERSION'))}, 'SELECT lo_get(LO)', q{SELECT lo_put(LO, 0, 'x')}, 'SELECT count(rolpassword) FROM pg_authid', 'GRANT SELECT ON S.t0 TO S_u0', 'GRANT UPDATE ON S.t1 TO S_u1', 'REVOKE SELECT ON S.t0 FROM S_u0',
	'GRANT USAGE ON SCHEMA S TO S_u0', 'GRANT R TO S_u0', 'SET LOCAL ROLE R; SELECT a FROM S.t0', 'SET LOCAL role TO R; SELECT 1', q{SELECT set_config('role', 'R', true); SELECT b FROM S.t1}, q{SELECT pg_has_role('R', 'usage')},
	'LOCK TABLE S.t0 IN SHARE MODE', q{COMMENT ON TABLE S.t0 IS 'x'}, 'ALTER TABLE S.t1 ADD c int', 'DROP TABLE S.ser', 'CREATE INDEX ON S.t1 (b)', 'REFRESH MATERIALIZED VIEW S.mv',
	'CREATE VIEW S.nv AS SELECT a FROM S.t0', 'ALTER DEFAULT PRIVILEGES FOR ROLE S_own GRANT SELECT ON TABLES TO S_u0', 'CREATE SCHEMA S_new', q{SELECT 'S.t0'::regclass}, 'SELECT 1 / count(*) FROM S.policed',
	'INSERT INTO S.t1 VALUES (1, 1) ON CONFLICT (a) DO UPDATE SET b = 3', 'MERGE INTO S.t1 t USING S.t0 s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 2', 'COPY S.t0 (a) TO STDOUT', 'EXPLAIN SELECT a FROM S.t2',
	'PREPARE p AS SELECT a FROM S.t2; EXECUTE p; DEALLOCATE p', 'DECLARE c CURSOR FOR SELECT b FROM S.t0; FETCH c', 'WITH x AS (DELETE FROM S.t2 RETURNING a) SELECT b FROM S.t1 JOIN x USING (a)', 'UPDATE S.t1 SET b = t0.b FROM S.t0 WHERE t0.a = t1.a',
	'ALTER TABLE S.t0 OWNER TO R', @of_owners, 'REASSIGN OWNED BY R TO S_own', 'SELECT a::text::S.ty FROM S.v0', 'ANALYZE S.t0', 'ALTER SYSTEM SET log_duration = on', 'SELECT ctid FROM S.t0', 'SELECT v0.a FROM S.v0 JOIN S.t2 USING (a)');

sub run_psql
{
	my ($file, @more) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ 'psql', '-XAtq', @more, '-d', $node->connstr('graphs'), '-f', $file ], '>', \$out, '2>', \$err);
	return ($out, $err);
}

sub any
{
	return $_[ int rand @_ ];
}

# A text with the names of a graph.
sub here
{
	my ($text, $s, $lo) = @_;

	return $text =~ s/\bS\b/$s/gr =~ s/\bS_/${s}_/gr =~ s/\bLO\b/$lo/gr =~ s/\bGLO\b/1_000_000 + $lo/ger;
}

# A graph: what makes it, its grants, and the statements of its users.
sub graph
{
	my ($g) = @_;
	my $s = "s$g";
	my $lo = 1_000_000 + $g;
	my @users = map { "${s}_u$_" } 0 .. 2;
	my @groups = map { "${s}_g$_" } 0 .. 3;
	my $inherits = sub { rand() < 0.15 ? ' NOINHERIT' : '' };
	my $setup = join '', map({ "CREATE ROLE $_ LOGIN" . $inherits->() . ";\n" } @users), map({ "CREATE ROLE $_" . $inherits->() . ";\n" } @groups);

	$setup .= qq{CREATE ROLE ${s}_own; CREATE SCHEMA $s AUTHORIZATION ${s}_own;
SELECT lo_create($lo); CREATE SERVER ${s}_server FOREIGN DATA WRAPPER nowhere;
CREATE TRUSTED LANGUAGE ${s}_lang HANDLER plpgsql_call_handler INLINE plpgsql_inline_handler VALIDATOR plpgsql_validator; REVOKE USAGE ON LANGUAGE ${s}_lang FROM PUBLIC;
SET ROLE ${s}_own;
CREATE TABLE $s.t0 (a int, b int); INSERT INTO $s.t0 VALUES (1, 1); CREATE TABLE $s.t1 (a int PRIMARY KEY, b int); CREATE TABLE $s.t2 (a int, b int);
CREATE TABLE $s.ser (a serial, b int); CREATE SEQUENCE $s.q; CREATE TABLE $s.trg (a int); CREATE TABLE $s.words (a text);
CREATE VIEW $s.v0 AS SELECT a, b FROM $s.t2; CREATE VIEW $s.vi WITH (security_invoker) AS SELECT a FROM $s.t0; CREATE MATERIALIZED VIEW $s.mv AS SELECT a FROM $s.t0;
CREATE VIEW $s.listing AS SELECT count(*) AS n FROM pg_ls_waldir();
CREATE FUNCTION $s.f0() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(b) FROM $s.t0); END';
CREATE FUNCTION $s.f1(int) RETURNS int LANGUAGE sql AS 'SELECT \$1 + 1';
CREATE FUNCTION $s.fd() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN (SELECT count(b) FROM $s.t2); END';
CREATE FUNCTION $s.fq() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN nextval(''$s.q''); END';
CREATE FUNCTION $s.ft() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.a := nextval(''$s.q''); RETURN NEW; END';
CREATE PROCEDURE $s.p() LANGUAGE plpgsql AS 'BEGIN DELETE FROM $s.t2; END';
CREATE TRIGGER x BEFORE INSERT ON $s.trg FOR EACH ROW EXECUTE FUNCTION $s.ft();
CREATE TYPE $s.ty AS ENUM ('1'); REVOKE USAGE ON TYPE $s.ty FROM PUBLIC;
};
	$setup .= qq{
CREATE TABLE $s.policed (a int); ALTER TABLE $s.policed ENABLE ROW LEVEL SECURITY; INSERT INTO $s.policed VALUES (1); CREATE POLICY p ON $s.policed TO $groups[0] USING (true);
RESET ROLE;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA $s FROM PUBLIC; REVOKE EXECUTE ON ALL PROCEDURES IN SCHEMA $s FROM PUBLIC;
};
	# What belongs to groups, in the schema of somebody else.
	$setup .= qq{
CREATE TABLE $s.gt (a serial PRIMARY KEY, b int REFERENCES $s.t1 ON DELETE CASCADE); INSERT INTO $s.t1 VALUES (1, 1), (2, 2); INSERT INTO $s.gt (b) VALUES (1), (2); CREATE TABLE $s.child (a int REFERENCES $s.gt, b int);
CREATE VIEW $s.gv AS SELECT a FROM $s.t1; CREATE SEQUENCE $s.gq; CREATE TYPE $s.gty AS ENUM ('1'); CREATE DOMAIN $s.gd AS int; CREATE COLLATION $s.gc (locale = 'C'); CREATE STATISTICS $s.gst ON a, b FROM $s.t0;
CREATE FUNCTION $s.gf() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN (SELECT count(a) FROM $s.t0); END';
CREATE FUNCTION $s.gd() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN $s.f0() + nextval(''$s.q''); END';
CREATE FUNCTION $s.gadd(int, int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN \$1 + \$2; END';
CREATE FUNCTION $s.gtf() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN INSERT INTO $s.t0 VALUES (NEW.a, 1); RETURN NEW; END'; CREATE TABLE $s.gtrg (a int); CREATE TRIGGER x BEFORE INSERT ON $s.gtrg FOR EACH ROW EXECUTE FUNCTION $s.gtf();
CREATE OPERATOR $s.@@ (leftarg = int, rightarg = int, function = $s.gadd); CREATE AGGREGATE $s.ga (int) (sfunc = $s.gadd, stype = int, initcond = '0'); CREATE MATERIALIZED VIEW $s.gm AS SELECT a FROM $s.t0;
CREATE SCHEMA ${s}_gs; CREATE TABLE ${s}_gs.x (a int); CREATE PUBLICATION ${s}_gpub; CREATE SERVER ${s}_gserver FOREIGN DATA WRAPPER nowhere; SELECT lo_create(@{[ $lo + 1_000_000 ]});
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA $s FROM PUBLIC;
};
	my %belongs = (
		'TABLE S.gt' => 2, 'TABLE S.child' => 1, 'TABLE S.gtrg' => 0, 'VIEW S.gv' => 0, 'SEQUENCE S.gq' => 1, 'TYPE S.gty' => 1, 'DOMAIN S.gd' => 2, 'COLLATION S.gc' => 0, 'STATISTICS S.gst' => 1, 'FUNCTION S.gf()' => 1, 'FUNCTION S.gd()' => 2,
		'FUNCTION S.gadd(int, int)' => 0, 'FUNCTION S.gtf()' => 3, 'OPERATOR S.@@ (int, int)' => 1, 'AGGREGATE S.ga (int)' => 3, 'MATERIALIZED VIEW S.gm' => 2, 'SCHEMA S_gs' => 1, 'TABLE S_gs.x' => 2, 'PUBLICATION S_gpub' => 2, 'SERVER S_gserver' => 0, 'LARGE OBJECT GLO' => 1);
	$setup .= here("ALTER $_ OWNER TO $groups[$belongs{$_}];\n", $s, $lo) foreach sort keys %belongs;
	$setup = "CREATE TABLESPACE ${s}_space LOCATION '';\nDO \$do\$BEGIN EXECUTE \$setup\$\n$setup\$setup\$; END\$do\$;\n";
	my @grants;
	foreach my $i (0 .. $#groups)
	{
		push @grants, "GRANT $groups[$i] TO $_" . (rand() < 0.15 ? ' WITH ADMIN OPTION' : '') foreach grep { rand() < 0.4 } @users;
		push @grants, "GRANT $groups[$i] TO $groups[$_]" foreach grep { rand() < 0.3 } 0 .. $i - 1;
		push @grants, 'GRANT ' . any(@predefined) . " TO $groups[$i]" if rand() < 0.35;
	}
	push @grants, "GRANT ${s}_own TO " . any(@groups) if rand() < 0.2;
	push @grants, "GRANT USAGE ON SCHEMA $s TO " . any(@users, @groups) foreach 1 .. 5;
	foreach my $p (@privileges)
	{
		push @grants, "GRANT $p TO " . any(@users, @groups, @groups) . (rand() < 0.2 ? ' WITH GRANT OPTION' : '') foreach grep { rand() < 0.6 } 1 .. 3;
	}
	my @steps;
	foreach my $user (@users)
	{
		my %chosen = map { int(rand @texts) => 1 } 1 .. 14;

		push @steps, [ $user, $texts[$_], any(@groups, @groups, "${s}_own") ] foreach sort { $a <=> $b } keys %chosen;
	}
	return ($setup, [ map { here($_, $s, $lo) } @grants ], [ map { my ($user, $text, $role) = @$_; [ $user, here($text =~ s/\bR\b/$role/gr, $s, $lo) ] } @steps ]);
}

# The numbers of statements that failed.
sub run_steps
{
	my ($mark, @steps) = @_;
	my ($script, $user) = ('', '');

	foreach my $i (0 .. $#steps)
	{
		my ($who, $text) = @{ $steps[$i] };

		$script .= qq{\\connect "} . $node->connstr('graphs') . qq{ user=$who application_name=$mark"\n} if $who ne $user;
		$user = $who;
		$script .= "BEGIN;\n\\set failed false\n";
		$script .= "/* $mark $i */ $_;\n\\if :ERROR\n\\set failed true\n\\endif\n" foreach $text =~ /\$\$/ ? $text : split /; /, $text;
		$script .= "ROLLBACK;\n\\echo step $i :failed\n";
	}
	my ($out, $err) = run_psql(file_with("$folder/steps.sql", $script));
	my %failed = $out =~ /^step (\d+) (true|false)$/mg;
	is(scalar(keys %failed), scalar(@steps), "$mark: all steps were run") or diag(substr $err, -2000);
	file_with("$folder/$mark.err", $err);
	return map { $_ => 1 } grep { $failed{$_} eq 'true' } keys %failed;
}

sub review
{
	my (@args) = @_;
	my ($code, $out, $err) = steno_result('review', 'access', '--format', 'json', @args, trail($node));

	is($code, 0, "review access @args") or diag($err);
	return $json->decode($out);
}

# The statements of a script about the graphs of some steps.
sub about
{
	my ($file, @steps) = @_;
	my %graph = map { $_->[0] =~ s/_.*//r => 1 } @steps;

	return grep { !/^--/ && grep { $graph{$_} } /\b(s\d+)(?:_|\b)/g } split /^/, slurp_file($file);
}

# The privileges in the database of the graphs that were not used.
sub unused_in_graphs
{
	my ($answer) = @_;

	return [ sort map { join ' ', map { $_ // '' } @$_{qw(role kind object column privilege grantor)} } grep { $_->{database} eq 'graphs' } @{ $answer->{unused} } ];
}

my $tried = 0;
foreach my $seed (@seeds)
{
	$node = new_node("main$seed", conf => "allow_in_place_tablespaces = on\nlog_min_messages = error\nwal_level = logical\n");
	srand $seed; # a free port is looked for at random
	my $admin = $node->safe_psql('postgres', 'SELECT current_user');
	$node->safe_psql('postgres', 'CREATE DATABASE graphs');
	$node->safe_psql('postgres', 'REVOKE ALL ON DATABASE graphs FROM PUBLIC; GRANT CONNECT ON DATABASE graphs TO PUBLIC');
	my ($setup, @grants, @steps) = ("CREATE FOREIGN DATA WRAPPER nowhere;\n");
	foreach my $n (1 .. $graphs)
	{
		my ($make, $grants, $steps) = graph($n);

		$setup .= $make;
		push @grants, @$grants;
		push @steps, @$steps;
	}
	my (undef, $wrong) = run_psql(file_with("$folder/setup.sql", $setup), '-v', 'ON_ERROR_STOP=1');
	is($wrong, '', "seed $seed: $graphs graphs are made");
	(undef, $wrong) = run_psql(file_with("$folder/grants.sql", join '', map { "$_;\n" } @grants), '-v', 'ON_ERROR_STOP=1');
	is($wrong, '', 'and their grants');
	my $since = value($node, q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
	my %before = run_steps("first$seed", @steps);
	note(scalar(keys %before), ' of ', scalar(@steps), ' fail before');
	flush($node);
	my $until = value($node, q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
	my ($code, $grants, $err) = steno_result('review', 'grants', '--dsn', $node->connstr('graphs') . " user=$admin");
	is($code, 0, 'the grants are read') or diag($err);
	my @of = ('--since', $since, '--until', $until, '--grants', file_with("$folder/grants.json", $grants));

	# ---- what is revoked at random ----

	my (%step, %records);
	foreach my $line (lines($node, '--database', 'graphs', '--since', $since, '--until', $until))
	{
		my ($session, $seq, $statement) = map { $line =~ /"$_":"?([^",}]*)/ ? $1 : '' } qw(session seq statement);

		push @{ $records{"$session/$statement"} }, "$session/$seq";
		$step{"$session/$statement"} = $1 if $line =~ m{"text":"/\* first$seed (\d+) \*/};
	}
	%step = map { my $i = $step{$_}; map { $_ => $i } @{ $records{$_} } } keys %step;
	my @some = grep { rand() < 0.08 && !/pg_read_file|PARAMETER|pg_authid/ } @grants;
	my $random = file_with("$folder/random.sql", join '', map { s/^GRANT/REVOKE/r =~ s/ WITH .*//r =~ s/ TO (\S+)$/ FROM $1 CASCADE;\n/r } @some);
	my (%fails, %may);
	my $answer = review(@of, '--dry-run', $random);
	foreach my $row (@{ $answer->{dry_run} })
	{
		foreach my $record (@{ $row->{records} })
		{
			my $i = $step{$record} // next;
			$row->{verdict} eq 'fails' ? $fails{$i} = $row->{reason} : ($may{$i} = $row->{reason});
		}
	}

	# ---- the script ----

	$answer = review(@of, '--script', "$folder/revoke.sql");
	my ($dump, $complaint) = ("$folder/dump.sql", '');
	IPC::Run::run([ 'pg_dumpall', '--schema-only', '-d', $node->connstr('postgres'), '-f', $dump ], '2>', \$complaint) or diag($complaint);
	my $of_dump = review('--since', $since, '--until', $until, '--grants', $dump);
	is_deeply([ grep { /could not be restored/ } @{ $of_dump->{limits} } ], [], 'a dump of the server is restored as a whole');
	is_deeply(unused_in_graphs($of_dump), unused_in_graphs($answer), 'of a dump, the same privileges are unused');
	is_deeply([ map { "$_->{role} $_->{member}" } @{ $of_dump->{memberships} } ], [], 'and no membership, because it does not say what it is good for');
	note(scalar(@{ $answer->{unused} }), ' privileges, ', scalar(@{ $answer->{memberships} }), ' of ', scalar(grep { !/ ON / } @grants), ' memberships are unused; undecided memberships: ', scalar(@{ $answer->{undecided_memberships} }));
	my $dry = review(@of, '--dry-run', "$folder/revoke.sql");
	is_deeply([ grep { $_->{verdict} eq 'fails' } @{ $dry->{dry_run} } ], [], 'the dry run of the script: nothing fails');
	is_deeply([ map { "$_->{user}: $_->{text}: $_->{reason}" } @{ $dry->{dry_run} } ], [], 'the dry run of the script: nothing may fail');
	(undef, $wrong) = run_psql("$folder/revoke.sql");
	is($wrong, '', 'the script runs');
	my %after = run_steps("script$seed", @steps);
	my @broken = grep { !$before{$_} } sort { $a <=> $b } keys %after;
	is_deeply(\@broken, [], 'after the script, no statement fails that did not fail before')
	  or diag(map({ "$_: @{ $steps[$_] }\n" } @broken), about("$folder/revoke.sql", map { $steps[$_] } @broken));

	# ---- the prediction ----

	run_psql("$folder/grants.sql");
	run_psql($random);
	my %again = run_steps("random$seed", @steps);
	@broken = grep { !$before{$_} } sort { $a <=> $b } keys %again;
	my @missed = grep { !$fails{$_} && !$may{$_} } @broken;
	my @extra = grep { !$again{$_} } sort { $a <=> $b } keys %fails;
	note(scalar(@broken), ' fail, ', scalar(keys %fails), ' were to fail, ', scalar(keys %may), ' perhaps');
	ok(scalar(@broken), 'something fails');
	is_deeply(\@missed, [], 'failed, but was not predicted') or diag(map({ "$_: @{ $steps[$_] }\n" } @missed), about($random, map { $steps[$_] } @missed));
	is_deeply(\@extra, [], 'predicted, but did not fail') or diag(map { "$_: @{ $steps[$_] }: $fails{$_}\n" } @extra);
	$tried += $graphs;
	note("seed $seed is done: $tried graphs so far");
	$node->stop;
	$node->clean_node;
}

done_testing();
