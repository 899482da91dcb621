package report

import (
	"fmt"
	"math"
	"time"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
)

// The synthetic results of these tests have the structure of real ones; their figures are computed by formulas. Some
// titles contain markup, which must be escaped.

var made = result.Result{
	Version: result.Version, Time: time.Date(2026, 11, 22, 10, 30, 0, 0, time.UTC), Steno: "0.1.0",
	Postgres: "PostgreSQL 15.20 (Debian 15.20-0+deb12u1)",
	Machine: machine.Machine{CPU: "A & B <CPU> 9000", Cores: 2, Memory: "8123456 kB", Kernel: "6.1.0-38-amd64",
		System: "Debian GNU/Linux 12 (bookworm)"},
}

func values(titles ...string) []result.Value {
	var all []result.Value
	for i := 0; i < len(titles); i += 2 {
		all = append(all, result.Value{Name: titles[i], Title: titles[i+1]})
	}
	return all
}

// wobble returns a small factor that varies with the sample and is reproducible.
func wobble(round, i int) float64 { return 1 + 0.03*math.Sin(float64(7*round+3*i)) }

// exampleLogging returns a result like that of the logging bench: ratios to a base, published ones, a busy machine.
func exampleLogging() *result.Result {
	r := made
	r.Bench, r.Title = "logging", "What the server's log costs, <b>and</b> what pg_steno does"
	r.Command = `steno bench logging --clients 1,16 --output "a <b>"`
	r.Busy = machine.Busy{Before: 37, Steal: 4.25, Load: 1.5}
	r.Settings = []cluster.Setting{{Name: "shared_buffers", Value: "256MB"},
		{Name: "log_line_prefix", Value: "%m [%p] <%u>"}}
	r.Parameters = []result.Parameter{{Name: "rounds", Value: "7"}, {Name: "seconds of a slice", Value: "2"},
		{Name: "scale", Value: "10"}}
	r.Dimensions = []result.Dimension{
		{Name: "variant", Title: "recorded by", Values: values("none", "nothing", "log_statement", "log_statement=all",
			"both", "log_statement=all, log_duration", "pgaudit", "pgaudit", "steno", "pg_steno")},
		{Name: "clients", Title: "clients", Values: values("1", "1", "16", "16")},
	}
	r.Dimensions[0].Values[1].Settings = []cluster.Setting{{Name: "log_statement", Value: "all"}}
	r.Metrics = []result.Metric{
		{Name: "tps", Title: "throughput", Unit: "1/s", Better: "higher"},
		{Name: "p99", Title: "latency, 99th percentile", Unit: "ms", Better: "lower"},
		{Name: "bytes", Title: "bytes per transaction", Unit: "B", Better: "lower"},
	}
	cost := map[string]float64{"none": 1, "log_statement": 0.7, "both": 0.55, "steno": 0.985}
	bytes := map[string]float64{"log_statement": 216, "both": 345, "steno": 9.8}
	for round := 1; round <= 7; round++ {
		for i, variant := range []string{"none", "log_statement", "both", "steno"} {
			for j, clients := range []string{"1", "16"} {
				c := result.Case{"variant": variant, "clients": clients}
				tps := float64(9500+11000*j) * cost[variant] * wobble(round, i+5*j)
				r.Add(round, i+1, c, "tps", tps)
				r.Add(round, i+1, c, "p99", 4e3*float64(1+15*j)/tps)
				if b := bytes[variant]; b > 0 {
					r.Add(round, i+1, c, "bytes", b*wobble(round, 0))
				}
			}
		}
	}
	r.Summarize("variant", "none")
	publish := func(variant string, values ...float64) {
		m := r.Find(result.Case{"variant": variant, "clients": "16"}, "tps")
		for i, value := range values {
			m.Published = append(m.Published, result.Published{Value: value, IsRatio: true,
				Source:     []string{"A, 2018", "B & <C>, 2019"}[i],
				Conditions: []string{"PostgreSQL 10, csvlog, 56 clients", "64 cores, 64 clients"}[i]})
		}
	}
	publish("log_statement", 0.92, 0.85)
	publish("both", 0.30, 0.58)
	r.Tables = []result.Table{
		{Title: "Throughput", Rows: []string{"clients", "variant"}, Bar: 1, Columns: []result.Column{
			{Metric: "tps"}, {Metric: "tps", Ratio: true, Published: true}, {Metric: "p99"}, {Metric: "bytes"}}},
		{Title: "Throughput by clients", Rows: []string{"variant"}, Bar: -1,
			Columns: []result.Column{{Metric: "tps", Dimension: "clients"}}},
	}
	r.Charts = []result.Chart{
		{Title: "Throughput against no log", Kind: "bars", Metric: "tps", Ratio: true, X: "clients", Series: "variant",
			Note: "Diamonds are what others have found, on other machines & <versions>."},
		{Title: "Bytes written", Kind: "bars", Metric: "bytes", X: "variant", Where: result.Case{"clients": "16"},
			Log: true},
	}
	for _, clients := range []string{"1", "16"} {
		r.Skipped = append(r.Skipped, result.Skipped{Case: result.Case{"variant": "pgaudit", "clients": clients},
			Reason: "pgaudit.so is not installed <here>"})
	}
	r.Notes = []string{"With log_statement=all and log_duration the server keeps about half of its throughput; the " +
		"cause is the pipe to the logging collector, " +
		"which all sessions write to & wait for.", "Two cores cannot show how <many> cores would queue for one pipe."}
	return &r
}

