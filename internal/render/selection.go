// Lines of chosen fields, for text, json and csv.

package render

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// TakesFields returns whether a format can show chosen fields.
func TakesFields(f Format) bool { return f == Text || f == JSON || f == CSV }

// CheckFields returns an error for names that are no fields, or that occur twice.
func CheckFields(names []string) error {
	for i, name := range names {
		if !slices.Contains(Columns, name) {
			if near := nearest(name, Columns); near != "" {
				return fmt.Errorf("unknown field %q: did you mean %q?", name, near)
			}
			return fmt.Errorf("unknown field %q: the fields are %s", name, strings.Join(Columns, ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("field %q is named twice", name)
		}
	}
	return nil
}

// nearest returns the name that differs least from the given one; empty if all differ too much.
func nearest(given string, names []string) string {
	best, least := "", 1+len(given)/3
	for _, name := range names {
		if d := Distance(strings.ToLower(given), name); d <= least && d < len(name) && (best == "" || d < least) {
			best, least = name, d
		}
	}
	return best
}

// mostCompared bounds the number of characters that Distance compares.
const mostCompared = 200

// Distance returns how many characters must be inserted, removed or replaced to turn one string into the other
// (Levenshtein).
func Distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	x, y = x[:min(len(x), mostCompared)], y[:min(len(y), mostCompared)]
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		before := row[0]
		row[0] = i + 1
		for j := range y {
			d := before
			if x[i] != y[j] {
				d = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], d
		}
	}
	return row[len(y)]
}

// fieldSource says how the value of a field is found. Exactly one of number, word, text and nested is set.
type fieldSource struct {
	number func(r *format.Record) (n uint64, shown bool)
	word   func(s *selection, dst []byte, r *format.Record) []byte // plain characters
	quoted bool                                                    // JSON quotes the word
	text   func(r *format.Record) []byte                           // chosen by clients
	nested func(s *selection, dst []byte, r *format.Record) []byte // JSON
}

func ofFact(k format.Key) fieldSource {
	return fieldSource{text: func(r *format.Record) []byte { return r.Session.Fact(k) }}
}

func ofConnection(k format.Key) fieldSource {
	return fieldSource{text: func(r *format.Record) []byte {
		if !isConnection(r.Kind) {
			return nil
		}
		return r.Session.Fact(k)
	}}
}

func ofNumber(of func(r *format.Record) uint64) fieldSource {
	return fieldSource{number: func(r *format.Record) (uint64, bool) { n := of(r); return n, n != 0 }}
}

func ofPresent(f format.Field, of func(r *format.Record) uint64) fieldSource {
	return fieldSource{number: func(r *format.Record) (uint64, bool) { return of(r), r.Has(f) }}
}

func ofTime(known format.KnownTimes, of func(t *format.Times) uint64) fieldSource {
	return fieldSource{number: func(r *format.Record) (uint64, bool) {
		return of(&r.Times), r.Times.Known&known != 0
	}}
}

func ofRef(of func(ref *trail.BlockRef) uint64) fieldSource {
	return fieldSource{word: func(s *selection, dst []byte, _ *format.Record) []byte {
		return strconv.AppendUint(dst, of(s.ref), 10)
	}}
}

