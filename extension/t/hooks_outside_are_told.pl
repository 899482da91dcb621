
# A library whose hooks are called before ours may hide statements: the server's log says so, and a transaction
# that has written is recorded with what is known of it.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $told = 'other libraries see statements before pg_steno does';
my $headers = `pg_config --includedir-server`;
my $module = PostgreSQL::Test::Utils::tempdir() . '/hides';

chomp $headers;
system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', "-I$headers", '-o', "$module.so", dirname(__FILE__) . '/hides.c');

my $node = new_node('main', conf => "max_prepared_transactions = 2\n");

# How often the log says it, since a place in it.
sub times_told
{
	my ($from) = @_;

	return scalar(() = slurp_file($node->logfile, $from) =~ /\Q$told\E/g);
}

# What the records of transactions of an application say of statements that were not seen.
sub unseen
{
	my ($application) = @_;

	return [ map { $_->{extra}{unseen} } sort { $a->{seq} <=> $b->{seq} } records($node, kind => 'transaction', application => $application) ];
}

is(times_told(0), 0, 'nothing is outside');
{
	my $c = Steno::Client->new($node, application_name => 'inside');

	$c->query($_) foreach 'CREATE TABLE t (a int)', 'INSERT INTO t VALUES (1)', 'BEGIN', 'INSERT INTO t VALUES (2)', 'COMMIT',
	  'BEGIN', 'SELECT 1/0', 'ROLLBACK AND CHAIN', 'INSERT INTO t VALUES (3)', 'COMMIT', 'CREATE TEMP TABLE mine (a int)',
	  'BEGIN', 'SELECT txid_current()', 'ROLLBACK', 'BEGIN', 'SAVEPOINT s', 'SELECT 1/0', 'ROLLBACK TO s', 'INSERT INTO t VALUES (4)', 'COMMIT',
	  'DO $$ BEGIN INSERT INTO t VALUES (5); COMMIT; INSERT INTO t VALUES (6); ROLLBACK; END $$',
	  q{COPY (SELECT txid_current()) TO STDOUT}, q{BEGIN; INSERT INTO t VALUES (7); PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'};
	$c->extended('INSERT INTO t VALUES ($1)', 8);
	$c->quit;
	wait_until 'it has ended', sub { scalar records($node, kind => 'disconnect', application => 'inside') };
	is_deeply([ grep { defined } @{ unseen('inside') } ], [], 'all statements are seen');
	is(times_told(0), 0, 'and nothing is logged');
}

# a library of the session
{
	my $at = -s $node->logfile;
	my @c = map { Steno::Client->new($node, application_name => 'loaded') } 1 .. 2;

	$_->query("LOAD '$module'") foreach @c;
	$_->query('SELECT 1') foreach @c;
	$_->quit foreach @c;
	is(times_told($at), 1, 'LOAD: the log says it once');
	like(slurp_file($node->logfile, $at), qr/Their hooks are called first: ProcessUtility_hook\. What such a hook does not pass on is not recorded\./, 'and which');
}

# a library of the server
{
	my $at = -s $node->logfile;
	my ($c, $log);

	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_steno, $module'");
	$node->restart;
	$log = slurp_file($node->logfile, $at);
	like($log, qr/WARNING:  \Q$told\E/, 'a warning at the start');
	like($log, qr/HINT:  Put "pg_steno" at the end of "shared_preload_libraries"\./, 'and what to do');
	$c = Steno::Client->new($node, application_name => 'hidden');
	$c->query($_) foreach q{COPY t FROM PROGRAM 'echo 11'}, 'BEGIN', q{COPY t FROM PROGRAM 'echo 12'}, 'COMMIT',
	  'BEGIN', q{COPY t FROM PROGRAM 'echo 13'}, 'ROLLBACK', 'INSERT INTO t VALUES (14)',
	  q{COPY t FROM PROGRAM 'echo 15 # host=h password=hush4711'}, q{COPY t FROM PROGRAM 'echo 16 # } . 'x' x 2000 . q{'};
	$c->quit;
	is(value($node, 'SELECT count(*) FROM t WHERE a BETWEEN 11 AND 16'), '5', 'what they have written is there');
	is(scalar(statements($node, application => 'hidden', command => 'COPY')), 0, 'hidden statements have no record');
	my @unseen = @{ unseen('hidden') };

	is_deeply([ @unseen[ 0 .. 3 ] ], [ q{COPY t FROM PROGRAM 'echo 11'}, '', '', undef ], 'but their transactions say so');
	unlike($unseen[4], qr/hush4711/, 'without secrets');
	is(length $unseen[5], 1000, 'and not without end');
	is(times_told($at), 1, 'it is logged once');
}
$node->append_conf('postgresql.conf', "shared_preload_libraries = '$module, pg_steno'");
{
	my $at = -s $node->logfile;
	my $c;

	$node->restart;
	$c = Steno::Client->new($node, application_name => 'first');
	$c->query(q{COPY t FROM PROGRAM 'echo 21'});
	$c->quit;
	is(times_told($at), 0, 'at the end of the list, nothing is outside');
	is(scalar(statements($node, application => 'first', command => 'COPY')), 1, 'and nothing is hidden');
}
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
