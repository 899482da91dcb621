// Random scripts: the steps of a session, and the table of moves that make them.

package protocol

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/lab/chaos/rounds"
)

// A script is everything that a session does. It is generated before it runs, so that a script, or a part of it, can
// be run again.
type script struct {
	client, number int
	steps          []*step
	nested         map[string]string // markers of nested statements, and the relation that each reads
}

func (s *script) name() string { return fmt.Sprintf("%d.%d", s.client, s.number) }

// A step is sent at once, and answered up to ReadyForQuery: a simple query, or messages of the extended protocol and a
// Sync.
type step struct {
	move     string
	query    []*statement // of a simple query
	messages []message
	copyIn   string // data for COPY FROM STDIN
	copyFail bool
	cancel   bool          // a cancel request follows, after delay
	leave    leaving       // how the session ends with this step
	delay    time.Duration // before the cancel request, the end, or without messages

	took   time.Duration // until all of it was answered; 0: it was not
	status byte          // of the transaction after it
}

type leaving int

const (
	stay leaving = iota
	terminate
	vanish
)

// A message is a message of the extended protocol.
type message struct {
	op        byte // P, B, D (portal), E, C (portal), c (statement), H
	name      string
	prepared  string
	statement *statement // of P: whose text it has; of B: what is executed
	text      string
	params    []string
	rows      uint32
}

// A statement is something that must have a record of depth 0 in the trail, and its answer.
type statement struct {
	marker string
	text   string
	params []string
	// alias is the marker in the text, if marker is in the first parameter.
	alias string
	// reads are relations that its record must have. ran are those of functions, which have run if it has returned
	// rows.
	reads []string
	ran   []string
	// known is an SQLSTATE: the record must have the relations even if the statement fails with it.
	known string
	// acknowledges are markers of nested statements that have run if it returns rows.
	acknowledges []string
	// sleeps is how long the server sleeps for each row that it returns.
	sleeps time.Duration

	// the answer that the client got
	sent    bool
	outcome outcome
	code    string
	rows    int64  // number of rows that were returned or affected
	tag     string // command tag without numbers
	extra   []string
	may     string // SQLSTATE with which its transaction failed after it was answered
	more    bool   // it may have changed more rows than it has returned
	// cursor is what it has opened: a cursor or a portal, from which FETCH may have returned more rows.
	cursor *cursor
}

// A cursor is a cursor or a portal with a name.
type cursor struct {
	fetched int64 // rows that FETCH has returned from it
}

type outcome int

const (
	unanswered outcome = iota
	succeeded
	suspended // its portal has more rows
	bound     // its portal has not been executed
	failed
	skipped
	whole // told by the first statement of its string
)

func (t outcome) String() string {
	return [...]string{"unanswered", "ok", "suspended", "bound", "error", "skipped", "part of a string that failed"}[t]
}

// generator makes a script. It tracks the expected state, so that most names that it uses exist and most transactions
// continue.
type generator struct {
	rng      *rand.Rand
	script   *script
	options  *Options
	others   bool // other sessions run at the same time
	count    int
	inBlock  bool
	aborted  bool
	cursors  []string
	holdable []string
	prepared []string
	savings  []string
	bound    map[string]bool      // statements of the protocol, by name
	texts    map[string]statement // their definitions
	portals  []string
}

var (
	tables  = []string{"a0", "a1", "a2", "a3", "a4"}
	written = []string{"b0", "b1", "b2"}
)

func pick[T any](g *generator, values ...T) T { return values[g.rng.IntN(len(values))] }

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func (g *generator) table() string { return pick(g, tables...) }

func (g *generator) next(kind string) string {
	g.count++
	return fmt.Sprintf("%s%d.%d.%d", kind, g.script.client, g.script.number, g.count)
}

// nested makes a marker for a statement that reads the table.
func (g *generator) nested(table string) string {
	m := g.next("n")
	g.script.nested[m] = table
	return m
}

