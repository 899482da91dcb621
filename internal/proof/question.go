// The question that a proof answers.

package proof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Question is what a proof answers: is this record in the trail, or which records of a
// range match a filter. A question about a range is answered completely.
type Question struct {
	// Record is SESSION/SEQ; empty for a range.
	Record string `json:"record,omitempty"`
	// Filter chooses records. Since and Until of a range are moments with a date and an
	// offset.
	Filter query.FilterOptions `json:"filter"`
	// Full says that indexes are not relied on.
	Full bool `json:"full,omitempty"`
}

// NewRecordQuestion returns the question for a record, SESSION/SEQ.
func NewRecordQuestion(record string) (*Question, error) {
	q := &Question{Record: record}
	if _, _, err := q.record(); err != nil {
		return nil, exit.Usagef("--record: %w", err)
	}
	return q, nil
}

// NewRangeQuestion returns the question for the records of a range that match a filter.
func NewRangeQuestion(filter query.FilterOptions, full bool, now time.Time) (*Question, error) {
	f, err := filter.Filter(now)
	if err != nil {
		return nil, err
	}
	if f.Since == trail.MinTime || f.Until == trail.MaxTime {
		return nil, exit.Usagef("a proof is about a range: give --since and --until, or --record")
	}
	filter.Since, filter.Until, filter.Zone = render.Time(f.Since), render.Time(f.Until), nil
	return &Question{Filter: filter, Full: full}, nil
}

// record returns the session and number of the record that is asked for.
func (q *Question) record() (session string, seq uint64, err error) {
	session, number, _ := strings.Cut(q.Record, "/")
	seq, err = strconv.ParseUint(number, 10, 64)
	if err != nil || seq == 0 || strconv.FormatUint(seq, 10) != number || !trail.IsSessionID(session) {
		return "", 0, fmt.Errorf("%q is not a session ID and sequence number, such as 6b0202d9.fa1/17", q.Record)
	}
	return session, seq, nil
}

// MarshalJSON returns the question as a proof has it: without filters that are not set.
func (q *Question) MarshalJSON() ([]byte, error) {
	o := struct {
		Record string         `json:"record,omitempty"`
		Filter map[string]any `json:"filter,omitempty"`
		Full   bool           `json:"full,omitempty"`
	}{q.Record, q.conditions(), q.Full}
	if q.Record == "" {
		o.Filter["Since"], o.Filter["Until"] = q.Filter.Since, q.Filter.Until
	}
	return json.Marshal(o)
}

// decodeQuestion reads a question. One that this program does not know in every part would
// be answered wrongly: it is refused.
func decodeQuestion(b []byte) (*Question, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	q := &Question{}
	if err := d.Decode(q); err != nil {
		return nil, fmt.Errorf("the question cannot be read: %w", err)
	}
	if d.More() {
		return nil, fmt.Errorf("the question cannot be read: bytes follow it")
	}
	if q.Record != "" {
		if len(q.conditions()) > 0 || q.Full || q.Filter.Since+q.Filter.Until != "" {
			return nil, fmt.Errorf("the question is about a record and about a range")
		}
		_, _, err := q.record()
		return q, err
	}
	f, err := q.Filter.Filter(time.Time{})
	if err != nil {
		return nil, fmt.Errorf("the question cannot be read: %w", err)
	}
	// What means nothing would look like a part of the question.
	if not := q.Filter.Not; q.Filter.Zone != nil || not != nil && (not.Since+not.Until+not.MinDuration != "" || not.Failed || not.IgnoreCase || not.Not != nil || not.Zone != nil) {
		return nil, fmt.Errorf("the question has filters that mean nothing")
	}
	// "yesterday" would mean another day each time.
	if f.Since == trail.MinTime || f.Until == trail.MaxTime || render.Time(f.Since) != q.Filter.Since || render.Time(f.Until) != q.Filter.Until {
		return nil, fmt.Errorf("the question has no range")
	}
	return q, nil
}

// conditions are the filters other than the range, by their names in FilterOptions.
func (q *Question) conditions() map[string]any {
	var all map[string]any
	b, _ := json.Marshal(q.Filter)
	_ = json.Unmarshal(b, &all)
	delete(all, "Since")
	delete(all, "Until")
	removeEmpty(all)
	return all
}

// removeEmpty removes filters that are not set.
func removeEmpty(all map[string]any) {
	maps.DeleteFunc(all, func(_ string, v any) bool {
		switch v := v.(type) {
		case []any:
			return len(v) == 0
		case map[string]any:
			removeEmpty(v)
			return len(v) == 0
		default:
			return v == nil || v == "" || v == false || v == 0.0
		}
	})
}

// same says whether two questions are the same.
func (q *Question) same(o *Question) bool {
	a, _ := json.Marshal(q.conditions())
	b, _ := json.Marshal(o.conditions())
	return q.Record == o.Record && q.Filter.Since == o.Filter.Since && q.Filter.Until == o.Filter.Until && bytes.Equal(a, b)
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
	return fmt.Sprintf("%s, that started from %s on and before %s", what, q.Filter.Since, q.Filter.Until)
}

// describe returns filters in words.
func describe(prefix string, conditions map[string]any) (words []string) {
	for _, name := range slices.Sorted(maps.Keys(conditions)) {
		switch v := conditions[name].(type) {
		case map[string]any:
			words = append(words, describe(strings.ToLower(name)+"-", v)...)
		case bool:
			words = append(words, prefix+flagOf(name))
		default:
			b, _ := json.Marshal(v)
			words = append(words, prefix+flagOf(name)+" "+strings.Trim(string(b), "[]"))
		}
	}
	return words
}

// flagOf is the flag that a field of FilterOptions comes from.
func flagOf(field string) string {
	switch field {
	case "Classes":
		return "class"
	case "AppUsers":
		return "app-user"
	case "Identities":
		return "identity"
	case "AppContexts":
		return "app-context"
	case "MinDuration":
		return "min-duration"
	case "IgnoreCase":
		return "ignore-case"
	}
	return strings.TrimSuffix(strings.ToLower(field), "s")
}
