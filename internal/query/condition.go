// The conditions that a filter is made of: what each asks of a record, which blocks may have such records, and which
// records do not say enough to know.

package query

import (
	"encoding/binary"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/statement"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// nameTest is what a filter asks of the relations and objects of a shape, which may be nil. Names of relations that are
// written without a schema were looked for in those of the path; nil: in any.
type nameTest func(s *trail.Shape, path []string) bool

// condition is what a filter asks of a session, a shape, which may be nil, or a record.
type condition struct {
	session func(*trail.Session) bool
	shape   func(*trail.Shape) bool
	names   nameTest // of the relations and objects, some of which a record may leave out
	record  func(*trail.Record) bool
	text    textTest // of text, message and parameters, which are looked at last
	// contents selects what of an index may have records for which it holds; nil: all.
	contents func(*trail.Contents) trail.Groups

	// lacks says why a record for which it does not hold may be one of those that are asked for, because the record does
	// not say enough, in words that follow "it"; empty: it is none. Nil: all records say enough.
	lacks func(*trail.Record) string
	// unsure selects what of an index may have such records; maybe says of a session that its records may be such ones.
	unsure func(*trail.Contents) trail.Groups
	maybe  func(*trail.Session) bool
}

// textTest is what a filter asks of text, message and parameters. Verdicts about texts are kept in the matcher.
type textTest func(m *Matcher, r *trail.Record) bool

// holds evaluates the condition by itself.
func (c *condition) holds(m *Matcher, r *trail.Record) bool {
	switch {
	case c.session != nil:
		return c.session(r.Session)
	case c.shape != nil:
		return c.shape(r.Shape)
	case c.names != nil:
		return c.names(r.Shape, searchPath(r))
	case c.text != nil:
		return m.Apart && r.Parts != [3]uint64{} || c.text(m, r)
	}
	return c.record(r)
}

// groups selects the groups of an index that may have records for which it holds, or which do not say enough.
func (c *condition) groups(x *trail.Contents) trail.Groups {
	g := c.contents(x)
	if c.unsure != nil {
		g.Or(c.unsure(x))
	}
	return g
}

// Why records do not say enough, in words that follow "it".
const (
	// Unnamed is why a record of a statement that had not ended may be one that is asked for.
	Unnamed = "does not state its relations, because the statement had not ended"
	// Untimed is the same of one whose duration is asked for.
	Untimed    = "does not state how long it took"
	unresolved = "was refused before it was known which objects it uses"
	unclassed  = "does not state its class and command, because the statement had not ended"
	nameless   = "does not state for certain which user or role it is of"
)

// uncertain is the beginning of what stands for the name of a role that is not certain. No role can have such a name.
const uncertain = "pg_unknown "

func isUncertain(name []byte) bool { return strings.HasPrefix(string(name), uncertain) }

// selectUncertain selects the groups of an index that may have such names in one of some lists.
func selectUncertain(lists ...trail.Terms) func(*trail.Contents) trail.Groups {
	return func(c *trail.Contents) trail.Groups {
		g := c.Select(lists[0], isUncertain)
		for _, list := range lists[1:] {
			g.Or(c.Select(list, isUncertain))
		}
		return g
	}
}

// ofSession is why the records of some sessions do not say enough.
func ofSession(maybe func(*trail.Session) bool, why string) func(*trail.Record) string {
	return func(r *trail.Record) string {
		if maybe(r.Session) {
			return why
		}
		return ""
	}
}

// lacksShape is why a record has no shape.
func lacksShape(r *trail.Record) string {
	if r.Shape == nil {
		return unclassed
	}
	return ""
}

// selectUnfinished selects the groups of an index that may have a record for which Record.Unfinished is true.
func selectUnfinished(c *trail.Contents) trail.Groups {
	return c.SelectResult(MayBeUnfinished)
}

// MayBeUnfinished says whether Record.Unfinished may be true for records of a kind and outcome.
func MayBeUnfinished(k trail.Kind, o trail.Outcome) bool {
	return k == trail.KindStart || k == trail.KindStatement && o == trail.OutcomeInterrupted
}

// lacksNames is why a record does not have all names of relations and objects.
func lacksNames(r *trail.Record) string {
	why := r.OmitsNames()
	if why == "" && r.Unfinished() {
		why = Unnamed
	}
	return why
}

// selectRefused selects the groups of an index that may have such statements.
func selectRefused(c *trail.Contents) trail.Groups {
	g := SelectFailed(c)
	g.And(c.Select(trail.TermsSqlstates, func(v []byte) bool { return string(v) == trail.RefusedState }))
	return g
}

// mayMention says whether the text of a record may be about one of some names: it has a part of one, or cannot say.
func mayMention(r *trail.Record, names []string) bool {
	text := strings.ToLower(string(r.Text))
	if text == "" || r.Has(trail.FieldCut) || r.Parts != [3]uint64{} || strings.Contains(text, `u&"`) || strings.Contains(text, " owned ") || strings.Contains(text, "<redacted>") {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return strings.ContainsRune(`."()`, c) }), func(part string) bool {
			return strings.Contains(part, "*") || strings.Contains(text, part)
		})
	})
}

