// The conditions that a filter is made of: what each asks of a record, which blocks may have such records, and which
// records do not say enough to know.

package query

import (
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/statement"
)

// nameTest is what a filter asks of the relations and objects of a shape, which may be nil. Names of relations
// that are written without a schema were looked for in those of the path; nil: in any.
type nameTest func(s *format.Shape, path []string) bool

// condition is what a filter asks of a session, a shape, which may be nil, or a record.
type condition struct {
	session func(*format.Session) bool
	shape   func(*format.Shape) bool
	names   nameTest // of the relations and objects, some of which a record may leave out
	record  func(*format.Record) bool
	text    textTest // of text, message and parameters, which are looked at last
	at      int      // the number of that test in its filter
	// contents selects what of an index may have records for which it holds; nil: all.
	contents func(*format.Contents) format.Groups

	// whyUncertain says why a record for which it does not hold may be one of those that are asked for, because the
	// record does not say enough, in words that follow "it"; empty: it is none. Nil: all records say enough.
	whyUncertain func(*format.Record) string
	// uncertainGroups selects what of an index may have such records; maybe says of a session that its records may be
	// such ones.
	uncertainGroups func(*format.Contents) format.Groups
	maybeUncertain  func(*format.Session) bool
}

// textTest is what a filter asks of text, message and parameters. It keeps verdicts about the texts of a block.
type textTest func(m *Matcher, r *format.Record, kept *[]verdict) bool

// holds evaluates the condition by itself.
func (c *condition) holds(m *Matcher, r *format.Record) bool {
	switch {
	case c.session != nil:
		return c.session(r.Session)
	case c.shape != nil:
		return c.shape(r.Shape)
	case c.names != nil:
		return c.names(r.Shape, searchPath(r))
	case c.text != nil:
		return m.Apart && r.Parts != [3]uint64{} || c.text(m, r, m.textVerdicts(c.at))
	}
	return c.record(r)
}

// groups selects the groups of an index that may have records for which it holds, or which do not say enough.
func (c *condition) groups(x *format.Contents) format.Groups {
	g := c.contents(x)
	if c.uncertainGroups != nil {
		g.Or(c.uncertainGroups(x))
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
func selectUncertain(lists ...format.Terms) func(*format.Contents) format.Groups {
	return func(c *format.Contents) format.Groups {
		g := c.Select(lists[0], isUncertain)
		for _, list := range lists[1:] {
			g.Or(c.Select(list, isUncertain))
		}
		return g
	}
}

// uncertainSession is why the records of some sessions do not say enough.
func uncertainSession(maybe func(*format.Session) bool, why string) func(*format.Record) string {
	return func(r *format.Record) string {
		if maybe(r.Session) {
			return why
		}
		return ""
	}
}

// lacksShape is why a record has no shape.
func lacksShape(r *format.Record) string {
	if r.Shape == nil {
		return unclassed
	}
	return ""
}

// selectUnfinished selects the groups of an index that may have a record for which Record.Unfinished is true.
func selectUnfinished(c *format.Contents) format.Groups {
	return c.SelectResult(MayBeUnfinished)
}

// MayBeUnfinished says whether Record.Unfinished may be true for records of a kind and outcome.
func MayBeUnfinished(k format.Kind, o format.Outcome) bool {
	return k == format.KindStart || k == format.KindStatement && o == format.OutcomeInterrupted
}

// lacksNames is why a record does not have all names of relations and objects.
func lacksNames(r *format.Record) string {
	why := r.OmitsNames()
	if why == "" && r.Unfinished() {
		why = Unnamed
	}
	return why
}

// selectRefused selects the groups of an index that may have such statements.
func selectRefused(c *format.Contents) format.Groups {
	g := SelectFailed(c)
	g.And(c.Select(format.TermsSqlstates, func(v []byte) bool { return string(v) == format.RefusedState }))
	return g
}

// mayMention says whether the text of a record may be about one of some names: it has a part of one, or cannot say.
func mayMention(r *format.Record, names []string) bool {
	text := strings.ToLower(string(r.Text))
	if text == "" || r.Has(format.FieldCut) || r.Parts != [3]uint64{} || strings.Contains(text, `u&"`) || strings.Contains(text, " owned ") || strings.Contains(text, "<redacted>") {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return strings.ContainsRune(`."()`, c) }), func(part string) bool {
			return strings.Contains(part, "*") || strings.Contains(text, part)
		})
	})
}

