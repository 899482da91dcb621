// Package export writes the records of a trail to files for other programs, with a manifest
// that says what they are, and checks files against their manifest.
//
// In the order in which an export passes them:
//
//	place.go     the directory, the names in it, and what may be there
//	journal.go   the plan of the export, and which steps are done
//	range.go     the blocks and days of the export, and the hash chain of the blocks
//	export.go    the files, one after the other, and the end
//	write.go     a file in each format
//	manifest.go  the manifest, its signature, and checks
//
// It reads records with packages trail and query, and writes Parquet files and databases with package sql.
//
// What must stay true: the process may be killed at any time. A file gets its name when it is complete and on
// disk, and then a line in the journal. When all files have their names, the slot is advanced, then the manifest
// is written, and the journal is removed last. So each step is either done, or is done again. Only the process
// that has locked the journal works on the export.
package export

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/sql"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Formats are the formats of exports.
var Formats = []string{"parquet", "csv", "jsonl", "duckdb"}

// Compressions are the compressions of Parquet files.
var Compressions = []string{"zstd", "snappy"}

// Request is an export as the user has asked for it. Only the same request resumes an unfinished export.
type Request struct {
	Format      string              `json:"format"`
	Compression string              `json:"compression,omitempty"`
	CSVSafe     bool                `json:"csv_safe,omitempty"`
	Trails      []string            `json:"trails"`
	Since       string              `json:"since,omitempty"`
	Until       string              `json:"until,omitempty"`
	Filters     map[string][]string `json:"filters,omitempty"`
	Slot        string              `json:"slot,omitempty"`
}

// Options are a request, and how to carry it out.
type Options struct {
	Request
	Path string
	// Criteria and Within are the parsed filters and times of the request.
	Criteria query.Criteria
	Within   query.Range
	Keys     query.KeyOptions
	Sign     ed25519.PrivateKey // nil: the manifest is not signed
	Restart  bool
	Memory   string // DuckDB's memory limit
	Program  string
	Now      time.Time
	// Say receives messages for the user, and Warn what is wrong in the trail.
	Say  func(string)
	Warn func(Problem)

	step func(name string) // called after each step, where tests kill the process
}

// run is an export in progress.
type run struct {
	*Options
	*place
	journal *journal
	plan    *plan
	trail   *trail.Trail
	index   *trail.Index
	filter  *query.Filter
	within  query.Range
	feed    *slot.Feed
	db      *sql.DB
	servers func() *trail.Servers

	seen     map[string]bool
	problems []Problem // found since the last line of the journal
	unread   error
}

// ErrNotOneTrail says that an export from a slot needs a single trail.
var ErrNotOneTrail = errors.New("a slot is that of a single trail")

// UnfinishedError says why an unfinished export cannot be resumed. It can be discarded.
type UnfinishedError struct {
	// OtherRequest says that a different request, which the text states, has begun the export and can resume
	// it.
	OtherRequest bool
	text         string
}

func (e *UnfinishedError) Error() string { return e.text }

func unfinished(format string, args ...any) error {
	return &UnfinishedError{text: fmt.Sprintf(format, args...)}
}

// errNothing says that the slot has nothing new.
var errNothing = errors.New("nothing new")

// Run carries out an export, or the rest of an unfinished one. The manifest is nil if the slot has nothing new.
func Run(ctx context.Context, o *Options) (m *Manifest, name string, err error) {
	r := &run{Options: o, filter: o.Criteria.Filter(), within: o.Within, seen: map[string]bool{}}
	if r.step == nil {
		r.step = func(string) {}
	}
	if r.trail, err = o.Keys.OpenEncrypted(o.Trails); err != nil {
		return nil, "", err
	}
	if r.place, err = newPlace(o.Format, o.Path, o.Trails); err != nil {
		return nil, "", err
	}
	if o.Slot != "" {
		if !r.trail.Whole || r.trail.Path == "" {
			return nil, "", ErrNotOneTrail
		}
		if r.feed, err = slot.OpenFeed(r.trail.Path, o.Slot); err != nil {
			return nil, "", err
		}
	}
	r.index = r.trail.Index()
	r.servers = sync.OnceValue(r.index.Servers)
	if err := r.begin(ctx); err != nil {
		if errors.Is(err, errNothing) {
			err = nil
		}
		return nil, "", err
	}
	defer r.journal.close()
	if err := r.files(ctx); err != nil {
		return nil, "", err
	}
	return r.finish()
}

