
# A client that cancels the wait for space for a record, or ends its session during that wait, already
# has the rows.  The statement still has a short record.  If there is no space even for short records,
# statements wait before their first row.

use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

# large values must fill the rings
my $node = new_node('main', conf => "steno.log = 'all, -transaction'\nsteno.large_buffers = 0\n");
my $writer = writer_pid($node);
my $rows = 600;
my $huge = 'x' x 1_000_000;
my $watch;

value($node, q{CREATE TABLE secret (s text);
	INSERT INTO secret SELECT rpad('secret ' || i, 100) FROM generate_series(1, 600) i;
	CREATE FUNCTION reads(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
		PERFORM count(*) FROM secret;
		EXECUTE 'SELECT 1 -- inside ' || repeat('x', 1000000);
		RETURN $1;
	END $$;
	CREATE FUNCTION deep(n int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN
		EXECUTE CASE WHEN n > 0 THEN format('SELECT deep(%s) FROM secret LIMIT 1 /* level %s. */', n - 1, n)
			ELSE 'SELECT 1 -- inside ' || repeat('x', 1000000) END INTO r;
		RETURN r;
	END $$});

sub watch
{
	$watch = Steno::Client->new($node, application_name => 'watch');
	$watch->query(q{SET steno.log = 'none'});
	return;
}

# Lets the client run what it was given, until it waits for space (false) or has its answer (true).
sub send_until_waiting
{
	my ($c) = @_;
	my $waits = $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}");
	my $answered;

	$c->send_all;
	wait_until 'it waits, or is answered', sub {
		return 1 if $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}") > $waits;
		$answered = IO::Select->new($c->{socket})->can_read(0.01) &&
		  $watch->value("SELECT state <> 'active' FROM pg_stat_activity WHERE pid = $c->{pid}") eq 't';
		return $answered;
	};
	return $answered;
}

# The answer to the message, after its wait was ended in this way; the writer is stopped.
sub canceled
{
	my ($c, $how) = @_;

	send_until_waiting($c) and return $c->finish;
	$watch->value("SELECT pg_cancel_backend($c->{pid})") if $how eq 'cancel';
	$watch->value("SELECT pg_terminate_backend($c->{pid})") if $how eq 'terminate';
	return $c->finish;
}

