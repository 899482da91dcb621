// How far the sinks are, for Prometheus.

package ship

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// metric is one metric of all sinks.
type metric struct {
	name, kind, help string
	value            func(s *Status, now time.Time) float64
}

// metrics are all metrics. Their names follow Prometheus: base units, and _total for counters.
var metrics = []metric{
	{"steno_ship_blocks_total", "counter", "Blocks that the sink has acknowledged.",
		func(s *Status, _ time.Time) float64 { return float64(s.Blocks) }},
	{"steno_ship_records_total", "counter", "Records that the sink has acknowledged or refused.",
		func(s *Status, _ time.Time) float64 { return float64(s.Records) }},
	{"steno_ship_bytes_total", "counter", "Bytes that the sink has acknowledged, as they were handed to it.",
		func(s *Status, _ time.Time) float64 { return float64(s.Bytes) }},
	{"steno_ship_retries_total", "counter", "Attempts to send that have failed.",
		func(s *Status, _ time.Time) float64 { return float64(s.Retried) }},
	{"steno_ship_refused_records_total", "counter", "Records that the sink has refused for good; they are in a file.",
		func(s *Status, _ time.Time) float64 { return float64(s.Refused) }},
	{"steno_ship_branches_total", "counter", "How often a stream did not go on as it was shipped.",
		func(s *Status, _ time.Time) float64 { return float64(s.Branched) }},
	{"steno_ship_failing", "gauge", "Whether the last attempt to send has failed: 1 or 0.",
		func(s *Status, _ time.Time) float64 {
			if s.Failing != "" {
				return 1
			}
			return 0
		}},
	{"steno_ship_lag_seconds", "gauge", "Age of the oldest block that waits for the sink; 0: none waits.",
		func(s *Status, now time.Time) float64 {
			if s.Oldest.IsZero() {
				return 0
			}
			return max(0, now.Sub(s.Oldest).Seconds())
		}},
	{"steno_ship_last_acknowledged_timestamp_seconds", "gauge",
		"When the sink has acknowledged something last, since this process began; 0: never.",
		func(s *Status, _ time.Time) float64 {
			if s.Last.IsZero() {
				return 0
			}
			return float64(s.Last.UnixMilli()) / 1000
		}},
}

// WriteMetrics writes the metrics of sinks in the text format of Prometheus.
func WriteMetrics(out io.Writer, all []Status, now time.Time) error {
	var b strings.Builder
	for _, m := range metrics {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		for i := range all {
			fmt.Fprintf(&b, "%s{sink=%q,format=%q} %s\n", m.name, all[i].Sink, all[i].Format,
				strconv.FormatFloat(m.value(&all[i], now), 'f', -1, 64))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// ServeMetrics answers at a loopback address until the context ends: /metrics for Prometheus.
func (a *Agent) ServeMetrics(ctx context.Context, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = WriteMetrics(w, a.Statuses(), time.Now())
	})
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
