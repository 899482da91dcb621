// Reads a trail: the end of one that is being written, a moment of the past, and the records behind a row.

package top

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Options are what is read.
type Options struct {
	// Open opens the trail. It is called again for the past, so that segments that are new
	// are found.
	Open   func() (*trail.Trail, error)
	Filter *query.Filter
	// Parts says that the filter needs texts: those of big records are in several blocks.
	Parts bool
	Zone  *time.Location
	// Rings are the directories or files in which the rings of the server are looked for.
	Rings []string
	Now   func() time.Time
}

// Question is what a screen asks for.
type Question struct {
	Window time.Duration
	At     int64 // the middle of the window; 0: it ends now
	By     Dimension
	// Still asks for what has been counted in another order, without reading anything new.
	Still bool
}

// Snapshot answers a question.
type Snapshot struct {
	Question
	Now        int64 // the time of the answer
	From, To   int64 // the window
	Covered    int64 // microseconds of the window that have been read
	Newest     int64 // the last end of a record that was seen; MinTime: none
	Pending    bool  // not all has been read; the next answer has more
	Total      Count
	Last       Count // of the last whole slot
	Slot       int64
	Spark      []Bar
	Rows       []Row
	Other      Count // of names that are not in Rows
	Slowest    []Slow
	Sessions   int
	More       bool // there are more sessions than were counted
	Rings      *Rings
	NoRings    string // why there are none
	Problems   []string
	NoProblems int // how many there were, also those that are not in Problems
}

// Bar is a slot of the history.
type Bar struct {
	Count
	Known    bool // it has been read
	InWindow bool
}

// Reader reads a trail. Its methods may be called by several goroutines, and wait for each
// other.
type Reader struct {
	Options

	mu            sync.Mutex
	ctx           context.Context
	statsQuestion Question // of stats
	stats         *Stats
	matcher       query.Matcher
	live          *trail.Live
	path          string // of the trail that is followed
	past          *pastReader
	rings         *ringReader
	problems      problems
}

// NewReader makes a reader, whose work ends with the context.
func NewReader(ctx context.Context, o Options) *Reader {
	return &Reader{Options: o, ctx: ctx, matcher: query.Matcher{Filter: o.Filter}}
}

// Microseconds converts a time to the trail's microseconds.
func Microseconds(t time.Time) int64 { return query.Micros(t) }

// Clock converts the trail's microseconds to a local time.
func Clock(usec int64) time.Time { return query.Moment(usec).Local() }

// Limits of the work for one answer.
const (
	budget      = 120 * time.Millisecond
	maxBackfill = 3_000_000 // records before the start that are read
	slotsShown  = 12        // of a window
	historyOf   = 10        // windows
)

// Ask answers a question. If that takes long, it answers in parts: see Snapshot.Pending.
func (r *Reader) Ask(q Question) (*Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := Microseconds(r.Now())
	if r.stats == nil || q.Window != r.statsQuestion.Window || q.At != r.statsQuestion.At {
		if err := r.restart(q, now); err != nil {
			return nil, err
		}
	}
	r.statsQuestion = q
	if q.At == 0 && !q.Still {
		if err := r.countNew(now); err != nil {
			return nil, err
		}
	}
	if err := r.past.read(r, budget); err != nil {
		return nil, err
	}
	return r.snapshot(q, now), nil
}

// restart discards what was counted, and opens the trail for another window.
func (r *Reader) restart(q Question, now int64) error {
	if r.live != nil {
		r.live.Close()
	}
	r.live, r.past = nil, nil
	length := max(q.Window.Microseconds()/slotsShown, 1)
	r.stats = NewStats(length, slotsShown, slotsShown*historyOf)
	if q.At != 0 {
		r.stats.CenterWindow(q.At)
	} else {
		r.stats.EndWindow(now)
	}
	from, to := r.stats.before*length, (r.stats.after+1)*length
	if q.At == 0 {
		to = format.MaxTime
	}
	index, path, err := r.index(from, to)
	if err != nil {
		return err
	}
	r.stats.newest = newestOf(index)
	if q.At == 0 {
		r.live, r.path = index.Follow(path), path
		end := r.windowEnd(now)
		r.stats.EndWindow(end)
		window := r.stats.first * length
		r.past = &pastReader{index: index, todo: []piece{{window, end + 1}, {from, window}}, recordsLeft: maxBackfill}
		return nil
	}
	window := piece{r.stats.first * length, (r.stats.last + 1) * length}
	r.past = &pastReader{index: index, todo: []piece{window, {window.to, to}, {from, window.from}},
		recordsLeft: math.MaxInt64}
	return nil
}

// maxAhead is how far the clock of a server may be ahead of ours.
const maxAhead = int64(time.Hour / time.Microsecond)

