// Package recordtest has what tests of sinks of records share: events as the agent makes them of a trail, a network
// that fails, certificates, and the judge of what has arrived.
package recordtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crypto "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// Rand returns a source of random numbers, whose seed is logged.
func Rand(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 7))
}

// text returns a statement with what makes trouble: control characters, bytes that are not UTF-8, quotes, emptiness.
func text(r *rand.Rand, n int) string {
	pieces := []string{"SELECT ", "'x'", "\n", "\t", "\x00", "\x1b[2J", "\x7f", "\xff\xfe", "é", "\u202e", "日本", "\U0001f600",
		"\"", "\\", "\r\n", "12 <13>1 - ", "}\n{", ",", "--"}
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// Events returns random events of two streams, about n, as lines of a format. Some have megabytes.
func Events(t testing.TB, r *rand.Rand, n int, as string) []ship.Event {
	t.Helper()
	dir := t.TempDir()
	streams := []*trailtest.Stream{trailtest.NewStream(t, dir, 0), trailtest.NewStream(t, dir, 1)}
	for left, block := n, int64(0); left > 0; block++ {
		stream := r.IntN(len(streams))
		session := trailtest.NewSession(trailtest.Epoch+int64(stream), uint32(1000+stream),
			trailtest.Fact{Key: format.KeyUser, Value: "alice"}, trailtest.Fact{Key: format.KeyDatabase, Value: "shop"})
		b := trailtest.NewBuilder(trailtest.Epoch + block*1000)
		for range min(left, 1+r.IntN(60)) {
			seq := uint64(n - left + 1)
			size := r.IntN(400)
			switch r.IntN(200) {
			case 0:
				size = 1 << 20
			case 1, 2, 3:
				size = r.IntN(40 << 10)
			}
			record := &trailtest.Record{Kind: format.KindStatement, Session: session, Seq: seq, Statement: seq,
				Time: trailtest.Epoch + block*1000 + int64(seq), Text: text(r, size),
				Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"}}
			if r.IntN(5) == 0 {
				record.Outcome, record.SQLState, record.Message = format.OutcomeError, "42P01", text(r, 30)
			}
			b.Add(record)
			left--
		}
		streams[stream].Write(t, b)
	}
	return Of(t, dir, as)
}

// Of returns the events of a trail as lines of a format.
func Of(t testing.TB, dir, as string) (all []ship.Event) {
	t.Helper()
	kind := &ship.Kind{Name: "test", Schemes: []string{"test"}, Formats: ship.RecordFormats,
		Batch:   ship.Batch{Records: 1000, Bytes: 4 << 20, Wait: ship.Duration(time.Millisecond)},
		Options: func() any { return &struct{}{} },
		Open:    func(*ship.SinkConfig) (ship.Sink, error) { return collector{&all}, nil },
	}
	c, err := ship.Parse([]byte("sinks:\n  s:\n    to: test:x\n    format: "+as+"\n"), []*ship.Kind{kind})
	if err != nil {
		t.Fatal(err)
	}
	runner := &ship.Runner{Config: c.Sinks["s"], Trail: dir, State: t.TempDir(), Once: true,
		Log: func(ship.Level, string, string) {}}
	if err := runner.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return all
}

type collector struct{ all *[]ship.Event }

func (collector) Check(context.Context) []ship.Finding { return nil }
func (collector) Close() error                         { return nil }
func (c collector) SendEvents(_ context.Context, events []ship.Event) ([]ship.Refused, error) {
	for _, e := range events {
		e.Line = bytes.Clone(e.Line)
		*c.all = append(*c.all, e)
	}
	return nil, nil
}

// Open opens a sink with the keys of a configuration, each on a line.
func Open(t testing.TB, kind *ship.Kind, keys ...string) ship.EventSink {
	t.Helper()
	s, err := TryOpen(kind, keys...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(ship.EventSink)
}

// TryOpen opens a sink, or returns what is wrong with its configuration.
func TryOpen(kind *ship.Kind, keys ...string) (ship.Sink, error) {
	c, err := ship.Parse([]byte("sinks:\n  s:\n    "+strings.Join(keys, "\n    ")+"\n"), []*ship.Kind{kind})
	if err != nil {
		return nil, err
	}
	return kind.Open(c.Sinks["s"])
}

// Deliver sends events in batches of random sizes, each as often as it takes. again is asked about each error: false
// ends the test.
func Deliver(t testing.TB, r *rand.Rand, s ship.EventSink, events []ship.Event, again func(error) bool) []ship.Refused {
	t.Helper()
	var refused []ship.Refused
	for len(events) > 0 {
		n, size := 0, 0
		for most := 1 + r.IntN(300); n < min(len(events), most) && (n == 0 || size < 1<<20); n++ {
			size += len(events[n].Line)
		}
		for attempts := 1; ; attempts++ {
			some, err := s.SendEvents(context.Background(), events[:n])
			if err == nil {
				refused = append(refused, some...)
				break
			}
			if attempts > 1000 || !again(err) {
				t.Fatalf("attempt %d: %v", attempts, err)
			}
			if asked := (*ship.AfterError)(nil); !errors.As(err, &asked) {
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
			}
		}
		events = events[n:]
	}
	return refused
}

// Lines returns the lines of events.
func Lines(events []ship.Event) (all []string) {
	for i := range events {
		all = append(all, string(events[i].Line))
	}
	return all
}

// InOrder checks that what arrived is all that was sent, in order, with repeats of what came before only.
func InOrder(t testing.TB, sent, arrived []string) {
	t.Helper()
	place := map[string]int{}
	for i, one := range sent {
		place[one] = i
	}
	if len(place) != len(sent) {
		t.Fatal("the events are not different from each other")
	}
	next := 0
	for i, one := range arrived {
		at, known := place[one]
		switch {
		case !known:
			t.Fatalf("number %d that arrived was never sent: %.300q", i, one)
		case at > next:
			t.Fatalf("number %d was lost, or comes after number %d", next, at)
		case at == next:
			next++
		}
	}
	if next != len(sent) {
		t.Fatalf("%d of %d arrived", next, len(sent))
	}
	t.Logf("%d events arrived, %d of them again", next, len(arrived)-next)
}

// Proxy passes connections on to an address, and cuts each after a random number of bytes in either direction.
type Proxy struct {
	Address string
	Cuts    int // how many connections were cut

	mu   sync.Mutex
	r    *rand.Rand
	most int
}

// Cutting starts a proxy that cuts connections after up to most bytes.
func Cutting(t testing.TB, r *rand.Rand, to string, most int) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), r: rand.New(rand.NewPCG(r.Uint64(), 1)), most: most}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wait.Go(func() { p.pass(client.(*net.TCPConn), to) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		wait.Wait()
	})
	return p
}