// statement makes a statement from a template; its marker replaces @.
func (g *generator) statement(template string, reads ...string) *statement {
	m := g.next("m")
	s := &statement{marker: m, reads: reads}
	s.text = strings.Replace(template, "@", "/*"+m+"*/", 1)
	if !strings.Contains(s.text, m) {
		panic("no marker in " + template)
	}
	return s
}

func (g *generator) add(st *step) *step {
	g.script.steps = append(g.script.steps, st)
	return st
}

// simple adds a simple query.
func (g *generator) simple(move string, statements ...*statement) *step {
	st := g.add(&step{move: move, query: statements})
	if g.chance(4) && g.options.allows("cancel") {
		st.cancel = true
		st.delay = time.Duration(g.rng.IntN(3000)) * time.Microsecond
	}
	return st
}

// fails notes that what was just added will fail.
func (g *generator) fails() {
	if g.inBlock {
		g.aborted = true
	}
}

// move is an action of a client.
type move struct {
	name   string
	weight int
	make   func(g *generator)
}

func moves() []move {
	return []move{
		{"read", 12, (*generator).read},
		{"write", 8, (*generator).write},
		{"transaction", 22, (*generator).transaction},
		{"savepoint", 12, (*generator).savepoint},
		{"cursor", 12, (*generator).declare},
		{"fetch", 22, (*generator).fetch},
		{"fetch in vain", 4, (*generator).fetchInVain},
		{"extended", 20, (*generator).extended},
		{"prepare", 8, (*generator).prepare},
		{"block", 14, (*generator).block},
		{"function", 10, (*generator).function},
		{"opened", 5, (*generator).opened},
		{"error", 6, (*generator).error},
		{"several", 5, (*generator).several},
		{"unparsed", 2, (*generator).unparsed},
		{"setting", 4, (*generator).setting},
		{"parallel", 3, (*generator).parallel},
		{"planning", 3, (*generator).planning},
		{"timeout", 3, (*generator).timeout},
		{"slow", 3, (*generator).slow},
		{"signal", 1, (*generator).signal},
		{"copy", 4, (*generator).copy},
		{"deferred", 4, (*generator).deferred},
		{"trigger", 4, (*generator).trigger},
		{"definition", 4, (*generator).definition},
		{"rewritten", 2, (*generator).rewritten},
		{"large", 3, (*generator).large},
		{"many parameters", 1, (*generator).manyParameters},
		{"idle", 1, (*generator).idle},
		{"pause", 4, (*generator).pause},
	}
}

// moveNames returns the values of --with and --without.
func moveNames() []string {
	names := []string{"cancel", "held"}
	for _, m := range moves() {
		names = append(names, m.name)
	}
	return names
}

// generate makes the script of a session.
func generate(o *Options, round, client, number int, others bool) *script {
	g := &generator{
		rng: rounds.Random(o.Seed, round, fmt.Sprintf("script %d.%d", client, number)), options: o, others: others,
		script: &script{client: client, number: number, nested: map[string]string{}},
		bound:  map[string]bool{}, texts: map[string]statement{},
	}
	var all []move
	total := 0
	for _, m := range moves() {
		if o.allows(m.name) {
			all = append(all, m)
			total += m.weight
		}
	}
	for range 5 + g.rng.IntN(50) {
		if g.aborted && g.chance(70) {
			g.recover()
			continue
		}
		if !g.inBlock && g.chance(20) {
			g.begin()
			continue
		}
		n := g.rng.IntN(total)
		for _, m := range all {
			if n -= m.weight; n < 0 {
				m.make(g)
				break
			}
		}
	}
	g.leave()
	return g.script
}

// ---- transactions ----

func (g *generator) begin() {
	g.simple("transaction", g.statement(pick(g, "BEGIN @", "BEGIN @", "START TRANSACTION @ ISOLATION LEVEL "+
		"REPEATABLE READ", "BEGIN @ READ ONLY")))
	g.inBlock = true
}

