
# When a segment is large enough or old enough, a new one begins.  The space that one ends with.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno::Faults;
use Steno;
use Test::More;

# A segment that has become as old as steno.rotation_age is followed by a new one;
# a segment without records is not.  The writer's clock is put ahead.
{
	my $hour = 3600;
	my $faults = Steno::Faults->new;
	my $node = new_node('rotation_by_age', start => 0, conf => "steno.rotation_age = 1440\nsteno.mandatory = ''\n");
	my ($watch, $c);

	sub number_of_segments
	{
		return scalar(my @files = glob trail($node) . '/0/*.steno');
	}

	# The writer has completed passes since our last change; this makes no record.
	sub passes
	{
		my ($passes) = map { $_->[0] } @{ $watch->query('SELECT passes FROM steno.writers')->{rows} };

		wait_until 'the writer has made two passes',
		  sub { $watch->query('SELECT passes FROM steno.writers')->{rows}[0][0] >= $passes + 2 };
		return;
	}

	$faults->start($node);
	$watch = Steno::Client->new($node, application_name => 'watch');
	$watch->query('CREATE EXTENSION pg_steno');
	$watch->query(q{SET steno.log = 'none'});
	$c = Steno::Client->new($node, application_name => 'recorded');
	passes();
	is(number_of_segments(), 1, 'a first segment');

	$faults->set('clock', 23 * $hour);
	$c->query(q{SELECT 'after 23 hours'});
	passes();
	is(number_of_segments(), 1, 'younger than steno.rotation_age: it goes on');

	$faults->set('clock', 25 * $hour);
	passes();
	is(number_of_segments(), 2, 'older: a new one');

	$faults->set('clock', 60 * $hour);
	passes();
	is(number_of_segments(), 2, 'the new one has no records and stays, however old');

	$c->query(q{SELECT 'after 60 hours'});
	passes();
	is(number_of_segments(), 3, 'with records, it is old enough');

	$faults->set('clock', 70 * $hour);
	$c->query(q{SELECT 'after 70 hours'});
	passes();
	is(number_of_segments(), 3, 'its age counts from its own beginning');

	$node->append_conf('postgresql.conf', 'steno.rotation_age = 0');
	$node->reload;
	wait_until 'the reload is done', sub { $watch->query('SHOW steno.rotation_age')->{rows}[0][0] eq '0' };
	passes();
	$faults->set('clock', 1000 * $hour);
	$c->query(q{SELECT 'after 1000 hours'});
	passes();
	is(number_of_segments(), 3, 'steno.rotation_age = 0: never');

	$_->quit foreach $watch, $c;
	$node->stop;
	verify_ok($node, 'the trail is whole');
	gapless($node, 'no session has gaps');
}

