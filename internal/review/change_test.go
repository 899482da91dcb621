package review

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// changesBy is a review of events of Debezium.
func changesBy(t *testing.T, source Source, events string, set func(*ChangeOptions)) (*Document, error) {
	t.Helper()
	o := ChangeOptions{Source: source, Changes: strings.NewReader(events), Limit: 100}
	if set != nil {
		set(&o)
	}
	return ReviewChange(t.Context(), o)
}

// Who changed a row is found by the transaction: one statement, one of several, or none that names the table.
func TestChangesHaveTheirStatements(t *testing.T) {
	writes := func(command string, access format.Access, tables ...string) *trailtest.Shape {
		s := &trailtest.Shape{Class: format.ClassWrite, Command: command}
		for _, name := range tables {
			s.Relations = append(s.Relations, trailtest.Relation{Type: format.RelationTypeTable, Name: name, Access: access})
		}
		return s
	}
	source := recorded(t, func(add func(trailtest.Record)) {
		alice, bob := in("alice", "clerks", 1), in("bob", "", 2)
		before := uint64(0) // the end of the commit before
		end := func(s *trailtest.Session, xid uint64, event format.Event) {
			r := trailtest.Record{Kind: format.KindTransaction, Session: s, XID: xid, Fields: format.FieldEvent, Unknown: []byte{byte(event)}, Shape: &trailtest.Shape{Class: format.ClassTransaction}}
			if event == format.EventCommit { // at 100 times the lower half of its ID
				r.Fields |= format.FieldCommit
				lsn := 100*(xid&0xffffffff) + 1000*(xid>>32)
				r.Unknown = binary.AppendVarint(r.Unknown, int64(lsn-before))
				r.Unknown = binary.AppendUvarint(binary.AppendUvarint(r.Unknown, 8), 1)
				before = lsn + 8
			}
			add(r)
		}
		add(trailtest.Record{Kind: format.KindStatement, Session: alice, XID: 700, Text: "UPDATE hr.pay SET amount = 1", Shape: writes("UPDATE", format.AccessUpdate, "hr.pay")})
		add(trailtest.Record{Kind: format.KindStatement, Session: alice, XID: 700, Text: "INSERT INTO hr.log VALUES (1)", Shape: writes("INSERT", format.AccessInsert, "hr.log")})
		end(alice, 700, format.EventCommit)
		add(trailtest.Record{Kind: format.KindStatement, Session: bob, XID: 701, Text: "DELETE FROM hr.pay", Shape: writes("DELETE", format.AccessDelete, "hr.pay")})
		add(trailtest.Record{Kind: format.KindStatement, Session: bob, XID: 701, Text: "INSERT INTO hr.pay VALUES (2)", Shape: writes("INSERT", format.AccessInsert, "hr.pay")})
		add(trailtest.Record{Kind: format.KindStatement, Session: bob, XID: 701, Text: "SELECT 1", Shape: reads("hr.pay", "amount")})
		end(bob, 701, format.EventCommit)
		end(bob, 702, format.EventCommit)
		add(trailtest.Record{Kind: format.KindStatement, Session: bob, XID: 703, Text: "INSERT INTO hr.pay VALUES (3)", Outcome: format.OutcomeError, SQLState: "23505", Shape: writes("INSERT", format.AccessInsert, "hr.pay")})
		end(bob, 703, format.EventCommit)
		add(trailtest.Record{Kind: format.KindStatement, Session: bob, XID: 704, Text: "DELETE FROM hr.pay", Shape: writes("DELETE", format.AccessDelete, "hr.pay")})
		end(bob, 704, format.EventAbort)
		// The same 32 bits again, much later.
		add(trailtest.Record{Kind: format.KindStatement, Session: bob, XID: 1<<32 + 700, Text: "UPDATE hr.pay SET amount = 9", Shape: writes("UPDATE", format.AccessUpdate, "hr.pay")})
		end(bob, 1<<32+700, format.EventCommit)
	})
	event := func(op string, xid, lsn int, table, before, after string) string {
		return `{"payload":{"op":"` + op + `","before":` + before + `,"after":` + after + `,"source":{"db":"shop","schema":"hr","table":"` + table + `","lsn":` + strconv.Itoa(lsn) + `,"txId":` + strconv.Itoa(xid) + `}}}` + "\n"
	}
	events := event("u", 700, 69950, "pay", `{"id":7,"amount":5}`, `{"id":7,"amount":1}`) + event("c", 701, 70050, "pay", "null", `{"id":8,"amount":2}`) +
		event("d", 700, 69950, "part", `{"id":9}`, "null") + event("u", 702, 70150, "pay", "null", `{"id":7}`) + event("c", 703, 70250, "pay", "null", `{"id":10}`) +
		event("d", 704, 70350, "pay", `{"id":7}`, "null") + event("d", 999, 99850, "pay", `{"id":7}`, "null") + event("u", 700, 70950, "pay", "null", `{"id":7,"amount":9}`)
	doc, err := changesBy(t, source, events, nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "changes", rowsOf(t, doc, "changes", "table", "change", "row", "was", "user", "role", "how", "text"),
		"hr.pay update amount='1' id='7' amount='5' id='7' alice clerks statement UPDATE hr.pay SET amount = 1",
		"hr.pay insert amount='2' id='8' - bob - one of these statements DELETE FROM hr.pay",
		"hr.part delete - id='9' alice clerks transaction with these statements UPDATE hr.pay SET amount = 1",
		"hr.pay update id='7' - bob - transaction -",
		"hr.pay insert id='10' - bob - transaction -", // what failed has changed nothing
		"hr.pay delete - id='7' - - not in the trail -", "hr.pay delete - id='7' - - not in the trail -",
		"hr.pay update amount='9' id='7' - bob - statement UPDATE hr.pay SET amount = 9")
	if !strings.Contains(strings.Join(doc.Limits, "\n"), "2 changes have no transaction in the trail") {
		t.Errorf("%q", doc.Limits)
	}

	// Of a table, and of a row before or after its change.
	for _, c := range []struct {
		tables, keys []string
		limit        int
		want         []string
		left         int64
		told         string
	}{
		{[]string{"pay"}, []string{"id=8"}, 9, []string{"701 insert"}, 0, "replica identity"},
		{[]string{"hr.pay"}, []string{"amount=5"}, 9, []string{"700 update"}, 0, "4 changes of the table have no value of a column of the key"},
		{[]string{`"hr"."pay"`}, []string{"id=7", "amount=1"}, 9, []string{"700 update"}, 0, "changes of the table have no value"},
		{[]string{"hr.part"}, nil, 9, []string{"700 delete"}, 0, "it has no signature"},
		{[]string{"other.pay"}, nil, 9, nil, 0, "The file has no change of the table, but of others: hr.part, hr.pay."},
		{nil, nil, 2, []string{"700 update", "701 insert"}, 6, ""},
	} {
		doc, err := changesBy(t, source, events, func(o *ChangeOptions) {
			o.Tables, o.Limit = c.tables, c.limit
			for _, k := range c.keys {
				one, err := ParseColumnValue(k)
				if err != nil {
					t.Fatal(err)
				}
				o.Keys = append(o.Keys, one)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, strings.Join(append(c.tables, c.keys...), " "), rowsOf(t, doc, "changes", "xid", "change"), c.want...)
		if left := doc.Sections[0].Left; left != c.left {
			t.Errorf("%d are left out instead of %d", left, c.left)
		}
		if !strings.Contains(strings.Join(doc.Limits, "\n"), c.told) {
			t.Errorf("%q is not among %q", c.told, doc.Limits)
		}
	}
}

func TestFilesThatAreNoChangesAreRefused(t *testing.T) {
	source := recorded(t, officeRecords)
	for _, events := range []string{"hello", `{"payload":{"op":"u"}`, "B\x00\x00", "I\x00\x00\x00\x09N\x00\x00", "S\x00\x00\x00\x01\x01"} {
		_, err := changesBy(t, source, events, nil)
		if unusable := (*ChangesError)(nil); !errors.As(err, &unusable) || err.Error() == "" {
			t.Errorf("%q: %v", events, err)
		}
	}
	if _, err := ParseColumnValue("id"); err == nil || !strings.Contains(err.Error(), `"id" is not column=value`) {
		t.Errorf("a key without a value: %v", err)
	}
}
