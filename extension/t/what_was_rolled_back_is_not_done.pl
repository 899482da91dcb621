
# Reports, views and dossiers tell DDL and grants that took effect from those that were rolled back, and from those of
# which the trail does not say so.  What took effect is known from the server's catalog.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', conf => "steno.log = all\nmax_prepared_transactions = 5\n");
my $json = JSON::PP->new->utf8;

$node->safe_psql('postgres', 'CREATE ROLE dba LOGIN SUPERUSER; CREATE ROLE clerk LOGIN; CREATE TABLE secret (a int); CREATE SCHEMA hr');
my $since = value($node, 'SELECT now()');

# by the end of their transaction; each grants to a role of its own, and makes a table
my %ends = (
	kept => 'COMMIT',
	undone => 'ROLLBACK',
	failed => 'SELECT 1 / 0',
	prepared => q{PREPARE TRANSACTION 'later'},
	finished => q{PREPARE TRANSACTION 'finished'},
	dropped => q{PREPARE TRANSACTION 'dropped'},
	partly => 'ROLLBACK TO s; COMMIT');
# two are ended by another session, and after a restart, which leaves an index
my %later = (finished => q{COMMIT PREPARED 'finished'}, dropped => q{ROLLBACK PREPARED 'dropped'});
foreach my $name ('kept', 'undone', 'failed', 'partly', 'finished', 'dropped', 'prepared')	# which keeps its locks
{
	$node->safe_psql('postgres', "CREATE ROLE to_$name");
	$node->psql('postgres', "BEGIN; SAVEPOINT s; GRANT SELECT ON secret TO to_$name; CREATE TABLE hr.$name (a int); INSERT INTO hr.$name VALUES (1); $ends{$name}",
		extra_params => [ '-U', 'dba' ]);
	next if !defined $later{$name};
	$node->restart;
	$node->safe_psql('postgres', $later{$name});
}
my $granted = value($node, q{SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles WHERE rolname LIKE 'to\_%' AND has_table_privilege(rolname, 'secret', 'select')});
is($granted, 'to_finished to_kept', 'the server has two of the grants');
$node->stop;

my %effects = (kept => 'committed', undone => 'rolled back', failed => 'rolled back', prepared => 'unknown', partly => 'rolled back', finished => 'committed', dropped => 'rolled back');
sub answer
{
	my ($code, $out, $err) = steno_result(@_);
	die "steno @_: $err" if $code != 0;
	return $json->decode($out);
}
my $directory = trail($node);

my $report = answer('report', '--format', 'json', '--since', $since, $directory);
my %figure = map { $_->{id} => $_->{records} } @{ $report->{figures} };
foreach my $id ('granted', 'created')
{
	is_deeply([ map { $figure{$id}{$_} // 0 } 'count', 'rolled_back', 'unknown' ], [ 7, 4, 1 ], "report: $id");
}
my %tables = map { $_->{id} => $_ } map { @{ $_->{tables} // [] } } @{ $report->{sections} };
my %commands = map { ($_->{cells}[0]{text} => [ map { $_->{text} } @{ $_->{cells} }[ -4 .. -1 ] ]) } @{ $tables{commands}{rows} };
is_deeply($commands{GRANT}, [ 0, 4, 1, 7 ], 'report: commands');
my %new = map { ($_->{cells}[2]{text} => $_->{cells}[7]{text}) } @{ $tables{new_pairs}{rows} };
is_deeply([ map { $new{"hr.$_"} } sort keys %effects ], [ map { $effects{$_} eq 'committed' ? 0 : 1 } sort keys %effects ], 'report: new access');
my %events;
foreach my $row (@{ $tables{privileged_events}{rows} })
{
	my @cells = map { $_->{text} } @{ $row->{cells} };
	$events{$1} = $cells[5] if $cells[6] =~ /^GRANT SELECT ON secret TO to_(\w+)/;
}
is_deeply(\%events, { map { $_ => $effects{$_} eq 'committed' ? '' : $effects{$_} eq 'unknown' ? 'unknown whether committed' : $effects{$_} } keys %effects }, 'report: privileged statements');

my $person = answer('review', 'person', '--user', 'dba', '--format', 'json', $directory);
my ($grant) = grep { ($_->{command} // '') eq 'GRANT' } @{ $person->{commands} };
is_deeply([ @$grant{ 'statements', 'failed', 'rolled_back', 'unknown' } ], [ 7, 0, 4, 1 ], 'review person: statements');
my %outcomes = map { ($_->{text} =~ /GRANT SELECT ON secret TO to_(\w+)/ ? ($1 => $_->{outcome}) : ()) } @{ $person->{changes} };
is_deeply(\%outcomes, { map { $_ => $effects{$_} eq 'committed' ? 'ok' : $effects{$_} } keys %effects }, 'review person: changes');

foreach my $case (
	[ 'new_access', q{SELECT replace(relation, 'hr.', ''), rolled_back, unknown FROM new_access WHERE starts_with(relation, 'hr.') ORDER BY 1},
		{ committed => '0,0', 'rolled back' => '1,0', unknown => '0,1' } ],
	[ 'grants', q{SELECT regexp_extract(text, 'to_(\w+)', 1), effect FROM grants WHERE starts_with(text, 'GRANT SELECT ON secret') ORDER BY 1}, { map { $_ => $_ } values %effects } ])
{
	my ($name, $sql, $words) = @$case;

	next if system("'$ENV{STENO}' query --help >/dev/null 2>&1") != 0; # a root of another version has no steno-query
	my (undef, $out) = steno_result('query', '--format', 'csv', $sql, $directory);
	is($out =~ s/\r//gr =~ s/^[^\n]*\n//r, join('', map { "$_,$words->{ $effects{$_} }\n" } sort keys %effects), $name);
}

done_testing();
