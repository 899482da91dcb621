// Problems that somebody has acknowledged.

package verify

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/acknowledge"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Acknowledge sets the IDs of problems, and removes from the report those that were acknowledged and have not
// changed since. Problems with a file of acknowledgments are added to the report.
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
		path, err := acknowledge.Path(home)
		if err != nil {
			return err
		}
		list, err := acknowledge.Load(path, keys)
		if err != nil {
			return err
		}
		if err := r.applyAcknowledgments(home, list.Entries, len(keys) > 0); err != nil {
			return err
		}
		for _, wrong := range list.Problems {
			r.Problems = append(r.Problems, Problem{
				Class: format.ProblemAcknowledgment.String(),
				File:  path,
				What:  "line " + fmt.Sprint(wrong.Line) + ": " + wrong.What,
			})
		}
	}
	r.setVerdict()
	return nil
}

// inTrail returns the name of the problem's file within its trail.
func (p *Problem) inTrail(homes []string) string {
	for _, home := range homes {
		if name := RelativePath(home, p.File); name != p.File {
			return name
		}
	}
	return p.File
}

// RelativePath returns the name of a file within the trail in a directory; its path if it is elsewhere.
func RelativePath(home, file string) string {
	rest, err := filepath.Rel(home, file)
	if file == "" || err != nil || rest == ".." || strings.HasPrefix(rest, ".."+string(filepath.Separator)) {
		return file
	}
	return filepath.ToSlash(rest)
}

// applyAcknowledgments removes the problems of a trail that were acknowledged, unless the acknowledgment is
// outdated. Of several acknowledgments of a problem, the last one counts, but one with a signature takes
// precedence over one without.
func (r *Report) applyAcknowledgments(home string, entries []*acknowledge.Entry, checked bool) error {
	var left []Problem
	for _, p := range r.Problems {
		var counts *acknowledge.Entry
		for _, e := range entries {
			if p.ID != e.Problem || p.File != "" && p.inTrail([]string{home}) != e.File {
				continue
			}
			why, err := r.whyOutdated(home, e, &p)
			switch {
			case err != nil:
				return err
			case why != "":
				p.Note = "it was acknowledged by " + e.By + " at " + e.Time + ", but " + why
			case counts == nil || counts.Key == "" || e.Key != "":
				counts = e
			}
		}
		if counts == nil {
			left = append(left, p)
			continue
		}
		p.Note = ""
		r.Acknowledged = append(r.Acknowledged, Acknowledged{
			Problem: p, By: counts.By, Time: counts.Time, Reason: counts.Reason, Key: counts.Key, Checked: checked,
		})
	}
	r.Problems = append([]Problem{}, left...)
	return nil
}

// whyOutdated returns why an acknowledgment of a problem does not count any more; empty: it does.
func (r *Report) whyOutdated(home string, e *acknowledge.Entry, p *Problem) (string, error) {
	if system := fmt.Sprint(p.System); e.System != system {
		return "in the trail of another server: its system identifier was " + e.System + ", and is " + system, nil
	}
	sum, n, err := acknowledge.Hash(p.File, e.Size)
	switch {
	case err != nil:
		return "", err
	case sum != e.SHA256 || n != e.Size:
		return "the file was changed since", nil
	case n > 0:
		return "", nil
	}
	return r.shortenedStream(home, e.Ends), nil
}

// shortenedStream returns which stream of a trail is shorter than when it was acknowledged; empty: none is.
func (r *Report) shortenedStream(home string, ends []acknowledge.End) string {
	now := map[uint32]acknowledge.End{}
	for _, end := range r.endsOf(home) {
		now[end.Stream] = end
	}
	for _, then := range ends {
		switch end := now[then.Stream]; {
		case end.Block < then.Block:
			return fmt.Sprintf("stream %d ended with block %d then, and ends with block %d", then.Stream,
				then.Block, end.Block)
		case end.Block == then.Block && end.Hash != then.Hash:
			return fmt.Sprintf("block %d of stream %d was changed since", then.Block, then.Stream)
		}
	}
	return ""
}

// endsOf returns the last blocks of a trail's streams.
func (r *Report) endsOf(home string) (ends []acknowledge.End) {
	for _, last := range r.ends {
		if last.Trail == home && last.Block > 0 {
			ends = append(ends, acknowledge.End{
				Stream: last.Stream,
				Block:  last.Block,
				Hash:   hex.EncodeToString(last.Hash[:]),
			})
		}
	}
	return ends
}

// Bind returns the beginning of an acknowledgment, which says which problem of which trail it is about.
func (r *Report) Bind(home string, p *Problem) (*acknowledge.Entry, error) {
	e := &acknowledge.Entry{
		System:  fmt.Sprint(p.System),
		Problem: p.ID,
		File:    RelativePath(home, p.File),
		Offset:  p.Offset,
		What:    p.What,
	}
	var err error
	if e.SHA256, e.Size, err = acknowledge.Hash(p.File, -1); e.Size == 0 {
		e.Ends = r.endsOf(home)
	}
	return e, err
}
