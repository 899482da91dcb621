// The sections of a report, built from the figures.

package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
)

const (
	rowsShown       = 20
	pairsShown      = 150
	matrixUsers     = 10
	matrixRelations = 15
)

// sections returns all sections, in the order of the report.
func (m *maker) sections() []Section {
	return []Section{
		m.activitySection(), m.loginsSection(), m.failuresSection(), m.privilegedSection(), m.accessSection(),
		m.exportsSection(), m.newAccessSection(),
		m.offHoursSection(), m.settingsSection(), m.gapsSection(), m.statementsSection(),
	}
}

// ---- helpers ----

// columns parses the heads of a table: # marks numbers, @ lists of names, and ~ texts that can be long.
func columns(names ...string) (all []Column) {
	for _, n := range names {
		name := strings.TrimLeft(n, "#@~")
		all = append(all, Column{Name: name, Number: n[0] == '#', List: n[0] == '@', Long: n[0] == '~'})
	}
	return all
}

func textCell(s string) Cell { return Cell{Text: render.Safe(s)} }

func nameCell(s string) Cell {
	if s == "" {
		return Cell{Text: "(none)"}
	}
	return textCell(s)
}

func countCell(n int64) Cell { return Cell{Text: humanize.Comma(n)} }

// alarmCell returns a number that is highlighted if it is not zero.
func alarmCell(n int64) Cell { return Cell{Text: humanize.Comma(n), Alarm: n > 0} }

// timeCell formats a time: without the date if all records are of one day, otherwise without seconds.
func (m *maker) timeCell(usec int64) Cell {
	const day = len(time.DateOnly)
	if first, last := m.time(m.when.first), m.time(m.when.last); first[:day] == last[:day] && m.total.n > 0 {
		return Cell{Text: m.time(usec)[day+1:]}
	}
	return Cell{Text: strings.TrimSuffix(m.time(usec), m.time(usec)[day+len(" 15:04"):])}
}

// durationCell formats a duration.
func durationCell(usec uint64) Cell {
	d := time.Duration(min(usec, 1<<53)) * time.Microsecond
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		return Cell{Text: fmt.Sprintf("%.2f s", d.Seconds())}
	default:
		return Cell{Text: fmt.Sprintf("%.2f ms", float64(d)/1e6)}
	}
	return Cell{Text: strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")}
}

// others says how many rows a table does not list.
func others(listed, all int, pruned bool, what string) string {
	switch {
	case pruned:
		return fmt.Sprintf("and more %s than can be followed at the same time", what)
	case all > listed:
		return fmt.Sprintf("and %s more", humanize.Comma(int64(all-listed)))
	}
	return ""
}

// eventsTable returns a table of single records.
func (m *maker) eventsTable(
	id, caption string, l *latest, what string, head string, cells func(*Sample) []Cell,
) Table {
	t := Table{
		ID:      id,
		Caption: caption,
		Columns: columns("time", "@user", "@database"),
		Folded:  len(l.last) > rowsShown,
	}
	t.Columns = append(t.Columns, columns(strings.Split(head, ",")...)...)
	t.Columns = append(t.Columns, Column{Name: "record"})
	for _, s := range m.finishSamples(l.last) {
		row := Row{Cells: append([]Cell{{Text: s.Time}, textCell(s.User), textCell(s.Database)}, cells(s)...)}
		row.Cells = append(row.Cells, textCell(s.Record()))
		t.Rows = append(t.Rows, row)
	}
	if rest := l.n - int64(len(l.last)); rest > 0 {
		t.Others = fmt.Sprintf("These are the last ones; %s before them, see the commands above.", render.Plural(rest, what))
	}
	return t
}

// Record returns the session and sequence number of the record.
func (s *Sample) Record() string {
	if s.Seq == 0 {
		return s.Session
	}
	return fmt.Sprintf("%s/%d", s.Session, s.Seq)
}

// Result returns the outcome if the statement failed or did not take effect; empty: it took effect.
func (s *Sample) Result() string {
	switch {
	case s.SQLState != "":
		return strings.TrimSpace(s.SQLState + " " + condition(s.SQLState))
	case s.Effect == format.EffectRolledBack.String():
		return s.Effect
	case s.Effect == format.EffectUnknown.String():
		return "unknown whether committed"
	case s.Outcome == "ok":
		return ""
	}
	return s.Outcome
}

func (m *maker) strip(name string, i int, isAlarm bool) Strip {
	s := Strip{Name: name, Alarm: isAlarm}
	for k := range m.buckets {
		s.Values = append(s.Values, m.buckets[k].counts[i])
		s.Total += m.buckets[k].counts[i]
	}
	return s
}

