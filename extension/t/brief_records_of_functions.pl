
# Records of the queries that a function runs again and again refer to their texts, which are stored once, beside the
# ring.  They must say what other records of these queries say, and stay readable when other queries take that
# place, and after the server has gone.

use strict;
use warnings;

use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.writers = 1\nsteno.ring_size = 256kB\nsteno.start_after = -1\nsteno.log = 'all, -misc_set'");

# More queries than there are templates; one of them has values without NULLs, of any length, and one writes.
sub define
{
	my ($what) = @_;

	$node->safe_psql('postgres', <<~"END");
		CREATE OR REPLACE FUNCTION inner_one(i int) RETURNS int LANGUAGE plpgsql AS \$\$
		BEGIN
			RETURN (SELECT max(balance) FROM account WHERE id = i AND '$what' <> 'inner');
		END \$\$;
		CREATE OR REPLACE FUNCTION busy(n int, label text) RETURNS int LANGUAGE plpgsql AS \$\$
		DECLARE
			unused int;
			x int := 1006;
		BEGIN
			FOR i IN 1 .. n LOOP
				x := (SELECT balance FROM account WHERE id = i AND label <> '$what 1');
				x := (SELECT balance + 1002 FROM account WHERE id = i AND label <> '$what 2');
				x := (SELECT balance + 1003 FROM account WHERE id = i AND label <> '$what 3');
				PERFORM inner_one(i);
				x := (SELECT balance + 1005 FROM account WHERE id = i AND label <> '$what 5');
				x := (SELECT balance + 1006 FROM account WHERE id = i AND label <> '$what 6');
				UPDATE account SET balance = balance WHERE id = i AND label <> '$what 7';
			END LOOP;
			RETURN x;
		END \$\$;
		END
	return;
}

$node->safe_psql('postgres',
	'CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account SELECT i, 0 FROM generate_series(1, 1000) i');
define('first');
my $client = Steno::Client->new($node, application_name => 'functions');

sub busy
{
	my ($n, $label) = @_;

	my $result = $client->query("SELECT busy($n, '$label')");
	die $result->{error}[1] if $result->{error};
	return;
}

# What the trail has of the queries of the functions: those of each call of busy().
sub calls_of
{
	my ($where) = @_;
	my @calls;
	my $seq = 0;

	foreach my $r (sort { $a->{seq} <=> $b->{seq} } records($where, application => 'functions'))
	{
		fail("record $r->{seq} after $seq") if $r->{seq} != $seq + 1;
		$seq = $r->{seq};
		next if $r->{kind} ne 'statement';
		push @{ $calls[ $r->{statement} - 1 ] }, $r;
	}
	return @calls;
}

# Each call's records, with what depends on the iteration left out, must be those of its first iteration.
sub agree
{
	my ($where, $name, @wanted) = @_;
	my @calls = calls_of($where);

	is(scalar @calls, scalar @wanted, "$name: calls");
	foreach my $number (0 .. $#wanted)
	{
		my ($n, $label, $what) = @{ $wanted[$number] };
		my @nested = sort { $a->{substatement} <=> $b->{substatement} } grep { ($_->{depth} // 0) > 0 } @{ $calls[$number] };
		my (@is, @should, @first);

		is(scalar @nested, 8 * $n, "$name: call $number has its queries");
		foreach my $i (1 .. $n)
		{
			foreach my $part (0 .. 7)
			{
				my $r = $nested[ 8 * ($i - 1) + $part ] or last;
				# i is the only one that changes
				my @params = map { defined $_ ? $_ eq $i ? 'i' : $_ : 'NULL' } @{ $r->{params} // [] };
				my $said = join '|', (map { $_ // '' } @$r{qw(depth class text outcome rows)}), @params,
				  JSON::PP->new->canonical->encode($r->{relations} // []);

				$first[$part] = $said if $i == 1;
				push @is, "$r->{substatement} $said" . ($part == 7 ? defined $r->{xid} ? ' xid' : ' no xid' : '');
				push @should, (8 * ($i - 1) + $part + 1) . " $first[$part]" . ($part == 7 ? ' xid' : '');
			}
		}
		is_deeply(\@is, \@should, "$name: call $number has the same in all iterations");
		is(scalar(grep { $_->{text} =~ /'\Q$what\E (?:\d|inner)/ || $_->{text} =~ /inner/ } @nested), 8 * $n, "$name: call $number has its own texts");
		is_deeply([ grep { !grep { defined $_ && $_ eq $label } @{ $_->{params} // [] } } grep { $_->{text} =~ /label/ } @nested ],
			[], "$name: call $number has its values");
	}
	return;
}

my @wanted;

# how often the texts of the first function stand in the ring file
sub in_ring_file
{
	my ($file) = ring_files($node);
	my $bytes = slurp_file($file);

	return map { my $text = "'first $_'"; $_ => scalar(() = $bytes =~ /\Q$text\E/g) } 1 .. 3, 5 .. 7;
}

foreach (1 .. 2)
{
	busy(50, 'any label');
	push @wanted, [ 50, 'any label', 'first' ];
	flush($node);
}
agree($node, 'what was drained', @wanted);

# now nothing is drained, until the server dies
stop_process(writer_pid($node));
my %before = in_ring_file();
busy(20, 'a longer label');
push @wanted, [ 20, 'a longer label', 'first' ];
# there are fewer templates than queries, and which of these get one depends on where their plans are
my %after = in_ring_file();
cmp_ok(scalar(grep { $after{$_} < $before{$_} + 5 } keys %after), '>=', 1, 'the text of brief records stands beside the ring');
# another function takes the place, with plans that may stand where those of the first one stood
define('other');
busy(20, 'x');
push @wanted, [ 20, 'x', 'other' ];
kill_server($node);

my $copy = recovered_copy($node);
agree($copy, 'what steno recover read from the ring', @wanted);

$node->start;
wait_until 'the server has drained it', sub { scalar(my @files = ring_files($node)) == 1 };
agree($node, 'what the server drained', @wanted);
verify_ok($node, 'the trail is whole');

done_testing();
