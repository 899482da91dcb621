// Package kafka is the sink that sends a trail to a topic of Kafka: blocks as they are stored, from which a consumer
// rebuilds the segments byte for byte (format/KAFKA.md), or records, a message each.
//
//	kafka.go    the options, and the sink
//	connect.go  a connection: TLS, the login, what the topic takes
//	deliver.go  messages in, acknowledgements out
//	blocks.go   messages of blocks; events.go: messages of records
//	check.go    trying all of that; explain.go: errors by what is wrong
//
// What must stay true: the messages of a key are stored in the order in which they were given, however often and
// wherever sending fails; some may be stored twice. No topic is ever created.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// Options are the options of this sink.
type Options struct {
	SASL        SASL      `yaml:"sasl"`
	ClientID    string    `yaml:"client_id"`
	Compression string    `yaml:"compression"` // of batches of messages; the default depends on the format
	MaxMessage  ship.Size `yaml:"max_message"` // larger blocks are sent in parts, larger records are refused
}

// SASL is how the sink logs in.
type SASL struct {
	Mechanism string      `yaml:"mechanism"` // plain, scram-sha-256 or scram-sha-512
	User      string      `yaml:"user"`
	Password  ship.Secret `yaml:"password"`
}

// Kind is this kind of sinks.
var Kind = &ship.Kind{
	Name:    "Kafka",
	Schemes: []string{"kafka", "kafka+tls"},
	Formats: ship.AllFormats,
	// What a poll of the trail has found is sent at once.
	Batch:   ship.Batch{Records: 20_000, Bytes: 2 << 20, Wait: ship.Duration(time.Millisecond)},
	Options: func() any { return &Options{ClientID: "steno-ship"} },
	Open:    open,
}

const (
	defaultPort = "9092"
	// defaultMessage is what every topic takes whose settings are the default ones.
	defaultMessage = 1_000_000
	// leastMessage leaves room for the headers, and enough of a block that it does not become thousands of parts.
	leastMessage = 4096
	mostMessage  = 16 << 20
)

// sink is a topic.
type sink struct {
	config      *ship.SinkConfig
	options     *Options
	brokers     []string
	topic       string
	tls         bool
	compression kgo.CompressionCodec

	client *kgo.Client // nil: not connected
	// limit is the largest message, with all that Kafka adds to it.
	limit atomic.Int32
	// exact says that the topic has said what it takes; otherwise the limit is a guess, until the topic refuses it.
	exact bool
	// sendTimes says that the topic refuses the times of records: messages have that of sending.
	sendTimes bool
	last      lastConnect

	blocks blockProgress
	events eventProgress
}

var compressions = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func open(c *ship.SinkConfig) (ship.Sink, error) {
	s := &sink{config: c, options: c.Options.(*Options), tls: c.TLS != ship.TLS{}}
	if err := s.readURL(c.To); err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	if err := s.options.SASL.check(); err != nil {
		return nil, err
	}
	name := s.options.Compression
	if name == "" {
		if name = "lz4"; c.IsBlocks() {
			name = "none" // they are compressed
		}
	}
	codec, known := compressions[name]
	if !known {
		return nil, fmt.Errorf("compression: %q is none of none, gzip, snappy, lz4, zstd", name)
	}
	s.compression = codec
	if n := s.options.MaxMessage; n != 0 && (n < leastMessage || n > mostMessage) {
		return nil, fmt.Errorf("max_message: it must be between %d and %d bytes", leastMessage, mostMessage)
	}
	s.limit.Store(int32(s.wanted()))
	s.blocks.announced = map[streamKey]string{}
	return s, nil
}

// readURL reads kafka://broker:9092,broker2:9092/topic.
func (s *sink) readURL(to string) error {
	scheme, rest, _ := strings.Cut(to, "://")
	s.tls = s.tls || scheme == "kafka+tls"
	hosts, path, _ := strings.Cut(rest, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse("kafka://" + host)
		switch {
		case err != nil || u.Hostname() == "":
			return errors.New("name brokers and a topic, as in kafka://broker:9092,broker2:9092/topic")
		case u.User != nil:
			return errors.New("the user belongs into sasl.user")
		}
		port := u.Port()
		if port == "" {
			port = defaultPort
		}
		s.brokers = append(s.brokers, net.JoinHostPort(u.Hostname(), port))
	}
	if s.topic = path; !topicName.MatchString(path) || path == "." || path == ".." {
		return errors.New("name the topic, as in kafka://broker:9092/topic: letters, digits, dots, underscores, hyphens")
	}
	return nil
}

var mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

func (o *SASL) check() error {
	switch {
	case o.Mechanism == "" && o.User == "" && !o.Password.IsSet():
		return nil
	case !slices.Contains(mechanisms, o.Mechanism):
		return fmt.Errorf("sasl.mechanism: %q is none of %s", o.Mechanism, strings.Join(mechanisms, ", "))
	case o.User == "" || !o.Password.IsSet():
		return errors.New("sasl: name a user, and the place of the password")
	}
	return nil
}

// Close ends the connections. What was not acknowledged is given up.
func (s *sink) Close() error {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
	return nil
}

// time returns the time of a message. A topic may refuse what is too far in the future, as after a wrong clock.
func (s *sink) time(of time.Time) time.Time {
	if now := time.Now(); s.sendTimes || of.After(now) {
		return now
	}
	return of
}

// adapt changes what can be changed after an error, and returns whether sending again makes sense.
func (s *sink) adapt(ctx context.Context, err error) bool {
	switch {
	case ctx.Err() != nil:
		return false
	case isTooLarge(err) && !s.exact && s.limit.Load() >= 2*leastMessage:
		s.limit.Store(s.limit.Load() / 2)
		return true
	case isWrongTime(err) && !s.sendTimes:
		s.sendTimes = true
		return true
	}
	return false
}
