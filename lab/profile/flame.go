// The flame graph of a profile, as one page.

package profile

import (
	"cmp"
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/pg-steno/pg_steno/internal/page"
)

var (
	//go:embed flame.html
	flameText string
	//go:embed flame.css
	flameStyle string
	//go:embed flame.js
	flameScript string

	flamePage = page.New(flameText, flameStyle, flameScript, nil)
)

// node is a function on a path from the root, in the format of the page's script.
type node struct {
	Name     string  `json:"n"`
	Samples  int     `json:"s"`
	Seconds  float64 `json:"v"`
	Cause    int     `json:"c"` // the cause of most of its time
	Children []*node `json:"k,omitempty"`

	index  map[string]*node
	causes map[int]float64
}

func (n *node) child(name string) *node {
	if c := n.index[name]; c != nil {
		return c
	}
	c := &node{Name: name}
	if n.index == nil {
		n.index = map[string]*node{}
	}
	n.index[name] = c
	n.Children = append(n.Children, c)
	return c
}

func (n *node) count(s *Stack, cause int) {
	n.Samples += s.Samples
	n.Seconds += s.Seconds
	if n.causes == nil {
		n.causes = map[int]float64{}
	}
	n.causes[cause] += s.Seconds
}

// leastShare is the share of the root's time from which on a node is drawn: half a pixel on a wide screen, zoomed in
// ten times.
const leastShare = 0.00002

// finish sorts nodes, chooses their causes, and drops those too small to be seen.
func (n *node) finish(least float64) {
	best := 0.0
	for c, seconds := range n.causes {
		if seconds > best || seconds == best && c < n.Cause {
			n.Cause, best = c, seconds
		}
	}
	n.Children = slices.DeleteFunc(n.Children, func(c *node) bool { return c.Seconds < least })
	slices.SortFunc(n.Children, func(a, b *node) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range n.Children {
		c.finish(least)
	}
}

type flameView struct {
	Name string `json:"name"`
	Root *node  `json:"root"`
}

type flameCause struct {
	Title   string  `json:"title"`
	Cost    bool    `json:"cost"`
	Percent float64 `json:"percent"` // of the active time
}

// flameData is everything that the page shows.
type flameData struct {
	Views  []flameView  `json:"views"`
	Causes []flameCause `json:"causes"`
}

func newFlameData(r *Report, p *Profile) flameData {
	var d flameData
	index := map[string]int{}
	for i, c := range r.Causes {
		index[c.ID] = i
		d.Causes = append(d.Causes, flameCause{c.Title, c.Class == Cost, c.Active})
	}
	cpu, waiting := &node{Name: "on processors"}, &node{Name: "waiting"}
	for _, s := range p.sorted() {
		if s.cause.Class == Idle || s.Seconds <= 0 {
			continue
		}
		at := cpu
		if s.Waiting {
			at = waiting
		}
		at.count(s, index[s.cause.ID])
		for _, name := range labels(s) {
			at = at.child(name)
			at.count(s, index[s.cause.ID])
		}
	}
	for _, v := range []flameView{{"Processors", cpu}, {"Waits", waiting}} {
		if v.Root.Seconds > 0 {
			v.Root.finish(v.Root.Seconds * leastShare)
			d.Views = append(d.Views, v)
		}
	}
	if len(d.Views) == 0 {
		d.Views = []flameView{{"Processors", cpu}}
		d.Causes = []flameCause{{Title: causeByID[other].Title}}
	}
	return d
}

// writeFlame writes the page, which is self-contained.
func writeFlame(w io.Writer, r *Report, p *Profile) error {
	data, err := json.Marshal(newFlameData(r, p)) // escapes < and >, so no text ends the script
	if err != nil {
		return err
	}
	title := "steno profile"
	if r.Server.Version != "" {
		title += ": PostgreSQL " + r.Server.Version
	}
	subtitle := fmt.Sprintf("%.2f processors busy on average for %.0f s; %.2f sessions waiting for %.0f s. Sessions "+
		"that wait for their clients are not included.",
		r.Processors, r.CPUSeconds, r.Waiting, r.WaitSeconds)
	return flamePage.Write(w, struct {
		Title, Subtitle string
		Data            template.JS
	}{title, subtitle, template.JS(data)})
}
