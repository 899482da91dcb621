package query

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// answer is what a filter says of a record: that it is asked for, that it is not, or that it may be.
type answer int

const (
	isNot answer = iota
	may
	is
)

func whether(b bool) answer {
	if b {
		return is
	}
	return isNot
}

// unless is what is known of a record that does not match for certain.
func (a answer) unless(lacks bool) answer {
	if a == isNot && lacks {
		return may
	}
	return a
}

// sampled is a record, and what plain evaluation looks at.
type sampled struct {
	*trailtest.Record
	user, role, database, application, client string
	tables                                    []string
	unfinished, timed                         bool
	omits                                     string
	opaque                                    bool // the value of its parameter is not recorded
}

func (s *sampled) current() string {
	if s.role != "" {
		return s.role
	}
	return s.user
}

func (s *sampled) statement() bool {
	return s.Kind == format.KindStatement || s.Kind == format.KindStart
}

// single is one filter, and its plain evaluation.
type single struct {
	name string
	set  func(*Criteria)
	ask  func(*sampled) answer
}

var singles = []single{
	{"user", func(o *Criteria) { o.Users = []string{"alice", "carol"} }, func(s *sampled) answer {
		return whether(s.user == "alice" || s.user == "carol").unless(s.user == "pg_unknown 77")
	}},
	{"role", func(o *Criteria) { o.Roles = []string{"bob"} }, func(s *sampled) answer {
		return whether(s.current() == "bob").unless(s.current() == "pg_unknown 77")
	}},
	{"database", func(o *Criteria) { o.Databases = []string{"hr"} }, func(s *sampled) answer { return whether(s.database == "hr") }},
	{"application", func(o *Criteria) { o.Applications = []string{"psql"} }, func(s *sampled) answer { return whether(s.application == "psql") }},
	{"client", func(o *Criteria) { o.Clients = clients("10.0.0.0/8") }, func(s *sampled) answer { return whether(strings.HasPrefix(s.client, "10.")) }},
	{"class", func(o *Criteria) { o.Classes = []format.Class{format.ClassRead} }, func(s *sampled) answer {
		return whether(s.Shape != nil && s.Shape.Class == format.ClassRead).unless(s.Shape == nil)
	}},
	{"kind", func(o *Criteria) { o.Kinds = []format.Kind{format.KindStatement, format.KindConnect} }, func(s *sampled) answer {
		return whether(s.Kind == format.KindStatement || s.Kind == format.KindConnect)
	}},
	{"command", func(o *Criteria) { o.Commands = []string{"select"} }, func(s *sampled) answer {
		return whether(s.Shape != nil && s.Shape.Command == "SELECT").unless(s.Shape == nil)
	}},
	{"object", func(o *Criteria) { o.Objects = []string{"hr.salary"} }, func(s *sampled) answer {
		return whether(slices.Contains(s.tables, "hr.salary")).unless(s.omits == "relations" || s.unfinished)
	}},
	{"grep", func(o *Criteria) { o.Grep = patterns("secret") }, func(s *sampled) answer {
		return whether(strings.Contains(s.Text, "secret")).unless(s.omits == "parameters" || s.opaque)
	}},
	{"sqlstate", func(o *Criteria) { o.SQLStates = []SQLState{"42"} }, func(s *sampled) answer { return whether(strings.HasPrefix(s.SQLState, "42")) }},
	{"xid", func(o *Criteria) { o.XIDs = []uint64{7} }, func(s *sampled) answer { return whether(s.XID == 7) }},
	{"failed", func(o *Criteria) { o.Failed = true }, func(s *sampled) answer {
		return whether(s.Outcome == format.OutcomeError || s.Outcome == format.OutcomeInterrupted)
	}},
	{"min-duration", func(o *Criteria) { o.MinDuration = least("1ms") }, func(s *sampled) answer {
		return whether(s.timed && s.Duration >= 1000).unless(!s.timed)
	}},
	{"not-user", func(o *Criteria) { o.Not.Users = []string{"bob"} }, func(s *sampled) answer { return whether(s.user != "bob") }},
	{"not-class", func(o *Criteria) { o.Not.Classes = []format.Class{format.ClassWrite} }, func(s *sampled) answer {
		return whether(s.Shape == nil || s.Shape.Class != format.ClassWrite)
	}},
	{"not-object", func(o *Criteria) { o.Not.Objects = []string{"hr.staff"} }, func(s *sampled) answer {
		return whether(!slices.Contains(s.tables, "hr.staff"))
	}},
	{"not-grep", func(o *Criteria) { o.Not.Grep = patterns("public") }, func(s *sampled) answer { return whether(!strings.Contains(s.Text, "public")) }},
}

