// Everything that can be wrong with a trail: a closed set of classes.

package format

import (
	"errors"
	"fmt"
	"io/fs"
)

// ProblemClass is a class of problems. FORMAT.md, "What a reader reports", defines each.
type ProblemClass uint8

// Classes that FORMAT.md defines.
const (
	// ProblemTorn is an unfinished write at the end of a stream. It is not damage.
	ProblemTorn ProblemClass = iota + 1
	// ProblemDamaged: the bytes are no intact block or segment header.
	ProblemDamaged
	// ProblemMissing: a segment or stream is missing, and the server did not delete it by policy.
	ProblemMissing
	// ProblemNumber: a block, record or segment does not have the number that must follow.
	ProblemNumber
	// ProblemChain: a chain hash does not match what precedes.
	ProblemChain
	// ProblemForeign: a segment belongs to another server.
	ProblemForeign
	// ProblemContent: the checksums of a block match, but its contents contradict the format or the header.
	ProblemContent
	// ProblemSession: numbers of a session's records are missing, duplicate, or contradict other records.
	ProblemSession
	// ProblemParts: data parts of a record are missing, or there are too many.
	ProblemParts
	// ProblemIndex: an index cannot be read, or hides something of a block.
	ProblemIndex
	// ProblemBranch: a stream does not end as the record of its branch says.
	ProblemBranch
	// ProblemSeal: a seal is missing or wrong.
	ProblemSeal
	// ProblemUnreadable: something could not be read or checked, because a key, a permission or a later version
	// of the program is needed. It is no evidence against the trail.
	ProblemUnreadable

	// Classes that only this reader has:

	// ProblemDeleted: the server deleted records by policy before they were read.
	ProblemDeleted
	// ProblemIncomplete: the first parts of a record were in a segment that was deleted by policy.
	ProblemIncomplete
	// ProblemAnchor: the trail does not match an anchor.
	ProblemAnchor
	// ProblemAcknowledgment: a file of acknowledgments was changed.
	ProblemAcknowledgment
)

var problemClasses = [...]string{
	ProblemTorn: "torn", ProblemDamaged: "damaged", ProblemMissing: "missing", ProblemNumber: "number",
	ProblemChain:   "chain",
	ProblemForeign: "foreign", ProblemContent: "content", ProblemSession: "session", ProblemParts: "parts",
	ProblemIndex: "index", ProblemBranch: "branch", ProblemSeal: "seal", ProblemUnreadable: "unreadable",
	ProblemDeleted: "deleted", ProblemIncomplete: "incomplete", ProblemAnchor: "anchor",
	ProblemAcknowledgment: "acknowledgment",
}

func (c ProblemClass) String() string { return problemClasses[c] }

// ProblemClasses returns the names of all classes, in order.
func ProblemClasses() []string { return problemClasses[1:] }

// IsDamage returns whether problems of the class are evidence against the trail.
func (c ProblemClass) IsDamage() bool {
	switch c {
	case ProblemTorn, ProblemUnreadable, ProblemDeleted, ProblemIncomplete:
		return false
	}
	return true
}

// Rest says how the rest of a file is read after a problem in it.
type Rest uint8

const (
	// RestRead: the rest is read as if nothing were wrong. Its numbers and hashes show whether something is.
	RestRead Rest = iota
	// RestSearched: a search has found the next block, so it is not known what must precede it.
	RestSearched
	// RestUnread: the rest is not read.
	RestUnread
)

// NoOffset is the offset of a problem that concerns the whole file.
const NoOffset = -1

// Problem is something wrong with a trail, or something that keeps a reader from reading it.
type Problem struct {
	Class ProblemClass
	// File is a segment, the folder of a stream, or the directory of a trail; empty: the problem concerns the
	// trail, or a session in it.
	File string
	// Offset is where the wrong bytes are; NoOffset: the whole file. Start is where the block or segment header
	// begins that contains them.
	Offset, Start int64
	Reason        string

	// Stream and Segment are the numbers for File; Segment is 0 if File is not a segment.
	Stream  uint32
	Segment uint64
	// Session and Numbers are, for a problem of a session's records, the session and the records' sequence
	// numbers. For missing segments, Numbers are those of the segments.
	Session SessionID
	Numbers Span

	// Unfinished says that the bytes look like an unfinished write. At the end of a stream, the problem is
	// ProblemTorn, and a running server may be writing there. Elsewhere, it is damage.
	Unfinished bool
	// Skipped is how many bytes after Offset are not read because of the problem, as far as known.
	Skipped int64
	Rest    Rest

	// Key is the key that was not given, if that is the problem, and More the number of further segments with
	// that key.
	Key  *KeyID
	More int
	// Err is the operating system's error, if there was one.
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

// Unwrap returns the operating system's error.
func (p *Problem) Unwrap() error { return p.Err }

// AsProblem returns the Problem that an error is or wraps; nil: it is none.
func AsProblem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return nil
}

// Unreadable returns the problem that a file cannot be read, because of the operating system's error err.
func Unreadable(path string, err error) *Problem {
	reason := err
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		reason = of.Err
	}
	return &Problem{
		Class:  ProblemUnreadable,
		File:   path,
		Offset: NoOffset,
		Reason: reason.Error(),
		Rest:   RestUnread,
		Err:    err,
	}
}

// problemf returns a problem at an offset in a block or segment header whose place in a file At adds.
func problemf(class ProblemClass, offset int64, format string, args ...any) *Problem {
	return &Problem{Class: class, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// At sets the file of a problem. The block or segment header begins there at start, to which the problem's
// offset is relative.
func (p *Problem) At(file string, stream uint32, segment uint64, start int64) *Problem {
	p.File, p.Stream, p.Segment, p.Start, p.Offset = file, stream, segment, start, start+p.Offset
	return p
}

// Problem returns a problem of the block, at an offset in it.
func (s *Source) Problem(class ProblemClass, offset int64, format string, args ...any) *Problem {
	return s.located(problemf(class, offset, format, args...))
}
