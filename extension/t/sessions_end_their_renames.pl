
# Without class transaction, no record says when a transaction has ended.  It has ended at the latest with its session,
# unless it can have been prepared: a proof of a later time is not incomplete for ever because of a rename in it.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Seals;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my ($key) = keygen("$dir/one");

# How many renames of a table had not ended when a range began, as a proof says.
sub open_renames
{
	my ($node, $since, $until, $table) = @_;
	my @ask = ('--since', $since, '--until', $until, '--object', "public.$table", '--out', "$dir/proof", '--key', "$key.pub");
	my ($code, $out, $err);

	wait_until 'the range is sealed', sub {
		flush($node);
		($code, $out, $err) = steno_result('prove', @ask, trail($node));
		return $code == 0;
	};
	return scalar(() = $out =~ /"public\.$table" was renamed to .*; the transaction had not ended when the range began$/mg);
}

sub now
{
	my ($node) = @_;

	return value($node, q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
}

foreach my $prepared (0, 2)
{
	my $node = new_node("prepares$prepared",
		conf => "steno.signing_key_file = '$key'\nsteno.seal_interval = 1s\nsteno.log = 'all, -transaction'\nmax_prepared_transactions = $prepared\n");
	my $stays = Steno::Client->new($node);
	my $killed = Steno::Client->new($node);

	$node->safe_psql('postgres', "CREATE TABLE $_ (i int)") foreach 'committed', 'rolled_back', 'killed', 'stays';
	$node->safe_psql('postgres', "BEGIN;\nALTER TABLE committed RENAME TO c;\nCOMMIT");
	$node->safe_psql('postgres', "BEGIN;\nALTER TABLE rolled_back RENAME TO r;\nROLLBACK");
	$stays->query($_) foreach 'BEGIN', 'ALTER TABLE stays RENAME TO s', 'ROLLBACK';
	$killed->query($_) foreach 'BEGIN', 'ALTER TABLE killed RENAME TO k';
	value($node, "SELECT pg_terminate_backend($killed->{pid}, 10000)");

	my @range = (now($node), now($node));

	is(open_renames($node, @range, $_), $prepared > 0 ? 1 : 0, "$_, and $prepared transactions can be prepared") foreach 'committed', 'rolled_back', 'killed';
	is(open_renames($node, @range, 'stays'), 1, "the session has not ended, and $prepared transactions can be prepared");
	$stays->quit;
	$node->stop;
}

done_testing();
