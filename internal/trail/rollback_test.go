package trail_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal/sealtest"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// undone makes lines of texts, and says which are undone.
type undone struct{ fixed }

func (undone) Keep(r *format.Record) bool { return r.Kind == format.KindStatement }

func (undone) Append(dst []byte, r *format.Record) []byte {
	dst = append(dst, r.Text...)
	switch r.Effect {
	case format.EffectRolledBack:
		dst = append(dst, " undone"...)
	case format.EffectUnknown:
		dst = append(dst, " unknown"...)
	}
	return dst
}

func statementsOf(t *testing.T, dir string, since, until int64) (lines []string) {
	t.Helper()
	err := trailtest.Open(t, dir).Index().Merge(context.Background(), trail.MergeOptions{
		Since: since, Until: until, Rollbacks: true,
		Warn:         func(err error) { t.Error(err) },
		NewFormatter: func() trail.Formatter { return undone{} },
	}, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// script writes records a second apart.
type script struct {
	t   *testing.T
	s   *trailtest.Stream
	b   *trailtest.Builder
	now int64
}

func newScript(t *testing.T, dir string, stream uint32) *script {
	return &script{t: t, s: trailtest.NewStream(t, dir, stream), b: trailtest.NewBuilder(trailtest.Epoch), now: trailtest.Epoch}
}

func (s *script) add(r trailtest.Record) {
	s.now += 1e6
	r.Time = s.now
	s.b.Add(&r)
}

func (s *script) statement(of *trailtest.Session, xid uint64, text string) {
	s.add(trailtest.Record{Kind: format.KindStatement, Session: of, XID: xid, Text: text})
}

func (s *script) end(of *trailtest.Session, xid uint64, outcome format.Outcome) {
	s.add(trailtest.Record{Kind: format.KindTransaction, Session: of, XID: xid, Outcome: outcome, Extra: []string{"event", "abort"},
		Shape: &trailtest.Shape{Class: format.ClassTransaction}})
}

func (s *script) cut() {
	if s.b.Records > 0 {
		s.s.Write(s.t, s.b)
	}
	s.b = trailtest.NewBuilder(s.now)
}

func TestStatementsOfATransactionThatRolledBackAreUndone(t *testing.T) {
	dir := t.TempDir()
	s := newScript(t, dir, 0)
	one, two := trailtest.NewSession(trailtest.Epoch, 1), trailtest.NewSession(trailtest.Epoch, 2)
	control := func(command string, xid uint64) {
		s.add(trailtest.Record{Kind: format.KindStatement, Session: one, XID: xid, Text: command,
			Shape: &trailtest.Shape{Class: format.ClassTransaction, Command: command}})
	}
	s.statement(one, 0, "reads before")
	s.statement(one, 10, "in one block")
	s.statement(two, 11, "of a transaction that commits")
	s.add(trailtest.Record{Kind: format.KindStatement, Session: one, XID: 10, Text: "fails", Outcome: format.OutcomeError})
	s.end(one, 10, format.OutcomeError)
	control("COMMIT", 10) // of the transaction that was aborted
	s.statement(one, 12, "ends in another block")
	s.cut()
	s.statement(two, 11, "commits, too")
	s.cut()
	s.end(two, 11, format.OutcomeOk)
	s.statement(two, 12, "of another session")
	s.s.Rotate(t, s.now)
	s.cut()
	control("ROLLBACK", 12)
	s.end(one, 12, format.OutcomeError)
	s.end(two, 12, format.OutcomeOk)
	s.statement(one, 13, "never ends")
	s.cut()
	want := []string{
		"reads before", "in one block undone", "of a transaction that commits", "fails", "COMMIT undone",
		"ends in another block undone", "commits, too", "of another session", "ROLLBACK", "never ends unknown",
	}
	if got := statementsOf(t, dir, format.MinTime, format.MaxTime); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	// what says so need not be in the time that is shown
	until := trailtest.Epoch + 8e6
	if got := statementsOf(t, dir, until-2e6, until); !slices.Equal(got, want[4:6]) {
		t.Errorf("of a short time: %q", got)
	}
}

// TestPreparedTransactionsAreLookedUp has COMMIT PREPARED and ROLLBACK PREPARED in the block of the statement, behind it,
// before it in another stream, and nowhere.
func TestPreparedTransactionsAreLookedUp(t *testing.T) {
	for _, cut := range []bool{false, true} {
		dir := t.TempDir()
		s, other := newScript(t, dir, 0), newScript(t, dir, 1)
		one, two := trailtest.NewSession(trailtest.Epoch, 1), trailtest.NewSession(trailtest.Epoch, 2)
		class := &trailtest.Shape{Class: format.ClassTransaction}
		end := func(s *script, of *trailtest.Session, xid uint64, outcome format.Outcome, event format.Event, inExtra bool) {
			r := trailtest.Record{Kind: format.KindTransaction, Session: of, XID: xid, Outcome: outcome, Shape: class,
				Audited: format.AuditedSession, Extra: []string{"gid", "x"}}
			if inExtra {
				r.Extra = append(r.Extra, "event", event.String())
			} else {
				r.Fields, r.Unknown = format.FieldEvent, []byte{byte(event)}
			}
			s.add(r)
		}
		other.now += 1000e6
		var want []string
		for i, inExtra := range []bool{false, true} {
			for k, then := range []format.Event{format.EventRollbackPrepared, format.EventCommitPrepared, 0} {
				for m, by := range []*script{s, other} {
					xid := uint64(10 + 100*i + 10*k + m)
					s.statement(one, xid, "prepared")
					end(s, one, xid, format.OutcomeOk, format.EventPrepare, inExtra)
					if cut {
						s.cut()
					}
					switch then {
					case format.EventRollbackPrepared:
						end(by, two, xid, format.OutcomeError, then, inExtra)
						want = append(want, "prepared undone")
					case format.EventCommitPrepared:
						end(by, two, xid, format.OutcomeOk, then, inExtra)
						want = append(want, "prepared")
					default:
						want = append(want, "prepared unknown")
					}
				}
			}
			xid := uint64(500 + i)
			s.statement(one, xid, "rolled back")
			end(s, one, xid, format.OutcomeError, format.EventAbort, inExtra)
			want = append(want, "rolled back undone")
		}
		s.cut()
		other.cut()
		if got := statementsOf(t, dir, format.MinTime, format.MaxTime); !slices.Equal(got, want) {
			t.Errorf("cut %v: got %q, want %q", cut, got, want)
		}
	}
}

// TestEndsOfPreparedTransactionsAreFoundByIndexes: an index has the command tag of the statement, and the record of the end
// is behind that: in its block, in the next one, or in the first one of the next index.
func TestEndsOfPreparedTransactionsAreFoundByIndexes(t *testing.T) {
	for _, parts := range []string{"all", "block", "index"} {
		for command, want := range map[string]string{"COMMIT PREPARED": "prepared", "ROLLBACK PREPARED": "prepared undone"} {
			dir := t.TempDir()
			w := sealtest.NewWriter(t, dir, 0, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
			one, two, now := trailtest.NewSession(trailtest.Epoch, 1), trailtest.NewSession(trailtest.Epoch, 2), int64(trailtest.Epoch)
			record := func(of *trailtest.Session, kind format.Kind, text, command, event string) *trailtest.Record {
				now += 1e6
				r := &trailtest.Record{Kind: kind, Session: of, Time: now, Text: text, XID: 7, Shape: &trailtest.Shape{Class: format.ClassTransaction, Command: command}}
				if event != "" {
					r.Extra = []string{"event", event}
				}
				if event == format.EventRollbackPrepared.String() {
					r.Outcome = format.OutcomeError
				}
				return r
			}
			w.Put(record(one, format.KindStatement, "prepared", "SELECT", ""), record(one, format.KindTransaction, "", "", format.EventPrepare.String()))
			w.Put(record(two, format.KindNote, "something else", "", ""))
			ends := record(two, format.KindStatement, "ends it", command, "")
			ends.XID = 0
			end := record(two, format.KindTransaction, "", "", strings.ToLower(command))
			switch parts {
			case "all":
				w.Put(ends, end)
			case "block":
				w.Put(ends)
				w.Put(end)
			case "index":
				w.Put(ends)
				w.Index()
				w.Put(end)
			}
			w.Index()
			if got := statementsOf(t, dir, format.MinTime, format.MaxTime); !slices.Equal(got, []string{want, "ends it"}) {
				t.Errorf("%s, %s: %q", command, parts, got)
			}
		}
	}
}

// TestPreparedTransactionsEndOnce: a server that was restored to an earlier time has given a transaction ID again, with
// another end each.
func TestPreparedTransactionsEndOnce(t *testing.T) {
	dir := t.TempDir()
	s := newScript(t, dir, 0)
	one := trailtest.NewSession(trailtest.Epoch, 1)
	end := func(outcome format.Outcome, event format.Event) {
		s.add(trailtest.Record{Kind: format.KindTransaction, Session: one, XID: 7, Outcome: outcome,
			Shape: &trailtest.Shape{Class: format.ClassTransaction}, Extra: []string{"event", event.String()}})
		s.cut()
	}
	for _, outcome := range []format.Outcome{format.OutcomeError, format.OutcomeOk, format.OutcomeError} {
		s.statement(one, 7, "prepared")
		end(format.OutcomeOk, format.EventPrepare)
		if outcome == format.OutcomeError {
			end(outcome, format.EventRollbackPrepared)
		} else {
			end(outcome, format.EventCommitPrepared)
		}
		one = trailtest.NewSession(s.now, 1)
	}
	want := []string{"prepared undone", "prepared", "prepared undone"}
	if got := statementsOf(t, dir, format.MinTime, format.MaxTime); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRollbacksAreFoundWhereverTheyAre compares random trails with what is known of
// them.
func TestRollbacksAreFoundWhereverTheyAre(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		dir := t.TempDir()
		want := map[string]string{}
		for stream := range uint32(2) {
			s := newScript(t, dir, stream)
			var sessions []*trailtest.Session
			var open [5][]string
			var xids [5]uint64
			for i := range open {
				sessions = append(sessions, trailtest.NewSession(trailtest.Epoch, stream*100+uint32(i)))
			}
			next := uint64(700)
			for n := range 300 {
				i := rng.IntN(len(open))
				switch rng.IntN(6) {
				case 0, 1, 2:
					if xids[i] == 0 {
						xids[i], next = next, next+1
					}
					text := fmt.Sprintf("%d/%d", stream, n)
					want[text] = "unknown"
					open[i] = append(open[i], text)
					s.statement(sessions[i], xids[i], text)
				case 3:
					if xids[i] == 0 {
						continue
					}
					outcome := format.Outcome(rng.IntN(2))
					for _, text := range open[i] {
						want[text] = map[format.Outcome]string{format.OutcomeError: "undone"}[outcome]
					}
					s.end(sessions[i], xids[i], outcome)
					open[i], xids[i] = nil, 0
				case 4:
					if rng.IntN(3) == 0 {
						s.cut()
					}
				case 5:
					if rng.IntN(10) == 0 {
						s.cut()
						s.s.Rotate(t, s.now)
					}
				}
			}
			s.cut()
		}
		for _, line := range statementsOf(t, dir, format.MinTime, format.MaxTime) {
			var text, mark string
			fmt.Sscan(line, &text, &mark)
			if want[text] != mark {
				t.Errorf("%q, want %q", line, want[text])
			}
		}
	}
}

// TestRolledBackPartsAreUndone has subtransactions that were rolled back, in the block of their statements and
// behind it.
func TestRolledBackPartsAreUndone(t *testing.T) {
	for _, split := range []bool{false, true} {
		dir := t.TempDir()
		s := newScript(t, dir, 0)
		session := trailtest.NewSession(trailtest.Epoch, 1)
		other := trailtest.NewSession(trailtest.Epoch, 2)
		statement := func(session *trailtest.Session, number, substatement, xid uint64, text string) {
			r := trailtest.Record{Kind: format.KindStatement, Session: session, Statement: number, Text: text, XID: xid}
			if substatement > 0 {
				r.Depth, r.Substatement = 1, substatement
			}
			s.add(r)
		}
		part := func(first, last, after, sub uint64) {
			s.add(trailtest.Record{
				Kind: format.KindSubtransaction, Session: session, Outcome: format.OutcomeError, XID: 7,
				Extra: []string{
					"first_seq", fmt.Sprint(first), "last_seq", fmt.Sprint(last),
					"after_statement", fmt.Sprint(after), "after_substatement", fmt.Sprint(sub),
				},
			})
		}
		statement(session, 1, 0, 7, "kept")                 // 1
		statement(session, 3, 0, 7, "lost")                 // 2: after SAVEPOINT, which is 2
		statement(session, 4, 1, 7, "lost")                 // 3
		part(3, 3, 4, 0)                                    // 4: a handler in statement 4
		statement(session, 4, 0, 7, "lost")                 // 5
		statement(session, 1, 2, 7, "lost")                 // 6: of a cursor of statement 1
		statement(session, 2, 0, 7, "kept, a query closed") // 7
		statement(other, 3, 0, 7, "kept, of another session")
		if split {
			s.cut()
		}
		part(2, 7, 2, 0)                    // 8
		statement(session, 5, 0, 7, "kept") // 9
		statement(session, 6, 0, 0, "kept") // 10: read only
		s.add(trailtest.Record{Kind: format.KindTransaction, Session: session, XID: 7, Extra: []string{"event", "commit"}})
		statement(session, 7, 0, 8, "open")
		s.cut()
		var wrong []string
		lines := statementsOf(t, dir, format.MinTime, format.MaxTime)
		for _, line := range lines {
			text, isUndone := strings.CutSuffix(line, " undone")
			text, isUnknown := strings.CutSuffix(text, " unknown")
			if isUndone != (text == "lost") || isUnknown != (text == "open" || text == "kept, of another session") {
				wrong = append(wrong, line)
			}
		}
		if len(lines) != 10 || len(wrong) > 0 {
			t.Errorf("split %v: %q, of %d", split, wrong, len(lines))
		}
	}
}

// TestTransactionsWithoutARecordAreUnknown has sessions that go on, or end, although no record says how their transaction
// ended: it was not recorded, or was lost.
func TestTransactionsWithoutARecordAreUnknown(t *testing.T) {
	for _, split := range []bool{false, true} {
		dir := t.TempDir()
		s := newScript(t, dir, 0)
		one, two := trailtest.NewSession(trailtest.Epoch, 1), trailtest.NewSession(trailtest.Epoch, 2)
		cut := func() {
			if split {
				s.cut()
			}
		}
		s.statement(one, 5, "grant")
		s.statement(two, 6, "drop")
		cut()
		s.statement(one, 7, "kept")
		s.end(one, 7, format.OutcomeOk)
		s.add(trailtest.Record{Kind: format.KindDisconnect, Session: two})
		cut()
		s.statement(one, 8, "interrupted")
		s.add(trailtest.Record{Kind: format.KindTransaction, Session: one, XID: 8, Outcome: format.OutcomeInterrupted})
		s.cut()
		want := []string{"grant unknown", "drop unknown", "kept", "interrupted unknown"}
		if got := statementsOf(t, dir, format.MinTime, format.MaxTime); !slices.Equal(got, want) {
			t.Errorf("split %v: got %q", split, got)
		}
	}
}
