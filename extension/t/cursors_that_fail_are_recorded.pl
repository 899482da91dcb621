
# If a portal ends without the executor's end, because a FETCH failed or a (sub)transaction was rolled
# back, its query has one record, with its text, its relations and the rows that were read.  It has failed
# if its own error ended it, and not if it was asked for what its cursor cannot do.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', conf => q{steno.log_nested = on});

$node->safe_psql(
	'postgres', q{
CREATE TABLE read_one (i int);
INSERT INTO read_one SELECT generate_series(1, 10);
CREATE SEQUENCE calls;
CREATE FUNCTION fails_later() RETURNS int LANGUAGE plpgsql AS
	$$BEGIN IF nextval('calls') > 1 THEN RAISE EXCEPTION 'second call'; END IF; RETURN 5; END$$;
});

my $session = 0;

# Statements of a session that runs SQL and goes on after errors: outcome, rows and text.
sub recorded
{
	my (@sql) = @_;
	my $name = 'session ' . ++$session;

	foreach my $sql (@sql)
	{
		die 'one statement each' if !defined $sql;
	}
	$node->psql('postgres', join(";\n", @sql) . ";\n", on_error_stop => 0,
		connstr => $node->connstr('postgres') . " application_name='$name'");
	# psql does not wait for the end of its session
	wait_until 'the session has ended',
	  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$name'") eq '0' };
	return statements($node, application => $name);
}

# The records of the cursor's query.
sub query_of
{
	my ($text, @records) = @_;

	return [ map { [ @$_{qw(outcome sqlstate rows)}, join(',', map { $_->{name} } @{ $_->{relations} // [] }) ] }
		  grep { ($_->{text} // '') =~ /\A\Q$text\E/ && ($_->{command} // '') eq 'SELECT' } @records ];
}

my $big = 'SELECT i, length($$' . ('text that is long ' x 20000) . '$$) FROM read_one';
my $declare = 'DECLARE c NO SCROLL CURSOR FOR ';
my $read = 'SELECT i FROM read_one';
my @texts = ([ 'short', $read ], [ 'longer than the ring takes at once', $big ]);

foreach (@texts)
{
	my ($name, $text) = @$_;
	my $start = substr($declare . $text, 0, 60);
	my @r;

	foreach my $end (qw(COMMIT ROLLBACK))
	{
		@r = recorded('BEGIN', $declare . $text, 'FETCH 3 FROM c', 'SAVEPOINT s',
			'FETCH BACKWARD 1 FROM c', 'ROLLBACK TO s', 'CLOSE c', 'SELECT 1', $end);
		is_deeply(query_of($start, @r), [ [ 'ok', undef, 3, 'public.read_one' ] ],
			"$name: a FETCH that the cursor cannot do, then CLOSE, $end");
		is(( grep { $_->{text} eq $declare . $text } @r ), 2, "$name: the whole text");
	}
	@r = recorded('BEGIN', $declare . $text, 'SAVEPOINT s', 'FETCH ALL FROM c',
		'FETCH BACKWARD 1 FROM c', 'ROLLBACK TO s', 'COMMIT');
	is_deeply(query_of($start, @r), [ [ 'ok', undef, 10, 'public.read_one' ] ],
		"$name: not closed before COMMIT");
	@r = recorded('BEGIN', 'SAVEPOINT s', $declare . $text, 'FETCH 4 FROM c', 'ROLLBACK TO s', 'COMMIT');
	is_deeply(query_of($start, @r), [ [ 'ok', undef, 4, 'public.read_one' ] ],
		"$name: made after the savepoint that is rolled back to");
	@r = recorded('BEGIN', $declare . $text, 'FETCH 4 FROM c', 'ROLLBACK');
	is_deeply(query_of($start, @r), [ [ 'ok', undef, 4, 'public.read_one' ] ], "$name: rolled back");
	@r = recorded('BEGIN', $declare . $text, 'FETCH 4 FROM c', 'SELECT 1 / 0', 'ROLLBACK');
	is_deeply(query_of($start, @r), [ [ 'ok', undef, 4, 'public.read_one' ] ], "$name: another statement fails");
	@r = recorded('BEGIN', $declare . $text, 'FETCH 4 FROM c');
	is_deeply(query_of($start, @r), [ [ 'ok', undef, 4, 'public.read_one' ] ], "$name: the client leaves");
	@r = recorded('BEGIN', $declare . $text, 'FETCH 4 FROM c', 'SELECT pg_terminate_backend(pg_backend_pid())');
	is_deeply(query_of($start, @r), [ [ 'ok', undef, 4, 'public.read_one' ] ], "$name: the session is terminated");
	@r = recorded('BEGIN', $declare . $text, 'FETCH 4 FROM c', 'COMMIT');
	is_deeply(query_of($start, @r), [ [ 'ok', undef, 4, 'public.read_one' ] ], "$name: committed");
}

my @r = recorded('BEGIN', "DECLARE c SCROLL CURSOR FOR $read LIMIT fails_later()", 'FETCH 2 FROM c', 'SAVEPOINT s',
	'FETCH FIRST FROM c', 'ROLLBACK TO s', 'CLOSE c', 'COMMIT');
is_deeply(query_of('DECLARE c SCROLL', @r), [ [ 'error', 'P0001', 2, 'public.read_one' ] ],
	'a LIMIT that fails when the cursor begins anew');

# cursors of functions
foreach my $where (qw(inside outside))
{
	foreach my $after ('CLOSE c;', '')
	{
		my $open = "OPEN c NO SCROLL FOR $read /* $where $after */; FETCH c INTO x; FETCH c INTO x;";
		my $body = $where eq 'inside' ? "BEGIN $open FETCH BACKWARD FROM c INTO x;" :
		  "$open BEGIN FETCH BACKWARD FROM c INTO x;";
		my $close = $where eq 'inside' ? '' : $after;

		@r = recorded("DO \$do\$DECLARE c refcursor; x int; BEGIN $body EXCEPTION WHEN OTHERS THEN x := 0; END; $close "
			  . 'PERFORM 1; END$do$');
		is_deeply(
			query_of($read, @r),
			[ [ 'ok', undef, 2, 'public.read_one' ] ],
			"a function's cursor, made $where of the block that catches the failure; $close");
	}
}
@r = recorded("DO \$do\$DECLARE r record; BEGIN FOR r IN $read ORDER BY i LOOP IF r.i = 3 THEN RAISE EXCEPTION 'stop'; END IF; END LOOP; "
	  . 'EXCEPTION WHEN OTHERS THEN PERFORM 1; END$do$');
is_deeply(query_of($read, @r), [ [ 'ok', undef, 3, 'public.read_one' ] ], 'a loop that fails in its body');
@r = recorded("DO \$do\$DECLARE r record; BEGIN FOR r IN $read ORDER BY i LOOP IF r.i = 3 THEN RAISE EXCEPTION 'stop'; END IF; END LOOP; "
	  . 'END$do$', 'SELECT 1');
is_deeply(query_of($read, @r), [ [ 'ok', undef, 3, 'public.read_one' ] ], 'one whose failure nobody catches');

# the first rows, then an error in the query itself
@r = recorded('BEGIN', "DECLARE c CURSOR FOR SELECT 1 / (4 - i) FROM read_one", 'FETCH 2 FROM c', 'FETCH 5 FROM c', 'ROLLBACK');
is_deeply(query_of('DECLARE c', @r), [ [ 'error', '22012', 2, 'public.read_one' ] ], 'a query that fails has the rows before');

gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();
