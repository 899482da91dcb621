// The cases of steno-ipc that are run: channels, wakers, and the axes along which they are varied.

package ipc

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/lab/bench/result"
)

// channels in the order in which they are shown; pipe is the base.
var channels = []result.Value{
	{Name: "pipe", Title: "pipe"},
	{Name: "pipe_mutex", Title: "pipe, with a mutex"},
	{Name: "stream", Title: "stream socket"},
	{Name: "stream_mutex", Title: "stream socket, with a mutex"},
	{Name: "datagram", Title: "datagram socket"},
	{Name: "file", Title: "append to a file"},
	{Name: "io_uring", Title: "append by io_uring"},
	{Name: "shared_ring", Title: "one ring shared by all"},
	{Name: "ring_each", Title: "one ring per process (pg_steno)"},
}

// wakers are ways to wake; signal is the base.
var wakers = []result.Value{
	{Name: "signal", Title: "one signal per process"},
	{Name: "signal_recreate", Title: "one signal per process, epoll set created for each wait"},
	{Name: "eventfd", Title: "one eventfd per process"},
	{Name: "eventfd_recreate", Title: "one eventfd per process, epoll set created for each wait"},
	{Name: "condvar", Title: "condition variable"},
	{Name: "futex", Title: "one futex (pg_steno)"},
}

// ChannelNames returns the names of the channels that can be compared.
func ChannelNames() []string { return names(channels) }

func names(values []result.Value) []string {
	var n []string
	for _, v := range values {
		n = append(n, v.Name)
	}
	return n
}

// axes are the values of each dimension. Sizes are in bytes; batch 0 means all.
type axes struct {
	channels                           []string
	processes, sizes, readers, batches []int
	clocks                             []string
}

// usual is the value of each dimension while another one is varied.
var usual = axes{
	channels: names(channels), processes: []int{50}, sizes: []int{512}, readers: []int{1}, batches: []int{0},
	clocks: []string{"pass"},
}

var (
	allProcesses = []int{1, 10, 50, 200, 1000}
	allSizes     = []int{64, 200, 512, 4096, 65536, 1 << 20, 4 << 20}
	allSleepers  = []int{1, 16, 64, 256, 1000}
)

// group is the cases that differ only in their channel. They are run directly one after the other, and compared.
type group struct {
	processes, size, readers, batch int
	clock                           string
}

// sweep is one dimension that is varied while the others are constant: a table and a chart.
type sweep struct {
	dimension string
	where     result.Case
}

// plan is the list of cases to be run.
type plan struct {
	channels []string
	groups   []group
	sweeps   []sweep
	wakers   []string
	sleepers []int
	rounds   int
}

func orElse[T any](values, otherwise []T) []T {
	if len(values) > 0 {
		return values
	}
	return otherwise
}

// fill uses the given values for axes without any.
func (a axes) fill(from axes) axes {
	return axes{
		orElse(a.channels, from.channels), orElse(a.processes, from.processes), orElse(a.sizes, from.sizes),
		orElse(a.readers, from.readers), orElse(a.batches, from.batches), orElse(a.clocks, from.clocks),
	}
}

func (a axes) chosen() bool {
	return len(a.channels)+len(a.processes)+len(a.sizes)+len(a.readers)+len(a.batches)+len(a.clocks) > 0
}

// groups returns all combinations.
func (a axes) groups() []group {
	var all []group
	for _, p := range a.processes {
		for _, s := range a.sizes {
			for _, r := range a.readers {
				for _, b := range a.batches {
					for _, c := range a.clocks {
						all = append(all, group{p, s, r, b, c})
					}
				}
			}
		}
	}
	return all
}

// where returns the case of the axes' usual values, or otherwise of their first ones, without a dimension.
func (a axes) where(dimension string) result.Case {
	pick := func(values []int, likes int) int {
		if slices.Contains(values, likes) {
			return likes
		}
		return values[0]
	}
	clock := a.clocks[0]
	if slices.Contains(a.clocks, usual.clocks[0]) {
		clock = usual.clocks[0]
	}
	g := group{
		pick(a.processes, usual.processes[0]), pick(a.sizes, usual.sizes[0]),
		pick(a.readers, usual.readers[0]), pick(a.batches, usual.batches[0]), clock,
	}
	c := g.of("")
	delete(c, "channel")
	delete(c, dimension)
	return c
}

// of returns the result's case of a channel in the group.
func (g group) of(channel string) result.Case {
	return result.Case{
		"channel": channel, "processes": strconv.Itoa(g.processes), "size": strconv.Itoa(g.size),
		"readers": strconv.Itoa(g.readers), "batch": batchName(g.batch), "clock": g.clock,
	}
}

func batchName(batch int) string {
	if batch == 0 {
		return "all"
	}
	return strconv.Itoa(batch)
}

// sensible excludes cases of the full matrix without additional information: batches and clocks for messages that take
// far longer than either.
func (g group) sensible() bool {
	if g.size >= 1<<20 {
		return g.batch == 0 && g.clock == "pass"
	}
	return g.clock == "pass" || g.batch == 0
}

