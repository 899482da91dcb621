
# Keys and seals for tests.

package Steno::Seals;

use strict;
use warnings;

use Exporter 'import';
use JSON::PP ();
use PostgreSQL::Test::Utils;
use Steno;

our @EXPORT = qw(keygen seals verified seal_export);

# A new key: the path of the private one; its id, in list context.
sub keygen
{
	my ($path) = @_;
	my ($code, $out, $err) = steno_result('keygen', '--out', $path);

	die "steno keygen failed: $err" if $code != 0;
	my ($id) = $out =~ /^key id\s+([0-9a-f]{16})$/m or die "no key id in: $out";
	return wantarray ? ($path, $id) : $path;
}

# The seals of a stream, or without a stream of all of them, in the order of the trail.
sub seals
{
	my ($node, $stream) = @_;
	my @seals = map { JSON::PP->new->utf8->decode($_) } lines($node, '--kind', 'seal');

	return defined $stream ? grep { $_->{stream} == $stream } @seals : @seals;
}

# verified($node or directory, '--key', file ...): exit code, and the report.
sub verified
{
	my ($trail, @args) = @_;
	my ($code, $out, $err) = steno_result('verify', '--format', 'json', @args, ref $trail ? trail($trail) : $trail);

	return ($code, $out eq '' ? { what => $err } : JSON::PP->new->utf8->decode($out));
}

sub seal_export
{
	my ($node) = @_;
	my ($code, $out, $err) = steno_result('seal', 'export', ref $node ? trail($node) : $node);

	die "steno seal export failed: $err" if $code != 0;
	return $out;
}

1;
