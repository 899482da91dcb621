
# Statements that functions run while the planner calls them belong to the statement
# that is planned, not to the one before.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main');

$node->safe_psql(
	'postgres', q{
CREATE TABLE looked_at (a int);
INSERT INTO looked_at VALUES (1);
CREATE FUNCTION imm(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
$$ BEGIN RETURN (SELECT max(a) + i FROM public.looked_at); END $$;
CREATE FUNCTION twice(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
$$ DECLARE r int; BEGIN EXECUTE 'SELECT public.imm(1) + 0 * ' || i INTO r; RETURN r; END $$;
CREATE FUNCTION stable_one() RETURNS int LANGUAGE plpgsql STABLE AS
$$ BEGIN RETURN (SELECT min(a) FROM public.looked_at); END $$;
CREATE FUNCTION vol(i int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN RETURN (SELECT a - i FROM public.looked_at); END $$;
CREATE FUNCTION fails(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
$$ BEGIN RETURN (SELECT a / i FROM public.looked_at); END $$;
CREATE FUNCTION opens_cursor() RETURNS int LANGUAGE plpgsql IMMUTABLE AS
$$ DECLARE c CURSOR FOR SELECT a + 10 FROM public.looked_at; i int;
BEGIN OPEN c; FETCH c INTO i; CLOSE c; RETURN i; END $$;
CREATE FUNCTION parallel_one() RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS
$$ BEGIN RETURN (SELECT count(*) FROM public.looked_at WHERE a > 0); END $$;
CREATE TABLE checked (i int);
CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS
$$ DECLARE c CURSOR FOR SELECT a + 20 FROM public.looked_at; i int;
BEGIN OPEN c; FETCH c INTO i; CLOSE c; i := public.imm(5); RETURN new; END $$;
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION at_commit();
});

# Of a session that runs SELECT 'before', the statements and SELECT 'after': pairs of
# the texts of top-level statements and their nested ones, in the order of their
# numbers.
sub causes
{
	my (@statements) = @_;
	my ($session, %by_number, %top);
	my $name = 'run ' . rand;

	$node->psql('postgres', join(";\n", q{SELECT 'before'}, @statements, q{SELECT 'after'}) . ';',
		on_error_stop => 0, connstr => $node->connstr('postgres') . " application_name='$name'");
	foreach my $r (statements($node, application => $name))
	{
		if ($r->{depth})
		{
			push @{ $by_number{ $r->{statement} } }, $r;
		}
		else
		{
			is($top{ $r->{statement} }, undef, "statement $r->{statement} has one record");
			$top{ $r->{statement} } = $r->{text};
		}
	}
	foreach my $number (keys %by_number)
	{
		my %seen;

		$seen{ $_->{substatement} }++ foreach @{ $by_number{$number} };
		is_deeply([ grep { $_ != 1 } values %seen ], [], "substatements of $number have numbers of their own");
	}
	return [ map { my $n = $_; [ $top{$n}, map { "$_->{depth} $_->{text}" } sort { $a->{substatement} <=> $b->{substatement} } @{ $by_number{$n} // [] } ] }
		  sort { $a <=> $b } keys %{ { %top, %by_number } } ];
}

my ($before, $after) = ([q{SELECT 'before'}], [q{SELECT 'after'}]);
my $max = '(SELECT max(a) + i FROM public.looked_at)';

is_deeply(causes('SELECT imm(1)'), [ $before, [ 'SELECT imm(1)', "1 $max" ], $after ], 'a function that is IMMUTABLE');
is_deeply(
	causes('SELECT twice(2)'),
	[ $before, [ 'SELECT twice(2)', "1 $max", '1 SELECT public.imm(1) + 0 * 2' ], $after ],
	'one that is planned while another is called');
is_deeply(
	causes('SELECT vol(3), imm(1)'),
	[ $before, [ 'SELECT vol(3), imm(1)', "1 $max", '1 (SELECT a - i FROM public.looked_at)' ], $after ],
	'planning and execution are numbered on');
is_deeply(
	causes('SELECT * FROM looked_at WHERE a = stable_one()'),
	[ $before, [ 'SELECT * FROM looked_at WHERE a = stable_one()', ('1 (SELECT min(a) FROM public.looked_at)') x 2 ], $after ],
	'one that is called for an estimate');
is_deeply(
	causes('SELECT fails(0)'),
	[ $before, [ 'SELECT fails(0)', '1 (SELECT a / i FROM public.looked_at)' ], $after ],
	'planning that fails');
is_deeply(
	causes('SELECT opens_cursor()'),
	[ $before, [ 'SELECT opens_cursor()', '1 SELECT a + 10 FROM public.looked_at' ], $after ],
	'a cursor in such a function');
is_deeply(
	causes('EXPLAIN SELECT imm(1)'),
	[ $before, [ 'EXPLAIN SELECT imm(1)', "1 $max" ], $after ],
	'EXPLAIN');
is_deeply(
	causes('PREPARE p AS SELECT imm(1)', 'EXECUTE p'),
	[ $before, ['PREPARE p AS SELECT imm(1)'], [ 'EXECUTE p', "1 $max", '1 PREPARE p AS SELECT imm(1)' ], $after ],
	'PREPARE and EXECUTE');
is_deeply(
	causes('DECLARE c CURSOR WITH HOLD FOR SELECT imm(1)'),
	[ $before, [ 'DECLARE c CURSOR WITH HOLD FOR SELECT imm(1)', "1 $max", '1 DECLARE c CURSOR WITH HOLD FOR SELECT imm(1)' ], $after ],
	'DECLARE CURSOR');
is_deeply(
	causes('INSERT INTO checked VALUES (1)'),
	[ $before, [ 'INSERT INTO checked VALUES (1)', '1 SELECT a + 20 FROM public.looked_at', "1 $max" ], $after ],
	'a trigger at commit belongs to the statement before');

# The extended protocol plans when it binds.
{
	my $script = $node->basedir . '/extended.sql';

	append_to_file($script, "SELECT 'first';\nSELECT imm(7);\n");
	$node->command_ok(
		[ 'pgbench', '--no-vacuum', '--transactions', 1, '--protocol', 'extended', '--file', $script, $node->connstr('postgres') . ' application_name=extended' ],
		'the extended protocol');
	my ($planned) = statements($node, application => 'extended', text => 'SELECT imm(7);') ;
	($planned) = statements($node, application => 'extended', text => 'SELECT imm(7)') if !$planned;
	my ($nested) = statements($node, application => 'extended', depth => 1);

	is($nested->{text}, $max, 'its statement is recorded');
	is($nested->{statement}, $planned->{statement}, 'as one of the statement that was planned');
}

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
