// The ring file: header, rings and intents.

package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// File is a ring file.
type File struct {
	Path       string
	Version    uint32
	Rings      int    // number of rings
	Size       uint32 // bytes of data in each ring
	Writers    int    // ring i belongs to writer i mod Writers
	Postmaster uint32 // process id
	SystemID   uint64
	Created    int64 // microseconds since 2000-01-01 UTC
	Intents    []Intent

	r           io.ReaderAt
	layout      *layout
	ringsAt     int64
	templatesAt int64
	dataAt      int64
	chunksAt    int64
	chunks      uint32 // number of chunks
}

// Intent is the block that a writer was about to write when it died. When the block is in the trail, its rings
// are free up to their pending position.
type Intent struct {
	Writer  int
	Valid   uint32
	Stream  uint32
	Segment uint64
	Offset  uint64
	Block   uint64
	Hash    [32]byte
}

// Ends returns the number of rings whose sessions the block ends; 0: it is a block of messages.
func (in *Intent) Ends() int {
	if in.Valid < intentEnds {
		return 0
	}
	return int(in.Valid - intentEnds)
}

// Frees returns whether a ring is free up to its pending position once the block is in the trail.
func (in *Intent) Frees(f *File, ring int) bool {
	if in.Valid != intentMessages {
		return false
	}
	return in.ByRecovery() || ring%f.Writers == in.Writer
}

// ByRecovery returns whether the intent is that of a server that recovers the file.
func (in *Intent) ByRecovery() bool { return in.Writer == recoveryIntent }

// VersionError says that a ring file has a version that this program cannot read.
type VersionError struct {
	Path    string
	Version uint32
}

func (e *VersionError) Error() string {
	known := make([]string, 0, len(layouts))
	for _, v := range slices.Sorted(maps.Keys(layouts)) {
		known = append(known, fmt.Sprint(v))
	}
	return fmt.Sprintf("%s: ring file has version %d, but this program reads %s: use the steno of the server's "+
		"version, or start that server", e.Path, e.Version, strings.Join(known, ", "))
}

// ErrNoRingFile says that a file is not a ring file.
var ErrNoRingFile = errors.New("not a ring file")

// ErrUnfinished says that the server died while it created the ring file, so that it contains nothing.
var ErrUnfinished = errors.New("ring file was never completed")

// bytesOf is an encoded struct, whose fields are read by name.
type bytesOf struct {
	b      []byte
	fields map[string]field
}

