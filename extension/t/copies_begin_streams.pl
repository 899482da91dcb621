
# A data directory is copied together with its trail: by a base backup, by copying the files of a
# stopped server, by a restore in place, by pg_rewind.  The copy leaves the existing streams as they
# are, and writes streams of its own.  After a restart or a promotion, and after the trail was moved,
# the server continues the existing streams.

use strict;
use warnings;

use File::Copy ();
use File::Path qw(rmtree);
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Forge;
use Steno::Seals;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $key = keygen("$folder/key");
my @key = ('--key', "$key.pub");
my $primary = new_node('primary', streaming => 1, conf => "steno.signing_key_file = '$key'\nwal_log_hints = on\nwal_keep_size = 256MB\n");

sub problems
{
	my ($trail, @args) = @_;
	my ($code, $report) = verified($trail, @args);

	return "$code " . join ' | ', map { $_->{what} } @{ $report->{problems} };
}

sub streams
{
	my ($node) = @_;

	# a writer begins its stream with its first block
	flush($node) if $node->{_pid};
	return join ' ', sort map { s{.*/}{}r } glob trail($node) . '/*[0-9]';
}

# The records of branches, "new stream < other stream: reason", in the order of the trail.
sub branches
{
	my ($node) = @_;

	return join ', ', map { "$_->{stream} < $_->{extra}{stream}: $_->{extra}{reason}" }
	  grep { $_->{extra}{event} eq 'branch' } records($node, kind => 'server');
}

sub starts
{
	my ($node) = @_;

	return map { $_->{extra} } grep { $_->{extra}{event} eq 'start' } records($node, kind => 'server');
}

sub slurp_stream
{
	my ($node, $stream) = @_;

	return join '', map { slurp_file($_) } sort glob trail($node) . "/$stream/*.steno";
}

$primary->safe_psql('postgres', "SELECT 'before the backup'");
flush($primary);
$primary->backup('backup');
my $anchors = "$folder/anchors";
append_to_file($anchors, seal_export($primary->backup_dir . '/backup/pg_steno'));

# A standby.
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
Steno::configure($standby);
{
	my $copied = slurp_stream($standby, 0);
	my $last = last_block_of(trail($standby), 0);
	my ($start, $branch);

	$standby->start;
	$primary->safe_psql('postgres', "SELECT 'on the primary'");
	$primary->wait_for_catchup($standby);
	value($standby, "SELECT 'on the standby'");
	flush($standby);
	flush($primary);
	like(slurp_file($standby->logfile), qr/LOG:  steno writer 0 begins stream 1 of the trail beside stream 0\n.*DETAIL:  The data directory is a copy of "\Q@{[ $primary->data_dir ]}\E" on host/,
		'standby: the log says that it begins a stream');
	is(streams($primary), '0', 'standby: the primary goes on in its stream');
	is(branches($standby), '1 < 0: copy', 'standby: recorded in the trail, too');
	ok(slurp_stream($standby, 0) eq $copied, 'standby: the copied stream is as it came');
	($branch) = grep { $_->{extra}{event} eq 'branch' } records($standby, kind => 'server');
	($start) = starts($primary);
	is($branch->{extra}{block}, $last, 'standby: up to which block it was copied');
	is($branch->{extra}{from_run}, $start->{run}, 'standby: which run had written it');
	isnt($branch->{extra}{run}, $start->{run}, 'standby: runs have names of their own');
	is($branch->{extra}{system_identifier}, $start->{system_identifier}, 'standby: the cluster is the same');
	is($start->{data_directory}, $primary->data_dir, 'standby: a start says which server it is');
	is($start->{cluster_name}, $primary->name, 'standby: and its cluster_name');
	is($branch->{extra}{data_directory}, $standby->data_dir, 'standby: so does a branch');
	is(problems($standby, @key, '--anchor', $anchors), '0 ', 'standby: the trail is whole, and has what was anchored before the backup');
	is(problems($primary, @key, '--anchor', $anchors), '0 ', 'standby: so is the primary\'s');
	my ($code, $report) = verified($standby, @key);
	is_deeply([ @{ $report->{branches}[0] }{qw(stream from_stream from_block reason)} ], [ 1, 0, $last, 'copy' ], 'standby: verify names the branch');

	# together, what both have counts once; as they are now, because both servers go on
	my (%lines, %now);
	foreach my $node ($primary, $standby)
	{
		$now{ $node->name } = "$folder/now_" . $node->name;
		PostgreSQL::Test::RecursiveCopy::copypath(trail($node), $now{ $node->name });
	}
	foreach ([$primary], [$standby], [ $primary, $standby ], [ $standby, $primary ])
	{
		my ($c, $out, $err) = steno_result('cat', '--format', 'json', map { $now{ $_->name } } @$_);

		$lines{ join ' ', map { $_->name } @$_ } = [ sort split /\n/, $out ];
		is("$c$err", 0, 'standby: reading is without a warning');
	}
	my %all = map { $_ => 1 } @{ $lines{primary} }, @{ $lines{standby} };
	is_deeply($lines{'primary standby'}, [ sort keys %all ], 'standby: with the primary\'s trail, records of both count once');
	is_deeply($lines{'standby primary'}, [ sort keys %all ], 'standby: whichever is named first');
	($code, my $out) = steno_result('verify', '--format', 'json', @key, @now{qw(primary standby)});
	$report = JSON::PP->new->utf8->decode($out);
	is("$code $report->{records}", '0 ' . scalar(keys %all), 'standby: verify counts them once, too') or diag $out;
	is(scalar(grep { $_->{what} =~ /^$last of its \d+ blocks are also in/ } @{ $report->{warnings} }), 1, 'standby: and says so once');

	# records that the primary has written since are not in the copy, which is reported
	append_to_file("$folder/later", seal_export($primary));
	like(problems($standby, @key, '--anchor', "$folder/later"), qr/^1 block \d+ of stream 0, named by anchor .* here the stream continues as stream 1 after block $last/,
		'standby: a later anchor of the primary is told from a cut end');
	append_to_file("$folder/own", seal_export($standby));
	is(problems($standby, @key, '--anchor', "$folder/own"), '0 ', 'standby: its own anchors are right');

	append_to_file($standby->data_dir . '/pg_steno/0/0000000001.steno', '');
	forge_block(trail($standby), 0, 'forged');
	like(problems($standby), qr/^1 block @{[ $last + 1 ]} of stream 0 was not written by the server/, 'standby: nothing is added to the copied stream');
	cut_last_block(trail($standby), 0);
}

