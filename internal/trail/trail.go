// Package trail reads the trail of a pg_steno server. It knows the format
// from format/FORMAT.md and format/records.def alone and shares no code with
// the writer, so that each checks the other.
//
// From the disk to a record:
//
//	reader.go   a trail's streams and segments, and the blocks of a segment; holes_*.go: in sparse files
//	index.go    where the blocks are, and which times they cover; copied.go: those of a proof
//	contents.go the indexes of the server, which say what blocks contain
//	segment.go  the segment header; whether copied bytes are as they were written
//	resync.go   the next block behind damage
//	block.go    the block header, checksums, chain, decompression
//	crypt.go    keys, and the payloads of encrypted segments
//	decode.go   the items of a block, of which only what is wanted is handed out
//	tally.go    plain records, which verify only counts
//	record.go   what they become: definitions, records, data parts; names.go: names of numbers
//	parts.go    big records put together from their data parts; further.go: relations and objects there
//	encoding.go texts of other encodings as UTF-8
//	param.go    parameter values as PostgreSQL prints them
//
// From records to what a reader asks for:
//
//	merge.go    all streams in one order; scan.go: in no order, by many goroutines
//	live.go     a trail that is being written; feed.go: how far a reader has got; last.go: the last records
//	rollback.go which statements were rolled back
//	prepared.go of those that were prepared
//	setting.go  values of settings
//	servers.go  which server wrote a trail; branch.go: streams that begin beside others
//	other_trail.go runs that had recorded in another trail
//	twice.go    blocks of trails that are read together with their copies
//	deleted.go  what the server deleted by policy
//
// Nothing here trusts its input: a length is checked against the file or the
// block before anything is allocated, and what is wrong is a *CorruptionError
// with file and offset, after which reading goes on where it can. A file that
// ends inside a block is a *TornError: an unfinished write, or one in progress.
package trail

import (
	"errors"
	"fmt"
)

//go:generate go run ./gen

// CorruptionError is a place in a file that is not what the format says.
type CorruptionError struct {
	File   string
	Offset int64
	Reason string
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s: offset %d: %s", e.File, e.Offset, e.Reason)
}

// LaterError is a segment or block that is whole, and that this program cannot read, because a later version has written
// it. It is no damage.
type LaterError struct{ CorruptionError }

// Unwrap is the place, and what this program does not know.
func (e *LaterError) Unwrap() error { return &e.CorruptionError }

// TornError is a file that ends inside a block: Bytes after Offset belong to
// an unfinished write. Last says that nothing follows it in its stream; anywhere
// else the writer has gone on without cutting it off, which is damage.
type TornError struct {
	File   string
	Offset int64
	Bytes  int64
	Reason string
	Last   bool
}

func (e *TornError) Error() string {
	return fmt.Sprintf("%s: offset %d: %s", e.File, e.Offset, e.Reason)
}

func laterf(offset int64, format string, args ...any) error {
	return &LaterError{CorruptionError{Offset: offset, Reason: fmt.Sprintf(format, args...)}}
}

func corruptf(offset int64, format string, args ...any) error {
	return &CorruptionError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// inFile says in which file, and where in it the offsets of err are counted
// from.
func inFile(err error, file string, base int64) error {
	var c *CorruptionError
	if !errors.As(err, &c) || c.File != "" {
		return err
	}
	there := CorruptionError{file, base + c.Offset, c.Reason}
	if later := (*LaterError)(nil); errors.As(err, &later) {
		return &LaterError{there}
	}
	return &there
}
