
# Statements that fail before their relations are looked up: rules and steno.role decide by the names in them.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno;
use Test::More;

my $node = new_node('judged', conf => "steno.mandatory = 'none'\n");

$node->safe_psql('postgres', q{
CREATE ROLE tom LOGIN;
CREATE ROLE auditor;
CREATE SCHEMA hr;
CREATE TABLE hr.salary (id int PRIMARY KEY, amount int);
GRANT SELECT ON hr.salary TO auditor;
CREATE SCHEMA open;
GRANT USAGE, CREATE ON SCHEMA open TO tom;
CREATE TABLE open.t (id int PRIMARY KEY, v text);
GRANT ALL ON open.t TO tom;
CREATE TABLE open.shut (id int PRIMARY KEY, v text);
CREATE VIEW open.view AS SELECT * FROM open.shut;
CREATE FUNCTION open.deletes() RETURNS void STABLE LANGUAGE plpgsql AS 'BEGIN DELETE FROM open.t; END';
CREATE FUNCTION open.run(sql text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; END';
});

my $round = 0;

# Fails statements with settings of the user, and rules; each must be recorded or not, as it says.
sub check
{
	my ($settings, $rules, %cases) = @_;
	my $application = 'round' . ++$round;
	my @sorted = sort keys %cases;

	$node->safe_psql('postgres', "ALTER ROLE tom RESET ALL; $settings");
	if ($rules ne '')
	{
		unlink $node->data_dir . '/pg_steno_rules.conf';
		append_to_file($node->data_dir . '/pg_steno_rules.conf', "$rules\n");
		$node->restart;
	}
	my $c = Steno::Client->new($node, user => 'tom', application_name => $application);

	$c->query('BEGIN; COMMIT');
	foreach my $sql (@sorted)
	{
		my $answer = $c->query($sql);

		isnt($answer->{sqlstate}, undef, "$application: $sql fails");
	}
	$c->quit;
	my %record = map { ($_->{text} // '') => $_ } statements($node, application => $application, outcome => 'error');

	foreach my $sql (@sorted)
	{
		my $r = $record{$sql};
		my $want = $cases{$sql};

		is(defined $r ? 1 : 0, $want ? 1 : 0, "$application: $sql is recorded" . ($want ? '' : ' no'));
		is(join(',', @{ $r->{audited} // [] }), $want, "$application: $sql: why") if $r && $want && $want ne '1';
	}
	return %record;
}

# steno.role alone
my %named = (
	'SELECT * FROM hr.salary' => 'object',
	'SELECT * FROM salary' => 'object',
	'SELECT * FROM open.view' => 'object',
	'SELECT 1/0 FROM open.t' => 'object',
	'UPDATE hr.salary SET amount = 0' => 'object',
	'COPY hr.salary TO STDOUT' => 'object',
);
$named{'SELECT open.deletes()'} = 'object';
my %nameless = ('DROP TABLE open.shut' => 0, 'LOCK TABLE open.shut' => 0, 'SELECT 1/0' => 0, 'SELEC 1' => 0, 'SELECT nothing' => 0, 'SET nothing = 1' => 0);

check("ALTER ROLE tom SET steno.log = 'none'; ALTER ROLE tom SET steno.role = 'auditor'", '', %named, %nameless);
check("ALTER ROLE tom SET steno.log = 'none'", '', (map { $_ => 0 } keys %named), %nameless);

# classes
check("ALTER ROLE tom SET steno.log = 'read'", '',
	'SELECT * FROM hr.salary' => 1, 'SELECT 1/0 FROM open.t' => 1, 'SELECT nothing' => 1, 'SELEC 1' => 0,
	'INSERT INTO hr.salary VALUES (1)' => 0, 'WITH w AS (DELETE FROM hr.salary RETURNING id) SELECT * FROM w' => 0,
	'UPDATE open.t SET id = 1/0' => 0);
check("ALTER ROLE tom SET steno.log = 'write'", '',
	'SELECT * FROM hr.salary' => 0, 'INSERT INTO hr.salary VALUES (1)' => 1,
	'WITH w AS (DELETE FROM hr.salary RETURNING id) SELECT * FROM w' => 1, 'UPDATE open.t SET id = 1/0' => 1);

# rules
my $rule = 'tom all all all';
check("ALTER ROLE tom SET steno.log = 'none'", "record $rule read hr.*",
	'SELECT * FROM hr.salary' => 'rule', 'SELECT * FROM salary' => 'rule', 'SELECT 1/0 FROM hr.salary' => 'rule',
	'SELECT 1/0 FROM open.t' => 0, 'SELECT nothing FROM open.shut' => 0,
	# what is not known of them may be in hr
	'SELECT open.deletes()' => 'rule', 'SELECT * FROM open.view' => 'rule', 'SELECT 1 FROM ' . join(', ', map { "n$_" } 1 .. 70) => 'rule', 'INSERT INTO hr.salary VALUES (1)' => 0, 'SELEC 1' => 0);
check("ALTER ROLE tom SET steno.log = 'all'", "skip $rule all open.t",
	'SELECT 1/0 FROM open.t' => 0, 'SELECT 1/0 FROM open.t, open.view' => 1, q{SELECT 'x'::int FROM open.t} => 0,
	q{SELECT 'x'::int FROM open.t, hr.salary} => 1, q{SELECT 'x'::int FROM t} => 1);
check("ALTER ROLE tom SET steno.log = 'all'", "skip $rule read open.t", 'SELECT 1/0 FROM open.t' => 1, 'SELECT nothing FROM open.t' => 1);
check("ALTER ROLE tom SET steno.log = 'all, -error'", "skip $rule read open.t", 'SELECT 1/0 FROM open.t' => 0, 'SELECT nothing FROM open.t' => 0,
	'SELECT 1/0 FROM open.view' => 1);
{
	my %record = check("ALTER ROLE tom SET steno.log = 'all'", "record $rule read hr.* redact=[0-9]{6}", q{SELECT 1 FROM hr.salary WHERE amount = 123} => 1);
	my $c = Steno::Client->new($node, user => 'tom', application_name => 'redacted');

	$c->query($_) foreach q{SELECT 2 FROM hr.salary WHERE amount = 123456}, q{SELECT 3 FROM salary WHERE amount = 123456},
	  q{SELECT 4 FROM open.t WHERE id = 123456/0}, 'SELECT 123456 FROM ' . join(', ', map { "n$_" } 1 .. 70), q{COPY (SELECT 5 FROM hr.salary WHERE amount = 123456) TO STDOUT};
	$c->quit;
	is(join('; ', map { $_->{text} // 'hidden' } statements($node, application => 'redacted', outcome => 'error')),
		'SELECT 2 FROM hr.salary WHERE amount = <redacted>; SELECT 3 FROM salary WHERE amount = <redacted>; '
		  . 'SELECT 4 FROM open.t WHERE id = 123456/0; hidden; COPY (SELECT 5 FROM hr.salary WHERE amount = <redacted>) TO STDOUT',
		'what a rule hides of a table is hidden of what is refused');
}

# inside functions
{
	my %record = check("ALTER ROLE tom SET steno.log = 'none'; ALTER ROLE tom SET steno.role = 'auditor'; ALTER ROLE tom SET steno.log_nested = off",
		'# none', q{SELECT open.run('SELECT * FROM hr.salary')} => 0);

	is_deeply($record{'SELECT * FROM hr.salary'}{audited}, ['object'], 'a statement that a function runs');
}

gapless($node, 'no session has gaps');
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