// lacksText is what of a record is missing that a pattern would have been compared with.
func lacksText(r *format.Record) (why string) {
	if r.Has(format.FieldCut) {
		return "has only the beginning of its text"
	}
	if _, omitted := r.ExtraValue("parameters_omitted"); omitted {
		return "leaves out parameters"
	}
	if r.Shape == nil || !slices.ContainsFunc(r.Shape.Params, func(p format.ParamType) bool { return p.Repr == format.ReprNone || p.Repr == format.ReprList }) {
		return ""
	}
	r.Params(func(p format.ParamType, _ []byte, null bool) bool {
		if !null && p.Repr == format.ReprNone {
			why = "does not have the value of a parameter"
		}
		return why == ""
	})
	return why
}

// selectCut selects the groups of an index that may have records for which lacksText says something.
func selectCut(c *format.Contents) format.Groups {
	g := c.SelectOmissions("text", "parameters")
	g.Or(c.Select(format.TermsValues, func(v []byte) bool { return len(v) != 1 || format.Repr(v[0]) == format.ReprNone }))
	return g
}

// lacksDuration is why a record has no duration.
func lacksDuration(r *format.Record) string {
	if !r.Has(format.FieldDuration) {
		return Untimed
	}
	return ""
}

// negated holds for all other records. An index says what is in blocks, never what is not:
// it cannot serve this.
func (c condition) negated() condition {
	switch {
	case c.session != nil:
		return condition{session: func(s *format.Session) bool { return !c.session(s) }}
	case c.shape != nil:
		return condition{shape: func(s *format.Shape) bool { return !c.shape(s) }}
	case c.names != nil:
		return condition{names: func(s *format.Shape, path []string) bool { return !c.names(s, path) }}
	case c.text != nil:
		return condition{text: func(m *Matcher, r *format.Record, kept *[]verdict) bool { return !c.text(m, r, kept) }}
	default:
		return condition{record: func(r *format.Record) bool { return !c.record(r) }}
	}
}

// ---- the conditions of single filters ----

// lastsFor is the condition of the least duration, in microseconds.
func lastsFor(least uint64) condition {
	return condition{record: func(r *format.Record) bool { return r.Has(format.FieldDuration) && r.Duration >= least }, whyUncertain: lacksDuration}
}

// offHours is the condition that a record is not of working hours of a zone.
func offHours(zone *time.Location) condition {
	return condition{record: func(r *format.Record) bool {
		return statement.OffHours(Moment(r.Time).In(zone))
	}}
}

// selectTerm selects the groups that may have a term of a list that matches.
func selectTerm(list format.Terms, match func([]byte) bool) func(*format.Contents) format.Groups {
	return func(c *format.Contents) format.Groups { return c.Select(list, match) }
}

// isOfKind is the condition of kinds. An index does not have the kind of almost all
// records, statements.
func isOfKind(kinds []format.Kind) condition {
	var is [256]bool
	for _, k := range kinds {
		is[k] = true
	}
	c := condition{record: func(r *format.Record) bool { return is[r.Kind] }}
	if !is[format.KindStatement] {
		c.contents = func(x *format.Contents) format.Groups {
			return x.SelectResult(func(k format.Kind, _ format.Outcome) bool { return is[k] })
		}
	}
	return c
}

func isOfClass(classes []format.Class) condition {
	return condition{
		shape: func(s *format.Shape) bool { return s != nil && slices.Contains(classes, s.Class) },
		contents: selectTerm(format.TermsClasses, func(v []byte) bool {
			class, n := binary.Uvarint(v)
			return n != len(v) || slices.Contains(classes, format.Class(class))
		}),
		whyUncertain: lacksShape, uncertainGroups: selectUnfinished,
	}
}

func isCommand(words []string) condition {
	wanted := make([]string, len(words))
	for i, w := range words {
		wanted[i] = strings.Join(strings.Fields(w), " ")
	}
	return condition{
		shape:        func(s *format.Shape) bool { return s != nil && hasCommand(wanted, string(s.Command)) },
		contents:     selectTerm(format.TermsCommands, func(v []byte) bool { return hasCommand(wanted, string(v)) }),
		whyUncertain: lacksShape, uncertainGroups: selectUnfinished,
	}
}

// hasCommand compares the first words of a command tag without regard to case.
func hasCommand(wanted []string, tag string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool {
		return len(tag) >= len(w) && strings.EqualFold(tag[:len(w)], w) && (len(tag) == len(w) || tag[len(w)] == ' ')
	})
}

func usesObjects(names []string) condition {
	patterns := objectPatterns(names)
	uses := func(s *format.Shape, path []string) bool { return s != nil && usesObject(s, patterns, path) }
	return condition{
		names: uses,
		// an index does not have the schemas in which a name was looked for: it may be any
		contents: func(c *format.Contents) format.Groups {
			return c.SelectShape(func(s *format.Shape) bool { return uses(s, nil) })
		},
		whyUncertain: func(r *format.Record) string {
			if why := lacksNames(r); why != "" || !r.RefusedUnnamed() || !mayMention(r, names) {
				return why
			}
			return unresolved
		},
		uncertainGroups: func(c *format.Contents) format.Groups {
			g := c.SelectOmissions("relations", "objects")
			g.Or(selectUnfinished(c))
			g.Or(selectRefused(c))
			return g
		},
	}
}

