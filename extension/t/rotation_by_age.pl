
# A segment that has become as old as steno.rotation_age is followed by a new one;
# a segment without records is not.  The writer's clock is put ahead.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $hour = 3600;
my $faults = Steno::Faults->new;
my $node = new_node('main', start => 0, conf => "steno.rotation_age = 1440\nsteno.mandatory = ''\n");
my ($watch, $c);

sub segments
{
	return scalar(my @files = glob trail($node) . '/0/*.steno');
}

# The writer has made whole passes since it could see what we did last; this is
# no record.
sub passes
{
	my ($passes) = map { $_->[0] } @{ $watch->query('SELECT passes FROM steno.writers')->{rows} };

	wait_until 'the writer has made two passes',
	  sub { $watch->query('SELECT passes FROM steno.writers')->{rows}[0][0] >= $passes + 2 };
	return;
}

$faults->start($node);
$watch = Steno::Client->new($node, application_name => 'watch');
$watch->query('CREATE EXTENSION pg_steno');
$watch->query(q{SET steno.log = 'none'});
$c = Steno::Client->new($node, application_name => 'recorded');
passes();
is(segments(), 1, 'a first segment');

$faults->set('clock', 23 * $hour);
$c->query(q{SELECT 'after 23 hours'});
passes();
is(segments(), 1, 'younger than steno.rotation_age: it goes on');

$faults->set('clock', 25 * $hour);
passes();
is(segments(), 2, 'older: a new one');

$faults->set('clock', 60 * $hour);
passes();
is(segments(), 2, 'the new one has no records and stays, however old');

$c->query(q{SELECT 'after 60 hours'});
passes();
is(segments(), 3, 'with records, it is old enough');

$faults->set('clock', 70 * $hour);
$c->query(q{SELECT 'after 70 hours'});
passes();
is(segments(), 3, 'its age counts from its own beginning');

$node->append_conf('postgresql.conf', 'steno.rotation_age = 0');
$node->reload;
wait_until 'the reload is done', sub { $watch->query('SHOW steno.rotation_age')->{rows}[0][0] eq '0' };
passes();
$faults->set('clock', 1000 * $hour);
$c->query(q{SELECT 'after 1000 hours'});
passes();
is(segments(), 3, 'steno.rotation_age = 0: never');

$_->quit foreach $watch, $c;
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();