func (s bytesOf) uint(name string) uint64 {
	f := s.fields[name]
	switch f.size {
	case 2:
		return uint64(binary.LittleEndian.Uint16(s.b[f.offset:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(s.b[f.offset:]))
	default:
		return binary.LittleEndian.Uint64(s.b[f.offset:])
	}
}

func (s bytesOf) bytes(name string) []byte {
	f := s.fields[name]
	return s.b[f.offset : f.offset+f.size]
}

func roundUp(n int64) int64 { return (n + page - 1) &^ (page - 1) }

// Read reads and checks the header of a ring file of a size. Every ring must be within it. The rings are read
// from r when needed.
func Read(path string, r io.ReaderAt, size int64) (*File, error) {
	no := fmt.Errorf("%s: %w", path, ErrNoRingFile)
	if size < page || size > maxFile {
		return nil, no
	}
	head := make([]byte, page)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// The positions of these two are the same in all versions.
	switch binary.LittleEndian.Uint64(head) {
	case magic:
	case 0:
		return nil, fmt.Errorf("%s: %w", path, ErrUnfinished)
	default:
		return nil, no
	}
	version := binary.LittleEndian.Uint32(head[8:])
	l := layouts[version]
	if l == nil {
		return nil, &VersionError{path, version}
	}
	if size < int64(l.fileSize) {
		return nil, fmt.Errorf("%s: ring file is damaged: it is %d bytes long", path, size)
	}
	head = make([]byte, l.fileSize)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := bytesOf{head, l.file}
	f := &File{
		Path: path, Version: version, r: r, layout: l,
		Rings: int(s.uint("nrings")), Size: uint32(s.uint("size")), Writers: int(s.uint("nwriters")),
		Postmaster: uint32(s.uint("postmaster")), SystemID: s.uint("system_identifier"),
		Created: int64(s.uint("created")),
	}
	f.ringsAt = roundUp(int64(l.fileSize))
	f.templatesAt = f.ringsAt + int64(f.Rings)*int64(l.ringSize)
	f.dataAt = roundUp(f.templatesAt + int64(f.Rings)*int64(l.templates*l.templateSize))
	total := f.dataAt + int64(f.Rings)*int64(f.Size)
	chunksAreWrong := false
	if l.chunks {
		f.chunks = uint32(s.uint("chunks"))
		f.chunksAt = roundUp(roundUp(total) + 8*int64(f.chunks))
		total = f.chunksAt + int64(f.chunks)*chunkSize
		chunksAreWrong = f.chunks > maxChunks || s.uint("chunk_size") != chunkSize ||
			s.uint("chunks_offset") != uint64(f.chunksAt)
	}
	switch {
	case s.uint("ring_stride") != uint64(l.ringSize):
		return nil,
			fmt.Errorf("%s: ring file of version %d whose rings are %d bytes apart instead of %d: it was created "+
				"by a different build", path, version, s.uint("ring_stride"), l.ringSize)
	case f.Rings == 0, f.Size < minSize, f.Size > maxSize, f.Size&(f.Size-1) != 0, f.Writers == 0,
		f.Writers > maxWriters,
		s.uint("rings_offset") != uint64(f.ringsAt), l.template != nil &&
			s.uint("templates_offset") != uint64(f.templatesAt),
		s.uint("data_offset") != uint64(f.dataAt), chunksAreWrong, s.uint("total") != uint64(total):
		return nil, fmt.Errorf("%s: ring file is damaged: its header is invalid", path)
	case total != size:
		return nil, fmt.Errorf("%s: ring file is damaged: it is %d bytes long instead of %d", path, size, total)
	}
	f.readIntents(s.bytes("intents"))
	return f, nil
}

// readIntents reads the intents, and keeps the valid ones.
func (f *File) readIntents(b []byte) {
	for i := range maxWriters {
		s := bytesOf{b[i*f.layout.intentSize:], f.layout.intent}
		if s.uint("valid") == 0 {
			continue
		}
		in := Intent{
			Writer: i, Valid: uint32(s.uint("valid")), Stream: uint32(s.uint("stream")),
			Segment: s.uint("segment"), Offset: s.uint("offset"), Block: s.uint("block"),
		}
		copy(in.Hash[:], s.bytes("hash"))
		f.Intents = append(f.Intents, in)
	}
}

// Ring is a ring with its header.
type Ring struct {
	Head, Tail      uint64
	Drops           uint64 // all dropped records
	Pending         uint64
	OrphanDropsNext uint64 // value of OrphanDrops after the own gap is added
	// Records dropped by sessions that have ended, without those in Left.
	OrphanDrops       uint64
	OrphanDropsReason uint64 // as in a gap
	// How many of OrphanDrops the trail has recorded, and how many it has if pending is free.
	OrphanDropsRecorded, OrphanDropsPending uint64
	Left                                    Gap    // of a session that has ended
	Own                                     Gap    // of the present session
	OwnerEnded                              bool   // Left has, or had, the end of the owner's session
	Owner                                   uint32 // process id; 0: none
	OwnerStart                              int64  // of its session; 0: not known
	Session                                 []byte // body of the session definition that applies at Tail
	SessionSeq                              uint64
	SessionStatement                        uint64
	InFlight                                InFlight

	ownIsLeft bool // the gap of the owner may be the one that is, or was, in Left
	data      []byte
	size      uint64
	templates []template // nil: the file has none
	file      *File      // which has the chunks
	longXIDs  bool       // since version 6, messages have transaction IDs of 64 bits
	// Since version 7, brief records lack the numbers that follow from the previous records.
	shortBriefs  bool
	nestedBriefs bool // since version 8, statements of functions have brief records, too
	times        bool // since version 10, records may end with StenoTimes
}

// template has what all records of a statement have in common: a prepared statement, one of a function, or one
// that a client repeats.
type template struct {
	version     uint16
	shape, text []byte // nil: the lengths are not valid
	// Since version 9, records may have their own part of the text, after so many bytes of it.
	varies bool
	before int
}

// Gap stands for dropped records that no gap record has reported.
type Gap struct {
	Count       uint64 // 0: none
	First, Last uint64 // sequence numbers
	Reason      uint64
	// The session of the gap, if PID is not 0; otherwise the last one that was described.
	Start int64
	PID   uint32
	// Since version 10: when the session ended, if its disconnect record was dropped, too; 0: it was not.
	// SQLState is the reason for the end; empty: it was a normal end.
	Ended    int64
	SQLState string
}

// Values of StenoInFlight.active.
const (
	running = 1 + iota
	idle
	idleCounted
)

// InFlight is the statement that a session was running.
type InFlight struct {
	Active    bool
	Idle      bool // since version 10: a portal waits for its client, which has what it has delivered
	Counted   bool // with Idle: the staged record has the numbers for what was delivered
	Done      uint64
	Statement uint64
	Time      int64
	TextLen   uint32 // full length of the text
	Staged    bool
	Position  uint64
	Text      []byte // as much of the text as there is
}

// Ring reads a ring.
func (f *File) Ring(i int) (*Ring, error) {
	header := make([]byte, f.layout.ringSize)
	if _, err := f.r.ReadAt(header, f.ringsAt+int64(i)*int64(f.layout.ringSize)); err != nil {
		return nil, err
	}
	s := bytesOf{header, f.layout.ring}
	r := &Ring{
		Head: s.uint("head"), Tail: s.uint("tail"), Pending: s.uint("pending"),
		Left:  Gap{Count: s.uint("gap"), First: s.uint("gap_first"), Last: s.uint("gap_last")},
		Owner: uint32(s.uint("owner")), SessionSeq: s.uint("session_seq"),
		SessionStatement: s.uint("session_statement"),
		size:             uint64(f.Size), file: f,
	}
	if f.Version >= 3 {
		r.Left.Reason, r.Left.Start, r.Left.PID = s.uint("gap_reason"), int64(s.uint("gap_start")),
			uint32(s.uint("gap_pid"))
		r.Own = Gap{
			Count:  s.uint("own_gap"),
			First:  s.uint("own_first"),
			Last:   s.uint("own_last"),
			Reason: s.uint("gap_reason"),
		}
		r.OwnerStart = int64(s.uint("owner_start"))
		r.OrphanDrops, r.OrphanDropsRecorded, r.OrphanDropsPending, r.OrphanDropsNext = s.uint("orphan_drops"),
			s.uint("orphan_drops_recorded"), s.uint("orphan_drops_pending"), s.uint("orphan_drops_next")
		r.OrphanDropsReason = s.uint("orphan_drops_reason")
	}
	r.ownIsLeft = r.Left.Count != 0
	if f.Version >= 10 {
		r.ownIsLeft = s.uint("gaps_left") != 0
		r.Left.Ended, r.Left.SQLState = int64(s.uint("gap_ended")), sqlState(uint32(s.uint("gap_sqlstate")))
		r.OwnerEnded = r.ownIsLeft && r.Left.Ended != 0 && r.Left.PID == r.Owner && r.Left.Start == r.OwnerStart
		if s.uint("gaps_left") == s.uint("gaps_recorded") {
			r.Left.Count, r.Left.Ended = 0, 0
		}
	}
	r.Drops = s.uint("drops")
	r.Session = s.bytes("session")
	r.settleGaps()
	if n := s.uint("session_len"); n <= sessionMax {
		r.Session = r.Session[:n]
	} else {
		r.Session = r.Session[:write.SessionFacts] // at least the session is known
	}
	r.longXIDs, r.shortBriefs, r.nestedBriefs, r.times = f.Version >= 6, f.Version >= 7,
		f.Version >= 8, f.Version >= 10
	s = bytesOf{s.bytes("inflight"), f.layout.inFlight}
	text := s.bytes("text")
	r.InFlight = InFlight{
		Active: s.uint("active") != 0, Idle: s.uint("active") >= idle, Counted: s.uint("active") == idleCounted,
		Done: s.uint("done"), Statement: s.uint("statement"), Time: int64(s.uint("time")),
		TextLen: uint32(s.uint("text_len")), Staged: s.uint("staged") != 0, Position: s.uint("position"),
		Text: text[:min(s.uint("text_kept"), uint64(len(text)))],
	}
	if r.Used() == 0 && !r.InFlight.Staged {
		return r, nil
	}
	r.data = make([]byte, f.Size)
	if _, err := f.r.ReadAt(r.data, f.dataAt+int64(i)*int64(f.Size)); err != nil {
		return nil, err
	}
	return r, f.readTemplates(r, i)
}

// chunk reads the first n bytes of a chunk; ok is false if it does not exist.
func (f *File) chunk(number, n uint32) (b []byte, ok bool) {
	if f == nil || number >= f.chunks || n > chunkSize {
		return nil, false
	}
	b = make([]byte, n)
	_, err := f.r.ReadAt(b, f.chunksAt+int64(number)*chunkSize)
	return b, err == nil
}

func (f *File) readTemplates(r *Ring, i int) error {
	l := f.layout
	if l.template == nil {
		return nil
	}
	b := make([]byte, l.templates*l.templateSize)
	if _, err := f.r.ReadAt(b, f.templatesAt+int64(i)*int64(len(b))); err != nil {
		return err
	}
	r.templates = make([]template, l.templates)
	for n := range r.templates {
		s := bytesOf{b[n*l.templateSize:], l.template}
		t := &r.templates[n]
		t.version = uint16(s.uint("version"))
		shape, text, all := s.uint("shape_len"), s.uint("text_len"), s.bytes("bytes")
		own := uint64(0)
		if _, ok := l.template["own_at"]; ok {
			own = s.uint("own_at")
		}
		if shape > 0 && shape+text <= uint64(len(all)) && own <= text+1 {
			t.shape, t.text = all[:shape:shape], all[shape:shape+text:shape+text]
			t.varies, t.before = own > 0, int(own)-1
		}
	}
	return nil
}

// sqlState unpacks an SQLSTATE of the server: five characters of six bits each.
func sqlState(packed uint32) string {
	if packed == 0 {
		return ""
	}
	var b [5]byte
	for i := range b {
		b[i] = byte(packed>>(6*i)&0x3f) + '0'
	}
	return string(b[:])
}

// Used returns how many published bytes the ring has.
func (r *Ring) Used() uint64 { return r.Head - r.Tail }

// PositionsArePossible returns whether head and tail are consistent.
func (r *Ring) PositionsArePossible() bool {
	return r.Head == r.Tail || r.Head >= r.Tail && r.Used() <= r.size && r.Head%8 == 0 && r.Tail%8 == 0
}

// Numbers returns how many records the gap's sequence numbers stand for; ok is false if that contradicts the
// count. A process that died while counting may have counted one more or less.
func (g *Gap) Numbers() (n uint64, ok bool) {
	n = g.Last - g.First + 1
	return n, g.First > 0 && g.Last < ^uint64(0)-1 && g.Last+1 >= g.First && g.Count <= n+1 && n <= g.Count+1
}

// UnrecordedDrops returns how many dropped records of ended sessions the trail has not recorded yet; ok is false if the
// numbers are not possible.
func (r *Ring) UnrecordedDrops(recorded uint64) (n uint64, ok bool) {
	return r.OrphanDrops - recorded, recorded == r.OrphanDrops || recorded < r.OrphanDrops && r.OrphanDrops <= r.Drops
}

// settleGaps removes from the own gap what its session, which is about to end, has already moved to Left or
// OrphanDrops.
func (r *Ring) settleGaps() {
	left := r.Left.PID == r.Owner && r.Left.Start == r.OwnerStart
	if left && r.ownIsLeft || r.OrphanDropsNext != 0 && r.OrphanDropsNext == r.OrphanDrops {
		r.Own.Count = 0
	}
}

// Interrupted returns whether the in-flight statement had not ended.
func (r *Ring) Interrupted() bool {
	f := &r.InFlight
	return f.Active && (f.Done == 0 || r.Head < f.Done)
}
