package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// TestNamesThatDoNotOccurAreTold: by the indexes of a trail, and by the records of blocks that none covers.
func TestNamesThatDoNotOccurAreTold(t *testing.T) {
	index := openIndexed(t)
	for _, one := range []struct {
		o    Criteria
		want string
	}{
		{Criteria{Users: []string{"alcie"}}, `no user of the name "alcie" occurs in the trail; nearest: "alice"`},
		{Criteria{Users: []string{"Alice", "bob"}}, `no user of the name "Alice" occurs in the trail; nearest: "alice"`},
		{Criteria{Users: []string{`"alice"`}}, `no user of the name """alice""" occurs in the trail; nearest: "alice"; names are given as they are, without the quotes of SQL`},
		{Criteria{Users: []string{`"`}}, `no user of the name """" occurs in the trail`},
		{Criteria{Objects: []string{`"orderz"`}}, `no object of the name """orderz""" occurs in the trail; nearest: "public.orders"`},
		{Criteria{Databases: []string{"shopp"}}, `no database of the name "shopp" occurs in the trail; nearest: "shop"`},
		{Criteria{Roles: []string{"ownr"}}, `no role of the name "ownr" occurs in the trail; nearest: "owner"`},
		{Criteria{Objects: []string{"public.order"}}, `no object of the name "public.order" occurs in the trail; nearest: "public.orders"`},
		{Criteria{Objects: []string{"no_such_schema.*"}}, `no object matches "no_such_schema.*" in the trail`},
		{Criteria{Users: []string{"alice", "bob"}, Databases: []string{"shop"}, Objects: []string{"Public.ORDERS", "orders.total", "ord*"}}, ""},
		{Criteria{Users: []string{""}}, ""},
		{Criteria{Not: &Criteria{Users: []string{"alcie"}}}, `no user of the name "alcie" occurs in the trail; nearest: "alice"`},
		{Criteria{Sessions: sessions("1a2b3c4d.7")}, `no session "1a2b3c4d.7" occurs in the trail`},
		{Criteria{Clients: clients("10.9.9.9")}, `no client "10.9.9.9" occurs in the trail`},
		{Criteria{Clients: clients("203.0.113.0/24")}, `no client matches "203.0.113.0/24" in the trail`},
		{Criteria{Identities: []string{"cn=nobody"}}, `no identity "cn=nobody" occurs in the trail`},
		{Criteria{AppContexts: []string{"request 7"}}, `no application context "request 7" occurs in the trail`},
		{Criteria{SQLStates: []SQLState{"4250Z"}}, `no SQLSTATE "4250Z" occurs in the trail; nearest: "42P01"`},
		{Criteria{Commands: []string{"ALTRE  TABLE"}}, `no command "ALTRE TABLE" occurs in the trail; nearest: "ALTER TABLE"`},
		{Criteria{Commands: []string{"selct"}}, `no command "selct" occurs in the trail; nearest: "SELECT"`},
		// What PostgreSQL has is no mistake, even if it did not occur.
		{Criteria{Commands: []string{"drop", "create text  search"}, SQLStates: trailtest.Values(ParseSQLState, "57P01", "53", "28p01")}, ""},
	} {
		var all []string
		for _, missing := range NewNames(&one.o).Search(context.Background(), index) {
			all = append(all, missing.Error())
		}
		if got := strings.Join(all, "\n"); got != one.want {
			t.Errorf("%+v: %q, want %q", one.o, got, one.want)
		}
		// The same of all blocks, without their indexes.
		n := NewNames(&one.o)
		names := n.Reader()
		var ref *trail.BlockRef
		scan := index.Scan(context.Background(), trail.ScanOptions{Since: format.MinTime, Until: format.MaxTime, Parts: true, Warn: func(err error) { t.Error(err) }})
		for r := scan.Reader(); r.Next(); {
			if r.Ref != ref {
				ref = r.Ref
				names.Start()
			}
			names.Record(&r.Record)
		}
		scan.Close()
		if got := fmt.Sprint(n.Missing()); (one.want == "") != (got == "[]") || one.want != "" && !strings.Contains(got, one.want) {
			t.Errorf("%+v: without indexes %s, want %q", one.o, got, one.want)
		}
	}
}

// TestUnindexedNamesAreThoseOfNoIndex: of clients, and not of what indexes tell.
func TestUnindexedNamesAreThoseOfNoIndex(t *testing.T) {
	indexed := Criteria{Users: []string{"alcie"}, Databases: []string{"shopp"}, Objects: []string{"public.order"}, Commands: []string{"selct"}}
	if n := NewUnindexedNames(&indexed); n.Remaining() != 0 {
		t.Errorf("%d names, of which indexes tell", n.Remaining())
	}
	indexed.Clients = clients("10.9.9.9", "10.9.9.8")
	if n := NewUnindexedNames(&indexed); n.Remaining() != 2 || n.InIndexes() {
		t.Errorf("%d names, want those of two clients", n.Remaining())
	}
}

