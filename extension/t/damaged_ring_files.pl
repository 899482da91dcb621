
# A dead server has left a damaged ring file: the next start recovers the intact records, reports the
# others, and continues, and "steno recover" finds the same records.  First with specific damage, then
# with random bits and bytes.

use strict;
use warnings;

use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Ring;
use Test::More;

# the first one has found something
my @seeds = $ENV{STENO_TEST_SEED} // (1795376409, time);
my $rounds = $ENV{STENO_TEST_ROUNDS} // 8;
my $json = JSON::PP->new->utf8->canonical;
my $saved = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('main', conf => q{
restart_after_crash = off
steno.writers = 2
steno.ring_size = 16kB
steno.mandatory = ''
max_connections = 20
});
my ($name, $bytes, $state, $size, $templates_size, %of, %told);

# A command of steno that has a report: exit code, report.
sub reported
{
	my ($command, @args) = @_;
	my ($code, $out) = steno_result($command, '--format', 'json', @args);

	return ($code, $out ne '' ? $json->decode($out) : {});
}

# Sessions whose records are in rings only, when all processes are gone.
{
	my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');
	my @c = map { Steno::Client->new($node, application_name => "app $_") } 1 .. 4;
	my ($postmaster, @processes) = ($node->{_pid});

	$watch->query(q{SET steno.log = 'none'});
	$_->query("SELECT 'in the trail'") foreach @c;
	$watch->query('SELECT steno.flush()');
	kill 'STOP', map { $_->[0] } @{ $watch->query('SELECT pid FROM steno.writers')->{rows} };
	foreach my $n (1 .. 4)
	{
		my $c = $c[ $n - 1 ];

		foreach my $i (1 .. 10)
		{
			$c->query("SELECT '$n, $i'");
			$c->extended("SELECT \$1::int + $i, \$2::text", $i, 'value') if $i % 3 == 0;
			$c->query("SELECT $i/0") if $i % 4 == 0;
			$told{$n}{"SELECT '$n, $i'"} = 1;
		}
		$c->query('PREPARE p(int) AS SELECT $1 + 1');
		$c->query("EXECUTE p($_)") foreach 1 .. 8;
	}
	($name) = ring_files($node);
	@processes = ($postmaster, split ' ', `ps -o pid= --ppid $postmaster`);
	kill 'STOP', $postmaster;
	kill 'KILL', @processes[ 1 .. $#processes ], $postmaster;
	wait_until 'all are gone', sub { !grep { kill 0, $_ } @processes };
	$node->{_pid} = undef;
	unlink $node->data_dir . '/postmaster.pid';
	$bytes = slurp_file($name);
	PostgreSQL::Test::RecursiveCopy::copypath(trail($node), "$saved/trail");
	$state = slurp_file($node->data_dir . '/pg_steno.state');
	my %header = map { $_ => ring_number(\$bytes, 0, "StenoRingFile.$_") } qw(nrings size data_offset templates_offset);

	$size = $header{size};
	# those of all rings, up to the next page
	$templates_size = int(($header{data_offset} - $header{templates_offset}) / $header{nrings} / 1024) * 1024;
	foreach my $i (0 .. $header{nrings} - 1)
	{
		my $at = ring_at(\$bytes, $i);
		my ($n) = grep { $c[ $_ - 1 ]{pid} == ring_number(\$bytes, $at, 'StenoRing.owner') } 1 .. 4;

		$of{$n} = { ring => $at, data => $header{data_offset} + $size * $i, templates => $header{templates_offset} + $templates_size * $i }
		  if $n;
	}
	is(scalar keys %of, 4, 'each session has a ring');
	close $_->{socket} foreach @c, $watch;
}

# Where a message of a session stands in the file, the first is 0.
sub message
{
	my ($n, $which) = @_;
	my $r = $of{$n};
	my $position = ring_number(\$bytes, $r->{ring}, 'StenoRing.tail');

	while (1)
	{
		my $at = $r->{data} + $position % $size;

		return $at if $which-- == 0;
		$position += ring_number(\$bytes, $at, 'StenoMessage.len');
	}
}

# Gap records written at recovery, by a writer or by steno recover, each in its own session.
sub own_gaps
{
	my @r = map { $json->decode($_) } lines(@_);
	my %own = map { $_->{session} => 1 } grep { $_->{kind} eq 'server' } @r;

	return sort map { $json->encode($_->{extra}) } grep { $own{ $_->{session} } && $_->{kind} eq 'gap' } @r;
}

sub all_of
{
	my ($directory, $sessions) = @_;

	my @r = map { $json->decode($_) } lines($directory);
	my %own = map { $_->{session} => 1 } grep { $_->{kind} eq 'server' } @r;

	return grep { !$own{ $_->{session} } && (!$sessions || $sessions->{ $_->{session} }) } @r;
}

# Damage the file, look at it with steno recover, and start the server.  Returns what verify says
# of its trail, and whether it could read the file.
my $times = 0;

sub damaged
{
	my ($what, $changed) = @_;
	my $folder = "$saved/" . ++$times;
	my $start = -s $node->logfile;
	my ($read, $report, $code, $verified, %sessions, @ours);

	mkdir $folder or die;
	unlink ring_files($node);
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', trail($node));
	PostgreSQL::Test::RecursiveCopy::copypath("$saved/trail", trail($node));
	chmod 0700, trail($node);
	# into the file that is there: a new one would make this a copy of the server
	open my $file, '+<:raw', $node->data_dir . '/pg_steno.state' or die $!;
	print $file $state or die $!;
	close $file or die $!;
	# a clean stop has removed its directory
	mkdir $name =~ s{/[^/]*$}{}r, 0700;
	append_to_file($name, $changed);
	($code, $report) = reported('recover', '--out', "$folder/copy", '--rings', $name, trail($node));

	$node->start;
	wait_until 'the file is done with', sub { slurp_file($node->logfile, $start) =~ /recovered \d+ records of an earlier run|could not read ring file/ };
	$read = slurp_file($node->logfile, $start) =~ /recovered \d+ records/;
	wait_until 'it has gone', sub { !-e $name } if $read;
	is(value($node, 'SELECT 1'), 1, "$what: the server runs");
	$node->stop;
	unlike(slurp_file($node->logfile, $start), qr/PANIC|terminated by signal|could not be restarted/, "$what: nothing has crashed");
	($code, $verified) = reported('verify', trail($node));

	# numbers in the rings' headers may be wrong: then only those of the records show it
	is_deeply(
		[ grep { $_ !~ /^session \S+: (records? .* (missing|more than once)|a gap record says)/ } map { $_->{what} } @{ $verified->{problems} } ],
		[], "$what: all that stands in the trail can be read")
	  or diag(explain $verified);
	if ($read && $code == 0)
	{
		is(scalar @{ $report->{ring_files} // [] }, 1, "$what: steno recover reads it, too");
		@ours = all_of("$folder/copy");
		$sessions{ $_->{session} } = 1 foreach @ours;
		is_deeply(
			[ sort map { without_origin($_) } all_of(trail($node), \%sessions) ],
			[ sort map { without_origin($_) } @ours ],
			"$what: and finds the same records");
		is_deeply([ own_gaps(trail($node)) ], [ own_gaps("$folder/copy") ], "$what: and as many that nobody can number");
	}
	return ($code, $read, slurp_file($node->logfile, $start));
}

# Statements of a session, among those whose end it was told.
sub there
{
	my ($n) = @_;
	my %seen;

	$seen{ $_->{text} }++ foreach statements(trail($node), application => "app $n");
	return scalar grep { ($seen{$_} // 0) == 1 } keys %{ $told{$n} };
}

# A message of length zero: a reader that adds it up does not advance.
{
	my $at = message(1, 3);
	my $changed = $bytes;
	my ($code, $read, $log, $gap);

	substr($changed, $at, 4) = pack 'L<', 0;
	($code, $read, $log) = damaged('no length', $changed);
	is($code, 0, 'no length: the trail is whole');
	like($log, qr/WARNING: .*ring file "\Q$name\E" of an earlier run is damaged/, 'no length: reported in the log');
	like($log, qr/Of its \d+ rings, 1 could not be read to their ends, which hold \d+ bytes/, 'no length: and how much');
	is(there($_), 10, "no length: all of session $_") foreach 2 .. 4;
	cmp_ok(there(1), '<', 10, 'no length: what stands behind it is gone');
	$gap = the_record(trail($node), 'no length: its gap', kind => 'gap', application => 'app 1');
	is($gap->{extra}{reason}, 'ring damaged', 'no length: why');
	like($gap->{extra}{bytes}, qr/^\d+$/, 'no length: how much');
	gapless(trail($node), 'no length: no numbers are missing');
}

# A record whose shape cannot be read: the records behind it can.
{
	my $changed = $bytes;
	my ($found, $gap, $code);

	foreach my $i (2 .. 8)
	{
		my $at = message(2, $i);
		# a whole record with a shape: say that it has more relations than it has bytes
		next if ord(substr $bytes, $at + ring_offset('StenoMessage.flags'), 1) & 8;
		my $shape = ring_number(\$bytes, $at, 'StenoRecordMessage.shape_len');

		next if $shape < 8;
		substr($changed, $at + 96 + $shape - 4, 4) = "\xff\xff\xff\xff";
		$found = 1;
		last;
	}
	ok($found, 'there is a record with a shape');
	($code) = damaged('no shape', $changed);
	is($code, 0, 'no shape: the trail is whole');
	$gap = the_record(trail($node), 'no shape: its gap', kind => 'gap', application => 'app 2');
	is_deeply($gap->{extra}, { count => '1', reason => 'ring damaged' }, 'no shape: what it says');
	cmp_ok(there(2), '>=', 9, 'no shape: all others are there');
	gapless(trail($node), 'no shape: no numbers are missing');
}

# Impossible positions: nothing is recovered from that ring.
{
	my $changed = $bytes;
	my ($code);

	ring_number(\$changed, $of{3}{ring}, 'StenoRing.head', ring_number(\$bytes, $of{3}{ring}, 'StenoRing.tail') + 1_000_000);
	($code) = damaged('no head', $changed);
	is($code, 0, 'no head: the trail is whole');
	is(there($_), 10, "no head: all of session $_") foreach 1, 2, 4;
	is(there(3), 0, 'no head: nothing of session 3');
	is(scalar records(trail($node), kind => 'gap', application => 'app 3'), 1, 'no head: a gap instead');
}

# Numbers of dropped records: a plausible one, and one that is larger than that of all dropped records.
{
	my $at = $of{4}{ring};
	my $changed = $bytes;
	my ($code, $read, $log);

	ring_number(\$changed, $at, "StenoRing.$_", 7) foreach qw(drops orphan_drops);
	damaged('drops', $changed);
	is_deeply([ own_gaps(trail($node)) ], ['{"count":"7","reason":"ring full"}'], 'drops: they have a gap record');
	ring_number(\$changed, $at, 'StenoRing.orphan_drops', 1 << 49);
	($code, $read, $log) = damaged('impossible drops', $changed);
	is_deeply([ own_gaps(trail($node)) ], ['{"reason":"ring damaged"}'], 'impossible drops: a gap record that does not count');
	like($log, qr/and 1 counts of dropped records could not be read/, 'impossible drops: reported in the log');
}

# Anywhere.
sub damage_anywhere
{
	my ($round) = @_;
	my $changed = $bytes;
	my @places;

	foreach (0 .. int rand 6)
	{
		my $r = $of{ 1 + int rand 4 };
		# of the header, except the identity of its server, which the server knows by the name of the file
		my @areas = (
			[ 0, ring_offset('StenoRingFile.system_identifier') ],
			[ $r->{ring}, ring_offset('StenoRing.session') ],
			[ $r->{templates}, $templates_size ],
			([ $r->{data}, ring_number(\$bytes, $r->{ring}, 'StenoRing.head') % $size ]) x 5);
		my $area = $areas[ $round % 4 == 0 ? int rand 8 : 1 + int rand 7 ];
		my $at = $area->[0] + int rand $area->[1];

		substr($changed, $at, 1) = chr(ord(substr $changed, $at, 1) ^ 1 << int rand 8);
		push @places, $at;
	}
	damaged("bits of the bytes at @places", $changed);
	return;
}
foreach my $seed (@seeds)
{
	note("STENO_TEST_SEED=$seed STENO_TEST_ROUNDS=$rounds");
	srand $seed;
	damage_anywhere($_) foreach 1 .. $rounds;
}
done_testing();
