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

	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// slack is how much later than promised a seal may be, in microseconds: the times of records and of seals are taken by
// different processes.
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
	// Found counts blocks that are not covered by a seal of the run that wrote them: the ends of runs that were killed.
	Found uint64 `json:"found_blocks"`
	// Unread counts encrypted blocks for which there was no key.
	Unread uint64 `json:"unread_blocks,omitempty"`
}

// blockPlace is the position of a block, for problems.
type blockPlace struct {
	number uint64
	time   int64
	file   string
	offset int64
}

// sealState follows the seals of one stream.
type sealState struct {
	v    *verifier
	home home
	sum  StreamSeals
	keys seal.Keys // trusted at this point
	last *seal.Seal
	// behindStop is the last stop seal that was followed by a block.
	behindStop *seal.Seal

	wrong     map[string]int // problems that are reported once, and how often they occurred
	end       int64          // latest end of records after the last seal
	unsealed  uint64         // blocks after it that contain more than seals
	since     int64          // end of the first of them
	late      *blockPlace    // the first block after it that ended after the next seal was due
	onlySeals bool           // the last block contains only seals
	blocks    uint64
	begin     uint64 // number of the block before the first existing one
	segment   uint64 // the last one
	filled    uint64 // the last segment with anything after its header, readable or not
	ends      []segmentEnd
	runs      map[uint64]bool // first blocks of runs, by their seals
	unread    uint64          // encrypted blocks, whose seals cannot be read without the key
	unknown   *unknownKey     // of the seals after the last valid one; nil: there are none
	older     map[string]bool // keys of seals before valid ones that were not given
	found     []unsealedRuns
	recovered bool // steno recover wrote it
}

// unknownKey is a key that was not given, and the first of the seals by it that no valid seal follows.
type unknownKey struct {
	id    string
	place blockPlace
	seal  *seal.Seal
}

// unsealedRuns are blocks that no seal of the run that wrote them covers.
type unsealedRuns struct {
	blocks uint64
	end    int64 // latest end of records in them
	before bool  // no seal precedes them
	ended  bool  // sealing was ended before, by the configuration
}

// segmentEnd is the end of a segment without a seal that another segment follows. That is valid if a run begins with
// the next block, because the writer was killed before, or its segment was removed or moved.
type segmentEnd struct {
	place  blockPlace
	number uint64
	next   uint64 // block
}

func (v *verifier) newSealState(of home) *sealState {
	s := &sealState{v: v, home: of, sum: StreamSeals{Stream: of.stream}, keys: seal.Keys{}, wrong: map[string]int{}, runs: map[uint64]bool{}}
	for id, key := range v.keys {
		s.keys[id] = key
	}
	return s
}

// reportOnce reports the first problem of a kind, and counts the others.
func (s *sealState) reportOnce(kind string, p blockPlace, format string, args ...any) {
	s.wrong[kind]++
	if s.wrong[kind] == 1 {
		s.v.damage(p.file, &p.offset, format, args...)
	}
}

// block processes a block and its seals. before describes the chain before the block, if known.
func (s *sealState) block(f *finding, p blockPlace, before seal.Seal, known bool) {
	if s.blocks == 0 {
		s.begin = p.number - 1
	}
	s.blocks++
	s.recovered = s.recovered || f.recovered
	if f.sealed || f.later {
		// its contents are not known, so nothing can be concluded from them
		s.unread++
		s.sum.Last, s.onlySeals, s.late = p.number, true, nil
		return
	}
	stop := s.last
	if stop != nil && (stop.Reason != seal.ReasonStop || s.behindStop == stop) {
		stop = nil
	}
	for _, one := range f.seals {
		s.sum.Seals++
		if s.check(one, p, before, known) {
			s.accept(one)
		}
	}
	if stop != nil {
		s.stopped(f, p, stop)
	}
	s.onlySeals = f.sealsOnly
	s.sum.Last = p.number
	if !f.sealsOnly {
		if s.unsealed++; s.unsealed == 1 {
			s.since = f.header.LastEnd
		}
		s.end = max(s.end, f.header.LastEnd)
	}
	if s.late == nil && s.last != nil && s.unknown == nil && s.last.Interval > 0 && f.header.LastEnd > s.last.Time+int64(s.last.Interval)*1e6+slack {
		p.time = f.header.LastEnd
		s.late = &p
	}
}

