package proof

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// renames is a statement that renames something: its type, names, and more of them.
func renames(s *trailtest.Session, minutes float64, names ...string) *trailtest.Record {
	r := &trailtest.Record{
		Kind: format.KindStatement, Session: s, Time: at(minutes), Duration: 1000, Text: "ALTER " + strings.Join(names, " "),
		Shape: &trailtest.Shape{Class: format.ClassDDL, Command: "ALTER"},
	}
	for all := range slices.Chunk(names, 3) {
		if all[0] == "role" {
			r.Shape.Class = format.ClassRole
		}
		r.Shape.Objects = append(r.Shape.Objects, trailtest.Object{Action: format.ActionRename, Type: all[0], Name: all[1], To: all[2]})
	}
	return r
}

// A rename that begins or ends with a name that is asked for is an exception: what had the name has another one in the
// records before or after. It is one whoever renamed it, also if the rename is part of the answer.
func TestRenamesAreExceptions(t *testing.T) {
	objects := func(names ...string) func(*query.Criteria) {
		return func(o *query.Criteria) { o.Objects = names }
	}
	notObjects := func(o *query.Criteria) { o.Not = &query.Criteria{Objects: []string{"hr.staff"}} }
	user := func(names ...string) func(*query.Criteria) {
		return func(o *query.Criteria) { o.Users = names }
	}
	database := func(o *query.Criteria) { o.Databases = []string{"hr"} }
	for _, test := range []struct {
		name   string
		rename []string
		ask    func(*query.Criteria)
		wants  string // empty: nothing
	}{
		{"table", []string{"table", "hr.salary", "hr.x"}, nil, `table "hr.salary" was renamed to "hr.x" at 2026-11-21T21:20:13.000000Z by user "bob": records have the names of their time`},
		{"table that gets the name", []string{"table", "hr.x", "hr.salary"}, nil, `table "hr.x" was renamed to "hr.salary"`},
		{"view", []string{"view", "hr.x", "hr.salary"}, nil, `view "hr.x" was renamed to "hr.salary"`},
		{"table of another schema", []string{"table", "hr.salary", "x.salary"}, nil, `was renamed to "x.salary"`},
		{"another table", []string{"table", "hr.salary_old", "hr.salary_older"}, nil, ""},
		{"index of the table", []string{"index", "hr.salary_pkey", "hr.x"}, nil, ""},
		{"constraint of the table", []string{"table constraint", "salary_pkey on hr.salary", "x on hr.salary"}, nil, ""},
		{"schema", []string{"schema", "hr", "x"}, nil, `schema "hr" was renamed to "x"`},
		{"schema that gets the name", []string{"schema", "x", "hr"}, nil, `schema "x" was renamed to "hr"`},
		{"another schema", []string{"schema", "hr2", "x"}, nil, ""},
		{"schema, of any schema", []string{"schema", "hr", "x"}, objects("salary"), ""},
		{"table, of any schema", []string{"table", "hr.salary", "x.salary"}, objects("salary"), ""},
		{"table without its schema", []string{"table", "hr.salary", "hr.x"}, objects("salary"), `renamed to "hr.x"`},
		{"both names asked for", []string{"table", "hr.salary", "hr.x"}, objects("hr.salary", "hr.x"), ""},
		{"both schemas asked for", []string{"schema", "hr", "hr2"}, objects("hr.salary", "hr2.salary"), `^no object of the name "hr2.salary" occurs in [^\n]*; nearest: "hr.salary"$`},
		{"one of two tables in both schemas", []string{"schema", "hr", "hr2"}, objects("hr.salary", "hr.staff", "hr2.salary"), `schema "hr"`},
		{"within a pattern", []string{"table", "hr.salary", "hr.x"}, objects("hr.*"), ""},
		{"out of a pattern", []string{"table", "hr.salary", "x.salary"}, objects("hr.*"), `renamed to "x.salary"`},
		{"schema of a pattern", []string{"schema", "hr", "x"}, objects("hr.*"), `schema "hr"`},
		{"into a pattern", []string{"schema", "x", "hr_old"}, objects("hr*.sal*"), `schema "x"`},
		{"column", []string{"table column", "hr.salary.amount", "hr.salary.x"}, objects("hr.salary.amount"), `table column "hr.salary.amount" was renamed to "hr.salary.x"`},
		{"column that gets the name", []string{"table column", "hr.salary.x", "hr.salary.amount"}, objects("salary.amount"), `renamed to "hr.salary.amount"`},
		{"another column", []string{"table column", "hr.salary.x", "hr.salary.y"}, objects("hr.salary.amount"), ""},
		{"a column of the table", []string{"table column", "hr.salary.x", "hr.salary.y"}, nil, ""},
		{"table of a column", []string{"table", "hr.salary", "hr.x"}, objects("hr.salary.amount"), `table "hr.salary"`},
		{"table of a column, without its schema", []string{"table", "hr.salary", "hr.x"}, objects("salary.amount"), `table "hr.salary"`},
		{"schema of a column", []string{"schema", "hr", "x"}, objects("hr.salary.amount"), `schema "hr"`},
		{"function", []string{"function", "hr.f(integer)", "hr.g(integer)"}, objects("hr.f(*"), `function "hr.f`},
		{"function, as its calls name it", []string{"function", "hr.f(pg_catalog.int4)", "hr.g(pg_catalog.int4)"}, objects("hr.f"), `function "hr.f`},
		{"function of any schema", []string{"function", "hr.f()", "x.f()"}, objects("f"), ""},
		{"as SQL may spell it", []string{"table", "hr.salary", "hr.x"}, objects("HR.Salary"), `table "hr.salary"`},
		{"the third of a statement", []string{"table", "e.a", "f.a", "table", "e.b", "f.b", "table", "e.c", "f.c"}, objects("f.c"), `table "e.c" was renamed to "f.c"`},
		{"table that is left out", []string{"table", "hr.salary", "hr.staff"}, notObjects, `table "hr.salary" was renamed to "hr.staff"`},
		{"table, of another user", []string{"table", "hr.salary", "hr.x"}, func(o *query.Criteria) { ofSalary(o); o.Users = []string{"alice"} }, `renamed to "hr.x"`},
		{"table, and reads are asked for", []string{"table", "hr.salary", "hr.x"}, func(o *query.Criteria) { ofSalary(o); o.Classes = []format.Class{format.ClassRead} }, `renamed to "hr.x"`},
		{"table of this database", []string{"table", "hr.salary", "hr.x"}, func(o *query.Criteria) { ofSalary(o); database(o) }, `renamed to "hr.x"`},
		{"table of another database", []string{"table", "hr.salary", "hr.x"}, func(o *query.Criteria) { ofSalary(o); o.Databases = []string{"other"} }, `^no database of the name "other" occurs [^\n]*$`},
		{"table of a database that is left out", []string{"table", "hr.salary", "hr.x"}, func(o *query.Criteria) {
			ofSalary(o)
			o.Not = &query.Criteria{Databases: []string{"hr"}}
		}, ""},
		{"role", []string{"role", "alice", "carol"}, user("alice"), `role "alice" was renamed to "carol" at .* by user "bob"`},
		{"role that gets the name", []string{"role", "carol", "alice"}, user("alice"), `role "carol" was renamed to "alice"`},
		{"role with quotes", []string{"role", `"Ann ""Lee"""`, "ann"}, user(`Ann "Lee"`), `was renamed to "ann"`},
		{"role of --role", []string{"role", "carol", "alice"}, func(o *query.Criteria) { o.Roles = []string{"alice"} }, `role "carol"`},
		{"role that is left out", []string{"role", "alice", "backup"}, func(o *query.Criteria) { o.Not = &query.Criteria{Users: []string{"backup"}} }, `role "alice"`},
		{"another role", []string{"role", "carol", "dora"}, user("alice"), ""},
		{"both names of a role asked for", []string{"role", "alice", "carol"}, user("alice", "carol"), ""},
		{"role, and no statements are asked for", []string{"role", "alice", "carol"}, func(o *query.Criteria) { user("alice")(o); o.Kinds = []format.Kind{format.KindConnect} }, `role "alice"`},
		{"role, and objects are asked for", []string{"role", "salary", "x"}, func(o *query.Criteria) { o.Objects = []string{"salary"} }, `role "salary"`},
		{"table of a user's name", []string{"table", "public.alice", "public.x"}, user("alice"), ""},
		{"database", []string{"database", "hr", "x"}, database, `database "hr" was renamed to "x"`},
		{"database that gets the name", []string{"database", "x", "hr"}, database, `database "x" was renamed to "hr"`},
		{"another database", []string{"database", "x", "y"}, database, ""},
		{"nothing that is asked for", []string{"table", "hr.salary", "hr.x"}, func(o *query.Criteria) { o.Grep = patterns("4711") }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			bob := client(9, "bob")
			dir := small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{35: func(*writer, *trailtest.Session) []*trailtest.Record {
				r := renames(bob, 35, test.rename...)
				r.Seq = 2
				return []*trailtest.Record{r}
			}}}.write(t)
			excepts(t, dir, test.ask, test.wants)
		})
	}
}

