
# What fails while a subscription applies changes, or copies its tables, has a record for each time that it is tried:
# the workers of a subscription that is not told to be disabled report an error only after they have aborted its
# transaction.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', streaming => 'logical',
	conf => "max_worker_processes = 20\nwal_retrieve_retry_interval = 500ms\nlog_line_prefix = '%p %b '\n");
my $superuser = getpwuid($>);
my $connstr = $node->connstr('postgres');

# Functions of triggers, by the name of the table.  SQL that is to be run before, and what mends it.
my @cases = (
	{
		table => 'raised', body => q{RAISE EXCEPTION 'refused by a trigger';},
		message => 'refused by a trigger', sqlstate => 'P0001', trigger => 'ALWAYS' },
	{
		table => 'replica', body => q{RAISE EXCEPTION 'refused by a trigger of replicas';},
		message => 'refused by a trigger of replicas', sqlstate => 'P0001', trigger => 'REPLICA' },
	{
		table => 'raised_again', body => q{BEGIN RAISE EXCEPTION 'raised again'; EXCEPTION WHEN OTHERS THEN RAISE; END;},
		message => 'raised again', sqlstate => 'P0001', trigger => 'ALWAYS' },
	{
		table => 'computed', body => q{new.id := 1 / (new.id - new.id);},
		message => 'division by zero', sqlstate => '22012', trigger => 'ALWAYS' },
	{
		table => 'refused', body => q{INSERT INTO public.secret VALUES (new.id);}, text => 'INSERT INTO public.secret VALUES (new.id)',
		message => 'permission denied for table secret', sqlstate => '42501', trigger => 'ALWAYS', definer => 1, role => 'limited' },
	{
		table => 'unknown', body => q{INSERT INTO public.nosuch VALUES (new.id);}, text => 'INSERT INTO public.nosuch VALUES (new.id)',
		message => 'relation "public.nosuch" does not exist', sqlstate => '42P01', trigger => 'ALWAYS' },
	{
		table => 'unparsed', body => q{EXECUTE 'SELEC 1';}, text => 'SELEC 1',
		message => 'syntax error at or near "SELEC"', sqlstate => '42601', trigger => 'ALWAYS' },
	{
		table => 'executed', body => q{UPDATE public.secret SET id = 1 / (new.id - new.id);}, text => 'UPDATE public.secret SET id = 1 / (new.id - new.id)',
		message => 'division by zero', sqlstate => '22012', trigger => 'ALWAYS' },
	{
		table => 'twice', before => 'INSERT INTO twice VALUES (1)', mend => 'DELETE FROM twice',
		message => $node->pg_version->major < 18 ? 'duplicate key value violates unique constraint "twice_pkey"'
		: 'conflict detected on relation "public.twice": conflict=insert_exists', sqlstate => '23505' },
	{
		table => 'checked', before => 'ALTER TABLE checked ADD CONSTRAINT positive CHECK (id < 0)', mend => 'ALTER TABLE checked DROP CONSTRAINT positive',
		message => 'new row for relation "checked" violates check constraint "positive"', sqlstate => '23514' },
	{
		table => 'deferred', body => q{RAISE EXCEPTION 'refused at the commit';}, deferred => 1,
		message => 'refused at the commit', sqlstate => 'P0001', trigger => 'ALWAYS' },
	{
		table => 'gone', before => 'ALTER TABLE gone RENAME TO away', mend => 'ALTER TABLE away RENAME TO gone',
		message => 'logical replication target relation "public.gone" does not exist', sqlstate => '55000' });
my $tables = join '', map { "CREATE TABLE $_->{table} (id int PRIMARY KEY, n int DEFAULT 1);\n" } @cases, { table => 'copied' };
my @mended;

sub in_sub
{
	my ($sql) = @_;

	return $node->safe_psql('sub', $sql);
}

# The records of a case.
sub failures
{
	my ($case) = @_;

	return statements($node, database => 'sub', outcome => 'error', application => undef, message => $case->{message}, text => $case->{text});
}

