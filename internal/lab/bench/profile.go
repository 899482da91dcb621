package bench

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/machine"
	"github.com/pg-steno/pg_steno/internal/lab/perf"
)

// ProfileOptions say how CPU samples are taken.
type ProfileOptions struct {
	Seconds int // of a run; 0: no profile
	Runs    int
	Unwind  string // fp or dwarf
}

// ProfileReport is the extension's share of a server's CPU samples.
type ProfileReport struct {
	Command string       `json:"command"`
	Runs    []ProfileRun `json:"runs"`
}

// ProfileRun counts samples. A sample is the extension's when it is in a
// writer, or when the innermost frame of the extension on its stack has not
// handed over to the server or another hook.
//
// A function without a frame of its own hides its caller from frame pointers:
// below executor_run then seems to be ExecShutdownNode, where
// standard_ExecutorRun was in between. Such samples are Hidden: right above the
// extension's frame is a function of the server that the extension does not
// import, so it cannot have called it.
type ProfileRun struct {
	Samples  int `json:"samples"`  // of all processes of the server
	Backends int `json:"backends"` // of them the extension's, outside writers
	Writers  int `json:"writers"`  // of them in writers
	Hidden   int `json:"hidden"`   // of them the server's, though the frames seem to say the extension's
	// Places are where the extension's samples outside writers were, with
	// the most frequent first: its innermost function, and the innermost of all.
	Places []Place `json:"places"`
	TPS    float64 `json:"tps"`
}

// Place is a number of samples with the same functions.
type Place struct {
	Function string `json:"function"`
	Leaf     string `json:"leaf"`
	Samples  int    `json:"samples"`
}

// Share is the extension's share in per cent: all, in backends, in writers.
func (r ProfileRun) Share() (all, backends, writers float64) {
	n := float64(max(r.Samples, 1)) / 100
	return float64(r.Backends+r.Writers) / n, float64(r.Backends) / n, float64(r.Writers) / n
}

// WriteText shows the runs and their spread.
func (p *ProfileReport) WriteText(w io.Writer) {
	fmt.Fprintf(w, "Share of PostgreSQL's CPU samples in the extension's code and its writers, system calls included (%s):\n", p.Command)
	for i, run := range p.Runs {
		all, backends, writers := run.Share()
		fmt.Fprintf(w, "  run %d: %.2f %% (backends %.2f %%, writers %.2f %%) of %d samples, %.0f tps", i+1, all, backends, writers, run.Samples, run.TPS)
		if run.Hidden > 0 {
			fmt.Fprintf(w, "; not counted: %.2f %% in functions that the extension does not call", 100*float64(run.Hidden)/float64(max(run.Samples, 1)))
		}
		fmt.Fprintln(w)
	}
	if len(p.Runs) > 0 {
		low, high := p.spread()
		fmt.Fprintf(w, "  from %.2f to %.2f %%\n", low, high)
	}
	p.writeFunctions(w, 8)
}

// writeFunctions shows the extension's functions, in backends, that most
// samples were in or below.
func (p *ProfileReport) writeFunctions(w io.Writer, most int) {
	all, counts := 0, map[string]int{}
	for _, run := range p.Runs {
		all += run.Samples
		for _, place := range run.Places {
			counts[place.Function] += place.Samples
		}
	}
	functions := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	if len(functions) == 0 {
		return
	}
	fmt.Fprint(w, "  in backends:")
	for i, f := range functions[:min(most, len(functions))] {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, " %s %.2f %%", f, 100*float64(counts[f])/float64(max(all, 1)))
	}
	fmt.Fprintln(w)
}

// spread is the smallest and the largest share of the runs.
func (p *ProfileReport) spread() (low, high float64) {
	var shares []float64
	for _, run := range p.Runs {
		all, _, _ := run.Share()
		shares = append(shares, all)
	}
	return slices.Min(shares), slices.Max(shares)
}

const (
	library     = "pg_steno.so"
	server      = "postgres"     // the server's program
	writerTitle = "steno writer" // in the process title
)

// sampling is perf's way of sampling: the clock, for virtual machines have no
// counters, on all processors, with stacks.
func sampling(unwind string) ([]string, error) {
	switch unwind {
	case "fp": // PostgreSQL's packages keep frame pointers
		return []string{"record", "-e", "cpu-clock", "-F", "2999", "-a", "-g"}, nil
	case "dwarf": // sees through the C library too, with a copy of the stack for each sample
		return []string{"record", "-e", "cpu-clock", "-F", "999", "-a", "--call-graph", "dwarf,4096"}, nil
	default:
		return nil, fmt.Errorf("unknown way to unwind stacks \"%s\"; there are fp and dwarf", unwind)
	}
}

