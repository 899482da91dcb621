
# The values bound to a utility statement are in its record, as the server's log has them, and so is its query
# identifier.  This holds for statements that fail, that end their transaction, and for those of functions.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my @libraries = has_module('pg_stat_statements') ? ('pg_stat_statements,pg_steno', 'pg_steno,pg_stat_statements') : ('pg_steno');
my %node;

sub server
{
	my ($libraries) = @_;
	my $node = new_node(
		$libraries =~ s/,/_/r, conf => qq{
shared_preload_libraries = '$libraries'
compute_query_id = on
log_min_duration_statement = 0
log_line_prefix = '@\@%a|%Q|'
steno.log_start = 'function'
});

	$node->safe_psql('postgres', q{
CREATE TABLE t (a int, b text, c jsonb);
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE PROCEDURE p(n int, s text) LANGUAGE plpgsql AS 'BEGIN NULL; END';
CREATE PROCEDURE out_p(INOUT n int, OUT s text) LANGUAGE plpgsql AS 'BEGIN n := n + 1; s := ''changed''; END';
CREATE PROCEDURE commits(n int, s text, m mood) LANGUAGE plpgsql AS 'BEGIN INSERT INTO t VALUES (n); COMMIT; INSERT INTO t VALUES (n); COMMIT; END';
CREATE PROCEDURE rolls(n int, s text) LANGUAGE plpgsql AS 'BEGIN INSERT INTO t VALUES (n); ROLLBACK; END';
CREATE PROCEDURE fails(n int, c jsonb, m mood) LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''%'', n; END';
CREATE PROCEDURE fails_late(n int, c jsonb) LANGUAGE plpgsql AS 'BEGIN COMMIT; PERFORM 1/0; END';
CREATE PROCEDURE outer_p(n int) LANGUAGE plpgsql AS $$
DECLARE
	unused int := 5;
	x text := 'var';
	y int;
BEGIN
	CALL p(n, x);
	y := n + 1;
	CALL out_p(y, x);
	EXECUTE 'CALL p($1, $2)' USING n, 'using';
	CREATE TEMP TABLE no_parameters (i int);
	DROP TABLE no_parameters;
	CREATE TEMP TABLE of_variable AS SELECT n AS v;
END $$;
});
	return $node;
}

# Text, values; undef is NULL.
my @bound = (
	[ 'CALL p($1, $2)', 42, 'secret-argument' ],
	[ 'CALL p($2, $1)', 'swapped', 43 ],
	[ 'CALL p($1, $2)', undef, '' ],
	[ 'CALL out_p($1, NULL)', 44 ],
	[ 'CALL commits($1, $2, $3)', 45, 'x' x 3000, 'happy' ],
	[ 'CALL rolls($1, $2)', 46, 'rolled back' ],
	[ 'CALL fails($1, $2, $3)', 47, '{"a": [1, 2]}', 'sad' ],
	[ 'CALL fails_late($1, $2)', 48, '{"b": 3}' ],
	[ 'CALL outer_p($1)', 49 ],
	[ 'EXPLAIN (COSTS off) SELECT * FROM t WHERE a = $1', 50 ],
	[ 'EXPLAIN ANALYZE INSERT INTO t VALUES ($1, $2, $3)', 51, 'text', '{"c": 4}' ],
	[ 'CREATE TABLE ctas AS SELECT $1::int AS x, $2::mood AS m', 52, 'sad' ],
	[ 'SELECT * INTO into_t FROM t WHERE a = $1', 53 ],
	[ 'CREATE TABLE ctas AS SELECT $1::int AS x', 54 ],
	[ 'DECLARE cu CURSOR WITH HOLD FOR SELECT * FROM t WHERE a = $1', 55 ],
	[ 'EXPLAIN ANALYZE SELECT ' . join(', ', map { "\$${_}::text" } 1 .. 700), map { $_ % 7 ? "value $_" : undef } 1 .. 700 ],
	[ 'CALL p($1, $2)', 59, 'z' x 300_000 ]);

# Without parameters: for their query identifiers.
my @plain = ('CALL p(1, NULL)', q{EXECUTE by_name(56, 'executed')}, q{EXPLAIN ANALYZE EXECUTE by_name(57, 'explained')}, 'CREATE TABLE plain (i int)', 'SET work_mem = 1000', 'EXPLAIN SELECT 1', 'LOCK TABLE t', 'COPY t TO PROGRAM $$cat >/dev/null$$');

