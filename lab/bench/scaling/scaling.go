// The tables of "steno bench scaling", its flags, and the costs that were measured.

package scaling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// workloads are costs that were measured on the machine of docs/scaling.md, which has the commands.
var workloads = map[string]Costs{
	"select": {Rate: 19000, Backend: 320, Writer: 80, Pass: 160, Look: 2500, RingBytes: 32, TrailBytes: 8, Lines: 1.5},
	"simple": {Rate: 18000, Backend: 470, Writer: 205, Pass: 160, Look: 2500, RingBytes: 40, TrailBytes: 11,
		Lines: 1.6},
	"tpcb": {Rate: 16000, Backend: 600, Writer: 125, Pass: 160, Look: 2500, RingBytes: 46, TrailBytes: 13, Lines: 1.7},
}

// How long it takes to move a cache line from one core to another: as measured there, and an assumption.
const (
	measuredLine = 195
	assumedLine  = 400
)

// Options are the options of a forecast.
type Options struct {
	measure.Environment
	Format   string
	Workload string
	Cores    []int
	Socket   int // cores of a socket
	Each     int // sessions for each core
	Stall    float64
	Skew     float64
	Seconds  float64
	Server
	Costs
}

// New returns the forecast with its defaults.
func New(e measure.Environment) *Options { return &Options{Environment: e} }

// AddFlags defines the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	measure.AddFormat(flags, &o.Format)
	flags.StringVar(&o.Workload, "workload", "select", "whose measured costs to use: "+
		strings.Join(workloadNames(), ", "))
	flags.IntSliceVar(&o.Cores, "cores", []int{2, 8, 64, 192}, "numbers of cores")
	flags.IntVar(&o.Socket, "socket", 48, "cores of a socket")
	flags.IntVar(&o.Each, "sessions", 4, "sessions for each core that run statements all the time")
	flags.IntVar(&o.Rings, "rings", 0, "number of rings: max_connections and background processes (default twice "+
		"the sessions, and 22)")
	flags.IntVar(&o.RingSize, "ring-size", 128, "steno.ring_size, in kB")
	flags.Float64Var(&o.Interval, "flush-interval", 200, "steno.flush_interval, in ms")
	flags.Float64Var(&o.Busy, "busy", 50, "per cent of a core that one writer may take")
	flags.Float64Var(&o.Stall, "stall", 500, "simulate a disk that stops for so many `ms`; 0: no simulation")
	flags.Float64Var(&o.Skew, "skew", 0.2, "session n has a rate proportional to 1/n^skew in the simulation")
	flags.Float64Var(&o.Seconds, "seconds", 4, "simulated time")
	flags.Float64Var(&o.Rate, "rate", 0, "records per second and core (default: as measured)")
	flags.Float64Var(&o.Backend, "backend", 0, "`ns` of a session for each record (default: as measured)")
	flags.Float64Var(&o.Writer, "writer", 0, "`ns` of a writer for each record (default: as measured)")
	flags.Float64Var(&o.Pass, "pass", 0, "`µs` of a writer for each pass (default: as measured)")
	flags.Float64Var(&o.Look, "look", 0, "`ns` of a writer for each ring and pass (default: as measured)")
	flags.Float64Var(&o.RingBytes, "ring-bytes", 0, "bytes of a record in its ring (default: as measured)")
	flags.Float64Var(&o.TrailBytes, "trail-bytes", 0, "bytes of a record in the trail (default: as measured)")
	flags.Float64Var(&o.Lines, "lines", 0, "cache lines of a record that move between cores (default: as counted)")
	flags.Float64Var(&o.Line, "line", measuredLine, "`ns` to move a cache line between two cores, where the costs "+
		"were measured")
	flags.Float64Var(&o.RemoteLine, "remote-line", assumedLine, "`ns` to move one between sockets")
}

