// A connection: TLS, the login, and what the topic takes.

package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/pg-steno/pg_steno/internal/ship"
)

const (
	dialTime = 10 * time.Second
	// connectTime bounds how long it may take until the cluster has answered what it knows of the topic.
	connectTime = 20 * time.Second
)

// lastConnect remembers how connecting to a broker went last, because the client's own errors do not always say.
type lastConnect struct {
	mu     sync.Mutex
	broker string
	err    error
}

// OnBrokerConnect is called after each attempt to connect.
func (l *lastConnect) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broker, l.err = net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))), err
}

func (l *lastConnect) get() (broker string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broker, l.err
}

// dial connects to a broker. Certificates are read each time, so that new ones take effect.
func (s *sink) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTime}
	if !s.tls {
		return dialer.DialContext(ctx, network, address)
	}
	c, err := s.config.TLS.Config()
	if err != nil {
		return nil, &ship.PermanentError{What: "TLS", Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return (&tls.Dialer{NetDialer: dialer, Config: c}).DialContext(ctx, network, address)
}

// login returns how to log in; nil: not at all.
func (s *sink) login() sasl.Mechanism {
	o := &s.options.SASL
	read := func(ctx context.Context) (string, error) {
		password, err := o.Password.Read(ctx)
		if err != nil {
			return "", &ship.PermanentError{What: "sasl.password", Err: err}
		}
		return password, nil
	}
	asScram := func(ctx context.Context) (scram.Auth, error) {
		password, err := read(ctx)
		return scram.Auth{User: o.User, Pass: password}, err
	}
	switch o.Mechanism {
	case "plain":
		return plain.Plain(func(ctx context.Context) (plain.Auth, error) {
			password, err := read(ctx)
			return plain.Auth{User: o.User, Pass: password}, err
		})
	case "scram-sha-256":
		return scram.Sha256(asScram)
	case "scram-sha-512":
		return scram.Sha512(asScram)
	}
	return nil
}

// newClient returns a client that begins with the given brokers. It connects to nothing yet.
//
// The producer is idempotent, which is the default: the cluster drops what is repeated within a client, and refuses
// what comes after a gap. Flushing is manual so that nothing is sent before all messages of a call are in the client:
// see deliver.
func (s *sink) newClient(brokers ...string) (*kgo.Client, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.ClientID(s.options.ClientID), kgo.Dialer(s.dial), kgo.WithHooks(&s.last),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ManualFlushing(), kgo.MaxBufferedRecords(1 << 30),
		kgo.ProducerBatchCompression(s.compression),
		kgo.ProducerBatchMaxBytesFn(func(string) int32 { return s.limit.Load() }),
		kgo.MetadataMinAge(time.Second), kgo.RetryTimeout(connectTime / 2), kgo.DisableClientMetrics(),
	}
	if mechanism := s.login(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return kgo.NewClient(options...)
}

// connect makes a client, and asks the cluster for the topic, so that what is wrong is known by its name.
func (s *sink) connect(ctx context.Context) error {
	if s.client != nil {
		return nil
	}
	client, err := s.newClient(s.brokers...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	admin := kadm.NewClient(client)
	if _, err = s.describe(ctx, admin); err == nil {
		_, err = s.learn(ctx, admin)
	}
	if err != nil {
		client.Close()
		return s.explain(err)
	}
	s.client = client
	return nil
}

// describe returns what the cluster knows of the topic.
func (s *sink) describe(ctx context.Context, admin *kadm.Client) (*kadm.Metadata, error) {
	m, err := admin.Metadata(kadm.WithAuthorizedOps(ctx), s.topic)
	if err != nil {
		return nil, err
	}
	topic := m.Topics[s.topic]
	if topic.Err != nil {
		return nil, topic.Err
	}
	return &m, nil
}

// learn finds out how large a message may be, and returns the settings of the topic. That needs a right that a producer
// need not have: without it, the settings are nil.
func (s *sink) learn(ctx context.Context, admin *kadm.Client) (settings map[string]string, err error) {
	all, err := admin.DescribeTopicConfigs(ctx, s.topic)
	if err == nil {
		var one kadm.ResourceConfig
		if one, err = all.On(s.topic, nil); err == nil {
			err = one.Err
		}
		settings = map[string]string{}
		for _, c := range one.Configs {
			settings[c.Key] = c.MaybeValue()
		}
	}
	if err != nil {
		settings = nil
		if !isForbidden(err) && ctx.Err() != nil {
			return nil, fmt.Errorf("asking for the settings of the topic: %w", err)
		}
	}
	most, unknown := strconv.ParseInt(settings["max.message.bytes"], 10, 64)
	if s.exact = unknown == nil; !s.exact {
		return settings, nil
	}
	if most < leastMessage {
		return nil, &ship.PermanentError{What: s.named(), Err: fmt.Errorf("its max.message.bytes is %d, but at least %d is "+
			"needed", most, leastMessage)}
	}
	s.limit.Store(int32(min(s.wanted(), most)))
	return settings, nil
}

// wanted is how large messages are unless the topic takes less.
func (s *sink) wanted() int64 {
	if chosen := int64(s.options.MaxMessage); chosen != 0 {
		return chosen
	}
	return defaultMessage
}

// named names the topic in errors.
func (s *sink) named() string { return fmt.Sprintf("topic %q", s.topic) }
