
# Secrets in statements and in messages about them: no byte of a secret is in the trail, and the rest
# of the statement is.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main',
	conf => "steno.compression = none\nrestart_after_crash = on\n");
my $runs = 0;
my $secrets = 0;

# Functions named as those of pgcrypto and dblink, which need not be installed.
$node->safe_psql(
	'postgres', q{
CREATE FUNCTION crypt(text, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION pgp_sym_encrypt(text, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION hmac(text, text, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION dblink_connect(text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION dblink_exec(text, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE ROLE r1;
CREATE FOREIGN DATA WRAPPER w;
CREATE SERVER s FOREIGN DATA WRAPPER w;
});

# Each SECRET of a statement is another one.
sub with_secrets
{
	my ($sql) = @_;

	$sql =~ s/SECRET/'hunter2x' . ++$secrets . 'y'/ge;
	return $sql;
}

sub client
{
	return Steno::Client->new($node, application_name => 'run ' . ++$runs);
}

# Statement records of the last client: text, and of failures SQLSTATE and message.
sub seen
{
	return [
		map { $_->{sqlstate} ? [ @$_{qw(text sqlstate message)} ] : $_->{text} }
		  sort { $a->{seq} <=> $b->{seq} }
		  statements($node, application => "run $runs")
	];
}

# The statement by the simple protocol, and, unless it is several, the extended one.
sub kept_out
{
	my ($sql, @expected) = @_;
	my $name = $sql =~ s/\s+/ /gr;
	my $c = client();

	$c->query(with_secrets($sql));
	$c->quit;
	is_deeply(seen(), \@expected, $name);
	return if $sql =~ /;\s*\S/ && $sql !~ /\$\$/;
	$c = client();
	$c->extended(with_secrets($sql));
	$c->quit;
	is_deeply(seen(), \@expected, "extended protocol: $name");
	return;
}

# ---- roles ----

kept_out(
	q{ALTER ROLE r1 LOGIN PASSWORD 'SECRET' VALID UNTIL '2030-01-01'},
	q{ALTER ROLE r1 LOGIN PASSWORD '<redacted>' VALID UNTIL '2030-01-01'});
kept_out(q{ALTER USER r1 ENCRYPTED PASSWORD $x$SECRET$x$ /* 'kept' */ NOLOGIN},
	q{ALTER USER r1 ENCRYPTED PASSWORD $x$<redacted>$x$ /* 'kept' */ NOLOGIN});
kept_out(q{ALTER ROLE r1 PASSWORD NULL}, q{ALTER ROLE r1 PASSWORD NULL});
kept_out(
	q{ALTER ROLE missing PASSWORD 'SECRET'},
	[
		q{ALTER ROLE missing PASSWORD '<redacted>'}, '42704',
		'role "missing" does not exist'
	]);
kept_out(
	q{CREATE ROLE r2 PASSWORD 'SECRET' IN ROLE missing; SELECT 'not run'},
	[
		q{CREATE ROLE r2 PASSWORD '<redacted>' IN ROLE missing}, '42704',
		'role "missing" does not exist'
	]);

# ---- statements with errors, and messages that quote them ----

kept_out(
	q{ALTER ROLE r1 PASSWORD 'SECRET' 'SECRET' LOGIN},
	[
		q{ALTER ROLE r1 PASSWORD '<redacted>' '<redacted>' LOGIN}, '42601',
		q{syntax error at or near "'<redacted>'"}
	]);
kept_out(
	q{ALTER ROLE r1 PASSWORD SECRET LOGIN},
	[
		q{ALTER ROLE r1 PASSWORD <redacted> LOGIN}, '42601',
		q{syntax error at or near "<redacted>"}
	]);
kept_out(
	q{ALTER ROLE r1 PASSWORD 'it'SECRET' LOGIN},
	[
		q{ALTER ROLE r1 PASSWORD '<redacted>'<redacted>'<redacted>}, '42601',
		q{unrecognized role option "<redacted>"}
	]);
kept_out(
	q{ALTER ROLE r1 PASSWORD 'SECRET LOGIN},
	[
		q{ALTER ROLE r1 PASSWORD '<redacted>}, '42601',
		q{unterminated quoted string at or near "'<redacted>"}
	]);
kept_out(
	q{ALTRE ROLE r1 PASSWORD 'SECRET' LOGIN},
	[
		q{ALTRE ROLE r1 PASSWORD '<redacted>' LOGIN}, '42601',
		q{syntax error at or near "ALTRE"}
	]);

# ---- several statements in a message, aborted transactions ----

kept_out(
	q{SELECT 'kept'; ALTER ROLE r1 PASSWORD 'SECRET'; ALTER ROLE r1 PASSWORD 'SECRET' LOGIN; SELECT 'kept, too'},
	q{SELECT 'kept'},
	q{ALTER ROLE r1 PASSWORD '<redacted>'},
	q{ALTER ROLE r1 PASSWORD '<redacted>' LOGIN},
	q{SELECT 'kept, too'});
kept_out(
	q{BEGIN; SELECT 1/0; ALTER ROLE r1 PASSWORD 'SECRET'},
	'BEGIN',
	[ 'SELECT 1/0', '22012', 'division by zero' ]);
{
	my $c = client();

	$c->query('BEGIN');
	$c->query('SELECT 1/0');
	$c->query(with_secrets(q{ALTER ROLE r1 PASSWORD 'SECRET'}));
	$c->extended(with_secrets(q{ALTER ROLE r1 PASSWORD 'SECRET' LOGIN}));
	$c->quit;
	my $refused =
	  'current transaction is aborted, commands ignored until end of transaction block';
	is_deeply(
		seen(),
		[
			'BEGIN',
			[ 'SELECT 1/0', '22012', 'division by zero' ],
			[ q{ALTER ROLE r1 PASSWORD '<redacted>'}, '25P02', $refused ],
			[ q{ALTER ROLE r1 PASSWORD '<redacted>' LOGIN}, '25P02', $refused ]
		],
		'refused in an aborted transaction');
}

# ---- inside functions and DO ----

kept_out(
	q{DO $$BEGIN EXECUTE 'ALTER ROLE r1 PASSWORD ''SECRET'' LOGIN'; END$$},
	q{ALTER ROLE r1 PASSWORD '<redacted>' LOGIN},
	q{DO $$BEGIN EXECUTE 'ALTER ROLE r1 PASSWORD ''<redacted>'' LOGIN'; END$$});
kept_out(
	q{DO $$BEGIN EXECUTE format('ALTER ROLE r1 PASSWORD %L', 'SECRET'); END$$},
	q{ALTER ROLE r1 PASSWORD '<redacted>'},
	q{DO $$BEGIN EXECUTE format('ALTER ROLE r1 PASSWORD %L', '<redacted>'); END$$});
kept_out(
	q{DO $$BEGIN EXECUTE 'ALTER ROLE r1 PASSWORD ' || quote_literal('SECRET'); END$$},
	q{ALTER ROLE r1 PASSWORD '<redacted>'},
	q{DO $$BEGIN EXECUTE 'ALTER ROLE r1 PASSWORD ' || quote_literal('<redacted>'); END$$});
{
	my $c = client();
	my $message = q{syntax error at or near "'<redacted>'"};

	$c->query(
		with_secrets(
			q{CREATE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS
$$ BEGIN EXECUTE 'ALTER ROLE r1 PASSWORD ''SECRET'' ''SECRET'''; END $$}));
	$c->query('SELECT fails()');
	$c->query('DO $$BEGIN PERFORM fails(); EXCEPTION WHEN OTHERS THEN NULL; END$$');
	$c->query('SET steno.log_nested = off');
	$c->query('SELECT fails()');
	$c->quit;
	is_deeply(
		seen(),
		[
			q{CREATE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS
$$ BEGIN EXECUTE 'ALTER ROLE r1 PASSWORD ''<redacted>'' ''<redacted>'''; END $$},
			[
				q{ALTER ROLE r1 PASSWORD '<redacted>' '<redacted>'}, '42601', $message
			],
			[ 'SELECT fails()', '42601', $message ],
			[
				q{ALTER ROLE r1 PASSWORD '<redacted>' '<redacted>'}, '42601', $message
			],
			[ 'SELECT fails()', '42601', $message ],
			'DO $$BEGIN PERFORM fails(); EXCEPTION WHEN OTHERS THEN NULL; END$$',
			'SET steno.log_nested = off',
			[ 'SELECT fails()', '42601', $message ]
		],
		'a message that quotes a secret of a statement further in');
}

# The innermost statement is not recorded, and nothing else knows the message.
{
	my $c = client();

	$c->query('SET steno.log_nested = off');
	$c->query(
		with_secrets(
			q{CREATE OR REPLACE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS
$$ BEGIN EXECUTE 'COPY (SELECT 1) TO PROGRAM ''exit 3 # --password SECRET'''; END $$}));
	$c->query('SELECT fails()');
	$c->quit;
	is_deeply(
		[ @{ seen() }[ 2 .. 2 ] ],
		[ [ 'SELECT fails()', '38000', 'program "exit 3 # --password <redacted>" failed' ] ],
		'nor of one that is not recorded');
}

# ---- options and connection strings ----

kept_out(
	q{ALTER SERVER s OPTIONS (host 'kept', token 'SECRET'); ALTER SERVER s OPTIONS (SET token 'SECRET', DROP host)},
	q{ALTER SERVER s OPTIONS (host 'kept', token '<redacted>')},
	q{ALTER SERVER s OPTIONS (SET token '<redacted>', DROP host)});
kept_out(
	q{CREATE USER MAPPING FOR r1 SERVER s OPTIONS (user 'kept', password 'SECRET'); ALTER USER MAPPING FOR r1 SERVER s OPTIONS (SET "password" 'SECRET'); DROP USER MAPPING FOR r1 SERVER s},
	q{CREATE USER MAPPING FOR r1 SERVER s OPTIONS (user 'kept', password '<redacted>')},
	q{ALTER USER MAPPING FOR r1 SERVER s OPTIONS (SET "password" '<redacted>')},
	q{DROP USER MAPPING FOR r1 SERVER s});
kept_out(
	q{CREATE USER MAPPING FOR r1 SERVER missing OPTIONS (user 'kept', password 'SECRET')},
	[
		q{CREATE USER MAPPING FOR r1 SERVER missing OPTIONS (user 'kept', password '<redacted>')},
		'42704',
		'server "missing" does not exist'
	]);
{
	my $c = client();

	$c->query(with_secrets($_)) foreach
	  q{CREATE SUBSCRIPTION u CONNECTION 'host=kept password=SECRET port=1' PUBLICATION p WITH (connect = false)},
	  q{ALTER SUBSCRIPTION u CONNECTION 'host=kept password=''SECRET SECRET'''},
	  q{ALTER SUBSCRIPTION u CONNECTION 'postgresql://me:SECRET@kept:1/d?password=SECRET&port=2'},
	  q{ALTER SUBSCRIPTION u CONNECTION 'host=kept password=my SECRET'};
	$c->query('ALTER SUBSCRIPTION u SET (slot_name = NONE)');
	$c->query('DROP SUBSCRIPTION u');
	$c->quit;
	is_deeply(
		[ @{ seen() }[ 0 .. 3 ] ],
		[
			q{CREATE SUBSCRIPTION u CONNECTION 'host=kept password=<redacted> port=1' PUBLICATION p WITH (connect = false)},
			q{ALTER SUBSCRIPTION u CONNECTION 'host=kept password=<redacted>'},
			q{ALTER SUBSCRIPTION u CONNECTION 'postgresql://me:<redacted>@kept:1/d?password=<redacted>&port=2'},
			[
				q{ALTER SUBSCRIPTION u CONNECTION 'host=kept password=<redacted>'},
				'42601',
				'invalid connection string syntax: missing "=" after "<redacted>" in connection info string'
				  . "\n"
			]
		],
		'subscriptions');
}
kept_out(
	q{SELECT dblink_connect('host=kept password=SECRET'), dblink_exec('postgres://me:SECRET@kept/', 'ALTER ROLE r1 PASSWORD ''SECRET''')},
	q{SELECT dblink_connect('host=kept password=<redacted>'), dblink_exec('postgres://me:<redacted>@kept/', 'ALTER ROLE r1 PASSWORD ''<redacted>''')}
);

# ---- programs, calls, settings ----

kept_out(
	q{COPY (SELECT 'kept') TO PROGRAM 'cat >/dev/null # --password SECRET' (FORMAT csv)},
	q{COPY (SELECT 'kept') TO PROGRAM 'cat >/dev/null # --password <redacted>' (FORMAT csv)});
kept_out(
	q{COPY (SELECT 'kept') TO PROGRAM 'exit 3 # --password SECRET'},
	[
		q{COPY (SELECT 'kept') TO PROGRAM 'exit 3 # --password <redacted>'}, '38000',
		'program "exit 3 # --password <redacted>" failed'
	]);
kept_out(
	q{SELECT crypt('SECRET', 'SECRET'), pgp_sym_encrypt('SECRET'||'SECRET', $$SECRET$$), hmac(E'SECRET', 'x', 'x'), 'kept'},
	q{SELECT crypt('<redacted>', '<redacted>'), pgp_sym_encrypt('<redacted>'||'<redacted>', $$<redacted>$$), hmac(E'<redacted>', '<redacted>', '<redacted>'), 'kept'}
);
kept_out(
	q{SELECT 1/0, crypt('SECRET', 'x')},
	[
		q{SELECT 1/0, crypt('<redacted>', '<redacted>')}, '22012',
		'division by zero'
	]);
kept_out(
	q{SELECT crypt('SECRET'::int::text, 'x')},
	[
		q{SELECT crypt('<redacted>'::int::text, '<redacted>')}, '22P02',
		'invalid input syntax for type integer: "<redacted>"'
	]);
kept_out(
	q{PREPARE p AS SELECT crypt('SECRET', $1); EXECUTE p('kept'); DEALLOCATE p},
	q{PREPARE p AS SELECT crypt('<redacted>', $1)},
	q{PREPARE p AS SELECT crypt('<redacted>', $1)},
	q{EXECUTE p('kept')},
	q{DEALLOCATE p});
kept_out(
	q{BEGIN; DECLARE c CURSOR FOR SELECT crypt('SECRET', 'x'); FETCH c; CLOSE c; COMMIT},
	'BEGIN',
	q{DECLARE c CURSOR FOR SELECT crypt('<redacted>', '<redacted>')},
	'FETCH c',
	q{DECLARE c CURSOR FOR SELECT crypt('<redacted>', '<redacted>')},
	'CLOSE c',
	'COMMIT');
kept_out(
	q{SELECT 1 WHERE set_config('my.password', 'SECRET', false) = 'kept'},
	q{SELECT 1 WHERE set_config('my.password', '<redacted>', false) = 'kept'});
kept_out(q{SET my.password = 'SECRET'}, q{SET my.password = '<redacted>'});

# Larger than the space in the ring.
{
	my $c = client();
	my $long = 'x' x 300_000;

	$c->query(with_secrets(qq{SELECT crypt('SECRET', 'x'), '$long'}));
	$c->quit;
	is_deeply(seen(), [qq{SELECT crypt('<redacted>', '<redacted>'), '$long'}],
		'a long text');
}

# In notes, and in records of settings that are commands, also where those are long.
{
	my $c = client();
	my @changes;

	foreach my $command ('curl -u me https://me:SECRET@kept/ -d password=SECRET -d kept', 'true ' . 'x' x 120 . ' https://me:SECRETSECRET@kept/')
	{
		my $before = scalar records($node, kind => 'setting', user => undef);

		$c->query(with_secrets(qq{ALTER SYSTEM SET steno.alert_command = '$command'}));
		$node->reload;
		wait_until 'the reload is recorded', sub { scalar(records($node, kind => 'setting', user => undef)) > $before };
	}
	$c->query(with_secrets(q{SELECT steno.note('ALTER ROLE r1 PASSWORD ''SECRET'' LOGIN')}));
	$c->query(with_secrets(q{SELECT steno.note('it''s postgres://me:SECRET@kept/ now, PASSWORD ''SECRET''')}));
	$c->query(with_secrets(q{SELECT steno.note('host=kept password=SECRET')}));
	$c->quit;
	@changes = sort { $a->{seq} <=> $b->{seq} } records($node, kind => 'setting', user => undef);
	is_deeply(
		[ map { [ @{ $_->{extra} }{qw(old new)} ] } @changes ],
		[
			[ '', 'curl -u me https://me:<redacted>@kept/ -d password=<redacted> -d kept' ],
			[ 'curl -u me https://me:<redacted>@kept/ -d password=<redacted> -d kept', '<redacted>' ]
		],
		'changes of settings');
	is_deeply(
		[ map { $_->{text} } sort { $a->{seq} <=> $b->{seq} } records($node, kind => 'note') ],
		[
			q{ALTER ROLE r1 PASSWORD '<redacted>' LOGIN},
			q{it's postgres://me:<redacted>@kept/ now, PASSWORD '<redacted>'},
			'host=kept password=<redacted>'
		],
		'notes');
}

# Backslashes, as the session has it; since PostgreSQL 19, it cannot choose.
if ($node->pg_version->major < 19)
{
	my $c = client();

	$c->query(
		'SET standard_conforming_strings = off; SET escape_string_warning = off');
	$c->query(with_secrets(q{ALTER ROLE r1 PASSWORD 'a\'SECRET' LOGIN}));
	$c->quit;
	is(seen()->[2], q{ALTER ROLE r1 PASSWORD '<redacted>' LOGIN},
		'standard_conforming_strings = off');
}

# Start records.
{
	my $c = client();

	$c->query(q{SET steno.log_start = 'all'});
	$c->query(with_secrets($_)) foreach
	  q{SELECT crypt('SECRET', 'x'), 'kept'},
	  q{ALTER ROLE r1 PASSWORD 'SECRET'};
	$c->quit;
	is_deeply(
		[
			map { $_->{text} } sort { $a->{seq} <=> $b->{seq} }
			  records($node, kind => 'start', application => "run $runs")
		],
		[
			q{SELECT crypt('<redacted>', '<redacted>'), 'kept'},
			q{ALTER ROLE r1 PASSWORD '<redacted>'}
		],
		'start records');
	is_deeply(
		[ @{ seen() }[ 1, 2 ] ],
		[
			q{SELECT crypt('<redacted>', '<redacted>'), 'kept'},
			q{ALTER ROLE r1 PASSWORD '<redacted>'}
		],
		'and those of the ends');
}

# ---- killed in the middle ----

foreach my $case (
	[
		q{SELECT pg_sleep(1000), crypt('SECRET', 'x'), 'kept'},
		q{SELECT pg_sleep(1000), crypt('<redacted>', '<redacted>'), 'kept'}
	],
	[
		q{DO $$BEGIN PERFORM pg_sleep(1000); ALTER ROLE r1 PASSWORD 'SECRET'; END$$},
		q{DO $$BEGIN PERFORM pg_sleep(1000); ALTER ROLE r1 PASSWORD '<redacted>'; END$$}
	],
	[
		q{SELECT crypt('SECRET', 'x') WHERE (SELECT count(*) FROM sleeps()) = 1},
		q{SELECT crypt('<redacted>', '<redacted>') WHERE (SELECT count(*) FROM sleeps()) = 1}
	])
{
	my ($sql, $expected) = @$case;
	my $c;
	my $start;

	# nested statements have records of their own: the text moves to the in-flight entry
	$node->safe_psql('postgres', 'CREATE OR REPLACE FUNCTION sleeps() RETURNS int LANGUAGE plpgsql AS '
		  . '$$BEGIN PERFORM 1; PERFORM pg_sleep(1000); RETURN 1; END$$');
	$start = -s $node->logfile;
	$c = client();
	$c->put('Q', with_secrets($sql) . "\0")->send_all;
	wait_until 'it sleeps', sub {
		value($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event = 'PgSleep'") eq '1';
	};
	kill 'KILL', $c->{pid};
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $start);
	wait_until 'the server is back',
	  sub { can_connect($node) };
	wait_until 'the rings of before are drained',
	  sub { scalar(my @files = ring_files($node)) == 1 };
	is( the_record($node, 'killed', kind => 'statement', application => "run $runs",
			outcome => 'interrupted')->{text},
		$expected, "killed in: $sql");
}

# ---- nothing of them is anywhere ----

flush($node);
cmp_ok($secrets, '>', 60, 'there were secrets');
is(scalar(grep { /hunter2x/ } lines($node)), 0, 'in no record');
{
	my $bytes = '';

	$bytes .= slurp_file($_) foreach glob trail($node) . '/*/*.steno';
	like($bytes, qr/dblink_connect/, 'segments are not compressed');
	unlike($bytes, qr/hunter2x/, 'in no segment');
}
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
