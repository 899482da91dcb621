// Findings of a run, and the published figures.

package logging

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// notes returns the findings that follow from the figures.
func (m *measurement) notes() []string {
	var notes []string
	for _, p := range m.busiest() {
		notes = append(notes, m.findings(p)...)
	}
	notes = append(notes, m.besidePublished()...)
	if m.has("p999") {
		notes = append(notes, "Percentiles are medians of the percentiles of the individual slices.")
	}
	if few := m.fewest(); few < enoughRounds {
		notes = append(notes, fmt.Sprintf("%d rounds are too few for a 95 %% interval; the interval shown is from "+
			"the smallest to the largest figure. At least %d rounds are needed.", few, enoughRounds))
	}
	return append(notes, m.machineNotes()...)
}

// enoughRounds is the number of rounds for a 95 % interval of medians.
const enoughRounds = 6

// fewest returns the smallest number of samples of a throughput.
func (m *measurement) fewest() int {
	few := math.MaxInt
	for i := range m.result.Measures {
		if measure := &m.result.Measures[i]; measure.Metric == "tps" {
			few = min(few, measure.Value.N)
		}
	}
	return few
}

// busiest returns the points with the most clients, one for each load.
func (m *measurement) busiest() []point {
	most := slices.Max(m.o.Clients)
	return slices.DeleteFunc(slices.Clone(m.o.points), func(p point) bool { return p.clients != most })
}

// redesigned is the share of the throughput that the published redesign of the server's log kept: TPC-B-like, scale
// 1000, 100 clients.
const redesigned = 91347.0 / 98033

// besidePublished returns published findings that are not figures of a variant.
func (m *measurement) besidePublished() []string {
	var notes []string
	ratio := func(variant string, p point) *stats.Estimate {
		c := result.Case{"variant": variant, "workload": p.workload.name, "protocol": p.protocol,
			"clients": strconv.Itoa(p.clients)}
		if found := m.result.Find(c, "tps"); found != nil {
			return found.Ratio
		}
		return nil
	}
	for _, p := range m.busiest() {
		if ours := ratio("steno", p); ours != nil && p.workload.name == "tpcb" {
			notes = append(notes, fmt.Sprintf("%s: pg_steno keeps %s of the throughput. The best published "+
				"redesign of the server's own log kept %.0f %%, with 100 clients at scale 1000.", p.title(),
				kept(*ours), 100*redesigned))
		}
		reading := p
		reading.workload.name = "select"
		one, rows := ratio("both", p), ratio("both", reading)
		if p.workload.name == "select1" && one != nil && rows != nil {
			notes = append(notes, fmt.Sprintf("%s: with log_statement and log_duration, %s of the throughput "+
				"remains; with pgbench -S, %s. The analysis of 2019 found that SELECT 1 is affected more.", p.title(),
				kept(*one), kept(*rows)))
		}
	}
	return notes
}

// finding is the figures of a variant at one point.
type finding struct {
	variant variant
	tps     stats.Estimate // the share of the throughput that is kept
}

// findings returns those of one point: the highest and lowest costs, where time is spent, and which differences are
// hidden by noise.
func (m *measurement) findings(p point) []string {
	all, hidden := m.compared(p)
	if len(all) == 0 {
		return nil
	}
	least, most := all[0], all[len(all)-1]
	text := p.title() + ": "
	if worst := most.tps; worst.High < 1 {
		text += fmt.Sprintf("%s costs most: it keeps %s of the throughput.", most.variant.title, kept(worst))
		if len(all) > 1 {
			text += fmt.Sprintf(" %s costs least: %s.", least.variant.title, kept(least.tps))
		}
	} else {
		text += "no way to log costs more throughput than the noise of this run."
	}
	notes := []string{text}
	if text := m.processorTime(p); text != "" {
		notes = append(notes, text)
	}
	if hidden != nil && most.tps.High < 1 {
		notes = append(notes, fmt.Sprintf("%s: the interval of %s includes 1, so the cost is smaller than this "+
			"run can show.",
			p.title(), strings.Join(hidden, ", ")))
	}
	return notes
}

