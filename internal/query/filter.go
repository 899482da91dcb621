// Package query chooses what of a trail is read: which records, by filters; which blocks,
// by positions; when, in the words of people; and with which keys.
//
// What is asked for is values of types (Criteria, Range, Position). Each has a function that reads it from a
// text, whose error quotes the text. Where the text comes from, such as a flag, is not known here:
// internal/command/flags adds it.
package query

import (
	"regexp"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/statement"
)

// Filter is criteria made ready for use. It does not change, and may be used by many goroutines.
type Filter struct {
	sessions []func(*format.Session) bool
	shapes   []func(*format.Shape) bool // these are asked of records without a shape, too: nil
	names    []nameTest                 // the same about names of relations and objects
	records  []func(*format.Record) bool
	texts    []textTest

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
		c.at = len(f.texts)
		f.texts = append(f.texts, c.text)
	}
	if c.whyUncertain != nil {
		f.doubtful = append(f.doubtful, c)
	}
	f.conditions = append(f.conditions, c)
}

// Filter makes a filter, on which later changes of the criteria have no effect.
func (c *Criteria) Filter() *Filter {
	c = c.clone()
	f := &Filter{watched: c.renames()}
	for i := range lists {
		if len(lists[i].values(c)) > 0 {
			f.add(lists[i].condition(c))
		}
	}
	if c.Failed {
		f.add(condition{record: (*format.Record).Failed, contents: SelectFailed})
	}
	if c.MinDuration != nil {
		f.add(lastsFor(uint64(c.MinDuration.Microseconds())))
	}
	if c.TopLevel {
		f.add(condition{record: func(r *format.Record) bool { return r.Depth == 0 }})
	}
	if c.OffHours != nil {
		f.add(offHours(c.OffHours))
	}
	for i := range lists {
		if c.Not != nil && len(lists[i].values(c.Not)) > 0 {
			f.add(lists[i].condition(c.Not).negated())
		}
	}
	return f
}