func isAudited(reasons []format.Audited) condition {
	var any format.Audited
	for _, r := range reasons {
		any |= r
	}
	return condition{record: func(r *format.Record) bool { return r.Reasons()&any != 0 }}
}

// hasFact returns the condition that a fact of the session has one of some values.
func hasFact(key format.Key, list format.Terms) func(values []string) condition {
	return func(values []string) condition {
		c := hasUnindexedFact(key)(values)
		if !slices.Contains(values, "") { // of absent facts, an index says nothing
			c.contents = selectTerm(list, func(v []byte) bool { return slices.Contains(values, string(v)) })
		}
		return c
	}
}

// hasUnindexedFact is the same for a fact that no index has.
func hasUnindexedFact(key format.Key) func(values []string) condition {
	return func(values []string) condition {
		return condition{session: func(s *format.Session) bool { return slices.Contains(values, string(s.Fact(key))) }}
	}
}

func hasUser(users []string) condition {
	c := hasFact(format.KeyUser, format.TermsUsers)(users)
	c.maybeUncertain = func(s *format.Session) bool { return isUncertain(s.Fact(format.KeyUser)) }
	c.whyUncertain, c.uncertainGroups = uncertainSession(c.maybeUncertain, nameless), selectUncertain(format.TermsUsers)
	return c
}

// hasRole is the condition of the current role, which is the session user if no
// other was set.
func hasRole(roles []string) condition {
	current := func(s *format.Session) []byte {
		if role := s.Fact(format.KeyRole); len(role) > 0 {
			return role
		}
		return s.Fact(format.KeyUser)
	}
	maybe := func(s *format.Session) bool { return isUncertain(current(s)) }
	c := condition{
		session:      func(s *format.Session) bool { return slices.Contains(roles, string(current(s))) },
		whyUncertain: uncertainSession(maybe, nameless), uncertainGroups: selectUncertain(format.TermsRoles, format.TermsUsers), maybeUncertain: maybe,
	}
	if !slices.Contains(roles, "") {
		is := func(v []byte) bool { return slices.Contains(roles, string(v)) }
		c.contents = func(c *format.Contents) format.Groups {
			g := c.Select(format.TermsRoles, is)
			g.Or(c.Select(format.TermsUsers, is))
			return g
		}
	}
	return c
}

func isOfSession(ids []format.SessionID) condition {
	wanted := make([]string, len(ids))
	for i, id := range ids {
		wanted[i] = id.String() // to the second
	}
	return condition{session: func(s *format.Session) bool {
		return slices.Contains(wanted, s.ID().String()) || slices.Contains(wanted, s.ClientID().String())
	}}
}

func isOfClient(clients []Client) condition {
	return condition{session: func(s *format.Session) bool { return isClient(clients, string(s.Fact(format.KeyClient))) }}
}

func hasXID(xids []uint64) condition {
	return condition{record: func(r *format.Record) bool {
		return slices.Contains(xids, r.XID) || slices.Contains(xids, uint64(uint32(r.XID)))
	}}
}

func hasSQLState(states []SQLState) condition {
	is := func(state []byte) bool {
		return slices.ContainsFunc(states, func(s SQLState) bool { return strings.HasPrefix(string(state), string(s)) })
	}
	return condition{
		record:   func(r *format.Record) bool { return r.SQLState != nil && is(r.SQLState) },
		contents: selectTerm(format.TermsSqlstates, is),
	}
}

func hasText(patterns []*regexp.Regexp) condition {
	return condition{
		text:     func(m *Matcher, r *format.Record, kept *[]verdict) bool { return m.contains(r, patterns, kept) },
		contents: grepContents(patterns), whyUncertain: lacksText, uncertainGroups: selectCut,
	}
}

func hasFingerprint(wanted []uint64) condition {
	return condition{text: func(m *Matcher, r *format.Record, kept *[]verdict) bool { return m.hasFingerprint(r, wanted, kept) }}
}

// SelectFailed selects groups that may have a record for which Record.Failed is true.
func SelectFailed(c *format.Contents) format.Groups {
	ended := func(k format.Kind, o format.Outcome) bool {
		r := format.Record{Kind: k, Outcome: o}
		return r.RolledBack()
	}
	g := c.SelectResult(ended)
	g.And(c.Select(format.TermsSqlstates, func([]byte) bool { return true }))
	g.Or(c.SelectResult(func(k format.Kind, o format.Outcome) bool {
		r := format.Record{Kind: k, Outcome: o}
		return r.Failed()
	}))
	return g
}
