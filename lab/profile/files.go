// The files of a profile: folded stacks, pprof, and the report.

package profile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/pg-steno/pg_steno/lab/perf"
)

// writeFiles writes all files to a folder.
func writeFiles(dir string, r *Report, p *Profile) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"profile.json", func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(r)
		}},
		{"flame.html", func(w io.Writer) error { return writeFlame(w, r, p) }},
		{"folded.txt", func(w io.Writer) error { return writeFolded(w, p) }},
		{"profile.pb.gz", func(w io.Writer) error { return writePprof(w, p) }},
	} {
		if err := writeFile(filepath.Join(dir, file.name), file.write); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(write(w), w.Flush(), f.Close())
}

// labels returns a stack's functions, the outermost first, preceded by the kind of process and, for waits, by the kind
// of wait.
func labels(s *Stack) []string {
	list := []string{s.Process}
	for i := len(s.Frames) - 1; i >= 0; i-- {
		list = append(list, label(s.Frames[i]))
	}
	switch {
	case s.Wait != "":
		list = append(list, "wait event "+s.Wait)
	case s.Preempt:
		list = append(list, "preempted")
	}
	return list
}

// label returns the displayed name of a function; if it has no name, that of its file.
func label(f perf.Frame) string {
	if f.Symbol == "[unknown]" || f.Symbol == "" {
		return "[" + strings.Trim(path.Base(f.Object), "[]") + "]"
	}
	return name(f)
}

// writeFolded writes a line for each stack in the format that flamegraph.pl and others read: functions separated by
// semicolons, then milliseconds. Waits have a root of their own.
func writeFolded(w io.Writer, p *Profile) error {
	for _, s := range p.sorted() {
		ms := int64(math.Round(1000 * s.Seconds))
		if ms == 0 {
			continue
		}
		root := "CPU"
		if s.Waiting {
			root = "waiting"
		}
		list := append([]string{root}, labels(s)...)
		for i, l := range list {
			list[i] = strings.ReplaceAll(l, ";", ":")
		}
		if _, err := fmt.Fprintf(w, "%s %d\n", strings.Join(list, ";"), ms); err != nil {
			return err
		}
	}
	return nil
}

// writePprof writes the profile in pprof's format: for each stack samples, time
// on a processor, and time of waiting.
func writePprof(w io.Writer, p *Profile) error {
	b := pprofBuilder{functions: map[perf.Frame]*profile.Location{}, mappings: map[string]*profile.Mapping{}}
	b.SampleType = []*profile.ValueType{
		{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}, {Type: "waiting", Unit: "nanoseconds"},
	}
	b.DefaultSampleType = "cpu"
	b.DurationNanos = int64(p.CPUSeconds * float64(time.Second))
	for _, s := range p.sorted() {
		value := []int64{int64(s.Samples), int64(s.Seconds * float64(time.Second)), 0}
		if s.Waiting {
			value[1], value[2] = 0, value[1]
		}
		sample := &profile.Sample{Value: value, Label: map[string][]string{"process": {s.Process},
			"cause": {s.cause.ID}}}
		if s.Wait != "" {
			sample.Label["wait_event"] = []string{s.Wait}
			sample.Location = append(sample.Location, b.location(perf.Frame{Symbol: "wait event " + s.Wait,
				Object: "[wait event]"}))
		}
		for _, f := range s.Frames {
			sample.Location = append(sample.Location, b.location(f))
		}
		sample.Location = append(sample.Location, b.location(perf.Frame{Symbol: s.Process, Object: "[process]"}))
		b.Sample = append(b.Sample, sample)
	}
	if err := b.CheckValid(); err != nil {
		return err
	}
	return b.Write(w)
}

type pprofBuilder struct {
	profile.Profile
	functions map[perf.Frame]*profile.Location
	mappings  map[string]*profile.Mapping
}

// location returns the location of a function, which is created if it is new.
func (b *pprofBuilder) location(f perf.Frame) *profile.Location {
	f.Symbol = label(f)
	if l := b.functions[f]; l != nil {
		return l
	}
	m := b.mappings[f.Object]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(b.Mapping) + 1), File: f.Object, HasFunctions: true}
		b.mappings[f.Object] = m
		b.Mapping = append(b.Mapping, m)
	}
	id := uint64(len(b.Function) + 1)
	function := &profile.Function{ID: id, Name: f.Symbol, SystemName: f.Symbol, Filename: f.Object}
	l := &profile.Location{ID: id, Mapping: m, Line: []profile.Line{{Function: function}}}
	b.Function = append(b.Function, function)
	b.Location = append(b.Location, l)
	b.functions[f] = l
	return l
}