// fieldSources are all fields, by name.
var fieldSources = map[string]fieldSource{
	"time": {quoted: true, word: func(s *selection, dst []byte, r *format.Record) []byte {
		return s.clock.appendZoned(dst, r.Time, 'T')
	}},
	"kind": {quoted: true, word: func(_ *selection, dst []byte, r *format.Record) []byte {
		return append(dst, r.Kind.String()...)
	}},
	"session": {quoted: true, word: func(_ *selection, dst []byte, r *format.Record) []byte {
		return r.Session.ID().Append(dst)
	}},
	"seq":      ofNumber(func(r *format.Record) uint64 { return r.Seq }),
	"pid":      {number: func(r *format.Record) (uint64, bool) { return uint64(r.Session.PID), true }},
	"depth":    ofNumber(func(r *format.Record) uint64 { return r.Depth }),
	"xid":      ofNumber(func(r *format.Record) uint64 { return r.XID }),
	"rows":     ofPresent(format.FieldRows, func(r *format.Record) uint64 { return r.Rows }),
	"stream":   ofRef(func(ref *trail.BlockRef) uint64 { return uint64(ref.Segment.Stream.Number) }),
	"segment":  ofRef(func(ref *trail.BlockRef) uint64 { return ref.Segment.Number }),
	"block":    ofRef(func(ref *trail.BlockRef) uint64 { return ref.Number }),
	"user":     ofFact(format.KeyUser),
	"role":     ofFact(format.KeyRole),
	"app_user": ofFact(format.KeyAppUser), "app_context": ofFact(format.KeyAppContext),
	"database": ofFact(format.KeyDatabase), "application": ofFact(format.KeyApplication),
	"client": ofFact(format.KeyClient), "leader": ofFact(format.KeyLeader), "encoding": ofFact(format.KeyEncoding),
	"backend_type": ofConnection(format.KeyBackendType), "auth_method": ofConnection(format.KeyAuthMethod),
	"identity":     ofConnection(format.KeyIdentity),
	"statement":    ofNumber(func(r *format.Record) uint64 { return r.Statement }),
	"substatement": ofNumber(func(r *format.Record) uint64 { return r.Substatement }),
	"duration_us":  ofPresent(format.FieldDuration, func(r *format.Record) uint64 { return r.Duration }),
	"text_bytes":   ofPresent(format.FieldCut, func(r *format.Record) uint64 { return r.TextBytes }),
	"text_sha256": {quoted: true, word: func(_ *selection, dst []byte, r *format.Record) []byte {
		if !r.HasTextHash() {
			return dst
		}
		return hex.AppendEncode(dst, r.TextHash)
	}},
	"analysis_us":         ofTime(format.KnownAnalysis, func(t *format.Times) uint64 { return t.Analysis }),
	"plan_us":             ofTime(format.KnownPlan, func(t *format.Times) uint64 { return t.Plan }),
	"commit_us":           ofTime(format.KnownCommit, func(t *format.Times) uint64 { return t.Commit }),
	"elapsed_us":          ofTime(format.KnownElapsed, func(t *format.Times) uint64 { return t.Elapsed }),
	"leader_substatement": {number: func(r *format.Record) (uint64, bool) { return r.Session.LeaderSubstatement() }},
	"class": {quoted: true, word: func(_ *selection, dst []byte, r *format.Record) []byte {
		if r.Shape == nil || r.Shape.Class == 0 {
			return dst
		}
		return append(dst, r.Shape.Class.String()...)
	}},
	"command": {text: func(r *format.Record) []byte {
		if r.Shape == nil {
			return nil
		}
		return r.Shape.Command
	}},
	"query_command": {text: func(r *format.Record) []byte {
		if r.Shape == nil {
			return nil
		}
		return r.Shape.Query
	}},
	"prepared": {text: (*format.Record).Prepared},
	"portal":   {text: (*format.Record).Portal},
	"text":     {text: func(r *format.Record) []byte { return r.Text }},
	"message":  {text: func(r *format.Record) []byte { return r.Message }},
	"sqlstate": {text: func(r *format.Record) []byte {
		if !r.Has(format.FieldError) {
			return nil
		}
		return r.SQLState
	}},
	"outcome": {quoted: true, word: func(_ *selection, dst []byte, r *format.Record) []byte {
		if !r.Has(format.FieldOutcome) && !hasOutcome(r.Kind) {
			return dst
		}
		return append(dst, r.Outcome.String()...)
	}},
	"query_id": {word: func(_ *selection, dst []byte, r *format.Record) []byte {
		if r.Shape == nil || r.Shape.QueryID == 0 {
			return dst
		}
		return strconv.AppendInt(dst, int64(r.Shape.QueryID), 10)
	}},
	"rolled_back": {word: func(_ *selection, dst []byte, r *format.Record) []byte {
		if !r.Undone() {
			return dst
		}
		return append(dst, "true"...)
	}},
	"relations": {nested: func(_ *selection, dst []byte, r *format.Record) []byte {
		if r.Shape == nil || len(r.Shape.Relations) == 0 {
			return dst
		}
		return appendRelations(dst, r.Shape)
	}},
	"objects": {nested: func(_ *selection, dst []byte, r *format.Record) []byte {
		if r.Shape == nil || len(r.Shape.Objects) == 0 {
			return dst
		}
		return appendObjects(dst, r.Shape)
	}},
	"params": {nested: func(s *selection, dst []byte, r *format.Record) []byte {
		if !hasParams(r) {
			return dst
		}
		return appendParamArray(dst, r, &s.scratch)
	}},
	"extra": {nested: func(_ *selection, dst []byte, r *format.Record) []byte {
		if !r.HasNames() {
			return dst
		}
		return appendExtra(dst, r)
	}},
	"audited": {word: func(s *selection, dst []byte, r *format.Record) []byte {
		if r.Reasons() == format.AuditedSession {
			return dst
		}
		if s.format == JSON {
			return appendReasons(dst, r.Audited)
		}
		return appendWords(dst, r.Audited)
	}},
	"host":         {text: func(r *format.Record) []byte { return nil }}, // see selection.server
	"cluster_name": {text: func(r *format.Record) []byte { return nil }},
	"system_identifier": {quoted: true, word: func(s *selection, dst []byte, _ *format.Record) []byte {
		if s.ref.Segment.Header.SystemID == 0 {
			return dst
		}
		return strconv.AppendUint(dst, s.ref.Segment.Header.SystemID, 10)
	}},
}

