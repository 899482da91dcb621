
# steno.log_statement, log_relation, log_rows, log_parameter_max_size: each leaves its part out of all
# records, and nothing else.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "restart_after_crash = on\nsteno.log_start = all\n");

value($node, q{
CREATE ROLE auditor;
CREATE TABLE t (a int);
CREATE TABLE u (a int);
CREATE TABLE audited (a int);
GRANT SELECT ON audited TO auditor;
CREATE FUNCTION runs(what text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE what; END $$;
});

# Each way in which a statement comes to its record, one in a message.
my @sql = (
	'SELECT a FROM t', 'SELECT a FROM t', [ 'SELECT a FROM t WHERE a > $1', 7 ], [ 'SELECT a FROM t WHERE a > $1', 7 ],
	'SELECT t.a FROM t, u, audited', 'INSERT INTO t VALUES (1), (2)', 'UPDATE t SET a = a + 1',
	'COPY t TO \'/dev/null\'', 'CREATE TABLE made AS SELECT a FROM t', 'DROP TABLE made',
	'DO $$ BEGIN INSERT INTO t SELECT 1; PERFORM a FROM u; END $$', q{SELECT runs('DELETE FROM t WHERE a = 1')},
	'PREPARE p AS SELECT a FROM t', 'EXECUTE p', 'BEGIN', 'DECLARE c CURSOR FOR SELECT a FROM t', 'FETCH 1 FROM c', 'ROLLBACK',
	'SELECT 1; SELECT 2; SELECT a FROM u', 'SELECT a FROM t, ' . join(', ', map { "u u$_" } 1 .. 40) . ' LIMIT 1',
	"SELECT '" . 'x' x 50_000 . "' FROM t",

	# failures: of the parser, analysis, planner, executor, in functions, at the end
	'SELEC a FROM t', 'SELECT no FROM t', 'SELECT 1/0 FROM t', 'SELECT 1/(a - a) FROM t', 'SELECT 1/(t.a - t.a) FROM t, audited',
	q{SELECT runs('SELEC 1')}, q{SELECT runs('SELECT 1/0 FROM t')}, q{SELECT runs('SELECT 1/(a - a) FROM t')},
	'DO $$ BEGIN EXECUTE \'SELEC\'; EXCEPTION WHEN others THEN PERFORM a FROM t; END $$',
	'DROP TABLE no_such_table', 'INSERT INTO t SELECT 1/(a - a) FROM t', 'BEGIN', 'SELECT 1/0', 'SELECT refused', 'ROLLBACK');

# All records of a session, without fields that differ from run to run.
sub run
{
	my ($settings, @run) = @_;
	my $c = Steno::Client->new($node, application_name => 'left out', options => $settings =~ s/(\S+)/-c $1/gr);
	my @found;

	ref $_ ? $c->extended(@$_) : $c->query($_) foreach @run;
	$c->quit;
	@found = by_statement(records($node, pid => $c->{pid}, kind => qr/^(start|statement)$/));
	delete @$_{qw(time duration_us analysis_us plan_us commit_us elapsed_us session pid seq xid block)} foreach @found;
	return \@found;
}

# The same without some fields.
sub without
{
	my ($records, @fields) = @_;
	my @copies = map { {%$_} } @$records;

	delete @$_{@fields} foreach @copies;
	return \@copies;
}

# Without relations; where names without a schema were looked for is part of them.
sub without_relations
{
	my $copies = without($_[0], 'relations');

	foreach my $r (grep { exists(($_->{extra} // {})->{search_path}) } @$copies)
	{
		my %extra = %{ $r->{extra} };

		delete $extra{search_path};
		delete $r->{extra};
		$r->{extra} = \%extra if %extra;
	}
	return $copies;
}

sub count_of
{
	my ($records, $field) = @_;

	return scalar grep { defined $_->{$field} } @$records;
}

# The table has its original contents.
unshift @sql, 'TRUNCATE t', 'INSERT INTO t VALUES (5), (8), (9)', 'TRUNCATE audited, u', 'INSERT INTO audited VALUES (1)',
  'INSERT INTO u VALUES (1)';

my $all = run('', @sql);
cmp_ok(scalar @$all, '>', 80, 'records');
is(count_of($all, 'text'), scalar @$all, 'each has a text');
cmp_ok(count_of($all, 'relations'), '>', 40, 'many have relations');
cmp_ok(count_of($all, 'rows'), '>', 15, 'many have a number of rows');
is_deeply(run('', @sql), $all, 'the same again');

# ---- one each ----
{
	my $left = run('steno.log_statement=off', @sql);

	is(count_of($left, 'text'), 0, 'log_statement = off: no texts');
	is_deeply($left, without($all, qw(text text_bytes text_sha256)), 'and nothing else is missing');
}
{
	my $left = run('steno.log_rows=off', @sql);

	is(count_of($left, 'rows'), 0, 'log_rows = off: no numbers of rows');
	is_deeply($left, without($all, 'rows'), 'and nothing else is missing');
}
{
	my $left = run('steno.log_relation=off', @sql);

	is(count_of($left, 'relations'), 0, 'log_relation = off: no relations');
	is_deeply($left, without_relations($all), 'and nothing else is missing');
}
{
	my $left = run('steno.log_relation=off steno.role=auditor', @sql);
	my %names;

	foreach my $r (@$left)
	{
		$names{ $_->{name} }++ foreach @{ $r->{relations} // [] };
	}
	is_deeply([ sort keys %names ], ['public.audited'], 'log_relation = off: relations that are audited through steno.role');
	is_deeply(
		[ map { [ $_->{kind}, $_->{text} ] } grep { $_->{relations} } @$left ],
		[ map { [ $_->{kind}, $_->{text} ] } grep { $_->{text} =~ /^SELECT.*\baudited\b/ } @$all ],
		'wherever they are');
	is_deeply(without($left, qw(relations audited)), without_relations($all), 'and nothing else is missing');
}
is_deeply(
	[ map { $_->{text} // '', $_->{rows} // '', $_->{relations} ? 1 : '' } grep { ($_->{class} // '') eq 'read' && $_->{kind} eq 'statement' } @{
		run('', 'SELECT a FROM t', 'SET steno.log_statement = off', 'SELECT a FROM t', 'SET steno.log_rows = off', 'SELECT a FROM t',
			'SET steno.log_relation = off', 'SELECT a FROM t', 'RESET ALL', 'SELECT a FROM t') } ],
	[ 'SELECT a FROM t', 5, 1, '', 5, 1, '', '', 1, '', '', '', 'SELECT a FROM t', 5, 1 ],
	'set in the middle of a session');

# ---- long parameters ----
{
	# type, the value, whether it may be left out
	my @values = (
		[ 'text', 'x' x 20, 1 ], [ 'varchar', 'x' x 21, 1 ], [ 'bpchar', 'x' x 22, 1 ], [ 'bytea', '\\x' . 'ab' x 20, 1 ],
		[ 'numeric', '1234' x 20, 1 ], [ 'json', '{"a": "long value"}', 1 ], [ 'jsonb', '{"a": "long value"}', 1 ],
		[ 'int[]', '{1,2,3,4,5,6,7,8,9}', 1 ], [ 'text[]', '{some,more,words}', 1 ], [ 'xml', '<a>long value</a>', 1 ],
		[ 'varbit', '10101010101010101', 1 ],
		[ 'int4', '-2147483648', 0 ], [ 'int8', '-9223372036854775808', 0 ], [ 'uuid', '01234567-89ab-cdef-0123-456789abcdef', 0 ],
		[ 'timestamptz', '2026-02-28 12:00:00.123456+00', 0 ], [ 'interval', '1 year 2 mons 3 days 04:05:06', 0 ],
		[ 'name', 'a_name_of_some_length', 0 ], [ 'macaddr8', '08:00:2b:01:02:03:04:05', 0 ], [ 'point', '(1.23456,2.34567)', 0 ],
		[ 'bool', 't', 0 ], [ 'float8', '1.2345678901234567', 0 ], [ 'text', 'x' x 10, 0 ], [ 'text', '', 0 ], [ 'numeric', '123456', 0 ],
		[ 'bytea', '\\x' . 'ab' x 10, 0 ], [ 'int[]', '{1,2,3,4}', 0 ]);
	my $has_xml = $node->psql('postgres', q{SELECT '<a/>'::xml}, connstr => Steno::connstr($node)) == 0;
	my (@tables, @params);

	@values = grep { $has_xml || $_->[0] ne 'xml' } @values;
	foreach my $max (0, 10)
	{
		foreach my $r (@{ run("steno.log_parameter_max_size=$max datestyle=ISO timezone=UTC", map { ([ "SELECT \$1::$_->[0]", $_->[1] ]) x 2 } @values) })
		{
			push @{ $params[$max] }, [ $r->{text}, $r->{params} ];
		}
	}
	is_deeply(
		$params[0], [ map { ([ "SELECT \$1::$_->[0]", [ $_->[1] ] ]) x 4 } @values ],
		'log_parameter_max_size = 0: all values');
	foreach my $i (0 .. $#values)
	{
		my ($type, $value, $omitted) = @{ $values[$i] };
		my @seen = @{ $params[10] }[ 4 * $i .. 4 * $i + 3 ];

		is_deeply(
			\@seen, [ ([ "SELECT \$1::$type", $omitted ? $params[10][0][1] : [$value] ]) x 4 ],
			"log_parameter_max_size = 10: $type of length " . length $value);
	}
	isnt($params[10][0][1][0], 'x' x 20, 'what is left out is not there');
}

# ---- what is running, and what was when its session was killed ----
foreach my $case ([ 'on', 1 ], [ 'off', 0 ])
{
	my ($setting, $has_text) = @$case;
	my $start = -s $node->logfile;
	my %options = (application_name => "killed $setting", options => "-c steno.log_statement=$setting -c steno.log_start=none");
	my @running = map { Steno::Client->new($node, %options) } 1 .. 3;
	my @texts = (
		'SELECT pg_sleep(1000)',
		'DO $$ BEGIN PERFORM 1; PERFORM pg_sleep(1000); END $$',
		q{SELECT runs('SELECT pg_sleep(1000)')});
	my (@found, @shown);

	$running[$_]->put('Q', "$texts[$_]\0")->send_all foreach 0 .. 2;
	wait_until 'they sleep', sub {
		value($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'killed%' AND wait_event = 'PgSleep'}) eq '3';
	};
	# the writer announces them, too
	$node->append_conf('postgresql.conf', 'steno.start_after = 1');
	$node->reload;
	wait_until 'they have start records', sub {
		@shown = records($node, application => "killed $setting", kind => 'start');
		@shown == 3;
	};
	$node->append_conf('postgresql.conf', 'steno.start_after = -1');
	$node->reload;
	is_deeply([ sort map { $_->{text} // '' } @shown ], [ $has_text ? sort @texts : ('') x 3 ], "$setting: what runs");
	kill 'KILL', $running[0]{pid};
	close $_->{socket} foreach @running;
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $start);
	wait_until 'the server is back', sub {
		can_connect($node)
		  && scalar(my @files = ring_files($node)) == 1;
	};
	@found = grep { !$_->{depth} } statements($node, application => "killed $setting", outcome => 'interrupted');
	is_deeply([ sort map { $_->{text} // '' } @found ], [ $has_text ? sort @texts : ('') x 3 ], "$setting: what was interrupted");
}

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
