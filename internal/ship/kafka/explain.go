// Errors, by what is wrong.

package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/pg-steno/pg_steno/internal/ship"
)

func isTooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

func isWrongTime(err error) bool { return errors.Is(err, kerr.InvalidTimestamp) }

func isForbidden(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed)
}

func isLogin(err error) bool {
	return errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism) ||
		errors.Is(err, kerr.IllegalSaslState)
}

func isTLS(err error) bool {
	verify, alert, header := (*tls.CertificateVerificationError)(nil), tls.AlertError(0), tls.RecordHeaderError{}
	host, authority := x509.HostnameError{}, x509.UnknownAuthorityError{}
	return errors.As(err, &verify) || errors.As(err, &alert) || errors.As(err, &header) || errors.As(err, &host) ||
		errors.As(err, &authority) || strings.Contains(err.Error(), "remote error: tls: ")
}

// topics are the errors that are about the topic, with what there is to say.
var topics = []struct {
	err  error
	text string
}{
	{kerr.UnknownTopicOrPartition, "it does not exist, or may not be seen; create it, steno ship does not"},
	{kerr.UnknownTopicID, "it was deleted"},
	{kerr.InvalidTopicException, "its name is not allowed"},
	{kerr.TopicAuthorizationFailed, "no right to write to it (Write)"},
	{kerr.MessageTooLarge, "it does not take messages of this size: see its max.message.bytes"},
	{kerr.RecordListTooLarge, "it does not take messages of this size: see its segment.bytes"},
	{kerr.InvalidTimestamp, "it does not take messages of this time: see its message.timestamp.before.max.ms"},
	{kerr.PolicyViolation, "a policy of the cluster refuses the messages"},
	{kerr.InvalidRecord, "it refuses the messages"},
}

// explain returns an error that names what is wrong: the topic, or the broker.
func (s *sink) explain(err error) error {
	if done := (*ship.PermanentError)(nil); err == nil || errors.As(err, &done) || errors.Is(err, context.Canceled) {
		return err
	}
	for _, one := range topics {
		if errors.Is(err, one.err) {
			return &ship.PermanentError{What: s.named(), Err: fmt.Errorf("%s: %w", one.text, err)}
		}
	}
	if errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return &ship.PermanentError{What: "cluster", Err: fmt.Errorf("no right to produce (IdempotentWrite): %w", err)}
	}
	broker, last := s.last.get()
	if broker == "" {
		broker = strings.Join(s.brokers, ", ")
	}
	late := errors.Is(err, errStalled) || errors.Is(err, context.DeadlineExceeded)
	if last != nil && (late || isLogin(last) || isTLS(last)) {
		err = fmt.Errorf("%w: %w", err, last)
		if isLogin(last) || isTLS(last) {
			err = last
		}
	}
	what := "broker " + broker
	switch permanent := (*ship.PermanentError)(nil); {
	case errors.As(err, &permanent):
		return err
	case isLogin(err):
		return &ship.PermanentError{What: what, Err: fmt.Errorf("login of %q: %w", s.options.SASL.User, err)}
	case isTLS(err):
		return &ship.PermanentError{What: what, Err: fmt.Errorf("TLS: %w", err)}
	}
	return fmt.Errorf("%s: %w", what, err)
}
