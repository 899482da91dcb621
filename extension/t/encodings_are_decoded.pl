
# Texts, names, parameters and messages of databases whose encoding is not UTF-8 are decoded, and bytes
# without a known encoding are marked.

use strict;
use warnings;

use Encode qw(decode encode);
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');

# In each database: a table whose name, a statement whose text, and a failure whose
# message have a character that is not ASCII.
my %databases = (
	UTF8 => [ 'UTF-8', "\x{8868}" ],
	LATIN1 => [ 'iso-8859-1', "\x{e9}" ],
	EUC_JP => [ 'euc-jp', "\x{8868}" ],
	WIN1251 => [ 'cp1251', "\x{416}" ],
	SQL_ASCII => [ 'iso-8859-1', "\x{e9}" ]);

foreach my $name (sort keys %databases)
{
	my ($perl, $char) = @{ $databases{$name} };
	my $bytes = encode($perl, $char);
	my $shown = $name eq 'SQL_ASCII' ? "\x{fffd}e9" : $char;
	my $database = lc "db_$name";

	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 ENCODING '$name' LC_COLLATE 'C' LC_CTYPE 'C'");
	my $script = $node->basedir . "/$database.sql";
	open(my $out, '>:raw', $script) or die;
	print $out "SET client_encoding = '$name';\n",
	  "CREATE TABLE \"t$bytes\" (i int);\n",
	  "SELECT 'x$bytes' || '\\xe9' AS marked;\n",
	  "SELECT \"no$bytes\" FROM \"t$bytes\";\n";
	close $out;
	command_fails([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-f', $script, $node->connstr($database) ],
		"$name: the last statement fails");
	flush($node);

	my @records = statements($node, database => $database);
	my ($create) = grep { ($_->{command} // '') eq 'CREATE TABLE' } @records;
	my ($select) = grep { ($_->{text} // '') =~ /marked/ } @records;
	my ($failed) = grep { ($_->{outcome} // '') eq 'error' } @records;
	is($create->{objects}[0]{name}, "public.\"t$shown\"", "$name: name of an object");
	is($select->{text}, "SELECT 'x$shown' || '\\xe9' AS marked", "$name: text");
	like($failed->{message}, qr/no\Q$shown\E/, "$name: message");
	is($select->{encoding}, $name eq 'UTF8' ? undef : $name, "$name: the session says its encoding");
}
# Roles are shared by all databases: each has one name, in all records of all its sessions, also before
# a session has its database.
my $zoe = "Zo\x{eb}";
my $rene = "Ren\x{e9}";
my $zhenya = "\x{416}enya";
{
	my %made = (db_utf8 => [ 'UTF8', encode('UTF-8', $zoe) ], db_latin1 => [ 'LATIN1', encode('iso-8859-1', $rene) ],
		db_win1251 => [ 'WIN1251', encode('cp1251', $zhenya) ]);

	foreach my $database (sort keys %made)
	{
		my ($encoding, $role) = @{ $made{$database} };
		my $c = Steno::Client->new($node, database => $database, client_encoding => $encoding);

		is($c->query("CREATE ROLE \"$role\" LOGIN SUPERUSER")->{sqlstate}, undef, "a role of $database");
		$c->quit;
	}
	foreach my $case (
		[ $made{db_utf8}[1], $zoe, sort map { lc "db_$_" } keys %databases ],
		[ $made{db_latin1}[1], $rene, 'db_latin1' ],
		[ $made{db_latin1}[1], "Ren\x{fffd}e9", 'db_utf8' ],
		[ $made{db_win1251}[1], $zhenya, 'db_win1251' ])
	{
		my ($role, $shown, @in) = @$case;

		foreach my $database (@in)
		{
			my $name = "$database " . join ' ', map { sprintf '%x', ord } split //, $shown;
			my $c = Steno::Client->new($node, user => $role, database => $database, application_name => $name);
			my $pid = $c->{pid};
			my @found;

			$c->query('SELECT 1');
			$c->query('SELEC 1');
			# a client of this database cannot write the other role's name
			$c->query("ALTER ROLE \"$role\" CONNECTION LIMIT -1") if $shown !~ /\x{fffd}/;
			$c->quit;
			wait_until 'it has ended', sub { scalar records($node, kind => 'disconnect', application => $name) };
			@found = records($node, application => $name);
			is_deeply([ map { "$_->{kind} $_->{user}" } sort { $a->{seq} <=> $b->{seq} } @found ],
				[ map { "$_ $shown" } qw(connect statement statement), ($shown =~ /\x{fffd}/ ? () : qw(statement transaction)), 'disconnect' ], "$name: the user");
			is_deeply([ map { map { $_->{name} } grep { $_->{type} eq 'role' } @{ $_->{objects} // [] } } @found ],
				[ $shown =~ /\x{fffd}/ ? () : qq("$shown") ], "$name: the object");
			is( value($node, "SELECT count(DISTINCT usename) FROM steno.trail(now() - interval '1 hour', now()) WHERE pid = $pid"), '1', "$name: one name in SQL, too")
			  if $shown ne $zhenya;
		}
	}
}

# The first statement of a session.
{
	my $c = Steno::Client->new($node, database => 'db_latin1');

	$c->query("SELECT 'first \xe9'");
	$c->quit;
	is(scalar(statements($node, pid => $c->{pid}, text => "SELECT 'first \x{e9}'")), 1, 'the first statement of a session');
}

# What runs in databases of all encodings is shown in each of them, whatever encoding the client has.
{
	my @sleepers = map {
		my $database = lc "db_$_";
		my $c = Steno::Client->new($node, database => $database, application_name => 'sleeper', client_encoding => $_,
			$database eq 'db_latin1' ? (user => encode('iso-8859-1', $rene)) : ());

		$c->put('Q', 'SELECT pg_sleep(1000), ' . "'" . encode($databases{$_}[0], $databases{$_}[1]) . "'\0")->send_all;
		$c;
	} sort keys %databases;

	wait_until 'all sleep', sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sleeper' AND wait_event = 'PgSleep'}) eq '5' };
	foreach my $database (map { lc "db_$_" } sort keys %databases)
	{
		# otherwise the server converts, or refuses to
		foreach my $encoding ($database eq 'db_sql_ascii' ? qw(UTF8 LATIN1 SJIS SQL_ASCII) : 'UTF8')
		{
			my $c = Steno::Client->new($node, database => $database, client_encoding => $encoding);
			my $answer;

			$c->query('CREATE EXTENSION IF NOT EXISTS pg_steno');
			$answer = $c->query(q{SELECT usename, datname, text FROM steno.in_flight WHERE application_name = 'sleeper' ORDER BY datname});
			is($answer->{message}, undef, "in_flight in $database for $encoding");
			is(scalar @{ $answer->{rows} }, 5, 'all are shown');
			is(decode('UTF-8', $answer->{rows}[1][2]), "SELECT pg_sleep(1000), '\x{e9}'", 'a text of another encoding')
			  if $encoding eq 'UTF8' && $database =~ /utf8|ascii/;
			$answer = $c->query(q{SELECT usename, text FROM steno.trail(now() - interval '1 hour', now()) WHERE kind = 'statement'});
			is($answer->{message}, undef, 'and the trail');
			$c->quit;
		}
	}
	kill 'TERM', map { $_->{pid} } @sleepers;
	wait_until 'they have ended', sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sleeper'}) eq '0' };
}

$node->append_conf('postgresql.conf', "steno.start_after = '10ms'\n");
$node->reload;

# A text that is cut ends with a whole character: what is known of a long statement while it runs.
foreach my $more (0 .. 3)
{
	my $c = Steno::Client->new($node, application_name => "cut $more");
	my $text = 'DO $$ BEGIN /* ' . '-' x $more . encode('UTF-8', "\x{8868}" x 200) . ' */ PERFORM pg_sleep(1000); END $$';
	my ($start, $shown);

	$c->put('Q', "$text\0")->send_all;
	wait_until 'it has a start record', sub { ($start) = records($node, kind => 'start', application => "cut $more") };
	like($start->{text}, qr/^DO \$\$ BEGIN \/\* -*\x{8868}{40,}$/, "start record, $more bytes more: whole characters");
	is($start->{text_bytes}, length $text, 'and its length');
	$shown = decode('UTF-8', value($node, "SELECT text FROM steno.in_flight WHERE application_name = 'cut $more'"));
	like($shown, qr/^DO \$\$ BEGIN \/\* -*\x{8868}{40,}$/, 'as it is shown while it runs');
	kill 'TERM', $c->{pid};
}

# What characters are converted to is what the server converts them to, there and back.
my $table = slurp_file(dirname(__FILE__) . '/../../internal/format/encodings.txt');
my ($encodings, %seen) = ('');
foreach ($table =~ /^(\S+)/mg) { $encodings .= " $_" unless $seen{$_}++; }
is(scalar keys %seen, 30, 'encodings');
$node->safe_psql('postgres', q{
	CREATE FUNCTION shown(e name, b bytea) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		s text;
	BEGIN
		s := convert_from(b, e);
		RETURN CASE WHEN length(s) <> 1 OR ascii(s) < 128 OR convert_to(s, e) <> b THEN '-' ELSE to_hex(ascii(s)) END;
	EXCEPTION WHEN OTHERS THEN
		RETURN '-';
	END $$});
is($node->safe_psql('postgres', qq{
	WITH encodings AS (SELECT * FROM unnest(string_to_array(trim('$encodings'), ' ')::name[]) WITH ORDINALITY AS e (e, n)),
	leads AS (SELECT e, n, ''::bytea AS lead FROM encodings
		UNION ALL SELECT e, n, decode(to_hex(l), 'hex') FROM encodings, generate_series(128, 255) l WHERE e LIKE 'EUC%'
		UNION ALL SELECT e, n, decode('8f' || to_hex(l), 'hex') FROM encodings, generate_series(161, 254) l WHERE e = 'EUC_JP'),
	lines AS (SELECT e, n, lead, r, string_agg(shown(e, lead || decode(to_hex(r * 16 + c), 'hex')), ' ' ORDER BY c) AS points
		FROM leads, generate_series(8, 15) r, generate_series(0, 15) c GROUP BY e, n, lead, r)
	SELECT e || ' ' || encode(lead || decode(to_hex(r * 16), 'hex'), 'hex') || ' ' || points
	FROM lines WHERE points ~ '[0-9a-f]' ORDER BY n, lead, r}) . "\n", $table, 'they are as the server converts them');

verify_ok($node);
$node->stop;
done_testing();