// kept formats a ratio in per cent, with its interval.
func kept(e stats.Estimate) string {
	return fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*e.Median, 100*e.Low, 100*e.High)
}

// compared returns the variants of a point, the cheapest first, and the titles of those whose interval includes 1.
func (m *measurement) compared(p point) (all []finding, hidden []string) {
	for _, v := range m.variants {
		found := m.result.Find(caseOf(v, p), "tps")
		if found == nil || found.Ratio == nil {
			continue
		}
		all = append(all, finding{v, *found.Ratio})
		if found.Ratio.Low <= 1 && found.Ratio.High >= 1 {
			hidden = append(hidden, v.title)
		}
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(b.tps.Median, a.tps.Median) })
	return all, hidden
}

// processorTime states which variant takes most of the server's CPU time, and how much pg_steno takes: these figures
// are not hidden by the noise of the throughput.
func (m *measurement) processorTime(p point) string {
	var costliest *variant
	var most stats.Estimate
	for i, v := range m.variants {
		found := m.result.Find(caseOf(v, p), "cpu")
		if found == nil || found.Ratio == nil || found.Ratio.Low <= 1 ||
			costliest != nil && found.Ratio.Median <= most.Median {
			continue
		}
		costliest, most = &m.variants[i], *found.Ratio
	}
	if costliest == nil {
		return ""
	}
	text := p.title() + ": most of the server's CPU time goes to " + costliest.title + ": " +
		m.timeOf(*costliest, p) + m.split(*costliest, p) + "."
	for _, v := range m.variants {
		if v.name == "steno" && v.name != costliest.name {
			text += " " + v.title + " takes " + m.timeOf(v, p) + "."
		}
	}
	return text
}

// cpu returns the median of microseconds per transaction; an empty part means all.
func (m *measurement) cpu(v variant, p point, of part) float64 {
	c := caseOf(v, p)
	if of != "" {
		c = c.With("part", string(of))
	}
	if found := m.result.Find(c, "cpu"); found != nil {
		return found.Value.Median
	}
	return 0
}

func (m *measurement) timeOf(v variant, p point) string {
	return fmt.Sprintf("%.1f µs per transaction instead of %.1f", m.cpu(v, p, ""), m.cpu(m.variants[0], p, ""))
}

// split states in which part the difference to the base is.
func (m *measurement) split(v variant, p point) string {
	const worthSaying = 0.05
	all := m.cpu(v, p, "") - m.cpu(m.variants[0], p, "")
	var where []string
	for _, part := range parts {
		if more := m.cpu(v, p, part) - m.cpu(m.variants[0], p, part); more >= worthSaying*all {
			where = append(where, fmt.Sprintf("%.1f µs in %s", more, partNames[part]))
		}
	}
	if where == nil {
		return ""
	}
	return ", of which " + strings.Join(where, " and ")
}

// partNames are the names of parts in sentences.
var partNames = map[part]string{
	backends: "sessions", logger: "the logging collector", writers: "pg_steno's writers", other: "other processes",
}

// manyCores is the number of cores from which sessions contend for the log's pipe: the published figures are for 56 or
// more clients on such machines.
const manyCores = 16

// machineNotes states what cannot be observed on this machine.
func (m *measurement) machineNotes() []string {
	n := m.result.Machine.Cores
	notes := []string{"pgbench ran on the same machine as the server, and used a part of the CPU time."}
	if m.o.DSN != "" {
		notes = nil
	}
	if n >= manyCores {
		return notes
	}
	command := "steno bench logging --clients 28,56,112 --workload select,tpcb,select1"
	logged := slices.ContainsFunc(m.variants, func(v variant) bool { return v.name == "both" })
	text := fmt.Sprintf("%d processors run %d sessions at a time", n, n)
	if n == 1 {
		text = "One processor runs one session at a time"
	}
	text += ": contention for the mutex of the log's pipe, which the analyses of 2018 and 2019 found on large " +
		"machines, hardly occurs here."
	if both := m.result.Find(caseOf(variant{name: "both"}, m.busiest()[0]), "tps"); logged && both != nil &&
		both.Ratio != nil {
		text += fmt.Sprintf(" The throughput that remains here with log_statement and log_duration, %s, is hardly "+
			"affected by it.",
			kept(*both.Ratio))
	}
	return append(notes, text+" On a machine of "+strconv.Itoa(manyCores)+" processors or more, run: "+command)
}