func (g *generator) end(text string) {
	g.simple("transaction", g.statement(text))
	g.inBlock, g.aborted, g.savings, g.portals = false, false, nil, nil
	g.cursors = append([]string{}, g.holdable...)
}

func (g *generator) transaction() {
	switch {
	case !g.inBlock:
		g.begin()
	case g.chance(55):
		g.end("COMMIT @")
	case g.chance(10):
		g.end("COMMIT @ AND CHAIN")
		g.inBlock = true
	default:
		g.end("ROLLBACK @")
	}
}

func (g *generator) savepoint() {
	if !g.inBlock {
		g.begin()
	}
	if len(g.savings) > 0 && g.chance(60) {
		name := pick(g, g.savings...)
		if g.chance(75) {
			g.simple("savepoint", g.statement("ROLLBACK @ TO SAVEPOINT "+name))
			g.aborted = false
		} else {
			g.simple("savepoint", g.statement("RELEASE @ SAVEPOINT "+name))
		}
		return
	}
	name := pick(g, "s0", "s1", "s2")
	g.simple("savepoint", g.statement("SAVEPOINT @ "+name))
	g.savings = append(g.savings, name)
}

// recover ends a failed transaction.
func (g *generator) recover() {
	if len(g.savings) > 0 && g.chance(65) {
		g.simple("savepoint", g.statement("ROLLBACK @ TO SAVEPOINT "+g.savings[len(g.savings)-1]))
		g.aborted = false
		return
	}
	g.end(pick(g, "ROLLBACK @", "ROLLBACK @", "COMMIT @"))
}

// leave ends the session in a random way.
func (g *generator) leave() {
	switch g.rng.IntN(6) {
	case 0, 1:
		g.add(&step{move: "leave", leave: vanish})
	case 2:
		g.add(&step{move: "leave", query: []*statement{g.statement("SELECT @ count(*), pg_sleep(0.01) FROM a1", "a1")},
			leave: vanish, delay: time.Duration(g.rng.IntN(8000)) * time.Microsecond})
	default:
		g.add(&step{move: "leave", leave: terminate})
	}
}

// ---- queries ----

// query returns the template of a query that returns rows, and the relations that it reads. The marker follows its
// first word.
func (g *generator) query() (template string, reads, ran []string, known string) {
	t, u := g.table(), g.table()
	limit := 1 + g.rng.IntN(60)
	switch g.rng.IntN(16) {
	case 0:
		return fmt.Sprintf("SELECT @ t.id, u.val FROM %s t JOIN %s u ON t.id = u.id WHERE t.id < %d", t, u, limit),
			[]string{t, u}, nil, ""
	case 1:
		return fmt.Sprintf("SELECT @ id, 1 / (id - %d) FROM %s", limit, t), []string{t}, nil, "22012"
	case 2:
		return fmt.Sprintf("SELECT @ fails(id, %d) FROM %s", limit, t), []string{t}, nil, "P0001"
	case 3:
		m := g.nested(u)
		return fmt.Sprintf("SELECT @ id, reads('%s', '%s') FROM %s WHERE id < 4", m, u, t), []string{t},
			[]string{u}, ""
	case 4:
		return fmt.Sprintf("SELECT @ id FROM %s ORDER BY id LIMIT counts(%d)", t, 1+g.rng.IntN(3)),
			[]string{t}, nil, ""
	case 5:
		return fmt.Sprintf("SELECT @ max(id) FROM %s", t), []string{t}, nil, ""
	case 6:
		return fmt.Sprintf("SELECT @ id FROM %s WHERE id IN (SELECT id FROM %s WHERE id < %d)", t, u, limit),
			[]string{t, u}, nil, ""
	case 7:
		m := g.nested(u)
		return fmt.Sprintf("SELECT @ s, id FROM %s, rowsof('%s', '%s') s WHERE id < %d", t, m, u, limit),
			[]string{t}, nil, ""
	case 8:
		return fmt.Sprintf("SELECT @ id, stat() FROM %s WHERE id < 3", t), []string{t}, []string{"a4"}, ""
	case 9:
		return fmt.Sprintf("SELECT @ * FROM (SELECT id FROM %s UNION ALL SELECT id FROM %s) x", t, u),
			[]string{t, u}, nil, ""
	default:
		return fmt.Sprintf("SELECT @ id, val FROM %s WHERE id <= %d ORDER BY id", t, limit), []string{t}, nil, ""
	}
}

