
# Columns of a record: quoted names, whole rows, system columns, wide tables, several views, and
# shapes that are kept from one execution to the next.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $wide = join ', ', map { "c$_ int" } 1 .. 600;
my $widest = join ', ', map { sprintf "a_column_whose_name_is_not_short_%04d int", $_ } 1 .. 1600;

$node->safe_psql('postgres', qq{
CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0;
CREATE ROLE owner_of_views;
CREATE TABLE t (id int PRIMARY KEY, a int, b int, gone int, "Odd, ""name" int, "*" int);
ALTER TABLE t DROP COLUMN gone;
CREATE TABLE sums (a int, twice int GENERATED ALWAYS AS (a * 2) STORED);
CREATE TABLE parent (p int);
CREATE TABLE child (c int) INHERITS (parent);
CREATE TABLE wide ($wide);
CREATE TABLE widest ($widest);
CREATE VIEW va AS SELECT a FROM t;
CREATE VIEW vb AS SELECT b FROM t;
CREATE VIEW grouped AS SELECT a, count(*) FROM t GROUP BY a;
CREATE VIEW guarded WITH (security_barrier) AS SELECT a FROM t WHERE b > 0;
CREATE VIEW invoked WITH (security_invoker) AS SELECT b FROM t;
CREATE VIEW joined AS SELECT va.a, x.b FROM va, t x WHERE x.id IN (SELECT a FROM sums);
CREATE VIEW theirs AS SELECT a FROM t;
CREATE VIEW invoked_inside AS SELECT b FROM invoked;
GRANT SELECT ON t TO owner_of_views;
ALTER VIEW theirs OWNER TO owner_of_views;
CREATE TABLE hidden (id int, owner int);
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON hidden USING (owner IN (SELECT a FROM t));
CREATE FUNCTION reads() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT max(b) FROM t); END';
});

# Statement, and below it, indented, the relations of its record.
my $table = <<'END';
SELECT * FROM t
	t select(id,a,b,"Odd, ""name","*")
SELECT t FROM t
	t select(*)
SELECT ctid, xmin, tableoid FROM t
	t select(tableoid,xmin,ctid)
SELECT count(*) FROM t
	t select()
SELECT "*" FROM t
	t select("*")
SELECT 1 FROM t WHERE a = 1 ORDER BY b
	t select(a,b)
DELETE FROM t WHERE a = 5
	t select(a)
INSERT INTO sums (a) VALUES (1)
	sums insert(a)
SELECT twice FROM sums
	sums select(twice)
SELECT p FROM parent
	parent select(p)
UPDATE t SET a = b WHERE id = 1 RETURNING "Odd, ""name"
	t select(id,b,"Odd, ""name") update(a)
SELECT t.b FROM t, va WHERE t.id = va.a
	t select(id,b)
	va select(a)
	t select(a) via va
SELECT va.a FROM va, t WHERE t.id = va.a
	va select(a)
	t select(id)
	t select(a) via va
SELECT 1 FROM va, vb WHERE va.a = vb.b
	va select(a)
	vb select(b)
	t select(a) via va
	t select(b) via vb
SELECT g.a FROM grouped g, va, vb
	grouped select(a)
	va select()
	vb select()
	t select(a) via va
	t select(b) via vb
	t select(a) via grouped
SELECT a FROM guarded
	guarded select(a)
	t select(a,b) via guarded
SELECT t.a, invoked.b FROM t, invoked
	t select(a)
	invoked select(b)
	t select(b) via invoked
SELECT b FROM invoked_inside
	invoked_inside select(b)
	invoked select(b) via invoked_inside
	t select(b) via invoked
SELECT theirs.a FROM theirs, va
	theirs select(a)
	va select()
	t select(a) via theirs
	t select(a) via va
SELECT a FROM joined
	joined select(a)
	sums select(a) via joined
	t select(a) via va
	t select(id,b) via joined
	va select(a) via joined
SELECT id FROM va JOIN t USING (a)
	va select(a)
	t select(id,a)
	t select(a) via va
SELECT c1, c70, c300 FROM wide
	wide select(c1,c70,c300)
SELECT c1, c71, c300 FROM wide
	wide select(c1,c71,c300)
SELECT c1, c70, c301 FROM wide
	wide select(c1,c70,c301)
SELECT c600 FROM wide
	wide select(c600)
SELECT a FROM t
	t select(a)
SELECT b FROM t
	t select(b)
SELECT a, b FROM t
	t select(a,b)
UPDATE t SET a = 1
	t update(a)
UPDATE t SET b = 1
	t update(b)
INSERT INTO t (id, a) SELECT 1, 2 WHERE false
	t insert(id,a)
