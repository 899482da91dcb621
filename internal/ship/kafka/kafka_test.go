package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/command/program"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/kafka"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// grower writes a random trail of a few streams.
type grower struct {
	t        *testing.T
	rng      *rand.Rand
	dir      string
	streams  []*trailtest.Stream
	sessions []*trailtest.Session
	seqs     []uint64
	largest  int // length of the longest text
}

func newGrower(t *testing.T, streams, largest int) *grower {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := &grower{t: t, rng: rand.New(rand.NewPCG(seed, 1)), dir: filepath.Join(t.TempDir(), "trail"), largest: largest}
	for i := range streams {
		g.streams = append(g.streams, trailtest.NewStream(t, g.dir, uint32(i)))
		g.sessions = append(g.sessions, trailtest.NewSession(trailtest.Epoch, uint32(100+i),
			trailtest.Fact{Key: format.KeyUser, Value: "alice"}))
	}
	g.seqs = make([]uint64, streams)
	return g
}

// text is a text that cannot be compressed, mostly short.
func (g *grower) text() string {
	n := g.rng.IntN(200)
	if g.rng.IntN(30) == 0 {
		n = g.rng.IntN(g.largest)
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(32 + g.rng.IntN(95))
	}
	return "SELECT '" + strings.ReplaceAll(string(b), "'", "") + "'"
}

// blocks writes some blocks to random streams.
func (g *grower) blocks(n int) {
	g.t.Helper()
	for range n {
		i := g.rng.IntN(len(g.streams))
		s, now := g.streams[i], trailtest.Epoch+int64(g.seqs[i])*1000
		if g.rng.IntN(8) == 0 {
			s.Rotate(g.t, now)
		}
		b := trailtest.NewBuilder(now)
		for range 1 + g.rng.IntN(20) {
			g.seqs[i]++
			b.Add(&trailtest.Record{Kind: format.KindStatement, Session: g.sessions[i], Seq: g.seqs[i], Statement: g.seqs[i],
				Time: now, Duration: uint64(g.rng.IntN(5000)), Shape: &trailtest.Shape{Class: format.ClassRead, Command: "SELECT"},
				Text: g.text()})
			now += 1000
		}
		s.Write(g.t, b)
	}
}

func TestBlocksAreRebuiltByteForByte(t *testing.T) {
	s := kafkaServer(t)
	for _, most := range []string{"1048588", "30000"} {
		t.Run(most, func(t *testing.T) {
			topic := s.topic(t, 4, "max.message.bytes", most)
			g := newGrower(t, 5, 2_500_000)
			g.blocks(150)
			state := t.TempDir()
			newShipper(t, configuration(g.dir, state, "kafka://"+s.open+"/"+topic)).all(t)
			g.blocks(30) // a second agent goes on where the first one ended
			newShipper(t, configuration(g.dir, state, "kafka://"+s.open+"/"+topic)).all(t)
			if n := compare(t, g.dir, rebuild(t, s.consume(t, topic))); n > 0 {
				t.Errorf("%d blocks came twice", n)
			}
		})
	}
}

// TestSizesAreFoundWithoutRights has a user who may write, and see nothing.
func TestSizesAreFoundWithoutRights(t *testing.T) {
	s := kafkaServer(t)
	topic := s.topic(t, 2, "max.message.bytes", "40000")
	s.allow(t, topic, "ship", kmsg.ACLOperationWrite)
	g := newGrower(t, 2, 500_000)
	g.blocks(60)
	newShipper(t, configuration(g.dir, t.TempDir(), "kafka+tls://"+s.secure+"/"+topic,
		s.login("ship", "scram-sha-512", writeSecret(t, "secret of ship"))...)).all(t)
	compare(t, g.dir, rebuild(t, s.consume(t, topic)))
}