$node->safe_psql('postgres', 'CREATE ROLE limited; CREATE DATABASE sub');
$node->safe_psql('postgres', "$tables CREATE PUBLICATION p FOR ALL TABLES; SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
in_sub("$tables CREATE TABLE secret (id int); INSERT INTO secret VALUES (1)");
foreach my $case (@cases)
{
	my $t = $case->{table};

	next if !$case->{body};
	in_sub("CREATE FUNCTION f_$t() RETURNS trigger LANGUAGE plpgsql @{[ $case->{definer} ? 'SECURITY DEFINER' : '' ]} AS
		\$\$ BEGIN $case->{body} RETURN new; END \$\$");
	in_sub("ALTER FUNCTION f_$t() OWNER TO $case->{role}") if $case->{role};
	in_sub(($case->{deferred} ? "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON $t DEFERRABLE INITIALLY DEFERRED" : "CREATE TRIGGER t BEFORE INSERT ON $t")
		. " FOR EACH ROW EXECUTE FUNCTION f_$t(); ALTER TABLE $t ENABLE $case->{trigger} TRIGGER t");
}
in_sub("CREATE SUBSCRIPTION s CONNECTION \$c\$$connstr\$c\$ PUBLICATION p WITH (create_slot = false, copy_data = false)");

# Since PostgreSQL 16, the worker runs as the owner of the table, who is the owner of the subscription here.
foreach my $case (@cases)
{
	my $t = $case->{table};
	my (@found, $r);

	in_sub($case->{before}) if $case->{before};
	$node->safe_psql('postgres', "INSERT INTO $t VALUES (1)");
	wait_until "$t: a record", sub { @found = failures($case) };
	in_sub($case->{mend} // "ALTER TABLE $t DISABLE TRIGGER t");
	wait_until "$t: the change is applied in the end", sub { in_sub("SELECT count(*) FROM $t WHERE id = 1") eq '1' };
	$r = $found[0];
	is(join(' ', map { $_ // '-' } @$r{qw(user role database depth text sqlstate)}),
		join(' ', $superuser, $case->{role} // '-', 'sub', '-', $case->{text} // '-', $case->{sqlstate}), "$t: who, what and why");
}

# The worker that copies a table.
{
	my $case = { message => 'duplicate key value violates unique constraint "copied_pkey"' };
	my $raised = { message => 'refused in a copy' };

	$node->safe_psql('postgres', 'INSERT INTO copied VALUES (1)');
	in_sub('ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s; TRUNCATE copied; INSERT INTO copied VALUES (1)');
	in_sub(q{CREATE FUNCTION f_copied() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused in a copy'; END $$;
CREATE TRIGGER t BEFORE INSERT ON copied FOR EACH ROW EXECUTE FUNCTION f_copied()});
	$node->safe_psql('postgres', 'CREATE PUBLICATION q FOR TABLE copied');
	$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('q', 'pgoutput')");
	in_sub("CREATE SUBSCRIPTION q CONNECTION \$c\$$connstr\$c\$ PUBLICATION q WITH (create_slot = false)");
	wait_until 'a copy that fails: a record', sub { failures($case) };
	in_sub('ALTER TABLE copied ENABLE REPLICA TRIGGER t; TRUNCATE copied');
	wait_until 'a copy whose trigger fails: a record', sub { failures($raised) };
	in_sub('ALTER TABLE copied DISABLE TRIGGER t');
	wait_until 'the table is copied in the end', sub { in_sub('SELECT count(*) FROM copied') eq '1' };
	is((failures($_))[0]{user}, $superuser, 'its user') foreach $case, $raised;
	in_sub('ALTER SUBSCRIPTION q DISABLE; ALTER SUBSCRIPTION q SET (slot_name = NONE); DROP SUBSCRIPTION q');
}

# As often as the server's log says.
$node->stop;
{
	my $log = slurp_file($node->logfile);
	my @all = records($node, database => 'sub', application => undef);
	my (@messages, %failed);

	foreach my $line ($log =~ /^\d+ logical replication .*?worker ERROR:  (.*)$/mg)
	{
		$line =~ s/ at character \d+$//;
		push @messages, $line if $line !~ /could not (?:connect|receive)/;
	}
	is_deeply([ sort map { $_->{message} } grep { $_->{kind} eq 'statement' && $_->{outcome} eq 'error' } @all ],
		[ sort @messages ], 'the failures of the log, each once');

	# those of transactions that had an ID have it, and their number in the session is before that of the transaction's end
	foreach my $r (sort { $a->{seq} <=> $b->{seq} } grep { defined $_->{xid} } @all)
	{
		my $key = "$r->{session} $r->{xid}";

		$failed{$key} = 1 if $r->{kind} eq 'statement' && $r->{outcome} eq 'error';
		ok($failed{$key}, 'an aborted transaction has a failure') if $r->{kind} eq 'transaction' && ($r->{outcome} // '') eq 'error';
	}
	cmp_ok(scalar(keys %failed), '>=', 3, 'some had one');
}
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