// makePlan chooses the cases: those that were requested, or the default ones for the size of the run.
func makePlan(o *Options, chosen axes) plan {
	var p plan
	switch {
	case chosen.chosen():
		p = chosenPlan(chosen.fill(usual))
	case o.Full:
		p = fullPlan()
	case o.Quick:
		p = sweeps([]int{1, 50, 200}, []int{64, 512, 65536, 1 << 20}, false)
	default:
		p = sweeps(allProcesses, allSizes, true)
	}
	p.channels = orElse(chosen.channels, names(channels))
	p.wakers, p.sleepers = names(wakers), orElse(unique(o.Sleepers), allSleepers)
	p.rounds = 4
	if o.Quick || o.Full {
		p.rounds = 3
	}
	if o.Quick && len(o.Sleepers) == 0 {
		p.sleepers = []int{1, 64, 256}
	}
	if o.Part == "send" || (chosen.chosen() && o.Part == "both" && len(o.Sleepers) == 0) {
		p.wakers, p.sleepers = nil, nil
	}
	if o.Part == "wake" || (!chosen.chosen() && o.Part == "both" && len(o.Sleepers) > 0) {
		p.groups, p.sweeps = nil, nil
	}
	return p
}

// add adds a dimension that is varied.
func (p *plan) add(dimension string, a axes) {
	a = a.fill(usual)
	for _, g := range a.groups() {
		if !slices.Contains(p.groups, g) {
			p.groups = append(p.groups, g)
		}
	}
	p.sweeps = append(p.sweeps, sweep{dimension, a.where(dimension)})
}

// sweeps varies one dimension at a time. Sizes are varied with fewer processes, because large messages of many
// processes take long.
func sweeps(processes, sizes []int, all bool) plan {
	var p plan
	p.add("processes", axes{processes: processes})
	p.add("size", axes{processes: []int{10}, sizes: sizes})
	p.add("batch", axes{batches: []int{1, 25, 0}})
	if all {
		p.add("readers", axes{readers: []int{1, 4}})
		p.add("clock", axes{clocks: []string{"message", "pass"}})
	}
	return p
}

func fullPlan() plan {
	p := sweeps(allProcesses, allSizes, true)
	a := axes{
		processes: allProcesses, sizes: allSizes, readers: []int{1, 4}, batches: []int{1, 25, 0},
		clocks: []string{"message", "pass"},
	}
	for _, g := range a.fill(usual).groups() {
		if g.sensible() && !slices.Contains(p.groups, g) {
			p.groups = append(p.groups, g)
		}
	}
	return p
}

// chosenPlan returns all combinations; each dimension with several values is shown.
func chosenPlan(a axes) plan {
	p := plan{groups: a.groups()}
	for _, d := range []struct {
		name string
		n    int
	}{
		{"processes", len(a.processes)}, {"size", len(a.sizes)}, {"readers", len(a.readers)},
		{"batch", len(a.batches)}, {"clock", len(a.clocks)},
	} {
		if d.n > 1 {
			p.sweeps = append(p.sweeps, sweep{d.name, a.where(d.name)})
		}
	}
	if len(p.sweeps) == 0 {
		p.sweeps = []sweep{{"processes", a.where("processes")}}
	}
	return p
}

// dimensions returns the dimensions of the plan for the result.
func (p plan) dimensions() []result.Dimension {
	var d []result.Dimension
	if len(p.groups) > 0 {
		d = append(d,
			result.Dimension{Name: "processes", Title: "processes", Values: p.values(func(g group) int {
				return g.processes
			})},
			result.Dimension{Name: "size", Title: "message", Values: sizeValues(p.values(func(g group) int {
				return g.size
			}))},
			result.Dimension{Name: "readers", Title: "readers", Values: p.values(func(g group) int {
				return g.readers
			})},
			result.Dimension{Name: "batch", Title: "batch", Values: p.batchValues()},
			result.Dimension{Name: "clock", Title: "clock read per", Values: p.clockValues()},
			result.Dimension{Name: "channel", Title: "channel", Values: some(channels, p.channels)})
	}
	if len(p.sleepers) > 0 {
		d = append(d, result.Dimension{Name: "sleepers", Title: "sleepers", Values: numbers(p.sleepers)},
			result.Dimension{Name: "waker", Title: "woken by", Values: some(wakers, p.wakers)})
	}
	return d
}

func (p plan) values(of func(group) int) []result.Value {
	var all []int
	for _, g := range p.groups {
		all = append(all, of(g))
	}
	all = unique(all)
	slices.Sort(all)
	return numbers(all)
}

// batchValues returns the batches with "all" last, because it is the largest.
func (p plan) batchValues() []result.Value {
	v := p.values(func(g group) int { return g.batch })
	if v[0].Name == "0" {
		v = append(v[1:], result.Value{Name: "all", Title: "all"})
	}
	return v
}

func (p plan) clockValues() []result.Value {
	var v []result.Value
	for _, name := range []string{"message", "pass"} {
		if slices.ContainsFunc(p.groups, func(g group) bool { return g.clock == name }) {
			v = append(v, result.Value{Name: name, Title: name})
		}
	}
	return v
}

func numbers(values []int) []result.Value {
	var v []result.Value
	for _, n := range values {
		v = append(v, result.Value{Name: strconv.Itoa(n), Title: strconv.Itoa(n)})
	}
	return v
}

func sizeValues(values []result.Value) []result.Value {
	for i := range values {
		n, _ := strconv.Atoi(values[i].Name)
		values[i].Title = sizeTitle(n)
	}
	return values
}

func sizeTitle(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MB", n>>20)
	case n >= 4096 && n%1024 == 0:
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// some returns the chosen values, in their original order.
func some(values []result.Value, chosen []string) []result.Value {
	var s []result.Value
	for _, name := range chosen {
		i := slices.IndexFunc(values, func(v result.Value) bool { return v.Name == name })
		s = append(s, values[i])
	}
	return s
}
