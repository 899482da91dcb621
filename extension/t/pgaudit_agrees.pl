
# With both loaded, "steno cat --format pgaudit" prints what pgaudit logs: for every section of
# test/pgaudit.sql, run with the same settings of both, and for messages of the protocol.  Intended
# differences are listed below, and in docs/pgaudit.md; a difference that is not listed fails the test,
# and so does a listed one that does not occur.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

plan skip_all => 'pgaudit is not installed' if !has_module('pgaudit');

# The sections of the corpus: their statements by name.
my ($introduction, %corpus) = split /^---- (\w+)\n/m, slurp_file("$ENV{TESTDIR}/test/pgaudit.sql");
my @names = sort keys %corpus;

# The settings that both have, and what the reader is told instead.
my %shared = map { $_ => 1 } qw(log role log_catalog log_parameter log_rows log_statement);
my %of_reader = map { $_ => 1 } qw(log_catalog log_parameter log log_relation log_rows log_statement log_statement_once);

# The settings of a section, in its first line.
sub settings_of
{
	my ($section) = @_;
	my ($line) = $corpus{$section} =~ /\A-- settings: (.*)/ or die "$section has no settings";

	return map {
		my ($name, $value) = /^(\w+) = (.*)$/ or die "$section: $_";
		($name => $value =~ s/^'|'$//gr)
	} split /; */, $line;
}

sub server
{
	my ($name, $libraries) = @_;
	my $node = new_node(
		$name, conf => qq{
shared_preload_libraries = '$libraries'
log_line_prefix = '@\@%a|'
log_error_verbosity = default
steno.mandatory = 'none'
steno.log = 'none'
steno.log_extension_scripts = off
max_prepared_transactions = 2
});

	$node->safe_psql('template1', 'CREATE EXTENSION pgaudit');
	return $node;
}

# pgaudit's misc has transaction control and SET in it.
sub same_classes
{
	my ($list) = @_;

	return join ',\\ ', map { /^(-?)misc$/ ? ("$1misc", "$1misc_set", "$1transaction") : $_ } split /,\\ /, $list;
}

sub run_section
{
	my ($node, $name) = @_;
	my %settings = settings_of($name);
	my @options;

	foreach my $setting (sort keys %settings)
	{
		my $value = $settings{$setting} =~ s/ /\\ /gr;

		push @options, "-c pgaudit.$setting=$value";
		$value = same_classes($value) if $setting eq 'log';
		push @options, "-c steno.$setting=$value" if $shared{$setting};
	}
	value($node, qq{CREATE DATABASE "$name"});
	local $ENV{PGAPPNAME} = $name;
	local $ENV{PGOPTIONS} = "@options";
	local $ENV{PGCLIENTENCODING} = 'UTF8';
	$node->psql($name, $corpus{$name}, on_error_stop => 0);
	return;
}

# What psql has no command for: messages of the extended protocol.
my %by_protocol = (log => 'all, -ddl', log_parameter => 'on', log_relation => 'on');

sub run_protocol
{
	my ($node) = @_;
	my $classes = same_classes('all,\\ -ddl') =~ s/\\//gr;
	my $c = Steno::Client->new(
		$node,
		application_name => 'protocol',
		options => '-c pgaudit.log=all,-ddl -c pgaudit.log_parameter=on -c pgaudit.log_relation=on -c steno.log=' . $classes =~ s/ //gr);

	$c->query('CREATE TABLE protocol (a int, b text, c bytea)');
	$c->query(q{CREATE FUNCTION adds() RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO protocol VALUES (1); END'});
	$c->extended('INSERT INTO protocol VALUES ($1, $2, $3)', 1, "it's, \"quoted\"", '\xdeadbeef');
	$c->extended('INSERT INTO protocol VALUES ($1, $2, NULL)', $_, undef) foreach 2 .. 9;
	$c->extended('SELECT a FROM protocol WHERE b = $1', "two\nlines");
	$c->extended('SELECT $1::timestamptz, $2::numeric, $3::bool', '2026-01-02 03:04:05+00', '12.50', 't');

	# one statement, several portals; one that is suspended and goes on
	$c->query('BEGIN');
	$c->parse('s', 'SELECT a FROM protocol WHERE a > $1 ORDER BY a')->bind_values('one', 's', 0)->bind_values('two', 's', 5)
	  ->execute('one', 2)->execute('two', 2)->execute('one', 2)->execute('one')->sync->finish;
	$c->query('COMMIT');
	$c->bind_values('', 's', 3)->execute('')->bind_values('', 's', 4)->execute('')->sync->finish;

	# what is only parsed, what fails to bind, what fails in a pipeline
	$c->parse('only', 'SELECT b FROM protocol')->sync->finish;
	$c->bind_values('', 's', 'no number')->execute('')->sync->finish;
	$c->parse('', 'DELETE FROM protocol WHERE a = $1')->bind_values('', '', 1)->execute('')
	  ->parse('', 'SELECT 1/(a - $1) FROM protocol')->bind_values('', '', 2)->execute('')
	  ->parse('', 'SELECT c FROM protocol')->bind_values('', '')->execute('')->sync->finish;
	$c->extended('SET work_mem = 1000');
	$c->extended('TRUNCATE protocol');

	# function calls without a statement: pgaudit sees what they run
	$c->call(value($node, q{SELECT 'abs(int)'::regprocedure::oid}), -1);
	$c->call(value($node, q{SELECT 'adds()'::regprocedure::oid}));
	$c->quit;
	wait_until 'it has gone',
	  sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'protocol'}) eq '0' };
	return;
}

# A line of pgaudit's: its fields.  What is not compared: a semicolon at the end of the
# text and blanks around it, which pg_steno does not keep.
my @fields = qw(type statement substatement class command kind name text parameters rows);

sub parse
{
	my ($line) = @_;
	my @values;

	while ($line =~ /\G(?:"((?:[^"]|"")*)"|([^,]*))(,|\z)/gc)
	{
		my ($quoted, $plain, $end) = ($1, $2, $3);

		push @values, defined $quoted ? $quoted =~ s/""/"/gr : $plain;
		last if $end eq '';
	}
	my %line;
	@line{@fields} = @values;
	$line{rows} //= '';
	$line{text} =~ s/\A\s+//;
	$line{text} =~ s/[;\s]+\z//;
	return \%line;
}

