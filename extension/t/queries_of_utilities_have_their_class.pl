
# A utility statement that contains a query which changes data is a write, however it begins: it waits for
# steno.sync, has a start record, and rules for writes hold for it.  It is recorded for the other classes that
# it has, too.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => q{
steno.fsync_interval = 60s
steno.mandatory = 'none'
});

$node->safe_psql('postgres', q{
CREATE TABLE t (i int);
CREATE TABLE log (i int);
INSERT INTO t SELECT generate_series(1, 100);
CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
CREATE TABLE ruled (i int);
CREATE RULE logs AS ON INSERT TO ruled DO ALSO INSERT INTO log VALUES (new.i);
});

my $prepare = q{
PREPARE deletes (int) AS DELETE FROM t WHERE i = $1 RETURNING i;
PREPARE reads (int) AS SELECT i FROM t WHERE i = $1;
PREPARE hides (int) AS WITH d AS (DELETE FROM t WHERE i = $1 RETURNING i) SELECT i FROM d;
};
my $hides = 'WITH d AS (DELETE FROM t WHERE i = 1 RETURNING i) SELECT i FROM d';

# Statement, class, command of its query, depth of the record that is the write.
my @writes = (
	[ 'COPY (DELETE FROM t WHERE i = 2 RETURNING i) TO STDOUT', 'DELETE' ],
	[ 'COPY (UPDATE t SET i = 3 WHERE i = 4 RETURNING i) TO STDOUT', 'UPDATE' ],
	[ 'COPY (INSERT INTO t VALUES (5) RETURNING i) TO STDOUT', 'INSERT' ],
	[ "COPY ($hides) TO STDOUT", undef ],
	[ "COPY (($hides)) TO STDOUT WITH (FORMAT binary)", undef ],
	[ "COPY (($hides) ORDER BY 1 LIMIT 3) TO STDOUT", undef ],
	[ 'COPY (WITH d AS (SELECT 6) DELETE FROM t WHERE i = 7 RETURNING i) TO STDOUT', 'DELETE' ],
	[ 'COPY (WITH RECURSIVE d AS (INSERT INTO t VALUES (8) RETURNING i), e AS (SELECT 1) SELECT * FROM e) TO STDOUT', undef ],
	[ 'COPY t FROM PROGRAM $$echo 9$$', undef ],
	[ 'EXPLAIN ANALYZE DELETE FROM t WHERE i = 10', 'DELETE' ],
	[ 'EXPLAIN (VERBOSE, ANALYZE on) INSERT INTO t VALUES (11)', 'INSERT' ],
	[ 'EXPLAIN ANALYZE INSERT INTO ruled VALUES (18)', 'INSERT' ],
	[ "EXPLAIN ANALYZE $hides", undef ],
	[ "EXPLAIN ANALYZE CREATE TABLE c1 AS $hides", undef ],
	[ "CREATE TABLE c2 AS $hides", undef ],
	[ 'WITH d AS (DELETE FROM t WHERE i = 1 RETURNING i) SELECT i INTO c3 FROM d', undef ],
	[ 'TRUNCATE log', undef ],
	[ 'EXPLAIN ANALYZE EXECUTE deletes(12)', undef ],
	[ 'EXECUTE deletes(13)', undef, 1 ],
	[ 'EXECUTE hides(14)', undef, 1 ],
	[ 'CREATE TABLE c4 AS EXECUTE hides(15)', undef, 1 ],
	[ 'EXPLAIN ANALYZE EXECUTE hides(16)', undef, 1 ],
	[ 'DO $$BEGIN DELETE FROM t WHERE i = 17; END$$', undef, 1 ],
	[ 'DO $$BEGIN EXECUTE \'CREATE TABLE c5 AS ' . $hides . "'; END\$\$", undef, 1 ]);

# Statement, class.
my @others = (
	[ 'COPY (SELECT i FROM t WHERE false) TO STDOUT', 'read' ],
	[ 'COPY (WITH d AS (SELECT 1) SELECT * FROM d) TO STDOUT', 'read' ],
	[ 'COPY (VALUES (1), (2)) TO STDOUT', 'read' ],
	[ 'COPY (TABLE log) TO STDOUT', 'read' ],
	[ 'COPY log TO STDOUT', 'read' ],
	[ 'EXPLAIN DELETE FROM t', 'misc' ],
	[ "EXPLAIN (ANALYZE off) $hides", 'misc' ],
	[ 'EXPLAIN ANALYZE SELECT i FROM t', 'misc' ],
	[ 'EXPLAIN ANALYZE EXECUTE reads(1)', 'misc' ],
	[ 'CREATE TABLE d1 AS SELECT i FROM t', 'ddl' ],
	[ 'CREATE TABLE d2 AS EXECUTE reads(1)', 'ddl' ],
	[ 'EXPLAIN ANALYZE CREATE TABLE d3 AS SELECT i FROM t', 'ddl' ],
	[ 'REFRESH MATERIALIZED VIEW m', 'ddl' ],
	[ 'DECLARE c CURSOR WITH HOLD FOR SELECT i FROM t', 'read' ],
	[ 'EXECUTE reads(1)', 'misc' ]);

