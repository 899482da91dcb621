// Package replication implements "steno bench replication", which measures the cost of commits that wait for a
// standby, by synchronous_commit, transaction size, sessions and cores, with and without pg_steno.
//
// A primary with two standbys, either of which must confirm, is loaded by pgbench with inserts. synchronous_commit and
// steno.sync are set by the sessions, and the primary's cores by the affinity of its processes, so that all
// combinations can use the same servers; only pg_steno, which is preloaded, needs a primary and two standbys of its
// own (servers.go). All servers run at the same time. This takes more memory, but there is no restart between slices
// that are compared: those run directly one after the other, in an order that changes from round to round. Wait
// events, system calls and latches are measured in slices separate from those that are timed (look.go).
package replication

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// Options are the options of a run.
type Options struct {
	measure.Common
	matrix
	Rounds   int
	Looks    int
	Seconds  int
	PGConfig string

	changed func(flag string) bool
}

// New returns the measurement with its defaults.
func New(e measure.Environment) *Options {
	return &Options{Common: measure.Common{Environment: e}}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Sync, "sync", names(syncs), "values of synchronous_commit")
	flags.StringSliceVar(&o.Steno, "steno", names(stenos), "off: without pg_steno; async: with it; sync: with "+
		"steno.sync=write,ddl,role")
	flags.IntSliceVar(&o.Inserts, "inserts", []int{1, 10}, "inserts per transaction")
	flags.IntSliceVar(&o.Clients, "clients", []int{16}, "sessions of pgbench")
	flags.StringSliceVar(&o.Cores, "cores", []string{allCores}, "processors that the primary may use: numbers, or all")
	flags.IntVar(&o.Seconds, "seconds", 1, "length of a slice")
	flags.IntVar(&o.Rounds, "rounds", 5, "how often to measure each combination")
	flags.IntVar(&o.Looks, "looks", 1, "how often to observe each combination: waits, system calls, latches")
	measure.AddPGConfig(flags, &o.PGConfig)
	o.Common.AddFlags(flags)
}

// Complete checks the flags and derives the remaining options from them.
func (o *Options) Complete(given func(flag string) bool) error {
	o.changed = given
	if err := o.Check(); err != nil {
		return err
	}
	o.choose(runtime.NumCPU(), given)
	switch {
	case o.Rounds < 1 || o.Seconds < 1:
		return errors.New("--rounds and --seconds must be at least 1")
	case o.Looks < 0:
		return errors.New("--looks must not be negative")
	}
	return o.matrix.check(runtime.NumCPU())
}

// choose sets the options that were not given.
func (o *Options) choose(cores int, given func(flag string) bool) {
	if o.Quick {
		if !given("inserts") {
			o.Inserts = []int{1}
		}
		if !given("rounds") {
			o.Rounds = 3
		}
	}
	if !o.Full {
		return
	}
	if !given("clients") {
		o.Clients = []int{1, 16, 64}
	}
	if !given("cores") {
		if o.Cores = []string{allCores}; cores > 1 {
			o.Cores = append(o.Cores, strconv.Itoa(cores/2))
		}
	}
	if !given("rounds") {
		o.Rounds = 6
	}
	if !given("seconds") {
		o.Seconds = 2
	}
	if !given("looks") {
		o.Looks = 2
	}
}

// prepare verifies the prerequisites before anything is started.
func (o *Options) prepare() (*cluster.Installation, []result.Skipped, error) {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return nil, nil, err
	}
	var skipped []result.Skipped
	if !installation.HasLibrary(stenoLibrary) {
		missing := fmt.Errorf("no %s.so in \"%s\"", stenoLibrary, installation.LibraryDir)
		if o.changed != nil && o.changed("steno") && !slices.Equal(o.Steno, []string{stenoOff}) {
			return nil, nil, fmt.Errorf("cannot measure pg_steno: %w", missing)
		}
		for _, steno := range []string{stenoAsync, stenoSync} {
			skipped = append(skipped, result.Skipped{Case: result.Case{dimSteno: steno}, Reason: missing.Error()})
		}
		o.Steno = []string{stenoOff}
	}
	servers := 1 + standbys
	if slices.Contains(o.Steno, stenoOff) && len(o.Steno) > 1 {
		servers *= 2
	}
	return installation, skipped, installation.CheckDisk(uint64(servers) * spacePerServer)
}

// Run measures and reports the result.
func (o *Options) Run(ctx context.Context) error {
	installation, skipped, err := o.prepare()
	if err != nil {
		return err
	}
	return o.Publish(ctx, func(ctx context.Context, phases *progress.Phases) (*result.Result, error) {
		r, err := o.measure(ctx, installation, phases)
		if r != nil {
			r.Skipped = append(skipped, r.Skipped...)
		}
		return r, err
	})
}

// Names of dimensions in cases and files.
const (
	dimSync    = "synchronous_commit"
	dimSteno   = "steno"
	dimInserts = "inserts"
	dimClients = "clients"
	dimCores   = "cores"
	dimEvent   = "event"
	dimCall    = "call"
)

// base is the value of synchronous_commit that the others are compared with: the same server does the same work, and
// waits only for its own disk.
const base = "local"

