package replication

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
)

// enoughCores are about what the published findings took to show.
const enoughCores = 16

// notes are findings and limits, from the figures.
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
		add(fmt.Sprintf("The primary, the standbys and pgbench share %d cores. This run shows what commits wait for and "+
			"which system calls they make, but not how throughput levels off when many cores set latches for each other. On a large machine, run: "+
			"steno bench replication --full --clients 16,64,256 --cores all,10,16,32", cores))
	}
	return all
}

// point is the one that notes are about.
func (m *measurement) point(sync, steno string) point {
	return point{sync, steno, m.Inserts[0], slices.Max(m.Clients), m.Cores[0]}
}

// median of a metric, or not ok where it was not measured.
func (m *measurement) median(c result.Case, metric string) (value float64, ok bool) {
	if x := m.r.Find(c, metric); x != nil {
		return x.Value.Median, true
	}
	return 0, false
}

// muchIdle is a difference of the processors' idle share, in per cent of all time,
// that is worth a sentence.
const muchIdle = 10

// idleNote says whether processors are idle while sessions wait for a standby.
func (m *measurement) idleNote(sync string) string {
	p := m.point(sync, m.Steno[0])
	waits, ok := m.median(p.result().With(dimEvent, waitStandby), metricWaits)
	idle, ok2 := m.median(p.result(), metricIdle)
	if !ok || !ok2 {
		return ""
	}
	note := fmt.Sprintf("With synchronous_commit=%s, %d clients and %s per transaction, %.0f %% of the observed sessions "+
		"waited for a standby (%s), while the processors were idle for %.0f %% of the time",
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

// epollNote compares what the published cause was with what is called here.
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
		return note + "The published cause, an epoll set created for each wait (PostgreSQL 9.6), no longer exists: since " +
			"PostgreSQL 14 (commit 3347c982bab), a session keeps its set."
	}
	return note + "The published cause, an epoll set created for each wait (PostgreSQL 9.6), is visible here, too; " +
		"PostgreSQL 14 and later keep it."
}

// stenoNote says what pg_steno costs commits that wait for a standby.
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

// batchNote says what larger transactions bring.
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

// coresNote says what fewer cores for the primary make of it.
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
	return fmt.Sprintf("With synchronous_commit=on, the primary's throughput relative to that with all %d cores was %s "+
		"(published, with 10 to 15 of 64: 100,000 instead of 70,000).", m.r.Machine.Cores, strings.Join(found, ", "))
}