// What of a long list is in data parts counts, too.
func TestRenamesInDataPartsAreExceptions(t *testing.T) {
	str := func(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }
	object := slices.Concat([]byte{byte(format.ActionRename)}, str("table"), str("hr.salary"), str("x.salary"))
	further := slices.Concat([]byte{2}, str(string(object)))
	bob := client(9, "bob")
	dir := small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
		b := trailtest.NewBuilder(trailtest.Epoch)
		b.Data(bob, 2, format.PartValues, string(further))
		w.PutBlock(b)
		r := renames(bob, 35, "table", "hr.a", "x.a")
		r.Seq, r.Parts, r.Extra = 2, [3]uint64{0, uint64(len(further)), 0}, []string{"further_bytes", strconv.Itoa(len(further))}
		return []*trailtest.Record{r}
	}}}.write(t)
	excepts(t, dir, nil, `table "hr.salary" was renamed to "x.salary"`)
}

// What is left out may have been renamed.
func TestRenamesThatAreLeftOut(t *testing.T) {
	omits := func(command string) string {
		r := renames(client(9, "bob"), 35, "table", "hr.a", "x.a")
		r.Seq, r.Extra, r.Shape.Command = 2, []string{"objects_omitted", "3"}, command
		return small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{35: func(*writer, *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{r}
		}}}.write(t)
	}
	ask := func(o *query.Criteria) { ofSalary(o); o.Users = []string{"alice"} }
	excepts(t, omits("ALTER EXTENSION"), ask, `a statement at 2026.* by user "bob" leaves out objects, and may have renamed`)
	excepts(t, omits("DROP SCHEMA"), ask, "")
}

