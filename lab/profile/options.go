// The flags of profile, and the order of a run.

package profile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// Options are the flags of a run.
type Options struct {
	measure.Environment
	DataDir string
	PID     int
	DSN     string
	Seconds int
	Waits   int // seconds during which the kernel records waits
	Unwind  string
	NoPerf  bool
	Format  string
	Output  string
}

// New returns the measurement.
func New(e measure.Environment) *Options { return &Options{Environment: e} }

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.DataDir, "data-dir", "D", "", "data directory of the server")
	flags.IntVar(&o.PID, "pid", 0, "ID of any process of the server")
	flags.StringVar(&o.DSN, "dsn", "", "connection string of the server")
	flags.IntVar(&o.Seconds, "seconds", 10, "how long to watch, in seconds")
	flags.IntVar(&o.Waits, "wait-seconds", 2, "how long to record, after that, how long sessions wait and where; 0 "+
		"does not")
	flags.StringVar(&o.Unwind, "unwind", "fp", "how perf walks the stack: fp or dwarf")
	flags.BoolVar(&o.NoPerf, "no-perf", false, "do not use perf, only /proc and wait events")
	measure.AddFormat(flags, &o.Format)
	flags.StringVar(&o.Output, "out", "", "folder for profile.json, flame.html, folded.txt and profile.pb.gz")
}

// Complete checks the flags.
func (o *Options) Complete(func(flag string) bool) error {
	switch {
	case o.DataDir == "" && o.PID == 0 && o.DSN == "":
		return errors.New("no server specified: give --data-dir, --pid or --dsn")
	case o.DataDir != "" && o.PID != 0:
		return errors.New("--data-dir and --pid exclude each other")
	case o.PID < 0:
		return errors.New("--pid must be positive")
	case o.Seconds < 1:
		return errors.New("--seconds must be at least 1")
	case o.Waits < 0:
		return errors.New("--wait-seconds must be at least 0")
	case o.Unwind != "fp" && o.Unwind != "dwarf":
		return fmt.Errorf("unknown way to unwind stacks \"%s\"; there are fp and dwarf", o.Unwind)
	}
	return iostreams.CheckFormat(o.Format)
}

// Run profiles the server and reports where its time goes.
func (o *Options) Run(ctx context.Context) error {
	phases := progress.NewPhases(o.IO)
	defer phases.End()
	s := session{Options: o, phases: phases}
	defer s.close()
	if err := s.attach(ctx); err != nil {
		return err
	}
	report, err := s.measure(ctx)
	phases.End()
	if err != nil {
		return err
	}
	if o.Output != "" {
		if err := writeFiles(o.Output, report, &s.profile); err != nil {
			return err
		}
	}
	if o.Format == "json" {
		return json.NewEncoder(o.IO.Out).Encode(report)
	}
	w := bufio.NewWriter(o.IO.Out)
	report.WriteText(w)
	return w.Flush()
}

// session is one run of the command.
type session struct {
	*Options
	phases *progress.Phases

	target   *Target
	conn     *connection
	recorder *recorder // nil if perf cannot be used
	watcher  *watcher
	profile  Profile
	report   Report
	dir      string // temporary
}

// note adds a note to the report.
func (s *session) note(format string, args ...any) {
	s.report.Notes = append(s.report.Notes, fmt.Sprintf(format, args...))
}

