
# Each table whose rows in the catalogs a statement changes is among the relations or objects of its record: also one
# that is reached by CASCADE, by a part of it, or by a dependency.  The judge is the catalogs, before and after each
# statement, so the list of statements says nothing of what is expected.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

# Judge: judge.take(n) notes the names of all tables, views, sequences and composite types after the statement with this
# number, and a hash of the rows of each in each catalog.  What belongs to a table are its parts, too, and the types of
# its rows; what depends on a composite type is not a matter of tables.
my $judge = <<'SQL';
CREATE SCHEMA judge;
CREATE TABLE judge.name (n int, oid oid, name text, PRIMARY KEY (n, oid));
CREATE TABLE judge.hash (n int, oid oid, catalog text, hash text, PRIMARY KEY (n, oid, catalog));
CREATE VIEW judge.part AS
	SELECT oid AS rel, 'pg_class'::regclass::oid AS class, oid AS obj, relkind FROM pg_class
		WHERE oid >= 16384 AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'c')
	UNION SELECT typrelid, 'pg_type'::regclass, oid, '' FROM pg_type WHERE typrelid >= 16384
	UNION SELECT typrelid, 'pg_type'::regclass, typarray, '' FROM pg_type WHERE typrelid >= 16384
	UNION SELECT indrelid, 'pg_class'::regclass, indexrelid, '' FROM pg_index
	UNION SELECT conrelid, 'pg_constraint'::regclass, oid, '' FROM pg_constraint WHERE conrelid <> 0
	UNION SELECT confrelid, 'pg_constraint'::regclass, oid, '' FROM pg_constraint WHERE confrelid <> 0
	UNION SELECT tgrelid, 'pg_trigger'::regclass, oid, '' FROM pg_trigger
	UNION SELECT polrelid, 'pg_policy'::regclass, oid, '' FROM pg_policy
	UNION SELECT ev_class, 'pg_rewrite'::regclass, oid, '' FROM pg_rewrite
	UNION SELECT stxrelid, 'pg_statistic_ext'::regclass, oid, '' FROM pg_statistic_ext
	UNION SELECT adrelid, 'pg_attrdef'::regclass, oid, '' FROM pg_attrdef
	UNION SELECT prrelid, 'pg_publication_rel'::regclass, oid, '' FROM pg_publication_rel;
SQL
# catalogs with a number of their own, and with that of an object in another column
my %of_object = (
	(map { $_ => "c.oid = p.obj AND p.class = '$_'::regclass" }
		  qw(pg_class pg_type pg_constraint pg_trigger pg_policy pg_rewrite pg_statistic_ext pg_attrdef pg_publication_rel)),
	(map { $_ => "(c.classoid, c.objoid) = (p.class, p.obj)" } qw(pg_description pg_seclabel pg_init_privs)),
	(map { $_ => "(c.classid, c.objid) = (p.class, p.obj)" } qw(pg_depend pg_shdepend)),
	(map { $_->[0] => "c.$_->[1] = p.obj AND p.class = 'pg_class'::regclass" }
		  [ pg_attribute => 'attrelid' ], [ pg_index => 'indexrelid' ], [ pg_partitioned_table => 'partrelid' ],
		[ pg_foreign_table => 'ftrelid' ], [ pg_sequence => 'seqrelid' ], [ pg_subscription_rel => 'srrelid' ]),
	pg_inherits => "p.obj IN (c.inhrelid, c.inhparent) AND p.class = 'pg_class'::regclass");

$judge .= "CREATE VIEW judge.row AS\n" . join(
	"\nUNION ALL ",
	(map { "SELECT p.rel, '$_' AS catalog, c::text AS row FROM judge.part p JOIN $_ c ON $of_object{$_}" } sort keys %of_object),
	q{SELECT p.rel, 'pg_depend of others', c::text FROM judge.part p JOIN pg_depend c ON (c.refclassid, c.refobjid) = (p.class, p.obj)
		JOIN pg_class r ON r.oid = p.rel AND r.relkind <> 'c'}) . ";\n" . <<'SQL';
