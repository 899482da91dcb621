// Rings of a running server.

package ring

import (
	"encoding/binary"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// Live is the state of a ring while its owner and its writer use it. Each number is right, but they may be of
// slightly different times.
type Live struct {
	Owner      uint32 // process id; 0: none
	OwnerStart int64  // of its session; 0: not known
	Head, Tail uint64
	Records    uint64 // since the server's start, like the following ones
	Waits      uint64 // of statements, for space in the ring
	WaitTime   uint64 // in microseconds
	Drops      uint64
	Session    []byte   // body of the session definition at Tail, perhaps of a session that has ended
	Running    *Running // nil: the owner runs no statement
	Oldest     int64    // end of the first record that is not in the trail; 0: none, or not known
}

// Running is a statement that a session runs.
type Running struct {
	Statement uint64
	Time      int64
	Text      []byte // as much of it as there is
	TextLen   uint64 // its full length
	Shape     []byte // body; empty: not known yet
}

// Used returns how many published bytes wait for the writer.
func (l *Live) Used() uint64 { return l.Head - min(l.Tail, l.Head) }

// copyTries is how often an in-flight entry is copied that changes meanwhile. If all copies fail, the session's
// statements are so short that none counts as running.
const copyTries = 4

// Live reads a ring of a server that may be running.
func (f *File) Live(i int) (*Live, error) {
	at := f.ringsAt + int64(i)*int64(f.layout.ringSize)
	header := make([]byte, f.layout.ring["session"].offset+sessionMax)
	version := header[f.layout.ring["inflight"].offset:][:4]
	again := make([]byte, len(version))
	var l *Live
	for range copyTries {
		if _, err := f.r.ReadAt(header, at); err != nil {
			return nil, err
		}
		l = f.counters(header)
		if l.Owner == 0 && l.Used() == 0 {
			return l, nil
		}
		r := &Ring{
			size:         uint64(f.Size),
			file:         f,
			longXIDs:     f.Version >= 6,
			shortBriefs:  f.Version >= 7,
			nestedBriefs: f.Version >= 8,
			times:        f.Version >= 10,
		}
		if err := f.readTemplates(r, i); err != nil {
			return nil, err
		}
		running := f.running(r, header, l, i)
		// The writers of an entry make its version odd before they change it, and even after.
		if _, err := f.r.ReadAt(again, at+int64(f.layout.ring["inflight"].offset)); err != nil {
			return nil, err
		}
		if version[0]&1 == 0 && string(version) == string(again) {
			l.Running = running
			l.Oldest = f.oldest(r, l, i)
			return l, nil
		}
	}
	return l, nil
}

func (f *File) counters(header []byte) *Live {
	s := bytesOf{header, f.layout.ring}
	l := &Live{
		Owner: uint32(s.uint("owner")), Tail: s.uint("tail"), Head: s.uint("head"),
		Records: s.uint("records"), Waits: s.uint("waits"), WaitTime: s.uint("wait_us"), Drops: s.uint("drops"),
	}
	if f.Version >= 3 {
		l.OwnerStart = int64(s.uint("owner_start"))
	}
	if n := s.uint("session_len"); n <= sessionMax {
		l.Session = append([]byte(nil), s.bytes("session")[:n]...)
	}
	return l
}

// running reads the in-flight entry and the staged record.
func (f *File) running(r *Ring, header []byte, l *Live, i int) *Running {
	s := bytesOf{bytesOf{header, f.layout.ring}.bytes("inflight"), f.layout.inFlight}
	if l.Owner == 0 || s.uint("active") != running || s.uint("done") != 0 {
		return nil
	}
	run := &Running{Statement: s.uint("statement"), Time: int64(s.uint("time")), TextLen: s.uint("text_len")}
	if s.uint("staged") == 0 {
		text := s.bytes("text")
		run.Text = append(run.Text, text[:min(s.uint("text_kept"), uint64(len(text)))]...)
		return run
	}
	m, ok := f.messageAt(r, i, s.uint("position"), run.Statement-1)
	if ok && m.Kind == format.KindStatement && m.Record.Statement == run.Statement && m.Record.Time == run.Time {
		run.Text, run.TextLen, run.Shape = m.Record.Text, uint64(len(m.Record.Text)), m.Record.Shape
		if m.Record.HasCut {
			run.TextLen = m.Record.CutLength
		}
	}
	return run
}

// messageAt reads a copy of the message at a position.
func (f *File) messageAt(r *Ring, i int, position, statement uint64) (m Message, ok bool) {
	offset := position % r.size
	data := make([]byte, min(r.size-offset, r.size/share))
	if offset%8 != 0 {
		return m, false
	}
	if _, err := f.r.ReadAt(data, f.dataAt+int64(i)*int64(f.Size)+int64(offset)); err != nil {
		return m, false
	}
	return r.parse(data, 0, statement)
}

// oldest returns when the first record that waits for the writer ended. It is not known if the writer has moved
// that record meanwhile, because its bytes may have been overwritten.
func (f *File) oldest(r *Ring, l *Live, i int) int64 {
	const looked = 4 // messages: usually, a record follows a filler, a session and a data part
	position := l.Tail
	for range looked {
		if position >= l.Head {
			return 0
		}
		m, ok := f.messageAt(r, i, position, 0)
		if !ok {
			return 0
		}
		if m.Kind.IsRecord() {
			if !f.tailIs(l.Tail, i) {
				return 0
			}
			switch {
			case m.Kind != format.KindStatement:
			case m.Record.Times.Known&format.KnownElapsed != 0:
				return m.Record.Time + int64(m.Record.Times.Elapsed)
			case m.Record.Duration != write.None:
				return m.Record.Time + int64(m.Record.Duration)
			}
			return m.Record.Time
		}
		position += m.Length
	}
	return 0
}

// tailIs returns whether the writer has freed nothing since the tail was read.
func (f *File) tailIs(tail uint64, i int) bool {
	field := f.layout.ring["tail"]
	now := make([]byte, field.size)
	_, err := f.r.ReadAt(now, f.ringsAt+int64(i)*int64(f.layout.ringSize)+int64(field.offset))
	return err == nil && binary.LittleEndian.Uint64(now) == tail
}
