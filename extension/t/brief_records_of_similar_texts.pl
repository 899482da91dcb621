
# A client that does not prepare its statements sends the same texts again and again, or texts that differ in a
# constant.  Their records refer to what the texts have in common, which is stored once, beside the ring.  They must
# say what was sent, whatever it is, and stay readable when other texts take that place, and after the server has
# gone.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.writers = 1\nsteno.ring_size = 512kB\nsteno.start_after = -1\nsteno.log = 'all, -misc_set'");

$node->safe_psql('postgres', q{
	CREATE TABLE account (id int PRIMARY KEY, balance int, name text);
	INSERT INTO account SELECT i, 0, 'name ' || i FROM generate_series(1, 1000) i;
	CREATE TABLE other (id int, name text);
	CREATE FUNCTION twice(i int) RETURNS int STABLE LANGUAGE plpgsql AS
		$$BEGIN RETURN (SELECT id FROM account WHERE id = i) * 2; END$$;
});

# Each session: process ID, what it has sent, its client.  The more often the texts of a session change, the less often it looks for what they
# have in common: so there are many.
my @sessions;
my $client;
my $sent;

sub use_session
{
	my ($number) = @_;

	(undef, $sent, $client) = @{ $sessions[$number] };
	return;
}

sub next_session
{
	my $new = Steno::Client->new($node, application_name => 'texts');

	push @sessions, [ $new->{pid}, [], $new ];
	use_session(-1);
	return;
}

