
# Output functions of types from other extensions are called for the parameters in records.  If they
# fail, what they leave behind is cleaned up, and their changes are undone; a cancel request that
# interrupts them cancels the statement.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $folder = PostgreSQL::Test::Utils::tempdir();
my $include = qx(pg_config --includedir-server);
my ($c, $other, @found, $log);

chomp $include;
system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', "-I$include", '-o', "$folder/output.so",
	dirname(__FILE__) . '/output.c');
value($node, qq{
CREATE TABLE printed (a int);
CREATE TABLE held (a int);
CREATE TABLE locked (a int);
INSERT INTO held VALUES (1);
CREATE TYPE act;
CREATE FUNCTION act_in(cstring) RETURNS act IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
CREATE FUNCTION act_out(act) RETURNS cstring STRICT LANGUAGE C AS '$folder/output.so';
CREATE TYPE act (INPUT = act_in, OUTPUT = act_out, LIKE = int4);
CREATE TYPE acts AS (a act, b int);
CREATE DOMAIN deed AS act;
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE FUNCTION nested(n int) RETURNS int LANGUAGE plpgsql AS \$\$
DECLARE
	a act := n::text::act;
BEGIN
	PERFORM 1 WHERE a IS NULL;
	RETURN n;
END \$\$;
CREATE FUNCTION in_parallel(t text) RETURNS bool PARALLEL SAFE LANGUAGE plpgsql AS \$\$
DECLARE
	a act := 9;
	m mood := 'happy';
	i int[] := '{1,2}';
BEGIN
	PERFORM 'parallel' WHERE a IS NULL OR m IS NULL OR i IS NULL;
	RETURN true;
END \$\$;
});

sub is_clean
{
	my ($what) = @_;

	is(value($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'held'::regclass}), 0, "$what: no lock is left");
}

# ---- failures, and what functions leave ----
$c = Steno::Client->new($node, application_name => 'output');
foreach my $act (0, 1, 2, 5, 6, 7, 8)
{
	my $answer = $c->extended("SELECT \$1::act IS NULL, 'act $act'", $act);

	is($answer->{rows}[0][1], "act $act", "act $act: the statement succeeds");
	is_clean("act $act");
}
$c->query('BEGIN');
foreach my $type ('act', 'deed', 'act[]', 'acts')
{
	my $value = $type eq 'act[]' ? '{1}' : $type eq 'acts' ? '(1,2)' : '1';
	my $answer = $c->extended("SELECT \$1::$type IS NULL, '$type'", $value);

	is($answer->{rows}[0][1], $type, "$type, in a block: the statement succeeds");
	is_clean($type);
}
is($c->query('SELECT nested(1)')->{rows}[0][0], 1, 'a nested statement');
is_clean('nested');
is($c->query('SAVEPOINT s')->{sqlstate}, undef, 'a savepoint');
$c->extended("SELECT \$1::act IS NULL, 'in a savepoint'", 1);
is($c->query('ROLLBACK TO s')->{sqlstate}, undef, 'which is rolled back to');
is($c->query('COMMIT')->{sqlstate}, undef, 'the transaction commits');
is($c->query('SELECT count(*) FROM printed')->{rows}[0][0], 0, 'what an output function has done is undone');

# a value stored elsewhere, whose text is its bytes
$c->query(q{CREATE TEMP TABLE big (a text, m mood[]); ALTER TABLE big ALTER a SET STORAGE EXTERNAL;
	INSERT INTO big VALUES (repeat('x', 10000), '{sad,happy}')});
$c->query(q{DO $$ DECLARE b big; BEGIN SELECT * INTO b FROM big; PERFORM 'stored' WHERE b.a IS NULL OR b.m IS NULL; END $$});

