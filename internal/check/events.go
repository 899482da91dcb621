// Collects from new records: losses, ends without a stop, changes of settings, deletions, seals.

package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// events are collected from the records since the last check.
type events struct {
	dropped, refused, lost uint64
	gaps                   gaps
	losses                 []alarm
	earlyDeletions         []alarm // deletions of segments that had to be kept
	settings               map[string]string
	changed                []change
	sealed                 map[uint32]int64 // time of each stream's last seal
	unsealed               map[uint32]int64 // end of the first block after it that has more than seals

	started, stoppedAt int64
	moments            []moment // starts, stops and recoveries
}

// gaps sums up gap records, for one alarm.
type gaps struct {
	count       uint64
	first, last int64
	reasons     []string
}

func (g *gaps) add(n uint64, at int64, reason string) {
	if g.count == 0 {
		g.first, g.last = at, at
	}
	g.count, g.first, g.last = g.count+n, min(g.first, at), max(g.last, at)
	if !slices.Contains(g.reasons, reason) {
		g.reasons = append(g.reasons, reason)
	}
}

func (g *gaps) String() string {
	slices.Sort(g.reasons)
	when := "at " + render.Time(g.first)
	if g.last > g.first {
		when = fmt.Sprintf("from %s until %s", render.Time(g.first), render.Time(g.last))
	}
	return fmt.Sprintf("%s records dropped, as the trail tells %s (%s)", humanize.Comma(int64(g.count)), when,
		strings.Join(g.reasons, ", "))
}

// moment is a start or stop of the server, or a recovery of what a run had left.
type moment struct {
	time    int64
	event   string
	wal     string // of a stop: its position; of a start: that of the stop since which the server was not run
	records string // of a recovery
}

// change is one of a setting of pg_steno.
type change struct {
	time                       int64
	name, old, new, file, line string
	session, user              string // empty: of the server
}

func (c *change) String() string {
	s := fmt.Sprintf("%s was '%s' and became '%s' at %s", c.name, c.old, c.new, render.Time(c.time))
	if c.session != "" {
		return s + fmt.Sprintf(", for session %s of user %s", c.session, c.user)
	}
	if c.file != "" {
		s += fmt.Sprintf(", by line %s of %s", c.line, c.file)
	}
	return s
}

// settingsAfter returns the server's settings after these records, given those before; nil: not known.
func (e *events) settingsAfter(before map[string]string) map[string]string {
	settings := maps.Clone(before)
	if e.settings != nil {
		settings = e.settings
	}
	for i := range e.changed {
		if one := &e.changed[i]; one.session == "" && settings != nil && (e.settings == nil || one.time > e.started) {
			settings[one.name] = one.new
		}
	}
	return settings
}

// stopped reports whether the server is known to have been stopped since its last start.
func (e *events) stopped() bool { return e.stoppedAt > e.started }

// read reads the blocks after the positions of the last check.
func (e *events) read(ctx context.Context, t *trail.Trail, s *state) error {
	*e = events{sealed: map[uint32]int64{}, unsealed: map[uint32]int64{}}
	var mu sync.Mutex
	ends := map[uint32]map[uint64]int64{} // of blocks with records other than seals, by stream and block
	seals := map[uint32]uint64{}          // the last sealed block
	t.Index().Read(ctx, trail.ScanOptions{
		Since: format.MinTime, Until: format.MaxTime,
		Blocks: func(ref *trail.BlockRef) bool {
			p := s.position(ref.Segment.Stream.Number)
			return p == nil || ref.Number > p.Block
		},
		Contents: selectRelevant,
		Warn:     func(error) {}, // the verification has reported it
	}, func(_ int, reader *trail.ScanReader) {
		for reader.Next() {
			r, stream := &reader.Record, reader.Ref.Segment.Stream.Number
			mu.Lock()
			if r.Kind == format.KindSeal {
				e.sealed[stream] = max(e.sealed[stream], r.Time)
				seals[stream] = max(seals[stream], reader.Ref.Number-1)
			} else {
				if ends[stream] == nil {
					ends[stream] = map[uint64]int64{}
				}
				ends[stream][reader.Ref.Number] = reader.Ref.LastEnd
				e.record(r)
			}
			mu.Unlock()
		}
	})
	if e.gaps.count > 0 {
		e.losses = append(e.losses, alarm{Item: "losses", Level: Critical, What: e.gaps.String()})
	}
	slices.SortStableFunc(e.changed, func(a, b change) int { return cmp.Compare(a.time, b.time) })
	// blocks that were unsealed at the last check are sealed by any later seal
	for i := range s.Positions {
		if p := &s.Positions[i]; seals[p.Stream] == 0 {
			e.sealed[p.Stream], e.unsealed[p.Stream] = p.Sealed, p.Open
		}
	}
	for stream, blocks := range ends {
		for number, end := range blocks {
			if first := e.unsealed[stream]; number > seals[stream] && (first == 0 || end < first) {
				e.unsealed[stream] = end
			}
		}
	}
	return ctx.Err()
}

