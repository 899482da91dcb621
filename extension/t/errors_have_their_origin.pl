
# Each rule of error/origin.c depends on where the server raises an error.  For each place that these rules name, an
# error is raised, and the server itself says where that was: LOCATION in its log.  A server whose errors come from other
# places fails here, and so does a rule for which there is no error.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node(
	'main', conf => q{
log_error_verbosity = verbose
log_min_messages = error
log_min_error_statement = panic
deadlock_timeout = 10ms
max_connections = 10
max_locks_per_transaction = 10
});

# Rule, place, message, and what raises it: SQL for one session, or code.
my @cases = (
	[ 'interrupts', 'ProcessInterrupts', qr/statement timeout/, q{SET statement_timeout = '20ms'; SELECT pg_sleep(60)} ],
	[ 'interrupts', 'ProcessInterrupts', qr/user request/, 'SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)' ],
	[ 'interrupts', 'ProcessInterrupts', qr/terminating connection/, 'SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)' ],
	[ 'interrupts', 'ProcessInterrupts', qr/lock timeout/, \&wait_for_a_lock ],
	[ 'interrupts', 'ProcessInterrupts', qr/idle-in-transaction/, \&stay_in_a_transaction ],
	[ 'of_grammar', 'scan.l', qr/unterminated quoted string/, q{SELECT 'abc} ],
	[ 'of_grammar', 'scan.l', qr/syntax error/, 'SELECT FROM FROM' ],
	[ 'of_grammar', 'gram.y', qr/multiple LIMIT clauses/, '(SELECT 1 LIMIT 1) LIMIT 2' ],
	[ 'of_grammar', 'parser.c', qr/invalid Unicode escape/, q{SELECT U&'\00zz'} ],
	[ 'of_grammar', 'mbutils.c', qr/invalid byte sequence/, q{SELECT E'\\xff'} ],
	[ 'of_grammar', 'pl_scanner.c', qr/syntax error/, 'DO $$ BEGN $$' ],
	[ 'of_grammar', 'pl_gram.y', qr/CONSTANT/, 'DO $$ DECLARE x CONSTANT int := 1; BEGIN x := 2; END $$' ],
	[ 'of_several_statements', 'exec_parse_message', qr/multiple commands/, \&parse_two_statements ],
	[ 'before_execution', 'postgres.c', qr/statement timeout/, q{SET statement_timeout = '20ms'; DO $$ BEGIN PERFORM pg_sleep(60); END $$} ],
	[ 'before_execution', 'spi.c', qr/as cursor/, 'DO $$ DECLARE c refcursor; BEGIN OPEN c FOR EXECUTE \'CREATE TABLE x ()\'; END $$' ],
	[ 'before_execution', 'functions.c', qr/not allowed in an SQL function/,
		q{SET check_function_bodies = off; CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'BEGIN'; SELECT f()} ],
	[ 'before_execution', 'rewriteHandler.c', qr/non-DEFAULT value/,
		'CREATE TABLE g (a int GENERATED ALWAYS AS IDENTITY); DO $$ BEGIN INSERT INTO g VALUES (1); END $$' ],
	[ 'before_execution', 'plancache.c', qr/must not change result type/,
		q{CREATE TABLE p (a int); PREPARE p AS SELECT * FROM p; ALTER TABLE p ADD b int; DO $$ BEGIN EXECUTE 'EXECUTE p'; END $$} ],
	[ 'before_execution', 'lock.c', qr/out of shared memory/,
		'DO $$ BEGIN FOR i IN 1..1000000 LOOP PERFORM pg_advisory_xact_lock(i); END LOOP; END $$' ],
	[ 'before_execution', 'pl_exec.c', qr/not implemented/, q{DO $$ BEGIN EXECUTE 'SELECT 1 AS a INTO x'; END $$} ],
	[ 'of_fetch', 'pquery.c', qr/can only scan forward/, 'BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT 1; FETCH PRIOR FROM c' ],

	# None of the rules is for errors of execution and analysis.
	[ '', '', qr/deadlock detected/, \&deadlock ],
	[ '', '', qr/division by zero/, 'SELECT 1 / 0' ],
	[ '', '', qr/does not exist/, 'SELECT * FROM nowhere' ],
	[ '', '', qr/duplicate key/, 'CREATE TABLE u (a int PRIMARY KEY); INSERT INTO u VALUES (1); INSERT INTO u VALUES (1)' ],
	[ '', '', qr/violates foreign key/, 'CREATE TABLE r (a int REFERENCES u); INSERT INTO r VALUES (2)' ]);

sub wait_for_a_lock
{
	my ($holds, $waits) = map { Steno::Client->new($node) } 1 .. 2;

	$holds->query('BEGIN; SELECT pg_advisory_xact_lock(1)');
	$waits->query(q{SET lock_timeout = '20ms'});
	$waits->query('SELECT pg_advisory_lock(1)');
	$_->quit foreach $holds, $waits;
	return;
}

sub stay_in_a_transaction
{
	my $c = Steno::Client->new($node);

	$c->query(q{SET idle_in_transaction_session_timeout = '20ms'});
	$c->query('BEGIN');
	Steno::wait_until('the session is ended', sub { !kill 0, $c->{pid} });
	return;
}

sub parse_two_statements
{
	my $c = Steno::Client->new($node);

	$c->extended('SELECT 1; SELECT 2');
	$c->quit;
	return;
}

sub deadlock
{
	my @c = map { Steno::Client->new($node) } 1 .. 2;

	$c[$_]->query("BEGIN; SELECT pg_advisory_xact_lock($_)") foreach 0 .. 1;
	foreach my $i (0 .. 1)
	{
		my $other = 1 - $i;

		$c[$i]->put('Q', "DO \$\$ BEGIN PERFORM pg_advisory_xact_lock($other); END \$\$\0");
		$c[$i]->send_all;
	}
	$_->finish foreach @c;
	$_->quit foreach @c;
	return;
}

# The places of the server that the rules name: their functions and files.
my $source = slurp_file(dirname(__FILE__) . '/../error/origin.c');
my %named = map { $_ => 1 } $source =~ /"([a-zA-Z_]+\.[cly])"/g, $source =~ /is_by\(edata, "(\w+)"\)/g;
delete $named{$_} foreach grep { /steno/ } keys %named;

# What a rule names.
sub names
{
	my ($rule) = @_;
	my ($body) = $source =~ /^steno_error_$rule\(.*?\{(.*?)^\}/ms or die "there is no rule $rule";

	return map { $_ => 1 } $body =~ /"([^"]+)"/g;
}

my %raised;

foreach my $case (@cases)
{
	my ($rule, $place, $message, $raise) = @$case;
	my $log = -s $node->logfile;
	my ($file, $function, $at);

	if (ref $raise)
	{
		$raise->();
	}
	else
	{
		$node->psql('postgres', $raise, on_error_stop => 0);
	}
	Steno::wait_until("the server reports $message",
		sub { ($function, $file) = slurp_file($node->logfile, $log) =~ /(?:ERROR|FATAL): +\w+: [^\n]*$message.*?LOCATION: +(\w+), (?:[^\n]*\/)?([^:\n]+):/s });
	if ($rule)
	{
		my %of = names($rule);

		$at = $place =~ /\./ ? $file : $function;
		is($at, $place, "$message: where the server raises it");
		ok($of{$at}, "$message: rule $rule has that place");
		$raised{$at} = 1;
	}
	else
	{
		ok(!$named{$file} && !$named{$function}, "$message: no rule has $function in $file");
	}
}
is_deeply([ grep { !$raised{$_} } sort keys %named ], [], 'an error is raised in each place that a rule names');

done_testing();
