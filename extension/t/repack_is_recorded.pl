# REPACK, and the worker that REPACK (CONCURRENTLY) starts to read the changes of others.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my ($version) = `pg_config --version` =~ /(\d+)/;

plan skip_all => 'PostgreSQL 19 is the first that has REPACK' if $version < 19;

my $node = new_node('main', conf => q{
wal_level = replica
log_min_messages = 'fatal,backend:error,bgworker:error'
});

$node->safe_psql('postgres', q{
CREATE TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 100) i;
});

# Statement => its command, and its object.
my @statements = (
	[ 'REPACK t', 'REPACK', 'use table public.t' ],
	[ 'REPACK t USING INDEX t_pkey', 'REPACK', 'use table public.t' ],
	[ 'REPACK (ANALYZE, VERBOSE) t', 'REPACK', 'use table public.t' ],
	[ 'REPACK (CONCURRENTLY) t', 'REPACK', 'use table public.t' ],
	[ 'REPACK (CONCURRENTLY) t USING INDEX t_pkey', 'REPACK', 'use table public.t' ],
	[ 'REPACK USING INDEX', 'REPACK' ],
	[ 'CLUSTER t USING t_pkey', 'CLUSTER', 'use table public.t' ],
	[ 'CLUSTER', 'CLUSTER' ]);

$node->safe_psql('postgres', join('', map { "$_->[0];\n" } @statements),
	connstr => $node->connstr('postgres') . ' application_name=repacks');
is_deeply(
	[
		map {
			[
				$_->{text}, $_->{command}, $_->{class}, $_->{outcome},
				map { "$_->{action} $_->{type} $_->{name}" } @{ $_->{objects} // [] }
			]
		} statements($node, application => 'repacks')
	],
	[ map { [ @$_[ 0, 1 ], 'ddl', 'ok', @$_[ 2 .. $#$_ ] ] } @statements ],
	'each has one record, with its relation');

# A worker of REPACK (CONCURRENTLY) reads the changes of others, and runs no statements.
is_deeply([ grep { ($_->{backend_type} // '') =~ /REPACK/i } records($node) ], [], 'its worker has no records');

$node->append_conf('postgresql.conf', 'max_repack_replication_slots = 0');
$node->restart;
isnt(
	$node->psql('postgres', 'REPACK (CONCURRENTLY) t',
		connstr => $node->connstr('postgres') . ' application_name=fails'),
	0,
	'without a replication slot it fails');
is_deeply(
	[ map { [ $_->{text}, $_->{command}, $_->{outcome}, $_->{sqlstate} ] } statements($node, application => 'fails') ],
	[ [ 'REPACK (CONCURRENTLY) t', 'REPACK', 'error', '55000' ] ],
	'which its record says, once');
verify_ok($node, 'the trail is whole');
done_testing();