// exampleIPC returns a result like that of the ipc bench: many dimensions, lines over several powers of ten.
func exampleIPC() *result.Result {
	r := made
	r.Bench, r.Title, r.Command, r.Postgres = "ipc", "Channels between processes", "steno bench ipc --quick", ""
	r.Parameters = []result.Parameter{{Name: "rounds", Value: "3"}}
	sizes := []int{64, 512, 65536}
	r.Dimensions = []result.Dimension{
		{Name: "channel", Title: "channel", Values: values("pipe", "pipe", "mutex", "pipe with a mutex", "socket",
			"socketpair", "rings", "one ring per producer")},
		{Name: "size", Title: "bytes", Values: values("64", "64 B", "512", "512 B", "65536", "64 KB")},
		{Name: "producers", Title: "processes", Values: values("1", "1", "1000", "1000")},
	}
	r.Metrics = []result.Metric{{Name: "rate", Title: "messages per CPU-second", Unit: "1/s", Better: "higher"},
		{Name: "d_state", Title: "processes in D state", Better: "lower"}}
	speed := map[string]float64{"pipe": 4e5, "mutex": 7e5, "socket": 3.3e5, "rings": 2e7}
	for round := 1; round <= 3; round++ {
		for i, channel := range []string{"pipe", "mutex", "socket", "rings"} {
			for _, size := range sizes {
				for _, n := range []int{1, 1000} {
					c := result.Case{"channel": channel, "size": fmt.Sprint(size), "producers": fmt.Sprint(n)}
					if channel == "pipe" && size > 4096 {
						if round == 1 {
							r.Skipped = append(r.Skipped,
								result.Skipped{Case: c, Reason: "a write of more than 4 KB to a pipe is not atomic"})
						}
						continue
					}
					rate := speed[channel] / (1 + float64(size)/2000) / (1 + math.Log10(float64(n)))
					r.Add(round, i+1, c, "rate", rate*wobble(round, i)*wobble(round, size+n)*wobble(n, round))
					r.Add(round, i+1, c, "d_state", float64(n/100*(i%2)))
				}
			}
		}
	}
	r.Summarize("channel", "pipe")
	r.Tables = []result.Table{{Title: "Messages", Rows: []string{"channel", "size"}, Bar: -1,
		Columns: []result.Column{{Metric: "rate", Dimension: "producers"}}},
		{Title: "Against a pipe, 512 B", Rows: []string{"channel", "producers"}, Where: result.Case{"size": "512"},
			Bar:     1,
			Columns: []result.Column{{Metric: "rate"}, {Metric: "rate", Ratio: true}, {Metric: "d_state"}}}}
	r.Charts = []result.Chart{
		{Title: "Messages per CPU-second", Kind: "lines", Metric: "rate", X: "size", Series: "channel", Log: true},
		{Title: "Against a pipe, 512 B", Kind: "bars", Metric: "rate", Ratio: true, X: "producers",
			Series: "channel", Where: result.Case{"size": "512"}, Log: true},
		{Title: "Processes that wait in the kernel", Kind: "lines", Metric: "d_state", X: "producers",
			Series: "channel", Where: result.Case{"size": "512"}},
	}
	return &r
}

func examples() map[string]*result.Result {
	return map[string]*result.Result{"logging": exampleLogging(), "ipc": exampleIPC()}
}
