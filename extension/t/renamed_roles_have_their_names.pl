
# Sessions of a role that is renamed have its new name in their records from then on, also in failures that no hook
# sees: its old name may be another one's.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "max_prepared_transactions = 2\n");
my $number = 0;
my %expected;

sub role
{
	my $name = 'person' . ++$number;

	value($node, "CREATE ROLE $name LOGIN");
	return $name;
}

sub session
{
	my ($role) = @_;

	return Steno::Client->new($node, user => $role, application_name => "of $role");
}

# A statement of a session, whose record must name this user.
sub runs
{
	my ($c, $sql, $user) = @_;
	my $text = "$sql /* " . (1 + keys %expected) . ' */';

	$expected{$text} = $user;
	return $c->query($text);
}

# Another role gets the old name.
sub rename_role
{
	my ($from, $to) = @_;

	value($node, "ALTER ROLE $from RENAME TO $to");
	value($node, "CREATE ROLE $from LOGIN");
	return;
}

# the first statement after it succeeds, or fails in the parser, or in a block
{
	my $role = role();
	my ($good, $bad, $block, $aborted) = map { session($role) } 1 .. 4;

	runs($_, 'SELECT session_user', $role) foreach $good, $bad;
	$_->query('BEGIN') foreach $block, $aborted;
	$aborted->query('SELECT 1/0');
	rename_role($role, "${role}_new");
	runs($good, 'SELECT session_user', "${role}_new");
	runs($_, 'SELEC', "${role}_new") foreach $bad, $block, $aborted;
	runs($bad, 'SELECT session_user', "${role}_new");
	rename_role("${role}_new", "${role}_newer");
	value($node, "ALTER ROLE ${role}_newer VALID UNTIL 'infinity'");
	runs($_, 'SELEC', "${role}_newer") foreach $good, $bad;
	is($good->query('SELECT session_user')->{rows}[0][0], "${role}_newer", 'the server says so, too');
	$_->quit foreach $good, $bad, $block, $aborted;
}

# a prepared statement that runs again and again
{
	my $role = role();
	my $c = session($role);

	$c->parse('p', 'SELECT session_user /* prepared */')->sync->finish;
	$c->bind_values('', 'p')->execute('')->sync->finish for 1 .. 9;
	rename_role($role, "${role}_new");
	$c->bind_values('', 'p')->execute('')->sync->finish for 1 .. 9;
	$c->quit;
	is_deeply(
		[ map { $_->{user} } sort { $a->{seq} <=> $b->{seq} } statements($node, text => 'SELECT session_user /* prepared */', pid => $c->{pid}) ],
		[ ($role) x 9, ("${role}_new") x 9 ],
		'executions before and after');
}

# a current role
{
	my ($role, $other) = (role(), role());
	my $c = Steno::Client->new($node, application_name => 'superuser');

	$c->query("SET ROLE $other");
	rename_role($other, "${other}_new");
	$c->query('SELEC current role');
	$c->query('SELECT current role');
	$c->quit;
	is_deeply([ map { $_->{role} } statements($node, application => 'superuser', outcome => 'error') ],
		[ "${other}_new", "${other}_new" ], 'a current role');
}

# a role that was set where no hook has seen it, and one that others have pushed out of what is remembered
{
	my ($set, $owner) = (role(), role());
	my @others = map { role() } 1 .. 10;
	my $c = Steno::Client->new($node, application_name => 'unseen');

	value($node, "CREATE FUNCTION of_$_() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS \$\$ BEGIN EXECUTE 'SELEC of function'; END \$\$; ALTER FUNCTION of_$_() OWNER TO $_")
	  foreach $owner, @others;
	$c->query('SELECT 1') for 1 .. 2;
	$c->query("DO \$\$ DECLARE x text; BEGIN x := set_config('role', '$set', false); END \$\$");
	rename_role($set, "${set}_new");
	$c->query('SELEC set');
	$c->query('RESET ROLE');
	$c->query("SELECT of_$owner()");
	$c->query("SET ROLE $_"), $c->query('RESET ROLE') foreach @others;
	rename_role($owner, "${owner}_new");
	$c->query("SELECT of_$owner()");
	$c->quit;
	is_deeply([ map { "$_->{text}: $_->{role}" } grep { $_->{text} =~ /^SELEC / } sort { $a->{seq} <=> $b->{seq} } statements($node, application => 'unseen', outcome => 'error') ],
		[ "SELEC set: ${set}_new", "SELEC of function: $owner", "SELEC of function: ${owner}_new" ], 'roles that no hook has seen');
}

# a rename that is rolled back, also after it was prepared
{
	my $role = role();
	my $c = session($role);

	runs($c, 'SELECT session_user', $role);
	value($node, "BEGIN; ALTER ROLE $role RENAME TO ${role}_new; ROLLBACK");
	runs($c, 'SELEC', $role);
	runs($c, 'SELECT session_user', $role);
	value($node, "BEGIN; ALTER ROLE $role RENAME TO ${role}_new; PREPARE TRANSACTION 'p'");
	value($node, q{ROLLBACK PREPARED 'p'});
	runs($c, 'SELECT session_user', $role);
	value($node, "BEGIN; ALTER ROLE $role RENAME TO ${role}_new; PREPARE TRANSACTION 'p'");
	value($node, q{COMMIT PREPARED 'p'});
	# what a prepared transaction did is known by its number alone
	runs($c, 'SELEC', 'pg_unknown (OID=' . value($node, "SELECT oid FROM pg_roles WHERE rolname = '${role}_new'") . ')');
	runs($c, 'SELECT session_user', "${role}_new");
	runs($c, 'SELEC', "${role}_new");
	$c->quit;
}

# many others are renamed: more than are remembered
{
	my $role = role();
	my $c = session($role);
	my $idle = session($role);

	runs($_, 'SELECT session_user', $role) foreach $c, $idle;
	value($node, q{DO $$ BEGIN FOR i IN 1 .. 40 LOOP EXECUTE format('CREATE ROLE many%s', i); END LOOP; END $$});
	value($node, q{DO $$ BEGIN FOR i IN 1 .. 40 LOOP EXECUTE format('ALTER ROLE many%s RENAME TO more%s', i, i); END LOOP; END $$});
	value($node, "ALTER ROLE more$_ RENAME TO most$_") foreach 1 .. 30;
	runs($_, 'SELEC', $role) foreach $c, $idle;
	rename_role($role, "${role}_new");
	runs($_, 'SELEC', "${role}_new") foreach $c, $idle;
	$_->quit foreach $c, $idle;
}

# a role that is dropped while it has a session keeps its name until somebody else has it
{
	my $role = role();
	my ($good, $bad) = map { session($role) } 1 .. 2;
	my $oid = value($node, "SELECT oid FROM pg_roles WHERE rolname = '$role'");

	runs($_, 'SELECT 1', $role) foreach $good, $bad;
	value($node, "DROP ROLE $role");
	runs($good, 'SELECT 1', $role);
	value($node, "CREATE ROLE $role LOGIN");
	runs($good, 'SELECT 1', "pg_unknown (OID=$oid)");
	runs($bad, 'SELEC', "pg_unknown (OID=$oid)");
	$_->quit foreach $good, $bad;
}

my %found = map { $_->{text} => $_ } statements($node, application => qr/^of /, text => qr/\d \*\/$/);
foreach my $text (sort keys %expected)
{
	is($found{$text}{user}, $expected{$text}, $text);
	is($found{$text}{role}, undef, 'which is its role, too');
}
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
