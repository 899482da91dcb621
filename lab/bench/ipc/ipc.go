// Package ipc implements "steno bench ipc", which compares channels by which many processes can hand log messages to a
// reader, and ways to wake sleeping processes. The messages are sent by steno-ipc, a C program that contains the
// extension's own ring and broadcast; this package has the matrix and the order of the cases, and evaluates the
// figures.
package ipc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// Options are the options of a run.
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

// New returns the measurement with its defaults.
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
	flags.StringVar(&o.Folder, "folder", "",
		"folder for the files of file and io_uring (default $TMPDIR, or else /tmp)")
}

// Run measures and reports the result.
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

// Complete checks the flags and derives the remaining options from them.
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

// axes returns the values that were chosen; an axis without any is empty.
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

// parseSize parses a number of bytes, of kB (1,024 bytes) or of MB.
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

// parseBatch parses a number of messages; 0 means all.
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

// unique removes duplicates.
func unique[T comparable](values []T) []T {
	var u []T
	for _, v := range values {
		if !slices.Contains(u, v) {
			u = append(u, v)
		}
	}
	return u
}

const programName = "steno-ipc"

// findProgram searches for steno-ipc: beside steno-lab, and in the PATH.
func findProgram() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", err
	}
	return findBeside(filepath.Dir(self))
}

func findBeside(dir string) (string, error) {
	path := filepath.Join(dir, programName)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return path, nil
	}
	if path, err := exec.LookPath(programName); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("no program \"%s\" in \"%s\" or in PATH; "+
		"\"make build\" builds it, and \"make install\" installs it beside steno-lab", programName, dir)
}

// lab runs cases.
type lab struct {
	program string
}

// usage is the resources that processes have used together. Ticks are samples of the division of processor time into
// user and system time.
type usage struct {
	CPU         uint64 `json:"cpu_ns"`
	UserTicks   uint64 `json:"user_ticks_ns"`
	AllTicks    uint64 `json:"all_ticks_ns"`
	Voluntary   uint64 `json:"voluntary"`
	Involuntary uint64 `json:"involuntary"`
}

// user returns the share of the processor time that was spent in user mode; false if the time is too short to
// determine it.
func (u usage) user() (float64, bool) {
	return float64(u.UserTicks) / float64(max(u.AllTicks, 1)), u.AllTicks > 0
}

func (u usage) plus(v usage) usage {
	return usage{
		u.CPU + v.CPU, u.UserTicks + v.UserTicks, u.AllTicks + v.AllTicks,
		u.Voluntary + v.Voluntary, u.Involuntary + v.Involuntary,
	}
}

// sent is the output of steno-ipc for a case of sending.
type sent struct {
	Skipped         string  `json:"skipped"`
	Messages        uint64  `json:"messages"`
	Bytes           uint64  `json:"bytes"`
	Seconds         float64 `json:"seconds"`
	Senders         usage   `json:"senders"`
	Readers         usage   `json:"readers"`
	Looks           uint64  `json:"looks"`
	Uninterruptible uint64  `json:"uninterruptible"`
	Delay50         float64 `json:"delay_50_ns"`
	Delay99         float64 `json:"delay_99_ns"`
	Own             float64 `json:"own_ns"`
}

// woken is the output of steno-ipc for a case of waking.
type woken struct {
	Skipped       string  `json:"skipped"`
	Rounds        uint64  `json:"rounds"`
	WakerCalls    uint64  `json:"waker_calls"`
	SleeperCalls  uint64  `json:"sleeper_calls"`
	Counted       bool    `json:"counted"`
	WakingSeconds float64 `json:"waking_seconds"`
	WakerCPU      float64 `json:"waker_cpu_ns"`
	First50       float64 `json:"first_50_ns"`
	Middle50      float64 `json:"middle_50_ns"`
	Last50        float64 `json:"last_50_ns"`
	Last99        float64 `json:"last_99_ns"`
	Sleepers      usage   `json:"sleepers"`
}

func (l *lab) send(ctx context.Context, channel string, g group, slice time.Duration, folder string) (*sent, error) {
	args := []string{
		"send", "--channel=" + channel, "--processes=" + strconv.Itoa(g.processes), "--size=" + strconv.Itoa(g.size),
		"--readers=" + strconv.Itoa(g.readers), "--batch=" + strconv.Itoa(g.batch), "--clock=" + g.clock,
		milliseconds(slice),
	}
	if folder != "" {
		args = append(args, "--folder="+folder)
	}
	var s sent
	err := l.run(ctx, &s, args...)
	if err == nil && s.Skipped == "" && (s.Messages == 0 || s.Seconds <= 0) {
		err = fmt.Errorf("%s: no message in %v", strings.Join(args, " "), slice)
	}
	return &s, err
}

func (l *lab) wake(ctx context.Context, waker string, sleepers int, slice time.Duration) (*woken, error) {
	name, recreate := strings.CutSuffix(waker, "_recreate")
	epoll := "keep"
	if recreate {
		epoll = "recreate"
	}
	args := []string{
		"wake", "--waker=" + name, "--sleepers=" + strconv.Itoa(sleepers), "--epoll=" + epoll, milliseconds(slice),
	}
	var w woken
	err := l.run(ctx, &w, args...)
	if err == nil && w.Skipped == "" && (w.Rounds == 0 || w.WakingSeconds <= 0) {
		err = fmt.Errorf("%s: no process was woken in %v", strings.Join(args, " "), slice)
	}
	return &w, err
}

func milliseconds(d time.Duration) string {
	return "--milliseconds=" + strconv.FormatInt(max(1, d.Milliseconds()), 10)
}

// run runs the program and parses its line. The kernel kills the program, and the program's processes, when the thread
// that has started it exits; so that thread is locked until then.
func (l *lab) run(ctx context.Context, into any, args ...string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, l.program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = errors.New(strings.TrimPrefix(text, programName+": "))
		}
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
		return fmt.Errorf("%s: cannot read the output of \"%s\": %w", strings.Join(args, " "), programName, err)
	}
	return nil
}
