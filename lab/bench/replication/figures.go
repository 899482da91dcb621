// The result of a run: metrics, tables, charts and findings.

package replication

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// Names of metrics in files.
const (
	metricTPS       = "tps"
	metricInserts   = "inserts_per_s"
	metricP50       = "p50"
	metricP99       = "p99"
	metricIdle      = "idle"
	metricOff       = "against_off"
	metricWaits     = "waits"
	metricCalls     = "calls_per_commit"
	metricLatches   = "latches_per_commit"
	metricLatchesPS = "latches_per_s"
)

var metrics = []result.Metric{
	{Name: metricTPS, Title: "transactions per second", Unit: "1/s", Better: "higher"},
	{Name: metricInserts, Title: "inserts per second", Unit: "1/s", Better: "higher"},
	{Name: metricP50, Title: "latency, median", Unit: "ms", Better: "lower"},
	{Name: metricP99, Title: "latency, 99th percentile", Unit: "ms", Better: "lower"},
	{Name: metricIdle, Title: "processors idle", Unit: "%"},
	{Name: metricOff, Title: "throughput relative to no pg_steno", Better: "higher"},
	{Name: metricWaits, Title: "share of sessions", Unit: "%"},
	{Name: metricCalls, Title: "system calls per commit", Better: "lower"},
	{Name: metricLatches, Title: "latches set per commit", Better: "lower"},
	{Name: metricLatchesPS, Title: "latches set per second", Unit: "1/s"},
}

func (o *Options) newResult(installation *cluster.Installation, clients int) *result.Result {
	r := result.New("replication", "Commits that wait for a standby", measure.CommandLine(), o.Version)
	r.Postgres = installation.Version
	r.Settings = append(settings(clients), cluster.Setting{
		Name: "synchronous_standby_names", Value: fmt.Sprintf("ANY 1 (%d standbys)", standbys)})
	r.Dimensions, r.Metrics = o.dimensions(), metrics
	r.Parameters = []result.Parameter{
		{Name: "seconds of a slice", Value: strconv.Itoa(o.Seconds)},
		{Name: "slices for waits and system calls", Value: strconv.Itoa(o.Looks)},
		{Name: "servers", Value: "a primary and two standbys; with pg_steno on the primary another three, idle " +
			"meanwhile"},
		{Name: "protocol", Value: "prepared"},
	}
	return r
}

func (m *measurement) addTimed(round, position int, p point, f figures) {
	for _, x := range []struct {
		metric string
		value  float64
	}{
		{metricTPS, f.tps}, {metricInserts, f.tps * float64(p.inserts)}, {metricP50, f.p50}, {metricP99, f.p99},
		{metricIdle, f.idle},
	} {
		m.r.Add(round, position, p.result(), x.metric, x.value)
	}
}

// addAgainstOff pairs the points of a group with those that differ only in the absence of pg_steno.
func (m *measurement) addAgainstOff(round int, group []point, all []figures) {
	for i, p := range group {
		plain := p
		plain.steno = stenoOff
		if j := slices.Index(group, plain); p.steno != stenoOff && j >= 0 {
			m.r.Add(round, 0, p.result(), metricOff, all[i].tps/all[j].tps)
		}
	}
}

// addLooks converts looks into samples.
func (m *measurement) addLooks() {
	var all []*look
	for _, l := range m.looks {
		all = append(all, l.look)
	}
	top := topEvents(all)
	for _, l := range m.looks {
		c := l.result()
		of := shares(l.events, top)
		for _, event := range append(slices.Clone(top), otherEvents) {
			m.r.Add(l.round, l.position, c.With(dimEvent, event), metricWaits, of[event])
		}
		for _, name := range callNames {
			if n, ok := l.calls[name]; ok {
				m.r.Add(l.round, l.position, c.With(dimCall, callName(name)), metricCalls, n)
			}
		}
		if l.noLatches == nil {
			m.r.Add(l.round, l.position, c, metricLatchesPS, l.latches)
			m.r.Add(l.round, l.position, c, metricLatches, l.latches/l.tps)
		}
	}
	m.addLookDimensions(top)
}

