
# Trails whose segments retention deletes: filling them, and examining what is left.

package Steno::Retention;

use strict;
use warnings;

use Exporter 'import';
use JSON::PP ();
use PostgreSQL::Test::Utils;
use Steno;

our @EXPORT = qw(fill segments deletions verify_fails set_and_reload);

my $json = JSON::PP->new->utf8;

# Segments of about this size each, with steno.compression = none.
sub fill
{
	my ($node, $count, $kb) = @_;

	foreach (1 .. $count)
	{
		value($node, "SELECT steno.note(repeat('0123456789', @{[ ($kb // 400) * 100 ]}))");
		value($node, 'SELECT steno.rotate()');
	}
	return;
}

# The numbers of a stream's segments.
sub segments
{
	my ($node, $stream) = @_;
	my $directory = ref $node ? trail($node) : $node;

	return map { /(\d+)\.steno$/ ? $1 + 0 : () } sort glob "$directory/@{[ $stream // 0 ]}/*.steno";
}

# The contents of the deletion records, in their order.
sub deletions
{
	my ($node) = @_;

	flush($node) if ref $node && $node->{_pid};
	return grep { ($_->{event} // '') eq 'deleted' }
	  map { $json->decode($_)->{extra} // {} } lines($node, '--kind', 'server');
}

# What is wrong with a trail; empty: nothing.
sub verify_fails
{
	my ($directory) = @_;
	my (undef, $out) = steno_result('verify', '--format', 'json', $directory);

	return join "\n", map { $_->{what} } @{ $json->decode($out)->{problems} };
}

sub set_and_reload
{
	my ($node, $name, $value) = @_;

	$node->append_conf('postgresql.conf', "$name = $value");
	$node->reload;
	return;
}

1;