// A superuser can rename without ALTER.
func TestChangesOfCatalogsAreExceptions(t *testing.T) {
	changed := func(catalog string, access format.Access, change func(*trailtest.Record)) string {
		r := reads(client(9, "bob"), 35, "pg_catalog."+catalog)
		r.Shape.Relations[0].Access, r.Seq, r.XID = access, 2, 77
		if change != nil {
			change(r)
		}
		return small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{35: func(*writer, *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{r}
		}}}.write(t)
	}
	changes := func(catalog string, access format.Access) string { return changed(catalog, access, nil) }
	alice := func(o *query.Criteria) { o.Users = []string{"alice"} }
	excepts(t, changes("pg_class", format.AccessSelect|format.AccessUpdate), nil, `pg_catalog.pg_class was changed directly at 2026.* by user "bob"`)
	excepts(t, changes("pg_class", format.AccessSelect), nil, "")
	excepts(t, changes("pg_description", format.AccessDelete), nil, "")
	excepts(t, changes("pg_authid", format.AccessUpdate), nil, "")
	excepts(t, changes("pg_authid", format.AccessUpdate), alice, `pg_catalog.pg_authid was changed directly`)
	excepts(t, changes("pg_class", format.AccessUpdate), alice, "")
	for _, catalog := range []string{"pg_proc", "pg_type", "pg_trigger", "pg_tablespace"} {
		excepts(t, changes(catalog, format.AccessUpdate), nil, `pg_catalog.`+catalog+` was changed directly`)
	}
	// nothing was changed
	excepts(t, changed("pg_class", format.AccessUpdate, func(r *trailtest.Record) { r.Outcome, r.SQLState, r.Message = format.OutcomeError, "42501", "no" }), nil, "")
	excepts(t, changed("pg_class", format.AccessUpdate, func(r *trailtest.Record) { r.XID = 0 }), nil, "")
	columns := func(access format.Access) func(*trailtest.Record) {
		return func(r *trailtest.Record) {
			r.Shape.Relations[0].Columns = []trailtest.Column{{Access: access, Name: "relname"}}
		}
	}
	excepts(t, changed("pg_class", format.AccessSelect|format.AccessUpdate, columns(format.AccessSelect)), nil, "")
	excepts(t, changed("pg_class", format.AccessSelect|format.AccessUpdate, columns(format.AccessUpdate)), nil, `pg_catalog.pg_class was changed directly`)
	excepts(t, changed("pg_class", format.AccessUpdate, func(r *trailtest.Record) { r.XID, r.Outcome = 0, format.OutcomeInterrupted }), nil, `pg_catalog.pg_class was changed directly`)
}