func (m *maker) chart(title string, strips ...Strip) Chart {
	strips = slices.DeleteFunc(strips, func(s Strip) bool { return s.Total == 0 })
	c := Chart{Title: title, Strips: strips, bounds: m.bounds, width: m.width, zone: m.options.Zone}
	for i := range m.buckets {
		c.From = append(c.From, m.time(m.bounds[i]))
	}
	return c
}

//go:embed sqlstates.txt
var sqlstatesText string

// conditions maps SQLSTATEs to condition names, and the two characters of a class to its title.
var conditions = func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(sqlstatesText) {
		code, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[code] = name
	}
	return all
}()

// condition returns PostgreSQL's name of an SQLSTATE; empty: it has none.
func condition(sqlstate string) string { return conditions[sqlstate] }

// conditionClass returns the title of the class of an SQLSTATE.
func conditionClass(sqlstate string) string {
	if len(sqlstate) < 2 {
		return ""
	}
	return conditions[sqlstate[:2]]
}

// aboutEffects explains the two columns that count statements without effect.
const aboutEffects = "“Rolled back” statements ended well, but their transaction, or a part of it, was rolled " +
	"back; of “unknown” ones, the trail does not say whether it was committed: the record of its end is not " +
	"there, or it was prepared and has not ended. What such a statement has read, it has read."

// aboutUncommitted does the same for tables with one column for both.
const aboutUncommitted = "“Undone” counts statements that ended well, but were rolled back with their " +
	"transaction, or of which the trail does not say whether it was committed; their records are counted apart. " +
	"What they have read, they have read."

// withEffects appends to a number of statements how many of them did not take effect.
func withEffects(number string, e *format.Effects) string {
	if words := effectsInWords(e); words != "" {
		return number + " (" + words + ")"
	}
	return number
}

// ---- the sections ----

func (m *maker) activitySection() Section {
	s := Section{ID: "activity", Title: "Activity",
		About: "Statements are those of clients and those that functions and triggers run. They belong to the " +
			"time at which they started.",
		Summary: fmt.Sprintf("%s, %s of them statements, by %s in %s.", render.Plural(m.total.n, "record"),
			humanize.Comma(m.kinds[format.KindStatement].n),
			m.distinct(len(m.users.values), m.users.pruned, "user"),
			m.distinct(len(m.dbs.values), m.dbs.pruned, "database"))}
	strips := []Strip{m.strip("all records", seriesRecords, false)}
	strips[0].Tall = true
	classes := Table{
		ID:      "classes",
		Caption: "Statements by class",
		Columns: columns("class", "#statements", "#share"),
	}
	var known []format.Class
	for c := range m.classes {
		if _, err := query.ParseClass(format.Class(c).String()); err == nil {
			known = append(known, format.Class(c))
		}
	}
	for c := range m.classes {
		g := &m.classes[c]
		if g.n == 0 {
			continue
		}
		class := format.Class(c).String()
		filter := narrowed(query.Criteria{Classes: []format.Class{format.Class(c)}}, false, format.KindStatement)
		if c == 0 {
			class, filter = "(none)", narrowed(query.Criteria{Not: &query.Criteria{Classes: known}}, false,
				format.KindStatement)
		} else if !slices.Contains(known, format.Class(c)) {
			filter = inexpressible
		}
		strips = append(strips, m.strip(class, c, false))
		classes.Rows = append(classes.Rows,
			Row{Cells: []Cell{{Text: class}, countCell(g.n), shareCell(g.n, m.kinds[format.KindStatement].n)},
				Records: []Records{m.records("", g, filter)}})
	}
	sortRows(classes.Rows)
	s.Charts = []Chart{m.chart("Records over time, by class of statement",
		append(strips, m.strip("failures", seriesFailed, true))...)}
	kinds := Table{ID: "kinds", Caption: "Records by kind", Columns: columns("kind", "#records", "#share")}
	for k := range m.kinds {
		if g := &m.kinds[k]; g.n > 0 {
			kind, filter := format.Kind(k), inexpressible
			if _, err := query.ParseKind(kind.String()); err == nil {
				filter = query.Criteria{Kinds: []format.Kind{kind}}
			}
			kinds.Rows = append(kinds.Rows,
				Row{Cells: []Cell{{Text: kind.String()}, countCell(g.n), shareCell(g.n, m.total.n)},
					Records: []Records{m.records("", g, filter)}})
		}
	}
	sortRows(kinds.Rows)
	s.Tables = []Table{classes, kinds,
		m.actorsTable("users", "Users", "user", &m.users, setUsers),
		m.actorsTable("databases", "Databases", "database", &m.dbs, setDatabases),
		m.actorsTable("applications", "Applications", "application", &m.apps, setApplications),
		m.timesTable(),
	}
	return s
}

