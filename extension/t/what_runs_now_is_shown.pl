
# steno.in_flight shows the statements that run now, as they would be recorded, to those who may see them.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('in_flight', conf => "steno.writers = 1\nmax_prepared_transactions = 0\n");
my $others = 'FROM steno.in_flight WHERE pid <> pg_backend_pid()';

# What is shown of this session.
sub shown
{
	my ($c, $expression) = @_;

	return value($node, "SELECT $expression FROM steno.in_flight WHERE pid = $c->{pid}");
}

# A statement that runs until a lock is released.
sub run_locked
{
	my ($sql, %o) = @_;
	my $c = Steno::Client->new($node, %o);

	$c->{pid} = $c->value('SELECT pg_backend_pid()');
	$c->put('Q', "$sql\0")->send_all;
	wait_until 'it waits', sub {
		value($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event_type = 'Lock'") eq '1';
	};
	return $c;
}

# A session is ended in the middle of its statement: it then runs nothing.
sub end_session
{
	my ($c) = @_;

	kill 'TERM', $c->{pid};
	wait_until 'it has ended', sub { shown($c, 'count(*)') eq '0' };
	return;
}

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, "Name" text); INSERT INTO t VALUES (7, 'seven'); CREATE ROLE watcher LOGIN; CREATE ROLE worker LOGIN; GRANT ALL ON t TO worker;
	CREATE FUNCTION steps() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM 1; PERFORM 2; PERFORM pg_advisory_lock(1); END $$});
my $holder = Steno::Client->new($node);
is(value($node, "SELECT count(*) $others"), '0', 'nothing runs');
$holder->query('BEGIN; SELECT pg_advisory_lock(1); SELECT FROM t FOR UPDATE; INSERT INTO t VALUES (701)');
is(value($node, "SELECT count(*) $others"), '0', 'a session that is idle in a transaction runs nothing');
is(value($node, q{SELECT text LIKE '%itself%' AND running >= '0' AND class = 'read' AND command = 'SELECT' FROM steno.in_flight}),
	't', 'but the session that asks does itself');

# a query: who, what, since when
{
	my $c = run_locked('SELECT "Name" FROM t WHERE id = 7 FOR SHARE', user => 'worker', application_name => 'desk');

	is(shown($c, 'concat_ws($$ $$, usename, datname, application_name, class, command)'), 'worker postgres desk read SELECT', 'who and what');
	is(shown($c, 'text'), 'SELECT "Name" FROM t WHERE id = 7 FOR SHARE', 'its text');
	is(shown($c, 'statement_start <= clock_timestamp() AND running > $$0$$ AND xact_start <= statement_start AND xid IS NULL'), 't', 'since when');
	is(shown($c, 'text_bytes = length(text) AND params IS NULL AND substatements = 0 AND lag_bytes >= 0 AND fill BETWEEN 0 AND 1'), 't', 'and the rest');
	is(shown($c, q{(SELECT string_agg(concat_ws(' ', r.name, r.type, r.access, c.name, c.access), ',') FROM unnest(relations) r, unnest(r.columns) c)}),
		'public.t table {select,update} id {select},public.t table {select,update} "Name" {select}', 'its relations and columns');
	is(shown($c, q{session ~ '^[0-9a-f]+\.[0-9a-f]+$' AND split_part(session, '.', 2) = to_hex(pid)}), 't', 'its session');
	end_session($c);
}

# parameters, of a prepared statement that has run before
{
	my $c = Steno::Client->new($node);

	$c->{pid} = $c->value('SELECT pg_backend_pid()');
	$c->put('P', "s\0INSERT INTO t VALUES (\$1, \$2)\0" . pack('n', 0))->put('S', '');
	$c->put('B', "\0s\0" . pack('n n N a* l>', 0, 2, 3, '701', -1) . pack('n', 0))->put('E', "\0" . pack('N', 0))->put('S', '')->send_all;
	wait_until 'it waits', sub { shown($c, 'count(*)') eq '1' };
	is(shown($c, 'params::text'), '{701,NULL}', 'parameters');
	is(shown($c, 'class'), 'write', 'of a write');
	end_session($c);
}

