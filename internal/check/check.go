// Package check checks whether the audit of a server is healthy: whether records are made and written, what was lost
// since the last check, and whether what was written since is intact. It reads what is new of the trail, the rings
// and the processes of the server, and needs no connection. Like "steno verify" with a state, it verifies with
// verify's memory, but each time with a new one that knows only the positions of the last check: a check runs every
// few minutes and must be quick, so it does not keep what a verification remembers of all sessions. Its first run
// reads only the last segments. It finds missing sequence numbers only within what it reads; "steno verify" finds the
// others.
//
//	check.go    what is looked at, and in which order
//	state.go    what is kept from one check to the next
//	events.go   what the new records tell
//	server.go   the processes of the server, and its rings
//	units.go    systemd's units
//	output.go   one line, JSON, Prometheus
//	disk_unix.go, disk_other.go   how full the disk is
package check

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// Level is the severity of a result, with the exit codes of Nagios plug-ins.
type Level int

// The levels.
const (
	OK Level = iota
	Warning
	Critical
	Unknown
)

var levelNames = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

func (l Level) String() string { return levelNames[l] }

// MarshalText is the level's name in lower case.
func (l Level) MarshalText() ([]byte, error) { return []byte(strings.ToLower(l.String())), nil }

// UnmarshalText reads it.
func (l *Level) UnmarshalText(text []byte) error {
	i := slices.Index(levelNames[:], strings.ToUpper(string(text)))
	if i < 0 {
		return fmt.Errorf("unknown level %s", text)
	}
	*l = Level(i)
	return nil
}

// worseOf returns the worse of two levels: critical before warning before unknown.
func worseOf(a, b Level) Level {
	order := [...]int{OK: 0, Unknown: 1, Warning: 2, Critical: 3}
	if order[b] > order[a] {
		return b
	}
	return a
}

// Options are what is checked, and how.
type Options struct {
	Open       func() (*trail.Trail, error) // with its keys
	Keys       seal.Keys                    // to check seals with
	By         seal.Keys                    // of those who may acknowledge damage; empty: anyone
	Rings      []string                     // where the rings of the server are
	RingsNamed bool                         // Rings were named by the user: they are not looked for elsewhere
	State      string                       // file; empty: see StatePath
	Offline    bool                         // the trail is a copy: no server is expected
	Units      bool                         // look at systemd's units, if it runs

	MaxAge   time.Duration // of the last block; 0: it may be old, because an idle server writes nothing
	MaxLag   time.Duration // how long records may wait to be written
	Keep     time.Duration // how long records must be kept; 0: not checked
	Remember time.Duration // how long losses are reported again
	Forget   bool          // do not report again what earlier checks found

	DiskWarning, DiskCritical float64 // percent used
	SlotWarning               float64 // percent of steno.slot_max_size
	Expect                    []string

	Now time.Time
	// Advise returns how the user can follow an advice; nil: no advice is given.
	Advise func(Advice) string
}

// Advice is something that the user can do about a result.
type Advice int

// The kinds of advice.
const (
	NameRings    Advice = iota // name the directory of the rings
	CheckOffline               // check a copy as one
	ShowAll                    // see all that was found
)

// advice returns the text of an advice; empty if there is none.
func (o *Options) advice(a Advice) string {
	if o.Advise == nil {
		return ""
	}
	return o.Advise(a)
}

// Item is one thing that was checked.
type Item struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	What  string `json:"what"`
}

// Result is what a check has found.
type Result struct {
	Level  Level  `json:"level"`
	Trail  string `json:"trail"`
	System uint64 `json:"system_id,string,omitempty"`
	// Since is the time of the last check; empty: this is the first one.
	Since   string   `json:"since,omitempty"`
	Items   []Item   `json:"items"`
	Metrics []Metric `json:"metrics"`

	showAll string // how all of it is shown
}

// Metric is a number, for graphs.
type Metric struct {
	Name  string  `json:"name"`
	Label string  `json:"label,omitempty"` // distinguishes it from others of this name
	Value float64 `json:"value"`

	kind, help string
	unit       string // of Nagios
}

