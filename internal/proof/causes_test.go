package proof

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// hiding is a trail that lacks something, a question that it matters to, and a range of it.
type hiding struct {
	small
	ask          func(*query.Criteria)
	since, until float64 // 0: from 30 to 50
	deleted      int     // the stream whose first segment was deleted by retention, from 1 on; 0: none
}

// hidings has a trail for each cause, by its name in the list.
func hidings() map[string]hiding {
	type extra = map[int]func(*writer, *trailtest.Session) []*trailtest.Record
	is := func(records ...*trailtest.Record) []*trailtest.Record { return records }
	in := func(minute int, make func(w *writer, alice *trailtest.Session) []*trailtest.Record) small {
		return small{extra: extra{minute: make}}
	}
	set := func(name, value string, ask func(*query.Criteria)) hiding {
		return hiding{small: small{settings: []string{name, value}}, ask: ask}
	}
	changed := func(minute int, more func(r *trailtest.Record), ask func(*query.Criteria)) hiding {
		return hiding{small: in(minute, func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			r := reads(alice, float64(minute), "hr.other")
			more(r)
			return is(r)
		}), ask: ask}
	}
	event := func(make func(w *writer) []*trailtest.Record) hiding {
		return hiding{small: in(35, func(w *writer, _ *trailtest.Session) []*trailtest.Record { return make(w) })}
	}
	grep := func(o *query.Criteria) { o.Grep = patterns("4711") }
	any := func(o *query.Criteria) { o.Users = []string{"alice"} }
	alice := func(o *query.Criteria) { ofSalary(o); o.Users = []string{"alice"} }
	renaming := func(minute int, ends float64) small {
		bob := client(9, "bob")
		make := func(*writer, *trailtest.Session) []*trailtest.Record {
			r := renames(bob, float64(minute), "table", "hr.salary", "hr.x")
			r.Seq, r.XID = 2, 77
			return is(r)
		}
		end := func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(&trailtest.Record{Kind: format.KindTransaction, Session: bob, Seq: 3, XID: 77, Time: at(ends), Extra: []string{"event", "commit"},
				Shape: &trailtest.Shape{Class: format.ClassTransaction}})
		}
		return small{extra: extra{minute: make, int(ends): end}}
	}
	says := func(user, text string) hiding {
		return hiding{small: in(35, func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(&trailtest.Record{Kind: format.KindStatement, Session: client(77, user), Time: at(35), Text: text, Shape: &trailtest.Shape{Class: format.ClassMiscSet, Command: "SET"}})
		}), ask: alice}
	}
	many := func() hiding {
		return hiding{small: in(35, func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			var all []*trailtest.Record
			for i := range 30 {
				r := reads(alice, 35+float64(i)/1000, "hr.other")
				r.Extra = []string{"relations_omitted", "9"}
				all = append(all, r)
			}
			return all
		})}
	}
	return map[string]hiding{
		"`steno.log`":                         set("steno.log", "ddl", nil),
		"`steno.log_nested`":                  set("steno.log_nested", "off", nil),
		"`steno.log_catalog`":                 set("steno.log_catalog", "off", any),
		"`steno.log_referential_checks`":      set("steno.log_referential_checks", "off", nil),
		"`steno.log_extension_scripts`":       set("steno.log_extension_scripts", "off", nil),
		"`steno.log_relation`":                set("steno.log_relation", "off", nil),
		"`steno.log_statement`":               set("steno.log_statement", "off", grep),
		"`steno.log_parameter`":               set("steno.log_parameter", "off", grep),
		"`steno.log_parameter_max_size`":      set("steno.log_parameter_max_size", "100", grep),
		"`steno.log_rows`":                    set("steno.log_rows", "off", nil),
		"`steno.delivery`":                    set("steno.delivery", "drop", nil),
		"`log_min_messages`":                  set("log_min_messages", "fatal", nil),
		"`steno.mandatory` without `setting`": set("steno.mandatory", "ddl, role", nil),
		"`steno.rules_file`": {small: in(5, func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return is(setting(w.Session, 5, "steno.rules_file", "", "3 rules", "server"))
		})},
		"a statement to an earlier version that may have set `log_min_messages`": says("alice", "SET log_min_messages = panic"),
		"settings at the beginning of the range that no record states":           {deleted: 1},
		"another user of a session: `SET SESSION AUTHORIZATION`":                 says("alice", "SET SESSION AUTHORIZATION bob"),
		"a rename in the range, of an object, its schema, a role or a database":  {small: renaming(35, 36)},
		"a rename before the range, since the last start before it":              {small: renaming(5, 6)},
		"a rename whose transaction had not ended when the range began":          {small: renaming(5, 40)},
		"a direct change of a catalog that has names, or an `ALTER` that leaves out objects": changed(35, func(r *trailtest.Record) {
			r.XID, r.Shape.Class, r.Shape.Command, r.Text = 77, format.ClassWrite, "UPDATE", "UPDATE pg_class SET relname = 'x'"
			r.Shape.Relations = []trailtest.Relation{{Type: format.RelationTypeTable, Access: format.AccessUpdate, Name: "pg_catalog.pg_class"}}
		}, nil),
		"a prepared transaction from before the start, or one whose commit is not recorded": set("steno.log", "all, -transaction", func(o *query.Criteria) { ofSalary(o); o.Classes = []format.Class{format.ClassRead} }),
		"a name that occurs nowhere":                                         {ask: func(o *query.Criteria) { o.Users = []string{"alcie"} }},
		"a transaction that wrote, and whose statements another library hid": event(func(*writer) []*trailtest.Record { return is(hides(client(9, "bob"), 35.5)) }),
		"gap records: dropped records, lost rings": {small: in(35, func(_ *writer, alice *trailtest.Session) []*trailtest.Record {
			return is(&trailtest.Record{Kind: format.KindGap, Session: alice, Seq: 40, Time: at(35.5), Extra: []string{"count", "4", "first_seq", "36", "last_seq", "39", "reason", "ring full"}})
		})},
		"a time before the trail began":                                   {since: -10},
		"a time in which the server was stopped, or ran without pg_steno": event(func(w *writer) []*trailtest.Record { return is(w.event(35.1, "stop"), w.starts(35.4)) }),
		"an end without a stop":                                           event(func(w *writer) []*trailtest.Record { return is(w.starts(35.4)) }),
		"an unfinished block that was cut off":                            event(func(w *writer) []*trailtest.Record { return is(w.event(35.4, "torn", "bytes", "100")) }),
		"a run that had recorded in another trail": event(func(w *writer) []*trailtest.Record {
			return is(w.event(35.4, "other_trail", "since", "2026-11-29T12:00:00Z", "stream", "0", "block", "9"))
		}),
		"what else the server has reported, such as `failure`": event(func(w *writer) []*trailtest.Record { return is(w.event(35.4, "failure", "reason", "disk full")) }),
		"a branch: a stream that was altered, cut off or copied": event(func(w *writer) []*trailtest.Record {
			return is(w.event(35.4, "branch", "stream", "7", "block", "1", "hash", strings.Repeat("00", 32), "reason", "gone", "unused", "true", "found", "0"))
		}),
		"blocks that only the next run sealed": event(func(w *writer) []*trailtest.Record {
			w.restarts(35.6)
			return nil
		}),
		"sessions that had begun before the first seal of the proof": {small: small{streams: 2, settings: []string{"steno.writers", "2"}}, deleted: 2},
		"a number of streams that nothing states":                    {deleted: 1},
		"a record that leaves out relations or objects":              changed(35, func(r *trailtest.Record) { r.Extra = []string{"relations_omitted", "9"} }, nil),
		"a record that leaves out parameters or part of its text":    changed(35, func(r *trailtest.Record) { r.TextBytes = 4000 }, grep),
		"a statement that was interrupted, or still running": changed(35, func(r *trailtest.Record) {
			r.Outcome, r.Shape.Relations = format.OutcomeInterrupted, nil
		}, nil),
		"a statement that was refused before its objects were known": changed(35, func(r *trailtest.Record) {
			r.Outcome, r.SQLState, r.Message, r.Text = format.OutcomeError, "42501", "must be owner of schema hr", "DROP SCHEMA hr CASCADE"
			r.Shape.Class, r.Shape.Command, r.Shape.Relations = format.ClassDDL, "DROP SCHEMA", nil
		}, nil),
		"a user or role without a certain name": {small: in(35, func(*writer, *trailtest.Session) []*trailtest.Record {
			return is(reads(client(9, "pg_unknown (OID=16384)"), 35.4, "hr.other"))
		}), ask: any},
		"more than 20 records or sessions of these kinds": many(),
	}
}

