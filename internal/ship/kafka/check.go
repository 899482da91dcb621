// Trying all that sending needs.

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// Check tries each broker, and looks at the topic. It sends no message.
func (s *sink) Check(ctx context.Context) (all []ship.Finding) {
	var good []string
	for _, broker := range s.brokers {
		findings := s.checkBroker(ctx, broker)
		all = append(all, findings...)
		if findings[len(findings)-1].Err == nil {
			good = append(good, broker)
		}
	}
	if s.options.SASL.Mechanism == "plain" && !s.tls {
		all = append(all, ship.Finding{What: "encryption", Warning: true,
			Note: "the password is sent as it is: use kafka+tls, or sasl.mechanism scram-sha-512"})
	}
	if len(good) == 0 {
		return all
	}
	client, err := s.newClient(good...)
	if err != nil {
		return append(all, ship.Finding{What: s.named(), Err: err})
	}
	defer client.Close()
	return append(all, s.checkTopic(ctx, client)...)
}

// checkBroker tries one broker; the last finding says whether it can be used.
func (s *sink) checkBroker(ctx context.Context, broker string) (all []ship.Finding) {
	host, _, _ := net.SplitHostPort(broker)
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	f := ship.Finding{What: "resolve " + host, Err: err}
	if f.Note = strings.Join(addresses, ", "); f.Note == host {
		f.Note = ""
	}
	if all = append(all, f); err != nil {
		return all
	}
	f = s.checkDial(ctx, broker)
	if all = append(all, f); f.Err != nil {
		return all
	}
	f = ship.Finding{What: "talk to " + broker}
	if s.options.SASL.Mechanism != "" {
		f.What = fmt.Sprintf("log in at %s as %q with %s", broker, s.options.SASL.User, s.options.SASL.Mechanism)
	}
	client, err := s.newClient(broker)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		err = s.explain(client.Ping(ctx))
		client.Close()
	}
	f.Err = err
	return append(all, f)
}

func (s *sink) checkDial(ctx context.Context, broker string) ship.Finding {
	f := ship.Finding{What: "connect to " + broker}
	conn, err := s.dial(ctx, "tcp", broker)
	if err != nil {
		f.Err = err
		return f
	}
	defer conn.Close()
	if secure, ok := conn.(*tls.Conn); ok {
		state := secure.ConnectionState()
		f.Note = fmt.Sprintf("%s, its certificate is valid until %s", tls.VersionName(state.Version),
			state.PeerCertificates[0].NotAfter.UTC().Format(time.DateOnly))
		if f.Warning = s.config.TLS.SkipVerify; f.Warning {
			f.Note += ", and is not verified"
		}
	}
	return f
}

// checkTopic looks at the topic.
func (s *sink) checkTopic(ctx context.Context, client *kgo.Client) (all []ship.Finding) {
	admin := kadm.NewClient(client)
	m, err := s.describe(ctx, admin)
	if err != nil {
		return []ship.Finding{{What: "ask for the topic", Err: s.explain(err)}}
	}
	topic := m.Topics[s.topic]
	all = append(all, s.checkLeaders(ctx, m)...)
	all = append(all, s.checkWrite(ctx, client, topic.AuthorizedOperations))
	settings, err := s.learn(ctx, admin)
	if err != nil {
		return append(all, ship.Finding{What: "ask for the settings of the topic", Err: s.explain(err)})
	}
	if settings == nil {
		return append(all, ship.Finding{What: "settings of " + s.named(), Warning: true,
			Note: fmt.Sprintf("no right to see them (DescribeConfigs): messages have up to %d bytes until the topic refuses one",
				s.limit.Load())})
	}
	return append(all, s.checkSafety(topic, settings), s.checkSize(settings), s.checkKept(settings))
}