// TestRecordsAreThoseOfCat compares messages with what steno cat prints.
func TestRecordsAreThoseOfCat(t *testing.T) {
	s := kafkaServer(t)
	dir := filepath.Join(t.TempDir(), "trail")
	trailtest.Varied(t, dir, 300)
	session := regexp.MustCompile(`"session":"([^"]+)"`)
	for _, as := range []string{"json", "ecs", "ocsf", "otel", "csvlog", "pgaudit"} {
		t.Run(as, func(t *testing.T) {
			topic := s.topic(t, 3)
			newShipper(t, configuration(dir, t.TempDir(), "kafka://"+s.open+"/"+topic, "format: "+as, "slot: "+as)).all(t)
			streams, _, out, errOut := iostreams.Test()
			if code := program.Run(t.Context(), cli.New(streams), []string{"cat", "--format", as, dir}); code != 0 {
				t.Fatal(code, errOut)
			}
			want := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			var got []string
			for _, messages := range s.consume(t, topic) {
				for _, m := range messages {
					got = append(got, strings.Split(string(m.Value), "\n")...)
				}
			}
			sorted := func(lines []string) []string { return slices.Sorted(slices.Values(lines)) }
			if !slices.Equal(sorted(got), sorted(want)) {
				t.Fatalf("%d lines arrived, steno cat prints %d, or they differ", len(got), len(want))
			}
			if as != "json" {
				return
			}
			bySession := map[string][]string{}
			for _, line := range want {
				id := session.FindStringSubmatch(line)
				bySession[id[1]] = append(bySession[id[1]], line)
			}
			for key, lines := range linesOf(t, s.consume(t, topic)) {
				if !slices.Equal(lines, bySession[key]) {
					t.Fatalf("session %s: %d messages, %d records, or another order", key, len(lines), len(bySession[key]))
				}
			}
		})
	}
}

// TestRightsAreTakenWhileSending has what fails in the middle of much that is being sent: after each failure, the order
// holds.
func TestRightsAreTakenWhileSending(t *testing.T) {
	s := kafkaServer(t)
	topic := s.topic(t, 2)
	s.allow(t, topic, "ship", kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe)
	g := newGrower(t, 3, 100_000)
	g.blocks(800)
	run := newShipper(t, configuration(g.dir, t.TempDir(), "kafka+tls://"+s.secure+"/"+topic,
		append(s.login("ship", "scram-sha-256", writeSecret(t, "secret of ship")), "batch: {bytes: 2MB}", "max_message: 100kB")...))
	done := make(chan struct{})
	go func() {
		defer close(done)
		run.all(t)
	}()
	for again := true; again; {
		select {
		case <-done:
			again = false
		case <-time.After(time.Duration(50+g.rng.IntN(250)) * time.Millisecond):
			s.revoke(t, topic, "ship", kmsg.ACLOperationWrite)
			if g.rng.IntN(2) == 0 {
				s.set(t, topic, "max.message.bytes", fmt.Sprint(20_000+g.rng.IntN(60_000)))
			}
			time.Sleep(time.Duration(g.rng.IntN(200)) * time.Millisecond)
			s.allow(t, topic, "ship", kmsg.ACLOperationWrite)
		}
	}
	repeats := compare(t, g.dir, rebuild(t, s.consume(t, topic)))
	status := run.runner.Status()
	t.Logf("%d blocks, %d repeated, %d attempts failed", status.Blocks, repeats, status.Retried)
	if status.Retried == 0 {
		t.Error("no attempt failed: this tests nothing")
	}
}

