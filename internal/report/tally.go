// Counting by keys, of which a trail may have any number, in bounded memory.

package report

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

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
	Effect   string `json:"effect,omitempty"` // whether the statement's transaction was committed
	SQLState string `json:"sqlstate,omitempty"`
	Message  string `json:"message,omitempty"`
	Text     string `json:"text,omitempty"`

	at place
}

// place orders records by time, then by session and sequence number.
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
		at: placeOf(r), Session: r.Session.ID().String(), Seq: r.Seq, Kind: r.Kind.String(),
		User: fact(format.KeyUser), Role: fact(format.KeyRole),
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

// objectsOf names what DDL created, altered, renamed or dropped.
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

// excerpt returns the beginning of a text, in one line.
func excerpt(b []byte) string {
	cut := len(b) > sampleText
	if cut {
		b = b[:sampleText]
		// the text was valid before it was cut, so only the last character is incomplete
		for len(b) > 0 && !utf8.Valid(b) {
			b = b[:len(b)-1]
		}
	}
	s := string(bytes.Join(bytes.Fields(b), []byte(" ")))
	if cut {
		s += " …"
	}
	return s
}

// group counts records and keeps the first ones.
type group struct {
	n int64
	format.Effects
	first []*Sample
}

// effectsInWords says how many of a number of statements did not take effect; empty if all did.
func effectsInWords(e *format.Effects) string {
	var words []string
	for _, effect := range []struct {
		n    int64
		what string
	}{{e.RolledBack, "rolled back"}, {e.Unknown, "not known to have been committed"}} {
		if effect.n > 0 {
			words = append(words, humanize.Comma(effect.n)+" of them "+effect.what)
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

// keep inserts a sample if it is one of the first.
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

// latest counts records of a kind and keeps the last ones, up to a limit, in the order of time.
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

// span is the time from the first to the last occurrence of something.
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

// names collects different names, up to maxNames.
type names struct {
	list []string
	more bool
	last string // the name added last, which is often added again
}

const maxNames = 16

func (n *names) add(name string) {
	if name == n.last {
		return
	}
	n.last = name
	i, found := slices.BinarySearch(n.list, name)
	switch {
	case found || name == "":
	case len(n.list) == maxNames:
		n.more = true
	default:
		n.list = slices.Insert(n.list, i, name)
	}
}

func (n *names) merge(o *names) {
	for _, name := range o.list {
		n.add(name)
	}
	n.more = n.more || o.more
}

// String returns the first three names and the number of others.
func (n *names) String() string {
	shown := n.list[:min(3, len(n.list))]
	s := render.Safe(strings.Join(shown, ", "))
	switch rest := len(n.list) - len(shown); {
	case n.more:
		s += ", and more than " + humanize.Comma(int64(rest)) + " others"
	case rest > 0:
		s += ", and " + humanize.Comma(int64(rest)) + " more"
	}
	return s
}

// mergeable is the constraint on the values of a tally.
type mergeable[V any] interface {
	*V
	merge(*V)
	weight() int64
}

// tally has a value for each key. If there are too many keys, it drops those with the least weight. The records
// are then read a second time, and only the chosen keys are counted, so that the numbers shown are exact.
type tally[K cmp.Ordered, V any, P mergeable[V]] struct {
	values map[K]P
	limit  int
	pruned bool
	fixed  bool // no keys are added: the second pass
}

func newTally[K cmp.Ordered, V any, P mergeable[V]](limit int, chosen *tally[K, V, P]) tally[K, V, P] {
	t := tally[K, V, P]{values: map[K]P{}, limit: limit}
	if chosen != nil && chosen.pruned {
		t.fixed, t.pruned = true, true
		for k := range chosen.values {
			t.values[k] = new(V)
		}
	}
	return t
}

// add returns the value of a new key; nil if the tally does not count that key.
func (t *tally[K, V, P]) add(k K) P {
	if t.fixed {
		return nil
	}
	if len(t.values) >= t.limit {
		t.prune(t.limit/2, P.weight)
	}
	v := P(new(V))
	t.values[k] = v
	return v
}

// prune drops all keys except the n heaviest.
func (t *tally[K, V, P]) prune(n int, weight func(P) int64) {
	if len(t.values) <= n {
		return
	}
	t.pruned = true
	for _, k := range t.heaviest(weight)[n:] {
		delete(t.values, k)
	}
}

// heaviest returns the keys, the one with the greatest weight first.
func (t *tally[K, V, P]) heaviest(weight func(P) int64) []K {
	keys := make([]K, 0, len(t.values))
	for k := range t.values {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b K) int {
		return cmp.Or(cmp.Compare(weight(t.values[b]), weight(t.values[a])), cmp.Compare(a, b))
	})
	return keys
}

func (t *tally[K, V, P]) merge(o *tally[K, V, P]) {
	t.pruned = t.pruned || o.pruned
	for k, v := range o.values {
		if have := t.values[k]; have != nil {
			have.merge(v)
		} else {
			t.values[k] = v
		}
	}
}
