// Counting by keys of which there may be any number, in memory that is bounded.

package report

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

const (
	// samples is how many records are kept behind a figure: the first ones.
	samples = 4
	// sampleText is how many bytes of their texts and messages.
	sampleText = 300
)

// Sample is a record behind a figure.
type Sample struct {
	Time     string `json:"time"`
	Session  string `json:"session"`
	Seq      uint64 `json:"seq,omitempty"`
	Kind     string `json:"kind"`
	User     string `json:"user,omitempty"`
	Role     string `json:"role,omitempty"`
	Database string `json:"database,omitempty"`
	Client   string `json:"client,omitempty"`
	Command  string `json:"command,omitempty"`
	Objects  string `json:"objects,omitempty"`
	Outcome  string `json:"outcome,omitempty"`
	Effect   string `json:"effect,omitempty"` // what became of a statement with its transaction
	SQLState string `json:"sqlstate,omitempty"`
	Message  string `json:"message,omitempty"`
	Text     string `json:"text,omitempty"`

	at place
}

// place orders records: by time, then as they were numbered.
type place struct {
	time    int64
	session format.SessionID
	seq     uint64
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.time, o.time), p.session.Compare(o.session), cmp.Compare(p.seq, o.seq))
}

func placeOf(r *format.Record) place { return place{r.Time, r.Session.ID(), r.Seq} }

// newSample copies what is shown of a record.
func newSample(r *format.Record) *Sample {
	fact := func(k format.Key) string { return string(r.Session.Fact(k)) }
	s := &Sample{
		at: placeOf(r), Session: r.Session.ID().String(), Seq: r.Seq, Kind: r.Kind.String(), User: fact(format.KeyUser), Role: fact(format.KeyRole),
		Database: fact(format.KeyDatabase), Client: fact(format.KeyClient), SQLState: string(r.SQLState),
		Message: excerpt(r.Message), Text: excerpt(r.Text),
	}
	if r.Shape != nil {
		s.Command, s.Objects = string(r.Shape.Command), objectsOf(r.Shape)
	}
	switch r.Kind {
	case format.KindStatement, format.KindConnect, format.KindAuthFailed:
		s.Outcome, s.Effect = r.Outcome.String(), r.Effect.String()
	}
	return s
}

// objectsOf names what DDL made, changed or removed.
func objectsOf(s *format.Shape) string {
	var names []string
	for i := range s.Objects {
		if o := &s.Objects[i]; o.Action != format.ActionExecute {
			name := string(o.Name)
			if len(o.To) > 0 {
				name += " → " + string(o.To)
			}
			if names = append(names, name); len(names) == 4 {
				names = append(names[:3], "…")
				break
			}
		}
	}
	return strings.Join(names, ", ")
}

// excerpt is the beginning of a text, in one line.
func excerpt(b []byte) string {
	cut := len(b) > sampleText
	if cut {
		b = b[:sampleText]
		for len(b) > 0 && !utf8.Valid(b) { // it was valid before it was cut
			b = b[:len(b)-1]
		}
	}
	s := string(bytes.Join(bytes.Fields(b), []byte(" ")))
	if cut {
		s += " …"
	}
	return s
}

// group is a number of records, and the first ones of them.
type group struct {
	n int64
	format.Effects
	first []*Sample
}

// lost says in words how many statements did not take effect, behind the number of all; empty if all did.
func lost(e *format.Effects) string {
	var words []string
	for _, one := range []struct {
		n    int64
		what string
	}{{e.RolledBack, "rolled back"}, {e.Unknown, "not known to have been committed"}} {
		if one.n > 0 {
			words = append(words, number(one.n)+" of them "+one.what)
		}
	}
	return strings.Join(words, ", ")
}

func (g *group) add(r *format.Record) {
	g.n++
	g.Effects.Add(r)
	if len(g.first) == samples {
		// Records come almost in the order of time.
		if last := &g.first[samples-1].at; r.Time > last.time || placeOf(r).compare(*last) >= 0 {
			return
		}
	}
	g.keep(newSample(r))
}

// keep takes a sample if it is one of the first.
func (g *group) keep(s *Sample) {
	i, _ := slices.BinarySearchFunc(g.first, s, func(a, b *Sample) int { return a.at.compare(b.at) })
	if g.first = slices.Insert(g.first, i, s); len(g.first) > samples {
		g.first = g.first[:samples]
	}
}

func (g *group) merge(o *group) {
	g.n += o.n
	g.Effects.Merge(&o.Effects)
	for _, s := range o.first {
		g.keep(s)
	}
}

