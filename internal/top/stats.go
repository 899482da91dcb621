// Package top counts the records of a window of time, and the contents of the server's rings, and shows the counts on
// a terminal.
//
//	stats.go    counts by time and by name, with bounded memory
//	reader.go   what is read: the end of a live trail, a moment of the past, records
//	rings.go    the rings of the running server
//	model.go    the state of the screen, and what keys do
//	view.go     the screen with its rows
//	pages.go    the pages behind a row: records, the fields of one, help
//	cells.go    numbers and texts that fit into so many cells
//
// Reader is used by one goroutine at a time and knows no screen; a Model knows only snapshots.
package top

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

// Dimension is a property by which records are grouped.
type Dimension int

// The dimensions, in the order of their keys.
const (
	ByUser Dimension = iota
	ByDatabase
	ByApplication
	ByClient
	ByClass
	ByTable
	BySession
	ByError
	dimensions
)

var dimensionNames = [dimensions]string{"user", "database", "application", "client", "class", "table",
	"session", "error"}

func (d Dimension) String() string { return dimensionNames[d] }

// Dimensions returns the names of all dimensions.
func Dimensions() []string { return dimensionNames[:] }

// Count has the counts of some records.
type Count struct {
	Statements uint64
	Failures   uint64 // of statements, connections and transactions
	Rows       uint64
	Busy       uint64 // microseconds that statements took together
	Timed      uint64 // statements with a duration
	Max        uint64 // of the longest one, microseconds
}

func (c *Count) add(o *Count) {
	c.Statements += o.Statements
	c.Failures += o.Failures
	c.Rows += o.Rows
	c.Busy += o.Busy
	c.Timed += o.Timed
	c.Max = max(c.Max, o.Max)
}

// Row is the count of a name.
type Row struct {
	Name string
	Note string // of a session: whose it is; of an error: a message
	Count
}

// maxGroup bounds the names that are counted in a slot. When there are more, the half with the
// smallest counts is added to the others, so that what is counted of a name is never too much,
// and a name with a large share of a slot is found.
const maxGroup = 512

// groups are the counts of one slot by name.
type groups struct {
	rows  map[string]*Row
	other Count // of names that are not in rows
}

// row returns the row of a name. folded says that rows returned earlier may be void.
func (g *groups) row(name []byte) (row *Row, folded bool) {
	if row = g.rows[string(name)]; row != nil {
		return row, false
	}
	if g.rows == nil {
		g.rows = map[string]*Row{}
	} else if len(g.rows) >= maxGroup {
		g.fold()
		folded = true
	}
	row = &Row{Name: string(name)}
	g.rows[row.Name] = row
	return row, folded
}

func (g *groups) fold() {
	all := slices.SortedFunc(maps.Values(g.rows), func(a, b *Row) int {
		return cmp.Compare(a.Statements+a.Failures, b.Statements+b.Failures)
	})
	for _, row := range all[:len(all)/2] {
		g.other.add(&row.Count)
		delete(g.rows, row.Name)
	}
}

// Slow is a statement that took long.
type Slow struct {
	Session        format.SessionID
	Seq            uint64
	Start          int64
	Duration       uint64 // microseconds
	User, Database string
	Application    string
	What           string // command
	SQLState       string
	Text           string // its beginning
}

// maxSlow limits the slow statements that a slot keeps, and maxText the bytes of their texts.
const (
	maxSlow = 50
	maxText = 1000
)

// slot has the counts of a piece of the window.
type slot struct {
	by   [dimensions]groups
	slow []Slow // the slowest, in no order
}

// addSlow keeps a statement if it is one of the slowest.
func (s *slot) addSlow(r *format.Record) {
	i := len(s.slow)
	if i == maxSlow {
		i = 0
		for k := range s.slow {
			if s.slow[k].Duration < s.slow[i].Duration {
				i = k
			}
		}
		if s.slow[i].Duration >= r.Duration {
			return
		}
	} else {
		s.slow = append(s.slow, Slow{})
	}
	one := Slow{
		Session: r.Session.ID(), Seq: r.Seq, Start: r.Time, Duration: r.Duration, SQLState: string(r.SQLState),
		User: string(r.Session.Fact(format.KeyUser)), Database: string(r.Session.Fact(format.KeyDatabase)),
		Application: string(r.Session.Fact(format.KeyApplication)), Text: beginning(r.Text),
	}
	if r.Shape != nil {
		one.What = string(r.Shape.Command)
	}
	s.slow[i] = one
}

// beginning returns the beginning of a text, without line breaks.
func beginning(text []byte) string {
	return strings.Join(strings.Fields(string(text[:min(len(text), maxText)])), " ")
}

