// Runs the cases of the plan in rounds, and converts the output of steno-ipc into samples.

package ipc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// Bases of the ratios.
const (
	baseChannel = "pipe"
	baseWaker   = "signal"
)

var sendMetrics = []result.Metric{
	{Name: "messages", Title: "messages per second", Unit: "1/s", Better: "higher"},
	{Name: "megabytes", Title: "throughput", Unit: "MB/s", Better: "higher"},
	{Name: "per_cpu", Title: "messages per second of CPU time", Unit: "1/s", Better: "higher"},
	{Name: "cpu", Title: "CPU time per message", Unit: "µs", Better: "lower"},
	{Name: "handover", Title: "of that, for the transfer (without creating and checking it)", Unit: "µs",
		Better: "lower"},
	{Name: "cpu_user", Title: "of that, in user mode", Unit: "µs", Better: "lower"},
	{Name: "cpu_system", Title: "of that, in the kernel", Unit: "µs", Better: "lower"},
	{Name: "voluntary", Title: "voluntary context switches per 1,000 messages", Better: "lower"},
	{Name: "involuntary", Title: "involuntary context switches per 1,000 messages", Better: "lower"},
	{Name: "wakeups", Title: "wake-ups of readers per 1,000 messages", Better: "lower"},
	{Name: "state_d", Title: "processes in state D", Better: "lower"},
	{Name: "delay", Title: "delay of a message, median", Unit: "µs", Better: "lower"},
	{Name: "delay_99", Title: "delay of a message, 99th percentile", Unit: "µs", Better: "lower"},
}

var wakeMetrics = []result.Metric{
	{Name: "wakes", Title: "wake-ups per second", Unit: "1/s", Better: "higher"},
	{Name: "first", Title: "until the first is awake", Unit: "µs", Better: "lower"},
	{Name: "middle", Title: "until half of them are awake", Unit: "µs", Better: "lower"},
	{Name: "last", Title: "until the last is awake", Unit: "µs", Better: "lower"},
	{Name: "last_99", Title: "until the last is awake, 99th percentile", Unit: "µs", Better: "lower"},
	{Name: "waker_calls", Title: "system calls to wake all", Better: "lower"},
	{Name: "sleeper_calls", Title: "system calls per sleeper and wake-up", Better: "lower"},
	{Name: "waker_cpu", Title: "CPU time to wake all", Unit: "µs", Better: "lower"},
	{Name: "sleeper_cpu", Title: "CPU time per sleeper and wake-up", Unit: "µs", Better: "lower"},
	{Name: "switches", Title: "context switches per sleeper and wake-up", Better: "lower"},
}

// runner collects the samples of a plan.
type runner struct {
	o       *Options
	lab     *lab
	send    *result.Result // the two parts have ratios to different bases
	wake    *result.Result
	phases  func(what string, done, all int)
	done    int
	skipped map[string]bool
	guessed bool // system calls were estimated, because they cannot be counted
}

// measure runs the plan, and makes the result.
func measureAll(ctx context.Context, o *Options, l *lab, phases *progress.Phases) (*result.Result, error) {
	r := result.New("ipc", "Passing log messages to a reader, and waking processes", measure.CommandLine(), o.Version)
	x := &runner{
		o: o, lab: l, send: &result.Result{}, wake: &result.Result{}, phases: phases.Step,
		skipped: map[string]bool{},
	}
	phases.Phase("comparing channels and ways to wake")
	for round := range o.Rounds {
		if err := x.round(ctx, round); err != nil {
			return nil, err
		}
	}
	x.finish(r)
	return r, nil
}

// round runs each case once, in an order that depends on the round.
func (x *runner) round(ctx context.Context, round int) error {
	random := rand.New(rand.NewPCG(uint64(round), 0))
	groups := slices.Clone(x.o.plan.groups)
	random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	position := 0
	for _, g := range groups {
		for _, i := range random.Perm(len(x.o.plan.channels)) {
			if err := x.sendOne(ctx, round, position, x.o.plan.channels[i], g); err != nil {
				return err
			}
			position++
		}
	}
	for _, sleepers := range x.o.plan.sleepers {
		for _, i := range random.Perm(len(x.o.plan.wakers)) {
			if err := x.wakeOne(ctx, round, position, x.o.plan.wakers[i], sleepers); err != nil {
				return err
			}
			position++
		}
	}
	return nil
}

