package logging

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/stats"
)

// notes are findings, made from what was measured.
func (m *measurement) notes() []string {
	var notes []string
	for _, p := range m.busiest() {
		notes = append(notes, m.findings(p)...)
	}
	if m.has("p999") {
		notes = append(notes, "Percentiles are medians over the slices of each slice's own percentile.")
	}
	return append(notes, m.machineNotes()...)
}

// busiest are the points with the most clients, one of each load.
func (m *measurement) busiest() []point {
	most := slices.Max(m.o.Clients)
	return slices.DeleteFunc(slices.Clone(m.o.points), func(p point) bool { return p.clients != most })
}

// finding is a variant's figures of one point.
type finding struct {
	variant variant
	tps     stats.Estimate // the share of throughput that is kept
}

// findings of one point: what costs most and least, where its time goes, and what
// noise hides.
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
		text += m.whereTimeGoes(most.variant, p)
	} else {
		text += "no way to log costs more throughput than the noise of this run hides."
	}
	notes := []string{text}
	if hidden != nil && most.tps.High < 1 {
		notes = append(notes, fmt.Sprintf("%s: the interval of %s encloses 1, so their cost is less than this run can tell.",
			p.title(), strings.Join(hidden, ", ")))
	}
	return notes
}

// kept is a ratio for people, in per cent, with its interval.
func kept(e stats.Estimate) string {
	return fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*e.Median, 100*e.Low, 100*e.High)
}

// compared are the variants of a point, the cheapest first, and the titles of
// those whose interval encloses 1.
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

// whereTimeGoes splits what a variant takes more than the base.
func (m *measurement) whereTimeGoes(v variant, p point) string {
	median := func(v variant, of part) (float64, bool) {
		c := caseOf(v, p)
		if of != "" {
			c = c.With("part", string(of))
		}
		found := m.result.Find(c, "cpu")
		if found == nil {
			return 0, false
		}
		return found.Value.Median, true
	}
	with, ok1 := median(v, "")
	without, ok2 := median(m.variants[0], "")
	if !ok1 || !ok2 || with <= without {
		return ""
	}
	var where []string
	for _, part := range parts {
		a, _ := median(v, part)
		b, _ := median(m.variants[0], part)
		if share := (a - b) / (with - without); share >= 0.05 {
			where = append(where, fmt.Sprintf("%.0f µs in %s", a-b, title(m.result, "part", string(part))))
		}
	}
	return fmt.Sprintf(" A transaction takes %.0f µs of the server's CPU time instead of %.0f: of the difference, %s.",
		with, without, strings.Join(where, ", "))
}

// manyCores is where sessions fight for the log's pipe: the published figures
// are of 56 clients and more on machines of that size.
const manyCores = 16

// machineNotes say what this machine cannot show.
func (m *measurement) machineNotes() []string {
	n := m.result.Machine.Cores
	notes := []string{"pgbench ran on the same machine as the server, and took its share of the processors."}
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
	text += ": the fight of many for the mutex of the log's pipe, which A and B found on large machines, hardly shows here."
	if both := m.result.Find(caseOf(variant{name: "both"}, m.busiest()[0]), "tps"); logged && both != nil && both.Ratio != nil {
		text += fmt.Sprintf(" What log_statement and log_duration leave here, %s, is without most of it.",
			kept(*both.Ratio))
	}
	return append(notes, text+" On a machine of "+strconv.Itoa(manyCores)+" processors or more, run: "+command)
}
