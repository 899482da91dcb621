// Package ship takes a trail to where it is out of reach of its server's administrators: to object stores, Kafka, and
// the log tools that people have. Each sink has a reader slot of its own, so the server deletes nothing that has not
// arrived, and a sink that is slow or down holds up no other.
//
//	config.go    the configuration file, checked strictly: strict.go; secrets and TLS: secret.go, tls.go
//	target.go    a sink as one URL
//	source.go    from a slot to batches: of blocks as they are stored, or of records as lines
//	position.go  what was shipped, so that a stream that goes back, or another server's, is noticed
//	run.go       one sink: batches, retries, the slot; retry.go: how long to wait
//	agent.go     all sinks, and what changes when the configuration is read again
//	check.go     trying a sink; metrics.go: how far the sinks are, for Prometheus
//	refused.go   the file of records that a sink has refused for good
//
// The sinks are packages of their own below this one, and know nothing of trails, slots and files. What must stay
// true: a slot moves only past what a sink has acknowledged, or what is in the file of refused records; nothing is
// dropped otherwise; memory does not depend on how much waits; no secret is part of an error or a log line.
package ship

import (
	"context"
	"fmt"

	"github.com/pg-steno/pg_steno/internal/trail"
)

// Block is a block as it is stored: compressed, and encrypted if the segment is.
type Block struct {
	Place   trail.Place // of the block itself
	System  uint64      // system identifier of the server
	Records uint32
	// FirstTime and LastEnd are when its records began and ended, in microseconds since 2000-01-01 UTC.
	FirstTime, LastEnd int64
	Chain              [32]byte
	Offset             int64  // in its segment
	Image              []byte // header and stored payload
	Segment            *Segment
}

// Segment is the segment of a block.
type Segment struct {
	Path       string
	Number     uint64
	Stream     uint32
	FirstBlock uint64
	Header     []byte // the stored header; empty if it is damaged
}

// Event is a record as a line of a format, or several lines, without the last line break.
type Event struct {
	Place   trail.Place // of its block
	System  uint64
	Time    int64 // microseconds since 2000-01-01 UTC
	Session string
	Seq     uint64
	Kind    string // statement, connect, ...
	Failed  bool
	Line    []byte
}

// Sink is a destination. One goroutine uses it.
type Sink interface {
	// Check tries what sending needs, without leaving anything at the destination that a reader would take for data.
	Check(ctx context.Context) []Finding
	Close() error
}

// BlockSink takes blocks. Those of a stream come in order, some more than once.
type BlockSink interface {
	Sink
	// SendBlocks returns when all blocks are stored durably.
	SendBlocks(ctx context.Context, blocks []Block) error
}

// SegmentSink is a BlockSink that also takes whole segments.
type SegmentSink interface {
	BlockSink
	// FinishSegment is called when all blocks of a segment were sent, and a later segment has a block. The number of
	// the last block is 0 if the segment has none, or none that can be read.
	FinishSegment(ctx context.Context, segment *Segment, last *Block) error
}

// EventSink takes events. Those of a stream come in order, some more than once.
type EventSink interface {
	Sink
	// SendEvents returns when the destination has acknowledged all events but those that it has refused for good.
	SendEvents(ctx context.Context, events []Event) (refused []Refused, err error)
}

// Refused is an event that a destination will not take, however often it is sent.
type Refused struct {
	Event  *Event
	Reason string
}

// Finding is one line of a check: what was tried, and how it went.
type Finding struct {
	What string `json:"what"`
	Err  error  `json:"-"`
	// Note says more about something that works, or about why it does not matter that it does not.
	Note string `json:"note,omitempty"`
	// Warning says that shipping works, but not as it should be set up.
	Warning bool `json:"warning,omitempty"`
}

// PermanentError is why a destination refuses everything until somebody changes something: a login, a right, a topic
// or bucket that does not exist. Sending is tried again nevertheless, because that change may be made there.
type PermanentError struct {
	// What names the thing that is wrong: topic "audit", bucket "trail".
	What string
	Err  error
}

func (e *PermanentError) Error() string { return fmt.Sprintf("%s: %v", e.What, e.Err) }

// Unwrap returns the error inside.
func (e *PermanentError) Unwrap() error { return e.Err }
