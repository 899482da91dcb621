// Finds all statements that contain a value, as a parameter or in the text.

package review

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// SubjectOptions are the values to look for.
type SubjectOptions struct {
	Source
	Values []string
	// Limit is the limit of statements in the list.
	Limit int
}

// ReviewSubject finds the statements that have one of the values.
func ReviewSubject(ctx context.Context, o SubjectOptions) (*Document, error) {
	var warnings warningCollector
	warn := o.Warn
	o.Warn = func(err error) {
		if warnings.warn(err) {
			warn(err)
		}
	}
	var values []*value
	var forms []string
	for _, s := range o.Values {
		v := newValue(s)
		values = append(values, v)
		forms = append(forms, v.forms()...)
	}
	slices.Sort(forms)
	visitors := make([]visitor, trail.Workers())
	all := make([]*subjectFinder, len(visitors))
	for i := range visitors {
		all[i] = &subjectFinder{values: values, found: events{limit: o.Limit}, uses: map[subjectUse]*subjectUses{},
			started: map[execution]*startedUse{}}
		visitors[i] = all[i]
	}
	lack, err := o.read(ctx, trail.ScanOptions{Since: o.Since, Until: o.Until, Parts: true, Rollbacks: true},
		proof.Needs{Catalogs: true, Texts: true}, visitors)
	if err != nil {
		return nil, err
	}
	f := all[0]
	for _, other := range all[1:] {
		f.join(other)
	}
	if err := o.addUnfinished(ctx, f); err != nil {
		return nil, err
	}
	begin, end, _ := o.bounds()
	doc := &Document{
		Review: "subject", Incomplete: warnings.incomplete,
		Facts: []Fact{
			{"value", o.Values}, {"looked for as", slices.Compact(forms)}, {"period from", stamp(max(o.Since, begin))},
			{"period until", stamp(min(o.Until, end))}, {"trail", o.Trails}, {"statements", f.found.total},
		},
		Sections: []*Section{
			f.summary(),
			f.found.section("found", "Statements with the value", "where", "user", "end_user", "role", "database",
				"address", "application", "command", "objects", "rows", "outcome", "text", "follow"),
		},
		Limits: append(append(warnings.list, f.limits()...), lack.exclusions...),
	}
	for _, row := range doc.Sections[1].Rows {
		row[len(row)-1] = o.catCommand(query.Criteria{Sessions: []format.SessionID{row[1].(RecordID).Session}})
	}
	return doc, nil
}

// subjectUse groups statements with the value: by who ran them, and with which command on which objects.
type subjectUse struct{ user, appUser, db, command, objects string }

// subjectUses sums up the statements of one group.
type subjectUses struct {
	occurrences
	format.Effects
}

// execution identifies an execution of a statement, top-level or nested.
type execution struct {
	session                 format.SessionID
	statement, substatement uint64
}

// startedUse is a start record.
type startedUse struct {
	event
	use subjectUse
}

// subjectFinder is what one goroutine has found, and after join what all have found.
type subjectFinder struct {
	values []*value
	found  events
	uses   map[subjectUse]*subjectUses

	started map[execution]*startedUse

	// by index of the block's texts: 0 is not searched yet, 1 nothing found, 2 found, see whereInText
	texts       []uint32
	whereInText map[int]string
	buf         []byte

	redacted, noText, noParams, cut int64
	// by index of the block's texts: 0 is not searched yet, 1 nothing redacted, 2 has redacted values
	hidden []uint32
}

func (f *subjectFinder) Block(*trail.BlockRef) {
	clear(f.texts)
	clear(f.hidden)
	f.whereInText = nil
}

