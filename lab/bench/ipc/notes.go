// Findings about channels and wakers, and the published figures.

package ipc

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// Published figures about channels: a redesign of PostgreSQL's log collector. The report does not name the machine.
const (
	published  = "published redesign of PostgreSQL's log collector"
	conditions = "1 to 1,000 processes, 512 B to 4 MB; machine not named"
)

// publish adds the published figures to the measured ones of the same kind.
func publish(r *result.Result) {
	for i := range r.Measures {
		m := &r.Measures[i]
		if m.Metric == "messages" && m.Ratio != nil && m.Case["channel"] == "pipe_mutex" &&
			m.Case["processes"] != "1" {
			for _, v := range []float64{1.5, 2} {
				m.Published = append(m.Published,
					result.Published{Value: v, IsRatio: true, Source: published, Conditions: conditions})
			}
		}
	}
}

// ratio returns the ratio of two cases within rounds; false if they have no common round.
func ratio(r *result.Result, a, b result.Case, metric string) (stats.Estimate, bool) {
	of := func(c result.Case) map[int]float64 {
		values := map[int]float64{}
		for _, s := range r.Samples {
			if s.Metric == metric && len(s.Case) == len(c) && s.Case.Matches(c) {
				values[s.Round] = s.Value
			}
		}
		return values
	}
	x, y := of(a), of(b)
	var ratios []float64
	for round, v := range x {
		if w := y[round]; w != 0 {
			ratios = append(ratios, v/w)
		}
	}
	return stats.NewEstimate(ratios), len(ratios) > 0
}

// show formats a ratio with its interval.
func show(e stats.Estimate) string {
	if e.N == 1 {
		return fmt.Sprintf("%.3g", e.Median)
	}
	return fmt.Sprintf("%.3g [%.3g, %.3g]", e.Median, e.Low, e.High)
}

// notes returns the findings. Each is included only if its cases were run.
func notes(r *result.Result, p plan, guessed bool) []string {
	var all []string
	for _, note := range []func(*result.Result, plan) string{
		ringNote, winnerNote, mutexNote, socketNote, batchNote, clockNote, readersNote, delayNote,
		broadcastNote, epollNote,
	} {
		if text := note(r, p); text != "" {
			all = append(all, text)
		}
	}
	if guessed {
		all = append(all, "This user may not count system calls. Those that the C library makes for "+
			"a condition variable, and waits for the futex, are counted as one each, which is the minimum.")
	}
	return append(all, coresNote(runtime.NumCPU()))
}

// at is the group that the bars show: 50 processes, 512 bytes.
var at = group{50, 512, 1, 0, "pass"}

func ringNote(r *result.Result, _ plan) string {
	e, ok := ratio(r, at.of("ring_each"), at.of("pipe"), "per_cpu")
	if !ok {
		return ""
	}
	text := "With 50 processes and messages of 512 bytes, one ring for each process moves " + show(e) +
		" times as many messages per second of CPU time as the plain pipe"
	if f, ok := ratio(r, at.of("ring_each"), at.of("shared_ring"), "per_cpu"); ok {
		text += ", and " + show(f) + " times as many as one ring shared by all"
	}
	text += "."
	if f, ok := ratio(r, at.of("pipe"), at.of("ring_each"), "handover"); ok {
		text += " Without the cost of creating and checking a message, the pipe takes " + show(f) +
			" times the CPU time."
	}
	return text
}

// winnerNote names the channel with the most messages per second of processor time, for the first and second
// dimension.
func winnerNote(r *result.Result, p plan) string {
	var parts []string
	for _, s := range p.sweeps {
		if s.dimension != "processes" && s.dimension != "size" {
			continue
		}
		var wins []string
		for _, d := range p.dimensions() {
			if d.Name != s.dimension {
				continue
			}
			for _, v := range d.Values {
				if best := winner(r, p, s.where.With(s.dimension, v.Name)); best != "" {
					wins = append(wins, v.Title+": "+best)
				}
			}
		}
		if len(wins) > 0 {
			parts = append(parts, titles[s.dimension]+" ("+others(s)+"): "+strings.Join(wins, ", "))
		}
	}
	if parts == nil {
		return ""
	}
	return "Most messages per second of CPU time, by " + strings.Join(parts, "; by ") + "."
}

func winner(r *result.Result, p plan, where result.Case) string {
	best, most := "", 0.0
	for _, name := range p.channels {
		if m := r.Find(where.With("channel", name), "per_cpu"); m != nil && m.Value.Median > most {
			best, most = name, m.Value.Median
		}
	}
	return best
}

// verdict compares a ratio with a published range.
func verdict(e stats.Estimate, low, high float64) string {
	switch {
	case e.High < low:
		return "here it is less"
	case e.Low > high:
		return "here it is more"
	case e.Median >= low && e.Median <= high:
		return "agrees"
	}
	return "not distinguishable here because of noise"
}

func mutexNote(r *result.Result, _ plan) string {
	e, ok := ratio(r, at.of("pipe_mutex"), at.of("pipe"), "messages")
	if !ok {
		return ""
	}
	text := "With a mutex around the write to the pipe: " + show(e) +
		" times the messages per second (50 processes, 512 bytes). " +
		"Published: 1.5 to 2 times; " + verdict(e, 1.5, 2) + "."
	if f, ok := ratio(r, at.of("pipe_mutex"), at.of("pipe"), "voluntary"); ok {
		text += " Voluntary context switches per message: " + show(f) + " times. Published: far fewer; " +
			verdict(f, 0, 0.5) + "."
	}
	bare, with := r.Find(at.of("pipe"), "state_d"), r.Find(at.of("pipe_mutex"), "state_d")
	if bare != nil && with != nil {
		text += fmt.Sprintf(" Processes in state D: %.2g with the plain pipe, %.2g with the mutex (medians); "+
			"published: none with the mutex.", bare.Value.Median, with.Value.Median)
	}
	return text
}