func (s *session) close() {
	if s.conn != nil {
		s.conn.close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// attach finds the server's processes and connects to it; one of these must succeed.
func (s *session) attach(ctx context.Context) (err error) {
	if s.DSN != "" {
		if s.conn, err = connect(ctx, s.DSN); err != nil {
			return err
		}
	}
	switch {
	case s.DataDir != "":
		s.target, err = AtDataDir(s.DataDir)
	case s.PID != 0:
		s.target, err = AtPID(s.PID)
	default:
		if s.target, err = s.conn.target(); err != nil {
			s.note("Wait events only: %s.", err)
			err = nil
		}
	}
	if err != nil {
		return err
	}
	if s.conn == nil {
		if s.conn, err = s.target.guess(ctx); err != nil {
			s.conn = nil
			s.note("No settings and wait events: cannot connect (%s). Give --dsn.", firstLine(err))
		}
	}
	if s.conn != nil && s.conn.mayNot {
		s.note("The user of the connection cannot see the waits of others: GRANT pg_read_all_stats to it.")
	}
	return nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(line, ":")
}

// measure takes all samples and makes the report.
func (s *session) measure(ctx context.Context) (*Report, error) {
	s.watcher = newWatcher(s.target, s.conn)
	if err := s.choosePerf(ctx); err != nil {
		return nil, err
	}
	if err := s.watch(ctx); err != nil {
		return nil, err
	}
	if err := s.waits(ctx); err != nil {
		return nil, err
	}
	s.describe()
	var events *Profile
	if s.conn != nil {
		events = &s.watcher.events
	}
	summarize(&s.report, &s.profile, events)
	if s.target != nil {
		s.report.Notes = append(s.report.Notes, missingSymbols(&s.profile, s.target.Program, s.recorder != nil &&
			s.recorder.userOnly)...)
	}
	return &s.report, nil
}

// choosePerf prepares perf if it can be used.
func (s *session) choosePerf(ctx context.Context) (err error) {
	if s.target == nil || s.NoPerf {
		return nil
	}
	if s.dir, err = os.MkdirTemp("", "steno-profile-"); err != nil {
		return err
	}
	all, err := s.target.processes()
	if err != nil {
		return err
	}
	var unusable *errNoPerf
	s.recorder, err = newRecorder(ctx, s.target, slices.Collect(maps.Keys(all)), s.Unwind, s.dir)
	if errors.As(err, &unusable) {
		s.recorder = nil
		s.note("No samples of functions: %s. %s", unusable.why, unusable.hint)
		return nil
	}
	return err
}

// watch samples everything for the main part of the time.
func (s *session) watch(ctx context.Context) error {
	watching, stop := context.WithTimeout(ctx, time.Duration(s.Seconds)*time.Second)
	defer stop()
	if _, err := s.watcher.look(ctx); err != nil { // to know the processes
		return err
	}
	ticking := s.tick("watching", s.Seconds)
	defer ticking()
	watched := make(chan error, 1)
	go func() { watched <- s.watcher.run(ctx, watching.Done()) }()

	var data string
	var err error
	if s.recorder != nil {
		s.report.CPUBy = "perf " + strings.Join(s.shown(s.recorder.cpuArgs()), " ")
		data, err = s.recorder.record(ctx, s.recorder.cpuArgs(), s.Seconds)
		stop()
	}
	if err := errors.Join(err, <-watched, ctx.Err()); err != nil {
		return err
	}
	ticking()
	if s.recorder == nil {
		s.report.CPUBy = fmt.Sprintf("%d samples of /proc", s.watcher.passes)
		if s.target == nil {
			s.report.CPUBy = fmt.Sprintf("%d samples of pg_stat_activity: sessions without a wait event",
				s.watcher.passes)
		}
		s.take(&s.watcher.stacks, false)
		return nil
	}
	s.phases.Phase("reading samples")
	s.profile.CPUSeconds = float64(s.Seconds)
	return s.recorder.readCPU(ctx, data, &s.profile, s.watcher.kinds, s.ownPID())
}

// waits records how long sessions wait. It is called after the samples, because it disturbs the server more. If it is
// not possible, the samples of waits are used.
func (s *session) waits(ctx context.Context) error {
	if s.recorder == nil || s.Waits == 0 {
		return s.lookedAtWaits()
	}
	const most = 10000 // stacks a second
	period := max(1, int(switches(ctx)/most))
	args, err := s.recorder.waitArgs(period)
	if err != nil {
		s.note("Waits without the server's functions: %s.", err)
		return s.lookedAtWaits()
	}
	snapshot, err := s.watcher.snapshot(ctx)
	if err != nil {
		return err
	}
	ticking := s.tick("recording waits", s.Waits)
	defer ticking()
	data, err := s.recorder.record(ctx, args, s.Waits)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.note("Waits without the server's functions: %s.", firstLine(err))
		return s.lookedAtWaits()
	}
	ticking()
	s.phases.Phase("reading waits")
	s.report.WaitsBy = "perf " + strings.Join(s.shown(args), " ")
	return s.addWaits(ctx, data, &offCPU{profile: &Profile{}, kinds: s.watcher.kinds, own: s.ownPID(), period: period,
		snapshot: snapshot})
}

// addWaits adds the recorded waits to the profile.
func (s *session) addWaits(ctx context.Context, data string, o *offCPU) error {
	if err := s.recorder.readWaits(ctx, data, o); err != nil {
		return err
	}
	if o.samples == 0 {
		s.note("Waits without the server's functions: perf recorded none.")
		return s.lookedAtWaits()
	}
	s.take(o.profile, true)
	if o.lost > 0 {
		s.note("The machine was too busy to record all waits: some were lost %d times, and with them a part of the "+
			"waiting time.", o.lost)
	}
	return nil
}

// switches returns the number of context switches per second of the machine.
func switches(ctx context.Context) float64 {
	const moment = 200 * time.Millisecond
	before := machine.ContextSwitches()
	select {
	case <-ctx.Done():
	case <-time.After(moment):
	}
	return float64(machine.ContextSwitches()-before) / moment.Seconds()
}

func (s *session) lookedAtWaits() error {
	by := []string{}
	if s.target != nil {
		by = append(by, "/proc")
	}
	if s.conn != nil {
		by = append(by, "pg_stat_activity")
	}
	s.report.WaitsBy = fmt.Sprintf("%d samples of %s", s.watcher.passes, strings.Join(by, " and "))
	s.take(&s.watcher.stacks, true)
	return nil
}

// take adds the stacks that waited, or those that ran, to the profile.
func (s *session) take(from *Profile, waiting bool) {
	for _, stack := range from.Stacks {
		if stack.Waiting == waiting {
			s.profile.Add(*stack)
		}
	}
	if waiting {
		s.profile.WaitSeconds = from.WaitSeconds
	} else {
		s.profile.CPUSeconds = from.CPUSeconds
	}
}

// shown returns a command without the long list of processes.
func (s *session) shown(args []string) []string {
	args = slices.Clone(args)
	if i := slices.Index(args, "-p"); i >= 0 {
		args[i+1] = "..."
	}
	return args
}

// tick shows the remaining time until the returned function is called, which may be called more than once.
func (s *session) tick(phase string, seconds int) (stop func()) {
	s.phases.Phase(phase)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; i < seconds; i++ {
			s.phases.Step(fmt.Sprintf("%d s left", seconds-i), i, seconds)
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	stopped := false
	return func() {
		if !stopped {
			stopped = true
			close(done)
			<-ended
		}
	}
}

func (s *session) ownPID() int {
	if s.conn == nil {
		return 0
	}
	return s.conn.pid
}

// describe fills in what the report is about.
func (s *session) describe() {
	r := &s.report
	r.Command, r.Version, r.Machine = measure.CommandLine(), s.Version, machine.Local()
	if s.target != nil {
		r.Server = Server{PID: s.target.Postmaster, DataDir: s.target.DataDir, Program: s.target.Program}
	}
	if s.conn != nil {
		r.Server.Version, r.Settings = s.conn.version, s.conn.settings
		if r.Server.DataDir == "" {
			r.Server.DataDir = s.conn.settings["data_directory"]
		}
	}
}