func (r *Result) add(name string, level Level, format string, args ...any) {
	r.Items = append(r.Items, Item{name, level, render.Safe(fmt.Sprintf(format, args...))})
	r.Level = worseOf(r.Level, level)
}

func (r *Result) gauge(name, unit, help string, value float64) {
	value = math.Round(value*1000) / 1000 // milliseconds, or thousandths of a percent
	r.Metrics = append(r.Metrics, Metric{Name: name, Value: value, kind: "gauge", unit: unit, help: help})
}

func (r *Result) total(name, help string, value uint64) {
	r.Metrics = append(r.Metrics, Metric{Name: name, Value: float64(value), kind: "counter", unit: "c", help: help})
}

// mostReads limits how often a trail is read from which retention deletes segments meanwhile.
const mostReads = 3

// checker is one check.
type checker struct {
	*Options
	result *Result
	trail  *trail.Trail
	state  *state
	report *verify.Report
	events events
	server server
}

// Run checks a trail. It returns an error if nothing could be checked.
func Run(ctx context.Context, o *Options) (*Result, error) {
	c := &checker{Options: o, result: &Result{Items: []Item{}, Metrics: []Metric{}, showAll: o.advice(ShowAll)}}
	t, err := o.Open()
	if err != nil {
		return nil, err
	}
	c.trail = t
	c.result.Trail = t.Path
	file, err := openState(o.State, t)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if c.state, err = file.read(); err != nil {
		return nil, err
	}
	if !c.state.Time.IsZero() {
		c.result.Since = c.state.Time.UTC().Format(time.RFC3339)
	}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	c.findServer()
	for _, look := range []func(){
		c.checkServer, c.checkWriters, c.checkDelay, c.checkIntact, c.checkSeals, c.checkLosses, c.checkRecording,
		c.checkSlots, c.checkDisk,
		c.checkRetention, c.checkUnits,
	} {
		look()
	}
	c.reportEarlier()
	if err := file.write(c.state); err != nil {
		return nil, err
	}
	return c.result, nil
}

// read verifies what is new in the trail, and collects the events in it.
func (c *checker) read(ctx context.Context) error {
	for try := 1; ; try++ {
		tail, from := c.newSegments()
		keys := maps.Clone(c.Keys)
		if len(keys) > 0 {
			c.state.addTrusted(keys)
		}
		report, err := verify.Trail(ctx, tail, nil,
			verify.Checks{Keys: keys, Anchors: c.state.anchors(), Memory: verify.NewMemory(from)})
		if err != nil {
			return err
		}
		c.report = report
		if !report.Outdated() || try == mostReads {
			break
		}
		if c.trail, err = c.Open(); err != nil {
			return err
		}
	}
	tail, _ := c.newSegments()
	c.removeAcknowledged(tail)
	if err := c.events.read(ctx, tail, c.state); err != nil {
		return err
	}
	if c.state.Settings = c.events.settingsAfter(c.state.Settings); c.state.Settings == nil {
		return c.findSettings(ctx)
	}
	return nil
}

// newSegments returns the part of the trail to read: the segments from the positions of the last check on, and all
// segments of streams that are new since. The first check reads the last segment of each stream.
func (c *checker) newSegments() (*trail.Trail, map[uint32]uint64) {
	from := map[uint32]uint64{}
	for _, s := range c.trail.Streams {
		if p := c.state.position(s.Number); p != nil {
			from[s.Number] = p.Segment
		} else if n := len(s.Segments); n > 0 && c.state.Time.IsZero() {
			from[s.Number] = s.Segments[n-1].Number
		}
	}
	return c.trailFrom(func(s *trail.Stream) int {
		return slices.IndexFunc(s.Segments, func(seg *trail.Segment) bool { return seg.Number >= from[s.Number] })
	}), from
}

