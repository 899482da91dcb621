// Package otlp is the sink that sends records as log records of OpenTelemetry's protocol, over gRPC, or as protobuf
// over HTTP.
//
// A receiver may take a request but for some of its log records, and says how many it has refused, but not which. Then
// halves are sent until it is known which; what it had taken is there twice. What must stay true: an answer that is not
// one of this protocol is not taken for an acknowledgement.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"

	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/parts"
	"github.com/pg-steno/pg_steno/internal/ship/web"
)

// Options are the options of this sink.
type Options struct {
	web.Options `yaml:",inline"`
}

// The schemes. otlp is gRPC with TLS, as otlp+grpcs.
const (
	schemeOTLP  = "otlp"
	schemeGRPCS = "otlp+grpcs"
	schemeGRPC  = "otlp+grpc"
	schemeHTTPS = "otlp+https"
	schemeHTTP  = "otlp+http"
)

// Kind is this kind of sinks. Batches are small enough for receivers that take 4 MiB at once, which is the default of
// gRPC: a request is smaller than its lines.
var Kind = &ship.Kind{
	Name:    "OTLP",
	Schemes: []string{schemeOTLP, schemeGRPCS, schemeGRPC, schemeHTTPS, schemeHTTP},
	Formats: []string{string(render.OTel)},
	Batch:   ship.Batch{Records: 4_000, Bytes: 4 << 20, Wait: ship.Duration(500 * time.Millisecond)},
	Options: func() any { return &Options{web.Defaults()} },
	Open:    open,
}

// exporter sends requests, which are encoded ExportLogsServiceRequests, by gRPC or HTTP. Its errors are those that
// parts knows, or of ship.
type exporter interface {
	export(ctx context.Context, request []byte) (*collector.ExportLogsServiceResponse, error)
	check(context.Context) []ship.Finding
	close()
}

type sink struct {
	exporter
	sender parts.Sender
}

func open(c *ship.SinkConfig) (ship.Sink, error) {
	options := new(Options)
	*options = *c.Options.(*Options)
	u, err := options.Parse(c.To, func(scheme string) bool { return scheme != schemeGRPC && scheme != schemeHTTP })
	if err != nil {
		return nil, err
	}
	s := &sink{}
	label := web.Label(u)
	switch u.Scheme {
	case schemeHTTPS, schemeHTTP:
		s.exporter, err = openHTTP(u, &options.Options, &c.TLS)
	default:
		if u.RawQuery != "" || u.Path != "" && u.Path != "/" {
			return nil, errors.New("to: gRPC has neither a path nor a query: name a host and a port, as in " +
				"otlp://host:4317")
		}
		s.exporter = openGRPC(setPort(u, "4317"), label, u.Scheme != schemeGRPC, &options.Options, &c.TLS)
	}
	s.sender = parts.Sender{Name: label, Send: s.send}
	return s, err
}

// setPort returns the host and the port of a URL.
func setPort(u *url.URL, port string) string {
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// SendEvents sends the events as log records, one for each.
func (s *sink) SendEvents(ctx context.Context, events []ship.Event) ([]ship.Refused, error) {
	return s.sender.SendEvents(ctx, events)
}

func (s *sink) send(ctx context.Context, events []ship.Event) error {
	b := newBuilder()
	for i := range events {
		if err := b.add(events[i].Line); err != nil {
			return &parts.RefusedError{Reason: err.Error()}
		}
	}
	answer, err := s.export(ctx, b.bytes())
	if err != nil {
		return err
	}
	if part := answer.GetPartialSuccess(); part.GetRejectedLogRecords() > 0 {
		reason := parts.Reason(part.ErrorMessage, nil)
		if reason == "" {
			reason = "the receiver gives no reason"
		}
		return &parts.PartialError{Refused: int(min(part.RejectedLogRecords, int64(len(events)))), Reason: reason}
	}
	return nil
}

// Check sends a request without log records.
func (s *sink) Check(ctx context.Context) []ship.Finding { return s.check(ctx) }

// Close ends the connections.
func (s *sink) Close() error {
	s.close()
	return nil
}

// notOTLP is the error for an answer of a type that this protocol does not have.
func notOTLP(label, what string) error {
	if what == "" {
		what = "without a type"
	}
	return &ship.PermanentError{What: label,
		Err: fmt.Errorf("what answers is not a receiver of OTLP: the answer is %s", strings.ToValidUTF8(what, "?"))}
}
