// Who changed a row: joins the changes that logical decoding reports with the transactions and statements of a trail.

package review

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// ChangeOptions say which changes are looked at.
type ChangeOptions struct {
	Source
	Changes io.Reader
	// Tables are names with or without their schemas; empty: all.
	Tables []string
	// Keys are columns and their values, of which a row must have all, before or after the change.
	Keys []ColumnValue
	// Limit is how many changes there may be.
	Limit int
}

// ColumnValue is a column of a row, and its value.
type ColumnValue struct{ Column, Value string }

func (c ColumnValue) String() string { return c.Column + "=" + c.Value }

// ParseColumnValue reads column=value.
func ParseColumnValue(s string) (c ColumnValue, err error) {
	ok := false
	if c.Column, c.Value, ok = strings.Cut(s, "="); !ok || c.Column == "" {
		return ColumnValue{}, fmt.Errorf("%q is not column=value", s)
	}
	return c, nil
}

// ChangesError is a file of changes that cannot be used.
type ChangesError struct{ Err error }

func (e *ChangesError) Error() string { return e.Err.Error() }

// ReviewChange finds who made the changes.
func ReviewChange(ctx context.Context, o ChangeOptions) (*Document, error) {
	var unsure unsureChanges
	changes, left, err := o.readRequested(&unsure)
	if err != nil {
		return nil, &ChangesError{err}
	}
	var warnings warningCollector
	warn := o.Warn
	o.Warn = func(err error) {
		if warnings.warn(err) {
			warn(err)
		}
	}
	wanted := map[uint32]bool{}
	for _, c := range changes {
		wanted[c.xid] = true
	}
	visitors := make([]visitor, trail.Workers())
	all := make([]*joinedChanges, len(visitors))
	for i := range visitors {
		all[i] = &joinedChanges{wanted: wanted, ends: map[uint32][]transactionEnd{},
			statements: map[uint64]*writingStatements{}}
		visitors[i] = all[i]
	}
	options := trail.ScanOptions{Since: o.Since, Until: o.Until, Parts: true, Rollbacks: true}
	lack, err := o.Source.read(ctx, options, proof.Needs{Objects: true}, visitors)
	if err != nil {
		return nil, err
	}
	j := all[0]
	for _, other := range all[1:] {
		j.join(other)
	}
	j.sort()
	begin, end, _ := o.bounds()
	var keys []string
	for _, k := range o.Keys {
		keys = append(keys, k.String())
	}
	doc := &Document{Review: "change", Incomplete: warnings.incomplete, Facts: []Fact{
		{"tables", o.Tables}, {"keys", keys}, {"period from", stamp(max(o.Since, begin))},
		{"period until", stamp(min(o.Until, end))}, {"trail", o.Trails}, {"changes", int64(len(changes)) + left},
	}}
	made, unknown := j.changeTable(&o.Source, changes)
	made.Left = left
	doc.Sections = []*Section{made}
	doc.Limits = warnings.list
	if unknown > 0 {
		doc.Limits = append(doc.Limits, fmt.Sprintf("%d changes have no transaction in the trail: they were made "+
			"before it begins or after it ends, on another server, or class transaction was not recorded.", unknown))
	}
	doc.Limits = append(doc.Limits, unsure.limits(&o)...)
	doc.Limits = append(doc.Limits,
		"Changes and records are joined by transaction. If several statements of a transaction have written to the "+
			"table, all of them are named: which one changed the row is not recorded.",
		"The file of changes is believed as it is: it has no signature.")
	doc.Limits = append(doc.Limits, lack.exclusions...)
	return doc, nil
}

// unsureChanges collects why the answer may lack changes of the file that were asked for.
type unsureChanges struct {
	tables map[string]bool // tables of the file, as long as none of those asked for was found
	found  bool            // one of the tables asked for was found
	noKey  int64           // changes in which a column of the key has no value
}

