
# Statements whose subtransaction was rolled back, by ROLLBACK TO or by an exception handler, can be told from
# those that took effect.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.log = all\n");

$node->safe_psql('postgres', q{
CREATE TABLE t (a text);
CREATE FUNCTION traps(a text, b text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t VALUES (a);
	BEGIN
		INSERT INTO t VALUES (b);
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN
		INSERT INTO t VALUES (a || ' after');
	END;
END $$;
CREATE FUNCTION keeps(a text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		INSERT INTO t VALUES (a);
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
END $$;
CREATE FUNCTION idle(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	caught int := 0;
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			caught := caught / 0;
		EXCEPTION WHEN division_by_zero THEN
			caught := caught + 1;
		END;
	END LOOP;
	RETURN caught;
END $$;
CREATE FUNCTION reads() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM count(*) FROM t;
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	NULL;
END $$;
CREATE FUNCTION writes(a text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t VALUES (a);
	RETURN a;
END $$;
});

my $sessions = 0;

# Run these in a session; the markers that its statements have in their text, those that took effect and those
# that were rolled back, and the records of subtransactions.
sub run
{
	my @sql = @_;
	my $name = 'session ' . ++$sessions;
	my $c = Steno::Client->new($node, application_name => $name);
	my (%is, @ends);

	$c->query($_) foreach @sql;
	$c->quit;
	flush($node);
	foreach my $line (lines($node, '--application', $name))
	{
		my $r = decode_json($line);

		push @ends, $r if $r->{kind} eq 'subtransaction';
		next if $r->{kind} ne 'statement' || $r->{outcome} ne 'ok';
		next if ($r->{class} // '') ne 'write';
		my $values = join ' ', $r->{text}, map { $_ // '' } @{ $r->{params} // [] };
		push @{ $is{ $r->{rolled_back} ? 'lost' : 'kept' } }, $values =~ /\b(kept|lost)\b/g;
	}
	return (\%is, @ends);
}

# Each marker says what must come of its statement.
sub told_apart
{
	my ($what, $subtransactions, @sql) = @_;
	my ($is, @ends) = run(@sql);
	my @wrong = (grep({ $_ ne 'kept' } @{ $is->{kept} // [] }), grep { $_ ne 'lost' } @{ $is->{lost} // [] });

	is(scalar(@wrong), 0, "$what: each statement is what it must be") or diag explain $is;
	is(scalar(@ends), $subtransactions, "$what: records of subtransactions") or diag explain \@ends;
	return ($is, @ends);
}

my ($is, @ends) = told_apart('a savepoint', 1,
	'BEGIN', q{INSERT INTO t VALUES ('kept')}, 'SAVEPOINT s', q{INSERT INTO t VALUES ('lost')}, q{INSERT INTO t VALUES ('lost')},
	'ROLLBACK TO s', q{INSERT INTO t VALUES ('kept')}, 'COMMIT');
is(scalar @{ $is->{lost} }, 2, 'both statements after the savepoint');
is(scalar @{ $is->{kept} }, 2, 'and the others');
is($ends[0]{class}, 'transaction', 'its class');
is($ends[0]{outcome}, 'error', 'its outcome');
ok($ends[0]{xid}, 'the ID of its transaction');

told_apart('the same savepoint again', 2,
	'BEGIN', 'SAVEPOINT s', q{INSERT INTO t VALUES ('lost')}, 'ROLLBACK TO s', q{INSERT INTO t VALUES ('lost')}, 'ROLLBACK TO s',
	q{INSERT INTO t VALUES ('kept')}, 'RELEASE s', 'COMMIT');
($is, @ends) = told_apart('nested savepoints, the outer one is rolled back', 2,
	'BEGIN', 'SAVEPOINT a', q{INSERT INTO t VALUES ('lost')}, 'SAVEPOINT b', q{INSERT INTO t VALUES ('lost')}, 'ROLLBACK TO a', 'COMMIT');
is(scalar @{ $is->{lost} }, 2, 'statements of both');
told_apart('nested savepoints, the inner one is released', 1,
	'BEGIN', 'SAVEPOINT a', q{INSERT INTO t VALUES ('lost')}, 'SAVEPOINT b', q{INSERT INTO t VALUES ('lost')}, 'RELEASE b',
	q{INSERT INTO t VALUES ('lost')}, 'ROLLBACK TO a', q{INSERT INTO t VALUES ('kept')}, 'COMMIT');
told_apart('nested savepoints, the inner one is rolled back', 1,
	'BEGIN', 'SAVEPOINT a', q{INSERT INTO t VALUES ('kept')}, 'SAVEPOINT b', q{INSERT INTO t VALUES ('lost')}, 'ROLLBACK TO b',
	'RELEASE a', q{INSERT INTO t VALUES ('kept')}, 'COMMIT');
told_apart('a savepoint that is released', 0,
	'BEGIN', 'SAVEPOINT s', q{INSERT INTO t VALUES ('kept')}, 'RELEASE s', 'COMMIT');
told_apart('a statement that fails', 1,
	'BEGIN', 'SAVEPOINT s', q{INSERT INTO t VALUES ('lost')}, 'SELECT 1 / 0', 'ROLLBACK TO s', q{INSERT INTO t VALUES ('kept')}, 'COMMIT');
told_apart('a transaction that is rolled back', 0,
	'BEGIN', q{INSERT INTO t VALUES ('lost')}, 'SAVEPOINT s', q{INSERT INTO t VALUES ('lost')}, 'ROLLBACK');
told_apart('a prepared statement', 1,
	'PREPARE i AS INSERT INTO t VALUES ($1)', q{EXECUTE i ('kept')}, 'BEGIN', 'SAVEPOINT s', q{EXECUTE i ('lost')}, 'ROLLBACK TO s', 'COMMIT');
told_apart('an exception handler', 1, q{SELECT traps('kept', 'lost')});
told_apart('an exception handler, twice in a block', 2,
	'BEGIN', q{SELECT traps('kept', 'lost')}, q{SELECT traps('kept', 'lost')}, 'COMMIT');
told_apart('an exception handler without an exception', 0, q{SELECT keeps('kept')});
told_apart('an exception handler in a savepoint', 2,
	'BEGIN', 'SAVEPOINT s', q{SELECT traps('lost', 'lost')}, 'ROLLBACK TO s', q{SELECT keeps('kept')}, 'COMMIT');
told_apart('handlers in which nothing is recorded', 0, 'SELECT idle(1000)', 'BEGIN', q{INSERT INTO t VALUES ('kept')}, 'SELECT idle(10)', 'COMMIT');
told_apart('a handler that takes nothing back', 0, 'SELECT reads()');
told_apart('a cursor from before the savepoint', 1,
	'BEGIN', q{DECLARE c CURSOR FOR SELECT writes('lost') FROM generate_series(1, 2)}, q{INSERT INTO t VALUES ('kept')},
	'SAVEPOINT s', 'FETCH c', 'CLOSE c', q{INSERT INTO t VALUES ('lost')}, 'ROLLBACK TO s', 'COMMIT');
told_apart('many savepoints', 40,
	'BEGIN', map({ ("SAVEPOINT s$_", q{INSERT INTO t VALUES ('lost')}) } 1 .. 40), 'ROLLBACK TO s1', q{INSERT INTO t VALUES ('kept')}, 'COMMIT');

# What the table has is what was told.
is($node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE a LIKE '%lost%'}), 0, 'what is lost is lost');

$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
