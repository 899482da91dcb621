// Package ipc is "steno bench ipc": it compares channels by which many processes
// can hand log messages to a reader, and ways to wake processes that sleep. The
// messages are sent by steno-ipc, a C program that contains the extension's own
// ring and broadcast; here are the matrix, the order of the cases, and what is
// made of the figures.
package ipc

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
	"github.com/pg-steno/pg_steno/internal/progress"
)

// Options are the flags of a run.
type Options struct {
	measure.Common

	Part      string
	Channels  []string
	Processes []int
	Sizes     []string
	Readers   []int
	Batches   []string
	Clocks    []string
	Sleepers  []int
	Rounds    int
	Slice     time.Duration
	Folder    string

	plan plan
}

// New returns the measurement.
func New(e measure.Environment) *Options {
	return &Options{Common: measure.Common{Environment: e}}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Common.AddFlags(flags)
	flags.StringVar(&o.Part, "part", "both", "send, wake or both")
	flags.StringSliceVar(&o.Channels, "channels", nil, "channels to compare, the base first")
	flags.IntSliceVar(&o.Processes, "processes", nil, "numbers of sending processes")
	flags.StringSliceVar(&o.Sizes, "sizes", nil, "sizes of messages in bytes, with k or M")
	flags.IntSliceVar(&o.Readers, "readers", nil, "numbers of readers, each with its own channel")
	flags.StringSliceVar(&o.Batches, "batches", nil, "numbers of messages that a reader takes at a time, or all")
	flags.StringSliceVar(&o.Clocks, "clocks", nil, "when to read the clock: message or pass")
	flags.IntSliceVar(&o.Sleepers, "sleepers", nil, "numbers of sleeping processes")
	flags.IntVar(&o.Rounds, "rounds", 0, "how often to run each case (default 4; 3 with --quick and --full)")
	flags.DurationVar(&o.Slice, "slice", 150*time.Millisecond, "duration of a case")
	flags.StringVar(&o.Folder, "folder", "", "folder for the files of file and io_uring (default $TMPDIR, or else /tmp)")
}

// Run measures.
func (o *Options) Run(ctx context.Context) error {
	program, err := findProgram()
	if err != nil {
		return err
	}
	return o.Publish(ctx, func(ctx context.Context, p *progress.Phases) (*result.Result, error) {
		return measureAll(ctx, o, &lab{program: program}, p)
	})
}

// Limits of steno-ipc.
const (
	mostProcesses = 10000
	mostReaders   = 64
	mostBatch     = 1024
	smallest      = 64
	largest       = 4 << 20
)

// Complete checks the flags and fills in what follows from them.
func (o *Options) Complete(given func(flag string) bool) error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.Rounds < 0 || (o.Rounds == 0 && given("rounds")) {
		return fmt.Errorf("--rounds must be at least 1")
	}
	if o.Slice < time.Millisecond || o.Slice > time.Hour {
		return fmt.Errorf("--slice must be from 1ms to 1h")
	}
	if o.Part != "both" && o.Part != "send" && o.Part != "wake" {
		return fmt.Errorf("no part \"%s\"; there are send, wake and both", o.Part)
	}
	chosen, err := o.axes()
	if err != nil {
		return err
	}
	if err := checkAll("--sleepers", o.Sleepers, mostProcesses); err != nil {
		return err
	}
	o.plan = makePlan(o, chosen)
	if o.Rounds == 0 {
		o.Rounds = o.plan.rounds
	}
	return nil
}

// axes are the values that were chosen; an axis without any is empty.
func (o *Options) axes() (a axes, err error) {
	for _, name := range o.Channels {
		if !slices.ContainsFunc(channels, func(v result.Value) bool { return v.Name == name }) {
			return a, fmt.Errorf("no channel \"%s\"; there are %s", name, strings.Join(names(channels), ", "))
		}
	}
	a.channels, a.processes, a.readers = unique(o.Channels), unique(o.Processes), unique(o.Readers)
	if err := checkAll("--processes", o.Processes, mostProcesses); err != nil {
		return a, err
	}
	if err := checkAll("--readers", o.Readers, mostReaders); err != nil {
		return a, err
	}
	for _, text := range o.Sizes {
		size, err := parseSize(text)
		if err != nil {
			return a, err
		}
		a.sizes = append(a.sizes, size)
	}
	for _, text := range o.Batches {
		batch, err := parseBatch(text)
		if err != nil {
			return a, err
		}
		a.batches = append(a.batches, batch)
	}
	for _, clock := range o.Clocks {
		if clock != "message" && clock != "pass" {
			return a, fmt.Errorf("no clock \"%s\"; there are message and pass", clock)
		}
	}
	a.sizes, a.batches, a.clocks = unique(a.sizes), unique(a.batches), unique(o.Clocks)
	return a, nil
}

func checkAll(flag string, values []int, most int) error {
	for _, v := range values {
		if v < 1 || v > most {
			return fmt.Errorf("%s must be from 1 to %d, not %d", flag, most, v)
		}
	}
	return nil
}

// parseSize reads a number of bytes, of kB (1,024) or of MB.
func parseSize(text string) (int, error) {
	digits, unit := text, 1
	switch {
	case strings.HasSuffix(text, "k"):
		digits, unit = strings.TrimSuffix(text, "k"), 1<<10
	case strings.HasSuffix(text, "M"):
		digits, unit = strings.TrimSuffix(text, "M"), 1<<20
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > largest || n*unit < smallest || n*unit > largest || n*unit%8 != 0 {
		return 0, fmt.Errorf("--sizes must be multiples of 8 from %d bytes to 4M, not \"%s\"", smallest, text)
	}
	return n * unit, nil
}

// parseBatch reads a number of messages; 0 stands for all.
func parseBatch(text string) (int, error) {
	if text == "all" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostBatch {
		return 0, fmt.Errorf("--batches must be from 1 to %d, or all, not \"%s\"", mostBatch, text)
	}
	return n, nil
}

// unique leaves out what comes again.
func unique[T comparable](values []T) []T {
	var u []T
	for _, v := range values {
		if !slices.Contains(u, v) {
			u = append(u, v)
		}
	}
	return u
}