func (u *unsureChanges) limits(o *ChangeOptions) (all []string) {
	const named = 10
	if len(o.Tables) > 0 && !u.found {
		if len(u.tables) == 0 {
			return append(all, "The file has no change of any table.")
		}
		names := slices.Sorted(maps.Keys(u.tables))
		all = append(all, fmt.Sprintf("The file has no change of the table, but of others: %s. Changes of a "+
			"partitioned table have the names of its partitions, unless it is published via its root.",
			strings.Join(names[:min(named, len(names))], ", ")))
	}
	if len(o.Keys) > 0 {
		all = append(all, "Of a row before its change, the file has the columns of the replica identity: a change "+
			"is not found by a value of another column that it has overwritten or deleted.")
	}
	if u.noKey > 0 {
		all = append(all, fmt.Sprintf("%d changes of the table have no value of a column of the key, so they may be "+
			"of the row: there is no such column, it is not part of the replica identity, or it was not changed.",
			u.noKey))
	}
	return all
}

// readRequested reads the changes that were asked for; left counts those beyond the limit.
func (o *ChangeOptions) readRequested(unsure *unsureChanges) (changes []*rowChange, left int64, err error) {
	type condition struct {
		column string
		value  *value
	}
	var keys []condition
	for _, k := range o.Keys {
		keys = append(keys, condition{strings.ReplaceAll(k.Column, `"`, ""), newValue(k.Value)})
	}
	has := func(row []cell) bool {
		for _, k := range keys {
			if !slices.ContainsFunc(row, func(c cell) bool {
				return c.known && !c.null && strings.ReplaceAll(c.column, `"`, "") == k.column &&
					k.value.equals(c.value)
			}) {
				return false
			}
		}
		return len(row) > 0
	}
	valued := func(row []cell, column string) bool {
		return slices.ContainsFunc(row, func(c cell) bool {
			return c.known && strings.ReplaceAll(c.column, `"`, "") == column
		})
	}
	unsure.tables = map[string]bool{}
	err = readChanges(o.Changes, func(c *rowChange) error {
		if len(o.Tables) > 0 && !slices.ContainsFunc(o.Tables, func(t string) bool { return sameTable(t, c.table) }) {
			const most = 10_000
			if !unsure.found && len(unsure.tables) < most {
				unsure.tables[c.table] = true
			}
			return nil
		}
		unsure.found = true
		if len(keys) > 0 && c.op != "truncate" && !has(c.old) && !has(c.new) {
			if slices.ContainsFunc(keys, func(k condition) bool {
				return !valued(c.old, k.column) && !valued(c.new, k.column)
			}) {
				unsure.noKey++
			}
			return nil
		}
		if len(changes) == o.Limit {
			left++
			return nil
		}
		changes = append(changes, c)
		return nil
	})
	return changes, left, err
}

// sameTable compares a name of the command line, with or without its schema, with that of a table.
func sameTable(asked, table string) bool {
	plain := func(s string) string { return strings.ReplaceAll(s, `"`, "") }
	return plain(asked) == plain(table) || plain(asked) == plain(strings.TrimPrefix(table, schemaOf(table)+"."))
}

// transactionEnd is the commit of a transaction.
type transactionEnd struct {
	xid      uint64
	lsn, end uint64
	id       RecordID
	who      changedBy
	known    bool // lsn is
}

// changedBy is who ran a statement.
type changedBy struct{ user, appUser, role, db, client, application string }

// writingStatements are the statements of a transaction that wrote.
type writingStatements struct {
	list []madeStatement
	more int64
}

type madeStatement struct {
	id      RecordID
	who     changedBy
	command string
	writes  map[string]bool // tables that it writes
	depth   uint64
	text    string
	class   format.Class
}

// statementsKept is the limit of statements kept of one transaction; the others are only counted.
const statementsKept = 200

