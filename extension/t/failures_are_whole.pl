
# Failures whose message reaches the end of the ring or its unread records, and failures that are not
# in the server's log.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
# a writer that cannot get on is a failure, and not waited for without end
my $node = new_node(
	'main',
	start => 0,
	conf => qq{
steno.ring_size = 16kB
steno.compression = none
statement_timeout = '${PostgreSQL::Test::Utils::timeout_default}s'
});
my $c;

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
value($node, q{
CREATE FUNCTION fails(number int, size int) RETURNS void LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% %', number, repeat('m', size); END $$;
CREATE TABLE t (a int);
INSERT INTO t VALUES (0);
});

# The numbers of the failures that are recorded; each must be as it was.
sub recorded
{
	my (%size) = @_;
	my (@numbers, @wrong);

	foreach my $r (sort { $a->{seq} <=> $b->{seq} } statements($node, pid => $c->{pid}, sqlstate => 'P0001'))
	{
		my ($number, $size) = $r->{text} =~ /^SELECT fails\((\d+), (\d+)\)$/;

		push @wrong, $r if !defined $number || $r->{message} ne "$number " . 'm' x $size;
		push @numbers, $number;
	}
	is_deeply([ @wrong[ 0 .. ($#wrong > 2 ? 2 : $#wrong) ] ], [], 'each has its message');
	return \@numbers;
}

# ---- messages of all sizes, all around the ring ----
{
	my $count = 400;

	$c = Steno::Client->new($node, application_name => 'around');
	$c->query("SELECT fails($_, " . $_ * 37 % 5000 . ')') foreach 1 .. $count;
	$c->quit;
	is_deeply(recorded(), [ 1 .. $count ], 'each failure is there');
}

# ---- a full ring ----
{
	my (@there, $dropped);

	$c = Steno::Client->new($node, application_name => 'full');
	$c->query(q{SET steno.delivery = 'drop'});
	flush($node);
	$faults->set('hold_write');
	$c->query("SELECT fails($_, 700)") foreach 1 .. 100;
	$faults->unset('hold_write');
	flush($node);
	$c->query('SELECT 1');
	$c->quit;
	@there = @{ recorded() };
	$dropped += $_->{extra}{count} foreach records($node, pid => $c->{pid}, kind => 'gap');
	cmp_ok(scalar @there, '>=', 5, 'those that found room are there');
	is(@there + $dropped, 100, 'the others are counted');
}

# ---- a ring that is full of what nobody has read ----
# The message of the last failure has room behind its record, or reaches the ring's
# unread beginning, or has none: as much is left as the round says.
{
	my $writer = writer_pid($node);
	my $pad = 'x' x 1000;
	my (@there, @wrong, $dropped);

	$c = Steno::Client->new($node, application_name => 'unread');
	$c->query(q{SET steno.delivery = 'drop'});
	foreach my $round (1 .. 20)
	{
		flush($node);
		stop_process($writer);
		$c->query("SELECT '$round.$_ $pad'") foreach 1 .. 5;
		$c->query("SELECT '$round.6 " . 'x' x (60 * $round) . q{'});
		$c->query("SELECT fails($round, 1500)");
		continue_process($writer);
	}
	flush($node);
	$c->query('SELECT 1');
	$c->quit;
	@there = grep { $_->{text} =~ /^SELECT (?:'|fails)/ } statements($node, pid => $c->{pid});
	@wrong = grep {
		!($_->{outcome} eq 'ok' && $_->{text} =~ /^SELECT '\d+\.\d+ x+'$/
			|| $_->{outcome} eq 'error' && $_->{text} =~ /^SELECT fails\((\d+), 1500\)$/ && $_->{message} eq "$1 " . 'm' x 1500)
	} @there;
	is_deeply([ map { $_->{text} } @wrong ], [], 'unread: what is there is whole');
	$dropped += $_->{extra}{count} foreach records($node, pid => $c->{pid}, kind => 'gap');
	cmp_ok($dropped, '>', 0, 'unread: some found no room');
	cmp_ok(scalar(grep { $_->{outcome} eq 'error' } @there), '>', 0, 'unread: some did');
	is(@there + $dropped, 20 * 7, 'unread: each is there, or counted');
}

# ---- not for the server's log ----
{
	my @sql = (
		'SELECT 1/a FROM t', 'INSERT INTO t SELECT 1/a FROM t', 'SELECT fails(1, 10)',
		'DO $$ BEGIN PERFORM 1/a FROM t; END $$', 'DO $$ BEGIN PERFORM 1/0 FROM t; END $$',
		'DO $$ BEGIN EXECUTE $q$DO $d$ BEGIN PERFORM 1/a FROM t; END $d$ $q$; END $$');
	my %seen;

	$c = Steno::Client->new($node, application_name => 'panic', options => '-c log_min_messages=panic');
	foreach my $sql (@sql)
	{
		$c->query($sql);
		$c->query('SELECT 1');
	}
	$c->quit;
	foreach my $r (statements($node, pid => $c->{pid}, outcome => 'error'))
	{
		push @{ $seen{ $r->{text} } }, "$r->{sqlstate} $r->{message}" if !$r->{depth};
	}
	is_deeply(
		\%seen,
		{
			$sql[0] => ['22012 division by zero'],
			$sql[1] => ['22012 division by zero'],
			$sql[2] => [ 'P0001 1 ' . 'm' x 10 ],
			map { ($sql[$_] => ['22012 division by zero']) } 3 .. 5
		},
		'failures that are not reported');
	is(scalar(statements($node, pid => $c->{pid}, text => 'SELECT 1', statement => $_ * 2)), 1, 'what follows is a statement of its own')
	  foreach 1 .. @sql;

	# errors that are caught are not those of the statement
	$c = Steno::Client->new($node, application_name => 'caught', options => '-c log_min_messages=panic');
	$c->query('DO $$ BEGIN BEGIN PERFORM 1/a FROM t; EXCEPTION WHEN others THEN NULL; END; ROLLBACK; PERFORM 2; END $$');
	$c->quit;
	is_deeply(
		[ map { [ $_->{depth} // 0, $_->{outcome} ] } sort { $a->{seq} <=> $b->{seq} } grep { $_->{text} =~ /^(DO|SELECT)/ } statements($node, pid => $c->{pid}) ],
		[ [ 1, 'error' ], [ 1, 'ok' ], [ 0, 'ok' ] ], 'a failure that is caught, and a rollback');
}
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();