// windowEnd returns the end of the window of a live trail: now, or later if the server's clock is ahead.
func (r *Reader) windowEnd(now int64) int64 { return max(now, min(r.stats.newest, now+maxAhead)) }

// index opens the trail and indexes the segments of a range of times.
func (r *Reader) index(from, to int64) (*trail.Index, string, error) {
	t, err := r.Open()
	if err != nil {
		return nil, "", err
	}
	const late = int64(10 * time.Minute / time.Microsecond) // by which a record may be written late
	if to < format.MaxTime-late {
		to += late
	}
	t.Limit(from, to)
	if r.rings == nil {
		r.rings = newRingReader(t, &r.Options)
	}
	return t.Index(), t.Path, nil
}

// newestOf returns the end of the last record of an index.
func newestOf(x *trail.Index) int64 {
	newest := int64(format.MinTime)
	for i := range x.Streams {
		for _, s := range x.Streams[i].Segments {
			if s.Records > 0 {
				newest = max(newest, s.LastEnd)
			}
		}
	}
	return newest
}

// countNew counts new records of the trail.
func (r *Reader) countNew(now int64) error {
	if _, err := os.Stat(r.path); err != nil {
		return query.OpenError(err)
	}
	r.stats.EndWindow(r.windowEnd(now))
	opts := trail.MergeOptions{Since: format.MinTime, Until: format.MaxTime, Warn: r.problems.warn}
	return r.live.Poll(r.ctx, (*counter)(r), opts, func([]byte) error { return nil })
}

// counter is the reader as a formatter that counts records, and makes no lines.
type counter Reader

func (c *counter) Start(*trail.BlockRef) {
	c.matcher.Reset()
	c.stats.Block()
}

func (c *counter) Keep(r *format.Record) bool {
	if c.matcher.Keep(r) {
		c.stats.Add(r)
	}
	return false
}

// MayKeep counts a record whose text is in other blocks: reading these would take too long, unless the
// filter needs the text.
func (c *counter) MayKeep(r *format.Record) bool {
	return c.matcher.MayKeep(r) && (c.Parts || c.Keep(r))
}

func (c *counter) Append(dst []byte, _ *format.Record) []byte { return dst }

// pastReader reads what was in the trail when it was opened, in pieces, from the end of each range to its beginning.
type pastReader struct {
	index       *trail.Index
	todo        []piece
	recordsLeft int64 // number of records that may still be read
	length      int64 // of the next piece
}

type piece struct{ from, to int64 }

// pending reports whether there is more to read.
func (p *pastReader) pending() bool { return len(p.todo) > 0 && p.recordsLeft > 0 }

// hasRead reports whether all of a range has been read.
func (p *pastReader) hasRead(from, to int64) bool {
	return !slices.ContainsFunc(p.todo, func(s piece) bool { return s.from < to && from < s.to })
}

// read reads pieces until the time budget is used up.
func (p *pastReader) read(r *Reader, budget time.Duration) error {
	for start := time.Now(); p.pending() && time.Since(start) < budget; {
		if p.length == 0 {
			p.length = r.stats.Slot
		}
		s := &p.todo[0]
		for p.length > minPiece && p.records(s.to-p.length, s.to) > maxPiece {
			p.length /= 2
		}
		from := max(s.from, s.to-p.length)
		began := time.Now()
		n, err := p.count(r, from, s.to)
		if err != nil {
			return err
		}
		switch took := time.Since(began); {
		case took < budget/8:
			p.length *= 2
		case took > budget/2:
			p.length = max(p.length/2, 1)
		}
		p.recordsLeft -= n
		if s.to = from; s.to <= s.from {
			p.todo = p.todo[1:]
		}
	}
	return nil
}

// A piece has at most maxPiece records, as estimated from the index, unless it is as short as minPiece: a busy time
// may follow a long one without records.
const (
	maxPiece = 200_000 // records
	minPiece = second
)

// second is a second in microseconds.
const second = int64(1e6)

// mostRecords is the largest possible number of records for each byte of a segment: LZ4 expands a byte to at most
// 255. A forged header may state more.
const mostRecords = 255

// records estimates how many records ended in a range, from the times and numbers of segments, which may be forged.
func (p *pastReader) records(from, to int64) (n float64) {
	for i := range p.index.Streams {
		for _, s := range p.index.Streams[i].Segments {
			if s.Records == 0 || s.FirstTime >= to || s.LastEnd < from {
				continue
			}
			first, end := float64(s.FirstTime), float64(s.LastEnd)+1
			both := min(float64(to), end) - max(float64(from), first)
			n += min(float64(s.Records), mostRecords*float64(s.Segment.Size)) * min(max(both, 0)/max(end-first, 1), 1)
		}
	}
	return n
}

