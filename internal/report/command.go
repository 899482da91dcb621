// The command that shows all records behind a figure.

package report

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
)

// exact are the filters whose values are those of records. What a figure names was found in records that match the
// report's own filter: a value that is in that list narrows it; one that only belongs to a name or network in it may not.
var exact = []string{"user", "database", "application", "class", "kind", "sqlstate", "fingerprint"}

// command returns the command line that shows the records of a part of the period that match a filter, in
// addition to what the whole report is asked for; empty if no command shows exactly these.
func (m *maker) command(figure query.Criteria, within query.Range) string {
	if isNone(&figure) {
		return ""
	}
	asked, both := m.o.Asked, query.Criteria{Not: &query.Criteria{}}
	for _, l := range query.Lists() {
		values, named := l.Values(&asked), l.Values(&figure)
		if len(named) > 0 {
			if len(values) > 0 && !slices.Contains(exact, l.Name) && (len(values) > 1 || !slices.Equal(values, named)) {
				return ""
			}
			values = named
		}
		var not []string
		for _, c := range []*query.Criteria{asked.Not, figure.Not} {
			if c != nil {
				not = append(not, l.Values(c)...)
			}
		}
		slices.Sort(not)
		if err := errors.Join(l.Add(&both, values...), l.Add(both.Not, slices.Compact(not)...)); err != nil {
			return ""
		}
	}
	both.Failed, both.TopLevel, both.MinDuration, both.OffHours = asked.Failed || figure.Failed, asked.TopLevel || figure.TopLevel, asked.MinDuration, asked.OffHours
	if figure.OffHours != nil {
		both.OffHours = figure.OffHours
	}
	return m.o.Command(&both, within)
}

// ---- the filters of single figures ----

var stateFormat = regexp.MustCompile(`^[0-9A-Z]{5}$`)

// none stands for a filter that no command line can have: there is no such session.
var none = query.Criteria{Sessions: []format.SessionID{{}}}

func isNone(c *query.Criteria) bool { return slices.Equal(c.Sessions, none.Sessions) }

// named is a filter by one name; there is none for an empty one.
func named(name string, set func(*query.Criteria, []string)) query.Criteria {
	if name == "" || strings.ContainsAny(name, "\r\x00") {
		return none
	}
	var o query.Criteria
	set(&o, []string{name})
	return o
}

func setUsers(o *query.Criteria, v []string)        { o.Users = v }
func setDatabases(o *query.Criteria, v []string)    { o.Databases = v }
func setApplications(o *query.Criteria, v []string) { o.Applications = v }

func byUser(name string) query.Criteria { return named(name, setUsers) }

// byActor is the filter of a user, database or application; of records without one, that there is
// none of the others.
func byActor(name string, t *tally[string, actor, *actor], set func(*query.Criteria, []string)) query.Criteria {
	if name != "" || t.pruned || len(t.of) > 50 {
		return named(name, set)
	}
	var others []string
	for n := range t.of {
		if one := named(n, set); isNone(&one) && n != "" {
			return none
		}
		if n != "" {
			others = append(others, n)
		}
	}
	o := query.Criteria{Not: &query.Criteria{}}
	set(o.Not, others)
	return o
}

// with adds kinds and whether something failed to a filter.
func with(o query.Criteria, failed bool, kinds ...format.Kind) query.Criteria {
	o.Failed = failed
	if len(kinds) > 0 {
		o.Kinds = kinds
	}
	return o
}

// byHost is the filter of a client address.
func byHost(host string) query.Criteria {
	if host == "" {
		return query.Criteria{Not: &query.Criteria{Clients: clients("0.0.0.0/0", "::/0", "[local]")}}
	}
	one, err := query.ParseClient(host)
	if err != nil {
		return none
	}
	return query.Criteria{Clients: []query.Client{one}}
}

// clients are such of which it is known that they are some.
func clients(all ...string) (out []query.Client) {
	for _, s := range all {
		if c, err := query.ParseClient(s); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// byCommand is the filter of a command tag: those that begin with it and go on are excluded.
func (f *figures) byCommand(command string) query.Criteria {
	o := named(command, func(o *query.Criteria, v []string) { o.Commands = v })
	for other := range f.commands.of {
		if len(other) > len(command)+1 && strings.EqualFold(other[:len(command)+1], command+" ") {
			if o.Not == nil {
				o.Not = &query.Criteria{}
			}
			o.Not.Commands = append(o.Not.Commands, other)
		}
	}
	return o
}

// byState is the filter of what failed with an SQLSTATE, or without one.
func (f *figures) byState(sqlstate string) query.Criteria {
	switch {
	case stateFormat.MatchString(sqlstate):
		return query.Criteria{Failed: true, SQLStates: []query.SQLState{query.SQLState(sqlstate)}}
	case sqlstate != "" || f.states.pruned:
		return none
	}
	o := query.Criteria{Failed: true, Not: &query.Criteria{}}
	for other := range f.states.of {
		if stateFormat.MatchString(other) {
			o.Not.SQLStates = append(o.Not.SQLStates, query.SQLState(other))
		} else if other != "" {
			return none
		}
	}
	return o
}

// byPair is the filter of the use of a relation by a user.
func byPair(p *pair) query.Criteria {
	o := byUser(p.user)
	if p.database == "" || strings.ContainsAny(p.relation+p.database, "*\r\x00") {
		return none
	}
	o.Databases, o.Objects, o.Kinds = []string{p.database}, []string{p.relation}, []format.Kind{format.KindStatement}
	return o
}