func (e *events) record(r *format.Record) {
	text := func(name string) string {
		v, _ := r.ExtraValue(name)
		return string(v)
	}
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(text(name), 10, 64)
		return n
	}
	loss := func(level Level, as string, args ...any) {
		e.losses = append(e.losses, alarm{Item: "losses", Level: level, What: fmt.Sprintf(as, args...)})
	}
	at := render.Time(r.Time)
	switch r.Kind {
	case format.KindGap:
		n := max(1, number("count"))
		e.dropped += n
		e.gaps.add(n, r.Time, text("reason"))
	case format.KindSetting:
		if !strings.HasPrefix(text("name"), "steno.") && text("name") != proof.MinMessages {
			return
		}
		c := change{time: r.Time, name: text("name"), old: text("old"), new: text("new"), file: text("file"),
			line: text("line")}
		if text("source") != "server" {
			if _, decides := proof.SettingDefault(c.name); !decides {
				return
			}
			c.session, c.user = r.Session.ID().String(), string(r.Session.Fact(format.KeyUser))
		}
		e.changed = append(e.changed, c)
	case format.KindServer:
		switch event := text("event"); event {
		case "start":
			e.moments = append(e.moments, moment{time: r.Time, event: event, wal: text("not_run_since_wal")})
			if r.Time < e.started {
				return
			}
			e.started = r.Time
			e.settings = map[string]string{}
			for name, value := range r.ExtraPairs {
				if strings.HasPrefix(string(name), "steno.") || string(name) == proof.MinMessages {
					e.settings[string(name)] = string(value)
				}
			}
		case "stop":
			e.stoppedAt = max(e.stoppedAt, r.Time)
			e.moments = append(e.moments, moment{time: r.Time, event: event, wal: text("wal")})
		case "recovered":
			e.refused += number("refused")
			if n := number("refused"); n > 0 {
				loss(Critical, "%s statements refused from %s until %s (%s)", humanize.Comma(int64(n)), text("since"),
					text("until"), text("reason"))
			} else {
				loss(Warning, "the trail could not be written from %s until %s (%s)", text("since"), text("until"),
					text("reason"))
			}
		case "lost":
			first, last, _ := strings.Cut(text("blocks"), "-")
			a, _ := strconv.ParseUint(first, 10, 64)
			b, _ := strconv.ParseUint(last, 10, 64)
			e.lost += max(1, b-a+1)
			loss(Critical, "blocks %s of stream %s were lost at %s: they could not be synced", text("blocks"),
				text("stream"), at)
		case "torn":
			loss(Warning, "an unfinished block of %s bytes was cut off at %s", text("bytes"), at)
		case "recover":
			e.moments = append(e.moments, moment{time: r.Time, event: event, records: text("records")})
		case "other_trail":
			if text("session") == "" {
				loss(Warning, "a run of the server that began at %s had recorded in another trail, of which this "+
					"one has only what was in its ring file", text("since"))
			}
		case "restart":
			loss(Warning, "writer %s was not running from %s until %s", text("writer"), text("since"), at)
		case "branch":
			if text("reason") == trail.ReasonCopy {
				loss(Warning, "a copy of the data directory began to record at %s, beside stream %s", at,
					text("stream"))
			} else {
				loss(Critical, "stream %s was not as the server had left it at %s (%s)", text("stream"), at,
					text("reason"))
			}
		case "deleted":
			if d, ok := trail.ParseDeletion(r); ok && text("reason") == "slot_max_size" && text("repeated") == "" {
				e.earlyDeletions = append(e.earlyDeletions, alarm{Item: "kept", Level: Critical,
					What: fmt.Sprintf("segments %d to %d of stream %d were deleted at %s although a slot needed them",
						d.FirstSegment, d.LastSegment, d.Stream, at)})
			}
		}
	}
}

// findRuns finds how runs of the server ended, and whether it ran without pg_steno in between. last is the state at
// the last check: "" if it is not known, "start" if the server was running, or the WAL position of its stop.
func (e *events) findRuns(last string) (now string, all []alarm) {
	slices.SortStableFunc(e.moments, func(a, b moment) int { return cmp.Compare(a.time, b.time) })
	say := func(level Level, format string, args ...any) {
		all = append(all, alarm{Item: "losses", Level: level, What: fmt.Sprintf(format, args...)})
	}
	for i, m := range e.moments {
		switch m.event {
		case "stop":
			last = "stop " + m.wal
		case "start":
			// the recovery of the run before is recorded just before or just after the start
			recovered := slices.IndexFunc(e.moments[max(0, i-1):], func(m moment) bool { return m.event == "recover" })
			wal, stopped := strings.CutPrefix(last, "stop ")
			switch {
			case last == "start" && recovered >= 0 && recovered <= 2:
				say(Warning, "the server had ended without a stop before %s; what was in its rings was recovered",
					render.Time(m.time))
			case last == "start":
				say(Critical, "the server had ended without a stop before %s, and nothing says that its last "+
					"records were recovered", render.Time(m.time))
			case stopped && wal != "" && wal != m.wal:
				say(Critical, "the server may have run without pg_steno before %s: its WAL and its control file do "+
					"not show that it was not run since its stop", render.Time(m.time))
			}
			last = "start"
		}
	}
	return last, all
}