# inside a function; in a transaction that has an ID
{
	my $c = Steno::Client->new($node);

	$c->query('BEGIN');
	$c->query('CREATE TABLE other ()');
	$c->{pid} = $c->value('SELECT pg_backend_pid()');
	$c->put('Q', "SELECT steps()\0")->send_all;
	wait_until 'it waits', sub { shown($c, 'substatements') eq '3' };
	is(shown($c, 'text'), 'SELECT steps()', 'the statement of the client, while a function runs others');
	is(shown($c, 'xid = pg_snapshot_xmin(pg_current_snapshot()) OR xid IS NOT NULL'), 't', 'its transaction');
	end_session($c);
}

# long texts, secrets, other encodings
{
	my $long = q{SELECT pg_advisory_lock(1), '} . ('xyz' x 3_500_000) . q{'};
	my $c = run_locked($long);

	is(shown($c, 'text_bytes'), length $long, 'a text of 10 MB: its length');
	is(shown($c, 'starts_with(' . q{$$SELECT pg_advisory_lock(1), '} . ('xyz' x 100) . q{$$, text) AND length(text) > 200}), 't', 'and its beginning');
	end_session($c);

	my $roles = Steno::Client->new($node);
	$roles->query('BEGIN; LOCK TABLE pg_authid IN SHARE MODE');
	$c = run_locked(q{CREATE ROLE x PASSWORD 'hush4711'});
	like(shown($c, 'text'), qr/^CREATE ROLE x PASSWORD (?!.*hush4711)/, 'no password is shown');
	$roles->quit;
	end_session($c);

	$node->safe_psql('postgres', q{CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0});
	$c = Steno::Client->new($node, database => 'latin');
	$c->{pid} = $c->value('SELECT pg_backend_pid()');
	$c->put('Q', "SELECT pg_sleep(1000), 'caf\xe9'\0")->send_all;
	wait_until 'it sleeps', sub { shown($c, 'count(*)') eq '1' };
	is(shown($c, 'text'), "SELECT pg_sleep(1000), 'caf\xc3\xa9'", 'a text of another encoding');
	end_session($c);
}

# what is not recorded is not shown
{
	$node->safe_psql('postgres', q{ALTER ROLE worker SET steno.log = 'ddl'});
	my $c = run_locked('SELECT pg_advisory_lock(1)', user => 'worker');

	is(shown($c, 'count(*)'), '0', 'a statement that is not recorded is not shown');
	end_session($c);
}

# who may see it
foreach my $case (
	[ 'GRANT pg_monitor TO watcher', 'permission denied for view in_flight' ],
	[ 'GRANT USAGE ON SCHEMA steno TO watcher; GRANT SELECT ON steno.in_flight TO watcher', 'permission denied for function in_flight' ],
	[ 'GRANT EXECUTE ON FUNCTION steno.in_flight() TO watcher', '' ])
{
	my ($sql, $error) = @$case;

	$node->safe_psql('postgres', $sql);
	my ($code, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM steno.in_flight',
		connstr => $node->connstr('postgres') . ' user=watcher');
	like($err, $error ne '' ? qr/$error/ : qr/^$/, "after $sql");
}

# Sessions that run and end as fast as they can: each row that is seen is whole.
{
	my @clients = map { Steno::Client->new($node) } 1 .. 3;
	my $watch = Steno::Client->new($node);
	my $bad = 0;
	my $seen = 0;

	foreach my $round (1 .. 60)
	{
		foreach my $i (0 .. $#clients)
		{
			$clients[$i]->put('Q', "SELECT '" . ($i x (10 * $round)) . "', count(*) FROM generate_series(1, $round * 400)\0")->send_all;
		}
		foreach my $text (map { $_->[0] } @{ $watch->query("SELECT text $others")->{rows} })
		{
			$seen++;
			$bad++ if $text !~ /^SELECT '(\d)(?:\1*)', count\(\*\) FROM generate_series\(1, \d+ \* 400\)$/;
		}
		$_->finish foreach @clients;
	}
	is($bad, 0, "$seen statements that were seen while they ran are whole");
}

$node->stop;
done_testing();
