// Moves that use the extended protocol, and anonymous blocks.

package protocol

import (
	"fmt"
	"strings"
	"time"
)

// once returns the messages that run a statement without names.
func (g *generator) once(s *statement, rows uint32) []message {
	return []message{
		{op: 'P', statement: s, text: s.text},
		{op: 'B', statement: s, params: s.params},
		{op: 'E', rows: rows},
	}
}

// parsed makes a prepared statement of the protocol, whose executions have their marker in the first parameter.
func (g *generator) parsed(name string) message {
	template, reads, ran, known := g.query()
	alias := g.next("p")
	text := strings.Replace(template, "@", "/*"+alias+"*/ $1::text,", 1)
	s := statement{alias: alias, text: text, reads: reads, ran: ran, known: known}
	g.texts[name] = s
	g.bound[name] = true
	return message{op: 'P', prepared: name, text: text,
		statement: &statement{marker: alias, text: text, reads: reads, ran: ran, known: known}}
}

// execution returns a statement that executes a prepared one.
func (g *generator) execution(name string) *statement {
	s := g.texts[name]
	s.marker = g.next("m")
	s.params = []string{s.marker}
	return &s
}

// extended adds a pipeline of messages up to a Sync: statements with and without names, and portals that are executed
// in parts, alternately, repeatedly or never.
func (g *generator) extended() {
	st := &step{move: "extended"}
	add := func(all ...message) { st.messages = append(st.messages, all...) }
	for range 1 + g.rng.IntN(5) {
		rows := pick(g, uint32(0), 0, 1, 2, 5, 30)
		switch g.rng.IntN(12) {
		case 0: // as drivers do
			s := g.ofQuery("")
			add(message{op: 'P', statement: s, text: s.text}, message{op: 'B', statement: s}, message{op: 'D'},
				message{op: 'E', rows: rows})
			if g.chance(40) {
				add(message{op: 'E', rows: rows})
			}
		case 1:
			s := g.statement(pick(g, "BEGIN @", "COMMIT @", "ROLLBACK @", "SAVEPOINT @ s0",
				"ROLLBACK @ TO SAVEPOINT s0", "CLOSE @ ALL"))
			add(g.once(s, 0)...)
		case 2:
			template, reads := g.change()
			s := g.statement(template, reads...)
			s.known = "22012"
			s.more = rows > 0
			add(g.once(s, rows)...)
		case 3, 4: // a portal with a name
			s := g.ofQuery("")
			name := pick(g, "p0", "p1", "p2")
			add(message{op: 'P', statement: s, text: s.text}, message{op: 'B', name: name, statement: s})
			if g.chance(80) {
				add(message{op: 'E', name: name, rows: rows})
			}
			g.portals = append(without(g.portals, name), name)
		case 5, 6:
			if len(g.portals) > 0 {
				name := pick(g, g.portals...)
				switch g.rng.IntN(6) {
				case 0:
					add(message{op: 'C', name: name})
					g.portals = without(g.portals, name)
				case 1:
					s := g.statement("FETCH @ "+g.direction()+" "+name, nil...)
					add(g.once(s, 0)...)
				default:
					add(message{op: 'E', name: name, rows: rows})
				}
			}
		case 7, 8: // a statement with a name
			name := pick(g, "x0", "x1", "x2")
			if !g.bound[name] {
				add(g.parsed(name))
			}
			for range 1 + g.rng.IntN(7) {
				s := g.execution(name)
				portal := pick(g, "", "", "p0", "p3")
				add(message{op: 'B', name: portal, prepared: name, statement: s, params: s.params},
					message{op: 'E', name: portal, rows: rows})
			}
			if g.chance(10) {
				add(message{op: 'c', prepared: name})
				delete(g.bound, name)
			}
		case 9:
			s := g.statement("SELECT @ $1::int, id FROM a2 WHERE id < 5", "a2")
			s.params = []string{pick(g, "7", "x")}
			add(g.once(s, 0)...)
		case 10:
			s := g.statement(pick(g, "SELECT @ 1 / 0", "SELEC @ 1", "SELECT @ * FROM nowhere", "FETCH @ 2 FROM c0",
				"DECLARE c0 CURSOR @ FOR SELECT 1"))
			add(g.once(s, 0)...)
		default:
			s := g.statement(g.blockText())
			add(g.once(s, 0)...)
		}
		if g.chance(5) {
			add(message{op: 'H'})
		}
	}
	if len(st.messages) == 0 {
		return
	}
	if g.chance(6) && g.options.allows("cancel") {
		st.cancel, st.delay = true, time.Duration(g.rng.IntN(3000))*time.Microsecond
	}
	if !g.inBlock {
		g.portals = nil
	}
	g.add(st)
}

