// The rings of the running server: what has not reached the trail yet, and what runs now.

package top

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/recovery"
	"github.com/pg-steno/pg_steno/internal/ring"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Rings are what the rings of a server say together.
type Rings struct {
	Sessions   int       // processes that have a ring
	Running    []Running // those that have run longest
	AllRunning int
	Used       uint64 // bytes that wait for the writers
	Fullest    int    // percent of a ring
	FullPID    uint32 // whose ring that is
	Lag        int64  // microseconds since the end of the oldest record that waits
	Waits      uint64 // of statements, since the server's start
	NewWaits   uint64 // since the last look
	WaitTime   uint64 // microseconds
	Drops      uint64
	NewDrops   uint64
}

// Running is a statement that runs.
type Running struct {
	Session        trail.SessionID
	Known          bool // whose it is
	PID            uint32
	Start          int64
	User, Database string
	Application    string
	Client         string
	What           string
	Text           string
	TextLen        uint64
}

// ringReader finds the ring file of a trail's server, and reads it.
type ringReader struct {
	paths  []string
	filter *query.Filter
	id     uint64         // of the cluster
	owners private.Owners // whose files are trusted
	data   string         // the server's data directory, if the trail is in it

	path string
	file *os.File
	info os.FileInfo
	ring *ring.File
	last *Rings
	why  string
}

// newRingReader looks at whose trail it is.
func newRingReader(t *trail.Trail, o *Options) *ringReader {
	r := &ringReader{paths: o.Rings, filter: o.Filter, owners: private.Owners{0, uint32(os.Geteuid())}}
	for _, s := range t.Streams {
		for _, seg := range s.Segments {
			if r.id == 0 {
				r.id = seg.Header.SystemID
			}
		}
	}
	if info, err := os.Stat(t.Path); err == nil {
		if owner, ok := private.OwnerOf(info); ok {
			r.owners = append(r.owners, owner.UID)
		}
	}
	if dir := filepath.Dir(real(t.Path)); isFile(filepath.Join(dir, "PG_VERSION")) {
		r.data = dir
	}
	return r
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}
	if p, err := filepath.Abs(path); err == nil {
		path = p
	}
	return path
}

// postmaster is the process ID of the server in whose data directory the trail is: 0 if that is not
// known, and none if it does not run. The system identifier is not enough to find a server, because
// a standby has the same one.
func (r *ringReader) postmaster() (pid uint32, none bool) {
	if r.data == "" {
		return 0, false
	}
	text, err := os.ReadFile(filepath.Join(r.data, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, true
	}
	line, _, _ := strings.Cut(string(text), "\n")
	n, _ := strconv.ParseUint(strings.TrimSpace(line), 10, 32)
	return uint32(n), false
}

// read looks at all rings; last is nil afterwards if there are none, and why says so.
func (r *ringReader) read(now int64) {
	if r.file != nil && !r.inUse() {
		r.close()
	}
	if r.file == nil {
		if r.why = r.find(); r.why != "" {
			r.last = nil
			return
		}
	}
	was := r.last
	out := &Rings{}
	matcher := query.Matcher{Filter: r.filter}
	for i := range r.ring.Rings {
		l, err := r.ring.Live(i)
		if err != nil {
			r.close()
			r.last, r.why = nil, "rings: "+err.Error()
			return
		}
		out.add(l, uint64(r.ring.Size), now, &matcher)
	}
	slices.SortFunc(out.Running, func(a, b Running) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID)) })
	out.Running = out.Running[:min(len(out.Running), maxSlow)]
	if was != nil {
		out.NewWaits, out.NewDrops = out.Waits-min(was.Waits, out.Waits), out.Drops-min(was.Drops, out.Drops)
	}
	r.last, r.why = out, ""
}

// add adds a ring, and what runs if it is wanted.
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

