
# The search for secrets in a long text: it takes no longer for each byte of a longer text, an interrupt ends it, and what
# was not searched is then hidden.  The text of a statement that has run is searched to its end.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

# Longer than what is searched before anybody looks for interrupts.
my $long = 5500 * 1000;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $sources = dirname(__FILE__) . '/..';
my ($include, $flags) = map { qx(pg_config --$_) } qw(includedir-server cppflags);

chomp $include;
system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', '-DLIBRARY="hooks_outer"', split(' ', $flags), "-I$include",
	"-I$sources", "-I$sources/../core", '-o', "$folder/hooks_outer.so", dirname(__FILE__) . '/hooks.c');
my $node = new_node('main', conf => "shared_preload_libraries = 'pg_steno,$folder/hooks_outer'\n");

# A text that is searched byte by byte: each escape sequence may end the comment.
sub escapes
{
	my ($len) = @_;

	return q{E'/* password */--} . '\\\\' x ($len / 2) . q{'};
}

sub failure
{
	my ($application) = @_;

	return the_record($node, $application, kind => 'statement', application => $application, outcome => 'error');
}

sub run
{
	my ($application, @queries) = @_;
	my $c = Steno::Client->new($node, application_name => $application);

	$c->query($_) foreach @queries;
	$c->quit;
	return;
}

# A cancel request is pending when the statement begins.
sub is_canceled
{
	my ($application, $hook, $sql) = @_;
	my $text = "/* act */ $sql";
	my $r;

	run($application, "SET hooks_outer.act = '$hook before cancel'", $text);
	$r = failure($application);
	is($r->{sqlstate}, '57014', "$application: it was canceled");
	is($r->{message}, 'canceling statement due to user request', "$application: with the server's message");
	cmp_ok(length $r->{text}, '<', 0.9 * length $text, "$application: the search was not finished");
	is(substr($r->{text}, 0, 12), substr($text, 0, 12), "$application: the beginning remains");
	is(substr($r->{text}, -10), '<redacted>', "$application: what was not searched is hidden");
	return;
}

is_canceled('query', 'start', 'SELECT length(' . escapes($long) . ')');
is_canceled('utility', 'utility', 'DO ' . escapes($long));
$node->append_conf('postgresql.conf', "steno.log_start = all\n");
$node->reload;
wait_until 'start records are made', sub { value($node, 'SHOW steno.log_start') eq 'all' };
is_canceled('started', 'utility', 'DO ' . escapes($long));
$node->append_conf('postgresql.conf', "steno.log_start = none\n");
$node->reload;
wait_until 'start records are not made', sub { value($node, 'SHOW steno.log_start') ne 'all' };

# A session that ends does not search on.
{
	my $sql = 'SELECT pg_terminate_backend(pg_backend_pid()), length(' . escapes($long) . ')';
	my $r;

	run('ends', $sql);
	$r = failure('ends');
	is($r->{sqlstate}, '57P01', 'a session is terminated');
	is($r->{message}, 'terminating connection due to administrator command', 'with its message');
	# the record was made when the statement began, and nobody had asked yet
	ok($r->{text} eq $sql, 'a text that was searched before is whole');
	# it has a secret, so the text is searched again for its record
	$sql = q{DO $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); ALTER ROLE r PASSWORD 'x'; PERFORM length(}
	  . escapes($long) . '); END$$';
	run('ends in a block', $sql);
	flush($node);
	($r) = grep { !$_->{depth} && $_->{text} =~ /^DO/ } statements($node, application => 'ends in a block');
	is(substr($r->{text}, -10), '<redacted>', 'one that is searched then is not');
}

# What has run is searched, although a cancel is pending.
{
	my $sql = 'DO $$BEGIN PERFORM length(' . escapes($long) . '); RAISE EXCEPTION $m$refused$m$; END$$';

	run('runs', $sql);
	ok(failure('runs')->{text} eq $sql, 'a statement that has run has its whole text');
}

verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
