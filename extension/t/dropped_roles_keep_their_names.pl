
# A role that is dropped while it has a session: the records of that session keep its name, also those of failures that no
# hook sees, so the role's statements are found, and proved.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Seals;
use Test::More;

my ($key) = keygen(PostgreSQL::Test::Utils::tempdir() . '/key');
my $proof = PostgreSQL::Test::Utils::tempdir() . '/proof';
my $node = new_node('main', conf => "steno.signing_key_file = '$key'\n");
my $superuser = getpwuid($>);
my $number = 0;
my $now = q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')};
my %expected;
my $begin;

$begin = value($node, $now);
value($node, q{CREATE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELEC inside'; END $$});
value($node, q{CREATE FUNCTION catches() RETURNS void LANGUAGE plpgsql AS
	$$ BEGIN BEGIN EXECUTE 'SELEC inside'; EXCEPTION WHEN syntax_error THEN NULL; END; EXECUTE 'SELECT 1/0'; END $$});

sub role
{
	my $name = 'fired' . ++$number;

	value($node, "CREATE ROLE $name LOGIN");
	return $name;
}

sub session
{
	my ($role) = @_;

	return Steno::Client->new($node, user => $role, application_name => "of $role");
}

# A statement of a session, whose record must name this user and role.
sub runs
{
	my ($c, $sql, $user, $role) = @_;
	my $text = "$sql /* " . (1 + keys %expected) . ' */';

	$expected{$text} = $user . (defined $role ? " $role" : '');
	return $c->query($text);
}

# Every way in which a session's statement is recorded, as the first one after the drop.
my %first = (
	ok => sub { runs($_[0], 'SELECT 1', $_[1]) },
	syntax => sub { runs($_[0], 'SELEC', $_[1]) },
	name => sub { runs($_[0], 'SELECT nosuch', $_[1]) },
	executor => sub { runs($_[0], 'SELECT 1/0 FROM pg_class', $_[1]) },
	utility => sub { runs($_[0], 'DROP TABLE nosuch', $_[1]) },
	aborted => sub { $_[0]->query('BEGIN; SELECT 1/0'); runs($_[0], 'SELECT 1', $_[1]) },
	fast_path => sub { $_[0]->call(0) },
	nested => sub { runs($_[0], 'SELECT fails()', $_[1]) },
	caught => sub { runs($_[0], 'SELECT catches()', $_[1]) },
	prepared => sub { $_[0]->bind_values('', 'nosuch')->sync->finish },
	nothing => sub { });

# as the session's own user, in one transaction with the drops of others, more than are remembered
foreach my $many (0, 1)
{
	my @roles = map { role() } sort keys %first;
	my @sessions = map { session($_) } @roles;

	if ($many)
	{
		value($node, q{DO $$ BEGIN FOR i IN 1 .. 100 LOOP EXECUTE format('CREATE ROLE many%s', i); END LOOP; END $$});
		value($node, 'BEGIN; ' . join('', map { "DROP ROLE $_; " } @roles) . join('', map { "DROP ROLE many$_; " } 1 .. 100) . 'COMMIT');
	}
	else
	{
		value($node, "DROP ROLE $_") foreach @roles;
	}
	foreach my $kind (sort keys %first)
	{
		my $role = shift @roles;
		my $c = shift @sessions;

		$first{$kind}->($c, $role);
		runs($c, 'SELEC', $role);
		runs($c, 'SELECT 2', $role);
		runs($c, 'SELEC', $role);
		$c->quit;
		my @all = records($node, application => "of $role");
		my %users = map { ($_->{user} // '-') . (defined $_->{role} ? " $_->{role}" : '') => 1 } @all;

		is(join(', ', sort keys %users), $role, "$kind: all records name the role");
		is(scalar(grep { $_->{kind} eq 'disconnect' } @all), 1, 'also the one of the end');
	}
}

# a role that the session has set, and the user of SET SESSION AUTHORIZATION
{
	my ($set, $user) = (role(), role());
	my $c = session($superuser);

	$c->query("SET ROLE $set");
	value($node, "DROP ROLE $set");
	runs($c, 'SELEC', $superuser, $set);
	runs($c, 'SELECT fails()', $superuser, $set);
	runs($c, 'SELECT 1', $superuser, $set);
	$c->query('RESET ROLE');
	$c->query("SET SESSION AUTHORIZATION $user");
	value($node, "DROP ROLE $user");
	runs($c, 'SELEC', $user);
	runs($c, 'SELECT 1', $user);
	runs($c, 'SELEC', $user);
	$c->query('RESET SESSION AUTHORIZATION');
	runs($c, 'SELEC', $superuser);
	$c->quit;
}

# one that was set where no hook has seen it
{
	my $set = role();
	my $c = session($superuser);

	$c->query('SELECT 1') for 1 .. 2;
	$c->query("DO \$\$ DECLARE x text; BEGIN x := set_config('role', '$set', false); END \$\$");
	value($node, "DROP ROLE $set");
	runs($c, 'SELEC', $superuser, $set);
	$c->quit;
}

# the owner of a function, while that runs
{
	my $owner = role();
	my $c = session($superuser);
	my $lock = Steno::Client->new($node, application_name => 'lock');

	value($node, q{CREATE FUNCTION waits() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
		$$ BEGIN PERFORM pg_advisory_lock(1); PERFORM pg_advisory_unlock(1); EXECUTE 'SELEC of the owner'; END $$});
	value($node, "ALTER FUNCTION waits() OWNER TO $owner");
	$lock->query('SELECT pg_advisory_lock(1)');
	$c->put('Q', "SELECT waits()\0")->send_all;
	wait_until 'the function waits', sub { value($node, 'SELECT count(*) FROM pg_locks WHERE NOT granted') eq '1' };
	value($node, "ALTER FUNCTION waits() OWNER TO CURRENT_USER; DROP ROLE $owner");
	$lock->query('SELECT pg_advisory_unlock(1)');
	$c->finish;
	is(the_record($node, 'of the function', text => 'SELEC of the owner', outcome => 'error')->{role}, $owner, 'the owner of a function that is running');
	$_->quit foreach $c, $lock;
}

# what a parallel worker runs, and what is shown of a statement that runs
{
	my $role = role();
	my $c = session($role);
	my $lock = Steno::Client->new($node, application_name => 'lock');

	value($node, q{CREATE TABLE IF NOT EXISTS wide AS SELECT i FROM generate_series(1, 1000) i;
CREATE FUNCTION in_worker(i int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
	$$ DECLARE n int; BEGIN IF i = 1 THEN SELECT /* in a worker */ count(*) INTO n FROM wide WHERE wide.i = in_worker.i; END IF; RETURN n; END $$});
	value($node, "GRANT SELECT ON wide TO PUBLIC");
	$c->query("SET @{[ forced_parallel($node) ]} = on");
	value($node, "DROP ROLE $role");
	ok(!$c->query('SELECT sum(in_worker(i)) FROM wide')->{sqlstate}, 'a parallel query runs');
	my @nested = statements($node, text => qr{/\* in a worker});

	is($nested[0]{user}, $role, 'the nested statement of a parallel worker');
	isnt($nested[0]{leader}, undef, 'which is one') if @nested;
	$lock->query('SELECT pg_advisory_lock(1)');
	$c->put('Q', "SELECT pg_advisory_lock(1)\0")->send_all;
	wait_until 'it waits', sub { value($node, "SELECT count(*) FROM steno.in_flight WHERE pid = $c->{pid}") eq '1' };
	is(value($node, "SELECT usename FROM steno.in_flight WHERE pid = $c->{pid}"), $role, 'a statement that runs');
	$lock->query('SELECT pg_advisory_unlock(1)');
	$c->finish;
	$_->quit foreach $c, $lock;
}

# somebody else gets the name: then it would be theirs
{
	my $role = role();
	my $oid = value($node, "SELECT oid FROM pg_roles WHERE rolname = '$role'");
	my ($failing, $other) = map { session($role) } 1 .. 2;

	value($node, "DROP ROLE $role");
	runs($failing, 'SELEC', $role);
	value($node, "CREATE ROLE $role LOGIN");
	runs($failing, 'SELEC', "pg_unknown (OID=$oid)");
	runs($other, 'SELECT 1', "pg_unknown (OID=$oid)");
	$_->quit foreach $failing, $other;
	$role = role();
	$oid = value($node, "SELECT oid FROM pg_roles WHERE rolname = '$role'");
	$failing = session($role);
	value($node, "DROP ROLE $role; CREATE ROLE another_one; ALTER ROLE another_one RENAME TO $role");
	runs($failing, 'SELEC', "pg_unknown (OID=$oid)");
	$failing->quit;
	$role = role();
	$failing = session($role);
	value($node, "DROP ROLE $role; BEGIN; CREATE ROLE $role LOGIN; ROLLBACK");
	runs($failing, 'SELECT 1', $role);
	runs($failing, 'SELEC', $role);
	$failing->quit;
}

# rules of a user hold for as long as the name does
{
	my $role = role();
	my $c;

	append_to_file($node->data_dir . '/pg_steno_rules.conf', "skip $role all all all read all\n");
	$node->reload;
	wait_until 'the rule holds', sub {
		my $text = 'SELECT ' . ++$number;

		$c->quit if $c;
		$c = session($role);
		$c->query($text);
		return !statements($node, text => $text);
	};
	value($node, "DROP ROLE $role");
	$c->query('SELECT 3 -- skipped');
	runs($c, 'DROP TABLE nosuch', $role);
	is(scalar(statements($node, text => qr/skipped/)), 0, 'a rule for the user holds');
	$c->quit;
}

my %found = map { $_->{text} => $_ } statements($node, application => qr/^of /, text => qr/\d \*\/$/);
is(join(' ', map { $_ // () } @{ $found{$_} }{qw(user role)}), $expected{$_}, $_) foreach sort keys %expected;

# As an auditor asks.
{
	my ($role) = map { $expected{$_} } grep { /^DROP TABLE nosuch/ } sort keys %expected;
	my $end = value($node, $now);

	$node->stop;

	my ($code, $out, $err) = steno_result('cat', '--failed', '--user', $role, '--format', 'json', trail($node));
	like($out, qr/DROP TABLE nosuch/, 'steno cat finds them by the user');
	($code, $out, $err) = steno_result('prove', '--since', $begin, '--until', $end, '--user', $role, '--failed', '--out', $proof, '--key', "$key.pub", trail($node));
	is($code, 0, 'a proof is made') or diag $err;
	($code, $out, $err) = steno_result('prove', '--check', $proof, '--key', "$key.pub", '--format', 'json');
	is(JSON::PP->new->decode($out)->{matches}, 3, 'and steno prove has them') or diag $out;
}
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
