package scaling

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/lab/measure"
)

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

var round = Costs{Rate: 10000, Backend: 500, Writer: 250, Pass: 100, Look: 200, RingBytes: 100, TrailBytes: 10, Lines: 2,
	Line: 100, RemoteLine: 300}

// Calculated by hand.
func TestForecastIsArithmetic(t *testing.T) {
	f := predict(round, Server{Cores: 4, Sockets: 1, Sessions: 40, Rings: 100, RingSize: 1 << 20, Interval: 100, Busy: 0.5})
	about(t, "records", f.Records, 40000)
	about(t, "backend", f.Backend, 0.005)
	about(t, "trail", f.Trail, 400000)
	about(t, "between sockets", f.Between, 0)
	about(t, "memory", f.RingMemory, 100*(1048576+20480))
	about(t, "full", f.Full, (1048576.0-reserve)/(1000*100)*1000)
	about(t, "covered", f.StallCovered, f.Full-100)
	about(t, "passes", f.Passes, 10)
	// 40,000 records of 250 ns, and 10 passes of 100 µs and 40 looks of 200 ns
	about(t, "busy", f.WriterBusy, 0.01+0.001+0.00008)
	about(t, "writers' share", f.WriterShare, f.WriterBusy/4)
	if f.Writers != 1 {
		t.Errorf("%d writers, want 1", f.Writers)
	}
}

func TestSocketsCostWhatTheirLinesTakeLonger(t *testing.T) {
	one := predict(round, Server{Cores: 64, Sockets: 1, Sessions: 64, RingSize: 1 << 20, Interval: 100, Busy: 0.5})
	two := predict(round, Server{Cores: 64, Sockets: 2, Sessions: 64, RingSize: 1 << 20, Interval: 100, Busy: 0.5})
	// half of the rings are of another socket: 2 lines that take 200 ns longer
	about(t, "backend", two.Backend-one.Backend, 10000*200/1e9)
	about(t, "between", two.Between, 640000*2*64*2*0.5)
	about(t, "capacity", round.capacity(2), 1e9/450)
	// faster sockets than those of the measurement do not make it cheaper
	near := round
	near.RemoteLine = 10
	about(t, "capacity of near sockets", near.capacity(2), 1e9/250)
}

func TestWritersAreAddedUntilEachHasTime(t *testing.T) {
	c := round
	c.Pass, c.Look = 0, 0
	// 7.2 million records of 250 ns: 1.8 cores
	for busy, want := range map[float64]int{0.95: 2, 0.5: 4, 0.1: 18, 0.01: maxWriters} {
		f := predict(c, Server{Cores: 720, Sockets: 1, Sessions: 720, RingSize: 1 << 20, Interval: 100, Busy: busy})
		if f.Writers != want {
			t.Errorf("%d writers that are busy for %g, want %d", f.Writers, busy, want)
		}
	}
}

// A ring that fills before the interval ends is drained when it is half full.
func TestFastSessionsWakeTheWriter(t *testing.T) {
	f := predict(round, Server{Cores: 10, Sockets: 1, Sessions: 10, RingSize: 128 * 1024, Interval: 200, Busy: 0.5})
	about(t, "half full", f.HalfFull, (131072.0-reserve)/2/1e6*1000)
	about(t, "passes", f.Passes, 1000/f.HalfFull)
	about(t, "covered", f.StallCovered, f.HalfFull)
}

func TestRingForCoversTheStall(t *testing.T) {
	s := Server{Cores: 10, Sockets: 1, Sessions: 10, Interval: 200, Busy: 0.5}
	for _, stall := range []float64{0, 10, 100, 200, 1000, 5000} {
		s.RingSize = ringFor(round, s, stall)
		if covered := predict(round, s).StallCovered; covered < stall {
			t.Errorf("a ring of %d bytes covers %.0f ms, not %.0f", s.RingSize, covered, stall)
		}
		if s.RingSize > 16*1024 {
			s.RingSize /= 2
			if covered := predict(round, s).StallCovered; covered >= stall {
				t.Errorf("for %.0f ms, a ring of %d bytes is enough", stall, s.RingSize)
			}
		}
	}
}

func load() Load {
	return Load{Sessions: 100, Writers: 2, Rate: 100000, RingBytes: 100, RingSize: 1 << 17, Interval: 200, Writer: 500, Pass: 200,
		Look: 100, Seconds: 10, Seed: 1}
}

func TestSimulationLosesNothing(t *testing.T) {
	for name, change := range map[string]func(*Load){
		"usual":    func(*Load) {},
		"skewed":   func(l *Load) { l.Skew = 1 },
		"stalled":  func(l *Load) { l.StallAt, l.Stall = 2, 3000 },
		"overload": func(l *Load) { l.Writer = 100000 },
	} {
		l := load()
		change(&l)
		o := simulate(l)
		if o.Arrived != o.Written+o.Left || o.Written == 0 {
			t.Errorf("%s: %.0f records arrived, %.0f were written, %.0f are left", name, o.Arrived, o.Written, o.Left)
		}
		if o.Fullest > 1 {
			t.Errorf("%s: a ring has %.2f of its size", name, o.Fullest)
		}
		if o != simulate(l) {
			t.Errorf("%s: two simulations differ", name)
		}
	}
}

