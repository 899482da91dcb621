
# Hooks of other libraries, which call ours and are called by ours, may do anything that the server permits: run statements
# of their own, as Citus does with PROCESS_UTILITY_TOPLEVEL; catch the error of a statement and go on; fail.  Whatever they
# do, the session lives, and each statement of the client has one record with its outcome.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $sources = dirname(__FILE__) . '/..';
my ($include, $flags) = map { qx(pg_config --$_) } qw(includedir-server cppflags);
my $number = 0;
my @sent;

chomp $include;
foreach my $library (qw(hooks_inner hooks_outer))
{
	system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', "-DLIBRARY=\"$library\"", split(' ', $flags),
		"-I$include", "-I$sources", "-I$sources/../core", '-o', "$folder/$library.so", dirname(__FILE__) . '/hooks.c');
}
my $node = new_node('main', conf => "shared_preload_libraries = '$folder/hooks_inner,pg_steno,$folder/hooks_outer'\n");

my @whats = qw(utility same_text utility_query subcommand block failure query portal access error);
my @wheres = (
	(map { my $hook = $_; map { "$hook $_" } qw(before after) } qw(start run finish end utility planner access)),
	'commit before');

# What clients send, and whether it fails by itself.
my @statements = (
	[ 'SELECT 1', 0 ],
	[ 'INSERT INTO t VALUES (1)', 0 ],
	[ q{DO $$BEGIN PERFORM 2; EXECUTE 'SET LOCAL geqo_seed = 0.1'; END$$}, 0 ],
	[ 'CREATE TEMP TABLE made AS SELECT 3', 0 ],
	[ 'SELECT 1 / (random() * 0)::int', 1 ],
	[ 'DROP TABLE no_such_table', 1 ]);

sub session
{
	return Steno::Client->new($node, application_name => 'hooks');
}

my $c = session();

sub run
{
	my ($library, $act, $sql, $extended) = @_;
	my $text = '/* act ' . ++$number . " */ $sql";
	my $r;

	die "cannot set $library.act" if $c->query("SET $library.act = '$act'")->{sqlstate};
	$r = $extended ? $c->extended($text) : $c->query($text);
	push @sent,
	  {
		text => $text,
		act => "$library: $act",
		failed => $r->{sqlstate} ? 1 : 0,
		sqlstate => $r->{sqlstate},
		# a hook may record a statement of its own under the client's text, or catch the client's error
		repeated => $act =~ /same_text/ ? 1 : 0,
		caught => $act =~ /around/ ? 1 : 0
	  };
	$c->query("RESET $library.act");
	$c->query('DROP TABLE IF EXISTS made');
	return if ($c->query("SELECT 'alive $number'")->{rows}[0][0] // '') eq "alive $number";
	fail("$library, $act, $sql: the session answers");
	$c = session();
	return;
}

value($node, 'CREATE TABLE t (a int)');
foreach my $where (@wheres)
{
	foreach my $what (@whats)
	{
		# an error in these would be one of the server's own cleaning up
		next if $what eq 'error' && $where =~ /^(end|commit)/;
		foreach my $library (qw(hooks_inner hooks_outer))
		{
			my $turn = 0;

			run($library, "$where $what", $_->[0], ++$turn % 2) foreach @statements;
		}
	}
}
foreach my $what (qw(swallow throw))
{
	foreach my $hook (qw(utility run))
	{
		foreach my $library (qw(hooks_inner hooks_outer))
		{
			run($library, "$hook around $what", $_->[0], 0) foreach @statements[ 2 .. 5 ];
		}
	}
}
is($number, scalar @sent, 'all were answered');

# In a transaction block, and its end.
foreach my $what (@whats)
{
	if ($what ne 'error')
	{
		$c->query('BEGIN');
		run('hooks_outer', "utility before $what", 'DO $$BEGIN PERFORM 4; END$$', 0);
		$c->query('ROLLBACK');
	}
	# when the transaction is about to end, the server permits no subtransaction
	next if $what eq 'failure';
	$c->query('BEGIN');
	$c->query('INSERT INTO t VALUES (5)');
	run('hooks_outer', "utility after $what", 'COMMIT', 0);
	$c->query('ROLLBACK');
}
$c->quit;

# To write the line with the duration of a Parse is no work for its statement.
{
	my $logged = Steno::Client->new($node, application_name => 'logged', options => '-c log_min_duration_statement=0');

	$logged->query(q{SET hooks_inner.act = 'log before sleep'});
	$logged->parse('s', '/* act */ SELECT 1')->sync->finish;
	$logged->query('RESET hooks_inner.act');
	$logged->bind_values('', 's')->execute('', 0)->sync->finish;
	cmp_ok(the_record($node, 'it', application => 'logged', text => qr/act \*\/ SELECT 1/)->{duration_us},
		'<', 250_000, 'what a log takes is not in the duration of a Parse');
	$logged->quit;
}

flush($node);
my %records;
push @{ $records{ $_->{text} // '' } }, $_
  foreach grep { !$_->{depth} } statements($node, application => 'hooks');
my @wrong;
foreach my $s (@sent)
{
	my @of = @{ $records{ $s->{text} } // [] };
	my $outcome = $s->{failed} ? 'error' : 'ok';

	next if @of == 1 && ($of[0]{outcome} eq $outcome || $s->{caught});
	next if $s->{repeated} && @of >= 1;
	# a portal's query that has delivered all of its rows is over: what fails after it, has its own record
	next if $s->{act} eq 'hooks_outer: run after error' && join(' ', sort map { $_->{outcome} } @of) eq 'error ok';
	push @wrong, "$s->{act}, $s->{text}: " . join(', ', map { $_->{outcome} } @of) . ", but $outcome";
}
is(join("\n", @wrong), '', 'each statement of the client has one record with its outcome');
is(scalar(grep { @{ $records{"SELECT 'alive $_'"} // [] } != 1 } 1 .. $number), 0, 'and so have those after it');
is(scalar(grep { /TRAP|terminated by signal/ } split /\n/, slurp_file($node->logfile)), 0, 'no process has crashed');
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
