// Package query says which part of a trail is read: records, by filters; blocks, by positions; times, as people
// write them; and with which keys.
//
// A question consists of values (Criteria, Range, Position). Each type has a function that parses it, whose
// error quotes the text. The package does not know where a text comes from, such as a flag: callers in
// internal/command add that.
//
// What must stay true: a filter never loses a record silently. Skipping blocks by an index does not change an
// answer, and what an answer may lack, because records do not say enough or names have changed, is reported
// (Hidden, Names, RenamedOutside).
package query

import (
	"regexp"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/statement"
)

// Filter is criteria prepared for evaluation. It is immutable, and several goroutines may use it.
type Filter struct {
	sessions []func(*format.Session) bool
	shapes   []func(*format.Shape) bool // also called with nil, for records without a shape
	names    []nameTest                 // tests of names of relations and objects
	records  []func(*format.Record) bool
	texts    []textTest

	// conditions has all conditions. doubtful has those for which some records do not say enough.
	conditions, doubtful []condition

	watched *renames // nil: the filter names nothing that can be renamed
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

// Filter prepares criteria. Later changes to them have no effect on the filter.
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

// Contents returns a function that selects the groups of an index that may have matching records; nil: an index
// cannot tell.
func (f *Filter) Contents() func(*format.Contents) format.Groups {
	if !slices.ContainsFunc(f.conditions, func(c condition) bool { return c.contents != nil }) {
		return nil
	}
	return func(c *format.Contents) format.Groups {
		g := c.All()
		for i := range f.conditions {
			if condition := &f.conditions[i]; condition.contents != nil {
				g.And(condition.groups(c))
			}
		}
		if f.watched != nil {
			g.Or(f.watched.selectRenames(c)) // whatever the other conditions are
		}
		return g
	}
}

// verdict is the kept result of testing a definition.
type verdict uint8

const (
	unknown verdict = iota
	yes
	no
	dependsOnPath // on the record, which has the search path for names
)

// Matcher applies a filter to the records of blocks, one block after the other. It tests each definition of a
// block once.
type Matcher struct {
	*Filter
	// WithoutParts says that records are not joined with their data parts, so what these contain is not known.
	WithoutParts bool

	sessionOK, shapeOK []verdict
	namesOK            []verdict   // of shapes, by names of relations and objects
	textsOK            [][]verdict // of texts, by the filter's test
	param              []byte
}

// Reset forgets the definitions of the previous block.
func (m *Matcher) Reset() {
	m.sessionOK, m.shapeOK, m.namesOK = m.sessionOK[:0], m.shapeOK[:0], m.namesOK[:0]
	for i := range m.textsOK {
		m.textsOK[i] = m.textsOK[i][:0]
	}
}

// textVerdicts returns the verdicts about texts for one of the filter's tests.
func (m *Matcher) textVerdicts(test int) *[]verdict {
	for len(m.textsOK) <= test {
		m.textsOK = append(m.textsOK, nil)
	}
	return &m.textsOK[test]
}

// judgeOnce returns the verdict at an index, and computes it the first time.
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

// testOnce does the same for verdicts that are yes or no.
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

// Keep returns whether the filter chooses a record.
func (m *Matcher) Keep(r *format.Record) bool {
	return m.guess(r) && m.hasNames(r) && m.hasTexts(r)
}

// HiddenReason returns why a record that is not chosen may be one that is asked for: it does not say enough for some
// conditions, and matches all others. The words follow "it"; empty for all other records.
func (m *Matcher) HiddenReason(r *format.Record) (why string) {
	if r.Kind != format.KindStatement && r.Kind != format.KindStart {
		return ""
	}
	if !slices.ContainsFunc(m.doubtful, func(c condition) bool { return c.whyUncertain(r) != "" }) {
		return "" // true for almost all records
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

// hasTexts returns whether text, message, parameters and fingerprint match.
func (m *Matcher) hasTexts(r *format.Record) bool {
	for i, test := range m.texts {
		if !test(m, r, m.textVerdicts(i)) {
			return false
		}
	}
	return true
}

// hasFingerprint returns whether a record has one of the fingerprints.
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

// hasNames returns whether the relations and objects that the record has match.
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

// allNames returns whether names match, if those without a schema were looked up in a path.
func (f *Filter) allNames(s *format.Shape, path []string) bool {
	return !slices.ContainsFunc(f.names, func(test nameTest) bool { return !test(s, path) })
}

// MayKeep does the same as Keep without checking text, message and parameters, and names in data parts: false is
// certain, true is not.
func (m *Matcher) MayKeep(r *format.Record) bool {
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

// Selection returns the parts of Keep that depend only on the session or only on the shape.
func (f *Filter) Selection() (w format.Selection) {
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

// contains returns whether text, message or a parameter matches one of the patterns.
func (m *Matcher) contains(r *format.Record, patterns []*regexp.Regexp, texts *[]verdict) bool {
	text := func() bool { return matches(patterns, r.Text) }
	if r.Text != nil && r.TextIndex >= 0 && testOnce(texts, r.TextIndex, text) || r.TextIndex < 0 && text() {
		return true
	}
	return matches(patterns, r.Message) || m.paramMatches(r, patterns)
}

// matches returns whether one of the patterns matches a string that is not nil.
func matches(patterns []*regexp.Regexp, s []byte) bool {
	return s != nil && slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.Match(s) })
}

// paramMatches does so for each parameter, as it is shown.
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
