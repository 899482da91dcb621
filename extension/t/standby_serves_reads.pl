
# A standby records the reads that it serves, in a trail of its own, and continues that trail when it is
# promoted.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $primary = new_node('primary', streaming => 1);

$primary->safe_psql('postgres', 'CREATE TABLE t AS SELECT generate_series(1, 10) AS a');
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');

$standby->init_from_backup($primary, 'backup', has_streaming => 1);
Steno::configure($standby);

# A backup contains the primary's trail; the standby keeps its own.
$standby->append_conf('postgresql.conf', "steno.directory = 'trail_of_standby'");
$standby->start;
$primary->wait_for_replay_catchup($standby) if $primary->can('wait_for_replay_catchup');
$primary->wait_for_catchup($standby);

my $trail = $standby->data_dir . '/trail_of_standby';
my $c = Steno::Client->new($standby, application_name => 'reader');
my @r;

is($c->query('SELECT count(*) FROM t')->{rows}[0][0], '10', 'the standby serves reads');
is($c->query('INSERT INTO t VALUES (11)')->{sqlstate}, '25006', 'and refuses writes');
$c->query("SELECT steno.note('on the standby')");
value($standby, 'SELECT steno.flush()');
is(value($standby, q{SELECT count(*) FROM steno.trail(NULL) WHERE kind = 'server' AND extra->>'event' = 'start'}), '1',
	'its trail is read in SQL');
is(value($standby, 'SELECT text FROM steno.in_flight'), 'SELECT text FROM steno.in_flight', 'and so is what runs there');
@r = records($trail, application => 'reader');
is_deeply(
	[ map { [ @$_{qw(kind text outcome sqlstate)} ] } grep { $_->{kind} ne 'note' } @r ],
	[
		[ 'connect', undef, 'ok', undef ],
		[ 'statement', 'SELECT count(*) FROM t', 'ok', undef ],
		[ 'statement', 'INSERT INTO t VALUES (11)', 'error', '25006' ],
		[ 'statement', "SELECT steno.note('on the standby')", 'ok', undef ]
	],
	'all is recorded');
is(scalar(grep { $_->{kind} eq 'note' } @r), 1, 'a note as well');
is_deeply(relations_of($r[1]), [ { name => 'public.t', type => 'table', access => 'select' } ],
	'with names of relations');
is(scalar(records($primary, application => 'reader')), 0, 'nothing of it on the primary');

# The walsender is a session of the primary.
my $sender = the_record($primary, 'the connection of the standby',
	kind => 'connect', backend_type => 'walsender', application => 'standby');
is($sender->{user}, scalar getpwuid($>), 'its user');

# Promotion: the same session, the same trail.
$standby->promote;
wait_until 'it is promoted',
  sub { $standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()', connstr => Steno::connstr($standby)) eq 'f' };
ok(!$c->query('INSERT INTO t VALUES (12)')->{sqlstate}, 'the session that was there can write');
$c->quit;
$standby->stop;
@r = statements($trail, application => 'reader', text => 'INSERT INTO t VALUES (12)');
is(scalar @r, 1, 'which is recorded');
like($r[0]{xid} // '', qr/^\d+$/, 'with a transaction id');
$primary->stop;
verify_ok($trail, 'the trail of the standby is whole');
gapless($trail, 'none of its sessions has gaps');
verify_ok($primary, 'the trail of the primary is whole');
gapless($primary, 'none of its sessions has gaps');
done_testing();