// trailFrom returns the trail with the segments from these indexes on; -1: none.
func (c *checker) trailFrom(first func(*trail.Stream) int) *trail.Trail {
	t := *c.trail
	t.Streams = nil
	for _, s := range c.trail.Streams {
		one := *s
		one.Segments = nil
		if i := first(s); i >= 0 {
			one.Segments = s.Segments[i:]
		}
		t.Streams = append(t.Streams, &one)
	}
	return &t
}

// findSettings looks for the last record of a start, in a growing number of the last segments.
func (c *checker) findSettings(ctx context.Context) error {
	for n, all := 2, false; !all; n *= 4 {
		all = true
		t := c.trailFrom(func(s *trail.Stream) int {
			first := max(0, len(s.Segments)-n)
			all = all && first == 0
			return first
		})
		var found events
		if err := found.read(ctx, t, &state{}); err != nil {
			return err
		}
		if c.state.Settings = found.settingsAfter(nil); c.state.Settings != nil {
			return nil
		}
	}
	return nil
}

// setting returns the value of a setting of the server; empty if the trail does not state it.
func (c *checker) setting(name string) string { return c.state.Settings[name] }

func ago(d time.Duration) string {
	if d < 0 {
		return "in " + ago(-max(d, -math.MaxInt64)) // the server's clock is ahead
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.Round(time.Second).String()
}

// since returns how long ago a time is. In a forged trail, it may be centuries ahead.
func (c *checker) since(usec int64) time.Duration {
	return max(c.Now.Sub(query.Moment(usec)), -math.MaxInt64)
}

// checkDelay checks how long records wait to be written, and how old the last block is.
func (c *checker) checkDelay() {
	r := c.result
	newest := int64(format.MinTime)
	for _, last := range c.report.Ends() {
		if last.Block > 0 {
			newest = max(newest, last.End)
		}
	}
	if newest == format.MinTime {
		r.add("written", Critical, "the trail has no block")
		return
	}
	age := c.since(newest)
	r.gauge("last_record_age_seconds", "s", "Age of the last record in the trail.", age.Seconds())
	level, what := OK, "last record "+ago(age)+" ago"
	if age < -time.Minute {
		level, what = Warning, "the last record is "+ago(-age)+" ahead of this machine's clock"
	}
	if c.MaxAge > 0 && age > c.MaxAge {
		level, what = Critical, fmt.Sprintf("the last record is %s old, the limit is %s", ago(age), ago(c.MaxAge))
	}
	if lag, late := c.isLate(); late {
		level, what = Critical, fmt.Sprintf("records wait for %s to be written, the limit is %s", ago(lag),
			ago(c.MaxLag))
	}
	if c.server.running() {
		r.gauge("lag_bytes", "B", "Bytes in the rings that are not in the trail yet.", float64(c.server.lag))
	}
	r.add("written", level, "%s", what)
}

// isLate reports whether the server's oldest record has waited too long to be written, and how long.
func (c *checker) isLate() (lag time.Duration, late bool) {
	if c.server.oldest == 0 {
		return 0, false
	}
	lag = c.since(c.server.oldest)
	return lag, lag > c.MaxLag
}

// removeAcknowledged removes acknowledged problems from the results of this check and of earlier ones.
func (c *checker) removeAcknowledged(t *trail.Trail) {
	for _, a := range c.state.Alarms {
		if a.Problem == nil || c.Forget || a.isGone() || slices.ContainsFunc(c.report.Problems, a.isOf) {
			continue
		}
		p := *a.Problem
		p.System = c.state.System
		c.report.Problems = append(c.report.Problems, p)
	}
	if err := c.report.Acknowledge(t, c.By); err != nil {
		c.result.add("intact", Unknown, "which damage was acknowledged cannot be read: %s", err)
		return
	}
	c.state.Alarms = slices.DeleteFunc(c.state.Alarms, func(a alarm) bool {
		return slices.ContainsFunc(c.report.Acknowledged, func(k verify.Acknowledged) bool {
			return a.isOf(k.Problem)
		})
	})
}

// checkIntact reports damage since the last check, and damage that earlier checks found.
func (c *checker) checkIntact() {
	r := c.result
	for i := range c.report.Problems {
		p := c.report.Problems[i]
		if p.ID == "" { // a problem of the file of acknowledgments, which each check reads
			r.add("intact", Critical, "%s", p.String())
			continue
		}
		c.state.addAlarm(&alarm{Item: "intact", Level: Critical, What: p.String(), File: p.File, Problem: &p}, c.Now)
	}
	if n := c.report.MoreProblems; n > 0 {
		r.add("intact", Critical, "and %d more problems", n)
	}
	for _, p := range c.report.Unreadable {
		r.add("intact", Unknown, "%s", p.String())
	}
	c.checkSegments()
	if len(c.report.Problems)+len(c.report.Unreadable) > 0 {
		return
	}
	what := fmt.Sprintf("%s blocks verified", humanize.Comma(c.report.Blocks))
	if c.state.Time.IsZero() {
		what = "first check: only the last segments were verified"
	}
	if n := len(c.report.Acknowledged); n > 0 {
		what += fmt.Sprintf("; %d acknowledged", n)
	}
	if c.report.UnreadBlocks > 0 {
		r.add("intact", Unknown, "%s; %d blocks are encrypted, and their key was not given: nothing is known of "+
			"what their records tell", what, c.report.UnreadBlocks)
		return
	}
	r.add("intact", OK, "%s", what)
}

// checkSegments reports segments before the verified ones that are missing or no longer segments, and blocks that
// were deleted before a check read them.
func (c *checker) checkSegments() {
	deletionsReadable := !exit.IsUnreadable(trail.DeletionsErr(c.trail.Path))
	for _, s := range c.trail.Streams {
		if len(s.Segments) == 0 {
			continue
		}
		first, p := s.Segments[0], c.state.position(s.Number)
		if first.Number > 1 && !deletionsReadable {
			c.result.add("intact", Unknown, "whether segments before %d of stream %d were deleted by retention "+
				"cannot be read", first.Number, s.Number)
		} else if first.Number > 1 && !slices.ContainsFunc(s.Deletions(), func(d trail.Deletion) bool {
			return d.Stream == s.Number && d.SinceSegment == 1 && d.LastSegment >= first.Number-1
		}) {
			c.state.addAlarm(&alarm{Item: "intact", Level: Critical, What: fmt.Sprintf("segments before %d of stream "+
				"%d are missing, and were not deleted by retention", first.Number, s.Number)}, c.Now)
		}
		if p != nil && p.Segment < first.Number && first.Err == nil && first.Header.FirstBlock > p.Block+1 {
			c.state.addAlarm(&alarm{Item: "losses", Level: Warning, What: fmt.Sprintf("blocks %d to %d of stream %d "+
				"were deleted before a check has read them", p.Block+1, first.Header.FirstBlock-1, s.Number)}, c.Now)
		}
		for i, seg := range s.Segments {
			switch {
			case seg.Err != nil && !seg.Last:
				c.state.addAlarm(&alarm{Item: "intact", Level: Critical,
					What: fmt.Sprintf("%s: %s", seg.Path, seg.Err),
					File: seg.Path}, c.Now)
			case i > 0 && seg.Number != s.Segments[i-1].Number+1:
				c.state.addAlarm(&alarm{Item: "intact", Level: Critical, What: fmt.Sprintf("segments %d to %d of "+
					"stream %d are missing", s.Segments[i-1].Number+1, seg.Number-1, s.Number)}, c.Now)
			case seg.Err == nil && (seg.Header.Number != seg.Number || seg.Header.Stream != s.Number):
				c.state.addAlarm(&alarm{Item: "intact", Level: Critical,
					What: fmt.Sprintf("%s: its header is that of "+
						"segment %d of stream %d", seg.Path, seg.Header.Number, seg.Header.Stream), File: seg.Path},
					c.Now)
			}
		}
	}
}

// sealSlack is how late a seal may be.
const sealSlack = 10 * time.Second

// checkSeals checks that seals are made in time.
func (c *checker) checkSeals() {
	r := c.result
	wanted := c.setting("steno.signing_key_file") != ""
	var oldest time.Duration
	found, late := false, ""
	for _, last := range c.report.Ends() {
		if last.Block == 0 {
			continue
		}
		// Without a key to check them with, seals are only known as records.
		at, open := c.events.sealed[last.Stream], c.events.unsealed[last.Stream]
		interval, known := format.SettingTime(c.setting("steno.seal_interval"), time.Second)
		if !known {
			interval = time.Minute
		}
		due := open > 0 && interval > 0 && c.since(open) > interval+sealSlack && !c.events.stopped()
		switch {
		case at == 0 && wanted && due:
			late = fmt.Sprintf("stream %d has no seal, although steno.signing_key_file is set", last.Stream)
		case at != 0 && due && (wanted || c.state.Settings == nil):
			late = fmt.Sprintf("stream %d is not sealed since %s, and has records since then: it should be every %s",
				last.Stream, render.Time(at), interval)
		}
		if at != 0 {
			found, oldest = true, max(oldest, c.since(at))
		}
	}
	if found {
		r.gauge("last_seal_age_seconds", "s", "Age of the oldest of the last seals of the streams.", oldest.Seconds())
	}
	switch {
	case c.report.UnreadBlocks > 0:
	case late != "":
		r.add("sealed", Critical, "%s", late)
	case !found && wanted:
		r.add("sealed", OK, "nothing is sealed yet")
	case !found:
		r.add("sealed", OK, "there is no signing key")
	case len(c.Keys) == 0:
		r.add("sealed", OK, "last seal %s ago, not checked: no key was given", ago(oldest))
	default:
		r.add("sealed", OK, "last seal %s ago", ago(oldest))
	}
}

// checkLosses reports losses, and runs of the server that ended without a stop.
func (c *checker) checkLosses() {
	r, e, s := c.result, &c.events, c.state
	s.Dropped += e.dropped
	s.Refused += e.refused
	s.Lost += e.lost
	var ends []alarm
	s.Run, ends = e.findRuns(s.Run)
	for _, what := range append(e.losses, ends...) {
		s.addAlarm(&what, c.Now)
	}
	if n := c.server.unrecorded; n > 0 {
		r.add("losses", Critical, "the server has dropped %s records of which the trail does not know yet",
			humanize.Comma(int64(n)))
	}
	r.total("dropped_records_total", "Records that were dropped, since the first check.", s.Dropped)
	r.total("refused_statements_total", "Statements that were refused because the trail could not be written, since "+
		"the first check.", s.Refused)
	r.total("lost_blocks_total", "Blocks that could not be synced and read back, since the first check.", s.Lost)
	lag, late := c.isLate()
	switch {
	case len(e.losses)+len(ends) > 0 || c.server.unrecorded > 0:
	case late:
		r.add("losses", OK, "nothing is known to have been dropped, refused or lost since %s; what was in the last "+
			"%s is not in the trail yet", c.sinceWhen(), ago(lag))
	default:
		r.add("losses", OK, "nothing dropped, refused or lost since %s", c.sinceWhen())
	}
}

func (c *checker) sinceWhen() string {
	if c.result.Since != "" {
		return "the last check"
	}
	return "the last segments began"
}

// checkRecording checks that the settings record what they should.
func (c *checker) checkRecording() {
	r, s := c.result, c.state
	if !s.Time.IsZero() {
		for i := range c.events.changed {
			s.addAlarm(&alarm{Item: "recorded", Level: Warning, What: c.events.changed[i].String()}, c.Now)
		}
	}
	if s.Settings == nil && len(c.Expect) == 0 {
		r.add("recorded", OK, "changes are seen, but not which settings are in effect: no record of a start of the "+
			"server is left")
		return
	}
	if s.Settings == nil {
		r.add("recorded", Unknown, "whether settings are as expected is not known: no record of a start of the "+
			"server is left that says them")
		return
	}
	level, wrong := OK, []string{}
	if v := s.Settings["steno.log"]; strings.TrimSpace(v) == "none" &&
		!slices.ContainsFunc(c.Expect, func(e string) bool {
			return strings.HasPrefix(e, "steno.log=")
		}) {
		level, wrong = Critical, append(wrong, "steno.log is 'none': statements are not recorded")
	}
	if v := s.Settings[proof.MinMessages]; proof.HidesFailures(v) {
		level, wrong = worseOf(level, Warning),
			append(wrong, fmt.Sprintf("%s is '%s': statements that fail before they are planned leave no record",
				proof.MinMessages, v))
	}
	for _, e := range c.Expect {
		name, want, _ := strings.Cut(e, "=")
		have, set := s.Settings[name]
		if !set {
			have, set = proof.SettingDefault(name)
		}
		switch {
		case !set:
			level, wrong = Critical, append(wrong, fmt.Sprintf("%s has its default, and '%s' is expected: set it in "+
				"the server's configuration", name, want))
		case !sameValue(have, want):
			level, wrong = Critical, append(wrong, fmt.Sprintf("%s is '%s', expected '%s'", name, have, want))
		}
	}
	if len(wrong) > 0 {
		r.add("recorded", level, "%s", strings.Join(wrong, ", "))
		return
	}
	if len(c.events.changed) == 0 {
		r.add("recorded", OK, "no setting of pg_steno was changed since %s", c.sinceWhen())
	}
}

// sameValue compares values of a setting, regardless of spaces and of the order of a list.
func sameValue(a, b string) bool {
	if x, ok := format.SettingSize(a, 1<<20); ok {
		if y, ok := format.SettingSize(b, 1<<20); ok && x == y {
			return true
		}
	}
	if x, ok := format.SettingTime(a, time.Second); ok {
		if y, ok := format.SettingTime(b, time.Second); ok && x == y && strings.Trim(a, "0123456789") != "" &&
			strings.Trim(b, "0123456789") != "" {
			return true
		}
	}
	split := func(s string) []string {
		list := strings.Split(s, ",")
		for i := range list {
			list[i] = strings.ToLower(strings.TrimSpace(list[i]))
		}
		slices.Sort(list)
		return list
	}
	return slices.Equal(split(a), split(b))
}

// checkSlots reports slots that have lost, or may soon lose, something.
func (c *checker) checkSlots() {
	r := c.result
	all, err := slot.Statuses(c.trail)
	if err != nil {
		r.add("slots", Unknown, "%s", query.OpenError(err))
		return
	}
	most, _ := format.SettingSize(c.setting("steno.slot_max_size"), 1<<20)
	limit := float64(max(0, most))
	level, wrong := OK, []string{}
	for i := range all {
		s := &all[i]
		r.Metrics = append(r.Metrics, Metric{Name: "slot_behind_bytes", Label: s.Name, Value: float64(s.Bytes),
			kind: "gauge", unit: "B", help: "Bytes that a slot keeps."})
		switch {
		case s.State != slot.Active:
			level, wrong = Critical, append(wrong, fmt.Sprintf("slot %s is %s", s.Name, s.State))
		case limit > 0 && float64(s.Bytes) >= limit*c.SlotWarning/100:
			level, wrong = worseOf(level, Warning),
				append(wrong, fmt.Sprintf("slot %s keeps %s, %.0f %% of steno.slot_max_size", s.Name,
					humanize.IBytes(uint64(s.Bytes)), 100*float64(s.Bytes)/limit))
		}
	}
	switch {
	case len(wrong) > 0:
		r.add("slots", level, "%s", strings.Join(wrong, ", "))
	case len(all) > 0:
		r.add("slots", OK, "%d", len(all))
	}
}

// checkDisk checks how full the trail's disk is.
func (c *checker) checkDisk() {
	r := c.result
	used, free, err := usage(c.trail.Path)
	if err != nil {
		r.add("disk", Unknown, "%s", err)
		return
	}
	r.gauge("disk_used_percent", "%", "What is used of the disk of the trail.", used)
	r.gauge("disk_free_bytes", "B", "What is free on the disk of the trail.", free)
	r.gauge("trail_bytes", "B", "Size of the trail.", float64(c.trail.Size()))
	level := OK
	switch {
	case used >= c.DiskCritical:
		level = Critical
	case used >= c.DiskWarning:
		level = Warning
	}
	r.add("disk", level, "%.0f %% used", used)
}

// checkRetention checks that nothing was deleted that had to be kept.
func (c *checker) checkRetention() {
	r := c.result
	for _, what := range c.events.earlyDeletions {
		c.state.addAlarm(&what, c.Now)
	}
	if c.Keep == 0 {
		return
	}
	var wrong []string
	oldest := int64(format.MaxTime)
	for _, s := range c.trail.Streams {
		if len(s.Segments) == 0 {
			continue
		}
		first := s.Segments[0]
		if first.Err != nil || first.Number == 1 {
			continue
		}
		// deleted records were written before the first existing segment
		if age := c.since(first.Header.Created); age < c.Keep {
			wrong = append(wrong, fmt.Sprintf("stream %d begins %s ago", s.Number, ago(age)))
		}
		oldest = min(oldest, first.Header.Created)
	}
	switch {
	case len(wrong) > 0:
		r.add("kept", Critical, "records were deleted that must be kept for %s: %s", ago(c.Keep),
			strings.Join(wrong, ", "))
	case oldest == format.MaxTime:
		r.add("kept", OK, "nothing was ever deleted")
	default:
		r.add("kept", OK, "records of the last %s", ago(c.since(oldest)))
	}
}

// reportEarlier reports what earlier checks found, and saves the end of this one.
func (c *checker) reportEarlier() {
	r, s := c.result, c.state
	s.Time = c.Now
	s.Alarms = slices.DeleteFunc(s.Alarms, func(a alarm) bool {
		if c.Forget && !a.Seen.Equal(c.Now) { // results of this check cannot have been seen yet
			return true
		}
		if a.File != "" { // damage is reported as long as its file exists
			return a.isGone() && !a.Seen.Equal(c.Now)
		}
		return c.Now.Sub(a.Seen) > c.Remember
	})
	for _, a := range s.Alarms {
		when := ""
		if !a.Seen.Equal(c.Now) {
			when = fmt.Sprintf(" (found %s ago)", ago(c.Now.Sub(a.Seen)))
		}
		r.add(a.Item, a.Level, "%s%s", a.What, when)
	}
	for _, last := range c.report.Ends() {
		if last.Block == 0 {
			continue
		}
		s.setPosition(&last, c.events.sealed[last.Stream], c.events.unsealed[last.Stream], c.Forget)
	}
	for _, one := range c.trail.Streams {
		for _, seg := range one.Segments {
			if seg.Err == nil {
				s.System, r.System = seg.Header.SystemID, seg.Header.SystemID
			}
		}
	}
	// The worst come first.
	slices.SortStableFunc(r.Items, func(a, b Item) int {
		if a.Level == b.Level {
			return 0
		}
		if worseOf(a.Level, b.Level) == a.Level {
			return -1
		}
		return 1
	})
}

// selectRelevant selects the groups of blocks with records that a check reads.
func selectRelevant(c *format.Contents) format.Groups {
	g := proof.LackGroups(c)
	g.Or(c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return k == format.KindSeal }))
	return g
}

// StatePath is the file in which the state of a trail's checks is kept, if none is named: in $STATE_DIRECTORY,
// /var/lib/steno for root, or steno in $XDG_STATE_HOME or ~/.local/state.
func StatePath(t *trail.Trail) (string, error) {
	dir := os.Getenv("STATE_DIRECTORY")
	switch {
	case dir != "":
	case os.Geteuid() == 0:
		dir = "/var/lib/steno"
	case os.Getenv("XDG_STATE_HOME") != "":
		dir = filepath.Join(os.Getenv("XDG_STATE_HOME"), "steno")
	default:
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no directory for the state of checks, and no file was named: %w", err)
		}
		dir = filepath.Join(home, ".local", "state", "steno")
	}
	return filepath.Join(dir, stateName(t)), nil
}
