package proof

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// What is proved is what "steno cat" shows, whichever way it is proved.
func TestProofsHaveTheRecordsOfTheTrail(t *testing.T) {
	dir := small{streams: 2, settings: []string{"steno.writers", "2"}}.write(t)
	filters := map[string]func(*query.Criteria){
		"all": nil, "object": ofSalary,
		"other":   func(o *query.Criteria) { o.Objects = []string{"hr.nothing"} },
		"user":    func(o *query.Criteria) { o.Users = []string{"alice"} },
		"kind":    func(o *query.Criteria) { o.Kinds = []format.Kind{format.KindSeal} },
		"class":   func(o *query.Criteria) { o.Classes = []format.Class{format.ClassRead, format.ClassDDL} },
		"grep":    func(o *query.Criteria) { o.Grep = patterns("salary") },
		"session": func(o *query.Criteria) { o.Sessions = sessions("6b0202d9.fa1") },
	}
	for name, change := range filters {
		for _, full := range []bool{false, true} {
			q := question(t, 12.5, 47, full, change)
			r := proved(t, dir, q)
			if r.Complete == (name == "other") || name == "other" && len(r.Exceptions) != 1 {
				t.Errorf("%s: full %v: %+v", name, full, r)
			}
			if want := inTrail(t, dir, q); want != lines(t, r) || int64(strings.Count(want, "\n")) != r.Matches {
				t.Errorf("%s: full %v: the proof has %d records:\n%s\nthe trail:\n%s", name, full, r.Matches, lines(t, r), want)
			}
			inRange := slices.ContainsFunc(r.Streams, func(s Stream) bool { return s.LeftOutInRange > 0 })
			if full && inRange || !full && name == "other" && !inRange {
				t.Errorf("%s: full %v: %+v", name, full, r.Streams)
			}
		}
	}
}

type plain struct {
	chosen
	render.Renderer
}

func (p *plain) Start(ref *trail.BlockRef) { p.chosen.Start(ref); p.Renderer.Start(ref) }

func newJSON() render.Renderer { return render.New(render.JSON, render.Options{}) }

