// What can be wrong with a trail: the closed set of it.

package format

import (
	"errors"
	"fmt"
	"io/fs"
)

// ProblemClass is what kind of thing is wrong. FORMAT.md, "What a reader reports", says exactly what belongs to which.
type ProblemClass uint8

// The classes of FORMAT.md.
const (
	// ProblemTorn is an unfinished write at the end of a stream; no damage.
	ProblemTorn ProblemClass = iota + 1
	// ProblemDamaged are bytes that are no intact block or segment header.
	ProblemDamaged
	// ProblemMissing is a segment or a stream that is not there, and that the server did not delete by policy.
	ProblemMissing
	// ProblemNumber is a block, record or segment with another number than must follow.
	ProblemNumber
	// ProblemChain is a chain hash that is not that of what precedes.
	ProblemChain
	// ProblemForeign is a segment of another server.
	ProblemForeign
	// ProblemContent is a block with the right checksums whose contents are not as the format, or its header, says.
	ProblemContent
	// ProblemSession are numbers of a session's records that are missing, there twice, or contradict other records.
	ProblemSession
	// ProblemParts are data parts of a record that are missing, or too many.
	ProblemParts
	// ProblemIndex is an index that cannot be read, or that hides something of a block.
	ProblemIndex
	// ProblemBranch is a stream that does not end as the record of its branch says.
	ProblemBranch
	// ProblemSeal is a seal that is missing or wrong.
	ProblemSeal
	// ProblemUnreadable is what could not be read or checked: without a key, by this version, or for lack of a permission.
	// It says nothing against the trail.
	ProblemUnreadable

	// Of a reader alone, and not in FORMAT.md:

	// ProblemDeleted is what the server deleted by policy before it was read.
	ProblemDeleted
	// ProblemIncomplete is a record the first parts of which were in a segment that was deleted by policy.
	ProblemIncomplete
	// ProblemAnchor is a trail that is not the one of an anchor.
	ProblemAnchor
	// ProblemAcknowledgment is a file of acknowledgments that is not as it was written.
	ProblemAcknowledgment
)

var problemClasses = [...]string{
	ProblemTorn: "torn", ProblemDamaged: "damaged", ProblemMissing: "missing", ProblemNumber: "number", ProblemChain: "chain",
	ProblemForeign: "foreign", ProblemContent: "content", ProblemSession: "session", ProblemParts: "parts",
	ProblemIndex: "index", ProblemBranch: "branch", ProblemSeal: "seal", ProblemUnreadable: "unreadable",
	ProblemDeleted: "deleted", ProblemIncomplete: "incomplete", ProblemAnchor: "anchor",
	ProblemAcknowledgment: "acknowledgment",
}

func (c ProblemClass) String() string { return problemClasses[c] }

// ProblemClasses are the names of all classes that a file can have, in their order.
func ProblemClasses() []string { return problemClasses[1:] }

// IsDamage says whether a problem of the class speaks against the trail.
func (c ProblemClass) IsDamage() bool {
	switch c {
	case ProblemTorn, ProblemUnreadable, ProblemDeleted, ProblemIncomplete:
		return false
	}
	return true
}

// Behind says what a problem means for what stands behind it in its file.
type Behind uint8

const (
	// BehindRead: it is read as if nothing were wrong, and its numbers and chain tell whether something is.
	BehindRead Behind = iota
	// BehindFound: the next block was found by a search, so that nothing tells what must precede it.
	BehindFound
	// BehindUnread: nothing of it is read.
	BehindUnread
)

// NoOffset is the offset of a problem that a file has as a whole.
const NoOffset = -1

// A Problem is something that is wrong with a trail, or that keeps a reader from reading it.
type Problem struct {
	Class ProblemClass
	// File is a segment, the folder of a stream, or a trail's directory; empty: the trail, or a session of it.
	File string
	// Offset is that of the bytes that are wrong; NoOffset: the file as a whole. Start is where the block or segment header
	// begins that they are of.
	Offset, Start int64
	Reason        string

	// Stream and Segment are those of File; Segment is 0 if it is no segment.
	Stream  uint32
	Segment uint64
	// Session is the one that a problem of its records is about, and Numbers are those of the records; of missing segments,
	// of these.
	Session SessionID
	Numbers Span

	// Unfinished says that the bytes look like a write that was not finished. At the end of a stream, this is ProblemTorn,
	// and a server that runs may be writing there. Anywhere else, it is damage.
	Unfinished bool
	// Skipped is how many bytes from Offset on are not read because of it, as far as that is known.
	Skipped int64
	Behind  Behind

	// Key is the one that was not given, if that is why, and More is for how many other segments.
	Key  *KeyID
	More int
	// Err is what the operating system said, if that is why.
	Err error
}

func (p *Problem) Error() string {
	switch {
	case p.File == "":
		return p.Reason
	case p.Offset == NoOffset:
		return fmt.Sprintf("%s: %s", p.File, p.Reason)
	}
	return fmt.Sprintf("%s: offset %d: %s", p.File, p.Offset, p.Reason)
}

// Unwrap is what the operating system said.
func (p *Problem) Unwrap() error { return p.Err }

// AsProblem is the problem that an error is; nil if it is none.
func AsProblem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return nil
}

// Unreadable is the problem that a file cannot be read; err is what the operating system said.
func Unreadable(path string, err error) *Problem {
	reason := err
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		reason = of.Err
	}
	return &Problem{Class: ProblemUnreadable, File: path, Offset: NoOffset, Reason: reason.Error(), Behind: BehindUnread, Err: err}
}

// problemf makes a problem of bytes at an offset, in a block or segment header at hand.
func problemf(class ProblemClass, offset int64, format string, args ...any) *Problem {
	return &Problem{Class: class, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// At says of a problem of bytes at hand where they are: where they begin in which segment.
func (p *Problem) At(file string, stream uint32, segment uint64, start int64) *Problem {
	p.File, p.Stream, p.Segment, p.Start, p.Offset = file, stream, segment, start, start+p.Offset
	return p
}

// Problem makes a problem of the block, at an offset in it.
func (s *Source) Problem(class ProblemClass, offset int64, format string, args ...any) *Problem {
	return s.in(problemf(class, offset, format, args...))
}
