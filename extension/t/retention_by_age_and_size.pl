
# The oldest segments of all streams are deleted, by age and by size.

use strict;
use warnings;

use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno::Faults;
use Steno::Retention;
use Steno::Seals;
use Steno;
use Test::More;

# A segment goes when the one after it has become as old as steno.retention_age, and
# never the open one.  The writer's clock is put ahead.
{
	my $day = 24 * 3600;
	my $faults = Steno::Faults->new;
	my $node = new_node('retention_by_age', start => 0, conf => "steno.retention_age = '2d'\nsteno.rotation_age = 0\n");

	# The writer has examined the trail since our last change: it does so in the pass in which a segment
	# begins.
	sub looked
	{
		my ($passes) = value($node, 'SELECT passes FROM steno.writers');

		wait_until 'the writer has made passes for some seconds',
		  sub { value($node, 'SELECT passes FROM steno.writers') >= $passes + 15 };
		return;
	}

	$faults->start($node);
	value($node, 'CREATE EXTENSION pg_steno');
	fill($node, 2, 1);
	is_deeply([ segments($node) ], [ 1 .. 3 ], 'segments of today');

	$faults->set('clock', 1 * $day);
	fill($node, 1, 1);
	looked();
	is_deeply([ segments($node) ], [ 1 .. 4 ], 'a day later nothing has gone');

	# 1 and 2 were closed today, 3 a day later
	$faults->set('clock', 2 * $day + 3600);
	wait_until 'those that are older than two days have gone', sub { (segments($node))[0] == 3 };
	looked();
	is_deeply([ segments($node) ], [ 3, 4 ], 'no other');
	my %r = %{ (deletions($node))[-1] };
	is("$r{reason} $r{first_segment} $r{last_segment}", 'age 1 2', 'the record says why');

	# nothing is written any more: the open segment stays, however old
	$faults->set('clock', 100 * $day);
	wait_until 'all closed segments have gone', sub { (segments($node))[0] == 4 };
	looked();
	is_deeply([ segments($node) ], [4], 'the open segment stays');
	verify_ok($node, 'the trail is whole');

	$node->stop;
}

# Above steno.retention_size the oldest segments go, and the trail says which: what
# is left is whole, and what somebody else took is missing.
{
	my $node = new_node('retention_by_size', conf => "steno.compression = none\n");

	fill($node, 6);
	is_deeply([ segments($node) ], [ 1 .. 7 ], 'by default, everything is kept');
	is(scalar deletions($node), 0, 'and no record speaks of deletions');
	ok(!-e trail($node) . '/slots', 'nor is anything made for them');

	my $start = -s $node->logfile;
	set_and_reload($node, 'steno.retention_size', '1MB');
	wait_until 'the oldest segments have gone', sub { (segments($node))[0] >= 5 };
	my @left = segments($node);
	is_deeply(\@left, [ 5 .. 7 ], 'what is left is not more than the size');
	my @records = deletions($node);
	is(scalar @records, 1, 'there is one record of it');
	my %r = %{ $records[0] };
	is("$r{stream} $r{reason} $r{first_segment} $r{last_segment} $r{since_segment} $r{first_block}",
		'0 size 1 4 1 1', 'it says which segments, and why');
	like($r{chain}, qr/^[0-9a-f]{64}$/, 'it has the chain hash');
	ok($r{bytes} > 4 * 400_000 && $r{bytes} < 4 * 440_000, 'and how many bytes');
	ok(!exists $r{missing}, 'nothing was missing');
	my $kb = int($r{bytes} / 1024);
	like(slurp_file($node->logfile, $start), qr/LOG:  4 segments with $kb kB of the trail's \d+ kB will be deleted now\n.*DETAIL:  "steno.retention_age" is 0 minutes, which are 0\.0 days, and "steno.retention_size" is 1 MB/,
		'the log says how much');

	like(verify_ok($node, 'the trail is whole'), qr/deleted +segments 1 to 4 of stream 0, \d+ records, by retention \(size\)/,
		'verify says what went by policy');
	my ($code, $out, $err) = steno_result('info', trail($node));
	like($out, qr/deleted +segments 1 to 4 of stream 0.*by retention/, 'and info');
	is($code, 0, 'info finds nothing wrong');
	($code, $out, $err) = steno_result('cat', trail($node));
	is("$err$code", '0', 'cat finds nothing wrong');

	# the records of earlier deletions go, too
	fill($node, 8);
	wait_until 'more has gone', sub { (segments($node))[0] >= 13 };
	@records = deletions($node);
	is($records[-1]{since_segment}, 1, 'the last record stands for all before it');
	cmp_ok($records[0]{first_segment}, '>', 1, 'the first one has gone itself');
	verify_ok($node, 'the trail is whole without it');

	# and after a restart
	$node->restart;
	fill($node, 4);
	wait_until 'more has gone after a restart', sub { (segments($node))[0] >= 17 };
	@records = deletions($node);
	is($records[-1]{since_segment}, 1, 'the writer found its last record again');
	wait_until 'the trail begins where the last record ends',
	  sub { (deletions($node))[-1]{last_segment} + 1 == (segments($node))[0] };

	# tampering: in the stopped trail, and in copies of it
	$node->stop;
	verify_ok($node, 'the trail is whole after a stop');
	my $copy = PostgreSQL::Test::Utils::tempdir() . '/copy';
	my $segment = sub { sprintf '%s/0/%010d.steno', $copy, $_[0] };
	my $again = sub {
		system_or_bail('rm', '-rf', $copy);
		system_or_bail('cp', '-r', trail($node), $copy);
	};
	my @there = segments($node);
	my $first = $there[0];

	$again->();
	unlink $segment->($first) or die "unlink: $!";
	like(verify_fails($copy), qr/segment $first is missing, and was not deleted by retention/, 'another segment less at the beginning');
	$again->();
	unlink $segment->($first + 1) or die "unlink: $!";
	like(verify_fails($copy), qr/segment @{[ $first + 1 ]} is missing, and was not deleted by retention/, 'a hole');
	$again->();
	unlink "$copy/retention" or die "unlink: $!";
	is(verify_fails($copy), '', 'the records count, not the file that says where they are');

	# retention does not account for a gap that it reaches
	unlink sprintf('%s/0/%010d.steno', trail($node), $first + 1) or die "unlink: $!";
	$node->start;
	fill($node, 4);
	wait_until 'the hole has been passed', sub { (segments($node))[0] > $first + 1 };
	is((deletions($node))[-1]{missing}, 1, 'the record says that a segment was missing');
	like(verify_fails(trail($node)), qr/1 of the segments \d+ to \d+ had disappeared before the server deleted them/, 'and verify still does');
	fill($node, 4);
	wait_until 'more has gone', sub { (segments($node))[0] > $first + 5 };
	like(verify_fails(trail($node)), qr/1 of the segments \d+ to \d+ had disappeared before the server deleted them/, 'for ever');

	$node->stop;
}

