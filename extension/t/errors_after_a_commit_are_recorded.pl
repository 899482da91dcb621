
# A statement_timeout that comes when its statement looks for none any more, and is served when
# that has committed, is an error that the client gets: it has a record, and the statement,
# which has succeeded, another.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
my $node = new_node('main', start => 0);

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
value($node, 'CREATE DATABASE dropped');

my $c = Steno::Client->new($node, application_name => 'dropping');
my $answer;

# DROP DATABASE removes files when it is past all that looks for interrupts.
$c->query(q{SET statement_timeout = '1h'});
$faults->set('hold_rmdir');
$c->put('Q', "DROP DATABASE dropped\0")->send_all;
wait_until 'it removes files', sub { $faults->is_set('holding.rmdir') };

# An hour later, the alarm rings.
$faults->set('clock_of_all', '7200');
kill 'ALRM', $c->{pid} or die;
wait_until 'it has heard of it', sub { slurp_file("/proc/$c->{pid}/status") !~ /^(?:SigPnd|ShdPnd):\s*0*[1-9a-f]/m };
$faults->unset('clock_of_all');
$faults->unset('hold_rmdir');

$answer = $c->finish;
is_deeply([ $answer->{tags}, $answer->{sqlstate} ], [ ['DROP DATABASE'], undef ], 'it has committed');
$answer = $c->query("SELECT 'next'");
is($answer->{sqlstate}, '57014', 'the timeout is the answer to the next message, which is not looked at');
is($c->query("SELECT 'after'")->{rows}[0][0], 'after', 'then the session goes on');
is(value($node, q{SELECT count(*) FROM pg_database WHERE datname = 'dropped'}), 0, 'the database is gone');
$c->quit;
wait_until 'the session is over', sub { !kill 0, $c->{pid} };
is_deeply(
	[ map { join ' ', $_->{class}, $_->{command} // '-', $_->{outcome}, $_->{sqlstate} // '-', $_->{text} // '-' }
		grep { ($_->{command} // '') ne 'SET' } sort { $a->{seq} <=> $b->{seq} } statements($node, application => 'dropping') ],
	[ 'ddl DROP DATABASE ok - DROP DATABASE dropped', 'error - error 57014 -', q{read SELECT ok - SELECT 'after'} ],
	'each has its record');
gapless($node, 'numbers without gaps');
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
