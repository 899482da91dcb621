package verify

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// manualRows are the rows of the table in docs/proof.md, in their order, each with the alterations of the suite that it is
// about: bytewise ones by their names, or all of those that a forger makes with the seals in this state.
var manualRows = []struct {
	row   string
	names []string
	how   []sealing
}{
	{"a bit flipped; bytes", []string{"a bit flipped", "bytes overwritten", "bytes zeroed", "bytes taken out", "bytes put in"}, nil},
	{"a block removed, duplicated", []string{"block removed", "block doubled", "blocks swapped", "block of another stream put in"}, nil},
	{"a segment removed, swapped", []string{"segment removed", "segments swapped", "segment copied over another"}, nil},
	{"streams swapped or copied", []string{"stream copied over another", "stream copied beside the others", "streams swapped", "stream of another server", "first stream removed"}, nil},
	{"a record changed, removed", nil, []sealing{sealsKept}},
	{"the same, with all seals replaced", nil, []sealing{sealsOwn, sealsFaked}},
	{"the same, with all later seals removed", nil, []sealing{sealsGone}},
	{"blocks or segments appended", []string{"a block behind the end of the stopped run", "a segment behind the end of the stopped run"}, nil},
	{"the seal that ended a run cut off", []string{"the seal of a stop cut off, or replaced"}, nil},
	{"the end cut off; the last", []string{"end cut off", "end cut off after a block", "last segments removed", "last stream removed", "an older copy"}, nil},
}

// TestTheTableOfTheManual makes the alterations of each row of the table in docs/proof.md: what it promises without a
// condition must be so.
func TestTheTableOfTheManual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(manual), "| alteration | by itself |")
	table, _, _ = strings.Cut(table, "\n\n")
	lines := strings.Split(strings.TrimSpace(table), "\n")[2:]
	if len(lines) != len(manualRows) {
		t.Fatalf("the table has %d rows, and %d are tested", len(lines), len(manualRows))
	}
	s := newSuite(t)
	tested := map[string]bool{}
	for i, row := range manualRows {
		cells := strings.Split(strings.Trim(lines[i], "| "), " | ")
		if len(cells) != 4 || !strings.HasPrefix(cells[0], row.row) {
			t.Fatalf("row %d is %q", i, lines[i])
		}
		check := func(name string, reports [3]*Report) {
			for k, cell := range cells[1:] {
				if cell == "yes" && reports[k].Whole || cell == "no" && !reports[k].Whole {
					t.Errorf("%s: %s: column %d says %q: %v", row.row, name, k+1, cell, reports[k].Problems)
				}
				if !strings.HasPrefix(cell, "yes") && !strings.HasPrefix(cell, "no") {
					t.Errorf("%s: column %d says %q", row.row, k+1, cell)
				}
			}
		}
		r := rand.New(rand.NewPCG(7, uint64(i)))
		for _, one := range bytewise {
			if slices.Contains(row.names, one.name) {
				tested[one.name] = true
				for range 4 {
					check(one.name, s.verify(t, one.alter(r, s.original.clone())))
				}
			}
		}
		for _, how := range row.how {
			tested[how.String()] = true
			for _, one := range forgings {
				check(one.name, s.verify(t, s.forge(t, r, one, how)))
			}
		}
	}
	if len(tested) != len(bytewise)+int(sealings) {
		t.Errorf("%d kinds of alterations are in the table, of %d", len(tested), len(bytewise)+int(sealings))
	}
}
