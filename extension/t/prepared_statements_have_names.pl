
# A record has the name of the prepared statement and of the portal that were executed, as the client knows
# them: of queries of all paths to a record, of utility statements, and of those that fail while they run.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => q{steno.log_start = 'misc'});

$node->safe_psql('postgres', q{
CREATE TABLE t (i int PRIMARY KEY, s text);
INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 100) g;
CREATE PROCEDURE p(n int) LANGUAGE plpgsql AS 'BEGIN PERFORM count(*) FROM t WHERE i < n; COMMIT; END';
CREATE FUNCTION loops(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	unused text := 'x';
	r record;
	named CURSOR (m int) FOR SELECT i FROM t WHERE i < m;
	sum int := 0;
	other int := 7;
BEGIN
	FOR r IN SELECT i FROM t WHERE i <= n LOOP sum := sum + r.i; END LOOP;
	FOR r IN named(3) LOOP sum := sum + 1; END LOOP;
	SELECT count(*) + other INTO sum FROM t WHERE i = $1;
	RETURN sum;
END $$;
});

my @expected;
my $c = Steno::Client->new($node, application_name => 'names');

# Execute a prepared statement in a portal; what its record has.
sub run
{
	my ($portal, $name, $text, @values) = @_;

	$c->bind_values($portal, $name, @values)->execute($portal);
	push @expected, "$text|$name|$portal";
	return;
}

sub prepare
{
	my ($name, $text) = @_;

	$c->parse($name, $text);
	return;
}

my $select = 'SELECT s FROM t WHERE i = $1';
my $same = 'SELECT s FROM t WHERE i < $1 AND i > 98';
my $insert = 'INSERT INTO t VALUES ($1, $2)';
my $long = 'a' x 62 . "\xc3\xa4";    # 64 bytes: cut within a character

prepare('one', $select);
prepare('two', $select);
prepare('three', $same);
prepare('ins', $insert);
prepare('call', 'CALL p($1)');
prepare('show', 'SHOW work_mem');
prepare($long, $select);

# generic plans, and the two ways to the same shape by turns
foreach my $i (1 .. 12)
{
	run('', 'one', $select, $i);
	run('', 'two', $select, $i);
	run('', 'three', $same, 200);
	run('', 'ins', $insert, 1000 + $i, 'x');
	run('', 'show', 'SHOW work_mem');
	run($i % 3 ? '' : "portal $i", 'one', $select, $i);
	$c->parse('', $select);
	run('', '', $select, $i);
	$c->sync->finish;
	$c->query("SELECT s FROM t WHERE i = $i");
	push @expected, "SELECT s FROM t WHERE i = $i||";
}
run('', 'call', 'CALL p($1)', 5);
run('called', 'call', 'CALL p($1)', 6);
$c->sync->finish;
$c->bind_values('', $long, 5)->execute('')->sync->finish;
push @expected, "$select|" . 'a' x 62 . '|';

# a name that means another statement later
$c->put('C', "Sone\0")->sync->finish;
prepare('one', $same);
run('', 'one', $same, 300) foreach 1 .. 8;
$c->sync->finish;

# portals that are open at once, and read in parts
$c->query('BEGIN');
push @expected, 'BEGIN||';
$c->bind_values('p1', 'two', 1)->bind_values('p2', 'three', 300)->execute('p2', 1)->execute('p1', 1)->execute('p2')->execute('p1')->sync->finish;
push @expected, "$select|two|p1", "$same|three|p2";
$c->query('DECLARE curs CURSOR FOR SELECT i FROM t');
$c->query('FETCH 3 FROM curs');
push @expected, 'DECLARE curs CURSOR FOR SELECT i FROM t||', 'FETCH 3 FROM curs||';
$c->query('COMMIT');
push @expected, 'COMMIT||';

# failures while they run
prepare('fails', 'SELECT 1 / (i - $1) FROM t');
run('f', 'fails', 'SELECT 1 / (i - $1) FROM t', 2);
$c->sync->finish;
run('', 'ins', $insert, 1, 'duplicate');
$c->sync->finish;

# SQL's PREPARE gives names that the text of EXECUTE has; nested statements have none
$c->query('PREPARE sqlp AS SELECT 1');
$c->query('EXECUTE sqlp');
$c->query('SELECT loops(2)');
push @expected, 'PREPARE sqlp AS SELECT 1||', 'EXECUTE sqlp||', 'SELECT loops(2)||';
$c->quit;

my @all = by_statement(statements($node, application => 'names'));
my @got = map { join '|', $_->{text}, $_->{prepared} // '', $_->{portal} // '' } grep { !$_->{depth} } @all;
is_deeply([ sort @got ], [ sort @expected ], 'names of prepared statements and portals');
my @fetched = grep { $_->{depth} && $_->{text} =~ /^DECLARE/ } @all;
is_deeply([ map { $_->{portal} } @fetched ], ['curs'], 'the query of a cursor has its name');
my @start = records($node, application => 'names', kind => 'start');
is_deeply([ map { $_->{prepared} } grep { $_->{text} eq 'SHOW work_mem' } @start ], [ ('show') x 12 ], 'start records have them, too');

# variables of functions that a statement does not use
my %nested = map { $_->{text} => $_ } grep { $_->{depth} } @all;
my ($count) = grep { /^SELECT count/ } sort keys %nested;
is_deeply([ grep { defined } @{ $nested{$count}{params} } ], [ 2, 7 ], 'values of the variables that a statement uses');
is($nested{$count}{params}[0], 2, 'by their numbers');
is($nested{$count}{portal}, undef, 'a query of a function has no portal');
my (undef, $text) = steno_result('cat', '--application', 'names', '--grep', 'other', trail($node));
like($text, qr/\| \$1=2, \$\d+=7( |$)/m, 'steno cat shows these alone') or diag $text;
like((steno_result('cat', '--application', 'names', '--grep', 'SELECT 1 / ', trail($node)))[1], qr/ prepared=fails portal=f$/m, 'and the names');

$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