func inTrail(t *testing.T, dir string, q *Question) string {
	t.Helper()
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	a := must(newEvaluator(q))
	var out strings.Builder
	err = opened.Index().Merge(context.Background(), trail.MergeOptions{
		Since: a.since, Until: a.until, Rollbacks: true, Warn: func(err error) { t.Error(err) },
		NewFormatter: func() trail.Formatter { return &plain{chosen{must(newEvaluator(q))}, newJSON()} },
	}, func(line []byte) error { out.Write(line); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func lines(t *testing.T, r *Report) string {
	t.Helper()
	var out strings.Builder
	if err := r.Merge(context.Background(), newJSON, func(err error) { t.Error(err) }, func(line []byte) error { out.Write(line); return nil }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestARecordIsProved(t *testing.T) {
	dir := small{}.write(t)
	q, err := NewRecordQuestion("6b0202d9.fa1/25")
	if err != nil {
		t.Fatal(err)
	}
	r := proved(t, dir, q)
	if !r.Proved || r.Matches != 1 || r.Streams[0].Blocks != 1 || !strings.Contains(lines(t, r), `"text":"SELECT * FROM hr.salary"`) {
		t.Errorf("%+v\n%s", r, lines(t, r))
	}
	q.Record = "6b0202d9.fa1/2500"
	if _, err := makeProof(t, dir, q, nil); err == nil || err.Error() != "the trail does not have record 6b0202d9.fa1/2500" {
		t.Errorf("%v", err)
	}
}

// What the trail tells about what it lacks makes a proof one with exceptions.
func TestExceptions(t *testing.T) {
	is := func(records ...*trailtest.Record) []*trailtest.Record { return records }
	forLong := func(o *query.Criteria) { ofSalary(o); o.MinDuration = least("1h") }
	forKey := func(o *query.Criteria) { o.Grep = patterns("4711") }
	type extra = map[int]func(w *writer, alice *trailtest.Session) []*trailtest.Record
	for _, test := range []struct {
		name string
		small
		wants string // an exception; empty: none
		ask   func(*query.Criteria)
	}{
		{name: "nothing"},
		{name: "class off at the start", small: small{settings: []string{"steno.log", "write, ddl"}}, wants: `class read.* were not recorded throughout: steno.log = "write, ddl"`},
		{name: "other class off", small: small{settings: []string{"steno.log", "read"}}, ask: func(o *query.Criteria) { ofSalary(o); o.Classes = []format.Class{format.ClassRead} }},
		{name: "mandatory", small: small{settings: []string{"steno.log", "none", "steno.mandatory", "all"}}},
		{name: "class off before", small: small{extra: extra{5: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 5, "steno.log", "all", "none", "server"), setting(w.Session, 5.1, "steno.log", "none", "all", "server"))
		}}}, wants: `were not recorded until \S+, and in sessions that were running a statement then until that had ended: steno.log = "none"`},
		{name: "class off before the last start", small: small{extra: extra{5: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 5, "steno.log", "all", "none", "server"), setting(w.Session, 5.1, "steno.log", "none", "all", "server"), w.event(5.2, "stop"), w.starts(5.3))
		}}}},
		{name: "class off since before", small: small{extra: extra{5: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 5, "steno.log", "all", "all, -read", "server"))
		}}}, wants: `class read were not recorded throughout: steno.log = "all, -read"`},
		{name: "class off meanwhile", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 35, "steno.log", "all", "all, -read", "server"), setting(w.Session, 35.2, "steno.log", "all, -read", "all", "server"))
		}}}, wants: `class read were not recorded from .*20:13.000000Z until .*:25.000000Z`},
		{name: "a long list of classes", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 35, "steno.log", "all", strings.Repeat("all,", 35)+"... d05fb756", "server"))
		}}}, wants: `class .*read.* were not recorded since .*20:13.000000Z: steno.log = "all,.* d05fb756"`},
		{name: "a long list at the start", small: small{settings: []string{"steno.mandatory", strings.Repeat("all,", 35) + "... d05fb756"}},
			wants: `changes of settings were not mandatory throughout`},
		{name: "a list with quotes", small: small{settings: []string{"steno.log", `"all", -ddl,	"-function" , READ`}}, ask: func(o *query.Criteria) { ofSalary(o); o.Classes = []format.Class{format.ClassRead} }},
		{name: "class off later", small: small{extra: extra{60: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 60, "steno.log", "all", "all, -read", "server"))
		}}}},
		{name: "class off in a session", small: small{extra: extra{5: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			return is(setting(alice, 5, "steno.log", "all", "none", "session"))
		}}}, wants: `of user "alice" were not recorded in session 6b0202d9\.\w+ \(2026-11-21T\S+Z\): steno.log = "none", set by session`},
		{name: "class off for another role", small: small{extra: extra{5: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			return is(setting(client(9, "bob"), 5, "steno.log", "all", "none", "role"))
		}}}, ask: func(o *query.Criteria) { o.Users = []string{"alice"} }},
		{name: "class off for another role, which becomes this one", small: small{extra: extra{
			5: func(*writer, *trailtest.Session) []*trailtest.Record {
				return is(setting(client(9, "bob"), 5, "steno.log", "all", "none", "role"))
			},
			35: func(*writer, *trailtest.Session) []*trailtest.Record {
				r := reads(client(9, "alice"), 35, "hr.other")
				r.Seq = 2
				return is(r)
			},
		}}, ask: func(o *query.Criteria) { o.Users = []string{"alice"} }, wants: `of user "bob" were not recorded in session 6b0202d9\.\w+ \(2026-11-21T\S+Z\): steno.log = "none", set by role`},
		{name: "relations off", small: small{settings: []string{"steno.log_relation", "off"}}, wants: `the relations of statements were not recorded throughout`},
		{name: "nested off", small: small{settings: []string{"steno.log_nested", "off"}}, wants: `statements in functions were not recorded`},
		{name: "catalogs off", small: small{settings: []string{"steno.log_catalog", "off"}}},
		{name: "catalogs off, and a table of any schema", small: small{settings: []string{"steno.log_catalog", "off"}}, ask: func(o *query.Criteria) { o.Objects = []string{"salary"} }, wants: `queries of system catalogs were not recorded`},
		{name: "catalogs off, and updates", small: small{settings: []string{"steno.log_catalog", "off"}}, ask: func(o *query.Criteria) { o.Objects, o.Commands = []string{"salary"}, []string{"update"} }},
		{name: "catalogs off, and writes", small: small{settings: []string{"steno.log_catalog", "off"}}, ask: func(o *query.Criteria) { o.Objects, o.Classes = []string{"salary"}, []format.Class{format.ClassWrite} }},
		{name: "catalogs off, and failures", small: small{settings: []string{"steno.log_catalog", "off"}}, ask: func(o *query.Criteria) { o.Objects, o.Failed = []string{"salary"}, true }},
		{name: "settings not mandatory", small: small{settings: []string{"steno.mandatory", "ddl"}}, wants: `changes of settings were not mandatory throughout`},
		{name: "rules", small: small{extra: extra{2: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 2, "steno.rules_file", "", "3 rules", "server"))
		}}}, wants: `were not recorded throughout: there were 3 rules$`},
		{name: "a rule", small: small{extra: extra{2: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 2, "steno.rules_file", "", "1 rules", "server"))
		}}}, wants: `were not recorded throughout: there was 1 rule$`},
		{name: "rules without effect", small: small{extra: extra{2: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 2, "steno.rules_file", "", "0 rules", "server"))
		}}}},
		{name: "drops", small: small{settings: []string{"steno.delivery", "drop"}}, wants: `found no space in their rings`},
		{name: "killed", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			w.restarts(35.6)
			return nil
		}}}, wants: `blocks \d+ to \d+ were sealed only at .*:49.000000Z, as the next run`},
		{name: "gap", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			return is(&trailtest.Record{Kind: format.KindGap, Session: alice, Seq: 40, Time: at(35.5), Extra: []string{"count", "4", "first_seq", "36", "last_seq", "39", "reason", "ring full"}})
		}}}, wants: `4 records were lost of sessions of user "alice", between .* \(ring full\)`},
		{name: "hidden", small: small{extra: extra{35: func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(hides(client(9, "bob"), 35.5))
		}}}, wants: `1 transaction of user "bob" wrote, but another library hid what they ran`},
		{name: "hidden, of another user", small: small{extra: extra{35: func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(hides(client(9, "bob"), 35.5))
		}}}, ask: func(o *query.Criteria) { o.Users = []string{"alice"} }},
		{name: "hidden before", small: small{extra: extra{5: func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(hides(client(9, "bob"), 5.5))
		}}}},
		{name: "gap before", small: small{extra: extra{5: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			return is(&trailtest.Record{Kind: format.KindGap, Session: alice, Seq: 10, Time: at(5.5), Extra: []string{"count", "4", "first_seq", "6", "last_seq", "9", "reason", "ring full"}})
		}}}},
		{name: "stopped", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.event(35.1, "stop"), w.starts(35.4))
		}}}, wants: `nothing was recorded from .*:20:19.000000Z until .*:20:37.000000Z: the server was not running`},
		{name: "not run", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.event(35.1, "stop", "wal", "0/15C8A40"), w.starts(35.4, "not_run_since_wal", "0/15C8A40"))
		}}}},
		{name: "run since another stop", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.event(35.1, "stop", "wal", "0/15C8A40"), w.starts(35.4, "not_run_since_wal", "0/15C8A48"))
		}}}, wants: `the server was not running, or ran without pg_steno`},
		{name: "not known whether it was run", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.event(35.1, "stop"), w.starts(35.4, "not_run_since_wal", ""))
		}}}, wants: `the server was not running, or ran without pg_steno`},
		{name: "crashed", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.starts(35.4), w.event(35.41, "recover"))
		}}}, wants: `ended without stopping before .* was recovered`},
		{name: "crashed, and recovered later", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.starts(34.9), w.starts(35.4), w.event(35.45, "recover", "since", when(34.89)))
		}}}, wants: `ended without stopping before .*:20:37.000000Z; what its sessions had recorded until then was recovered`},
		{name: "crashed, and another run was recovered", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.starts(34.8), w.starts(35.1), w.starts(35.4), w.event(35.45, "recover", "since", when(34.79)))
		}}}, wants: `ended without stopping before .*:20:37.000000Z, and nothing says`},
		{name: "lost power", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.starts(35.4))
		}}}, wants: `ended without stopping before .* nothing says`},
		{name: "torn", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.event(35.4, "torn", "bytes", "100"))
		}}}, wants: `unfinished block was cut off stream 0 .* \(bytes=100\)`},
		{name: "failure", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(w.event(35.4, "failure", "reason", "disk full"))
		}}}, wants: `the server reported "failure" at .* \(reason=disk full\)`},
		{name: "relations omitted", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, 35.4, "hr.other")
			r.Extra = []string{"relations_omitted", "9"}
			return is(r)
		}}}, wants: `record 6b0202d9.fa1/36 of .* may match: it leaves out relations`},
		{name: "text truncated", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, 35.4, "hr.other")
			r.TextBytes = 4000
			return is(r)
		}}}, ask: forKey, wants: `record 6b0202d9.fa1/36 of .* may match: it has only the beginning of its text`},
		{name: "parameters omitted", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, 35.4, "hr.other")
			r.Extra = []string{"parameters_omitted", "1"}
			return is(r)
		}}}, ask: forKey, wants: `record 6b0202d9.fa1/36 of .* may match: it leaves out parameters`},
		{name: "parameter not recorded", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, 35.4, "hr.other")
			r.Shape.Params = []format.ParamType{{OID: 23, Repr: format.ReprInt4}, {OID: 5000, Repr: format.ReprNone}}
			r.Fields, r.Values = format.FieldValues, []byte{1, 0, 0, 0}
			return is(r)
		}}}, ask: forKey, wants: `record 6b0202d9.fa1/36 of .* may match: it does not have the value of a parameter`},
		{name: "parameter NULL", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, 35.4, "hr.other")
			r.Shape.Params = []format.ParamType{{OID: 5000, Repr: format.ReprNone}}
			r.Fields, r.Nulls = format.FieldNulls, []byte{1}
			return is(r)
		}}}, ask: forKey},
		{name: "running", small: small{extra: extra{35: func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(&trailtest.Record{Kind: format.KindStart, Session: client(9, "bob"), Time: at(35.4), Unnumbered: true, Outcome: format.OutcomeRunning, Text: "COPY …"})
		}}}, wants: `may match: it does not state its relations`},
		{name: "running, and ended later", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			end := reads(alice, 35.4, "hr.other")
			end.Statement = 36
			return is(&trailtest.Record{Kind: format.KindStart, Session: alice, Statement: 36, Time: at(35.4), Unnumbered: true, Outcome: format.OutcomeRunning, Text: "COPY …"}, end)
		}}}},
		{name: "interrupted after nobody knows how long", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, 35.4, "hr.salary")
			r.Outcome, r.Duration = format.OutcomeInterrupted, 0
			return is(r)
		}}}, ask: forLong, wants: `record 6b0202d9.fa1/36 of .* may match: it does not state how long it took`},
		{name: "interrupted, without relations, after nobody knows how long", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, 35.4, "hr.other")
			r.Outcome, r.Duration, r.Shape.Relations = format.OutcomeInterrupted, 0, nil
			return is(r)
		}}}, ask: forLong, wants: `may match: it does not state its relations`},
		{name: "interrupted soon", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, 35.4, "hr.salary")
			r.Outcome = format.OutcomeInterrupted
			return is(r)
		}}}, ask: forLong},
		{name: "a user without a name", small: small{extra: extra{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			w.Put(reads(client(9, "pg_unknown (OID=16384)"), 35.4, "hr.other"))
			return is(reads(client(8, "bob"), 35.5, "hr.other")) // a block between it and the seal
		}}}, ask: func(o *query.Criteria) { o.Users = []string{"carol"} }, wants: `may match: it does not state for certain which user or role it is of`},
		{name: "a role without a name", small: small{extra: extra{35: func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(reads(client(9, "pg_unknown (OID=16384)"), 35.4, "hr.other"))
		}}}, ask: func(o *query.Criteria) { o.Roles = []string{"carol"} }, wants: `may match: it does not state for certain which user or role it is of`},
		{name: "a user without a name, who did something else", small: small{extra: extra{35: func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(reads(client(9, "pg_unknown (OID=16384)"), 35.4, "hr.other"))
		}}}, ask: func(o *query.Criteria) { o.Users, o.Objects = []string{"alice"}, []string{"hr.salary"} }},
		{name: "a user without a name, when nobody is asked for", small: small{extra: extra{35: func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(reads(client(9, "pg_unknown (OID=16384)"), 35.4, "hr.other"))
		}}}},
		{name: "interrupted", small: small{extra: extra{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, 35.4, "hr.other")
			r.Outcome, r.Shape.Relations = format.OutcomeInterrupted, nil
			return is(r)
		}}}, wants: `may match: it does not state its relations`},
	} {
		t.Run(test.name, func(t *testing.T) { excepts(t, test.small.write(t), test.ask, test.wants) })
	}
}