// count counts the records that ended in a range.
func (p *pastReader) count(r *Reader, since, until int64) (n int64, err error) {
	scan := p.index.Scan(r.ctx, trail.ScanOptions{
		Since: since, Until: until, Ends: true, Contents: r.Filter.Contents(), Parts: r.Parts, Warn: r.problems.warn,
	})
	defer scan.Close()
	c := (*counter)(r)
	var ref *trail.BlockRef
	for reader := scan.Reader(); reader.Next(); n++ {
		if reader.Ref != ref {
			ref = reader.Ref
			c.Start(ref)
		}
		c.Keep(&reader.Record)
	}
	return n, r.ctx.Err()
}

// snapshot sums up what is counted.
func (r *Reader) snapshot(q Question, now int64) *Snapshot {
	s := r.stats
	out := &Snapshot{
		Question: q, Now: now, Newest: s.newest, Pending: r.past.pending(), Slot: s.Slot,
		From: s.first * s.Slot, To: (s.last + 1) * s.Slot, Total: s.Total(), Slowest: s.Slowest(),
		Problems: r.problems.texts, NoProblems: r.problems.n,
	}
	if q.At == 0 {
		out.To = r.windowEnd(now) + 1
		if !q.Still {
			r.rings.read(now)
		}
		out.Rings, out.NoRings = r.rings.last, r.rings.noRings
	}
	out.Covered = out.To - out.From
	for _, left := range r.past.todo {
		out.Covered -= max(0, min(left.to, out.To)-max(left.from, out.From))
	}
	if last := s.totals[s.last-1]; last != nil && q.At == 0 {
		out.Last = *last
	}
	for n := s.before; n <= s.after; n++ {
		b := Bar{Known: r.past.hasRead(n*s.Slot, (n+1)*s.Slot), InWindow: n >= s.first && n <= s.last}
		if t := s.totals[n]; t != nil {
			b.Count = *t
		}
		out.Spark = append(out.Spark, b)
	}
	out.Rows, out.Other = s.Rows(q.By)
	out.Sessions, out.More = s.Sessions()
	return out
}

// ---- the records behind a row ----

// Line is a record in a list, with what is needed to find it again.
type Line struct {
	Session  format.SessionID
	Seq      uint64
	Time     int64
	End      int64
	Who      string // user@database
	Duration string // of so many microseconds, in words; empty: none
	Rows     string
	What     string // command, or kind
	SQLState string
	Text     string // its beginning
	Cat      string // the line of steno cat
	Failed   bool
}

// lineOf makes the line of a record; cat is its line of steno cat.
func lineOf(r *format.Record, cat []byte) Line {
	l := Line{
		Session: r.Session.ID(), Seq: r.Seq, Time: r.Time, End: r.End(), Failed: r.Failed(),
		What: r.Kind.String(), SQLState: string(r.SQLState), Text: beginning(r.Text),
		Cat: string(cat[:min(len(cat), maxLine)]),
	}
	l.Who = string(r.Session.Fact(format.KeyUser))
	if db := r.Session.Fact(format.KeyDatabase); len(db) > 0 {
		l.Who += "@" + string(db)
	}
	if r.Shape != nil && len(r.Shape.Command) > 0 {
		l.What = string(r.Shape.Command)
	}
	if r.Has(format.FieldDuration) {
		l.Duration = duration(r.Duration)
	}
	if r.Has(format.FieldRows) {
		l.Rows = short(r.Rows)
	}
	if l.Text == "" {
		l.Text = beginning(r.Message)
	}
	return l
}

func (l *Line) compare(o *Line) int {
	return cmp.Or(cmp.Compare(l.Time, o.Time), l.Session.Compare(o.Session), cmp.Compare(l.Seq, o.Seq))
}

// Selection chooses the records of a row.
type Selection struct {
	From, To int64 // when they ended
	By       Dimension
	Name     string
}

// maxLines limits the records of a page, and maxLine the bytes of one.
const (
	maxLines = 1000
	maxLine  = 4000
)

// Records returns the last records of a selection, in the order of their times.
func (r *Reader) Records(sel Selection) (lines []Line, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index, _, err := r.index(sel.From, sel.To)
	if err != nil {
		return nil, err
	}
	text := render.New(render.Text, render.Options{Zone: r.Zone})
	length := second
	for high := sel.To; high > sel.From && len(lines) < maxLines; {
		low := max(sel.From, high-length)
		lines, err = r.lines(index, sel, low, high, text, lines)
		if err != nil {
			return nil, err
		}
		high, length = low, length*2
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return a.compare(&b) })
	return lines[max(0, len(lines)-maxLines):], nil
}

