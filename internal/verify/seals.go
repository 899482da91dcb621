// What the seals of each stream prove.

package verify

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// slack is the tolerated delay of a seal, in microseconds: different processes take the times of records and of
// seals.
const slack = 10 * 1e6

// StreamSeals is what the seals of a stream prove.
type StreamSeals struct {
	System  string `json:"system_id,omitempty"` // if there are several servers
	Stream  uint32 `json:"stream"`
	Seals   int    `json:"seals"`
	Checked int    `json:"checked"` // those with a valid signature
	// The last valid seal; Block is the last block that it covers.
	Block    uint64 `json:"sealed_block"`
	Time     string `json:"sealed_time,omitempty"`
	Key      string `json:"key,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Last     uint64 `json:"last_block"`
	Unsealed uint64 `json:"unsealed_blocks"` // blocks after it, without those that contain only seals
	Seconds  int64  `json:"unsealed_seconds"`
	// Found counts blocks that are not covered by a seal of the run that wrote them: the ends of runs that were
	// killed.
	Found uint64 `json:"found_blocks"`
	// Unread counts encrypted blocks for which there was no key.
	Unread uint64 `json:"unread_blocks,omitempty"`
}

// blockPlace is the position of a block, for problems.
type blockPlace struct {
	Number uint64
	Time   int64
	File   string
	Offset int64
}

// sealState follows the seals of one stream.
type sealState struct {
	v       *verifier
	home    streamID
	follows bool // the stream is only read from somewhere on
	sealMemory
}

// sealMemory is what is known of the seals of a stream up to a place.
type sealMemory struct {
	Sum  StreamSeals
	Keys seal.Keys // trusted at this point
	Last *seal.Seal
	// BehindStop is the last stop seal that was followed by a block.
	BehindStop *seal.Seal

	Wrong     map[string]int // problems that are reported once, and how often they occurred
	End       int64          // latest end of records after the last seal
	Unsealed  uint64         // blocks after it that contain more than seals
	Since     int64          // end of the first of them
	Late      *blockPlace    // the first block after it that ended after the next seal was due
	OnlySeals bool           // the last block contains only seals
	Blocks    uint64
	Begin     uint64 // number of the block before the first existing one
	Segment   uint64 // the last one
	Filled    uint64 // the last segment with anything after its header, readable or not
	Ends      []segmentEnd
	Runs      map[uint64]bool // first blocks of runs, by their seals
	Unread    uint64          // encrypted blocks, whose seals cannot be read without the key
	Unknown   *unknownKey     // of the seals after the last valid one; nil: there are none
	Older     map[string]bool // keys of seals before valid ones that were not given
	Found     []unsealedRuns
	Recovered bool // steno recover wrote it
	// Keyless is the first seal that was read when no key was given at all.
	Keyless *unknownKey
}

// unknownKey is a key that was not given, and the first of the seals by it that no valid seal follows.
type unknownKey struct {
	ID    string
	Place blockPlace
	Seal  *seal.Seal
}

// unsealedRuns are blocks that no seal of the run that wrote them covers.
type unsealedRuns struct {
	Blocks uint64
	End    int64 // latest end of records in them
	Before bool  // no seal precedes them
	Ended  bool  // sealing was ended before, by the configuration
}

// segmentEnd is the end of a segment without a seal that another segment follows. That is valid if a run begins with
// the next block, because the writer was killed before, or its segment was removed or moved.
type segmentEnd struct {
	Place  blockPlace
	Number uint64
	Next   uint64 // block
}

func (v *verifier) newSealState(of streamID) *sealState {
	s := &sealState{v: v, home: of, sealMemory: sealMemory{
		Sum: StreamSeals{Stream: of.stream}, Keys: seal.Keys{}, Wrong: map[string]int{}, Runs: map[uint64]bool{},
	}}
	for id, key := range v.keys {
		s.Keys[id] = key
	}
	return s
}

// reportOnce reports the first problem of a kind, and counts the others.
func (s *sealState) reportOnce(kind string, p blockPlace, text string, args ...any) {
	s.Wrong[kind]++
	if s.Wrong[kind] == 1 {
		s.v.reportDamage(format.ProblemSeal, p.File, &p.Offset, text, args...)
	}
}

// block processes a block and its seals. before describes the chain before the block, if known.
func (s *sealState) block(f *finding, p blockPlace, before seal.Seal, known bool) {
	if s.Blocks == 0 {
		s.Begin = p.Number - 1
	}
	s.Blocks++
	s.Recovered = s.Recovered || f.recovered
	if f.sealed || f.later {
		// The contents of the block are not known, so nothing can be concluded from them.
		s.Unread++
		s.Sum.Last, s.OnlySeals, s.Late = p.Number, true, nil
		return
	}
	stop := s.Last
	if stop != nil && (stop.Reason != seal.ReasonStop || s.BehindStop == stop) {
		stop = nil
	}
	for _, one := range f.seals {
		s.Sum.Seals++
		if s.check(one, p, before, known) {
			s.accept(one)
		}
	}
	if stop != nil {
		s.checkAfterStop(f, p, stop)
	}
	s.OnlySeals = f.sealsOnly
	s.Sum.Last = p.Number
	if !f.sealsOnly {
		if s.Unsealed++; s.Unsealed == 1 {
			s.Since = f.header.LastEnd
		}
		s.End = max(s.End, f.header.LastEnd)
	}
	if s.Late == nil && s.Last != nil && s.Unknown == nil && s.Last.Interval > 0 &&
		f.header.LastEnd > s.Last.Time+int64(s.Last.Interval)*1e6+slack {
		p.Time = f.header.LastEnd
		s.Late = &p
	}
}

// checkAfterStop checks the first block after the stop seal of a run: it must contain the first seal of the next run,
// because no server was running that could have written anything else.
func (s *sealState) checkAfterStop(f *finding, p blockPlace, stop *seal.Seal) {
	s.BehindStop = stop
	if s.Unknown != nil && s.Unknown.Seal.Reason == seal.ReasonStart &&
		s.Unknown.Seal.First == p.Number && f.sealsOnly {
		return // finish reports that the key is not known
	}
	if s.Last != stop && s.Last.Reason == seal.ReasonStart && s.Last.First == p.Number &&
		s.Last.Block == p.Number-1 && f.sealsOnly {
		return
	}
	s.reportOnce("stop", p,
		"block %d follows the seal that ended a run of the server at %s, and no run with seals begins with it: "+
			"the server did not have the key, or somebody else wrote it",
		p.Number, render.Time(stop.Time))
}

// check reports whether a seal is valid.
func (s *sealState) check(parsed *seal.Seal, p blockPlace, before seal.Seal, known bool) bool {
	switch {
	case parsed.Block != p.Number-1:
		s.reportOnce("place", p, "seal of %s covers block %d, but follows block %d", render.Time(parsed.Time),
			parsed.Block, p.Number-1)
		return false
	case known && parsed.Hash != before.Hash:
		s.reportOnce("hash", p,
			"block %d is not the one that was sealed at %s: its chain hash was different, so blocks up to it were "+
				"changed", parsed.Block, render.Time(parsed.Time))
		return false
	case known && parsed.Record != before.Record:
		s.reportOnce("record", p, "seal of %s says that block %d ends with record %d, not %d",
			render.Time(parsed.Time),
			parsed.Block, parsed.Record, before.Record)
		return false
	case len(s.Keys) == 0:
		if s.Keyless == nil {
			s.Keyless = &unknownKey{parsed.Key, p, parsed}
		}
		return false
	}
	key, ok := s.Keys[parsed.Key]
	switch {
	case !ok:
		s.notGiven(parsed, p)
		return false
	case !parsed.Verify(key):
		s.reportOnce("signature", p, "signature of the seal of block %d at %s is not that of key %s", parsed.Block,
			render.Time(parsed.Time), parsed.Key)
		return false
	}
	return true
}

// notGiven processes a seal with a key that is not trusted. It proves nothing, but may be valid, so what it
// should prove is not checked unless a valid seal follows.
func (s *sealState) notGiven(parsed *seal.Seal, p blockPlace) {
	s.Runs[parsed.First] = true
	s.Late = nil
	if s.Unknown == nil {
		s.Unknown = &unknownKey{parsed.Key, p, parsed}
	}
}

// accept processes a seal with a valid signature.
func (s *sealState) accept(parsed *seal.Seal) {
	s.Sum.Checked++
	s.Runs[parsed.First] = true
	defer func() { s.Last, s.Late, s.Unsealed, s.End = parsed, nil, 0, parsed.Time }()
	if parsed.NextKey != nil {
		s.Keys[seal.KeyID(parsed.NextKey)] = parsed.NextKey
	}
	if s.Unknown != nil {
		if s.Older == nil {
			s.Older = map[string]bool{}
		}
		s.Older[s.Unknown.ID] = true
		s.Unknown = nil
		return
	}
	from := s.Begin // the first existing segment may begin in the middle of a run
	if s.Last != nil {
		from = s.Last.Block
	}
	if parsed.First > from+1 {
		// Blocks that a killed run left unsealed were only found by the next run.
		n := min(s.Unsealed, parsed.First-1-from)
		s.Sum.Found += n
		s.Found = append(s.Found, unsealedRuns{n, s.End, s.Last == nil && s.Begin == 0, s.Last != nil &&
			s.Last.Reason == seal.ReasonEnd})
		s.reportMissed(parsed.First - 1)
	}
}

// reportMissed reports a missing seal: all blocks after the last seal, except the last one of their run, must end
// before the next seal is due.
func (s *sealState) reportMissed(end uint64) {
	if s.Late == nil || s.Late.Number >= end {
		return
	}
	s.reportOnce("missing", *s.Late,
		"seals are missing: the last one before was made at %s, and its writer seals every %d seconds, but block "+
			"%d ended at %s",
		render.Time(s.Last.Time), s.Last.Interval, s.Late.Number, render.Time(s.Late.Time))
}

// makesSeals reports whether the stream's writer makes seals, by what the last valid seal states.
func (s *sealState) makesSeals() bool {
	return s.Last != nil && s.Last.Reason != seal.ReasonEnd && s.Unknown == nil
}

// endSegment is called at the end of a segment that another one follows.
func (s *sealState) endSegment(seg *trail.Segment) {
	if s.makesSeals() && s.Blocks > 0 && !s.OnlySeals {
		s.Ends = append(s.Ends, segmentEnd{blockPlace{File: seg.Path, Offset: seg.Size}, seg.Number, s.Sum.Last + 1})
	}
}

// reportOpenEnds reports segments without a seal at their end.
func (s *sealState) reportOpenEnds() {
	for _, e := range s.Ends {
		switch {
		case s.Runs[e.Next]:
		case s.Sum.Last <= e.Next && s.Unread == 0:
			// if the segment was removed or moved, only the second block of the next segment has the seal that
			// explains it
			s.v.warn(e.Place.File, &e.Place.Offset,
				"segment %d ends without a seal, and no later seal explains why: either it was moved or removed a "+
					"moment ago, or its seal was removed",
				e.Number)
		case s.Unread > 0:
		default:
			s.reportOnce("segment", e.Place,
				"segment %d ends without a seal, although its writer seals at the ends of segments", e.Number)
		}
	}
}

// reportNoSeals reports why the stream, or a part of it, has no seal to check.
func (s *sealState) reportNoSeals(path string) {
	v, sum := s.v, &s.Sum
	switch {
	case len(v.keys) == 0:
	case s.Unread > 0:
		v.reportUnreadable(path,
			"seals of stream %d cannot be checked without the encryption keys: %d blocks could not be decrypted",
			sum.Stream, s.Unread)
	case sum.Seals == 0 && s.Recovered:
		v.reportDamage(format.ProblemSeal, path, nil,
			"there is no seal in stream %d: it was written by steno recover, which has no key; only the hash "+
				"chain proves anything about it", sum.Stream)
	case sum.Seals == 0 && s.Blocks > 0 && !s.follows: // otherwise, the seals may be in segments that were not read
		v.reportDamage(format.ProblemSeal, path, nil, "there is no seal in stream %d", sum.Stream)
	}
}

// finish is called at the end of the stream.
func (s *sealState) finish(path string) {
	v, sum := s.v, &s.Sum
	s.reportNoSeals(path)
	s.reportOpenEnds()
	for _, kind := range slices.Sorted(maps.Keys(s.Wrong)) {
		if n := s.Wrong[kind]; n > 1 {
			v.reportDamage(format.ProblemSeal, path, nil, "stream %d: %d more seals have the same error (%s)",
				sum.Stream, n-1, kind)
		}
	}
	if s.makesSeals() {
		s.reportMissed(sum.Last)
		if s.Late != nil && s.Late.Number == sum.Last {
			v.warn(s.Late.File, &s.Late.Offset,
				"block %d, the last one of stream %d, ended at %s, and the last seal before was made at %s, "+
					"although its writer seals every %d seconds: the server wrote it just now, or was killed, or "+
					"somebody else wrote it",
				sum.Last, sum.Stream, render.Time(s.Late.Time), render.Time(s.Last.Time), s.Last.Interval)
		}
	}
	s.reportOtherKeys(path)
	if s.Last != nil {
		sum.Block, sum.Time, sum.Key, sum.Reason = s.Last.Block, render.Time(s.Last.Time), s.Last.Key, s.Last.Reason
		sum.Unsealed = s.Unsealed
		if s.Unsealed > 0 {
			sum.Seconds = max(0, (s.End-s.Last.Time)/1e6)
		}
		if s.Last.Reason == seal.ReasonSegment && s.OnlySeals && s.Unsealed == 0 && s.Last.Segment == s.Segment {
			v.warn(path, nil,
				"stream %d ends with a seal that was made for the end of a segment: unless the server was killed "+
					"at that moment, later segments are missing", sum.Stream)
		}
		if s.Last.Reason == seal.ReasonStop && s.BehindStop != s.Last && s.Segment > max(s.Last.Segment, s.Filled) {
			v.warn(path, nil,
				"segment %d of stream %d, which has no block, follows the seal that ended the run: a server was "+
					"killed while it started, or somebody put it there", s.Segment, sum.Stream)
		}
		s.reportUnsealedRuns(path)
		if s.Last.Reason == seal.ReasonEnd {
			v.warn(path, nil, "stream %d: sealing was ended by the server's configuration at %s",
				sum.Stream, sum.Time)
		}
	}
	sum.Unread = s.Unread
	if s.Sum.Seals > 0 || len(v.keys) > 0 {
		v.report.Seals = append(v.report.Seals, *sum)
	}
}

// reportOtherKeys reports the seals by keys that were not given.
func (s *sealState) reportOtherKeys(path string) {
	if len(s.Older) > 0 {
		s.v.warn(path, nil,
			"stream %d: seals by keys that were not given (%s) are not checked; later seals, which are valid, "+
				"cover the same blocks",
			s.Sum.Stream, strings.Join(slices.Sorted(maps.Keys(s.Older)), ", "))
	}
	if s.Unknown == nil {
		return
	}
	what := fmt.Sprintf("all of stream %d", s.Sum.Stream)
	if s.Last != nil {
		what = fmt.Sprintf("stream %d from block %d on", s.Sum.Stream, s.Last.Block+1)
	}
	if s.v.keys[s.Unknown.ID] != nil {
		s.v.reportUnreadable(s.Unknown.Place.File,
			"%s was read when key %s, of the seal of block %d, was not given: its seals are not checked. A seal "+
				"that is valid and follows covers it; a full pass checks them",
			what, s.Unknown.ID, s.Unknown.Seal.Block)
		return
	}
	s.v.report.SealKeys = addKey(s.v.report.SealKeys, s.Unknown.ID)
	s.v.reportUnreadable(s.Unknown.Place.File,
		"%s is not checked: the seal of block %d is by key %s, which was not given. If the server never had this "+
			"key, somebody else made the seals",
		what, s.Unknown.Seal.Block, s.Unknown.ID)
}

// reportUnsealedRuns reports blocks that only a later run sealed, and why.
func (s *sealState) reportUnsealedRuns(path string) {
	var keyless, killed uint64
	for _, r := range s.Found {
		if r.Ended || r.Before && s.v.hadNoKey(s.home, r.End) {
			keyless += r.Blocks
		} else {
			killed += r.Blocks
		}
	}
	if keyless > 0 {
		s.v.warn(path, nil,
			"stream %d: %d blocks have no seal by the run of the server that wrote them, because it had no key: "+
				"they are sealed as a later run found them", s.Sum.Stream, keyless)
	}
	if killed > 0 {
		s.v.warn(path, nil,
			"stream %d: %d blocks have no seal by the run of the server that wrote them, because it was killed or "+
				"had not sealed them yet: they are sealed as the next run found them", s.Sum.Stream, killed)
	}
}

// hadNoKey reports whether the runs that began in a trail before a time had no key, according to the records of their
// starts, if there is one.
func (v *verifier) hadNoKey(of streamID, end int64) bool {
	before := slices.DeleteFunc(slices.Clone(v.starts[of.trail]), func(one start) bool { return one.Time > end })
	return len(before) > 0 && !slices.ContainsFunc(before, func(one start) bool { return one.HasKey })
}

// Line is a stream's row of the report for people.
func (s *StreamSeals) Line(checked bool) string {
	count := fmt.Sprintf("stream %d: %s", s.Stream, humanize.Comma(int64(s.Seals)))
	if s.System != "" {
		count = "server " + s.System + ", " + count
	}
	switch {
	case !checked:
		return count + ", not checked: no key was given"
	case s.Time == "" && s.Unread > 0:
		return fmt.Sprintf("%s, of %s blocks; %s could not be decrypted", count, humanize.Comma(int64(s.Last)),
			humanize.Comma(int64(s.Unread)))
	case s.Time == "":
		return fmt.Sprintf("%s, none of them valid by a key that was given; %s blocks", count,
			humanize.Comma(int64(s.Last)))
	}
	line := fmt.Sprintf("%s, sealed up to block %s of %s at %s by key %s", count, humanize.Comma(int64(s.Block)),
		humanize.Comma(int64(s.Last)), s.Time, s.Key)
	switch {
	case s.Unsealed > 0:
		line += fmt.Sprintf("; not yet sealed: %s blocks, %s", humanize.Comma(int64(s.Unsealed)),
			time.Duration(s.Seconds)*time.Second)
	case s.Reason == seal.ReasonStop:
		line += ", when the server was stopped"
	}
	return line
}

// anchorState is an anchor, and whether its block was found.
type anchorState struct {
	*seal.Anchor
	seen bool
	// failed says that the trail has another block, or none.
	failed bool
	// sealed says that the block after it has the seal that signs the anchor.
	sealed bool
	home   streamID // of the stream that has the block
	// alone is the segment that has the block, if the trail is that segment only.
	alone *trail.Segment
}

func (v *verifier) setAnchors(list []*seal.Anchor) {
	v.report.Anchors = len(list)
	for _, a := range list {
		v.anchors = append(v.anchors, &anchorState{Anchor: a})
	}
}

// behindAnchor checks one of the two blocks after that of a signed anchor. The anchor was printed when its seal
// was already in the trail, in the first of these blocks, so it must be there. If that seal ended a run, the
// second block can only begin with the first seal of another run.
func (v *verifier) behindAnchor(a *anchorState, p blockPlace, f *finding) {
	switch {
	case f.sealed:
		a.sealed = a.sealed || p.Number == a.Block+1
		v.reportUnreadable(p.File, "what follows anchor %s cannot be checked without the encryption keys", a.From)
	case f.later:
		a.sealed = a.sealed || p.Number == a.Block+1
		v.reportUnreadable(p.File, "what follows anchor %s cannot be checked by this version", a.From)
	case p.Number == a.Block+1:
		a.sealed = true
		if !slices.ContainsFunc(f.seals, func(one *seal.Seal) bool {
			return bytes.Equal(one.Signature, a.Signature)
		}) {
			v.reportDamage(format.ProblemAnchor, p.File, &p.Offset,
				"block %d does not have the seal of anchor %s, of %s (%s), which was there when the anchor was "+
					"made: it was cut off, and something else was put in its place",
				p.Number, a.From, render.Time(a.Time), a.Reason)
		}
	case a.Reason == seal.ReasonStop && !(f.sealsOnly && slices.ContainsFunc(f.seals, func(one *seal.Seal) bool {
		return one.Reason == seal.ReasonStart && one.First == p.Number
	})):
		v.reportDamage(format.ProblemAnchor, p.File, &p.Offset,
			"block %d follows the seal of anchor %s, which ended a run of the server at %s, and no run with seals "+
				"begins with it", p.Number, a.From, render.Time(a.Time))
	}
}

// anchor compares a block with the anchors for it and for the blocks before it.
func (v *verifier) anchor(s *trail.Stream, p blockPlace, systemID uint64, h *format.BlockHeader, f *finding) {
	stream := s.Number
	if _, there := v.firstBlock[stream]; !there {
		v.firstBlock[stream] = h.Number
	}
	end := h.FirstRecord + uint64(h.Records) - 1
	for _, a := range v.anchors {
		if a.Stream == stream && a.Signed && h.Number > a.Block && h.Number <= a.Block+2 {
			v.behindAnchor(a, p, f)
		}
		if a.Stream != stream || a.Block != h.Number {
			continue
		}
		if a.seen, a.home = true, streamIDOf(s); !s.Whole {
			a.alone = s.Segments[0]
		}
		a.failed = systemID != a.SystemID || h.Chain != a.Hash || end != a.Record
		switch {
		case systemID != a.SystemID:
			v.reportDamage(format.ProblemAnchor, p.File, &p.Offset,
				"anchor %s is of another server: its system identifier is %d, not %d", a.From, a.SystemID, systemID)
		case h.Chain != a.Hash:
			v.reportDamage(format.ProblemAnchor, p.File, &p.Offset,
				"block %d is not the one of anchor %s, of %s: its chain hash was different, so blocks up to it "+
					"were changed", h.Number, a.From, render.Time(a.Time))
		case end != a.Record:
			v.reportDamage(format.ProblemAnchor, p.File, &p.Offset,
				"block %d ends with record %d, but with %d in anchor %s", h.Number, end, a.Record, a.From)
		}
	}
}

// finishAnchors reports anchors whose blocks were not found.
func (v *verifier) finishAnchors() {
	for _, a := range v.anchors {
		if key, ok := v.keys[a.Key]; a.Signed && ok && !a.Verify(key) {
			v.reportDamage(format.ProblemAnchor, "", nil,
				"anchor %s: its signature is not that of key %s", a.From, a.Key)
		}
		first, there := v.firstBlock[a.Stream]
		switch {
		case a.alone != nil && a.alone.Header.FirstBlock > 1:
			v.reportUnreadable(a.alone.Path,
				"segment %d of stream %d was named individually: blocks 1 to %d before it, which anchor %s also "+
					"covers, were not checked; name the trail",
				a.alone.Number, a.Stream, a.alone.Header.FirstBlock-1, a.From)
		case a.seen && a.Signed && !a.sealed && a.alone == nil && v.lastBlock[a.home] == a.Block:
			v.reportDamage(format.ProblemAnchor, "", nil,
				"the seal of anchor %s, of %s (%s), does not exist in stream %d: the stream ends with block %d, "+
					"and was cut off behind it", a.From, render.Time(a.Time), a.Reason, a.Stream, a.Block)
		case a.seen:
		case v.systemID != nil && v.systemID.Header.SystemID != a.SystemID:
			a.failed = true
			v.reportDamage(format.ProblemAnchor, "", nil,
				"anchor %s is of another server: its system identifier is %d, not %d", a.From, a.SystemID,
				v.systemID.Header.SystemID)
		case there && v.branchOf(a.Stream) != nil && a.Block > v.branchOf(a.Stream).Block:
			b := v.branchOf(a.Stream)
			a.failed = true
			v.reportDamage(format.ProblemAnchor, "", nil,
				"block %d of stream %d, named by anchor %s of %s, does not exist: here the stream continues as "+
					"stream %d after block %d (%s); an anchor of the server from which it was copied proves nothing "+
					"after that",
				a.Block, a.Stream, a.From, render.Time(a.Time), b.in.stream, b.Block, b.Reason)
		case there && a.Block < first:
			v.warn("", nil,
				"anchor %s names block %d of stream %d, before the first existing one: it proves nothing here",
				a.From, a.Block, a.Stream)
		case a.From == stateAnchors && slices.ContainsFunc(v.report.Unreadable, func(p Problem) bool {
			return v.isOf(p.File, a.Stream)
		}):
			// The anchor's segment may be one of those that could not be read.
		default:
			a.failed = true
			v.reportDamage(format.ProblemAnchor, "", nil,
				"block %d of stream %d, named by anchor %s of %s, does not exist: the end of the stream was cut "+
					"off, or the trail is an older copy",
				a.Block, a.Stream, a.From, render.Time(a.Time))
		}
	}
}
