// Messages of blocks. format/KAFKA.md describes them.

package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/ship"
)

// streamKey is a stream of a server. Its messages have one key, so that they are in one partition.
type streamKey struct {
	system uint64
	stream uint32
}

func (k streamKey) String() string {
	return strconv.FormatUint(k.system, 10) + "/" + strconv.FormatUint(uint64(k.stream), 10)
}

func keyOf(b *ship.Block) streamKey { return streamKey{b.System, b.Place.Stream} }

// blockProgress is what the topic has of the blocks.
type blockProgress struct {
	// announced are the headers of the segments of which this process has sent a message, by stream, with their
	// numbers.
	announced map[streamKey]string
	// stored are the last blocks that were stored of a batch that is not stored as a whole; nil: the last one was.
	stored map[streamKey]blockID
}

type blockID struct {
	number uint64
	chain  [32]byte
}

func idOf(b *ship.Block) blockID { return blockID{b.Place.Block, b.Chain} }

// The headers of messages. All values are text.
const (
	headerKind      = "steno-kind"
	headerFormat    = "steno-format"
	headerSystem    = "steno-system-id"
	headerStream    = "steno-stream"
	headerSegment   = "steno-segment"
	headerBlock     = "steno-block"
	headerOffset    = "steno-offset"
	headerRecords   = "steno-records"
	headerFirstTime = "steno-first-time"
	headerLastTime  = "steno-last-time"
	headerChain     = "steno-chain"
	headerPart      = "steno-part"
	headerParts     = "steno-parts"
	headerHash      = "steno-sha256"

	kindSegment = "segment"
	kindBlock   = "block"

	// layout is the version of the layout of messages.
	layout = "1"
)

// SendBlocks sends blocks, each as a message, or as several parts. Before the first one of a segment comes the
// segment's header.
func (s *sink) SendBlocks(ctx context.Context, blocks []ship.Block) error {
	for {
		if err := s.connect(ctx); err != nil {
			return err
		}
		m := s.blockMessages(blocks)
		errs, err := s.deliver(ctx, m.messages)
		s.noteBlocks(blocks, m, errs, err)
		if err == nil {
			return nil
		}
		if !s.adapt(ctx, err) {
			return s.explain(err)
		}
	}
}

// blockMessages are messages of blocks.
type blockMessages struct {
	messages  []*kgo.Record
	of        []int // the block of each
	announced map[streamKey]string
}

func (s *sink) blockMessages(blocks []ship.Block) *blockMessages {
	m := &blockMessages{announced: map[streamKey]string{}}
	skip := s.storedUpTo(blocks)
	for i := range blocks {
		b := &blocks[i]
		key := keyOf(b)
		if n, has := skip[key]; has && i <= n {
			continue
		}
		segment := strconv.FormatUint(b.Place.Segment, 10) + " " + string(b.Segment.Header)
		known, has := m.announced[key]
		if !has {
			known = s.blocks.announced[key]
		}
		if known != segment {
			m.add(i, s.message(b, b.Segment.Header, s.segmentHeaders(b)))
			m.announced[key] = segment
		}
		s.addBlock(m, i, b)
	}
	return m
}

func (m *blockMessages) add(block int, message *kgo.Record) {
	m.messages, m.of = append(m.messages, message), append(m.of, block)
}

// storedUpTo returns the last blocks of these that are stored already, if an earlier attempt has stored some.
func (s *sink) storedUpTo(blocks []ship.Block) map[streamKey]int {
	last := map[streamKey]int{}
	for i := range blocks {
		if key := keyOf(&blocks[i]); s.blocks.stored != nil && s.blocks.stored[key] == idOf(&blocks[i]) {
			last[key] = i
		}
	}
	return last
}

