// Package result is what every laboratory bench produces: the raw samples, the
// figures made from them, and how they are best shown. A bench fills in a
// Result; the same value is then archived (result.json, samples.csv), printed as
// a table on a terminal, drawn as a page (package report), and compared with
// another run.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pg-steno/pg_steno/internal/lab/cluster"
	"github.com/pg-steno/pg_steno/internal/lab/machine"
	"github.com/pg-steno/pg_steno/internal/lab/stats"
)

// Version is that of the files' form. Readers refuse newer ones.
const Version = 1

// Result is one run of a bench.
type Result struct {
	Version  int             `json:"version"`
	Bench    string          `json:"bench"` // logging, ipc, replication, commands, clock
	Title    string          `json:"title"` // for people: what was compared
	Time     time.Time       `json:"time"`
	Command  string          `json:"command"`
	Steno    string          `json:"steno"`
	Postgres string          `json:"postgres,omitempty"` // "PostgreSQL 15.20 (Debian ...)"
	Machine  machine.Machine `json:"machine"`
	// Busy says what else the machine did meanwhile.
	Busy machine.Busy `json:"busy"`
	// Settings are those of every server; a case's own are in its value.
	Settings []cluster.Setting `json:"settings,omitempty"`
	// Parameters of the run for people: rounds, seconds of a slice, scale.
	Parameters []Parameter `json:"parameters"`
	// Dimensions are what was varied, in the order of importance.
	Dimensions []Dimension `json:"dimensions"`
	Metrics    []Metric    `json:"metrics"`
	// Bases are what ratios are to, at most one for each dimension. A case is
	// compared with the base of a dimension that it has.
	Bases    []Base    `json:"bases,omitempty"`
	Measures []Measure `json:"measures"`
	Tables   []Table   `json:"tables"`
	Charts   []Chart   `json:"charts"`
	// Skipped are combinations that were not run, with the reason.
	Skipped []Skipped `json:"skipped,omitempty"`
	// Notes are findings and limits, a sentence or a few each, made from what
	// was measured.
	Notes []string `json:"notes,omitempty"`

	// Samples are the raw data, in the order in which they were taken. They are
	// in samples.csv, not in result.json.
	Samples []Sample `json:"-"`
}

// Parameter is a fact about the run.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Dimension is one thing that was varied.
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

// Metric is what was measured of a case.
type Metric struct {
	Name  string `json:"name"`  // tps
	Title string `json:"title"` // transactions per second
	Unit  string `json:"unit"`  // 1/s, ms, µs, B, %, or empty for a count or a ratio
	// Better is higher or lower; empty where neither is better.
	Better string `json:"better,omitempty"`
}

// Case is one combination: a value's name for each dimension's. A case that
// lacks a dimension is about all of its values.
type Case map[string]string

// Measure is a figure of a case, made from samples.
type Measure struct {
	Case   Case           `json:"case"`
	Metric string         `json:"metric"`
	Value  stats.Estimate `json:"value"`
	// Ratio is the value against the base's, paired within rounds.
	Ratio *stats.Estimate `json:"ratio,omitempty"`
	// Published is what somebody else has found, as a ratio of the same kind
	// when Ratio is set, as a value otherwise.
	Published []Published `json:"published,omitempty"`
}

// Published is somebody else's figure.
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
	Series string `json:"series,omitempty"` // dimension told apart by colour
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
		Command: command, Steno: version, Machine: machine.This(),
	}
}

// Write archives the result in a folder, which is made.
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