func (g *generator) ofQuery(prefix string) *statement {
	template, reads, ran, known := g.query()
	s := g.statement(prefix+template, reads...)
	s.known, s.ran = known, ran
	return s
}

func (g *generator) read() {
	switch g.rng.IntN(8) {
	case 0:
		g.simple("read", g.ofQuery("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "))
	case 1:
		t := g.table()
		g.simple("read", g.statement("WITH @ x AS (INSERT INTO b0 (val) SELECT val FROM "+t+
			" WHERE id < 4 RETURNING id) SELECT * FROM x", t, "b0"))
	case 2:
		t := g.table()
		g.simple("read", g.statement("SELECT @ * FROM "+t+" WHERE id < 4 FOR SHARE", t))
	default:
		g.simple("read", g.ofQuery(""))
	}
}

func (g *generator) change() (string, []string) {
	b, t := pick(g, written...), g.table()
	id := g.rng.IntN(8)
	switch g.rng.IntN(7) {
	case 0:
		return fmt.Sprintf("UPDATE @ %s SET val = 'u' WHERE id = %d", b, id), []string{b}
	case 1:
		return fmt.Sprintf("DELETE @ FROM %s WHERE id IN (SELECT id + 1000 FROM %s)", b, t), []string{b, t}
	case 2:
		return fmt.Sprintf("UPDATE @ %s SET val = t.val FROM %s t WHERE t.id = %s.id AND t.id < 4 RETURNING t.id", b,
			t, b), []string{b, t}
	case 3:
		return fmt.Sprintf("INSERT @ INTO %s (val) SELECT 1 / (id - 3) FROM %s", b, t), []string{b, t}
	default:
		return fmt.Sprintf("INSERT @ INTO %s (val) SELECT val FROM %s WHERE id < %d", b, t, id), []string{b, t}
	}
}

func (g *generator) write() {
	template, reads := g.change()
	s := g.statement(template, reads...)
	s.known = "22012"
	g.simple("write", s)
}

// ---- cursors ----

func (g *generator) declare() {
	if !g.inBlock {
		g.begin()
	}
	name := pick(g, "c0", "c1", "c2", "c3")
	held := ""
	if g.chance(20) && g.options.allows("held") {
		held = " WITH HOLD"
		g.holdable = append(g.holdable, name)
	}
	g.simple("cursor", g.ofQuery(fmt.Sprintf("DECLARE %s%s CURSOR%s FOR ", name,
		pick(g, "", " SCROLL", " NO SCROLL", " NO SCROLL", " INSENSITIVE", " BINARY"), held)))
	g.cursors = append(g.cursors, name)
}

func (g *generator) direction() string {
	n := 1 + g.rng.IntN(70)
	switch g.rng.IntN(14) {
	case 0:
		return "ALL FROM"
	case 1:
		return fmt.Sprintf("BACKWARD %d FROM", n)
	case 2:
		return pick(g, "PRIOR", "LAST", "FIRST", "BACKWARD ALL") + " FROM"
	case 3:
		return fmt.Sprintf("ABSOLUTE %d FROM", g.rng.IntN(20)-10)
	case 4:
		return fmt.Sprintf("RELATIVE %d FROM", g.rng.IntN(7)-3)
	default:
		return fmt.Sprintf("%d FROM", n)
	}
}

