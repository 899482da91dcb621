
# A server writes its trail to one directory, then to another one, and then to the first one again.  What it knows of
# the end of a trail belongs to that trail: one that nobody has touched is not called damaged, and one that
# somebody has is.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $key = keygen("$folder/key");
my $node = new_node('main', start => 0, conf => <<"END");
steno.signing_key_file = '$key'
# what the server writes to its WAL by itself would leave open whether it has run meanwhile
wal_level = minimal
max_wal_senders = 0
autovacuum = off
END
my $state = $node->data_dir . '/pg_steno.state';

# A run of the server, with this directory for its trail and these settings.
sub run_with
{
	my ($trail, %options) = @_;

	$node->append_conf('postgresql.conf', "steno.directory = '$folder/$trail'\nsteno.writers = @{[ $options{writers} // 1 ]}\n");
	$node->start;
	value($node, 'CREATE EXTENSION IF NOT EXISTS pg_steno');
	value($node, "SELECT 'in $trail'") foreach 1 .. 3;
	flush($node);
	$node->stop($options{stop} // 'fast');
	return;
}

# The records of branches in a trail, without those of an empty directory.
sub branches
{
	my ($trail) = @_;

	return join ', ', grep { !/gone/ } map { "$_->{stream} < $_->{extra}{stream}: $_->{extra}{reason}" }
	  grep { $_->{extra}{event} eq 'branch' } records("$folder/$trail", kind => 'server');
}

sub whole
{
	my ($what, @trails) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $trail (@trails)
	{
		my ($code, $report) = verified("$folder/$trail", '--key', "$key.pub");

		is("$code @{[ map { $_->{what} } @{ $report->{problems} } ]}", '0 ', "$what: trail $trail is whole");
		is(branches($trail), '', "$what: and its streams go on");
	}
	return;
}

# Whether the last start says that the server was not run since the stop before it.
sub not_run_before
{
	my ($trail) = @_;
	my ($start) = grep { $_->{event} eq 'start' } reverse map { $_->{extra} } records("$folder/$trail", kind => 'server');

	return defined $start->{not_run_since_wal} ? 1 : 0;
}

sub kept
{
	return map { s/.*\.//r } glob "$state.*";
}

# Both in turns, also after a kill, and with more writers.
run_with('a');
is(join(' ', kept()), '', 'nothing is kept of other trails');
run_with('b');
my ($a) = kept();
like($a, qr/^[0-9a-f]{16}$/, 'what is known of the first one is kept');
run_with('a');
whole('there and back', 'a', 'b');
is(not_run_before('a'), 0, 'a run with another trail is a run');
my ($b) = kept();
isnt($b, $a, 'now what is known of the other one');
run_with('b');
whole('and there again', 'a', 'b');
run_with('a', writers => 2);
run_with('b');
run_with('a');
whole('with another number of writers', 'a', 'b');
is(join(' ', kept()), $b, 'one file for each trail');
run_with('a');
is(not_run_before('a'), 1, 'without a change, the stop is the last one');

# A link to a directory is that directory.
symlink "$folder/a", "$folder/link" or die;
run_with('link');
is(not_run_before('a'), 1, 'the name of the directory does not matter');
unlink "$folder/link" or die;
symlink "$folder/b", "$folder/link" or die;
run_with('link');
run_with('a');
whole('by a link', 'a', 'b');

# The start was killed before it had renamed both.
rename $state, "$state.$a" or die;
run_with('b');
whole('killed in between', 'a', 'b');
rename $state, "$state.$b" or die;
run_with('b');
whole('killed in between, and as before', 'a', 'b');

# A file that the start was about to make.
append_to_file("$state.new", 'unfinished');
run_with('c');
ok(!-e "$state.new", 'an unfinished file is made anew');
run_with('a');
whole('three', 'a', 'b', 'c');

# Moved, and back: the state goes with the trail, and nothing is kept that would be out of date.
rename "$folder/a", "$folder/moved" or die;
run_with('moved');
is(not_run_before('moved'), 1, 'a move is no run');
ok(!-e "$state.$a", 'nothing is kept of a directory that is gone');
run_with('moved');
rename "$folder/moved", "$folder/a" or die;
run_with('a');
whole('moved', 'a');

# After a kill, the next run writes what it finds in the rings, whose records then are in another trail than those
# before them.  The ends of both are known nevertheless.
run_with('killed', stop => 'immediate');
run_with('next', stop => 'immediate');
run_with('killed');
run_with('next');
is(branches($_), '', "after a kill, the streams of trail $_ go on") foreach 'killed', 'next';
run_with('a');

# A copy goes its own way.
PostgreSQL::Test::RecursiveCopy::copypath("$folder/a", "$folder/copy");
run_with('copy');
run_with('a');
run_with('copy');
run_with('a');
whole('copied', 'a', 'copy');

# A copy of the data directory is one, whichever trail it goes on with.
{
	my $other = $node->data_dir . '.copy';

	PostgreSQL::Test::RecursiveCopy::copypath($node->data_dir, $other);
	chmod 0700, $other or die;
	foreach my $trail ('a', 'b')
	{
		PostgreSQL::Test::RecursiveCopy::copypath("$folder/$trail", "$folder/$trail.clone");
		system_or_bail('pg_ctl', '-D', $other, '-w', '-l', $node->logfile, '-o', "-c steno.directory=$folder/$trail.clone", 'start');
		system_or_bail('pg_ctl', '-D', $other, '-w', 'stop');
	}
	like(branches('a.clone'), qr/^\d+ < 0: copy/, 'a copy of the data directory does not go on with a trail');
	unlike(branches('a.clone'), qr/: (?!copy)/, 'and accuses nobody');
	system_or_bail('pg_ctl', '-D', $other, '-w', '-l', $node->logfile, '-o', "-c steno.directory=$folder/b", 'start');
	system_or_bail('pg_ctl', '-D', $other, '-w', 'stop');
	is(branches('b'), '1 < 0: copy', 'nor with one whose state it has a copy of');
}

# What somebody does to a trail meanwhile is found.
{
	my ($last) = reverse sort glob "$folder/c/0/*.steno";

	truncate $last, (-s $last) - 100 or die;
	run_with('c');
	is(branches('c'), '1 < 0: cut off', 'a trail that was cut off meanwhile');
	run_with('a');
	whole('the other one', 'a');
}

# Nor can a trail that was moved, and then moved back, be cut off where it ended before.
{
	PostgreSQL::Test::RecursiveCopy::copypath("$folder/a", "$folder/before");
	rename "$folder/a", "$folder/moved" or die;
	run_with('moved');
	rename "$folder/before", "$folder/a" or die;
	run_with('a');
	like(branches('a'), qr/^\d+ < 0: cut off$/, 'a trail that was cut off to where it was before it was moved');
}
done_testing();
