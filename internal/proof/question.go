// The question that a proof answers.

package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
)

// Question is the question that a proof answers: is this record in the trail, or which records of a range match a
// filter. The answer about a range is complete.
type Question struct {
	// Record is SESSION/SEQ; empty for a range.
	Record string
	// Filter chooses records of a range that has a beginning and an end.
	Filter query.Criteria
	Range  query.Range
	// Full says that the proof must not rely on indexes.
	Full bool
}

// NewRecordQuestion returns the question for a record, SESSION/SEQ.
func NewRecordQuestion(record string) (*Question, error) {
	q := &Question{Record: record}
	if _, _, err := q.record(); err != nil {
		return nil, err
	}
	return q, nil
}

// NewRangeQuestion returns the question for the records of a range that match a filter.
func NewRangeQuestion(filter query.Criteria, within query.Range, full bool) (*Question, error) {
	if !within.IsBounded() {
		return nil, errUnbounded
	}
	for _, c := range []*query.Criteria{&filter, filter.Not} {
		if c != nil && (c.TopLevel || c.OffHours != nil || len(c.Fingerprints) > 0) {
			return nil, errors.New("fingerprints, working hours, and whether clients sent a statement, are no part " +
				"of questions that are proved")
		}
	}
	return &Question{Filter: filter, Range: within, Full: full}, nil
}

var errUnbounded = errors.New("the question has no range")

// record returns the session and number of the record of the question.
func (q *Question) record() (session format.SessionID, seq uint64, err error) {
	text, number, _ := strings.Cut(q.Record, "/")
	session, err = query.ParseSession(text)
	seq, err2 := strconv.ParseUint(number, 10, 64)
	if err != nil || err2 != nil || seq == 0 || strconv.FormatUint(seq, 10) != number {
		return session, 0, fmt.Errorf("%q is not a session ID and sequence number, such as 6b0202d9.fa1/17", q.Record)
	}
	return session, seq, nil
}

// ---- in files ----

// questionJSON is the form of a question in proofs and reports.
type questionJSON struct {
	Record string         `json:"record,omitempty"`
	Filter map[string]any `json:"filter,omitempty"` // without filters that are not set
	Full   bool           `json:"full,omitempty"`
}

// MarshalJSON returns the form of the question in proofs.
func (q *Question) MarshalJSON() ([]byte, error) {
	w := questionJSON{q.Record, q.conditions(), q.Full}
	if q.Record == "" {
		w.Filter["Since"], w.Filter["Until"] = render.Time(q.Range.Since), render.Time(q.Range.Until)
	}
	return json.Marshal(w)
}

// decodeQuestion reads a question. It refuses one that has parts which this program does not know, because it would
// answer it wrongly.
func decodeQuestion(b []byte) (*Question, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var w questionJSON
	if err := d.Decode(&w); err != nil {
		return nil, fmt.Errorf("the question cannot be read: %w", err)
	}
	if d.More() {
		return nil, errors.New("the question cannot be read: bytes follow it")
	}
	if w.Record != "" {
		if len(w.Filter) > 0 || w.Full {
			return nil, errors.New("the question is about a record and about a range")
		}
		return NewRecordQuestion(w.Record)
	}
	q := &Question{Full: w.Full}
	for _, end := range []struct {
		name string
		to   *int64
	}{{"Since", &q.Range.Since}, {"Until", &q.Range.Until}} {
		text, _ := w.Filter[end.name].(string)
		when, err := query.ParseWhen(text, time.Time{})
		// "yesterday" would mean another day each time.
		if err != nil || render.Time(when) != text {
			return nil, errUnbounded
		}
		*end.to = when
		delete(w.Filter, end.name)
	}
	if _, err := query.NewRange(q.Range.Since, q.Range.Until); err != nil {
		return nil, fmt.Errorf("the question cannot be read: %w", err)
	}
	var err error
	if q.Filter, err = readCriteria(w.Filter); err != nil {
		return nil, fmt.Errorf("the question cannot be read: %w", err)
	}
	return q, nil
}

