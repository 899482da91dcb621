
# A statement that runs longer than steno.start_after has a start record while it
# runs.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.start_after = 50ms\n");
my @running;

# Start sql in a session of that name, which it keeps busy, and wait for that.
sub start
{
	my ($name, $sql, %facts) = @_;
	my $c = Steno::Client->new($node, application_name => $name, %facts);

	$c->query("SELECT 'before'");
	$c->put('Q', "$sql\0")->send_all;
	wait_until "$name sleeps",
	  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event = 'PgSleep'") eq '1' }
	  if $sql =~ /pg_sleep/;
	push @running, $c;
	return $c;
}

sub starts
{
	my ($name) = @_;

	return records($node, kind => 'start', application => $name);
}

sub announced
{
	my ($name) = @_;
	my @found;

	wait_until "$name is announced", sub { @found = starts($name) };
	return $found[0];
}

# End what the session that was started first runs, and the session.
sub finish
{
	my ($name) = @_;
	my $c = shift @running;

	value($node, "SELECT pg_cancel_backend($c->{pid})");
	is($c->finish->{sqlstate}, '57014', "$name: cancelled");
	$c->quit;
	return;
}

# A query: all that its own record will say is known.
{
	my $sql = "SELECT pg_sleep(1000), count(*) FROM pg_class";
	my ($r, $end);

	start('query', $sql);
	$r = announced('query');
	is_deeply(
		[ @$r{qw(text statement outcome class command seq duration_us rows)} ],
		[ $sql, 2, 'running', 'read', 'SELECT', undef, undef, undef ],
		'query: fields');
	is_deeply([ map { $_->{name} } @{ $r->{relations} } ], ['pg_catalog.pg_class'], 'query: relations');
	is($r->{user}, scalar getpwuid($>), 'query: user');
	finish('query');
	$end = the_record($node, 'query: its end', kind => 'statement', application => 'query', text => $sql);
	is_deeply(
		[ @$end{qw(statement time session outcome)} ],
		[ @$r{qw(statement time session)}, 'error' ],
		'query: its end is of the same statement');
	is(scalar starts('query'), 1, 'query: announced once');
}

# A utility statement, with a text longer than the slot's.
{
	my $sql = 'DO $$ BEGIN PERFORM pg_sleep(1000); END $$ /* ' . 'x' x 1000 . ' */';
	my $r;

	start('utility', $sql);
	$r = announced('utility');
	is_deeply([ @$r{qw(statement outcome text_bytes)} ], [ 2, 'running', length $sql ], 'utility: fields');
	cmp_ok(length $r->{text}, '>=', 100, 'utility: the beginning of the text');
	is($r->{text}, substr($sql, 0, length $r->{text}), 'utility: which it is');
	finish('utility');
	is(scalar starts('utility'), 1, 'utility: announced once');
}

# The session that has said so itself.
{
	my $sql = 'SELECT pg_sleep(1000), 1';

	start('by class', $sql, options => '-c steno.log_start=read');
	# one that began later is announced, so this one has been looked at
	start('witness', 'SELECT pg_sleep(1000), 2');
	announced('witness');
	finish('by class');
	finish('witness');
	is_deeply(
		[ map { $_->{seq} ? 'numbered' : 'not' } grep { $_->{text} eq $sql } starts('by class') ],
		['numbered'], 'a statement with a start record has no other');
}

# Whose it is: what the session said just before.
{
	my $r;

	$node->safe_psql('postgres', 'CREATE ROLE sleeper');
	start('role', 'SELECT pg_sleep(1000)', options => '-c role=sleeper');
	$r = announced('role');
	is($r->{role}, 'sleeper', 'role');
	finish('role');
}

# Statements that are not recorded are not announced; nor is an idle session.
{
	start('not recorded', 'SELECT pg_sleep(1000)', options => '-c steno.log=ddl');
	start('idle', '');
	start('last', 'SELECT pg_sleep(1000)');
	announced('last');
	is(scalar starts('not recorded'), 0, 'a statement that is not recorded');
	is(scalar starts('idle'), 0, 'an idle session');
	finish('not recorded');
	(shift @running)->quit;
	finish('last');
}

# Idle writers notice it, too: nothing asks for a flush here.
{
	start('unasked', 'SELECT pg_sleep(1000), 3');
	wait_until 'it is in the trail',
	  sub { scalar(grep { /"kind":"start".*"application":"unasked"/ } lines(trail($node))) };
	pass('announced without being asked for');
	finish('unasked');
}

# Turned off.
{
	my $before;

	$node->append_conf('postgresql.conf', "steno.start_after = -1\n");
	$node->reload;
	wait_until 'the reload is recorded',
	  sub { scalar records($node, kind => 'setting', user => undef) };
	start('off', 'SELECT pg_sleep(1000)');
	$before = value($node, 'SELECT sum(passes) FROM steno.writers');
	wait_until 'the writer has looked',
	  sub { value($node, 'SELECT steno.flush(); SELECT sum(passes) FROM steno.writers') > $before + 10 };
	is(scalar starts('off'), 0, '-1 announces nothing');
	finish('off');
}

# The trail of sessions with such records counts as whole.
$node->stop;
like(verify_ok($node, 'the trail is whole'), qr/^sessions  \d+, 0 of them open$/m, 'and every session has ended');
gapless($node, 'no session has gaps');
done_testing();
