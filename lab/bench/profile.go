// The share of a server's CPU samples that is the extension's.

package bench

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/perf"
)

// ProfileOptions determine how CPU samples are taken.
type ProfileOptions struct {
	Seconds int // of a run; 0: no profile
	Runs    int
	Unwind  string // fp or dwarf
}

const (
	library     = "pg_steno.so"
	server      = "postgres"     // the server's program
	writerTitle = "steno writer" // in the process title
)

// sampling returns perf's arguments: samples by the clock, because virtual machines have no counters, on all
// processors, with stacks.
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

// CanProfile returns an error if CPU samples cannot be taken.
func CanProfile(ctx context.Context, unwind string) error {
	args, err := sampling(unwind)
	if err != nil {
		return err
	}
	out, err := perf.CheckPermission(ctx, args)
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("perf is not installed (Debian package linux-perf)")
	}
	if err != nil {
		return fmt.Errorf("perf is not permitted to sample here: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Profile loads the server of the variant and takes samples in the middle of it.
func (b *Bench) Profile(ctx context.Context, load Load, o ProfileOptions,
	s *cluster.Server) (*result.CPUSamples, error) {
	args, err := sampling(o.Unwind)
	if err != nil {
		return nil, err
	}
	p := &result.CPUSamples{Command: "perf " + strings.Join(args, " ") + " -- sleep " + strconv.Itoa(o.Seconds)}
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

func (b *Bench) profileOnce(ctx context.Context, load Load, o ProfileOptions, args []string,
	s *cluster.Server) (result.CPURun, error) {
	const margin = 2 // seconds of load around the samples
	data := filepath.Join(b.Lab.Dir, "perf.data")
	defer os.Remove(data)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		Slice
		error
	}
	loaded := make(chan outcome, 1)
	go func() {
		s, err := load.run(ctx, s, o.Seconds+margin)
		loaded <- outcome{s, err}
	}()
	defer func() { cancel(); <-loaded }()

	if err := Sleep(ctx, margin*time.Second/2); err != nil {
		return result.CPURun{}, err
	}
	a := attribution{pids: map[int]bool{}, writers: map[int]bool{}}
	if err := a.find(s.PID()); err != nil {
		return result.CPURun{}, err
	}
	if err := perf.Record(ctx, args, data, o.Seconds); err != nil {
		return result.CPURun{}, err
	}
	if err := a.find(s.PID()); err != nil {
		return result.CPURun{}, err
	}
	done := <-loaded
	loaded <- done // for the deferred wait
	if done.error != nil {
		return result.CPURun{}, done.error
	}
	if err := a.count(ctx, data); err != nil {
		return result.CPURun{}, err
	}
	run := a.run()
	run.TPS = done.TPS
	return run, nil
}

// attribution decides which part each sample belongs to.
type attribution struct {
	pids    map[int]bool // the server's processes
	writers map[int]bool // of them the extension's writers

	// imports are the extension's imported symbols, nil before its file is known. Without them, no sample counts as
	// hidden.
	imports map[string]bool

	samples, backends, inWriters, hidden int
	places                               map[[2]string]int
}

// learnImports reads the imported symbols of the extension's file.
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

// handsOver reports whether an inner frame does the server's own work again, which a hook calls to continue.
func handsOver(f perf.Frame) bool {
	return strings.HasPrefix(f.Symbol, "standard_") || otherHook(f)
}

// otherHook recognizes the hook functions of modules that are often loaded together with this one.
func otherHook(f perf.Frame) bool {
	switch path.Base(f.Object) {
	case "pgaudit.so", "pg_stat_statements.so", "auto_explain.so", "sepgsql.so":
		return true
	}
	return false
}

// run returns the counts.
func (a *attribution) run() result.CPURun {
	r := result.CPURun{Samples: a.samples, Backends: a.backends, Writers: a.inWriters, Hidden: a.hidden}
	for key, n := range a.places {
		r.Places = append(r.Places, result.Place{Function: key[0], Leaf: key[1], Samples: n})
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
