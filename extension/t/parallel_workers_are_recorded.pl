
# Statements that functions run in parallel workers, and in other processes without a client.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node(
	'main', conf => qq{
listen_addresses = '127.0.0.1'
max_parallel_workers = 8
max_worker_processes = 16
});

$node->safe_psql(
	'postgres', q{
CREATE TABLE secret (a int);
INSERT INTO secret VALUES (42);
CREATE FUNCTION reads() RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
$$ BEGIN RETURN (SELECT max(a) FROM public.secret); END $$;
CREATE FUNCTION reads_as_owner() RETURNS int LANGUAGE plpgsql PARALLEL SAFE SECURITY DEFINER AS
$$ BEGIN RETURN (SELECT min(a) FROM public.secret); END $$;
CREATE FUNCTION in_two_steps() RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
$$ DECLARE i int; BEGIN EXECUTE 'SELECT public.reads()' INTO i; RETURN i; END $$;
CREATE FUNCTION divides(i int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
$$ BEGIN RETURN (SELECT a / i FROM public.secret); END $$;
CREATE FUNCTION has_a_typo() RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
$$ DECLARE i int; BEGIN EXECUTE 'SELEC 1' INTO i; RETURN i; END $$;
CREATE FUNCTION runs_in_parallel() RETURNS int LANGUAGE plpgsql AS
$$ DECLARE i int; BEGIN EXECUTE 'SELECT public.reads()' INTO i; RETURN i; END $$;
CREATE FUNCTION with_cursor() RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
$$ DECLARE c CURSOR FOR SELECT a + 1 FROM public.secret; i int; BEGIN OPEN c; FETCH c INTO i; RETURN i; END $$;
CREATE ROLE alice LOGIN;
CREATE ROLE bob;
GRANT bob TO alice;
GRANT SELECT ON secret TO alice, bob;
CREATE ROLE auditor;
});
unlink($node->data_dir . '/pg_hba.conf');
$node->append_conf('pg_hba.conf', "local all all trust\nhost all alice 127.0.0.1/32 trust\n");
$node->reload;

# run(settings, statement ...): in a session that has parallel workers do what it
# can; returns what it has printed.
sub run
{
	my ($settings, @statements) = @_;
	my ($out, $err) = ('', '');

	$node->psql(
		'postgres', join(";\n", 'SET ' . forced_parallel($node) . ' = on', @$settings, @statements) . ';',
		stdout => \$out,
		stderr => \$err,
		on_error_stop => 0,
		connstr => $node->connstr('postgres') . ' host=127.0.0.1 user=alice application_name=app');
	return "$out$err";
}

# Lines that steno cat shows in a format.
sub run_steno
{
	my ($format, @args) = @_;
	my ($code, $out, $err) = steno_result('cat', '--format', $format, @args, trail($node));

	die "steno cat failed: $err" if $code != 0;
	return $out;
}

# The records of the last run of a session with this marker: the leader's statement, and
# nested statements of any process.
sub marked
{
	my ($marker) = @_;
	my @leaders = statements($node, text => qr/\Q$marker\E/);
	my ($leader) = @leaders;
	my @nested = grep { ($_->{leader} // $_->{session}) eq $leader->{session} && $_->{statement} == $leader->{statement} && $_->{depth} }
	  statements($node, user => 'alice');

	return ($leader, @nested);
}

# A function reads a table in a worker.
{
	my ($leader, @nested);

	is(run([ q{SET steno.app_user = 'carol'} ], 'SELECT 1', 'SET ROLE bob', 'SELECT reads() /* in a worker */'), "1\n42", 'the function has run');
	($leader, @nested) = marked('/* in a worker */');
	is(scalar @nested, 1, 'its statement is recorded once');
	my $r = $nested[0];
	like($r->{text}, qr/SELECT max\(a\) FROM public\.secret/, 'its text');
	isnt($r->{session}, $leader->{session}, 'in a session of its own');
	is($r->{leader}, $leader->{session}, "which names the leader's");
	isnt($r->{pid}, $leader->{pid}, 'a process of its own');
	is_deeply([ map { $_->{name} } @{ $r->{relations} } ], ['public.secret'], 'its relation');
	is($r->{depth}, 1, 'its depth');
	is($r->{substatement}, 1, 'its substatement');
	is($r->{leader_substatement}, undef, 'called by the statement of the client itself');
	foreach my $field (qw(user role app_user database application client))
	{
		is($r->{$field}, $leader->{$field}, "$field as of the leader");
	}
	is($r->{role}, 'bob', 'the role that was set');
	is($r->{app_user}, 'carol', 'the user that the application has named');
	like($r->{client}, qr/^127\.0\.0\.1:/, 'the client');
	is($leader->{text}, 'SELECT reads() /* in a worker */', "the leader's statement");
	is(scalar(statements($node, text => $leader->{text})), 1, 'is recorded once');
}

# The program shows them with their leader's session.
{
	my ($leader, @nested) = marked('/* in a worker */');
	my @shown = grep { /"kind":"statement"/ } lines($node, '--session', $leader->{session});
	my $out;

	is(scalar(grep { /"leader":"\Q$leader->{session}\E"/ } @shown), 1, '--session chooses its workers, too');
	is(scalar(lines($node, '--session', $nested[0]{session})), 1, '--session with that of a worker');
	$out = run_steno('pgaudit', '--session', $leader->{session});
	like($out, qr/^AUDIT: SESSION,(\d+),1,READ,SELECT,,,SELECT reads\(\).*^AUDIT: SESSION,\1,\d+,READ,SELECT,,,[^\n]*max\(a\)/ms,
		"pgaudit's lines are of one statement");
}

# What is not recorded of workers.
{
	my @all = records($node, leader => qr/./);

	is_deeply([ grep { $_->{kind} ne 'statement' } @all ], [], 'workers record statements alone');
	run([], 'SELECT count(*) FROM generate_series(1, 10) /* nothing nested */');
	is(scalar(records($node, leader => qr/./)), scalar @all, 'a worker that runs no statement records nothing');
}

# Depth, and the statement in the leader that has workers.
{
	my ($leader, @nested);

	run([], 'SELECT in_two_steps() /* deep */');
	($leader, @nested) = marked('/* deep */');
	is_deeply([ sort map { $_->{depth} } @nested ], [ 1, 2 ], 'nested statements in a worker');
	is_deeply([ sort map { $_->{substatement} } @nested ], [ 1, 2 ], 'are numbered');
	is(scalar(grep { !defined $_->{leader} } @nested), 0, 'all of them ran there');

	run([], 'SELECT reads_as_owner() /* definer */');
	($leader, @nested) = marked('/* definer */');
	is($nested[0]{role}, getpwuid($>), 'the role of a function that runs as its owner');
	is($nested[0]{user}, 'alice', 'and the user');

	run([], 'SELECT runs_in_parallel() /* nested leader */');
	($leader, @nested) = marked('/* nested leader */');
	my ($outer) = grep { !defined $_->{leader} } @nested;
	my ($inner) = grep { defined $_->{leader} } @nested;
	is($outer->{text}, 'SELECT public.reads()', 'a nested statement with a worker');
	is($inner->{leader_substatement}, $outer->{substatement}, 'the worker names it');
	is($inner->{depth}, 2, 'and counts its depth');

	run([], 'SELECT with_cursor() /* cursor */');
	($leader, @nested) = marked('/* cursor */');
	is(scalar @nested, 1, "a cursor's query in a worker");
	is($nested[0]{depth}, 1, 'is nested');
}

# Failures have one record for each statement that fails.
{
	my ($leader, @nested);

	like(run([], 'SELECT divides(0) /* fails */'), qr/division by zero/, 'a failure in a worker');
	($leader, @nested) = marked('/* fails */');
	is($leader->{outcome}, 'error', 'the leader fails');
	is(scalar(statements($node, text => qr{/\* fails \*/})), 1, 'once');
	is(scalar @nested, 1, 'the nested statement is recorded once');
	is($nested[0]{outcome}, 'error', 'its outcome');
	is($nested[0]{sqlstate}, '22012', 'its SQLSTATE');

	run([], 'SELECT has_a_typo() /* typo */');
	($leader, @nested) = marked('/* typo */');
	is($leader->{sqlstate}, '42601', 'a syntax error in a worker');
	is_deeply([ map { "$_->{text}: $_->{sqlstate}" } @nested ], ['SELEC 1: 42601'], 'is recorded once');
}

# Settings of the leader's session hold in its workers.
{
	my ($leader, @nested);
	my $connstr = $node->connstr('postgres');
	my $super = sub {
		my ($settings, $statement) = @_;

		$node->safe_psql('postgres', join(";\n", 'SET ' . forced_parallel($node) . ' = on', @$settings, $statement) . ';');
		flush($node);
		return grep { defined $_->{leader} } records($node);
	};
	my $before = () = $super->([], 'SELECT 1');

	my @after = $super->([ 'SET steno.log_nested = off' ], 'SELECT reads()');
	is(scalar @after, $before, 'log_nested = off');
	@after = $super->([ q{SET steno.log = 'none'} ], 'SELECT reads()');
	is(scalar @after, $before, 'log = none');
	$node->safe_psql('postgres', 'GRANT SELECT ON secret TO auditor');
	@after = $super->([ q{SET steno.log = 'none'}, q{SET steno.role = 'auditor'} ], 'SELECT reads() /* role */');
	is(scalar @after, $before + 1, 'a table that steno.role audits');
	is_deeply(relations_of($after[-1]), [ { name => 'public.secret', type => 'table', access => 'select', audited => JSON::PP::true } ],
		'is marked so');
	is(scalar(grep { $_->{kind} eq 'setting' && defined $_->{leader} } records($node)), 0,
		'changes of settings are recorded by the leader alone');
}

# CREATE INDEX runs functions in its workers.
{
	my ($leader, @nested);

	$node->safe_psql(
		'postgres', q{
CREATE FUNCTION looks(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS
$$ BEGIN PERFORM pg_sleep(0.002); RETURN (SELECT i + count(*) FROM public.secret WHERE a = 0); END $$;
CREATE TABLE big AS SELECT i, repeat('x', 1900) AS filler FROM generate_series(1, 300) i;
ALTER TABLE big ALTER filler SET STORAGE plain, SET (parallel_workers = 2);
SET maintenance_work_mem = '256MB';
CREATE INDEX built ON big (looks(i));
});
	($leader) = statements($node, text => qr/^CREATE INDEX built/);
	@nested = statements($node, text => qr/^\(SELECT i \+ count/);
	is(scalar @nested, 300, 'what a function of an index has run');
	cmp_ok(scalar(grep { ($_->{leader} // '') eq $leader->{session} } @nested), '>', 0, 'workers did some of it');
	is( scalar(grep { $_->{statement} != $leader->{statement} || $_->{depth} != 1 } @nested),
		0, 'all of it belongs to CREATE INDEX');
}

# steno.sync, rules, and statements of a mandatory class.
{
	my @start;

	$node->append_conf('postgresql.conf', q{
steno.sync = 'read'
steno.rules_file = 'rules.conf'
});
	$node->append_conf('rules.conf', "record all all all 127.0.0.1/32 all all public.secret\n");
	$node->restart;
	run([], 'SELECT reads() /* synced */');
	my ($leader, @nested) = marked('/* synced */');
	is(scalar @nested, 1, 'with steno.sync');
	@start = records($node, kind => 'start', leader => $leader->{session});
	is(scalar @start, 1, 'a start record before it');
}

$node->stop;
like(verify_ok($node, 'the trail is whole'), qr/^sessions  \d+, 0 of them open$/m, 'and every session has ended');
gapless($node, 'no session has gaps');
done_testing();