func workloadNames() []string {
	var names []string
	for name := range workloads {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Complete checks the flags and takes the costs that were not given from the workload.
func (o *Options) Complete(given func(flag string) bool) error {
	costs, ok := workloads[o.Workload]
	if !ok {
		return fmt.Errorf("unknown workload \"%s\": choose one of %s", o.Workload, strings.Join(workloadNames(), ", "))
	}
	for _, c := range []struct {
		flag  string
		value *float64
		usual float64
	}{
		{"rate", &o.Rate, costs.Rate}, {"backend", &o.Backend, costs.Backend}, {"writer", &o.Writer, costs.Writer},
		{"pass", &o.Pass, costs.Pass}, {"look", &o.Look, costs.Look}, {"ring-bytes", &o.RingBytes, costs.RingBytes},
		{"trail-bytes", &o.TrailBytes, costs.TrailBytes}, {"lines", &o.Lines, costs.Lines},
	} {
		if !given(c.flag) {
			*c.value = c.usual
		}
		if *c.value < 0 {
			return fmt.Errorf("--%s must not be negative", c.flag)
		}
	}
	switch {
	case o.Rate == 0 || o.RingBytes == 0 || o.Writer == 0:
		return errors.New("--rate, --writer and --ring-bytes must be greater than 0")
	case len(o.Cores) == 0 || slices.Min(o.Cores) < 1 || o.Socket < 1 || o.Each < 1 || o.Rings < 0:
		return errors.New("--cores, --socket and --sessions must be at least 1")
	case o.RingSize < 16 || o.RingSize > 65536 || o.RingSize&(o.RingSize-1) != 0:
		return errors.New("--ring-size must be a power of two from 16 to 65536")
	case float64(o.RingSize*1024) < 8*o.RingBytes:
		return errors.New("--ring-bytes must be at most an eighth of a ring")
	case o.Interval < 1 || o.Busy <= 0 || o.Busy > 100:
		return errors.New("--flush-interval must be at least 1, and --busy between 0 and 100")
	case o.Stall < 0 || o.Skew < 0 || o.Seconds < 1 || o.Stall > (o.Seconds-1)*1000:
		return errors.New("--stall, --skew and --seconds: a stall begins after one second, and must end before the " +
			"simulation does")
	}
	return iostreams.CheckFormat(o.Format)
}

// row is what is printed for one number of cores.
type row struct {
	Cores    int
	Sockets  int
	Sessions int
	Rings    int
	Forecast
	Ring     int      // bytes of the smallest ring with which the average session does not wait for a stall
	Stalled  *Outcome `json:",omitempty"` // with rings of the given size
	Enlarged *Outcome `json:",omitempty"` // with rings twice as large as Ring
}

func (o *Options) row(cores int) row {
	s := o.Server
	s.Cores = cores
	s.Sockets = (cores + o.Socket - 1) / o.Socket
	s.Sessions = cores * o.Each
	s.RingSize *= 1024
	s.Busy /= 100
	if s.Rings == 0 {
		s.Rings = 2*s.Sessions + 22
	}
	r := row{Cores: cores, Sockets: s.Sockets, Sessions: s.Sessions, Rings: s.Rings, Forecast: predict(o.Costs, s),
		Ring: ringFor(o.Costs, s, o.Stall)}
	if o.Stall > 0 {
		load := Load{Sessions: s.Sessions, Writers: r.Writers, Rate: r.Records, Skew: o.Skew, RingBytes: o.RingBytes,
			RingSize: float64(s.RingSize), Interval: o.Interval, Writer: o.Writer + o.extra(s.Sockets), Pass: o.Pass,
			Look:    o.Look,
			Seconds: o.Seconds, StallAt: 1, Stall: o.Stall, Seed: 1}
		stalled := simulate(load)
		load.RingSize = float64(2 * r.Ring)
		enlarged := simulate(load)
		r.Stalled, r.Enlarged = &stalled, &enlarged
	}
	return r
}

// Run prints the forecast.
func (o *Options) Run(context.Context) error {
	var rows []row
	for _, cores := range o.Cores {
		rows = append(rows, o.row(cores))
	}
	if o.Format == "json" {
		return json.NewEncoder(o.IO.Out).Encode(map[string]any{"costs": o.Costs, "servers": rows})
	}
	return o.print(o.IO.Out, rows)
}

func (o *Options) print(out io.Writer, rows []row) error {
	fmt.Fprintf(out, "Forecast, not a measurement: workload %s, %.0f records per second and core; a record takes "+
		"%.0f ns of its\n"+
		"session and %.0f ns of a writer, which can drain %.1f million of them per second.\n\n",
		o.Workload, o.Rate, o.Backend, o.Writer, o.capacity(1)/1e6)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "cores\tsockets\tsessions\trecords/s\tsessions' CPU\twriters' CPU\twriters\teach "+
		"busy\ttrail\tbetween sockets\tmemory of rings\t\n")
	for _, r := range rows {
		fmt.Fprintf(w, "%d\t%d\t%d\t%.2f M\t%.2f %%\t%.2f %%\t%d\t%.0f %%\t%.1f MB/s\t%.0f MB/s\t%.0f MB\t\n",
			r.Cores, r.Sockets, r.Sessions, r.Records/1e6, 100*r.Backend, 100*r.WriterShare, r.Writers,
			100*r.WriterBusy,
			r.Trail/1e6, r.Between/1e6, r.RingMemory/(1<<20))
	}
	if err := w.Flush(); err != nil || o.Stall == 0 {
		return err
	}
	fmt.Fprintf(out, "\nA disk that stops for %.0f ms (simulated for %.0f s, session n has a rate proportional to "+
		"1/n^%g),\n"+
		"and how many sessions wait for space in their rings:\n\n",
		o.Stall, o.Seconds, o.Skew)
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "cores\tring\tcovers on average\twaiting\tof their time\tlarger ring\twaiting\tof their time\t\n")
	for _, r := range rows {
		fmt.Fprintf(w, "%d\t%d kB\t%.0f ms\t%d of %d\t%.2f %%\t%d kB\t%d of %d\t%.2f %%\t\n",
			r.Cores, o.RingSize, r.StallCovered, r.Stalled.Waited, r.Sessions, 100*r.Stalled.WaitShare,
			2*r.Ring/1024, r.Enlarged.Waited, r.Sessions, 100*r.Enlarged.WaitShare)
	}
	return w.Flush()
}
