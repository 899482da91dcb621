
# The record of a cursor's query has the identity of its execution, which may be another one than that of the statement
# that closes the cursor.  Whatever changes in between, and whatever ends then, each statement has its record, with its
# own identity, and nothing is dropped.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "max_prepared_transactions = 2\n");

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE other;
CREATE TABLE t AS SELECT i FROM generate_series(1, 10) i;
CREATE TABLE hidden AS SELECT i FROM generate_series(1, 3) i;
GRANT ALL ON t, hidden TO other;
CREATE FUNCTION changes() RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; BEGIN
	FOR r IN SELECT 1 LOOP PERFORM set_config('steno.app_context', clock_timestamp()::text, false); END LOOP; RETURN 'x'; END$$;
CREATE PROCEDURE changes_too() LANGUAGE plpgsql AS $$BEGIN PERFORM changes(); END$$;
SQL

# name of the case, statements
my @cases;
foreach my $change (q{SET application_name = 'another'}, q{SET steno.app_user = 'eve'}, q{SET LOCAL steno.app_context = 'there'}, 'SET ROLE other')
{
	foreach my $end ('CLOSE c', 'CLOSE ALL', 'COMMIT', 'COMMIT AND CHAIN', 'ROLLBACK', q{DO $$DECLARE c refcursor := 'c'; BEGIN CLOSE c; END$$},
		'PREPARE TRANSACTION \'p\'', 'FETCH ALL FROM c', 'SELECT 1')
	{
		next if $end =~ /PREPARE/ && $change !~ /eve/;
		push @cases, [ "$change; $end", 'BEGIN', 'DECLARE c CURSOR FOR SELECT i FROM t', 'FETCH 3 FROM c', $change, $end, 'ROLLBACK' ];
	}
}
push @cases, map { [ $_, $_ ] } (
	q{ALTER TABLE t ADD COLUMN IF NOT EXISTS more text DEFAULT changes()},
	q{COPY (SELECT i::text FROM hidden UNION ALL SELECT changes()) TO STDOUT},
	q{CREATE TEMP TABLE made AS SELECT i, changes() FROM hidden},
	q{EXPLAIN ANALYZE SELECT changes() FROM hidden},
	'CALL changes_too()',
	q{DO $$BEGIN PERFORM changes(); END$$},
	q{SELECT changes() FROM hidden},
	q{INSERT INTO t SELECT length(changes()) FROM hidden});

my $drops = value($node, 'SELECT sum(drops) FROM steno.rings');
my $n = 0;
foreach my $case (@cases)
{
	my ($name, @statements) = @$case;
	my $application = 'case ' . ++$n;
	my $c = Steno::Client->new($node, application_name => $application);
	my $pid = $c->{pid};
	my @r;

	$c->query("$statements[$_] /* $n.$_ */") foreach 0 .. $#statements;
	$c->quit;
	flush($node);
	$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p'}) if value($node, 'SELECT count(*) FROM pg_prepared_xacts') ne '0';
	@r = records($node, pid => $pid);
	is(scalar(grep { $_->{kind} eq 'gap' } @r), 0, "$name: no gap");
	foreach my $i (0 .. $#statements)
	{
		is(scalar(grep { $_->{kind} eq 'statement' && ($_->{depth} // 0) == 0 && ($_->{text} // '') eq "$statements[$i] /* $n.$i */" } @r),
			1, "$name: $statements[$i] has its record");
	}
	next if @statements == 1;
	my ($query) = grep { ($_->{text} // '') =~ /^DECLARE/ && $_->{class} eq 'read' } @r;
	is($query->{application}, $application, "$name: the cursor's query has the application of its beginning");
	is($query->{app_user} // $query->{app_context} // ($query->{role} // '') =~ s/^(?!other$).*//r, '', "$name: and the rest of its identity");
}
is(value($node, 'SELECT sum(drops) FROM steno.rings'), $drops, 'nothing was dropped');
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');

done_testing();
