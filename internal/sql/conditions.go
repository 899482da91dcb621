// Conditions that a statement puts on the records of a table, used to skip blocks and records. DuckDB evaluates
// all conditions again.

package sql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
)

// condition describes the records of interest. All fields that are set must hold. It may hold for other
// records, too, but never fails for a record of interest.
type condition struct {
	Since        *int64   `json:"since,omitempty"` // microseconds of the trail's time
	Until        *int64   `json:"until,omitempty"`
	Users        []string `json:"users,omitempty"`
	Roles        []string `json:"roles,omitempty"`
	AppUsers     []string `json:"app_users,omitempty"`
	Databases    []string `json:"databases,omitempty"`
	Applications []string `json:"applications,omitempty"`
	Classes      []string `json:"classes,omitempty"`
	Commands     []string `json:"commands,omitempty"`
	Kinds        []string `json:"kinds,omitempty"`
	Outcomes     []string `json:"outcomes,omitempty"`
	Sqlstates    []string `json:"sqlstates,omitempty"`
	Relations    []string `json:"relations,omitempty"`
	Contains     string   `json:"contains,omitempty"` // in text or message, ignoring case
	Failed       bool     `json:"failed,omitempty"`
	// Any are alternatives, of which one must hold.
	Any []condition `json:"any,omitempty"`
	// Always ignores the beginning of the range of times in Options.
	Always bool `json:"always,omitempty"`
}

// conditions must all hold. Their text is a sequence of JSON objects.
type conditions []condition

func parseConditions(s string) (all conditions, err error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.DisallowUnknownFields()
	for d.More() {
		var c condition
		if err := d.Decode(&c); err != nil {
			return nil, fmt.Errorf("invalid conditions: %w", err)
		}
		all = append(all, c)
	}
	return all, nil
}

func (cs conditions) String() string {
	var out []string
	for _, c := range cs {
		b, _ := json.Marshal(c)
		out = append(out, string(b))
	}
	return strings.Join(out, " ")
}

// bounds narrows a range of times.
func (cs conditions) bounds(since, until int64) (int64, int64) {
	for _, c := range cs {
		if c.Always {
			since = format.MinTime
		}
	}
	for _, c := range cs {
		if c.Since != nil {
			since = max(since, *c.Since)
		}
		if c.Until != nil {
			until = min(until, *c.Until)
		}
	}
	return since, until
}

// contents returns a function that selects the groups of a block's records that may be of interest; nil: all.
func (cs conditions) contents() func(*format.Contents) format.Groups {
	if !slices.ContainsFunc(cs, condition.selects) {
		return nil
	}
	return func(c *format.Contents) format.Groups {
		g := c.All()
		for i := range cs {
			g.And(cs[i].groups(c))
		}
		return g
	}
}

// selectsByRelation returns whether rows are chosen by the names of relations.
func (cs conditions) selectsByRelation() bool {
	return slices.ContainsFunc(cs, func(c condition) bool {
		return c.Relations != nil || conditions(c.Any).selectsByRelation()
	})
}

// wanted returns which sessions and shapes records of interest may have.
func (cs conditions) wanted() (w format.Selection) {
	if slices.ContainsFunc(cs, condition.selects) {
		w.Session = func(s *format.Session) bool {
			return !slices.ContainsFunc(cs, func(c condition) bool { return !c.matchesSession(s) })
		}
		w.Shape = func(s *format.Shape) bool {
			return !slices.ContainsFunc(cs, func(c condition) bool { return !c.matchesShape(s) })
		}
	}
	return w
}

// matchesSession returns whether the condition can hold for a session's records.
func (c *condition) matchesSession(s *format.Session) bool {
	is := func(key format.Key, values []string) bool {
		return values == nil || slices.Contains(values, string(s.Fact(key)))
	}
	matches := func(alternative condition) bool { return alternative.matchesSession(s) }
	return is(format.KeyUser, c.Users) && is(format.KeyRole, c.Roles) && is(format.KeyAppUser, c.AppUsers) &&
		is(format.KeyDatabase, c.Databases) && is(format.KeyApplication, c.Applications) &&
		(c.Any == nil || slices.ContainsFunc(c.Any, matches))
}

