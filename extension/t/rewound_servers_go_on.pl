
# A server crashes with records in its rings, and the next start finds another trail: pg_rewind has replaced it with that
# of the new primary, or steno.directory was changed.  What the rings have is recovered into that trail, which says that
# the first records of these sessions are elsewhere: nothing was altered, and not everything was recorded.  If the trail is
# the server's own, and its last blocks were removed after the crash, that is damage as ever, with or without the state
# file; and so it is for whoever has both trails.

use strict;
use warnings;

use File::Copy ();
use File::Path ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Forge;
use Steno::Seals;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $key = keygen("$folder/key");
my $conf = "steno.signing_key_file = '$key'\nwal_log_hints = on\nwal_keep_size = 256MB\n";

# Sessions with records in the trail that are still open when the server crashes; one runs a statement.
sub crash_with_sessions
{
	my ($node) = @_;
	my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;

	foreach my $i (0 .. $#sessions)
	{
		$sessions[$i]->query_safe("SELECT 'session $i, " . $node->name . " $_'") foreach 0 .. $i;
	}
	flush($node);
	$sessions[2]->query_until(qr/began/, "\\echo began\nSELECT pg_sleep(600);\n");
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(600)%'}) or die;
	$node->stop('immediate');
	$_->{run}->kill_kill foreach @sessions;
	return;
}

sub is_told
{
	my ($what, $node, $trail) = @_;
	my ($code, $report) = verified($trail, '--key', "$key.pub");
	my @others = map { $_->{extra} } grep { $_->{extra}{event} eq 'other_trail' } records($trail, kind => 'server');

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("$code @{[ map { $_->{what} } @{ $report->{problems} } ]}", '0 ', "$what: nothing is damaged");
	is(scalar(grep { $_->{what} =~ /had recorded in another trail, whose stream \d+ had at least \d+ blocks/ } @{ $report->{warnings} }), 1, "$what: verify warns once");
	ok(!$report->{recorded}[0]{everything}, "$what: not everything was recorded");
	like(join('|', @{ $report->{recorded}[0]{lacks} }), qr/had recorded in another trail, and only what it had left in its ring file was recovered/, "$what: and why");
	is(scalar(grep { !$_->{session} } @others), 1, "$what: one stream is elsewhere");
	cmp_ok(scalar(grep { $_->{session} } @others), '>=', 3, "$what: so are the beginnings of three sessions");
	like(slurp_file($node->logfile), qr/WARNING:  the run of the server that began at \S+ and did not stop had recorded in another trail/, "$what: the log says so");
	like((steno_result('check', $trail, '--verbose', '--state', "$folder/state." . ($what =~ s/\W/_/gr)))[1], qr/had recorded in another trail/, "$what: steno check, too");
	return;
}

# A trail, as it is now, in another place.
sub kept
{
	my ($trail, $name) = @_;

	PostgreSQL::Test::RecursiveCopy::copypath($trail, "$folder/$name", filterfn => sub { 1 });
	return "$folder/$name";
}

# Together with the trail that the run had recorded in, nothing is elsewhere.
sub is_whole_with
{
	my ($what, $trail, @old) = @_;
	my ($code, $report) = verified($trail, '--key', "$key.pub", @old);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("$code @{[ map { $_->{what} } @{ $report->{problems} } ]}", '0 ', "$what: nothing is damaged in both trails");
	is(scalar(grep { $_->{what} =~ /another trail/ } @{ $report->{warnings} }), 0, "$what: nor is anything elsewhere");
	return;
}

# pg_rewind.
my $primary = new_node('primary', streaming => 1, conf => $conf);
my $standby = PostgreSQL::Test::Cluster->new('standby');
$primary->safe_psql('postgres', 'SELECT 1');
$primary->backup('backup');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
Steno::configure($standby);
$standby->start;
$primary->wait_for_catchup($standby);
crash_with_sessions($primary);
my $old = kept(trail($primary), 'rewound');
$standby->promote;
$standby->safe_psql('postgres', 'CREATE TABLE diverged AS SELECT 1 AS a; CHECKPOINT');
$standby->stop;
File::Copy::copy($primary->data_dir . '/postgresql.conf', "$folder/postgresql.conf") or die;
command_ok([ 'pg_rewind', '--source-pgdata', $standby->data_dir, '--target-pgdata', $primary->data_dir, '--no-sync', '--config-file', "$folder/postgresql.conf" ], 'pg_rewind runs');
File::Copy::move("$folder/postgresql.conf", $primary->data_dir . '/postgresql.conf') or die;
$primary->start;
$primary->safe_psql('postgres', 'SELECT 2');
flush($primary);
is_told('pg_rewind', $primary, trail($primary));
is_whole_with('pg_rewind', trail($primary), $old);
is(scalar(grep { $_->{outcome} eq 'interrupted' && ($_->{text} // '') =~ /pg_sleep\(600\)/ } records($primary, kind => 'statement')), 1, 'pg_rewind: what the rings had was recovered');

# steno.directory is changed, and the first start does not recover the ring file.
crash_with_sessions($primary);
{
	my ($ring_file) = ring_files($primary);

	chmod 0, $ring_file or die;
	$primary->append_conf('postgresql.conf', "steno.directory = '$folder/new'");
	$primary->start;
	flush($primary);
	is(scalar(grep { $_->{extra}{event} eq 'other_trail' } records("$folder/new", kind => 'server')), 0, 'a ring file that cannot be read says nothing');
	$primary->stop;
	chmod oct(600), $ring_file or die;
}
$primary->start;
flush($primary);
is_told('another directory', $primary, "$folder/new");
is_whole_with('another directory', "$folder/new", trail($primary), $old);

# The server's own trail, after a crash: whatever is removed from it then, no record explains that.
my $cut = new_node('cut', conf => $conf);
my $trail = trail($cut);
my $state = $cut->data_dir . '/pg_steno.state';

sub cut_blocks
{
	my $segment = last_segment_of($trail, 0);

	# seals may have been written meanwhile, whose loss nothing shows without the state file
	for (my $n = 0; $n < 3 || lines($trail, '--grep', q{SELECT 'removed'}); $n++)
	{
		truncate($segment, Steno::Forge::last_block(slurp_file($segment))) or die;
	}
	return;
}

# The contents of a file, in the same file.
sub write_over
{
	my ($file, $bytes) = @_;

	open my $handle, '+<:raw', $file or die "$file: $!";
	print $handle $bytes;
	close $handle;
	return;
}

my ($older_state, $older_trail);
my $number = 0;
foreach my $case (
	[ 'blocks', sub { cut_blocks() } ],
	[ 'the trail', sub { File::Path::remove_tree($trail, { keep_root => 1 }) } ],
	[ 'blocks and the state file', sub { cut_blocks(); unlink $state or die } ],
	[ 'blocks, with a copy of the state file', sub { cut_blocks(); File::Copy::copy($state, "$state.x"); rename "$state.x", $state or die } ],
	[ 'blocks, with a backup label', sub {
		my $label = $cut->data_dir . '/backup_label';

		cut_blocks();
		append_to_file($label, '');
		$cut->start(fail_ok => 1);
		unlink $label or die;
	} ],
	[ 'blocks, with an older state file', sub {
		File::Path::remove_tree($trail);
		File::Copy::move($older_trail, $trail) or die;
		write_over($state, $older_state);
	} ])
{
	my ($what, $remove) = @$case;
	my $session = $cut->background_psql('postgres');

	$session->query_safe("SELECT 'older'");
	flush($cut);
	$older_state = slurp_file($state);
	$older_trail = kept($trail, 'older' . ++$number);
	$session->query_safe("SELECT 'removed'");
	flush($cut);
	crash_with_sessions($cut);
	$session->{run}->kill_kill;
	$remove->();
	$cut->start;
	flush($cut);

	my ($code, $report) = verified($trail, '--key', "$key.pub");

	is($code, 1, "$what: that they were removed is damage");
	like(join('|', map { $_->{what} } @{ $report->{problems} }), $what eq 'blocks' ? qr/its end was cut off/ : qr/session \S+: records? .* missing/, "$what: and verify says so");
	is(scalar(grep { $_->{extra}{event} eq 'other_trail' } records($trail, kind => 'server')), 0, "$what: nothing is said to be elsewhere");
	$cut->stop;
	File::Path::remove_tree($trail, { keep_root => 1 });
	unlink $state;
	$cut->start;
}
done_testing();