// excepts checks that a proof with indexes, and one without, has an exception; empty: none. Without a question, it is
// about hr.salary.
func excepts(t *testing.T, dir string, change func(*query.Criteria), wants string) {
	t.Helper()
	if change == nil {
		change = ofSalary
	}
	for _, full := range []bool{false, true} {
		r := proved(t, dir, question(t, 30, 50, full, change))
		all := strings.Join(r.Exceptions, "\n")
		for _, one := range r.Exceptions {
			if len(CauseOf(one)) == 0 {
				t.Errorf("an exception that is not in the list of causes: %s", one)
			}
		}
		switch {
		case !r.Proved:
			t.Errorf("full %v: not proved: %+v", full, r)
		case wants == "" && !r.Complete:
			t.Errorf("full %v: exceptions: %s", full, all)
		case wants != "" && !regexp.MustCompile(wants).MatchString(all):
			t.Errorf("full %v: %q is not among the exceptions: %s", full, wants, all)
		}
	}
}

// A name that neither the records of the proof have nor its indexes is told, with the one that is most like it. The checker
// needs nobody's word for that.
func TestNamesThatDoNotOccurAreExceptions(t *testing.T) {
	dir := small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
		s := client(9, "vendor_acme").With(trailtest.Fact{Key: format.KeyRole, Value: "auditor"}, trailtest.Fact{Key: format.KeyApplication, Value: "psql"},
			trailtest.Fact{Key: format.KeyAppUser, Value: "zoe"})
		return []*trailtest.Record{reads(s, 35, "hr.staff")}
	}}}.write(t)
	for _, one := range []struct {
		ask   func(*query.Criteria)
		wants string
	}{
		{func(o *query.Criteria) { o.Users = []string{"vendor_acm"} }, `no user of the name "vendor_acm" occurs in what the proof has of the trail, from the beginning of the trail until 2.*; nearest: "vendor_acme"`},
		{func(o *query.Criteria) { o.Users = []string{"alice", "Vendor_Acme"} }, `no user of the name "Vendor_Acme" .*; nearest: "vendor_acme"`},
		{func(o *query.Criteria) { o.Roles = []string{"auditer"} }, `no role of the name "auditer" .*; nearest: "auditor"`},
		{func(o *query.Criteria) { o.Databases = []string{"hrr"} }, `no database of the name "hrr" .*; nearest: "hr"`},
		{func(o *query.Criteria) { o.Applications = []string{"psq"} }, `no application of the name "psq" .*; nearest: "psql"`},
		{func(o *query.Criteria) { o.AppUsers = []string{"zo"} }, `no application user of the name "zo" .*; nearest: "zoe"`},
		{func(o *query.Criteria) { o.Objects = []string{"hr.staf"} }, `no object of the name "hr.staf" .*; nearest: "hr.staff"`},
		{func(o *query.Criteria) { o.Objects = []string{"stafff"} }, `no object of the name "stafff" .*; nearest: "hr.staff"`},
		{func(o *query.Criteria) { o.Objects = []string{"hq.*"} }, `no object matches "hq.\*"`},
		{func(o *query.Criteria) { o.Objects = []string{"HR.staff", "hr.*"} }, ""},
		{func(o *query.Criteria) { o.Users = []string{"vendor_acme"} }, ""},
		{func(o *query.Criteria) { o.Roles = []string{"alice", "auditor"} }, ""}, // the user if no other role was set
		{ofSalary, ""},
	} {
		excepts(t, dir, one.ask, one.wants)
	}
}

