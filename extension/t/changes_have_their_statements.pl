
# steno review change: the changes that logical decoding reports belong to the statements that made them.
# Each session writes its application_name into the rows that it changes. Both forms of changes are read.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', streaming => 'logical', conf => 'max_prepared_transactions = 5');
my $json = JSON::PP->new->utf8;
my $folder = PostgreSQL::Test::Utils::tempdir();

$node->safe_psql(
	'postgres', q{
CREATE TABLE t (id int PRIMARY KEY, who text, "Odd" text);
CREATE TABLE full_rows (id int, who text);
ALTER TABLE full_rows REPLICA IDENTITY FULL;
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE, who text);
CREATE TABLE copied (id int PRIMARY KEY, who text);
CREATE TABLE parts (id int PRIMARY KEY, who text) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
CREATE FUNCTION copy_row() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO copied VALUES (NEW.id, NEW.who); RETURN NEW; END$$;
CREATE TRIGGER copies AFTER INSERT ON full_rows FOR EACH ROW EXECUTE FUNCTION copy_row();
CREATE PUBLICATION p FOR ALL TABLES;
SELECT pg_create_logical_replication_slot('binary', 'pgoutput');
});
# It is a contrib module, which an installation may not have.
my $decodes = has_module('test_decoding');
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('text', 'test_decoding')}) if $decodes;

sub session
{
	my ($name, $sql) = @_;

	$node->safe_psql('postgres', $sql =~ s/:by/'$name'/gr, connstr => $node->connstr('postgres') . " application_name=$name");
	return;
}
my $big = 'x' x 5000;
session('one', q{INSERT INTO t VALUES (1, :by, E'line\nfeed'), (2, :by, NULL)});
session('two', q{BEGIN; UPDATE t SET who = :by WHERE id = 1; SAVEPOINT s; UPDATE t SET who = 'undone' WHERE id = 2; ROLLBACK TO s; DELETE FROM t WHERE id = 2; COMMIT});
session('three', qq{INSERT INTO full_rows VALUES (7, :by); UPDATE full_rows SET id = 8, who = :by});
session('rolled', q{BEGIN; INSERT INTO t VALUES (50, :by); ROLLBACK});
session('prepared', q{BEGIN; INSERT INTO t VALUES (60, :by); PREPARE TRANSACTION 'x'});
session('committer', q{COMMIT PREPARED 'x'});
session('parts', q{INSERT INTO parts VALUES (5, :by)});
session('cascade', q{INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1, :by); DELETE FROM parent});
session('do', q{DO $$BEGIN INSERT INTO t VALUES (70, 'do'); END$$});
session('big', qq{INSERT INTO t VALUES (80, :by, '$big'); UPDATE t SET who = :by WHERE id = 80});
session('locker', q{BEGIN; SELECT * FROM t WHERE id = 80 FOR UPDATE; UPDATE t SET who = :by WHERE id = 1; COMMIT});
session('cutter', q{TRUNCATE copied});
my $end = value($node, 'SELECT pg_current_wal_lsn()');
flush($node);

my $file = "$folder/changes";
$node->command_ok(
	[
		'pg_recvlogical', '-S', 'binary', '-d', $node->connstr('postgres'), '--start', '-f', $file, '--no-loop',
		'-o', 'proto_version=1', '-o', 'publication_names=p', '--endpos', $end
	],
	'changes are received');

sub changes
{
	my ($path, @more) = @_;
	my ($code, $out, $err) = steno_result('review', 'change', '--changes', $path, '--format', 'json', @more, trail($node));
	is($code, 0, "review change @more") or diag($err);
	return @{ $json->decode($out || '{"changes":[]}')->{changes} };
}

# What each session must have done, in the order of the commits.
my @expected = (
	'one insert public.t', 'one insert public.t', 'two update public.t', 'two delete public.t', 'three insert public.full_rows',
	'three insert public.copied', 'three update public.full_rows', 'prepared insert public.t', 'parts insert public.part1', 'cascade insert public.parent',
	'cascade insert public.child', 'cascade delete public.parent', 'cascade delete public.child', 'do insert public.t', 'big insert public.t', 'big update public.t',
	'locker update public.t', 'cutter truncate public.copied');
