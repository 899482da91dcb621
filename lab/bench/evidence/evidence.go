// Package evidence generates docs/evidence.md, which compares published analyses with archived runs of the laboratory.
// Its text is page.tmpl; every measured figure in it is looked up in a run, by metric and case, so that the document
// cannot differ from its source.
package evidence

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/bench/report"
	"github.com/pg-steno/pg_steno/lab/bench/result"
	"github.com/pg-steno/pg_steno/lab/profile"
	"github.com/pg-steno/pg_steno/lab/stats"
)

//go:embed page.tmpl
var page string

// Page returns the document. The argument is the directory of archived runs, such as bench/runs.
func Page(runs string) (string, error) { return render(runs, page) }

func render(runs, text string) (string, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"list":     func(items ...string) []string { return items },
		"run":      func(name string) (*Run, error) { return readRun(filepath.Join(runs, name)) },
		"profile":  func(name string) (*Profile, error) { return readProfile(filepath.Join(runs, name)) },
		"overhead": func(name string) (*Overhead, error) { return readOverhead(filepath.Join(runs, name)) },
		"of":       of,
		"quotient": func(a, b int) string { return report.Ratio(float64(a) / float64(b)) },
	}).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return "", err
	}
	return blankLines.ReplaceAllString(b.String(), "\n\n"), nil
}

// blankLines matches the blank lines that omitted sections leave.
var blankLines = regexp.MustCompile(`\n{3,}`)

// of formats a published figure with its ratio to another: "192,413 (0.921)".
func of(figure, base int) string {
	return report.Number(float64(figure)) + " (" + report.Ratio(float64(figure)/float64(base)) + ")"
}

// Run is an archived result.
type Run struct {
	*result.Result
	names report.Names
}

// readRun returns nil if there is no such run, so that a template can omit a section.
func readRun(dir string) (*Run, error) {
	r, err := result.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Run{r, report.NamesOf(r)}, nil
}

// parseCase parses "variant=both clients=16". A value may contain spaces: "event=IPC: SyncRep clients=16".
func parseCase(text string) (result.Case, error) {
	c, last := result.Case{}, ""
	for _, field := range strings.Fields(text) {
		name, value, ok := strings.Cut(field, "=")
		switch {
		case ok:
			c[name], last = value, name
		case last != "":
			c[last] += " " + field
		default:
			return nil, fmt.Errorf("\"%s\" is not of the form dimension=value", field)
		}
	}
	return c, nil
}

// find returns the measure of the case that has these values and the fewest others. It must be unique, so that no
// figure is chosen arbitrarily.
func (r *Run) find(metric, where string) (*result.Measure, error) {
	c, err := parseCase(where)
	if err != nil {
		return nil, err
	}
	var found []*result.Measure
	for i := range r.Measures {
		m := &r.Measures[i]
		if m.Metric != metric || !m.Case.Matches(c) {
			continue
		}
		if len(found) > 0 && len(m.Case) < len(found[0].Case) {
			found = nil
		}
		if len(found) == 0 || len(m.Case) == len(found[0].Case) {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("%s: no %s of \"%s\"", r.Bench, metric, where)
	}
	return nil, fmt.Errorf("%s: \"%s\" matches several of %s: %s", r.Bench, where, metric,
		strings.Join(r.names.Cases([]result.Case{found[0].Case, found[1].Case}), "; "))
}

func (r *Run) ratio(metric, where string) (stats.Estimate, error) {
	m, err := r.find(metric, where)
	if err != nil {
		return stats.Estimate{}, err
	}
	if m.Ratio == nil {
		return stats.Estimate{}, fmt.Errorf("%s: %s of \"%s\" has no ratio", r.Bench, metric, where)
	}
	return *m.Ratio, nil
}

// Value returns a figure with its interval: "12,345 [11,000, 13,000]".
func (r *Run) Value(metric, where string) (string, error) {
	m, err := r.find(metric, where)
	if err != nil {
		return "", err
	}
	return report.Figure(m.Value, false), nil
}

// Ratio returns the ratio of a figure to that of its base, with its interval: "0.686 [0.660, 0.742]".
func (r *Run) Ratio(metric, where string) (string, error) {
	e, err := r.ratio(metric, where)
	if err != nil {
		return "", err
	}
	return report.Figure(e, true), nil
}

// Plain returns the median of a figure with its interval in words, rounded to this number of decimals: "12.3 (11.0 to
// 13.5)".
func (r *Run) Plain(digits int, metric, where string) (string, error) {
	m, err := r.find(metric, where)
	if err != nil {
		return "", err
	}
	return plain(digits, m.Value), nil
}

// Times returns a ratio in words: "1.8 (1.5 to 2.1)".
func (r *Run) Times(digits int, metric, where string) (string, error) {
	e, err := r.ratio(metric, where)
	if err != nil {
		return "", err
	}
	return plain(digits, e), nil
}

func plain(digits int, e stats.Estimate) string {
	if e.N < 2 {
		return fmt.Sprintf("%.*f", digits, e.Median)
	}
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, e.Median, digits, e.Low, digits, e.High)
}