// stopped checks the first block after the stop seal of a run: it must contain the first seal of the next run, because
// no server was running that could have written anything else.
func (s *sealState) stopped(f *finding, p blockPlace, stop *seal.Seal) {
	s.behindStop = stop
	if s.unknown != nil && s.unknown.seal.Reason == seal.ReasonStart && s.unknown.seal.First == p.number && f.sealsOnly {
		return // the key is not known: finish tells
	}
	if s.last != stop && s.last.Reason == seal.ReasonStart && s.last.First == p.number && s.last.Block == p.number-1 && f.sealsOnly {
		return
	}
	s.reportOnce("stop", p, "block %d follows the seal that ended a run of the server at %s, and no run with seals begins with it: the server did not have the key, or somebody else wrote it",
		p.number, render.Time(stop.Time))
}

// check reports whether a seal is valid.
func (s *sealState) check(one *seal.Seal, p blockPlace, before seal.Seal, known bool) bool {
	switch {
	case one.Block != p.number-1:
		s.reportOnce("place", p, "seal of %s covers block %d, but follows block %d", render.Time(one.Time), one.Block, p.number-1)
		return false
	case known && one.Hash != before.Hash:
		s.reportOnce("hash", p, "block %d is not the one that was sealed at %s: its chain hash was different, so blocks up to it were changed", one.Block, render.Time(one.Time))
		return false
	case known && one.Record != before.Record:
		s.reportOnce("record", p, "seal of %s says that block %d ends with record %d, not %d", render.Time(one.Time), one.Block, one.Record, before.Record)
		return false
	case len(s.keys) == 0:
		return false
	}
	key, ok := s.keys[one.Key]
	switch {
	case !ok:
		s.notGiven(one, p)
		return false
	case !one.Verify(key):
		s.reportOnce("signature", p, "signature of the seal of block %d at %s is not that of key %s", one.Block, render.Time(one.Time), one.Key)
		return false
	}
	return true
}

// notGiven processes a seal by a key that is not trusted. It proves nothing, but it may be right: what it should prove
// is not checked, unless a valid seal follows.
func (s *sealState) notGiven(one *seal.Seal, p blockPlace) {
	s.runs[one.First] = true
	s.late = nil
	if s.unknown == nil {
		s.unknown = &unknownKey{one.Key, p, one}
	}
}

// accept processes a seal with a valid signature.
func (s *sealState) accept(one *seal.Seal) {
	s.sum.Checked++
	s.runs[one.First] = true
	defer func() { s.last, s.late, s.unsealed, s.end = one, nil, 0, one.Time }()
	if one.NextKey != nil {
		s.keys[seal.KeyID(one.NextKey)] = one.NextKey
	}
	if s.unknown != nil {
		if s.older == nil {
			s.older = map[string]bool{}
		}
		s.older[s.unknown.id] = true
		s.unknown = nil
		return
	}
	from := s.begin // the first existing segment may begin in the middle of a run
	if s.last != nil {
		from = s.last.Block
	}
	if one.First > from+1 {
		// Blocks that a killed run left unsealed were only found by the next run.
		n := min(s.unsealed, one.First-1-from)
		s.sum.Found += n
		s.found = append(s.found, unsealedRuns{n, s.end, s.last == nil && s.begin == 0, s.last != nil && s.last.Reason == seal.ReasonEnd})
		s.missed(one.First - 1)
	}
}

// missed reports a missing seal: all blocks after the last seal, except the last one of their run, must end before the
// next seal is due.
func (s *sealState) missed(end uint64) {
	if s.late == nil || s.late.number >= end {
		return
	}
	s.reportOnce("missing", *s.late, "seals are missing: the last one before was made at %s, and its writer seals every %d seconds, but block %d ended at %s",
		render.Time(s.last.Time), s.last.Interval, s.late.number, render.Time(s.late.time))
}