# An error is one even if its code says success; its statement has not been interrupted.
like($c->query(q{SELECT '10'::act})->{message} // '', qr/an error without a code/, 'an error without a code');

# where no subtransaction is possible
$c->query($_) foreach (
	'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0',
	'SET ' . forced_parallel($node) . ' = on');
is($c->query(q{SELECT count(*) FROM pg_class WHERE in_parallel(relname) AND relname = 'printed'})->{sqlstate}, undef, 'parallel workers');
$c->quit;

@found = sort { $a->{seq} <=> $b->{seq} } statements($node, pid => $c->{pid}, text => qr/act \d'$/);
is_deeply(
	[ map { [ $_->{text} =~ /(\d)'$/, $_->{outcome}, $_->{params}[0] ] } @found ],
	[
		map { [ $_, 'ok', $_ =~ /[156]/ ? '<not recorded>' : "act $_" ] } (0, 1, 2, 5, 6, 7, 8)
	],
	'values that can be had');
@found = statements($node, pid => $c->{pid}, text => qr/^SELECT 'stored'/);
is(join(' ', map { length } grep { defined } @{ $found[0]{params} }), '10000 11', 'values that are stored elsewhere, or name labels of an enum');
@found = grep { $_->{text} =~ /^SELECT 'parallel'/ } statements($node);
cmp_ok(scalar @found, '>', 0, 'nested statements of parallel workers');
is(scalar(grep { !grep { defined && $_ eq '{1,2}' } @{ $_->{params} } } @found), 0, 'have the values that need no code of others');
is_deeply(
	[ map { join ' ', @$_{qw(outcome sqlstate message)} } statements($node, pid => $c->{pid}, text => qr/'10'::act/) ],
	['error 00000 an error without a code'],
	'so says the record');
is(scalar(grep { grep { defined && $_ eq 'act 9' } @{ $_->{params} } } @found), 0, 'and not those that do');

# ---- cancels ----
$c = Steno::Client->new($node, application_name => 'cancels');
$other = Steno::Client->new($node, application_name => 'other');
$other->query('BEGIN; LOCK TABLE locked');
foreach my $act (3, 4)
{
	$c->query(q{SET statement_timeout = '300ms'});
	my $answer = $c->extended("SELECT \$1::act IS NULL, pg_sleep(60), 'timeout $act'", $act);

	is($answer->{sqlstate}, '57014', "act $act: a timeout cancels the statement");
	like($answer->{message}, qr/statement timeout/, 'and says so') or diag(explain($answer));
	is_clean("act $act");
	$c->query('RESET statement_timeout');
	$c->parse('', "SELECT \$1::act IS NULL, pg_sleep(60), 'cancel $act'")->bind_values('', '', $act)->execute('')->sync->send_all;
	wait_until('the output function runs',
		sub { value($node, "SELECT count(*) FROM pg_locks WHERE pid = $c->{pid} AND relation IN ('held'::regclass, 'locked'::regclass)") });
	value($node, "SELECT pg_cancel_backend($c->{pid})");
	$answer = $c->finish;
	is($answer->{sqlstate}, '57014', "act $act: so does a request");
	like($answer->{message}, qr/user request/, 'and says so');
	is_clean("act $act");
	is($c->query("SELECT 'after'")->{rows}[0][0], 'after', 'the session goes on');
}
@found = sort { $a->{seq} <=> $b->{seq} } statements($node, pid => $c->{pid}, text => qr/pg_sleep/);
is_deeply(
	[ map { [ $_->{text} =~ /'(\w+ \d)'$/, $_->{outcome}, $_->{sqlstate}, $_->{params}[0] ] } @found ],
	[ map { my $act = $_; map { [ "$_ $act", 'error', '57014', '<not recorded>' ] } qw(timeout cancel) } (3, 4) ],
	'each statement has one record')
  or diag(explain(\@found));

# ---- the end of a session ----
$c->parse('', "SELECT \$1::act IS NULL, 'terminated'")->bind_values('', '', 4)->execute('')->sync->send_all;
wait_until('the output function runs',
	sub { value($node, "SELECT count(*) FROM pg_locks WHERE pid = $c->{pid} AND relation = 'locked'::regclass") });
value($node, "SELECT pg_terminate_backend($c->{pid})");
wait_until('the session ends', sub { !value($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid}") });
$other->query('ROLLBACK');
$other->quit;
@found = statements($node, pid => $c->{pid}, text => qr/terminated/);
is_deeply([ map { [ $_->{outcome}, $_->{sqlstate} ] } @found ], [ [ 'error', '57P01' ] ], 'its statement has one record')
  or diag(explain(\@found));

$node->stop;
$log = slurp_file($node->logfile);
unlike($log, qr/WARNING:  (?!type output function)|TRAP|PANIC/, 'the server warns of nothing');
like($log, qr/LOG:  pg_steno could not record a parameter: this value is damaged/, 'damaged data is said in the log');
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