// Kept returns a ratio in words, in per cent: "59 % (55 to 62)".
func (r *Run) Kept(metric, where string) (string, error) {
	e, err := r.ratio(metric, where)
	if err != nil {
		return "", err
	}
	if e.N < 2 {
		return fmt.Sprintf("%.0f %%", 100*e.Median), nil
	}
	return fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*e.Median, 100*e.Low, 100*e.High), nil
}

// Median returns the median of a figure as a number, for arithmetic.
func (r *Run) Median(metric, where string) (float64, error) {
	m, err := r.find(metric, where)
	if err != nil {
		return 0, err
	}
	return m.Value.Median, nil
}

// Quotient returns the median of one case divided by that of another, for pairs without a ratio within rounds: "3.2".
func (r *Run) Quotient(digits int, metric, where, to string) (string, error) {
	a, err := r.Median(metric, where)
	if err != nil {
		return "", err
	}
	b, err := r.Median(metric, to)
	if err != nil {
		return "", err
	}
	if b == 0 {
		return "", fmt.Errorf("%s: %s of \"%s\" is 0", r.Bench, metric, to)
	}
	return fmt.Sprintf("%.*f", digits, a/b), nil
}

// Title returns the title of a dimension's value.
func (r *Run) Title(dimension, value string) (string, error) {
	for _, d := range r.Dimensions {
		for _, v := range d.Values {
			if d.Name == dimension && v.Name == value {
				return v.Title, nil
			}
		}
	}
	return "", fmt.Errorf("%s: %s has no value \"%s\"", r.Bench, dimension, value)
}

// Parameter returns a parameter of the run.
func (r *Run) Parameter(name string) (string, error) {
	for _, p := range r.Parameters {
		if p.Name == name {
			return p.Value, nil
		}
	}
	return "", fmt.Errorf("%s: no parameter \"%s\"", r.Bench, name)
}

// Overhead is an archived run of "steno bench overhead".
type Overhead struct {
	*result.Result
}

// readOverhead returns nil if there is no such run.
func readOverhead(dir string) (*Overhead, error) {
	r, err := bench.ReadResult(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Overhead{r}, nil
}

// Kept returns the share of the throughput that a variant keeps, with its interval.
func (o *Overhead) Kept(variant string) (string, error) {
	if m := o.Find(result.Case{"variant": variant}, "tps"); m != nil && m.Ratio != nil {
		return report.Figure(*m.Ratio, true), nil
	}
	return "", fmt.Errorf("overhead: no ratio of \"%s\"", variant)
}

// Shares returns the smallest and the largest share of CPU samples in the extension: "1.7 to 1.8 %".
func (o *Overhead) Shares() (string, error) {
	if o.CPU == nil || len(o.CPU.Runs) == 0 {
		return "", errors.New("overhead: no CPU samples")
	}
	low, high := o.CPU.Spread()
	return fmt.Sprintf("%.1f to %.1f %%", low, high), nil
}

// Profile is an archived profile.
type Profile struct {
	profile.Report
}

// readProfile returns nil if there is no such profile.
func readProfile(dir string) (*Profile, error) {
	path := filepath.Join(dir, "profile.json")
	text, err := result.ReadFile(dir, "profile.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &Profile{}
	if err := json.Unmarshal(text, &p.Report); err != nil {
		return nil, fmt.Errorf("cannot read \"%s\": %w", path, err)
	}
	return p, nil
}

// Share returns a cause's share of the time.
func (p *Profile) Share(id string) (profile.Share, error) {
	known := map[string]bool{}
	for _, s := range p.Causes {
		if s.ID == id {
			return s, nil
		}
		known[s.ID] = true
	}
	return profile.Share{}, fmt.Errorf("profile: no cause \"%s\"; there are %s", id,
		strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

// Active returns the total share of several causes in the active time, in per cent.
func (p *Profile) Active(ids ...string) (float64, error) {
	sum := 0.0
	for _, id := range ids {
		share, err := p.Share(id)
		if err != nil {
			return 0, err
		}
		sum += share.Active
	}
	return sum, nil
}
