// Package logging implements "steno bench logging", which measures the cost of each way to log statements. Slices of
// pgbench run on every variant in turn, in rounds; the quoted values are the median of each figure, and of its ratio
// to the slice without logging in the same round.
//
// The flags and the throw-away servers are in this file. A run expands the flags into a matrix of variants and points
// of load (variant.go). The variants run on throw-away servers, or on a given server whose settings are changed and
// restored (given.go, journal.go). Rounds of slices (measure.go, process.go) become tables (figures.go) and findings
// (notes.go).
package logging

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// Options are the options of a run.
type Options struct {
	measure.Common
	Compare   []string
	Clients   []int
	Workloads []string
	Protocols []string
	Rounds    int
	Seconds   int
	Scale     int
	Pause     time.Duration
	Set       []string
	Setup     string
	PGConfig  string
	DSN       string
	Yes       bool
	Restore   bool

	// derived from the flags
	variants []variant
	points   []point
	settings []cluster.Setting
	budget   time.Duration // no round after the first few may end later; 0: no limit
	stateDir string        // for journals
	dir      string        // for pgbench's scripts and logs
}

// size is the parameters of a run with --quick, --full or neither.
type size struct {
	clients              []int
	workloads, protocols []string
	rounds, seconds      int
	scale                int
	budget               time.Duration
}

var (
	quick = size{[]int{16}, []string{"select"}, []string{"prepared"}, 6, 1, 5, 100 * time.Second}
	usual = size{[]int{16}, []string{"select", "tpcb"}, []string{"prepared"}, 12, 1, 10, 0}
	full  = size{[]int{1, 16, 56}, []string{"select", "select1", "update", "tpcb"}, bench.Protocols, 12, 2, 10, 0}
)

func cores() int { return runtime.NumCPU() }

// New returns the measurement with its defaults.
func New(e measure.Environment) *Options {
	return &Options{Common: measure.Common{Environment: e}}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Common.AddFlags(flags)
	flags.StringSliceVar(&o.Compare, "compare", nil,
		"what to compare with none (default everything that is installed)")
	flags.IntSliceVar(&o.Clients, "clients", usual.clients, "sessions of pgbench")
	flags.StringSliceVar(&o.Workloads, "workload", usual.workloads, "select, tpcb, select1, update or file:PATH")
	flags.StringSliceVar(&o.Protocols, "protocol", usual.protocols, "simple, extended or prepared")
	flags.IntVar(&o.Rounds, "rounds", usual.rounds, "number of rounds; every combination gets a slice in each")
	flags.IntVar(&o.Seconds, "seconds", usual.seconds, "length of a slice")
	flags.IntVar(&o.Scale, "scale", usual.scale, "scale of pgbench's tables")
	flags.DurationVar(&o.Pause, "pause", 250*time.Millisecond, "wait after a slice, for writers and the log to "+
		"catch up")
	flags.StringArrayVar(&o.Set, "set", nil, "a further setting of every server, as name=value")
	flags.StringVar(&o.Setup, "setup", "", "SQL script that creates what the workload needs")
	measure.AddPGConfig(flags, &o.PGConfig)
	flags.StringVar(&o.DSN, "dsn", "", "connection string of a running server to measure")
	flags.BoolVarP(&o.Yes, "yes", "y", false, "with --dsn, change the server's settings without asking")
	flags.BoolVar(&o.Restore, "restore", false, "with --dsn, only restore what a measurement that was killed has "+
		"changed")
}

// Complete checks the flags and derives the remaining options from them.
func (o *Options) Complete(given func(flag string) bool) error {
	if err := o.Check(); err != nil {
		return err
	}
	o.resize(given)
	if err := o.checkNumbers(given); err != nil {
		return err
	}
	loads, err := checkLists(o.Workloads, o.Protocols, o.Clients)
	if err != nil {
		return err
	}
	o.points = points(loads, o.Protocols, o.Clients)
	if o.variants, err = chosen(o.Compare); err != nil {
		return err
	}
	for _, s := range o.Set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("--set expects name=value, not \"%s\"", s)
		}
		o.settings = append(o.settings, cluster.Setting{Name: name, Value: value})
	}
	if o.Setup != "" {
		if _, err := os.ReadFile(o.Setup); err != nil {
			return fmt.Errorf("cannot use --setup: %w", err)
		}
	}
	if o.DSN != "" && o.stateDir == "" {
		o.stateDir, err = stateDir()
	}
	return err
}

