
# Lists of objects and relations that are too long for the shape of a record go on in its data parts: the catalogs
# say what DROP ... CASCADE and GRANT ON ALL have done, and each of these names finds its statement.

use strict;
use warnings;

use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $tables = 400;
my $node = new_node('lists', conf => "steno.ring_size = 64kB\nmax_locks_per_transaction = 256\nclient_min_messages = error");

sub rows
{
	my ($sql) = @_;

	return [ split /\n/, value($node, $sql) ];
}

# Names of a record's objects of some types.
sub objects_of
{
	my ($r, $action, $type) = @_;

	return [ sort map { $_->{name} } grep { $_->{action} eq $action && $_->{type} =~ /^$type$/ } @{ $r->{objects} } ];
}

sub omissions
{
	my ($r) = @_;

	return join ' ', sort grep { /omitted|further/ } keys %{ $r->{extra} // {} };
}

$node->safe_psql('postgres', qq{
CREATE ROLE grantee;
CREATE SCHEMA big;
DO \$\$ BEGIN
	FOR i IN 1 .. $tables LOOP
		EXECUTE format('CREATE TABLE big.table_with_a_usual_name_%s (id int PRIMARY KEY, v text)', i);
	END LOOP;
	FOR i IN 1 .. 200 LOOP
		EXECUTE format('CREATE FUNCTION big.function_with_a_usual_name_%s(int) RETURNS int LANGUAGE sql AS ''SELECT 1''', i);
	END LOOP;
END \$\$;
CREATE PROCEDURE big.p() LANGUAGE sql AS 'SELECT 1';
CREATE VIEW big.v AS SELECT 1 AS a;
CREATE SEQUENCE big.s;
});

# ---- what the catalogs say ----

my $relations = rows(q{SELECT oid::regclass FROM pg_class WHERE relnamespace = 'big'::regnamespace AND relkind IN ('r', 'v')});
my $all_tables = rows(q{SELECT oid::regclass FROM pg_class WHERE relnamespace = 'big'::regnamespace AND relkind = 'r'});
my $indexes = rows(q{SELECT oid::regclass FROM pg_class WHERE relnamespace = 'big'::regnamespace AND relkind = 'i'});
my $functions = rows(q{SELECT (pg_identify_object('pg_proc'::regclass, oid, 0)).identity FROM pg_proc
	WHERE pronamespace = 'big'::regnamespace AND prokind = 'f'});

sub is_list
{
	my ($got, $want, $what) = @_;

	is(join("\n", @$got), join("\n", sort @$want), $what);
	return;
}

$node->safe_psql('postgres', $_)
  foreach 'GRANT SELECT ON ALL TABLES IN SCHEMA big TO grantee', 'GRANT USAGE ON ALL SEQUENCES IN SCHEMA big TO grantee',
  'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA big TO grantee', 'GRANT EXECUTE ON ALL PROCEDURES IN SCHEMA big TO grantee',
  'GRANT EXECUTE ON ALL ROUTINES IN SCHEMA big TO grantee', 'BEGIN; DROP SCHEMA big CASCADE; ROLLBACK',
  'DROP SCHEMA big CASCADE';

my @grants = statements($node, command => 'GRANT');
is_list(objects_of($grants[0], 'alter', '.*'), $relations, 'GRANT ON ALL TABLES');
is_list(objects_of($grants[1], 'alter', '.*'), ['big.s'], 'GRANT ON ALL SEQUENCES');
is_list(objects_of($grants[2], 'alter', '.*'), $functions, 'GRANT ON ALL FUNCTIONS');
is_list(objects_of($grants[3], 'alter', '.*'), ['big.p()'], 'GRANT ON ALL PROCEDURES');
is_list(objects_of($grants[4], 'alter', '.*'), [ @$functions, 'big.p()' ], 'GRANT ON ALL ROUTINES');
is(join(' ', map { @{ objects_of($_, 'use', 'schema') } } @grants), 'big big big big big', 'and their schema');

my @drops = statements($node, command => 'DROP SCHEMA');
is(scalar(@drops), 2, 'two drops');
foreach my $r (@drops)
{
	is_list(objects_of($r, 'drop', 'table'), $all_tables, 'DROP SCHEMA CASCADE: tables');
	is_list(objects_of($r, 'drop', 'index'), $indexes, 'indexes');
	is_list(objects_of($r, 'drop', 'function'), $functions, 'functions');
	is_list(objects_of($r, 'drop', '(view|sequence|schema|procedure)'), [qw(big big.p() big.s big.v)], 'and the others');
	is(omissions($r), '', 'nothing is left out');
	is($r->{objects}[$_]{type}, 'table', 'tables come first') foreach 0, 50, $tables - 1;
}

# ---- each name finds its statement ----

foreach my $i (1, 200, $tables)
{
	my $name = "big.table_with_a_usual_name_$i";

	is(scalar(lines($node, '--object', $name, '--command', 'DROP SCHEMA')), 2, "$name: who dropped it");
	is(scalar(lines($node, '--object', $name, '--command', 'GRANT')), 1, "$name: who granted access to it");
	is(scalar(lines($node, '--not-object', $name, '--command', 'DROP SCHEMA')), 0, "$name: all drops are about it");
}
is(scalar(lines($node, '--object', 'big.another', '--command', 'DROP SCHEMA')), 0, 'another name is found nowhere');
is(scalar(lines($node, '--not-object', 'big.another', '--command', 'DROP SCHEMA')), 2, 'and excludes none');
is(value($node, q{SELECT count(*) FROM steno.trail(NULL) WHERE command = 'DROP SCHEMA'
	AND 'big.table_with_a_usual_name_400' IN (SELECT name FROM unnest(objects))}), '2', 'also in SQL');
is(value($node, q{SELECT count(*) FROM steno.trail(NULL, object => 'big.table_with_a_usual_name_399') WHERE command = 'DROP SCHEMA'}),
	'2', 'and by the object that SQL asks for');

# ---- relations, behind views with long names ----

my $deep = 'SELECT 1 AS deep';
$node->safe_psql('postgres', q{
CREATE TABLE secret (id int, v text);
DO $$ BEGIN
	EXECUTE format('CREATE VIEW view_%s_000 AS SELECT id FROM secret', repeat('x', 50));
	FOR i IN 1 .. 150 LOOP
		EXECUTE format('CREATE VIEW view_%s_%s AS SELECT id FROM view_%s_%s', repeat('x', 50), lpad(i::text, 3, '0'),
			repeat('x', 50), lpad((i - 1)::text, 3, '0'));
	END LOOP;
END $$;
SELECT id AS deep FROM } . 'view_' . 'x' x 50 . '_150');
my ($hidden) = statements($node, text => qr/^SELECT id AS deep/);
is(scalar(@{ $hidden->{relations} }), 152, 'each view and the table');
is(omissions($hidden), '', 'nothing is left out');
is($hidden->{relations}[0]{name}, 'public.secret', 'the table comes first');
is_deeply([ map { @{ $_->{columns}{select} // [] } } @{ $hidden->{relations} } ], [ ('id') x 152 ], 'each with its column');
is(scalar(grep { !defined $_->{via} } @{ $hidden->{relations} }), 1, 'all but the first are reached through a view');
is(scalar(lines($node, '--object', 'public.secret.id', '--grep', '^SELECT id AS deep')), 1, 'it is found by a column');

# ---- in a transaction block, in a function, with parameters, by a cursor ----

my $view = 'view_' . 'x' x 50 . '_150';
$node->safe_psql('postgres', "BEGIN; DECLARE c CURSOR FOR SELECT id AS cursor FROM $view; FETCH c; COMMIT");
$node->safe_psql('postgres', "DO 'BEGIN PERFORM id AS nested FROM $view; END'");
$node->safe_psql('postgres', "PREPARE q(int, text) AS SELECT id AS prepared FROM $view WHERE id = \$1 OR v = \$2"
	=~ s/ OR v = \$2/ AND \$2 IS NOT NULL/r . "; EXECUTE q(7, 'seven')");
my @others = grep { @{ $_->{relations} // [] } > 100 } statements($node, text => qr/AS (cursor|nested|prepared)/);
is(scalar(@others), 3, 'one record each');
foreach my $r (@others)
{
	is(scalar(@{ $r->{relations} }), 152, substr($r->{text}, 0, 30) . ': all relations');
	is(omissions($r), '', 'nothing is left out');
}
is_deeply((grep { /AS prepared/ } map { $_->{text} } @others) ? [ map { @{ $_->{params} // [] } } @others ] : [], [ 7, 'seven' ],
	'parameters stand beside them');

gapless($node, 'no session has gaps');
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