// socketNote compares the channels at the smallest and largest sizes that both have.
func socketNote(r *result.Result, p plan) string {
	small := group{10, 512, 1, 0, "pass"}
	large := group{10, 1 << 20, 1, 0, "pass"}
	text := ""
	if e, ok := ratio(r, small.of("stream"), small.of("pipe"), "messages"); ok {
		text += " with 512 bytes " + show(e) + " times the pipe's messages per second (published: a little fewer; " +
			verdict(e, 0.5, 1) + ");"
	}
	if e, ok := ratio(r, large.of("stream_mutex"), large.of("pipe_mutex"), "messages"); ok {
		text += " with 1 MB, both with a mutex, " + show(e) + " times (published: far more; " +
			verdict(e, 2, 1e9) + ");"
	}
	if text == "" {
		return ""
	}
	return "A stream socket, 10 processes:" + strings.TrimSuffix(text, ";") + "."
}

// ratios returns the ratios of two groups' medians for each channel.
func ratios(r *result.Result, a, b group, metric string, channels ...string) string {
	var parts []string
	for _, channel := range channels {
		if e, ok := ratio(r, a.of(channel), b.of(channel), metric); ok {
			parts = append(parts, channel+" "+show(e))
		}
	}
	return strings.Join(parts, ", ")
}

func batchNote(r *result.Result, p plan) string {
	one := at
	one.batch = 1
	parts := ratios(r, at, one, "per_cpu", "pipe", "stream", "ring_each")
	if parts == "" {
		return ""
	}
	return "A reader that takes all available messages instead of one at a time moves this many times as many " +
		"messages per second of CPU time: " + parts + "."
}

func clockNote(r *result.Result, p plan) string {
	message := at
	message.clock = "message"
	parts := ratios(r, message, at, "cpu", "pipe", "ring_each")
	if parts == "" {
		return ""
	}
	return "Reading the clock twice per message instead of once per batch takes this many times the CPU time: " +
		parts + "."
}

func readersNote(r *result.Result, p plan) string {
	four := at
	four.readers = 4
	parts := ratios(r, four, at, "messages", "pipe", "stream", "ring_each")
	if parts == "" {
		return ""
	}
	return "Four readers move this many times as many messages per second as one: " + parts + "."
}

// delayNote states the cost of large batches.
func delayNote(r *result.Result, _ plan) string {
	ring, pipe := r.Find(at.of("ring_each"), "delay"), r.Find(at.of("pipe"), "delay")
	if ring == nil || pipe == nil {
		return ""
	}
	return fmt.Sprintf("The price of rings is delay: their reader sleeps until a ring is half full, but at most 10 "+
		"ms. The median message waits %.3g µs in a ring and %.3g µs in the pipe (50 processes that send "+
		"without pauses).",
		ring.Value.Median, pipe.Value.Median)
}

// most returns the number of sleepers to be compared: 256 if it was run.
func most(p plan) int {
	if len(p.sleepers) == 0 || slices.Contains(p.sleepers, 256) {
		return 256
	}
	return slices.Max(p.sleepers)
}

func asleep(waker string, n int) result.Case {
	return result.Case{"waker": waker, "sleepers": fmt.Sprint(n)}
}

func broadcastNote(r *result.Result, p plan) string {
	n := most(p)
	e, ok := ratio(r, asleep("signal", n), asleep("futex", n), "waker_calls")
	if !ok {
		return ""
	}
	text := fmt.Sprintf("Waking %d sleepers by one signal each takes %s times as many system calls as one broadcast",
		n, show(e))
	if f, ok := ratio(r, asleep("signal", n), asleep("futex", n), "last"); ok {
		text += ", and " + show(f) + " times as long until the last is awake"
	}
	return text + "."
}

func epollNote(r *result.Result, p plan) string {
	n := most(p)
	e, ok := ratio(r, asleep("signal_recreate", n), asleep("signal", n), "last")
	if !ok {
		return ""
	}
	text := fmt.Sprintf("With an epoll set created for each wait, it takes %s times as long until the last of %d "+
		"sleepers is awake", show(e), n)
	if f, ok := ratio(r, asleep("signal_recreate", n), asleep("signal", n), "sleeper_calls"); ok {
		text += ", " + show(f) + " times as many system calls of the sleepers"
	}
	return text + ". PostgreSQL did this before version 14; published: 85 % of the time in the kernel's lock of " +
		"such sets, with 64 threads and synchronous replication."
}

// few is the number of cores below which contention cannot be observed.
const few = 16

func coresNote(cores int) string {
	if cores >= few {
		return fmt.Sprintf("%d cores: processes run at the same time, and contend for locks and cache lines.", cores)
	}
	return fmt.Sprintf("With %d cores, at most %d of the processes run at the same time. How many cores contend for "+
		"one lock or one cache line (the pipe's lock, the head of a shared ring) cannot be seen here: this needs %d "+
		"cores or more. On such a machine, run: steno bench ipc --full --out bench/results/ipc", cores, cores, few)
}
