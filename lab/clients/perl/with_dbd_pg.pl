# DBD::Pg: prepared by the server or by the driver, COPY, savepoints, asynchronous queries, failures.

use strict;
use warnings;

use DBD::Pg qw(:async);
use DBI;
use Time::HiRes qw(sleep);

foreach my $by_server (0, 1)
{
	my $db = DBI->connect("dbi:Pg:dbname=$ENV{PGDATABASE}", $ENV{PGUSER}, '',
		{ RaiseError => 1, PrintError => 0, AutoCommit => 1, pg_server_prepare => $by_server });
	my $s = $db->prepare('SELECT id, name FROM items WHERE id <= ?');
	foreach my $n (0 .. 9)
	{
		$s->execute($n);
		@{ $s->fetchall_arrayref } == $n or die "not $n rows";
		sleep(0.005);
	}
	$db->do('INSERT INTO log (item, what) VALUES (?, ?)', undef, 1, "it's");
	$db->do('INSERT INTO log (item, what) VALUES (?, ?)', undef, 2, undef);
	$db->selectall_arrayref('SELECT nested(?)', undef, 10);
	$db->do('SELECT 1; SELECT 2') unless $by_server;
	$db->begin_work;
	$db->do('UPDATE items SET ok = NOT ok WHERE id < ?', undef, 5);
	$db->pg_savepoint('s');
	eval { $db->do('SELECT 1 / ?::int', undef, 0); die "no failure\n" };
	die $@ if $@ eq "no failure\n";
	$db->pg_rollback_to('s');
	sleep(0.03);
	$db->commit;
	$db->do('COPY log (item, what) FROM STDIN');
	$db->pg_putcopydata("1\tcopied\n");
	$db->pg_putcopydata("2\tcopied\n");
	$db->pg_putcopyend;
	$db->do('COPY (SELECT id FROM items WHERE id < 50) TO STDOUT');
	my $line;
	1 while $db->pg_getcopydata($line) >= 0;
	$db->do('SELECT pg_sleep(0.02)', { pg_async => PG_ASYNC });
	$db->pg_result;
	foreach my $text ('SELEC 1', 'SELECT * FROM nowhere', 'SELECT fails(3)', 'INSERT INTO deferred VALUES (1)')
	{
		eval { $db->do($text); 1 } and die "$text did not fail";
	}
	undef $s;
	$db->disconnect;
}
