
# The commands of docs/cookbook.md, run one after the other on the server and the trail of Steno::Clinic, answer what the
# page shows.
#
# If they do not, because a format has changed or the page is being written, the page with the outputs of this run is
# left in tmp_check/cookbook.md, from where scripts/check-extension copies it to build/check/tmp_check.  Read what has
# changed, and copy it to docs.

use strict;
use warnings;
use utf8;
use open qw(:std :utf8);

use Encode 'decode';
use File::Basename;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Clinic;
use Test::More;

# Messages of the server are those of the version that the page was made with; the programs may not run in an old root.
if (`pg_config --version` !~ /^PostgreSQL 15\b/ || system("'$ENV{STENO}' query --help >/dev/null 2>&1") != 0)
{
	plan skip_all => 'needs PostgreSQL 15 and steno-query';
}

use constant { WIDTH => 110, LINES => 12 };

my $session = qr/\b[0-9a-f]{8}\.[0-9a-f]{1,8}\b/;

# What differs between two runs, and is compared only as to where it is.
my @varies = (
	[ session => $session ],
	[ now => qr/(?<=\bcreated )\d{4}-\d\d-\d\dT[\d:.]+Z/ ],    # by a program, for which it is not 2026 at the clinic
	[ version => qr/(?<=version=')\d[\w.]*(?: \(\w+)?/ ],               # of the server, of any minor release
	[ cluster => qr/\b\d{19}\b/ ],
	[ hash => qr/\b[0-9a-f]{16,}\b/ ],                                     # also of keys
	[ minute => qr/(?<=2026-\d\d-\d\d.\d\d):\d\d(?::\d\d(?:\.\d+)?)?/ ],    # days and hours are compared
	[ duration => qr/\b(?:\d+[hm])*\d+(?:\.\d+)?(?:µs|us|ms|s)\b|\b\d\d:\d\d:\d\d(?:\.\d+)?/ ],
	[ port => qr/(?<=127\.0\.0\.\d\d):\d+/ ],
	[ lsn => qr{\b[0-9A-F]+/[0-9A-F]{6,8}\b} ],
	[ xid => qr/(?<=xid )\d+/ ],
	[ size => qr/\b[\d,.]+ (?:kB|B)\b|(?<=bytes)\s+[\d,]+|[\d.]+(?= bytes each| : 1)/ ],
	[ block => qr/(?<=blocks)\s+[\d,]+|\b\d+(?:,\d{3})*(?= blocks\b)|\b\d+(?= left out\b)|(?<=block )[\d,]+(?: of [\d,]+)?|(?<=block=)\d+|(?<=offset )\d+|active\s+\d+\s+\d+\s+\K\d+/ ]);
my $trail = '/var/lib/postgresql/15/main/pg_steno';

# What the page shows in place of what this run has, where a later command depends on it.
my %learned;

sub masked
{
	my ($text) = @_;

	foreach my $v (@varies)
	{
		my ($name, $pattern) = @$v;

		$text =~ s/$pattern/<$name>/g;
	}
	$text =~ s/ +/ /g;           # columns of tables are as wide as their widest value
	$text =~ s/[-─]{2,}/-/g;
	$text =~ s/[ \t]+$//mg;
	return $text;
}

# As the page shows it: what it leaves out, it says.
sub shortened
{
	my ($output) = @_;
	my @lines = split /\n/, $output;

	s/\s+$// foreach @lines;
	@lines = (@lines[ 0 .. LINES - 2 ], sprintf '… (%d more lines)', @lines - LINES + 1) if @lines > LINES;
	foreach (@lines)
	{
		next if length $_ <= WIDTH;
		s/^(.{60,@{[ WIDTH - 2 ]}})(?<=\S) .*/$1 …/ or s/^(.{@{[ WIDTH - 2 ]}}).*/$1 …/;
	}
	return join '', map { "$_\n" } @lines;
}

# A line that was cut on the page is cut in the same place.
sub cut_like
{
	my ($output, $shown) = @_;
	my @shown = split /\n/, masked($shown);
	my @lines = split /\n/, $output;
	my $more = @lines > LINES ? sprintf '… (%d more lines)', @lines - LINES + 1 : undef;

	@lines = (@lines[ 0 .. LINES - 2 ], $more) if defined $more;
	@lines = split /\n/, masked(join "\n", @lines);
	foreach my $i (0 .. $#lines)
	{
		my ($start) = ($shown[$i] // '') =~ /^(.+?) ?…$/ or next;

		$lines[$i] = $shown[$i] if index($lines[$i], $start) == 0;
	}
	return join '', map { "$_\n" } @lines;
}

# What the page calls so has this name in this run.
sub learn
{
	my ($shown, $output) = @_;
	my @shown = $shown =~ /$session/g;
	my @is = $output =~ /$session/g;

	$learned{ $shown[$_] } //= $is[$_] foreach 0 .. ($#shown < $#is ? $#shown : $#is);
	return;
}

my $page = decode('UTF-8', slurp_file("$FindBin::RealBin/../../docs/cookbook.md"));
my $block = qr/^```sh\n(.*?)^```\n\n```\n(.*?)^```$/ms;
my @questions = $page =~ /^### (\d+)\. .*\?$/mg;
my $work = PostgreSQL::Test::Utils::tempdir();

is_deeply(\@questions, [ 1 .. 40 ], 'forty questions');
is_deeply([ grep { length > 120 } split /\n/, $page ], [], 'no line is too long');
is(scalar(() = $page =~ /^```sh$/mg), (() = $page =~ /$block/g) / 2, 'each command has its output');

local $ENV{PGUSER} = 'postgres';
my $clinic = Steno::Clinic->new;
my $node = $clinic->{node};

system_or_bail('cp', '-r', trail($node), "$work/trail");
system_or_bail('cp', "$clinic->{key}.pub", "$work/2026.key.pub");
local $ENV{PGUSER} = 'ana';
local $ENV{PGDATABASE} = 'clinic';
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
local $ENV{PATH} = dirname($ENV{STENO}) . ":$ENV{PATH}";
local $ENV{STENO_DIRECTORY} = "$work/trail";
local $ENV{COLUMNS} = 200;

sub runs
{
	my ($command, $shown) = @_;
	my $output;

	my @unknown = grep { !exists $learned{$_} } $command =~ /$session/g;

	is_deeply(\@unknown, [], 'sessions in commands are those of outputs before') if @unknown;
	$command =~ s/($session)/$learned{$1} \/\/ $1/ge;
	utf8::encode(my $bytes = $command);
	IPC::Run::run([ 'bash', '-c', "cd $work\n$bytes" ], '<', \undef, '>&', \$output);
	$output = decode('UTF-8', $output);
	$output =~ s/\Q$work\E\/trail/$trail/g;
	learn($shown, $output);
	unlike($output, qr/^(?:steno[\w-]*|bash|psql|ERROR): /m, 'no error is shown') if $output =~ /^(?:steno[\w-]*|bash|psql|ERROR): /m;

	my ($title) = $command =~ /(.*)/;
	my $same = is(cut_like($output, $shown), masked($shown), $title);
	note($output) if !$same;

	return ($command, shortened($output), $same);
}

my $wrong = 0;

$page =~ s{$block}{
	my ($command, $shown, $same) = runs($1, $2);
	$wrong++ if !$same;
	"```sh\n$command```\n\n```\n$shown```";
}ge;
if ($wrong)
{
	my $file = ($ENV{TESTDATADIR} // 'tmp_check') . '/cookbook.md';

	utf8::encode($page);
	append_to_file($file, $page);
	diag("$wrong outputs differ: $file has them all");
}
$clinic->{long}->{socket}->close;
done_testing();