// sample makes a record of any sort.
func sample(rnd *rand.Rand) *sampled {
	one := func(values ...string) string { return values[rnd.IntN(len(values))] }
	s := &sampled{
		user: one("alice", "bob", "pg_unknown 77"), role: one("", "", "bob", "pg_unknown 77"), database: one("hr", "shop"),
		application: one("psql", "etl"), client: one("10.1.2.3:4", "[local]"),
	}
	session := trailtest.NewSession(trailtest.Epoch, 1, trailtest.Fact{Key: format.KeyUser, Value: s.user}, trailtest.Fact{Key: format.KeyDatabase, Value: s.database},
		trailtest.Fact{Key: format.KeyApplication, Value: s.application}, trailtest.Fact{Key: format.KeyClient, Value: s.client})
	if s.role != "" {
		session = session.With(trailtest.Fact{Key: format.KeyRole, Value: s.role})
	}
	s.Record = &trailtest.Record{Session: session, Time: trailtest.Epoch, XID: uint64(rnd.IntN(2) * 7), Text: one("a secret", "public")}
	switch rnd.IntN(8) {
	case 0:
		s.Kind, s.unfinished = format.KindStart, true
	case 1:
		s.Kind, s.Outcome, s.unfinished = format.KindStatement, format.OutcomeInterrupted, true
	case 2:
		s.Kind = format.KindConnect
	case 3:
		s.Kind, s.Outcome, s.SQLState, s.Message = format.KindStatement, format.OutcomeError, one("42501", "23505"), "no"
	default:
		s.Kind = format.KindStatement
	}
	if s.Kind != format.KindStart && rnd.IntN(3) > 0 {
		s.Duration, s.timed = uint64(10+rnd.IntN(2)*5000), true
	}
	if s.unfinished && rnd.IntN(2) == 0 || s.Kind == format.KindConnect {
		return s
	}
	s.Shape = &trailtest.Shape{Class: []format.Class{format.ClassRead, format.ClassWrite}[rnd.IntN(2)], Command: one("SELECT", "UPDATE")}
	for range rnd.IntN(3) {
		s.tables = append(s.tables, one("hr.salary", "hr.staff", "public.t"))
	}
	for _, table := range s.tables {
		s.Shape.Relations = append(s.Shape.Relations, trailtest.Relation{Type: 1, Access: format.AccessSelect, Name: table})
		s.unfinished = false
	}
	if s.omits = one("", "", "relations", "parameters"); s.omits != "" {
		s.Extra = []string{s.omits + "_omitted", "3"}
	}
	if s.omits == "" && rnd.IntN(4) == 0 {
		s.opaque, s.Shape.Params, s.Values = true, []format.ParamType{{OID: 25, Repr: format.ReprNone}}, []byte{}
	}
	return s
}

// block is the record in a block of its own, and its index.
func (s *sampled) block(t *testing.T) (*format.Record, *format.Contents) {
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(s.Record)
	var chain [32]byte
	block := &format.Block{Source: format.Source{File: "test"}, Image: b.Finish(format.CodecNone, 1, 1, &chain)}
	if err := block.Load(); err != nil {
		t.Fatal(err)
	}
	r := &format.Record{}
	if err := block.Next(r); err != nil {
		t.Fatal(err)
	}
	return r, indexOf(t, block, r)
}

// TestPairsOfFiltersAskForWhatBothAskFor compares each combination of two filters with the plain evaluation of both: which
// records they choose, which may be chosen, and that an index hides none of these. What becomes of the options after a
// filter was made of them is of no importance.
func TestPairsOfFiltersAskForWhatBothAskFor(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 1))
	type prepared struct {
		s     *sampled
		r     *format.Record
		index *format.Contents
	}
	var samples []prepared
	for range 1500 {
		s := sample(rnd)
		r, index := s.block(t)
		samples = append(samples, prepared{s, r, index})
	}
	counted := map[answer]int{}
	for i, a := range singles {
		for _, b := range singles[i:] {
			o := Criteria{Not: &Criteria{}}
			a.set(&o)
			b.set(&o)
			filter := o.Filter()
			spoil(o.Not)
			spoil(&o)
			m, contents, want := &Matcher{Filter: filter}, filter.Contents(), filter.Selection()
			for _, one := range samples {
				m.Reset()
				got := isNot
				if m.Keep(one.r) {
					got = is
				} else if m.HiddenReason(one.r) != "" {
					got = may
				}
				plain := min(a.ask(one.s), b.ask(one.s))
				if plain == may && !one.s.statement() {
					plain = isNot // a connection has no relations to leave out
				}
				if got != plain {
					t.Fatalf("%s and %s: %d, by itself %d and %d, of %+v %+v", a.name, b.name, got, a.ask(one.s), b.ask(one.s), one.s, one.s.Record)
				}
				counted[got]++
				if got != isNot && contents != nil && !contents(one.index).Has(0) {
					t.Fatalf("%s and %s: an index hides %+v %+v", a.name, b.name, one.s, one.s.Record)
				}
				if got != isNot && want.Session != nil && !want.Session(one.r.Session) {
					t.Fatalf("%s and %s: the session of %+v is not wanted", a.name, b.name, one.s)
				}
			}
		}
	}
	if counted[is] < 10000 || counted[may] < 1000 {
		t.Errorf("few records were tried: %s", fmt.Sprint(counted))
	}
}

// spoil changes all values of criteria, of which a filter has its own.
func spoil(c *Criteria) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch f.Kind() {
		case reflect.Slice:
			for k := range f.Len() {
				f.Index(k).SetZero()
			}
		case reflect.Pointer:
			if d, ok := f.Interface().(*time.Duration); ok && d != nil {
				*d = time.Hour
			}
		}
		f.SetZero()
	}
}
