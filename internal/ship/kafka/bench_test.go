package kafka_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// BenchmarkLatency is how long a block takes from the trail to a consumer. A block is written every 10 ms.
func BenchmarkLatency(b *testing.B) {
	s := kafkaServer(b)
	topic := s.topic(b, 1)
	dir := filepath.Join(b.TempDir(), "trail")
	stream := trailtest.NewStream(b, dir, 0)
	session := trailtest.NewSession(trailtest.Epoch, 1)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan error, 1)
	run := newShipper(b, configuration(dir, b.TempDir(), "kafka://"+s.open+"/"+topic))
	go func() { done <- run.runner.Run(ctx) }()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(s.open), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		b.Fatal(err)
	}
	defer consumer.Close()
	arrivals := make(chan time.Time, 1<<20)
	go func() {
		for ctx.Err() == nil {
			consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				if headersOf(r)["steno-kind"] == "block" {
					arrivals <- time.Now()
				}
			})
		}
	}()
	var written []time.Time
	for b.Loop() {
		block := trailtest.NewBuilder(trailtest.Epoch)
		block.Add(trailtest.Note(session, trailtest.Epoch, "now"))
		stream.Write(b, block)
		written = append(written, time.Now())
		time.Sleep(10 * time.Millisecond)
	}
	var took []time.Duration
	for _, at := range written {
		took = append(took, (<-arrivals).Sub(at))
	}
	cancel()
	<-done
	took = slices.Sorted(slices.Values(took[min(100, len(took)-1):])) // without the start
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-p50")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms-p99")
	b.ReportMetric(took[len(took)-1].Seconds()*1000, "ms-max")
}