func (g *generator) fetch() {
	if len(g.cursors) == 0 && g.chance(90) {
		g.declare()
	}
	name := "c0"
	if len(g.cursors) > 0 {
		name = pick(g, g.cursors...)
	}
	switch g.rng.IntN(10) {
	case 0:
		g.simple("fetch", g.statement("CLOSE @ "+name))
		g.cursors = without(g.cursors, name)
		g.holdable = without(g.holdable, name)
	case 1:
		g.simple("fetch", g.statement("MOVE @ "+g.direction()+" "+name))
	case 2:
		if g.chance(20) {
			g.simple("fetch", g.statement("CLOSE @ ALL"))
			g.cursors, g.holdable, g.portals = nil, nil, nil
			return
		}
		fallthrough
	default:
		g.simple("fetch", g.statement("FETCH @ "+g.direction()+" "+name))
	}
}

func without(names []string, name string) []string {
	var left []string
	for _, n := range names {
		if n != name {
			left = append(left, n)
		}
	}
	return left
}

// fetchInVain makes a cursor fail in a subtransaction, and continues.
func (g *generator) fetchInVain() {
	if len(g.cursors) == 0 {
		g.declare()
	}
	name := pick(g, g.cursors...)
	g.simple("fetch in vain", g.statement("SAVEPOINT @ s3"))
	g.simple("fetch in vain", g.statement(pick(g, "FETCH @ BACKWARD 1 FROM ", "MOVE @ BACKWARD ALL FROM ",
		"FETCH @ ALL FROM ", "FETCH @ PRIOR FROM ")+name))
	g.simple("fetch in vain", g.statement("ROLLBACK @ TO SAVEPOINT s3"))
	if g.chance(60) {
		g.simple("fetch in vain", g.statement(pick(g, "CLOSE @ ", "FETCH @ 2 FROM ")+name))
	}
}

// opened adds a function that leaves a cursor open.
func (g *generator) opened() {
	if !g.inBlock {
		g.begin()
	}
	t := g.table()
	m := g.nested(t)
	name := pick(g, "o0", "o1")
	g.simple("opened", g.statement(fmt.Sprintf("SELECT @ opens('%s', '%s', '%s', %s)", name, m, t,
		pick(g, "true", "false"))))
	f := g.statement(fmt.Sprintf("FETCH @ %d FROM \"%s\"", 1+g.rng.IntN(5), name))
	g.simple("opened", f)
	f.acknowledges = []string{m}
	g.cursors = append(g.cursors, "\""+name+"\"")
}

// ---- prepared statements of SQL ----

func (g *generator) prepare() {
	if len(g.prepared) == 0 || g.chance(25) {
		name := pick(g, "q0", "q1", "q2")
		t := g.table()
		g.simple("prepare", g.statement(fmt.Sprintf("PREPARE %s (int) AS SELECT @ id, val FROM %s WHERE id < $1", name,
			t)))
		g.prepared = append(without(g.prepared, name), name)
		g.texts["sql "+name] = statement{reads: []string{t}}
		return
	}
	name := pick(g, g.prepared...)
	// after a failed PREPARE, the name may refer to another statement
	n := g.rng.IntN(50)
	switch g.rng.IntN(8) {
	case 0:
		g.simple("prepare", g.statement("DEALLOCATE @ "+name))
		g.prepared = without(g.prepared, name)
	case 1:
		g.simple("prepare", g.statement(fmt.Sprintf("EXPLAIN @ (ANALYZE, COSTS OFF) EXECUTE %s(%d)", name, n)))
	case 2:
		g.simple("prepare", g.statement(fmt.Sprintf("CREATE TEMP TABLE IF NOT EXISTS made @ AS EXECUTE %s(%d)", name,
			n)))
	default:
		g.simple("prepare", g.statement(fmt.Sprintf("EXECUTE @ %s(%d)", name, n)))
	}
}

// ---- functions ----

