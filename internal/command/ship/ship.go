// The command that ships.

package ship

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/ship"
)

// Options are the options of ship.
type Options struct {
	IO *iostreams.IOStreams
	query.KeyOptions
	Trail  []string
	Config string
	To     string
	Slot   string
	From   string
	Format string
	State  string
	Check  bool
	Once   bool
}

// NewCmdShip returns the command. Tests give a run function of their own.
func NewCmdShip(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "ship [TRAIL]",
		Short: "Take the trail to object stores, Kafka and log tools, while the server runs",
		Long: `Send what a server records to one or more sinks, as long as this command runs.
Each sink has a reader slot of its own: the server deletes nothing that has not
arrived, and a sink that is slow or down holds up no other. Everything arrives at
least once, in the order of its stream.

Sinks are named in a file, --config, or one is named by its URL, --to. A trail
named on the command line counts instead of that of the file. SIGHUP reads the
file again: sinks that have not changed go on.

--check tries each sink and sends nothing: names, certificates, logins, rights.`,
		Example: `  steno ship --to file:/var/log/steno/trail.json
  steno ship --config /etc/steno/ship.yaml
  steno ship --config /etc/steno/ship.yaml --check`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trail = args
			if err := cmdutil.RefuseEmpty(cmd, "config", "to", "slot", "from", "state"); err != nil {
				return err
			}
			if (opts.Config == "") == (opts.To == "") {
				return exit.Usagef("give --config or --to: where to ship to")
			}
			if opts.To == "" {
				for _, name := range []string{"slot", "from", "format"} {
					if cmd.Flags().Changed(name) {
						return exit.Usagef("--%s goes with --to: the configuration file has one for each sink", name)
					}
				}
			}
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return shipRun(cmd.Context(), opts)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&opts.Config, "config", "", "the configuration `file`, in YAML")
	fl.StringVar(&opts.To, "to", "", "the `URL` of one sink")
	fl.StringVar(&opts.Slot, "slot", "", "the `slot` of the sink; created if it does not exist (default: ship_ and the "+
		"scheme of the URL)")
	fl.StringVar(&opts.From, "from", "start", "where a new slot begins: `start` or end of the trail")
	fl.StringVarP(&opts.Format, "format", "o", "", "output `format`: blocks, json, ecs, ocsf, otel, csvlog, pgaudit, as "+
		"far as the sink takes it")
	fl.StringVar(&opts.State, "state", "", "the `directory` for states and for what was refused (default "+
		"$STATE_DIRECTORY, or else /var/lib/steno)")
	fl.BoolVar(&opts.Check, "check", false, "try each sink, and send nothing")
	fl.BoolVar(&opts.Once, "once", false, "end when everything is shipped that the trail has")
	flags.AddKeys(cmd, &opts.KeyOptions)
	return cmd
}

// load returns the configuration of the command line.
func (o *Options) load() (c *ship.Config, err error) {
	if o.Config != "" {
		c, err = ship.Load(o.Config, kinds)
	} else if c, err = ship.ParseTarget(o.To, kinds); err == nil {
		for _, s := range c.Sinks {
			s.Slot, s.From, s.Format = o.Slot, o.From, o.Format
		}
	}
	if err != nil {
		return nil, o.named(err)
	}
	if len(o.Trail) > 0 {
		c.Trail = o.Trail[0]
	}
	if c.Trail == "" {
		if c.Trail, err = query.DefaultTrail(); err != nil {
			return nil, err
		}
	}
	if c.Trail, err = filepath.Abs(c.Trail); err != nil {
		return nil, err
	}
	if o.State != "" {
		c.StateDirectory = o.State
	}
	if len(o.Files)+len(o.Commands) > 0 {
		c.EncryptionKeyFile, c.EncryptionKeyCommand = o.Files, o.Commands
	}
	if err := c.Complete(); err != nil {
		return nil, o.named(err)
	}
	return c, nil
}

// named adds to an error of the configuration where it is.
func (o *Options) named(err error) error {
	if o.To != "" {
		return cmdutil.FlagError("to", err)
	}
	if errors.Is(err, os.ErrPermission) {
		return err
	}
	return &exit.UsageError{Err: err}
}

func shipRun(ctx context.Context, o *Options) error {
	c, err := o.load()
	if err != nil {
		return err
	}
	if o.Check {
		return o.check(ctx, c)
	}
	reload := make(chan *ship.Config)
	hup := make(chan os.Signal, 1)
	if len(hangup) > 0 { // none would mean all
		signal.Notify(hup, hangup...)
		defer signal.Stop(hup)
	}
	log := o.log()
	ctx, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer func() {
		stop()
		wait.Wait()
	}()
	wait.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				c, err := o.load()
				if err != nil {
					log(ship.Error, "", fmt.Sprintf("the configuration is not read again: %v", err))
					continue
				}
				select {
				case reload <- c:
					log(ship.Info, "", "read the configuration again")
				case <-ctx.Done():
				}
			}
		}
	})
	agent := &ship.Agent{Log: log, Once: o.Once}
	if c.Metrics != "" {
		wait.Go(func() {
			if err := agent.ServeMetrics(ctx, c.Metrics); err != nil {
				log(ship.Error, "", fmt.Sprintf("metrics cannot be read: %v", err))
			}
		})
	}
	return agent.Run(ctx, c, reload)
}

// log returns a function that writes messages to standard error, a line each.
func (o *Options) log() ship.Log {
	var mu sync.Mutex
	return func(level ship.Level, sink, message string) {
		mu.Lock()
		defer mu.Unlock()
		if sink != "" {
			message = sink + ": " + message
		}
		fmt.Fprintf(o.IO.ErrOut, "%s %s: %s\n", time.Now().UTC().Format("2006-01-02T15:04:05Z"), level,
			render.Safe(message))
	}
}

// check tries each sink.
func (o *Options) check(ctx context.Context, c *ship.Config) error {
	failed := false
	for _, name := range slices.Sorted(maps.Keys(c.Sinks)) {
		s := c.Sinks[name]
		fmt.Fprintf(o.IO.Out, "%s: %s\n", name, render.Safe(s.Place()))
		findings := ship.CheckSink(ctx, s, c)
		for _, f := range findings {
			word := "ok"
			switch {
			case f.Err != nil:
				word, failed = "FAILED", true
			case f.Warning:
				word = "warning"
			}
			fmt.Fprintf(o.IO.Out, "  %-8s%s", word, render.Safe(f.What))
			if f.Err != nil {
				fmt.Fprintf(o.IO.Out, ": %s", render.Safe(f.Err.Error()))
			}
			if f.Note != "" {
				fmt.Fprintf(o.IO.Out, " (%s)", render.Safe(f.Note))
			}
			fmt.Fprintln(o.IO.Out)
		}
	}
	return exit.CheckResult(failed, false)
}