// notMade are causes of which the small trail has none; other tests have them.
var notMade = map[string]string{
	"a last seal soon after the range":   "TestASealSoonAfterTheRange",
	"the stop of one of several servers": "TestTheOriginalStopsAndItsCopyGoesOn",
}

// Each cause in the list is an exception of a proof of a trail that has it, and of no other; and the verdict on whether
// everything was recorded has it, too, if the list says so.
func TestEachCauseIsSaid(t *testing.T) {
	all := hidings()
	whole := small{}.write(t)
	for i := range Causes {
		c := &Causes[i]
		t.Run(c.What, func(t *testing.T) {
			one, ok := all[c.What]
			if !ok {
				t.Skip("no trail has it")
			}
			delete(all, c.What)
			if one.since == 0 && one.until == 0 {
				one.since = 30
			}
			if one.until == 0 {
				one.until = 50
			}
			if c.What == "a prepared transaction from before the start, or one whose commit is not recorded" {
				one.settings = append(one.settings, "max_prepared_transactions", "2")
			}
			dir := one.write(t)
			if one.deleted > 0 {
				dir = withoutFirstSegment(t, dir, one.deleted-1)
			}
			ask := one.ask
			if ask == nil {
				ask = ofSalary
			}
			says := func(list []string) bool { return slices.ContainsFunc(list, c.Matches) }
			for _, full := range []bool{false, true} {
				q := question(t, one.since, one.until, full, ask)
				if r := proved(t, dir, q); !r.Proved || r.Complete == says(r.Exceptions) || says(r.Exceptions) == (c.Recorded == onlyThere) {
					t.Errorf("full %v: it is no exception: %+v", full, r)
				}
				if one.since == 30 && one.until == 50 && !strings.HasPrefix(c.What, "a name that") {
					if r := proved(t, whole, q); says(r.Exceptions) {
						t.Errorf("full %v: an exception of a trail without it: %q", full, r.Exceptions)
					}
				}
			}
			tr, err := trail.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			recorded, err := Recorded(context.Background(), tr.Index(), at(one.since), at(one.until))
			if err != nil || len(recorded) != 1 {
				t.Fatalf("%+v %v", recorded, err)
			}
			r := recorded[0]
			told := says(r.Lacks) || slices.ContainsFunc(r.Unknown, func(s string) bool { return c.Matches(s) })
			if wanted := strings.HasPrefix(c.Recorded, yes); told != wanted || told && r.Everything {
				t.Errorf("the other verdict: %v %q", told, append(r.Lacks, r.Unknown...))
			}
		})
	}
	for name := range all {
		t.Errorf("the list does not have %q", name)
	}
	for i := range Causes {
		if _, ok := hidings()[Causes[i].What]; !ok && notMade[Causes[i].What] == "" {
			t.Errorf("no test for %q", Causes[i].What)
		}
	}
}

