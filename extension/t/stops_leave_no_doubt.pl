
# Nothing is recorded between a stop and the next start.  Whether the server ran meanwhile, without pg_steno, is seen in
# its WAL and its control file: the record of the start says so, and a proof does not count that time as one in which
# something may be missing.  Any doubt is left as it was.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use JSON::PP;
use Steno::Seals;
use Test::More;

my $keys = PostgreSQL::Test::Utils::tempdir();
my ($key) = keygen("$keys/one");
my $now = q{SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')};
my $node = new_node('main', conf => "steno.signing_key_file = '$key'\nsteno.seal_interval = 1s\nfull_page_writes = off\n");
my $begin = $node->safe_psql('postgres', $now);

# What the control file says, by the server's own program.
sub control
{
	my ($name) = @_;
	my ($out) = run_command([ 'pg_controldata', $node->data_dir ]);

	return $out =~ /^\Q$name\E: +(.*)$/m ? $1 : undef;
}

# The server runs without pg_steno.
sub without
{
	my ($sql, $mode) = @_;

	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', $node->data_dir, '-w', '-l', $node->logfile,
		'-o', '-c shared_preload_libraries= --cluster-name=main', 'start');
	PostgreSQL::Test::Utils::system_or_bail('psql', '-XAtqc', $sql, $node->connstr('postgres')) if defined $sql;
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', $node->data_dir, '-w', '-m', $mode, 'stop');
	return;
}

# The last start, and the stop before it.
sub last_start
{
	my @events = grep { $_->{extra}{event} =~ /^(start|stop)$/ } records($node, kind => 'server');
	my ($start) = grep { $_->{extra}{event} eq 'start' } reverse @events;
	my ($stop) = grep { $_->{extra}{event} eq 'stop' && $_->{time} lt $start->{time} } reverse @events;

	return ($start->{extra}, $stop && $stop->{extra});
}

sub load
{
	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS t (i int); INSERT INTO t SELECT generate_series(1, 1000); DROP TABLE t');
	return;
}

my ($sure, $doubts) = (0, 0);

# A restart beside the cases below, of which the same holds.
sub ends_as_recorded
{
	flush($node);
	is_sure('a restart', last_start());
	return;
}

# The record of the start says that the server was not run since the stop.  If not, what is in the WAL after it tells why.
sub is_sure
{
	my ($name, $start, $stop) = @_;
	my $pages = control('Latest checkpoint\'s REDO location');

	$sure++;
	is($start->{not_run_since_wal}, $stop->{wal}, "$name: the server did not run in between")
	  or diag("the WAL from the stop on, to $pages at the last checkpoint:\n"
		  . join '', run_command([ 'pg_waldump', '-p', $node->data_dir . '/pg_wal', '-n', '20', '-s', $stop->{wal} ]));
	return;
}

# What the server did before and while it was down, and whether that is sure to have been nothing.
foreach my $case (
	[ 'a fast stop', 1, sub { $node->stop('fast') } ],
	[ 'a smart stop', 1, sub { $node->stop('smart') } ],
	[ 'a stop that archives', 1, sub { $node->append_conf('postgresql.conf', "wal_level = replica\nmax_wal_senders = 2\narchive_mode = on\narchive_command = 'true'\n"); $node->restart; ends_as_recorded(); load(); $node->stop } ],
	[ 'a stop soon after a switch of the WAL', 1, sub { $node->safe_psql('postgres', 'SELECT pg_switch_wal()'); $node->stop } ],
	[ 'a stop at the end of a page of the WAL', 1, sub {
		$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, '', repeat('x', (8192 - 24 - 120 - (pg_current_wal_insert_lsn() - '0/0') % 8192)::int % 8000 + 8))});
		$node->stop } ],
	[ 'a run of which nothing is left but its shutdown', 0, sub { $node->stop; without(undef, 'fast') } ],
	[ 'a run that only read', 0, sub { $node->stop; without('SELECT count(*) FROM pg_class', 'smart') } ],
	[ 'a run that wrote', 0, sub { $node->stop; without('CREATE TABLE hidden ()', 'fast') } ],
	[ 'a run that was killed', 0, sub { $node->stop; without('SELECT 1', 'immediate') } ],
	[ 'a run that was killed, and one that was not', 0, sub { $node->stop; without('SELECT 1', 'immediate'); without(undef, 'fast') } ],
	[ 'a single-user session', 0, sub {
		$node->stop;
		run_log([ 'postgres', '--single', '-D', $node->data_dir, '-c', 'shared_preload_libraries=', 'postgres' ], '<', \"SELECT 1;\n", '>', '/dev/null') } ],
	[ 'an immediate stop', 0, sub { $node->stop('immediate') } ],
	[ 'a fast stop after all that', 1, sub { $node->stop } ])
{
	my ($name, $known, $what) = @$case;
	my ($start, $stop);

	load();
	$what->();
	$node->{_pid} = undef;
	my $time = control('Time of latest checkpoint');
	$node->start;
	wait_until 'the start is recorded', sub { value($node, 'SELECT steno.flush()'); (last_start())[0]{run} ne ($start // '') };
	($start, $stop) = last_start();
	if ($known)
	{
		is_sure($name, $start, $stop);
		like($start->{shut_down} // '', qr/^20\d\d-\d\d-\d\dT[\d:]+Z$/, 'it says when it had shut down');
		is(value($node, "SELECT '$start->{shut_down}'::timestamptz = '$time'::timestamptz"), 't', 'as the control file does');
	}
	else
	{
		$doubts++ ;
		is($start->{not_run_since_wal}, undef, "$name: it may have run");
	}
}

# Another configuration writes to the WAL when the server starts, but not before.
$node->append_conf('postgresql.conf', "max_connections = 40\nwal_level = minimal\nmax_wal_senders = 0\narchive_mode = off\n");
$node->restart;
flush($node);
{
	is_sure('before another configuration', last_start());
}

# What a proof says of it.
{
	my ($code, $out, $err, $r, $end);

	$node->safe_psql('postgres', 'SELECT 1');
	$node->stop;
	$sure++;
	$node->start;
	$end = $node->safe_psql('postgres', $now);
	wait_until 'it is sealed', sub {
		value($node, 'SELECT 1');
		flush($node);
		($code, $out, $err) = steno_result('prove', '--since', $begin, '--until', $end, '--object', 'hr.nothing', '--out', "$keys/proof", '--key', "$key.pub", trail($node));
		return $code == 0;
	};
	($code, $out, $err) = steno_result('prove', '--check', "$keys/proof", '--key', "$key.pub", '--format', 'json');
	is($code, 0, 'a proof about that time') or diag($err);
	$r = decode_json($out);
	is(scalar @{ $r->{stopped} }, $sure, 'it says when the server did not run') or diag($out);
	is(scalar(grep { /the server was not running, or ran without pg_steno|ended without stopping/ } @{ $r->{exceptions} }), $doubts, 'and when it may have run') or diag($out);
	($code, $out, $err) = steno_result('prove', '--check', "$keys/proof", '--key', "$key.pub");
	like($out, qr/^stopped: +the server did not run from \S+ until \S+: its WAL and its control file agree/m, 'also for people');
}
verify_ok($node, 'the trail is whole');

done_testing();