// Without class transaction, only the end of its session tells that a transaction has ended, unless it may have been
// prepared.
func TestRenamesOfSessionsThatHaveEnded(t *testing.T) {
	bob := client(9, "bob")
	for _, test := range []struct {
		name     string
		ends     float64
		outcome  format.Outcome
		prepared bool
		xid      uint64
		settings []string
		ended    bool
	}{
		{"disconnected", 6, format.OutcomeOk, false, 77, []string{"max_prepared_transactions", "0"}, true},
		{"killed", 6, format.OutcomeInterrupted, false, 77, []string{"max_prepared_transactions", "0"}, true},
		{"disconnected later", 40, format.OutcomeOk, false, 77, []string{"max_prepared_transactions", "0"}, false},
		{"may have been prepared", 6, format.OutcomeOk, false, 77, []string{"max_prepared_transactions", "5"}, false},
		{"not known whether it can have been prepared", 6, format.OutcomeOk, false, 77, nil, false},
		{"had written nothing", 6, format.OutcomeInterrupted, false, 0, nil, true},
		{"prepared", 6, format.OutcomeOk, true, 77, []string{"max_prepared_transactions", "5"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			extra := map[int]func(*writer, *trailtest.Session) []*trailtest.Record{
				5: func(*writer, *trailtest.Session) []*trailtest.Record {
					r := renames(bob, 5, "table", "hr.salary", "hr.x")
					r.Seq, r.XID, r.Outcome = 2, test.xid, test.outcome
					all := []*trailtest.Record{r}
					if test.prepared {
						all = append(all, &trailtest.Record{Kind: format.KindTransaction, Session: bob, Seq: 3, XID: 77, Time: at(5.5),
							Extra: []string{"event", "prepare", "gid", "z"}, Shape: &trailtest.Shape{Class: format.ClassTransaction}})
					}
					return all
				},
				int(test.ends): func(*writer, *trailtest.Session) []*trailtest.Record {
					return []*trailtest.Record{{Kind: format.KindDisconnect, Session: bob, Time: at(test.ends), Outcome: test.outcome, Shape: &trailtest.Shape{Class: format.ClassConnect}}}
				},
			}
			wants := `the transaction had not ended`
			if test.ended && test.xid != 0 {
				wants = `whether its transaction was committed before the range is not known`
			} else if test.ended {
				wants = ""
			}
			excepts(t, small{settings: test.settings, extra: extra}.write(t), nil, wants)
		})
	}
}

// A transaction that was prepared before the server's start may rename something when it is committed.
func TestPreparedTransactionsThatAreCommitted(t *testing.T) {
	bob := client(9, "bob")
	transaction := func(minute float64, seq uint64, xid uint64, event string) func(*writer, *trailtest.Session) []*trailtest.Record {
		return func(*writer, *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{{Kind: format.KindTransaction, Session: bob, Seq: seq, XID: xid, Time: at(minute), Extra: []string{"event", event, "gid", "z"},
				Shape: &trailtest.Shape{Class: format.ClassTransaction}}}
		}
	}
	type at = map[int]func(*writer, *trailtest.Session) []*trailtest.Record
	committed := transaction(35, 3, 77, "commit prepared")
	const wants = `prepared before the server's start, "z", was committed at 2026`
	alice := func(o *query.Criteria) { o.Users = []string{"alice"} }
	excepts(t, small{extra: at{35: committed}}.write(t), nil, wants)
	excepts(t, small{extra: at{35: committed}}.write(t), alice, wants)
	excepts(t, small{extra: at{35: committed}}.write(t), func(o *query.Criteria) { o.Classes = []format.Class{format.ClassRead} }, "")
	excepts(t, small{extra: at{5: transaction(5, 2, 77, "prepare"), 35: committed}}.write(t), nil, "")
	excepts(t, small{extra: at{5: transaction(5, 2, 76, "prepare"), 35: committed}}.write(t), nil, wants)
	excepts(t, small{extra: at{35: transaction(35, 3, 77, "rollback prepared")}}.write(t), nil, "")
}

