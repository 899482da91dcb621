// Package http is the sink that sends records as lines in HTTP requests, for log tools that take JSON lines. A server
// acknowledges a request with a status of 2xx. What it refuses as wrong (400, 422) or too large (413) is sent in
// smaller parts until the events that it will not take are known.
package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/ship"
	"github.com/pg-steno/pg_steno/internal/ship/parts"
	"github.com/pg-steno/pg_steno/internal/ship/web"
)

// Options are the options of this sink.
type Options struct {
	web.Options `yaml:",inline"`
	Method      string `yaml:"method"`       // POST or PUT
	ContentType string `yaml:"content_type"` // the default follows from the format
}

// Kind is this kind of sinks.
var Kind = &ship.Kind{
	Name:    "HTTP",
	Schemes: []string{"https", "http"},
	Formats: ship.RecordFormats,
	Batch:   ship.Batch{Records: 20_000, Bytes: 4 << 20, Wait: ship.Duration(500 * time.Millisecond)},
	Options: func() any { return &Options{Options: web.Defaults(), Method: http.MethodPost} },
	Open:    open,
}

type sink struct {
	client  *web.Client
	options *Options
	sender  parts.Sender
	lines   []byte
}

func open(c *ship.SinkConfig) (ship.Sink, error) {
	options := new(Options)
	*options = *c.Options.(*Options)
	u, err := options.Parse(c.To, func(scheme string) bool { return scheme == "https" })
	if err != nil {
		return nil, err
	}
	if options.Method != http.MethodPost && options.Method != http.MethodPut {
		return nil, fmt.Errorf("method: %q is neither POST nor PUT", options.Method)
	}
	if strings.ContainsAny(options.ContentType, "\r\n") {
		return nil, errors.New("content_type is one line")
	}
	client, err := web.New(u, web.Label(u), &options.Options, &c.TLS)
	if err != nil {
		return nil, err
	}
	s := &sink{client: client, options: options}
	if options.ContentType == "" {
		options.ContentType = contentType(c.Format)
	}
	s.sender = parts.Sender{Name: client.Label, Send: s.send}
	return s, nil
}

func contentType(format string) string {
	switch format {
	case string(render.CSVLog):
		return "text/csv; charset=utf-8"
	case string(render.Pgaudit):
		return "text/plain; charset=utf-8"
	}
	return "application/x-ndjson"
}

// SendEvents sends the events, each followed by a line break.
func (s *sink) SendEvents(ctx context.Context, events []ship.Event) ([]ship.Refused, error) {
	return s.sender.SendEvents(ctx, events)
}

func (s *sink) send(ctx context.Context, events []ship.Event) error {
	s.lines = s.lines[:0]
	for i := range events {
		s.lines = append(append(s.lines, events[i].Line...), '\n')
	}
	answer, err := s.client.Do(ctx, s.options.Method, s.options.ContentType, s.lines)
	if err != nil {
		return err
	}
	return answer.Err()
}

// Check sends a request without events. Some servers refuse that as wrong, others take it.
func (s *sink) Check(ctx context.Context) []ship.Finding {
	return s.client.Check(ctx, s.options.Method, s.options.ContentType, func(answer *web.Response) error {
		err := answer.Err()
		if refused := (*parts.RefusedError)(nil); errors.As(err, &refused) && !refused.Large {
			return nil
		}
		return err
	})
}

// Close ends the connections.
func (s *sink) Close() error {
	s.client.Close()
	return nil
}
