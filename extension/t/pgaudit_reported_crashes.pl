
# Statements that are reported to have crashed servers with pgaudit, with everything recorded: they
# have the same results as without pg_steno, the server stays up, and each statement has its record.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node(
	'main', conf => q{
steno.log = 'all'
steno.role = 'auditor'
steno.log_start = 'all'
max_stack_depth = '200kB'
});
my $postmaster = $node->{_pid};
my $runs = 0;

value(
	$node, q{
CREATE ROLE auditor;
CREATE TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t SELECT i, 'x' FROM generate_series(1, 100) i;
GRANT SELECT, INSERT ON t TO auditor;
CREATE TABLE log (what text);
});

# Run statements in a session of their own: the answers' error codes, '' for none.
sub run
{
	my (@statements) = @_;
	my $name = 'run ' . ++$runs;
	my $c = Steno::Client->new($node, application_name => $name);
	my @codes = map { $c->query($_)->{sqlstate} // '' } @statements;

	$c->quit;
	return ($name, \@codes);
}

# Statement records of a run, as "depth outcome text", in the order of their end.
sub seen
{
	my ($name) = @_;

	return map { ($_->{depth} // 0) . ' ' . ($_->{sqlstate} // 'ok') . ' ' . ($_->{text} =~ s/\s+/ /gr) }
	  sort { $a->{seq} <=> $b->{seq} } statements($node, application => $name);
}

# check($what, [statement => error code, ...], [all records]): the codes are as
# expected, and so are the statements' records.
sub check
{
	my ($what, $pairs, $expected) = @_;
	my (@statements, @codes);

	while (my ($sql, $code) = splice @$pairs, 0, 2)
	{
		push @statements, $sql;
		push @codes, $code;
	}
	my ($name, $got) = run(@statements);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is_deeply($got, \@codes, "$what: as without pg_steno");
	my @seen = seen($name);
	is_deeply(
		[ grep { /^0/ } @seen ],
		[
			map { '0 ' . ($codes[$_] || 'ok') . " $statements[$_]" } 0 .. $#statements
		],
		"$what: each statement has its record");
	is_deeply(\@seen, $expected, "$what: and what it ran") if $expected;
	return;
}

# ---- errors inside of functions

value(
	$node, q{
CREATE FUNCTION fails(deep int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN IF deep = 0 THEN RETURN 1/0; END IF; RETURN fails(deep - 1); END $$;
CREATE FUNCTION catches(deep int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN RETURN fails(deep); EXCEPTION WHEN division_by_zero THEN
   BEGIN PERFORM fails(deep); EXCEPTION WHEN OTHERS THEN RETURN -1; END; END $$;
CREATE FUNCTION catches_in_loop(n int) RETURNS int LANGUAGE plpgsql AS
$$ DECLARE caught int := 0; BEGIN
   FOR i IN 1 .. n LOOP
     BEGIN INSERT INTO t VALUES (i, 'again'); EXCEPTION WHEN unique_violation THEN caught := caught + 1; END;
   END LOOP; RETURN caught; END $$;
CREATE FUNCTION recurses(i int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN EXECUTE format('SELECT recurses(%s)', i + 1); RETURN i; END $$;
});
{
	my ($name, $codes) = run('SELECT fails(3)', 'SELECT catches(2)', 'SELECT 1/0', 'SELECT 1');

	is_deeply($codes, [ '22012', '', '22012', '' ], 'nested errors: as without pg_steno');
	is_deeply(
		[ grep { /^0/ } seen($name) ],
		[ '0 22012 SELECT fails(3)', '0 ok SELECT catches(2)', '0 22012 SELECT 1/0', '0 ok SELECT 1' ],
		'nested errors: each statement has its record');
}
{
	my ($name, $codes) = run('SELECT catches_in_loop(50)', 'SELECT 2');

	is_deeply($codes, [ '', '' ], 'EXCEPTION blocks in a loop: as without pg_steno');
	my @seen = seen($name);
	is(scalar(grep { /^1 23505 INSERT INTO t/ } @seen), 50, 'EXCEPTION blocks in a loop: each failure has a record');
	is(scalar(grep { /^0 ok/ } @seen), 2, 'EXCEPTION blocks in a loop: the statements have ended well');
}
{
	my ($name, $codes) = run('SELECT recurses(0)', 'SELECT 3', 'SELECT recurses(0)', 'SELECT 4');
	my @seen = seen($name);

	is_deeply($codes, [ '54001', '', '54001', '' ], 'stack depth exceeded: as without pg_steno');
	is_deeply(
		[ grep { /^0/ } @seen ],
		[ '0 54001 SELECT recurses(0)', '0 ok SELECT 3', '0 54001 SELECT recurses(0)', '0 ok SELECT 4' ],
		'stack depth exceeded: the statements');
	cmp_ok(scalar(grep { /^[1-9]\d* 54001 SELECT recurses/ } @seen), '>', 10, 'stack depth exceeded: what they ran');
}

# ---- COPY, FETCH and other utility statements inside of functions

value(
	$node, q{
CREATE FUNCTION copies() RETURNS void LANGUAGE plpgsql AS
$$ BEGIN EXECUTE 'COPY t TO PROGRAM ''cat >/dev/null'''; EXECUTE 'COPY log FROM PROGRAM ''echo copied'''; END $$;
CREATE FUNCTION copies_wrong() RETURNS void LANGUAGE plpgsql AS
$$ BEGIN BEGIN EXECUTE 'COPY t FROM PROGRAM ''echo no number'''; EXCEPTION WHEN OTHERS THEN NULL; END;
   EXECUTE 'COPY t FROM PROGRAM ''false'''; END $$;
CREATE FUNCTION fetches() RETURNS int LANGUAGE plpgsql AS
$$ DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a; r int; total int := 0; BEGIN
   OPEN c; LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; total := total + r; END LOOP; CLOSE c; RETURN total; END $$;
CREATE FUNCTION returns_cursor() RETURNS refcursor LANGUAGE plpgsql AS
$$ DECLARE c refcursor := 'the_cursor'; BEGIN OPEN c FOR SELECT a FROM t ORDER BY a; RETURN c; END $$;
CREATE FUNCTION cursor_fails() RETURNS int LANGUAGE plpgsql AS
$$ DECLARE c CURSOR FOR SELECT 1/(a - 3) AS q FROM t ORDER BY a; r int; BEGIN
   OPEN c; LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; END LOOP; RETURN 0; END $$;
});
check(
	'COPY in a function',
	[ 'SELECT copies()' => '', 'SELECT copies_wrong()' => '38000', 'SELECT count(*) FROM log' => '' ],
	[
		q{1 ok COPY t TO PROGRAM 'cat >/dev/null'},
		q{1 ok COPY log FROM PROGRAM 'echo copied'},
		'0 ok SELECT copies()',
		q{1 22P02 COPY t FROM PROGRAM 'echo no number'},
		q{1 38000 COPY t FROM PROGRAM 'false'},
		'0 38000 SELECT copies_wrong()',
		'0 ok SELECT count(*) FROM log'
	]);
check(
	'FETCH in a function',
	[
		'SELECT fetches()' => '',
		'BEGIN' => '',
		'SELECT returns_cursor()' => '',
		'FETCH 2 FROM the_cursor' => '',
		'FETCH ALL FROM the_cursor' => '',
		'COMMIT' => '',
		'SELECT cursor_fails()' => '22012',
		'SELECT 5' => ''
	],
	[
		'1 ok SELECT a FROM t ORDER BY a',
		'0 ok SELECT fetches()',
		'0 ok BEGIN',
		'0 ok SELECT returns_cursor()',
		'0 ok FETCH 2 FROM the_cursor',
		'0 ok FETCH ALL FROM the_cursor',
		'1 ok SELECT a FROM t ORDER BY a',
		'0 ok COMMIT',
		'1 22012 SELECT 1/(a - 3) AS q FROM t ORDER BY a',
		'0 22012 SELECT cursor_fails()',
		'0 ok SELECT 5'
	]);

# ---- procedures that end transactions, between utility statements

value(
	$node, q{
CREATE PROCEDURE commits() LANGUAGE plpgsql AS
$$ BEGIN
   CREATE TABLE made (a int); COMMIT;
   EXECUTE 'ANALYZE made'; INSERT INTO made VALUES (1); ROLLBACK;
   DROP TABLE made; COMMIT;
   PERFORM fails(0);
END $$;
CREATE PROCEDURE commits_in_loop() LANGUAGE plpgsql AS
$$ DECLARE r record; BEGIN FOR r IN SELECT a FROM t ORDER BY a LIMIT 5 LOOP
   INSERT INTO log VALUES ('loop ' || r.a); COMMIT; END LOOP; END $$;
CREATE PROCEDURE outer_procedure() LANGUAGE plpgsql AS
$$ BEGIN CALL commits_in_loop(); ROLLBACK; CALL commits_in_loop(); COMMIT; END $$;
CREATE PROCEDURE catches_and_commits() LANGUAGE plpgsql AS
$$ BEGIN FOR i IN 1 .. 3 LOOP
   BEGIN INSERT INTO t VALUES (1, 'again'); EXCEPTION WHEN unique_violation THEN NULL; END;
   COMMIT; END LOOP; END $$;
});
check(
	'utility statements in a procedure with COMMIT',
	[ 'CALL commits()' => '22012', 'SELECT 6' => '' ],
	[
		'1 ok CREATE TABLE made (a int)',
		'1 ok ANALYZE made',
		'1 ok INSERT INTO made VALUES (1)',
		'1 ok DROP TABLE made',
		'2 22012 1/0',
		'1 22012 SELECT fails(0)',
		'0 22012 CALL commits()',
		'0 ok SELECT 6'
	]);
{
	my ($name, $codes) = run('CALL outer_procedure()', 'CALL catches_and_commits()', 'BEGIN', 'CALL commits_in_loop()', 'ROLLBACK');
	my @seen = seen($name);

	is_deeply($codes, [ '', '', '', '2D000', '' ], 'COMMIT in loops: as without pg_steno');
	is(scalar(grep { /^2 ok INSERT INTO log/ } @seen), 10, 'COMMIT in loops: what they ran');
	is(scalar(grep { /^1 23505 INSERT INTO t/ } @seen), 3, 'COMMIT in loops: what failed');
	is_deeply(
		[ grep { /^0/ } @seen ],
		[
			'0 ok CALL outer_procedure()',
			'0 ok CALL catches_and_commits()',
			'0 ok BEGIN',
			'0 2D000 CALL commits_in_loop()',
			'0 ok ROLLBACK'
		],
		'COMMIT in loops: the statements');
}

# ---- portals closed by errors, cursors held over them

check(
	'portals closed by an error',
	[
		'BEGIN' => '',
		'DECLARE c CURSOR FOR SELECT 1/(a - 2) FROM t ORDER BY a' => '',
		'FETCH c' => '',
		'FETCH c' => '22012',
		'FETCH c' => '25P02',
		'ROLLBACK' => '',
		'BEGIN' => '',
		'DECLARE c CURSOR FOR SELECT a FROM t' => '',
		'SAVEPOINT s' => '',
		'DECLARE d CURSOR FOR SELECT b FROM t' => '',
		'FETCH d' => '',
		'SELECT 1/0' => '22012',
		'ROLLBACK TO s' => '',
		'FETCH c' => '',
		'FETCH d' => '34000',
		'ROLLBACK' => '',
		'SELECT 7' => ''
	]);
check(
	'cursors WITH HOLD over errors',
	[
		'BEGIN' => '',
		'DECLARE held CURSOR WITH HOLD FOR SELECT a FROM t ORDER BY a' => '',
		'FETCH held' => '',
		'COMMIT' => '',
		'SELECT 1/0' => '22012',
		'FETCH held' => '',
		'BEGIN' => '',
		'FETCH held' => '',
		'SELECT 1/0' => '22012',
		'ROLLBACK' => '',
		'FETCH ALL FROM held' => '',
		'CLOSE held' => '',
		'BEGIN' => '',
		'DECLARE held CURSOR WITH HOLD FOR SELECT 1/(a - 100) FROM t' => '',
		'COMMIT' => '22012',
		'FETCH held' => '34000',
		'SELECT 8' => ''
	]);
{
	my $c = Steno::Client->new($node, application_name => 'portals');

	# a portal that is suspended when an error ends its transaction
	$c->query('BEGIN');
	$c->parse('s', 'SELECT a, b FROM t ORDER BY a')->bind_values('p', 's')->execute('p', 3)
	  ->parse('', 'SELECT 1/0')->bind_values('', '')->execute('')->execute('p', 3)->sync;
	is($c->finish->{sqlstate}, '22012', 'a suspended portal, and an error');
	is($c->query('ROLLBACK')->{sqlstate}, undef, 'the transaction ends');
	$c->bind_values('', 's')->execute('', 2)->execute('', 2)->sync;
	is(scalar @{ $c->finish->{rows} }, 4, 'its statement can be used again');
	$c->quit;
	is_deeply(
		[ seen('portals') ],
		[
			'0 ok BEGIN',
			'0 22012 SELECT 1/0',
			'0 ok SELECT a, b FROM t ORDER BY a',
			'0 ok ROLLBACK',
			'0 ok SELECT a, b FROM t ORDER BY a'
		],
		'portals: records');
}

# ---- event triggers, and functions that other hooks call

value(
	$node, q{
CREATE FUNCTION refuses() RETURNS event_trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO log VALUES (tg_tag); IF tg_tag = 'CREATE VIEW' THEN RAISE EXCEPTION 'no views'; END IF; END $$;
CREATE FUNCTION refuses_drops() RETURNS event_trigger LANGUAGE plpgsql AS
$$ DECLARE r record; BEGIN FOR r IN SELECT * FROM pg_event_trigger_dropped_objects() LOOP
   IF r.object_name = 'keep' THEN PERFORM 1/0; END IF; END LOOP; END $$;
CREATE TABLE keep (a int);
CREATE FUNCTION checked(i int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
$$ BEGIN PERFORM count(*) FROM public.t; IF i < 0 THEN RAISE EXCEPTION 'negative'; END IF; RETURN true; END $$;
CREATE TABLE constrained (i int CHECK (checked(i)));
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO log VALUES ('deferred'); IF NEW.i = 13 THEN RAISE EXCEPTION 'at commit'; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER noted AFTER INSERT ON constrained DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION noted();
CREATE EVENT TRIGGER refuses ON ddl_command_end EXECUTE FUNCTION refuses();
CREATE EVENT TRIGGER refuses_drops ON sql_drop EXECUTE FUNCTION refuses_drops();
});
check(
	'event triggers that fail',
	[
		'CREATE VIEW refused AS SELECT 1' => 'P0001',
		'DROP TABLE keep' => '22012',
		'DO $$ BEGIN CREATE VIEW refused AS SELECT 1; EXCEPTION WHEN OTHERS THEN CREATE TABLE instead (a int); END $$' => '',
		'DROP TABLE instead' => '',
		'SELECT 9' => ''
	]);
value($node, 'DROP EVENT TRIGGER refuses; DROP EVENT TRIGGER refuses_drops');
check(
	'functions that the planner, constraints and commits call',
	[
		'SELECT checked(-1)' => 'P0001',
		'INSERT INTO constrained VALUES (1)' => '',
		'INSERT INTO constrained VALUES (-1)' => 'P0001',
		'BEGIN' => '',
		'INSERT INTO constrained VALUES (13)' => '',
		'COMMIT' => 'P0001',
		'SELECT 10' => '',
		'CREATE INDEX ON constrained (checked(i))' => '',
		'EXPLAIN SELECT FROM constrained WHERE checked(5)' => '',
		'EXPLAIN SELECT FROM constrained WHERE checked(-5)' => 'P0001'
	]);

# ---- depth

value(
	$node, q{
CREATE FUNCTION deep(i int) RETURNS int LANGUAGE plpgsql AS
$$ DECLARE r int; BEGIN IF i = 0 THEN RETURN 0; END IF; EXECUTE format('SELECT deep(%s)', i - 1) INTO r; RETURN r + 1; END $$;
});
{
	my ($name, $codes) = run('SELECT deep(10)', 'SET max_stack_depth = \'1900kB\'', 'SELECT deep(100)');
	my @depths = map { /^(\d+) ok SELECT deep/ ? $1 : () } seen($name);

	is_deeply($codes, [ '', '', '' ], 'deep nesting: as without pg_steno');
	is_deeply([ sort { $a <=> $b } @depths ], [ sort { $a <=> $b } 0 .. 10, 0 .. 100 ], 'deep nesting: depths');
}

# The server has been up all the time, and its log has no complaints.
is($node->{_pid}, $postmaster, 'one postmaster');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal|TRAP|server process/, 'no process has died');
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