INSERT INTO t (id, b) SELECT 1, 2 WHERE false
	t insert(id,b)
UPDATE va SET a = 3
	va update(a)
	t update(a) via va
INSERT INTO va (a) SELECT 4 WHERE false
	va insert(a)
	t insert(a) via va
DELETE FROM va WHERE false
	va
	t via va
COPY (SELECT a FROM va) TO '/dev/null'
	va select(a)
	t select(a) via va
COPY t (a, "*") FROM '/dev/null'
	t insert(a,"*")
CREATE TABLE made AS SELECT vb.b FROM vb, t
	vb select(b)
	t select()
	t select(b) via vb
SELECT reads()
1> (SELECT max(b) FROM t)
	t select(b)
END

my @cases = cases_of($table);

# A relation as the table above has it.
sub shown
{
	my ($r) = @_;
	my $line = $r->{name} =~ s/^public\.//r;

	foreach my $access (qw(select insert update))
	{
		my $columns = $r->{columns}{$access} or next;

		$line .= " $access(" . join(',', @$columns) . ')';
	}
	$line .= ' via ' . $r->{via} =~ s/^public\.//r if defined $r->{via};
	return $line;
}

# The relations of a record.  Their order depends on what the planner makes of a query.
sub columns_of
{
	my ($r) = @_;

	return sort map { shown($_) } @{ $r->{relations} // [] };
}

foreach my $id ('off', 'on')
{
	my @records = run_cases($node, 'postgres', "id_$id", "DROP TABLE IF EXISTS made;\nSET compute_query_id = $id;\n", @cases);

	foreach my $case (@cases)
	{
		my @seen = columns_of(shift @records);
		my @wanted = sort @{ $case->{has} };

		is_deeply(\@seen, \@wanted, "$case->{text}; compute_query_id $id") or diag explain \@seen;
	}
}

# A policy's query is not the statement's, and reaches its relation through no view.
$node->safe_psql('postgres', q{
CREATE ROLE reader;
GRANT SELECT ON hidden, t TO reader;
SET ROLE reader;
SELECT id FROM hidden;
});
my ($hidden) = grep { $_->{text} eq 'SELECT id FROM hidden' } statements($node);
is_deeply([ columns_of($hidden) ], [ 'hidden select(id)', 't select(a)' ], 'a policy of row security');

# A prepared statement after a column of its view's table was renamed in another session.
my $session = Steno::Client->new($node);
$session->query('PREPARE q AS SELECT a FROM va WHERE a > $1');
$session->query('EXECUTE q (1)') foreach 1 .. 8;
$node->safe_psql('postgres', 'ALTER TABLE t RENAME COLUMN a TO amount');
$session->query('EXECUTE q (2)') foreach 1 .. 8;
$session->quit;
my @prepared = grep { $_->{text} =~ /^PREPARE q/ && @{ $_->{relations} // [] } } statements($node);
is(scalar(@prepared), 16, 'each execution has its record');
is_deeply([ map { [ columns_of($_) ] } @prepared[ 0 .. 7 ] ], [ ([ 't select(a) via va', 'va select(a)' ]) x 8 ], 'the name before');
is_deeply([ map { [ columns_of($_) ] } @prepared[ 8 .. 15 ] ], [ ([ 't select(amount) via va', 'va select(a)' ]) x 8 ], 'the name after');

# The view is another one, with the same name of a column.
$node->safe_psql('postgres', 'CREATE OR REPLACE VIEW va AS SELECT b AS a FROM t; SELECT a FROM va');
my ($after) = (grep { $_->{text} =~ /^SELECT a FROM va/ } statements($node))[-1];
is_deeply([ columns_of($after) ], [ 't select(b) via va', 'va select(a)' ], 'a view with another query');

# All columns of the widest table: some do not fit, and the record says so.
$node->safe_psql('postgres', 'SELECT * FROM widest');
my ($all) = grep { $_->{text} eq 'SELECT * FROM widest' } statements($node);
my $columns = $all->{relations}[0]{columns}{select};
is(@$columns + ($all->{extra}{columns_omitted} // 0), 1600, 'columns and those that are left out');
cmp_ok(scalar(@$columns), '>', 100, 'many columns fit');
is($columns->[99], 'a_column_whose_name_is_not_short_0100', 'they are the first ones');
is($all->{relations}[0]{columns_omitted}, $all->{extra}{columns_omitted} ? 'select' : undef, 'the relation says that there are more');

# Shapes that are kept take the places of others, with their sets of columns: two wide tables, whose
# first columns are the same.
{
	my @many = map { "SELECT x.c1, x.c$_->[0], y.a_column_whose_name_is_not_short_00$_->[1] FROM wide x, widest y WHERE false" }
	  [ 70, 90 ], [ 71, 90 ], [ 70, 91 ], [ 1, 90 ];
	my @others = map { "SELECT c$_ FROM wide WHERE false" } 2 .. 6;
	my @sql = map { ($many[0], @others, $_, $many[0]) } @many;
	my @want = map { /x\.(c\d+), y\.(\w+)/ ? ($1 eq 'c1' ? 'wide select(c1)' : "wide select(c1,$1)", "widest select($2)") : () } @sql;

	$node->safe_psql('postgres', "SET application_name = 'kept';" . join ';', @sql);
	is_deeply([ map { map { shown($_) } @{ $_->{relations} } } statements($node, application => 'kept', text => qr/wide x/) ],
		\@want, 'kept shapes have their columns');
}

# Many views of one table: each reaches it for itself.  If not everything fits, each relation says what is missing.
$node->safe_psql('postgres', q{
CREATE TABLE many (id int, c0 int, c1 int, c2 int, c3 int, c4 int);
DO $$ BEGIN
	FOR i IN 1 .. 600 LOOP
		EXECUTE format('CREATE VIEW view_%s AS SELECT c%s FROM many WHERE id > 0', i, i % 5);
	END LOOP;
END $$});
foreach my $n (20, 100, 600)
{
	my $sql = 'SELECT id, ARRAY[' . join(', ', map { sprintf '(SELECT c%d FROM view_%d LIMIT 1)', $_ % 5, $_ } 1 .. $n) . '] FROM many';
	my $r;
	my @wrong;
	my %places;

	$node->safe_psql('postgres', $sql);
	($r) = grep { $_->{text} eq $sql } statements($node);
	foreach my $one (@{ $r->{relations} })
	{
		my ($number) = ($one->{via} // $one->{name}) =~ /view_(\d+)$/;
		my $names = join ',', @{ $one->{columns}{select} // [] };
		my $wanted =
			!defined $number ? 'id'
		  : defined $one->{via} ? join(',', 'id', 'c' . $number % 5)
		  : 'c' . $number % 5;

		push @wrong, $one if $names ne $wanted && ($one->{columns_omitted} // '') ne 'select';
		$places{ $one->{via} // '' }{ $one->{name} }++;
	}
	is_deeply(\@wrong, [], "$n views: the columns of each relation, or that there are more") or diag explain $wrong[0];
	is(@{ $r->{relations} } + ($r->{extra}{relations_omitted} // 0), 2 * $n + 1, "$n views: relations and those that are left out");
	next if $r->{extra}{relations_omitted};
	is_deeply(
		\%places,
		{
			(map { ("public.view_$_" => { 'public.many' => 1 }) } 1 .. $n),
			'' => { 'public.many' => 1, map { ("public.view_$_" => 1) } 1 .. $n }
		},
		"$n views: each has its table");
}
is(scalar(grep { /view_600/ } map { decode_json($_)->{text} } lines($node, '--object', 'public.many.c3', '--kind', 'statement')), 1,
	'the statement with columns that are left out is found by a column')
  or diag explain [ map { substr decode_json($_)->{text}, 0, 80 } lines($node, '--object', 'public.many.c3') ];

# The names of columns in a database with another encoding.
$node->safe_psql('latin', "CREATE TABLE gehalt (\"Gr\xc3\xb6\xc3\x9fe\" int); SELECT * FROM gehalt",
	extra_params => [], connstr => $node->connstr('latin') . ' client_encoding=UTF8');
my ($latin) = grep { ($_->{text} // '') eq 'SELECT * FROM gehalt' } statements($node);
is($latin->{relations}[0]{columns}{select}[0], qq("Gr\x{f6}\x{df}e"), 'a name in LATIN1');

# A filter by column.
sub found_by
{
	my ($object) = @_;

	return map { decode_json($_)->{text} } lines($node, '--object', $object, '--application', 'id_off', '--kind', 'statement');
}

is_deeply([ grep { /wide/ } found_by('wide.c70') ],
	[ 'SELECT c1, c70, c300 FROM wide', 'SELECT c1, c70, c301 FROM wide' ], 'statements that read a column');
ok((grep { $_ eq 'SELECT t FROM t' } found_by('public.t.b')), 'a whole row has each of its columns');
ok(!(grep { $_ eq 'SELECT a FROM t' } found_by('t.b')), 'another column is not it');
ok((grep { $_ eq 'SELECT 1 FROM va, vb WHERE va.a = vb.b' } found_by('t.b')), 'a column that a view reads');

$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