// joinedChanges is what one goroutine has found of the transactions.
type joinedChanges struct {
	wanted     map[uint32]bool
	ends       map[uint32][]transactionEnd
	statements map[uint64]*writingStatements
}

func (j *joinedChanges) Block(*trail.BlockRef) {}

// Record takes a record.
func (j *joinedChanges) Record(r *format.Record) {
	if r.XID == 0 || !j.wanted[uint32(r.XID)] {
		return
	}
	switch r.Kind {
	case format.KindTransaction:
		if r.Ending.Event == format.EventCommit || r.Ending.Event == format.EventCommitPrepared {
			end := transactionEnd{xid: r.XID, lsn: r.Ending.LSN, end: r.Ending.End, id: idOf(r), who: changerOf(r),
				known: r.Has(format.FieldCommit)}
			j.ends[uint32(r.XID)] = append(j.ends[uint32(r.XID)], end)
		}
	case format.KindStatement:
		if r.Shape == nil || r.Outcome == format.OutcomeError || r.Undone() {
			return
		}
		writes := map[string]bool{}
		for i := range r.Shape.Relations {
			rel := &r.Shape.Relations[i]
			if writesRows(rel) {
				writes[string(rel.Name)] = true
			}
		}
		if len(writes) == 0 && r.Shape.Class != format.ClassDDL && r.Shape.Class != format.ClassFunction {
			return
		}
		m := j.statements[r.XID]
		if m == nil {
			m = &writingStatements{}
			j.statements[r.XID] = m
		}
		m.add(madeStatement{idOf(r), changerOf(r), string(r.Shape.Command), writes, r.Depth, brief(r.Text),
			r.Shape.Class})
	}
}

// writesRows reports whether a statement writes to a relation. SELECT FOR UPDATE also has access "update", but to no
// column.
func writesRows(rel *format.Relation) bool {
	if rel.Access&(format.AccessInsert|format.AccessDelete|format.AccessTruncate) != 0 {
		return true
	}
	updates := func(c format.Column) bool { return c.Access&format.AccessUpdate != 0 }
	return rel.Access&format.AccessUpdate != 0 &&
		(!rel.HasColumns || rel.Omitted != 0 || slices.ContainsFunc(rel.Columns, updates))
}

func (m *writingStatements) add(s madeStatement) {
	if len(m.list) < statementsKept {
		m.list = append(m.list, s)
	} else {
		m.more++
	}
}

func changerOf(r *format.Record) changedBy {
	return changedBy{fact(r, format.KeyUser), fact(r, format.KeyAppUser), fact(r, format.KeyRole),
		fact(r, format.KeyDatabase), fact(r, format.KeyClient), fact(r, format.KeyApplication)}
}

func (j *joinedChanges) join(o *joinedChanges) {
	for xid, ends := range o.ends {
		j.ends[xid] = append(j.ends[xid], ends...)
	}
	for xid, m := range o.statements {
		if j.statements[xid] == nil {
			j.statements[xid] = m
			continue
		}
		for _, s := range m.list {
			j.statements[xid].add(s)
		}
		j.statements[xid].more += m.more
	}
}

func (j *joinedChanges) sort() {
	for _, ends := range j.ends {
		slices.SortFunc(ends, func(a, b transactionEnd) int { return cmp.Compare(a.lsn, b.lsn) })
	}
	for _, m := range j.statements {
		slices.SortFunc(m.list, func(a, b madeStatement) int {
			return cmp.Or(cmp.Compare(a.id.Time, b.id.Time), a.id.Session.Compare(b.id.Session),
				cmp.Compare(a.id.Seq, b.id.Seq))
		})
	}
}

// position returns the WAL position of the commit of a change's transaction, or one before it.
func (c *rowChange) position() uint64 {
	if c.commit != 0 {
		return c.commit
	}
	return c.at
}