// syncs are the values of synchronous_commit, from the weakest to the strongest.
var syncs = []result.Value{
	{Name: "off", Title: "off"},
	{Name: base, Title: base},
	{Name: "remote_write", Title: "remote_write"},
	{Name: "on", Title: "on"},
	{Name: "remote_apply", Title: "remote_apply"},
}

const (
	stenoOff   = "off"
	stenoAsync = "async"
	stenoSync  = "sync"

	stenoLibrary = "pg_steno"
	allCores     = "all"
)

// stenos are the ways to record, with the settings of a session for each.
var stenos = []result.Value{
	{Name: stenoOff, Title: "no pg_steno"},
	{Name: stenoAsync, Title: "pg_steno", Settings: []cluster.Setting{{Name: "steno.sync", Value: "none"}}},
	{Name: stenoSync, Title: "pg_steno, steno.sync=write,ddl,role", Settings: []cluster.Setting{
		{Name: "steno.sync", Value: "write,ddl,role"}}},
}

func names(values []result.Value) []string {
	var all []string
	for _, v := range values {
		all = append(all, v.Name)
	}
	return all
}

func find(values []result.Value, name string) result.Value {
	i := slices.IndexFunc(values, func(v result.Value) bool { return v.Name == name })
	return values[i]
}

// matrix is the values of the dimensions.
type matrix struct {
	Sync    []string
	Steno   []string
	Inserts []int
	Clients []int
	Cores   []string
}

// point is one combination.
type point struct {
	sync, steno      string
	inserts, clients int
	cores            string
}

func (p point) result() result.Case {
	return result.Case{dimSync: p.sync, dimSteno: p.steno, dimInserts: strconv.Itoa(p.inserts),
		dimClients: strconv.Itoa(p.clients), dimCores: p.cores}
}

// title describes a slice, for the progress.
func (p point) title() string {
	title := fmt.Sprintf("synchronous_commit=%s, %d clients, %s", p.sync, p.clients, insertsTitle(p.inserts))
	if p.cores != allCores {
		title += ", cores: " + p.cores
	}
	if p.steno != stenoOff {
		title += ", " + find(stenos, p.steno).Title
	}
	return title
}

// groups returns the combinations, grouped with those that they are compared with: a group gets its slices directly
// one after the other.
func (m *matrix) groups() [][]point {
	var all [][]point
	for _, clients := range m.Clients {
		for _, cores := range m.Cores {
			for _, inserts := range m.Inserts {
				var group []point
				for _, steno := range m.Steno {
					for _, sync := range m.Sync {
						group = append(group, point{sync, steno, inserts, clients, cores})
					}
				}
				all = append(all, group)
			}
		}
	}
	return all
}

func (m *matrix) size() int {
	return len(m.Sync) * len(m.Steno) * len(m.Inserts) * len(m.Clients) * len(m.Cores)
}

// check checks that the matrix can run on a machine with this many cores.
func (m *matrix) check(cores int) error {
	if m.size() == 0 {
		return fmt.Errorf("an empty list means that there is nothing to measure")
	}
	for _, list := range []struct {
		flag       string
		have, want []string
	}{{"--sync", names(syncs), m.Sync}, {"--steno", names(stenos), m.Steno}} {
		for _, name := range list.want {
			if !slices.Contains(list.have, name) {
				return fmt.Errorf("%s: \"%s\" is not one of %v", list.flag, name, list.have)
			}
		}
	}
	for _, n := range m.Inserts {
		if n < 1 || n > 1000 {
			return fmt.Errorf("--inserts: %d is not between 1 and 1000", n)
		}
	}
	for _, n := range m.Clients {
		if n < 1 || n > mostClients {
			return fmt.Errorf("--clients: %d is not between 1 and %d", n, mostClients)
		}
	}
	for _, c := range m.Cores {
		if n, err := strconv.Atoi(c); c != allCores && (err != nil || n < 1 || n > cores) {
			return fmt.Errorf("--cores: \"%s\" is neither \"%s\" nor between 1 and %d, which this machine has", c,
				allCores, cores)
		}
	}
	return nil
}

// mostClients is the limit of clients: more would measure how fast a machine forks, and each session has a ring in
// /dev/shm.
const mostClients = 1000

// dimensions returns the dimensions for a result.
func (m *matrix) dimensions() []result.Dimension {
	numbers := func(list []int) []result.Value {
		var values []result.Value
		for _, n := range list {
			values = append(values, result.Value{Name: strconv.Itoa(n), Title: strconv.Itoa(n)})
		}
		return values
	}
	var cores, sync, steno []result.Value
	for _, c := range m.Cores {
		cores = append(cores, result.Value{Name: c, Title: c})
	}
	for _, name := range m.Sync {
		v := find(syncs, name)
		v.Settings = []cluster.Setting{{Name: "synchronous_commit", Value: name}}
		sync = append(sync, v)
	}
	for _, name := range m.Steno {
		steno = append(steno, find(stenos, name))
	}
	return []result.Dimension{
		{Name: dimSync, Title: "synchronous_commit", Values: sync},
		{Name: dimSteno, Title: "recorded by", Values: steno},
		{Name: dimClients, Title: "clients", Values: numbers(m.Clients)},
		{Name: dimCores, Title: "primary's cores", Values: cores},
		{Name: dimInserts, Title: "inserts per transaction", Values: numbers(m.Inserts)},
	}
}