my @all = changes($file);
is_deeply([ sort map { "$_->{application} $_->{change} $_->{table}" } @all ], [ sort @expected ], 'each change has its session');
foreach my $c (@all)
{
	next if ($c->{row} // '') !~ /who='(\w+)'/;
	my $who = $1;
	is($c->{application}, $who, "the row says the same: $c->{row}" =~ s/x{100,}/xxx/r);
}
is_deeply([ grep { !@{ $_->{statements} // [] } } @all ], [], 'each change has statements');
foreach my $c (grep { $_->{how} eq 'statement' } @all)
{
	my ($session, $seq) = split m{/}, $c->{statements}[0];
	my ($r) = grep { $_->{seq} == $seq } map { $json->decode($_) } lines($node, '--session', $session);
	my $verb = uc $c->{change};
	like($r->{text}, qr/\b$verb\b/, "$c->{change} of $c->{table}: its statement is one");
}
cmp_ok(scalar(grep { $_->{how} eq 'statement' } @all), '>=', 14, 'most changes have one statement');
is_deeply([ grep { ($_->{text} // '') =~ /undone|FOR UPDATE/ } @all ], [], 'neither what was rolled back nor what locked is named');

# Filters.
is(join(' ', map { $_->{application} } changes($file, '--table', 't', '--key', 'id=1')), 'one two locker', 'the changes of one row');
is(join(' ', map { $_->{application} } changes($file, '--table', 'public.full_rows', '--key', 'id=7')), 'three three', 'a row whose key was changed');
is(scalar(changes($file, '--table', 'none')), 0, 'a table without changes');

# An answer without changes says what may be the reason.
sub limits
{
	return @{ $json->decode((steno_result('review', 'change', '--changes', $file, '--format', 'json', @_, trail($node)))[1])->{limits} };
}
ok((grep { /no change of the table, but of others: .*public[.]part1/ } limits('--table', 'public.parts')), 'a partitioned table');
ok((grep { /^[1-9]\d* changes of the table have no value of a column of the key/ } limits('--table', 't', '--key', 'idd=1')), 'no such column');
ok(!(grep { /no value of a column|no change of the table/ } limits('--table', 't', '--key', 'id=1')), 'a column that all have');
ok((grep { /replica identity/ } limits('--table', 't', '--key', 'who=one')), 'a column that is not of the key');
is(join(' ', map { $_->{how} } changes($file, '--table', 'copied', '--until', '2020-01-01')), 'not in the trail not in the trail', 'changes that the trail does not have');

# Debezium: the position is that of the change itself.
SKIP:
{
	skip 'test_decoding is not installed', 1 if !$decodes;

	my $events = '';
	my ($xid, $n) = (0, 0);
	foreach my $line (split /\n/, $node->safe_psql('postgres', q{SELECT lsn - '0/0'::pg_lsn, xid, data FROM pg_logical_slot_get_changes('text', NULL, NULL) WHERE data ~ '^table public[.]t: (INSERT|UPDATE)'}))
	{
		my ($lsn, $id, $data) = $line =~ /^(\d+)\|(\d+)\|(.*)/ or next;
		my ($op, $key, $by) = $data =~ /: (\w+): id\[integer\]:(\d+) who\[text\]:'(\w+)'/ or next;
		my $event = { op => $op eq 'INSERT' ? 'c' : 'u', before => undef, after => { id => 0 + $key, who => $by },
			source => { db => 'postgres', schema => 'public', table => 't', txId => 0 + $id, lsn => 0 + $lsn } };
		$events .= $json->encode($n++ % 2 ? { schema => {}, payload => $event } : $event) . "\n" . ($n == 2 ? "null\n" : '');
	}
	open my $f, '>', "$folder/events" or die $!;
	print $f $events;
	close $f or die $!;
	my @debezium = changes("$folder/events");
	cmp_ok(scalar(@debezium), '>=', 7, 'events of Debezium are read');
	foreach my $c (@debezium)
	{
		my ($by) = $c->{row} =~ /who='(\w+)'/;
		is($c->{application}, $by, "an event of Debezium has its session: $by");
	}
}

# What cannot be read is refused.
my ($code, $out, $err);
sub refused
{
	my ($name, $bytes, $pattern) = @_;

	open my $h, '>:raw', "$folder/bad" or die $!;
	print $h $bytes;
	close $h or die $!;
	($code, $out, $err) = steno_result('review', 'change', '--changes', "$folder/bad", trail($node));
	is($code, 2, "$name: refused");
	like($err, $pattern, "$name: says why");
	return;
}
my $whole = PostgreSQL::Test::Utils::slurp_file($file);
refused('a stream', "S\0\0\0\1\1\n", qr/streamed before their end/);
refused('two-phase decoding', "b" . "\0" x 40, qr/two-phase/);
refused('an empty file', '', qr/is empty/);
refused('text', "BEGIN 742\n", qr/test_decoding/);
refused('a file that was cut off', substr($whole, 0, length($whole) - 7), qr/ends inside/);
refused('JSON of something else', '{"op":"c","source":{"table":"t"}}', qr/no txId/);
refused('garbage', "\xff\xfe", qr/no message of pgoutput/);

done_testing();