func (g *generator) function() {
	t := g.table()
	m := g.nested(t)
	switch g.rng.IntN(7) {
	case 0:
		g.simple("function", g.statement(fmt.Sprintf("SELECT @ caught('%s', '%s', %d)", m, t, 1+g.rng.IntN(6))))
	case 1:
		g.simple("function", g.statement(fmt.Sprintf("CALL @ calls('%s', '%s', %d)", m, t, 1+g.rng.IntN(4))))
	case 2:
		g.simple("function", g.statement("SELECT @ stat()", "a4"))
	case 3:
		g.simple("function", g.statement(fmt.Sprintf("SELECT @ back('%s', '%s', %t)", m, t, g.chance(50))))
	case 4:
		g.simple("function", g.statement(fmt.Sprintf("SELECT @ loops('%s', '%s', %d)", m, t, 1+g.rng.IntN(20))))
	default:
		g.simple("function", g.statement(fmt.Sprintf("SELECT @ reads('%s', '%s')", m, t), t))
	}
}

func (g *generator) planning() {
	t := g.table()
	m := g.nested(t)
	switch g.rng.IntN(3) {
	case 0:
		g.simple("planning", g.statement(fmt.Sprintf("SELECT @ id FROM a0 WHERE id < stable_reads('%s', '%s')", m, t),
			"a0"))
	case 1:
		g.simple("planning", g.statement(fmt.Sprintf("SELECT @ id FROM a0 WHERE id < immutable_reads('%s', '%s') "+
			"AND id = 1/0", m, t)))
		g.fails()
	default:
		g.simple("planning", g.statement(fmt.Sprintf("SELECT @ immutable_reads('%s', '%s')", m, t)))
	}
}

// setParallel makes plans parallel, or not; PostgreSQL 16 renamed the setting.
const setParallel = "SELECT @ set_config(CASE WHEN current_setting('server_version_num')::int < 160000 " +
	"THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END, '%s', false)"

func (g *generator) parallel() {
	t := g.table()
	m := g.nested(t)
	g.simple("parallel", g.statement(fmt.Sprintf(setParallel, "on")))
	switch g.rng.IntN(3) {
	case 0:
		g.simple("parallel", g.statement(fmt.Sprintf("SELECT @ parallel_reads('%s', '%s')", m, t)))
	case 1:
		g.simple("parallel", g.statement(fmt.Sprintf("SELECT @ sum(parallel_reads('%s', '%s')) FROM a0 WHERE id < 3",
			m, t), "a0"))
	default:
		g.simple("parallel", g.ofQuery(""))
	}
	if g.chance(70) {
		g.simple("parallel", g.statement(fmt.Sprintf(setParallel, "off")))
	}
}

func (g *generator) trigger() {
	t := g.table()
	m := g.nested(t)
	s := g.statement(fmt.Sprintf("INSERT @ INTO %s VALUES ('%s', '%s')", pick(g, "triggered", "triggered_late"), m, t))
	g.simple("trigger", s)
}

// ---- failures ----

func (g *generator) error() {
	t := g.table()
	switch g.rng.IntN(9) {
	case 0:
		g.simple("error", g.statement("SELEC @ 1"))
	case 1:
		g.simple("error", g.statement("SELECT @ * FROM nowhere"))
	case 2:
		g.simple("error", g.statement("SELECT @ 1 / 0"))
	case 3:
		s := g.statement("SELECT @ 1 / (id - 1) FROM "+t, t)
		s.known = "22012"
		g.simple("error", s)
	case 4:
		g.simple("error", g.statement("SELECT @ nofunction()"))
	case 5:
		g.simple("error", g.statement("CLOSE @ nocursor"))
	case 6:
		g.simple("error", g.statement("LOCK @ TABLE nowhere"))
	case 7:
		g.simple("error", g.statement("SELECT @ raises('P0001', 'message')"))
	default:
		s := g.statement("INSERT @ INTO a0 SELECT * FROM a1", "a0", "a1")
		s.known = "23505"
		g.simple("error", s)
	}
	g.fails()
}

