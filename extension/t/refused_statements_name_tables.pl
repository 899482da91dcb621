
# Statements that are refused before the server has looked up what they name have the relations that they name, as
# these are written: who has tried to get at a table is found by its name.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno;
use Test::More;

my $node = new_node('refused');

$node->safe_psql('postgres', q{
CREATE ROLE tom LOGIN;
CREATE SCHEMA hr;
CREATE TABLE hr.salary (name text, amount int);
CREATE FUNCTION hr.f() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE TABLE z (v text);
CREATE TABLE "Odd ""name" (v text);
CREATE INDEX z_v ON z (v);
CREATE TRIGGER tr BEFORE UPDATE ON z FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
});

# Statement, and what its record names with which access; empty: nothing.
my @cases = (
	# in parse analysis
	[ 'SELECT * FROM hr.salary', 'hr.salary select' ],
	[ 'SELECT 1 FROM z, (SELECT amount FROM hr.salary) s', 'hr.salary select', 'z select' ],
	[ 'INSERT INTO hr.salary SELECT v, 1 FROM z', 'hr.salary insert', 'z select' ],
	[ 'UPDATE hr.salary SET amount = (SELECT max(length(v)) FROM z)', 'hr.salary update', 'z select' ],
	[ 'DELETE FROM hr.salary USING z', 'hr.salary delete', 'z select' ],
	[ 'WITH w AS (SELECT * FROM hr.salary) SELECT * FROM w JOIN z ON true', 'hr.salary select', 'z select' ],
	[ 'SELECT nothing FROM "Odd ""name"', '"Odd ""name" select' ],
	[ 'SELECT * FROM nothing', 'nothing select' ],
	[ 'EXPLAIN SELECT * FROM hr.salary', 'hr.salary select' ],
	[ 'CREATE TEMP TABLE t AS SELECT * FROM hr.salary', 'hr.salary select', 't ' ],
	[ 'MERGE INTO hr.salary s USING z ON s.name = z.v WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (v, 1)',
		'hr.salary delete,insert', 'z select' ],
	[ 'SELEC * FROM hr.salary' ],
	[ 'SELECT * FROM z WHERE' ],
	# utility statements
	[ 'DROP TABLE z', 'z ' ],
	[ 'DROP TABLE public.z, hr.salary', 'hr.salary ', 'public.z ' ],
	[ 'COPY z TO STDOUT', 'z select' ],
	[ 'COPY hr.salary FROM STDIN', 'hr.salary insert' ],
	[ 'COPY (SELECT * FROM hr.salary) TO STDOUT', 'hr.salary select' ],
	[ 'GRANT SELECT ON z TO tom', 'z ' ],
	[ 'ALTER TABLE z ADD y int', 'z ' ],
	[ 'ALTER TABLE z RENAME TO y', 'z ' ],
	[ 'TRUNCATE z', 'public.z truncate' ],
	[ 'CREATE INDEX ON z (v)', 'z ' ],
	[ 'DROP TRIGGER tr ON z', 'z ' ],
	[ 'CREATE POLICY p ON z', 'z ' ],
	[ 'CREATE VIEW hr.v AS SELECT * FROM z', 'hr.v ', 'z select' ],
	[ 'PREPARE p AS SELECT * FROM hr.salary', 'hr.salary select' ],
	[ 'COMMENT ON TABLE z IS NULL', 'z ' ],
	[ 'CLUSTER z USING z_v', 'z ' ],
	[ 'CREATE PUBLICATION p FOR TABLE z, hr.salary', 'hr.salary ', 'z ' ],
	[ 'CREATE TABLE pg_temp.l (LIKE hr.salary)', 'hr.salary select', 'pg_temp.l ' ],
	[ 'CREATE TABLE pg_temp.f (v int REFERENCES hr.salary)', 'hr.salary references', 'pg_temp.f ' ],
	[ 'CREATE TABLE pg_temp.i () INHERITS (hr.salary)', 'hr.salary ', 'pg_temp.i ' ],
	[ 'ALTER TABLE z ADD FOREIGN KEY (v) REFERENCES hr.salary', 'hr.salary references', 'z ' ],
	[ 'REFRESH MATERIALIZED VIEW hr.m', 'hr.m ' ],
	# what is no relation is not named
	[ 'DROP SCHEMA hr CASCADE' ],
	[ 'ALTER FUNCTION hr.f() OWNER TO tom' ],
	[ 'GRANT postgres TO tom' ],
	[ 'SELECT hr.f()' ],
	[ 'SELECT hr.f() FROM z', 'z select' ]);