func (m *measurement) addLookDimensions(top []string) {
	events := result.Dimension{Name: dimEvent, Title: "waits for"}
	for _, event := range append(slices.Clone(top), otherEvents) {
		events.Values = append(events.Values, result.Value{Name: event, Title: eventTitle(event)})
	}
	calls := result.Dimension{Name: dimCall, Title: "system call"}
	for _, name := range callNames {
		calls.Values = append(calls.Values, result.Value{Name: callName(name), Title: callTitle(name)})
	}
	if len(m.looks) > 0 {
		m.r.Dimensions = append(m.r.Dimensions, events, calls)
	}
}

// addReasons records once for each counter why it is not available.
func (m *measurement) addReasons() {
	skip := func(metric string, failed func(l *look) error) {
		n, reason := 0, ""
		for _, l := range m.looks {
			if err := failed(l.look); err != nil {
				n, reason = n+1, err.Error()
			}
		}
		if n > 0 {
			m.r.Skipped = append(m.r.Skipped, result.Skipped{
				Case: result.Case{}, Reason: fmt.Sprintf("%s in %d of %d slices: %s", metric, n,
					len(m.looks), reason)})
		}
	}
	skip("system calls were not counted", func(l *look) error { return l.noCalls })
	skip("latches were not counted", func(l *look) error { return l.noLatches })
	if len(m.looks) > 0 && m.looks[0].noCalls == nil {
		m.r.Parameters = append(m.r.Parameters, result.Parameter{Name: "system calls counted by",
			Value: m.looks[0].callsBy})
	}
}

// finish derives figures, tables, charts and notes from the samples.
func (m *measurement) finish() {
	m.r.Parameters = append([]result.Parameter{{Name: "rounds", Value: strconv.Itoa(m.rounded)}}, m.r.Parameters...)
	m.addLooks()
	m.addReasons()
	m.r.Summarize(dimSync, base)
	m.publish()
	m.tables()
	m.charts()
	m.r.Notes = m.notes()
}

// publish adds the published figures to the measured ones.
func (m *measurement) publish() {
	const source = "analysis of 2016"
	const conditions = "PostgreSQL 9.6, 64 threads, one insert a transaction, one primary and two standbys"
	// against about 220,000/s with local; 70,000 to 76,000/s with remote_write and on
	ratios := map[string]float64{"off": 300.0 / 220, "remote_write": 73.0 / 220, "on": 73.0 / 220}
	for sync, ratio := range ratios {
		for _, clients := range m.Clients {
			c := point{sync, stenoOff, 1, clients, allCores}.result()
			if x := m.r.Find(c, metricTPS); x != nil && x.Ratio != nil {
				x.Published = append(x.Published, result.Published{Value: ratio, IsRatio: true, Source: source,
					Conditions: conditions})
			}
		}
	}
}

// varied returns the dimensions with several values, except those named.
func (m *measurement) varied(without ...string) []string {
	var all []string
	for _, d := range []struct {
		name string
		n    int
	}{{dimClients, len(m.Clients)}, {dimCores, len(m.Cores)}, {dimInserts, len(m.Inserts)}, {dimSteno, len(m.Steno)},
		{dimSync, len(m.Sync)}} {
		if (d.n > 1 || d.name == dimSync) && !slices.Contains(without, d.name) {
			all = append(all, d.name)
		}
	}
	return all
}

func (m *measurement) tables() {
	m.r.Tables = []result.Table{{
		Title: "Throughput, relative to synchronous_commit=local", Rows: m.varied(), Bar: 0,
		Columns: []result.Column{
			{Metric: metricTPS}, {Metric: metricTPS, Ratio: true}, {Metric: metricTPS, Ratio: true, Published: true},
			{Metric: metricInserts}, {Metric: metricP50}, {Metric: metricP99}, {Metric: metricIdle},
		},
	}}
	if slices.Contains(m.Steno, stenoOff) && len(m.Steno) > 1 {
		m.r.Tables = append(m.r.Tables, result.Table{
			Title: "Throughput with pg_steno, relative to the same without it", Rows: m.varied(dimSteno), Bar: -1,
			Columns: []result.Column{{Metric: metricOff, Dimension: dimSteno}},
		})
	}
	if len(m.looks) == 0 {
		return
	}
	m.r.Tables = append(m.r.Tables,
		result.Table{Title: "What sessions wait for", Rows: m.varied(), Bar: -1,
			Columns: []result.Column{{Metric: metricWaits, Dimension: dimEvent}}},
		result.Table{Title: "System calls per commit, and latches", Rows: m.varied(), Bar: -1,
			Columns: []result.Column{{Metric: metricCalls, Dimension: dimCall}, {Metric: metricLatches},
				{Metric: metricLatchesPS}}})
}

