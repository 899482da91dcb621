//go:build linux

package syslog_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/recordtest"
	"github.com/pg-steno/pg_steno/internal/ship/syslog"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct{ keys, wants string }{
		{"to: syslog+tls://h", ""}, {"to: syslog+tls://h:1/", ""}, {"to: syslog+tcp://127.0.0.1", ""},
		{"to: syslog+tcp://h", "use syslog+tls:, or set insecure"}, {"to: syslog+tcp://h|insecure: true", ""},
		{"to: syslog+tls://h/x", "name a host"}, {"to: syslog+tls://u@h", "name a host"},
		{"to: syslog+tls://h|facility: locl0", "facility"}, {"to: syslog+tls://h|facility: local7", ""},
		{"to: syslog+tls://h|app_name: a b", "app_name"}, {"to: syslog+tls://h|hostname: ä", "hostname"},
		{"to: syslog+tls://h|max_message: 100B", "at least 480"}, {"to: syslog+tls://h|confirm: no", "neither"},
	} {
		_, err := recordtest.TryOpen(syslog.Kind, strings.Split(c.keys, "|")...)
		if c.wants == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wants) {
			t.Errorf("%s:\n got %v\nwant %s", c.keys, err, c.wants)
		}
	}
}

// frames reads frames, by their lengths.
func frames(r io.Reader) (all []string, err error) {
	in := bufio.NewReader(r)
	for {
		length, err := in.ReadString(' ')
		if err != nil {
			return all, err
		}
		n, err := strconv.Atoi(strings.TrimSuffix(length, " "))
		if err != nil {
			return all, err
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(in, frame); err != nil {
			return all, err
		}
		all = append(all, string(frame))
	}
}

var rfc5424 = regexp.MustCompile(`(?s)^<(\d+)>1 (\S+) ([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128}) ([!-~]{1,32}) - (.*)$`)

// TestMessages reads what is sent by the grammar of the RFC.
func TestMessages(t *testing.T) {
	r := recordtest.Rand(t)
	events := recordtest.Events(t, r, 500, "csvlog")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	got := make(chan []string)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		all, _ := frames(c)
		c.Close()
		got <- all
	}()
	sink := recordtest.Open(t, syslog.Kind, "to: syslog+tcp://"+listener.Addr().String(), "facility: local3",
		"hostname: db1.example", "max_message: 20MB", "format: csvlog", "confirm: received")
	refused := recordtest.Deliver(t, r, sink, events, func(error) bool { return false })
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	sink.Close()
	var arrived []string
	for i, frame := range <-got {
		m := rfc5424.FindStringSubmatch(frame)
		if m == nil {
			t.Fatalf("not a message: %.200q", frame)
		}
		pri, e := 19*8+6, &events[i]
		if e.Failed {
			pri -= 2
		}
		at, err := time.Parse("2006-01-02T15:04:05.000000Z", m[2])
		if m[1] != fmt.Sprint(pri) || err != nil || at.UnixMicro() != e.Time+946684800e6 || m[3] != "db1.example" ||
			m[4] != "pg_steno" || m[5] != "1000" && m[5] != "1001" || m[6] != "statement" {
			t.Errorf("%.100q: %v", frame, err)
		}
		arrived = append(arrived, m[7])
	}
	recordtest.InOrder(t, recordtest.Lines(events), arrived)
}