// latest are the last records of a kind, up to a limit, in the order of time.
type latest struct {
	n int64
	format.Effects
	limit int
	last  []*Sample
}

func (l *latest) add(r *format.Record, change func(*Sample, *format.Record)) {
	l.n++
	l.Effects.Add(r)
	if len(l.last) == l.limit && placeOf(r).compare(l.last[0].at) <= 0 {
		return
	}
	s := newSample(r)
	if change != nil {
		change(s, r)
	}
	l.keep(s)
}

func (l *latest) keep(s *Sample) {
	i, _ := slices.BinarySearchFunc(l.last, s, func(a, b *Sample) int { return a.at.compare(b.at) })
	if l.last = slices.Insert(l.last, i, s); len(l.last) > l.limit {
		l.last = slices.Delete(l.last, 0, 1)
	}
}

func (l *latest) merge(o *latest) {
	l.n += o.n
	l.Effects.Merge(&o.Effects)
	for _, s := range o.last {
		l.keep(s)
	}
}

// span is from when to when something happened.
type span struct{ first, last int64 }

func (s *span) add(t int64) {
	if s.first == 0 && s.last == 0 {
		s.first, s.last = t, t
		return
	}
	s.first, s.last = min(s.first, t), max(s.last, t)
}

func (s *span) merge(o *span) {
	if o.first != 0 || o.last != 0 {
		s.add(o.first)
		s.add(o.last)
	}
}

// names are some different names.
type names struct {
	some []string
	more bool
	last string // that was added
}

const maxNames = 16

func (n *names) add(name string) {
	if name == n.last {
		return
	}
	n.last = name
	i, found := slices.BinarySearch(n.some, name)
	switch {
	case found || name == "":
	case len(n.some) == maxNames:
		n.more = true
	default:
		n.some = slices.Insert(n.some, i, name)
	}
}

func (n *names) merge(o *names) {
	for _, name := range o.some {
		n.add(name)
	}
	n.more = n.more || o.more
}

// String is the first three, and how many others there are.
func (n *names) String() string {
	shown := n.some[:min(3, len(n.some))]
	s := render.Safe(strings.Join(shown, ", "))
	switch rest := len(n.some) - len(shown); {
	case n.more:
		s += ", and more than " + number(int64(rest)) + " others"
	case rest > 0:
		s += ", and " + number(int64(rest)) + " more"
	}
	return s
}

// mergeable is what a tally has for each key.
type mergeable[V any] interface {
	*V
	merge(*V)
	weight() int64
}

// tally has a value for each key. When there are too many, those that weigh least are forgotten:
// then, the records are read again and only the chosen ones counted, so that what is shown is exact.
type tally[K cmp.Ordered, V any, P mergeable[V]] struct {
	of     map[K]P
	limit  int
	pruned bool
	fixed  bool // no keys are added
}

func newTally[K cmp.Ordered, V any, P mergeable[V]](limit int, chosen *tally[K, V, P]) tally[K, V, P] {
	t := tally[K, V, P]{of: map[K]P{}, limit: limit}
	if chosen != nil && chosen.pruned {
		t.fixed, t.pruned = true, true
		for k := range chosen.of {
			t.of[k] = new(V)
		}
	}
	return t
}

// add returns the value of a new key; nil if it is not counted.
func (t *tally[K, V, P]) add(k K) P {
	if t.fixed {
		return nil
	}
	if len(t.of) >= t.limit {
		t.prune(t.limit/2, P.weight)
	}
	v := P(new(V))
	t.of[k] = v
	return v
}

// prune forgets all but the heaviest.
func (t *tally[K, V, P]) prune(n int, weight func(P) int64) {
	if len(t.of) <= n {
		return
	}
	t.pruned = true
	for _, k := range t.heaviest(weight)[n:] {
		delete(t.of, k)
	}
}

// heaviest are the keys by weight.
func (t *tally[K, V, P]) heaviest(weight func(P) int64) []K {
	keys := make([]K, 0, len(t.of))
	for k := range t.of {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b K) int {
		return cmp.Or(cmp.Compare(weight(t.of[b]), weight(t.of[a])), cmp.Compare(a, b))
	})
	return keys
}

func (t *tally[K, V, P]) merge(o *tally[K, V, P]) {
	t.pruned = t.pruned || o.pruned
	for k, v := range o.of {
		if have := t.of[k]; have != nil {
			have.merge(v)
		} else {
			t.of[k] = v
		}
	}
}
