package proof

import (
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// With a high log_min_messages, what fails before it is planned leaves no record: an exception, whoever set it.
func TestFailuresThatAreNotLoggedAreExceptions(t *testing.T) {
	type extra = map[int]func(*writer, *trailtest.Session) []*trailtest.Record
	is := func(r *trailtest.Record) func(*writer, *trailtest.Session) []*trailtest.Record {
		return func(*writer, *trailtest.Session) []*trailtest.Record { return []*trailtest.Record{r} }
	}
	says := func(text string, minute int, outcome format.Outcome, command string, params ...string) small {
		r := &trailtest.Record{Kind: format.KindStatement, Session: client(77, "bob"), Time: at(float64(minute)), Text: text, Outcome: outcome, Shape: &trailtest.Shape{Class: format.ClassMiscSet, Command: command}}
		if outcome == format.OutcomeError {
			r.SQLState, r.Message = "42501", "permission denied"
		}
		for _, p := range params {
			r.Shape.Params = append(r.Shape.Params, format.ParamType{OID: 25, Repr: format.ReprText})
			r.Fields |= format.FieldValues
			r.Values = append(append(r.Values, byte(len(p))), p...)
		}
		return small{extra: extra{minute: is(r)}}
	}
	user := func(name string) func(*query.Criteria) {
		return func(o *query.Criteria) { ofSalary(o); o.Users = []string{name} }
	}
	change := func(minute float64, to string) small {
		return small{extra: extra{int(minute): func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{setting(w.Session, minute, "log_min_messages", "warning", to, "server")}
		}}}
	}
	const server = `statements that failed before they were planned, and failed logins, were not recorded`
	const may = `session \S+ of user "bob" may have set log_min_messages at 2`
	for _, one := range []struct {
		name string
		small
		ask   func(*query.Criteria)
		wants string
	}{
		{"at the start", small{settings: []string{"log_min_messages", "fatal"}}, nil, server + ` throughout: log_min_messages = "fatal"`},
		{"harmless at the start", small{settings: []string{"log_min_messages", "error"}}, nil, ""},
		{"lists of PostgreSQL 19", small{settings: []string{"log_min_messages", "fatal, backend:error, walsender:warning,bgworker:error"}}, nil, ""},
		{"lists that hide", small{settings: []string{"log_min_messages", "error, backend:panic"}}, nil, server},
		{"changed in the range", change(35, "panic"), nil, server + " since "},
		{"changed before", change(5, "log"), nil, server + " throughout"},
		{"changed to a level that hides nothing", change(35, "debug1"), nil, ""},
		{"changed later", change(60, "panic"), nil, ""},
		{"of a role", small{extra: extra{5: is(setting(client(77, "bob"), 5, "log_min_messages", "warning", "panic", "role"))}}, user("bob"), `of user "bob" were not recorded in session 6b0202d9\.\w+ \(2026-11-21T\S+Z\): log_min_messages = "panic", set by role`},
		{"in a session", says("SET log_min_messages = panic", 35, format.OutcomeOk, "SET"), user("bob"), may},
		{"in a session, before", says("set local Log_Min_Messages to 'fatal'", 5, format.OutcomeOk, "SET"), user("bob"), may},
		{"with a function", says("SELECT set_config('log_min_messages', 'panic', false)", 35, format.OutcomeOk, "SELECT"), nil, may},
		{"with a parameter", says("SELECT set_config($1, $2, false)", 35, format.OutcomeOk, "SELECT", "LOG_min_messages", "panic"), nil, may},
		{"with another parameter", says("SELECT set_config($1, $2, false)", 35, format.OutcomeOk, "SELECT", "work_mem", "1MB"), nil, ""},
		{"of another user", says("SET log_min_messages = panic", 35, format.OutcomeOk, "SET"), user("alice"), ""},
		{"refused", says("SET log_min_messages = panic", 35, format.OutcomeError, "SET"), user("bob"), ""},
		{"a level that hides nothing", says("SET log_min_messages = 'warning';", 35, format.OutcomeOk, "SET"), user("bob"), ""},
		{"reset", says("RESET log_min_messages", 35, format.OutcomeOk, "RESET"), user("bob"), ""},
		{"for the server", says("ALTER SYSTEM SET log_min_messages = panic", 35, format.OutcomeOk, "ALTER SYSTEM"), user("bob"), ""},
		{"for a role", says("ALTER ROLE alice SET log_min_messages = panic", 35, format.OutcomeOk, "ALTER ROLE"), user("alice"), may + `.* in later sessions before`},
		{"nothing that can fail is asked for", says("SET log_min_messages = panic", 35, format.OutcomeOk, "SET"), func(o *query.Criteria) { o.Kinds = []format.Kind{format.KindDisconnect} }, ""},
	} {
		t.Run(one.name, func(t *testing.T) { excepts(t, one.small.write(t), one.ask, one.wants) })
	}
	q := question(t, 30, 50, false, ofSalary)
	if r := ignoring(t, says("SET log_min_messages = panic", 35, format.OutcomeOk, "SET").write(t), q); r.Proved {
		t.Errorf("a maker that ignores the statement: %+v", r)
	}
}

