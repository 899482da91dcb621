// CPU samples in a result: counts, places and shares.

package result

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CPUSamples are repeated counts of a server's CPU samples: how many were the extension's, and in which functions.
type CPUSamples struct {
	Command string   `json:"command"`
	Runs    []CPURun `json:"runs"`
}

// CPURun counts samples. A sample is the extension's when it is in a
// writer, or when the innermost frame of the extension on its stack has not
// handed over to the server or another hook.
//
// A function without a frame of its own hides its caller from frame pointers:
// below executor_run then seems to be ExecShutdownNode, where
// standard_ExecutorRun was in between. Such samples are Hidden: right above the
// extension's frame is a function of the server that the extension does not
// import, so it cannot have called it.
type CPURun struct {
	Samples  int `json:"samples"`  // of all processes of the server
	Backends int `json:"backends"` // of them the extension's, outside writers
	Writers  int `json:"writers"`  // of them in writers
	Hidden   int `json:"hidden"`   // of them the server's, though the frames seem to say the extension's
	// Places are the functions of the extension's samples outside writers, the most frequent first: its innermost
	// function, and the innermost of all.
	Places []Place `json:"places"`
	TPS    float64 `json:"tps"`
}

// Place is a number of samples with the same functions.
type Place struct {
	Function string `json:"function"`
	Leaf     string `json:"leaf"`
	Samples  int    `json:"samples"`
}

// Share returns the extension's share in per cent: total, in backends, and in writers.
func (r CPURun) Share() (all, backends, writers float64) {
	n := float64(max(r.Samples, 1)) / 100
	return float64(r.Backends+r.Writers) / n, float64(r.Backends) / n, float64(r.Writers) / n
}

// Spread returns the smallest and the largest share of the runs.
func (c *CPUSamples) Spread() (low, high float64) {
	shares := c.Shares()
	return slices.Min(shares), slices.Max(shares)
}

// Shares returns the share of each run, in per cent.
func (c *CPUSamples) Shares() []float64 {
	var shares []float64
	for _, run := range c.Runs {
		all, _, _ := run.Share()
		shares = append(shares, all)
	}
	return shares
}

// Notes says what was counted, a sentence for each run.
func (c *CPUSamples) Notes() []string {
	notes := []string{fmt.Sprintf("Share of PostgreSQL's CPU samples in the extension's code and its writers, system "+
		"calls included (%s):", c.Command)}
	for i, run := range c.Runs {
		all, backends, writers := run.Share()
		note := fmt.Sprintf("run %d: %.2f %% (backends %.2f %%, writers %.2f %%) of %d samples, %.0f tps", i+1, all,
			backends, writers, run.Samples, run.TPS)
		if run.Hidden > 0 {
			note += fmt.Sprintf("; not counted: %.2f %% in functions that the extension does not call",
				100*float64(run.Hidden)/float64(max(run.Samples, 1)))
		}
		notes = append(notes, note)
	}
	if functions := c.functions(8); functions != "" {
		notes = append(notes, "in backends: "+functions)
	}
	return notes
}

// functions names the extension's functions, in backends, that most samples were in or below.
func (c *CPUSamples) functions(most int) string {
	all, counts := 0, map[string]int{}
	for _, run := range c.Runs {
		all += run.Samples
		for _, place := range run.Places {
			counts[place.Function] += place.Samples
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	var shown []string
	for _, name := range names[:min(most, len(names))] {
		shown = append(shown, fmt.Sprintf("%s %.2f %%", name, 100*float64(counts[name])/float64(max(all, 1))))
	}
	return strings.Join(shown, ", ")
}
