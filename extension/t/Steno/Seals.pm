
# Keys and seals for tests.

package Steno::Seals;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run ();
use JSON::PP ();
use PostgreSQL::Test::Utils;
use Steno;

our @EXPORT = qw(keygen seals verified seal_export);

# A new key: the path of the private one; its id, in list context.
sub keygen
{
	my ($path) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ $ENV{STENO}, 'keygen', '--out', $path ], '>', \$out, '2>', \$err)
	  or die "steno keygen failed: $err";
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
	my ($out, $err) = ('', '');

	$trail = trail($trail) if ref $trail;
	IPC::Run::run([ $ENV{STENO}, 'verify', '--format', 'json', @args, $trail ],
		'>', \$out, '2>', \$err);
	my $code = $? >> 8;
	return ($code, $out eq '' ? { what => $err } : JSON::PP->new->utf8->decode($out));
}

sub seal_export
{
	my ($node) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ $ENV{STENO}, 'seal', 'export', ref $node ? trail($node) : $node ], '>', \$out, '2>', \$err)
	  or die "steno seal export failed: $err";
	return $out;
}

1;
