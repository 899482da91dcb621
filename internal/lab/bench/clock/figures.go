package clock

import (
	"fmt"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/stats"
)

// uses are what reads the clock, and how often.
var uses = []struct {
	name, title string
	readings    int
}{
	{"block", "a read of blocks, with track_io_timing", 2},
	{"duration", "a statement, with log_duration", 1},
	{"line", "a line of the log, with %m in its prefix", 1},
	{"row", "a row of a node, with EXPLAIN ANALYZE", 2},
}

var tracks = []string{"off", "on"}

var metrics = []result.Metric{
	{Name: "reading", Title: "one reading of the clock", Unit: "ns", Better: "lower"},
	{Name: "estimate", Title: "added cost", Unit: "ns", Better: "lower"},
	{Name: "rate", Title: "queries per second", Unit: "1/s", Better: "higher"},
	{Name: "time", Title: "time of the query", Unit: "ms", Better: "lower"},
	{Name: "block", Title: "CPU time for each block", Unit: "ns", Better: "lower"},
	{Name: "added", Title: "CPU time that track_io_timing adds for each block", Unit: "ns", Better: "lower"},
}

func (b *clockBench) finish() {
	r := b.result
	r.Metrics = metrics
	r.Dimensions = []result.Dimension{
		{Name: "way", Title: "how the clock is read", Values: []result.Value{
			{Name: "direct", Title: "as PostgreSQL does (pg_test_timing)"},
			{Name: "kernel", Title: "by a system call (clock_gettime)"},
		}},
		{Name: "use", Title: "what reads the clock"},
		{Name: "track", Title: "track_io_timing", Values: []result.Value{
			{Name: "off", Title: "off"}, {Name: "on", Title: "on"},
		}},
	}
	for _, u := range uses {
		times := "a reading"
		if u.readings > 1 {
			times = strconv.Itoa(u.readings) + " readings"
		}
		value := result.Value{Name: u.name, Title: u.title + " (" + times + ")"}
		r.Dimensions[1].Values = append(r.Dimensions[1].Values, value)
	}
	r.Parameters = append(r.Parameters, result.Parameter{Name: "blocks that the query reads",
		Value: strconv.Itoa(int(b.blocks))})
	r.Summarize("track", "off")
	addPublished(r)
	reads := fmt.Sprintf("A query that reads %.0f blocks from the kernel's cache", b.blocks)
	r.Tables = []result.Table{
		{Title: "Reading the clock", Rows: []string{"way"}, Bar: 0,
			Columns: []result.Column{{Metric: "reading"}, {Metric: "reading", Published: true}}},
		{Title: "Resulting costs, derived from pg_test_timing", Rows: []string{"use"}, Bar: 0,
			Columns: []result.Column{{Metric: "estimate"}}},
		{Title: reads, Rows: []string{"track"}, Bar: 0, Columns: []result.Column{
			{Metric: "rate", Ratio: true}, {Metric: "rate", Published: true}, {Metric: "time"}, {Metric: "block"}}},
	}
	r.Charts = []result.Chart{
		{Title: "Reading the clock", Kind: "bars", Metric: "reading", X: "way"},
		{Title: "Resulting costs", Kind: "bars", Metric: "estimate", X: "use", Note: "Derived from pg_test_timing."},
		{Title: reads, Kind: "bars", Metric: "block", X: "track"},
	}
	r.Notes = append(r.Notes, b.notes()...)
}

// addPublished puts source A's figures beside ours.
func addPublished(r *result.Result) {
	if m := r.Find(result.Case{"way": "direct"}, "reading"); m != nil {
		m.Published = []result.Published{{Value: 42, Source: "analysis of 2018", Conditions: "pg_test_timing, ECS VM"}}
	}
	if m := r.Find(result.Case{"track": "on"}, "rate"); m != nil {
		for _, p := range []struct {
			on, off float64
			clients int
		}{{59684, 62370, 56}, {121725, 122479, 28}} {
			m.Published = append(m.Published, result.Published{
				Value: p.on / p.off, IsRatio: true, Source: "analysis of 2018",
				Conditions: fmt.Sprintf("pgbench -S with log_statement and log_duration, PostgreSQL ~10, %d clients",
					p.clients),
			})
		}
	}
}

// median is that of a case's metric; NaN when there is none.
func median(r *result.Result, c result.Case, metric string) float64 {
	if m := r.Find(c, metric); m != nil {
		return m.Value.Median
	}
	return stats.Of(nil).Median
}

// notes are findings, made from what was measured.
func (b *clockBench) notes() []string {
	r := b.result
	direct := median(r, result.Case{"way": "direct"}, "reading")
	kernel := median(r, result.Case{"way": "kernel"}, "reading")
	var notes []string
	if direct > kernel/2 {
		notes = append(notes, fmt.Sprintf("A reading by PostgreSQL takes %.0f ns, a system call %.0f ns: the clock seems "+
			"to be read through the kernel.",
			direct, kernel))
	} else {
		notes = append(notes, fmt.Sprintf("A reading by PostgreSQL takes %.0f ns; through the kernel, it would take "+
			"%.0f ns.", direct, kernel))
	}
	block := median(r, result.Case{"track": "off"}, "block")
	if m := r.Find(result.Case{}, "added"); m != nil {
		text := fmt.Sprintf("A block took %.0f ns of CPU time without track_io_timing. Two readings of the "+
			"clock, %.0f ns, are %.1f %% of that; "+
			"the measured difference is %.0f ns (%.0f to %.0f) per block.",
			block, 2*direct, 100*2*direct/block, m.Value.Median, m.Value.Low, m.Value.High)
		if m.Value.Low <= 0 && m.Value.High >= 0 {
			text += " The interval includes 0: this run cannot show a difference."
		}
		notes = append(notes, text+" Reading a block from a disk takes many times as long. Statements whose "+
			"blocks are in the server's cache do not read the clock for them.")
	}
	if b.slow >= 1 {
		notes = append(notes, fmt.Sprintf("Up to %.1f %% of the readings took longer than a microsecond: "+
			"another process ran, or the clock is slow.", b.slow))
	}
	return notes
}