# What is compared of a line, all but its numbers.  once: the text stands in one line of
# a statement only, and which one that is, is not compared.
sub essence
{
	my ($line, $once) = @_;

	return join '|', map { $line->{$_} } grep { !/statement$/ && !($once && /^(text|parameters)$/) } @fields;
}

# What pgaudit said of each run: lists of lines.
sub said_by_pgaudit
{
	my ($node) = @_;
	my %lines;

	foreach my $entry (split /^@@/m, slurp_file($node->logfile))
	{
		my ($application, $text) = $entry =~ /^([^|]*)\|LOG:  AUDIT: (.*)\n\z/s or next;

		push @{ $lines{$application} }, parse($text =~ s/\n\t/\n/gr);
	}
	return %lines;
}

# What the trail says of a run.
sub said_by_steno
{
	my ($node, $name, %settings) = @_;
	my @options = map { ('--pgaudit', "$_=" . $settings{$_} =~ s/,//gr) } grep { $of_reader{$_} } sort keys %settings;
	my ($code, $out, $err) = steno_result('cat', '--format', 'pgaudit', '--application', $name, @options, trail($node));

	die "steno cat failed: $err" if $code != 0;

	# but for the queries of pgaudit's own event triggers, which it keeps to itself
	return grep { $_->{text} !~ /pg_catalog\.pg_event_trigger_(ddl_commands|dropped_objects)/ }
	  map { parse(s/^AUDIT: //r =~ s/\n\z//r) } split /^(?=AUDIT: )/m, $out;
}

# ---- what differs on purpose

# Each has the title of its section in docs/pgaudit.md, and is: only_pgaudit, only_steno:
# lines that only one of them has; both: a line of each that stand for one another.
my @differences = (
	{
		name => 'Statements of one message',
		both => sub {
			same($_[0], $_[1], 'text') &&
			  (($_[0]{text} =~ /;.*\S/s && index($_[0]{text}, $_[1]{text}) >= 0) || $_[1]{text} =~ /^(?:\/\*.*?\*\/|--[^\n]*\n|\s)+\Q$_[0]{text}\E$/s);
		},
	},
	{
		name => 'Statements while a portal is open',    # see numbered_alike
	},
	{
		name => 'What runs as another role',
		only_steno => sub { $_[0]{text} =~ /^\(SELECT count\(\*\) FROM hidden\)$|^SELECT 1 FROM ONLY "public"."hidden"/ },
	},
	{
		name => 'Secrets',
		both => sub { same($_[0], $_[1], 'text') && $_[1]{text} =~ /'<redacted>'/ && $_[0]{text} =~ /<REDACTED>|PROGRAM '/ },
	},
	{
		name => 'MERGE',
		both => sub {
			same($_[0], $_[1], 'class', 'command') && $_[0]{command} eq '???' && $_[1]{command} eq 'MERGE' && $_[1]{class} eq 'WRITE';
		},
		only_steno => sub { $_[0]{command} eq 'MERGE' && $_[0]{class} eq 'WRITE' },
	},
	{
		name => 'CALL',
		only_pgaudit => sub { $_[0]{class} eq 'MISC' && $_[0]{command} eq 'CALL' },
	},
	{
		name => 'Failures of the planner',
		only_steno => sub { $_[0]{text} =~ m{^SELECT 1/0|^INSERT INTO t VALUES \(1/0\)} && $_[0]{command} =~ /^(SELECT|INSERT)$/ },
	},
	{
		name => 'Functions that are called twice',
		only_pgaudit => sub { $_[0]{command} eq 'EXECUTE' && $_[0]{text} =~ /(\w+)\(\d\), \1\(/ },
	},
	{
		name => 'Whole rows',
		only_steno => sub { $_[0]{type} eq 'OBJECT' && $_[0]{text} eq 'SELECT columns FROM columns' },
	},
	{
		name => 'Relations of which nothing is asked',
		only_pgaudit => sub { $_[0]{class} eq 'MISC' && $_[0]{command} eq '???' && $_[0]{name} ne '' },
	},
	{
		name => 'Relations that are named twice',
		only_pgaudit => sub { $_[0]{name} eq 'public.t' && $_[0]{text} =~ /FROM t, t t2/ },
	},
	{
		name => 'Objects that are changed twice',
		only_pgaudit => sub { $_[0]{command} eq 'CREATE VIEW' && $_[0]{text} =~ /OR REPLACE/ },
	},
	{
		name => 'Catalogs in COPY',
		only_pgaudit => sub { $_[0]{command} eq 'COPY' && $_[0]{text} =~ /pg_am/ },
	},
	{
		name => 'COPY with log_rows',
		both => sub {
			$_[0]{command} eq 'COPY' && $_[0]{name} eq '' && $_[0]{rows} ne '' && same($_[0], $_[1], 'command', 'kind', 'name') &&
			  $_[1]{name} ne '' && $_[1]{command} =~ /^(INSERT|SELECT)$/;
		},
	},
	{
		name => 'COPY in PostgreSQL 19',
		both => sub {
			$_[0]{command} eq 'COPY' && same($_[0], $_[1], 'command', $_[0]{kind} eq '' ? ('kind', 'name') : (), 'rows') &&
			  ($_[0]{rows} eq $_[1]{rows} || $_[1]{rows} eq '0') && $_[1]{command} =~ /^(COPY|INSERT|SELECT)$/;
		},
	},
	{
		name => 'Rows of cursors',
		only_steno => sub { $_[0]{command} eq 'SELECT' && $_[0]{text} =~ /^DECLARE c/ && $_[0]{rows} ne '' },
	},
	{
		name => 'Comments on columns',
		both => sub { same($_[0], $_[1], 'kind', 'name') && $_[0]{kind} eq 'TABLE COLUMN' && $_[1]{kind} eq 'TABLE' },
	},
	{
		name => 'Composite types that are dropped',
		both => sub { same($_[0], $_[1], 'kind', 'name') && $_[0]{kind} eq 'COMPOSITE TYPE' && $_[0]{command} eq 'DROP TYPE' },
		only_pgaudit => sub { $_[0]{kind} eq 'COMPOSITE TYPE' && $_[0]{command} eq 'DROP EXTENSION' },
	},
	{
		name => 'Defaults that are dropped',
		both => sub { same($_[0], $_[1], 'kind', 'name') && $_[0]{kind} eq 'DEFAULT VALUE' && $_[1]{kind} eq 'TABLE' },
		only_pgaudit => sub { $_[0]{kind} eq 'DEFAULT VALUE' },
	},
	{
		name => 'Foreign keys that are added',
		only_pgaudit => sub {
			($_[0]{command} eq 'ALTER TABLE' && $_[0]{text} =~ /^CREATE TABLE .* REFERENCES/) ||
			  ($_[0]{command} eq 'SELECT' && $_[0]{text} =~ /^ALTER TABLE .* FOREIGN KEY/);
		},
	},
	{
		name => 'Foreign keys that are dropped',
		only_pgaudit => sub { $_[0]{kind} eq 'TRIGGER' && $_[0]{name} =~ /^"RI_ConstraintTrigger_/ },
	},
	{
		name => 'Partitions that are detached',
		only_steno => sub { $_[0]{text} =~ /DETACH PARTITION/ && $_[0]{name} eq 'public.part1' },
	},
	{
		name => 'DROP OWNED',
		only_pgaudit => sub { $_[0]{command} eq 'REVOKE' && $_[0]{text} =~ /^DROP OWNED/ },
	},
	{
		name => 'Function calls without a statement',
		only_steno => sub { $_[0]{class} eq 'FUNCTION' && $_[0]{command} =~ /^(FUNCTION CALL|EXECUTE)$/ && $_[0]{text} eq '' },
	});

# Whether two lines have the same in all fields but those.
sub same
{
	my ($p, $s, @but) = @_;

	return !grep {
		my $field = $_;
		$field !~ /statement$/ && !(grep { $_ eq $field } @but) && $p->{$field} ne $s->{$field}
	} @fields;
}

my %occurred;

# Take away what the listed differences account for; returns the rest.
sub account
{
	my ($pgaudit, $steno) = @_;
	my @p = @$pgaudit;
	my @s = @$steno;

	foreach my $d (@differences)
	{
		my @left;

		foreach my $p (@p)
		{
			my ($with) = $d->{both} ? grep { $d->{both}->($p, $s[$_]) } 0 .. $#s : ();

			if (defined $with)
			{
				splice @s, $with, 1;
			}
			elsif (!($d->{only_pgaudit} && $d->{only_pgaudit}->($p)))
			{
				push @left, $p;
				next;
			}
			$occurred{ $d->{name} }++;
		}
		@p = @left;
		next if !$d->{only_steno};
		@left = grep { !$d->{only_steno}->($_) } @s;
		$occurred{ $d->{name} } += @s - @left if @left < @s;
		@s = @left;
	}
	return (\@p, \@s);
}

# ---- comparing

# Compare two lists of lines: what only one of them has, and the pairs that are alike.
sub compare
{
	my ($pgaudit, $steno, $once) = @_;
	my (%with, @only_pgaudit, @pairs);

	push @{ $with{ essence($_, $once) } }, $_ foreach @$steno;
	foreach my $line (@$pgaudit)
	{
		my $alike = shift @{ $with{ essence($line, $once) } // [] };

		if ($alike)
		{
			push @pairs, [ $line, $alike ];
		}
		else
		{
			push @only_pgaudit, $line;
		}
	}
	my %left = map { $_ => 1 } map { @$_ } values %with;
	return (\@only_pgaudit, [ grep { $left{$_} } @$steno ], \@pairs);
}

# Lines with one statement's number have one statement's number on the other side, too,
# and the numbers rise alike.
sub numbered_alike
{
	my (@pairs) = @_;
	my (%of, @wrong);
	my $last = 0;

	foreach my $pair (@pairs)
	{
		my ($p, $s) = map { $_->{statement} } @$pair;

		push @wrong, "$p is $s, and was $of{$p}" if defined $of{$p} && $of{$p} != $s;
		push @wrong, "$p is $s, after $last" if $s < $last;
		$of{$p} = $last = $s;
	}
	return @wrong;
}

my $alike = 0;
my $version;
my $lines = 0;
my ($same_statement, $same_substatement) = (0, 0);

sub check
{
	my ($what, $pgaudit, $steno, $once, @numbers) = @_;
	my ($p, $s, $pairs) = compare($pgaudit, $steno, $once);
	my ($only_p, $only_s) = account($p, $s);

	$lines += @$pgaudit;
	$alike += @$pairs;
	foreach my $pair (@$pairs)
	{
		$same_statement++ if $pair->[0]{statement} == $pair->[1]{statement};
		$same_substatement++ if $pair->[0]{substatement} == $pair->[1]{substatement};
	}
	is_deeply(
		[ (map { 'pgaudit: ' . essence($_) } @$only_p), (map { 'pg_steno: ' . essence($_) } @$only_s) ],
		[], "$what: the same, but for what differs on purpose");
	is_deeply([ numbered_alike(@$pairs) ], \@numbers, "$what: statements are numbered alike");
	$occurred{'Statements while a portal is open'}++ if @numbers;
	is(scalar(grep { $_->{text} eq '<previously logged>' } @$steno),
		scalar(grep { $_->{text} eq '<previously logged>' } @$pgaudit), "$what: texts are shown once")
	  if $once;
	return;
}

foreach my $libraries ('pg_steno,pgaudit', 'pgaudit,pg_steno')
{
	my $node = server($libraries =~ s/,/_/r, $libraries);
	my %said;

	run_section($node, $_) foreach @names;
	run_protocol($node);
	flush($node);
	%said = said_by_pgaudit($node);
	foreach my $name (@names)
	{
		my %settings = settings_of($name);

		check("$libraries: $name", $said{$name} // [], [ said_by_steno($node, $name, %settings) ],
			($settings{log_statement_once} // 'off') eq 'on');
	}
	check("$libraries: extended protocol", $said{protocol}, [ said_by_steno($node, 'protocol', %by_protocol) ], 0,
		'13 is 14, and was 13', '13 is 15, and was 14');
	$version = value($node, 'SHOW server_version_num');
	$node->stop;
	verify_ok($node, "$libraries: the trail is whole");
}

note "$alike of $lines lines of pgaudit's are the same";
note "$same_statement with the same statement number, $same_substatement with the same substatement number";
note "$_: $occurred{$_}" foreach sort keys %occurred;
cmp_ok($alike, '>', 600, 'lines that are the same');
{
	my ($section) = slurp_file("$ENV{TESTDIR}/../docs/pgaudit.md") =~ /^## What differs\n(.*?)^## /ms;

	is_deeply([ $section =~ /^### (.*)$/mg ], [ map { $_->{name} } @differences ], 'the manual lists what differs');
}

# pgaudit for PostgreSQL 17 logs a statement of several as we do, that for 18 without the comments before it.
# From PostgreSQL 16 on, it gets only those relations on which a privilege is needed.
$occurred{'Relations of which nothing is asked'} //= 0 if $version >= 160000;
$occurred{'Statements of one message'} //= 0 if $version >= 170000 && $version < 180000;
# That for 19 has COPY as the command of all lines of a COPY.
if ($version >= 190000)
{
	$occurred{'COPY with log_rows'} //= 0;
}
else
{
	is($occurred{'COPY in PostgreSQL 19'}, undef, 'COPY is a command only in PostgreSQL 19');
	$occurred{'COPY in PostgreSQL 19'} = 0;
}
is_deeply([ grep { !defined $occurred{$_} } map { $_->{name} } @differences ], [], 'every listed difference occurs');
done_testing();
