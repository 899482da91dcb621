// The conditions that a filter consists of: what each requires of a record, which blocks may have such records,
// and which records do not say enough to decide.

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

// nameTest checks the relations and objects of a shape, which may be nil. Names without a schema were looked up
// in the schemas of the path; nil: in unknown ones.
type nameTest func(s *format.Shape, path []string) bool

// condition is what a filter requires of a session, a shape (which may be nil), or a record.
type condition struct {
	session func(*format.Session) bool
	shape   func(*format.Shape) bool
	names   nameTest // of relations and objects, some of which a record may leave out
	record  func(*format.Record) bool
	text    textTest // of text, message and parameters, checked last
	at      int      // index of that test in its filter
	// contents selects the groups of an index that may have matching records; nil: all.
	contents func(*format.Contents) format.Groups

	// whyUncertain returns why a record that does not match may still be one that is asked for, because it does
	// not say enough, in words that follow "it"; empty: it is certainly not. Nil: all records say enough.
	whyUncertain func(*format.Record) string
	// uncertainGroups selects the groups of an index that may have such records. maybeUncertain returns whether
	// records of a session may be such ones.
	uncertainGroups func(*format.Contents) format.Groups
	maybeUncertain  func(*format.Session) bool
}

// textTest checks text, message and parameters. It keeps verdicts about the texts of a block.
type textTest func(m *Matcher, r *format.Record, kept *[]verdict) bool

// holds evaluates only this condition.
func (c *condition) holds(m *Matcher, r *format.Record) bool {
	switch {
	case c.session != nil:
		return c.session(r.Session)
	case c.shape != nil:
		return c.shape(r.Shape)
	case c.names != nil:
		return c.names(r.Shape, searchPath(r))
	case c.text != nil:
		return m.WithoutParts && r.Parts != [3]uint64{} || c.text(m, r, m.textVerdicts(c.at))
	}
	return c.record(r)
}

// groups selects the groups of an index that may have records that match, or that do not say enough.
func (c *condition) groups(x *format.Contents) format.Groups {
	g := c.contents(x)
	if c.uncertainGroups != nil {
		g.Or(c.uncertainGroups(x))
	}
	return g
}

// Reasons for which records do not say enough, in words that follow "it".
const (
	// Unnamed: the statement had not ended, so its relations and objects may not be known.
	Unnamed = "does not state its relations, because the statement had not ended"
	// Untimed: the statement had not ended, so its duration is not known.
	Untimed    = "does not state how long it took"
	unresolved = "was refused before it was known which objects it uses"
	unclassed  = "does not state its class and command, because the statement had not ended"
	nameless   = "does not state for certain which user or role it is of"
)

// uncertain begins the text that replaces the name of a role that is not certain. No role can have such a name.
const uncertain = "pg_unknown "

func isUncertain(name []byte) bool { return strings.HasPrefix(string(name), uncertain) }

// selectUncertain selects the groups of an index that may have such names in some lists.
func selectUncertain(lists ...format.Terms) func(*format.Contents) format.Groups {
	return func(c *format.Contents) format.Groups {
		g := c.Select(lists[0], isUncertain)
		for _, list := range lists[1:] {
			g.Or(c.Select(list, isUncertain))
		}
		return g
	}
}

// uncertainSession returns a function that states a reason for the records of some sessions.
func uncertainSession(maybe func(*format.Session) bool, why string) func(*format.Record) string {
	return func(r *format.Record) string {
		if maybe(r.Session) {
			return why
		}
		return ""
	}
}

// lacksShape returns why a record has no shape.
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

// MayBeUnfinished returns whether Record.Unfinished can be true for records of a kind and outcome.
func MayBeUnfinished(k format.Kind, o format.Outcome) bool {
	return k == format.KindStart || k == format.KindStatement && o == format.OutcomeInterrupted
}

// lacksNames returns why a record does not have all names of relations and objects.
func lacksNames(r *format.Record) string {
	why := r.OmitsNames()
	if why == "" && r.Unfinished() {
		why = Unnamed
	}
	return why
}

// selectRefused selects the groups of an index that may have refused statements.
func selectRefused(c *format.Contents) format.Groups {
	g := SelectFailed(c)
	g.And(c.Select(format.TermsSqlstates, func(v []byte) bool { return string(v) == format.RefusedState }))
	return g
}

// mayMention returns whether the text of a record may be about one of some names: it contains a part of one, or
// is not complete.
func mayMention(r *format.Record, names []string) bool {
	text := strings.ToLower(string(r.Text))
	incomplete := text == "" || r.Has(format.FieldCut) || r.Parts != [3]uint64{}
	if incomplete || strings.Contains(text, `u&"`) || strings.Contains(text, " owned ") ||
		strings.Contains(text, "<redacted>") {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		isSeparator := func(c rune) bool { return strings.ContainsRune(`."()`, c) }
		return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(name), isSeparator), func(part string) bool {
			return strings.Contains(part, "*") || strings.Contains(text, part)
		})
	})
}

