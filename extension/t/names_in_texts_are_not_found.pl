
# What --object finds by a table's name, and what only has that name in its text: as docs/records.md says.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use JSON::PP ();
use Steno;
use Test::More;

my $node = new_node('main', conf => "wal_level = logical\n");

$node->safe_psql('postgres', <<'SQL');
CREATE SCHEMA hr;
CREATE TABLE hr.t (id int PRIMARY KEY, n int);
CREATE TABLE hr.parent (id int, n int);
CREATE TABLE hr.own (id int NOT NULL, n int);
CREATE TABLE hr.other (id int);
CREATE TABLE hr.p (id int) PARTITION BY RANGE (id);
CREATE TABLE hr.p_1 PARTITION OF hr.p FOR VALUES FROM (0) TO (10);
CREATE SEQUENCE hr.s;
CREATE TABLE hr.defaults (i int DEFAULT nextval('hr.s'), j int);
CREATE VIEW hr.v AS SELECT * FROM hr.t;
CREATE VIEW hr.total AS SELECT count(*) AS n FROM hr.t;
CREATE MATERIALIZED VIEW hr.m AS SELECT * FROM hr.t;
CREATE FUNCTION hr.reads() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM hr.t); END';
CREATE FUNCTION hr.merged() RETURNS SETOF hr.t LANGUAGE sql STABLE AS 'SELECT * FROM hr.t';
SQL

# Statements, by which of the names hr.t, hr.s and hr.p_1 they are found, and what they run.
my @cases = (
	[ 'SELECT * FROM hr.v', 't' ],
	[ 'SELECT * FROM hr.merged()', 't' ],
	[ 'EXPLAIN SELECT * FROM hr.v', 't' ],
	[ 'COPY (SELECT * FROM hr.v) TO STDOUT', 't' ],
	[ 'SELECT * FROM hr.m' ],
	[ 'REFRESH MATERIALIZED VIEW hr.m', 't' ],
	[ 'CREATE MATERIALIZED VIEW hr.m2 AS SELECT * FROM hr.t', 't' ],
	[ 'CREATE VIEW hr.v2 AS SELECT * FROM hr.t', 't' ],
	[ 'CREATE RULE r AS ON INSERT TO hr.other DO ALSO SELECT count(*) FROM hr.t', 't' ],
	[ 'CREATE POLICY p ON hr.other USING (EXISTS (SELECT FROM hr.t))', 't' ],
	[ q{CREATE FUNCTION hr.f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM hr.t'} ],
	[ 'CREATE FUNCTION hr.g() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM hr.t; END', 't' ],
	[ 'SELECT hr.reads()', '', 't' ],
	[ 'INSERT INTO hr.other VALUES (1)', '', 't' ],
	[ q{DO $$ BEGIN EXECUTE 'SELECT count(*) FROM hr.t'; END $$}, '', 't' ],
	[ q{SELECT query_to_xml('SELECT * FROM hr.t', true, false, '')}, '', 't' ],
	[ q{SELECT table_to_xml('hr.t', true, false, '')}, '', 't' ],
	[ 'PREPARE q AS SELECT * FROM hr.t; EXECUTE q', '', 't' ],
	[ 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM hr.t; FETCH c; COMMIT', '', 't' ],
	[ q{SELECT 'hr.t'::regclass, pg_relation_size('hr.t'), nextval('hr.s'), setval('hr.s', 5), 'hr.p_1'::regclass} ],
	[ 'INSERT INTO hr.defaults (j) VALUES (1)' ],
	[ q{CREATE TABLE hr.defaults2 (i int DEFAULT nextval('hr.s'))}, 's' ],
	[ 'SELECT * FROM hr.s', 's' ],
	[ 'ALTER SEQUENCE hr.s RESTART', 's' ],
	[ 'CREATE TABLE hr.copied (LIKE hr.t)', 't' ],
	[ 'CREATE TABLE hr.child () INHERITS (hr.t)', 't' ],
	[ 'ALTER TABLE hr.own INHERIT hr.t', 't' ],
	[ 'ALTER TABLE hr.own NO INHERIT hr.t', 't' ],
	[ 'ALTER TABLE hr.t INHERIT hr.parent', 't' ],
	[ 'SELECT * FROM hr.parent' ],
	[ 'ALTER TABLE hr.parent ADD COLUMN more int', 't' ],
	[ 'TRUNCATE hr.parent', 't' ],
	[ 'ALTER TABLE hr.t NO INHERIT hr.parent', 't' ],
	[ 'SELECT * FROM hr.p' ],
	[ 'INSERT INTO hr.p VALUES (1)' ],
	[ 'ALTER TABLE hr.p DETACH PARTITION hr.p_1', 'p_1' ],
	[ 'ALTER TABLE hr.p ATTACH PARTITION hr.p_1 FOR VALUES FROM (0) TO (10)', 'p_1' ],
	[ 'CREATE TABLE hr.rows (r hr.t)', 't' ],
	[ 'SELECT NULL::hr.t' ],
	[ 'BEGIN; LOCK hr.v; COMMIT' ],
	[ 'VACUUM' ],
	[ 'SELECT * FROM pg_stats' ],
	[ 'CREATE PUBLICATION a FOR ALL TABLES' ],
	[ 'SELECT 1/0 FROM hr.t', 't' ],
	[ 'CREATE VIEW hr.v3 AS SELECT * FROM hr.v' ],
	[ 'SELECT nothing FROM hr.t', 't' ]);
my %found;

# Without libxml, the server does not get to the table.
@cases = grep { $_->[0] !~ /table_to_xml/ } @cases if $node->psql('postgres', q{SELECT '<a/>'::xml}) != 0;
foreach my $i (0 .. $#cases)
{
	$node->psql('postgres', $cases[$i][0], connstr => $node->connstr('postgres') . " application_name=n$i");
}
flush($node);
foreach my $object (qw(t s p_1))
{
	foreach (map { JSON::PP::decode_json($_) } lines($node, '--kind', 'statement', '--object', "hr.$object"))
	{
		$found{ $_->{application} }{ $_->{depth} ? 'runs' : 'own' }{$object} = 1;
	}
}
foreach my $i (0 .. $#cases)
{
	my ($sql, $own, $runs) = @{ $cases[$i] };
	my $is = $found{"n$i"};

	is_deeply([ map { join ' ', sort keys %{ $is->{$_} // {} } } 'own', 'runs' ], [ $own // '', $runs // '' ], $sql);
}
verify_ok($node, 'the trail is whole');

done_testing();