sub session
{
	my ($name, %settings) = @_;
	my $c = Steno::Client->new(
		$node,
		application_name => $name,
		options => join ' ', map { "-c steno.$_=" . $settings{$_} =~ s/ /\\ /gr } sort keys %settings);

	$c->query($_) foreach grep { /\S/ } split /;\n/, $prepare;
	return $c;
}

# Records of a session, by kind, depth and text.
sub found
{
	my ($name) = @_;
	my %found;

	foreach my $r (records($node, application => $name))
	{
		push @{ $found{"$r->{kind} " . ($r->{depth} // 0) . " $r->{text}"} }, $r if defined $r->{text};
	}
	return \%found;
}

# The record of a statement that is the write: of itself, or of what it runs.
sub written
{
	my ($found, $kind, $text, $depth) = @_;

	return grep { $_->{class} eq 'write' } @{ $found->{"$kind 0 $text"} // [] } if !$depth;
	return map { @{ $found->{$_} } } grep { /^$kind 1 / } sort keys %$found;
}

# ---- classes, and the commands of queries

my $c = session('classes');
$c->query($_->[0]) foreach @writes, @others;
$c->quit;

my $found = found('classes');
foreach my $w (@writes)
{
	my ($text, $command, $depth) = @$w;
	my ($r, $more) = @{ $found->{"statement 0 $text"} // [] };

	is(($r->{outcome} // 'none') . ($more ? ' twice' : ''), 'ok', $text);
	is($r->{class}, 'write', "it is a write") if !$depth;
	is($r->{query_command}, $command, 'the command of its query');
}
is($found->{"statement 0 $_->[0]"}[0]{class}, $_->[1], $_->[0]) foreach @others;

# ---- steno.sync and start records

my $watch = Steno::Client->new($node, application_name => 'watch');
my $quick = session('waits', sync => 'write', log => 'all, -transaction');

$watch->query(q{SET steno.log = 'none'});
foreach my $w (@writes)
{
	my $before = $watch->value('SELECT sum(sync_waits) FROM steno.writers');

	$quick->query($w->[0] =~ s/\bc(\d)\b/w$1/r);
	cmp_ok($watch->value('SELECT sum(sync_waits) FROM steno.writers') - $before, '>=', 1, "waits: $w->[0]");
}
foreach my $o (@others)
{
	my $before = $watch->value('SELECT sum(sync_waits) FROM steno.writers');

	$quick->query($o->[0] =~ s/\bd(\d)\b/v$1/r);
	is($watch->value('SELECT sum(sync_waits) FROM steno.writers') - $before, 0, "does not wait: $o->[0]");
}
$quick->quit;
$found = found('waits');
foreach my $w (@writes)
{
	my ($text, undef, $depth) = @$w;

	ok(scalar(written($found, 'start', $text =~ s/\bc(\d)\b/w$1/r, $depth)), "has a start record: $text");
}

my $also = 0;

# classes that a statement has besides: CREATE TABLE AS reads, and is DDL even if it is a write
foreach my $other (
	[ read => 'CREATE TABLE e1 AS SELECT i FROM t' ],
	[ read => 'EXPLAIN ANALYZE SELECT i FROM t' ],
	[ read => 'REFRESH MATERIALIZED VIEW m' ],
	[ ddl => "CREATE TABLE e2 AS $hides" ],
	[ ddl => "EXPLAIN ANALYZE CREATE TABLE e3 AS $hides" ],
	[ read => "COPY ($hides) TO STDOUT" ])
{
	my ($class, $text) = @$other;
	my $name = 'also ' . ++$also;
	my $one = session($name, log => $class, log_start => $class);

	$one->query($text);
	$one->quit;
	$found = found($name);
	is(scalar @{ $found->{"statement 0 $text"} // [] }, 1, "recorded as $class: $text");
	is(scalar @{ $found->{"start 0 $text"} // [] }, 1, "has a start record as $class: $text");
}

$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
