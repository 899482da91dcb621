// What is remembered of blocks, so that they need not be read again.

package verify

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Memory is what a verifier knows about the segments that it has read: how far each stream was read, and
// everything about earlier blocks that checks of later blocks and of the whole trail need. A verifier that
// starts with a Memory has the same result as one that reads these segments, if they were not changed since. A
// Memory is used only once.
type Memory struct {
	// Began is when reading the segments began; zero if none was read.
	Began   time.Time
	Streams map[uint32]*streamMemory
	Partial bool `json:",omitempty"`

	Sessions []sessionMemory `json:",omitempty"`
	// Open, Background and Finished are sessions whose records from 1 to a number were seen: see
	// compactSessions.
	Open, Background []byte `json:",omitempty"`
	Finished         []byte `json:",omitempty"`
	FinishedCount    int    `json:",omitempty"`

	Parts, Wants      []partsMemory     `json:",omitempty"`
	CutShort, Dropped []format.RecordID `json:",omitempty"`

	Deletions []deletionMemory `json:",omitempty"`
	Branches  []branchMemory   `json:",omitempty"`
	Starts    []start          `json:",omitempty"`
	// Elsewhere are the records of the event "other_trail".
	Elsewhere []trail.OtherTrail `json:",omitempty"`

	// Sealed counts, by key, segments that could not be decrypted, and Unread their blocks.
	Sealed           map[string]int `json:",omitempty"`
	Unread           int64          `json:",omitempty"`
	GapRecords, Lost uint64         `json:",omitempty"`

	// Problems are the problems of the segments, and Unreadable what could not be read in them.
	Problems, Unreadable []Problem `json:",omitempty"`
	MoreProblems         int       `json:",omitempty"`
}

// streamMemory is what is known about one stream.
type streamMemory struct {
	Since uint64 // the first segment that is read at all
	Next  uint64 // the first segment that was not read yet
	Begun bool   // something was read
	position
	Before     summary
	Seals      *sealMemory `json:",omitempty"`
	FirstBlock uint64      `json:",omitempty"` // the first one that was read
	LastBlock  uint64      `json:",omitempty"`
}

type sessionMemory struct {
	ID              format.SessionID
	Seen, Explained []format.Span `json:",omitempty"`
	Ended           bool          `json:",omitempty"`
	End             uint64        `json:",omitempty"`
}

type partsMemory struct {
	Record format.RecordID
	Bytes  uint64
}

type deletionMemory struct {
	In    uint32 // stream that has the record
	Block uint64
	What  trail.Deletion
}

type branchMemory struct {
	In   uint32
	What trail.Branch
}

// NewMemory returns the memory of a verifier that follows streams from these segments on, and has read none
// before. The segments need not exist yet.
func NewMemory(since map[uint32]uint64) *Memory {
	m := &Memory{Streams: map[uint32]*streamMemory{}}
	for stream, n := range since {
		m.Streams[stream] = &streamMemory{Since: n, Next: n}
	}
	return m
}

// renameFiles changes the names of files.
func (m *Memory) renameFiles(name func(string) string) {
	for _, list := range [][]Problem{m.Problems, m.Unreadable} {
		for i := range list {
			list[i].File = name(list[i].File)
		}
	}
	for _, s := range m.Streams {
		if s.Seals == nil {
			continue
		}
		for i := range s.Seals.Ends {
			s.Seals.Ends[i].Place.File = name(s.Seals.Ends[i].Place.File)
		}
		if s.Seals.Late != nil {
			s.Seals.Late.File = name(s.Seals.Late.File)
		}
		for _, k := range []*unknownKey{s.Seals.Unknown, s.Seals.Keyless} {
			if k != nil {
				k.Place.File = name(k.Place.File)
			}
		}
	}
}