// runningOf says what a session runs, also as a record to which a filter can be applied. Whose it
// is stands in the ring as of its tail: of a session that is new, the writer has not read it yet.
func runningOf(l *ring.Live, now int64) (run Running, record trail.Record) {
	run = Running{PID: l.Owner, Start: l.Running.Time, Text: beginning(l.Running.Text), TextLen: l.Running.TextLen}
	record = trail.Record{
		Kind: trail.KindStatement, Outcome: trail.OutcomeRunning, Fields: trail.FieldTime | trail.FieldDuration,
		Session: &trail.Session{PID: l.Owner}, Text: l.Running.Text, SessionIndex: -1, ShapeIndex: -1, TextIndex: -1,
		Statement: l.Running.Statement, Time: l.Running.Time, Duration: uint64(max(now-l.Running.Time, 0)),
	}
	if shape, ok := trail.ParseShape(l.Running.Shape); ok && len(l.Running.Shape) > 0 {
		run.What = string(shape.Command)
		record.Shape = shape
	}
	s, ok := trail.ParseSession(l.Session)
	if !ok || s.PID != l.Owner || l.OwnerStart != 0 && s.Start != l.OwnerStart {
		return run, record
	}
	record.Session = s
	fact := func(k trail.Key) string { return string(s.Fact(k)) }
	run.Session, run.Known = s.ID(), true
	run.User, run.Database, run.Application, run.Client = fact(trail.KeyUser), fact(trail.KeyDatabase), fact(trail.KeyApplication), fact(trail.KeyClient)
	return run, record
}

// inUse says whether the server that uses the file still runs.
func (r *ringReader) inUse() bool {
	now, err := os.Lstat(r.path)
	return err == nil && os.SameFile(now, r.info) && recovery.InUse(r.path, r.info, r.ring.Postmaster)
}

func (r *ringReader) close() {
	r.file.Close()
	r.file, r.ring = nil, nil
}

// find opens the ring file of the server, and says why not.
func (r *ringReader) find() string {
	pid, none := r.postmaster()
	if none {
		return "no rings: the server does not run"
	}
	var unreadable error
	found := 0
	for _, path := range r.paths {
		for _, p := range candidates(path) {
			switch err := r.try(p, pid); {
			case err == nil:
				found++
			case errors.Is(err, errOther), errors.Is(err, fs.ErrNotExist):
			default:
				unreadable = err
			}
		}
	}
	if found > 1 {
		r.close()
		return "no rings: several servers of this cluster run here, name a ring file with --rings"
	}
	if found == 0 && unreadable != nil {
		return "rings cannot be read: " + query.OpenError(unreadable).Error()
	}
	if found == 0 {
		return "no rings in " + strings.Join(r.paths, ", ") + ": the server does not run here"
	}
	return ""
}

// candidates are the ring files at a path: itself, or those in it and in directories of servers
// in it. What cannot be listed is named itself: opening it says why.
func candidates(path string) (all []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return []string{path}
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "pg_steno.") {
			continue
		}
		p := filepath.Join(path, e.Name())
		inside, err := os.ReadDir(p)
		if err != nil || !e.IsDir() {
			all = append(all, p)
			continue
		}
		for _, f := range inside {
			if strings.HasPrefix(f.Name(), "pg_steno.") {
				all = append(all, filepath.Join(p, f.Name()))
			}
		}
	}
	return all
}

var errOther = errors.New("belongs to another server, or to one that has ended")

// isForeign says whether a file belongs to an account that is not the server's of this trail.
func (r *ringReader) isForeign(info fs.FileInfo) bool {
	owner, ok := private.OwnerOf(info)
	return ok && !slices.Contains(r.owners, owner.UID)
}

// try takes a file if the server uses it; pid is that of its postmaster, if that is known.
func (r *ringReader) try(path string, pid uint32) error {
	if info, err := os.Lstat(path); err == nil && r.isForeign(info) {
		return errOther
	}
	dir, err := private.OpenDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	file, err := dir.Open(filepath.Base(path))
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		if wrong := r.owners.Check(info); wrong != nil {
			err = fmt.Errorf("%s: %w", path, wrong)
		}
	}
	var f *ring.File
	if err == nil {
		f, err = ring.Read(path, file, info.Size())
	}
	if err == nil && (f.SystemID != r.id || pid != 0 && f.Postmaster != pid || !recovery.InUse(path, info, f.Postmaster)) {
		err = errOther
	}
	// a postmaster that has restarted its processes has made a new one
	again := err == nil && r.file != nil && r.ring.Postmaster == f.Postmaster
	if again && r.ring.Created > f.Created {
		err = errOther
	}
	if err != nil {
		file.Close()
		return err
	}
	if r.file != nil {
		r.close()
	}
	r.path, r.file, r.info, r.ring = path, file, info, f
	if again {
		return errOther // it was counted
	}
	return nil
}
