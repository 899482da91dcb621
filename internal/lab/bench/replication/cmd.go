// Package replication is "steno bench replication": what commits cost that wait
// for a standby, by synchronous_commit, transaction size, sessions and cores, with
// and without pg_steno.
//
// A primary with two standbys, of which any one must confirm, is loaded by
// pgbench with inserts. synchronous_commit and steno.sync are set by the sessions,
// and the primary's cores by the affinity of its processes, so the same servers
// serve all combinations; only pg_steno, which is preloaded, takes a primary and
// two standbys of its own (servers.go). All are up at the same time, which costs
// memory, but no restart falls between slices that are compared: those get their
// turn one right after the other, in an order that changes from round to round.
// What sessions wait for, system calls and latches are taken in slices apart from
// those that are timed (look.go).
package replication

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/lab/bench/benchcmd"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/progress"
)

type options struct {
	benchcmd.Common
	matrix
	Rounds   int
	Looks    int
	Seconds  int
	PGConfig string

	changed func(flag string) bool
}

// NewCmd returns "steno bench replication".
func NewCmd(f *cmdutil.Factory) *cobra.Command { return newCmd(f, run) }

func newCmd(f *cmdutil.Factory, run func(context.Context, *options) error) *cobra.Command {
	o := &options{Common: benchcmd.Common{Factory: f}}
	cmd := &cobra.Command{
		Use:   "replication",
		Short: "Measure what commits cost that wait for a standby",
		Long: `Start a throw-away primary with two standbys, of which any one must confirm
(synchronous_standby_names = 'ANY 1 (...)'), and let pgbench insert rows, with
every synchronous_commit: transactions and inserts per second and their latency,
paired against "local", how idle the processors were, what sessions waited for,
and the system calls and latches of the primary for each commit. With pg_steno in
the installation, a second primary records everything, and then also makes each
writing statement and its commit wait for the trail's disk (--steno sync).

System calls and latches are counted by the kernel's perf events, which takes root
or CAP_PERFMON; else system calls by strace, where it is allowed; else not.

All servers and pgbench share this machine. A machine with few cores shows what
commits wait for and what they call, but not how many cores queue for one lock.
On a large one:

  steno bench replication --full --clients 16,64,256 --cores all,10,16,32`,
		Example: `  steno bench replication --quick
  steno bench replication --clients 8,64 --inserts 1,10 --output bench/results/replication
  steno bench replication --sync local,on --cores all,1 --steno off`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.changed = cmd.Flags().Changed
			if err := o.complete(); err != nil {
				return exit.Usagef("%w", err)
			}
			return run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Sync, "sync", names(syncs), "values of synchronous_commit")
	flags.StringSliceVar(&o.Steno, "steno", names(stenos), "off: without pg_steno; async: with it; sync: with "+
		"steno.sync=write,ddl,role")
	flags.IntSliceVar(&o.Inserts, "inserts", []int{1, 10}, "inserts in a transaction")
	flags.IntSliceVar(&o.Clients, "clients", []int{16}, "sessions of pgbench")
	flags.StringSliceVar(&o.Cores, "cores", []string{allCores}, "processors that the primary may use: numbers, or all")
	flags.IntVar(&o.Seconds, "seconds", 1, "length of a slice")
	flags.IntVar(&o.Rounds, "rounds", 5, "how often each combination is timed")
	flags.IntVar(&o.Looks, "looks", 1, "how often each is watched: waits, system calls, latches")
	cmdutil.AddPGConfig(flags, &o.PGConfig)
	o.Add(cmd)
	return cmd
}

// complete takes the size of the run where nothing was said, and checks.
func (o *options) complete() error {
	if err := o.Check(); err != nil {
		return err
	}
	given := func(flag string) bool { return o.changed != nil && o.changed(flag) }
	o.choose(runtime.NumCPU(), given)
	switch {
	case o.Rounds < 1 || o.Seconds < 1:
		return errors.New("--rounds and --seconds must be at least 1")
	case o.Looks < 0:
		return errors.New("--looks must not be negative")
	}
	return o.matrix.check(runtime.NumCPU())
}

// choose sets what was not given.
func (o *options) choose(cores int, given func(flag string) bool) {
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

// prepare looks whether all that is needed is there, before anything is started.
func (o *options) prepare() (*cluster.Installation, []result.Skipped, error) {
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

func run(ctx context.Context, o *options) error {
	installation, skipped, err := o.prepare()
	if err != nil {
		return err
	}
	return o.Run(ctx, func(ctx context.Context, phases *progress.Phases) (*result.Result, error) {
		r, err := o.measure(ctx, installation, phases)
		if r != nil {
			r.Skipped = append(skipped, r.Skipped...)
		}
		return r, err
	})
}