# It continues its stream, also after its promotion.
{
	$standby->restart;
	$standby->promote;
	value($standby, "SELECT 'promoted'");
	$standby->restart;
	is(streams($standby), '0 1', 'promotion: it goes on in its stream');
	is((starts($standby))[-1]{timeline}, 2, 'promotion: the start says the timeline');
	is(problems($standby, @key), '0 ', 'promotion: the trail is whole');
}

# Both servers go on, and a question about the trails of both is answered of both.
sub proof_of_both
{
	my ($since, $until) = @_;
	my $proof = "$folder/proof_" . join '_', map { s/\W//gr } $since, $until;
	my ($code, $said, $err) = steno_result('prove', '--out', $proof, '--grep', 'of both', '--since', $since, '--until', $until, map { trail($_) } $primary, $standby);

	is("$code$err", 0, 'both: a proof is made of both trails') or return {};
	(undef, $said) = steno_result('prove', '--check', $proof, @key, '--format', 'json');
	return JSON::PP->new->utf8->decode($said);
}

{
	my $now = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US+00')";
	my ($began, $ended, $report, $code);

	$began = $primary->safe_psql('postgres', $now);
	$_->safe_psql('postgres', "SELECT 'of both', " . $_->port) foreach $primary, $standby;
	$ended = $standby->safe_psql('postgres', $now);
	$primary->safe_psql('postgres', 'SELECT pg_sleep(6)');	# a proof that ends later than its range is complete
	$_->stop foreach $primary, $standby;
	$report = proof_of_both($began, $ended);
	ok($report->{proved}, 'both: it is proved') or diag explain $report;
	is_deeply($report->{exceptions}, [], 'both: and complete, although one is a copy of the other');
	is($report->{matches}, 2, 'both: it has the statements of both');
	$report = proof_of_both('2000-01-01', $ended);
	ok($report->{proved}, 'both: from the beginning, too') or diag explain $report;
	is(scalar(grep { /ended without stopping/ } @{ $report->{exceptions} }), 0, 'both: the start of the copy is no end of the primary') or diag explain $report->{exceptions};
	(undef, my $out) = steno_result('verify', '--format', 'json', @key, map { trail($_) } $primary, $standby);
	$report = JSON::PP->new->utf8->decode($out)->{recorded};
	is_deeply([ map { grep { /ended without stopping/ } @{ $_->{lacks} } } @$report ? @$report : {} ], [], 'both: nor does verify say so') or diag $out;
	is($report->[0]{copied}, undef, 'both: what the original has recorded is there');
	($code, $out) = steno_result('verify', @key, trail($standby));
	like($out, qr/^copied +a copy of the data directory, of "\Q@{[ $primary->data_dir ]}\E" on host .*is not in this trail$/m, 'copy alone: verify says that the original went on elsewhere');
	$_->start foreach $primary, $standby;
}

# The old primary is rewound.
{
	$primary->stop;
	$standby->safe_psql('postgres', 'CHECKPOINT');
	$standby->stop;
	File::Copy::copy($primary->data_dir . '/postgresql.conf', "$folder/postgresql.conf") or die;
	command_ok([ 'pg_rewind', '--source-pgdata', $standby->data_dir, '--target-pgdata', $primary->data_dir, '--no-sync', '--config-file', "$folder/postgresql.conf" ], 'pg_rewind runs');
	File::Copy::move("$folder/postgresql.conf", $primary->data_dir . '/postgresql.conf') or die;
	is(streams($primary), '0 1', 'rewind: the trail is replaced by that of the source');
	$primary->start;
	value($primary, "SELECT 'rewound'");
	is(streams($primary), '0 1 2', 'rewind: it goes on in a stream of its own');
	is((split /, /, branches($primary))[-1], '2 < 1: copy', 'rewind: which says beside which one');
	is(problems($primary, @key), '0 ', 'rewind: the trail is whole');
	$standby->start;
	is(streams($standby), '0 1', 'rewind: the source goes on in its stream');
	$standby->stop;
}

# A copy of the files of a stopped server.
{
	my $copy = PostgreSQL::Test::Cluster->new('copy');

	$primary->stop;
	$primary->backup_fs_cold('cold');
	$copy->init_from_backup($primary, 'cold');
	Steno::configure($copy);
	$copy->start;
	$primary->start;
	value($_, "SELECT 'twice'") foreach $copy, $primary;
	is(streams($copy), '0 1 2 3', 'copied files: the copy begins a stream');
	is((split /, /, branches($copy))[-1], '3 < 2: copy', 'copied files: recorded in the trail');
	is(streams($primary), '0 1 2', 'copied files: the original begins none');
	$copy->restart;
	is(streams($copy), '0 1 2 3', 'copied files: nor does the copy at its next start');
	$_->stop foreach $copy, $primary;
	is(problems($_, @key), '0 ', 'copied files: ' . $_->name . ' is whole') foreach $copy, $primary;
}

# A trail that is moved to another file system is continued, although its files are new there.
{
	PostgreSQL::Test::RecursiveCopy::copypath(trail($primary), "$folder/moved");
	rename trail($primary), trail($primary) . '.gone' or die;
	$primary->append_conf('postgresql.conf', "steno.directory = '$folder/moved'");
	$primary->start;
	value($primary, "SELECT 'moved'");
	value($primary, 'SELECT steno.flush()');
	$primary->stop;
	ok(!-e "$folder/moved/3", 'moved trail: no stream is begun');
	is(problems("$folder/moved", @key), '0 ', 'moved trail: it is whole');
	rename trail($primary) . '.gone', trail($primary) . '.older' or die;
}

# An empty directory gets a new trail, also that of a copy.
{
	my $clone = PostgreSQL::Test::Cluster->new('clone');

	$clone->init_from_backup($primary, 'backup');
	Steno::configure($clone);
	$clone->append_conf('postgresql.conf', "steno.directory = '$folder/empty'");
	$clone->start;
	$clone->stop;
	ok(-e "$folder/empty/0/0000000001.steno" && !-e "$folder/empty/1", 'empty directory: the first stream is 0');
	is(problems("$folder/empty", @key), '0 ', 'empty directory: the trail is whole');
}

# Restored in place, into the same files.
{
	my $node = new_node('restored', streaming => 1, conf => "steno.signing_key_file = '$key'\n");
	my $state = 'pg_steno.state';
	my $backup;

	$node->backup('own');
	$backup = $node->backup_dir . '/own';
	# of a WAL sender that outlives the writers, the next start would record the end
	wait_for_walsenders($node);
	value($node, "SELECT 'lost'");
	flush($node);
	$node->stop;
	foreach my $path (glob $node->data_dir . '/*')
	{
		rmtree($path) unless $path =~ m{/\Q$state\E\z};
	}
	# into the file that is there
	system_or_bail('cp', '-R', glob("$backup/*"), $node->data_dir);
	$node->start;
	value($node, "SELECT 'restored'");
	is(branches($node), '1 < 0: copy', 'restored in its place: a stream begins');
	$node->restart;
	is(streams($node), '0 1', 'restored in its place: and is gone on with');
	is(problems($node, @key), '0 ', 'restored in its place: the trail is whole');
}
done_testing();
