// What sessions wait for, system calls and latches, in slices separate from those that are timed.

package replication

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/perfevent"
)

// A look is a slice whose speed is not reported, because measuring slows it down: wait events are sampled all the
// time, and system calls and latches are counted.

const sampleInterval = 25 * time.Millisecond

// sampleQuery counts pgbench's sessions by wait event. Sessions without a wait event run, or wait for a processor.
// Sessions that wait for the next command have the event Client: ClientRead.
const sampleQuery = `
	SELECT coalesce(wait_event_type || ': ' || wait_event, '` + running + `'), count(*)
	FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND application_name = 'pgbench'
	GROUP BY 1`

const (
	running     = "running"
	waitStandby = "IPC: SyncRep"
	otherEvents = "other"
	mostEvents  = 6
)

// look is the result of a look.
type look struct {
	events map[string]int // sampled sessions, by wait event
	tps    float64
	// per commit, by the name of the system call; the empty name means all
	calls     map[string]float64
	callsBy   string  // what has counted them
	latches   float64 // set per second
	noCalls   error   // why they were not counted, or nil
	noLatches error
}

// callNames are the system calls that are counted separately.
var callNames = []string{"", "recvfrom", "sendto", "epoll_wait", "epoll_ctl", "kill", "futex", "pwrite64", "fdatasync"}

const allCalls = "all"

// look runs a slice on a set and watches it.
func (s *set) look(ctx context.Context, lab *cluster.Lab, p point, seconds int) (*look, error) {
	l := &look{events: map[string]int{}, calls: map[string]float64{}}
	calls := s.countCalls(ctx, l)
	ctx, cancel := context.WithCancel(ctx)
	type outcome struct {
		bench.Slice
		error
	}
	done := make(chan outcome, 1)
	go func() {
		slice, err := s.load(ctx, lab, p, pgbenchArgs(lab, p, seconds), time.Duration(seconds)*time.Second+patience)
		cancel()
		done <- outcome{slice, err}
	}()
	err := s.watch(ctx, lab, p, l)
	cancel()
	o := <-done
	counts, callsErr := calls()
	if err := errors.Join(o.error, err); err != nil {
		return nil, err
	}
	if l.noCalls = errors.Join(l.noCalls, callsErr); l.noCalls == nil {
		for name, n := range counts {
			l.calls[name] = n / float64(o.Transactions)
		}
	}
	l.tps = o.TPS
	return l, nil
}

// watch samples the sessions until the context is done, which happens when pgbench exits.
func (s *set) watch(ctx context.Context, lab *cluster.Lab, p point, l *look) error {
	w := latchWatch{noProbe: errors.New("not all sessions started in time")}
	defer w.close()
	for ctx.Err() == nil {
		// Canceling the query would close the connection.
		now, err := sample(context.WithoutCancel(ctx), s.conn)
		if err != nil {
			return err
		}
		seen := 0
		for event, n := range now {
			l.events[event] += n
			seen += n
		}
		if seen >= p.clients {
			w.step(lab, s.primary)
		}
		_ = bench.Sleep(ctx, sampleInterval)
	}
	l.latches, l.noLatches = w.rate()
	return nil
}

func sample(ctx context.Context, conn *pgx.Conn) (map[string]int, error) {
	rows, err := conn.Query(ctx, sampleQuery)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	var event string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&event, &n}, func() error {
		counts[event] += n
		return nil
	})
	return counts, err
}

// latchWatch counts calls of SetLatch() by the primary's processes, from when pgbench's sessions exist to the last
// time when they still do.
type latchWatch struct {
	counter *perfevent.Counter
	noProbe error
	start   time.Time
	elapsed time.Duration
	count   uint64
}

func (w *latchWatch) step(lab *cluster.Lab, primary *cluster.Server) {
	if w.counter == nil {
		if w.start.IsZero() { // only one attempt
			w.start = time.Now()
			var e perfevent.Event
			if e, w.noProbe = perfevent.Calls(lab.Program("postgres"), "SetLatch"); w.noProbe == nil {
				w.counter, w.noProbe = perfevent.Open(e, primary.Processes())
			}
			w.start = time.Now()
		}
		return
	}
	if count, err := w.counter.Read(); err == nil {
		w.count, w.elapsed = count, time.Since(w.start)
	}
}

func (w *latchWatch) rate() (float64, error) {
	if w.noProbe == nil && w.elapsed == 0 {
		return 0, errors.New("the slice was too short")
	}
	if w.noProbe != nil {
		return 0, w.noProbe
	}
	return float64(w.count) / w.elapsed.Seconds(), nil
}

func (w *latchWatch) close() {
	if w.counter != nil {
		w.counter.Close()
	}
}