// begin loads the plan of an unfinished export, or makes a plan.
func (r *run) begin(ctx context.Context) (err error) {
	made := false
	if r.base == "" {
		if err := os.Mkdir(r.dir, 0o700); err == nil {
			made = true
		} else if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	info, err := os.Lstat(r.place.journal())
	resumes := err == nil && info.Size() > 0
	if err == nil && !info.Mode().IsRegular() {
		return exit.Usagef("%s is not a regular file", r.place.journal())
	}
	if !resumes {
		if _, err := r.inspect(r.Slot != ""); err != nil {
			return err
		}
	}
	if r.journal, err = openJournal(r.place.journal()); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		if r.journal.currentPlan() == nil { // nothing was begun
			r.journal.remove()
			if made {
				os.Remove(r.dir)
			}
		}
		r.journal.close()
	}()
	if r.Restart {
		if err := r.discard(); err != nil {
			return err
		}
	}
	if r.plan = r.journal.currentPlan(); r.plan != nil {
		if err = r.resume(ctx); err != nil {
			return err
		}
		return r.sweep(r.plan.Number, r.done())
	}
	if err := r.newPlan(ctx); err != nil {
		return err
	}
	if err = r.journal.add(entry{Plan: r.plan}); err == nil {
		err = syncDir(r.dir)
	}
	r.step("planned")
	return err
}

// newPlan makes the plan of a new export.
func (r *run) newPlan(ctx context.Context) error {
	n, err := r.inspect(r.Slot != "")
	if err != nil {
		return err
	}
	if r.base != "" && r.Slot != "" {
		n = 0
	}
	p := &plan{
		Request: r.Request,
		Created: r.Now.UTC().Format(time.RFC3339),
		Number:  n,
		Since:   r.within.Since,
		Until:   r.within.Until,
	}
	var wanted func(*trail.BlockRef) bool
	if r.feed != nil {
		wanted = func(b *trail.BlockRef) bool { return b.Number >= r.feed.From(b.Segment.Stream.Number) }
		p.SlotFrom, p.SlotTo = r.feed.Positions(), r.index.Places()
		if r.feed.IsAt(p.SlotFrom, p.SlotTo) {
			return errNothing
		}
	}
	e, err := measure(ctx, r.index, r.filter, r.within, wanted)
	if err != nil {
		return err
	}
	p.Days, p.Streams, p.ChainDamage, p.Gaps = e.days, e.streams, e.damage, e.gaps
	if paths := map[string]bool{}; slices.ContainsFunc(p.Streams, func(s Stream) bool {
		twice := paths[s.Path]
		paths[s.Path] = true
		return twice
	}) {
		return exit.Usagef("a stream is named twice")
	}
	r.plan = p
	return nil
}

// resume checks that an unfinished export has the same request, and that the trail still has what is left to
// read.
func (r *run) resume(ctx context.Context) error {
	p := r.plan
	asked, _ := json.Marshal(r.Request)
	begun, _ := json.Marshal(p.Request)
	if string(asked) != string(begun) {
		return &UnfinishedError{true,
			fmt.Sprintf("%s has an unfinished export with other options: %s", r.path, begun)}
	}
	if slices.ContainsFunc(r.journal.lines, func(e entry) bool { return e.Moved }) {
		return unfinished("slot %q was moved while this export was written: somebody else may have exported the "+
			"same records", r.Slot)
	}
	advanced := slices.ContainsFunc(r.journal.lines, func(e entry) bool { return e.Advanced })
	if r.feed != nil && !advanced && !reflect.DeepEqual(r.feed.Positions(), p.SlotFrom) &&
		!(r.complete() && r.feed.IsAt(p.SlotFrom, p.SlotTo)) {
		return unfinished("slot %q is not where the unfinished export in %s began", r.Slot, r.path)
	}
	r.within = query.Range{Since: p.Since, Until: p.Until}
	r.Say(fmt.Sprintf("resuming the export of %s: %d of %d files were written", p.Created, len(r.done()),
		max(1, len(p.Days))))
	if r.complete() {
		return nil
	}
	e, err := measure(ctx, r.index, r.filter, r.within, blocksOf(p.Streams))
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(e.streams, p.Streams) {
		return unfinished("the trail no longer has the blocks that it had when this export began")
	}
	return nil
}