// resize applies the sizes of --quick or --full to options that are not set by other flags.
func (o *Options) resize(given func(flag string) bool) {
	s := usual
	if o.Quick {
		s = quick
	} else if o.Full {
		s = full
	}
	o.budget = s.budget
	for _, set := range []struct {
		flag string
		take func()
	}{
		{"clients", func() { o.Clients = s.clients }},
		{"workload", func() { o.Workloads = s.workloads }},
		{"protocol", func() { o.Protocols = s.protocols }},
		{"rounds", func() { o.Rounds = s.rounds }},
		{"seconds", func() { o.Seconds = s.seconds }},
		{"scale", func() { o.Scale = s.scale }},
	} {
		if !given(set.flag) {
			set.take()
		}
	}
	if given("rounds") {
		o.budget = 0
	}
}

func (o *Options) checkNumbers(given func(flag string) bool) error {
	switch {
	case o.Rounds < 1:
		return errors.New("--rounds must be at least 1")
	case o.Seconds < 1:
		return errors.New("--seconds must be at least 1")
	case o.Scale < 1:
		return errors.New("--scale must be at least 1")
	case o.Pause < 0:
		return errors.New("--pause must not be negative")
	case o.DSN != "" && (len(o.Set) > 0 || o.Setup != "" || given("scale")):
		return errors.New("--dsn cannot be used with --set, --setup or --scale")
	case o.DSN == "" && (o.Restore || o.Yes):
		return errors.New("--restore and --yes need --dsn")
	}
	return nil
}

// needsTables reports whether pgbench's own tables are used.
func (o *Options) needsTables() bool {
	return slices.ContainsFunc(o.points, func(p point) bool { return p.workload.builtin != "" })
}

// checkLeft returns an error if variants that were requested by name are not available.
func (o *Options) checkLeft(can []variant, not []missing) error {
	for _, m := range not {
		if slices.Contains(o.Compare, m.name) {
			return fmt.Errorf("cannot measure \"%s\": %s", m.name, m.reason)
		}
	}
	if len(can) < 2 {
		return errors.New("there is nothing to compare: no variant can be measured")
	}
	return nil
}

// checkConnections checks that --set allows enough connections for the clients.
func (o *Options) checkConnections() error {
	for _, s := range o.settings {
		if s.Name != "max_connections" {
			continue
		}
		if n, err := strconv.Atoi(s.Value); err == nil && n < slices.Max(o.Clients)+4 {
			return fmt.Errorf("%d clients are too many for max_connections = %d", slices.Max(o.Clients), n)
		}
	}
	return nil
}

// Run measures and reports the result.
func (o *Options) Run(ctx context.Context) error {
	if o.Restore {
		return restoreOnly(ctx, o)
	}
	measure := measureLab
	if o.DSN != "" {
		measure = measureGiven
	}
	return o.Publish(ctx, func(ctx context.Context, p *progress.Phases) (*result.Result, error) {
		remove, err := o.makeDir()
		if err != nil {
			return nil, err
		}
		defer remove()
		return measure(ctx, o, p)
	})
}

// makeDir creates the directory for pgbench's scripts and logs.
func (o *Options) makeDir() (remove func(), err error) {
	if o.dir, err = os.MkdirTemp("", "steno-bench-"); err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(o.dir) }
	for i := range o.points {
		if err := o.points[i].workload.write(o.dir); err != nil {
			remove()
			return nil, err
		}
	}
	return remove, nil
}

// place is where variants are measured: on servers that are created for it, or on a given one.
type place interface {
	// use returns the server with the variant's settings in effect.
	use(ctx context.Context, v variant) (*target, error)
}

// labPlace has a server for each variant, all copied from one data directory.
type labPlace struct {
	lab     *cluster.Lab
	servers map[string]*target
}

// spare is the number of connections for this program and for the server itself.
const spare = 20