// Each setting that decides what is recorded is in the list.
func TestEachSettingIsACause(t *testing.T) {
	for name := range defaults {
		if !slices.ContainsFunc(Causes, func(c Cause) bool { return strings.HasPrefix(c.What, "`"+name+"`") }) {
			t.Errorf("%s is not in the list", name)
		}
	}
}

// What was lost before the first start in a trail is lost: that start follows what the server has recovered.
func TestLossesBeforeTheFirstStartCount(t *testing.T) {
	for what, lost := range map[string]func(w *writer) *trailtest.Record{
		`^4 records were lost`: func(*writer) *trailtest.Record {
			return &trailtest.Record{Kind: format.KindGap, Session: client(7, "alice"), Seq: 5, Time: at(0), Extra: []string{"count", "4", "first_seq", "1", "last_seq", "4", "reason", "ring full"}}
		},
		`^a run of the server that did not stop had recorded in another trail`: func(w *writer) *trailtest.Record {
			return w.event(0, "other_trail", "since", "2026-11-29T12:00:00Z", "stream", "0", "block", "9")
		},
	} {
		dir := filepath.Join(t.TempDir(), "trail")
		w := newWriter(t, dir, 0)
		w.Put(lost(w), w.starts(0.05), w.event(1, "note"))
		tr, err := trail.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Recorded(context.Background(), tr.Index(), format.MinTime, format.MaxTime)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v %v", all, err)
		}
		if r := all[0]; r.Everything || !slices.ContainsFunc(r.Lacks, regexp.MustCompile(what).MatchString) {
			t.Errorf("%s %+v", r.Verdict(), r)
		}
	}
}

// A trail of which retention has deleted the beginning: what was set there is not known, which is no reason to say that
// something was left out.
func TestADeletedStartIsNotKnown(t *testing.T) {
	tr, err := trail.Open(withoutFirstSegment(t, small{}.write(t), 0))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Recorded(context.Background(), tr.Index(), format.MinTime, format.MaxTime)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v %v", all, err)
	}
	if r := all[0]; r.Everything || len(r.Lacks) > 0 || len(r.Unknown) != 1 || !strings.HasPrefix(r.Verdict(), "NOT KNOWN: ") {
		t.Errorf("%s %+v", r.Verdict(), r)
	}
}
