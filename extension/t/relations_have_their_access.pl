
# The relations of a statement, with type and access, in one record.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

# Statement, and below it, indented, the relations of its record.
my $table = <<'END';
SELECT a FROM t
	table s.t select
SELECT count(*) FROM t x JOIN t y USING (id)
	table s.t select
SELECT 1 FROM t FOR UPDATE
	table s.t select,update
INSERT INTO t VALUES (1, 1)
	table s.t insert
INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET a = 2 RETURNING a
	table s.t select,insert,update
UPDATE t SET a = 2
	table s.t update
UPDATE t SET a = 2 WHERE id = 1
	table s.t select,update
DELETE FROM t WHERE id = 5
	table s.t select,delete
MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (src.id, 1)
	table s.t select,insert,delete
	table s.src select
WITH gone AS (DELETE FROM src RETURNING id) INSERT INTO t SELECT id FROM gone WHERE id > 100
	table s.t insert
	table s.src select,delete
SELECT * FROM v
	view s.v select
	table s.t select
SELECT * FROM vv
	view s.vv select
	view s.v select
	table s.t select
UPDATE v SET a = 3
	view s.v update
	table s.t update
SELECT * FROM m
	materialized view s.m select
REFRESH MATERIALIZED VIEW m
	table s.t select
SELECT * FROM ft
	foreign table s.ft select
SELECT last_value FROM sq
	sequence s.sq select
SELECT nextval('sq')
SELECT * FROM part
	table s.part select
INSERT INTO part VALUES (1)
	table s.part insert
SELECT * FROM part1
	table s.part1 select
COPY t TO '/dev/null'
	table s.t select
COPY t (a) FROM '/dev/null'
	table s.t insert
COPY (SELECT a FROM v) TO '/dev/null'
	view s.v select
	table s.t select
CREATE TABLE made AS SELECT a FROM t
	table s.t select
CREATE TABLE child (id int REFERENCES t, other int REFERENCES src (id))
	table s.t references
	table s.src references
ALTER TABLE child ADD COLUMN third int REFERENCES t
	table s.t references
TRUNCATE child
	table s.child truncate
TRUNCATE src CASCADE
	table s.src truncate
	table s.child truncate
TRUNCATE part
	table s.part truncate
	table s.part1 truncate
EXPLAIN SELECT a FROM t
	table s.t select
EXPLAIN ANALYZE DELETE FROM t WHERE id = 8
	table s.t select,delete
PREPARE reads AS SELECT a FROM t
EXECUTE reads
1> PREPARE reads AS SELECT a FROM t
	table s.t select
DECLARE cu CURSOR WITH HOLD FOR SELECT a FROM t
1> DECLARE cu CURSOR WITH HOLD FOR SELECT a FROM t
	table s.t select
DO 'BEGIN INSERT INTO s.t SELECT 77, count(*) FROM s.src; END'
1> INSERT INTO s.t SELECT 77, count(*) FROM s.src
	table s.t insert
	table s.src select
ALTER TABLE t RENAME TO renamed
SELECT a FROM renamed
	table s.renamed select
ALTER SCHEMA s RENAME TO s9
SELECT a FROM s9.renamed
	table s9.renamed select
SELECT a FROM s9.v
	view s9.v select
	table s9.renamed select
DELETE FROM s9."Odd ""name"
	table s9."Odd ""name" delete
SELECT 1 FROM pg_class WHERE false
	table pg_catalog.pg_class select
INSERT INTO s9.renamed VALUES (1 / (SELECT count(*) * 0 FROM s9.src), 1)
	table s9.renamed insert
	table s9.src select
END

my @cases;
my $foreign = has_module('file_fdw');

foreach my $line (split /\n/, $table)
{
	if ($line =~ s/^\t//)
	{
		push @{ $cases[-1]{relations} }, $line;
	}
	else
	{
		my $depth = $line =~ s/^1> // ? 1 : 0;

		push @cases, { text => $line, depth => $depth, relations => [] };
	}
}

if (!$foreign)
{
	note 'no foreign tables, because there is no file_fdw';
	@cases = grep { $_->{text} ne 'SELECT * FROM ft' } @cases;
}

my $node = new_node('main');

$node->safe_psql('postgres', 'CREATE DATABASE d');
$node->safe_psql('d', q{
CREATE SCHEMA s;
SET search_path = s;
CREATE TABLE t (id int PRIMARY KEY, a int);
CREATE TABLE src (id int PRIMARY KEY);
CREATE VIEW v AS SELECT a FROM t;
CREATE VIEW vv AS SELECT a FROM v;
CREATE MATERIALIZED VIEW m AS SELECT a FROM t;
CREATE SEQUENCE sq;
CREATE TABLE part (a int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE "Odd ""name" (a int);
ALTER DATABASE d SET search_path = s;
});
$node->safe_psql('d', q{
CREATE EXTENSION file_fdw;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE s.ft (a text) SERVER files OPTIONS (filename '/dev/null');
}) if $foreign;
$node->psql(
	'd',
	join('', map { "$_->{text};\n" } grep { !$_->{depth} } @cases),
	connstr => $node->connstr('d') . ' application_name=relations',
	on_error_stop => 0);

my %found;

push @{ $found{ $_->{text} }[ $_->{depth} // 0 ] }, $_
  foreach statements($node, application => 'relations');
foreach my $case (@cases)
{
	my $r = shift @{ $found{ $case->{text} }[ $case->{depth} ] } // {};
	my @seen =
	  map { join ' ', $_->{type}, $_->{name}, $_->{access} // '' }
	  @{ $r->{relations} // [] };

	is_deeply(\@seen, $case->{relations}, $case->{text}) or diag explain \@seen;
}
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