// matchesShape returns whether the condition can hold for records with a shape; nil: for those without one.
func (c *condition) matchesShape(s *format.Shape) bool {
	matches := func(alternative condition) bool { return alternative.matchesShape(s) }
	if c.Any != nil && !slices.ContainsFunc(c.Any, matches) {
		return false
	}
	if s == nil {
		return c.Classes == nil && c.Commands == nil && c.Relations == nil
	}
	return (c.Classes == nil || slices.Contains(c.Classes, s.Class.String())) &&
		(c.Commands == nil || slices.Contains(c.Commands, string(s.Command))) &&
		(c.Relations == nil || slices.ContainsFunc(s.Relations, func(r format.Relation) bool {
			return c.matchesRelation(&r)
		}))
}

// matchesRelation returns whether the condition can hold for a row of a relation.
func (c *condition) matchesRelation(r *format.Relation) bool {
	return c.Relations == nil || slices.Contains(c.Relations, string(r.Name))
}

// termLists returns the values by the index list that has a term for each of them.
func (c *condition) termLists() map[format.Terms][]string {
	return map[format.Terms][]string{
		format.TermsUsers: c.Users, format.TermsRoles: c.Roles, format.TermsAppUsers: c.AppUsers,
		format.TermsDatabases:    c.Databases,
		format.TermsApplications: c.Applications, format.TermsCommands: c.Commands,
		format.TermsSqlstates: c.Sqlstates,
	}
}

// selects returns whether an index can tell anything about the condition.
func (c condition) selects() bool {
	for _, values := range c.termLists() {
		if values != nil {
			return true
		}
	}
	return c.Classes != nil || c.Kinds != nil || c.Outcomes != nil || c.Relations != nil || c.Contains != "" ||
		c.Failed || c.Any != nil
}

func (c *condition) groups(of *format.Contents) format.Groups {
	g := of.All()
	for list, values := range c.termLists() {
		if values != nil {
			g.And(of.Select(list, func(v []byte) bool { return slices.Contains(values, string(v)) }))
		}
	}
	if c.Classes != nil {
		g.And(of.Select(format.TermsClasses, func(v []byte) bool {
			return len(v) != 1 || v[0] >= 0x80 || slices.Contains(c.Classes, format.Class(v[0]).String())
		}))
	}
	// An index does not list the kind and outcome of successful statements.
	if c.Kinds != nil && !slices.Contains(c.Kinds, format.KindStatement.String()) {
		g.And(of.SelectResult(func(k format.Kind, _ format.Outcome) bool {
			return slices.Contains(c.Kinds, k.String())
		}))
	}
	if c.Outcomes != nil && !slices.Contains(c.Outcomes, format.OutcomeOk.String()) {
		g.And(of.SelectResult(func(_ format.Kind, o format.Outcome) bool {
			return slices.Contains(c.Outcomes, o.String())
		}))
	}
	if c.Failed {
		g.And(query.SelectFailed(of))
	}
	if c.Relations != nil {
		some := of.SelectShape(func(s *format.Shape) bool {
			return slices.ContainsFunc(s.Relations, func(r format.Relation) bool {
				return slices.Contains(c.Relations, string(r.Name))
			})
		})
		some.Or(of.SelectOmissions("relations")) // a warning reports these
		some.Or(of.SelectResult(query.MayBeUnfinished))
		g.And(some)
	}
	if c.Contains != "" {
		g.And(of.SelectText(c.Contains))
	}
	if c.Any != nil {
		any := of.All()
		clear(any)
		for i := range c.Any {
			any.Or(c.Any[i].groups(of))
		}
		g.And(any)
	}
	return g
}