// memory returns what the verifier of a single trail knows now, with names of files within the trail. It shares
// data with the verifier, so it must be written before the verifier continues.
func (v *verifier) memory() *Memory {
	m := &Memory{
		Began: v.began, Streams: map[uint32]*streamMemory{}, Partial: v.partial, FinishedCount: v.finished.count,
		Sealed: v.sealed, Unread: v.report.UnreadBlocks, GapRecords: v.report.GapRecords, Lost: v.report.LostRecords,
		Problems: slices.Clone(v.report.Problems), MoreProblems: v.report.MoreProblems,
		Unreadable: slices.Clone(v.report.Unreadable),
		CutShort:   slices.SortedFunc(maps.Keys(v.cutShort), format.RecordID.Compare),
		Dropped:    slices.SortedFunc(maps.Keys(v.dropped), format.RecordID.Compare),
		Parts:      parts(v.parts), Wants: parts(v.wants),
		Elsewhere: slices.AppendSeq(slices.Clone(v.elsewhere.streams), maps.Values(v.elsewhere.sessions)),
	}
	maps.Copy(m.Streams, v.absent)
	for _, st := range v.states {
		seals := st.seals.sealMemory
		seals.copyPlaces()
		m.Streams[st.stream.Number] = &streamMemory{
			Since: st.since, Next: st.next, Begun: st.begun, position: st.position, Before: st.before, Seals: &seals,
			FirstBlock: v.firstBlock[st.stream.Number], LastBlock: v.lastBlock[st.home],
		}
		m.Starts = append(m.Starts, v.starts[st.home.trail]...)
	}
	if len(v.states) > 0 {
		m.Starts = v.starts[v.states[0].home.trail]
	}
	v.rememberSessions(m)
	for i := range v.records {
		if r := &v.records[i]; !v.superseded(r) {
			m.Deletions = append(m.Deletions, deletionMemory{r.seals.home.stream, r.block, r.what})
		}
	}
	for _, b := range v.branches {
		m.Branches = append(m.Branches, branchMemory{b.in.stream, b.Branch})
	}
	m.renameFiles(func(file string) string { return RelativePath(v.trail.Path, file) })
	return m
}

// copyPlaces replaces the places of a copy by copies.
func (s *sealMemory) copyPlaces() {
	s.Ends = slices.Clone(s.Ends)
	if s.Late != nil {
		late := *s.Late
		s.Late = &late
	}
	for _, k := range []**unknownKey{&s.Unknown, &s.Keyless} {
		if *k != nil {
			one := **k
			*k = &one
		}
	}
}

// superseded returns whether a later record has everything that a deletion record says, so that it can be
// forgotten and the memory does not grow. In a stream with seals, the later record must be sealed.
func (v *verifier) superseded(r *deletionRecord) bool {
	return slices.ContainsFunc(v.records, func(o deletionRecord) bool {
		sealed := o.seals.Last != nil && o.seals.Last.Block >= o.block
		return o.of == r.of && (sealed || o.seals.Sum.Seals == 0) && o.what.SinceSegment <= r.what.SinceSegment &&
			o.what.LastSegment > r.what.LastSegment && o.what.Missing >= r.what.Missing
	})
}

func parts(of map[format.RecordID]uint64) (all []partsMemory) {
	for _, id := range slices.SortedFunc(maps.Keys(of), format.RecordID.Compare) {
		all = append(all, partsMemory{id, of[id]})
	}
	return all
}

// rememberSessions adds the sessions to a memory. Most take few bytes.
func (v *verifier) rememberSessions(m *Memory) {
	var open, background, finished compactSessions
	for _, id := range slices.SortedFunc(maps.Keys(v.sessions), format.SessionID.Compare) {
		s := v.sessions[id]
		plain := len(s.seen) == 1 && s.seen[0].First == 1 && len(s.explained) == 0 && s.end == 0
		switch {
		case plain && s.ended:
			background.add(id, s.seen[0].Last)
		case plain:
			open.add(id, s.seen[0].Last)
		default:
			m.Sessions = append(m.Sessions, sessionMemory{id, s.seen, s.explained, s.ended, s.end})
		}
	}
	f := &v.finished
	for i := range f.recent { // the oldest one first
		id := f.recent[(f.at+i)%len(f.recent)]
		if last, ok := f.last[id]; ok {
			finished.add(id, last)
		}
	}
	m.Open, m.Background, m.Finished = open.bytes, background.bytes, finished.bytes
}

// compactSessions encodes sessions with a number each: the difference of the start to that of the previous one,
// the process ID, and the number.
type compactSessions struct {
	bytes []byte
	start int64
}

func (c *compactSessions) add(id format.SessionID, n uint64) {
	c.bytes = binary.AppendVarint(c.bytes, id.Start-c.start)
	c.bytes = binary.AppendUvarint(c.bytes, uint64(id.PID))
	c.bytes = binary.AppendUvarint(c.bytes, n)
	c.start = id.Start
}

var errSessions = errors.New("sessions in it cannot be read")

// eachSession calls f with each of the sessions.
func eachSession(b []byte, f func(id format.SessionID, n uint64)) error {
	start := int64(0)
	for len(b) > 0 {
		delta, a := binary.Varint(b)
		pid, p := binary.Uvarint(b[max(a, 0):])
		n, l := binary.Uvarint(b[max(a, 0)+max(p, 0):])
		if a <= 0 || p <= 0 || l <= 0 {
			return errSessions
		}
		start += delta
		f(format.SessionID{Start: start, PID: uint32(pid)}, n)
		b = b[a+p+l:]
	}
	return nil
}

// check returns why a memory cannot be restored; nil: it can.
func (m *Memory) check() error {
	ignore := func(format.SessionID, uint64) {}
	for _, s := range m.Streams {
		if s == nil {
			return errors.New("a stream in it is missing")
		}
	}
	return cmp.Or(eachSession(m.Open, ignore), eachSession(m.Background, ignore), eachSession(m.Finished, ignore))
}

