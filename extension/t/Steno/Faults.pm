
# Disks that fail and writers that die on request: t/faults.c lists the faults.

package Steno::Faults;

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Utils;

# The library is built where it is used; the C compiler is what pg_steno itself is
# built with.
sub new
{
	my ($class) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $self = bless { folder => "$folder/asked", library => "$folder/faults.so" }, $class;

	foreach my $new ($self->{folder}, "$self->{folder}/memory")
	{
		mkdir $new or die "could not create $new: $!";
	}
	system_or_bail($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', '-o', $self->{library},
		dirname(__FILE__) . '/../faults.c', '-ldl');
	return $self;
}

# Start a server with it.
sub start
{
	my ($self, $node, %o) = @_;
	local $ENV{LD_PRELOAD} = $self->{library};
	local $ENV{STENO_FAULTS} = $self->{folder};

	return $node->start(%o);
}

# It is in force until it is removed.
sub set
{
	my ($self, $name, $content) = @_;

	# complete as soon as it is there
	append_to_file("$self->{folder}/$name.new", $content // '');
	rename "$self->{folder}/$name.new", "$self->{folder}/$name" or die "could not set $name: $!";
	return;
}

# It is in force so many times.
sub set_times
{
	my ($self, $name, $times) = @_;

	return $self->set($name, 'x' x $times);
}

sub unset
{
	my ($self, $name) = @_;

	unlink "$self->{folder}/$name" or die "could not unset $name: $!";
	return;
}

# Whether it was requested, and whether it has happened.
sub is_set
{
	my ($self, $name) = @_;

	return -e "$self->{folder}/$name";
}

1;