// sealing reports whether the stream's writer makes seals, by what the last valid seal states.
func (s *sealState) sealing() bool {
	return s.last != nil && s.last.Reason != seal.ReasonEnd && s.unknown == nil
}

// leave is called at the end of a segment that another one follows.
func (s *sealState) leave(seg *trail.Segment) {
	if s.sealing() && s.blocks > 0 && !s.onlySeals {
		s.ends = append(s.ends, segmentEnd{blockPlace{file: seg.Path, offset: seg.Size}, seg.Number, s.sum.Last + 1})
	}
}

// openEnds reports segments without a seal at their end.
func (s *sealState) openEnds() {
	for _, e := range s.ends {
		switch {
		case s.runs[e.next]:
		case s.sum.Last <= e.next && s.unread == 0:
			// if the segment was removed or moved, only the second block of the next segment has the seal that explains
			// it
			s.v.warning(e.place.file, &e.place.offset, "segment %d ends without a seal, and no later seal explains why: either it was moved or removed a moment ago, or its seal was removed",
				e.number)
		case s.unread > 0:
		default:
			s.reportOnce("segment", e.place, "segment %d ends without a seal, although its writer seals at the ends of segments", e.number)
		}
	}
}

// none reports why the stream, or a part of it, has no seal to check.
func (s *sealState) none(path string) {
	v, sum := s.v, &s.sum
	switch {
	case len(v.keys) == 0:
	case s.unread > 0:
		v.unreadable(path, "seals of stream %d cannot be checked without the encryption keys: %d blocks could not be decrypted; give the keys with --encryption-key-command or --encryption-key-file",
			sum.Stream, s.unread)
	case sum.Seals == 0 && s.recovered:
		v.damage(path, nil, "there is no seal in stream %d: it was written by steno recover, which has no key; only the hash chain proves anything about it", sum.Stream)
	case sum.Seals == 0 && s.blocks > 0 && v.from[sum.Stream] <= 1: // else the seals can be before
		v.damage(path, nil, "there is no seal in stream %d", sum.Stream)
	}
}

// finish is called at the end of the stream.
func (s *sealState) finish(path string) {
	v, sum := s.v, &s.sum
	s.none(path)
	s.openEnds()
	for _, kind := range slices.Sorted(maps.Keys(s.wrong)) {
		if n := s.wrong[kind]; n > 1 {
			v.damage(path, nil, "stream %d: %d more seals have the same error (%s)", sum.Stream, n-1, kind)
		}
	}
	if s.sealing() {
		s.missed(sum.Last)
		if s.late != nil && s.late.number == sum.Last {
			v.warning(s.late.file, &s.late.offset, "block %d, the last one of stream %d, ended at %s, and the last seal before was made at %s, although its writer seals every %d seconds: the server wrote it just now, or was killed, or somebody else wrote it",
				sum.Last, sum.Stream, render.Time(s.late.time), render.Time(s.last.Time), s.last.Interval)
		}
	}
	s.otherKeys(path)
	if s.last != nil {
		sum.Block, sum.Time, sum.Key, sum.Reason = s.last.Block, render.Time(s.last.Time), s.last.Key, s.last.Reason
		sum.Unsealed = s.unsealed
		if s.unsealed > 0 {
			sum.Seconds = max(0, (s.end-s.last.Time)/1e6)
		}
		if s.last.Reason == seal.ReasonSegment && s.onlySeals && s.unsealed == 0 && s.last.Segment == s.segment {
			v.warning(path, nil, "stream %d ends with a seal that was made for the end of a segment: unless the server was killed at that moment, later segments are missing", sum.Stream)
		}
		if s.last.Reason == seal.ReasonStop && s.behindStop != s.last && s.segment > max(s.last.Segment, s.filled) {
			v.warning(path, nil, "segment %d of stream %d, which has no block, follows the seal that ended the run: a server was killed while it started, or somebody put it there", s.segment, sum.Stream)
		}
		s.unsealedRuns(path)
		if s.last.Reason == seal.ReasonEnd {
			v.warning(path, nil, "stream %d: sealing was ended by the server's configuration at %s", sum.Stream, sum.Time)
		}
	}
	sum.Unread = s.unread
	if s.sum.Seals > 0 || len(v.keys) > 0 {
		v.report.Seals = append(v.report.Seals, *sum)
	}
}