// findTransaction returns the transaction that made a change. IDs of 32 bits are reused, positions are not, so the
// position decides. The ends of transactions with one ID are sorted by position, for a binary search: a forged trail
// may have many.
func (j *joinedChanges) findTransaction(c *rowChange) *transactionEnd {
	ends := j.ends[c.xid]
	elsewhere := func(e *transactionEnd) bool { return c.db != "" && e.who.db != "" && c.db != e.who.db }
	if len(ends) == 1 && !ends[0].known && !elsewhere(&ends[0]) {
		return &ends[0]
	}
	first, _ := slices.BinarySearchFunc(ends, c.position(), func(e transactionEnd, lsn uint64) int {
		return cmp.Compare(e.lsn, lsn)
	})
	for i := first; i < len(ends) && (c.commit == 0 || ends[i].lsn == c.commit); i++ {
		if e := &ends[i]; e.known && !elsewhere(e) {
			return e
		}
	}
	return nil
}

// statementsFor returns the statements that may have made a change: those that write to the table. If there are none,
// because its rows were changed through a partitioned table or by DDL, it returns all that write.
func (j *joinedChanges) statementsFor(c *rowChange, e *transactionEnd) (list []madeStatement, exact bool) {
	m := j.statements[e.xid]
	if m == nil {
		return nil, false
	}
	for _, s := range m.list {
		if s.writes[c.table] {
			list = append(list, s)
		}
	}
	if len(list) > 0 {
		return list, true
	}
	return m.list, false
}

func (j *joinedChanges) changeTable(o *Source, changes []*rowChange) (s *Section, unknown int64) {
	s = &Section{
		Key: "changes", Title: "Changes, and who made them", Empty: "No change matches.",
		Columns: []string{"time", "record", "table", "change", "row", "was", "xid", "commit_lsn", "user", "end_user",
			"role", "database", "address", "application", "command", "statements", "how", "text", "follow"},
	}
	for _, c := range changes {
		e := j.findTransaction(c)
		commit := any(nil)
		if c.commit != 0 {
			commit = lsnText(c.commit)
		}
		if e == nil {
			unknown++
			s.add(nil, nil, c.table, c.op, rowText(c.new), rowText(c.old), int64(c.xid), commit, nil, nil, nil,
				orNil(c.db), nil, nil, nil, nil, "not in the trail", nil, nil)
			continue
		}
		if e.known {
			commit = lsnText(e.lsn)
		}
		list, exact := j.statementsFor(c, e)
		who, id, command, text, how := e.who, e.id, any(nil), any(nil), "transaction"
		var records []string
		if len(list) > 0 {
			first := list[0]
			who, id, command, text = first.who, first.id, first.command, first.text
			for _, statement := range list[:min(len(list), 20)] {
				records = append(records, statement.id.String())
			}
			switch {
			case exact && len(list) == 1:
				how = "statement"
			case exact:
				how = "one of these statements"
			default:
				how = "transaction with these statements"
			}
		}
		s.add(stamp(e.id.Time), id, c.table, c.op, rowText(c.new), rowText(c.old), int64(e.xid), commit, who.user,
			orNil(who.appUser), orNil(who.role), who.db, who.client, who.application, command, records, how, text,
			o.catCommand(query.Criteria{XIDs: []uint64{uint64(e.xid)}}))
	}
	return s, unknown
}

// rowText is a row for people.
func rowText(row []cell) any {
	if row == nil {
		return nil
	}
	var b strings.Builder
	for i, c := range row {
		if i > 0 {
			b.WriteString(" ")
		}
		b.WriteString(c.column + "=")
		switch {
		case !c.known:
			b.WriteString("(unchanged)")
		case c.null:
			b.WriteString("NULL")
		default:
			b.WriteString("'" + strings.ReplaceAll(brief([]byte(c.value)), "'", "''") + "'")
		}
		if b.Len() > 2*briefLength {
			b.WriteString(" ...")
			break
		}
	}
	return b.String()
}