// CanProfile says why CPU samples cannot be taken here, if so.
func CanProfile(ctx context.Context, unwind string) error {
	args, err := sampling(unwind)
	if err != nil {
		return err
	}
	out, err := perf.Try(ctx, args)
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("perf is not installed (Debian package linux-perf)")
	}
	if err != nil {
		return fmt.Errorf("perf is not permitted to sample here: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Profile loads the server of the variant and takes samples in the middle of it.
func (b *Bench) Profile(ctx context.Context, load Load, o ProfileOptions, s *cluster.Server) (*ProfileReport, error) {
	args, err := sampling(o.Unwind)
	if err != nil {
		return nil, err
	}
	p := &ProfileReport{Command: "perf " + strings.Join(args, " ") + " -- sleep " + strconv.Itoa(o.Seconds)}
	for i := range o.Runs {
		b.progress("CPU samples", i, o.Runs)
		run, err := b.profileOnce(ctx, load, o, args, s)
		if err != nil {
			return nil, err
		}
		p.Runs = append(p.Runs, run)
	}
	return p, nil
}

func (b *Bench) profileOnce(ctx context.Context, load Load, o ProfileOptions, args []string, s *cluster.Server) (ProfileRun, error) {
	const margin = 2 // seconds of load around the samples
	data := filepath.Join(b.Lab.Dir, "perf.data")
	defer os.Remove(data)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		Slice
		error
	}
	loaded := make(chan result, 1)
	go func() {
		s, err := load.run(ctx, s, o.Seconds+margin)
		loaded <- result{s, err}
	}()
	defer func() { cancel(); <-loaded }()

	if err := Sleep(ctx, margin*time.Second/2); err != nil {
		return ProfileRun{}, err
	}
	a := attribution{pids: map[int]bool{}, writers: map[int]bool{}}
	if err := a.find(s.PID()); err != nil {
		return ProfileRun{}, err
	}
	if err := perf.Record(ctx, args, data, o.Seconds); err != nil {
		return ProfileRun{}, err
	}
	if err := a.find(s.PID()); err != nil {
		return ProfileRun{}, err
	}
	done := <-loaded
	loaded <- done // for the deferred wait
	if done.error != nil {
		return ProfileRun{}, done.error
	}
	if err := a.count(ctx, data); err != nil {
		return ProfileRun{}, err
	}
	run := a.run()
	run.TPS = done.TPS
	return run, nil
}

// attribution decides whose each sample is.
type attribution struct {
	pids    map[int]bool // the server's processes
	writers map[int]bool // of them the extension's writers

	// imports are the extension's imported symbols, nil before its file is
	// known. They need not be known: then nothing is hidden.
	imports map[string]bool

	samples, backends, inWriters, hidden int
	places                               map[[2]string]int
}

// learnImports reads what the extension's file imports.
func (a *attribution) learnImports(file string) {
	a.imports = map[string]bool{}
	f, err := elf.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	symbols, _ := f.ImportedSymbols()
	for _, s := range symbols {
		a.imports[s.Name] = true
	}
}

// find adds the processes that the server has now.
func (a *attribution) find(postmaster int) error {
	a.pids[postmaster] = true
	children, err := machine.Here.Children(postmaster)
	for _, p := range children {
		a.pids[p.PID] = true
		if strings.Contains(p.Title, writerTitle) {
			a.writers[p.PID] = true
		}
	}
	return err
}

// count reads the samples.
func (a *attribution) count(ctx context.Context, data string) error {
	return perf.Script(ctx, data, a.add)
}

// add counts one sample.
func (a *attribution) add(e perf.Event) {
	pid, stack := e.PID, e.Stack
	if !a.pids[pid] {
		return
	}
	a.samples++
	if a.writers[pid] {
		a.inWriters++
		return
	}
	for i, f := range stack {
		if path.Base(f.Object) != library {
			if handsOver(f) {
				return // and what the extension's frame further out waits for
			}
			continue
		}
		if a.imports == nil {
			a.learnImports(f.Object)
		}
		if i > 0 && path.Base(stack[i-1].Object) == server && len(a.imports) > 0 && !a.imports[stack[i-1].Symbol] {
			a.hidden++
			return
		}
		a.backends++
		if a.places == nil {
			a.places = map[[2]string]int{}
		}
		leaf := ""
		if i > 0 {
			leaf = stack[0].Symbol
		}
		a.places[[2]string{f.Symbol, leaf}]++
		return
	}
}

// handsOver says whether a frame that is further in than the extension's does
// the server's own work again: what a hook calls to go on.
func handsOver(f perf.Frame) bool {
	return strings.HasPrefix(f.Symbol, "standard_") || otherHook(f)
}

// otherHook recognizes the hook functions of the modules that are most often
// loaded beside this one.
func otherHook(f perf.Frame) bool {
	switch path.Base(f.Object) {
	case "pgaudit.so", "pg_stat_statements.so", "auto_explain.so", "sepgsql.so":
		return true
	}
	return false
}

// run returns the counts.
func (a *attribution) run() ProfileRun {
	r := ProfileRun{Samples: a.samples, Backends: a.backends, Writers: a.inWriters, Hidden: a.hidden}
	for key, n := range a.places {
		r.Places = append(r.Places, Place{Function: key[0], Leaf: key[1], Samples: n})
	}
	sort.Slice(r.Places, func(i, j int) bool {
		p, q := r.Places[i], r.Places[j]
		if p.Samples != q.Samples {
			return p.Samples > q.Samples
		}
		return p.Function+"\x00"+p.Leaf < q.Function+"\x00"+q.Leaf
	})
	return r
}
