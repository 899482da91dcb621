// Checks durations, and rows that cursors delivered, against what the client knows.

package protocol

import (
	"slices"
	"time"
)

// coarse is the largest difference between two clocks.
const coarse = 2 * time.Millisecond

// delivered returns how many rows the client got, in answer to Execute and to FETCH.
func (st *statement) delivered() int64 {
	if st.cursor == nil {
		return st.rows
	}
	return st.rows + st.cursor.fetched
}

// limits returns for each statement how long the server can have worked for it: as long as the client waited, in the
// steps in which it was sent, or in which its portal existed. What a client does in between is not part of it. A
// statement has no limit if the answer to one of these is missing.
func (c *session) limits() map[*statement]time.Duration {
	closed := map[*statement]time.Duration{}
	open := map[*statement]time.Duration{}
	for _, step := range c.script.steps {
		for _, s := range step.query {
			if step.took > 0 {
				closed[s] = step.took
			}
		}
		for _, m := range step.messages {
			if m.statement != nil {
				if _, known := open[m.statement]; !known {
					open[m.statement] = 0
				}
			}
		}
		if len(step.query)+len(step.messages) == 0 {
			continue
		}
		if step.took == 0 {
			return closed
		}
		for s := range open {
			open[s] += step.took
			if step.status == 'I' {
				closed[s] = open[s]
				delete(open, s)
			}
		}
	}
	return closed
}

// durations checks that no duration contains what the client did meanwhile, and that it contains what the server did.
func (k *checker) durations(c *session) {
	limits := c.limits()
	for _, st := range c.script.statements() {
		records := k.marked[st.marker]
		if len(records) != 1 {
			continue
		}
		r := records[0]
		worked := time.Duration(r.Duration+r.Commit) * time.Microsecond
		if st.alias != "" { // a prepared statement is analyzed when it is parsed
			worked -= time.Duration(r.Analysis) * time.Microsecond
		}
		if limit, known := limits[st]; known && worked > limit+limit/100+coarse {
			k.round.complain("duration", c, "%s: the client waited for %s in all, but the duration recorded is %s: %s",
				st.marker, limit, worked, r)
		}
		least := st.sleeps * time.Duration(st.rows)
		if (st.outcome == succeeded || st.outcome == suspended) && r.Outcome == "ok" && worked+coarse < least {
			k.round.complain("duration", c, "%s: it slept for %s, but the duration recorded is %s: %s", st.marker,
				least, worked, r)
		}
	}
}

// fetches checks the rows of cursors.
func (k *checker) fetches(c *session) {
	compare := func(marker string, of *cursor, records []*record) {
		records = slices.DeleteFunc(slices.Clone(records), func(r *record) bool { return r.Outcome != "ok" })
		if of == nil || len(records) != 1 {
			return
		}
		var rows int64
		if records[0].Rows != nil {
			rows = *records[0].Rows
		}
		if rows != of.fetched {
			k.round.complain("rows", c, "%s: %d rows were fetched from its cursor, but %d are recorded: %s", marker,
				of.fetched, rows, records[0])
		}
	}
	for _, st := range c.script.statements() {
		if st.outcome == succeeded && st.tag == "DECLARE CURSOR" {
			compare(st.marker, st.cursor, k.cursors[st.marker])
		}
	}
	for m, of := range c.opened {
		compare(m, of, k.nested[m])
	}
}