// TestAttemptsThatFailHalfwayKeepTheOrder takes and gives the right to write so often that attempts fail while the client is
// still given messages, and those that it is given later would be stored.
func TestAttemptsThatFailHalfwayKeepTheOrder(t *testing.T) {
	s := kafkaServer(t)
	const keys, each, rounds = 3, 10_000, 3
	blocks := make([]ship.Block, keys*each)
	events := make([]ship.Event, keys*each)
	segment := &ship.Segment{Number: 1, FirstBlock: 1, Header: make([]byte, 128)}
	for i := range blocks {
		stream, n := uint32(i%keys), uint64(i/keys+1)
		place := trail.Place{Stream: stream, Segment: 1, Block: n}
		blocks[i] = ship.Block{Place: place, System: 7, Segment: segment, Image: []byte(fmt.Sprint("block ", n))}
		blocks[i].Chain[0], blocks[i].Chain[1] = byte(n), byte(n>>8)
		events[i] = ship.Event{Place: place, Session: fmt.Sprint("session ", stream), Seq: n, Line: []byte(fmt.Sprint("block ", n))}
	}
	send := map[string]func(ship.Sink) error{
		"blocks": func(sink ship.Sink) error { return sink.(ship.BlockSink).SendBlocks(t.Context(), blocks) },
		"json": func(sink ship.Sink) error {
			refused, err := sink.(ship.EventSink).SendEvents(t.Context(), events)
			if len(refused) > 0 {
				t.Errorf("%d were refused", len(refused))
			}
			return err
		},
	}
	for as, try := range send {
		t.Run(as, func(t *testing.T) {
			topic := s.topic(t, 2)
			s.allow(t, topic, "ship", kmsg.ACLOperationDescribe)
			sink := openSink(t, configuration("/", "/", "kafka+tls://"+s.secure+"/"+topic,
				append(s.login("ship", "scram-sha-256", writeSecret(t, "secret of ship")), "format: "+as, "max_message: 8kB")...))
			defer sink.Close()
			failed := 0
			var wait sync.WaitGroup
			for range rounds { // sends all, again and again
				done := make(chan struct{})
				wait.Go(func() {
					for rng := rand.New(rand.NewPCG(rand.Uint64(), 2)); ; {
						s.allow(t, topic, "ship", kmsg.ACLOperationWrite)
						select {
						case <-done:
							return
						case <-time.After(time.Duration(rng.IntN(150)) * time.Millisecond):
						}
						s.revoke(t, topic, "ship", kmsg.ACLOperationWrite)
						time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
					}
				})
				for try(sink) != nil {
					if failed++; failed > 10_000 {
						t.Fatal("it never works")
					}
				}
				close(done)
				wait.Wait()
			}
			t.Logf("%d attempts failed", failed)
			inOrder(t, s.consume(t, topic), each, rounds)
		})
	}
}

// inOrder checks that the messages of each key count up from 1, as often as that was sent. What comes again continues what
// came before: a message is never more than one ahead.
func inOrder(t *testing.T, messages map[int32][]*kgo.Record, each, times int) {
	t.Helper()
	last, rounds := map[string]int{}, map[string]int{}
	for _, all := range messages {
		for _, m := range all {
			var n int
			if _, err := fmt.Sscanf(string(m.Value), "block %d", &n); err != nil {
				continue // the header of a segment
			}
			key := string(m.Key)
			switch was := last[key]; {
			case n == was+1:
				last[key] = n
			case n == 1 && was == each:
				last[key] = 1
			case n > was+1:
				t.Fatalf("%s: %d comes after %d", key, n, was)
			}
			if last[key] == each && n == each {
				rounds[key]++
			}
		}
	}
	if len(rounds) != 3 {
		t.Fatalf("keys %v", rounds)
	}
	for key, n := range rounds {
		if n < times {
			t.Errorf("%s: all was sent %d times, and arrived %d times", key, times, n)
		}
	}
}

func TestBrokerIsKilledWhileSending(t *testing.T) {
	s := kafkaServer(t)
	topic := s.topic(t, 3, "flush.messages", "1") // what is acknowledged survives kill -9 in any case
	g := newGrower(t, 3, 100_000)
	run := newShipper(t, configuration(g.dir, t.TempDir(), "kafka://"+s.open+"/"+topic))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run.runner.Run(ctx) }()
	for range 3 {
		for range 20 + g.rng.IntN(20) {
			g.blocks(5)
			time.Sleep(20 * time.Millisecond)
		}
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		g.blocks(20)
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	run.all(t)
	t.Logf("%d repeated\n%s", compare(t, g.dir, rebuild(t, s.consume(t, topic))), run.log())
}

