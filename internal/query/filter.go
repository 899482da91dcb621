// Package query chooses what of a trail is read: which records, by filters; which blocks,
// by positions; when, in the words of people; and with which keys.
package query

import (
	"encoding/binary"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// FilterOptions choose records, in the words of the command line.
type FilterOptions struct {
	Since, Until string
	Users        []string
	Roles        []string
	AppUsers     []string
	Databases    []string
	Applications []string
	Clients      []string
	Sessions     []string
	Classes      []string
	Kinds        []string
	Commands     []string
	Objects      []string
	Audited      []string
	Grep         []string
	XIDs         []string
	Failed       bool
}

// Filter is the options made ready for use. It may be used by many goroutines.
type Filter struct {
	Since, Until int64
	sessions     []func(*trail.Session) bool
	shapes       []func(*trail.Shape) bool
	kinds        []string
	reasons      trail.Audited // any of these; 0: whatever they are
	grep         []*regexp.Regexp
	failed       bool
	xids         []uint64

	// contents select what of a segment's index may match; all must.
	contents []func(*trail.Contents) trail.Groups
}

// Filter checks the options.
func (o *FilterOptions) Filter(now time.Time) (*Filter, error) {
	f := &Filter{Since: trail.MinTime, Until: trail.MaxTime, failed: o.Failed}
	var err error
	if o.Since != "" {
		if f.Since, err = ParseWhen(o.Since, now); err != nil {
			return nil, exit.Usagef("--since: %w", err)
		}
	}
	if o.Until != "" {
		if f.Until, err = ParseWhen(o.Until, now); err != nil {
			return nil, exit.Usagef("--until: %w", err)
		}
	}
	if f.Until <= f.Since {
		return nil, exit.Usagef("--until %s is not later than --since %s", o.Until, o.Since)
	}
	kinds, classes, _ := trail.Names()
	if f.kinds, err = known("kind", o.Kinds, kinds); err != nil {
		return nil, err
	}
	f.selectKinds()
	wanted, err := known("class", o.Classes, classes)
	if err != nil {
		return nil, err
	}
	if len(wanted) > 0 {
		f.shapes = append(f.shapes, func(s *trail.Shape) bool { return s != nil && slices.Contains(wanted, s.Class.String()) })
		f.selects(trail.TermsClasses, func(v []byte) bool {
			class, n := binary.Uvarint(v)
			return n != len(v) || slices.Contains(wanted, trail.Class(class).String())
		})
	}
	if len(o.Commands) > 0 {
		f.shapes = append(f.shapes, func(s *trail.Shape) bool { return s != nil && hasCommand(o.Commands, string(s.Command)) })
		f.selects(trail.TermsCommands, func(v []byte) bool { return hasCommand(o.Commands, string(v)) })
	}
	if len(o.Objects) > 0 {
		patterns := objectPatterns(o.Objects)
		uses := func(s *trail.Shape) bool { return usesObject(s, patterns) }
		f.shapes = append(f.shapes, uses)
		f.contents = append(f.contents, func(c *trail.Contents) trail.Groups { return c.SelectShape(uses) })
	}
	reasons, err := known("audited", o.Audited, trail.Reasons())
	if err != nil {
		return nil, err
	}
	for _, r := range reasons {
		f.reasons |= 1 << slices.Index(trail.Reasons(), r)
	}
	f.fact(trail.KeyUser, trail.TermsUsers, o.Users)
	f.fact(trail.KeyAppUser, trail.TermsAppUsers, o.AppUsers)
	f.fact(trail.KeyDatabase, trail.TermsDatabases, o.Databases)
	f.fact(trail.KeyApplication, trail.TermsApplications, o.Applications)
	if len(o.Roles) > 0 {
		f.sessions = append(f.sessions, func(s *trail.Session) bool {
			role := s.Fact(trail.KeyRole)
			if len(role) == 0 {
				role = s.Fact(trail.KeyUser)
			}
			return slices.Contains(o.Roles, string(role))
		})
		if !slices.Contains(o.Roles, "") {
			is := func(v []byte) bool { return slices.Contains(o.Roles, string(v)) }
			f.contents = append(f.contents, func(c *trail.Contents) trail.Groups {
				g := c.Select(trail.TermsRoles, is)
				g.Or(c.Select(trail.TermsUsers, is))
				return g
			})
		}
	}
	for _, id := range o.Sessions {
		if !trail.IsSessionID(id) {
			return nil, exit.Usagef("--session: %q is not a session ID, such as 6b0202d9.fa1", id)
		}
	}
	if len(o.Sessions) > 0 {
		f.sessions = append(f.sessions, func(s *trail.Session) bool {
			return slices.Contains(o.Sessions, s.ID().String()) || slices.Contains(o.Sessions, s.ClientID().String())
		})
	}
	if err := f.clients(o.Clients); err != nil {
		return nil, err
	}
	for _, id := range o.XIDs {
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil || n == 0 {
			return nil, exit.Usagef("--xid: %q is not a transaction ID", id)
		}
		f.xids = append(f.xids, n)
	}
	for _, pattern := range o.Grep {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, exit.Usagef("--grep: %w", err)
		}
		f.grep = append(f.grep, re)
	}
	if o.Failed {
		f.contents = append(f.contents, selectFailed)
	}
	if len(o.Grep) > 0 {
		f.contents = append(f.contents, grepContents(o.Grep))
	}
	return f, nil
}