// ---- anonymous blocks ----

func (g *generator) block() { g.simple("block", g.statement(g.blockText())) }

func (g *generator) blockText() string {
	var b strings.Builder
	b.WriteString("DO @ $do$ DECLARE x int; r record; c0 refcursor; c1 refcursor; ")
	g.body(&b, 0)
	b.WriteString(" $do$")
	return b.String()
}

func (g *generator) body(b *strings.Builder, depth int) {
	b.WriteString("BEGIN ")
	for range 1 + g.rng.IntN(4) {
		g.line(b, depth)
	}
	if depth > 0 && g.chance(80) {
		b.WriteString("EXCEPTION WHEN " + pick(g, "others", "others", "division_by_zero OR raise_exception") +
			" THEN ")
		if g.chance(40) {
			g.line(b, depth+1)
		} else {
			b.WriteString("NULL; ")
		}
	}
	b.WriteString("END")
	if depth > 0 {
		b.WriteString("; ")
	}
}

func (g *generator) line(b *strings.Builder, depth int) {
	t := g.table()
	say := func(format string, args ...any) { fmt.Fprintf(b, format, args...) }
	c := pick(g, "c0", "c1")
	switch g.rng.IntN(15) {
	case 0, 1:
		if depth < 3 {
			g.body(b, depth+1)
		}
	case 2:
		m := g.nested(t)
		say("EXECUTE 'SELECT /*%s*/ count(*) FROM %s' INTO x; RAISE NOTICE 'ran %s'; ", m, t, m)
	case 3:
		m := g.nested(t)
		say("PERFORM /*%s*/ id FROM %s; RAISE NOTICE 'ran %s'; ", m, t, m)
	case 4:
		m := g.nested(t)
		say("FOR r IN SELECT /*%s*/ id FROM %s ORDER BY id LOOP IF r.id = 1 THEN RAISE NOTICE 'ran %s'; END IF; IF "+
			"r.id = %d THEN ", m, t, m, 1+g.rng.IntN(25))
		say("%s", pick(g, "EXIT; ", "RAISE EXCEPTION 'in a loop'; ", "PERFORM 1 / (r.id - r.id); ", "RETURN; "))
		say("END IF; END LOOP; ")
	case 5, 6, 7:
		m := g.nested(t)
		scroll := pick(g, "", "SCROLL ", "NO SCROLL ")
		if g.chance(50) {
			say("OPEN %s %sFOR SELECT /*%s*/ id FROM %s ORDER BY id; ", c, scroll, m, t)
		} else {
			say("OPEN %s %sFOR EXECUTE 'SELECT /*%s*/ id FROM %s ORDER BY id'; ", c, scroll, m, t)
		}
		say("FETCH %s INTO r; RAISE NOTICE 'ran %s'; ", c, m)
		for range g.rng.IntN(3) {
			say("%s ", pick(g, "FETCH "+c+" INTO r;", "FETCH BACKWARD FROM "+c+" INTO r;",
				"MOVE FORWARD 10 FROM "+c+";",
				"FETCH LAST FROM "+c+" INTO r;", "MOVE BACKWARD ALL FROM "+c+";", "FETCH ABSOLUTE 2 FROM "+c+
					" INTO r;"))
		}
		if g.chance(50) {
			say("CLOSE %s; ", c)
		}
	case 8:
		say("%s", pick(g, "x := 1 / (x - x); ", "PERFORM 1 / 0; ", "RAISE EXCEPTION 'on purpose'; ",
			"PERFORM fails(id, 3) FROM "+t+"; ",
			"PERFORM * FROM nowhere; "))
	case 9:
		say("INSERT INTO b0 (val) SELECT val FROM %s WHERE id < 3; ", t)
	case 10:
		m := g.nested(t)
		say("PERFORM reads('%s', '%s'); ", m, t)
	case 11:
		if depth == 0 && !g.inBlock {
			say("%s", pick(g, "COMMIT; ", "ROLLBACK; "))
		}
	case 12:
		say("PERFORM pg_sleep(0.00%d); ", g.rng.IntN(10))
	case 13:
		say("CLOSE %s; ", c)
	default:
		say("x := count(*) FROM %s; ", t)
	}
}
