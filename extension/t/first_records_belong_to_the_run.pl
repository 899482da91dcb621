
# The first sessions can record before the writers have begun: because the machine is busy, or because the key of the
# trail is slow to come.  Their records belong to the run, and its settings and rules are known to have held for them.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use JSON::PP;
use Steno;
use Steno::Seals;
use Test::More;

my $keys = PostgreSQL::Test::Utils::tempdir();
my ($key) = keygen("$keys/one");
my $encryption = '0' x 63 . '7';
my $node = new_node(
	'main',
	start => 0,
	conf => "steno.signing_key_file = '$key'\nsteno.seal_interval = 1s\nsteno.rules_file = 'rules'\n"
	  . "steno.encryption_key_command = 'mkdir $keys/checked || while test -e $keys/wait; do sleep 0.1; done; echo $encryption'\n");
my @runs;

$ENV{STENO_ENCRYPTION_KEY_COMMAND} = "echo $encryption";
append_to_file($node->data_dir . '/rules', "skip all all nobody local all all\n");

sub now
{
	return $node->safe_psql('postgres', q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
}

sub prove_range
{
	my ($run) = @_;
	my ($code, $out, $err, $verdict);

	for (1 .. 80)
	{
		unlink "$keys/proof";
		steno_result('prove', '--since', $run->{begin}, '--until', $run->{end}, '--grep', $run->{text}, '--key', "$key.pub",
			'--out', "$keys/proof", trail($node));
		($code, $out, $err) = steno_result('prove', '--check', "$keys/proof", '--key', "$key.pub", '--format', 'json');
		$verdict = -e "$keys/proof" ? decode_json($out) : {};
		last if $verdict->{proved} && !grep { /last moments/ } @{ $verdict->{exceptions} };
		select undef, undef, undef, 0.5;
		$node->safe_psql('postgres', q{SELECT 'something else'});
	}
	ok($verdict->{proved}, "$run->{text}: proved") or diag($err, $out);
	is($verdict->{matches}, 1, "$run->{text}: with its record");
	return @{ $verdict->{exceptions} };
}

foreach my $number (1, 2)
{
	my $run = { text => "first of run $number" };

	append_to_file("$keys/wait", '');
	$node->start;
	$run->{begin} = now();
	$node->safe_psql('postgres', "SELECT '$run->{text}'");
	$run->{end} = now();
	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS pg_steno');
	unlink "$keys/wait" or die "unlink: $!";
	flush($node);
	my ($start) = reverse grep { $_->{extra}{event} eq 'start' } records($node, kind => 'server');
	cmp_ok($start->{time}, 'gt', $run->{end}, "run $number: its start is recorded later");
	cmp_ok($start->{extra}{began}, 'lt', $run->{begin}, '... and says when it began');
	push @runs, $run;
	$node->stop if $number == 1;
	rmdir "$keys/checked" or die "rmdir: $!"; # the server runs the command once, and then each writer
}
foreach my $run (@runs)
{
	is_deeply([ grep { !/rules/ } prove_range($run) ], [], "$run->{text}: and without exceptions, but for the rules");
	like(join('|', prove_range($run)), qr/^[^|]*there was 1 rule[^|]*$/, '... which have held from its beginning');
}
verify_ok($node, 'the trail is whole');

done_testing();
