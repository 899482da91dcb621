// Compares durations of records with those in the log.

package regress

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Limits says how far a duration may be from another one, and for which share of them.
type Limits struct {
	Share    float64 // of the durations that must be within the limits
	Relative float64 // of the other duration, in addition to Absolute
	Absolute time.Duration
}

func (l Limits) within(a, b time.Duration) bool {
	return (a - b).Abs() <= l.Absolute+time.Duration(l.Relative*float64(b))
}

// Timing is the duration of a string in the log, and that of its records.
type Timing struct {
	Application, Session, Text string
	Log, Trail                 time.Duration
}

// Timings returns the durations of all strings that did not fail.
func (r *Report) Timings() []Timing {
	var all []Timing
	for _, s := range r.sessions {
		for _, x := range s.sent {
			if x.timed < x.pieces || x.timed == 0 || x.sqlState != "" || len(x.records) == 0 {
				continue
			}
			all = append(all, Timing{Application: x.application, Session: s.id, Text: x.text, Log: x.logged(), Trail: x.worked()})
		}
	}
	return all
}

// logged returns how long the messages took, up to the execution. A Parse counts for the first execution.
func (x *sent) logged() time.Duration { return x.took + x.parse }

// worked returns the durations of the records. In the extended protocol, a statement that is not in a transaction block
// commits at Sync, which the log does not time.
func (x *sent) worked() time.Duration {
	var sum int64
	for _, one := range x.records {
		sum += one.Duration
		if !x.extended || one.Class == "transaction" {
			sum += one.Commit
		}
	}
	return time.Duration(sum) * time.Microsecond
}

// JudgeDurations writes how many of the records' durations agree with the log, and lists the others. It reports whether
// there are enough of them.
func (r *Report) JudgeDurations(limits Limits, out io.Writer) bool {
	all := r.Timings()
	if len(all) == 0 {
		return true
	}
	var beyond []Timing
	for _, t := range all {
		if !limits.within(t.Trail, t.Log) {
			beyond = append(beyond, t)
		}
	}
	slices.SortFunc(beyond, func(a, b Timing) int { return int((b.Trail - b.Log).Abs() - (a.Trail - a.Log).Abs()) })
	for _, t := range beyond {
		if r.list != nil {
			fmt.Fprintf(r.list, "duration: session %s, %s, log %s, trail %s: %.200q\n", t.Session, t.Application, t.Log, t.Trail, t.Text)
		}
	}
	return limits.verdict(out, "log", len(all), len(beyond))
}

// verdict writes how many durations are within the limits, and reports whether there are enough.
func (l Limits) verdict(out io.Writer, other string, all, beyond int) bool {
	share := float64(all-beyond) / float64(all)
	fmt.Fprintf(out, "durations within %.0f %% and %s of those in the %s: %d of %d (%.2f %%, at least %.0f %%)\n",
		100*l.Relative, l.Absolute, other, all-beyond, all, 100*share, 100*l.Share)
	return share >= l.Share
}
