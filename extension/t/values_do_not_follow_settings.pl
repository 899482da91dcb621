
# The values of parameters, and the names of objects, are the same whatever the settings of the session are: as
# a session with the server's defaults prints them.  The session keeps its settings, also when an output
# function fails.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => q{timezone = 'UTC'});

$node->safe_psql('postgres', q{
CREATE SCHEMA other;
CREATE TABLE other.t (i int);
CREATE TABLE public.plain (f float8, d timestamptz);
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TYPE other.row AS (f float8, d timestamptz, b bytea, i interval);
CREATE DOMAIN day AS date;
CREATE DOMAIN moments AS timestamptz[];
CREATE DOMAIN stamps AS tstzrange;
CREATE FUNCTION other.f(int, timestamptz) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE OPERATOR other.@#@ (leftarg = int, rightarg = int, function = int4pl);

CREATE TYPE broken;
CREATE FUNCTION broken_in(cstring) RETURNS broken LANGUAGE internal STRICT IMMUTABLE AS 'oidin';
CREATE FUNCTION broken_out(broken) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'enum_out';
CREATE TYPE broken (INPUT = broken_in, OUTPUT = broken_out, INTERNALLENGTH = 4, PASSEDBYVALUE, ALIGNMENT = int4);
});

my %values = (
	'float8' => '0.1234567890123456', 'float4' => '0.123456789', 'date' => '2026-02-03', 'timestamptz' => '2026-02-03 04:05:06+07',
	'timestamp' => '2026-02-03 04:05:06', 'interval' => '1 year 2 mons -3 days 04:05:06.789', 'bytea' => '\x00ff5c27',
	'timetz' => '01:02:03+04', 'time' => '01:02:03',
	'float8[]' => '{0.1234567890123456,1e300,NaN}', 'float4[]' => '{0.123456789,1e-30}',
	'date[]' => '{2026-02-03,infinity}', 'timestamptz[]' => '{"2026-02-03 04:05:06+07",-infinity}',
	'timestamp[]' => '{"2026-02-03 04:05:06"}', 'timetz[]' => '{01:02:03+04}', 'interval[]' => '{"1 year 2 mons -3 days","-04:05:06.789"}',
	'bytea[]' => '{"\\\\x00ff5c27"}', 'point' => '(0.1234567890123456,2)', 'circle' => '<(0.1234567890123456,2),3.3>',
	'box' => '(0.1234567890123456,2),(0,0)', 'path' => '[(0.1234567890123456,2),(0,0)]', 'polygon' => '((0.1234567890123456,2),(0,0))',
	'line' => '{0.1234567890123456,2,3}', 'lseg' => '[(0.1234567890123456,2),(0,0)]',
	'tstzrange' => '["2026-02-03 04:05:06+07",)', 'tsrange' => '[,"2026-02-03 04:05:06")', 'daterange' => '[2026-02-03,2026-02-05)',
	'tstzmultirange' => '{["2026-02-03 04:05:06+07",)}', 'datemultirange' => '{[2026-02-03,2026-02-05)}', 'daterange[]' => '{"[2026-02-03,2026-02-05)"}',
	'day' => '2026-02-03', 'moments' => '{"2026-02-03 04:05:06+07"}', 'stamps' => '["2026-02-03 04:05:06+07",)', 'day[]' => '{2026-02-03}',
	'other.row' => '(0.1234567890123456,"2026-02-03 04:05:06+07","\\\\x00ff","1 year -2 days")',
	'other.row[]' => '{"(0.1234567890123456,\"2026-02-03 04:05:06+07\",,)"}',
	'plain' => '(0.1234567890123456,"2026-02-03 04:05:06+07")',
	'money' => '1234.56', 'money[]' => '{1234.56}', 'mood' => 'sad',
	'regclass' => 'other.t', 'regclass[]' => '{other.t,plain,pg_class}', 'regtype' => 'other.row', 'regproc' => 'other.f',
	'regprocedure' => 'other.f(int,timestamptz)', 'regoperator' => 'other.@#@(int,int)', 'regnamespace' => 'other', 'regrole' => 'postgres',
	'jsonb' => '{"a": 0.1234567890123456}', 'tsvector' => "'a':1", 'pg_lsn' => '16/B374D848', 'numeric[]' => '{1.10,NaN}');
my @types = sort keys %values;

my @strange = (
	q{SET extra_float_digits = -10},
	q{SET DateStyle = 'German, DMY'},
	q{SET TimeZone = 'Asia/Tokyo'},
	q{SET IntervalStyle = 'iso_8601'},
	q{SET bytea_output = 'escape'},
	q{SET xmlbinary = 'hex'},
	q{SET quote_all_identifiers = on},
	q{SET lc_monetary = 'C.UTF-8'},
	q{SET search_path = other, public});