// published is a published figure: the share of the throughput that is kept.
type published struct {
	variant, workload, protocol string // an empty protocol: not published
	clients                     int
	logged, off                 float64 // transactions per second
	source, conditions          string
}

const (
	sourceA = "analysis of 2018"
	sourceB = "analysis of 2019"
	sourceC = "redesign of the log collector"

	conditionsA = "PostgreSQL ~10, csvlog, ECS VM"
	conditionsB = "64 cores"
	conditionsC = "TPC-B-like, scale 1000"
)

// literature is the published figures of the same comparisons.
var literature = []published{
	{"log_statement", "select", "prepared", 56, 192413, 208834, sourceA, conditionsA},
	{"log_duration", "select", "prepared", 56, 107025, 208834, sourceA, conditionsA},
	{"both", "select", "prepared", 56, 62370, 208834, sourceA, conditionsA},
	{"both_io", "select", "prepared", 56, 59684, 208834, sourceA, conditionsA},
	{"log_statement", "select", "prepared", 28, 143642, 148093, sourceA, conditionsA},
	{"log_duration", "select", "prepared", 28, 139795, 148093, sourceA, conditionsA},
	{"both", "select", "prepared", 28, 122479, 148093, sourceA, conditionsA},
	{"both_io", "select", "prepared", 28, 121725, 148093, sourceA, conditionsA},
	{"csvlog", "select", "prepared", 56, 192413, 208834, sourceA, conditionsA},
	{"csvlog", "select", "prepared", 28, 143642, 148093, sourceA, conditionsA},
	{"log_statement", "select", "prepared", 64, 141541, 166786, sourceB, conditionsB},
	{"both", "select", "prepared", 64, 96551, 166786, sourceB, conditionsB},
	{"log_statement", "tpcb", "", 100, 19854, 98033, sourceC, conditionsC},
}

// addPublished adds each published figure to the measured one with the nearest number of clients.
func addPublished(r *result.Result) {
	for i := range r.Measures {
		m := &r.Measures[i]
		if m.Metric != "tps" || m.Ratio == nil {
			continue
		}
		clients, _ := strconv.Atoi(m.Case["clients"])
		found := slices.DeleteFunc(slices.Clone(literature), func(p published) bool {
			return p.variant != m.Case["variant"] || p.workload != m.Case["workload"] ||
				p.protocol != "" && p.protocol != m.Case["protocol"] || nearest(r, p.clients) != clients
		})
		slices.SortStableFunc(found, func(a, b published) int {
			return cmp.Compare(distance(a.clients, clients), distance(b.clients, clients))
		})
		for _, p := range found {
			m.Published = append(m.Published, result.Published{
				Value: p.logged / p.off, IsRatio: true, Source: p.source,
				Conditions: p.conditions + ", " + strconv.Itoa(p.clients) + " clients",
			})
		}
	}
}

func distance(a, b int) float64 { return math.Abs(math.Log(float64(a) / float64(b))) }

// nearest returns the measured number of clients that is nearest to another number.
func nearest(r *result.Result, clients int) int {
	best := 0
	for _, d := range r.Dimensions {
		if d.Name != "clients" {
			continue
		}
		for _, v := range d.Values {
			if n, err := strconv.Atoi(v.Name); err == nil && (best == 0 || distance(n, clients) < distance(best,
				clients)) {
				best = n
			}
		}
	}
	return best
}