// otherKeys reports the seals by keys that were not given.
func (s *sealState) otherKeys(path string) {
	if len(s.older) > 0 {
		s.v.warning(path, nil, "stream %d: seals by keys that were not given (%s) are not checked; later seals, which are valid, cover the same blocks",
			s.sum.Stream, strings.Join(slices.Sorted(maps.Keys(s.older)), ", "))
	}
	if s.unknown == nil {
		return
	}
	what := fmt.Sprintf("all of stream %d", s.sum.Stream)
	if s.last != nil {
		what = fmt.Sprintf("stream %d from block %d on", s.sum.Stream, s.last.Block+1)
	}
	s.v.unreadable(s.unknown.place.file, "%s is not checked: the seal of block %d is by key %s, which was not given; give its public key with --key. If the server never had this key, somebody else made the seals",
		what, s.unknown.seal.Block, s.unknown.id)
}

// unsealedRuns reports blocks that only a later run sealed, and why.
func (s *sealState) unsealedRuns(path string) {
	var keyless, killed uint64
	for _, r := range s.found {
		if r.ended || r.before && s.v.hadNoKey(s.home, r.end) {
			keyless += r.blocks
		} else {
			killed += r.blocks
		}
	}
	if keyless > 0 {
		s.v.warning(path, nil, "stream %d: %d blocks have no seal by the run of the server that wrote them, because it had no key: they are sealed as a later run found them", s.sum.Stream, keyless)
	}
	if killed > 0 {
		s.v.warning(path, nil, "stream %d: %d blocks have no seal by the run of the server that wrote them, because it was killed or had not sealed them yet: they are sealed as the next run found them", s.sum.Stream, killed)
	}
}

// hadNoKey reports whether the runs that began in a trail before a time had no key, according to the records of their
// starts, if there is one.
func (v *verifier) hadNoKey(of home, end int64) bool {
	before := slices.DeleteFunc(slices.Clone(v.starts[of.trail]), func(one start) bool { return one.time > end })
	return len(before) > 0 && !slices.ContainsFunc(before, func(one start) bool { return one.hasKey })
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
		return fmt.Sprintf("%s, of %s blocks; %s could not be decrypted", count, humanize.Comma(int64(s.Last)), humanize.Comma(int64(s.Unread)))
	case s.Time == "":
		return fmt.Sprintf("%s, none of them valid by a key that was given; %s blocks", count, humanize.Comma(int64(s.Last)))
	}
	line := fmt.Sprintf("%s, sealed up to block %s of %s at %s by key %s", count, humanize.Comma(int64(s.Block)), humanize.Comma(int64(s.Last)), s.Time, s.Key)
	switch {
	case s.Unsealed > 0:
		line += fmt.Sprintf("; not yet sealed: %s blocks, %s", humanize.Comma(int64(s.Unsealed)), time.Duration(s.Seconds)*time.Second)
	case s.Reason == seal.ReasonStop:
		line += ", when the server was stopped"
	}
	return line
}

// anchorState is an anchor, and whether its block was found.
type anchorState struct {
	*seal.Anchor
	seen bool
	// sealed says that the seal that signs the anchor was found in the block behind.
	sealed bool
	home   home // of the stream that has the block
	// alone is the segment that has the block, if only that segment is verified.
	alone *trail.Segment
}

func (v *verifier) setAnchors(list []*seal.Anchor) {
	v.report.Anchors = len(list)
	for _, a := range list {
		v.anchors = append(v.anchors, &anchorState{Anchor: a})
	}
}