// several adds several statements in one string.
func (g *generator) several() {
	var all []*statement
	for range 2 + g.rng.IntN(4) {
		switch g.rng.IntN(8) {
		case 0:
			template, reads := g.change()
			all = append(all, g.statement(template, reads...))
		case 1:
			all = append(all, g.statement("SELECT @ 1 / 0"))
		case 2:
			all = append(all, g.statement(pick(g, "BEGIN @", "COMMIT @", "ROLLBACK @", "SAVEPOINT @ s0",
				"ROLLBACK @ TO s0")))
		case 3:
			all = append(all, g.ofQuery("DECLARE c0 CURSOR FOR "))
		case 4:
			all = append(all, g.statement("FETCH @ 3 FROM c0"))
		default:
			all = append(all, g.ofQuery(""))
		}
	}
	g.simple("several", all...)
}

func (g *generator) unparsed() {
	g.simple("unparsed", g.statement("SELECT @ 1"), g.statement("SELEC @ 1"), g.statement("SELECT @ 2"))
	g.fails()
}

func (g *generator) timeout() {
	g.simple("timeout", g.statement(fmt.Sprintf("SET @ statement_timeout = %d", pick(g, 1, 2, 5, 20))))
	for range 1 + g.rng.IntN(4) {
		switch g.rng.IntN(5) {
		case 0:
			g.simple("timeout", g.statement("SELECT @ id, pg_sleep(0.001) FROM a1 WHERE id < 40", "a1"))
		case 1:
			g.block()
		case 2:
			g.fetch()
		case 3:
			g.extended()
		default:
			g.read()
		}
	}
	if g.inBlock {
		g.end("ROLLBACK @")
	}
	g.simple("timeout", g.statement("RESET @ statement_timeout"))
}

func (g *generator) slow() {
	s := g.statement("SELECT @ id, pg_sleep(0.002) FROM a2 WHERE id < 10", "a2")
	s.sleeps = 2 * time.Millisecond
	if g.chance(50) { // in parts, with something else in between
		if !g.inBlock {
			g.begin()
		}
		name := pick(g, "p0", "p1")
		g.portals = append(without(g.portals, name), name)
		g.add(&step{move: "slow", messages: []message{{op: 'P', statement: s, text: s.text},
			{op: 'B', name: name, statement: s}, {op: 'E', name: name, rows: 3}}})
		g.pause()
		g.add(&step{move: "slow", messages: []message{{op: 'E', name: name, rows: 3}}})
		return
	}
	st := g.simple("slow", s)
	if g.options.allows("cancel") && g.chance(60) {
		st.cancel = true
		st.delay = time.Duration(g.rng.IntN(25)) * time.Millisecond
	}
}

func (g *generator) signal() {
	if !g.others {
		return
	}
	g.simple("signal", g.statement("SELECT @ "+pick(g, "pg_cancel_backend", "pg_cancel_backend",
		"pg_terminate_backend")+
		"(pid) FROM (SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'script %' AND pid <> "+
		"pg_backend_pid() ORDER BY random() LIMIT 1) x"))
}

// ---- the rest ----

func (g *generator) setting() {
	g.simple("setting", g.statement(pick(g,
		"SET @ plan_cache_mode = force_generic_plan", "SET @ plan_cache_mode = force_custom_plan",
		"RESET @ plan_cache_mode",
		"SET @ cursor_tuple_fraction = 1", "SET @ work_mem = '64kB'", "SET @ enable_seqscan = off",
		"RESET @ enable_seqscan",
		"SET LOCAL @ enable_indexscan = off", "SET @ enable_material = off", "SET @ jit = off",
		"SELECT @ set_config('fuzz.calls', '0', false)", "DISCARD @ PLANS", "DEALLOCATE @ ALL")))
	if last := g.script.steps[len(g.script.steps)-1].query[0].text; strings.HasPrefix(last, "DEALLOCATE") {
		g.prepared, g.bound = nil, map[string]bool{}
	}
}

