// Information about the machine's clock: pg_test_timing's report, the cost of a system call, and the kernel's clock
// source.

package clock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pg-steno/pg_steno/lab/cluster"
)

// timing is the report of pg_test_timing.
type timing struct {
	loop float64 // nanoseconds between two readings
	// buckets are its histogram: readings that differ from the previous one by less than this many nanoseconds.
	buckets []bucket
}

type bucket struct {
	below   float64 // ns
	percent float64
}

var (
	loopLine = regexp.MustCompile(`(?m)^(?:Per|Average) loop time including overhead: ([0-9.]+) ns`)
	unitLine = regexp.MustCompile(`(?m)^\s*<=?\s*([mun]s)\s`)
	// a count may follow, and another percentage may precede it
	bucketLine = regexp.MustCompile(`^\s*(\d+)\s+(\d+\.\d+)(?:\s+\d+\.\d+)?\s+(\d+)\s*$`)
)

// parseTiming parses the report. Versions before 19 count in microseconds, later ones in nanoseconds; they also list
// exact values below the histogram, which are ignored.
func parseTiming(report string) (t timing, err error) {
	loop := loopLine.FindStringSubmatch(report)
	if loop == nil {
		return t, fmt.Errorf("cannot read pg_test_timing's report:\n%s", report)
	}
	t.loop, err = strconv.ParseFloat(loop[1], 64)
	if err != nil || t.loop <= 0 {
		return t, fmt.Errorf("cannot read pg_test_timing's report:\n%s", report)
	}
	unit := 1000.0
	if m := unitLine.FindStringSubmatch(report); m != nil && m[1] == "ns" {
		unit = 1
	}
	report, _, _ = strings.Cut(report, "\nObserved timing durations")
	for line := range strings.Lines(report) {
		m := bucketLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		below, err1 := strconv.ParseFloat(m[1], 64)
		percent, err2 := strconv.ParseFloat(m[2], 64)
		if err1 == nil && err2 == nil {
			t.buckets = append(t.buckets, bucket{below * unit, percent})
		}
	}
	return t, nil
}

// slow returns the share of readings, in per cent, that took longer than a microsecond, because the process was
// interrupted or the clock is slow.
func (t timing) slow() float64 {
	const micro = 1024 // ns: the nearest bound of a bucket
	var sum float64
	for _, b := range t.buckets {
		if b.below > micro {
			sum += b.percent
		}
	}
	return sum
}

// testTiming runs pg_test_timing for one second.
func testTiming(ctx context.Context, installation *cluster.Installation) (timing, error) {
	cmd := installation.Client(ctx, "pg_test_timing", "--duration=1")
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return timing{}, ctx.Err()
	}
	if err != nil {
		return timing{}, fmt.Errorf("pg_test_timing: %w", err)
	}
	return parseTiming(string(out))
}

// systemCall returns the cost in nanoseconds of a reading with a system call. With a clock source that programs cannot
// read directly, every reading needs one.
func systemCall() float64 {
	const readings = 200_000
	var ts unix.Timespec
	start := time.Now()
	for range readings {
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	}
	return float64(time.Since(start).Nanoseconds()) / readings
}

// source is the kernel's clock source.
type source struct {
	current   string
	available []string
}

const sourceDir = "/sys/devices/system/clocksource/clocksource0"

func readSource(dir string) source {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(text))
	}
	return source{read("current_clocksource"), strings.Fields(read("available_clocksource"))}
}

// advice returns what to do about a clock source that is read with a system call or from a device.
func (s source) advice() string {
	switch s.current {
	case "":
		return "The kernel does not report which clock source it uses."
	case "tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page":
		return fmt.Sprintf("The clock source is %s, which programs read without a system call.", s.current)
	}
	text := fmt.Sprintf("The clock source is %s: every reading needs a system call, or an access to a device.",
		s.current)
	for _, better := range []string{"tsc", "kvm-clock"} {
		for _, name := range s.available {
			if name == better {
				return text + fmt.Sprintf(" The kernel offers %s: \"echo %s > %s/current_clocksource\" changes it "+
					"until the next boot, the kernel parameter clocksource=%s permanently. If the kernel itself has "+
					"rejected it (\"dmesg | grep -i clocksource\" shows that), it is not reliable here.",
					better, better, sourceDir, better)
			}
		}
	}
	return text
}
