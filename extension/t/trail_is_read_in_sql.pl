
# steno.trail() reads the trail in SQL: all of it, with filters, with damage, by those to whom it is granted.

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use Digest::SHA qw(sha256_hex);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $big = join '', map { sha256_hex("big $_") } 1 .. 40_000;

# What a function of the trail returns, as one value, and the warnings and errors of the call.
sub asked
{
	my ($node, $what, $from, $user) = @_;
	my ($code, $out, $err) = $node->psql('postgres', "SELECT $what FROM $from", connstr => $node->connstr('postgres') . ' dbname=postgres application_name=steno_test_helper' . ($user ? " user=$user" : ''));

	return ($out // '', $err // '');
}

# Sessions of several users, in blocks of their own.
sub load
{
	my ($node) = @_;

	$node->safe_psql('postgres', q{CREATE ROLE often SUPERUSER LOGIN; CREATE ROLE rare SUPERUSER LOGIN; CREATE ROLE auditor LOGIN;
		CREATE SCHEMA hr; CREATE TABLE hr.staff (name text, salary int);
		CREATE FUNCTION hr.total() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT sum(salary) FROM hr.staff); END $$;
		CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0});
	flush($node);
	foreach my $i (1 .. 8)
	{
		my $c = Steno::Client->new($node, user => $i == 4 ? 'rare' : 'often', application_name => "app$i");
		my $noise = join '', map { sha256_hex("$i $_") } 1 .. 400;

		$c->query("SELECT '$noise'");
		$c->query('SELECT count(salary) FROM hr.staff') if $i == 2;
		$c->query('SELECT 1/0') if $i == 3;
		$c->query(q{ALTER TABLE hr.staff RENAME TO people; ALTER TABLE hr.people RENAME TO staff}) if $i == 5;
		$c->query(q{BEGIN; INSERT INTO hr.staff VALUES ('x', 1); COMMIT}) if $i == 6;
		$c->query("SELECT '$big'") if $i == 7;
		$c->query('SELECT hr.total()') if $i == 8;
		$c->extended('SELECT $1::int4', 40 + $i) if $i == 1;
		$c->quit;
		flush($node);
	}
	my $c = Steno::Client->new($node, user => 'often', database => 'latin');
	$c->query("SELECT 'caf\xe9' AS latin");
	$c->quit;
	flush($node);
	return;
}

