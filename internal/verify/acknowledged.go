// Problems that somebody has acknowledged.

package verify

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/acknowledge"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Acknowledge gives the problems of the trails their IDs, and takes those out that were acknowledged and are as they were
// then. What is wrong with a file of acknowledgments is a problem itself.
func (r *Report) Acknowledge(t *trail.Trail, keys seal.Keys) error {
	var homes []string
	for _, s := range t.Streams {
		if s.Trail != "" && !slices.Contains(homes, s.Trail) {
			homes = append(homes, s.Trail)
		}
	}
	for i := range r.Problems {
		p := &r.Problems[i]
		p.ID = acknowledge.ID(p.inTrail(homes), p.Offset, p.What)
	}
	for _, home := range homes {
		path := acknowledge.Path(home)
		list, err := acknowledge.Load(path, keys)
		if err != nil {
			return err
		}
		for _, e := range list.Entries {
			if err := r.take(home, e, len(keys) > 0); err != nil {
				return err
			}
		}
		for _, wrong := range list.Problems {
			r.Problems = append(r.Problems, Problem{File: path, What: "line " + fmt.Sprint(wrong.Line) + ": " + wrong.What})
		}
	}
	r.Whole = len(r.Problems) == 0 && len(r.Unreadable) == 0
	return nil
}

// inTrail is the problem's file as it is called in its trail.
func (p *Problem) inTrail(homes []string) string {
	for _, home := range homes {
		if name := InTrail(home, p.File); name != p.File {
			return name
		}
	}
	return p.File
}

// InTrail is what a file is called in the trail in a directory; its path if it is not there.
func InTrail(home, file string) string {
	rest, err := filepath.Rel(home, file)
	if file == "" || err != nil || rest == ".." || strings.HasPrefix(rest, ".."+string(filepath.Separator)) {
		return file
	}
	return filepath.ToSlash(rest)
}

// take takes the problem of an acknowledgment out, unless the file's bytes are others now.
func (r *Report) take(home string, e *acknowledge.Entry, checked bool) error {
	i := slices.IndexFunc(r.Problems, func(p Problem) bool {
		return p.ID == e.Problem && (p.File == "" || p.inTrail([]string{home}) == e.File)
	})
	if i < 0 {
		return nil
	}
	p := r.Problems[i]
	sum, n, err := acknowledge.Hash(p.File, e.Size)
	if err != nil {
		return err
	}
	if sum != e.SHA256 || n != e.Size {
		r.Problems[i].What += "; it was acknowledged by " + e.By + " at " + e.Time + ", but the file was changed since"
		return nil
	}
	r.Problems = slices.Delete(r.Problems, i, i+1)
	r.Acknowledged = append(r.Acknowledged, Acknowledged{Problem: p, By: e.By, Time: e.Time, Reason: e.Reason, Key: e.Key, Checked: checked})
	return nil
}