// What a user did in a session that got another user is not what --user finds: the session is told, whatever else is
// asked for, whether it got that user in the range or before.
func TestSessionsThatGotAnotherUserAreExceptions(t *testing.T) {
	alice := func(o *query.Criteria) { ofSalary(o); o.Users = []string{"alice"} }
	says := func(text string, minute int, outcome format.Outcome) small {
		return small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{minute: func(*writer, *trailtest.Session) []*trailtest.Record {
			s := client(77, "alice")
			set := &trailtest.Record{Kind: format.KindStatement, Session: s, Time: at(float64(minute)), Text: text, Outcome: outcome, Shape: &trailtest.Shape{Class: format.ClassMiscSet, Command: "SET"}}
			if outcome == format.OutcomeError {
				set.SQLState, set.Message = "42501", "permission denied"
			}
			return []*trailtest.Record{set}
		}}}
	}
	const may = `session \S+ of user "alice" may have got another user at 2`
	for text, wants := range map[string]string{
		"SET SESSION AUTHORIZATION bob": may, "set session/**/authorization bob": may, "SELECT set_config('session_authorization', 'bob', false)": may,
		"SET SESSION AUTHORIZATION DEFAULT": "", "reset  session authorization;": "", "SET search_path = x": "",
	} {
		for _, minute := range []int{5, 35} {
			excepts(t, says(text, minute, format.OutcomeOk).write(t), alice, wants)
		}
	}
	excepts(t, says("SET SESSION AUTHORIZATION bob", 35, format.OutcomeError).write(t), alice, "")
	excepts(t, says("SET SESSION AUTHORIZATION bob", 60, format.OutcomeOk).write(t), alice, "")
	excepts(t, says("SET SESSION AUTHORIZATION bob", 35, format.OutcomeOk).write(t), nil, "") // nobody is asked for
	both := small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{35: func(*writer, *trailtest.Session) []*trailtest.Record {
		one, other := reads(client(77, "alice"), 35, "hr.staff"), reads(client(77, "bob"), 35.1, "hr.staff")
		other.Seq = 2
		return []*trailtest.Record{one, other}
	}}}.write(t)
	r := proved(t, both, question(t, 30, 50, true, alice))
	if all := strings.Join(r.Exceptions, "\n"); !strings.Contains(all, `of user "alice" had another user, too`) {
		t.Errorf("with all blocks: %s", all)
	}
}