// Stats count the records of a window and, in total only, of a longer history around it. Time
// is divided into slots; what has left the history is forgotten.
type Stats struct {
	Slot    int64 // microseconds of a slot
	Window  int64 // slots of the window
	History int64 // slots of the history

	first, last   int64 // slots of the window, both inclusive
	before, after int64 // those of the history
	slots         map[int64]*slot
	totals        map[int64]*Count
	newest        int64 // the last end of a record

	// of the block that is being read
	cached        []sessionRows
	shapes        []shapeRows
	currentNumber int64
	current       *slot
	totalsOf      *Count
	folds         int
}

// sessionRows are the rows of a session of a block, in the current slot.
type sessionRows struct {
	known bool
	rows  [4]*Row // user, database, application, client
	own   *Row
}

// shapeRows are the rows of a shape of a block, in the current slot.
type shapeRows struct {
	known  bool
	class  *Row
	tables []*Row
}

// NewStats returns empty Stats.
func NewStats(slotLength, window, history int64) *Stats {
	return &Stats{Slot: slotLength, Window: window, History: history, newest: format.MinTime, slots: map[int64]*slot{},
		totals: map[int64]*Count{}}
}

// slotAt returns the number of the slot of a time.
func (s *Stats) slotAt(t int64) int64 {
	n := t / s.Slot
	if t%s.Slot < 0 {
		n--
	}
	return n
}

// EndWindow makes the window end in the slot of a time, which is now, and forgets what left the
// history.
func (s *Stats) EndWindow(now int64) {
	s.last = s.slotAt(now)
	s.first, s.before, s.after = s.last-s.Window, s.last-s.History, s.last
	s.forget()
}

// CenterWindow puts the window around a time, and the history around the window.
func (s *Stats) CenterWindow(t int64) {
	s.first = s.slotAt(t - s.Window*s.Slot/2)
	s.last = s.first + s.Window - 1
	s.before = s.first - (s.History-s.Window)/2
	s.after = s.before + s.History - 1
	s.forget()
}

func (s *Stats) forget() {
	maps.DeleteFunc(s.slots, func(n int64, _ *slot) bool { return n < s.first || n > s.last })
	maps.DeleteFunc(s.totals, func(n int64, _ *Count) bool { return n < s.before || n > s.after })
	s.Block()
}

// Block begins another block.
func (s *Stats) Block() {
	clear(s.cached)
	clear(s.shapes)
	s.cached, s.shapes = s.cached[:0], s.shapes[:0]
	s.current, s.totalsOf = nil, nil
}

// Add counts a record at the time at which it ended.
func (s *Stats) Add(r *format.Record) {
	end := r.End()
	s.newest = max(s.newest, end)
	statement, failed := r.Kind == format.KindStatement, r.Failed()
	if !statement && !failed {
		return
	}
	n := s.slotAt(end)
	if n < s.before || n > s.after {
		return
	}
	if n != s.currentNumber || s.totalsOf == nil {
		s.setCurrent(n)
	}
	one := Count{}
	if statement {
		one.Statements = 1
	}
	if failed {
		one.Failures = 1
	}
	if r.Has(format.FieldRows) {
		one.Rows = r.Rows
	}
	if statement && r.Has(format.FieldDuration) {
		one.Busy, one.Timed, one.Max = r.Duration, 1, r.Duration
	}
	s.totalsOf.add(&one)
	if s.current != nil {
		s.countGroups(r, &one)
		if one.Timed > 0 && r.Depth == 0 {
			s.current.addSlow(r)
		}
	}
}

// setCurrent makes a slot the current one; outside the window, only totals are counted.
func (s *Stats) setCurrent(n int64) {
	s.Block()
	s.currentNumber = n
	if s.totalsOf = s.totals[n]; s.totalsOf == nil {
		s.totalsOf = &Count{}
		s.totals[n] = s.totalsOf
	}
	if n < s.first || n > s.last {
		return
	}
	if s.current = s.slots[n]; s.current == nil {
		s.current = &slot{}
		s.slots[n] = s.current
	}
}

// row returns the row of a name in the current slot. It drops the cached rows of the block if some of them are void.
func (s *Stats) row(d Dimension, name []byte) *Row {
	row, folded := s.current.by[d].row(name)
	if folded {
		s.folds++
		clear(s.cached)
		clear(s.shapes)
	}
	return row
}

// countGroups counts a record in each dimension.
func (s *Stats) countGroups(r *format.Record, c *Count) {
	rows := s.sessionRows(r)
	for _, row := range rows.rows {
		row.Count.add(c)
	}
	rows.own.Count.add(c)
	shape := s.shapeRows(r)
	shape.class.Count.add(c)
	for _, row := range shape.tables {
		row.Count.add(c)
	}
	if c.Failures > 0 {
		state := r.SQLState
		if len(state) == 0 {
			state = []byte(r.Outcome.String())
		}
		row := s.row(ByError, state)
		row.Count.add(c)
		row.Note = beginning(r.Message[:min(len(r.Message), 200)])
	}
}