CREATE FUNCTION judge.take(n int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO judge.name SELECT take.n, p.rel, i.identity FROM judge.part p, pg_identify_object(p.class, p.rel, 0) i, pg_class c
		WHERE p.rel = p.obj AND p.relkind <> '' AND c.oid = p.rel AND relnamespace <> 'judge'::regnamespace;
	INSERT INTO judge.hash SELECT take.n, r.rel, r.catalog, md5(string_agg(r.row, '|' ORDER BY r.row))
		FROM judge.row r JOIN judge.name m ON (m.n, m.oid) = (take.n, r.rel) GROUP BY r.rel, r.catalog;
$$;
SQL

# What changed between two snapshots: number, names before and after, catalogs.
my $changes = <<'SQL';
WITH changed AS (
	SELECT n, oid, catalog FROM judge.hash a WHERE n > 0
		AND NOT EXISTS (SELECT FROM judge.hash b WHERE (b.n, b.oid, b.catalog, b.hash) = (a.n - 1, a.oid, a.catalog, a.hash))
	UNION SELECT n + 1, oid, catalog FROM judge.hash b
		WHERE NOT EXISTS (SELECT FROM judge.hash a WHERE (a.n, a.oid, a.catalog) = (b.n + 1, b.oid, b.catalog)))
SELECT c.n, coalesce(b.name, '-'), coalesce(a.name, '-'), string_agg(c.catalog, ', ' ORDER BY c.catalog)
FROM changed c LEFT JOIN judge.name b ON (b.n, b.oid) = (c.n - 1, c.oid) LEFT JOIN judge.name a ON (a.n, a.oid) = (c.n, c.oid)
GROUP BY c.n, 2, 3 ORDER BY 1, 2, 3
SQL

my @statements = grep { !/^\s*(#|$)/ } split /\n/, <<'SQL';
CREATE SCHEMA hr
CREATE TABLE hr.salary (id int PRIMARY KEY, name text NOT NULL, amount int DEFAULT 0)
CREATE TABLE hr.other (id int PRIMARY KEY, s int)
# tables
ALTER TABLE hr.salary RENAME COLUMN amount TO pay
ALTER TABLE hr.salary RENAME COLUMN pay TO amount
ALTER TABLE hr.salary RENAME CONSTRAINT salary_pkey TO salary_key
ALTER TABLE hr.salary ALTER COLUMN amount SET DEFAULT 1
ALTER TABLE hr.salary ALTER COLUMN amount DROP DEFAULT
ALTER TABLE hr.salary ALTER COLUMN amount SET STATISTICS 10, ALTER COLUMN name SET STORAGE external
ALTER TABLE hr.salary ADD COLUMN g int GENERATED ALWAYS AS (amount + 1) STORED
ALTER TABLE hr.salary ALTER COLUMN g DROP EXPRESSION
ALTER TABLE hr.salary ADD COLUMN i int GENERATED ALWAYS AS IDENTITY
ALTER TABLE hr.salary ALTER COLUMN i SET GENERATED BY DEFAULT
ALTER TABLE hr.salary ALTER COLUMN i DROP IDENTITY
ALTER TABLE hr.salary ADD CONSTRAINT c CHECK (amount > -1) NOT VALID
ALTER TABLE hr.salary VALIDATE CONSTRAINT c
ALTER TABLE hr.salary DROP CONSTRAINT c
ALTER TABLE hr.salary SET (fillfactor = 90)
ALTER TABLE hr.salary SET UNLOGGED
ALTER TABLE hr.salary SET LOGGED
ALTER TABLE hr.salary ENABLE ROW LEVEL SECURITY
ALTER TABLE hr.salary RENAME TO wages
ALTER TABLE hr.wages RENAME TO salary
CREATE SCHEMA hr2
ALTER TABLE hr.salary SET SCHEMA hr2
ALTER TABLE hr2.salary SET SCHEMA hr
CREATE ROLE judge_r
ALTER TABLE hr.salary OWNER TO judge_r
REASSIGN OWNED BY judge_r TO CURRENT_USER
TRUNCATE hr.salary
COMMENT ON TABLE hr.salary IS 'x'
COMMENT ON COLUMN hr.salary.name IS 'x'
COMMENT ON CONSTRAINT salary_key ON hr.salary IS 'x'
# indexes
CREATE INDEX salary_name ON hr.salary (name)
CREATE UNIQUE INDEX salary_name2 ON hr.salary (name)
CREATE INDEX CONCURRENTLY salary_expr ON hr.salary (lower(name))
ALTER INDEX hr.salary_expr ALTER COLUMN 1 SET STATISTICS 100
ALTER INDEX hr.salary_expr SET (fillfactor = 80)
ALTER INDEX hr.salary_expr DEPENDS ON EXTENSION plpgsql
ALTER INDEX hr.salary_expr NO DEPENDS ON EXTENSION plpgsql
ALTER INDEX hr.salary_expr RENAME TO salary_e
ALTER TABLE hr.salary_e RENAME TO salary_expr
COMMENT ON INDEX hr.salary_expr IS 'x'
CLUSTER hr.salary USING salary_name
CLUSTER hr.salary
ALTER TABLE hr.salary CLUSTER ON salary_key
ALTER TABLE hr.salary SET WITHOUT CLUSTER
ALTER TABLE hr.salary REPLICA IDENTITY USING INDEX salary_name2
ALTER TABLE hr.salary REPLICA IDENTITY FULL
ALTER TABLE hr.salary REPLICA IDENTITY DEFAULT
ALTER TABLE hr.salary ADD CONSTRAINT salary_u UNIQUE USING INDEX salary_name2
ALTER TABLE hr.salary DROP CONSTRAINT salary_u
REINDEX TABLE hr.salary
REINDEX TABLE CONCURRENTLY hr.salary
REINDEX INDEX hr.salary_name
REINDEX INDEX CONCURRENTLY hr.salary_name
VACUUM FULL hr.salary
ANALYZE hr.salary
CREATE TABLESPACE judge_t LOCATION ''
ALTER TABLE hr.salary SET TABLESPACE judge_t
ALTER INDEX hr.salary_name SET TABLESPACE judge_t
ALTER TABLE ALL IN TABLESPACE judge_t SET TABLESPACE pg_default
ALTER INDEX ALL IN TABLESPACE judge_t SET TABLESPACE pg_default
DROP TABLESPACE judge_t
DROP INDEX hr.salary_expr
DROP INDEX CONCURRENTLY hr.salary_name
# foreign keys
ALTER TABLE hr.other ADD CONSTRAINT fk FOREIGN KEY (s) REFERENCES hr.salary DEFERRABLE
ALTER TABLE hr.other ALTER CONSTRAINT fk DEFERRABLE INITIALLY DEFERRED
ALTER TABLE hr.other RENAME CONSTRAINT fk TO fk2
COMMENT ON CONSTRAINT fk2 ON hr.other IS 'x'
ALTER TABLE hr.salary ALTER COLUMN id TYPE bigint
ALTER TABLE hr.other ALTER COLUMN s TYPE bigint
ALTER TABLE hr.other DISABLE TRIGGER ALL
ALTER TABLE hr.other ENABLE TRIGGER ALL
ALTER TABLE hr.other DROP CONSTRAINT fk2
ALTER TABLE hr.other ADD CONSTRAINT fk FOREIGN KEY (s) REFERENCES hr.salary
ALTER TABLE hr.salary DROP CONSTRAINT salary_key CASCADE
ALTER TABLE hr.salary ADD PRIMARY KEY (id)
CREATE TABLE hr.third (s bigint REFERENCES hr.salary)
DROP TABLE hr.third
CREATE TABLE hr.third (s bigint REFERENCES hr.other)
DROP TABLE hr.other CASCADE
DROP TABLE hr.third
# sequences, and defaults that use them
CREATE SEQUENCE hr.sq
ALTER TABLE hr.salary ALTER COLUMN amount SET DEFAULT nextval('hr.sq')
ALTER SEQUENCE hr.sq OWNED BY hr.salary.id
ALTER SEQUENCE hr.sq OWNED BY NONE
ALTER SEQUENCE hr.sq INCREMENT 2
ALTER SEQUENCE hr.sq RENAME TO sq2
DROP SEQUENCE hr.sq2 CASCADE
CREATE SEQUENCE hr.sq OWNED BY hr.salary.id
DROP SEQUENCE hr.sq
CREATE TABLE hr.ser (id serial, v text)
ALTER TABLE hr.ser SET UNLOGGED
ALTER TABLE hr.ser OWNER TO judge_r
ALTER TABLE hr.ser SET SCHEMA hr2
ALTER TABLE hr2.ser ALTER COLUMN id TYPE bigint
DROP TABLE hr2.ser
# functions, types, domains, collations
CREATE FUNCTION hr.f() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'
CREATE FUNCTION hr.f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'
CREATE FUNCTION hr.tr() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'
ALTER TABLE hr.salary ALTER COLUMN amount SET DEFAULT hr.f()
ALTER FUNCTION hr.f() RENAME TO ff
DROP FUNCTION hr.ff() CASCADE
ALTER TABLE hr.salary ADD COLUMN gen int GENERATED ALWAYS AS (hr.f(amount)) STORED
CREATE INDEX salary_f ON hr.salary (hr.f(amount))
CREATE POLICY p_f ON hr.salary USING (hr.f(amount) > 0)
CREATE TRIGGER t_f BEFORE UPDATE ON hr.salary FOR EACH ROW EXECUTE FUNCTION hr.tr()
ALTER TABLE hr.salary ADD CONSTRAINT c_f CHECK (hr.f(amount) > 0)
ALTER TRIGGER t_f ON hr.salary DEPENDS ON EXTENSION plpgsql
ALTER FUNCTION hr.tr() DEPENDS ON EXTENSION plpgsql
DROP FUNCTION hr.f(int) CASCADE
DROP FUNCTION hr.tr() CASCADE
CREATE TYPE hr.en AS ENUM ('a', 'b')
CREATE DOMAIN hr.dom AS text
CREATE COLLATION hr.co FROM "C"
ALTER TABLE hr.salary ADD COLUMN e hr.en DEFAULT 'a', ADD COLUMN d hr.dom DEFAULT 'x', ADD COLUMN c text COLLATE hr.co
CREATE INDEX salary_co ON hr.salary (name COLLATE hr.co)
CREATE TABLE hr.only_default (v text DEFAULT 'x'::hr.dom, w text DEFAULT ('a' COLLATE hr.co))
ALTER TYPE hr.en ADD VALUE 'c'
ALTER TYPE hr.en RENAME VALUE 'c' TO 'cc'
ALTER DOMAIN hr.dom SET NOT NULL
ALTER DOMAIN hr.dom DROP NOT NULL
ALTER DOMAIN hr.dom ADD CONSTRAINT dc CHECK (value <> 'q')
ALTER DOMAIN hr.dom RENAME CONSTRAINT dc TO dc2
COMMENT ON CONSTRAINT dc2 ON DOMAIN hr.dom IS 'x'
ALTER DOMAIN hr.dom SET DEFAULT 'y'
DROP TYPE hr.en CASCADE
DROP DOMAIN hr.dom CASCADE
DROP COLLATION hr.co CASCADE
# composite types, and row types of tables
CREATE TYPE hr.comp AS (a int, b text)
ALTER TYPE hr.comp RENAME ATTRIBUTE a TO aa
ALTER TYPE hr.comp ADD ATTRIBUTE c int
ALTER TYPE hr.comp ALTER ATTRIBUTE c TYPE bigint
ALTER TYPE hr.comp DROP ATTRIBUTE c
COMMENT ON COLUMN hr.comp.b IS 'x'
COMMENT ON TYPE hr.comp IS 'x'
GRANT USAGE ON TYPE hr.comp TO judge_r
CREATE TABLE hr.typed OF hr.comp
ALTER TYPE hr.comp RENAME ATTRIBUTE aa TO a CASCADE
ALTER TYPE hr.comp ADD ATTRIBUTE c int CASCADE
ALTER TABLE hr.typed NOT OF
ALTER TABLE hr.typed OF hr.comp
ALTER TYPE hr.comp RENAME TO comp2
CREATE TABLE hr.typed2 OF hr.comp2
DROP TABLE hr.typed2
ALTER TABLE hr.typed NOT OF
DROP TYPE hr.comp2 CASCADE
CREATE TABLE hr.uses_row (s hr.salary, a hr.salary[])
CREATE FUNCTION hr.takes_row(hr.salary) RETURNS SETOF hr.salary LANGUAGE sql AS 'SELECT $1'
CREATE FUNCTION hr.atomic() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM hr.salary; END
CREATE OR REPLACE FUNCTION hr.atomic() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT 1::bigint; END
DROP FUNCTION hr.takes_row
DROP TABLE hr.uses_row
# views and rules
CREATE VIEW hr.v AS SELECT id, name FROM hr.salary
CREATE OR REPLACE VIEW hr.v AS SELECT id, name, 1 AS one FROM hr.salary
ALTER VIEW hr.v ALTER COLUMN one SET DEFAULT 1
ALTER VIEW hr.v RENAME COLUMN one TO uno
ALTER VIEW hr.v SET (security_barrier)
ALTER VIEW hr.v RENAME TO vv
COMMENT ON VIEW hr.vv IS 'x'
CREATE VIEW hr.v2 AS SELECT * FROM hr.vv
CREATE MATERIALIZED VIEW hr.m AS SELECT * FROM hr.salary WITH NO DATA
REFRESH MATERIALIZED VIEW hr.m
CREATE UNIQUE INDEX ON hr.m (id)
REFRESH MATERIALIZED VIEW CONCURRENTLY hr.m
ALTER MATERIALIZED VIEW hr.m CLUSTER ON m_id_idx
CREATE TABLE hr.log (id int)
CREATE RULE ru AS ON DELETE TO hr.salary DO ALSO INSERT INTO hr.log VALUES (old.id)
ALTER RULE ru ON hr.salary RENAME TO ru2
ALTER TABLE hr.salary DISABLE RULE ru2
COMMENT ON RULE ru2 ON hr.salary IS 'x'
DROP TABLE hr.log CASCADE
CREATE FUNCTION hr.g(int) RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE VIEW hr.vg AS SELECT hr.g(id::int) FROM hr.salary
DROP FUNCTION hr.g(int) CASCADE
DROP VIEW hr.v2
DROP VIEW hr.vv
DROP MATERIALIZED VIEW hr.m
CREATE TABLE hr.ctas AS SELECT * FROM hr.salary
CREATE TABLE hr.ctas2 AS SELECT * FROM hr.salary WITH NO DATA
CREATE TABLE hr.ctas3 AS SELECT 1 WHERE EXISTS (SELECT FROM hr.salary) WITH NO DATA
SELECT * INTO hr.sinto FROM hr.salary
CREATE TABLE hr.liked (LIKE hr.salary INCLUDING ALL)
DROP TABLE hr.ctas, hr.ctas2, hr.ctas3, hr.sinto, hr.liked
# triggers, policies, statistics
CREATE FUNCTION hr.tr() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'
CREATE TRIGGER t BEFORE UPDATE ON hr.salary FOR EACH ROW EXECUTE FUNCTION hr.tr()
CREATE OR REPLACE TRIGGER t BEFORE INSERT ON hr.salary FOR EACH ROW EXECUTE FUNCTION hr.tr()
ALTER TABLE hr.salary DISABLE TRIGGER t
ALTER TRIGGER t ON hr.salary RENAME TO t2
COMMENT ON TRIGGER t2 ON hr.salary IS 'x'
DROP TRIGGER t2 ON hr.salary
CREATE TABLE hr.allowed (id int)
CREATE POLICY p ON hr.salary USING (id IN (SELECT id FROM hr.allowed))
ALTER POLICY p ON hr.salary TO judge_r
ALTER POLICY p ON hr.salary RENAME TO p2
ALTER POLICY p2 ON hr.salary USING (true)
COMMENT ON POLICY p2 ON hr.salary IS 'x'
DROP OWNED BY judge_r
CREATE POLICY p3 ON hr.salary USING (id IN (SELECT id FROM hr.allowed))
DROP TABLE hr.allowed CASCADE
CREATE STATISTICS hr.st ON id, name FROM hr.salary
ALTER STATISTICS hr.st SET STATISTICS 10
ALTER STATISTICS hr.st RENAME TO st2
ALTER STATISTICS hr.st2 OWNER TO judge_r
ALTER STATISTICS hr.st2 SET SCHEMA hr2
COMMENT ON STATISTICS hr2.st2 IS 'x'
DROP STATISTICS hr2.st2
# inheritance and partitions
CREATE TABLE hr.child () INHERITS (hr.salary)
ALTER TABLE hr.child NO INHERIT hr.salary
ALTER TABLE hr.child INHERIT hr.salary
ALTER TABLE hr.salary ADD COLUMN more int
ALTER TABLE hr.salary RENAME COLUMN more TO less
ALTER TABLE hr.salary DROP COLUMN less
DROP TABLE hr.child
CREATE TABLE hr.part (id int, v text) PARTITION BY RANGE (id)
CREATE TABLE hr.part1 PARTITION OF hr.part FOR VALUES FROM (0) TO (10)
CREATE TABLE hr.part2 (id int, v text)
CREATE TABLE hr.part_rest PARTITION OF hr.part DEFAULT
CREATE INDEX part2_id ON hr.part2 (id)
CREATE INDEX part_id ON ONLY hr.part (id)
ALTER TABLE hr.part ATTACH PARTITION hr.part2 FOR VALUES FROM (10) TO (20)
ALTER INDEX hr.part_id ATTACH PARTITION hr.part2_id
CREATE TRIGGER pt AFTER INSERT ON hr.part FOR EACH ROW EXECUTE FUNCTION hr.tr()
ALTER TRIGGER pt ON hr.part RENAME TO pt2
ALTER TABLE hr.part DISABLE TRIGGER pt2
ALTER TABLE hr.part ADD PRIMARY KEY (id)
CREATE TABLE hr.ref (id int REFERENCES hr.part)
CREATE TABLE hr.part3 PARTITION OF hr.part FOR VALUES FROM (20) TO (30)
ALTER TABLE hr.part ADD COLUMN w int NOT NULL DEFAULT 1
ALTER TABLE hr.part ADD CONSTRAINT pc CHECK (id >= 0)
ALTER TABLE hr.part RENAME CONSTRAINT pc TO pc2
ALTER TABLE hr.part ALTER COLUMN w TYPE bigint
ALTER TABLE hr.part ALTER COLUMN w DROP NOT NULL
ALTER TABLE hr.part DETACH PARTITION hr.part2
ALTER TABLE hr.part ATTACH PARTITION hr.part2 FOR VALUES FROM (10) TO (20)
DROP TABLE hr.ref
CREATE INDEX part_v ON ONLY hr.part (v)
CREATE INDEX part2_v ON hr.part2 (v)
ALTER INDEX hr.part_v ATTACH PARTITION hr.part2_v
CREATE TABLE hr.refs (id int REFERENCES hr.salary) PARTITION BY RANGE (id)
CREATE TABLE hr.refs1 PARTITION OF hr.refs FOR VALUES FROM (0) TO (10)
ALTER TABLE hr.refs ALTER CONSTRAINT refs_id_fkey DEFERRABLE
ALTER TABLE hr.refs DETACH PARTITION hr.refs1
DROP TABLE hr.refs1
DROP TABLE hr.refs
DROP TABLE hr.part_rest
ALTER TABLE hr.part DETACH PARTITION hr.part2 CONCURRENTLY
DROP TABLE hr.part1
DROP TABLE hr.part
DROP TABLE hr.part2
# publications
CREATE PUBLICATION pu FOR TABLE hr.salary
ALTER PUBLICATION pu SET (publish = 'insert')
ALTER PUBLICATION pu DROP TABLE hr.salary
ALTER PUBLICATION pu ADD TABLE hr.salary (id)
ALTER PUBLICATION pu SET TABLE hr.salary WHERE (id > 0)
CREATE TABLE hr.pub (id int PRIMARY KEY)
ALTER PUBLICATION pu SET TABLE hr.pub
ALTER PUBLICATION pu SET TABLE hr.pub, hr.salary
ALTER PUBLICATION pu SET TABLES IN SCHEMA hr
ALTER PUBLICATION pu SET TABLE hr.salary
ALTER PUBLICATION pu RENAME TO pu2
ALTER PUBLICATION pu2 OWNER TO CURRENT_USER
COMMENT ON PUBLICATION pu2 IS 'x'
DROP PUBLICATION pu2
CREATE PUBLICATION pu FOR TABLE hr.salary, TABLES IN SCHEMA hr2
ALTER PUBLICATION pu DROP TABLES IN SCHEMA hr2
DROP TABLE hr.pub
DROP PUBLICATION pu
# extensions
ALTER EXTENSION plpgsql ADD TABLE hr.salary
ALTER EXTENSION plpgsql DROP TABLE hr.salary
CREATE VIEW hr.ev AS SELECT 1 AS a
ALTER EXTENSION plpgsql ADD VIEW hr.ev
ALTER EXTENSION plpgsql DROP VIEW hr.ev
CREATE SEQUENCE hr.es
ALTER EXTENSION plpgsql ADD SEQUENCE hr.es
ALTER EXTENSION plpgsql DROP SEQUENCE hr.es
# privileges
GRANT SELECT ON hr.salary TO judge_r
GRANT UPDATE (name) ON hr.salary TO judge_r
REVOKE SELECT ON ALL TABLES IN SCHEMA hr FROM judge_r
GRANT SELECT ON ALL TABLES IN SCHEMA hr TO judge_r
GRANT USAGE ON ALL SEQUENCES IN SCHEMA hr TO judge_r
DROP OWNED BY judge_r
ALTER DEFAULT PRIVILEGES FOR ROLE judge_r IN SCHEMA hr GRANT SELECT ON TABLES TO PUBLIC
BEGIN
LOCK TABLE hr.salary
COMMIT
GRANT SET ON PARAMETER work_mem TO judge_r
REVOKE SET ON PARAMETER work_mem FROM judge_r
SECURITY LABEL FOR judge ON TABLE hr.salary IS 'x'
SECURITY LABEL FOR judge ON COLUMN hr.salary.name IS 'x'
SECURITY LABEL FOR judge ON TABLE hr.salary IS NULL
# what operators, operator classes, languages, access methods and others are used by
CREATE OPERATOR hr.=== (leftarg = int, rightarg = int, function = int4eq)
CREATE POLICY p_op ON hr.salary USING (amount OPERATOR(hr.===) 1)
DROP OPERATOR hr.=== (int, int) CASCADE
CREATE OPERATOR CLASS hr.opc FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int)
CREATE INDEX salary_opc ON hr.salary (amount hr.opc)
DROP OPERATOR FAMILY hr.opc USING btree CASCADE
CREATE ACCESS METHOD judge_am TYPE TABLE HANDLER heap_tableam_handler
CREATE TABLE hr.am (id int) USING judge_am
ALTER TABLE hr.am SET ACCESS METHOD heap
CREATE MATERIALIZED VIEW hr.am2 USING judge_am AS SELECT id FROM hr.am
DROP ACCESS METHOD judge_am CASCADE
CREATE TEXT SEARCH CONFIGURATION hr.ts (COPY = simple)
CREATE INDEX salary_ts ON hr.salary USING gin (to_tsvector('hr.ts', name))
DROP TEXT SEARCH CONFIGURATION hr.ts CASCADE
CREATE TYPE hr.castable AS ENUM ('a')
CREATE CAST (hr.castable AS int) WITH INOUT
CREATE VIEW hr.castv AS SELECT id FROM hr.salary WHERE 'a'::hr.castable::int > 0
DROP CAST (hr.castable AS int) CASCADE
CREATE AGGREGATE hr.agg (int) (sfunc = int4pl, stype = int)
CREATE VIEW hr.aggv AS SELECT hr.agg(amount) FROM hr.salary
DROP AGGREGATE hr.agg (int) CASCADE
CREATE CONSTRAINT TRIGGER ct AFTER INSERT ON hr.typed FROM hr.salary DEFERRABLE FOR EACH ROW EXECUTE FUNCTION hr.tr()
DROP TRIGGER ct ON hr.typed
CREATE FUNCTION hr.body() RETURNS int LANGUAGE plpgsql AS 'BEGIN ALTER TABLE hr.salary ADD COLUMN by_function int; DROP SEQUENCE hr.by_function CASCADE; RETURN 1; END'
# transactions
BEGIN
CREATE VIEW hr.in_block AS SELECT id FROM hr.salary
CREATE SEQUENCE hr.in_block2 OWNED BY hr.salary.id
ALTER SEQUENCE hr.in_block2 OWNED BY NONE
ALTER VIEW hr.in_block OWNER TO judge_r
ALTER SEQUENCE hr.in_block2 INCREMENT 2
ALTER VIEW hr.in_block SET (security_barrier)
DROP VIEW hr.in_block
COMMIT
# subscriptions
CREATE TABLE hr.published (id int PRIMARY KEY)
CREATE PUBLICATION judge_pub FOR TABLE hr.published
CREATE SUBSCRIPTION judge_sub CONNECTION 'CONNSTR' PUBLICATION judge_pub WITH (enabled = off, create_slot = off, copy_data = off, slot_name = 'judge')
ALTER SUBSCRIPTION judge_sub SET (slot_name = NONE)
ALTER SUBSCRIPTION judge_sub RENAME TO judge_sub2
DROP SUBSCRIPTION judge_sub2
# foreign tables
CREATE FOREIGN DATA WRAPPER fdw
CREATE SERVER srv FOREIGN DATA WRAPPER fdw
CREATE FOREIGN TABLE hr.ft (a int) SERVER srv
ALTER FOREIGN TABLE hr.ft OPTIONS (ADD x '1')
ALTER FOREIGN TABLE hr.ft ALTER COLUMN a OPTIONS (ADD y '1')
ALTER FOREIGN TABLE hr.ft RENAME COLUMN a TO b
ALTER SERVER srv OPTIONS (ADD z '1')
DROP SERVER srv CASCADE
# temporary tables, schemas
CREATE TEMPORARY TABLE tmp (id int) ON COMMIT DELETE ROWS
DROP TABLE tmp
CREATE SCHEMA hr3 CREATE TABLE one (id int) CREATE VIEW two AS SELECT id FROM one CREATE INDEX ON one (id) CREATE SEQUENCE three
ALTER SCHEMA hr3 RENAME TO hr4
ALTER SCHEMA hr4 OWNER TO judge_r
CREATE TABLE hr.of_other_schema (s hr4.one)
CREATE VIEW hr.over_other_schema AS SELECT * FROM hr4.one
DROP SCHEMA hr4 CASCADE
CREATE TABLE hr.member (id int)
ALTER EXTENSION plpgsql ADD TABLE hr.member
DROP EXTENSION plpgsql CASCADE
DROP SCHEMA hr CASCADE
DROP OWNED BY judge_r
DROP ROLE judge_r
SQL

# a provider of security labels
my $folder = PostgreSQL::Test::Utils::tempdir();
my ($include, $flags) = map { qx(pg_config --$_) } qw(includedir-server cppflags);

chomp $include;
system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', split(' ', $flags), "-I$include", '-o', "$folder/label.so",
	dirname(__FILE__) . '/label.c');

my $node = new_node('judge', streaming => 'logical',
	conf => "session_preload_libraries = '$folder/label.so'\nallow_in_place_tablespaces = on\n");

$node->safe_psql('postgres', 'CREATE DATABASE d');
$node->safe_psql('d', $judge);
$node->safe_psql('d', q{SELECT pg_create_logical_replication_slot('judge', 'pgoutput')});
s/CONNSTR/$node->connstr('d') =~ s{'}{''}gr/e foreach @statements;

my $n = 0;
$node->psql(
	'd',
	"SELECT judge.take(0);\n" . join('', map { "$_;\nSELECT judge.take(" . ++$n . ");\n" } @statements),
	connstr => $node->connstr('d') . ' application_name=judged',
	on_error_stop => 0);

# The record of each statement.
my %of;
push @{ $of{ $_->{text} } }, $_ foreach grep { !$_->{depth} } statements($node, application => 'judged');
my @records = map { shift @{ $of{$_} } // {} } @statements;

is_deeply([ map { $statements[$_] } grep { ($records[$_]{outcome} // '') ne 'ok' } 0 .. $#statements ],
	[], 'each statement succeeds, and has a record');

# What the catalogs say, and by what the records differ on purpose.
my %ignored = (
	# these sequences are stored as their table is
	'ALTER TABLE hr.ser SET UNLOGGED' => 'hr.ser_id_seq',
	# which is found to be so already
	'ALTER TABLE hr.salary ALTER COLUMN i SET GENERATED BY DEFAULT' => 'hr.salary_i_seq',
	# the server stores anew what the policy depends on
	'ALTER POLICY p ON hr.salary TO judge_r' => 'hr.allowed');
my (@missed, %changed);

foreach my $line (split /\n/, $node->safe_psql('d', $changes))
{
	my ($number, $before, $after, $catalogs) = split /\|/, $line;
	my $r = $records[ $number - 1 ];
	my $statement = $statements[ $number - 1 ];
	my %named = map { $_ => 1 } map { ($_->{name}, $_->{to} // ()) } @{ $r->{relations} // [] }, @{ $r->{objects} // [] };

	$changed{$number}{$_} = 1 foreach $before, $after;
	push @missed, "$statement: $before, $after ($catalogs)"
	  if !$named{$before} && !$named{$after} && ($ignored{$statement} // '') ne $after;
}
cmp_ok(scalar(keys %changed), '>', @statements / 2, 'the judge sees changes');
is(join("\n", @missed), '', 'each table that changes is named');

# What is named has changed, or the statement names it; and no object has a number instead.
my (@more, @numbers);
for my $i (0 .. $#statements)
{
	my $statement = $statements[$i];

	foreach my $o (@{ $records[$i]{objects} // [] })
	{
		push @numbers, "$statement: $o->{type} $o->{name}" if $o->{type} eq 'object' || $o->{name} =~ /^\d+$/;
		push @more, "$statement: $o->{action} $o->{type} $o->{name}"
		  if $o->{type} =~ /^(foreign table|materialized view|sequence|table|view)$/ && !$changed{ $i + 1 }{ $o->{name} } &&
		  index($statement, $o->{name}) < 0 && ($ignored{$statement} // '') ne $o->{name};
	}
}
is(join("\n", @more), '', 'no other table is named');
is(join("\n", @numbers), '', 'each object has a name');
$node->stop;
done_testing();
