
# steno.mandatory: what is recorded whoever runs it, whatever steno.log says, and
# that the record tells why it is there.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', conf => q{steno.mandatory = 'ddl, misc'});

# What a superuser's session that sets steno.log so leaves in the trail: texts, and
# why each was recorded.
sub run
{
	my ($name, $list) = @_;

	$node->safe_psql(
		'postgres',
		"SET steno.log = '$list';\n"
		  . "CREATE TABLE $name (a int);\nSELECT 1;\nDISCARD PLANS;\nDROP TABLE $name;\n",
		connstr => $node->connstr('postgres') . " application_name=$name");
	return [
		map { [ $_->{text}, join ',', @{ $_->{audited} // [] } ] }
		  grep { $_->{text} !~ /^SET/ } statements($node, application => $name)
	];
}

is_deeply(
	run('t_none', 'none'),
	[
		[ 'CREATE TABLE t_none (a int)', 'mandatory' ],
		[ 'DISCARD PLANS', 'mandatory' ],
		[ 'DROP TABLE t_none', 'mandatory' ]
	],
	'with steno.log = none');
is_deeply(
	run('t_some', 'ddl, read'),
	[
		[ 'CREATE TABLE t_some (a int)', '' ],
		[ 'SELECT 1', '' ],
		[ 'DISCARD PLANS', 'mandatory' ],
		[ 'DROP TABLE t_some', '' ]
	],
	'with some classes');
isnt($node->psql('postgres', q{SET steno.mandatory = 'none'}), 0, 'it cannot be changed in a session');
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
