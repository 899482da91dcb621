
# steno review person: its list of exports has results with many rows, by whichever way the client got them, and those of
# statements that failed after they had sent some.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $few = 'SELECT a FROM t LIMIT 10';
my $many = 'SELECT a FROM t';
my $fails = 'SELECT 1 / (a - 19000) FROM t';

value($node, $_) foreach 'CREATE TABLE t AS SELECT generate_series(1, 20000) AS a', 'CREATE ROLE nobody';

# what a client sends, and the exports of its session: how, rows, outcome
my %cases = (
	'a result' => [ [$many], 'large result 20000 ok' ],
	'one FETCH' => [ [ 'BEGIN', "DECLARE c CURSOR FOR $many", 'FETCH ALL FROM c', 'COMMIT' ], 'FETCH 20000 ok', 'cursor 20000 ok' ],
	'many FETCH' => [ [ 'BEGIN', "DECLARE c CURSOR FOR $many", ('FETCH 4000 FROM c') x 5, 'COMMIT' ], 'cursor 20000 ok' ],
	'WITH HOLD' => [ [ "DECLARE c CURSOR WITH HOLD FOR $many", ('FETCH 4000 FROM c') x 5, 'CLOSE c' ], 'cursor 20000 ok' ],
	'without nested statements' => [ [ 'SET steno.log_nested = off', 'BEGIN', "DECLARE c CURSOR FOR $many", 'FETCH ALL FROM c', 'COMMIT' ], 'FETCH 20000 ok', 'cursor 20000 ok' ],
	'a cursor that is open' => [ [ "DECLARE c CURSOR WITH HOLD FOR $many", 'FETCH ALL FROM c', 'flush' ], 'FETCH 20000 ok' ],
	'few rows' => [ [ $few, 'BEGIN', "DECLARE c CURSOR FOR $many", 'FETCH 10 FROM c', 'COMMIT' ] ],
	'a result that fails' => [ [$fails], 'failed result - error' ],
	'a cursor that fails' => [ [ 'BEGIN', "DECLARE c CURSOR FOR $fails", 'FETCH ALL FROM c', 'ROLLBACK' ], 'FETCH - error', 'failed result - error' ],
	'COPY that fails' => [ ["COPY ($fails) TO STDOUT"], 'COPY TO - error' ],
	'what sent nothing' => [ [ 'SELECT a FROM t WHERE 1 / 0 = 1', 'SELECT missing FROM t', 'SET ROLE nobody', $many, 'RESET ROLE', 'FETCH c', 'BEGIN', 'SELECT', 'SELECT 1 / 0', 'FETCH c', $many, 'ROLLBACK' ] ],
);
foreach my $name (sort keys %cases)
{
	my ($send, @exports) = @{ $cases{$name} };
	my $user = lc 'user_' . $name =~ s/\W/_/gr;

	value($node, "CREATE ROLE $user LOGIN SUPERUSER");
	my $client = Steno::Client->new($node, user => $user);
	$client->query($_) foreach grep { $_ ne 'flush' } @$send;
	$client->quit if $send->[-1] ne 'flush';
	flush($node);
	my ($code, $out, $err) = steno_result('review', 'person', '--format', 'json', '--user', $user, trail($node));
	is($code, 0, "review person: $name") or diag($err);
	is_deeply([ sort map { join ' ', $_->{how}, $_->{rows} // '-', $_->{outcome} } @{ JSON::PP->new->utf8->decode($out)->{exports} } ], \@exports, "$name: its exports") or diag($out);
}

done_testing();
