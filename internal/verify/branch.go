// Checks that streams that were replaced by others end where the branch records state.

package verify

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Branch is a stream that was begun because another one differed from what the server had written. If Unused is
// set, it only contains the record about another stream, which was no longer used by a writer.
type Branch struct {
	Stream uint32 `json:"stream"`
	From   uint32 `json:"from_stream"`
	Block  uint64 `json:"from_block"` // the last block of the other stream that is the server's
	Reason string `json:"reason"`
	Time   string `json:"time"`
	Run    string `json:"run,omitempty"`
	Host   string `json:"host,omitempty"`
	Unused bool   `json:"unused,omitempty"`
	// The server that wrote the other stream.
	FromRun  string `json:"from_run,omitempty"`
	FromHost string `json:"from_host,omitempty"`
}

// line is a branch's row of the report for people.
func (b *Branch) line() string {
	line := fmt.Sprintf("stream %d continues beside stream %d from its block %s, since %s", b.Stream, b.From,
		humanize.Comma(int64(b.Block)), b.Time)
	if b.Stream == b.From && !b.Unused {
		line = fmt.Sprintf("stream %d was begun anew at %s, without what the server had written before, up to "+
			"block %s", b.Stream, b.Time, humanize.Comma(int64(b.Block)))
	}
	if b.Unused {
		line = fmt.Sprintf("stream %d, which is no longer used by any writer, counts up to block %s, as stream %d "+
			"says since %s", b.From, humanize.Comma(int64(b.Block)), b.Stream, b.Time)
	}
	if b.Host != "" {
		line += ", on host " + b.Host
	}
	if b.FromHost != "" {
		line += ", after host " + b.FromHost
	}
	return render.Safe(line + " (" + b.Reason + ")")
}

// branched is the record of a branch and its position.
type branched struct {
	trail.Branch
	in streamID
}

// settleBranches compares each replaced stream with the branch record: it must have all blocks up to the
// recorded one, and none after it.
func (v *verifier) settleBranches() {
	for _, b := range v.branches {
		from := streamID{b.in.trail, b.Stream}
		branch := Branch{
			Stream: b.in.stream, From: b.Stream, Block: b.Block, Reason: b.Reason, Time: render.Time(b.Time),
			Run: b.Run, Host: b.Host, Unused: b.Unused,
			FromRun: b.FromRun, FromHost: b.FromHost,
		}
		if !slices.Contains(v.report.Branches, branch) { // a copy of the trail has it, too
			v.report.Branches = append(v.report.Branches, branch)
		}
		i := slices.IndexFunc(v.trail.Streams, func(s *trail.Stream) bool { return streamIDOf(s) == from })
		switch {
		case i < 0 && !v.trail.Whole:
		case i < 0 && b.Unused && !v.beganAnew(&b):
			v.reportMissingStream(b.in.trail, b.Stream,
				"stream %d is missing: the server had written it up to block %d, and at its start at %s found it "+
					"changed or missing (%s)", b.Stream, b.Block, render.Time(b.Time), b.Reason)
		case i < 0 || from == b.in:
			v.warn(b.in.trail, nil,
				"stream %d began at %s without what the server had written before: stream %d up to block %d",
				b.in.stream, render.Time(b.Time), b.Stream, b.Block)
		default:
			v.settleBranch(&b, v.trail.Streams[i])
		}
	}
}

// beganAnew reports whether the start that wrote a record did not find its own stream either: it began a new
// trail, for example because steno.directory was changed.
func (v *verifier) beganAnew(b *branched) bool {
	return slices.ContainsFunc(v.branches, func(own branched) bool {
		return own.in == b.in && own.Run == b.Run && own.Reason == trail.ReasonGone && !own.Unused
	})
}

func (v *verifier) settleBranch(b *branched, s *trail.Stream) {
	last := v.lastBlock[streamIDOf(s)]
	at := render.Time(b.Time)
	when, after := fmt.Sprintf("when it began stream %d", b.in.stream),
		fmt.Sprintf(", did not seal them, and continued in stream %d", b.in.stream)
	begun := fmt.Sprintf("when stream %d was begun beside it at %s", b.in.stream, at)
	if b.Unused {
		when, after, begun = "when the stream was no longer used by any writer", ", and did not seal them",
			"when it was no longer used by any writer, at "+at
	}
	switch there, right := v.hasBlock(s, b.Block, b.Hash); {
	case there && !right:
		v.reportDamage(format.ProblemBranch, s.Path, nil,
			"block %d of stream %d is not the one that the server had written, or found at %s, %s", b.Block,
			b.Stream, at, when)
	case !there && b.Block > last:
		v.reportDamage(format.ProblemBranch, s.Path, nil,
			"stream %d ends with block %d, but had %d blocks %s: its end was cut off", b.Stream, last, b.Block, begun)
	}
	if last <= b.Block {
		return
	}
	which := fmt.Sprintf("blocks %d to %d of stream %d were", b.Block+1, last, b.Stream)
	if last == b.Block+1 {
		which = fmt.Sprintf("block %d of stream %d was", last, b.Stream)
	}
	if b.Reason == trail.ReasonCopy || b.Reason == trail.ReasonUnknown {
		v.reportDamage(format.ProblemBranch, s.Path, nil,
			"%s not written by the server: it found the stream without them at %s, and has been writing stream %d "+
				"since", which, at, b.in.stream)
		return
	}
	v.reportDamage(format.ProblemBranch, s.Path, nil,
		"%s not written by the server: its start at %s found them after its last one%s", which, at, after)
}

// hasBlock reports whether a stream has a block, and whether that has the hash. Blocks that were deleted by
// policy are not there.
func (v *verifier) hasBlock(s *trail.Stream, block uint64, hash [32]byte) (there, right bool) {
	if block == 0 {
		return true, true
	}
	for _, seg := range slices.Backward(s.Segments) {
		if seg.Err != nil || seg.Header.FirstBlock > block+1 {
			continue
		}
		refs, _ := seg.Index()
		for i := range refs {
			if refs[i].Number == block {
				return true, refs[i].Chain == hash
			}
		}
		if seg.Header.FirstBlock == block+1 {
			return true, seg.Header.PreviousHash == hash
		}
		if seg.Header.FirstBlock <= block {
			return false, false
		}
	}
	return false, false
}

// branchOf returns the branch that a stream ends at, or nil.
func (v *verifier) branchOf(stream uint32) *branched {
	for i := range v.branches {
		if b := &v.branches[i]; b.Stream == stream && b.in.stream != stream && !b.Unused {
			return b
		}
	}
	return nil
}
