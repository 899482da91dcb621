
# What runs at a commit belongs to no statement of the client: when it fails, the commit
# has the record of the failure, whether the query was planned already or not.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');

$node->safe_psql(
	'postgres', q{
CREATE TABLE t (a int CHECK (a < 100));
CREATE FUNCTION cannot_be_planned() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO t VALUES (1 / 0); RETURN NULL; END$$;
CREATE FUNCTION cannot_be_run() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO t VALUES (200); RETURN NULL; END$$;
CREATE TABLE planned (a int);
CREATE TABLE run (a int);
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON planned DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION cannot_be_planned();
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON run DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION cannot_be_run();
});

foreach my $case (
	[ 'planned', '22012', 'INSERT INTO t VALUES (1 / 0)' ],
	[ 'run', '23514', 'INSERT INTO t VALUES (200)' ])
{
	my ($table, $code, $inside) = @$case;

	foreach my $nested (qw(on off))
	{
		my $name = "$table $nested";
		my $client = Steno::Client->new($node, application_name => $name);

		$client->query("SET steno.log_nested = $nested");
		$client->query('BEGIN');
		$client->query("INSERT INTO $table VALUES (1)");
		is($client->query('COMMIT')->{sqlstate}, $code, "$name: the commit fails");
		$client->query('SELECT 1');
		$client->quit;
		my @r = grep { $_->{text} !~ /^SET/ } statements($node, application => $name);

		is_deeply(
			[ sort map { join(' ', $_->{depth} // 0, $_->{outcome}, $_->{text}) } grep { $_->{outcome} eq 'error' } @r ],
			[ '0 error COMMIT', $nested eq 'on' ? "1 error $inside" : () ],
			"$name: what has failed");
		is($r[-1]{text}, 'SELECT 1', "$name: the next statement");
	}
}

gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
done_testing();