// Without class transaction, it is not known whether one was committed.
func TestPreparedTransactionsThatAreNotRecorded(t *testing.T) {
	const wants = `commits of prepared transactions were not recorded throughout: steno.log = "all, -transaction"; one that was prepared before may have renamed`
	quiet := []string{"steno.log", "all, -transaction"}
	reading := func(o *query.Criteria) { ofSalary(o); o.Classes = []format.Class{format.ClassRead} }
	of := func(settings ...string) string { return small{settings: settings}.write(t) }
	excepts(t, of(append(quiet, "max_prepared_transactions", "2")...), reading, wants)
	excepts(t, of(append(quiet, "max_prepared_transactions", "0")...), reading, "")
	excepts(t, of(append(quiet, "max_prepared_transactions", "2", "steno.mandatory", "role, ddl, connect, setting, transaction")...), reading, "")
	excepts(t, of("max_prepared_transactions", "2"), reading, "")
	excepts(t, of(quiet...), reading, "")
	excepts(t, of(append(quiet, "max_prepared_transactions", "2")...), func(o *query.Criteria) { o.Classes = []format.Class{format.ClassRead} }, "")
}

// Renames that may not have been recorded are exceptions, whoever may have made them.
func TestRenamesThatAreNotRecorded(t *testing.T) {
	reading := func(o *query.Criteria) { ofSalary(o); o.Classes = []format.Class{format.ClassRead} }
	connecting := func(o *query.Criteria) { o.Users, o.Kinds = []string{"alice"}, []format.Kind{format.KindConnect} }
	only := []string{"steno.mandatory", "connect, setting", "steno.log", "read, connect"}
	excepts(t, small{settings: only}.write(t), reading, `events of class ddl were not recorded throughout: steno.log = "read, connect"`)
	excepts(t, small{settings: only}.write(t), connecting, `events of class role were not recorded throughout`)
	excepts(t, small{settings: []string{"steno.mandatory", "connect, setting", "steno.log_nested", "off"}}.write(t), connecting, `statements in functions were not recorded`)
	excepts(t, small{settings: []string{"steno.log_nested", "off"}}.write(t), connecting, "")
	ofRole := func(settings ...string) string {
		return small{settings: settings, extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{5: func(*writer, *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{setting(client(9, "bob"), 5, "steno.log", "all", "none", "role")}
		}}}.write(t)
	}
	excepts(t, ofRole("steno.mandatory", "connect, setting"), func(o *query.Criteria) { reading(o); o.Users = []string{"alice"} },
		`class ddl, role of user "bob" were not recorded in session 6b0202d9\.\w+ \(2026-11-21T\S+Z\): steno.log = "none", set by role`)
	excepts(t, ofRole(), func(o *query.Criteria) { reading(o); o.Users = []string{"alice"} }, "")
}

// A rename before the range may take effect in it, or be seen by its own transaction there.
func TestRenamesBeforeTheRange(t *testing.T) {
	bob := client(9, "bob")
	for _, test := range []struct {
		name, extra string  // of the record
		end         float64 // when its transaction ends; 0: not before the end of the trail
		event       string
		waits       float64 // how long the statement takes, in minutes
		names       []string
		wants       string
	}{
		{"committed", "", 6, "commit", 0, []string{"table", "hr.salary", "hr.x"}, `table "hr.salary" was renamed to "hr.x" at .*; that was before the range, whose records have the name of then: ask for both`},
		{"committed, to the name", "", 6, "commit", 0, []string{"table", "hr.x", "hr.salary"}, ""},
		{"and back", "", 6, "commit", 0, []string{"table", "hr.salary", "hr.x", "table", "hr.x", "hr.salary"}, ""},
		{"and another back", "", 6, "commit", 0, []string{"table", "hr.salary", "hr.x", "view", "hr.x", "hr.salary"}, `that was before the range`},
		{"schema, committed", "", 6, "commit", 0, []string{"schema", "hr", "x"}, `schema "hr" was renamed .*; that was before the range`},
		{"schema, to the name", "", 6, "commit", 0, []string{"schema", "x", "hr"}, ""},
		{"prepared transaction that was rolled back", "", 6, "rollback prepared", 0, []string{"table", "hr.salary", "hr.x"}, ""},
		{"rolled back", "", 6, "abort", 0, []string{"table", "hr.salary", "hr.x"}, ""},
		{"committed by itself", "commit_us", 0, "", 0, []string{"table", "hr.salary", "hr.x"}, `; that was before the range`},
		{"committed by itself, to the name", "commit_us", 0, "", 0, []string{"table", "hr.x", "hr.salary"}, ""},
		{"committed later", "", 40, "commit", 0, []string{"table", "hr.salary", "hr.x"}, `table "hr.salary" was renamed to "hr.x" at .* by user "bob": .*; the transaction had not ended when the range began`},
		{"rolled back later", "", 40, "abort", 0, []string{"schema", "hr", "x"}, `schema "hr" .* the transaction had not ended`},
		{"still open", "", 0, "", 0, []string{"table", "hr.salary", "hr.x"}, `the transaction had not ended`},
		{"prepared", "", 6, "prepare", 0, []string{"table", "hr.salary", "hr.x"}, `the transaction had not ended`},
		{"waited", "commit_us", 31, "commit", 26, []string{"table", "hr.salary", "hr.x"}, `the transaction had not ended`},
		{"another table", "", 40, "commit", 0, []string{"table", "hr.staff", "hr.x"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			extra := map[int]func(*writer, *trailtest.Session) []*trailtest.Record{5: func(*writer, *trailtest.Session) []*trailtest.Record {
				r := renames(bob, 5, test.names...)
				r.Seq, r.XID, r.Duration = 2, 77, uint64(test.waits*60*second)
				if test.extra != "" {
					r.Extra = []string{test.extra, "12"}
				}
				return []*trailtest.Record{r}
			}}
			if test.end > 0 {
				extra[int(test.end)] = func(*writer, *trailtest.Session) []*trailtest.Record {
					return []*trailtest.Record{{Kind: format.KindTransaction, Session: bob, Seq: 3, XID: 77, Time: at(test.end), Extra: []string{"event", test.event},
						Shape: &trailtest.Shape{Class: format.ClassTransaction}}}
				}
			}
			excepts(t, small{extra: extra}.write(t), nil, test.wants)
		})
	}
}

