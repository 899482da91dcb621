package query

import (
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/trail"
)

func TestARollbackIsNoFailure(t *testing.T) {
	filter, err := (&FilterOptions{Failed: true}).Filter(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := &Matcher{Filter: filter}
	for name, c := range map[string]struct {
		record trail.Record
		failed bool
	}{
		"transaction rolled back":      {trail.Record{Kind: trail.KindTransaction, Outcome: trail.OutcomeError}, false},
		"transaction that failed":      {trail.Record{Kind: trail.KindTransaction, Outcome: trail.OutcomeError, SQLState: []byte("23505")}, true},
		"statement that failed":        {trail.Record{Kind: trail.KindStatement, Outcome: trail.OutcomeError}, true},
		"statement that was cut short": {trail.Record{Kind: trail.KindStatement, Outcome: trail.OutcomeInterrupted}, true},
		"statement ROLLBACK":           {trail.Record{Kind: trail.KindStatement}, false},
		"refused client":               {trail.Record{Kind: trail.KindAuthFailed}, true},
	} {
		if got := m.Keep(&c.record); got != c.failed {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestXIDChoosesATransaction(t *testing.T) {
	filter, err := (&FilterOptions{XIDs: []string{"742", "743"}}).Filter(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := &Matcher{Filter: filter}
	for xid, want := range map[uint64]bool{0: false, 741: false, 742: true, 743: true} {
		if m.Keep(&trail.Record{Kind: trail.KindStatement, XID: xid}) != want {
			t.Errorf("xid %d", xid)
		}
	}
	for _, bad := range []string{"", "0", "-1", "x", "4294967296"} {
		if _, err := (&FilterOptions{XIDs: []string{bad}}).Filter(time.Now()); err == nil {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}
