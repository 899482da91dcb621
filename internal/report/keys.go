// The key figures: numbers of records that match a filter.

package report

import (
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
)

// keyFigure is a number that every report has. Whether its filter matches a successful statement must
// depend on the statement's shape alone: collector.countKeys remembers the answer by shape.
type keyFigure struct {
	id, name string
	section  string // the section with details
	filter   query.Criteria
	front    bool // shown at the top of the report
	alarm    bool // highlighted if it is not zero
}

func statements(classes ...format.Class) query.Criteria {
	return query.Criteria{Kinds: []format.Kind{format.KindStatement}, Classes: classes}
}

func commands(prefixes ...string) query.Criteria {
	return query.Criteria{Kinds: []format.Kind{format.KindStatement}, Commands: prefixes}
}

func ddl(prefix string) query.Criteria {
	o := commands(prefix)
	o.Classes = []format.Class{format.ClassDDL}
	return o
}

func denied(classes ...format.Class) query.Criteria {
	return query.Criteria{Failed: true, SQLStates: []query.SQLState{"42501"}, Classes: classes}
}

func kind(kinds ...format.Kind) query.Criteria { return query.Criteria{Kinds: kinds} }

func reads(relations ...string) query.Criteria {
	o := statements(format.ClassRead)
	o.Objects = relations
	return o
}

var keyFigures = []keyFigure{
	{id: "statements", name: "statements", section: "activity", filter: kind(format.KindStatement), front: true},
	{id: "reads", name: "reads", section: "access", filter: statements(format.ClassRead)},
	{id: "writes", name: "writes", section: "access", filter: statements(format.ClassWrite)},
	{id: "logins", name: "logins", section: "logins", filter: kind(format.KindConnect), front: true},
	{id: "logouts", name: "ends of sessions", section: "logins", filter: kind(format.KindDisconnect)},
	{id: "refused", name: "refused logins", section: "logins", filter: kind(format.KindAuthFailed), front: true, alarm: true},
	{id: "failed", name: "failures", section: "failures", filter: query.Criteria{Failed: true}, front: true},
	{id: "denied", name: "permission denied", section: "failures", filter: denied(), front: true, alarm: true},
	{id: "denied_read", name: "denied reads", section: "failures", filter: denied(format.ClassRead)},
	{id: "denied_write", name: "denied writes", section: "failures", filter: denied(format.ClassWrite)},
	{id: "denied_ddl", name: "denied DDL", section: "failures", filter: denied(format.ClassDDL)},
	{id: "denied_role", name: "denied statements about roles and privileges", section: "failures", filter: denied(format.ClassRole)},
	{id: "denied_set", name: "denied changes of settings", section: "failures", filter: denied(format.ClassMiscSet, format.ClassSetting)},
	{id: "role", name: "roles and privileges", section: "privileged", filter: statements(format.ClassRole), front: true},
	{id: "accounts", name: "statements about accounts", section: "privileged", filter: commands("CREATE ROLE", "ALTER ROLE", "DROP ROLE")},
	{id: "grants", name: "GRANT, REVOKE and ALTER DEFAULT PRIVILEGES", section: "privileged", filter: commands("GRANT", "REVOKE", "ALTER DEFAULT PRIVILEGES")},
	{id: "granted", name: "GRANT", section: "privileged", filter: commands("GRANT")},
	{id: "revoked", name: "REVOKE", section: "privileged", filter: commands("REVOKE")},
	{id: "ddl", name: "DDL", section: "privileged", filter: statements(format.ClassDDL), front: true},
	{id: "created", name: "CREATE", section: "privileged", filter: ddl("CREATE")},
	{id: "altered", name: "ALTER", section: "privileged", filter: ddl("ALTER")},
	{id: "dropped", name: "DROP", section: "privileged", filter: ddl("DROP")},
	{id: "catalog", name: "reads of the system catalog", section: "access", filter: reads("pg_catalog.*", "information_schema.*")},
	{id: "settings", name: "changed settings", section: "settings", filter: kind(format.KindSetting), front: true},
	{id: "alter_system", name: "ALTER SYSTEM", section: "settings", filter: commands("ALTER SYSTEM")},
	{id: "set", name: "SET and RESET", section: "settings", filter: statements(format.ClassMiscSet)},
	{id: "servers", name: "starts, stops and recoveries", section: "gaps", filter: kind(format.KindServer)},
	{id: "gaps", name: "gap records", section: "gaps", filter: kind(format.KindGap), front: true, alarm: true},
	{id: "notes", name: "notes", section: "activity", filter: kind(format.KindNote)},
}

// keyFigureList returns the key figures with their numbers.
func (m *maker) keyFigureList() []Figure {
	figure := func(k *keyFigure, g *group) Figure {
		return Figure{
			ID:      k.id,
			Name:    k.name,
			Section: k.section,
			Front:   k.front,
			Alarm:   k.alarm && g.n > 0,
			Records: m.records("", g, k.filter),
		}
	}
	all := []Figure{figure(&keyFigure{id: "records", name: "records", section: "activity", front: true}, &m.total)}
	for i := range keyFigures {
		all = append(all, figure(&keyFigures[i], &m.keys[i]))
	}
	all = append(all, figure(&keyFigure{
		id:      "powers",
		name:    "new superusers, and grants of predefined roles",
		section: "privileged",
		filter:  inexpressible,
		front:   true,
		alarm:   true,
	}, &m.powers))
	off := query.Criteria{Kinds: []format.Kind{format.KindStatement}, TopLevel: true, OffHours: m.options.Zone}
	return append(all, figure(&keyFigure{
		id:      "off_hours",
		name:    "statements off hours",
		section: "off_hours",
		filter:  off,
		front:   true,
	}, &m.offHours))
}

// records returns what the report says about the records behind a figure.
func (m *maker) records(label string, g *group, filter query.Criteria) Records {
	return m.recordsWithin(label, g, filter, query.Range{Since: m.since, Until: m.until})
}

// recordsWithin does the same for a part of the period.
func (m *maker) recordsWithin(label string, g *group, filter query.Criteria, within query.Range) Records {
	r := Records{
		Label:      label,
		Count:      g.n,
		RolledBack: g.RolledBack,
		Unknown:    g.Unknown,
		Effects:    effectsInWords(&g.Effects),
		Samples:    m.finishSamples(g.first),
	}
	if g.n > 0 {
		r.Command = m.command(filter, within)
	}
	return r
}

// finishSamples formats the times of samples, and makes their texts safe for terminals.
func (m *maker) finishSamples(list []*Sample) []*Sample {
	for _, s := range list {
		if s.Time != "" {
			continue // already done: several tables share samples
		}
		s.Time = m.timeOf(s.at.time)
		for _, text := range []*string{&s.User, &s.Role, &s.Database, &s.Client, &s.Command, &s.Objects, &s.SQLState,
			&s.Message, &s.Text} {
			*text = render.Safe(*text)
		}
	}
	return list
}

// timeOf formats a time with its microseconds.
func (m *maker) timeOf(usec int64) string {
	return query.Moment(usec).In(m.options.Zone).Format("2006-01-02 15:04:05.000000")
}

// keyCount returns the number of a key figure.
func (m *maker) keyCount(id string) int64 {
	for i := range keyFigures {
		if keyFigures[i].id == id {
			return m.keys[i].n
		}
	}
	panic("no key figure " + id)
}
