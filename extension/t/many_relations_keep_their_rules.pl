
# A rule that names a relation is applied however many other relations a statement reads: the cache of
# relations has a limit, and does not remove what a statement has just looked up.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

# more than the cache has room for
my $most = 4_150;

my $node = new_node('main', conf => q(
steno.log = 'none'
steno.mandatory = 'connect, setting, role'
max_locks_per_transaction = 512
));

$node->safe_psql('postgres', qq(
CREATE TABLE secret (a int);
CREATE TABLE plain (a int);
DO \$\$
BEGIN
	FOR i IN 1 .. $most LOOP
		EXECUTE format('CREATE VIEW v%s AS SELECT 1 AS one', i);
		IF i % 1000 = 0 THEN COMMIT; END IF;
	END LOOP;
END \$\$;
));
append_to_file($node->data_dir . '/pg_steno_rules.conf', "# type database user address application class object action\n"
	  . "record all all all all read public.secret\n");
$node->restart;

my $c = Steno::Client->new($node, application_name => 'many');
my $others = join ', ', map { "(SELECT one FROM v$_)" } 1 .. $most;

foreach my $table ('secret', 'plain')
{
	my $r = $c->query("SELECT array_length(ARRAY[(SELECT a FROM $table), $others], 1)");

	is_deeply([ $r->{sqlstate}, $r->{rows}[0][0] ], [ undef, $most + 1 ], "so many relations in one statement, with $table");
}
$c->quit;
is_deeply([ map { substr $_->{text} // '', 0, 50 } records($node, application => 'many', kind => 'statement') ],
	[ substr "SELECT array_length(ARRAY[(SELECT a FROM secret), $others", 0, 50 ],
	'the one that reads the relation of the rule is recorded, the other is not');

done_testing();
