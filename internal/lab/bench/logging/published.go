package logging

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
)

// published is somebody's figure: the throughput that is kept.
type published struct {
	variant, workload, protocol string // an empty protocol: it is not said
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

// literature is what has been published of the same comparisons.
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

// addPublished puts each published figure beside the measured one with the
// number of clients that is nearest to its own.
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

// nearest is the measured number of clients that is nearest to another.
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