# What the server's log has of each statement: identifier and parameters, by number of the statement.
sub log_of
{
	my ($node, $application) = @_;
	my @found;

	foreach my $entry (split /^@@/m, slurp_file($node->logfile))
	{
		my ($name, $id, $text) = $entry =~ /^([^|]*)\|(-?\d+)\|(.*)\z/s or next;

		next if $name ne $application;
		if ($text =~ /^LOG:  duration: \S+ ms  (?:statement|execute \S+): (.*)\n\z/s)
		{
			push @found, { id => $id, text => $1 };
		}
		elsif ($text =~ /^DETAIL:  [Pp]arameters: (.*)\n\z/s && @found && !exists $found[-1]{parameters})
		{
			$found[-1]{parameters} = $1;
		}
	}
	return @found;
}

# As the server's log writes them.
sub logged
{
	my (@values) = @_;
	my $n = 0;

	return join ', ', map { $n++; "\$$n = " . (defined $_ ? "'" . s/'/''/gr . "'" : 'NULL') } @values;
}

foreach my $libraries (@libraries)
{
	my $node = server($libraries);
	my $c = Steno::Client->new($node, application_name => 'bound');

	$c->query('PREPARE by_name (int, text) AS INSERT INTO t VALUES ($1, $2)');
	my @answers = map { $c->extended(@$_) } @bound;
	$c->query($_) foreach grep { !/^LOCK/ } @plain;
	$c->query('BEGIN; LOCK TABLE t; COMMIT');
	$c->quit;

	my @all = by_statement(statements($node, application => 'bound'));
	my @r = grep { !$_->{depth} && $_->{text} !~ /^PREPARE/ } @all;

	foreach my $i (0 .. $#bound)
	{
		my ($text, @values) = @{ $bound[$i] };
		my $what = $libraries . ': ' . substr($text, 0, 60);

		is($r[$i]{text}, $text, $what);
		is($r[$i]{outcome}, $answers[$i]{sqlstate} ? 'error' : 'ok', 'its outcome');
		is_deeply($r[$i]{params}, \@values, 'its parameters');
	}

	# the judge: successful statements in the log
	my @log = log_of($node, 'bound');
	my %by_text;
	push @{ $by_text{ $_->{text} } }, $_ foreach @log;
	foreach my $r (grep { $_->{outcome} eq 'ok' && $_->{class} ne 'transaction' && $_->{text} !~ /^LOCK/ } @r)
	{
		my $l = shift @{ $by_text{ $r->{text} } // [] };
		my $what = $libraries . ': ' . substr($r->{text}, 0, 60);

		ok($l, "in the log: $what") or next;
		is(logged(@{ $r->{params} // [] }), $l->{parameters} // '', 'with these parameters');
		# after EXECUTE, the log has that of what was executed
		is($r->{query_id} // 0, $l->{id}, 'and this query identifier') if $r->{command} ne 'EXECUTE';
	}
	my @missing = grep { !$_->{query_id} && $_->{command} !~ /^(EXECUTE|PREPARE|BEGIN|COMMIT)$/ && $_->{outcome} eq 'ok' } @r;
	is_deeply([ map { $_->{text} } @missing ], [], "$libraries: utility statements have a query identifier");

	# nested ones
	my %nested = map { $_->{text} => $_ } grep { $_->{depth} } @all;
	is_deeply([ grep { defined } @{ $nested{'CALL p(n, x)'}{params} // [] } ], [ 49, 'var' ], "$libraries: variables of a function");
	is_deeply([ grep { defined } @{ $nested{'CALL out_p(y, x)'}{params} // [] } ], [ 'var', 50 ], 'in the order of the function');
	is_deeply($nested{'CALL p($1, $2)'}{params}, [ 49, 'using' ], 'those of EXECUTE with USING');
	is($nested{'CREATE TEMP TABLE no_parameters (i int)'}{params}, undef, 'none that it does not use');
	is_deeply([ grep { defined } @{ $nested{'CREATE TEMP TABLE of_variable AS SELECT n AS v'}{params} // [] } ], [49], 'and those of a query');

	my @executed = map { $_->{params} } grep { $_->{depth} && $_->{text} =~ /^PREPARE/ } @all;
	is_deeply(\@executed, [ [ 56, 'executed' ], [ 57, 'explained' ] ], 'and those of EXECUTE, in the record of what it executes');

	# start records have them, too
	my @starts = grep { $_->{text} =~ /^CALL commits/ } records($node, kind => 'start', application => 'bound');
	is_deeply($starts[0]{params}, [ 45, 'x' x 3000, 'happy' ], "$libraries: a start record");
	if ($libraries eq $libraries[0])
	{
		my $off = Steno::Client->new($node, application_name => 'off', options => '-c steno.log_parameter=off');

		$off->extended('CALL p($1, $2)', 60, 'hidden');
		$off->quit;
		is((statements($node, application => 'off'))[0]{params}, undef, 'none with steno.log_parameter = off');
	}
	$node->stop;
	verify_ok($node, 'the trail is whole');
}
done_testing();
