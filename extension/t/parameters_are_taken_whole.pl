
# Parameter values that are compressed or stored out of line, and values whose output function runs
# statements, which belong to no statement of the client.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $c;

# ---- compressed, and stored elsewhere ----
value($node, q{
CREATE TABLE big (kind text, plain text, bytes bytea, number numeric, doc jsonb);
ALTER TABLE big ALTER plain SET STORAGE MAIN, ALTER bytes SET STORAGE EXTERNAL, ALTER number SET STORAGE EXTERNAL,
	ALTER doc SET STORAGE EXTENDED;
INSERT INTO big VALUES ('big', repeat('text ', 4000), decode(repeat('ab', 9000), 'hex'), repeat('1234567890', 1200)::numeric,
	jsonb_build_object('key', repeat('json ', 4000)));
CREATE FUNCTION uses() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	b big;
BEGIN
	SELECT * INTO b FROM big;
	PERFORM 1 FROM big WHERE plain = b.plain;
	PERFORM 2 FROM big WHERE bytes = b.bytes;
	PERFORM 3 FROM big WHERE number = b.number;
	PERFORM 4 FROM big WHERE doc = b.doc;
END $$;
CREATE FUNCTION uses_scalars() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	p text;
	b bytea;
	n numeric;
BEGIN
	SELECT plain, bytes, number INTO p, b, n FROM big;
	PERFORM 1 FROM big WHERE plain = p;
	PERFORM 2 FROM big WHERE bytes = b;
	PERFORM 3 FROM big WHERE number = n;
END $$;
});
is(value($node, q{SELECT pg_column_size(plain) < 1000, pg_column_size(doc) < 1000, pg_relation_size(reltoastrelid) > 0
	FROM big, pg_class WHERE oid = 'big'::regclass}), 't|t|t', 'values are compressed, or stored elsewhere');
foreach my $sql ('SELECT uses()', 'SELECT uses_scalars()')
{
	my @found;

	$c = Steno::Client->new($node, application_name => 'big');
	$c->query($sql);
	$c->quit;
	@found = grep { $_->{depth} && $_->{text} =~ /^SELECT \d/ } sort { $a->{seq} <=> $b->{seq} } statements($node, pid => $c->{pid});
	@found = map { [ grep { defined && length > 1000 } @{ $_->{params} } ] } @found;
	is_deeply(
		\@found,
		[
			[ 'text ' x 4000 ], [ '\\x' . 'ab' x 9000 ], [ '1234567890' x 1200 ],
			$sql =~ /scalars/ ? () : [ '{"key": "' . 'json ' x 4000 . '"}' ]
		],
		"$sql: whole values");
}

# ---- output functions ----
{
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $include = qx(pg_config --includedir-server);
	my (@found, $before);

	chomp $include;
	system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', "-I$include", '-o', "$folder/output.so",
		dirname(__FILE__) . '/output.c');
	value($node, qq{
CREATE TABLE printed (a int);
CREATE TYPE number;
CREATE FUNCTION number_in(cstring) RETURNS number IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
CREATE FUNCTION number_out(number) RETURNS cstring STRICT LANGUAGE C AS '$folder/output.so';
CREATE TYPE number (INPUT = number_in, OUTPUT = number_out, LIKE = int4);
});
	$c = Steno::Client->new($node, application_name => 'output');
	foreach my $value (7, 8, -9, 10)
	{
		$c->extended('SELECT $1::number IS NULL', $value);
	}
	$c->query(q{DO $$ DECLARE n number := '11'; BEGIN PERFORM 1 WHERE n IS NULL; PERFORM 2; END $$});
	$c->query('SELECT 3');

	# what runs of the statement itself is its own
	$c->query(q{SELECT '12'::number});
	$c->quit;
	@found = sort { $a->{seq} <=> $b->{seq} } statements($node, pid => $c->{pid});
	is_deeply(
		[ map { [ $_->{text}, $_->{depth} // 0, $_->{outcome}, @{ $_->{params} // [] } ] } grep { $_->{text} !~ /^DO/ } @found ],
		[
			[ 'SELECT $1::number IS NULL', 0, 'ok', 'number 7' ],
			[ 'SELECT $1::number IS NULL', 0, 'ok', 'number 8' ],
			[ 'SELECT $1::number IS NULL', 0, 'ok', $found[2]{params}[0] ],
			[ 'SELECT $1::number IS NULL', 0, 'ok', 'number 10' ],
			[ 'SELECT 1 WHERE n IS NULL', 1, 'ok', undef, 'number 11' ],
			[ 'SELECT 2', 1, 'ok' ],
			[ 'SELECT 3', 0, 'ok' ],
			[ 'INSERT INTO printed VALUES (1)', 1, 'ok' ],
			[ q{SELECT '12'::number}, 0, 'ok' ]
		],
		'statements of an output function are not recorded');
	unlike($found[2]{params}[0] // '', qr/9/, 'a value that cannot be printed');
	is(value($node, 'SELECT count(*) FROM printed'), 1, 'what they have done is undone, but for what the statement itself runs');
}
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
