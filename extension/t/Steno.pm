
# What the tests share: servers that record, and their trails.
#
# Records are read with the steno program, as users read them.

package Steno;

use feature 'state';
use strict;
use warnings;

use Digest::MD5 ();
use Exporter 'import';
use File::Path ();
use File::Temp ();
use IPC::Run ();
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  new_node rings_of ring_files trail flush lines records statements the_record
  relations_of verify_ok gapless by_statement numbers_are_there wait_until value can_connect steno_result
  without_origin has_module forced_parallel writer_pid wait_for_walsenders stop_process continue_process kill_server
  server_is_back server_gone refuses_to_start cases_of run_cases filler recovered_copy file_with
);

# Ring files of servers that a test kills must not be left in memory, even if the test fails: their
# directories are removed last, after the servers have ended.
my $shm = -w '/dev/shm' ? '/dev/shm' : PostgreSQL::Test::Utils::tempdir();
my %rings;

# Our own sessions, which tests do not want to see among the records.
my $own = 'steno_test_helper';

my $json = JSON::PP->new->utf8;

# new_node($name, streaming => 1 | 'logical', initdb => [...], conf => text, start => 0,
# install_path => folder): a server with pg_steno, and its SQL functions in database postgres;
# of another installation of PostgreSQL, if its folder, which has bin, is given.
sub new_node
{
	my ($name, %o) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, defined $o{install_path} ? (install_path => $o{install_path}) : ());

	$node->init(
		allows_streaming => $o{streaming} || 0,
		auth_extra => $o{auth_extra} || [],
		extra => [ '--locale=C', '--encoding=UTF8', @{ $o{initdb} || [] } ]);
	configure($node);
	$node->append_conf('postgresql.conf', $o{conf}) if defined $o{conf};
	return $node if defined $o{start} && !$o{start};
	$node->start;
	value($node, 'CREATE EXTENSION pg_steno');
	# the postmaster lets clients in while it starts its workers
	wait_until('the writers run',
		sub { value($node, 'SELECT bool_and(pid IS NOT NULL) FROM steno.writers') eq 't' });
	return $node;
}

# Also for a server made from a backup.  Start records of long statements would depend on chance: tests
# that want them set steno.start_after.  Tests do not depend on how full the disk is, unless they set
# steno.disk_warning.  Statements wait for a trail that cannot be written, unless a test sets
# steno.on_failure.
sub configure
{
	my ($node) = @_;

	$rings{ $node->name } = Steno::Directory->new;
	$node->append_conf(
		'postgresql.conf', qq(
shared_preload_libraries = 'pg_steno'
steno.ring_directory = '$rings{$node->name}{path}'
log_statement = none
autovacuum = off
steno.start_after = -1
steno.disk_warning = 0
steno.on_failure = wait
));
	return;
}

# The directory of a server's ring files.
sub rings_of
{
	my ($node) = @_;

	return $rings{ $node->name }{path};
}

# Ring files of a server, in the directory of its own that it makes there.
sub ring_files
{
	my ($node) = @_;

	return grep { -f $_ } glob "$rings{ $node->name }{path}/pg_steno.*/pg_steno.*";
}

sub connstr
{
	my ($node) = @_;

	return $node->connstr('postgres') . " application_name=$own";
}

