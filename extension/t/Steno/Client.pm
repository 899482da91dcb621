
# A client that speaks the frontend/backend protocol itself: messages that psql
# has no command for, and many connections of one process.

package Steno::Client;

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;

# new($node, user => ..., database => ..., application_name => ..., tcp => 1): over TCP also with address => ..., the
# client's own, and password => ..., in clear text
sub new
{
	my ($class, $node, %facts) = @_;
	my $self = bless { buffer => '', out => '' }, $class;
	my $packet = '';
	my ($tcp, $address, $password) = delete @facts{qw(tcp address password)};

	$facts{user} //= $node->{steno_user} // getpwuid($>);
	$facts{database} //= 'postgres';
	$self->{socket} =
	  $tcp
	  ? IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $node->port, defined $address ? (LocalAddr => $address) : ())
	  : IO::Socket::UNIX->new(
		Type => SOCK_STREAM,
		Peer => $node->host . '/.s.PGSQL.' . $node->port);
	return if !$self->{socket};
	binmode $self->{socket};
	$packet .= pack('Z* Z*', $_, $facts{$_}) foreach sort keys %facts;
	$packet .= "\0";
	$self->{out} .= pack('N N', length($packet) + 8, 0x30000) . $packet;
	# the server reads it after it has asked for it
	$self->put('p', "$password\0") if defined $password;
	$self->{greeting} = $self->finish;
	return if !$self->{greeting};
	return $self;
}

