
# Beside "the trail is intact" stands a second verdict, whether everything was recorded: in verify, info and report, as text and
# JSON, with times and users.  What the server was told to leave out, and when it was killed, is known here.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', conf => "steno.log = all\n");
my $json = JSON::PP->new->utf8;
my $directory = trail($node);

sub answer
{
	my (@args) = @_;
	my ($code, $out, $err) = steno_result(@args, '--format', 'json', $directory);
	is($code, 0, "$args[0]: the trail is intact");
	return $json->decode($out);
}

$node->safe_psql('postgres', 'CREATE ROLE evil LOGIN SUPERUSER; CREATE ROLE clerk LOGIN; GRANT pg_read_server_files TO clerk; CREATE TABLE t (a int)');
$node->restart;
flush($node);
foreach my $command ('verify', 'info', 'report')
{
	my ($one) = @{ answer($command)->{recorded} };
	ok($one->{everything}, "$command: everything was recorded") or diag($json->encode($one));
	is(scalar @{ $one->{stopped} }, 1, "$command: a restart is listed apart");
}
like((steno_result('verify', $directory))[1], qr/^verdict +intact: .*\nrecorded +yes: /m, 'verify: both verdicts');

my $before = value($node, q{SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
$node->safe_psql('postgres', $_, extra_params => [ '-U', 'evil' ]) foreach (q{ALTER SYSTEM SET steno.log = 'none'}, 'SELECT pg_reload_conf()');
wait_until('it is reloaded', sub { return value($node, 'SHOW steno.log') eq 'none' });
$node->safe_psql('postgres', 'SELECT * FROM t', extra_params => [ '-U', 'evil' ]);
$node->safe_psql('postgres', $_, extra_params => [ '-U', 'evil' ]) foreach ('ALTER SYSTEM RESET steno.log', 'SELECT pg_reload_conf()');
wait_until('it is reloaded', sub { return value($node, 'SHOW steno.log') eq 'all' });
my $after = value($node, q{SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
flush($node);

foreach my $command ('verify', 'info', 'report')
{
	my ($one) = @{ answer($command)->{recorded} };
	ok(!$one->{everything}, "$command: not everything was recorded");
	my ($lack) = grep { /steno\.log = "none"/ } @{ $one->{lacks} };
	like($lack, qr/read.* from (\S+) until (\S+): /, "$command: what was left out, and when");
	my ($from, $until) = ($lack // '') =~ /from (\S+) until (\S+):/;
	ok(defined $from && $before lt $from && $from lt $until && $until lt $after, "$command: these are the times");
	is_deeply([ map { [ @$_{ 'name', 'old', 'new', 'by' } ] } @{ $one->{changes} } ],
		[ [ 'steno.log', 'all', 'none', 'evil' ], [ 'steno.log', 'none', 'all', 'evil' ] ], "$command: who changed it");
}
my $text = (steno_result('verify', $directory))[1];
like($text, qr/^verdict +intact: .*\nrecorded +NO: 1 reason\nlacks +.*steno\.log = "none"/m, 'verify: as text');
like($text, qr/^changed .*user "evil" had run ALTER SYSTEM/m, 'verify: who, as text');
like((steno_result('info', $directory))[1], qr/^recorded +NO: 1 reason/m, 'info: as text');
foreach my $format ('html', 'markdown')
{
	my $page = (steno_result('report', '--format', $format, '--compliance', 'pci', $directory))[1];
	like($page, qr/Was everything recorded\?.*NO: 1 reason/s, "report: $format");
	like($page, qr/Not everything of the period was recorded/, "report: $format, requirements");
}
my ($powers) = grep { $_->{id} eq 'powers' } @{ answer('report')->{figures} };
is_deeply([ map { $_->{text} } grep { $_->{user} ne '' } @{ $powers->{records}{samples} } ],
	[ 'CREATE ROLE evil LOGIN SUPERUSER', 'GRANT pg_read_server_files TO clerk' ], 'report: powers') or diag($json->encode($powers));

# a period after it
my ($later) = @{ answer('report', '--since', $after)->{recorded} };
ok($later->{everything}, 'report: a later period lacks nothing') or diag($json->encode($later));

$node->stop('immediate');
$node->start;
flush($node);
my ($killed) = @{ answer('verify')->{recorded} };
ok(scalar(grep { /ended without stopping/ } @{ $killed->{lacks} }), 'an unclean end') or diag($json->encode($killed));

# what a session hides of itself, and a level at which the server does not report failures
my $clean = value($node, q{SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
$node->safe_psql('postgres', 'ALTER ROLE clerk SUPERUSER');
$node->safe_psql('postgres', 'SET steno.log_catalog = off; SELECT count(*) FROM pg_authid', extra_params => [ '-U', 'clerk' ]);
$node->psql('postgres', 'SET log_min_messages = panic; SELECT * FROM hidden', extra_params => [ '-U', 'evil' ]);
flush($node);
my ($start) = grep { $_->{event} eq 'start' } map { $_->{extra} } records($node, kind => 'server');
is($start->{log_min_messages}, value($node, 'SHOW log_min_messages'), 'the record of the start has log_min_messages');
is(scalar(grep { ($_->{text} // '') =~ /FROM hidden|pg_authid/ } records($node)), 0, 'neither statement has a record');
my ($quiet) = @{ answer('report', '--since', $clean)->{recorded} };
my $lacks = join("\n", @{ $quiet->{lacks} });
like($lacks, qr/^queries of system catalogs of user "clerk" were not recorded in session [0-9a-f]+\.[0-9a-f]+ \(\S+Z\): steno\.log_catalog = "off", set by session$/m, 'catalogs');
like($lacks, qr/ of user "evil" were not recorded in session [0-9a-f]+\.[0-9a-f]+ \(\S+Z\): log_min_messages = "panic", set by session$/m, 'a session that hides its failures');

$node->safe_psql('postgres', $_) foreach (q{ALTER SYSTEM SET log_min_messages = 'fatal'}, 'SELECT pg_reload_conf()');
wait_until('it is reloaded', sub { return value($node, 'SHOW log_min_messages') eq 'fatal' });
$node->restart;
flush($node);
my ($high) = @{ answer('verify')->{recorded} };
like(join("\n", @{ $high->{lacks} }), qr/^statements that failed before they were planned, and failed logins, were not recorded since \S+Z: log_min_messages = "fatal"$/m, 'a high level of the server');

done_testing();
