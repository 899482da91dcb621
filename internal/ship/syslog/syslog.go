// Package syslog is the sink that sends records as syslog messages (RFC 5424), over TLS (RFC 5425) or TCP (RFC 6587).
//
// Syslog has no acknowledgement. By default, confirm: read, each batch has a connection of its own, and counts as sent
// when the receiver has closed it, which it does after it has read everything. With confirm: received, connections
// stay, and a batch counts as sent when the kernel of the other end has all of it: what its program has not read yet is
// lost if it dies at that moment; behind a proxy, that is all that the proxy holds. In both cases, what a receiver has
// read and not stored is its own to lose.
//
// What must stay true: a batch whose connection broke before it counts as sent is sent again as a whole; a message that
// is longer than the receiver's limit is never sent, because what follows it would be lost, too; none is cut.
package syslog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/reach"
)

// Options are the options of this sink.
type Options struct {
	// Facility is audit by default: RFC 5424 has it for this (13, "log audit"), so that a receiver can keep the records
	// apart from the logins of the system (authpriv), and their readers.
	Facility string `yaml:"facility"`
	Hostname string `yaml:"hostname"` // default: that of this machine
	AppName  string `yaml:"app_name"`
	// MaxMessage is the longest message, with its header, that the receiver takes.
	MaxMessage ship.Size `yaml:"max_message"`
	// Confirm is when a batch counts as sent: read, when the receiver has read it; received, when the receiver's kernel
	// has it.
	Confirm string        `yaml:"confirm"`
	Timeout ship.Duration `yaml:"timeout"` // for a connection, and for a batch without progress
	// Insecure allows to send without TLS to other machines, where everybody on the way can read it.
	Insecure bool `yaml:"insecure"`
}

const (
	schemeTLS = "syslog+tls"
	schemeTCP = "syslog+tcp"

	received = "received"
	read     = "read"
)

// ports are those that IANA has for RFC 5425, and for syslog over TCP.
var ports = map[string]string{schemeTLS: "6514", schemeTCP: "601"}

// Kind is this kind of sinks.
var Kind = &ship.Kind{
	Name:    "syslog",
	Schemes: []string{schemeTLS, schemeTCP},
	Formats: ship.RecordFormats,
	Batch:   ship.Batch{Records: 5_000, Bytes: 1 << 20, Wait: ship.Duration(500 * time.Millisecond)},
	Options: func() any {
		// rsyslog's manual says 8k, but its limit is 8096 unless its configuration says otherwise.
		return &Options{Facility: "audit", AppName: "pg_steno", MaxMessage: 8096, Confirm: read,
			Timeout: ship.Duration(30 * time.Second)}
	},
	Open: open,
}

type sink struct {
	host    string
	address string
	label   string
	tls     *ship.TLS // nil: without
	options *Options
	header  *header
	conn    *connection
	frames  []byte
	message []byte
}

func open(c *ship.SinkConfig) (ship.Sink, error) {
	o := c.Options.(*Options)
	u, err := url.Parse(c.To)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Path != "" && u.Path != "/" {
		return nil, errors.New("to: name a host and a port, as in syslog+tls://host:6514")
	}
	s := &sink{host: u.Hostname(), options: o}
	port := u.Port()
	if port == "" {
		port = ports[u.Scheme]
	}
	s.address = net.JoinHostPort(s.host, port)
	s.label = u.Scheme + "://" + s.address
	if s.header, err = newHeader(o); err != nil {
		return nil, err
	}
	switch {
	case o.MaxMessage < 480:
		return nil, errors.New("max_message must be at least 480 bytes, as RFC 5424 asks of receivers")
	case o.Confirm != received && o.Confirm != read:
		return nil, fmt.Errorf("confirm: %q is neither %s nor %s", o.Confirm, read, received)
	case u.Scheme == schemeTLS:
		s.tls = &c.TLS
	case !reach.IsLoopback(s.host) && !o.Insecure:
		return nil, errors.New("to: syslog+tcp: sends records to another machine so that everybody on the way can read " +
			"them: use syslog+tls:, or set insecure")
	}
	return s, nil
}

// SendEvents sends the events, and waits until they count as sent.
func (s *sink) SendEvents(ctx context.Context, events []ship.Event) (refused []ship.Refused, err error) {
	s.frames = s.frames[:0]
	for i := range events {
		s.message = s.header.appendMessage(s.message[:0], &events[i])
		if n := len(s.message); n > int(s.options.MaxMessage) {
			refused = append(refused, ship.Refused{Event: &events[i], Reason: fmt.Sprintf("as a syslog message it has %d "+
				"bytes, and max_message is %d: raise the receiver's limit, and then max_message", n, s.options.MaxMessage)})
			continue
		}
		s.frames = append(strconv.AppendInt(s.frames, int64(len(s.message)), 10), ' ')
		s.frames = append(s.frames, s.message...)
	}
	if len(s.frames) == 0 {
		return refused, nil
	}
	if err := s.send(ctx); err != nil {
		s.drop()
		if wrong := (*ship.PermanentError)(nil); errors.As(err, &wrong) {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", s.label, err)
	}
	return refused, nil
}

// send sends the frames. If the receiver has closed a connection that was idle, they are sent on another one: nothing
// of them was sent.
func (s *sink) send(ctx context.Context) error {
	if s.conn != nil && s.conn.isClosed() {
		s.drop()
	}
	if s.conn == nil {
		conn, err := s.dial(ctx)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	defer context.AfterFunc(ctx, s.conn.abort)()
	if err := s.conn.write(s.frames); err != nil {
		return s.because(ctx, err)
	}
	if s.options.Confirm == received {
		return s.because(ctx, s.conn.drain())
	}
	err := s.conn.finish()
	s.drop()
	return s.because(ctx, err)
}

func (s *sink) because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (s *sink) drop() {
	if s.conn != nil {
		s.conn.abort()
		<-s.conn.ended
		s.conn = nil
	}
}

// dial connects. Certificates are read each time, so that new ones take effect.
func (s *sink) dial(ctx context.Context) (*connection, error) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(s.options.Timeout))
	defer cancel()
	raw, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(limited, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	c := &connection{tcp: raw.(*net.TCPConn), Conn: raw, ended: make(chan struct{}),
		timeout: time.Duration(s.options.Timeout)}
	if s.tls != nil {
		config, err := s.tls.Config()
		if err != nil {
			raw.Close()
			return nil, err
		}
		if config.ServerName == "" {
			config.ServerName = s.host
		}
		encrypted := tls.Client(raw, config)
		if err := encrypted.HandshakeContext(limited); err != nil {
			raw.Close()
			if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
				return nil, &ship.PermanentError{What: "the certificate of " + s.address, Err: wrong.Err}
			}
			return nil, err
		}
		c.Conn, c.tls = encrypted, encrypted
	}
	go c.listen()
	return c, nil
}