// discard removes an unfinished export.
func (r *run) discard() error {
	p := r.journal.currentPlan()
	if p == nil {
		return nil
	}
	if p.Request.Format != r.Format {
		return misplaced("%s has an unfinished export in format %s", r.path, p.Request.Format)
	}
	if _, err := os.Lstat(r.pathOf(r.manifest(p.Number))); errors.Is(err, os.ErrNotExist) {
		if err := r.sweep(p.Number, nil); err != nil {
			return err
		}
	}
	if err := r.journal.file.Truncate(0); err != nil {
		return err
	}
	r.journal.lines = nil
	_, err := r.journal.file.Seek(0, 0)
	return err
}

// done returns the files that have their names.
func (r *run) done() (names []string) {
	for _, e := range r.journal.lines {
		if e.File != nil {
			names = append(names, e.File.Name)
		}
	}
	return names
}

// days returns the days for each of which the export has a file; one entry if it has a single file.
func (r *run) days() []int64 {
	if r.base != "" {
		return []int64{0}
	}
	return r.plan.Days
}

func (r *run) complete() bool { return len(r.done()) == len(r.days()) }

// files writes the missing files.
func (r *run) files(ctx context.Context) error {
	defer func() {
		if r.db != nil {
			r.db.Close()
		}
	}()
	for _, p := range r.plan.ChainDamage {
		r.noteProblem(p)
	}
	for _, e := range r.journal.lines {
		for _, p := range e.Problems {
			r.noteProblem(p)
		}
	}
	r.problems = nil
	done := r.done()
	for _, d := range r.days() {
		name := r.file(r.plan.Number, d)
		if slices.Contains(done, name) {
			continue
		}
		f, err := r.writeFile(ctx, name, d)
		if err != nil {
			return err
		}
		if err := r.journal.add(entry{File: f, Problems: r.problems}); err != nil {
			return err
		}
		r.problems = nil
		r.step("noted " + name)
	}
	return r.warnOfNames(ctx)
}

// warnOfNames warns of names in the filters that occur nowhere, and of names that objects had only at other
// times.
func (r *run) warnOfNames(ctx context.Context) error {
	for _, warning := range r.filter.RenamedOutside(ctx, r.index, r.plan.Since, r.plan.Until) {
		r.warn(warning)
	}
	for _, missing := range query.NewNames(&r.Criteria).Search(ctx, r.index) {
		r.warn(missing)
	}
	if len(r.problems) == 0 {
		return nil
	}
	defer func() { r.problems = nil }()
	return r.journal.add(entry{Problems: r.problems})
}

