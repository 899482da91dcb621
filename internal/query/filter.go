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
	"github.com/pg-steno/pg_steno/internal/statement"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// FilterOptions choose records, in the words of the command line. All conditions must hold;
// of a list, one value must match.
type FilterOptions struct {
	Since, Until string
	Users        []string
	Roles        []string
	AppUsers     []string
	AppContexts  []string
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
	SQLStates    []string
	Failed       bool
	// MinDuration is the least duration; without a unit, it is in milliseconds.
	MinDuration string
	// IgnoreCase makes no difference between upper and lower case in Grep.
	IgnoreCase bool

	// Fingerprints are those of statement.Fingerprint, as they are shown. They and the two below
	// are no part of the question of a proof.
	Fingerprints []string `json:"-"`
	// TopLevel leaves out what functions and triggers ran.
	TopLevel bool `json:"-"`
	// OffHours leaves out what started in working hours of Zone: see statement.OffHours.
	OffHours bool `json:"-"`

	// Not excludes what one of its lists matches; the rest of it means nothing.
	Not *FilterOptions
	// Zone is that of times that name none; nil is UTC.
	Zone *time.Location
}

// Filter is the options made ready for use. It may be used by many goroutines.
type Filter struct {
	Since, Until int64
	sessions     []func(*trail.Session) bool
	shapes       []func(*trail.Shape) bool // these are asked of records without a shape, too: nil
	names        []nameTest                // the same about names of relations and objects
	records      []func(*trail.Record) bool
	grep         []*regexp.Regexp
	notGrep      []*regexp.Regexp

	fingerprints, notFingerprints []uint64

	// contents select what of a segment's index may match; all must.
	contents []func(*trail.Contents) trail.Groups

	watched *renames // nil: no names that may change
}

// nameTest is what a filter asks of the relations and objects of a shape, which may be nil. Names of relations that are
// written without a schema were looked for in those of the path; nil: in any.
type nameTest func(s *trail.Shape, path []string) bool