// Check connects, and sends nothing. With a certificate of its own, it waits for a moment: in TLS 1.3, a server refuses
// it only after the handshake.
func (s *sink) Check(ctx context.Context) []ship.Finding {
	f, found := reach.Resolve(ctx, s.host)
	all := []ship.Finding{f}
	if !found {
		return all
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return append(all, ship.Finding{What: "connect to " + s.label, Err: err})
	}
	defer func() {
		conn.abort()
		<-conn.ended
	}()
	if conn.tls != nil {
		state := conn.tls.ConnectionState()
		all = append(all, reach.Certificate(s.address, &state, !s.tls.SkipVerify))
	} else if !reach.IsLoopback(s.host) {
		all = append(all, ship.Finding{What: "no TLS: everybody on the way can read the records", Warning: true})
	}
	connected := ship.Finding{What: "connect to " + s.label, Note: fmt.Sprintf("syslog has no answers: whether messages "+
		"of %d bytes are taken, and by whom they are read, is seen at the receiver only", s.options.MaxMessage)}
	select {
	case <-conn.ended:
		connected.Err, connected.Note = fmt.Errorf("the receiver has closed the connection: %w", conn.err), ""
	case <-time.After(refusal):
	case <-ctx.Done():
		connected.Err, connected.Note = ctx.Err(), ""
	}
	return append(all, connected)
}

// refusal is how long a receiver may take to refuse a certificate.
const refusal = 500 * time.Millisecond

// Close ends the connection.
func (s *sink) Close() error {
	if s.conn != nil {
		_ = s.conn.finish()
	}
	s.drop()
	return nil
}

// connection is a connection that is read all the time, so that its end is noticed, and with TLS what the server tells.
type connection struct {
	net.Conn // with TLS if there is tls
	tcp      *net.TCPConn
	tls      *tls.Conn
	timeout  time.Duration
	ended    chan struct{} // nothing can be read any more, because of err
	err      error
}

func (c *connection) listen() {
	_, err := io.Copy(io.Discard, c.Conn)
	if err == nil {
		err = io.EOF
	}
	c.err = err
	close(c.ended)
}

func (c *connection) isClosed() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// abort ends the connection at once, and everything that waits for it.
func (c *connection) abort() { _ = c.tcp.Close() }

// errClosed says that a receiver has closed a connection while something was on its way.
var errClosed = errors.New("the receiver closed the connection before it had everything: all of it is sent again")

// mostAtOnce bounds what is written before there must have been progress.
const mostAtOnce = 64 << 10

func (c *connection) write(frames []byte) error {
	for len(frames) > 0 {
		n := min(len(frames), mostAtOnce)
		if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return err
		}
		if _, err := c.Write(frames[:n]); err != nil {
			if c.isClosed() {
				return errClosed
			}
			return err
		}
		frames = frames[n:]
	}
	return nil
}

// drain waits until the receiver's kernel has acknowledged everything.
func (c *connection) drain() error {
	last, progress := -1, time.Now()
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		if c.isClosed() {
			return errClosed
		}
		left, err := unacknowledged(c.tcp)
		if err != nil {
			return err
		}
		if left == 0 {
			if c.isClosed() {
				return errClosed
			}
			return nil
		}
		if left != last {
			last, progress = left, time.Now()
		} else if time.Since(progress) > c.timeout {
			return fmt.Errorf("the receiver has taken nothing for %s", c.timeout)
		}
		select {
		case <-c.ended:
		case <-time.After(wait):
		}
	}
}

// finish says that nothing more will come, and waits until the receiver closes the connection, which it does when it
// has read everything.
func (c *connection) finish() error {
	if c.tls != nil {
		if err := c.tls.CloseWrite(); err != nil {
			return err
		}
	}
	if err := c.tcp.CloseWrite(); err != nil {
		return err
	}
	select {
	case <-c.ended:
	case <-time.After(c.timeout):
		return fmt.Errorf("the receiver has not closed the connection within %s, as it must with confirm: read; "+
			"if it never does, set confirm: received", c.timeout)
	}
	// Servers close TCP without a last message of TLS.
	if errors.Is(c.err, io.EOF) || errors.Is(c.err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("%w: %w", errClosed, c.err)
}