// TestAgentIsKilled kills the process of the agent at random moments while the trail grows.
func TestAgentIsKilled(t *testing.T) {
	s := kafkaServer(t)
	topic := s.topic(t, 3)
	g := newGrower(t, 4, 50_000)
	state := t.TempDir()
	text := configuration(g.dir, state, "kafka://"+s.open+"/"+topic, "batch: {bytes: 500kB}")
	path := filepath.Join(t.TempDir(), "ship.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kills := 40
	for range kills {
		agent := exec.Command(os.Args[0])
		agent.Env = append(os.Environ(), agentEnv+"="+path)
		var said bytes.Buffer
		agent.Stderr = &said
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(time.Duration(g.rng.IntN(1200)) * time.Millisecond); time.Now().Before(until); {
			g.blocks(10)
			time.Sleep(5 * time.Millisecond)
		}
		if err := agent.Process.Kill(); err != nil {
			t.Fatal(err, said.String())
		}
		_ = agent.Wait()
	}
	newShipper(t, text).all(t)
	streams := rebuild(t, s.consume(t, topic))
	var records uint64
	for _, one := range streams {
		records += one.records
	}
	t.Logf("%d kills, %d records, %d blocks repeated", kills, records, compare(t, g.dir, streams))
}

func TestLargeRecordsAreRefused(t *testing.T) {
	s := kafkaServer(t)
	topic := s.topic(t, 1, "max.message.bytes", "20000")
	g := newGrower(t, 1, 60_000)
	g.blocks(100)
	state := t.TempDir()
	run := newShipper(t, configuration(g.dir, state, "kafka://"+s.open+"/"+topic, "format: json"))
	run.all(t)
	n := uint64(len(s.consume(t, topic)[0]))
	refused, err := os.ReadFile(filepath.Join(state, "ship-k.refused.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	status := run.runner.Status()
	lines := bytes.Split(bytes.TrimSpace(refused), []byte("\n"))
	if status.Refused == 0 || n+status.Refused != g.seqs[0] || uint64(len(lines)) != status.Refused {
		t.Errorf("%d records: %d arrived, %d were refused, %d were kept", g.seqs[0], n, status.Refused, len(lines))
	}
	for _, line := range lines {
		var kept struct{ Reason, Event string }
		if err := json.Unmarshal(line, &kept); err != nil || len(kept.Event) < 19_000 || !strings.Contains(kept.Reason, "20000") {
			t.Errorf("%v: a record of %d bytes was refused: %s", err, len(kept.Event), kept.Reason)
		}
	}
}

// TestWhatIsWrongIsNamed tries what can be wrong; no error has the password.
func TestWhatIsWrongIsNamed(t *testing.T) {
	s := kafkaServer(t)
	topic, foreign := s.topic(t, 1), s.topic(t, 1)
	s.allow(t, topic, "ship", kmsg.ACLOperationWrite)
	s.allow(t, foreign, "ship", kmsg.ACLOperationDescribe)
	good, bad := writeSecret(t, "secret of ship"), writeSecret(t, "hunter2hunter2")
	ca := s.login("", "", "")[1]
	for _, test := range []struct {
		name, to string
		options  []string
		want     string
		plain    bool // the error does not last by itself
	}{
		{"topic", "kafka://" + s.open + "/nowhere", nil, `topic "nowhere": it does not exist`, false},
		{"right", "kafka://" + s.secure + "/" + foreign, s.login("ship", "scram-sha-512", good), `topic "` + foreign +
			`": no right to write`, false},
		{"password", "kafka://" + s.secure + "/" + topic, s.login("ship", "scram-sha-512", bad), "broker " + s.secure +
			`: login of "ship"`, false},
		{"plain password", "kafka://" + s.secure + "/" + topic, s.login("ship", "plain", bad), "broker " + s.secure +
			`: login of "ship"`, false},
		{"user", "kafka://" + s.secure + "/" + topic, s.login("nobody", "scram-sha-256", good), `login of "nobody"`, false},
		{"no password", "kafka://" + s.secure + "/" + topic, s.login("ship", "scram-sha-512", "/nowhere"), "sasl.password",
			false},
		{"authority", "kafka+tls://" + s.secure + "/" + topic, nil, "broker " + s.secure + ": TLS: ", false},
		{"name", "kafka://" + s.secure + "/" + topic, []string{strings.TrimSuffix(ca, "}") + ", server_name: elsewhere}"},
			"elsewhere", false},
		{"no login", "kafka://" + s.secure + "/" + topic, []string{ca}, "broker " + s.secure, true},
		{"no broker", "kafka://127.0.0.1:1/" + topic, nil, "broker 127.0.0.1:1: ", true},
		{"no TLS", "kafka://" + s.secure + "/" + topic, nil, "broker " + s.secure, true},
		{"needless TLS", "kafka+tls://" + s.open + "/" + topic, nil, "broker " + s.open, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			sink := openSink(t, configuration("/", "/", test.to, test.options...))
			defer sink.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			block := ship.Block{System: 1, Image: make([]byte, 112), Segment: &ship.Segment{Header: make([]byte, 128)}}
			err := sink.(ship.BlockSink).SendBlocks(ctx, []ship.Block{block})
			permanent, is := err.(*ship.PermanentError)
			if err == nil || !strings.Contains(err.Error(), test.want) || is == test.plain {
				t.Errorf("the error is %v (%T)", err, err)
			}
			if is && permanent.What == "" {
				t.Error("it names nothing")
			}
			said := fmt.Sprint(err)
			failed := false
			for _, f := range sink.Check(ctx) {
				failed = failed || f.Err != nil
				said += fmt.Sprint(f)
			}
			if !failed {
				t.Errorf("a check finds nothing: %s", said)
			}
			if strings.Contains(said, "hunter2") || strings.Contains(said, "secret of") {
				t.Errorf("the password is said: %s", said)
			}
		})
	}
}

func openSink(t *testing.T, text string) ship.Sink {
	t.Helper()
	c, err := ship.Parse([]byte(text), []*ship.Kind{kafka.Kind})
	if err != nil {
		t.Fatal(err)
	}
	sink, err := kafka.Kind.Open(c.Sinks["k"])
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func TestChecksSendNothing(t *testing.T) {
	s := kafkaServer(t)
	topic := s.topic(t, 2, "max.message.bytes", "50000", "cleanup.policy", "compact")
	s.allow(t, topic, "ship", kmsg.ACLOperationWrite, kmsg.ACLOperationDescribeConfigs)
	sink := openSink(t, configuration("/", "/", "kafka+tls://"+s.secure+"/"+topic,
		append(s.login("ship", "scram-sha-512", writeSecret(t, "secret of ship")), "max_message: 80kB")...))
	defer sink.Close()
	var said strings.Builder
	for _, f := range sink.Check(t.Context()) {
		fmt.Fprintf(&said, "%s: %s %v %v\n", f.What, f.Note, f.Err, f.Warning)
		if f.Err != nil {
			t.Error(f.What, f.Err)
		}
	}
	for _, want := range []string{
		"resolve 127.0.0.1:", "connect to " + s.secure + ": TLS 1.3, its certificate is valid until 2",
		`log in at ` + s.secure + ` as "ship" with scram-sha-512:`, "partitions: 2, replicas: 1", "write to the topic:  <nil> false",
		"lost with the disk of one broker <nil> true", "up to 50000 bytes", "which is less than max_message, 80000 <nil> true",
		"deletes all messages of a key but the last one", "keeps messages for ever",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not said: %s", want, &said)
		}
	}
	if n := len(s.consume(t, topic)); n > 0 {
		t.Errorf("%d partitions have messages", n)
	}
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	for _, test := range []struct{ to, option, want string }{
		{"kafka://broker", "", "name the topic"},
		{"kafka://broker/a/b", "", "name the topic"},
		{"kafka:///topic", "", "name brokers"},
		{"kafka://ship@broker/topic", "", "sasl.user"},
		{"kafka://broker/topic", "compression: best", "none, gzip, snappy, lz4, zstd"},
		{"kafka://broker/topic", "max_message: 100", "max_message"},
		{"kafka://broker/topic", "sasl: {mechanism: gssapi}", "sasl.mechanism"},
		{"kafka://broker/topic", "sasl: {mechanism: plain, user: u}", "password"},
		{"kafka://broker/topic", "sasl: {user: u, password: {env: P}}", "sasl.mechanism"},
		{"kafka://broker/topic", "sasl: {mechanism: plain, user: u, password: x}", "secret is not written"},
	} {
		c, err := ship.Parse([]byte(configuration("/", "/", test.to, test.option)), []*ship.Kind{kafka.Kind})
		if err == nil {
			_, err = kafka.Kind.Open(c.Sinks["k"])
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: the error is %v", test.to, test.option, err)
		}
	}
	for _, to := range []string{"kafka://b1,b2:9093/t", "kafka+tls://[::1]:9092/a.b_c-d"} {
		openSink(t, configuration("/", "/", to))
	}
}
