// Records of branches: streams that the server began because another stream was not as it had left it.

package trail

import (
	"encoding/hex"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Branch is the content of a server record with the event "branch": the other stream is the server's only up to
// a block. The record's own stream replaces it, unless Unused is set.
type Branch struct {
	Time   int64
	Reason string // one of the reasons below
	Stream uint32 // the other stream
	Block  uint64 // the last block that is the server's
	Hash   [32]byte
	Found  uint64 // the last block that the other stream had
	Unused bool   // no writer used the other stream any more, and none replaces it
	// The run that began the stream.
	Run, System, Timeline, Host, Directory string
	// The run that wrote the other stream, if known; with ReasonCopy only.
	FromRun, FromHost, FromDirectory string
}

// Reasons for a branch.
const (
	ReasonUnknown = "unknown"        // it is not known who wrote the other stream
	ReasonCopy    = "copy"           // the other stream came with a copy of the data directory
	ReasonForeign = "foreign blocks" // the other stream has blocks that the server did not write
	ReasonCut     = "cut off"        // the other stream lacks blocks that the server wrote
	ReasonAltered = "altered"        // the other stream has different blocks in their place
	ReasonGone    = "gone"           // the other stream did not exist
)

// ParseBranch reads the record of a branch; ok is false if it is none, or not complete.
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

// eventText returns a function for the values of a server record with an event; ok is false for other records.
func eventText(r *format.Record, event string) (text func(name string) string, ok bool) {
	text = func(name string) string {
		value, _ := r.ExtraValue(name)
		return string(value)
	}
	return text, r.Kind == format.KindServer && text("event") == event
}
