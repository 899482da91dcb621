// Package clock implements "steno bench clock", which measures the cost of reading the clock, and its effect on
// settings that read it often, above all track_io_timing.
//
// In each round the clock is read alone (timing.go), and a query that reads many blocks runs on a throw-away server
// without and with track_io_timing.
package clock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/measure"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// Options are the options of a run.
type Options struct {
	measure.Common
	Rounds   int
	Queries  int // for each setting, in a round
	MB       int // size of the table
	PGConfig string
}

const (
	quickRounds = 6
	usualRounds = 15
	fullRounds  = 60
)

// New returns the measurement with its defaults.
func New(e measure.Environment) *Options {
	return &Options{Common: measure.Common{Environment: e}}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Common.AddFlags(flags)
	flags.IntVar(&o.Rounds, "rounds", usualRounds, "number of rounds")
	flags.IntVar(&o.Queries, "queries", 10, "how often to run the query each way in a round")
	flags.IntVar(&o.MB, "mb", 64, "size of the table to read, in MB")
	measure.AddPGConfig(flags, &o.PGConfig)
}

// Complete checks the flags and derives the remaining options from them.
func (o *Options) Complete(given func(flag string) bool) error {
	rounds := given("rounds")
	if !rounds && o.Quick {
		o.Rounds = quickRounds
	}
	if !rounds && o.Full {
		o.Rounds = fullRounds
	}
	switch {
	case o.Rounds < 1 || o.Queries < 1:
		return errors.New("--rounds and --queries must be at least 1")
	case o.MB < 1:
		return errors.New("--mb must be at least 1")
	}
	return o.Check()
}

// Run measures and reports the result.
func (o *Options) Run(ctx context.Context) error {
	return o.Publish(ctx, func(ctx context.Context, p *progress.Phases) (*result.Result, error) {
		return measureAll(ctx, o, p)
	})
}

// check verifies the prerequisites before a server is created.
func check(installation *cluster.Installation, o *Options) error {
	if _, err := os.Stat(installation.Program("pg_test_timing")); err != nil {
		return fmt.Errorf("no pg_test_timing in \"%s\": is the PostgreSQL server installed?", installation.BinDir)
	}
	if _, err := machine.Here.Time(os.Getpid()); err != nil {
		return fmt.Errorf("the kernel does not report the CPU time of processes: %w", err)
	}
	// for the table, its WAL, and a cluster
	return installation.CheckDisk(uint64(2*o.MB+200) << 20)
}