my $own = q{SELECT concat_ws('|', 0.1234567890123456::float8, '2026-02-03 04:05:06+07'::timestamptz, '1 year'::interval, '\x00ff'::bytea,
	current_setting('search_path'), 'other.t'::regclass, 'plain'::regclass, quote_ident('x'), '1.5'::money)};

# As a session with defaults prints them.
my %expected;
foreach my $type (@types)
{
	$expected{$type} = value($node, "SELECT format('%s', \$steno\$$values{$type}\$steno\$::$type)");
}

my $c = Steno::Client->new($node, application_name => 'strange');
$c->query($_) foreach @strange;
my $before = $c->value($own);
like($before, qr/^0\.12346\|03\.02\.2026 06:05:06 JST\|P1Y\|/, 'the session prints values its own way');

foreach my $type (@types)
{
	my $literal = "\$steno\$$values{$type}\$steno\$";
	my $qualified = $type =~ /^(?:plain|mood|day|moments|stamps)/ ? "public.$type" : $type;

	foreach my $query ("SELECT $literal\::$qualified", "SELECT \$1::$qualified AS protocol")
	{
		my $answer = $query =~ / AS protocol$/ ? $c->extended($query, $values{$type}) : $c->query($query);

		die "$type: $answer->{message}" if $answer->{sqlstate};
	}
	$c->query("PREPARE p($qualified) AS SELECT \$1 AS prepared");
	$c->query("EXECUTE p($literal)");
	$c->query('DEALLOCATE p');
	$c->query("DO \$do\$BEGIN EXECUTE 'SELECT \$1 AS nested' USING $literal\::$qualified; END\$do\$");
}
is($c->value($own), $before, 'and does so after they were recorded');

# an output function that fails, and one that is cancelled, leave the settings as they were
is($c->extended('SELECT $1::broken IS NULL', '5')->{sqlstate}, undef, 'an output function fails');
is($c->value($own), $before, 'the session still has its settings');
$c->query('BEGIN');
$c->query(q{SET LOCAL search_path = other});
$c->extended('SELECT $1::public.broken IS NULL, $2::other.row', '5', $values{'other.row'});
is($c->value('SHOW search_path'), '"other"', 'also one of the transaction');
$c->query('ROLLBACK');
is($c->value($own), $before, 'which ends with it');

# names of relations, columns, functions and objects
$c->query('SELECT i, other.f(i, NULL) FROM other.t');
$c->query('CREATE TABLE other.made (col int)');
$c->query('ALTER TABLE other.made RENAME COLUMN col TO named');
$c->quit;

my @r = statements($node, application => 'strange');
foreach my $as (qw(protocol prepared nested))
{
	my @shown = map { $_->{params}[0] } sort { $a->{seq} <=> $b->{seq} } grep { $_->{text} =~ / AS $as$/ && ($as eq 'protocol' || $_->{depth}) } @r;

	is(scalar @shown, scalar @types, "$as: all statements");
	is($shown[$_], $expected{ $types[$_] }, "$as: $types[$_]") foreach 0 .. $#types;
}
my ($select) = grep { $_->{text} =~ /FROM other\.t$/ } @r;
is($select->{relations}[0]{name}, 'other.t', 'names of relations are quoted only where that is necessary');
is_deeply($select->{relations}[0]{columns}{select}, ['i'], 'those of columns, too');
is($select->{objects}[0]{name}, 'other.f', 'and of functions');
my ($create) = grep { $_->{text} =~ /^CREATE TABLE other/ } @r;
is($create->{objects}[0]{name}, 'other.made', 'and of objects');
my ($rename) = grep { $_->{text} =~ /RENAME/ } @r;
is_deeply([ map { "$_->{name} to " . ($_->{to} // '') } grep { $_->{action} eq 'rename' } @{ $rename->{objects} } ],
	['other.made.col to other.made.named'], 'and of what is renamed')
  or diag explain $rename->{objects};

# the SQL functions of a session show the same
my $reader = Steno::Client->new($node, application_name => 'reader');
$reader->query($_) foreach @strange;
foreach my $type (qw(float8 timestamptz interval bytea date))
{
	my $answer = $reader->query("SELECT params[1] FROM steno.trail('-infinity', application_name => 'strange') WHERE text = 'SELECT \$1::$type AS protocol'");

	is($answer->{rows}[0][0], $expected{$type}, "read in SQL: $type") or diag explain $answer;
}
is($reader->value($own), $before, 'a session that reads keeps its settings, too');
$reader->quit;

$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
