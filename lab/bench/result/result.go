// Package result is the result of a benchmark: the raw samples, the figures calculated from them, and how to show
// these. A bench fills in a Result; the same value is then archived (result.json, samples.csv), printed as a table on
// a terminal, drawn as a page (package report), and compared with another run.
package result

import (
	"archive/tar"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/machine"
	"github.com/pg-steno/pg_steno/lab/stats"
)

// Version is the version of the file format. Readers refuse newer ones.
const Version = 1

// Result is one run of a bench.
type Result struct {
	Version  int             `json:"version"`
	Bench    string          `json:"bench"` // overhead, logging, ipc, replication, commands, clock
	Title    string          `json:"title"` // for people: what was compared
	Time     time.Time       `json:"time"`
	Command  string          `json:"command"`
	Steno    string          `json:"steno"`
	Postgres string          `json:"postgres,omitempty"` // "PostgreSQL 15.20 (Debian ...)"
	Machine  machine.Machine `json:"machine"`
	// Busy is the other load of the machine meanwhile.
	Busy machine.Busy `json:"busy"`
	// Settings are those of all servers; further ones of a case are in its value.
	Settings []cluster.Setting `json:"settings,omitempty"`
	// Parameters of the run for people: rounds, seconds of a slice, scale.
	Parameters []Parameter `json:"parameters"`
	// Dimensions are what was varied, in the order of importance.
	Dimensions []Dimension `json:"dimensions"`
	Metrics    []Metric    `json:"metrics"`
	// Bases are what cases are compared with, at most one for each dimension. A case is compared with the base of a
	// dimension that it has.
	Bases    []Base    `json:"bases,omitempty"`
	Measures []Measure `json:"measures"`
	Tables   []Table   `json:"tables"`
	Charts   []Chart   `json:"charts"`
	// Skipped are combinations that were not run, with the reason.
	Skipped []Skipped `json:"skipped,omitempty"`
	// Notes are findings and limitations of the measurement, a few sentences each.
	Notes []string `json:"notes,omitempty"`
	// CPU has the CPU samples, if there are any.
	CPU *CPUSamples `json:"cpu_samples,omitempty"`

	// Samples are the raw data, in the order in which they were taken. They are
	// in samples.csv, not in result.json.
	Samples []Sample `json:"-"`
}

// Parameter is a fact about the run.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Dimension is a parameter that was varied.
type Dimension struct {
	Name   string  `json:"name"`  // in cases and files: clients
	Title  string  `json:"title"` // for people: clients
	Values []Value `json:"values"`
}

// Value is one value of a dimension.
type Value struct {
	Name     string            `json:"name"`
	Title    string            `json:"title"`
	Settings []cluster.Setting `json:"settings,omitempty"`
}

// Base is the value of a dimension that the cases with its other values are
// compared with. Summarize sets it.
type Base struct {
	Dimension string `json:"dimension"`
	Value     string `json:"value"`
}

// Metric is a measured quantity.
type Metric struct {
	Name  string `json:"name"`  // tps
	Title string `json:"title"` // transactions per second
	Unit  string `json:"unit"`  // 1/s, ms, µs, B, %, or empty for a count or a ratio
	// Better is higher or lower; empty if neither is better.
	Better string `json:"better,omitempty"`
}

// Case is a combination: the name of a value for each dimension. A case that lacks a dimension applies to all of its
// values.
type Case map[string]string

// Measure is a figure of a case, calculated from samples.
type Measure struct {
	Case   Case           `json:"case"`
	Metric string         `json:"metric"`
	Value  stats.Estimate `json:"value"`
	// Ratio is the value against the base's, paired within rounds.
	Ratio *stats.Estimate `json:"ratio,omitempty"`
	// Published has published figures: ratios of the same kind if Ratio is set, values otherwise.
	Published []Published `json:"published,omitempty"`
}

// Published is a figure that others have published.
type Published struct {
	Value      float64 `json:"value"`
	IsRatio    bool    `json:"is_ratio"`
	Source     string  `json:"source"`     // who, when
	Conditions string  `json:"conditions"` // version, machine, clients
}

// Table shows measures: one row for each combination of values of Rows, and the
// columns.
type Table struct {
	Title   string   `json:"title"`
	Rows    []string `json:"rows"` // dimensions
	Columns []Column `json:"columns"`
	Where   Case     `json:"where,omitempty"`
	// Bar is the index of the column that is drawn as a bar on a terminal; -1
	// for none.
	Bar int `json:"bar"`
}

// Column is a metric, or with Dimension one column for each of its values.
type Column struct {
	Metric string `json:"metric"`
	Ratio  bool   `json:"ratio,omitempty"` // show Ratio instead of Value
	// Published shows the published figures of the same kind beside the
	// measured ones, or alone when another column has the measured ones.
	Published bool   `json:"published,omitempty"`
	Dimension string `json:"dimension,omitempty"`
}

// Chart draws a metric.
type Chart struct {
	Title  string `json:"title"`
	Kind   string `json:"kind"` // bars or lines
	Metric string `json:"metric"`
	Ratio  bool   `json:"ratio,omitempty"`
	X      string `json:"x"`                // dimension along the axis (of bars: one group each)
	Series string `json:"series,omitempty"` // dimension shown by color
	Where  Case   `json:"where,omitempty"`
	Log    bool   `json:"log,omitempty"` // logarithmic axis of values
	Note   string `json:"note,omitempty"`
}

// Skipped is a case that was not run.
type Skipped struct {
	Case   Case   `json:"case"`
	Reason string `json:"reason"`
}