func (g *generator) copy() {
	t := g.table()
	switch g.rng.IntN(4) {
	case 0:
		g.simple("copy", g.statement("COPY @ (SELECT id FROM "+t+" WHERE id < 10) TO STDOUT", t))
	case 1:
		s := g.statement("COPY @ (SELECT 1 / (id - 5) FROM "+t+") TO STDOUT", t)
		g.simple("copy", s)
		g.fails()
	default:
		st := g.simple("copy", g.statement("COPY @ b0 (val) FROM STDIN"))
		st.copyIn = strings.Repeat("x\n", g.rng.IntN(5))
		st.copyFail = g.chance(25)
		if st.copyFail {
			g.fails()
		}
	}
}

// deferred adds a deferred constraint that fails at the end of the transaction.
func (g *generator) deferred() {
	if g.chance(50) {
		g.simple("deferred", g.statement("INSERT @ INTO deferred VALUES (1)"))
		return
	}
	if !g.inBlock {
		g.begin()
	}
	g.simple("deferred", g.statement("INSERT @ INTO deferred VALUES (1)"))
	if g.chance(30) {
		g.simple("deferred", g.statement("SET @ CONSTRAINTS ALL IMMEDIATE"))
		g.fails()
	} else if g.chance(50) {
		g.end("COMMIT @")
	}
}

func (g *generator) definition() {
	g.simple("definition", g.statement(pick(g,
		"CREATE TEMP TABLE @ made (a int)", "DROP TABLE @ IF EXISTS made", "CREATE INDEX @ ON made (a)",
		"CREATE TEMP TABLE made2 @ AS SELECT 1 / (id - 3) AS x FROM a1", "ALTER TABLE @ made ADD b text",
		"ANALYZE @ a3",
		"CREATE TEMP VIEW @ seen AS SELECT * FROM a1", "DROP VIEW @ IF EXISTS seen", "TRUNCATE @ b2",
		"COMMENT @ ON TABLE b1 IS 'x'")))
}

// rewritten adds a statement that a rule rewrites to two queries.
func (g *generator) rewritten() {
	g.simple("rewritten", g.statement("INSERT @ INTO ruled VALUES (1)", "ruled"))
}

func (g *generator) large() {
	n := pick(g, 1000, 8000, 20000, 200000)
	if g.chance(5) {
		n = 34 << 20 // more than malloc keeps when it is freed
	}
	t := g.table()
	padding := strings.Repeat(pick(g, "xxxx", "ß \t"), n/4)
	switch g.rng.IntN(3) {
	case 0:
		g.simple("large", g.statement("SELECT @ length('"+padding+"') FROM "+t+" LIMIT 2", t))
	case 1:
		if !g.inBlock {
			g.begin()
		}
		g.simple("large", g.statement("DECLARE c0 NO SCROLL CURSOR FOR SELECT @ id, length('"+padding+"') FROM "+t, t))
		g.cursors = append(g.cursors, "c0")
	default:
		s := g.statement("SELECT @ length($1), id FROM "+t+" LIMIT 3", t)
		s.params = []string{padding}
		g.add(&step{move: "large", messages: g.once(s, 0)})
	}
}

func (g *generator) manyParameters() {
	n := pick(g, 100, 2000, 6000, 20000, 65535)
	var b strings.Builder
	b.WriteString("INSERT @ INTO b2 (val) SELECT val FROM a3 WHERE val IN (")
	var params []string
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "$%d", i+1)
		params = append(params, fmt.Sprintf("v%d", i%20))
	}
	b.WriteString(")")
	s := g.statement(b.String(), "b2", "a3")
	s.params = params
	g.add(&step{move: "many parameters", messages: g.once(s, 0)})
}

// idle stays idle in a transaction until the server ends the session.
func (g *generator) idle() {
	if !g.inBlock {
		g.begin()
	}
	g.fetch()
	g.simple("idle", g.statement("SET @ idle_in_transaction_session_timeout = 20"))
	g.add(&step{move: "idle", delay: 40 * time.Millisecond})
}

// pause leaves the server idle: no duration may contain it, and nothing is running meanwhile.
func (g *generator) pause() {
	g.add(&step{move: "pause", delay: 100 * time.Millisecond})
}
