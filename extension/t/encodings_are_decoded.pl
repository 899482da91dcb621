
# Texts, names, parameters and messages of databases whose encoding is not UTF-8 are decoded, and bytes
# without a known encoding are marked.

use strict;
use warnings;

use Encode qw(decode encode);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main');

# In each database: a table whose name, a statement whose text, and a failure whose
# message have a character that is not ASCII.
my %databases = (
	UTF8 => [ 'UTF-8', "\x{8868}" ],
	LATIN1 => [ 'iso-8859-1', "\x{e9}" ],
	EUC_JP => [ 'euc-jp', "\x{8868}" ],
	WIN1251 => [ 'cp1251', "\x{416}" ],
	SQL_ASCII => [ 'iso-8859-1', "\x{e9}" ]);

foreach my $name (sort keys %databases)
{
	my ($perl, $char) = @{ $databases{$name} };
	my $bytes = encode($perl, $char);
	my $shown = $name eq 'SQL_ASCII' ? "\x{fffd}e9" : $char;
	my $database = lc "db_$name";

	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 ENCODING '$name' LC_COLLATE 'C' LC_CTYPE 'C'");
	my $script = $node->basedir . "/$database.sql";
	open(my $out, '>:raw', $script) or die;
	print $out "SET client_encoding = '$name';\n",
	  "CREATE TABLE \"t$bytes\" (i int);\n",
	  "SELECT 'x$bytes' || '\\xe9' AS marked;\n",
	  "SELECT \"no$bytes\" FROM \"t$bytes\";\n";
	close $out;
	command_fails([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-f', $script, $node->connstr($database) ],
		"$name: the last statement fails");
	flush($node);

	my @records = statements($node, database => $database);
	my ($create) = grep { ($_->{command} // '') eq 'CREATE TABLE' } @records;
	my ($select) = grep { ($_->{text} // '') =~ /marked/ } @records;
	my ($failed) = grep { ($_->{outcome} // '') eq 'error' } @records;
	is($create->{objects}[0]{name}, "public.\"t$shown\"", "$name: name of an object");
	is($select->{text}, "SELECT 'x$shown' || '\\xe9' AS marked", "$name: text");
	like($failed->{message}, qr/no\Q$shown\E/, "$name: message");
	is($select->{encoding}, $name eq 'UTF8' ? undef : $name, "$name: the session says its encoding");
}
verify_ok($node);
$node->stop;
done_testing();
