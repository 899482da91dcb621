
# Transaction IDs with their epoch, and the positions of commits in the WAL: what joins the trail with a
# change stream of logical decoding.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $epoch = 3;
my $node = new_node('main', conf => q{
wal_level = logical
max_prepared_transactions = 5
steno.log = all
});

$node->safe_psql('postgres', q{
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE FUNCTION twice(n int) RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO t VALUES (n, 1); INSERT INTO t VALUES (n + 1, 2); END';
CREATE PROCEDURE commits() LANGUAGE plpgsql AS 'BEGIN INSERT INTO t VALUES (501); COMMIT; INSERT INTO t VALUES (502); COMMIT; END';
});
$node->stop;
system_or_bail('pg_resetwal', '-e', $epoch, $node->data_dir);
$node->start;
my $decodes = has_module('test_decoding');
$node->safe_psql('postgres', q{
CREATE PUBLICATION p FOR ALL TABLES;
SELECT pg_create_logical_replication_slot('out', 'pgoutput');
});
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('test', 'test_decoding')}) if $decodes;

# Transactions of each kind.
my $client = Steno::Client->new($node, application_name => 'joined');
my @shown;

sub run
{
	my $got = $client->query($_[0]);

	return $got->{rows}[0][0];
}

run(q{INSERT INTO t VALUES (1, 'alone')});
run('BEGIN');
run(q{INSERT INTO t VALUES (2, 'block')});
push @shown, run('SELECT pg_current_xact_id()');
run('SAVEPOINT s');
run(q{UPDATE t SET a = 'sub' WHERE id = 2});
run('RELEASE s');
run('COMMIT');
run('SELECT twice(10)');
run('CALL commits()');
run('PREPARE ins AS INSERT INTO t VALUES ($1)');
run("EXECUTE ins ($_)") foreach 600 .. 609;
$client->parse('brief', 'INSERT INTO t (id) VALUES ($1)')->sync->finish;
$client->bind_values('', 'brief', 700 + $_)->execute('')->sync->finish foreach 1 .. 12;
run('BEGIN');
run(q{INSERT INTO t VALUES (3, 'rolled back')});
run('ROLLBACK');
run('BEGIN');
run(q{INSERT INTO t VALUES (4, 'prepared')});
run(q{PREPARE TRANSACTION 'it''s four'});
run('BEGIN');
run(q{INSERT INTO t VALUES (5, 'prepared')});
run(q{PREPARE TRANSACTION 'five'});
run(q{ROLLBACK PREPARED 'five'});
run(q{INSERT INTO t VALUES (6, 'between')});
run(q{COMMIT PREPARED 'it''s four'});
run('ALTER TABLE t ADD COLUMN b int');
run('INSERT INTO t VALUES (7)');
$client->quit;

# pgoutput: B, position of the commit, time, transaction ID; C, flags, position of the commit, end, time.
my %out;
my $messages = $node->safe_psql('postgres', q{
SELECT xid, lsn, encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('out', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')});
foreach my $line (split /\n/, $messages)
{
	my ($xid, $lsn, $hex) = split /\|/, $line;
	my $data = pack 'H*', $hex;

	if ($data =~ /^B/)
	{
		my ($high, $low, undef, undef, $begun) = unpack 'x N N N N N', $data;

		$out{$xid}{begin} = sprintf '%X/%X', $high, $low;
		is($begun, $xid, "pgoutput names transaction $xid");
	}
	elsif ($data =~ /^C/)
	{
		my ($high, $low, $end_high, $end_low) = unpack 'x2 N N N N', $data;

		$out{$xid}{commit} = sprintf '%X/%X', $high, $low;
		$out{$xid}{end} = sprintf '%X/%X', $end_high, $end_low;
	}
}
my %test;
if ($decodes)
{
	foreach my $line (split /\n/, $node->safe_psql('postgres', q{SELECT xid, lsn FROM pg_logical_slot_get_changes('test', NULL, NULL) WHERE data LIKE 'COMMIT%'}))
	{
		my ($xid, $lsn) = split /\|/, $line;

		$test{$xid} = $lsn =~ s{/0*}{/}r;
	}
}

# Each transaction of the streams is one of the trail, and the other way round.
my @ended = records($node, kind => 'transaction', application => 'joined');
my @committed = grep { $_->{extra}{event} =~ /^commit/ } @ended;
my $timeline = value($node, 'SELECT timeline_id FROM pg_control_checkpoint()');
my %joined;

cmp_ok(scalar(@committed), '>=', 24, 'there are committed transactions');
foreach my $r (@committed)
{
	my $xid = $r->{xid} & 0xffffffff;
	my $what = "transaction $r->{xid}, $r->{extra}{event}";

	is($r->{xid} >> 32, $epoch, "$what: its epoch");
	is($r->{extra}{timeline}, $timeline, "$what: its timeline");
	# what changes no row of a table is not in the stream of pgoutput
	if ($out{$xid})
	{
		is_deeply([ $r->{extra}{commit_lsn}, $r->{extra}{commit_lsn}, $r->{extra}{end_lsn} ], [ @{ $out{$xid} }{qw(begin commit end)} ], "$what: positions of pgoutput");
		$joined{$xid} = 1;
	}
	is($r->{extra}{end_lsn}, $test{$xid}, "$what: position of test_decoding") if $decodes;
}
is_deeply([ sort { $a <=> $b } keys %joined ], [ sort { $a <=> $b } keys %out ], 'each transaction of the stream is joined');
cmp_ok(scalar(keys %out), '>=', 24, 'the stream has these transactions');

# The others have no commit.
foreach my $r (grep { $_->{extra}{event} !~ /^commit/ } @ended)
{
	is(scalar(grep { exists $r->{extra}{$_} } qw(commit_lsn end_lsn)), 0, "$r->{extra}{event}: no position of a commit");
}

# COMMIT PREPARED and ROLLBACK PREPARED have the ID of their transaction.
foreach my $case ([ q{it's four}, 'commit prepared' ], [ 'five', 'rollback prepared' ])
{
	my ($gid, $event) = @$case;
	my @two = grep { ($_->{extra}{gid} // '') eq $gid } @ended;

	is_deeply([ map { $_->{extra}{event} } @two ], [ 'prepare', $event ], "$gid: both records");
	ok($two[0]{xid}, "$gid: an ID");
	is($two[1]{xid}, $two[0]{xid}, "$gid: both have it");
}

# Statements have the same IDs, in whatever way their records are made.
my %of_transaction = map { $_->{xid} => 1 } @ended;
my @statements = statements($node, application => 'joined');
my @with_xid = grep { defined $_->{xid} } @statements;
is(scalar(grep { !$of_transaction{ $_->{xid} } } @with_xid), 0, 'each ID of a statement is that of a transaction');
is(scalar(grep { $_->{text} eq 'INSERT INTO t (id) VALUES ($1)' } @with_xid), 12, 'those of a prepared statement, too');
my ($own) = grep { $_->{text} =~ /pg_current_xact_id/ } @statements;
is($own->{xid}, $shown[0], 'the ID is that of pg_current_xact_id()');

# A filter by either form of an ID.
foreach my $id ($shown[0], $shown[0] & 0xffffffff)
{
	my @found = lines($node, '--xid', $id, '--kind', 'transaction');

	is(scalar(@found), 1, "the transaction is found by $id");
}
is(scalar(lines($node, '--xid', ($shown[0] & 0xffffffff) + ($epoch + 1) * 2**32)), 0, 'another epoch is another transaction');

$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
