
# steno.log chooses the classes that are recorded; classes of steno.mandatory are always recorded.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno;
use Test::More;

# steno.log: what is recorded of each class, and nothing else; for the server, a
# database, a role, a session.
{
	my $node = new_node('log_chooses_classes', conf => "steno.mandatory = 'setting'\n");
	my $runs = 0;

	$node->safe_psql('postgres', 'CREATE TABLE t (a int); CREATE ROLE r');

	# One statement of each class.
	my %of_class = (
		read => 'SELECT a FROM t',
		write => 'INSERT INTO t VALUES (1)',
		function => 'DO $$ BEGIN END $$',
		role => 'ALTER ROLE r NOLOGIN',
		ddl => q{COMMENT ON TABLE t IS 'x'},
		misc => 'DISCARD PLANS',
		misc_set => 'SET work_mem = 64',
		error => 'SELEC',
		transaction => 'ROLLBACK');

	# Those that write have a transaction to be recorded.
	my %writes = map { $_ => 1 } qw(write role ddl);

	# What is recorded of them when these classes are.
	sub expected
	{
		my %in = map { $_ => 1 } @_;

		return map {
			(
				$in{$_} ? $of_class{$_} : (),
				$in{transaction} && $writes{$_} ? 'transaction' : ())
		} sort keys %of_class;
	}

	# The kinds and texts of a new session that runs them all.
	sub run
	{
		my (%facts) = @_;
		my $name = 'run ' . ++$runs;
		my $c = Steno::Client->new($node, application_name => $name, %facts);

		$c->query($of_class{$_}) foreach sort keys %of_class;
		$c->quit;
		wait_until 'it has gone',
		  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$name'") eq '0' };
		return map { $_->{text} // $_->{kind} }
		  sort { $a->{seq} <=> $b->{seq} }
		  records($node, application => $name);
	}

	is_deeply(
		[ run() ],
		[ 'connect', expected(keys %of_class), 'disconnect' ],
		'all');

	# A role for each list, so that a session is of that list from its beginning.
	foreach my $case (
		[ 'none' ],
		(map { [$_] } sort keys %of_class),
		[ 'connect' ],
		[ 'read, write' ],
		[ 'ddl, role, connect' ])
	{
		my $list = $case->[0];
		my %in = map { $_ => 1 } split /, /, $list;
		my $role = 'logs_' . ($list =~ s/, /_/gr);
		my @expected = expected(keys %in);
		my @seen;

		value($node, "CREATE ROLE $role SUPERUSER LOGIN");
		value($node, "ALTER ROLE $role SET steno.log = '$list'");
		@seen = grep { $_ ne 'setting' } run(user => $role);

		# The connection is recorded as the server's own setting says: before it is
		# authenticated, the session has no role.
		shift @seen if @seen && $seen[0] eq 'connect';
		push @expected, 'disconnect' if $in{connect};
		is_deeply(\@seen, \@expected, "steno.log = '$list' for a role");
	}

	# Statements that do what another class is about: a query that is part of them, a part of CREATE SCHEMA.
	{
		my $c = Steno::Client->new($node, application_name => 'also');

		$c->query($_)
		  foreach q{SET steno.log = 'role'}, 'CREATE SCHEMA s1 CREATE TABLE t (a int)', 'CREATE SCHEMA s2 CREATE TABLE t (a int) GRANT SELECT ON t TO r',
		  q{SET steno.log = 'read'}, 'CREATE TABLE copied AS SELECT a FROM t', 'CREATE TABLE other (a int)',
		  q{SET steno.log = 'write'}, 'COPY (DELETE FROM t RETURNING a) TO STDOUT', 'COPY t TO STDOUT';
		$c->quit;
		is_deeply(
			[ map { $_->{text} } grep { !$_->{depth} } sort { $a->{seq} <=> $b->{seq} } statements($node, application => 'also', text => qr/^C/) ],
			[
				'CREATE SCHEMA s2 CREATE TABLE t (a int) GRANT SELECT ON t TO r', 'CREATE TABLE copied AS SELECT a FROM t',
				'COPY (DELETE FROM t RETURNING a) TO STDOUT'
			],
			'statements that are about another class, too');
		my ($grant) = grep { $_->{depth} } statements($node, application => 'also', text => qr/^C/);
		is_deeply(
			[ @$grant{qw(class command statement)}, $grant->{objects} ],
			[ 'role', 'GRANT', 3, [ { name => 's2.t', type => 'table', action => 'alter' } ] ],
			'GRANT in CREATE SCHEMA has a record of its own');
	}

	# For a database.
	value($node, 'CREATE DATABASE quiet');
	value($node, q{ALTER DATABASE quiet SET steno.log = 'none'});
	is_deeply(
		[ grep { $_ ne 'setting' && $_ ne 'connect' } run(database => 'quiet') ],
		[], 'none for a database');

	# For the server: not even connections; its own start and stop all the same.
	$node->append_conf('postgresql.conf', q{steno.log = 'none'});
	$node->restart;
	is_deeply([ run() ], [], 'none for the server');
	is(Steno::Client->new($node, user => 'nobody_at_all')->{greeting}{sqlstate},
		'28000', 'a client is refused');
	is(scalar(records($node, kind => 'auth_failed')), 0, 'which is not recorded');
	$node->safe_psql('postgres', q{SELECT steno.note('all the same')},
		connstr => $node->connstr('postgres') . ' application_name=noting');
	is(scalar(records($node, kind => 'note', text => 'all the same')),
		1, 'a note is recorded all the same');
	{
		my $c = Steno::Client->new($node, application_name => 'switched on');

		$c->query('SELECT 1');
		$c->query(q{SET steno.log = 'all'});
		$c->query('SELECT 2');
		$c->quit;
		is_deeply(
			[
				map { $_->{text} // $_->{extra}{new} // $_->{kind} }
				  sort { $a->{seq} <=> $b->{seq} } records($node, application => 'switched on')
			],
			[ 'all', 'SELECT 2', 'disconnect' ],
			'a session that is switched on');
	}
	{
		my $postmaster = $node->{_pid};
		my $c = Steno::Client->new($node, application_name => 'killed');

		$c->query('SELECT 1');
		$node->stop('immediate');
		$node->start;
		is_deeply([ records($node, application => 'killed') ], [], 'an immediate stop adds nothing');
	}
	$node->stop;
	is_deeply(
		[ map { $_->{extra}{event} } grep { $_->{extra}{event} !~ /recover|torn/ } records($node, kind => 'server') ],
		[qw(start stop start start stop)],
		'start and stop of the server');
	verify_ok($node, 'the trail is whole');
	gapless($node, 'no session has gaps');
}

# steno.mandatory: what is recorded whoever runs it, whatever steno.log says, and
# that the record tells why it is there.
{
	my $node = new_node('mandatory_classes_are_recorded', conf => q{steno.mandatory = 'ddl, misc'});

	# What a superuser's session that sets steno.log so leaves in the trail: texts, and
	# why each was recorded.
	sub run_as_superuser
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
		run_as_superuser('t_none', 'none'),
		[
			[ 'CREATE TABLE t_none (a int)', 'mandatory' ],
			[ 'DISCARD PLANS', 'mandatory' ],
			[ 'DROP TABLE t_none', 'mandatory' ]
		],
		'with steno.log = none');
	is_deeply(
		run_as_superuser('t_some', 'ddl, read'),
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
}

done_testing();