# Whether psql could run a statement, which is an argument: if the connection is refused before psql has
# read its standard input, writing to that pipe fails.
sub can_connect
{
	my ($node, $connstr) = @_;

	return PostgreSQL::Test::Utils::run_log([ 'psql', '-XAtq', '-d', $connstr // connstr($node), '-c', 'SELECT 1' ]);
}

# A single value from a session that records() leaves out.  A statement that does not end, such as one
# that waits for a writer that drains no ring, fails the test.
sub value
{
	my ($node, $sql) = @_;
	my $limit = $PostgreSQL::Test::Utils::timeout_default;
	my $value = eval { $node->safe_psql('postgres', $sql, connstr => connstr($node), timeout => $limit) };

	die $@ =~ /^psql timed out/ ? "no answer within $limit seconds to: $sql" : $@ if !defined $value;
	return $value;
}

# Whether the server's installation has a loadable module: contrib modules and pgaudit may be missing.
sub has_module
{
	my ($name) = @_;
	my $folder = `pg_config --pkglibdir`;

	chomp $folder;
	die 'no pg_config' if $folder eq '';
	return -e "$folder/$name.so";
}

# The setting that makes plans parallel: PostgreSQL 16 renamed it.
sub forced_parallel
{
	my ($node) = @_;

	return value($node, 'SHOW server_version_num') < 160000 ? 'force_parallel_mode' : 'debug_parallel_query';
}

sub trail
{
	my ($node) = @_;

	return $node->data_dir . '/pg_steno';
}

# All that was recorded so far is in the trail when this returns.
sub flush
{
	my ($node) = @_;

	value($node, 'SELECT steno.flush()');
	return;
}

# steno with arguments: exit code, standard output, standard error.
sub steno_result
{
	my (@args) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ $ENV{STENO}, @args ], '>', \$out, '2>', \$err);
	die "steno @args ended by signal @{[ $? & 127 ]}: $err" if $? & 127;
	return ($? >> 8, $out, $err);
}

# The trail that steno recover makes of that of a server that was killed, and of its ring file, both of which stay as
# they are.
sub recovered_copy
{
	my ($node) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();

	PostgreSQL::Test::RecursiveCopy::copypath(trail($node), "$folder/trail");
	PostgreSQL::Test::RecursiveCopy::copypath(rings_of($node), "$folder/rings");
	my ($code, undef, $err) = steno_result('recover', '--out', "$folder/copy", '--rings', "$folder/rings", "$folder/trail");
	is($code, 0, 'steno recover reads the ring file') or diag $err;
	verify_ok("$folder/copy", 'the copy is whole');
	return "$folder/copy";
}

# Lines of JSON from the trail of a server or in a directory.
sub lines
{
	my ($node, @args) = @_;
	my $directory = ref $node ? trail($node) : $node;
	my ($code, $out, $err) = steno_result('cat', '--format', 'json', @args, $directory);

	die "steno cat failed: $err" if $code != 0;
	return split /\n/, $out;
}