// The utilization of a queue is the rate of arrivals times the time of service.
func TestSimulatedWriterIsAsBusyAsPredicted(t *testing.T) {
	l := load()
	l.Pass, l.Look = 0, 0
	o := simulate(l)
	if want := l.Rate * l.Writer / 1e9 / float64(l.Writers); math.Abs(o.Busy-want) > want/20 {
		t.Errorf("a writer is busy for %.4f, want %.4f", o.Busy, want)
	}
	if o.Waited != 0 {
		t.Errorf("%d sessions have waited", o.Waited)
	}
	// a record waits for the interval and a pass at most
	if o.LongestAge < l.Interval || o.LongestAge > 2*l.Interval {
		t.Errorf("a record was in its ring for %.0f ms", o.LongestAge)
	}
}

// A writer that cannot keep up determines the throughput, and sessions wait for it.
func TestOverloadedWriterDeterminesTheThroughput(t *testing.T) {
	l := load()
	l.Writers, l.Writer, l.Pass, l.Look, l.Seconds = 1, 20000, 0, 0, 60
	o := simulate(l)
	if want := 1e9 / l.Writer * l.Seconds; math.Abs(o.Written-want) > want/10 {
		t.Errorf("%.0f records were written, want about %.0f", o.Written, want)
	}
	if o.Waited != l.Sessions || o.WaitShare < 0.3 {
		t.Errorf("%d sessions have waited, for %.2f of the time", o.Waited, o.WaitShare)
	}
}

// Without being woken, the writer would leave the sessions waiting for most of ten seconds.
func TestHalfFullRingWakesTheWriter(t *testing.T) {
	l := load()
	l.Interval, l.Seconds = 10000, 20
	if o := simulate(l); o.Waited != 0 || o.Fullest < 0.5 || o.Fullest > 0.6 {
		t.Errorf("%d sessions wait, and the fullest ring has %.2f", o.Waited, o.Fullest)
	}
}

// Each session fills 1,254 records of its ring at 1,000 per second: 1.25 s, of which the interval is 0.2.
func TestStallsShorterThanTheRingAreNotNoticed(t *testing.T) {
	l := load()
	l.StallAt = 1
	l.Stall = 900
	if o := simulate(l); o.Waited != 0 || o.Fullest < 0.7 {
		t.Errorf("%d sessions wait during a short stall, and the fullest ring has %.2f", o.Waited, o.Fullest)
	}
	l.Stall = 1500
	o := simulate(l)
	if o.Waited != l.Sessions || o.Fullest != 1 {
		t.Errorf("%d sessions wait during a long stall, and the fullest ring has %.2f", o.Waited, o.Fullest)
	}
	// the time that the rings do not cover, at least 0.25 s and at most 0.45 s of 10
	if o.WaitShare < 0.02 || o.WaitShare > 0.05 {
		t.Errorf("they wait for %.4f of the time", o.WaitShare)
	}
}

// run prints a forecast with changed options.
func run(change func(*Options)) (string, error) {
	var out bytes.Buffer
	o := New(measure.Environment{IO: &iostreams.IOStreams{Out: &out}})
	o.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	o.Cores, o.Seconds = []int{2, 64}, 2
	change(o)
	if err := o.Complete(func(string) bool { return false }); err != nil {
		return "", err
	}
	err := o.Run(context.Background())
	return out.String(), err
}

func TestOutput(t *testing.T) {
	out, err := run(func(*Options) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Forecast, not a measurement", "between sockets", "stops for 500 ms"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	out, err = run(func(o *Options) { o.Format, o.Stall = "json", 0 })
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Servers []struct{ Cores, Writers int }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Servers) != 2 || got.Servers[1].Cores != 64 ||
		got.Servers[1].Writers < 1 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"workload":  func(o *Options) { o.Workload = "other" },
		"no cores":  func(o *Options) { o.Cores = []int{0} },
		"ring size": func(o *Options) { o.RingSize = 100 },
		"busy":      func(o *Options) { o.Busy = 0 },
		"stall":     func(o *Options) { o.Stall = 5000 },
	} {
		if _, err := run(change); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDocumentHasTheForecast(t *testing.T) {
	page, err := os.ReadFile("../../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, workload := range workloadNames() {
		out, err := run(func(o *Options) { o.Workload, o.Cores, o.Stall = workload, []int{2, 8, 64, 192}, 0 })
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			if line != "\n" && !strings.Contains(string(page), "    "+line) {
				t.Errorf("docs/scaling.md does not have, for %s: %s", workload, line)
			}
		}
	}
}