// A maker that ignores the statements that may have given the session another user is refused: the indexes say where
// they are.
func TestBlocksWithSwitchesAreDemanded(t *testing.T) {
	alice := func(o *query.Criteria) { ofSalary(o); o.Users = []string{"alice"} }
	dir := func(text string, minute int) string {
		return small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{minute: func(*writer, *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{{Kind: format.KindStatement, Session: client(77, "alice"), Time: at(float64(minute)), Text: text, Shape: &trailtest.Shape{Class: format.ClassMiscSet, Command: "SET"}}}
		}}}.write(t)
	}
	for _, minute := range []int{5, 35} {
		if r := ignoring(t, dir("SET SESSION AUTHORIZATION bob", minute), question(t, 30, 50, false, alice)); r.Proved || !strings.Contains(strings.Join(r.Problems, "\n"), "no index in the proof shows") {
			t.Errorf("minute %d: %+v", minute, r)
		}
		if r := ignoring(t, dir("SET search_path = x", minute), question(t, 30, 50, false, alice)); !r.Proved {
			t.Errorf("minute %d, nothing is switched: %+v", minute, r)
		}
	}
}

// omitting is a trail in which a record leaves out something that others have.
func omitting(what string, old bool) small {
	return small{old: old, extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
		r := reads(alice, 35, "hr.staff")
		r.Extra = []string{what + "_omitted", "1000"}
		return []*trailtest.Record{r}
	}}}
}

