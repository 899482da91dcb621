// Compares durations of records with those in the log.

package regress

import (
	"fmt"
	"io"
	"maps"
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

	records []*record
	later   string // why the log's duration goes on after the record has ended, by definition; "": it does not
}

// What the server does for a statement when its record has ended: it is in the log's duration alone (docs/records.md).
const (
	sendsLater   = "rows of a utility statement, which are stored, and sent after it"
	removesLater = "removal of files after a commit"
)

// Timings returns the durations of all strings that did not fail.
func (r *Report) Timings() []Timing {
	var all []Timing
	for _, s := range r.sessions {
		removes := false // the transaction has files to remove when it has committed
		for _, x := range s.sent {
			later := ""
			for _, rec := range x.records {
				removes = removes || rec.removesFiles()
				if rec.sendsLater() {
					later = sendsLater
				}
			}
			if removes && x.commits() {
				later = removesLater
			}
			if x.endsTransaction() {
				removes = false
			}
			if x.timed < x.pieces || x.timed == 0 || x.sqlState != "" || len(x.records) == 0 {
				continue
			}
			all = append(all, Timing{Application: x.application, Session: s.id, Text: x.text, Log: x.logged(),
				Trail:   x.worked(),
				records: x.records, later: later})
		}
	}
	return all
}

// storing are the commands whose rows are stored before they are sent.
var storing = []string{"FETCH", "EXECUTE", "SHOW", "EXPLAIN", "CALL"}

// sendsLater reports whether the statement's rows are sent after it.
func (r *record) sendsLater() bool { return slices.Contains(storing, r.Command) }

// removesFiles reports whether files of relations are removed when the statement's transaction commits.
func (r *record) removesFiles() bool {
	return r.Class == "ddl" || slices.Contains([]string{"TRUNCATE TABLE", "VACUUM", "REFRESH MATERIALIZED VIEW"},
		r.Command)
}

// commits reports whether the string, in the simple protocol, ended with the commit of a transaction that has written.
func (x *sent) commits() bool {
	if x.extended || len(x.records) == 0 {
		return false
	}
	last := x.records[len(x.records)-1]
	return last.Commit > 0 || last.Command == "COMMIT"
}

// endsTransaction reports whether no transaction is open after the string.
func (x *sent) endsTransaction() bool {
	if len(x.records) == 0 {
		return false
	}
	last := x.records[len(x.records)-1]
	return last.Commit > 0 || slices.Contains([]string{"COMMIT", "ROLLBACK", "PREPARE TRANSACTION"}, last.Command)
}

// logged returns how long the messages took, up to the execution. A Parse counts for the first execution.
func (x *sent) logged() time.Duration { return x.took + x.parse }

// worked returns the durations of the records. In the extended protocol, a statement that is not in a transaction
// block commits at Sync, which the log does not time.
func (x *sent) worked() time.Duration {
	var sum int64
	for _, rec := range x.records {
		sum += rec.Duration
		if !x.extended || rec.Class == "transaction" {
			sum += rec.Commit
		}
	}
	return time.Duration(sum) * time.Microsecond
}

// JudgeDurations writes how many of the records' durations agree with the log, and lists the others. It reports
// whether there are enough of them. Those that end before the log's duration by definition, and are shorter, are
// counted separately.
func (r *Report) JudgeDurations(limits Limits, out io.Writer) bool {
	all := r.Timings()
	if len(all) == 0 {
		return true
	}
	var beyond []Timing
	different := map[string]int{}
	total := 0
	for _, t := range all {
		if limits.within(t.Trail, t.Log) {
			for _, rec := range t.records {
				rec.confirmed = true
			}
		} else if t.later != "" && t.Trail < t.Log {
			different[t.later]++
			continue
		} else {
			beyond = append(beyond, t)
		}
		total++
	}
	slices.SortFunc(beyond, func(a, b Timing) int { return int((b.Trail - b.Log).Abs() - (a.Trail - a.Log).Abs()) })
	for _, t := range beyond {
		if r.list != nil {
			fmt.Fprintf(r.list, "duration: session %s, %s, log %s, trail %s: %.200q\n", t.Session, t.Application,
				t.Log, t.Trail, t.Text)
		}
	}
	writeDifferent(out, "log", different)
	return limits.verdict(out, "log", total, len(beyond))
}

// writeDifferent writes how many durations differ by definition.
func writeDifferent(out io.Writer, who string, reasons map[string]int) {
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(out, "different from the %s by definition: %s: %d\n", who, why, reasons[why])
	}
}

// verdict writes how many durations are within the limits, and reports whether there are enough.
func (l Limits) verdict(out io.Writer, other string, all, beyond int) bool {
	share := float64(all-beyond) / float64(max(all, 1))
	fmt.Fprintf(out, "durations within %.0f %% and %s of those in the %s: %d of %d (%.2f %%, at least %.0f %%)\n",
		100*l.Relative, l.Absolute, other, all-beyond, all, 100*share, 100*l.Share)
	return all == 0 || share >= l.Share
}