// Contents selects the groups of blocks of a segment's index that may have matching
// records. It is nil if the filter says nothing about what an index has.
func (f *Filter) Contents() func(*trail.Contents) trail.Groups {
	if len(f.contents) == 0 {
		return nil
	}
	return func(c *trail.Contents) trail.Groups {
		g := c.All()
		for _, condition := range f.contents {
			g.And(condition(c))
		}
		return g
	}
}

// selects adds the condition that a list of an index may have a term that matches.
func (f *Filter) selects(list trail.Terms, match func([]byte) bool) {
	f.contents = append(f.contents, func(c *trail.Contents) trail.Groups { return c.Select(list, match) })
}

// selectKinds adds the condition of --kind. An index does not have the kind of almost all
// records, statements.
func (f *Filter) selectKinds() {
	if len(f.kinds) == 0 || slices.Contains(f.kinds, trail.KindStatement.String()) {
		return
	}
	f.contents = append(f.contents, func(c *trail.Contents) trail.Groups {
		return c.SelectResult(func(k trail.Kind, _ trail.Outcome) bool { return slices.Contains(f.kinds, k.String()) })
	})
}

// selectFailed selects groups that may have a record for which Record.Failed is true.
func selectFailed(c *trail.Contents) trail.Groups {
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
			return nil, exit.Usagef("--%s: %q is not one of %s", flag, n, strings.Join(list, ", "))
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

func (f *Filter) fact(key trail.Key, list trail.Terms, values []string) {
	if len(values) > 0 {
		if !slices.Contains(values, "") { // of absent facts, an index says nothing
			f.selects(list, func(v []byte) bool { return slices.Contains(values, string(v)) })
		}
		f.sessions = append(f.sessions, func(s *trail.Session) bool { return slices.Contains(values, string(s.Fact(key))) })
	}
}

// isAddress says whether a value of --client is one that a session can have.
func isAddress(s string) bool {
	_, address := netip.ParseAddr(s)
	_, port := netip.ParseAddrPort(s)
	return s == "[local]" || address == nil || port == nil
}

func (f *Filter) clients(values []string) error {
	if len(values) == 0 {
		return nil
	}
	var nets []netip.Prefix
	for _, v := range values {
		if !strings.Contains(v, "/") {
			if !isAddress(v) {
				return exit.Usagef("--client: %q is not an address, such as 10.0.0.1, 10.0.0.1:50022, [2001:db8::7]:40000 or [local]", v)
			}
			continue
		}
		p, err := netip.ParsePrefix(v)
		if err != nil {
			return exit.Usagef("--client: %q is not a network", v)
		}
		nets = append(nets, p.Masked())
	}
	f.sessions = append(f.sessions, func(s *trail.Session) bool {
		client := string(s.Fact(trail.KeyClient))
		host := client
		if i := strings.LastIndexByte(client, ':'); i >= 0 {
			host = strings.Trim(client[:i], "[]")
		}
		if slices.Contains(values, client) || host != "" && slices.Contains(values, host) {
			return true
		}
		addr, err := netip.ParseAddr(host)
		return err == nil && slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(addr.Unmap().WithZone("")) })
	})
	return nil
}

// verdict is what is kept of a definition that was looked at.
type verdict uint8

const (
	unknown verdict = iota
	yes
	no
)

// Matcher applies a filter to the records of one block after the other. Each
// definition is looked at once.
type Matcher struct {
	*Filter
	sessionOK, shapeOK, textOK []verdict
	param                      []byte
}

// Reset forgets the definitions of the block before.
func (m *Matcher) Reset() {
	m.sessionOK, m.shapeOK, m.textOK = m.sessionOK[:0], m.shapeOK[:0], m.textOK[:0]
}

// once returns the verdict at an index, which is judged the first time.
func once(list *[]verdict, i int, judge func() bool) bool {
	if i < 0 {
		return judge()
	}
	for len(*list) <= i {
		*list = append(*list, unknown)
	}
	v := (*list)[i]
	if v == unknown {
		v = no
		if judge() {
			v = yes
		}
		(*list)[i] = v
	}
	return v == yes
}

func all[T any](tests []func(T) bool, v T) bool {
	for _, test := range tests {
		if !test(v) {
			return false
		}
	}
	return true
}

// Keep says whether a record is chosen.
func (m *Matcher) Keep(r *trail.Record) bool {
	return m.Guess(r) && (len(m.grep) == 0 || m.textMatches(r) || m.matches(r.Message) || m.paramMatches(r))
}

