
# Large texts and values are recorded whole, whether they go through chunks of memory that all sessions share, through
# their rings, or both.  They do not make others wait, and are not lost when the server dies.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $writer = writer_pid($node);
my $watch = Steno::Client->new($node, application_name => 'watch');
my $timeout = 1000 * $PostgreSQL::Test::Utils::timeout_default;
my $numbers = 0;

$watch->query(q{SET steno.log = 'none'});

# A string of so many bytes that no other part of any other resembles.
sub value_of
{
	my ($length) = @_;
	my $value = '';

	$numbers += 1_000_003;
	for (my $i = 1; length $value < $length; $i++) { $value .= sprintf '%x.', $numbers * $i }
	return substr $value, 0, $length;
}

# Of a statement that a session is to have run: what the record must have.
sub literal
{
	my ($length) = @_;

	return "SELECT length('" . value_of($length) . "')";
}

sub session
{
	my ($name, %o) = @_;
	my $c = Steno::Client->new($node, application_name => $name);

	# a wait that should not be is an error, and does not last for ever
	$c->query("SET statement_timeout = $timeout") unless $o{waits};
	return $c;
}

# The texts of a session, in their order, are these; long ones are not shown.
sub has_texts
{
	my ($name, $what, @texts) = @_;
	my @found = map { $_->{text} } grep { $_->{text} !~ /^SET / } statements($node, application => $name);
	my @wrong = grep { ($found[$_] // '') ne ($texts[$_] // '') } 0 .. ($#texts > $#found ? $#texts : $#found);

	is("@wrong", '', "$what: all texts are whole, and in their order");
	cmp_ok(scalar @found, '==', scalar @texts, "$what: there are no others");
	return;
}

sub waits_for_room
{
	my ($c, $what) = @_;

	wait_until $what, sub { ($watch->value("SELECT wait_event FROM pg_stat_activity WHERE pid = $c->{pid}") // '') eq 'StenoRingFull' };
	return;
}

# Of all sizes: in the ring, in one chunk and in several, exactly full, and more than there are chunks.
{
	my @lengths = (15_000, 16_384, 17_000, 65_535, 65_536, 65_537, 131_072, 200_000, 7_000_000);
	my $c = session('sizes');
	my (@texts, @values, @found);

	foreach my $length (@lengths)
	{
		my $value = value_of($length);
		# characters of several bytes, at all places of a chunk's end; newer versions of JSON::PP take minutes for
		# millions of them
		my $euros = $length < 1_000_000 ? "\xe2\x82\xac" x ($length / 3) : 'eur' x ($length / 3);
		my $text = "SELECT length('" . 'x' x ($length % 3) . "$euros')";

		push @texts, $text, "SELECT length(\$1), $length";
		push @values, $value;
		$c->query($text);
		$c->extended("SELECT length(\$1), $length", $value);
	}
	$c->quit;
	@found = statements($node, application => 'sizes');
	my %text = map { $_ => 1 } map { my $t = $_->{text}; utf8::encode($t) if utf8::is_utf8($t); $t } @found;
	is(scalar(grep { !$text{$_} } @texts), 0, 'texts of all sizes are whole');
	my %value = map { $_ => 1 } map { @{ $_->{params} // [] } } @found;
	is(scalar(grep { !$value{$_} } @values), 0, 'and so are parameters');
	is(scalar(records($node, application => 'sizes', kind => 'gap')), 0, 'nothing was dropped');
	verify_ok($node, 'the trail is whole');
}

# Chunks are used again, by several sessions at the same time.
{
	my @c = map { session("again $_") } 0 .. 2;
	my @texts = ([], [], []);

	foreach (1 .. 15)
	{
		foreach my $i (0 .. 2)
		{
			push @{ $texts[$i] }, literal(200_000 + $_);
			$c[$i]->put('Q', "$texts[$i][-1]\0")->send_all;
		}
		ok(!$_->finish->{sqlstate}, 'a large statement succeeds') foreach @c;
	}
	$_->quit foreach @c;
	has_texts("again $_", "session $_", @{ $texts[$_] }) foreach 0 .. 2;
}

# The writer does not come, and one session has more than there is space for: the others' large values do not wait.
{
	my $huge = literal(20_000_000);
	my $hog = session('hog', waits => 1);
	my @others = map { session("other $_") } 0 .. 1;
	my @texts = ([], []);

	$watch->query('SELECT steno.flush()');
	stop_process($writer);
	$hog->put('Q', "$huge\0")->send_all;
	waits_for_room($hog, 'it waits');
	foreach my $i (0 .. 1)
	{
		foreach my $text ("SELECT 'small'", literal(200_000), literal(400_000))
		{
			push @{ $texts[$i] }, $text;
			is($others[$i]->query($text)->{sqlstate}, undef, 'another session does not wait');
		}
	}
	is($watch->value("SELECT wait_event FROM pg_stat_activity WHERE pid = $hog->{pid}"), 'StenoRingFull', 'the first one still waits');
	continue_process($writer);
	ok(!$hog->finish->{sqlstate}, 'and then succeeds');
	$_->quit foreach $hog, @others;
	has_texts('hog', 'who waited', $huge);
	has_texts("other $_", "other session $_", @{ $texts[$_] }) foreach 0 .. 1;
}

# The server dies before the writer has seen any of it, and in the middle of a record.
{
	my @c = map { session("killed $_") } 0 .. 1;
	my $hog = session('killed hog', waits => 1);
	my $huge = literal(20_000_000);
	my @texts = ([], []);

	$watch->query('SELECT steno.flush()');
	stop_process($writer);
	foreach my $i (0 .. 1)
	{
		foreach (1 .. 3)
		{
			push @{ $texts[$i] }, literal(200_000);
			is($c[$i]->query($texts[$i][-1])->{sqlstate}, undef, 'a large statement succeeds');
		}
	}
	$hog->put('Q', "$huge\0")->send_all;
	waits_for_room($hog, 'one does not find space for all of it');
	kill_server($node);
	$node->start;
	$node->{steno_down} = 0;
	has_texts("killed $_", "session $_ of a server that died", @{ $texts[$_] }) foreach 0 .. 1;
	my $r = the_record($node, 'what was running', application => 'killed hog', text => qr/^SELECT length/);
	is_deeply([ @$r{qw(outcome text text_bytes)} ], [ 'interrupted', substr($huge, 0, 232), length $huge ], 'as far as it is known');
	verify_ok($node, 'the trail is whole');
}

$node->stop;
done_testing();