// lines appends the lines of a range, at most the last 2 * maxLines.
func (r *Reader) lines(index *trail.Index, sel Selection, since, until int64, text render.Renderer,
	lines []Line) ([]Line, error) {
	scan := index.Scan(r.ctx, trail.ScanOptions{
		Since: since, Until: until, Ends: true, Contents: sel.contents(r.Filter), Parts: r.Parts,
		Warn: r.problems.warn,
	})
	defer scan.Close()
	m := query.Matcher{Filter: r.Filter}
	var ref *trail.BlockRef
	var buf []byte
	for reader := scan.Reader(); reader.Next(); {
		if reader.Ref != ref {
			ref = reader.Ref
			m.Reset()
			text.Start(ref)
		}
		rec := &reader.Record
		if !sel.matches(rec) || !m.Keep(rec) {
			continue
		}
		buf = bytes.TrimRight(text.Append(buf[:0], rec), "\n")
		lines = append(lines, lineOf(rec, buf))
		if len(lines) >= 4*maxLines {
			slices.SortStableFunc(lines, func(a, b Line) int { return a.compare(&b) })
			lines = slices.Clone(lines[len(lines)-maxLines:])
		}
	}
	return lines, r.ctx.Err()
}

// contents selects the blocks that may have records of the selection.
func (sel *Selection) contents(f *query.Filter) func(*format.Contents) format.Groups {
	terms, ok := map[Dimension]format.Terms{
		ByUser: format.TermsUsers, ByDatabase: format.TermsDatabases, ByApplication: format.TermsApplications,
	}[sel.By]
	of := f.Contents()
	if !ok || sel.Name == "" {
		return of
	}
	return func(c *format.Contents) format.Groups {
		g := c.Select(terms, func(v []byte) bool { return string(v) == sel.Name })
		if of != nil {
			g.And(of(c))
		}
		return g
	}
}

// matches reports whether the row counts a record.
func (sel *Selection) matches(r *format.Record) bool {
	fact := func(k format.Key) bool { return string(r.Session.Fact(k)) == sel.Name }
	switch sel.By {
	case ByUser:
		return fact(format.KeyUser)
	case ByDatabase:
		return fact(format.KeyDatabase)
	case ByApplication:
		return fact(format.KeyApplication)
	case ByClient:
		return string(host(r.Session.Fact(format.KeyClient))) == sel.Name
	case BySession:
		return r.Session.ID().String() == sel.Name
	case ByClass:
		if r.Shape == nil {
			return r.Kind.String() == sel.Name
		}
		return r.Shape.Class.String() == sel.Name
	case ByTable:
		return r.Shape != nil && slices.ContainsFunc(r.Shape.Relations, func(o format.Relation) bool {
			return string(o.Name) == sel.Name
		})
	default:
		return r.Failed() && (string(r.SQLState) == sel.Name || len(r.SQLState) == 0 && r.Outcome.String() == sel.Name)
	}
}

// Field is a field of a record.
type Field struct{ Name, Value string }

// errNotFound is the error for a record that was deleted.
var errNotFound = errors.New("the record is no longer in the trail")

// Fields returns all fields of a record that ended at a time, by the names of JSON.
func (r *Reader) Fields(session format.SessionID, seq uint64, end int64) (fields []Field, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index, _, err := r.index(end, end+1)
	if err != nil {
		return nil, err
	}
	scan := index.Scan(r.ctx, trail.ScanOptions{Since: end, Until: end + 1, Ends: true, Parts: true,
		Warn: r.problems.warn})
	defer scan.Close()
	for reader := scan.Reader(); reader.Next(); {
		if rec := &reader.Record; rec.Seq == seq && rec.Session.ID() == session {
			j := render.New(render.JSON, render.Options{Zone: r.Zone})
			j.Start(reader.Ref)
			return fieldsOf(j.Append(nil, rec))
		}
	}
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	return nil, errNotFound
}

// fieldsOf returns the fields of a JSON object, in its order.
func fieldsOf(object []byte) (fields []Field, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		text := string(value)
		if value[0] == '"' {
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, err
			}
		}
		fields = append(fields, Field{name.(string), text})
	}
	return fields, nil
}

// ---- problems of the trail ----

// problems collects the problems of the trail, each once.
type problems struct {
	n               int
	texts           []string
	damaged, unread bool
}

// maxProblems limits the kept problems.
const maxProblems = 20

func (p *problems) warn(err error) {
	level, damaged, unread := query.Severity(err)
	if level == "unfinished" || level == "deleted" {
		return // a server is writing, or retention has deleted segments
	}
	p.damaged, p.unread = p.damaged || damaged, p.unread || unread
	text := level + ": " + render.Safe(query.OpenError(err).Error())
	if slices.Contains(p.texts, text) {
		return
	}
	p.n++
	if len(p.texts) < maxProblems {
		p.texts = append(slices.Clip(p.texts), text)
	}
}

// Problems returns the problems of the trail, and whether something is damaged or could not be read.
func (r *Reader) Problems() (texts []string, damaged, unread bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problems.texts, r.problems.damaged, r.problems.unread
}
