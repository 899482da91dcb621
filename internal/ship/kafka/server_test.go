package kafka_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/kafka"
)

// script starts and stops the server.
const script = "../../../scripts/test-ship.d/kafka"

// server is a Kafka that the tests of this package share.
type server struct {
	jars, dir   string
	open        string // the listener without encryption, where everybody is an administrator
	secure      string // the one with TLS and a login
	client      *kgo.Client
	admin       *kadm.Client
	topics      int
	startFailed error
}

var (
	shared     server
	sharedOnce sync.Once
)

// kafkaServer returns the server. STENO_TEST_KAFKA is the directory of its jars, which scripts/test-ship.d/kafka gets.
func kafkaServer(t testing.TB) *server {
	t.Helper()
	jars := os.Getenv("STENO_TEST_KAFKA")
	if jars == "" {
		t.Skip("there is no Kafka: STENO_TEST_KAFKA is to be the directory of its jars (scripts/test-ship.d/kafka jars DIR)")
	}
	sharedOnce.Do(func() {
		s := &shared
		dir, err := os.MkdirTemp("", "steno-kafka-")
		if err != nil {
			s.startFailed = err
			return
		}
		s.jars, s.dir = jars, filepath.Join(dir, "server")
		if s.startFailed = s.start(); s.startFailed != nil {
			return
		}
		if s.client, s.startFailed = kgo.NewClient(kgo.SeedBrokers(s.open)); s.startFailed == nil {
			s.admin = kadm.NewClient(s.client)
		}
	})
	if shared.startFailed != nil {
		t.Fatal(shared.startFailed)
	}
	return &shared
}

// start starts the server, or starts it again.
func (s *server) start() error {
	command := exec.Command(script, "start", s.jars, s.dir)
	out, err := command.Output()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("%w: %.2000s", err, log)
	}
	_, err = fmt.Sscan(string(out), &s.open, &s.secure)
	return err
}

// stop kills the server.
func (s *server) stop() error { return exec.Command(script, "stop", s.dir).Run() }

func (s *server) remove() {
	if s.dir == "" {
		return
	}
	if s.client != nil {
		s.client.Close()
	}
	_ = s.stop()
	_ = os.RemoveAll(filepath.Dir(s.dir))
}

// topic makes a topic with so many partitions, and settings in pairs of name and value.
func (s *server) topic(t testing.TB, partitions int32, settings ...string) string {
	t.Helper()
	s.topics++
	name := fmt.Sprintf("trail.%d", s.topics)
	all := map[string]*string{}
	for i := 0; i < len(settings); i += 2 {
		all[settings[i]] = &settings[i+1]
	}
	created, err := s.admin.CreateTopic(t.Context(), partitions, 1, all, name)
	if err != nil || created.Err != nil {
		t.Fatal(err, created.Err)
	}
	return name
}

// set changes a setting of a topic.
func (s *server) set(t *testing.T, topic, name, value string) {
	t.Helper()
	all, err := s.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err == nil {
		_, err = all.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		t.Fatal(err)
	}
}

func rights(topic, user string, operations []kmsg.ACLOperation) *kadm.ACLBuilder {
	return kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(operations...).
		Allow("User:" + user).AllowHosts("*")
}

// allow gives a user rights on a topic.
func (s *server) allow(t *testing.T, topic, user string, operations ...kmsg.ACLOperation) {
	t.Helper()
	if _, err := s.admin.CreateACLs(t.Context(), rights(topic, user, operations)); err != nil {
		t.Fatal(err)
	}
}

// revoke takes them.
func (s *server) revoke(t *testing.T, topic, user string, operations ...kmsg.ACLOperation) {
	t.Helper()
	if _, err := s.admin.DeleteACLs(t.Context(), rights(topic, user, operations)); err != nil {
		t.Fatal(err)
	}
}

// agentEnv makes the test's own binary an agent: it ships by the configuration file that this names.
const agentEnv = "STENO_TEST_SHIP_CONFIG"

func TestMain(m *testing.M) {
	if path := os.Getenv(agentEnv); path != "" {
		agentMain(path)
		return
	}
	code := m.Run()
	shared.remove()
	os.Exit(code)
}

func agentMain(path string) {
	c, err := ship.Load(path, []*ship.Kind{kafka.Kind})
	if err == nil {
		err = (&ship.Agent{Log: func(level ship.Level, _, message string) { fmt.Fprintln(os.Stderr, level, message) }}).
			Run(context.Background(), c, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// configuration is the text of a configuration file with one sink, named k.
func configuration(trail, state, to string, options ...string) string {
	text := fmt.Sprintf("trail: %s\nstate_directory: %s\nsinks:\n  k:\n    to: %s\n    retry: {first: 20ms, most: 200ms}\n",
		trail, state, to)
	for _, o := range options {
		text += "    " + o + "\n"
	}
	return text
}

// login are the options of a user that logs in at the listener with TLS.
func (s *server) login(user, mechanism, passwordFile string) []string {
	return []string{
		fmt.Sprintf("sasl: {mechanism: %s, user: %s, password: {file: %s}}", mechanism, user, passwordFile),
		fmt.Sprintf("tls: {ca: %s}", filepath.Join(s.dir, "ca.pem")),
	}
}

// writeSecret writes a password to a file.
func writeSecret(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// shipper runs a sink within the test.
type shipper struct {
	runner *ship.Runner
	mu     sync.Mutex
	logged []string
}

func newShipper(t testing.TB, text string) *shipper {
	t.Helper()
	c, err := ship.Parse([]byte(text), []*ship.Kind{kafka.Kind})
	if err != nil {
		t.Fatal(err)
	}
	s := &shipper{}
	s.runner = &ship.Runner{Config: c.Sinks["k"], Trail: c.Trail, State: c.StateDirectory,
		Log: func(level ship.Level, _, message string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.logged = append(s.logged, string(level)+": "+message)
		}}
	return s
}

func (s *shipper) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.logged, "\n")
}

// all ships what the trail has.
func (s *shipper) all(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s.runner.Once = true
	if err := s.runner.Run(ctx); err != nil || ctx.Err() != nil {
		t.Fatalf("not everything was shipped: %v, %v\n%s", err, ctx.Err(), s.log())
	}
}
