
# The relations of a statement, with type, access, columns and view, in one record.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

# Statement, and below it, indented, the relations of its record.
my $table = <<'END';
SELECT a FROM t
	table s.t select select(a)
SELECT count(*) FROM t x JOIN t y USING (id)
	table s.t select select(id)
SELECT 1 FROM t FOR UPDATE
	table s.t select,update select() update()
INSERT INTO t VALUES (1, 1)
	table s.t insert insert(id,a)
INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET a = 2 RETURNING a
	table s.t select,insert,update select(id,a) insert(id,a) update(a)
UPDATE t SET a = 2
	table s.t update update(a)
UPDATE t SET a = 2 WHERE id = 1
	table s.t select,update select(id) update(a)
DELETE FROM t WHERE id = 5
	table s.t select,delete select(id)
MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (src.id, 1)
	table s.t select,insert,delete select(id) insert(id,a)
	table s.src select select(id)
WITH gone AS (DELETE FROM src RETURNING id) INSERT INTO t SELECT id FROM gone WHERE id > 100
	table s.t insert insert(id)
	table s.src select,delete select(id)
SELECT * FROM v
	view s.v select select(a)
	table s.t select select(a) via s.v
SELECT * FROM vv
	view s.vv select select(a)
	view s.v select select(a) via s.vv
	table s.t select select(a) via s.v
UPDATE v SET a = 3
	view s.v update update(a)
	table s.t update update(a) via s.v
SELECT * FROM m
	materialized view s.m select select(a)
REFRESH MATERIALIZED VIEW m
	table s.t select select(a)
SELECT * FROM ft
	foreign table s.ft select select(a)
SELECT last_value FROM sq
	sequence s.sq select select(last_value)
SELECT nextval('sq')
SELECT * FROM part
	table s.part select select(a)
INSERT INTO part VALUES (1)
	table s.part insert insert(a)
SELECT * FROM part1
	table s.part1 select select(a)
COPY t TO '/dev/null'
	table s.t select select(id,a)
COPY t (a) FROM '/dev/null'
	table s.t insert insert(a)
COPY (SELECT a FROM v) TO '/dev/null'
	view s.v select select(a)
	table s.t select select(a) via s.v
CREATE TABLE made AS SELECT a FROM t
	table s.t select select(a)
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
	table s.t select select(a)
EXPLAIN ANALYZE DELETE FROM t WHERE id = 8
	table s.t select,delete select(id)
PREPARE reads AS SELECT a FROM t
EXECUTE reads
1> PREPARE reads AS SELECT a FROM t
	table s.t select select(a)
DECLARE cu CURSOR WITH HOLD FOR SELECT a FROM t
1> DECLARE cu CURSOR WITH HOLD FOR SELECT a FROM t
	table s.t select select(a)
DO 'BEGIN INSERT INTO s.t SELECT 77, count(*) FROM s.src; END'
1> INSERT INTO s.t SELECT 77, count(*) FROM s.src
	table s.t insert insert(id,a)
	table s.src select select()
ALTER TABLE t RENAME TO renamed
SELECT a FROM renamed
	table s.renamed select select(a)
ALTER SCHEMA s RENAME TO s9
SELECT a FROM s9.renamed
	table s9.renamed select select(a)
SELECT a FROM s9.v
	view s9.v select select(a)
	table s9.renamed select select(a) via s9.v
DELETE FROM s9."Odd ""name"
	table s9."Odd ""name" delete
SELECT 1 FROM pg_class WHERE false
	table pg_catalog.pg_class select select()
INSERT INTO s9.renamed VALUES (1 / (SELECT count(*) * 0 FROM s9.src), 1)
	table s9.renamed insert insert(id,a)
	table s9.src select select()
END

# A relation as the table above has it.
sub shown
{
	my ($r) = @_;
	my $line = "$r->{type} $r->{name} $r->{access}";

	foreach my $access (qw(select insert update))
	{
		my $columns = $r->{columns}{$access} or next;

		$line .= " $access(" . join(',', @$columns) . ')';
	}
	$line .= " via $r->{via}" if defined $r->{via};
	return $line;
}

my @cases = cases_of($table);
my $foreign = has_module('file_fdw');

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
my @records = run_cases($node, 'd', 'relations', '', @cases);

foreach my $case (@cases)
{
	my $r = shift @records;
	my @seen = map { shown($_) } @{ $r->{relations} // [] };

	is_deeply(\@seen, $case->{has}, $case->{text}) or diag explain \@seen;
}
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
