
# Failures that no hook sees, of roles that the session has not used before, have the role's name: a number would be
# that of nobody, or the name of somebody else.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "max_worker_processes = 20\n");
my $superuser = getpwuid($>);
my $sessions = 0;
my $module = $node->data_dir . '/background.so';
my $headers = `pg_config --includedir-server`;

chomp $headers;
system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', "-I$headers", '-o', $module, dirname(__FILE__) . '/background.c');

value($node, qq{
CREATE ROLE carol LOGIN; CREATE ROLE bob; CREATE ROLE erin LOGIN; CREATE ROLE frank; CREATE ROLE grace; CREATE ROLE dave LOGIN; CREATE ROLE heidi;
CREATE ROLE ivan; CREATE ROLE judy; CREATE ROLE table_owner;
GRANT bob TO dave;
ALTER ROLE dave SET role = 'bob';
CREATE FUNCTION run_in_background(text, text, bool) RETURNS void LANGUAGE c AS '$module';
CREATE FUNCTION become(text) RETURNS void LANGUAGE c AS '$module';
CREATE FUNCTION by_definer() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
\$\$ BEGIN EXECUTE 'SELECT * FROM nosuch_by_definer'; END \$\$;
CREATE FUNCTION caught_by_definer() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
\$\$ BEGIN EXECUTE 'SELEC caught_by_definer'; EXCEPTION WHEN syntax_error THEN NULL; END \$\$;
CREATE FUNCTION with_setting() RETURNS void LANGUAGE plpgsql SET role = frank AS
\$\$ BEGIN EXECUTE 'SELEC with_setting'; END \$\$;
ALTER FUNCTION by_definer() OWNER TO carol;
ALTER FUNCTION caught_by_definer() OWNER TO erin;
CREATE FUNCTION of_index(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
\$\$ BEGIN IF i > 0 THEN EXECUTE 'SELEC of_index'; END IF; RETURN i; END \$\$;
CREATE TABLE owned (i int);
INSERT INTO owned VALUES (1);
ALTER TABLE owned OWNER TO table_owner;
});

# Roles whose names are the numbers of these.
value($node, q{
DO $$ DECLARE r record; BEGIN
FOR r IN SELECT oid FROM pg_roles WHERE oid >= 16384 LOOP EXECUTE format('CREATE ROLE %I', r.oid); END LOOP; END $$});

my $name;

sub session
{
	my (%facts) = @_;

	$name = 'failing ' . ++$sessions;
	return Steno::Client->new($node, application_name => $name, %facts);
}

# Who failed with what is in the text; a session runs this.
sub failed
{
	my ($text, @queries) = @_;
	my $c = session();

	$c->query($_) foreach @queries;
	$c->quit;
	return who(text => qr/^(SELEC |SELECT \* FROM )?$text/);
}

sub who
{
	my (%filter) = @_;
	my ($r) = statements($node, outcome => 'error', application => $name, %filter);

	return $r ? join ' ', map { $_ // '-' } @$r{qw(user role)} : 'no record';
}

is(failed('nosuch_by_definer$', 'SELECT by_definer()'), "$superuser carol", 'inside a function that runs as its owner');
is(failed('caught_by_definer$', 'SELECT caught_by_definer()'), "$superuser erin", 'caught there');
is(failed('nosuch_by_definer$', 'DO $$ BEGIN PERFORM by_definer(); EXCEPTION WHEN OTHERS THEN NULL; END $$'),
	"$superuser carol", 'caught outside');
is( failed('nosuch_by_definer$', 'DO $$ DECLARE x text; BEGIN x := by_definer(); EXCEPTION WHEN OTHERS THEN NULL; END $$'),
	"$superuser carol", 'called in an expression, and caught outside');
is(failed('with_setting$', 'SELECT with_setting()'), "$superuser frank", 'inside a function that sets a role');
is(failed('SELEC 1', q{SELECT set_config('role', 'grace', false)}, 'SELEC 1'), "$superuser grace", 'after set_config()');
is(failed('SELEC 2', q{DO $$ BEGIN PERFORM set_config('role', 'grace', false); END $$}, 'SELEC 2'), "$superuser grace", 'after DO');
is( failed('SELEC 3', q{DO $$ DECLARE x text; BEGIN x := set_config('role', 'heidi', false); EXECUTE 'SELEC 3'; END $$}),
	"$superuser heidi", 'after set_config() in an expression');
is(failed('SELEC 4', 'BEGIN', q{SELECT become('ivan')}, 'SELEC 4'), "$superuser ivan", 'after a function of an extension, in its transaction');
is(failed('SELEC 5', q{SELECT become('judy')}, 'SELEC 5'), "$superuser judy", 'and after it');
is(failed('SELEC 6', q{DO $$ BEGIN PERFORM become('judy'); EXECUTE 'SELEC 6'; END $$}), "$superuser judy", 'inside DO');
is(failed('SELEC 8', 'SET SESSION AUTHORIZATION dave', 'SELEC 8'), 'dave -', 'SET SESSION AUTHORIZATION');
is(failed('SELEC of_index', 'CREATE INDEX ON owned (of_index(i))'), "$superuser table_owner", 'of an index');

# ALTER ROLE ... SET role
{
	my $c = session(user => 'dave');

	$c->query('SELEC 9');
	is(who(text => 'SELEC 9'), 'dave bob', 'the first statement of a session whose role is set by ALTER ROLE');
	$c->quit;
}

# Background workers: their first statement fails in the parser.
foreach my $case ([ 'dave', 'SELEC 10', 1 ], [ 'carol', 'SELEC 11', 0 ], [ 'erin', q{DO $$ BEGIN EXECUTE 'SELEC 12'; END $$}, 0 ])
{
	my ($role, $sql, $is_message) = @$case;
	my ($number) = $sql =~ /SELEC (\d+)/;
	my @r;

	value($node, "SELECT run_in_background('$role', \$sql\$$sql\$sql\$, @{[ $is_message ? 'true' : 'false' ]})");
	@r = statements($node, application => undef, text => "SELEC $number");
	is(scalar @r, 1, "a worker's failure: one record");
	is(join(' ', map { $_ // '-' } @{ $r[0] }{qw(user database role)}),
		$role eq 'dave' ? 'dave postgres bob' : "$role postgres -", 'its user, database and role');
}

# Nobody is found by a number.
{
	my ($code, $out) = steno_result('cat', '--failed', '--format', 'json', '--role', '1*', trail($node));

	is($out, '', 'no failure is that of a role that is named like a number');
	($code, $out) = steno_result('cat', '--failed', '--format', 'json', '--role', 'carol', trail($node));
	is(scalar(() = $out =~ /"text":"[^"]*nosuch_by_definer"/g), 3, 'and those of a role are found by its name');
}

# A name that cannot be known stands for nobody, whatever roles are named: the setting has another one.
{
	my $oid = value($node, q{SELECT oid FROM pg_roles WHERE rolname = 'judy'});

	is( failed('SELEC 7', 'SET ROLE bob', q{DO $$ DECLARE x text; BEGIN x := become('judy'); EXECUTE 'SELEC 7'; END $$}),
		"$superuser pg_unknown (OID=$oid)", 'a role that no hook has seen');
	is(Steno::Client->new($node)->query("CREATE ROLE \"pg_unknown (OID=$oid)\"")->{sqlstate}, '42939', 'no role can have that name');
}

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
