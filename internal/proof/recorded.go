// Finds out whether everything was recorded: the verdict beside that on the integrity of a trail.

package proof

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Recording is the verdict on whether one server recorded everything in a range of a trail.
type Recording struct {
	System uint64 `json:"system_id,string"`
	Since  string `json:"since"`
	Until  string `json:"until"`
	// Everything says that nothing is known to have been left out.
	Everything bool `json:"everything"`
	// Lacks are what was left out and lost, and when it was not recorded; Stopped are times in which the server did
	// not run, as its WAL and its control file show.
	Lacks   []string `json:"lacks"`
	Stopped []string `json:"stopped"`
	// Copied are the times from which on a copy of the data directory of a server recorded, if what that server
	// itself has recorded since is not there. What it lacks of the copy does not depend on that.
	Copied []string `json:"copied,omitempty"`
	// Unknown are sentences about what the trail does not show of the range.
	Unknown []string `json:"unknown"`
	// Changes are those of the recorder's own settings by the server's configuration. The last ones are there.
	Changes     []SettingChange `json:"changes"`
	MoreChanges int             `json:"more_changes,omitempty"`
	// Unread says that parts of the range could not be decrypted, or read.
	Unread bool `json:"unread"`

	rings []string
	// FailuresHidden says with which value of log_min_messages refused logins and failures may have left no record.
	FailuresHidden string `json:"-"`
}

// RingDirectories returns the directories of the servers' rings, as the trail states them; empty if it does not.
func (r *Recording) RingDirectories() []string { return r.rings }

// SettingChange is a change of a setting of the server.
type SettingChange struct {
	Time string `json:"time"`
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
	// By is who ran the last ALTER SYSTEM of the setting before, and in which session; File and Line have the value.
	By      string `json:"by,omitempty"`
	Session string `json:"session,omitempty"`
	File    string `json:"file,omitempty"`
	Line    string `json:"line,omitempty"`

	time int64
}

func (c *SettingChange) String() string {
	s := fmt.Sprintf("%s: %s was %q and became %q", c.Time, c.Name, c.Old, c.New)
	if c.File != "" {
		s += fmt.Sprintf(", by line %s of %s", c.Line, c.File)
	}
	if c.By != "" {
		s += fmt.Sprintf("; user %q had run ALTER SYSTEM in session %s", c.By, c.Session)
	}
	return render.Safe(s)
}

// Verdict returns the verdict in a sentence.
func (r *Recording) Verdict() string {
	verdict := "yes: no setting, rule, gap, stop or unclean end is known to have left anything out"
	switch {
	case len(r.Lacks) > 0:
		verdict = "NO: " + render.Plural(len(r.Lacks), "reason")
		if r.Unread {
			verdict += "; and parts could not be read"
		}
	case r.Unread:
		verdict = "NOT KNOWN: parts could not be read"
	case len(r.Unknown) > 0:
		verdict = "NOT KNOWN: the trail does not say it; nothing is known to have been left out"
	}
	return verdict
}

// mostChanges limits the listed changes of settings.
const mostChanges = 100

