
# BEGIN, COMMIT and the like are recorded when they start: objects that are found later, and what rules
# decide about them, are in their records nevertheless.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.mandatory = 'connect, setting'\n");
my $rules_file = $node->data_dir . '/pg_steno_rules.conf';

$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (a int);
	CREATE FUNCTION fixed(a int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN a; END$$;
	CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN new.a := fixed(new.a); RETURN new; END$$;
	CREATE FUNCTION makes() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN CREATE TABLE made (); RETURN new; END$$;
	CREATE TABLE deferred (a int);
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION late();
	CREATE TABLE maker (a int);
	CREATE CONSTRAINT TRIGGER makes AFTER INSERT ON maker DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION makes();
});

sub session
{
	my ($name) = @_;

	return Steno::Client->new($node, application_name => $name);
}

# Texts of a session's statements of transaction control, with the objects of each.
sub control
{
	my ($name) = @_;

	return [
		map {
			join ' ', $_->{text} // '(none)', map { "$_->{action} $_->{name}" } @{ $_->{objects} // [] }
		} grep { $_->{class} eq 'transaction' }
		  sort { $a->{seq} <=> $b->{seq} } statements($node, application => $name)
	];
}

# The planner calls the function, and the portal is never executed.
{
	my $c = session('planned');

	$c->parse('', 'INSERT INTO t VALUES (fixed(1))')->bind_values('never run', '')->put('C', "Pnever run\0");
	$c->parse('', 'BEGIN')->bind_values('', '')->execute('')->sync->finish;
	$c->query('COMMIT');
	$c->quit;
	is_deeply(control('planned'), [ 'BEGIN execute public.fixed', 'COMMIT' ],
		'a function that was called before BEGIN');
}

# What runs at the end is part of COMMIT, when it has no records of its own.
{
	my $c = session('deferred');

	$c->query('BEGIN');
	$c->query('INSERT INTO deferred VALUES (1)');
	$c->query('COMMIT');
	$c->query('SET steno.log_nested = off');
	$c->query('BEGIN');
	$c->query('INSERT INTO maker VALUES (1)');
	$c->query('COMMIT');
	$c->quit;
	is_deeply(
		control('deferred'),
		[ 'BEGIN', 'COMMIT execute public.fixed', 'BEGIN', 'COMMIT create public.made' ],
		'what a deferred trigger does');
}

# Rules that look at relations are applied at the end of a utility statement.
{
	my $c;
	my $changes = () = records($node, kind => 'setting');

	append_to_file($rules_file, <<'RULES');
record all all all all read,transaction public.t
skip all all all all transaction all statement="SAVEPOINT *"
RULES
	$node->reload;
	wait_until 'the rules have changed', sub { (() = records($node, kind => 'setting')) > $changes };
	$c = session('ruled');
	$c->query($_) foreach 'BEGIN', 'SAVEPOINT a', 'COMMIT';
	$c->quit;
	is_deeply(control('ruled'), [ 'BEGIN', 'COMMIT' ],
		'rules hold for them');
}

gapless($node, 'sessions are whole');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();