// noteBlocks remembers what is stored. A stream's messages are stored in order, up to the first that failed.
func (s *sink) noteBlocks(blocks []ship.Block, m *blockMessages, errs []error, err error) {
	if err == nil {
		s.blocks.stored = nil
		for key, segment := range m.announced {
			s.blocks.announced[key] = segment
		}
		return
	}
	if s.blocks.stored == nil {
		s.blocks.stored = map[streamKey]blockID{}
	}
	clear(s.blocks.announced) // they are repeated, so that a consumer that comes in the middle has them
	failed := map[streamKey]bool{}
	for k, i := range m.of {
		b := &blocks[i]
		key := keyOf(b)
		failed[key] = failed[key] || errs[k] != nil
		if lastPart := k+1 == len(m.of) || m.of[k+1] != i; lastPart && !failed[key] {
			s.blocks.stored[key] = idOf(b)
		}
	}
}

// message makes a message of a block's stream.
func (s *sink) message(b *ship.Block, value []byte, headers []kgo.RecordHeader) *kgo.Record {
	if value == nil {
		value = []byte{} // none would delete, in a topic that is compacted
	}
	return &kgo.Record{Key: []byte(keyOf(b).String()), Value: value, Headers: headers,
		Timestamp: s.time(query.Moment(b.FirstTime))}
}

func decimal(key string, n uint64) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: strconv.AppendUint(nil, n, 10)}
}

func moment(key string, micros int64) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: query.Moment(micros).UTC().AppendFormat(nil, timeFormat)}
}

// timeFormat is RFC 3339 with microseconds.
const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

func placeHeaders(kind string, b *ship.Block, room int) []kgo.RecordHeader {
	return append(make([]kgo.RecordHeader, 0, 5+room),
		kgo.RecordHeader{Key: headerKind, Value: []byte(kind)},
		kgo.RecordHeader{Key: headerFormat, Value: []byte(layout)},
		decimal(headerSystem, b.System), decimal(headerStream, uint64(b.Place.Stream)),
		decimal(headerSegment, b.Place.Segment))
}

func (s *sink) segmentHeaders(b *ship.Block) []kgo.RecordHeader {
	return append(placeHeaders(kindSegment, b, 1), decimal(headerBlock, b.Segment.FirstBlock))
}

func (s *sink) blockHeaders(b *ship.Block) []kgo.RecordHeader {
	return append(placeHeaders(kindBlock, b, 9), decimal(headerBlock, b.Place.Block),
		decimal(headerOffset, uint64(b.Offset)), decimal(headerRecords, uint64(b.Records)),
		moment(headerFirstTime, b.FirstTime), moment(headerLastTime, b.LastEnd),
		kgo.RecordHeader{Key: headerChain, Value: hex.AppendEncode(nil, b.Chain[:])})
}

// addBlock adds the messages of a block: one, or parts if it is too large.
func (s *sink) addBlock(m *blockMessages, i int, b *ship.Block) {
	headers := s.blockHeaders(b)
	whole := s.message(b, b.Image, headers)
	if sizeOf(whole) <= int(s.limit.Load()) {
		m.add(i, whole)
		return
	}
	hash := sha256.Sum256(b.Image)
	room := max(int(s.limit.Load())-overhead(whole)-partHeaders, leastMessage/4)
	parts := (len(b.Image) + room - 1) / room
	for part := range parts {
		piece := b.Image[part*room : min((part+1)*room, len(b.Image))]
		m.add(i, s.message(b, piece, append(headers[:len(headers):len(headers)],
			decimal(headerPart, uint64(part+1)), decimal(headerParts, uint64(parts)),
			kgo.RecordHeader{Key: headerHash, Value: hex.AppendEncode(nil, hash[:])})))
	}
}

const (
	// batchOverhead is what a batch of one message has beside the message, and batchNumber a number in one at most.
	batchOverhead, batchNumber = 61 + 20, 5
	// partHeaders is what the headers of parts take.
	partHeaders = 3*2*batchNumber + len(headerPart+headerParts+headerHash) + 2*10 + 2*sha256.Size
)

// overhead is what Kafka stores of a message beside its value, at most.
func overhead(m *kgo.Record) int {
	n := batchOverhead + 4*batchNumber + len(m.Key)
	for _, h := range m.Headers {
		n += 2*batchNumber + len(h.Key) + len(h.Value)
	}
	return n
}

func sizeOf(m *kgo.Record) int { return overhead(m) + len(m.Value) }

var _ ship.BlockSink = (*sink)(nil)