# New segments while sessions write: the chain goes on from one to the next, and
# nothing is lost.
{
	my $node = new_node(
		'rotation_under_load', conf => q{
	steno.segment_size = 1MB
	steno.compression = none
	steno.flush_interval = 10ms
	});
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my @segments;
	my (@children, %texts, @missing);

	sub segments
	{
		return map { -s $_ } sort glob trail($node) . '/0/*.steno';
	}

	foreach my $i (1 .. 3)
	{
		my $pid = fork // die "fork: $!";

		if (!$pid)
		{
			my $c = Steno::Client->new($node, application_name => 'load');

			# each text is long and different, so that the dictionary does not help
			$c->query(sprintf "SELECT 'load %d.%d', '%s'", $i, $_, join ',', map { rand } 1 .. 160)
			  foreach 1 .. 1000;
			$c->quit;
			POSIX::_exit(0);
		}
		push @children, $pid;
	}
	for (1 .. 5)
	{
		my $before = segments();

		# not all at once: there must be something to rotate
		value($node, "SELECT 'something'");
		value($node, 'SELECT steno.rotate()');
		cmp_ok(scalar(segments()), '>', $before, 'steno.rotate() has begun a segment when it returns');
	}
	waitpid $_, 0 foreach @children;
	flush($node);

	@segments = segments();
	cmp_ok(scalar @segments, '>', 6, 'segments by size and by request');
	cmp_ok((sort { $b <=> $a } @segments)[0], '<', 1024 * 1024 + 1200 * 1024,
		'none is larger than steno.segment_size by more than a block');
	foreach my $line (lines($node, '--application', 'load', '--kind', 'statement'))
	{
		$texts{$1}++ if $line =~ /'load ([\d.]+)'/;
	}
	foreach my $i (1 .. 3)
	{
		push @missing, grep { ($texts{$_} // 0) != 1 } map { "$i.$_" } 1 .. 1000;
	}
	is_deeply(\@missing, [], 'each statement is there once');

	is(value($node, 'SELECT max(segment) FROM steno.writers'), scalar @segments,
		'steno.writers shows the segment');
	value($node, q{SELECT 'the last segment is far from full, so that a restart does not fill it'});
	value($node, 'SELECT steno.rotate()');
	$node->stop;
	verify_ok($node, 'the trail is whole');
	gapless($node, 'no session has gaps');

	# The server goes on with the last segment, not with a new one.
	@segments = segments();
	$node->start;
	flush($node);
	is(scalar(segments()), scalar @segments, 'a restart goes on with the last segment');

	verify_ok($node, 'and with its chain');

	# Headers have the times of the segment before, which verify has compared, and where the server's last start is.
	value($node, "SELECT 'before the rotation'");
	value($node, 'SELECT steno.rotate()');
	flush($node);
	my @headers = map { [ unpack 'q<q<Q<', substr slurp_file($_), 96, 24 ] } sort glob trail($node) . '/0/*.steno';
	is_deeply(shift @headers, [ 0, 0, 0 ], 'nothing is before the first segment');
	is(scalar(grep { $_->[0] == 0 || $_->[1] < $_->[0] } @headers), 0, 'others know the times of the one before');
	is($headers[-1][2], scalar @segments, 'the last one knows where the server has started');
	pop @headers;
	is_deeply([ map { $_->[2] } @headers ], [ (1) x @headers ], 'and those before the restart where it started before');
	my $writer = value($node, 'SELECT pid FROM steno.writers');
	kill 'TERM', $writer or die "could not end the writer: $!";
	wait_until 'it is started again', sub { value($node, "SELECT pid <> $writer AND state = 'ok' FROM steno.writers") eq 't' };
	value($node, "SELECT 'by the next writer'");
	value($node, 'SELECT steno.rotate()');
	flush($node);
	is(unpack('Q<', substr slurp_file((sort glob trail($node) . '/0/*.steno')[-1]), 112, 8), scalar @segments,
		'a writer that is started again knows it, too');
	verify_ok($node, 'the trail is whole');
	$node->stop;
}

# Where statements wait for the disk, the open segment ends with space for blocks: zeros, which readers
# ignore, which a crash does not turn into an unfinished block, and which are cut off when the segment
# is finished.
{
	my $node = new_node('main', conf => "steno.sync = 'write'\n");
	my $rows = 0;

	sub segment_files
	{
		return sort glob trail($node) . '/0/*.steno';
	}

	# How many zeros the file ends with.
	sub room
	{
		my ($file) = @_;

		return slurp_file($file) =~ /(\0+)\z/ ? length $1 : 0;
	}

	sub write_rows
	{
		for (1 .. 3)
		{
			$rows++;
			$node->safe_psql('postgres', "INSERT INTO t VALUES ($rows)");
		}
		return;
	}

	# In the trail as its readers see it.
	sub rows_are_there
	{
		my ($what) = @_;
		my %seen = map { $_->{text} => 1 }
		  statements($node, text => qr/^INSERT/, kind => 'statement');

		is_deeply([ grep { !$seen{"INSERT INTO t VALUES ($_)"} } 1 .. $rows ], [], "$what: all is there");
		verify_ok($node, "$what: the trail is whole");
		return;
	}

	sub torn
	{
		flush($node);
		return scalar grep { $_->{extra}{event} eq 'torn' } records($node, kind => 'server');
	}

	$node->safe_psql('postgres', 'CREATE TABLE t (n int)');
	write_rows();
	is((-s (segment_files())[-1]) % (256 * 1024), 0, 'the open segment has a length that is rarely changed');
	cmp_ok(room((segment_files())[-1]), '>', 100_000, '... and ends with room');
	rows_are_there('with room');

	$node->safe_psql('postgres', 'SELECT steno.rotate()');
	write_rows();
	is(scalar(my @files = segment_files()), 2, 'a segment follows');
	cmp_ok(room($files[0]), '<', 16, 'the finished segment has no room');
	cmp_ok(room($files[1]), '>', 100_000, 'the next has');
	rows_are_there('after a rotation');

	$node->stop('immediate');
	cmp_ok(room((segment_files())[-1]), '>', 100_000, 'a crash leaves the room');
	$node->start;
	is(torn(), 0, '... which is no unfinished block');
	write_rows();
	rows_are_there('after a crash');

	$node->stop;
	cmp_ok(room((segment_files())[-1]), '<', 16, 'a stop leaves none');
	$node->start;
	write_rows();
	rows_are_there('after a stop');
	is(torn(), 0, 'nothing was ever unfinished');
}

done_testing();
