
# At a stop, WAL senders run until after the shutdown checkpoint, and those of logical replication can run statements.  The
# writers have ended by then: no client is told of a statement of which there is no record on disk.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', streaming => 'logical', conf => "restart_after_crash = on\nsteno.writers = 2\n");

$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT i FROM generate_series(1, 100) i');
foreach my $mode (qw(fast smart))
{
	my @c = map { Steno::Client->new($node, application_name => "walsender $mode $_", replication => 'database') } 1 .. 4;
	my $long = Steno::Client->new($node, application_name => "long $mode", replication => 'database');
	my $checkpointer = value($node, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
	my %told;
	my @dead;

	# what lasts until the shutdown checkpoint can be made to last
	stop_process($checkpointer);
	$long->put('Q', "SELECT count(*), pg_sleep(3600) FROM t /* long */\0")->send_all;
	wait_until 'it runs', sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) eq '1' };
	$node->command_ok([ 'pg_ctl', '-D', $node->data_dir, '-m', $mode, '-W', 'stop' ], "$mode: a stop");
	wait_until 'the walsenders end', sub {
		foreach my $i (0 .. $#c)
		{
			my $r;

			next if $dead[$i];
			$r = eval { $c[$i]->query('SELECT count(*) FROM t /* ' . $told{$i}++ . ' */') };
			next if $r && !$r->{sqlstate};
			$told{$i}--;
			$dead[$i] = $r->{message} // 'gone';
		}
		return 4 == grep { defined } @dead;
	};
	is_deeply([ grep { !/^terminating connection/ } @dead ], [], 'they are told why');
	continue_process($checkpointer);
	wait_until 'the server is down', sub { !-e $node->data_dir . '/postmaster.pid' };
	$node->{_pid} = undef;
	# the memory of the machine is gone
	unlink ring_files($node);
	$node->start;
	foreach my $i (0 .. $#c)
	{
		is(scalar(grep { $_->{outcome} eq 'ok' } statements($node, application => 'walsender ' . $mode . ' ' . ($i + 1), text => qr/count/)),
			$told{$i}, 'all that its client was told of is recorded');
	}
	is(scalar(statements($node, application => "long $mode", text => qr/long/)), 1, 'so is what was ended');
}
verify_ok($node, 'the trail is whole');

done_testing();