foreach my $case (@cases)
{
	$node->psql('postgres', $case->[0], connstr => $node->connstr('postgres') . ' user=tom application_name=refused',
		extra_params => [ '-U', 'tom' ]);
}
my %record = map { $_->{text} => $_ } grep { ($_->{user} // '') eq 'tom' } statements($node);
foreach my $case (@cases)
{
	my ($sql, @want) = @$case;
	my $r = $record{$sql};
	my @seen = map { my %a = map { $_ => 1 } split /,/, $_->{access}; delete $a{named}; "$_->{name} " . join ',', sort keys %a }
	  @{ $r->{relations} // [] };

	is($r->{outcome}, 'error', "$sql: it failed");
	is(join('; ', sort @seen), join('; ', sort @want), "$sql: what it names");
}
my @z = lines($node, '--object', 'public.z', '--user', 'tom', '--failed');
cmp_ok(scalar(@z), '>=', 12, 'a name without schema may be that of any');
is(scalar(grep { /"DROP TABLE z"/ } @z), 1, 'such as that of the drop');
is(scalar(grep { /GRANT SELECT ON z/ } lines($node, '--object', 'z', '--user', 'tom')), 1, 'and without a schema, too');
is(scalar(grep { /"SELECT \* FROM hr.salary"/ } lines($node, '--object', 'hr.salary.amount', '--user', 'tom')), 1, 'its columns are not known');
is(scalar(lines($node, '--object', 'hr.other', '--user', 'tom')), 0, 'another name is found nowhere');

# Very deep, and very many names.
$node->psql('postgres', 'SELECT ' . '(' x 900 . 'SELECT nothing FROM z' . ')' x 900, extra_params => [ '-U', 'tom' ]);
$node->psql('postgres', 'SELECT nothing FROM ' . join(', ', map { "many_$_" } 1 .. 100), extra_params => [ '-U', 'tom' ]);
my ($many) = statements($node, text => qr/many_99/);
is(@{ $many->{relations} } + ($many->{extra}{relations_omitted} // 0), 100, 'names that there is no space for are counted');
is(scalar(statements($node, text => qr/SELECT nothing FROM z/)), 1, 'a deep query has its record');

# The names are found by parsing the text again; the client has had the parser's warnings.
{
	my $c = Steno::Client->new($node, user => 'tom', application_name => 'warned');
	my $answer;

	$c->query('SET standard_conforming_strings = off');
	$answer = $c->query(q{SELECT 'a\\\\b' FROM hr.salary});
	is($answer->{sqlstate}, '42501', 'a text with a string of the old form is refused');
	# since PostgreSQL 19, there is no such string: the setting stays on
	is(scalar(grep { /nonstandard use/ } @{ $answer->{notices} }), $node->pg_version->major < 19 ? 1 : 0, 'the client is warned of it once');
	is(relations_of(the_record($node, 'it', application => 'warned', outcome => 'error', text => qr/^SELECT/))->[0]{name}, 'hr.salary', 'its relation is named');
	$c->quit;
}

# A name without a schema may be that of any schema of search_path, whether the user may use it or not.
sub found
{
	return scalar(grep { /$_[1]/ } lines($node, '--object', $_[0], '--user', 'tom', '--failed'));
}

foreach my $case (
	[ 'hr, public', 'SELECT 1 AS one FROM salary', 'hr, public', { 'hr.salary' => 1, 'public.salary' => 1, 'tom.salary' => 0, 'pg_catalog.salary' => 1 } ],
	[ '"$user", "Odd, ""one"""', 'SELECT 2 AS two FROM salary', 'tom, "Odd, ""one"""', { 'tom.salary' => 1, 'hr.salary' => 0, '"Odd, ""one""".salary' => 1 } ],
	[ '', 'SELECT 3 AS three FROM salary', '', { 'hr.salary' => 0, 'pg_temp.salary' => 1, 'salary' => 1 } ],
	[ 'HR', 'DROP TABLE salary', 'hr', { 'hr.salary' => 1, 'public.salary' => 0 } ],
	[ 'public', 'SELECT 4 AS four FROM hr.salary', undef, { 'hr.salary' => 1 } ],
	[ 'hr,' x 400 . 'public', 'SELECT 5 AS five FROM salary', undef, { 'tom.salary' => 1 } ])
{
	my ($path, $sql, $recorded, $found) = @$case;

	$node->psql('postgres', "SET search_path = $path;\n$sql", extra_params => [ '-U', 'tom' ]) if $path ne '';
	$node->psql('postgres', "SET search_path = '';\n$sql", extra_params => [ '-U', 'tom' ]) if $path eq '';
	my ($r) = grep { ($_->{user} // '') eq 'tom' && $_->{outcome} eq 'error' } statements($node, text => qr/^\Q$sql\E$/);
	is($r->{extra}{search_path}, $recorded, "$sql: where it was looked for");
	is(found($_, qr/\Q$sql\E/), $found->{$_}, "$sql: $_") foreach sort keys %$found;
}

# Statements inside functions.
$node->safe_psql('postgres', q{
GRANT CREATE ON SCHEMA public TO tom;
CREATE ROLE ann;
CREATE SCHEMA ann;
GRANT CREATE ON SCHEMA public TO ann;
SET ROLE ann;
CREATE FUNCTION as_ann() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = "$user", public AS $$
BEGIN EXECUTE 'SELECT 6 FROM bonus'; END $$;
});
$node->psql('postgres', q{
CREATE FUNCTION run(sql text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; END';
CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS
	'BEGIN EXECUTE sql; RETURN sql; EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END';
SELECT run('SELECT 7 FROM hr.salary');
SELECT try('SELECT 8 FROM hr.salary') AS caught;
SET check_function_bodies = off;
CREATE FUNCTION assigns() RETURNS void LANGUAGE plpgsql AS 'DECLARE x int; BEGIN x := (SELECT max(amount) FROM hr.salary); END';
CREATE FUNCTION returns() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1 + (SELECT max(amount) FROM hr.salary); END';
CREATE FUNCTION body() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM pg_class; SELECT count(*) FROM hr.salary WHERE amount > 1';
SELECT assigns();
SELECT returns();
SELECT body();
DO 'BEGIN DELETE FROM hr.salary; END';
SELECT as_ann();
SELECT try('SELECT 9 FROM z WHERE');
SELECT try('SELECT 10 FROM salary') FROM generate_series(1, 3);
SET search_path = hr;
SELECT run('SELECT 11 FROM salary');
SELECT public.run('SELECT 11 FROM salary');
}, extra_params => [ '-U', 'tom' ], on_error_stop => 0);
foreach my $case (
	[ 'SELECT 7 FROM hr.salary', 'hr.salary select' ],
	[ 'SELECT 8 FROM hr.salary', 'hr.salary select' ],
	[ 'x := (SELECT max(amount) FROM hr.salary)', 'hr.salary select' ],
	[ '1 + (SELECT max(amount) FROM hr.salary)', 'hr.salary select' ],
	[ 'SELECT count(*) FROM pg_class; SELECT count(*) FROM hr.salary WHERE amount > 1', 'hr.salary select' ],
	[ 'DELETE FROM hr.salary', 'hr.salary delete' ],
	[ 'SELECT 6 FROM bonus', 'bonus select', 'ann, public' ],
	[ 'SELECT 9 FROM z WHERE', '' ],
	[ 'SELECT 11 FROM salary', 'salary select', 'hr' ])
{
	my ($sql, $names, $path) = @$case;
	my ($r, @more) = grep { $_->{depth} } statements($node, text => qr/^\Q$sql\E$/, outcome => 'error');

	is(join('; ', map { "$_->{name} " . join ',', grep { $_ ne 'named' } split /,/, $_->{access} } @{ $r->{relations} // [] }),
		$names, "$sql: what it names");
	is($r->{extra}{search_path}, $path, "$sql: where it was looked for");
	is(scalar(@more), 0, "$sql: it has one record");
}
is(scalar(statements($node, text => qr/^SELECT 10 FROM salary$/, outcome => 'error')), 3, 'an error that is caught again and again');

# What is not reported is not parsed again.
$node->safe_psql('postgres', "ALTER ROLE tom SET log_min_messages = panic");
$node->psql('postgres', "SELECT run('SELECT 14 FROM hr.salary');", extra_params => [ '-U', 'tom' ]);
$node->safe_psql('postgres', 'ALTER ROLE tom RESET log_min_messages');
{
	my $r = the_record($node, 'a failure that is not reported', text => qr/^SELECT 14/);

	is($r->{relations}, undef, 'a failure that is not reported: it names nothing');
	is($r->{extra}{relations_omitted}, 1, 'a failure that is not reported: something is left out');
}

# The client gets the error that it should, although what is parsed again fails.
is(value($node, q{SELECT try('SELECT 12 FROM nothing')}), 'relation "nothing" does not exist', 'a function gets the message of its error');
{
	my $c = Steno::Client->new($node, user => 'tom', application_name => 'told');

	is($c->query($_->[0])->{message}, $_->[1], "$_->[0]: the message")
	  foreach [ q{SELECT run('SELECT 13 FROM hr.salary')}, 'permission denied for schema hr' ],
	  [ 'SELECT assigns()', 'permission denied for schema hr' ],
	  [ q{SELECT run('SELECT assigns()')}, 'permission denied for schema hr' ],
	  [ q{SELECT try('SELECT run(''SELECT assigns()'')'), 1 / 0}, 'division by zero' ];
	$c->quit;
}

gapless($node, 'no session has gaps');
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
