
# steno.log_statement, log_relation, log_rows, log_parameter, log_parameter_max_size: what a record has
# in addition to who, when, class and outcome.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $runs = 0;

$node->safe_psql(
	'postgres', q{
CREATE ROLE auditor;
CREATE TABLE plain (a int);
CREATE TABLE audited (a int);
INSERT INTO plain VALUES (1), (2);
GRANT SELECT ON audited TO auditor;
});

my $query = 'SELECT p.a FROM plain p LEFT JOIN audited USING (a) WHERE $1::text IS NOT NULL';

# The query's and a failing utility statement's records in a new session with these
# settings: text, names of relations, rows, parameters, SQLSTATE.
sub run
{
	my (%settings) = @_;
	my $name = 'run ' . ++$runs;
	my $c = Steno::Client->new(
		$node,
		application_name => $name,
		options => join ' ', map { "-c steno.$_=$settings{$_}" } sort keys %settings);

	$c->extended($query, 'x' x 20);
	$c->query('DROP TABLE missing');
	$c->quit;
	return [
		map {
			my $r = $_;

			[
				$r->{text}, join(',', sort map { $_->{name} } @{ $r->{relations} // [] }),
				@{$r}{qw(rows params sqlstate)}
			]
		} sort { $a->{seq} <=> $b->{seq} } statements($node, application => $name)
	];
}

my $both = 'public.audited,public.plain';
my $value = [ 'x' x 20 ];
my $failed = [ 'DROP TABLE missing', 'missing', undef, undef, '42P01' ];

is_deeply(run(), [ [ $query, $both, 2, $value, undef ], $failed ], 'all of it by default');
is_deeply(
	run(log_statement => 'off'),
	[ [ undef, $both, 2, $value, undef ], [ undef, 'missing', undef, undef, '42P01' ] ],
	'steno.log_statement = off: no texts, also of failures');
is_deeply(
	run(log_relation => 'off'),
	[ [ $query, '', 2, $value, undef ], [ 'DROP TABLE missing', '', undef, undef, '42P01' ] ],
	'steno.log_relation = off: no relations');
is_deeply(
	run(log_relation => 'off', role => 'auditor'),
	[ [ $query, 'public.audited', 2, $value, undef ], [ 'DROP TABLE missing', '', undef, undef, '42P01' ] ],
	'but those that are audited');
is_deeply(run(log_rows => 'off'), [ [ $query, $both, undef, $value, undef ], $failed ], 'steno.log_rows = off: no rows');
is_deeply(run(log_parameter => 'off'), [ [ $query, $both, 2, undef, undef ], $failed ], 'steno.log_parameter = off: no values');
is_deeply(
	run(log_parameter_max_size => 20),
	[ [ $query, $both, 2, $value, undef ], $failed ],
	'steno.log_parameter_max_size: a value of that size');
is_deeply(
	run(log_parameter_max_size => 19),
	[ [ $query, $both, 2, ['<not recorded>'], undef ], $failed ],
	'one that is longer');

# An answer says that it was not recorded.
{
	my (undef, undef, $object) = steno_result('cat', '--object', 'public.audited', trail($node));
	my (undef, undef, $text) = steno_result('cat', '--grep', 'audited', trail($node));
	my %of_object = map { $_ => 1 } $object =~ /: (steno\.\w+) = /g;
	my %of_text = map { $_ => 1 } $text =~ /: (steno\.\w+) = /g;

	is(join(' ', sort keys %of_object), 'steno.log_relation', 'with --object') or diag $object;
	is(join(' ', sort keys %of_text), 'steno.log_parameter steno.log_parameter_max_size steno.log_statement', 'with --grep') or diag $text;
}
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