# Sessions, at least two for each of a server's two writers; the session "watch" finds out which writer they have.
sub of_both_writers
{
	my ($class, $node, $watch, %facts) = @_;
	my (@sessions, %of);

	until (($of{0} // 0) >= 2 && ($of{1} // 0) >= 2)
	{
		push @sessions, $class->new($node, %facts);
		$of{ $watch->query("SELECT writer FROM steno.rings WHERE pid = $sessions[-1]{pid}")->{rows}[0][0] }++;
	}
	return @sessions;
}

# The session that gets a certain free ring.  It depends on the server's version whether the ring that was freed last is
# used first or last: sessions are started until the ring is taken, and the others are then ended.
sub of_ring
{
	my ($class, $node, $watch, $ring, %facts) = @_;
	my (@others, $session);

	while (1)
	{
		$session = $class->new($node, %facts);
		die 'no session has that ring' if $session->{greeting}{sqlstate};
		last if $watch->query("SELECT ring FROM steno.rings WHERE pid = $session->{pid}")->{rows}[0][0] == $ring;
		push @others, $session;
	}
	$_->quit foreach @others;
	Steno::wait_until('the others have gone', sub { !grep { kill 0, $_->{pid} } @others });
	return $session;
}

sub put
{
	my ($self, $type, $body) = @_;

	$self->{out} .= $type . pack('N', length($body) + 4) . $body;
	return $self;
}

# Returns nothing when the server has gone.
sub send_all
{
	my ($self) = @_;

	local $SIG{PIPE} = 'IGNORE';
	while ($self->{out} ne '')
	{
		my $n = syswrite $self->{socket}, $self->{out};

		return if !defined $n;
		substr($self->{out}, 0, $n) = '';
	}
	return 1;
}

sub receive
{
	my ($self) = @_;

	while (length $self->{buffer} < 5
		|| length $self->{buffer} < 1 + unpack('x N', $self->{buffer}))
	{
		my $n;

		die 'timed out waiting for the server'
		  if !IO::Select->new($self->{socket})
		  ->can_read($PostgreSQL::Test::Utils::timeout_default);
		$n = sysread $self->{socket}, $self->{buffer}, 65536,
		  length $self->{buffer};
		return if !$n;
	}
	my ($type, $len) = unpack 'a N', $self->{buffer};
	my $body = substr $self->{buffer}, 5, $len - 4;
	substr($self->{buffer}, 0, $len + 1) = '';
	return ($type, $body);
}

# Sends the queued messages, and reads to the end of the answer: a hash of rows, tags, a
# function's value, the error (SQLSTATE and message), notices (messages), the transaction's state.
# Nothing when the server has gone before.
sub finish
{
	my ($self) = @_;
	my %answer = (rows => [], tags => [], notices => [], messages => '');

	$self->send_all or return;
	while (1)
	{
		my ($type, $body) = $self->receive or return;

		last if !defined $type;
		$answer{messages} .= $type;
		if ($type eq 'D')
		{
			my ($count, $at) = (unpack('n', $body), 2);
			my @row;

			for (1 .. $count)
			{
				my $len = unpack 'l>', substr($body, $at, 4);

				push @row, $len < 0 ? undef : substr($body, $at + 4, $len);
				$at += 4 + ($len < 0 ? 0 : $len);
			}
			push @{ $answer{rows} }, \@row;
		}
		elsif ($type eq 'C')
		{
			push @{ $answer{tags} }, unpack 'Z*', $body;
		}
		elsif ($type eq 'V')
		{
			my $len = unpack 'l>', $body;

			$answer{value} = $len < 0 ? undef : substr($body, 4);
		}
		elsif ($type eq 'E')
		{
			my %field = map { (substr($_, 0, 1), substr($_, 1)) }
			  grep { $_ ne '' } split /\0/, $body;

			$answer{sqlstate} = $field{C};
			$answer{message} = $field{M};
			$answer{fields} = \%field;
			return \%answer if $field{S} eq 'FATAL';
		}
		elsif ($type eq 'N')
		{
			push @{ $answer{notices} }, map { substr $_, 1 } grep { /^M/ } split /\0/, $body;
		}
		elsif ($type eq 'K')
		{
			$self->{pid} = unpack 'N', $body;
		}
		elsif ($type eq 'Z')
		{
			$answer{transaction} = $body;
			return \%answer;
		}
		elsif ($type eq 'G' || $type eq 'W')
		{
			return \%answer;    # COPY: the caller's turn
		}
	}
	return;
}

sub query
{
	my ($self, $sql) = @_;

	return $self->put('Q', "$sql\0")->finish;
}

# The first value that a query returns; dies if it fails.
sub value
{
	my ($self, $sql) = @_;
	my $answer = $self->query($sql);

	die "$sql: $answer->{message}" if $answer->{sqlstate};
	return $answer->{rows}[0][0];
}

sub parse
{
	my ($self, $name, $sql, @types) = @_;

	return $self->put('P',
		pack('Z* Z* n N*', $name, $sql, scalar @types, @types));
}

# Values in text format.
sub bind_values
{
	my ($self, $portal, $statement, @values) = @_;

	return $self->put(
		'B',
		pack('Z* Z* n n', $portal, $statement, 0, scalar @values)
		  . join('',
			map { defined $_ ? pack('N a*', length $_, $_) : pack('l>', -1) }
			  @values)
		  . pack('n', 0));
}

# Values in binary format.
sub bind_binary
{
	my ($self, $portal, $statement, @values) = @_;

	return $self->put(
		'B',
		pack('Z* Z* n n n', $portal, $statement, 1, 1, scalar @values)
		  . join('',
			map { defined $_ ? pack('N a*', length $_, $_) : pack('l>', -1) }
			  @values)
		  . pack('n', 0));
}

sub execute
{
	my ($self, $portal, $rows) = @_;

	return $self->put('E', pack('Z* N', $portal, $rows // 0));
}

sub sync
{
	my ($self) = @_;

	return $self->put('S', '');
}

# One statement by the extended protocol, unnamed.
sub extended
{
	my ($self, $sql, @values) = @_;

	return $self->parse('', $sql)->bind_values('', '', @values)
	  ->execute('')->sync->finish;
}

# A function call without a statement, as PQfn() makes it; values in text format.
sub put_call
{
	my ($self, $function, @values) = @_;

	return $self->put(
		'F',
		pack('N n n', $function, 0, scalar @values)
		  . join('', map { defined $_ ? pack('N a*', length $_, $_) : pack('l>', -1) } @values)
		  . pack('n', 0));
}

sub call
{
	my ($self, $function, @values) = @_;

	return $self->put_call($function, @values)->finish;
}

# Ends the session, and waits until its process has ended: its last record is in its ring then.
sub quit
{
	my ($self) = @_;

	$self->put('X', '')->send_all;
	while (defined $self->receive) { }
	close $self->{socket};
	return;
}

1;