// Contents selects the groups of blocks of a segment's index that may have matching
// records. It is nil if the filter says nothing about what an index has.
func (f *Filter) Contents() func(*format.Contents) format.Groups {
	if !slices.ContainsFunc(f.conditions, func(c condition) bool { return c.contents != nil }) {
		return nil
	}
	return func(c *format.Contents) format.Groups {
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
	dependsOnPath // on the record, which has the schemas in which names were looked for
)

// Matcher applies a filter to the records of one block after the other. Each
// definition is looked at once.
type Matcher struct {
	*Filter
	// Apart says that data parts of records are not joined: what is in them may be anything.
	Apart bool

	sessionOK, shapeOK []verdict
	namesOK            []verdict   // of the shapes, by the names of relations and objects
	textsOK            [][]verdict // of the texts, by each of the filter's tests of them
	param              []byte
}

// Reset forgets the definitions of the block before.
func (m *Matcher) Reset() {
	m.sessionOK, m.shapeOK, m.namesOK = m.sessionOK[:0], m.shapeOK[:0], m.namesOK[:0]
	for i := range m.textsOK {
		m.textsOK[i] = m.textsOK[i][:0]
	}
}

// textVerdicts are the verdicts about texts of one of the filter's tests.
func (m *Matcher) textVerdicts(test int) *[]verdict {
	for len(m.textsOK) <= test {
		m.textsOK = append(m.textsOK, nil)
	}
	return &m.textsOK[test]
}

// judgeOnce returns the verdict at an index, which is judged the first time.
func judgeOnce(list *[]verdict, i int, judge func() verdict) verdict {
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

// testOnce is the same for what is either so or not.
func testOnce(list *[]verdict, i int, judge func() bool) bool {
	return yes == judgeOnce(list, i, func() verdict {
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
func (m *Matcher) Keep(r *format.Record) bool {
	return m.guess(r) && m.hasNames(r) && m.hasTexts(r)
}

// Hides says why a record may be one that is asked for although it is not chosen: it does not say enough for some of
// the conditions, and fulfills all others. The words follow "it"; empty for all other records.
func (m *Matcher) Hides(r *format.Record) (why string) {
	if r.Kind != format.KindStatement && r.Kind != format.KindStart {
		return ""
	}
	if !slices.ContainsFunc(m.doubtful, func(c condition) bool { return c.whyUncertain(r) != "" }) {
		return "" // as almost all
	}
	for i := range m.conditions {
		c := &m.conditions[i]
		if c.holds(m, r) {
			continue
		}
		reason := ""
		if c.whyUncertain != nil {
			reason = c.whyUncertain(r)
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
func (m *Matcher) hasTexts(r *format.Record) bool {
	for i, test := range m.texts {
		if !test(m, r, m.textVerdicts(i)) {
			return false
		}
	}
	return true
}

// hasFingerprint says whether a record has one of the fingerprints.
func (m *Matcher) hasFingerprint(r *format.Record, wanted []uint64, texts *[]verdict) bool {
	judge := func() bool {
		n, ok := statement.Fingerprint(r, &m.param)
		return ok && slices.Contains(wanted, n)
	}
	if r.Text == nil || r.Shape != nil && r.Shape.QueryID != 0 {
		return judge()
	}
	return testOnce(texts, r.TextIndex, judge)
}

// hasNames says whether the relations and objects that the record has are as asked for.
func (m *Matcher) hasNames(r *format.Record) bool {
	if len(m.names) == 0 {
		return true
	}
	v := judgeOnce(&m.namesOK, r.ShapeIndex, func() verdict {
		switch {
		case hasBareNames(r.Shape):
			return dependsOnPath
		case m.allNames(r.Shape, nil):
			return yes
		}
		return no
	})
	return v == yes || v == dependsOnPath && m.allNames(r.Shape, searchPath(r))
}

// allNames says whether names are as asked for, if those without a schema were looked for in a path.
func (f *Filter) allNames(s *format.Shape, path []string) bool {
	return !slices.ContainsFunc(f.names, func(test nameTest) bool { return !test(s, path) })
}

// Guess is what of Keep does not look at text, message and parameters, and relations and objects
// that are in data parts.
func (m *Matcher) Guess(r *format.Record) bool {
	return m.guess(r) && (m.hasNames(r) || r.HasFurther())
}

func (m *Matcher) guess(r *format.Record) bool { return m.guessRest(r) && m.guessShape(r) }

func (m *Matcher) guessShape(r *format.Record) bool {
	return len(m.shapes) == 0 || testOnce(&m.shapeOK, r.ShapeIndex, func() bool { return all(m.shapes, r.Shape) })
}

func (m *Matcher) guessRest(r *format.Record) bool {
	for _, test := range m.records {
		if !test(r) {
			return false
		}
	}
	return len(m.sessions) == 0 || testOnce(&m.sessionOK, r.SessionIndex, func() bool {
		return all(m.sessions, r.Session)
	})
}

// Want is what of Keep can be said of a session or a shape alone.
func (f *Filter) Want() (w format.Want) {
	if len(f.sessions) > 0 {
		w.Session = func(s *format.Session) bool {
			return !slices.ContainsFunc(f.conditions, func(c condition) bool {
				return c.session != nil && !c.session(s) && (c.maybeUncertain == nil || !c.maybeUncertain(s))
			})
		}
	}
	if f.watched != nil {
		w.Always = f.isRename
	}
	if len(f.shapes)+len(f.names) > 0 {
		w.Shape = func(s *format.Shape) bool { return all(f.shapes, s) && (hasBareNames(s) || f.allNames(s, nil)) }
	}
	return w
}

// contains says whether text, message or one of the parameters matches one of the patterns.
func (m *Matcher) contains(r *format.Record, patterns []*regexp.Regexp, texts *[]verdict) bool {
	text := func() bool { return matches(patterns, r.Text) }
	if r.Text != nil && r.TextIndex >= 0 && testOnce(texts, r.TextIndex, text) || r.TextIndex < 0 && text() {
		return true
	}
	return matches(patterns, r.Message) || m.paramMatches(r, patterns)
}

// matches says whether one of the patterns matches a string that is there.
func matches(patterns []*regexp.Regexp, s []byte) bool {
	return s != nil && slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.Match(s) })
}

// paramMatches looks at parameters as they are shown, each by itself.
func (m *Matcher) paramMatches(r *format.Record, patterns []*regexp.Regexp) bool {
	if r.Shape == nil || len(r.Shape.Params) == 0 || !r.HasParams() {
		return false
	}
	found := false
	r.Params(func(p format.ParamType, value []byte, null bool) bool {
		if null || p.Repr == format.ReprNone {
			return true
		}
		m.param = format.AppendParam(m.param[:0], p.Repr, value)
		found = matches(patterns, m.param)
		return !found
	})
	return found
}
