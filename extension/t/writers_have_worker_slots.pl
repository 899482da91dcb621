
# Writers are background workers, and need slots of max_worker_processes.  A server that
# has too few of them does not start, whoever has taken them, before or after us.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', start => 0, conf => "max_worker_processes = 8\nsteno.writers = 8\n");
my $library = `pg_config --pkglibdir`;

chomp $library;
# the launcher of logical replication has one of them
refuses_to_start(
	$node, 'as many writers as slots', '',
	qr/FATAL:  too few background worker slots for 8 steno writers/,
	qr/DETAIL:  "max_worker_processes" is 8, and 1 of these slots have been taken by other workers/,
	qr/HINT:  Set "max_worker_processes" to at least 9, /);

$node->append_conf('postgresql.conf', 'max_worker_processes = 9');
$node->start;
is(value($node, 'CREATE EXTENSION pg_steno; SELECT count(*) FROM steno.writers WHERE pid IS NOT NULL'),
	8, 'with one slot more all writers run');
is(value($node, 'SELECT state FROM steno.status'), 'ok', 'and the state says so');
value($node, 'SELECT steno.flush()');
$node->stop;

SKIP:
{
	skip 'no library with another worker', 6 if !-e "$library/pg_prewarm.so";
	refuses_to_start(
		$node, 'another worker before ours',
		"shared_preload_libraries = 'pg_prewarm, pg_steno'",
		qr/FATAL:  too few background worker slots for 8 steno writers/,
		qr/HINT:  Set "max_worker_processes" to at least 10, /);

	# who comes after us finds none, which the server only logs: the audit does not depend on it
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_steno, pg_prewarm'");
	$node->start;
	is(value($node, 'SELECT count(*) FROM steno.writers WHERE pid IS NOT NULL'), 8, 'another one after ours');
	$node->stop;
	like(slurp_file($node->logfile), qr/LOG:  too many background workers/, 'is the one that has no slot');
}
done_testing();
