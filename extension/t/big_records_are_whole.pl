
# Records far larger than a ring: text, parameter and message are byte for byte
# what they were.

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node(
	'main', conf => q{
steno.ring_size = 16kB
steno.block_size = 64kB
});

# Not compressible by much, and nowhere alike, so that a part in the wrong place
# is noticed.
sub content
{
	my ($length, $seed) = @_;
	my $content = '';

	for (my $i = 0; length $content < $length; $i++)
	{
		$content .= md5_hex("$seed $i");
	}
	return substr $content, 0, $length;
}

# The one line of the trail that contains a text; without decoding it, which
# takes Perl long.
sub line
{
	my ($what, $mark) = @_;
	my @found = grep { index($_, $mark) >= 0 } lines($node);

	is(scalar @found, 1, "$what: one record");
	return $found[0] // '';
}

sub has
{
	my ($what, $line, $part) = @_;

	ok(index($line, $part) >= 0, $what)
	  or diag(length($line) . ' bytes: ' . substr $line, 0, 300);
	return;
}

my $c = Steno::Client->new($node, application_name => 'big');

# Text, just around the sizes where something changes, and huge.
foreach my $length (
	(map { $_ * 1024 - 200 .. $_ * 1024 - 199 } 4, 8, 16),
	16384, 65536, 65537, 1_000_000, 10_000_000)
{
	my $content = content($length, "text $length");
	my $answer = $c->query("SELECT length('$content')");
	my $line;

	is($answer->{rows}[0][0], $length, "a statement of $length bytes");
	flush($node);
	$line = line("text of $length bytes", substr $content, 0, 40);
	has("text of $length bytes is whole", $line, qq{"text":"SELECT length('$content')"});
}

# A parameter.
{
	my $content = content(10_000_000, 'parameter');
	my $line;

	$c->extended('SELECT length($1::bytea), $2::int', '\x' . $content, 5);
	flush($node);
	$line = line('parameter of 5 MB', substr $content, 0, 40);
	has('it is whole, and the next one after it', $line, qq{"params":["\\\\x$content","5"]});
	has('so is the text', $line, '"text":"SELECT length($1::bytea), $2::int"');
}

# Both, and NULLs.
{
	my $text = content(300_000, 'text of both');
	my $value = content(300_000, 'value of both');
	my $line;

	$c->extended("SELECT \$1::text, \$2::int, \$3::text, '$text'", $value, undef, 'end');
	flush($node);
	$line = line('big text and parameter', substr $value, 0, 40);
	has('the text', $line, $text);
	has('the parameters', $line, qq{"params":["$value",null,"end"]});
}

# A message, with text and parameter.
{
	my $content = content(1_000_000, 'message');
	my ($line);

	$c->query("DO \$\$ BEGIN RAISE EXCEPTION '%', '$content'; END \$\$");
	flush($node);
	($line) = line('big message', substr $content, 0, 40);
	has('the message', $line, qq{"message":"$content"});
	has('the text', $line, qq{RAISE EXCEPTION '%', '$content'});
}

# Many relations.
{
	my @relations;
	my $r;

	$c->query(join ';', map { "CREATE TABLE relation_with_a_rather_long_name_so_as_to_fill_space_$_ (a int)" } 1 .. 120);
	$c->query('SELECT 1 AS many FROM ' . join ', ', map { "relation_with_a_rather_long_name_so_as_to_fill_space_$_" } 1 .. 120);
	$r = the_record($node, 'many relations', kind => 'statement', text => qr/^SELECT 1 AS many/);
	is(scalar @{ $r->{relations} // [] }, 120, 'all of them');
}

$c->quit;
is(value($node, 'SELECT sum(drops) FROM steno.rings'), '0', 'nothing was dropped');
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
