
# A statement fails while its session holds a lightweight lock, which the server releases only after the failure was
# reported.  Its record does not wait for room in the ring meanwhile: others would wait for the lock.

use strict;
use warnings;

use File::Basename;
use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $sources = dirname(__FILE__) . '/..';
my ($include, $flags) = map { qx(pg_config --$_) } qw(includedir-server cppflags);

chomp $include;
system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', '-DLIBRARY="hooks_inner"', split(' ', $flags), "-I$include",
	"-I$sources", "-I$sources/../core", '-o', "$folder/hooks_inner.so", dirname(__FILE__) . '/hooks.c');
my $node = new_node('main',
	conf => "shared_preload_libraries = '$folder/hooks_inner,pg_steno'\nsteno.ring_size = 16kB\nsteno.large_buffers = 0\n");
my $writer = writer_pid($node);

# Whether the server answers a query while the writer is stopped.
sub answers
{
	my ($c, $sql) = @_;

	$c->put('Q', "$sql\0")->send_all;
	return IO::Select->new($c->{socket})->can_read($PostgreSQL::Test::Utils::timeout_default / 6) ? 1 : 0;
}

# PostgreSQL 19 does not say which locks are held, and the planner's errors are noted only where they are caught
foreach my $hook ('run before', 'run after', 'utility after', $node->pg_version->major < 19 ? 'planner after' : ())
{
	my $watch = Steno::Client->new($node, application_name => 'watch', options => '-c steno.log=none');
	my $c = Steno::Client->new($node, application_name => $hook);
	my $sql = ($hook =~ /utility/ ? 'SET geqo_seed = 0.3' : 'SELECT 1') . " /* $hook " . filler(8000) . ' */';
	my $r;

	$c->query("SET hooks_inner.act = '$hook locked_error'");
	stop_process($writer);
	for my $n (1 .. 100)
	{
		last if $watch->value("SELECT fill FROM steno.rings WHERE pid = $c->{pid}") > 0.35;
		$c->query("SELECT $n, '" . filler(500) . "'");
	}
	is(answers($c, "/* act */ $sql"), 1, "$hook: the failure is reported at once, although the ring is full");
	continue_process($writer);
	$r = $c->finish;
	is($r->{message}, 'error under a lock', 'it is that of the statement');
	$_->quit foreach $c, $watch;
	flush($node);
	$r = the_record($node, 'it', application => $hook, outcome => 'error', sqlstate => 'P0001');
	like($r->{text}, qr{^/\* act \*/ (SET|SELECT)}, 'has its text');
	gapless($node, 'and nothing is missing');
}
verify_ok($node, 'the trail is whole');

done_testing();