// Recorded finds out whether everything was recorded, for each server that wrote the trail. It reads the blocks that
// matter for this according to the indexes, and those without an index.
func Recorded(ctx context.Context, x *trail.Index, since, until int64) (all []*Recording, err error) {
	servers := map[uint64]*span{}
	var order []uint64
	for i := range x.Streams {
		for k := range x.Streams[i].Segments {
			one := &x.Streams[i].Segments[k]
			if one.Records == 0 {
				continue
			}
			id := one.Segment.Header.SystemID
			if servers[id] == nil {
				servers[id] = &span{format.MaxTime, format.MinTime}
				order = append(order, id)
			}
			b := servers[id]
			b.begin, b.end = min(b.begin, one.FirstTime), max(b.end, one.LastEnd)
		}
	}
	for _, id := range order {
		b := servers[id]
		r, err := recorded(ctx, x, id, span{b.begin, b.end}, since, until)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// span is from the beginning of the first record of a server to the end of the last one.
type span struct{ begin, end int64 }

func recorded(ctx context.Context, x *trail.Index, system uint64, whole span, since, until int64) (*Recording, error) {
	if since > whole.end || until <= whole.begin {
		where := "the trail ends at " + render.Time(whole.end) + ", before the period"
		if until <= whole.begin {
			where = "the trail begins at " + render.Time(whole.begin) + ", after the period"
		}
		return &Recording{
			System: system, Since: render.Time(since), Until: render.Time(until), Lacks: []string{},
			Stopped: []string{}, Unknown: []string{where}, Changes: []SettingChange{},
		}, ctx.Err()
	}
	since, until = max(since, whole.begin), min(until, whole.end+1)
	start := findStartBefore(x, func(s *trail.Segment) bool { return s.Header.SystemID == system }, since)
	r, known := recordedFrom(ctx, x, system, whole, start, since, until)
	if !known && start.from > format.MinTime {
		r, _ = recordedFrom(ctx, x, system, whole, startBefore{from: format.MinTime}, since, until)
	}
	return r, ctx.Err()
}

// recordedFrom reads the trail from a start on. known is true if the start was found.
func recordedFrom(ctx context.Context, x *trail.Index, system uint64, whole span, start startBefore, since,
	until int64) (r *Recording, known bool) {
	r = &Recording{System: system, Since: render.Time(since), Until: render.Time(min(until, whole.end)),
		Lacks: []string{}, Stopped: []string{}, Unknown: []string{}, Changes: []SettingChange{}}
	e := NewExclusions(x, since, until, Needs{Objects: true, Catalogs: true, Texts: true, Rows: true})
	of := func(ref *trail.BlockRef) bool { return ref.Segment.Header.SystemID == system }
	var mu sync.Mutex
	var changed changes
	omitted := omissions{since: since, until: until}
	x.Read(ctx, trail.ScanOptions{
		Since: start.from, Until: until, Blocks: of,
		Contents: func(c *format.Contents) format.Groups {
			g := LackGroups(c)
			g.Or(c.SelectOmissions("relations", "objects", "parameters", "text"))
			g.Or(c.Select(format.TermsCommands, func(v []byte) bool { return string(v) == alterSystem }))
			return g
		},
		Warn: func(error) { r.Unread = true },
	}, func(_ int, reader *trail.ScanReader) {
		for reader.Next() {
			one := &reader.Record
			if ShowsLack(one) {
				e.Record(one, reader.Ref)
			}
			if omits(one) {
				mu.Lock()
				omitted.add(one)
				mu.Unlock()
			}
			if changed.isSettingChange(one) {
				mu.Lock()
				changed.add(one)
				mu.Unlock()
			}
		}
	})
	unread := func(error) { r.Unread = true }
	e.FindEnds(ctx, x, of, unread)
	e.later = &later{exclusions: e, index: x, blocks: of, warn: unread, end: whole.end}
	e.later.read(ctx)
	if omitted.records > 0 {
		r.Lacks = append(r.Lacks, omitted.String())
	}
	e.summarize(r, since <= whole.begin, until > whole.end)
	r.FailuresHidden = e.HidesFailures()
	r.Everything = len(r.Lacks)+len(r.Unknown) == 0 && !r.Unread
	r.Changes = append(r.Changes, changed.list(since, until)...)
	if n := len(r.Changes); n > mostChanges {
		r.Changes, r.MoreChanges = r.Changes[n-mostChanges:], n-mostChanges
	}
	return r, start.found(e.conditions)
}

// omits reports whether a record leaves out a part of its statement, because that is too big or cannot be shown.
func omits(r *format.Record) bool {
	if r.Kind != format.KindStatement && r.Kind != format.KindStart {
		return false
	}
	_, parameters := r.ExtraValue("parameters_omitted")
	return parameters || r.OmitsNames() != "" || r.Has(format.FieldCut)
}

// omissions counts the records of a range that leave out something.
type omissions struct {
	since, until, first, last int64
	records                   int
}

func (o *omissions) add(r *format.Record) {
	if r.Time < o.since || r.Time >= o.until {
		return
	}
	if o.records++; o.records == 1 {
		o.first, o.last = r.Time, r.Time
	}
	o.first, o.last = min(o.first, r.Time), max(o.last, r.Time)
}

func (o *omissions) String() string {
	leave := "leave"
	if o.records == 1 {
		leave = "leaves"
	}
	return fmt.Sprintf("%s %s out relations, objects, parameters or parts of texts, between %s and %s",
		render.Plural(o.records, "record"), leave, render.Time(o.first), render.Time(o.last))
}

// summarize sets what the range may lack, and when the server did not run. begins and ends say that the range has the
// beginning and the end of the trail.
func (e *Exclusions) summarize(r *Recording, begins, ends bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.conditions
	to := func(list *[]string) func(string, ...any) {
		return func(format string, args ...any) { *list = append(*list, fmt.Sprintf(format, args...)) }
	}
	c.finish()
	c.later = e.later
	// The record of the first start can follow others, such as those that it has recovered.
	const soon = 10 * second
	since := c.eval.since
	if begins && len(c.runs) > 0 && c.runs[0].time > c.eval.since && c.runs[0].time-c.eval.since < soon {
		c.eval.since = c.runs[0].time
	}
	for i, l := range c.lives {
		if i > 0 && len(l.runs) > 0 {
			l.runs[0].first = true // the trail of another server begins with this start
		}
		if n := len(l.runs); ends && n > 0 { // a stop at the end of the trail is no gap in it
			l.stops = slices.DeleteFunc(l.stops, func(one event) bool {
				return one.name == "stop" && one.time > l.runs[n-1].time
			})
		}
	}
	if why := c.reasonUnstated(); why != "" {
		if !c.hasBase() && !begins {
			why += "; retention may have deleted it"
		}
		to(&r.Unknown)("which settings were in effect from %s on: %s", r.Since, why)
	}
	for _, l := range c.lives {
		if all := l.periods("steno.ring_directory"); len(all) > 0 && all[len(all)-1].value != "" {
			r.rings = append(r.rings, all[len(all)-1].value)
		}
	}
	c.listCopies(to(&r.Copied))
	c.listUnrecorded(to(&r.Lacks))
	c.listDownTimes(c.eval.until, begins, to(&r.Lacks), to(&r.Stopped))
	c.eval.since = since // losses count even if they were recorded before the start
	c.listLosses(c.eval.until, to(&r.Lacks))
	c.listReported(c.eval.until, to(&r.Lacks))
	e.later.listLost(to(&r.Lacks))
	r.Lacks = append(r.Lacks, c.uninterpreted...)
}

// changes are changes of the server's settings, and the statements that may have made them.
type changes struct {
	made    []SettingChange
	altered []alteration
}

// alteration is an ALTER SYSTEM.
type alteration struct {
	time                int64
	name, user, session string
}

const alterSystem = "ALTER SYSTEM"

var alteredName = regexp.MustCompile(`(?is)\bSYSTEM\s+(?:SET|RESET)\s+"?([a-z0-9_.]+)`)

func (c *changes) isSettingChange(r *format.Record) bool {
	return r.Kind == format.KindSetting || r.Kind == format.KindStatement && r.Outcome == format.OutcomeOk &&
		r.Shape != nil && string(r.Shape.Command) == alterSystem
}

// add takes such a record.
func (c *changes) add(r *format.Record) {
	if r.Kind == format.KindStatement {
		if m := alteredName.FindSubmatch(r.Text); m != nil {
			c.altered = append(c.altered, alteration{r.Time, strings.ToLower(string(m[1])),
				string(r.Session.Fact(format.KeyUser)), r.Session.ID().String()})
		}
		return
	}
	text := func(name string) string {
		v, _ := r.ExtraValue(name)
		return string(v)
	}
	if text("source") == "server" && strings.HasPrefix(text("name"), "steno.") {
		c.made = append(c.made, SettingChange{Time: render.Time(r.Time), Name: text("name"), Old: text("old"),
			New: text("new"), File: text("file"), Line: text("line"), time: r.Time})
	}
}

// list returns the changes of a range, each with the last ALTER SYSTEM of its setting since the change before.
func (c *changes) list(since, until int64) (all []SettingChange) {
	slices.SortStableFunc(c.made, func(a, b SettingChange) int { return cmp.Compare(a.time, b.time) })
	slices.SortStableFunc(c.altered, func(a, b alteration) int { return cmp.Compare(a.time, b.time) })
	before := map[string]int64{}
	for _, one := range c.made {
		for _, a := range c.altered {
			if (a.name == one.Name || a.name == "all") && a.time <= one.time && a.time > before[one.Name] {
				one.By, one.Session = a.user, a.session
			}
		}
		before[one.Name] = one.time
		if one.time >= since && one.time < until {
			all = append(all, one)
		}
	}
	return all
}

// Lines returns the rows of the verdict for people, each with a name and a text.
func (r *Recording) Lines(many bool) (lines [][2]string) {
	verdict := r.Verdict()
	if many {
		verdict = fmt.Sprintf("server %d: %s", r.System, verdict)
	}
	lines = append(lines, [2]string{"recorded", verdict})
	for _, one := range r.Lacks {
		lines = append(lines, [2]string{"lacks", one})
	}
	for _, one := range r.Unknown {
		lines = append(lines, [2]string{"unknown", one})
	}
	for _, one := range r.Stopped {
		lines = append(lines, [2]string{"stopped", one})
	}
	for _, one := range r.Copied {
		lines = append(lines, [2]string{"copied", one})
	}
	if r.MoreChanges > 0 {
		lines = append(lines, [2]string{"changed", render.Plural(r.MoreChanges, "earlier change") + " of settings"})
	}
	for i := range r.Changes {
		lines = append(lines, [2]string{"changed", r.Changes[i].String()})
	}
	return lines
}
