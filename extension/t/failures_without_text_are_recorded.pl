
# An error that the client gets has a record, also when no statement is at hand: a prepared statement or
# a portal that is not there, and a timeout that is served after its statement has ended.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');

my $c = Steno::Client->new($node, application_name => 'messages');
is($c->bind_values('', 'nothing')->sync->finish->{sqlstate}, '26000', 'a statement that is not there');
is($c->execute('nothing')->sync->finish->{sqlstate}, '34000', 'a portal that is not there');
is($c->put('D', "Pnothing\0")->sync->finish->{sqlstate}, '34000', 'described');
$c->query('SELECT 1');
$c->quit;
is_deeply(
	[ map { join ' ', $_->{class}, $_->{outcome}, $_->{sqlstate} // '', $_->{text} // '-' } statements($node, application => 'messages') ],
	[ 'error error 26000 -', 'error error 34000 -', 'error error 34000 -', 'read ok  SELECT 1' ],
	'each has a record');

# Nothing looks for interrupts between a last row and the end of its message; wherever it is
# served, the client and the trail hear of the same errors.
$c = Steno::Client->new($node, application_name => 'timeouts');
my @told;

$c->query(q{SET statement_timeout = '100ms'});
foreach my $mb (20, 50, 100, 200)
{
	my $sql = "SELECT length(sha512(convert_to(repeat(repeat('x', 1000), $mb * \$1::int), 'UTF8')))";
	my $answer = $c->parse('', $sql)->bind_values('', '', 1000)->execute('', 1)->sync->finish;

	push @told, $answer->{sqlstate} if $answer->{sqlstate};
}
# an error in between statements comes with the next one's answer
for (1 .. 3)
{
	my $answer = $c->put('S', '')->finish;

	push @told, $answer->{sqlstate} if $answer->{sqlstate};
}
$c->quit;
wait_until 'the session is over', sub { !kill 0, $c->{pid} };
is_deeply(
	[ map { $_->{sqlstate} } grep { $_->{outcome} eq 'error' } statements($node, application => 'timeouts') ],
	\@told, 'a timeout has one record') or diag(scalar @told);

gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();
