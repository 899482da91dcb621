
# steno review of the trails of two servers, whose users, databases, tables and transaction IDs have the same names and
# numbers: each answer is what the trail of one server alone has, or is refused.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $json = JSON::PP->new->utf8->canonical;
my $folder = PostgreSQL::Test::Utils::tempdir();
my @nodes = map { new_node($_) } 'one', 'two';
my %events;

# the same transaction on both, in which somebody else does something else
foreach my $i (0, 1)
{
	my ($node, $who) = ($nodes[$i], $i ? 'bob' : 'alice');

	value($node, $_) foreach 'CREATE ROLE alice LOGIN', 'CREATE ROLE bob LOGIN', 'CREATE TABLE t (id int PRIMARY KEY, v int)', 'CREATE TABLE u (a int)', 'GRANT SELECT ON t, u TO alice, bob', "GRANT INSERT ON t TO $who";
	my $client = Steno::Client->new($node, user => $who);
	my $lsn = value($node, q{SELECT pg_current_wal_lsn() - '0/0'});
	$client->query('BEGIN');
	$client->query("INSERT INTO t VALUES (42, $i) RETURNING id");
	my $xid = $client->value('SELECT pg_current_xact_id()::xid');
	$client->query('COMMIT');
	$client->quit;
	my $other = Steno::Client->new($node, user => 'alice');
	$other->query($_) foreach ('SELECT v FROM t WHERE id = 42', $i ? 'SELECT a FROM u' : ());
	$other->quit;
	$events{ $node->name } = file_with("$folder/" . $node->name . '.json',
		qq({"payload":{"op":"c","before":null,"after":{"id":42,"v":$i},"source":{"db":"postgres","schema":"public","table":"t","txId":$xid,"lsn":$lsn}}}\n));
	$node->stop;
}
my @trails = map { trail($_) } @nodes;

# An answer without the words that name the trails, and its limits, which tell of all trails.
sub plain
{
	my ($answer) = @_;

	delete @$answer{qw(trail all_records limits server)};
	foreach my $rows (grep { ref eq 'ARRAY' } values %$answer)
	{
		delete $_->{follow} foreach grep { ref eq 'HASH' } @$rows;
	}
	return $answer;
}

sub review
{
	my ($code, $out, $err) = steno_result('review', @_);

	is($code, 0, "review @_[0 .. 2]") or diag($err);
	return $json->decode($out);
}

foreach my $asked ([ 'person', '--user', 'alice' ], [ 'person', '--user', 'bob' ], [ 'subject', '--value', '42' ])
{
	my @alone = map { plain(review(@$asked, '--format', 'json', $_)) } @trails;
	my $both = review(@$asked, '--format', 'json', @trails);

	is(scalar(@{ $both->{servers} }), 2, "@$asked: an answer for each server");
	isnt($both->{servers}[0]{server}, $both->{servers}[1]{server}, 'with its identifier');
	is_deeply([ map { plain($_) } @{ $both->{servers} } ], \@alone, 'which is that of its trail alone');
	isnt($json->encode($alone[0]), $json->encode($alone[1]), 'and not that of the other');
}

# privileges: those of one server, and what was used there
my @grants;
foreach my $i (0, 1)
{
	$nodes[$i]->start;
	my ($code, $out) = steno_result('review', 'grants', '--dsn', $nodes[$i]->connstr('postgres') . ' user=' . value($nodes[$i], 'SELECT current_user'));
	is($code, 0, 'the grants are read');
	push @grants, file_with("$folder/grants$i.json", $out);
	$nodes[$i]->stop;
}
my $reduced = file_with("$folder/reduced.sql", "REVOKE INSERT ON t FROM alice, bob;\nREVOKE SELECT ON t, u FROM alice;\n");
foreach my $more ([], [ '--dry-run', $reduced ])
{
	my @alone = map { plain(review('access', '--format', 'json', '--grants', $grants[$_], @$more, $trails[$_])) } 0, 1;
	foreach my $i (0, 1)
	{
		is_deeply(plain(review('access', '--format', 'json', '--grants', $grants[$i], @$more, @trails)), $alone[$i], "access @{$more}[0 .. $#$more - 1]: that of server $i");
	}
	isnt($json->encode($alone[0]), $json->encode($alone[1]), 'and not that of the other');
}
like((steno_result('review', 'access', '--grants', $grants[0], $trails[1]))[2], qr/the grants are those of another server/, 'grants of the one, and the trail of the other');
like((steno_result('review', 'access', '--grants', $grants[0], '--dry-run', $grants[1], @trails))[2], qr/the grants are of different servers/, 'grants of both');

# changes
foreach my $i (0, 1)
{
	my $file = $events{ $nodes[$i]->name };

	like((review('change', '--format', 'json', '--changes', $file, $trails[$i]))->{changes}[0]{user}, $i ? qr/^bob$/ : qr/^alice$/, 'changes of one server');
	my ($code, $out, $err) = steno_result('review', 'change', '--changes', $file, @trails);
	is($code, 2, 'changes and the trails of two servers');
	like($err, qr/the trails are of several servers \(\d+, \d+\), and a file of changes does not say of which it is: name the trails of one/, '... are refused');
}

done_testing();
