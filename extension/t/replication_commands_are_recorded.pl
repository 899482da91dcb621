
# Commands of replication connections: with log_replication_commands, each has a start record; the
# connection itself always has its records.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', streaming => 'logical', conf => "log_replication_commands = on\n");

sub session
{
	my ($name, @commands) = @_;

	$node->psql('postgres', join(";\n", @commands, ''),
		connstr => $node->connstr('postgres') . " replication=database application_name=$name", on_error_stop => 0);
	wait_until "$name has ended", sub { scalar records($node, application => $name, kind => 'disconnect') };
	return [
		map { [ @$_{qw(kind class command text outcome)} ] }
		  sort { $a->{seq} <=> $b->{seq} } records($node, application => $name, kind => qr/^(start|statement)$/)
	];
}

my @commands = ('IDENTIFY_SYSTEM', 'SELECT 1', 'DROP_REPLICATION_SLOT missing', 'SHOW work_mem');

is_deeply(
	session('on', @commands),
	[
		[ 'start', 'misc', 'IDENTIFY_SYSTEM', 'IDENTIFY_SYSTEM', 'running' ],
		[ 'statement', 'read', 'SELECT', 'SELECT 1', 'ok' ],
		[ 'start', 'misc', 'DROP_REPLICATION_SLOT', 'DROP_REPLICATION_SLOT missing', 'running' ],
		[ 'statement', 'error', undef, 'DROP_REPLICATION_SLOT missing', 'error' ],
		[ 'start', 'misc', 'SHOW', 'SHOW work_mem', 'running' ]
	],
	'commands, a statement and a failure');

# Its text is none of SQL: what is looked for in it does not change the error that its client gets.
{
	my $stderr;

	$node->psql('postgres', 'DROP_REPLICATION_SLOT missing;', stderr => \$stderr,
		connstr => $node->connstr('postgres') . ' replication=database application_name=refused');
	like($stderr, qr/^[^\n]*ERROR:  replication slot "missing" does not exist$/, 'the client has the error of its command, and no other');
}

# A base backup, and the user who took it.
$node->backup('copy');
{
	my ($r) = records($node, kind => 'start', command => 'BASE_BACKUP');
	my $superuser = value($node, 'SELECT current_user');

	is($r->{user}, $superuser, 'a base backup');
	like($r->{text}, qr/^BASE_BACKUP /, 'its text');
}

# A rule can leave them out, as can steno.log.
append_to_file($node->data_dir . '/pg_steno_rules.conf', "skip all all ruled all misc all\n");
$node->reload;
wait_until 'there are rules', sub {
	grep { $_->{extra}{name} eq 'steno.rules_file' } records($node, kind => 'setting');
};
is_deeply([ map { $_->[0] } @{ session('ruled', @commands) } ], [qw(statement statement)], 'a rule that skips them');

$node->append_conf('postgresql.conf', "log_replication_commands = off\n");
$node->reload;
wait_until 'the reload is done', sub { value($node, 'SHOW log_replication_commands') eq 'off' };
is_deeply([ map { $_->[0] } @{ session('off', @commands) } ], [qw(statement statement)], 'without log_replication_commands');

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
