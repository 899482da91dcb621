
# Segments and folders that are moved while they are written are no damage for the seals.

use strict;
use warnings;

use File::Path qw(rmtree);
use POSIX qw(strftime);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno::Faults;
use Steno::Seals;
use Steno;
use Test::More;

# A segment that is moved away or removed while the server seals and encrypts: the
# next one begins a run, as its first seal says, so that the trail is whole when what
# was moved is back; and what cannot be restored is named.
{
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my ($key) = keygen("$folder/seal");
	my @commands = ('', 'printf %064d 7');

	sub whats
	{
		my ($report) = @_;

		return join "\n", map { $_->{what} } @{ $report->{problems} };
	}

	foreach my $command (@commands)
	{
		my $with = $command ? 'encrypted' : 'plain';
		my $faults = Steno::Faults->new;
		my $node = new_node($with, start => 0, conf => qq{
	steno.compression = none
	steno.encryption_key_command = '$command'
	steno.signing_key_file = '$key'
	steno.seal_interval = 0
	});
		my $trail = trail($node);
		my $numbers = 0;
		my ($c, $code, $report, $start);
		my $run = sub { $c->query("SELECT 'number " . ++$numbers . "'") for 1 .. $_[0]; };
		my $check = sub {
			my ($what) = @_;
			my %seen;

			flush($node);
			/'number (\d+)'/ && $seen{$1}++ foreach lines($node, '--kind', 'statement');
			is_deeply([ grep { ($seen{$_} // 0) != 1 } 1 .. $numbers ], [], "$with, $what: every statement is there once");
			($code, $report) = verified($node, '--key', "$key.pub");
			is($code, 0, "$with, $what: the trail is whole") or diag(whats($report));
			is($report->{seals}[0]{checked}, $report->{seals}[0]{seals}, "$with, $what: all seals are right");
			return;
		};

		local $ENV{STENO_ENCRYPTION_KEY_COMMAND} = $command;
		$faults->start($node);
		value($node, 'CREATE EXTENSION pg_steno');
		$c = Steno::Client->new($node, application_name => 'numbers');
		$run->(3);
		value($node, 'SELECT steno.rotate()');
		$run->(3);
		flush($node);

		# removed, and restored byte for byte
		unlink "$trail/0/0000000002.steno" or die;
		$run->(3);
		$check->('removed');
		is(scalar(() = glob "$trail/0/*.steno"), 2, "$with: it is restored");

		# moved away, and back
		$start = -s $node->logfile;
		rename "$trail/0", "$trail.moved" or die;
		$run->(3);
		flush($node);
		wait_until 'it is sealed', sub {
			($code, $report) = verified($node, '--key', "$key.pub");
			return whats($report) !~ /there is no seal/;
		};
		like(whats($report), qr/\Asegments 1 to 2 are missing, and were not deleted by retention\z/, "$with, moved away: which is all that is said");
		rename $_, "$trail/0/" . s/.*\///r or die foreach glob "$trail.moved/*.steno";
		$check->('moved back');
		is((seals($node, 0))[-1]{extra}{reason}, 'start', "$with: the next segment begins a run");

		# while the writer has the next seal at hand, which names the segment: it is signed again
		$node->append_conf('postgresql.conf', 'steno.seal_interval = 1');
		$node->reload;
		$run->(1);
		flush($node);
		wait_until 'all is sealed, and the next seal is due with the next block', sub {
			($code, $report) = verified($node, '--key', "$key.pub");
			my $seal = $report->{seals}[0];
			return !$seal->{unsealed_blocks} && $seal->{sealed_time} lt strftime('%Y-%m-%dT%H:%M:%S', gmtime(time - 2));
		};
		$faults->set('hold_write');
		$run->(1);
		wait_until 'it is at it', sub { $faults->is_set('holding.0') };
		rmtree("$trail.moved");
		rename "$trail/0", "$trail.moved" or die;
		$faults->unset('hold_write');
		wait_until 'the stream goes on elsewhere', sub { -e "$trail/0/0000000004.steno" };
		rename $_, "$trail/0/" . s/.*\///r or die foreach glob "$trail.moved/*.steno";
		$check->('moved with a seal at hand');
		is(scalar(grep { $_->{segment} == 4 && $_->{extra}{block} >= $_->{extra}{first} } seals($node, 0)) > 0,
			1, "$with: the seal of the run before stands in the next segment");

		# a segment that cannot be begun for a while
		$faults->set('write_fails');
		$start = -s $node->logfile;
		my $r = Steno::Client->new($node, application_name => 'rotate');
		$r->put('Q', "SELECT steno.rotate()\0")->send_all;
		$node->wait_for_log(qr/steno writer 0 could not write the trail/, $start);
		$faults->unset('write_fails');
		$r->finish;
		$r->quit;
		$run->(3);
		$check->('after a rotation that failed');

		# a last segment that is damaged when the server starts
		$c->quit;
		$node->stop;
		my ($last) = (sort glob "$trail/0/*.steno")[-1];
		my $bytes = slurp_file($last);
		my $at = rindex($bytes, 'SBLK', rindex($bytes, 'SBLK') - 1);
		open my $handle, '+<:raw', $last or die;
		seek $handle, $at + 150, 0;
		print $handle 'damaged!';
		close $handle;
		$node->start;
		flush($node);
		($code, $report) = verified($node, '--key', "$key.pub");
		is($code, 1, "$with: damage is found");
		like(whats($report), qr/^checksum of the payload does not match$/m, "$with: and named");
		unlike(whats($report), qr/seal/, "$with: seals do not make it more");
		$node->stop;
	}
}

# A stream's folder is moved away while it is written, without a seal at the end
# of its last segment, and put back: that is no damage.
{
	my $key = keygen(PostgreSQL::Test::Utils::tempdir() . '/key');
	my $node = new_node('moved_trail_is_sealed', conf => "steno.signing_key_file = '$key'\n");
	my $trail = trail($node);

	value($node, 'SELECT steno.rotate()');
	value($node, "SELECT 'before'");
	flush($node);
	rename "$trail/0", "$trail.moved" or die;
	value($node, "SELECT 'meanwhile'");
	flush($node);
	ok(-e "$trail/0/0000000003.steno", 'the stream goes on in another segment');
	foreach my $segment (glob "$trail.moved/*.steno")
	{
		rename $segment, "$trail/0/" . ($segment =~ s{.*/}{}r) or die;
	}
	$node->stop;

	my ($code, $report) = verified($node, '--key', "$key.pub");
	is($code, 0, 'the trail is whole, and so are its seals') or diag explain $report->{problems};
	is($report->{seals}[0]{sealed_block} + 1, $report->{seals}[0]{last_block}, 'it is sealed up to its end');
	is(scalar(lines($node, '--grep', q{^SELECT '(before|meanwhile)'})), 2, 'each statement is there');
}

done_testing();