// step reports the progress.
func (x *runner) step(what string) {
	p := x.o.plan
	x.phases(what, x.done, x.o.Rounds*(len(p.groups)*len(p.channels)+len(p.sleepers)*len(p.wakers)))
	x.done++
}

// skip records once why a case cannot be run.
func (x *runner) skip(into *result.Result, key string, c result.Case, reason string) {
	x.skipped[key] = true
	into.Skipped = append(into.Skipped, result.Skipped{Case: c, Reason: reason})
}

func (x *runner) sendOne(ctx context.Context, round, position int, channel string, g group) error {
	key := fmt.Sprint(channel, g)
	x.step(fmt.Sprintf("%s, %d processes, %s", channel, g.processes, sizeTitle(g.size)))
	if x.skipped[key] {
		return nil
	}
	s, err := x.lab.send(ctx, channel, g, x.o.Slice, x.o.Folder)
	if err != nil {
		return err
	}
	c := g.of(channel)
	if s.Skipped != "" {
		x.skip(x.send, key, c, s.Skipped)
		return nil
	}
	for _, f := range s.figures() {
		x.send.Add(round, position, c, f.metric, f.value)
	}
	// of the samples in which the process still existed
	if s.Looks > 0 {
		x.send.Add(round, position, c, "state_d", float64(s.Uninterruptible)/float64(s.Looks)*float64(g.processes))
	}
	return nil
}

type figure struct {
	metric string
	value  float64
}

// figures derives the figures of a case.
func (s *sent) figures() []figure {
	n := float64(s.Messages)
	all := s.Senders.plus(s.Readers)
	cpu := float64(all.CPU) / 1e3 / n
	f := []figure{
		{"messages", n / s.Seconds},
		{"megabytes", float64(s.Bytes) / 1e6 / s.Seconds},
		{"per_cpu", n * 1e9 / float64(max(all.CPU, 1))},
		{"cpu", cpu},
		{"handover", max(0, cpu-s.Own/1e3)},
		{"voluntary", float64(all.Voluntary) / n * 1e3},
		{"involuntary", float64(all.Involuntary) / n * 1e3},
		{"wakeups", float64(s.Readers.Voluntary) / n * 1e3},
		{"delay", s.Delay50 / 1e3},
		{"delay_99", s.Delay99 / 1e3},
	}
	if share, ok := all.user(); ok {
		f = append(f, figure{"cpu_user", cpu * share}, figure{"cpu_system", cpu * (1 - share)})
	}
	return f
}

func (x *runner) wakeOne(ctx context.Context, round, position int, waker string, sleepers int) error {
	key := fmt.Sprint(waker, sleepers)
	x.step(fmt.Sprintf("%d sleepers, %s", sleepers, waker))
	if x.skipped[key] {
		return nil
	}
	w, err := x.lab.wake(ctx, waker, sleepers, x.o.Slice)
	if err != nil {
		return err
	}
	c := result.Case{"waker": waker, "sleepers": strconv.Itoa(sleepers)}
	if w.Skipped != "" {
		x.skip(x.wake, key, c, w.Skipped)
		return nil
	}
	x.guessed = x.guessed || !w.Counted
	for _, f := range w.figures(sleepers) {
		x.wake.Add(round, position, c, f.metric, f.value)
	}
	return nil
}

func (w *woken) figures(sleepers int) []figure {
	rounds := float64(w.Rounds)
	wakes := rounds * float64(sleepers)
	return []figure{
		{"wakes", wakes / w.WakingSeconds},
		{"first", w.First50 / 1e3},
		{"middle", w.Middle50 / 1e3},
		{"last", w.Last50 / 1e3},
		{"last_99", w.Last99 / 1e3},
		{"waker_calls", float64(w.WakerCalls) / rounds},
		{"sleeper_calls", float64(w.SleeperCalls) / wakes},
		{"waker_cpu", w.WakerCPU / 1e3 / rounds},
		{"sleeper_cpu", float64(w.Sleepers.CPU) / 1e3 / wakes},
		{"switches", float64(w.Sleepers.Voluntary+w.Sleepers.Involuntary) / wakes},
	}
}

