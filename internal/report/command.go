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

// exactFilters are the filters that compare whole values: a record matches "user" only if its user is in the
// list. The values of a figure come from records that match the report's own filter, so for these filters the
// figure's value can replace the report's list. Other filters match by pattern or network: there, a value that
// matches the report's list need not select fewer records than the list does.
var exactFilters = []string{"user", "database", "application", "class", "kind", "sqlstate", "fingerprint"}

// command returns the command line that shows the records of a part of the period that match both the filter of
// a figure and that of the report; empty if no command shows exactly these.
func (m *maker) command(figure query.Criteria, within query.Range) string {
	if isInexpressible(&figure) {
		return ""
	}
	asked, both := m.options.Criteria, query.Criteria{Not: &query.Criteria{}}
	for _, l := range query.Lists() {
		values, named := l.Values(&asked), l.Values(&figure)
		if len(named) > 0 {
			if len(values) > 0 && !slices.Contains(exactFilters, l.Name) &&
				(len(values) > 1 || !slices.Equal(values, named)) {
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
	both.Failed, both.TopLevel = asked.Failed || figure.Failed, asked.TopLevel || figure.TopLevel
	both.MinDuration, both.OffHours = asked.MinDuration, asked.OffHours
	if figure.OffHours != nil {
		both.OffHours = figure.OffHours
	}
	return m.options.Command(&both, within)
}

// ---- filters of figures ----

var stateFormat = regexp.MustCompile(`^[0-9A-Z]{5}$`)

// inexpressible stands for a filter that no command line can express. No session has this ID.
var inexpressible = query.Criteria{Sessions: []format.SessionID{{}}}

func isInexpressible(c *query.Criteria) bool { return slices.Equal(c.Sessions, inexpressible.Sessions) }

// byName returns a filter by one name.
func byName(name string, set func(*query.Criteria, []string)) query.Criteria {
	if name == "" || strings.ContainsAny(name, "\r\x00") {
		return inexpressible
	}
	var o query.Criteria
	set(&o, []string{name})
	return o
}

func setUsers(o *query.Criteria, v []string)        { o.Users = v }
func setDatabases(o *query.Criteria, v []string)    { o.Databases = v }
func setApplications(o *query.Criteria, v []string) { o.Applications = v }

func byUser(name string) query.Criteria { return byName(name, setUsers) }

// byActor returns the filter of a user, database or application. Records without a name are selected by
// excluding all others, if these are few enough for a command line.
func byActor(name string, t *tally[string, actor, *actor], set func(*query.Criteria, []string)) query.Criteria {
	if name != "" || t.pruned || len(t.values) > 50 {
		return byName(name, set)
	}
	var others []string
	for n := range t.values {
		if filter := byName(n, set); isInexpressible(&filter) && n != "" {
			return inexpressible
		}
		if n != "" {
			others = append(others, n)
		}
	}
	o := query.Criteria{Not: &query.Criteria{}}
	set(o.Not, others)
	return o
}

// narrowed adds to a filter whether something failed, and kinds.
func narrowed(o query.Criteria, failed bool, kinds ...format.Kind) query.Criteria {
	o.Failed = failed
	if len(kinds) > 0 {
		o.Kinds = kinds
	}
	return o
}

// byHost returns the filter of a client address.
func byHost(host string) query.Criteria {
	if host == "" {
		return query.Criteria{Not: &query.Criteria{Clients: parseClients("0.0.0.0/0", "::/0", "[local]")}}
	}
	client, err := query.ParseClient(host)
	if err != nil {
		return inexpressible
	}
	return query.Criteria{Clients: []query.Client{client}}
}

// parseClients parses constants that are known to be valid.
func parseClients(all ...string) (out []query.Client) {
	for _, s := range all {
		if c, err := query.ParseClient(s); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// byCommand returns the filter of a command tag. Filters match prefixes of tags, so it excludes longer tags.
func (f *figures) byCommand(command string) query.Criteria {
	o := byName(command, func(o *query.Criteria, v []string) { o.Commands = v })
	for other := range f.commands.values {
		if len(other) > len(command)+1 && strings.EqualFold(other[:len(command)+1], command+" ") {
			if o.Not == nil {
				o.Not = &query.Criteria{}
			}
			o.Not.Commands = append(o.Not.Commands, other)
		}
	}
	return o
}

// byState returns the filter of failures with an SQLSTATE, or without one.
func (f *figures) byState(sqlstate string) query.Criteria {
	switch {
	case stateFormat.MatchString(sqlstate):
		return query.Criteria{Failed: true, SQLStates: []query.SQLState{query.SQLState(sqlstate)}}
	case sqlstate != "" || f.states.pruned:
		return inexpressible
	}
	o := query.Criteria{Failed: true, Not: &query.Criteria{}}
	for other := range f.states.values {
		if stateFormat.MatchString(other) {
			o.Not.SQLStates = append(o.Not.SQLStates, query.SQLState(other))
		} else if other != "" {
			return inexpressible
		}
	}
	return o
}

// byPair returns the filter of a pair.
func byPair(p *pair) query.Criteria {
	o := byUser(p.user)
	if p.database == "" || strings.ContainsAny(p.relation+p.database, "*\r\x00") {
		return inexpressible
	}
	o.Databases, o.Objects, o.Kinds = []string{p.database}, []string{p.relation}, []format.Kind{format.KindStatement}
	return o
}