// Record takes a record.
func (f *subjectFinder) Record(r *format.Record) {
	switch r.Kind {
	case format.KindStatement, format.KindStart, format.KindNote:
	default:
		return
	}
	if r.Kind != format.KindStart {
		f.countUnsearchable(r)
	}
	where := f.find(r)
	if where == "" {
		return
	}
	command, objects := r.Kind.String(), []string(nil)
	if r.Shape != nil {
		command, objects = string(r.Shape.Command), relationNames(r.Shape)
	}
	id, outcome := idOf(r), r.Result()
	at := execution{id.Session, r.Statement, r.Substatement}
	if r.Kind == format.KindStart {
		outcome = "no end is recorded"
	}
	cells := []any{where, fact(r, format.KeyUser), orNil(fact(r, format.KeyAppUser)), orNil(fact(r, format.KeyRole)),
		fact(r, format.KeyDatabase),
		fact(r, format.KeyClient), fact(r, format.KeyApplication), command, objects, int64(r.Rows), outcome,
		brief(r.Text), nil}
	k := subjectUse{fact(r, format.KeyUser), fact(r, format.KeyAppUser), fact(r, format.KeyDatabase), command,
		strings.Join(objects, ", ")}
	if r.Kind == format.KindStart { // counts only if no record of the end follows
		f.started[at] = &startedUse{event{id, cells}, k}
		return
	}
	f.addUse(event{id, cells}, k).Add(r)
}

// find returns where a record has a value; empty if it has none.
func (f *subjectFinder) find(r *format.Record) string {
	where := f.inParams(r)
	if where == "" {
		where = f.inText(r)
	}
	if where == "" {
		where = f.inMessage(r)
	}
	return where
}

func (f *subjectFinder) addUse(e event, k subjectUse) *subjectUses {
	f.found.add(e.id, e.cells...)
	if f.uses[k] == nil {
		f.uses[k] = &subjectUses{}
	}
	f.uses[k].add(e.id, 1)
	return f.uses[k]
}

// addUnfinished adds the statements that have only a start record. A second pass looks for the ends of those with a
// start record, so that the first one need not remember all other ends.
func (o *SubjectOptions) addUnfinished(ctx context.Context, f *subjectFinder) error {
	if len(f.started) == 0 {
		return nil
	}
	sessions := map[format.SessionID]bool{}
	since := int64(format.MaxTime)
	for at, s := range f.started {
		sessions[at.session] = true
		since = min(since, s.id.Time)
	}
	filter := (&query.Criteria{Sessions: slices.Collect(maps.Keys(sessions))}).Filter()
	visitors := make([]visitor, trail.Workers())
	all := make([]*endFinder, len(visitors))
	for i := range visitors {
		all[i] = &endFinder{subjectFinder: &subjectFinder{values: f.values}, started: f.started,
			ended: map[execution]bool{}}
		visitors[i] = all[i]
	}
	if _, err := o.scan(ctx, trail.ScanOptions{Since: since, Until: o.Until, Contents: filter.Contents(), Parts: true},
		visitors); err != nil {
		return err
	}
	for at, s := range f.started {
		if !slices.ContainsFunc(all, func(e *endFinder) bool { return e.ended[at] }) {
			f.addUse(s.event, s.use)
		}
	}
	return nil
}

// endFinder finds the records of ends of statements with a start record, if they have the value, too.
type endFinder struct {
	*subjectFinder
	started map[execution]*startedUse
	ended   map[execution]bool
}

func (e *endFinder) Record(r *format.Record) {
	at := execution{r.Session.ID(), r.Statement, r.Substatement}
	if r.Kind == format.KindStatement && e.started[at] != nil && e.find(r) != "" {
		e.ended[at] = true
	}
}

func (f *subjectFinder) inParams(r *format.Record) (where string) {
	number := 0
	r.Params(func(p format.ParamType, raw []byte, null bool) bool {
		number++
		if null {
			return true
		}
		for _, v := range f.values {
			if at := v.findInParam(p, raw, &f.buf); at != "" {
				where = fmt.Sprintf("parameter %d", number)
				if at != "value" {
					where += ", " + at
				}
				return false
			}
		}
		return true
	})
	return where
}

func (f *subjectFinder) inText(r *format.Record) string {
	find := func() string {
		for _, v := range f.values {
			if at := v.inText(r.Text); at != "" {
				return at
			}
			if r.Kind == format.KindNote && bytes.Contains(r.Text, []byte(v.text)) && hasWord(string(r.Text), v.text) {
				return "note"
			}
		}
		return ""
	}
	if r.TextIndex < 0 || r.Kind == format.KindNote {
		return find()
	}
	at := elementAt(&f.texts, r.TextIndex)
	if *at == 0 {
		*at = 1
		if found := find(); found != "" {
			*at = 2
			if f.whereInText == nil {
				f.whereInText = map[int]string{}
			}
			f.whereInText[r.TextIndex] = found
		}
	}
	return f.whereInText[r.TextIndex]
}