// Whatever else is asked for, a record that leaves out what a filter looks at may match, if it fulfills the rest.
func TestOmissionsAreExceptionsWithAllOtherFilters(t *testing.T) {
	others := map[string]func(*query.Criteria){
		"": func(*query.Criteria) {}, "user": func(o *query.Criteria) { o.Users = []string{"alice"} },
		"role": func(o *query.Criteria) { o.Roles = []string{"alice"} }, "database": func(o *query.Criteria) { o.Databases = []string{"hr"} },
		"class": func(o *query.Criteria) { o.Classes = []format.Class{format.ClassRead} }, "command": func(o *query.Criteria) { o.Commands = []string{"SELECT"} },
		"kind":         func(o *query.Criteria) { o.Kinds = []format.Kind{format.KindStatement} },
		"min-duration": func(o *query.Criteria) { o.MinDuration = least("1ms") },
		"not-user":     func(o *query.Criteria) { o.Not = &query.Criteria{Users: []string{"bob"}} },
		"not-command":  func(o *query.Criteria) { o.Not = &query.Criteria{Commands: []string{"DROP"}} },
	}
	for what, ask := range map[string]func(*query.Criteria){
		"relations": ofSalary, "objects": ofSalary, "parameters": func(o *query.Criteria) { o.Grep = patterns("4711") },
	} {
		for _, old := range []bool{false, true} {
			dir := omitting(what, old).write(t)
			for _, other := range others {
				excepts(t, dir, func(o *query.Criteria) { ask(o); other(o) }, `may match: it leaves out `+what)
			}
			excepts(t, dir, func(o *query.Criteria) { ask(o); o.Commands = []string{"DROP"} }, "")
		}
	}
}

