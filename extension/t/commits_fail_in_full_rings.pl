
# A statement that ends when there is no room in its ring waits for room, and then for its commit: if that fails, it has
# one record, that of a failure.  If it does not, no part of its times is the wait.

use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node(
	'main', conf => q{
steno.delivery = wait
steno.ring_size = 32kB
});
my $writer = writer_pid($node);
my $watch = Steno::Client->new($node, application_name => 'watch');

$watch->query(q{SET steno.log = 'none'});
$watch->value('CREATE TABLE d (a int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO d VALUES (1)');

sub waits
{
	my ($c) = @_;

	return $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}");
}

# Sends statements until one waits, each with what sends it; returns how many.
sub fill
{
	my ($c, $send) = @_;

	my $before = waits($c);

	foreach my $n (1 .. 2000)
	{
		my $waits;

		$send->($n);
		$c->send_all;
		wait_until 'it is answered, or waits', sub {
			$waits = waits($c) > $before;
			# the failure is sent before the end of its transaction is recorded
			sysread $c->{socket}, $c->{buffer}, 65536, length $c->{buffer} if IO::Select->new($c->{socket})->can_read(0.01);
			return $waits || $c->{buffer} =~ /Z\0{3}\x05.\z/s;
		};
		return $n if $waits;
		$c->finish;
	}
	die 'nothing waits';
}

sub outcomes
{
	my ($marker) = @_;
	my %outcomes;

	foreach my $r (records($node, kind => 'statement'))
	{
		push @{ $outcomes{$1} }, $r->{outcome} . ' ' . ($r->{sqlstate} // '') if ($r->{text} // '') =~ /-- $marker (\d+)/;
	}
	return \%outcomes;
}

my %ways = (
	simple => sub { my ($c, $sql) = @_; $c->put('Q', "$sql\0") },
	extended => sub { my ($c, $sql) = @_; $c->parse('', $sql)->bind_values('', '')->execute('')->sync });
my %statements = (
	query => sub { "INSERT INTO d VALUES (1) -- $_[0] " . ('x' x 1500) },
	utility => sub { "DO \$\$ BEGIN INSERT INTO d VALUES (1); END \$\$ -- $_[0] " . ('x' x 1500) });

my %seen;

foreach my $way (sort keys %ways)
{
	foreach my $kind (sort keys %statements)
	{
		foreach my $canceled (0, 1)
		{
			my $marker = "$way $kind $canceled";
			my $c = Steno::Client->new($node, application_name => 'c');
			my ($last, $answer, $outcomes, @all);

			$c->value(q{SELECT 'ready'});
			$watch->value('SELECT steno.flush()');
			stop_process($writer);
			$last = fill($c, sub { $ways{$way}->($c, $statements{$kind}->("$marker $_[0]")) });
			$watch->value("SELECT pg_cancel_backend($c->{pid})") if $canceled;
			$answer = $c->finish if $canceled;
			continue_process($writer);
			$answer //= $c->finish;
			# it may have failed before, and the end of its transaction waits
			like($answer->{sqlstate}, $canceled ? qr/^(?:57014|23505)$/ : qr/^23505$/, "$marker: the last one fails");
			$seen{ $answer->{sqlstate} }++;
			$c->quit;
			$outcomes = outcomes($marker);
			@all = map { join ', ', @{ $outcomes->{$_} // [] } } 1 .. $last;
			is($all[-1], "error $answer->{sqlstate}", "$marker: so says its only record");
			is_deeply([ grep { $_ ne 'error 23505' } @all[ 0 .. $#all - 1 ] ], [], "$marker: as do those of the others");
		}
	}
}
$watch->value('CREATE TABLE t (a int)');
$ways{several} = sub { my ($c, $sql) = @_; $c->put('Q', "$sql\n; SELECT 'next'; INSERT INTO t VALUES (0)\0") };
foreach my $way (sort keys %ways)
{
	my $c = Steno::Client->new($node, application_name => "waits $way");
	my ($last, @r);

	$c->value(q{SELECT 'ready'});
	$watch->value('SELECT steno.flush()');
	stop_process($writer);
	$last = fill($c, sub { $ways{$way}->($c, "INSERT INTO t VALUES ($_[0]) -- " . ('x' x 1500)) });
	sleep 1;
	continue_process($writer);
	ok(!$c->finish->{sqlstate}, "$way: a statement that has waited succeeds");
	$c->quit;
	@r = records($node, kind => 'statement', application => "waits $way");
	is((grep { $_->{text} =~ /^INSERT INTO t VALUES \($last\)/ } @r)[0]{outcome}, 'ok', "$way: so says its record");
	@r = grep { $_->{duration_us} + ($_->{commit_us} // 0) >= 1e6 } @r;
	is_deeply([ map { $_->{text} } @r ], [], "$way: the wait is no work for a statement");
}
ok($seen{57014}, 'waits of statements were canceled');
gapless($node, 'no session has gaps');
done_testing();