// conditions returns the filters that are set, by their names in files.
func (q *Question) conditions() map[string]any {
	all := writeLists(&q.Filter)
	if q.Filter.Failed {
		all["Failed"] = true
	}
	if q.Filter.MinDuration != nil {
		all["MinDuration"] = query.DurationText(*q.Filter.MinDuration)
	}
	if q.Filter.Not != nil {
		if not := writeLists(q.Filter.Not); len(not) > 0 {
			all["Not"] = not
		}
	}
	return all
}

func writeLists(c *query.Criteria) map[string]any {
	all := map[string]any{}
	for _, l := range query.Lists() {
		if values := l.Values(c); l.Field != "" && len(values) > 0 {
			all[l.Field] = values
		}
	}
	return all
}

// readCriteria reads the result of conditions, also in the spelling of earlier versions.
func readCriteria(fields map[string]any) (c query.Criteria, err error) {
	ignoresCase := false
	for name, v := range fields {
		ok := false
		switch name {
		case "Failed":
			c.Failed, ok = v.(bool)
		case "IgnoreCase":
			ignoresCase, ok = v.(bool)
		case "MinDuration":
			var text string
			if text, ok = v.(string); ok {
				least, err := query.ParseDuration(text)
				if err != nil {
					return c, err
				}
				c.MinDuration = &least
			}
		case "Not":
			var not map[string]any
			if not, ok = v.(map[string]any); ok {
				c.Not = &query.Criteria{}
				for name, v := range not {
					if err := readList(c.Not, name, v); err != nil {
						return c, err
					}
				}
			}
		default:
			if err := readList(&c, name, v); err != nil {
				return c, err
			}
			ok = true
		}
		if !ok {
			return c, fmt.Errorf("filter %s is not of its type", render.Quoted(name))
		}
	}
	if ignoresCase {
		err = c.IgnoreCase()
	}
	return c, err
}

// readList reads the values of a filter.
func readList(c *query.Criteria, name string, v any) error {
	for _, l := range query.Lists() {
		if name == "" || l.Field != name {
			continue
		}
		values, ok := v.([]any)
		for _, value := range values {
			text, isText := value.(string)
			if ok = ok && isText; !ok {
				break
			}
			if err := l.Add(c, text); err != nil {
				return err
			}
		}
		if !ok {
			return fmt.Errorf("filter %s is not of its type", render.Quoted(name))
		}
		return nil
	}
	return fmt.Errorf("there is no filter %s", render.Quoted(name))
}

// same reports whether two questions are the same.
func (q *Question) same(o *Question) bool {
	a, _ := json.Marshal(q.conditions())
	b, _ := json.Marshal(o.conditions())
	return q.Record == o.Record && q.Range == o.Range && bytes.Equal(a, b)
}

// String returns the question in words.
func (q *Question) String() string {
	if q.Record != "" {
		return "record " + q.Record
	}
	words := describe("", q.conditions())
	what := "all records"
	if len(words) > 0 {
		what = "records with " + strings.Join(words, ", and ")
	}
	return fmt.Sprintf("%s, that started from %s on and before %s", what, render.Time(q.Range.Since),
		render.Time(q.Range.Until))
}

// describe returns filters in words.
func describe(prefix string, conditions map[string]any) (words []string) {
	for _, field := range slices.Sorted(maps.Keys(conditions)) {
		switch v := conditions[field].(type) {
		case map[string]any:
			words = append(words, describe("not-", v)...)
		case bool:
			words = append(words, prefix+nameOf(field))
		default:
			b, _ := json.Marshal(v)
			words = append(words, prefix+nameOf(field)+" "+strings.Trim(string(b), "[]"))
		}
	}
	return words
}

// nameOf returns the name of a filter in questions.
func nameOf(field string) string {
	for _, l := range query.Lists() {
		if l.Field == field {
			return l.Name
		}
	}
	return map[string]string{"Failed": "failed", "MinDuration": "min-duration"}[field]
}