// restore makes the verifier continue from a memory.
func (v *verifier) restore(m *Memory) {
	m.renameFiles(func(file string) string {
		if file == "" || filepath.IsAbs(file) {
			return file
		}
		return filepath.Join(v.trail.Path, filepath.FromSlash(file))
	})
	v.began, v.partial, v.finished.count = m.Began, m.Partial, m.FinishedCount
	r := v.report
	r.UnreadBlocks, r.GapRecords, r.LostRecords = m.Unread, m.GapRecords, m.Lost
	r.Problems, r.MoreProblems = append(r.Problems, m.Problems...), m.MoreProblems
	r.Unreadable = append(r.Unreadable, m.Unreadable...)
	maps.Copy(v.sealed, m.Sealed)
	v.absent = maps.Clone(m.Streams)
	homes, seals := map[uint32]streamID{}, map[uint32]*sealState{}
	for _, st := range v.states {
		homes[st.stream.Number], seals[st.stream.Number] = st.home, st.seals
		delete(v.absent, st.stream.Number)
		if one := m.Streams[st.stream.Number]; one != nil {
			v.restoreStream(st, one)
		}
		if len(m.Starts) > 0 {
			v.starts[st.home.trail] = m.Starts
		}
	}
	homeOf := func(stream uint32) streamID { // also for one that does not exist any more
		if h, ok := homes[stream]; ok {
			return h
		}
		return streamID{v.trail.Path, stream}
	}
	v.restoreSessions(m)
	for _, p := range m.Parts {
		v.parts[p.Record] = p.Bytes
	}
	for _, p := range m.Wants {
		v.wants[p.Record] = p.Bytes
	}
	for _, id := range m.CutShort {
		v.cutShort[id] = true
	}
	for _, id := range m.Dropped {
		v.dropped[id] = true
	}
	for _, d := range m.Deletions {
		of := streamID{homeOf(d.In).trail, d.What.Stream}
		if seals[d.In] == nil {
			seals[d.In] = v.newSealState(homeOf(d.In))
		}
		v.deletions[of] = append(v.deletions[of], d.What)
		v.records = append(v.records, deletionRecord{of, d.What, seals[d.In], d.Block})
	}
	for _, b := range m.Branches {
		v.branches = append(v.branches, branched{b.What, homeOf(b.In)})
	}
	for _, o := range m.Elsewhere {
		v.elsewhere.note(o)
	}
}

func (v *verifier) restoreStream(st *state, m *streamMemory) {
	st.since, st.next, st.begun, st.position, st.before = max(1, m.Since), max(1, m.Next), m.Begun,
		m.position, m.Before
	st.seals.follows = m.Since > 1
	if m.FirstBlock > 0 {
		v.firstBlock[st.stream.Number] = m.FirstBlock
	}
	for _, seg := range st.stream.Segments[:st.nextSegment()] {
		if seg.Err != nil {
			continue
		}
		if v.systemID == nil {
			v.systemID = seg
		}
		v.firstBlock[st.stream.Number] = max(seg.Header.FirstBlock, m.FirstBlock)
		break
	}
	if m.LastBlock > 0 {
		v.lastBlock[st.home] = m.LastBlock
	}
	if m.Seals == nil {
		return
	}
	s := &st.seals.sealMemory
	*s = *m.Seals
	if s.Keys == nil {
		s.Keys = maps.Clone(v.keys)
	}
	maps.Copy(s.Keys, v.keys)
	if s.Wrong == nil {
		s.Wrong = map[string]int{}
	}
	if s.Runs == nil {
		s.Runs = map[uint64]bool{}
	}
	if s.Last != nil && s.BehindStop != nil && slices.Equal(s.Last.Signature, s.BehindStop.Signature) {
		s.BehindStop = s.Last
	}
	if s.Keyless != nil && len(v.keys) > 0 {
		if s.Unknown == nil && s.Last == nil {
			s.Unknown = s.Keyless
		}
		s.Keyless = nil
	}
}

func (v *verifier) restoreSessions(m *Memory) {
	plain := func(ended bool) func(format.SessionID, uint64) {
		return func(id format.SessionID, last uint64) {
			v.sessions[id] = &session{seen: []format.Span{{First: 1, Last: last}}, ended: ended}
		}
	}
	_ = eachSession(m.Open, plain(false)) // check has read these without an error
	_ = eachSession(m.Background, plain(true))
	for _, s := range m.Sessions {
		v.sessions[s.ID] = &session{s.Seen, s.Explained, s.Ended, s.End}
	}
	count := v.finished.count
	_ = eachSession(m.Finished, v.finished.remember)
	v.finished.count = count
}