// Where each session whose own level hides failures has a record of that, texts are not searched for what may have set it.
func TestRecordsOfLevelsSpareTheTexts(t *testing.T) {
	says := func(w *writer, alice *trailtest.Session) []*trailtest.Record {
		return []*trailtest.Record{{Kind: format.KindStatement, Session: alice, Time: at(12), Text: "SELECT 'log_min_messages'", Shape: &trailtest.Shape{Class: format.ClassMisc, Command: "SELECT"}}}
	}
	has := func(w *writer, alice *trailtest.Session) []*trailtest.Record {
		return []*trailtest.Record{setting(alice, 12, MinMessages, "warning", "panic", "session")}
	}
	starts := func(minute float64, settings ...string) func(*writer, *trailtest.Session) []*trailtest.Record {
		return func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{w.starts(minute, settings...)}
		}
	}
	type extra = map[int]func(*writer, *trailtest.Session) []*trailtest.Record
	records := []string{MinMessages + "_of_sessions", "recorded"}
	const may, hid = `may have set log_min_messages at`, `of user "alice" were not recorded in session 6b0202d9.fa1 (2026-11-21T20:57:13.000000Z): log_min_messages = "panic", set by session`
	for _, one := range []struct {
		name string
		small
		says, lacks string
	}{
		{"an earlier version", small{extra: extra{12: says}}, may, hid},
		{"each session has its record", small{settings: records, extra: extra{12: says}}, "", "log_min_messages"},
		{"and one hides failures", small{settings: records, extra: extra{12: has}}, hid, may},
		{"an earlier version before the last start", small{extra: extra{12: says, 20: starts(20, records...)}}, "", "log_min_messages"},
		{"an earlier version in the range", small{settings: records, extra: extra{12: says, 40: starts(40)}}, "", "log_min_messages"},
		{"an earlier version at its beginning", small{extra: extra{12: says, 40: starts(40, records...)}}, may, hid},
	} {
		t.Run(one.name, func(t *testing.T) {
			r := proved(t, one.small.write(t), question(t, 30, 50, false, nil))
			said := strings.Join(r.Exceptions, "\n")
			if !r.Proved || !strings.Contains(said, one.says) || strings.Contains(said, one.lacks) {
				t.Errorf("%v %q %q, want %q", r.Proved, r.Problems, said, one.says)
			}
		})
	}
	blocks := func(dir string) (n uint64) {
		r := proved(t, dir, question(t, 30, 50, false, ofSalary))
		for _, st := range r.Streams {
			n += st.Blocks
		}
		return n
	}
	if with, without := blocks(small{settings: records, extra: extra{12: says}}.write(t)), blocks(small{settings: records}.write(t)); with != without {
		t.Errorf("%d blocks with the text, %d without", with, without)
	}
	if with, searched := blocks(small{settings: records, extra: extra{12: says}}.write(t)), blocks(small{extra: extra{12: says}}.write(t)); with >= searched {
		t.Errorf("%d blocks, but %d where texts are searched", with, searched)
	}
}