sub with_stopped_writer
{
	my ($c, $how) = @_;
	my $answer;

	$watch->value('SELECT steno.flush()');
	stop_process($writer);
	$answer = canceled($c, $how // 'cancel');
	continue_process($writer);
	return $answer;
}

sub session
{
	my ($name) = @_;

	return Steno::Client->new($node, application_name => $name);
}

# The fields of the only record of the session that matches; none of its records is missing.
sub the_one
{
	my ($name, $text) = @_;
	my @r = records($node, application => $name);
	my @found = grep { $_->{kind} eq 'statement' && ($_->{text} // '') =~ $text } @r;

	is(scalar(@found), 1, "$name: one record");
	is(scalar(grep { $_->{kind} eq 'gap' } @r), 0, "$name: nothing was dropped");
	return $found[0] // {};
}

sub relations
{
	my ($r) = @_;

	return join ' ', map { $_->{name} } @{ $r->{relations} // [] };
}

sub looks_whole
{
	my ($r, $name, $code, $class) = @_;

	is("$r->{outcome} $r->{sqlstate} $r->{class} " . relations($r), "error $code $class public.secret",
		"$name: it says what was read, and how it ended");
	is($r->{user}, value($node, 'SELECT current_user'), "$name: and the user");
	return;
}

watch();

foreach my $how (qw(cancel timeout terminate))
{
	my $c = session($how);
	my $code = $how eq 'terminate' ? '57P01' : '57014';
	my $text = "SELECT s FROM secret -- $huge";
	my ($answer, $r);

	$c->query("SET statement_timeout = '2s'") if $how eq 'timeout';
	$answer = with_stopped_writer($c->put('Q', "$text\0"), $how);
	is($answer->{sqlstate}, $code, "$how: the statement is canceled");
	is(scalar @{ $answer->{rows} }, $rows, "$how: the client has its rows");
	$r = the_one($how, qr/^SELECT s FROM secret -- x/);
	looks_whole($r, $how, $code, 'read');
	is($r->{rows}, $rows, "$how: with its rows");
	is($r->{text_bytes}, length $text, "$how: with the length of its text");
	ok(index($text, $r->{text}) == 0, "$how: which is cut");
}

{
	my $c = session('copy');
	my $answer = with_stopped_writer($c->put('Q', "COPY secret TO STDOUT /* $huge */\0"));

	is($answer->{sqlstate}, '57014', 'COPY is canceled');
	is(($answer->{messages} =~ tr/d//), $rows, 'the client has its rows');
	looks_whole(the_one('copy', qr/^COPY secret/), 'copy', '57014', 'read');
}

# The text fits, a parameter does not.
{
	my $c = session('parameter');
	my $answer;
	my $r;

	$c->parse('', 'SELECT s FROM secret WHERE $1 <> s', 25)->bind_values('', '', $huge)->execute('')->sync;
	$answer = with_stopped_writer($c);
	is($answer->{sqlstate}, '57014', 'a statement with a large parameter is canceled');
	is(scalar @{ $answer->{rows} }, $rows, 'the client has its rows');
	$r = the_one('parameter', qr/^SELECT s FROM secret WHERE/);
	looks_whole($r, 'parameter', '57014', 'read');
	is($r->{extra}{parameters_omitted}, 1, 'the record says that its parameter is missing');
}

# The portal of a query that has more rows stands until the next message, which is canceled then.
{
	my $c = session('later');
	my ($answer, $r);

	$c->query('BEGIN');
	$c->parse('', 'SELECT s FROM secret WHERE $1 <> s', 25)->bind_values('', '', $huge)->execute('', 1)->sync;
	ok(!$c->finish->{sqlstate}, 'a query whose portal stands is acknowledged');
	$answer = with_stopped_writer($c->put('Q', "DROP VIEW IF EXISTS seen\0"));
	is($answer->{sqlstate}, '57014', 'the next statement is canceled');
	$r = the_one('later', qr/^SELECT s FROM secret WHERE/);
	is("$r->{outcome} $r->{rows} " . relations($r), 'ok 1 public.secret', 'the query is recorded as it was acknowledged');
	$r = the_one('later', qr/^DROP VIEW/);
	is("$r->{outcome} $r->{sqlstate}", 'error 57014', 'what was canceled has a record of its own');
}

# So does the portal of a cursor.
{
	my $c = session('closed');
	my $r;

	$c->query('BEGIN');
	$c->query("DECLARE c CURSOR FOR SELECT s FROM secret -- $huge");
	ok(!$c->query('FETCH ALL FROM c')->{sqlstate}, 'rows are fetched from a cursor');
	ok(!with_stopped_writer($c->put('Q', "CLOSE c\0"))->{sqlstate}, 'its end does not wait any more');
	$r = (grep { ($_->{rows} // 0) == $rows } statements($node, application => 'closed', class => 'read'))[0] // {};
	is("$r->{outcome} " . relations($r), 'ok public.secret', 'its query is recorded as it was acknowledged');
	is(scalar(records($node, application => 'closed', kind => 'gap')), 0, 'nothing was dropped');
}

{
	my $c = session('function');
	my $oid = value($node, q{SELECT 'reads(text)'::regprocedure::oid});
	my $answer = with_stopped_writer($c->put_call($oid, 'a'));

	is($answer->{sqlstate}, '57014', 'a function call is canceled');
	my @r = records($node, application => 'function');
	is(scalar(grep { ($_->{command} // '') eq 'FUNCTION CALL' && $_->{sqlstate} eq '57014' } @r), 1, 'it has a record');
	is(scalar(grep { ($_->{text} // '') =~ /^SELECT 1 -- inside x/ && $_->{sqlstate} eq '57014' } @r), 1,
		'so has the statement in it');
	is(scalar(grep { ($_->{text} // '') =~ /secret/ && $_->{outcome} eq 'ok' } @r), 1, 'and the one before');
	is(scalar(grep { $_->{kind} eq 'gap' } @r), 0, 'nothing was dropped');
}

# More cursors than there can be short records at once.
{
	my $c = session('cursors');
	my (@answers, @r, @missing);

	$c->query('BEGIN');
	foreach my $i (1 .. 40)
	{
		$c->query("DECLARE c$i CURSOR FOR SELECT s FROM secret /* cursor $i. */");
		push @answers, $c->query("FETCH 5 FROM c$i");
	}
	is(scalar(map { @{ $_->{rows} } } @answers), 200, 'cursors: the client has rows of all');
	is(with_stopped_writer($c->put('Q', "SELECT 1 -- $huge\0"))->{sqlstate}, '57014', 'cursors: their transaction is canceled');
	@r = records($node, application => 'cursors');
	foreach my $i (1 .. 40)
	{
		push @missing, $i if !grep { ($_->{text} // '') =~ /cursor $i\./ && ($_->{class} // '') eq 'read' &&
			  relations($_) eq 'public.secret' } @r;
	}
	is_deeply(\@missing, [], 'cursors: each is recorded, with what it has read');
}

# The one that ends first has space in the reserve, even if others have begun since without any.
{
	my $c = session('order');
	my $r;

	$c->query('BEGIN');
	$c->query("DECLARE c1 CURSOR FOR SELECT s FROM secret /* cursor 1. $huge */");
	$c->query('FETCH 5 FROM c1');
	foreach my $i (2 .. 40)
	{
		$c->query("DECLARE c$i CURSOR FOR SELECT s FROM secret /* cursor $i. */");
		$c->query("FETCH 5 FROM c$i");
	}
	ok(!with_stopped_writer($c->put('Q', "CLOSE c1\0"))->{sqlstate}, 'order: the first of many cursors is closed');
	$c->query('COMMIT');
	$r = (grep { ($_->{rows} // 0) == 5 && ($_->{text} // '') =~ /cursor 1\./ }
		  statements($node, application => 'order', class => 'read'))[0] // {};
	is(($r->{outcome} // '') . ' ' . relations($r), 'ok public.secret', 'order: its query is recorded');
	is(scalar(records($node, application => 'order', kind => 'gap')), 0, 'order: nothing was dropped');
}

# The same for statements that functions run.
{
	my $c = session('deep');
	my (@r, @missing);

	is(with_stopped_writer($c->put('Q', "SELECT deep(40)\0"))->{sqlstate}, '57014', 'deep: it is canceled');
	@r = records($node, application => 'deep');
	foreach my $i (1 .. 40)
	{
		push @missing, $i if !grep { ($_->{text} // '') =~ /level $i\./ && relations($_) eq 'public.secret' } @r;
	}
	is_deeply(\@missing, [], 'deep: each level is recorded, with what it has read');
}

# Repeatedly, with a writer that never makes space, until statements wait before they begin: those
# that have begun have a record.
foreach my $how (qw(query copy nested))
{
	my $c;
	my (@with, @without, %recorded);

	$c = session("loop $how");
	$watch->value('SELECT steno.flush()');
	stop_process($writer);
	foreach my $n (1 .. 60)
	{
		my $sql = $how eq 'copy' ? "COPY secret TO STDOUT /* number $n. $huge */" : "SELECT s FROM secret /* number $n. $huge */";
		my $answer;

		$sql = "DO \$\$ DECLARE r text; BEGIN FOR r IN EXECUTE \$x\$$sql\$x\$ LOOP RAISE NOTICE '%', r; EXIT; END LOOP; END \$\$"
		  if $how eq 'nested';
		$answer = canceled($c->put('Q', "$sql\0"), 'cancel');
		if (@{ $answer->{rows} } || $answer->{messages} =~ /d/ || @{ $answer->{notices} })
		{
			push @with, $n;
		}
		else
		{
			push @without, $n;
		}
		last if @without == 5;
	}
	continue_process($writer);
	cmp_ok(scalar @with, '>', 0, "loop $how: some statements read rows");
	is(scalar @without, 5, "loop $how: then none does any more");
	$watch->value('SELECT steno.flush()');
	ok(!$c->query("SELECT 'after'")->{sqlstate}, "loop $how: the session goes on");
	foreach my $r (records($node, application => "loop $how", kind => 'statement'))
	{
		$recorded{$1}++ if $r->{text} =~ /number (\d+)\./ && relations($r) eq 'public.secret';
	}
	is_deeply([ grep { !$recorded{$_} } @with ], [], "loop $how: what has read rows has a record");
}

$watch->quit;
$node->stop;

my ($code, $out, $err) = steno_result('verify', trail($node));
is($code, 0, 'the trail is whole');
unlike("$out$err", qr/interrupted/, 'nothing is taken for interrupted');
done_testing();
