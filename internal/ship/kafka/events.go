// Messages of records.

package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/ship"
)

// eventProgress is which events of the last batch are stored, if not all are: the hashes of those, by their index; 0:
// it is not stored. A session's events are in one partition, but those of a batch in several.
type eventProgress struct{ stored []uint64 }

// SendEvents sends events, each as a message.
func (s *sink) SendEvents(ctx context.Context, events []ship.Event) ([]ship.Refused, error) {
	for {
		if err := s.connect(ctx); err != nil {
			return nil, err
		}
		messages, of, refused := s.eventMessages(events)
		errs, err := s.deliver(ctx, messages)
		if err == nil {
			s.events.stored = nil
			return refused, nil
		}
		s.noteEvents(events, of, errs)
		if !s.adapt(ctx, err) {
			return nil, s.explain(err)
		}
	}
}

// eventMessages returns the messages of the events that are not stored yet, with their indexes, and the events that are
// too large.
func (s *sink) eventMessages(events []ship.Event) (messages []*kgo.Record, of []int, refused []ship.Refused) {
	if len(s.events.stored) != len(events) {
		s.events.stored = nil
	}
	records := make([]kgo.Record, len(events))
	messages, of = make([]*kgo.Record, 0, len(events)), make([]int, 0, len(events))
	var keys []byte
	limit := int(s.limit.Load())
	for i := range events {
		e := &events[i]
		if s.events.stored != nil && s.events.stored[i] != 0 && s.events.stored[i] == hashOf(e) {
			continue
		}
		begin := len(keys)
		if keys = append(keys, e.Session...); e.Session == "" {
			keys = strconv.AppendUint(keys, e.System, 10)
		}
		m := &records[i]
		*m = kgo.Record{Key: keys[begin:len(keys):len(keys)], Value: e.Line, Timestamp: s.time(query.Moment(e.Time))}
		if sizeOf(m) > limit {
			refused = append(refused, ship.Refused{Event: e, Reason: s.tooLarge(sizeOf(m), limit)})
			continue
		}
		messages, of = append(messages, m), append(of, i)
	}
	return messages, of, refused
}

func (s *sink) tooLarge(size, limit int) string {
	reason := fmt.Sprintf("a message of %d bytes is too large: %s takes %d", size, s.named(), limit)
	if !s.exact {
		reason += ", as far as is known without the right to see its settings (DescribeConfigs)"
	}
	return reason
}

// noteEvents remembers which events are stored.
func (s *sink) noteEvents(events []ship.Event, of []int, errs []error) {
	if s.events.stored == nil {
		s.events.stored = make([]uint64, len(events))
	}
	for k, i := range of {
		if errs[k] == nil {
			s.events.stored[i] = hashOf(&events[i])
		}
	}
}

// hashOf identifies an event; it is not 0.
func hashOf(e *ship.Event) uint64 {
	var place [28]byte
	binary.LittleEndian.PutUint32(place[:], e.Place.Stream)
	binary.LittleEndian.PutUint64(place[4:], e.Place.Segment)
	binary.LittleEndian.PutUint64(place[12:], e.Place.Block)
	binary.LittleEndian.PutUint64(place[20:], e.Seq)
	d := xxhash.New()
	_, _ = d.Write(place[:])
	_, _ = d.WriteString(e.Session)
	_, _ = d.Write(e.Line)
	return max(d.Sum64(), 1)
}

var _ ship.EventSink = (*sink)(nil)