// Sample is one raw figure. Round pairs samples that were taken close to each
// other; Position is the place within it.
type Sample struct {
	Round, Position int
	Case            Case
	Metric          string
	Value           float64
}

const (
	resultFile  = "result.json"
	samplesFile = "samples.csv"
)

// New begins a result.
func New(bench, title, command, version string) *Result {
	return &Result{
		Version: Version, Bench: bench, Title: title, Time: time.Now().UTC().Truncate(time.Second),
		Command: command, Steno: version, Machine: machine.Local(),
	}
}

// Write archives the result in a folder, which is created.
func (r *Result) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, resultFile), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return r.writeSamples(filepath.Join(dir, samplesFile))
}

// Read reads an archived result, without its samples.
func Read(dir string) (*Result, error) {
	path := filepath.Join(dir, resultFile)
	text, err := ReadFile(dir, resultFile)
	if err != nil {
		return nil, err
	}
	var r Result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("cannot read \"%s\": %w", path, err)
	}
	if r.Version > Version {
		return nil, fmt.Errorf("\"%s\" has version %d; this program reads versions up to %d", path, r.Version, Version)
	}
	return &r, nil
}

// packedFile is the raw data of archived runs that were made together.
const packedFile = "raw.tar.zst"

// ReadFile reads a file of a run's folder. Runs that are packed are read from the
// archive: the folder "runs/today/select" is "select/" in runs/today/raw.tar.zst.
func ReadFile(dir, name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	dir, absErr := filepath.Abs(dir)
	if absErr != nil {
		return nil, err
	}
	packed, packedErr := readPacked(filepath.Join(filepath.Dir(dir), packedFile), path.Join(filepath.Base(dir), name))
	if errors.Is(packedErr, fs.ErrNotExist) {
		return nil, err
	}
	return packed, packedErr
}

// readPacked reads a member of an archive.
func readPacked(archive, member string) ([]byte, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if err == io.EOF {
			return nil, &fs.PathError{Op: "read", Path: member, Err: fs.ErrNotExist}
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: archive, Err: err}
		}
		if path.Clean(header.Name) == member {
			return io.ReadAll(r)
		}
	}
}

// Add adds a raw figure.
func (r *Result) Add(round, position int, c Case, metric string, value float64) {
	r.Samples = append(r.Samples, Sample{round, position, maps.Clone(c), metric, value})
}

// With returns the case with the value of one dimension set.
func (c Case) With(dimension, value string) Case {
	d := maps.Clone(c)
	if d == nil {
		d = Case{}
	}
	d[dimension] = value
	return d
}

// Matches reports whether the case has all values of another.
func (c Case) Matches(where Case) bool {
	for dimension, value := range where {
		if c[dimension] != value {
			return false
		}
	}
	return true
}

func (c Case) key() string {
	var b strings.Builder
	for _, dimension := range slices.Sorted(maps.Keys(c)) {
		b.WriteString(dimension + "\x00" + c[dimension] + "\x01")
	}
	return b.String()
}

// Summarize calculates the measures from the samples: for each case and metric, the median, and its ratio to the case
// that differs only in having the base's value of the dimension, from samples of the same round. If dimension is
// empty, there are no ratios.
func (r *Result) Summarize(dimension, base string) {
	type series struct {
		c      Case
		metric string
		values []float64
		rounds map[int]float64
	}
	if dimension != "" {
		r.Bases = append(r.Bases, Base{dimension, base})
	}
	all := map[string]*series{}
	var order []*series
	for _, s := range r.Samples {
		k := s.Case.key() + s.Metric
		x := all[k]
		if x == nil {
			x = &series{c: s.Case, metric: s.Metric, rounds: map[int]float64{}}
			all[k] = x
			order = append(order, x)
		}
		x.values = append(x.values, s.Value)
		x.rounds[s.Round] = s.Value
	}
	for _, x := range order {
		m := Measure{Case: x.c, Metric: x.metric, Value: stats.NewEstimate(x.values)}
		if dimension != "" && x.c[dimension] != base {
			if b := all[x.c.With(dimension, base).key()+x.metric]; b != nil {
				var ratios []float64
				for _, round := range slices.Sorted(maps.Keys(x.rounds)) {
					if v, ok := b.rounds[round]; ok && v != 0 {
						ratios = append(ratios, x.rounds[round]/v)
					}
				}
				if len(ratios) > 0 {
					e := stats.NewEstimate(ratios)
					m.Ratio = &e
				}
			}
		}
		r.Measures = append(r.Measures, m)
	}
}

// Parameter returns a fact about the run by its name; "" if there is none.
func (r *Result) Parameter(name string) string {
	for _, p := range r.Parameters {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Find returns the measure of a case, or nil.
func (r *Result) Find(c Case, metric string) *Measure {
	for i := range r.Measures {
		m := &r.Measures[i]
		if m.Metric == metric && len(m.Case) == len(c) && m.Case.Matches(c) {
			return m
		}
	}
	return nil
}

func (r *Result) writeSamples(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := csv.NewWriter(f)
	header := []string{"round", "position"}
	for _, d := range r.Dimensions {
		header = append(header, d.Name)
	}
	_ = w.Write(append(header, "metric", "value"))
	for _, s := range r.Samples {
		line := []string{strconv.Itoa(s.Round), strconv.Itoa(s.Position)}
		for _, d := range r.Dimensions {
			line = append(line, s.Case[d.Name])
		}
		_ = w.Write(append(line, s.Metric, strconv.FormatFloat(s.Value, 'g', 8, 64)))
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return f.Close()
}