// A maker that ignores what records leave out is refused, also without --full: the indexes say where such records are.
func TestBlocksWithOmissionsAreDemanded(t *testing.T) {
	change := ofSalary // without filters of texts, as here, an index demands all blocks of those who ask for one
	for _, what := range []string{"relations", "objects"} {
		for _, dir := range []string{omitting(what, false).write(t), omitting(what, true).write(t)} {
			if r := ignoring(t, dir, question(t, 30, 50, false, change)); r.Proved || !strings.Contains(strings.Join(r.Problems, "\n"), "no index in the proof shows that it has nothing of the answer") {
				t.Errorf("%s: %+v", what, r)
			}
		}
		if r := ignoring(t, small{}.write(t), question(t, 30, 50, false, change)); !r.Proved {
			t.Errorf("%s: nothing is left out: %+v", what, r)
		}
	}
}

// ignoring checks the proof of a maker that includes only what tells of the server.
func ignoring(t *testing.T, dir string, q *Question) *Report {
	t.Helper()
	path, err := makeProofAs(t, dir, q, func() (none *evaluator, err error) {
		none = &evaluator{question: &Question{Filter: query.Criteria{Kinds: []format.Kind{format.KindSeal}}}, since: must(newEvaluator(q)).since, until: must(newEvaluator(q)).until}
		none.filter = (&query.Criteria{Users: []string{"nobody"}}).Filter()
		none.matcher.Filter, none.withoutParts.Filter, none.sessionMatcher.Filter, none.contents = none.filter, none.filter, none.filter, none.filter.Contents()
		return none, err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return checked(t, path, Checks{})
}

// Before the trail began, nothing was recorded.
func TestARangeBeforeTheTrail(t *testing.T) {
	r := proved(t, small{}.write(t), question(t, -600, 30, false, ofSalary))
	if !r.Proved || r.Complete || !strings.Contains(strings.Join(r.Exceptions, "\n"), "nothing was recorded before "+when(0)+": the trail begins") {
		t.Errorf("%+v", r)
	}
}

// The last seal must be so much later than the range that all records of it were written.
func TestASealSoonAfterTheRange(t *testing.T) {
	path, err := makeProof(t, small{}.write(t), question(t, 22, 28, true, ofSalary), nil)
	if err != nil {
		t.Fatal(err)
	}
	for until, wants := range map[float64]bool{28.89: true, 28.85: false} { // the seal is of 28.9
		all := asks(apart(t, path), func(q *Question) { q.Range.Until = at(until) })
		r := checked(t, together(t, all), Checks{})
		if !r.Proved || r.Complete == wants || wants && !strings.Contains(r.Exceptions[0], "may have been written later") {
			t.Errorf("%v: %+v", until, r)
		}
	}
}

// What the trail does not prove has no proof.
func TestRefusals(t *testing.T) {
	whole := small{}.write(t)
	for _, test := range []struct {
		name         string
		since, until float64
		change       func(t *testing.T, dir string)
		wants        string
	}{
		{name: "the end is not sealed", since: 70, until: 95, wants: `uncovered: .*after its last seal in the proof`},
		{name: "damage", since: 30, until: 50, wants: `damaged where the answer would have to be proved: .*0000000004.steno: offset \d+: checksum`, change: func(t *testing.T, dir string) {
			flip(t, filepath.Join(dir, "0/0000000004.steno"), 1500)
		}},
		{name: "damage elsewhere", since: 30, until: 50, change: func(t *testing.T, dir string) {
			flip(t, filepath.Join(dir, "0/0000000008.steno"), 1500)
		}},
		{name: "a missing segment", since: 30, until: 50, wants: `segments 4 to 4 are missing`, change: func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "0/0000000004.steno")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a beginning that was deleted", since: 15, until: 50, wants: `uncovered: .*written before`, change: func(t *testing.T, dir string) {
			for _, n := range []string{"1", "2", "3"} {
				if err := os.Remove(filepath.Join(dir, "0/000000000"+n+".steno")); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "trail")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				test.change(t, dir)
			}
			for _, full := range []bool{false, true} {
				path, err := makeProof(t, dir, question(t, test.since, test.until, full, ofSalary), nil)
				what := ""
				if refused := (*RefusedError)(nil); errors.As(err, &refused) {
					what = refused.Reason
				} else if err != nil {
					t.Fatal(err)
				} else if r := checked(t, path, Checks{}); !r.Proved {
					what = "uncovered: " + strings.Join(r.Uncovered, ";") + strings.Join(r.Problems, ";")
				}
				if test.wants == "" && what != "" || !regexp.MustCompile(test.wants).MatchString(what) {
					t.Errorf("full %v: %s", full, what)
				}
			}
		})
	}
	hole := small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{35: func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
		r := reads(alice, 35.5, "hr.staff")
		r.Seq = 40
		return []*trailtest.Record{r}
	}}}.write(t)
	if r := proved(t, hole, question(t, 30, 50, true, ofSalary)); r.Proved || !strings.Contains(strings.Join(r.Problems, ""), "session 6b0202d9.fa1: records 36 to 39 are missing") {
		t.Errorf("%+v", r)
	}
	unsealed := filepath.Join(t.TempDir(), "trail")
	s := trailtest.NewStream(t, unsealed, 0)
	b := trailtest.NewBuilder(trailtest.Epoch)
	b.Add(reads(client(1, "bob"), 1, "hr.salary"))
	s.Write(t, b)
	if _, err := makeProof(t, unsealed, question(t, 0, 5, false, nil), nil); err == nil || !strings.Contains(err.Error(), "stream 0 has no seal") {
		t.Error(err)
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEncryptedTrailsNeedTheirKey(t *testing.T) {
	key := [32]byte{1}
	dir := small{key: &key}.write(t)
	keys := format.NewKeys(func() ([][format.KeySize]byte, error) { return [][format.KeySize]byte{key}, nil })
	q := question(t, 20, 30, false, ofSalary)
	path, err := makeProof(t, dir, q, keys)
	if err != nil {
		t.Fatal(err)
	}
	if r := checked(t, path, Checks{Encryption: keys}); !r.Complete || r.Matches != 1 {
		t.Errorf("%+v", r)
	}
	if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, []byte("alice")) {
		t.Error("the proof shows what is encrypted in the trail", err)
	}
	other := format.NewKeys(func() ([][format.KeySize]byte, error) { return [][format.KeySize]byte{{2}}, nil })
	for _, keys := range []*format.Keys{nil, other} {
		if r := checked(t, path, Checks{Encryption: keys}); r.Proved || !strings.Contains(r.Unread, format.IDOf(key).String()) {
			t.Errorf("%+v", r)
		}
	}
	if _, err := makeProof(t, dir, q, nil); err == nil || !strings.Contains(err.Error(), "was not given") {
		t.Error(err)
	}
}

// A key that a trusted key names is trusted, from there on.
func TestRotatedKeys(t *testing.T) {
	next := privateKey(7)
	dir := small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{
		15: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			w.Seal(at(15.5), seal.ReasonKey, next)
			return nil
		},
	}}.write(t)
	q := question(t, 30, 50, false, ofSalary)
	path, err := makeProof(t, dir, q, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := checked(t, path, Checks{}); !r.Complete {
		t.Errorf("with the oldest key: %+v", r)
	}
	record, err := NewRecordQuestion("6b0202d9.fa1/40")
	if err != nil {
		t.Fatal(err)
	}
	if r := proved(t, dir, record); !r.Proved {
		t.Errorf("a record: %+v", r)
	}
}
