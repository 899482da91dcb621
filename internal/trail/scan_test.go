package trail_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// all is a formatter that shows of a record what other blocks have to say, too.
type all struct{ lines }

func (a *all) Append(dst []byte, r *format.Record) []byte { return append(dst, shown(a.ref, r)...) }

func shown(ref *trail.BlockRef, r *format.Record) string {
	return fmt.Sprintf("%d %d %s %d %q %q %x %t", ref.Number, r.Time, r.Session.ID(), r.Seq, r.Text, r.Message, r.Values, r.Undone())
}

// read returns all records by a merge, and all warnings, and the same by a scan of several readers.
func read(t *testing.T, dir string, since, until int64) (merged, mergeWarnings, scanned, scanWarnings []string, stats trail.ScanStats) {
	t.Helper()
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = opened.Index().Merge(context.Background(), trail.MergeOptions{
		Since: since, Until: until, Rollbacks: true,
		NewFormatter: func() trail.Formatter { return &all{} },
		Warn:         func(err error) { mergeWarnings = append(mergeWarnings, err.Error()) },
	}, func(line []byte) error { merged = append(merged, string(line)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	scan := opened.Index().Scan(context.Background(), trail.ScanOptions{
		Since: since, Until: until, Parts: true, Rollbacks: true,
		Warn: func(err error) { scanWarnings = append(scanWarnings, err.Error()) },
	})
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for r := scan.Reader(); r.Next(); {
				line := shown(r.Ref, &r.Record)
				mu.Lock()
				scanned = append(scanned, line)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	stats = scan.Stats()
	scan.Close()
	for _, list := range [][]string{merged, mergeWarnings, scanned, scanWarnings} {
		slices.Sort(list)
	}
	return
}

func TestScanFindsWhatMergeFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	dir := t.TempDir()
	_, times := randomTrail(t, dir, rng, 3, 25)
	slices.Sort(times)
	middle, end := times[len(times)/2], times[3*len(times)/4]
	for _, bounds := range [][2]int64{{format.MinTime, format.MaxTime}, {middle, end}, {middle, format.MaxTime}, {format.MinTime, middle}, {end + 1e12, format.MaxTime}} {
		merged, _, scanned, warnings, stats := read(t, dir, bounds[0], bounds[1])
		if !slices.Equal(merged, scanned) || len(warnings) > 0 {
			t.Errorf("%v: %d records scanned, %d merged; %v", bounds, len(scanned), len(merged), warnings)
		}
		if all := bounds[0] == format.MinTime && bounds[1] == format.MaxTime; all != (stats.Outside == 0) {
			t.Errorf("%v: %d blocks are outside", bounds, stats.Outside)
		}
	}
}

// TestScanOfGoldenTrails includes damage, big records in parts, and what was rolled back.
func TestScanOfGoldenTrails(t *testing.T) {
	golden := trailtest.Golden(t)
	expected, _ := filepath.Glob(golden + "/*.expected")
	damaged, _ := filepath.Glob(golden + "/damaged/*.expected")
	undone, warned := 0, 0
	for _, path := range append(expected, damaged...) {
		path = strings.TrimSuffix(path, ".expected")
		if _, err := os.Stat(path); err != nil {
			continue
		}
		merged, mergeWarnings, scanned, scanWarnings, _ := read(t, path, format.MinTime, format.MaxTime)
		if !slices.Equal(merged, scanned) {
			t.Errorf("%s: scanned %q, merged %q", filepath.Base(path), scanned, merged)
		}
		if !slices.Equal(mergeWarnings, scanWarnings) {
			t.Errorf("%s: warnings %q, of merge %q", filepath.Base(path), scanWarnings, mergeWarnings)
		}
		warned += len(scanWarnings)
		for _, line := range scanned {
			if strings.HasSuffix(line, " true") {
				undone++
			}
		}
	}
	if undone == 0 || warned < 5 {
		t.Errorf("%d records were undone, %d warnings", undone, warned)
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	randomTrail(t, dir, rand.New(rand.NewPCG(1, 1)), 2, 30)
	ctx, cancel := context.WithCancel(context.Background())
	opened, err := trail.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	scan := opened.Index().Scan(ctx, trail.ScanOptions{Since: format.MinTime, Until: format.MaxTime, Warn: func(err error) { t.Error(err) }})
	defer scan.Close()
	r := scan.Reader()
	if !r.Next() {
		t.Fatal("no record")
	}
	cancel()
	for r.Next() {
	}
	if left := scan.Stats(); left.Read > 40 {
		t.Errorf("%d blocks were read", left.Read)
	}
}
