
# Records that do not fit into a block, and records that fill most of a block.

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno::Faults;
use Steno;
use Test::More;

# Records far larger than a ring: text, parameter and message are byte for byte
# what they were.
{
	my $node = new_node(
		'big_records_are_whole', conf => q{
	steno.ring_size = 16kB
	steno.block_size = 64kB
	});

	# Hardly compressible, and different everywhere, so that a part in the wrong place
	# is noticed.
	sub content
	{
		my ($length, $seed) = @_;
		my $content = '';

		for (my $i = 0; length $content < $length; $i++)
		{
			$content .= md5_hex("$seed $i");
		}
		return substr $content, 0, $length;
	}

	# Parts that the line of the trail with this mark must have; compared at the end, all at once and
	# without decoding, which would take Perl long.
	my @expected;

	sub expect
	{
		my ($what, $mark, @parts) = @_;

		push @expected, { what => $what, mark => $mark, parts => \@parts, lines => [] };
		return;
	}

	my $c = Steno::Client->new($node, application_name => 'big');

	# Text, just around the sizes where something changes, and huge.
	foreach my $length (
		(map { $_ * 1024 - 200 .. $_ * 1024 - 199 } 4, 8, 16),
		16384, 65536, 65537, 1_000_000, 10_000_000)
	{
		my $content = content($length, "text $length");
		my $answer = $c->query("SELECT length('$content')");

		is($answer->{rows}[0][0], $length, "a statement of $length bytes");
		expect("text of $length bytes", substr($content, 0, 40),
			qq{"text":"SELECT length('$content')"});
	}

	# A parameter.
	{
		my $content = content(10_000_000, 'parameter');

		$c->extended('SELECT length($1::bytea), $2::int', '\x' . $content, 5);
		expect('parameter of 5 MB, and the next one', substr($content, 0, 40),
			qq{"params":["\\\\x$content","5"]},
			'"text":"SELECT length($1::bytea), $2::int"');
	}

	# Both, and NULLs.
	{
		my $text = content(300_000, 'text of both');
		my $value = content(300_000, 'value of both');

		$c->extended("SELECT \$1::text, \$2::int, \$3::text, '$text'", $value, undef, 'end');
		expect('big text and parameter', substr($value, 0, 40), $text,
			qq{"params":["$value",null,"end"]});
	}

	# A message, with text and parameter.
	{
		my $content = content(1_000_000, 'message');

		$c->query("DO \$\$ BEGIN RAISE EXCEPTION '%', '$content'; END \$\$");
		expect('big message', substr($content, 0, 40),
			qq{"message":"$content"}, qq{RAISE EXCEPTION '%', '$content'});
	}

	# All of them.
	flush($node);
	foreach my $line (lines($node, '--application', 'big'))
	{
		next if length $line < 1000;
		index($line, $_->{mark}) >= 0 and push @{ $_->{lines} }, $line foreach @expected;
	}
	foreach my $e (@expected)
	{
		is(scalar @{ $e->{lines} }, 1, "$e->{what}: one record");
		ok(index($e->{lines}[0] // '', $_) >= 0, "$e->{what}: byte for byte")
		  foreach @{ $e->{parts} };
	}

	is(value($node, 'SELECT sum(drops) FROM steno.rings'), '0', 'nothing was dropped');
	gapless($node, 'no session has gaps');

	# Names of relations and types of parameters are stored in parts, too.
	{
		my ($r);

		$c->query(join ';', map { "CREATE TABLE relation_with_a_rather_long_name_so_as_to_fill_space_$_ (a int)" } 1 .. 120);
		$c->query('SELECT 1 AS many FROM ' . join ', ', map { "relation_with_a_rather_long_name_so_as_to_fill_space_$_" } 1 .. 120);
		flush($node);
		($r) = map { JSON::PP->new->utf8->decode($_) } lines($node, '--grep', '^SELECT 1 AS many');
		is(scalar @{ $r->{relations} // [] }, 120, 'many relations: all of them');
		is($r->{extra}, undef, 'none is left out');

		my @numbers = 1 .. 1000;
		$c->extended('SELECT 1 AS wide WHERE 1 IN (' . join(', ', map { "\$${_}::int" } @numbers) . ')', @numbers);
		flush($node);
		($r) = map { JSON::PP->new->utf8->decode($_) } lines($node, '--grep', '^SELECT 1 AS wide');
		is_deeply($r->{params}, \@numbers, 'many parameters: all of them');
		is($r->{extra}{parameters_omitted}, undef, 'many parameters: none is left out');
	}

	$c->quit;
	$node->stop;
	verify_ok($node, 'the trail is whole');
}

# Rings whose messages can be longer than steno.block_size: blocks are then larger.  And all
# records that end a session, one of which may take most of a block, are in one block: if recovery
# is killed after a block, no record of a session is missing or duplicated.
{
	my $faults = Steno::Faults->new;
	my $node = new_node(
		'long_messages_fit_blocks',
		start => 0,
		conf => q{
	max_connections = 20
	restart_after_crash = on
	steno.ring_size = 1MB
	steno.block_size = 64kB
	});

	$faults->start($node);
	value($node, 'CREATE EXTENSION pg_steno');

	# ---- longer than a block was to be ----
	{
		my $c = Steno::Client->new($node, application_name => 'long');
		my @texts = map { "SELECT length('" . "$_." x $_ . "')" } 20_000, 33_000, 64_000;

		is($c->query($_)->{sqlstate}, undef, length($_) . ' bytes') foreach @texts;
		$c->quit;
		is_deeply([ map { $_->{text} } statements($node, application => 'long') ], \@texts, 'the records are whole');
	}

	# ---- ends of sessions ----
	{
		my $start = -s $node->logfile;
		my @sizes = (20_000, 45_000, 120_000, 30_000, 45_000, 20_000, 45_000);
		my @texts = map { "SELECT pg_sleep(1000), '" . "$_" x ($sizes[$_] / length $_) . "'" } 0 .. $#sizes;
		my @sessions = map { Steno::Client->new($node, application_name => "running $_") } 0 .. $#sizes;
		my $kills = 3;

		$sessions[$_]->put('Q', "$texts[$_]\0")->send_all foreach 0 .. $#sizes;
		wait_until 'all are running',
		  sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) == @sizes };
		flush($node);
		$faults->set_times('kill_after_write.0', $kills);
		kill 'KILL', $sessions[0]{pid};
		wait_until 'all is recovered', sub {
			!$faults->is_set('kill_after_write.0')
			  && can_connect($node)
			  && scalar(my @files = ring_files($node)) == 1;
		};
		cmp_ok(scalar(() = slurp_file($node->logfile, $start) =~ /all server processes terminated; reinitializing/g),
			'>=', $kills + 1, 'recovery was killed, too');
		foreach my $i (0 .. $#sizes)
		{
			is_deeply([ map { $_->{text} eq $texts[$i] } statements($node, application => "running $i", outcome => 'interrupted') ],
				[1], "session $i: its statement, once");
			is(scalar(records($node, application => "running $i", kind => 'disconnect')), 1, "session $i: its end, once");
		}
	}
	$node->stop;
	verify_ok($node, 'the trail is whole');
	gapless($node, 'no session has gaps');
}

done_testing();
