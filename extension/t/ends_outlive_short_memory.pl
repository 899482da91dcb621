
# There is no memory for the records at the end of a transaction, or of a part of it, or for what is to be known of a
# statement's relations: the server continues, no statement fails, a commit stays a commit, and the statement has its
# record, without the parts for which there was no memory.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $short = "$folder/short";

system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', '-o', "$folder/memory.so", dirname(__FILE__) . '/memory.c');

my $node = new_node('main', start => 0, conf => "steno.ring_size = 4MB\nsteno.log_nested = off\nsteno.mandatory = 'none'\nmax_prepared_transactions = 120\n");
{
	local $ENV{LD_PRELOAD} = "$folder/memory.so";
	local $ENV{STENO_MEMORY} = $short;
	$node->start;
}
value($node, 'CREATE EXTENSION pg_steno');

# What makes so many objects that the list of them needs a piece of memory of its own; whoever runs
# it waits then, with a lock, until memory is short.
my $size = 100000;    # blocks of the server's own memory are smaller
value($node, q{
CREATE TABLE t (i int);
CREATE FUNCTION makes(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR n IN 1 .. 300 LOOP
		EXECUTE format('CREATE FUNCTION %I(%s) RETURNS int LANGUAGE sql AS ''SELECT 1''',
			what || n, array_to_string(array_fill('timestamp with time zone'::text, ARRAY[20]), ','));
	END LOOP;
	PERFORM pg_advisory_xact_lock(1);
END $$;
CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM makes(format('%s_', new.i));
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit();
});

my $made = 0;
my $other = Steno::Client->new($node, application_name => 'other');

# Runs it, with memory short as soon as it waits; returns the answer.
sub run_short
{
	my ($c, $sql) = @_;
	my $answer;

	$other->query('SELECT pg_advisory_lock(1)');
	$c->put('Q', "$sql\0")->send_all;
	wait_until 'it waits', sub { value($node, "SELECT count(*) FROM pg_locks WHERE pid = $c->{pid} AND NOT granted") == 1 };
	append_to_file("$short.new", "$c->{pid} $size\n");
	rename "$short.new", $short or die;
	$other->query('SELECT pg_advisory_unlock(1)');
	$answer = $c->finish;
	cmp_ok(() = slurp_file($short) =~ /^refused$/mg, '>', 0, "$c->{what}: memory was short");
	unlink $short;
	return $answer;
}

foreach my $case (
	[ 'COMMIT', [ 'BEGIN', 'INSERT INTO t VALUES (1)' ], 'COMMIT' ],
	[ 'PREPARE TRANSACTION', [ 'BEGIN', 'INSERT INTO t VALUES (2)' ], q{PREPARE TRANSACTION 'two'} ],
	[ 'a statement that commits', [], q{DO $$BEGIN PERFORM makes('three'); END$$} ])
{
	my ($what, $before, $sql) = @$case;
	my $c = Steno::Client->new($node, application_name => $what);
	my ($answer, $r);

	$c->{what} = $what;
	$c->query($_) foreach @$before;
	$answer = run_short($c, $sql);
	ok($answer, "$what: the server goes on");
	is($answer->{sqlstate}, undef, "$what: nothing fails");
	$c->quit;
	value($node, q{COMMIT PREPARED 'two'}) if $what eq 'PREPARE TRANSACTION';
	is(value($node, "SELECT count(*) FROM pg_proc WHERE pronargs = 20"), $made += 300, "$what: what it has done is there");
	$r = the_record($node, $what, kind => 'statement', application => $what, text => $sql);
	is($r->{outcome}, 'ok', "$what: with its outcome");
	ok($r->{class} && $r->{command}, "$what: with class and command");
}
$other->quit;

# Runs statements of a session while it gets no memory of these sizes.
sub run_between
{
	my ($c, $least, $most, @sql) = @_;
	my @failed;

	append_to_file("$short.new", "$c->{pid} $least $most\n");
	rename "$short.new", $short or die;
	foreach my $sql (@sql)
	{
		my $answer = $c->query($sql);

		push @failed, [ $sql, $answer->{sqlstate} ] if $answer->{sqlstate};
	}
	is_deeply(\@failed, [], 'no statement fails') or diag explain \@failed;
	cmp_ok(() = slurp_file($short) =~ /^refused$/mg, '>', 0, 'memory was short');
	unlink $short;
}

# ---- subtransactions: the list of those that have begun, 24 bytes each, cannot grow ----
{
	my $c = Steno::Client->new($node, application_name => 'deep');
	my %rolled_back;

	$c->query($_) foreach 'CREATE TABLE deep (a int)', 'BEGIN', 'INSERT INTO deep VALUES (1)';
	$c->query(join ';', map { "SAVEPOINT s$_" } 1 .. 8192);
	run_between(
		$c, 8192 * 2 * 24, 8192 * 2 * 24 + 200,
		'INSERT INTO deep VALUES (2)',
		'SAVEPOINT unknown',
		'INSERT INTO deep VALUES (3)',
		'SAVEPOINT inside',
		'INSERT INTO deep VALUES (4)',
		'ROLLBACK TO inside',
		'INSERT INTO deep VALUES (5)',
		'ROLLBACK TO unknown',
		'INSERT INTO deep VALUES (6)',
		'ROLLBACK TO s8192',
		'INSERT INTO deep VALUES (7)',
		'RELEASE s8192');
	$c->query($_) foreach 'SAVEPOINT known', 'INSERT INTO deep VALUES (8)', 'ROLLBACK TO known', 'COMMIT';
	$c->quit;
	is(value($node, 'SELECT string_agg(a::text, $$ $$ ORDER BY a) FROM deep'), '1 7', 'what was rolled back');
	foreach my $r (records($node, application => 'deep', kind => 'statement', text => qr/^INSERT/))
	{
		$rolled_back{ $r->{text} =~ /(\d)/ ? $1 : '' } = $r->{rolled_back} ? 1 : 0;
	}
	is_deeply(
		\%rolled_back,
		{ 1 => 0, 2 => 1, 3 => 1, 4 => 1, 5 => 1, 6 => 1, 7 => 0, 8 => 1 },
		'the statements that the known ones took back, and no others') or diag explain \%rolled_back;
	is(scalar(grep { !defined $_->{extra}{first_seq} } records($node, application => 'deep', kind => 'subtransaction')), 4,
		'those that are not known have records that say so');
}

# ---- a prepared transaction, which is looked up in a list of all ----
{
	my $c = Steno::Client->new($node, application_name => 'prepared');
	my @ends;

	foreach my $n (1 .. 100)
	{
		$c->query($_) foreach 'BEGIN', "INSERT INTO deep VALUES (100 + $n)", "PREPARE TRANSACTION 'p$n'";
	}
	run_between($c, 20_000, 40_000, q{COMMIT PREPARED 'p7'}, q{ROLLBACK PREPARED 'p8'});
	$c->query("COMMIT PREPARED 'p$_'") foreach 1 .. 6, 9 .. 100;
	$c->quit;
	is(value($node, 'SELECT count(*) FROM deep WHERE a > 100'), 99, 'they have their ends');
	@ends = records($node, application => 'prepared', kind => 'transaction');
	is_deeply(
		[ sort map { $_->{extra}{gid} } grep { $_->{extra}{event} =~ / prepared$/ && !defined $_->{xid} } @ends ],
		[ 'p7', 'p8' ],
		'those that could not be looked up have no ID, and all others have one');
}
# ---- statements with many relations ----
my $many = 600;
my @names = map { sprintf 'many_relations_of_statements_%03d', $_ } 1 .. $many;

value($node, join ';', map { "CREATE TABLE $_ (i int)" } @names);

# Runs a statement while there is no memory of these sizes; returns its record.
sub record_between
{
	my ($name, $least, $most, $sql, @before) = @_;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->query($_) foreach 'SELECT 1', @before;
	run_between($c, $least, $most, $sql);
	$c->quit;
	return the_record($node, $name, kind => 'statement', application => $name, text => $sql);
}
{
	my $sql = 'SELECT ARRAY[' . join(', ', map { "(SELECT i FROM $_)" } @names) . ']';
	my $access = 48;    # bytes that a session has for each relation of the statement
	my $r = record_between('list', $many * $access, ($many + 2) * $access + 200, $sql);

	is(scalar @{ $r->{relations} }, 32, 'no memory for the list of relations: the first ones are there');
	is($r->{extra}{relations_omitted}, $many - 32, 'and the others are counted');

	# a relation takes up to 47 bytes of the shape, and its column 5
	$r = record_between('shape', $many * 52, $many * 52 + 500, $sql);
	is_deeply($r->{relations} // [], [], 'no memory for the shape: there are no relations');
	is($r->{extra}{relations_omitted}, $many, 'and all are counted');

	# The list of those that a utility statement uses grows to 512.  The session has used the tables before, so what the
	# server itself keeps of them need not grow.
	$r = record_between('utility', 512 * $access, 512 * $access + 100, 'TRUNCATE ' . join(', ', @names), $sql);
	is(scalar @{ $r->{relations} }, 256, 'a utility statement has those for which there was memory');
	is($r->{extra}{relations_omitted}, $many - 256, 'and the others are counted');
}

# ---- the relations in a view ----
{
	my $c = Steno::Client->new($node, application_name => 'view');
	my $sql = 'SELECT max(cardinality(a)) FROM all_of_them';    # since PostgreSQL 19, count(a) would not read what is never NULL

	value($node, 'CREATE VIEW all_of_them AS SELECT ARRAY[' . join(', ', map { "(SELECT i FROM $_)" } @names) . '] AS a');
	run_between($c, 16 * $many + 20, 16 * $many + 100, "$sql -- without memory");
	$c->query("$sql -- with memory");
	$c->quit;
	is_deeply(
		[ map { scalar grep { ($_->{via} // '') eq 'public.all_of_them' } @{ $_->{relations} } } statements($node, application => 'view') ],
		[ 0, $many ],
		'no memory for the relations in a view: the next statement has them again');
}

# ---- what steno.role has been granted on columns, in a list with room for all of them ----
{
	my $columns = 1200;
	my $size = (value($node, 'SHOW server_version_num') < 160000 ? 8 : 16) * ($columns + 7);    # with the system columns
	my $c;

	value($node, 'CREATE ROLE auditor; CREATE TABLE wide (' . join(', ', map { "c$_ bool" } 1 .. $columns) . ')');
	value($node, 'GRANT INSERT (c1) ON wide TO auditor');
	$c = Steno::Client->new($node, application_name => 'granted');
	$c->query($_) foreach q{SET steno.log = 'none'}, q{SET steno.role = 'auditor'};
	run_between($c, $size + 20, $size + 100, 'INSERT INTO wide (c2) VALUES (true)');    # the server allocates a little less
	$c->query($_) foreach 'INSERT INTO wide (c3) VALUES (true)', 'INSERT INTO wide (c1) VALUES (true)';
	$c->quit;
	is_deeply(
		[ map { $_->{text} } grep { $_->{text} =~ /wide/ } statements($node, application => 'granted') ],
		[ 'INSERT INTO wide (c2) VALUES (true)', 'INSERT INTO wide (c1) VALUES (true)' ],
		'no memory for the columns that are granted: any of them is audited, until there is memory again');
}

# ---- values that are printed in a subtransaction: none is begun without the memory for its beginning ----
{
	my $c = Steno::Client->new($node, application_name => 'printed');
	my $sql = q{DO $$DECLARE m mood := 'bad'; n int; BEGIN
		BEGIN SELECT count(*) INTO n FROM deep WHERE 'good'::mood <> m; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught'; END; END$$};

	value($node, q{CREATE TYPE mood AS ENUM ('good', 'bad')});
	$c->query('SET steno.log_nested = on');
	run_between($c, 65_536, 66_000, $sql);
	is_deeply($c->query($sql)->{notices}, [], 'nothing is caught');
	$c->quit;
	is_deeply(
		[ map { $_->{params}[-1] } grep { $_->{depth} && $_->{text} =~ /mood/ } statements($node, application => 'printed') ],
		[ '<not recorded>', 'bad' ],
		'no memory for a subtransaction: the value is left out');
}

# ---- which rules name a relation, as a list of their numbers ----
{
	my $rules = 6000;
	my $c;

	append_to_file($node->data_dir . '/pg_steno_rules.conf',
		"skip all all all all read public.deep\n" . "record all all all all read,error public.wide text=off\n" x $rules);
	$node->reload;
	wait_until 'the rules are there', sub { grep { $_->{extra}{name} eq 'steno.rules_file' } records($node, kind => 'setting') };
	$c = Steno::Client->new($node, application_name => 'ruled');
	$c->query(q{SET steno.log = 'none'});
	run_between($c, 4 * $rules, 4 * $rules + 200, 'SELECT c2 FROM wide', 'SELECT 1 FROM deep');
	$c->query($_) foreach 'SELECT c3 FROM wide', 'SELECT 2 FROM deep';
	$c->quit;
	is_deeply(
		[ map { ($_->{text} // 'hidden') . ': ' . join ',', map { $_->{name} } @{ $_->{relations} } } statements($node, application => 'ruled', class => 'read') ],
		[ 'hidden: public.wide', 'hidden: public.deep', 'hidden: public.wide' ],
		'no memory for the rules that name a relation: what one of them may ask for is recorded, and what one may hide is hidden');

	# The first relations of a session, and their places in its cache.  They have numbers instead of names.
	$c = Steno::Client->new($node, application_name => 'first');
	$c->query(q{SET steno.log = 'none'});
	run_between($c, 14_000, 16_383, 'SELECT c2 FROM wide', 'SELECT 1 FROM deep');
	$c->query('SELECT c3 FROM wide');
	$c->quit;
	is_deeply(
		[ map { ($_->{text} // 'hidden') . ': ' . join ',', map { $_->{name} =~ s/^\d+$/number/r } @{ $_->{relations} } } statements($node, application => 'first', class => 'read') ],
		[ 'hidden: number', 'hidden: number', 'hidden: public.wide' ],
		'no memory for the relations: the same');
	unlink $node->data_dir . '/pg_steno_rules.conf';
}

unlike(slurp_file($node->logfile), qr/PANIC|was terminated by signal|TRAP/, 'no process crashes');
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
