
# The rules file is read at the start and on reload; errors in it are reported, and then nothing
# changes.

use strict;
use warnings;

use File::Path ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "restart_after_crash = on\n");
my $folder = $node->data_dir;
my $seen = 0;

sub write_file
{
	my ($name, $text) = @_;

	open my $f, '>', "$folder/$name.new" or die "$name: $!";
	print $f $text;
	close $f or die "$name: $!";
	rename "$folder/$name.new", "$folder/$name" or die "$name: $!";
	return;
}

# The changes that were recorded since the last call: old, new, errors.
sub changes
{
	my @all = grep { $_->{extra}{name} eq 'steno.rules_file' }
	  records($node, kind => 'setting', user => undef);
	my @new = splice @all, $seen;

	$seen += @new;
	return [ map { [ @{ $_->{extra} }{qw(old new errors source)} ] } @new ];
}

# Reload, and wait for the next record of a change.
sub reload_changes
{
	my $found;

	$node->reload;
	wait_until 'the change is recorded', sub { $found = changes(); @$found };
	return $found;
}

sub wait_for_log
{
	my ($message, $from) = @_;

	wait_until "the log says $message", sub {
		my $log = substr slurp_file($node->logfile), $from;
		$log =~ $message;
	};
	return substr slurp_file($node->logfile), $from;
}

sub is_recorded
{
	my ($sql) = @_;
	my $c = Steno::Client->new($node, application_name => 'probe');

	$c->query($sql);
	$c->quit;
	return scalar statements($node, text => $sql);
}

# ---- without a file, and with one ----
is_deeply(changes(), [], 'no rules: no record of them');
is(value($node, 'SELECT count(*) FROM steno.rules'), '0', 'and no row');
is(is_recorded('SELECT 1'), 1, 'everything is recorded');

my $open = Steno::Client->new($node, application_name => 'open');
my $idle = Steno::Client->new($node, application_name => 'idle');

$open->query('SELECT 10');
write_file('pg_steno_rules.conf', <<'RULES');
# what is not needed
skip all all all all read all statement="SELECT 2*"
record all all probe,"x y" local read,write *.*,s."T" text=off sample=1/1
RULES
is(is_recorded('SELECT 2'), 1, 'a file that is not loaded yet changes nothing');
is_deeply(reload_changes(), [ [ '0 rules', '2 rules', '0', 'server' ] ], 'a reload is recorded, once');
is(is_recorded('SELECT 21'), 0, 'a new session has the rules');
$open->query('SELECT 22');
$open->query('SELECT 12');
$idle->query('SELECT 23');
is(scalar statements($node, application => 'idle', text => 'SELECT 23'), 0, 'a session without statements before');
is_deeply([ map { $_->{text} } statements($node, application => 'open') ],
	[ 'SELECT 10', 'SELECT 12' ], 'so has one that was there');
is( value($node, 'SELECT rule_number, line_number, action, users, databases, applications, clients, classes, objects, options, error FROM steno.rules'),
	qq(1|2|skip|{all}|{all}|{all}|{all}|{read}|{all}|statement="SELECT 2*"|\n)
	  . '2|3|record|{all}|{all}|{probe,"\"x y\""}|{local}|{read,write}|{*.*,"s.\"T\""}|text=off sample=1/1|',
	'the view');
is(value($node, q{SELECT DISTINCT file_name LIKE '%/pg_steno_rules.conf' FROM steno.rules}), 't', 'its file');

# Nothing changes, nothing is recorded.
{
	my $from = -s $node->logfile;

	append_to_file("$folder/pg_steno_rules.conf", "# a comment\n");
	$node->append_conf('postgresql.conf', 'steno.segment_size = 32');
	$node->reload;
	wait_until 'the other change is recorded', sub {
		records($node, kind => 'setting', user => undef) > $seen;
	};
	is_deeply(changes(), [], 'a comment is no change');
}