// lacksText is what of a record is missing that --grep would have looked at.
func lacksText(r *trail.Record) (why string) {
	if r.Has(trail.FieldCut) {
		return "has only the beginning of its text"
	}
	if _, omitted := r.ExtraValue("parameters_omitted"); omitted {
		return "leaves out parameters"
	}
	if r.Shape == nil || !slices.ContainsFunc(r.Shape.Params, func(p trail.ParamType) bool { return p.Repr == trail.ReprNone || p.Repr == trail.ReprList }) {
		return ""
	}
	r.Params(func(p trail.ParamType, _ []byte, null bool) bool {
		if !null && p.Repr == trail.ReprNone {
			why = "does not have the value of a parameter"
		}
		return why == ""
	})
	return why
}

// selectCut selects the groups of an index that may have records for which lacksText says something.
func selectCut(c *trail.Contents) trail.Groups {
	g := c.SelectOmissions("text", "parameters")
	g.Or(c.Select(trail.TermsValues, func(v []byte) bool { return len(v) != 1 || trail.Repr(v[0]) == trail.ReprNone }))
	return g
}

// lacksDuration is why a record has no duration.
func lacksDuration(r *trail.Record) string {
	if !r.Has(trail.FieldDuration) {
		return Untimed
	}
	return ""
}

// negated holds for all other records. An index says what is in blocks, never what is not:
// it cannot serve this.
func (c condition) negated() condition {
	switch {
	case c.session != nil:
		return condition{session: func(s *trail.Session) bool { return !c.session(s) }}
	case c.shape != nil:
		return condition{shape: func(s *trail.Shape) bool { return !c.shape(s) }}
	case c.names != nil:
		return condition{names: func(s *trail.Shape, path []string) bool { return !c.names(s, path) }}
	default:
		return condition{record: func(r *trail.Record) bool { return !c.record(r) }}
	}
}