// writeFile writes the file for a day, unless there are no records.
func (r *run) writeFile(ctx context.Context, name string, d int64) (*File, error) {
	since, until := r.plan.Since, r.plan.Until
	f := &File{Name: name}
	if r.base == "" {
		begin := (d - epochDay) * day
		since, until = max(since, begin), min(until, begin+day)
		f.Day = dayText(d)
		if err := os.Mkdir(filepath.Dir(r.pathOf(name)), 0o700); err == nil {
			err = syncDir(r.dir)
			if err != nil {
				return nil, err
			}
		} else if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	final := r.pathOf(name)
	temporary, err := r.create(final)
	if err != nil {
		return nil, err
	}
	r.step("created " + name)
	rows, err := r.write(ctx, temporary, since, until)
	if err == nil {
		err = r.unread
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil || rows.Count == 0 && r.base == "" {
		os.RemoveAll(r.temporary(final))
		if r.base == "" {
			os.Remove(filepath.Dir(final)) // fails if the directory has files
		}
		return f, err
	}
	r.step("written " + name)
	f.Rows = rows.Count
	if rows.Count > 0 {
		f.First, f.Last = record(&rows.First), record(&rows.Last)
	}
	if f.Bytes, f.SHA256, err = digest(temporary); err != nil {
		return nil, err
	}
	if err := replace(temporary, final); err != nil {
		return nil, err
	}
	r.step("named " + name)
	if temporary != r.temporary(final) {
		err = os.RemoveAll(r.temporary(final))
	}
	return f, err
}

// create creates the temporary file that becomes another one when it is complete. DuckDB creates files that
// everybody can read, so these are in a directory that nobody else can read.
func (r *run) create(final string) (temporary string, err error) {
	if r.base != "" {
		return filepath.Join(r.temporary(final), r.base), os.Mkdir(r.temporary(final), 0o700)
	}
	f, err := os.OpenFile(r.temporary(final), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	return r.temporary(final), f.Close()
}

func record(k *sql.Key) *Record {
	return &Record{Time: render.Time(k.Time), Session: k.ID.Session.String(), Seq: k.ID.Seq}
}

// finish advances the slot and writes the manifest.
func (r *run) finish() (*Manifest, string, error) {
	if r.feed != nil && !slices.ContainsFunc(r.journal.lines, func(e entry) bool { return e.Advanced }) {
		if !r.feed.IsAt(r.plan.SlotFrom, r.plan.SlotTo) {
			if err := r.feed.Advance(r.plan.SlotTo); errors.Is(err, slot.ErrMoved) {
				return nil, "", errors.Join(err, r.journal.add(entry{Moved: true}))
			} else if err != nil {
				return nil, "", err
			}
		}
		r.step("advanced")
		if err := r.journal.add(entry{Advanced: true}); err != nil {
			return nil, "", err
		}
		r.step("noted slot")
	}
	m := r.makeManifest()
	text, err := m.encode(r.Sign)
	if err != nil {
		return nil, "", err
	}
	name := r.pathOf(r.manifest(r.plan.Number))
	if err := os.Remove(name + partial); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", err
	}
	f, err := os.OpenFile(name+partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, "", err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, "", err
	}
	r.step("manifest written")
	if err := replace(name+partial, name); err != nil {
		return nil, "", err
	}
	r.step("manifest named")
	return m, name, r.journal.remove()
}

func (r *run) makeManifest() *Manifest {
	p := r.plan
	m := &Manifest{Version: ManifestVersion, Schema: sql.SchemaVersion, Program: r.Program,
		Created: p.Created, Export: p.Request,
		Verdict: VerdictComplete, Problems: []Problem{}, Gaps: p.Gaps, Streams: p.Streams, Files: []File{}}
	m.Range.Since, m.Range.Until = timeText(p.Since), timeText(p.Until)
	problems := p.ChainDamage
	for _, e := range r.journal.lines {
		problems = append(problems, e.Problems...)
		if e.File != nil && e.File.SHA256 != "" {
			m.Files = append(m.Files, *e.File)
			m.Rows += e.File.Rows
		}
	}
	m.Files = sortedFiles(m.Files)
	for _, x := range problems {
		if !slices.Contains(m.Problems, x) {
			m.Problems = append(m.Problems, x)
		}
		if x.Kind == damaged {
			m.Verdict = VerdictDamaged
		}
	}
	return m
}

// timeText formats a bound of a range; empty: no bound.
func timeText(t int64) string {
	if t == format.MinTime || t == format.MaxTime {
		return ""
	}
	return render.Time(t)
}

// ---- problems in the trail ----

const damaged = "damaged"

// warn receives the problems that a reader finds.
func (r *run) warn(err error) {
	level, _, unread := query.Severity(err)
	if unread {
		// Without what cannot be read, the file would look complete.
		r.unread = query.OpenError(err)
		return
	}
	p := Problem{level, query.OpenError(err).Error()}
	r.noteProblem(p)
}

// noteProblem reports a problem, unless it was reported before.
func (r *run) noteProblem(p Problem) {
	if r.seen[p.Message] {
		return
	}
	r.seen[p.Message] = true
	r.problems = append(r.problems, p)
	r.Warn(p)
}
