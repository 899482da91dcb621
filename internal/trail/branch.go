// Records of branches: streams that begin beside others.

package trail

import (
	"encoding/hex"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Branch is what a server record of the event "branch" says: another stream counts up
// to a block only. Its own stream was begun beside that one, unless Unused is set.
type Branch struct {
	Time   int64
	Reason string // see the Reasons
	Stream uint32 // the other one
	Block  uint64 // up to which it counts
	Hash   [32]byte
	Found  uint64 // the block that it ended with
	Unused bool   // no writer used the other one any more, and none has begun a stream for it
	// The run that began the stream.
	Run, System, Timeline, Host, Directory string
	// The one that wrote the other, as far as it is known: for ReasonCopy only.
	FromRun, FromHost, FromDirectory string
}

// Why a stream was begun beside another one.
const (
	ReasonUnknown = "unknown"        // nobody knew who wrote the other one
	ReasonCopy    = "copy"           // it came with a copy of the data directory
	ReasonForeign = "foreign blocks" // it has blocks that the server did not write
	ReasonCut     = "cut off"        // it lacks blocks that the server wrote
	ReasonAltered = "altered"        // it has others in their place
	ReasonGone    = "gone"           // it was not there
)

// ParseBranch reads the record of a branch; ok says whether it is a whole one.
func ParseBranch(r *format.Record) (b Branch, ok bool) {
	text, ok := eventText(r, "branch")
	if !ok {
		return b, false
	}
	number := func(name string, bits int) uint64 {
		n, err := strconv.ParseUint(text(name), 10, bits)
		ok = ok && err == nil
		return n
	}
	b = Branch{
		Time: r.Time, Reason: text("reason"), Run: text("run"), System: text("system_identifier"),
		Timeline: text("timeline"), Host: text("host"),
		Directory: text("data_directory"), FromRun: text("from_run"), FromHost: text("from_host"),
		FromDirectory: text("from_directory"),
	}
	b.Stream, b.Block, b.Found = uint32(number("stream", 32)), number("block", 63), number("found", 63)
	b.Unused = text("unused") == "true"
	hash, err := hex.DecodeString(text("hash"))
	ok = ok && err == nil && copy(b.Hash[:], hash) == len(b.Hash) && len(hash) == len(b.Hash)
	return b, ok
}

// eventText returns what a server record of an event has by a name; ok says whether it is one.
func eventText(r *format.Record, event string) (text func(name string) string, ok bool) {
	text = func(name string) string {
		value, _ := r.ExtraValue(name)
		return string(value)
	}
	return text, r.Kind == format.KindServer && text("event") == event
}
