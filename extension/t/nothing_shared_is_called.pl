
# The addresses of all functions that a process calls (hooks, error callbacks, functions of the server)
# are in its own memory: no word of the ring file is the address of code of a process that has the
# file mapped.

use strict;
use warnings;
no warnings 'portable';    # addresses have 64 bits

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

# What a process may execute, as pairs of addresses.  A server that was built without PIE lies below 4 GB:
# there, numbers and pieces of text look like addresses.  Then what is looked for are addresses in libraries,
# pg_steno's among them.
sub code_of
{
	my ($pid) = @_;

	return grep { $_->[0] >= 1 << 32 }
	  map { /^([0-9a-f]+)-([0-9a-f]+) r?-?w?-?x/ && $_ !~ /\[vsyscall\]/ ? [ hex $1, hex $2 ] : () }
	  split /\n/, slurp_file("/proc/$pid/maps");
}

# The words of the ring files that are addresses of a process's code.
sub addresses_of_code
{
	my ($node, $pid) = @_;
	my @code = code_of($pid);
	my @found;

	die "no code found in process $pid" if !@code;
	foreach my $file (ring_files($node))
	{
		my $content = slurp_file($file);
		my $at = 0;

		foreach my $word (unpack 'Q*', substr($content, 0, length($content) - length($content) % 8))
		{
			push @found, sprintf('%#x at %d', $word, $at)
			  if grep { $word >= $_->[0] && $word < $_->[1] } @code;
			$at += 8;
		}
	}
	return @found;
}

my $node = new_node('main', conf => "steno.ring_size = 16kB\n");
my $c = Steno::Client->new($node);

$node->safe_psql('postgres', q{CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN count(*) FROM pg_class; END'});
my $pid = $c->query('SELECT pg_backend_pid()')->{rows}[0][0];

$c->query('SELECT f()');
is_deeply([ addresses_of_code($node, $pid) ], [], 'a session between statements');

$c->query('BEGIN');
$c->query('DECLARE c CURSOR FOR SELECT f() FROM generate_series(1, 10)');
$c->query('FETCH 1 FROM c');
is_deeply([ addresses_of_code($node, $pid) ], [], 'a session with an open cursor');
$c->query('COMMIT');

# while one runs: its error callback is in use
my $sleeper = Steno::Client->new($node);

$sleeper->put('Q', "SELECT f(), pg_sleep(600)\0")->send_all;
my $running = wait_until('a statement runs',
	sub { value($node, q{SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) });
is_deeply([ addresses_of_code($node, $running) ], [], 'a session while a statement runs');
value($node, "SELECT pg_terminate_backend($running)");

foreach my $writer (split /\n/, value($node, 'SELECT pid FROM steno.writers'))
{
	is_deeply([ addresses_of_code($node, $writer) ], [], 'a writer');
}

done_testing();