func (s *Stats) sessionRows(r *format.Record) sessionRows {
	i := r.SessionIndex
	for len(s.cached) <= i {
		s.cached = append(s.cached, sessionRows{})
	}
	if i >= 0 && s.cached[i].known {
		return s.cached[i]
	}
	rows := sessionRows{known: true} // one row of each dimension: a fold cannot remove another one of them
	for k, fact := range []format.Key{format.KeyUser, format.KeyDatabase, format.KeyApplication} {
		rows.rows[k] = s.row(ByUser+Dimension(k), r.Session.Fact(fact))
	}
	rows.rows[3] = s.row(ByClient, host(r.Session.Fact(format.KeyClient)))
	rows.own = s.row(BySession, r.Session.ID().Append(nil))
	if rows.own.Note == "" {
		rows.own.Note = ownerOf(r.Session)
	}
	if i >= 0 {
		s.cached[i] = rows
	}
	return rows
}

func (s *Stats) shapeRows(r *format.Record) shapeRows {
	i := r.ShapeIndex
	for len(s.shapes) <= i {
		s.shapes = append(s.shapes, shapeRows{})
	}
	if i >= 0 && s.shapes[i].known {
		return s.shapes[i]
	}
	rows := shapeRows{known: true}
	if r.Shape == nil {
		rows.class = s.row(ByClass, []byte(r.Kind.String()))
		return rows
	}
	rows.class = s.row(ByClass, []byte(r.Shape.Class.String()))
	// A fold may remove the row of a table before, which counts nothing yet. There is room for
	// all of them after one.
	for folds := s.folds - 1; folds != s.folds; {
		folds = s.folds
		rows.tables = s.tables(rows.tables[:0], r.Shape.Relations)
	}
	if i >= 0 {
		s.shapes[i] = rows
	}
	return rows
}

// maxTables bounds the tables of a statement that are counted.
const maxTables = 64

// tables appends the rows of relations, each once.
func (s *Stats) tables(rows []*Row, relations []format.Relation) []*Row {
	relations = relations[:min(len(relations), maxTables)]
	for k := range relations {
		name := relations[k].Name
		if !slices.ContainsFunc(relations[:k], func(o format.Relation) bool { return bytes.Equal(o.Name, name) }) {
			rows = append(rows, s.row(ByTable, name))
		}
	}
	return rows
}

// host is an address without its port.
func host(client []byte) []byte {
	if i := bytes.LastIndexByte(client, ':'); i >= 0 {
		client = client[:i]
	}
	return bytes.Trim(client, "[]")
}

// ownerOf names the user and database of a session in a few words.
func ownerOf(s *format.Session) string {
	user := render.Identifier(string(s.Fact(format.KeyUser)))
	if user == "" {
		user = string(s.Fact(format.KeyBackendType))
	}
	if db := s.Fact(format.KeyDatabase); len(db) > 0 {
		user += "@" + render.Identifier(string(db))
	}
	if app := s.Fact(format.KeyApplication); len(app) > 0 {
		user += " " + render.Identifier(string(app))
	}
	return user
}

// Total returns the count of the window.
func (s *Stats) Total() (all Count) {
	for n := s.first; n <= s.last; n++ {
		if t := s.totals[n]; t != nil {
			all.add(t)
		}
	}
	return all
}

// Rows returns the rows of a dimension in the window, and the count of names without a row.
func (s *Stats) Rows(d Dimension) (rows []Row, other Count) {
	all := map[string]*Row{}
	for _, one := range s.slots {
		g := &one.by[d]
		other.add(&g.other)
		for name, row := range g.rows {
			sum := all[name]
			if sum == nil {
				sum = &Row{Name: name, Note: row.Note}
				all[name] = sum
			}
			sum.Count.add(&row.Count)
		}
	}
	for _, row := range all {
		rows = append(rows, *row)
	}
	return rows, other
}

// Slowest returns the slowest statements of the window, the slowest first.
func (s *Stats) Slowest() (all []Slow) {
	for _, one := range s.slots {
		all = append(all, one.slow...)
	}
	slices.SortFunc(all, func(a, b Slow) int {
		return cmp.Or(cmp.Compare(b.Duration, a.Duration), cmp.Compare(a.Start, b.Start), a.Session.Compare(b.Session),
			cmp.Compare(a.Seq, b.Seq))
	})
	return all[:min(len(all), maxSlow)]
}

// Sessions returns how many sessions had a statement or a failure in the window; more says that not all were counted.
func (s *Stats) Sessions() (n int, more bool) {
	rows, other := s.Rows(BySession)
	return len(rows), other != Count{}
}