// lacksText returns what a record lacks of the strings that a pattern is compared with.
func lacksText(r *format.Record) (why string) {
	if r.Has(format.FieldCut) {
		return "has only the beginning of its text"
	}
	if _, omitted := r.ExtraValue("parameters_omitted"); omitted {
		return "leaves out parameters"
	}
	isUnknown := func(p format.ParamType) bool { return p.Repr == format.ReprNone || p.Repr == format.ReprList }
	if r.Shape == nil || !slices.ContainsFunc(r.Shape.Params, isUnknown) {
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

// selectCut selects the groups of an index that may have records for which lacksText returns something.
func selectCut(c *format.Contents) format.Groups {
	g := c.SelectOmissions("text", "parameters")
	g.Or(c.Select(format.TermsValues, func(v []byte) bool {
		return len(v) != 1 || format.Repr(v[0]) == format.ReprNone
	}))
	return g
}

// lacksDuration returns why a record has no duration.
func lacksDuration(r *format.Record) string {
	if !r.Has(format.FieldDuration) {
		return Untimed
	}
	return ""
}

// negated returns the condition that holds for all other records. It cannot use indexes, which say what blocks
// contain, but not what they do not contain.
func (c condition) negated() condition {
	switch {
	case c.session != nil:
		return condition{session: func(s *format.Session) bool { return !c.session(s) }}
	case c.shape != nil:
		return condition{shape: func(s *format.Shape) bool { return !c.shape(s) }}
	case c.names != nil:
		return condition{names: func(s *format.Shape, path []string) bool { return !c.names(s, path) }}
	case c.text != nil:
		return condition{text: func(m *Matcher, r *format.Record, kept *[]verdict) bool {
			return !c.text(m, r, kept)
		}}
	default:
		return condition{record: func(r *format.Record) bool { return !c.record(r) }}
	}
}

// ---- the conditions of the filters ----

// lastsFor requires a minimum duration, in microseconds.
func lastsFor(least uint64) condition {
	return condition{record: func(r *format.Record) bool {
		return r.Has(format.FieldDuration) && r.Duration >= least
	}, whyUncertain: lacksDuration}
}

// offHours requires a time outside of working hours in a zone.
func offHours(zone *time.Location) condition {
	return condition{record: func(r *format.Record) bool {
		return statement.OffHours(Moment(r.Time).In(zone))
	}}
}

// selectTerm selects the groups that may have a matching term in a list.
func selectTerm(list format.Terms, match func([]byte) bool) func(*format.Contents) format.Groups {
	return func(c *format.Contents) format.Groups { return c.Select(list, match) }
}

// isOfKind requires one of some kinds. Indexes do not list the kind of successful statements, which are almost
// all records.
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

// hasCommand compares the first words of a command tag, ignoring case.
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
		// An index does not have the search path of a statement, so any schema may match.
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

// hasFact returns a condition that requires one of some values for a fact of the session.
func hasFact(key format.Key, list format.Terms) func(values []string) condition {
	return func(values []string) condition {
		c := hasUnindexedFact(key)(values)
		if !slices.Contains(values, "") { // an index does not list absent facts
			c.contents = selectTerm(list, func(v []byte) bool { return slices.Contains(values, string(v)) })
		}
		return c
	}
}

// hasUnindexedFact does the same for a fact that no index has.
func hasUnindexedFact(key format.Key) func(values []string) condition {
	return func(values []string) condition {
		return condition{session: func(s *format.Session) bool {
			return slices.Contains(values, string(s.Fact(key)))
		}}
	}
}

func hasUser(users []string) condition {
	c := hasFact(format.KeyUser, format.TermsUsers)(users)
	c.maybeUncertain = func(s *format.Session) bool { return isUncertain(s.Fact(format.KeyUser)) }
	c.whyUncertain, c.uncertainGroups = uncertainSession(c.maybeUncertain, nameless),
		selectUncertain(format.TermsUsers)
	return c
}

// hasRole requires a current role, which is the session user if no other role was set.
func hasRole(roles []string) condition {
	current := func(s *format.Session) []byte {
		if role := s.Fact(format.KeyRole); len(role) > 0 {
			return role
		}
		return s.Fact(format.KeyUser)
	}
	maybe := func(s *format.Session) bool { return isUncertain(current(s)) }
	c := condition{
		session:         func(s *format.Session) bool { return slices.Contains(roles, string(current(s))) },
		whyUncertain:    uncertainSession(maybe, nameless),
		uncertainGroups: selectUncertain(format.TermsRoles, format.TermsUsers), maybeUncertain: maybe,
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
		wanted[i] = id.String() // compared to the second
	}
	return condition{session: func(s *format.Session) bool {
		return slices.Contains(wanted, s.ID().String()) || slices.Contains(wanted, s.ClientID().String())
	}}
}

func isOfClient(clients []Client) condition {
	return condition{session: func(s *format.Session) bool {
		return isClient(clients, string(s.Fact(format.KeyClient)))
	}}
}

func hasXID(xids []uint64) condition {
	return condition{record: func(r *format.Record) bool {
		return slices.Contains(xids, r.XID) || slices.Contains(xids, uint64(uint32(r.XID)))
	}}
}

func hasSQLState(states []SQLState) condition {
	is := func(state []byte) bool {
		return slices.ContainsFunc(states, func(s SQLState) bool {
			return strings.HasPrefix(string(state), string(s))
		})
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
	return condition{text: func(m *Matcher, r *format.Record, kept *[]verdict) bool {
		return m.hasFingerprint(r, wanted, kept)
	}}
}

// SelectFailed selects the groups that may have a record for which Record.Failed is true.
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