// TestWhatWasNotTakenIsSentAgain: a receiver that closes the connection before it has read everything.
func TestWhatWasNotTakenIsSentAgain(t *testing.T) {
	for _, confirm := range []string{"received", "read"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		got := make(chan int)
		go func() {
			first := true
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				if first {
					_, _ = io.CopyN(io.Discard, c, 1000)
					c.Close() // with unread data, so that it is reset
					first = false
					continue
				}
				all, _ := frames(c)
				c.Close()
				got <- len(all)
			}
		}()
		sink := recordtest.Open(t, syslog.Kind, "to: syslog+tcp://"+listener.Addr().String(), "confirm: "+confirm)
		events := make([]ship.Event, 2000)
		for i := range events {
			events[i].Line = bytes.Repeat([]byte("x"), 7000)
		}
		if _, err := sink.SendEvents(context.Background(), events); err == nil {
			t.Fatal("a batch that was not read counts as sent")
		}
		done := make(chan error, 1)
		go func() {
			_, err := sink.SendEvents(context.Background(), events)
			sink.Close()
			done <- err
		}()
		if n := <-got; n != len(events) {
			t.Errorf("%d arrived", n)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestASlowReceiverIsNotWaitedForForever(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	sink := recordtest.Open(t, syslog.Kind, "to: syslog+tcp://"+listener.Addr().String(), "timeout: 300ms",
		"max_message: 90MB", "confirm: received")
	_, err = sink.SendEvents(context.Background(), []ship.Event{{Line: bytes.Repeat([]byte("x"), 60<<20)}})
	if err == nil {
		t.Error("what nobody takes counts as sent")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	sink = recordtest.Open(t, syslog.Kind, "to: syslog+tcp://"+listener.Addr().String(), "max_message: 90MB")
	if _, err = sink.SendEvents(ctx, []ship.Event{{Line: bytes.Repeat([]byte("x"), 60<<20)}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// rsyslog is Debian's rsyslog, which writes messages to a file, one JSON string a line.
type rsyslog struct {
	port, plain string // with TLS, and without
	certs       string
	out         string
}

// In rsyslog, a frame that is longer than MaxFrameSize, or a message that is longer than maxMessageSize, ends the counting
// of octets.
const rsyslogConfig = `
global(workDirectory="%[1]s" %[2]s parser.escapeControlCharactersOnReceive="off"
  defaultNetstreamDriver="gtls" defaultNetstreamDriverCAFile="%[3]s/ca.pem"
  defaultNetstreamDriverCertFile="%[3]s/server.pem" defaultNetstreamDriverKeyFile="%[3]s/server.key")
module(load="imptcp")
module(load="imtcp" StreamDriver.Name="gtls" StreamDriver.Mode="1" StreamDriver.Authmode="x509/name"
  MaxFrameSize="%[6]d" PermittedPeer="client.example")
template(name="json" type="list") {
  constant(value="{\"pri\":\"") property(name="pri") constant(value="\",\"host\":\"")
  property(name="hostname" format="json") constant(value="\",\"app\":\"") property(name="app-name" format="json")
  constant(value="\",\"pid\":\"") property(name="procid" format="json") constant(value="\",\"time\":\"")
  property(name="timereported" dateFormat="rfc3339") constant(value="\",\"msg\":\"")
  property(name="msg" format="json") constant(value="\"}\n")
}
ruleset(name="keep") {
  action(type="omfile" file="%[1]s/out" template="json" asyncWriting="off" flushOnTXEnd="on")
}
input(type="imtcp" address="127.0.0.1" port="%[4]s" ruleset="keep")
input(type="imptcp" address="127.0.0.1" port="%[5]s" MaxFrameSize="%[6]d" ruleset="keep")
`

func startRsyslog(t *testing.T, maxMessage int) *rsyslog {
	t.Helper()
	program, err := exec.LookPath("rsyslogd")
	if err != nil {
		program = "/usr/sbin/rsyslogd"
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("rsyslog is not installed")
	}
	if drivers, _ := filepath.Glob("/usr/lib/*/rsyslog/lmnsd_gtls.so"); len(drivers) == 0 {
		t.Skip("rsyslog-gnutls is not installed")
	}
	s := &rsyslog{port: recordtest.FreePort(t), plain: recordtest.FreePort(t), certs: recordtest.Certificates(t)}
	dir := t.TempDir()
	s.out = filepath.Join(dir, "out")
	config := filepath.Join(dir, "rsyslog.conf")
	limit, frame := "", 200_000 // the defaults
	if maxMessage > 0 {
		limit, frame = fmt.Sprintf(`maxMessageSize="%d"`, maxMessage), maxMessage
	}
	text := fmt.Sprintf(rsyslogConfig, dir, limit, s.certs, s.port, s.plain, frame)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	recordtest.Start(t, []string{s.port, s.plain}, program, "-n", "-f", config, "-i", filepath.Join(dir, "pid"))
	return s
}

type message struct{ Pri, Host, App, Pid, Time, Msg string }

func (s *rsyslog) messages(t *testing.T) (all []message) {
	t.Helper()
	text, err := os.ReadFile(s.out)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var m message
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %.200q", err, line)
		}
		all = append(all, m)
	}
	return all
}

func (s *rsyslog) lines(t *testing.T) (all []string) {
	for _, m := range s.messages(t) {
		all = append(all, m.Msg)
	}
	return all
}

func (s *rsyslog) keys(to string, more ...string) []string {
	return append([]string{"to: " + to, fmt.Sprintf("tls: {ca: %[1]s/ca.pem, cert: %[1]s/client.pem, key: %[1]s/client.key}",
		s.certs)}, more...)
}

const large = 5_000_000 // for the events of a megabyte, whose control characters are escaped

func TestRsyslog(t *testing.T) {
	s := startRsyslog(t, large+1000)
	r := recordtest.Rand(t)
	for _, to := range []string{"syslog+tls://127.0.0.1:" + s.port, "syslog+tls://localhost:" + s.port,
		"syslog+tcp://127.0.0.1:" + s.plain} {
		for _, confirm := range []string{"received", "read"} {
			t.Run(strings.ReplaceAll(to, "/", "")+" "+confirm, func(t *testing.T) {
				if err := os.Truncate(s.out, 0); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				events := recordtest.Events(t, r, 2000, "json")
				sink := recordtest.Open(t, syslog.Kind, s.keys(to, "confirm: "+confirm, fmt.Sprintf("max_message: %dB", large))...)
				if refused := recordtest.Deliver(t, r, sink, events, func(error) bool { return false }); len(refused) > 0 {
					t.Fatal(refused[0].Reason)
				}
				recordtest.WaitFor(t, "all messages", func() bool { return len(s.lines(t)) >= len(events) })
				recordtest.InOrder(t, recordtest.Lines(events), s.lines(t))
				m := s.messages(t)[0]
				host, _ := os.Hostname()
				if m.Pri != "110" && m.Pri != "108" || m.Host != host || m.App != "pg_steno" || m.Pid != "1000" && m.Pid != "1001" {
					t.Errorf("%+v", m)
				}
			})
		}
	}
}

// TestRsyslogsLimit: the default of max_message is what rsyslog takes when it is not told otherwise, and what is larger
// is refused, and disturbs nothing.
func TestRsyslogsLimit(t *testing.T) {
	s := startRsyslog(t, 0)
	sink := recordtest.Open(t, syslog.Kind, s.keys("syslog+tls://127.0.0.1:"+s.port, "hostname: h")...)
	const limit, header = 8096, len("<110>1 - h pg_steno - - - ")
	var events []ship.Event
	var sent []string
	for i := range 50 {
		line := fmt.Sprintf("%02d", i) + strings.Repeat("x", limit-header-2-25+i)
		events = append(events, ship.Event{Time: -1 << 62, Line: []byte(line)})
		if header+len(line) <= limit {
			sent = append(sent, line)
		}
	}
	refused, err := sink.SendEvents(context.Background(), events)
	if err != nil || len(refused)+len(sent) != len(events) || !strings.Contains(refused[0].Reason, "max_message is 8096") {
		t.Fatalf("%d refused, %v", len(refused), err)
	}
	recordtest.WaitFor(t, "all messages", func() bool { return len(s.lines(t)) >= len(sent) })
	recordtest.InOrder(t, sent, s.lines(t))
}

// TestRsyslogOverANetworkThatIsCut: with confirm: read nothing is lost; without, no more than what was on its way when a
// connection was cut, and that only if the cut is behind a proxy, whose kernel had taken it.
func TestRsyslogOverANetworkThatIsCut(t *testing.T) {
	for _, confirm := range []string{"received", "read"} {
		t.Run(confirm, func(t *testing.T) {
			s := startRsyslog(t, large+1000)
			r := recordtest.Rand(t)
			events := recordtest.Events(t, r, 2000, "json")
			p := recordtest.Cutting(t, r, "127.0.0.1:"+s.port, 4<<20)
			sink := recordtest.Open(t, syslog.Kind, s.keys("syslog+tls://"+p.Address, "confirm: "+confirm,
				fmt.Sprintf("max_message: %dB", large))...)
			refused := recordtest.Deliver(t, r, sink, events, func(err error) bool {
				var wrong *ship.PermanentError
				return !errors.As(err, &wrong)
			})
			if len(refused) > 0 {
				t.Fatal(refused[0].Reason)
			}
			sink.Close()
			last := string(events[len(events)-1].Line)
			recordtest.WaitFor(t, "the last message", func() bool {
				all := s.lines(t)
				return len(all) > 0 && all[len(all)-1] == last
			})
			lost := map[string]bool{}
			for _, line := range recordtest.Lines(events) {
				lost[line] = true
			}
			for _, line := range s.lines(t) {
				delete(lost, line)
			}
			t.Logf("%d connections were cut, %d of %d events are lost", p.Cuts, len(lost), len(events))
			if confirm == "received" {
				if len(lost) > 300*p.Cuts {
					t.Error("more than a batch for each cut")
				}
				return
			}
			recordtest.InOrder(t, recordtest.Lines(events), s.lines(t))
			if p.Cuts == 0 {
				t.Error("no connection was cut")
			}
		})
	}
}

func TestCheck(t *testing.T) {
	s := startRsyslog(t, 0)
	to := "syslog+tls://localhost:" + s.port
	other := recordtest.Certificates(t)
	closed := "127.0.0.1:" + recordtest.FreePort(t)
	for _, c := range []struct {
		keys  []string
		wants []string
	}{
		{s.keys(to), []string{"resolve localhost: err=<nil>", "TLS with localhost:" + s.port + ": err=<nil>",
			"connect to " + to + ": err=<nil>"}},
		{[]string{"to: " + to}, []string{"connect to " + to, "the certificate of localhost:" + s.port +
			": x509: certificate signed by unknown authority"}},
		{[]string{"to: " + to, "tls: {ca: " + s.certs + "/ca.pem}"}, []string{"the receiver has closed the connection"}},
		{[]string{"to: " + to, fmt.Sprintf("tls: {ca: %s/ca.pem, cert: %[2]s/client.pem, key: %[2]s/client.key}",
			s.certs, other)}, []string{"the receiver has closed the connection"}},
		{s.keys("syslog+tls://" + closed), []string{"dial tcp " + closed + ": connect: connection refused"}},
		{s.keys("syslog+tls://no-such-host.invalid"), []string{"resolve no-such-host.invalid: err=lookup"}},
		{[]string{"to: " + to, "tls: {skip_verify: true}"}, []string{"it is not verified"}},
	} {
		sink := recordtest.Open(t, syslog.Kind, c.keys...)
		text := recordtest.Findings(sink.Check(context.Background()))
		for _, want := range c.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s is missing:\n%s", c.keys, want, text)
			}
		}
	}
	if n := len(s.lines(t)); n > 0 {
		t.Errorf("%d messages arrived", n)
	}
}