// conditions are those of the lists but for Grep, each for itself. prefix stands before the
// names of their flags.
func (o *FilterOptions) conditions(prefix string) (all []condition, err error) {
	kinds, classes, _ := trail.Names()
	if len(o.Kinds) > 0 {
		wanted, err := known(prefix+"kind", o.Kinds, kinds)
		if err != nil {
			return nil, err
		}
		all = append(all, isOfKind(wanted))
	}
	if len(o.Classes) > 0 {
		wanted, err := known(prefix+"class", o.Classes, classes)
		if err != nil {
			return nil, err
		}
		all = append(all, condition{
			shape: func(s *trail.Shape) bool { return s != nil && slices.Contains(wanted, s.Class.String()) },
			contents: selects(trail.TermsClasses, func(v []byte) bool {
				class, n := binary.Uvarint(v)
				return n != len(v) || slices.Contains(wanted, trail.Class(class).String())
			}),
			lacks: lacksShape, unsure: selectUnfinished,
		})
	}
	if len(o.Commands) > 0 {
		wanted := make([]string, len(o.Commands))
		for i, c := range o.Commands {
			wanted[i] = strings.Join(strings.Fields(c), " ")
		}
		all = append(all, condition{
			shape:    func(s *trail.Shape) bool { return s != nil && hasCommand(wanted, string(s.Command)) },
			contents: selects(trail.TermsCommands, func(v []byte) bool { return hasCommand(wanted, string(v)) }),
			lacks:    lacksShape, unsure: selectUnfinished,
		})
	}
	if len(o.Objects) > 0 {
		patterns := objectPatterns(o.Objects)
		uses := func(s *trail.Shape, path []string) bool { return s != nil && usesObject(s, patterns, path) }
		all = append(all, condition{
			names: uses,
			// an index does not have the schemas in which a name was looked for: it may be any
			contents: func(c *trail.Contents) trail.Groups {
				return c.SelectShape(func(s *trail.Shape) bool { return uses(s, nil) })
			},
			lacks: func(r *trail.Record) string {
				if why := lacksNames(r); why != "" || !r.RefusedUnnamed() || !mayMention(r, o.Objects) {
					return why
				}
				return unresolved
			},
			unsure: func(c *trail.Contents) trail.Groups {
				g := c.SelectOmissions("relations", "objects")
				g.Or(selectUnfinished(c))
				g.Or(selectRefused(c))
				return g
			},
		})
	}
	if len(o.Audited) > 0 {
		names, err := known(prefix+"audited", o.Audited, trail.Reasons())
		if err != nil {
			return nil, err
		}
		reasons := trail.Audited(0)
		for _, r := range names {
			reasons |= 1 << slices.Index(trail.Reasons(), r)
		}
		all = append(all, condition{record: func(r *trail.Record) bool { return r.Reasons()&reasons != 0 }})
	}
	for _, c := range hasFact(trail.KeyUser, trail.TermsUsers, o.Users) {
		c.maybe = func(s *trail.Session) bool { return isUncertain(s.Fact(trail.KeyUser)) }
		c.lacks, c.unsure = ofSession(c.maybe, nameless), selectUncertain(trail.TermsUsers)
		all = append(all, c)
	}
	all = append(all, hasFact(trail.KeyAppUser, trail.TermsAppUsers, o.AppUsers)...)
	if len(o.Identities) > 0 { // which no index has
		all = append(all, condition{session: func(s *trail.Session) bool {
			return slices.Contains(o.Identities, string(s.Fact(trail.KeyIdentity)))
		}})
	}
	if len(o.AppContexts) > 0 { // neither has it these
		all = append(all, condition{session: func(s *trail.Session) bool {
			return slices.Contains(o.AppContexts, string(s.Fact(trail.KeyAppContext)))
		}})
	}
	all = append(all, hasFact(trail.KeyDatabase, trail.TermsDatabases, o.Databases)...)
	all = append(all, hasFact(trail.KeyApplication, trail.TermsApplications, o.Applications)...)
	if len(o.Roles) > 0 {
		all = append(all, hasRole(o.Roles))
	}
	for _, id := range o.Sessions {
		if !trail.IsSessionID(id) {
			return nil, exit.Usagef("%ssession: %q is not a session ID, such as 6b0202d9.fa1", prefix, id)
		}
	}
	if len(o.Sessions) > 0 {
		all = append(all, condition{session: func(s *trail.Session) bool {
			return slices.Contains(o.Sessions, s.ID().String()) || slices.Contains(o.Sessions, s.ClientID().String())
		}})
	}
	if len(o.Clients) > 0 {
		c, err := clients(prefix+"client", o.Clients)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if len(o.XIDs) > 0 {
		var xids []uint64
		for _, id := range o.XIDs {
			n, err := strconv.ParseUint(id, 10, 64)
			if err != nil || n == 0 {
				return nil, exit.Usagef("%sxid: %q is not a transaction ID", prefix, id)
			}
			xids = append(xids, n)
		}
		all = append(all, condition{record: func(r *trail.Record) bool {
			return slices.Contains(xids, r.XID) || slices.Contains(xids, uint64(uint32(r.XID)))
		}})
	}
	if len(o.SQLStates) > 0 {
		c, err := sqlstates(prefix+"sqlstate", o.SQLStates)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// offHours is the condition of --off-hours.
func offHours(zone *time.Location) condition {
	if zone == nil {
		zone = time.UTC
	}
	return condition{record: func(r *trail.Record) bool {
		return statement.OffHours(Moment(r.Time).In(zone))
	}}
}

// selects selects the groups that may have a term of a list that matches.
func selects(list trail.Terms, match func([]byte) bool) func(*trail.Contents) trail.Groups {
	return func(c *trail.Contents) trail.Groups { return c.Select(list, match) }
}

// isOfKind is the condition of --kind. An index does not have the kind of almost all
// records, statements.
func isOfKind(names []string) condition {
	var is [256]bool
	for k := range is {
		is[k] = slices.Contains(names, trail.Kind(k).String())
	}
	c := condition{record: func(r *trail.Record) bool { return is[r.Kind] }}
	if !is[trail.KindStatement] {
		c.contents = func(x *trail.Contents) trail.Groups {
			return x.SelectResult(func(k trail.Kind, _ trail.Outcome) bool { return is[k] })
		}
	}
	return c
}

// hasRole is the condition of --role: the current role, which is the session user if no
// other was set.
func hasRole(roles []string) condition {
	current := func(s *trail.Session) []byte {
		if role := s.Fact(trail.KeyRole); len(role) > 0 {
			return role
		}
		return s.Fact(trail.KeyUser)
	}
	maybe := func(s *trail.Session) bool { return isUncertain(current(s)) }
	c := condition{
		session: func(s *trail.Session) bool { return slices.Contains(roles, string(current(s))) },
		lacks:   ofSession(maybe, nameless), unsure: selectUncertain(trail.TermsRoles, trail.TermsUsers), maybe: maybe,
	}
	if !slices.Contains(roles, "") {
		is := func(v []byte) bool { return slices.Contains(roles, string(v)) }
		c.contents = func(c *trail.Contents) trail.Groups {
			g := c.Select(trail.TermsRoles, is)
			g.Or(c.Select(trail.TermsUsers, is))
			return g
		}
	}
	return c
}

var sqlstateFormat = regexp.MustCompile(`^[0-9A-Z]{2}([0-9A-Z]{3})?$`)

// sqlstates is the condition of --sqlstate: whole ones, and classes, their first two
// characters.
func sqlstates(flag string, values []string) (condition, error) {
	var wanted []string
	for _, v := range values {
		upper := strings.ToUpper(v)
		if !sqlstateFormat.MatchString(upper) {
			return condition{}, exit.Usagef("%s: %q is neither an SQLSTATE, such as 42501, nor the class of some, such as 42", flag, v)
		}
		wanted = append(wanted, upper)
	}
	is := func(state []byte) bool {
		return slices.ContainsFunc(wanted, func(w string) bool { return len(state) >= len(w) && string(state[:len(w)]) == w })
	}
	return condition{
		record:   func(r *trail.Record) bool { return r.SQLState != nil && is(r.SQLState) },
		contents: selects(trail.TermsSqlstates, is),
	}, nil
}

// SelectFailed selects groups that may have a record for which Record.Failed is true.
func SelectFailed(c *trail.Contents) trail.Groups {
	ended := func(k trail.Kind, o trail.Outcome) bool {
		r := trail.Record{Kind: k, Outcome: o}
		return r.RolledBack()
	}
	g := c.SelectResult(ended)
	g.And(c.Select(trail.TermsSqlstates, func([]byte) bool { return true }))
	g.Or(c.SelectResult(func(k trail.Kind, o trail.Outcome) bool {
		r := trail.Record{Kind: k, Outcome: o}
		return r.Failed()
	}))
	return g
}

// known checks names of a list without regard to case.
func known(flag string, names, list []string) ([]string, error) {
	var out []string
	for _, n := range names {
		lower := strings.ToLower(n)
		if !slices.Contains(list, lower) {
			return nil, exit.Usagef("%s: %q is not one of %s", flag, n, strings.Join(list, ", "))
		}
		out = append(out, lower)
	}
	return out, nil
}

// hasCommand compares the first words of a command tag without regard to case.
func hasCommand(wanted []string, tag string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool {
		return len(tag) >= len(w) && strings.EqualFold(tag[:len(w)], w) && (len(tag) == len(w) || tag[len(w)] == ' ')
	})
}

// hasFact is the condition that a fact of the session has one of the values; none when there
// are no values.
func hasFact(key trail.Key, list trail.Terms, values []string) []condition {
	if len(values) == 0 {
		return nil
	}
	c := condition{session: func(s *trail.Session) bool { return slices.Contains(values, string(s.Fact(key))) }}
	if !slices.Contains(values, "") { // of absent facts, an index says nothing
		c.contents = selects(list, func(v []byte) bool { return slices.Contains(values, string(v)) })
	}
	return []condition{c}
}
