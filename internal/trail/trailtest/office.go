// A trail of a few people around a weekend, for questions about access and hours.

package trailtest

import (
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Office writes a trail of what a few people do around a weekend, some of them with names and texts
// that are not kind to whoever shows them. What the questions new_access and off_hours have for an
// answer was found out by hand.
func Office(t testing.TB, dir string) {
	at := func(s string) int64 { return moment(t, s) }
	start := at("2026-11-19 09:00:00")
	fact := func(k format.Key, v string) Fact { return Fact{k, v} }
	person := func(pid uint32, user, database, client, application string) *Session {
		return NewSession(start+int64(pid)*1e6, pid, fact(format.KeyBackendType, "client backend"),
			fact(format.KeyUser, user),
			fact(format.KeyDatabase, database), fact(format.KeyClient, client),
			fact(format.KeyApplication, application))
	}
	alice := person(4001, "alice", "shop", "10.1.2.3:50022", "psql")
	bob := person(4002, "bob", "shop", "[2001:db8::7]:40000", "crm, \"new\"")
	evil := person(4003, OfficeEvil, "shop", "[local]", "<img src=x onerror=alert(1)>")
	mallory := person(4004, "mallory", "shop", "192.0.2.66:40001", "")
	server := NewSession(start, 3999, fact(format.KeyBackendType, format.WriterBackendType))

	use := func(class format.Class, command, relation string, access format.Access) *Shape {
		return &Shape{
			Class:     class,
			Command:   command,
			Relations: []Relation{{Type: format.RelationTypeTable, Access: access, Name: relation}},
		}
	}
	read := func(relation string) *Shape { return use(format.ClassRead, "SELECT", relation, format.AccessSelect) }
	orders, salary := read("public.orders"), read("hr.salary")
	update := use(format.ClassWrite, "UPDATE", "public.orders", format.AccessSelect|format.AccessUpdate)
	named := func(class format.Class, command string, o ...Object) *Shape {
		return &Shape{Class: class, Command: command, Objects: o}
	}

	s := NewStream(t, dir, 0)
	var b *Builder
	begin := func(when string) { b = NewBuilder(at(when)) }
	add := func(when string, r Record) {
		r.Time = at(when)
		b.Add(&r)
	}
	statement := func(when string, who *Session, shape *Shape, text string) {
		add(when, Record{Kind: format.KindStatement, Session: who, Shape: shape, Text: text, Duration: 1500, Rows: 2})
	}
	failed := func(when string, who *Session, shape *Shape, text, sqlstate, message string) {
		add(when, Record{
			Kind:     format.KindStatement,
			Session:  who,
			Shape:    shape,
			Text:     text,
			Outcome:  format.OutcomeError,
			SQLState: sqlstate,
			Message:  message,
		})
	}

	begin("2026-11-19 09:00:00")
	add("2026-11-19 09:00:00", Record{
		Kind:    format.KindServer,
		Session: server,
		Extra:   []string{"event", "start", "version", "1.0", "host", "db1"},
	})
	statement("2026-11-19 10:00:00", alice, orders, "SELECT * FROM orders WHERE id = 1")
	statement("2026-11-19 10:00:01", bob, orders, "SELECT * FROM orders WHERE id = 2")
	s.Write(t, b)

	begin("2026-11-20 05:00:00")
	for _, who := range []*Session{alice, bob, evil} {
		add("2026-11-20 05:00:00", Record{
			Kind:    format.KindConnect,
			Session: who,
			Shape:   named(format.ClassConnect, ""),
		})
	}
	statement("2026-11-20 06:59:59.999999", alice, orders, "SELECT * FROM orders WHERE id = 3")
	statement("2026-11-20 07:00:00", alice, salary, "SELECT * FROM hr.salary WHERE name = 'a'")
	add("2026-11-20 07:00:00.5", Record{
		Kind:         format.KindStatement,
		Session:      alice,
		Depth:        1,
		Substatement: 1,
		Shape:        read("hr.grades"),
		Text:         "SELECT 1 FROM grades",
	})
	statement("2026-11-20 18:59:59.999999", bob, update, "UPDATE orders SET note = 'x'")
	statement("2026-11-20 19:00:00", bob, salary, "SELECT * FROM hr.salary WHERE name = 'b'")
	add("2026-11-20 19:00:00.5", Record{
		Kind:         format.KindStatement,
		Session:      bob,
		Depth:        1,
		Substatement: 1,
		Shape:        orders,
		Text:         "SELECT * FROM orders WHERE id = 77",
	})
	failed("2026-11-20 19:30:00", bob, read("hr.salary"), "SELECT * FROM hr.salary WHERE name = 'c'", "42501",
		"permission denied for table salary")
	add("2026-11-20 19:31:00", Record{
		Kind:    format.KindStatement,
		Session: bob,
		Shape:   orders,
		Text:    "SELECT * FROM orders WHERE id = 4",
		Outcome: format.OutcomeInterrupted,
	})
	for range 2 {
		add("2026-11-20 20:00:00", Record{
			Kind:     format.KindAuthFailed,
			Session:  mallory,
			Shape:    named(format.ClassConnect, ""),
			Outcome:  format.OutcomeError,
			SQLState: "28P01",
			Message:  `password authentication failed for user "mallory"`,
		})
	}
	s.Write(t, b)

	begin("2026-11-21 12:00:00")
	statement("2026-11-21 12:00:00", alice, named(format.ClassDDL, "ALTER TABLE", Object{
		Action: format.ActionRename,
		Type:   "table",
		Name:   "public.orders",
		To:     "public.orders_old",
	}), "ALTER TABLE orders RENAME TO orders_old")
	statement("2026-11-21 12:00:01", alice, named(format.ClassRole, "GRANT"), "GRANT SELECT ON orders_old TO bob")
	statement("2026-11-21 12:00:02", alice, named(format.ClassRole, "GRANT ROLE"), "GRANT staff TO bob")
	statement("2026-11-21 12:00:03", alice, named(format.ClassDDL, "ALTER SYSTEM"),
		"ALTER SYSTEM SET work_mem = '1GB'")
	statement("2026-11-21 12:00:04", alice, named(format.ClassMiscSet, "SET"), "SET role = bob")
	add("2026-11-21 12:00:05", Record{
		Kind:    format.KindSetting,
		Session: server,
		Shape:   named(format.ClassSetting, ""),
		Extra:   []string{"name", "steno.log", "old", "all", "new", "all, -read"},
	})
	add("2026-11-21 12:00:06", Record{
		Kind:    format.KindGap,
		Session: evil,
		Seq:     5,
		Extra:   []string{"count", "3", "first_seq", "2", "last_seq", "4", "reason", "ring full"},
	})
	statement("2026-11-23 08:00:00", evil, read(OfficeEvilTable), OfficeEvilText)
	failed("2026-11-23 08:00:01", evil, named(format.ClassError, ""), "SELEC '</script><script>alert(2)</script>'",
		"42601", "syntax error at or near \"<script>alert(3)</script>\"")
	statement("2026-11-23 08:00:02", bob, orders, "SELECT * FROM orders WHERE id = 5")
	add("2026-11-23 08:00:03", Record{
		Kind:     format.KindDisconnect,
		Session:  alice,
		Shape:    named(format.ClassConnect, ""),
		Duration: 1000,
	})
	add("2026-11-23 08:00:03", Record{
		Kind:     format.KindDisconnect,
		Session:  bob,
		Shape:    named(format.ClassConnect, ""),
		Duration: 1000,
	})
	s.Write(t, b)
}

// What is unkind in the trail of Office.
const (
	OfficeEvil      = "o'neill, <script>\"x\"\n\x1b[31m|*_"
	OfficeEvilTable = `public."<b onmouseover=alert(4)>t</b>"`
	OfficeEvilText  = "SELECT '<script src=\"https://example.org/x.js\"></script><img src=x onerror=alert(5)>' " +
		"\x1b[31m`|` FROM t"
)

// OfficeNewAccess is the answer of new_access since the beginning of 2026-11-20 (UTC), as user,
// relation and the first time; OfficeOffHours that of off_hours since then, as user and time, in UTC,
// and OfficeOffHoursBerlin the same in Europe/Berlin. All in UTC, in the order of time.
var (
	OfficeNewAccess = []string{
		"alice hr.salary 2026-11-20 07:00:00", "alice hr.grades 2026-11-20 07:00:00.5",
		"bob hr.salary 2026-11-20 19:00:00",
		OfficeEvil + " " + OfficeEvilTable + " 2026-11-23 08:00:00",
	}
	OfficeOffHours = []string{
		"alice 2026-11-20 06:59:59.999999", "bob 2026-11-20 19:00:00", "bob 2026-11-20 19:30:00",
		"bob 2026-11-20 19:31:00",
		"alice 2026-11-21 12:00:00", "alice 2026-11-21 12:00:01", "alice 2026-11-21 12:00:02",
		"alice 2026-11-21 12:00:03", "alice 2026-11-21 12:00:04",
	}
	OfficeOffHoursBerlin = []string{
		"bob 2026-11-20 18:59:59.999999", "bob 2026-11-20 19:00:00", "bob 2026-11-20 19:30:00",
		"bob 2026-11-20 19:31:00",
		"alice 2026-11-21 12:00:00", "alice 2026-11-21 12:00:01", "alice 2026-11-21 12:00:02",
		"alice 2026-11-21 12:00:03", "alice 2026-11-21 12:00:04",
	}
)

// moment is a time in UTC.
func moment(t testing.TB, s string) int64 {
	m, err := time.Parse("2006-01-02 15:04:05", s)
	if err != nil {
		t.Fatal(err)
	}
	return m.UnixMicro() - time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
}