# records($node, field => value | regexp | undef ...): the records whose fields
# are all as given, in the order of the trail.  A running server is flushed.
sub records
{
	my ($node, %filter) = @_;
	my (@found, @args);

	# records that the program can leave out need not be decoded
	foreach my $field (qw(application kind))
	{
		push @args, "--$field", $filter{$field}
		  if defined $filter{$field} && !ref $filter{$field};
	}
	flush($node) if ref $node && $node->{_pid} && !$node->{steno_down};
  RECORD:
	foreach my $line (lines($node, @args))
	{
		my $r = $json->decode($line);

		next if ($r->{application} // '') eq $own;
		foreach my $field (keys %filter)
		{
			my ($is, $want) = ($r->{$field}, $filter{$field});

			if (ref $want eq 'Regexp')
			{
				next RECORD if !defined $is || $is !~ $want;
			}
			elsif (defined $want)
			{
				next RECORD if !defined $is || $is ne $want;
			}
			elsif (defined $is)
			{
				next RECORD;
			}
		}
		push @found, $r;
	}
	return @found;
}

sub statements
{
	my ($node, %filter) = @_;

	return records($node, kind => 'statement', %filter);
}

# Records in the order of their statements.  The record of a portal, and that of the ROLLBACK that ends
# it, can be in either order, which depends on the space in the ring.
sub by_statement
{
	my $last = 0;
	my @r = sort { $a->{seq} <=> $b->{seq} } @_;
	my %of = map { $_->{seq} => ($last = $_->{statement} // $last) } @r;

	return sort {
		$of{ $a->{seq} } <=> $of{ $b->{seq} }
		  || ($a->{substatement} // 0) <=> ($b->{substatement} // 0)
		  || $a->{seq} <=> $b->{seq}
	} @r;
}

# The one record that is as given; the test fails when there is none or another.
sub the_record
{
	my ($node, $what, %filter) = @_;
	my @found = records($node, %filter);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(scalar @found, 1, "$what: one record");
	return $found[0] // {};
}

# What a table of cases says: each line is a statement, with "1> " before it if a function runs it, and
# the indented lines below it are what its record has.
sub cases_of
{
	my ($table) = @_;
	my @cases;

	foreach my $line (split /\n/, $table)
	{
		if ($line =~ s/^\t//)
		{
			push @{ $cases[-1]{has} }, $line;
			next;
		}
		my $depth = $line =~ s/^1> // ? 1 : 0;

		push @cases, { text => $line, depth => $depth, has => [] };
	}
	return @cases;
}

# Runs the client's statements of these cases in one session with this application name, after other
# SQL; returns the record of each case, which is empty if there is none.
sub run_cases
{
	my ($node, $database, $application, $before, @cases) = @_;
	my %found;

	$node->psql(
		$database,
		$before . join('', map { "$_->{text};\n" } grep { !$_->{depth} } @cases),
		connstr => $node->connstr($database) . " application_name=$application",
		on_error_stop => 0);
	push @{ $found{ $_->{text} }[ $_->{depth} // 0 ] }, $_ foreach statements($node, application => $application);
	return map { shift @{ $found{ $_->{text} }[ $_->{depth} ] } // {} } @cases;
}

# A record, as text, without the fields that say who wrote it, and when.
sub without_origin
{
	my ($r) = @_;
	my %copy = %$r;

	delete @copy{qw(stream segment block)};
	delete @copy{qw(time duration_us)}
	  if $r->{kind} eq 'gap' || $r->{kind} eq 'disconnect' && ($r->{outcome} // '') eq 'interrupted';
	return JSON::PP->new->canonical->encode(\%copy);
}

# The relations of a record, by name.  Their columns are left out: columns_are_the_present_ones.pl is about these.
sub relations_of
{
	my ($record) = @_;
	my @relations = map { { %$_ } } sort { $a->{name} cmp $b->{name} } @{ $record->{relations} // [] };

	delete @$_{qw(columns via)} foreach @relations;
	return \@relations;
}

# Whether the program finds the trail intact, and what it prints.
sub verify_ok
{
	my ($node, $what) = @_;
	my $directory = ref $node ? trail($node) : $node;
	my ($code, $out, $err) = steno_result('verify', $directory);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($code, 0, $what) or diag("steno verify: $out$err");
	return $out;
}

# Every session's sequence numbers count from 1 without gaps or repetition:
# checked without the program that the project verifies trails with.
sub gapless
{
	my ($node, $what) = @_;
	my %seqs;
	my @wrong;

	flush($node) if ref $node && $node->{_pid} && !$node->{steno_down};
	foreach my $line (lines($node))
	{
		my ($session) = $line =~ /"session":"([^"]*)"/;
		my ($seq) = $line =~ /"seq":(\d+)/;

		# a start record that the writer made has no number
		next if !defined $seq && $line =~ /"kind":"start"/;
		push @{ $seqs{$session} }, $seq;
	}
	foreach my $session (sort keys %seqs)
	{
		my $expected = 1;

		foreach my $seq (sort { $a <=> $b } @{ $seqs{$session} })
		{
			push @wrong, "$session: $seq instead of $expected"
			  if $seq != $expected;
			$expected = $seq + 1;
		}
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is_deeply([ @wrong[ 0 .. ($#wrong > 9 ? 9 : $#wrong) ] ], [], $what);
	return;
}

# Each of the statements "SELECT 'number $first' ..." to $last has one record.
sub numbers_are_there
{
	my ($node, $what, $first, $last) = @_;
	my %seen;

	flush($node) if $node->{_pid};
	/'number (\d+)'/ && $seen{$1}++ foreach lines($node, '--kind', 'statement');
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is_deeply([ grep { ($seen{$_} // 0) != 1 } $first .. $last ],
		[], "$what: every statement is there once");
	return;
}

# So many bytes, others each time: a statement that has them has nothing in common with the one before, so its
# record takes as much space in the ring.
sub filler
{
	my ($length) = @_;
	state $number = 0;
	my $bytes = '';

	$bytes .= Digest::MD5::md5_hex($number++) while length $bytes < $length;
	return substr $bytes, 0, $length;
}

# A file with a text; returns its path.
sub file_with
{
	my ($path, $text) = @_;

	open my $f, '>', $path or die "$path: $!";
	print $f $text;
	close $f or die "$path: $!";
	return $path;
}

# Polls for as long as the server's own tests wait; returns the true value.
sub wait_until
{
	my ($what, $condition) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $result;

	while (!($result = $condition->()) && time < $end)
	{
		usleep(100_000);
	}
	return $result if $result;
	die "timed out waiting until $what";
}

# ---- servers that do not go on ----

# The process of a writer, as soon as it runs: the postmaster lets clients in while it starts its
# workers, at its own start and after a crash.  Asked by a client, or in a session of its own.
sub writer_pid
{
	my ($asked, $number) = @_;
	my $sql = 'SELECT pid FROM steno.writers WHERE pid IS NOT NULL AND writer = ' . ($number // 0);
	my $client = $asked->isa('Steno::Client');

	return wait_until 'the writer runs', sub { $client ? $asked->query($sql)->{rows}[0][0] : value($asked, $sql) };
}

# Until the walsenders of clients that have left are gone.
sub wait_for_walsenders
{
	my ($node) = @_;

	return wait_until 'no walsender runs',
	  sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'}) eq '0' };
}

# Processes that are stopped, such as a writer that must not drain rings.
my %stopped;
my $owner = $$;

sub stop_process
{
	my ($pid) = @_;

	kill 'STOP', $pid or die "could not stop process $pid: $!";
	$stopped{$pid} = 1;
	wait_until "process $pid has stopped", sub { slurp_file("/proc/$pid/stat") =~ /\) T / };
	return;
}

sub continue_process
{
	my ($pid) = @_;

	kill 'CONT', $pid or die "could not continue process $pid: $!";
	delete $stopped{$pid};
	return;
}

# A test that dies must not leave a server that cannot stop.
END { kill 'CONT', keys %stopped if $$ == $owner; }

# Kills all processes of the server at once, so that it cannot react.
sub kill_server
{
	my ($node) = @_;
	my $postmaster = $node->{_pid};
	my @children;

	kill 'STOP', $postmaster;
	@children = split ' ', `ps -o pid= --ppid $postmaster`;
	kill 'KILL', @children, $postmaster;
	server_gone($node, @children, $postmaster);
	return;
}

# Waits until the server goes on after a session was killed, and has written what the rings of before had to tell.
# start: the size of its log before that.
sub server_is_back
{
	my ($node, $start) = @_;

	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $start);
	wait_until('the server is back', sub { can_connect($node) });
	wait_until('the rings of before are drained', sub { scalar(my @files = ring_files($node)) == 1 });
	return;
}

# Waits for the end of a server whose processes were killed: it can be started then.
sub server_gone
{
	my ($node, @pids) = @_;

	wait_until 'all processes are gone', sub { !grep { kill 0, $_ } @pids };
	delete @stopped{@pids};
	$node->{_pid} = undef;
	unlink $node->data_dir . '/postmaster.pid';
	return;
}

# With these settings the server does not start, and its log, which is returned, has
# all of the messages.
sub refuses_to_start
{
	my ($node, $what, $conf, @messages) = @_;
	my $file = $node->data_dir . '/postgresql.conf';
	my $saved = slurp_file($file);
	my $start = -e $node->logfile ? -s $node->logfile : 0;
	my $log;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->append_conf('postgresql.conf', $conf);
	ok(!$node->start(fail_ok => 1), "$what: the server does not start");
	$log = slurp_file($node->logfile, $start);
	like($log, $_, "$what: the log says why") foreach @messages;
	open my $handle, '>', $file or die "could not write $file: $!";
	print $handle $saved;
	close $handle;
	return $log;
}

# A directory in memory that is removed with the object.  That of File::Temp would stay after
# a failed test, because PostgreSQL::Test::Utils wants that.
package Steno::Directory;

sub new
{
	my ($class) = @_;

	return bless {
		path => File::Temp::tempdir('steno_rings.XXXXXX', DIR => $shm),
		owner => $$
	}, $class;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);

	File::Path::rmtree($self->{path}) if $self->{owner} == $$;
	return;
}

1;
