
# Completeness: the server's own log and the trail have the same statements, compared as multisets of
# process and text, in both directions.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

# A line of the log begins with a mark; what follows without one continues it.
my $node = new_node(
	'main', conf => q{
log_line_prefix = '@@%p|%a|'
log_statement = all
log_min_error_statement = panic
steno.writers = 2
});
my @skip = qw(steno_test_helper);

$node->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN UPDATE t SET v = 'f' WHERE id = i; RETURN i; END $$;
});

# Load, by all protocols at once, in many sessions.
$node->command_ok([ 'pgbench', '-i', '-s', '1', '-q', 'postgres' ], 'pgbench -i');
{
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $script = "$folder/mixed.sql";
	my @runs;

	append_to_file(
		$script, q{
\set id random(1, 1000)
SELECT :id AS a;
INSERT INTO t VALUES (:id, 'mixed') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
BEGIN;
SELECT f(:id);
DELETE FROM t WHERE id = :id;
COMMIT;
SET work_mem = '1MB';
SELECT count(*) FROM t WHERE v = 'f';
});
	foreach my $mode (qw(simple extended prepared))
	{
		push @runs,
		  [ 'pgbench', '-n', '-M', $mode, '-c', '4', '-t', '40', 'postgres' ],
		  [ 'pgbench', '-n', '-M', $mode, '-c', '2', '-t', '40', '-f', $script, 'postgres' ];
	}
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my @started = map { IPC::Run::start($_, '>', '/dev/null', '2>', \my $err) } @runs;
	foreach my $i (0 .. $#started)
	{
		ok($started[$i]->finish, "@{$runs[$i]}[0 .. 7]");
	}
}

# What people type: each statement a message of its own.
foreach my $sql (
	'CREATE TABLE typed (a int, b text)',
	q{COMMENT ON TABLE typed IS 'multi
line; comment'},
	q{INSERT INTO typed SELECT i, 'x' FROM generate_series(1, 100) i},
	'COPY typed TO STDOUT',
	'CREATE INDEX ON typed (a)',
	'ANALYZE typed',
	'VACUUM typed',
	'EXPLAIN ANALYZE SELECT * FROM typed',
	'SELECT 1/(a - 1) FROM typed',
	'INSERT INTO t VALUES (5000), (5000)',
	'DROP TABLE missing',
	'CREATE ROLE r',
	'GRANT SELECT ON typed TO r',
	'REASSIGN OWNED BY r TO CURRENT_USER',
	'LOCK TABLE typed',
	'BEGIN; DECLARE c CURSOR FOR SELECT * FROM typed; FETCH 5 FROM c; CLOSE c; COMMIT',
	'DO $$ BEGIN PERFORM f(1); END $$',
	'CALL missing()',
	'TRUNCATE typed',
	'DROP TABLE typed',
	'DISCARD ALL')
{
	$node->psql('postgres', $sql);
}
flush($node);

# The server's log: one line for a simple message, one for each execution.
my (%log, %trail, %sessions);

foreach my $entry (split /^@@/m, slurp_file($node->logfile))
{
	my ($pid, $application, $text) =
	  $entry =~ /^(\d+)\|([^|]*)\|LOG:  (?:statement|execute [^:]*): (.*)\n\z/s
	  or next;

	next if grep { $_ eq $application } @skip;

	# the log's own indentation of further lines
	$text =~ s/\n\t/\n/g;
	$log{"$pid $text"}++;
}

# The trail's statements of the top level: a multi-statement string is put
# together again from the statement that it was written with.
foreach my $r (records($node, kind => 'statement', depth => undef))
{
	$trail{"$r->{pid} $r->{text}"}++;
}

# Several statements in one message: the log has them as one.
foreach my $key (grep { /;.*\S/s } keys %log)
{
	my ($pid, $text) = split / /, $key, 2;
	my @parts = split /;\s*/, $text;

	next if exists $trail{$key} || !exists $trail{"$pid $parts[0]"};
	my $n = delete $log{$key};
	$log{"$pid $_"} += $n foreach @parts;
}

# pgbench ends its statements with a semicolon; texts of records have none.
foreach my $key (keys %log)
{
	my $bare = $key =~ s/[;\s]+\z//r;

	$log{$bare} += delete $log{$key} if $bare ne $key;
}

my $total = 0;
$total += $_ foreach values %log;
cmp_ok($total, '>', 5000, 'thousands of statements');
my @missing = grep { ($trail{$_} // 0) < $log{$_} } sort keys %log;
my @extra = grep { ($log{$_} // 0) < $trail{$_} } sort keys %trail;

is_deeply([ map { "$_: $log{$_} in the log, " . ($trail{$_} // 0) } @missing[ 0 .. ($#missing > 4 ? 4 : $#missing) ] ],
	[], 'every statement of the log is in the trail');
is_deeply([ map { "$_: $trail{$_} in the trail, " . ($log{$_} // 0) } @extra[ 0 .. ($#extra > 4 ? 4 : $#extra) ] ],
	[], 'every statement of the trail is in the log');

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
is(scalar(my @streams = glob trail($node) . '/*/'), 2, 'both writers have written');
done_testing();