func (m *measurement) charts() {
	// A chart shows two dimensions, with the first value of each of the others.
	first := result.Case{dimSteno: m.Steno[0], dimInserts: strconv.Itoa(m.Inserts[0]), dimCores: m.Cores[0],
		dimClients: strconv.Itoa(slices.Max(m.Clients))}
	where := func(free ...string) result.Case {
		c := result.Case{}
		for dimension, value := range first {
			if !slices.Contains(free, dimension) {
				c[dimension] = value
			}
		}
		return c
	}
	m.r.Charts = []result.Chart{{Title: "Transactions per second", Kind: "bars", Metric: metricTPS, X: dimSync,
		Series: dimSteno, Where: where(dimSteno)}}
	if len(m.looks) > 0 {
		m.r.Charts = append(m.r.Charts, result.Chart{
			Title: "What sessions wait for", Kind: "bars", Metric: metricWaits, X: dimSync, Series: dimEvent,
			Where: where()})
	}
	for _, d := range []struct {
		name, title string
		n           int
	}{
		{dimClients, "Transactions per second by clients", len(m.Clients)},
		{dimCores, "Transactions per second by the primary's cores", len(m.Cores)},
	} {
		if d.n > 1 {
			m.r.Charts = append(m.r.Charts, result.Chart{
				Title: d.title, Kind: "lines", Metric: metricTPS, X: d.name, Series: dimSync, Where: where(d.name)})
		}
	}
	if len(m.Inserts) > 1 {
		m.r.Charts = append(m.r.Charts, result.Chart{Title: "Inserts per second by inserts per transaction",
			Kind:   "bars",
			Metric: metricInserts, X: dimSync, Series: dimInserts, Where: where(dimInserts)})
	}
}

// enoughCores is about the number of cores for which the published findings were made.
const enoughCores = 16

// notes returns findings and limits that follow from the figures.
func (m *measurement) notes() []string {
	var all []string
	add := func(note string) {
		if note != "" {
			all = append(all, note)
		}
	}
	for _, sync := range []string{"on", "remote_apply", "remote_write"} {
		if slices.Contains(m.Sync, sync) {
			add(m.idleNote(sync))
			break
		}
	}
	add(m.epollNote())
	for _, steno := range m.Steno {
		add(m.stenoNote(steno))
	}
	add(m.batchNote())
	add(m.coresNote())
	add("Waits, system calls and latches were observed in separate slices, because observing slows a server down.")
	if cores := m.r.Machine.Cores; cores < enoughCores {
		add(fmt.Sprintf("The primary, the standbys and pgbench share %d cores. This run shows what commits wait for "+
			"and which system calls they make, but not how throughput levels off when many cores set latches for "+
			"each other. On a large machine, run: steno bench replication --full --clients 16,64,256 --cores "+
			"all,10,16,32", cores))
	}
	return all
}

// point returns the point that the notes are about.
func (m *measurement) point(sync, steno string) point {
	return point{sync, steno, m.Inserts[0], slices.Max(m.Clients), m.Cores[0]}
}

// median returns the median of a metric, or false if it was not measured.
func (m *measurement) median(c result.Case, metric string) (value float64, ok bool) {
	if x := m.r.Find(c, metric); x != nil {
		return x.Value.Median, true
	}
	return 0, false
}

// muchIdle is a difference in the processors' idle share, in per cent of all time, that is worth mentioning.
const muchIdle = 10