// openLab creates the servers. The caller must close the lab, even after an error.
func openLab(ctx context.Context, lab *cluster.Lab, o *Options, list []variant,
	p *progress.Phases) (*labPlace, error) {
	p.Phase(fmt.Sprintf("initializing pgbench's tables, scale %d", o.Scale))
	if err := fillTemplate(ctx, lab, o); err != nil {
		return nil, err
	}
	l := &labPlace{lab: lab, servers: map[string]*target{}}
	p.Phase("starting servers")
	for i, v := range list {
		p.Step(v.title, i, len(list))
		s, err := lab.Start(ctx, v.name, serverSettings(v, o))
		if err != nil {
			return nil, err
		}
		if err := o.warm(ctx, s); err != nil {
			return nil, err
		}
		l.servers[v.name] = &target{
			pgbench: s.Pgbench, processes: &tree{machine.Here, s.PID()},
			written: func(context.Context) (int64, error) { return logAndTrail(s) },
			tidy:    func() error { return emptyLogs(s) },
		}
	}
	return l, nil
}

func fillTemplate(ctx context.Context, lab *cluster.Lab, o *Options) error {
	fast := []cluster.Setting{
		{Name: "fsync", Value: "off"}, {Name: "shared_buffers", Value: "256MB"}, {Name: "max_wal_size", Value: "8GB"},
	}
	return lab.Prepare(ctx, fast, func(s *cluster.Server) error {
		if o.needsTables() {
			if _, err := s.Pgbench(ctx, "-iq", "--init-steps=dtgvp", "--scale="+strconv.Itoa(o.Scale)); err != nil {
				return err
			}
		}
		if o.Setup == "" {
			return nil
		}
		script, err := os.ReadFile(o.Setup)
		if err != nil {
			return err
		}
		_, err = s.Psql(ctx, string(script))
		return err
	})
}

// warm reads pgbench's table into the cache, by its index, because a sequential scan of a large table would not remain
// there.
func (o *Options) warm(ctx context.Context, s *cluster.Server) error {
	if !o.needsTables() {
		return nil
	}
	_, err := s.Psql(ctx, `SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT sum(abalance) FROM pgbench_accounts WHERE aid >= 0`)
	return err
}

// serverSettings returns all settings of a variant's server; those of --set come last.
func serverSettings(v variant, o *Options) []cluster.Setting {
	all := append(slices.Clone(bench.BaseSettings),
		cluster.Setting{Name: "max_connections", Value: strconv.Itoa(slices.Max(o.Clients) + spare)})
	return append(append(append(all, preloadSetting(v)...), v.settings...), o.settings...)
}

func preloadSetting(v variant) []cluster.Setting {
	if len(v.preload) == 0 {
		return nil
	}
	return []cluster.Setting{{Name: "shared_preload_libraries", Value: strings.Join(v.preload, ", ")}}
}

func (l *labPlace) use(_ context.Context, v variant) (*target, error) { return l.servers[v.name], nil }

func logDir(s *cluster.Server) string { return filepath.Join(s.DataDir, "log") }

func logAndTrail(s *cluster.Server) (int64, error) {
	logs, err := bench.TreeSize(logDir(s))
	if err != nil {
		return 0, err
	}
	trail := bench.TrailDir(s)
	if _, err := os.Stat(trail); errors.Is(err, os.ErrNotExist) {
		return logs, nil
	}
	n, err := bench.TrailSize(trail)
	return logs + n, err
}

// emptyLogs truncates the logs before the next slice. The logger appends, so it continues at the beginning.
func emptyLogs(s *cluster.Server) error {
	files, err := filepath.Glob(filepath.Join(logDir(s), "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.Truncate(file, 0); err != nil {
			return err
		}
	}
	return nil
}

// diskNeeded returns a generous estimate, in bytes, of the servers' disk space: their tables, their WAL, and the logs
// of one slice, for the maximum rate of transactions on this machine's processors.
func (o *Options) diskNeeded(servers, cores int) int64 {
	const (
		mb      = 1 << 20
		cluster = 64 * mb // an empty one, with its first WAL segments
		scale   = 16 * mb // pgbench's tables, for each unit of the scale factor
		wal     = 5 * mb  // per second, for a processor that only writes
		mostWAL = 8 << 30 // max_wal_size
		log     = 20 * mb // per second, for a processor with every statement logged
	)
	each := int64(cluster) + int64(cores*o.Seconds)*log
	if o.needsTables() {
		each += int64(o.Scale) * scale
	}
	written := int64(0)
	for _, p := range o.points {
		if p.workload.writes {
			written += int64(cores*o.Seconds*o.Rounds) * wal
		}
	}
	return int64(servers+1) * (each + min(written, mostWAL))
}
