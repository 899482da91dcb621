
# While the disk is full, retention deletes what its limits do not keep, whichever limit it is, whatever
# statements do meanwhile, and also if the server was started with the disk full.  The records of the deletions
# come before what waits to be written.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Steno::Retention;
use Steno::Seals;
use Test::More;

my $faults = Steno::Faults->new;
my $day = 24 * 3600;
my $key = keygen(PostgreSQL::Test::Utils::tempdir() . '/key');
my $numbers = 0;

sub server
{
	my ($name, $conf) = @_;
	my $node = new_node($name, start => 0, conf => "steno.compression = none\nsteno.rotation_age = 0\nsteno.ring_size = 16kB\n$conf");

	$faults->start($node);
	value($node, 'CREATE EXTENSION pg_steno');
	return $node;
}

# One percent of it is free, as much as steno.disk_reserve leaves at least.
sub fill_disk
{
	my ($node) = @_;
	my $c = Steno::Client->new($node, application_name => 'numbers');

	$faults->set('disk', '99 500');
	# superusers are not refused
	$c->query("SELECT 'number " . ++$numbers . "'");
	wait_until 'the trail cannot be written', sub { $c->value('SELECT state FROM steno.status') eq 'failing' };
	$c->query("SELECT 'number " . ++$numbers . "'") foreach 1 .. 3;
	return $c;
}

sub check
{
	my ($node, $c, $what, $reason) = @_;
	my @deletions;

	is($c->value('SELECT state FROM steno.status'), 'failing', "$what: the disk is still full");
	{
		# what is in the files; a flush would wait for the disk
		local $node->{steno_down} = 1;
		@deletions = grep { $_->{extra}{event} eq 'deleted' } records($node, kind => 'server');
		ok(scalar(grep { $_->{extra}{reason} eq $reason } @deletions), "$what: a record says why segments were deleted");
		is($deletions[-1]{extra}{last_segment} + 1, (segments($node))[0], "$what: and which");
	}
	$faults->unset('disk');
	# a slot that was lost remains so
	wait_until 'it is written again', sub { $c->value('SELECT state FROM steno.status') =~ /^(ok|impaired)$/ };
	$c->quit;
	# none of those that came when the disk was full
	numbers_are_there($node, $what, $numbers - 3, $numbers);
	return;
}

# What steno verify says when the next seal, a second later, covers the records of deletions.
sub sealed
{
	my ($node) = @_;
	my ($code, $out, $err);

	wait_until 'everything is sealed', sub {
		($code, $out, $err) = steno_result('verify', '--key', "$key.pub", trail($node));
		return $code != 3;
	};
	diag "$out$err" if $code != 0;
	return $code;
}

foreach my $policy (qw(wait error continue))
{
	my $node = server("on_failure_$policy", "steno.on_failure = $policy\nsteno.signing_key_file = '$key'\nsteno.seal_interval = 1s\n");
	my $c;

	$numbers = 0;
	fill($node, 6);
	$c = fill_disk($node);
	is_deeply([ segments($node) ], [ 1 .. 7 ], "$policy: all segments are there");
	set_and_reload($node, 'steno.retention_size', '1MB');
	wait_until 'segments have been deleted', sub { (segments($node))[0] >= 5 };
	check($node, $c, $policy, 'size');
	is(sealed($node), 0, "$policy: the trail is whole, and its seals are in their places");

	# again, and the server is started when the disk is full
	if ($policy eq 'continue')
	{
		fill($node, 6);
		$node->stop;
		$node->append_conf('postgresql.conf', 'steno.retention_size = 2MB');
		$faults->start($node);
		fill($node, 3);
		my @before = segments($node);
		$node->stop;
		$node->append_conf('postgresql.conf', 'steno.retention_size = 1MB');
		$faults->set('disk', '99 500');
		$faults->start($node);
		wait_until 'segments have been deleted', sub { (segments($node))[0] > $before[0] + 1 };
		$faults->unset('disk');
		wait_until 'it is written again', sub { value($node, 'SELECT state FROM steno.status') eq 'ok' };
		is(sealed($node), 0, 'after a start with a full disk: the trail is whole');
	}
	$node->stop;
}

# The other limits.
{
	my $node = server('other_limits', "steno.on_failure = continue\n");
	my $c;

	$numbers = 0;
	fill($node, 6);
	$c = fill_disk($node);
	$faults->set('clock', 3 * $day);
	set_and_reload($node, 'steno.retention_age', q{'2d'});
	wait_until 'segments have been deleted', sub { (segments($node))[0] == 7 };
	check($node, $c, 'age', 'age');
	$faults->unset('clock');
	set_and_reload($node, 'steno.retention_age', '0');

	system_or_bail($ENV{STENO}, 'slot', 'create', 'reader', trail($node));
	fill($node, 6);
	set_and_reload($node, 'steno.retention_size', '1MB');
	wait_until 'the log says that a slot keeps segments',
	  sub { slurp_file($node->logfile) =~ /WARNING:  the trail takes \d+ MB, which is more than "steno.retention_size"/ };
	$c = fill_disk($node);
	is((segments($node))[0], 7, 'a slot keeps segments');
	set_and_reload($node, 'steno.slot_max_size', '1MB');
	wait_until 'segments have been deleted', sub { (segments($node))[0] > 8 };
	check($node, $c, 'slot_max_size', 'slot_max_size');
	verify_ok($node, 'the trail is whole');
	$node->stop;
}

# More segments than are deleted at once.
{
	my $node = server('many', "steno.on_failure = wait\n");

	fill($node, 80, 20);
	set_and_reload($node, 'steno.retention_size', '1MB');
	wait_until 'no more than the size is left', sub { (segments($node))[0] > 25 };
	$node->stop;
	$node->append_conf('postgresql.conf', "steno.retention_size = 0\nsteno.retention_age = '1d'");
	$faults->set('clock_of_all', 3 * $day);
	$faults->start($node);
	wait_until 'only the open one is left', sub { segments($node) == 1 };
	cmp_ok(scalar(deletions($node)), '>', 1, 'in more than one step');
	verify_ok($node, 'the trail is whole');
	$node->stop;
}
done_testing();