# The oldest segments of several streams are deleted, whatever their stream, also those of streams that
# no longer have a writer.  The records of one stream account for all of them.
{
	my $node = new_node('retention_of_many_streams', conf => "steno.compression = none\nsteno.writers = 3\n");

	# Segments of all streams: sessions that are there together have rings one after
	# the other.
	sub fill_all
	{
		my ($count) = @_;
		my @clients = map { Steno::Client->new($node, application_name => "c$_") } 1 .. 6;

		foreach (1 .. $count)
		{
			$_->query(q{SELECT steno.note(repeat('0123456789', 10000))}) foreach @clients;
			value($node, 'SELECT steno.rotate()');
		}
		$_->quit foreach @clients;
		return;
	}

	sub bytes
	{
		my $sum = 0;

		$sum += -s $_ // 0 foreach glob trail($node) . '/*/*.steno';
		return $sum;
	}

	sub firsts
	{
		return join ' ', map { (segments($node, $_))[0] } 0 .. 2;
	}

	fill_all(4);
	is(firsts(), '1 1 1', 'three streams');
	set_and_reload($node, 'steno.retention_size', '1MB');
	wait_until 'no more than the size is left', sub { bytes() <= 1024 * 1024 };
	cmp_ok(bytes(), '>', 300_000, 'and no less than a segment of each');
	my %streams = map { $_->{stream} => 1 } deletions($node);
	is(join(' ', sort keys %streams), '0 1 2', 'all streams have lost segments');
	verify_ok($node, 'the trail is whole');
	my ($code, $out, $err) = steno_result('verify', trail($node) . '/2');
	is($code, 0, 'one stream alone is whole, too: its record is found in another');

	# streams without a writer, and records of them that go with segments of stream 0
	set_and_reload($node, 'steno.writers', '1');
	$node->restart;
	my $before = firsts();
	foreach (1 .. 14)
	{
		fill($node, 1, 300);
	}
	wait_until 'the streams without a writer keep their last segments only', sub {
		segments($node, 1) == 1 && segments($node, 2) == 1 && (segments($node, 0))[0] > 14;
	};
	verify_ok($node, 'the trail is whole, as are streams whose first records have gone');
	# their records are repeated before the segment that has them goes
	fill($node, 8, 300);
	wait_until 'records of other streams are repeated', sub { scalar(grep { $_->{repeated} } deletions($node)) };
	fill($node, 8, 300);
	wait_until 'more has gone', sub { (segments($node, 0))[0] > 24 };
	wait_until 'what is there begins where the records end', sub {
		my %last = map { $_->{stream} => $_ } deletions($node);
		join(' ', map { $last{$_}{last_segment} + 1 } 0 .. 2) eq firsts();
	};
	verify_ok($node, 'the trail is still whole');
	$node->restart;
	unlike(slurp_file($node->logfile), qr/no writer uses any more/, 'a start does not take what was deleted for a change');

	# and with writers again
	set_and_reload($node, 'steno.writers', '3');
	$node->restart;
	fill_all(4);
	wait_until 'they lose segments again', sub { (segments($node, 1))[0] > (split / /, $before)[1] + 2 };
	verify_ok($node, 'the trail is whole');

	$node->stop;
}

# The record of a deletion is sealed before the segments go, however long the interval between two seals is.
{
	my $key = keygen(PostgreSQL::Test::Utils::tempdir() . '/key');
	my $node = new_node('deletions_are_sealed', conf => "steno.compression = none\nsteno.signing_key_file = '$key'\nsteno.seal_interval = 1h\nsteno.retention_size = 1MB\n");
	my $first = 0;
	my @not_sealed;

	foreach my $round (1 .. 4)
	{
		fill($node, 3);
		wait_until 'segments have gone', sub { my ($now) = segments($node); my $gone = $now > $first + 1; $first = $now if $gone; $gone };
		my ($code, $report) = verified($node, '--key', "$key.pub");
		push @not_sealed, map { "$round ($code): $_->{what}" } @{ $report->{problems} }, @{ $report->{unreadable} // [] };
	}
	is_deeply(\@not_sealed, [], 'a deletion is proved as soon as segments are missing');
	my ($deletion) = reverse grep { $_->{extra}{event} eq 'deleted' } records($node, kind => 'server');
	ok(scalar(grep { $_->{extra}{block} >= $deletion->{block} } seals($node, 0)), 'its record is sealed') or diag explain $deletion;
	$node->stop;
	my ($code, $report) = verified($node, '--key', "$key.pub");
	is($code, 0, 'and the trail is whole');
}

done_testing();
