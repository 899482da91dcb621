package compare

import (
	"fmt"
	"io"

	"github.com/pg-steno/pg_steno/internal/lab/bench/report"
)

// Text shows a comparison to a person: what differs between the runs, then the
// figures that have changed, or all.
func (c *Comparison) Text(w io.Writer, t report.Terminal, all bool) {
	for i, s := range []Side{c.A, c.B} {
		t.Wrap(w, string(rune('A'+i))+"  ", fmt.Sprintf("%s: %s, %s", s.Name, s.Title, s.Time))
		if s.Warning != "" {
			t.Wrap(w, "   ", s.Warning)
		}
	}
	c.differences(w, t)
	fmt.Fprintln(w)
	t.Wrap(w, "", c.sentence())
	for i := range c.Figures {
		if f := &c.Figures[i]; f.Changed() || all {
			if i == 0 {
				fmt.Fprintln(w)
			}
			c.figure(w, t, f)
		}
	}
	for i, only := range [][]string{c.OnlyA, c.OnlyB} {
		if len(only) > 0 {
			fmt.Fprintf(w, "\n%s\n", t.Strong("Only in "+string(rune('A'+i))))
			for _, name := range only {
				t.Wrap(w, "- ", name)
			}
		}
	}
	fmt.Fprintln(w)
	t.Wrap(w, "", c.Rule)
}

func (c *Comparison) differences(w io.Writer, t report.Terminal) {
	if len(c.Differences) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", t.Strong("Other differences"))
	shown := func(s string) string {
		if s == "" {
			return "(none)"
		}
		return s
	}
	for _, d := range c.Differences {
		t.Wrap(w, "- ", fmt.Sprintf("%s: %s → %s", d.What, shown(d.A), shown(d.B)))
	}
}

// sentence sums up.
func (c *Comparison) sentence() string {
	judged := len(c.Figures) - c.Few
	few := ""
	if c.Few > 0 {
		few = fmt.Sprintf("; %d more with too few samples", c.Few)
	}
	switch {
	case len(c.Figures) == 0:
		return "The two results have no figures in common."
	case judged == 0:
		return "No figure has enough samples to say whether it changed."
	case c.Changed == 0:
		return fmt.Sprintf("Nothing changed beyond noise: %s%s.", plural(judged, "figure"), few)
	default:
		return fmt.Sprintf("%d of %s changed beyond noise from A to B%s.", c.Changed, plural(judged, "figure"), few)
	}
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

const (
	green = "\x1b[32m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

// figure writes two lines: the change and what it is of, and both estimates.
func (c *Comparison) figure(w io.Writer, t report.Terminal, f *Figure) {
	change := "-"
	if f.Change != nil {
		change = "×" + report.Ratio(*f.Change)
	}
	verdict := fmt.Sprintf("%-6s", map[string]string{Same: "noise", Few: "?"}[f.Verdict])
	if f.Changed() {
		verdict = fmt.Sprintf("%-6s", f.Verdict)
	}
	if color := map[string]string{Better: green, Worse: red}[f.Verdict]; t.Color && color != "" {
		verdict = color + verdict + reset
	}
	fmt.Fprintf(w, "%s %s %s\n", pad(change, 8), verdict, f.Title)
	fmt.Fprintf(w, "                %s → %s\n", report.Figure(f.A, f.Ratio), report.Figure(f.B, f.Ratio))
}

func pad(s string, width int) string {
	for n := len([]rune(s)); n < width; n++ {
		s = " " + s
	}
	return s
}