# ---- errors ----
{
	my $from = -s $node->logfile;
	my $log;

	write_file('pg_steno_rules.conf', <<'RULES');
skip all all all all all all

record all all all nowhere all all
record all all all all reed all
record all all all all read all redact="(a"
RULES
	is_deeply(reload_changes(), [ [ '2 rules', '2 rules', '3', 'server' ] ], 'a broken file is recorded');
	$log = wait_for_log(qr/was not loaded: it has 3 errors/, $from);
	like($log, qr{LOG:  rules file ".*/pg_steno_rules\.conf", line 3: invalid client "nowhere" \(allowed: all, local, host, }, 'line and reason');
	like($log, qr{line 4: unrecognized class "reed" \(allowed: all, read, write, }, 'of each error');
	like($log, qr{line 5: invalid value of option "redact": "\(a": parentheses \(\) not balanced}, 'and of a regular expression');
	is(scalar(() = $log =~ /line 3: invalid client/g), 1, 'once');
	is(is_recorded('SELECT 3'), 1, 'a new session has the old rules');
	is(is_recorded('SELECT 24'), 0, 'all of them');
	$open->query('SELECT 25');
	$open->query('SELECT 13');
	is_deeply([ map { $_->{text} } statements($node, application => 'open') ],
		[ 'SELECT 10', 'SELECT 12', 'SELECT 13' ], 'so has one that was there');
	is(value($node, q{SELECT rule_number, line_number, action, error IS NULL FROM steno.rules}),
		"1|1|skip|t\n|3||f\n|4||f\n|5||f", 'the view has rules and errors in their order');
	like(value($node, 'SELECT error FROM steno.rules WHERE line_number = 4'),
		qr/^unrecognized class "reed" \(allowed: all, read, /, 'and says what is wrong');
}

# At the start, a broken file means no rules.
{
	my $from = -s $node->logfile;

	$open->quit;
	$idle->quit;
	$node->restart;
	like(wait_for_log(qr/was not loaded/, $from), qr/line 3: invalid client "nowhere".*There are no rules/s,
		'a server starts with a broken file, and says so');
	is(is_recorded('SELECT 26'), 1, 'and records what the settings ask for');
	wait_until 'it is recorded', sub { my $c = changes(); @$c && $c->[0][2] eq '3' };
}

# ---- several files ----
mkdir "$folder/rules.d" or die;
write_file('rules.d/b.conf', "skip all all all all read all statement=\"SELECT 'b'\"\n");
write_file('rules.d/a.conf', "record all all all all read all statement=\"SELECT 'a'\"\n");
write_file('rules.d/ignored', "wrong\n");
write_file('texts', "probe\nother,\"x y\"\n");
write_file('pg_steno_rules.conf', <<'RULES');
include_dir rules.d
include_if_exists nothing
skip all all @texts all read all \
	statement="SELECT 'file'"
include more.conf
RULES
write_file('more.conf', "skip all all all all read all statement=\"SELECT '*'\"\n");
is_deeply(reload_changes(), [ [ '0 rules', '4 rules', '0', 'server' ] ], 'files are included');
is_deeply([ map { is_recorded("SELECT '$_'") } qw(a b file c) ], [ 1, 0, 0, 0 ], 'in their order');
is(value($node, q{SELECT regexp_replace(file_name, '.*/', ''), line_number, applications FROM steno.rules}),
	"a.conf|1|{all}\nb.conf|1|{all}\npg_steno_rules.conf|3|{probe,other,\"\\\"x y\\\"\"}\nmore.conf|1|{all}",
	'the view names the files');

# ---- rules outlive their file's other lines ----
{
	write_file('pg_steno_rules.conf', join '',
		(map { "record user$_,+group$_ all app$_ 10.0.0.0/8 read s$_.t* sample=1/2\n" } 1 .. 5000),
		(map { "skip all all all all read many.t$_\n" } 1 .. 4999),
		"skip all all all all read all statement=\"SELECT 'last'\"\n");
	is_deeply(reload_changes(), [ [ '4 rules', '10000 rules', '0', 'server' ] ], 'ten thousand rules');
	is(is_recorded(q{SELECT 'last'}), 0, 'the last one is found');
	value($node, 'CREATE SCHEMA many');
	value($node, "CREATE TABLE many.$_ (a int)") foreach qw(t1 t4999 t5000);
	is_deeply([ map { is_recorded("SELECT a FROM many.$_") } qw(t1 t4999 t5000) ], [ 0, 0, 1 ], 'patterns, too');
	is(value($node, 'SELECT count(*), max(rule_number) FROM steno.rules'), '10000|10000', 'the view shows all');
}

# ---- a crash leaves the rules that hold at a start: those of the file ----
{
	write_file('pg_steno_rules.conf', qq{skip all all all all read all statement="SELECT 'crash'"\n});
	is_deeply(reload_changes(), [ [ '10000 rules', '1 rules', '0', 'server' ] ], 'one rule');
	my $c = Steno::Client->new($node, application_name => 'victim');
	my $from = -s $node->logfile;

	kill KILL => $c->{pid};
	wait_for_log(qr/database system is ready to accept connections/, $from);
	is(is_recorded(q{SELECT 'crash'}), 0, 'they hold after a crash');
	wait_until 'the new start is recorded', sub { my $found = changes(); @$found && $found->[0][1] eq '1 rules' };
}

# ---- a file that goes ----
unlink "$folder/pg_steno_rules.conf" or die;
is_deeply(reload_changes(), [ [ '1 rules', '0 rules', '0', 'server' ] ], 'the file has gone');
is(is_recorded(q{SELECT 'crash'}), 1, 'and so have its rules');

# ---- the records of changes have a fingerprint, and are written before ----
{
	my @all = grep { $_->{extra}{name} eq 'steno.rules_file' } records($node, kind => 'setting');

	ok(!(grep { $_->{extra}{sha256} !~ /^[0-9a-f]{64}$/ } @all), 'each change has a hash of the rules');
	is($all[-1]{extra}{sha256}, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 'that of no rules is of nothing');
}

verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
$node->stop;
done_testing();
