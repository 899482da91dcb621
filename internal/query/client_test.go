package query

import (
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// Each spelling of an address finds the client that has it, as `inet` values are equal in
// PostgreSQL, and IPv4 addresses in IPv6 are what they stand for.
func TestAddressesOfClientsAreValues(t *testing.T) {
	stored := []string{"[::1]:40000", "127.0.0.1:50022", "[local]", "[2001:db8::a]:7", "[fe80::1%eth0]:9", "[::ffff:10.0.0.9]:1", "", "db.example:5"}
	for asked, want := range map[string][]string{
		"::1":                   {"[::1]:40000"},
		"0:0:0:0:0:0:0:1":       {"[::1]:40000"},
		"0::1":                  {"[::1]:40000"},
		"[::1]":                 {"[::1]:40000"},
		"[0::1]:40000":          {"[::1]:40000"},
		"[::1]:40001":           nil,
		"127.0.0.1":             {"127.0.0.1:50022"},
		"::ffff:127.0.0.1":      {"127.0.0.1:50022"},
		"::FFFF:7f00:1":         {"127.0.0.1:50022"},
		"[::ffff:7f00:1]:50022": {"127.0.0.1:50022"},
		"127.0.0.1:50023":       nil,
		"2001:0DB8:0::000A":     {"[2001:db8::a]:7"},
		"fe80::1":               {"[fe80::1%eth0]:9"},
		"fe80::1%eth0":          {"[fe80::1%eth0]:9"},
		"fe80::1%eth1":          nil,
		"10.0.0.9":              {"[::ffff:10.0.0.9]:1"},
		"[local]":               {"[local]"},
		"127.0.0.0/8":           {"127.0.0.1:50022"},
		"::ffff:127.0.0.0/104":  {"127.0.0.1:50022"},
		"::ffff:0:0/96":         {"127.0.0.1:50022", "[::ffff:10.0.0.9]:1"},
		"10.1.2.3/8":            {"[::ffff:10.0.0.9]:1"},
		"0.0.0.0/0":             {"127.0.0.1:50022", "[::ffff:10.0.0.9]:1"},
		"::/0":                  {"[::1]:40000", "[2001:db8::a]:7", "[fe80::1%eth0]:9"},
		"fe80::/10":             {"[fe80::1%eth0]:9"},
		"2001:db8:0:0::/64":     {"[2001:db8::a]:7"},
	} {
		asks, err := ParseClient(asked)
		if err != nil {
			t.Errorf("%s: %v", asked, err)
			continue
		}
		found := map[string]bool{}
		for _, one := range want {
			found[one] = true
		}
		for _, client := range stored {
			s := session(t, trailtest.Fact{Key: format.KeyClient, Value: client})
			if isOfClient([]Client{asks}).session(s) != found[client] {
				t.Errorf("%s: %q is found: %t", asked, client, !found[client])
			}
		}
	}
	for _, asked := range []string{"", "localhost", "127.0.0.1.2", "127.0.0.1/33", "[::1", "::1]", "1:2", "[local]:1", "db.example:5"} {
		if _, err := ParseClient(asked); err == nil {
			t.Errorf("%q is taken for an address", asked)
		}
	}
}

// session is a session as a reader sees it.
func session(t *testing.T, facts ...trailtest.Fact) (s *format.Session) {
	t.Helper()
	dir := t.TempDir()
	stream := trailtest.NewStream(t, dir, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(&trailtest.Record{Kind: format.KindNote, Session: trailtest.NewSession(trailtest.Epoch, 1, facts...), Time: trailtest.Epoch})
	stream.Write(t, b)
	tr, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	trailtest.EachRecord(t, tr, func(_ *trail.BlockRef, r *format.Record) {
		one := *r.Session
		s = &one
	})
	return s
}

// Sessions are chosen by how they authenticated, and the others excluded.
func TestIdentityOfSessions(t *testing.T) {
	of := func(identity string) *format.Session {
		return session(t, trailtest.Fact{Key: format.KeyUser, Value: "app"}, trailtest.Fact{Key: format.KeyIdentity, Value: identity})
	}
	subject := "CN=alice,O=Example, Inc."
	for identity, want := range map[string]bool{subject: true, "alice@EXAMPLE.ORG": true, "bob@EXAMPLE.ORG": false, "": false} {
		for not, options := range map[bool]Criteria{
			false: {Identities: []string{subject, "alice@EXAMPLE.ORG"}},
			true:  {Not: &Criteria{Identities: []string{subject, "alice@EXAMPLE.ORG"}}},
		} {
			f := options.Filter()
			m := Matcher{Filter: f}
			m.Reset()
			if kept := m.Keep(&format.Record{Kind: format.KindConnect, Session: of(identity), ShapeIndex: -1, TextIndex: -1}); kept == (want == not) {
				t.Errorf("%q, not %t: kept %t", identity, not, kept)
			}
		}
	}
}
