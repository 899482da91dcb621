
# Failures beside the writing of the trail, which were only in the log before: the command for the
# encryption key, the signing key, the deletion of old segments.  The status and the alert report them,
# and their end.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $base = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('main', conf => "steno.alert_command = 'echo %e %m >>$base/alerts'\n");

sub put
{
	my ($name, $text) = @_;

	unlink "$base/$name";
	append_to_file("$base/$name", "$text\n");
	chmod 0600, "$base/$name";
	return;
}

sub set
{
	my ($name, $value) = @_;

	value($node, "ALTER SYSTEM SET $name = '$value'");
	value($node, 'SELECT pg_reload_conf()');
	return;
}

sub becomes
{
	my ($state, $failure, $what) = @_;

	wait_until "$what: the state is $state", sub { value($node, 'SELECT state FROM steno.status') eq $state };
	pass("$what: the state is $state");
	is(value($node, q{SELECT coalesce(failure, '') FROM steno.status}), $failure, "$what: and says why");
	return;
}

sub alerted
{
	my ($line, $what) = @_;

	wait_until "$what: $line", sub { -e "$base/alerts" && slurp_file("$base/alerts") =~ /^\Q$line\E$/m };
	pass("$what: the alert command is run");
	return;
}

# The command that gives the key.
my $failure = 'could not get the encryption key of the trail from "steno.encryption_key_command"';
put('key', sha256_hex('the key'));
set('steno.encryption_key_command', "cat $base/key");
becomes('ok', '', 'a command that gives a key');
set('steno.encryption_key_command', 'false');
becomes('impaired', $failure, 'a command that fails');
alerted("problem $failure", 'a command that fails');
set('steno.encryption_key_command', "cat $base/key");
becomes('ok', '', 'one that gives the key again');
alerted("problem_over $failure", 'one that gives the key again');

# The signing key.
$failure = 'could not use the signing key in "steno.signing_key_file"';
set('steno.signing_key_file', "$base/no_such_key");
becomes('impaired', $failure, 'a signing key that is not there');
alerted("problem $failure", 'a signing key that is not there');
set('steno.signing_key_file', '');
becomes('ok', '', 'none that is asked for');
alerted("problem_over $failure", 'none that is asked for');

# Deletion: what the slots want cannot be known.
$failure = 'could not delete old segments of the trail';
my $slots = trail($node) . '/slots';
rename $slots, "$slots.away" if -e $slots;
append_to_file($slots, 'in the way');
set('steno.retention_size', '1MB');
becomes('impaired', $failure, 'segments that cannot be deleted');
alerted("problem $failure", 'segments that cannot be deleted');
$node->stop;
done_testing();
