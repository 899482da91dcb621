// CPU samples by perf.

package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/lab/perf"
)

// recorder takes samples with perf.
type recorder struct {
	target *Target
	unwind string // fp or dwarf
	dir    string // for perf's files

	event    string   // cpu-clock or cycles, with :u for user mode only
	scope    []string // which processes
	userOnly bool
	allCPUs  bool // processes that start meanwhile are sampled, too
}

// errNoPerf is the reason why perf cannot be used.
type errNoPerf struct{ why, hint string }

func (e *errNoPerf) Error() string { return e.why }

// newRecorder finds out how perf may sample the server: the whole machine, otherwise only its processes, otherwise
// these in user mode only.
func newRecorder(ctx context.Context, t *Target, pids []int, unwind, dir string) (*recorder, error) {
	if _, err := exec.LookPath("perf"); err != nil {
		return nil, &errNoPerf{"perf is not installed", "Install it (Debian and Ubuntu: linux-perf or " +
			"linux-tools; Red Hat: perf)."}
	}
	event := "cpu-clock" // most virtual machines have no counters
	if _, err := os.Stat("/sys/bus/event_source/devices/cpu"); err == nil {
		event = "cycles"
	}
	list := joinInts(pids)
	r := &recorder{target: t, unwind: unwind, dir: dir}
	var said []byte
	for _, try := range []recorder{
		{event: event, scope: []string{"-a"}, allCPUs: true},
		{event: event, scope: []string{"-p", list}},
		{event: event + ":u", scope: []string{"-p", list}, userOnly: true},
	} {
		r.event, r.scope, r.allCPUs, r.userOnly = try.event, try.scope, try.allCPUs, try.userOnly
		args := append([]string{"record", "-q", "-e", r.event}, r.scope...)
		var err error
		if said, err = perf.CheckPermission(ctx, args); err == nil {
			return r, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &errNoPerf{"perf is not permitted to sample the server (" + firstComplaint(said) + ")", paranoidHint()}
}

// firstComplaint returns the first meaningful line of perf's error message.
func firstComplaint(said []byte) string {
	for line := range strings.Lines(string(said)) {
		if line = strings.TrimSpace(line); line != "" && line != "Error:" {
			return strings.TrimSuffix(line, ".")
		}
	}
	return "no reason given"
}

// paranoidHint returns a hint on how to permit perf to sample.
func paranoidHint() string {
	text, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	return fmt.Sprintf("Run steno profile as root, or as the server's user after \"sysctl "+
		"kernel.perf_event_paranoid=1\" (it is %s).",
		strings.TrimSpace(string(text)))
}

func joinInts(list []int) string {
	slices.Sort(list)
	text := make([]string, len(list))
	for i, n := range list {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}

// frequency returns how often per second a processor is sampled: less often on machines with many, so that perf's
// output stays small.
func frequency() int {
	switch n := runtime.NumCPU(); {
	case n <= 16:
		return 997
	case n <= 64:
		return 499
	}
	return 199
}

// cpuArgs returns perf's arguments for samples of running processes.
func (r *recorder) cpuArgs() []string {
	args := append([]string{"record", "-q", "-B", "-N", "-e", r.event, "-F", strconv.Itoa(frequency())}, r.graph()...)
	return append(args, r.scope...)
}

func (r *recorder) graph() []string {
	if r.unwind == "dwarf" {
		return []string{"--call-graph", "dwarf,8192"}
	}
	return []string{"-g"}
}

// record runs perf for this long and returns the path of its file.
func (r *recorder) record(ctx context.Context, args []string, seconds int) (string, error) {
	data := filepath.Join(r.dir, "perf.data")
	return data, perf.Record(ctx, args, data, seconds)
}

// forked matches the record of a new process.
var forked = regexp.MustCompile(`^PERF_RECORD_FORK\((\d+):(\d+)\):\((\d+):`)

// learnFork notes new processes of the server, which may end before their titles can be read. Most are sessions.
func (r *recorder) learnFork(record string, kinds map[int]string) {
	m := forked.FindStringSubmatch(record)
	if m == nil || m[1] != m[2] || m[3] != strconv.Itoa(r.target.Postmaster) {
		return
	}
	if pid, _ := strconv.Atoi(m[1]); kinds[pid] == "" {
		kinds[pid] = backend
	}
}

// readCPU adds the samples of running processes.
func (r *recorder) readCPU(ctx context.Context, data string, p *Profile, kinds map[int]string, own int) error {
	each := 1 / float64(frequency())
	samples, kernel := 0, false
	err := perf.Script(ctx, data, func(e perf.Event) {
		if e.Record != "" {
			r.learnFork(e.Record, kinds)
			return
		}
		samples++
		kernel = kernel || len(e.Stack) > 0 && strings.HasPrefix(e.Stack[0].Object, "[kernel")
		if k := kinds[e.PID]; k != "" && e.PID != own {
			p.Add(Stack{Process: k, Frames: e.Stack, Samples: 1, Seconds: each})
		}
	}, "--show-task-events")
	// perf omits the kernel by itself if it may not sample it.
	r.userOnly = r.userOnly || samples >= 100 && !kernel
	return err
}

// waitArgs returns perf's arguments for recording when processes leave a processor: every one with its time, and every
// period-th with its stack.
func (r *recorder) waitArgs(period int) ([]string, error) {
	if r.userOnly {
		return nil, errors.New("the kernel shows only to root when processes leave a processor")
	}
	args := append([]string{"record", "-q", "-B", "-N", "-e", "context-switches", "-c", strconv.Itoa(period),
		"--switch-events"}, r.graph()...)
	if r.allCPUs {
		args = append(args, "-m", "2048") // pages, of which users have few: many events come in bursts
	}
	return append(args, r.scope...), nil
}

// offCPU determines how long each wait took.
type offCPU struct {
	profile  *Profile
	kinds    map[int]string
	own      int
	period   int
	snapshot map[int]Stack // processes that waited at the beginning

	start, end float64
	pending    map[int]*Stack
	since      map[int]float64
	seen       map[int]bool
	samples    int
	lost       int // how often the kernel lost events because its buffer was full
}

// readWaits adds the waits of sessions. A session that sleeps all the time has no events, so the snapshot at the
// beginning is used for it.
func (r *recorder) readWaits(ctx context.Context, data string, o *offCPU) error {
	o.pending, o.since, o.seen = map[int]*Stack{}, map[int]float64{}, map[int]bool{}
	err := perf.Script(ctx, data, func(e perf.Event) {
		r.learnFork(e.Record, o.kinds)
		o.add(e)
	}, "--show-switch-events", "--show-task-events", "--show-lost-events")
	if err != nil {
		return err
	}
	o.finish()
	return nil
}

func (o *offCPU) add(e perf.Event) {
	if strings.HasPrefix(e.Record, "PERF_RECORD_LOST") {
		o.lost++
		clear(o.pending) // their ends may be among the lost events
		return
	}
	if e.Time == 0 { // perf's records of processes that existed before
		return
	}
	if o.start == 0 {
		o.start = e.Time
	}
	o.end = e.Time
	kind := o.kinds[e.PID]
	if e.PID == o.own || !isSession(kind) {
		return
	}
	switch {
	case e.Record == "":
		o.samples++
		o.pending[e.PID] = &Stack{Process: kind, Frames: slices.Clone(e.Stack), Waiting: true, Samples: 1}
		o.since[e.PID] = e.Time
	case !strings.HasPrefix(e.Record, "PERF_RECORD_SWITCH"):
		return
	case strings.Contains(e.Record, " OUT"):
		if s := o.pending[e.PID]; s != nil && strings.Contains(e.Record, "preempt") {
			s.Preempt = true
		}
	default:
		if s, waited := o.snapshot[e.PID]; waited && !o.seen[e.PID] && o.pending[e.PID] == nil {
			o.count(s, e.Time-o.start, 1)
		}
		o.wake(e.PID, e.Time)
	}
	o.seen[e.PID] = true
}

// wake ends a wait.
func (o *offCPU) wake(pid int, now float64) {
	if s := o.pending[pid]; s != nil {
		o.count(*s, now-o.since[pid], o.period)
		delete(o.pending, pid)
	}
}

func (o *offCPU) count(s Stack, seconds float64, times int) {
	s.Samples = times
	s.Seconds = seconds * float64(times)
	o.profile.Add(s)
}

// finish counts the waits that have not ended.
func (o *offCPU) finish() {
	for pid := range o.pending {
		o.wake(pid, o.end)
	}
	for pid, s := range o.snapshot {
		if !o.seen[pid] {
			o.count(s, o.end-o.start, 1)
		}
	}
	o.profile.WaitSeconds = o.end - o.start
}
