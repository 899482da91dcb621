// The rings of the running server: what has not reached the trail yet, and what runs now.

package top

import (
	"cmp"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/live"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/ring"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Rings sums up the rings of a server.
type Rings struct {
	Sessions   int       // processes that have a ring
	Running    []Running // the longest-running statements
	AllRunning int
	Used       uint64 // bytes that wait for the writers
	Fullest    int    // percent of a ring
	FullPID    uint32 // whose ring that is
	Lag        int64  // microseconds since the end of the oldest record that waits
	Waits      uint64 // of statements, since the server's start
	NewWaits   uint64 // since the last reading
	WaitTime   uint64 // microseconds
	Drops      uint64
	NewDrops   uint64
}

// Running is a running statement.
type Running struct {
	Session        format.SessionID
	Known          bool // its user and database are known
	PID            uint32
	Start          int64
	User, Database string
	Application    string
	Client         string
	What           string
	Text           string
	TextLen        uint64
}

// ringReader reads the ring file of a trail's server.
type ringReader struct {
	server  *live.Finder
	filter  *query.Filter
	last    *Rings
	noRings string
}

func newRingReader(t *trail.Trail, o *Options) *ringReader {
	return &ringReader{server: live.New(t, o.Rings), filter: o.Filter}
}

// read reads all rings. If there are none, last is nil afterwards, and noRings says why.
func (r *ringReader) read(now int64) {
	if r.server.Ring != nil && !r.server.InUse() {
		r.server.Close()
	}
	if r.server.Ring == nil {
		if r.noRings = r.server.Find(); r.noRings != "" {
			r.last = nil
			return
		}
	}
	was := r.last
	out := &Rings{}
	matcher := query.Matcher{Filter: r.filter}
	for i := range r.server.Ring.Rings {
		l, err := r.server.Ring.Live(i)
		if err != nil {
			r.server.Close()
			r.last, r.noRings = nil, "rings: "+err.Error()
			return
		}
		out.add(l, uint64(r.server.Ring.Size), now, &matcher)
	}
	slices.SortFunc(out.Running, func(a, b Running) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
	out.Running = out.Running[:min(len(out.Running), maxSlow)]
	if was != nil {
		out.NewWaits, out.NewDrops = out.Waits-min(was.Waits, out.Waits), out.Drops-min(was.Drops, out.Drops)
	}
	r.last, r.noRings = out, ""
}

// add adds a ring, and its running statement if that matches wanted.
func (r *Rings) add(l *ring.Live, size uint64, now int64, wanted *query.Matcher) {
	if l.Owner != 0 {
		r.Sessions++
	}
	r.Waits += l.Waits
	r.WaitTime += l.WaitTime
	r.Drops += l.Drops
	used := min(l.Used(), size)
	r.Used += used
	if percent := int(used * 100 / size); percent > r.Fullest {
		r.Fullest, r.FullPID = percent, l.Owner
	}
	if l.Oldest != 0 && l.Oldest > now-maxAhead {
		r.Lag = max(r.Lag, now-l.Oldest)
	}
	if l.Running != nil {
		run, record := runningOf(l, now)
		if wanted.Keep(&record) {
			r.AllRunning++
			r.Running = append(r.Running, run)
		}
	}
}

// runningOf returns a session's running statement, also as a record to which a filter can be applied. The session's
// user and database are not known while the writer has not read the ring of a new session.
func runningOf(l *ring.Live, now int64) (run Running, record format.Record) {
	run = Running{PID: l.Owner, Start: l.Running.Time, Text: beginning(l.Running.Text), TextLen: l.Running.TextLen}
	record = format.Record{
		Kind: format.KindStatement, Outcome: format.OutcomeRunning, Fields: format.FieldTime | format.FieldDuration,
		Session: &format.Session{PID: l.Owner}, Text: l.Running.Text, SessionIndex: -1, ShapeIndex: -1, TextIndex: -1,
		Statement: l.Running.Statement, Time: l.Running.Time, Duration: uint64(max(now-l.Running.Time, 0)),
	}
	if shape, ok := format.ParseShape(l.Running.Shape); ok && len(l.Running.Shape) > 0 {
		run.What = string(shape.Command)
		record.Shape = shape
	}
	s, ok := format.ParseSession(l.Session)
	if !ok || s.PID != l.Owner || l.OwnerStart != 0 && s.Start != l.OwnerStart {
		return run, record
	}
	record.Session = s
	fact := func(k format.Key) string { return string(s.Fact(k)) }
	run.Session, run.Known = s.ID(), true
	run.User, run.Database, run.Application, run.Client = fact(format.KeyUser), fact(format.KeyDatabase),
		fact(format.KeyApplication), fact(format.KeyClient)
	return run, record
}