// finish combines both parts into one result.
func (x *runner) finish(r *result.Result) {
	p := x.o.plan
	r.Parameters = []result.Parameter{
		{Name: "rounds", Value: strconv.Itoa(x.o.Rounds)},
		{Name: "length of a case", Value: x.o.Slice.String()},
		{Name: "checked", Value: "every byte of every message"},
	}
	r.Dimensions = p.dimensions()
	if len(p.groups) > 0 {
		x.send.Summarize("channel", baseChannel)
		r.Metrics = append(r.Metrics, sendMetrics...)
		r.Tables, r.Charts = sendTables(p), sendCharts(p)
		publish(x.send)
	}
	if len(p.sleepers) > 0 {
		x.wake.Summarize("waker", baseWaker)
		r.Metrics = append(r.Metrics, wakeMetrics...)
		r.Tables, r.Charts = append(r.Tables, wakeTable()), append(r.Charts, wakeCharts()...)
	}
	for _, part := range []*result.Result{x.send, x.wake} {
		r.Samples = append(r.Samples, part.Samples...)
		r.Measures = append(r.Measures, part.Measures...)
		r.Skipped = append(r.Skipped, part.Skipped...)
	}
	r.Notes = notes(r, p, x.guessed)
}

// titles are those of the dimensions that are varied.
var titles = map[string]string{
	"processes": "number of processes", "size": "size of messages", "readers": "number of readers",
	"batch": "messages that a reader takes at a time", "clock": "when the clock is read",
}

func sendTables(p plan) []result.Table {
	var t []result.Table
	for _, s := range p.sweeps {
		t = append(t, result.Table{
			Title: "Channels by " + titles[s.dimension] + " (" + others(s) + ")",
			Rows:  []string{s.dimension, "channel"}, Where: s.where, Bar: 2,
			Columns: []result.Column{
				{Metric: "messages"}, {Metric: "megabytes"}, {Metric: "per_cpu"}, {Metric: "per_cpu", Ratio: true},
				{Metric: "handover"}, {Metric: "cpu_user"}, {Metric: "cpu_system"}, {Metric: "voluntary"},
				{Metric: "involuntary"}, {Metric: "wakeups"}, {Metric: "state_d"}, {Metric: "delay"},
			},
		})
	}
	return t
}

// others describes the constant dimensions of a sweep.
func others(s sweep) string {
	text := ""
	say := func(dimension, words string) {
		if s.where[dimension] == "" {
			return
		}
		if text != "" {
			text += ", "
		}
		text += words
	}
	size, _ := strconv.Atoi(s.where["size"])
	say("processes", s.where["processes"]+" "+plural(s.where["processes"], "process", "processes"))
	say("size", sizeTitle(size))
	say("readers", s.where["readers"]+" "+plural(s.where["readers"], "reader", "readers"))
	say("batch", "batch: "+s.where["batch"])
	say("clock", "clock per "+s.where["clock"])
	return text
}

func plural(n, one, more string) string {
	if n == "1" {
		return one
	}
	return more
}

func sendCharts(p plan) []result.Chart {
	var c []result.Chart
	for _, s := range p.sweeps {
		chart := result.Chart{
			Title: "Messages per second of CPU time, by " + titles[s.dimension], Kind: "bars",
			Metric: "per_cpu", X: s.dimension, Series: "channel", Where: s.where, Log: true, Note: others(s),
		}
		c = append(c, chart)
		if s.dimension == "size" {
			chart.Title, chart.Kind, chart.Metric = "Throughput by size of messages", "lines", "megabytes"
			c = append(c, chart)
		}
		if s.dimension == "processes" {
			chart.Title, chart.Metric = "Delay of a message (median), by number of processes", "delay"
			c = append(c, chart)
		}
	}
	return c
}

func wakeTable() result.Table {
	return result.Table{
		Title: "Waking all sleepers", Rows: []string{"sleepers", "waker"}, Bar: 2,
		Columns: []result.Column{
			{Metric: "waker_calls"}, {Metric: "sleeper_calls"}, {Metric: "last"}, {Metric: "middle"},
			{Metric: "last", Ratio: true}, {Metric: "wakes"}, {Metric: "waker_cpu"}, {Metric: "sleeper_cpu"},
		},
	}
}

func wakeCharts() []result.Chart {
	return []result.Chart{
		{
			Title: "Until the last sleeper is awake", Kind: "lines", Metric: "last", X: "sleepers", Series: "waker",
			Log: true,
		},
		{
			Title: "System calls to wake all", Kind: "lines", Metric: "waker_calls", X: "sleepers", Series: "waker",
			Log: true,
		},
	}
}
