package replication

import (
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/lab/cluster/labtest"
	"github.com/pg-steno/pg_steno/internal/lab/measure/measuretest"
)

func TestWrongUsageIsRefused(t *testing.T) {
	measuretest.Refused(t, New, map[string]string{
		"--sync always":     `--sync: "always" is not one of [off local`,
		"--steno on":        `--steno: "on" is not one of [off async sync]`,
		"--inserts 0":       "--inserts: 0 is not between 1 and 1000",
		"--clients 16,5000": "--clients: 5000 is not between 1 and 1000",
		"--cores all,9999":  `--cores: "9999" is neither "all" nor between 1 and`,
		"--cores some":      `--cores: "some" is neither "all" nor between 1 and`,
		"--cores 0":         `--cores: "0" is neither`,
		"--rounds 0":        "--rounds and --seconds must be at least 1",
		"--looks -1":        "--looks must not be negative",
		"--quick --full":    "--quick and --full exclude each other",
		"--format xml":      `invalid format "xml"`,
	})
	if _, err := measuretest.Parse(New, "--pg-config /none --steno off"); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestMissingThingsAreErrorsBeforeAnythingStarts(t *testing.T) {
	o, err := measuretest.Parse(New, "--pg-config /no/such/pg_config")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.prepare(); err == nil || !strings.Contains(err.Error(), `cannot run "/no/such/pg_config`) {
		t.Errorf("got %v", err)
	}
}

// pg_steno that is missing is an error when it was asked for, and skipped
// otherwise.
func TestMissingExtension(t *testing.T) {
	if labtest.Installation(t).HasLibrary(stenoLibrary) {
		t.Skip("pg_steno is installed")
	}
	for _, line := range []string{"--steno sync", "--steno off,async"} {
		o, err := measuretest.Parse(New, line)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := o.prepare(); err == nil || !strings.Contains(err.Error(),
			"cannot measure pg_steno: no pg_steno.so in") {
			t.Errorf("%s: got %v", line, err)
		}
	}
	o, err := measuretest.Parse(New, "")
	if err != nil {
		t.Fatal(err)
	}
	_, skipped, err := o.prepare()
	if err != nil || len(skipped) != 2 || !slices.Equal(o.Steno, []string{stenoOff}) {
		t.Errorf("skipped %v, left %v, %v", skipped, o.Steno, err)
	}
}

func TestSizesOfRuns(t *testing.T) {
	for _, c := range []struct {
		line                   string
		rounds, seconds, looks int
		points                 int
	}{
		{"", 5, 1, 1, 5 * 3 * 2},
		{"--quick", 3, 1, 1, 5 * 3},
		{"--quick --inserts 1,10,100 --rounds 7", 7, 1, 1, 5 * 3 * 3},
		{"--full --cores all", 6, 2, 2, 5 * 3 * 2 * 3},
		{"--full --cores all --clients 8 --seconds 3 --steno off", 6, 3, 2, 5 * 2},
	} {
		o, err := measuretest.Parse(New, c.line)
		if err != nil {
			t.Fatal(err)
		}
		if o.Rounds != c.rounds || o.Seconds != c.seconds || o.Looks != c.looks || o.matrix.size() != c.points {
			t.Errorf("%q: %d rounds of %d s, %d looks, %d points, want %+v", c.line, o.Rounds, o.Seconds, o.Looks,
				o.matrix.size(), c)
		}
	}
	o := &Options{}
	o.Full = true
	o.choose(64, func(string) bool { return false })
	if want := []string{allCores, "32"}; !slices.Equal(o.Cores, want) {
		t.Errorf("on 64 cores the primary gets %v, want %v", o.Cores, want)
	}
}

func TestGroupsHaveEveryPointOnceAndNeighboursToCompare(t *testing.T) {
	m := matrix{Sync: []string{"off", "local", "on"}, Steno: []string{"off", "sync"}, Inserts: []int{1, 10},
		Clients: []int{4, 8}, Cores: []string{"all", "1"}}
	seen := map[point]bool{}
	for _, group := range m.groups() {
		if len(group) != 6 {
			t.Fatalf("a group of %d", len(group))
		}
		for _, p := range group {
			if p.inserts != group[0].inserts || p.clients != group[0].clients || p.cores != group[0].cores {
				t.Errorf("%v and %v are compared with each other", p, group[0])
			}
			if seen[p] {
				t.Errorf("%v comes twice", p)
			}
			seen[p] = true
		}
	}
	if len(seen) != m.size() || m.size() != 48 {
		t.Errorf("%d points of %d", len(seen), m.size())
	}
}