// inMessage searches the error message, which may quote values: Key (id)=(42) already exists.
func (f *subjectFinder) inMessage(r *format.Record) string {
	for _, v := range f.values {
		if len(r.Message) > 0 && v.text != "" && bytes.Contains(r.Message, []byte(v.text)) &&
			hasWord(string(r.Message), v.text) {
			return "error message"
		}
	}
	return ""
}

// countUnsearchable counts records in which values may be hidden from the search.
func (f *subjectFinder) countUnsearchable(r *format.Record) {
	if r.Has(format.FieldCut) {
		f.cut++
	}
	if r.Kind != format.KindStatement || r.Shape == nil {
		return
	}
	if r.Text == nil && len(r.Shape.Command) > 0 {
		f.noText++
	}
	if r.TextIndex >= 0 {
		at := elementAt(&f.hidden, r.TextIndex)
		if *at == 0 {
			*at = 1
			if bytes.Contains(r.Text, []byte(redactedMark)) {
				*at = 2
			}
		}
		if *at == 2 {
			f.redacted++
		}
	}
	if len(r.Shape.Params) == 0 {
		return
	}
	lost := !r.HasParams()
	if !lost && slices.ContainsFunc(r.Shape.Params, func(p format.ParamType) bool {
		return p.Repr == format.ReprNone
	}) {
		// variables that a function's statement does not use are NULL
		r.Params(func(p format.ParamType, _ []byte, null bool) bool {
			lost = !null && p.Repr == format.ReprNone
			return !lost
		})
	}
	if lost {
		f.noParams++
	}
}

// redactedMark replaces redacted values in texts.
const redactedMark = "<redacted>"

func (f *subjectFinder) join(o *subjectFinder) {
	f.found.join(&o.found)
	maps.Copy(f.started, o.started)
	for k, s := range o.uses {
		if f.uses[k] == nil {
			f.uses[k] = &subjectUses{}
		}
		f.uses[k].join(s.occurrences)
		f.uses[k].Merge(&s.Effects)
	}
	f.redacted, f.noText, f.noParams, f.cut = f.redacted+o.redacted, f.noText+o.noText,
		f.noParams+o.noParams, f.cut+o.cut
}

func (f *subjectFinder) summary() *Section {
	s := &Section{Key: "by", Title: "Who used it, and for what", Empty: "No statement of the period has the value.",
		Columns: []string{"user", "end_user", "database", "command", "objects", "statements", "rolled_back", "unknown",
			"first", "last", "record"}}
	keys := slices.SortedFunc(maps.Keys(f.uses), func(a, b subjectUse) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.appUser, b.appUser), cmp.Compare(a.db, b.db),
			cmp.Compare(a.command, b.command), cmp.Compare(a.objects, b.objects))
	})
	s.Left = int64(max(0, len(keys)-mostRows))
	for _, k := range keys[:min(len(keys), mostRows)] {
		u := f.uses[k]
		s.add(k.user, orNil(k.appUser), k.db, k.command, k.objects, u.count, u.RolledBack, u.Unknown,
			stamp(u.first.Time), stamp(u.last.Time), u.last)
	}
	return s
}

func (f *subjectFinder) limits() (all []string) {
	say := func(n int64, what string) {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d statements %s.", n, what))
		}
	}
	say(f.noParams, "have parameters that were not recorded, at least in part: the value is not found in them")
	say(f.redacted, "have redacted values in their texts")
	say(f.cut, "have a text that was truncated")
	say(f.noText, "have no text")
	return append(all,
		"Rows that statements reached without naming the value are not found: by a join, a range, a pattern, "+
			"another key, a list of all, or in a view or function.",
		"Rows of COPY and the rows of results are not recorded. Values that the client computes, encrypts or "+
			"abbreviates differ from the one that was looked for.",
		"The answer itself has personal data: texts of statements, with what else is in them.")
}