// That something of the new name has got the name back does not say that it is the same: the proof does not have what
// renamed that in between, or that a savepoint has undone it.
func TestRenamesBackByAnotherStatementAreNoneForCertain(t *testing.T) {
	bob := client(9, "bob")
	extra := map[int]func(*writer, *trailtest.Session) []*trailtest.Record{}
	for i, names := range [][]string{{"hr.salary", "hr.x"}, {"hr.x", "hr.y"}, {"hr.z", "hr.x"}, {"hr.x", "hr.salary"}} {
		extra[2+i] = func(*writer, *trailtest.Session) []*trailtest.Record {
			r := renames(bob, float64(2+i), "table", names[0], names[1])
			r.Seq, r.XID, r.Extra = uint64(2+i), uint64(77+i), []string{"commit_us", "12"}
			return []*trailtest.Record{r}
		}
	}
	excepts(t, small{extra: extra}.write(t), nil, `table "hr.salary" was renamed to "hr.x" at .*; that was before the range`)
}

// The verdict on names that may change says of which time it knows the renames, whatever the maker has put into the file.
func TestVerdictsSayOfWhichTimeTheyKnowRenames(t *testing.T) {
	dir := small{}.write(t)
	later := withoutFirstSegment(t, small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{
		15: func(w *writer, _ *trailtest.Session) []*trailtest.Record { return []*trailtest.Record{w.starts(15)} },
	}}.write(t), 0)
	for _, test := range []struct {
		dir   string
		ask   func(*query.Criteria)
		wants *KnownRenames
	}{
		{dir, ofSalary, &KnownRenames{Until: when(50)}},
		{later, ofSalary, &KnownRenames{Since: "2026-11-21T21:00:07", Until: when(50)}},
		{dir, func(o *query.Criteria) { o.Users = []string{"alice"} }, &KnownRenames{Until: when(50)}},
		{dir, func(o *query.Criteria) { o.Not = &query.Criteria{Databases: []string{"hr"}} }, &KnownRenames{Until: when(50)}},
		{dir, func(o *query.Criteria) { o.Grep = patterns("4711") }, nil},
	} {
		r := proved(t, test.dir, question(t, 30, 50, false, test.ask))
		got := r.Names
		if (got == nil) != (test.wants == nil) || got != nil && (got.Until != test.wants.Until || !strings.HasPrefix(got.Since, test.wants.Since) || (got.Since == "") != (test.wants.Since == "")) {
			t.Errorf("%s: %+v, want %+v", r.Question, got, test.wants)
		}
		var text strings.Builder
		if err := r.WriteText(&text, false); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "by the names of their time") != (test.wants != nil && r.Complete) || strings.Contains(text.String(), "\nnames     records have") != (test.wants != nil) {
			t.Error(text.String())
		}
	}
}