// checkLeaders looks at the partitions, and at the brokers that lead them, which may have other addresses than those
// that were given.
func (s *sink) checkLeaders(ctx context.Context, m *kadm.Metadata) (all []ship.Finding) {
	topic := m.Topics[s.topic]
	f := ship.Finding{What: s.named(), Note: fmt.Sprintf("partitions: %d, replicas: %d", len(topic.Partitions),
		topic.Partitions.NumReplicas())}
	leaders := map[int32]bool{}
	for _, p := range topic.Partitions.Sorted() {
		if p.Err != nil || p.Leader < 0 {
			f.Err = fmt.Errorf("partition %d has no leader: %w", p.Partition, errors.Join(p.Err, kerr.LeaderNotAvailable))
		}
		leaders[p.Leader] = true
	}
	all = append(all, f)
	for _, b := range m.Brokers {
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		if leaders[b.NodeID] && !slices.Contains(s.brokers, address) {
			f := s.checkDial(ctx, address)
			f.What += ", which the cluster names for the topic"
			all = append(all, f)
		}
	}
	return all
}

// checkWrite finds out whether messages may be written, without writing one.
func (s *sink) checkWrite(ctx context.Context, client *kgo.Client, may []kadm.ACLOperation) ship.Finding {
	f := ship.Finding{What: "write to the topic"}
	switch {
	case len(may) == 0:
		f.Note = "the cluster does not say whether it is allowed"
	case !slices.Contains(may, kmsg.ACLOperationWrite) && !slices.Contains(may, kmsg.ACLOperationAll):
		f.Err = s.explain(kerr.TopicAuthorizationFailed)
		return f
	}
	needless := []kmsg.ACLOperation{kmsg.ACLOperationDelete, kmsg.ACLOperationAlter, kmsg.ACLOperationAlterConfigs}
	for _, what := range needless {
		if slices.Contains(may, what) && s.options.SASL.Mechanism != "" {
			f.Warning = true
			f.Note = fmt.Sprintf("it may also %s the topic, which it need not", strings.ReplaceAll(what.String(), "_", " "))
		}
	}
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionTimeoutMillis = 60_000
	response, err := r.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	f.Err = s.explain(err)
	return f
}

// checkSafety looks at how many brokers have a message when it is acknowledged.
func (s *sink) checkSafety(topic kadm.TopicDetail, settings map[string]string) ship.Finding {
	replicas, least := topic.Partitions.NumReplicas(), settings["min.insync.replicas"]
	f := ship.Finding{What: "safety of " + s.named(),
		Note: fmt.Sprintf("replicas: %d, min.insync.replicas: %s", replicas, least)}
	switch {
	case replicas < 2:
		f.Warning = true
		f.Note += ": what is acknowledged is lost with the disk of one broker"
	case least == "1":
		f.Warning = true
		f.Note += ": a message can be acknowledged that only one broker has; set it to 2"
	}
	if settings["unclean.leader.election.enable"] == "true" {
		f.Warning = true
		f.Note += "; unclean.leader.election.enable is true: what is acknowledged can be lost"
	}
	return f
}

func (s *sink) checkSize(settings map[string]string) ship.Finding {
	f := ship.Finding{What: "size of messages", Note: fmt.Sprintf("up to %d bytes; max.message.bytes of the topic is %s",
		s.limit.Load(), settings["max.message.bytes"])}
	if int64(s.limit.Load()) < int64(s.options.MaxMessage) {
		f.Warning = true
		f.Note += fmt.Sprintf(", which is less than max_message, %d", s.options.MaxMessage)
	}
	return f
}

// checkKept looks at how long the topic keeps messages.
func (s *sink) checkKept(settings map[string]string) ship.Finding {
	f := ship.Finding{What: "retention of " + s.named(), Note: "it keeps messages for ever"}
	millis, err := strconv.ParseInt(settings["retention.ms"], 10, 64)
	if err == nil && millis >= 0 {
		f.Note = fmt.Sprintf("it keeps messages for %s (retention.ms)", time.Duration(millis)*time.Millisecond)
	}
	if size := settings["retention.bytes"]; size != "" && size != "-1" {
		f.Note += fmt.Sprintf(", and %s bytes of a partition (retention.bytes)", size)
	}
	if strings.Contains(settings["cleanup.policy"], "compact") {
		f.Warning = true
		f.Note += "; by its cleanup.policy, compact, it deletes all messages of a key but the last one"
	}
	return f
}