// selection makes lines of the chosen fields. In text, tabs separate them, and absent ones are empty;
// appendSafe leaves no tab in a value.
type selection struct {
	format       Format
	names        []string
	fields       []fieldSource
	csv          csvFormat
	clock        clock
	ref          *trail.BlockRef
	servers      *trail.Servers
	blockServers []trail.Server
	value        []byte
	scratch      []byte
}

func newSelection(f Format, o Options) *selection {
	s := &selection{
		format:  f,
		names:   o.Fields,
		csv:     csvFormat{safe: !o.CSVUnsafe},
		clock:   clock{zone: o.Zone},
		servers: o.Servers,
	}
	for _, name := range o.Fields {
		source := fieldSources[name]
		switch name {
		case "host":
			source.text = func(r *format.Record) []byte { return []byte(s.server(r).Host) }
		case "cluster_name":
			source.text = func(r *format.Record) []byte { return []byte(s.server(r).Cluster) }
		}
		s.fields = append(s.fields, source)
	}
	return s
}

func (s *selection) Start(ref *trail.BlockRef) { s.ref, s.blockServers = ref, s.servers.Of(ref) }

func (s *selection) server(r *format.Record) *trail.Server {
	i := len(s.blockServers) - 1
	for i > 0 && r.Time < s.blockServers[i].Since {
		i--
	}
	return &s.blockServers[i]
}

func (s *selection) Append(dst []byte, r *format.Record) []byte {
	switch s.format {
	case JSON:
		return s.json(dst, r)
	case CSV:
		for i := range s.fields {
			dst = s.cell(dst, &s.fields[i], r)
		}
		return append(dst[:len(dst)-1], '\r', '\n')
	}
	for i := range s.fields {
		if i > 0 {
			dst = append(dst, '\t')
		}
		value, client := s.get(&s.fields[i], r)
		if client {
			dst = appendSafe(dst, value)
		} else {
			dst = append(dst, value...)
		}
	}
	return append(dst, '\n')
}

// get returns the value of a field, empty if it is absent; client says that clients choose its characters.
func (s *selection) get(f *fieldSource, r *format.Record) (value []byte, client bool) {
	switch {
	case f.text != nil:
		return f.text(r), true
	case f.number != nil:
		n, shown := f.number(r)
		if !shown {
			return nil, false
		}
		s.value = strconv.AppendUint(s.value[:0], n, 10)
	case f.word != nil:
		s.value = f.word(s, s.value[:0], r)
	default:
		s.value = f.nested(s, s.value[:0], r)
	}
	return s.value, false
}

func (s *selection) json(dst []byte, r *format.Record) []byte {
	dst = append(dst, '{')
	from := len(dst)
	for i := range s.fields {
		f := &s.fields[i]
		value, client := s.get(f, r)
		if len(value) == 0 && (s.names[i] != "text" || value == nil) {
			continue
		}
		if len(dst) > from {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), s.names[i]...), '"', ':')
		switch {
		case client:
			dst = appendJSON(dst, value)
		case f.quoted:
			dst = append(append(append(dst, '"'), value...), '"')
		default:
			dst = append(dst, value...)
		}
	}
	return append(dst, '}', '\n')
}

// cell appends a field as a value of csv and the comma after it.
func (s *selection) cell(dst []byte, f *fieldSource, r *format.Record) []byte {
	value, client := s.get(f, r)
	if client || f.nested != nil {
		return s.csv.cell(dst, value)
	}
	return append(append(dst, value...), ',')
}