// distinct formats a number of different names.
func (m *maker) distinct(n int, pruned bool, what string) string {
	if pruned {
		return "more than " + render.Plural(n, what)
	}
	return render.Plural(n, what)
}

func shareCell(n, of int64) Cell {
	if of == 0 {
		return Cell{}
	}
	return Cell{Text: fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))}
}

// sortRows sorts rows by their number of records, largest first.
func sortRows(rows []Row) {
	slices.SortStableFunc(rows, func(a, b Row) int {
		return int(max(-1, min(1, b.Records[0].Count-a.Records[0].Count)))
	})
}

func (m *maker) actorsTable(
	id, caption, what string, t *tally[string, actor, *actor], set func(*query.Criteria, []string),
) Table {
	out := Table{
		ID:      id,
		Caption: caption,
		Columns: columns(what, "#statements", "#failures", "#logins", "#refused", "first", "last", "#records"),
	}
	keys := t.heaviest((*actor).weight)
	out.Others = others(rowsShown, len(keys), t.pruned, what+"s")
	for _, key := range keys[:min(len(keys), rowsShown)] {
		a := t.values[key]
		row := Row{Cells: []Cell{nameCell(key), countCell(a.statements), countCell(a.failed.n), countCell(a.logins),
			alarmCell(a.refused.n), m.timeCell(a.when.first), m.timeCell(a.when.last), countCell(a.records.n)}}
		row.Records = []Records{m.records("all records", &a.records, byActor(key, t, set))}
		if a.failed.n > 0 {
			row.Records = append(row.Records, m.records("failures", &a.failed, narrowed(byActor(key, t, set), true)))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// timesTable has the numbers that the chart of activity shows.
func (m *maker) timesTable() Table {
	t := Table{
		ID:      "times",
		Caption: "The same in numbers",
		Columns: columns("from", "#failures", "#logins", "#refused", "#DDL", "#privileged", "#records"),
		Folded:  true,
	}
	for i := range m.buckets {
		b := &m.buckets[i]
		if b.counts[seriesRecords] == 0 {
			continue
		}
		within := query.Range{Since: m.since, Until: m.until}
		if i > 0 {
			within.Since = max(m.since, m.bounds[i])
		}
		if i < len(m.buckets)-1 {
			within.Until = min(m.until, m.bounds[i+1])
		}
		row := Row{Cells: []Cell{{Text: m.time(m.bounds[i])}, countCell(b.counts[seriesFailed]),
			countCell(b.counts[seriesLogins]),
			alarmCell(b.counts[seriesRefused]),
			countCell(b.counts[format.ClassDDL]), countCell(b.counts[seriesPrivileged]),
			countCell(b.counts[seriesRecords])},
			Records: []Records{m.recordsWithin("all records", &b.records, query.Criteria{}, within)}}
		if b.failed.n > 0 {
			row.Records = append(row.Records,
				m.recordsWithin("failures", &b.failed, query.Criteria{Failed: true}, within))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// hiddenFailuresNote returns a sentence for the introduction of a section, which says why settings of the
// server's log have hidden failures; empty if none are known to be hidden.
func (m *maker) hiddenFailuresNote(what string) string {
	for _, r := range m.recorded {
		if r.FailuresHidden != "" {
			return " " + what + ": " + r.FailuresHidden + "."
		}
	}
	return ""
}

func (m *maker) loginsSection() Section {
	s := Section{ID: "logins", Title: "Logins",
		About: "Connections that were authenticated (logins), and connections that were refused, by the client's " +
			"address. A connection that was refused after it was authenticated, for example because its database " +
			"does not exist, is both." +
			m.hiddenFailuresNote("Refused logins may have no record, and some then look like a login"),
		Summary: fmt.Sprintf("%s and %s from %s.", render.Plural(m.keyCount("logins"), "login"),
			render.Plural(m.keyCount("refused"), "refused login"),
			m.distinct(len(m.hosts.values), m.hosts.pruned, "address"))}
	s.Charts = []Chart{m.chart("Logins over time", m.strip("logins", seriesLogins, false),
		m.strip("refused", seriesRefused, true))}
	t := Table{
		ID:      "addresses",
		Caption: "By address",
		Columns: columns("address", "@users", "first", "last", "#refused", "#logins"),
	}
	keys := m.hosts.heaviest((*address).weight)
	t.Others = others(rowsShown, len(keys), m.hosts.pruned, "addresses")
	for _, key := range keys[:min(len(keys), rowsShown)] {
		a := m.hosts.values[key]
		row := Row{Cells: []Cell{nameCell(a.name), textCell(a.users.String()), m.timeCell(a.when.first),
			m.timeCell(a.when.last),
			alarmCell(a.refused.n), countCell(a.logins.n)}}
		if a.refused.n > 0 {
			row.Records = append(row.Records,
				m.records("refused logins", &a.refused, narrowed(byHost(a.name), false, format.KindAuthFailed)))
		}
		if a.logins.n > 0 {
			row.Records = append(row.Records,
				m.records("logins", &a.logins, narrowed(byHost(a.name), false, format.KindConnect)))
		}
		t.Rows = append(t.Rows, row)
	}
	reasons := m.stateTable("refusals", "Why logins were refused", "refused", &m.refusals,
		func(code string) query.Criteria {
			o := m.byState(code)
			o.Failed, o.Kinds = false, []format.Kind{format.KindAuthFailed}
			return o
		})
	users := Table{
		ID:      "refused_users",
		Caption: "As whom",
		Columns: columns("user", "first record", "last record", "#logins", "#refused"),
	}
	for _, key := range m.users.heaviest(func(a *actor) int64 { return a.refused.n }) {
		if a := m.users.values[key]; a.refused.n > 0 && len(users.Rows) < rowsShown {
			users.Rows = append(users.Rows,
				Row{Cells: []Cell{nameCell(key), m.timeCell(a.when.first), m.timeCell(a.when.last),
					countCell(a.logins),
					alarmCell(a.refused.n)},
					Records: []Records{m.records("", &a.refused,
						narrowed(byActor(key, &m.users, setUsers), false, format.KindAuthFailed))}})
		}
	}
	s.Tables = []Table{t, reasons, users}
	return s
}

func (m *maker) stateTable(
	id, caption, what string, t *tally[string, category, *category], by func(string) query.Criteria,
) Table {
	out := Table{
		ID:      id,
		Caption: caption,
		Columns: columns("SQLSTATE", "condition", "class", "@users", "first", "last", "#"+what),
	}
	keys := t.heaviest((*category).weight)
	out.Others = others(2*rowsShown, len(keys), t.pruned, "SQLSTATEs")
	for _, key := range keys[:min(len(keys), 2*rowsShown)] {
		st := t.values[key]
		row := Row{Cells: []Cell{nameCell(key), textCell(condition(key)), textCell(conditionClass(key)),
			textCell(st.users.String()),
			m.timeCell(st.when.first), m.timeCell(st.when.last), countCell(st.records.n)},
			Records: []Records{m.records("", &st.records, by(key))}}
		if key == "" {
			row.Cells[1].Text = "interrupted: the process ended before the statement"
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func (m *maker) failuresSection() Section {
	s := Section{ID: "failures", Title: "Failures",
		About: "What failed, was refused or was interrupted, refused logins included. The ends of transactions " +
			"that were rolled back on request are no failures." +
			m.hiddenFailuresNote("Statements that failed before they were planned, and refused logins, may have "+
				"no record"),
		Summary: fmt.Sprintf("%s, %s of them because permission was denied (42501).",
			render.Plural(m.keyCount("failed"), "failure"), humanize.Comma(m.keyCount("denied")))}
	s.Charts = []Chart{m.chart("Failures over time", m.strip("failures", seriesFailed, true))}
	users := Table{ID: "failed_users", Caption: "By user", Columns: columns("user", "#statements", "#failures")}
	for _, key := range m.users.heaviest(func(a *actor) int64 { return a.failed.n }) {
		if a := m.users.values[key]; a.failed.n > 0 && len(users.Rows) < rowsShown {
			users.Rows = append(users.Rows,
				Row{Cells: []Cell{nameCell(key), countCell(a.statements), countCell(a.failed.n)},
					Records: []Records{m.records("", &a.failed, narrowed(byActor(key, &m.users, setUsers), true))}})
		}
	}
	denials := Table{ID: "denials", Caption: "Permission denied", Columns: columns("of", "#failures")}
	for _, d := range [][2]string{{"denied_read", "reads"}, {"denied_write", "writes"}, {"denied_ddl", "DDL"},
		{"denied_role", "roles and privileges"}, {"denied_set", "settings"}} {
		denials.Rows = append(denials.Rows, m.keyRow(d[0], d[1]))
	}
	s.Tables = []Table{m.stateTable("states", "By SQLSTATE", "failures", &m.states, m.byState), denials, users}
	return s
}

// keyRow returns a key figure as a row of a table.
func (m *maker) keyRow(id, title string) Row {
	for i := range keyFigures {
		if k := &keyFigures[i]; k.id == id {
			return Row{Cells: []Cell{{Text: title}, countCell(m.keys[i].n)},
				Records: []Records{m.records("", &m.keys[i], k.filter)}}
		}
	}
	panic("no key figure " + id)
}

func (m *maker) privilegedSection() Section {
	s := Section{ID: "privileged", Title: "Privileged statements and DDL",
		About: "Privileged are statements about roles and privileges (class role), and those about policies, " +
			"extensions, databases, replication and the server's configuration, as in the view privileged of " +
			"steno query. Changed settings of pg_steno are below. " + aboutEffects,
		Summary: fmt.Sprintf("%s and %s of other DDL.",
			withEffects(render.Plural(m.privileged.n, "privileged statement"), &m.privileged.Effects),
			withEffects(render.Plural(m.ddl.n, "statement"), &m.ddl.Effects))}
	roles := m.strip("role", int(format.ClassRole), false)
	s.Charts = []Chart{m.chart("Privileged statements and DDL over time",
		m.strip("privileged", seriesPrivileged, false), roles, m.strip("ddl", int(format.ClassDDL), false),
		m.strip("settings", seriesSettings, false))}
	t := Table{
		ID:      "commands",
		Caption: "By command",
		Columns: columns("command", "class", "@users", "first", "last", "#failed", "#rolled back",
			"#unknown", "#statements"),
	}
	keys := m.commands.heaviest((*category).weight)
	t.Others = others(2*rowsShown, len(keys), m.commands.pruned, "commands")
	for _, key := range keys[:min(len(keys), 2*rowsShown)] {
		c := m.commands.values[key]
		filter := narrowed(m.byCommand(key), false, format.KindStatement)
		row := Row{Cells: []Cell{nameCell(key), {Text: c.class.String()}, textCell(c.users.String()),
			m.timeCell(c.when.first),
			m.timeCell(c.when.last), countCell(c.failed.n), countCell(c.records.RolledBack),
			countCell(c.records.Unknown),
			countCell(c.records.n)},
			Records: []Records{m.records("statements", &c.records, filter)}}
		if c.failed.n > 0 {
			row.Records = append(row.Records, m.records("failed", &c.failed, narrowed(filter, true)))
		}
		t.Rows = append(t.Rows, row)
	}
	cells := func(s *Sample) []Cell {
		return []Cell{textCell(s.Command), textCell(s.Objects),
			{Text: render.Safe(s.Result()), Alarm: s.Result() != ""},
			{Text: render.Safe(s.Text), Code: true}}
	}
	s.Notes = []string{"“Powers” are SUPERUSER, CREATEROLE, CREATEDB, REPLICATION and BYPASSRLS, membership in " +
		"predefined roles such as pg_read_server_files, and direct changes of the catalogs of roles. Membership " +
		"in another role that is a superuser is not recognized."}
	s.Tables = []Table{m.eventsTable("powers", "Powers that were given", &m.powerful, "statement",
		"command,power,not done,~text", cells), t,
		m.eventsTable("privileged_events", "Privileged statements", &m.privileged, "privileged statement",
			"command,object,not done,~text", cells),
		m.eventsTable("ddl_events", "DDL", &m.ddl, "statement", "command,object,not done,~text", cells)}
	return s
}

// usedPairs returns the pairs that statements read or wrote, most used first.
func (m *maker) usedPairs(keep func(*pair) bool) []*pair {
	var all []*pair
	for _, key := range m.pairs.heaviest((*pair).weight) {
		if p := m.pairs.values[key]; p.uses.n > p.named && keep(p) {
			all = append(all, p)
		}
	}
	return all
}

func (p *pair) relationName(databases int) string {
	if databases > 1 {
		return p.database + ": " + p.relation
	}
	return p.relation
}

func (p *pair) row(m *maker, id string) Row {
	var access []string
	for a := range p.access.Names {
		access = append(access, a)
	}
	return Row{ID: id, Cells: []Cell{nameCell(p.user), nameCell(p.database), nameCell(p.relation),
		{Text: strings.Join(access, ", ")}, m.timeCell(p.when.first), m.timeCell(p.when.last),
		countCell(p.failed), countCell(p.undone.RolledBack + p.undone.Unknown), countCell(p.named),
		countCell(p.uses.n - p.named)},
		Records: []Records{m.records("", &p.uses, byPair(p))}}
}

var pairColumns = columns("@user", "@database", "relation", "access", "first", "last", "#failed", "#undone",
	"#as object", "#statements")

func (m *maker) accessSection() Section {
	every := m.usedPairs(func(*pair) bool { return true })
	all := m.usedPairs(func(p *pair) bool { return !isCatalog(p.relation) })
	catalogs := m.usedPairs(func(p *pair) bool { return isCatalog(p.relation) })
	relations, users := m.matrixHeads(all)
	s := Section{ID: "access", Title: "Table and user",
		About: "Who uses which relation: statements that read, write or lock it, views and sequences included; " +
			"system catalogs have a table of their own. “As object” counts statements that only create, alter, " +
			"rename or drop it; the command shows these, too. " + aboutUncommitted,
		Summary: fmt.Sprintf("%s and %s; %s.", render.Plural(m.keyCount("reads"), "read"),
			render.Plural(m.keyCount("writes"), "write"),
			m.distinct(len(every), m.pairs.pruned, "different use")+" of a relation by a user")}
	matrix := Table{
		ID:      "matrix",
		Caption: "Statements by relation and user",
		Columns: columns("relation"),
		Matrix:  true,
	}
	for _, u := range users {
		matrix.Columns = append(matrix.Columns, Column{Name: render.Safe(u), Number: true})
	}
	list := Table{
		ID:      "pairs",
		Caption: "Uses by relation and user",
		Columns: pairColumns,
		Folded:  len(all) > rowsShown,
	}
	ids, most := map[*pair]string{}, int64(1)
	for i, p := range all {
		if i < pairsShown {
			ids[p] = fmt.Sprintf("pair-%d", i+1)
		}
	}
	for _, rel := range relations {
		row := Row{Cells: []Cell{nameCell(rel)}}
		for _, u := range users {
			cell := Cell{Text: "·"}
			for _, p := range all {
				if p.user == u && p.relationName(len(m.dbs.values)) == rel {
					if ids[p] == "" {
						ids[p] = fmt.Sprintf("pair-%d", len(ids)+1)
					}
					cell = Cell{Text: humanize.Comma(p.uses.n - p.named), Link: ids[p], Heat: -1}
					most = max(most, p.uses.n)
				}
			}
			row.Cells = append(row.Cells, cell)
		}
		matrix.Rows = append(matrix.Rows, row)
	}
	heat(matrix.Rows, most)
	for _, p := range all {
		if ids[p] != "" {
			list.Rows = append(list.Rows, p.row(m, ids[p]))
		}
	}
	list.Others = others(len(list.Rows), len(all), m.pairs.pruned, "uses")
	if len(all) > 0 {
		s.Tables = []Table{matrix, list}
	}
	if len(catalogs) > 0 {
		t := Table{
			ID:      "catalogs",
			Caption: "Uses of system catalogs by user",
			Columns: pairColumns,
			Folded:  true,
			Others:  others(pairsShown, len(catalogs), m.pairs.pruned, "uses"),
		}
		for _, p := range catalogs[:min(len(catalogs), pairsShown)] {
			t.Rows = append(t.Rows, p.row(m, ""))
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}

// isCatalog returns whether a relation belongs to the system catalogs.
func isCatalog(relation string) bool {
	schema, _, qualified := strings.Cut(relation, ".")
	return qualified && (schema == "pg_catalog" || schema == "information_schema" || schema == "pg_toast")
}

// heat shades the cells of a matrix by the logarithm of their numbers.
func heat(rows []Row, most int64) {
	steps := func(n int64) (s int) {
		for ; n > 0; n >>= 1 {
			s++
		}
		return s
	}
	for i := range rows {
		for k := range rows[i].Cells {
			if c := &rows[i].Cells[k]; c.Heat < 0 {
				var n int64
				fmt.Sscan(strings.ReplaceAll(c.Text, ",", ""), &n)
				c.Heat = max(1, min(5, 5*steps(n)/max(1, steps(most))))
			}
		}
	}
}

// matrixHeads returns the most used relations, and the users with most uses.
func (m *maker) matrixHeads(all []*pair) (relations, users []string) {
	mostUsed := func(of func(*pair) string, n int) []string {
		sum := map[string]int64{}
		for _, p := range all {
			sum[of(p)] += p.uses.n
		}
		var list []string
		for k := range sum {
			list = append(list, k)
		}
		slices.SortFunc(list, func(a, b string) int {
			if sum[a] != sum[b] {
				return int(max(-1, min(1, sum[b]-sum[a])))
			}
			return strings.Compare(a, b)
		})
		return list[:min(n, len(list))]
	}
	relations = mostUsed(func(p *pair) string { return p.relationName(len(m.dbs.values)) }, matrixRelations)
	users = mostUsed(func(p *pair) string { return p.user }, matrixUsers)
	return relations, users
}

func (m *maker) newAccessSection() Section {
	s := Section{
		ID:    "new_access",
		Title: "New access",
		About: "Users and relations whose first access in the whole trail is in the period, as in the view " +
			"new_access of steno query. What was deleted from the trail, or happened before it began, is not known. " +
			aboutUncommitted,
	}
	all := m.usedPairs(func(p *pair) bool { return !p.usedBefore })
	slices.SortStableFunc(all, func(a, b *pair) int { return cmp.Compare(b.when.first, a.when.first) })
	if m.since <= m.trailFirst {
		s.Summary = fmt.Sprintf("The trail has nothing before the period: all %s are new to it.",
			render.Plural(len(all), "use"))
		s.Notes = []string{"Of a period before which the trail has records, this section lists what is new in the " +
			"period."}
		all = nil
	} else {
		s.Summary = fmt.Sprintf("%s of a relation by a user, since %s.",
			render.Plural(len(all), "first use"), m.time(m.since))
	}
	if v := m.options.Verify; v.UnreadBlocks > 0 || len(v.Unreadable)+len(v.Problems)+len(m.damaged) > 0 {
		s.Notes = append(s.Notes, "Parts of the trail could not be read: what is listed may have been used before.")
	}
	if m.pairs.pruned {
		s.Notes = append(s.Notes,
			"There are more users and relations than can be followed at the same time: rare uses may be missing "+
				"here. Choose a shorter period, or a user or database.")
	}
	if len(all) > 0 {
		t := Table{
			ID:      "new_pairs",
			Caption: "First uses, the latest ones first",
			Columns: pairColumns,
			Others:  others(maxListed, len(all), m.pairs.pruned, "first uses"),
			Folded:  len(all) > rowsShown,
		}
		for _, p := range all[:min(len(all), maxListed)] {
			t.Rows = append(t.Rows, p.row(m, ""))
		}
		s.Tables = []Table{t}
	}
	return s
}

func (m *maker) offHoursSection() Section {
	s := Section{ID: "off_hours", Title: "Off hours",
		About: "Clients' statements outside of Monday to Friday, 07:00 to 19:00, in time zone " + m.options.ZoneName +
			", as in the view off_hours of steno query. Holidays are not known.",
		Summary: fmt.Sprintf("%s of clients started off hours.", render.Plural(m.offHours.n, "statement"))}
	off := func(o query.Criteria) query.Criteria {
		o.TopLevel, o.OffHours = true, m.options.Zone
		return narrowed(o, false, format.KindStatement)
	}
	t := Table{ID: "off_users", Caption: "By user", Columns: columns("user", "#all statements", "#off hours")}
	n := 0
	for _, key := range m.users.heaviest(func(a *actor) int64 { return a.offHours.n }) {
		if a := m.users.values[key]; a.offHours.n > 0 {
			if n++; n <= rowsShown {
				t.Rows = append(t.Rows,
					Row{Cells: []Cell{nameCell(key), countCell(a.statements), countCell(a.offHours.n)},
						Records: []Records{m.records("", &a.offHours, off(byActor(key, &m.users, setUsers)))}})
			}
		}
	}
	t.Others = others(rowsShown, n, m.users.pruned, "users")
	if m.total.n > 0 {
		s.Charts = []Chart{{Title: "Clients' statements by day of the week and hour", Hours: &m.hours}}
	}
	s.Tables = []Table{t}
	return s
}

func (m *maker) settingsSection() Section {
	s := Section{ID: "settings", Title: "Settings",
		About: "Changes of pg_steno's own settings, which decide what is recorded, and of the server's. Changes " +
			"that were made by editing files are known of pg_steno's settings only.",
		Summary: fmt.Sprintf("%s of pg_steno, %s, %s.", render.Plural(m.keyCount("settings"), "changed setting"),
			render.Plural(m.keyCount("alter_system"), "ALTER SYSTEM statement"),
			render.Plural(m.keyCount("set"), "SET or RESET statement"))}
	t := Table{ID: "setting_kinds", Caption: "What was changed", Columns: columns("by", "#records"), Rows: []Row{
		m.keyRow("settings", "settings of pg_steno"), m.keyRow("alter_system", "ALTER SYSTEM"),
		m.keyRow("set", "SET and RESET")}}
	cells := func(s *Sample) []Cell { return []Cell{{Text: render.Safe(s.Text)}} }
	s.Tables = []Table{t, m.eventsTable("setting_events", "Settings of pg_steno", &m.settings,
		"change", "~change", cells)}
	return s
}

func (m *maker) gapsSection() Section {
	s := Section{ID: "gaps", Title: "Gaps",
		About: "Records that could not be written, with the reason that the server noted, and when the server and " +
			"its writers started, stopped or recovered. What steno.log, rules and grants leave out is no gap: see " +
			"the " +
			"settings.",
		Summary: "The period has no gap records."}
	if m.gaps.n > 0 {
		s.Summary = fmt.Sprintf("%s are missing, counted by %s.", render.Plural(m.lostRecords, "record"),
			render.Plural(m.gaps.n, "gap record"))
	}
	t := Table{
		ID:      "gap_kinds",
		Caption: "What was noted",
		Columns: columns("what", "#records"),
		Rows:    []Row{m.keyRow("gaps", "gap records"), m.keyRow("servers", "starts, stops and recoveries")},
	}
	reasons := Table{ID: "reasons", Caption: "Lost records by reason", Columns: columns("reason", "#lost records")}
	for reason := range m.lost {
		reasons.Rows = append(reasons.Rows, Row{Cells: []Cell{nameCell(reason), alarmCell(m.lost[reason])}})
	}
	slices.SortFunc(reasons.Rows, func(a, b Row) int { return strings.Compare(a.Cells[0].Text, b.Cells[0].Text) })
	cells := func(s *Sample) []Cell { return []Cell{{Text: render.Safe(s.Text)}} }
	s.Tables = []Table{t, reasons, m.eventsTable("gap_events", "Gaps", &m.gaps, "gap", "~what is missing", cells),
		m.eventsTable("server_events", "The server and its writers", &m.servers, "event", "~what happened", cells)}
	return s
}

func (m *maker) statementsSection() Section {
	s := Section{ID: "statements", Title: "Statements",
		About: "Statements that differ only in constants are one: they have a fingerprint in common, that of the " +
			"tables statements and trail of steno query. The text is that of the first one. Nested statements " +
			"count, too, so times of functions are in there twice.",
		Summary: fmt.Sprintf("%s.", m.distinct(len(m.fingerprints.values), m.fingerprints.pruned,
			"different statement"))}
	if m.noFingerprint > 0 {
		s.Notes = append(s.Notes, render.Plural(m.noFingerprint, "statement")+" without a text and without a query identifier are not in here.")
	}
	for _, order := range []struct {
		id, caption string
		weight      func(*fingerprintTotals) int64
	}{
		{"by_time", "By total time", func(w *fingerprintTotals) int64 { return int64(min(w.duration, 1<<62)) }},
		{"by_calls", "By calls", func(w *fingerprintTotals) int64 { return w.calls.n }},
		{"by_rows", "By rows returned or changed", func(w *fingerprintTotals) int64 {
			return int64(min(w.rows, 1<<62))
		}},
	} {
		t := Table{
			ID:      order.id,
			Caption: order.caption,
			Columns: columns("statement", "@users", "#total", "#mean", "#longest", "#rows", "#most rows",
				"#failed", "#calls"),
		}
		keys := m.fingerprints.heaviest(order.weight)
		t.Others = others(rowsShown, len(keys), m.fingerprints.pruned, "statements")
		for _, key := range keys[:min(len(keys), rowsShown)] {
			w := m.fingerprints.values[key]
			if order.weight(w) == 0 {
				t.Others = ""
				break
			}
			sql := ""
			if len(w.calls.first) > 0 {
				sql = w.calls.first[0].Text
			}
			t.Rows = append(t.Rows,
				Row{Cells: []Cell{{Text: render.Safe(sql), Code: true}, textCell(w.users.String()),
					durationCell(w.duration),
					durationCell(w.duration / uint64(max(1, w.calls.n))), durationCell(w.longest),
					countCell(int64(min(w.rows, 1<<62))), countCell(int64(min(w.mostRows, 1<<62))),
					countCell(w.errors), countCell(w.calls.n)},
					Records: []Records{m.records("", &w.calls,
						query.Criteria{Kinds: []format.Kind{format.KindStatement}, Fingerprints: []uint64{key}})}})
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}