func (p *Proxy) pass(client *net.TCPConn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	up, down := int64(p.r.IntN(p.most)), int64(p.most)
	if p.r.IntN(4) == 0 { // after a request, before its answer is complete
		up, down = down, int64(p.r.IntN(300))
	}
	p.mu.Unlock()
	var wait sync.WaitGroup
	one := func(to, from *net.TCPConn, most int64) {
		n, err := io.CopyN(to, from, most)
		if n < most && err == io.EOF {
			_ = to.CloseWrite()
			return
		}
		p.mu.Lock()
		p.Cuts++
		p.mu.Unlock()
		for _, c := range []*net.TCPConn{to, from} { // a cable that is cut delivers nothing of what is in buffers
			_ = c.SetLinger(0)
			_ = c.Close()
		}
	}
	wait.Go(func() { one(server.(*net.TCPConn), client, up) })
	wait.Go(func() { one(client, server.(*net.TCPConn), down) })
	wait.Wait()
}

// Certificates makes an authority in a directory, and certificates for this machine, localhost and 127.0.0.1:
// ca.pem, server.pem with server.key, and client.pem with client.key.
func Certificates(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, der []byte) {
		check(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), crypto.Reader)
	check(err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(crypto.Reader, ca, ca, &caKey.PublicKey, caKey)
	check(err)
	write("ca.pem", "CERTIFICATE", der)
	for i, name := range []string{"server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), crypto.Reader)
		check(err)
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(2 + i)), Subject: pkix.Name{CommonName: name},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		if name == "server" {
			c.DNSNames, c.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
		} else {
			c.DNSNames = []string{"client.example"}
		}
		der, err := x509.CreateCertificate(crypto.Reader, c, ca, &key.PublicKey, caKey)
		check(err)
		write(name+".pem", "CERTIFICATE", der)
		der, err = x509.MarshalPKCS8PrivateKey(key)
		check(err)
		write(name+".key", "PRIVATE KEY", der)
	}
	return dir
}

// FreePort returns a port of this machine at which nothing listens.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// WaitFor waits until a condition holds.
func WaitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 20 s for %s", what)
		}
	}
}

// WaitForPort waits until something listens.
func WaitForPort(t testing.TB, port string) {
	t.Helper()
	WaitFor(t, "port "+port, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// Findings are the findings of a check as text.
func Findings(all []ship.Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s: err=%v note=%q warning=%v\n", f.What, f.Err, f.Note, f.Warning)
	}
	return b.String()
}

// WriteCertificate writes a certificate to a file.
func WriteCertificate(t testing.TB, path string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