// Guess is what of Keep does not look at text, message and parameters.
func (m *Matcher) Guess(r *trail.Record) bool {
	if m.failed && !r.Failed() {
		return false
	}
	if len(m.xids) > 0 && !slices.Contains(m.xids, r.XID) && !slices.Contains(m.xids, uint64(uint32(r.XID))) {
		return false
	}
	if len(m.kinds) > 0 && !slices.Contains(m.kinds, r.Kind.String()) {
		return false
	}
	if m.reasons != 0 && r.Reasons()&m.reasons == 0 {
		return false
	}
	if len(m.sessions) > 0 && !once(&m.sessionOK, r.SessionIndex, func() bool { return all(m.sessions, r.Session) }) {
		return false
	}
	if len(m.shapes) > 0 {
		if r.Shape == nil {
			return false
		}
		if !once(&m.shapeOK, r.ShapeIndex, func() bool { return all(m.shapes, r.Shape) }) {
			return false
		}
	}
	return true
}

// matches says whether one of the patterns matches a string that is there.
func (m *Matcher) matches(s []byte) bool {
	return s != nil && slices.ContainsFunc(m.grep, func(re *regexp.Regexp) bool { return re.Match(s) })
}

func (m *Matcher) textMatches(r *trail.Record) bool {
	if r.Text == nil || r.TextIndex < 0 {
		return m.matches(r.Text)
	}
	return once(&m.textOK, r.TextIndex, func() bool { return m.matches(r.Text) })
}

// paramMatches looks at parameters as they are shown, each by itself.
func (m *Matcher) paramMatches(r *trail.Record) bool {
	if r.Shape == nil || len(r.Shape.Params) == 0 || !r.HasParams() {
		return false
	}
	found := false
	r.Params(func(p trail.ParamType, value []byte, null bool) bool {
		if null || p.Repr == trail.ReprNone {
			return true
		}
		m.param = trail.AppendParam(m.param[:0], p.Repr, value)
		found = m.matches(m.param)
		return !found
	})
	return found
}

// objectPattern is a name with wildcards: one of a relation or object, or of a column with
// that of its relation before it.
type objectPattern struct {
	whole *regexp.Regexp
	// relation is what stands before the last dot; nil if there is none.
	relation *regexp.Regexp
}

// objectPatterns makes regular expressions of names with wildcards.
func objectPatterns(names []string) []objectPattern {
	compile := func(name string) *regexp.Regexp {
		return regexp.MustCompile("^(?s:" + strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, ".*") + ")$")
	}
	var patterns []objectPattern
	for _, n := range names {
		p := objectPattern{whole: compile(n)}
		if i := lastDot(n); i >= 0 {
			p.relation = compile(n[:i])
		}
		patterns = append(patterns, p)
	}
	return patterns
}

// lastDot is where the last dot outside double quotes is, -1 if there is none.
func lastDot(name string) int {
	last, quoted := -1, false
	for i, c := range []byte(name) {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			last = i
		}
	}
	return last
}

// fits says whether a name matches, as it stands or without its schema.
func fits(re *regexp.Regexp, name []byte) bool {
	return re.Match(name) || re.Match(unqualified(name))
}

// fitsColumn says whether the pattern names a column of a relation that is used. The whole
// row is each of its columns, and so may be those that the record leaves out: all of them, in a
// record that does not say which columns it reads and writes.
func (p *objectPattern) fitsColumn(r *trail.Relation) bool {
	if p.relation == nil {
		return false
	}
	if !r.HasColumns {
		return r.Access&(trail.AccessSelect|trail.AccessInsert|trail.AccessUpdate) != 0 && fits(p.relation, r.Name)
	}
	if r.Omitted != 0 && fits(p.relation, r.Name) {
		return true
	}
	for _, c := range r.Columns {
		if string(c.Name) == trail.WholeRow {
			if fits(p.relation, r.Name) {
				return true
			}
			continue
		}
		if fits(p.whole, slices.Concat(r.Name, []byte("."), c.Name)) {
			return true
		}
	}
	return false
}

// usesObject says whether a relation or an object of a shape, or a column of a relation, has a
// name that fits: as it stands, or without its schema.
func usesObject(s *trail.Shape, patterns []objectPattern) bool {
	for _, p := range patterns {
		for i := range s.Relations {
			if r := &s.Relations[i]; fits(p.whole, r.Name) || p.fitsColumn(r) {
				return true
			}
		}
		for i := range s.Objects {
			if o := &s.Objects[i]; fits(p.whole, o.Name) || len(o.To) > 0 && fits(p.whole, o.To) {
				return true
			}
		}
	}
	return false
}

// unqualified is a name without the schema before it. A dot inside double
// quotes is part of a name, as are those in the arguments of a function.
func unqualified(name []byte) []byte {
	quoted := false
	for i, c := range name {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '(' && !quoted:
			return name
		case c == '.' && !quoted:
			return name[i+1:]
		}
	}
	return name
}