// TestNamesThatOccurAreNotTold: what each session and record of a trail has is found, whichever way it is looked for.
func TestNamesThatOccurAreNotTold(t *testing.T) {
	index := openIndexed(t)
	asked := map[string]Criteria{}
	scan := index.Scan(context.Background(), trail.ScanOptions{Since: format.MinTime, Until: format.MaxTime, Parts: true, Warn: func(err error) { t.Error(err) }})
	for r := scan.Reader(); r.Next(); {
		s := r.Record.Session
		one := func(what string, value []byte, o Criteria) {
			if len(value) > 0 {
				asked[what+" "+string(value)] = o
			}
		}
		one("session", s.ID().Append(nil), Criteria{Sessions: []format.SessionID{s.ID()}})
		one("client session", s.ClientID().Append(nil), Criteria{Sessions: []format.SessionID{s.ClientID()}})
		for key, set := range map[format.Key]func(*Criteria) *[]string{
			format.KeyUser: func(o *Criteria) *[]string { return &o.Users }, format.KeyRole: func(o *Criteria) *[]string { return &o.Roles },
			format.KeyIdentity:   func(o *Criteria) *[]string { return &o.Identities },
			format.KeyAppContext: func(o *Criteria) *[]string { return &o.AppContexts }, format.KeyApplication: func(o *Criteria) *[]string { return &o.Applications },
		} {
			o := Criteria{}
			*set(&o) = []string{string(s.Fact(key))}
			one(fmt.Sprint("fact ", key), s.Fact(key), o)
		}
		if client := string(s.Fact(format.KeyClient)); client != "" {
			one("client", []byte(client), Criteria{Clients: clients(client)})
		}
		one("SQLSTATE", r.Record.SQLState, Criteria{SQLStates: []SQLState{SQLState(r.Record.SQLState)}})
		if r.Record.Shape != nil {
			one("command", r.Record.Shape.Command, Criteria{Commands: []string{string(r.Record.Shape.Command)}})
		}
	}
	scan.Close()
	if len(asked) < 15 {
		t.Fatalf("only %d names in the trail", len(asked))
	}
	for what, o := range asked {
		for _, all := range []Criteria{o, {Not: &o}} {
			if missing := NewNames(&all).Search(context.Background(), index); len(missing) > 0 {
				t.Errorf("%s: %v", what, missing)
			}
		}
	}
}

// TestNamesInOmittedTermsAreLookedFor: an index that leaves out terms of a list does not say which names occur.
func TestNamesInOmittedTermsAreLookedFor(t *testing.T) {
	for _, one := range []struct {
		o    Criteria
		list format.Terms
	}{
		{Criteria{Users: []string{"bob"}}, format.TermsUsers}, {Criteria{Databases: []string{"shop"}}, format.TermsDatabases},
		{Criteria{Applications: []string{"psql"}}, format.TermsApplications}, {Criteria{AppUsers: []string{"eve"}}, format.TermsAppUsers},
		{Criteria{SQLStates: []SQLState{"ZZ999"}}, format.TermsSqlstates}, {Criteria{Commands: []string{"FROB"}}, format.TermsCommands},
	} {
		for omitted := range byte(2) {
			c, err := format.ParseContents([]byte{1, 1, 1, byte(one.list), 2, omitted, 0})
			if err != nil {
				t.Fatal(err)
			}
			if got := NewNames(&one.o).Index(c).Has(0); got != (omitted == 1) {
				t.Errorf("%+v: block is read: %v, terms omitted: %d", one.o, got, omitted)
			}
		}
	}
}

// TestNamesAreQuotedSafely: what is told shows names so that nobody takes them for others.
func TestNamesAreQuotedSafely(t *testing.T) {
	for _, one := range []struct {
		e    NameError
		want string
	}{
		{NameError{What: "user", Name: "bo\u200bb", Nearest: "bob", isNamed: true}, `no user of the name "bo\u200bb" occurs in the trail; nearest: "bob"`},
		{NameError{What: "user", Name: `o"d`, Nearest: "\u0430lice", isNamed: true}, `no user of the name "o""d" occurs in the trail; nearest: "\u0430lice"`},
		{NameError{What: "user", Name: "größe\n", isNamed: true}, `no user of the name "größe\n" occurs in the trail`},
		{NameError{What: "user", Name: "acme", Nearest: "acme, inc", isNamed: true, isList: true}, `no user of the name "acme" occurs in the trail; nearest: "acme, inc", whose comma is written as \,`},
	} {
		if got := one.e.Error(); got != one.want {
			t.Errorf("%s, want %s", got, one.want)
		}
	}
	n := NewNames(&Criteria{Users: []string{"acme", " inc"}})
	n.facts[0].value(n, []byte("acme, inc"))
	if got := fmt.Sprint(n.Missing()); strings.Count(got, `nearest: "acme, inc", whose comma`) != 2 {
		t.Error(got)
	}
}

func TestDistanceIsThatOfLevenshtein(t *testing.T) {
	var plain func(a, b []rune) int
	plain = func(a, b []rune) int {
		if len(a) == 0 || len(b) == 0 {
			return len(a) + len(b)
		}
		same := plain(a[1:], b[1:])
		if a[0] != b[0] {
			same++
		}
		return min(same, plain(a[1:], b)+1, plain(a, b[1:])+1)
	}
	words := []string{"", "a", "ab", "ba", "größe", "grosse", "hr.st", "staff"}
	for _, a := range words {
		for _, b := range slices.Backward(words) {
			if got, want := render.Distance(a, b), plain([]rune(a), []rune(b)); got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}
