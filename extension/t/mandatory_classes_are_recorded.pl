
# steno.mandatory: what is recorded whoever runs it, whatever steno.log says, and
# that the record tells why it is there.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
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

# Inside a DO block, too, with all that a superuser can set.
{
	my $c = Steno::Client->new($node, application_name => 'nested');

	$c->query($_)
	  foreach q{SET steno.log = 'none'}, 'SET steno.log_nested = off', 'SET steno.log_extension_scripts = off',
	  q{DO $$ BEGIN PERFORM 1; CREATE TABLE within (a int); CREATE ROLE within; END $$},
	  q{DO $$ BEGIN EXECUTE 'DROP TABLE within'; EXECUTE 'DROP TABLE within'; END $$},
	  q{SET steno.log = 'function, role'}, q{DO $$ BEGIN CREATE TABLE once_more (a int); DROP ROLE within; END $$};
	$c->quit;
	is_deeply(
		[
			map { [ $_->{text}, $_->{depth} // 0, $_->{outcome}, join(',', map { "$_->{action} $_->{name}" } @{ $_->{objects} // [] }) ] }
			  grep { $_->{text} !~ /^SET/ } sort { $a->{seq} <=> $b->{seq} } statements($node, application => 'nested')
		],
		[
			[ 'CREATE TABLE within (a int)', 1, 'ok', 'create public.within' ],
			[ 'DROP TABLE within', 1, 'ok', 'drop public.within' ],
			[ 'DROP TABLE within', 1, 'error', '' ],
			[ 'CREATE TABLE once_more (a int)', 1, 'ok', 'create public.once_more' ],
			[ 'DO $$ BEGIN CREATE TABLE once_more (a int); DROP ROLE within; END $$', 0, 'ok', 'drop within' ]
		],
		'steno.log_nested = off does not leave out what is mandatory');
}
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