# a statement, or several in one string; fails: of the last one
sub simple
{
	my ($text, $fails) = @_;
	my @texts = ref $text ? @$text : $text;
	my $result = $client->query(join ';', @texts);

	fail("$texts[-1]: " . ($result->{message} // 'no error')) if !!$result->{sqlstate} != !!$fails;
	push @$sent, map { [ $_, [], $fails && $_ eq $texts[-1] ? 'error' : 'ok' ] } @texts;
	return;
}

sub extended
{
	my ($text, @params) = @_;
	my $result = $client->extended($text, @params);

	fail("$text: $result->{message}") if $result->{sqlstate};
	push @$sent, [ $text, [@params], 'ok' ];
	return;
}

my $long = 'x' x 300;
my $longer = 'y' x 1200;

# Each of them several times, so that there is a template for it, and among others, so that it is taken away.
my @patterns = (
	sub { simple("SELECT balance FROM account WHERE id = $_[0]") },
	sub { simple("SELECT balance FROM account WHERE id = 7") },
	sub { simple("SELECT balance FROM account WHERE id = $_[0];") },
	sub { simple("select balance from account where id = $_[0] -- $_[0]") },
	sub { simple("/* $_[0] */ SELECT balance FROM account WHERE id = 1") },
	sub { simple("/* $_[0] */ SELECT balance FROM account WHERE id = 2") },
	sub { simple('SELECT balance FROM account WHERE id IN (' . join(', ', 1 .. $_[0] % 60 + 1) . ')') },
	sub { simple("SELECT id FROM account WHERE name = 'name $_[0]'") },
	sub { simple("SELECT id FROM account WHERE name = '" . ('', 'ä', "''", '\\', $long, $longer, 'z')[ $_[0] % 7 ] . "'") },
	sub { simple("SELECT id FROM account WHERE name = '$longer' AND id = $_[0]") },
	sub { simple("SELECT id, 'password=secret$_[0]' <> name FROM account WHERE id = $_[0]") },
	sub { simple("UPDATE account SET balance = balance + $_[0] WHERE id = $_[0]") },
	sub { simple("INSERT INTO other VALUES ($_[0], 'name $_[0]')") },
	sub { simple("SELECT twice($_[0])") },
	sub { simple("SELECT 1 / ($_[0] % 5) FROM account WHERE id = 1", $_[0] % 5 == 0) },
	sub { simple([ "SELECT balance FROM account WHERE id = $_[0]", 'SELECT balance FROM account WHERE id = 8' ]) },
	sub { simple("BEGIN"); simple("DELETE FROM other WHERE id = $_[0]"); simple("END") },
	sub { extended('SELECT balance FROM account WHERE id = $1', $_[0]) },
	sub { extended("SELECT balance FROM account WHERE id = \$1 AND id < 1000$_[0]", $_[0]) },
	sub { extended('SELECT id FROM account WHERE name = $1', ('', 'name', undef, $long, "\n")[ $_[0] % 5 ]) },
	sub { extended('SELECT id FROM account WHERE name = $1 AND id = $2', "name $_[0]", $_[0]) },
	sub { extended('INSERT INTO other VALUES ($1, $2)', $_[0], $_[0] % 2 ? undef : 'z' x ($_[0] % 300)) },
	sub { simple("ALTER TABLE other ALTER id SET STATISTICS $_[0]") },
);

# In session $i: pattern $i, and then the next one.
sub send_two
{
	my ($i, $n) = @_;

	use_session($i);
	$patterns[$i]->($_ * 13 % 97 + 1) foreach 1 .. $n;
	$patterns[ ($i + 1) % @patterns ]->($_ * 13 % 97 + 1) foreach 1 .. $n;
	return;
}

sub agree
{
	my ($where, $name) = @_;
	my %of;

	push @{ $of{ $_->{pid} } }, $_ foreach records($where, application => 'texts');
	session_agrees("$name: session $_", $of{ $sessions[$_][0] }, $sessions[$_][1]) foreach 0 .. $#sessions;
	return;
}

sub session_agrees
{
	my ($name, $records, $sent) = @_;
	my @records = sort { $a->{seq} <=> $b->{seq} } @{ $records // [] };
	my @mine = grep { $_->{kind} eq 'statement' && !$_->{depth} } @records;
	my @is = map { [ $_->{text}, $_->{params} // [], $_->{outcome} eq 'ok' ? 'ok' : 'error' ] } @mine;
	my @should = map { utf8::decode(my $text = $_->[0]); [ $text =~ s/;$//r =~ s/password=\w+/password=<redacted>/r, $_->[1], $_->[2] ] } @$sent;

	is(scalar @is, scalar @should, "$name: number of statements");
	is_deeply(\@is, \@should, "$name: texts, parameters and outcomes are those that were sent");
	is_deeply([ grep { $records[$_]{seq} != $_ + 1 } 0 .. $#records ], [], "$name: no record is missing");
	is_deeply([ grep { $mine[$_]{statement} != $_ + 1 } 0 .. $#mine ], [], "$name: statements are numbered one by one");
	is_deeply([ grep { ($_->{text} =~ /^(UPDATE|INSERT)/ xor defined $_->{xid}) && $_->{text} !~ /^(ALTER|END|DELETE|BEGIN)/ } @mine ],
		[], "$name: those that write have a transaction ID");
	return;
}

foreach my $i (0 .. $#patterns)
{
	next_session();
	send_two($i, 12);
}
# all of them in one session, each for a while, among others
next_session();
srand 1;
foreach (1 .. 48)
{
	my @few = map { $patterns[ rand @patterns ] } 1 .. 3;

	$few[ rand @few ]->(1 + int rand 900) foreach 1 .. 12;
}
my $marked = 'SELECT balance FROM account WHERE name IS DISTINCT FROM \'a text that nothing else has\' AND id = ';
next_session();
simple($marked . $_) foreach 1 .. 10;
flush($node);
agree($node, 'what was drained');

# now nothing is drained, until the server dies
stop_process(writer_pid($node));
my ($file) = ring_files($node);
my $before = () = slurp_file($file) =~ /a text that nothing else has/g;
simple($marked . $_) foreach 1 .. 50;
my $after = () = slurp_file($file) =~ /a text that nothing else has/g;
cmp_ok($after, '<=', $before, 'the text of brief records stands beside the ring');
send_two($_, 3) foreach 0 .. $#patterns;
kill_server($node);

my $copy = recovered_copy($node);
agree($copy, 'what steno recover read from the ring');

$node->start;
wait_until 'the server has drained it', sub { scalar(my @files = ring_files($node)) == 1 };
agree($node, 'what the server drained');
verify_ok($node, 'the trail is whole');

done_testing();