// idleNote states whether processors are idle while sessions wait for a standby.
func (m *measurement) idleNote(sync string) string {
	p := m.point(sync, m.Steno[0])
	waits, ok := m.median(p.result().With(dimEvent, waitStandby), metricWaits)
	idle, ok2 := m.median(p.result(), metricIdle)
	if !ok || !ok2 {
		return ""
	}
	note := fmt.Sprintf("With synchronous_commit=%s, %d clients and %s per transaction, %.0f %% of the observed "+
		"sessions waited for a standby (%s), while the processors were idle for %.0f %% of the time",
		sync, p.clients, insertsTitle(p.inserts), waits, waitStandby, idle)
	local, ok := m.median(m.point(base, m.Steno[0]).result(), metricIdle)
	if !ok {
		return note + "."
	}
	note += fmt.Sprintf(", with local for %.0f %%.", local)
	switch {
	case idle-local > muchIdle:
		return note + " The machine could do more: throughput is limited by the waits, not by the processors."
	case idle < muchIdle:
		return note + " Unlike in the published run, no processors are idle here while commits wait: " +
			"the standbys, the clients and other processes use them."
	default:
		return note
	}
}

func insertsTitle(n int) string {
	if n == 1 {
		return "1 insert"
	}
	return fmt.Sprintf("%d inserts", n)
}

// epollNote compares the published cause with the system calls that were counted.
func (m *measurement) epollNote() string {
	sync := "on"
	if !slices.Contains(m.Sync, sync) {
		return ""
	}
	c := m.point(sync, m.Steno[0]).result()
	ctl, ok := m.median(c.With(dimCall, "epoll_ctl"), metricCalls)
	wait, ok2 := m.median(c.With(dimCall, "epoll_wait"), metricCalls)
	if !ok || !ok2 {
		return ""
	}
	note := fmt.Sprintf("Each commit with synchronous_commit=on took %.2f calls of epoll_wait() and %.2f of "+
		"epoll_ctl() in the primary. ", wait, ctl)
	if ctl < wait/2 {
		return note + "The published cause, an epoll set created for each wait (PostgreSQL 9.6), no longer exists: " +
			"since PostgreSQL 14 (commit 3347c982bab), a session keeps its set."
	}
	return note + "The published cause, an epoll set created for each wait (PostgreSQL 9.6), is visible here, too; " +
		"PostgreSQL 14 and later keep it."
}

// stenoNote states the cost of pg_steno for commits that wait for a standby.
func (m *measurement) stenoNote(steno string) string {
	if steno == stenoOff {
		return ""
	}
	for _, sync := range []string{"on", base} {
		x := m.r.Find(m.point(sync, steno).result(), metricOff)
		if x == nil {
			continue
		}
		verdict := "a difference within the noise of this run"
		switch v := x.Value; {
		case v.N < 6:
			verdict = "but there are too few rounds to tell this from noise"
		case v.High < 1:
			verdict = "a loss beyond noise"
		case v.Low > 1:
			verdict = "a gain beyond noise"
		}
		return fmt.Sprintf("%s kept %.2f (%.2f to %.2f) of the throughput with synchronous_commit=%s, %s.",
			find(stenos, steno).Title, x.Value.Median, x.Value.Low, x.Value.High, sync, verdict)
	}
	return ""
}

// batchNote states the gain of larger transactions.
func (m *measurement) batchNote() string {
	small, large := slices.Min(m.Inserts), slices.Max(m.Inserts)
	p := m.point("on", m.Steno[0])
	q := p
	p.inserts, q.inserts = small, large
	one, ok := m.median(p.result(), metricInserts)
	many, ok2 := m.median(q.result(), metricInserts)
	if small == large || !ok || !ok2 {
		return ""
	}
	return fmt.Sprintf("With synchronous_commit=on, %d inserts per transaction achieved %.1f times as many inserts "+
		"per second as %d "+
		"(published, 10 instead of 1 on 64 threads: 220,000 instead of 70,000).", large, many/one, small)
}

// coresNote states the effect of fewer cores for the primary.
func (m *measurement) coresNote() string {
	p := m.point("on", m.Steno[0])
	if p.cores = allCores; !slices.Contains(m.Cores, allCores) {
		return ""
	}
	all, ok := m.median(p.result(), metricTPS)
	var found []string
	for _, cores := range m.Cores {
		p.cores = cores
		if some, ok2 := m.median(p.result(), metricTPS); ok && ok2 && cores != allCores {
			found = append(found, fmt.Sprintf("%.2f with %s", some/all, cores))
		}
	}
	if found == nil {
		return ""
	}
	return fmt.Sprintf("With synchronous_commit=on, the primary's throughput relative to that with all %d cores was "+
		"%s (published, with 10 to 15 of 64: 100,000 instead of 70,000).",
		m.r.Machine.Cores, strings.Join(found, ", "))
}