# The same as steno cat has, record by record.
sub check_against_cat
{
	my ($node, $what) = @_;
	my @cat = grep { ($_->{application} // '') ne 'steno_test_helper' } records($node);
	my ($out, $err) = asked($node, q{string_agg(concat_ws('|', session, seq, kind, coalesce(usename, ''), coalesce(datname, ''), class, command, outcome,
		sqlstate, rows, md5(text), array_to_string(params, ',', 'NULL'), xid, extra->>'event', cardinality(relations), (SELECT string_agg(name, ',') FROM unnest(relations))), E'\n')},
		q{(SELECT * FROM steno.trail(NULL) WHERE application_name IS DISTINCT FROM 'steno_test_helper') t});
	my %sql = map { /^([^|]+\|\d+)\|/ ? ($1 => $_) : () } split /\n/, $out;
	my @wrong;

	foreach my $r (grep { $_->{seq} } @cat)
	{
		my $sql = delete $sql{"$r->{session}|$r->{seq}"} // 'missing';
		my @relations = @{ $r->{relations} // [] };
		my $text = $r->{text};

		utf8::encode($text) if defined $text;
		my $cat = join '|', grep { defined } $r->{session}, $r->{seq}, $r->{kind}, $r->{user} // '', $r->{database} // '', $r->{class},
			(defined $r->{command} && $r->{command} ne '' ? $r->{command} : undef), $r->{outcome} // 'ok', $r->{sqlstate}, $r->{rows},
			(defined $text ? md5_hex($text) : undef),
			($r->{params} ? join ',', map { ref $_ ? ($_->{value} // 'NULL') : ($_ // 'NULL') } @{ $r->{params} } : undef),
			$r->{xid}, $r->{extra}{event}, ($r->{class} ? scalar @relations : undef), (@relations ? join ',', map { $_->{name} } @relations : undef);

		push @wrong, "$cat\n  $sql" if $cat ne $sql;
	}
	is($err, '', "$what: no warning");
	is(scalar @wrong, 0, "$what: " . scalar(@cat) . ' records are those of steno cat') or diag(join "\n", @wrong[ 0 .. ($#wrong > 4 ? 4 : $#wrong) ]);
	return;
}

# Each filter finds what the same condition on all rows finds.
sub check_filters
{
	my ($node, $what) = @_;

	foreach my $filter (
		[ q{usename => 'rare'}, q{usename = 'rare'}, 3 ],
		[ q{usename => 'nobody'}, 'false', 0 ],
		[ q{datname => 'latin'}, q{datname = 'latin'}, 3 ],
		[ q{application_name => 'app5', class => 'DDL'}, q{application_name = 'app5' AND class = 'ddl'}, 2 ],
		[ q{object => 'hr.staff', class => 'read'}, q{class = 'read' AND 'hr.staff' IN (SELECT name FROM unnest(relations))}, 2 ],
		[ q{object => 'staff.salary'}, q{EXISTS (SELECT FROM unnest(relations) r, unnest(r.columns) c WHERE r.name = 'hr.staff' AND c.name IN ('salary', '*'))}, 3 ],
		[ q{object => 'people'}, q{EXISTS (SELECT FROM unnest(objects) WHERE name = 'hr.people' OR new_name = 'hr.people')}, 2 ],
		[ q{object => 'hr.total'}, q{EXISTS (SELECT FROM unnest(objects) WHERE name = 'hr.total')}, 1 ],
		[ q{failed => true}, q{sqlstate IS NOT NULL OR outcome = 'interrupted'}, 1 ],
		[ q{contains => 'division by zero'}, q{message ~ 'division by zero'}, 1 ],
		[ q{contains => 'café'}, q{text LIKE '%café%'}, 1 ],
		[ q{contains => 'no such text'}, 'false', 0 ])
	{
		my ($args, $condition, $least) = @$filter;
		# the statements that ask are of the helper's own application
		my ($out, $err) = asked($node, q{(count(*) >= } . $least . q{) || ' ' || count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' ORDER BY stream, session, seq)), '')},
			"steno.trail(NULL, $args) t WHERE application_name IS DISTINCT FROM 'steno_test_helper'");
		my ($expected) = asked($node, q{'true ' || count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' ORDER BY stream, session, seq)), '')},
			"steno.trail(NULL) t WHERE application_name IS DISTINCT FROM 'steno_test_helper' AND ($condition)");

		is("$out$err", $expected, "$what: $args");
	}
	return;
}

# In plain text.
{
	my $node = new_node('plain', conf => "steno.writers = 1\nsteno.flush_interval = 10s\nsteno.log_catalog = off\n");

	load($node);
	check_against_cat($node, 'live');
	check_filters($node, 'live');
	value($node, 'SELECT steno.rotate()');
	check_filters($node, 'closed');

	my ($out, $err) = asked($node, 'length(text) || text_bytes::text', q{steno.trail(NULL, application_name => 'app7') WHERE kind = 'statement' AND text_bytes > 2000000});
	is($out, (9 + length $big) x 2, 'a text of 2.5 MB is whole');

	# Each has parts in other blocks.  The memory in which these are looked for outlives the first record.
	$node->safe_psql('postgres', q{SELECT steno.note(string_agg(md5(i::text || n), '')) FROM generate_series(1, 9000) i, generate_series(1, 4) n GROUP BY n});
	flush($node);
	($out, $err) = asked($node, 'count(*), count(DISTINCT text), min(length(text)), max(length(text))', q{steno.trail(NULL) WHERE kind = 'note' AND length(text) > 1000});
	is("$out$err", '4|4|288000|288000', 'several large texts are whole');
	($out) = asked($node, q{concat_ws(' ', min(time) >= '2020-01-01', max(time) < clock_timestamp(), bool_and(duration >= '0'))}, q{steno.trail('2020-01-01', now()) WHERE kind = 'statement'});
	is($out, 't t t', 'times');
	($out) = asked($node, 'count(*)', q{steno.trail('2000-01-01', '2020-01-01')});
	is($out, '0', 'nothing happened before');

	# Reading is recorded, with the function.
	flush($node);
	($out) = asked($node, 'count(*) > 0', q{steno.trail(NULL, object => 'steno.trail') WHERE text LIKE '%hr.total%'});
	is($out, 't', 'that somebody has read the trail is recorded');

	# Errors.
	foreach my $case (
		[ q{'2020-01-01', '2019-01-01'}, qr/ERROR:  "until" must be later than "since"/ ],
		[ q{NULL, class => 'reed'}, qr/ERROR:  unrecognized class: "reed"/ ],
		[ q{NULL, contains => 1}, qr/ERROR:  function steno\.trail\(unknown, contains => integer\) does not exist/ ])
	{
		my ($args, $error) = @$case;

		($out, $err) = asked($node, 'count(*)', "steno.trail($args)");
		like($err, $error, "error of steno.trail($args)");
	}

	# Who may read it.
	my $call = 'steno.trail(NULL) LIMIT 1';
	foreach my $case (
		[ 'GRANT pg_monitor, pg_read_all_stats, pg_read_server_files TO auditor', qr/permission denied for function trail/ ],
		[ 'CREATE VIEW mine AS SELECT * FROM steno.trail(NULL); GRANT SELECT ON mine TO auditor', qr/permission denied for function trail/, 'mine LIMIT 1' ],
		[ 'GRANT USAGE ON SCHEMA steno TO auditor; GRANT EXECUTE ON FUNCTION steno.trail TO auditor', qr/^$/ ])
	{
		my ($sql, $error, $from) = @$case;

		$node->safe_psql('postgres', $sql);
		(undef, $err) = asked($node, '1', $from // $call, 'auditor');
		like($err, $error, "after $sql");
	}

	# A cursor that is not read to its end, a canceled call, and one that times out leave no file open.
	{
		my $c = Steno::Client->new($node);
		my $open = sub { scalar grep { (readlink($_) // '') =~ /\.steno$/ } glob "/proc/$c->{pid}/fd/*" };

		$c->query('BEGIN; DECLARE c CURSOR FOR SELECT * FROM steno.trail(NULL)');
		is(scalar @{ $c->query('FETCH 3 FROM c')->{rows} }, 3, 'a cursor');
		is($open->(), 0, 'has no file open');
		$c->query('COMMIT');
		is($c->query(q{SET statement_timeout = '1ms'; SELECT count(*) FROM steno.trail(NULL) a, steno.trail(NULL) b, steno.trail(NULL) c})->{sqlstate},
			'57014', 'a call that takes too long is canceled');
		is($open->(), 0, 'and has no file open');
		$c->query('RESET statement_timeout; SET default_transaction_read_only = on');
		is($c->query(q{SELECT count(*) > 0 FROM steno.trail(NULL)})->{rows}[0][0], 't', 'in a transaction that only reads');
		$c->quit;
	}

	# Damage is reported, with file and place; what is around it is read.
	{
		my $path = trail($node) . '/0/0000000001.steno';
		my $shown = 'pg_steno/0/0000000001.steno';
		my $bytes = slurp_file($path);
		my @offsets;
		my $at = unpack 'x10 v', $bytes;
		my ($all) = asked($node, 'count(*)', q{steno.trail(NULL) WHERE segment = 1});

		while ($at < length $bytes)
		{
			push @offsets, $at;
			$at += 112 + unpack 'V', substr $bytes, $at + 8, 4;
		}
		my ($payload, $header) = @offsets[ 4, 6 ];
		open my $file, '+<:raw', $path or die "could not open $path: $!";
		foreach my $place ($payload + 150, $header + 30)
		{
			seek $file, $place, 0;
			print $file chr(255 - ord substr $bytes, $place, 1);
		}
		close $file;
		($out, $err) = asked($node, 'count(*)', q{steno.trail(NULL) WHERE segment = 1});
		like($err, qr/WARNING:  segment "\Q$shown\E" of the trail is damaged at offset $_\n/, "damage at $_") foreach $payload, $header;
		is(scalar(my @warnings = $err =~ /WARNING/g), 2, 'and nowhere else');
		cmp_ok($out, '<', $all, 'records are missing');
		cmp_ok($out, '>', $all / 2, 'others are there');

		($out, $err) = asked($node, 'count(*)', q{steno.trail(NULL, usename => 'nobody')});
		is(scalar(@warnings = $err =~ /WARNING/g), 1, 'blocks in which nothing is wanted are not read: their damage is not noticed');
		($out, $err) = asked($node, 'count(*)', q{steno.trail(NULL, '2000-01-01')});
		is(scalar(@warnings = $err =~ /WARNING/g), 1, 'nor are those of other times');

		# a segment that is a link, another file, or empty
		my $other = trail($node) . '/0';
		rename $path, "$other/kept" or die;
		symlink '/etc/passwd', $path;
		($out, $err) = asked($node, 'count(*) > 0', 'steno.trail(NULL)');
		like("$out$err", qr/^tpsql:\S* WARNING:  could not open segment "\Q$shown\E" of the trail: /, 'a link is not followed');
		unlike($err, qr/root/, 'and nothing of it is shown');
		unlink $path;
		mkdir $path;
		($out, $err) = asked($node, 'count(*) > 0', 'steno.trail(NULL)');
		like("$out$err", qr/^tpsql:\S* WARNING:  segment "\Q$shown\E" of the trail is not a regular file/, 'nor is a directory read');
		rmdir $path;
		append_to_file($path, "no segment\n" x 100);
		($out, $err) = asked($node, 'count(*) > 0', 'steno.trail(NULL)');
		like("$out$err", qr/^tpsql:\S* WARNING:  segment "\Q$shown\E" of the trail is damaged at offset 0/, 'nor another file');
		unlink $path;
		rename "$other/kept", $path or die;
	}
	$node->stop;
}

# Encrypted: only the writers have the key.  Times before can be asked for.
{
	my $keys = PostgreSQL::Test::Utils::tempdir();

	append_to_file("$keys/key", sha256_hex('key') . "\n");
	chmod 0600, "$keys/key";
	my $node = new_node('encrypted', conf => "steno.writers = 1\n");
	$node->safe_psql('postgres', 'SELECT 4711');
	flush($node);
	$node->append_conf('postgresql.conf', "steno.encryption_key_command = 'cat $keys/key'");
	$node->reload;
	$node->wait_for_log(qr/encrypts the trail with key/);
	my $since = value($node, 'SELECT clock_timestamp()');
	$node->safe_psql('postgres', q{SELECT 'hush4712'});
	flush($node);
	foreach my $args ("'$since'", 'NULL', q{NULL, contains => 'hush'})
	{
		my ($out, $err) = asked($node, 'text', "steno.trail($args)");

		like($err, qr/ERROR:  segment "pg_steno\/0\/0000000002\.steno" of the trail is encrypted\nDETAIL/, "an encrypted segment: error of steno.trail($args)");
		unlike("$out$err", qr/hush4712/, 'and nothing of it is shown');
	}
	my ($out, $err) = asked($node, 'count(*) > 0', q{steno.trail(NULL, (SELECT max(time) FROM (SELECT pg_postmaster_start_time() + interval '1 microsecond' AS time) t))});
	is($err, '', 'times before can be read');
	$node->stop;
}
done_testing();