// behindAnchor checks one of the two blocks behind that of a signed anchor. The anchor was printed when its seal was in
// the trail, in the first of them, so it must be there now. If it ended a run, the second can only have the
// seal that begins another one.
func (v *verifier) behindAnchor(a *anchorState, p blockPlace, f *finding) {
	switch {
	case f.sealed:
		a.sealed = a.sealed || p.number == a.Block+1
		v.unreadable(p.file, "what follows anchor %s cannot be checked without the encryption keys", a.From)
	case f.later:
		a.sealed = a.sealed || p.number == a.Block+1
		v.unreadable(p.file, "what follows anchor %s cannot be checked by this version", a.From)
	case p.number == a.Block+1:
		a.sealed = true
		if !slices.ContainsFunc(f.seals, func(one *seal.Seal) bool { return bytes.Equal(one.Signature, a.Signature) }) {
			v.damage(p.file, &p.offset, "block %d does not have the seal of anchor %s, of %s (%s), which was there when the anchor was made: it was cut off, and something else was put in its place",
				p.number, a.From, render.Time(a.Time), a.Reason)
		}
	case a.Reason == seal.ReasonStop && !(f.sealsOnly && slices.ContainsFunc(f.seals, func(one *seal.Seal) bool { return one.Reason == seal.ReasonStart && one.First == p.number })):
		v.damage(p.file, &p.offset, "block %d follows the seal of anchor %s, which ended a run of the server at %s, and no run with seals begins with it", p.number, a.From, render.Time(a.Time))
	}
}

// anchor compares a block with the anchors that name it, and with those that name the blocks before.
func (v *verifier) anchor(s *trail.Stream, p blockPlace, systemID uint64, h *trail.BlockHeader, f *finding) {
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
		if a.seen, a.home = true, homeOf(s); !s.Whole {
			a.alone = s.Segments[0]
		}
		switch {
		case systemID != a.SystemID:
			v.damage(p.file, &p.offset, "anchor %s is of another server: its system identifier is %d, not %d", a.From, a.SystemID, systemID)
		case h.Chain != a.Hash:
			v.damage(p.file, &p.offset, "block %d is not the one of anchor %s, of %s: its chain hash was different, so blocks up to it were changed", h.Number, a.From, render.Time(a.Time))
		case end != a.Record:
			v.damage(p.file, &p.offset, "block %d ends with record %d, but with %d in anchor %s", h.Number, end, a.Record, a.From)
		}
	}
}

// finishAnchors reports anchors whose blocks were not found.
func (v *verifier) finishAnchors() {
	for _, a := range v.anchors {
		if key, ok := v.keys[a.Key]; a.Signed && ok && !a.Verify(key) {
			v.damage("", nil, "anchor %s: its signature is not that of key %s", a.From, a.Key)
		}
		first, there := v.firstBlock[a.Stream]
		switch {
		case a.alone != nil && a.alone.Header.FirstBlock > 1:
			v.unreadable(a.alone.Path, "segment %d of stream %d was named individually: blocks 1 to %d before it, which anchor %s also covers, were not checked; name the trail",
				a.alone.Number, a.Stream, a.alone.Header.FirstBlock-1, a.From)
		case a.seen && a.Signed && !a.sealed && a.alone == nil && v.lastBlock[a.home] == a.Block:
			v.damage("", nil, "the seal of anchor %s, of %s (%s), does not exist in stream %d: the stream ends with block %d, and was cut off behind it", a.From, render.Time(a.Time), a.Reason, a.Stream, a.Block)
		case a.seen:
		case v.systemID != nil && v.systemID.Header.SystemID != a.SystemID:
			v.damage("", nil, "anchor %s is of another server: its system identifier is %d, not %d", a.From, a.SystemID, v.systemID.Header.SystemID)
		case there && v.branchOf(a.Stream) != nil && a.Block > v.branchOf(a.Stream).Block:
			b := v.branchOf(a.Stream)
			v.damage("", nil, "block %d of stream %d, named by anchor %s of %s, does not exist: here the stream continues as stream %d after block %d (%s); an anchor of the server from which it was copied proves nothing after that",
				a.Block, a.Stream, a.From, render.Time(a.Time), b.in.stream, b.Block, b.Reason)
		case there && a.Block < first:
			v.warning("", nil, "anchor %s names block %d of stream %d, before the first existing one: it proves nothing here", a.From, a.Block, a.Stream)
		default:
			v.damage("", nil, "block %d of stream %d, named by anchor %s of %s, does not exist: the end of the stream was cut off, or the trail is an older copy",
				a.Block, a.Stream, a.From, render.Time(a.Time))
		}
	}
}