// countCalls starts counting the system calls of the primary's processes and of those that it will start, except the
// session that takes the samples. The returned function stops the counters, and returns the counts by name.
func (s *set) countCalls(ctx context.Context, l *look) func() (map[string]float64, error) {
	pids := slices.DeleteFunc(s.primary.Processes(), func(pid int) bool { return pid == int(s.conn.PgConn().PID()) })
	counters := map[string]*perfevent.Counter{}
	var failure error
	for _, name := range callNames {
		e, err := perfevent.SystemCalls(name)
		var c *perfevent.Counter
		if err == nil {
			c, err = perfevent.Open(e, pids)
		}
		if err != nil {
			failure = errors.Join(failure, err)
			break
		}
		counters[name] = c
	}
	if failure != nil {
		closeAll(counters)
		return s.traceCalls(ctx, l, pids, failure)
	}
	l.callsBy = "perf events"
	return func() (map[string]float64, error) {
		defer closeAll(counters)
		counts := map[string]float64{}
		for name, c := range counters {
			n, err := c.Read()
			if err != nil {
				return nil, err
			}
			counts[name] = float64(n)
		}
		return counts, nil
	}
}

func closeAll(counters map[string]*perfevent.Counter) {
	for c := range maps.Values(counters) {
		c.Close()
	}
}

// traceCalls is like countCalls, with strace, if it is installed and permitted.
func (s *set) traceCalls(ctx context.Context, l *look, pids []int, why error) func() (map[string]float64, error) {
	never := func(err error) func() (map[string]float64, error) {
		return func() (map[string]float64, error) { return nil, errors.Join(why, err) }
	}
	path, err := exec.LookPath("strace")
	if err != nil {
		return never(errors.New("strace, which could also count them, is not installed"))
	}
	t, err := startTrace(ctx, path, pids)
	if err != nil {
		return never(err)
	}
	l.callsBy = "strace"
	return t.end
}

// shares returns the share in per cent of each of these events in the sampled sessions, with the rest as otherEvents.
func shares(events map[string]int, top []string) map[string]float64 {
	all := 0
	for _, n := range events {
		all += n
	}
	of := map[string]float64{otherEvents: 0}
	for _, event := range top {
		of[event] = 0
	}
	for event, n := range events {
		if !slices.Contains(top, event) {
			event = otherEvents
		}
		of[event] += 100 * float64(n) / float64(all)
	}
	return of
}

// topEvents returns the events with the largest shares in any look, the largest first.
func topEvents(looks []*look) []string {
	largest := map[string]float64{}
	for _, l := range looks {
		for event, share := range shares(l.events, slices.Collect(maps.Keys(l.events))) {
			if event != otherEvents {
				largest[event] = max(largest[event], share)
			}
		}
	}
	events := slices.SortedFunc(maps.Keys(largest), func(a, b string) int {
		if largest[a] != largest[b] {
			if largest[a] > largest[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return events[:min(mostEvents, len(events))]
}

// eventTitles describe some events.
var eventTitles = map[string]string{
	running:                "nothing: " + running,
	waitStandby:            waitStandby + ", a standby",
	"Client: ClientRead":   "Client: ClientRead, pgbench",
	"Extension: Extension": "Extension: Extension, pg_steno's trail",
}

func eventTitle(event string) string {
	if title := eventTitles[event]; title != "" {
		return title
	}
	return event
}

// callName returns the name of a system call in cases and files.
func callName(name string) string {
	if name == "" {
		return allCalls
	}
	return name
}

// callTitle returns the title of a system call for display.
func callTitle(name string) string {
	if name == "" {
		return "all system calls"
	}
	return name + "()"
}

// attachTime is the time that strace gets to attach to all processes.
const attachTime = 300 * time.Millisecond

// trace is an strace that counts the system calls of processes and of their children.
type trace struct {
	cmd     *exec.Cmd
	summary strings.Builder
	done    chan error
}

func startTrace(ctx context.Context, strace string, pids []int) (*trace, error) {
	args := []string{"-f", "-c", "-q"}
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	t := &trace{cmd: exec.CommandContext(ctx, strace, args...), done: make(chan error, 1)}
	t.cmd.Cancel = func() error { return t.cmd.Process.Signal(syscall.SIGINT) }
	t.cmd.WaitDelay = 5 * time.Second
	t.cmd.Stderr = &t.summary
	// It exits with the processes that it traces, which exit with this program.
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { t.done <- t.cmd.Wait() }()
	select {
	case <-t.done:
		return nil, fmt.Errorf("strace cannot attach: %s", strings.TrimSpace(t.summary.String()))
	case <-time.After(attachTime):
		return t, nil
	}
}

// end detaches strace, and returns the calls by name.
func (t *trace) end() (map[string]float64, error) {
	// On SIGINT it prints its summary, and exits by that signal or with an error.
	_ = t.cmd.Process.Signal(syscall.SIGINT)
	<-t.done
	return parseTrace(t.summary.String())
}

// % time     seconds  usecs/call     calls    errors syscall
var traceLine = regexp.MustCompile(`^\s*[0-9.]+\s+[0-9.]+\s+[0-9]+\s+([0-9]+)\s+(?:[0-9]+\s+)?([a-z0-9_]+)$`)

// parseTrace parses the summary of strace -c: calls by name, and their total with the empty name.
func parseTrace(summary string) (map[string]float64, error) {
	all := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(summary))
	for lines.Scan() {
		m := traceLine.FindStringSubmatch(lines.Text())
		if m == nil || m[2] == "total" {
			continue
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return nil, err
		}
		all[m[2]] += n
		all[""] += n
	}
	if len(all) == 0 {
		return nil, errors.New("strace counted nothing")
	}
	counts := map[string]float64{}
	for _, name := range callNames {
		counts[name] = all[name]
	}
	return counts, nil
}
