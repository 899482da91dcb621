
# Parameter values of every type are shown as the server itself prints them.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');

$node->safe_psql(
	'postgres', q{
CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy');
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE DOMAIN short_text AS varchar(10);
CREATE TYPE pair AS (a int, b text);
CREATE TYPE reach AS RANGE (subtype = int4);
});

my %values = (
	'bool' => [qw(t f)],
	'int2' => [qw(0 -1 32767 -32768)],
	'int4' => [qw(0 -1 2147483647 -2147483648)],
	'int8' => [qw(0 -1 9223372036854775807 -9223372036854775808)],
	'float4' => [
		qw(0 -0 1 -1.5 0.1 3.4028235e38 1e-45 1.17549435e-38 NaN Infinity -Infinity 1e15 1e16 123456 1234567 0.0001 0.00001)
	],
	'float8' => [
		qw(0 -0 1 -1.5 0.1 1.7976931348623157e308 5e-324 NaN Infinity -Infinity
		  1e14 1e15 1e16 1e21 123456789012345678 0.0001 0.00001 0.30000000000000004)
	],
	'numeric' => [
		qw(0 0.0 0.00 1 -1 1.10 -0.00001 1e-30 12345.678900 10000 100000000 99999999.9999
		  1e100 -1e-100 NaN Infinity -Infinity 0.0001 0.00010 1234567890123456789012345678901234567890.0987654321),
		'9' x 500,
		'-' . '7' x 300 . '.' . '3' x 200
	],
	'text' => [ '', 'x', 'two words', "quote's \"", "line\nbreak", "\t\x01\x1b", 'ü€', 'x' x 5000 ],
	'varchar' => [ '', 'var' ],
	'bpchar' => [ 'b', 'b  ' ],
	'name' => [ 'a_name', '' ],
	'"char"' => [ 'c', '' ],
	'bytea' => [ '', '\x00', '\x00ff5c27', '\x' . 'ab' x 3000 ],
	'uuid' => [
		'00000000-0000-0000-0000-000000000000',
		'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
		'ffffffff-ffff-ffff-ffff-ffffffffffff'
	],
	'date' => [
		'2000-01-01', '1999-12-31', '2026-02-28', '0001-01-01',
		'0001-01-01 BC', '4713-01-01 BC', '5874897-12-31', 'infinity',
		'-infinity'
	],
	'time' => [ '00:00', '23:59:59.999999', '24:00', '12:30:15.5' ],
	'timetz' => [
		'00:00+00', '12:30:15.25-08', '12:30+05:30', '24:00+00',
		'01:02:03+15:59:59'
	],
	'timestamp' => [
		'2000-01-01', '1999-12-31 23:59:59.999999',
		'2026-11-21 20:45:00.1', '0001-01-01 00:00:00 BC',
		'294276-12-31 23:59:59.999999', 'infinity', '-infinity'
	],
	'timestamptz' => [
		'2000-01-01 00:00+00', '2026-11-21 20:45:00.123456+03',
		'0044-03-15 12:00+00 BC', '294276-12-31 23:59:59.999999+00',
		'infinity', '-infinity'
	],
	'interval' => [
		'0', '1 day', '-1 day', '1 year 2 months 3 days 04:05:06.789',
		'-1 year 2 days -03:00', '1 mon', '-13 mons', '100000:00:00',
		'-00:00:00.000001', '178000000 years'
	],
	'json' => [ '{"a":  1}', 'null', '[]' ],
	'jsonb' => [ '{"b": [1, 2.50, "x"], "a": null}', '"text"', '{}' ],
	'xml' => ['<a/>'],
	'inet' => [
		'10.0.0.1', '10.0.0.1/8', '0.0.0.0/0', '::1', '2001:db8::1/64',
		'::ffff:1.2.3.4', '1:0:0:2::3', 'fe80:0:0:1:0:0:0:1'
	],
	'cidr' => [ '10.0.0.0/8', '192.168.1.0/24', '1.2.3.4/32', '2001:db8::/32', '::/0' ],
	'macaddr' => ['08:00:2b:01:02:03'],
	'oid' => [qw(0 1 4294967295)],
	'regclass' => ['pg_class'],
	'mood' => [ 'sad', "it's ok" ],
	'positive' => [5],
	'short_text' => ['short'],
	'pair' => [ '(1,one)', '(,"two words")' ],
	'reach' => [ '[1,5)', 'empty' ],
	'int4range' => ['[1,5)'],
	'int[]' => [ '{}', '{1,2,NULL}', '{{1,2},{3,4}}', '[2:3]={1,2}' ],
	'text[]' => ['{a,"b c",NULL,"NULL","q\"uote"}'],
	'mood[]' => ['{sad,happy}'],
	'timestamptz[]' => ['{"2026-11-21 20:45:00+00"}'],
	'numeric[]' => ['{1.10,NaN}'],
	'money' => ['12.34'],
	'varbit' => ['101'],
	'point' => ['(1,2)'],
	'tsvector' => ["'a':1 'b':2"],
	'pg_lsn' => ['16/B374D848']);

# A server can be built without XML.
delete $values{xml} if $node->psql('postgres', q{SELECT '<a/>'::xml}) != 0;

# One session of the extended protocol, and EXECUTE in SQL, run all of them; the
# server's own form comes with them.
my @settings = ("SET TimeZone = 'UTC'", 'SET DateStyle = ISO',
	'SET IntervalStyle = postgres', 'SET bytea_output = hex');
my $c = Steno::Client->new($node, application_name => 'protocol');
my $p = Steno::Client->new($node, application_name => 'sql');
my @expected;
my $number = 0;

