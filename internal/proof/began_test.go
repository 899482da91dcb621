package proof

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/pg-steno/pg_steno/internal/seal"
)

// startedLate writes a trail whose server began in minute 10, and whose first session recorded before the start was
// written, in minute 10.5. The range of the questions begins between both.
func startedLate(t *testing.T, began string, pairs []string, then ...[]string) string {
	dir := filepath.Join(t.TempDir(), "trail")
	w := newWriter(t, dir, 0)
	alice := client(4001, "alice")
	w.Put(w.starts(0), w.event(9, "stop"))
	w.Seal(at(9.5), seal.ReasonStop, nil)
	start := w.starts(10.5, append([]string{"began", began}, pairs...)...)
	start.Extra[5] = "4712"
	w.Put(reads(alice, 10.2, "hr.salary"), start)
	for _, extra := range then {
		w.Put(setting(w.Session, 10.51, extra[0], extra[1], extra[2], "server"))
	}
	w.Seal(at(10.52), seal.ReasonStart, nil)
	for minute := 11.; minute < 30; minute++ {
		w.Put(reads(alice, minute, "hr.staff"))
		w.Seal(at(minute+0.1), "interval", nil)
	}
	w.Seal(at(30), seal.ReasonStop, nil)
	return dir
}

// TestARunBeginsBeforeItsRecord: its settings hold for what its sessions recorded before.
func TestARunBeginsBeforeItsRecord(t *testing.T) {
	const (
		off   = `the relations of statements were not recorded throughout: steno.log_relation = "off"`
		rules = `statements that its rules skip or sample, and texts that they redact were not recorded throughout: there were 3 rules`
	)
	for _, test := range []struct {
		name, began string
		pairs       []string
		then        [][]string
		want        []string
	}{
		{"known", when(10), nil, nil, nil},
		{"a setting", when(10), []string{"steno.log_relation", "off"}, nil, []string{off}},
		{"rules, of which the next record has the number", when(10), []string{"steno.rules_file", "rules"}, [][]string{{"steno.rules_file", "", "3 rules"}}, []string{rules}},
	} {
		r := proved(t, startedLate(t, test.began, test.pairs, test.then...), question(t, 10.1, 10.4, false, ofSalary))
		if !r.Proved || r.Matches != 1 || !slices.Equal(r.Exceptions, test.want) {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}

// TestABeginningThatCannotBeIsNotTaken: a clock that was set, and what is no time. Then the run begins with its record.
func TestABeginningThatCannotBeIsNotTaken(t *testing.T) {
	for _, began := range []string{when(8.4), when(10.6), "soon", ""} {
		r := proved(t, startedLate(t, began, nil), question(t, 10.1, 10.4, false, ofSalary))
		if !r.Proved || r.Matches != 1 || len(r.Exceptions) == 0 {
			t.Errorf("%q: %+v", began, r)
		}
	}
	r := proved(t, startedLate(t, when(9.6), nil), question(t, 9.7, 10.4, false, ofSalary))
	if !r.Proved || len(r.Exceptions) != 0 {
		t.Errorf("within two minutes: %+v", r)
	}
}
