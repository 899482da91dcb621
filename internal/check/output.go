// One line for people and Nagios, JSON, and Prometheus.

package check

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/render"
)

// WriteText writes one line: the verdict, what is wrong, and numbers behind a bar, as Nagios reads them. With all, a
// line for each item follows.
func (r *Result) WriteText(out io.Writer, all bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "STENO %s - ", r.Level)
	if r.Level == OK {
		b.WriteString(r.itemNames())
	} else {
		b.WriteString(plain(r.problemsText()))
	}
	b.WriteString(" |")
	for _, m := range r.Metrics {
		name := m.Name
		if m.Label != "" {
			name += "_" + m.Label
		}
		fmt.Fprintf(&b, " %s=%s%s", name, number(m.Value), m.unit)
	}
	b.WriteByte('\n')
	for i := range r.Items {
		if all {
			fmt.Fprintf(&b, "%-8s %-8s %s\n", strings.ToLower(r.Items[i].Level.String()), r.Items[i].Name,
				plain(r.Items[i].What))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// plain replaces bars, after which Nagios expects numbers.
func plain(s string) string { return strings.ReplaceAll(s, "|", "/") }

// mostWrong limits the problems that the line names.
const mostWrong = 4

func (r *Result) problemsText() string {
	var parts []string
	for i := range r.Items {
		if one := &r.Items[i]; one.Level != OK {
			parts = append(parts, one.Name+": "+one.What)
		}
	}
	if n := len(parts) - mostWrong; n > 0 {
		parts = append(parts[:mostWrong], fmt.Sprintf("and %d more%s", n, r.showAll))
	}
	return strings.Join(parts, "; ")
}

// itemNames lists what was checked.
func (r *Result) itemNames() string {
	var parts []string
	for i := range r.Items {
		switch one := &r.Items[i]; one.Name {
		case "written", "sealed", "intact", "losses":
			parts = append(parts, plain(one.What))
		}
	}
	return strings.Join(parts, "; ")
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// WriteJSON writes one line of JSON.
func (r *Result) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(render.SafeJSON(out))
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WritePrometheus writes metrics in the text format of Prometheus, for the text file collector.
func (r *Result) WritePrometheus(out io.Writer) error {
	var b strings.Builder
	head := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	labels := func(more ...string) string {
		s := "{trail=" + label(r.Trail)
		for i := 0; i < len(more); i += 2 {
			s += "," + more[i] + "=" + label(more[i+1])
		}
		return s + "}"
	}
	head("steno_check_level", "gauge", "Verdict of steno check: 0 ok, 1 warning, 2 critical, 3 unknown.")
	fmt.Fprintf(&b, "steno_check_level%s %d\n", labels(), r.Level)
	head("steno_check_item_level", "gauge", "The same for each thing that is checked.")
	done := map[string]bool{}
	for i := range r.Items { // the worst come first
		if one := &r.Items[i]; !done[one.Name] {
			done[one.Name] = true
			fmt.Fprintf(&b, "steno_check_item_level%s %d\n", labels("item", one.Name), one.Level)
		}
	}
	last := ""
	for _, m := range r.Metrics {
		name := "steno_" + m.Name
		if name != last {
			head(name, m.kind, m.help)
		}
		last = name
		more := []string{}
		if m.Label != "" {
			more = append(more, "name", m.Label)
		}
		fmt.Fprintf(&b, "%s%s %s\n", name, labels(more...), number(m.Value))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// label quotes the value of a label for Prometheus.
func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
