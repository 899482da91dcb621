
# As many parameters as the protocol allows, as ORMs send them in INSERTs of many rows and in IN lists:
# each is recorded with its value, however small the ring is.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $most = 65535;

# Types, values of them that we send, and how steno shows those.
my @types = (
	[ 'int', sub { $_[0] * 7 } ],
	[ 'text', sub { "text of $_[0]" } ],
	[ 'bool', sub { $_[0] % 2 ? 't' : 'f' } ],
	[ 'numeric', sub { "$_[0].5" } ],
	[ 'uuid', sub { sprintf '00000000-0000-0000-0000-%012x', $_[0] } ],
	[ 'bytea', sub { sprintf '\\x%06x', $_[0] }, sub { sprintf '\\\\x%06x', $_[0] } ],
	[ 'bigint', sub { -$_[0] } ],
	[ 'date', sub { sprintf '20%02d-01-31', $_[0] % 100 } ],
	[ 'int[]', sub { "{$_[0],1}" } ],
	[ 'varchar', sub { '' } ]);

# What is sent and what is shown of parameters of these types; some are NULL.
sub parameters
{
	my (@of) = @_;
	my (@values, @shown);

	foreach my $i (0 .. $#of)
	{
		my (undef, $value, $show) = @{ $of[$i] };

		if ($i % 17 == 3)
		{
			push @values, undef;
			push @shown, 'null';
			next;
		}
		push @values, $value->($i);
		push @shown, '"' . ($show // $value)->($i) . '"';
	}
	return (\@values, join ',', @shown);
}

sub in_list
{
	my (@of) = @_;
	my $n = 0;

	return "'none' IN (" . join(', ', map { $n++; "\$${n}::$_->[0]::text" } @of) . ')';
}

foreach my $size ('16kB', '128kB')
{
	my $node = new_node("ring_$size", conf => "steno.ring_size = $size\n");
	my $c = Steno::Client->new($node, application_name => 'many');
	my (%expected, %found, @irregular);

	# Not decoded, which takes Perl long.
	my $values_of = sub {
		my ($mark, @of) = @_;
		my ($values, $shown) = parameters(@of);

		$expected{$mark} = qq{"params":[$shown]};
		return @$values;
	};
	my $run = sub {
		my ($mark, $sql, @of) = @_;

		return $c->extended("$sql /* mark: $mark */", $values_of->($mark, @of));
	};

	# Rows of 1 to 10 columns.
	foreach my $columns (1, 2, 3, 7, 10)
	{
		my @of = @types[ 0 .. $columns - 1 ];
		my $rows = int($most / $columns);
		my $n = 0;

		$c->query("CREATE TABLE rows_of_$columns (" . join(', ', map { "c$_ $of[$_][0]" } 0 .. $columns - 1) . ')');
		$run->(
			"INSERT of rows of $columns",
			"INSERT INTO rows_of_$columns VALUES " . join(
				', ',
				map {
					'(' . join(', ', map { $n++; "\$$n" } 1 .. $columns) . ')'
				} 1 .. $rows),
			(@of) x $rows);
		is($c->query("SELECT count(*) FROM rows_of_$columns")->{rows}[0][0], $rows, "$size: $rows rows of $columns are inserted");
	}

	# Types in no order.
	srand 7;
	@irregular = map { $types[ int rand @types ] } 1 .. $most;
	$run->('no order', 'SELECT 1 WHERE ' . in_list(@irregular), @irregular);

	# A portal that is suspended while another statement runs, and has no end.
	$c->query('BEGIN');
	$c->parse('', 'SELECT i FROM generate_series(1, 3) i WHERE (' . in_list(@irregular) . ') IS NULL /* mark: suspended */')
	  ->bind_values('suspended', '', $values_of->('suspended', @irregular))->execute('suspended', 1)->put('H', '');
	$c->parse('', 'SELECT 1')->bind_values('', '')->execute('')->sync;
	is_deeply($c->finish->{rows}, [ ['1'], ['1'] ], "$size: one is suspended");
	$c->query('ROLLBACK');

	# A statement that fails.
	my @ints = ($types[0]) x $most;
	$c->query('CREATE TABLE small_numbers (c int CHECK (c < 100000))');
	my $answer = $run->('failure', 'INSERT INTO small_numbers VALUES ' . join(', ', map { "(\$$_)" } 1 .. $most), @ints);
	is($answer->{sqlstate}, '23514', "$size: one fails");

	# Around the number from which on types go with the values.
	foreach my $n ($size eq '16kB' ? (220 .. 226, 400, 660 .. 680) : (5300 .. 5302, 5372 .. 5380))
	{
		$run->("$n of them", 'SELECT 1 WHERE 1 IN (' . join(', ', map { "\$$_" } 1 .. $n) . ')', ($types[0]) x $n);
	}

	flush($node);
	foreach my $line (lines($node, '--application', 'many', '--kind', 'statement'))
	{
		next unless $line =~ m{/\* mark: ([^*]*) \*/};
		push @{ $found{$1} }, $line;
	}
	foreach my $mark (sort keys %expected)
	{
		my $lines = $found{$mark} // [];

		is(scalar @$lines, 1, "$size: $mark: one record");
		ok(index($lines->[0] // '', $expected{$mark}) >= 0, "$size: $mark: all values");
		unlike(substr($lines->[0] // '', -1000), qr/omitted/, "$size: $mark: nothing is left out");
	}
	is(value($node, 'SELECT sum(drops) FROM steno.rings'), '0', "$size: nothing was dropped");
	gapless($node, "$size: no session has gaps");
	$c->quit;
	$node->stop;
	verify_ok($node, "$size: the trail is whole");
}

done_testing();
