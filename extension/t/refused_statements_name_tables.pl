
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
	[ 'REFRESH MATERIALIZED VIEW hr.m', 'hr.m ' ]);

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
	my @seen = map { my %a = map { $_ => 1 } split /,/, $_->{access}; delete $a{written}; "$_->{name} " . join ',', sort keys %a }
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
	# since PostgreSQL 19, there is no such string
	is(scalar(grep { /nonstandard use/ } @{ $answer->{notices} }), $node->pg_version < 19 ? 1 : 0, 'the client is warned of it once');
	is(relations_of(the_record($node, 'it', application => 'warned', outcome => 'error'))->[0]{name}, 'hr.salary', 'its relation is named');
	$c->quit;
}

gapless($node, 'no session has gaps');
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
