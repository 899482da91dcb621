
# A statement that is a transaction of its own, and fails at its commit, has one record: an error, with
# the class and the relations of the statement.  No other record has that error.

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
CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent VALUES (1);
CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED, note text);
CREATE TABLE plain (id int);
CREATE FUNCTION adds() RETURNS int LANGUAGE plpgsql AS $$BEGIN INSERT INTO child VALUES (7); RETURN 7; END$$;
CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN BEGIN PERFORM 1 / 0; EXCEPTION WHEN OTHERS THEN NULL; END; RAISE EXCEPTION 'not at commit'; END$$;
CREATE TABLE checked (id int);
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION boom();
});

my $session = 0;

# Records of what a client does in a session: class, command, outcome, SQLSTATE, relations, depth 0 only.
sub recorded
{
	my ($settings, $do) = @_;
	my $name = 'session ' . ++$session;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->query("SET steno.$_") foreach @$settings;
	$do->($c);
	$c->quit;
	wait_until 'the session is over', sub { !kill 0, $c->{pid} };
	return [
		map {
			join ' ', $_->{class}, $_->{command} // '-', $_->{outcome}, $_->{sqlstate} // '-',
			  join(',', map { "$_->{name}:$_->{access}" } @{ $_->{relations} // [] })
		  }
		  grep { !$_->{depth} && ($_->{command} // '') ne 'SET' } statements($node, application => $name)
	];
}

my $failed = 'write INSERT error 23503 public.child:insert';
my $ok = 'write INSERT ok - public.child:insert';
my $plain = 'write INSERT ok - public.plain:insert';
my $bad = 'INSERT INTO child VALUES (2)';
my $big = "INSERT INTO child VALUES (2, '" . ('many words ' x 20000) . "')";
my $sync = sub { $_[0]->sync->finish };

foreach my $nested (qw(on off))
{
	my @s = ("log_nested = $nested", 'log_referential_checks = on');

	is_deeply(recorded(\@s, sub { $_[0]->query($bad) }), [$failed], "simple protocol, log_nested $nested");
	is_deeply(recorded(\@s, sub { $_[0]->query($big) }), [$failed], "a long text, log_nested $nested");
	is_deeply(recorded(\@s, sub { $_[0]->extended('INSERT INTO child VALUES ($1::int)', 2) }),
		[$failed], "extended protocol, log_nested $nested");
	is_deeply(
		recorded(\@s, sub {
				my ($c) = @_;
				$c->parse('p', 'INSERT INTO child VALUES ($1::int)')->sync->finish;
				$c->bind_values('', 'p', $_)->execute('')->sync->finish foreach (1) x 8, 2, 1;
			}),
		[ ($ok) x 8, $failed, $ok ],
		"a prepared statement, log_nested $nested");
	is_deeply(recorded(\@s, sub { $_[0]->query('INSERT INTO checked VALUES (1)') }),
		['write INSERT error P0001 public.checked:insert'], "a trigger that catches another error, log_nested $nested");
	is_deeply(recorded(\@s, sub { $_[0]->query('INSERT INTO child VALUES (1)'); $_[0]->query($bad); $_[0]->query('INSERT INTO plain VALUES (1)') }),
		[ $ok, $failed, $plain ], "between others, log_nested $nested");
	is_deeply(recorded(\@s, sub { $_[0]->query('SELECT adds()') }),
		['read SELECT error 23503 '], "a function that writes, log_nested $nested");
	is_deeply(recorded(\@s, sub { $_[0]->extended('SELECT adds()') }),
		['read SELECT error 23503 '], "the same by the extended protocol, log_nested $nested");
	is_deeply(recorded(\@s, sub { $_[0]->query('DO $$BEGIN INSERT INTO child VALUES (2); END$$') }),
		['function DO error 23503 '], "DO, log_nested $nested");
	is_deeply(recorded(\@s, sub { $_[0]->extended('DO $$BEGIN INSERT INTO child VALUES (2); END$$') }),
		['function DO error 23503 '], "DO by the extended protocol, log_nested $nested");
}

is_deeply(recorded([], sub { $_[0]->query("INSERT INTO plain VALUES (1); $bad") }), [ $plain, $failed ],
	'the last of a string');
is_deeply(recorded([], sub { $_[0]->query("$bad; INSERT INTO plain VALUES (1) ; ") }),
	[ $ok, 'write INSERT error 23503 public.plain:insert' ], 'the commit of a string is that of its last statement');
is_deeply(recorded([], sub { $_[0]->query("$bad; SELECT nothing_there") }), [ $ok, 'error - error 42703 ' ],
	'another statement of the string that cannot be analyzed');
is_deeply(recorded([], sub { $_[0]->query("$bad; SELECT 1 / 0") }), [ $ok, 'read SELECT error 22012 ' ],
	'another that the planner refuses');
is_deeply(recorded([], sub { $_[0]->query("BEGIN; INSERT INTO child VALUES (1); COMMIT; INSERT INTO plain VALUES (1); $bad;") }),
	[ 'transaction BEGIN ok - ', $ok, 'transaction COMMIT ok - ', $plain, $failed ], 'after a block in the same string');
is_deeply(
	recorded([], sub { $_[0]->query("INSERT INTO plain VALUES (1); BEGIN; $bad"); $_[0]->query('COMMIT') }),
	[ $plain, 'transaction BEGIN ok - ', $ok, 'transaction COMMIT error 23503 ' ],
	'a block that goes on: its COMMIT fails');
is_deeply(
	recorded([], sub { $_[0]->query('BEGIN'); $_[0]->query('COMMIT AND CHAIN'); $_[0]->query("SELECT 1; $bad"); $_[0]->query('COMMIT') }),
	[ 'transaction BEGIN ok - ', 'transaction COMMIT ok - ', 'read SELECT ok - ', $ok, 'transaction COMMIT error 23503 ' ],
	'a chained block');
is_deeply(
	recorded([], sub { $_[0]->query($_) foreach 'BEGIN', $bad, 'COMMIT AND CHAIN', $bad }),
	[ 'transaction BEGIN ok - ', $ok, 'transaction COMMIT error 23503 ', $failed ],
	'a block whose chain breaks: the next statement is in none');
is_deeply(
	recorded([], sub { $_[0]->query($_) foreach 'BEGIN', 'SELECT 1 / 0', 'ROLLBACK AND CHAIN', 'SELECT 1 / 0', 'ROLLBACK', $bad }),
	[
		'transaction BEGIN ok - ', 'read SELECT error 22012 ', 'transaction ROLLBACK ok - ',
		'read SELECT error 22012 ', 'transaction ROLLBACK ok - ', $failed
	],
	'a chained block that fails: so is the next statement');

# The transaction of an aborted block has ended before its ROLLBACK AND CHAIN, which begins another one in the same
# block.
{
	my $c = Steno::Client->new($node, application_name => 'aborted chain');

	$c->query($_) foreach 'BEGIN', 'SELECT 1 / 0', 'ROLLBACK AND CHAIN', "SELECT 1; $bad";
	value($node, 'SELECT steno.flush()');
	is(scalar(grep { ($_->{text} // '') eq $bad } statements($node, application => 'aborted chain')), 1,
		'a block chained to an aborted one: a statement that does not commit has its record at once');
	is($c->query('COMMIT')->{sqlstate}, '23503', 'its COMMIT fails');
	is($c->query("INSERT INTO plain VALUES (1); $bad")->{sqlstate}, '23503', 'so does a transaction behind it');
	$c->quit;
	is_deeply(
		[ map { $_->{outcome} } grep { ($_->{text} // '') eq $bad } statements($node, application => 'aborted chain') ],
		[ 'ok', 'error' ], 'the commit that is theirs fails');
}

# Since PostgreSQL 19, a foreign key looks for the row without a query of its own: that is no access of a utility
# statement, either.  What a trigger that it fires asks for is.
{
	my $c = Steno::Client->new($node, application_name => 'utility statements');
	my $file = PostgreSQL::Test::Utils::tempdir() . '/children';

	append_to_file($file, "1\n1\n");
	chmod 0644, $file or die;
	foreach my $sql (
		'CREATE TABLE held (id int REFERENCES parent ON DELETE CASCADE)',
		q{CREATE FUNCTION copies() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN COPY plain TO '/dev/null'; RETURN old; END$$},
		'CREATE TRIGGER copies BEFORE DELETE ON held FOR EACH ROW EXECUTE FUNCTION copies()',
		'INSERT INTO parent VALUES (9)',
		"COPY held FROM '$file'",
		'INSERT INTO held VALUES (9)',
		'DELETE FROM parent WHERE id = 9')
	{
		is($c->query($sql)->{sqlstate}, undef, $sql);
	}
	$c->quit;
	is_deeply(
		[
			map { join ' ', map { "$_->{name}:$_->{access}" } @{ $_->{relations} // [] } }
			  grep { ($_->{command} // '') eq 'COPY' } statements($node, application => 'utility statements')
		],
		[ 'public.held:insert', 'public.plain:select' ],
		'relations of COPY');
}

# pipelines
my $insert = sub { $_[0]->parse('', 'INSERT INTO child VALUES ($1::int)')->bind_values('', '', $_[1])->execute('') };
is_deeply(recorded([], sub { $insert->($_[0], 2); $insert->($_[0], 1); $sync->($_[0]) }), [ $ok, $failed ],
	'a pipeline: the last one has it');
is_deeply(recorded([], sub { $insert->($_[0], 2); $_[0]->parse('', 'SELECT nothing_there'); $sync->($_[0]) }),
	[ $ok, 'error - error 42703 ' ], 'a pipeline whose next statement cannot be analyzed');
is_deeply(recorded([], sub { $insert->($_[0], 2); $_[0]->bind_values('', 'missing'); $sync->($_[0]) }),
	[ $ok, 'error - error 26000 ' ], 'a pipeline whose next message has no text');
is_deeply(recorded([], sub { $insert->($_[0], 2); $_[0]->parse('', 'SELECT 1'); $sync->($_[0]) }),
	[$failed], 'a pipeline with a statement that is not executed');
is_deeply(
	recorded([], sub {
			my ($c) = @_;
			$c->parse('p', 'INSERT INTO child VALUES ($1::int)')->sync->finish;
			$c->bind_values('', 'p', 1)->execute('') foreach 1 .. 8;
			$c->bind_values('', 'p', 2)->execute('')->sync->finish;
		}),
	[ ($ok) x 8, $failed ],
	'a pipeline of a prepared statement');
is_deeply(recorded([], sub { $insert->($_[0], 1); $_[0]->put('H', '')->send_all; }),
	[$ok], 'a client that leaves before the commit');

# serializable transactions
is_deeply(
	recorded([], sub {
			my ($c) = @_;
			my $other = Steno::Client->new($node, application_name => 'other');

			foreach my $s ($c, $other)
			{
				$s->query('SET default_transaction_isolation = serializable');
			}
			$other->query('BEGIN');
			$other->query('SELECT count(*) FROM plain');
			$c->query('BEGIN');
			$c->query('SELECT count(*) FROM plain');
			$other->query('INSERT INTO plain VALUES (1)');
			$c->query('INSERT INTO plain VALUES (2)');
			$other->query('COMMIT');
			$c->query('COMMIT');
			$other->quit;
		})->[-1],
	'transaction COMMIT error 40001 ',
	'a COMMIT that fails is the failure of COMMIT');

# cursors WITH HOLD, which the commit runs to their end
sub cursors
{
	my ($do, @settings) = @_;
	my $name = 'session ' . ++$session;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->query("SET steno.$_") foreach @settings;
	$do->($c);
	$c->quit;
	wait_until 'the session is over', sub { !kill 0, $c->{pid} };
	return [
		sort map { join ' ', $_->{depth} // 0, $_->{command} // '-', $_->{outcome}, $_->{sqlstate} // '-', $_->{rows} // '-',
			  ($_->{text} // '-') =~ /\/\* (.*) \*\// ? $1 : '-' }
		  grep { ($_->{command} // '') ne 'SET' } statements($node, application => $name)
	];
}

my $good = 'DECLARE %s CURSOR WITH HOLD FOR SELECT generate_series(1, 10) /* %s */';
my $broken = 'DECLARE %s CURSOR WITH HOLD FOR SELECT 1 / (3 - i) FROM generate_series(1, 10) i /* %s */';
my $declare = sub { my ($c, $text, $name) = @_; return $c->query(sprintf $text, $name, $name) };

foreach my $log ('on', 'off')
{
	my @nested = $log eq 'on' ? ('log_nested = on') : ();

	is_deeply(cursors(sub { $declare->($_[0], $good, 'a'); $_[0]->query('FETCH 3 FROM a /* fetch */') }, @nested),
		[ '0 DECLARE CURSOR ok - - a', '0 FETCH ok - 3 fetch', '1 SELECT ok - 3 a' ],
		"a cursor WITH HOLD by itself, log_nested $log");
	is_deeply(cursors(sub { $declare->($_[0], $broken, 'a'); $_[0]->query('SELECT 1 /* next */') }, @nested),
		[ '0 DECLARE CURSOR error 22012 - a', '0 SELECT ok - 1 next', '1 SELECT error 22012 - a' ],
		"one that fails, log_nested $log");
}
is_deeply(cursors(sub { $_[0]->extended(sprintf $broken, 'a', 'a') }),
	[ '0 DECLARE CURSOR error 22012 - a', '1 SELECT error 22012 - a' ], 'the same by the extended protocol');
is_deeply(cursors(sub { $_[0]->query('SELECT 1 /* first */; ' . sprintf $broken, 'a', 'a') }),
	[ '0 DECLARE CURSOR error 22012 - a', '0 SELECT ok - 1 first', '1 SELECT error 22012 - a' ], 'the last of a string');
is_deeply(cursors(sub { $_[0]->query('DO $$BEGIN EXECUTE \'' . sprintf($broken, 'a', 'of a function') . '\'; END$$') }, 'log_nested = off'),
	[ '0 DO error 22012 - of a function', '2 SELECT error 22012 - of a function' ], "a function's");
# its name decides whether the good one runs first
is_deeply(
	[ map { s/ok - (0|10) a/ok - - a/r } @{ cursors(sub {
			my ($c) = @_;
			$c->query('BEGIN');
			$declare->($c, $good, 'a');
			$declare->($c, $broken, 'b');
			$c->query('FETCH 2 FROM b /* fetch */');
			$c->query('COMMIT /* commit */');
		}) } ],
	[ '0 BEGIN ok - - -', '0 COMMIT error 22012 - commit', '0 DECLARE CURSOR ok - - a', '0 DECLARE CURSOR ok - - b',
		'0 FETCH ok - 2 fetch', '1 SELECT error 22012 2 b', '1 SELECT ok - - a' ],
	'two of a block, of which one fails: its COMMIT fails');
is_deeply(
	cursors(sub {
			my ($c) = @_;
			$c->query('BEGIN');
			$declare->($c, $good, 'a');
			$c->query('COMMIT /* commit */');
			$c->query('SELECT 1 /* next */');
		}),
	[ '0 BEGIN ok - - -', '0 COMMIT ok - - commit', '0 DECLARE CURSOR ok - - a', '0 SELECT ok - 1 next', '1 SELECT ok - 0 a' ],
	'one of a block');

# a session that is terminated while its statement commits, and waits for another one there
{
	my $holder = Steno::Client->new($node);
	my $send = {
		'simple' => sub { $_[0]->put('Q', "INSERT INTO once VALUES (1)\0")->send_all },
		'extended' => sub {
			my ($c) = @_;

			$c->parse('', 'INSERT INTO once VALUES ($1::int)')->bind_values('', '', 1)->execute('')->sync->send_all;
		},
	};

	$holder->query('CREATE TABLE once (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)');
	$holder->query('BEGIN');
	$holder->query('INSERT INTO once VALUES (1)');
	foreach my $protocol (sort keys %$send)
	{
		is_deeply(recorded([], sub {
					my ($c) = @_;

					$send->{$protocol}->($c);
					wait_until 'it waits at its commit', sub {
						value($node, "SELECT count(*) FROM pg_locks WHERE pid = $c->{pid} AND NOT granted");
					};
					value($node, "SELECT pg_terminate_backend($c->{pid})");
				}),
			['write INSERT error 57P01 public.once:insert'], "terminated while it commits, $protocol protocol");
	}
	$holder->quit;
}

# failures that the server's log does not get
$node->append_conf('postgresql.conf', 'log_min_messages = panic');
$node->reload;
is_deeply(recorded([], sub { $_[0]->query($bad) }), [$failed], 'a failure that is not logged');
is_deeply(recorded([], sub { $_[0]->extended('INSERT INTO child VALUES ($1::int)', 2) }), [$failed],
	'the same by the extended protocol');
is_deeply(cursors(sub { $declare->($_[0], $broken, 'a') }),
	[ '0 DECLARE CURSOR error 22012 - a', '1 SELECT error 22012 - a' ], 'a cursor WITH HOLD');

my (undef, $out) = steno_result('cat', '--failed', '--class', 'write', '--format', 'json', trail($node));
like($out, qr/\Q$bad\E/, 'steno cat --failed --class write finds it');

gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();