foreach my $client ($c, $p)
{
	$client->query($_) foreach @settings;
}
foreach my $type (sort keys %values)
{
	foreach my $value (@{ $values{$type} }, undef)
	{
		my $sql = "SELECT (\$1::$type)::text";
		my $what = "$type: " . (defined $value ? substr($value, 0, 40) : 'NULL');
		my $answer = $c->extended($sql, $value);
		my $shown;

		die "$what: $answer->{message}" if $answer->{sqlstate};

		# a type's cast to text can differ from its output, as bpchar's does
		$shown = $c->extended("SELECT format('%s', \$1::$type)", $value)->{rows}[0][0]
		  if defined $value;
		$number++;
		$p->query("PREPARE p$number($type) AS SELECT \$1");
		$p->query("EXECUTE p$number("
			  . (defined $value ? "'" . ($value =~ s/'/''/gr) . "'" : 'NULL') . ')');
		utf8::decode($shown) if defined $shown;
		push @expected, [ $what, $sql, $shown ];
	}
}
$_->quit foreach ($c, $p);

my @protocol = sort { $a->{seq} <=> $b->{seq} }
  grep { $_->{text} =~ /^SELECT \(/ } statements($node, application => 'protocol');
my @sql = sort { $a->{seq} <=> $b->{seq} }
  statements($node, application => 'sql', depth => 1);

is(scalar @protocol, scalar @expected, 'extended protocol: all statements');
is(scalar @sql, scalar @expected, 'EXECUTE: all statements');
foreach my $i (0 .. $#expected)
{
	my ($what, $text, $shown) = @{ $expected[$i] };

	is($protocol[$i]{text}, $text, 'in the order of the statements')
	  if $protocol[$i]{text} ne $text;
	is_deeply($protocol[$i]{params}, [$shown], "protocol, $what");
	is_deeply($sql[$i]{params}, [$shown], "EXECUTE, $what");
}

# Values that the client sends in binary format, as most drivers do: the form in the
# record is the same.  The server itself makes the bytes.
{
	my $client = Steno::Client->new($node, application_name => 'binary');
	my (@sent, @r);

	$client->query($_) foreach @settings;
	foreach my $type (sort keys %values)
	{
		my $send = $client->query("SELECT typsend FROM pg_type WHERE oid = '$type'::regtype")->{rows}[0][0];

		foreach my $value (@{ $values{$type} }, undef)
		{
			my ($bytes, $shown);

			if (defined $value)
			{
				my $answer = $client->query(
					sprintf "SELECT encode(%s(%s::%s), 'hex'), format('%%s', %s::%s)",
					$send, (map { ("'" . ($value =~ s/'/''/gr) . "'", $type) } 1 .. 2));

				die "$type: $answer->{message}" if $answer->{sqlstate};
				($bytes, $shown) = @{ $answer->{rows}[0] };
				utf8::decode($shown);
			}
			$client->parse('', "SELECT \$1::$type AS binary")
			  ->bind_binary('', '', defined $bytes ? pack('H*', $bytes) : undef)
			  ->execute('')->sync;
			die "$type: could not be sent" if $client->finish->{sqlstate};
			push @sent, [ $type, $shown ];
		}
	}
	$client->quit;
	@r = sort { $a->{seq} <=> $b->{seq} } statements($node, application => 'binary', text => qr/ AS binary$/);
	cmp_ok(scalar @sent, '>', 200, 'values in binary format');
	is(scalar @r, scalar @sent, 'all their statements');
	foreach my $i (0 .. $#sent)
	{
		my ($type, $shown) = @{ $sent[$i] };

		# names of tests are bytes
		utf8::encode(my $name = substr($shown // 'NULL', 0, 40));
		is_deeply($r[$i]{params}, [$shown], "binary, $type: $name");
	}
}

# Many parameters at once, and none of them written down when that is off.
{
	my $client = Steno::Client->new($node, application_name => 'many');
	my @many = map { $_ % 3 ? "value $_" : undef } 1 .. 100;
	my ($r);

	$client->extended(
		'SELECT ' . join(', ', map { "\$${_}::text" } 1 .. 100), @many);
	$client->query('SET steno.log_parameter = off');
	$client->extended('SELECT $1::text', 'secret');
	$client->quit;
	my @r = grep { $_->{text} =~ /^SELECT/ } statements($node, application => 'many');
	is_deeply($r[0]{params}, \@many, 'a hundred parameters, NULLs among them');
	is($r[1]{params}, undef, 'none with steno.log_parameter = off');
	is(scalar(grep { /secret/ } lines($node)), 0, 'nor anywhere else');
}

# A type whose output function fails: its value is missing, the others are there.
{
	my $client = Steno::Client->new($node, application_name => 'broken');
	my ($r);

	$node->safe_psql(
		'postgres', q{
CREATE TYPE broken;
CREATE FUNCTION broken_in(cstring) RETURNS broken LANGUAGE internal STRICT IMMUTABLE AS 'oidin';
CREATE FUNCTION broken_out(broken) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'enum_out';
CREATE TYPE broken (INPUT = broken_in, OUTPUT = broken_out, INTERNALLENGTH = 4, PASSEDBYVALUE, ALIGNMENT = int4);
});
	is($client->extended('SELECT $1::broken IS NULL, $2::text', '5', 'next')->{rows}[0][1],
		'next', 'an output function that fails does not fail the statement');
	$client->query(q{SET statement_timeout = '100ms'});
	is($client->query('SELECT pg_sleep(600)')->{sqlstate},
		'57014', 'and leaves the session one that can be cancelled');
	$client->quit;
	($r) = statements($node, application => 'broken');
	is($r->{outcome}, 'ok', 'which is recorded');
	is($r->{params}[1], 'next', 'with the values that can be had');
	isnt($r->{params}[0], '5', 'and without the one that cannot') or diag(explain($r));
}

verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();
