
# A string of 10,000 statements is 10,000 small records, each with its own part of
# the text.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $count = 10_000;
my $node = new_node('main', conf => "steno.compression = none\n");
my $c = Steno::Client->new($node, application_name => 'many');

sub trail_bytes
{
	my $bytes = 0;

	flush($node);
	$bytes += -s foreach glob trail($node) . '/*/*.steno';
	return $bytes;
}

# Texts of statements in their order.  Not decoded, but for line ends: that takes Perl long.
sub texts
{
	my (@args) = @_;
	my %texts;

	foreach my $line (lines($node, '--application', 'many', '--kind', 'statement', @args))
	{
		my ($seq, $text) = $line =~ /"seq":(\d+).*"text":"([^"]*)"/ or die "no text: $line";

		$texts{$seq} = $text =~ s/\\n/\n/gr;
	}
	return map { $texts{$_} } sort { $a <=> $b } keys %texts;
}

# run(what, string, expected): its records, and not much more of the trail than that.
sub run
{
	my ($what, $string, @expected) = @_;
	my $before = trail_bytes();
	my ($bytes, $answer, @texts, @wrong);

	$answer = $c->query($string);
	$bytes = trail_bytes() - $before;
	@texts = grep { /$what/ } texts();
	is(scalar @texts, scalar @expected, "$what: as many records as statements");
	@wrong = grep { ($texts[$_] // '') ne $expected[$_] } 0 .. $#expected;
	is_deeply([ map { $texts[$_] } @wrong[ 0 .. ($#wrong > 4 ? 4 : $#wrong) ] ], [], "$what: each with its own text");

	# the string itself once, and 100 bytes for all else that a record says
	cmp_ok($bytes, '<', length($string) + 100 * @expected, "$what: in a trail of that size");
	return $answer;
}

my @statements = map { "SELECT /* all run */ $_" } 1 .. $count;
my $answer = run('all run', join(";\n", @statements), @statements);
is(scalar @{ $answer->{tags} }, $count, 'all of them ran');

# Utility statements, odd separators, and one in the middle that fails.
@statements = map { $_ % 2 ? "SELECT /* half run */ $_" : "SET work_mem = '${_}kB' /* half run */" } 64 .. $count + 63;
splice @statements, $count / 2, 0, 'SELECT /* half run */ 1/0';

# a comment before a statement is part of it
$answer = run(
	'half run', join(" ; -- ;\n", @statements),
	$statements[0], map { "-- ;\n$_" } @statements[ 1 .. $count / 2 ]);
is($answer->{sqlstate}, '22012', 'one in the middle failed');
is(scalar(my @failed = texts('--failed')), 1, 'which is one record');

$c->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
