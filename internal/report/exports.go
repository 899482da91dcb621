// Exports of data: who took how many rows of which table, and how; how they are counted, and their section.

package report

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/statement"
)

// Ways in which rows are taken.
const (
	byCopy      = "COPY TO"
	byCopyWrite = "COPY TO of a write"
	byCursor    = "cursor"
	byQuery     = "query"
)

// export counts the rows of a relation that a user took in one way, with one application.
type export struct {
	how, user, database, application, relation string

	uses           group
	failed         int64
	rows, mostRows uint64
	when           span
}

func (e *export) weight() int64 { return int64(min(e.rows, 1<<40)) + e.uses.n }

func (e *export) merge(o *export) {
	e.how, e.user, e.database, e.application, e.relation = o.how, o.user, o.database, o.application, o.relation
	e.uses.merge(&o.uses)
	e.failed += o.failed
	e.rows += o.rows
	e.mostRows = max(e.mostRows, o.mostRows)
	e.when.merge(&o.when)
}

// isDump says whether an application says that it is pg_dump or pg_dumpall.
func isDump(application string) bool {
	return application == "pg_dump" || application == "pg_dumpall"
}

// howExported returns the way in which a statement takes rows out of the database; empty: it takes none, or
// few.
func howExported(r *format.Record, session *sessionFacts, shape *shapeFacts) string {
	class := r.Shape.Class
	if shape.copies {
		switch {
		case class == format.ClassRead:
			return byCopy
		case len(r.Shape.Query) > 0:
			return byCopyWrite
		}
		return "" // COPY FROM
	}
	dumped := session.isDump && len(r.Portal()) > 0 // pg_dump --inserts fetches few rows at a time
	if class != format.ClassRead || r.Rows == 0 || r.Rows < statement.BulkRows && !dumped {
		return ""
	}
	switch {
	case len(r.Portal()) > 0:
		return byCursor
	case r.Depth == 0:
		return byQuery
	}
	return "" // the rows went to a function
}

// countExports counts what a statement takes out of the database, for each relation that it uses.
func (c *collector) countExports(r *format.Record, session *sessionFacts, shape *shapeFacts, failed bool) {
	how := howExported(r, session, shape)
	if how == "" {
		return
	}
	c.exports.add(r)
	c.exportedRows += r.Rows
	seen := map[string]bool{}
	for i := range r.Shape.Relations {
		relation := string(r.Shape.Relations[i].Name)
		if !seen[relation] {
			seen[relation] = true
			c.countExport(r, session, how, relation, failed)
		}
	}
	if len(seen) == 0 {
		c.countExport(r, session, how, "", failed)
	}
}

func (c *collector) countExport(r *format.Record, session *sessionFacts, how, relation string, failed bool) {
	key := how + "\x00\x00" + pairKey(session.database, relation, session.userName) + "\x00\x00" +
		strings.ReplaceAll(session.application, "\x00", "\x00\x01")
	e := findOrAdd(&c.exportTotals, []byte(key))
	if e == nil {
		return
	}
	e.how, e.user, e.database, e.application, e.relation = how, session.userName, session.database,
		session.application, relation
	e.uses.add(r)
	if failed {
		e.failed++
	}
	e.rows += r.Rows
	e.mostRows = max(e.mostRows, r.Rows)
	e.when.add(r.Time)
}

// filter returns the filter of the statements. Only COPY has one: no command can select queries by the number
// of rows that they returned.
func (e *export) filter() query.Criteria {
	if e.how != byCopy || e.application == "" || strings.ContainsAny(e.application, "\r\x00") {
		return inexpressible
	}
	o := byPair(&pair{database: e.database, relation: e.relation, user: e.user})
	if e.relation == "" {
		return inexpressible
	}
	o.Applications = []string{e.application}
	o.Classes = []format.Class{format.ClassRead}
	o.Commands = []string{"COPY"}
	return o
}

func (m *maker) exportsSection() Section {
	s := Section{ID: "exports", Title: "Exports of data",
		About: fmt.Sprintf("Rows that statements took out of the database: COPY TO, queries of clients that "+
			"returned %s rows or more, cursors from which as many were fetched, and cursors of pg_dump (--inserts). "+
			"Rows are those that the record has; a statement that reads several tables counts for each of them, "+
			"with all rows that it returned. An application is what the client called itself.",
			humanize.Comma(statement.BulkRows)),
		Summary: fmt.Sprintf("%s took %s.", render.Plural(m.exports.n, "statement"),
			render.Plural(min(m.exportedRows, 1<<62), "row")),
		Notes: []string{"Of a statement that failed, the record has no rows; the client may have received some. " +
			"Many small queries are not recognized, nor is a copy of the database's files or of its WAL " +
			"(pg_basebackup, replication)."}}
	if m.exports.n == 0 {
		s.Summary = "No exports were recorded."
		return s
	}
	t := Table{
		ID:      "taken",
		Caption: "By user, table, application and way",
		Columns: columns("relation", "@user", "@database", "application", "how", "first", "last", "#failed",
			"#statements", "#most rows", "#rows"),
	}
	keys := m.exportTotals.heaviest((*export).weight)
	t.Others = others(2*rowsShown, len(keys), m.exportTotals.pruned, "exports")
	for _, key := range keys[:min(len(keys), 2*rowsShown)] {
		e := m.exportTotals.values[key]
		t.Rows = append(t.Rows,
			Row{Cells: []Cell{nameCell(e.relation), nameCell(e.user), nameCell(e.database),
				nameCell(e.application), {Text: e.how},
				m.timeCell(e.when.first), m.timeCell(e.when.last), alarmCell(e.failed), countCell(e.uses.n),
				countCell(int64(min(e.mostRows, 1<<62))), countCell(int64(min(e.rows, 1<<62)))},
				Records: []Records{m.records("", &e.uses, e.filter())}})
	}
	s.Tables = []Table{t}
	return s
}