func measureAll(ctx context.Context, o *Options, p *progress.Phases) (r *result.Result, err error) {
	installation, err := cluster.Find(o.PGConfig)
	if err != nil {
		return nil, err
	}
	if err := check(installation, o); err != nil {
		return nil, err
	}
	p.Phase("creating a server")
	lab, err := cluster.NewLab(ctx, installation)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	s, err := lab.Start(ctx, "clock", settings)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.Conninfo("postgres", "postgres"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	b := &clockBench{o: o, installation: installation, conn: conn, result: newResult(o, installation.Version)}
	if err := b.fill(ctx); err != nil {
		return nil, err
	}
	p.Phase("measuring")
	for round := range o.Rounds {
		p.Step("reading the clock, and blocks", round, o.Rounds)
		if err := b.round(ctx, round); err != nil {
			return nil, err
		}
	}
	b.finish()
	return b.result, nil
}

// settings keep the table out of the server's cache, and background activity low.
var settings = []cluster.Setting{
	{Name: "shared_buffers", Value: "1MB"},
	{Name: "autovacuum", Value: "off"},
	{Name: "fsync", Value: "off"},
	{Name: "max_parallel_workers_per_gather", Value: "0"},
	{Name: "jit", Value: "off"},
	{Name: "synchronize_seqscans", Value: "off"},
	{Name: "checkpoint_timeout", Value: "1h"},
	{Name: "max_wal_size", Value: "8GB"},
}

// clockBench is the state of a run.
type clockBench struct {
	o            *Options
	installation *cluster.Installation
	conn         *pgx.Conn
	result       *result.Result
	blocks       float64 // read by the query
	slow         float64 // highest share of readings in a run that took longer than a microsecond, in per cent
}

const query = "SELECT count(*) FROM blocks"

// fill creates a table with one row in each block, and counts the blocks that the query reads.
func (b *clockBench) fill(ctx context.Context) error {
	const block = 8192
	rows := b.o.MB << 20 / block
	for _, statement := range []string{
		"CREATE TABLE blocks (filling char(7000))",
		"ALTER TABLE blocks ALTER filling SET STORAGE PLAIN",
		fmt.Sprintf("INSERT INTO blocks SELECT 'x' FROM generate_series(1, %d)", rows),
		"VACUUM ANALYZE blocks",
		"CHECKPOINT",
	} {
		if _, err := b.conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	var plan []struct {
		Plan struct {
			Read float64 `json:"Shared Read Blocks"`
		}
	}
	for range 2 { // the first run reads what the second needs
		const explain = "EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) "
		if err := b.conn.QueryRow(ctx, explain+query).Scan(&plan); err != nil {
			return err
		}
	}
	if b.blocks = plan[0].Plan.Read; b.blocks < 1 {
		return errors.New("the query finds all blocks in the server's cache: make the table larger (--mb)")
	}
	return nil
}

func (b *clockBench) round(ctx context.Context, round int) error {
	t, err := testTiming(ctx, b.installation)
	if err != nil {
		return err
	}
	b.slow = max(b.slow, t.slow())
	b.add(round, 1, result.Case{"way": "direct"}, "reading", t.loop)
	b.add(round, 2, result.Case{"way": "kernel"}, "reading", systemCall())
	for _, u := range uses {
		b.add(round, 1, result.Case{"use": u.name}, "estimate", t.loop*float64(u.readings))
	}
	off, on, err := b.compare(ctx)
	if err != nil {
		return err
	}
	for i, s := range []spent{off, on} {
		c := result.Case{"track": tracks[i]}
		b.add(round, 3+i, c, "rate", 1/s.wall)
		b.add(round, 3+i, c, "time", s.wall*1000)
		b.add(round, 3+i, c, "block", s.cpu*1e9/b.blocks)
	}
	b.add(round, 4, result.Case{}, "added", (on.cpu-off.cpu)*1e9/b.blocks)
	return nil
}

func (b *clockBench) add(round, position int, c result.Case, metric string, value float64) {
	b.result.Add(round+1, position, c, metric, value)
}

// spent is the time that a query took, in seconds.
type spent struct{ wall, cpu float64 }

// compare runs the query alternately without and with track_io_timing, and returns the medians, so that a query that
// was disturbed by other processes does not count.
func (b *clockBench) compare(ctx context.Context) (off, on spent, err error) {
	var wall, cpu [2][]float64
	for i := range b.o.Queries {
		for position := range 2 {
			k := bench.Order(2, i, position)
			s, err := b.once(ctx, tracks[k])
			if err != nil {
				return off, on, err
			}
			wall[k], cpu[k] = append(wall[k], s.wall), append(cpu[k], s.cpu)
		}
	}
	off = spent{stats.NewEstimate(wall[0]).Median, stats.NewEstimate(cpu[0]).Median}
	on = spent{stats.NewEstimate(wall[1]).Median, stats.NewEstimate(cpu[1]).Median}
	return off, on, nil
}

// once runs the query once.
func (b *clockBench) once(ctx context.Context, track string) (s spent, err error) {
	if _, err := b.conn.Exec(ctx, "SET track_io_timing = "+track); err != nil {
		return s, err
	}
	pid := int(b.conn.PgConn().PID())
	before, err := machine.Here.Time(pid)
	if err != nil {
		return s, err
	}
	start := time.Now()
	if _, err := b.conn.Exec(ctx, query); err != nil {
		return s, err
	}
	s.wall = time.Since(start).Seconds()
	after, err := machine.Here.Time(pid)
	s.cpu = (after - before).Seconds()
	return s, err
}

func newResult(o *Options, postgres string) *result.Result {
	r := result.New("clock", "What reading the clock costs, and track_io_timing with it", measure.CommandLine(),
		o.Version)
	r.Postgres, r.Settings = postgres, settings
	s := readSource(sourceDir)
	r.Notes = []string{s.advice()}
	r.Parameters = []result.Parameter{
		{Name: "clock source", Value: s.current},
		{Name: "clock sources that the kernel offers", Value: strings.Join(s.available, ", ")},
		{Name: "rounds", Value: strconv.Itoa(o.Rounds)},
		{Name: "queries each way in a round", Value: strconv.Itoa(o.Queries)},
		{Name: "size of the table", Value: strconv.Itoa(o.MB) + " MB"},
	}
	return r
}

// uses are the code paths that read the clock, and how often they do so.
var uses = []struct {
	name, title string
	readings    int
}{
	{"block", "a read of blocks, with track_io_timing", 2},
	{"duration", "a statement, with log_duration", 1},
	{"line", "a line of the log, with %m in its prefix", 1},
	{"row", "a row of a node, with EXPLAIN ANALYZE", 2},
}

var tracks = []string{"off", "on"}

var metrics = []result.Metric{
	{Name: "reading", Title: "one reading of the clock", Unit: "ns", Better: "lower"},
	{Name: "estimate", Title: "added cost", Unit: "ns", Better: "lower"},
	{Name: "rate", Title: "queries per second", Unit: "1/s", Better: "higher"},
	{Name: "time", Title: "time of the query", Unit: "ms", Better: "lower"},
	{Name: "block", Title: "CPU time for each block", Unit: "ns", Better: "lower"},
	{Name: "added", Title: "CPU time that track_io_timing adds for each block", Unit: "ns", Better: "lower"},
}

func (b *clockBench) finish() {
	r := b.result
	r.Metrics = metrics
	r.Dimensions = []result.Dimension{
		{Name: "way", Title: "how the clock is read", Values: []result.Value{
			{Name: "direct", Title: "as PostgreSQL does (pg_test_timing)"},
			{Name: "kernel", Title: "by a system call (clock_gettime)"},
		}},
		{Name: "use", Title: "what reads the clock"},
		{Name: "track", Title: "track_io_timing", Values: []result.Value{
			{Name: "off", Title: "off"}, {Name: "on", Title: "on"},
		}},
	}
	for _, u := range uses {
		times := "a reading"
		if u.readings > 1 {
			times = strconv.Itoa(u.readings) + " readings"
		}
		value := result.Value{Name: u.name, Title: u.title + " (" + times + ")"}
		r.Dimensions[1].Values = append(r.Dimensions[1].Values, value)
	}
	r.Parameters = append(r.Parameters, result.Parameter{Name: "blocks that the query reads",
		Value: strconv.Itoa(int(b.blocks))})
	r.Summarize("track", "off")
	addPublished(r)
	reads := fmt.Sprintf("A query that reads %.0f blocks from the kernel's cache", b.blocks)
	r.Tables = []result.Table{
		{Title: "Reading the clock", Rows: []string{"way"}, Bar: 0,
			Columns: []result.Column{{Metric: "reading"}, {Metric: "reading", Published: true}}},
		{Title: "Resulting costs, derived from pg_test_timing", Rows: []string{"use"}, Bar: 0,
			Columns: []result.Column{{Metric: "estimate"}}},
		{Title: reads, Rows: []string{"track"}, Bar: 0, Columns: []result.Column{
			{Metric: "rate", Ratio: true}, {Metric: "rate", Published: true}, {Metric: "time"}, {Metric: "block"}}},
	}
	r.Charts = []result.Chart{
		{Title: "Reading the clock", Kind: "bars", Metric: "reading", X: "way"},
		{Title: "Resulting costs", Kind: "bars", Metric: "estimate", X: "use", Note: "Derived from pg_test_timing."},
		{Title: reads, Kind: "bars", Metric: "block", X: "track"},
	}
	r.Notes = append(r.Notes, b.notes()...)
}

// addPublished adds the figures of source A to the measured ones.
func addPublished(r *result.Result) {
	if m := r.Find(result.Case{"way": "direct"}, "reading"); m != nil {
		m.Published = []result.Published{{Value: 42, Source: "analysis of 2018", Conditions: "pg_test_timing, ECS VM"}}
	}
	if m := r.Find(result.Case{"track": "on"}, "rate"); m != nil {
		for _, p := range []struct {
			on, off float64
			clients int
		}{{59684, 62370, 56}, {121725, 122479, 28}} {
			m.Published = append(m.Published, result.Published{
				Value: p.on / p.off, IsRatio: true, Source: "analysis of 2018",
				Conditions: fmt.Sprintf("pgbench -S with log_statement and log_duration, PostgreSQL ~10, %d clients",
					p.clients),
			})
		}
	}
}

// median returns the median of a case's metric; NaN if it was not measured.
func median(r *result.Result, c result.Case, metric string) float64 {
	if m := r.Find(c, metric); m != nil {
		return m.Value.Median
	}
	return stats.NewEstimate(nil).Median
}

// notes returns the findings that follow from the figures.
func (b *clockBench) notes() []string {
	r := b.result
	direct := median(r, result.Case{"way": "direct"}, "reading")
	kernel := median(r, result.Case{"way": "kernel"}, "reading")
	var notes []string
	if direct > kernel/2 {
		notes = append(notes, fmt.Sprintf(
			"A reading by PostgreSQL takes %.0f ns, a system call %.0f ns: the clock seems "+
				"to be read through the kernel.",
			direct, kernel))
	} else {
		notes = append(notes, fmt.Sprintf("A reading by PostgreSQL takes %.0f ns; through the kernel, it would take "+
			"%.0f ns.", direct, kernel))
	}
	block := median(r, result.Case{"track": "off"}, "block")
	if m := r.Find(result.Case{}, "added"); m != nil {
		text := fmt.Sprintf("A block took %.0f ns of CPU time without track_io_timing. Two readings of the clock, "+
			"%.0f ns, are %.1f %% of that; the measured difference is %.0f ns (%.0f to %.0f) per block.",
			block, 2*direct, 100*2*direct/block, m.Value.Median, m.Value.Low, m.Value.High)
		if m.Value.Low <= 0 && m.Value.High >= 0 {
			text += " The interval includes 0: this run cannot show a difference."
		}
		notes = append(notes, text+" Reading a block from a disk takes many times as long. Statements whose "+
			"blocks are in the server's cache do not read the clock for them.")
	}
	if b.slow >= 1 {
		notes = append(notes, fmt.Sprintf("Up to %.1f %% of the readings took longer than a microsecond: "+
			"another process ran, or the clock is slow.", b.slow))
	}
	return notes
}
