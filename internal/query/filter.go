// Package query chooses what of a trail is read: which records, by filters; which blocks,
// by positions; when, in the words of people; and with which keys.
package query

import (
	"reflect"
	"regexp"
	"slices"
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
	Identities   []string
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
	texts        []textTest

	// conditions are all of them, one by one; doubtful are those that some records do not say enough for.
	conditions, doubtful []condition

	watched *renames // nil: no names that may change
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
	if c.text != nil {
		f.texts = append(f.texts, c.text)
	}
	if c.lacks != nil {
		f.doubtful = append(f.doubtful, c)
	}
	f.conditions = append(f.conditions, c)
}

// clone returns options that share nothing with these.
func (o *FilterOptions) clone() *FilterOptions {
	c := *o
	fields := reflect.ValueOf(&c).Elem()
	for i := range fields.NumField() {
		if list, ok := fields.Field(i).Addr().Interface().(*[]string); ok {
			*list = slices.Clone(*list)
		}
	}
	if o.Not != nil {
		c.Not = o.Not.clone()
	}
	return &c
}

// Filter checks the options, and makes a filter of them, on which later changes of the options have no effect.
func (o *FilterOptions) Filter(now time.Time) (*Filter, error) {
	o = o.clone()
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
	grep, err := o.patterns("--grep", o.Grep)
	if err != nil {
		return nil, err
	}
	if len(grep) > 0 {
		f.add(condition{
			text:     func(m *Matcher, r *trail.Record) bool { return m.contains(r, grep, &m.textOK) },
			contents: grepContents(grep), lacks: lacksText, unsure: selectCut,
		})
	}
	if o.Failed {
		f.add(condition{record: (*trail.Record).Failed, contents: SelectFailed})
	}
	if o.MinDuration != "" {
		least, err := ParseDuration(o.MinDuration)
		if err != nil {
			return nil, exit.Usagef("--min-duration: %w", err)
		}
		f.add(condition{record: func(r *trail.Record) bool { return r.Has(trail.FieldDuration) && r.Duration >= least }, lacks: lacksDuration})
	}
	if o.TopLevel {
		f.add(condition{record: func(r *trail.Record) bool { return r.Depth == 0 }})
	}
	if o.OffHours {
		f.add(offHours(o.Zone))
	}
	prints, err := fingerprints("--fingerprint", o.Fingerprints)
	if err != nil {
		return nil, err
	}
	if len(prints) > 0 {
		f.add(condition{text: func(m *Matcher, r *trail.Record) bool { return m.hasFingerprint(r, prints, &m.printOK) }})
	}
	if o.Not == nil {
		return f, nil
	}
	return f, f.exclude(o)
}

// exclude adds the conditions of Not.
func (f *Filter) exclude(o *FilterOptions) error {
	conditions, err := o.Not.conditions("--not-")
	if err != nil {
		return err
	}
	for _, c := range conditions {
		f.add(c.negated())
	}
	grep, err := o.patterns("--not-grep", o.Not.Grep)
	if err != nil {
		return err
	}
	if len(grep) > 0 {
		f.add(condition{text: func(m *Matcher, r *trail.Record) bool { return !m.contains(r, grep, &m.textNot) }})
	}
	prints, err := fingerprints("--not-fingerprint", o.Not.Fingerprints)
	if len(prints) > 0 {
		f.add(condition{text: func(m *Matcher, r *trail.Record) bool { return !m.hasFingerprint(r, prints, &m.printNot) }})
	}
	return err
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

// Contents selects the groups of blocks of a segment's index that may have matching
// records. It is nil if the filter says nothing about what an index has.
func (f *Filter) Contents() func(*trail.Contents) trail.Groups {
	if !slices.ContainsFunc(f.conditions, func(c condition) bool { return c.contents != nil }) {
		return nil
	}
	return func(c *trail.Contents) trail.Groups {
		g := c.All()
		for i := range f.conditions {
			if one := &f.conditions[i]; one.contents != nil {
				g.And(one.groups(c))
			}
		}
		if f.watched != nil {
			g.Or(f.watched.selectRenames(c)) // whatever else the filter asks for
		}
		return g
	}
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
	// Apart says that data parts of records are not joined: what is in them may be anything.
	Apart bool

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

// Hides says why a record may be one that is asked for although it is not chosen: it does not say enough for some of
// the conditions, and fulfills all others. The words follow "it"; empty for all other records.
func (m *Matcher) Hides(r *trail.Record) (why string) {
	if r.Kind != trail.KindStatement && r.Kind != trail.KindStart {
		return ""
	}
	if !slices.ContainsFunc(m.doubtful, func(c condition) bool { return c.lacks(r) != "" }) {
		return "" // as almost all
	}
	for i := range m.conditions {
		c := &m.conditions[i]
		if c.holds(m, r) {
			continue
		}
		reason := ""
		if c.lacks != nil {
			reason = c.lacks(r)
		}
		if reason == "" {
			return ""
		}
		if why == "" || reason != Untimed {
			why = reason
		}
	}
	return why
}

// hasTexts says whether text, message, parameters and fingerprint are as asked for.
func (m *Matcher) hasTexts(r *trail.Record) bool {
	for _, test := range m.texts {
		if !test(m, r) {
			return false
		}
	}
	return true
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
		w.Session = func(s *trail.Session) bool {
			return !slices.ContainsFunc(f.conditions, func(c condition) bool {
				return c.session != nil && !c.session(s) && (c.maybe == nil || !c.maybe(s))
			})
		}
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

// ListValue is a value as flags read it whose values have commas between them.
func ListValue(s string) string { return strings.ReplaceAll(s, ",", `\,`) }