// condition is what a filter asks of a session, a shape, which may be nil, or a record.
type condition struct {
	session func(*trail.Session) bool
	shape   func(*trail.Shape) bool
	names   nameTest // of the relations and objects, some of which a record may leave out
	record  func(*trail.Record) bool
	// contents selects what of an index may have records for which it holds; nil: all.
	contents func(*trail.Contents) trail.Groups
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

// add adds a condition that must hold.
func (f *Filter) add(c condition) {
	if c.session != nil {
		f.sessions = append(f.sessions, c.session)
	}
	if c.shape != nil {
		f.shapes = append(f.shapes, c.shape)
	}
	if c.names != nil {
		f.names = append(f.names, c.names)
	}
	if c.record != nil {
		f.records = append(f.records, c.record)
	}
	if c.contents != nil {
		f.contents = append(f.contents, c.contents)
	}
}

// Filter checks the options.
func (o *FilterOptions) Filter(now time.Time) (*Filter, error) {
	f := &Filter{Since: trail.MinTime, Until: trail.MaxTime}
	var err error
	if o.Since != "" {
		if f.Since, err = ParseWhenIn(o.Since, now, o.Zone); err != nil {
			return nil, exit.Usagef("--since: %w", err)
		}
	}
	if o.Until != "" {
		if f.Until, err = ParseWhenIn(o.Until, now, o.Zone); err != nil {
			return nil, exit.Usagef("--until: %w", err)
		}
	}
	if f.Until <= f.Since {
		return nil, exit.Usagef("--until %s is not later than --since %s", o.Until, o.Since)
	}
	conditions, err := o.conditions("--")
	if err != nil {
		return nil, err
	}
	for _, c := range conditions {
		f.add(c)
	}
	f.watched = o.renames()
	if f.grep, err = o.patterns("--grep", o.Grep); err != nil {
		return nil, err
	}
	if len(f.grep) > 0 {
		f.contents = append(f.contents, grepContents(f.grep))
	}
	if o.Failed {
		f.add(condition{record: (*trail.Record).Failed, contents: SelectFailed})
	}
	if o.MinDuration != "" {
		least, err := ParseDuration(o.MinDuration)
		if err != nil {
			return nil, exit.Usagef("--min-duration: %w", err)
		}
		f.add(condition{record: func(r *trail.Record) bool { return r.Has(trail.FieldDuration) && r.Duration >= least }})
	}
	if o.TopLevel {
		f.add(condition{record: func(r *trail.Record) bool { return r.Depth == 0 }})
	}
	if o.OffHours {
		f.add(offHours(o.Zone))
	}
	if f.fingerprints, err = fingerprints("--fingerprint", o.Fingerprints); err != nil || o.Not == nil {
		return f, err
	}
	if f.notFingerprints, err = fingerprints("--not-fingerprint", o.Not.Fingerprints); err != nil {
		return nil, err
	}
	if conditions, err = o.Not.conditions("--not-"); err != nil {
		return nil, err
	}
	for _, c := range conditions {
		f.add(c.negated())
	}
	f.notGrep, err = o.patterns("--not-grep", o.Not.Grep)
	return f, err
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

// fingerprints reads those of --fingerprint.
func fingerprints(flag string, values []string) (all []uint64, err error) {
	for _, v := range values {
		n, err := statement.ParseFingerprint(v)
		if err != nil {
			return nil, exit.Usagef("%s: %w", flag, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// patterns compiles regular expressions.
func (o *FilterOptions) patterns(flag string, patterns []string) (all []*regexp.Regexp, err error) {
	for _, pattern := range patterns {
		re, err := regexp.Compile(pattern)
		if err == nil && o.IgnoreCase {
			re, err = regexp.Compile("(?i)" + pattern)
		}
		if err != nil {
			return nil, exit.Usagef("%s: %w", flag, err)
		}
		all = append(all, re)
	}
	return all, nil
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
		})
	}
	if len(o.Commands) > 0 {
		all = append(all, condition{
			shape:    func(s *trail.Shape) bool { return s != nil && hasCommand(o.Commands, string(s.Command)) },
			contents: selects(trail.TermsCommands, func(v []byte) bool { return hasCommand(o.Commands, string(v)) }),
		})
	}
	if len(o.Objects) > 0 {
		patterns := objectPatterns(o.Objects)
		uses := func(s *trail.Shape, path []string) bool { return s != nil && usesObject(s, patterns, path) }
		all = append(all, condition{names: uses, contents: func(c *trail.Contents) trail.Groups {
			// an index does not have the schemas in which a name was looked for: it may be any
			g := c.SelectShape(func(s *trail.Shape) bool { return uses(s, nil) })
			g.Or(c.SelectOmissions("relations", "objects")) // which the filter tells of: see Hides
			return g
		}})
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
	all = append(all, fact(trail.KeyUser, trail.TermsUsers, o.Users)...)
	all = append(all, fact(trail.KeyAppUser, trail.TermsAppUsers, o.AppUsers)...)
	if len(o.AppContexts) > 0 { // which no index has
		all = append(all, condition{session: func(s *trail.Session) bool {
			return slices.Contains(o.AppContexts, string(s.Fact(trail.KeyAppContext)))
		}})
	}
	all = append(all, fact(trail.KeyDatabase, trail.TermsDatabases, o.Databases)...)
	all = append(all, fact(trail.KeyApplication, trail.TermsApplications, o.Applications)...)
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
		if len(f.names) > 0 { // these may not have the class and command that are asked for, either
			g.Or(c.SelectResult(MayBeUnfinished))
		}
		if f.watched != nil {
			g.Or(f.watched.selectRenames(c)) // whatever else the filter asks for
		}
		return g
	}
}

// MayBeUnfinished says whether Record.Unfinished may be true for records of a kind and outcome.
func MayBeUnfinished(k trail.Kind, o trail.Outcome) bool {
	return k == trail.KindStart || k == trail.KindStatement && o == trail.OutcomeInterrupted
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
	c := condition{session: func(s *trail.Session) bool {
		role := s.Fact(trail.KeyRole)
		if len(role) == 0 {
			role = s.Fact(trail.KeyUser)
		}
		return slices.Contains(roles, string(role))
	}}
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

// fact is the condition that a fact of the session has one of the values; none when there
// are no values.
func fact(key trail.Key, list trail.Terms, values []string) []condition {
	if len(values) == 0 {
		return nil
	}
	c := condition{session: func(s *trail.Session) bool { return slices.Contains(values, string(s.Fact(key))) }}
	if !slices.Contains(values, "") { // of absent facts, an index says nothing
		c.contents = selects(list, func(v []byte) bool { return slices.Contains(values, string(v)) })
	}
	return []condition{c}
}

// isAddress says whether a value of --client is one that a session can have.
func isAddress(s string) bool {
	_, address := netip.ParseAddr(s)
	_, port := netip.ParseAddrPort(s)
	return s == "[local]" || address == nil || port == nil
}

// clients is the condition of --client: addresses and networks.
func clients(flag string, values []string) (condition, error) {
	var nets []netip.Prefix
	for _, v := range values {
		if !strings.Contains(v, "/") {
			if !isAddress(v) {
				return condition{}, exit.Usagef("%s: %q is not an address, such as 10.0.0.1, 10.0.0.1:50022, [2001:db8::7]:40000 or [local]", flag, v)
			}
			continue
		}
		p, err := netip.ParsePrefix(v)
		if err != nil {
			return condition{}, exit.Usagef("%s: %q is not a network", flag, v)
		}
		nets = append(nets, p.Masked())
	}
	return condition{session: func(s *trail.Session) bool {
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
	}}, nil
}

// verdict is what is kept of a definition that was looked at.
type verdict uint8

const (
	unknown verdict = iota
	yes
	no
	depends // on the record, which has the schemas in which names were looked for
)

// Matcher applies a filter to the records of one block after the other. Each
// definition is looked at once.
type Matcher struct {
	*Filter
	sessionOK, shapeOK []verdict
	namesOK            []verdict // of the shapes, by the names of relations and objects
	textOK, textNot    []verdict // of the texts, by --grep and by --not-grep
	printOK, printNot  []verdict // of the texts, by --fingerprint and by --not-fingerprint
	param              []byte
}

// Reset forgets the definitions of the block before.
func (m *Matcher) Reset() {
	m.sessionOK, m.shapeOK, m.namesOK, m.textOK, m.textNot = m.sessionOK[:0], m.shapeOK[:0], m.namesOK[:0], m.textOK[:0], m.textNot[:0]
	m.printOK, m.printNot = m.printOK[:0], m.printNot[:0]
}

// judged returns the verdict at an index, which is judged the first time.
func judged(list *[]verdict, i int, judge func() verdict) verdict {
	if i < 0 {
		return judge()
	}
	for len(*list) <= i {
		*list = append(*list, unknown)
	}
	if (*list)[i] == unknown {
		(*list)[i] = judge()
	}
	return (*list)[i]
}

// once is the same for what is either so or not.
func once(list *[]verdict, i int, judge func() bool) bool {
	return yes == judged(list, i, func() verdict {
		if judge() {
			return yes
		}
		return no
	})
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
	return m.guess(r) && m.hasNames(r) && m.hasTexts(r)
}

// Unnamed is why a record of a statement that had not ended may be one that is asked for.
const Unnamed = "does not state its relations, because the statement had not ended"

// Hides says why a record may be one that is asked for although it is not chosen: it lacks names
// of relations and objects, in words that follow "it". It is empty for all others.
func (m *Matcher) Hides(r *trail.Record) string {
	if len(m.names) == 0 {
		return ""
	}
	why := r.OmitsNames()
	if why == "" && r.Unfinished() {
		why = Unnamed
	}
	switch {
	case why == "" || m.hasNames(r) || !m.guessRest(r) || !m.hasTexts(r):
		return ""
	case r.Shape == nil && r.Unfinished(): // nor is its class known
		return why
	case !m.guessShape(r):
		return ""
	}
	return why
}

// hasTexts says whether text, message, parameters and fingerprint are as asked for.
func (m *Matcher) hasTexts(r *trail.Record) bool {
	return (len(m.grep) == 0 || m.contains(r, m.grep, &m.textOK)) &&
		(len(m.notGrep) == 0 || !m.contains(r, m.notGrep, &m.textNot)) &&
		(len(m.fingerprints) == 0 || m.hasFingerprint(r, m.fingerprints, &m.printOK)) &&
		(len(m.notFingerprints) == 0 || !m.hasFingerprint(r, m.notFingerprints, &m.printNot))
}

// hasFingerprint says whether a record has one of the fingerprints.
func (m *Matcher) hasFingerprint(r *trail.Record, wanted []uint64, texts *[]verdict) bool {
	judge := func() bool {
		n, ok := statement.Fingerprint(r, &m.param)
		return ok && slices.Contains(wanted, n)
	}
	if r.Text == nil || r.Shape != nil && r.Shape.QueryID != 0 {
		return judge()
	}
	return once(texts, r.TextIndex, judge)
}

// hasNames says whether the relations and objects that the record has are as asked for.
func (m *Matcher) hasNames(r *trail.Record) bool {
	if len(m.names) == 0 {
		return true
	}
	v := judged(&m.namesOK, r.ShapeIndex, func() verdict {
		switch {
		case hasBareNames(r.Shape):
			return depends
		case m.allNames(r.Shape, nil):
			return yes
		}
		return no
	})
	return v == yes || v == depends && m.allNames(r.Shape, searchPath(r))
}

// allNames says whether names are as asked for, if those without a schema were looked for in a path.
func (f *Filter) allNames(s *trail.Shape, path []string) bool {
	return !slices.ContainsFunc(f.names, func(test nameTest) bool { return !test(s, path) })
}

// hasBareNames says whether a shape has names that are written without a schema.
func hasBareNames(s *trail.Shape) bool {
	return s != nil && slices.ContainsFunc(s.Relations, func(r trail.Relation) bool { return isBare(&r) })
}

// isBare says whether a relation is one that was not looked up, and is named without a schema.
func isBare(r *trail.Relation) bool {
	return r.Access&trail.AccessWritten != 0 && lastDot(string(r.Name)) < 0
}

// searchPath is the schemas in which the names of a record were looked for that are written without one, nil if that is
// not known. Those that the server searches without being told are among them.
func searchPath(r *trail.Record) []string {
	value, ok := r.SearchPath()
	if !ok {
		return nil
	}
	path := []string{"pg_catalog", "pg_temp"}
	quoted, begin := false, 0
	for i := 0; i <= len(value); i++ {
		switch {
		case i < len(value) && value[i] == '"':
			quoted = !quoted
		case i == len(value) || value[i] == ',' && !quoted:
			schema := strings.TrimSpace(string(value[begin:i]))
			if schema == `"$user"` { // the name of the role was not known
				return nil
			}
			if schema != "" {
				path = append(path, schema)
			}
			begin = i + 1
		}
	}
	return path
}

// Guess is what of Keep does not look at text, message and parameters, and relations and objects
// that are in data parts.
func (m *Matcher) Guess(r *trail.Record) bool {
	return m.guess(r) && (m.hasNames(r) || r.GoesOn())
}

func (m *Matcher) guess(r *trail.Record) bool { return m.guessRest(r) && m.guessShape(r) }

func (m *Matcher) guessShape(r *trail.Record) bool {
	return len(m.shapes) == 0 || once(&m.shapeOK, r.ShapeIndex, func() bool { return all(m.shapes, r.Shape) })
}

func (m *Matcher) guessRest(r *trail.Record) bool {
	for _, test := range m.records {
		if !test(r) {
			return false
		}
	}
	return len(m.sessions) == 0 || once(&m.sessionOK, r.SessionIndex, func() bool { return all(m.sessions, r.Session) })
}

// Want is what of Keep can be said of a session or a shape alone.
func (f *Filter) Want() (w trail.Want) {
	if len(f.sessions) > 0 {
		w.Session = func(s *trail.Session) bool { return all(f.sessions, s) }
	}
	if f.watched != nil {
		w.Always = f.renaming
	}
	if len(f.shapes)+len(f.names) > 0 {
		w.Shape = func(s *trail.Shape) bool { return all(f.shapes, s) && (hasBareNames(s) || f.allNames(s, nil)) }
	}
	return w
}

// contains says whether text, message or one of the parameters matches one of the patterns.
func (m *Matcher) contains(r *trail.Record, patterns []*regexp.Regexp, texts *[]verdict) bool {
	text := func() bool { return matches(patterns, r.Text) }
	if r.Text != nil && r.TextIndex >= 0 && once(texts, r.TextIndex, text) || r.TextIndex < 0 && text() {
		return true
	}
	return matches(patterns, r.Message) || m.paramMatches(r, patterns)
}

// matches says whether one of the patterns matches a string that is there.
func matches(patterns []*regexp.Regexp, s []byte) bool {
	return s != nil && slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.Match(s) })
}

// paramMatches looks at parameters as they are shown, each by itself.
func (m *Matcher) paramMatches(r *trail.Record, patterns []*regexp.Regexp) bool {
	if r.Shape == nil || len(r.Shape.Params) == 0 || !r.HasParams() {
		return false
	}
	found := false
	r.Params(func(p trail.ParamType, value []byte, null bool) bool {
		if null || p.Repr == trail.ReprNone {
			return true
		}
		m.param = trail.AppendParam(m.param[:0], p.Repr, value)
		found = matches(patterns, m.param)
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
	// bare and bareRelation find the same names if they are written without a schema, which may be any.
	bare, bareRelation *regexp.Regexp
}

// objectPatterns makes regular expressions of names with wildcards.
func objectPatterns(names []string) []objectPattern {
	compile := func(name string) *regexp.Regexp {
		return regexp.MustCompile("^(?s:" + strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, ".*") + ")$")
	}
	var patterns []objectPattern
	for _, name := range names {
		for _, n := range spellings(name) {
			p := objectPattern{whole: compile(n), bare: compile(withoutSchema(n))}
			if i := lastDot(n); i >= 0 {
				p.relation, p.bareRelation = compile(n[:i]), compile(withoutSchema(n[:i]))
			}
			patterns = append(patterns, p)
		}
	}
	return patterns
}

var plainQuoted = regexp.MustCompile(`"([a-z_][a-z0-9_$]*)"`)

// spellings are a name as it is written, and as the server may spell it: without quotes it is in lower case, quotes that
// are not necessary are omitted, and those that a record has, though SQL does not need them everywhere (after a dot, or for
// letters that are not ASCII), are added.
func spellings(name string) []string {
	folded, quoted := []byte(name), false
	for i, c := range folded {
		switch {
		case c == '"':
			quoted = !quoted
		case !quoted && 'A' <= c && c <= 'Z':
			folded[i] += 'a' - 'A'
		}
	}
	plain := plainQuoted.ReplaceAllString(string(folded), "$1")
	all := append(quotedParts(plain), name, string(folded), plain)
	slices.Sort(all)
	return slices.Compact(all)
}

// quotedParts are a name with quotes around some of its parts that have none.
func quotedParts(name string) []string {
	if strings.IndexByte(name, '(') >= 0 { // a function's arguments are types
		return nil
	}
	dot := lastDot(name)
	last := name[dot+1:]
	all := []string{last}
	if last != "" && last[0] != '"' {
		all = append(all, `"`+last+`"`)
	}
	if dot < 0 {
		return all
	}
	var both []string
	for _, before := range append(quotedParts(name[:dot]), name[:dot]) {
		for _, one := range all {
			both = append(both, before+"."+one)
		}
	}
	return both
}

// withoutSchema is a pattern for what another one finds if the schema before it may be any. Without a dot, a wildcard may
// stand for the schema and for the beginning of the name.
func withoutSchema(pattern string) string {
	if dot := lastDot(pattern); dot >= 0 {
		return pattern[dot+1:]
	}
	if star := strings.LastIndexByte(pattern, '*'); star >= 0 {
		return pattern[star:]
	}
	return pattern
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

// fitsWritten says whether a relation that is named without a schema, in a statement that failed before it was looked
// up, may be the one of the pattern, or has its column: it is looked for in the schemas of a path; nil: in any.
func (p *objectPattern) fitsWritten(r *trail.Relation, path []string) bool {
	if !isBare(r) {
		return false
	}
	if path == nil {
		return p.bare.Match(r.Name) || p.bareRelation != nil && p.bareRelation.Match(r.Name)
	}
	return slices.ContainsFunc(path, func(schema string) bool {
		name := slices.Concat([]byte(schema), []byte("."), r.Name)
		return p.whole.Match(name) || p.relation != nil && p.relation.Match(name)
	})
}

// usesObject says whether a relation or an object of a shape, or a column of a relation, has a
// name that fits: as it stands, or without its schema.
func usesObject(s *trail.Shape, patterns []objectPattern, path []string) bool {
	for _, p := range patterns {
		for i := range s.Relations {
			if r := &s.Relations[i]; fits(p.whole, r.Name) || p.fitsColumn(r) || p.fitsWritten(r, path) {
				return true
			}
		}
		for i := range s.Objects {
			if o := &s.Objects[i]; fitsObject(p.whole, o.Name) || len(o.To) > 0 && fitsObject(p.whole, o.To) {
				return true
			}
		}
	}
	return false
}

// fitsObject says the same of an object: DDL of a function names its arguments, calls do not.
func fitsObject(re *regexp.Regexp, name []byte) bool {
	if fits(re, name) {
		return true
	}
	bare := withoutArguments(name)
	return len(bare) < len(name) && fits(re, bare)
}

// withoutArguments is the name of a function without its arguments, or any other name.
func withoutArguments(name []byte) []byte {
	quoted := false
	for i, c := range name {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '(' && !quoted && i > 0:
			return name[:i]
		}
	}
	return name
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
