
# Segments that the server deletes while they are being read are no damage: readers report what they
# missed, and continue.

use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Retention;
use Test::More;

my $node = new_node('main', conf => "steno.compression = none\n");
my $trail = trail($node);

fill($node, 16);

# nobody reads its output, so that it stops near the beginning
my $err_file = PostgreSQL::Test::Utils::tempdir() . '/err';
my $cat = open my $pipe, '-|', "exec '$ENV{STENO}' cat --format json '$trail' 2>'$err_file'" or die "open: $!";
my $line = <$pipe>;
my $tail_err = '';
my ($tail_out, $tail_timer) = ('', IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
my $tail = IPC::Run::start([ $ENV{STENO}, 'tail', '-f', '--format', 'json', '--kind', 'server,note', $trail ],
	'>', \$tail_out, '2>', \$tail_err, $tail_timer);
# it shows the last ten records, which are long, and follows from then on
$tail->pump until $tail_out =~ tr/\n// >= 10;

set_and_reload($node, 'steno.retention_size', '1MB');
wait_until 'the oldest segments have gone', sub { (segments($node))[0] >= 14 };
my $rest = 0;
while (defined($line = <$pipe>))
{
	$rest++;
}
close $pipe;
is($? >> 8, 0, 'cat finds no damage');
my $err = slurp_file($err_file);
like($err, qr/^steno: deleted: .*\.steno: the segment was deleted by retention before it was read$/m, 'it says what it could not read');
unlike($err, qr/damaged/, 'and calls nothing damaged');

value($node, q{SELECT steno.note('after the deletion')});
$tail->pump until $tail_out =~ /after the deletion/;
is($tail_err, '', 'tail -f goes on and has missed nothing');
$tail->signal('INT');
$tail->finish;
is($tail->result(0), 130, 'and ends as one does after Ctrl-C');

# all at once
my @readers = map {
	my ($out, $errors) = ('', '');
	{ name => $_, out => \$out, err => \$errors }
} qw(verify info cat tail);
foreach my $round (1 .. 6)
{
	foreach my $r (@readers)
	{
		$r->{run} = IPC::Run::start([ $ENV{STENO}, $r->{name}, $trail ], '>', $r->{out}, '2>', $r->{err});
	}
	fill($node, 3);
	foreach my $r (@readers)
	{
		$r->{run}->finish;
		$r->{failed} .= ${ $r->{err} } . ${ $r->{out} } if $r->{run}->result(0);
	}
}
is(substr($_->{failed} // '', 0, 500), '', "$_->{name} finds no damage while segments go") foreach @readers;
verify_ok($node, 'the trail is whole');

$node->stop;
done_testing();
